/* Evaluations as JSON: see ope_report.h and docs/REPLAY.md. For one policy its members stand at the top. */
#include <math.h>

#include "evaluate/ope_report.h"

/* null for what is not finite. */
static void put_number(struct ld_text *t, const char *key, double x)
{
    if (isfinite(x))
        ld_text_put_number(t, key, x);
    else
        ld_text_put_string(t, key, NULL);
}

static void open_member(struct ld_text *t, const char *key)
{
    ld_text_key(t, key);
    ld_text_lit(t, "{");
}

/* Counts are below 1e15, where they print as whole numbers; null for what is not finite. */
static void put_numbers(struct ld_text *t, const char *key, const double *v, size_t n)
{
    ld_text_key(t, key);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        if (isfinite(v[i]))
            ld_text_number(t, v[i]);
        else
            ld_text_lit(t, "null");
    }
    ld_text_lit(t, "]");
}

static void put_interval(struct ld_text *t, struct ld_ope_interval v)
{
    put_number(t, "lower", v.lower);
    put_number(t, "upper", v.upper);
}

static void put_estimate(struct ld_text *t, const char *key, const struct ld_ope_estimate *e)
{
    open_member(t, key);
    if (e->refused[0] != '\0') {
        ld_text_put_string(t, "refused", e->refused);
    } else {
        put_number(t, "estimate", e->value);
        put_interval(t, e->interval);
        put_number(t, "standard_error", e->error);
        ld_text_put_string(t, "interval", e->is_bootstrap ? "bootstrap" : "bernstein");
        open_member(t, "bernstein");
        put_interval(t, e->bernstein);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "}");
}

static void put_skipped(struct ld_text *t, const struct ld_decisions *log)
{
    open_member(t, "skipped");
    ld_text_put_count(t, "faulty", log->n_bad);
    for (size_t i = 0; i < LD_DECISIONS_REASONS && log->skipped[i].reason != NULL; i++)
        ld_text_put_count(t, log->skipped[i].reason, log->skipped[i].n);
    ld_text_lit(t, "}");
}

static void put_warning(void *arg, const char *text)
{
    struct ld_text *t = arg;

    ld_text_item(t);
    ld_text_string(t, text);
}

static void put_histogram(struct ld_text *t, const struct ld_ope_trace *trace)
{
    double edge[LD_OPE_TRACE_BINS + 1], count[LD_OPE_TRACE_BINS];
    size_t from = 0, to = LD_OPE_TRACE_BINS;

    while (from < LD_OPE_TRACE_BINS && trace->count[from] == 0)
        from++;
    while (to > from && trace->count[to - 1] == 0)
        to--;
    for (size_t i = 0; i <= to - from; i++)
        edge[i] = ld_ope_trace_edge(from + i);
    for (size_t i = 0; i < to - from; i++)
        count[i] = (double)trace->count[from + i];
    open_member(t, "histogram");
    ld_text_put_count(t, "zero", trace->n_zero);
    put_numbers(t, "edges", edge, to > from ? to - from + 1 : 0);
    put_numbers(t, "counts", count, to - from);
    put_numbers(t, "mass", trace->mass + from, to - from);
    ld_text_lit(t, "}");
}

/* Weights are those of the whole log, whether or not the estimates were refused for them. */
static void put_weights(struct ld_text *t, const struct ld_ope_result *r, const struct ld_ope_options *o)
{
    open_member(t, "weights");
    put_number(t, "mean", r->mean_weight);
    put_number(t, "mean_error", r->mean_weight_error);
    put_number(t, "mean_rounding", r->rounding);
    put_number(t, "max", r->max_weight);
    put_number(t, "clip", o->clip);
    put_number(t, "clipped_mean", r->clipped_mean);
    ld_text_put_count(t, "clipped", r->n_clipped);
    if (r->trace.n_begun > 0)
        put_histogram(t, &r->trace);
    ld_text_lit(t, "}");
}

static void put_course(struct ld_text *t, const char *key, const struct ld_ope_trace_point *point, size_t n)
{
    double column[3][LD_OPE_TRACE_PARTS];

    for (size_t i = 0; i < n; i++) {
        column[0][i] = point[i].value;
        column[1][i] = point[i].is_bounded ? point[i].interval.lower : (double)NAN;
        column[2][i] = point[i].is_bounded ? point[i].interval.upper : (double)NAN;
    }
    open_member(t, key);
    put_numbers(t, "estimate", column[0], n);
    put_numbers(t, "lower", column[1], n);
    put_numbers(t, "upper", column[2], n);
    ld_text_lit(t, "}");
}

static void put_series(struct ld_text *t, const struct ld_ope_report_entry *e)
{
    const struct ld_ope_trace *trace = &e->result.trace;
    const size_t n = trace->n_parts;
    double from[LD_OPE_TRACE_PARTS], events[LD_OPE_TRACE_PARTS], at_ms[LD_OPE_TRACE_PARTS];

    for (size_t i = 0; i < n; i++) {
        from[i] = (double)trace->from[i];
        events[i] = (double)(trace->from[i + 1] - trace->from[i]);
        at_ms[i] = trace->at_ms[i] != 0 ? (double)trace->at_ms[i] : (double)NAN;
    }
    open_member(t, "series");
    put_numbers(t, "from", from, n);
    put_numbers(t, "events", events, n);
    put_numbers(t, "at_ms", at_ms, n);
    for (int c = 0; c < LD_OPE_COURSE_N; c++)
        if (e->has_course[c])
            put_course(t, ld_ope_report_course_name(c), e->course[c], n);
        else
            put_number(t, ld_ope_report_course_name(c), (double)NAN);
    ld_text_lit(t, "}");
}

