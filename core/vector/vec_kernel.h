/* Kernels on vectors: contexts and arm features. With r = |x - y| and lengthscale l:
 *   rbf exp(-r^2 / 2 l^2); matern12 exp(-r/l); matern32 (1 + s) exp(-s), s = sqrt(3) r/l;
 *   matern52 (1 + s + s^2/3) exp(-s), s = sqrt(5) r/l; linear x.y; polynomial (x.y + offset)^degree;
 *   delta 1 when all coordinates are equal (for arms: when the ids are equal), else 0; ones 1. */
#ifndef KB_VEC_KERNEL_H
#define KB_VEC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/spec.h"

/* Whether its values are at most 1, whatever the coordinates. */
bool kb_vec_kernel_is_bounded(enum kb_vec_kernel_type type);

/* Whether a model can compute with x: its coordinates are within magnitude.h, and k(x, x) is at most `most`. x may be
 * NULL when dim is 0. O(dim). */
bool kb_vec_kernel_measures(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, double most);

/* k(x, y) for one pair. O(dim). */
double kb_vec_kernel_value(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, const double *y);

/* out[i] *= k(x_i, y) for n points x_i = x + i * stride. O(n dim). */
void kb_vec_kernel_scale(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, size_t stride, size_t n,
                         const double *y, double *out);

/* Points x_i = x + i * stride, and which of their coordinates are not 0. */
struct kb_vec_points {
    const double *x;
    size_t stride, n;
    const uint64_t
        *marks; /* [n][n_words]: bit d of x_i is marks[i][(skip + d) / 64], from the lowest on; NULL: not told */
    size_t n_words, skip;
};

/* Words of the marks of dim coordinates. */
static inline size_t kb_vec_mark_words(size_t dim)
{
    return (dim + 63) / 64;
}
/* marks[kb_vec_mark_words(dim)] of x. O(dim). */
void kb_vec_mark(size_t dim, const double *x, uint64_t *marks);

/* out[i + c ld] *= k(x_i, y_c) for n_c points y_c: the bits of one after the other, several times as fast; and more
 * where the vectors are mostly 0 and the points' marks are told. O(n n_c dim), of dim the coordinates that are not 0
 * somewhere in a tile of points or in a candidate. */
void kb_vec_kernel_scale_many(const struct kb_vec_kernel_spec *k, size_t dim, const struct kb_vec_points *points,
                              const double *const *y, size_t n_c, double *out, size_t ld);

/* Median of the pairwise Euclidean distances of n vectors of length dim (stride apart), zero distances left
 * out, or the nearest to it that a lengthscale may be; 1 when there are none. Beyond 512 vectors an even subsample of
 * 512 is used. KB_ENOMEM leaves *out 1. */
enum kb_err kb_median_distance(size_t n, size_t dim, const double *x, size_t stride, double *out);

#endif
