/* From sums to estimates with intervals, or to the reason why there is none: a number whose premises do not hold is not
 * reported with a warning but withheld. See ope.h. */
#include <math.h>
#include <stdio.h>

#include "evaluate/ope_impl.h"

static double effective_size(const struct ld_ope_series *weights)
{
    return weights->num_num > 0 ? weights->num * weights->num / weights->num_num : 0;
}

void ld_ope_sum_up(struct ld_ope_run *u)
{
    const double n = (double)u->r->n;
    struct ld_ope_result *r = u->r;

    r->mean_weight = ld_ope_series_estimate(&u->weights);
    r->mean_weight_error = ld_ope_series_error(&u->weights);
    r->ess = effective_size(&u->weights);
    r->clipped_mean = ld_ope_series_estimate(&u->clipped);
    r->clipped_ess = effective_size(&u->clipped);
    r->unsupported = u->unsupported / n;
    r->rounding = u->rounding / n;
    r->min_ess = u->o->min_ess > 0 ? u->o->min_ess : fmin(10, fmax(2, n / 100));
}

void ld_ope_refuse(const struct ld_ope_run *u, bool has_weights, char *out)
{
    const struct ld_ope_result *r = u->r;

    out[0] = '\0';
    if (u->policy->is_logging)
        return;
    if (r->n_missing > 0)
        snprintf(
            out, LD_OPE_WHY,
            "%zu of %zu events have no propensity: weights are not known (--propensity says what it was, if it was "
            "the same for all)",
            r->n_missing, r->n);
    else if (!u->is_random && r->n_arms > 1)
        snprintf(out, LD_OPE_WHY,
                 "every propensity is 1: the logging policy was deterministic, so the log says nothing of "
                 "other arms");
    else if (has_weights && r->unsupported > u->o->max_unsupported)
        snprintf(out, LD_OPE_WHY, "%.3g of the target's mass is on arms that the log never shows (at most %.3g)",
                 r->unsupported, u->o->max_unsupported);
}

/* The terms of an estimator, and what the log itself has in its place: of logs without slots the last two estimators
 * are ips. */
static const struct ld_ope_series *terms(const struct ld_ope_result *r, int kind)
{
    if (kind < LD_OPE_BY_SLOT)
        return &r->series[kind];
    if (r->slots.most < 2)
        return &r->series[LD_OPE_IPS];
    return kind == LD_OPE_BY_SLOT ? &r->slots.by_slot : &r->slots.pseudo;
}

static const struct ld_ope_series *logged_terms(const struct ld_ope_result *r, int kind)
{
    return kind < LD_OPE_BY_SLOT || r->slots.most < 2 ? &r->rewards : &r->slots.totals;
}

static bool is_of_slots(const struct ld_ope_result *r, int kind)
{
    return kind >= LD_OPE_BY_SLOT && r->slots.most > 1;
}

bool ld_ope_is_ips(const struct ld_ope_result *r, int kind)
{
    return kind >= LD_OPE_BY_SLOT && r->slots.most < 2 && r->estimate[LD_OPE_IPS].refused[0] == '\0' &&
           r->estimate[kind].refused[0] == '\0';
}

/* Length of the interval that holds the rewards of all slots, and the 0 of a slot without one. */
static double slot_reach(const struct ld_ope_slots *s)
{
    return fmax(s->reward_hi, 0) - fmin(s->reward_lo, 0);
}

/* Length of the interval that an estimator's residuals lie in. */
static double residual_range(const struct ld_ope_run *u, int kind)
{
    const double span = u->r->reward_hi - u->r->reward_lo;
    const double reach = fmax(u->r->reward_hi, 0) - fmin(u->r->reward_lo, 0);
    const struct ld_ope_slots *s = &u->r->slots;

    if (is_of_slots(u->r, kind))
        return slot_reach(s) * (kind == LD_OPE_BY_SLOT ? s->max_by_slot : 2 * s->max_pseudo * (double)s->most);
    switch (kind) {
    case LD_OPE_REPLAY:
        return span;
    case LD_OPE_BY_SLOT:
    case LD_OPE_PSEUDO:
    case LD_OPE_IPS:
        return u->r->max_weight * reach;
    case LD_OPE_CLIPPED:
        return fmin(u->o->clip, u->r->max_weight) * reach;
    case LD_OPE_SNIPS:
        return u->r->max_weight * span;
    default:
        return span + 2 * u->r->max_weight * span;
    }
}

