/* Estimates that are ratios of sums over events, with intervals.
 *
 *   estimate   v = sum num_k / sum den_k        den_k = 1: a mean
 *   residual   u_k = num_k - v den_k            what the spread of v comes from
 *
 * Events are summed up in blocks of consecutive ones, at most LD_OPE_SERIES_BLOCKS of them: a block is the unit that
 * the bootstrap draws. Memory is constant; up to that many events a block is one event. */
#ifndef LD_OPE_SERIES_H
#define LD_OPE_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LD_OPE_SERIES_BLOCKS 8192u

struct ld_ope_series {
    size_t n;                             /* events */
    double num, den;                      /* sums */
    double num_num, num_den, den_den;     /* of products, per event */
    size_t per_block, n_blocks, in_block; /* a power of two; begun; events in the last of them */
    double *block_num, *block_den;        /* [LD_OPE_SERIES_BLOCKS] */
};

int ld_ope_series_init(struct ld_ope_series *s); /* -1: no memory; close in either case */
void ld_ope_series_close(struct ld_ope_series *s);
void ld_ope_series_add(struct ld_ope_series *s, double num, double den);

double ld_ope_series_estimate(const struct ld_ope_series *s); /* NaN when the denominators sum to 0 */
/* Standard error by the delta method: sqrt(sum u_k^2) / |sum den_k|. */
double ld_ope_series_error(const struct ld_ope_series *s);

struct ld_ope_interval {
    double lower, upper;
};

/* What bootstraps draw, and their memory. */
struct ld_ope_bootstrap {
    double level;
    size_t n; /* resamples */
    uint64_t seed;
    double *value, *other;      /* [n] */
    bool (*is_over)(void *arg); /* asked while it draws; true ends it. NULL: nobody */
    void *arg;
};

/* With `value` and `other`, from level, n, seed and is_over: 0, or -1 without memory. Close in either case. */
int ld_ope_bootstrap_init(struct ld_ope_bootstrap *b);
void ld_ope_bootstrap_close(struct ld_ope_bootstrap *b);

/* Bias-corrected and accelerated bootstrap [BE], two-sided at the level: n draws of as many blocks as
 * there are, block j of resample b at place i being floor(U m), U = kb_rng_uniform(seed, KB_STREAM_SIMULATION, b m +
 * i). z0 from the share of resamples below the estimate (ties half), the acceleration from the residuals' skewness over
 * blocks. False when nothing varies: then a bootstrap cannot know. O(n blocks).
 *
 * With b (NULL: none) of the difference a - b of two series over the same events: one resample draws the same blocks of
 * both, so that what they share cancels. False also where they are not over the same blocks. */
bool ld_ope_series_bootstrap(const struct ld_ope_series *a, const struct ld_ope_series *b,
                             const struct ld_ope_bootstrap *how, struct ld_ope_interval *out);

/* Blocks from..to - 1 as a series to estimate and to bootstrap (sums of products are not kept); borrows the blocks. */
struct ld_ope_series ld_ope_series_part(const struct ld_ope_series *s, size_t from, size_t to);

/* Events per block that n events will come to be summed up in. */
size_t ld_ope_series_per_block(size_t n);

/* Empirical Bernstein [MP, Thm 4], for residuals that lie in an interval of length `range`: all v
 * in lo..hi with |sum (num - v den)| / n <= sqrt(2 V_v L / n) + 7 range L / (3 (n - 1)), L = ln(4 / (1 - level)). For a
 * finite n, whatever the distribution. n < 2: lo..hi. */
struct ld_ope_interval ld_ope_series_bernstein(const struct ld_ope_series *s, double level, double range, double lo,
                                               double hi);

#endif
