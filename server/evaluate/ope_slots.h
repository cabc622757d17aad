/* Estimates of what whole decisions with slots earn, from propensities that are conditional on the slots before.
 *
 *   r_ks, p_ks   reward and logging propensity of slot s at event k, given the slots before; R_k = sum_s r_ks
 *   w_ks         pi_k(a_ks | slots before as logged) / p_ks
 *
 *   ips_by_slot      mean of sum_s w_ks r_ks
 *   pseudo_inverse   mean of (1 + sum_s (w_ks - 1)) R_k   [SKALDZ, for logging policies that are products over slots]
 *
 * ips_by_slot has no bias where a slot's reward, and what the target does there, do not depend on what other slots
 * show. pseudo_inverse has none where R is a sum of parts of one slot each, whoever tells which part is whose (a reward
 * told of the first slot alone may be that of all), and the slots were drawn independently of each other. In decisions
 * whose slots show different arms of one list both hold but for what earlier slots take away from later ones.
 *
 * A slot without a reward earned 0. With one slot both are ips. */
#ifndef LD_OPE_SLOTS_H
#define LD_OPE_SLOTS_H

#include "evaluate/ope_policy.h"
#include "evaluate/ope_series.h"

#define LD_OPE_ONE 0.999999 /* propensities from here on are 1 up to the rounding of floats */

struct ld_ope_slots {
    size_t most;                          /* slots of a decision; below 2: the log has none, and nothing else is set */
    size_t n_missing;                     /* decisions with a slot behind the first of unknown propensity */
    double reward_lo, reward_hi;          /* what the reward of any slot can be */
    struct ld_ope_series totals;          /* R_k */
    struct ld_ope_series by_slot, pseudo; /* terms of the estimators */
    double w, ww, g, gg;                  /* sums of weights and of their squares: of slots, of decisions */
    double unsupported;                   /* sum of the target's mass, in later slots, that the log cannot speak of */
    size_t n_later;                       /* of such slots */
    double max_by_slot, max_pseudo;       /* largest sum_s w_ks, largest |weight| */
};

int ld_ope_slots_init(struct ld_ope_slots *s); /* -1: no memory; close in either case */
void ld_ope_slots_close(struct ld_ope_slots *s);

/* The event, whose first slot has the weight w. policy NULL: what is earned is asked for alone, or the log's own policy
 * is judged, and later slots weigh 1. 0, or -1 with why: the policy's. */
int ld_ope_slots_add(struct ld_ope_slots *s, struct ld_ope_policy *policy, const struct ld_decisions *log,
                     const struct ld_logged *ev, double w, struct ld_message *why);

#endif
