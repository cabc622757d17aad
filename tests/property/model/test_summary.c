/* Summaries: over every preset, a fold of a summary and of the events behind it ends in the same state, bit for bit, as
 * a fold of all events and as the live model, wherever the log is cut; a summary of a summary is the same one; and what
 * a summary must not say is refused. Oracle: the fold of the whole log. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/summary.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define N_USERS 9
#define N_ARMS 5
#define N_STEPS 90
#define N_EXTRA 7 /* models that no preset has by itself */

static double number(uint64_t seed, uint64_t i)
{
    return 2 * kb_rng_uniform(seed, KB_STREAM_SIMULATION, i) - 1;
}

/* Of letter and number, in one of a few buffers: good until a few calls later. */
static const char *name(char letter, size_t i)
{
    static char text[64][16];
    static size_t next;
    char *out = text[next++ % 64];

    snprintf(out, sizeof text[0], "%c%zu", letter, i);
    return out;
}

/* ---- a session ------------------------------------------------------------------------------------------ */

static void live(struct kbt_log *log, struct kb_event ev)
{
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

static void put_graph(struct kbt_log *log, double weight)
{
    struct kb_ev_edge edges[N_USERS];
    const char *lonely[1] = {"z"};
    const size_t n = N_USERS - 2;

    for (size_t i = 0; i < n; i++)
        edges[i] = (struct kb_ev_edge){name('u', i), name('u', (i + 1) % n), weight + (double)i / 3};
    live(log,
         (struct kb_event){.type = KB_EV_GRAPH,
                           .as.graph = {.is_replace = true, .users = lonely, .n_users = 1, .add = edges, .n_add = n}});
}

static void put_arms(struct kbt_log *log, size_t first, bool is_replace)
{
    const uint32_t dim = kb_engine_spec(log->live)->arm_dim;
    struct kb_ev_arm arms[N_ARMS];
    double features[N_ARMS][3];
    static const char *const countries[] = {"de", "at"};
    static const struct kb_attribute_rule allow = {"country", countries, 2};
    const struct kb_eligibility rules = {
        .allow = &allow, .n_allow = 1, .from_ms = 7, .until_ms = INT64_MAX, .hours = 5, .days = 3};

    for (size_t i = 0; i < N_ARMS; i++) {
        for (size_t k = 0; k < 3; k++)
            features[i][k] = number(3, 3 * (first + i) + k) * (k == 2 ? -0.0 : 1);
        arms[i] = (struct kb_ev_arm){.id = name('a', first + i),
                                     .features = dim > 0 ? features[i] : NULL,
                                     .is_active = i != 3,
                                     .is_stopped = i == 1,
                                     .eligibility = i == 2 ? &rules : NULL,
                                     .value = i == 1 ? "{\"price\":9}" : NULL};
    }
    live(log,
         (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = is_replace, .put = arms, .n_put = N_ARMS}});
}

/* A decision for an arm of the test's own choice, since what is shown does not matter here. */
static void decide(struct kbt_log *log, uint64_t seed, size_t i)
{
    const double x[2][5] = {{number(seed, 9 * i), 0.25, number(seed, 9 * i + 1), 1e-17, 3}, {-0.0, 1, 2, 3, 1.0 / 3}};
    const bool is_assigned = i % 5 == 1 && i * i % KB_ROUTE_N != KB_ROUTE_STICKY;
    const struct kb_ev_slot slots[2] = {{name('a', i % 7), x[0] + 2}, {name('a', (i + 1) % 7), x[1] + 2}};

    live(log, (struct kb_event){.type = KB_EV_DECIDED,
                                .as.decided = {.decision = name('d', i),
                                               .user = name('u', (i * i) % N_USERS),
                                               .context = x[0],
                                               .slots = slots,
                                               .n_slots = i % 6 == 0 ? 2 : 1,
                                               .propensity = 0.5,
                                               .route = (enum kb_route)(i * i % KB_ROUTE_N),
                                               .assigned_until_ms = is_assigned ? log->now_ms + 1000 : 0,
                                               .expires_at_ms = log->now_ms + 20,
                                               .is_deferred = i % 11 == 3,
                                               .level = 0}});
}

