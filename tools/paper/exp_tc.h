/* How TC's learners are told about an environment (exp_tc.c): for its tables and for its Figure 1. */
#ifndef PB_EXP_TC_H
#define PB_EXP_TC_H

#include "paper/env_tc.h"

/* pb_algorithm.tune: kernel, B, sigma and delta are known; lambda is TC's alpha_0. */
void pb_tc_tune(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
/* Likewise, with TC's own grid of ridges for DMM, {.1, .3, 1, 3, 10} alpha_0. */
void pb_tc_tune_own_grid(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
/* Likewise, with IGP's ridge, which depends on the horizon alone. */
void pb_tc_tune_igp(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);

#endif
