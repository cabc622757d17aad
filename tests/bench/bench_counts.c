/* The core's hot calls, a few times each and nothing else, for callgrind to count the instructions of:
 * tests/bench/counts.py collects inside of measured_KIND.
 *
 *   bench_counts decide|listed|listed_100|learn|catalogue|update
 *
 * decide, learn: KORS with m = 256 of 256 points, 20 candidates with 16 features each. What is learned is learned at
 * points seen before, so that the dictionary stays as it is. listed: the same candidates as arms of the catalogue, with
 * what is kept of them in place; listed_100: 100 of them. catalogue: `ucb` over the 100 arms of a catalogue, each of
 * them rewarded. update: a bare rank-one change of a Cholesky factor of order m, beside which learn is to stand. No
 * clock, no threads, numbers keyed by a seed: the counts are the same in every run of one build on one machine. */
#include <stdio.h>
#include <string.h>

#include "bench_kors.h"
#include "bench_machine.h"
#include "linalg/chol.h"
#include "model/commit.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "base/rng.h"
#include "linalg/linalg.h"

#define NAME "bench_counts"
#define M 256
#define N_CANDIDATES 20
#define N_ARMS 100
#define FIRST_CANDIDATE 100000 /* point of the first one */
#define DIM BENCH_KORS_DIM
#define CALLS 20 /* counts.py divides by it: as it is printed */

/* Global and not inlined: callgrind knows them by their names. */
void measured_decide(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s);
void measured_listed(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s);
void measured_listed_100(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s);
void measured_learn(struct kb_engine *e, const struct kb_event *ev);
void measured_catalogue(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s);
void measured_update(struct kb_chol *c, double *x);

__attribute__((noinline)) void measured_decide(const struct kb_engine *e, const struct kb_query *q,
                                               struct kb_scratch *s)
{
    struct kb_decision d;

    if (kb_engine_decide(e, q, s, &d, NULL) != KB_OK || !(d.sd[d.chosen] > 0))
        bench_die(NAME, "decide");
}

__attribute__((noinline)) void measured_listed(const struct kb_engine *e, const struct kb_query *q,
                                               struct kb_scratch *s)
{
    measured_decide(e, q, s);
}

__attribute__((noinline)) void measured_listed_100(const struct kb_engine *e, const struct kb_query *q,
                                                   struct kb_scratch *s)
{
    measured_decide(e, q, s);
}

__attribute__((noinline)) void measured_learn(struct kb_engine *e, const struct kb_event *ev)
{
    kb_engine_apply(e, ev);
}

__attribute__((noinline)) void measured_catalogue(const struct kb_engine *e, const struct kb_query *q,
                                                  struct kb_scratch *s)
{
    measured_decide(e, q, s);
}

__attribute__((noinline)) void measured_update(struct kb_chol *c, double *x)
{
    kb_chol_update(c, x, 0);
}

static void decide(struct kb_engine *e)
{
    double x[N_CANDIDATES][DIM];
    char name[N_CANDIDATES][8];
    struct kb_candidate candidate[N_CANDIDATES];
    struct kb_scratch *s = NULL;

    for (size_t c = 0; c < N_CANDIDATES; c++) {
        bench_kors_point(x[c], FIRST_CANDIDATE + c);
        snprintf(name[c], sizeof name[c], "c%zu", c);
        candidate[c] = (struct kb_candidate){name[c], x[c]};
    }
    const struct kb_query q = {.user = "u", .candidates = candidate, .n_candidates = N_CANDIDATES, .key = 1};
    if (kb_engine_scratch_new(&s) != KB_OK || kb_engine_fit_scratch(e, s, N_CANDIDATES, 0) != KB_OK)
        bench_die(NAME, "scratch");
    for (int i = 0; i < CALLS; i++)
        measured_decide(e, &q, s);
    kb_engine_scratch_free(s);
}

static void put_arms(struct kb_engine *e, size_t n)
{
    static double x[N_ARMS][DIM];
    static char name[N_ARMS][8];
    struct kb_ev_arm put[N_ARMS];
    struct kb_engine_counts counts;

    for (size_t c = 0; c < n; c++) {
        bench_kors_point(x[c], FIRST_CANDIDATE + c);
        snprintf(name[c], sizeof name[c], "c%zu", c);
        put[c] = (struct kb_ev_arm){.id = name[c], .features = x[c], .is_active = true};
    }
    kb_engine_counts(e, &counts);
    const struct kb_event ev = {.type = KB_EV_ARMS, .seq = counts.seq + 1, .as.arms = {.n_put = n, .put = put}};
    if (kb_engine_fold(e, &ev, NULL) != KB_OK)
        bench_die(NAME, "arms");
}

