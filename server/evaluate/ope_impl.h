/* An evaluation under way: between ope.c, which fills it, and ope_result.c, which judges what came of it. */
#ifndef LC_OPE_IMPL_H
#define LC_OPE_IMPL_H

#include "evaluate/ope.h"
#include "evaluate/ope_digits.h"

struct lc_ope_run {
    struct ld_decisions *log;
    struct lc_policy *policy;
    const struct lc_ope_options *o;
    struct lc_ope_result *r;
    struct ld_message *why;
    struct lc_bootstrap bootstrap;
    struct lc_series weights, clipped; /* num = w and min(w, M), den = 1 */
    struct lc_policy *model;           /* of dr, a learning one; NULL: not wanted */
    size_t *which;                     /* [cap_terms] candidates that dr predicts, and what it predicts of them */
    double *mean;
    size_t cap_terms, cap_mean;
    uint64_t k;                                           /* decisions judged */
    bool is_random;                                       /* some propensity is below 1 */
    double reward_min, reward_max, unsupported, rounding; /* the last two: sums over events */
    struct lc_digits digits;                              /* of the propensities */
};

/* Weights and support into the result. */
void lc_ope_sum_up(struct lc_ope_run *u);

/* Why no estimate can be trusted; "" when they can. Needs the survey, and after it (has_weights) the sums. */
void lc_ope_refuse(const struct lc_ope_run *u, bool has_weights, char *out);

/* What the logging policy earned, into the result: nothing can refuse it. */
void lc_ope_conclude_logged(const struct lc_ope_run *u);

/* Fills *e, whose refusal may be there already. */
void lc_ope_conclude(const struct lc_ope_run *u, int kind, struct lc_ope_estimate *e);

#endif
