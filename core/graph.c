/* The weighted user graph in compressed adjacency and its Laplacian (graph.h)  [LK, sec. 2].
 *
 *   letter      shape       meaning
 *   n, e                    nodes, distinct undirected edges
 *   w_ij                    edge weight, > 0;  d_i = sum_j w_ij
 *   A           n (+1)      L + rho I,  (A x)_i = (d_i + rho) x_i - sum_j w_ij x_j
 *   p                       the virtual node, tied to all by weight `population`; index n
 *
 * Edges are sorted by (u, v) with two stable counting passes, O(n + e), so the arrays, every sum over neighbours
 * and the digest depend on the set of edges only, not on the order they came in.
 *
 * The product with A keeps, for every column, one fixed order of operations whatever the number of columns
 * beside it: conjugate gradients give the same bits alone or in a block (laplacian_cg.c relies on it).
 *
 * Memory: 16 e (edge list) + 24 e (both directions) + 16 n bytes.
 *
 * Who uses it: user_graph.c builds one per edit, user_kernel_*.c and laplacian_cg.c multiply by A or take it
 * dense. Building is the writer's work in `reserve`; the finished graph is immutable and read by any number
 * of threads. Nothing here allocates after kb_graph_new, except the count of components.
 *
 * The virtual node is a matter of the product, not of the arrays: it would add a neighbour to every run, and
 * its weight can change without a new graph. It joins all components, so that the crowd's average reaches
 * everybody. */
#include "graph.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "alloc.h"
#include "clones.h"
#include "hash.h"

struct kb_graph {
    size_t n, e;
    struct kb_edge *edge; /* [e] u < v, sorted */
    size_t *start;        /* [n + 1] of each node's run in the two arrays below */
    uint32_t *neighbour;  /* [2 e] ascending within a run */
    double *weight;       /* [2 e] */
    double *degree;       /* [n] */
    uint64_t digest;
};

/* --- building -------------------------------------------------------------------------------------- */

/* What an edge must satisfy alone; repeats are looked at once the edges are sorted. Also refuses NaN: the
 * comparison with 0 is written so that it is false for one. */
static enum kb_err check_edge(const struct kb_edge *edge, size_t i, size_t n_nodes, struct kb_errmsg *msg)
{
    if (edge->u >= n_nodes || edge->v >= n_nodes)
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "node out of range");
    if (edge->u == edge->v)
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "a loop: an edge joins two different users");
    if (!(edge->weight > 0.0) || !isfinite(edge->weight))
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "the weight must be a finite number above 0");
    return KB_OK;
}

/* The ends of an undirected edge by size: the two sort keys. */
static uint32_t lower_end(const struct kb_edge *edge)
{
    return edge->u < edge->v ? edge->u : edge->v;
}

static uint32_t upper_end(const struct kb_edge *edge)
{
    return edge->u < edge->v ? edge->v : edge->u;
}

/* Stable counting sort of the indices in `from` by an end of their edges. start: n_nodes + 1 counters. `from`
 * and `to` must not overlap: an index is written before all of `from` has been read. O(n + e). */
static void sort_by_end(const struct kb_edge *edges, size_t n_edges, uint32_t (*end)(const struct kb_edge *),
                        size_t n_nodes, size_t *start, const size_t *from, size_t *to)
{
    memset(start, 0, (n_nodes + 1) * sizeof *start);
    for (size_t i = 0; i < n_edges; i++)
        start[end(&edges[i]) + 1]++;
    for (size_t v = 0; v < n_nodes; v++)
        start[v + 1] += start[v];
    for (size_t i = 0; i < n_edges; i++)
        to[start[end(&edges[from[i]])]++] = from[i];
}

/* Copies the edges in the given order into g->edge with u < v; equal repeats are merged, others refused.
 * Repeats stand side by side by now. Which of two unequal ones is named in the message is the later in the
 * request, because the sort is stable. */
static enum kb_err merge_edges(struct kb_graph *g, const struct kb_edge *edges, size_t n_edges, const size_t *order,
                               struct kb_errmsg *msg)
{
    for (size_t i = 0; i < n_edges; i++) {
        const struct kb_edge *in = &edges[order[i]];
        struct kb_edge edge = {.u = lower_end(in), .v = upper_end(in), .weight = in->weight};
        const struct kb_edge *last = g->e > 0 ? &g->edge[g->e - 1] : NULL;
        if (last == NULL || last->u != edge.u || last->v != edge.v)
            g->edge[g->e++] = edge;
        else if (last->weight < edge.weight || last->weight > edge.weight)
            return kb_fail_item(KB_EINVAL, msg, "/edges", order[i], "",
                                "the same pair stands before with another weight");
    }
    return KB_OK;
}

/* Sorted, merged edge list of the graph. By v first, then by u: the second pass is stable and keeps the order
 * of the first within equal u. */
