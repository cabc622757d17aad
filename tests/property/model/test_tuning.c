/* Refits of a model's own scales (engine_tune.c): when they fall due, that they do not depend on the unit of the
 * rewards or on how these came, what they leave alone, and that they find what the rewards were made with. That a fold
 * reads them bit for bit is asked of every preset in test_engine.c and test_summary.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_state.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define N_USERS 12u
#define N_ARMS 4u
#define DIM 2u

static double uniform(uint64_t i)
{
    return kb_rng_uniform(41, KB_STREAM_SIMULATION, i);
}

static double normal(uint64_t i)
{
    return sqrt(-2 * log(1 - uniform(2 * i))) * cos(6.283185307179586 * uniform(2 * i + 1));
}

static struct kb_spec spec_of(uint32_t context_dim)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-arm", context_dim, 0), KB_OK);
    spec.seed = 5;
    return spec;
}

static const char *name_of(char kind, size_t i)
{
    static char names[16][24];
    static size_t next;
    char *name = names[next++ % 16];

    snprintf(name, 24, "%c%zu", kind, i);
    return name;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static void put_ring(struct kbt_log *log)
{
    static char names[N_USERS][24];
    const char *users[N_USERS];
    struct kb_ev_edge edges[N_USERS];

    for (size_t i = 0; i < N_USERS; i++) {
        snprintf(names[i], sizeof names[i], "u%zu", i);
        users[i] = names[i];
    }
    for (size_t i = 0; i < N_USERS; i++)
        edges[i] = (struct kb_ev_edge){users[i], users[(i + 1) % N_USERS], 1};
    live(log,
         (struct kb_event){
             .type = KB_EV_GRAPH,
             .as.graph = {.is_replace = true, .users = users, .n_users = N_USERS, .add = edges, .n_add = N_USERS}});
}

static void put_arms(struct kbt_log *log, size_t n)
{
    struct kb_ev_arm arms[64];

    for (size_t i = 0; i < n; i++) {
        static char names[64][24];
        snprintf(names[i], sizeof names[i], "a%zu", i);
        arms[i] = (struct kb_ev_arm){.id = names[i], .is_active = true};
    }
    live(log, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = n}});
}

static struct kb_event observed(size_t user, size_t arm, const double *x, double reward)
{
    return (struct kb_event){.type = KB_EV_OBSERVED,
                             .as.observed = {.user = name_of('u', user),
                                             .context = x,
                                             .arm = {name_of('a', arm), NULL},
                                             .reward = reward,
                                             .propensity = (double)NAN}};
}

static void open_log(struct kbt_log *log, const struct kb_spec *spec)
{
    kbt_log_open(log);
    live(log, kbt_configured(spec, 1));
}

static size_t count_tuned(const struct kbt_log *log, double *at, size_t most)
{
    size_t n = 0;

    for (size_t i = 0; i < log->n; i++)
        if (log->event[i].type == KB_EV_TUNED && n < most)
            at[n++] = log->event[i].as.dictionary.tuning->rewards;
    return n;
}

START_TEST(refits_fall_due_at_8_12_18_and_so_on_however_rewards_come)
{
    const double due[] = {8, 12, 18, 27, 41, 62, 93};
    struct kbt_log one, batches;
    const struct kb_spec spec = spec_of(0);
    struct kb_event events[100];
    double at[2][16];

    open_log(&one, &spec);
    open_log(&batches, &spec);
    for (size_t i = 0; i < 100; i++) {
        events[i] = observed(i % 3, i % N_ARMS, NULL, uniform(i) < 0.3);
        live(&one, events[i]);
        events[i].as.observed.user = i % 3 == 0 ? "u0" : i % 3 == 1 ? "u1" : "u2";
        events[i].as.observed.arm.arm = i % 4 == 0 ? "a0" : i % 4 == 1 ? "a1" : i % 4 == 2 ? "a2" : "a3";
    }
    kbt_log_batch(&batches, events, 100);
    ck_assert_uint_eq(count_tuned(&one, at[0], 16), 7);
    ck_assert_uint_eq(count_tuned(&batches, at[1], 16), 7);
    for (size_t i = 0; i < 7; i++) {
        ck_assert(at[0][i] == due[i]);
        ck_assert(at[1][i] == due[i]);
    }
    kbt_log_drop(&one);
    kbt_log_close(&batches);
}
END_TEST

START_TEST(refits_look_for_rho_at_first_and_then_behind_each_power_of_four)
{
    double before = 0;
    for (double n = kb_tuning_next(0); n < 1e6; before = n, n = kb_tuning_next(n)) {
        const bool is_behind = floor(log2(n) / 2) > floor(log2(fmax(before, 1)) / 2);
        ck_assert(kb_tuning_looks_for_rho(before, n) == (n < 256 || is_behind));
    }
    ck_assert(kb_tuning_looks_for_rho(20, 5000) && !kb_tuning_looks_for_rho(300, 900));
}
END_TEST

/* With contexts and a graph: everything there is to find. */
static void teach_world(struct kbt_log *log, size_t n, double times, double plus)
{
    for (size_t i = 0; i < n; i++) {
        const double x[DIM] = {normal(1000 + 2 * i), normal(1001 + 2 * i)};
        const size_t user = (size_t)(uniform(50000 + i) * N_USERS), arm = (size_t)(uniform(60000 + i) * N_ARMS);
        const double y =
            sin(x[0]) * (arm == 1) + 0.3 * x[1] * (arm == 2) + (user % 2 == 0 ? 0.5 : 0) + 0.2 * normal(70000 + i);

        live(log, observed(user, arm, x, times * y + plus));
        kbt_log_finish_builds(log);
    }
}

