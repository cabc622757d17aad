/* Named user graphs: from events to kb_graph.
 *
 * What an event makes is a draft (graph_draft.c): made before its turn, or here, where a log is folded or the change is
 * small. In the turn its nodes are given their users.
 *
 * Place: engine_model.c calls the edit in the reserve step of a `graph` event, beside readers of the old
 * graph; apply swaps the new one in and frees the old. Nothing of the engine is changed before: new users go
 * into `fresh` (the engine's staging), and a refused edit leaves nothing behind but names there, which the
 * rollback throws away.
 *
 *   user index   of the engine (kb_ids), for all users that ever appeared; here also "to come": fresh ones
 *                count on from users->n in their order in `fresh`
 *   node         0..n-1, of the users in the graph only; user_of[node] is the way back */
#include "model/user_graph.h"

#include "base/alloc.h"
#include "base/hash.h"

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

struct kb_graph_ref *kb_graph_ref_new(struct kb_user_graph *taken)
{
    struct kb_graph_ref *g = kb_array(1, 1, sizeof *g);

    if (g == NULL)
        return NULL;
    atomic_init(&g->n_holders, 1);
    g->graph = *taken;
    kb_user_graph_init(taken);
    return g;
}

struct kb_graph_ref *kb_graph_ref_hold(struct kb_graph_ref *g)
{
    if (g != NULL)
        atomic_fetch_add_explicit(&g->n_holders, 1, memory_order_relaxed);
    return g;
}

/* What the others have read of it comes before it is freed. */
void kb_graph_ref_release(struct kb_graph_ref *g)
{
    if (g == NULL || atomic_fetch_sub_explicit(&g->n_holders, 1, memory_order_acq_rel) > 1)
        return;
    kb_user_graph_close(&g->graph);
    kb_free(g);
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
