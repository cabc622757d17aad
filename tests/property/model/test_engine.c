/* The engine as a fold: over every preset, a live run of random traffic ends in the same state, bit for bit, as a fresh
 * fold of its log, as a quiet fold, as a snapshot of the middle with the tail folded on, and as a run whose events came
 * in batches; and over models with a learned user kernel. Failures of any allocation, and refused events, change
 * nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/engine_background.h"
#include "model/engine_state.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"

#define N_USERS 12
#define N_ARMS 6
#define N_STEPS 120

static uint64_t draw(uint64_t seed, uint64_t i)
{
    return kb_rng_bits(seed, KB_STREAM_SIMULATION, i);
}

static double number(uint64_t seed, uint64_t i)
{
    return 2 * kb_rng_uniform(seed, KB_STREAM_SIMULATION, i) - 1;
}

struct names {
    char user[N_USERS][8], arm[N_ARMS][8];
    double features[N_ARMS][3];
};

static void make_names(struct names *names, uint64_t seed)
{
    for (size_t i = 0; i < N_USERS; i++)
        snprintf(names->user[i], sizeof names->user[i], "u%zu", i);
    for (size_t i = 0; i < N_ARMS; i++) {
        snprintf(names->arm[i], sizeof names->arm[i], "a%zu", i);
        for (size_t k = 0; k < 3; k++)
            names->features[i][k] = number(seed, 100 + 3 * i + k);
    }
}

/* A ring over two thirds of the users: the others are unknown to the graph. */
static void put_graph(struct kbt_log *log, const struct names *names, double weight)
{
    struct kb_ev_edge edges[N_USERS];
    const size_t n = 2 * N_USERS / 3;

    for (size_t i = 0; i < n; i++)
        edges[i] = (struct kb_ev_edge){names->user[i], names->user[(i + 1) % n], weight};
    const struct kb_event ev = {.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = n}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

static void put_arms(struct kbt_log *log, const struct names *names)
{
    const uint32_t dim = kb_engine_spec(log->live)->arm_dim;
    struct kb_ev_arm arms[N_ARMS];
    static const char *const countries[] = {"de", "at"};
    static const struct kb_attribute_rule allow = {"country", countries, 2};
    const struct kb_eligibility rules = {
        .allow = &allow, .n_allow = 1, .from_ms = INT64_MIN, .until_ms = INT64_MAX, .hours = 0xffffff};

    for (size_t i = 0; i < N_ARMS; i++)
        arms[i] = (struct kb_ev_arm){.id = names->arm[i],
                                     .features = dim > 0 ? names->features[i] : NULL,
                                     .is_active = i != 4,
                                     .eligibility = i == 2 ? &rules : NULL,
                                     .value = i == 1 ? "{\"price\":9}" : NULL};
    const struct kb_event ev = {.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = N_ARMS}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

/* One decision over the catalogue, recorded under the id d<i>; returns the number of slots. */
static void decide(struct kbt_log *log, const struct names *names, uint64_t seed, size_t i, size_t n_slots)
{
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    struct kb_ev_slot slots[KB_MAX_SLOTS];
    const double context[2] = {number(seed, 7 * i), number(seed, 7 * i + 1)};
    char id[16];

    snprintf(id, sizeof id, "d%zu", i);
    const struct kb_attribute at = {"country", "at"};
    const struct kb_query q = {.user = names->user[draw(seed, i) % N_USERS],
                               .context = context,
                               .attributes = &at,
                               .n_attributes = 1,
                               .now_ms = log->now_ms,
                               .key = draw(seed, i)};
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(log->live, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(log->live, &q, s, &d, NULL), KB_OK);
    ck_assert_uint_eq(d.n, N_ARMS - 1);
    for (size_t k = 0; k < n_slots; k++)
        slots[k] = (struct kb_ev_slot){d.arm[d.order[k]], d.features[d.order[k]]};
    const struct kb_event ev = {.type = KB_EV_DECIDED,
                                .as.decided = {.decision = id,
                                               .user = q.user,
                                               .context = context,
                                               .slots = slots,
                                               .n_slots = n_slots,
                                               .propensity = d.propensity[d.chosen],
                                               .route = d.route,
                                               .assigned_until_ms = d.assigned_until_ms,
                                               .mean = d.mean[d.chosen],
                                               .expires_at_ms = log->now_ms + 50,
                                               .is_deferred = i % 17 == 3,
                                               .level = d.level}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
    kb_engine_scratch_free(s);
}

static void expire_due(struct kbt_log *log, bool has_reward)
{
    const char *ids[8];
    size_t n = 0;

    while ((n = kb_engine_expired(log->live, log->now_ms, ids, 8)) > 0) {
        const struct kb_event ev = {.type = KB_EV_EXPIRED,
                                    .as.expired = {.decision = ids[0], .has_reward = has_reward, .reward = -0.5}};

        ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
    }
}

/* Random traffic: decisions (some of them slates, some deferred), rewards for most, the rest expire. */
static void run_traffic(struct kbt_log *log, const struct names *names, uint64_t seed, size_t from, size_t to)
{
    char id[16];

    for (size_t i = from; i < to; i++) {
        decide(log, names, seed, i, i % 10 == 0 ? 2 : 1);
        log->now_ms++;
        snprintf(id, sizeof id, "d%zu", i - i % 3);
        if (i % 17 == 3 && i % 2 == 1)
            (void)kbt_log_live(log, (struct kb_event){.type = KB_EV_ACTIVATED, .as.activated = {.decision = id}}, NULL);
        (void)kbt_log_live(log, kbt_rewarded(id, number(seed, 1000 + i)), NULL); /* repeats are refused */
        if (i % 5 == 0)
            expire_due(log, i % 2 == 0);
    }
}

static void observe(struct kbt_log *log, const struct names *names, uint64_t seed, size_t i)
{
    const double context[2] = {number(seed, i), 0};
    const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                .as.observed = {.user = i % 3 ? names->user[i % N_USERS] : "stranger",
                                                .context = context,
                                                .arm = {names->arm[i % N_ARMS], names->features[i % N_ARMS]},
                                                .reward = number(seed, 31 * i)}};

    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

static size_t n_presets(void)
{
    size_t n = 0;

    while (kb_preset_name(n) != NULL)
        n++;
    return n;
}

/* Models that no preset has by itself, walked behind the presets. */
#define N_EXTRA 13

/* Bounds over a dictionary: of the beginning, and taken over from an exact model that outgrows its limit. */
static struct kb_spec bounded_spec(bool is_handed_over)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, is_handed_over ? "cmm-ucb" : "lk-gp-ucb", 2, 3), KB_OK);
    spec.repr.exact_limit = 15;
    if (!is_handed_over)
        spec.repr.type = KB_REPR_THRESHOLD;
    spec.conf.type = is_handed_over ? KB_CONF_DMM : KB_CONF_CMM;
    spec.conf.is_mixture = true;
    return spec;
}

