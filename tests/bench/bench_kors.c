/* Engines filled as a tenant's writer fills them (bench_kors.h). */
#include "bench_kors.h"

#include <stdio.h>

#include "bench_machine.h"
#include "model/commit.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"

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

/* One observation, and the point that it brings with it. There are no threads that would run a build. */
static void observe(struct kb_commit *c, const char *arm, const double *x, double reward)
{
    const struct kb_event ev = {.type = KB_EV_OBSERVED,
                                .as.observed = {.user = "u", .arm = {arm, x}, .reward = reward}};

    if (kb_commit_one(c, &ev, 0, NULL, NULL) != KB_OK || kb_commit_finish_builds(c, 0, NULL, NULL) != KB_OK)
        die("observe");
}

static struct kb_commit commit_of(const struct kb_spec *spec)
{
    struct kb_engine *e = NULL;
    struct kb_commit c = {.n = 0};
    const struct kb_event ev = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = spec, .version = 1}};

    if (kb_engine_new(&e, (struct kb_hash_key){{1, 2}}) != KB_OK)
        die("setup");
    kb_commit_begin(&c, e, 0);
    if (kb_commit_one(&c, &ev, 0, NULL, NULL) != KB_OK)
        die("configured");
    return c;
}

static struct kb_engine *engine_from(struct kb_commit *c)
{
    struct kb_engine *e = c->engine;

    kb_commit_free(c);
    return e;
}

struct kb_engine *bench_kors_engine(size_t m)
{
    struct kb_spec spec;
    double x[DIM];

    if (kb_spec_preset(&spec, "ek-ucb", 0, DIM) != KB_OK)
        die("setup");
    spec.arm_kernel.lengthscale = 2;
    spec.repr.max_dictionary = m;
    spec.repr.gamma = 100;
    struct kb_commit c = commit_of(&spec);
    for (uint64_t i = 0; kb_posterior_n_support(kb_engine_posterior(c.engine)) < m; i++) {
        bench_kors_point(x, i);
        observe(&c, "a", x, x[0]);
    }
    return engine_from(&c);
}

struct kb_engine *bench_catalogue_engine(size_t n_arms)
{
    struct kb_spec spec;

    if (kb_spec_preset(&spec, "ucb", 0, 0) != KB_OK)
        die("setup");
    kb_spec_tune(&spec, false); /* until it knows its scales, a row that finds them draws all arms alike */
    struct kb_commit c = commit_of(&spec);
    for (size_t a = 0; a < n_arms; a++) {
        char arm[32];
        snprintf(arm, sizeof arm, "arm-%zu", a);
        const struct kb_ev_arm put = {.id = arm, .is_active = true};
        const struct kb_event ev = {.type = KB_EV_ARMS, .as.arms = {.n_put = 1, .put = &put}};
        if (kb_commit_one(&c, &ev, 0, NULL, NULL) != KB_OK)
            die("arms");
        observe(&c, arm, NULL, kb_rng_uniform(7, KB_STREAM_SIMULATION, a));
    }
    return engine_from(&c);
}
