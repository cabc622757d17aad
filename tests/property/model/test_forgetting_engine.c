/* What forgets, through the engine: builds beside the traffic, corrections, expiries, erasure by redacted lines, and
 * drift. Oracles: a model filled from the history, a log that never had what was taken out, the same log without
 * forgetting. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_state.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "posterior/learning.h"

#define N_USERS 6u
#define N_ARMS 4u

static const enum kb_repr_type reprs[] = {KB_REPR_EXACT, KB_REPR_THRESHOLD, KB_REPR_KORS, KB_REPR_BY_ARM,
                                          KB_REPR_BY_COMPONENT};
#define N_REPRS (int)(sizeof reprs / sizeof *reprs)

static double number(uint64_t seed, uint64_t i)
{
    return 2 * kb_rng_uniform(seed, KB_STREAM_SIMULATION, i) - 1;
}

static struct kb_spec spec_of(enum kb_repr_type repr, enum kb_forgetting_type type)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "gp-ucb", 1, 0), KB_OK);
    spec.repr.type = repr;
    spec.repr.lambda = spec.repr.mu = 0.3;
    spec.repr.threshold = 0.1;
    spec.user_kernel.type = KB_USER_IDENTITY;
    spec.aggregation = KB_AGG_LAST;
    spec.forgetting.type = type;
    spec.forgetting.discount = 0.95;
    spec.forgetting.half_life_s = 0.02;
    return spec;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static void configure(struct kbt_log *log, const struct kb_spec *spec, uint64_t version)
{
    live(log, kbt_configured(spec, version));
}

/* By number: the user, arm and reward follow from i. */
static void observe(struct kbt_log *log, size_t i)
{
    char user[8], arm[8];
    const double context[1] = {number(7, i % 5)};

    snprintf(user, sizeof user, "u%zu", i % N_USERS);
    snprintf(arm, sizeof arm, "a%zu", (i * i) % N_ARMS);
    log->now_ms += (int64_t)(i % 4);
    live(log, (struct kb_event){
                  .type = KB_EV_OBSERVED,
                  .as.observed = {.user = user, .context = context, .arm = {arm, NULL}, .reward = number(8, i)}});
}

static void decide(struct kbt_log *log, const char *id, const char *user, size_t n_slots, bool is_deferred)
{
    static const struct kb_ev_slot slots[3] = {{"a0", NULL}, {"a1", NULL}, {"a2", NULL}};
    const double context[1] = {0.25};

    live(log, (struct kb_event){.type = KB_EV_DECIDED,
                                .as.decided = {.decision = id,
                                               .user = user,
                                               .context = context,
                                               .slots = slots,
                                               .n_slots = n_slots,
                                               .propensity = 1,
                                               .expires_at_ms = INT64_MAX,
                                               .is_deferred = is_deferred}});
}

/* Means and sds of all arms for a user. */
struct answers {
    size_t n;
    double value[2 * N_ARMS];
};

static struct answers ask(const struct kb_engine *e, const char *user)
{
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    struct answers out = {0};
    const double context[1] = {0.1};
    const struct kb_candidate arms[N_ARMS] = {{"a0", NULL}, {"a1", NULL}, {"a2", NULL}, {"a3", NULL}};
    const struct kb_query q = {.user = user, .context = context, .candidates = arms, .n_candidates = N_ARMS, .key = 7};

    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, N_ARMS, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
    for (size_t i = 0; i < d.n; i++) {
        out.value[out.n++] = d.mean[i];
        out.value[out.n++] = d.sd[i];
    }
    kb_engine_scratch_free(s);
    return out;
}

static void expect_answers(const struct kb_engine *a, const struct kb_engine *b, double tol)
{
    for (size_t u = 0; u < N_USERS; u++) {
        char user[8];

        snprintf(user, sizeof user, "u%zu", u);
        const struct answers x = ask(a, user), y = ask(b, user);
        ck_assert_double_le(kbt_distance(x.n, x.value, y.value), tol);
    }
}

/* ---- builds ------------------------------------------------------------------------------------------- */

