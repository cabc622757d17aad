/* No number that an event or a query may carry ends a fold: what a model cannot compute with is refused before anything
 * has changed, and everything within the bounds of magnitude.h leaves finite answers. */
#include <math.h>
#include <stdio.h>

#include "model/engine_state.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/magnitude.h"
#include "vector/vec_kernel.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

static struct kbt_log l;
static struct kb_errmsg msg;

static void setup(void)
{
    kbt_log_open(&l);
    msg = (struct kb_errmsg){.text = ""};
}

static void teardown(void)
{
    kbt_log_close(&l);
}

static struct kb_spec spec_of(const char *algorithm, uint32_t context_dim, uint32_t arm_dim)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, algorithm, context_dim, arm_dim), KB_OK);
    return spec;
}

static void configure(const struct kb_spec *spec, uint64_t version)
{
    ck_assert_msg(kbt_log_live(&l, kbt_configured(spec, version), &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static enum kb_err observe(const double *context, const double *features, double reward)
{
    return kbt_log_live(
        &l,
        (struct kb_event){.type = KB_EV_OBSERVED,
                          .as.observed = {.user = "u", .context = context, .arm = {"a", features}, .reward = reward}},
        &msg);
}

static enum kb_err decide(const char *id, const double *context, const double *features)
{
    const struct kb_ev_slot slot = {"a", features};

    return kbt_log_live(&l,
                        (struct kb_event){.type = KB_EV_DECIDED,
                                          .as.decided = {.decision = id,
                                                         .user = "u",
                                                         .context = context,
                                                         .slots = &slot,
                                                         .n_slots = 1,
                                                         .propensity = 1,
                                                         .expires_at_ms = INT64_MAX}},
                        &msg);
}

/* Refused there, and the engine is what it was. */
static void expect_refused(enum kb_err rc, enum kb_err want, const char *pointer, uint64_t digest)
{
    ck_assert_int_eq(rc, want);
    ck_assert_str_eq(msg.pointer, pointer);
    ck_assert_uint_eq(kb_engine_digest(l.live), digest);
}

/* What a query of the one arm is answered; every value is finite. */
static void ask(const double *context, const double *features)
{
    const struct kb_candidate arm = {"a", features};
    const struct kb_query q = {.user = "u", .context = context, .candidates = &arm, .n_candidates = 1, .key = 7};
    struct kb_scratch *s = NULL;
    struct kb_decision d;

    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(l.live, s, 1, 0), KB_OK);
    ck_assert_msg(kb_engine_decide(l.live, &q, s, &d, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    ck_assert(isfinite(d.mean[0]) && isfinite(d.sd[0]) && isfinite(d.score[0]));
    ck_assert(isfinite(d.lower[0]) && isfinite(d.upper[0]) && d.propensity[0] == 1.0);
    kb_engine_scratch_free(s);
}

static void expect_query_refused(const double *context, const double *features, const char *pointer)
{
    const struct kb_candidate arm = {"a", features};
    const struct kb_query q = {.user = "u", .context = context, .candidates = &arm, .n_candidates = 1, .key = 7};
    struct kb_scratch *s = NULL;
    struct kb_decision d;

    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(l.live, s, 1, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(l.live, &q, s, &d, &msg), KB_ERANGE);
    ck_assert_str_eq(msg.pointer, pointer);
    kb_engine_scratch_free(s);
}

/* The fold of all that was taken is the model, and a snapshot holds it. */
static void expect_folds(void)
{
    struct kb_engine *folded = kbt_log_fold(&l, NULL, 0, false), *loaded = kbt_log_reload(l.live);

    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(l.live));
    ck_assert_uint_eq(kb_engine_digest(loaded), kb_engine_digest(l.live));
    kb_engine_free(folded);
    kb_engine_free(loaded);
}

/* ---- rewards ------------------------------------------------------------------------------------------ */

static const double beyond[] = {1.1e30, -1.1e30, 1e200, 1.7976931348623157e308, -1.7976931348623157e308, INFINITY, NAN};
#define N_BEYOND (sizeof beyond / sizeof *beyond)

START_TEST(rewards_beyond_the_bound_are_refused_under_every_forgetting)
{
    struct kb_spec spec = spec_of("ucb", 0, 0);

    spec.forgetting.type = (enum kb_forgetting_type)_i;
    spec.conf.type = KB_CONF_FIXED;
    configure(&spec, 1);
    ck_assert_int_eq(observe(NULL, NULL, 1), KB_OK);
    ck_assert_int_eq(decide("d", NULL, NULL), KB_OK);
    const uint64_t digest = kb_engine_digest(l.live);
    for (size_t i = 0; i < N_BEYOND; i++) {
        expect_refused(observe(NULL, NULL, beyond[i]), KB_ERANGE, "/reward", digest);
        expect_refused(kbt_log_live(&l, kbt_rewarded("d", beyond[i]), &msg), KB_ERANGE, "/reward", digest);
    }
    for (size_t i = 0; i < 20; i++)
        ck_assert_int_eq(observe(NULL, NULL, i % 2 == 0 ? KB_MOST_MAGNITUDE : -KB_MOST_MAGNITUDE), KB_OK);
    ck_assert_int_eq(kbt_log_live(&l, kbt_rewarded("d", KB_MOST_MAGNITUDE), &msg), KB_OK);
    ask(NULL, NULL);
    expect_folds();
}
END_TEST

START_TEST(sums_of_rewards_stay_within_the_bound)
{
    struct kb_spec spec = spec_of("ucb", 0, 0);

    spec.aggregation = KB_AGG_SUM;
    configure(&spec, 1);
    ck_assert_int_eq(decide("d", NULL, NULL), KB_OK);
    ck_assert_int_eq(kbt_log_live(&l, kbt_rewarded("d", 0.6 * KB_MOST_MAGNITUDE), &msg), KB_OK);
    expect_refused(kbt_log_live(&l, kbt_rewarded("d", 0.6 * KB_MOST_MAGNITUDE), &msg), KB_ERANGE, "/reward",
                   kb_engine_digest(l.live));
    ck_assert_int_eq(kbt_log_live(&l, kbt_rewarded("d", -0.6 * KB_MOST_MAGNITUDE), &msg), KB_OK);
    expect_folds();
}
END_TEST

START_TEST(a_default_reward_beyond_the_bound_is_refused)
{
    struct kb_spec spec = spec_of("ucb", 0, 0);

    spec.has_default_reward = true;
    for (size_t i = 0; i < N_BEYOND; i++) {
        spec.default_reward = beyond[i];
        ck_assert_int_eq(kb_spec_check(&spec, &msg), KB_EINVAL);
        ck_assert_str_eq(msg.pointer, "/default_reward");
    }
}
END_TEST

/* ---- vectors ------------------------------------------------------------------------------------------ */

/* Kernels, and a coordinate that is just too large for them. */
static const struct {
    enum kb_vec_kernel_type type;
    int degree;
    double most;
} kernels[] = {
    {KB_VEC_RBF, 1, KB_MOST_MAGNITUDE},
    {KB_VEC_MATERN12, 1, KB_MOST_MAGNITUDE},
    {KB_VEC_MATERN52, 1, KB_MOST_MAGNITUDE},
    {KB_VEC_LINEAR, 1, 9e14},
    {KB_VEC_POLYNOMIAL, 2, 3e7},
    {KB_VEC_POLYNOMIAL, 8, 70},
};
#define N_KERNELS (sizeof kernels / sizeof *kernels)

static struct kb_spec vector_spec(int i, enum kb_repr_type repr)
{
    struct kb_spec spec = spec_of("gp-ucb", 2, 2);

    spec.context_kernel.type = spec.arm_kernel.type = kernels[i].type;
    spec.context_kernel.degree = spec.arm_kernel.degree = kernels[i].degree;
    spec.repr.type = repr;
    spec.repr.lambda = 1e-12;
    return spec;
}

START_TEST(vectors_too_large_for_the_kernel_are_refused_by_name)
{
    const struct kb_spec spec = vector_spec(_i, KB_REPR_EXACT);
    const double fine[2] = {0.5, 1}, large[2] = {0.25, 1.2 * kernels[_i].most}, infinite[2] = {INFINITY, 0};

    configure(&spec, 1);
    ck_assert_int_eq(observe(fine, fine, 1), KB_OK);
    const uint64_t digest = kb_engine_digest(l.live);
    expect_refused(observe(large, fine, 1), KB_ERANGE, "/context", digest);
    expect_refused(observe(fine, large, 1), KB_ERANGE, "/arm/features", digest);
    expect_refused(observe(infinite, fine, 1), KB_ERANGE, "/context", digest);
    expect_refused(decide("d", large, fine), KB_ERANGE, "/context", digest);
    expect_refused(decide("d", fine, large), KB_ERANGE, "/slate/0/features", digest);
    expect_query_refused(large, fine, "/context");
    expect_query_refused(fine, large, "/candidates/0/features");
    const struct kb_ev_arm arm = {.id = "a", .features = large, .is_active = true};
    expect_refused(kbt_log_live(&l, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.put = &arm, .n_put = 1}}, &msg),
                   KB_ERANGE, "/arms/0/features", digest);
}
END_TEST

START_TEST(vectors_within_the_bound_leave_finite_answers)
{
    static const enum kb_repr_type reprs[] = {KB_REPR_EXACT, KB_REPR_KORS, KB_REPR_THRESHOLD, KB_REPR_BKB};
    const struct kb_spec spec = vector_spec(_i % (int)N_KERNELS, reprs[(size_t)_i / N_KERNELS]);
    const double most = kernels[(size_t)_i % N_KERNELS].most;
    const double x[][2] = {{0, 0}, {most, 0}, {-most, 1e-300}, {5e-324, most}, {0.5, -most}, {1, 1}, {most, -0.0}};
    const size_t n = sizeof x / sizeof *x;

    configure(&spec, 1);
    for (size_t i = 0; i < 4 * n; i++) {
        ck_assert_msg(observe(x[i % n], x[(i / 2) % n], i % 3 == 0 ? KB_MOST_MAGNITUDE : -1e-300) == KB_OK, "%s %s",
                      msg.pointer, msg.text);
        ask(x[(i + 1) % n], x[(i + 3) % n]);
    }
    expect_folds();
}
END_TEST

START_TEST(a_configuration_that_cannot_compute_with_what_is_known_is_refused)
{
    const struct kb_spec rbf = vector_spec(0, KB_REPR_EXACT), polynomial = vector_spec(5, KB_REPR_EXACT);
    const double fine[2] = {1, 1}, large[2] = {1e12, 1};
    const struct kb_ev_arm arm = {.id = "b", .features = large, .is_active = true};

    configure(&rbf, 1);
    if (_i == 0)
        ck_assert_int_eq(observe(fine, large, 1), KB_OK);
    else if (_i == 1)
        ck_assert_int_eq(decide("d", large, fine), KB_OK);
    else
        ck_assert_int_eq(
            kbt_log_live(&l, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.put = &arm, .n_put = 1}}, &msg), KB_OK);
    expect_refused(kbt_log_live(&l, kbt_configured(&polynomial, 2), &msg), KB_EUNSUPPORTED, "",
                   kb_engine_digest(l.live));
    ask(fine, fine);
}
END_TEST

