/* An experiment as GET /tenants/{t}/experiment shows it, with its verdicts in words. Numbers that are not known yet are
 * null. */
#include "json/json_out_experiment.h"

#include <math.h>
#include <stdio.h>

#include "json/json_experiment.h"

static const char *const states[] = {
    [LD_EXPERIMENT_OFF] = "off",
    [LD_EXPERIMENT_RUNS] = "running",
    [LD_EXPERIMENT_FEW_ARMS] = "waiting",
    [LD_EXPERIMENT_MANY_ARMS] = "waiting",
    [LD_EXPERIMENT_NO_BASELINE] = "waiting",
};
static const char *const reasons[] = {
    [LD_EXPERIMENT_OFF] = "the configuration has no experiment",
    [LD_EXPERIMENT_FEW_ARMS] = "the catalogue has fewer than two arms",
    [LD_EXPERIMENT_MANY_ARMS] = "the catalogue has more than 32 arms",
    [LD_EXPERIMENT_NO_BASELINE] = "the baseline is not in the catalogue",
};
static const char *const verdicts[] = {
    [KB_GO_ON] = "go_on", [KB_BETTER] = "better", [KB_WORSE] = "worse", [KB_NO_DIFFERENCE] = "no_difference",
    [KB_VOID] = "void",
};

/* Of a metric: a guardrail is harmed or holds, another is changed. */
static const char *const metric_verdicts[] = {
    [KB_GO_ON] = "go_on",         [KB_BETTER] = "changed", [KB_WORSE] = "harmed",
    [KB_NO_DIFFERENCE] = "holds", [KB_VOID] = "void",
};

/* --- words ------------------------------------------------------------------------------------------------- */

#define ROOM LD_SENTENCE_BYTES
#define METRIC_ROOM (ROOM + KB_METRIC_MAX_BYTES)

/* x > 0 to three digits, towards 0: what is at least x is at least that. */
static double cut(double x)
{
    const double unit = pow(10, floor(log10(x)) - 2);

    return unit > 0 ? floor(x / unit * (1 + 1e-14)) * unit : x;
}

/* What a look says of `name`. least: by how much at least, most: and at most. */
static void say_side(char *out, const char *name, const char *side, double least, double most, double d)
{
    const int n = snprintf(out, ROOM, "stop: %s is %s by at least %.3g", name, side, cut(least));

    if (most < d)
        snprintf(out + n, ROOM - (size_t)n, ", but by less than %g", d);
}

static void say(char *out, const char *name, enum kb_verdict verdict, double low, double high, double d)
{
    if (verdict == KB_BETTER)
        say_side(out, name, "better", low, high, d);
    else if (verdict == KB_WORSE)
        say_side(out, name, "worse", -high, -low, d);
    else if (verdict == KB_NO_DIFFERENCE)
        snprintf(out, ROOM, "stop: no difference larger than %g", d);
    else
        snprintf(out, ROOM, "%s", verdict == KB_VOID ? "void: traffic does not match the told propensities" : "go on");
}

/* Of a guardrail at a look, or of another metric now. */
static void say_metric(char *out, const char *arm, const struct ld_metric_settings *m, enum kb_verdict verdict,
                       double estimate)
{
    if (verdict == KB_WORSE)
        snprintf(out, METRIC_ROOM, "stop: %s harms %s by more than %g", arm, m->name, m->harm);
    else if (verdict == KB_NO_DIFFERENCE)
        snprintf(out, METRIC_ROOM, "%s does not harm %s by more than %g", arm, m->name, m->harm);
    else if (verdict == KB_BETTER)
        snprintf(out, METRIC_ROOM, "%s changes %s: it is %s", arm, m->name, estimate > 0 ? "higher" : "lower");
    else
        say(out, arm, verdict, 0, 0, 0);
}

/* --- parts --------------------------------------------------------------------------------------------------- */

