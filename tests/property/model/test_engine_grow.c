/* What readers wait for: over every representation, events of many new users, arms, decisions and points are taken
 * while the core's allocator is watched. Between grow and collect, which is where the tenant's lock is held, nothing is
 * allocated and nothing large is freed; a batch that is taken back leaves every array where it was; arrays that were
 * replaced stay for who holds them. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_state.h"
#include "kbt.h"
#include "base/rng.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"

#define LARGE 4096u /* bytes; a decision's entry is smaller */
#define N_EVENTS 900u

/* Calls of the allocator since the last reset. */
static size_t n_allocated, n_large_freed;

static void *counting_realloc(void *ptr, size_t bytes)
{
    n_allocated++;
    return realloc(ptr, bytes);
}

static void counting_free(void *ptr)
{
    n_large_freed += malloc_usable_size(ptr) > LARGE;
    free(ptr);
}

static const struct kb_alloc_hook counting = {counting_realloc, counting_free};

/* Growing dictionary, dictionary by chance, all points; the same where all three forget, and where their deviations
 * know open decisions. */
static const char *const presets[] = {"laplaced-kors", "ek-ucb", "lk-gp-ucb"};
#define N_PRESETS 3u

static struct kb_engine *open_engine(size_t which, uint64_t *seq)
{
    struct kb_engine *e;
    struct kb_spec spec;
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, presets[which % N_PRESETS], 2, 0), KB_OK);
    if (which >= 2 * N_PRESETS) {
        spec.conf.type = KB_CONF_FIXED;
        spec.pending = KB_PENDING_HALLUCINATE;
    } else if (which >= N_PRESETS) {
        spec.conf.type = KB_CONF_FIXED;
        spec.forgetting.type = KB_FORGET_DISCOUNT;
        spec.forgetting.discount = 0.98;
    }
    spec.context_kernel.lengthscale = 0.3;
    spec.repr.max_dictionary = 100;
    spec.repr.exact_limit = 2000;
    const struct kb_event ev = {.type = KB_EV_CONFIGURED, .seq = ++*seq, .as.configured = {.spec = &spec}};
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    return e;
}

/* Storage of one event. */
struct traffic {
    char user[16], arm[16], decision[16];
    double x[2];
    struct kb_ev_slot slot;
};

/* Every third event is a decision; users, arms and points are new now and then. */
static struct kb_event make_event(struct traffic *t, uint64_t seq)
{
    struct kb_event ev = {.seq = seq};
    snprintf(t->user, sizeof t->user, "u%u", (unsigned)(seq / 2));
    snprintf(t->arm, sizeof t->arm, "a%u", (unsigned)(seq / 4));
    snprintf(t->decision, sizeof t->decision, "d%u", (unsigned)seq);
    for (size_t i = 0; i < 2; i++)
        t->x[i] = kb_rng_uniform(5, KB_STREAM_SIMULATION, 2 * seq + i);
    t->slot = (struct kb_ev_slot){.arm = t->arm};
    if (seq % 3 == 0) {
        ev.type = KB_EV_DECIDED;
        ev.as.decided.decision = t->decision;
        ev.as.decided.user = t->user;
        ev.as.decided.context = t->x;
        ev.as.decided.slots = &t->slot;
        ev.as.decided.n_slots = 1;
        ev.as.decided.expires_at_ms = INT64_MAX;
    } else {
        ev.type = KB_EV_OBSERVED;
        ev.as.observed.user = t->user;
        ev.as.observed.context = t->x;
        ev.as.observed.arm = t->slot;
        ev.as.observed.reward = t->x[0];
    }
    return ev;
}

/* Reserves the event and what follows from it; the number of events. */
static size_t reserve(struct kb_engine *e, struct kb_event batch[2])
{
    ck_assert_int_eq(kb_engine_reserve(e, &batch[0], NULL), KB_OK);
    ck_assert_int_eq(kb_engine_follow_up(e, &batch[0], &batch[1]), KB_OK);
    if (batch[1].type == KB_EV_NONE)
        return 1;
    batch[1].seq = batch[0].seq + 1;
    ck_assert_int_eq(kb_engine_reserve(e, &batch[1], NULL), KB_OK);
    return 2;
}

static void apply(struct kb_engine *e, const struct kb_event batch[2], size_t n, bool is_watched)
{
    if (kb_engine_has_grown(e))
        kb_engine_swap(e);
    for (size_t i = 0; i < n; i++) {
        kb_engine_prepare(e, &batch[i]); /* not under the lock */
        n_allocated = n_large_freed = 0;
        kb_engine_apply(e, &batch[i]);
        if (is_watched) {
            ck_assert_uint_eq(n_allocated, 0);
            ck_assert_uint_eq(n_large_freed, 0);
        }
    }
}

