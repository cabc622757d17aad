/* Evaluations as JSON: see ope_report.h and docs/REPLAY.md. For one policy its members stand at the top. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_out.h" /* and with it the server's text.h */
#include "evaluate/ope_report.h"

/* A string that may quote a file, which may be of any bytes: what is not UTF-8 becomes U+FFFD. */
static void put_text(struct lc_text *t, const char *s)
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

/* ,"key":value; null for what is not finite. */
static void put_number(struct lc_text *t, const char *key, double v)
{
    lc_text_printf(t, "%s\"%s\":", t->data[t->n - 1] == '{' ? "" : ",", key);
    if (isfinite(v))
        lc_text_number(t, v);
    else
        lc_text_puts(t, "null");
}

static void put_count(struct lc_text *t, const char *key, size_t v)
{
    lc_text_printf(t, "%s\"%s\":%zu", t->data[t->n - 1] == '{' ? "" : ",", key, v);
}

static void put_estimate(struct lc_text *t, const char *key, const struct lc_ope_estimate *e)
{
    lc_text_printf(t, ",\"%s\":{", key);
    if (e->refused[0] != '\0') {
        lc_text_puts(t, "\"refused\":");
        put_text(t, e->refused);
    } else {
        put_number(t, "estimate", e->value);
        put_number(t, "lower", e->interval.lower);
        put_number(t, "upper", e->interval.upper);
        put_number(t, "standard_error", e->error);
        lc_text_printf(t, ",\"interval\":\"%s\"", e->is_bootstrap ? "bootstrap" : "bernstein");
        lc_text_puts(t, ",\"bernstein\":{");
        put_number(t, "lower", e->bernstein.lower);
        put_number(t, "upper", e->bernstein.upper);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "}");
}

static void put_skipped(struct lc_text *t, const struct lc_log *log)
{
    lc_text_puts(t, ",\"skipped\":{");
    put_count(t, "faulty", log->n_bad);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && log->skipped[i].reason != NULL; i++) {
        lc_text_puts(t, ",");
        lc_text_json(t, log->skipped[i].reason);
        lc_text_printf(t, ":%zu", log->skipped[i].n);
    }
    lc_text_puts(t, "}");
}

struct list {
    struct lc_text *t;
    size_t n;
};

static void put_warning(void *arg, const char *text)
{
    struct list *list = arg;

    lc_text_puts(list->t, list->n++ > 0 ? "," : "");
    put_text(list->t, text);
}

/* From the first bin that has any to the last. */
static void put_histogram(struct lc_text *t, const struct lc_trace *trace)
{
    size_t from = 0, to = LC_TRACE_BINS;

    while (from < LC_TRACE_BINS && trace->count[from] == 0)
        from++;
    while (to > from && trace->count[to - 1] == 0)
        to--;
    lc_text_printf(t, ",\"histogram\":{\"zero\":%zu,\"edges\":[", trace->n_zero);
    for (size_t i = from; to > from && i <= to; i++) {
        lc_text_puts(t, i > from ? "," : "");
        lc_text_number(t, lc_trace_edge(i));
    }
    lc_text_puts(t, "],\"counts\":[");
    for (size_t i = from; i < to; i++)
        lc_text_printf(t, "%s%zu", i > from ? "," : "", trace->count[i]);
    lc_text_puts(t, "],\"mass\":");
    lc_text_vector(t, trace->mass + from, to - from);
    lc_text_puts(t, "}");
}

/* Weights are those of the whole log, whether or not the estimates were refused for them. */
static void put_weights(struct lc_text *t, const struct lc_ope_result *r, const struct lc_ope_options *o)
{
    lc_text_puts(t, ",\"weights\":{");
    put_number(t, "mean", r->mean_weight);
    put_number(t, "mean_error", r->mean_weight_error);
    put_number(t, "mean_rounding", r->rounding);
    put_number(t, "max", r->max_weight);
    put_number(t, "clip", o->clip);
    put_number(t, "clipped_mean", r->clipped_mean);
    put_count(t, "clipped", r->n_clipped);
    if (r->trace.n_begun > 0)
        put_histogram(t, &r->trace);
    lc_text_puts(t, "}");
}

