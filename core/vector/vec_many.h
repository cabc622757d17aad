/* Kernels on vectors for many points, by a width of vectors that the caller names: for tests of each width. */
#ifndef KB_VEC_MANY_H
#define KB_VEC_MANY_H

#include <stddef.h>

#include "linalg/lanes.h"
#include "vector/vec_kernel.h"

/* kb_vec_kernel_scale_many by vectors of a width that the processor has. */
void kb_vec_kernel_scale_by(enum kb_lanes lanes, const struct kb_vec_kernel_spec *k, size_t dim,
                            const struct kb_vec_points *points, const double *const *y, size_t n_c, double *out,
                            size_t ld);

#endif