START_TEST(nothing_is_allocated_or_freed_where_readers_wait)
{
    uint64_t seq = 0;
    size_t n_grown = 0;
    struct kb_engine *e = open_engine((size_t)_i, &seq);
    struct traffic t;
    kb_alloc_set_hook(&counting);
    for (size_t i = 0; i < N_EVENTS; i++) {
        struct kb_event batch[2] = {make_event(&t, seq + 1), {.type = KB_EV_NONE}};
        const size_t n = reserve(e, batch);
        ck_assert_int_eq(kb_engine_grow(e), KB_OK);
        n_grown += kb_engine_has_grown(e);
        n_allocated = n_large_freed = 0;
        kb_engine_swap(e);
        ck_assert_uint_eq(n_allocated + n_large_freed, 0);
        apply(e, batch, n, true);
        kb_engine_collect(e);
        seq += n;
    }
    kb_alloc_set_hook(NULL);
    ck_assert_uint_gt(n_grown, 10);           /* the test has seen arrays move */
    ck_assert_uint_lt(n_grown, N_EVENTS / 5); /* and a lock is asked for only then */
    kb_engine_free(e);
}
END_TEST

/* Where every array of the engine's own containers is. */
struct places {
    const void *at[16];
};

static struct places places_of(const struct kb_engine *e)
{
    return (struct places){{e->users.bytes, e->users.offset, e->users.slot, e->arm_ids.bytes, e->arm_ids.offset,
                            e->arm_ids.slot, e->arms.arm, e->node_of, e->history.user, e->history.x, e->history.count,
                            e->history.first_seq, e->history.slot, e->pending.slot, e->pending.due,
                            kb_posterior_kernel(e->posterior)}};
}

static void expect_places(const struct kb_engine *e, const struct places *want)
{
    const struct places now = places_of(e);
    ck_assert_mem_eq(&now, want, sizeof now);
}

START_TEST(a_batch_that_is_taken_back_moves_nothing)
{
    uint64_t seq = 0;
    size_t n_grown = 0;
    struct kb_engine *e = open_engine((size_t)_i, &seq);
    struct traffic t;
    for (size_t i = 0; i < 300; i++) {
        const uint64_t digest = kb_engine_digest(e);
        const struct places places = places_of(e);
        struct kb_event batch[2] = {make_event(&t, seq + 1), {.type = KB_EV_NONE}};
        size_t n = reserve(e, batch);
        ck_assert_int_eq(kb_engine_grow(e), KB_OK);
        n_grown += kb_engine_has_grown(e);
        expect_places(e, &places);
        kb_engine_rollback(e);
        ck_assert(!kb_engine_has_grown(e));
        expect_places(e, &places);
        ck_assert_uint_eq(kb_engine_digest(e), digest);
        batch[0] = make_event(&t, seq + 1);
        n = reserve(e, batch);
        ck_assert_int_eq(kb_engine_grow(e), KB_OK);
        apply(e, batch, n, false);
        kb_engine_collect(e);
        seq += n;
    }
    ck_assert_uint_gt(n_grown, 5);
    kb_engine_free(e);
}
END_TEST

START_TEST(rows_that_are_held_stay_where_they_were)
{
    uint64_t seq = 0;
    struct kb_engine *e = open_engine(0, &seq);
    struct traffic t;
    double x[2] = {0, 0};
    struct kb_history old = {0};
    for (size_t i = 0; i < N_EVENTS; i++) {
        struct kb_event batch[2] = {make_event(&t, seq + 1), {.type = KB_EV_NONE}};
        const size_t n = reserve(e, batch);
        ck_assert_int_eq(kb_engine_grow(e), KB_OK);
        apply(e, batch, n, false);
        kb_engine_collect(e);
        seq += n;
        if (old.n == 0 && e->history.n > 10) {
            kb_engine_hold_retired(e);
            old = e->history;
            memcpy(x, old.x + 2 * (old.n - 1), sizeof x);
        }
    }
    ck_assert_ptr_ne(e->history.x, old.x);                        /* they have moved since */
    ck_assert_mem_eq(old.x + 2 * (old.n - 1), x, sizeof x);       /* and can still be read (AddressSanitizer looks) */
    ck_assert_mem_eq(e->history.x, old.x, 2 * old.n * sizeof *x); /* a row keeps its number */
    kb_engine_release_retired(e);
    kb_engine_collect(e);
    kb_engine_free(e);
}
END_TEST

/* What a snapshot holds is not moved by anything that comes after it: more rows and ids, corrections, arrays that grow.
 */
