/* lk-rank: information gain, effective dimension and ranks of LK's kernel over graphs, users and rounds [LK, Fig. 1].
 *
 * As in the figure: d = 5, x ~ U[0,1]^5, the complete and the empty graph; between them ER (.2) and four blocks, which
 * are ours. Ours, too: the SE kernel's l = 1, rho .1, lambda .1, uniform users, a fresh context in every round, and the
 * bounds (lk_rank.c has their proofs).
 *
 * What to look for: on a complete graph L_rho^-1 tends to rank 1, so gamma_T hardly grows with the number of users (it
 * may fall, since a user's prior variance does), while users on their own multiply it.
 *
 * Output: DIR/lk-rank.jsonl, a line per (graph, n, T, seed); DIR/lk-rank.md, means over seeds for every n at the
 * longest horizon and every horizon at n = 100; DIR/lk-rank.dat and .gp, all means, and the plot. Cost: an
 * eigendecomposition of order T for each line, 9 T^3 flops, hence T <= 1,000; about a minute for five seeds. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "paper/exp_lk.h"
#include "paper/lk_rank.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
/* From one cluster to none. */
static const struct {
    const char *name;
    enum pb_lk_graph graph;
} graphs[] = {{"complete", PB_LK_COMPLETE}, {"er", PB_LK_ER}, {"sbm", PB_LK_SBM}, {"empty", PB_LK_ALONE}};
static const size_t users[] = {10, 20, 50, 100, 200}, horizons[] = {100, 200, 500, 1000};
#define N_GRAPHS COUNT(graphs)
#define N_USERS COUNT(users)
#define N_HORIZONS COUNT(horizons)
#define MOST_ROUNDS 1000u
#define SHOWN_USERS 100u /* the table's, where it goes over horizons */

/* Sums over seeds. */
struct sums {
    FILE *lines;
    struct pb_lk_rank_figures of[N_GRAPHS][N_USERS][N_HORIZONS];
};

/* JSON has no NaN: a cell without a bound has no such member. */
static void put_line(FILE *f, const char *graph, size_t n, uint64_t seed, size_t rounds,
                     const struct pb_lk_rank_figures *x)
{
    fprintf(f,
            "{\"experiment\":\"lk-rank\",\"setting\":\"%s-n%zu\",\"seed\":%llu,\"rounds\":%zu,"
            "\"information_gain\":%.10g,\"effective_dimension\":%.10g,\"user_rank\":%.0f,\"gram_rank\":%.0f",
            graph, n, (unsigned long long)seed, rounds, x->gain, x->dimension, x->user_rank, x->gram_rank);
    if (!isnan(x->bound))
        fprintf(f, ",\"bound\":%.10g", x->bound);
    fputs("}\n", f);
}

static void add(struct pb_lk_rank_figures *sum, const struct pb_lk_rank_figures *x)
{
    sum->gain += x->gain;
    sum->dimension += x->dimension;
    sum->user_rank += x->user_rank;
    sum->gram_rank += x->gram_rank;
    sum->bound += x->bound;
}

/* All graphs and n over one horizon of the seed in hand: the contexts' spectrum is found once. */
static enum kb_err measure_horizon(struct sums *s, struct pb_lk_rank *r, size_t h)
{
    enum kb_err rc = KB_OK;

    for (size_t g = 0; g < N_GRAPHS; g++)
        for (size_t i = 0; i < N_USERS; i++) {
            struct pb_lk_rank_figures x;

            KB_TRY(pb_lk_rank_measure(r, graphs[g].graph, users[i], horizons[h], &x));
            put_line(s->lines, graphs[g].name, users[i], r->seed, horizons[h], &x);
            add(&s->of[g][i][h], &x);
        }
out:
    return rc;
}

/* --- output ----------------------------------------------------------------------------------------------- */

static struct pb_lk_rank_figures mean_of(const struct pb_lk_rank_figures *sum, size_t reps)
{
    const double by = 1.0 / (double)reps;

    return (struct pb_lk_rank_figures){by * sum->gain, by * sum->dimension, by * sum->user_rank, by * sum->gram_rank,
                                       by * sum->bound};
}

/* A block per graph, a line per (n, T): n T gain dimension user_rank gram_rank bound. */
static enum kb_err write_data(const struct sums *s, const char *dir, size_t reps)
{
    FILE *f = pb_create(dir, "lk-rank", ".dat");

