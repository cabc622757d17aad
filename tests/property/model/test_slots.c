/* Several slots of one decision: drawn one after the other, each by its propensity given those before; deviations know
 * the slots before as if these had been observed; and what a decision with slots leaves behind. Oracles: a second
 * engine that is told the arms drawn, dense algebra, counts of many draws. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"

#define N_ARMS 6u
#define N_SLOTS 4u
#define DIM 2u

static const char *const arms[N_ARMS] = {"a", "b", "c", "d", "e", "f"};
static const char *const users[3] = {"u", "v", "w"};

static double number(uint64_t seed, uint64_t i)
{
    return 2 * kb_rng_uniform(seed, KB_STREAM_SIMULATION, i) - 1;
}

/* ---- a world ------------------------------------------------------------------------------------------------ */

struct world {
    struct kbt_log log;
    struct kb_spec spec;
    double features[N_ARMS][DIM], context[N_SLOTS + 1][DIM]; /* of the slots, then of the decision */
};

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {"", ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static void observe(struct world *w, const char *user, const double *context, size_t arm, double y)
{
    live(&w->log, (struct kb_event){.type = KB_EV_OBSERVED,
                                    .as.observed = {.user = user,
                                                    .context = w->spec.context_dim > 0 ? context : NULL,
                                                    .arm = {.arm = arms[arm],
                                                            .features = w->spec.arm_dim > 0 ? w->features[arm] : NULL},
                                                    .reward = y,
                                                    .propensity = (double)NAN}});
}

/* No scale is learned and no dictionary drawn once it is there, so that a second world is the first one and what it is
 * told besides. */
static void open_world(struct world *w, const char *preset, uint32_t arm_dim, size_t n_observed)
{
    memset(w, 0, sizeof *w);
    kbt_log_open(&w->log);
    ck_assert_int_eq(kb_spec_preset(&w->spec, preset, DIM, arm_dim), KB_OK);
    w->spec.is_tuned = false;
    w->spec.learned = 0;
    w->spec.context_kernel.is_median = w->spec.arm_kernel.is_median = false;
    w->spec.context_kernel.lengthscale = 0.7;
    w->spec.arm_kernel.lengthscale = 0.9;
    w->spec.conf.type = KB_CONF_FIXED;
    w->spec.repr.max_dictionary = 8;
    w->spec.repr.batch_ratio = 1e6;
    live(&w->log, kbt_configured(&w->spec, 1));
    for (size_t i = 0; i < N_ARMS; i++)
        for (size_t k = 0; k < DIM; k++)
            w->features[i][k] = number(1, 10 * i + k);
    for (size_t i = 0; i <= N_SLOTS; i++)
        for (size_t k = 0; k < DIM; k++)
            w->context[i][k] = number(2, 10 * i + k);
    for (size_t i = 0; i < n_observed; i++) {
        const double x[DIM] = {number(3, 2 * i), number(3, 2 * i + 1)};
        observe(w, users[i % 3], x, i % N_ARMS, number(4, i));
    }
}

struct drawn {
    const struct world *w;
    size_t n, arm[N_SLOTS];
    double propensity[N_SLOTS], mean[N_SLOTS][N_ARMS], sd[N_SLOTS][N_ARMS];
    size_t n_candidates[N_SLOTS];
    enum kb_route route[N_SLOTS];
};

static size_t number_of(const char *arm)
{
    for (size_t i = 0; i < N_ARMS; i++)
        if (strcmp(arms[i], arm) == 0)
            return i;
    ck_abort_msg("no arm %s", arm);
    return 0;
}

static enum kb_err take(void *arg, size_t slot, const struct kb_decision *d)
{
    struct drawn *out = arg;

    ck_assert_uint_eq(slot, out->n);
    for (size_t i = 0; i < N_ARMS; i++)
        out->mean[slot][i] = out->sd[slot][i] = (double)NAN;
    for (size_t i = 0; i < d->n; i++) {
        out->mean[slot][number_of(d->arm[i])] = d->mean[i];
        out->sd[slot][number_of(d->arm[i])] = d->sd[i];
    }
    out->arm[slot] = number_of(d->arm[d->chosen]);
    out->propensity[slot] = d->propensity[d->chosen];
    out->n_candidates[slot] = d->n;
    out->route[slot] = d->route;
    out->n++;
    return KB_OK;
}

static size_t name_candidates(const struct world *w, const struct drawn *without, struct kb_candidate *out)
{
    size_t n = 0;

    for (size_t i = 0; i < N_ARMS; i++) {
        bool is_drawn = false;
        for (size_t k = 0; without != NULL && k < without->n; k++)
            is_drawn |= without->arm[k] == i;
        if (!is_drawn)
            out[n++] = (struct kb_candidate){arms[i], w->spec.arm_dim > 0 ? w->features[i] : NULL};
    }
    return n;
}

static enum kb_err draw_slots(const struct world *w, const struct kb_slot_query *slots, size_t n, uint64_t key,
                              struct drawn *out, struct kb_errmsg *msg)
{
    static struct kb_scratch *s;
    struct kb_candidate c[N_ARMS];
    const struct kb_query q = {.user = "u",
                               .context = w->context[N_SLOTS],
                               .candidates = c,
                               .n_candidates = name_candidates(w, NULL, c),
                               .key = key,
                               .now_ms = w->log.now_ms};

    if (s == NULL)
        ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_slots(w->log.live, s, &q, slots, n), KB_OK);
    *out = (struct drawn){.w = w};
    return kb_engine_decide_slots(w->log.live, &q, slots, n, s, take, out, msg);
}

