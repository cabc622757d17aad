/* Shared by the families of confidence rules: bounds of one radius, and searches over the ridge (conf_amm.c,
 * conf_sketch.c). */
#ifndef KB_CONF_IMPL_H
#define KB_CONF_IMPL_H

#include <stddef.h>

#include "rules/confidence.h"

/* mean -+ radius sd by the posterior's own numbers (conf_radius.c). */
void kb_conf_band(const struct kb_conf_block *b, double radius);

/* Quasi-convex functions of the ridge, n <= KB_RIDGE_LANES at a time, with what they need: value[k] is that of function
 * k at a[k]. */
typedef void kb_ridge_fn(const void *data, size_t n, const double *a, double *value);

/* best[k] = least value of function k. */
typedef void kb_ridge_search(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best);

/* Over a in [1e-6, 1e10] a0: golden section in ln a (conf_search.c). About forty evaluations. */
kb_ridge_search kb_conf_search;

/* Over n_grid multiples of a0. */
void kb_conf_search_grid(kb_ridge_fn *f, const void *data, size_t n, double a0, const double *grid, size_t n_grid,
                         double *best);

/* At a0 alone. */
kb_ridge_search kb_conf_search_one;

/* Candidates over all ridges, each twice: the side that is looked at is +1 for the upper bound, -1 for minus the lower.
 */
struct kb_conf_arms {
    const struct kb_conf_view *v;
    double *w;                       /* [n][KB_RIDGE_LANES] */
    double prior[KB_RIDGE_LANES];    /* k(c, c) */
    double residual[KB_RIDGE_LANES]; /* r(c) >= 0, of a dictionary */
    double side[KB_RIDGE_LANES];
    double radius; /* of a rule that has one for all */
};

/* Both bounds of every candidate of a block: each side's value is minimised by `find`. O(n) per ridge tried. */
void kb_conf_search_block(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena,
                          double radius, kb_ridge_fn *value, kb_ridge_search *find);

#endif
