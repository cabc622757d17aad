/* Curves as SVG.
 *
 * A curve is thinned to POINTS of its rounds, the last one included, so a picture has some 10 kB whatever is played.
 * Its name and last value stand where it ends, moved apart where curves end close together. */
#include "demo/demo.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

#define WIDTH 720.0
#define HEIGHT 400.0
#define LEFT 62.0
#define RIGHT 590.0
#define TOP 62.0
#define BOTTOM 352.0
#define LABEL 17.0 /* pixels between two labels */
#define POINTS 200u
#define MAX_TICKS 6

static const char STYLE[] =
    "<style>.lc{font:12px system-ui,sans-serif;max-width:100%;height:auto}.lc text{fill:#222;unicode-bidi:isolate}"
    ".lc .end{text-anchor:end}.lc .mid{text-anchor:middle}.lc .bold{font-weight:600}.lc .axis{stroke:#888}"
    ".lc .grid{stroke:#e2e2e2}.lc .line{stroke-width:1.8;fill:none}.lc .paper{fill:#fff}"
    ".lc .c0{--c:#6b6b6b}.lc .c1{--c:#a3447f}.lc .c2{--c:#0067a5}.lc .c3{--c:#b04a00}.lc .c4{--c:#6a4fb3}"
    ".lc .c5{--c:#00785a}.lc .line{stroke:var(--c)}.lc text.name{fill:var(--c)}"
    "@media (prefers-color-scheme:dark){.lc text{fill:#e6e6e6}.lc .grid{stroke:#3a3a3a}.lc .paper{fill:#16181c}"
    ".lc .c0{--c:#a8a8a8}.lc .c1{--c:#e59bc6}.lc .c2{--c:#62b5ec}.lc .c3{--c:#f0a060}.lc .c4{--c:#b8a4f0}"
    ".lc .c5{--c:#4fc9a4}}</style>";

static const char *const colours[] = {"c3", "c2", "c5", "c0", "c1", "c4"};

/* Values lo..hi at the pixels from..to. */
struct axis {
    double lo, hi, from, to;
};

static double place(const struct axis *a, double v)
{
    return a->from + (a->to - a->from) * fmin(1, fmax(0, (v - a->lo) / (a->hi - a->lo)));
}

/* Round values inside, at most MAX_TICKS: 1, 2 or 5 times a power of ten apart. */
static size_t ticks(const struct axis *a, double *tick)
{
    const double rough = (a->hi - a->lo) / (MAX_TICKS - 1), unit = pow(10, floor(log10(rough)));
    const double step = unit * (rough <= unit ? 1 : rough <= 2 * unit ? 2 : rough <= 5 * unit ? 5 : 10);
    size_t n = 0;

    for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi + 1e-9 * step && n < MAX_TICKS; k++)
        tick[n++] = k * step + 0.0; /* no -0 */
    return n;
}

/* All texts are the client's own: none needs an escape. */
static void put_text(struct lc_text *t, const char *class, double x, double y, const char *text)
{
    lc_text_printf(t, "<text class=\"%s\" x=\"%.2f\" y=\"%.2f\">%s</text>\n", class, x, y, text);
}

struct picture {
    const struct lc_show *show;
    const struct lc_runner *runners;
    size_t n, n_rounds;
};

static double value_of(const struct picture *p, size_t i, size_t t)
{
    return p->runners[i].curve[t] - (p->show->base < p->n ? p->runners[p->show->base].curve[t] : 0);
}

/* 0 is always shown: the curves are totals. */
static struct axis range_of(const struct picture *p)
{
    struct axis y = {.from = BOTTOM, .to = TOP};

    for (size_t i = 0; i < p->n; i++)
        for (size_t t = 0; t < p->n_rounds; t++) {
            y.lo = fmin(y.lo, value_of(p, i, t));
            y.hi = fmax(y.hi, value_of(p, i, t));
        }
    if (!(y.hi > y.lo))
        y.hi = y.lo + 1;
    return y;
}

static void put_axes(struct lc_text *t, const struct picture *p, const struct axis *x, const struct axis *y)
{
    double tick[MAX_TICKS];
    char text[32];
    size_t n = ticks(y, tick);

    for (size_t i = 0; i < n; i++) {
        const double at = place(y, tick[i]);
        snprintf(text, sizeof text, "%.6g", tick[i]);
        lc_text_printf(t, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n",
                       tick[i] == 0 ? "axis" : "grid", LEFT, at, RIGHT, at);
        put_text(t, "end", LEFT - 8, at + 4, text);
    }
    n = ticks(x, tick);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%.6g", tick[i]);
        put_text(t, "mid", place(x, tick[i]), BOTTOM + 18, text);
    }
    put_text(t, "bold", 10, 22, p->show->title);
    put_text(t, "", 10, 44, p->show->y_label);
    put_text(t, "mid", (LEFT + RIGHT) / 2, BOTTOM + 38, "decisions, each for one user");
}

