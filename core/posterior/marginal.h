/* The scales of a sum of kernels, from the rewards: variances of the components and of the noise by the largest
 * marginal likelihood of a Gaussian process that is split by arm, under priors  [RW, ch. 5].
 *
 *   y = mu + sum_j f_j(point) + noise,   f_j ~ GP(0, v_j k_j) for each arm apart,   noise ~ N(0, s2)
 *
 *   a          an arm: n_a distinct points, point i seen c_i times with rewards of the sum S_i
 *   ybar_i     S_i / c_i - mu
 *   K_a        sum_j v_j G_aj + s2 diag(1 / c_i)           G_aj: Gram matrix of component j, without its variance
 *   alpha_a    K_a^-1 ybar_a
 *   C, N       sum of all c_i, number of all points
 *   W          scatter within points: sum y^2 - sum S_i^2 / c_i
 *
 *   E = 1/2 sum_a [ ybar' alpha + ln det K + sum_i ln c_i ] + 1/2 [ (C - N) ln s2 + W / s2 ]
 *       + sum_j (ln(v_j / s2) - ln r_j)^2 / (2 spread^2) + ln s2 + R^2 / (4 s2)
 *
 * which is minus the logarithm of the posterior density of (ln v, ln s2), up to a constant of the numbers of rewards.
 * The prior of s2 keeps it from 0 where all rewards are alike; R is the range of the rewards, so E does not know their
 * unit. Counts may be weights.
 *
 *   dE/dln v_j = 1/2 sum_a tr[(K^-1 - alpha alpha') v_j G_j] + (ln(v_j / s2) - ln r_j) / spread^2
 *   dE/dln s2  = 1/2 sum_a sum_i (s2 / c_i) (K^-1 - alpha alpha')_ii + 1/2 [ C - N - W / s2 ]
 *                - sum_j (ln(v_j / s2) - ln r_j) / spread^2 + 1 - R^2 / (4 s2)
 *
 * What is said of one arm here holds for each; nothing is known here of engines, histories or kernels. */
#ifndef KB_MARGINAL_H
#define KB_MARGINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "posterior/scales.h"

/* One arm's distinct points; count[i] > 0. Borrowed. */
struct kb_marginal_arm {
    size_t n;
    const double *count, *sum;
};

struct kb_marginal_rows {
    size_t n_arms;
    const struct kb_marginal_arm *arm;
    size_t n_components; /* 1..KB_MARGINAL_COMPONENTS */
    double square;       /* sum of y^2 over all rewards, by their weights */
    /* Writes G_aj to out[j], n_a x n_a, column-major, leading dimension n_a, lower triangle and diagonal; what stands
     * above is not read. Called once an arm and evaluation, in the order of the arms. */
    void (*gram)(const void *of, size_t a, double *const *out);
    const void *of;
    /* Weights that the matrices depend on. weigh: those of the next evaluation, before its matrices are asked for.
     * slope: adds 2 dE/dln w_g = tr[M dK_a/dln w_g], M = K_a^-1 - alpha alpha', of which the lower triangle stands in
     * m, column-major with leading dimension ld; matrices are those of the evaluation. */
    size_t n_weights;
    void (*weigh)(const void *of, const double *weight);
    void (*slope)(const void *of, size_t a, const struct kb_scales *at, const double *m, size_t ld, double *out);
};

/* E, and where gradient is not NULL its derivatives by ln v_j (0..J-1) and ln s2 (J), 0 for those that are held.
 * KB_ENOTPD: some K_a has no factor at these scales. KB_ENOMEM. Memory of the largest arm: (J + 1) n_a^2 doubles; n_a^3
 * flops an arm with a gradient, a third of it without. */
enum kb_err kb_marginal_value(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                              const struct kb_scales *at, double *value, double *gradient);

/* Moves *scales to the least E that is found from there (kb_scales_fit). KB_ENOMEM also here. */
enum kb_err kb_marginal_fit(const struct kb_marginal_rows *rows, const struct kb_scales_prior *prior,
                            struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                            double *before, double *after);

#endif
