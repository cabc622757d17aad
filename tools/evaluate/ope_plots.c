/* The drawings of a report: see ope_plots.h. */
#include "evaluate/ope_plots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "evaluate/svg.h"

#define WIDTH 720.0
#define LEFT 190.0
#define RIGHT 700.0
#define ROW 24.0
#define PANEL 130.0
#define MAX_TICKS 6
#define FOREST_REACH 0.25 /* an axis goes beyond the estimates by so much of their span at most, */
#define COURSE_REACH 1.5
#define LEAST_REACH 1.5 /* or by so much of the narrowest interval */
#define MAX_ARMS 40u

const char *lc_plot_colour(int kind)
{
    static const char *const colour[LC_OPE_N] = {"c1", "c2", "c3", "c4", "c5"};

    return kind < 0 ? "c0" : colour[kind];
}

/* --- axes --------------------------------------------------------------------------------------------- */

/* What an axis has to show: values, and of their intervals as much as does not dwarf them. */
struct range {
    double lo, hi, reach_lo, reach_hi, narrowest;
};

static const struct range NOTHING = {INFINITY, -INFINITY, INFINITY, -INFINITY, INFINITY};

static void show(struct range *r, double value, struct lc_interval interval)
{
    if (!isfinite(value))
        return;
    r->lo = fmin(r->lo, value);
    r->hi = fmax(r->hi, value);
    if (!isfinite(interval.lower) || !isfinite(interval.upper))
        return;
    r->reach_lo = fmin(r->reach_lo, interval.lower);
    r->reach_hi = fmax(r->reach_hi, interval.upper);
    if (interval.upper > interval.lower)
        r->narrowest = fmin(r->narrowest, interval.upper - interval.lower);
}

static struct lc_axis axis_of(const struct range *r, double reach, double from, double to)
{
    const double narrowest = isfinite(r->narrowest) ? r->narrowest : 0;
    const double beyond = fmax(reach * (r->hi - r->lo), LEAST_REACH * narrowest);
    const double lo = fmax(fmin(r->lo, r->reach_lo), r->lo - beyond);
    const double hi = fmin(fmax(r->hi, r->reach_hi), r->hi + beyond);
    const double room = hi > lo ? 0.04 * (hi - lo) : fmax(0.5 * fabs(hi), 0.5);

    if (!isfinite(lo) || !isfinite(hi))
        return (struct lc_axis){.lo = 0, .hi = 1, .from = from, .to = to};
    return (struct lc_axis){.lo = lo - (lo == 0 ? 0 : room), .hi = hi + room, .from = from, .to = to};
}

static void label_x(struct lc_text *t, const struct lc_axis *a, double top, double bottom)
{
    double tick[16];
    char text[32];
    const size_t n = lc_axis_ticks(a, tick, MAX_TICKS);

    for (size_t i = 0; i < n; i++) {
        const double x = lc_axis_at(a, tick[i]);
        snprintf(text, sizeof text, "%.6g", tick[i]);
        lc_svg_line(t, "grid", x, top, x, bottom);
        lc_svg_text(t, "mid", x, bottom + 16, text);
    }
    lc_svg_line(t, "axis", a->from, bottom, a->to, bottom);
}

static void label_y(struct lc_text *t, const struct lc_axis *a, double left, double right)
{
    double tick[16];
    char text[32];
    const size_t n = lc_axis_ticks(a, tick, 4);

    for (size_t i = 0; i < n; i++) {
        const double y = lc_axis_at(a, tick[i]);
        snprintf(text, sizeof text, "%.6g", tick[i]);
        lc_svg_line(t, "grid", left, y, right, y);
        lc_svg_text(t, "end", left - 6, y + 4, text);
    }
    lc_svg_line(t, "axis", left, a->from, left, a->to);
}

/* --- forest ------------------------------------------------------------------------------------------- */

/* A bar with a stroke at either end, or an arrow where the axis ends before it. */
static void put_interval(struct lc_text *t, const struct lc_axis *a, const char *class, struct lc_interval v, double y)
{
    const double x1 = lc_axis_at(a, v.lower), x2 = lc_axis_at(a, v.upper);

    lc_svg_line(t, class, x1, y, x2, y);
    if (v.lower < a->lo)
        lc_svg_text(t, "end", x1 - 1, y + 4, "\xe2\x86\x90");
    else
        lc_svg_line(t, class, x1, y - 4, x1, y + 4);
    if (v.upper > a->hi)
        lc_svg_text(t, "", x2 + 1, y + 4, "\xe2\x86\x92");
    else
        lc_svg_line(t, class, x2, y - 4, x2, y + 4);
}

