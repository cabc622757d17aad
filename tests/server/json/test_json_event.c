/* Log lines: every type of event comes back bit for bit, and a line that is not one is refused. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "kbt.h"
#include "base/magnitude.h"
#include "base/rng.h"
#include "base/time_text.h"

#define CONTEXT_DIM 3
#define ARM_DIM 2
#define N_ROUNDS 200

/* A stream of random values for one event. */
struct dice {
    uint64_t key, at;
};

static uint64_t roll(struct dice *d)
{
    return kb_rng_bits(d->key, KB_STREAM_SIMULATION, d->at++);
}

/* Any double that a log may have, a third of them denormal or of extreme size. */
static double any_double(struct dice *d)
{
    static const double edges[] = {0.0, -0.0, 5e-324, -2.2250738585072009e-308, KB_MOST_MAGNITUDE, 0.1, 1.0 / 3};
    uint64_t b = roll(d);
    double x;
    if (b % 3 == 0)
        return edges[(b >> 8) % (sizeof edges / sizeof *edges)];
    memcpy(&x, &b, sizeof x);
    return kb_is_measurable(x) ? x : 0.25;
}

static double any_probability(struct dice *d)
{
    return ldexp((double)(roll(d) >> 11) + 1, -53);
}

static const char *any_id(struct dice *d)
{
    static const char *const ids[] = {"u1",         "quote\"d", "back\\slash", "caf\xc3\xa9 \xf0\x9f\x99\x82", "a/b~c",
                                      "\"slate\":", " "};
    return ids[roll(d) % (sizeof ids / sizeof *ids)];
}

static const double *any_vector(struct dice *d, double *room, size_t n)
{
    for (size_t i = 0; i < n; i++)
        room[i] = any_double(d);
    return room;
}

/* What the events of a round point to. */
struct room {
    double x[8 * KB_MAX_SLOTS];
    struct kb_ev_slot slots[KB_MAX_SLOTS];
    struct kb_ev_draw draws[KB_MAX_SLOTS];
    struct kb_ev_odds odds[KB_MOST_ODDS];
    struct kb_ev_edge edges[4];
    struct kb_ev_arm arms[3];
    struct kb_ev_atom atoms[3];
    struct kb_eligibility eligibility;
    const char *ids[3];
    struct ld_settings settings;
    struct kb_ev_summary summary;
    struct kb_tuning tuning;
    double scale[4];
};

static void make_graph(struct dice *d, struct room *r, struct kb_event *ev)
{
    for (size_t i = 0; i < 4; i++)
        r->edges[i] = (struct kb_ev_edge){"from", any_id(d), any_probability(d) * 1e-300};
    r->ids[0] = any_id(d);
    ev->as.graph.is_replace = roll(d) % 2;
    ev->as.graph.users = r->ids;
    ev->as.graph.n_users = roll(d) % 2;
    ev->as.graph.add = r->edges;
    ev->as.graph.n_add = roll(d) % 3;
    ev->as.graph.remove = r->edges + 2;
    ev->as.graph.n_remove = roll(d) % 3;
}

/* Rules as people might write them: unsorted, with any text as a name and as a value. */
static const struct kb_eligibility *any_eligibility(struct dice *d, struct room *r)
{
    static const char *const values[] = {"de", "at", "caf\xc3\xa9", "quote\"d", " "};
    static const struct kb_attribute_rule rules[] = {
        {"plan", values, 2}, {"a/b~c", values + 1, 4}, {"\"", values + 4, 1}, {"country", values, 5}};
    r->eligibility = KB_ELIGIBILITY_ANY;
    r->eligibility.allow = rules;
    r->eligibility.n_allow = roll(d) % 4;
    r->eligibility.deny = rules + 1;
    r->eligibility.n_deny = roll(d) % 4;
    if (roll(d) % 2)
        r->eligibility.from_ms = (int64_t)(roll(d) % 1000000000000u);
    if (roll(d) % 2)
        r->eligibility.until_ms = (int64_t)(1000000000000u + roll(d) % 1000000000000u);
    r->eligibility.hours = (uint32_t)(1 + roll(d) % 0xffffffu);
    r->eligibility.days = (uint32_t)(roll(d) % 128u);
    return &r->eligibility;
}

static void make_arms(struct dice *d, struct room *r, struct kb_event *ev)
{
    static const char *const names[] = {"a", "b\"", "c"};
    static const char *const values[] = {NULL,  "true", "\"two\\nlines\"",
                                         "0.1", "{}",   "{\"a/b~\\\"\":[1,null,{\"c\":[]}],\"d\":false}"};
    for (size_t i = 0; i < 3; i++)
        r->arms[i] = (struct kb_ev_arm){.id = names[i],
                                        .features = i == 1 ? NULL : any_vector(d, r->x + i * ARM_DIM, ARM_DIM),
                                        .is_active = roll(d) % 2,
                                        .is_stopped = roll(d) % 3 == 0,
                                        .eligibility = i == 2 ? any_eligibility(d, r) : NULL,
                                        .value = values[roll(d) % 6]};
    r->ids[0] = any_id(d);
    ev->as.arms.is_replace = roll(d) % 2;
    ev->as.arms.put = r->arms;
    ev->as.arms.n_put = roll(d) % 4;
    ev->as.arms.remove = r->ids;
    ev->as.arms.n_remove = roll(d) % 2;
    r->ids[1] = any_id(d);
    r->ids[2] = any_id(d);
    ev->as.arms.stop = r->ids + 1;
    ev->as.arms.n_stop = roll(d) % 3;
    ev->as.arms.start = r->ids;
    ev->as.arms.n_start = roll(d) % 2;
}

