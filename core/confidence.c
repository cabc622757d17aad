/* Confidence rules: from posterior mean and standard deviation to lower, upper and score, per arm.
 *
 *   fixed   mean -+ beta sd, score = upper                                        MATH.md 4
 *
 * beta is the width in units of the posterior's own standard deviation (GP scale): EK's width beta_EK sigma is
 * (beta_EK / sqrt(lambda)) sd here [EK, Prop. 4.2]. `fixed` is not a bound with a stated level; it is the width to
 * act on (NUMERICS.md 10 and 11: acting on rigorous widths costs an order of magnitude in regret).
 *
 * A rule is one function in `rules`; the interface hands it whole arrays, so that a rule which minimises over
 * the ridge arm by arm needs no other interface. O(n). */
#include "confidence.h"

#include <assert.h>

/* What a rule computes: lower[i], upper[i] and score[i] for n arms. */
typedef void bounds_fn(const struct kb_conf_spec *conf, size_t n, const double *mean, const double *sd, double *lower,
                       double *upper, double *score);

static bounds_fn fixed_bounds;

static void fixed_bounds(const struct kb_conf_spec *conf, size_t n, const double *mean, const double *sd, double *lower,
                         double *upper, double *score)
{
    for (size_t i = 0; i < n; i++) {
        double half_width = conf->beta * sd[i];
        lower[i] = mean[i] - half_width;
        upper[i] = mean[i] + half_width;
        score[i] = upper[i];
    }
}

static bounds_fn *const rules[KB_CONF_N] = {[KB_CONF_FIXED] = fixed_bounds};

void kb_confidence_bounds(const struct kb_conf_spec *conf, size_t n, const double *mean, const double *sd,
                          double *lower, double *upper, double *score)
{
    assert(conf->type >= 0 && conf->type < KB_CONF_N);
    rules[conf->type](conf, n, mean, sd, lower, upper, score);
}
