/* From sums to estimates with intervals, or to the reason why there is none: a number whose premises do not hold is not
 * reported with a warning but withheld. See ope.h. */
#include <math.h>
#include <stdio.h>

#include "evaluate/ope_impl.h"

static double effective_size(const struct lc_series *weights)
{
    return weights->num_num > 0 ? weights->num * weights->num / weights->num_num : 0;
}

void lc_ope_sum_up(struct lc_ope_run *u)
{
    const double n = (double)u->r->n;
    struct lc_ope_result *r = u->r;

    r->mean_weight = lc_series_estimate(&u->weights);
    r->mean_weight_error = lc_series_error(&u->weights);
    r->ess = effective_size(&u->weights);
    r->clipped_mean = lc_series_estimate(&u->clipped);
    r->clipped_ess = effective_size(&u->clipped);
    r->unsupported = u->unsupported / n;
    r->rounding = u->rounding / n;
    r->min_ess = u->o->min_ess > 0 ? u->o->min_ess : fmin(10, fmax(2, n / 100));
}

void lc_ope_refuse(const struct lc_ope_run *u, bool has_weights, char *out)
{
    const struct lc_ope_result *r = u->r;

    out[0] = '\0';
    if (u->policy->is_logging)
        return;
    if (r->n_missing > 0)
        snprintf(
            out, LC_OPE_WHY,
            "%zu of %zu events have no propensity: weights are not known (--propensity says what it was, if it was "
            "the same for all)",
            r->n_missing, r->n);
    else if (!u->is_random && r->n_arms > 1)
        snprintf(out, LC_OPE_WHY,
                 "every propensity is 1: the logging policy was deterministic, so the log says nothing of "
                 "other arms");
    else if (has_weights && r->unsupported > u->o->max_unsupported)
        snprintf(out, LC_OPE_WHY, "%.3g of the target's mass is on arms that the log never shows (at most %.3g)",
                 r->unsupported, u->o->max_unsupported);
}

/* Length of the interval that an estimator's residuals lie in. */
static double residual_range(const struct lc_ope_run *u, int kind)
{
    const double span = u->r->reward_hi - u->r->reward_lo;
    const double reach = fmax(u->r->reward_hi, 0) - fmin(u->r->reward_lo, 0);

    switch (kind) {
    case LC_OPE_REPLAY:
        return span;
    case LC_OPE_IPS:
        return u->r->max_weight * reach;
    case LC_OPE_CLIPPED:
        return fmin(u->o->clip, u->r->max_weight) * reach;
    case LC_OPE_SNIPS:
        return u->r->max_weight * span;
    default:
        return span + 2 * u->r->max_weight * span;
    }
}

/* Why too few events speak of this estimator: clipping makes weights more even, and the replay has its own count. */
static void refuse_few(const struct lc_ope_run *u, int kind, char *out)
{
    const struct lc_ope_result *r = u->r;
    const double ess = kind == LC_OPE_CLIPPED ? r->clipped_ess : r->ess;

    if (u->policy->is_logging)
        return;
    if (kind == LC_OPE_REPLAY && (double)r->n_accepted < r->min_ess)
        snprintf(out, LC_OPE_WHY, "%zu of %zu events were accepted (at least %.3g)", r->n_accepted, r->n, r->min_ess);
    else if (kind != LC_OPE_REPLAY && ess < r->min_ess)
        snprintf(out, LC_OPE_WHY, "the effective sample size is %.3g of %zu events (at least %.3g)", ess, r->n,
                 r->min_ess);
}

static void estimate(const struct lc_ope_run *u, const struct lc_series *s, double range, struct lc_ope_estimate *e)
{
    const struct lc_ope_result *r = u->r;

    e->value = lc_series_estimate(s);
    e->error = lc_series_error(s);
    e->bernstein = lc_series_bernstein(s, u->o->level, range, r->reward_lo, r->reward_hi);
    e->is_bootstrap = !u->o->is_bernstein && lc_series_bootstrap(s, NULL, &u->bootstrap, &e->interval);
    if (!e->is_bootstrap)
        e->interval = e->bernstein;
}

void lc_ope_conclude(const struct lc_ope_run *u, int kind, struct lc_ope_estimate *e)
{
    if (!u->o->is_wanted[kind])
        snprintf(e->refused, LC_OPE_WHY, "not asked for");
    else if (e->refused[0] == '\0')
        refuse_few(u, kind, e->refused);
    if (e->refused[0] == '\0')
        estimate(u, &u->r->series[kind], residual_range(u, kind), e);
}

void lc_ope_conclude_logged(const struct lc_ope_run *u)
{
    estimate(u, &u->r->rewards, u->r->reward_hi - u->r->reward_lo, &u->r->logged);
}

bool lc_ope_compare(const struct lc_ope_result *r, const struct lc_ope_result *other, int kind,
                    const struct lc_bootstrap *how, struct lc_ope_difference *out)
{
    const struct lc_series *a = &r->series[kind], *b = other != NULL ? &other->series[kind] : &r->rewards;

    if (r->estimate[kind].refused[0] != '\0' || (other != NULL && other->estimate[kind].refused[0] != '\0'))
        return false;
    out->value = lc_series_estimate(a) - lc_series_estimate(b);
    out->is_bounded = lc_series_bootstrap(a, b, how, &out->interval);
    return true;
}
