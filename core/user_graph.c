/* Named user graphs: from events to kb_graph.
 *
 * The edit collects the nodes in order (a table from future user index to node), then the edges: for a patch
 * the old ones less the removed, with weights replaced where the event names them again. Cost O(n + e) with one
 * hash look-up per name; a patch of a large graph costs as much as a new one. */
#include "user_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "hash.h"

/* Work state of one edit. */
struct edit {
    const struct kb_ids *users;
    struct kb_ids *fresh;
    uint32_t *node_of; /* [cap] by user index to come, KB_ID_NONE = no node */
    size_t cap;
    uint32_t *user_of; /* [n] */
    size_t n, cap_nodes;
    struct kb_edge *edge;
    size_t n_edges;
};

void kb_user_graph_init(struct kb_user_graph *g)
{
    *g = (struct kb_user_graph){0};
}

void kb_user_graph_close(struct kb_user_graph *g)
{
    kb_graph_free(g->graph);
    kb_free(g->user_of);
    kb_user_graph_init(g);
}

/* The node of a user index, made when new. */
static enum kb_err node_at(struct edit *x, uint32_t user, uint32_t *node)
{
    const size_t old_cap = x->cap;

    if (kb_grow((void **)&x->node_of, &x->cap, (size_t)user + 1, 64, sizeof *x->node_of) != 0)
        return KB_ENOMEM;
    for (size_t i = old_cap; i < x->cap; i++)
        x->node_of[i] = KB_ID_NONE;
    if (x->node_of[user] == KB_ID_NONE) {
        if (kb_grow((void **)&x->user_of, &x->cap_nodes, x->n + 1, 64, sizeof *x->user_of) != 0)
            return KB_ENOMEM;
        x->user_of[x->n] = user;
        x->node_of[user] = (uint32_t)x->n++;
    }
    *node = x->node_of[user];
    return KB_OK;
}

static enum kb_err node_named(struct edit *x, const char *name, uint32_t *node)
{
    uint32_t user = kb_ids_find(x->users, name);

    if (user == KB_ID_NONE) {
        if (kb_ids_reserve(x->fresh, 1, strlen(name) + 1) != KB_OK)
            return KB_ENOMEM;
        user = (uint32_t)x->users->n + kb_ids_add(x->fresh, name);
    }
    return node_at(x, user, node);
}

/* The node of a user that must have one already. */
static uint32_t node_known(const struct edit *x, const char *name)
{
    uint32_t user = kb_ids_find(x->users, name);

    if (user == KB_ID_NONE && (user = kb_ids_find(x->fresh, name)) != KB_ID_NONE)
        user += (uint32_t)x->users->n;
    return user == KB_ID_NONE || user >= x->cap ? KB_ID_NONE : x->node_of[user];
}

static struct kb_edge ordered(uint32_t u, uint32_t v, double weight)
{
    return u < v ? (struct kb_edge){u, v, weight} : (struct kb_edge){v, u, weight};
}

static int compare_edges(const void *a, const void *b)
{
    const struct kb_edge *x = a, *y = b;

    if (x->u != y->u)
        return x->u < y->u ? -1 : 1;
    return x->v < y->v ? -1 : x->v > y->v;
}

/* Marks a removed edge by a negative weight in the sorted copy of the old edges. */
static enum kb_err remove_edges(struct edit *x, size_t n_old, const struct kb_event *ev, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.graph.n_remove; i++) {
        const struct kb_ev_edge *gone = &ev->as.graph.remove[i];
        const uint32_t u = node_known(x, gone->u), v = node_known(x, gone->v);
        const struct kb_edge key = ordered(u, v, 0);
        struct kb_edge *hit = NULL;

        if (u != KB_ID_NONE && v != KB_ID_NONE)
            hit = bsearch(&key, x->edge, n_old, sizeof key, compare_edges);
        if (hit == NULL || hit->weight < 0)
            return kb_fail_item(KB_ECONFLICT, msg, "/remove", i, "", "no edge between '%.64s' and '%.64s'", gone->u,
                                gone->v);
        hit->weight = -1;
    }
    return KB_OK;
}

/* Old edges in force, with what the patch replaces marked: added edges win over old ones of the same pair. */
static enum kb_err keep_old(struct edit *x, const struct kb_user_graph *old, const struct kb_event *ev,
                            struct kb_errmsg *msg)
{
    const size_t n_old = old->graph != NULL ? kb_graph_n_edges(old->graph) : 0;
    size_t kept = 0;
    uint32_t u = 0, v = 0;

    for (size_t i = 0; i < n_old; i++)
        x->edge[i] = kb_graph_edge(old->graph, i);
    enum kb_err rc = remove_edges(x, n_old, ev, msg);
    if (rc != KB_OK)
        return rc;
    for (size_t i = 0; i < ev->as.graph.n_add; i++) {
        if (node_named(x, ev->as.graph.add[i].u, &u) != KB_OK || node_named(x, ev->as.graph.add[i].v, &v) != KB_OK)
            return KB_ENOMEM;
        const struct kb_edge key = ordered(u, v, 0);
        struct kb_edge *hit = bsearch(&key, x->edge, n_old, sizeof key, compare_edges);
        if (hit != NULL)
            hit->weight = -1;
    }
    for (size_t i = 0; i < n_old; i++)
        if (x->edge[i].weight > 0)
            x->edge[kept++] = x->edge[i];
    x->n_edges = kept;
    return KB_OK;
}

