/* Weights of namespaces of contexts, as a search for scales moves them (arm_scales.c): squared lengths within a
 * namespace count by its weight, so that its coordinates are multiplied by the root. */
#ifndef KB_SPACE_WEIGHTS_H
#define KB_SPACE_WEIGHTS_H

#include <stddef.h>

#include "spec/spec.h"

/* x[n][dim] = raw with the weights of the spec's namespaces. */
void kb_spaces_weigh(const struct kb_split *spaces, const double *weight, size_t dim, size_t n, const double *raw,
                     double *x);

/* Part of a matrix K of n weighed contexts x[n][dim], lower triangles column-major with leading dimension n. */
struct kb_spaces_part {
    size_t n, dim;
    const double *x;
    double context, lengthscale; /* K has context times exp(-|x - y|^2 / 2 lengthscale^2), */
    const double *gram;          /* which stands here without its variance; NULL: it has none */
    double linear;               /* and linear times x.y */
};
/* out[g] += tr[M dK/dln w_g], M's lower triangle in m with leading dimension ld.
 *
 *   dK/dln w_g = - context exp(..) |x_g - y_g|^2 / 2 lengthscale^2 + linear x_g.y_g
 *
 * O(n^2 dim). */
void kb_spaces_slope(const struct kb_split *spaces, const struct kb_spaces_part *p, const double *m, size_t ld,
                     double *out);

#endif
