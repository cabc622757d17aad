/* Preconditioned conjugate gradients for A x = e_u, A = L + rho I (laplacian_cg.h).
 *
 *   letter   shape          meaning
 *   A        order          L + rho I, perhaps with the virtual node
 *   M        order          diag(A), Jacobi's preconditioner;  z = M^-1 r
 *   x, r     order x width  solution, residual e_u - A x, `width` columns interleaved
 *   p, q     order x width  direction, A p
 *   rz_j                    r_j . z_j;  a_j = rz_j / (p_j . q_j);  b_j = rz_(j+1) / rz_j
 *   d_j                     a_j rz_j, the drop of the error's square in the norm of A at step j
 *
 * Diagonal entries. From x_0 = 0 the steps satisfy  e_u^T A^-1 e_u = sum_j d_j  [HS, thm 6:1; GM, ch. 4: the sum is
 * the Gauss quadrature of 1/t for the measure of e_u]. It misses the limit by the square of the error in the norm
 * of A, so half the digits of the column give all digits of the diagonal and x itself is not needed. The sum stops
 * when d_j has been below 1e-13 of it three times running.
 *
 * Same bits alone and in a block. Every scalar and every sum belongs to one column and runs over the nodes in
 * ascending order; a column that has converged is frozen by a = 0, which adds exact zeros. So blocks may be cut
 * anyhow, and whoever asks first for a value does not change it. (Reassociation is off: no -ffast-math.)
 *
 * Convergence: Jacobi bounds the spectrum of M^-1 A by 2 from above and rho / (d_max + rho) from below, so
 * O(sqrt(d_max / rho)) iterations; social graphs take far fewer.
 * Cost of an iteration: 2 e + 6 n multiply-adds per column; a block reads the graph once for 16 columns.
 *
 * [HS] Hestenes, Stiefel: Methods of conjugate gradients for solving linear systems, 1952.
 * [GM] Golub, Meurant: Matrices, Moments and Quadrature with Applications, 2010. */
#include "graph/laplacian_cg.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/clones.h"

#define COLUMN_TOLERANCE 1e-12   /* on sqrt(rz_j / rz_0) */
#define DIAGONAL_TOLERANCE 1e-13 /* on d_j / sum d */
#define DIAGONAL_PATIENCE 3      /* small steps in a row before the sum is believed */
#define MAX_ITERATIONS 20000     /* cond(M^-1 A) up to about 1e8; beyond, rho is no regularisation at all */

enum kb_err kb_cg_init(struct kb_cg *cg, const struct kb_graph *graph, double rho, double population)
{
    size_t n = kb_graph_n_nodes(graph), order = n + (population > 0.0);
    double *inverse = kb_array(order, 1, sizeof *inverse);
    if (inverse == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n; i++)
        inverse[i] = 1.0 / (kb_graph_degree(graph, (uint32_t)i) + rho + population);
    if (population > 0.0)
        inverse[n] = 1.0 / ((double)n * population + rho);
    *cg = (struct kb_cg){graph, rho, population, order, inverse, 0.0};
    return KB_OK;
}

void kb_cg_close(struct kb_cg *cg)
{
    kb_free(cg->inverse_diagonal);
    *cg = (struct kb_cg){0};
}

/* r.M^-1 r >= r.r / max diag(A), so r.r <= limit^2 and with it every residual. As for the columns of laplacian_push.c,
 * A^-1 1 = 1 / rho and A^-1 >= 0 bound the error by limit / rho; that of the sum for the diagonal is
 * r^T A^-1 r <= r.r / rho. */
void kb_cg_stop_at(struct kb_cg *cg, double limit)
{
    double least = INFINITY;
    assert(limit > 0.0 && cg->population <= 0.0);
    for (size_t i = 0; i < cg->order; i++)
        least = fmin(least, cg->inverse_diagonal[i]);
    cg->square = limit * limit * least;
}

enum kb_err kb_cg_work_init(struct kb_cg_work *w, size_t order, size_t width)
{
    assert(width == 1 || width == KB_CG_WIDTH);
    size_t size = order * width;
    double *block =
        size <= SIZE_MAX / 4 ? kb_regrow(NULL, size * 4, sizeof *block) : NULL; /* a solve sets what it reads */
    if (block == NULL)
        return KB_ENOMEM;
    *w = (struct kb_cg_work){order, width, block, block + size, block + 2 * size, block + 3 * size};
    return KB_OK;
}

