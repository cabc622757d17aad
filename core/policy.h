/* Decision rules: from means, standard deviations and scores to propensities and an arm.
 *   ucb      argmax of score, ties to the lowest index; propensity (1-eps) 1[argmax] + eps/C
 *   thompson independent z_i ~ N(mean_i, (nu sd_i)^2) [LK, eq. 7]; propensities P(z_i is the largest) by
 *            adaptive quadrature to 1e-10 (quad.c), mixed with eps/C; the arm is drawn from them
 *   uniform  1/C
 *   sup_kernel  (1-eps) 1[the arm of elimination.h] + eps/C: kb_policy_point, as no score per arm says which it is */
#ifndef KB_POLICY_H
#define KB_POLICY_H

#include <stddef.h>

#include "arena.h"
#include "spec.h"

/* Fills propensity[0..n-1] (sums to 1 within 1e-9; renormalised). scale = nu. Draws its work space from the
 * arena (kb_policy_bytes). n >= 1. */
void kb_policy_propensities(const struct kb_rule_spec *rule, double scale, size_t n, const double *mean,
                            const double *sd, const double *score, double *propensity, struct kb_arena *arena);
/* Likewise for a rule that has chosen the arm itself. */
void kb_policy_point(const struct kb_rule_spec *rule, size_t n, size_t chosen, double *propensity);
size_t kb_policy_bytes(const struct kb_rule_spec *rule, size_t n);

/* The arm drawn by one uniform number in [0,1): smallest i whose cumulative propensity exceeds it; never one
 * of propensity 0. */
size_t kb_policy_draw(size_t n, const double *propensity, double uniform);

/* P(z_i = max) for independent normals, sd_i >= 0; equal point masses go to the lowest index. Thompson's
 * integral over v of phi(v) prod_j Phi(...), absolute error <= 1e-10. Not renormalised. */
void kb_quad_argmax(size_t n, const double *mean, const double *sd, double *probability, struct kb_arena *arena);
size_t kb_quad_bytes(size_t n); /* arena bytes one call may draw */

#endif
