/* How large a number may be that a model is to compute with. Whoever takes in an event or a query checks by these, so
 * that nothing behind them meets an infinity or a NaN: sums and products of what is within them stay finite.
 *
 *   y, S         a reward; the sum of one decision's rewards               |y|, |S| <= KB_MOST_MAGNITUDE
 *   x            a coordinate of a context or of an arm                    |x| <= KB_MOST_MAGNITUDE
 *   w            the weight of an edge                                     0 < w <= KB_MOST_MAGNITUDE
 *   kc, kx       the kernel of a context, or of features, with itself      kc, kx <= KB_MOST_FACTOR; where one of
 *                                                                          them is at most 1, the other to its square
 *   e            halvings that have passed (decay.h)                       0 <= e <= KB_MOST_HALVINGS
 *
 * Why this is enough. A user's kernel with itself is at most 1e13 (1 / rho, fields.c), so k(s, s) <= 1e73; and since
 * k(s, s')^2 <= k(s, s) k(s', s'), so is every value of the kernel. In exact arithmetic a mean is at most
 * sqrt(k) sqrt(n / lambda) |y| < 1e80, with n <= 2^53 observations and the least lambda of 1e-12. Where lambda drowns
 * in the rounding of such kernels, what is left of a solve is at most k^(3/2) |y| / sqrt(lambda) < 1e146, and its
 * square, and sums of 1e9 such squares, stay below 1e302. Beyond KB_MOST_HALVINGS two neighbouring doubles are more
 * than an eighth of a halving apart, and weights 2^(e_s - e) lose their meaning.
 *
 * A server bounds what it is sent much closer (--max-magnitude); these are for logs, which outlive options. */
#ifndef KB_MAGNITUDE_H
#define KB_MAGNITUDE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KB_MOST_MAGNITUDE 1e30
#define KB_MOST_FACTOR 1e30
#define KB_MOST_HALVINGS 1e15

/* False for NaN. */
static inline bool kb_is_measurable(double x)
{
    return fabs(x) <= KB_MOST_MAGNITUDE;
}

/* The first of n values that is not; n: all are. NULL is fine when n is 0. Eight at a time, by their bits: those of a
 * double without its sign are an integer that grows with its size, infinity and NaN at the end. */
static inline size_t kb_first_unmeasurable(const double *x, size_t n)
{
    const double most = KB_MOST_MAGNITUDE;
    uint64_t limit, over = 0;
    size_t i = 0;

    memcpy(&limit, &most, sizeof limit);
    for (; i + 8 <= n; i += 8) {
        uint64_t bits[8];

        memcpy(bits, x + i, sizeof bits);
        for (size_t j = 0; j < 8; j++)
            over |= limit - (bits[j] & UINT64_MAX >> 1);
        if (over >> 63 != 0)
            break;
    }
    while (i < n && kb_is_measurable(x[i]))
        i++;
    return i;
}

/* Sums of them, over the observations that a double can count, with what rounding may add. */
#define KB_MOST_COUNT 0x1p53
#define KB_MOST_TOTAL (2 * KB_MOST_MAGNITUDE * KB_MOST_COUNT)
#define KB_MOST_SQUARES 1e300 /* squares of means among them */

/* Numbers of events, versions and counts that a log may bring along: half of what its lines can hold, since others will
 * follow and must be read back. */
#define KB_MOST_NUMBER (UINT64_C(1) << 52)

static inline bool kb_is_count_measurable(double count)
{
    return count >= 0 && count <= KB_MOST_COUNT;
}

static inline bool kb_is_total_measurable(double sum)
{
    return fabs(sum) <= KB_MOST_TOTAL;
}

static inline bool kb_is_square_measurable(double sum)
{
    return fabs(sum) <= KB_MOST_SQUARES;
}

/* So many observations (by their weights) with a sum that they can have. */
static inline bool kb_is_sum_measurable(double count, double sum)
{
    return kb_is_count_measurable(count) && fabs(sum) <= KB_MOST_MAGNITUDE * fmax(1, 2 * count);
}

#endif