static void ask(const struct kb_engine *e, size_t user, struct kb_scratch *s, struct kb_decision *d)
{
    const double x[DIM] = {normal(90000 + user), normal(91000 + user)};
    const struct kb_query q = {.user = name_of('u', user), .context = x, .key = user};

    ck_assert_int_eq(kb_engine_fit_scratch(e, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, d, NULL), KB_OK);
}

START_TEST(the_unit_of_rewards_changes_nothing_but_itself)
{
    const double times = 100, plus = 5;
    struct kbt_log log[2];
    struct kb_scratch s[2];
    const struct kb_spec spec = spec_of(DIM);
    size_t n = 0;

    for (size_t k = 0; k < 2; k++) {
        open_log(&log[k], &spec);
        put_ring(&log[k]);
        put_arms(&log[k], N_ARMS);
        kb_scratch_init(&s[k]);
        teach_world(&log[k], 140, k == 0 ? 1 : times, k == 0 ? 0 : plus);
    }
    const struct kb_tuning *a = kb_engine_tunings(log[0].live, &n), *b = kb_engine_tunings(log[1].live, &n);
    ck_assert_uint_eq(n, 7);
    a += n - 1;
    b += n - 1;
    ck_assert_double_eq_tol(b->prior.mean, times * a->prior.mean + plus, 1e-9 * times);
    ck_assert_double_eq_tol(b->noise / a->noise / (times * times), 1, 1e-5);
    ck_assert_double_eq_tol(b->prior.context / a->prior.context / (times * times), 1, 1e-4);
    ck_assert_double_eq_tol(b->prior.user / a->prior.user / (times * times), 1, 1e-4);
    ck_assert_double_eq_tol(b->lengthscale, a->lengthscale, 1e-12);
    ck_assert(b->rho == a->rho);
    for (size_t u = 0; u < N_USERS; u++) {
        struct kb_decision d[2];

        for (size_t k = 0; k < 2; k++)
            ask(log[k].live, u, &s[k], &d[k]);
        ck_assert_uint_eq(d[0].chosen, d[1].chosen);
        for (size_t i = 0; i < N_ARMS; i++)
            ck_assert_double_eq_tol(d[0].propensity[i], d[1].propensity[i], 1e-5);
    }
    for (size_t k = 0; k < 2; k++)
        kb_scratch_close(&s[k]);
    kbt_log_drop(&log[0]);
    kbt_log_close(&log[1]);
}
END_TEST

START_TEST(before_the_first_refit_arms_are_drawn_alike)
{
    struct kbt_log log;
    struct kb_scratch s;
    const struct kb_spec spec = spec_of(DIM);

    open_log(&log, &spec);
    put_arms(&log, N_ARMS);
    kb_scratch_init(&s);
    for (size_t n = 0; n < 8; n++) {
        struct kb_decision d;
        const double x[DIM] = {0, 1};

        ask(log.live, n, &s, &d);
        for (size_t i = 0; i < N_ARMS; i++)
            ck_assert_double_eq_tol(d.propensity[i], 1.0 / N_ARMS, 1e-15);
        live(&log, observed(0, n % N_ARMS, x, (double)(n % 2)));
    }
    live(&log, observed(0, 0, (double[DIM]){0, 0}, 1));
    struct kb_decision d;
    ask(log.live, 0, &s, &d);
    ck_assert(fabs(d.propensity[0] - 1.0 / N_ARMS) > 1e-3);
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

START_TEST(values_that_are_fixed_stay)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(DIM);

    spec.learned &= ~(unsigned)(KB_LEARNED_NOISE | KB_LEARNED_CONTEXT | KB_LEARNED_LENGTHSCALE | KB_LEARNED_MEAN);
    spec.repr.lambda = 0.7;
    spec.prior.context = 0.3;
    spec.prior.mean = -2;
    spec.context_kernel.lengthscale = 1.25;
    open_log(&log, &spec);
    put_ring(&log);
    teach_world(&log, 60, 1, 0);
    const struct kb_spec *now = kb_engine_spec(log.live);
    ck_assert(now->repr.lambda == 0.7 && now->prior.context == 0.3 && now->prior.mean == -2);
    ck_assert(now->context_kernel.lengthscale == 1.25);
    ck_assert(now->prior.arm != spec.prior.arm && now->prior.user != spec.prior.user);
    kbt_log_close(&log);
}
END_TEST