/* Resampled dictionaries over the users of the default row, dense and normalised. */
static struct kb_spec resampled_over_graph(bool is_batched)
{
    struct kb_spec spec, rows;

    ck_assert_int_eq(kb_spec_preset(&rows, "laplaced-kors", 2, 3), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, is_batched ? "bbkb" : "bkb", 2, 3), KB_OK);
    spec.user_kernel = rows.user_kernel;
    spec.repr.q = 0.5;
    spec.repr.batch_ratio = 2;
    return spec;
}

/* Models that forget, quickly: every representation, by events and by time, with rewards that change later. A
 * millisecond passes with each decision. */
static struct kb_spec forgetful_spec(size_t i)
{
    static const enum kb_repr_type reprs[] = {KB_REPR_EXACT, KB_REPR_THRESHOLD, KB_REPR_KORS, KB_REPR_BBKB};
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "lk-gp-ucb", 2, 3), KB_OK);
    spec.repr.type = reprs[i % 4];
    spec.conf.type = KB_CONF_FIXED;
    spec.conf.beta = 2;
    spec.forgetting.type = i % 2 == 0 ? KB_FORGET_DISCOUNT : KB_FORGET_HALF_LIFE;
    spec.forgetting.discount = 0.95;
    spec.forgetting.half_life_s = 0.01;
    spec.aggregation = (enum kb_aggregation)((i + 1) % KB_AGG_N);
    if (i == 4)
        spec.forgetting.discount = 0.01; /* exact, and next to nothing is left of the last event but one */
    if (i == 5)
        spec.user_kernel.type = KB_USER_MMD, spec.user_kernel.refresh = 13, spec.user_kernel.min_observations = 2;
    return spec;
}

static struct kb_spec extra_spec(size_t i)
{
    struct kb_spec spec;

    if (i >= 7)
        return forgetful_spec(i - 7);
    if (i >= 5)
        return resampled_over_graph(i == 6);
    if (i >= 3)
        return bounded_spec(i == 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "coop-kernel-ucb", i == 1 ? 0 : 2, 3), KB_OK);
    spec.user_kernel.type = KB_USER_MMD;
    spec.user_kernel.n_features = 16;
    spec.user_kernel.refresh = 13;
    spec.user_kernel.min_observations = 2;
    spec.aggregation = (enum kb_aggregation)(i % KB_AGG_N);
    if (i == 2)
        spec.repr.type = KB_REPR_KORS;
    return spec;
}

static struct kb_spec spec_of(size_t preset);

/* A model whose deviations know open decisions, where it may. */
static struct kb_spec open_spec(size_t preset)
{
    const struct kb_spec spec = spec_of(preset);
    struct kb_spec open = spec;

    open.conf.type = KB_CONF_FIXED;
    open.pending = KB_PENDING_HALLUCINATE;
    return kb_spec_check(&open, NULL) == KB_OK ? open : spec;
}

static struct kb_spec spec_of(size_t preset)
{
    struct kb_spec spec;
    const bool is_plain = preset % 2 == 1;

    if (preset >= n_presets() + N_EXTRA)
        return open_spec(preset - n_presets() - N_EXTRA);
    if (preset >= n_presets())
        return extra_spec(preset - n_presets());
    ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(preset), is_plain ? 0 : 2, is_plain ? 0 : 3), KB_OK);
    spec.aggregation = (enum kb_aggregation)(preset % KB_AGG_N);
    spec.routing = (struct kb_routing_spec){
        .holdout = 0.3, .baseline = preset % 3 == 0 ? KB_BASELINE_ARM : KB_BASELINE_UNIFORM, .sticky_ms = 7};
    if (preset % 3 == 0)
        strcpy(spec.routing.arm, "a1");
    return spec;
}

