/* The weighted user graph and its combinatorial Laplacian L = D - W  [LK, sec. 2].
 *
 * Nodes are 0..n-1; edges are undirected, weights positive and finite, no loops. The graph is immutable:
 * an edit builds a new one. Optionally one virtual node (index n) is tied to every node by weight
 * `population`; it is not counted in n. */
#ifndef KB_GRAPH_H
#define KB_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* An undirected edge; (u, v) and (v, u) are the same one. */
struct kb_edge {
    uint32_t u, v;
    double weight;
};

/* A user as kernels see him. */
struct kb_user {
    uint32_t index; /* interned index, the identity of users unknown to the graph */
    uint32_t node;  /* graph node or KB_ID_NONE */
};

struct kb_graph; /* opaque; compressed adjacency, O(n + e) */

/* Builds the graph. Errors (KB_EINVAL, message pointer "/edges/<i>"): node out of range, loop, weight not a
 * positive finite number, the same pair twice with different weights (equal repeats are merged). Moves nothing;
 * the edges are copied and sorted by node, so the result does not depend on their order. */
enum kb_err kb_graph_new(struct kb_graph **out, size_t n_nodes, const struct kb_edge *edges, size_t n_edges,
                         struct kb_errmsg *msg);
/* The same over at least the nodes of `old`, when the first n_kept edges are edges of it, in its order, and none of
 * them is among the others. Where little has changed it costs copies of old's arrays. The same bits. */
enum kb_err kb_graph_patch(struct kb_graph **out, const struct kb_graph *old, size_t n_nodes,
                           const struct kb_edge *edges, size_t n_edges, size_t n_kept, struct kb_errmsg *msg);
void kb_graph_free(struct kb_graph *g);

size_t kb_graph_n_nodes(const struct kb_graph *g);
size_t kb_graph_n_edges(const struct kb_graph *g);                /* distinct undirected */
struct kb_edge kb_graph_edge(const struct kb_graph *g, size_t i); /* i-th with u < v, sorted; O(1) */
double kb_graph_degree(const struct kb_graph *g, uint32_t node);  /* weighted */

/* A node's edges, by the other end, ascending; borrowed. */
struct kb_neighbours {
    const uint32_t *node;
    const double *weight;
    size_t n;
};
struct kb_neighbours kb_graph_neighbours(const struct kb_graph *g, uint32_t node);
size_t kb_graph_n_components(const struct kb_graph *g); /* counted when it was made, like the next */

/* Of the nodes' weighted degrees; 0 without nodes. */
struct kb_degrees {
    double min, mean, max;
};
struct kb_degrees kb_graph_degrees(const struct kb_graph *g);

/* label[i] = the least node of i's component (n labels); returns the number of components. O(n + e). */
size_t kb_graph_components(const struct kb_graph *g, uint32_t *label);
uint64_t kb_graph_digest(const struct kb_graph *g, uint64_t h);
size_t kb_graph_bytes(const struct kb_graph *g);

/* y = (L + rho I) x over n (+ 1 virtual node when population > 0) entries, for `width` interleaved vectors:
 * x[i*width + k], width <= 16. The virtual node has index n. O((n + e) width). */
void kb_graph_apply(const struct kb_graph *g, double rho, double population, size_t width, const double *x, double *y);

/* Dense lower triangle of L + rho I (order n, or n + 1 with population), column-major, ld = order. O(n^2). */
void kb_graph_dense(const struct kb_graph *g, double rho, double population, double *a);

#endif
