/* Networks: sorted edges, of which a graph is made for sampling.
 *
 * The ball: breadth-first search from a random user visits all users at distance 0, 1, 2, ... until n are found; the
 * last shell is cut. Such a sample keeps friends together, which a random sample of users would not: with an average
 * degree of 6 and one user in twenty kept, two of three sampled users would have no friend left.
 * Cost: read O(e log e), ball O(n + e).
 *
 * The demo's own view of the graph, for sampling; the server gets the sample's edges and builds its graph
 * from them. Edges here may be as messy as files are: loops and repeats are dropped and counted, where the
 * server would refuse. */
#include "common/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges.h"
#include "base/rng.h"

uint32_t lc_intern(struct kb_ids *ids, const char *id)
{
    size_t n = strlen(id);
    if (n == 0 || n > KB_ID_MAX_BYTES)
        return KB_ID_NONE;
    uint32_t found = kb_ids_find(ids, id);
    if (found != KB_ID_NONE)
        return found;
    if (kb_ids_reserve(ids, 1, n + 1) != KB_OK)
        lc_out_of_memory(1, n + 1);
    return kb_ids_add(ids, id);
}

/* --- building --------------------------------------------------------------------------------------- */

/* By pair, then in the order of the file (kept in `order`), so that the first of repeats comes first. */
struct ranked {
    struct kb_edge edge;
    size_t order;
};

/* `order` makes the comparison total, so the result does not hang on qsort's ways. */
static int by_pair(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->edge.u != y->edge.u)
        return x->edge.u < y->edge.u ? -1 : 1;
    if (x->edge.v != y->edge.v)
        return x->edge.v < y->edge.v ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Ends are ordered by index, so both directions of an edge meet in the sort. */
static void set_edges(struct lc_network *net, const struct kb_edge *edges, size_t n)
{
    struct ranked *r = lc_alloc(n, sizeof *r);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct kb_edge e = edges[i];
        if (e.u == e.v) {
            net->n_loops++;
            continue;
        }
        r[kept] = (struct ranked){{e.u < e.v ? e.u : e.v, e.u < e.v ? e.v : e.u, e.weight}, i};
        kept++;
    }
    qsort(r, kept, sizeof *r, by_pair);
    net->edges = lc_alloc(kept, sizeof *net->edges);
    for (size_t i = 0; i < kept; i++) {
        if (i > 0 && r[i].edge.u == r[i - 1].edge.u && r[i].edge.v == r[i - 1].edge.v)
            net->n_repeats++;
        else
            net->edges[net->n_edges++] = r[i].edge;
    }
    free(r);
}

/* Ends are below n_users (not checked). n_users may exceed the users with an edge: the others have an empty run. */
void lc_network_build(struct lc_network *net, size_t n_users, const struct kb_edge *edges, size_t n_edges)
{
    *net = (struct lc_network){.n_users = n_users};
    set_edges(net, edges, n_edges);
}

/* --- reading ---------------------------------------------------------------------------------------- */

/* After an error *net is empty, and *users may hold some ids. 16 bytes a row, and 24 more while they are sorted. */
int lc_network_read(struct lc_network *net, struct kb_ids *users, const char *path, char *why)
{
    struct lc_edge_reader reader;
    struct lc_edge_row row;
    struct kb_edge *edges = NULL;
    size_t n = 0, cap = 0;
    *net = (struct lc_network){0};
    int rc = lc_edges_open(&reader, path, LC_HEADER_AUTO);
    while (rc == 0 && (rc = lc_edges_next(&reader, &row)) == 1) {
        edges = lc_room(edges, &cap, n + 1, sizeof *edges);
        edges[n] = (struct kb_edge){lc_intern(users, row.u), lc_intern(users, row.v), row.weight};
        rc = edges[n].u == KB_ID_NONE || edges[n].v == KB_ID_NONE
                 ? lc_csv_fail(&reader.csv, "a user id of more than 256 bytes")
                 : 0;
        n++;
    }
    if (rc == 0 && n == 0)
        rc = lc_csv_fail(&reader.csv, "no edge in this file");
    if (rc == 0)
        lc_network_build(net, users->n, edges, n);
    else
        snprintf(why, LC_WHY, "%s", reader.csv.why);
    lc_edges_close(&reader);
    free(edges);
    return rc;
}

void lc_network_close(struct lc_network *net)
{
    free(net->edges);
    *net = (struct lc_network){0};
}

/* --- samples ---------------------------------------------------------------------------------------- */

/* Breadth-first from `root` over users with mark != stamp; fills queue [max], returns how many. `stamp` marks this
 * search's visits, so that the array need not be cleared between searches. */
static size_t search(const struct kb_graph *g, uint32_t root, uint32_t *mark, uint32_t stamp, size_t max,
                     uint32_t *queue)
{
    size_t n = 1;
    queue[0] = root;
    mark[root] = stamp;
    for (size_t head = 0; head < n; head++) {
        const struct kb_neighbours near = kb_graph_neighbours(g, queue[head]);
        for (size_t i = 0; i < near.n && n < max; i++) {
            uint32_t v = near.node[i];
            if (mark[v] != stamp) {
                mark[v] = stamp;
                queue[n++] = v;
            }
        }
    }
    return n;
}

/* The users of the largest component, into queue; how many. Uses stamps 1 and 2; the caller's search must use another.
 */
static size_t largest_component(const struct kb_graph *g, uint32_t *mark, uint32_t *queue)
{
    size_t best = 0, n_users = kb_graph_n_nodes(g);
    uint32_t root = 0;
    for (uint32_t u = 0; u < n_users; u++) {
        if (mark[u] == 1)
            continue;
        size_t n = search(g, u, mark, 1, n_users, queue);
        if (n > best) {
            best = n;
            root = u;
        }
    }
    return best > 0 ? search(g, root, mark, 2, n_users, queue) : 0;
}

/* The centre is a random user of the component, not of the network: one of a small island would make a small sample. */
size_t lc_network_ball(const struct lc_network *net, uint64_t seed, size_t n, uint32_t *out)
{
    uint32_t *mark = lc_alloc(net->n_users, sizeof *mark);
    uint32_t *queue = lc_alloc(net->n_users, sizeof *queue);
    struct kb_graph *g = NULL;
    struct kb_errmsg msg;
    if (kb_graph_new(&g, net->n_users, net->edges, net->n_edges, &msg) != KB_OK)
        lc_out_of_memory(net->n_edges, sizeof *net->edges);
    size_t size = largest_component(g, mark, queue), found = 0;
    if (size > 0) {
        uint32_t centre = queue[(size_t)(kb_rng_uniform(seed, KB_STREAM_SIMULATION, 0) * (double)size)];
        found = search(g, centre, mark, 3, n < size ? n : size, queue);
        memcpy(out, queue, found * sizeof *out);
    }
    kb_graph_free(g);
    free(mark);
    free(queue);
    return found;
}