static void make_decided(struct dice *d, struct room *r, struct kb_event *ev)
{
    const bool is_named = roll(d) % 2;
    size_t n = roll(d) % 2 == 0 ? 1 : 2 + roll(d) % ((is_named ? KB_MAX_SLOTS : KB_MAX_TOP) - 1);
    for (size_t i = 0; i < n; i++)
        r->slots[i] = (struct kb_ev_slot){any_id(d), any_vector(d, r->x + CONTEXT_DIM + i * ARM_DIM, ARM_DIM)};
    ev->as.decided.decision = any_id(d);
    ev->as.decided.user = any_id(d);
    ev->as.decided.context = any_vector(d, r->x, CONTEXT_DIM);
    ev->as.decided.slots = r->slots;
    ev->as.decided.n_slots = n;
    ev->as.decided.propensity = any_probability(d);
    for (size_t i = 0; i < n; i++)
        r->draws[i] = (struct kb_ev_draw){.id = any_id(d),
                                          .propensity = i == 0 ? ev->as.decided.propensity : any_probability(d),
                                          .mean = roll(d) % 2 ? any_double(d) : (double)NAN,
                                          .context = roll(d) % 2 ? ev->as.decided.context : NULL,
                                          .level = (uint32_t)(roll(d) % (KB_MAX_LEVEL + 1)),
                                          .n_candidates = (uint32_t)(roll(d) % 1000)};
    ev->as.decided.draws = is_named ? r->draws : NULL;
    ev->as.decided.mean = roll(d) % 4 > 0 ? any_double(d) : (double)NAN;
    ev->as.decided.route = (enum kb_route)(roll(d) % KB_ROUTE_N);
    ev->as.decided.assigned_until_ms = roll(d) % 2 ? 1 + (int64_t)(roll(d) % 253402300000000u) : 0;
    ev->as.decided.expires_at_ms = (int64_t)(roll(d) % 253402300800000u);
    ev->as.decided.is_deferred = roll(d) % 2;
    ev->as.decided.level = (uint32_t)(roll(d) % (KB_MAX_LEVEL + 1));
    ev->as.decided.n_odds = roll(d) % 2 * (roll(d) % (KB_MOST_ODDS + 1));
    for (size_t i = 0; i < ev->as.decided.n_odds; i++)
        r->odds[i] = (struct kb_ev_odds){any_id(d), any_probability(d)};
    ev->as.decided.odds = ev->as.decided.n_odds > 0 ? r->odds : NULL;
}

static void make_dictionary(struct dice *d, struct room *r, struct kb_event *ev)
{
    for (size_t i = 0; i < 3; i++)
        r->atoms[i] = (struct kb_ev_atom){1 + roll(d) % 9007199254740991u, any_probability(d)};
    ev->as.dictionary.is_reset = roll(d) % 2;
    ev->as.dictionary.atoms = r->atoms;
    ev->as.dictionary.n_atoms = roll(d) % 4;
    if (ev->as.dictionary.is_reset) {
        ev->as.dictionary.repr = (enum kb_repr_type)(roll(d) % KB_REPR_N);
        ev->as.dictionary.context_lengthscale = any_probability(d);
        ev->as.dictionary.arm_lengthscale = 1 / any_probability(d);
        ev->as.dictionary.has_evidence = roll(d) % 2;
        if (ev->as.dictionary.has_evidence) {
            ev->as.dictionary.square = any_double(d);
            const bool is_mixed = roll(d) % 2;
            for (size_t i = 0; i < KB_N_MIXTURE; i++) {
                ev->as.dictionary.energy[i] = i == 0 || is_mixed ? any_double(d) : ev->as.dictionary.energy[0];
                ev->as.dictionary.log_det[i] = i == 0 || is_mixed ? any_double(d) : ev->as.dictionary.log_det[0];
            }
        }
    }
}

static void make_tuned(struct dice *d, struct room *r, struct kb_event *ev)
{
    r->tuning = (struct kb_tuning){.event = roll(d) % 9007199254740991u,
                                   .rewards = (double)(roll(d) % 1000),
                                   .prior = {any_double(d), any_probability(d), any_probability(d), any_probability(d),
                                             any_probability(d), any_probability(d)},
                                   .noise = any_probability(d),
                                   .lengthscale = any_probability(d),
                                   .rho = any_probability(d),
                                   .range = any_probability(d),
                                   .before = any_double(d),
                                   .after = any_double(d)};
    do
        make_dictionary(d, r, ev);
    while (!ev->as.dictionary.is_reset);
    ev->as.dictionary.tuning = &r->tuning;
    ev->as.dictionary.n_scale = roll(d) % 4;
    for (size_t i = 0; i < ev->as.dictionary.n_scale; i++)
        r->scale[i] = any_probability(d);
    ev->as.dictionary.scale = ev->as.dictionary.n_scale > 0 ? r->scale : NULL;
}

