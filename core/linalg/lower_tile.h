/* X = L^-1 X by tiles that stay in registers, for one width of vectors: lower_solve.c includes this file once for each
 * and says there what NAME, TARGET, LANES, VECTORS, BLOCKS, WIDE and NARROW are.
 *
 *   tile      ROWS rows of X by up to WIDE of its columns; a column's are VECTORS times BLOCKS vectors
 *   panel     the rows of L that a tile meets
 *   triangle  a diagonal block D of BLOCK rows as D = U S, S its diagonal: D^-1 b = S^-1 (U^-1 b), where no step of
 *             U^-1 waits for more than one multiplication
 *
 * Numerical notes. The diagonal is met by substitution. An inverse of D would be a little faster, but its error goes
 * with the condition of D; this way X solves the system of a factor that differs from L by rounding, entry by entry
 * [Higham, Accuracy and Stability of Numerical Algorithms, thm 8.5]. Each entry of X is one sum, its terms in the order
 * of their columns, whatever stands beside it: a right-hand side alone has the bits that it has among others. */
#define BLOCK ((size_t)(VECTORS * LANES))
#define ROWS (BLOCKS * BLOCK)

typedef double NAME(vector) __attribute__((vector_size(LANES * sizeof(double))));
typedef long long NAME(mask) __attribute__((vector_size(LANES * sizeof(double))));
/* A vector where it stands in an array of doubles. */
typedef double NAME(stretch) __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

struct NAME(triangle) {
    NAME(vector) below[BLOCK][VECTORS]; /* columns of U below its diagonal, and zeros */
    NAME(vector) reciprocal[VECTORS];   /* of S */
};

/* Columns first..end-1 of L are to be taken off rows row..row+ROWS-1 of X; where there are triangles, the tile is then
 * solved: end == row. */
struct NAME(panel) {
    const double *l; /* entry (row, 0) */
    size_t ld;
    size_t row, first, end;
    const struct NAME(triangle) * triangles; /* [BLOCKS] or NULL */
};

/* What stands above the diagonal of d was never written: a mask keeps it out. */
TARGET KB_INLINE void NAME(prepare)(const double *d, size_t ld, struct NAME(triangle) * t)
{
    double *const reciprocal = (double *)t->reciprocal;
    NAME(mask) row[VECTORS] = {0};
    for (size_t i = 0; i < BLOCK; i++) {
        ((long long *)row)[i] = (long long)i;
        reciprocal[i] = d[i * (ld + 1)];
    }
    for (size_t v = 0; v < VECTORS; v++)
        t->reciprocal[v] = 1 / t->reciprocal[v];
#pragma GCC unroll 8
    for (size_t k = 0; k < BLOCK; k++)
#pragma GCC unroll 2
        for (size_t v = 0; v < VECTORS; v++) {
            const NAME(vector) column = *(const NAME(stretch) *)(d + k * ld + v * LANES) * reciprocal[k];
            t->below[k][v] = (NAME(vector))((NAME(mask))column & (row[v] > (long long)k));
        }
}

/* sum = U^-1 sum, of the vectors v0..v0+VECTORS-1 of each column. */
TARGET KB_INLINE void NAME(substitute)(size_t width, const struct NAME(triangle) * t, size_t v0,
                                       NAME(vector) (*sum)[VECTORS * BLOCKS])
{
#pragma GCC unroll 8
    for (size_t k = 0; k < BLOCK; k++)
#pragma GCC unroll 10
        for (size_t j = 0; j < width; j++) {
            const double value = sum[j][v0 + k / LANES][k % LANES];
#pragma GCC unroll 2
            for (size_t v = k / LANES; v < VECTORS; v++)
                sum[j][v0 + v] -= t->below[k][v] * value;
        }
}

/* sum -= L(.., first..end-1) X(first..end-1), of the vectors from v0 on. What the next panel will want is fetched
 * meanwhile: in a large factor it stands on a page of its own for each column. */
TARGET KB_INLINE void NAME(take_off)(size_t width, const struct NAME(panel) * p, size_t first, size_t end, size_t v0,
                                     double *const *x, NAME(vector) (*sum)[VECTORS * BLOCKS])
{
    for (size_t k = first; k < end; k++) {
        const double *column = p->l + k * p->ld;
        NAME(vector) l[VECTORS * BLOCKS] = {0};
#pragma GCC unroll 2
        for (size_t v = v0; v < VECTORS * BLOCKS; v++) {
            l[v] = *(const NAME(stretch) *)(column + v * LANES);
            if (v * LANES % 8 == 0) /* one a line */
                __builtin_prefetch(column + ROWS + v * LANES);
        }
#pragma GCC unroll 10
        for (size_t j = 0; j < width; j++) {
            const double value = x[j][k];
#pragma GCC unroll 2
            for (size_t v = v0; v < VECTORS * BLOCKS; v++)
                sum[j][v] -= l[v] * value;
        }
    }
}

