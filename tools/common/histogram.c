/* Log-linear histogram.
 *
 *   v < 2^S            cell v: exact (S = LC_HISTOGRAM_SUB_BITS)
 *   2^e <= v < 2^(e+1) e >= S: 2^S cells of width 2^(e-S), so that a cell is at most v / 2^S wide
 *
 * Cells are numbered without gaps: cell(v) = (e - S) 2^S + (v >> (e - S)). A quantile answers the middle
 * of its cell, clamped to the exact extremes, hence a relative error of at most 1/2^(S+1) = 0.4 %.
 *
 * Histograms of several threads merge by adding: no lock while measuring. Cost: add O(1), quantile O(cells). */
#include "common/histogram.h"

#include <math.h>
#include <string.h>

#define SUB (1u << LC_HISTOGRAM_SUB_BITS)
#define LARGEST ((UINT64_C(1) << LC_HISTOGRAM_MAX_BITS) - 1u)

/* Cell of a value; below 2^(S+1) the cells are the values themselves. */
static size_t cell_of(uint64_t v)
{
    if (v < SUB)
        return (size_t)v;
    unsigned shift = 63u - (unsigned)__builtin_clzll(v) - LC_HISTOGRAM_SUB_BITS;
    return ((size_t)shift << LC_HISTOGRAM_SUB_BITS) + (size_t)(v >> shift);
}

/* Middle of a cell, the inverse of cell_of up to half a width. */
static uint64_t middle_of(size_t cell)
{
    if (cell < 2u * SUB)
        return (uint64_t)cell;
    unsigned shift = (unsigned)(cell >> LC_HISTOGRAM_SUB_BITS) - 1u;
    uint64_t low = (uint64_t)((cell & (SUB - 1u)) + SUB) << shift;
    return low + (UINT64_C(1) << shift) / 2u;
}

void lc_histogram_clear(struct lc_histogram *h)
{
    memset(h, 0, sizeof *h);
    h->min = UINT64_MAX;
}

/* The extremes and the sum are kept from the value itself, not from its cell. */
void lc_histogram_add(struct lc_histogram *h, uint64_t value)
{
    if (h->count == 0 || value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->count++;
    h->sum += (double)value;
    h->cell[cell_of(value < LARGEST ? value : LARGEST)]++;
}

void lc_histogram_merge(struct lc_histogram *into, const struct lc_histogram *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    into->sum += from->sum;
    for (size_t i = 0; i < LC_HISTOGRAM_CELLS; i++)
        into->cell[i] += from->cell[i];
}

/* Rank of the quantile: ceil(q n), at least 1. The last rank is answered by the exact maximum, which is what one looks
 * for at the end of a tail. */
uint64_t lc_histogram_quantile(const struct lc_histogram *h, double q)
{
    if (h->count == 0)
        return 0;
    double want = ceil(q * (double)h->count);
    uint64_t rank = want < 1.0 ? 1u : (uint64_t)want, seen = 0;
    if (rank >= h->count)
        return h->max;
    for (size_t i = 0; i < LC_HISTOGRAM_CELLS; i++) {
        seen += h->cell[i];
        if (seen >= rank) {
            const uint64_t v = middle_of(i);
            return v < h->min ? h->min : v > h->max ? h->max : v;
        }
    }
    return h->max;
}

double lc_histogram_mean(const struct lc_histogram *h)
{
    return h->count > 0 ? h->sum / (double)h->count : 0.0;
}
