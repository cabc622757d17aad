#include "evaluate/users_graph.h"

#include <stdlib.h>

#include "base/hash_key.h"

int lc_users_graph_read(struct lc_users_graph *g, const char *path, struct ld_message *why)
{
    struct lc_network net = {0};

    *g = (struct lc_users_graph){0};
    kb_ids_init(&g->users, ld_hash_key());
    if (lc_network_read(&net, &g->users, path, why->text) != 0)
        return -1;
    g->edges = lc_alloc(net.n_edges + 1, sizeof *g->edges);
    for (size_t i = 0; i < net.n_edges; i++)
        g->edges[i] = (struct kb_ev_edge){kb_ids_str(&g->users, net.edges[i].u), kb_ids_str(&g->users, net.edges[i].v),
                                          net.edges[i].weight};
    g->event =
        (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = g->edges, .n_add = net.n_edges}};
    lc_network_close(&net);
    return 0;
}

void lc_users_graph_close(struct lc_users_graph *g)
{
    kb_ids_close(&g->users);
    free(g->edges);
    g->edges = NULL;
}