/* The whole session of a preset: traffic, a new graph and a new kernel in the middle, traffic again. */
static void run_session(struct kbt_log *log, struct kb_spec spec, uint64_t seed)
{
    struct names names;

    make_names(&names, seed);
    kbt_log_open(log);
    ck_assert_int_eq(kbt_log_live(log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_graph(log, &names, 1);
    put_arms(log, &names);
    run_traffic(log, &names, seed, 0, N_STEPS / 2);
    put_graph(log, &names, 2);
    for (size_t i = 0; i < 10; i++)
        observe(log, &names, seed, i);
    const char *stopped = names.arm[1];
    ck_assert_int_eq(
        kbt_log_live(log, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.stop = &stopped, .n_stop = 1}}, NULL),
        KB_OK);
    ck_assert_int_eq(
        kbt_log_live(log, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.start = &stopped, .n_start = 1}}, NULL),
        KB_OK);
    spec.repr.lambda = 0.5;
    spec.conf.beta = 1;
    ck_assert_int_eq(kbt_log_live(log, kbt_configured(&spec, 2), NULL), KB_OK);
    run_traffic(log, &names, seed, N_STEPS / 2, N_STEPS);
}

START_TEST(a_fresh_fold_equals_the_live_model)
{
    struct kbt_log log;

    run_session(&log, spec_of((size_t)_i), 11 + (uint64_t)_i);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

START_TEST(quiet_fold_equals_plain_fold)
{
    struct kbt_log log;

    run_session(&log, spec_of((size_t)_i), 12 + (uint64_t)_i);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, true);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

START_TEST(a_snapshot_of_any_moment_with_its_tail_equals_the_live_model)
{
    struct kbt_log log, part;
    const uint64_t seed = 13 + (uint64_t)_i;

    run_session(&log, spec_of((size_t)_i), seed);
    for (size_t cut = 3; cut < log.n; cut += log.n / 5) {
        part = log;
        part.n = cut;
        if (log.event[cut].type == KB_EV_DICTIONARY && log.event[cut].as.dictionary.is_reset)
            part.n++; /* a reset stands in the transaction of what it follows */
        struct kb_engine *early = kbt_log_fold(&part, NULL, 0, false);
        struct kb_engine *copy = kbt_log_reload(early);
        ck_assert_uint_eq(kb_engine_digest(copy), kb_engine_digest(early));
        copy = kbt_log_fold(&log, copy, part.n, _i % 2 == 0);
        ck_assert_uint_eq(kb_engine_digest(copy), kb_engine_digest(log.live));
        kb_engine_free(early);
        kb_engine_free(copy);
    }
    kbt_log_close(&log);
}
END_TEST

/* Bounds of the whole catalogue for one user. */
static void read_bounds(const struct kb_engine *e, const char *user, double lower[N_ARMS], double upper[N_ARMS])
{
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    const double context[2] = {0.3, -0.2};
    const struct kb_attribute at = {"country", "de"};
    const struct kb_query q = {.user = user, .context = context, .attributes = &at, .n_attributes = 1, .key = 7};

    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
    memcpy(lower, d.lower, d.n * sizeof *lower);
    memcpy(upper, d.upper, d.n * sizeof *upper);
    kb_engine_scratch_free(s);
}

START_TEST(bounds_after_a_fold_or_a_reload_are_those_of_the_live_model)
{
    struct kbt_log log;
    double lower[3][N_ARMS], upper[3][N_ARMS];

    run_session(&log, spec_of((size_t)_i), 14 + (uint64_t)_i);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, _i % 2 == 0), *copy = kbt_log_reload(log.live);
    for (size_t user = 0; user < N_USERS; user++) {
        char id[8];
        snprintf(id, sizeof id, "u%zu", user);
        read_bounds(log.live, id, lower[0], upper[0]);
        read_bounds(fold, id, lower[1], upper[1]);
        read_bounds(copy, id, lower[2], upper[2]);
        for (size_t i = 0; i < N_ARMS - 1; i++) {
            ck_assert_double_lt(lower[0][i], upper[0][i]);
            if (kb_engine_spec(log.live)->conf.score ==
                KB_SCORE_FIXED) { /* only read, so they may be of another moment */
                ck_assert(lower[1][i] < upper[1][i] && lower[2][i] < upper[2][i]);
                continue;
            }
            ck_assert(lower[0][i] == lower[1][i] && upper[0][i] == upper[1][i]);
            ck_assert(lower[0][i] == lower[2][i] && upper[0][i] == upper[2][i]);
        }
    }
    kb_engine_free(fold);
    kb_engine_free(copy);
    kbt_log_close(&log);
}
END_TEST

/* Snapshots to the byte: what stands in a table in the order of the key would show. */
static void expect_same_bytes(const struct kb_engine *a, const struct kb_engine *b)
{
    struct kb_writer wa, wb;

    kb_writer_init(&wa);
    kb_writer_init(&wb);
    ck_assert_int_eq(kb_engine_save(a, &wa), KB_OK);
    ck_assert_int_eq(kb_engine_save(b, &wb), KB_OK);
    ck_assert_uint_eq(wa.n, wb.n);
    ck_assert_mem_eq(wa.data, wb.data, wa.n);
    kb_writer_close(&wa);
    kb_writer_close(&wb);
}

