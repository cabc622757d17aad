/* What is kept of the catalogue's arms between decisions (arm_columns.h). Over kernels, representations, rules, builds
 * beside the writer and bounds of memory, random events change catalogue, model and dictionary; after each a decision
 * that may read kept columns says, bit for bit, what the same candidates with their features in the query do, which are
 * computed anew. A decision allocates nothing, and the memory is what was allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_state.h"
#include "kbt.h"
#include "kbt_log.h"
#include "posterior/posterior_impl.h"
#include "base/rng.h"
#include "vector/vec_kernel.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"

#define DIM 3u
#define N_STEPS 160u
#define N_NAMES 24u
#define N_MANY 300u /* arms of a change that is made in a copy of the catalogue */
#define MOST_CANDIDATES (N_NAMES + N_MANY)

static const struct variant {
    const char *preset;
    enum kb_vec_kernel_type arm;
    size_t most; /* bytes for columns */
    size_t delay;
    bool forgets;
    double least_found, most_found; /* share of the catalogue's arms that have a column */
} variants[] = {
    {"ek-ucb", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0.8, 1},
    {"ek-ucb", KB_VEC_RBF, KB_MOST_KEPT, 0, true, 0.8, 1},
    {"ek-ucb", KB_VEC_MATERN32, KB_MOST_KEPT, 3, false, 0.8, 1},
    {"laplaced-kors", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0.8, 1},
    {"laplaced-kors", KB_VEC_POLYNOMIAL, 20000, 3, false, 0.01, 0.5},
    {"bkb", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0.01, 0.5}, /* drawn anew with nearly every reward */
    {"lk-gp-ucb", KB_VEC_MATERN12, KB_MOST_KEPT, 3, false, 0.8, 1},
    {"lin-ucb", KB_VEC_LINEAR, KB_MOST_KEPT, 0, false, 0.8, 1},
    {"cmm-ucb", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0.8, 1},
    {"sup-kernel-ucb", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0.8, 1},
    {"coop-kernel-ucb", KB_VEC_MATERN52, 9000, 0, false, 0.01, 0.5},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

static size_t n_allocated;

static void *counting_realloc(void *ptr, size_t bytes)
{
    n_allocated++;
    return realloc(ptr, bytes);
}

static const struct kb_alloc_hook counting = {counting_realloc, free};

struct world {
    struct kbt_log log;
    struct kb_spec spec;
    uint64_t version;
    struct kb_scratch *kept, *anew;
    size_t n_compared, n_found; /* candidates of the catalogue, and those that had a column */
    size_t most_bytes;
};

static uint64_t draw(uint64_t i, uint64_t n)
{
    return kb_rng_bits(11, KB_STREAM_SIMULATION, i) % n;
}

static void draw_point(uint64_t i, double *x, size_t dim)
{
    for (size_t k = 0; k < dim; k++)
        x[k] = 2 * kb_rng_uniform(12, KB_STREAM_SIMULATION, 8 * i + k) - 1;
}

static void live(struct world *w, struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    ck_assert_msg(kbt_log_live(&w->log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    w->log.now_ms++;
    w->most_bytes =
        kb_engine_kept_bytes(w->log.live) > w->most_bytes ? kb_engine_kept_bytes(w->log.live) : w->most_bytes;
}

/* --- events -------------------------------------------------------------------------------------------------- */

static void configure(struct world *w, double lengthscale)
{
    w->spec.arm_kernel.lengthscale = lengthscale;
    live(w, kbt_configured(&w->spec, ++w->version));
}

/* n arms from the `first` name on, with features of their own. */
static void put_arms(struct world *w, uint64_t key, size_t first, size_t n, bool is_replace)
{
    static char name[MOST_CANDIDATES][8];
    static double x[MOST_CANDIDATES][DIM];
    struct kb_ev_arm put[MOST_CANDIDATES];

    for (size_t i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "a%zu", (first + i) % MOST_CANDIDATES);
        draw_point(1000 * key + i, x[i], DIM);
        put[i] = (struct kb_ev_arm){.id = name[i], .features = x[i], .is_active = true};
    }
    live(w, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = is_replace, .put = put, .n_put = n}});
}