static void expire_due(struct kbt_log *log, bool has_reward)
{
    const char *ids[8];

    while (kb_engine_expired(log->live, log->now_ms, ids, 8) > 0)
        live(log, (struct kb_event){.type = KB_EV_EXPIRED,
                                    .as.expired = {.decision = ids[0], .has_reward = has_reward, .reward = -0.5}});
}

static void traffic(struct kbt_log *log, uint64_t seed, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        decide(log, seed, i);
        log->now_ms++;
        if (i % 11 == 4 && i % 2 == 0)
            (void)kbt_log_live(
                log, (struct kb_event){.type = KB_EV_ACTIVATED, .as.activated = {.decision = name('d', i - 1)}}, NULL);
        if (i % 4 != 1) /* the repeats that a configuration does not take are refused */
            (void)kbt_log_live(log, kbt_rewarded(name('d', i - i % 3), number(seed, 1000 + i)), NULL);
        if (i % 9 == 0)
            live(log, (struct kb_event){.type = KB_EV_LATE, .as.late = {.decision = "gone", .reward = 1}});
        if (i % 7 == 0)
            expire_due(log, i % 2 == 0);
    }
}

static size_t n_presets(void)
{
    size_t n = 0;

    while (kb_preset_name(n) != NULL)
        n++;
    return n;
}

/* A model whose deviations know open decisions, where it may. */
static struct kb_spec with_open(struct kb_spec spec)
{
    struct kb_spec open = spec;

    open.conf.type = KB_CONF_FIXED;
    open.conf.is_mixture = false;
    open.pending = KB_PENDING_HALLUCINATE;
    return kb_spec_check(&open, NULL) == KB_OK ? open : spec;
}

static struct kb_spec spec_of(size_t i)
{
    struct kb_spec spec;
    const bool is_plain = i % 3 == 1;

    if (i < n_presets()) {
        ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), is_plain ? 0 : 2, is_plain ? 0 : 3), KB_OK);
        spec.aggregation = (enum kb_aggregation)(i % KB_AGG_N);
        return spec;
    }
    i -= n_presets();
    if (i >= N_EXTRA)
        return with_open(spec_of(i - N_EXTRA));
    if (i >= 4) { /* models that forget, with corrections */
        ck_assert_int_eq(kb_spec_preset(&spec, i == 4 ? "coop-kernel-ucb" : "ek-ucb", 2, 3), KB_OK);
        spec.forgetting.type = i == 5 ? KB_FORGET_HALF_LIFE : KB_FORGET_DISCOUNT;
        spec.forgetting.discount = 0.9;
        spec.forgetting.half_life_s = 0.01;
        spec.aggregation = i == 6 ? KB_AGG_SUM : KB_AGG_LAST;
        return spec;
    }
    ck_assert_int_eq(kb_spec_preset(&spec,
                                    i == 1   ? "laplaced-kors"
                                    : i == 3 ? "cmm-ucb"
                                             : "coop-kernel-ucb",
                                    2, 3),
                     KB_OK);
    spec.aggregation = i == 3 ? KB_AGG_FIRST : KB_AGG_LAST;
    if (i == 1 || i == 3)
        spec.repr.exact_limit = 12; /* an exact model hands over to a dictionary */
    if (i == 1)
        spec.repr.type = KB_REPR_EXACT;
    if (i == 3) {
        spec.conf.type = KB_CONF_DMM;
        spec.conf.is_mixture = true;
    }
    if (i == 0 || i == 2) {
        spec.user_kernel.type = KB_USER_MMD;
        spec.user_kernel.n_features = 16;
        spec.user_kernel.refresh = 13;
        spec.user_kernel.min_observations = 2;
        spec.context_kernel.is_median = i == 2;
    }
    return spec;
}

