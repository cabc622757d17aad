/* tc-fig1: how wide bounds are on a line, where it was observed, in the gap between, and beyond [TC, Fig. 1]
 * (tc_bands.c has the setting).
 *
 *   all        mean half width over 101 points of [-1, 1], with its standard error over seeds
 *   observed   likewise over the points of [-.8, -.2] and [.2, .8];  gap: of (-.2, .2);  edges: beyond .8
 *   outside    points whose f lies outside of the bounds, all seeds together: there should be none
 *
 * Files: DIR/tc-fig1.jsonl, a line per rule and seed; DIR/tc-fig1.md, means over seeds; DIR/tc-fig1.dat, .gp and .svg,
 * the first seed. */
#include <math.h>
#include <stdio.h>

#include "paper/tc_bands.h"

#define NAME "tc-fig1"
#define N_PARTS 4u

/* Parts of the line, each of them the columns' i-th half width. */
enum part { ALL, OBSERVED, GAP, EDGES };
static const char *const parts[N_PARTS] = {"all", "observed", "gap", "edges"};

/* Running sums over the seeds. */
struct figures {
    FILE *lines, *data;
    size_t reps;
    double sum[PB_BANDS_N_RULES][N_PARTS], square[PB_BANDS_N_RULES]; /* the squares: of all */
    size_t n_outside[PB_BANDS_N_RULES];
    double least, most; /* of all bounds that are drawn */
};

/* Points lie at hundredths: half of one keeps rounding away. */
static enum part part_of(double x)
{
    return fabs(x) < 0.195 ? GAP : fabs(x) > 0.805 ? EDGES : OBSERVED;
}

/* Mean half widths of a rule by part; returns how many points are outside. */
static size_t summarise(const struct pb_bands *b, size_t k, double half[N_PARTS])
{
    size_t n[N_PARTS] = {0}, n_outside = 0;

    for (size_t p = 0; p < N_PARTS; p++)
        half[p] = 0;
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        const enum part in[] = {ALL, part_of(pb_bands_point(i))};
        for (size_t p = 0; p < 2; p++) {
            half[in[p]] += (b->upper[k][i] - b->lower[k][i]) / 2;
            n[in[p]]++;
        }
        n_outside += !(b->lower[k][i] <= b->f[i] && b->f[i] <= b->upper[k][i]);
    }
    for (size_t p = 0; p < N_PARTS; p++)
        half[p] /= (double)n[p];
    return n_outside;
}

static void take(struct figures *s, uint64_t seed, const struct pb_bands *b)
{
    for (size_t k = 0; k < PB_BANDS_N_RULES; k++) {
        double half[N_PARTS];
        const size_t n_outside = summarise(b, k, half);

        fprintf(s->lines, "{\"experiment\":\"%s\",\"algorithm\":\"%s\",\"seed\":%llu,\"outside\":%zu", NAME,
                pb_bands_rules[k].name, (unsigned long long)seed, n_outside);
        for (size_t p = 0; p < N_PARTS; p++) {
            fprintf(s->lines, ",\"%s\":%.10g", parts[p], half[p]);
            s->sum[k][p] += half[p];
        }
        fputs("}\n", s->lines);
        s->square[k] += half[ALL] * half[ALL];
        s->n_outside[k] += n_outside;
    }
}

/* ---- output ------------------------------------------------------------------------------------------------ */

static void put_table(FILE *f, const void *figures)
{
    const struct figures *s = figures;
    const double n = (double)s->reps;

    fputs("| rule | seeds | all | ± se | observed | gap | edges | outside |\n|---|---|---|---|---|---|---|---|\n", f);
    for (size_t k = 0; k < PB_BANDS_N_RULES; k++) {
        const double mean = s->sum[k][ALL] / n, variance = n > 1 ? (s->square[k] - n * mean * mean) / (n - 1) : 0;

        fprintf(f, "| %s | %zu | %.3f | %.3f | %.3f | %.3f | %.3f | %zu |\n", pb_bands_rules[k].name, s->reps, mean,
                sqrt(fmax(0, variance) / n), s->sum[k][OBSERVED] / n, s->sum[k][GAP] / n, s->sum[k][EDGES] / n,
                s->n_outside[k]);
    }
}

/* Two blocks: x, f, and each rule's lower and upper bound; then the observations. */
static void put_curves(struct figures *s, const struct pb_bands *b)
{
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        fprintf(s->data, "%.4g %.6g", pb_bands_point(i), b->f[i]);
        for (size_t k = 0; k < PB_BANDS_N_RULES; k++) {
            fprintf(s->data, " %.6g %.6g", b->lower[k][i], b->upper[k][i]);
            s->least = fmin(s->least, b->lower[k][i]);
            s->most = fmax(s->most, b->upper[k][i]);
        }
        fputs("\n", s->data);
    }
    fputs("\n\n# observations\n", s->data);
    for (size_t i = 0; i < PB_BANDS_OBSERVED; i++)
        fprintf(s->data, "%.6g %.6g\n", b->x[i], b->y[i]);
}

/* One range for all, as the figure has it. */
static void put_script(FILE *f, const void *figures)
{
    const struct figures *s = figures;

    fprintf(f,
            "set terminal svg size 1260,560 dynamic background rgb \"white\"\nset output \"%s.svg\"\nd = \"%s.dat\"\n"
            "set yrange [%.3g:%.3g]\nset xrange [-1:1]\nset grid\nunset key\nset multiplot layout 2,3\n",
            NAME, NAME, s->least - 0.5, s->most + 0.5);
    for (size_t k = 0; k < PB_BANDS_N_RULES; k++)
        fprintf(f,
                "set title \"%s\"\nplot d index 0 using 1:%zu:%zu with filledcurves fc rgb \"#9cc5a1\", "
                "d index 0 using 1:2 with lines dt 2 lc rgb \"black\", "
                "d index 1 using 1:2 with points pt 7 ps 0.3 lc rgb \"#1f4e79\"\n",
                pb_bands_rules[k].name, 2 * k + 3, 2 * k + 4);
    fputs("unset multiplot\n", f);
}

/* The `custom` of the experiment. */
static enum kb_err run_fig1(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir, FILE *lines)
{
    struct figures s = {.lines = lines, .data = pb_create(dir, NAME, ".dat"), .reps = reps};
    struct pb_bands b;
    enum kb_err rc = s.data != NULL ? KB_OK : KB_EINVAL;

    KB_TRY(rc);
    for (size_t i = 0; i < reps; i++) {
        KB_TRY(pb_bands_measure(seed + i, &b));
        take(&s, seed + i, &b);
        if (i == 0)
            put_curves(&s, &b);
    }
    fflush(s.data); /* gnuplot reads it */
    KB_TRY(pb_write_table(x, dir, put_table, &s));
    rc = pb_draw(dir, NAME, put_script, &s);
out:
    if (s.data != NULL)
        fclose(s.data);
    return rc;
}

const struct pb_experiment pb_tc_fig1 = {
    .name = NAME,
    .about = "TC, Figure 1: bounds of a function on a line from fifty observations, Matern 3/2 with lengthscale 0.5",
    .rounds = PB_BANDS_OBSERVED,
    .reps = 20,
    .plot = PB_PLOT_NONE,
    .custom = run_fig1,
};
