/* Evidence from an experiment that may be looked at after every decision: what a treatment gains over the baseline,
 * what an arm earned where it was shown, and whether the arms were shown as often as their propensities say.
 *
 * All three hold at every number of decisions at once (they are e-processes), so a team may look whenever it likes and
 * stop when it likes. They hold for any policy that adapts, for drift, and for contexts. None divides by a propensity.
 *
 * Needed (docs/decisions/0084-verdicts-that-survive-peeking.md):
 *   - propensities are the real ones, given all that was known, this user's earlier arms included;
 *   - decisions are added in the order in which they were made, each once, when its reward is final and everything
 *     before it has been added. A provisional zero is no reward;
 *   - showing an arm does not change the rewards of other decisions;
 *   - rewards lie in [0, 1]: who has others divides by their range, and multiplies effects by it for display.
 *
 * State is sums in double. They depend on the order in which decisions are added, and on nothing else: the same
 * decisions in the same order give the same bits. What is read from them is a pure function of the sums. {0} is no
 * decision. */
#ifndef KB_SEQUENCES_H
#define KB_SEQUENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- a difference to the baseline ---------------------------------------------------------------------------- */

/* The pair e-process. A decision belongs to the pair when the arm shown is the baseline or the treatment.
 *
 *   z          1 if the treatment was shown, else 0
 *   p_0, p_b   propensities of the two
 *   pi         p_b / (p_0 + p_b)
 *   v          pi (1 - pi), the decision's weight
 *   r          its reward, in [0, 1]
 *   q          (m + 1/2) / (n + 1), a guess from earlier decisions
 *   g          (z - pi) (r - q), its score
 *   c          reach: c >= max(pi, 1 - pi) of every decision
 *
 * Given the past, E g = v delta_t, with delta_t the effect at that decision. S / N estimates the mean effect under the
 * weights v: the effect itself where it is constant, whatever the rate does.
 *
 *   log E+(delta) = log sum_j w_j exp(l_j (S - delta N) / c - l_j^2 S2 / (2 c^2) + l_j^3 S3 / (3 c^3) - k_j S4 / c^4)
 *
 * with N = sum v, S = sum g, S2 = sum g^2, S3 = sum g^3, S4 = sum g^4; E- is the same of -S, -delta, -S3. For every
 * effect of at most delta, P(E+(delta) is ever >= 1 / alpha) <= alpha. pair.c has l, w and k, and the proof. */
struct kb_pair {
    uint64_t n;                                 /* decisions of the pair */
    double weight, score, square, cube, fourth; /* N, S, S2, S3, S4; in units of a reward but for N */
    double reward;                              /* m, sum of r */
    bool is_broken;                             /* what was promised did not hold: nothing is told any more */
};

/* Adds a decision of the pair: is_arm says that the treatment was shown. Where one of the propensities is 0 it is
 * skipped, since it tells nothing, and the result is true. False, and is_broken from then on: max(pi, 1 - pi) > reach,
 * which is seen before the reward is looked at, so |g| > reach never comes in; or a propensity or a reward that is not
 * within 0 and 1. reach is fixed when the experiment starts (verdict.h; 1 always holds). */
bool kb_pair_add(struct kb_pair *p, double p_base, double p_arm, bool is_arm, double reward, double reach);

/* A policy against the one that decides, of whose decisions a part may be taken for its own: whatever q and p are, an
 * arm A drawn by p was drawn by q with the chance w = s q(A) / p(A), where s is at most p(a) / q(a) for each arm a that
 * q may show. So z is that chance and pi the share s of the group: g = (w - s)(r - q), whose mean is s times what q
 * earns more than p at that decision. Its weight is s. q and p are those of before the draw. Where s is 0 the decision
 * tells nothing and is skipped. Its reach is 1. False, and is_broken: a share, chance or reward that is not within 0
 * and 1. */
bool kb_pair_add_group(struct kb_pair *p, double share, double chance, double reward);

/* The effects that are not refuted: low to high, within [-1, 1], in units of a reward. log_inverse is
 * log(2 (K - 1) / alpha) for K - 1 differences that shall all hold at once. Without decisions and when broken it is all
 * of
 * [-1, 1]. */
