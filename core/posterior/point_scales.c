/* See point_scales.h. The search begins at the values in force; at first at the start values of the fields, times R^2
 * (R: range of the rewards), so that nothing depends on the unit of the rewards.
 *
 * Prior of the variance: ln(v / s2) ~ N(0, 1.5^2), as arm_scales.c has it for arms. */
#include "posterior/point_scales.h"

#include <math.h>

#define ITERATIONS 16u

static enum kb_err evaluate(void *of, const struct kb_scales *at, double *value, double *gradient)
{
    const struct kb_point_rows *rows = of;
    const double v = at->variance[0], noise = at->noise;
    double twice = 0, by_variance = 0, by_noise = 0, scatter = rows->square, left = 0;

    for (size_t i = 0; i < rows->n; i++) {
        const double count = rows->count[i], sum = rows->sum[i];
        const double d = count * v + noise, r = sum / count - at->mean, off = count * r * r / d;

        twice += off + log(d);
        by_variance += count * v / d * (1 - off);
        by_noise += noise / d * (1 - off);
        scatter -= sum * sum / count;
        left += count - 1;
    }
    scatter = fmax(scatter, 0);
    *value = (twice + left * log(noise) + scatter / noise) / 2;
    if (gradient != NULL) {
        gradient[0] = by_variance / 2;
        gradient[1] = (by_noise + left - scatter / noise) / 2;
    }
    return isfinite(*value) ? KB_OK : KB_ENOTPD;
}

/* The search reads its rows and does not change them. */
static struct kb_likelihood likelihood_of(const struct kb_point_rows *rows)
{
    return (struct kb_likelihood){1, 0, evaluate, (void *)rows};
}

enum kb_err kb_point_scales_value(const struct kb_point_rows *rows, const struct kb_scales_prior *prior,
                                  const struct kb_scales *at, double *value, double *gradient)
{
    const struct kb_likelihood likelihood = likelihood_of(rows);

    return kb_scales_value(&likelihood, prior, at, value, gradient);
}

static bool goes_on(void *arg)
{
    return kb_scratch_goes_on(arg, 0);
}

static double in_range(double scale)
{
    return fmin(fmax(scale, KB_LEAST_SCALE), KB_MOST_SCALE);
}

enum kb_err kb_point_scales_find(const struct kb_point_rows *rows, const struct kb_scale_search *search,
                                 struct kb_scratch *s, struct kb_tuning *out)
{
    const struct kb_spec *spec = search->spec;
    const struct kb_likelihood likelihood = likelihood_of(rows);
    const double unit = search->is_first ? search->range * search->range : 1;
    const bool learns_mean = spec->learned & KB_LEARNED_MEAN, learns_noise = spec->learned & KB_LEARNED_NOISE,
               learns_variance = spec->learned & KB_LEARNED_ARM;
    const struct kb_scales_prior prior = {.ratio = {1},
                                          .spread = 1.5,
                                          .range = search->range,
                                          .is_noise_fixed = !learns_noise,
                                          .is_fixed = {!learns_variance}};
    struct kb_scales at = {.mean = learns_mean ? search->mean : spec->prior.mean,
                           .noise = spec->repr.lambda * (learns_noise ? unit : 1),
                           .variance = {spec->prior.arm * (learns_variance ? unit : 1)}};
    enum kb_err rc = KB_OK;

    kb_tuning_take(out, spec);
    out->range = search->range;
    out->before = out->after = 0;
    if (rows->n == 0)
        return KB_OK;
    KB_TRY(kb_scales_fit(&likelihood, &prior, &at, ITERATIONS, goes_on, s, &out->before, &out->after));
    out->before = -out->before;
    out->after = -out->after;
    out->prior.mean = at.mean;
    out->noise = in_range(at.noise);
    out->prior.arm = in_range(at.variance[0]);
out:
    return rc;
}