static void plain_slots(const struct world *w, struct kb_slot_query *slots)
{
    static const char *const names[N_SLOTS] = {"top", "left", "right", "foot"};

    for (size_t i = 0; i < N_SLOTS; i++)
        slots[i] = (struct kb_slot_query){.id = names[i], .context = i != 2 ? w->context[i] : NULL};
}

/* ---- deviations --------------------------------------------------------------------------------------------- */

static const struct {
    const char *preset;
    uint32_t arm_dim;
    bool is_dependent; /* whether one arm's reward says anything of another's */
} models[] = {
    {"gp-ucb", DIM, true},
    {"lk-gp-ts", DIM, true},
    {"ek-ucb", DIM, true},
    {"bbkb", DIM, true},
    {"lin-ucb", DIM, true},
    {"laplaced", DIM, true},
    {"laplaced-kors", DIM, true},
    {"laplaced", 0, false},
    {"lin-ucb-per-user", DIM, true},
    {"ucb", 0, false},
    {"ts", 0, false},
};
#define N_MODELS (sizeof models / sizeof *models)

/* What the world says of a slot's candidates once it has been told that the arms before were worth what they were
 * expected to be. */
static void assert_slot(const struct world *twin, const struct drawn *d, size_t slot, const double *context)
{
    struct kb_scratch *s = NULL;
    struct kb_candidate c[N_ARMS];
    struct drawn before = *d;
    struct kb_decision got;

    before.n = slot;
    const struct kb_query q = {.user = "u",
                               .context = context,
                               .candidates = c,
                               .n_candidates = name_candidates(twin, &before, c),
                               .is_unrouted = true};
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(twin->log.live, s, N_ARMS, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(twin->log.live, &q, s, &got, NULL), KB_OK);
    ck_assert_uint_eq(got.n, d->n_candidates[slot]);
    for (size_t i = 0; i < got.n; i++) {
        const size_t arm = number_of(got.arm[i]);
        ck_assert_msg(kbt_close(d->mean[slot][arm], got.mean[i], 1e-8), "slot %zu arm %s: mean %.17g, told %.17g", slot,
                      got.arm[i], d->mean[slot][arm], got.mean[i]);
        ck_assert_msg(kbt_close(d->sd[slot][arm], got.sd[i], 1e-8), "slot %zu arm %s: sd %.17g, told %.17g", slot,
                      got.arm[i], d->sd[slot][arm], got.sd[i]);
    }
    kb_engine_scratch_free(s);
}

START_TEST(deviations_know_the_slots_before_as_if_they_had_been_observed)
{
    struct world w, twin;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;
    double least = 1;

    open_world(&w, models[_i].preset, models[_i].arm_dim, 60);
    open_world(&twin, models[_i].preset, models[_i].arm_dim, 60);
    plain_slots(&w, slots);
    ck_assert_int_eq(draw_slots(&w, slots, N_SLOTS, 77, &d, NULL), KB_OK);
    for (size_t i = 0; i < N_SLOTS; i++) {
        const double *context = slots[i].context != NULL ? slots[i].context : w.context[N_SLOTS];
        struct drawn alone;
        const size_t n_before = kb_posterior_n_support(kb_engine_posterior(twin.log.live));
        assert_slot(&twin, &d, i, context);
        ck_assert_int_eq(draw_slots(&w, &slots[i], 1, 77, &alone, NULL), KB_OK);
        for (size_t k = 0; k < N_ARMS; k++)
            if (i > 0 && !isnan(d.sd[i][k]) && !isnan(alone.sd[0][k]))
                least = fmin(least, d.sd[i][k] / alone.sd[0][k]);
        observe(&twin, "u", context, d.arm[i], d.mean[i][d.arm[i]]);
        if (kb_posterior_is_sketch(kb_engine_posterior(twin.log.live)))
            ck_assert_uint_eq(kb_posterior_n_support(kb_engine_posterior(twin.log.live)), n_before);
    }
    if (models[_i].is_dependent)
        ck_assert_double_lt(least, 1 - 1e-4); /* the test would notice if nothing were known */
    else
        ck_assert_double_gt(least, 1 - 1e-12);
    kbt_log_drop(&twin.log);
    kbt_log_close(&w.log);
}
END_TEST

