/* The tridiagonal form against the definition, and what the reduction refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kbt.h"
#include "linalg/tridiagonal.h"

struct form {
    double *a, *q, *factor, *diag, *off; /* a: the matrix, both triangles */
};

/* A random symmetric matrix of order n and its form. */
static struct form reduce(size_t n, uint64_t key)
{
    struct form f = {kbt_array(n * n), kbt_array(n * n), kbt_array(n * KB_TRIDIAGONAL_PANEL), kbt_array(n),
                     kbt_array(n)};
    kbt_random_normal(n * n, key, f.a);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < j; i++)
            f.a[j * n + i] = f.a[i * n + j];
    memcpy(f.q, f.a, n * n * sizeof *f.q);
    memset(f.factor, 0, n * KB_TRIDIAGONAL_PANEL * sizeof *f.factor);
    ck_assert_int_eq(kb_tridiagonal_reduce(n, f.q, f.diag, f.off, f.factor), KB_OK);
    return f;
}

static void close_form(struct form *f)
{
    free(f->a);
    free(f->q);
    free(f->factor);
    free(f->diag);
    free(f->off);
}

/* Q^T A Q is T, by Q^T applied to A and to its transpose; Q^T of the columns of I is orthogonal. */
START_TEST(the_form_satisfies_the_definition)
{
    const size_t orders[] = {1, 2, 3, 4, 10, 61, 64, 65, 101}; /* panels of one, of two and more, and parts of one */
    for (size_t c = 0; c < sizeof orders / sizeof orders[0]; c++) {
        const size_t n = orders[c];
        struct form f = reduce(n, c);
        double *half = kbt_array(n * n), *whole = kbt_array(n * n), *q = kbt_array(n * n), *work = kbt_array(n * n);
        memcpy(half, f.a, n * n * sizeof *half);
        kb_tridiagonal_rotate(n, f.q, f.factor, n, half, n, work);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++) {
                whole[j * n + i] = half[i * n + j];
                q[j * n + i] = i == j;
            }
        kb_tridiagonal_rotate(n, f.q, f.factor, n, whole, n, work);
        kb_tridiagonal_rotate(n, f.q, f.factor, n, q, n, work);
        ck_assert_double_eq(f.off[0], 0);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++) {
                const double t = i == j ? f.diag[i] : i == j + 1 ? f.off[i] : j == i + 1 ? f.off[j] : 0;
                double dot = i == j ? -1 : 0;
                for (size_t k = 0; k < n; k++)
                    dot += q[i * n + k] * q[j * n + k];
                ck_assert_double_eq_tol(whole[j * n + i], t, 1e-13 * (double)n);
                ck_assert_double_eq_tol(dot, 0, 1e-13 * (double)n);
            }
        free(half), free(whole), free(q), free(work);
        close_form(&f);
    }
}
END_TEST

/* A leading dimension beyond n is left alone below, and columns do not see one another. */
START_TEST(columns_are_rotated_one_by_one)
{
    enum { N = 40, LD = 47, COLUMNS = 5 };
    struct form f = reduce(N, 7);
    double many[COLUMNS * LD], one[LD], work[N * COLUMNS];
    kbt_random_normal(COLUMNS * LD, 8, many);
    for (size_t c = 0; c < COLUMNS; c++) {
        double block[COLUMNS * LD];
        memcpy(block, many, sizeof block);
        memcpy(one, many + c * LD, sizeof one);
        kb_tridiagonal_rotate(N, f.q, f.factor, COLUMNS, block, LD, work);
        kb_tridiagonal_rotate(N, f.q, f.factor, 1, one, LD, work);
        for (size_t i = 0; i < N; i++)
            ck_assert_double_eq_tol(block[c * LD + i], one[i], 1e-13);
        for (size_t i = N; i < LD; i++)
            ck_assert_double_eq(block[c * LD + i], many[c * LD + i]);
    }
    close_form(&f);
}
END_TEST

START_TEST(what_is_not_finite_is_refused_and_nothing_is_fine)
{
    double a[4] = {1, NAN, 0, 1}, factor[2 * KB_TRIDIAGONAL_PANEL] = {0}, diag[2], off[2];
    ck_assert_int_eq(kb_tridiagonal_reduce(2, a, diag, off, factor), KB_ENOTPD);
    ck_assert_int_eq(kb_tridiagonal_reduce(0, NULL, NULL, NULL, NULL), KB_OK);
    ck_assert_int_eq(kb_tridiagonal_reduce((size_t)1 << 40, a, diag, off, factor), KB_ELIMIT);
    kb_tridiagonal_rotate(0, NULL, NULL, 0, NULL, 1, NULL);
}
END_TEST

#define PAGE 4096
#define ROOM ((size_t)1 << 20) /* of a block with its pages */

/* A block that ends where memory ends: whoever reads a value behind it dies. Each stands in a room of its own. */
static void *take_at_the_end(void *ptr, size_t bytes)
{
    char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool is_fine =
        ptr == NULL && bytes <= ROOM - PAGE && room != MAP_FAILED && mprotect(room + ROOM - PAGE, PAGE, PROT_NONE) == 0;
    return is_fine ? room + ROOM - PAGE - (bytes + 7) / 8 * 8 : NULL;
}

static void keep(void *ptr)
{
    (void)ptr;
}

/* Orders whose remainder by four is each of the four, of one block of the reduction and of several. */
START_TEST(nothing_behind_the_end_of_a_block_is_read)
{
    static const struct kb_alloc_hook hook = {take_at_the_end, keep};
    const size_t orders[] = {4, 5, 6, 7, 8, 64, 65, 66, 67, 100};

    for (size_t c = 0; c < sizeof orders / sizeof *orders; c++) {
        kb_alloc_set_hook(&hook);
        struct form f = reduce(orders[c], c);
        kb_alloc_set_hook(NULL);
        close_form(&f);
    }
}
END_TEST

/* OpenBLAS takes the oldest kernels where it does not know the processor, and chooses before main: a process of its
 * own runs them. */
START_TEST(the_oldest_kernels_read_nothing_behind_what_they_are_given)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        setenv("OPENBLAS_CORETYPE", "Prescott", 1);
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
        execl("/proc/self/exe", "test_tridiagonal", "at-the-end-of-memory", (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "ended with status %#x", (unsigned)status);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "at-the-end-of-memory") == 0)
        return KBT_RUN("tridiagonal at the end of memory", nothing_behind_the_end_of_a_block_is_read);
    return KBT_RUN("tridiagonal", the_form_satisfies_the_definition, columns_are_rotated_one_by_one,
                   what_is_not_finite_is_refused_and_nothing_is_fine,
                   the_oldest_kernels_read_nothing_behind_what_they_are_given);
}
