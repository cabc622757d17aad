/* Shared by the families of confidence rules: bounds of one radius, and searches over the ridge (conf_amm.c,
 * conf_sketch.c). */
#ifndef KB_CONF_IMPL_H
#define KB_CONF_IMPL_H

#include <stddef.h>

#include "rules/confidence.h"

/* mean -+ radius sd by the posterior's own numbers (conf_radius.c). */
void kb_conf_band(const struct kb_conf_block *b, double radius);

/* A quasi-convex function of the ridge, with what it needs. */
typedef double kb_ridge_fn(const void *data, double a);

/* Least value of f over a in [1e-6, 1e10] a0: golden section in ln a (conf_search.c). About forty evaluations. */
double kb_conf_search(kb_ridge_fn *f, const void *data, double a0);

/* Least value over n multiples of a0. */
double kb_conf_search_grid(kb_ridge_fn *f, const void *data, double a0, const double *grid, size_t n);

/* How a rule looks for its ridge. */
typedef double kb_ridge_search(kb_ridge_fn *f, const void *data, double a0);

/* One candidate over all ridges: products that do not depend on the ridge, and the side that is looked at. */
struct kb_conf_arm {
    const struct kb_conf_view *v;
    double *w_target, *w_sq; /* [n] w_i yt_i, w_i^2 */
    double *target_sq;       /* [n] yt_i^2 */
    double *reciprocal;      /* [n] work */
    double prior;            /* k(c, c) */
    double residual;         /* r(c) >= 0, of a dictionary */
    double side;             /* +1: upper, -1: minus the lower bound */
};

/* Both bounds of every candidate of a block: value(a) is minimised for each side by `find`. O(n) per ridge tried. */
void kb_conf_search_block(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena,
                          kb_ridge_fn *value, kb_ridge_search *find);

#endif
