/* A network of people read from an edge list, and connected samples of it. */
#ifndef LC_NETWORK_H
#define LC_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"
#include "base/ids.h"
#include "common/text.h"

struct lc_network {
    size_t n_users;        /* users with an edge: the first n_users ids */
    struct kb_edge *edges; /* distinct, u < v, sorted */
    size_t n_edges;
    size_t n_loops, n_repeats; /* rows left out */
};

/* Reads CSV `u,v[,w]` (edges.h), interning users into *users, which must be empty. Loops are dropped; of repeats
 * (either direction) the first counts. 0, or -1 with `why`. */
int lc_network_read(struct lc_network *net, struct kb_ids *users, const char *path, char *why);
/* The same from edges at hand (copied). */
void lc_network_build(struct lc_network *net, size_t n_users, const struct kb_edge *edges, size_t n_edges);
void lc_network_close(struct lc_network *net);

/* A connected set of about n users: a breadth-first ball around a random user of the largest component. Fills out (room
 * for n) and returns how many: n, or the component's size when that is smaller. */
size_t lc_network_ball(const struct lc_network *net, uint64_t seed, size_t n, uint32_t *out);

/* Adds an id to ids; its index. Ends the program without memory. KB_ID_NONE: longer than an id may be, or empty. */
uint32_t lc_intern(struct kb_ids *ids, const char *id);

#endif
