/* Test help (kbt.h). The oracles share no code with the core: plain loops, Gaussian elimination, the C library's
 * allocator. Only the random numbers come from rng.c, which has tests of its own. */
#include "kbt.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

struct kb_hash_key kbt_key = {{1, 2}};

/* --- allocations ----------------------------------------------------------------------------------- */

static size_t n_calls, failing_call;
static long n_live;

static void *counting_realloc(void *ptr, size_t bytes)
{
    n_calls++;
    if (n_calls == failing_call)
        return NULL;
    void *block = realloc(ptr, bytes);
    if (ptr == NULL && block != NULL)
        n_live++;
    return block;
}

static void counting_free(void *ptr)
{
    n_live -= ptr != NULL;
    free(ptr);
}

void kbt_alloc_watch(size_t fail_at)
{
    const struct kb_alloc_hook hook = {counting_realloc, counting_free};
    n_calls = 0;
    n_live = 0;
    failing_call = fail_at;
    kb_alloc_set_hook(&hook);
}

void kbt_alloc_unwatch(void)
{
    kb_alloc_set_hook(NULL);
}

long kbt_alloc_live(void)
{
    return n_live;
}

size_t kbt_brutal(enum kb_err (*fn)(void *arg), void (*after)(void *arg), void *arg)
{
    for (size_t n = 1;; n++) {
        kbt_alloc_watch(n);
        enum kb_err rc = fn(arg);
        failing_call = 0; /* checking and cleaning up may allocate */
        after(arg);
        kbt_alloc_unwatch();
        ck_assert_msg(n_live == 0, "%ld blocks left when allocation %zu fails", n_live, n);
        if (rc == KB_OK)
            return n - 1;
        ck_assert_msg(rc == KB_ENOMEM, "allocation %zu fails: code %d", n, (int)rc);
    }
}

/* --- comparison ------------------------------------------------------------------------------------ */

bool kbt_close(double a, double b, double tol)
{
    return fabs(a - b) <= tol * (1.0 + fabs(b));
}

bool kbt_close_relative(double a, double b, double tol)
{
    return fabs(a - b) <= tol * fabs(b);
}

double kbt_distance(size_t n, const double *a, const double *b)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]) / (1.0 + fabs(b[i]));
        if (!(d <= worst))
            worst = isnan(d) ? (double)INFINITY : d;
    }
    return worst;
}

/* --- dense algebra --------------------------------------------------------------------------------- */

static void swap_rows(size_t n, double *a, size_t n_rhs, double *b, size_t i, size_t j)
{
    for (size_t c = 0; c < n + n_rhs; c++) {
        double *column = c < n ? a + c * n : b + (c - n) * n;
        double t = column[i];
        column[i] = column[j];
        column[j] = t;
    }
}

/* row_i -= factor row_k in a and b. */
static void subtract_row(size_t n, double *a, size_t n_rhs, double *b, size_t i, size_t k, double factor)
{
    for (size_t c = k; c < n; c++)
        a[c * n + i] -= factor * a[c * n + k];
    for (size_t c = 0; c < n_rhs; c++)
        b[c * n + i] -= factor * b[c * n + k];
}

/* Reduces a to upper triangular form, applying the same steps to b; returns ln |det a|. */
static double eliminate(size_t n, double *a, size_t n_rhs, double *b)
{
    double logdet = 0.0;
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[k * n + i]) > fabs(a[k * n + pivot]))
                pivot = i;
        swap_rows(n, a, n_rhs, b, k, pivot);
        logdet += log(fabs(a[k * n + k]));
        for (size_t i = k + 1; i < n; i++)
            if (a[k * n + i] != 0.0)
                subtract_row(n, a, n_rhs, b, i, k, a[k * n + i] / a[k * n + k]);
    }
    return logdet;
}

static void back_substitute(size_t n, const double *u, double *x)
{
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++)
            x[i] -= u[j * n + i] * x[j];
        x[i] /= u[i * n + i];
    }
}

static double *copy_of(size_t n, const double *a)
{
    double *copy = kbt_array(n);
    memcpy(copy, a, n * sizeof *copy);
    return copy;
}

void kbt_solve(size_t n, const double *a, const double *b, double *x)
{
    double *u = copy_of(n * n, a);
    memmove(x, b, n * sizeof *x);
    eliminate(n, u, 1, x);
    back_substitute(n, u, x);
    free(u);
}

void kbt_inverse(size_t n, const double *a, double *inverse)
{
    double *u = copy_of(n * n, a);
    memset(inverse, 0, n * n * sizeof *inverse);
    for (size_t j = 0; j < n; j++)
        inverse[j * n + j] = 1.0;
    eliminate(n, u, n, inverse);
    for (size_t j = 0; j < n; j++)
        back_substitute(n, u, inverse + j * n);
    free(u);
}

double kbt_logdet(size_t n, const double *a)
{
    double *u = copy_of(n * n, a);
    double logdet = eliminate(n, u, 0, u);
    free(u);
    return logdet;
}

