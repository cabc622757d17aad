/* The search for scales by their evidence: see scales.h.
 *
 * Numerical notes.
 * - The search is over z, with ln theta = ln theta_0 + MOST tanh(z / MOST) for each scale theta: no z leaves the
 *   bounds, and near the start z is the logarithm itself. Where E has no value it counts as infinite; the line search
 *   backtracks, so it needs no gradient there.
 * - The best point that was evaluated is the result, however the search ends.
 *
 * L-BFGS is liblbfgs (J. Nocedal's algorithm; its few hundred bytes come from malloc). */
#include "posterior/scales.h"

#include <lbfgs.h>
#include <math.h>
#include <string.h>

#define N_SCALES (KB_MARGINAL_COMPONENTS + 1 + KB_MARGINAL_WEIGHTS)
#define PADDED 48 /* doubles of a vector for liblbfgs, which may work on eight at a time */
#define LEAST_GRADIENT 1e-4
#define MOST_TRIALS 20 /* evaluations of one line search */

/* Minus the logarithm of the priors, and its derivatives. */
static double add_priors(const struct kb_scales_prior *prior, size_t n_components, size_t n_weights,
                         const struct kb_scales *at, double *gradient)
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
    for (size_t g = 0; prior->are_weights_free && g < n_weights; g++) {
        const double off = log(at->weight[g]) / prior->spread;

        value += off * off / 2;
        gradient[n_components + 1 + g] += off / prior->spread;
    }
    return value;
}

static bool is_held(const struct kb_scales_prior *prior, size_t n_components, size_t j)
{
    return j < n_components ? prior->is_fixed[j] : j == n_components ? prior->is_noise_fixed : !prior->are_weights_free;
}

enum kb_err kb_scales_value(const struct kb_likelihood *likelihood, const struct kb_scales_prior *prior,
                            const struct kb_scales *at, double *value, double *gradient)
{
    const size_t n = likelihood->n_components;
    double slope[N_SCALES] = {0};
    const enum kb_err rc = likelihood->value(likelihood->of, at, value, gradient != NULL ? slope : NULL);

    if (rc != KB_OK)
        return rc;
    *value += add_priors(prior, n, likelihood->n_weights, at, slope);
    for (size_t j = 0; gradient != NULL && j <= n + likelihood->n_weights; j++)
        gradient[j] = is_held(prior, n, j) ? 0 : slope[j];
    return isfinite(*value) ? KB_OK : KB_ENOTPD;
}

/* --- the search ------------------------------------------------------------------------------------------- */

struct search {
    const struct kb_likelihood *likelihood;
    const struct kb_scales_prior *prior;
    struct kb_scales start, best;
    double least;                  /* E at the best */
    size_t n_free, free[N_SCALES]; /* which scales are moved; J is the noise, weights come behind it */
    bool (*goes_on)(void *arg);
    void *arg;
    bool is_stopped;
};

static double *scale_of(const struct search *s, struct kb_scales *scales, size_t i)
{
    const size_t j = s->free[i], n = s->likelihood->n_components;

    return j < n ? &scales->variance[j] : j == n ? &scales->noise : &scales->weight[j - n - 1];
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
    if (s->is_stopped || kb_scales_value(s->likelihood, s->prior, &at, &value, slope) != KB_OK)
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

enum kb_err kb_scales_fit(const struct kb_likelihood *likelihood, const struct kb_scales_prior *prior,
                          struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                          double *before, double *after)
{
    struct search s = {
        .likelihood = likelihood, .prior = prior, .start = *scales, .best = *scales, .goes_on = goes_on, .arg = arg};
    enum kb_err rc = KB_ECANCELLED;

    for (size_t j = 0; j <= likelihood->n_components + likelihood->n_weights; j++)
        if (!is_held(prior, likelihood->n_components, j))
            s.free[s.n_free++] = j;
    if (goes_on == NULL || goes_on(arg))
        rc = kb_scales_value(likelihood, prior, scales, &s.least, NULL);
    const double at_start = s.least;
    if (rc == KB_OK && s.n_free > 0 && n_most > 0)
        rc = descend(&s, n_most);
    if (rc != KB_OK)
        return rc;
    *scales = s.best;
    *before = at_start;
    *after = s.least;
    return KB_OK;
}
