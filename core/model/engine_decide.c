/* The decision: candidates -> posterior -> confidence -> policy -> an arm with its true propensity.
 *
 * Under a rule that learns by levels the posterior is asked level after level (elimination.c) instead of once.
 *
 * Everything lives in the caller's scratch: no allocation, no state changed. Cost: the posterior's O(C m (d + m)), plus
 * O(C) hash look-ups for names and O(C n_shown), at most O(C log C), for the order of display. */
#include "model/engine_decide.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "rules/confidence.h"
#include "rules/elimination.h"
#include "rules/policy.h"
#include "base/rng.h"
#include "base/sort.h"
#include "model/engine_read.h"

#define SHOWN_IN_PASSING 16u /* arms that are kept in order by a pass; more of them are had from a sort of all */
#define FEW_EXCLUDED 8u      /* names that are compared one by one */

/* A set of names: open addressing, in the scratch. */
struct names {
    struct kb_hash_key key;
    const char **slot;
    size_t n_slots;
};

/* Candidates by column, in the scratch. */
struct pool {
    size_t n, cap;
    const char **id;
    uint32_t *arm;
    const double **features;
    uint64_t *stamp;               /* of arms as the catalogue has them, 0: with other features */
    struct names met;              /* for repeats */
    struct names out;              /* what is excluded, where it is more than a few */
    const char *few[FEW_EXCLUDED]; /* else */
    size_t n_few;
    size_t n_excluded, n_stopped, n_ineligible; /* left out, for the error */
};

static size_t table_size(size_t n)
{
    size_t size = 16;

    while (size < 2 * n)
        size *= 2;
    return size;
}

/* Doubles that decide draws for n candidates and n_exclude names, besides posterior and policy. */
static size_t pool_bytes(size_t n, size_t n_exclude)
{
    return 22 * kb_arena_need(n + 1) + kb_arena_need(table_size(n) + 1) + kb_arena_need(table_size(n_exclude) + 1);
}

enum kb_err kb_engine_scratch_new(struct kb_scratch **out)
{
    struct kb_scratch *s = kb_array(1, 1, sizeof *s);

    if (s == NULL)
        return KB_ENOMEM;
    kb_scratch_init(s);
    *out = s;
    return KB_OK;
}

void kb_engine_scratch_free(struct kb_scratch *s)
{
    if (s == NULL)
        return;
    kb_scratch_close(s);
    kb_free(s);
}

size_t kb_engine_decide_bytes(const struct kb_engine *e, size_t n_candidates, size_t n_exclude)
{
    const size_t n = n_candidates > 0 ? n_candidates : e->arms.n;

    return pool_bytes(n, n_exclude) + kb_posterior_top_bytes(e->posterior, n) + kb_policy_bytes(&e->spec.rule, n) +
           kb_elimination_bytes(&e->spec.rule, n);
}

enum kb_err kb_engine_fit_scratch(const struct kb_engine *e, struct kb_scratch *s, size_t n_candidates,
                                  size_t n_exclude)
{
    kb_arena_reset(&s->arena, 0);
    return kb_posterior_fit_scratch(e->posterior, s, kb_engine_decide_bytes(e, n_candidates, n_exclude));
}

void kb_engine_meet(const struct kb_engine *e, const char *user, struct kb_scratch *s)
{
    const struct kb_user u = kb_engine_user_at(e, kb_ids_find(&e->users, user));

    (void)kb_user_kernel_diag(kb_posterior_kernel(e->posterior)->user, u, s->user);
}

static void open_names(struct names *t, struct kb_hash_key key, size_t n, struct kb_arena *arena)
{
    *t = (struct names){.key = key, .n_slots = table_size(n)};
    t->slot = kb_arena_bytes(arena, t->n_slots * sizeof(char *));
    memset(t->slot, 0, t->n_slots * sizeof(char *));
}

/* Where the name stands, or the empty place for it. */
static const char **place_of(const struct names *t, const char *id)
{
    size_t i = (size_t)kb_keyed_str(t->key, id) & (t->n_slots - 1);

    while (t->slot[i] != NULL && strcmp(t->slot[i], id) != 0)
        i = (i + 1) & (t->n_slots - 1);
    return &t->slot[i];
}

