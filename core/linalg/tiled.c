/* A growing lower Cholesky factor in tiles (tiled.h); tiled_kernel.h has its loops.
 *
 *   a        n       L^-1 x in a downdate;  alpha = sqrt(1 - |a|^2)
 *   c, s             cosine and sine of a Givens rotation
 *
 * Downdate: the rotations that take (a, alpha) to e_(n+1), applied from the last column to the first [dchdd, see
 * chol.c]. They hang on a alone, so each row of tiles is gone through once, all rotations at a time, where chol.c goes
 * by columns.
 *
 * This file is compiled with -ffp-contract=fast (Makefile): sum -= l * x is one instruction where there is one. */
#include "linalg/tiled.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "linalg/linalg.h"

#define TILE ((size_t)8)

/* Where row of tiles i begins; column k of it is TILE k further on. */
static size_t begin_of(size_t i)
{
    return i * (i + 1) / 2 * TILE * TILE;
}

#define NAME(x) x##_2
#define TARGET
#include "linalg/tiled_kernel.h"

#ifdef __x86_64__
#define NAME(x) x##_4
#define TARGET KB_TARGET_4
#include "linalg/tiled_kernel.h"

#define NAME(x) x##_8
#define TARGET KB_TARGET_8
#include "linalg/tiled_kernel.h"
#else
#define solve_4 solve_2
#define solve_8 solve_2
#define solve_t_4 solve_t_2
#define solve_t_8 solve_t_2
#define rotate_4 rotate_2
#define rotate_8 rotate_2
#endif

size_t kb_tiled_doubles(size_t n)
{
    const size_t rows = n % TILE;
    return begin_of(n / TILE) + (rows > 0 ? (n / TILE * TILE + rows) * TILE : 0);
}

size_t kb_tiled_padded(size_t n)
{
    return (n + TILE - 1) / TILE * TILE;
}

double kb_tiled_pivot(const struct kb_tiled *f, size_t i)
{
    return f->t[begin_of(i / TILE) + i * TILE + i % TILE];
}

bool kb_tiled_is_sound(const struct kb_tiled *f)
{
    for (size_t i = 0; i * TILE < f->n; i++) {
        const double *const tiles = f->t + begin_of(i);
        const size_t end = (i + 1) * TILE < f->n ? (i + 1) * TILE : f->n;
        for (size_t k = 0; k < end; k++)
            for (size_t at = 0; at < TILE; at++) {
                const double entry = tiles[k * TILE + at];
                const size_t row = i * TILE + at;
                if (!isfinite(entry) || (row == k && !(entry > 0)) || ((row < k || row >= f->n) && entry != 0))
                    return false;
            }
    }
    return true;
}

/* The first row of a row of tiles finds there what an earlier factor may have left. */
void kb_tiled_append_row(struct kb_tiled *f, const double *row, double pivot)
{
    const size_t n = f->n, at = n % TILE;
    double *const tiles = f->t + begin_of(n / TILE);
    assert(pivot > 0);
    if (at == 0)
        memset(tiles, 0, n * TILE * sizeof *tiles);
    memset(tiles + n * TILE, 0, TILE * sizeof *tiles);
    for (size_t j = 0; j < n; j++)
        tiles[j * TILE + at] = row[j];
    tiles[n * TILE + at] = pivot;
    f->n++;
}

static void solve_from(enum kb_lanes lanes, const struct kb_tiled *f, size_t first, double *x)
{
    assert(lanes <= kb_widest_lanes());
    (lanes == KB_LANES_8 ? solve_8 : lanes == KB_LANES_4 ? solve_4 : solve_2)(f, first, x);
}

void kb_tiled_solve(enum kb_lanes lanes, const struct kb_tiled *f, double *x)
{
    solve_from(lanes, f, 0, x);
}

void kb_tiled_solve_t(enum kb_lanes lanes, const struct kb_tiled *f, double *x)
{
    assert(lanes <= kb_widest_lanes());
    (lanes == KB_LANES_8 ? solve_t_8 : lanes == KB_LANES_4 ? solve_t_4 : solve_t_2)(f, x);
}

double kb_tiled_square(const struct kb_tiled *f)
{
    return kb_dot(kb_tiled_doubles(f->n), f->t, f->t);
}

enum kb_err kb_tiled_downdate(enum kb_lanes lanes, struct kb_tiled *f, double *x, size_t first, double *work)
{
    const size_t n = f->n, room = kb_tiled_padded(n);
    double *const c = work, *const s = work + room;
    assert(first <= n);
    solve_from(lanes, f, first / TILE, x);
    const double rest = 1.0 - kb_dot(n - first, x + first, x + first);
    if (!(rest > 0.0))
        return KB_ENOTPD;
    double alpha = sqrt(rest);
    for (size_t k = n; k-- > first;) {
        const double square = alpha * alpha + x[k] * x[k];
        const double r = square > 1e-280 ? sqrt(square) : hypot(alpha, x[k]); /* both are at most 1 */
        c[k] = alpha / r;
        s[k] = x[k] / r;
        alpha = r;
    }
    (lanes == KB_LANES_8 ? rotate_8 : lanes == KB_LANES_4 ? rotate_4 : rotate_2)(f, first, c, s);
    return KB_OK;
}

void kb_tiled_pack(struct kb_tiled *to, const struct kb_chol *from)
{
    memset(to->t, 0, kb_tiled_doubles(from->n) * sizeof *to->t);
    to->n = from->n;
    for (size_t j = 0; j < from->n; j++)
        for (size_t i = j, end; i < from->n; i = end) {
            end = (i / TILE + 1) * TILE < from->n ? (i / TILE + 1) * TILE : from->n;
            memcpy(to->t + begin_of(i / TILE) + j * TILE + i % TILE, from->l + j * from->cap + i,
                   (end - i) * sizeof *to->t);
        }
}

void kb_tiled_unpack(const struct kb_tiled *from, struct kb_chol *to)
{
    assert(to->cap >= from->n);
    to->n = from->n;
    for (size_t j = 0; j < from->n; j++)
        for (size_t i = j, end; i < from->n; i = end) {
            end = (i / TILE + 1) * TILE < from->n ? (i / TILE + 1) * TILE : from->n;
            memcpy(to->l + j * to->cap + i, from->t + begin_of(i / TILE) + j * TILE + i % TILE,
                   (end - i) * sizeof *to->l);
        }
}
