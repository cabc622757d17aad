/* Kernels on vectors, many points against many, as a decision asks (vec_kernel.h): points of the dictionary are laid
 * side by side once, coordinate by coordinate, and met by all candidates, four at a time (vec_tile.h).
 *
 * Every width of vectors gives the bits of one pair alone, so a value depends neither on what is asked with it nor on
 * the machine (tests: many_against_many_have_the_bits_of_pairs). So nothing is fused here: a processor without fused
 * multiplications could not follow.
 *
 * Vectors of named features are mostly 0. Where the points' marks are told, a tile meets the candidates over the
 * coordinates alone that are not 0 in one of them, if these are at most half (vec_sparse.h). The bits are the same.
 *
 * Cost: 256 points of 16 coordinates against 20 took 35 us by pairs and libm's exp, 16 by vectors of four. */
#include "vector/vec_many.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "linalg/exponential.h"
#include "vector/matern.h"
#include "vector/vec_sparse.h"

#define TILE_DIM KB_SPARSE_DIM /* coordinates that a tile has room for, 16 kB at most; points of more: in pairs */
#define GROUP ((size_t)4)

static inline bool is_of_products(const struct kb_vec_kernel_spec *k)
{
    return k->type == KB_VEC_LINEAR || k->type == KB_VEC_POLYNOMIAL;
}

/* The coordinates that count between n points and the candidates, if they are at most half. */
static bool list_few(bool is_product, const struct kb_vec_points *p, size_t first, size_t n,
                     const struct kb_marks *candidates, size_t dim, struct kb_coordinates *out)
{
    struct kb_marks all = {{0}};
    for (size_t i = first; i < first + n; i++)
        kb_marks_join(&all, p->marks + i * p->n_words, p->n_words, p->skip, dim);
    for (size_t w = 0; w < KB_SPARSE_WORDS; w++)
        all.word[w] = is_product ? all.word[w] & candidates->word[w] : all.word[w] | candidates->word[w];
    const bool is_few = kb_marks_count(&all) <= dim / 2;
    if (is_few)
        kb_coordinates_list(&all, dim, out);
    return is_few;
}

/* False: one of them is not sparse, and nothing would be gained by looking further. */
static bool mark_candidates(size_t dim, const double *const *y, size_t n_c, struct kb_marks *out)
{
    *out = (struct kb_marks){{0}};
    for (size_t c = 0; c < n_c; c++)
        for (size_t w = 0; w < kb_vec_mark_words(dim); w++) {
            const size_t width = dim - w * 64 < 64 ? dim - w * 64 : 64;
            uint64_t bits;
            kb_vec_mark(width, y[c] + w * 64, &bits);
            if ((size_t)__builtin_popcountll(bits) * 2 > width)
                return false;
            out->word[w] |= bits;
        }
    return true;
}

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

void kb_vec_kernel_scale_by(enum kb_lanes lanes, const struct kb_vec_kernel_spec *k, size_t dim,
                            const struct kb_vec_points *points, const double *const *y, size_t n_c, double *out,
                            size_t ld)
{
    const bool is_in_pairs = k->type == KB_VEC_DELTA || k->type == KB_VEC_ONES || dim > TILE_DIM;
    struct kb_marks marks;
    const bool is_sparse =
        !is_in_pairs && points->marks != NULL && dim >= KB_SPARSE_LEAST_DIM && mark_candidates(dim, y, n_c, &marks);
    assert(lanes <= kb_widest_lanes());
    if (is_in_pairs)
        for (size_t c = 0; c < n_c; c++)
            kb_vec_kernel_scale(k, dim, points->x, points->stride, points->n, y[c], out + c * ld);
    else if (lanes == KB_LANES_8)
        scale_many_8(k, dim, points, is_sparse ? &marks : NULL, y, n_c, out, ld);
    else if (lanes == KB_LANES_4)
        scale_many_4(k, dim, points, is_sparse ? &marks : NULL, y, n_c, out, ld);
    else
        scale_many_2(k, dim, points, is_sparse ? &marks : NULL, y, n_c, out, ld);
}

void kb_vec_kernel_scale_many(const struct kb_vec_kernel_spec *k, size_t dim, const struct kb_vec_points *points,
                              const double *const *y, size_t n_c, double *out, size_t ld)
{
    kb_vec_kernel_scale_by(kb_widest_lanes(), k, dim, points, y, n_c, out, ld);
}
