/* Help for tests: an allocator that fails on demand, naive dense algebra as oracle, random inputs, a runner. */
#ifndef KBT_H
#define KBT_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/graph.h"
#include "base/keyed.h"
#include "base/moves.h"

/* The key of the tables that tests make; a test may change it. */
extern struct kb_hash_key kbt_key;

/* --- allocations ----------------------------------------------------------------------------------- */

/* From here on every allocation of the core is counted and the n-th one fails (n = 0: none does); growing a
 * block counts. */
void kbt_alloc_watch(size_t fail_at);
void kbt_alloc_unwatch(void);
/* Blocks handed out since the watch began and not given back. */
long kbt_alloc_live(void);

/* Runs fn(arg) with the 1st, 2nd, 3rd, ... allocation failing until it succeeds; each failure must be
 * KB_ENOMEM. after(arg) runs after every attempt: it checks and cleans up, and no block may be left then.
 * Returns the number of attempts that failed, which a test should expect to be positive. */
size_t kbt_brutal(enum kb_err (*fn)(void *arg), void (*after)(void *arg), void *arg);

/* --- comparison ------------------------------------------------------------------------------------ */

/* |a - b| <= tol (1 + |b|); false when either is NaN. */
bool kbt_close(double a, double b, double tol);
/* Largest |a_i - b_i| / (1 + |b_i|); infinite when any is NaN. */
double kbt_distance(size_t n, const double *a, const double *b);
/* |a - b| <= tol |b|. */
bool kbt_close_relative(double a, double b, double tol);

/* --- dense algebra, column-major n x n, by Gaussian elimination with partial pivoting -------------------- */

void kbt_solve(size_t n, const double *a, const double *b, double *x); /* x = a^-1 b */
void kbt_inverse(size_t n, const double *a, double *inverse);
double kbt_logdet(size_t n, const double *a); /* ln |det a| */
/* a = vectors diag(values) vectors^T for a symmetric a, by Jacobi's cyclic rotations; values in no order. */
void kbt_eigen(size_t n, const double *a, double *values, double *vectors);
/* c = a b^T for n x k matrices. */
void kbt_multiply_t(size_t n, size_t k, const double *a, const double *b, double *c);

/* --- random inputs --------------------------------------------------------------------------------- */

double *kbt_array(size_t n); /* calloc that aborts the test instead of failing */
void kbt_random_normal(size_t n, uint64_t key, double *x);
/* B B^T + ridge I with B normal: symmetric positive definite, both triangles. */
void kbt_random_spd(size_t n, uint64_t key, double ridge, double *a);
/* A path over all nodes when is_connected, plus n_extra random edges; weights in (0.1, 2.1). *edges is malloc'ed. */
size_t kbt_random_edges(size_t n_nodes, size_t n_extra, bool is_connected, uint64_t key, struct kb_edge **edges);

/* --- room ------------------------------------------------------------------------------------------- */

/* Lets an array grow that nobody reads: `call` is a growing function that is handed &room (moves.h). */
#define KBT_ROOM(call)                                                                                                 \
    do {                                                                                                               \
        struct kb_moves room;                                                                                          \
        kb_moves_init(&room);                                                                                          \
        ck_assert_int_eq(kb_moves_finish(&room, call), KB_OK);                                                         \
    } while (0)

/* --- runner ---------------------------------------------------------------------------------------- */

/* Runs a suite that the test has put together, and frees it; the result is the exit status. */
int kbt_run_suite(Suite *suite);

/* Runs the cases as one suite; the result is the exit status. */
int kbt_run(const char *name, const TTest *const *tests, size_t n);
#define KBT_RUN(name, ...)                                                                                             \
    kbt_run(name, (const TTest *const[]){__VA_ARGS__}, sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

/* The same, each case so many times, which sees in _i what time it is, and within so many seconds (0: check's). */
struct kbt_times {
    const TTest *test;
    int n;
};
int kbt_run_times(const char *name, double seconds, const struct kbt_times *cases, size_t n);
#define KBT_RUN_TIMES(name, seconds, ...)                                                                              \
    kbt_run_times(name, seconds, (const struct kbt_times[]){__VA_ARGS__},                                              \
                  sizeof((const struct kbt_times[]){__VA_ARGS__}) / sizeof(struct kbt_times))

/* The same with inputs made once, before the first case, and freed after the last (NULL: nothing to do). */
int kbt_run_with(const char *name, void (*set_up)(void), void (*tear_down)(void), const TTest *const *tests, size_t n);
#define KBT_RUN_WITH(name, set_up, tear_down, ...)                                                                     \
    kbt_run_with(name, set_up, tear_down, (const TTest *const[]){__VA_ARGS__},                                         \
                 sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

/* The same with inputs of its own for each case, which may take so many seconds. */
int kbt_run_each(const char *name, double seconds, void (*set_up)(void), void (*tear_down)(void),
                 const TTest *const *tests, size_t n);
#define KBT_RUN_EACH(name, seconds, set_up, tear_down, ...)                                                            \
    kbt_run_each(name, seconds, set_up, tear_down, (const TTest *const[]){__VA_ARGS__},                                \
                 sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

/* The same for cases that must die by an assertion. */
int kbt_run_aborting(const char *name, const TTest *const *tests, size_t n);
#define KBT_RUN_ABORTING(name, ...)                                                                                    \
    kbt_run_aborting(name, (const TTest *const[]){__VA_ARGS__},                                                        \
                     sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

#endif