static const char *const hallucinating[] = {"gp-ucb", "lk-gp-ts", "ek-ucb", "bbkb", "lin-ucb"};
#define N_HALLUCINATING (sizeof hallucinating / sizeof *hallucinating)

/* A decision of one arm that stays without a reward. */
static void leave_open(struct world *w, const char *id, const double *context, size_t arm)
{
    const struct kb_ev_slot slot = {arms[arm], w->features[arm]};

    live(&w->log, (struct kb_event){.type = KB_EV_DECIDED,
                                    .as.decided = {.decision = id,
                                                   .user = "u",
                                                   .context = context,
                                                   .slots = &slot,
                                                   .n_slots = 1,
                                                   .propensity = 0.5,
                                                   .mean = 0.1,
                                                   .expires_at_ms = w->log.now_ms + 3600000}});
}

static void open_hallucinating(struct world *w, const char *preset)
{
    static const char *const ids[] = {"o0", "o1", "o2", "o3", "o4"};

    open_world(w, preset, DIM, 60);
    w->spec.pending = KB_PENDING_HALLUCINATE;
    live(&w->log, kbt_configured(&w->spec, 1));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const double x[DIM] = {number(5, 2 * i), number(5, 2 * i + 1)};
        leave_open(w, ids[i], x, i % N_ARMS);
    }
}

/* Slots know decisions that are open and the slots before: as a second engine does in which the arms of the slots
 * before are open decisions of their own. */
START_TEST(slots_know_open_decisions_and_the_slots_before)
{
    static const char *const ids[N_SLOTS] = {"s0", "s1", "s2", "s3"};
    struct world w, twin;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;

    open_hallucinating(&w, hallucinating[_i]);
    open_hallucinating(&twin, hallucinating[_i]);
    plain_slots(&w, slots);
    ck_assert_int_eq(draw_slots(&w, slots, N_SLOTS, 77, &d, NULL), KB_OK);
    for (size_t i = 0; i < N_SLOTS; i++) {
        const double *context = slots[i].context != NULL ? slots[i].context : w.context[N_SLOTS];

        assert_slot(&twin, &d, i, context);
        leave_open(&twin, ids[i], context, d.arm[i]);
    }
    kbt_log_drop(&twin.log);
    kbt_log_close(&w.log);
}
END_TEST

/* Half of what was learned is forgotten after an hour: one more reward counts for more than those that are there. */
START_TEST(what_a_reward_would_count_is_what_it_counts_now)
{
    struct world w, twin;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;

    for (int k = 0; k < 2; k++) {
        struct world *one = k == 0 ? &w : &twin;
        open_world(one, "gp-ucb", DIM, 12);
        one->spec.forgetting.type = KB_FORGET_HALF_LIFE;
        one->spec.forgetting.half_life_s = 3600;
        live(&one->log, kbt_configured(&one->spec, 2));
        for (size_t i = 0; i < 8; i++) {
            const double x[DIM] = {number(5, i), number(6, i)};
            one->log.now_ms += 200000;
            observe(one, "u", x, i % N_ARMS, number(7, i));
        }
    }
    plain_slots(&w, slots);
    ck_assert_int_eq(draw_slots(&w, slots, N_SLOTS, 5, &d, NULL), KB_OK);
    for (size_t i = 0; i < N_SLOTS; i++) {
        const double *context = slots[i].context != NULL ? slots[i].context : w.context[N_SLOTS];
        assert_slot(&twin, &d, i, context);
        observe(&twin, "u", context, d.arm[i], d.mean[i][d.arm[i]]);
    }
    kbt_log_drop(&twin.log);
    kbt_log_close(&w.log);
}
END_TEST

