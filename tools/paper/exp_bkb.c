/* bkb-starvation: BKB's Figure 1, and in numbers what it shows.
 *
 *   ratio   the dictionary's variance (DTC) / the exact one, over the grid on [0,1]; BKB's theory wants it within
 *           [1/3, 3] at epsilon = 1/2, for q in the hundreds; small q show where it breaks
 *   unseen  the three variances at x = 3/4, a quarter away from the last observation: they must stay near 1
 *   size    points drawn
 *   rank    those of them that add a direction
 *
 * The figure states neither lambda nor q nor the noise: starvation.c says what stands here; q is 1, 2, 5, and the
 * theory's for epsilon = 1/2, delta = .1 and T = 215: 6 alpha ln(4 T / delta) / epsilon^2 = 652, alpha = 3  [BKB, Thm
 * 1].
 *
 * Files: bkb-starvation.jsonl (a line per seed, q and t), .md (ranges over the seeds), .dat, .gp and .svg (the first
 * seed: mean -+ 3 sd, a column for each t, a row for each q). A second for ten seeds. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "paper/starvation.h"

#define NAME "bkb-starvation"
#define N_T 3
#define N_Q 4
#define UNSEEN (3 * (PB_STARVATION_GRID - 1) / 4) /* index of x = 3/4 */

static const size_t times[N_T] = {6, 63, PB_STARVATION_POINTS};
static const double oversampling[N_Q] = {1, 2, 5, 652};

/* Smallest and largest over the seeds, for one q and t. */
struct range {
    double least, most;
};
struct summary {
    struct range ratio, exact, dtc, regressors, n_chosen, rank;
};

struct report {
    FILE *lines, *data;
    struct summary summary[N_Q][N_T];
};

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* Over the whole interval: where nothing was observed both are near 1, where much was, a lost point shows. */
static struct range ratio_range(const struct pb_starvation *v)
{
    struct range r = {INFINITY, 0};
    for (size_t i = 0; i < PB_STARVATION_GRID; i++) {
        r.least = fmin(r.least, v->dtc[i] / v->exact[i]);
        r.most = fmax(r.most, v->dtc[i] / v->exact[i]);
    }
    return r;
}

/* An empty range takes the value: most 0 and least 0 mean nothing was seen, as no quantity here is 0 at most. */
static void widen(struct range *r, double least, double most)
{
    r->least = r->most > 0 ? fmin(r->least, least) : least;
    r->most = fmax(r->most, most);
}

/* Takes one seed's numbers into the ranges of its q and t. */
static void summarise(struct summary *s, const struct pb_starvation *v)
{
    struct range ratio = ratio_range(v);
    widen(&s->ratio, ratio.least, ratio.most);
    widen(&s->exact, v->exact[UNSEEN], v->exact[UNSEEN]);
    widen(&s->dtc, v->dtc[UNSEEN], v->dtc[UNSEEN]);
    widen(&s->regressors, v->regressors[UNSEEN], v->regressors[UNSEEN]);
    widen(&s->n_chosen, (double)v->n_chosen, (double)v->n_chosen);
    widen(&s->rank, (double)v->rank, (double)v->rank);
}

