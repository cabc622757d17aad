/* Conjugate gradients against dense elimination, and the promise of equal bits in any company. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/magnitude.h"
#include "graph/laplacian_cg.h"
#include "base/rng.h"

#define N 300

static struct kb_graph *g;
static struct kb_cg cg;
static struct kb_cg_work one, block;
static double *inverse; /* order x order */

/* Solver over a random graph of N nodes, three of them isolated, with its dense inverse as oracle. */
static void set_up(double rho, double population, uint64_t key)
{
    struct kb_edge *edges;
    size_t n_edges = kbt_random_edges(N - 3, 600, true, key, &edges);
    ck_assert_int_eq(kb_graph_new(&g, N, edges, n_edges, NULL), KB_OK);
    free(edges);
    ck_assert_int_eq(kb_cg_init(&cg, g, rho, population), KB_OK);
    ck_assert_int_eq(kb_cg_work_init(&one, cg.order, 1), KB_OK);
    ck_assert_int_eq(kb_cg_work_init(&block, cg.order, KB_CG_WIDTH), KB_OK);
    double *a = kbt_array(cg.order * cg.order);
    inverse = kbt_array(cg.order * cg.order);
    kb_graph_dense(g, rho, population, a);
    for (size_t j = 0; j < cg.order; j++)
        for (size_t i = j; i < cg.order; i++)
            a[i * cg.order + j] = a[j * cg.order + i];
    kbt_inverse(cg.order, a, inverse);
    free(a);
}

static void tear_down(void)
{
    kb_cg_work_close(&one);
    kb_cg_work_close(&block);
    kb_cg_close(&cg);
    kb_graph_free(g);
    free(inverse);
}

static const struct {
    double rho, population;
} cases[] = {{0.1, 0.0}, {0.1, 1.0}, {1e-3, 0.0}, {1e-3, 0.01}, {10.0, 0.0}};
#define N_CASES (sizeof cases / sizeof *cases)

START_TEST(columns_equal_the_dense_inverse)
{
    for (size_t c = 0; c < N_CASES; c++) {
        set_up(cases[c].rho, cases[c].population, c);
        for (uint32_t node = 0; node < cg.order; node += 13) {
            double diag, largest = inverse[node * cg.order + node], worst = 0.0;
            ck_assert_int_eq(kb_cg_columns(&cg, &one, &node, 1, &diag), KB_OK);
            for (size_t i = 0; i < cg.order; i++)
                worst = fmax(worst, fabs(one.x[i] - inverse[node * cg.order + i]));
            ck_assert_double_lt(worst, 1e-10 * largest);
            ck_assert(kbt_close_relative(diag, largest, 1e-10));
        }
        tear_down();
    }
}
END_TEST

START_TEST(isolated_nodes_are_solved_in_one_step)
{
    uint32_t node = N - 1;
    double diag;
    set_up(0.5, 0.0, 1);
    ck_assert_int_eq(kb_cg_columns(&cg, &one, &node, 1, &diag), KB_OK);
    ck_assert(diag == 2.0 && one.x[N - 1] == 2.0);
    for (size_t i = 0; i + 1 < N; i++)
        ck_assert(one.x[i] == 0.0);
    tear_down();
}
END_TEST

/* Blocks of every size, with easy columns (isolated) beside hard ones so that some freeze early. */
START_TEST(a_column_has_the_same_bits_in_any_company)
{
    set_up(0.05, 0.3, 2);
    for (size_t n = 1; n <= KB_CG_WIDTH; n += 5) {
        uint32_t nodes[KB_CG_WIDTH];
        double diag[KB_CG_WIDTH], single;
        for (size_t k = 0; k < n; k++)
            nodes[k] = k % 3 == 0 ? (uint32_t)(N - 1 - k / 3 % 3) : (uint32_t)(7 * k);
        ck_assert_int_eq(kb_cg_columns(&cg, &block, nodes, n, diag), KB_OK);
        for (size_t k = 0; k < n; k++) {
            ck_assert_int_eq(kb_cg_columns(&cg, &one, &nodes[k], 1, &single), KB_OK);
            ck_assert_mem_eq(&single, &diag[k], sizeof single);
            for (size_t i = 0; i < cg.order; i++)
                ck_assert_mem_eq(&one.x[i], &block.x[i * KB_CG_WIDTH + k], sizeof single);
        }
    }
    tear_down();
}
END_TEST

START_TEST(diagonal_alone_has_the_bits_of_the_columns_diagonal)
{
    for (size_t c = 0; c < N_CASES; c++) {
        set_up(cases[c].rho, cases[c].population, 10 + c);
        for (uint32_t node = 0; node < cg.order; node += 7) {
            double with_column, alone;
            ck_assert_int_eq(kb_cg_columns(&cg, &one, &node, 1, &with_column), KB_OK);
            alone = kb_cg_diagonal(&cg, &one, node);
            ck_assert_mem_eq(&alone, &with_column, sizeof alone);
            ck_assert(kbt_close_relative(alone, inverse[node * cg.order + node], 1e-10));
        }
        tear_down();
    }
}
END_TEST

