/* Long work of a tenant beside its writer: new models after a change of kernel, graph or dictionary, and points that
 * enter a dictionary over a long history (core/model/build.h).
 *
 *     writer, after a batch    lends the engine's open build to a thread for long work
 *     job                      runs it, without any lock; the writer goes on with its turns
 *     job, at its end          puts an op into the tenant's line
 *     writer, at that op       takes the build back, and commits the event that puts it in force; or lends it again,
 *                              while much was learned in the meantime
 *
 * The log has the beginning and the end, so a server that dies in between finds the build open when it folds, and its
 * first turn lends it anew. A run that fails for want of memory is tried again later; the model in force serves on.
 *
 * At shutdown, and when a tenant is deleted, the run is told to end (the core looks at that every few rows), and no
 * other is started. The job holds the tenant, so neither goes away under it. */
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "task/tasks.h"
#include "tenant/tenant_impl.h"

#define RETRY_MS 5000

/* ---- the job ------------------------------------------------------------------------------------------ */

/* In a thread for long work. The result is read by the writer after the op, which orders the two. */
static void run(void *arg)
{
    struct ld_tenant *t = arg;
    struct ld_metrics *m = t->world->metrics;
    const int64_t start_us = ld_monotonic_us();

    atomic_fetch_add_explicit(&m->builds_running, 1, memory_order_relaxed);
    t->build_rc = kb_build_run(t->build);
    atomic_fetch_sub_explicit(&m->builds_running, 1, memory_order_relaxed);
    t->build_us = ld_monotonic_us() - start_us;
    ld_histogram_add(&m->build_time, t->build_us);
    ld_failpoint("mid_build");
    ld_tenant_tell_writer(t, LD_OP_BUILT);
    ld_tenant_release(t);
}

/* ---- the writer's side --------------------------------------------------------------------------------- */

/* From another thread the build may be cancelled as long as it stands here. */
static void show_build(struct ld_tenant *t, struct kb_build *b)
{
    pthread_mutex_lock(&t->queue_lock);
    t->build = b;
    pthread_mutex_unlock(&t->queue_lock);
}

/* Back to the engine. Whether the run did what it could. */
bool ld_tenant_take_build(struct ld_tenant *t)
{
    struct kb_build *b = t->build;

    if (b == NULL)
        return false;
    show_build(t, NULL);
    kb_engine_return_build(t->engine, b);
    t->saving.tail_us += t->build_us; /* a fold does it again */
    t->build_us = 0;
    if (t->build_rc == KB_OK || t->build_rc == KB_ECANCELLED)
        return t->build_rc == KB_OK;
    atomic_fetch_add_explicit(&t->world->metrics->build_failures, 1, memory_order_relaxed);
    ld_log(LD_LOG_WARN, "tenant %s: the new model cannot be built now: %s", t->name, kb_strerror(t->build_rc));
    atomic_store(&t->next_build_ms, t->now_ms + RETRY_MS);
    return false;
}

/* After a batch, and at the end of a turn for what has waited. One job at a time; none when the tenant is about to go,
 * or a failed run is to wait. */
void ld_tenant_start_build(struct ld_tenant *t)
{
    struct kb_build *b;

    if (t->build != NULL || ld_task_find(t, &ld_erasure) != NULL || atomic_load(&t->is_halting) ||
        atomic_load(&t->is_doomed) || atomic_load(&t->next_build_ms) > t->now_ms)
        return;
    atomic_store(&t->next_build_ms, INT64_MIN);
    b = kb_engine_lend_build(t->engine);
    if (b == NULL)
        return;
    show_build(t, b);
    ld_tenant_hold(t);
    if (ld_sched_give(t->world->sched, LD_LONG_WORK, run, t, SIZE_MAX) == 0)
        return;
    t->build_rc = KB_ENOMEM;
    ld_tenant_take_build(t);
    ld_tenant_release(t);
}
