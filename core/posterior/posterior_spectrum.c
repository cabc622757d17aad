/* What confidence rules read of a posterior: its spectrum, made beside readers and swapped in; projections on it; and
 * the scalars that cost nothing.
 *
 * How it is made, and over what, is the representation's (decompose, map_block).
 *
 * Who may see what. `spectrum` is the readers' and changes in publish alone; `settled` and `is_unsettled` are the
 * writer's, who works on them while decisions run, so no reader looks at them.
 *
 * Cost: about 4/3 n^3 flops to settle (diagonal: n), 2 n^2 per candidate to project (a dictionary: 3 n^2). */
#include <assert.h>
#include <math.h>

#include "linalg/linalg.h"
#include "posterior/posterior_impl.h"

#define SETTLE_SHARE (1.0 / 16)
#define EAGER_MOST 64u  /* up to it a decomposition takes less than a tenth of a millisecond */
#define LAZY_MOST 1500u /* beyond it a decomposition takes a sixth of a second: bounds only read keep the last */

/* Where the bounds decide, or where it costs little, at every call after learning; where they are only read, when
 * enough was learned since. A set that held at an earlier time holds ever after, so that costs width alone. */
static bool is_due(const struct kb_posterior *p)
{
    const struct kb_spectrum *last = p->settled != NULL ? p->settled : p->spectrum;
    if (!p->is_unsettled || !p->settles_lazily || p->support.n <= EAGER_MOST || p->ops->is_diagonal)
        return p->is_unsettled;
    return p->support.n <= LAZY_MOST && p->n_learned >= SETTLE_SHARE * last->n_observed;
}

enum kb_err kb_posterior_settle(struct kb_posterior *p, struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;
    struct kb_spectrum *sp = NULL;
    if (!p->reads_spectrum || !is_due(p))
        return KB_OK;
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n, 0));
    KB_TRY(kb_spectrum_new(&sp, p->support.n, p->ops->is_diagonal));
    KB_TRY(p->ops->decompose(p, s, sp));
    kb_spectrum_free(p->settled);
    p->settled = sp;
    sp = NULL;
    p->is_unsettled = false;
    p->n_learned = 0;
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

double kb_posterior_accuracy(const struct kb_posterior *p)
{
    return p->accuracy;
}

double kb_posterior_log_det(const struct kb_posterior *p)
{
    return p->ops->log_det != NULL ? p->ops->log_det(p) : p->log_det;
}

bool kb_posterior_is_sketch(const struct kb_posterior *p)
{
    return p->ops->is_sketch;
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
    if (p->ops->map_block != NULL)
        p->ops->map_block(p, block, *ld, n_c);
    kb_spectrum_project(sp, block, *ld, n_c, w);
    *prior = diag;
    return w;
}

/* The sums in closed form at every ridge of the mixture: what the spectrum does not span of the rewards, |y|^2 -
 * |yt|^2, is the scatter of repeated ones, and counts in full at each. */
static void mix_closed(const struct kb_posterior *p, const struct kb_spectrum *sp, struct kb_evidence *out)
{
    const double scatter = fmax(0, out->square - kb_dot(sp->n, sp->target, sp->target));
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        const double a = p->lambda * kb_mixture_ridge[i];
        out->energy[i] = a * kb_spectrum_energy(sp, a) + scatter;
        out->log_det[i] = kb_spectrum_log_det(sp, a);
    }
}

/* The spectrum in force where it is of this moment, or else a new one, which *own then is. */
static enum kb_err spectrum_now(const struct kb_posterior *p, struct kb_scratch *s, const struct kb_spectrum **out,
                                struct kb_spectrum **own)
{
    enum kb_err rc = KB_OK;
    *out = p->settled != NULL ? p->settled : p->spectrum;
    if (!p->is_unsettled)
        return KB_OK;
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n, 0));
    KB_TRY(kb_spectrum_new(own, p->support.n, p->ops->is_diagonal));
    KB_TRY(p->ops->decompose(p, s, *own));
    *out = *own;
out:
    return rc;
}

void kb_posterior_evidence_as_told(const struct kb_posterior *p, double square, double *energy, double *log_det)
{
    (void)p;
    *energy = square;
    *log_det = 0;
}

enum kb_err kb_posterior_evidence(const struct kb_posterior *p, struct kb_scratch *s, struct kb_evidence *out)
{
    const struct kb_spectrum *sp = NULL;
    struct kb_spectrum *own = NULL;
    double energy, log_det;
    enum kb_err rc = KB_OK;
    *out = p->evidence;
    out->square += out->ignored;
    out->ignored = 0;
    if (p->ops->closed_evidence == NULL)
        return KB_OK;
    p->ops->closed_evidence(p, out->square, &energy, &log_det);
    kb_evidence_share(out, energy, log_det);
    if (!p->is_mixed || out->is_void)
        return KB_OK;
    KB_TRY(spectrum_now(p, s, &sp, &own));
    mix_closed(p, sp, out);
out:
    kb_spectrum_free(own);
    return rc;
}

void kb_posterior_set_evidence(struct kb_posterior *p, const struct kb_evidence *e)
{
    p->evidence = *e;
    p->is_unsettled = true; /* bounds rest on it: the next settle makes them anew, however little was learned */
    p->n_learned = (double)INFINITY;
}

void kb_posterior_count_empty(const struct kb_posterior *p)
{
    atomic_fetch_add_explicit(&((struct kb_posterior *)p)->n_empty, 1, memory_order_relaxed);
}
