/* The value of a policy from decisions that another one made: self-normalised importance sampling by running moments,
 * with intervals, beside the mean of those decisions themselves and the difference of the two  [SJ].
 *
 *   w_i   probability of the arm shown under the policy, over that with which it was shown
 *   r_i   its reward
 *
 *   value        V = sum w r / sum w             variance  sum w^2 (r - V)^2 / (sum w)^2
 *   plain        P = sum w r / n                 variance  sum (w r - P)^2 / n^2          (inverse propensities)
 *   logged       m = sum r / n                   variance  sum (r - m)^2 / n^2
 *   difference   V - m                           variance  sum ((n / sum w) w (r - V) - (r - m))^2 / n^2
 *   weight       sum w / n, which is 1 on the average where every arm that the policy would show may be shown
 *
 * Variances are those of the linearised estimates (the delta method), times n / (n - 1); intervals are normal ones.
 *
 * Intervals hold for one number of decisions that was fixed before. Who looks again and again, and acts on what is
 * seen, reads inference/sequences.h.
 *
 * Numerical notes. Sums are of rewards less the first one, so that an offset that all rewards share costs no digits.
 * A variance that rounding makes negative is 0. O(1) a decision. */
#ifndef KB_SNIPS_H
#define KB_SNIPS_H

#include <stdint.h>

struct kb_snips {
    uint64_t n;
    double origin;                                /* the first reward */
    double w, ww, wr, wwr, wrr, wwrr, r, rr, max; /* sums over decisions; max: the largest weight */
};

struct kb_estimate {
    double estimate, lower, upper; /* NaN where there is nothing to tell it from */
};

/* weight >= 0 and finite. {0} is a series without decisions. */
void kb_snips_add(struct kb_snips *s, double weight, double reward);

/* Two-sided at `level` in (0, 1): NaN without weight, an infinite interval of one decision. */
struct kb_estimate kb_snips_value(const struct kb_snips *s, double level);
struct kb_estimate kb_snips_plain(const struct kb_snips *s, double level);
struct kb_estimate kb_snips_logged(const struct kb_snips *s, double level);
struct kb_estimate kb_snips_difference(const struct kb_snips *s, double level);
struct kb_estimate kb_snips_weight(const struct kb_snips *s, double level);

/* Decisions that would tell as much if all weights were equal: (sum w)^2 / sum w^2; 0 without weight. */
double kb_snips_ess(const struct kb_snips *s);

#endif
