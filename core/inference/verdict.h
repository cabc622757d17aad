/* What an experiment says at a look: go on, or one of four ends. If the told propensities are right, the chance that
 * one of these sentences is ever wrong is at most alpha, however often one looks and whenever one stops. */
#ifndef KB_VERDICT_H
#define KB_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

enum kb_verdict {
    KB_GO_ON,
    KB_BETTER,        /* low > 0: better by at least low; "by at least d" once low >= d */
    KB_WORSE,         /* high < 0 */
    KB_NO_DIFFERENCE, /* -d < low and high < d */
    KB_VOID           /* the traffic does not match the told propensities: nothing else may be said */
};

/* low, high: of kb_pair_interval. difference: d > 0, the smallest that is worth acting on, fixed before the start. */
enum kb_verdict kb_verdict(double low, double high, double difference, bool is_traffic_void);

/* Decisions of the pair until its interval at alpha 0.05 has this half width on an even split: 45 p (1 - p) / h^2, p
 * the rate, since the half width is about 6.7 sqrt(p (1 - p) / n) where n p (1 - p) is above 250. Where pi is not 1/2
 * it takes 1 / (4 v) times as many, v being the mean of pi (1 - pi): n / (4 N) of the pair so far. half_width > 0. */
double kb_decisions_needed(double rate, double half_width);

/* The reach c of a pair: the largest that p_b / (p_0 + p_b) or p_0 / (p_0 + p_b) can be. */
double kb_reach_of_split(double share_base, double share_arm); /* shares above 0 */
double kb_reach_of_floor(double epsilon, size_t n_arms);       /* each arm has at least epsilon / n_arms; n_arms >= 2 */

#endif