static void make_configured(struct dice *d, struct room *r, struct kb_event *ev)
{
    size_t n_presets = 0;
    while (kb_preset_name(n_presets) != NULL)
        n_presets++;
    ld_settings_init(&r->settings);
    ck_assert_int_eq(kb_spec_preset(&r->settings.spec, kb_preset_name(roll(d) % n_presets), CONTEXT_DIM, ARM_DIM),
                     KB_OK);
    r->settings.spec.repr.lambda = any_probability(d) + 1e-12;
    r->settings.spec.learned &= ~(uint32_t)KB_LEARNED_NOISE;
    r->settings.spec.seed = roll(d) >> 11;
    r->settings.spec.has_default_reward = roll(d) % 2;
    r->settings.spec.default_reward = r->settings.spec.has_default_reward ? any_double(d) : 0;
    r->settings.spec.reward_window_ms = 1 + (int64_t)(roll(d) % 100000000u);
    r->settings.spec.routing = (struct kb_routing_spec){.holdout = any_probability(d),
                                                        .baseline = 1 + (enum kb_baseline)(roll(d) % 2),
                                                        .sticky_ms = (int64_t)(roll(d) % 2 * (roll(d) % 100000000u)),
                                                        .is_stopped = roll(d) % 2};
    if (r->settings.spec.routing.baseline == KB_BASELINE_ARM)
        strcpy(r->settings.spec.routing.arm, any_id(d));
    if (roll(d) % 2)
        strcpy(r->settings.spec.routing.salt, any_id(d));
    r->settings.is_relaxed = roll(d) % 2;
    ev->as.configured.spec = &r->settings.spec;
    ev->as.configured.version = 1 + roll(d) % 1000;
}

static struct kb_ev_metric any_metric(struct dice *d)
{
    struct kb_ev_metric m = {
        .name = roll(d) % 2 ? "revenue" : "m\xc3\xa9trique", .is_told = true, .value = any_double(d)};
    m.has_before = roll(d) % 2;
    m.has_total = m.has_before && roll(d) % 2;
    m.before = m.has_before ? any_double(d) : 0;
    m.total = m.has_total ? any_double(d) : 0;
    return m;
}

static void make_event(enum kb_event_type type, struct dice *d, struct room *r, struct kb_event *ev)
{
    *ev = (struct kb_event){
        .type = type, .seq = 1 + roll(d) % 9007199254740991u, .at_ms = (int64_t)(roll(d) % 4102444800000u)};
    switch (type) {
    case KB_EV_CONFIGURED:
        make_configured(d, r, ev);
        break;
    case KB_EV_GRAPH:
        make_graph(d, r, ev);
        break;
    case KB_EV_ARMS:
        make_arms(d, r, ev);
        break;
    case KB_EV_DECIDED:
        make_decided(d, r, ev);
        break;
    case KB_EV_REWARDED:
        ev->as.rewarded.decision = any_id(d);
        ev->as.rewarded.arm = roll(d) % 2 ? any_id(d) : NULL;
        ev->as.rewarded.reward = any_double(d);
        if (roll(d) % 2)
            ev->as.rewarded.metric = any_metric(d);
        break;
    case KB_EV_MEASURED:
        ev->as.measured.decision = any_id(d);
        ev->as.measured.arm = roll(d) % 2 ? any_id(d) : NULL;
        ev->as.measured.metric = any_metric(d);
        ev->as.measured.is_late = roll(d) % 2;
        break;
    case KB_EV_REDACTED:
    case KB_EV_FORGOTTEN:
        break;
    case KB_EV_TUNED:
        make_tuned(d, r, ev);
        break;
    case KB_EV_LATE:
        ev->as.late.decision = any_id(d);
        ev->as.late.arm = roll(d) % 2 ? any_id(d) : NULL;
        ev->as.late.reward = any_double(d);
        break;
    case KB_EV_OBSERVED:
        ev->as.observed.user = any_id(d);
        ev->as.observed.context = any_vector(d, r->x, CONTEXT_DIM);
        ev->as.observed.arm = (struct kb_ev_slot){any_id(d), any_vector(d, r->x + CONTEXT_DIM, ARM_DIM)};
        ev->as.observed.reward = any_double(d);
        ev->as.observed.propensity = roll(d) % 2 ? any_probability(d) : (double)NAN;
        break;
    case KB_EV_EXPIRED:
        ev->as.expired.decision = any_id(d);
        ev->as.expired.has_reward = roll(d) % 2;
        ev->as.expired.reward = ev->as.expired.has_reward ? any_double(d) : 0;
        break;
    case KB_EV_ACTIVATED:
        ev->as.activated.decision = any_id(d);
        break;
    case KB_EV_DICTIONARY:
        make_dictionary(d, r, ev);
        break;
    case KB_EV_SUMMARY: /* the other parts are test_json_summary.c's */
        r->summary = (struct kb_ev_summary){
            .part = KB_PART_END,
            .totals = {.decided = roll(d) >> 12, .reward_sum = any_double(d), .square_sum = any_double(d)}};
        ev->as.summary = &r->summary;
        break;
    case KB_EV_NONE:
        break;
    }
}

