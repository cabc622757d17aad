/* The graph of a draft that patches another (graph_draft.h): the old edges less the removed, with weights replaced
 * where the event names them again, then the event's. Those kept are sorted already, so it costs copies of the arrays,
 * and a search among the edges for each of the event's.
 *
 * The order of nodes is part of the model: it fixes the order of every sum over neighbours, hence the bits. Nodes of
 * the base keep their numbers; then come the event's users and the ends of its edges that are none of them, in order.
 * So it is a function of the base and the event alone, whoever of them the engine knows.
 *
 * Remove is carried out before add, and an added pair that is there already gets the new weight. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/graph_draft.h"

/* Work state of one patch. */
struct patch {
    struct kb_graph_draft *d;
    const struct kb_event *ev;
    uint32_t *node_of; /* [names] KB_ID_NONE: of an edge to remove, and no node */
    struct kb_edge *edge;
    size_t n_edges, n_kept;
};

/* With u < v, as kb_graph lists its edges. */
static struct kb_edge ordered(uint32_t u, uint32_t v, double weight)
{
    return u < v ? (struct kb_edge){u, v, weight} : (struct kb_edge){v, u, weight};
}

/* By the pair alone: the weight of a search key does not matter. */
static int compare_edges(const void *a, const void *b)
{
    const struct kb_edge *x = a, *y = b;

    if (x->u != y->u)
        return x->u < y->u ? -1 : 1;
    return x->v < y->v ? -1 : x->v > y->v;
}

/* The node of each user of the base: [*n], O(users). NULL: no memory. */
static uint32_t *nodes_of_users(const struct kb_user_graph *base, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < base->n; i++)
        if (base->user_of[i] >= *n)
            *n = (size_t)base->user_of[i] + 1;
    uint32_t *node = kb_regrow(NULL, *n + 1, sizeof *node);
    if (node == NULL)
        return NULL;
    memset(node, 0xff, (*n + 1) * sizeof *node); /* KB_ID_NONE is all ones */
    for (size_t i = 0; i < base->n; i++)
        node[base->user_of[i]] = (uint32_t)i;
    return node;
}

/* The nodes of all names, with new ones for those that the base has not. */
static enum kb_err number_nodes(struct patch *x)
{
    struct kb_graph_draft *d = x->d;
    size_t n_users;
    uint32_t *node = nodes_of_users(d->base, &n_users);

    x->node_of = kb_regrow(NULL, d->names.n + 1, sizeof *x->node_of);
    d->name_of = kb_regrow(NULL, d->n_named + 1, sizeof *d->name_of);
    d->n_new = 0;
    const bool has_all = node != NULL && x->node_of != NULL && d->name_of != NULL;
    for (size_t i = 0; has_all && i < d->names.n; i++) {
        x->node_of[i] = d->user[i] != KB_ID_NONE && d->user[i] < n_users ? node[d->user[i]] : KB_ID_NONE;
        if (x->node_of[i] != KB_ID_NONE || i >= d->n_named)
            continue;
        x->node_of[i] = (uint32_t)(d->base->n + d->n_new);
        d->name_of[d->n_new++] = (uint32_t)i;
    }
    kb_free(node);
    return has_all ? KB_OK : KB_ENOMEM;
}

/* The old edge between two nodes, not marked as gone; NULL: there is none. */
static struct kb_edge *find_old(const struct patch *x, size_t n_old, uint32_t u, uint32_t v)
{
    const struct kb_edge key = ordered(u, v, 0);

    if (u == KB_ID_NONE || v == KB_ID_NONE)
        return NULL;
    return bsearch(&key, x->edge, n_old, sizeof key, compare_edges);
}

/* Marks a removed edge by a negative weight in the sorted copy of the old edges; what carries it is dropped.
 * KB_ECONFLICT with "/remove/<i>" for an edge that is not there, or that the same event has removed before. */
