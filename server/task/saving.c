/* Snapshots of a tenant beside its writer.
 *
 *     writer, after a turn    takes a snapshot in memory (core: kb_engine_take_snapshot) and the log's mark
 *     job                     encodes it, writes the file, syncs, renames; the writer goes on with its turns
 *     writer, behind it       lets it go
 *
 * A snapshot costs O(model + open decisions) and saves a fold of what came since the last one. It is due after
 * snapshot_events rows, or a sixteenth of what the model has learned and a quarter of the decisions that are open, when
 * that is more: the open ones are copied in the writer's turn, and a row pays for four of them at most. It is also due
 * when what came since took LONG_TAIL_US to apply, which is what a start would have to do again, and WORTH times as
 * long as the last one took to write. One at a time.
 *
 * None begins while a model is being built or a user erased: the former stands in the log alone and is begun again from
 * there, the latter takes the file away, and waits for a job that is under way (erase.c). At shutdown the scheduler
 * ends when its jobs have, and the last snapshot is written by the main thread.
 *
 * Nothing here may keep the tenant from serving: a snapshot that fails is a warning, and the next one is tried when it
 * is due. */
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "tenant/recover.h"
#include "store/snapshot.h"
#include "task/tasks.h"
#include "tenant/tenant_state.h"

#define LONG_TAIL_US 500000
#define LEARNED_SHARE 16u
#define OPEN_SHARE 4u
#define WORTH 2 /* times as long as the last one took */

struct ld_saving {
    struct ld_task task;
    struct kb_snapshot *model; /* on its way to the file; NULL: none */
    uint64_t seq, mark;
    int64_t took_us; /* the last attempt */
    bool is_ok;
    struct ld_message why;
};

/* The whole body is built in memory, as large as the model. A tenant that is to be deleted needs none. */
static void write_file(void *task)
{
    struct ld_saving *s = task;
    const int64_t start_us = ld_monotonic_us();
    struct kb_writer w;

    s->is_ok = false;
    if (atomic_load(&s->task.t->is_doomed))
        return;
    kb_writer_init(&w);
    kb_put_u64(&w, s->mark);
    if (kb_snapshot_save(s->model, &w) == KB_OK)
        s->is_ok = ld_snapshot_write(s->task.t->snapshot_path, s->seq, w.data, w.n, &s->why) == 0;
    else
        ld_fail(&s->why, "out of memory");
    kb_writer_close(&w);
    s->took_us = ld_monotonic_us() - start_us;
}

static void drop(void *task)
{
    struct ld_saving *s = task;

    kb_engine_drop_snapshot(s->task.t->engine, s->model);
    s->model = NULL;
}

static void count(struct ld_tenant *t, bool is_ok, const char *why)
{
    struct ld_metrics *m = t->world->metrics;

    atomic_fetch_add_explicit(is_ok ? &m->snapshots : &m->snapshot_failures, 1, memory_order_relaxed);
    if (!is_ok)
        ld_log(LD_LOG_WARN, "tenant %s: no snapshot: %s", t->name, why);
}

/* A failed one is tried again when the next is due: the log has everything. */
static void finish(void *task)
{
    struct ld_saving *s = task;
    struct ld_tenant *t = s->task.t;

    if (s->model != NULL && !atomic_load(&t->is_doomed)) {
        count(t, s->is_ok, s->why.text);
        ld_histogram_add(&t->world->metrics->snapshot_time, s->took_us);
    }
    drop(s);
}

static int64_t took_us(const struct ld_tenant *t)
{
    const struct ld_saving *s = ld_task_find(t, &ld_saving);

    return s != NULL ? s->took_us : 0;
}

/* Rows and learned rewards are both counted since the beginning. */
static bool is_due(const struct ld_tenant *t)
{
    const uint64_t rows = t->seq - t->snapshot_seq;
    struct kb_engine_counts counts;

    if (rows == 0 || t->world->snapshot_events == UINT64_MAX) /* never: tests */
        return false;
    if (t->tail_us >= LONG_TAIL_US && t->tail_us >= WORTH * took_us(t))
        return true;
    if (rows < t->world->snapshot_events)
        return false;
    kb_engine_counts(t->engine, &counts);
    return rows >= counts.learned / LEARNED_SHARE && rows >= counts.pending / OPEN_SHARE;
}

/* From here on the tail is counted anew, whatever becomes of the snapshot. NULL: none is possible now. The engine
 * stands still: this is its only writer. */
static struct ld_saving *begin(struct ld_tenant *t)
{
    struct ld_saving *s = ld_task_of(t, &ld_saving);
    const char *why = "out of memory";

    t->snapshot_seq = t->seq;
    t->tail_us = 0;
    if (s != NULL) {
        s->seq = t->seq;
        if (ld_log_mark(t->store, t->seq, &s->mark) != LD_STORE_OK)
            why = "the log cannot be read";
        else if (kb_engine_take_snapshot(t->engine, &s->model) == KB_OK)
            return s;
    }
    count(t, false, why);
    return NULL;
}

/* A failing disk would refuse the snapshot as well. Without a thread it is written in the turn itself. */
static enum ld_chore look(struct ld_tenant *t)
{
    if (ld_task_is_under_way(t, &ld_saving) || !is_due(t) || kb_engine_is_building(t->engine) ||
        atomic_load(&t->is_failing) || atomic_load(&t->is_doomed) || ld_task_find(t, &ld_erasure) != NULL)
        return LD_CHORE_NONE;
    struct ld_saving *s = begin(t);
    if (s != NULL && !ld_task_run(&s->task)) {
        write_file(s);
        finish(s);
    }
    return LD_CHORE_NONE;
}

/* For a tenant at rest, in the thread that closes it. */
static enum ld_chore save_now(struct ld_tenant *t)
{
    struct ld_saving *s = ld_task_find(t, &ld_saving);

    if (s != NULL)
        finish(s);
    if (t->seq != t->snapshot_seq && !kb_engine_is_building(t->engine) && (s = begin(t)) != NULL) {
        write_file(s);
        finish(s);
    }
    return LD_CHORE_NONE;
}

const struct ld_task_kind ld_saving = {
    .size = sizeof(struct ld_saving),
    .threads = LD_LONG_WORK,
    .has_engine = true,
    .at = {[LD_AT_BATCH_END] = look, [LD_AT_TURN_END] = look, [LD_AT_REST] = save_now},
    .run = write_file,
    .finish = finish,
    .drop = drop};