static void remove_arm(struct world *w, const char *name)
{
    const uint32_t arm = kb_ids_find(&w->log.live->arm_ids, name);

    if (arm != KB_ID_NONE && w->log.live->arms.arm[arm].is_in_catalogue && w->log.live->arms.n_catalogue > 1)
        live(w, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.remove = &name, .n_remove = 1}});
}

static void put_graph(struct world *w)
{
    const struct kb_ev_edge edges[] = {{"u0", "u1", 1}, {"u1", "u2", 2}, {"u2", "u3", 0.5}};

    live(w, (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = 3}});
}

static void observe(struct world *w, uint64_t i)
{
    char user[8], arm[8];
    double context[DIM], x[DIM];

    snprintf(user, sizeof user, "u%u", (unsigned)draw(4 * i, 6));
    snprintf(arm, sizeof arm, "a%u", (unsigned)draw(4 * i + 1, N_NAMES));
    draw_point(500000 + i, context, DIM);
    draw_point(600000 + i, x, DIM);
    live(w, (struct kb_event){
                .type = KB_EV_OBSERVED,
                .as.observed = {.user = user, .context = context, .arm = {arm, x}, .reward = x[0] * context[0]}});
}

/* What changes catalogue or model, now and then; else something to learn. */
static void step(struct world *w, uint64_t i)
{
    char name[8];

    snprintf(name, sizeof name, "a%u", (unsigned)draw(i, N_NAMES));
    if (i == 40 || i == 110)
        configure(w, i == 40 ? 0.7 : 1.3);
    else if (i == 60 || i == 61)
        put_arms(w, i, N_NAMES * (i - 60), N_MANY, i == 61);
    else if (i == 80)
        put_arms(w, i, 0, N_NAMES, true);
    else if (i == 90)
        put_graph(w);
    else if (i % 8 == 3)
        put_arms(w, i, draw(i + 1000, N_NAMES), 1 + draw(i + 2000, 3), false);
    else if (i % 8 == 5)
        remove_arm(w, name);
    else
        observe(w, i);
}

/* --- decisions ------------------------------------------------------------------------------------------------ */

struct answer {
    size_t n;
    double value[6][MOST_CANDIDATES]; /* mean, sd, lower, upper, score, propensity */
};

static void ask(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s, struct kb_decision *d,
                struct answer *out)
{
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, q->n_candidates, 0), KB_OK);
    n_allocated = 0;
    ck_assert_int_eq(kb_engine_decide(e, q, s, d, NULL), KB_OK);
    ck_assert_uint_eq(n_allocated, 0);
    const double *of[6] = {d->mean, d->sd, d->lower, d->upper, d->score, d->propensity};
    out->n = d->n;
    for (size_t k = 0; k < 6; k++)
        memcpy(out->value[k], of[k], d->n * sizeof(double));
}

/* Half of the time all of the catalogue, else some of its arms from the end to the beginning, every third of them told
 * with other features. */
static size_t draw_candidates(const struct world *w, uint64_t i, struct kb_candidate *out)
{
    static double x[MOST_CANDIDATES][DIM];
    const struct kb_arms *arms = &w->log.live->arms;
    size_t n = 0;

    for (size_t a = arms->n; i % 2 == 1 && a-- > 0;) {
        if (!arms->arm[a].is_in_catalogue || draw(i * 1000 + a, 3) == 0)
            continue;
        draw_point(700000 + 1000 * i + a, x[n], DIM);
        out[n] = (struct kb_candidate){kb_ids_str(&w->log.live->arm_ids, (uint32_t)a), n % 3 == 2 ? x[n] : NULL};
        n++;
    }
    return n;
}

/* Columns of the catalogue that a decision would read hold the kernel's values. After one over the whole catalogue they
 * are there: features would not be looked at. */
static void check_columns(struct world *w, bool is_whole)
{
    const struct kb_posterior *p = w->log.live->posterior;
    const struct kb_arms *arms = &w->log.live->arms;
    double *fresh = kbt_array(p->support.n + 1);

    for (uint32_t a = 0; p->support.n > 0 && a < arms->n; a++) {
        const double *features = arms->arm[a].parts.features, *column;
        if (features == NULL)
            continue;
        column = kb_arm_columns_find(&p->kernel.arm, p->kernel.arm_dim, &p->support, a, arms->arm[a].stamp,
                                     is_whole ? NULL : features);
        w->n_compared++;
        if (column == NULL)
            continue;
        w->n_found++;
        for (size_t i = 0; i < p->support.n; i++)
            fresh[i] = 1;
        kb_vec_kernel_scale(&p->kernel.arm, DIM, p->support.x + p->kernel.context_dim, p->support.dim, p->support.n,
                            features, fresh);
        ck_assert_msg(memcmp(fresh, column, p->support.n * sizeof *fresh) == 0, "arm %u", a);
    }
    free(fresh);
}

