/* Which coordinates a tile of points and its candidates need, where most of them are 0: part of vec_many.c.
 *
 * A coordinate that is 0 in both adds a 0 to a sum of squared differences, one that is 0 in either adds one to a
 * product; and adding a 0 to a sum that began at +0 changes no bit of it. So sums over the others alone, in the order
 * that pairs have (vec_kernel.c: coordinates d with d % 4 == i go to the i-th of four sums, those of the remainder to
 * the first), have the bits of sums over all. A list has its coordinates in that order. */
#ifndef KB_VEC_SPARSE_H
#define KB_VEC_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vector/vec_kernel.h"

#define KB_SPARSE_DIM 256u      /* at most */
#define KB_SPARSE_LEAST_DIM 48u /* below, there is little to leave out */
#define KB_SPARSE_WORDS (KB_SPARSE_DIM / 64)

/* Bits of coordinates. */
struct kb_marks {
    uint64_t word[KB_SPARSE_WORDS];
};

struct kb_coordinates {
    size_t end[4]; /* of each of the four sums */
    uint16_t at[KB_SPARSE_DIM];
};

static inline size_t kb_marks_count(const struct kb_marks *m)
{
    size_t n = 0;
    for (size_t w = 0; w < KB_SPARSE_WORDS; w++)
        n += (size_t)__builtin_popcountll(m->word[w]);
    return n;
}

/* *to gets the marks, too, of dim coordinates that begin at bit `skip` of a row. */
static inline void kb_marks_join(struct kb_marks *to, const uint64_t *row, size_t n_words, size_t skip, size_t dim)
{
    const size_t first = skip / 64, shift = skip % 64;
    for (size_t w = 0; w < kb_vec_mark_words(dim); w++) {
        uint64_t bits = row[first + w] >> shift;
        if (shift > 0 && first + w + 1 < n_words)
            bits |= row[first + w + 1] << (64 - shift);
        if (dim - w * 64 < 64)
            bits &= (UINT64_C(1) << (dim - w * 64)) - 1;
        to->word[w] |= bits;
    }
}

/* The coordinates of m below dim, by sums. */
static inline void kb_coordinates_list(const struct kb_marks *m, size_t dim, struct kb_coordinates *out)
{
    const size_t whole = dim - dim % 4;
    size_t n = 0;
    for (size_t i = 0; i < 4; i++) {
        for (size_t w = 0; w < KB_SPARSE_WORDS; w++) {
            uint64_t bits = m->word[w] & UINT64_C(0x1111111111111111) << i;
            if (w == whole / 64 && dim % 4 > 0) { /* the remainder, at most three of one word */
                const uint64_t below = (UINT64_C(1) << whole % 64) - 1;
                bits = (bits & below) | (i == 0 ? m->word[w] & ~below : 0);
            }
            for (; bits != 0; bits &= bits - 1)
                out->at[n++] = (uint16_t)(w * 64 + (size_t)__builtin_ctzll(bits));
        }
        out->end[i] = n;
    }
}

#endif