static void rebuild(struct kbt_log *log)
{
    struct kb_event next;

    kbt_log_finish_builds(log);
    ck_assert_int_eq(kb_engine_rebuild(log->live, log->n + 1, &next), KB_OK);
    ck_assert_int_eq(next.type, KB_EV_DICTIONARY);
    ck_assert_int_eq(kbt_log_live(log, next, NULL), KB_OK);
    kbt_log_finish_builds(log);
}

#define ROOM 12u

/* Events that say nothing: a summary's lines are numbered up to the event that it ends with, from 1 on. */
static void make_room(struct kbt_log *log)
{
    for (size_t i = 0; i < ROOM; i++)
        live(log, (struct kb_event){.type = KB_EV_REDACTED});
}

/* Traffic, another catalogue, graph and ridge, traffic, a reset, and a little more. */
static void run_session(struct kbt_log *log, struct kb_spec spec, uint64_t seed)
{
    kbt_log_open(log);
    live(log, kbt_configured(&spec, 1));
    make_room(log);
    put_graph(log, 1);
    put_arms(log, 0, true);
    traffic(log, seed, 0, N_STEPS / 3);
    put_arms(log, 2, true);
    put_graph(log, 2);
    spec.repr.lambda = 0.5;
    live(log, kbt_configured(&spec, 2));
    traffic(log, seed, N_STEPS / 3, 2 * N_STEPS / 3);
    rebuild(log);
    traffic(log, seed, 2 * N_STEPS / 3, N_STEPS);
}

/* ---- summaries ------------------------------------------------------------------------------------------- */

/* The first n events folded quietly. */
static struct kb_engine *fold_prefix(const struct kbt_log *log, size_t n)
{
    struct kb_engine *e = NULL;

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(e, UINT64_MAX);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(kb_engine_fold(e, &log->event[i], NULL), KB_OK);
    return e;
}

/* A new engine with the summary of `of`, up to which a fold is quiet until `quiet`. */
static struct kb_engine *fold_summary(const struct kb_engine *of, uint64_t last, uint64_t quiet)
{
    struct kb_engine *e = NULL;
    struct kb_summarizer *s = NULL;
    struct kb_errmsg msg = {0};
    struct kb_event ev;
    uint64_t n = 0;

    ck_assert_int_eq(kb_summarizer_new(&s, of), KB_OK);
    while (kb_summarizer_next(s, &ev))
        n++;
    kb_summarizer_free(s);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(e, quiet);
    ck_assert_int_eq(kb_summarizer_new(&s, of), KB_OK);
    for (uint64_t i = 1; kb_summarizer_next(s, &ev); i++) {
        ev.seq = last - n + i;
        const enum kb_err rc = kb_engine_fold(e, &ev, &msg);
        ck_assert_msg(rc == KB_OK, "part %s: %s %s", kb_word(&kb_part_words, (int)ev.as.summary->part), msg.pointer,
                      msg.text);
        ck_assert(i == n || !kb_engine_can_be_summarized(e));
    }
    kb_summarizer_free(s);
    return e;
}

/* The event that began the last reset. */
static uint64_t last_beginning(const struct kbt_log *log)
{
    uint64_t from = 0;

    for (size_t i = 0; i < log->n; i++)
        if (log->event[i].type == KB_EV_DICTIONARY && log->event[i].as.dictionary.is_reset &&
            !log->event[i].as.dictionary.is_begun)
            from = log->event[i].as.dictionary.from > 0 ? log->event[i].as.dictionary.from : log->event[i].seq;
    return from;
}

static void expect_same_at(const struct kbt_log *log, size_t cut, bool is_quiet)
{
    struct kb_engine *prefix = fold_prefix(log, cut);

    if (!kb_engine_can_be_summarized(prefix)) {
        kb_engine_free(prefix);
        return;
    }
    struct kb_engine *quiet = fold_summary(prefix, cut, UINT64_MAX), *again = fold_summary(quiet, cut, UINT64_MAX);
    ck_assert_uint_eq(kb_engine_digest(quiet), kb_engine_digest(prefix));
    ck_assert_uint_eq(kb_engine_digest(again), kb_engine_digest(prefix));
    struct kb_engine *e = kbt_log_fold(log, fold_summary(again, cut, 0), cut, is_quiet);
    ck_assert(kb_engine_is_whole(e));
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(log->live));
    struct kb_engine *copy = kbt_log_reload(e);
    ck_assert_uint_eq(kb_engine_digest(copy), kb_engine_digest(log->live));
    kb_engine_free(prefix);
    kb_engine_free(quiet);
    kb_engine_free(again);
    kb_engine_free(copy);
    kb_engine_free(e);
}