START_TEST(a_median_lengthscale_stays_one_that_a_kernel_may_have)
{
    struct kb_spec spec = vector_spec(0, KB_REPR_KORS);
    const double x[][2] = {{1e29, 0}, {-1e29, 1}, {3e28, 7}, {0, 0}};
    double median = 0;

    ck_assert_int_eq(kb_median_distance(4, 2, x[0], 2, &median), KB_OK);
    ck_assert(median == KB_MOST_SCALE);
    spec.context_kernel.is_median = spec.arm_kernel.is_median = true;
    configure(&spec, 1);
    for (size_t i = 0; i < 40; i++)
        ck_assert_int_eq(observe(x[i % 4], x[(i / 4) % 4], 1), KB_OK);
    ask(x[0], x[1]);
    expect_folds();
}
END_TEST

/* ---- graphs ------------------------------------------------------------------------------------------- */

/* Both before anything was learned, when the kernel is made at once, and behind it, when a reset would have to. */
START_TEST(a_graph_that_double_precision_cannot_solve_is_refused)
{
    struct kb_spec spec = spec_of("lk-gp-ucb", 1, 0);
    const double x[1] = {1};
    const struct kb_ev_edge edges[] = {{"u", "v", 1}, {"v", "w", 1e30}, {"w", "x", 1e-3}, {"x", "y", 1e30}};
    const struct kb_event graph = {.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = 4}};

    spec.user_kernel.rho = 1e-12;
    spec.user_kernel.population = 0;
    configure(&spec, 1);
    if (_i > 0)
        ck_assert_int_eq(observe(x, NULL, 1), KB_OK);
    expect_refused(kbt_log_live(&l, graph, &msg), KB_EUNSUPPORTED, "", kb_engine_digest(l.live));
    ask(x, NULL);
}
END_TEST

