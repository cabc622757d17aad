/* clang-format off */
/* What the rewards prove about the noiseless function before any kernel is trusted: the prequential radius, which is
 * TC's Theorem 4.1 for a product of one-step predictions as mixture.
 *
 *   y_s, f_s     reward s and its noiseless value
 *   m_s, v_s     predictive mean and variance just before y_s was seen
 *   s2_s         v_s / sigma^2, so v_s = sigma^2 s2_s for any sigma
 *   a_i          ridges, i < KB_N_MIXTURE; a_0 = lambda
 *   energy_i     sum_s (y_s - m_s)^2 / (1 + s2_s), under ridge a_i
 *   log_det_i    sum_s ln(1 + s2_s), under ridge a_i
 *   S_i          energy_i + sigma^2 log_det_i
 *
 * With probability 1 - delta, for all t at once:  sum_s (f_s - y_s)^2 <= S_i + 2 sigma^2 ln 1/delta, whatever made the
 * predictions, as long as y_s had no part in N(m_s, v_s); the noise is sigma-sub-Gaussian. Hence the sums survive
 * admissions, rebuilds and changes of the kernel; with the exact Gaussian process they are TC eq. 8 by the chain rule
 * (proof and mixtures: docs/decisions/0011). sigma enters only when the radius is asked for. */
/* clang-format on */
#ifndef KB_EVIDENCE_H
#define KB_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Ridges of the mixture: lambda times 1, 1/10, 10, 100, which is the prior's scale c times 1, 10, 1/10, 1/100. */
#define KB_N_MIXTURE 4u
extern const double kb_mixture_ridge[KB_N_MIXTURE];

struct kb_evidence {
    double square; /* sum of y_s^2 of the rewards in force */
    double energy[KB_N_MIXTURE], log_det[KB_N_MIXTURE];
    /* A reward was changed after it had been learned: the sums hold what was first told and bound nothing any more. */
    bool is_void;
    /* sum of y_s^2 of rewards that teach nothing (kb_kernel_ignores), since the sums were taken over: each counts as
     * foretold to be 0 with certainty, in the line of the next reset. No part of the digest, which is older. */
    double ignored;
};

/* A prediction of the noiseless value at one ridge: mean and s2 = variance / sigma^2. */
struct kb_foretold {
    double mean, s2;
};

/* Adds one reward foretold by n components (1 or KB_N_MIXTURE); the others follow the first, which keeps them valid:
 * each is still a predictable sequence. */
void kb_evidence_add(struct kb_evidence *e, double y, const struct kb_foretold *by, size_t n);

/* All components take over what component 0 has: where sums of an earlier model go on under a new one. */
void kb_evidence_share(struct kb_evidence *e, double energy, double log_det);

/* Whether the sums are such as rewards can have made (magnitude.h). */
bool kb_evidence_is_measurable(const struct kb_evidence *e);

/* R^2 = 2 sigma^2 ln 1/delta - 2 sigma^2 ln sum_i exp(-S_i / 2 sigma^2) / n over the first n components; n = 1 is S_0 +
 * 2 sigma^2 ln 1/delta. Costs at most 2 sigma^2 ln n over the best of them. */
double kb_evidence_radius_sq(const double *energy, const double *log_det, size_t n, double noise, double delta);

uint64_t kb_evidence_digest(const struct kb_evidence *e, uint64_t h);
void kb_evidence_save(const struct kb_evidence *e, struct kb_writer *w);
enum kb_err kb_evidence_load(struct kb_evidence *e, struct kb_reader *r); /* KB_ECORRUPT */

#endif
