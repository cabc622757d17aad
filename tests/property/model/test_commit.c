/* The way of events into a model (commit.h), over every preset: batches of any length end in the state of a plain fold
 * of what was appended, bit for bit; a batch whose append fails leaves nothing behind; and the hooks are called in the
 * promised order. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/commit.h"
#include "kbt.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define SEED 23
#define N_BATCHES 40u
#define MOST 12u /* events that are tried in one batch */

struct world {
    struct kb_commit commit;
    struct kb_engine *fold; /* the oracle: of what was appended, event by event */
    struct kb_spec spec;
    size_t n_appended, n_applied, n_locks;
    uint64_t n_failed, seen; /* draws */
    bool is_locked, is_failing;
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return kb_rng_bits(SEED, KB_STREAM_SIMULATION, w->seen++) % n;
}

/* ---- hooks ----------------------------------------------------------------------------------------------- */

static enum kb_err append(void *arg, const struct kb_event *event, size_t n)
{
    struct world *w = arg;

    ck_assert(!w->is_locked);
    ck_assert_uint_gt(n, 0);
    w->n_failed += w->is_failing;
    if (w->is_failing)
        return KB_ECANCELLED;
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(event[i].seq, ++w->n_appended);
        ck_assert_int_eq(kb_engine_fold(w->fold, &event[i], NULL), KB_OK);
    }
    return KB_OK;
}

static void lock(void *arg, bool is_unseen)
{
    struct world *w = arg;

    (void)is_unseen;
    ck_assert(!w->is_locked);
    w->is_locked = true;
    w->n_locks++;
}

static void unlock(void *arg)
{
    struct world *w = arg;

    ck_assert(w->is_locked);
    w->is_locked = false;
}

/* What is applied was appended before. */
static void applied(void *arg, size_t i, const struct kb_event *ev)
{
    struct world *w = arg;

    ck_assert(w->is_locked);
    ck_assert_uint_eq(ev->seq, ++w->n_applied);
    ck_assert_ptr_eq(ev, &w->commit.event[i]);
    ck_assert_uint_le(ev->seq, w->n_appended);
}

/* ---- traffic --------------------------------------------------------------------------------------------- */

/* Storage of what a batch's events point at. */
struct traffic {
    char user[16], arm[16], decision[16];
    double context[2], features[3];
    struct kb_ev_slot slot;
    struct kb_ev_arm put;
};

static void open_world(struct world *w, const char *preset)
{
    *w = (struct world){.n_appended = 0};
    ck_assert_int_eq(kb_spec_preset(&w->spec, preset, 2, 3), KB_OK);
    ck_assert_int_eq(kb_engine_new(&w->fold, kbt_key), KB_OK);
    struct kb_engine *live;
    ck_assert_int_eq(kb_engine_new(&live, kbt_key), KB_OK);
    kb_commit_begin(&w->commit, live, 0);
}

static void close_world(struct world *w)
{
    kb_engine_free(w->commit.engine);
    kb_engine_free(w->fold);
    kb_commit_free(&w->commit);
}

static struct kb_event decided(struct world *w, struct traffic *t)
{
    return (struct kb_event){.type = KB_EV_DECIDED,
                             .as.decided = {.decision = t->decision,
                                            .user = t->user,
                                            .context = t->context,
                                            .slots = &t->slot,
                                            .n_slots = 1,
                                            .propensity = 0.5,
                                            .level = kb_rule_reads_levels(w->spec.rule.type) ? 1 : 0,
                                            .expires_at_ms = INT64_MAX}};
}

/* Mostly observations; decisions, rewards of them (some of decisions that are not there), and changes of the
 * catalogue, which stand alone. */
static struct kb_event make_event(struct world *w, struct traffic *t)
{
    const uint64_t kind = draw(w, 12);

