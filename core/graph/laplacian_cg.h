/* Columns and diagonal entries of (L + rho I)^-1 by preconditioned conjugate gradients, for graphs whose dense
 * inverse is too large. Private to the user kernel. */
#ifndef KB_LAPLACIAN_CG_H
#define KB_LAPLACIAN_CG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/graph.h"

/* Columns solved side by side at most. */
#define KB_CG_WIDTH 16u

/* The operator A = L + rho I, with the virtual node when population > 0. The graph is borrowed. */
struct kb_cg {
    const struct kb_graph *graph;
    double rho, population;
    size_t order;             /* n, or n + 1 with the virtual node */
    double *inverse_diagonal; /* [order] the preconditioner */
    double square;            /* kb_cg_stop_at: of the residual in the preconditioner's norm; 0 = far below */
};

enum kb_err kb_cg_init(struct kb_cg *cg, const struct kb_graph *graph, double rho, double population);
void kb_cg_close(struct kb_cg *cg);

/* From here on columns are solved until every residual is at most `limit` in absolute value, and no further: entries
 * then miss A^-1 by at most limit / rho, diagonal ones by limit^2 / rho. Without population only. */
void kb_cg_stop_at(struct kb_cg *cg, double limit);

/* Work vectors of one solver, [order][width] interleaved each. */
struct kb_cg_work {
    size_t order, width; /* width is 1 or KB_CG_WIDTH */
    double *x, *r, *p, *q;
};

enum kb_err kb_cg_work_init(struct kb_cg_work *w, size_t order, size_t width);
void kb_cg_work_close(struct kb_cg_work *w);

/* Columns `nodes` of A^-1, n <= width of them, into w->x: entry (i, k) is x[i * width + k]. The residual is
 * 1e-12 of the right-hand side in the preconditioner's norm, or as kb_cg_stop_at says. diag[k] receives the diagonal
 * entry with the very bits that kb_cg_diagonal gives. A column's bits do not depend on what is solved beside it.
 * KB_ENOTPD when some column does not converge. O(iterations (n + e) width). */
enum kb_err kb_cg_columns(const struct kb_cg *cg, struct kb_cg_work *w, const uint32_t *nodes, size_t n, double *diag);

/* (A^-1)_ii for one node, relative error about 1e-12, or as kb_cg_stop_at says; stops about halfway to a whole column.
 * w has width 1. */
double kb_cg_diagonal(const struct kb_cg *cg, struct kb_cg_work *w, uint32_t node);

#endif
