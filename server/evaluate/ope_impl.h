/* An evaluation under way: between ope.c, which fills it, and ope_result.c, which judges what came of it. */
#ifndef LD_OPE_IMPL_H
#define LD_OPE_IMPL_H

#include "evaluate/ope.h"
#include "evaluate/ope_digits.h"

struct ld_ope_run {
    struct ld_decisions *log;
    struct ld_ope_policy *policy;
    const struct ld_ope_options *o;
    struct ld_ope_result *r;
    struct ld_message *why;
    struct ld_ope_bootstrap bootstrap;
    struct ld_ope_series weights, clipped; /* num = w and min(w, M), den = 1 */
    struct ld_ope_policy *model;           /* of dr, a learning one; NULL: not wanted */
    size_t *which;                         /* [cap_terms] candidates that dr predicts, and what it predicts of them */
    double *mean;
    size_t cap_terms, cap_mean;
    uint64_t k;                                           /* decisions judged */
    bool is_counted;                                      /* no more arms are to be counted */
    bool is_random;                                       /* some propensity is below 1 */
    double reward_min, reward_max, unsupported, rounding; /* the last two: sums over events */
    double slot_min, slot_max;                            /* rewards of all slots */
    struct ld_ope_digits digits;                          /* of the propensities */
};

/* Weights and support into the result. */
void ld_ope_sum_up(struct ld_ope_run *u);

/* Why no estimate can be trusted; "" when they can. Needs the survey, and after it (has_weights) the sums. */
void ld_ope_refuse(const struct ld_ope_run *u, bool has_weights, char *out);

/* What the logging policy earned, into the result: nothing can refuse it. */
void ld_ope_conclude_logged(const struct ld_ope_run *u);

/* Fills *e, whose refusal may be there already. */
void ld_ope_conclude(const struct ld_ope_run *u, int kind, struct ld_ope_estimate *e);

#endif