/* --- comparing, bit for bit ---------------------------------------------------------------------------- */

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static bool same_vector(const double *a, const double *b, size_t n)
{
    if (a == NULL || b == NULL)
        return a == b;
    return memcmp(a, b, n * sizeof *a) == 0;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_slot(const struct kb_ev_slot *a, const struct kb_ev_slot *b)
{
    return same_text(a->arm, b->arm) && same_vector(a->features, b->features, ARM_DIM);
}

static bool same_edges(const struct kb_ev_edge *a, const struct kb_ev_edge *b, size_t n, bool is_removal)
{
    for (size_t i = 0; i < n; i++)
        if (!same_text(a[i].u, b[i].u) || !same_text(a[i].v, b[i].v) ||
            (!is_removal && !same_double(a[i].weight, b[i].weight)))
            return false;
    return true;
}

static bool same_graph(const struct kb_event *a, const struct kb_event *b)
{
    bool is_same = a->as.graph.is_replace == b->as.graph.is_replace && a->as.graph.n_users == b->as.graph.n_users &&
                   a->as.graph.n_add == b->as.graph.n_add && a->as.graph.n_remove == b->as.graph.n_remove;
    for (size_t i = 0; is_same && i < a->as.graph.n_users; i++)
        is_same = same_text(a->as.graph.users[i], b->as.graph.users[i]);
    return is_same && same_edges(a->as.graph.add, b->as.graph.add, a->as.graph.n_add, false) &&
           same_edges(a->as.graph.remove, b->as.graph.remove, a->as.graph.n_remove, true);
}

static bool same_rules(const struct kb_attribute_rule *a, const struct kb_attribute_rule *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!same_text(a[i].name, b[i].name) || a[i].n_values != b[i].n_values)
            return false;
        for (size_t k = 0; k < a[i].n_values; k++)
            if (!same_text(a[i].values[k], b[i].values[k]))
                return false;
    }
    return true;
}

static bool same_eligibility(const struct kb_eligibility *a, const struct kb_eligibility *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->n_allow == b->n_allow && a->n_deny == b->n_deny && a->from_ms == b->from_ms &&
           a->until_ms == b->until_ms && a->hours == b->hours && a->days == b->days &&
           same_rules(a->allow, b->allow, a->n_allow) && same_rules(a->deny, b->deny, a->n_deny);
}

static bool same_names(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    bool is_same = n_a == n_b;
    for (size_t i = 0; is_same && i < n_a; i++)
        is_same = same_text(a[i], b[i]);
    return is_same;
}

static bool same_arms(const struct kb_event *a, const struct kb_event *b)
{
    bool is_same = a->as.arms.is_replace == b->as.arms.is_replace && a->as.arms.n_put == b->as.arms.n_put &&
                   same_names(a->as.arms.remove, a->as.arms.n_remove, b->as.arms.remove, b->as.arms.n_remove) &&
                   same_names(a->as.arms.stop, a->as.arms.n_stop, b->as.arms.stop, b->as.arms.n_stop) &&
                   same_names(a->as.arms.start, a->as.arms.n_start, b->as.arms.start, b->as.arms.n_start);
    for (size_t i = 0; is_same && i < a->as.arms.n_put; i++)
        is_same = same_text(a->as.arms.put[i].id, b->as.arms.put[i].id) &&
                  a->as.arms.put[i].is_active == b->as.arms.put[i].is_active &&
                  a->as.arms.put[i].is_stopped == b->as.arms.put[i].is_stopped &&
                  same_eligibility(a->as.arms.put[i].eligibility, b->as.arms.put[i].eligibility) &&
                  same_text(a->as.arms.put[i].value, b->as.arms.put[i].value) &&
                  same_vector(a->as.arms.put[i].features, b->as.arms.put[i].features, ARM_DIM);
    return is_same;
}