START_TEST(a_snapshot_is_of_its_moment)
{
    uint64_t seq = 0;
    struct kb_engine *e = open_engine((size_t)_i, &seq), *copy;
    struct traffic t;
    struct kb_snapshot *snapshot = NULL;
    struct kb_writer then, later;
    uint64_t digest = 0;
    kb_writer_init(&then);
    kb_writer_init(&later);
    kb_engine_set_inline_work(e, 1e300);
    for (size_t i = 0; i < N_EVENTS; i++) {
        struct kb_event batch[2] = {make_event(&t, seq + 1), {.type = KB_EV_NONE}};
        const size_t n = reserve(e, batch);
        ck_assert_int_eq(kb_engine_grow(e), KB_OK);
        apply(e, batch, n, false);
        kb_engine_collect(e);
        seq += n;
        if (i == 300) {
            ck_assert_int_eq(kb_engine_save(e, &then), KB_OK);
            ck_assert_int_eq(kb_engine_take_snapshot(e, &snapshot), KB_OK);
            digest = kb_engine_digest(e);
        }
    }
    ck_assert_int_eq(kb_snapshot_save(snapshot, &later), KB_OK);
    kb_engine_drop_snapshot(e, snapshot);
    ck_assert_uint_eq(later.n, then.n);
    ck_assert_mem_eq(later.data, then.data, then.n);
    ck_assert_int_eq(kb_engine_new(&copy, kbt_key), KB_OK);
    ck_assert_int_eq(kb_engine_load(copy, later.data, later.n), KB_OK);
    ck_assert_uint_eq(kb_engine_digest(copy), digest);
    ck_assert_uint_ne(kb_engine_digest(e), digest);
    kb_writer_close(&then);
    kb_writer_close(&later);
    kb_engine_free(copy);
    kb_engine_free(e);
}
END_TEST

/* --- large changes of catalogue and graph ------------------------------------------------------------------- */

#define N_LARGE 600u /* beyond KB_SMALL_CHANGE */

/* Arms and edges by number; features and weights differ by round. */
struct change {
    char arm_id[N_LARGE][8], user_id[N_LARGE + 1][8];
    double features[N_LARGE][2];
    struct kb_ev_arm put[N_LARGE];
    const char *remove[N_LARGE];
    struct kb_ev_edge edge[N_LARGE];
};

static struct change *make_change(unsigned round)
{
    struct change *c = calloc(1, sizeof *c);
    for (unsigned i = 0; i <= N_LARGE; i++)
        snprintf(c->user_id[i], sizeof c->user_id[i], "w%u", i);
    for (unsigned i = 0; i < N_LARGE; i++) {
        snprintf(c->arm_id[i], sizeof c->arm_id[i], "b%u", i);
        c->features[i][0] = kb_rng_uniform(round, KB_STREAM_SIMULATION, 2 * i);
        c->features[i][1] = kb_rng_uniform(round, KB_STREAM_SIMULATION, 2 * i + 1);
        c->put[i] = (struct kb_ev_arm){.id = c->arm_id[i], .features = c->features[i], .is_active = i % 3 > 0};
        c->remove[i] = c->arm_id[i];
        c->edge[i] = (struct kb_ev_edge){.u = c->user_id[i], .v = c->user_id[i + 1], .weight = 1 + round};
    }
    return c;
}

static struct kb_engine *open_with_arms(uint64_t *seq)
{
    struct kb_engine *e;
    struct kb_spec spec;
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 0, 2), KB_OK);
    spec.arm_kernel.lengthscale = 0.3;
    spec.arm_kernel.is_median = false;
    const struct kb_event ev = {.type = KB_EV_CONFIGURED, .seq = ++*seq, .as.configured = {.spec = &spec}};
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    return e;
}

static struct kb_event arms_event(bool is_replace, const struct kb_ev_arm *put, size_t n_put, const char *const *remove,
                                  size_t n_remove)
{
    return (struct kb_event){
        .type = KB_EV_ARMS,
        .as.arms = {.is_replace = is_replace, .put = put, .n_put = n_put, .remove = remove, .n_remove = n_remove}};
}

static struct kb_event graph_event(bool is_replace, const struct kb_ev_edge *add, size_t n)
{
    return (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = is_replace, .add = add, .n_add = n}};
}

/* Taken back once, then for good, with the allocator watched where the lock is held; and what follows from it. */
static void take(struct kb_engine *e, struct kb_event ev, uint64_t *seq)
{
    struct kb_event batch[2] = {ev, {.type = KB_EV_NONE}};
    const uint64_t digest = kb_engine_digest(e);
    batch[0].seq = *seq + 1;
    size_t n = reserve(e, batch);
    ck_assert_int_eq(kb_engine_grow(e), KB_OK);
    kb_engine_rollback(e);
    ck_assert_uint_eq(kb_engine_digest(e), digest);
    n = reserve(e, batch);
    kb_alloc_set_hook(&counting);
    ck_assert_int_eq(kb_engine_grow(e), KB_OK);
    apply(e, batch, n, true);
    kb_alloc_set_hook(NULL);
    kb_engine_collect(e);
    *seq += n;
}

