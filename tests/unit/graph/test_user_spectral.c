/* User kernels from the spectrum of the Laplacian, each against an oracle that shares no step with it: powers by
 * elimination and repeated products, heat by its Taylor series, spectral_rbf by Jacobi's rotations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/chol.h"
#include "graph/graph.h"
#include "kbt.h"
#include "kbt_users.h"

static const struct kb_user_kernel_spec plain = {
    .type = KB_USER_LAPLACIAN, .rho = 0.3, .power = 1.0, .tau = 1.0, .n_vectors = 8};

/* --- helpers ------------------------------------------------------------------------------------------ */

/* L + rho I, both triangles. */
static double *dense(const struct kb_graph *graph, double rho)
{
    size_t n = kb_graph_n_nodes(graph);
    double *a = kbt_array(n * n);
    kb_graph_dense(graph, rho, 0.0, a);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < j; i++)
            a[j * n + i] = a[i * n + j];
    return a;
}

/* The Gram matrix over all nodes, by the interface that decisions use. */
static double *gram(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph)
{
    size_t n = kb_graph_n_nodes(graph);
    double *g = kbt_array(n * n);
    kbt_open_spec(spec, graph);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t slot = kbt_add_anchor(kbt_node_user(j));
        for (uint32_t i = 0; i < n; i++)
            g[j * n + i] = kbt_user_value(kbt_node_user(i), slot);
        ck_assert(g[j * n + j] == kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(j), kbt_users_scratch));
    }
    kbt_close_kernel();
    return g;
}

/* c = a b for symmetric n x n matrices; malloc'ed. */
static double *product(size_t n, const double *a, const double *b)
{
    double *c = kbt_array(n * n);
    kbt_multiply_t(n, n, a, b, c);
    return c;
}

static void expect_equal(size_t n, const double *got, const double *want, double tol)
{
    ck_assert_double_le(kbt_distance(n * n, got, want), tol);
}

static struct kb_graph *graph_of(size_t n, const struct kb_edge *edges, size_t n_edges)
{
    struct kb_graph *graph = NULL;
    ck_assert_int_eq(kb_graph_new(&graph, n, edges, n_edges, NULL), KB_OK);
    return graph;
}

/* --- powers ------------------------------------------------------------------------------------------- */

START_TEST(integer_powers_are_products_of_inverses)
{
    size_t n = KBT_SMALL;
    double *a = dense(kbt_small_graph, plain.rho), *inverse = kbt_array(n * n);
    kbt_inverse(n, a, inverse);
    double *want = kbt_array(n * n);
    memcpy(want, inverse, n * n * sizeof *want);
    for (int power = 2; power <= 4; power++) {
        struct kb_user_kernel_spec spec = plain;
        spec.power = power;
        double *more = product(n, want, inverse), *got = gram(&spec, kbt_small_graph);
        free(want);
        want = more;
        expect_equal(n, got, want, 1e-11);
        free(got);
    }
    free(a);
    free(inverse);
    free(want);
}
END_TEST

START_TEST(half_and_quarter_powers_multiply_to_the_inverse)
{
    size_t n = KBT_SMALL;
    double *a = dense(kbt_small_graph, plain.rho), *inverse = kbt_array(n * n);
    struct kb_user_kernel_spec half = plain, quarter = plain;
    half.power = 0.5;
    quarter.power = 0.25;
    kbt_inverse(n, a, inverse);
    double *g2 = gram(&half, kbt_small_graph), *g4 = gram(&quarter, kbt_small_graph);
    double *square = product(n, g2, g2), *of_quarter = product(n, g4, g4);
    expect_equal(n, square, inverse, 1e-11);
    expect_equal(n, of_quarter, g2, 1e-11);
    free(a);
    free(inverse);
    free(g2);
    free(g4);
    free(square);
    free(of_quarter);
}
END_TEST

START_TEST(powers_near_one_meet_the_inverse_by_cholesky)
{
    struct kb_user_kernel_spec near = plain;
    near.power = 1.0 + 1e-12;
    double *one = gram(&plain, kbt_small_graph), *other = gram(&near, kbt_small_graph);
    expect_equal(KBT_SMALL, other, one, 1e-10);
    free(one);
    free(other);
}
END_TEST

/* --- heat ---------------------------------------------------------------------------------------------- */

