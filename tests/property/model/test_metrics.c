/* Values of metrics beside the model: they are kept through every fold, snapshot and summary, and leave what the model
 * has learned as it is. The values are compared with a table that the test keeps. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "model/summary.h"

#define N_DECISIONS 8u
#define N_METRICS 3u

static const char *const metrics[N_METRICS] = {"revenue", "time", "m\xc3\xa9trique"};

struct world {
    struct kbt_log log;
    struct {
        bool is_told;
        double value;
    } at[N_DECISIONS][2][N_METRICS];
};

static const char *decision_of(size_t i)
{
    static char id[2][16];
    static unsigned turn;
    char *out = id[turn++ % 2];

    snprintf(out, sizeof id[0], "d%zu", i);
    return out;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {"", ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

/* Slates of two, in `first`, which closes a decision with its last reward where there are no metrics. */
static void open_world(struct world *w, enum kb_aggregation aggregation)
{
    struct kb_spec spec;

    memset(w, 0, sizeof *w);
    kbt_log_open(&w->log);
    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    spec.is_tuned = false;
    spec.learned = 0;
    spec.aggregation = aggregation;
    spec.has_metrics = true;
    live(&w->log, kbt_configured(&spec, 1));
    for (size_t i = 0; i < N_DECISIONS; i++) {
        const struct kb_ev_slot slots[2] = {{i % 2 ? "a" : "b", NULL}, {"c", NULL}};
        live(&w->log, (struct kb_event){.type = KB_EV_DECIDED,
                                        .as.decided = {.decision = decision_of(i),
                                                       .user = i % 3 ? "u" : "v",
                                                       .slots = slots,
                                                       .n_slots = 2,
                                                       .propensity = 0.5,
                                                       .expires_at_ms = 1000}});
    }
}

/* What the engine has of every slot is what was told last. */
static void assert_values(const struct world *w, const struct kb_engine *e)
{
    for (size_t i = 0; i < N_DECISIONS; i++)
        for (size_t slot = 0; slot < 2; slot++)
            for (size_t m = 0; m < N_METRICS; m++) {
                bool has_value = false;
                double value = 0;
                const char *arm = slot == 0 ? NULL : "c";
                ck_assert_int_eq(kb_engine_metric(e, decision_of(i), arm, metrics[m], &has_value, &value), KB_OK);
                ck_assert(has_value == w->at[i][slot][m].is_told);
                ck_assert(!has_value || value == w->at[i][slot][m].value);
            }
}

static void measure(struct world *w, uint64_t step)
{
    const size_t i = step * 5 % N_DECISIONS, slot = step / 3 % 2, m = step * 7 % N_METRICS;
    const uint64_t before = kb_engine_content_digest(w->log.live);
    struct kb_event ev = {.type = KB_EV_MEASURED};

    ev.as.measured.decision = decision_of(i);
    ev.as.measured.arm = slot == 0 ? NULL : "c";
    ev.as.measured.metric = (struct kb_ev_metric){.name = metrics[m],
                                                  .value = (double)step / 4,
                                                  .has_before = w->at[i][slot][m].is_told,
                                                  .before = w->at[i][slot][m].value};
    if (step % 4 == 0) {
        ev.as.measured.metric.has_total = true;
        ev.as.measured.metric.total = -(double)step;
    }
    w->at[i][slot][m].is_told = true;
    w->at[i][slot][m].value = kb_ev_metric_total(&ev.as.measured.metric);
    live(&w->log, ev);
    ck_assert_uint_eq(kb_engine_content_digest(w->log.live), before);
}

static void fill(struct world *w)
{
    for (uint64_t step = 0; step < 40; step++) {
        measure(w, step);
        if (step % 5 == 0)
            (void)kbt_log_live(&w->log, kbt_rewarded(decision_of(step % N_DECISIONS), 0.5), NULL);
    }
}

/* The digest has the number of the last event in it: so two logs of one length, that differ in their values alone. */
START_TEST(values_are_no_part_of_the_digest_and_teach_nothing)
{
    uint64_t digest[2];
    for (int k = 0; k < 2; k++) {
        struct world w;
        open_world(&w, KB_AGG_LAST);
        live(&w.log, kbt_rewarded("d0", 1));
        for (uint64_t i = 0; i < 6; i++)
            live(&w.log,
                 (struct kb_event){.type = KB_EV_MEASURED,
                                   .as.measured = {.decision = decision_of(i),
                                                   .metric = {.name = metrics[k], .value = k == 0 ? 1 : -7.5}}});
        live(&w.log, kbt_rewarded("d1", 0.25));
        digest[k] = kb_engine_digest(w.log.live);
        kbt_log_close(&w.log);
    }
    ck_assert_uint_eq(digest[0], digest[1]);
}
END_TEST

