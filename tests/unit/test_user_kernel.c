/* The user kernel against dense covariances, in its dense and its column form, with strangers and normalisation. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "chol.h"
#include "ids.h"
#include "kbt.h"
#include "rng.h"
#include "user_kernel.h"

#define SMALL 60
#define LARGE 2500 /* beyond KB_GRAPH_DENSE_MAX: the column form */
#define STRANGERS 3

static struct kb_graph *small_graph, *large_graph;
static double *large_inverse[2]; /* oracle for LARGE, without and with population */
static const double populations[2] = {0.0, 0.8};
static const double rho = 0.1;

static struct kb_graph *make_graph(size_t n, size_t n_extra, uint64_t key)
{
    struct kb_edge *edges;
    struct kb_graph *graph = NULL;
    size_t n_edges = kbt_random_edges(n - 2, n_extra, false, key, &edges); /* at least two isolated nodes */
    ck_assert_int_eq(kb_graph_new(&graph, n, edges, n_edges, NULL), KB_OK);
    free(edges);
    return graph;
}

/* Once, before the first case: kb_spd_inverse has its own test against elimination (test_chol). */
static void make_inputs(void)
{
    small_graph = make_graph(SMALL, 100, 1);
    large_graph = make_graph(LARGE, 5000, 2);
    for (size_t p = 0; p < 2; p++) {
        size_t order = LARGE + p;
        large_inverse[p] = kbt_array(order * order);
        kb_graph_dense(large_graph, rho, populations[p], large_inverse[p]);
        ck_assert_int_eq(kb_spd_inverse(order, large_inverse[p]), KB_OK);
    }
}

static void free_inputs(void)
{
    kb_graph_free(small_graph);
    kb_graph_free(large_graph);
    free(large_inverse[0]);
    free(large_inverse[1]);
}

static struct kb_user_kernel *k;
static struct kb_user_scratch *scratch;

static void open_kernel(enum kb_user_kernel_type type, double population, bool is_normalized,
                        const struct kb_graph *graph)
{
    struct kb_user_kernel_spec spec = {type, rho, population, is_normalized};
    ck_assert_int_eq(kb_user_kernel_new(&k, &spec, graph), KB_OK);
    ck_assert_int_eq(kb_user_scratch_new(&scratch, k), KB_OK);
}

static void close_kernel(void)
{
    kb_user_scratch_free(scratch);
    kb_user_kernel_free(k);
}

/* Interned index 1000 + node for nodes, i for strangers. */
static struct kb_user node_user(uint32_t node)
{
    return (struct kb_user){.index = 1000 + node, .node = node};
}

static struct kb_user stranger(uint32_t i)
{
    return (struct kb_user){.index = i, .node = KB_ID_NONE};
}

static uint32_t add(struct kb_user u)
{
    uint32_t slot;
    ck_assert_int_eq(kb_user_kernel_add_anchors(k, &u, 1, &slot, scratch), KB_OK);
    return slot;
}

static double value(struct kb_user u, uint32_t slot)
{
    double out, diag = kb_user_kernel_diag(k, u, scratch);
    kb_user_kernel_row_at(k, u, diag, &slot, 1, &out);
    return out;
}

/* The covariance of n nodes, the virtual node p and STRANGERS users with f(u) | f(p) ~ N(c f(p), v): inverse of the
 * precision that these conditionals add to that of the graph, except that p's own prior is kept (c^2 / v is
 * subtracted by making p's conditional carry it). Without population strangers are isolated. Column-major. */