static void take_in_parts(struct kb_engine *e, const struct kb_event *whole, uint64_t *seq)
{
    for (size_t i = 0; i < N_LARGE; i += N_LARGE / 4) {
        struct kb_event part = *whole;
        if (part.type == KB_EV_GRAPH) {
            part.as.graph.add += i;
            part.as.graph.n_add = N_LARGE / 4;
        } else if (part.as.arms.n_put > 0) {
            part.as.arms.put += i;
            part.as.arms.n_put = N_LARGE / 4;
        } else {
            part.as.arms.remove += i;
            part.as.arms.n_remove = N_LARGE / 4;
        }
        take(e, part, seq);
    }
}

static void expect_equal_and_reloadable(struct kb_engine *a, const struct kb_engine *b)
{
    struct kb_engine *copy;
    struct kb_writer w;
    ck_assert_uint_eq(kb_engine_content_digest(a), kb_engine_content_digest(b));
    kb_writer_init(&w);
    ck_assert_int_eq(kb_engine_save(a, &w), KB_OK);
    ck_assert_int_eq(kb_engine_new(&copy, kbt_key), KB_OK);
    ck_assert_int_eq(kb_engine_load(copy, w.data, w.n), KB_OK);
    ck_assert_uint_eq(kb_engine_digest(copy), kb_engine_digest(a));
    kb_writer_close(&w);
    kb_engine_free(copy);
}

/* `history`: with something learned, so that a graph is installed by the reset that follows it. */
START_TEST(a_large_change_equals_many_small_ones)
{
    const bool has_history = _i > 0;
    uint64_t seq[2] = {0, 0};
    struct kb_engine *e[2] = {open_with_arms(&seq[0]), open_with_arms(&seq[1])};
    struct change *first = make_change(1), *second = make_change(2);
    const struct kb_ev_slot slot = {"b7", first->features[7]};
    const struct kb_event events[] = {
        arms_event(false, first->put, N_LARGE, NULL, 0),    graph_event(false, first->edge, N_LARGE),
        arms_event(false, second->put, N_LARGE, NULL, 0),   graph_event(false, second->edge, N_LARGE),
        arms_event(false, NULL, 0, first->remove, N_LARGE), arms_event(false, first->put, N_LARGE, NULL, 0),
    };
    for (size_t k = 0; k < 2; k++) {
        kb_engine_set_inline_work(e[k], 1e300);
        for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
            if (k == 0)
                take(e[k], events[i], &seq[k]);
            else
                take_in_parts(e[k], &events[i], &seq[k]);
            if (has_history && i == 0) {
                const struct kb_event seen = {.type = KB_EV_OBSERVED,
                                              .as.observed = {.user = "w3", .arm = slot, .reward = 1}};
                take(e[k], seen, &seq[k]);
            }
        }
    }
    ck_assert_uint_eq(kb_engine_n_arms(e[0]), N_LARGE);
    expect_equal_and_reloadable(e[0], e[1]);
    /* A replaced catalogue: all that is not named is gone from it, with its counts kept. */
    const struct kb_event replaced = arms_event(true, second->put + 100, 300, NULL, 0);
    take(e[0], replaced, &seq[0]);
    take(e[1], arms_event(false, NULL, 0, first->remove, 100), &seq[1]);
    take(e[1], arms_event(false, NULL, 0, first->remove + 400, 200), &seq[1]);
    take(e[1], arms_event(false, second->put + 100, 150, NULL, 0), &seq[1]);
    take(e[1], arms_event(false, second->put + 250, 150, NULL, 0), &seq[1]);
    expect_equal_and_reloadable(e[0], e[1]);
    for (size_t k = 0; k < 2; k++)
        kb_engine_free(e[k]);
    free(first);
    free(second);
}
END_TEST

int main(void)
{
    const int n = (int)(sizeof presets / sizeof presets[0]);

    return KBT_RUN_TIMES("engine_grow", 60, {nothing_is_allocated_or_freed_where_readers_wait, 2 * n},
                         {a_batch_that_is_taken_back_moves_nothing, 2 * n},
                         {rows_that_are_held_stay_where_they_were, 1}, {a_snapshot_is_of_its_moment, 2 * n},
                         {a_large_change_equals_many_small_ones, 2});
}
