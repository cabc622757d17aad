/* Searching the ridge: golden section, grids, and the walk over the candidates of a block, several at a time: what a
 * function costs is a chain of divisions, and chains that do not wait for one another share a processor's vectors.
 *
 * Every ridge gives a valid bound, so a search that stops early is wide, never wrong. The functions are quasi-convex in
 * a (docs/decisions/0011), for which golden section in ln a is exact up to its last interval.
 *
 * Cost: two searches per candidate, each of 40 or so evaluations of O(n). */
#include <math.h>
#include <stdbool.h>

#include "rules/conf_impl.h"
#include "posterior/spectrum.h"

#define GOLDEN 0.6180339887498949
#define SEARCH_LOW 1e-6    /* of a0: at an observed point of n repeats the bound tends to S/n + R/sqrt(n) as a falls */
#define SEARCH_HIGH 1e10   /* beyond, the bound is the prior's B sqrt(k) to ten digits */
#define SEARCH_ENOUGH 2e-5 /* of ln a: the value is flat at its minimum, the error of the order of this squared */

/* a[k] = exp(x[k]); least values so far are kept in best. */
static void try_at(kb_ridge_fn *f, const void *data, size_t n, const double *x, double *value, double *best)
{
    double a[KB_RIDGE_LANES] = {0};
    for (size_t k = 0; k < n; k++)
        a[k] = exp(x[k]);
    f(data, n, a, value);
    for (size_t k = 0; k < n; k++)
        best[k] = fmin(best[k], value[k]);
}

/* All at the same step: each interval shrinks by the same factor. The least value may lie at an end. */
void kb_conf_search(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best)
{
    const double first = log(a0 * SEARCH_LOW), last = log(a0 * SEARCH_HIGH);
    double low[KB_RIDGE_LANES] = {0}, high[KB_RIDGE_LANES] = {0}, next[KB_RIDGE_LANES] = {0};
    double x[2][KB_RIDGE_LANES] = {0}, value[2][KB_RIDGE_LANES], found[KB_RIDGE_LANES];
    for (size_t k = 0; k < n; k++) {
        low[k] = first, high[k] = last, best[k] = INFINITY;
        x[0][k] = last - GOLDEN * (last - first), x[1][k] = first + GOLDEN * (last - first);
    }
    try_at(f, data, n, low, found, best);
    try_at(f, data, n, high, found, best);
    try_at(f, data, n, x[0], value[0], best);
    try_at(f, data, n, x[1], value[1], best);
    for (double width = GOLDEN * (last - first); width > SEARCH_ENOUGH; width *= GOLDEN) {
        bool is_left[KB_RIDGE_LANES];
        for (size_t k = 0; k < n; k++) {
            is_left[k] = value[0][k] <= value[1][k];
            if (is_left[k])
                high[k] = x[1][k], x[1][k] = x[0][k], value[1][k] = value[0][k];
            else
                low[k] = x[0][k], x[0][k] = x[1][k], value[0][k] = value[1][k];
            next[k] = is_left[k] ? high[k] - GOLDEN * (high[k] - low[k]) : low[k] + GOLDEN * (high[k] - low[k]);
        }
        try_at(f, data, n, next, found, best);
        for (size_t k = 0; k < n; k++) {
            x[!is_left[k]][k] = next[k];
            value[!is_left[k]][k] = found[k];
        }
    }
}

void kb_conf_search_grid(kb_ridge_fn *f, const void *data, size_t n, double a0, const double *grid, size_t n_grid,
                         double *best)
{
    double a[KB_RIDGE_LANES] = {0}, value[KB_RIDGE_LANES];
    for (size_t k = 0; k < n; k++)
        best[k] = INFINITY;
    for (size_t i = 0; i < n_grid; i++) {
        for (size_t k = 0; k < n; k++)
            a[k] = grid[i] * a0;
        f(data, n, a, value);
        for (size_t k = 0; k < n; k++)
            best[k] = fmin(best[k], value[k]);
    }
}

void kb_conf_search_one(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best)
{
    static const double one[] = {1};
    kb_conf_search_grid(f, data, n, a0, one, 1, best);
}

/* Candidate c of the block, or the last one, into the lanes from k on, one for each side. */
static void take_arm(struct kb_conf_arms *d, const struct kb_conf_block *b, size_t c, size_t k)
{
    const double *w = b->w + c * b->ld;
    double seen = 0;
    for (size_t i = 0; i < d->v->spectrum->n; i++) {
        d->w[i * KB_RIDGE_LANES + k] = d->w[i * KB_RIDGE_LANES + k + 1] = w[i];
        seen += w[i] * w[i];
    }
    for (size_t side = 0; side < 2; side++) {
        d->prior[k + side] = b->prior[c];
        d->residual[k + side] = fmax(0, b->prior[c] - seen);
        d->side[k + side] = side == 0 ? 1 : -1;
    }
}

void kb_conf_search_block(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena,
                          double radius, kb_ridge_fn *value, kb_ridge_search *find)
{
    const size_t n_arms = KB_RIDGE_LANES / 2;
    struct kb_conf_arms d = {.v = v, .w = kb_arena_doubles(arena, KB_RIDGE_LANES * v->spectrum->n), .radius = radius};
    double best[KB_RIDGE_LANES];
    for (size_t c0 = 0; c0 < b->n; c0 += n_arms) {
        for (size_t k = 0; k < n_arms; k++)
            take_arm(&d, b, c0 + k < b->n ? c0 + k : b->n - 1, 2 * k);
        find(value, &d, KB_RIDGE_LANES, v->lambda, best);
        for (size_t k = 0; k < n_arms && c0 + k < b->n; k++) {
            b->upper[c0 + k] = best[2 * k];
            b->lower[c0 + k] = -best[2 * k + 1];
        }
    }
}
