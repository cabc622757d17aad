/* Kernels on vectors, many points against many, as a decision asks (vec_kernel.h): points of the dictionary are laid
 * side by side once, coordinate by coordinate, and met by all candidates, four at a time (vec_tile.h).
 *
 * Every width of vectors gives the bits of one pair alone, so a value depends neither on what is asked with it nor on
 * the machine (tests: many_against_many_have_the_bits_of_pairs). So nothing is fused here: a processor without fused
 * multiplications could not follow.
 *
 * Cost: 256 points of 16 coordinates against 20 took 35 us by pairs and libm's exp, 16 by vectors of four. */
#include "vector/vec_many.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "linalg/exponential.h"
#include "vector/matern.h"

#define TILE_DIM 256u /* coordinates that a tile has room for, 16 kB at most; points of more are met in pairs */
#define GROUP ((size_t)4)

#define NAME(x) x##_2
#define TARGET
#define LANES 2
#include "vector/vec_tile.h"

#ifdef __x86_64__
#define NAME(x) x##_4
#define TARGET KB_TARGET_4
#define LANES 4
#include "vector/vec_tile.h"

#define NAME(x) x##_8
#define TARGET KB_TARGET_8
#define LANES 8
#include "vector/vec_tile.h"
#else
#define scale_many_4 scale_many_2
#define scale_many_8 scale_many_2
#endif

void kb_vec_kernel_scale_by(enum kb_lanes lanes, const struct kb_vec_kernel_spec *k, size_t dim, const double *x,
                            size_t stride, size_t n, const double *const *y, size_t n_c, double *out, size_t ld)
{
    assert(lanes <= kb_widest_lanes());
    if (k->type == KB_VEC_DELTA || k->type == KB_VEC_ONES || dim > TILE_DIM)
        for (size_t c = 0; c < n_c; c++)
            kb_vec_kernel_scale(k, dim, x, stride, n, y[c], out + c * ld);
    else if (lanes == KB_LANES_8)
        scale_many_8(k, dim, x, stride, n, y, n_c, out, ld);
    else if (lanes == KB_LANES_4)
        scale_many_4(k, dim, x, stride, n, y, n_c, out, ld);
    else
        scale_many_2(k, dim, x, stride, n, y, n_c, out, ld);
}

void kb_vec_kernel_scale_many(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, size_t stride, size_t n,
                              const double *const *y, size_t n_c, double *out, size_t ld)
{
    kb_vec_kernel_scale_by(kb_widest_lanes(), k, dim, x, stride, n, y, n_c, out, ld);
}