/* A long path with a small ridge converges slowly: hundreds of steps, with no steep end to recognise. */
START_TEST(slow_graphs_keep_their_digits)
{
    enum { LONG = 1500 };
    struct kb_edge *edges = calloc(LONG, sizeof *edges);
    double rho = 1e-4, diag;
    for (uint32_t i = 0; i + 1 < LONG; i++)
        edges[i] = (struct kb_edge){i, i + 1, 1.0};
    ck_assert_int_eq(kb_graph_new(&g, LONG, edges, LONG - 1, NULL), KB_OK);
    ck_assert_int_eq(kb_cg_init(&cg, g, rho, 0.0), KB_OK);
    ck_assert_int_eq(kb_cg_work_init(&one, LONG, 1), KB_OK);
    uint32_t node = LONG / 2;
    ck_assert_int_eq(kb_cg_columns(&cg, &one, &node, 1, &diag), KB_OK);
    /* Residual in extended precision, and the closed form of the middle of a long path:
     * G_uu = 1 / (rho + 2 (1 - m)), m the smaller root of m + 1/m = 2 + rho; the ends are too far to matter. */
    long double worst = 0.0L;
    for (size_t i = 0; i < LONG; i++) {
        long double left = i > 0 ? one.x[i - 1] : 0.0L, right = i + 1 < LONG ? one.x[i + 1] : 0.0L;
        long double degree = (i > 0) + (i + 1 < LONG);
        long double r = (degree + rho) * one.x[i] - left - right - (i == node ? 1.0L : 0.0L);
        worst = fmaxl(worst, fabsl(r));
    }
    ck_assert_double_lt((double)worst, 1e-10);
    double s = 2.0 + rho, m = (s - sqrt(s * s - 4.0)) / 2.0, want = 1.0 / (s - 2.0 * m);
    ck_assert_double_lt(fabs(diag - want), 1e-6 * want); /* the ends do matter a little: m^1500 = 3e-7 */
    ck_assert(kbt_close_relative(diag, one.x[node], 1e-11));
    kb_cg_work_close(&one);
    kb_cg_close(&cg);
    kb_graph_free(g);
    free(edges);
}
END_TEST

/* A p is what rounding has left of it, of any sign: the sum for the diagonal ends before that. */
START_TEST(a_system_lost_to_rounding_is_reported)
{
    enum { SHORT = 40 };
    for (double weight = 1e10; weight < KB_MOST_MAGNITUDE; weight *= 1e6) {
        struct kb_edge edges[SHORT - 1];
        double diag;
        for (uint32_t i = 0; i + 1 < SHORT; i++)
            edges[i] = (struct kb_edge){i, i + 1, weight * (1 + kb_rng_uniform(5, KB_STREAM_SIMULATION, i))};
        ck_assert_int_eq(kb_graph_new(&g, SHORT, edges, SHORT - 1, NULL), KB_OK);
        ck_assert_int_eq(kb_cg_init(&cg, g, 1e-12, 0.0), KB_OK);
        ck_assert_int_eq(kb_cg_work_init(&one, SHORT, 1), KB_OK);
        for (uint32_t node = 0; node < SHORT; node++) {
            const enum kb_err rc = kb_cg_columns(&cg, &one, &node, 1, &diag);
            ck_assert(rc == KB_OK || rc == KB_ENOTPD);
            ck_assert(diag > 0.0 && isfinite(diag));
            diag = kb_cg_diagonal(&cg, &one, node);
            ck_assert(diag > 0.0 && isfinite(diag));
        }
        kb_cg_work_close(&one);
        kb_cg_close(&cg);
        kb_graph_free(g);
    }
}
END_TEST

START_TEST(a_system_that_does_not_converge_is_reported)
{
    /* Weights over 24 orders of magnitude and next to no ridge: beyond any double precision solver. */
    enum { LONG = 1200 };
    struct kb_edge *edges = calloc(LONG, sizeof *edges);
    uint32_t node = 0;
    double diag;
    for (uint32_t i = 0; i + 1 < LONG; i++)
        edges[i] = (struct kb_edge){i, i + 1, pow(10.0, 24.0 * kb_rng_uniform(3, KB_STREAM_SIMULATION, i) - 12.0)};
    ck_assert_int_eq(kb_graph_new(&g, LONG, edges, LONG - 1, NULL), KB_OK);
    ck_assert_int_eq(kb_cg_init(&cg, g, 1e-14, 0.0), KB_OK);
    ck_assert_int_eq(kb_cg_work_init(&one, LONG, 1), KB_OK);
    ck_assert_int_eq(kb_cg_columns(&cg, &one, &node, 1, &diag), KB_ENOTPD);
    ck_assert(diag > 0.0);
    ck_assert(kb_cg_diagonal(&cg, &one, node) > 0.0);
    kb_cg_work_close(&one);
    kb_cg_close(&cg);
    kb_graph_free(g);
    free(edges);
}
END_TEST

int main(void)
{
    return KBT_RUN("laplacian_cg", columns_equal_the_dense_inverse, isolated_nodes_are_solved_in_one_step,
                   a_column_has_the_same_bits_in_any_company, diagonal_alone_has_the_bits_of_the_columns_diagonal,
                   slow_graphs_keep_their_digits, a_system_that_does_not_converge_is_reported,
                   a_system_lost_to_rounding_is_reported);
}
