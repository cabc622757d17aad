/* Metrics in the book of an experiment (experiment.h): the same sums of other values of the same decisions.
 *
 * A decision is counted for all metrics when it is counted, which is when its window closes: until then each of them
 * may still change. What was not told counts as the metric's default. Values are clipped to the metric's range and
 * divided by its width. Where there is a holdout, the first decision of each user counts for the policy against it, and
 * that comparison shares the level of the arms'; sums that began when there was no such comparison have promised all of
 * the level to the arms, and go on without it. The check of traffic is the experiment's: it knows no rewards. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "book/experiment_impl.h"
#include "spec/event.h"

/* ---- beginning -------------------------------------------------------------------------------------------- */

void ld_metrics_take_rules(struct ld_experiment_rules *rules, const struct ld_settings *s)
{
    rules->n_metrics = 0;
    for (size_t i = 0; i < s->n_metrics; i++)
        if (ld_metric_is_measured(s, &s->metric[i]))
            rules->metric[rules->n_metrics++] = s->metric[i];
}

enum kb_err ld_metrics_begin(const struct ld_experiment_rules *rules, struct ld_metric_sums **out)
{
    *out = NULL;
    if (rules->n_metrics == 0)
        return KB_OK;
    *out = kb_array(rules->n_metrics, 1, sizeof **out);
    if (*out == NULL)
        return KB_ENOMEM;
    for (size_t m = 0; m < rules->n_metrics; m++)
        (*out)[m].settings = rules->metric[m];
    return KB_OK;
}

static size_t find_metric(const struct ld_experiment *e, const char *name)
{
    size_t m = 0;
    while (m < e->n_metrics && strcmp(e->metric[m].settings.name, name) != 0)
        m++;
    return m;
}

bool ld_metrics_are_begun(const struct ld_experiment *e)
{
    for (size_t i = 0; i < e->now.n_metrics; i++) {
        const size_t m = find_metric(e, e->now.metric[i].name);
        if (m == e->n_metrics || !ld_metric_is_same(&e->metric[m].settings, &e->now.metric[i]))
            return false;
    }
    return e->now.n_metrics == e->n_metrics;
}

/* ---- counting --------------------------------------------------------------------------------------------- */

void ld_metrics_take(struct ld_experiment *e, struct ld_waiting *w, const struct kb_ev_metric *metric)
{
    const size_t m = metric->name != NULL ? find_metric(e, metric->name) : e->n_metrics;

    if (m < e->n_metrics)
        ld_waiting_values(&e->waiting, w)[m] = kb_ev_metric_total(metric);
}

/* value: in [0, 1]. */
static void count_by_arm(const struct ld_experiment *e, struct ld_metric_sums *s, const struct ld_waiting *w,
                         const double *p, double value)
{
    const size_t side = (w->flags & LD_WAITS_IS_HOLDOUT) != 0 ? LD_SIDE_HOLDOUT : LD_SIDE_POLICY;

    for (size_t a = 0; a < e->n_arms; a++)
        if (a != e->baseline && (w->arm == a || w->arm == e->baseline))
            (void)ld_comparison_add(&s->against[a], p[e->baseline], p[a], w->arm == a, value);
    if (w->arm != LD_ARM_OTHER)
        (void)kb_shown_add(&s->shown[w->arm][side], value);
}

/* Whether the policy is compared with the holdout by metrics. */
static bool compares_policy(const struct ld_experiment *e)
{
    return e->holdout > 0 && e->has_metric_policies;
}

void ld_metrics_count(struct ld_experiment *e, const struct ld_waiting *w, const double *p)
{
    const double *value = ld_waiting_values(&e->waiting, w);
    const bool is_holdout = (w->flags & LD_WAITS_IS_HOLDOUT) != 0;

    for (size_t m = 0; m < e->n_metrics; m++) {
        struct ld_metric_sums *s = &e->metric[m];
        const double told = isnan(value[m]) ? s->settings.missing : value[m];
        const double r = ld_experiment_scaled(told, s->settings.low, s->settings.high, &s->n_clipped);

        if ((w->flags & LD_WAITS_HAS_ODDS) != 0)
            count_by_arm(e, s, w, p, r);
        if ((w->flags & LD_WAITS_IS_FIRST) != 0 && compares_policy(e))
            (void)ld_comparison_add(&s->policy, e->holdout, 1 - e->holdout, !is_holdout, r);
    }
}

/* ---- looks ------------------------------------------------------------------------------------------------- */

/* What its intervals are for: each end by itself at a guardrail's level, both at the experiment's of all others; of all
 * arms at once. */
static double log_inverse(const struct ld_experiment *e, const struct ld_metric_sums *s)
{
    const double n = (double)(e->n_arms - 1 + compares_policy(e));

    return s->settings.role == LD_GUARDRAIL ? log(n / s->settings.level) : log(2 * n / e->begun.level);
}

/* KB_WORSE: it fell by more than is tolerated; KB_NO_DIFFERENCE: it did not. */
static enum kb_verdict guardrail_verdict(const struct ld_metric_settings *s, double low, double high)
{
    const double harm = s->harm / (s->high - s->low);

    if (high < -harm)
        return KB_WORSE;
    return low > -harm ? KB_NO_DIFFERENCE : KB_GO_ON;
}

