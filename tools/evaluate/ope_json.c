/* Evaluations as JSON: see ope_report.h and docs/REPLAY.md. For one policy its members stand at the top. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/ope_report.h"
#include "json/json_out.h" /* and with it the server's text.h */

/* A string that may quote a file, which may be of any bytes: what is not UTF-8 becomes U+FFFD. */
static void put_quoted(struct lc_text *t, const char *s)
{
    struct ld_text quoted;
    size_t n;

    ld_text_init(&quoted);
    ld_text_string(&quoted, s);
    char *text = ld_text_take(&quoted, &n);
    if (text == NULL)
        lc_out_of_memory(1, strlen(s));
    lc_text_put(t, text, n);
    free(text);
}

static void put_text(struct lc_text *t, const char *key, const char *s)
{
    lc_put_key(t, key);
    put_quoted(t, s);
}

static void open_member(struct lc_text *t, const char *key)
{
    lc_put_key(t, key);
    lc_text_puts(t, "{");
}

/* Counts are below 1e15, where they print as whole numbers; null for what is not finite. */
static void put_numbers(struct lc_text *t, const char *key, const double *v, size_t n)
{
    lc_put_key(t, key);
    lc_text_puts(t, "[");
    for (size_t i = 0; i < n; i++) {
        lc_text_puts(t, i > 0 ? "," : "");
        if (isfinite(v[i]))
            lc_text_number(t, v[i]);
        else
            lc_text_puts(t, "null");
    }
    lc_text_puts(t, "]");
}

static void put_interval(struct lc_text *t, struct lc_interval v)
{
    lc_put_number(t, "lower", v.lower);
    lc_put_number(t, "upper", v.upper);
}

static void put_estimate(struct lc_text *t, const char *key, const struct lc_ope_estimate *e)
{
    open_member(t, key);
    if (e->refused[0] != '\0') {
        put_text(t, "refused", e->refused);
    } else {
        lc_put_number(t, "estimate", e->value);
        put_interval(t, e->interval);
        lc_put_number(t, "standard_error", e->error);
        lc_put_text(t, "interval", e->is_bootstrap ? "bootstrap" : "bernstein");
        open_member(t, "bernstein");
        put_interval(t, e->bernstein);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "}");
}

static void put_skipped(struct lc_text *t, const struct lc_log *log)
{
    open_member(t, "skipped");
    lc_put_count(t, "faulty", log->n_bad);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && log->skipped[i].reason != NULL; i++)
        lc_put_count(t, log->skipped[i].reason, log->skipped[i].n);
    lc_text_puts(t, "}");
}

static void put_warning(void *arg, const char *text)
{
    struct lc_text *t = arg;

    lc_text_puts(t, t->data[t->n - 1] == '[' ? "" : ",");
    put_quoted(t, text);
}

static void put_histogram(struct lc_text *t, const struct lc_trace *trace)
{
    double edge[LC_TRACE_BINS + 1], count[LC_TRACE_BINS];
    size_t from = 0, to = LC_TRACE_BINS;

    while (from < LC_TRACE_BINS && trace->count[from] == 0)
        from++;
    while (to > from && trace->count[to - 1] == 0)
        to--;
    for (size_t i = 0; i <= to - from; i++)
        edge[i] = lc_trace_edge(from + i);
    for (size_t i = 0; i < to - from; i++)
        count[i] = (double)trace->count[from + i];
    open_member(t, "histogram");
    lc_put_count(t, "zero", trace->n_zero);
    put_numbers(t, "edges", edge, to > from ? to - from + 1 : 0);
    put_numbers(t, "counts", count, to - from);
    put_numbers(t, "mass", trace->mass + from, to - from);
    lc_text_puts(t, "}");
}

