/* Log-linear histogram of durations in nanoseconds: constant memory, relative error of a quantile <= 1/256.
 *
 * Why not a list of samples: a replay may send millions of requests, and every thread records without a lock.
 * Why not fixed cells: latencies span microseconds to minutes. */
#ifndef LC_HISTOGRAM_H
#define LC_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define LC_HISTOGRAM_SUB_BITS 7u  /* 128 linear cells for each power of two */
#define LC_HISTOGRAM_MAX_BITS 44u /* values up to 2^44 ns = 4.9 hours; larger ones count as that */
#define LC_HISTOGRAM_CELLS ((LC_HISTOGRAM_MAX_BITS - LC_HISTOGRAM_SUB_BITS + 1u) << LC_HISTOGRAM_SUB_BITS)

struct lc_histogram {
    uint64_t count, max, min; /* max and min are exact */
    double sum;
    uint64_t cell[LC_HISTOGRAM_CELLS];
};

/* Needed before the first add: a zeroed struct has the wrong minimum. No memory is owned. */
void lc_histogram_clear(struct lc_histogram *h);
void lc_histogram_add(struct lc_histogram *h, uint64_t value);
void lc_histogram_merge(struct lc_histogram *into, const struct lc_histogram *from);

/* Smallest recorded value v (up to the cell's width) with at least the share q of all values <= v; q in [0, 1]. 0 when
 * empty; q = 1 gives the exact maximum. O(cells). */
uint64_t lc_histogram_quantile(const struct lc_histogram *h, double q);
double lc_histogram_mean(const struct lc_histogram *h);

#endif