    if (f == NULL)
        return KB_EINVAL;
    for (size_t g = 0; g < N_GRAPHS; g++) {
        fprintf(f, "# %s\n", graphs[g].name);
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++) {
                const struct pb_lk_rank_figures x = mean_of(&s->of[g][i][h], reps);

                fprintf(f, "%zu %zu %.10g %.10g %.10g %.10g %.10g\n", users[i], horizons[h], x.gain, x.dimension,
                        x.user_rank, x.gram_rank, x.bound);
            }
        fputs("\n\n", f);
    }
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* A row where it belongs to the table: Markdown, which is as readable on a terminal. */
static void put_row(FILE *f, size_t g, size_t i, size_t h, const struct pb_lk_rank_figures *x)
{
    char bound[32] = "-";

    if (horizons[h] != MOST_ROUNDS && users[i] != SHOWN_USERS)
        return;
    if (!isnan(x->bound))
        snprintf(bound, sizeof bound, "%.1f", x->bound);
    fprintf(f, "| %s | %zu | %zu | %.1f | %s | %.2f | %.1f | %.1f |\n", graphs[g].name, users[i], horizons[h], x->gain,
            bound, x->dimension, x->user_rank, x->gram_rank);
}

static void put_table(FILE *f, const struct sums *s, size_t reps)
{
    fputs("| graph | n | T | gain | bound | dimension | user rank | Gram rank |\n|---|---|---|---|---|---|---|---|\n",
          f);
    for (size_t g = 0; g < N_GRAPHS; g++)
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++) {
                const struct pb_lk_rank_figures x = mean_of(&s->of[g][i][h], reps);

                put_row(f, g, i, h, &x);
            }
}

static enum kb_err write_table(const struct sums *s, const struct pb_experiment *x, const char *dir, size_t reps)
{
    FILE *f = pb_create(dir, "lk-rank", ".md");

    if (f == NULL)
        return KB_EINVAL;
    printf("\n%s: %s\n\n", x->name, x->about);
    put_table(stdout, s, reps);
    fprintf(f, "## %s\n\n%s\n\n", x->name, x->about);
    put_table(f, s, reps);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* A panel: y over x in the rows where column `at` equals `value`, a line per graph. 1/0 is gnuplot's way to leave a row
 * out. */
static void put_panel(FILE *f, const char *title, const char *x_label, int x, int y, int at, size_t value)
{
    fprintf(f, "set title \"%s\"\nset xlabel \"%s\"\n", title, x_label);
    for (size_t g = 0; g < N_GRAPHS; g++)
        fprintf(f,
                "%s \"lk-rank.dat\" index %zu using ($%d == %zu ? $%d : 1/0):%d with linespoints lw 2 title \"%s\"%s",
                g == 0 ? "plot" : "", g, at, value, x, y, graphs[g].name, g + 1 < N_GRAPHS ? ", \\\n" : "\n");
}

/* Logarithmic in both: falling as 1 / n (one cluster) and growing as n (alone) are straight lines then. */
static enum kb_err write_script(const char *dir)
{
    FILE *f = pb_create(dir, "lk-rank", ".gp");

    if (f == NULL)
        return KB_EINVAL;
    fputs("set terminal svg size 1260,340 dynamic background rgb \"white\"\nset output \"lk-rank.svg\"\n"
          "set datafile missing \"NaN\"\nset multiplot layout 1,3\nset grid\nset key below\nset logscale x\n"
          "set logscale y\n",
          f);
    put_panel(f, "information gain, T = 1000", "users", 1, 3, 2, MOST_ROUNDS);
    put_panel(f, "effective dimension, n = 100", "rounds", 2, 4, 1, SHOWN_USERS);
    put_panel(f, "rank of the user kernel", "users", 1, 5, 2, MOST_ROUNDS);
    fputs("unset multiplot\n", f);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* The `custom` of the experiment. Seeds outermost, so that contexts are drawn once a seed. */
static enum kb_err run_rank(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *out_dir)
{
    struct pb_lk_rank r = {0};
    struct sums *s = kb_array(1, 1, sizeof *s);
    enum kb_err rc = s != NULL ? KB_OK : KB_ENOMEM;

    KB_TRY(rc);
    *s = (struct sums){.lines = pb_create(out_dir, "lk-rank", ".jsonl")};
    rc = s->lines != NULL ? KB_OK : KB_EINVAL;
    KB_TRY(rc);
    KB_TRY(pb_lk_rank_open(&r, MOST_ROUNDS));
    for (size_t i = 0; i < reps; i++) {
        pb_lk_rank_draw(&r, seed + i);
        for (size_t h = 0; h < N_HORIZONS; h++)
            KB_TRY(measure_horizon(s, &r, h));
    }
    KB_TRY(write_data(s, out_dir, reps));
    KB_TRY(write_table(s, x, out_dir, reps));
    KB_TRY(write_script(out_dir));
    pb_gnuplot(out_dir, "lk-rank.gp");
out:
    if (s != NULL && s->lines != NULL && fclose(s->lines) != 0 && rc == KB_OK)
        rc = KB_EINVAL;
    pb_lk_rank_close(&r);
    kb_free(s);
    return rc;
}

const struct pb_experiment pb_lk_rank = {
    .name = "lk-rank",
    .about = "LK Fig. 1: information gain, its bound, effective dimension and ranks over users and rounds",
    .rounds = MOST_ROUNDS,
    .reps = 5,
    .plot = PB_PLOT_NONE,
    .custom = run_rank,
};
