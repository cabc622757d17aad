/* clang-format off */
/* What an event makes of the user graph, made before its turn. A whole graph rests on the event alone; a patch rests on
 * the graph that it changes as well, and is worth something as long as that is the tenant's.
 *
 *     new     numbers the event's names among themselves; a whole graph is made here    any thread
 *     meet    looks for the names among the engine's users, some at a time              beside the writer, read lock
 *     make    a patched graph                                                           any thread
 *     edit    kb_user_graph_edit puts users to the nodes, some for all names at once    the writer's turn
 *
 * An event without a draft goes through the same in its turn, so the bits are the same with or without it. */
/* clang-format on */
#ifndef KB_GRAPH_DRAFT_H
#define KB_GRAPH_DRAFT_H

#include <stdbool.h>

#include "base/err.h"
#include "spec/event.h"
#include "graph/graph.h"
#include "base/ids.h"
#include "model/user_graph.h"

struct kb_graph_draft {
    struct kb_graph_ref *held; /* holds `base`, or what a whole graph takes the place of; NULL: the caller does */
    const struct kb_user_graph *base; /* a patch is of; NULL: the graph is whole */
    struct kb_graph *graph;           /* NULL: not made yet, no nodes, or taken by an engine */
    struct kb_ids names;              /* the event's users, then the ends of its edges, then those of edges removed */
    size_t n_named;                   /* names before the last kind: each has a node */
    struct kb_edge *edge;             /* [n_add] of the event, by names; a patch's, until it is made */
    uint32_t *name_of;                /* [n_new] name of each node behind those of the base; NULL: of node i the i-th */
    size_t n_new;
    bool is_made;
    /* Who the names are: */
    uint32_t *user; /* [names.n] KB_ID_NONE: nobody that is known yet */
    size_t n_met;   /* names that were looked for */
    size_t n_seen;  /* users that there were when the first was; later ones are asked for in the turn */
    uint32_t *slot; /* a table of the users (below n_seen) and the names (n_seen + i) that nobody has; or NULL */
    size_t n_slots, n_placed; /* users that stand in it */
};

/* A replacing event when `base` is NULL, else a patch of it; `held` (may be NULL) is released with the draft, also when
 * there is none. Errors as kb_user_graph_edit; *out is set on success alone. O(names + edges). */
enum kb_err kb_graph_draft_new(struct kb_graph_draft **out, const struct kb_event *ev, const struct kb_user_graph *base,
                               struct kb_graph_ref *held, struct kb_hash_key key, struct kb_errmsg *msg);
/* `most` steps of it; whether there are more. users: of one engine, which may get more of them in between. */
bool kb_graph_draft_meet(struct kb_graph_draft *d, const struct kb_ids *users, size_t most);
/* After meet. A failure leaves nothing but the names. Cost: copies of the base's arrays. */
enum kb_err kb_graph_draft_make(struct kb_graph_draft *d, const struct kb_event *ev, struct kb_errmsg *msg);
void kb_graph_draft_free(struct kb_graph_draft *d); /* NULL is fine */

/* Applies a KB_EV_GRAPH to `old`, giving *out. Names that are not in `users` are added to `fresh`, a list (their index
 * to come is users->n plus theirs in fresh). Nodes: the old ones (patch), then the event's users, then edge ends, in
 * order. *draft: that of the event, or NULL; it is used where it is made of `old`, else one that is the caller's to
 * free takes its place. Errors: KB_EINVAL at "/edges/3" or "/add/3", KB_ECONFLICT at "/remove/0" (no
 * such edge), KB_ELIMIT, KB_ENOMEM; *out is written on success only. */
enum kb_err kb_user_graph_edit(const struct kb_user_graph *old, const struct kb_ids *users, struct kb_ids *fresh,
                               const struct kb_event *ev, struct kb_graph_draft **draft, struct kb_user_graph *out,
                               struct kb_errmsg *msg);

/* kb_ids_join for the names that were taken: with the table that meet has prepared, where there is one. */
enum kb_err kb_graph_draft_join(struct kb_graph_draft *d, struct kb_ids *users, const struct kb_ids *fresh,
                                struct kb_moves *m);

#endif