START_TEST(a_kernel_that_double_precision_cannot_solve_is_refused)
{
    struct kb_spec spec = spec_of("lk-gp-ucb", 1, 0);
    const double x[1] = {1};
    const struct kb_ev_edge edges[] = {{"u", "v", 1e12}, {"v", "w", 1}, {"w", "x", 1e12}};
    const struct kb_event graph = {.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = 3}};

    spec.user_kernel.rho = 1;
    configure(&spec, 1);
    ck_assert_int_eq(kbt_log_live(&l, graph, &msg), KB_OK);
    ck_assert_int_eq(observe(x, NULL, 1), KB_OK);
    spec.user_kernel.rho = 1e-12;
    spec.user_kernel.power = _i == 1 ? 0.5 : 1;
    spec.user_kernel.population = 0;
    expect_refused(kbt_log_live(&l, kbt_configured(&spec, 2), &msg), KB_EUNSUPPORTED, "/user_kernel",
                   kb_engine_digest(l.live));
    ask(x, NULL);
    expect_folds();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("magnitude");
    TCase *tc = tcase_create("cases");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, rewards_beyond_the_bound_are_refused_under_every_forgetting, 0, KB_FORGET_N);
    tcase_add_test(tc, sums_of_rewards_stay_within_the_bound);
    tcase_add_test(tc, a_default_reward_beyond_the_bound_is_refused);
    tcase_add_loop_test(tc, vectors_too_large_for_the_kernel_are_refused_by_name, 0, (int)N_KERNELS);
    tcase_add_loop_test(tc, vectors_within_the_bound_leave_finite_answers, 0, 4 * (int)N_KERNELS);
    tcase_add_loop_test(tc, a_configuration_that_cannot_compute_with_what_is_known_is_refused, 0, 3);
    tcase_add_test(tc, a_median_lengthscale_stays_one_that_a_kernel_may_have);
    tcase_add_loop_test(tc, a_graph_that_double_precision_cannot_solve_is_refused, 0, 2);
    tcase_add_loop_test(tc, a_kernel_that_double_precision_cannot_solve_is_refused, 0, 2);
    suite_add_tcase(s, tc);
    return kbt_run_suite(s);
}
