/* Matern kernels, by the polynomial of each order: for pairs (vec_kernel.c) and for many (vec_many.c). */
#ifndef KB_MATERN_H
#define KB_MATERN_H

#include <assert.h>
#include <math.h>

#include "spec/spec.h"

/* Matern of half-integer order on squared distances: poly(s) exp(-s), s = root |x - y| / l, poly = 1 + linear s +
 * quadratic s^2 (vec_kernel.h). */
struct kb_matern {
    double root, linear, quadratic;
};

static inline struct kb_matern kb_matern_of(enum kb_vec_kernel_type type)
{
    assert(type == KB_VEC_MATERN12 || type == KB_VEC_MATERN32 || type == KB_VEC_MATERN52);
    if (type == KB_VEC_MATERN12)
        return (struct kb_matern){1.0, 0.0, 0.0};
    return type == KB_VEC_MATERN32 ? (struct kb_matern){sqrt(3.0), 1.0, 0.0}
                                   : (struct kb_matern){sqrt(5.0), 1.0, 1.0 / 3.0};
}

#endif
