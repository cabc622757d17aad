/* A growing lower Cholesky factor L L^T = S in tiles: 8 x 8 entries, column by column, row of tiles after row of tiles.
 * A solve reads it once, from its beginning to its end, where the square of chol.h has each column on a page of its
 * own; and a new row goes behind all others, whatever room there is. For many factors of a few hundred rows, each met
 * by one right-hand side: three times as fast there, at half the memory.
 *
 *   row of tiles I    rows 8I..8I+7: tiles (I,0) .. (I,I), the last with as many columns as there are rows
 *   entry (i,j)       t[64 (I(I+1)/2 + J) + 8 (j mod 8) + i mod 8],  I = i div 8, J = j div 8
 *
 * What stands above the diagonal or behind the last row is 0. */
#ifndef KB_TILED_H
#define KB_TILED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "linalg/chol.h"
#include "linalg/lanes.h"

struct kb_tiled {
    double *t; /* the owner's: room for kb_tiled_doubles of the order */
    size_t n;  /* order in force */
};

size_t kb_tiled_doubles(size_t n);
/* Doubles of a vector for order n: what is behind the n-th is overwritten. */
size_t kb_tiled_padded(size_t n);

/* Appends the row (row[0..n-1], pivot) of the factor itself; room is there. O(n). */
void kb_tiled_append_row(struct kb_tiled *f, const double *row, double pivot);
double kb_tiled_pivot(const struct kb_tiled *f, size_t i);

/* Whether it can be a factor: all finite, pivots positive, 0 above the diagonal and behind the last row. O(n^2). */
bool kb_tiled_is_sound(const struct kb_tiled *f);

/* x = L^-1 x; x has room for kb_tiled_padded(n). `lanes` is at most kb_widest_lanes(); those of 4 and 8 have the same
 * bits. O(n^2). */
void kb_tiled_solve(enum kb_lanes lanes, const struct kb_tiled *f, double *x);

/* x = L^-T x; x has room for kb_tiled_padded(n). O(n^2). */
void kb_tiled_solve_t(enum kb_lanes lanes, const struct kb_tiled *f, double *x);

/* The sum of the squares of its entries: the trace of S. O(n^2). */
double kb_tiled_square(const struct kb_tiled *f);

/* S -= x x^T, x[0..first-1] zero; x and work (3 times kb_tiled_padded(n) together) are destroyed. KB_ENOTPD when the
 * result would not be positive definite; the factor is then as it was. O((n - first) n). */
enum kb_err kb_tiled_downdate(enum kb_lanes lanes, struct kb_tiled *f, double *x, size_t first, double *work);

/* Between the two forms; room is there. O(n^2 / 2). */
void kb_tiled_pack(struct kb_tiled *to, const struct kb_chol *from);
void kb_tiled_unpack(const struct kb_tiled *from, struct kb_chol *to);

#endif