/* ,"key":[...] of one of the three numbers of a course's points, null where there is none. */
static void put_column(struct lc_text *t, const char *key, const struct lc_trace_point *point, size_t n, int which)
{
    lc_text_printf(t, "%s\"%s\":[", which > 0 ? "," : "", key);
    for (size_t i = 0; i < n; i++) {
        const struct lc_trace_point *p = &point[i];
        const double v = which == 0 ? p->value : which == 1 ? p->interval.lower : p->interval.upper;
        lc_text_puts(t, i > 0 ? "," : "");
        if (isfinite(v) && (which == 0 || p->is_bounded))
            lc_text_number(t, v);
        else
            lc_text_puts(t, "null");
    }
    lc_text_puts(t, "]");
}

static void put_series(struct lc_text *t, const struct lc_report_entry *e)
{
    const struct lc_trace *trace = &e->result.trace;
    const size_t n = trace->n_parts;

    lc_text_puts(t, ",\"series\":{\"from\":[");
    for (size_t i = 0; i < n; i++)
        lc_text_printf(t, "%s%zu", i > 0 ? "," : "", trace->from[i]);
    lc_text_puts(t, "],\"events\":[");
    for (size_t i = 0; i < n; i++)
        lc_text_printf(t, "%s%zu", i > 0 ? "," : "", trace->from[i + 1] - trace->from[i]);
    lc_text_puts(t, "],\"at_ms\":[");
    for (size_t i = 0; i < n; i++)
        if (trace->at_ms[i] != 0)
            lc_text_printf(t, "%s%lld", i > 0 ? "," : "", (long long)trace->at_ms[i]);
        else
            lc_text_printf(t, "%snull", i > 0 ? "," : "");
    lc_text_puts(t, "]");
    for (int c = 0; c < LC_COURSE_N; c++) {
        lc_text_printf(t, ",\"%s\":", lc_report_course_name(c));
        if (!e->has_course[c]) {
            lc_text_puts(t, "null");
            continue;
        }
        lc_text_puts(t, "{");
        put_column(t, "estimate", e->course[c], n, 0);
        put_column(t, "lower", e->course[c], n, 1);
        put_column(t, "upper", e->course[c], n, 2);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "}");
}

/* Both shares of the arms shown or wanted most, and of all others together. */
static void put_shares(struct lc_text *t, const struct lc_report_entry *e)
{
    const struct lc_trace *trace = &e->result.trace;
    const double n = (double)e->result.n;
    uint32_t arm[LC_REPORT_ARMS];
    const size_t n_arms = lc_report_arms(e, arm, LC_REPORT_ARMS);
    double shown = n, target = 0;

    for (size_t i = 0; i < trace->cap; i++)
        target += trace->arm[i].target;
    lc_text_puts(t, ",\"shares\":{\"arms\":[");
    for (size_t i = 0; i < n_arms; i++) {
        const struct lc_trace_arm *a = &trace->arm[arm[i]];
        lc_text_puts(t, i > 0 ? ",{\"arm\":" : "{\"arm\":");
        put_text(t, kb_ids_str(&e->log.arms, arm[i]));
        put_number(t, "logged", (double)a->shown / n);
        put_number(t, "target", a->target / n);
        lc_text_puts(t, "}");
        shown -= (double)a->shown;
        target -= a->target;
    }
    lc_text_puts(t, "],\"others\":{");
    put_count(t, "arms", e->log.arms.n - n_arms);
    put_number(t, "logged", shown / n);
    put_number(t, "target", n_arms < e->log.arms.n ? target / n : 0);
    lc_text_puts(t, "}}");
}

static void put_differences(struct lc_text *t, const bool *has, const struct lc_ope_difference *d)
{
    for (int i = 0; i < LC_OPE_N; i++) {
        if (!has[i])
            continue;
        lc_text_printf(t, "%s\"%s\":{", t->data[t->n - 1] == '{' ? "" : ",", lc_ope_name(i));
        put_number(t, "estimate", d[i].value);
        put_number(t, "lower", d[i].is_bounded ? d[i].interval.lower : (double)NAN);
        put_number(t, "upper", d[i].is_bounded ? d[i].interval.upper : (double)NAN);
        lc_text_puts(t, "}");
    }
}

