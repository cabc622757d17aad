/* struct kb_event -> a line of the log (schema/event.schema.json): the inverse of json_event.c. A line holds all
 * that the event does, doubles bit for bit, so that a model can be folded from lines alone. What a type may have
 * and an event has not is left out (`arm` of a reward); what a type always has is always there, empty lists
 * included, so that readers in other languages need no defaults.
 *
 *   {"seq":7,"type":"rewarded","at":"2026-11-21T10:00:00.123Z","decision":"d1","reward":1}
 *
 * seq, type and at come first in every line, so that a person can read a log by its left edge. A line holds no
 * newline: strings are escaped.
 *
 * Written by the tenant's writer when a batch is appended, once for an event, and never again: exports and recovery
 * use the stored text. */
#include "json/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_routing.h"
#include "base/text.h"
#include "base/time_text.h"

/* Any time of the log, in the one form that ld_parse_time takes. */
static void put_time(struct ld_text *t, const char *name, int64_t at_ms)
{
    char text[32];
    ld_format_time(at_ms, text);
    ld_text_put_string(t, name, text);
}

/* --- parts ------------------------------------------------------------------------------------------- */

/* Features are null for arms that have none; a context of dimension 0 is []. dim values, or null when there is no
 * array behind a dimension > 0. */
static void put_vector(struct ld_text *t, const char *name, const double *x, uint32_t dim)
{
    ld_text_key(t, name);
    ld_text_vector(t, x, dim);
}

/* null, and not [], for an arm without features, whatever the dimension. */
static void put_features(struct ld_text *t, const double *x, uint32_t dim)
{
    ld_text_key(t, "features");
    if (x == NULL || dim == 0)
        ld_text_lit(t, "null");
    else
        ld_text_vector(t, x, dim);
}

/* Weights of removals mean nothing and are not written. Pairs in the order of the request; the weight is written even
 * where it is 1. */
static void put_edges(struct ld_text *t, const char *name, const struct kb_ev_edge *edges, size_t n, bool is_removal)
{
    ld_text_key(t, name);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "[");
        ld_text_string(t, edges[i].u);
        ld_text_item(t);
        ld_text_string(t, edges[i].v);
        if (!is_removal) {
            ld_text_item(t);
            ld_text_number(t, edges[i].weight);
        }
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "]");
}