static void put_row(struct lc_text *t, const struct lc_axis *a, const struct lc_plot_row *row, double y)
{
    const bool is_bounded = isfinite(row->interval.lower);
    char class[32], title[320];
    int n;

    lc_svg_text(t, row->colour == NULL ? "bold" : "end", row->colour == NULL ? 8 : LEFT - 12, y + 4, row->label);
    if (!isfinite(row->value)) {
        if (row->note != NULL)
            lc_svg_text(t, "", LEFT, y + 4, row->note);
        return;
    }
    n = snprintf(title, sizeof title, "%.200s: %.6g", row->label, row->value);
    if (is_bounded)
        snprintf(title + n, sizeof title - (size_t)n, " [%.6g, %.6g]", row->interval.lower, row->interval.upper);
    snprintf(class, sizeof class, "line %s", row->colour);
    if (is_bounded)
        put_interval(t, a, class, row->interval, y);
    snprintf(class, sizeof class, "fill %s", row->colour);
    lc_svg_dot(t, class, lc_axis_at(a, row->value), y, title);
}

void lc_plot_forest(struct lc_text *t, const char *id, const char *title, const struct lc_plot_row *row, size_t n,
                    double reference)
{
    const double bottom = 12 + ROW * (double)n;
    struct range range = NOTHING;

    for (size_t i = 0; i < n; i++)
        show(&range, row[i].value, row[i].interval);
    show(&range, reference, (struct lc_interval){NAN, NAN});
    const struct lc_axis a = axis_of(&range, FOREST_REACH, LEFT, RIGHT - 12);
    lc_svg_open(t, id, WIDTH, bottom + 28, title,
                "One line for each estimator: the dot is the estimate, the bar its interval; an arrow where it is cut. "
                "The table beside it has the numbers.");
    label_x(t, &a, 8, bottom);
    if (isfinite(reference))
        lc_svg_line(t, "zero", lc_axis_at(&a, reference), 8, lc_axis_at(&a, reference), bottom);
    for (size_t i = 0; i < n; i++)
        put_row(t, &a, &row[i], 8 + ROW * ((double)i + 0.5));
    lc_svg_close(t);
}

/* --- courses ------------------------------------------------------------------------------------------ */

/* A stretch of the log: its band and its value, joined to the value before it. */
static void put_course(struct lc_text *t, const struct lc_trace *trace, const struct lc_trace_point *point,
                       const char *colour, const struct lc_axis *x, const struct lc_axis *y)
{
    char band[32], line[32], title[160];

    snprintf(band, sizeof band, "band %s", colour);
    snprintf(line, sizeof line, "line %s", colour);
    for (size_t i = 0; i < trace->n_parts; i++) {
        const struct lc_trace_point *p = &point[i];
        const double x1 = lc_axis_at(x, (double)trace->from[i]), x2 = lc_axis_at(x, (double)trace->from[i + 1]);
        if (!isfinite(p->value))
            continue;
        snprintf(title, sizeof title, "events %zu to %zu: %.6g", trace->from[i] + 1, trace->from[i + 1], p->value);
        if (p->is_bounded) {
            const double top = lc_axis_at(y, p->interval.upper);
            lc_svg_rect(t, band, x1, top, x2 - x1, lc_axis_at(y, p->interval.lower) - top, title);
        }
        const double at = lc_axis_at(y, p->value);
        lc_svg_line(t, line, x1, at, x2, at);
        if (i > 0 && isfinite(point[i - 1].value))
            lc_svg_line(t, line, x1, lc_axis_at(y, point[i - 1].value), x1, at);
    }
}

/* One panel an estimator, each over the logging policy's course; all of one scale. */
void lc_plot_courses(struct lc_text *t, const char *id, const struct lc_report_entry *e)
{
    static const int kind[LC_COURSE_N] = {-1, LC_OPE_IPS, LC_OPE_SNIPS, LC_OPE_DR};
    const struct lc_trace *trace = &e->result.trace;
    const struct lc_axis x = {.lo = 0, .hi = (double)e->result.n, .from = 70, .to = RIGHT};
    struct range range = NOTHING;
    double top = 0;

    for (int c = 0; c < LC_COURSE_N; c++)
        for (size_t i = 0; e->has_course[c] && i < trace->n_parts; i++)
            show(&range, e->course[c][i].value,
                 e->course[c][i].is_bounded ? e->course[c][i].interval : (struct lc_interval){NAN, NAN});
    size_t panels = 0;
    for (int c = 1; c < LC_COURSE_N; c++)
        panels += e->has_course[c] ? 1 : 0;
    lc_svg_open(
        t, id, WIDTH, 34 + (PANEL + 26) * (double)panels, "Reward over the log",
        "One panel for each estimator: the reward in stretches of the log, with bands of its intervals, over that "
        "of the logging policy in grey. The table beside it has the numbers.");
    for (int c = 1; c < LC_COURSE_N; c++) {
        if (!e->has_course[c])
            continue;
        const struct lc_axis y = axis_of(&range, COURSE_REACH, top + 24 + PANEL, top + 24);
        lc_svg_text(t, "bold", 70, top + 16, lc_report_course_name(c));
        label_y(t, &y, 70, RIGHT);
        put_course(t, trace, e->course[LC_COURSE_LOGGED], "c0", &x, &y);
        put_course(t, trace, e->course[c], lc_plot_colour(kind[c]), &x, &y);
        top += PANEL + 26;
    }
    label_x(t, &x, top - 2, top - 2);
    lc_svg_text(t, "end", RIGHT, top + 28, "events");
    lc_svg_close(t);
}

