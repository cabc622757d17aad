/* lk-rank: information gain, effective dimension and ranks of LK's kernel over graphs, users and rounds [LK, Fig. 1].
 *
 *   gain       gamma_T = ln det(I + K_T / lambda), without the 1/2 of other papers             [LK, sec. 4]
 *   dimension  d = gamma_T / ln(1 + T K_max / lambda), K_max the largest diagonal entry        [LK, sec. 4]
 *   ranks      eigenvalues of L_rho^-1 and of K_T above 1 % of their largest
 *
 * What the figure claims: on a complete graph L_rho^-1 tends to rank 1, so gamma_T hardly grows with the number of
 * users (it may fall, since a user's prior variance does), while users on their own multiply it. The paper's graphs and
 * constants for it are not in the sources at hand; ours: rho .1, lambda .1, l = 1, uniform users, a fresh context on
 * the unit sphere of R^5 in every round; complete, ER (.2), four blocks, and users alone.
 *
 * Output: DIR/lk-rank.jsonl, a line per (graph, n, T, seed); DIR/lk-rank.dat and .gp, means over seeds, and the plot.
 * Cost: an eigendecomposition of order T for each line, 9 T^3 flops, hence T <= 1,000; about a minute for five seeds.
 */
#include "exp_lk.h"

#include <math.h>
#include <stdio.h>

#include "alloc.h"
#include "eigen.h"
#include "linalg.h"
#include "rng.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DIM 5u
#define RHO 0.1
#define LAMBDA 0.1
#define LENGTHSCALE 1.0
#define RANK_SHARE 0.01
#define MAX_PATH 512

/* From one cluster to none. */
static const struct {
    const char *name;
    enum pb_lk_graph graph;
} graphs[] = {{"complete", PB_LK_COMPLETE}, {"er", PB_LK_ER}, {"sbm", PB_LK_SBM}, {"alone", PB_LK_ALONE}};
static const size_t users[] = {10, 20, 50, 100, 200}, horizons[] = {100, 200, 500, 1000};
/* The longest horizon sets the memory; rounds of a shorter one are its beginning. */
#define N_GRAPHS COUNT(graphs)
#define N_USERS COUNT(users)
#define N_HORIZONS COUNT(horizons)
#define MOST_ROUNDS 1000u

/* Of one (graph, n, T): one seed's values, or their sums on the way to means. */
struct figures {
    double gain, dimension, user_rank, gram_rank;
};

/* Sums over seeds, and room for one Gram matrix. */
struct ranks {
    FILE *lines;
    double *gram, *value; /* T x T and T of the longest horizon */
    double *context;      /* [T][DIM] of the seed in hand */
    struct figures sum[N_GRAPHS][N_USERS][N_HORIZONS];
};

/* Fresh in every round, since a pool of M items would bound the rank of K_T by n M and hide what T does to it. The same
 * contexts for all graphs and n of a seed: differences between cells are then those of the users alone. */
static void draw_contexts(double *x, uint64_t seed)
{
    const uint64_t key = pb_lk_key(seed, PB_LK_KEY_ITEMS);
    for (size_t t = 0; t < MOST_ROUNDS; t++) {
        double norm = 0.0;
        for (size_t j = 0; j < DIM; j++) {
            x[t * DIM + j] = kb_rng_normal(key, KB_STREAM_SIMULATION, t * DIM + j);
            norm += x[t * DIM + j] * x[t * DIM + j];
        }
        for (size_t j = 0; j < DIM; j++)
            x[t * DIM + j] /= sqrt(norm);
    }
}

/* k(x, x) = 1, so K_max is the largest prior variance of a user. */
static double context_kernel(const double *x, const double *y)
{
    double r2 = 0.0;
    for (size_t j = 0; j < DIM; j++)
        r2 += (x[j] - y[j]) * (x[j] - y[j]);
    return exp(-r2 / (2.0 * LENGTHSCALE * LENGTHSCALE));
}

/* Uniform; one number a round scaled to n, so that user 3 of 10 is users 6 and 7 of 20. */
static size_t user_at(uint64_t seed, size_t n, size_t t)
{
    return (size_t)(kb_rng_uniform(pb_lk_key(seed, PB_LK_KEY_USERS), KB_STREAM_SIMULATION, t) * (double)n);
}

