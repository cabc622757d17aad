/* A growing lower Cholesky factor S = L L^T and its rank-one changes (chol.h).
 *
 *   letter   shape   meaning
 *   L, l     n x n   the factor, column-major, leading dimension cap
 *   x        n       the vector of a rank-one change S +- x x^T; destroyed
 *   c, s             cosine and sine of a Givens rotation
 *   a        n       L^-1 x in a downdate;  alpha = sqrt(1 - |a|^2)
 *
 * Update: column k of L and x are rotated so that x_k vanishes; rotations are orthogonal, so the error does not
 * grow with the size of x. Downdate: the rotations that take (a, alpha) to e_(n+1), applied from the last column
 * to the first, as LINPACK's dchdd orders them; its test 1 - |a|^2 > 0 comes before anything is written.
 * Both sweep whole columns with unit stride, n flops x 6 per column.
 *
 * Inverse: kb_spd_inverse makes an explicit inverse, once, for the prior covariance of a user graph, and kb_chol_invert
 * one for the traces of a gradient (marginal.c). It is inverses that are *updated* which lose their digits; these never
 * are.
 *
 * [dchdd] Dongarra, Moler, Bunch, Stewart: LINPACK Users' Guide, ch. 10.
 *
 * Who keeps one: features.c A (K_ZZ = A A^T), ridge.c R (V = R R^T), admission.c that of M, post_exact.c that
 * of its own matrix. They change it under exclusion; solves are const and run in any number of threads. */
#include "linalg/chol.h"

#include <assert.h>
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/clones.h"
#include "linalg/lower_solve.h"

/* BLAS and LAPACK count in int; orders are bounded far below it, so a larger one is a bug. */
static int blas_int(size_t n)
{
    assert(n <= INT_MAX);
    return (int)n;
}

/* Order 0 and no memory; solves and functions of the factor take that as it is. */
void kb_chol_init(struct kb_chol *c)
{
    *c = (struct kb_chol){0};
}

void kb_chol_close(struct kb_chol *c)
{
    kb_free(c->l);
    kb_chol_init(c);
}

/* Leading dimension for order n: whole cache lines, and an odd number of them, so that the entries of a row do
 * not all fall into the same set of the cache. */
static size_t leading_dimension(size_t n)
{
    return ((n + 7) & ~(size_t)7) | 8;
}

/* Copies the lower triangle of an n x n matrix. The upper triangle of the target is left as it is: nobody
 * reads it. */
static void copy_lower(size_t n, const double *from, size_t ld_from, double *to, size_t ld_to)
{
    for (size_t j = 0; j < n; j++)
        memcpy(to + j * ld_to + j, from + j * ld_from + j, (n - j) * sizeof *to);
}

/* At least doubles, so that n appends copy O(n^2) entries in all. */
enum kb_err kb_chol_grow(struct kb_chol *c, size_t n, struct kb_moves *m)
{
    if (n <= c->cap)
        return KB_OK;
    if (n > INT_MAX / 2)
        return KB_ENOMEM;
    size_t cap = leading_dimension(n > 2 * c->cap ? n : 2 * c->cap);
    double *l = kb_lines(cap, cap, sizeof *l);
    if (l != NULL)
        copy_lower(c->n, c->l, c->cap, l, cap);
    return kb_moves_take(m, &c->l, l, &c->cap, cap);
}

enum kb_err kb_chol_reserve(struct kb_chol *c, size_t n)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_chol_grow(c, n, &m));
}

/* --- factorization --------------------------------------------------------------------------------- */

/* Factors the lower triangle of l in place. OpenBLAS's dpotrf lets a NaN pass as a pivot, hence the second look:
 * a NaN or infinity anywhere in S reaches the diagonal of its row. */
static enum kb_err factor_lower(size_t n, double *l, size_t ld)
{
    if (n == 0)
        return KB_OK;
    lapack_int info = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', blas_int(n), l, blas_int(ld));
    assert(info >= 0);
    if (info > 0)
        return KB_ENOTPD;
    for (size_t i = 0; i < n; i++)
        if (!(l[i * ld + i] > 0.0) || !isfinite(l[i * ld + i]))
            return KB_ENOTPD;
    return KB_OK;
}