/* Once with each key: the log that comes of it, what chance drew among it, the model, and what it answers. */
START_TEST(the_key_of_the_tables_changes_nothing)
{
    struct kbt_log log, other;
    double lower[2][N_ARMS], upper[2][N_ARMS];
    const struct kb_hash_key was = kbt_key;

    run_session(&log, spec_of((size_t)_i), 15 + (uint64_t)_i);
    kbt_key = (struct kb_hash_key){{0xdc504fd368cd90afu, 0xb920bb9ffe99e9c1u}};
    run_session(&other, spec_of((size_t)_i), 15 + (uint64_t)_i);
    ck_assert_uint_eq(log.n, other.n);
    for (size_t i = 0; i < log.n; i++)
        ck_assert_int_eq(log.event[i].type, other.event[i].type);
    ck_assert_uint_eq(kb_engine_digest(log.live), kb_engine_digest(other.live));
    expect_same_bytes(log.live, other.live);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, _i % 2 == 0), *copy = kbt_log_reload(log.live);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    ck_assert_uint_eq(kb_engine_content_digest(fold), kb_engine_content_digest(log.live));
    ck_assert_uint_eq(kb_engine_logical_digest(fold), kb_engine_logical_digest(log.live));
    ck_assert_uint_eq(kb_engine_logical_digest(copy), kb_engine_logical_digest(other.live));
    expect_same_bytes(copy, log.live);
    read_bounds(log.live, "nobody", lower[0], upper[0]);
    read_bounds(copy, "nobody", lower[1], upper[1]);
    for (size_t i = 0; i < N_ARMS - 1; i++)
        ck_assert(lower[0][i] == lower[1][i] && upper[0][i] == upper[1][i]);
    kb_engine_free(fold);
    kb_engine_free(copy);
    kbt_log_close(&log);
    kbt_log_close(&other);
    kbt_key = was;
}
END_TEST

START_TEST(events_in_batches_equal_events_one_by_one)
{
    struct kbt_log one, many;
    struct names names;
    struct kb_event events[60];
    double contexts[60][2];
    const struct kb_spec spec = spec_of((size_t)_i);

    make_names(&names, 5);
    for (size_t i = 0; i < 60; i++) {
        contexts[i][0] = number(5, i % 7);
        contexts[i][1] = 0.5;
        events[i] = (struct kb_event){.type = KB_EV_OBSERVED,
                                      .as.observed = {.user = names.user[draw(9, i) % N_USERS],
                                                      .context = contexts[i],
                                                      .arm = {names.arm[i % N_ARMS], names.features[i % N_ARMS]},
                                                      .reward = number(6, i)}};
    }
    kbt_log_open(&one);
    kbt_log_open(&many);
    ck_assert_int_eq(kbt_log_live(&one, kbt_configured(&spec, 1), NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&many, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 60; i++)
        ck_assert_int_eq(kbt_log_live(&one, events[i], NULL), KB_OK);
    kbt_log_batch(&many, events, 60);
    const bool outgrows = spec.repr.type == KB_REPR_EXACT && spec.repr.exact_limit < 60;
    if (outgrows || kb_repr_is_resampled(spec.repr.type)) { /* at most once a batch, so the logs differ by resets */
        struct kb_engine *fold = kbt_log_fold(&many, NULL, 0, false);
        ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(many.live));
        ck_assert_uint_eq(many.n, 61); /* the batch began with nothing learned */
        kb_engine_free(fold);
    } else {
        ck_assert_uint_eq(one.n, many.n);
        ck_assert_uint_eq(kb_engine_digest(one.live), kb_engine_digest(many.live));
    }
    kbt_log_drop(&one);
    kbt_log_close(&many);
}
END_TEST

START_TEST(a_failing_allocation_changes_nothing_and_the_next_try_goes_on)
{
    struct kbt_log log;
    struct names names;
    const struct kb_spec spec = spec_of((size_t)_i);
    const double context[2] = {0.3, -0.2};

    make_names(&names, 3);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_graph(&log, &names, 1);
    for (size_t i = 0; i < 8; i++)
        observe(&log, &names, 3, i);
    const uint64_t before = kb_engine_digest(log.live);
    struct kb_event ev = {
        .type = KB_EV_OBSERVED,
        .seq = log.n + 1,
        .as.observed = {
            .user = "somebody-new", .context = context, .arm = {"arm-new", names.features[2]}, .reward = 1}};
    size_t n_failed = 0;
    for (size_t at = 1;; at++) {
        kbt_alloc_watch(at);
        const enum kb_err rc = kb_engine_fold(log.live, &ev, NULL);
        kbt_alloc_unwatch();
        if (rc == KB_OK)
            break;
        ck_assert_int_eq(rc, KB_ENOMEM);
        ck_assert_uint_eq(kb_engine_digest(log.live), before);
        n_failed++;
    }
    ck_assert_uint_gt(n_failed, 0);
    ck_assert_uint_ne(kb_engine_digest(log.live), before);
    kbt_log_close(&log);
}
END_TEST