static bool same_decided(const struct kb_event *a, const struct kb_event *b)
{
    bool is_same = same_text(a->as.decided.decision, b->as.decided.decision) &&
                   same_text(a->as.decided.user, b->as.decided.user) &&
                   same_vector(a->as.decided.context, b->as.decided.context, CONTEXT_DIM) &&
                   a->as.decided.n_slots == b->as.decided.n_slots &&
                   same_double(a->as.decided.propensity, b->as.decided.propensity) &&
                   same_double(a->as.decided.mean, b->as.decided.mean) &&
                   a->as.decided.expires_at_ms == b->as.decided.expires_at_ms &&
                   a->as.decided.is_deferred == b->as.decided.is_deferred &&
                   a->as.decided.route == b->as.decided.route &&
                   a->as.decided.assigned_until_ms == b->as.decided.assigned_until_ms &&
                   a->as.decided.level == b->as.decided.level;
    for (size_t i = 0; is_same && i < a->as.decided.n_slots; i++)
        is_same = same_slot(&a->as.decided.slots[i], &b->as.decided.slots[i]);
    is_same = is_same && (a->as.decided.draws == NULL) == (b->as.decided.draws == NULL);
    for (size_t i = 0; is_same && a->as.decided.draws != NULL && i < a->as.decided.n_slots; i++) {
        const struct kb_ev_draw *x = &a->as.decided.draws[i], *y = &b->as.decided.draws[i];
        is_same = same_text(x->id, y->id) && same_double(x->propensity, y->propensity) &&
                  same_double(x->mean, y->mean) && x->level == y->level && x->n_candidates == y->n_candidates &&
                  (x->context == NULL) == (y->context == NULL) &&
                  (x->context == NULL || same_vector(x->context, y->context, CONTEXT_DIM));
    }
    is_same = is_same && a->as.decided.n_odds == b->as.decided.n_odds;
    for (size_t i = 0; is_same && i < a->as.decided.n_odds; i++)
        is_same = same_text(a->as.decided.odds[i].arm, b->as.decided.odds[i].arm) &&
                  same_double(a->as.decided.odds[i].propensity, b->as.decided.odds[i].propensity);
    return is_same;
}

static bool same_dictionary(const struct kb_event *a, const struct kb_event *b)
{
    bool is_same =
        a->as.dictionary.is_reset == b->as.dictionary.is_reset && a->as.dictionary.n_atoms == b->as.dictionary.n_atoms;
    if (is_same && a->as.dictionary.is_reset)
        is_same = a->as.dictionary.repr == b->as.dictionary.repr &&
                  same_double(a->as.dictionary.context_lengthscale, b->as.dictionary.context_lengthscale) &&
                  same_double(a->as.dictionary.arm_lengthscale, b->as.dictionary.arm_lengthscale) &&
                  a->as.dictionary.has_evidence == b->as.dictionary.has_evidence;
    if (is_same && a->as.dictionary.is_reset && a->as.dictionary.has_evidence)
        is_same = same_double(a->as.dictionary.square, b->as.dictionary.square);
    for (size_t i = 0; is_same && a->as.dictionary.is_reset && a->as.dictionary.has_evidence && i < KB_N_MIXTURE; i++)
        is_same = same_double(a->as.dictionary.energy[i], b->as.dictionary.energy[i]) &&
                  same_double(a->as.dictionary.log_det[i], b->as.dictionary.log_det[i]);
    for (size_t i = 0; is_same && i < a->as.dictionary.n_atoms; i++)
        is_same = a->as.dictionary.atoms[i].event == b->as.dictionary.atoms[i].event &&
                  same_double(a->as.dictionary.atoms[i].probability, b->as.dictionary.atoms[i].probability);
    return is_same;
}

static bool same_configured(const struct kb_event *a, const struct kb_event *b)
{
    /* The spec is the first member of the settings that stand in the document. */
    const struct ld_settings *s = (const struct ld_settings *)(const void *)a->as.configured.spec;
    const struct ld_settings *t = (const struct ld_settings *)(const void *)b->as.configured.spec;
    return a->as.configured.version == b->as.configured.version && s->is_relaxed == t->is_relaxed &&
           kb_spec_digest(&s->spec, 1) == kb_spec_digest(&t->spec, 1);
}

/* That it is told is a matter of rewards: a measured value always is. */
static bool same_metric(const struct kb_ev_metric *a, const struct kb_ev_metric *b)
{
    return same_text(a->name, b->name) && a->has_before == b->has_before && a->has_total == b->has_total &&
           same_double(a->value, b->value) && same_double(a->before, b->before) && same_double(a->total, b->total);
}

