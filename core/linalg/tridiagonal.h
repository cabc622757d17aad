/* The tridiagonal form of a symmetric matrix, A = Q T Q^T: a fifth of the work of its eigenvectors, and as good where
 * what is asked for are (A + a I)^-1 along given directions and ln det(A + a I), at any number of ridges a. */
#ifndef KB_TRIDIAGONAL_H
#define KB_TRIDIAGONAL_H

#include <stddef.h>

#include "base/err.h"

#define KB_TRIDIAGONAL_PANEL 32u /* reflectors that are applied at once, at most */

/* a: n x n, column-major, ld = n, the lower triangle read. On KB_OK diag (n) is the diagonal of T; off[i] (n) its
 * entry (i, i - 1), off[0] 0; `a` and factor (KB_TRIDIAGONAL_PANEL x n, all zero before) hold Q. T and Q are those of a
 * matrix that differs from A by a small multiple of eps |A|, so an eigenvalue that is zero by theory may come out
 * slightly negative. KB_ENOTPD when an entry is not finite, KB_ENOMEM; `a` is spoilt then. KB_ELIMIT beyond the order
 * that LAPACK can count. O(n^3), about 4/3 n^3 flops; holds 33 n doubles of work. */
enum kb_err kb_tridiagonal_reduce(size_t n, double *a, double *diag, double *off, double *factor);

/* C = Q^T C for n_c columns of n rows, with a and factor as reduce left them: they are read only. work: n n_c
 * doubles. 2 n^2 flops a column. */
void kb_tridiagonal_rotate(size_t n, const double *a, const double *factor, size_t n_c, double *c, size_t ld,
                           double *work);

#endif