/* Enters a name; false when it is in the table already. */
static bool enter_name(struct names *t, const char *id)
{
    const char **at = place_of(t, id);

    if (*at != NULL)
        return false;
    *at = id;
    return true;
}

static void leave_out(struct pool *p, const char *const *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p->out.n_slots > 0)
            (void)enter_name(&p->out, ids[i]);
        else
            p->few[p->n_few++] = ids[i];
}

/* What the decision excludes and the slot in hand, and what stands in the slots before. */
static void exclude(struct pool *p, const struct kb_query *q, struct kb_hash_key key, struct kb_arena *arena)
{
    const struct kb_placed *placed = q->placed;
    const size_t n = q->n_exclude + (placed != NULL ? placed->slot->n_exclude + placed->n : 0);

    if (n > FEW_EXCLUDED)
        open_names(&p->out, key, n, arena);
    leave_out(p, q->exclude, q->n_exclude);
    if (placed == NULL)
        return;
    leave_out(p, placed->slot->exclude, placed->slot->n_exclude);
    leave_out(p, placed->arm, placed->n);
}

static void init_pool(struct pool *p, const struct kb_engine *e, const struct kb_query *q, struct kb_arena *arena)
{
    const size_t n = q->n_candidates > 0 ? q->n_candidates : e->arms.n;

    *p = (struct pool){.cap = n};
    p->id = kb_arena_bytes(arena, (n + 1) * sizeof(char *));
    p->arm = kb_arena_bytes(arena, (n + 1) * sizeof *p->arm);
    p->features = kb_arena_bytes(arena, (n + 1) * sizeof(double *));
    p->stamp = kb_arena_bytes(arena, (n + 1) * sizeof *p->stamp);
    open_names(&p->met, e->key, n, arena);
    exclude(p, q, e->key, arena);
}

static bool has_excluded(const struct pool *p, const char *id)
{
    for (size_t i = 0; i < p->n_few; i++)
        if (strcmp(p->few[i], id) == 0)
            return true;
    return p->out.n_slots > 0 && *place_of(&p->out, id) != NULL;
}

/* Most decisions exclude nothing. */
static inline bool is_excluded(const struct pool *p, const char *id)
{
    return p->n_few + p->out.n_slots > 0 && has_excluded(p, id);
}

/* Whether an arm that the catalogue restricts may be shown to this user now. */
static bool is_admitted(const struct kb_arm *arm, const struct kb_query *q, struct pool *p)
{
    if (arm->is_stopped)
        p->n_stopped++;
    else if (kb_eligibility_admits(arm->parts.eligibility, q->attributes, q->n_attributes, q->now_ms))
        return true;
    else
        p->n_ineligible++;
    return false;
}

static void push(struct pool *p, const char *id, uint32_t arm, const double *features, uint64_t stamp)
{
    p->id[p->n] = id;
    p->arm[p->n] = arm;
    p->stamp[p->n] = stamp;
    p->features[p->n++] = features;
}

static enum kb_err take_named(const struct kb_engine *e, const struct kb_query *q, struct pool *p,
                              struct kb_errmsg *msg)
{
    for (size_t i = 0; i < q->n_candidates; i++) {
        const struct kb_candidate *c = &q->candidates[i];
        const uint32_t arm = kb_ids_find(&e->arm_ids, c->arm);
        const double *features = c->features;
        uint64_t stamp = 0;

        if (!enter_name(&p->met, c->arm))
            return kb_fail_item(KB_EINVAL, msg, "/candidates", i, "", "arm '%.100s' stands twice", c->arm);
        if (features == NULL && e->spec.arm_dim > 0) {
            if (arm == KB_ID_NONE || e->arms.arm[arm].parts.features == NULL)
                return kb_fail_item(KB_EINVAL, msg, "/candidates", i, "",
                                    "arm '%.100s' is not in the catalogue: give its %u features (arm_dim)", c->arm,
                                    e->spec.arm_dim);
            features = e->arms.arm[arm].parts.features;
            stamp = e->arms.arm[arm].stamp;
        } else if (features != NULL) {
            const enum kb_err rc = kb_measure_features(&e->spec, features, "/features", msg);
            if (rc != KB_OK)
                return kb_fail_within(rc, msg, "/candidates", i);
        }
        if (is_excluded(p, c->arm))
            p->n_excluded++;
        else if (arm == KB_ID_NONE || !e->arms.arm[arm].is_restricted || q->is_unrouted ||
                 is_admitted(&e->arms.arm[arm], q, p))
            push(p, c->arm, arm, features, stamp);
    }
    return KB_OK;
}