/* The engine's own posterior against one that is filled from its history with the same points. */
static void expect_filled(struct kb_engine *e)
{
    struct kb_posterior *filled = NULL, *own = e->posterior;
    struct kb_scratch s;
    const size_t m = kb_posterior_n_support(own);
    struct kb_atom *atoms = calloc(m + 1, sizeof *atoms);
    const bool is_exact = e->spec.repr.type == KB_REPR_EXACT;
    struct answers before[N_USERS];

    for (size_t i = 0; i < m && !is_exact; i++) {
        const struct kb_point pt = kb_posterior_support_point(own, i);

        atoms[i] = (struct kb_atom){kb_history_find(&e->history, pt.user.index, pt.arm, pt.x), 1};
        ck_assert_uint_ne(atoms[i].row, SIZE_MAX);
    }
    kb_scratch_init(&s);
    ck_assert_int_eq(kb_posterior_new(&filled, &e->spec, NULL, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(filled, &s, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_fill(filled, &e->history, e->node_of, atoms, is_exact ? 0 : m, &s), KB_OK);
    ck_assert_double_eq(kb_posterior_unit(filled), kb_posterior_unit(own));
    for (size_t u = 0; u < 2 * N_USERS; u++) {
        char user[8];

        snprintf(user, sizeof user, "u%zu", u % N_USERS);
        e->posterior = u < N_USERS ? own : filled;
        const struct answers now = ask(e, user);
        if (u < N_USERS)
            before[u] = now;
        else
            ck_assert_double_le(kbt_distance(now.n, now.value, before[u - N_USERS].value), 1e-8);
    }
    e->posterior = own;
    kb_posterior_free(filled);
    kb_scratch_close(&s);
    free(atoms);
}

/* Points that enter and models that are built beside the traffic, each for 11 events, in which the unit moves. */
START_TEST(what_is_built_beside_traffic_has_the_weights_of_its_end)
{
    struct kbt_log log;
    struct kb_spec spec =
        spec_of(reprs[_i % N_REPRS], 1 + _i / N_REPRS % 2 == 1 ? KB_FORGET_DISCOUNT : KB_FORGET_HALF_LIFE);

    kbt_delay = 11;
    kbt_log_open(&log);
    configure(&log, &spec, 1);
    for (size_t i = 0; i < 60; i++)
        observe(&log, i);
    spec.repr.lambda = 0.5;
    configure(&log, &spec, 2);
    ck_assert(kb_engine_is_rebuilding(log.live));
    for (size_t i = 60; i < 64; i++)
        observe(&log, i);
    spec.context_kernel.lengthscale = 0.7; /* begins anew */
    configure(&log, &spec, 3);
    for (size_t i = 64; i < 120; i++)
        observe(&log, i);
    kbt_log_finish_builds(&log);
    ck_assert_uint_gt(log.n_builds, 0);
    expect_filled(log.live);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, true);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

/* A setting that changes while a model is built counts from where that model is in force. */
START_TEST(a_change_of_setting_waits_for_the_model_that_it_comes_with)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_NONE);

    kbt_delay = 11;
    kbt_log_open(&log);
    spec.conf.type = KB_CONF_DMM;
    configure(&log, &spec, 1);
    for (size_t i = 0; i < 30; i++)
        observe(&log, i);
    spec.conf.type = KB_CONF_FIXED;
    spec.forgetting.type = KB_FORGET_DISCOUNT;
    configure(&log, &spec, 2);
    ck_assert(kb_engine_is_rebuilding(log.live));
    for (size_t i = 30; i < 35; i++)
        observe(&log, i);
    ck_assert_double_eq(log.live->history.unit, 0); /* bounds of the model in force still hold */
    kbt_log_finish_builds(&log);
    for (size_t i = 35; i < 60; i++)
        observe(&log, i);
    ck_assert_double_gt(log.live->history.unit, 0);
    expect_filled(log.live);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    spec.conf.type = KB_CONF_CMM;
    spec.forgetting.type = KB_FORGET_NONE;
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 3), NULL), KB_ECONFLICT);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

/* An exact model stays within its limit when what it forgets makes room. */
START_TEST(an_exact_model_that_forgets_need_not_outgrow_its_limit)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_DISCOUNT);

    spec.repr.exact_limit = 40;
    spec.forgetting.discount = 0.2; /* 18 events to KB_LEAST_COUNT */
    kbt_log_open(&log);
    configure(&log, &spec, 1);
    for (size_t i = 0; i < 300; i++) {
        char user[8];
        const double context[1] = {number(9, i)};

        snprintf(user, sizeof user, "u%zu", i % N_USERS);
        live(&log, (struct kb_event){
                       .type = KB_EV_OBSERVED,
                       .as.observed = {.user = user, .context = context, .arm = {"a0", NULL}, .reward = context[0]}});
    }
    ck_assert_int_eq(kb_engine_spec(log.live)->repr.type, KB_REPR_EXACT);
    ck_assert_uint_le(kb_posterior_n_support(kb_engine_posterior(log.live)), 41);
    expect_filled(log.live);
    kbt_log_close(&log);
}
END_TEST

/* ---- corrections and expiries ---------------------------------------------------------------------------- */

