/* The project's BLAS calls, besides those of chol.c (linalg.h).
 *
 * What the wrappers add: sizes are size_t and checked against BLAS's int; empty inner dimensions still scale the
 * result (reference BLAS returns early and would leave y as it was); beta = 0 writes without reading, so the
 * result may be uninitialised memory that holds a NaN.
 *
 * Cost: that of the call; the checks are a few nanoseconds.
 *
 * Why a wrapper at all: the rest of the core knows no BLAS header, so another library means two files, and
 * every product meets the same rules on empty shapes. Threads: BLAS is called from many at once, each call
 * single-threaded. */
#include "linalg/linalg.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <string.h>

/* BLAS counts in int. A dimension beyond that is a bug of the caller: tenants are bounded far below it. */
static int blas_int(size_t n)
{
    assert(n <= INT_MAX);
    return (int)n;
}

/* A leading dimension: BLAS refuses 0 even for empty matrices. */
static int blas_ld(size_t ld)
{
    return blas_int(ld > 0 ? ld : 1);
}

/* The name is worth a line in every log and bench: a wrong guess of OpenBLAS costs a factor of five. */
const char *kb_blas_core_name(void)
{
    return openblas_get_corename();
}

/* SkylakeX wants AVX-512 F, DQ, BW and VL together; Haswell wants AVX2 and FMA. __builtin_cpu_supports asks the
 * operating system too: registers that it does not save do not count. */
const char *kb_blas_core_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

size_t kb_blas_n_threads(void)
{
    return (size_t)openblas_get_num_threads();
}

/* Parallelism is over requests. One thread per call also fixes the order of every sum, hence the bits. */
void kb_blas_single_thread(void)
{
    openblas_set_num_threads(1);
}

/* Also 0 for n = 0, where x and y may be NULL. */
double kb_dot(size_t n, const double *x, const double *y)
{
    return cblas_ddot(blas_int(n), x, 1, y, 1);
}

/* x and y must not overlap, as in all calls below where one operand is written. */
void kb_axpy(size_t n, double a, const double *x, double *y)
{
    cblas_daxpy(blas_int(n), a, x, 1, y, 1);
}

/* y = beta y, without reading y when beta is 0. BLAS's own dscal by 0 would turn a NaN in uninitialised
 * memory into the result. */
static void scale(size_t n, double beta, double *y)
{
    if (beta == 0.0)
        memset(y, 0, n * sizeof *y);
    else if (beta != 1.0)
        cblas_dscal(blas_int(n), beta, y, 1);
}

/* The product is added to a y that is scaled before: no early return can skip the scaling. */
void kb_gemv(size_t rows, size_t cols, double alpha, const double *a, size_t ld, const double *x, double beta,
             double *y)
{
    assert(ld >= rows);
    scale(rows, beta, y);
    if (rows > 0 && cols > 0)
        cblas_dgemv(CblasColMajor, CblasNoTrans, blas_int(rows), blas_int(cols), alpha, a, blas_ld(ld), x, 1, 1.0, y,
                    1);
}

/* The transposed product reads columns of A as contiguous vectors. */
void kb_gemv_t(size_t rows, size_t cols, double alpha, const double *a, size_t ld, const double *x, double beta,
               double *y)
{
    assert(ld >= rows);
    scale(cols, beta, y);
    if (rows > 0 && cols > 0)
        cblas_dgemv(CblasColMajor, CblasTrans, blas_int(rows), blas_int(cols), alpha, a, blas_ld(ld), x, 1, 1.0, y, 1);
}

/* Scales the columns of C when a product over an empty inner dimension leaves nothing to add. */
static void scale_columns(size_t m, size_t n, double beta, double *c, size_t ldc)
{
    for (size_t j = 0; j < n; j++)
        scale(m, beta, c + j * ldc);
}

/* dgemm itself handles beta, also 0, without reading C. */
void kb_gemm(size_t m, size_t n, size_t k, double alpha, const double *a, size_t lda, const double *b, size_t ldb,
             double beta, double *c, size_t ldc)
{
    assert(lda >= m && ldb >= k && ldc >= m);
    if (k == 0)
        scale_columns(m, n, beta, c, ldc);
    else if (m > 0 && n > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), alpha, a,
                    blas_ld(lda), b, blas_ld(ldb), beta, c, blas_ld(ldc));
}

/* Both factors have the inner dimension down their columns: Gram matrices and batches of dot products. */
void kb_gemm_tn(size_t m, size_t n, size_t k, double alpha, const double *a, size_t lda, const double *b, size_t ldb,
                double beta, double *c, size_t ldc)
{
    assert(lda >= k && ldb >= k && ldc >= m);
    if (k == 0)
        scale_columns(m, n, beta, c, ldc);
    else if (m > 0 && n > 0)
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), alpha, a,
                    blas_ld(lda), b, blas_ld(ldb), beta, c, blas_ld(ldc));
}

/* Half the work of dgemm; the upper triangle is neither read nor written. */
void kb_syrk_lower(size_t n, size_t k, double alpha, const double *a, size_t lda, double beta, double *c, size_t ldc)
{
    assert(lda >= n && ldc >= n);
    if (k == 0) {
        for (size_t j = 0; j < n; j++)
            scale(n - j, beta, c + j * ldc + j);
    } else if (n > 0) {
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, blas_int(n), blas_int(k), alpha, a, blas_ld(lda), beta, c,
                    blas_ld(ldc));
    }
}
