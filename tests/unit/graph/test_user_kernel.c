/* The user kernel against dense covariances, in its dense and its column form, with strangers and normalisation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/chol.h"
#include "base/ids.h"
#include "kbt.h"
#include "kbt_users.h"

#define STRANGERS 3

/* The covariance of n nodes, the virtual node p and STRANGERS users with f(u) | f(p) ~ N(c f(p), v): the inverse of
 * the precision of the joint density, that of the graph times those of the strangers given f(p). Without population
 * strangers are isolated. Column-major. */
static double *joint_covariance(const struct kb_graph *graph, double population)
{
    size_t n = kb_graph_n_nodes(graph), p = n, base = n + (population > 0.0), order = base + STRANGERS;
    double *small = kbt_array(base * base), *a = kbt_array(order * order), *g = kbt_array(order * order);
    double c = population / (population + KBT_RHO), precision = population + KBT_RHO;
    kb_graph_dense(graph, KBT_RHO, population, small);
    for (size_t j = 0; j < base; j++)
        for (size_t i = j; i < base; i++)
            a[i * order + j] = a[j * order + i] = small[j * base + i];
    for (size_t u = base; u < order; u++) {
        a[u * order + u] = precision;
        if (population > 0.0) {
            a[u * order + p] = a[p * order + u] = -c * precision;
            a[p * order + p] += c * c * precision; /* the density of f(u) given f(p), as a function of f(p) */
        }
    }
    kbt_inverse(order, a, g);
    free(small);
    free(a);
    return g;
}

START_TEST(dense_form_equals_the_joint_covariance_with_strangers)
{
    for (int c = 0; c < 4; c++) {
        double population = kbt_populations[c % 2];
        size_t base = KBT_SMALL + (population > 0.0), order = base + STRANGERS;
        double *g = joint_covariance(kbt_small_graph, population);
        kbt_open_kernel(KB_USER_LAPLACIAN, population, c >= 2, kbt_small_graph);
        for (uint32_t i = 0; i < KBT_SMALL + STRANGERS; i++) {
            struct kb_user v = i < KBT_SMALL ? kbt_node_user(i) : kbt_stranger(i - KBT_SMALL);
            size_t vi = i < KBT_SMALL ? i : base + i - KBT_SMALL;
            uint32_t slot = kbt_add_anchor(v);
            for (uint32_t j = 0; j < KBT_SMALL + STRANGERS; j++) {
                struct kb_user u = j < KBT_SMALL ? kbt_node_user(j) : kbt_stranger(j - KBT_SMALL);
                size_t ui = j < KBT_SMALL ? j : base + j - KBT_SMALL;
                double want = g[vi * order + ui], diag = g[ui * order + ui];
                if (c >= 2)
                    want /= sqrt(diag * g[vi * order + vi]);
                if (!kbt_close(kbt_user_value(u, slot), want, 1e-10))
                    ck_abort_msg("case %d, users %u, %u: %g, want %g", c, j, i, kbt_user_value(u, slot), want);
                ck_assert(
                    kbt_close(kb_user_kernel_diag(kbt_users_kernel, u, kbt_users_scratch), c >= 2 ? 1.0 : diag, 1e-10));
            }
        }
        kbt_close_kernel();
        free(g);
    }
}
END_TEST

