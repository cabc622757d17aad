/* Decision rules: from means, standard deviations and scores to propensities and an arm.
 *   ucb      argmax of score; propensity (1-eps) 1[argmax]/k + eps/C, with k the number of arms tied for it
 *   thompson independent z_i ~ N(mean_i, (nu sd_i)^2) [LK, eq. 7]; propensities P(z_i is the largest) by
 *            adaptive quadrature to 1e-10 (quad.c), mixed with eps/C; the arm is drawn from them
 *   top_two  for finding the best arm [Russo]: half of the time thompson's arm, else the best of a further draw in
 *            which that is not the best; propensities in closed form from thompson's
 *   uniform  1/C
 *   rand_ucb argmax of mean + u sd for one u ~ beta |N(0,1)| that all arms share [VMDK]; propensities in closed form
 *            (envelope.c), mixed with eps/C
 *   igw      inverse-gap weighting [FR, AL]: 1 / (C + gamma gap) for an arm whose mean is `gap` below the best, what is
 *            left for the best; mixed with eps/C
 *   split    fixed weights over their sum among the candidates, mixed with eps/C; no value of the model decides
 *   sup_kernel  (1-eps) 1[an arm of elimination.h]/k + eps/C: no score per arm says which these are
 * Arms tie when their values differ by no more than rounding may make of equal ones (KB_TIE). */
#ifndef KB_POLICY_H
#define KB_POLICY_H

#include <stddef.h>

#include "base/arena.h"
#include "spec/spec.h"

/* What a rule multiplies by when n_learned rewards are known: nu of thompson and top_two and beta of rand_ucb are
 * `beta`; gamma of igw is gamma_scale n_learned^gamma_exponent / scale, for gaps in reward units. */
double kb_policy_scale(const struct kb_rule_spec *rule, double beta, double n_learned);

/* Fills propensity[0..n-1] (sums to 1 within 1e-9; renormalised). scale: kb_policy_scale. Draws its work space from the
 * arena (kb_policy_bytes). Under split `score` has the weights of the candidates, and may be `propensity` itself.
 * n >= 1. */
void kb_policy_propensities(const struct kb_rule_spec *rule, double scale, size_t n, const double *mean,
                            const double *sd, const double *score, double *propensity, struct kb_arena *arena);
/* Mixes exploration into shares that sum to 1: (1-eps) share + eps/n, in place. */
void kb_policy_explore(const struct kb_rule_spec *rule, size_t n, double *share);
size_t kb_policy_bytes(const struct kb_rule_spec *rule, size_t n);

/* Part of the larger of |value| and |size| by which the values of tied arms may differ. Equal arms whose values are
 * computed along different ways differ by some 1e-15 of it. */
#define KB_TIE 1e-12

/* share[i] = 1/k for the k arms whose value is the largest up to KB_TIE, 0 for the others; returns the first of the
 * largest. size[i] is what value[i] is a sum of (a score's mean), whose rounding it carries. O(n); n >= 1. */
size_t kb_policy_share_best(size_t n, const double *value, const double *size, double *share);

/* The arm drawn by one uniform number in [0,1): smallest i whose cumulative propensity exceeds it; never one
 * of propensity 0. */
size_t kb_policy_draw(size_t n, const double *propensity, double uniform);

/* P(z_i = max) for independent normals, sd_i >= 0; tied point masses share alike (KB_TIE). Thompson's
 * integral over v of phi(v) prod_j Phi(...), absolute error <= 1e-10. Not renormalised. */
void kb_quad_argmax(size_t n, const double *mean, const double *sd, double *probability, struct kb_arena *arena);
size_t kb_quad_bytes(size_t n); /* arena bytes one call may draw */

/* P(mean_i + u slope_i is the largest) for one u ~ |N(0,1)|, slope_i >= 0; lines that are equal up to KB_TIE share
 * alike. Absolute error some 1e-15. Not renormalised. O(n log n). A slope that is NaN: the line is known to be nowhere
 * on top, 0; not so all of them. */
void kb_envelope_argmax(size_t n, const double *mean, const double *slope, double *probability, struct kb_arena *arena);
size_t kb_envelope_bytes(size_t n);

#endif