static bool same_event(const struct kb_event *a, const struct kb_event *b)
{
    if (a->type != b->type || a->seq != b->seq || a->at_ms != b->at_ms)
        return false;
    switch (a->type) {
    case KB_EV_CONFIGURED:
        return same_configured(a, b);
    case KB_EV_GRAPH:
        return same_graph(a, b);
    case KB_EV_ARMS:
        return same_arms(a, b);
    case KB_EV_DECIDED:
        return same_decided(a, b);
    case KB_EV_REWARDED:
        return same_text(a->as.rewarded.decision, b->as.rewarded.decision) &&
               same_text(a->as.rewarded.arm, b->as.rewarded.arm) &&
               same_double(a->as.rewarded.reward, b->as.rewarded.reward) &&
               same_metric(&a->as.rewarded.metric, &b->as.rewarded.metric);
    case KB_EV_MEASURED:
        return same_text(a->as.measured.decision, b->as.measured.decision) &&
               same_text(a->as.measured.arm, b->as.measured.arm) &&
               same_metric(&a->as.measured.metric, &b->as.measured.metric) &&
               a->as.measured.is_late == b->as.measured.is_late;
    case KB_EV_REDACTED:
    case KB_EV_FORGOTTEN:
        return true;
    case KB_EV_TUNED:
        return same_dictionary(a, b) && a->as.dictionary.n_scale == b->as.dictionary.n_scale &&
               (a->as.dictionary.n_scale == 0 || memcmp(a->as.dictionary.scale, b->as.dictionary.scale,
                                                        a->as.dictionary.n_scale * sizeof(double)) == 0) &&
               kb_tuning_digest(a->as.dictionary.tuning, 1) == kb_tuning_digest(b->as.dictionary.tuning, 1);
    case KB_EV_LATE:
        return same_text(a->as.late.decision, b->as.late.decision) && same_text(a->as.late.arm, b->as.late.arm) &&
               same_double(a->as.late.reward, b->as.late.reward);
    case KB_EV_OBSERVED:
        return same_text(a->as.observed.user, b->as.observed.user) &&
               same_vector(a->as.observed.context, b->as.observed.context, CONTEXT_DIM) &&
               same_slot(&a->as.observed.arm, &b->as.observed.arm) &&
               same_double(a->as.observed.reward, b->as.observed.reward) &&
               same_double(a->as.observed.propensity, b->as.observed.propensity);
    case KB_EV_EXPIRED:
        return same_text(a->as.expired.decision, b->as.expired.decision) &&
               a->as.expired.has_reward == b->as.expired.has_reward &&
               same_double(a->as.expired.reward, b->as.expired.reward);
    case KB_EV_ACTIVATED:
        return same_text(a->as.activated.decision, b->as.activated.decision);
    case KB_EV_DICTIONARY:
        return same_dictionary(a, b);
    case KB_EV_SUMMARY:
        return a->as.summary->part == b->as.summary->part &&
               a->as.summary->totals.decided == b->as.summary->totals.decided &&
               same_double(a->as.summary->totals.reward_sum, b->as.summary->totals.reward_sum) &&
               same_double(a->as.summary->totals.square_sum, b->as.summary->totals.square_sum);
    case KB_EV_NONE:
        break;
    }
    return false;
}

/* --- tests ------------------------------------------------------------------------------------------- */

static int decode_line(const char *text, size_t n, struct ld_doc **doc, struct kb_event *ev, struct ld_problem *p)
{
    *doc = NULL;
    ld_problem_init(p);
    int rc = ld_doc_parse(doc, text, n, false, p);
    return rc == 0 ? ld_decode_event(*doc, CONTEXT_DIM, ARM_DIM, ev, p) : rc;
}

static const enum kb_event_type types[] = {
#define TYPE(name, text) name,
    KB_EVENT_MAP(TYPE)
#undef TYPE
};

START_TEST(every_type_of_event_comes_back_bit_for_bit)
{
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        struct dice d = {1000 * (uint64_t)_i + round, 0};
        struct room r = {.x = {0}};
        struct kb_event ev, again;
        struct ld_doc *doc;
        struct ld_problem p;
        size_t n;
        make_event(types[_i], &d, &r, &ev);
        char *line = ld_encode_event(&ev, CONTEXT_DIM, ARM_DIM, &r.settings, &n);
        ck_assert_ptr_nonnull(line);
        ck_assert_uint_eq(strlen(line), n);
        ck_assert_ptr_null(strchr(line, '\n'));
        ck_assert_msg(decode_line(line, n, &doc, &again, &p) == 0, "%s\n%s %s", line,
                      p.n_errors > 0 ? p.errors[0].pointer : "", p.n_errors > 0 ? p.errors[0].detail : p.detail);
        ck_assert_msg(same_event(&ev, &again), "%s", line);
        ld_doc_free(doc);
        free(line);
    }
}
END_TEST

/* Each line, with one field taken out or one strange added, is refused or (when the field may be left out) read. */
START_TEST(lines_with_strange_fields_are_refused)
{
    struct dice d = {77 + (uint64_t)_i, 0};
    struct room r = {.x = {0}};
    struct kb_event ev, again;
    struct ld_doc *doc;
    struct ld_problem p;
    size_t n;
    make_event(types[_i], &d, &r, &ev);
    char *line = ld_encode_event(&ev, CONTEXT_DIM, ARM_DIM, &r.settings, &n);
    line = realloc(line, n + 32);
    memcpy(line + n - 1, ",\"strange\":1}", sizeof ",\"strange\":1}");
    ck_assert_int_eq(decode_line(line, strlen(line), &doc, &again, &p), -1);
    ck_assert_int_eq(p.status, 400);
    ck_assert_str_eq(p.errors[0].pointer, "/strange");
    ld_doc_free(doc);
    for (size_t cut = 0; cut < n; cut++) {
        ck_assert_int_eq(decode_line(line, cut, &doc, &again, &p), -1);
        ld_doc_free(doc);
    }
    free(line);
}
END_TEST

