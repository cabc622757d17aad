/* Open decisions that deviations know (engine_open.c), through the engine. A second engine is told what was rewarded,
 * and another one each open decision as an observation, too: means are those of the one, deviations those of the other.
 * Every fold, snapshot and summary on the way has the bits of the live model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_background.h"
#include "model/engine_state.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "posterior/open.h"

#define N_USERS 6u
#define N_ARMS 4u
#define N_STEPS 150u
#define MOST_DECISIONS 600u

enum state { NEVER, DEFERRED, OPEN, REWARDED, CLOSED };

struct decision {
    enum state state;
    size_t user, arm;
    double x, reward;
    bool is_void; /* the model was made to forget it */
};

struct world {
    struct kbt_log log;
    struct kb_spec spec;
    uint64_t version, n_drawn;
    struct decision at[MOST_DECISIONS];
    size_t n;
};

static double uniform(struct world *w)
{
    return kb_rng_uniform(91, KB_STREAM_SIMULATION, w->n_drawn++);
}

static size_t below(struct world *w, size_t n)
{
    return (size_t)(uniform(w) * (double)n);
}

static const char *name(char kind, size_t i)
{
    static char names[16][24];
    static size_t next;
    char *out = names[next++ % 16];

    snprintf(out, 24, "%c%zu", kind, i);
    return out;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {"", ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static struct kb_spec spec_of(const char *preset, uint32_t context_dim)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, preset, context_dim, 0), KB_OK);
    spec.is_tuned = false;
    spec.learned = 0;
    spec.repr.lambda = 0.3;
    spec.conf.type = KB_CONF_FIXED;
    spec.pending = KB_PENDING_HALLUCINATE;
    spec.aggregation = KB_AGG_LAST;
    spec.has_default_reward = false;
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    return spec;
}

static void put_graph(struct kbt_log *log)
{
    struct kb_ev_edge edge[N_USERS];

    for (size_t i = 0; i < N_USERS; i++)
        edge[i] = (struct kb_ev_edge){name('u', i), name('u', (i + 1) % N_USERS), 1};
    live(log,
         (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edge, .n_add = N_USERS - 1}});
}