static void take_catalogue(const struct kb_engine *e, const struct kb_query *q, struct pool *p)
{
    for (uint32_t i = 0; i < e->arms.n; i++) {
        const char *id = kb_ids_str(&e->arm_ids, i);
        const struct kb_arm *arm = &e->arms.arm[i];

        if (!arm->is_active)
            continue;
        if (is_excluded(p, id))
            p->n_excluded++;
        else if (!arm->is_restricted || q->is_unrouted || is_admitted(arm, q, p))
            push(p, id, i, arm->parts.features, arm->stamp);
    }
}

/* What the order of display goes by: scores, and the key of the draw among arms of equal ones. */
struct ranking {
    const double *score;
    uint64_t key;
};

/* Whether candidate a stands before b. No two of a stream's numbers are equal (rng.c). */
static bool stands_before(const void *ranking, size_t a, size_t b)
{
    const struct ranking *r = ranking;

    if (r->score[a] != r->score[b])
        return r->score[a] > r->score[b];
    return kb_rng_bits(r->key, KB_STREAM_TIES, a) < kb_rng_bits(r->key, KB_STREAM_TIES, b);
}

/* The first n_shown of them, by a pass that keeps the best so far in order; the others are moved behind them. */
static void order_first(size_t n, size_t n_shown, const struct ranking *r, size_t *order)
{
    for (size_t i = 0; n_shown > 0 && i < n; i++) {
        const size_t item = order[i];
        size_t k = i < n_shown ? i : n_shown - 1;

        if (i >= n_shown && !stands_before(r, item, order[k]))
            continue;
        order[i] = order[k];
        for (; k > 0 && stands_before(r, item, order[k - 1]); k--)
            order[k] = order[k - 1];
        order[k] = item;
    }
}

/* The chosen arm, then by score descending, equal ones as drawn: the first n_shown of that order, and behind them the
 * others in any. */
static void order_by_score(size_t n, size_t n_shown, size_t chosen, const struct ranking *r, size_t *order)
{
    size_t kept = 1;

    order[0] = chosen;
    for (size_t i = 0; i < n; i++)
        if (i != chosen)
            order[kept++] = i;
    if (n_shown <= SHOWN_IN_PASSING)
        order_first(n - 1, n_shown - 1, r, order + 1);
    else
        kb_sort(n - 1, order + 1, stands_before, r);
}

/* What the rule makes of the candidates. */
struct verdict {
    double *mean, *sd, *lower, *upper, *score, *propensity;
    bool has_bounds; /* lower and upper of all */
    size_t chosen;
    uint32_t level;
    uint32_t *asked; /* by levels: that of mean and sd */
    double *policy;  /* of an apprentice: the policy's propensities; else NULL */
};

/* The arm that the way names, or the one that its propensities draw. */
static void choose(const struct kb_way *way, size_t n, double uniform, struct verdict *v)
{
    if (v->policy != NULL)
        memcpy(v->policy, v->propensity, n * sizeof *v->policy);
    if (way->route != KB_ROUTE_POLICY)
        kb_way_propensities(way, n, v->propensity);
    v->chosen = way->index != SIZE_MAX ? way->index : kb_policy_draw(n, v->propensity, uniform);
}

/* Candidates that are predicted. */
enum breadth {
    ALL,
    BEST,  /* those that can have one of the best scores: the rule goes by them, and no others are shown */
    LINES, /* those that can be drawn: the rule reads no more, and the arm drawn is all that is shown */
};

static enum breadth breadth_of(const struct kb_engine *e, const struct kb_beside *beside, size_t n, size_t n_shown)
{
    const bool is_fixed = e->spec.conf.score == KB_SCORE_FIXED;
    if (beside != NULL || kb_engine_is_untuned(e))
        return ALL;
    if (e->spec.rule.type == KB_RULE_UCB && is_fixed && kb_posterior_can_narrow(e->posterior, n, n_shown))
        return BEST;
    return e->spec.rule.type == KB_RULE_RAND_UCB && n_shown == 1 && (is_fixed || e->spec.conf.type == KB_CONF_FIXED) &&
                   kb_posterior_has_lines(e->posterior)
               ? LINES
               : ALL;
}

