/* Evidence of a regression on the features of several components, and its gradient: marginal_features.h has the
 * formulas.
 *
 * Numerical notes. B >= I, so nothing small is divided by; it has no factor only where D G D / s2 drowns the identity
 * in its rounding, which the search passes by. B^-1 is made explicitly for its diagonal, of one matrix at one moment.
 */
#include "posterior/marginal_features.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "linalg/chol.h"
#include "linalg/linalg.h"

/* What kb_scales_fit asks. */
struct place {
    const struct kb_feature_sums *sums;
    struct kb_chol factor;
    double *d, *w; /* [m] sqrt v_c(i); t, then w */
};

static void close_place(struct place *p)
{
    kb_chol_close(&p->factor);
    kb_free(p->d);
    kb_free(p->w);
}

static enum kb_err open_place(struct place *p, const struct kb_feature_sums *sums)
{
    enum kb_err rc;

    assert(sums->n_components >= 1 && sums->n_components <= KB_MARGINAL_COMPONENTS);
    *p = (struct place){.sums = sums};
    rc = kb_chol_reserve(&p->factor, sums->m);
    p->d = kb_array(sums->m + 1, 1, sizeof *p->d);
    p->w = kb_array(sums->m + 1, 1, sizeof *p->w);
    if (rc == KB_OK && (p->d == NULL || p->w == NULL))
        rc = KB_ENOMEM;
    if (rc != KB_OK)
        close_place(p);
    return rc;
}

/* B into the factor's buffer, D (b - mu zs) / s2 into w. */
static void fill(struct place *p, const struct kb_scales *at)
{
    const struct kb_feature_sums *s = p->sums;

    for (size_t i = 0; i < s->m; i++)
        p->d[i] = sqrt(at->variance[s->component[i]]);
    for (size_t c = 0; c < s->m; c++) {
        double *column = p->factor.l + c * p->factor.cap;

        for (size_t r = c; r < s->m; r++)
            column[r] = p->d[r] * (p->d[c] / at->noise) * s->gram[c * s->ld + r];
        column[c] += 1;
        p->w[c] = p->d[c] * (s->target[c] - at->mean * s->mass[c]) / at->noise;
    }
}

/* Of B^-1, which takes the place of the factor, and w: twice the derivatives, without what the dictionary misses. */
static void add_slopes(struct place *p, double *gradient)
{
    const struct kb_feature_sums *s = p->sums;

    kb_chol_invert(&p->factor);
    for (size_t i = 0; i < s->m; i++) {
        const double left = p->factor.l[i * (p->factor.cap + 1)] - 1, square = p->w[i] * p->w[i];

        gradient[s->component[i]] -= square + left;
        gradient[s->n_components] += square + left;
    }
}

static enum kb_err evaluate(void *of, const struct kb_scales *at, double *value, double *gradient)
{
    struct place *p = of;
    const struct kb_feature_sums *s = p->sums;
    const double square = fmax(s->square - 2 * at->mean * s->sum + s->count * at->mean * at->mean, 0) / at->noise;
    double twice = s->count * log(at->noise) + square, slope = s->count - square;

    fill(p, at);
    for (size_t j = 0; gradient != NULL && j <= s->n_components; j++)
        gradient[j] = 0;
    if (s->m > 0) {
        const enum kb_err rc = kb_chol_factor_in_place(&p->factor, s->m);
        if (rc != KB_OK)
            return rc;
        kb_chol_solve_l(&p->factor, p->w);
        const double known = kb_dot(s->m, p->w, p->w);
        twice += kb_chol_logdet(&p->factor) - known;
        slope += known;
        kb_chol_solve_lt(&p->factor, p->w);
        if (gradient != NULL)
            add_slopes(p, gradient);
    }
    for (size_t j = 0; j < s->n_components; j++) {
        const double missed = at->variance[j] * s->missed[j] / at->noise;

        twice += missed;
        slope -= missed;
        if (gradient != NULL)
            gradient[j] = (gradient[j] + missed) / 2;
    }
    if (gradient != NULL)
        gradient[s->n_components] = (gradient[s->n_components] + slope) / 2;
    *value = twice / 2;
    return KB_OK;
}

enum kb_err kb_marginal_features_value(const struct kb_feature_sums *sums, const struct kb_scales_prior *prior,
                                       const struct kb_scales *at, double *value, double *gradient)
{
    struct place p;
    enum kb_err rc = open_place(&p, sums);

    if (rc != KB_OK)
        return rc;
    rc = kb_scales_value(&(struct kb_likelihood){sums->n_components, 0, evaluate, &p}, prior, at, value, gradient);
    close_place(&p);
    return rc;
}

enum kb_err kb_marginal_features_fit(const struct kb_feature_sums *sums, const struct kb_scales_prior *prior,
                                     struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                                     double *before, double *after)
{
    struct place p;
    enum kb_err rc = open_place(&p, sums);

    if (rc != KB_OK)
        return rc;
    rc = kb_scales_fit(&(struct kb_likelihood){sums->n_components, 0, evaluate, &p}, prior, scales, n_most, goes_on,
                       arg, before, after);
    close_place(&p);
    return rc;
}