static void put_moment(struct ld_text *t, const char *name, uint64_t seq, int64_t at_ms)
{
    ld_text_key(t, name);
    if (seq == 0) {
        ld_text_lit(t, "null");
        return;
    }
    ld_text_lit(t, "{");
    ld_text_put_count(t, "seq", seq);
    ld_text_put_time(t, "at", at_ms);
    ld_text_lit(t, "}");
}

static void put_decisions(struct ld_text *t, const struct ld_experiment_view *v)
{
    ld_text_key(t, "decisions");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "counted", v->n_counted);
    ld_text_put_count(t, "waiting", v->n_waiting);
    ld_text_put_time_or_null(t, "waiting_since", v->n_waiting > 0, v->waiting_since_ms);
    ld_text_put_count(t, "left_out", v->n_left_out);
    ld_text_put_count(t, "clipped", v->n_clipped);
    ld_text_put_count(t, "beyond_reach", v->n_beyond);
    ld_text_lit(t, "}");
}

static void put_side(struct ld_text *t, const char *name, const struct ld_experiment_side *s)
{
    ld_text_key(t, name);
    ld_text_lit(t, "{");
    ld_text_put_count(t, "decisions", s->n);
    ld_text_put_known(t, "mean", s->mean);
    ld_text_put_number(t, "low", s->low);
    ld_text_put_number(t, "high", s->high);
    ld_text_lit(t, "}");
}

static void put_arm(struct ld_text *t, const struct ld_experiment_arm_view *a)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "arm", a->id);
    put_side(t, "policy", &a->side[LD_SIDE_POLICY]);
    put_side(t, "holdout", &a->side[LD_SIDE_HOLDOUT]);
    ld_text_put_number(t, "p_best", a->p_best);
    ld_text_put_number(t, "expected_loss", a->loss);
    ld_text_lit(t, "}");
}

static void put_stop(struct ld_text *t, const struct ld_experiment_stop *s, const char *verdict, const char *text)
{
    ld_text_key(t, "stop");
    if (s->verdict == KB_GO_ON) {
        ld_text_lit(t, "null");
        return;
    }
    ld_text_lit(t, "{");
    ld_text_put_count(t, "seq", s->seq);
    ld_text_put_time(t, "at", s->at_ms);
    ld_text_put_string(t, "verdict", verdict);
    ld_text_put_string(t, "sentence", text);
    ld_text_put_count(t, "decisions", s->n);
    ld_text_put_known(t, "estimate", s->estimate);
    ld_text_put_number(t, "low", s->low);
    ld_text_put_number(t, "high", s->high);
    ld_text_lit(t, "}");
}

/* A verdict that stays is told by the interval of its look. */
static void say_difference(char *out, const char *name, const struct ld_experiment_difference *v, double d)
{
    const bool is_kept = v->stop.verdict != KB_GO_ON && v->verdict != KB_VOID;

    say(out, name, v->verdict, is_kept ? v->stop.low : v->low, is_kept ? v->stop.high : v->high, d);
}

static void put_estimate(struct ld_text *t, const struct ld_experiment_difference *v)
{
    ld_text_put_count(t, "decisions", v->n);
    ld_text_put_known(t, "estimate", v->estimate);
    ld_text_put_number(t, "low", v->low);
    ld_text_put_number(t, "high", v->high);
    ld_text_put_known(t, "lift", v->lift);
    ld_text_put_number(t, "log10_e", v->log10_e);
}

/* The members of a comparison. */
static void put_difference(struct ld_text *t, const char *name, const struct ld_experiment_difference *v, double d)
{
    char text[ROOM], stop[ROOM];

    say_difference(text, name, v, d);
    say(stop, name, v->stop.verdict, v->stop.low, v->stop.high, d);
    put_estimate(t, v);
    ld_text_put_known(t, "lift_lower", v->lift_lower);
    ld_text_put_known(t, "lift_upper", v->lift_upper);
    ld_text_put_known(t, "needed", v->needed);
    ld_text_put_number(t, "reach", v->reach);
    ld_text_put_string(t, "verdict", verdicts[v->verdict]);
    ld_text_put_string(t, "sentence", text);
    put_stop(t, &v->stop, verdicts[v->stop.verdict], stop);
}

