/* The symmetric eigensolver against the definition, and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/eigen.h"
#include "kbt.h"

/* A random symmetric matrix, both triangles. */
static double *random_symmetric(size_t n, uint64_t key)
{
    double *a = kbt_array(n * n);
    kbt_random_normal(n * n, key, a);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < j; i++)
            a[j * n + i] = a[i * n + j];
    return a;
}

/* |A q_j - e_j q_j|, |Q^T Q - I|, and the order of the values. */
static void expect_decomposition(size_t n, const double *a, const double *q, const double *e)
{
    for (size_t j = 0; j < n; j++) {
        ck_assert(j == 0 || e[j] >= e[j - 1]);
        for (size_t i = 0; i < n; i++) {
            double product = -e[j] * q[j * n + i], dot = i == j ? -1.0 : 0.0;
            for (size_t k = 0; k < n; k++) {
                product += a[k * n + i] * q[j * n + k];
                dot += q[i * n + k] * q[j * n + k];
            }
            ck_assert_double_le(fabs(product), 1e-13 * (double)n);
            ck_assert_double_le(fabs(dot), 1e-13 * (double)n);
        }
    }
}

START_TEST(vectors_and_values_satisfy_the_definition)
{
    const size_t orders[] = {1, 2, 3, 10, 61}; /* LAPACK divides and conquers from 26 on */
    for (size_t c = 0; c < sizeof orders / sizeof orders[0]; c++) {
        size_t n = orders[c];
        double *a = random_symmetric(n, c), *q = kbt_array(n * n), *e = kbt_array(n);
        memcpy(q, a, n * n * sizeof *q);
        ck_assert_int_eq(kb_eigen_symmetric(n, q, e), KB_OK);
        expect_decomposition(n, a, q, e);
        free(a);
        free(q);
        free(e);
    }
}
END_TEST

START_TEST(only_the_lower_triangle_is_read)
{
    enum { N = 30 };
    double *a = random_symmetric(N, 7), *q = kbt_array(N * N), e[N];
    memcpy(q, a, N * N * sizeof *q);
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < j; i++)
            q[j * N + i] = (double)NAN;
    ck_assert_int_eq(kb_eigen_symmetric(N, q, e), KB_OK);
    expect_decomposition(N, a, q, e);
    free(a);
    free(q);
}
END_TEST

START_TEST(values_agree_with_jacobi)
{
    enum { N = 40 };
    double *a = random_symmetric(N, 9), *v = kbt_array(N * N), want[N], e[N];
    kbt_eigen(N, a, want, v);
    ck_assert_int_eq(kb_eigen_symmetric(N, a, e), KB_OK);
    for (size_t i = 0; i < N; i++) { /* Jacobi's come in no order: the rank of each is the same */
        size_t below = 0;
        for (size_t j = 0; j < N; j++)
            below += want[j] < want[i];
        ck_assert(kbt_close(e[below], want[i], 1e-13));
    }
    free(a);
    free(v);
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_refused)
{
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t b = 0; b < 3; b++) {
        double a[4] = {1, 0, 0, 1}, e[2];
        a[b % 2 ? 3 : 1] = bad[b];
        ck_assert_int_eq(kb_eigen_symmetric(2, a, e), KB_ENOTPD);
    }
    ck_assert_int_eq(kb_eigen_symmetric(0, NULL, NULL), KB_OK);
}
END_TEST

static enum kb_err decompose(void *arg)
{
    double e[5];
    return kb_eigen_symmetric(5, arg, e);
}

static void nothing(void *arg)
{
    (void)arg;
}

START_TEST(each_allocation_may_fail)
{
    double *a = random_symmetric(5, 3);
    ck_assert_uint_eq(kbt_brutal(decompose, nothing, a), 2);
    free(a);
}
END_TEST

int main(void)
{
    return KBT_RUN("eigen", vectors_and_values_satisfy_the_definition, only_the_lower_triangle_is_read,
                   values_agree_with_jacobi, numbers_that_are_not_finite_are_refused, each_allocation_may_fail);
}
