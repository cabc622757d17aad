/* Evidence of a model that is split by arm, and its gradient: marginal.h has the formulas.
 *
 * Numerical notes.
 * - An arm of one point, as all arms of an A/B test are, is arithmetic on numbers and no matrix.
 * - K^-1 is made explicitly, once an evaluation, for the traces. It is of one matrix at one moment and never updated.
 *
 * Cost: marginal.h. */
#include "posterior/marginal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/chol.h"
#include "linalg/linalg.h"

/* Room for the largest arm. */
struct work {
    struct kb_chol factor;
    double *gram[KB_MARGINAL_COMPONENTS], *alpha;
};

static void close_work(struct work *w)
{
    kb_chol_close(&w->factor);
    kb_free(w->alpha);
    for (size_t j = 0; j < KB_MARGINAL_COMPONENTS; j++)
        kb_free(w->gram[j]);
}

static enum kb_err open_work(struct work *w, const struct kb_marginal_rows *rows)
{
    size_t n = 1;
    enum kb_err rc;

    assert(rows->n_components >= 1 && rows->n_components <= KB_MARGINAL_COMPONENTS);
    *w = (struct work){.alpha = NULL};
    for (size_t a = 0; a < rows->n_arms; a++)
        n = rows->arm[a].n > n ? rows->arm[a].n : n;
    rc = kb_chol_reserve(&w->factor, n);
    if (rc == KB_OK && (w->alpha = kb_array(n, 1, sizeof *w->alpha)) == NULL)
        rc = KB_ENOMEM;
    for (size_t j = 0; j < rows->n_components && rc == KB_OK; j++)
        if ((w->gram[j] = kb_array(n, n, sizeof *w->gram[j])) == NULL)
            rc = KB_ENOMEM;
    if (rc != KB_OK)
        close_work(w);
    return rc;
}

/* --- one arm --------------------------------------------------------------------------------------------- */

/* Twice its part of E; gradient[j] and gradient[J] get twice its part, too. */
static double add_point(const struct kb_marginal_rows *rows, size_t a, const struct kb_scales *at, struct work *w,
                        double *gradient)
{
    const double count = *rows->arm[a].count, noise = at->noise / count, y = *rows->arm[a].sum / count - at->mean;
    double k = noise;

    for (size_t j = 0; j < rows->n_components; j++)
        k += at->variance[j] * *w->gram[j];
    const double slope = (1 - y * y / k) / k;
    for (size_t j = 0; gradient != NULL && j < rows->n_components; j++)
        gradient[j] += slope * at->variance[j] * *w->gram[j];
    if (gradient != NULL)
        gradient[rows->n_components] += slope * noise;
    if (gradient != NULL && rows->n_weights > 0)
        rows->slope(rows->of, a, at, &slope, 1, gradient + rows->n_components + 1);
    return y * y / k + log(k) + log(count);
}

/* K_a into the factor's buffer, ybar into alpha; returns sum ln c_i. */
static double fill(const struct kb_marginal_rows *rows, size_t a, const struct kb_scales *at, struct work *w)
{
    const struct kb_marginal_arm *arm = &rows->arm[a];
    const size_t n = arm->n;
    double logs = 0;

    for (size_t c = 0; c < n; c++) {
        double *column = w->factor.l + c * w->factor.cap + c;

        memset(column, 0, (n - c) * sizeof *column);
        for (size_t j = 0; j < rows->n_components; j++)
            kb_axpy(n - c, at->variance[j], w->gram[j] + c * n + c, column);
        *column += at->noise / arm->count[c];
        w->alpha[c] = arm->sum[c] / arm->count[c] - at->mean;
        logs += log(arm->count[c]);
    }
    return logs;
}

/* Of M = K^-1 - alpha alpha', whose lower triangle takes the place of the factor: tr(M v_j G_j), and that with the
 * noise. The lower triangles count twice. */
