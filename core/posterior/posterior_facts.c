/* What a served posterior tells of itself (posterior.h): copied in one step, which readers may wait for, and computed
 * from the copy in another, which nobody does. */
#include <math.h>

#include "base/alloc.h"
#include "posterior/posterior_impl.h"

struct kb_facts_work {
    struct kb_posterior_facts facts;
    double lambda;
    struct kb_chol factor; /* of S, where the effective dimension is n - lambda tr S^-1 */
};

enum kb_err kb_posterior_look(const struct kb_posterior *p, struct kb_facts_work **work)
{
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
    kb_chol_init(&w->factor);
    *work = w;
    if (p->ops->closed_facts != NULL) {
        p->ops->closed_facts(p, &w->facts);
        return KB_OK;
    }
    if (p->support.n > 0 && kb_chol_reserve(&w->factor, p->support.n) != KB_OK) {
        kb_free(w);
        *work = NULL;
        return KB_ENOMEM;
    }
    if (p->support.n > 0)
        w->facts.information_gain = p->ops->look(p, &w->factor);
    return KB_OK;
}

enum kb_err kb_facts_finish(struct kb_facts_work *w, struct kb_posterior_facts *out)
{
    const size_t n = w->factor.n;
    double *scratch = kb_array(n + 1, 1, sizeof *scratch);
    const enum kb_err rc = scratch != NULL || out == NULL ? KB_OK : KB_ENOMEM;

    if (scratch != NULL && out != NULL && n > 0)
        w->facts.effective_dimension = (double)n - w->lambda * kb_chol_inverse_trace(&w->factor, scratch);
    if (out != NULL) { /* both are between 0 and what n points can have; rounding may not know it */
        *out = w->facts;
        out->effective_dimension = fmin(fmax(out->effective_dimension, 0), (double)out->n_support);
        out->information_gain = fmax(out->information_gain, 0);
    }
    kb_free(scratch);
    kb_chol_close(&w->factor);
    kb_free(w);
    return rc;
}

enum kb_err kb_posterior_facts(const struct kb_posterior *p, struct kb_posterior_facts *out)
{
    struct kb_facts_work *work = NULL;
    const enum kb_err rc = kb_posterior_look(p, &work);

    return rc == KB_OK ? kb_facts_finish(work, out) : rc;
}
