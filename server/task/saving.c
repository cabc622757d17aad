/* Snapshots of a tenant beside its writer.
 *
 *     writer, after a turn    takes a snapshot in memory (core: kb_engine_take_snapshot) and the log's mark
 *     job                     encodes it, writes the file, syncs, renames; the writer goes on with its turns
 *     job, at its end         puts an op into the tenant's line
 *     writer, at that op      lets it go
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
#include "task/saving.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "tenant/recover.h"
#include "store/snapshot.h"
#include "task/tasks.h"
#include "tenant/tenant_impl.h"

#define LONG_TAIL_US 500000
#define LEARNED_SHARE 16u
#define OPEN_SHARE 4u
#define WORTH 2 /* times as long as the last one took */

struct ld_snapshot_job {
    struct ld_tenant *t;
    struct kb_snapshot *model;
    uint64_t seq, mark;
    int64_t took_us;
    bool is_ok;
    char why[512];
};

/* ---- the job ----------------------------------------------------------------------------------------- */

/* The whole body is built in memory, as large as the model. */
static void write_file(struct ld_snapshot_job *j)
{
    const int64_t start_us = ld_monotonic_us();
    struct kb_writer w;

    kb_writer_init(&w);
    kb_put_u64(&w, j->mark);
    if (kb_snapshot_save(j->model, &w) == KB_OK)
        j->is_ok = ld_snapshot_write(j->t->snapshot_path, j->seq, w.data, w.n, j->why) == 0;
    else
        snprintf(j->why, sizeof j->why, "out of memory");
    kb_writer_close(&w);
    j->took_us = ld_monotonic_us() - start_us;
}

/* In a thread for long work. A tenant that is to be deleted needs none. */
static void run(void *arg)
{
    struct ld_tenant *t = arg;

    if (!atomic_load(&t->is_doomed))
        write_file(t->saving.job);
    ld_tenant_tell_writer(t, LD_OP_SAVED);
    ld_tenant_release(t);
}

/* ---- the writer's side --------------------------------------------------------------------------------- */

static void job_free(struct ld_snapshot_job *j)
{
    kb_engine_drop_snapshot(j->t->engine, j->model);
    free(j);
}

/* NULL with a reason in why. The engine stands still: this is its only writer. */
static struct ld_snapshot_job *job_new(struct ld_tenant *t, const char **why)
{
    struct ld_snapshot_job *j = calloc(1, sizeof *j);

    *why = "out of memory";
    if (j == NULL)
        return NULL;
    j->t = t;
    j->seq = t->seq;
    if (ld_log_mark(t->store, t->seq, &j->mark) != LD_STORE_OK)
        *why = "the log cannot be read";
    else if (kb_engine_take_snapshot(t->engine, &j->model) == KB_OK)
        return j;
    job_free(j);
    return NULL;
}

static void count(struct ld_tenant *t, bool is_ok, const char *why)
{
    struct ld_metrics *m = t->world->metrics;

    atomic_fetch_add_explicit(is_ok ? &m->snapshots : &m->snapshot_failures, 1, memory_order_relaxed);
    if (!is_ok)
        ld_log(LD_LOG_WARN, "tenant %s: no snapshot: %s", t->name, why);
}

/* A failed one is tried again when the next is due: the log has everything. */
void ld_saving_finish(struct ld_tenant *t)
{
    struct ld_saving *s = &t->saving;
    struct ld_snapshot_job *j = s->job;

    if (j == NULL)
        return;
    s->job = NULL;
    s->took_us = j->took_us;
    if (!atomic_load(&t->is_doomed)) {
        count(t, j->is_ok, j->why);
        ld_histogram_add(&t->world->metrics->snapshot_time, j->took_us);
    }
    job_free(j);
}

/* Rows and learned rewards are both counted since the beginning. */
static bool is_due(const struct ld_tenant *t)
{
    const struct ld_saving *s = &t->saving;
    const uint64_t rows = t->seq - s->seq;
    struct kb_engine_counts counts;

    if (rows == 0 || t->world->snapshot_events == UINT64_MAX) /* never: tests */
        return false;
    if (s->tail_us >= LONG_TAIL_US && s->tail_us >= WORTH * s->took_us)
        return true;
    if (rows < t->world->snapshot_events)
        return false;
    kb_engine_counts(t->engine, &counts);
    return rows >= counts.learned / LEARNED_SHARE && rows >= counts.pending / OPEN_SHARE;
}

/* From here on the tail is counted anew, whatever becomes of the snapshot. False: none is possible now. */
static bool begin(struct ld_tenant *t)
{
    struct ld_saving *s = &t->saving;
    const char *why = NULL;

    s->job = job_new(t, &why);
    s->seq = t->seq;
    s->tail_us = 0;
    if (s->job == NULL)
        count(t, false, why);
    return s->job != NULL;
}

/* Nothing is staged, and the tenant's state may be kept: a failing disk would refuse the snapshot as well. */
static bool may_begin(const struct ld_tenant *t)
{
    return t->batch.commit.n == 0 && t->saving.job == NULL && ld_task_find(t, &ld_erasure) == NULL &&
           !kb_engine_is_building(t->engine) && !atomic_load(&t->is_failing) && !atomic_load(&t->is_doomed);
}

/* Without a thread for it, it is written in the turn itself. */
void ld_saving_start(struct ld_tenant *t)
{
    if (!may_begin(t) || !is_due(t) || !begin(t))
        return;
    ld_tenant_hold(t);
    if (ld_sched_give(t->world->sched, LD_LONG_WORK, run, t, SIZE_MAX) == 0)
        return;
    ld_tenant_release(t);
    write_file(t->saving.job);
    ld_saving_finish(t);
}

void ld_saving_now(struct ld_tenant *t)
{
    ld_saving_finish(t);
    if (t->seq == t->saving.seq || kb_engine_is_building(t->engine) || !begin(t))
        return;
    write_file(t->saving.job);
    ld_saving_finish(t);
}