/* Dense algebra: all that was observed, and the arms before, as rows of one matrix. */
static double rbf(const double *a, const double *b, double lengthscale)
{
    double sum = 0;

    for (size_t i = 0; i < DIM; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return exp(-sum / (2 * lengthscale * lengthscale));
}

START_TEST(deviations_are_those_of_dense_algebra)
{
    enum { N = 24, MOST = N + N_SLOTS };
    struct world w;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;
    double x[MOST][2 * DIM];
    size_t n = N;

    open_world(&w, "gp-ucb", DIM, N);
    for (size_t i = 0; i < N; i++) {
        const double context[DIM] = {number(3, 2 * i), number(3, 2 * i + 1)};
        memcpy(x[i], context, sizeof context);
        memcpy(x[i] + DIM, w.features[i % N_ARMS], sizeof w.features[0]);
    }
    plain_slots(&w, slots);
    ck_assert_int_eq(draw_slots(&w, slots, N_SLOTS, 9, &d, NULL), KB_OK);
    for (size_t i = 0; i < N_SLOTS; i++) {
        const double *context = slots[i].context != NULL ? slots[i].context : w.context[N_SLOTS];
        double *k = kbt_array(n * n), *column = kbt_array(n), *solved = kbt_array(n);
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < n; c++)
                k[r + c * n] =
                    rbf(x[r], x[c], 0.7) * rbf(x[r] + DIM, x[c] + DIM, 0.9) + (r == c ? w.spec.repr.lambda : 0);
        for (size_t a = 0; a < N_ARMS; a++) {
            if (isnan(d.sd[i][a]))
                continue;
            double variance = 1;
            for (size_t r = 0; r < n; r++)
                column[r] = rbf(x[r], context, 0.7) * rbf(x[r] + DIM, w.features[a], 0.9);
            kbt_solve(n, k, column, solved);
            for (size_t r = 0; r < n; r++)
                variance -= column[r] * solved[r];
            ck_assert_msg(kbt_close(d.sd[i][a], sqrt(variance), 1e-8), "slot %zu arm %zu: %.17g, dense %.17g", i, a,
                          d.sd[i][a], sqrt(variance));
        }
        memcpy(x[n], context, DIM * sizeof(double));
        memcpy(x[n++] + DIM, w.features[d.arm[i]], sizeof w.features[0]);
        free(k);
        free(column);
        free(solved);
    }
    kbt_log_close(&w.log);
}
END_TEST

/* ---- draws --------------------------------------------------------------------------------------------------- */

/* The sanitizers look at each access of a draw; how often arms come is asked without them. */
#ifdef __SANITIZE_ADDRESS__
#define MANY 5000
#define SOME 1000
#else
#define MANY 100000
#define SOME 5000
#endif
static const struct {
    const char *preset;
    size_t n;
} drawing[] = {{"ts", MANY}, {"gp-ucb", MANY}, {"lk-gp-ts", SOME}, {"laplaced", SOME}};
#define N_DRAWING (sizeof drawing / sizeof *drawing)

START_TEST(frequencies_are_products_of_the_propensities)
{
    enum { SHOWN = 3 };
    const double n_draws = (double)drawing[_i].n;
    static size_t count[N_ARMS][N_ARMS][N_ARMS];
    static double told[N_ARMS][N_ARMS][N_ARMS];
    struct world w;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;
    size_t n_seen = 0;

    memset(count, 0, sizeof count);
    open_world(&w, drawing[_i].preset, strcmp(drawing[_i].preset, "ts") == 0 ? 0 : DIM, 9);
    if (w.spec.rule.type == KB_RULE_UCB) {
        w.spec.rule.epsilon = 0.5;
        live(&w.log, kbt_configured(&w.spec, 2));
    }
    plain_slots(&w, slots);
    for (size_t i = 0; i < drawing[_i].n; i++) {
        ck_assert_int_eq(draw_slots(&w, slots, SHOWN, 0x9e3779b97f4a7c15u * (i + 1), &d, NULL), KB_OK);
        const double product = d.propensity[0] * d.propensity[1] * d.propensity[2];
        double *p = &told[d.arm[0]][d.arm[1]][d.arm[2]];
        size_t *n = &count[d.arm[0]][d.arm[1]][d.arm[2]];
        ck_assert(d.arm[0] != d.arm[1] && d.arm[0] != d.arm[2] && d.arm[1] != d.arm[2]);
        if ((*n)++ > 0)
            ck_assert_double_eq(*p, product);
        *p = product;
    }
    for (size_t i = 0; i < N_ARMS * N_ARMS * N_ARMS; i++) {
        const double p = (&told[0][0][0])[i];
        const size_t n = (&count[0][0][0])[i];
        if (n == 0)
            continue;
        ck_assert_msg(fabs((double)n - n_draws * p) <= 5 * sqrt(n_draws * p * (1 - p)) + 1, "%zu of %.1f", n,
                      n_draws * p);
        n_seen++;
    }
    ck_assert_uint_gt(n_seen, 10);
    kbt_log_close(&w.log);
}
END_TEST

