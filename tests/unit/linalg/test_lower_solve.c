/* The solve by tiles, for every width of vectors that the processor has: by what it leaves over, and by its bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "linalg/lower_solve.h"

#define MAX_RHS 23
#define PADDING 3

static const size_t orders[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 40, 127, 128, 129, 143, 144, 300, 530};
#define N_ORDERS (sizeof orders / sizeof orders[0])

struct problem {
    size_t n, ld;
    double *l, *b, *x;
};

/* What stands above the diagonal is not a number: nobody may look at it. Nothing follows the last row of the last
 * column, for the sanitizer. Three pivots of forty are `small`, the others 1. */
static struct problem make_problem(size_t n, double small)
{
    struct problem p = {.n = n, .ld = n + PADDING};
    p.l = kbt_array(n * n);
    p.b = kbt_array(p.ld * MAX_RHS);
    p.x = kbt_array(p.ld * MAX_RHS);
    kbt_random_normal(n * n, 1 + n, p.l);
    kbt_random_normal(p.ld * MAX_RHS, 2 + n, p.b);
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < j; i++)
            p.l[j * n + i] = NAN;
        for (size_t i = j + 1; i < n; i++)
            p.l[j * n + i] *= 0.5 / sqrt((double)n);
        p.l[j * (n + 1)] = j % 40 >= 3 && j % 40 <= 5 ? small : 1;
    }
    return p;
}

static void solve(struct problem *p, enum kb_lanes lanes, size_t n_rhs)
{
    memcpy(p->x, p->b, p->ld * MAX_RHS * sizeof *p->x);
    kb_lower_solve(lanes, p->n, p->l, p->n, p->x, p->ld, n_rhs);
}

static void close_problem(struct problem *p)
{
    free(p->l);
    free(p->b);
    free(p->x);
}

/* Substitution solves (L + dL) x = b with |dL| <= n eps |L|, entry by entry, whatever the condition of L. A solve by
 * inverses of diagonal blocks does not. */
static void check_residual(const struct problem *p, size_t column)
{
    const double *x = p->x + column * p->ld, *b = p->b + column * p->ld;
    for (size_t i = 0; i < p->n; i++) {
        long double rest = b[i], size = 0;
        for (size_t k = 0; k <= i; k++) {
            const long double term = (long double)p->l[k * p->n + i] * x[k];
            rest -= term;
            size += fabsl(term);
        }
        if (!(fabsl(rest) <= (long double)(i + 4) * 0x1p-53L * size))
            ck_abort_msg("order %zu, column %zu, row %zu: %Lg is left over, of %Lg", p->n, column, i, rest, size);
    }
}

START_TEST(what_is_left_over_is_rounding_whatever_the_condition)
{
    static const double small[] = {1, 1e-3, 1e-5};
    for (size_t o = 0; o < N_ORDERS; o++)
        for (size_t s = 0; s < 3; s++)
            for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
                struct problem p = make_problem(orders[o], small[s]);
                solve(&p, lanes, MAX_RHS);
                for (size_t c = 0; c < MAX_RHS; c++) {
                    if (orders[o] < 200 || c % 11 == 0)
                        check_residual(&p, c);
                    ck_assert_mem_eq(p.x + c * p.ld + p.n, p.b + c * p.ld + p.n, PADDING * sizeof(double));
                }
                close_problem(&p);
            }
}
END_TEST

START_TEST(a_column_has_the_same_bits_alone_and_among_others)
{
    double *among = kbt_array(600 * MAX_RHS);
    for (size_t o = 0; o < N_ORDERS; o++)
        for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
            struct problem p = make_problem(orders[o], 0.1);
            solve(&p, lanes, MAX_RHS);
            memcpy(among, p.x, p.ld * MAX_RHS * sizeof *among);
            for (size_t n_rhs = 0; n_rhs <= MAX_RHS; n_rhs++) {
                solve(&p, lanes, n_rhs);
                ck_assert_mem_eq(p.x, among, p.ld * n_rhs * sizeof *among);
                ck_assert_mem_eq(p.x + p.ld * n_rhs, p.b + p.ld * n_rhs, p.ld * (MAX_RHS - n_rhs) * sizeof *among);
            }
            close_problem(&p);
        }
    free(among);
}
END_TEST

/* So a log that is folded on a processor with AVX2 leaves what it left on one with AVX-512, as far as this goes. */
START_TEST(four_and_eight_lanes_have_the_same_bits)
{
    double *four = kbt_array(600 * MAX_RHS);
    for (size_t o = 0; o < N_ORDERS && kb_widest_lanes() >= KB_LANES_8; o++) {
        struct problem p = make_problem(orders[o], 0.1);
        solve(&p, KB_LANES_4, MAX_RHS);
        memcpy(four, p.x, p.ld * MAX_RHS * sizeof *four);
        solve(&p, KB_LANES_8, MAX_RHS);
        ck_assert_mem_eq(p.x, four, p.ld * MAX_RHS * sizeof *four);
        close_problem(&p);
    }
    free(four);
}
END_TEST

int main(void)
{
    return KBT_RUN("lower_solve", what_is_left_over_is_rounding_whatever_the_condition,
                   a_column_has_the_same_bits_alone_and_among_others, four_and_eight_lanes_have_the_same_bits);
}
