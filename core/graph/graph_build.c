/* Graphs from lists of edges (graph.h): checked, sorted, merged, then both directions of each.
 *
 * Edges are sorted by (u, v) with two stable counting passes, O(n + e), or merged into those that are sorted already,
 * so the arrays, every sum over neighbours and the digest depend on the set of edges only, not on the order they came
 * in. A million nodes with five edges each take less than a second. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph_impl.h"
#include "base/hash.h"
#include "base/magnitude.h"

#define FEW_EDGES 64u /* are sorted by insertion */

/* What an edge must satisfy alone; repeats are looked at once the edges are sorted. Also refuses NaN: the
 * comparison with 0 is written so that it is false for one. */
static enum kb_err check_edge(const struct kb_edge *edge, size_t i, size_t n_nodes, struct kb_errmsg *msg)
{
    if (edge->u >= n_nodes || edge->v >= n_nodes)
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "node out of range");
    if (edge->u == edge->v)
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "a loop: an edge joins two different users");
    if (!(edge->weight > 0.0) || !kb_is_measurable(edge->weight))
        return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "the weight must be above 0 and at most %g",
                            KB_MOST_MAGNITUDE);
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

/* Edges that are in order, as kb_graph lists them. */
struct run {
    const struct kb_edge *edge;
    size_t n;
};

/* Moves what comes before `edge` from the run to the graph. */
static void take_before(struct kb_graph *g, struct run *sorted, const struct kb_edge *edge)
{
    size_t n = 0;
    while (n < sorted->n &&
           (sorted->edge[n].u < edge->u || (sorted->edge[n].u == edge->u && sorted->edge[n].v < edge->v)))
        n++;
    if (n > 0)
        memcpy(g->edge + g->e, sorted->edge, n * sizeof *g->edge);
    g->e += n;
    sorted->edge += n;
    sorted->n -= n;
}

/* Copies the edges in the given order into g->edge with u < v, those of the sorted run between them; equal repeats are
 * merged, others refused. Repeats stand side by side by now. Which of two unequal ones is named in the message, by its
 * place behind the run, is the later in the request, because the sort is stable. */
static enum kb_err merge_edges(struct kb_graph *g, struct run sorted, const struct kb_edge *edges, size_t n_edges,
                               const size_t *order, struct kb_errmsg *msg)
{
    const size_t n_sorted = sorted.n;
    for (size_t i = 0; i < n_edges; i++) {
        const struct kb_edge *in = &edges[order[i]];
        struct kb_edge edge = {.u = lower_end(in), .v = upper_end(in), .weight = in->weight};
        take_before(g, &sorted, &edge);
        const struct kb_edge *last = g->e > 0 ? &g->edge[g->e - 1] : NULL;
        if (last == NULL || last->u != edge.u || last->v != edge.v)
            g->edge[g->e++] = edge;
        else if (last->weight < edge.weight || last->weight > edge.weight)
            return kb_fail_item(KB_EINVAL, msg, "/edges", n_sorted + order[i], "",
                                "the same pair stands before with another weight");
    }
    if (sorted.n > 0)
        memcpy(g->edge + g->e, sorted.edge, sorted.n * sizeof *g->edge);
    g->e += sorted.n;
    return KB_OK;
}

/* By v first, then by u: the second pass is stable and keeps the order of the first within equal u. order: room for
 * twice n_edges. O(n + e). */
static enum kb_err sort_by_counting(size_t n_nodes, const struct kb_edge *edges, size_t n_edges, size_t *order)
{
    size_t *start = kb_array(n_nodes + 1, 1, sizeof *start);
    if (start == NULL)
        return KB_ENOMEM;
    sort_by_end(edges, n_edges, upper_end, n_nodes, start, order, order + n_edges);
    sort_by_end(edges, n_edges, lower_end, n_nodes, start, order + n_edges, order);
    kb_free(start);
    return KB_OK;
}

/* The same for a few, by insertion from the back: it is stable, too. O(e^2), without arrays over the nodes. */
static void sort_few(const struct kb_edge *edges, size_t n_edges, size_t *order)
{
    for (size_t i = 1; i < n_edges; i++) {
        const size_t moving = order[i];
        const uint32_t u = lower_end(&edges[moving]), v = upper_end(&edges[moving]);
        size_t at = i;
        for (; at > 0; at--) {
            const struct kb_edge *before = &edges[order[at - 1]];
            if (lower_end(before) < u || (lower_end(before) == u && upper_end(before) <= v))
                break;
            order[at] = order[at - 1];
        }
        order[at] = moving;
    }
}

