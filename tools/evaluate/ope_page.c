/* A report as one page that needs nothing else: no script, no font, no picture from elsewhere. It is HTML, and
 * well-formed XML. Drawings stand with a table of their numbers (ope_plots.h); names that come out of files are
 * escaped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/ope_plots.h"
#include "evaluate/svg.h"
#include "common/text.h"

#define MAX_ROWS 160

static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n"
    "<style>:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;"
    "padding:0 1em;color:#222;background:#fff}h2{margin-top:2em}table{border-collapse:collapse;margin:.8em 0;"
    "display:block;overflow-x:auto}caption{text-align:left;font-weight:600}th,td{padding:.15em .8em .15em 0;"
    "text-align:left;border-bottom:1px solid #ddd;unicode-bidi:isolate;font-variant-numeric:tabular-nums}"
    ".warning{border-left:4px solid #b04a00;padding-left:.8em}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}th,td{border-color:#3a3a3a}}</style>\n";

/* --- pieces ------------------------------------------------------------------------------------------- */

static void put_tagged(struct lc_text *t, const char *tag, const char *text)
{
    lc_text_printf(t, "<%s>", tag);
    lc_xml_put(t, text, 0);
    lc_text_printf(t, "</%s>", tag);
}

static void put_cell(struct lc_text *t, double v)
{
    if (isfinite(v))
        lc_text_printf(t, "<td>%.6g</td>", v);
    else
        lc_text_puts(t, "<td>\xe2\x80\x93</td>");
}

static void put_count_cell(struct lc_text *t, size_t v)
{
    lc_text_printf(t, "<td>%zu</td>", v);
}

/* columns: "one|two|three". */
static void open_table(struct lc_text *t, const char *id, const char *caption, const char *columns)
{
    lc_text_printf(t, "<table id=\"%s\"><caption>%s</caption><thead><tr><th scope=\"col\">", id, caption);
    for (const char *at = columns; *at != '\0'; at++)
        if (*at == '|')
            lc_text_puts(t, "</th><th scope=\"col\">");
        else
            lc_text_put(t, at, 1);
    lc_text_puts(t, "</th></tr></thead><tbody>\n");
}

static void close_table(struct lc_text *t)
{
    lc_text_puts(t, "</tbody></table>\n");
}

static void open_row(struct lc_text *t, const char *name)
{
    lc_text_puts(t, "<tr><th scope=\"row\">");
    lc_xml_put(t, name, 0);
    lc_text_puts(t, "</th>");
}

static void put_warning(void *arg, const char *text)
{
    struct lc_text *t = arg;

    lc_text_puts(t, "<p class=\"warning\">");
    lc_xml_put(t, text, 0);
    lc_text_puts(t, "</p>\n");
}

/* --- estimates and differences ------------------------------------------------------------------------ */

static void put_estimate(struct lc_text *t, const char *policy, const char *name, const struct lc_ope_estimate *e)
{
    open_row(t, policy);
    put_tagged(t, "td", name);
    if (e->refused[0] != '\0') {
        lc_text_puts(t, "<td>refused</td><td colspan=\"3\">");
        lc_xml_put(t, e->refused, 0);
        lc_text_puts(t, "</td></tr>\n");
        return;
    }
    put_cell(t, e->value);
    put_cell(t, e->interval.lower);
    put_cell(t, e->interval.upper);
    lc_text_printf(t, "<td>%s</td></tr>\n", e->is_bootstrap ? "bootstrap" : "Bernstein");
}

static struct lc_plot_row row_of(const struct lc_ope_estimate *e, const char *label, int kind)
{
    const bool is_refused = e->refused[0] != '\0';

    return (struct lc_plot_row){.label = label,
                                .colour = lc_plot_colour(kind),
                                .note = is_refused ? "refused" : NULL,
                                .value = is_refused ? (double)NAN : e->value,
                                .interval = e->interval};
}

