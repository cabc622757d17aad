/* See log_own.h. */
#include "evaluate/log_own.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/log_features.h"
#include "evaluate/log_metric.h"
#include "evaluate/log_strict.h"

const char *lc_log_id(struct lc_log *log, const struct json_t *v, char text[32])
{
    const char *key = lc_json_get(v, "id") != NULL ? "id" : "arm"; /* `arm`: in our log's `among` */
    const char *id = lc_json_is_object(v) ? lc_json_string(lc_json_get(v, key)) : lc_json_id(v, text);

    if (id == NULL)
        ld_decisions_fail(&log->base, "arm", "expected an id, or an object with an id");
    return id;
}

/* Arm i of the line, whose vector is kept beside the others; i 0: the line's own. features NULL or empty: none. -1 with
 * why. */
static int keep_vector(struct lc_own *s, struct lc_log *log, const struct json_t *features, size_t i,
                       const double **out)
{
    const struct ld_hasher h = {log->base.o.arm_dim, log->base.o.hash_seed};

    *out = NULL;
    if (h.dim == 0 || lc_json_length(features) == 0)
        return 0;
    s->vector = lc_room(s->vector, &s->n_vectors, i + 1, sizeof *s->vector);
    if (s->vector[i] == NULL)
        s->vector[i] = lc_alloc(h.dim, sizeof(double));
    *out = s->vector[i];
    return lc_log_vector(log, &h, LD_NAMED_ARM, "features", features, s->vector[i]);
}

static int read_time(struct lc_log *log, const struct json_t *doc, struct kb_event *ev)
{
    const char *at = lc_json_text(doc, "at");

    if (at != NULL && !lc_log_time(at, &ev->at_ms))
        return ld_decisions_fail(&log->base, "at", "\"%.40s\" is no time", at);
    return 0;
}

/* An array is there, perhaps with nothing in it. */
static int read_among(struct lc_own *s, struct lc_log *log, const struct json_t *list, struct kb_event *ev)
{
    const size_t n = lc_json_length(list);
    char text[32];

    if (list == NULL)
        return 0;
    s->among = lc_room(s->among, &s->cap_among, n + 1, sizeof *s->among);
    for (size_t i = 0; i < n; i++) {
        const struct json_t *v = lc_json_at(list, i);
        s->among[i].arm = lc_log_id(log, v, text);
        if (s->among[i].arm == text)
            return ld_decisions_fail(&log->base, "among", "expected ids");
        if (s->among[i].arm == NULL ||
            keep_vector(s, log, lc_json_get(v, "features"), i + 1, &s->among[i].features) != 0)
            return -1;
    }
    ev->as.decided.among = s->among;
    ev->as.decided.n_among = n;
    return 0;
}

/* `candidates`; 0: not told. */
static uint32_t read_count(const struct json_t *v)
{
    double n = 0;

    (void)lc_json_number(lc_json_get(v, "candidates"), &n);
    return n >= 1 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

/* Slot k of the line, with the arm that `slate` has there: of a decision of one slot there is no such list. */
static int read_slot(struct lc_own *s, struct lc_log *log, const struct json_t *doc, size_t k, size_t n_among)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    const struct json_t *v = lc_json_at(lc_json_get(doc, "slots"), k), *context = lc_json_get(v, "context"),
                        *shown = k > 0 ? lc_json_at(lc_json_get(doc, "slate"), k) : doc;
    struct kb_ev_draw *draw = &s->draws[k];

    *draw = (struct kb_ev_draw){.id = lc_json_text(v, "id"), .propensity = (double)NAN};
    s->slots[k] = (struct kb_ev_slot){.arm = lc_json_text(shown, "arm")};
    if (draw->id == NULL || s->slots[k].arm == NULL)
        return ld_decisions_fail(&log->base, "slots", "expected ids of slots, and an arm of each in `slate`");
    if (!lc_json_number(lc_json_get(v, "propensity"), &draw->propensity))
        return ld_decisions_fail(&log->base, "slots", "expected a propensity in (0, 1]");
    draw->n_candidates = read_count(v);
    if (keep_vector(s, log, lc_json_get(shown, "features"), n_among + 1 + k, &s->slots[k].features) != 0)
        return -1;
    if (context == NULL || h.dim == 0)
        return 0;
    s->contexts = lc_room(s->contexts, &s->n_contexts, k + 1, sizeof *s->contexts);
    if (s->contexts[k] == NULL)
        s->contexts[k] = lc_alloc(h.dim, sizeof(double));
    draw->context = s->contexts[k];
    return lc_log_vector(log, &h, LD_NAMED_CONTEXT, "context", context, s->contexts[k]);
}