/* exp(-tau L) = (sum_k (-tau L / 2^s)^k / k!)^(2^s), s so large that the series has no cancellation. */
static double *heat_by_series(const struct kb_graph *graph, double tau)
{
    enum { SQUARINGS = 12, TERMS = 12 };
    size_t n = kb_graph_n_nodes(graph);
    double *step = dense(graph, 0.0), *sum = kbt_array(n * n), *term = kbt_array(n * n);
    for (size_t i = 0; i < n * n; i++) {
        step[i] *= -tau / (1 << SQUARINGS);
        sum[i] = term[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    }
    for (int k = 1; k <= TERMS; k++) {
        double *next = product(n, term, step);
        for (size_t i = 0; i < n * n; i++)
            sum[i] += next[i] /= k;
        free(term);
        term = next;
    }
    for (int s = 0; s < SQUARINGS; s++) {
        double *square = product(n, sum, sum);
        free(sum);
        sum = square;
    }
    free(step);
    free(term);
    return sum;
}

START_TEST(heat_equals_its_taylor_series)
{
    const double taus[] = {0.01, 1.0, 7.5};
    for (size_t t = 0; t < 3; t++) {
        struct kb_user_kernel_spec spec = plain;
        spec.type = KB_USER_HEAT;
        spec.tau = taus[t];
        double *want = heat_by_series(kbt_small_graph, taus[t]), *got = gram(&spec, kbt_small_graph);
        expect_equal(KBT_SMALL, got, want, 1e-11);
        free(want);
        free(got);
    }
}
END_TEST

START_TEST(heat_keeps_what_there_is_to_share)
{
    struct kb_user_kernel_spec spec = plain; /* rows of exp(-tau L) are distributions */
    spec.type = KB_USER_HEAT;
    double *g = gram(&spec, kbt_small_graph);
    for (size_t j = 0; j < KBT_SMALL; j++) {
        double sum = 0;
        for (size_t i = 0; i < KBT_SMALL; i++) {
            ck_assert_double_ge(g[j * KBT_SMALL + i], -1e-15);
            sum += g[j * KBT_SMALL + i];
        }
        ck_assert(kbt_close(sum, 1.0, 1e-13));
    }
    free(g);
}
END_TEST

/* --- spectral_rbf ----------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Squared distances over the m lowest vectors whose value is above the trivial bound; values in Jacobi's order. */
static double *distances_by_jacobi(const struct kb_graph *graph, size_t m)
{
    size_t n = kb_graph_n_nodes(graph);
    double *a = dense(graph, 0.0), *e = kbt_array(n), *v = kbt_array(n * n), *d2 = kbt_array(n * n);
    double *sorted = kbt_array(n);
    kbt_eigen(n, a, e, v);
    memcpy(sorted, e, n * sizeof *e);
    qsort(sorted, n, sizeof *sorted, ascending);
    double bound = 1e-9 * sorted[n - 1];
    size_t n_trivial = 0;
    while (sorted[n_trivial] <= bound)
        n_trivial++;
    double last = sorted[n_trivial + m - 1 < n ? n_trivial + m - 1 : n - 1] + bound;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; e[k] > bound && e[k] <= last && i < n; i++)
            for (size_t j = 0; j < n; j++)
                d2[j * n + i] += (v[k * n + i] - v[k * n + j]) * (v[k * n + i] - v[k * n + j]);
    free(a);
    free(e);
    free(v);
    free(sorted);
    return d2;
}

static double median_of(size_t n, const double *d2)
{
    double *d = kbt_array(n * n);
    size_t count = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < j; i++)
            if (d2[j * n + i] > 1e-20)
                d[count++] = sqrt(d2[j * n + i]);
    qsort(d, count, sizeof *d, ascending);
    double median = 0.5 * (d[(count - 1) / 2] + d[count / 2]);
    free(d);
    return median;
}