static void put_estimates(struct lc_text *t, const struct lc_report *r)
{
    struct lc_plot_row row[MAX_ROWS];
    size_t n = 0;

    lc_text_puts(t, "<h2>Estimates</h2>\n");
    row[n++] = row_of(&r->entry[0].result.logged, "logging policy", -1);
    for (size_t i = 0; i < r->n; i++) {
        row[n++] = (struct lc_plot_row){.label = r->entry[i].name, .value = (double)NAN};
        for (int k = 0; k < LC_OPE_N; k++)
            row[n++] = row_of(&r->entry[i].result.estimate[k], lc_ope_name(k), k);
    }
    lc_plot_forest(t, "forest", "Estimates with their intervals", row, n, r->entry[0].result.logged.value);
    open_table(t, "estimates", "Average reward of a decision", "policy|estimator|estimate|lower|upper|interval");
    put_estimate(t, "logging policy", "logged", &r->entry[0].result.logged);
    for (size_t i = 0; i < r->n; i++)
        for (int k = 0; k < LC_OPE_N; k++)
            put_estimate(t, r->entry[i].name, lc_ope_name(k), &r->entry[i].result.estimate[k]);
    close_table(t);
}

struct differences {
    struct lc_plot_row row[MAX_ROWS];
    size_t n;
};

static void add_differences(struct differences *d, const char *label, const bool *has,
                            const struct lc_ope_difference *value)
{
    d->row[d->n++] = (struct lc_plot_row){.label = label, .value = (double)NAN};
    for (int k = 0; k < LC_OPE_N; k++)
        if (has[k])
            d->row[d->n++] = (struct lc_plot_row){.label = lc_ope_name(k),
                                                  .colour = lc_plot_colour(k),
                                                  .value = value[k].value,
                                                  .interval = value[k].is_bounded ? value[k].interval
                                                                                  : (struct lc_interval){NAN, NAN}};
}

static void put_difference_rows(struct lc_text *t, const struct differences *d)
{
    const char *pair = "";

    for (size_t i = 0; i < d->n; i++) {
        const struct lc_plot_row *row = &d->row[i];
        if (row->colour == NULL) {
            pair = row->label;
            continue;
        }
        open_row(t, pair);
        put_tagged(t, "td", row->label);
        put_cell(t, row->value);
        put_cell(t, row->interval.lower);
        put_cell(t, row->interval.upper);
        lc_text_puts(t, "</tr>\n");
    }
}

/* Over what the log earned, and of each policy over the first. */
static void put_differences(struct lc_text *t, const struct lc_report *r)
{
    struct differences *d = lc_alloc(1, sizeof *d);
    struct lc_text label[2 * MAX_ROWS / LC_OPE_N] = {{0}};
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++, n++) {
        lc_text_printf(&label[n], "%s less logged", r->entry[i].name);
        add_differences(d, label[n].data, r->entry[i].has_gain, r->entry[i].gain);
    }
    for (size_t i = 1; i < r->n; i++, n++) {
        lc_text_printf(&label[n], "%s less %s", r->entry[i].name, r->entry[0].name);
        add_differences(d, label[n].data, r->entry[i].has_difference, r->entry[i].difference);
    }
    if (d->n > n) {
        lc_text_puts(
            t, "<h2>Differences</h2>\n<p>On the same events: each bootstrap draws the same ones for both, so that "
               "what the log has in common for them cancels.</p>\n");
        lc_plot_forest(t, "differences-plot", "Paired differences with their intervals", d->row, d->n, 0);
        open_table(t, "differences", "Difference of the average reward", "pair|estimator|difference|lower|upper");
        put_difference_rows(t, d);
        close_table(t);
    }
    for (size_t i = 0; i < n; i++)
        lc_text_close(&label[i]);
    free(d);
}

/* --- one policy --------------------------------------------------------------------------------------- */

