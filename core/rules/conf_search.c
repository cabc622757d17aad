/* Searching the ridge: golden section, grids, and the walk over the candidates of a block.
 *
 * Every ridge gives a valid bound, so a search that stops early is wide, never wrong. The functions are quasi-convex in
 * a (docs/decisions/0011), for which golden section in ln a is exact up to its last interval.
 *
 * Cost: two searches per candidate, each of 40 or so evaluations of O(n). */
#include <math.h>

#include "rules/conf_impl.h"
#include "posterior/spectrum.h"

#define GOLDEN 0.6180339887498949
#define SEARCH_LOW 1e-6    /* of a0: at an observed point of n repeats the bound tends to S/n + R/sqrt(n) as a falls */
#define SEARCH_HIGH 1e10   /* beyond, the bound is the prior's B sqrt(k) to ten digits */
#define SEARCH_STEPS 64    /* at most; the interval of ln a shrinks to SEARCH_ENOUGH before */
#define SEARCH_ENOUGH 2e-5 /* the value is flat at its minimum: the error is of the order of this squared */

double kb_conf_search(kb_ridge_fn *f, const void *data, double a0)
{
    double low = log(a0 * SEARCH_LOW), high = log(a0 * SEARCH_HIGH);
    double x1 = high - GOLDEN * (high - low), x2 = low + GOLDEN * (high - low);
    double f1 = f(data, exp(x1)), f2 = f(data, exp(x2));
    double best = fmin(fmin(f1, f2), fmin(f(data, exp(low)), f(data, exp(high)))); /* it may lie at an end */
    for (int i = 0; i < SEARCH_STEPS && high - low > SEARCH_ENOUGH; i++) {
        if (f1 <= f2) {
            high = x2, x2 = x1, f2 = f1;
            x1 = high - GOLDEN * (high - low);
            f1 = f(data, exp(x1));
        } else {
            low = x1, x1 = x2, f1 = f2;
            x2 = low + GOLDEN * (high - low);
            f2 = f(data, exp(x2));
        }
        best = fmin(best, fmin(f1, f2));
    }
    return best;
}

double kb_conf_search_grid(kb_ridge_fn *f, const void *data, double a0, const double *grid, size_t n)
{
    double best = INFINITY;
    for (size_t i = 0; i < n; i++)
        best = fmin(best, f(data, grid[i] * a0));
    return best;
}

/* Work space for the candidates of a block, with what they share. */
static struct kb_conf_arm begin_arms(const struct kb_conf_view *v, struct kb_arena *arena)
{
    const struct kb_spectrum *sp = v->spectrum;
    struct kb_conf_arm d = {
        .v = v,
        .w_target = kb_arena_doubles(arena, sp->n),
        .w_sq = kb_arena_doubles(arena, sp->n),
        .target_sq = kb_arena_doubles(arena, sp->n),
        .reciprocal = kb_arena_doubles(arena, sp->n),
    };
    for (size_t i = 0; i < sp->n; i++)
        d.target_sq[i] = sp->target[i] * sp->target[i];
    return d;
}

/* Candidate c of the block into *d. */
static void take_arm(struct kb_conf_arm *d, const struct kb_conf_block *b, size_t c)
{
    const double *w = b->w + c * b->ld;
    double seen = 0;
    for (size_t i = 0; i < d->v->spectrum->n; i++) {
        d->w_target[i] = w[i] * d->v->spectrum->target[i];
        d->w_sq[i] = w[i] * w[i];
        seen += d->w_sq[i];
    }
    d->prior = b->prior[c];
    d->residual = fmax(0, d->prior - seen);
}

void kb_conf_search_block(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena,
                          kb_ridge_fn *value, kb_ridge_search *find)
{
    struct kb_conf_arm d = begin_arms(v, arena);
    for (size_t c = 0; c < b->n; c++) {
        take_arm(&d, b, c);
        d.side = 1;
        b->upper[c] = find(value, &d, v->lambda);
        d.side = -1;
        b->lower[c] = -find(value, &d, v->lambda);
    }
}
