/* Charts of text. A cell of braille has 2 x 4 dots, so 70 x 16 characters show 140 x 64 points; a cell belongs to the
 * last series that drew into it. Without colours that would be unreadable, so every series then has a letter and one
 * point per cell.
 *
 *   dot (dx, dy) of a cell, dx in 0..1, dy in 0..3 from the top, is bit  {0 3; 1 4; 2 5; 6 7}[dy][dx]  of U+2800
 *
 * Consecutive points are joined by vertical runs, so that steep curves stay connected. Cost: O(width height series).
 *
 * Order of work: the range of all curves gives the scale, each curve sets its dots in a canvas of cells, then
 * the lines are put together with ticks on the left and labels on the right. Everything is freed before the
 * return; the text alone goes out, and the caller prints it. */
#include "demo/chart.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct canvas {
    /* borrowed */
    const struct lc_chart *chart;
    size_t dots_x, dots_y; /* resolution */
    /* values at the bottom and the top row of dots */
    double low, high;
    /* bits in the order of U+2800, or 1 in plain mode */
    uint8_t *dots; /* braille bits by cell */
    int8_t *owner; /* series by cell, -1 = none */
};

/* --- scale ------------------------------------------------------------------------------------------ */

/* The axis always holds 0: curves are totals, and a cut axis would lie about their ratio. */
static void find_range(struct canvas *v, const struct ld_ope_series *series, size_t n_series)
{
    v->low = 0.0;
    v->high = 0.0;
    for (size_t s = 0; s < n_series; s++)
        for (size_t i = 0; i < series[s].n; i++) {
            v->low = fmin(v->low, series[s].y[i]);
            v->high = fmax(v->high, series[s].y[i]);
        }
    if (!(v->high > v->low))
        v->high = v->low + 1.0;
}

/* Dot row of a value, 0 at the top. Rounding may step over the edge by one. */
static size_t row_of(const struct canvas *v, double y)
{
    double share = (v->high - y) / (v->high - v->low);
    double row = share * (double)(v->dots_y - 1) + 0.5;
    if (row < 0.0)
        return 0;
    return row > (double)(v->dots_y - 1) ? v->dots_y - 1 : (size_t)row;
}

/* --- drawing ---------------------------------------------------------------------------------------- */

static void put_dot(struct canvas *v, size_t x, size_t y, size_t series)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    bool is_fine = v->chart->is_coloured;
    size_t cell = (is_fine ? y / 4 : y) * v->chart->width + (is_fine ? x / 2 : x);
    v->dots[cell] |= is_fine ? bit[y % 4][x % 2] : 1;
    v->owner[cell] = (int8_t)series;
}

/* Column by column; what lies between two neighbouring columns is filled, so that jumps stay visible. */
static void draw_series(struct canvas *v, const struct ld_ope_series *s, size_t index)
{
    size_t before = 0;
    if (s->n == 0)
        return;
    for (size_t x = 0; x < v->dots_x; x++) {
        /* the nearest earlier value, no mean: a jump stays a jump */
        size_t row = row_of(v, s->y[v->dots_x > 1 ? (s->n - 1) * x / (v->dots_x - 1) : 0]);
        size_t from = x == 0 ? row : before, to = row;
        while (from != to) { /* the run from the last point, without its end */
            from = from < to ? from + 1 : from - 1;
            put_dot(v, x, from, index);
        }
        put_dot(v, x, row, index);
        before = row;
    }
}

static void put_cell(const struct canvas *v, const struct ld_ope_series *series, size_t cell, struct lc_text *out)
{
    int owner = v->owner[cell];
    if (owner < 0) {
        lc_text_puts(out, " ");
    } else if (v->chart->is_coloured) {
        const unsigned bits = v->dots[cell];
        const char utf8[3] = {(char)0xE2, (char)(0xA0 | bits >> 6), (char)(0x80 | (bits & 0x3F))}; /* U+2800 + bits */
        lc_text_printf(out, "\033[%dm%.3s\033[0m", series[owner].colour, utf8);
    } else {
        lc_text_put(out, &series[owner].mark, 1);
    }
}

