/* Propensities under one shared half-normal multiplier: against each line's own interval, against draws, and where
 * lines tie. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "kbt.h"
#include "rules/policy.h"

#define MOST 64u

static void argmax(size_t n, const double *mean, const double *slope, double *p)
{
    struct kb_arena arena;

    kb_arena_init(&arena);
    ck_assert_int_eq(kb_arena_fit(&arena, kb_envelope_bytes(n)), KB_OK);
    kb_envelope_argmax(n, mean, slope, p, &arena);
    ck_assert_uint_eq(kb_arena_mark(&arena), 0);
    kb_arena_close(&arena);
}

/* P(u in the interval where line i is above every other one), each pair by itself; equal lines share. */
static double interval_of(size_t n, const double *mean, const double *slope, size_t i)
{
    double lo = 0, hi = INFINITY, n_equal = 0;

    for (size_t j = 0; j < n; j++) {
        const double u = (mean[j] - mean[i]) / (slope[i] - slope[j]);

        if (slope[j] == slope[i]) {
            n_equal += mean[j] == mean[i];
            hi = mean[j] > mean[i] ? -1 : hi;
        } else if (slope[j] < slope[i]) {
            lo = fmax(lo, u);
        } else {
            hi = fmin(hi, u);
        }
    }
    return hi > lo ? (erf(hi * M_SQRT1_2) - erf(lo * M_SQRT1_2)) / n_equal : 0;
}

static void expect_intervals(size_t n, const double *mean, const double *slope)
{
    double p[MOST], sum = 0;

    argmax(n, mean, slope, p);
    for (size_t i = 0; i < n; i++) {
        const double want = interval_of(n, mean, slope, i);

        ck_assert_msg(fabs(p[i] - want) <= 1e-10, "line %zu of %zu: %.17g, expected %.17g", i, n, p[i], want);
        sum += p[i];
    }
    ck_assert_double_eq_tol(sum, 1, 1e-14);
}

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* Lines along a parabola are all on top somewhere; the others lie around it. Some are repeated. */
static void random_lines(uint64_t key, size_t n, double *mean, double *slope)
{
    const double bend = uniform(key, 0), shift = 4 * uniform(key, 1) - 2;

    for (size_t i = 0; i < n; i++) {
        const size_t twin = (size_t)((double)i * uniform(key, 3 * i + 4));

        slope[i] = uniform(key, 3 * i + 2) < 0.05 ? 0 : 2 * uniform(key, 3 * i + 3);
        mean[i] = shift - bend * slope[i] * slope[i] - (key % 2 ? 0.2 * uniform(key, 3 * i + 5) : 0);
        if (i > 0 && uniform(key, 1000 + i) < 0.2) {
            mean[i] = mean[twin];
            slope[i] = slope[twin];
        }
    }
}

START_TEST(propensities_equal_the_integral)
{
    double mean[MOST], slope[MOST];

    for (uint64_t key = 0; key < 3000; key++) {
        const size_t n = 1 + (size_t)(key % MOST);

        random_lines(key, n, mean, slope);
        expect_intervals(n, mean, slope);
    }
}
END_TEST

START_TEST(two_lines_have_a_closed_form)
{
    for (uint64_t i = 0; i < 200; i++) {
        const double gap = pow(10, 4 * uniform(1, i) - 3), sd = pow(10, 4 * uniform(2, i) - 3);
        const double mean[2] = {0.3 + gap, 0.3}, slope[2] = {0.1, 0.1 + sd};
        double p[2];

        argmax(2, mean, slope, p);
        ck_assert(kbt_close_relative(p[1], erfc((mean[0] - mean[1]) / (slope[1] - slope[0]) * M_SQRT1_2), 1e-9));
        ck_assert_double_eq_tol(p[0] + p[1], 1, 1e-15);
    }
}
END_TEST

/* A million multipliers; among equal lines one is drawn. */
START_TEST(lines_come_on_top_as_often_as_said)
{
    enum { N = 12, N_DRAWS = 1000000 };
    double mean[N], slope[N], p[N], count[N];

    for (uint64_t key = 3; key < 9; key++) {
        random_lines(key, N, mean, slope);
        argmax(N, mean, slope, p);
        memset(count, 0, sizeof count);
        for (uint64_t k = 0; k < N_DRAWS; k++) {
            const double u = fabs(kb_rng_normal(key + 100, KB_STREAM_SIMULATION, k));
            size_t tied[N], n_tied = 0;

            for (size_t i = 0; i < N; i++) {
                const double lead = n_tied > 0 ? mean[i] + u * slope[i] - (mean[tied[0]] + u * slope[tied[0]]) : 1;

                if (lead > 0)
                    n_tied = 0;
                if (lead >= 0)
                    tied[n_tied++] = i;
            }
            count[tied[(size_t)((double)n_tied * uniform(key + 200, k))]]++;
        }
        for (size_t i = 0; i < N; i++)
            if (fabs(count[i] / N_DRAWS - p[i]) > 5 * sqrt(p[i] * (1 - p[i]) / N_DRAWS) + 1e-12)
                ck_abort_msg("line %zu of %llu: %g of a million, expected %g", i, (unsigned long long)key, count[i],
                             N_DRAWS * p[i]);
    }
}
END_TEST

