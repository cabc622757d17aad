/* Decision rules: propensities of the candidates, and the draw.
 *
 *   ucb       p_i = (1 - eps) [i is one of the k of the highest score] / k + eps / C
 *   thompson  p_i = (1 - eps) P(z_i is the largest) + eps / C,  z_i ~ N(mean_i, (nu sd_i)^2) independent [LK, eq. 7]
 *   top_two   p_i = (1 - eps) a_i (1/2 + 1/2 sum_{j != i} a_j / (1 - a_j)) + eps / C,  a_i thompson's share [Russo]
 *   uniform   p_i = 1 / C
 *   rand_ucb  p_i = (1 - eps) P(mean_i + u sd_i is the largest) + eps / C,  u ~ beta |N(0,1)|, one for all arms [VMDK]
 *   igw       p_i = (1 - eps) / (C + gamma (mean_best - mean_i)) + eps / C;  the k best share what is left [FR, AL]
 *   split     p_i = (1 - eps) w_i / sum w + eps / C;  1 / C where no candidate has a weight
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
 * gamma = gamma_scale n^gamma_exponent / scale after n rewards is Vowpal Wabbit's for --squarecb, where rewards have
 * the range 1. [FR, Thm 1] asks for a gamma of the order sqrt(C T) over T rounds.
 *
 * top_two draws a leader by a, and half of the time a challenger in its place: another arm, by the chance that it is
 * the best given that the leader is not, a_i / (1 - a_j). 1 - a_j is the sum of the others, which keeps its digits
 * where a_j is nearly 1. Deviation: below LEAST_DOUBT the quadrature has no digits left; then the challenger is the arm
 * of the least transport cost (m_j - m_i)^2 / (d_i^2 + d_j^2), where the chances run together [SHKMV, T3C] (unit test:
 * top_two_challenges_a_certain_leader_with_the_nearest_arm).
 *
 * Cost: O(C); Thompson and top_two see quad.c, rand_ucb see envelope.c. */
#include "rules/policy.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Share of each arm before exploration is mixed in; sums to 1. */
typedef void shares_fn(double scale, size_t n, const double *mean, const double *sd, const double *score, double *share,
                       struct kb_arena *arena);

static shares_fn ucb_shares, thompson_shares, top_two_shares, uniform_shares, rand_ucb_shares, igw_shares, split_shares;

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

/* P(an arm is the largest) as `argmax` has it at scale sd, made to sum to 1 exactly. */
static void argmax_shares(void argmax(size_t, const double *, const double *, double *, struct kb_arena *),
                          double scale, size_t n, const double *mean, const double *sd, double *share,
                          struct kb_arena *arena)
{
    size_t mark = kb_arena_mark(arena);
    double *scaled = kb_arena_doubles(arena, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        scaled[i] = scale * sd[i];
    argmax(n, mean, scaled, share, arena);
    for (size_t i = 0; i < n; i++)
        sum += share[i];
    for (size_t i = 0; i < n; i++)
        share[i] /= sum;
    kb_arena_reset(arena, mark);
}

static void thompson_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                            double *share, struct kb_arena *arena)
{
    (void)score;
    argmax_shares(kb_quad_argmax, scale, n, mean, sd, share, arena);
}

/* What a leader's share has to leave to the others for the quadrature to tell them apart. */
#define LEAST_DOUBT 1e-10

/* The challenger of a leader that is as good as certain: the arm of the least transport cost, or those tied for it.
 * Where another arm leads, the certain one challenges it. */
static void challenge_certain(size_t n, const double *mean, const double *sd, size_t leader, double rest, double *share,
                              struct kb_arena *arena)
{
    size_t mark = kb_arena_mark(arena);
    double *nearness = kb_arena_doubles(arena, n), *tied = kb_arena_doubles(arena, n);
    for (size_t i = 0; i + 1 < n; i++) { /* the others, in their order */
        const size_t arm = i < leader ? i : i + 1;
        const double z = (mean[leader] - mean[arm]) / hypot(sd[leader], sd[arm]);
        nearness[i] = isnan(z) ? 0 : -z * z;
    }
    (void)kb_policy_share_best(n - 1, nearness, nearness, tied);
    for (size_t i = 0; i + 1 < n; i++) {
        double *other = &share[i < leader ? i : i + 1];
        *other = 0.5 * *other + 0.5 * share[leader] * tied[i];
    }
    share[leader] = 0.5 * share[leader] + 0.5 * rest;
    kb_arena_reset(arena, mark);
}