/* Weights are those of the whole log, whether or not the estimates were refused for them. */
static void put_weights(struct lc_text *t, const struct lc_ope_result *r, const struct lc_ope_options *o)
{
    open_member(t, "weights");
    lc_put_number(t, "mean", r->mean_weight);
    lc_put_number(t, "mean_error", r->mean_weight_error);
    lc_put_number(t, "mean_rounding", r->rounding);
    lc_put_number(t, "max", r->max_weight);
    lc_put_number(t, "clip", o->clip);
    lc_put_number(t, "clipped_mean", r->clipped_mean);
    lc_put_count(t, "clipped", r->n_clipped);
    if (r->trace.n_begun > 0)
        put_histogram(t, &r->trace);
    lc_text_puts(t, "}");
}

static void put_course(struct lc_text *t, const char *key, const struct lc_trace_point *point, size_t n)
{
    double column[3][LC_TRACE_PARTS];

    for (size_t i = 0; i < n; i++) {
        column[0][i] = point[i].value;
        column[1][i] = point[i].is_bounded ? point[i].interval.lower : (double)NAN;
        column[2][i] = point[i].is_bounded ? point[i].interval.upper : (double)NAN;
    }
    open_member(t, key);
    put_numbers(t, "estimate", column[0], n);
    put_numbers(t, "lower", column[1], n);
    put_numbers(t, "upper", column[2], n);
    lc_text_puts(t, "}");
}

static void put_series(struct lc_text *t, const struct lc_report_entry *e)
{
    const struct lc_trace *trace = &e->result.trace;
    const size_t n = trace->n_parts;
    double from[LC_TRACE_PARTS], events[LC_TRACE_PARTS], at_ms[LC_TRACE_PARTS];

    for (size_t i = 0; i < n; i++) {
        from[i] = (double)trace->from[i];
        events[i] = (double)(trace->from[i + 1] - trace->from[i]);
        at_ms[i] = trace->at_ms[i] != 0 ? (double)trace->at_ms[i] : (double)NAN;
    }
    open_member(t, "series");
    put_numbers(t, "from", from, n);
    put_numbers(t, "events", events, n);
    put_numbers(t, "at_ms", at_ms, n);
    for (int c = 0; c < LC_COURSE_N; c++)
        if (e->has_course[c])
            put_course(t, lc_report_course_name(c), e->course[c], n);
        else
            lc_put_number(t, lc_report_course_name(c), (double)NAN);
    lc_text_puts(t, "}");
}

static void put_shares(struct lc_text *t, const struct lc_report_entry *e)
{
    const struct lc_trace *trace = &e->result.trace;
    const double n = (double)e->result.n;
    uint32_t arm[LC_REPORT_ARMS];
    const size_t n_arms = lc_report_arms(e, arm, LC_REPORT_ARMS);
    double shown = n, target = 0;

    for (size_t i = 0; i < trace->cap; i++)
        target += trace->arm[i].target;
    open_member(t, "shares");
    lc_put_key(t, "arms");
    lc_text_puts(t, "[");
    for (size_t i = 0; i < n_arms; i++) {
        const struct lc_trace_arm *a = &trace->arm[arm[i]];
        lc_text_puts(t, i > 0 ? ",{" : "{");
        put_text(t, "arm", kb_ids_str(&e->log.arms, arm[i]));
        lc_put_number(t, "logged", (double)a->shown / n);
        lc_put_number(t, "target", a->target / n);
        lc_text_puts(t, "}");
        shown -= (double)a->shown;
        target -= a->target;
    }
    lc_text_puts(t, "]");
    open_member(t, "others");
    lc_put_count(t, "arms", e->log.arms.n - n_arms);
    lc_put_number(t, "logged", shown / n);
    lc_put_number(t, "target", n_arms < e->log.arms.n ? target / n : 0);
    lc_text_puts(t, "}}");
}

static void put_differences(struct lc_text *t, const bool *has, const struct lc_ope_difference *d)
{
    for (int i = 0; i < LC_OPE_N; i++) {
        if (!has[i])
            continue;
        open_member(t, lc_ope_name(i));
        lc_put_number(t, "estimate", d[i].value);
        put_interval(t, d[i].is_bounded ? d[i].interval : (struct lc_interval){(double)NAN, (double)NAN});
        lc_text_puts(t, "}");
    }
}

