/* Named user graphs: from events to kb_graph.
 *
 * A PUT is made of the event alone (graph_draft.c), perhaps before its turn, and its nodes are given their users here.
 * A patch collects the nodes in order (a table from future user index to node), then the edges: the old ones less the
 * removed, with weights replaced where the event names them again. Those kept are sorted already, so a patch costs
 * copies of the arrays, and one hash look-up per name of its own.
 *
 * Place: engine_model.c calls the edit in the reserve step of a `graph` event, beside readers of the old
 * graph; apply swaps the new one in and frees the old. Nothing of the engine is changed before: new users go
 * into `fresh` (the engine's staging), and a refused edit leaves nothing behind but names there, which the
 * rollback throws away.
 *
 *   user index   of the engine (kb_ids), for all users that ever appeared; here also "to come": fresh ones
 *                count on from users->n in their order in `fresh`
 *   node         0..n-1, of the users in the graph only; user_of[node] is the way back
 *
 * The order of nodes is part of the model: it fixes the order of every sum over neighbours, hence the bits.
 * It is a function of the old graph and the event alone, so a fold makes the same one.
 *
 * Patch: remove is carried out before add, and an added pair that is there already gets the new weight. */
#include "user_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "graph_draft.h"
#include "hash.h"

/* Work state of one edit. */
struct edit {
    /* as they are in force; not changed */
    const struct kb_ids *users;
    /* the staged new users, appended to */
    struct kb_ids *fresh;
    uint32_t *node_of; /* [cap] by user index to come, KB_ID_NONE = no node */
    size_t cap;
    /* becomes the result's own on success */
    uint32_t *user_of; /* [n] */
    size_t n, cap_nodes;
    /* room for the old edges and the added ones */
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

/* The node of a user index, made when new. The table grows to the largest user index that takes part, not to
 * the number of nodes: O(users) memory for the time of the edit. */
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

/* The index of a user to come: of known users first, then of those this batch has already brought, else a new one, as
 * which apply will give it: users->n plus its place. KB_ENOMEM may leave the name in `fresh`. */
static enum kb_err index_of(const struct kb_ids *users, struct kb_ids *fresh, const char *name, uint32_t *user)
{
    *user = kb_ids_find(users, name);
    if (*user == KB_ID_NONE) {
        if (kb_ids_reserve(fresh, 1, strlen(name) + 1) != KB_OK)
            return KB_ENOMEM;
        *user = (uint32_t)users->n + kb_ids_add(fresh, name);
    }
    return KB_OK;
}

static enum kb_err node_named(struct edit *x, const char *name, uint32_t *node)
{
    uint32_t user;

    return index_of(x->users, x->fresh, name, &user) == KB_OK ? node_at(x, user, node) : KB_ENOMEM;
}

/* The node of a user that must have one already. KB_ID_NONE when there is none: an unknown name, or a user
 * outside the graph. Adds nothing, since to remove an edge of a stranger is an error and no reason to make a
 * user. */
static uint32_t node_known(const struct edit *x, const char *name)
{
    uint32_t user = kb_ids_find(x->users, name);

    if (user == KB_ID_NONE && (user = kb_ids_find(x->fresh, name)) != KB_ID_NONE)
        user += (uint32_t)x->users->n;
    return user == KB_ID_NONE || user >= x->cap ? KB_ID_NONE : x->node_of[user];
}

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

/* Marks a removed edge by a negative weight in the sorted copy of the old edges. KB_ECONFLICT with
 * "/remove/<i>" for an edge that is not there, or that the same event has removed before. Node numbers of the
 * old graph are those of the new one, because the old nodes come first: the copy stays sorted. The mark is
 * undone by nobody: keep_old drops what carries it. */
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

/* Old edges in force, with what the patch replaces marked: added edges win over old ones of the same pair.
 * Compacts what is left to the front of x->edge and counts it. Naming the ends of the added edges here makes
 * their nodes in the order of the event, before add_edges asks for them again. */
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

/* Appends the event's edges behind those kept. Loops, bad weights and repeats are found by kb_graph_new. */
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

/* kb_graph_new speaks of "/edges/<position>": positions before the event's own edges are the kept ones. A
 * client knows its own array only, so the position is moved to "/add/<i>". */
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

/* Nodes first, in the order that the header promises: the old ones, the event's users, the ends of edges. One
 * item is allocated beyond the need, so that an empty list is no special case. */
static enum kb_err collect(struct edit *x, const struct kb_user_graph *old, const struct kb_event *ev,
                           struct kb_errmsg *msg)
{
    const size_t n_old = old->graph != NULL ? kb_graph_n_edges(old->graph) : 0;
    uint32_t node = 0;
    enum kb_err rc = KB_OK;