/* The decision is recorded and rewarded: it teaches its level where the rule has them. */
static void learn_from(struct world *w, uint64_t i, const struct kb_query *q, const struct kb_decision *d)
{
    char id[16];
    double x[DIM];

    memcpy(x, d->features[d->chosen], sizeof x);
    const struct kb_ev_slot slot = {d->arm[d->chosen], x};
    snprintf(id, sizeof id, "d%u", (unsigned)i);
    live(w, (struct kb_event){.type = KB_EV_DECIDED,
                              .as.decided = {.decision = id,
                                             .user = q->user,
                                             .context = q->context,
                                             .slots = &slot,
                                             .n_slots = 1,
                                             .propensity = d->propensity[d->chosen],
                                             .expires_at_ms = INT64_MAX,
                                             .level = d->level}});
    live(w, kbt_rewarded(id, x[0] * q->context[0]));
}

static void check_decision(struct world *w, uint64_t i)
{
    static struct answer kept, anew;
    static double x[MOST_CANDIDATES][DIM];
    struct kb_candidate candidates[MOST_CANDIDATES];
    struct kb_decision d;
    double context[DIM];
    char user[8];

    snprintf(user, sizeof user, "u%u", (unsigned)draw(i + 3000, 8));
    draw_point(800000 + i, context, DIM);
    struct kb_query q = {.user = user, .context = context, .key = i, .candidates = candidates};
    q.n_candidates = draw_candidates(w, i, candidates);
    ask(w->log.live, &q, w->kept, &d, &kept);
    for (size_t c = 0; c < d.n; c++) {
        memcpy(x[c], d.features[c], sizeof x[c]);
        candidates[c] = (struct kb_candidate){d.arm[c], x[c]};
    }
    q.n_candidates = d.n;
    ask(w->log.live, &q, w->anew, &d, &anew);
    ck_assert_uint_eq(kept.n, anew.n);
    for (size_t k = 0; k < 6; k++)
        ck_assert_msg(memcmp(kept.value[k], anew.value[k], kept.n * sizeof(double)) == 0, "step %u, value %zu",
                      (unsigned)i, k);
    if (i % 4 == 1)
        learn_from(w, i, &q, &d);
}

static void open_world(struct world *w, const struct variant *v)
{
    *w = (struct world){0};
    kbt_delay = v->delay;
    ck_assert_int_eq(kb_spec_preset(&w->spec, v->preset, DIM, DIM), KB_OK);
    w->spec.arm_kernel.type = v->arm;
    w->spec.arm_kernel.degree = 3;
    w->spec.arm_kernel.offset = 1;
    w->spec.arm_kernel.is_median = false;
    w->spec.context_kernel.lengthscale = 1;
    w->spec.repr.max_dictionary = 100;
    if (v->forgets) {
        w->spec.forgetting.type = KB_FORGET_DISCOUNT;
        w->spec.forgetting.discount = 0.98;
        w->spec.conf.type = KB_CONF_FIXED;
    }
    kbt_log_open(&w->log);
    kb_engine_set_most_kept(w->log.live, v->most);
    configure(w, 1);
    put_arms(w, 1, 0, N_NAMES, true);
    ck_assert_int_eq(kb_engine_scratch_new(&w->kept), KB_OK);
    ck_assert_int_eq(kb_engine_scratch_new(&w->anew), KB_OK);
}

static void close_world(struct world *w)
{
    kb_engine_scratch_free(w->kept);
    kb_engine_scratch_free(w->anew);
    kbt_log_close(&w->log);
    kbt_delay = 0;
}

