/* What is told of evaluations besides their JSON: warnings, what plots are made of, a table for people. See
 * ope_report.h. */
#include <math.h>
#include <stdio.h>

#include "evaluate/ope_report.h"

#define FEW 50.0 /* events below which an interval is to be doubted */
#define FAR 4.0  /* standard errors of the mean weight from 1 */
#define SOME_MASS 1e-9

/* The mean weight is 1 but for chance and for the rounding of what was logged. The two are added, since rounding need
 * not cancel: where each p is 0.333333 in place of 1/3, each weight is too large by one part in a million, the mean as
 * well, and its standard error is next to nothing. Each weight's part in the bound is its own, so that rounding which
 * is coarse for small propensities excuses no fault in large ones. */
void lc_ope_warnings(const struct lc_ope_result *r, const struct lc_log *log, void (*fn)(void *arg, const char *text),
                     void *arg)
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
        snprintf(text, sizeof text, "%zu faulty lines were passed over, the first: %.200s", log->n_bad, log->first_bad);
        fn(arg, text);
    }
}

/* --- courses, differences, shares -------------------------------------------------------------------- */

static const int KIND[LC_COURSE_N] = {-1, LC_OPE_IPS, LC_OPE_SNIPS, LC_OPE_DR};

const char *lc_report_course_name(int course)
{
    return course == LC_COURSE_LOGGED ? "logged" : lc_ope_name(KIND[course]);
}

static void prepare(struct lc_report_entry *e, const struct lc_report_entry *first, const struct lc_ope_options *o)
{
    const struct lc_ope_result *r = &e->result;

    for (int c = 0; c < LC_COURSE_N; c++) {
        e->has_course[c] = c == LC_COURSE_LOGGED || r->estimate[KIND[c]].refused[0] == '\0';
        if (e->has_course[c])
            lc_trace_points(&r->trace, c == LC_COURSE_LOGGED ? &r->rewards : &r->series[KIND[c]], o->level,
                            o->n_resamples, o->seed, e->course[c]);
    }
    for (int i = 0; i < LC_OPE_N; i++) {
        e->has_gain[i] = !e->policy->is_logging && lc_ope_compare(r, NULL, i, o, &e->gain[i]);
        e->has_difference[i] = e != first && lc_ope_compare(r, &first->result, i, o, &e->difference[i]);
    }
}

void lc_report_prepare(struct lc_report *r)
{
    for (size_t i = 0; i < r->n; i++)
        prepare(&r->entry[i], &r->entry[0], r->o);
}

static double weight_of(const struct lc_trace_arm *arm)
{
    return (double)arm->shown + arm->target;
}

/* Insertion into a list of the largest: the list is short. Equal ones stay in the order of the log. */
size_t lc_report_arms(const struct lc_report_entry *e, uint32_t *out, size_t cap)
{
    const struct lc_trace *t = &e->result.trace;
    size_t n = 0;

    for (uint32_t i = 0; i < t->cap && i < e->log.arms.n; i++) {
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

/* --- for people --------------------------------------------------------------------------------------- */

static void print_warning(void *arg, const char *text)
{
    (void)arg;
    lc_say("warning: %s", text);
}

static void print(const struct lc_ope_result *r, const struct lc_ope_options *o, const struct lc_log *log)
{
    printf("%s events, %s arms, effective sample size %.1f; largest weight %.4g, mean %.4g\n\n", lc_thousands(r->n),
           lc_thousands(r->n_arms), r->ess, r->max_weight, r->mean_weight);
    printf("  %-12s %12s   %g %% interval\n", "estimator", "estimate", 100 * o->level);
    for (int i = 0; i < LC_OPE_N; i++) {
        const struct lc_ope_estimate *e = &r->estimate[i];
        if (e->refused[0] != '\0')
            printf("  %-12s refused: %s\n", lc_ope_name(i), e->refused);
        else
            printf("  %-12s %12.6g   [%.6g, %.6g]%s\n", lc_ope_name(i), e->value, e->interval.lower, e->interval.upper,
                   e->is_bootstrap ? "" : " (Bernstein)");
    }
    printf("\n%s events accepted by the replay; %.2f s of CPU\n", lc_thousands(r->n_accepted),
           r->seconds[LC_OPE_SURVEY] + r->seconds[LC_OPE_JUDGE] + r->seconds[LC_OPE_INTERVALS]);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && log->skipped[i].reason != NULL; i++)
        lc_say("skipped: %s %s", lc_thousands(log->skipped[i].n), log->skipped[i].reason);
    lc_ope_warnings(r, log, print_warning, NULL);
}

static void print_differences(const struct lc_report *r, const struct lc_report_entry *e)
{
    printf("\n%s less %s, paired:\n", e->name, r->entry[0].name);
    for (int i = 0; i < LC_OPE_N; i++)
        if (e->has_difference[i] && e->difference[i].is_bounded)
            printf("  %-12s %12.6g   [%.6g, %.6g]\n", lc_ope_name(i), e->difference[i].value,
                   e->difference[i].interval.lower, e->difference[i].interval.upper);
}

void lc_report_print(const struct lc_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->n > 1)
            printf("%s%s\n", i > 0 ? "\n" : "", r->entry[i].name);
        print(&r->entry[i].result, r->o, &r->entry[i].log);
    }
    for (size_t i = 1; i < r->n; i++)
        print_differences(r, &r->entry[i]);
}