void kb_pair_interval(const struct kb_pair *p, double reach, double log_inverse, double *low, double *high);

/* log E+ against "the effect is at most delta" (is_above), or log E- against "at least delta". Both are 0 when broken.
 * Guardrails: log E-(-d) >= log(1 / alpha) says "worse by more than d", log E+(-d) the same says "not worse by d".
 */
double kb_pair_log_e(const struct kb_pair *p, double reach, double delta, bool is_above);

/* S / N; NaN without weight and when broken. At a stop it is biased away from 0: quote the interval. */
double kb_pair_estimate(const struct kb_pair *p);

/* The root x of: log sum_j w_j exp(l_j x - l_j^2 square / 2 + l_j^3 cube / 3 - k_j fourth) = log_inverse. Sums are over
 * c^2, c^3, c^4. S - delta N beyond c x refutes delta. */
double kb_pair_bound(double square, double cube, double fourth, double log_inverse);

/* --- many differences at once ------------------------------------------------------------------------------- */

/* Which of n e-values are told as changes, as many as can be while at most the part alpha of them is none on the
 * average: the k largest, for the largest k whose k-th is at least n / (alpha k) (e-BH, [WR]). E-values of the moment
 * at which one looks, e.g. (E+(0) + E-(0)) / 2 of a pair: of the largest so far it does not hold. They may depend on
 * each other in any way. O(n^2). How many. */
size_t kb_find_changes(const double *log_e, size_t n, double alpha, bool *is_found);

/* --- what an arm earned where it was shown --------------------------------------------------------------------- */

/* The beta-binomial sequence, of one arm's rewards alone. With n decisions and s = sum r,
 *
 *   log M(m) = lbeta(1/2 + s, 1/2 + n - s) - lbeta(1/2, 1/2) - s log m - (n - s) log(1 - m)
 *
 * and P(M(m) is ever >= 1 / alpha) <= alpha, where m is the mean of the arm at each decision that showed it. With drift
 * that is no mean over all traffic: under an adaptive policy the difference of two such means is no effect. */
struct kb_shown {
    uint64_t n;
    double reward; /* s */
};

/* False, and nothing is added, when the reward is outside [0, 1]. */
bool kb_shown_add(struct kb_shown *s, double reward);

/* {m: M(m) < 1 / alpha}; [0, 1] without decisions. */
void kb_shown_interval(const struct kb_shown *s, double alpha, double *low, double *high);

/* Mean and standard deviation of Beta(1/2 + s, 1/2 + n - s): what kb_best asks for. */
void kb_shown_posterior(const struct kb_shown *s, double *mean, double *sd);

/* --- the check of traffic (sample-ratio mismatch) ---------------------------------------------------------------- */

/* Of one arm: X = sum (x - p), W = sum p (1 - p) over all decisions, x = 1 if it was shown. E is the mean over arms,
 * both signs and twelve theta of exp(+-theta X - (e^theta - 1 - theta) W) (Bennett's inequality). An alarm at E >= 1 /
 * alpha; 1 / (largest E so far) is a p-value that holds at all times. An alarm stays: the caller keeps the largest. */
struct kb_traffic {
    double deviation, variance; /* X, W */
};

void kb_traffic_add(struct kb_traffic *t, double propensity, bool is_shown);
double kb_traffic_log_e(const struct kb_traffic *t, size_t n_arms);

/* --- betting odds ------------------------------------------------------------------------------------------------ */

/* P(an arm is the best), and what is lost on the average by choosing it for good, E max_k theta_k - m_a, for
 * independent theta_a ~ N(mean_a, sd_a^2). Of three arms and more, means are shrunk to their weighted mean by tau^2 =
 * max(0, var(mean) - mean(sd^2)); where tau is 0 all arms are the same. Two arms are in closed form, more by
 * quadrature, within 1e-7. Odds for choosing what to show; no proof, and no ground for a verdict. n >= 1, sd finite. */
void kb_best(const double *mean, const double *sd, size_t n, double *p_best, double *loss);

#endif