START_TEST(a_summary_and_the_rest_fold_to_the_same_state)
{
    struct kbt_log log;

    run_session(&log, spec_of((size_t)_i), 40 + (uint64_t)_i);
    kbt_log_finish_builds(&log);
    const uint64_t from = last_beginning(&log);
    ck_assert_uint_gt(from, 40);
    for (size_t cut = ROOM + 10; cut < from; cut += 13)
        expect_same_at(&log, cut, cut % 2 == 0);
    expect_same_at(&log, (size_t)from - 1, false);
    expect_same_at(&log, ROOM, true);
    expect_same_at(&log, ROOM + 2, true);
    kbt_log_close(&log);
}
END_TEST

/* The same where models are built beside the traffic, so that a log has resets that were begun and superseded. */
START_TEST(builds_beside_the_traffic_change_nothing_of_that)
{
    struct kbt_log log;

    kbt_delay = 5;
    run_session(&log, spec_of((size_t)_i), 80 + (uint64_t)_i);
    kbt_log_finish_builds(&log);
    const uint64_t from = last_beginning(&log);
    for (size_t cut = 20; cut < from; cut += 9)
        expect_same_at(&log, cut, cut % 2 == 0);
    kbt_log_close(&log);
    kbt_delay = 0;
}
END_TEST

/* A reset that is asked for, planned and folded at once. */
static void fold_rebuild(struct kb_engine *e, uint64_t seq)
{
    struct kb_event next;

    kb_engine_set_inline_work(e, INFINITY);
    ck_assert_int_eq(kb_engine_rebuild(e, seq, &next), KB_OK);
    ck_assert(next.type == KB_EV_DICTIONARY && next.as.dictionary.is_reset);
    next.seq = seq;
    ck_assert_int_eq(kb_engine_fold(e, &next, NULL), KB_OK);
}

/* Who has the summary alone, and not the reset that the log has behind it, can ask for one: it chooses and fills as a
 * rebuild of the live model does. */
START_TEST(a_rebuild_behind_a_summary_is_the_live_models)
{
    struct kbt_log log;

    run_session(&log, spec_of((size_t)_i), 60 + (uint64_t)_i);
    kbt_log_finish_builds(&log);
    struct kb_engine *e = fold_summary(log.live, log.n, 0);
    ck_assert(!kb_engine_is_whole(e));
    fold_rebuild(e, log.n + 1);
    ck_assert(kb_engine_is_whole(e));
    fold_rebuild(log.live, log.n + 1);
    ck_assert_uint_eq(kb_engine_content_digest(e), kb_engine_content_digest(log.live));
    kb_engine_free(e);
    kbt_log_close(&log);
}
END_TEST

/* No reset is needed behind a summary in which nothing was learned. */
START_TEST(a_log_without_a_reset_goes_on_where_nothing_was_learned)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of((size_t)_i);

    kbt_log_open(&log);
    live(&log, kbt_configured(&spec, 1));
    make_room(&log);
    put_graph(&log, 1);
    put_arms(&log, 0, true);
    decide(&log, 1, 1);
    const size_t cut = log.n;
    traffic(&log, 2, 2, 30);
    kbt_log_finish_builds(&log);
    struct kb_engine *prefix = fold_prefix(&log, cut);
    struct kb_engine *e = kbt_log_fold(&log, fold_summary(prefix, cut, 0), cut, false);
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(log.live));
    kb_engine_free(prefix);
    kb_engine_free(e);
    kbt_log_close(&log);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------- */

/* The parts of a small summary, each in a struct of its own that a case may change. */
#define MOST_PARTS 16
struct parts {
    struct kbt_log log;
    struct kb_engine *of;
    struct kb_summarizer *s[MOST_PARTS]; /* one for each, so that what they borrow stays */
    struct kb_ev_summary part[MOST_PARTS];
    size_t n;
};