static const struct {
    const char *line, *pointers;
} broken[] = {
    {"[]", ""},
    {"{}", "/type"},
    {"{\"seq\":1,\"type\":\"vanished\",\"at\":\"2026-11-21T10:00:00.123Z\"}", "/type"},
    {"{\"seq\":0,\"type\":\"activated\",\"at\":\"2026-11-21T10:00:00.123Z\",\"decision\":\"d\"}", "/seq"},
    {"{\"seq\":1.5,\"type\":\"activated\",\"at\":\"2026-11-21T10:00:00Z\",\"decision\":\"d\"}", "/seq /at"},
    {"{\"seq\":1,\"type\":\"activated\",\"at\":\"2026-02-30T10:00:00.000Z\"}", "/at /decision"},
    {"{\"seq\":1,\"type\":\"rewarded\",\"at\":\"2026-11-21T10:00:00.123Z\",\"decision\":\"d\"}", "/reward"},
    {"{\"seq\":1,\"type\":\"late\",\"at\":\"2026-11-21T10:00:00.123Z\",\"reward\":1}", "/decision"},
    {"{\"seq\":1,\"type\":\"decided\",\"at\":\"2026-11-21T10:00:00.123Z\",\"decision\":\"d\",\"user\":\"u\","
     "\"context\":[1,2],"
     "\"arm\":\"a\",\"features\":[1],\"propensity\":2,\"mean\":null,\"expires_at\":7,\"route\":\"x\",\"assigned_"
     "until\":1}",
     "/context /propensity /mean /expires_at /route /assigned_until /features"},
    {"{\"seq\":1,\"type\":\"decided\",\"at\":\"2026-11-21T10:00:00.123Z\",\"decision\":\"d\",\"user\":\"u\","
     "\"context\":[1,2,3],"
     "\"arm\":\"a\",\"features\":[1,2],\"propensity\":1,\"mean\":0,\"expires_at\":\"2026-11-21T10:00:00.123Z\","
     "\"slate\":[{\"arm\":\"a\",\"features\":[1,2]},{\"features\":[1,2]}]}",
     "/slate/1/arm"},
    {"{\"seq\":1,\"type\":\"dictionary\",\"at\":\"2026-11-21T10:00:00.123Z\",\"reset\":true,\"points\":[{\"event\":0,"
     "\"probability\":0}]}",
     "/points/0/event /points/0/probability /representation /context_lengthscale /arm_lengthscale"},
    {"{\"seq\":1,\"type\":\"dictionary\",\"at\":\"2026-11-21T10:00:00.123Z\",\"reset\":true,\"points\":[],"
     "\"representation\":\"kors\",\"context_lengthscale\":1,\"arm_lengthscale\":1,\"evidence\":{\"square\":\"1\","
     "\"energy\":1,\"sum\":2}}",
     "/evidence/sum /evidence/square /evidence/log_det"},
    {"{\"seq\":1,\"type\":\"dictionary\",\"at\":\"2026-11-21T10:00:00.123Z\",\"reset\":true,\"points\":[],"
     "\"representation\":\"kors\",\"context_lengthscale\":1,\"arm_lengthscale\":1,\"evidence\":{\"square\":1,"
     "\"energy\":1,\"log_det\":1,\"mixture\":[{\"energy\":1,\"log_det\":\"1\"},{\"energy\":1},{\"sum\":1,"
     "\"energy\":1,\"log_det\":1}]}}",
     "/evidence/mixture/0/log_det /evidence/mixture/1/log_det /evidence/mixture/2/sum"},
    {"{\"seq\":1,\"type\":\"dictionary\",\"at\":\"2026-11-21T10:00:00.123Z\",\"reset\":true,\"points\":[],"
     "\"representation\":\"kors\",\"context_lengthscale\":1,\"arm_lengthscale\":1,\"evidence\":{\"square\":1,"
     "\"energy\":1,\"log_det\":1,\"mixture\":[{\"energy\":1,\"log_det\":1}]}}",
     "/evidence/mixture"},
    {"{\"seq\":1,\"type\":\"configured\",\"at\":\"2026-11-21T10:00:00.123Z\",\"version\":1,\"configuration\":{\"arm_"
     "dim\":-1,"
     "\"rule\":{\"epsilon\":2}}}",
     "/configuration/arm_dim /configuration/rule/epsilon"},
    {"{\"seq\":1,\"type\":\"configured\",\"at\":\"2026-11-21T10:00:00.123Z\",\"version\":1,\"configuration\":{\"arm_"
     "kernel\":"
     "{\"type\":\"rbf\"}}}",
     "/configuration/arm_kernel/type"},
    {"{\"seq\":1,\"type\":\"graph\",\"at\":\"2026-11-21T10:00:00.123Z\",\"replace\":true,\"add\":[[\"a\",\"b\",-1]]}",
     "/users /add/0/2 /remove"},
    {"{\"seq\":1,\"type\":\"arms\",\"at\":\"2026-11-21T10:00:00.123Z\",\"replace\":1,\"put\":[{\"id\":\"a\","
     "\"features\":[1]}],"
     "\"remove\":[]}",
     "/replace /put/0/features"},
};