static void open_world(struct world *w, const struct kb_spec *spec)
{
    memset(w, 0, sizeof *w);
    kbt_log_open(&w->log);
    w->spec = *spec;
    live(&w->log, kbt_configured(&w->spec, ++w->version));
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void decide_at(struct world *w, size_t user, size_t arm, double x, bool is_deferred, int64_t window_ms)
{
    struct decision *d = &w->at[w->n];
    const struct kb_ev_slot slot = {name('a', arm), NULL};

    ck_assert_uint_lt(w->n, MOST_DECISIONS);
    *d = (struct decision){.state = is_deferred ? DEFERRED : OPEN, .user = user, .arm = arm, .x = x};
    live(&w->log, (struct kb_event){.type = KB_EV_DECIDED,
                                    .as.decided = {.decision = name('d', w->n),
                                                   .user = name('u', user),
                                                   .context = &x,
                                                   .slots = &slot,
                                                   .n_slots = 1,
                                                   .propensity = 0.5,
                                                   .is_deferred = is_deferred,
                                                   .expires_at_ms = window_ms}});
    w->n++;
}

/* x: a new context of its own now and then, so that points come that nothing was ever learned at. */
static void decide(struct world *w, bool is_deferred, int64_t window_ms)
{
    const size_t user = below(w, N_USERS), arm = below(w, N_ARMS);

    decide_at(w, user, arm, (double)below(w, 7) / 4, is_deferred, window_ms);
}

/* Some decision of a state; w->n: none. */
static size_t some(struct world *w, enum state state)
{
    const size_t first = below(w, w->n + 1);

    for (size_t i = 0; i < w->n; i++)
        if (w->at[(first + i) % w->n].state == state)
            return (first + i) % w->n;
    return w->n;
}

static void reward(struct world *w, size_t i)
{
    const double y = uniform(w);

    if (i == w->n)
        return;
    live(&w->log, kbt_rewarded(name('d', i), y));
    w->at[i].reward = y;
    w->at[i].state = REWARDED;
}

static void expire(struct world *w, size_t i)
{
    if (i == w->n)
        return;
    live(&w->log, (struct kb_event){.type = KB_EV_EXPIRED, .as.expired = {.decision = name('d', i)}});
    w->at[i].state = CLOSED;
}

static void activate(struct world *w, size_t i)
{
    if (i == w->n)
        return;
    live(&w->log, (struct kb_event){.type = KB_EV_ACTIVATED, .as.activated = {.decision = name('d', i)}});
    w->at[i].state = OPEN;
}

static void forget(struct world *w)
{
    live(&w->log, (struct kb_event){.type = KB_EV_FORGOTTEN});
    for (size_t i = 0; i < w->n; i++)
        w->at[i].is_void |= w->at[i].state == REWARDED;
}

/* A graph, another model, and back; each builds the posterior anew. */
static void change(struct world *w)
{
    if (below(w, 2) == 0) {
        put_graph(&w->log);
        return;
    }
    w->spec.repr.lambda = 0.2 + uniform(w);
    live(&w->log, kbt_configured(&w->spec, ++w->version));
}

static void step(struct world *w)
{
    const size_t turn = below(w, 40);

    if (turn == 0)
        change(w);
    else if (turn == 1)
        forget(w);
    else if (turn < 4)
        activate(w, some(w, DEFERRED));
    else if (turn < 8)
        expire(w, some(w, OPEN));
    else if (turn < 18)
        reward(w, some(w, OPEN));
    else if (turn < 20)
        reward(w, some(w, REWARDED));
    else
        decide(w, turn < 23, INT64_MAX);
}

/* ---- oracles ----------------------------------------------------------------------------------------------- */

static void tell(struct kbt_log *twin, const struct decision *d)
{
    live(twin, (struct kb_event){.type = KB_EV_OBSERVED,
                                 .as.observed = {.user = name('u', d->user),
                                                 .context = &d->x,
                                                 .arm = {name('a', d->arm), NULL},
                                                 .reward = d->reward,
                                                 .propensity = 0.5}});
}

static void ask(const struct kb_engine *e, size_t user, double *mean, double *sd)
{
    static char names[N_ARMS][8];
    struct kb_candidate arms[N_ARMS];
    const double x = 0.3;
    struct kb_scratch *s = NULL;
    struct kb_decision d;

    for (size_t i = 0; i < N_ARMS; i++) {
        snprintf(names[i], sizeof names[i], "a%zu", i);
        arms[i] = (struct kb_candidate){names[i], NULL};
    }
    const struct kb_query q = {.user = name('u', user), .context = &x, .candidates = arms, .n_candidates = N_ARMS};
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, N_ARMS, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
    memcpy(mean, d.mean, sizeof d.mean[0] * N_ARMS);
    memcpy(sd, d.sd, sizeof d.sd[0] * N_ARMS);
    kb_engine_scratch_free(s);
}

/* Two engines that wait for nothing: what was rewarded, and the open ones besides. */
static void open_twins(const struct world *w, struct kbt_log *twin)
{
    struct kb_spec spec = w->spec;

    spec.pending = KB_PENDING_IGNORE;
    spec.repr.exact_limit = 4096;
    for (int k = 0; k < 2; k++) {
        kbt_log_open(&twin[k]);
        live(&twin[k], kbt_configured(&spec, 1));
        if (kb_engine_graph(w->log.live) != NULL)
            put_graph(&twin[k]);
        for (size_t i = 0; i < w->n; i++)
            if ((w->at[i].state == REWARDED && !w->at[i].is_void) || (k == 1 && w->at[i].state == OPEN))
                tell(&twin[k], &w->at[i]);
    }
}

static void assert_deviations(struct world *w)
{
    struct kbt_log twin[2];
    size_t n_open = 0;

    open_twins(w, twin);
    for (size_t i = 0; i < w->n; i++)
        n_open += w->at[i].state == OPEN;
    ck_assert_uint_eq(kb_posterior_n_open(w->log.live->posterior), n_open);
    for (size_t u = 0; u < N_USERS; u++) {
        double mean[3][N_ARMS], sd[3][N_ARMS];
        ask(w->log.live, u, mean[0], sd[0]);
        ask(twin[0].live, u, mean[1], sd[1]);
        ask(twin[1].live, u, mean[2], sd[2]);
        for (size_t a = 0; a < N_ARMS; a++) {
            ck_assert_double_eq_tol(mean[0][a], mean[1][a], 1e-9);
            ck_assert_double_eq_tol(sd[0][a], sd[2][a], 1e-8);
        }
    }
    kbt_log_drop(&twin[0]);
    kbt_log_drop(&twin[1]);
}

static void assert_bits(const struct kb_engine *e, const struct world *w)
{
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(w->log.live));
}