static void put_warnings(struct lc_text *t, const struct lc_report_entry *e)
{
    struct list warnings = {t, 0};

    lc_text_puts(t, ",\"warnings\":[");
    lc_ope_warnings(&e->result, &e->log, put_warning, &warnings);
    lc_text_puts(t, "]");
}

static void put_propensities(struct lc_text *t, const struct lc_ope_result *r)
{
    put_number(t, "unsupported", r->unsupported);
    put_count(t, "missing_propensities", r->n_missing);
    put_number(t, "min_propensity", r->min_propensity);
    put_number(t, "max_propensity", r->max_propensity);
    put_count(t, "accepted", r->n_accepted);
    put_number(t, "acceptance", r->acceptance);
    put_number(t, "reward_lower", r->reward_lo);
    put_number(t, "reward_upper", r->reward_hi);
}

/* Members of one evaluation. */
static void put_entry(struct lc_text *t, const struct lc_report_entry *e, const struct lc_ope_options *o)
{
    const struct lc_ope_result *r = &e->result;

    put_count(t, "n", r->n);
    put_count(t, "arms", r->n_arms);
    put_number(t, "ess", r->ess);
    lc_text_printf(t, ",\"policy\":\"%s\",\"format\":\"%s\",\"name\":", e->policy->ops->name, e->log.ops->name);
    put_text(t, e->name);
    for (int i = 0; i < LC_OPE_N; i++)
        put_estimate(t, lc_ope_name(i), &r->estimate[i]);
    put_estimate(t, "logged", &r->logged);
    lc_text_puts(t, ",\"gain\":{");
    put_differences(t, e->has_gain, e->gain);
    lc_text_puts(t, "}");
    put_weights(t, r, o);
    put_propensities(t, r);
    put_number(t, "level", o->level);
    put_count(t, "resamples", o->n_resamples);
    put_count(t, "seed", (size_t)o->seed);
    put_skipped(t, &e->log);
    put_warnings(t, e);
    put_series(t, e);
    if (r->trace.n_begun > 0)
        put_shares(t, e);
    lc_text_puts(t, ",\"cpu_seconds\":{");
    put_number(t, "survey", r->seconds[LC_OPE_SURVEY]);
    put_number(t, "estimates", r->seconds[LC_OPE_JUDGE]);
    put_number(t, "intervals", r->seconds[LC_OPE_INTERVALS]);
    lc_text_puts(t, "}");
}

/* What went in, so that the report can be made again. */
static void put_origin(struct lc_text *t, const struct lc_report *r)
{
    lc_text_puts(t, ",\"parameters\":{");
    for (size_t i = 0; i < r->n_parameters; i++) {
        const struct lc_report_parameter *p = &r->parameter[i];
        if (p->text == NULL) {
            put_number(t, p->name, p->number);
            continue;
        }
        lc_text_printf(t, "%s\"%s\":", i > 0 ? "," : "", p->name);
        put_text(t, p->text);
    }
    lc_text_puts(t, "},\"files\":[");
    for (size_t i = 0; i < r->n_files; i++) {
        lc_text_printf(t, "%s{\"role\":\"%s\",\"name\":", i > 0 ? "," : "", r->file[i].role);
        put_text(t, r->file[i].name);
        lc_text_printf(t, ",\"bytes\":%llu,\"sha256\":\"%s\"}", r->file[i].bytes, r->file[i].sha256);
    }
    lc_text_puts(t, "]");
}

static void put_comparison(struct lc_text *t, const struct lc_report *r, const struct lc_report_entry *e)
{
    lc_text_puts(t, "{\"policy\":");
    put_text(t, e->name);
    lc_text_puts(t, ",\"against\":");
    put_text(t, r->entry[0].name);
    put_differences(t, e->has_difference, e->difference);
    lc_text_puts(t, "}");
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
            lc_text_puts(t, i > 1 ? "," : "");
            put_comparison(t, r, &r->entry[i]);
        }
        lc_text_puts(t, "]");
    }
    put_origin(t, r);
    lc_text_puts(t, "}");
}