START_TEST(without_tuning_nothing_moves)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(DIM);
    double at[1];

    spec.is_tuned = false;
    open_log(&log, &spec);
    teach_world(&log, 60, 1, 0);
    ck_assert_uint_eq(count_tuned(&log, at, 1), 0);
    ck_assert(kb_engine_spec(log.live)->repr.lambda == spec.repr.lambda);
    kbt_log_close(&log);
}
END_TEST

START_TEST(what_was_found_outlives_a_change_of_something_else)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(DIM), found;
    size_t n = 0;

    open_log(&log, &spec);
    teach_world(&log, 30, 1, 0);
    found = *kb_engine_spec(log.live);
    ck_assert(found.repr.lambda != spec.repr.lambda);
    spec.rule.epsilon = 0.1;
    live(&log, kbt_configured(&spec, 2));
    ck_assert(kb_engine_spec(log.live)->repr.lambda == found.repr.lambda);
    spec.repr.exact_limit = 100; /* another model: it is built anew, under the scales that were found */
    live(&log, kbt_configured(&spec, 3));
    ck_assert(kb_engine_spec(log.live)->repr.lambda == found.repr.lambda);
    ck_assert(kb_engine_spec(log.live)->prior.arm == found.prior.arm);
    spec.learned &= ~(unsigned)KB_LEARNED_NOISE;
    spec.repr.lambda = 3;
    live(&log, kbt_configured(&spec, 4));
    ck_assert(kb_engine_spec(log.live)->repr.lambda == 3 && kb_engine_spec(log.live)->prior.arm == found.prior.arm);
    (void)kb_engine_tunings(log.live, &n);
    ck_assert_uint_eq(n, 4);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

START_TEST(the_mean_is_that_of_a_uniform_choice)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(0);
    const double propensity[2] = {0.9, 0.1}, reward[2] = {1, 0};
    size_t n = 0;

    open_log(&log, &spec);
    put_arms(&log, 2);
    for (size_t i = 0; i < 20; i++) { /* nine of ten are of the better arm, as their propensities say */
        const size_t arm = i % 10 == 9;
        const struct kb_ev_slot slot = {name_of('a', arm), NULL};
        char id[24];

        snprintf(id, sizeof id, "d%zu", i);
        live(&log, (struct kb_event){.type = KB_EV_DECIDED,
                                     .as.decided = {.decision = id,
                                                    .user = "u",
                                                    .slots = &slot,
                                                    .n_slots = 1,
                                                    .propensity = propensity[arm],
                                                    .expires_at_ms = INT64_MAX / 2}});
        live(&log, kbt_rewarded(id, reward[arm]));
    }
    const struct kb_tuning *t = kb_engine_tunings(log.live, &n);
    /* Of 18 rewards 17 are of the first arm: 17 / (2 .9) against 1 / (2 .1). */
    ck_assert(t[n - 1].rewards == 18);
    ck_assert_double_eq_tol(t[n - 1].prior.mean, (17 / 1.8) / (17 / 1.8 + 1 / 0.2), 1e-12);
    kbt_log_close(&log);
}
END_TEST

/* A slot of few candidates weighs more than one of many, whatever those of the other slots are. */
START_TEST(the_mean_counts_what_each_slot_was_drawn_from)
{
    static const double propensity[3] = {0.25, 0.5, 1}, reward[3] = {1, -2, 5};
    static const uint32_t of[3] = {12, 2, 9};
    struct kbt_log log;
    const struct kb_spec spec = spec_of(0);
    double weight = 0, weighted = 0;
    size_t n = 0;

    open_log(&log, &spec);
    put_arms(&log, 20);
    for (size_t i = 0; i < 5; i++) { /* the refit of twelve rewards comes with the next */
        struct kb_ev_slot slots[3];
        struct kb_ev_draw draws[3];
        const char *id = name_of('d', i);

        for (size_t k = 0; k < 3; k++) {
            slots[k] = (struct kb_ev_slot){name_of('a', (i + k) % 20), NULL};
            draws[k] = (struct kb_ev_draw){.id = name_of('s', k), .propensity = propensity[k], .n_candidates = of[k]};
            weight += i < 4 ? 1 / (of[k] * propensity[k]) : 0;
            weighted += i < 4 ? reward[k] / (of[k] * propensity[k]) : 0;
        }
        live(&log, (struct kb_event){.type = KB_EV_DECIDED,
                                     .as.decided = {.decision = id,
                                                    .user = "u",
                                                    .slots = slots,
                                                    .n_slots = 3,
                                                    .draws = draws,
                                                    .propensity = propensity[0],
                                                    .expires_at_ms = INT64_MAX / 2}});
        for (size_t k = 0; k < 3; k++) {
            struct kb_event ev = kbt_rewarded(id, reward[k]);

            ev.as.rewarded.arm = slots[k].arm;
            live(&log, ev);
        }
    }
    const struct kb_tuning *t = kb_engine_tunings(log.live, &n);
    ck_assert(t[n - 1].rewards == 12);
    ck_assert_double_eq_tol(t[n - 1].prior.mean, weighted / weight, 1e-12);
    kbt_log_close(&log);
}
END_TEST