START_TEST(without_deviations_the_best_means_share)
{
    const double mean[5] = {1, 3, 3, -2, 3 - 1e-9}, slope[5] = {0};
    double p[5];

    argmax(5, mean, slope, p);
    for (size_t i = 0; i < 5; i++)
        ck_assert_double_eq(p[i], i == 1 || i == 2 ? 0.5 : 0);
}
END_TEST

START_TEST(a_single_line_has_all)
{
    const double mean = -7, slope[2] = {0, 1e146};
    double p;

    for (size_t i = 0; i < 2; i++) {
        argmax(1, &mean, &slope[i], &p);
        ck_assert_double_eq(p, 1);
    }
}
END_TEST

/* Copies that rounding has moved are shown as the original is, wherever they stand in the order. */
START_TEST(equal_arms_are_shown_alike)
{
    double mean[MOST], slope[MOST], p[MOST], pure[MOST];

    for (uint64_t key = 0; key < 300; key++) {
        const size_t n = 8;

        random_lines(2 * key, n, mean, slope);
        argmax(n, mean, slope, pure);
        for (size_t i = 0; i < 3 * n; i++) {
            mean[n + i] = mean[i % n] + 1e-15 * (2 * uniform(key, i) - 1) * fabs(mean[i % n]);
            slope[n + i] = slope[i % n] * (1 + 1e-15 * (2 * uniform(key + 1000, i) - 1));
        }
        argmax(4 * n, mean, slope, p);
        for (size_t i = 0; i < 4 * n; i++)
            ck_assert_double_eq_tol(p[i], pure[i % n] / 4, 1e-9);
    }
}
END_TEST

START_TEST(units_of_the_rewards_do_not_matter)
{
    double mean[MOST], slope[MOST], p[MOST], scaled[MOST];

    for (uint64_t key = 0; key < 100; key++)
        for (int e = -20; e <= 140; e += 20) {
            const double unit = pow(10, e);

            random_lines(key, MOST, mean, slope);
            argmax(MOST, mean, slope, p);
            for (size_t i = 0; i < MOST; i++) {
                mean[i] = unit * (mean[i] + 5);
                slope[i] *= unit;
            }
            argmax(MOST, mean, slope, scaled);
            for (size_t i = 0; i < MOST; i++)
                ck_assert_double_eq_tol(scaled[i], p[i], 1e-10);
        }
}
END_TEST

/* Lines that are below all others stand in for those whose slope nobody has computed. */
START_TEST(a_line_without_a_slope_changes_nothing)
{
    double mean[MOST], slope[MOST], p[MOST], of[2][MOST], q[MOST];

    for (uint64_t key = 0; key < 400; key++) {
        const size_t n = 1 + (size_t)(20 * uniform(key, 7000));
        size_t n_all = 0;
        random_lines(key, n, mean, slope);
        argmax(n, mean, slope, p);
        for (size_t i = 0; i < n; i++) {
            for (uint64_t k = 0; k < 2 && uniform(key, 8000 + 2 * i + k) < 0.5; k++) {
                of[0][n_all] = -20 - uniform(key, 9000 + n_all);
                of[1][n_all++] = (double)NAN;
            }
            of[0][n_all] = mean[i];
            of[1][n_all++] = slope[i];
        }
        argmax(n_all, of[0], of[1], q);
        for (size_t i = 0, at = 0; i < n_all; i++)
            ck_assert(q[i] == (isnan(of[1][i]) ? 0 : p[at++]));
    }
}
END_TEST

/* The two worst cases of an envelope: all lines are on it, or all are nearly one. And the one that is met: nearly all
 * are the same. Sorting dominates, so twice the lines cost little more than twice as much. */
START_TEST(a_large_catalogue_is_quick)
{
    enum { N = 100000 };
    double *mean = kbt_array(N), *slope = kbt_array(N), *p = kbt_array(N);

    for (int kind = 0; kind < 3; kind++) {
        double sum = 0;

        for (size_t i = 0; i < N; i++) {
            const double x = (double)i / N;

            slope[i] = kind == 0 ? x : kind == 1 ? 1 + 4e-12 * x : i < N / 20 ? x : 1;
            mean[i] = kind == 0 ? -1.5 * x * x : kind == 1 ? 1 - 4e-12 * x * x : i < N / 20 ? uniform(5, i) : 0;
        }
        const clock_t start = clock();
        argmax(N, mean, slope, p);
        ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 1);
        for (size_t i = 0; i < N; i++)
            sum += p[i];
        ck_assert_double_eq_tol(sum, 1, 1e-9);
        if (kind == 0)
            ck_assert_double_eq_tol(p[N / 2], 3.0 / N * sqrt(2 / acos(-1)) * exp(-0.5 * 1.5 * 1.5), 1e-8);
        if (kind == 2)
            ck_assert_double_eq_tol(p[N - 1], p[N / 20], 1e-18);
    }
    free(mean);
    free(slope);
    free(p);
}
END_TEST

int main(void)
{
    return KBT_RUN("envelope", propensities_equal_the_integral, two_lines_have_a_closed_form,
                   lines_come_on_top_as_often_as_said, without_deviations_the_best_means_share, a_single_line_has_all,
                   equal_arms_are_shown_alike, units_of_the_rewards_do_not_matter,
                   a_line_without_a_slope_changes_nothing, a_large_catalogue_is_quick);
}