static void put_shares(struct ld_text *t, const struct ld_ope_report_entry *e)
{
    const struct ld_ope_trace *trace = &e->result.trace;
    const double n = (double)e->result.n;
    uint32_t arm[LD_OPE_REPORT_ARMS];
    const size_t n_arms = ld_ope_report_arms(e, arm, LD_OPE_REPORT_ARMS);
    double shown = n, target = 0;

    for (size_t i = 0; i < trace->cap; i++)
        target += trace->arm[i].target;
    open_member(t, "shares");
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n_arms; i++) {
        const struct ld_ope_trace_arm *a = &trace->arm[arm[i]];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", kb_ids_str(&e->log->arms, arm[i]));
        put_number(t, "logged", (double)a->shown / n);
        put_number(t, "target", a->target / n);
        ld_text_lit(t, "}");
        shown -= (double)a->shown;
        target -= a->target;
    }
    ld_text_lit(t, "]");
    open_member(t, "others");
    ld_text_put_count(t, "arms", e->log->arms.n - n_arms);
    put_number(t, "logged", shown / n);
    put_number(t, "target", n_arms < e->log->arms.n ? target / n : 0);
    ld_text_lit(t, "}}");
}

static void put_differences(struct ld_text *t, const bool *has, const struct ld_ope_difference *d)
{
    for (int i = 0; i < LD_OPE_N; i++) {
        if (!has[i])
            continue;
        open_member(t, ld_ope_name(i));
        put_number(t, "estimate", d[i].value);
        put_interval(t, d[i].is_bounded ? d[i].interval : (struct ld_ope_interval){(double)NAN, (double)NAN});
        ld_text_lit(t, "}");
    }
}

static void put_entry(struct ld_text *t, const struct ld_ope_report_entry *e, const struct ld_ope_options *o)
{
    const struct ld_ope_result *r = &e->result;

    ld_text_put_count(t, "n", r->n);
    ld_text_put_count(t, "arms", r->n_arms);
    put_number(t, "ess", r->ess);
    ld_text_put_string(t, "policy", e->policy->ops->name);
    ld_text_put_string(t, "format", e->log->format);
    ld_text_put_string(t, "name", e->name);
    for (int i = 0; i < LD_OPE_N; i++)
        put_estimate(t, ld_ope_name(i), &r->estimate[i]);
    put_estimate(t, "logged", &r->logged);
    put_estimate(t, "logged_total", &r->logged_total);
    ld_text_put_count(t, "most_slots", r->slots.most);
    open_member(t, "gain");
    put_differences(t, e->has_gain, e->gain);
    ld_text_lit(t, "}");
    put_weights(t, r, o);
    put_number(t, "unsupported", r->unsupported);
    ld_text_put_count(t, "missing_propensities", r->n_missing);
    put_number(t, "min_propensity", r->min_propensity);
    put_number(t, "max_propensity", r->max_propensity);
    ld_text_put_count(t, "accepted", r->n_accepted);
    put_number(t, "acceptance", r->acceptance);
    put_number(t, "reward_lower", r->reward_lo);
    put_number(t, "reward_upper", r->reward_hi);
    put_number(t, "level", o->level);
    ld_text_put_count(t, "resamples", o->n_resamples);
    ld_text_put_count(t, "seed", o->seed);
    put_skipped(t, e->log);
    ld_text_key(t, "warnings");
    ld_text_lit(t, "[");
    ld_ope_warnings(r, e->log, put_warning, t);
    ld_text_lit(t, "]");
    put_series(t, e);
    if (r->trace.n_begun > 0)
        put_shares(t, e);
    open_member(t, "cpu_seconds");
    put_number(t, "survey", r->seconds[LD_OPE_SURVEY]);
    put_number(t, "estimates", r->seconds[LD_OPE_JUDGE]);
    put_number(t, "intervals", r->seconds[LD_OPE_INTERVALS]);
    ld_text_lit(t, "}");
}

static void put_origin(struct ld_text *t, const struct ld_ope_report *r)
{
    open_member(t, "parameters");
    for (size_t i = 0; i < r->n_parameters; i++) {
        const struct ld_ope_report_parameter *p = &r->parameter[i];
        if (p->text == NULL)
            put_number(t, p->name, p->number);
        else
            ld_text_put_string(t, p->name, p->text);
    }
    ld_text_lit(t, "},\"files\":[");
    for (size_t i = 0; i < r->n_files; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "role", r->file[i].role);
        ld_text_put_string(t, "name", r->file[i].name);
        ld_text_put_count(t, "bytes", r->file[i].bytes);
        ld_text_put_string(t, "sha256", r->file[i].sha256);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

void ld_ope_report_json(const struct ld_ope_report *r, struct ld_text *t)
{
    ld_text_lit(t, "{");
    if (r->n == 1) {
        put_entry(t, r->entry, r->o);
    } else {
        ld_text_lit(t, "\"policies\":[");
        for (size_t i = 0; i < r->n; i++) {
            ld_text_item(t);
            ld_text_lit(t, "{");
            put_entry(t, &r->entry[i], r->o);
            ld_text_lit(t, "}");
        }
        ld_text_lit(t, "],\"differences\":[");
        for (size_t i = 1; i < r->n; i++) {
            ld_text_item(t);
            ld_text_lit(t, "{");
            ld_text_put_string(t, "policy", r->entry[i].name);
            ld_text_put_string(t, "against", r->entry[0].name);
            put_differences(t, r->entry[i].has_difference, r->entry[i].difference);
            ld_text_lit(t, "}");
        }
        ld_text_lit(t, "]");
    }
    put_origin(t, r);
    ld_text_lit(t, "}");
}