START_TEST(column_form_equals_the_dense_inverse)
{
    for (size_t p = 0; p < 2; p++) {
        size_t order = KBT_LARGE + p;
        kbt_open_kernel(KB_USER_LAPLACIAN, kbt_populations[p], false, kbt_large_graph);
        for (uint32_t i = 0; i < KBT_LARGE; i += 97) {
            uint32_t slot = kbt_add_anchor(kbt_node_user(i));
            const double *want = kbt_large_inverse[p] + i * order;
            for (uint32_t j = 0; j < KBT_LARGE; j += 41)
                if (!(fabs(kbt_user_value(kbt_node_user(j), slot) - want[j]) <= 1e-9 * want[i]))
                    ck_abort_msg("G[%u, %u] = %.17g, want %.17g", j, i, kbt_user_value(kbt_node_user(j), slot),
                                 want[j]);
            ck_assert(kbt_close_relative(kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(i), kbt_users_scratch),
                                         want[i], 1e-9));
        }
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(column_form_knows_strangers_by_the_virtual_node)
{
    const double w = kbt_populations[1], c = w / (w + KBT_RHO), v = 1.0 / (w + KBT_RHO);
    const double *crowd = kbt_large_inverse[1] + (size_t)KBT_LARGE * (KBT_LARGE + 1);
    kbt_open_kernel(KB_USER_LAPLACIAN, w, false, kbt_large_graph);
    uint32_t known = kbt_add_anchor(kbt_node_user(7)), unknown = kbt_add_anchor(kbt_stranger(3));
    ck_assert(kbt_close(kbt_user_value(kbt_stranger(4), known), c * crowd[7], 1e-9));
    ck_assert(kbt_close(kbt_user_value(kbt_node_user(9), unknown), c * crowd[9], 1e-9));
    ck_assert(kbt_close(kbt_user_value(kbt_stranger(4), unknown), c * c * crowd[KBT_LARGE], 1e-9));
    ck_assert(kbt_close(kbt_user_value(kbt_stranger(3), unknown), c * c * crowd[KBT_LARGE] + v, 1e-9));
    ck_assert(kbt_user_value(kbt_stranger(3), unknown) ==
              kb_user_kernel_diag(kbt_users_kernel, kbt_stranger(3), kbt_users_scratch));
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_large_graph);
    known = kbt_add_anchor(kbt_node_user(7));
    unknown = kbt_add_anchor(kbt_stranger(3));
    ck_assert(kbt_user_value(kbt_stranger(4), known) == 0.0 && kbt_user_value(kbt_node_user(9), unknown) == 0.0);
    ck_assert(kbt_user_value(kbt_stranger(4), unknown) == 0.0 &&
              kbt_user_value(kbt_stranger(3), unknown) == 1.0 / KBT_RHO);
    kbt_close_kernel();
}
END_TEST

/* The diagonal has the same bits whether it is asked for first or comes with an anchor's column. */
START_TEST(who_asks_first_does_not_change_the_diagonal)
{
    double asked[10], solved;
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, kbt_large_graph);
    for (uint32_t i = 0; i < 10; i++)
        asked[i] = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(i * 200), kbt_users_scratch);
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, kbt_large_graph);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t slot = kbt_add_anchor(kbt_node_user(i * 200));
        solved = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(i * 200), kbt_users_scratch);
        ck_assert_mem_eq(&solved, &asked[i], sizeof solved);
        ck_assert(kbt_user_value(kbt_node_user(i * 200), slot) == solved);
    }
    kbt_close_kernel();
}
END_TEST