static void parts_open(struct parts *p)
{
    struct kb_event ev;

    *p = (struct parts){.n = 0};
    kbt_log_open(&p->log);
    const struct kb_spec spec = spec_of(0);
    live(&p->log, kbt_configured(&spec, 1));
    put_graph(&p->log, 1);
    put_arms(&p->log, 0, true);
    traffic(&p->log, 5, 0, 8);
    p->of = fold_prefix(&p->log, p->log.n);
    for (bool is_part = true; is_part; p->n += is_part) {
        ck_assert_uint_lt(p->n, MOST_PARTS);
        ck_assert_int_eq(kb_summarizer_new(&p->s[p->n], p->of), KB_OK);
        for (size_t i = 0; i <= p->n; i++)
            is_part = kb_summarizer_next(p->s[p->n], &ev);
        if (is_part)
            p->part[p->n] = *ev.as.summary;
        else
            kb_summarizer_free(p->s[p->n]);
    }
}

static void parts_close(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        kb_summarizer_free(p->s[i]);
    kb_engine_free(p->of);
    kbt_log_close(&p->log);
}

static struct kb_ev_summary *part_of(struct parts *p, enum kb_summary_part part)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->part[i].part == part)
            return &p->part[i];
    ck_abort_msg("no such part");
    return NULL;
}

/* The code with which the fold of the parts ends. */
static enum kb_err fold_parts(const struct parts *p, struct kb_errmsg *msg)
{
    struct kb_engine *e = NULL;
    enum kb_err rc = KB_OK;

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    for (size_t i = 0; i < p->n && rc == KB_OK; i++)
        rc = kb_engine_fold(e, &(struct kb_event){.type = KB_EV_SUMMARY, .seq = 7 + i, .as.summary = &p->part[i]}, msg);
    kb_engine_free(e);
    return rc;
}