/* All of the log; quietly up to the last reset; and a snapshot of a prefix with what stands behind it. */
static void assert_folds(struct world *w)
{
    for (int is_quiet = 0; is_quiet < 2; is_quiet++) {
        struct kb_engine *e = kbt_log_fold(&w->log, NULL, 0, is_quiet != 0);
        assert_bits(e, w);
        kb_engine_free(e);
    }
    struct kb_engine *whole = kbt_log_reload(w->log.live);
    assert_bits(whole, w);
    kb_engine_free(whole);
    const struct kbt_log *log = &w->log;
    struct kb_engine *e = NULL;
    const size_t cut = log->n / 2 + below(w, log->n / 2);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    for (size_t i = 0; i < cut; i++)
        ck_assert_int_eq(kb_engine_fold(e, &log->event[i], NULL), KB_OK);
    if (e->build == NULL) {
        struct kb_engine *back = kbt_log_reload(e);
        kb_engine_free(e);
        e = back;
    }
    for (size_t i = cut; i < log->n; i++)
        ck_assert_int_eq(kb_engine_fold(e, &log->event[i], NULL), KB_OK);
    assert_bits(e, w);
    kb_engine_free(e);
}

static const struct {
    const char *preset;
    uint32_t context_dim;
    bool is_of_all_points;
} rows[] = {{"laplaced", 0, true},
            {"laplaced", 1, true},
            {"ucb", 0, true},
            {"ts", 0, true},
            {"k-ucb", 1, true},
            {"lin-ucb-per-user", 1, true},
            {"laplaced-kors", 1, false},
            {"ek-ucb", 1, false},
            {"bbkb", 1, false},
            {"laplaced-by-component", 1, false}};
#define N_ROWS (int)(sizeof rows / sizeof *rows)

START_TEST(deviations_know_what_is_open_and_folds_have_the_same_bits)
{
    struct world w;
    const struct kb_spec spec = spec_of(rows[_i % N_ROWS].preset, rows[_i % N_ROWS].context_dim);

    kbt_delay = _i < N_ROWS ? 0 : 6;
    open_world(&w, &spec);
    for (size_t i = 1; i <= N_STEPS; i++) {
        step(&w);
        if (i % 25 != 0)
            continue;
        kbt_log_finish_builds(&w.log);
        if (rows[_i % N_ROWS].is_of_all_points)
            assert_deviations(&w);
        assert_folds(&w);
    }
    kbt_delay = 0;
    kbt_log_close(&w.log);
}
END_TEST

/* A model that finds its scales takes the open ones along to each refit. */
START_TEST(refits_take_open_decisions_along)
{
    struct world w;
    struct kb_spec spec = spec_of("laplaced", 1), tuned;

    ck_assert_int_eq(kb_spec_preset(&tuned, "laplaced", 1, 0), KB_OK);
    spec.is_tuned = true;
    spec.learned = tuned.learned;
    open_world(&w, &spec);
    for (size_t i = 0; i < 60; i++) {
        decide(&w, false, INT64_MAX);
        if (i >= 10)
            reward(&w, some(&w, OPEN));
    }
    ck_assert_uint_gt(w.log.live->n_tunings, 3);
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 10);
    assert_folds(&w);
    kbt_log_close(&w.log);
}
END_TEST

