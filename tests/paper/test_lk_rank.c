/* lk-rank's figures against Gram matrices that are filled here and factored by Cholesky, and its bounds on the gain. */
#include <math.h>
#include <stdlib.h>

#include "kbt.h"
#include "paper/lk_rank.h"

#define T 60u

static double context_kernel(const double *x, const double *y)
{
    double r2 = 0;
    for (size_t j = 0; j < PB_LK_RANK_DIM; j++)
        r2 += (x[j] - y[j]) * (x[j] - y[j]);
    return exp(-r2 / 2);
}

/* (L + rho I)^-1 of the extreme graphs in closed form: 1/rho on the diagonal, or a + b there and b elsewhere. */
static double user_kernel(enum pb_lk_graph graph, size_t n, size_t u, size_t v)
{
    const double a = 1 / ((double)n + PB_LK_RANK_RHO), b = a / PB_LK_RANK_RHO;
    if (graph == PB_LK_ALONE)
        return u == v ? 1 / PB_LK_RANK_RHO : 0;
    return u == v ? a + b : b;
}

/* ln det(I + K / lambda) by a Cholesky factorisation that is written here. */
static double log_det(const struct pb_lk_rank *r, enum pb_lk_graph graph, size_t n)
{
    static double a[T][T];
    double sum = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j <= i; j++) {
            const size_t u = pb_lk_rank_user(r->seed, n, i), v = pb_lk_rank_user(r->seed, n, j);
            const double *x = r->context + i * PB_LK_RANK_DIM, *y = r->context + j * PB_LK_RANK_DIM;
            a[i][j] = user_kernel(graph, n, u, v) * context_kernel(x, y) / PB_LK_RANK_LAMBDA + (i == j);
            for (size_t k = 0; k < j; k++)
                a[i][j] -= a[i][k] * a[j][k];
            a[i][j] = i == j ? sqrt(a[i][i]) : a[i][j] / a[j][j];
            sum += i == j ? 2 * log(a[i][i]) : 0;
        }
    return sum;
}

START_TEST(gains_are_the_log_determinants_and_stay_below_their_bounds)
{
    static const enum pb_lk_graph extreme[] = {PB_LK_COMPLETE, PB_LK_ALONE};
    static const size_t users[] = {2, 10, 100};
    struct pb_lk_rank r;
    ck_assert_int_eq(pb_lk_rank_open(&r, T), KB_OK);
    for (uint64_t seed = 0; seed < 3; seed++) {
        pb_lk_rank_draw(&r, seed);
        for (size_t g = 0; g < 2; g++)
            for (size_t i = 0; i < 3; i++) {
                struct pb_lk_rank_figures x;
                ck_assert_int_eq(pb_lk_rank_measure(&r, extreme[g], users[i], T, &x), KB_OK);
                ck_assert_msg(kbt_close_relative(x.gain, log_det(&r, extreme[g], users[i]), 1e-9), "%.17g", x.gain);
                ck_assert_double_le(x.gain, x.bound);
                ck_assert_double_ge(x.gain, 0.2 * x.bound); /* a bound that says something */
            }
    }
    pb_lk_rank_close(&r);
}
END_TEST

/* What the figure is about: users of one cluster cost less the more there are, users on their own cost more. */
START_TEST(more_users_cost_more_on_the_empty_graph_alone)
{
    struct pb_lk_rank r;
    struct pb_lk_rank_figures few, many;
    ck_assert_int_eq(pb_lk_rank_open(&r, T), KB_OK);
    pb_lk_rank_draw(&r, 1);
    ck_assert_int_eq(pb_lk_rank_measure(&r, PB_LK_COMPLETE, 5, T, &few), KB_OK);
    ck_assert_int_eq(pb_lk_rank_measure(&r, PB_LK_COMPLETE, 50, T, &many), KB_OK);
    ck_assert(many.gain < few.gain && many.user_rank == 1);
    ck_assert_int_eq(pb_lk_rank_measure(&r, PB_LK_ALONE, 5, T, &few), KB_OK);
    ck_assert_int_eq(pb_lk_rank_measure(&r, PB_LK_ALONE, 50, T, &many), KB_OK);
    ck_assert(many.gain > few.gain && many.user_rank == 50);
    ck_assert_int_eq(pb_lk_rank_measure(&r, PB_LK_ER, 20, T, &few), KB_OK);
    ck_assert(isnan(few.bound) && few.gain > 0);
    pb_lk_rank_close(&r);
}
END_TEST

START_TEST(contexts_fill_the_unit_cube)
{
    struct pb_lk_rank r;
    double mean = 0, least = 1, most = 0;
    ck_assert_int_eq(pb_lk_rank_open(&r, 400), KB_OK);
    pb_lk_rank_draw(&r, 3);
    for (size_t i = 0; i < 400 * PB_LK_RANK_DIM; i++) {
        ck_assert(r.context[i] >= 0 && r.context[i] < 1);
        mean += r.context[i] / (400.0 * PB_LK_RANK_DIM);
        least = fmin(least, r.context[i]);
        most = fmax(most, r.context[i]);
    }
    ck_assert_double_eq_tol(mean, 0.5, 5 * sqrt(1.0 / 12 / 2000));
    ck_assert(least < 0.01 && most > 0.99);
    pb_lk_rank_close(&r);
}
END_TEST

int main(void)
{
    return KBT_RUN("lk_rank", gains_are_the_log_determinants_and_stay_below_their_bounds,
                   more_users_cost_more_on_the_empty_graph_alone, contexts_fill_the_unit_cube);
}
