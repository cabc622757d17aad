/* Histogram against sorted samples: quantiles within 1/256, extremes exact, merging = one histogram. Statistics of
 * the demo against their definitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/histogram.h"
#include "kbt.h"
#include "base/rng.h"
#include "demo/scores.h"

static struct lc_histogram a, b, both;

static int by_value(const void *x, const void *y)
{
    uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;
    return p < q ? -1 : p > q;
}

/* Smallest sample with at least the share q of all samples <= it. */
static uint64_t exact_quantile(const uint64_t *sorted, size_t n, double q)
{
    size_t rank = (size_t)ceil(q * (double)n);
    return sorted[rank > 0 ? rank - 1 : 0];
}

/* Values spread over ten powers of ten, with a heavy tail. */
static uint64_t sample(uint64_t key, size_t i)
{
    return (uint64_t)exp(kb_rng_uniform(key, KB_STREAM_SIMULATION, i) * 23.0);
}

START_TEST(quantiles_are_within_their_cell)
{
    enum { N = 20000 };
    static uint64_t v[N];
    const double qs[] = {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0};
    lc_histogram_clear(&a);
    for (size_t i = 0; i < N; i++) {
        v[i] = sample(7, i);
        lc_histogram_add(&a, v[i]);
    }
    qsort(v, N, sizeof *v, by_value);
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        double want = (double)exact_quantile(v, N, qs[i]), got = (double)lc_histogram_quantile(&a, qs[i]);
        ck_assert_double_le(fabs(got - want), want / 256.0 + 0.5);
    }
    ck_assert_uint_eq(lc_histogram_quantile(&a, 1.0), v[N - 1]);
    ck_assert_uint_eq(a.max, v[N - 1]);
    ck_assert_uint_eq(a.min, v[0]);
}
END_TEST

/* Around every power of two: the places where cells change their width. */
START_TEST(a_single_value_comes_back_within_its_error)
{
    for (unsigned bit = 0; bit < LC_HISTOGRAM_MAX_BITS; bit++)
        for (int d = -1; d <= 1; d++) {
            uint64_t v = (UINT64_C(1) << bit) + (uint64_t)(int64_t)d;
            lc_histogram_clear(&a);
            lc_histogram_add(&a, v);
            lc_histogram_add(&a, v + v / 2 + 1); /* a larger one, so that the median is not the exact maximum */
            lc_histogram_add(&a, v / 2);         /* and a smaller one, so that it is not the exact minimum */
            ck_assert_double_le(fabs((double)lc_histogram_quantile(&a, 0.5) - (double)v), (double)v / 256.0 + 0.5);
        }
}
END_TEST

START_TEST(small_values_are_exact)
{
    for (uint64_t v = 0; v < 256; v++) {
        lc_histogram_clear(&a);
        for (uint64_t i = 0; i <= v; i++)
            lc_histogram_add(&a, i);
        lc_histogram_add(&a, 1000000);
        ck_assert_uint_eq(lc_histogram_quantile(&a, (double)(v + 1) / (double)(v + 2)), v);
    }
}
END_TEST

START_TEST(values_beyond_the_range_count_as_the_largest)
{
    lc_histogram_clear(&a);
    lc_histogram_add(&a, 5);
    lc_histogram_add(&a, UINT64_MAX);
    ck_assert_uint_eq(a.count, 2);
    ck_assert_uint_eq(lc_histogram_quantile(&a, 1.0), UINT64_MAX);
    ck_assert_uint_eq(lc_histogram_quantile(&a, 0.5), 5);
}
END_TEST

START_TEST(merging_equals_one_histogram)
{
    lc_histogram_clear(&a);
    lc_histogram_clear(&b);
    lc_histogram_clear(&both);
    for (size_t i = 0; i < 1000; i++) {
        lc_histogram_add(i % 3 == 0 ? &a : &b, sample(9, i));
        lc_histogram_add(&both, sample(9, i));
    }
    lc_histogram_merge(&a, &b);
    ck_assert_mem_eq(a.cell, both.cell, sizeof a.cell);
    ck_assert_uint_eq(a.count, both.count);
    ck_assert_uint_eq(a.min, both.min);
    ck_assert_uint_eq(a.max, both.max);
    ck_assert_double_eq_tol(lc_histogram_mean(&a), lc_histogram_mean(&both), 1e-9 * lc_histogram_mean(&both));
}
END_TEST

START_TEST(an_empty_histogram_answers_zero)
{
    lc_histogram_clear(&a);
    lc_histogram_clear(&b);
    lc_histogram_merge(&a, &b);
    ck_assert_uint_eq(lc_histogram_quantile(&a, 0.5), 0);
    ck_assert_double_eq(lc_histogram_mean(&a), 0.0);
    lc_histogram_add(&b, 77);
    lc_histogram_merge(&a, &b);
    ck_assert_uint_eq(a.min, 77);
}
END_TEST

/* --- statistics ----------------------------------------------------------------------------------------- */

START_TEST(standard_errors_follow_their_definition)
{
    const double v[] = {1.0, 2.0, 4.0, 9.0}, w[] = {0.0, 2.5, 3.0, 8.5};
    struct lc_estimate e = lc_estimate_of(v, 4), d = lc_estimate_paired(v, w, 4);
    ck_assert_double_eq_tol(e.mean, 4.0, 1e-15);
    ck_assert_double_eq_tol(e.se, sqrt((9.0 + 4.0 + 0.0 + 25.0) / 3.0 / 4.0), 1e-15);
    ck_assert_double_eq_tol(d.mean, 0.5, 1e-15); /* differences 1, -0.5, 1, 0.5 */
    ck_assert_double_eq_tol(d.se, sqrt((0.25 + 1.0 + 0.25 + 0.0) / 3.0 / 4.0), 1e-15);
    ck_assert(isnan(lc_estimate_of(v, 1).se));
}
END_TEST

START_TEST(scores_keep_total_rate_and_last_tenth)
{
    struct lc_scores *s = lc_alloc(1, sizeof *s);
    double curve[50];
    for (size_t t = 0; t < 50; t++)
        curve[t] = t < 45 ? (double)(t + 1) : 45.0 + 3.0 * (double)(t - 44);
    lc_scores_init(s, 1, 2);
    lc_scores_add(s, 0, 0, curve, 50, false);
    lc_scores_add(s, 0, 1, curve, 50, true);
    ck_assert_double_eq_tol(s->value[0][0], 60.0, 1e-12);
    ck_assert_double_eq_tol(s->value[0][1], 1.2, 1e-12);
    ck_assert_double_eq_tol(s->tail[0][0], 3.0, 1e-12);
    lc_scores_add(s, 0, 0, curve, 1, false); /* a race of one round is its own last tenth */
    ck_assert_double_eq_tol(s->tail[0][0], 1.0, 1e-12);
    lc_scores_close(s);
    free(s);
}
END_TEST

int main(void)
{
    return KBT_RUN("histogram", quantiles_are_within_their_cell, a_single_value_comes_back_within_its_error,
                   small_values_are_exact, values_beyond_the_range_count_as_the_largest, merging_equals_one_histogram,
                   an_empty_histogram_answers_zero) |
           KBT_RUN("scores", standard_errors_follow_their_definition, scores_keep_total_rate_and_last_tenth);
}