/* An arm without features has no such member, which is how it was put. `active` is always there. */
static void put_arms(struct ld_text *t, const struct kb_ev_arm *arms, size_t n, uint32_t arm_dim)
{
    ld_text_key(t, "put");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", arms[i].id);
        if (arms[i].features != NULL && arm_dim > 0)
            put_vector(t, "features", arms[i].features, arm_dim);
        ld_text_put_bool(t, "active", arms[i].is_active);
        ld_text_put_restrictions(t, arms[i].is_stopped, arms[i].eligibility);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* All slots, the one drawn first; `arm` and `features` of the line repeat that one for readers who know no slates.
 * Only written for two slots or more. */
static void put_slate(struct ld_text *t, const struct kb_ev_slot *slots, size_t n, uint32_t arm_dim)
{
    ld_text_key(t, "slate");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", slots[i].arm);
        put_features(t, slots[i].features, arm_dim);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* An id for each candidate, or with its features where they were given inline. */
static void put_among(struct ld_text *t, const struct kb_ev_slot *among, size_t n, uint32_t arm_dim)
{
    ld_text_key(t, "among");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        if (among[i].features == NULL || arm_dim == 0) {
            ld_text_string(t, among[i].arm);
            continue;
        }
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", among[i].arm);
        put_vector(t, "features", among[i].features, arm_dim);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* --- one function a type that is more than a line ------------------------------------------------------- */

/* In full: presets may change between versions, a log may not. `version` counts configurations. Without memory the
 * text fails like any other (t->is_failed). */
static void put_configured(struct ld_text *t, const struct kb_event *ev, const struct ld_settings *settings)
{
    size_t n;
    /* The same text that a GET of the tenant shows under `configuration`. */
    char *configuration = ld_encode_settings(settings, &n);
    ld_text_put_count(t, "version", ev->as.configured.version);
    ld_text_key(t, "configuration");
    if (configuration == NULL)
        t->is_failed = true;
    ld_text_raw(t, configuration, n);
    free(configuration);
}

/* The propensity is that of slot 0 at the time; offline estimators need nothing else from the model. `deferred` is
 * written when it is true only, and `level` when there is one; `expires_at` is the end of the window for its reward. */
static void put_decided(struct ld_text *t, const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim)
{
    const struct kb_ev_slot *slots = ev->as.decided.slots;
    ld_text_put_string(t, "decision", ev->as.decided.decision);
    ld_text_put_string(t, "user", ev->as.decided.user);
    put_vector(t, "context", ev->as.decided.context, context_dim);
    ld_text_put_string(t, "arm", slots[0].arm);
    put_features(t, slots[0].features, arm_dim);
    ld_text_put_number(t, "propensity", ev->as.decided.propensity);
    if (!isnan(ev->as.decided.mean))
        ld_text_put_number(t, "mean", ev->as.decided.mean);
    put_time(t, "expires_at", ev->as.decided.expires_at_ms);
    if (ev->as.decided.is_deferred)
        ld_text_put_bool(t, "deferred", true);
    if (ev->as.decided.route != KB_ROUTE_POLICY)
        ld_text_put_string(t, "route", kb_word(&kb_route_words, (int)ev->as.decided.route));
    if (ev->as.decided.assigned_until_ms != 0)
        put_time(t, "assigned_until", ev->as.decided.assigned_until_ms);
    if (ev->as.decided.level > 0)
        ld_text_put_count(t, "level", ev->as.decided.level);
    if (ev->as.decided.n_slots > 1)
        put_slate(t, slots, ev->as.decided.n_slots, arm_dim);
    if (ev->as.decided.among != NULL)
        put_among(t, ev->as.decided.among, ev->as.decided.n_among, arm_dim);
}

/* Shared by `rewarded` and `late`. Without an arm, slot 0 was meant. The type alone says whether the reward was
 * learned. */
static void put_rewarded(struct ld_text *t, const char *decision, const char *arm, double reward)
{
    ld_text_put_string(t, "decision", decision);
    ld_text_put_number(t, "reward", reward);
    if (arm != NULL)
        ld_text_put_string(t, "arm", arm);
}

/* NaN stands for a propensity that was not told, and is not written. Features are those that were learned from, taken
 * from the catalogue where the request left them out (commit_observe.c). */
static void put_observed(struct ld_text *t, const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim)
{
    ld_text_put_string(t, "user", ev->as.observed.user);
    put_vector(t, "context", ev->as.observed.context, context_dim);
    ld_text_put_string(t, "arm", ev->as.observed.arm.arm);
    put_features(t, ev->as.observed.arm.features, arm_dim);
    ld_text_put_number(t, "reward", ev->as.observed.reward);
    /* The model does not use it; offline estimators do. */
    if (!isnan(ev->as.observed.propensity))
        ld_text_put_number(t, "propensity", ev->as.observed.propensity);
    if (ev->as.observed.id != NULL)
        ld_text_put_string(t, "id", ev->as.observed.id);
}

static bool is_mixed(const struct kb_event *ev)
{
    const double *energy = ev->as.dictionary.energy, *log_det = ev->as.dictionary.log_det;
    for (size_t i = 1; i < KB_N_MIXTURE; i++)
        if (energy[i] != energy[0] || log_det[i] != log_det[0])
            return true;
    return false;
}

static void put_sums(struct ld_text *t, const struct kb_event *ev, size_t component)
{
    ld_text_put_number(t, "energy", ev->as.dictionary.energy[component]);
    ld_text_put_number(t, "log_det", ev->as.dictionary.log_det[component]);
}

/* The other components of a mixture stand there only where they differ from the first. */
static void put_evidence(struct ld_text *t, const struct kb_event *ev)
{
    if (!ev->as.dictionary.has_evidence)
        return;
    ld_text_key(t, "evidence");
    ld_text_lit(t, "{");
    ld_text_put_number(t, "square", ev->as.dictionary.square);
    put_sums(t, ev, 0);
    if (is_mixed(ev)) {
        ld_text_key(t, "mixture");
        ld_text_lit(t, "[");
        for (size_t i = 1; i < KB_N_MIXTURE; i++) {
            ld_text_item(t);
            ld_text_lit(t, "{");
            put_sums(t, ev, i);
            ld_text_lit(t, "}");
        }
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "}");
}

/* The fields of a reset come before the points, of which there may be thousands. A point names the event that first
 * taught it and its probability of inclusion; a fold reads both instead of drawing. */
static void put_dictionary(struct ld_text *t, const struct kb_event *ev)
{
    ld_text_put_bool(t, "reset", ev->as.dictionary.is_reset);
    if (ev->as.dictionary.is_begun)
        ld_text_put_bool(t, "begun", true);
    if (ev->as.dictionary.from > 0)
        ld_text_put_count(t, "from", ev->as.dictionary.from);
    /* An admission changes none of these. */
    if (ev->as.dictionary.is_reset) {
        ld_text_put_string(t, "representation", kb_word(&kb_repr_words, (int)ev->as.dictionary.repr));
        ld_text_put_number(t, "context_lengthscale", ev->as.dictionary.context_lengthscale);
        ld_text_put_number(t, "arm_lengthscale", ev->as.dictionary.arm_lengthscale);
        if (!ev->as.dictionary.is_begun)
            put_evidence(t, ev);
    }
    ld_text_key(t, "points");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < ev->as.dictionary.n_atoms; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_count(t, "event", ev->as.dictionary.atoms[i].event);
        ld_text_put_number(t, "probability", ev->as.dictionary.atoms[i].probability);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* What a type has beyond seq, type and at. No default: a new type without its line does not compile without warning.
 * The members are those of schema/event.schema.json. */
static void put_body(struct ld_text *t, const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                     const struct ld_settings *settings)
{
    switch (ev->type) {
    case KB_EV_CONFIGURED:
        put_configured(t, ev, settings);
        break;
    case KB_EV_GRAPH:
        ld_text_put_bool(t, "replace", ev->as.graph.is_replace);
        ld_text_put_strings(t, "users", ev->as.graph.users, ev->as.graph.n_users);
        put_edges(t, "add", ev->as.graph.add, ev->as.graph.n_add, false);
        put_edges(t, "remove", ev->as.graph.remove, ev->as.graph.n_remove, true);
        break;
    case KB_EV_ARMS:
        ld_text_put_bool(t, "replace", ev->as.arms.is_replace);
        put_arms(t, ev->as.arms.put, ev->as.arms.n_put, arm_dim);
        ld_text_put_strings(t, "remove", ev->as.arms.remove, ev->as.arms.n_remove);
        if (ev->as.arms.n_stop > 0)
            ld_text_put_strings(t, "stop", ev->as.arms.stop, ev->as.arms.n_stop);
        if (ev->as.arms.n_start > 0)
            ld_text_put_strings(t, "start", ev->as.arms.start, ev->as.arms.n_start);
        break;
    case KB_EV_DECIDED:
        put_decided(t, ev, context_dim, arm_dim);
        break;
    case KB_EV_REWARDED:
        put_rewarded(t, ev->as.rewarded.decision, ev->as.rewarded.arm, ev->as.rewarded.reward);
        break;
    case KB_EV_LATE:
        put_rewarded(t, ev->as.late.decision, ev->as.late.arm, ev->as.late.reward);
        break;
    case KB_EV_OBSERVED:
        put_observed(t, ev, context_dim, arm_dim);
        break;
    case KB_EV_EXPIRED:
        ld_text_put_string(t, "decision", ev->as.expired.decision);
        if (ev->as.expired.has_reward)
            ld_text_put_number(t, "reward", ev->as.expired.reward);
        break;
    case KB_EV_ACTIVATED:
        ld_text_put_string(t, "decision", ev->as.activated.decision);
        break;
    case KB_EV_DICTIONARY:
        put_dictionary(t, ev);
        break;
    case KB_EV_SUMMARY:
        ld_text_summary(t, ev->as.summary, context_dim, arm_dim, settings);
        break;
    case KB_EV_REDACTED:
        if (ev->as.redacted.dropped != NULL)
            ld_text_put_string(t, "dropped", ev->as.redacted.dropped);
        break;
    /* No such event is ever staged. */
    case KB_EV_NONE:
        break;
    }
}

/* What every line begins with. */
static void put_head(struct ld_text *t, const struct kb_event *ev)
{
    ld_text_lit(t, "{");
    ld_text_put_count(t, "seq", ev->seq);
    ld_text_put_string(t, "type", kb_word(&kb_event_words, (int)ev->type));
    put_time(t, "at", ev->at_ms);
}

/* NULL when a number is not finite: the caller refuses the event then, so it is never logged. O(length of the line).
 * Ids in ev must be NUL-terminated UTF-8, as the decoders leave them. */
char *ld_encode_event(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                      const struct ld_settings *settings, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    put_head(&t, ev);
    put_body(&t, ev, context_dim, arm_dim, settings);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

/* Number and time are known in the writer's turn only. */
char *ld_encode_event_head(const struct kb_event *ev, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    put_head(&t, ev);
    return ld_text_take(&t, n);
}

char *ld_encode_graph_tail(const struct kb_event *ev, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    put_body(&t, ev, 0, 0, NULL);
    ld_text_lit(&t, "}");
    char *text = ld_text_take(&t, n);
    if (text != NULL)
        *text = ','; /* behind the members of the head */
    return text;
}