static double *joint_covariance(const struct kb_graph *graph, double population)
{
    size_t n = kb_graph_n_nodes(graph), p = n, base = n + (population > 0.0), order = base + STRANGERS;
    double *small = kbt_array(base * base), *a = kbt_array(order * order), *g = kbt_array(order * order);
    double c = population / (population + rho), precision = population + rho;
    kb_graph_dense(graph, rho, population, small);
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
        double population = populations[c % 2];
        size_t base = SMALL + (population > 0.0), order = base + STRANGERS;
        double *g = joint_covariance(small_graph, population);
        open_kernel(KB_USER_LAPLACIAN, population, c >= 2, small_graph);
        for (uint32_t i = 0; i < SMALL + STRANGERS; i++) {
            struct kb_user v = i < SMALL ? node_user(i) : stranger(i - SMALL);
            size_t vi = i < SMALL ? i : base + i - SMALL;
            uint32_t slot = add(v);
            for (uint32_t j = 0; j < SMALL + STRANGERS; j++) {
                struct kb_user u = j < SMALL ? node_user(j) : stranger(j - SMALL);
                size_t ui = j < SMALL ? j : base + j - SMALL;
                double want = g[vi * order + ui], diag = g[ui * order + ui];
                if (c >= 2)
                    want /= sqrt(diag * g[vi * order + vi]);
                if (!kbt_close(value(u, slot), want, 1e-10))
                    ck_abort_msg("case %d, users %u, %u: %g, want %g", c, j, i, value(u, slot), want);
                ck_assert(kbt_close(kb_user_kernel_diag(k, u, scratch), c >= 2 ? 1.0 : diag, 1e-10));
            }
        }
        close_kernel();
        free(g);
    }
}
END_TEST

START_TEST(column_form_equals_the_dense_inverse)
{
    for (size_t p = 0; p < 2; p++) {
        size_t order = LARGE + p;
        open_kernel(KB_USER_LAPLACIAN, populations[p], false, large_graph);
        for (uint32_t i = 0; i < LARGE; i += 97) {
            uint32_t slot = add(node_user(i));
            const double *want = large_inverse[p] + i * order;
            for (uint32_t j = 0; j < LARGE; j += 41)
                if (!(fabs(value(node_user(j), slot) - want[j]) <= 1e-9 * want[i]))
                    ck_abort_msg("G[%u, %u] = %.17g, want %.17g", j, i, value(node_user(j), slot), want[j]);
            ck_assert(kbt_close_relative(kb_user_kernel_diag(k, node_user(i), scratch), want[i], 1e-9));
        }
        close_kernel();
    }
}
END_TEST

START_TEST(column_form_knows_strangers_by_the_virtual_node)
{
    const double w = populations[1], c = w / (w + rho), v = 1.0 / (w + rho);
    const double *crowd = large_inverse[1] + (size_t)LARGE * (LARGE + 1);
    open_kernel(KB_USER_LAPLACIAN, w, false, large_graph);
    uint32_t known = add(node_user(7)), unknown = add(stranger(3));
    ck_assert(kbt_close(value(stranger(4), known), c * crowd[7], 1e-9));
    ck_assert(kbt_close(value(node_user(9), unknown), c * crowd[9], 1e-9));
    ck_assert(kbt_close(value(stranger(4), unknown), c * c * crowd[LARGE], 1e-9));
    ck_assert(kbt_close(value(stranger(3), unknown), c * c * crowd[LARGE] + v, 1e-9));
    ck_assert(value(stranger(3), unknown) == kb_user_kernel_diag(k, stranger(3), scratch));
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, large_graph);
    known = add(node_user(7));
    unknown = add(stranger(3));
    ck_assert(value(stranger(4), known) == 0.0 && value(node_user(9), unknown) == 0.0);
    ck_assert(value(stranger(4), unknown) == 0.0 && value(stranger(3), unknown) == 1.0 / rho);
    close_kernel();
}
END_TEST

