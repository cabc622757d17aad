/* The symmetric eigenproblem A = Q diag(e) Q^T, whole, dense: the one owner of LAPACK's solver. */
#ifndef KB_EIGEN_H
#define KB_EIGEN_H

#include <stddef.h>

#include "base/err.h"

/* a: n x n, column-major, ld = n, the lower triangle read. On KB_OK `values` (n) ascend and column j of `a` is the
 * unit eigenvector of values[j]. Residuals are a small multiple of eps |A|; vectors of eigenvalues that (nearly)
 * coincide are some orthonormal basis of their common space, so only what does not depend on that basis may be used.
 * KB_ENOTPD when an entry is not finite or the iteration does not converge, KB_ENOMEM; `a` is spoilt then.
 * O(n^3), about 9 n^3 flops; holds 2 n^2 doubles of work beside `a`. */
enum kb_err kb_eigen_symmetric(size_t n, double *a, double *values);

/* The eigenvalues alone of the tridiagonal matrix with diag (n) and off (n - 1), ascending in diag; off is spoilt.
 * KB_ENOTPD as above. O(n^2). */
enum kb_err kb_eigen_tridiagonal(size_t n, double *diag, double *off);

#endif
