/* The rule of SupKernelUCB: candidates are narrowed level by level, and each level learns from its own decisions
 * alone, so that its rewards are independent given its arms. [VK, SupKernelUCB], [EK, baselines]
 *
 * The data of all levels stand in one exact posterior whose kernel has the factor [level == level'] (kernel.h). There
 * is no dictionary for such a model to move to: at exact_limit its decisions begin to exploit only
 * (docs/decisions/0014). */
#ifndef KB_ELIMINATION_H
#define KB_ELIMINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "posterior/posterior.h"
#include "spec/spec.h"

struct kb_elimination {
    double beta;      /* w_i = beta sd_i */
    double scale;     /* of the rewards: widths are compared with scale 2^-level */
    double round;     /* t >= 1: rewards learned, plus one */
    bool may_explore; /* false: where a level would explore, exploit what it has left */
};

/* Fills mean[i], sd[i] (cand->n each) as of the last level that looked at candidate i, asked[i], and share[i]: 1/k for
 * the k candidates tied to be played (KB_TIE), 0 for the others. Returns the level that the reward of one of these
 * teaches: 1..KB_MAX_LEVEL, or 0 for none. cand->level is not read. The posterior's kernel must have levels. No
 * allocation; draws kb_elimination_bytes from the scratch besides what the posterior draws. Cost: one prediction per
 * level reached, of the candidates still in, at most KB_MAX_LEVEL. [shared] */
uint32_t kb_eliminate(const struct kb_posterior *p, const struct kb_elimination *how, const struct kb_candidates *cand,
                      struct kb_scratch *s, double *mean, double *sd, uint32_t *asked, double *share);

/* Arena bytes for n candidates; 0 under a rule without levels. */
size_t kb_elimination_bytes(const struct kb_rule_spec *rule, size_t n);

#endif