/* The first decision misses what is kept, the second one fills it. */
static void decide_listed(struct kb_engine *e, size_t n,
                          void (*measured)(const struct kb_engine *, const struct kb_query *, struct kb_scratch *))
{
    const struct kb_query q = {.user = "u", .key = 1};
    struct kb_scratch *s = NULL;

    put_arms(e, n);
    if (kb_engine_scratch_new(&s) != KB_OK || kb_engine_fit_scratch(e, s, 0, 0) != KB_OK)
        bench_die(NAME, "scratch");
    kb_engine_set_most_kept(e, KB_MOST_KEPT);
    for (int i = 0; i < 2; i++) {
        measured_decide(e, &q, s);
        if (kb_engine_settle(e) != KB_OK)
            bench_die(NAME, "settle");
        kb_engine_publish(e);
        kb_engine_collect(e);
    }
    for (int i = 0; i < CALLS; i++)
        measured(e, &q, s);
    kb_engine_scratch_free(s);
}

static void listed(struct kb_engine *e)
{
    decide_listed(e, N_CANDIDATES, measured_listed);
}

static void listed_100(struct kb_engine *e)
{
    decide_listed(e, N_ARMS, measured_listed_100);
}

/* Reserving and growing are the writer's before the lock; what is counted is what decisions wait for. */
static void learn(struct kb_engine *e)
{
    struct kb_engine_counts counts;
    double x[DIM];

    kb_engine_counts(e, &counts);
    for (uint64_t i = 0; i < CALLS; i++) {
        bench_kors_point(x, i);
        const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                    .seq = counts.seq + 1 + i,
                                    .as.observed = {.user = "u", .arm = {"a", x}, .reward = x[0]}};
        if (kb_engine_reserve(e, &ev, NULL) != KB_OK || kb_engine_grow(e) != KB_OK)
            bench_die(NAME, "reserve");
        kb_engine_swap(e);
        kb_engine_prepare(e, &ev);
        measured_learn(e, &ev);
        kb_engine_collect(e);
    }
}

static void catalogue(struct kb_engine *e)
{
    const struct kb_query q = {.user = "u", .key = 1, .n_shown = 1}; /* as a body that names a user and nothing else */
    struct kb_scratch *s = NULL;

    if (kb_engine_scratch_new(&s) != KB_OK || kb_engine_fit_scratch(e, s, 0, 0) != KB_OK)
        bench_die(NAME, "scratch");
    for (int i = 0; i < CALLS; i++)
        measured_catalogue(e, &q, s);
    kb_engine_scratch_free(s);
}

static void update(void)
{
    static double a[M * M], x[M];
    struct kb_chol c;

    kb_chol_init(&c);
    for (size_t i = 0; i < M; i++)
        a[i * (M + 1)] = 2;
    if (kb_chol_factor(&c, a, M, M) != KB_OK)
        bench_die(NAME, "factor");
    for (uint64_t i = 0; i < CALLS; i++) {
        for (size_t k = 0; k < M; k++)
            x[k] = kb_rng_normal(7, KB_STREAM_SIMULATION, i * M + k);
        measured_update(&c, x);
    }
    kb_chol_close(&c);
}

static const struct kind {
    const char *name;
    void (*run)(struct kb_engine *e); /* NULL: of no engine */
    struct kb_engine *(*engine)(size_t size);
    size_t size;
} kinds[] = {{"decide", decide, bench_kors_engine, M},
             {"listed", listed, bench_kors_engine, M},
             {"listed_100", listed_100, bench_kors_engine, M},
             {"learn", learn, bench_kors_engine, M},
             {"catalogue", catalogue, bench_catalogue_engine, N_ARMS},
             {"update", NULL, NULL, 0}};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct kind *kind = argc == 2 ? find_kind(argv[1]) : NULL;

    if (kind == NULL) {
        fprintf(stderr, "usage: %s decide|listed|listed_100|learn|catalogue|update\n", NAME);
        return 2;
    }
    kb_blas_single_thread();
    if (kind->run != NULL) {
        struct kb_engine *e = kind->engine(kind->size);
        kind->run(e);
        kb_engine_free(e);
    } else {
        update();
    }
    printf("{\"calls\":%d,\"m\":%d,\"candidates\":%d,\"dim\":%d,\"blas_core\":\"%s\"}\n", CALLS, M, N_CANDIDATES, DIM,
           kb_blas_core_name());
    return 0;
}