static void expect_fault(struct parts *p, const char *pointer)
{
    struct kb_errmsg msg = {0};

    ck_assert_int_eq(fold_parts(p, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, pointer);
}

START_TEST(faults_of_a_summary_are_named)
{
    struct parts p;
    struct kb_ev_summary *part = NULL, kept;
    uint32_t far[64], same[64] = {0};
    enum kb_route repeats[64];
    uint64_t falling[64];
    double negative[64];

    for (size_t i = 0; i < 64; i++) {
        far[i] = 1000;
        repeats[i] = KB_ROUTE_STICKY;
        falling[i] = 64 - i;
        negative[i] = -1;
    }
    parts_open(&p);
    ck_assert_int_eq(fold_parts(&p, NULL), KB_OK);
#define CASE(kind, change, pointer)                                                                                    \
    part = part_of(&p, kind);                                                                                          \
    kept = *part;                                                                                                      \
    change;                                                                                                            \
    expect_fault(&p, pointer);                                                                                         \
    *part = kept
    CASE(KB_PART_USERS, part->squares = negative, "/squares/0");
    CASE(KB_PART_GRAPH, part->nodes = far, "/nodes/0");
    CASE(KB_PART_GRAPH, part->n_nodes--, "/part");
    CASE(KB_PART_POINTS, part->points.user = far, "/user/0");
    CASE(KB_PART_POINTS, part->points.level = far, "/level/0");
    CASE(KB_PART_POINTS, part->points.arm = far, "/part");
    CASE(KB_PART_POINTS, part->points.event = falling, "/event/1");
    CASE(KB_PART_POINTS, part->points.count = negative, "/count/0");
    CASE(KB_PART_DECISION, part->user = "nobody", "/user");
    CASE(KB_PART_ASSIGNED, part->assigned.user = far, "/user/0");
    CASE(KB_PART_ASSIGNED, part->assigned.user = same, "/user/1");
    CASE(KB_PART_ASSIGNED, part->assigned.arm = far, "/arm/0");
    CASE(KB_PART_ASSIGNED, part->assigned.route = repeats, "/route/0");
    CASE(KB_PART_ASSIGNED, part->assigned.propensity = negative, "/propensity/0");
    CASE(KB_PART_ARMS, part->n_arms = 0, "/arm/0");
    CASE(KB_PART_DECISION, part->route = KB_ROUTE_STICKY, "/route");
    CASE(KB_PART_DECISION, part->level = 1000, "/level");
    CASE(KB_PART_DECISION, part->n_slots = 0, "/slots");
    CASE(KB_PART_BEGIN, part->part = KB_PART_END, "/seq");
    CASE(KB_PART_ARMS, part->part = KB_PART_BEGIN, "/part");
    CASE(KB_PART_ARMS, part->part = KB_PART_N, "/part");
    p.part[p.n] = p.part[1]; /* users behind the end */
    p.n++;
    expect_fault(&p, "/part");
    p.n--;
    parts_close(&p);
}
END_TEST

START_TEST(nothing_but_its_parts_stands_in_a_summary)
{
    struct parts p;
    struct kb_engine *e = NULL;
    struct kb_errmsg msg = {0};

    parts_open(&p);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(
        kb_engine_fold(e, &(struct kb_event){.type = KB_EV_SUMMARY, .seq = 7, .as.summary = &p.part[0]}, NULL), KB_OK);
    ck_assert(!kb_engine_is_whole(e));
    const struct kb_event late = {.type = KB_EV_LATE, .seq = 8, .as.late = {.decision = "d", .reward = 1}};
    ck_assert_int_eq(kb_engine_fold(e, &late, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/type");
    const struct kb_event redacted = {.type = KB_EV_REDACTED, .seq = 8};
    ck_assert_int_eq(kb_engine_fold(e, &redacted, &msg), KB_OK);
    kb_engine_free(e);
    parts_close(&p);
}
END_TEST

/* Any allocation of the fold may fail: the code says so, and nothing is lost. */
static long allocations_left;

static void *scarce_realloc(void *ptr, size_t bytes)
{
    return allocations_left-- > 0 ? realloc(ptr, bytes) : NULL;
}

START_TEST(a_fold_without_memory_ends_and_leaves_nothing)
{
    static const struct kb_alloc_hook scarce = {scarce_realloc, free};
    struct parts p;
    enum kb_err rc = KB_ENOMEM;

    parts_open(&p);
    for (long n = 0; rc == KB_ENOMEM; n++) {
        struct kb_engine *e = NULL;

        ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
        kb_alloc_set_hook(&scarce);
        allocations_left = n;
        rc = KB_OK;
        for (size_t i = 0; i < p.n && rc == KB_OK; i++)
            rc = kb_engine_fold(e, &(struct kb_event){.type = KB_EV_SUMMARY, .seq = 7 + i, .as.summary = &p.part[i]},
                                NULL);
        kb_alloc_set_hook(NULL);
        kb_engine_free(e);
        ck_assert_int_lt(n, 10000);
    }
    ck_assert_int_eq(rc, KB_OK);
    parts_close(&p);
}
END_TEST

int main(void)
{
    const int n = 2 * (int)n_presets() + N_EXTRA; /* again, with open decisions */
    Suite *suite = suite_create("summary");
    TCase *each = tcase_create("every preset"), *some = tcase_create("cases");

    tcase_set_timeout(each, 60);
    tcase_add_loop_test(each, a_summary_and_the_rest_fold_to_the_same_state, 0, n);
    tcase_add_loop_test(each, builds_beside_the_traffic_change_nothing_of_that, 0, n);
    tcase_add_loop_test(each, a_rebuild_behind_a_summary_is_the_live_models, 0, n);
    tcase_add_loop_test(each, a_log_without_a_reset_goes_on_where_nothing_was_learned, 0, n);
    tcase_add_test(some, faults_of_a_summary_are_named);
    tcase_add_test(some, nothing_but_its_parts_stands_in_a_summary);
    tcase_add_test(some, a_fold_without_memory_ends_and_leaves_nothing);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, some);
    return kbt_run_suite(suite);
}