static void predict(const struct kb_engine *e, const struct kb_candidates *cand, const struct kb_beside *beside,
                    enum breadth breadth, size_t n_shown, struct kb_scratch *s, struct verdict *v)
{
    if (breadth == LINES)
        kb_posterior_predict_lines(e->posterior, cand, e->spec.conf.beta, s, v->mean, v->sd);
    else if (breadth == BEST)
        kb_posterior_predict_top(e->posterior, cand, e->spec.conf.beta, n_shown, s, v->mean, v->sd);
    else
        kb_posterior_predict_beside(e->posterior, cand, beside, s, v->mean, v->sd);
}

/* An arm that was drawn from all alike may be one that no prediction was made for. */
static void complete(const struct kb_engine *e, const struct kb_candidates *cand, struct kb_scratch *s,
                     struct verdict *v)
{
    if (!isnan(v->sd[v->chosen]))
        return;
    kb_posterior_predict_at(e->posterior, cand, &v->chosen, 1, s, v->mean, v->sd);
    v->score[v->chosen] = v->mean[v->chosen] + e->spec.conf.beta * v->sd[v->chosen];
}

/* The candidates' weights under the rule split. O(C) for each arm that has one. */
static void weigh_split(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                        double *weight)
{
    const struct kb_split *split = &e->spec.rule.split;

    memset(weight, 0, cand->n * sizeof *weight);
    for (uint32_t i = 0; i < split->n; i++) {
        const size_t at = kb_engine_place_of(e, cand, ids, kb_split_id(split, i));

        if (at != SIZE_MAX)
            weight[at] = split->weight[i];
    }
}

/* Before it has found its scales a model draws alike, but for a split, which asks no model. */
static void weigh_policy(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                         struct kb_scratch *s, struct verdict *v)
{
    static const struct kb_rule_spec uniform_rule = {.type = KB_RULE_UNIFORM};
    const bool is_split = e->spec.rule.type == KB_RULE_SPLIT;
    const struct kb_rule_spec *rule = kb_engine_is_untuned(e) && !is_split ? &uniform_rule : &e->spec.rule;

    if (is_split)
        weigh_split(e, cand, ids, v->propensity);
    kb_policy_propensities(rule, kb_policy_scale(rule, e->spec.conf.beta, (double)e->history.n_observed), cand->n,
                           v->mean, v->sd, is_split ? v->propensity : v->score, v->propensity, &s->arena);
}

/* One prediction for all, then the rule on what it says. ids: the candidates' names. beside: what stands in the slots
 * before, or NULL. */
static void judge_at_once(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                          const struct kb_beside *beside, const struct kb_way *way, size_t n_shown, double uniform,
                          struct kb_scratch *s, struct verdict *v)
{
    const enum breadth breadth = breadth_of(e, beside, cand->n, n_shown);
    predict(e, cand, beside, breadth, n_shown, s, v);
    v->has_bounds = e->spec.conf.score != KB_SCORE_FIXED && breadth != LINES;
    if (v->has_bounds)
        kb_confidence_bounds(e->posterior, &e->spec.conf, cand, s, v->mean, v->sd, v->lower, v->upper, v->score);
    for (size_t i = 0; i < cand->n && !v->has_bounds; i++)
        v->score[i] = breadth != ALL && isnan(v->sd[i]) ? -(double)INFINITY : v->mean[i] + e->spec.conf.beta * v->sd[i];
    if (way->route == KB_ROUTE_POLICY || v->policy != NULL)
        weigh_policy(e, cand, ids, s, v);
    choose(way, cand->n, uniform, v);
    if (breadth != ALL)
        complete(e, cand, s, v);
}

/* By levels: every candidate as the last level that looked at it sees it. A model at its limit takes no more points, so
 * its decisions exploit. An arm that exploration or a route has put in the elimination's place teaches no level: no
 * level asked for it. */