static void add_traces(const struct kb_marginal_rows *rows, size_t a, const struct kb_scales *at, struct work *w,
                       double *gradient)
{
    const struct kb_marginal_arm *arm = &rows->arm[a];
    const size_t n = arm->n;

    kb_chol_invert(&w->factor);
    for (size_t c = 0; c < n; c++) {
        double *column = w->factor.l + c * w->factor.cap + c;

        kb_axpy(n - c, -w->alpha[c], w->alpha + c, column);
        for (size_t j = 0; j < rows->n_components; j++) {
            const double *g = w->gram[j] + c * n + c;

            gradient[j] += at->variance[j] * (2 * kb_dot(n - c, column, g) - *column * *g);
        }
        gradient[rows->n_components] += *column * at->noise / arm->count[c];
    }
    if (rows->n_weights > 0)
        rows->slope(rows->of, a, at, w->factor.l, w->factor.cap, gradient + rows->n_components + 1);
}

static enum kb_err add_arm(const struct kb_marginal_rows *rows, size_t a, const struct kb_scales *at, struct work *w,
                           double *twice, double *gradient)
{
    const size_t n = rows->arm[a].n;

    if (n == 0)
        return KB_OK;
    rows->gram(rows->of, a, w->gram);
    if (n == 1) {
        *twice += add_point(rows, a, at, w, gradient);
        return KB_OK;
    }
    const double logs = fill(rows, a, at, w);
    const enum kb_err rc = kb_chol_factor_in_place(&w->factor, n);
    if (rc != KB_OK)
        return rc;
    kb_chol_solve_l(&w->factor, w->alpha);
    *twice += kb_dot(n, w->alpha, w->alpha) + kb_chol_logdet(&w->factor) + logs;
    if (gradient != NULL) {
        kb_chol_solve_lt(&w->factor, w->alpha);
        add_traces(rows, a, at, w, gradient);
    }
    return KB_OK;
}

/* --- all of them ------------------------------------------------------------------------------------------- */

/* What is left of rewards within points, at scale s2: C - N rewards with the scatter W. Twice its part. */
static double add_scatter(const struct kb_marginal_rows *rows, double noise, double *slope)
{
    double scatter = rows->square, left = 0;

    for (size_t a = 0; a < rows->n_arms; a++)
        for (size_t i = 0; i < rows->arm[a].n; i++) {
            const double count = rows->arm[a].count[i], sum = rows->arm[a].sum[i];

            assert(count > 0);
            scatter -= sum * sum / count;
            left += count - 1;
        }
    scatter = fmax(scatter, 0);
    *slope += left - scatter / noise;
    return left * log(noise) + scatter / noise;
}

/* What kb_scales_fit asks. */
struct place {
    const struct kb_marginal_rows *rows;
    struct work work;
};

static enum kb_err evaluate(void *of, const struct kb_scales *at, double *value, double *gradient)
{
    struct place *p = of;
    const size_t n = p->rows->n_components;
    double twice = 0, slope[KB_MARGINAL_COMPONENTS + 1 + KB_MARGINAL_WEIGHTS] = {0};
    enum kb_err rc = KB_OK;

    if (p->rows->n_weights > 0)
        p->rows->weigh(p->rows->of, at->weight);
    for (size_t a = 0; a < p->rows->n_arms && rc == KB_OK; a++)
        rc = add_arm(p->rows, a, at, &p->work, &twice, gradient != NULL ? slope : NULL);
    if (rc != KB_OK)
        return rc;
    twice += add_scatter(p->rows, at->noise, &slope[n]);
    for (size_t j = 0; gradient != NULL && j <= n + p->rows->n_weights; j++)
        gradient[j] = slope[j] / 2;
    *value = twice / 2;
    return KB_OK;
}

enum kb_err kb_marginal_value(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                              const struct kb_scales *at, double *value, double *gradient)
{
    struct place p = {.rows = rows};
    enum kb_err rc = open_work(&p.work, rows);

    if (rc != KB_OK)
        return rc;
    rc = kb_scales_value(&(struct kb_likelihood){rows->n_components, rows->n_weights, evaluate, &p}, prior, at, value,
                         gradient);
    close_work(&p.work);
    return rc;
}

enum kb_err kb_marginal_fit(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                            struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                            double *before, double *after)
{
    struct place p = {.rows = rows};
    enum kb_err rc = open_work(&p.work, rows);

    if (rc != KB_OK)
        return rc;
    rc = kb_scales_fit(&(struct kb_likelihood){rows->n_components, rows->n_weights, evaluate, &p}, prior, scales,
                       n_most, goes_on, arg, before, after);
    close_work(&p.work);
    return rc;
}