/* What a closed window teaches by default was open until then; the model never has it twice. */
START_TEST(a_window_that_closes_teaches_or_takes_back)
{
    for (int has_default = 0; has_default < 2; has_default++) {
        struct world w;
        struct kb_spec spec = spec_of("ucb", 0);
        double mean[2][N_ARMS], sd[2][N_ARMS];

        open_world(&w, &spec);
        ask(w.log.live, 0, mean[0], sd[0]);
        decide(&w, false, 5);
        const size_t arm = w.at[0].arm;
        ask(w.log.live, 0, mean[1], sd[1]);
        ck_assert(mean[1][arm] == mean[0][arm] && sd[1][arm] < sd[0][arm]);
        const double known = sd[1][arm];
        live(&w.log,
             (struct kb_event){.type = KB_EV_EXPIRED,
                               .as.expired = {.decision = "d0", .has_reward = has_default != 0, .reward = 0.75}});
        ask(w.log.live, 0, mean[1], sd[1]);
        ck_assert_double_eq_tol(sd[1][arm], has_default ? known : sd[0][arm], 1e-12);
        ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 0);
        w.at[0] = (struct decision){
            .state = has_default ? REWARDED : CLOSED, .user = w.at[0].user, .arm = arm, .reward = 0.75};
        assert_deviations(&w);
        if (has_default)
            kbt_log_close(&w.log);
        else
            kbt_log_drop(&w.log);
    }
}
END_TEST

/* Each slot of a slate is open by itself. */
START_TEST(slots_of_a_slate_are_open_one_by_one)
{
    struct world w;
    const struct kb_spec spec = spec_of("ucb", 0);
    const struct kb_ev_slot slots[] = {{"a0", NULL}, {"a1", NULL}, {"a2", NULL}};
    double mean[N_ARMS], before[N_ARMS], sd[N_ARMS];

    open_world(&w, &spec);
    ask(w.log.live, 0, mean, before);
    live(&w.log, (struct kb_event){.type = KB_EV_DECIDED,
                                   .as.decided = {.decision = "s",
                                                  .user = "u0",
                                                  .slots = slots,
                                                  .n_slots = 3,
                                                  .propensity = 1,
                                                  .expires_at_ms = INT64_MAX}});
    ask(w.log.live, 0, mean, sd);
    ck_assert(sd[0] < before[0] && sd[1] == sd[0] && sd[2] == sd[0] && sd[3] == before[3]);
    live(&w.log, (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = "s", .arm = "a1", .reward = 1}});
    ask(w.log.live, 0, mean, sd);
    ck_assert(mean[1] > 0 && sd[1] == sd[0]);
    live(&w.log, (struct kb_event){.type = KB_EV_EXPIRED, .as.expired = {.decision = "s"}});
    ask(w.log.live, 0, mean, sd);
    ck_assert_double_eq_tol(sd[0], before[0], 1e-12);
    ck_assert(sd[1] < before[1]);
    assert_folds(&w);
    kbt_log_close(&w.log);
}
END_TEST

/* While a model does not learn its decisions are not open; those that are when that begins teach once. */
START_TEST(what_is_not_learned_is_not_open)
{
    struct world w;
    struct kb_spec spec = spec_of("ucb", 0);

    open_world(&w, &spec);
    decide(&w, false, INT64_MAX);
    w.spec.learns = false;
    live(&w.log, kbt_configured(&w.spec, ++w.version));
    decide(&w, false, INT64_MAX);
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 1);
    live(&w.log, kbt_rewarded("d0", 1)); /* counted, and not learned */
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 0);
    w.spec.learns = true;
    live(&w.log, kbt_configured(&w.spec, ++w.version));
    live(&w.log, kbt_rewarded("d1", 1));
    decide(&w, false, INT64_MAX);
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 1);
    assert_folds(&w);
    kbt_log_close(&w.log);
}
END_TEST

/* ---- a limit of points ---------------------------------------------------------------------------------------- */

#define LIMIT 40u

/* What is open and was not counted for want of room makes deviations larger, never those of less than was learned; and
 * two models of the limit's size are all that there is. */
