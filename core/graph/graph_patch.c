/* The adjacency of a graph that differs little from another (graph_impl.h): the runs of nodes that keep their edges are
 * copied in one piece, those of the others are merged. The bits are those of graph_build.c. Cost: the speed of memory,
 * O(n + e). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph_impl.h"

#define MANY_CHANGES 8192u /* to runs of nodes: beyond, all are filled anew */

/* Of a node's run: an edge that is new or has another weight, or one that is gone (weight 0). */
struct change {
    uint32_t node, neighbour;
    double weight;
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->neighbour < y->neighbour ? -1 : x->neighbour > y->neighbour;
}

static int compare_pairs(const struct kb_edge *a, const struct kb_edge *b)
{
    if (a->u != b->u)
        return a->u < b->u ? -1 : 1;
    return a->v < b->v ? -1 : a->v > b->v;
}

/* What both ends of every edge in which the graphs differ have to change, by node and neighbour; SIZE_MAX when that is
 * more than MANY_CHANGES. O(e). */
static size_t find_changes(const struct kb_graph *old, const struct kb_graph *g, struct change *out)
{
    size_t n = 0, i = 0, k = 0;
    while (i < old->e || k < g->e) {
        const int order = i == old->e ? 1 : k == g->e ? -1 : compare_pairs(&old->edge[i], &g->edge[k]);
        const struct kb_edge *edge = order < 0 ? &old->edge[i] : &g->edge[k];
        const double weight = order < 0 ? 0.0 : edge->weight;
        const bool is_same = order == 0 && memcmp(&old->edge[i].weight, &weight, sizeof weight) == 0;
        i += order <= 0;
        k += order >= 0;
        if (is_same)
            continue;
        if (n + 2 > MANY_CHANGES)
            return SIZE_MAX;
        out[n++] = (struct change){edge->u, edge->v, weight};
        out[n++] = (struct change){edge->v, edge->u, weight};
    }
    qsort(out, n, sizeof *out, compare_changes);
    return n;
}

/* Runs of the nodes [from, to), as they are in old; nodes that it has not have none. */
static void copy_runs(struct kb_graph *g, const struct kb_graph *old, size_t from, size_t to)
{
    const size_t known = to < old->n ? to : from < old->n ? old->n : from;
    size_t at = g->start[from];
    if (known > from) {
        const size_t first = old->start[from], n = old->start[known] - first;
        memcpy(g->neighbour + at, old->neighbour + first, n * sizeof *g->neighbour);
        memcpy(g->weight + at, old->weight + first, n * sizeof *g->weight);
        memcpy(g->degree + from, old->degree + from, (known - from) * sizeof *g->degree);
        for (size_t i = from; i < known; i++)
            g->start[i + 1] = old->start[i + 1] - first + at;
        at += n;
    }
    for (size_t i = known; i < to; i++)
        g->start[i + 1] = at;
}

/* The run of one node, with n changes to it; the degree is summed as ever, in ascending order. */
static void change_run(struct kb_graph *g, const struct kb_graph *old, const struct change *change, size_t n)
{
    const uint32_t node = change->node;
    struct kb_neighbours was = {0};
    size_t at = g->start[node], i = 0, k = 0;
    if (node < old->n)
        was = kb_graph_neighbours(old, node);
    while (i < was.n || k < n) {
        const bool is_old = k == n || (i < was.n && was.node[i] < change[k].neighbour);
        const uint32_t neighbour = is_old ? was.node[i] : change[k].neighbour;
        const double weight = is_old ? was.weight[i] : change[k].weight;
        i += is_old || (i < was.n && was.node[i] == neighbour); /* a change replaces what was */
        k += !is_old;
        if (!(weight > 0.0))
            continue;
        g->neighbour[at] = neighbour;
        g->weight[at++] = weight;
        g->degree[node] += weight;
    }
    g->start[node + 1] = at;
}

bool kb_graph_patch_adjacency(struct kb_graph *g, const struct kb_graph *old)
{
    struct change *change = kb_regrow(NULL, MANY_CHANGES, sizeof *change);
    const size_t n = change != NULL ? find_changes(old, g, change) : SIZE_MAX;
    size_t done = 0;
    for (size_t i = 0; n != SIZE_MAX && i < n;) {
        const uint32_t node = change[i].node;
        size_t end = i;
        while (end < n && change[end].node == node)
            end++;
        copy_runs(g, old, done, node);
        change_run(g, old, change + i, end - i);
        done = (size_t)node + 1;
        i = end;
    }
    if (n != SIZE_MAX)
        copy_runs(g, old, done, g->n);
    kb_free(change);
    return n != SIZE_MAX;
}
