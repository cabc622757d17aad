/* What a model has of the rewards of open decisions, when it learns at times only and is made to forget: a table kept
 * here says which value it must have of each, and a second engine is told those values alone. Every fold, snapshot and
 * summary on the way ends where the live model is. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "model/summary.h"

#define N_DECISIONS 12u
#define N_ARMS 3u
#define N_STEPS 160u

static const char *const arms[N_ARMS] = {"a", "b", "c"};

struct told {
    bool has_reward, is_void, is_learned;
    double reward, learned;
};

struct world {
    struct kbt_log log;
    struct kb_spec spec;
    uint64_t version;
    struct told at[N_DECISIONS];
    double counted; /* rewards that are counted */
};

static const char *decision_of(size_t i)
{
    static char id[4][16];
    static unsigned turn;
    char *out = id[turn++ % 4];

    snprintf(out, sizeof id[0], "d%zu", i);
    return out;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {"", ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static void open_world(struct world *w, const char *preset, enum kb_aggregation aggregation)
{
    memset(w, 0, sizeof *w);
    kbt_log_open(&w->log);
    ck_assert_int_eq(kb_spec_preset(&w->spec, preset, 0, 0), KB_OK);
    w->spec.is_tuned = false;
    w->spec.learned = 0;
    w->spec.aggregation = aggregation;
    w->spec.conf.type = KB_CONF_FIXED;
    live(&w->log, kbt_configured(&w->spec, ++w->version));
    for (size_t i = 0; i < N_DECISIONS; i++) {
        const struct kb_ev_slot slot = {arms[i % N_ARMS], NULL};
        live(&w->log, (struct kb_event){.type = KB_EV_DECIDED,
                                        .as.decided = {.decision = decision_of(i),
                                                       .user = i % 2 ? "u" : "v",
                                                       .slots = &slot,
                                                       .n_slots = 1,
                                                       .propensity = 0.5,
                                                       .expires_at_ms = 100000}});
    }
}

static void reward(struct world *w, size_t i, double y)
{
    struct told *t = &w->at[i];

    live(&w->log, kbt_rewarded(decision_of(i), y));
    w->counted += !t->has_reward;
    t->reward = t->has_reward && w->spec.aggregation == KB_AGG_SUM ? t->reward + y : y;
    t->has_reward = true;
    if (w->spec.learns && !t->is_void) {
        t->is_learned = true;
        t->learned = t->reward;
    }
}

static void turn(struct world *w, bool learns)
{
    w->spec.learns = learns;
    live(&w->log, kbt_configured(&w->spec, ++w->version));
}

static void forget(struct world *w)
{
    live(&w->log, (struct kb_event){.type = KB_EV_FORGOTTEN});
    for (size_t i = 0; i < N_DECISIONS; i++) {
        w->at[i].is_void = w->at[i].has_reward;
        w->at[i].is_learned = false;
    }
}

/* The twin is told each value that the model must have, as an observation. */
static void assert_model(const struct world *w)
{
    struct kbt_log twin;
    struct kb_engine_counts counts, other;
    const struct kb_candidate candidates[N_ARMS] = {{"a", NULL}, {"b", NULL}, {"c", NULL}};
    struct kb_scratch *scratch[2];
    double mean[N_ARMS], sd[N_ARMS];

    kbt_log_open(&twin);
    struct kb_spec spec = w->spec;
    spec.learns = true;
    live(&twin, kbt_configured(&spec, 1));
    for (size_t i = 0; i < N_DECISIONS; i++)
        if (w->at[i].is_learned)
            live(&twin, (struct kb_event){.type = KB_EV_OBSERVED,
                                          .as.observed = {.user = i % 2 ? "u" : "v",
                                                          .arm = {arms[i % N_ARMS], NULL},
                                                          .reward = w->at[i].learned,
                                                          .propensity = 0.5}});
    kb_engine_counts(w->log.live, &counts);
    kb_engine_counts(twin.live, &other);
    ck_assert_uint_eq(counts.learned, other.learned);
    ck_assert_double_eq((double)counts.valued, w->counted);
    for (int k = 0; k < 2; k++) {
        const struct kb_engine *e = k == 0 ? w->log.live : twin.live;
        const struct kb_query q = {.user = "u", .candidates = candidates, .n_candidates = N_ARMS, .is_unrouted = true};
        struct kb_decision d;
        ck_assert_int_eq(kb_engine_scratch_new(&scratch[k]), KB_OK);
        ck_assert_int_eq(kb_engine_fit_scratch(e, scratch[k], N_ARMS, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(e, &q, scratch[k], &d, NULL), KB_OK);
        for (size_t i = 0; i < N_ARMS; i++) {
            if (k == 1) {
                ck_assert_double_eq_tol(d.mean[i], mean[i], 1e-9);
                ck_assert_double_eq_tol(d.sd[i], sd[i], 1e-9);
            }
            mean[i] = d.mean[i];
            sd[i] = d.sd[i];
        }
        kb_engine_scratch_free(scratch[k]);
    }
    kbt_log_drop(&twin);
}

static void assert_folds(const struct world *w)
{
    struct kb_engine *folded = kbt_log_fold(&w->log, NULL, 0, false), *again = kbt_log_reload(w->log.live);

    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(w->log.live));
    ck_assert_uint_eq(kb_engine_digest(again), kb_engine_digest(w->log.live));
    kb_engine_free(folded);
    kb_engine_free(again);
}

/* The summary, and behind it the rest of the log, has what the log has. */
static struct kb_engine *fold_summary(const struct world *w)
{
    struct kb_summarizer *s = NULL;
    struct kb_engine *e = NULL;
    struct kb_event ev;
    uint64_t n = 0;

    ck_assert_int_eq(kb_summarizer_new(&s, w->log.live), KB_OK);
    while (kb_summarizer_next(s, &ev))
        n++;
    kb_summarizer_free(s);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_summarizer_new(&s, w->log.live), KB_OK);
    for (uint64_t i = 1; kb_summarizer_next(s, &ev); i++) {
        struct kb_errmsg msg = {"", ""};
        ev.seq = w->log.event[w->log.n - 1].seq + 100 - n + i;
        ck_assert_msg(kb_engine_fold(e, &ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    }
    kb_summarizer_free(s);
    return e;
}

static void assert_summary(const struct world *w)
{
    struct kb_engine *e = fold_summary(w);
    struct kb_engine_counts counts, other;

    kb_engine_counts(e, &counts);
    kb_engine_counts(w->log.live, &other);
    ck_assert_uint_eq(counts.valued, other.valued);
    ck_assert_uint_eq(counts.learned, other.learned);
    ck_assert_double_eq(counts.reward_sum, other.reward_sum);
    kb_engine_free(e);
}

static void step(struct world *w, uint64_t i)
{
    const uint64_t roll = i * 2654435761u >> 7;

    if (roll % 23 == 0)
        forget(w);
    else if (roll % 7 == 0)
        turn(w, !w->spec.learns);
    else
        reward(w, roll % N_DECISIONS, (double)(roll % 9) / 8 - 0.25);
}

static const char *const presets[] = {"ucb", "laplaced", "laplaced-kors", "gp-ucb", "ts"};
#define N_PRESETS (sizeof presets / sizeof *presets)

START_TEST(the_model_has_what_the_table_says)
{
    struct world w;

    open_world(&w, presets[(size_t)_i / 2], _i % 2 ? KB_AGG_SUM : KB_AGG_LAST);
    if (w.spec.repr.type != KB_REPR_KORS)
        assert_model(&w);
    for (uint64_t i = 1; i <= N_STEPS; i++) {
        step(&w, i);
        if (i % 20 == 0) {
            if (w.spec.repr.type != KB_REPR_KORS) /* whose points are drawn */
                assert_model(&w);
            assert_folds(&w);
            assert_summary(&w);
        }
    }
    kbt_log_close(&w.log);
}
END_TEST

/* A fold that is quiet up to the last line that forgets has the same bits. */
START_TEST(nothing_before_a_line_that_forgets_need_be_taught)
{
    struct world w;

    open_world(&w, presets[_i], KB_AGG_LAST);
    for (uint64_t i = 1; i <= N_STEPS; i++)
        step(&w, i);
    uint64_t last = 0;
    for (size_t i = 0; i < w.log.n; i++)
        if (w.log.event[i].type == KB_EV_FORGOTTEN)
            last = w.log.event[i].seq;
    ck_assert_uint_gt(last, 0);
    struct kb_engine *e = NULL;
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(e, last);
    for (size_t i = 0; i < w.log.n; i++) {
        struct kb_errmsg msg = {"", ""};
        ck_assert_msg(kb_engine_fold(e, &w.log.event[i], &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    }
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(w.log.live));
    kb_engine_free(e);
    kbt_log_close(&w.log);
}
END_TEST

/* A change of the model that is being built when the line comes: its values and graph are in force, and it is not. */
START_TEST(a_build_that_is_open_ends)
{
    struct world w;

    kbt_delay = 1000;
    open_world(&w, "laplaced", KB_AGG_FIRST);
    for (size_t i = 0; i < N_DECISIONS; i++)
        reward(&w, i, (double)i / 8);
    const struct kb_ev_edge edge = {"u", "v", 2};
    live(&w.log, (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = &edge, .n_add = 1}});
    w.spec.prior.arm = 2;
    live(&w.log, kbt_configured(&w.spec, ++w.version));
    live(&w.log, (struct kb_event){.type = KB_EV_FORGOTTEN});
    ck_assert(kb_engine_graph(w.log.live) != NULL);
    ck_assert(kb_engine_spec(w.log.live)->prior.arm == 2);
    kbt_delay = 0;
    struct kb_engine *folded = kbt_log_fold(&w.log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(w.log.live));
    kb_engine_free(folded);
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("modes", 0, {the_model_has_what_the_table_says, 2 * N_PRESETS},
                         {nothing_before_a_line_that_forgets_need_be_taught, N_PRESETS},
                         {a_build_that_is_open_ends, 1});
}