/* Right of the drawing, outside its width, the label of the series that ends in this line. */
static void put_label(const struct canvas *v, const struct ld_ope_series *series, size_t n_series, size_t line,
                      const size_t *label_line, struct lc_text *out)
{
    for (size_t s = 0; s < n_series; s++) {
        if (label_line[s] != line || series[s].n == 0)
            continue;
        if (v->chart->is_coloured)
            lc_text_printf(out, " \033[%dm%s\033[0m", series[s].colour, series[s].label);
        else
            lc_text_printf(out, " %c %s", series[s].mark, series[s].label);
    }
}

/* A line of its own for every label: where its curve ends, else the nearest that is free: 1 down, 1 up, 2 down, ...
 * line: [n_series]; `height` means that the series has no label. */
static void place_labels(const struct canvas *v, const struct ld_ope_series *series, size_t n_series, size_t *line)
{
    size_t height = v->chart->height;
    bool *taken = lc_alloc(height, sizeof *taken);
    for (size_t s = 0; s < n_series; s++) {
        line[s] = height; /* nowhere */
        if (series[s].n == 0)
            continue;
        size_t want = row_of(v, series[s].y[series[s].n - 1]) * height / v->dots_y;
        for (size_t step = 0; step < 2 * height && line[s] == height; step++) {
            size_t away = (step + 1) / 2;
            bool is_up = step % 2 == 0;
            if ((is_up && away > want) || (!is_up && want + away >= height))
                continue;
            size_t at = is_up ? want - away : want + away;
            if (!taken[at])
                line[s] = at;
        }
        if (line[s] < height)
            taken[line[s]] = true;
    }
    free(taken);
}

static void put_lines(const struct canvas *v, const struct ld_ope_series *series, size_t n_series, struct lc_text *out)
{
    size_t w = v->chart->width, h = v->chart->height;
    size_t *label_line = lc_alloc(n_series, sizeof *label_line);
    place_labels(v, series, n_series, label_line);
    for (size_t y = 0; y < h; y++) {
        double value = v->high - (v->high - v->low) * (double)y / (double)(h > 1 ? h - 1 : 1);
        bool is_ticked = y == 0 || y == h - 1 || y == h / 2;
        if (is_ticked)
            lc_text_printf(out, "%9.4g |", value);
        else
            lc_text_puts(out, "          |");
        for (size_t x = 0; x < w; x++)
            put_cell(v, series, y * w + x, out);
        put_label(v, series, n_series, y, label_line, out);
        lc_text_puts(out, "\n");
    }
    free(label_line);
}

static void put_axis(const struct lc_chart *c, size_t n, struct lc_text *out)
{
    const char *end = lc_thousands(n);
    lc_text_puts(out, "          +");
    for (size_t x = 0; x < c->width; x++)
        lc_text_puts(out, "-");
    size_t used = strlen(c->x_label) + strlen(end) + 1;
    lc_text_printf(out, "\n           1%*s%s %s\n", (int)(c->width > used + 1 ? c->width - used - 1 : 1), "",
                   c->x_label, end);
}

void lc_chart_draw(const struct lc_chart *c, const struct ld_ope_series *series, size_t n_series, struct lc_text *out)
{
    struct canvas v = {.chart = c, .dots_x = c->width, .dots_y = c->height};
    size_t longest = 0;
    if (c->is_coloured) {
        v.dots_x *= 2;
        v.dots_y *= 4;
    }
    v.dots = lc_alloc(c->width * c->height, sizeof *v.dots);
    v.owner = lc_alloc(c->width * c->height, sizeof *v.owner);
    memset(v.owner, -1, c->width * c->height);
    find_range(&v, series, n_series);
    for (size_t s = 0; s < n_series; s++) {
        draw_series(&v, &series[s], s);
        longest = series[s].n > longest ? series[s].n : longest;
    }
    put_lines(&v, series, n_series, out);
    put_axis(c, longest, out);
    free(v.dots);
    free(v.owner);
}