static void assert_bounded(struct world *w)
{
    const struct kb_posterior *p = w->log.live->posterior;
    struct kbt_log twin[2];

    ck_assert_uint_le(kb_posterior_bytes(p), kb_posterior_bytes_for(p, LIMIT) + 16384);
    ck_assert_double_le(kb_posterior_width(p), sqrt(2.0) * LIMIT);
    open_twins(w, twin);
    for (size_t u = 0; u < N_USERS; u++) {
        double mean[3][N_ARMS], sd[3][N_ARMS];
        ask(w->log.live, u, mean[0], sd[0]);
        ask(twin[0].live, u, mean[1], sd[1]);
        ask(twin[1].live, u, mean[2], sd[2]);
        for (size_t a = 0; a < N_ARMS; a++) {
            ck_assert_double_eq_tol(mean[0][a], mean[1][a], 1e-9);
            ck_assert_double_le(sd[0][a], sd[1][a] + 1e-9);
            ck_assert_double_ge(sd[0][a], sd[2][a] - 1e-9);
        }
    }
    kbt_log_drop(&twin[0]);
    kbt_log_drop(&twin[1]);
}

static void decide_apart(struct world *w)
{
    const size_t i = w->n;

    decide_at(w, i % N_USERS, i % N_ARMS, 0.013 * (double)i, false, INT64_MAX);
}

/* More decisions wait than the model may hold points, each at a point of its own. */
START_TEST(more_are_open_than_the_model_has_room_for)
{
    static const char *const presets[] = {"k-ucb", "lin-ucb-per-user"};
    struct world w;
    struct kb_spec spec = spec_of(presets[_i % 2], 1);

    kbt_delay = _i < 2 ? 0 : 4;
    spec.repr.exact_limit = LIMIT;
    open_world(&w, &spec);
    for (size_t i = 0; i < 4 * LIMIT; i++) {
        decide_apart(&w);
        if (i % 8 == 7) /* of those that are counted and, later on, of those that are not */
            reward(&w, some(&w, OPEN));
        if (i % 40 != 39)
            continue;
        assert_bounded(&w);
        assert_folds(&w);
    }
    kbt_log_finish_builds(&w.log);
    ck_assert_int_eq(kb_engine_spec(w.log.live)->repr.type, KB_REPR_EXACT);
    const size_t n_open = kb_posterior_n_open(w.log.live->posterior);
    ck_assert(n_open > LIMIT / 4 && n_open <= LIMIT);
    w.spec.repr.lambda = 0.5; /* a reset opens as many as there is room for */
    live(&w.log, kbt_configured(&w.spec, ++w.version));
    kbt_log_finish_builds(&w.log);
    assert_bounded(&w);
    assert_folds(&w);
    for (size_t i = some(&w, OPEN); i < w.n; i = some(&w, OPEN))
        expire(&w, i);
    decide_apart(&w); /* and what was taken back makes room */
    kbt_log_finish_builds(&w.log);
    decide_apart(&w);
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 2);
    assert_folds(&w);
    for (size_t i = 0; i < LIMIT; i++) {
        decide_apart(&w);
        reward(&w, some(&w, OPEN));
    }
    kbt_log_finish_builds(&w.log);
    decide_apart(&w); /* what is learned moves the model to a dictionary, as ever */
    kbt_log_finish_builds(&w.log);
    ck_assert_int_eq(kb_engine_spec(w.log.live)->repr.type, KB_REPR_KORS);
    assert_folds(&w);
    kbt_delay = 0;
    kbt_log_close(&w.log);
}
END_TEST

/* ---- a commit that fails ------------------------------------------------------------------------------------- */

static size_t n_left; /* allocations until one fails */

static void *failing_realloc(void *ptr, size_t bytes)
{
    return n_left-- == 1 ? NULL : realloc(ptr, bytes);
}

/* The worker takes all that the build has. */
static void run_build(struct world *w)
{
    struct kb_engine *e = w->log.live;

    for (struct kb_build *b = w->log.lent != NULL ? w->log.lent : kb_engine_lend_build(e); b != NULL;
         b = kb_engine_lend_build(e)) {
        ck_assert_int_eq(kb_build_run(b), KB_OK);
        kb_engine_return_build(e, b);
    }
    w->log.lent = NULL;
}

