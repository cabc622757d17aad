/* A graph that an event gives whole, made before its turn: users by name, in the order of the nodes. Rests on the event
 * alone, so it is made in any thread, and what the engine makes of the event is the same with or without it. */
#ifndef KB_GRAPH_DRAFT_H
#define KB_GRAPH_DRAFT_H

#include "err.h"
#include "event.h"
#include "graph.h"
#include "ids.h"

struct kb_graph_draft {
    struct kb_graph *graph; /* NULL: no nodes, or taken by an engine */
    struct kb_ids names;    /* node i is the i-th */
};

/* Nodes: the event's users, then the ends of its edges, in order. ev: a KB_EV_GRAPH that replaces. Errors: KB_EINVAL at
 * "/edges/3", KB_ELIMIT, KB_ENOMEM; *out is set on success alone. O(names + edges). */
enum kb_err kb_graph_draft_new(struct kb_graph_draft **out, const struct kb_event *ev, struct kb_errmsg *msg);
void kb_graph_draft_free(struct kb_graph_draft *d); /* NULL is fine */

#endif
