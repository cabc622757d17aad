/* Bench of the core's two hot calls, as ratios within one run: a decision over C candidates and a learning step of the
 * Nystrom posterior at dictionary size m, each beside the bare linear algebra that it cannot do without (two blocked
 * triangular solves of C columns; one rank-one Cholesky update). One JSON line per figure on standard output, with the
 * BLAS core name. Thread CPU time, the best of several batches.
 *
 *   bench_core         at m = 64, 256, 512
 *   bench_core flat    at m = 256 after 10^4 and after 10^6 observations, each at a point of its own: half a minute */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "bench_kors.h"
#include "bench_machine.h"
#include "linalg/chol.h"
#include "model/commit.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "linalg/linalg.h"
#include "base/rng.h"

#define N_CANDIDATES 20
#define DIM BENCH_KORS_DIM
#define BATCHES 7

static void die(const char *what)
{
    bench_die("bench_core", what);
}

static double time_decide(const struct kb_engine *e, const double *features)
{
    struct kb_candidate cand[N_CANDIDATES];
    char name[N_CANDIDATES][16];
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    double best = 1e300;

    for (size_t c = 0; c < N_CANDIDATES; c++) {
        snprintf(name[c], sizeof name[c], "c%zu", c);
        cand[c] = (struct kb_candidate){name[c], features + c * DIM};
    }
    const struct kb_query q = {.user = "u", .candidates = cand, .n_candidates = N_CANDIDATES, .key = 1};
    if (kb_engine_scratch_new(&s) != KB_OK || kb_engine_fit_scratch(e, s, N_CANDIDATES, 0) != KB_OK)
        die("scratch");
    for (int b = 0; b < BATCHES; b++) {
        const double t0 = bench_cpu_us();

        for (int i = 0; i < 200; i++)
            if (kb_engine_decide(e, &q, s, &d, NULL) != KB_OK)
                die("decide");
        const double us = (bench_cpu_us() - t0) / 200;
        best = us < best ? us : best;
    }
    kb_engine_scratch_free(s);
    return best;
}

static double time_learn(struct kb_engine *e, const double *features, uint64_t seq)
{
    double best = 1e300;

    for (int b = 0; b < BATCHES; b++) {
        const double t0 = bench_cpu_us();

        for (int i = 0; i < 200; i++) {
            const struct kb_event ev = {
                .type = KB_EV_OBSERVED,
                .seq = ++seq,
                .as.observed = {.user = "u", .arm = {"a", features + (i % 20) * DIM}, .reward = 1}};
            if (kb_engine_fold(e, &ev, NULL) != KB_OK)
                die("fold");
        }
        const double us = (bench_cpu_us() - t0) / 200;
        best = us < best ? us : best;
    }
    return best;
}

/* The floor: two blocked solves of C columns, and one rank-one update, on a factor of the same order. */
static void time_floor(size_t m, double *solves, double *update)
{
    struct kb_chol c;
    double *x = kb_array(m, N_CANDIDATES, sizeof *x), *a = kb_array(m, m, sizeof *a);

    kb_chol_init(&c);
    for (size_t i = 0; i < m; i++)
        a[i + i * m] = 2;
    if (x == NULL || a == NULL || kb_chol_factor(&c, a, m, m) != KB_OK)
        die("floor");
    *solves = *update = 1e300;
    for (int b = 0; b < BATCHES; b++) {
        double t0 = bench_cpu_us();

        for (int i = 0; i < 100; i++) {
            kb_chol_solve_l_many(&c, x, m, N_CANDIDATES);
            kb_chol_solve_l_many(&c, x, m, N_CANDIDATES);
        }
        *solves = (bench_cpu_us() - t0) / 100 < *solves ? (bench_cpu_us() - t0) / 100 : *solves;
        t0 = bench_cpu_us();
        for (int i = 0; i < 100; i++) {
            for (size_t k = 0; k < m; k++)
                x[k] = 1e-3;
            kb_chol_update(&c, x, 0);
        }
        *update = (bench_cpu_us() - t0) / 100 < *update ? (bench_cpu_us() - t0) / 100 : *update;
    }
    kb_chol_close(&c);
    kb_free(x);
    kb_free(a);
}

/* Decisions and learning steps may not know how long the history is. */
static void flat(const double *features)
{
    static const size_t lengths[] = {10000, 1000000};
    struct kb_engine *e = bench_kors_engine(256);
    struct kb_engine_counts counts;
    double x[DIM];

    for (size_t k = 0; k < 2; k++) {
        kb_engine_counts(e, &counts);
        for (uint64_t t = counts.learned; t < lengths[k]; t++) {
            bench_kors_point(x, 1000 + t);
            const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                        .seq = ++counts.seq,
                                        .as.observed = {.user = "u", .arm = {"a", x}, .reward = x[0]}};
            if (kb_engine_fold(e, &ev, NULL) != KB_OK)
                die("fold");
        }
        printf(
            "{\"bench\":\"flat\",\"m\":256,\"candidates\":%d,\"dim\":%d,\"t\":%zu,\"decide_us\":%.2f,\"learn_us\":%.2f,"
            "\"blas_core\":\"%s\"}\n",
            N_CANDIDATES, DIM, lengths[k], time_decide(e, features), time_learn(e, features, counts.seq),
            kb_blas_core_name());
    }
    kb_engine_free(e);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 256, 512};
    double *features = kb_array(N_CANDIDATES, DIM, sizeof *features);

    bench_settle_blas(argv);
    for (size_t i = 0; i < N_CANDIDATES * DIM; i++)
        features[i] = kb_rng_normal(9, KB_STREAM_SIMULATION, i);
    if (argc > 1 && strcmp(argv[1], "flat") == 0)
        flat(features);
    for (size_t i = 0; argc == 1 && i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kb_engine *e = bench_kors_engine(sizes[i]);
        struct kb_engine_counts counts;
        double solves = 0, update = 0;

        kb_engine_counts(e, &counts);
        const double decide = time_decide(e, features), learn = time_learn(e, features, counts.seq);
        time_floor(sizes[i], &solves, &update);
        printf(
            "{\"bench\":\"core\",\"m\":%zu,\"candidates\":%d,\"dim\":%d,\"decide_us\":%.2f,\"two_solves_us\":%.2f,"
            "\"decide_ratio\":%.2f,\"learn_us\":%.2f,\"rank_one_us\":%.2f,\"learn_ratio\":%.2f,\"blas_core\":\"%s\"}\n",
            sizes[i], N_CANDIDATES, DIM, decide, solves, decide / solves, learn, update, learn / update,
            kb_blas_core_name());
        kb_engine_free(e);
    }
    kb_free(features);
    return 0;
}
