/* Columns of (L + rho I)^-1 near their own node, by pushing the residual along edges: the work follows what is not
 * negligible, not the size of the graph. Private to the user kernel. */
#ifndef KB_LAPLACIAN_PUSH_H
#define KB_LAPLACIAN_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/graph.h"

/* Solution and residual of a node, side by side: a push looks at both. */
struct kb_push_cell {
    double x, r;
};

/* One solver's work: between two solves all cells are 0. */
struct kb_push {
    size_t n;
    struct kb_push_cell *cell; /* [n] */
    uint32_t *touched;         /* [n] nodes whose cell is not 0, in the order of their first touch */
    size_t n_touched;
    uint32_t *queue; /* [n] ring of the nodes whose residual is above the limit, each once */
    size_t first, n_queued;
    size_t work;   /* visits of nodes and edges since the solve began */
    double square; /* sum of the squares of the residuals, to rounding */
};

enum kb_err kb_push_init(struct kb_push *w, size_t n);
void kb_push_close(struct kb_push *w);

/* Solves A x = e_node, A = L + rho I, with residuals >= 0: begin, then the diagonal, then the column or not, then
 * clear. Both give up (false) when the solve takes more than as many visits as some iterations over the whole graph.
 * Bits are a function of graph, rho, tolerance and node. */
void kb_push_begin(struct kb_push *w, uint32_t node);
/* (A^-1)_uu of that node, too small by at most tolerance / rho. */
bool kb_push_diagonal(struct kb_push *w, const struct kb_graph *g, double rho, double tolerance, double *diag);
/* Until every residual is in [0, limit]: then 0 <= (A^-1)_iu - x_i <= limit / rho for all i. */
bool kb_push_column(struct kb_push *w, const struct kb_graph *g, double rho, double limit);
void kb_push_clear(struct kb_push *w);

#endif