static enum kb_err add_edges(struct edit *x, const struct kb_event *ev)
{
    for (size_t i = 0; i < ev->as.graph.n_add; i++) {
        const struct kb_ev_edge *e = &ev->as.graph.add[i];
        uint32_t u = 0, v = 0;

        if (node_named(x, e->u, &u) != KB_OK || node_named(x, e->v, &v) != KB_OK)
            return KB_ENOMEM;
        x->edge[x->n_edges++] = (struct kb_edge){u, v, e->weight};
    }
    return KB_OK;
}

/* kb_graph_new speaks of "/edges/<position>": positions before the event's own edges are the kept ones. */
static void point_at_event(const struct kb_event *ev, size_t n_kept, struct kb_errmsg *msg)
{
    size_t position = 0;

    if (msg == NULL || strncmp(msg->pointer, "/edges/", 7) != 0)
        return;
    position = (size_t)strtoul(msg->pointer + 7, NULL, 10);
    if (position < n_kept)
        return;
    struct kb_errmsg told = *msg;
    kb_fail_item(KB_EINVAL, msg, ev->as.graph.is_replace ? "/edges" : "/add", position - n_kept, "", "%s", told.text);
}

static enum kb_err collect(struct edit *x, const struct kb_user_graph *old, const struct kb_event *ev,
                           struct kb_errmsg *msg)
{
    const bool is_patch = !ev->as.graph.is_replace;
    const size_t n_old = is_patch && old->graph != NULL ? kb_graph_n_edges(old->graph) : 0;
    uint32_t node = 0;
    enum kb_err rc = KB_OK;

    x->edge = kb_array(n_old + ev->as.graph.n_add + 1, 1, sizeof *x->edge);
    if (x->edge == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; is_patch && i < old->n; i++)
        KB_TRY(node_at(x, old->user_of[i], &node));
    for (size_t i = 0; i < ev->as.graph.n_users; i++)
        KB_TRY(node_named(x, ev->as.graph.users[i], &node));
    if (is_patch)
        KB_TRY(keep_old(x, old, ev, msg));
    KB_TRY(add_edges(x, ev));
out:
    return rc;
}

enum kb_err kb_user_graph_edit(const struct kb_user_graph *old, const struct kb_ids *users, struct kb_ids *fresh,
                               const struct kb_event *ev, struct kb_user_graph *out, struct kb_errmsg *msg)
{
    struct edit x = {.users = users, .fresh = fresh};
    struct kb_graph *graph = NULL;
    enum kb_err rc = collect(&x, old, ev, msg);

    assert(ev->type == KB_EV_GRAPH);
    if (rc == KB_OK && x.n > 0) {
        rc = kb_graph_new(&graph, x.n, x.edge, x.n_edges, msg);
        if (rc != KB_OK)
            point_at_event(ev, x.n_edges - ev->as.graph.n_add, msg);
    }
    kb_free(x.edge);
    kb_free(x.node_of);
    if (rc != KB_OK) {
        kb_free(x.user_of);
        return rc;
    }
    *out = (struct kb_user_graph){.graph = graph, .user_of = x.user_of, .n = x.n};
    return KB_OK;
}

uint64_t kb_user_graph_digest(const struct kb_user_graph *g, uint64_t h)
{
    h = kb_hash_u64(h, g->n);
    if (g->graph == NULL)
        return h;
    h = kb_hash_bytes(h, g->user_of, g->n * sizeof *g->user_of);
    return kb_graph_digest(g->graph, h);
}

void kb_user_graph_save(const struct kb_user_graph *g, struct kb_writer *w)
{
    const size_t n_edges = g->graph != NULL ? kb_graph_n_edges(g->graph) : 0;

    kb_put_u64(w, g->n);
    kb_put_u32s(w, g->user_of, g->n);
    kb_put_u64(w, n_edges);
    for (size_t i = 0; i < n_edges; i++) {
        const struct kb_edge e = kb_graph_edge(g->graph, i);

        kb_put_u64(w, (uint64_t)e.u << 32 | e.v);
        kb_put_double(w, e.weight);
    }
}

enum kb_err kb_user_graph_load(struct kb_user_graph *g, size_t n_users, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, n_users);
    uint32_t *user_of = kb_array(n + 1, 1, sizeof *user_of);
    struct kb_edge *edge = NULL;
    enum kb_err rc = KB_OK;

    if (user_of == NULL)
        return KB_ENOMEM;
    kb_get_u32s(r, user_of, n);
    const size_t n_edges = kb_get_count(r, r->n / 16);
    edge = kb_array(n_edges + 1, 1, sizeof *edge);
    if (edge == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < n_edges; i++) {
        const uint64_t pair = kb_get_u64(r);

        edge[i] = (struct kb_edge){(uint32_t)(pair >> 32), (uint32_t)pair, kb_get_double(r)};
    }
    for (size_t i = 0; i < n; i++)
        if (user_of[i] >= n_users)
            r->rc = KB_ECORRUPT;
    KB_TRY(r->rc);
    if (n > 0 && kb_graph_new(&g->graph, n, edge, n_edges, NULL) != KB_OK)
        rc = KB_ECORRUPT;
    g->n = n;
out:
    kb_free(edge);
    if (rc == KB_OK)
        g->user_of = user_of;
    else
        kb_free(user_of);
    return rc;
}

size_t kb_user_graph_bytes(const struct kb_user_graph *g)
{
    return g->n * sizeof *g->user_of + (g->graph != NULL ? kb_graph_bytes(g->graph) : 0);
}
