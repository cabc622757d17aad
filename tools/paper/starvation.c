/* Variance starvation [BKB, Fig. 1]: a Gaussian process seen on the left half of [0,1] only, and what three formulas
 * say of the right half.
 *
 *   k         exp(-50 r^2), the figure's "bandwidth sigma^2 = 100" as a precision: r^2/200 would be flat on [0,1]
 *   x_1..x_t  uniform on [0, 1/2];  y = f(x) + N(0, a),  a = lambda = .01
 *   S, Z      points drawn at a step; those of them that add a direction (residual above 1e-6 k), in order
 *   exact     k(s,s) - k_t^T (K_t + a I)^-1 k_t
 *   DTC       k(s,s) - z.z + a z^T V^-1 z, z = A^-1 k_Z(s), V = sum z z^T + a I           [BKB, eq. 4; EK, Prop. 4.2]
 *   SoR       a z^T V^-1 z, the subset of regressors: what is outside the span of Z counts as known
 *
 *   draw      after observation t every x_i, i <= t, enters with p = min(1, q sd^2(x_i) / a), sd^2 of the step before
 *             [BKB, Alg. 1]
 *
 * Exact and DTC are the engine's own posteriors (core/posterior/post_exact.c, core/posterior/post_nystrom.c); the
 * regressors' variance is DTC less the residual, which comes from a factor of K_ZZ kept here. f is a sum of random
 * cosines with the kernel's spectral density (FEATURES of them): close to a draw of the process, smooth, and cheap;
 * variances do not depend on it. All chance is keyed by the seed. Cost: a posterior from scratch at every step, O(t
 * m^2); a few ms for t = 215. */
#include "paper/starvation.h"

#include <assert.h>
#include <math.h>

#include "linalg/chol.h"
#include "history/history.h"
#include "base/ids.h"
#include "posterior/posterior.h"
#include "base/rng.h"
#include "posterior/dictionary.h"
#include "posterior/learning.h"

#define LAMBDA 0.01
#define LENGTHSCALE 0.1 /* exp(-50 r^2) = exp(-r^2 / 2 l^2) */
#define FEATURES 500
#define SPAN_TOLERANCE 1e-6 /* of k(s,s): the engine's own limit for dictionary points */
#define GRID PB_STARVATION_GRID
#define POINTS PB_STARVATION_POINTS

/* Where the draws of a purpose begin under one key. */
enum { KEY_X, KEY_NOISE, KEY_FREQUENCY, KEY_PHASE, KEY_DRAW };

struct play {
    uint64_t seed;
    double q;
    struct kb_spec exact_spec, spec;
    struct kb_history history;
    struct kb_scratch scratch;
    struct kb_chol factor; /* K_ZZ = A A^T */
    size_t t;
    double x[POINTS], y[POINTS];
    struct kb_atom atom[POINTS]; /* [rank] Z */
    size_t rank, n_chosen;
};

/* A number keyed by (seed, purpose, i): purposes have keys of their own. */
static double uniform(const struct play *p, uint64_t purpose, uint64_t i)
{
    return kb_rng_uniform(p->seed * 8 + purpose, KB_STREAM_SIMULATION, i);
}

static double normal(const struct play *p, uint64_t purpose, uint64_t i)
{
    return kb_rng_normal(p->seed * 8 + purpose, KB_STREAM_SIMULATION, i);
}

static double kernel(double a, double b)
{
    return exp(-(a - b) * (a - b) / (2 * LENGTHSCALE * LENGTHSCALE));
}

/* sqrt(2 / R) sum cos(w x + b), w ~ N(0, 1 / l^2), b uniform on [0, 2 pi). */
static double truth(const struct play *p, double x)
{
    double sum = 0;
    for (uint64_t i = 0; i < FEATURES; i++)
        sum += cos(normal(p, KEY_FREQUENCY, i) / LENGTHSCALE * x + 2 * acos(-1) * uniform(p, KEY_PHASE, i));
    return sqrt(2.0 / FEATURES) * sum;
}

/* --- posteriors -------------------------------------------------------------------------------------------------- */

static enum kb_err build(struct play *p, const struct kb_spec *spec, const struct kb_atom *atoms, size_t n,
                         struct kb_posterior **out)
{
    static const uint32_t node_of[] = {KB_ID_NONE};
    struct kb_posterior *posterior = NULL;
    enum kb_err rc;
    KB_TRY(kb_posterior_new(&posterior, spec, NULL, (struct kb_hash_key){0}));
    KB_TRY(kb_posterior_fit_scratch(posterior, &p->scratch, 0));
    KB_TRY(kb_posterior_fill(posterior, &p->history, node_of, atoms, n, &p->scratch));
    *out = posterior;
    posterior = NULL;
out:
    kb_posterior_free(posterior);
    return rc;
}

static enum kb_err predict(struct play *p, const struct kb_posterior *posterior, size_t n, const double *x,
                           double *mean, double *variance)
{
    const double *features[GRID];
    uint32_t arms[GRID];
    enum kb_err rc = kb_posterior_fit_scratch(posterior, &p->scratch, 0);
    if (rc != KB_OK)
        return rc;
    for (size_t i = 0; i < n; i++) {
        features[i] = &x[i];
        arms[i] = KB_ID_NONE;
    }
    const struct kb_candidates places = {.user = {0, KB_ID_NONE}, .n = n, .arms = arms, .features = features};
    kb_posterior_predict(posterior, &places, &p->scratch, mean, variance);
    for (size_t i = 0; i < n; i++)
        variance[i] *= variance[i];
    return KB_OK;
}