START_TEST(unknown_users_do_not_move_the_kernel)
{
    const struct kb_graph *graphs[] = {kbt_small_graph, kbt_large_graph};
    for (size_t f = 0; f < 2; f++) {
        kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, graphs[f]);
        uint32_t slot = kbt_add_anchor(kbt_node_user(5));
        double before[] = {kbt_user_value(kbt_node_user(6), slot), kbt_user_value(kbt_node_user(5), slot),
                           kbt_user_value(kbt_stranger(1), slot)};
        for (uint32_t i = 0; i < 40; i++)
            kbt_add_anchor(kbt_stranger(i));
        double after[] = {kbt_user_value(kbt_node_user(6), slot), kbt_user_value(kbt_node_user(5), slot),
                          kbt_user_value(kbt_stranger(1), slot)};
        ck_assert_mem_eq(before, after, sizeof before);
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(normalized_diagonal_is_exactly_one)
{
    const struct kb_graph *graphs[] = {kbt_small_graph, kbt_large_graph, NULL};
    for (size_t f = 0; f < 6; f++) {
        kbt_open_kernel(KB_USER_LAPLACIAN, kbt_populations[f % 2], true, graphs[f / 2]);
        for (uint32_t i = 0; i < 20; i++) {
            struct kb_user u = i % 4 == 3 || f >= 4 ? kbt_stranger(i) : kbt_node_user(i * 3);
            uint32_t slot = kbt_add_anchor(u);
            ck_assert(kbt_user_value(u, slot) == 1.0);
            ck_assert(kb_user_kernel_diag(kbt_users_kernel, u, kbt_users_scratch) == 1.0);
            ck_assert_double_lt(kbt_user_value(kbt_stranger(99), slot), 1.0);
        }
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(gram_matrix_of_users_and_strangers_is_positive_definite)
{
    enum { M = 40 };
    const struct kb_graph *graphs[] = {kbt_small_graph, kbt_large_graph};
    for (size_t f = 0; f < 4; f++) {
        double gram[M * M];
        struct kb_chol chol;
        kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, f >= 2, graphs[f % 2]);
        for (uint32_t i = 0; i < M; i++)
            ck_assert_uint_eq(kbt_add_anchor(i % 3 == 0 ? kbt_stranger(i) : kbt_node_user(i)), i);
        for (uint32_t i = 0; i < M; i++)
            for (uint32_t j = 0; j < M; j++)
                gram[j * M + i] = kbt_user_value(i % 3 == 0 ? kbt_stranger(i) : kbt_node_user(i), j);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < i; j++)
                ck_assert(kbt_close(gram[j * M + i], gram[i * M + j], 1e-10));
        kb_chol_init(&chol);
        ck_assert_int_eq(kb_chol_factor(&chol, gram, M, M), KB_OK);
        kb_chol_close(&chol);
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(ones_shares_everything_and_identity_nothing)
{
    kbt_open_kernel(KB_USER_ONES, 0.0, false, kbt_small_graph);
    ck_assert_uint_eq(kb_user_kernel_row(kbt_users_kernel, kbt_node_user(3)), 0);
    ck_assert_uint_eq(kb_user_kernel_row(kbt_users_kernel, kbt_stranger(9)), 0);
    ck_assert_uint_eq(kbt_add_anchor(kbt_node_user(3)), 0);
    ck_assert_uint_eq(kbt_add_anchor(kbt_stranger(9)), 0); /* the one anchor serves everybody */
    ck_assert(kbt_user_value(kbt_node_user(4), 0) == 1.0 &&
              kb_user_kernel_diag(kbt_users_kernel, kbt_stranger(2), kbt_users_scratch) == 1.0);
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_IDENTITY, 0.0, true, NULL);
    uint32_t a = kbt_add_anchor(kbt_stranger(7)), b = kbt_add_anchor(kbt_stranger(8));
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(kb_user_kernel_row(kbt_users_kernel, kbt_stranger(7)), 7);
    ck_assert(kbt_user_value(kbt_stranger(7), a) == 1.0 && kbt_user_value(kbt_stranger(7), b) == 0.0);
    ck_assert(kb_user_kernel_diag(kbt_users_kernel, kbt_stranger(7), kbt_users_scratch) == 1.0);
    kbt_close_kernel();
}
END_TEST

START_TEST(without_a_graph_everybody_is_a_stranger)
{
    const double w = 0.8, c = w / (w + KBT_RHO);
    kbt_open_kernel(KB_USER_LAPLACIAN, w, false, NULL);
    uint32_t slot = kbt_add_anchor(kbt_stranger(1));
    ck_assert(kbt_close(kbt_user_value(kbt_stranger(2), slot), c * c / KBT_RHO, 1e-14)); /* G_pp = 1 / rho */
    ck_assert(kbt_close(kbt_user_value(kbt_stranger(1), slot), c * c / KBT_RHO + 1.0 / (w + KBT_RHO), 1e-14));
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, NULL);
    slot = kbt_add_anchor(kbt_stranger(1));
    ck_assert(kbt_user_value(kbt_stranger(2), slot) == 0.0 && kbt_user_value(kbt_stranger(1), slot) == 1.0 / KBT_RHO);
    kbt_close_kernel();
}
END_TEST

START_TEST(diagonal_cache_survives_a_snapshot)
{
    double *cache = kbt_array(KBT_LARGE), known;
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_large_graph);
    known = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(5), kbt_users_scratch);
    ck_assert_uint_eq(kb_user_kernel_diag_cache(kbt_users_kernel, cache, KBT_LARGE), KBT_LARGE);
    ck_assert(cache[5] == known && isnan(cache[6]));
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_large_graph);
    cache[8] = -1.0;
    cache[9] = 123.0;
    kb_user_kernel_set_diag_cache(kbt_users_kernel, cache, KBT_LARGE);
    ck_assert(kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(5), NULL) == known); /* no solver, hence no solve */
    ck_assert(kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(9), NULL) == 123.0);
    ck_assert(kbt_close(kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(8), kbt_users_scratch),
                        kbt_large_inverse[0][8 * (KBT_LARGE + 1)], 1e-9));
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_small_graph);
    ck_assert_uint_eq(kb_user_kernel_diag_cache(kbt_users_kernel, cache, KBT_LARGE), 0);
    kbt_close_kernel();
    free(cache);
}
END_TEST

