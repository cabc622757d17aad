/* Fixture of the user kernel's tests (kbt_users.h). The inverse of the large Laplacian comes from kb_spd_inverse,
 * which has a test of its own against elimination (test_chol.c). */
#include "kbt_users.h"

#include <stdlib.h>

#include "linalg/chol.h"
#include "base/ids.h"

struct kb_graph *kbt_small_graph, *kbt_large_graph;
double *kbt_large_inverse[2];
const double kbt_populations[2] = {0.0, 0.8};
struct kb_user_kernel *kbt_users_kernel;
struct kb_user_scratch *kbt_users_scratch;

static struct kb_graph *make_graph(size_t n, size_t n_extra, uint64_t key)
{
    struct kb_edge *edges;
    struct kb_graph *graph = NULL;
    size_t n_edges = kbt_random_edges(n - 2, n_extra, false, key, &edges);
    ck_assert_int_eq(kb_graph_new(&graph, n, edges, n_edges, NULL), KB_OK);
    free(edges);
    return graph;
}

void kbt_users_set_up(void)
{
    kbt_small_graph = make_graph(KBT_SMALL, 100, 1);
    kbt_large_graph = make_graph(KBT_LARGE, 5000, 2);
    for (size_t p = 0; p < 2; p++) {
        size_t order = KBT_LARGE + p;
        kbt_large_inverse[p] = kbt_array(order * order);
        kb_graph_dense(kbt_large_graph, KBT_RHO, kbt_populations[p], kbt_large_inverse[p]);
        ck_assert_int_eq(kb_spd_inverse(order, kbt_large_inverse[p]), KB_OK);
    }
}

void kbt_users_tear_down(void)
{
    kb_graph_free(kbt_small_graph);
    kb_graph_free(kbt_large_graph);
    free(kbt_large_inverse[0]);
    free(kbt_large_inverse[1]);
}

void kbt_open_kernel(enum kb_user_kernel_type type, double population, bool is_normalized, const struct kb_graph *graph)
{
    struct kb_user_kernel_spec spec = {.type = type,
                                       .rho = KBT_RHO,
                                       .population = population,
                                       .is_normalized = is_normalized,
                                       .power = 1.0,
                                       .tau = 1.0,
                                       .n_vectors = 8};
    kbt_open_spec(&spec, graph);
}

void kbt_open_spec(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph)
{
    ck_assert_int_eq(kb_user_kernel_new(&kbt_users_kernel, spec, graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_user_scratch_new(&kbt_users_scratch, kbt_users_kernel), KB_OK);
}

void kbt_close_kernel(void)
{
    kb_user_scratch_free(kbt_users_scratch);
    kb_user_kernel_free(kbt_users_kernel);
}

struct kb_user kbt_node_user(uint32_t node)
{
    return (struct kb_user){.index = 1000 + node, .node = node};
}

struct kb_user kbt_stranger(uint32_t i)
{
    return (struct kb_user){.index = i, .node = KB_ID_NONE};
}

uint32_t kbt_add_anchor(struct kb_user u)
{
    uint32_t slot;
    ck_assert_int_eq(kb_user_kernel_add_anchors(kbt_users_kernel, &u, 1, &slot, kbt_users_scratch), KB_OK);
    return slot;
}

double kbt_user_value(struct kb_user u, uint32_t slot)
{
    double out, diag = kb_user_kernel_diag(kbt_users_kernel, u, kbt_users_scratch);
    kb_user_kernel_row_at(kbt_users_kernel, u, diag, &slot, 1, &out);
    return out;
}