/* a_i (1/2 + 1/2 sum_{j != i} a_j / (1 - a_j)) in place, with 1 - a_j of the leader as the sum of the others. */
static void challenge(size_t n, size_t leader, double rest, double *share)
{
    const double lead = share[leader];
    double odds = 0; /* of the others */
    for (size_t i = 0; i < n; i++)
        odds += i == leader ? 0 : share[i] / (1 - share[i]);
    for (size_t i = 0; i < n; i++) {
        const double others = i == leader ? odds : lead / rest + odds - share[i] / (1 - share[i]);
        share[i] *= 0.5 + 0.5 * others;
    }
}

static void top_two_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                           double *share, struct kb_arena *arena)
{
    size_t leader = 0;
    double rest = 0;
    thompson_shares(scale, n, mean, sd, score, share, arena);
    for (size_t i = 1; i < n; i++)
        leader = share[i] > share[leader] ? i : leader;
    for (size_t i = 0; i < n; i++)
        rest += i == leader ? 0 : share[i];
    if (n > 1 && rest < LEAST_DOUBT)
        challenge_certain(n, mean, sd, leader, rest, share, arena);
    else if (n > 1)
        challenge(n, leader, rest, share);
}

static void rand_ucb_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                            double *share, struct kb_arena *arena)
{
    (void)score;
    argmax_shares(kb_envelope_argmax, scale, n, mean, sd, share, arena);
}

/* The best come with share 1/k each; they divide what the others leave. */
static void igw_shares(double scale, size_t n, const double *mean, const double *sd, const double *score, double *share,
                       struct kb_arena *arena)
{
    (void)sd, (void)score, (void)arena;
    const size_t best = kb_policy_share_best(n, mean, mean, share);
    const double part = share[best];
    double others = 0;
    for (size_t i = 0; i < n; i++)
        if (share[i] == 0)
            others += 1 / ((double)n + scale * (mean[best] - mean[i]));
    for (size_t i = 0; i < n; i++)
        share[i] = share[i] > 0 ? part * (1 - others) : 1 / ((double)n + scale * (mean[best] - mean[i]));
}

static void uniform_shares(double scale, size_t n, const double *mean, const double *sd, const double *score,
                           double *share, struct kb_arena *arena)
{
    (void)scale, (void)mean, (void)sd, (void)score, (void)arena;
    for (size_t i = 0; i < n; i++)
        share[i] = 1.0 / (double)n;
}

/* Weights may be zeros: such an arm is shown where no other can be. */
static void split_shares(double scale, size_t n, const double *mean, const double *sd, const double *weight,
                         double *share, struct kb_arena *arena)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += weight[i];
    if (sum > 0)
        for (size_t i = 0; i < n; i++)
            share[i] = weight[i] / sum;
    else
        uniform_shares(scale, n, mean, sd, weight, share, arena);
}

static shares_fn *const rules[KB_RULE_N] = {
    [KB_RULE_UCB] = ucb_shares,           [KB_RULE_THOMPSON] = thompson_shares, [KB_RULE_UNIFORM] = uniform_shares,
    [KB_RULE_RAND_UCB] = rand_ucb_shares, [KB_RULE_IGW] = igw_shares,           [KB_RULE_TOP_TWO] = top_two_shares,
    [KB_RULE_SPLIT] = split_shares,
};

double kb_policy_scale(const struct kb_rule_spec *rule, double beta, double n_learned)
{
    return rule->type != KB_RULE_IGW ? beta : rule->gamma_scale * pow(n_learned, rule->gamma_exponent) / rule->scale;
}

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
    if (rule->type == KB_RULE_THOMPSON || rule->type == KB_RULE_TOP_TWO)
        return kb_arena_need(n) + kb_quad_bytes(n);
    return rule->type == KB_RULE_RAND_UCB ? kb_arena_need(n) + kb_envelope_bytes(n) : 0;
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
