/* Drafts of graphs (graph_draft.h). The cost is that of the names: two look-ups an edge, in a table that is larger than
 * any cache when there are a million users. Lists are often by the first user, who is then looked up once. */
#include "graph_draft.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"

/* The name's node, a new one when it has none yet. */
static enum kb_err node_of(struct kb_graph_draft *d, const char *name, uint32_t *node)
{
    *node = kb_ids_find(&d->names, name);
    if (*node != KB_ID_NONE)
        return KB_OK;
    enum kb_err rc = kb_ids_reserve(&d->names, 1, strlen(name) + 1);
    if (rc == KB_OK)
        *node = kb_ids_add(&d->names, name);
    return rc;
}

static enum kb_err number_edges(struct kb_graph_draft *d, const struct kb_event *ev, struct kb_edge *edge)
{
    const char *last = "";
    uint32_t u = KB_ID_NONE, v;
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < ev->as.graph.n_add; i++) {
        const struct kb_ev_edge *e = &ev->as.graph.add[i];

        if (i == 0 || strcmp(e->u, last) != 0)
            KB_TRY(node_of(d, e->u, &u));
        KB_TRY(node_of(d, e->v, &v));
        edge[i] = (struct kb_edge){u, v, e->weight};
        last = e->u;
    }
out:
    return rc;
}

enum kb_err kb_graph_draft_new(struct kb_graph_draft **out, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_graph_draft *d = kb_array(1, 1, sizeof *d);
    struct kb_edge *edge = kb_array(ev->as.graph.n_add + 1, 1, sizeof *edge);
    enum kb_err rc = d != NULL && edge != NULL ? KB_OK : KB_ENOMEM;
    uint32_t node;

    assert(ev->type == KB_EV_GRAPH && ev->as.graph.is_replace);
    for (size_t i = 0; rc == KB_OK && i < ev->as.graph.n_users; i++)
        rc = node_of(d, ev->as.graph.users[i], &node);
    KB_TRY(rc);
    KB_TRY(number_edges(d, ev, edge));
    if (d->names.n > 0)
        KB_TRY(kb_graph_new(&d->graph, d->names.n, edge, ev->as.graph.n_add, msg));
    *out = d;
    d = NULL;
out:
    kb_graph_draft_free(d);
    kb_free(edge);
    return rc;
}

void kb_graph_draft_free(struct kb_graph_draft *d)
{
    if (d == NULL)
        return;
    kb_graph_free(d->graph);
    kb_ids_close(&d->names);
    kb_free(d);
}
