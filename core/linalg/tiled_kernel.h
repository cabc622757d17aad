/* The loops of tiled.c for one width of vectors: tiled.c includes this file once for each and says there what NAME and
 * TARGET are. A column of a tile is one vector of eight, whatever the processor makes of it.
 *
 * Numerical notes. The diagonal is met by substitution, D = U S with S its diagonal, as in lower_tile.h. An entry's sum
 * is made of four, so that no step waits for the one before it. */
typedef double NAME(eight) __attribute__((vector_size(64), aligned(sizeof(double)), may_alias));
typedef long long NAME(mask) __attribute__((vector_size(64)));

/* x = D^-1 x for the tile at d, of m <= 8 columns, and the eight values of x. */
TARGET KB_INLINE void NAME(substitute)(const double *d, size_t m, NAME(eight) z, double *x)
{
    const NAME(mask) row = {0, 1, 2, 3, 4, 5, 6, 7};
    NAME(eight) reciprocal = {1, 1, 1, 1, 1, 1, 1, 1};
#pragma GCC unroll 8
    for (size_t k = 0; k < m; k++)
        reciprocal[k] = d[k * (TILE + 1)];
    reciprocal = 1 / reciprocal;
#pragma GCC unroll 8
    for (size_t k = 0; k < m; k++) {
        const NAME(eight) column = *(const NAME(eight) *)(d + k * TILE) * reciprocal[k];
        z -= (NAME(eight))((NAME(mask))column & (row > (long long)k)) * z[k];
    }
    *(NAME(eight) *)x = z * reciprocal;
}

/* From row of tiles `first` on; x is 0 before it. */
TARGET static void NAME(solve)(const struct kb_tiled *f, size_t first, double *x)
{
    const double *t = f->t + begin_of(first);
    for (size_t i = first; i * TILE < f->n; i++) {
        NAME(eight) sum[4] = {*(const NAME(eight) *)(x + i * TILE)};
        t += first * TILE * TILE;
        for (size_t j = first; j < i; j++, t += TILE * TILE) {
            const double *z = x + j * TILE;
#pragma GCC unroll 8
            for (size_t k = 0; k < TILE; k++)
                sum[k % 4] -= *(const NAME(eight) *)(t + k * TILE) * z[k];
        }
        const NAME(eight) z = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        if (f->n - i * TILE >= TILE)
            NAME(substitute)(t, TILE, z, x + i * TILE);
        else
            NAME(substitute)(t, f->n - i * TILE, z, x + i * TILE);
        t += TILE * TILE;
    }
}

TARGET KB_INLINE double NAME(total)(NAME(eight) v)
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/* x = D^-T (x - sum) for the tile at d, of m columns; what is behind the m-th becomes 0. */
TARGET KB_INLINE void NAME(substitute_t)(const double *d, size_t m, const NAME(eight) * sum, double *x)
{
    NAME(eight) z = {0};
    for (size_t k = m; k-- > 0;) {
        const NAME(eight) column = *(const NAME(eight) *)(d + k * TILE);
        z[k] = (x[k] - NAME(total)(sum[k] + column * z)) / column[k];
    }
    *(NAME(eight) *)x = z;
}

/* Columns of tiles from the last to the first: what stands below the diagonal, then the triangle on it. */
TARGET static void NAME(solve_t)(const struct kb_tiled *f, double *x)
{
    for (size_t j = (f->n + TILE - 1) / TILE; j-- > 0;) {
        const size_t m = f->n - j * TILE < TILE ? f->n - j * TILE : TILE;
        NAME(eight) sum[TILE] = {{0}};
        for (size_t i = j + 1; i * TILE < f->n; i++) {
            const double *const t = f->t + begin_of(i) + j * TILE * TILE;
            const NAME(eight) z = *(const NAME(eight) *)(x + i * TILE);
#pragma GCC unroll 8
            for (size_t k = 0; k < TILE; k++)
                sum[k] += *(const NAME(eight) *)(t + k * TILE) * z;
        }
        NAME(substitute_t)(f->t + begin_of(j) + j * TILE * TILE, m, sum, x + j * TILE);
    }
}

/* One rotation of a column of a tile against what has been taken out of its rows so far. */
TARGET KB_INLINE void NAME(turn)(double *column, double c, double s, NAME(eight) * out)
{
    const NAME(eight) entry = *(const NAME(eight) *)column;
    *(NAME(eight) *)column = c * entry - s * *out;
    *out = c * *out + s * entry;
}

/* All rotations, from the last column to column `first`, for each row: it is 0 behind the diagonal, so only those from
 * its own column on change it. Two rows of tiles at once, since a rotation waits for the one before it. */
TARGET static void NAME(rotate)(struct kb_tiled *f, size_t first, const double *c, const double *s)
{
    for (size_t i = first / TILE; i * TILE < f->n; i += 2) {
        const size_t end = (i + 1) * TILE < f->n ? (i + 1) * TILE : f->n;
        const bool has_second = end < f->n;
        double *const row = f->t + begin_of(i), *const second = f->t + begin_of(i + has_second);
        NAME(eight) out = {0}, out_second = {0};
        for (size_t k = end + TILE < f->n ? end + TILE : f->n; k-- > end;)
            NAME(turn)(second + k * TILE, c[k], s[k], &out_second);
        for (size_t k = end; k-- > first;) {
            NAME(turn)(row + k * TILE, c[k], s[k], &out);
            if (has_second)
                NAME(turn)(second + k * TILE, c[k], s[k], &out_second);
        }
    }
}

#undef NAME
#undef TARGET
