/* Decision-service JSON of Vowpal Wabbit: one contextual-bandit decision a line, joined with its outcome.
 *
 *   _label_Action      the action chosen, from 1 (or _labelIndex, from 0)     _label_cost   minus the reward
 *   _label_probability with which it was chosen                               Timestamp, EventId
 *   a, p               the actions in the order of their ranking, and their probabilities; p may be left out
 *   c                  the context: namespaces of features, and `_multi`, the features of each action
 *   c._slots, _outcomes   a decision with slots: see log_dsjson_slots.c
 *   _skipLearn, DeferredAction, pdrop, RewardValue        see `why_skipped`
 *
 * An action's id is its `_tag`, else its `id`, else i.id (personalisation services write it so), else "#" and its place
 * from 1. Features: "namespace^name" as number or category; objects in objects are namespaces, members whose names
 * begin with "_" are none. A name that stands twice counts once, with its last value. Where the tenant has a mapping of
 * names, context and actions are the objects that it maps; those that Azure Personalizer has written are read as its
 * Rank is (json_personalizer.c): the list `FromUrl` of a context, and the list `j` of an action, as one object. The
 * mapping may say where a context names its user; else there is none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/log_dsjson.h"

/* --- one action --------------------------------------------------------------------------------------- */

/* The whole number of a member in lo..hi, or `otherwise` when there is none; hi + 1 with a fault. */
static size_t read_index(struct lc_log *log, const struct json_t *doc, const char *key, size_t lo, size_t hi)
{
    double v;

    if (!lc_json_number(lc_json_get(doc, key), &v) || v != floor(v) || v < (double)lo || v > (double)hi) {
        ld_decisions_fail(&log->base, key, "expected a whole number from %zu to %zu", lo, hi);
        return hi + 1;
    }
    return (size_t)v;
}

/* Both spellings, where both are there, must agree. */
static int read_chosen(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    const bool has_index = lc_json_get(doc, "_labelIndex") != NULL;
    const bool has_action = lc_json_get(doc, "_label_Action") != NULL;
    size_t index = 0, action = 0;

    if (!has_index || has_action) {
        action = read_index(log, doc, "_label_Action", 1, ev->n);
        if (action > ev->n)
            return -1;
    }
    if (has_index) {
        index = read_index(log, doc, "_labelIndex", 0, ev->n - 1);
        if (index > ev->n - 1)
            return -1;
    }
    if (has_index && has_action && index + 1 != action)
        return ld_decisions_fail(&log->base, "_labelIndex", "%zu is not _label_Action %zu less one", index, action);
    ev->chosen = has_index ? index : action - 1;
    return 0;
}

/* The members of `a` count from 1; from 0 where one of them is 0. */
static int read_distribution(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    const struct json_t *a = lc_json_get(doc, "a"), *p = lc_json_get(doc, "p");
    struct lc_dsjson *s = log->state;
    double v, sum = 0, from = 1;

    if (a == NULL || p == NULL)
        return 0;
    if (lc_json_length(a) != ev->n || lc_json_length(p) != ev->n)
        return ld_decisions_fail(&log->base, "p", "expected as many as there are actions (%zu), and so of `a`", ev->n);
    s->logged = lc_room(s->logged, &s->cap_logged, ev->n, sizeof *s->logged);
    for (size_t i = 0; i < ev->n; i++) {
        s->logged[i] = (double)NAN;
        if (lc_json_number(lc_json_at(a, i), &v) && v == 0.0)
            from = 0;
    }
    for (size_t i = 0; i < ev->n; i++) {
        if (!lc_json_number(lc_json_at(a, i), &v) || v != floor(v) || v < from || v >= from + (double)ev->n)
            return ld_decisions_fail(&log->base, "a", "expected the numbers of the actions");
        const size_t k = (size_t)(v - from);
        if (!isnan(s->logged[k]))
            return ld_decisions_fail(&log->base, "a", "an action stands twice");
        if (!lc_json_number(lc_json_at(p, i), &s->logged[k]) || !(s->logged[k] >= 0.0))
            return ld_decisions_fail(&log->base, "p", "expected probabilities");
        sum += s->logged[k];
    }
    if (fabs(sum - 1.0) > 1e-3)
        return ld_decisions_fail(&log->base, "p", "the probabilities add up to %g, not to 1", sum);
    ev->logged = s->logged;
    return 0;
}

/* --- lines -------------------------------------------------------------------------------------------- */

static bool is_taken(const struct json_t *doc)
{
    const struct json_t *o = lc_json_get(doc, "o");

    for (size_t i = 0; i < lc_json_length(o); i++)
        if (lc_json_is_true(lc_json_get(lc_json_at(o, i), "ActionTaken")))
            return true;
    return false;
}

