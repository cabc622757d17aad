/* The users around one of them, for whoever wants to look at a part of a graph: those within so many edges, nearest
 * first, and the edges among them. */
#ifndef KB_BALL_H
#define KB_BALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/graph.h"

struct kb_ball_edge {
    uint32_t from, to; /* places in the ball, from < to */
    double weight;
};

struct kb_ball {
    size_t n;
    uint32_t
        *node; /* [n] by hops; within one number of hops as their nearer friends stand, then as the graph has them */
    uint32_t *hops; /* [n] the least number of edges to the first node */
    size_t n_edges, cap_edges;
    struct kb_ball_edge *edge; /* [n_edges] by from, then by to */
    bool is_truncated;         /* more than `limit` nodes are within `hops` */
};

/* At most `limit` >= 1 nodes within `hops` edges of the centre. KB_ENOMEM: nothing to close. O(limit^2 log n), whatever
 * the degrees. */
enum kb_err kb_ball_find(const struct kb_graph *g, uint32_t centre, uint32_t hops, size_t limit, struct kb_ball *out);
void kb_ball_close(struct kb_ball *b);

#endif