static enum kb_err remove_edges(struct patch *x, size_t n_old, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < x->ev->as.graph.n_remove; i++) {
        const struct kb_ev_edge *gone = &x->ev->as.graph.remove[i];
        struct kb_edge *hit = find_old(x, n_old, x->node_of[kb_ids_find(&x->d->names, gone->u)],
                                       x->node_of[kb_ids_find(&x->d->names, gone->v)]);

        if (hit == NULL || hit->weight < 0)
            return kb_fail_item(KB_ECONFLICT, msg, "/remove", i, "", "no edge between '%.64s' and '%.64s'", gone->u,
                                gone->v);
        hit->weight = -1;
    }
    return KB_OK;
}

/* The old edges that stay, at the front, and the event's behind them. Loops, bad weights and repeats among the event's
 * are found by kb_graph_patch. */
static enum kb_err collect(struct patch *x, struct kb_errmsg *msg)
{
    const struct kb_graph *old = x->d->base->graph;
    const size_t n_old = old != NULL ? kb_graph_n_edges(old) : 0, n_add = x->ev->as.graph.n_add;
    enum kb_err rc;

    x->edge = kb_regrow(NULL, n_old + n_add + 1, sizeof *x->edge);
    if (x->edge == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n_old; i++)
        x->edge[i] = kb_graph_edge(old, i);
    KB_TRY(remove_edges(x, n_old, msg));
    for (size_t i = 0; i < n_add; i++) {
        struct kb_edge *own = &x->d->edge[i];
        *own = (struct kb_edge){x->node_of[own->u], x->node_of[own->v], own->weight};
        struct kb_edge *hit = find_old(x, n_old, own->u, own->v);
        if (hit != NULL)
            hit->weight = -1;
    }
    for (size_t i = 0; i < n_old; i++)
        if (x->edge[i].weight > 0)
            x->edge[x->n_kept++] = x->edge[i];
    if (n_add > 0)
        memcpy(x->edge + x->n_kept, x->d->edge, n_add * sizeof *x->edge);
    x->n_edges = x->n_kept + n_add;
out:
    return rc;
}

/* kb_graph_patch speaks of "/edges/<position>": positions before the event's own edges are the kept ones. A client
 * knows its own array only, so the position is moved to "/add/<i>". */
static void point_at_event(size_t n_kept, struct kb_errmsg *msg)
{
    size_t position = 0;

    if (msg == NULL || strncmp(msg->pointer, "/edges/", 7) != 0)
        return;
    position = (size_t)strtoul(msg->pointer + 7, NULL, 10);
    if (position < n_kept)
        return;
    /* a copy, since the text is read while the message is written anew */
    struct kb_errmsg told = *msg;
    kb_fail_item(KB_EINVAL, msg, "/add", position - n_kept, "", "%s", told.text);
}

/* The base may be the empty graph, with which a patch begins like a whole one. */
static enum kb_err patch(struct patch *x, struct kb_errmsg *msg)
{
    struct kb_graph_draft *d = x->d;
    const struct kb_graph *old = d->base->graph;
    enum kb_err rc = number_nodes(x);

    KB_TRY(rc);
    KB_TRY(collect(x, msg));
    const size_t n = d->base->n + d->n_new;
    if (n == 0)
        return KB_OK;
    rc = old != NULL ? kb_graph_patch(&d->graph, old, n, x->edge, x->n_edges, x->n_kept, msg)
                     : kb_graph_new(&d->graph, n, x->edge, x->n_edges, msg);
    if (rc != KB_OK)
        point_at_event(x->n_kept, msg);
out:
    return rc;
}

enum kb_err kb_graph_draft_make(struct kb_graph_draft *d, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct patch x = {.d = d, .ev = ev};
    const enum kb_err rc = d->base != NULL ? patch(&x, msg) : KB_OK;

    kb_free(x.edge);
    kb_free(x.node_of);
    d->is_made = rc == KB_OK;
    return rc;
}