START_TEST(refused_events_change_nothing)
{
    struct kbt_log log;
    struct kb_spec spec;
    struct kb_errmsg msg;
    const double x[1] = {0.5};

    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 1, 0), KB_OK);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_rewarded("d", 1), &msg), KB_EINVAL); /* before any configuration */
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    struct kb_ev_slot slot = {"a", NULL};
    struct kb_event decided = {.type = KB_EV_DECIDED,
                               .as.decided = {.decision = "d",
                                              .user = "u",
                                              .context = x,
                                              .slots = &slot,
                                              .n_slots = 1,
                                              .propensity = 1,
                                              .expires_at_ms = INT64_MAX}};
    ck_assert_int_eq(kbt_log_live(&log, decided, NULL), KB_OK);
    const uint64_t before = kb_engine_digest(log.live);
    ck_assert_int_eq(kbt_log_live(&log, decided, &msg), KB_EEXIST);
    ck_assert_str_eq(msg.pointer, "/decision");
    ck_assert_int_eq(kbt_log_live(&log, kbt_rewarded("other", 1), &msg), KB_ENOTFOUND);
    struct kb_event slotless = kbt_rewarded("d", 1);
    slotless.as.rewarded.arm = "b";
    ck_assert_int_eq(kbt_log_live(&log, slotless, &msg), KB_ENOTFOUND);
    ck_assert_str_eq(msg.pointer, "/arm");
    spec.context_dim = 2;
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), &msg), KB_ECONFLICT);
    ck_assert_str_eq(msg.pointer, "/context_dim");
    const char *gone = "nobody";
    const struct kb_event remove = {.type = KB_EV_ARMS, .as.arms = {.remove = &gone, .n_remove = 1}};
    ck_assert_int_eq(kbt_log_live(&log, remove, &msg), KB_ECONFLICT);
    ck_assert_str_eq(msg.pointer, "/remove/0");
    const struct kb_ev_edge loop = {"u", "u", 1};
    const struct kb_event graph = {.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = &loop, .n_add = 1}};
    ck_assert_int_eq(kbt_log_live(&log, graph, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/edges/0");
    ck_assert_uint_eq(kb_engine_digest(log.live), before);
    kbt_log_close(&log);
}
END_TEST

/* Mean reward of the only arm under each aggregation, read back through a large-count prediction. */
START_TEST(last_equals_a_log_that_only_saw_the_last_value)
{
    struct kbt_log a, b;
    struct kb_spec spec;
    const struct kb_ev_slot slot = {"a", NULL};
    const struct kb_event decided = {
        .type = KB_EV_DECIDED,
        .as.decided = {
            .decision = "d", .user = "u", .slots = &slot, .n_slots = 1, .propensity = 1, .expires_at_ms = INT64_MAX}};
    struct kb_engine_counts x, y;

    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    spec.aggregation = KB_AGG_LAST;
    kbt_log_open(&a);
    kbt_log_open(&b);
    ck_assert_int_eq(kbt_log_live(&a, kbt_configured(&spec, 1), NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&b, kbt_configured(&spec, 1), NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&a, decided, NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&b, decided, NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&a, kbt_rewarded("d", 0.25), NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&a, kbt_rewarded("d", 0.75), NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&b, kbt_rewarded("d", 0.75), NULL), KB_OK);
    kb_engine_counts(a.live, &x);
    kb_engine_counts(b.live, &y);
    ck_assert_uint_eq(x.learned, 1);
    ck_assert_double_eq(x.reward_sum, y.reward_sum);
    ck_assert_uint_eq(kb_posterior_digest(kb_engine_posterior(a.live), 0),
                      kb_posterior_digest(kb_engine_posterior(b.live), 0));
    kbt_log_drop(&a);
    kbt_log_close(&b);
}
END_TEST

START_TEST(exact_hands_over_to_kors_beyond_its_limit)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    make_names(&names, 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "lk-gp-ucb", 2, 3), KB_OK);
    spec.repr.exact_limit = 20;
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_graph(&log, &names, 1);
    for (size_t i = 0; i < 40; i++)
        observe(&log, &names, 8, i);
    ck_assert_int_eq(kb_engine_spec(log.live)->repr.type, KB_REPR_KORS);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, true);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

static size_t n_resets(const struct kbt_log *log)
{
    size_t n = 0;

    for (size_t i = 0; i < log->n; i++)
        n += log->event[i].type == KB_EV_DICTIONARY && log->event[i].as.dictionary.is_reset;
    return n;
}

/* A model that has a mean for each user and arm holds as many points as there are. Where bounds are read off all of
 * them, it hands over as others do. */
START_TEST(a_model_without_a_factor_outgrows_its_limit)
{
    const bool reads_all = _i == 1;
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    make_names(&names, 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    spec.user_kernel.type = KB_USER_IDENTITY;
    spec.repr.exact_limit = 8;
    if (reads_all)
        spec.conf.type = KB_CONF_CMM;
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 200; i++)
        observe(&log, &names, 8, i);
    ck_assert_int_eq(kb_engine_spec(log.live)->repr.type, reads_all ? KB_REPR_KORS : KB_REPR_EXACT);
    ck_assert_uint_eq(n_resets(&log), reads_all);
    ck_assert_uint_gt(kb_posterior_n_support(kb_engine_posterior(log.live)), spec.repr.exact_limit);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, true), *loaded = kbt_log_reload(log.live);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    ck_assert_uint_eq(kb_engine_digest(loaded), kb_engine_digest(log.live));
    kb_engine_free(loaded);
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

/* A reset comes before the event that follows a reward, and names the points of the dictionary. */
START_TEST(a_resampling_stands_in_the_log_before_the_next_event)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    make_names(&names, 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "bkb", 2, 3), KB_OK);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 12; i++) {
        observe(&log, &names, 8, i);
        ck_assert_int_eq(log.event[log.n - 1].type, KB_EV_OBSERVED);
        ck_assert_uint_eq(n_resets(&log), i);
        ck_assert_uint_eq(log.n, 2 * i + 2);
    }
    const struct kb_event *reset = &log.event[log.n - 2];
    ck_assert_int_eq(reset->as.dictionary.repr, KB_REPR_BKB);
    ck_assert_uint_eq(reset->as.dictionary.n_atoms, kb_posterior_n_support(kb_engine_posterior(log.live)));
    for (size_t i = 0; i < reset->as.dictionary.n_atoms; i++) {
        const struct kb_point pt = kb_posterior_support_point(kb_engine_posterior(log.live), i);
        const struct kb_event *taught = &log.event[reset->as.dictionary.atoms[i].event - 1];

        ck_assert_str_eq(taught->as.observed.arm.arm, kb_engine_arm_id(log.live, pt.arm));
        ck_assert_double_eq(taught->as.observed.context[0], pt.x[0]);
    }
    kbt_log_close(&log);
}
END_TEST