/* For builders that gather S in the factor's own memory (ridge.c): no second matrix of order n. */
enum kb_err kb_chol_factor_in_place(struct kb_chol *c, size_t n)
{
    assert(n <= c->cap);
    enum kb_err rc = factor_lower(n, c->l, c->cap);
    c->n = rc == KB_OK ? n : 0;
    return rc;
}

/* Factors a copy and swaps on success: what is in force survives a matrix that is not positive definite. */
enum kb_err kb_chol_factor(struct kb_chol *c, const double *a, size_t ld, size_t n)
{
    assert(ld >= n);
    struct kb_chol fresh;
    enum kb_err rc;
    kb_chol_init(&fresh);
    KB_TRY(kb_chol_reserve(&fresh, n > c->cap ? n : c->cap));
    copy_lower(n, a, ld, fresh.l, fresh.cap);
    KB_TRY(kb_chol_factor_in_place(&fresh, n));
    struct kb_chol old = *c;
    *c = fresh;
    fresh = old;
out:
    kb_chol_close(&fresh);
    return rc;
}

void kb_chol_copy(struct kb_chol *to, const struct kb_chol *from)
{
    assert(to->cap >= from->n);
    copy_lower(from->n, from->l, from->cap, to->l, to->cap);
    to->n = from->n;
}

/* Row n of a column-major factor is strided: n cache lines, once per admission. */
void kb_chol_append_row(struct kb_chol *c, const double *row, double pivot)
{
    assert(c->n < c->cap && pivot > 0.0);
    double *at = c->l + c->n;
    for (size_t j = 0; j < c->n; j++)
        at[j * c->cap] = row[j];
    at[c->n * c->cap] = pivot;
    c->n++;
}

/* --- solves ---------------------------------------------------------------------------------------- */

/* One right-hand side. The loop over columns of L reads n^2 / 2 entries once, so it is bound by memory. */
void kb_chol_solve_l(const struct kb_chol *c, double *x)
{
    if (c->n > 0)
        cblas_dtrsv(CblasColMajor, CblasLower, CblasNoTrans, CblasNonUnit, blas_int(c->n), c->l, blas_int(c->cap), x,
                    1);
}

/* The second half of a solve with S: S^-1 x = L^-T L^-1 x. */
void kb_chol_solve_lt(const struct kb_chol *c, double *x)
{
    if (c->n > 0)
        cblas_dtrsv(CblasColMajor, CblasLower, CblasTrans, CblasNonUnit, blas_int(c->n), c->l, blas_int(c->cap), x, 1);
}

/* By tiles of our own (lower_solve.h). */
void kb_chol_solve_l_many(const struct kb_chol *c, double *x, size_t ld, size_t n_rhs)
{
    kb_lower_solve(kb_widest_lanes(), c->n, c->l, c->cap, x, ld, n_rhs);
}

/* --- rank-one changes ------------------------------------------------------------------------------ */

/* (column, x) <- (c column + s x, c x - s column). One Givens rotation of a column of L against x; both are
 * read and written once. */
KB_HOT static void rotate(size_t n, double c, double s, double *restrict column, double *restrict x)
{
    for (size_t i = 0; i < n; i++) {
        double entry = column[i];
        column[i] = c * entry + s * x[i];
        x[i] = c * x[i] - s * entry;
    }
}

/* sqrt(a^2 + b^2), by hypot where a square could leave the range. */
static double length(double a, double b)
{
    const double square = a * a + b * b;
    return square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(a, b);
}

/* Takes x_k into the diagonal, r = sqrt(l_kk^2 + x_k^2); x_k stays as it was. */
static void rotate_column(struct kb_chol *c, size_t k, double *x, double *cosine, double *sine)
{
    double *column = c->l + k * c->cap + k;
    double r = length(column[0], x[k]);
    *cosine = column[0] / r;
    *sine = x[k] / r;
    column[0] = r;
    rotate(c->n - k - 1, *cosine, *sine, column + 1, x + k + 1);
}

void kb_chol_update(struct kb_chol *c, double *x, size_t first)
{
    double cosine, sine;
    for (size_t k = first; k < c->n; k++) {
        if (x[k] != 0.0) /* else the identity */
            rotate_column(c, k, x, &cosine, &sine);
    }
}