/* Rotates rows and columns p, q of a so that a_pq vanishes, and the columns of v with them. */
static void jacobi_rotate(size_t n, double *a, double *v, size_t p, size_t q)
{
    if (a[q * n + p] == 0.0)
        return;
    double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[q * n + p]);
    double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (size_t i = 0; i < n; i++) {
        double x = a[p * n + i], y = a[q * n + i], vx = v[p * n + i], vy = v[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        v[p * n + i] = c * vx - s * vy;
        v[q * n + i] = s * vx + c * vy;
    }
    for (size_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
}

/* Converges quadratically; a dozen sweeps are more than orders of a hundred need. */
void kbt_eigen(size_t n, const double *a, double *values, double *vectors)
{
    double *work = kbt_array(n * n + 1);
    memcpy(work, a, n * n * sizeof *work);
    for (size_t i = 0; i < n * n; i++)
        vectors[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    for (int sweep = 0; sweep < 14; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                jacobi_rotate(n, work, vectors, p, q);
    for (size_t i = 0; i < n; i++)
        values[i] = work[i * n + i];
    free(work);
}

void kbt_multiply_t(size_t n, size_t k, const double *a, const double *b, double *c)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0.0;
            for (size_t l = 0; l < k; l++)
                sum += a[l * n + i] * b[l * n + j];
            c[j * n + i] = sum;
        }
}

/* --- random inputs --------------------------------------------------------------------------------- */

double *kbt_array(size_t n)
{
    double *x = calloc(n > 0 ? n : 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

void kbt_random_normal(size_t n, uint64_t key, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kb_rng_normal(key, KB_STREAM_SIMULATION, i);
}

void kbt_random_spd(size_t n, uint64_t key, double ridge, double *a)
{
    double *b = kbt_array(n * n);
    kbt_random_normal(n * n, key, b);
    kbt_multiply_t(n, n, b, b, a);
    for (size_t i = 0; i < n; i++)
        a[i * n + i] += ridge;
    free(b);
}

static uint32_t random_node(size_t n_nodes, uint64_t key, uint64_t i)
{
    return (uint32_t)(kb_rng_uniform(key, KB_STREAM_SIMULATION, i) * (double)n_nodes);
}

/* The weight is a function of the pair, so that a pair drawn twice is an equal repeat. */
static struct kb_edge make_edge(uint32_t u, uint32_t v, uint64_t key)
{
    uint64_t lo = u < v ? u : v, hi = u < v ? v : u;
    double weight = 0.1 + 2.0 * kb_rng_uniform(key, KB_STREAM_ARM, (lo << 32) | hi);
    return (struct kb_edge){.u = u, .v = v, .weight = weight};
}

size_t kbt_random_edges(size_t n_nodes, size_t n_extra, bool is_connected, uint64_t key, struct kb_edge **edges)
{
    size_t n = 0;
    *edges = calloc(n_nodes + n_extra + 1, sizeof **edges);
    ck_assert_ptr_nonnull(*edges);
    for (size_t i = 0; is_connected && i + 1 < n_nodes; i++)
        (*edges)[n++] = make_edge((uint32_t)i, (uint32_t)(i + 1), key);
    for (size_t i = 0; i < n_extra; i++) {
        uint32_t u = random_node(n_nodes, key, 2 * i), v = random_node(n_nodes, key, 2 * i + 1);
        if (u != v)
            (*edges)[n++] = make_edge(u, v, key);
    }
    return n;
}

/* --- runner ---------------------------------------------------------------------------------------- */

#define SECONDS 60.0 /* for a case */

int kbt_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(const char *name, TCase *tcase, const TTest *const *tests, size_t n, int signal_expected, double seconds)
{
    Suite *suite = suite_create(name);
    tcase_set_timeout(tcase, seconds);
    for (size_t i = 0; i < n; i++)
        tcase_add_test_raise_signal(tcase, tests[i], signal_expected);
    suite_add_tcase(suite, tcase);
    return kbt_run_suite(suite);
}

int kbt_run(const char *name, const TTest *const *tests, size_t n)
{
    return run(name, tcase_create(name), tests, n, 0, SECONDS);
}

int kbt_run_times(const char *name, double seconds, const struct kbt_times *cases, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    if (seconds > 0)
        tcase_set_timeout(tcase, seconds);
    for (size_t i = 0; i < n; i++)
        tcase_add_loop_test(tcase, cases[i].test, 0, cases[i].n);
    suite_add_tcase(suite, tcase);
    return kbt_run_suite(suite);
}

int kbt_run_with(const char *name, void (*set_up)(void), void (*tear_down)(void), const TTest *const *tests, size_t n)
{
    TCase *tcase = tcase_create(name);
    tcase_add_unchecked_fixture(tcase, set_up, tear_down);
    return run(name, tcase, tests, n, 0, SECONDS);
}

int kbt_run_aborting(const char *name, const TTest *const *tests, size_t n)
{
    return run(name, tcase_create(name), tests, n, SIGABRT, SECONDS);
}

int kbt_run_each(const char *name, double seconds, void (*set_up)(void), void (*tear_down)(void),
                 const TTest *const *tests, size_t n)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    return run(name, tcase, tests, n, 0, seconds);
}