/* Lower triangle of K_T for users' covariance g (n x n). Returns its largest diagonal entry. */
static double fill_gram(const struct ranks *r, const double *g, size_t n, size_t rounds, uint64_t seed)
{
    double most = 0.0;
    for (size_t t = 0; t < rounds; t++) {
        const size_t u = user_at(seed, n, t);
        most = fmax(most, g[u * n + u]);
        for (size_t s = t; s < rounds; s++)
            r->gram[t * rounds + s] =
                g[u * n + user_at(seed, n, s)] * context_kernel(r->context + t * DIM, r->context + s * DIM);
    }
    return most;
}

/* How many of n ascending values are above their share of the largest: a numerical rank that small rounding in an
 * eigenvalue near 0 cannot move. */
static double rank_of(const double *value, size_t n)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++)
        rank += value[i] > RANK_SHARE * value[n - 1];
    return (double)rank;
}

/* e -> 1 / (e + rho) turns the order round, which counting does not mind. */
static double user_rank(const struct pb_lk_world *w)
{
    size_t rank = 0;
    for (size_t i = 0; i < w->shape.n_users; i++)
        rank += (w->eigenvalue[0] + RHO) / (w->eigenvalue[i] + RHO) > RANK_SHARE;
    return (double)rank;
}

/* One cell. The eigenvalues give the determinant and the rank at once; those that come out below 0 are 0. */
static enum kb_err measure(const struct ranks *r, const struct pb_lk_world *w, const double *g, size_t rounds,
                           uint64_t seed, struct figures *out)
{
    const double most = fill_gram(r, g, w->shape.n_users, rounds, seed);
    const enum kb_err rc = kb_eigen_symmetric(rounds, r->gram, r->value);
    if (rc != KB_OK)
        return rc;
    *out = (struct figures){.user_rank = user_rank(w), .gram_rank = rank_of(r->value, rounds)};
    for (size_t i = 0; i < rounds; i++)
        out->gain += log1p(fmax(0.0, r->value[i]) / LAMBDA);
    out->dimension = out->gain / log1p((double)rounds * most / LAMBDA);
    return KB_OK;
}

/* All horizons of one graph of one seed: a line each, and into the sums. */
static enum kb_err measure_graph(struct ranks *r, size_t graph, size_t i_users, uint64_t seed)
{
    const size_t n = users[i_users];
    struct pb_lk_world w;
    struct pb_lk_shape shape;
    enum kb_err rc = KB_ENOMEM;
    const double value[PB_MAX_VALUES] = {(double)n, graphs[graph].graph, PB_LK_EASY, PB_LK_GP, PB_LK_LITERAL};
    double *g = kb_array(n, n, sizeof *g);
    if (g == NULL)
        return KB_ENOMEM;
    w = (struct pb_lk_world){0};
    KB_TRY(pb_lk_shape_of(value, &shape));
    KB_TRY(pb_lk_world_open(&w, &shape, seed));
    KB_TRY(pb_lk_user_covariance(&w, RHO, 1.0, g));
    for (size_t h = 0; h < N_HORIZONS; h++) {
        struct figures f, *sum = &r->sum[graph][i_users][h];
        KB_TRY(measure(r, &w, g, horizons[h], seed, &f));
        fprintf(r->lines,
                "{\"experiment\":\"lk-rank\",\"setting\":\"%s-n%zu\",\"seed\":%llu,\"rounds\":%zu,"
                "\"information_gain\":%.10g,\"effective_dimension\":%.10g,\"user_rank\":%.0f,\"gram_rank\":%.0f}\n",
                graphs[graph].name, n, (unsigned long long)seed, horizons[h], f.gain, f.dimension, f.user_rank,
                f.gram_rank);
        *sum = (struct figures){sum->gain + f.gain, sum->dimension + f.dimension, sum->user_rank + f.user_rank,
                                sum->gram_rank + f.gram_rank};
    }
out:
    pb_lk_world_close(&w);
    kb_free(g);
    return rc;
}

/* --- output ----------------------------------------------------------------------------------------------- */

/* DIR/NAME for writing; NULL, said on stderr. */
static FILE *create(const char *dir, const char *name)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        fprintf(stderr, "paperbench: cannot write %s\n", path);
    return f;
}

