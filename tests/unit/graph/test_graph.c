/* The user graph and its Laplacian against the definition, entry by entry. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "base/hash.h"
#include "kbt.h"
#include "base/rng.h"

#define N 40

static struct kb_graph *g;
static struct kb_errmsg msg;

static struct kb_graph *random_graph(size_t n, size_t n_extra, uint64_t key)
{
    struct kb_edge *edges;
    struct kb_graph *made = NULL;
    size_t n_edges = kbt_random_edges(n, n_extra, false, key, &edges);
    ck_assert_int_eq(kb_graph_new(&made, n, edges, n_edges, &msg), KB_OK);
    free(edges);
    return made;
}

/* L + rho I from the edges, both triangles; the virtual node is tied to all by weight w. */
static double *dense_by_definition(const struct kb_graph *graph, double rho, double w)
{
    size_t n = kb_graph_n_nodes(graph), order = n + (w > 0.0);
    double *a = kbt_array(order * order);
    for (size_t i = 0; i < kb_graph_n_edges(graph); i++) {
        struct kb_edge e = kb_graph_edge(graph, i);
        a[e.u * order + e.v] -= e.weight;
        a[e.v * order + e.u] -= e.weight;
    }
    for (size_t i = 0; i < n && w > 0.0; i++)
        a[i * order + n] = a[n * order + i] = -w;
    for (size_t i = 0; i < order; i++) {
        double degree = 0.0;
        for (size_t j = 0; j < order; j++)
            degree -= i == j ? 0.0 : a[j * order + i];
        a[i * order + i] = degree + rho;
    }
    return a;
}

static const double weights[] = {0.0, 0.7};

START_TEST(dense_laplacian_equals_the_definition)
{
    g = random_graph(N, 90, 1);
    for (size_t p = 0; p < 2; p++) {
        size_t order = N + p;
        double *want = dense_by_definition(g, 0.3, weights[p]), *a = kbt_array(order * order);
        kb_graph_dense(g, 0.3, weights[p], a);
        for (size_t j = 0; j < order; j++)
            ck_assert_double_lt(kbt_distance(order - j, a + j * order + j, want + j * order + j), 1e-14);
        free(want);
        free(a);
    }
    kb_graph_free(g);
}
END_TEST

START_TEST(sparse_product_equals_dense_product)
{
    const size_t widths[] = {1, 3, 16};
    g = random_graph(N, 90, 2);
    for (size_t p = 0; p < 2; p++)
        for (size_t w = 0; w < 3; w++) {
            size_t order = N + p, width = widths[w];
            double *a = dense_by_definition(g, 0.3, weights[p]);
            double *x = kbt_array(order * width), *y = kbt_array(order * width), *want = kbt_array(order * width);
            kbt_random_normal(order * width, 3, x);
            kb_graph_apply(g, 0.3, weights[p], width, x, y);
            for (size_t i = 0; i < order; i++)
                for (size_t j = 0; j < order; j++)
                    for (size_t k = 0; k < width; k++)
                        want[i * width + k] += a[j * order + i] * x[j * width + k];
            ck_assert_double_lt(kbt_distance(order * width, y, want), 1e-13);
            free(a);
            free(x);
            free(y);
            free(want);
        }
    kb_graph_free(g);
}
END_TEST

START_TEST(a_column_has_the_same_bits_in_any_company)
{
    double *wide = kbt_array((N + 1) * 16), *wide_y = kbt_array((N + 1) * 16), x[N + 1], y[N + 1];
    g = random_graph(N, 90, 4);
    kbt_random_normal((N + 1) * 16, 5, wide);
    kb_graph_apply(g, 0.1, 0.5, 16, wide, wide_y);
    for (size_t k = 0; k < 16; k++) {
        for (size_t i = 0; i <= N; i++)
            x[i] = wide[i * 16 + k];
        kb_graph_apply(g, 0.1, 0.5, 1, x, y);
        for (size_t i = 0; i <= N; i++)
            ck_assert_mem_eq(&y[i], &wide_y[i * 16 + k], sizeof y[i]);
    }
    free(wide);
    free(wide_y);
    kb_graph_free(g);
}
END_TEST

START_TEST(laplacian_takes_constants_to_rho)
{
    double x[N + 1], y[N + 1];
    g = random_graph(N, 90, 6);
    for (size_t i = 0; i <= N; i++)
        x[i] = 2.0;
    kb_graph_apply(g, 0.25, 1.5, 1, x, y);
    for (size_t i = 0; i <= N; i++)
        ck_assert(kbt_close(y[i], 0.5, 1e-12));
    kb_graph_free(g);
}
END_TEST

