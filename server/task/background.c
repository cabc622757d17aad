/* Long work of a tenant beside its writer: new models after a change of kernel, graph or dictionary, and points that
 * enter a dictionary over a long history (core/model/build.h).
 *
 *     writer, after a batch    lends the engine's open build to a thread for long work
 *     job                      runs it, without any lock; the writer goes on with its turns
 *     writer, behind it        takes the build back, and commits the event that puts it in force; or lends it again,
 *                              while much was learned in the meantime
 *
 * Under --finish-builds the writer runs it itself, behind the batch that began it and before the answers of that batch.
 * Then no thread's speed decides which model a request meets.
 *
 * The log has the beginning and the end, so a server that dies in between finds the build open when it folds, and its
 * first turn lends it anew. A run that fails for want of memory is tried again later; the model in force serves on.
 *
 * At shutdown, and when a tenant is deleted, the run is told to end (the core looks at that every few rows), and no
 * other is started. The job holds the tenant, so neither goes away under it. */
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "task/tasks.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"

#define RETRY_MS 5000

struct ld_building {
    struct ld_task task;
    struct kb_build *build; /* lent; NULL: none is. Under the queue's lock, so that another thread may cancel it */
    enum kb_err rc;
    int64_t took_us;
    int64_t retry_ms; /* after a failed run: not before */
};

static void run(void *task)
{
    struct ld_building *b = task;
    struct ld_metrics *m = b->task.t->world->metrics;
    const int64_t start_us = ld_monotonic_us();

    atomic_fetch_add_explicit(&m->builds_running, 1, memory_order_relaxed);
    b->rc = kb_build_run(b->build);
    atomic_fetch_sub_explicit(&m->builds_running, 1, memory_order_relaxed);
    b->took_us = ld_monotonic_us() - start_us;
    ld_histogram_add(&m->build_time, b->took_us);
    ld_failpoint("mid_build");
}

static void cancel(void *task)
{
    struct ld_building *b = task;

    if (b->build != NULL)
        kb_build_cancel(b->build);
}

static void show_build(struct ld_building *b, struct kb_build *build)
{
    pthread_mutex_lock(&b->task.t->queue->lock);
    b->build = build;
    pthread_mutex_unlock(&b->task.t->queue->lock);
}

/* Back to the engine. */
static void drop(void *task)
{
    struct ld_building *b = task;
    struct kb_build *build = b->build;

    if (build == NULL)
        return;
    show_build(b, NULL);
    kb_engine_return_build(b->task.t->engine, build);
}

/* What is finished goes into the log at once; the rest is lent again. */
static void finish(void *task)
{
    struct ld_building *b = task;
    struct ld_tenant *t = b->task.t;

    drop(b);
    t->tail_us += b->took_us; /* a fold does it again */
    b->took_us = 0;
    if (b->rc == KB_OK && !atomic_load(&t->is_doomed))
        ld_batch_commit_due(t);
    if (b->rc == KB_OK || b->rc == KB_ECANCELLED)
        return;
    atomic_fetch_add_explicit(&t->world->metrics->build_failures, 1, memory_order_relaxed);
    ld_log(LD_LOG_WARN, "tenant %s: the new model cannot be built now: %s", t->name, kb_strerror(b->rc));
    b->retry_ms = t->now_ms + RETRY_MS;
}

/* After a commit, since a busy turn is long, and at the end of a turn for what has waited. */
static enum ld_chore look(struct ld_tenant *t)
{
    struct kb_build *build = NULL;

    if (!kb_engine_is_building(t->engine) || atomic_load(&t->is_halting) || ld_task_find(t, &ld_erasure) != NULL)
        return LD_CHORE_NONE;
    struct ld_building *b = ld_task_of(t, &ld_building);
    if (b == NULL || (b->build == NULL && b->retry_ms > t->now_ms))
        return LD_CHORE_LATER;
    if (b->build != NULL || (build = kb_engine_lend_build(t->engine)) == NULL)
        return LD_CHORE_NONE;
    show_build(b, build);
    const bool is_here = t->world->is_finishing_builds;
    const bool is_run = is_here ? ld_task_run_here(&b->task) : ld_task_run(&b->task);
    if (!is_run)
        b->rc = KB_ENOMEM;
    if (is_here || !is_run)
        finish(b);
    return LD_CHORE_NONE;
}

bool ld_building_has_failed(const struct ld_tenant *t)
{
    const struct ld_building *b = ld_task_find(t, &ld_building);

    return b != NULL && b->retry_ms > t->now_ms;
}

const struct ld_task_kind ld_building = {.size = sizeof(struct ld_building),
                                         .threads = LD_LONG_WORK,
                                         .has_engine = true,
                                         .at = {[LD_AT_COMMIT] = look, [LD_AT_TURN_END] = look},
                                         .run = run,
                                         .finish = finish,
                                         .cancel = cancel,
                                         .drop = drop};