START_TEST(two_thousand_zeros_leave_all_arms_alive)
{
    struct kbt_log log;
    struct kb_scratch s;
    const struct kb_spec spec = spec_of(0);
    size_t shown[N_ARMS] = {0};

    open_log(&log, &spec);
    put_arms(&log, N_ARMS);
    kb_scratch_init(&s);
    for (size_t i = 0; i < 2000; i++) {
        struct kb_decision d;
        const struct kb_query q = {.user = "u", .key = kb_rng_bits(3, KB_STREAM_SIMULATION, i)};

        ck_assert_int_eq(kb_engine_fit_scratch(log.live, &s, 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(log.live, &q, &s, &d, NULL), KB_OK);
        shown[d.chosen]++;
        live(&log, observed(0, d.chosen, NULL, 0));
    }
    for (size_t a = 0; a < N_ARMS; a++)
        ck_assert_msg(shown[a] > 200, "arm %zu was shown %zu times", a, shown[a]);
    ck_assert(kb_engine_spec(log.live)->repr.lambda > 1e-5);
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

/* 40 arms whose means differ with variance .09, noise .04. */
START_TEST(variances_are_those_that_the_rewards_were_made_with)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(0);
    size_t n = 0;

    open_log(&log, &spec);
    for (size_t i = 0; i < 500; i++)
        live(&log, observed(0, i % 40, NULL, 0.3 * normal(200000 + i % 40) + 0.2 * normal(300000 + i)));
    const struct kb_tuning *t = kb_engine_tunings(log.live, &n);
    ck_assert_double_ge(t[n - 1].prior.arm, 0.09 / 2);
    ck_assert_double_le(t[n - 1].prior.arm, 0.09 * 2);
    ck_assert_double_ge(t[n - 1].noise, 0.04 / 1.3);
    ck_assert_double_le(t[n - 1].noise, 0.04 * 1.3);
    ck_assert(t[n - 1].after >= t[n - 1].before);
    kbt_log_close(&log);
}
END_TEST

/* --- scales of contexts ------------------------------------------------------------------------------------- */

static void teach_contexts(struct kbt_log *log, size_t from, size_t n, double times)
{
    for (size_t i = from; i < from + n; i++) {
        const double x[DIM] = {times * (3 + normal(1000 + 2 * i)), normal(1001 + 2 * i)};
        const size_t arm = (size_t)(uniform(60000 + i) * N_ARMS);
        const double y = sin(x[0] / times) * (arm == 1) + 0.3 * x[1] * (arm == 2) + 0.2 * normal(70000 + i);

        live(log, observed(i % N_USERS, arm, x, y));
        kbt_log_finish_builds(log);
    }
}

/* Of the first n contexts, by the definition. */
static double deviation(size_t n, size_t j, double times)
{
    double sum = 0, square = 0;

    for (size_t i = 0; i < n; i++)
        sum += j == 0 ? times * (3 + normal(1000 + 2 * i)) : normal(1001 + 2 * i);
    for (size_t i = 0; i < n; i++)
        square += pow((j == 0 ? times * (3 + normal(1000 + 2 * i)) : normal(1001 + 2 * i)) - sum / (double)n, 2);
    return sqrt(square / (double)n);
}

static void ask_in(const struct kbt_log *log, double times, uint64_t key, struct kb_scratch *s, struct kb_decision *d)
{
    const double x[DIM] = {times * (3 + normal(90000 + key)), normal(91000 + key)};
    const struct kb_query q = {.user = "u0", .context = x, .key = key};

    ck_assert_int_eq(kb_engine_fit_scratch(log->live, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(log->live, &q, s, d, NULL), KB_OK);
}

/* A power of two changes no bit, so the models are the same, and say so in every number. */
START_TEST(the_unit_of_a_coordinate_changes_no_decision)
{
    const double times = 1024;
    struct kbt_log log[2];
    struct kb_scratch s[2];
    struct kb_decision d[2];
    const struct kb_spec spec = spec_of(DIM);

    for (size_t k = 0; k < 2; k++) {
        open_log(&log[k], &spec);
        put_arms(&log[k], N_ARMS);
        kb_scratch_init(&s[k]);
    }
    for (size_t n = 0; n < 140; n += 20) {
        for (size_t k = 0; k < 2; k++)
            teach_contexts(&log[k], n, 20, k == 0 ? 1 : times);
        for (uint64_t key = 0; key < 20; key++) {
            for (size_t k = 0; k < 2; k++)
                ask_in(&log[k], k == 0 ? 1 : times, key, &s[k], &d[k]);
            ck_assert_uint_eq(d[0].chosen, d[1].chosen);
            ck_assert_mem_eq(d[0].mean, d[1].mean, N_ARMS * sizeof *d[0].mean);
            ck_assert_mem_eq(d[0].sd, d[1].sd, N_ARMS * sizeof *d[0].sd);
            ck_assert_mem_eq(d[0].propensity, d[1].propensity, N_ARMS * sizeof *d[0].propensity);
        }
    }
    const struct kb_spec *one = kb_engine_spec(log[0].live), *two = kb_engine_spec(log[1].live);
    ck_assert(one->n_scaled == DIM && two->scale[0] == times * one->scale[0] && two->scale[1] == one->scale[1]);
    ck_assert(one->context_kernel.lengthscale == two->context_kernel.lengthscale);
    for (size_t j = 0; j < DIM; j++)
        ck_assert(kbt_close(one->scale[j], deviation(93, j, 1), 1e-12));
    struct kb_engine *fold = kbt_log_fold(&log[1], NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log[1].live));
    kb_engine_free(fold);
    for (size_t k = 0; k < 2; k++)
        kb_scratch_close(&s[k]);
    kbt_log_drop(&log[0]);
    kbt_log_close(&log[1]);
}
END_TEST

/* It is in the unit that contexts come in. */
START_TEST(where_a_lengthscale_is_told_coordinates_are_as_they_come)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(DIM);

    spec.learned &= ~(unsigned)KB_LEARNED_LENGTHSCALE;
    spec.context_kernel.lengthscale = 2;
    open_log(&log, &spec);
    teach_contexts(&log, 0, 30, 1024);
    ck_assert_uint_eq(kb_engine_spec(log.live)->n_scaled, 0);
    ck_assert(kb_engine_spec(log.live)->prior.context != spec.prior.context);
    kbt_log_close(&log);
}
END_TEST

