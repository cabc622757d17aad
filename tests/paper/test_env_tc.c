/* TC's environment against dense algebra of its own: the norm and values of f, the arms, the noise, and that nothing
 * of it hangs on what was chosen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper/env_tc.h"
#include "kbt.h"

#define N_SETTINGS 6

static const struct pb_setting settings[N_SETTINGS] = {
    {.name = "rbf-0.5", .open = pb_tc_open, .value = {KB_VEC_RBF, 0.5, 3, 0.1, 10}},
    {.name = "rbf-0.2", .open = pb_tc_open, .value = {KB_VEC_RBF, 0.2, 2, 0.2, 20}},
    {.name = "m52-0.5", .open = pb_tc_open, .value = {KB_VEC_MATERN52, 0.5, 3, 0.1, 10}},
    {.name = "m52-0.2", .open = pb_tc_open, .value = {KB_VEC_MATERN52, 0.2, 4, 0.1, 1}},
    {.name = "m32-0.5", .open = pb_tc_open, .value = {KB_VEC_MATERN32, 0.5, 1, 0.1, 10}},
    {.name = "m32-0.2", .open = pb_tc_open, .value = {KB_VEC_MATERN32, 0.2, 8, 0.3, 5}},
};

static struct pb_tc_env *open_env(size_t i, uint64_t seed)
{
    struct pb_env *env = NULL;

    ck_assert_int_eq(settings[i].open(&settings[i], seed, 1000, &env), KB_OK);
    return (struct pb_tc_env *)env;
}

static void close_env(struct pb_tc_env *e)
{
    e->base.ops->close(&e->base);
}

/* The kernels as TC prints them, from the setting alone. */
static double kernel(size_t i, const double *x, const double *y)
{
    const double *v = settings[i].value;
    double r = 0, s;

    for (size_t k = 0; k < (size_t)v[2]; k++)
        r += (x[k] - y[k]) * (x[k] - y[k]);
    r = sqrt(r) / v[1];
    switch ((enum kb_vec_kernel_type)v[0]) {
    case KB_VEC_MATERN52:
        s = sqrt(5) * r;
        return (1 + s + s * s / 3) * exp(-s);
    case KB_VEC_MATERN32:
        s = sqrt(3) * r;
        return (1 + s) * exp(-s);
    default:
        return exp(-r * r / 2);
    }
}

/* |f|^2 two ways: w^T K w, and, from values of f at the centres alone, f_z^T K^-1 f_z, which sees a wrong scale of
 * either weights or values. */
START_TEST(the_norm_of_f_is_the_settings_norm)
{
    const size_t n = PB_TC_CENTRES;
    struct pb_tc_env *e = open_env((size_t)_i, 3);
    double *gram = kbt_array(n * n), *f = kbt_array(n), *x = kbt_array(n), direct = 0, dual = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            gram[j * n + i] = kernel((size_t)_i, e->centre[i], e->centre[j]);
            f[i] += gram[j * n + i] * e->weight[j];
        }
    kbt_solve(n, gram, f, x);
    for (size_t i = 0; i < n; i++) {
        direct += f[i] * e->weight[i];
        dual += f[i] * x[i];
    }
    ck_assert(kbt_close_relative(sqrt(direct), settings[_i].value[4], 1e-12));
    ck_assert(kbt_close_relative(sqrt(dual), settings[_i].value[4], 1e-6));
    ck_assert(e->base.norm == settings[_i].value[4] && e->base.noise == settings[_i].value[3]);
    free(gram);
    free(f);
    free(x);
    close_env(e);
}
END_TEST

START_TEST(means_are_f_at_the_arms_and_best_is_their_maximum)
{
    struct pb_tc_env *e = open_env((size_t)_i, 5);
    struct pb_round r;

    for (size_t t = 0; t < 3; t++) {
        double best = -INFINITY;

        e->base.ops->round(&e->base, t, &r);
        ck_assert_uint_eq(r.n_arms, 100);
        for (size_t a = 0; a < r.n_arms; a++) {
            double f = 0;

            for (size_t i = 0; i < PB_TC_CENTRES; i++)
                f += e->weight[i] * kernel((size_t)_i, r.features[a], e->centre[i]);
            ck_assert(kbt_close(r.mean[a], f, 1e-12));
            best = fmax(best, f);
        }
        ck_assert(kbt_close(r.best, best, 1e-12));
    }
    close_env(e);
}
END_TEST

