/* What a served posterior tells of itself (posterior.h): copied in one step, which readers may wait for, and computed
 * from the copy in another, which nobody does. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/eigen.h"
#include "posterior/posterior_impl.h"

struct kb_facts_work {
    struct kb_posterior_facts facts;
    double lambda;
    struct kb_chol *factor; /* [n_factors] of S, where the effective dimension is the sum of n - lambda tr S^-1 */
    size_t n_factors;
    double *diag, *off; /* [n_spectrum] and one less, of the spectrum's T; NULL: there is none */
    size_t n_spectrum;
};

static void work_free(struct kb_facts_work *w)
{
    for (size_t i = 0; i < w->n_factors; i++)
        kb_chol_close(&w->factor[i]);
    kb_free(w->factor);
    kb_free(w->diag);
    kb_free(w->off);
    kb_free(w);
}

static enum kb_err look_at_spectrum(const struct kb_posterior *p, struct kb_facts_work *w)
{
    const struct kb_spectrum *sp = p->spectrum;

    if (sp == NULL || sp->n == 0)
        return KB_OK;
    w->diag = kb_array(sp->n, 1, sizeof *w->diag);
    w->off = kb_array(sp->n, 1, sizeof *w->off);
    if (w->diag == NULL || w->off == NULL)
        return KB_ENOMEM;
    memcpy(w->diag, sp->diag, sp->n * sizeof *w->diag);
    memcpy(w->off, sp->off + 1, (sp->n - 1) * sizeof *w->off);
    w->n_spectrum = sp->n;
    w->facts.n_seen = sp->n_observed;
    return KB_OK;
}

/* Below 0 there is rounding alone. */
static void find_top(struct kb_facts_work *w)
{
    const size_t n = w->n_spectrum;

    if (n == 0 || kb_eigen_tridiagonal(n, w->diag, w->off) != KB_OK)
        return;
    w->facts.n_top = n < KB_TOP_EIGENVALUES ? n : KB_TOP_EIGENVALUES;
    for (size_t i = 0; i < w->facts.n_top; i++)
        w->facts.top[i] = fmax(w->diag[n - 1 - i], 0);
}

enum kb_err kb_posterior_look(const struct kb_posterior *p, struct kb_facts_work **work)
{
    enum kb_err rc = KB_OK;
    struct kb_facts_work *w = kb_array(1, 1, sizeof *w);

    if (w == NULL)
        return KB_ENOMEM;
    w->lambda = p->lambda;
    w->facts = (struct kb_posterior_facts){
        .n_support = p->support.n,
        .n_clamped = kb_posterior_n_clamped(p),
        .n_empty = atomic_load_explicit(&((struct kb_posterior *)p)->n_empty, memory_order_relaxed),
        .bytes = kb_posterior_bytes(p),
    };
    if (p->ops->closed_facts != NULL)
        p->ops->closed_facts(p, &w->facts);
    else if (p->support.n > 0)
        w->n_factors = p->ops->n_factors != NULL ? p->ops->n_factors(p) : 1;
    w->factor = kb_array(w->n_factors, 1, sizeof *w->factor);
    if (w->factor == NULL) {
        kb_free(w);
        return KB_ENOMEM;
    }
    for (size_t i = 0; i < w->n_factors; i++) {
        double gain = 0;
        KB_TRY(p->ops->look(p, i, &w->factor[i], &gain));
        w->facts.information_gain += gain;
    }
    KB_TRY(look_at_spectrum(p, w));
    *work = w;
    w = NULL;
out:
    if (w != NULL)
        work_free(w);
    return rc;
}

enum kb_err kb_facts_finish(struct kb_facts_work *w, struct kb_posterior_facts *out)
{
    size_t most = 0;
    for (size_t i = 0; i < w->n_factors; i++)
        most = w->factor[i].n > most ? w->factor[i].n : most;
    double *scratch = kb_array(most + 1, KB_TRACE_COLUMNS, sizeof *scratch);
    const enum kb_err rc = scratch != NULL || out == NULL ? KB_OK : KB_ENOMEM;

    for (size_t i = 0; scratch != NULL && out != NULL && i < w->n_factors; i++)
        if (w->factor[i].n > 0)
            w->facts.effective_dimension +=
                (double)w->factor[i].n - w->lambda * kb_chol_inverse_trace(&w->factor[i], scratch);
    if (out != NULL)
        find_top(w);
    if (out != NULL) { /* both are between 0 and what n points can have; rounding may not know it */
        *out = w->facts;
        out->effective_dimension = fmin(fmax(out->effective_dimension, 0), (double)out->n_support);
        out->information_gain = fmax(out->information_gain, 0);
    }
    kb_free(scratch);
    work_free(w);
    return rc;
}

enum kb_err kb_posterior_facts(const struct kb_posterior *p, struct kb_posterior_facts *out)
{
    struct kb_facts_work *work = NULL;
    const enum kb_err rc = kb_posterior_look(p, &work);

    return rc == KB_OK ? kb_facts_finish(work, out) : rc;
}
