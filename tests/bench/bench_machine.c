/* The floor that benches set the core beside (bench_machine.h).
 *
 * dtrsm and dgemm are called as they stand in the library, not through the core: the core's own solve for many
 * right-hand sides (chol.c) goes by blocks because dtrsm is poor for few of them, and a fraction above 1 shows it.
 *
 * The matrices are the identity with small entries below the diagonal: solving again and again then neither overflows
 * nor runs into denormal numbers, which would be timed instead.
 *
 * Cost: each call below takes from a fraction of a millisecond to a few. */
#include "bench_machine.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "linalg/linalg.h"
#include "base/rng.h"

#define ENOUGH_US 500.0 /* a batch of solves lasts so long at least */
#define MAX_BATCH 256

double bench_cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

double bench_load(void)
{
    double load;

    return getloadavg(&load, 1) == 1 ? load : -1;
}

void bench_die(const char *program, const char *what)
{
    fprintf(stderr, "%s: %s failed\n", program, what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(size_t n, double *value)
{
    qsort(value, n, sizeof *value, compare);
    return 0.5 * (value[(n - 1) / 2] + value[n / 2]);
}

/* As paperbench does: the variable is read before main, so it takes a second start. */
void bench_settle_blas(char *const *argv)
{
    const char *best = kb_blas_core_best();

    if (best != NULL && strcmp(kb_blas_core_name(), "Prescott") == 0 && getenv("OPENBLAS_CORETYPE") == NULL) {
        setenv("OPENBLAS_CORETYPE", best, 1);
        execv("/proc/self/exe", argv);
    }
    kb_blas_single_thread();
}

double bench_gemm_us(void)
{
    const size_t n = BENCH_GEMM;
    double *a = kb_array(3 * n, n, sizeof *a);

    if (a == NULL)
        bench_die("bench", "memory");
    for (size_t i = 0; i < 2 * n * n; i++)
        a[i] = (double)(i % 7) - 3;
    kb_gemm(n, n, n, 1, a, n, a + n * n, n, 0, a + 2 * n * n, n); /* pages and caches */
    const double start = bench_cpu_us();
    kb_gemm(n, n, n, 1, a, n, a + n * n, n, 0, a + 2 * n * n, n);
    const double us = bench_cpu_us() - start;
    kb_free(a);
    return us;
}

double bench_exp_ns(void)
{
    enum { N = 20000 };
    volatile double first = -1e-3; /* keeps the loop from being computed at compile time */
    double x = first, sum = 0;
    const double start = bench_cpu_us();

    for (int i = 0; i < N; i++)
        sum += exp(x * i);
    const double ns = (bench_cpu_us() - start) * 1e3 / N;
    return sum > 0 ? ns : 0;
}

/* Order m, column-major: 1 on the diagonal, up to 1e-4 below. */
static void fill_triangle(size_t m, double *l, uint64_t seed)
{
    for (size_t j = 0; j < m; j++) {
        l[j * m + j] = 1;
        for (size_t i = j + 1; i < m; i++)
            l[j * m + i] = 1e-4 * kb_rng_uniform(seed, KB_STREAM_SIMULATION, j * m + i);
    }
}

int bench_floor_init(struct bench_floor *f, size_t m)
{
    *f = (struct bench_floor){.m = m};
    f->x = kb_array(m, BENCH_MAX_RHS, sizeof *f->x);
    for (int i = 0; i < 2; i++) {
        f->l[i] = kb_array(m, m, sizeof *f->l[i]);
        if (f->l[i] == NULL || f->x == NULL)
            return 0;
        fill_triangle(m, f->l[i], (uint64_t)i);
    }
    return 1;
}

void bench_floor_close(struct bench_floor *f)
{
    kb_free(f->l[0]);
    kb_free(f->l[1]);
    kb_free(f->x);
}

/* One right-hand side by dtrsv, as the core does it. */
static void solve(const struct bench_floor *f, int which, size_t n_rhs)
{
    const int m = (int)f->m;

    if (n_rhs == 1)
        cblas_dtrsv(CblasColMajor, CblasLower, CblasNoTrans, CblasNonUnit, m, f->l[which], m, f->x, 1);
    else
        cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, m, (int)n_rhs, 1, f->l[which], m,
                    f->x, m);
}

/* Batches until one is long enough for the clock; the first solve, which fetches the matrix, is not timed. */
double bench_trsm_us(struct bench_floor *f, size_t n_rhs, int n_factors)
{
    for (size_t i = 0; i < f->m * n_rhs; i++)
        f->x[i] = 1;
    for (int i = 0; i < n_factors; i++)
        solve(f, i, n_rhs);
    for (int batch = 2 * n_factors;; batch *= 2) {
        const double start = bench_cpu_us();

        for (int i = 0; i < batch; i++)
            solve(f, i % n_factors, n_rhs);
        const double us = bench_cpu_us() - start;
        if (us >= ENOUGH_US || batch >= MAX_BATCH)
            return us / batch;
    }
}