/* Mean and variance of a uniform coordinate, 1/2 and 1/12, to four standard errors of 40,000 or more of them. */
START_TEST(arms_are_fresh_and_uniform_in_the_cube)
{
    struct pb_tc_env *e = open_env((size_t)_i, 7);
    const size_t d = e->base.arm_dim, rounds = 400;
    double sum = 0, sum_sq = 0, last = -1;
    struct pb_round r;

    for (size_t t = 0; t < rounds; t++) {
        e->base.ops->round(&e->base, t, &r);
        ck_assert(r.features[0][0] != last);
        last = r.features[0][0];
        for (size_t a = 0; a < r.n_arms; a++)
            for (size_t k = 0; k < d; k++) {
                const double x = r.features[a][k];

                ck_assert(x >= 0 && x <= 1);
                sum += x;
                sum_sq += x * x;
            }
    }
    const double n = (double)(rounds * PB_TC_ARMS * d), mean = sum / n;
    ck_assert_double_lt(fabs(mean - 0.5), 4 * sqrt(1 / 12.0 / n));
    ck_assert_double_lt(fabs(sum_sq / n - mean * mean - 1 / 12.0), 4 * sqrt(1 / 180.0 / n));
    close_env(e);
}
END_TEST

START_TEST(arms_of_a_round_have_names_of_their_own)
{
    struct pb_tc_env *e = open_env(0, 1);
    struct pb_round r;

    e->base.ops->round(&e->base, 0, &r);
    for (size_t a = 0; a < r.n_arms; a++)
        for (size_t b = 0; b < a; b++)
            ck_assert_str_ne(r.arm[a], r.arm[b]);
    close_env(e);
}
END_TEST

/* One is asked for the reward of the first arm, the other for two of its last ones. */
START_TEST(a_seed_gives_the_same_rounds_whatever_is_chosen)
{
    struct pb_tc_env *a = open_env(2, 11), *b = open_env(2, 11);
    struct pb_round ra, rb;

    for (size_t t = 0; t < 50; t++) {
        a->base.ops->round(&a->base, t, &ra);
        b->base.ops->round(&b->base, t, &rb);
        ck_assert_mem_eq(ra.mean, rb.mean, sizeof a->mean);
        ck_assert_mem_eq(a->arm, b->arm, sizeof a->arm);
        const double noise_a = a->base.ops->reward(&a->base, 0) - ra.mean[0];
        b->base.ops->reward(&b->base, 98);
        const double noise_b = b->base.ops->reward(&b->base, 99) - rb.mean[99];
        ck_assert(kbt_close(noise_a, noise_b, 1e-12));
    }
    close_env(a);
    close_env(b);
}
END_TEST

START_TEST(another_seed_gives_another_f_and_other_arms)
{
    struct pb_tc_env *a = open_env(2, 11), *b = open_env(2, 12);
    struct pb_round r;

    a->base.ops->round(&a->base, 0, &r);
    b->base.ops->round(&b->base, 0, &r);
    ck_assert(a->centre[0][0] != b->centre[0][0] && a->weight[0] != b->weight[0] && a->arm[0][0] != b->arm[0][0]);
    ck_assert(a->reward_noise != b->reward_noise);
    close_env(a);
    close_env(b);
}
END_TEST

START_TEST(noise_is_white_with_the_settings_variance)
{
    struct pb_tc_env *e = open_env((size_t)_i, 13);
    const size_t n = 4000;
    const double sigma = settings[_i].value[3];
    double sum = 0, sum_sq = 0, sum_lag = 0, last = 0;
    struct pb_round r;

    for (size_t t = 0; t < n; t++) {
        e->base.ops->round(&e->base, t, &r);
        const double noise = e->base.ops->reward(&e->base, t % 100) - r.mean[t % 100];
        sum += noise;
        sum_sq += noise * noise;
        sum_lag += noise * last;
        last = noise;
    }
    ck_assert_double_lt(fabs(sum / (double)n), 4 * sigma / sqrt((double)n));
    ck_assert_double_lt(fabs(sum_sq / (double)n / (sigma * sigma) - 1), 4 * sqrt(2 / (double)n));
    ck_assert_double_lt(fabs(sum_lag / (double)n / (sigma * sigma)), 4 / sqrt((double)n));
    close_env(e);
}
END_TEST

START_TEST(more_dimensions_than_there_is_room_for_are_refused)
{
    const struct pb_setting s = {
        .name = "d9", .open = pb_tc_open, .value = {KB_VEC_RBF, 0.5, PB_TC_MAX_DIM + 1, 0.1, 10}};
    struct pb_env *env = NULL;

    ck_assert_int_eq(s.open(&s, 1, 10, &env), KB_EINVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("env_tc");
    TCase *each = tcase_create("each setting"), *once = tcase_create("once");

    tcase_add_loop_test(each, the_norm_of_f_is_the_settings_norm, 0, N_SETTINGS);
    tcase_add_loop_test(each, means_are_f_at_the_arms_and_best_is_their_maximum, 0, N_SETTINGS);
    tcase_add_loop_test(each, arms_are_fresh_and_uniform_in_the_cube, 0, N_SETTINGS);
    tcase_add_loop_test(each, noise_is_white_with_the_settings_variance, 0, N_SETTINGS);
    tcase_add_test(once, arms_of_a_round_have_names_of_their_own);
    tcase_add_test(once, a_seed_gives_the_same_rounds_whatever_is_chosen);
    tcase_add_test(once, another_seed_gives_another_f_and_other_arms);
    tcase_add_test(once, more_dimensions_than_there_is_room_for_are_refused);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, once);
    return kbt_run_suite(suite);
}
