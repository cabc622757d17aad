/* What confidence rules read of a posterior: its spectrum, made beside readers and swapped in; projections on it; and
 * the scalars that cost nothing.
 *
 * A representation that holds all distinct points gives their counts and sums (ops->weights); the kernel values are
 * evaluated anew, since taking K_UU out of the factor's F F^T - lambda N^-1 would cost the digits below lambda.
 *
 * Who may see what. `spectrum` is the readers' and changes in publish alone; `settled` and `is_unsettled` are the
 * writer's, who works on them while decisions run, so no reader looks at them.
 *
 * Cost: n^2 / 2 kernel values and about 9 n^3 flops to settle, n^2 flops per candidate to project. */
#include <assert.h>

#include "linalg.h"
#include "posterior_ops.h"

/* Lower triangle of K_UU into the spectrum's basis. Writes nothing that readers see. O(n^2 dim). */
static void write_gram(const struct kb_posterior *p, struct kb_scratch *s, struct kb_spectrum *sp)
{
    size_t n = sp->n, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, n);
    for (size_t i = 0; i < n; i++) {
        struct kb_point pt = kb_support_point(&p->support, i);
        kb_posterior_column(p, i + 1, &pt, s, row);
        for (size_t j = 0; j <= i; j++)
            sp->basis[j * n + i] = row[j];
    }
    kb_arena_reset(&s->arena, mark);
}

enum kb_err kb_posterior_settle(struct kb_posterior *p, struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;
    struct kb_spectrum *sp = NULL;
    const double *count, *sum;
    if (!p->reads_spectrum || !p->is_unsettled)
        return KB_OK;
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n, 0));
    KB_TRY(kb_spectrum_new(&sp, p->support.n));
    write_gram(p, s, sp);
    p->ops->weights(p, &count, &sum);
    KB_TRY(kb_spectrum_decompose(sp, count, sum));
    kb_spectrum_free(p->settled);
    p->settled = sp;
    sp = NULL;
    p->is_unsettled = false;
out:
    kb_spectrum_free(sp);
    return rc;
}

bool kb_posterior_has_settled(const struct kb_posterior *p)
{
    return p->settled != NULL;
}

void kb_posterior_publish(struct kb_posterior *p)
{
    if (p->settled == NULL)
        return;
    kb_spectrum_free(p->spectrum);
    p->spectrum = p->settled;
    p->settled = NULL;
}

double kb_posterior_lambda(const struct kb_posterior *p)
{
    return p->lambda;
}

double kb_posterior_log_det(const struct kb_posterior *p)
{
    return p->log_det;
}

const struct kb_spectrum *kb_posterior_spectrum(const struct kb_posterior *p)
{
    return p->spectrum;
}

/* The support only grows, in order, so the spectrum's points are the first rows of the block, whatever came since. */
const double *kb_posterior_project(const struct kb_posterior *p, const struct kb_candidates *cand, size_t c0,
                                   size_t n_c, struct kb_scratch *s, size_t *ld, const double **prior)
{
    const struct kb_spectrum *sp = p->spectrum;
    assert(sp != NULL && sp->n <= p->support.n && n_c <= KB_BLOCK);
    *ld = kb_block_ld(p->support.n);
    double *block = kb_posterior_block(s, p->support.n), *w = kb_posterior_block(s, p->support.n);
    double *diag = kb_arena_doubles(&s->arena, KB_BLOCK);
    kb_kernel_block(&p->kernel, &p->support, cand, c0, n_c, s, block, *ld, diag);
    if (sp->n > 0)
        kb_gemm_tn(sp->n, n_c, sp->n, 1, sp->basis, sp->n, block, *ld, 0, w, *ld);
    *prior = diag;
    return w;
}

void kb_posterior_count_empty(const struct kb_posterior *p)
{
    atomic_fetch_add_explicit(&((struct kb_posterior *)p)->n_empty, 1, memory_order_relaxed);
}