static void judge_by_levels(const struct kb_engine *e, const struct kb_candidates *cand, const struct kb_way *way,
                            double uniform, struct kb_scratch *s, struct verdict *v)
{
    const struct kb_elimination how = {.beta = e->spec.conf.beta,
                                       .scale = e->spec.rule.scale,
                                       .round = e->history.n_observed + 1,
                                       .may_explore = kb_posterior_n_support(e->posterior) < e->spec.repr.exact_limit};
    const uint32_t level = kb_eliminate(e->posterior, &how, cand, s, v->mean, v->sd, v->asked, v->propensity);

    kb_confidence_bounds(e->posterior, &e->spec.conf, cand, s, v->mean, v->sd, v->lower, v->upper, v->score);
    v->has_bounds = e->spec.conf.score != KB_SCORE_FIXED;
    kb_policy_explore(&e->spec.rule, cand->n, v->propensity);
    choose(way, cand->n, uniform, v);
    const bool is_asked_for = v->propensity[v->chosen] > e->spec.rule.epsilon / (double)cand->n;
    v->level = way->route == KB_ROUTE_POLICY && is_asked_for ? level : 0;
}

/* Nobody is asked: no values, and candidates in the order in which they came. */
static void judge_blindly(const struct kb_way *way, size_t n, double uniform, struct verdict *v)
{
    for (size_t i = 0; i < n; i++) {
        v->mean[i] = v->sd[i] = v->lower[i] = v->upper[i] = (double)NAN;
        v->score[i] = -(double)i;
    }
    choose(way, n, uniform, v);
}

/* Bounds of the first n_shown arms of the order alone: where they do not decide, the others cost nothing. */
static void bound_shown(const struct kb_engine *e, const struct kb_candidates *all, const size_t *order, size_t n_shown,
                        struct kb_scratch *s, struct verdict *v)
{
    const size_t mark = kb_arena_mark(&s->arena);
    const double **features = kb_arena_bytes(&s->arena, n_shown * sizeof *features);
    uint32_t *arms = kb_arena_bytes(&s->arena, n_shown * sizeof *arms);
    uint64_t *stamps = kb_arena_bytes(&s->arena, n_shown * sizeof *stamps);
    double *of[5]; /* mean, sd, lower, upper, score of the arms shown */

    for (size_t i = 0; i < 5; i++)
        of[i] = kb_arena_doubles(&s->arena, n_shown);
    for (size_t i = 0; i < n_shown; i++) {
        arms[i] = all->arms[order[i]];
        features[i] = all->features[order[i]];
        stamps[i] = all->stamps[order[i]];
        of[0][i] = v->mean[order[i]];
        of[1][i] = v->sd[order[i]];
    }
    const struct kb_candidates shown = {
        .user = all->user, .context = all->context, .n = n_shown, .arms = arms, .features = features, .stamps = stamps};
    kb_confidence_bounds(e->posterior, &e->spec.conf, &shown, s, of[0], of[1], of[2], of[3], of[4]);
    for (size_t i = 0; i < all->n; i++)
        v->lower[i] = v->upper[i] = (double)NAN;
    for (size_t i = 0; i < n_shown; i++) {
        v->lower[order[i]] = of[2][i];
        v->upper[order[i]] = of[3][i];
    }
    kb_arena_reset(&s->arena, mark);
}

static void weigh(const struct kb_engine *e, const struct kb_query *q, const struct pool *p, struct kb_scratch *s,
                  struct kb_decision *out)
{
    const uint32_t user = kb_ids_find(&e->users, q->user);
    const struct kb_candidates cand = {.user = kb_engine_user_at(e, user),
                                       .context = q->context,
                                       .n = p->n,
                                       .arms = p->arm,
                                       .features = p->features,
                                       .stamps = p->stamp};
    const double uniform = kb_rng_uniform(q->key, KB_STREAM_ARM, e->spec.seed);
    struct kb_arena *a = &s->arena;
    struct verdict v = {kb_arena_doubles(a, p->n),
                        kb_arena_doubles(a, p->n),
                        kb_arena_doubles(a, p->n),
                        kb_arena_doubles(a, p->n),
                        kb_arena_doubles(a, p->n),
                        kb_arena_doubles(a, p->n),
                        false,
                        0,
                        0,
                        NULL,
                        NULL};
    size_t *order = kb_arena_bytes(a, p->n * sizeof *order);
    const struct kb_way way = kb_engine_find_way(e, q, &cand, p->id);
    const size_t n_shown = q->n_shown > 0 && q->n_shown < p->n ? q->n_shown : p->n;
    const bool is_stopped = !q->is_unrouted && e->spec.routing.is_stopped;
    const bool is_asked = !is_stopped || e->spec.routing.is_apprentice;