/* The last two nodes of the small graph are isolated; whether the others hang together is found by repeated steps. */
static void connect(const struct kb_graph *graph, bool *same)
{
    size_t n = kb_graph_n_nodes(graph);
    for (size_t i = 0; i < n; i++)
        same[i * n + i] = true;
    for (size_t i = 0; i < kb_graph_n_edges(graph); i++) {
        struct kb_edge e = kb_graph_edge(graph, i);
        same[e.u * n + e.v] = same[e.v * n + e.u] = true;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                same[i * n + j] |= same[i * n + k] && same[k * n + j];
}

static void expect_spectral(const struct kb_graph *graph, size_t m, double lengthscale)
{
    size_t n = kb_graph_n_nodes(graph);
    struct kb_user_kernel_spec spec = plain;
    spec.type = KB_USER_SPECTRAL_RBF;
    spec.n_vectors = m;
    spec.lengthscale = lengthscale;
    bool *same = calloc(n * n, sizeof *same);
    double *got = gram(&spec, graph), *d2 = distances_by_jacobi(graph, m);
    double scale = lengthscale > 0 ? lengthscale : median_of(n, d2);
    connect(graph, same);
    for (size_t i = 0; i < n * n; i++) {
        double want = same[i] ? exp(-d2[i] / (2 * scale * scale)) : 0.0;
        ck_assert_msg(kbt_close(got[i], want, 1e-10), "entry %zu: %.17g, want %.17g", i, got[i], want);
    }
    free(same);
    free(got);
    free(d2);
}

START_TEST(spectral_rbf_equals_the_definition_by_jacobi)
{
    expect_spectral(kbt_small_graph, 8, 0.0);
    expect_spectral(kbt_small_graph, 1, 0.0);
    expect_spectral(kbt_small_graph, 3, 0.25);
    expect_spectral(kbt_small_graph, 2048, 0.5); /* more than there are: all of them */
}
END_TEST

/* A star's middle eigenvalue is n - 2 fold: one vector of it would be LAPACK's choice. */
START_TEST(eigenvalues_that_coincide_come_together)
{
    const struct kb_edge star[] = {{0, 1, 1.0}, {0, 2, 1.0}, {0, 3, 1.0}, {0, 4, 1.0}, {0, 5, 1.0}};
    struct kb_graph *graph = graph_of(6, star, 5);
    struct kb_user_kernel_spec spec = plain;
    spec.type = KB_USER_SPECTRAL_RBF;
    spec.n_vectors = 1;
    spec.lengthscale = 0.7;
    double *g = gram(&spec, graph);
    for (size_t i = 1; i < 6; i++)
        for (size_t j = 1; j < i; j++) /* leaves are alike: |x_i - x_j|^2 = 2 over their whole eigenspace */
            ck_assert(kbt_close(g[j * 6 + i], exp(-2.0 / (2 * 0.49)), 1e-12));
    free(g);
    expect_spectral(graph, 1, 0.7);
    kb_graph_free(graph);
}
END_TEST

/* Two equal triangles: every eigenvalue is shared by both, and the bases mix them. */
START_TEST(components_do_not_share)
{
    const struct kb_edge two[] = {{0, 1, 1.0}, {1, 2, 1.0}, {0, 2, 1.0}, {3, 4, 1.0}, {4, 5, 1.0}, {3, 5, 1.0}};
    struct kb_graph *graph = graph_of(8, two, 6);
    struct kb_user_kernel_spec specs[] = {plain, plain, plain};
    specs[0].power = 0.5;
    specs[1].type = KB_USER_HEAT;
    specs[2].type = KB_USER_SPECTRAL_RBF;
    specs[2].n_vectors = 1;
    for (size_t s = 0; s < 3; s++) {
        double *g = gram(&specs[s], graph);
        for (size_t i = 0; i < 8; i++)
            for (size_t j = 0; j < 8; j++) {
                bool is_apart = i != j && (i / 3 != j / 3 || i >= 6);
                ck_assert(!is_apart || g[j * 8 + i] == 0.0);
            }
        ck_assert(g[1] > 0.0 && kbt_close(g[1], g[3 * 8 + 4], 1e-13)); /* the triangles are alike */
        free(g);
    }
    kb_graph_free(graph);
}
END_TEST

/* Nodes of two paths in turn, with weights that make rounding differ: what comes out of Q f(E) Q^T is not 0 then. */
START_TEST(zeros_between_components_are_exact)
{
    enum { N = 80 };
    struct kb_edge edges[N - 2];
    for (uint32_t i = 0; i + 2 < N; i++)
        edges[i] = (struct kb_edge){i, i + 2, 0.3 + 0.01 * (double)(i * i % 37)};
    struct kb_graph *graph = graph_of(N, edges, N - 2);
    struct kb_user_kernel_spec specs[] = {plain, plain};
    specs[0].power = 0.5;
    specs[1].type = KB_USER_HEAT;
    for (size_t s = 0; s < 2; s++) {
        double *g = gram(&specs[s], graph);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < i; j++)
                ck_assert((i - j) % 2 == 0 || g[j * N + i] == 0.0);
        free(g);
    }
    kb_graph_free(graph);
}
END_TEST