/* Values by stage, one column at a time, against add in one block: bit for bit. */
START_TEST(blocks_of_anchors_equal_single_ones)
{
    enum { ANCHORS = 37 }; /* two full blocks, a part of one, and a stranger in between */
    struct kb_user users[ANCHORS];
    uint32_t slots[ANCHORS], slot;
    double row[ANCHORS], *block_rows = kbt_array(50 * ANCHORS);
    for (uint32_t i = 0; i < ANCHORS; i++)
        users[i] = i == 20 ? stranger(1) : node_user(i * 61);
    for (size_t c = 0; c < 4; c++) {
        open_kernel(KB_USER_LAPLACIAN, populations[c % 2], c >= 2, large_graph);
        ck_assert_int_eq(kb_user_kernel_add_anchors(k, users, ANCHORS, slots, scratch), KB_OK);
        for (uint32_t j = 0; j < 50; j++) {
            double diag = kb_user_kernel_diag(k, node_user(j * 49), scratch);
            kb_user_kernel_row_at(k, node_user(j * 49), diag, slots, ANCHORS, block_rows + j * ANCHORS);
        }
        close_kernel();
        open_kernel(KB_USER_LAPLACIAN, populations[c % 2], c >= 2, large_graph);
        for (uint32_t i = 0; i < ANCHORS; i++) {
            ck_assert_int_eq(kb_user_kernel_stage_anchor(k, users[i], scratch, &slot), KB_OK);
            ck_assert_uint_eq(slot, slots[i]);
        }
        kb_user_kernel_commit_anchor(k, slot);
        for (uint32_t j = 0; j < 50; j++) {
            double diag = kb_user_kernel_diag(k, node_user(j * 49), scratch);
            kb_user_kernel_row_at(k, node_user(j * 49), diag, slots, ANCHORS, row);
            ck_assert_mem_eq(row, block_rows + j * ANCHORS, sizeof row);
        }
        close_kernel();
    }
    free(block_rows);
}
END_TEST

/* The diagonal has the same bits whether it is asked for first or comes with an anchor's column. */
START_TEST(who_asks_first_does_not_change_the_diagonal)
{
    double asked[10], solved;
    open_kernel(KB_USER_LAPLACIAN, 0.8, false, large_graph);
    for (uint32_t i = 0; i < 10; i++)
        asked[i] = kb_user_kernel_diag(k, node_user(i * 200), scratch);
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.8, false, large_graph);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t slot = add(node_user(i * 200));
        solved = kb_user_kernel_diag(k, node_user(i * 200), scratch);
        ck_assert_mem_eq(&solved, &asked[i], sizeof solved);
        ck_assert(value(node_user(i * 200), slot) == solved);
    }
    close_kernel();
}
END_TEST

START_TEST(unknown_users_do_not_move_the_kernel)
{
    const struct kb_graph *graphs[] = {small_graph, large_graph};
    for (size_t f = 0; f < 2; f++) {
        open_kernel(KB_USER_LAPLACIAN, 0.8, false, graphs[f]);
        uint32_t slot = add(node_user(5));
        double before[] = {value(node_user(6), slot), value(node_user(5), slot), value(stranger(1), slot)};
        for (uint32_t i = 0; i < 40; i++)
            add(stranger(i));
        double after[] = {value(node_user(6), slot), value(node_user(5), slot), value(stranger(1), slot)};
        ck_assert_mem_eq(before, after, sizeof before);
        close_kernel();
    }
}
END_TEST

START_TEST(normalized_diagonal_is_exactly_one)
{
    const struct kb_graph *graphs[] = {small_graph, large_graph, NULL};
    for (size_t f = 0; f < 6; f++) {
        open_kernel(KB_USER_LAPLACIAN, populations[f % 2], true, graphs[f / 2]);
        for (uint32_t i = 0; i < 20; i++) {
            struct kb_user u = i % 4 == 3 || f >= 4 ? stranger(i) : node_user(i * 3);
            uint32_t slot = add(u);
            ck_assert(value(u, slot) == 1.0);
            ck_assert(kb_user_kernel_diag(k, u, scratch) == 1.0);
            ck_assert_double_lt(value(stranger(99), slot), 1.0);
        }
        close_kernel();
    }
}
END_TEST

START_TEST(gram_matrix_of_users_and_strangers_is_positive_definite)
{
    enum { M = 40 };
    const struct kb_graph *graphs[] = {small_graph, large_graph};
    for (size_t f = 0; f < 4; f++) {
        double gram[M * M];
        struct kb_chol chol;
        open_kernel(KB_USER_LAPLACIAN, 0.8, f >= 2, graphs[f % 2]);
        for (uint32_t i = 0; i < M; i++)
            ck_assert_uint_eq(add(i % 3 == 0 ? stranger(i) : node_user(i)), i);
        for (uint32_t i = 0; i < M; i++)
            for (uint32_t j = 0; j < M; j++)
                gram[j * M + i] = value(i % 3 == 0 ? stranger(i) : node_user(i), j);
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < i; j++)
                ck_assert(kbt_close(gram[j * M + i], gram[i * M + j], 1e-10));
        kb_chol_init(&chol);
        ck_assert_int_eq(kb_chol_factor(&chol, gram, M, M), KB_OK);
        kb_chol_close(&chol);
        close_kernel();
    }
}
END_TEST

