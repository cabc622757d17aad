/* How the time of a step grows: with the rounds t at a fixed dictionary, and with the dictionary's size m.
 *
 *   step       decide among ten arms, learn, settle: CPU seconds of the learner (pb_record.seconds)
 *   over t     at most M points, filled in the first rounds; EK's cost of a step then does not depend on t, and that
 *              of exact K-UCB grows with t^2 [EK, Alg. 1, 2];
 *              CBBKB redraws over the history now and then
 *   over m     m = 64 ... 1,024 points, timed once the dictionary is full; EK: m^2
 *   exponent   slope of ln(seconds) over ln(t or m) by least squares, each point the mean over the runs
 *
 * On Bump, since its kernel in six dimensions is close to the identity: every point is worth admitting, so that any
 * dictionary fills in about as many rounds as it has places. Runs follow one another in this process: two at a time
 * would slow each other down. The first intervals are left out of fits over t: admissions stand in them.
 *
 * Files: ek-time.jsonl (the runs' records), ek-time.md (table), ek-time.dat, ek-time.gp, ek-time.svg. Two minutes. */
#include "paper/env_ek.h"

#include <math.h>
#include <stdio.h>

#include "paper/frame.h"

#define NAME "ek-time"
#define LAMBDA 10.0
#define N_CURVES 4
#define FIXED_POINTS 256
#define BATCH 10      /* C of CBBKB; q = 10 C */
#define FIT_FROM 1000 /* rounds */

/* A curve: seconds per step over t or over m. */
struct series {
    char name[32];
    const char *preset;
    bool is_over_points;
    size_t rounds;         /* over t: of a run */
    size_t largest;        /* over t: the dictionary's places; 0: as many as come */
    const char *predicted; /* the exponent that EK gives */
    size_t n;
    double x[PB_MAX_CHECKPOINTS], y[PB_MAX_CHECKPOINTS];
    double exponent;
};

/* What a call works with. */
struct bench {
    uint64_t seed;
    size_t reps;
    FILE *records;
};

static const struct pb_setting bump = {.name = "bump", .open = pb_ek_open, .value = {PB_EK_BUMP}};

/* --- runs -------------------------------------------------------------------------------------------------------- */

/* One run at gamma = mu = lambda: everything that adds a direction is admitted while there is room. */
static enum kb_err run_once(const struct bench *b, const struct series *s, size_t rep, size_t rounds, size_t largest,
                            struct pb_record *out)
{
    char name[48];
    snprintf(name, sizeof name, largest > 0 ? "%s-p%zu" : "%s", s->preset, largest);
    const struct pb_algorithm algorithm = {.name = name,
                                           .preset = s->preset,
                                           .tune = pb_ek_tune,
                                           .value = {LAMBDA, LAMBDA, LAMBDA, (double)largest, 10 * BATCH, BATCH}};
    enum kb_err rc = pb_run(&bump, &algorithm, b->seed + rep, rounds, out);
    if (rc != KB_OK)
        return rc;
    out->experiment = NAME;
    pb_record_write(b->records, out);
    out->algorithm = s->preset; /* the name does not outlive this call */
    return KB_OK;
}

/* Seconds per step between checkpoints, at the middle of each interval. */
static enum kb_err time_over_rounds(const struct bench *b, struct series *s)
{
    struct pb_record r;
    for (size_t rep = 0; rep < b->reps; rep++) {
        enum kb_err rc = run_once(b, s, rep, s->rounds, s->largest, &r);
        if (rc != KB_OK)
            return rc;
        s->n = r.n_checkpoints - 1;
        for (size_t i = 0; i < s->n; i++) {
            s->x[i] = (double)(r.at[i] + r.at[i + 1]) / 2;
            s->y[i] += (r.seconds[i + 1] - r.seconds[i]) / (double)(r.at[i + 1] - r.at[i]) / (double)b->reps;
        }
    }
    return KB_OK;
}

/* Seconds per step from the first checkpoint with a full dictionary on. NaN when it never filled. */
static double seconds_when_full(const struct pb_record *r, size_t points)
{
    size_t first = 0, last = r->n_checkpoints - 1;
    while (first < last && r->dictionary[first] < points)
        first++;
    return first == last ? (double)NAN : (r->seconds[last] - r->seconds[first]) / (double)(r->at[last] - r->at[first]);
}

/* Twice as many rounds as points and 500 more: half of them or more are timed. */
static enum kb_err time_over_points(const struct bench *b, struct series *s)
{
    static const size_t points[] = {64, 128, 256, 512, 1024};
    struct pb_record r;
    s->n = sizeof points / sizeof points[0];
    for (size_t i = 0; i < s->n; i++) {
        s->x[i] = (double)points[i];
        for (size_t rep = 0; rep < b->reps; rep++) {
            enum kb_err rc = run_once(b, s, rep, 2 * points[i] + 500, points[i], &r);
            if (rc != KB_OK)
                return rc;
            s->y[i] += seconds_when_full(&r, points[i]) / (double)b->reps;
        }
    }
    return KB_OK;
}