static void put_course_table(struct lc_text *t, const struct lc_report_entry *e, const char *id)
{
    const struct lc_trace *trace = &e->result.trace;

    open_table(t, id, "Reward in stretches of the log",
               "events|logged|lower|upper|ips|lower|upper|snips|lower|upper|dr|lower|upper");
    for (size_t i = 0; i < trace->n_parts; i++) {
        lc_text_printf(t, "<tr><th scope=\"row\">%zu\xe2\x80\x93%zu</th>", trace->from[i] + 1, trace->from[i + 1]);
        for (int c = 0; c < LC_COURSE_N; c++) {
            const struct lc_trace_point *p = &e->course[c][i];
            put_cell(t, e->has_course[c] ? p->value : (double)NAN);
            put_cell(t, e->has_course[c] && p->is_bounded ? p->interval.lower : (double)NAN);
            put_cell(t, e->has_course[c] && p->is_bounded ? p->interval.upper : (double)NAN);
        }
        lc_text_puts(t, "</tr>\n");
    }
    close_table(t);
}

static void put_weight_table(struct lc_text *t, const struct lc_report_entry *e, const char *id)
{
    const struct lc_trace *trace = &e->result.trace;

    open_table(t, id, "Importance weights", "from|to|events|sum of weights");
    lc_text_printf(t, "<tr><th scope=\"row\">0</th><td>0</td><td>%zu</td><td>0</td></tr>\n", trace->n_zero);
    for (size_t i = 0; i < LC_TRACE_BINS; i++) {
        if (trace->count[i] == 0)
            continue;
        lc_text_printf(t, "<tr><th scope=\"row\">%.6g</th>", lc_trace_edge(i));
        put_cell(t, lc_trace_edge(i + 1));
        put_count_cell(t, trace->count[i]);
        put_cell(t, trace->mass[i]);
        lc_text_puts(t, "</tr>\n");
    }
    close_table(t);
}

static void put_share_table(struct lc_text *t, const struct lc_report_entry *e, const char *id)
{
    const double n = (double)e->result.n;
    uint32_t arm[LC_REPORT_ARMS];
    const size_t n_arms = lc_report_arms(e, arm, LC_REPORT_ARMS);

    open_table(t, id, "Shares of the arms", "arm|logged|target");
    for (size_t i = 0; i < n_arms; i++) {
        open_row(t, kb_ids_str(&e->log.arms, arm[i]));
        put_cell(t, (double)e->result.trace.arm[arm[i]].shown / n);
        put_cell(t, e->result.trace.arm[arm[i]].target / n);
        lc_text_puts(t, "</tr>\n");
    }
    close_table(t);
    if (n_arms < e->log.arms.n)
        lc_text_printf(t, "<p>and %s arms more.</p>\n", lc_thousands(e->log.arms.n - n_arms));
}

/* What the numbers rest on, in words. */
static void put_diagnostics(struct lc_text *t, const struct lc_report_entry *e)
{
    const struct lc_ope_result *r = &e->result;

    lc_text_printf(t, "<p>%s events of %s arms. ", lc_thousands(r->n), lc_thousands(r->n_arms));
    if (r->trace.n_begun > 0)
        lc_text_printf(t,
                       "The effective sample size is %.1f; the mean weight is %.4g (it should be 1), the largest %.4g. "
                       "The replay accepted %s events. %.3g of the policy's mass is on arms that the log never shows. "
                       "Propensities are between %.4g and %.4g.",
                       r->ess, r->mean_weight, r->max_weight, lc_thousands(r->n_accepted), r->unsupported,
                       r->min_propensity, r->max_propensity);
    lc_text_puts(t, "</p>\n");
    for (int k = 0; k < LC_OPE_N; k++)
        if (r->estimate[k].refused[0] != '\0') {
            lc_text_printf(t, "<p class=\"warning\">%s is refused: ", lc_ope_name(k));
            lc_xml_put(t, r->estimate[k].refused, 0);
            lc_text_puts(t, "</p>\n");
        }
    lc_ope_warnings(r, &e->log, put_warning, t);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && e->log.skipped[i].reason != NULL; i++) {
        lc_text_printf(t, "<p>Passed over: %s ", lc_thousands(e->log.skipped[i].n));
        lc_xml_put(t, e->log.skipped[i].reason, 0);
        lc_text_puts(t, "</p>\n");
    }
}