static void put_differences(struct ld_text *t, const struct ld_experiment_view *v)
{
    ld_text_key(t, "differences");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < v->n_arms; i++) {
        if (i == v->baseline)
            continue;
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", v->arm[i].id);
        put_difference(t, v->arm[i].id, &v->difference[i], v->settings.difference);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_policy(struct ld_text *t, const struct ld_experiment_view *v)
{
    ld_text_key(t, "policy");
    if (!v->has_holdout) {
        ld_text_lit(t, "null");
        return;
    }
    ld_text_lit(t, "{");
    ld_text_put_number(t, "holdout", v->holdout);
    put_difference(t, "the policy", &v->policy, v->settings.difference);
    ld_text_lit(t, "}");
}

static void put_traffic(struct ld_text *t, const struct ld_experiment_view *v)
{
    ld_text_key(t, "traffic");
    ld_text_lit(t, "{");
    ld_text_put_number(t, "log10_e", v->traffic_log10_e);
    ld_text_put_number(t, "p_value", fmin(1, pow(10, -v->traffic_log10_e)));
    ld_text_put_bool(t, "void", v->is_void);
    put_moment(t, "alarm", v->void_seq, v->void_ms);
    ld_text_lit(t, "}");
}

/* --- metrics ------------------------------------------------------------------------------------------------- */

/* The members of a comparison of `name`. */
static void put_metric_difference(struct ld_text *t, const char *name, const struct ld_metric_settings *m,
                                  const struct ld_experiment_difference *v)
{
    char text[METRIC_ROOM], stop[METRIC_ROOM];

    say_metric(text, name, m, v->verdict, v->estimate);
    say_metric(stop, name, m, v->stop.verdict, v->stop.estimate);
    put_estimate(t, v);
    ld_text_put_string(t, "verdict", metric_verdicts[v->verdict]);
    ld_text_put_string(t, "sentence", text);
    put_stop(t, &v->stop, metric_verdicts[v->stop.verdict], stop);
}

static void put_metric_differences(struct ld_text *t, const struct ld_experiment_view *v,
                                   const struct ld_experiment_metric_view *m)
{
    ld_text_key(t, "differences");
    ld_text_lit(t, "[");
    for (size_t a = 0; a < v->n_arms; a++) {
        if (a == v->baseline)
            continue;
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", v->arm[a].id);
        put_metric_difference(t, v->arm[a].id, &m->settings, &m->difference[a]);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
    ld_text_key(t, "policy");
    if (v->has_metric_policies) {
        ld_text_lit(t, "{");
        put_metric_difference(t, "the policy", &m->settings, &m->policy);
        ld_text_lit(t, "}");
    } else {
        ld_text_lit(t, "null");
    }
}

static void put_metric_arms(struct ld_text *t, const struct ld_experiment_view *v,
                            const struct ld_experiment_metric_view *m)
{
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t a = 0; a < v->n_arms; a++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", v->arm[a].id);
        put_side(t, "policy", &m->side[a][LD_SIDE_POLICY]);
        put_side(t, "holdout", &m->side[a][LD_SIDE_HOLDOUT]);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_metric_statement(struct ld_text *t, const struct ld_metric_settings *m, double level, bool has_policy)
{
    char text[320];

    if (m->role == LD_GUARDRAIL)
        snprintf(
            text, sizeof text,
            "If the told propensities are right, the chance that some arm%s is ever said to harm it although it does "
            "not is at most %g %%, and so is the chance that one is ever said not to although it does.",
            has_policy ? ", or the policy," : "", 100 * m->level);
    else
        snprintf(text, sizeof text,
                 "If the told propensities are right, its intervals hold at every look with a chance of %g %%; of the "
                 "changes of all such metrics that are told at a look at most %g %% are none, on the average.",
                 100 * (1 - level), 100 * level);
    ld_text_put_string(t, "statement", text);
}

static void put_metric(struct ld_text *t, const struct ld_experiment_view *v, const struct ld_experiment_metric_view *m)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "metric", m->settings.name);
    ld_text_put_string(t, "role", kb_word(&ld_metric_role_words, (int)m->settings.role));
    ld_text_key(t, "range");
    ld_text_range(t, m->settings.low, m->settings.high);
    ld_text_put_known(t, "harm", m->settings.role == LD_GUARDRAIL ? m->settings.harm : (double)NAN);
    ld_text_put_count(t, "clipped", m->n_clipped);
    put_metric_arms(t, v, m);
    put_metric_differences(t, v, m);
    put_metric_statement(t, &m->settings, v->settings.level, v->has_metric_policies);
    ld_text_lit(t, "}");
}

static void put_metrics(struct ld_text *t, const struct ld_experiment_view *v)
{
    if (v->n_metrics == 0)
        return;
    ld_text_key(t, "metrics");
    ld_text_lit(t, "[");
    for (size_t m = 0; m < v->n_metrics; m++)
        put_metric(t, v, &v->metric[m]);
    ld_text_lit(t, "]");
    ld_text_key(t, "changes");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "tests", v->n_tests);
    ld_text_put_count(t, "found", v->is_void ? 0 : v->n_changes);
    ld_text_lit(t, "}");
}

