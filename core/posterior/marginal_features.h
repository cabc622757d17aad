/* The scales of a sum of kernels over a dictionary, from what a regression on features keeps of its rewards: no pass
 * over the history  [Titsias, eq. 9].
 *
 *   y = mu + sum_j f_j(point) + noise,   f_j ~ GP(0, v_j k_j),   noise ~ N(0, s2)
 *
 *   z_j(s)     A_j^-1 k_Zj(s): feature of component j over its own points, without its variance     m_j
 *   z          all of them, one after another in any order; c(i) the component of coordinate i      M = sum m_j
 *   G, b, zs   sums over rewards: z z', y z, z            D   diag(sqrt v_c(i))
 *   e_j        sum of k_j(s,s) - z_j.z_j: what the dictionary misses of the rewards' points
 *
 *   B = I + D G D / s2 = L L',   t = L^-1 D (b - mu zs) / s2,   w = L^-T t,   yy = sum (y - mu)^2
 *
 *   -ln p = 1/2 [ n ln s2 + ln det B + yy / s2 - t.t + sum_j v_j e_j / s2 ]
 *
 * which is at least that of the process itself, for every choice of points: the last term charges a component for what
 * the dictionary misses of it, and keeps its variance from being overrated. Under E of scales.h:
 *
 *   d/dln v_j = -1/2 [ sum_{i in j} (w_i^2 + (B^-1)_ii - 1) - v_j e_j / s2 ]
 *   d/dln s2  =  1/2 [ n - M + tr B^-1 - yy / s2 + t.t + w.w - sum_j v_j e_j / s2 ]
 *
 * Sums may be weighted. Nothing is known here of engines, histories or kernels. */
#ifndef KB_MARGINAL_FEATURES_H
#define KB_MARGINAL_FEATURES_H

#include <stdint.h>

#include "posterior/scales.h"

/* Borrowed. */
struct kb_feature_sums {
    size_t m, n_components;    /* M; 1..KB_MARGINAL_COMPONENTS */
    const uint32_t *component; /* [m] c(i) < n_components */
    const double *gram;        /* G, m x m, column-major, lower triangle and diagonal */
    size_t ld;                 /* its leading dimension */
    const double *target;      /* [m] b */
    const double *mass;        /* [m] zs */
    double count, square, sum; /* n, and of the rewards sum y^2, sum y */
    const double *missed;      /* [n_components] e_j >= 0 */
};

/* E, and where gradient is not NULL its derivatives (kb_scales_value). KB_ENOTPD, KB_ENOMEM. Memory of M^2 doubles;
 * M^3 flops with a gradient, a third of it without. */
enum kb_err kb_marginal_features_value(const struct kb_feature_sums *sums, const struct kb_scales_prior *prior,
                                       const struct kb_scales *at, double *value, double *gradient);

/* Moves *scales to the least E that is found from there (kb_scales_fit). KB_ENOMEM also here. */
enum kb_err kb_marginal_features_fit(const struct kb_feature_sums *sums, const struct kb_scales_prior *prior,
                                     struct kb_scales *scales, size_t n_most, bool (*goes_on)(void *arg), void *arg,
                                     double *before, double *after);

#endif