/* The batched form waits for its sum once it has a dictionary; a decision alone never brings a resampling. */
START_TEST(a_batched_resampling_waits_for_its_ratio)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;
    double sum = 0;
    size_t want = 0;

    make_names(&names, 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "bbkb", 2, 3), KB_OK);
    spec.repr.batch_ratio = 4;
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_arms(&log, &names);
    for (size_t i = 0; i < 60; i++) {
        if (i % 4 == 0)
            decide(&log, &names, 8, i, 1);
        want += sum > 0 && (kb_posterior_n_support(kb_engine_posterior(log.live)) == 0 || 1 + sum > 4);
        observe(&log, &names, 8, i);
        ck_assert_uint_eq(n_resets(&log), want);
        sum = kb_posterior_accumulated(kb_engine_posterior(log.live));
    }
    ck_assert_uint_ge(want, 4);
    ck_assert_uint_le(want, 30);
    kbt_log_close(&log);
}
END_TEST

static void expect_fold(const struct kbt_log *log)
{
    struct kb_engine *fold = kbt_log_fold(log, NULL, 0, false);

    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log->live));
    kb_engine_free(fold);
}

/* Draws share the user kernel with the posterior before; a live engine and a fold must both see when they may not. */
START_TEST(a_changed_graph_or_kernel_reaches_the_dictionaries_drawn_after_it)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec = resampled_over_graph(_i % 2 == 0);

    make_names(&names, 4);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_graph(&log, &names, 1);
    for (size_t i = 0; i < 15; i++)
        observe(&log, &names, 8, i);
    put_graph(&log, &names, 3);
    expect_fold(&log);
    for (size_t i = 15; i < 20; i++)
        observe(&log, &names, 8, i);
    expect_fold(&log);
    spec.user_kernel.rho = 0.5;
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
    expect_fold(&log);
    for (size_t i = 20; i < 25; i++)
        observe(&log, &names, 8, i);
    expect_fold(&log);
    kbt_log_close(&log);
}
END_TEST

/* Its resets come all the time; those of the medians are counted from the last one of theirs. */
START_TEST(resampling_does_not_put_off_median_lengthscales)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    make_names(&names, 4);
    ck_assert_int_eq(kb_spec_preset(&spec, "bkb", 2, 3), KB_OK);
    spec.context_kernel.is_median = true;
    spec.context_kernel.lengthscale = 9;
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 34; i++)
        observe(&log, &names, 8, i);
    ck_assert_double_lt(kb_engine_spec(log.live)->context_kernel.lengthscale, 2);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

/* The planned reset of one engine, tried with every allocation failing in turn. */
START_TEST(a_resampling_without_memory_leaves_the_last_dictionary)
{
    struct kbt_log log;
    struct names names;
    struct kb_event next;
    size_t n_failed = 0;

    make_names(&names, 4);
    const struct kb_spec spec = resampled_over_graph(false);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_graph(&log, &names, 1);
    for (size_t i = 0; i < 20; i++)
        observe(&log, &names, 8, i);
    const uint64_t before = kb_engine_digest(log.live);
    for (size_t at = 1;; at++) {
        kbt_alloc_watch(at);
        enum kb_err rc = kb_engine_due(log.live, log.n + 1, true, &next);
        next.seq = log.n + 1;
        if (rc == KB_OK)
            rc = kb_engine_reserve(log.live, &next, NULL);
        kbt_alloc_unwatch();
        if (rc == KB_OK)
            break;
        ck_assert_int_eq(rc, KB_ENOMEM);
        ck_assert_uint_eq(kb_engine_digest(log.live), before);
        n_failed++;
    }
    ck_assert_uint_gt(n_failed, 8);
    kb_engine_apply(log.live, &next);
    ck_assert_uint_ne(kb_engine_digest(log.live), before);
    kbt_log_close(&log);
}
END_TEST

START_TEST(median_lengthscales_follow_the_catalogue_and_are_logged)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;
    double rows[N_ARMS * 3], want = 0;

    make_names(&names, 21);
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 0, 3), KB_OK);
    spec.arm_kernel.is_median = true;
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < N_ARMS; i++)
        for (size_t k = 0; k < 3; k++)
            rows[3 * i + k] = names.features[i][k] *= 5;
    put_arms(&log, &names);
    double distance[N_ARMS * N_ARMS];
    size_t n = 0;
    for (size_t i = 0; i < N_ARMS; i++)
        for (size_t j = 0; j < i; j++) {
            double d2 = 0;

            for (size_t k = 0; k < 3; k++)
                d2 += (rows[3 * i + k] - rows[3 * j + k]) * (rows[3 * i + k] - rows[3 * j + k]);
            distance[n++] = d2;
        }
    for (size_t i = 0; i < n; i++) { /* the middle one by counting: n = 15 is odd */
        size_t below = 0;

        for (size_t j = 0; j < n; j++)
            below += distance[j] < distance[i];
        if (below == n / 2)
            want = distance[i];
    }
    const double got = kb_engine_spec(log.live)->arm_kernel.lengthscale;
    ck_assert_double_eq_tol(got * got, want, 1e-12 * want);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

/* mean of one arm for one user, by a decision that is not recorded. */
static double mean_of(const struct kb_engine *e, const char *user)
{
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    const double context[2] = {0.1, 0}, features[3] = {0.2, 0.1, -0.3};
    const struct kb_candidate arm = {"a0", features};
    const struct kb_query q = {.user = user, .context = context, .candidates = &arm, .n_candidates = 1};

    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, 1, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
    const double mean = d.mean[0];
    kb_engine_scratch_free(s);
    return mean;
}

/* Every 13 learned rewards, counted from the last reset whatever its reason, and never by decisions. Until the first
 * one nobody shares anything; after it the users who were seen do, and those who were not still do not. */