/* Under `last` and `sum` the model is that of a log which had the final value at the first one's place. */
START_TEST(a_corrected_log_equals_one_that_knew_at_once)
{
    struct kbt_log log[2];
    const double told[3] = {0.25, -1, 2}, final[2] = {2, 1.25};
    const bool is_sum = _i % 2 == 1;

    for (size_t k = 0; k < 2; k++) {
        struct kb_spec spec = spec_of(reprs[_i / 2 % 2], (enum kb_forgetting_type)(_i / 4));

        spec.aggregation = is_sum ? KB_AGG_SUM : KB_AGG_LAST;
        kbt_log_open(&log[k]);
        configure(&log[k], &spec, 1);
        for (size_t i = 0; i < 10; i++)
            observe(&log[k], i);
        decide(&log[k], "d", "u1", 1, false);
        live(&log[k], kbt_rewarded("d", k == 0 ? told[0] : final[is_sum]));
        for (size_t i = 10; i < 40; i++) {
            observe(&log[k], i);
            if (k == 0 && i % 12 == 11 && i < 30)
                live(&log[k], kbt_rewarded("d", told[i / 12 + 1]));
        }
    }
    expect_answers(log[0].live, log[1].live, 1e-10);
    for (size_t row = 0; row < log[0].live->history.n; row++)
        ck_assert(
            kbt_close(kb_history_sum(&log[0].live->history, row), kb_history_sum(&log[1].live->history, row), 1e-12));
    ck_assert_double_eq(log[0].live->history.n_observed, log[1].live->history.n_observed);
    kbt_log_drop(&log[1]);
    kbt_log_close(&log[0]);
}
END_TEST

/* One step for all slots of a slate; none where the decision was never shown, or has all its rewards. */
START_TEST(an_expiry_is_one_step_whatever_it_teaches)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_DISCOUNT);
    const struct kb_history *h = NULL;

    kbt_log_open(&log);
    configure(&log, &spec, 1);
    observe(&log, 0);
    decide(&log, "slate", "u1", 3, false);
    decide(&log, "hidden", "u2", 1, true);
    decide(&log, "shown", "u3", 1, true);
    decide(&log, "told", "u4", 1, false);
    live(&log, (struct kb_event){.type = KB_EV_ACTIVATED, .as.activated = {.decision = "shown"}});
    live(&log, kbt_rewarded("told", 1));
    static const char *const ids[] = {"slate", "hidden", "shown", "told"};
    static const size_t rows[] = {5, 5, 6, 6};
    static const uint64_t steps[] = {2, 2, 3, 3};
    for (size_t i = 0; i < 4; i++) {
        live(&log, (struct kb_event){.type = KB_EV_EXPIRED,
                                     .as.expired = {.decision = ids[i], .has_reward = true, .reward = -1}});
        h = &log.live->history;
        ck_assert_uint_eq(h->n, rows[i]);
        ck_assert_uint_eq(log.live->decay.steps, steps[i]);
    }
    for (size_t row = 3; row < 5; row++)
        ck_assert_double_eq(h->halvings[row], h->halvings[2]);
    ck_assert(kbt_close(kb_history_count(h, 5) / kb_history_count(h, 2), 1 / 0.95, 1e-12));
    expect_filled(log.live);
    kbt_log_close(&log);
}
END_TEST

/* ---- erasure --------------------------------------------------------------------------------------------- */

static void rebuild(struct kb_engine *e)
{
    struct kb_event next;

    ck_assert_int_eq(kb_engine_rebuild(e, e->seq + 1, &next), KB_OK);
    next.seq = e->seq + 1;
    ck_assert_int_eq(kb_engine_fold(e, &next, NULL), KB_OK);
}