/* One JSON object with all digits: what the table's ranges are made of. */
static void put_line(FILE *f, uint64_t seed, double q, const struct pb_starvation *v)
{
    struct range ratio = ratio_range(v);
    fprintf(f,
            "{\"experiment\":\"%s\",\"seed\":%llu,\"q\":%g,\"t\":%zu,\"size\":%zu,\"rank\":%zu,\"ratio_least\":%.17g,"
            "\"ratio_most\":%.17g,\"unseen_exact\":%.17g,\"unseen_dtc\":%.17g,\"unseen_regressors\":%.17g}\n",
            NAME, (unsigned long long)seed, q, v->t, v->n_chosen, v->rank, ratio.least, ratio.most, v->exact[UNSEEN],
            v->dtc[UNSEEN], v->regressors[UNSEEN]);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* Two blocks: the curves (x, exact mean and sd, the dictionary's mean and sd, the regressors' sd), then the
 * observations. */
static void put_curves(FILE *f, double q, const struct pb_starvation *v)
{
    fprintf(f, "# q %g, t %zu\n", q, v->t);
    for (size_t i = 0; i < PB_STARVATION_GRID; i++)
        fprintf(f, "%g %.6g %.6g %.6g %.6g %.6g\n", (double)i / (PB_STARVATION_GRID - 1), v->exact_mean[i],
                sqrt(v->exact[i]), v->mean[i], sqrt(v->dtc[i]), sqrt(v->regressors[i]));
    fputs("\n\n# observations\n", f);
    for (size_t i = 0; i < v->t; i++)
        fprintf(f, "%.6g %.6g\n", v->x[i], v->y[i]);
    fputs("\n\n", f);
}

/* Exact as a grey band; the other two as the edges of theirs, so that all three can be told apart where they agree. */
static void put_panel(FILE *f, size_t iq, size_t it)
{
    size_t curves = 2 * (iq * N_T + it);
    fprintf(f,
            "set title \"q = %g, t = %zu\"\n"
            "plot d index %zu using 1:($2-3*$3):($2+3*$3) with filledcurves fc rgb \"#d8d8d8\" title \"exact\", \\\n"
            " d index %zu using 1:($4-3*$5) with lines lw 1.5 lc 1 title \"dictionary\", \\\n"
            " d index %zu using 1:($4+3*$5) with lines lw 1.5 lc 1 notitle, \\\n"
            " d index %zu using 1:($4-3*$6) with lines lw 1.5 dt 2 lc 2 title \"subset of regressors\", \\\n"
            " d index %zu using 1:($4+3*$6) with lines lw 1.5 dt 2 lc 2 notitle, \\\n"
            " d index %zu using 1:2 with lines lc rgb \"black\" notitle, \\\n"
            " d index %zu using 1:2 with points pt 7 ps 0.25 lc rgb \"black\" notitle\n",
            oversampling[iq], times[it], curves, curves, curves, curves, curves, curves, curves + 1);
}

static void put_plot(FILE *f, const void *arg)
{
    (void)arg;
    fprintf(f,
            "set terminal svg size 1260,1360 dynamic background rgb \"white\"\nset output \"%s.svg\"\nd = \"%s.dat\"\n"
            "set multiplot layout %d,%d\nset xrange [0:1]\nset yrange [-7:5]\nset key bottom right\n",
            NAME, NAME, N_Q, N_T);
    for (size_t iq = 0; iq < N_Q; iq++)
        for (size_t it = 0; it < N_T; it++)
            put_panel(f, iq, it);
    fputs("unset multiplot\n", f);
}

static void put_table(FILE *f, const void *report)
{
    const struct report *r = report;

    fputs(
        "| q | t | dictionary / exact over [0,1] | at 3/4: exact | dictionary | subset of regressors | size | rank |\n"
        "|---|---|---|---|---|---|---|---|\n",
        f);
    for (size_t iq = 0; iq < N_Q; iq++)
        for (size_t it = 0; it < N_T; it++) {
            const struct summary *s = &r->summary[iq][it];
            fprintf(f, "| %g | %zu | %.2f-%.2f | %.3f-%.3f | %.3f-%.3f | %.4f-%.4f | %.0f-%.0f | %.0f-%.0f |\n",
                    oversampling[iq], times[it], s->ratio.least, s->ratio.most, s->exact.least, s->exact.most,
                    s->dtc.least, s->dtc.most, s->regressors.least, s->regressors.most, s->n_chosen.least,
                    s->n_chosen.most, s->rank.least, s->rank.most);
        }
}

/* --- the experiment --------------------------------------------------------------------------------------------- */

/* All q and t of a seed: the same observations for every q, since those are keyed by the seed alone. The curves are
 * large, hence on the heap; drawn for one seed only. */
static enum kb_err play_seed(struct report *r, uint64_t seed, bool is_drawn)
{
    enum kb_err rc = KB_OK;
    struct pb_starvation *v = kb_array(N_T, 1, sizeof *v);
    if (v == NULL)
        return KB_ENOMEM;
    for (size_t iq = 0; iq < N_Q; iq++) {
        KB_TRY(pb_starvation_play(seed, oversampling[iq], times, N_T, v));
        for (size_t it = 0; it < N_T; it++) {
            summarise(&r->summary[iq][it], &v[it]);
            put_line(r->lines, seed, oversampling[iq], &v[it]);
            if (is_drawn)
                put_curves(r->data, oversampling[iq], &v[it]);
        }
    }
out:
    kb_free(v);
    return rc;
}

/* The `custom` of the experiment. Files are written as far as things go well. */
static enum kb_err run_starvation(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir,
                                  FILE *lines)
{
    struct report r = {.lines = lines, .data = pb_create(dir, NAME, ".dat")};
    enum kb_err rc = r.data != NULL ? KB_OK : KB_EINVAL;
    KB_TRY(rc);
    for (size_t i = 0; i < reps; i++)
        KB_TRY(play_seed(&r, seed + i, i == 0));
    KB_TRY(pb_write_table(x, dir, put_table, &r));
    fflush(r.data); /* gnuplot reads it */
    KB_TRY(pb_draw(dir, NAME, put_plot, NULL));
out:
    if (r.data != NULL)
        fclose(r.data);
    return rc;
}

const struct pb_experiment pb_bkb_starvation = {
    .name = NAME,
    .about = "BKB Fig. 1: variance where nothing was observed, by the dictionary and by the subset of regressors",
    .rounds = PB_STARVATION_POINTS,
    .reps = 10,
    .custom = run_starvation,
};