    snprintf(t->user, sizeof t->user, "u%u", (unsigned)draw(w, 5));
    snprintf(t->arm, sizeof t->arm, "a%u", (unsigned)draw(w, 6));
    snprintf(t->decision, sizeof t->decision, "d%u", (unsigned)draw(w, 40));
    for (size_t i = 0; i < 2; i++)
        t->context[i] = (double)draw(w, 1000) / 500 - 1;
    for (size_t i = 0; i < 3; i++)
        t->features[i] =
            (double)(kb_rng_bits(7, KB_STREAM_SIMULATION, (uint64_t)(t->arm[1] - '0') * 3 + i) % 100) / 50 - 1;
    t->slot = (struct kb_ev_slot){t->arm, t->features};
    t->put = (struct kb_ev_arm){.id = t->arm, .features = t->features, .is_active = true};
    if (kind < 4)
        return decided(w, t);
    if (kind < 7)
        return (struct kb_event){.type = KB_EV_REWARDED,
                                 .as.rewarded = {.decision = t->decision, .reward = t->context[0]}};
    if (kind == 7)
        return (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.put = &t->put, .n_put = 1}};
    return (struct kb_event){
        .type = KB_EV_OBSERVED,
        .as.observed = {.user = t->user, .context = t->context, .arm = t->slot, .reward = t->context[1]}};
}

static void run(struct world *w)
{
    const struct kb_commit_hooks hooks = {
        .append = append, .lock = lock, .unlock = unlock, .applied = applied, .arg = w};
    const uint64_t before = kb_engine_digest(w->commit.engine), seq = w->commit.seq;
    const size_t n = w->commit.n, n_locks = w->n_locks;

    w->is_failing = draw(w, 4) == 0;
    const enum kb_err rc = kb_commit_run(&w->commit, &hooks);
    ck_assert_int_eq(rc, w->is_failing ? KB_ECANCELLED : KB_OK);
    ck_assert_uint_eq(w->commit.n, 0);
    ck_assert(!w->commit.is_closed && !w->is_locked);
    ck_assert_uint_eq(w->commit.seq, w->is_failing ? seq : seq + n);
    if (w->is_failing) {
        ck_assert_uint_eq(w->n_locks, n_locks);
        ck_assert_uint_eq(kb_engine_digest(w->commit.engine), before);
    }
    ck_assert_int_eq(kb_commit_settle(w->commit.engine, &hooks), KB_OK);
    ck_assert_uint_eq(w->n_applied, w->n_appended);
    ck_assert_uint_eq(kb_engine_digest(w->commit.engine), kb_engine_digest(w->fold));
}

static void run_due(struct world *w)
{
    struct kb_event next;

    ck_assert_int_eq(kb_engine_due(w->commit.engine, w->commit.seq + 1, true, &next), KB_OK);
    if (next.type == KB_EV_NONE)
        return;
    ck_assert_int_eq(kb_commit_add(&w->commit, &next, 1, NULL), KB_OK);
    ck_assert_uint_eq(w->commit.n, 1); /* nothing follows from a dictionary event */
    ck_assert(w->commit.is_closed);
    run(w);
}

/* As many events as the batch takes. */
static size_t fill(struct world *w, struct traffic *t, size_t most)
{
    size_t n_refused = 0;

    for (size_t i = 0; i < most; i++) {
        const struct kb_event ev = make_event(w, &t[i]);
        const size_t n = w->commit.n;
        if (!kb_commit_takes(&w->commit, &ev))
            break;
        const enum kb_err rc = kb_commit_add(&w->commit, &ev, 1, NULL);
        if (rc == KB_EBUSY)
            break;
        ck_assert(!w->commit.is_lost);
        n_refused += rc != KB_OK;
        ck_assert_uint_eq(w->commit.n > n, rc == KB_OK); /* a refusal leaves the batch as it was */
    }
    return n_refused;
}

START_TEST(batches_end_where_a_fold_of_what_was_appended_ends)
{
    struct world w;
    struct traffic t[MOST];
    size_t n_refused = 0;

    open_world(&w, kb_preset_name((size_t)_i));
    const struct kb_event configured = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = &w.spec, .version = 1}};
    while (w.n_applied == 0) {
        ck_assert_int_eq(kb_commit_add(&w.commit, &configured, 1, NULL), KB_OK);
        ck_assert(w.commit.is_closed);
        run(&w);
    }
    for (size_t b = 0; b < N_BATCHES; b++) {
        run_due(&w);
        n_refused += fill(&w, t, 1 + draw(&w, MOST));
        if (w.commit.n > 0)
            run(&w);
    }
    ck_assert_uint_gt(n_refused, 0);
    ck_assert_uint_gt(w.n_failed, 3);
    ck_assert_uint_gt(w.n_applied, N_BATCHES);
    ck_assert_uint_gt(w.n_applied, w.n_failed);
    close_world(&w);
}
END_TEST