/* Why the slots behind the first cannot be weighed. */
static void refuse_slots(const struct ld_ope_run *u, char *out)
{
    const struct ld_ope_slots *s = &u->r->slots;
    const double lost = s->n_later > 0 ? s->unsupported / (double)s->n_later : 0;

    if (u->policy->is_logging)
        return;
    if (s->n_missing > 0)
        snprintf(out, LD_OPE_WHY, "%zu of %zu events have a slot without a propensity", s->n_missing, u->r->n);
    else if (lost > u->o->max_unsupported)
        snprintf(out, LD_OPE_WHY,
                 "%.3g of the target's mass in later slots is on arms that the log never shows there (at most %.3g)",
                 lost, u->o->max_unsupported);
}

/* Effective size: of decisions, which have some slots each. */
static double slots_size(const struct ld_ope_slots *s, int kind)
{
    if (kind == LD_OPE_PSEUDO)
        return s->gg > 0 ? s->g * s->g / s->gg : 0;
    return s->ww > 0 ? s->w * s->w / s->ww / (double)s->most : 0;
}

/* Why too few events speak of this estimator: clipping makes weights more even, and the replay has its own count. */
static void refuse_few(const struct ld_ope_run *u, int kind, char *out)
{
    const struct ld_ope_result *r = u->r;
    const double ess = is_of_slots(r, kind)     ? slots_size(&r->slots, kind)
                       : kind == LD_OPE_CLIPPED ? r->clipped_ess
                                                : r->ess;

    if (u->policy->is_logging)
        return;
    if (kind == LD_OPE_REPLAY && (double)r->n_accepted < r->min_ess)
        snprintf(out, LD_OPE_WHY, "%zu of %zu events were accepted (at least %.3g)", r->n_accepted, r->n, r->min_ess);
    else if (kind != LD_OPE_REPLAY && ess < r->min_ess)
        snprintf(out, LD_OPE_WHY, "the effective sample size is %.3g of %zu events (at least %.3g)", ess, r->n,
                 r->min_ess);
}

/* Of the rewards of `slots` slots together. */
static void estimate(const struct ld_ope_run *u, const struct ld_ope_series *s, double range, size_t slots,
                     struct ld_ope_estimate *e)
{
    const double lo = slots > 1 ? u->r->slots.reward_lo : u->r->reward_lo,
                 hi = slots > 1 ? u->r->slots.reward_hi : u->r->reward_hi, n = (double)slots;

    e->value = ld_ope_series_estimate(s);
    e->error = ld_ope_series_error(s);
    e->bernstein = ld_ope_series_bernstein(s, u->o->level, range, fmin(lo, n * lo), fmax(hi, n * hi));
    e->is_bootstrap = !u->o->is_bernstein && ld_ope_series_bootstrap(s, NULL, &u->bootstrap, &e->interval);
    if (!e->is_bootstrap)
        e->interval = e->bernstein;
}

void ld_ope_conclude(const struct ld_ope_run *u, int kind, struct ld_ope_estimate *e)
{
    if (!u->o->is_wanted[kind])
        snprintf(e->refused, LD_OPE_WHY, "not asked for");
    else if (e->refused[0] == '\0') {
        refuse_few(u, kind, e->refused);
        if (is_of_slots(u->r, kind))
            refuse_slots(u, e->refused);
    }
    if (ld_ope_is_ips(u->r, kind))
        *e = u->r->estimate[LD_OPE_IPS];
    else if (e->refused[0] == '\0')
        estimate(u, terms(u->r, kind), residual_range(u, kind), is_of_slots(u->r, kind) ? u->r->slots.most : 1, e);
}

void ld_ope_conclude_logged(const struct ld_ope_run *u)
{
    const size_t n = u->r->slots.most > 1 ? u->r->slots.most : 1;

    estimate(u, &u->r->rewards, u->r->reward_hi - u->r->reward_lo, 1, &u->r->logged);
    u->r->logged_total = u->r->logged;
    if (n > 1)
        estimate(u, &u->r->slots.totals, slot_reach(&u->r->slots) * (double)n, n, &u->r->logged_total);
}

bool ld_ope_compare(const struct ld_ope_result *r, const struct ld_ope_result *other, int kind,
                    const struct ld_ope_bootstrap *how, struct ld_ope_difference *out)
{
    const struct ld_ope_series *a = terms(r, kind), *b = other != NULL ? terms(other, kind) : logged_terms(r, kind);

    if (r->estimate[kind].refused[0] != '\0' || (other != NULL && other->estimate[kind].refused[0] != '\0'))
        return false;
    out->value = ld_ope_series_estimate(a) - ld_ope_series_estimate(b);
    out->is_bounded = ld_ope_series_bootstrap(a, b, how, &out->interval);
    return true;
}