START_TEST(scratch_fits_kernels_of_its_size)
{
    struct kb_user_scratch *dense_scratch;
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_small_graph);
    ck_assert(kb_user_scratch_fits(kbt_users_scratch, kbt_users_kernel));
    ck_assert(!kb_user_scratch_fits(NULL, kbt_users_kernel));
    dense_scratch = kbt_users_scratch;
    kb_user_kernel_free(kbt_users_kernel);
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_large_graph);
    ck_assert(kb_user_scratch_fits(kbt_users_scratch, kbt_users_kernel));
    ck_assert(!kb_user_scratch_fits(dense_scratch, kbt_users_kernel));
    kb_user_scratch_free(dense_scratch);
    kbt_close_kernel();
}
END_TEST

/* Rows and diagonals of the copy have the first one's bits, and it goes on when the first one is gone. */
static void check_sharing(const struct kb_graph *graph, bool is_normalized)
{
    struct kb_user_kernel *first, *copy = NULL;
    double want[3], got[3];
    uint32_t slots[3];
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.5, is_normalized, graph);
    first = kbt_users_kernel;
    const struct kb_user users[] = {kbt_node_user(3), kbt_node_user(1), kbt_stranger(0)}, u = kbt_node_user(2);
    for (size_t i = 0; i < 3; i++)
        slots[i] = kbt_add_anchor(users[i]);
    double diag = kb_user_kernel_diag(first, u, kbt_users_scratch);
    kb_user_kernel_row_at(first, u, diag, slots, 3, want);
    ck_assert_int_eq(kb_user_kernel_new_like(&copy, first), KB_OK);
    ck_assert_uint_eq(kb_user_kernel_find_anchor(copy, users[0]), KB_ID_NONE); /* anchors are its own */
    kb_user_kernel_free(first);
    kbt_users_kernel = copy;
    for (size_t i = 0; i < 3; i++)
        slots[i] = kbt_add_anchor(users[i]);
    ck_assert(kb_user_kernel_diag(copy, u, kbt_users_scratch) == diag);
    kb_user_kernel_row_at(copy, u, diag, slots, 3, got);
    ck_assert_mem_eq(got, want, sizeof want);
    kbt_close_kernel();
}

START_TEST(kernels_may_share_their_values_and_go_in_any_order)
{
    for (int i = 0; i < 2; i++) {
        check_sharing(kbt_small_graph, i > 0);
        check_sharing(kbt_large_graph, i > 0);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH("user_kernel", kbt_users_set_up, kbt_users_tear_down,
                        dense_form_equals_the_joint_covariance_with_strangers, column_form_equals_the_dense_inverse,
                        column_form_knows_strangers_by_the_virtual_node, who_asks_first_does_not_change_the_diagonal,
                        unknown_users_do_not_move_the_kernel, normalized_diagonal_is_exactly_one,
                        gram_matrix_of_users_and_strangers_is_positive_definite,
                        ones_shares_everything_and_identity_nothing, without_a_graph_everybody_is_a_stranger,
                        diagonal_cache_survives_a_snapshot, scratch_fits_kernels_of_its_size,
                        kernels_may_share_their_values_and_go_in_any_order);
}
