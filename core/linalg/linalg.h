/* The only BLAS calls of the project besides chol.c. Matrices are column-major with a leading dimension,
 * as LAPACK has them; vectors are contiguous. One BLAS thread per call (kb_blas_single_thread). */
#ifndef KB_LINALG_H
#define KB_LINALG_H

#include <stddef.h>

#include "base/err.h"

/* Name of the kernel set OpenBLAS runs on ("Haswell", "SkylakeX", ...). Static storage. */
const char *kb_blas_core_name(void);
/* The one that this processor can run, among those of OpenBLAS 0.3 to correct to; NULL where there is none. */
const char *kb_blas_core_best(void);

/* Threads that OpenBLAS would use for one call. */
size_t kb_blas_n_threads(void);

/* Sets OpenBLAS to one thread per call. Call once, before other threads start. */
void kb_blas_single_thread(void);

double kb_dot(size_t n, const double *x, const double *y);
void kb_axpy(size_t n, double a, const double *x, double *y); /* y += a x */

/* y = beta y + alpha A x (A: rows x cols, ld >= rows). */
void kb_gemv(size_t rows, size_t cols, double alpha, const double *a, size_t ld, const double *x, double beta,
             double *y);
/* y = beta y + alpha A^T x. */
void kb_gemv_t(size_t rows, size_t cols, double alpha, const double *a, size_t ld, const double *x, double beta,
               double *y);
/* C = beta C + alpha A B (C: m x n, A: m x k, B: k x n). */
void kb_gemm(size_t m, size_t n, size_t k, double alpha, const double *a, size_t lda, const double *b, size_t ldb,
             double beta, double *c, size_t ldc);
/* C = beta C + alpha A^T B (C: m x n, A: k x m, B: k x n). */
void kb_gemm_tn(size_t m, size_t n, size_t k, double alpha, const double *a, size_t lda, const double *b, size_t ldb,
                double beta, double *c, size_t ldc);
/* Lower triangle of C = beta C + alpha A A^T (C: n x n, A: n x k). */
void kb_syrk_lower(size_t n, size_t k, double alpha, const double *a, size_t lda, double beta, double *c, size_t ldc);

#endif
