/* What is told of evaluations besides their JSON: warnings, and what plots are made of. See
 * ope_report.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "evaluate/ope_report.h"

#define FEW 50.0 /* events below which an interval is to be doubted */
#define FAR 4.0  /* standard errors of the mean weight from 1 */
#define SOME_MASS 1e-9

/* The mean weight is 1 but for chance and for the rounding of what was logged. The two are added, since rounding need
 * not cancel: where each p is 0.333333 in place of 1/3, each weight is too large by one part in a million, the mean as
 * well, and its standard error is next to nothing. Each weight's part in the bound is its own, so that rounding which
 * is coarse for small propensities excuses no fault in large ones. */
void ld_ope_warnings(const struct ld_ope_result *r, const struct ld_decisions *log,
                     void (*fn)(void *arg, const char *text), void *arg)
{
    char text[320];

    if (r->ess < FEW) {
        snprintf(text, sizeof text, "the effective sample size is %.3g: below %g intervals are rough", r->ess, FEW);
        fn(arg, text);
    }
    if (fabs(r->mean_weight - 1) > FAR * r->mean_weight_error + r->rounding) {
        snprintf(text, sizeof text,
                 "the mean weight is %.6g +- %.2g and should be 1: propensities, arms or positions do not belong "
                 "together",
                 r->mean_weight, r->mean_weight_error);
        fn(arg, text);
    }
    if (r->unsupported > SOME_MASS) {
        snprintf(text, sizeof text,
                 "%.3g of the target's mass is on arms that the log never shows: all estimates miss it",
                 r->unsupported);
        fn(arg, text);
    }
    if (log->n_bad > 0) {
        snprintf(text, sizeof text, "%zu faulty lines were passed over, the first: %.200s", log->n_bad,
                 log->first_bad.text);
        fn(arg, text);
    }
}

/* --- courses, differences, shares -------------------------------------------------------------------- */

static const int KIND[LD_OPE_COURSE_N] = {-1, LD_OPE_IPS, LD_OPE_SNIPS, LD_OPE_DR};

const char *ld_ope_report_course_name(int course)
{
    return course == LD_OPE_COURSE_LOGGED ? "logged" : ld_ope_name(KIND[course]);
}

static void prepare(struct ld_ope_report_entry *e, const struct ld_ope_report_entry *first,
                    const struct ld_ope_bootstrap *how)
{
    const struct ld_ope_result *r = &e->result;

    for (int c = 0; c < LD_OPE_COURSE_N; c++) {
        e->has_course[c] = c == LD_OPE_COURSE_LOGGED || r->estimate[KIND[c]].refused[0] == '\0';
        if (e->has_course[c])
            ld_ope_trace_points(&r->trace, c == LD_OPE_COURSE_LOGGED ? &r->rewards : &r->series[KIND[c]], how,
                                e->course[c]);
    }
    for (int i = 0; i < LD_OPE_N; i++) {
        if (ld_ope_is_ips(r, i)) {
            e->has_gain[i] = e->has_gain[LD_OPE_IPS];
            e->gain[i] = e->gain[LD_OPE_IPS];
            e->has_difference[i] = e->has_difference[LD_OPE_IPS];
            e->difference[i] = e->difference[LD_OPE_IPS];
            continue;
        }
        e->has_gain[i] = !e->policy->is_logging && ld_ope_compare(r, NULL, i, how, &e->gain[i]);
        e->has_difference[i] = e != first && ld_ope_compare(r, &first->result, i, how, &e->difference[i]);
    }
}

int ld_ope_report_prepare(struct ld_ope_report *r)
{
    struct ld_ope_bootstrap how = ld_ope_bootstrap(r->o);
    int rc = ld_ope_bootstrap_init(&how);

    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        prepare(&r->entry[i], &r->entry[0], &how);
        rc = r->o->is_over != NULL && r->o->is_over(r->o->arg) ? -1 : 0;
    }
    ld_ope_bootstrap_close(&how);
    return rc;
}

static double weight_of(const struct ld_ope_trace_arm *arm)
{
    return (double)arm->shown + arm->target;
}

/* Insertion into a list of the largest: the list is short. Equal ones stay in the order of the log. */
size_t ld_ope_report_arms(const struct ld_ope_report_entry *e, uint32_t *out, size_t cap)
{
    const struct ld_ope_trace *t = &e->result.trace;
    size_t n = 0;

    for (uint32_t i = 0; i < t->cap && i < e->log->arms.n; i++) {
        size_t at = n;
        while (at > 0 && weight_of(&t->arm[out[at - 1]]) < weight_of(&t->arm[i]))
            at--;
        if (at == cap)
            continue;
        n += n < cap ? 1 : 0;
        for (size_t k = n - 1; k > at; k--)
            out[k] = out[k - 1];
        out[at] = i;
    }
    return n;
}

/* --- where it comes from ----------------------------------------------------------------------------- */

void ld_ope_report_describe(struct ld_ope_report *r, const struct ld_ope_origin *from)
{
    const double nan = (double)NAN;
    const struct ld_ope_report_parameter all[] = {
        {"format", from->format, nan},
        {"estimators",
         from->estimators != NULL ? from->estimators : "replay,ips,snips,clipped_ips,dr,ips_by_slot,pseudo_inverse",
         nan},
        {"level", NULL, from->level_percent},
        {"intervals", r->o->is_bernstein ? "bernstein" : "bootstrap", nan},
        {"resamples", NULL, (double)r->o->n_resamples},
        {"seed", NULL, (double)r->o->seed},
        {"clip", NULL, r->o->clip},
        {"min-ess", NULL, r->o->min_ess > 0 ? r->o->min_ess : r->entry[0].result.min_ess},
        {"max-unsupported", NULL, r->o->max_unsupported},
        {"reward-range", from->range, nan},
        {"default-reward", NULL, from->read.default_reward},
        {"propensity", from->propensity, nan},
        {"all-routes", from->read.draws_only ? NULL : "yes", nan},
        {"skip-bad", NULL, (double)from->read.skip_bad},
        {"hash-seed", NULL, (double)from->read.hash_seed},
        {"map", from->map, nan},
        {"metric", from->metric, nan},
        {"version", LD_VERSION, nan},
    };

    memcpy(r->parameter, all, sizeof all);
    r->n_parameters = sizeof all / sizeof all[0];
}