static void shuffle_edges(struct kb_edge *edges, size_t n, uint64_t key)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(kb_rng_uniform(key, KB_STREAM_SIMULATION, i) * (double)i);
        struct kb_edge t = edges[j];
        edges[j] = edges[i - 1];
        edges[i - 1] = (struct kb_edge){.u = t.v, .v = t.u, .weight = t.weight}; /* turned round as well */
    }
}

START_TEST(order_and_direction_of_edges_do_not_matter)
{
    struct kb_edge *edges;
    size_t n = kbt_random_edges(N, 200, true, 7, &edges);
    double x[N], first[N], again[N];
    uint64_t digest = 0;
    kbt_random_normal(N, 8, x);
    for (uint64_t round = 0; round < 10; round++) {
        ck_assert_int_eq(kb_graph_new(&g, N, edges, n, &msg), KB_OK);
        kb_graph_apply(g, 0.1, 0.0, 1, x, again);
        if (round == 0) {
            memcpy(first, again, sizeof first);
            digest = kb_graph_digest(g, KB_HASH_INIT);
        }
        ck_assert_mem_eq(first, again, sizeof first);
        ck_assert_uint_eq(kb_graph_digest(g, KB_HASH_INIT), digest);
        kb_graph_free(g);
        shuffle_edges(edges, n, round);
    }
    free(edges);
}
END_TEST

START_TEST(edges_are_listed_once_and_sorted)
{
    g = random_graph(N, 300, 9); /* many repeats */
    for (size_t i = 0; i < kb_graph_n_edges(g); i++) {
        struct kb_edge e = kb_graph_edge(g, i);
        ck_assert_uint_lt(e.u, e.v);
        if (i > 0) {
            struct kb_edge last = kb_graph_edge(g, i - 1);
            ck_assert(last.u < e.u || (last.u == e.u && last.v < e.v));
        }
    }
    kb_graph_free(g);
}
END_TEST

START_TEST(degrees_and_neighbours_are_those_of_the_edges)
{
    double degree[N] = {0};
    size_t n_neighbours[N] = {0};
    g = random_graph(N, 120, 10);
    for (size_t i = 0; i < kb_graph_n_edges(g); i++) {
        struct kb_edge e = kb_graph_edge(g, i);
        degree[e.u] += e.weight;
        degree[e.v] += e.weight;
        n_neighbours[e.u]++;
        n_neighbours[e.v]++;
    }
    for (uint32_t v = 0; v < N; v++) {
        ck_assert(kbt_close(kb_graph_degree(g, v), degree[v], 1e-14));
        ck_assert_uint_eq(kb_graph_neighbours(g, v).n, n_neighbours[v]);
    }
    kb_graph_free(g);
}
END_TEST

START_TEST(digest_tells_graphs_apart)
{
    const struct kb_edge one[] = {{0, 1, 1.0}}, heavier[] = {{0, 1, 1.5}}, other[] = {{0, 2, 1.0}};
    const struct kb_edge *const edges[] = {one, heavier, other, one};
    const size_t n_nodes[] = {3, 3, 3, 4};
    uint64_t digest[4];
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(kb_graph_new(&g, n_nodes[i], edges[i], 1, &msg), KB_OK);
        digest[i] = kb_graph_digest(g, KB_HASH_INIT);
        kb_graph_free(g);
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(digest[i], digest[j]);
    }
}
END_TEST

START_TEST(components_and_degrees_are_counted)
{
    const struct kb_edge edges[] = {{0, 1, 1.0}, {4, 5, 1.0}, {1, 2, 1.0}, {2, 0, 1.0}, {5, 6, 1.0}};
    ck_assert_int_eq(kb_graph_new(&g, 9, edges, 5, &msg), KB_OK);
    ck_assert_uint_eq(kb_graph_n_components(g), 5); /* {0,1,2} {3} {4,5,6} {7} {8} */
    uint32_t label[9];
    const uint32_t want[] = {0, 0, 0, 3, 4, 4, 4, 7, 8};
    ck_assert_uint_eq(kb_graph_components(g, label), 5);
    ck_assert_mem_eq(label, want, sizeof want);
    const struct kb_degrees degrees = kb_graph_degrees(g); /* 2, 2, 2, 0, 1, 2, 1, 0, 0 */
    ck_assert_double_eq(degrees.min, 0);
    ck_assert_double_eq(degrees.max, 2);
    ck_assert_double_eq_tol(degrees.mean, 10.0 / 9, 1e-15);
    kb_graph_free(g);
}
END_TEST