static enum kb_err sort_edges(struct kb_graph *g, const struct kb_edge *edges, size_t n_edges, struct kb_errmsg *msg)
{
    enum kb_err rc = KB_ENOMEM;
    size_t *start = kb_array(g->n + 1, 1, sizeof *start);
    size_t *order = kb_array(n_edges, 2, sizeof *order);
    g->edge = kb_array(n_edges, 1, sizeof *g->edge);
    if (start == NULL || order == NULL || g->edge == NULL)
        goto out;
    for (size_t i = 0; i < n_edges; i++)
        order[i] = i;
    sort_by_end(edges, n_edges, upper_end, g->n, start, order, order + n_edges);
    sort_by_end(edges, n_edges, lower_end, g->n, start, order + n_edges, order);
    rc = merge_edges(g, edges, n_edges, order, msg);
out:
    kb_free(start);
    kb_free(order);
    return rc;
}

/* Appends to the run of `node`; fill counts what the run holds so far. */
static void add_neighbour(struct kb_graph *g, size_t *fill, uint32_t node, uint32_t neighbour, double weight)
{
    size_t at = g->start[node] + fill[node]++;
    g->neighbour[at] = neighbour;
    g->weight[at] = weight;
    g->degree[node] += weight;
}

/* Both directions of every edge, by node. The list is walked twice so that each run comes out ascending: first
 * the neighbours below a node (edges sorted by u), then those above it. Degrees are sums in ascending order
 * of the neighbour, so their last bits do not depend on the input's order. */
static void fill_adjacency(struct kb_graph *g, size_t *fill)
{
    for (size_t i = 0; i < g->e; i++) {
        g->start[g->edge[i].u + 1]++;
        g->start[g->edge[i].v + 1]++;
    }
    for (size_t v = 0; v < g->n; v++)
        g->start[v + 1] += g->start[v];
    for (size_t i = 0; i < g->e; i++)
        add_neighbour(g, fill, g->edge[i].v, g->edge[i].u, g->edge[i].weight);
    for (size_t i = 0; i < g->e; i++)
        add_neighbour(g, fill, g->edge[i].u, g->edge[i].v, g->edge[i].weight);
}

/* The arrays of both directions; a failure leaves what was made to kb_graph_free. */
static enum kb_err build_adjacency(struct kb_graph *g)
{
    size_t *fill = kb_array(g->n, 1, sizeof *fill);
    g->start = kb_array(g->n + 1, 1, sizeof *g->start);
    g->neighbour = kb_array(g->e, 2, sizeof *g->neighbour);
    g->weight = kb_array(g->e, 2, sizeof *g->weight);
    g->degree = kb_array(g->n, 1, sizeof *g->degree);
    bool has_all = fill && g->start && g->neighbour && g->weight && g->degree;
    if (has_all)
        fill_adjacency(g, fill);
    kb_free(fill);
    return has_all ? KB_OK : KB_ENOMEM;
}

/* Weights whose sum overflows would make a degree infinite; refuse them here rather than carry it on. */
static enum kb_err check_degrees(const struct kb_graph *g, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < g->n; i++)
        if (!isfinite(g->degree[i]))
            return kb_fail(KB_EINVAL, msg, "/edges", "the weights of a user's edges add up to infinity");
    return KB_OK;
}

/* Over the sorted list, so equal graphs have equal digests however their edges came in; the counts go first. Each edge
 * once. O(e), here and not whenever somebody asks. */
static uint64_t digest_of(const struct kb_graph *g)
{
    uint64_t h = kb_hash_mix(kb_hash_mix(KB_HASH_INIT, g->n), g->e);

    for (size_t i = 0; i < g->e; i++) {
        h = kb_hash_mix(h, ((uint64_t)g->edge[i].u << 32) | g->edge[i].v);
        h = kb_hash_mix_doubles(h, &g->edge[i].weight, 1);
    }
    return kb_hash_finish(h);
}

/* *out is written last: a refused graph leaves the caller's pointer as it was. */
enum kb_err kb_graph_new(struct kb_graph **out, size_t n_nodes, const struct kb_edge *edges, size_t n_edges,
                         struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;
    if (n_nodes >= UINT32_MAX)
        return kb_fail(KB_ELIMIT, msg, "/users", "too many users");
    for (size_t i = 0; i < n_edges && rc == KB_OK; i++)
        rc = check_edge(&edges[i], i, n_nodes, msg);
    if (rc != KB_OK)
        return rc;
    struct kb_graph *g = kb_array(1, 1, sizeof *g);
    if (g == NULL)
        return KB_ENOMEM;
    g->n = n_nodes;
    KB_TRY(sort_edges(g, edges, n_edges, msg));
    KB_TRY(build_adjacency(g));
    KB_TRY(check_degrees(g, msg));
    g->digest = digest_of(g);
    *out = g;
    g = NULL;
out:
    kb_graph_free(g);
    return rc;
}

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

/* Length of the node's run; the unweighted degree. */
size_t kb_graph_n_neighbours(const struct kb_graph *g, uint32_t node)
{
    assert(node < g->n);
    return g->start[node + 1] - g->start[node];
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

/* Reported to people only (GET graph), never used by the model. */
size_t kb_graph_n_components(const struct kb_graph *g)
{
    uint32_t *label = kb_array(g->n, 1, sizeof *label);
    size_t n_components = label != NULL ? kb_graph_components(g, label) : 0;
    kb_free(label);
    return n_components;
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
