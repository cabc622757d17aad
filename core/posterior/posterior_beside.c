/* What a decision knows of the points that it has chosen before (posterior.h).
 *
 * Of n such points s_j and the noise s2: C = (cov(s_i, s_j)) + s2 I = L L^T, and for a candidate c
 *
 *   variance(c) -= |L^-1 (cov(s_j, c))_j|^2
 *
 * which is what the rank-one steps come to, one after the other. Covariances are inner products of solved columns, so a
 * candidate costs O(n (m + n)) beside its O(m^2). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "linalg/linalg.h"
#include "posterior/posterior_impl.h"

/* Points of other arms know nothing of each other. */
static bool are_apart(const struct kb_posterior *p)
{
    return p->ops->predict != NULL;
}

size_t kb_beside_bytes(const struct kb_posterior *p, size_t cap)
{
    const size_t m = are_apart(p) ? 0 : kb_posterior_of_sd(p)->support.n;

    return kb_arena_need(cap * m) + kb_arena_need(cap * cap) + kb_arena_need((cap + 1) * p->support.dim) +
           kb_arena_need(cap * sizeof(struct kb_point) / sizeof(double) + 1) + kb_arena_need(cap) +
           kb_arena_need(KB_BLOCK * kb_block_ld(m)) + kb_arena_need(1);
}

void kb_beside_init(struct kb_beside *b, const struct kb_posterior *p, size_t cap, double weight, struct kb_scratch *s)
{
    struct kb_arena *a = &s->arena;
    const size_t m = are_apart(p) ? 0 : kb_posterior_of_sd(p)->support.n;

    *b = (struct kb_beside){.cap = cap,
                            .noise = p->lambda / weight,
                            .solved = kb_arena_doubles(a, cap * m),
                            .factor = kb_arena_doubles(a, cap * cap),
                            .x = kb_arena_doubles(a, cap * p->support.dim),
                            .points = kb_arena_bytes(a, cap * sizeof *b->points)};
}

/* Candidate c, joined in x. */
static struct kb_point point_of(const struct kb_posterior *p, const struct kb_candidates *cand, size_t c, double *x)
{
    const size_t n_context = p->kernel.context_dim, n_features = p->kernel.arm_dim;

    if (n_context > 0)
        memcpy(x, cand->context, n_context * sizeof *x);
    if (n_features > 0)
        memcpy(x + n_context, cand->features[c], n_features * sizeof *x);
    return (struct kb_point){.user = cand->user, .arm = cand->arms[c], .x = x, .level = cand->level};
}

/* Of two points whose columns are solved. diag_user is not read over a dictionary. */
static double covariance(const struct kb_posterior *p, double diag_user, const struct kb_point *s, const double *w,
                         const struct kb_point *t, const double *v)
{
    const double dot = kb_dot(p->support.n, w, v);

    return p->ops->is_sketch ? p->lambda * dot : kb_kernel_of_user(&p->kernel, diag_user, s, t) - dot;
}

/* y = L^-1 (cov(s_j, t))_j of the points that are there; returns |y|^2. */
static double solve(const struct kb_beside *b, const struct kb_posterior *p, double diag_user, const struct kb_point *t,
                    const double *v, double *y)
{
    double sum = 0;

    for (size_t j = 0; j < b->n; j++) {
        const double *row = b->factor + j * b->cap;
        const double cov = covariance(p, diag_user, &b->points[j], b->solved + j * p->support.n, t, v);

        y[j] = (cov - kb_dot(j, row, y)) / row[j];
        sum += y[j] * y[j];
    }
    return sum;
}

void kb_beside_put(struct kb_beside *b, const struct kb_posterior *p, const struct kb_candidates *cand, size_t c,
                   struct kb_scratch *s)
{
    if (are_apart(p))
        return;
    assert(b->n < b->cap);
    p = kb_posterior_of_sd(p);
    const size_t mark = kb_arena_mark(&s->arena), ld = kb_block_ld(p->support.n);
    const double diag_user = kb_user_kernel_diag(p->kernel.user, cand->user, s->user);
    double *w = kb_arena_doubles(&s->arena, ld), *row = b->factor + b->n * b->cap, diag, mean, variance;
    const struct kb_point pt = point_of(p, cand, c, b->x + b->n * p->support.dim);

    kb_kernel_block(&p->kernel, &p->support, cand, c, 1, s, w, ld, &diag);
    kb_posterior_solve_block(p, w, ld, 1, &diag, &mean, &variance);
    const double known = solve(b, p, diag_user, &pt, w, row);
    const double own = kb_posterior_bounded(p, covariance(p, diag_user, &pt, w, &pt, w), diag);
    row[b->n] = sqrt(fmax(own - known, 0) + b->noise);
    memcpy(b->solved + b->n * p->support.n, w, p->support.n * sizeof *w);
    b->points[b->n++] = pt;
    kb_arena_reset(&s->arena, mark);
}

void kb_beside_take(const struct kb_beside *b, const struct kb_posterior *p, const struct kb_candidates *cand,
                    size_t c0, size_t n_c, const double *solved, size_t ld, struct kb_scratch *s, double *variance)
{
    const size_t mark = kb_arena_mark(&s->arena);
    const double diag_user = kb_user_kernel_diag(p->kernel.user, cand->user, s->user);
    double *x = kb_arena_doubles(&s->arena, p->support.dim), *y = kb_arena_doubles(&s->arena, b->cap);

    for (size_t c = 0; c < n_c; c++) {
        const struct kb_point pt = point_of(p, cand, c0 + c, x);

        variance[c] -= solve(b, p, diag_user, &pt, solved + c * ld, y);
    }
    kb_arena_reset(&s->arena, mark);
}
