/* A growing lower Cholesky factor L L^T = S, column-major in a square buffer of leading dimension `cap`.
 *
 * Rows are appended (border), and the factor follows rank-one changes of S; no explicit inverse is ever
 * kept: the papers' inverse updates lose all digits on near-duplicates. */
#ifndef KB_CHOL_H
#define KB_CHOL_H

#include <stddef.h>

#include "base/err.h"
#include "base/moves.h"

/* Entry (i, j), i >= j, is l[j * cap + i]; what stands above the diagonal is never read. */
struct kb_chol {
    double *l; /* cap x cap, column-major, lower triangle used */
    /* order <= cap; the rows and columns beyond it hold nothing */
    size_t n;   /* order in force */
    size_t cap; /* leading dimension */
};

void kb_chol_init(struct kb_chol *c);
void kb_chol_close(struct kb_chol *c);

/* Room for order n; the factor is kept. KB_ENOMEM changes nothing. */
enum kb_err kb_chol_reserve(struct kb_chol *c, size_t n);
/* The same beside readers: a larger buffer is added to m when one is needed (moves.h). O(n^2) or nothing. */
enum kb_err kb_chol_grow(struct kb_chol *c, size_t n, struct kb_moves *m);

/* The factor of another, into room that is there. O(n^2 / 2). */
void kb_chol_copy(struct kb_chol *to, const struct kb_chol *from);

/* Replaces the factor by that of the symmetric n x n matrix a (lower triangle read, ld >= n). O(n^3/3).
 * KB_ENOTPD or KB_ENOMEM changes nothing. */
enum kb_err kb_chol_factor(struct kb_chol *c, const double *a, size_t ld, size_t n);

/* Factors in place, without memory of its own, the symmetric matrix of order n <= cap whose lower triangle the caller
 * has written to c->l (leading dimension cap). KB_ENOTPD leaves the factor empty (n = 0). */
enum kb_err kb_chol_factor_in_place(struct kb_chol *c, size_t n);

/* Appends the row (row[0..n-1], pivot) of the factor itself. Needs room (asserted). pivot > 0. O(n). */
void kb_chol_append_row(struct kb_chol *c, const double *row, double pivot);

/* x = L^-1 x and x = L^-T x, in place. O(n^2). */
void kb_chol_solve_l(const struct kb_chol *c, double *x);
void kb_chol_solve_lt(const struct kb_chol *c, double *x);

/* X = L^-1 X for n_rhs columns of leading dimension ld >= n. O(n^2 n_rhs). */
void kb_chol_solve_l_many(const struct kb_chol *c, double *x, size_t ld, size_t n_rhs);

/* S += x x^T from index `first` on: x[0..first-1] must be zero and are not read. x (length n) is destroyed.
 * O((n - first)^2). Stable for every x. */
void kb_chol_update(struct kb_chol *c, double *x, size_t first);

/* A row [w, rest] below [L, x] that goes through the same rotations: of w = L^-1 b and a target y for `rest` it makes
 * L^-1 (b + y x) for the new L, what x foretold wrongly, and by how much x was news. O(n) besides the update. */
struct kb_chol_row {
    double *w;     /* [n] in force before, then after */
    double rest;   /* y; then (y - x.S^-1 b) / sqrt(1 + spread) */
    double spread; /* out: x.S^-1 x, of S as it was */
};
void kb_chol_update_row(struct kb_chol *c, double *x, struct kb_chol_row *row);

/* S -= x x^T, x[0..first-1] zero; x destroyed. O((n - first)^2). KB_ENOTPD when the result would not be
 * positive definite; the factor is then as it was. */
enum kb_err kb_chol_downdate(struct kb_chol *c, double *x, size_t first);

/* The lower triangle of S^-1 takes the place of the factor, whose order is 0 then. O(2 n^3 / 3). */
void kb_chol_invert(struct kb_chol *c);

double kb_chol_logdet(const struct kb_chol *c); /* ln det S */
#define KB_TRACE_COLUMNS 32u                    /* that are solved for at a time */
/* tr S^-1; scratch: n KB_TRACE_COLUMNS doubles; O(n^3/3) */
double kb_chol_inverse_trace(const struct kb_chol *c, double *scratch);

/* a = a^-1 for a symmetric positive definite n x n matrix (lower triangle read, ld = n; both triangles written).
 * For a covariance made once and never updated. KB_ENOTPD spoils a. O(n^3). */
enum kb_err kb_spd_inverse(size_t n, double *a);

#endif
