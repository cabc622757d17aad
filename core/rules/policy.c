/* Decision rules: propensities of the candidates, and the draw.
 *
 *   ucb       p_i = (1 - eps) [i is one of the k of the highest score] / k + eps / C
 *   thompson  p_i = (1 - eps) P(z_i is the largest) + eps / C,  z_i ~ N(mean_i, (nu sd_i)^2) independent [LK, eq. 7]
 *   uniform   p_i = 1 / C
 *   a rule that names its arms itself (elimination.h)  p_i = (1 - eps) [i is one of the k named] / k + eps / C
 *
 * The arm is then drawn from the propensities by one keyed uniform number. The logged propensity is thus the
 * true one by construction, whatever the rule; a replay that is handed the same number draws the same arm.
 *
 * Ties are drawn for, since nothing tells tied arms apart: before the first reward all are tied, and so are arms of
 * equal features. A rule that took the first of them would never show the others. P is renormalised (the quadrature's
 * sum is 1 within 1e-10), so that the cumulative sums of the draw end at 1. An arm of propensity 0 is never drawn, not
 * even by rounding.
 *
 * Cost: O(C); Thompson see quad.c. */
#include "rules/policy.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Share of each arm before exploration is mixed in; sums to 1. */
typedef void shares_fn(double scale, size_t n, const double *mean, const double *sd, const double *score, double *share,
                       struct kb_arena *arena);

static shares_fn ucb_shares, thompson_shares, uniform_shares;

/* Values beyond all doubles tie with nothing but themselves. */
size_t kb_policy_share_best(size_t n, const double *value, const double *size, double *share)
{
    size_t best = 0, n_tied = 0;
    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    const double most = value[best], least = most - KB_TIE * fmin(fmax(fabs(most), fabs(size[best])), DBL_MAX);
    for (size_t i = 0; i < n; i++) {
        share[i] = i == best || value[i] >= least;
        n_tied += share[i] > 0;
    }
    for (size_t i = 0; n_tied > 1 && i < n; i++)
        share[i] /= (double)n_tied;
    return best;
}

static void ucb_shares(double scale, size_t n, const double *mean, const double *sd, const double *score, double *share,
                       struct kb_arena *arena)
{
    (void)scale, (void)sd, (void)arena;
    (void)kb_policy_share_best(n, score, mean, share);
}

/* The quadrature's probabilities at nu sd, made to sum to 1 exactly. */
static void thompson_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                            double *share, struct kb_arena *arena)
{
    (void)score;
    size_t mark = kb_arena_mark(arena);
    double *scaled = kb_arena_doubles(arena, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        scaled[i] = scale * sd[i];
    kb_quad_argmax(n, mean, scaled, share, arena);
    for (size_t i = 0; i < n; i++)
        sum += share[i];
    for (size_t i = 0; i < n; i++)
        share[i] /= sum;
    kb_arena_reset(arena, mark);
}

static void uniform_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                           double *share, struct kb_arena *arena)
{
    (void)scale, (void)mean, (void)sd, (void)score, (void)arena;
    for (size_t i = 0; i < n; i++)
        share[i] = 1.0 / (double)n;
}

static shares_fn *const rules[KB_RULE_N] = {
    [KB_RULE_UCB] = ucb_shares,
    [KB_RULE_THOMPSON] = thompson_shares,
    [KB_RULE_UNIFORM] = uniform_shares,
};

void kb_policy_explore(const struct kb_rule_spec *rule, size_t n, double *share)
{
    for (size_t i = 0; i < n; i++)
        share[i] = (1 - rule->epsilon) * share[i] + rule->epsilon / (double)n;
}

void kb_policy_propensities(const struct kb_rule_spec *rule, double scale, size_t n, const double *mean,
                            const double *sd, const double *score, double *propensity, struct kb_arena *arena)
{
    assert(n >= 1 && rule->type < KB_RULE_N && rules[rule->type] != NULL);
    rules[rule->type](scale, n, mean, sd, score, propensity, arena);
    kb_policy_explore(rule, n, propensity);
}

size_t kb_policy_bytes(const struct kb_rule_spec *rule, size_t n)
{
    return rule->type == KB_RULE_THOMPSON ? kb_arena_need(n) + kb_quad_bytes(n) : 0;
}

/* Inversion: deterministic in `uniform`. */
size_t kb_policy_draw(size_t n, const double *propensity, double uniform)
{
    size_t last = 0;
    double cumulative = 0;
    assert(n >= 1);
    for (size_t i = 0; i < n; i++) {
        if (!(propensity[i] > 0))
            continue;
        last = i;
        cumulative += propensity[i];
        if (cumulative > uniform)
            return i;
    }
    return last; /* the sum fell short of uniform by rounding */
}
