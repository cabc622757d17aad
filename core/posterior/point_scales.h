/* The scales of a model that tells points apart and no more: one variance of all points and that of the noise, by their
 * posterior density (scales.h).
 *
 *   y = mu + f(point) + noise,   f ~ N(0, v) for each point apart,   noise ~ N(0, s2)
 *
 *   c_i, S_i   rewards of point i, and their sum; counts may be weights
 *   r_i        S_i / c_i - mu
 *   d_i        c_i v + s2
 *   C, N       sum of all c_i, number of points
 *   W          scatter within points: sum y^2 - sum S_i^2 / c_i
 *
 *   -ln p = 1/2 sum_i [ c_i r_i^2 / d_i + ln d_i ] + 1/2 [ (C - N) ln s2 + W / s2 ]
 *   d(-ln p)/dln v  = 1/2 sum_i (c_i v / d_i) (1 - c_i r_i^2 / d_i)
 *   d(-ln p)/dln s2 = 1/2 sum_i (s2 / d_i) (1 - c_i r_i^2 / d_i) + 1/2 [ C - N - W / s2 ]
 *
 * which is marginal.h where every point is an arm of its own. The mean is given: what a uniform choice would have
 * earned. O(N) an evaluation. */
#ifndef KB_POINT_SCALES_H
#define KB_POINT_SCALES_H

#include "posterior/scale_search.h"
#include "posterior/scales.h"

/* All points, count[i] > 0; and sum y^2 over all rewards. Borrowed. */
struct kb_point_rows {
    size_t n;
    const double *count, *sum;
    double square;
};

/* What is to be made small, at *at. */
enum kb_err kb_point_scales_value(const struct kb_point_rows *rows, const struct kb_scales_prior *prior,
                                  const struct kb_scales *at, double *value, double *gradient);

/* Of *out `event` and `rewards` are the caller's. KB_ECANCELLED by s->watch; KB_ENOMEM, KB_ENOTPD (scale_search.h). */
enum kb_err kb_point_scales_find(const struct kb_point_rows *rows, const struct kb_scale_search *search,
                                 struct kb_scratch *s, struct kb_tuning *out);

#endif
