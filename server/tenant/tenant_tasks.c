/* Tasks of a tenant: see task.h. The list is guarded by the lock of the tenant's queue, which is held for some
 * instructions, and for the cancel of what runs. */

#include <stdlib.h>

#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"

/* Lock held. */
static struct ld_task *find(const struct ld_tenant *t, const struct ld_task_kind *kind)
{
    struct ld_task *x = t->tasks;

    while (x != NULL && x->kind != kind)
        x = x->next;
    return x;
}

void *ld_task_find(const struct ld_tenant *t, const struct ld_task_kind *kind)
{
    struct ld_tenant *mutable = (struct ld_tenant *)t; /* the lock is no part of the tenant's state */

    pthread_mutex_lock(&mutable->queue->lock);
    struct ld_task *x = find(t, kind);
    pthread_mutex_unlock(&mutable->queue->lock);
    return x;
}

bool ld_task_visit(struct ld_tenant *t, const struct ld_task_kind *kind, void (*visit)(void *task, void *arg),
                   void *arg)
{
    pthread_mutex_lock(&t->queue->lock);
    struct ld_task *x = find(t, kind);
    if (x != NULL)
        visit(x, arg);
    pthread_mutex_unlock(&t->queue->lock);
    return x != NULL;
}

bool ld_task_is_under_way(const struct ld_tenant *t, const struct ld_task_kind *kind)
{
    const struct ld_task *x = ld_task_find(t, kind);

    return x != NULL && atomic_load(&x->state) != LD_TASK_RESTS;
}

void *ld_task_of(struct ld_tenant *t, const struct ld_task_kind *kind)
{
    pthread_mutex_lock(&t->queue->lock);
    struct ld_task *x = find(t, kind);
    if (x == NULL && (x = calloc(1, kind->size)) != NULL) {
        x->kind = kind;
        x->t = t;
        if (kind->init != NULL)
            kind->init(x);
        x->next = t->tasks;
        t->tasks = x;
    }
    pthread_mutex_unlock(&t->queue->lock);
    return x;
}

/* From the moment that the state says so the task is the writer's, and may be gone. */
static void run(void *arg)
{
    struct ld_task *x = arg;
    struct ld_tenant *t = x->t;

    x->kind->run(x);
    atomic_store(&x->state, LD_TASK_HAS_RUN);
    ld_sched_wake(t->world->sched, &t->queue->turn);
    ld_tenant_release(t);
}

bool ld_task_run(struct ld_task *x)
{
    struct ld_tenant *t = x->t;

    if (atomic_exchange(&x->state, LD_TASK_RUNS) == LD_TASK_RUNS)
        return true;
    if (!atomic_load(&t->is_halting)) { /* else ld_tenant_halt may have seen it rest */
        ld_tenant_hold(t);
        if (ld_sched_give(t->world->sched, x->kind->threads, run, x, SIZE_MAX) == 0)
            return true;
        ld_tenant_release(t);
    }
    atomic_store(&x->state, LD_TASK_RESTS);
    return false;
}

/* Its state says that it runs, so that ld_tenant_halt cancels it. */
bool ld_task_run_here(struct ld_task *x)
{
    atomic_store(&x->state, LD_TASK_RUNS);
    const bool is_halting = atomic_load(&x->t->is_halting);
    if (!is_halting)
        x->kind->run(x);
    atomic_store(&x->state, LD_TASK_RESTS);
    return !is_halting;
}

void ld_task_wait(struct ld_task *x)
{
    atomic_store(&x->state, LD_TASK_WAITS);
}

void ld_task_end(struct ld_task *x)
{
    struct ld_task **at = &x->t->tasks;

    pthread_mutex_lock(&x->t->queue->lock);
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    pthread_mutex_unlock(&x->t->queue->lock);
    if (x->op != NULL)
        x->op->done(x->op);
    if (x->kind->drop != NULL)
        x->kind->drop(x);
    free(x);
}

