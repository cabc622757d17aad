/* A graph of users out of an edge list (common/edges.h), as the event that makes it. */
#ifndef LC_USERS_GRAPH_H
#define LC_USERS_GRAPH_H

#include "base/message.h"
#include "common/network.h"
#include "spec/event.h"

struct lc_users_graph {
    struct kb_ids users;
    struct kb_ev_edge *edges;
    struct kb_event event;
};

/* 0, or -1 with why. Close in either case. */
int lc_users_graph_read(struct lc_users_graph *g, const char *path, struct ld_message *why);
void lc_users_graph_close(struct lc_users_graph *g); /* zeroed is fine */

#endif