/* Stages the event that finishes the build, and takes it back as a commit does whose log cannot be written. */
static enum kb_err stage_and_drop(struct world *w, const struct kb_event *finish)
{
    struct kb_commit *c = &w->log.commit;

    kb_commit_begin(c, w->log.live, w->log.n);
    const enum kb_err rc = kb_commit_add(c, finish, w->log.now_ms, NULL);
    kb_commit_drop(c);
    return rc;
}

/* With its points by themselves: those of the engine go with what is staged. */
static struct kb_event finish_of(struct world *w, struct kb_ev_atom *atoms, size_t most)
{
    struct kb_event finish;

    run_build(w);
    ck_assert_int_eq(kb_engine_due(w->log.live, w->log.n + 1, true, &finish), KB_OK);
    ck_assert(kb_event_is_dictionary(&finish) && finish.as.dictionary.from > 0);
    ck_assert_uint_le(finish.as.dictionary.n_atoms, most);
    memcpy(atoms, finish.as.dictionary.atoms, finish.as.dictionary.n_atoms * sizeof *atoms);
    finish.as.dictionary.atoms = atoms;
    return finish;
}

/* Whatever allocation fails, the next try finds the build as if there had been none before. */
static void fail_each_allocation(struct world *w, const struct kb_event *finish)
{
    static const struct kb_alloc_hook failing = {failing_realloc, free};
    enum kb_err rc = KB_ENOMEM;
    size_t k = 1;

    for (; rc == KB_ENOMEM; k++) {
        ck_assert_uint_lt(k, 10000);
        n_left = k;
        kb_alloc_set_hook(&failing);
        rc = stage_and_drop(w, finish);
        kb_alloc_set_hook(NULL);
    }
    ck_assert(rc == KB_OK && k > 10);
}

/* The event that finishes a build opens all decisions in it; one that was taken back has opened none. */
START_TEST(a_build_whose_first_commit_failed_is_finished_by_the_next)
{
    struct world w;
    struct kb_ev_atom atoms[2][MOST_DECISIONS];
    const struct kb_spec spec = spec_of(rows[_i].preset, rows[_i].context_dim);

    kbt_delay = 3;
    open_world(&w, &spec);
    for (size_t i = 0; i < 30; i++) {
        decide(&w, false, INT64_MAX);
        if (i >= 8)
            reward(&w, some(&w, OPEN));
    }
    kbt_log_finish_builds(&w.log);
    w.spec.repr.lambda = 0.4;
    live(&w.log, kbt_configured(&w.spec, ++w.version));
    for (size_t i = 0; i < 12; i++) { /* the worker is given what is learned in several parts */
        decide(&w, false, INT64_MAX);
        reward(&w, some(&w, OPEN));
    }
    ck_assert(kb_engine_is_rebuilding(w.log.live));
    struct kb_event finish = finish_of(&w, atoms[0], MOST_DECISIONS);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(stage_and_drop(&w, &finish), KB_OK);
    fail_each_allocation(&w, &finish);
    finish = finish_of(&w, atoms[1], MOST_DECISIONS); /* or the worker does it once more */
    ck_assert_int_eq(stage_and_drop(&w, &finish), KB_OK);
    kbt_log_finish_builds(&w.log);
    ck_assert_uint_eq(kb_posterior_n_open(w.log.live->posterior), 8);
    if (rows[_i].is_of_all_points)
        assert_deviations(&w);
    assert_folds(&w);
    kbt_delay = 0;
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("open decisions", 120, {deviations_know_what_is_open_and_folds_have_the_same_bits, 2 * N_ROWS},
                         {refits_take_open_decisions_along, 1}, {a_window_that_closes_teaches_or_takes_back, 1},
                         {slots_of_a_slate_are_open_one_by_one, 1}, {what_is_not_learned_is_not_open, 1},
                         {more_are_open_than_the_model_has_room_for, 4},
                         {a_build_whose_first_commit_failed_is_finished_by_the_next, N_ROWS});
}