START_TEST(one_slot_is_a_decision)
{
    struct world w;
    struct kb_scratch *s = NULL;

    open_world(&w, "laplaced", 0, 30);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (uint64_t key = 1; key < 200; key++) {
        const struct kb_slot_query slot = {.id = "only"};
        struct kb_candidate c[N_ARMS];
        struct kb_decision whole;
        struct drawn d;
        const struct kb_query q = {.user = "u",
                                   .context = w.context[N_SLOTS],
                                   .candidates = c,
                                   .n_candidates = name_candidates(&w, NULL, c),
                                   .key = key};
        ck_assert_int_eq(draw_slots(&w, &slot, 1, key, &d, NULL), KB_OK);
        ck_assert_int_eq(kb_engine_fit_scratch(w.log.live, s, N_ARMS, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(w.log.live, &q, s, &whole, NULL), KB_OK);
        ck_assert_str_eq(whole.arm[whole.chosen], arms[d.arm[0]]);
        ck_assert_double_eq(whole.propensity[whole.chosen], d.propensity[0]);
        ck_assert_double_eq(whole.mean[whole.chosen], d.mean[0][d.arm[0]]);
    }
    kb_engine_scratch_free(s);
    kbt_log_close(&w.log);
}
END_TEST

START_TEST(slots_leave_out_what_they_exclude_and_run_out_by_name)
{
    struct world w;
    const char *const no_c[] = {"c", "d"}, *const all_but_a[] = {"b", "c", "d", "e", "f"};
    struct kb_slot_query slots[7] = {{.id = "0", .exclude = all_but_a, .n_exclude = 5},
                                     {.id = "1"},
                                     {.id = "2"},
                                     {.id = "3", .exclude = no_c, .n_exclude = 2},
                                     {.id = "4"},
                                     {.id = "5"},
                                     {.id = "6"}};
    struct kb_errmsg msg = {"", ""};
    struct drawn d;

    open_world(&w, "random", 0, 0);
    for (uint64_t key = 0; key < 100; key++) {
        ck_assert_int_eq(draw_slots(&w, slots, 4, key, &d, NULL), KB_OK);
        ck_assert_uint_eq(d.arm[0], 0);
        ck_assert_double_eq(d.propensity[0], 1);
        ck_assert_uint_eq(d.n_candidates[1], 5);
        ck_assert_double_eq_tol(d.propensity[1], 0.2, 1e-15);
        ck_assert_uint_ne(d.arm[3], 2);
        ck_assert_uint_ne(d.arm[3], 3);
    }
    slots[1].exclude = all_but_a;
    slots[1].n_exclude = 5;
    ck_assert_int_eq(draw_slots(&w, slots, 3, 1, &d, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/slots/1");
    kbt_log_close(&w.log);
}
END_TEST

/* ---- exclusions ---------------------------------------------------------------------------------------------- */

#define N_NAMES 1200u
#define N_CANDIDATES 1000u
#define MOST_EXCLUDED 1024u
#define N_PLACES 12u

struct choice {
    const struct kb_query *q;
    const struct kb_slot_query *slots;
    const struct kb_candidate *among;
    const char *chosen[N_PLACES];
    size_t n;
};

static bool stands_in(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* The candidates that are left, in their order, are those that no list has and no slot before. */
static enum kb_err check_left(void *arg, size_t slot, const struct kb_decision *d)
{
    struct choice *out = arg;
    const struct kb_slot_query *at = &out->slots[slot];
    size_t n = 0;

    for (size_t i = 0; i < N_CANDIDATES; i++) {
        const char *name = out->among[i].arm;

        if (stands_in(out->q->exclude, out->q->n_exclude, name) || stands_in(at->exclude, at->n_exclude, name) ||
            stands_in(out->chosen, out->n, name))
            continue;
        ck_assert_uint_lt(n, d->n);
        ck_assert_str_eq(d->arm[n++], name);
    }
    ck_assert_uint_eq(n, d->n);
    out->chosen[out->n++] = d->arm[d->chosen];
    return KB_OK;
}

static const char *const *names_of(char (*text)[24], const char **name)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(text[i], sizeof text[i], "an-arm-of-the-page-%zu", i);
        name[i] = text[i];
    }
    return name;
}

/* Any names: candidates, others, and the same twice. */
static size_t draw_excluded(uint64_t seed, uint64_t *n_drawn, const char *const *name, const char **out)
{
    static const size_t most[] = {0, 3, 7, 8, 9, 40, 300};
    const size_t n = most[(size_t)(kb_rng_uniform(seed, KB_STREAM_SIMULATION, (*n_drawn)++) * 7)];

    for (size_t i = 0; i < n; i++)
        out[i] = name[(size_t)(kb_rng_uniform(seed, KB_STREAM_SIMULATION, (*n_drawn)++) * N_NAMES)];
    return n;
}

static struct kb_query ask_among(const struct world *w, const struct kb_candidate *c)
{
    return (struct kb_query){
        .user = "u", .context = w->context[0], .candidates = c, .n_candidates = N_CANDIDATES, .now_ms = w->log.now_ms};
}

static void fill_catalogue(struct world *w, const char *const *name)
{
    static struct kb_ev_arm put[N_CANDIDATES];

    for (size_t i = 0; i < N_CANDIDATES; i++)
        put[i] = (struct kb_ev_arm){.id = name[i], .is_active = true};
    live(&w->log, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.put = put, .n_put = N_CANDIDATES}});
}