START_TEST(ones_shares_everything_and_identity_nothing)
{
    open_kernel(KB_USER_ONES, 0.0, false, small_graph);
    ck_assert_uint_eq(kb_user_kernel_row(k, node_user(3)), 0);
    ck_assert_uint_eq(kb_user_kernel_row(k, stranger(9)), 0);
    ck_assert_uint_eq(add(node_user(3)), 0);
    ck_assert_uint_eq(add(stranger(9)), 0); /* the one anchor serves everybody */
    ck_assert(value(node_user(4), 0) == 1.0 && kb_user_kernel_diag(k, stranger(2), scratch) == 1.0);
    close_kernel();
    open_kernel(KB_USER_IDENTITY, 0.0, true, NULL);
    uint32_t a = add(stranger(7)), b = add(stranger(8));
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(kb_user_kernel_row(k, stranger(7)), 7);
    ck_assert(value(stranger(7), a) == 1.0 && value(stranger(7), b) == 0.0);
    ck_assert(kb_user_kernel_diag(k, stranger(7), scratch) == 1.0);
    close_kernel();
}
END_TEST

START_TEST(without_a_graph_everybody_is_a_stranger)
{
    const double w = 0.8, c = w / (w + rho);
    open_kernel(KB_USER_LAPLACIAN, w, false, NULL);
    uint32_t slot = add(stranger(1));
    ck_assert(kbt_close(value(stranger(2), slot), c * c / rho, 1e-14)); /* G_pp = 1 / rho */
    ck_assert(kbt_close(value(stranger(1), slot), c * c / rho + 1.0 / (w + rho), 1e-14));
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, NULL);
    slot = add(stranger(1));
    ck_assert(value(stranger(2), slot) == 0.0 && value(stranger(1), slot) == 1.0 / rho);
    close_kernel();
}
END_TEST

START_TEST(staged_anchors_can_be_committed_or_forgotten)
{
    const struct kb_graph *graphs[] = {small_graph, large_graph};
    for (size_t f = 0; f < 2; f++) {
        uint32_t slots[40], again;
        open_kernel(KB_USER_LAPLACIAN, 0.8, false, graphs[f]);
        for (uint32_t i = 0; i < 40; i++) {
            ck_assert_int_eq(kb_user_kernel_stage_anchor(k, node_user(i), scratch, &slots[i]), KB_OK);
            ck_assert_uint_eq(slots[i], i);
            ck_assert_uint_eq(kb_user_kernel_find_anchor(k, node_user(i)), i);
        }
        ck_assert_int_eq(kb_user_kernel_stage_anchor(k, node_user(7), scratch, &again), KB_OK);
        ck_assert_uint_eq(again, 7);
        double kept = value(node_user(3), 9);
        kb_user_kernel_commit_anchor(k, 9);
        kb_user_kernel_commit_anchor(k, 4); /* already in force */
        kb_user_kernel_discard_anchors(k);
        for (uint32_t i = 0; i < 40; i++)
            ck_assert_uint_eq(kb_user_kernel_find_anchor(k, node_user(i)), i <= 9 ? i : KB_ID_NONE);
        ck_assert_uint_eq(add(node_user(30)), 10); /* the place of one that was forgotten */
        ck_assert(value(node_user(3), 9) == kept);
        ck_assert(value(node_user(30), 10) == kb_user_kernel_diag(k, node_user(30), scratch));
        close_kernel();
    }
}
END_TEST

START_TEST(repeated_users_share_a_slot_within_one_add)
{
    const struct kb_user users[] = {node_user(4), stranger(1), node_user(4), stranger(1), node_user(5)};
    uint32_t slots[5];
    open_kernel(KB_USER_LAPLACIAN, 0.8, false, large_graph);
    ck_assert_int_eq(kb_user_kernel_add_anchors(k, users, 5, slots, scratch), KB_OK);
    ck_assert(slots[0] == 0 && slots[1] == 1 && slots[2] == 0 && slots[3] == 1 && slots[4] == 2);
    ck_assert_int_eq(kb_user_kernel_add_anchors(k, users, 0, slots, scratch), KB_OK);
    close_kernel();
}
END_TEST