/* Let [L x; w^T y] Q = [L' 0; w'^T rest]. Rows of L' and the last one keep their products with each other, so L' w' = L
 * w
 * + y x; and the first n columns of Q^T say how far x is from the span of what L has seen: 1 + spread is the product of
 * the 1 + tan^2, summed without taking 1 off again, which would cost a small spread its digits. */
void kb_chol_update_row(struct kb_chol *c, double *x, struct kb_chol_row *row)
{
    row->spread = 0.0;
    for (size_t k = 0; k < c->n; k++) {
        if (x[k] == 0.0)
            continue;
        double cosine, sine, w = row->w[k];
        rotate_column(c, k, x, &cosine, &sine);
        row->w[k] = cosine * w + sine * row->rest;
        row->rest = cosine * row->rest - sine * w;
        row->spread += (1.0 + row->spread) * (sine / cosine) * (sine / cosine);
    }
}

/* At step k the front of x still holds a_0..a_k, its back the row that the rotations so far have taken out
 * of L (from k + 1 on); the two never overlap, so no second vector is needed. */
enum kb_err kb_chol_downdate(struct kb_chol *c, double *x, size_t first)
{
    assert(first <= c->n);
    size_t order = c->n - first;
    if (order == 0)
        return KB_OK;
    double *l = c->l + first * c->cap + first;
    cblas_dtrsv(CblasColMajor, CblasLower, CblasNoTrans, CblasNonUnit, blas_int(order), l, blas_int(c->cap), x + first,
                1);
    double rest = 1.0 - cblas_ddot(blas_int(order), x + first, 1, x + first, 1);
    if (!(rest > 0.0))
        return KB_ENOTPD;
    double alpha = sqrt(rest);
    for (size_t k = c->n; k-- > first;) {
        double *column = c->l + k * c->cap;
        double r = length(alpha, x[k]);
        double cosine = alpha / r, sine = x[k] / r;
        alpha = r;
        x[k] = 0.0;
        rotate(c->n - k, cosine, -sine, column + k, x + k);
    }
    return KB_OK;
}

/* --- functions of the factor ----------------------------------------------------------------------- */

/* ln det S = 2 sum ln l_ii; a product of the pivots would leave the range of double first. */
double kb_chol_logdet(const struct kb_chol *c)
{
    double sum = 0.0;
    for (size_t i = 0; i < c->n; i++)
        sum += log(c->l[i * c->cap + i]);
    return 2.0 * sum;
}

/* tr S^-1 = |L^-1|_F^2, some columns of L^-1 at a time, so that an entry of L is read once for all of them; column j
 * starts at row j. */
double kb_chol_inverse_trace(const struct kb_chol *c, double *scratch)
{
    double trace = 0.0;
    for (size_t j = 0; j < c->n; j += KB_TRACE_COLUMNS) {
        const size_t order = c->n - j, columns = order < KB_TRACE_COLUMNS ? order : KB_TRACE_COLUMNS;
        memset(scratch, 0, order * columns * sizeof *scratch);
        for (size_t k = 0; k < columns; k++)
            scratch[k * (order + 1)] = 1.0;
        cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, blas_int(order),
                    blas_int(columns), 1.0, c->l + j * c->cap + j, blas_int(c->cap), scratch, blas_int(order));
        trace += cblas_ddot(blas_int(order * columns), scratch, 1, scratch, 1);
    }
    return trace;
}

void kb_chol_invert(struct kb_chol *c)
{
    const lapack_int info =
        c->n == 0 ? 0 : LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'L', blas_int(c->n), c->l, blas_int(c->cap));

    assert(info == 0); /* the factor's diagonal is positive */
    c->n = 0;
}

/* dpotri writes the lower triangle; the mirror makes a user's row a contiguous column. */
enum kb_err kb_spd_inverse(size_t n, double *a)
{
    enum kb_err rc = factor_lower(n, a, n);
    if (rc != KB_OK || n == 0)
        return rc;
    lapack_int info = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'L', blas_int(n), a, blas_int(n));
    assert(info == 0); /* the factor's diagonal is positive */
    for (size_t j = 0; j < n; j++)
        for (size_t i = j + 1; i < n; i++)
            a[i * n + j] = a[j * n + i];
    return KB_OK;
}
