/* Widths of bounds: those over all points against TC's formula by a Cholesky factor that is written here, and what must
 * hold between rules and between models. */
#include <math.h>

#include "kbt.h"
#include "paper/width.h"

#define T 40u
#define DIM 3u

static const struct pb_setting matern = {.name = "matern52 .5",
                                         .open = pb_tc_open,
                                         .value = {[PB_TC_KERNEL] = KB_VEC_MATERN52,
                                                   [PB_TC_LENGTHSCALE] = .5,
                                                   [PB_TC_DIM] = DIM,
                                                   [PB_TC_NOISE] = .1,
                                                   [PB_TC_NORM] = 10}};

static size_t rule_of(const char *name)
{
    size_t k = 0;
    while (strcmp(pb_width_rules[k].name, name) != 0)
        k++;
    return k;
}

static void measure(uint64_t seed, struct pb_width w[PB_WIDTH_N_MODELS])
{
    ck_assert_int_eq(pb_width_measure(&matern, seed, T, w), KB_OK);
}

/* The more ridges may be chosen from, the narrower; AY adds what AMM puts under one root. */
START_TEST(rules_are_as_wide_as_their_proofs_say)
{
    struct pb_width w[PB_WIDTH_N_MODELS];
    for (uint64_t seed = 0; seed < 3; seed++) {
        measure(seed, w);
        ck_assert_uint_eq(w[0].n_points, T);
        for (size_t m = 0; m < PB_WIDTH_N_MODELS; m++) {
            const double *half = w[m].half;
            ck_assert_double_gt(half[rule_of("cmm")], 0);
            ck_assert_double_le(half[rule_of("cmm")], half[rule_of("dmm")] + 1e-9);
            ck_assert_double_le(half[rule_of("dmm")], half[rule_of("amm")] + 1e-9);
            ck_assert_uint_le(w[m].n_points, T);
            ck_assert_uint_eq(w[m].n_outside, 0);
        }
        ck_assert_double_lt(w[0].half[rule_of("amm")], w[0].half[rule_of("ay")]);
        ck_assert(isnan(w[0].half[rule_of("cmm split")]) && isnan(w[1].half[rule_of("ay")]));
        for (size_t m = 1; m < PB_WIDTH_N_MODELS; m++)
            ck_assert_double_le(w[m].half[rule_of("cmm split")], w[m].half[rule_of("cmm simple")] + 1e-9);
    }
}
END_TEST

/* A coarser dictionary has fewer points and knows less. */
START_TEST(fewer_points_make_wider_bounds)
{
    struct pb_width w[PB_WIDTH_N_MODELS];
    measure(1, w);
    for (size_t m = 0; m < 3; m++) {
        ck_assert_uint_ge(w[m].n_points, w[m + 1].n_points);
        ck_assert_double_le(w[m].half[rule_of("cmm")], w[m + 1].half[rule_of("cmm")] + 1e-9);
    }
    ck_assert_uint_lt(w[3].n_points, T / 2);
}
END_TEST

static double matern52(const double *x, const double *y)
{
    double r2 = 0;
    for (size_t k = 0; k < DIM; k++)
        r2 += (x[k] - y[k]) * (x[k] - y[k]);
    const double a = sqrt(5 * r2) / .5;
    return (1 + a + a * a / 3) * exp(-a);
}

/* In a 1 x 1 model logdet and sd have closed forms: (c logdet + 2 c ln 1/delta + B^2)^(1/2) sd at c = 1. */
START_TEST(amm_over_one_point_is_tcs_formula)
{
    struct pb_width w[PB_WIDTH_N_MODELS];
    struct pb_env *env = NULL;
    struct pb_round r;
    double x[PB_TC_ARMS][DIM], best = INFINITY;
    const double lambda = .01, beta = sqrt(log1p(1 / lambda) + 2 * log(1 / .01) + 10 * 10);

    ck_assert_int_eq(pb_width_measure(&matern, 5, 1, w), KB_OK);
    ck_assert_int_eq(pb_tc_open(&matern, 5, 1, &env), KB_OK);
    env->ops->round(env, 0, &r);
    for (size_t i = 0; i < PB_TC_ARMS; i++)
        memcpy(x[i], r.features[i], sizeof x[i]);
    env->ops->round(env, 1, &r);
    for (size_t i = 0; i < PB_TC_ARMS; i++) { /* which arm was drawn is not told: one of them must fit */
        double half = 0;
        for (size_t j = 0; j < PB_TC_ARMS; j++) {
            const double k = matern52(x[i], r.features[j]);
            half += beta * sqrt(1 - k * k / (1 + lambda)) / PB_TC_ARMS;
        }
        best = fmin(best, fabs(half - w[0].half[rule_of("amm")]));
    }
    ck_assert_double_lt(best, 1e-9);
    env->ops->close(env);
}
END_TEST

int main(void)
{
    return KBT_RUN("width", rules_are_as_wide_as_their_proofs_say, fewer_points_make_wider_bounds,
                   amm_over_one_point_is_tcs_formula);
}