static double fitted_exponent(const struct series *s, double from)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->x[i] < from)
            continue;
        double x = log(s->x[i]), y = log(s->y[i]);
        n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

/* A row per curve; what the fit leaves out is left out here, too. */
static void put_rows(FILE *f, const void *curves)
{
    const struct series *s = curves;
    fputs("| curve | from | to | ms/step at the ends | exponent | EK |\n|---|---|---|---|---|---|\n", f);
    for (size_t k = 0; k < N_CURVES; k++) {
        size_t first = 0, last = s[k].n - 1;
        while (!s[k].is_over_points && s[k].x[first] < FIT_FROM)
            first++;
        fprintf(f, "| %s over %c | %.0f | %.0f | %.3f, %.3f | %.3f | %s |\n", s[k].name,
                s[k].is_over_points ? 'm' : 't', s[k].x[first], s[k].x[last], 1e3 * s[k].y[first], 1e3 * s[k].y[last],
                s[k].exponent, s[k].predicted);
    }
}

static void put_data(FILE *f, const void *curves)
{
    const struct series *s = curves;
    for (size_t k = 0; k < N_CURVES; k++) {
        fprintf(f, "# %s\n", s[k].name);
        for (size_t i = 0; i < s[k].n; i++)
            fprintf(f, "%.10g %.10g\n", s[k].x[i], 1e3 * s[k].y[i]);
        fputs("\n\n", f);
    }
}

/* The curves over t, or those over m, on logarithmic axes: an exponent is a slope. */
static void put_panel(FILE *f, const struct series *s, bool is_over_points)
{
    const char *separator = "plot";
    fprintf(f, "set xlabel \"%s\"\n", is_over_points ? "dictionary points" : "round");
    for (size_t k = 0; k < N_CURVES; k++) {
        if (s[k].is_over_points != is_over_points)
            continue;
        fprintf(f, "%s \"%s.dat\" index %zu with linespoints lw 2 pt 7 ps 0.4 title \"%s, exponent %.2f\" noenhanced",
                separator, NAME, k, s[k].name, s[k].exponent);
        separator = ", \\\n ";
    }
    fputs("\n", f);
}

static void put_plot(FILE *f, const void *curves)
{
    fprintf(f,
            "set terminal svg size 840,340 dynamic background rgb \"white\"\nset output \"%s.svg\"\n"
            "set multiplot layout 1,2\nset logscale xy\nset grid\nset key top left Left reverse samplen 1\nset ylabel "
            "\"milliseconds per step\"\n",
            NAME);
    put_panel(f, curves, false);
    put_panel(f, curves, true);
    fputs("unset multiplot\n", f);
}

/* --- the experiment --------------------------------------------------------------------------------------------- */

/* The `custom` of the experiment: curves one after the other, then the files. k-ucb stops at 4,000 rounds, where a step
 * costs a hundred times EK-UCB's and its slope is clear. */
static enum kb_err run_time(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir, FILE *lines)
{
    struct series s[N_CURVES] = {
        {.name = "ek-ucb, 256 points",
         .preset = "ek-ucb",
         .rounds = x->rounds,
         .largest = FIXED_POINTS,
         .predicted = "0"},
        {.name = "cbbkb, 256 points", .preset = "bbkb", .rounds = x->rounds, .largest = FIXED_POINTS, .predicted = "-"},
        {.name = "k-ucb", .preset = "k-ucb", .rounds = 4000, .predicted = "2"},
        {.name = "ek-ucb", .preset = "ek-ucb", .is_over_points = true, .predicted = "2"},
    };
    const struct bench b = {.seed = seed, .reps = reps, .records = lines};
    enum kb_err rc;
    for (size_t k = 0; k < N_CURVES; k++) {
        fprintf(stderr, "%s: %s over %s\n", x->name, s[k].name, s[k].is_over_points ? "points" : "rounds");
        KB_TRY((s[k].is_over_points ? time_over_points : time_over_rounds)(&b, &s[k]));
        s[k].exponent = fitted_exponent(&s[k], s[k].is_over_points ? 0 : FIT_FROM);
    }
    KB_TRY(pb_write_table(x, dir, put_rows, s));
    KB_TRY(pb_write(dir, NAME, ".dat", put_data, s));
    rc = pb_draw(dir, NAME, put_plot, s);
out:
    return rc;
}

const struct pb_experiment pb_ek_time = {
    .name = NAME,
    .about = "EK: time of a step against rounds at a fixed dictionary, and against the dictionary's size",
    .rounds = 10000,
    .reps = 3,
    .custom = run_time,
};
