/* An evaluation as a table for people. */
#include <stdio.h>

#include "common/text.h"
#include "evaluate/report.h"

static void print_warning(void *arg, const char *text)
{
    (void)arg;
    lc_say("warning: %s", text);
}

/* Of logs without slots the estimators behind dr are ips. */
static int n_told(const struct ld_ope_result *r)
{
    return r->slots.most > 1 ? LD_OPE_N : LD_OPE_BY_SLOT;
}

/* Of the column of names. */
static int name_width(const struct ld_ope_result *r)
{
    return r->slots.most > 1 ? 14 : 12;
}

static void print(const struct ld_ope_result *r, const struct ld_ope_options *o, const struct ld_decisions *log)
{
    printf("%s events, %s arms, effective sample size %.1f; largest weight %.4g, mean %.4g\n\n", lc_thousands(r->n),
           lc_thousands(r->n_arms), r->ess, r->max_weight, r->mean_weight);
    const int width = name_width(r);

    printf("  %-*s %12s   %g %% interval\n", width, "estimator", "estimate", 100 * o->level);
    for (int i = 0; i < n_told(r); i++) {
        const struct ld_ope_estimate *e = &r->estimate[i];
        if (e->refused[0] != '\0')
            printf("  %-*s refused: %s\n", width, ld_ope_name(i), e->refused);
        else
            printf("  %-*s %12.6g   [%.6g, %.6g]%s\n", width, ld_ope_name(i), e->value, e->interval.lower,
                   e->interval.upper, e->is_bootstrap ? "" : " (Bernstein)");
    }
    printf("\n%s events accepted by the replay; %.2f s of CPU\n", lc_thousands(r->n_accepted),
           r->seconds[LD_OPE_SURVEY] + r->seconds[LD_OPE_JUDGE] + r->seconds[LD_OPE_INTERVALS]);
    for (size_t i = 0; i < LD_DECISIONS_REASONS && log->skipped[i].reason != NULL; i++)
        lc_say("skipped: %s %s", lc_thousands(log->skipped[i].n), log->skipped[i].reason);
    ld_ope_warnings(r, log, print_warning, NULL);
}

static void print_differences(const struct ld_ope_report *r, const struct ld_ope_report_entry *e)
{
    printf("\n%s less %s, paired:\n", e->name, r->entry[0].name);
    for (int i = 0; i < n_told(&e->result); i++)
        if (e->has_difference[i] && e->difference[i].is_bounded)
            printf("  %-*s %12.6g   [%.6g, %.6g]\n", name_width(&e->result), ld_ope_name(i), e->difference[i].value,
                   e->difference[i].interval.lower, e->difference[i].interval.upper);
}

void lc_report_print(const struct ld_ope_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->n > 1)
            printf("%s%s\n", i > 0 ? "\n" : "", r->entry[i].name);
        print(&r->entry[i].result, r->o, r->entry[i].log);
    }
    for (size_t i = 1; i < r->n; i++)
        print_differences(r, &r->entry[i]);
}