void kb_cg_work_close(struct kb_cg_work *w)
{
    kb_free(w->x); /* the head of the one block */
    *w = (struct kb_cg_work){0};
}

/* --- the sweeps over the nodes --------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

/* out[k] = p_k . q_k */
INLINE void dots(size_t width, size_t order, const double *restrict p, const double *restrict q, double *restrict out)
{
    double sum[KB_CG_WIDTH] = {0};
    for (size_t i = 0; i < order; i++)
        for (size_t k = 0; k < width; k++)
            sum[k] += p[i * width + k] * q[i * width + k];
    memcpy(out, sum, width * sizeof *out);
}

/* x_k += a_k p_k */
INLINE void advance(size_t width, size_t order, const double *restrict a, const double *restrict p, double *restrict x)
{
    for (size_t i = 0; i < order; i++)
        for (size_t k = 0; k < width; k++)
            x[i * width + k] += a[k] * p[i * width + k];
}

/* r_k -= a_k q_k and rz[k] = r_k . M^-1 r_k */
INLINE void reduce(size_t width, size_t order, const double *restrict a, const double *restrict q,
                   const double *restrict inverse, double *restrict r, double *restrict rz)
{
    double sum[KB_CG_WIDTH] = {0};
    for (size_t i = 0; i < order; i++)
        for (size_t k = 0; k < width; k++) {
            double value = r[i * width + k] - a[k] * q[i * width + k];
            r[i * width + k] = value;
            sum[k] += value * value * inverse[i];
        }
    memcpy(rz, sum, width * sizeof *rz);
}

/* p_k = M^-1 r_k + b_k p_k */
INLINE void turn(size_t width, size_t order, const double *restrict b, const double *restrict r,
                 const double *restrict inverse, double *restrict p)
{
    for (size_t i = 0; i < order; i++)
        for (size_t k = 0; k < width; k++)
            p[i * width + k] = inverse[i] * r[i * width + k] + b[k] * p[i * width + k];
}

/* The two widths in use, so that the inner loops have a constant length. */
#define BY_WIDTH(function, w, ...)                                                                                     \
    do {                                                                                                               \
        if ((w)->width == 1)                                                                                           \
            function(1, (w)->order, __VA_ARGS__);                                                                      \
        else                                                                                                           \
            function(KB_CG_WIDTH, (w)->order, __VA_ARGS__);                                                            \
    } while (0)

KB_HOT static void sweep_dots(const struct kb_cg_work *w, double *out)
{
    BY_WIDTH(dots, w, w->p, w->q, out);
}

KB_HOT static void sweep_advance(const struct kb_cg_work *w, const double *a)
{
    BY_WIDTH(advance, w, a, w->p, w->x);
}

KB_HOT static void sweep_reduce(const struct kb_cg_work *w, const double *a, const double *inverse, double *rz)
{
    BY_WIDTH(reduce, w, a, w->q, inverse, w->r, rz);
}

KB_HOT static void sweep_turn(const struct kb_cg_work *w, const double *b, const double *inverse)
{
    BY_WIDTH(turn, w, b, w->r, inverse, w->p);
}

/* --- the iteration --------------------------------------------------------------------------------- */

/* Scalars of the columns in work. Dead columns (beyond n) are frozen from the start. */
struct columns {
    size_t width, n;
    double rz[KB_CG_WIDTH], rz_first[KB_CG_WIDTH];
    double a[KB_CG_WIDTH], b[KB_CG_WIDTH], pq[KB_CG_WIDTH];
    double sum[KB_CG_WIDTH];  /* sum of d_j while the diagonal is open */
    int n_small[KB_CG_WIDTH]; /* small d_j in a row; DIAGONAL_PATIENCE closes the diagonal */
    bool is_frozen[KB_CG_WIDTH];
    bool is_lost; /* one of them to rounding */
};

/* x = 0, r = e_u, p = M^-1 r for every column. */
static void start(const struct kb_cg *cg, struct kb_cg_work *w, const uint32_t *nodes, size_t n, struct columns *c)
{
    size_t bytes = w->order * w->width * sizeof(double);
    memset(w->x, 0, bytes);
    memset(w->r, 0, bytes);
    memset(w->p, 0, bytes);
    *c = (struct columns){.width = w->width, .n = n};
    for (size_t k = 0; k < w->width; k++)
        c->is_frozen[k] = k >= n;
    for (size_t k = 0; k < n; k++) {
        size_t at = (size_t)nodes[k] * w->width + k;
        w->r[at] = 1.0;
        w->p[at] = cg->inverse_diagonal[nodes[k]];
        c->rz[k] = c->rz_first[k] = cg->inverse_diagonal[nodes[k]];
    }
}

