/* The weighted user graph in compressed adjacency and its Laplacian (graph.h)  [LK, sec. 2].
 *
 *   letter      shape       meaning
 *   n, e                    nodes, distinct undirected edges
 *   w_ij                    edge weight, > 0;  d_i = sum_j w_ij
 *   A           n (+1)      L + rho I,  (A x)_i = (d_i + rho) x_i - sum_j w_ij x_j
 *   p                       the virtual node, tied to all by weight `population`; index n
 *
 * The product with A keeps, for every column, one fixed order of operations whatever the number of columns
 * beside it: conjugate gradients give the same bits alone or in a block (laplacian_cg.c relies on it).
 *
 * Memory: 16 e (edge list) + 24 e (both directions) + 16 n bytes.
 *
 * Who uses it: user_graph.c builds one per edit, user_kernel_*.c and laplacian_cg.c multiply by A or take it
 * dense. Building is the writer's work in `reserve`; the finished graph is immutable and read by any number
 * of threads. Nothing here allocates after kb_graph_new.
 *
 * The virtual node is a matter of the product, not of the arrays: it would add a neighbour to every run, and
 * its weight can change without a new graph. It joins all components, so that the crowd's average reaches
 * everybody. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/clones.h"
#include "graph/graph_impl.h"
#include "base/hash.h"

/* NULL and a half-built graph are fine: what was not made is NULL. The caller makes sure that nobody
 * reads it any more; the engine frees the old graph under exclusion. */
void kb_graph_free(struct kb_graph *g)
{
    if (g == NULL)
        return;
    kb_free(g->edge);
    kb_free(g->start);
    kb_free(g->neighbour);
    kb_free(g->weight);
    kb_free(g->degree);
    kb_free(g);
}

/* --- looking --------------------------------------------------------------------------------------- */

size_t kb_graph_n_nodes(const struct kb_graph *g)
{
    return g->n;
}

size_t kb_graph_n_edges(const struct kb_graph *g)
{
    return g->e;
}

/* For those who need all edges in order: patches (user_graph.c) and the snapshot. */
struct kb_edge kb_graph_edge(const struct kb_graph *g, size_t i)
{
    assert(i < g->e);
    return g->edge[i];
}

/* d_i = L_ii. 0 for a user without edges: isolated nodes are allowed, rho keeps A definite. */
double kb_graph_degree(const struct kb_graph *g, uint32_t node)
{
    assert(node < g->n);
    return g->degree[node];
}

struct kb_neighbours kb_graph_neighbours(const struct kb_graph *g, uint32_t node)
{
    const size_t start = g->start[node];
    return (struct kb_neighbours){g->neighbour + start, g->weight + start, g->start[node + 1] - start};
}

/* Representative of a node's component. Writes to `parent` while it looks: shorter paths for those who come
 * later. */
static uint32_t find_root(uint32_t *parent, uint32_t node)
{
    while (parent[node] != node) {
        parent[node] = parent[parent[node]]; /* path halving */
        node = parent[node];
    }
    return node;
}

/* Union-find over the edge list, the smaller root wins, so that a root is the least node: near O(n + e). */
size_t kb_graph_components(const struct kb_graph *g, uint32_t *label)
{
    for (uint32_t i = 0; i < g->n; i++)
        label[i] = i;
    size_t n_components = g->n;
    for (size_t i = 0; i < g->e; i++) {
        uint32_t a = find_root(label, g->edge[i].u), b = find_root(label, g->edge[i].v);
        n_components -= a != b;
        label[a > b ? a : b] = a > b ? b : a;
    }
    for (uint32_t i = 0; i < g->n; i++)
        label[i] = find_root(label, i);
    return n_components;
}

/* Both are reported to people only, never used by the model. */
size_t kb_graph_n_components(const struct kb_graph *g)
{
    return g->n_components;
}

struct kb_degrees kb_graph_degrees(const struct kb_graph *g)
{
    return g->degrees;
}

uint64_t kb_graph_digest(const struct kb_graph *g, uint64_t h)
{
    return kb_hash_u64(h, g->digest);
}