static void put_entry(struct lc_text *t, const struct lc_report_entry *e, const struct lc_ope_options *o)
{
    const struct lc_ope_result *r = &e->result;

    lc_put_count(t, "n", r->n);
    lc_put_count(t, "arms", r->n_arms);
    lc_put_number(t, "ess", r->ess);
    lc_put_text(t, "policy", e->policy->ops->name);
    lc_put_text(t, "format", e->log.ops->name);
    put_text(t, "name", e->name);
    for (int i = 0; i < LC_OPE_N; i++)
        put_estimate(t, lc_ope_name(i), &r->estimate[i]);
    put_estimate(t, "logged", &r->logged);
    open_member(t, "gain");
    put_differences(t, e->has_gain, e->gain);
    lc_text_puts(t, "}");
    put_weights(t, r, o);
    lc_put_number(t, "unsupported", r->unsupported);
    lc_put_count(t, "missing_propensities", r->n_missing);
    lc_put_number(t, "min_propensity", r->min_propensity);
    lc_put_number(t, "max_propensity", r->max_propensity);
    lc_put_count(t, "accepted", r->n_accepted);
    lc_put_number(t, "acceptance", r->acceptance);
    lc_put_number(t, "reward_lower", r->reward_lo);
    lc_put_number(t, "reward_upper", r->reward_hi);
    lc_put_number(t, "level", o->level);
    lc_put_count(t, "resamples", o->n_resamples);
    lc_put_count(t, "seed", o->seed);
    put_skipped(t, &e->log);
    lc_put_key(t, "warnings");
    lc_text_puts(t, "[");
    lc_ope_warnings(r, &e->log, put_warning, t);
    lc_text_puts(t, "]");
    put_series(t, e);
    if (r->trace.n_begun > 0)
        put_shares(t, e);
    open_member(t, "cpu_seconds");
    lc_put_number(t, "survey", r->seconds[LC_OPE_SURVEY]);
    lc_put_number(t, "estimates", r->seconds[LC_OPE_JUDGE]);
    lc_put_number(t, "intervals", r->seconds[LC_OPE_INTERVALS]);
    lc_text_puts(t, "}");
}

static void put_origin(struct lc_text *t, const struct lc_report *r)
{
    open_member(t, "parameters");
    for (size_t i = 0; i < r->n_parameters; i++) {
        const struct lc_report_parameter *p = &r->parameter[i];
        if (p->text == NULL)
            lc_put_number(t, p->name, p->number);
        else
            put_text(t, p->name, p->text);
    }
    lc_text_puts(t, "},\"files\":[");
    for (size_t i = 0; i < r->n_files; i++) {
        lc_text_puts(t, i > 0 ? ",{" : "{");
        lc_put_text(t, "role", r->file[i].role);
        put_text(t, "name", r->file[i].name);
        lc_put_count(t, "bytes", r->file[i].bytes);
        lc_put_text(t, "sha256", r->file[i].sha256);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "]");
}

void lc_report_json(const struct lc_report *r, struct lc_text *t)
{
    lc_text_puts(t, "{");
    if (r->n == 1) {
        put_entry(t, r->entry, r->o);
    } else {
        lc_text_puts(t, "\"policies\":[");
        for (size_t i = 0; i < r->n; i++) {
            lc_text_puts(t, i > 0 ? ",{" : "{");
            put_entry(t, &r->entry[i], r->o);
            lc_text_puts(t, "}");
        }
        lc_text_puts(t, "],\"differences\":[");
        for (size_t i = 1; i < r->n; i++) {
            lc_text_puts(t, i > 1 ? ",{" : "{");
            put_text(t, "policy", r->entry[i].name);
            put_text(t, "against", r->entry[0].name);
            put_differences(t, r->entry[i].has_difference, r->entry[i].difference);
            lc_text_puts(t, "}");
        }
        lc_text_puts(t, "]");
    }
    put_origin(t, r);
    lc_text_puts(t, "}");
}
