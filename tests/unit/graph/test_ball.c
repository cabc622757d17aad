/* Neighbourhoods against a search that looks at every edge, and those of hubs against their bounds. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/ids.h"
#include "graph/ball.h"
#include "kbt.h"

#define N 300

static struct kb_graph *graph_of(size_t n, const struct kb_edge *edges, size_t n_edges)
{
    struct kb_graph *g = NULL;
    ck_assert_int_eq(kb_graph_new(&g, n, edges, n_edges, NULL), KB_OK);
    return g;
}

static struct kb_graph *random_graph(uint64_t key)
{
    struct kb_edge *edges;
    const size_t n = kbt_random_edges(N, 150, false, key, &edges);
    struct kb_graph *g = graph_of(N, edges, n);
    free(edges);
    return g;
}

/* hops[i] from the centre, KB_ID_NONE where there is no way: rounds over all edges. */
static void walk(const struct kb_graph *g, uint32_t centre, uint32_t hops[N])
{
    bool has_changed = true;
    for (size_t i = 0; i < N; i++)
        hops[i] = KB_ID_NONE;
    hops[centre] = 0;
    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < kb_graph_n_edges(g); i++) {
            const struct kb_edge e = kb_graph_edge(g, i);
            for (int k = 0; k < 2; k++) {
                const uint32_t u = k ? e.u : e.v, v = k ? e.v : e.u;
                if (hops[u] != KB_ID_NONE && hops[u] + 1 < hops[v]) {
                    hops[v] = hops[u] + 1;
                    has_changed = true;
                }
            }
        }
    }
}

/* Every edge between two nodes of the ball stands there once, in order; nothing else does. */
static void check_edges(const struct kb_graph *g, const struct kb_ball *b)
{
    uint32_t place[N];
    size_t n_inside = 0;
    for (size_t i = 0; i < N; i++)
        place[i] = KB_ID_NONE;
    for (size_t i = 0; i < b->n; i++)
        place[b->node[i]] = (uint32_t)i;
    for (size_t i = 0; i < kb_graph_n_edges(g); i++)
        n_inside += place[kb_graph_edge(g, i).u] != KB_ID_NONE && place[kb_graph_edge(g, i).v] != KB_ID_NONE;
    ck_assert_uint_eq(b->n_edges, n_inside);
    for (size_t i = 0; i < b->n_edges; i++) {
        const struct kb_ball_edge e = b->edge[i];
        const struct kb_neighbours near = kb_graph_neighbours(g, b->node[e.from]);
        size_t k = 0;
        while (k < near.n && near.node[k] != b->node[e.to])
            k++;
        ck_assert(k < near.n && near.weight[k] == e.weight && e.from < e.to);
        ck_assert(i == 0 || b->edge[i - 1].from < e.from ||
                  (b->edge[i - 1].from == e.from && b->edge[i - 1].to < e.to));
    }
}

START_TEST(a_ball_has_the_nearest_nodes_and_all_edges_among_them)
{
    for (uint64_t key = 1; key <= 4; key++) {
        struct kb_graph *g = random_graph(key);
        for (uint32_t centre = 0; centre < N; centre += 7)
            for (uint32_t hops = 0; hops < 5; hops++)
                for (size_t limit = 1; limit <= 512; limit *= 8) {
                    struct kb_ball b;
                    uint32_t want[N];
                    size_t n_within = 0;
                    ck_assert_int_eq(kb_ball_find(g, centre, hops, limit, &b), KB_OK);
                    walk(g, centre, want);
                    for (size_t i = 0; i < N; i++)
                        n_within += want[i] <= hops;
                    ck_assert_uint_eq(b.n, n_within < limit ? n_within : limit);
                    ck_assert(b.is_truncated == (n_within > limit));
                    ck_assert(b.node[0] == centre);
                    for (size_t i = 0; i < b.n; i++)
                        ck_assert(b.hops[i] == want[b.node[i]] && (i == 0 || b.hops[i] >= b.hops[i - 1]));
                    check_edges(g, &b);
                    kb_ball_close(&b);
                }
        kb_graph_free(g);
    }
}
END_TEST

/* Two hubs who share all their friends: edges are found by search, not along the friends. */
START_TEST(hubs_cost_what_is_shown)
{
    const size_t n = 200002;
    struct kb_edge *edges = malloc(2 * n * sizeof *edges);
    struct kb_ball b;
    size_t m = 0;
    ck_assert_ptr_nonnull(edges);
    edges[m++] = (struct kb_edge){0, 1, 3};
    for (uint32_t i = 2; i < n; i++) {
        edges[m++] = (struct kb_edge){0, i, 1};
        edges[m++] = (struct kb_edge){1, i, 2};
    }
    struct kb_graph *g = graph_of(n, edges, m);
    ck_assert_int_eq(kb_ball_find(g, 77, 3, 5, &b), KB_OK);
    ck_assert(b.n == 5 && b.is_truncated && b.node[0] == 77 && b.node[1] == 0 && b.node[2] == 1);
    ck_assert(b.node[3] == 2 && b.node[4] == 3 && b.hops[2] == 1 && b.hops[3] == 2);
    ck_assert_uint_eq(b.n_edges, 2 + 1 + 4);
    ck_assert(b.edge[2].from == 1 && b.edge[2].to == 2 && b.edge[2].weight == 3);
    kb_ball_close(&b);
    kb_graph_free(g);
    free(edges);
}
END_TEST

static struct kb_graph *shared;
static struct kb_ball ball;

static enum kb_err find(void *arg)
{
    (void)arg;
    return kb_ball_find(shared, 3, 8, 300, &ball);
}

static void after(void *arg)
{
    (void)arg;
    kb_ball_close(&ball);
}

START_TEST(every_failing_allocation_leaves_nothing)
{
    shared = random_graph(9);
    ck_assert_uint_gt(kbt_brutal(find, after, NULL), 3);
    kb_graph_free(shared);
}
END_TEST

int main(void)
{
    return KBT_RUN("ball", a_ball_has_the_nearest_nodes_and_all_edges_among_them, hubs_cost_what_is_shown,
                   every_failing_allocation_leaves_nothing);
}
