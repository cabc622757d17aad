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
#define COUNT(a) (sizeof(a) / sizeof *(a))

#define SETTING(name_, type, l)                                                                                        \
    {                                                                                                                  \
        .name = name_, .open = pb_tc_open, .value = {                                                                  \
            [PB_TC_KERNEL] = type,                                                                                     \
            [PB_TC_LENGTHSCALE] = l,                                                                                   \
            [PB_TC_DIM] = 3,                                                                                           \
            [PB_TC_NOISE] = .1,                                                                                        \
            [PB_TC_NORM] = 10                                                                                          \
        }                                                                                                              \
    }
static const struct pb_setting settings[] = {SETTING("rbf .5", KB_VEC_RBF, .5), SETTING("rbf .2", KB_VEC_RBF, .2),
                                             SETTING("matern52 .5", KB_VEC_MATERN52, .5),
                                             SETTING("matern32 .5", KB_VEC_MATERN32, .5)};

/* Sums over the seeds. */
struct sums {
    FILE *lines;
    double points[COUNT(settings)][PB_WIDTH_N_MODELS], half[COUNT(settings)][PB_WIDTH_N_MODELS][PB_WIDTH_N_RULES];
    size_t n_outside[COUNT(settings)][PB_WIDTH_N_MODELS];
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

/* Markdown, which is as readable on a terminal. */
static void put_table(FILE *f, const struct sums *s, size_t reps)
{
    fputs("| kernel | model | points |", f);
    for (size_t k = 0; k < PB_WIDTH_N_RULES; k++)
        fprintf(f, " %s |", pb_width_rules[k].name);
    fputs(" outside |\n|---|---|---|", f);
    for (size_t k = 0; k <= PB_WIDTH_N_RULES; k++)
        fputs("---|", f);
    fputs("\n", f);
    for (size_t i = 0; i < COUNT(settings); i++)
        for (size_t m = 0; m < PB_WIDTH_N_MODELS; m++)
            put_row(f, s, i, m, 1 / (double)reps);
}

static enum kb_err write_report(const struct sums *s, const struct pb_experiment *x, const char *dir, size_t reps)
{
    FILE *f = pb_create(dir, NAME, ".md");

    if (f == NULL)
        return KB_EINVAL;
    printf("\n%s: %s\n\n", x->name, x->about);
    put_table(stdout, s, reps);
    fprintf(f, "## %s\n\n%s\n\n", x->name, x->about);
    put_table(f, s, reps);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* The `custom` of the experiment. */
static enum kb_err run_width(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *out_dir)
{
    struct sums s = {.lines = pb_create(out_dir, NAME, ".jsonl")};
    enum kb_err rc = s.lines != NULL ? KB_OK : KB_EINVAL;

    for (size_t r = 0; r < reps; r++)
        for (size_t i = 0; i < COUNT(settings); i++)
            KB_TRY(rc == KB_OK ? measure(&s, i, seed + r) : rc);
    KB_TRY(rc);
    KB_TRY(write_report(&s, x, out_dir, reps));
out:
    if (s.lines != NULL && fclose(s.lines) != 0 && rc == KB_OK)
        rc = KB_EINVAL;
    return rc;
}

static const struct pb_experiment width = {
    .name = NAME,
    .about = "half widths of the bounds over dictionaries and over all points, after 300 rounds of exact DMM-UCB",
    .rounds = ROUNDS,
    .reps = 8,
    .custom = run_width,
};

const struct pb_experiment *const pb_width_experiments[] = {&width, NULL};