/* The same graph with its nodes numbered backwards gives the same kernel, eigenvalues that coincide included. */
START_TEST(spectral_kernels_do_not_depend_on_the_numbering)
{
    enum { N = 9 };
    struct kb_edge ring[N], back[N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t j = (i + 1) % N;
        ring[i] = (struct kb_edge){i, j, 1.0}; /* a ring: all eigenvalues but the least come in pairs */
        back[i] = (struct kb_edge){N - 1 - (i * 4) % N, N - 1 - (j * 4) % N, 1.0};
    }
    struct kb_graph *a = graph_of(N, ring, N), *b = graph_of(N, back, N);
    struct kb_user_kernel_spec specs[] = {plain, plain, plain};
    specs[0].power = 1.5;
    specs[1].type = KB_USER_HEAT;
    specs[2].type = KB_USER_SPECTRAL_RBF;
    specs[2].n_vectors = 3; /* splits a pair: its other half comes along */
    for (size_t s = 0; s < 3; s++) {
        double *ga = gram(&specs[s], a), *gb = gram(&specs[s], b);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++)
                ck_assert(kbt_close(ga[j * N + i], gb[(N - 1 - (j * 4) % N) * N + N - 1 - (i * 4) % N], 1e-12));
        free(ga);
        free(gb);
    }
    kb_graph_free(a);
    kb_graph_free(b);
}
END_TEST

/* --- strangers, normalisation, positive definiteness, limits ------------------------------------------------- */

static struct kb_user_kernel_spec variant(size_t i, bool is_normalized)
{
    struct kb_user_kernel_spec spec = plain;
    spec.is_normalized = is_normalized;
    spec.power = i == 0 ? 0.5 : i == 1 ? 2.0 : 1.0;
    spec.type = i < 2 ? KB_USER_LAPLACIAN : i == 2 ? KB_USER_HEAT : KB_USER_SPECTRAL_RBF;
    return spec;
}

