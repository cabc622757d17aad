/* See arm_block.h. The arrays of a block lie behind its struct in one piece of memory, the factor first and on a line
 * of the cache.
 *
 * What a solve would say of a point is bounded by two dot products. z = F^-1 k, S = F F^T = K + lambda N^-1:
 *
 *   z.w = k.weight                                weight = F^-T w
 *   |z| >= z.ones / |ones| = k.probe / |ones|     probe = F^-T ones = S^-1 1, of all u the one whose u.k / |F^T u| is
 *                                                 the largest where k is the same at all points
 *
 * Numerical notes. A solve with a triangle F has the solution of F + dF, |dF| <= n eps |F|, and a dot product of n
 * terms errs by n eps |x| |y|. With c = |F| |F^-1|, which is at most |F| sqrt(largest count / lambda) as S >= lambda
 * N^-1, both ways to the mean err by some n eps c |w| |z|, both to |z| by n eps c |z|, and |F^T probe| is |ones| up to
 * n eps c. `error` is SOLVES times n eps c.
 *
 * Cost: O(cap^2) memory and, for a larger block, O(n^2) to copy: doubling, so O(n) a point over a life. */
#include "posterior/arm_block.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/linalg.h"

#define LINE ((size_t)64)
#define VECTORS 4u  /* that have room to be solved for */
#define SOLVES 16.0 /* solves and products whose errors come together, and some room */

static size_t on_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

size_t kb_arm_block_cap(size_t n, size_t most)
{
    size_t cap = 1;
    while (cap < n)
        cap *= 2;
    return cap <= most || n > most ? cap : most;
}

static size_t factor_bytes(size_t cap)
{
    return kb_tiled_doubles(cap) * sizeof(double); /* whole lines */
}

size_t kb_arm_block_bytes(size_t cap, size_t context_dim)
{
    const size_t point = (1 + context_dim) * sizeof(double) + 2 * sizeof(uint32_t);
    return on_lines(sizeof(struct kb_arm_block)) + factor_bytes(cap) +
           on_lines(cap * point + VECTORS * kb_tiled_padded(cap) * sizeof(double));
}

struct kb_arm_block *kb_arm_block_new(size_t cap, size_t context_dim, const struct kb_arm_block *from)
{
    struct kb_arm_block *b = kb_lines(kb_arm_block_bytes(cap, context_dim), 1, 1);
    if (b == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)b + on_lines(sizeof *b);
    b->cap = cap;
    b->f.t = (double *)(void *)at;
    b->w = (double *)(void *)(at + factor_bytes(cap));
    b->ones = b->w + kb_tiled_padded(cap);
    b->weight = b->ones + kb_tiled_padded(cap);
    b->probe = b->weight + kb_tiled_padded(cap);
    b->count = b->probe + kb_tiled_padded(cap);
    b->x = b->count + cap;
    b->anchor = (uint32_t *)(void *)(b->x + cap * context_dim);
    b->support = b->anchor + cap;
    if (from == NULL)
        return b;
    assert(from->n <= cap);
    kb_arm_block_copy_points(b, from, context_dim);
    b->f.n = from->f.n;
    memcpy(b->f.t, from->f.t, kb_tiled_doubles(from->f.n) * sizeof *b->f.t);
    if (from->f.n > 0) {
        memcpy(b->w, from->w, from->f.n * sizeof *b->w);
        memcpy(b->ones, from->ones, from->f.n * sizeof *b->ones);
    }
    b->log_det = from->log_det;
    return b;
}

void kb_arm_block_copy_points(struct kb_arm_block *to, const struct kb_arm_block *from, size_t context_dim)
{
    const size_t n = from->n;
    assert(n <= to->cap);
    to->n = n;
    to->refused = from->refused;
    if (n == 0)
        return;
    memcpy(to->count, from->count, n * sizeof *to->count);
    memcpy(to->anchor, from->anchor, n * sizeof *to->anchor);
    memcpy(to->support, from->support, n * sizeof *to->support);
    if (context_dim > 0)
        memcpy(to->x, from->x, n * context_dim * sizeof *to->x);
}

void kb_arm_block_push(struct kb_arm_block *b, const double *context, size_t context_dim, uint32_t anchor,
                       uint32_t support, double count)
{
    assert(b->n < b->cap);
    if (context_dim > 0)
        memcpy(b->x + b->n * context_dim, context, context_dim * sizeof *context);
    b->anchor[b->n] = anchor;
    b->support[b->n] = support;
    b->count[b->n++] = count;
}

void kb_arm_block_settle(struct kb_arm_block *b, double lambda)
{
    double most = 0;
    memcpy(b->weight, b->w, b->n * sizeof *b->w);
    memcpy(b->probe, b->ones, b->n * sizeof *b->ones);
    const double square = kb_tiled_solve_t(kb_widest_lanes(), &b->f, b->weight, b->probe);
    for (size_t i = 0; i < b->n; i++)
        most = fmax(most, b->count[i]);
    b->w_norm = sqrt(kb_dot(b->n, b->w, b->w));
    b->ones_norm = sqrt(kb_dot(b->n, b->ones, b->ones));
    b->error = SOLVES * (double)b->n * DBL_EPSILON * sqrt(square * most / lambda);
}

void kb_arm_block_bound(const struct kb_arm_block *b, const double *k, double prior, double *mean, double *sd)
{
    const double root = sqrt(prior), part = fabs(kb_dot(b->n, k, b->probe)) / b->ones_norm;
    const double known = fmax((part - b->error * root) / (1 + b->error), 0);
    *mean = kb_dot(b->n, k, b->weight) + b->error * root * b->w_norm;
    *sd = sqrt(fmin(fmax(prior * (1 + b->error) - known * known, 0), prior));
}