static void put_running(struct ld_text *t, const struct ld_experiment_view *v)
{
    char statement[224];

    snprintf(
        statement, sizeof statement,
        "If the told propensities are right, the chance that any of these sentences is ever wrong, however often and "
        "whenever you look, is at most %g %%.",
        100 * v->settings.level);
    ld_text_lit(t, "{");
    put_moment(t, "since", v->since_seq, v->since_ms);
    ld_text_key(t, "settings");
    ld_text_experiment_settings(t, &v->settings);
    put_decisions(t, v);
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < v->n_arms; i++)
        put_arm(t, &v->arm[i]);
    ld_text_lit(t, "]");
    put_differences(t, v);
    put_policy(t, v);
    put_metrics(t, v);
    put_traffic(t, v);
    ld_text_put_string(t, "statement", statement);
    ld_text_put_string(t, "betting_odds",
                       "p_best and expected_loss are present betting odds: good for choosing what to show, not for "
                       "declaring a winner.");
    ld_text_put_string(t, "advice",
                       v->is_slow
                           ? "The rule shows some arm rarely, so a verdict takes long: for a verdict use a split "
                             "or an epsilon of 0.3."
                           : NULL);
    ld_text_lit(t, "}");
}

void ld_say_experiment(const struct ld_experiment_view *v, char out[LD_SENTENCE_BYTES])
{
    size_t best = v->baseline, first = v->baseline, n_over = 0;

    for (size_t i = 0; i < v->n_arms; i++) {
        const struct ld_experiment_difference *d = &v->difference[i];
        if (i == v->baseline)
            continue;
        n_over += d->verdict != KB_GO_ON;
        if (first == v->baseline)
            first = i;
        if (d->verdict == KB_BETTER && (best == v->baseline || d->estimate > v->difference[best].estimate))
            best = i;
    }
    if (v->is_void || (best == v->baseline && n_over + 1 < v->n_arms))
        say(out, "", v->is_void ? KB_VOID : KB_GO_ON, 0, 0, 0);
    else
        say_difference(out, v->arm[best != v->baseline ? best : first].id,
                       &v->difference[best != v->baseline ? best : first], v->settings.difference);
}

char *ld_encode_experiment(const struct ld_experiment_view *v, size_t *n)
{
    struct ld_text t;

    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_count(&t, "seq", v->seq);
    ld_text_put_string(&t, "state", states[v->state]);
    ld_text_put_string(&t, "why", v->state != LD_EXPERIMENT_RUNS ? reasons[v->state] : NULL);
    ld_text_key(&t, "experiment");
    if (v->state == LD_EXPERIMENT_RUNS)
        put_running(&t, v);
    else
        ld_text_lit(&t, "null");
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