/* Slots with names, where the line has them. */
static int read_slots(struct lc_own *s, struct lc_log *log, const struct json_t *doc, struct kb_event *ev)
{
    const size_t n = lc_json_length(lc_json_get(doc, "slots"));
    int rc = 0;

    if (n == 0)
        return 0;
    if (n > KB_MAX_SLOTS)
        return ld_decisions_fail(&log->base, "slots", "more than %u", KB_MAX_SLOTS);
    for (size_t k = 0; rc == 0 && k < n; k++)
        rc = read_slot(s, log, doc, k, ev->as.decided.n_among);
    ev->as.decided.slots = s->slots;
    ev->as.decided.draws = s->draws;
    ev->as.decided.n_slots = n;
    return rc;
}

static int read_route(struct lc_log *log, const struct json_t *doc, enum kb_route *out)
{
    const char *route = lc_json_text(doc, "route");
    int at = route != NULL ? kb_word_value(&kb_route_words, route) : KB_ROUTE_POLICY;

    if (at < 0)
        return ld_decisions_fail(&log->base, "route", "\"%.40s\" is not known", route);
    *out = (enum kb_route)at;
    return 0;
}

static int read_decided(struct lc_own *s, struct lc_log *log, const struct json_t *doc, struct kb_event *ev,
                        struct kb_ev_slot *slot)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    const struct json_t *p = lc_json_get(doc, "propensity"), *user = lc_json_get(doc, "user");
    char text[32];

    ev->as.decided.decision = lc_json_text(doc, "decision");
    if (ev->as.decided.decision == NULL)
        return ld_decisions_fail(&log->base, "decision", "expected an id");
    ev->as.decided.user = user != NULL ? lc_json_string(user) : "-";
    if (ev->as.decided.user == NULL || *ev->as.decided.user == '\0' || strlen(ev->as.decided.user) > KB_ID_MAX_BYTES)
        return ld_decisions_fail(&log->base, "user", "expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
    ev->as.decided.propensity = (double)NAN;
    if (p != NULL && !lc_json_number(p, &ev->as.decided.propensity))
        return ld_decisions_fail(&log->base, "propensity", "expected a number in (0, 1]");
    if ((slot->arm = lc_log_id(log, lc_json_get(doc, "arm"), text)) == NULL || slot->arm == text)
        return ld_decisions_fail(&log->base, "arm", "expected an id");
    ev->as.decided.slots = slot;
    ev->as.decided.n_slots = 1;
    ev->as.decided.n_candidates = read_count(doc);
    ev->as.decided.is_deferred = lc_json_is_true(lc_json_get(doc, "deferred"));
    if (h.dim > 0) {
        memset(log->base.context, 0, h.dim * sizeof *log->base.context);
        ev->as.decided.context = log->base.context;
        const struct json_t *context = lc_json_get(doc, "context");
        if (context != NULL && lc_log_vector(log, &h, LD_NAMED_CONTEXT, "context", context, log->base.context) != 0)
            return -1;
    }
    if (keep_vector(s, log, lc_json_get(doc, "features"), 0, &slot->features) != 0 || read_time(log, doc, ev) != 0)
        return -1;
    if (read_route(log, doc, &ev->as.decided.route) != 0 || read_among(s, log, lc_json_get(doc, "among"), ev) != 0)
        return -1;
    return read_slots(s, log, doc, ev);
}

/* What is not told is NaN. */
static int read_reward(struct lc_log *log, const struct json_t *doc, double *out)
{
    const struct json_t *v = lc_json_get(doc, "reward");

    *out = (double)NAN;
    return v == NULL || lc_json_number(v, out) ? 0 : ld_decisions_fail(&log->base, "reward", "expected a number");
}

/* What was told of a metric, under `key`, and what it has come to by that. */
static int read_metric(struct lc_log *log, const struct json_t *doc, const char *key, struct kb_ev_metric *out)
{
    const struct json_t *value = lc_json_get(doc, key), *total = lc_json_get(doc, "total");

    *out = (struct kb_ev_metric){.name = lc_json_text(doc, "metric"), .has_total = total != NULL};
    if (out->name == NULL)
        return 0;
    if (!lc_json_number(value, &out->value) || (total != NULL && !lc_json_number(total, &out->total)))
        return ld_decisions_fail(&log->base, "metric", "expected numbers");
    return 0;
}

static size_t read_ids(const struct json_t *list, const char ***out, size_t *cap)
{
    size_t n = 0;

    *out = lc_room(*out, cap, lc_json_length(list) + 1, sizeof **out);
    for (size_t i = 0; i < lc_json_length(list); i++)
        if (lc_json_string(lc_json_at(list, i)) != NULL)
            (*out)[n++] = lc_json_string(lc_json_at(list, i));
    return n;
}