START_TEST(faulty_edges_are_refused_by_name)
{
    const struct {
        struct kb_edge edge;
        const char *text;
    } faults[] = {
        {{0, 9, 1.0}, "range"},       {{9, 0, 1.0}, "range"},     {{2, 2, 1.0}, "loop"},
        {{0, 2, 0.0}, "weight"},      {{0, 2, -1.0}, "weight"},   {{0, 2, NAN}, "weight"},
        {{0, 2, INFINITY}, "weight"}, {{1, 0, 2.0}, "same pair"}, {{0, 2, 1.1e30}, "weight"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct kb_edge edges[] = {{0, 1, 1.0}, {1, 2, 1.0}, faults[i].edge};
        struct kb_graph *untouched = (struct kb_graph *)&edges;
        struct kb_graph *out = untouched;
        ck_assert_int_eq(kb_graph_new(&out, 9, edges, 3, &msg), KB_EINVAL);
        ck_assert_str_eq(msg.pointer, "/edges/2");
        ck_assert_msg(strstr(msg.text, faults[i].text) != NULL, "%s", msg.text);
        ck_assert_ptr_eq(out, untouched);
    }
}
END_TEST

START_TEST(equal_repeats_are_merged)
{
    const struct kb_edge edges[] = {{0, 1, 1.0}, {1, 0, 1.0}, {0, 1, 1.0}};
    ck_assert_int_eq(kb_graph_new(&g, 2, edges, 3, &msg), KB_OK);
    ck_assert_uint_eq(kb_graph_n_edges(g), 1);
    ck_assert(kb_graph_degree(g, 0) == 1.0);
    kb_graph_free(g);
}
END_TEST

START_TEST(empty_graphs_are_graphs)
{
    double x[3] = {1.0, 2.0, 3.0}, y[3];
    ck_assert_int_eq(kb_graph_new(&g, 3, NULL, 0, &msg), KB_OK);
    kb_graph_apply(g, 0.5, 0.0, 1, x, y);
    ck_assert(y[2] == 1.5);
    ck_assert_uint_eq(kb_graph_n_components(g), 3);
    kb_graph_free(g);
    ck_assert_int_eq(kb_graph_new(&g, 0, NULL, 0, &msg), KB_OK);
    ck_assert_uint_eq(kb_graph_n_nodes(g), 0);
    kb_graph_free(g);
    kb_graph_free(NULL);
}
END_TEST

static enum kb_err build(void *arg)
{
    static const struct kb_edge edges[] = {{0, 1, 1.0}, {1, 2, 1.0}};
    return kb_graph_new(arg, 3, edges, 2, NULL);
}

static void drop(void *arg)
{
    struct kb_graph **graph = arg;
    kb_graph_free(*graph);
    *graph = NULL;
}

START_TEST(no_memory_leaves_nothing_behind)
{
    struct kb_graph *graph = NULL;
    ck_assert_uint_ge(kbt_brutal(build, drop, &graph), 9);
}
END_TEST

/* --- patches --------------------------------------------------------------------------------------- */

/* Every array of the one by its readers, bit for bit. */
static void expect_equal(const struct kb_graph *a, const struct kb_graph *b)
{
    ck_assert_uint_eq(kb_graph_n_nodes(a), kb_graph_n_nodes(b));
    ck_assert_uint_eq(kb_graph_n_edges(a), kb_graph_n_edges(b));
    ck_assert_uint_eq(kb_graph_digest(a, 1), kb_graph_digest(b, 1));
    for (uint32_t i = 0; i < kb_graph_n_nodes(a); i++) {
        const struct kb_neighbours x = kb_graph_neighbours(a, i), y = kb_graph_neighbours(b, i);
        ck_assert_uint_eq(x.n, y.n);
        ck_assert(kb_graph_degree(a, i) == kb_graph_degree(b, i));
        if (x.n == 0)
            continue;
        ck_assert_mem_eq(x.node, y.node, x.n * sizeof *x.node);
        ck_assert_mem_eq(x.weight, y.weight, x.n * sizeof *x.weight);
    }
}

/* The old edges without each with the probability 1 - kept, then n_add random ones that are none of those. */
static size_t draw_patch(const struct kb_graph *old, size_t n_nodes, double kept, size_t n_add, uint64_t key,
                         struct kb_edge *edges, size_t *n_kept)
{
    const enum kb_stream stream = KB_STREAM_SIMULATION;
    size_t n = 0;
    for (size_t i = 0; i < kb_graph_n_edges(old); i++)
        if (kb_rng_uniform(key, stream, i) < kept)
            edges[n++] = kb_graph_edge(old, i);
    *n_kept = n;
    for (uint64_t i = 0; n < *n_kept + n_add; i++) {
        uint32_t u = (uint32_t)(kb_rng_uniform(key + 1, stream, 3 * i) * (double)n_nodes);
        uint32_t v = (uint32_t)(kb_rng_uniform(key + 1, stream, 3 * i + 1) * (double)n_nodes);
        bool is_new = u != v;
        for (size_t k = 0; k < n && is_new; k++)
            is_new = !((edges[k].u == u && edges[k].v == v) || (edges[k].u == v && edges[k].v == u));
        if (is_new)
            edges[n++] = (struct kb_edge){u, v, 0.5 + kb_rng_uniform(key + 1, stream, 3 * i + 2)};
    }
    return n;
}

/* Nothing, a little, more than is sorted by insertion, and so much that all runs are filled anew; with new nodes, one
 * of which stays alone, and from a graph without edges. */
START_TEST(a_patch_is_the_graph_that_its_edges_make)
{
    static const struct {
        size_t n, n_edges, n_nodes, n_add;
        double kept;
    } cases[] = {{40, 90, 40, 0, 1},   {40, 90, 40, 0, 0.9}, {40, 90, 43, 5, 0.95},       {200, 900, 200, 80, 0.5},
                 {40, 90, 40, 3, 0.0}, {40, 0, 50, 30, 1},   {3000, 6000, 3001, 500, 0.2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct kb_graph *old = random_graph(cases[c].n, cases[c].n_edges, c + 1), *patched = NULL, *fresh = NULL;
        struct kb_edge *edges = calloc(kb_graph_n_edges(old) + cases[c].n_add + 1, sizeof *edges);
        size_t n_kept, n = draw_patch(old, cases[c].n_nodes, cases[c].kept, cases[c].n_add, c + 50, edges, &n_kept);
        ck_assert_int_eq(kb_graph_patch(&patched, old, cases[c].n_nodes, edges, n, n_kept, &msg), KB_OK);
        ck_assert_int_eq(kb_graph_new(&fresh, cases[c].n_nodes, edges, n, &msg), KB_OK);
        expect_equal(patched, fresh);
        kb_graph_free(old);
        kb_graph_free(patched);
        kb_graph_free(fresh);
        free(edges);
    }
}
END_TEST

START_TEST(a_patch_with_another_weight_or_a_faulty_edge_behaves_like_a_new_graph)
{
    const struct kb_edge first[] = {{0, 1, 1}, {0, 2, 2}, {1, 2, 3}};
    const struct kb_edge heavier[] = {{0, 1, 1}, {1, 2, 3}, {2, 0, 5}};
    const struct kb_edge faulty[] = {{0, 1, 1}, {2, 1, 4}, {1, 2, 5}};
    struct kb_graph *old = NULL, *patched = NULL, *fresh = NULL;
    ck_assert_int_eq(kb_graph_new(&old, 3, first, 3, &msg), KB_OK);
    ck_assert_int_eq(kb_graph_patch(&patched, old, 3, heavier, 3, 2, &msg), KB_OK);
    ck_assert_int_eq(kb_graph_new(&fresh, 3, heavier, 3, &msg), KB_OK);
    expect_equal(patched, fresh);
    ck_assert(kb_graph_degree(patched, 2) == 8);
    kb_graph_free(patched);
    patched = NULL;
    ck_assert_int_eq(kb_graph_patch(&patched, old, 3, faulty, 3, 1, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/edges/2");
    ck_assert_ptr_null(patched);
    kb_graph_free(fresh);
    kb_graph_free(old);
}
END_TEST

int main(void)
{
    return KBT_RUN("graph", a_patch_is_the_graph_that_its_edges_make,
                   a_patch_with_another_weight_or_a_faulty_edge_behaves_like_a_new_graph,
                   dense_laplacian_equals_the_definition, sparse_product_equals_dense_product,
                   a_column_has_the_same_bits_in_any_company, laplacian_takes_constants_to_rho,
                   order_and_direction_of_edges_do_not_matter, edges_are_listed_once_and_sorted,
                   degrees_and_neighbours_are_those_of_the_edges, digest_tells_graphs_apart,
                   components_and_degrees_are_counted, faulty_edges_are_refused_by_name, equal_repeats_are_merged,
                   empty_graphs_are_graphs, no_memory_leaves_nothing_behind);
}
