/* OpenBLAS's work memory: calls wait for a buffer where there are fewer than threads, and none takes two. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/blas_memory.h"
#include "linalg/chol.h"
#include "linalg/eigen.h"
#include "kbt.h"
#include "linalg/linalg.h"

#define N ((size_t)160) /* beyond what the library multiplies without a buffer */
#define N_THREADS 8
#define MB ((size_t)1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

struct matrices {
    double a[N * N], b[N * N], c[N * N], x[N * N];
};

static void fill(struct matrices *m)
{
    kbt_random_spd(N, 3, 10.0, m->a);
    kbt_random_normal(N * N, 4, m->b);
    memset(m->c, 0, sizeof m->c);
    memcpy(m->x, m->b, sizeof m->x);
}

/* Each call of the core's that the library may want a buffer for. */
static void call_all(struct matrices *m)
{
    double values[N], y[N];
    struct kb_chol c;

    kb_gemm(N, N, N, 1, m->a, N, m->b, N, 0, m->c, N);
    kb_gemm_tn(N, N, N, 1, m->a, N, m->b, N, 0, m->c, N);
    kb_gemv(N, N, 1, m->a, N, m->b, 0, y);
    kb_gemv_t(N, N, 1, m->a, N, m->b, 0, y);
    kb_syrk_lower(N, N, 1, m->b, N, 0, m->c, N);
    kb_chol_init(&c);
    ck_assert_int_eq(kb_chol_factor(&c, m->a, N, N), KB_OK);
    kb_chol_solve_l(&c, y);
    kb_chol_solve_lt(&c, y);
    kb_chol_close(&c);
    ck_assert_int_eq(kb_spd_inverse(N, memcpy(m->c, m->a, sizeof m->c)), KB_OK);
    ck_assert_int_eq(kb_eigen_symmetric(N, m->a, values), KB_OK);
}

/* With one buffer a call that took a second one would wait for itself, until the test's time is up. */
START_TEST(every_call_takes_one_buffer_at_a_time)
{
    struct matrices *m = malloc(sizeof *m);
    size_t bytes;

    kb_blas_single_thread();
    ck_assert_uint_eq(ld_blas_memory_reserve(1, 0, &bytes), 1);
    ck_assert_uint_ge(bytes, MB);
    const size_t before = ld_blas_memory_n_taken();
    fill(m);
    call_all(m);
    ck_assert_uint_gt(ld_blas_memory_n_taken(), before + 6); /* the library asks us, not itself */
    free(m);
}
END_TEST

static pthread_barrier_t limited;

static void *work(void *arg)
{
    struct matrices *m = arg;

    pthread_barrier_wait(&limited);
    for (int i = 0; i < 400; i++)
        kb_gemm(N, N, N, 1, m->a, N, m->b, N, 0, m->c, N);
    return NULL;
}

/* Nothing may be mapped any more while eight threads want to compute: with as many buffers as could be had they all
 * come to their end, and to the same numbers. */
START_TEST(threads_beyond_the_buffers_wait_and_compute_the_same)
{
    static struct matrices m[N_THREADS];
    pthread_t thread[N_THREADS];
    struct rlimit limit;
    size_t bytes;

    kb_blas_single_thread();
    ck_assert_uint_eq(ld_blas_memory_reserve(2, 0, &bytes), 2);
    for (size_t i = 0; i < N_THREADS; i++)
        fill(&m[i]);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    const struct rlimit tight = {.rlim_cur = bytes, .rlim_max = limit.rlim_max}; /* less than what is mapped */
    pthread_barrier_init(&limited, NULL, N_THREADS + 1);
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &m[i]), 0);
    ck_assert(IS_SANITIZED || setrlimit(RLIMIT_AS, &tight) == 0);
    pthread_barrier_wait(&limited);
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t i = 1; i < N_THREADS; i++)
        ck_assert_mem_eq(m[i].c, m[0].c, sizeof m[0].c);
}
END_TEST

START_TEST(a_reserve_leaves_what_it_was_told_to_or_has_nothing)
{
    struct rlimit limit;
    size_t bytes, n_pages = 0;

    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(f, "%zu", &n_pages), 1);
    fclose(f);
    if (IS_SANITIZED)
        return;
    kb_blas_single_thread();
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    const size_t mapped = n_pages * (size_t)sysconf(_SC_PAGESIZE);
    struct rlimit tight = {.rlim_cur = mapped + 100 * MB, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    ck_assert_uint_eq(ld_blas_memory_reserve(4, 10 * MB, &bytes), 0);
    tight.rlim_cur = mapped + 100 * MB + 2 * bytes + bytes / 2;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    ck_assert_uint_eq(ld_blas_memory_reserve(4, 100 * MB, &bytes), 2);
    void *rest = malloc(90 * MB);
    ck_assert_ptr_nonnull(rest);
    free(rest);
}
END_TEST

/* Without threads of the library's, which have buffers of their own. It reads the environment before main. */
int main(void)
{
    if (getenv("OPENBLAS_NUM_THREADS") == NULL && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
        execl("/proc/self/exe", "test_blas_memory", (char *)NULL);
    return KBT_RUN("blas_memory", every_call_takes_one_buffer_at_a_time,
                   threads_beyond_the_buffers_wait_and_compute_the_same,
                   a_reserve_leaves_what_it_was_told_to_or_has_nothing);
}