START_TEST(kept_columns_change_no_bit)
{
    struct world w;

    open_world(&w, &variants[_i]);
    kb_alloc_set_hook(&counting);
    for (uint64_t i = 0; i < N_STEPS; i++) {
        step(&w, i);
        check_decision(&w, i);
        check_columns(&w, i % 2 == 0);
    }
    kb_alloc_set_hook(NULL);
    kbt_log_finish_builds(&w.log);
    struct kb_engine *folded = kbt_log_fold(&w.log, NULL, 0, false); /* keeps nothing */
    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(w.log.live));
    ck_assert_uint_eq(kb_engine_kept_bytes(folded), 0);
    kb_engine_free(folded);
    ck_assert_uint_gt(w.most_bytes, 0);
    ck_assert_uint_le(w.most_bytes, variants[_i].most);
    const double found = (double)w.n_found / (double)w.n_compared;
    ck_assert_msg(found >= variants[_i].least_found && found <= variants[_i].most_found, "%.3f have a column", found);
    close_world(&w);
}
END_TEST

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* Two decisions with a commit between them: what the first has missed is there for the second. */
static void ask_twice(struct world *w)
{
    check_decision(w, 0);
    observe(w, 1);
    check_decision(w, 0);
}

START_TEST(less_room_takes_columns_away_and_more_brings_them_back)
{
    struct world w;

    open_world(&w, &variants[0]);
    observe(&w, 0);
    ask_twice(&w);
    const size_t all = kb_engine_kept_bytes(w.log.live), bytes = kb_engine_bytes(w.log.live);
    ck_assert_uint_gt(all, N_NAMES * w.log.live->posterior->cap * sizeof(double));
    kb_engine_set_most_kept(w.log.live, all - 1);
    ask_twice(&w);
    const size_t less = kb_engine_kept_bytes(w.log.live);
    ck_assert(less > 0 && less < all);
    kb_engine_set_most_kept(w.log.live, 0);
    ask_twice(&w);
    ck_assert_uint_eq(kb_engine_kept_bytes(w.log.live), 0);
    ck_assert_uint_eq(kb_engine_bytes(w.log.live), bytes - all);
    kb_engine_set_most_kept(w.log.live, SIZE_MAX);
    ask_twice(&w);
    ck_assert_uint_eq(kb_engine_kept_bytes(w.log.live), all);
    close_world(&w);
}
END_TEST

/* Nobody asks for arms of the catalogue: candidates bring their features, or the kernel tells arms by their names. */
START_TEST(what_nobody_asks_for_takes_nothing)
{
    struct world w;
    struct answer out;
    struct kb_decision d;
    const double x[DIM] = {0.1, 0.2, 0.3};
    const struct kb_candidate candidate = {"a1", x};
    const struct kb_query q = {.user = "u1", .context = x, .candidates = &candidate, .n_candidates = 1};

    open_world(&w, &(struct variant){_i == 0 ? "ek-ucb" : "ucb", KB_VEC_RBF, KB_MOST_KEPT, 0, false, 0, 0});
    w.spec.arm_kernel.type = _i == 0 ? KB_VEC_RBF : _i == 1 ? KB_VEC_DELTA : KB_VEC_ONES;
    configure(&w, 1);
    for (uint64_t i = 0; i < 20; i++) {
        observe(&w, i);
        if (_i == 0)
            ask(w.log.live, &q, w.kept, &d, &out);
        else
            check_decision(&w, i);
    }
    ck_assert_uint_eq(w.most_bytes, 0);
    close_world(&w);
}
END_TEST

/* Without memory nothing is kept, and nothing fails. */
START_TEST(without_memory_decisions_go_on)
{
    struct world w;

    open_world(&w, &variants[0]);
    observe(&w, 0);
    check_decision(&w, 0);
    kbt_alloc_watch(1);
    ck_assert_int_eq(kb_engine_settle(w.log.live), KB_OK);
    kb_engine_publish(w.log.live);
    kbt_alloc_unwatch();
    ck_assert_uint_eq(kb_engine_kept_bytes(w.log.live), 0);
    ask_twice(&w);
    ck_assert_uint_gt(kb_engine_kept_bytes(w.log.live), 0);
    close_world(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "arm_columns", 60, {kept_columns_change_no_bit, N_VARIANTS}, {what_nobody_asks_for_takes_nothing, 3},
        {less_room_takes_columns_away_and_more_brings_them_back, 1}, {without_memory_decisions_go_on, 1});
}
