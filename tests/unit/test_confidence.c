/* Confidence rules. */
#include "confidence.h"
#include "kbt.h"
#include "rng.h"

#define N 50u

START_TEST(fixed_is_mean_plus_and_minus_beta_sd)
{
    struct kb_conf_spec conf = {.type = KB_CONF_FIXED};
    double mean[N], sd[N], lower[N], upper[N], score[N];
    for (uint64_t i = 0; i < N; i++) {
        mean[i] = kb_rng_normal(1, KB_STREAM_SIMULATION, i);
        sd[i] = kb_rng_uniform(2, KB_STREAM_SIMULATION, i);
    }
    for (int b = 0; b < 4; b++) {
        conf.beta = 0.75 * b;
        kb_confidence_bounds(&conf, N, mean, sd, lower, upper, score);
        for (size_t i = 0; i < N; i++) {
            ck_assert_double_eq_tol(upper[i] - mean[i], conf.beta * sd[i], 1e-15);
            ck_assert_double_eq_tol(mean[i] - lower[i], conf.beta * sd[i], 1e-15);
            ck_assert_double_eq(score[i], upper[i]);
        }
    }
}
END_TEST

START_TEST(without_width_all_bounds_are_the_mean)
{
    const struct kb_conf_spec conf = {.type = KB_CONF_FIXED, .beta = 2};
    double mean = 0.3, sd = 0, lower, upper, score;
    kb_confidence_bounds(&conf, 1, &mean, &sd, &lower, &upper, &score);
    ck_assert_double_eq(lower, 0.3);
    ck_assert_double_eq(upper, 0.3);
    ck_assert_double_eq(score, 0.3);
}
END_TEST

START_TEST(no_arms_are_fine)
{
    const struct kb_conf_spec conf = {.type = KB_CONF_FIXED, .beta = 2};
    double untouched = 7;
    kb_confidence_bounds(&conf, 0, NULL, NULL, NULL, NULL, &untouched);
    ck_assert_double_eq(untouched, 7);
}
END_TEST

int main(void)
{
    return KBT_RUN("confidence", fixed_is_mean_plus_and_minus_beta_sd, without_width_all_bounds_are_the_mean,
                   no_arms_are_fine);
}