START_TEST(strangers_are_isolated_users)
{
    const double variances[] = {pow(0.3, -0.5), pow(0.3, -2.0), 1.0, 1.0};
    const struct kb_graph *graphs[] = {kbt_small_graph, NULL};
    for (size_t c = 0; c < 8; c++) {
        struct kb_user_kernel_spec spec = variant(c % 4, false);
        kbt_open_spec(&spec, graphs[c / 4]);
        uint32_t slot = kbt_add_anchor(kbt_stranger(3));
        ck_assert(kbt_close(kbt_user_value(kbt_stranger(3), slot), variances[c % 4], 1e-14));
        ck_assert(kbt_user_value(kbt_stranger(4), slot) == 0.0);
        if (graphs[c / 4] != NULL) {
            ck_assert(kbt_user_value(kbt_node_user(5), slot) == 0.0);
            /* the last node has no edge: as a stranger, but for the rounding of L's null space */
            ck_assert(kbt_close(kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(KBT_SMALL - 1), kbt_users_scratch),
                                variances[c % 4], 1e-12));
        }
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(normalized_kernels_have_ones_on_the_diagonal)
{
    for (size_t v = 0; v < 4; v++) {
        struct kb_user_kernel_spec raw = variant(v, false), scaled = variant(v, true);
        double *g = gram(&raw, kbt_small_graph), *h = gram(&scaled, kbt_small_graph);
        for (size_t j = 0; j < KBT_SMALL; j++) {
            ck_assert(h[j * (KBT_SMALL + 1)] == 1.0);
            for (size_t i = 0; i < KBT_SMALL; i++) {
                double scale = sqrt(g[i * (KBT_SMALL + 1)] * g[j * (KBT_SMALL + 1)]);
                ck_assert(kbt_close(h[j * KBT_SMALL + i], g[j * KBT_SMALL + i] / scale, 1e-14));
            }
        }
        free(g);
        free(h);
    }
}
END_TEST

START_TEST(gram_matrices_are_symmetric_and_positive_semidefinite)
{
    for (size_t v = 0; v < 4; v++) {
        struct kb_user_kernel_spec spec = variant(v, false);
        struct kb_chol chol;
        double *g = gram(&spec, kbt_small_graph);
        for (size_t j = 0; j < KBT_SMALL; j++)
            for (size_t i = 0; i < j; i++)
                ck_assert(g[j * KBT_SMALL + i] == g[i * KBT_SMALL + j]);
        for (size_t i = 0; i < KBT_SMALL; i++)
            g[i * (KBT_SMALL + 1)] += 1e-13 * g[(KBT_SMALL - 1) * (KBT_SMALL + 1)];
        kb_chol_init(&chol);
        ck_assert_int_eq(kb_chol_factor(&chol, g, KBT_SMALL, KBT_SMALL), KB_OK);
        kb_chol_close(&chol);
        free(g);
    }
}
END_TEST

START_TEST(graphs_beyond_the_dense_form_are_refused)
{
    for (size_t v = 0; v < 4; v++) {
        struct kb_user_kernel_spec spec = variant(v, false);
        struct kb_user_kernel *k = NULL;
        struct kb_errmsg msg = {"", ""};
        ck_assert_int_eq(kb_user_kernel_new(&k, &spec, kbt_large_graph, kbt_key), KB_EUNSUPPORTED);
        ck_assert_ptr_null(k);
        ck_assert_int_eq(kb_user_kernel_check(&spec, KB_GRAPH_DENSE_MAX, "/x", &msg), KB_OK);
        ck_assert_int_eq(kb_user_kernel_check(&spec, KB_GRAPH_DENSE_MAX + 1, "/x", &msg), KB_EUNSUPPORTED);
        ck_assert_str_eq(msg.pointer, "/x");
        ck_assert_ptr_nonnull(strstr(msg.text, "2049"));
    }
    ck_assert_int_eq(kb_user_kernel_check(&plain, 1000000, "", NULL), KB_OK);
}
END_TEST

START_TEST(weights_far_above_rho_are_refused)
{
    const struct kb_edge heavy[] = {{0, 1, 1e12}, {1, 2, 1.0}};
    struct kb_graph *graph = graph_of(3, heavy, 2);
    struct kb_user_kernel_spec spec = plain;
    struct kb_user_kernel *k = NULL;
    spec.power = 2.0;
    spec.rho = 1e-3;
    ck_assert_int_eq(kb_user_kernel_new(&k, &spec, graph, kbt_key), KB_ENOTPD);
    kb_graph_free(graph);
}
END_TEST

/* exp(-tau e) of what rounding has left in the place of e = 0. */
START_TEST(a_diffusion_that_leaves_nothing_is_refused)
{
    struct kb_edge heavy[KBT_SMALL - 1];
    struct kb_user_kernel_spec spec = plain;
    struct kb_user_kernel *k = NULL;
    for (uint32_t i = 0; i + 1 < KBT_SMALL; i++)
        heavy[i] = (struct kb_edge){i, i + 1, 1e12 * (1 + i % 7)};
    struct kb_graph *graph = graph_of(KBT_SMALL, heavy, KBT_SMALL - 1);
    spec.type = KB_USER_HEAT;
    spec.tau = 1e12;
    const enum kb_err rc = kb_user_kernel_new(&k, &spec, graph, kbt_key);
    ck_assert(rc == KB_ENOTPD || rc == KB_OK);
    for (uint32_t i = 0; rc == KB_OK && i < KBT_SMALL; i++)
        ck_assert_double_gt(kb_user_kernel_diag(k, kbt_node_user(i), NULL), 0);
    kb_user_kernel_free(k);
    kb_graph_free(graph);
}
END_TEST

START_TEST(the_least_lengthscale_tells_users_apart_and_no_more)
{
    struct kb_user_kernel_spec spec = plain;
    spec.type = KB_USER_SPECTRAL_RBF;
    spec.lengthscale = 4.9e-324;
    double *g = gram(&spec, kbt_small_graph);
    for (size_t i = 0; i < KBT_SMALL; i++)
        ck_assert_double_eq(g[i * (KBT_SMALL + 1)], 1);
    for (size_t i = 0; i < KBT_SMALL * KBT_SMALL; i++)
        ck_assert(g[i] >= 0 && g[i] <= 1);
    free(g);
}
END_TEST

static enum kb_err make(void *arg)
{
    struct kb_user_kernel *k = NULL;
    enum kb_err rc = kb_user_kernel_new(&k, arg, kbt_small_graph, kbt_key);
    kb_user_kernel_free(k);
    return rc;
}

static void nothing(void *arg)
{
    (void)arg;
}

START_TEST(each_allocation_may_fail)
{
    for (size_t v = 0; v < 4; v++) {
        struct kb_user_kernel_spec spec = variant(v, false);
        ck_assert_uint_ge(kbt_brutal(make, nothing, &spec), 6);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH("user_spectral", kbt_users_set_up, kbt_users_tear_down, integer_powers_are_products_of_inverses,
                        half_and_quarter_powers_multiply_to_the_inverse, powers_near_one_meet_the_inverse_by_cholesky,
                        heat_equals_its_taylor_series, heat_keeps_what_there_is_to_share,
                        spectral_rbf_equals_the_definition_by_jacobi, eigenvalues_that_coincide_come_together,
                        components_do_not_share, zeros_between_components_are_exact,
                        spectral_kernels_do_not_depend_on_the_numbering, strangers_are_isolated_users,
                        normalized_kernels_have_ones_on_the_diagonal,
                        gram_matrices_are_symmetric_and_positive_semidefinite, graphs_beyond_the_dense_form_are_refused,
                        weights_far_above_rho_are_refused, a_diffusion_that_leaves_nothing_is_refused,
                        the_least_lengthscale_tells_users_apart_and_no_more, each_allocation_may_fail);
}