/* --- weights ------------------------------------------------------------------------------------------ */

static void put_bin(struct lc_text *t, double x, double width, const struct lc_axis *y, double events, double mass,
                    const char *what)
{
    char title[160];

    snprintf(title, sizeof title, "%s: %.3g %% of the events, %.3g %% of the weight", what, 100 * events, 100 * mass);
    const double at = lc_axis_at(y, events), heavy = lc_axis_at(y, mass);
    lc_svg_rect(t, "fill c2", x + 1, at, width / 2 - 1, y->from - at, title);
    lc_svg_rect(t, "fill c3", x + width / 2, heavy, width / 2 - 1, y->from - heavy, title);
}

void lc_plot_weights(struct lc_text *t, const char *id, const struct lc_report_entry *e)
{
    const struct lc_trace *trace = &e->result.trace;
    const double n = (double)e->result.n, sum = n * e->result.mean_weight;
    size_t from = 0, to = LC_TRACE_BINS;
    double most = (double)trace->n_zero / n;
    char text[160];

    while (from + 1 < to && trace->count[from] == 0)
        from++;
    while (to - 1 > from && trace->count[to - 1] == 0)
        to--;
    for (size_t i = from; i < to; i++)
        most = fmax(most, fmax((double)trace->count[i] / n, sum > 0 ? trace->mass[i] / sum : 0));
    const struct lc_axis x = {lc_trace_edge(from), lc_trace_edge(to), 130, RIGHT, true};
    const struct lc_axis y = {.lo = 0, .hi = most, .from = 200, .to = 30};
    snprintf(text, sizeof text, "Importance weights: effective sample size %.1f of %zu", e->result.ess, e->result.n);
    lc_svg_open(
        t, id, WIDTH, 240, text,
        "A histogram by the logarithm of the weight: the share of the events in each bin, and beside it the share "
        "of the whole weight that these events have. The table beside it has the numbers.");
    lc_svg_text(t, "bold", 70, 16, "share of events");
    lc_svg_rect(t, "fill c2", 56, 7, 10, 10, NULL);
    lc_svg_text(t, "bold", 206, 16, "share of weight");
    lc_svg_rect(t, "fill c3", 192, 7, 10, 10, NULL);
    label_y(t, &y, 60, RIGHT);
    put_bin(t, 70, 40, &y, (double)trace->n_zero / n, 0, "weight 0");
    lc_svg_text(t, "mid", 90, 216, "0");
    for (size_t i = from; i < to; i++) {
        const double at = lc_axis_at(&x, lc_trace_edge(i));
        snprintf(text, sizeof text, "weights %.3g to %.3g", lc_trace_edge(i), lc_trace_edge(i + 1));
        put_bin(t, at, lc_axis_at(&x, lc_trace_edge(i + 1)) - at, &y, (double)trace->count[i] / n,
                sum > 0 ? trace->mass[i] / sum : 0, text);
    }
    label_x(t, &x, 200, 200);
    lc_svg_text(t, "end", RIGHT, 234, "weight");
    lc_svg_close(t);
}

/* --- shares ------------------------------------------------------------------------------------------- */

void lc_plot_shares(struct lc_text *t, const char *id, const struct lc_report_entry *e)
{
    const struct lc_trace_arm *arm = e->result.trace.arm;
    const double n = (double)e->result.n;
    uint32_t which[MAX_ARMS];
    const size_t n_arms = lc_report_arms(e, which, MAX_ARMS);
    const double bottom = 26 + 18 * (double)n_arms;
    double most = 0;

    for (size_t i = 0; i < n_arms; i++)
        most = fmax(most, fmax((double)arm[which[i]].shown, arm[which[i]].target) / n);
    const struct lc_axis x = {.lo = 0, .hi = most > 0 ? 1.04 * most : 1, .from = LEFT, .to = RIGHT - 12};
    lc_svg_open(
        t, id, WIDTH, bottom + 28, "Shares of the arms",
        "Two bars for each arm: how often the log shows it, and how often the policy would have shown it. The table "
        "beside it has the numbers.");
    lc_svg_text(t, "bold", LEFT + 16, 14, "logged");
    lc_svg_rect(t, "fill c0", LEFT, 5, 10, 10, NULL);
    lc_svg_text(t, "bold", LEFT + 96, 14, "target");
    lc_svg_rect(t, "fill c2", LEFT + 80, 5, 10, 10, NULL);
    label_x(t, &x, 22, bottom);
    for (size_t i = 0; i < n_arms; i++) {
        const char *name = kb_ids_str(&e->log.arms, which[i]);
        const double y = 26 + 18 * (double)i;
        lc_svg_text(t, "end", LEFT - 8, y + 11, name);
        lc_svg_rect(t, "fill c0", LEFT, y, lc_axis_at(&x, (double)arm[which[i]].shown / n) - LEFT, 7, name);
        lc_svg_rect(t, "fill c2", LEFT, y + 7, lc_axis_at(&x, arm[which[i]].target / n) - LEFT, 7, name);
    }
    lc_svg_close(t);
}