/* A column that was the same for everybody says nothing yet, so neither does the first other value in it. */
START_TEST(a_coordinate_that_has_not_varied_sets_nobody_apart)
{
    const double same = ((const double[]){0.05, 0, 9e29})[_i], other = same > 1 ? -same : 20;
    struct kbt_log log;
    const struct kb_spec spec = spec_of(DIM);
    const double at[][DIM] = {{1.5, same}, {1.5, other}, {0, same}};
    struct kb_scratch s;
    struct kb_decision d;
    double mean[3];

    open_log(&log, &spec);
    put_arms(&log, N_ARMS);
    kb_scratch_init(&s);
    for (size_t i = 0; i < 60; i++) {
        const double x[DIM] = {2 * normal(1000 + i), same};

        live(&log, observed(0, i % 2, x, sin(x[0]) * (i % 2 == 1) + 0.05 * normal(70000 + i)));
        kbt_log_finish_builds(&log);
    }
    for (size_t k = 0; k < 3; k++) {
        const struct kb_query q = {.user = "u0", .context = at[k], .key = 1};

        ck_assert_int_eq(kb_engine_fit_scratch(log.live, &s, 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(log.live, &q, &s, &d, NULL), KB_OK);
        mean[k] = d.mean[1];
    }
    ck_assert_double_ge(mean[0] - mean[2], 0.5); /* it has learned the sine */
    if (same < 1)
        ck_assert(kbt_close(mean[1], mean[0], 0.05));
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

/* One coordinate that never moves, one that hardly does, and one that was far off once. */
START_TEST(coordinates_that_have_not_varied_are_made_small)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(DIM);

    open_log(&log, &spec);
    for (size_t i = 0; i < 20; i++) {
        const double x[DIM] = {-5, i == 3 ? 1e20 : 1 + 1e-9 * (double)(i % 2)};

        live(&log, observed(0, i % N_ARMS, x, (double)(i % 3)));
    }
    const struct kb_spec *now = kb_engine_spec(log.live);
    ck_assert(kbt_close(now->scale[0], 5e3, 1e-12));
    ck_assert(now->scale[1] > 1e19);
    kbt_log_close(&log);
}
END_TEST

START_TEST(scales_that_no_model_has_are_refused)
{
    static const double scale[KB_MOST_SCALED + 1] = {1, 0};
    const struct kb_tuning t = {.rewards = 8, .prior = {.arm = 1}, .noise = 1, .lengthscale = 1, .rho = 1, .range = 1};
    struct kb_event ev = {.type = KB_EV_TUNED,
                          .as.dictionary = {.is_reset = true,
                                            .repr = KB_REPR_BY_ARM,
                                            .context_lengthscale = 1,
                                            .arm_lengthscale = 1,
                                            .tuning = &t,
                                            .scale = scale}};
    const struct {
        size_t n;
        const char *pointer;
    } cases[] = {{1, "/scale"}, {3, "/scale"}, {KB_MOST_SCALED + 1, "/scale"}, {DIM, "/scale/1"}};
    struct kbt_log log;
    const struct kb_spec spec = spec_of(DIM);

    open_log(&log, &spec);
    live(&log, observed(0, 0, (double[DIM]){1, 2}, 1));
    const uint64_t digest = kb_engine_digest(log.live);
    for (size_t i = 0; i < 4; i++) {
        struct kb_errmsg msg = {.text = ""};

        ev.as.dictionary.n_scale = cases[i].n;
        ck_assert_int_eq(kbt_log_live(&log, ev, &msg), KB_EINVAL);
        ck_assert_str_eq(msg.pointer, cases[i].pointer);
        ck_assert_uint_eq(kb_engine_digest(log.live), digest);
    }
    kbt_log_close(&log);
}
END_TEST

/* --- one mean for each arm: ucb and ts ---------------------------------------------------------------------- */

static const struct kb_tuning *last_tuning(const struct kbt_log *log)
{
    size_t n = 0;
    const struct kb_tuning *t = kb_engine_tunings(log->live, &n);

    ck_assert_uint_gt(n, 0);
    return t + n - 1;
}

static struct kb_spec row_of(int i)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, i == 0 ? "ucb" : "ts", 0, 0), KB_OK);
    spec.seed = 5;
    return spec;
}

