/* The exact posterior without a factor, beyond what tests/property/posterior/test_posteriors.c proves of every row:
 * each combination of kernels that it is for, the same model with a factor, sums over many steps, room. */
#include <math.h>

#include "rules/confidence.h"
#include "kbt_world.h"
#include "posterior/learning.h"

#define N_QUERIES 40u
#define LAMBDA 0.3

static const enum kb_user_kernel_type users[] = {KB_USER_ONES, KB_USER_IDENTITY};
static const enum kb_vec_kernel_type contexts[] = {KB_VEC_ONES, KB_VEC_DELTA}, arms[] = {KB_VEC_ONES, KB_VEC_DELTA};
#define N_CASES 8

/* Case i of the kernels whose values are 0 and 1. */
static struct kb_spec spec_of(int i)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "gp-ucb", 2, 3), KB_OK);
    spec.user_kernel.type = users[i & 1];
    spec.context_kernel.type = contexts[i >> 1 & 1];
    spec.arm_kernel.type = arms[i >> 2];
    spec.repr.lambda = LAMBDA;
    ck_assert(kb_spec_is_diagonal(&spec));
    return spec;
}

static void open(struct kbt_world *w, const struct kb_spec *spec, size_t n_events)
{
    kbt_world_open(w, spec, 7, 5, true, 3);
    kbt_world_run(w, n_events, 4);
}

START_TEST(every_kernel_of_zeros_and_ones_equals_the_dense_solve)
{
    for (int i = 0; i < N_CASES; i++) {
        struct kbt_world w;
        struct kb_posterior_facts facts;
        struct kbt_observation query[N_QUERIES];
        double mean[N_QUERIES], variance[N_QUERIES], m, sd;
        const struct kb_spec spec = spec_of(i);
        open(&w, &spec, 90);
        for (size_t q = 0; q < N_QUERIES; q++)
            query[q] = kbt_world_draw(&w, 99, q);
        kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
        for (size_t q = 0; q < N_QUERIES; q++) {
            kbt_predict(w.posterior, &w.scratch, &w, &query[q], &m, &sd);
            ck_assert(kbt_close(m, mean[q], 1e-12) && kbt_close(sd * sd, variance[q], 1e-12));
        }
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
        ck_assert(kbt_close(facts.information_gain, kbt_dense_information_gain(&w), 1e-11));
        ck_assert(kbt_close(facts.effective_dimension, kbt_dense_effective_dimension(&w), 1e-11));
        ck_assert_uint_eq(facts.n_clamped, 0);
        kbt_world_close(&w);
    }
}
END_TEST

/* A kernel that is not of them for its type, and of them for its values: an rbf so narrow that no two points share. */
START_TEST(it_is_the_model_of_a_factor_over_the_same_values)
{
    static const enum kb_conf_type types[] = {KB_CONF_FIXED, KB_CONF_LK,  KB_CONF_EK,  KB_CONF_AY,
                                              KB_CONF_IGP,   KB_CONF_AMM, KB_CONF_DMM, KB_CONF_CMM};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct kbt_world w[2];
        struct kb_evidence proved[2];
        struct kb_spec spec = spec_of(7); /* identity, delta, delta */
        spec.conf = (struct kb_conf_spec){.type = types[i], .beta = 2, .noise = 0.3, .delta = 0.05};
        for (int k = 0; k < 2; k++) {
            if (k == 1) {
                spec.context_kernel = spec.arm_kernel = (struct kb_vec_kernel_spec){KB_VEC_RBF, .lengthscale = 1e-3};
                ck_assert(!kb_spec_is_diagonal(&spec));
            }
            open(&w[k], &spec, 200);
            ck_assert_int_eq(kb_posterior_settle(w[k].posterior, &w[k].scratch), KB_OK);
            kb_posterior_publish(w[k].posterior);
            ck_assert_int_eq(kb_posterior_evidence(w[k].posterior, &w[k].scratch, &proved[k]), KB_OK);
        }
        ck_assert_uint_eq(kb_posterior_n_support(w[0].posterior), kb_posterior_n_support(w[1].posterior));
        ck_assert(kbt_close(kb_posterior_log_det(w[0].posterior), kb_posterior_log_det(w[1].posterior), 1e-11));
        ck_assert(kbt_close(proved[0].energy[0], proved[1].energy[0], 1e-10));
        for (size_t q = 0; q < N_QUERIES; q++) {
            double mean, sd, lower[2], upper[2], score;
            const struct kbt_observation o = kbt_world_draw(&w[0], 99, q);
            for (int k = 0; k < 2; k++) {
                const double *features = o.x + spec.context_dim;
                const struct kb_point pt = kbt_point(&w[k], &o);
                const struct kb_candidates cand = {
                    .user = pt.user, .context = o.x, .n = 1, .arms = &pt.arm, .features = &features};
                kbt_predict(w[k].posterior, &w[k].scratch, &w[k], &o, &mean, &sd);
                ck_assert_int_eq(kb_posterior_fit_scratch(w[k].posterior, &w[k].scratch, 0), KB_OK);
                kb_confidence_bounds(w[k].posterior, &w[k].spec.conf, &cand, &w[k].scratch, &mean, &sd, &lower[k],
                                     &upper[k], &score);
            }
            ck_assert_msg(kbt_close(lower[0], lower[1], 1e-8), "%d: %.15g, %.15g", types[i], lower[0], lower[1]);
            ck_assert_msg(kbt_close(upper[0], upper[1], 1e-8), "%d: %.15g, %.15g", types[i], upper[0], upper[1]);
        }
        kbt_world_close(&w[0]);
        kbt_world_close(&w[1]);
    }
}
END_TEST