/* Sorted, merged edge list of the graph, the first n_sorted of which are in order. */
static enum kb_err sort_edges(struct kb_graph *g, const struct kb_edge *edges, size_t n_edges, size_t n_sorted,
                              struct kb_errmsg *msg)
{
    const struct kb_edge *rest = edges + n_sorted;
    const size_t n = n_edges - n_sorted;
    enum kb_err rc = KB_OK;
    size_t *order = kb_regrow(NULL, 2 * n, sizeof *order);
    g->edge = kb_regrow(NULL, n_edges, sizeof *g->edge);
    if (order == NULL || g->edge == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (n <= FEW_EDGES)
        sort_few(rest, n, order);
    else
        KB_TRY(sort_by_counting(g->n, rest, n, order));
    rc = merge_edges(g, (struct run){edges, n_sorted}, rest, n, order, msg);
out:
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

/* The arrays of both directions, from the edges or from those of old (NULL: none); a failure leaves what was made to
 * kb_graph_free. */
static enum kb_err build_adjacency(struct kb_graph *g, const struct kb_graph *old)
{
    size_t *fill = kb_array(g->n, 1, sizeof *fill);
    g->start = kb_array(g->n + 1, 1, sizeof *g->start);
    g->neighbour = g->e <= SIZE_MAX / 2 ? kb_regrow(NULL, 2 * g->e, sizeof *g->neighbour) : NULL;
    g->weight = g->e <= SIZE_MAX / 2 ? kb_regrow(NULL, 2 * g->e, sizeof *g->weight) : NULL;
    g->degree = kb_array(g->n, 1, sizeof *g->degree);
    const bool has_all = fill && g->start && g->neighbour && g->weight && g->degree;
    if (has_all && (old == NULL || !kb_graph_patch_adjacency(g, old)))
        fill_adjacency(g, fill);
    kb_free(fill);
    return has_all ? KB_OK : KB_ENOMEM;
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

/* What people are told of the graph is counted here, beside its readers: nobody who asks has to walk over it. */
static enum kb_err take_counts(struct kb_graph *g)
{
    uint32_t *label = kb_regrow(NULL, g->n, sizeof *label);
    struct kb_degrees *d = &g->degrees;
    if (label == NULL)
        return KB_ENOMEM;
    g->n_components = kb_graph_components(g, label);
    kb_free(label);
    for (size_t i = 0; i < g->n; i++) {
        const double degree = g->degree[i];
        d->min = i == 0 || degree < d->min ? degree : d->min;
        d->max = degree > d->max ? degree : d->max;
        d->mean += degree / (double)g->n;
    }
    return KB_OK;
}

/* *out is written last: a refused graph leaves the caller's pointer as it was. */
static enum kb_err make(struct kb_graph **out, const struct kb_graph *old, size_t n_nodes, const struct kb_edge *edges,
                        size_t n_edges, size_t n_sorted, struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;
    if (n_nodes >= UINT32_MAX)
        return kb_fail(KB_ELIMIT, msg, "/users", "too many users");
    for (size_t i = n_sorted; i < n_edges && rc == KB_OK; i++)
        rc = check_edge(&edges[i], i, n_nodes, msg);
    if (rc != KB_OK)
        return rc;
    struct kb_graph *g = kb_array(1, 1, sizeof *g);
    if (g == NULL)
        return KB_ENOMEM;
    g->n = n_nodes;
    KB_TRY(sort_edges(g, edges, n_edges, n_sorted, msg));
    KB_TRY(build_adjacency(g, old));
    KB_TRY(take_counts(g));
    g->digest = digest_of(g);
    *out = g;
    g = NULL;
out:
    kb_graph_free(g);
    return rc;
}

enum kb_err kb_graph_new(struct kb_graph **out, size_t n_nodes, const struct kb_edge *edges, size_t n_edges,
                         struct kb_errmsg *msg)
{
    return make(out, NULL, n_nodes, edges, n_edges, 0, msg);
}

enum kb_err kb_graph_patch(struct kb_graph **out, const struct kb_graph *old, size_t n_nodes,
                           const struct kb_edge *edges, size_t n_edges, size_t n_kept, struct kb_errmsg *msg)
{
    assert(n_nodes >= old->n);
    return make(out, old, n_nodes, edges, n_edges, n_kept, msg);
}