/* Lines that were redacted teach nothing, so neither do they count as events nor as time. */
START_TEST(redacted_events_are_no_steps)
{
    struct kbt_log log, never;
    struct kb_spec spec = spec_of(reprs[_i / 2 % 2], _i % 2 == 0 ? KB_FORGET_DISCOUNT : KB_FORGET_HALF_LIFE);
    struct kb_engine *redacted = NULL;

    spec.user_kernel.type = KB_USER_ONES;
    kbt_log_open(&log);
    kbt_log_open(&never);
    configure(&log, &spec, 1);
    configure(&never, &spec, 1);
    for (size_t i = 0; i < 60; i++) {
        observe(&log, i);
        if (i % N_USERS != 0) {
            never.now_ms = log.now_ms - (int64_t)(i % 4);
            observe(&never, i);
        }
    }
    ck_assert_int_eq(kb_engine_new(&redacted, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(redacted, log.n + 1);
    for (size_t i = 0; i < log.n; i++) {
        struct kb_event ev = log.event[i];

        if ((ev.type == KB_EV_OBSERVED && strcmp(ev.as.observed.user, "u0") == 0) || ev.type == KB_EV_DICTIONARY)
            ev = (struct kb_event){.type = KB_EV_REDACTED, .seq = ev.seq, .at_ms = ev.at_ms};
        ck_assert_int_eq(kb_engine_fold(redacted, &ev, NULL), KB_OK);
    }
    kb_engine_fold_quietly_until(redacted, 0);
    struct kb_posterior *empty = NULL;
    ck_assert_int_eq(kb_posterior_new(&empty, &spec, NULL, kbt_key), KB_OK);
    kb_posterior_free(redacted->posterior);
    redacted->posterior = empty;
    rebuild(redacted);
    kbt_log_finish_builds(&never);
    rebuild(never.live);
    ck_assert_uint_eq(kb_engine_content_digest(redacted), kb_engine_content_digest(never.live));
    kb_engine_free(redacted);
    kbt_log_drop(&never);
    kbt_log_close(&log);
}
END_TEST

/* ---- drift ------------------------------------------------------------------------------------------------- */

#define N_ROUNDS 2000u
#define N_CHOICES 4u

/* Regret of UCB over arms whose means are drawn anew in the middle (or not). */
static double regret_of(uint64_t seed, double discount, bool has_change)
{
    struct kb_engine *e = NULL;
    struct kb_scratch *s = NULL;
    struct kb_spec spec;
    double regret = 0;
    uint64_t seq = 0;
    char name[N_CHOICES][4];
    struct kb_candidate arms[N_CHOICES];

    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    kb_spec_tune(&spec, false);
    spec.repr.lambda = 0.05;
    spec.forgetting.type = discount < 1 ? KB_FORGET_DISCOUNT : KB_FORGET_NONE;
    spec.forgetting.discount = discount < 1 ? discount : 0.9;
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    struct kb_event ev = kbt_configured(&spec, 1);
    ev.seq = ++seq;
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    for (size_t a = 0; a < N_CHOICES; a++) {
        snprintf(name[a], sizeof name[a], "a%zu", a);
        arms[a] = (struct kb_candidate){name[a], NULL};
    }
    for (uint64_t t = 0; t < N_ROUNDS; t++) {
        const uint64_t era = has_change && t >= N_ROUNDS / 2;
        const struct kb_query q = {.user = "u", .candidates = arms, .n_candidates = N_CHOICES, .key = t};
        struct kb_decision d;
        double best = 0, mean = 0;

        ck_assert_int_eq(kb_engine_fit_scratch(e, s, N_CHOICES, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
        for (uint64_t a = 0; a < N_CHOICES; a++) {
            const double f = kb_rng_uniform(seed, KB_STREAM_SIMULATION, 100 * era + a);

            best = fmax(best, f);
            mean = a == d.chosen ? f : mean;
        }
        regret += best - mean;
        const double y = mean + 0.1 * kb_rng_normal(seed, KB_STREAM_SIMULATION, 1000 + t);
        const struct kb_event seen = {.type = KB_EV_OBSERVED,
                                      .seq = ++seq,
                                      .as.observed = {.user = "u", .arm = {d.arm[d.chosen], NULL}, .reward = y}};
        ck_assert_int_eq(kb_engine_fold(e, &seen, NULL), KB_OK);
    }
    kb_engine_scratch_free(s);
    kb_engine_free(e);
    return regret;
}

/* After an abrupt change a model that forgets finds the new best arm, where one that does not clings to the old one; in
 * a world that stands still it pays for looking again and again. */
START_TEST(forgetting_pays_where_the_world_changes)
{
    double changed[2] = {0}, still[2] = {0};

    for (uint64_t seed = 1; seed <= 8; seed++) {
        for (int k = 0; k < 2; k++) {
            changed[k] += regret_of(seed, k == 0 ? 1 : 0.99, true);
            still[k] += regret_of(seed, k == 0 ? 1 : 0.99, false);
        }
    }
    printf("regret over 8 runs of %u rounds: change %.0f, with discount 0.99 %.0f; none %.0f, with it %.0f\n", N_ROUNDS,
           changed[0], changed[1], still[0], still[1]);
    ck_assert_double_lt(changed[1], 0.6 * changed[0]);
    ck_assert_double_lt(still[0], still[1]);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "forgetting_engine", 60, {what_is_built_beside_traffic_has_the_weights_of_its_end, 2 * N_REPRS},
        {a_change_of_setting_waits_for_the_model_that_it_comes_with, 1},
        {an_exact_model_that_forgets_need_not_outgrow_its_limit, 1}, {a_corrected_log_equals_one_that_knew_at_once, 12},
        {an_expiry_is_one_step_whatever_it_teaches, 1}, {redacted_events_are_no_steps, 4},
        {forgetting_pays_where_the_world_changes, 1});
}