/* One lock for events that only keep books, and not one each. */
START_TEST(light_events_share_a_lock)
{
    struct world w;
    struct traffic t[8];
    const struct kb_commit_hooks hooks = {
        .append = append, .lock = lock, .unlock = unlock, .applied = applied, .arg = &w};

    open_world(&w, "lk-gp-ucb");
    const struct kb_event configured = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = &w.spec, .version = 1}};
    ck_assert_int_eq(kb_commit_one(&w.commit, &configured, 1, &hooks, NULL), KB_OK);
    for (size_t i = 0; i < 8; i++) {
        make_event(&w, &t[i]);
        snprintf(t[i].decision, sizeof t[i].decision, "light%zu", i);
        const struct kb_event ev = decided(&w, &t[i]);
        ck_assert_int_eq(kb_commit_add(&w.commit, &ev, 1, NULL), KB_OK);
    }
    w.n_locks = 0;
    ck_assert_int_eq(kb_commit_run(&w.commit, &hooks), KB_OK);
    ck_assert_uint_le(w.n_locks, 2); /* one for what has grown */
    ck_assert_uint_eq(w.n_applied, 9);
    close_world(&w);
}
END_TEST

static size_t n_left; /* allocations that succeed before all fail */

static void *failing_realloc(void *ptr, size_t bytes)
{
    return n_left > 0 && n_left-- > 0 ? realloc(ptr, bytes) : NULL;
}

static const struct kb_alloc_hook failing = {failing_realloc, free};

/* The oracle has memory; behind it nobody has any. */
static enum kb_err append_and_run_out(void *arg, const struct kb_event *event, size_t n)
{
    kb_alloc_set_hook(NULL);
    const enum kb_err rc = append(arg, event, n);
    n_left = 0;
    kb_alloc_set_hook(&failing);
    return rc;
}

START_TEST(without_memory_nothing_has_changed)
{
    struct world w;
    struct traffic t;
    const struct kb_commit_hooks hooks = {.append = append_and_run_out, .arg = &w};
    size_t n_short = 0;

    open_world(&w, kb_preset_name((size_t)_i));
    const struct kb_event configured = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = &w.spec, .version = 1}};
    ck_assert_int_eq(kb_commit_one(&w.commit, &configured, 1, &hooks, NULL), KB_OK);
    kb_alloc_set_hook(NULL);
    for (size_t i = 0; i < 12; i++) {
        make_event(&w, &t);
        const struct kb_event ev = {
            .type = KB_EV_OBSERVED,
            .as.observed = {.user = t.user, .context = t.context, .arm = t.slot, .reward = t.context[1]}};
        enum kb_err rc = KB_ENOMEM;
        for (size_t n = 0; rc != KB_OK; n++) {
            const uint64_t before = kb_engine_digest(w.commit.engine);
            const size_t n_appended = w.n_appended;
            n_left = n;
            kb_alloc_set_hook(&failing);
            rc = kb_commit_one(&w.commit, &ev, 1, &hooks, NULL);
            kb_alloc_set_hook(NULL);
            ck_assert(rc == KB_OK || rc == KB_ENOMEM);
            n_short += rc != KB_OK;
            ck_assert_uint_eq(w.n_appended > n_appended, rc == KB_OK);
            ck_assert_uint_eq(kb_engine_digest(w.commit.engine) != before, rc == KB_OK);
        }
        ck_assert_uint_eq(kb_engine_digest(w.commit.engine), kb_engine_digest(w.fold));
    }
    ck_assert_uint_gt(n_short, 12);
    close_world(&w);
}
END_TEST

int main(void)
{
    int n = 0;

    while (kb_preset_name((size_t)n) != NULL)
        n++;
    Suite *suite = suite_create("commit");
    TCase *each = tcase_create("every preset"), *some = tcase_create("cases");
    tcase_set_timeout(each, 60);
    tcase_add_loop_test(each, batches_end_where_a_fold_of_what_was_appended_ends, 0, n);
    tcase_add_loop_test(each, without_memory_nothing_has_changed, 0, n);
    tcase_add_test(some, light_events_share_a_lock);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, some);
    return kbt_run_suite(suite);
}
