/* The user graph under its users' names: a kb_graph whose nodes are interned users. Immutable, as the graph is;
 * an edit makes a new one from the old one and the event. */
#ifndef KB_USER_GRAPH_H
#define KB_USER_GRAPH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "spec/event.h"
#include "graph/graph.h"
#include "base/ids.h"

struct kb_user_graph {
    struct kb_graph *graph; /* NULL: no graph */
    uint32_t *user_of;      /* [n nodes] interned user of each node */
    size_t n;
};

void kb_user_graph_init(struct kb_user_graph *g);
/* Frees the graph and the names' table; equal to a graph that was never given. */
void kb_user_graph_close(struct kb_user_graph *g);

/* A graph that several may hold, in any thread: the engine, builds, snapshots, and patches that are made of it. */
struct kb_graph_ref {
    atomic_size_t n_holders;
    struct kb_user_graph graph;
};

struct kb_graph_ref *kb_graph_ref_new(struct kb_user_graph *taken); /* NULL: no memory, nothing taken */
struct kb_graph_ref *kb_graph_ref_hold(struct kb_graph_ref *g);     /* by who knows that it is held; NULL is fine */
void kb_graph_ref_release(struct kb_graph_ref *g);

/* Nodes with their users, then the edges. h is the digest so far. */
uint64_t kb_user_graph_digest(const struct kb_user_graph *g, uint64_t h);
void kb_user_graph_save(const struct kb_user_graph *g, struct kb_writer *w);
/* g fresh from init; n_users bounds the indices. A failure leaves no graph
 * behind; close g before it is used again. */
enum kb_err kb_user_graph_load(struct kb_user_graph *g, size_t n_users, struct kb_reader *r);
size_t kb_user_graph_bytes(const struct kb_user_graph *g);

#endif
