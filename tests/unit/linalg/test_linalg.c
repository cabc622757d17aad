/* The BLAS wrappers against plain loops, for leading dimensions larger than the matrix and empty sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "linalg/linalg.h"

#define LD 23

/* op(A)(i, j) of an array with leading dimension ld. */
static double entry(const double *a, size_t ld, size_t i, size_t j, bool is_transposed)
{
    return is_transposed ? a[i * ld + j] : a[j * ld + i];
}

/* C = beta C + alpha op(A) B by the definition. */
static void naive_gemm(bool is_transposed, size_t m, size_t n, size_t k, double alpha, const double *a, const double *b,
                       double beta, double *c)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            double sum = 0.0;
            for (size_t l = 0; l < k; l++)
                sum += entry(a, LD, i, l, is_transposed) * b[j * LD + l];
            c[j * LD + i] = (beta == 0.0 ? 0.0 : beta * c[j * LD + i]) + alpha * sum;
        }
}

static double a[LD * LD], b[LD * LD], c[LD * LD], want[LD * LD];

static void fill(void)
{
    kbt_random_normal(LD * LD, 1, a);
    kbt_random_normal(LD * LD, 2, b);
    kbt_random_normal(LD * LD, 3, c);
    memcpy(want, c, sizeof want);
}

static const size_t sizes[][3] = {{5, 7, 11}, {1, 1, 1}, {23, 20, 23}, {4, 3, 0}, {0, 5, 5}, {5, 0, 5}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

START_TEST(gemm_equals_the_definition)
{
    for (size_t s = 0; s < N_SIZES; s++)
        for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
            size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            fill();
            (is_transposed ? kb_gemm_tn : kb_gemm)(m, n, k, 1.5, a, LD, b, LD, -0.5, c, LD);
            naive_gemm(is_transposed, m, n, k, 1.5, a, b, -0.5, want);
            ck_assert_double_lt(kbt_distance(LD * LD, c, want), 1e-13); /* entries outside are untouched, too */
        }
}
END_TEST

START_TEST(gemv_equals_the_definition)
{
    for (size_t s = 0; s < N_SIZES; s++) {
        size_t m = sizes[s][0], k = sizes[s][2];
        fill();
        kb_gemv(m, k, 2.0, a, LD, b, 0.25, c);
        naive_gemm(false, m, 1, k, 2.0, a, b, 0.25, want);
        ck_assert_double_lt(kbt_distance(LD * LD, c, want), 1e-13);
        fill();
        kb_gemv_t(k, m, 2.0, a, LD, b, 0.25, c);
        naive_gemm(true, m, 1, k, 2.0, a, b, 0.25, want);
        ck_assert_double_lt(kbt_distance(LD * LD, c, want), 1e-13);
    }
}
END_TEST

START_TEST(syrk_fills_the_lower_triangle_only)
{
    for (size_t s = 0; s < N_SIZES; s++) {
        size_t n = sizes[s][0], k = sizes[s][2];
        fill();
        kb_syrk_lower(n, k, -1.0, a, LD, 0.5, c, LD);
        for (size_t j = 0; j < n; j++)
            for (size_t i = j; i < n; i++) {
                double sum = 0.0;
                for (size_t l = 0; l < k; l++)
                    sum += a[l * LD + i] * a[l * LD + j];
                want[j * LD + i] = 0.5 * want[j * LD + i] - sum;
            }
        ck_assert_double_lt(kbt_distance(LD * LD, c, want), 1e-13);
    }
}
END_TEST

START_TEST(beta_zero_does_not_read_the_result)
{
    const size_t inner[] = {0, 4};
    for (size_t s = 0; s < 2; s++) {
        size_t k = inner[s];
        fill();
        for (size_t i = 0; i < LD * LD; i++)
            c[i] = NAN;
        kb_gemv(4, k, 1.0, a, LD, b, 0.0, c);
        kb_gemv_t(k, 4, 1.0, a, LD, b, 0.0, c + LD);
        kb_gemm(4, 4, k, 1.0, a, LD, b, LD, 0.0, c + 2 * LD, LD);
        kb_gemm_tn(4, 4, k, 1.0, a, LD, b, LD, 0.0, c + 6 * LD, LD);
        for (size_t j = 0; j < 10; j++)
            for (size_t i = 0; i < 4; i++)
                ck_assert(isfinite(c[j * LD + i]));
    }
}
END_TEST

START_TEST(vector_operations_equal_the_definition)
{
    double sum = 0.0;
    fill();
    for (size_t i = 0; i < LD; i++) {
        sum += a[i] * b[i];
        want[i] += 3.0 * a[i];
    }
    ck_assert(kbt_close(kb_dot(LD, a, b), sum, 1e-14));
    ck_assert(kb_dot(0, a, b) == 0.0);
    kb_axpy(LD, 3.0, a, c);
    kb_axpy(0, 3.0, a, c);
    ck_assert_double_lt(kbt_distance(LD * LD, c, want), 1e-14);
}
END_TEST

START_TEST(one_thread_gives_the_same_bits_again)
{
    enum { N = 300 };
    double *x = kbt_array(N * N), *first = kbt_array(N * N), *second = kbt_array(N * N);
    kb_blas_single_thread();
    kbt_random_normal(N * N, 5, x);
    kb_gemm(N, N, N, 1.0, x, N, x, N, 0.0, first, N);
    kb_gemm(N, N, N, 1.0, x, N, x, N, 0.0, second, N);
    ck_assert_mem_eq(first, second, N * N * sizeof *first);
    ck_assert_uint_gt(strlen(kb_blas_core_name()), 0);
    free(x);
    free(first);
    free(second);
}
END_TEST

int main(void)
{
    return KBT_RUN("linalg", gemm_equals_the_definition, gemv_equals_the_definition, syrk_fills_the_lower_triangle_only,
                   beta_zero_does_not_read_the_result, vector_operations_equal_the_definition,
                   one_thread_gives_the_same_bits_again);
}