START_TEST(anchors_beyond_the_table_are_refused)
{
    uint32_t slot;
    enum kb_err rc = KB_OK;
    size_t n = 0;
    open_kernel(KB_USER_IDENTITY, 0.0, false, NULL);
    for (uint32_t i = 0; rc == KB_OK && i < 100000; i++) {
        rc = kb_user_kernel_stage_anchor(k, stranger(i), scratch, &slot);
        n += rc == KB_OK;
    }
    ck_assert_int_eq(rc, KB_ELIMIT);
    ck_assert_uint_ge(n, 2 * 16384); /* twice the largest exact posterior */
    ck_assert_uint_eq(kb_user_kernel_find_anchor(k, stranger(12345)), 12345);
    close_kernel();
}
END_TEST

START_TEST(diagonal_cache_survives_a_snapshot)
{
    double *cache = kbt_array(LARGE), known;
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, large_graph);
    known = kb_user_kernel_diag(k, node_user(5), scratch);
    ck_assert_uint_eq(kb_user_kernel_diag_cache(k, cache, LARGE), LARGE);
    ck_assert(cache[5] == known && isnan(cache[6]));
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, large_graph);
    cache[8] = -1.0;
    cache[9] = 123.0;
    kb_user_kernel_set_diag_cache(k, cache, LARGE);
    ck_assert(kb_user_kernel_diag(k, node_user(5), NULL) == known); /* no solver, hence no solve */
    ck_assert(kb_user_kernel_diag(k, node_user(9), NULL) == 123.0);
    ck_assert(kbt_close(kb_user_kernel_diag(k, node_user(8), scratch), large_inverse[0][8 * (LARGE + 1)], 1e-9));
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, small_graph);
    ck_assert_uint_eq(kb_user_kernel_diag_cache(k, cache, LARGE), 0);
    close_kernel();
    free(cache);
}
END_TEST

START_TEST(scratch_fits_kernels_of_its_size)
{
    struct kb_user_scratch *dense_scratch;
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, small_graph);
    ck_assert(kb_user_scratch_fits(scratch, k));
    ck_assert(!kb_user_scratch_fits(NULL, k));
    dense_scratch = scratch;
    kb_user_kernel_free(k);
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, large_graph);
    ck_assert(kb_user_scratch_fits(scratch, k));
    ck_assert(!kb_user_scratch_fits(dense_scratch, k));
    kb_user_scratch_free(dense_scratch);
    close_kernel();
}
END_TEST

START_TEST(bytes_grow_with_what_is_held)
{
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, small_graph);
    ck_assert_uint_ge(kb_user_kernel_bytes(k), SMALL * SMALL * sizeof(double));
    close_kernel();
    open_kernel(KB_USER_LAPLACIAN, 0.0, false, large_graph);
    size_t before = kb_user_kernel_bytes(k);
    add(node_user(1));
    ck_assert_uint_ge(kb_user_kernel_bytes(k), before + LARGE * KB_CG_PANEL * sizeof(double));
    close_kernel();
}
END_TEST

/* --- memory ---------------------------------------------------------------------------------------- */

static enum kb_err life(void *arg)
{
    struct kb_user_kernel_spec spec = {KB_USER_LAPLACIAN, rho, 0.8, true};
    struct kb_user users[20];
    uint32_t slots[20], slot;
    enum kb_err rc;
    for (uint32_t i = 0; i < 20; i++)
        users[i] = i % 5 == 4 ? stranger(i) : node_user(i);
    KB_TRY(kb_user_kernel_new(&k, &spec, arg));
    KB_TRY(kb_user_scratch_new(&scratch, k));
    KB_TRY(kb_user_kernel_add_anchors(k, users, 20, slots, scratch));
    KB_TRY(kb_user_kernel_stage_anchor(k, node_user(30), scratch, &slot));
out:
    return rc;
}