int ld_task_expand(struct ld_tenant *t, struct ld_op *op)
{
    ld_batch_flush(t);
    if (!op->task->is_lasting && ld_task_find(t, op->task) != NULL) {
        ld_op_refuse_busy(op, op->task->busy);
        return 0;
    }
    struct ld_task *x = ld_task_of(t, op->task);
    if (x == NULL) {
        ld_op_refuse_busy(op, "out of memory");
        return 0;
    }
    if (op->task->start(x, op) == LD_KEPT) {
        x->op = op;
        return LD_KEPT;
    }
    if (!op->task->is_lasting)
        ld_task_end(x);
    return 0;
}

bool ld_tasks_keep(struct ld_tenant *t, struct ld_op *op)
{
    size_t i = 0;

    while (ld_tasks[i] != NULL && (ld_tasks[i]->keep == NULL || !ld_tasks[i]->keep(t, op)))
        i++;
    return ld_tasks[i] != NULL;
}

enum ld_chore ld_tasks_at(struct ld_tenant *t, enum ld_moment moment)
{
    enum ld_chore most = LD_CHORE_NONE;

    for (size_t i = 0; ld_tasks[i] != NULL; i++) {
        const enum ld_chore chore = ld_tasks[i]->at[moment] != NULL ? ld_tasks[i]->at[moment](t) : LD_CHORE_NONE;

        most = chore > most ? chore : most;
    }
    return most;
}

/* Who has asked something of a tenant that is deleted meanwhile is told so; other tasks see to themselves. */
static void finish(struct ld_task *x)
{
    atomic_store(&x->state, LD_TASK_RESTS);
    if (x->op != NULL && atomic_load(&x->t->is_doomed)) {
        ld_op_refuse_closed(x->t, x->op);
        ld_task_end(x);
    } else if (x->kind->finish != NULL) {
        x->kind->finish(x);
    }
}

/* By kind, and looked up each time: what one of them does may be the end of another. */
static void finish_all(struct ld_tenant *t, int state)
{
    for (size_t i = 0; ld_tasks[i] != NULL; i++) {
        struct ld_task *x = ld_task_find(t, ld_tasks[i]);

        if (x != NULL && (int)atomic_load(&x->state) == state)
            finish(x);
    }
}

/* Those that wait come last: what was in their way may just have been finished, and nobody would ask again. */
void ld_tasks_finish(struct ld_tenant *t)
{
    finish_all(t, LD_TASK_HAS_RUN);
    finish_all(t, LD_TASK_WAITS);
}

bool ld_tasks_have_run(struct ld_tenant *t)
{
    bool is_any = false;

    pthread_mutex_lock(&t->queue->lock);
    for (const struct ld_task *x = t->tasks; x != NULL; x = x->next)
        is_any |= atomic_load(&x->state) == LD_TASK_HAS_RUN;
    pthread_mutex_unlock(&t->queue->lock);
    return is_any;
}

bool ld_tasks_have_engine(struct ld_tenant *t)
{
    bool is_any = false;

    pthread_mutex_lock(&t->queue->lock);
    for (const struct ld_task *x = t->tasks; x != NULL; x = x->next)
        is_any |= x->kind->has_engine && atomic_load(&x->state) != LD_TASK_RESTS;
    pthread_mutex_unlock(&t->queue->lock);
    return is_any;
}

size_t ld_tasks_bytes(struct ld_tenant *t)
{
    size_t bytes = 0;

    pthread_mutex_lock(&t->queue->lock);
    for (const struct ld_task *x = t->tasks; x != NULL; x = x->next)
        bytes += atomic_load(&x->bytes);
    pthread_mutex_unlock(&t->queue->lock);
    return bytes;
}

void ld_tenant_halt(struct ld_tenant *t)
{
    atomic_store(&t->is_halting, true);
    pthread_mutex_lock(&t->queue->lock);
    for (struct ld_task *x = t->tasks; x != NULL; x = x->next)
        if (x->kind->cancel != NULL && atomic_load(&x->state) == LD_TASK_RUNS)
            x->kind->cancel(x);
    pthread_mutex_unlock(&t->queue->lock);
}

void ld_tasks_drop(struct ld_tenant *t)
{
    while (t->tasks != NULL) {
        if (t->tasks->op != NULL)
            ld_op_refuse_closed(t, t->tasks->op);
        ld_task_end(t->tasks);
    }
}
