/* Engines filled as a tenant's writer fills them (bench_kors.h). */
#include "bench_kors.h"

#include <stdio.h>

#include "bench_machine.h"
#include "rng.h"

#define DIM BENCH_KORS_DIM

static void die(const char *what)
{
    bench_die("bench_kors", what);
}

void bench_kors_point(double *x, uint64_t i)
{
    for (size_t k = 0; k < DIM; k++)
        x[k] = kb_rng_normal(7, KB_STREAM_SIMULATION, i * DIM + k);
}

/* Runs what the last event has begun, and puts it in force: here are no threads that would. */
static void finish_builds(struct kb_engine *e, uint64_t *seq)
{
    while (kb_engine_is_building(e)) {
        struct kb_build *b = kb_engine_lend_build(e);
        struct kb_event next = {.type = KB_EV_NONE};
        const enum kb_err rc = b != NULL ? kb_build_run(b) : kb_engine_due(e, *seq + 1, &next);

        if (b != NULL)
            kb_engine_return_build(e, b);
        if (rc != KB_OK)
            die("build");
        if (next.type == KB_EV_NONE)
            continue;
        next.seq = ++*seq;
        if (kb_engine_fold(e, &next, NULL) != KB_OK)
            die("finish");
    }
}

/* One observation, and the point that it brings with it. */
static void observe(struct kb_engine *e, const char *arm, const double *x, double reward, uint64_t *seq)
{
    const struct kb_event ev = {
        .type = KB_EV_OBSERVED, .seq = ++*seq, .as.observed = {.user = "u", .arm = {arm, x}, .reward = reward}};
    struct kb_event point;

    if (kb_engine_reserve(e, &ev, NULL) != KB_OK || kb_engine_follow_up(e, &ev, &point) != KB_OK)
        die("observe");
    point.seq = *seq + 1;
    if (point.type != KB_EV_NONE && kb_engine_reserve(e, &point, NULL) != KB_OK)
        die("dictionary");
    if (kb_engine_grow(e) != KB_OK)
        die("grow");
    kb_engine_swap(e);
    kb_engine_apply(e, &ev);
    if (point.type != KB_EV_NONE) {
        kb_engine_prepare(e, &point);
        kb_engine_apply(e, &point);
        ++*seq;
    }
    kb_engine_collect(e);
    finish_builds(e, seq);
}

static struct kb_engine *engine_of(const struct kb_spec *spec, uint64_t *seq)
{
    struct kb_engine *e = NULL;
    const struct kb_event ev = {.type = KB_EV_CONFIGURED, .seq = ++*seq, .as.configured = {.spec = spec, .version = 1}};

    if (kb_engine_new(&e, (struct kb_hash_key){{1, 2}}) != KB_OK || kb_engine_fold(e, &ev, NULL) != KB_OK)
        die("configured");
    return e;
}

struct kb_engine *bench_kors_engine(size_t m)
{
    struct kb_spec spec;
    double x[DIM];
    uint64_t seq = 0;

    if (kb_spec_preset(&spec, "ek-ucb", 0, DIM) != KB_OK)
        die("setup");
    spec.arm_kernel.lengthscale = 2;
    spec.repr.max_dictionary = m;
    spec.repr.gamma = 100;
    struct kb_engine *e = engine_of(&spec, &seq);
    for (uint64_t i = 0; kb_posterior_n_support(kb_engine_posterior(e)) < m; i++) {
        bench_kors_point(x, i);
        observe(e, "a", x, x[0], &seq);
    }
    return e;
}

struct kb_engine *bench_catalogue_engine(size_t n_arms)
{
    struct kb_spec spec;
    uint64_t seq = 0;

    if (kb_spec_preset(&spec, "ucb", 0, 0) != KB_OK)
        die("setup");
    struct kb_engine *e = engine_of(&spec, &seq);
    for (size_t a = 0; a < n_arms; a++) {
        char arm[32];
        snprintf(arm, sizeof arm, "arm-%zu", a);
        const struct kb_ev_arm put = {.id = arm, .is_active = true};
        const struct kb_event ev = {.type = KB_EV_ARMS, .seq = ++seq, .as.arms = {.n_put = 1, .put = &put}};
        if (kb_engine_fold(e, &ev, NULL) != KB_OK)
            die("arms");
        observe(e, arm, NULL, kb_rng_uniform(7, KB_STREAM_SIMULATION, a), &seq);
    }
    return e;
}