/* A block per graph, a line per (n, T): n T gain dimension user_rank gram_rank. The table goes to stdout, too. */
static enum kb_err write_data(const struct ranks *r, const char *dir, size_t reps)
{
    FILE *f = create(dir, "lk-rank.dat");
    if (f == NULL)
        return KB_EINVAL;
    printf("%-9s %5s %6s %10s %10s %10s %10s\n", "graph", "n", "T", "gain", "dimension", "user rank", "Gram rank");
    for (size_t g = 0; g < N_GRAPHS; g++) {
        fprintf(f, "# %s\n", graphs[g].name);
        for (size_t i = 0; i < N_USERS; i++)
            for (size_t h = 0; h < N_HORIZONS; h++) {
                const struct figures *sum = &r->sum[g][i][h];
                const double by = 1.0 / (double)reps;
                fprintf(f, "%zu %zu %.10g %.10g %.10g %.10g\n", users[i], horizons[h], by * sum->gain,
                        by * sum->dimension, by * sum->user_rank, by * sum->gram_rank);
                printf("%-9s %5zu %6zu %10.1f %10.2f %10.1f %10.1f\n", graphs[g].name, users[i], horizons[h],
                       by * sum->gain, by * sum->dimension, by * sum->user_rank, by * sum->gram_rank);
            }
        fputs("\n\n", f);
    }
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
    FILE *f = create(dir, "lk-rank.gp");
    if (f == NULL)
        return KB_EINVAL;
    fputs("set terminal svg size 1260,340 dynamic background rgb \"white\"\nset output \"lk-rank.svg\"\n"
          "set datafile missing \"NaN\"\nset multiplot layout 1,3\nset grid\nset key below\nset logscale x\n"
          "set logscale y\n",
          f);
    put_panel(f, "information gain, T = 1000", "users", 1, 3, 2, 1000);
    put_panel(f, "effective dimension, n = 100", "rounds", 2, 4, 1, 100);
    put_panel(f, "rank of the user kernel", "users", 1, 5, 2, 1000);
    fputs("unset multiplot\n", f);
    return fclose(f) == 0 ? KB_OK : KB_EINVAL;
}

/* Seeds outermost, cells inside, so that contexts are drawn once a seed. `x` is this experiment itself. */
static enum kb_err run_rank(const struct pb_experiment *x, uint64_t seed, size_t reps, const char *out_dir)
{
    enum kb_err rc = KB_ENOMEM;
    struct ranks *r = kb_array(1, 1, sizeof *r);
    (void)x;
    if (r == NULL)
        return KB_ENOMEM;
    r->gram = kb_array(MOST_ROUNDS, MOST_ROUNDS, sizeof *r->gram);
    r->value = kb_array(MOST_ROUNDS, 1, sizeof *r->value);
    r->context = kb_array(MOST_ROUNDS, DIM, sizeof *r->context);
    if (r->gram == NULL || r->value == NULL || r->context == NULL)
        goto out;
    KB_TRY(pb_make_dir(out_dir));
    r->lines = create(out_dir, "lk-rank.jsonl");
    rc = r->lines != NULL ? KB_OK : KB_EINVAL;
    for (size_t s = 0; s < reps && rc == KB_OK; s++) {
        draw_contexts(r->context, seed + s);
        for (size_t cell = 0; cell < N_GRAPHS * N_USERS; cell++)
            KB_TRY(measure_graph(r, cell / N_USERS, cell % N_USERS, seed + s));
    }
    KB_TRY(rc);
    KB_TRY(write_data(r, out_dir, reps));
    KB_TRY(write_script(out_dir));
    pb_gnuplot(out_dir, "lk-rank.gp");
out:
    if (r->lines != NULL && fclose(r->lines) != 0 && rc == KB_OK)
        rc = KB_EINVAL;
    kb_free(r->gram);
    kb_free(r->value);
    kb_free(r->context);
    kb_free(r);
    return rc;
}

const struct pb_experiment pb_lk_rank = {
    .name = "lk-rank",
    .about = "LK Fig. 1: information gain, effective dimension and ranks over users and rounds (constants are ours)",
    .rounds = MOST_ROUNDS,
    .reps = 5,
    .plot = PB_PLOT_NONE,
    .custom = run_rank,
};