static void put_policy(struct lc_text *t, const struct lc_report_entry *e, size_t number)
{
    char id[48];

    put_tagged(t, "h2", e->name);
    put_diagnostics(t, e);
    if (e->result.trace.n_begun == 0)
        return;
    lc_text_puts(
        t, "\n<h3>Reward over the log</h3>\n<p>In stretches of the log; no band where nothing varied in one.</p>\n");
    snprintf(id, sizeof id, "courses-%zu", number);
    if (e->has_course[LC_COURSE_IPS] || e->has_course[LC_COURSE_DR])
        lc_plot_courses(t, id, e);
    snprintf(id, sizeof id, "course-%zu", number);
    put_course_table(t, e, id);
    lc_text_puts(t, "<h3>Importance weights</h3>\n");
    snprintf(id, sizeof id, "weights-plot-%zu", number);
    lc_plot_weights(t, id, e);
    snprintf(id, sizeof id, "weights-%zu", number);
    put_weight_table(t, e, id);
    lc_text_puts(t, "<h3>Shares of the arms</h3>\n");
    snprintf(id, sizeof id, "shares-plot-%zu", number);
    lc_plot_shares(t, id, e);
    snprintf(id, sizeof id, "shares-%zu", number);
    put_share_table(t, e, id);
}

/* --- the page ----------------------------------------------------------------------------------------- */

static void put_origin(struct lc_text *t, const struct lc_report *r)
{
    struct lc_text json = {0};

    lc_text_puts(t, "<h2>How it was made</h2>\n");
    open_table(t, "files", "Files", "role|name|bytes|SHA-256");
    for (size_t i = 0; i < r->n_files; i++) {
        open_row(t, r->file[i].role);
        put_tagged(t, "td", r->file[i].name);
        lc_text_printf(t, "<td>%llu</td><td><code>%s</code></td></tr>\n", r->file[i].bytes, r->file[i].sha256);
    }
    close_table(t);
    open_table(t, "parameters", "Parameters of laplacectl evaluate", "parameter|value");
    for (size_t i = 0; i < r->n_parameters; i++) {
        open_row(t, r->parameter[i].name);
        if (r->parameter[i].text != NULL)
            put_tagged(t, "td", r->parameter[i].text);
        else
            put_cell(t, r->parameter[i].number);
        lc_text_puts(t, "</tr>\n");
    }
    close_table(t);
    lc_report_json(r, &json);
    lc_text_puts(t, "<details><summary>The same as JSON</summary>\n<pre id=\"json\">");
    lc_xml_put(t, json.data, 0);
    lc_text_puts(t, "</pre></details>\n");
    lc_text_close(&json);
}

void lc_report_page(const struct lc_report *r, struct lc_text *t)
{
    lc_text_puts(t, HEAD);
    lc_text_puts(t, "<title>Offline evaluation on ");
    lc_xml_put(t, r->file[0].name, 0);
    lc_text_puts(t, "</title>\n</head>\n<body>\n<main>\n<h1>Offline evaluation on ");
    lc_xml_put(t, r->file[0].name, 0);
    lc_text_puts(t,
                 "</h1>\n<p>What policies would have earned, estimated from the log of another one. Intervals are of ");
    lc_text_printf(t, "%g %%. What the log cannot support is refused.</p>\n", 100 * r->o->level);
    put_estimates(t, r);
    put_differences(t, r);
    for (size_t i = 0; i < r->n; i++)
        put_policy(t, &r->entry[i], i);
    put_origin(t, r);
    lc_text_puts(t, "</main>\n</body>\n</html>\n");
}