/* An arm of a list, in its i-th place. */
static int read_arm(struct lc_own *s, struct lc_log *log, const struct json_t *v, size_t i, const char **id,
                    const double **features)
{
    char text[32];

    *id = lc_log_id(log, v, text);
    if (*id == NULL || keep_vector(s, log, lc_json_get(v, "features"), i + 1, features) != 0)
        return -1;
    return *id == text ? ld_decisions_fail(&log->base, "arm", "expected an id") : 0;
}

/* The arms of a catalogue. */
static int read_arms(struct lc_own *s, struct lc_log *log, const struct json_t *doc, struct kb_event *ev)
{
    const struct json_t *arms = lc_json_get(doc, "put");
    const size_t n = lc_json_length(arms);

    ev->type = KB_EV_ARMS;
    ev->as.arms.is_replace = lc_json_is_true(lc_json_get(doc, "replace"));
    ev->as.arms.n_remove = read_ids(lc_json_get(doc, "remove"), &s->remove, &s->cap_remove);
    ev->as.arms.n_stop = read_ids(lc_json_get(doc, "stop"), &s->stop, &s->cap_stop);
    ev->as.arms.n_start = read_ids(lc_json_get(doc, "start"), &s->start, &s->cap_start);
    s->put = lc_room(s->put, &s->cap_put, n + 1, sizeof *s->put);
    for (size_t i = 0; i < n; i++) {
        const struct json_t *v = lc_json_at(arms, i);
        s->put[i] = (struct kb_ev_arm){.is_active = lc_json_is_true(lc_json_get(v, "active")),
                                       .is_stopped = lc_json_is_true(lc_json_get(v, "stopped"))};
        if (read_arm(s, log, v, i, &s->put[i].id, &s->put[i].features) != 0)
            return -1;
    }
    ev->as.arms.put = s->put;
    ev->as.arms.n_put = n;
    ev->as.arms.remove = s->remove;
    ev->as.arms.stop = s->stop;
    ev->as.arms.start = s->start;
    return 0;
}

/* The part of a summary that has the arms. */
static int read_known_arms(struct lc_own *s, struct lc_log *log, const struct json_t *doc, struct kb_event *ev)
{
    const struct json_t *arms = lc_json_get(doc, "arms");
    const size_t n = lc_json_length(arms);

    s->known = lc_room(s->known, &s->cap_known, n + 1, sizeof *s->known);
    for (size_t i = 0; i < n; i++) {
        const struct json_t *v = lc_json_at(arms, i), *here = lc_json_get(v, "in_catalogue");
        s->known[i] = (struct kb_ev_known_arm){.is_in_catalogue = here == NULL || lc_json_is_true(here),
                                               .is_active = lc_json_is_true(lc_json_get(v, "active")),
                                               .is_stopped = lc_json_is_true(lc_json_get(v, "stopped"))};
        if (read_arm(s, log, v, i, &s->known[i].id, &s->known[i].features) != 0)
            return -1;
    }
    s->summary = (struct kb_ev_summary){.part = KB_PART_ARMS, .arms = s->known, .n_arms = n};
    ev->type = KB_EV_SUMMARY;
    ev->as.summary = &s->summary;
    return 0;
}

/* Whether values are kept beside the reward: of all metrics but a single objective. */
static bool has_metrics(const struct json_t *metrics)
{
    size_t n_objectives = 0;

    for (size_t i = 0; i < lc_json_length(metrics); i++) {
        const char *role = lc_json_text(lc_json_at(metrics, i), "role");
        n_objectives += role != NULL && strcmp(role, "objective") == 0 ? 1 : 0;
    }
    return lc_json_length(metrics) > (n_objectives == 1 ? 1 : 0);
}

/* Of a configuration how rewards are booked. */
static int read_books(struct lc_log *log, const struct json_t *doc, struct kb_event *ev, struct kb_spec *spec)
{
    const char *how = lc_json_text(lc_json_get(doc, "configuration"), "aggregation");
    const int at = how != NULL ? kb_word_value(&kb_aggregation_words, how) : KB_AGG_FIRST;

    if (at < 0)
        return ld_decisions_fail(&log->base, "aggregation", "\"%.40s\" is not known", how);
    spec->aggregation = (enum kb_aggregation)at;
    spec->has_metrics = has_metrics(lc_json_get(lc_json_get(doc, "configuration"), "metrics"));
    ev->type = KB_EV_CONFIGURED;
    ev->as.configured.spec = spec;
    return 0;
}

