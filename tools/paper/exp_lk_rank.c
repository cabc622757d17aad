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

#include "paper/lk_rank.h"

/* From one cluster to none. */
static const struct {
    const char *name;
    enum pb_lk_graph graph;
} graphs[] = {{"complete", PB_LK_COMPLETE}, {"er", PB_LK_ER}, {"sbm", PB_LK_SBM}, {"empty", PB_LK_ALONE}};
static const size_t users[] = {10, 20, 50, 100, 200}, horizons[] = {100, 200, 500, 1000};
#define N_GRAPHS PB_COUNT(graphs)
#define N_USERS PB_COUNT(users)
#define N_HORIZONS PB_COUNT(horizons)
#define MOST_ROUNDS 1000u
#define SHOWN_USERS 100u /* the table's, where it goes over horizons */

/* Sums over seeds, in the end their means. */
struct figures {
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
static enum kb_err measure_horizon(struct figures *s, struct pb_lk_rank *r, size_t h)
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

static void divide(struct pb_lk_rank_figures *sum, size_t reps)
{
    const double by = 1.0 / (double)reps;

    *sum = (struct pb_lk_rank_figures){by * sum->gain, by * sum->dimension, by * sum->user_rank, by * sum->gram_rank,
                                       by * sum->bound};
}

/* pb_put: a block per graph, a line per (n, T): n T gain dimension user_rank gram_rank bound. */
static void put_data(FILE *f, const void *figures)
{
    const struct figures *s = figures;

    for (size_t g = 0; g < N_GRAPHS; g++) {
        fprintf(f, "# %s\n", graphs[g].name);
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++) {
                const struct pb_lk_rank_figures *x = &s->of[g][i][h];

                fprintf(f, "%zu %zu %.10g %.10g %.10g %.10g %.10g\n", users[i], horizons[h], x->gain, x->dimension,
                        x->user_rank, x->gram_rank, x->bound);
            }
        fputs("\n\n", f);
    }
}

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

static void put_table(FILE *f, const void *figures)
{
    const struct figures *s = figures;

    fputs("| graph | n | T | gain | bound | dimension | user rank | Gram rank |\n|---|---|---|---|---|---|---|---|\n",
          f);
    for (size_t g = 0; g < N_GRAPHS; g++)
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++)
                put_row(f, g, i, h, &s->of[g][i][h]);
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
static void put_script(FILE *f, const void *arg)
{
    (void)arg;
    fputs("set terminal svg size 1260,340 dynamic background rgb \"white\"\nset output \"lk-rank.svg\"\n"
          "set datafile missing \"NaN\"\nset multiplot layout 1,3\nset grid\nset key below\nset logscale x\n"
          "set logscale y\n",
          f);
    put_panel(f, "information gain, T = 1000", "users", 1, 3, 2, MOST_ROUNDS);
    put_panel(f, "effective dimension, n = 100", "rounds", 2, 4, 1, SHOWN_USERS);
    put_panel(f, "rank of the user kernel", "users", 1, 5, 2, MOST_ROUNDS);
    fputs("unset multiplot\n", f);
}

/* The `custom` of the experiment. Seeds outermost, so that contexts are drawn once a seed. */
static enum kb_err run_rank(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *dir, FILE *lines)
{
    struct pb_lk_rank r = {0};
    struct figures s = {.lines = lines};
    enum kb_err rc;

    KB_TRY(pb_lk_rank_open(&r, MOST_ROUNDS));
    for (size_t i = 0; i < reps; i++) {
        pb_lk_rank_draw(&r, seed + i);
        for (size_t h = 0; h < N_HORIZONS; h++)
            KB_TRY(measure_horizon(&s, &r, h));
    }
    for (size_t g = 0; g < N_GRAPHS; g++)
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++)
                divide(&s.of[g][i][h], reps);
    KB_TRY(pb_write(dir, "lk-rank", ".dat", put_data, &s));
    KB_TRY(pb_write_table(x, dir, put_table, &s));
    rc = pb_draw(dir, "lk-rank", put_script, NULL);
out:
    pb_lk_rank_close(&r);
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