/* A fold of an old log must make the model that it was. */
START_TEST(configurations_from_before_there_was_a_tolerance_have_exact_kernels)
{
    static const struct {
        const char *kernel;
        double tolerance;
    } cases[] = {{"{\"rho\":0.5}", 0}, {"{\"rho\":0.5,\"tolerance\":0.0625}", 0.0625}};
    for (size_t i = 0; i < 2; i++) {
        char line[256];
        struct kb_event ev;
        struct ld_doc *doc;
        struct ld_problem p;
        snprintf(line, sizeof line,
                 "{\"seq\":1,\"type\":\"configured\",\"at\":\"2026-11-21T10:00:00.123Z\",\"version\":1,"
                 "\"configuration\":{\"context_dim\":%d,\"arm_dim\":%d,\"user_kernel\":%s}}",
                 CONTEXT_DIM, ARM_DIM, cases[i].kernel);
        ck_assert_int_eq(decode_line(line, strlen(line), &doc, &ev, &p), 0);
        ck_assert(ev.as.configured.spec->user_kernel.tolerance == cases[i].tolerance);
        ld_doc_free(doc);
    }
}
END_TEST

START_TEST(broken_lines_are_refused_by_pointer)
{
    struct kb_event ev;
    struct ld_doc *doc;
    struct ld_problem p;
    char pointers[LD_PROBLEM_MAX_ERRORS * 168] = "";
    ck_assert_int_eq(decode_line(broken[_i].line, strlen(broken[_i].line), &doc, &ev, &p), -1);
    for (size_t i = 0; i < p.n_errors; i++) {
        strcat(pointers, i > 0 ? " " : "");
        strcat(pointers, p.errors[i].pointer);
    }
    ck_assert_msg(strcmp(pointers, broken[_i].pointers) == 0, "%s: %s", broken[_i].line, pointers);
    ld_doc_free(doc);
}
END_TEST

START_TEST(an_event_with_a_number_that_is_not_finite_has_no_line)
{
    struct kb_event ev = {.type = KB_EV_REWARDED, .seq = 1};
    size_t n;
    ev.as.rewarded.decision = "d";
    ev.as.rewarded.reward = (double)INFINITY;
    ck_assert_ptr_null(ld_encode_event(&ev, 0, 0, NULL, &n));
}
END_TEST

START_TEST(without_dimensions_contexts_are_empty_and_features_null)
{
    struct kb_ev_slot slot = {"a", NULL};
    struct kb_event ev = {.type = KB_EV_DECIDED, .seq = 7, .at_ms = 1795255200123};
    size_t n;
    ev.as.decided.decision = "d";
    ev.as.decided.user = "u";
    ev.as.decided.slots = &slot;
    ev.as.decided.n_slots = 1;
    ev.as.decided.propensity = 1;
    ev.as.decided.expires_at_ms = 1795255200123 + 3600000;
    char *line = ld_encode_event(&ev, 0, 0, NULL, &n);
    ck_assert_str_eq(
        line, "{\"seq\":7,\"type\":\"decided\",\"at\":\"2026-11-21T10:00:00.123Z\",\"decision\":\"d\",\"user\":\"u\","
              "\"context\":[],\"arm\":\"a\",\"features\":null,\"propensity\":1,\"mean\":0,"
              "\"expires_at\":\"2026-11-21T11:00:00.123Z\"}");
    free(line);
}
END_TEST

START_TEST(times_come_back_to_the_millisecond)
{
    static const int64_t edges[] = {0, 1, 999, 1000, 951782399999, 951782400000, 4107542399999, 253402300799999};
    char text[32];
    int64_t back;
    for (uint64_t i = 0; i < 5000; i++) {
        int64_t at = i < 8 ? edges[i] : (int64_t)(kb_rng_bits(3, KB_STREAM_SIMULATION, i) % 253402300800000u);
        ld_format_time(at, text);
        ck_assert_uint_eq(strlen(text), 24);
        ck_assert_int_eq(ld_parse_time(text, &back), 0);
        ck_assert_int_eq(back, at);
    }
    static const char *const bad[] = {"",
                                      "2026-11-21",
                                      "2026-11-21T10:00:00Z",
                                      "2026-11-21 10:00:00.000Z",
                                      "2026-13-01T00:00:00.000Z",
                                      "2026-11-31T00:00:00.000Z",
                                      "2026-11-21T24:00:00.000Z",
                                      "2026-11-21T10:60:00.000Z",
                                      "2026-11-21T10:00:00.000z",
                                      "2026-11-21T10:00:00.0000Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(ld_parse_time(bad[i], &back), -1);
}
END_TEST

int main(void)
{
    int n_types = sizeof types / sizeof *types;

    return KBT_RUN_TIMES("json_event", 0, {every_type_of_event_comes_back_bit_for_bit, n_types},
                         {lines_with_strange_fields_are_refused, n_types},
                         {broken_lines_are_refused_by_pointer, sizeof broken / sizeof *broken},
                         {configurations_from_before_there_was_a_tolerance_have_exact_kernels, 1},
                         {an_event_with_a_number_that_is_not_finite_has_no_line, 1},
                         {without_dimensions_contexts_are_empty_and_features_null, 1},
                         {times_come_back_to_the_millisecond, 1});
}