    if (is_stopped && is_asked)
        v.policy = kb_arena_doubles(a, p->n);
    if (is_asked && kb_rule_reads_levels(e->spec.rule.type)) {
        v.asked = kb_arena_bytes(a, p->n * sizeof *v.asked);
        judge_by_levels(e, &cand, &way, uniform, s, &v);
    } else if (is_asked) {
        const bool is_first = q->placed == NULL || q->placed->n == 0;
        judge_at_once(e, &cand, p->id, is_first ? NULL : &q->placed->beside, &way, n_shown, uniform, s, &v);
        if (q->placed != NULL && q->placed->n + 1 < q->placed->n_slots)
            kb_beside_put(&q->placed->beside, e->posterior, &cand, v.chosen, s);
    } else {
        judge_blindly(&way, p->n, uniform, &v);
    }
    order_by_score(p->n, n_shown, v.chosen, &(struct ranking){v.score, q->key}, order);
    if (is_asked && !v.has_bounds)
        bound_shown(e, &cand, order, n_shown, s, &v);
    *out = (struct kb_decision){.n = p->n,
                                .chosen = v.chosen,
                                .arm = p->id,
                                .features = p->features,
                                .mean = v.mean,
                                .sd = v.sd,
                                .lower = v.lower,
                                .upper = v.upper,
                                .score = v.score,
                                .propensity = v.propensity,
                                .order = order,
                                .level = v.level,
                                .asked = v.asked,
                                .route = way.route,
                                .is_unasked = !is_asked,
                                .has_match = v.policy != NULL,
                                .match = v.policy != NULL ? fmin(fmax(v.policy[v.chosen], 0), 1) : 0,
                                .assigned_until_ms = way.assigned_until_ms,
                                .n_learned = (uint64_t)e->history.n_observed,
                                .n_support = kb_posterior_n_support(e->posterior)};
}

/* No candidate is left: what has taken them. */
static enum kb_err refuse_none(const struct kb_query *q, const struct pool *p, struct kb_errmsg *msg)
{
    if (q->placed != NULL)
        return kb_fail_item(KB_EINVAL, msg, "/slots", q->placed->n, "",
                            "no candidate is left for it: %zu excluded or in the slots before, %zu stopped, %zu not "
                            "eligible",
                            p->n_excluded, p->n_stopped, p->n_ineligible);
    if (p->n_stopped + p->n_ineligible == 0)
        return kb_fail(KB_EINVAL, msg, "/candidates",
                       q->n_candidates > 0 ? "every candidate is excluded"
                                           : "the catalogue has no active arm that is not excluded: name candidates");
    return kb_fail(
        KB_EINVAL, msg, "/candidates",
        "no candidate is left: %zu excluded, %zu stopped, %zu not eligible for these attributes at this time",
        p->n_excluded, p->n_stopped, p->n_ineligible);
}

enum kb_err kb_engine_decide(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s,
                             struct kb_decision *out, struct kb_errmsg *msg)
{
    kb_arena_reset(&s->arena, 0);
    return kb_engine_decide_above(e, q, s, out, msg);
}

enum kb_err kb_engine_decide_above(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s,
                                   struct kb_decision *out, struct kb_errmsg *msg)
{
    struct pool pool;
    enum kb_err rc = KB_OK;

    assert(e->posterior != NULL);
    if (e->spec.context_dim > 0 && q->context == NULL)
        return kb_fail(KB_EINVAL, msg, "/context", "expected %u numbers", e->spec.context_dim);
    if ((rc = kb_measure_context(&e->spec, q->context, msg)) != KB_OK)
        return rc;
    init_pool(&pool, e, q, &s->arena);
    if (q->n_candidates > 0)
        rc = take_named(e, q, &pool, msg);
    else
        take_catalogue(e, q, &pool);
    if (rc != KB_OK)
        return rc;
    if (pool.n == 0)
        return refuse_none(q, &pool, msg);
    weigh(e, q, &pool, s, out);
    return KB_OK;
}