/* What has been staged or added in vain has left no trace: the number of anchors is 0, 20 or 21. */
static void no_half_anchors(void *arg)
{
    (void)arg;
    if (k != NULL && scratch != NULL) {
        bool has_first = kb_user_kernel_find_anchor(k, node_user(0)) != KB_ID_NONE;
        for (uint32_t i = 0; i < 20; i++)
            ck_assert(has_first ==
                      (kb_user_kernel_find_anchor(k, i % 5 == 4 ? stranger(i) : node_user(i)) != KB_ID_NONE));
        if (has_first)
            ck_assert(value(node_user(0), 0) == 1.0);
    }
    close_kernel();
    k = NULL;
    scratch = NULL;
}

START_TEST(no_memory_leaves_nothing_behind)
{
    ck_assert_uint_ge(kbt_brutal(life, no_half_anchors, small_graph), 6);
    ck_assert_uint_ge(kbt_brutal(life, no_half_anchors, large_graph), 10);
}
END_TEST

/* --- threads --------------------------------------------------------------------------------------- */

static struct {
    double want[5];
    bool is_wrong[2];
} shared;

/* Reads rows of the committed anchors and diagonals of nodes nobody has asked for. */
static void *read_along(void *arg)
{
    size_t me = *(const size_t *)arg;
    struct kb_user_scratch *own = NULL;
    const uint32_t slots[5] = {0, 1, 2, 3, 4};
    double row[5];
    shared.is_wrong[me] = kb_user_scratch_new(&own, k) != KB_OK;
    for (uint32_t round = 0; round < 200 && !shared.is_wrong[me]; round++) {
        double diag = kb_user_kernel_diag(k, node_user(1000 + round / 2), own); /* both readers ask for the same */
        kb_user_kernel_row_at(k, node_user(77), diag, slots, 5, row);
        shared.is_wrong[me] = memcmp(row, shared.want, sizeof row) != 0 || !(diag > 0.0);
    }
    kb_user_scratch_free(own);
    return NULL;
}

/* Meant for the thread sanitizer; without it the values are still compared. */
START_TEST(readers_run_beside_a_staging_writer)
{
    const uint32_t slots[5] = {0, 1, 2, 3, 4};
    const size_t ids[2] = {0, 1};
    pthread_t reader[2];
    uint32_t slot;
    open_kernel(KB_USER_LAPLACIAN, 0.8, false, large_graph);
    for (uint32_t i = 0; i < 5; i++)
        add(node_user(i * 100));
    kb_user_kernel_row_at(k, node_user(77), 1.0, slots, 5, shared.want);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&reader[i], NULL, read_along, (void *)(uintptr_t)&ids[i]), 0);
    for (uint32_t i = 0; i < 60; i++) {
        ck_assert_int_eq(kb_user_kernel_stage_anchor(k, node_user(200 + i), scratch, &slot), KB_OK);
        ck_assert_uint_gt(kb_user_kernel_bytes(k), 0);
        if (i == 30)
            kb_user_kernel_discard_anchors(k);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(reader[i], NULL);
    ck_assert(!shared.is_wrong[0] && !shared.is_wrong[1]);
    close_kernel();
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH("user_kernel", make_inputs, free_inputs, dense_form_equals_the_joint_covariance_with_strangers,
                        column_form_equals_the_dense_inverse, column_form_knows_strangers_by_the_virtual_node,
                        blocks_of_anchors_equal_single_ones, who_asks_first_does_not_change_the_diagonal,
                        unknown_users_do_not_move_the_kernel, normalized_diagonal_is_exactly_one,
                        gram_matrix_of_users_and_strangers_is_positive_definite,
                        ones_shares_everything_and_identity_nothing, without_a_graph_everybody_is_a_stranger,
                        staged_anchors_can_be_committed_or_forgotten, repeated_users_share_a_slot_within_one_add,
                        anchors_beyond_the_table_are_refused, diagonal_cache_survives_a_snapshot,
                        scratch_fits_kernels_of_its_size, bytes_grow_with_what_is_held, no_memory_leaves_nothing_behind,
                        readers_run_beside_a_staging_writer);
}