/* For the figures of memory that /model and the metrics show; start has one entry more than there are nodes. */
size_t kb_graph_bytes(const struct kb_graph *g)
{
    size_t per_edge = sizeof *g->edge + 2 * (sizeof *g->neighbour + sizeof *g->weight);
    size_t per_node = sizeof *g->start + sizeof *g->degree;
    return sizeof *g + g->e * per_edge + (g->n + 1) * per_node;
}

/* --- the Laplacian --------------------------------------------------------------------------------- */

/* Most columns in one product (KB_CG_PANEL); a row of them is summed in registers. */
#define MAX_WIDTH 16

/* y = A x over the n nodes for `width` interleaved columns; inlined with a constant width where it matters. The
 * virtual node's part is taken off afterwards by apply_virtual. `shift` is what stands on the diagonal
 * besides the degree: rho, plus the weight to the virtual node. x and y are interleaved, so one neighbour's
 * values for all columns share cache lines. Rows are independent of each other; the sum over a row runs in
 * ascending order of the neighbour. */
static inline __attribute__((always_inline)) void apply_rows(const struct kb_graph *g, double shift, size_t width,
                                                             const double *restrict x, double *restrict y)
{
    double sum[MAX_WIDTH];
    for (size_t i = 0; i < g->n; i++) {
        double diagonal = g->degree[i] + shift;
        for (size_t k = 0; k < width; k++)
            sum[k] = diagonal * x[i * width + k];
        for (size_t at = g->start[i]; at < g->start[i + 1]; at++) {
            const double *other = x + (size_t)g->neighbour[at] * width;
            double weight = g->weight[at];
            for (size_t k = 0; k < width; k++)
                sum[k] -= weight * other[k];
        }
        memcpy(y + i * width, sum, width * sizeof *y);
    }
}

/* Compiled for several instruction sets (clones.h); the loader picks one. */
KB_HOT static void apply_rows_16(const struct kb_graph *g, double shift, const double *restrict x, double *restrict y)
{
    apply_rows(g, shift, MAX_WIDTH, x, y);
}

/* Row and column of the virtual node: y_i -= w x_p, y_p = (n w + rho) x_p - w sum_i x_i. O(n width), beside
 * O(e width) for the edges. */
static void apply_virtual(const struct kb_graph *g, double rho, double population, size_t width, const double *x,
                          double *y)
{
    const double *x_p = x + g->n * width;
    double *y_p = y + g->n * width;
    for (size_t k = 0; k < width; k++)
        y_p[k] = ((double)g->n * population + rho) * x_p[k];
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < width; k++) {
            y[i * width + k] -= population * x_p[k];
            y_p[k] -= population * x[i * width + k];
        }
}

/* A constant width lets the compiler keep a row of sums in registers; other widths are for tests. With
 * population > 0 both x and y have a row n for the virtual node, else n rows. */
void kb_graph_apply(const struct kb_graph *g, double rho, double population, size_t width, const double *x, double *y)
{
    assert(width <= MAX_WIDTH);
    if (width == 1)
        apply_rows(g, rho + population, 1, x, y);
    else if (width == MAX_WIDTH)
        apply_rows_16(g, rho + population, x, y);
    else
        apply_rows(g, rho + population, width, x, y);
    if (population > 0.0)
        apply_virtual(g, rho, population, width, x, y);
}

/* Lower triangle only: u < v, hence entry (v, u). For graphs small enough to be inverted once
 * (user_kernel.c). Edges are distinct, so entries are set, not added. */
void kb_graph_dense(const struct kb_graph *g, double rho, double population, double *a)
{
    size_t order = g->n + (population > 0.0);
    memset(a, 0, order * order * sizeof *a);
    for (size_t j = 0; j < g->n; j++) {
        a[j * order + j] = g->degree[j] + rho + population;
        if (population > 0.0)
            a[j * order + g->n] = -population;
    }
    for (size_t i = 0; i < g->e; i++)
        a[(size_t)g->edge[i].u * order + g->edge[i].v] = -g->edge[i].weight;
    if (population > 0.0)
        a[g->n * order + g->n] = (double)g->n * population + rho;
}
