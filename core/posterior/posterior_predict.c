/* Predictions: what a posterior says of points that it is asked for (posterior.h).
 *
 * KB_BLOCK points at a time: kernel values against the support first, then the representation's solves on the whole
 * block.
 *
 * Variances are kept inside [0, k(s,s)], where they lie in exact arithmetic; leaving it by more than rounding
 * explains is counted (n_clamped), so a degraded model shows in its facts and not as a NaN that wins an argmax.
 *
 * Cost: see the representations; kernel values add O(n_support (dim + 1)) per candidate, O(n_support) for an arm of the
 * catalogue whose values are kept (arm_columns.h). */
#include <assert.h>
#include <math.h>

#include "posterior/posterior_impl.h"

#define ROUNDING 1e-8

void kb_posterior_count_clamp(const struct kb_posterior *p)
{
    /* a counter that readers share; the object itself is never const */
    atomic_fetch_add_explicit(&((struct kb_posterior *)p)->n_clamped, 1, memory_order_relaxed);
}

double kb_posterior_bounded(const struct kb_posterior *p, double variance, double diag)
{
    if (variance < -ROUNDING * diag || variance > (1 + ROUNDING) * diag)
        kb_posterior_count_clamp(p);
    return fmin(fmax(variance, 0.0), fmax(diag, 0.0));
}

const struct kb_posterior *kb_posterior_of_sd(const struct kb_posterior *p)
{
    return p->beside != NULL && p->n_open > 0 ? p->beside : p;
}

void kb_posterior_solve_block(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                              double *mean, double *variance)
{
    (p->n_open > 0 && p->ops->predict_open != NULL ? p->ops->predict_open
                                                   : p->ops->predict_block)(p, block, ld, n_c, diag, mean, variance);
}

/* KB_BLOCK candidates at a time: kernel values first, then the representation's solves on the whole block. */
static void predict_blocks(const struct kb_posterior *p, const struct kb_candidates *cand,
                           const struct kb_beside *beside, struct kb_scratch *s, double *mean, double *sd)
{
    size_t mark = kb_arena_mark(&s->arena), ld = kb_block_ld(p->support.n);
    double *block = kb_posterior_block(s, p->support.n);
    double *diag = kb_arena_doubles(&s->arena, KB_BLOCK);
    for (size_t c0 = 0; c0 < cand->n; c0 += KB_BLOCK) {
        size_t n_c = cand->n - c0 < KB_BLOCK ? cand->n - c0 : KB_BLOCK;
        kb_kernel_block(&p->kernel, &p->support, cand, c0, n_c, s, block, ld, diag);
        kb_posterior_solve_block(p, block, ld, n_c, diag, mean + c0, sd + c0);
        if (beside != NULL)
            kb_beside_take(beside, p, cand, c0, n_c, block, ld, s, sd + c0);
        for (size_t c = 0; c < n_c; c++)
            sd[c0 + c] = sqrt(kb_posterior_bounded(p, sd[c0 + c], diag[c]));
    }
    kb_arena_reset(&s->arena, mark);
}

void kb_posterior_predict(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                          double *mean, double *sd)
{
    kb_posterior_predict_beside(p, cand, NULL, s, mean, sd);
}

void kb_posterior_predict_beside(const struct kb_posterior *p, const struct kb_candidates *cand,
                                 const struct kb_beside *beside, struct kb_scratch *s, double *mean, double *sd)
{
    if (p->ops->predict == NULL) {
        predict_blocks(p, cand, p == kb_posterior_of_sd(p) ? beside : NULL, s, mean, sd);
    } else {
        p->ops->predict(p, cand, s, mean, sd);
        for (size_t c = 0; c < cand->n; c++)
            sd[c] = sqrt(sd[c]);
    }
    if (kb_posterior_of_sd(p) != p)
        kb_posterior_narrow_sd(p, cand, beside, s, sd);
}

/* Points of any users, where a decision has one: columns one by one, then the same solves. */
void kb_posterior_variances(const struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s,
                            double *variance)
{
    size_t mark = kb_arena_mark(&s->arena), ld = kb_block_ld(p->support.n);
    double *block = kb_posterior_block(s, p->support.n), diag[KB_BLOCK], mean[KB_BLOCK];
    for (size_t i = 0; i < n; i++) {
        diag[i] = kb_kernel_diag(&p->kernel, &pts[i], s);
        kb_posterior_column(p, p->support.n, &pts[i], s, block + i * ld);
    }
    p->ops->predict_block(p, block, ld, n, diag, mean, variance);
    for (size_t i = 0; i < n; i++)
        variance[i] = kb_posterior_bounded(p, variance[i], diag[i]);
    kb_arena_reset(&s->arena, mark);
}

/* Asking is what puts a user's diagonal into the cache that normalised rows divide by. */
double kb_posterior_user_diag(const struct kb_posterior *p, struct kb_user user, struct kb_scratch *s)
{
    return p->kernel.is_user_normalized ? kb_user_kernel_diag(p->kernel.user, user, s->user) : 1.0;
}

void kb_posterior_column(const struct kb_posterior *p, size_t n, const struct kb_point *pt, struct kb_scratch *s,
                         double *out)
{
    if (n > 0)
        kb_kernel_column(&p->kernel, &p->support, n, pt, kb_posterior_user_diag(p, pt->user, s), out);
}

const double *kb_posterior_one_column(const struct kb_posterior *p, const struct kb_candidates *cand,
                                      struct kb_scratch *s)
{
    double *column = kb_arena_doubles(&s->arena, kb_block_ld(p->support.n)), diag;
    kb_kernel_block(&p->kernel, &p->support, cand, 0, 1, s, column, kb_block_ld(p->support.n), &diag);
    return column;
}

/* --- arms of the catalogue --------------------------------------------------------------------------------- */

void kb_posterior_keep_arms(struct kb_posterior *p, const struct kb_arms *arms, size_t most)
{
    kb_arm_columns_settle(&p->columns, arms, p->cap, most);
}

bool kb_posterior_has_kept(const struct kb_posterior *p)
{
    return p->columns.has_settled;
}

void *kb_posterior_publish_arms(struct kb_posterior *p)
{
    return kb_arm_columns_publish(&p->columns);
}

size_t kb_posterior_kept_bytes(const struct kb_posterior *p)
{
    return kb_arm_columns_bytes(&p->columns);
}