START_TEST(values_are_there_after_every_fold_and_snapshot)
{
    struct world w;
    open_world(&w, KB_AGG_FIRST);
    fill(&w);
    assert_values(&w, w.log.live);
    struct kb_engine *folded = kbt_log_fold(&w.log, NULL, 0, false), *again = kbt_log_reload(w.log.live);
    assert_values(&w, folded);
    assert_values(&w, again);
    ck_assert_uint_eq(kb_engine_digest(folded), kb_engine_digest(w.log.live));
    ck_assert_uint_eq(kb_engine_digest(again), kb_engine_digest(w.log.live));
    kb_engine_free(folded);
    kb_engine_free(again);
    kbt_log_close(&w.log);
}
END_TEST

START_TEST(a_summary_tells_the_values_of_open_decisions)
{
    struct world w;
    struct kb_summarizer *s = NULL;
    struct kb_engine *e = NULL;
    struct kb_event ev;
    uint64_t n = 0;
    open_world(&w, KB_AGG_LAST);
    fill(&w);
    ck_assert_int_eq(kb_summarizer_new(&s, w.log.live), KB_OK);
    while (kb_summarizer_next(s, &ev))
        n++;
    kb_summarizer_free(s);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_summarizer_new(&s, w.log.live), KB_OK);
    for (uint64_t i = 1; kb_summarizer_next(s, &ev); i++) {
        struct kb_errmsg msg = {"", ""};
        ev.seq = w.log.n - n + i;
        ck_assert_msg(kb_engine_fold(e, &ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    }
    kb_summarizer_free(s);
    assert_values(&w, e);
    kb_engine_free(e);
    kbt_log_close(&w.log);
}
END_TEST

/* With metrics a decision is open until its window closes; its values, and their memory, go with it. */
START_TEST(a_decision_with_all_rewards_stays_open_for_its_metrics)
{
    size_t bytes[2][2];
    for (int with_values = 0; with_values < 2; with_values++) {
        struct world w;
        open_world(&w, KB_AGG_FIRST);
        struct kb_event second = kbt_rewarded("d0", 1);
        second.as.rewarded.arm = "c";
        live(&w.log, kbt_rewarded("d0", 1));
        live(&w.log, second);
        ck_assert_int_eq(kb_engine_decision_state(w.log.live, "d0"), KB_DECISION_PENDING);
        ck_assert_int_eq(kbt_log_live(&w.log, second, NULL), KB_ECONFLICT);
        for (uint64_t step = 0; step < 20 && with_values; step++)
            measure(&w, step);
        bytes[with_values][0] = kb_engine_bytes(w.log.live);
        for (size_t i = 0; i < N_DECISIONS; i++)
            live(&w.log, (struct kb_event){.type = KB_EV_EXPIRED, .as.expired = {.decision = decision_of(i)}});
        bytes[with_values][1] = kb_engine_bytes(w.log.live);
        ck_assert_int_eq(kb_engine_decision_state(w.log.live, "d0"), KB_DECISION_UNKNOWN);
        kbt_log_close(&w.log);
    }
    ck_assert_uint_gt(bytes[1][0], bytes[0][0]);
    ck_assert_uint_eq(bytes[1][1], bytes[0][1]);
}
END_TEST

START_TEST(what_has_no_decision_slot_or_size_is_refused_and_changes_nothing)
{
    struct world w;
    open_world(&w, KB_AGG_FIRST);
    fill(&w);
    const struct {
        const char *decision, *arm;
        double value;
        enum kb_err rc;
    } bad[] = {{"nothing", NULL, 1, KB_ENOTFOUND},
               {"d1", "zzz", 1, KB_ENOTFOUND},
               {"d1", "b", 1, KB_ENOTFOUND},
               {"d1", NULL, 1e31, KB_ERANGE}};
    const uint64_t digest = kb_engine_digest(w.log.live);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kb_event ev = {.type = KB_EV_MEASURED};
        ev.as.measured.decision = bad[i].decision;
        ev.as.measured.arm = bad[i].arm;
        ev.as.measured.metric = (struct kb_ev_metric){.name = metrics[0], .value = bad[i].value};
        ck_assert_int_eq(kbt_log_live(&w.log, ev, NULL), bad[i].rc);
    }
    ck_assert_uint_eq(kb_engine_digest(w.log.live), digest);
    assert_values(&w, w.log.live);
    kbt_log_close(&w.log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("metrics", 0, {values_are_no_part_of_the_digest_and_teach_nothing, 1},
                         {values_are_there_after_every_fold_and_snapshot, 1},
                         {a_summary_tells_the_values_of_open_decisions, 1},
                         {a_decision_with_all_rewards_stays_open_for_its_metrics, 1},
                         {what_has_no_decision_slot_or_size_is_refused_and_changes_nothing, 1});
}