struct counted {
    double n[N_ARMS], sum[N_ARMS];
};

static void teach_means(struct kbt_log *log, size_t from, size_t n, double times, double plus, struct counted *out)
{
    for (size_t i = from; i < from + n; i++) {
        const size_t arm = (size_t)(uniform(60000 + i) * N_ARMS);
        const double y = times * (0.1 * (double)arm + 0.2 * normal(70000 + i)) + plus;

        live(log, observed(i % N_USERS, arm, NULL, y));
        kbt_log_finish_builds(log);
        if (out != NULL)
            out->n[arm]++, out->sum[arm] += y;
    }
}

static void ask_plainly(const struct kbt_log *log, uint64_t key, struct kb_scratch *s, struct kb_decision *d)
{
    const struct kb_query q = {.user = "u0", .key = key};

    ck_assert_int_eq(kb_engine_fit_scratch(log->live, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(log->live, &q, s, d, NULL), KB_OK);
}

/* By the posterior of one normal mean, from the values that the model tells. */
START_TEST(what_an_arm_is_told_to_earn_follows_from_the_scales_and_its_own_rewards)
{
    struct kbt_log log;
    struct kb_scratch s;
    struct kb_decision d;
    struct counted c = {{0}, {0}};
    const struct kb_spec spec = row_of(_i);

    open_log(&log, &spec);
    put_arms(&log, N_ARMS + 1); /* one that is never shown */
    kb_scratch_init(&s);
    ask_plainly(&log, 1, &s, &d);
    for (size_t a = 0; a <= N_ARMS; a++) /* nothing is known of the rewards' unit */
        ck_assert_double_eq_tol(d.propensity[a], 1.0 / (N_ARMS + 1), 1e-15);
    teach_means(&log, 0, 100, 1, 0, &c);
    const struct kb_spec *now = kb_engine_spec(log.live);
    const double mu = now->prior.mean, v = now->prior.arm, noise = now->repr.lambda;
    ck_assert(mu != spec.prior.mean && v != spec.prior.arm && noise != spec.repr.lambda);
    ck_assert_double_ge(noise, 0.04 / 1.5);
    ck_assert_double_le(noise, 0.04 * 1.5);
    ask_plainly(&log, 2, &s, &d);
    for (size_t a = 0; a <= N_ARMS; a++) {
        const double n = a < N_ARMS ? c.n[a] : 0, sum = a < N_ARMS ? c.sum[a] : 0, weight = n / (n + noise / v);

        ck_assert(kbt_close(d.mean[a], n > 0 ? mu + weight * (sum / n - mu) : mu, 1e-12));
        ck_assert(kbt_close(d.sd[a] * d.sd[a], 1 / (1 / v + n / noise), 1e-12));
    }
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

START_TEST(rows_of_means_do_not_know_the_unit_of_rewards)
{
    struct kbt_log log[2];
    struct kb_scratch s[2];
    struct kb_decision d[2];
    const struct kb_spec spec = row_of(_i);

    for (size_t k = 0; k < 2; k++) {
        open_log(&log[k], &spec);
        put_arms(&log[k], N_ARMS);
        kb_scratch_init(&s[k]);
        teach_means(&log[k], 0, 140, k == 0 ? 1 : 100, k == 0 ? 0 : 5, NULL);
    }
    ck_assert(kbt_close(last_tuning(&log[1])->prior.mean, 100 * last_tuning(&log[0])->prior.mean + 5, 1e-9));
    ck_assert(kbt_close(last_tuning(&log[1])->noise, 1e4 * last_tuning(&log[0])->noise, 1e-5));
    for (uint64_t key = 0; key < 50; key++) {
        for (size_t k = 0; k < 2; k++)
            ask_plainly(&log[k], key, &s[k], &d[k]);
        ck_assert_uint_eq(d[0].chosen, d[1].chosen);
    }
    for (size_t k = 0; k < 2; k++)
        kb_scratch_close(&s[k]);
    kbt_log_drop(&log[0]);
    kbt_log_close(&log[1]);
}
END_TEST

/* Tuned, the papers' form, tuned again with a noise of the caller's; while rewards fade. */
START_TEST(rows_of_means_change_between_both_forms)
{
    struct kbt_log log;
    struct kb_spec spec = row_of(_i);
    struct kb_scratch s;
    struct kb_decision d;
    size_t n = 0;

    spec.forgetting.type = KB_FORGET_DISCOUNT;
    spec.forgetting.discount = 0.98;
    open_log(&log, &spec);
    put_arms(&log, N_ARMS);
    kb_scratch_init(&s);
    teach_means(&log, 0, 50, 1, 0, NULL);
    ck_assert(kb_engine_spec(log.live)->prior.mean != 0);
    kb_spec_tune(&spec, false);
    ck_assert(spec.repr.lambda == 1 && !spec.is_tuned && spec.learned == 0);
    live(&log, kbt_configured(&spec, 2));
    teach_means(&log, 50, 50, 1, 0, NULL);
    ask_plainly(&log, 3, &s, &d);
    for (size_t a = 0; a < N_ARMS; a++) /* mean 0, variance and noise 1: mean = S / (n + 1), sd^2 = 1 / (n + 1) */
        ck_assert(d.sd[a] > 0.1 && d.sd[a] < 0.5 && fabs(d.mean[a]) < 1);
    (void)kb_engine_tunings(log.live, &n);
    ck_assert_uint_eq(n, 5);
    kb_spec_tune(&spec, true);
    spec.learned &= ~(unsigned)KB_LEARNED_NOISE;
    spec.repr.lambda = 0.5;
    live(&log, kbt_configured(&spec, 3));
    teach_means(&log, 100, 60, 1, 0, NULL);
    ck_assert(kb_engine_spec(log.live)->repr.lambda == 0.5);
    (void)kb_engine_tunings(log.live, &n);
    ck_assert_uint_eq(n, 7);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

/* --- arms with features, by components --------------------------------------------------------------------- */

static struct kb_spec components_of(uint32_t context_dim)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-component", context_dim, 1), KB_OK);
    spec.seed = 5;
    return spec;
}

/* 40 arms on a line, twelve rewards each. Their means are a smooth curve, or each arm's own. */
static void teach_line(struct kbt_log *log, size_t n, bool is_smooth, double times, double plus)
{
    for (size_t i = 0; i < n; i++) {
        const size_t arm = (size_t)(uniform(80000 + i) * 40), user = i % N_USERS;
        const double x[DIM] = {normal(1000 + 2 * i), normal(1001 + 2 * i)}, feature[1] = {0.1 * (double)arm};
        const double mean = is_smooth ? 0.5 * sin(2 * feature[0]) : 0.3 * normal(200000 + arm);
        struct kb_event ev = observed(user, arm, x, times * (mean + 0.2 * normal(300000 + i)) + plus);

        if (log->live != NULL && kb_engine_spec(log->live)->context_dim == 0)
            ev.as.observed.context = NULL;
        ev.as.observed.arm.features = feature;
        live(log, ev);
        kbt_log_finish_builds(log);
    }
}

START_TEST(what_arms_share_is_told_from_what_each_has_alone)
{
    for (int is_smooth = 0; is_smooth < 2; is_smooth++) {
        struct kbt_log log;
        const struct kb_spec spec = components_of(0);

        open_log(&log, &spec);
        teach_line(&log, 500, is_smooth, 1, 0);
        const struct kb_tuning *t = last_tuning(&log);
        ck_assert_double_ge(t->noise, 0.04 / 1.3);
        ck_assert_double_le(t->noise, 0.04 * 1.3);
        ck_assert_double_ge(is_smooth ? t->prior.feature : t->prior.arm, 0.09 / 3);
        ck_assert_double_le(is_smooth ? t->prior.arm : t->prior.feature, 0.09 / 3);
        ck_assert(t->after >= t->before && t->lengthscale == spec.context_kernel.lengthscale);
        struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
        ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
        kb_engine_free(fold);
        kbt_log_close(&log);
    }
}
END_TEST

START_TEST(the_unit_of_rewards_changes_no_share_of_a_component)
{
    const double times = 100, plus = 5;
    struct kbt_log log[2];
    struct kb_spec spec = components_of(DIM);
    double at[16];

    for (size_t k = 0; k < 2; k++) {
        open_log(&log[k], &spec);
        put_ring(&log[k]);
        teach_line(&log[k], 100, true, k == 0 ? 1 : times, k == 0 ? 0 : plus);
    }
    const struct kb_tuning *a = last_tuning(&log[0]), *b = last_tuning(&log[1]);
    ck_assert_uint_eq(count_tuned(&log[0], at, 16), 7);
    ck_assert(at[0] == 8 && at[6] == 93);
    ck_assert_double_eq_tol(b->prior.mean, times * a->prior.mean + plus, 1e-9 * times);
    ck_assert_double_eq_tol(b->noise / a->noise / (times * times), 1, 1e-4);
    ck_assert_double_eq_tol(b->prior.feature / a->prior.feature / (times * times), 1, 1e-3);
    ck_assert_double_eq_tol(b->prior.user / a->prior.user / (times * times), 1, 1e-3);
    ck_assert_double_eq_tol(b->prior.context / a->prior.context / (times * times), 1, 1e-3);
    kbt_log_drop(&log[0]);
    kbt_log_close(&log[1]);
}
END_TEST

/* Refits that a worker makes, while rewards go on coming. */
START_TEST(a_refit_of_components_beside_the_traffic_is_read_by_a_fold)
{
    struct kbt_log log;
    const struct kb_spec spec = components_of(DIM);
    size_t n = 0;

    kbt_delay = 5;
    open_log(&log, &spec);
    put_ring(&log);
    for (size_t i = 0; i < 130; i++) {
        const double x[DIM] = {normal(1000 + 2 * i), normal(1001 + 2 * i)}, feature[1] = {0.1 * (double)(i % 40)};
        struct kb_event ev = observed(i % N_USERS, i % 40, x, sin(x[0]) + 0.2 * normal(300000 + i));

        ev.as.observed.arm.features = feature;
        live(&log, ev);
        if (i % 20 == 19)
            kbt_log_finish_builds(&log);
    }
    (void)kb_engine_tunings(log.live, &n);
    ck_assert_uint_ge(n, 3);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "tuning", 120, {refits_fall_due_at_8_12_18_and_so_on_however_rewards_come, 1},
        {refits_look_for_rho_at_first_and_then_behind_each_power_of_four, 1},
        {the_unit_of_rewards_changes_nothing_but_itself, 1}, {before_the_first_refit_arms_are_drawn_alike, 1},
        {values_that_are_fixed_stay, 1}, {without_tuning_nothing_moves, 1},
        {what_was_found_outlives_a_change_of_something_else, 1}, {the_mean_is_that_of_a_uniform_choice, 1},
        {the_mean_counts_what_each_slot_was_drawn_from, 1}, {two_thousand_zeros_leave_all_arms_alive, 1},
        {a_coordinate_that_has_not_varied_sets_nobody_apart, 3},
        {variances_are_those_that_the_rewards_were_made_with, 1}, {the_unit_of_a_coordinate_changes_no_decision, 1},
        {where_a_lengthscale_is_told_coordinates_are_as_they_come, 1},
        {coordinates_that_have_not_varied_are_made_small, 1}, {scales_that_no_model_has_are_refused, 1},
        {what_an_arm_is_told_to_earn_follows_from_the_scales_and_its_own_rewards, 2},
        {rows_of_means_do_not_know_the_unit_of_rewards, 2}, {rows_of_means_change_between_both_forms, 2},
        {what_arms_share_is_told_from_what_each_has_alone, 1}, {the_unit_of_rewards_changes_no_share_of_a_component, 1},
        {a_refit_of_components_beside_the_traffic_is_read_by_a_fold, 1});
}