START_TEST(what_is_left_is_what_no_list_has)
{
    static char text[N_NAMES][24];
    static const char *name[N_NAMES], *list[N_PLACES + 1][MOST_EXCLUDED];
    static struct kb_candidate c[N_CANDIDATES];
    struct kb_slot_query slots[N_PLACES];
    struct kb_scratch *s = NULL;
    struct world w;
    uint64_t n_drawn = 0;

    open_world(&w, "random", 0, 0);
    names_of(text, name);
    for (size_t i = 0; i < N_CANDIDATES; i++)
        c[i] = (struct kb_candidate){_i == 0 ? name[(7 * i) % N_NAMES] : name[i], NULL};
    if (_i == 1)
        fill_catalogue(&w, name);
    for (uint64_t key = 0; key < 60; key++) {
        struct kb_query q = ask_among(&w, c);

        q.n_candidates = _i == 0 ? N_CANDIDATES : 0;
        q.key = key;
        q.exclude = list[N_PLACES];
        q.n_exclude = draw_excluded(5, &n_drawn, name, list[N_PLACES]);
        for (size_t i = 0; i < N_PLACES; i++)
            slots[i] = (struct kb_slot_query){
                .id = "s", .exclude = list[i], .n_exclude = draw_excluded(5, &n_drawn, name, list[i])};
        struct choice out = {.q = &q, .slots = slots, .among = c};
        kb_engine_scratch_free(s); /* so that each has the room that it asks for, and no more */
        ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
        ck_assert_int_eq(kb_engine_fit_slots(w.log.live, s, &q, slots, N_PLACES), KB_OK);
        struct kb_errmsg msg = {"", ""};
        const enum kb_err rc = kb_engine_decide_slots(w.log.live, &q, slots, N_PLACES, s, check_left, &out, &msg);
        ck_assert_msg(rc == KB_OK, "%s %s", msg.pointer, msg.text);
        ck_assert_uint_eq(out.n, N_PLACES);
    }
    kb_engine_scratch_free(s);
    kbt_log_close(&w.log);
}
END_TEST