START_TEST(a_learned_kernel_is_refreshed_exactly_when_due)
{
    struct kbt_log log;
    struct names names;
    struct kb_event next;
    struct kb_spec spec = extra_spec(0);

    make_names(&names, 4);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 13; i++) {
        ck_assert_int_eq(kb_engine_due(log.live, log.n + 1, true, &next), KB_OK);
        ck_assert_int_eq(next.type, KB_EV_NONE);
        ck_assert(mean_of(log.live, "u9") == 0);
        observe(&log, &names, 4, i % 6);
    }
    ck_assert_uint_eq(n_resets(&log), 0);
    ck_assert(mean_of(log.live, "u5") != 0 && mean_of(log.live, "u9") == 0);
    put_arms(&log, &names); /* any event lets the reset be had first */
    ck_assert_uint_eq(n_resets(&log), 1);
    ck_assert_int_eq(log.event[log.n - 2].type, KB_EV_DICTIONARY);
    ck_assert(mean_of(log.live, "u5") != 0 && mean_of(log.live, "u9") == 0);
    spec.repr.lambda = 0.7;
    for (size_t i = 0; i < 5; i++)
        observe(&log, &names, 4, i);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
    ck_assert_uint_eq(n_resets(&log), 2);
    for (size_t i = 0; i < 12; i++)
        observe(&log, &names, 4, i);
    decide(&log, &names, 4, 1, 1);
    ck_assert_uint_eq(n_resets(&log), 2);
    observe(&log, &names, 4, 12);
    decide(&log, &names, 4, 2, 1);
    ck_assert_uint_eq(n_resets(&log), 3);
    kbt_log_close(&log);
}
END_TEST

/* Users of equal tastes in what they see share after a refresh what one of them was told alone before it. */
START_TEST(users_who_see_alike_share_after_a_refresh)
{
    struct kbt_log log;
    struct kb_spec spec = extra_spec(0);
    const double features[3] = {0.2, 0.1, -0.3};

    spec.user_kernel.bandwidth = 0.3; /* the median of three distances is no scale */
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (size_t i = 0; i < 13; i++) { /* two see one place, the third another; only the first is ever rewarded */
        const double context[2] = {i % 3 == 2 ? 5 : 0.1 * (double)(i / 3), 0};
        const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                    .as.observed = {.user = i % 3 == 0   ? "one"
                                                            : i % 3 == 1 ? "two"
                                                                         : "other",
                                                    .context = context,
                                                    .arm = {"a0", features},
                                                    .reward = i % 3 == 0}};
        if (i == 12)
            ck_assert(mean_of(log.live, "two") == 0);
        ck_assert_int_eq(kbt_log_live(&log, ev, NULL), KB_OK);
    }
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
    ck_assert_uint_eq(n_resets(&log), 1);
    ck_assert_double_gt(mean_of(log.live, "two"), 0.1);
    ck_assert_double_lt(fabs(mean_of(log.live, "other")), 0.05);
    ck_assert(mean_of(log.live, "nobody") == 0);
    kbt_log_close(&log);
}
END_TEST

/* ---- in the background ------------------------------------------------------------------------------- */

/* Traffic goes on while points enter and new models are built, each of them for 7 events. A fold ends where the live
 * model is, at the end and at moments when something is still under way. */
START_TEST(what_is_built_beside_traffic_equals_a_fold)
{
    struct kbt_log log, part;

    kbt_delay = 7;
    run_session(&log, spec_of((size_t)_i), 15 + (uint64_t)_i);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false), *quiet = kbt_log_fold(&log, NULL, 0, true);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    ck_assert_uint_eq(kb_engine_digest(quiet), kb_engine_digest(log.live));
    kb_engine_free(quiet);
    for (size_t cut = 3; cut < log.n; cut += log.n / 5) {
        part = log;
        part.n = cut;
        struct kb_engine *early = kbt_log_fold(&part, NULL, 0, false);
        if (!kb_engine_is_building(early)) {
            struct kb_engine *copy = kbt_log_reload(early);
            kb_engine_free(early);
            early = copy;
        }
        early = kbt_log_fold(&log, early, part.n, false);
        ck_assert_uint_eq(kb_engine_digest(early), kb_engine_digest(log.live));
        kb_engine_free(early);
    }
    ck_assert_uint_gt(log.n_builds, 0);
    kbt_log_finish_builds(&log);
    kb_engine_free(fold);
    fold = kbt_log_fold(&log, NULL, 0, true);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

/* The swap takes everything with it that was learned meanwhile: an exact model built so predicts what one predicts that
 * was built at once, over the same events. */
START_TEST(a_model_built_beside_traffic_predicts_what_one_built_at_once_does)
{
    struct kbt_log log, at_once;
    double lower[2][N_ARMS], upper[2][N_ARMS];
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "lk-gp-ucb", 2, 3), KB_OK);
    kbt_delay = 23;
    run_session(&log, spec, 16);
    kbt_log_finish_builds(&log);
    kbt_delay = 0;
    kbt_log_open(&at_once);
    for (size_t i = 0; i < log.n; i++)
        if (log.event[i].type != KB_EV_DICTIONARY)
            ck_assert_int_eq(kbt_log_live(&at_once, log.event[i], NULL), KB_OK);
    read_bounds(log.live, "u3", lower[0], upper[0]);
    read_bounds(at_once.live, "u3", lower[1], upper[1]);
    ck_assert_uint_gt(log.n_builds, 0);
    for (size_t a = 0; a < N_ARMS - 1; a++) { /* one is not active */
        ck_assert_double_eq_tol(lower[0][a], lower[1][a], 1e-9);
        ck_assert_double_eq_tol(upper[0][a], upper[1][a], 1e-9);
    }
    kbt_log_drop(&at_once);
    kbt_log_close(&log); /* with the copies of both */
}
END_TEST