static void put_curve(struct lc_text *t, const struct picture *p, size_t i, const struct axis *x, const struct axis *y)
{
    const size_t n_points = p->n_rounds < POINTS ? p->n_rounds : POINTS;

    lc_text_printf(t, "<polyline class=\"line %s\" points=\"", colours[i % (sizeof colours / sizeof colours[0])]);
    for (size_t k = 0; k < n_points; k++) {
        const size_t at = n_points > 1 ? k * (p->n_rounds - 1) / (n_points - 1) : 0;
        lc_text_printf(t, "%s%.1f,%.1f", k > 0 ? " " : "", place(x, (double)(at + 1)), place(y, value_of(p, i, at)));
    }
    lc_text_printf(t, "\"><title>%s</title></polyline>\n", p->show->policies[i].label);
}

/* From the top curve down, each label at its curve or below the one before; then from the bottom up, so that the last
 * ones stay on the picture. */
static void place_labels(double *at, size_t n)
{
    size_t order[LC_MAX_POLICIES] = {0};

    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (size_t k = 1; k < n; k++)
        at[order[k]] = fmax(at[order[k]], at[order[k - 1]] + LABEL);
    for (size_t k = n; k-- > 0;)
        at[order[k]] = fmin(at[order[k]], k + 1 < n ? at[order[k + 1]] - LABEL : BOTTOM);
}

static void put_labels(struct lc_text *t, const struct picture *p, const struct axis *y)
{
    double at[LC_MAX_POLICIES];
    char text[64], class[32];

    for (size_t i = 0; i < p->n; i++)
        at[i] = place(y, value_of(p, i, p->n_rounds - 1));
    place_labels(at, p->n);
    for (size_t i = 0; i < p->n; i++) {
        snprintf(text, sizeof text, "%.20s %.0f", p->show->policies[i].label, value_of(p, i, p->n_rounds - 1));
        snprintf(class, sizeof class, "%sname %s", i == 0 ? "bold " : "",
                 colours[i % (sizeof colours / sizeof colours[0])]);
        put_text(t, class, RIGHT + 8, at[i] + 4, text);
    }
}

static void draw(struct lc_text *t, const struct picture *p)
{
    const struct axis y = range_of(p);
    const struct axis x = {.lo = 0, .hi = (double)p->n_rounds, .from = LEFT, .to = RIGHT};

    lc_text_printf(t,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"demo\" class=\"lc\" role=\"img\" width=\"%g\" "
                   "height=\"%g\" viewBox=\"0 0 %g %g\" aria-labelledby=\"demo-t demo-d\">\n"
                   "<title id=\"demo-t\">%s</title><desc id=\"demo-d\">%s</desc>\n%s\n"
                   "<rect class=\"paper\" x=\"0.00\" y=\"0.00\" width=\"%.2f\" height=\"%.2f\"/>\n",
                   WIDTH, HEIGHT, WIDTH, HEIGHT, p->show->title, p->show->about, STYLE, WIDTH, HEIGHT);
    put_axes(t, p, &x, &y);
    for (size_t i = p->n; i-- > 0;)
        put_curve(t, p, i, &x, &y); /* the first policy on top */
    put_labels(t, p, &y);
    lc_text_puts(t, "</svg>\n");
}

static int fail(const char *path)
{
    return lc_fail("--svg: %s: %s", path, strerror(errno));
}

int lc_demo_picture_check(const char *path)
{
    struct lc_part part;

    return lc_part_open(&part, path) == 0 && lc_part_close(&part, false) == 0 ? 0 : fail(path);
}

int lc_demo_picture_write(const struct lc_show *show, const struct lc_runner *runners, size_t n_rounds,
                          const char *path)
{
    struct lc_text t = {0};
    struct lc_part part;

    if (lc_part_open(&part, path) != 0)
        return fail(path);
    draw(&t, &(struct picture){show, runners, show->n_policies, n_rounds});
    const bool is_written = fwrite(t.data, 1, t.n, part.file) == t.n;
    const int rc = lc_part_close(&part, is_written) == 0 && is_written ? 0 : fail(path);
    lc_text_close(&t);
    return rc;
}
