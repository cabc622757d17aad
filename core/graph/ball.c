/* Breadth first search that stops at so many nodes (ball.h).
 *
 * Who has been met stands in a table of at most `limit` nodes, so a search over a million users costs what it finds. A
 * node of a hundred thousand friends is left as soon as the ball is full, and edges among the ball are looked for from
 * whichever side is shorter: along the friends of a node, or by a search in them for each other node of the ball. */
#include "graph/ball.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/ids.h"

/* Node -> place, by open addressing over the low bits of a product; KB_ID_NONE: empty. */
struct table {
    uint32_t *place;
    size_t n_slots; /* power of two, at most half full */
};

static size_t slot_of(const struct table *t, const struct kb_ball *b, uint32_t node)
{
    size_t i = (size_t)(node * 0x9e3779b97f4a7c15u >> 20) & (t->n_slots - 1);

    while (t->place[i] != KB_ID_NONE && b->node[t->place[i]] != node)
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

static enum kb_err open_table(struct table *t, size_t limit)
{
    t->n_slots = 16;
    while (t->n_slots < 2 * limit)
        t->n_slots *= 2;
    t->place = kb_array(t->n_slots, 1, sizeof *t->place);
    if (t->place == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < t->n_slots; i++)
        t->place[i] = KB_ID_NONE;
    return KB_OK;
}

static void add(struct kb_ball *b, struct table *t, uint32_t node, uint32_t hops)
{
    t->place[slot_of(t, b, node)] = (uint32_t)b->n;
    b->node[b->n] = node;
    b->hops[b->n++] = hops;
}

static void search(const struct kb_graph *g, uint32_t hops, size_t limit, struct kb_ball *b, struct table *t)
{
    for (size_t i = 0; i < b->n && b->hops[i] < hops && !b->is_truncated; i++) {
        const struct kb_neighbours near = kb_graph_neighbours(g, b->node[i]);

        for (size_t k = 0; k < near.n && !b->is_truncated; k++) {
            if (t->place[slot_of(t, b, near.node[k])] != KB_ID_NONE)
                continue;
            b->is_truncated = b->n == limit;
            if (!b->is_truncated)
                add(b, t, near.node[k], b->hops[i] + 1);
        }
    }
}

static enum kb_err add_edge(struct kb_ball *b, size_t from, size_t to, double weight)
{
    if (kb_grow((void **)&b->edge, &b->cap_edges, b->n_edges + 1, 64, sizeof *b->edge) != 0)
        return KB_ENOMEM;
    b->edge[b->n_edges++] = (struct kb_ball_edge){(uint32_t)from, (uint32_t)to, weight};
    return KB_OK;
}

/* Where the node stands among the friends, which ascend; near.n: nowhere. */
static size_t find(const struct kb_neighbours *near, uint32_t node)
{
    size_t low = 0, high = near->n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (near->node[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < near->n && near->node[low] == node ? low : near->n;
}

/* Edges of place i to places behind it, ascending. The friends in the ball are marked in `weight`, 0 elsewhere. */
static enum kb_err add_edges_of(const struct kb_graph *g, size_t i, const struct table *t, double *weight,
                                struct kb_ball *b)
{
    const struct kb_neighbours near = kb_graph_neighbours(g, b->node[i]);
    enum kb_err rc = KB_OK;

    for (size_t k = 0; near.n <= b->n && k < near.n; k++) {
        const uint32_t place = t->place[slot_of(t, b, near.node[k])];
        if (place != KB_ID_NONE)
            weight[place] = near.weight[k];
    }
    for (size_t j = i + 1; near.n > b->n && j < b->n; j++) {
        const size_t k = find(&near, b->node[j]);
        weight[j] = k < near.n ? near.weight[k] : 0;
    }
    for (size_t j = 0; j < b->n; j++) {
        if (rc == KB_OK && j > i && weight[j] > 0)
            rc = add_edge(b, i, j, weight[j]);
        weight[j] = 0;
    }
    return rc;
}

enum kb_err kb_ball_find(const struct kb_graph *g, uint32_t centre, uint32_t hops, size_t limit, struct kb_ball *out)
{
    struct table t = {.place = NULL};
    double *weight = kb_array(limit, 1, sizeof *weight);
    enum kb_err rc = KB_ENOMEM;

    assert(limit > 0 && centre < kb_graph_n_nodes(g));
    *out =
        (struct kb_ball){.node = kb_array(limit, 1, sizeof *out->node), .hops = kb_array(limit, 1, sizeof *out->hops)};
    if (weight == NULL || out->node == NULL || out->hops == NULL)
        goto out;
    KB_TRY(open_table(&t, limit));
    add(out, &t, centre, 0);
    search(g, hops, limit, out, &t);
    for (size_t i = 0; i < out->n; i++)
        KB_TRY(add_edges_of(g, i, &t, weight, out));
out:
    kb_free(t.place);
    kb_free(weight);
    if (rc != KB_OK)
        kb_ball_close(out);
    return rc;
}

void kb_ball_close(struct kb_ball *b)
{
    kb_free(b->node);
    kb_free(b->hops);
    kb_free(b->edge);
    *b = (struct kb_ball){.n = 0};
}