/* A build that a later change supersedes while its worker has it, and one that is told to end and lent again. */
START_TEST(superseded_and_cancelled_builds_leave_no_trace)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    kbt_delay = 1000;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 2, 3), KB_OK);
    make_names(&names, 17);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_arms(&log, &names);
    for (size_t i = 0; i < 12; i++)
        observe(&log, &names, 17, i);
    ck_assert(kb_engine_is_building(log.live) && !kb_engine_is_rebuilding(log.live));
    put_graph(&log, &names, 1); /* a reset takes the place of the point that is on its way */
    ck_assert(kb_engine_is_rebuilding(log.live));
    spec.repr.lambda = 0.7;
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
    for (size_t i = 12; i < 20; i++)
        observe(&log, &names, 17, i);
    ck_assert_ptr_nonnull(log.lent);
    kb_build_cancel(log.lent);
    ck_assert_int_eq(kb_build_run(log.lent), KB_ECANCELLED);
    kb_engine_return_build(log.live, log.lent);
    log.lent = NULL;
    kbt_log_finish_builds(&log);
    ck_assert_double_eq(kb_engine_spec(log.live)->repr.lambda, 0.7);
    ck_assert_ptr_nonnull(kb_engine_graph(log.live));
    expect_fold(&log);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

static enum kb_event_type due_type(struct kbt_log *log)
{
    struct kb_event next;

    ck_assert_int_eq(kb_engine_due(log->live, log->n + 1, true, &next), KB_OK);
    return next.type;
}

static void run_and_return(struct kbt_log *log)
{
    ck_assert_int_eq(kb_build_run(log->lent), KB_OK);
    kb_engine_return_build(log->live, log->lent);
    log->lent = NULL;
}

/* The worker gets what was learned meanwhile as long as that is much; a few steps are left to the writer. */
START_TEST(what_is_learned_meanwhile_is_handed_over_until_it_is_little)
{
    struct kbt_log log;
    struct names names;
    struct kb_spec spec;

    kbt_delay = SIZE_MAX / 2; /* the worker's part is done here */
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 2, 3), KB_OK);
    make_names(&names, 18);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    put_arms(&log, &names);
    observe(&log, &names, 18, 0);
    put_graph(&log, &names, 1);
    for (size_t i = 1; i < 400; i++)
        observe(&log, &names, 18, i);
    ck_assert(kb_engine_is_rebuilding(log.live));
    run_and_return(&log);
    ck_assert_int_eq(due_type(&log), KB_EV_NONE);
    log.lent = kb_engine_lend_build(log.live);
    ck_assert_ptr_nonnull(log.lent);
    for (size_t i = 400; i < 410; i++)
        observe(&log, &names, 18, i);
    run_and_return(&log);
    ck_assert_int_eq(due_type(&log), KB_EV_DICTIONARY);
    kbt_log_finish_builds(&log);
    expect_fold(&log);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

int main(void)
{
    const int n = 2 * (int)n_presets() + N_EXTRA; /* again, with open decisions */
    Suite *suite = suite_create("engine");
    TCase *each = tcase_create("every preset"), *some = tcase_create("cases");

    tcase_set_timeout(each, 60);
    tcase_add_loop_test(each, a_fresh_fold_equals_the_live_model, 0, n);
    tcase_add_loop_test(each, quiet_fold_equals_plain_fold, 0, n);
    tcase_add_loop_test(each, a_snapshot_of_any_moment_with_its_tail_equals_the_live_model, 0, n);
    tcase_add_loop_test(each, bounds_after_a_fold_or_a_reload_are_those_of_the_live_model, 0, n);
    tcase_add_loop_test(each, the_key_of_the_tables_changes_nothing, 0, n);
    tcase_add_loop_test(each, events_in_batches_equal_events_one_by_one, 0, n);
    tcase_add_loop_test(each, a_failing_allocation_changes_nothing_and_the_next_try_goes_on, 0, n);
    tcase_add_test(some, refused_events_change_nothing);
    tcase_add_test(some, last_equals_a_log_that_only_saw_the_last_value);
    tcase_add_test(some, exact_hands_over_to_kors_beyond_its_limit);
    tcase_add_loop_test(some, a_model_without_a_factor_outgrows_its_limit, 0, 2);
    tcase_add_test(some, a_resampling_stands_in_the_log_before_the_next_event);
    tcase_add_test(some, a_batched_resampling_waits_for_its_ratio);
    tcase_add_loop_test(some, a_changed_graph_or_kernel_reaches_the_dictionaries_drawn_after_it, 0, 2);
    tcase_add_test(some, resampling_does_not_put_off_median_lengthscales);
    tcase_add_test(some, a_resampling_without_memory_leaves_the_last_dictionary);
    tcase_add_test(some, median_lengthscales_follow_the_catalogue_and_are_logged);
    tcase_add_test(some, a_learned_kernel_is_refreshed_exactly_when_due);
    tcase_add_test(some, users_who_see_alike_share_after_a_refresh);
    tcase_add_loop_test(each, what_is_built_beside_traffic_equals_a_fold, 0, n);
    tcase_add_test(some, a_model_built_beside_traffic_predicts_what_one_built_at_once_does);
    tcase_add_test(some, superseded_and_cancelled_builds_leave_no_trace);
    tcase_add_test(some, what_is_learned_meanwhile_is_handed_over_until_it_is_little);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, some);
    return kbt_run_suite(suite);
}
