/* Keyed randomness: a function of its arguments, uniform, normal, and without visible ties between streams. */
#include <math.h>
#include <stdlib.h>

#include "kbt.h"
#include "base/rng.h"

#define N 200000

START_TEST(same_arguments_give_the_same_value)
{
    ck_assert_uint_eq(kb_rng_bits(7, KB_STREAM_ARM, 3), kb_rng_bits(7, KB_STREAM_ARM, 3));
    ck_assert_uint_ne(kb_rng_bits(7, KB_STREAM_ARM, 3), kb_rng_bits(8, KB_STREAM_ARM, 3));
    ck_assert_uint_ne(kb_rng_bits(7, KB_STREAM_ARM, 3), kb_rng_bits(7, KB_STREAM_DICTIONARY, 3));
    ck_assert_uint_ne(kb_rng_bits(7, KB_STREAM_ARM, 3), kb_rng_bits(7, KB_STREAM_ARM, 4));
}
END_TEST

/* The log relies on these never changing: a new version must draw what the old one would have drawn. */
START_TEST(values_are_pinned)
{
    /* From an independent script in arbitrary precision integers, checked there against SplitMix64's first output
     * for seed 0, e220a8397b1dcdaf. */
    ck_assert_uint_eq(kb_rng_bits(0, KB_STREAM_ARM, 0), 0xb49ab477bb8685e2u);
    ck_assert_uint_eq(kb_rng_bits(1, KB_STREAM_ARM, 0), 0xa7ed8821dca10c0eu);
    ck_assert_uint_eq(kb_rng_bits(123456789, KB_STREAM_DICTIONARY, 7), 0x56c09bb7674aaea2u);
    ck_assert_uint_eq(kb_rng_bits(UINT64_MAX, KB_STREAM_SIMULATION, UINT64_MAX), 0xc2b28a0219625bc8u);
    ck_assert(kb_rng_uniform(0, KB_STREAM_ARM, 0) == (double)(0xb49ab477bb8685e2u >> 11) * 0x1p-53);
}
END_TEST

START_TEST(uniform_fills_the_unit_interval_evenly)
{
    enum { CELLS = 100 };
    size_t count[CELLS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double u = kb_rng_uniform(42, KB_STREAM_ARM, i);
        if (!(u >= 0.0 && u < 1.0))
            ck_abort_msg("outside [0, 1): %g", u);
        count[(size_t)(u * CELLS)]++;
    }
    double chi2 = 0.0, expected = (double)N / CELLS;
    for (size_t c = 0; c < CELLS; c++)
        chi2 += ((double)count[c] - expected) * ((double)count[c] - expected) / expected;
    ck_assert_double_lt(chi2, 170.0); /* 99 degrees of freedom: exceeded with probability 1e-5 */
    ck_assert_double_gt(chi2, 45.0);  /* too even would be as wrong */
}
END_TEST

START_TEST(neighbouring_keys_and_indices_are_uncorrelated)
{
    double by_index = 0.0, by_key = 0.0, by_stream = 0.0;
    for (uint64_t i = 0; i < N; i++) {
        double u = kb_rng_uniform(i, KB_STREAM_ARM, 5) - 0.5;
        by_key += u * (kb_rng_uniform(i + 1, KB_STREAM_ARM, 5) - 0.5);
        by_index += u * (kb_rng_uniform(i, KB_STREAM_ARM, 6) - 0.5);
        by_stream += u * (kb_rng_uniform(i, KB_STREAM_DICTIONARY, 5) - 0.5);
    }
    double bound = 4.5 * sqrt((double)N) / 12.0; /* 4.5 standard deviations of the sum */
    ck_assert_double_lt(fabs(by_key), bound);
    ck_assert_double_lt(fabs(by_index), bound);
    ck_assert_double_lt(fabs(by_stream), bound);
}
END_TEST

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(normal_follows_the_normal_distribution)
{
    double *z = kbt_array(N), worst = 0.0;
    kbt_random_normal(N, 99, z);
    qsort(z, N, sizeof *z, ascending);
    for (size_t i = 0; i < N; i++) {
        double cdf = 0.5 * erfc(-z[i] / sqrt(2.0)), gap = fabs(cdf - ((double)i + 0.5) / N);
        worst = gap > worst ? gap : worst;
    }
    ck_assert_double_lt(worst * sqrt((double)N), 2.2); /* Kolmogorov: exceeded with probability 1e-4 */
    ck_assert(isfinite(z[0]) && isfinite(z[N - 1]));
    free(z);
}
END_TEST

int main(void)
{
    return KBT_RUN("rng", same_arguments_give_the_same_value, values_are_pinned, uniform_fills_the_unit_interval_evenly,
                   neighbouring_keys_and_indices_are_uncorrelated, normal_follows_the_normal_distribution);
}