/* z = A^-1 k_Z(x); returns the residual 1 - z.z, floored at 0. */
static double map(const struct play *p, double x, double *z)
{
    double residual = 1;
    for (size_t i = 0; i < p->rank; i++)
        z[i] = kernel(p->x[p->atom[i].row], x);
    kb_chol_solve_l(&p->factor, z);
    for (size_t i = 0; i < p->rank; i++)
        residual -= z[i] * z[i];
    return fmax(0, residual);
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* The next x, y into the history. Rewards are noisy with variance lambda, as the posterior supposes. */
static enum kb_err observe(struct play *p)
{
    double x = uniform(p, KEY_X, p->t) / 2;
    enum kb_err rc = kb_history_reserve(&p->history, 1);
    if (rc != KB_OK)
        return rc;
    p->x[p->t] = x;
    p->y[p->t] = truth(p, x) + sqrt(LAMBDA) * normal(p, KEY_NOISE, p->t);
    size_t row = kb_history_add(&p->history, 0, KB_ID_NONE, &x, 1, p->y[p->t], p->t + 1);
    assert(row == p->t); /* no two x are equal: a draw has 53 bits */
    p->t++;
    return KB_OK;
}

/* Makes the points drawn the dictionary, less those inside the span of the ones before. */
static void choose(struct play *p, const bool *is_drawn)
{
    double z[POINTS];
    p->factor.n = 0;
    p->rank = p->n_chosen = 0;
    for (size_t i = 0; i < p->t; i++) {
        if (!is_drawn[i])
            continue;
        double residual = map(p, p->x[i], z);
        p->n_chosen++;
        if (residual < SPAN_TOLERANCE)
            continue;
        kb_chol_append_row(&p->factor, z, sqrt(residual));
        p->atom[p->rank++] = (struct kb_atom){.row = i, .probability = 1};
    }
}

/* One Bernoulli draw for every observation, with the variances that the last dictionary gave after t - 1 of them. */
static enum kb_err resample(struct play *p, const struct kb_posterior *before)
{
    double mean[POINTS], variance[POINTS];
    bool is_drawn[POINTS];
    enum kb_err rc = predict(p, before, p->t, p->x, mean, variance);
    if (rc != KB_OK)
        return rc;
    for (size_t i = 0; i < p->t; i++)
        is_drawn[i] = uniform(p, KEY_DRAW, p->t * POINTS + i) < p->q * variance[i] / LAMBDA;
    choose(p, is_drawn);
    return KB_OK;
}

static enum kb_err measure(struct play *p, const struct kb_posterior *sketch, struct pb_starvation *out)
{
    double grid[GRID], z[POINTS];
    struct kb_posterior *exact = NULL;
    enum kb_err rc;
    for (size_t i = 0; i < GRID; i++)
        grid[i] = (double)i / (GRID - 1);
    KB_TRY(build(p, &p->exact_spec, NULL, 0, &exact));
    KB_TRY(predict(p, exact, GRID, grid, out->exact_mean, out->exact));
    KB_TRY(predict(p, sketch, GRID, grid, out->mean, out->dtc));
    for (size_t i = 0; i < GRID; i++)
        out->regressors[i] = fmax(0, out->dtc[i] - map(p, grid[i], z));
    out->t = p->t;
    out->n_chosen = p->n_chosen;
    out->rank = p->rank;
    for (size_t i = 0; i < p->rank; i++)
        out->row[i] = p->atom[i].row;
    for (size_t i = 0; i < p->t; i++) {
        out->x[i] = p->x[i];
        out->y[i] = p->y[i];
    }
out:
    kb_posterior_free(exact);
    return rc;
}

/* Observes, draws a dictionary by the last sketch, and replaces the sketch by that of the new one. */
static enum kb_err step(struct play *p, struct kb_posterior **sketch)
{
    struct kb_posterior *next = NULL;
    enum kb_err rc;
    KB_TRY(observe(p));
    KB_TRY(resample(p, *sketch));
    KB_TRY(build(p, &p->spec, p->atom, p->rank, &next));
    kb_posterior_free(*sketch);
    *sketch = next;
out:
    return rc;
}

/* Both specs and everything that holds memory; close is safe after a failure. No context, one feature: an arm is x. */
static enum kb_err set_up(struct play *p)
{
    enum kb_err rc;
    KB_TRY(kb_spec_preset(&p->exact_spec, "k-ucb", 0, 1));
    p->exact_spec.arm_kernel.lengthscale = LENGTHSCALE;
    p->exact_spec.repr.lambda = LAMBDA;
    p->spec = p->exact_spec;
    p->spec.repr.type = KB_REPR_THRESHOLD; /* a dictionary of given points: no rule of admission is asked */
    kb_history_init(&p->history, 1, (struct kb_hash_key){0});
    kb_scratch_init(&p->scratch);
    kb_chol_init(&p->factor);
    KB_TRY(kb_chol_reserve(&p->factor, POINTS));
out:
    return rc;
}

enum kb_err pb_starvation_play(uint64_t seed, double q, const size_t *at, size_t n, struct pb_starvation *out)
{
    struct play p = {.seed = seed, .q = q};
    struct kb_posterior *sketch = NULL;
    enum kb_err rc;
    KB_TRY(set_up(&p));
    KB_TRY(build(&p, &p.spec, NULL, 0, &sketch)); /* the prior */
    for (size_t i = 0; i < n; i++) {
        assert(at[i] <= POINTS && (i == 0 || at[i] > at[i - 1]));
        while (p.t < at[i])
            KB_TRY(step(&p, &sketch));
        KB_TRY(measure(&p, sketch, &out[i]));
    }
out:
    kb_posterior_free(sketch);
    kb_chol_close(&p.factor);
    kb_scratch_close(&p.scratch);
    kb_history_close(&p.history);
    return rc;
}