START_TEST(who_was_never_learned_at_has_the_prior)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(7);
    const double *features = NULL;
    double mean, sd, context[2] = {0};
    open(&w, &spec, 90);
    const uint32_t arm_none = KB_ID_NONE, arm = w.seen[0].arm;
    const struct kb_candidates stranger = {.user = {.index = KB_ID_NONE, .node = KB_ID_NONE},
                                           .context = w.seen[0].x,
                                           .n = 1,
                                           .arms = &arm,
                                           .features = &features};
    struct kb_candidates of[3] = {stranger, stranger, stranger};
    of[1].user = of[2].user = kbt_point(&w, &w.seen[0]).user;
    of[1].arms = &arm_none;
    of[2].context = context;
    for (size_t i = 0; i < 3; i++) {
        kb_posterior_predict(w.posterior, &of[i], &w.scratch, &mean, &sd);
        ck_assert(mean == 0 && sd == 1);
    }
    of[2].context = w.seen[0].x;
    kb_posterior_predict(w.posterior, &of[2], &w.scratch, &mean, &sd);
    ck_assert(sd < 1);
    kbt_world_close(&w);
}
END_TEST

/* A running sum in doubles would have lost four digits by then. */
START_TEST(the_information_gain_keeps_its_digits_over_many_steps)
{
    enum { N_ARMS = 5, N_STEPS = 300000 };
    struct kbt_world w;
    const struct kb_spec spec = spec_of(4); /* ones, ones, delta */
    struct kbt_observation o = {.reward = 0.1};
    long double gain = 0;
    kbt_world_open(&w, &spec, 7, N_ARMS, true, 3);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        struct kb_point pt = kbt_point(&w, &o);
        pt.arm = i % N_ARMS;
        ck_assert_int_eq(kb_posterior_stage_learn(w.posterior, &pt, &w.scratch), KB_OK);
        ck_assert_int_eq(kbt_grow(w.posterior, &w.scratch), KB_OK);
        kb_posterior_learn(w.posterior, &pt, 1, o.reward, o.reward * o.reward, &w.scratch);
    }
    for (size_t i = 0; i < N_ARMS; i++)
        gain += log1pl((long double)(N_STEPS / N_ARMS) / (long double)LAMBDA);
    ck_assert(kbt_close_relative(kb_posterior_log_det(w.posterior), (double)gain, 1e-15));
    kbt_world_close(&w);
}
END_TEST

/* A factor over as many points would be 128 MB. */
START_TEST(room_grows_with_the_points_and_not_with_their_square)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(4);
    struct kbt_observation o = {.reward = 0.1};
    kbt_world_open(&w, &spec, 7, 5, true, 3);
    for (uint32_t i = 0; i < 4000; i++) {
        struct kb_point pt = kbt_point(&w, &o);
        pt.arm = i;
        ck_assert_int_eq(kb_posterior_stage_learn(w.posterior, &pt, &w.scratch), KB_OK);
        ck_assert_int_eq(kbt_grow(w.posterior, &w.scratch), KB_OK);
        kb_posterior_learn(w.posterior, &pt, 1, o.reward, o.reward * o.reward, &w.scratch);
    }
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 4000);
    ck_assert_uint_lt(kb_posterior_bytes(w.posterior), 1000000);
    ck_assert_uint_lt(kb_posterior_bytes_for(w.posterior, 8000), 2000000);
    ck_assert_uint_ge(kb_posterior_bytes_for(w.posterior, 8000), kb_posterior_bytes(w.posterior));
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_prior_without_variance_is_never_moved)
{
    struct kb_spec spec;
    struct kbt_world w;
    double mean = 0, sd = 1;
    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    ck_assert(kb_spec_is_scaled(&spec));
    spec.prior.mean = 0.25;
    spec.prior.arm = 0;
    kbt_world_open(&w, &spec, 4, 3, false, 5);
    kbt_world_run(&w, 20, 6);
    for (uint64_t i = 0; i < 8; i++) {
        const struct kbt_observation o = kbt_world_draw(&w, 7, i);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        ck_assert(mean == 0.25 && sd == 0);
    }
    kbt_world_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN("post_diagonal", every_kernel_of_zeros_and_ones_equals_the_dense_solve,
                   it_is_the_model_of_a_factor_over_the_same_values, who_was_never_learned_at_has_the_prior,
                   the_information_gain_keeps_its_digits_over_many_steps,
                   room_grows_with_the_points_and_not_with_their_square, a_prior_without_variance_is_never_moved);
}