static bool is_diagonal_open(const struct columns *c, size_t k)
{
    return c->n_small[k] < DIAGONAL_PATIENCE;
}

/* Adds d = a rz to the diagonal's sum, until three small ones in a row have closed it. */
static void extend_diagonal(struct columns *c, size_t k)
{
    double d = c->a[k] * c->rz[k];
    if (!is_diagonal_open(c, k))
        return;
    c->sum[k] += d;
    c->n_small[k] = d < DIAGONAL_TOLERANCE * c->sum[k] ? c->n_small[k] + 1 : 0;
}

/* Step lengths from p.q; 0 for frozen columns. A p.q that is not positive is made of rounding: weights so far from rho
 * that A p has no digit of it. What is summed up by then stays, and the column is lost. */
static void choose_steps(struct columns *c)
{
    for (size_t k = 0; k < c->width; k++) {
        if (!c->is_frozen[k] && !(c->pq[k] > 0.0))
            c->is_frozen[k] = c->is_lost = true;
        c->a[k] = c->is_frozen[k] ? 0.0 : c->rz[k] / c->pq[k];
        if (!c->is_frozen[k])
            extend_diagonal(c, k);
    }
}

/* Takes over the new rz, sets b and freezes what has converged; `square` is kb_cg_stop_at's. Returns the number of
 * columns still moving. */
static size_t settle(struct columns *c, const double *rz, double square)
{
    size_t n_moving = 0;
    for (size_t k = 0; k < c->width; k++) {
        c->b[k] = 0.0;
        if (c->is_frozen[k])
            continue;
        bool is_near = rz[k] <= square;
        bool is_small = rz[k] <= COLUMN_TOLERANCE * COLUMN_TOLERANCE * c->rz_first[k];
        /* An exact zero (an isolated node after one step) has nothing left to add to the diagonal either. */
        c->is_frozen[k] = rz[k] <= 0.0 || is_near || (is_small && !is_diagonal_open(c, k));
        c->b[k] = c->is_frozen[k] ? 0.0 : rz[k] / c->rz[k];
        c->rz[k] = rz[k];
        n_moving += !c->is_frozen[k];
    }
    return n_moving;
}

static void multiply(const struct kb_cg *cg, struct kb_cg_work *w, struct columns *c)
{
    kb_graph_apply(cg->graph, cg->rho, cg->population, w->width, w->p, w->q);
    sweep_dots(w, c->pq);
    choose_steps(c);
}

enum kb_err kb_cg_columns(const struct kb_cg *cg, struct kb_cg_work *w, const uint32_t *nodes, size_t n, double *diag)
{
    assert(w->order == cg->order && n <= w->width);
    struct columns c;
    double rz[KB_CG_WIDTH];
    size_t n_moving = n;
    start(cg, w, nodes, n, &c);
    for (int step = 0; n_moving > 0 && step < MAX_ITERATIONS; step++) {
        multiply(cg, w, &c);
        sweep_advance(w, c.a);
        sweep_reduce(w, c.a, cg->inverse_diagonal, rz);
        n_moving = settle(&c, rz, cg->square);
        sweep_turn(w, c.b, cg->inverse_diagonal);
    }
    memcpy(diag, c.sum, n * sizeof *diag);
    return n_moving == 0 && !c.is_lost ? KB_OK : KB_ENOTPD;
}

/* The same recurrences without x, and only until the diagonal's sum has closed. Running into the bound leaves the
 * sum a lower bound of the entry: positive, and the best that is known. */
double kb_cg_diagonal(const struct kb_cg *cg, struct kb_cg_work *w, uint32_t node)
{
    assert(w->order == cg->order && w->width == 1);
    struct columns c;
    double rz[KB_CG_WIDTH];
    size_t n_moving = 1;
    start(cg, w, &node, 1, &c);
    for (int step = 0; n_moving > 0 && is_diagonal_open(&c, 0) && step < MAX_ITERATIONS; step++) {
        multiply(cg, w, &c);
        sweep_reduce(w, c.a, cg->inverse_diagonal, rz);
        n_moving = settle(&c, rz, cg->square);
        sweep_turn(w, c.b, cg->inverse_diagonal);
    }
    return c.sum[0];
}
