/* Inside of a graph, shared by its files: graph_build.c (from edges), graph_patch.c (from another graph) and graph.c
 * (looking, the Laplacian). Letters as in graph.c. */
#ifndef KB_GRAPH_IMPL_H
#define KB_GRAPH_IMPL_H

#include <stdbool.h>

#include "graph/graph.h"

struct kb_graph {
    size_t n, e;
    struct kb_edge *edge; /* [e] u < v, sorted */
    size_t *start;        /* [n + 1] of each node's run in the two arrays below */
    uint32_t *neighbour;  /* [2 e] ascending within a run */
    double *weight;       /* [2 e] */
    double *degree;       /* [n] */
    size_t n_components;
    struct kb_degrees degrees;
    uint64_t digest;
};

/* Fills start, neighbour, weight and degree of g, whose edges are sorted and whose arrays have their room (start and
 * degree zeroed), from the runs of old. False, with nothing filled, when too much has changed for that, or without
 * memory. */
bool kb_graph_patch_adjacency(struct kb_graph *g, const struct kb_graph *old);

#endif