static void look_at(const struct ld_experiment *e, const struct ld_metric_sums *s, struct ld_comparison *c,
                    const struct kb_event *ev)
{
    struct ld_experiment_stop stop = {.seq = ev->seq, .at_ms = ev->at_ms, .n = c->pair.n};

    if (c->stop.verdict != KB_GO_ON || c->pair.n == 0)
        return;
    kb_pair_interval(&c->pair, c->reach, log_inverse(e, s), &stop.low, &stop.high);
    stop.estimate = kb_pair_estimate(&c->pair);
    stop.verdict = guardrail_verdict(&s->settings, stop.low, stop.high);
    if (stop.verdict != KB_GO_ON)
        c->stop = stop;
}

void ld_metrics_look(struct ld_experiment *e, const struct kb_event *ev)
{
    for (size_t m = 0; m < e->n_metrics; m++) {
        struct ld_metric_sums *s = &e->metric[m];

        for (size_t a = 0; a < e->n_arms && s->settings.role == LD_GUARDRAIL; a++)
            if (a != e->baseline)
                look_at(e, s, &s->against[a], ev);
        if (s->settings.role == LD_GUARDRAIL && compares_policy(e))
            look_at(e, s, &s->policy, ev);
    }
}

/* ---- what is told ---------------------------------------------------------------------------------------- */

/* base: the mean of what it is compared with. */
static void show_difference(const struct ld_experiment *e, const struct ld_metric_sums *s,
                            const struct ld_comparison *c, double base, bool is_void,
                            struct ld_experiment_difference *out)
{
    double low, high;

    ld_experiment_show_pair(c, log_inverse(e, s), s->settings.high - s->settings.low, base, out, &low, &high);
    out->needed = (double)NAN;
    out->verdict = is_void                            ? KB_VOID
                   : s->settings.role != LD_GUARDRAIL ? KB_GO_ON
                   : c->stop.verdict != KB_GO_ON      ? c->stop.verdict
                                                      : guardrail_verdict(&s->settings, low, high);
}

static void show_metric(const struct ld_experiment *e, const struct ld_metric_sums *s, bool is_void,
                        struct ld_experiment_metric_view *out)
{
    const double low = s->settings.low, width = s->settings.high - low;
    struct kb_shown held = {.n = 0};

    out->settings = s->settings;
    out->n_clipped = s->n_clipped;
    for (size_t a = 0; a < e->n_arms; a++) {
        for (size_t side = 0; side < LD_SIDE_N; side++)
            ld_experiment_show_side(&s->shown[a][side], e->begun.level / (double)e->n_arms, low, width,
                                    &out->side[a][side]);
        held.n += s->shown[a][LD_SIDE_HOLDOUT].n;
        held.reward += s->shown[a][LD_SIDE_HOLDOUT].reward;
    }
    for (size_t a = 0; a < e->n_arms; a++)
        show_difference(e, s, &s->against[a], out->side[e->baseline][LD_SIDE_POLICY].mean, is_void,
                        &out->difference[a]);
    show_difference(e, s, &s->policy, held.n > 0 ? low + width * (held.reward / (double)held.n) : (double)NAN, is_void,
                    &out->policy);
}

/* A test of the list: a difference that is no guardrail's. */
struct tests {
    double log_e[LD_MOST_METRICS * LD_EXPERIMENT_ARMS];
    struct ld_experiment_difference *of[LD_MOST_METRICS * LD_EXPERIMENT_ARMS];
    size_t n;
};

static void add_test(struct tests *t, struct ld_experiment_difference *d)
{
    t->of[t->n] = d;
    t->log_e[t->n++] = d->log10_e * log(10);
}

/* All metrics but guardrails: of all arms but the baseline, and of the policy where there is a holdout. */
static void find_changes(const struct ld_experiment *e, struct ld_experiment_view *out)
{
    struct tests t = {.n = 0};
    bool is_found[LD_MOST_METRICS * LD_EXPERIMENT_ARMS];

    for (size_t m = 0; m < e->n_metrics; m++) {
        if (e->metric[m].settings.role == LD_GUARDRAIL)
            continue;
        for (size_t a = 0; a < e->n_arms; a++)
            if (a != e->baseline)
                add_test(&t, &out->metric[m].difference[a]);
        if (out->has_metric_policies)
            add_test(&t, &out->metric[m].policy);
    }
    out->n_tests = t.n;
    if (t.n == 0)
        return;
    out->n_changes = kb_find_changes(t.log_e, t.n, e->begun.level, is_found);
    for (size_t i = 0; i < t.n; i++)
        if (is_found[i] && !out->is_void)
            t.of[i]->verdict = KB_BETTER; /* it is another; which way, the estimate says */
}

void ld_metrics_show(const struct ld_experiment *e, struct ld_experiment_view *out)
{
    out->n_metrics = e->n_metrics;
    out->has_metric_policies = compares_policy(e);
    memset(out->metric, 0, e->n_metrics * sizeof *out->metric);
    for (size_t m = 0; m < e->n_metrics; m++)
        show_metric(e, &e->metric[m], out->is_void, &out->metric[m]);
    find_changes(e, out);
}