/* Whoever has a model of users wants to know: told by the event as the server reads it. */
static enum kb_err tell_graph(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct lc_log *log = arg;
    struct ld_message why = {""};

    if (log->pass->graph(log->pass->arg, &line->ev, &why) == 0)
        return KB_OK;
    return kb_fail(KB_EINVAL, msg, "", "%.*s", (int)sizeof msg->text - 1, why.text);
}

static int change_graph(struct lc_log *log, size_t n)
{
    if (log->pass == NULL || log->pass->graph == NULL)
        return 0;
    return lc_log_strictly(log, n, "graph", tell_graph, log);
}

/* Whether decisions from here on count. */
static void note_metric(void *arg, const struct ld_settings *s)
{
    struct lc_own *own = arg;
    const struct lc_log *log = (const struct lc_log *)own->log.d;

    own->log.is_measured = lc_metric_counts(log->o.metric, s);
}

/* The event of a line, as far as decisions need it; its type is KB_EV_NONE where they do not. 0, or -1 with why. */
static int read_event(struct lc_own *s, struct lc_log *log, const struct json_t *doc, struct kb_event *ev,
                      struct kb_ev_slot *slot, struct kb_spec *spec)
{
    const char *type = lc_json_text(doc, "type");
    const char *part = lc_json_text(doc, "part"), *id = lc_json_text(doc, "decision");

    *ev = (struct kb_event){.type = KB_EV_NONE};
    if (strcmp(type, "arms") == 0)
        return read_arms(s, log, doc, ev);
    if (part != NULL && strcmp(part, "arms") == 0)
        return read_known_arms(s, log, doc, ev);
    if (strcmp(type, "configured") == 0 || (part != NULL && strcmp(part, "begin") == 0))
        return read_books(log, doc, ev, spec);
    if (strcmp(type, "decided") == 0) {
        ev->type = KB_EV_DECIDED;
        return read_decided(s, log, doc, ev, slot);
    }
    if (strcmp(type, "rewarded") == 0) {
        ev->type = KB_EV_REWARDED;
        ev->as.rewarded.decision = id != NULL ? id : "";
        ev->as.rewarded.arm = lc_json_text(doc, "arm");
        if (read_metric(log, doc, "value", &ev->as.rewarded.metric) != 0)
            return -1;
        return read_reward(log, doc, &ev->as.rewarded.reward);
    }
    if (strcmp(type, "measured") == 0) {
        ev->type = KB_EV_MEASURED;
        ev->as.measured.decision = id != NULL ? id : "";
        ev->as.measured.arm = lc_json_text(doc, "arm");
        ev->as.measured.is_late = lc_json_is_true(lc_json_get(doc, "late"));
        return read_metric(log, doc, "reward", &ev->as.measured.metric);
    }
    if (strcmp(type, "expired") == 0) {
        ev->type = KB_EV_EXPIRED;
        ev->as.expired.decision = id != NULL ? id : "";
        ev->as.expired.has_reward = true; /* NaN: it has none */
        return read_reward(log, doc, &ev->as.expired.reward);
    }
    if (strcmp(type, "activated") == 0 && id != NULL) {
        ev->type = KB_EV_ACTIVATED;
        ev->as.activated.decision = id;
    }
    return 0;
}

int lc_own_take(struct lc_own *s, struct lc_log *log, const struct json_t *doc, size_t n, struct ld_logged *ev)
{
    struct kb_spec spec = {.aggregation = KB_AGG_FIRST};
    struct kb_ev_slot slot;
    struct kb_event own;

    if (strcmp(lc_json_text(doc, "type"), "graph") == 0)
        return change_graph(log, n);
    if (read_event(s, log, doc, &own, &slot, &spec) != 0)
        return -1;
    if (log->o.metric != NULL && own.type == KB_EV_CONFIGURED && lc_log_settings(log, n, note_metric, s) != 0)
        return -1;
    return ld_own_log_take(&s->log, &own, ev);
}

void lc_own_open(struct lc_own *s, struct lc_log *log)
{
    const struct lc_metric *metric = log->o.metric;

    s->log = (struct ld_own_log){.d = &log->base,
                                 .context_dim = log->base.o.context_dim,
                                 .arm_dim = log->base.o.arm_dim,
                                 .metric = metric != NULL ? &metric->is : NULL,
                                 .is_measured = metric != NULL && metric->is_told};
    ld_own_log_begin(&s->log);
}

void lc_own_close(struct lc_own *s)
{
    ld_own_log_close(&s->log);
    for (size_t i = 0; i < s->n_vectors; i++)
        free(s->vector[i]);
    free(s->vector);
    for (size_t i = 0; i < s->n_contexts; i++)
        free(s->contexts[i]);
    free(s->contexts);
    free(s->put);
    free(s->known);
    free(s->among);
    free((void *)s->remove);
    free((void *)s->stop);
    free((void *)s->start);
}
