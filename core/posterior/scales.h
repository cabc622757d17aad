/* Scales of a sum of kernels and of the noise: what a search for them by their evidence moves, under which priors, and
 * the search itself. What the rewards say of them is the caller's: marginal.h has it where arms are held apart,
 * marginal_features.h over a dictionary.
 *
 *   E = -ln p(rewards | v, s2, w) + sum_j (ln(v_j / s2) - ln r_j)^2 / (2 spread^2) + ln s2 + R^2 / (4 s2)
 *       + sum_g (ln w_g)^2 / (2 spread^2)
 *
 * The prior of s2 keeps it from 0 where all rewards are alike; R is the range of the rewards, so E does not know their
 * unit. */
#ifndef KB_SCALES_H
#define KB_SCALES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "spec/split.h"

#define KB_MARGINAL_COMPONENTS 5u /* at most */
#define KB_MARGINAL_MOST_STEP 7.0 /* by which a fit moves a logarithm at most */
#define KB_MARGINAL_WEIGHTS KB_SPLIT_ARMS

struct kb_scales {
    double mean; /* mu: given, never moved */
    double noise, variance[KB_MARGINAL_COMPONENTS];
    double weight[KB_MARGINAL_WEIGHTS]; /* of what kernels are made of, without a unit */
};

struct kb_scales_prior {
    double ratio[KB_MARGINAL_COMPONENTS]; /* r_j > 0 */
    double spread;                        /* > 0 */
    double range;                         /* R > 0 */
    /* Held where they are. A variance that is held has no prior: nothing shall pull the noise towards it. */
    bool is_noise_fixed, is_fixed[KB_MARGINAL_COMPONENTS];
    bool are_weights_free; /* else they are held, and have no prior */
};

/* Minus the logarithm of the likelihood, up to a constant, and where gradient is not NULL its derivatives by ln v_j
 * (0..J-1), ln s2 (J) and ln w_g (J+1 ..). KB_ENOTPD: it has no value there. */
struct kb_likelihood {
    size_t n_components, n_weights;
    enum kb_err (*value)(void *of, const struct kb_scales *at, double *value, double *gradient);
    void *of;
};

/* E, and where gradient is not NULL its derivatives, 0 for scales that are held. */
enum kb_err kb_scales_value(const struct kb_likelihood *likelihood, const struct kb_scales_prior *prior,
                            const struct kb_scales *at, double *value, double *gradient);

/* Moves *scales to the least E that L-BFGS finds from there in n_most iterations, one to two evaluations each; no
 * logarithm moves by more than KB_MARGINAL_MOST_STEP. *before and *after are E at both ends, and after <= before: a
 * search that finds nothing better leaves *scales as it is. Equal arguments give equal bits. goes_on(arg) is asked
 * before each evaluation, unless it is NULL; false: KB_ECANCELLED. On any failure *scales is untouched: KB_ENOTPD when
 * E has no value at the start (elsewhere it counts as infinite), KB_ENOMEM. */
enum kb_err kb_scales_fit(const struct kb_likelihood *likelihood, const struct kb_scales_prior *prior,
                          struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                          double *before, double *after);

#endif
