/* bounds-width: our bounds' half widths over dictionaries beside those over all points, d = 3, B = 10, sigma = .1,
 * delta = .01, T = 300 (width.c says how they come about).
 *
 * A narrower bound over a dictionary is not a smaller claim but a better use of the same observations; a wider one is
 * the price of a model with fewer points. Columns are rules: cmm, dmm and amm in the form cross unless they say
 * otherwise. `outside` counts arms whose true value lies outside of some rule's bounds: there should be none.
 *
 * Files: DIR/bounds-width.jsonl, a line per setting, seed and model; DIR/bounds-width.md, means over seeds. */
#include <math.h>
#include <stdio.h>

#include "paper/width.h"

#define NAME "bounds-width"
#define ROUNDS 300u

static const struct pb_setting settings[] = {PB_TC_SETTING("rbf .5", KB_VEC_RBF, .5, 3, .1, 10),
                                             PB_TC_SETTING("rbf .2", KB_VEC_RBF, .2, 3, .1, 10),
                                             PB_TC_SETTING("matern52 .5", KB_VEC_MATERN52, .5, 3, .1, 10),
                                             PB_TC_SETTING("matern32 .5", KB_VEC_MATERN32, .5, 3, .1, 10)};
#define N_SETTINGS PB_COUNT(settings)

/* Sums over the seeds. */
struct sums {
    FILE *lines;
    size_t reps;
    double points[N_SETTINGS][PB_WIDTH_N_MODELS], half[N_SETTINGS][PB_WIDTH_N_MODELS][PB_WIDTH_N_RULES];
    size_t n_outside[N_SETTINGS][PB_WIDTH_N_MODELS];
};

/* JSON has no NaN: what a rule does not bound is null. */
static void put_line(FILE *f, const char *setting, const char *model, uint64_t seed, const struct pb_width *w)
{
    fprintf(f,
            "{\"experiment\":\"%s\",\"setting\":\"%s\",\"model\":\"%s\",\"seed\":%llu,\"points\":%zu,\"outside\":%zu",
            NAME, setting, model, (unsigned long long)seed, w->n_points, w->n_outside);
    for (size_t k = 0; k < PB_WIDTH_N_RULES; k++) {
        fprintf(f, ",\"%s\":", pb_width_rules[k].name);
        if (isnan(w->half[k]))
            fputs("null", f);
        else
            fprintf(f, "%.10g", w->half[k]);
    }
    fputs("}\n", f);
}

static enum kb_err measure(struct sums *s, size_t i, uint64_t seed)
{
    struct pb_width w[PB_WIDTH_N_MODELS];
    const enum kb_err rc = pb_width_measure(&settings[i], seed, ROUNDS, w);

    for (size_t m = 0; rc == KB_OK && m < PB_WIDTH_N_MODELS; m++) {
        put_line(s->lines, settings[i].name, pb_width_models[m].name, seed, &w[m]);
        s->points[i][m] += (double)w[m].n_points;
        s->n_outside[i][m] += w[m].n_outside;
        for (size_t k = 0; k < PB_WIDTH_N_RULES; k++)
            s->half[i][m][k] += w[m].half[k];
    }
    return rc;
}

static void put_row(FILE *f, const struct sums *s, size_t i, size_t m, double by)
{
    fprintf(f, "| %s | %s | %.0f |", settings[i].name, pb_width_models[m].name, by * s->points[i][m]);
    for (size_t k = 0; k < PB_WIDTH_N_RULES; k++) {
        if (isnan(s->half[i][m][k]))
            fputs(" - |", f);
        else
            fprintf(f, " %.2f |", by * s->half[i][m][k]);
    }
    fprintf(f, " %zu |\n", s->n_outside[i][m]);
}

static void put_table(FILE *f, const void *sums)
{
    const struct sums *s = sums;

    fputs("| kernel | model | points |", f);
    for (size_t k = 0; k < PB_WIDTH_N_RULES; k++)
        fprintf(f, " %s |", pb_width_rules[k].name);
    fputs(" outside |\n|---|---|---|", f);
    for (size_t k = 0; k <= PB_WIDTH_N_RULES; k++)
        fputs("---|", f);
    fputs("\n", f);
    for (size_t i = 0; i < N_SETTINGS; i++)
        for (size_t m = 0; m < PB_WIDTH_N_MODELS; m++)
            put_row(f, s, i, m, 1 / (double)s->reps);
}

static enum kb_err run_width(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir, FILE *lines)
{
    struct sums s = {.lines = lines, .reps = reps};
    enum kb_err rc;

    for (size_t r = 0; r < reps; r++)
        for (size_t i = 0; i < N_SETTINGS; i++)
            KB_TRY(measure(&s, i, seed + r));
    rc = pb_write_table(x, dir, put_table, &s);
out:
    return rc;
}

const struct pb_experiment pb_bounds_width = {
    .name = NAME,
    .about = "half widths of the bounds over dictionaries and over all points, after 300 rounds of exact DMM-UCB",
    .rounds = ROUNDS,
    .reps = 8,
    .custom = run_width,
};