/* The reason for which a line is no decision to learn from; NULL: it is one. */
static const char *why_skipped(const struct json_t *doc)
{
    const struct json_t *c = lc_json_get(doc, "c");

    if (lc_json_get(lc_json_at(lc_json_get(c, "_multi"), 0), "_slot_id") != NULL)
        return "slates (_slot_id): one cost of several actions";
    if (c == NULL && (lc_json_get(doc, "RewardValue") != NULL || lc_json_get(doc, "ActionTaken") != NULL))
        return "dangling outcomes (RewardValue) without their decision";
    if (lc_json_is_true(lc_json_get(doc, "_skipLearn")))
        return "not to be learned from (_skipLearn)";
    if (lc_json_is_true(lc_json_get(doc, "DeferredAction")) && !is_taken(doc))
        return "deferred and not activated (DeferredAction)";
    if (lc_json_get(c, "_multi") != NULL && lc_json_get(doc, "_label_cost") == NULL &&
        lc_json_get(doc, "_label_Action") == NULL && lc_json_get(doc, "_outcomes") == NULL)
        return "without a label (_label_cost, _outcomes)";
    return NULL;
}

/* Of a line of either kind: id, time, and that it stands for itself alone. */
static int read_head(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    const struct json_t *drop = lc_json_get(doc, "pdrop");
    const char *at = lc_json_text(doc, "Timestamp");
    double share = 0;

    if (drop != NULL && (!lc_json_number(drop, &share) || share != 0.0))
        return ld_decisions_fail(&log->base, "pdrop",
                                 "the log was thinned out: lines that stand for several are not served");
    if (at != NULL && !lc_log_time(at, &ev->at_ms))
        return ld_decisions_fail(&log->base, "Timestamp", "\"%.40s\" is no time", at);
    ev->id = lc_json_text(doc, "EventId");
    return 0;
}

static int read_label(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    const struct json_t *p = lc_json_get(doc, "_label_probability");
    double cost;

    if (!lc_json_number(lc_json_get(doc, "_label_cost"), &cost))
        return ld_decisions_fail(&log->base, "_label_cost", "expected a number");
    if (p != NULL && !lc_json_number(p, &ev->propensity))
        return ld_decisions_fail(&log->base, "_label_probability", "expected a number in (0, 1]");
    ev->reward = 0.0 - cost; /* and not -0 */
    return ld_decisions_check(&log->base, ev);
}

static int read_line(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    const struct json_t *c = lc_json_get(doc, "c");
    const bool is_ours = lc_json_get(c, "_laplaced") != NULL; /* written by log_writer.c */
    const char *reason = why_skipped(doc);

    if (reason != NULL) {
        ld_decisions_skip(&log->base, reason);
        return 0;
    }
    if (!lc_json_is_object(c))
        return ld_decisions_fail(&log->base, "c", "expected the context, an object");
    if (lc_dsjson_actions(log, lc_json_get(c, "_multi"), is_ours, ev) != 0 || read_head(log, doc, ev) != 0)
        return -1;
    ev->user = lc_dsjson_user(log, c, is_ours);
    if (ev->user == NULL)
        return -1;
    if (h.dim > 0) {
        if (lc_dsjson_features(log, &h, "c", c, is_ours, log->base.context) != 0)
            return -1;
        ev->context = log->base.context;
    }
    if (lc_json_get(c, "_slots") != NULL || lc_json_get(doc, "_outcomes") != NULL)
        return lc_dsjson_slots(log, doc, is_ours, ev);
    return read_chosen(log, doc, ev) == 0 && read_distribution(log, doc, ev) == 0 && read_label(log, doc, ev) == 0 ? 1
                                                                                                                   : -1;
}

static int open_dsjson(struct lc_log *log)
{
    (void)log; /* nothing stands in front of the lines */
    return 0;
}

static void close_dsjson(struct lc_log *log)
{
    struct lc_dsjson *s = log->state;

    lc_json_free(s->doc);
    free(s->logged);
    lc_dsjson_slots_close(s);
}

static int next_dsjson(struct lc_log *log, struct ld_logged *ev)
{
    struct lc_dsjson *s = log->state;
    char why[LC_WHY];
    size_t n;
    int rc;

    while ((rc = lc_log_line(log, &n)) == 1) {
        lc_json_free(s->doc);
        s->doc = lc_json_parse_loosely(log->buffer, n, why);
        if (!lc_json_is_object(s->doc))
            return ld_decisions_fail(&log->base, NULL, "%s", s->doc == NULL ? why : "expected a JSON object");
        rc = read_line(log, s->doc, ev);
        if (rc != 0)
            return rc;
    }
    return rc;
}

const struct lc_log_reader_ops lc_log_dsjson = {"dsjson", open_dsjson, next_dsjson, close_dsjson,
                                                sizeof(struct lc_dsjson)};
