/* Local columns of the Laplacian's inverse by Gauss-Southwell pushes (laplacian_push.h)  [ACL, sec. 2].
 *
 *   letter   shape   meaning
 *   B        n x n   L + rho I, diagonal b_i = d_i + rho;  G = B^-1
 *   x, r     n       approximate column of u, residual e_u - B x >= 0
 *
 * A push at i takes the residual there into x:  x_i += r_i / b_i,  r_j += w_ij r_i / b_i for the neighbours,  r_i = 0.
 * The off-diagonal entries of B are <= 0, so residuals never become negative, x only grows, and G >= 0 entry by entry.
 * L 1 = 0 makes G 1 = 1 / rho. Hence, when all r_i are within [0, limit],
 *
 *     0 <= G e_u - x = G r <= limit G 1 = limit / rho,
 *
 * whatever the graph: that is the bound which user_kernel.c promises. Each push takes rho r_i / b_i out of the
 * residual's sum, which begins at 1, so it ends.
 *
 * Diagonal. G_uu = e_u^T G e_u = x_u + r^T G e_u = x_u + r^T x + r^T G r, and the last term, which is left out, is
 * within [0, r^T r / rho], since rho is the least eigenvalue of B. That is the square of a small thing: the limit is
 * lowered in steps until r^T r <= tolerance, which is much sooner than a column ends. A column goes on from there, so
 * both have passed through the same state.
 *
 * Order: a queue; a node enters when its residual passes the limit. So the order is a function of graph and node.
 *
 * Cost: one visit of two cache lines per edge of each push. Over a million users with five edges each, rho 1 and a
 * limit of 5e-5: four thousand pushes, 1 to 4 ms (docs/PERFORMANCE.md). Where nothing decays (a mesh, small rho) it
 * would visit all nodes many times: the budget ends it, and conjugate gradients take over.
 *
 * [ACL] Andersen, Chung, Lang: Local graph partitioning using PageRank vectors, 2006. */
#include "graph/laplacian_push.h"

#include <assert.h>

#include "base/alloc.h"

/* Edges that a solve may visit, in passes over all of them: conjugate gradients need one pass an iteration. */
#define BUDGET_PASSES 2
#define FIRST_LIMIT 0.25 /* of the residual, which begins at 1 */
#define NEXT_LIMIT 0.25  /* of the last one */

enum kb_err kb_push_init(struct kb_push *w, size_t n)
{
    *w = (struct kb_push){.n = n,
                          .cell = kb_array(n, 1, sizeof *w->cell),
                          .touched = kb_regrow(NULL, n, sizeof *w->touched),
                          .queue = kb_regrow(NULL, n, sizeof *w->queue)};
    if (w->cell != NULL && w->touched != NULL && w->queue != NULL)
        return KB_OK;
    kb_push_close(w);
    return KB_ENOMEM;
}

void kb_push_close(struct kb_push *w)
{
    kb_free(w->cell);
    kb_free(w->touched);
    kb_free(w->queue);
    *w = (struct kb_push){0};
}

/* The ring never holds more than n nodes: a node is in it exactly while its residual is above the limit. */
static void enter(struct kb_push *w, uint32_t node)
{
    const size_t at = w->first + w->n_queued++;
    w->queue[at < w->n ? at : at - w->n] = node;
}

static uint32_t leave(struct kb_push *w)
{
    const uint32_t node = w->queue[w->first];
    w->first = w->first + 1 < w->n ? w->first + 1 : 0;
    w->n_queued--;
    return node;
}

/* The residual of a node grows by `more` > 0. A cell of 0 is new: one that was pushed has x > 0, as limits are far from
 * where a quotient of doubles vanishes. */
static void add_residual(struct kb_push *w, uint32_t node, double more, double limit)
{
    struct kb_push_cell *cell = &w->cell[node];
    const bool was_above = cell->r > limit;
    if (cell->r <= 0.0 && cell->x <= 0.0)
        w->touched[w->n_touched++] = node;
    w->square += (2.0 * cell->r + more) * more;
    cell->r += more;
    if (!was_above && cell->r > limit)
        enter(w, node);
}

/* Takes the node's residual into x. */
static void push(struct kb_push *w, const struct kb_graph *g, double rho, double limit, uint32_t node)
{
    const struct kb_neighbours near = kb_graph_neighbours(g, node);
    struct kb_push_cell *cell = &w->cell[node];
    const double step = cell->r / (kb_graph_degree(g, node) + rho);
    cell->x += step;
    w->square -= cell->r * cell->r;
    cell->r = 0.0;
    for (size_t i = 0; i < near.n; i++) {
        const double more = near.weight[i] * step;
        if (more > 0.0) /* a product of tiny numbers may be none */
            add_residual(w, near.node[i], more, limit);
    }
    w->work += 1 + near.n;
}

void kb_push_begin(struct kb_push *w, uint32_t node)
{
    assert(w->n_touched == 0 && w->n_queued == 0 && node < w->n);
    w->first = w->work = 0;
    w->cell[node].r = w->square = 1.0;
    w->touched[w->n_touched++] = node;
}

/* Pushes until no residual is above the limit, or the sum of their squares is at most `square`. */
static bool drain(struct kb_push *w, const struct kb_graph *g, double rho, double limit, double square)
{
    const size_t budget = BUDGET_PASSES * (kb_graph_n_nodes(g) + 2 * kb_graph_n_edges(g));
    assert(w->n == kb_graph_n_nodes(g) && limit > 0.0);
    for (size_t i = 0; i < w->n_touched; i++)
        if (w->cell[w->touched[i]].r > limit)
            enter(w, w->touched[i]);
    while (w->n_queued > 0 && w->square > square && w->work <= budget)
        push(w, g, rho, limit, leave(w));
    const bool is_done = w->n_queued == 0 || w->square <= square;
    w->n_queued = 0; /* who goes on looks through all residuals */
    return is_done;
}

bool kb_push_column(struct kb_push *w, const struct kb_graph *g, double rho, double limit)
{
    return drain(w, g, rho, limit, -1.0);
}

/* It ends: r^T r <= limit sum(r) <= limit. */
bool kb_push_diagonal(struct kb_push *w, const struct kb_graph *g, double rho, double tolerance, double *diag)
{
    double rest = 0;
    for (double limit = FIRST_LIMIT; w->square > tolerance; limit *= NEXT_LIMIT)
        if (!drain(w, g, rho, limit, tolerance))
            return false;
    for (size_t i = 0; i < w->n_touched; i++)
        rest += w->cell[w->touched[i]].r * w->cell[w->touched[i]].x;
    *diag = w->cell[w->touched[0]].x + rest;
    return true;
}

void kb_push_clear(struct kb_push *w)
{
    for (size_t i = 0; i < w->n_touched; i++)
        w->cell[w->touched[i]] = (struct kb_push_cell){0};
    w->n_touched = w->n_queued = 0;
}