/* The fastest of some decisions. */
static double seconds_of(const struct world *w, const struct kb_query *q, struct kb_scratch *s)
{
    double least = (double)INFINITY;

    for (size_t i = 0; i < 30; i++) {
        struct timespec from, to;
        struct kb_decision d;

        ck_assert_int_eq(kb_engine_fit_scratch(w->log.live, s, q->n_candidates, q->n_exclude), KB_OK);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        ck_assert_int_eq(kb_engine_decide(w->log.live, q, s, &d, NULL), KB_OK);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        least = fmin(least, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    }
    return least;
}

/* Candidates are not compared with each name: a decision costs little more, and not a thousand times as much. */
START_TEST(a_long_list_costs_about_what_candidates_cost)
{
    static char text[N_NAMES][24];
    static const char *name[N_NAMES];
    static struct kb_candidate c[N_CANDIDATES];
    struct kb_scratch *s = NULL;
    struct world w;

    open_world(&w, "random", 0, 0);
    names_of(text, name);
    for (size_t i = 0; i < N_CANDIDATES; i++)
        c[i] = (struct kb_candidate){name[i], NULL};
    struct kb_query q = ask_among(&w, c);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    const double without = seconds_of(&w, &q, s);
    const char *others[MOST_EXCLUDED];
    static char other[MOST_EXCLUDED][40];
    for (size_t i = 0; i < MOST_EXCLUDED; i++) {
        snprintf(other[i], sizeof other[i], "an-arm-of-the-page-x%zu", i);
        others[i] = other[i];
    }
    q.exclude = others;
    q.n_exclude = MOST_EXCLUDED;
    const double with = seconds_of(&w, &q, s);
    ck_assert_msg(with < 6 * without, "%g times as long", with / without);
    kb_engine_scratch_free(s);
    kbt_log_close(&w.log);
}
END_TEST

START_TEST(a_tenant_that_is_stopped_shows_the_baselines_of_the_slots)
{
    struct world w;
    struct kb_slot_query slots[N_SLOTS];
    struct drawn d;

    open_world(&w, "random", 0, 0);
    w.spec.routing.is_stopped = true;
    w.spec.routing.baseline = KB_BASELINE_FIRST;
    live(&w.log, kbt_configured(&w.spec, 2));
    plain_slots(&w, slots);
    slots[0].baseline = "d";
    slots[1].baseline = "d"; /* it is gone: the first that is left */
    slots[2].baseline = "c";
    ck_assert_int_eq(draw_slots(&w, slots, N_SLOTS, 3, &d, NULL), KB_OK);
    const size_t wanted[N_SLOTS] = {3, 0, 2, 1};
    for (size_t i = 0; i < N_SLOTS; i++) {
        ck_assert_uint_eq(d.arm[i], wanted[i]);
        ck_assert_double_eq(d.propensity[i], 1);
        ck_assert_int_eq(d.route[i], KB_ROUTE_STOPPED);
    }
    kbt_log_close(&w.log);
}
END_TEST

/* ---- the log ------------------------------------------------------------------------------------------------- */

static struct kb_event decided(const struct world *w, const char *id, const struct kb_ev_slot *slots,
                               const struct kb_ev_draw *draws, size_t n)
{
    return (struct kb_event){.type = KB_EV_DECIDED,
                             .as.decided = {.decision = id,
                                            .user = "u",
                                            .context = w->context[0],
                                            .slots = slots,
                                            .n_slots = n,
                                            .draws = draws,
                                            .propensity = 0.5,
                                            .mean = 0.1,
                                            .expires_at_ms = w->log.now_ms + 1000}};
}

static void fill_slots(const struct world *w, struct kb_ev_slot *slots, struct kb_ev_draw *draws)
{
    static const char *const names[N_SLOTS] = {"top", "left", "right", "foot"};

    for (size_t i = 0; i < N_SLOTS; i++) {
        slots[i] = (struct kb_ev_slot){arms[i], w->features[i]};
        draws[i] = (struct kb_ev_draw){
            .id = names[i], .context = i % 2 == 1 ? w->context[i] : NULL, .propensity = 0.25, .mean = 0.2};
    }
}

/* Rewards of slots, corrections and a default are what the same number of observations are. */
START_TEST(each_slot_is_taught_where_it_was_shown)
{
    struct world w, twin;
    struct kb_ev_slot slots[N_SLOTS];
    struct kb_ev_draw draws[N_SLOTS];
    struct kb_event ev;
    bool has_reward;
    double reward;

    for (int k = 0; k < 2; k++) {
        struct world *one = k == 0 ? &w : &twin;
        open_world(one, "gp-ucb", DIM, 10);
        one->spec.aggregation = KB_AGG_LAST;
        live(&one->log, kbt_configured(&one->spec, 2));
    }
    fill_slots(&w, slots, draws);
    live(&w.log, decided(&w, "d", slots, draws, N_SLOTS));
    ck_assert_str_eq(kb_engine_slot_arm(w.log.live, "d", "right"), "c");
    ck_assert_ptr_null(kb_engine_slot_arm(w.log.live, "d", "middle"));
    ck_assert_ptr_null(kb_engine_slot_arm(w.log.live, "e", "right"));
    const struct {
        const char *arm;
        double reward;
    } told[] = {{"b", 0.5}, {"d", -1}, {"b", 0.75}};
    for (size_t i = 0; i < 3; i++) {
        ev = kbt_rewarded("d", told[i].reward);
        ev.as.rewarded.arm = told[i].arm;
        live(&w.log, ev);
    }
    ck_assert_int_eq(kb_engine_slot_reward(w.log.live, "d", "b", &has_reward, &reward), KB_OK);
    ck_assert(has_reward && reward == 0.75);
    struct kb_engine *again = kbt_log_reload(w.log.live);
    ck_assert_str_eq(kb_engine_slot_arm(again, "d", "foot"), "d");
    ck_assert_uint_eq(kb_engine_digest(again), kb_engine_digest(w.log.live));
    kb_engine_free(again);
    live(&w.log, (struct kb_event){.type = KB_EV_EXPIRED,
                                   .as.expired = {.decision = "d", .has_reward = true, .reward = 0.125}});
    observe(&twin, "u", w.context[1], 1, 0.75);
    observe(&twin, "u", w.context[3], 3, -1);
    observe(&twin, "u", w.context[0], 0, 0.125);
    observe(&twin, "u", w.context[0], 2, 0.125);
    struct kb_slot_query slot = {.id = "x"};
    struct drawn d;
    ck_assert_int_eq(draw_slots(&w, &slot, 1, 1, &d, NULL), KB_OK);
    assert_slot(&twin, &d, 0, w.context[N_SLOTS]);
    struct kb_engine *folded = kbt_log_fold(&w.log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(w.log.live));
    kb_engine_free(folded);
    kbt_log_drop(&twin.log);
    kbt_log_close(&w.log);
}
END_TEST

static void refused(struct world *w, const struct kb_ev_slot *slots, const struct kb_ev_draw *draws, size_t n,
                    const char *pointer)
{
    struct kb_errmsg msg = {"", ""};

    ck_assert_int_eq(kbt_log_live(&w->log, decided(w, "x", slots, draws, n), &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, pointer);
}

START_TEST(events_that_no_decision_makes_are_refused)
{
    struct world w;
    struct kb_ev_slot slots[KB_MAX_SLOTS + 1];
    struct kb_ev_draw draws[KB_MAX_SLOTS + 1];

    open_world(&w, "gp-ucb", DIM, 1);
#define REFUSED(change, pointer)                                                                                       \
    do {                                                                                                               \
        fill_slots(&w, slots, draws);                                                                                  \
        change;                                                                                                        \
        refused(&w, slots, draws, N_SLOTS, pointer);                                                                   \
    } while (0)
    REFUSED(draws[2].id = "top", "/slots/2");
    REFUSED(slots[2].arm = "a", "/slots/2");
    REFUSED(draws[1].propensity = 0, "/slots/1/propensity");
    REFUSED(draws[1].propensity = (double)NAN, "/slots/1/propensity");
    REFUSED(draws[1].level = KB_MAX_LEVEL + 1, "/slots/1/level");
    static char text[KB_MAX_SLOTS + 1][8];
    for (size_t i = 0; i <= KB_MAX_SLOTS; i++) {
        snprintf(text[i], sizeof text[i], "s%zu", i);
        slots[i] = (struct kb_ev_slot){text[i], w.features[0]};
        draws[i] = (struct kb_ev_draw){.id = text[i], .propensity = 1};
    }
    refused(&w, slots, draws, KB_MAX_SLOTS + 1, "/slate");
    live(&w.log, decided(&w, "most", slots, draws, KB_MAX_SLOTS));
    refused(&w, slots, NULL, KB_MAX_TOP + 1, "/slate");
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("slots", 240, {deviations_know_the_slots_before_as_if_they_had_been_observed, N_MODELS},
                         {slots_know_open_decisions_and_the_slots_before, N_HALLUCINATING},
                         {what_a_reward_would_count_is_what_it_counts_now, 1},
                         {deviations_are_those_of_dense_algebra, 1},
                         {frequencies_are_products_of_the_propensities, N_DRAWING}, {one_slot_is_a_decision, 1},
                         {slots_leave_out_what_they_exclude_and_run_out_by_name, 1},
                         {what_is_left_is_what_no_list_has, 2}, {a_long_list_costs_about_what_candidates_cost, 1},
                         {a_tenant_that_is_stopped_shows_the_baselines_of_the_slots, 1},
                         {each_slot_is_taught_where_it_was_shown, 1}, {events_that_no_decision_makes_are_refused, 1});
}