/* One tile, columns x[0..width-1] of X; `width` is a constant. */
TARGET KB_INLINE void NAME(tile)(size_t width, const struct NAME(panel) * p, double *const *x)
{
    NAME(vector) sum[WIDE][VECTORS * BLOCKS];
#pragma GCC unroll 10
    for (size_t j = 0; j < width; j++)
#pragma GCC unroll 2
        for (size_t v = 0; v < VECTORS * BLOCKS; v++)
            sum[j][v] = *(const NAME(stretch) *)(x[j] + p->row + v * LANES);
    NAME(take_off)(width, p, p->first, p->end, 0, x, sum);
#pragma GCC unroll 2
    for (size_t b = 0; b < BLOCKS; b++) {
        const size_t v0 = b * VECTORS, row = p->row + b * BLOCK;
        if (p->triangles != NULL)
            NAME(substitute)(width, p->triangles + b, v0, sum);
#pragma GCC unroll 10
        for (size_t j = 0; j < width; j++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++) {
                if (p->triangles != NULL)
                    sum[j][v0 + v] *= p->triangles[b].reciprocal[v];
                *(NAME(stretch) *)(x[j] + row + v * LANES) = sum[j][v0 + v];
            }
        if (p->triangles != NULL && b + 1 < BLOCKS)
            NAME(take_off)(width, p, row, row + BLOCK, v0 + VECTORS, x, sum);
    }
}

TARGET static void NAME(wide_tile)(const struct NAME(panel) * p, double *const *x)
{
    NAME(tile)(WIDE, p, x);
}

TARGET static void NAME(narrow_tile)(const struct NAME(panel) * p, double *const *x)
{
    NAME(tile)(NARROW, p, x);
}

TARGET static void NAME(pair_tile)(const struct NAME(panel) * p, double *const *x)
{
    NAME(tile)(2, p, x);
}

/* All columns, tile beside tile. Where one has room for more columns than are left, it takes the last one several
 * times: the same values go to the same places. */
TARGET static void NAME(row_of_tiles)(const struct NAME(panel) * p, double *x, size_t ld, size_t n_rhs)
{
    size_t width;
    for (size_t c = 0; c < n_rhs; c += width) {
        const size_t left = n_rhs - c;
        double *column[WIDE];
        width = left > NARROW ? WIDE : left > 2 ? NARROW : 2;
        for (size_t j = 0; j < width; j++)
            column[j] = x + (j < left ? c + j : n_rhs - 1) * ld;
        (width == WIDE ? NAME(wide_tile) : width == NARROW ? NAME(narrow_tile) : NAME(pair_tile))(p, column);
    }
}

/* The first `rows` < ROWS rows, as the last ones of a tile whose first ones are those of the identity. */
TARGET static void NAME(solve_head)(size_t rows, const double *l, size_t ld_l, double *x, size_t ld, size_t n_rhs)
{
    const size_t pad = ROWS - rows;
    double corner[ROWS][ROWS] = {0}, column[WIDE][ROWS] = {0};
    struct NAME(triangle) t[BLOCKS];
    const struct NAME(panel) p = {.l = corner[0], .ld = ROWS, .triangles = t};
    for (size_t k = 0; k < pad; k++)
        corner[k][k] = 1;
    for (size_t k = 0; k < rows; k++)
        memcpy(corner[pad + k] + pad + k, l + k * (ld_l + 1), (rows - k) * sizeof *l);
    for (size_t b = 0; b < BLOCKS; b++)
        NAME(prepare)(&corner[b * BLOCK][b * BLOCK], ROWS, t + b);
    for (size_t c = 0; c < n_rhs; c += WIDE) {
        const size_t width = n_rhs - c < WIDE ? n_rhs - c : WIDE;
        for (size_t j = 0; j < width; j++)
            memcpy(column[j] + pad, x + (c + j) * ld, rows * sizeof *x);
        NAME(row_of_tiles)(&p, column[0], ROWS, width);
        for (size_t j = 0; j < width; j++)
            memcpy(x + (c + j) * ld, column[j] + pad, rows * sizeof *x);
    }
}

/* DEPTH columns of L at a time: the rows within them are solved, and those below follow. The rows that do not fill a
 * tile are the first ones, so that no other panel is cut off. */
TARGET static void NAME(solve)(size_t n, const double *l, size_t ld_l, double *x, size_t ld, size_t n_rhs)
{
    const size_t head = n % ROWS;
    struct NAME(triangle) t[BLOCKS];
    struct NAME(panel) p = {.ld = ld_l};
    if (head > 0)
        NAME(solve_head)(head, l, ld_l, x, ld, n_rhs);
    for (size_t end = head; end < n; p.first = end) {
        const size_t begin = end;
        end = n - begin < DEPTH ? n : begin + DEPTH;
        for (p.row = begin; p.row < n; p.row += ROWS) {
            p.l = l + p.row;
            p.end = p.row < end ? p.row : end;
            p.triangles = p.row < end ? t : NULL;
            for (size_t b = 0; p.triangles != NULL && b < BLOCKS; b++)
                NAME(prepare)(l + (p.row + b * BLOCK) * (ld_l + 1), ld_l, t + b);
            NAME(row_of_tiles)(&p, x, ld, n_rhs);
        }
    }
}

#undef BLOCK
#undef ROWS
#undef NAME
#undef TARGET
#undef LANES
#undef VECTORS
#undef BLOCKS
#undef WIDE
#undef NARROW