    x->edge = kb_array(n_old + ev->as.graph.n_add + 1, 1, sizeof *x->edge);
    if (x->edge == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < old->n; i++)
        KB_TRY(node_at(x, old->user_of[i], &node));
    for (size_t i = 0; i < ev->as.graph.n_users; i++)
        KB_TRY(node_named(x, ev->as.graph.users[i], &node));
    KB_TRY(keep_old(x, old, ev, msg));
    KB_TRY(add_edges(x, ev));
out:
    return rc;
}

/* `old` may be the empty graph, with which a patch begins like a PUT. */
static enum kb_err patch(const struct kb_user_graph *old, const struct kb_ids *users, struct kb_ids *fresh,
                         const struct kb_event *ev, struct kb_user_graph *out, struct kb_errmsg *msg)
{
    struct edit x = {.users = users, .fresh = fresh};
    struct kb_graph *graph = NULL;
    enum kb_err rc = collect(&x, old, ev, msg);

    if (rc == KB_OK && x.n > 0) {
        const size_t n_kept = x.n_edges - ev->as.graph.n_add;
        rc = old->graph != NULL ? kb_graph_patch(&graph, old->graph, x.n, x.edge, x.n_edges, n_kept, msg)
                                : kb_graph_new(&graph, x.n, x.edge, x.n_edges, msg);
        if (rc != KB_OK)
            point_at_event(x.n_edges - ev->as.graph.n_add, msg);
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

/* Users of the draft's nodes; a failure leaves the draft whole. */
static enum kb_err take_draft(struct kb_graph_draft *draft, const struct kb_ids *users, struct kb_ids *fresh,
                              struct kb_user_graph *out)
{
    const size_t n = draft->names.n;
    uint32_t *user_of = kb_regrow(NULL, n, sizeof *user_of);
    enum kb_err rc = user_of != NULL ? KB_OK : KB_ENOMEM;

    for (size_t i = 0; rc == KB_OK && i < n; i++)
        rc = index_of(users, fresh, kb_ids_str(&draft->names, (uint32_t)i), &user_of[i]);
    if (rc != KB_OK) {
        kb_free(user_of);
        return rc;
    }
    *out = (struct kb_user_graph){.graph = draft->graph, .user_of = user_of, .n = n};
    draft->graph = NULL;
    return KB_OK;
}

/* From the draft that came with the event; one that was used up, by an attempt that failed later, is made again. */
static enum kb_err replace(const struct kb_ids *users, struct kb_ids *fresh, const struct kb_event *ev,
                           struct kb_user_graph *out, struct kb_errmsg *msg)
{
    struct kb_graph_draft *draft = ev->as.graph.draft, *own = NULL;

    if (draft != NULL && draft->graph != NULL)
        return take_draft(draft, users, fresh, out);
    enum kb_err rc = kb_graph_draft_new(&own, ev, msg);
    if (rc == KB_OK)
        rc = take_draft(own, users, fresh, out);
    kb_graph_draft_free(own);
    return rc;
}

/* *out is written on success only and owns its memory. An event that leaves no node gives "no graph" (NULL),
 * as at the start of a tenant. */
enum kb_err kb_user_graph_edit(const struct kb_user_graph *old, const struct kb_ids *users, struct kb_ids *fresh,
                               const struct kb_event *ev, struct kb_user_graph *out, struct kb_errmsg *msg)
{
    assert(ev->type == KB_EV_GRAPH);
    return ev->as.graph.is_replace ? replace(users, fresh, ev, out, msg) : patch(old, users, fresh, ev, out, msg);
}

/* Which user stands at which node belongs to it: the same shape under other names is another model. */
uint64_t kb_user_graph_digest(const struct kb_user_graph *g, uint64_t h)
{
    h = kb_hash_u64(h, g->n);
    if (g->graph == NULL)
        return h;
    h = kb_hash_array(h, g->user_of, g->n * sizeof *g->user_of);
    return kb_graph_digest(g->graph, h);
}

/* n, the user of each node, number of edges, then a word (u in the upper half, v in the lower) and a weight
 * for each. */
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

/* Everything is read before it is judged; the checks of kb_graph_new (range, loops, weights) apply to what a
 * file says as well, and any refusal counts as damage. An edge takes 16 bytes, which bounds the allocation by
 * the file's size. */
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
    if (n > 0)
        rc = kb_graph_new(&g->graph, n, edge, n_edges, NULL);
    if (rc != KB_OK && rc != KB_ENOMEM)
        rc = KB_ECORRUPT;
out:
    kb_free(edge);
    if (rc != KB_OK) {
        kb_free(user_of);
        return rc;
    }
    g->user_of = user_of;
    g->n = n;
    return KB_OK;
}

/* For the memory figures. */
size_t kb_user_graph_bytes(const struct kb_user_graph *g)
{
    return g->n * sizeof *g->user_of + (g->graph != NULL ? kb_graph_bytes(g->graph) : 0);
}
