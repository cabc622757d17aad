/* Curves as SVG: see demo_picture.h.
 *
 * A curve is thinned to POINTS of its rounds, the last one included, so a picture has some 10 kB whatever is played.
 * Its name and last value stand where it ends, moved apart where curves end close together. */
#include "demo/demo_picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo/scores.h"
#include "evaluate/svg.h"

#define WIDTH 720.0
#define HEIGHT 400.0
#define LEFT 62.0
#define RIGHT 590.0
#define TOP 62.0
#define BOTTOM 352.0
#define LABEL 17.0 /* pixels between two labels */
#define POINTS 200u
#define MAX_TICKS 6

static const char *const colours[] = {"c3", "c2", "c5", "c0", "c1", "c4"};

static double value_of(const struct lc_picture *p, const struct lc_runner *runners, size_t n, size_t i, size_t t)
{
    return runners[i].curve[t] - (p->base < n ? runners[p->base].curve[t] : 0);
}

/* 0 is always shown: the curves are totals. */
static struct lc_axis range_of(const struct lc_picture *p, const struct lc_runner *runners, size_t n)
{
    struct lc_axis y = {.from = BOTTOM, .to = TOP};

    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < p->n_rounds; t++) {
            y.lo = fmin(y.lo, value_of(p, runners, n, i, t));
            y.hi = fmax(y.hi, value_of(p, runners, n, i, t));
        }
    if (!(y.hi > y.lo))
        y.hi = y.lo + 1;
    return y;
}

static void put_axes(struct lc_text *t, const struct lc_picture *p, const struct lc_axis *x, const struct lc_axis *y)
{
    double tick[16];
    char text[32];
    size_t n = lc_axis_ticks(y, tick, MAX_TICKS);

    for (size_t i = 0; i < n; i++) {
        const double at = lc_axis_at(y, tick[i]);
        snprintf(text, sizeof text, "%.6g", tick[i]);
        lc_svg_line(t, tick[i] == 0 ? "axis" : "grid", LEFT, at, RIGHT, at);
        lc_svg_text(t, "end", LEFT - 8, at + 4, text);
    }
    n = lc_axis_ticks(x, tick, MAX_TICKS);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%.6g", tick[i]);
        lc_svg_text(t, "mid", lc_axis_at(x, tick[i]), BOTTOM + 18, text);
    }
    lc_svg_text(t, "bold", 10, 22, p->title);
    lc_svg_text(t, "", 10, 44, p->y_label);
    lc_svg_text(t, "mid", (LEFT + RIGHT) / 2, BOTTOM + 38, p->x_label);
}

static void put_curve(struct lc_text *t, const struct lc_picture *p, const struct lc_runner *runners, size_t n,
                      size_t i, const struct lc_axis *x, const struct lc_axis *y)
{
    const size_t n_points = p->n_rounds < POINTS ? p->n_rounds : POINTS;
    double px[POINTS], py[POINTS];
    char class[16];

    for (size_t k = 0; k < n_points; k++) {
        const size_t at = n_points > 1 ? k * (p->n_rounds - 1) / (n_points - 1) : 0;
        px[k] = lc_axis_at(x, (double)(at + 1));
        py[k] = lc_axis_at(y, value_of(p, runners, n, i, at));
    }
    snprintf(class, sizeof class, "line %s", colours[i % (sizeof colours / sizeof colours[0])]);
    lc_svg_curve(t, class, px, py, n_points, runners[i].label);
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

static void put_labels(struct lc_text *t, const struct lc_picture *p, const struct lc_runner *runners, size_t n,
                       const struct lc_axis *y)
{
    double at[LC_MAX_POLICIES];
    char text[64], class[32];

    for (size_t i = 0; i < n; i++)
        at[i] = lc_axis_at(y, value_of(p, runners, n, i, p->n_rounds - 1));
    place_labels(at, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%.20s %.0f", runners[i].label, value_of(p, runners, n, i, p->n_rounds - 1));
        snprintf(class, sizeof class, "%sname %s", i == 0 ? "bold " : "",
                 colours[i % (sizeof colours / sizeof colours[0])]);
        lc_svg_text(t, class, RIGHT + 8, at[i] + 4, text);
    }
}

static void draw(struct lc_text *t, const struct lc_picture *p, const struct lc_runner *runners, size_t n)
{
    const struct lc_axis y = range_of(p, runners, n);
    const struct lc_axis x = {.lo = 0, .hi = (double)p->n_rounds, .from = LEFT, .to = RIGHT};

    lc_svg_open(t, "demo", WIDTH, HEIGHT, p->title, p->about);
    lc_svg_rect(t, "paper", 0, 0, WIDTH, HEIGHT, NULL);
    put_axes(t, p, &x, &y);
    for (size_t i = n; i-- > 0;)
        put_curve(t, p, runners, n, i, &x, &y); /* the first policy on top */
    put_labels(t, p, runners, n, &y);
    lc_svg_close(t);
}

static int fail(const char *path)
{
    fprintf(stderr, "laplacectl: --svg: %s: %s\n", path, strerror(errno));
    return 1;
}

/* The picture is written beside its place first. */
static char *part_of(const char *path)
{
    struct lc_text part = {0};

    lc_text_printf(&part, "%s.part", path);
    return part.data;
}

int lc_demo_picture_check(const char *path)
{
    char *part = part_of(path);
    FILE *f = fopen(part, "w");
    const int rc = f != NULL ? 0 : fail(path);

    if (f != NULL) {
        fclose(f);
        remove(part);
    }
    free(part);
    return rc;
}

int lc_demo_picture_write(const struct lc_picture *p, const struct lc_runner *runners, size_t n, const char *path)
{
    char *part = part_of(path);
    struct lc_text t = {0};
    FILE *f = fopen(part, "w");

    draw(&t, p, runners, n);
    bool is_written = f != NULL && fwrite(t.data, 1, t.n, f) == t.n;
    if (f != NULL)
        is_written = fclose(f) == 0 && is_written;
    is_written = is_written && rename(part, path) == 0;
    const int rc = is_written ? 0 : fail(path);
    if (!is_written)
        remove(part);
    lc_text_close(&t);
    free(part);
    return rc;
}
