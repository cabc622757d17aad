/* Evidence of a model that is split by arm, its gradient, and the search for its scales: marginal.h has the formulas.
 *
 * Numerical notes.
 * - An arm of one point, as all arms of an A/B test are, is arithmetic on numbers and no matrix.
 * - K^-1 is made explicitly, once an evaluation, for the traces. It is of one matrix at one moment and never updated.
 * - The search is over z, with ln theta = ln theta_0 + MOST tanh(z / MOST) for each scale theta: no z leaves the
 * bounds, and near the start z is the logarithm itself. Where K_a has no factor E counts as infinite; the line search
 *   backtracks, so it needs no gradient there.
 * - The best point that was evaluated is the result, however the search ends.
 *
 * Cost: marginal.h. L-BFGS is liblbfgs (J. Nocedal's algorithm; its few hundred bytes come from malloc). */
#include "posterior/marginal.h"

#include <assert.h>
#include <lbfgs.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/chol.h"
#include "linalg/linalg.h"

#define N_SCALES (KB_MARGINAL_COMPONENTS + 1)
#define PADDED 16 /* doubles of a vector for liblbfgs, which may work on eight at a time */
#define LEAST_GRADIENT 1e-4
#define MOST_TRIALS 20 /* evaluations of one line search */

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

/* Minus the logarithm of the priors, and its derivatives. */
static double add_priors(const struct kb_scales_prior *prior, size_t n_components, const struct kb_scales *at,
                         double *gradient)
{
    const double scatter = prior->range * prior->range / 4;
    double value = log(at->noise) + scatter / at->noise;

    gradient[n_components] += 1 - scatter / at->noise;
    for (size_t j = 0; j < n_components; j++)
        if (!prior->is_fixed[j]) {
            const double off = (log(at->variance[j] / at->noise) - log(prior->ratio[j])) / prior->spread;

            value += off * off / 2;
            gradient[j] += off / prior->spread;
            gradient[n_components] -= off / prior->spread;
        }
    return value;
}

static enum kb_err evaluate(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                            const struct kb_scales *at, struct work *w, double *value, double *gradient)
{
    const size_t n = rows->n_components;
    double twice = 0, slope[N_SCALES] = {0};
    enum kb_err rc = KB_OK;

    for (size_t a = 0; a < rows->n_arms && rc == KB_OK; a++)
        rc = add_arm(rows, a, at, w, &twice, gradient != NULL ? slope : NULL);
    if (rc != KB_OK)
        return rc;
    twice += add_scatter(rows, at->noise, &slope[n]);
    for (size_t j = 0; j <= n; j++)
        slope[j] /= 2;
    *value = twice / 2 + add_priors(prior, n, at, slope);
    for (size_t j = 0; gradient != NULL && j <= n; j++)
        gradient[j] = (j < n ? prior->is_fixed[j] : prior->is_noise_fixed) ? 0 : slope[j];
    return isfinite(*value) ? KB_OK : KB_ENOTPD;
}

enum kb_err kb_marginal_value(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                              const struct kb_scales *at, double *value, double *gradient)
{
    struct work w;
    enum kb_err rc = open_work(&w, rows);

    if (rc != KB_OK)
        return rc;
    rc = evaluate(rows, prior, at, &w, value, gradient);
    close_work(&w);
    return rc;
}

/* --- the search ------------------------------------------------------------------------------------------- */

struct search {
    const struct kb_marginal_rows *rows;
    const struct kb_scales_prior *prior;
    struct kb_scales start, best;
    double least; /* E at the best */
    struct work work;
    size_t n_free, free[N_SCALES]; /* which scales are moved; J is the noise */
    bool (*goes_on)(void *arg);
    void *arg;
    bool is_stopped;
};

static double *scale_of(const struct search *s, struct kb_scales *scales, size_t i)
{
    return s->free[i] < s->rows->n_components ? &scales->variance[s->free[i]] : &scales->noise;
}

static struct kb_scales scales_at(const struct search *s, const double *z)
{
    struct kb_scales scales = s->start;

    for (size_t i = 0; i < s->n_free; i++)
        *scale_of(s, &scales, i) *= exp(KB_MARGINAL_MOST_STEP * tanh(z[i] / KB_MARGINAL_MOST_STEP));
    return scales;
}

/* Infinite where E has no value, and when the search shall end: the line search then gives up. */
static double evaluate_at(void *search, const double *z, double *gradient, int n, double step)
{
    struct search *s = search;
    const struct kb_scales at = scales_at(s, z);
    double value = INFINITY, slope[N_SCALES];

    (void)step;
    memset(gradient, 0, (size_t)n * sizeof *gradient);
    s->is_stopped = s->is_stopped || (s->goes_on != NULL && !s->goes_on(s->arg));
    if (s->is_stopped || evaluate(s->rows, s->prior, &at, &s->work, &value, slope) != KB_OK)
        return INFINITY;
    for (size_t i = 0; i < s->n_free; i++) {
        const double t = tanh(z[i] / KB_MARGINAL_MOST_STEP);

        gradient[i] = slope[s->free[i]] * (1 - t * t);
    }
    if (value < s->least) {
        s->least = value;
        s->best = at;
    }
    return value;
}

/* How it ends does not matter: what counts is the best point on the way. */
static enum kb_err descend(struct search *s, size_t n_most)
{
    _Alignas(64) double z[PADDED] = {0};
    lbfgs_parameter_t how;

    lbfgs_parameter_init(&how);
    how.epsilon = LEAST_GRADIENT;
    how.max_iterations = (int)n_most;
    how.linesearch = LBFGS_LINESEARCH_BACKTRACKING;
    how.max_linesearch = MOST_TRIALS;
    const int ended = lbfgs((int)s->n_free, z, NULL, evaluate_at, NULL, s, &how);
    return s->is_stopped ? KB_ECANCELLED : ended == LBFGSERR_OUTOFMEMORY ? KB_ENOMEM : KB_OK;
}

enum kb_err kb_marginal_fit(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                            struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                            double *before, double *after)
{
    struct search s = {.rows = rows, .prior = prior, .start = *scales, .best = *scales, .goes_on = goes_on, .arg = arg};
    enum kb_err rc = open_work(&s.work, rows);

    if (rc != KB_OK)
        return rc;
    for (size_t j = 0; j <= rows->n_components; j++)
        if (!(j < rows->n_components ? prior->is_fixed[j] : prior->is_noise_fixed))
            s.free[s.n_free++] = j;
    if (goes_on != NULL && !goes_on(arg))
        rc = KB_ECANCELLED;
    else
        rc = evaluate(rows, prior, scales, &s.work, &s.least, NULL);
    const double at_start = s.least;
    if (rc == KB_OK && s.n_free > 0 && n_most > 0)
        rc = descend(&s, n_most);
    if (rc == KB_OK) {
        *scales = s.best;
        *before = at_start;
        *after = s.least;
    }
    close_work(&s.work);
    return rc;
}
