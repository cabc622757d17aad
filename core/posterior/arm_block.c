/* See arm_block.h. The arrays of a block lie behind its struct in one piece of memory, the factor first and on a line
 * of the cache.
 *
 * What a solve would say of a point is bounded by two dot products. z = F^-1 k, S = F F^T = K + lambda N^-1:
 *
 *   z.w = k.weight                                weight = F^-T w
 *   |z| >= k.u / |F^T u| = k.probe / |F^-1 1|     for any u; u = probe = S^-1 1 is the best where k is the same at all
 *                                                 points
 *
 * A new point costs O(n) here. With l the new row, p its pivot and w' the new entry of w, weight becomes (weight - w'/p
 * F^-T l, w'/p). F^-T l is a solve. What is taken is its part along the probe, c probe with c = l.F^-1 1 / |F^-1 1|^2:
 * little is left, |l - c F^-1 1| |w'| / p, and it is orthogonal to the probe, so a mean is off by at most
 *
 *   drift |z - its part along F^-1 1| <= drift * the bound of sd,    drift = the sum of what was left
 *
 * Zeros behind the probe leave |F^T u| as it was. Both are made anew where drift has grown or there are an eighth more
 * points.
 *
 * Numerical notes. A solve with a triangle F has the solution of F + dF, |dF| <= n eps |F|, and a dot product of n
 * terms errs by n eps |x| |y|. With c = |F| |F^-1|, which is at most |F| sqrt(largest count / lambda) as S >= lambda
 * N^-1, both ways to the mean err by some n eps c |w| |z|, both to |z| by n eps c |z|, and |F^T probe| is |F^-1 1| up
 * to n eps c. `error` is SOLVES times n eps c.
 *
 * Cost: O(cap^2) memory and, for a larger block, O(n^2) to copy: doubling, so O(n) a point over a life. */
#include "posterior/arm_block.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/linalg.h"
#include "posterior/noisy_gram.h"

#define LINE ((size_t)64)
#define VECTORS 3u /* that have room to be solved for */
#define PROBE_PARTS 8u
#define MOST_DRIFT 0.125
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
    b->weight = b->w + kb_tiled_padded(cap);
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
        memcpy(b->weight, from->weight, from->f.n * sizeof *b->weight);
        memcpy(b->probe, from->probe, from->n_probe * sizeof *b->probe);
    }
    b->n_probe = from->n_probe;
    b->square = from->square;
    b->w_norm = from->w_norm;
    b->ones_norm = from->ones_norm;
    b->drift = from->drift;
    b->error = from->error;
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

static void make_probe(struct kb_arm_block *b)
{
    const enum kb_lanes lanes = kb_widest_lanes();
    for (size_t i = 0; i < b->n; i++)
        b->probe[i] = 1;
    b->n_probe = b->n;
    kb_tiled_solve(lanes, &b->f, b->probe);
    b->ones_norm = sqrt(kb_dot(b->n, b->probe, b->probe));
    kb_tiled_solve_t(lanes, &b->f, b->probe);
}

/* What goes with the counts and with w. O(n). */
static void measure(struct kb_arm_block *b, double lambda)
{
    double most = 0;
    for (size_t i = 0; i < b->n; i++)
        most = fmax(most, b->count[i]);
    b->w_norm = sqrt(kb_dot(b->n, b->w, b->w));
    b->error = SOLVES * (double)b->n * DBL_EPSILON * sqrt(b->square * most / lambda);
}

static void make_weight(struct kb_arm_block *b)
{
    memcpy(b->weight, b->w, b->n * sizeof *b->w);
    kb_tiled_solve_t(kb_widest_lanes(), &b->f, b->weight);
    b->drift = 0;
}

void kb_arm_block_follow_factor(struct kb_arm_block *b)
{
    b->square = kb_tiled_square(&b->f);
    make_probe(b);
}

void kb_arm_block_follow_values(struct kb_arm_block *b, double lambda)
{
    make_weight(b);
    measure(b, lambda);
}

void kb_arm_block_follow_point(struct kb_arm_block *b, double lambda, const struct kb_appended *row)
{
    const size_t n = b->n - 1, most = b->n_probe + b->n_probe / PROBE_PARTS;
    const double step = b->w[n] / row->pivot, part = n > 0 ? row->along / b->ones_norm : 0;
    b->square += row->square + row->pivot * row->pivot;
    b->drift += fabs(step) * sqrt(fmax(row->square - part * part, 0) + b->error * row->square);
    b->weight[n] = step;
    if (b->n <= most && b->drift <= MOST_DRIFT)
        kb_axpy(b->n_probe, -step * part / b->ones_norm, b->probe, b->weight);
    else {
        make_probe(b);
        make_weight(b);
    }
    measure(b, lambda);
}

void kb_arm_block_bound(const struct kb_arm_block *b, const double *k, double prior, double *mean, double *sd)
{
    const double root = sqrt(prior), part = fabs(kb_dot(b->n_probe, k, b->probe)) / b->ones_norm;
    const double known = fmax((part - b->error * root) / (1 + b->error), 0);
    *sd = sqrt(fmin(fmax(prior * (1 + b->error) - known * known, 0), prior));
    *mean = kb_dot(b->n, k, b->weight) + b->drift * *sd + b->error * root * b->w_norm;
}
