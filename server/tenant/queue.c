/* Ops and the line in which they wait for their tenant's writer: many threads push, one takes.
 *
 * A bounded list under a mutex: a push is a few stores, far below the cost of the commit that follows, and the list
 * keeps arrival order, which is the order of the log. Refusals are answered in the pushing thread.
 *
 * Ops are intrusive (op->next), so queueing allocates nothing and cannot fail for want of memory; an op is in one
 * list at a time: this one, then a batch's. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/graph_draft.h"
#include "base/metrics.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"

#define MOST_WAIT_S 60
#define READ_ONLY_RETRY_S 60 /* an operator has to come */

_Static_assert(sizeof(struct ld_op) < 1024, "each waiting request has one");

static const struct ld_problem none = {.status = 0};
static const struct ld_problem no_memory = {.status = 503, .detail = "out of memory", .retry_after_s = 1};

/* Without memory for it, what is written goes nowhere: the op is refused for want of memory in any case, and stays so,
 * however much memory there is a moment later. */
struct ld_problem *ld_op_problem(struct ld_op *op)
{
    static _Thread_local struct ld_problem nowhere;

    if (op->problem == &none) {
        struct ld_problem *p = malloc(sizeof *p);

        if (p != NULL)
            ld_problem_init(p);
        else
            ld_problem_init(&nowhere);
        op->problem = p != NULL ? p : &no_memory;
    }
    return op->problem != &no_memory ? (struct ld_problem *)(uintptr_t)op->problem : &nowhere;
}

void ld_op_forgive(struct ld_op *op)
{
    if (op->problem != &none && op->problem != &no_memory)
        free((struct ld_problem *)(uintptr_t)op->problem);
    op->problem = &none;
}

static bool has_settings(enum ld_op_type type)
{
    return type == LD_OP_SETTINGS || type == LD_OP_PROMOTE || type == LD_OP_PATCH || type == LD_OP_SWITCH;
}

/* An op with nothing set but its type and the trace of the request that this thread works for: no problem, no reply,
 * settings for those that make a configuration. NULL: no memory. */
struct ld_op *ld_op_new(enum ld_op_type type)
{
    struct ld_op *op = calloc(1, sizeof *op);

    if (op == NULL)
        return NULL;
    op->problem = &none;
    op->type = type;
    if (ld_trace_current() != NULL)
        op->trace = *ld_trace_current();
    if (has_settings(type) && (op->settings = calloc(1, sizeof *op->settings)) == NULL) {
        free(op);
        op = NULL;
    }
    return op;
}

/* Frees the op and everything it owns; what it only borrows (dimensions, names) belongs to its document. Not thread
 * safe: the op has one owner at any time, whoever holds the pointer. */
void ld_op_free(struct ld_op *op)
{
    if (op == NULL)
        return;
    if (op->event.type == KB_EV_GRAPH)
        kb_graph_draft_free(op->event.as.graph.draft);
    ld_doc_free(op->doc);
    ld_op_forgive(op);
    free(op->settings);
    free(op->evaluation);
    free(op->location);
    free(op->answer);
    free(op->reply);
    free(op);
}

/* Replaces whatever the op said so far: the request may be sent again, unchanged, after a second. For states that
 * pass: a full line, a failing disk, too many open decisions. */
void ld_op_refuse_busy(struct ld_op *op, const char *why)
{
    ld_op_forgive(op);
    ld_problem_set(ld_op_problem(op), 503, "%s", why);
    ld_op_problem(op)->retry_after_s = 1;
}

void ld_op_refuse_closed(const struct ld_tenant *t, struct ld_op *op)
{
    ld_op_refuse_busy(op, "the tenant was closed");
    if (!atomic_load(&t->is_doomed))
        return;
    ld_op_forgive(op);
    ld_problem_set_as(ld_op_problem(op), LD_NO_TENANT, "the tenant has been deleted");
}

/* ---- how long it takes ------------------------------------------------------------------------------ */

void ld_queue_begin_turn(struct ld_tenant *t)
{
    atomic_store_explicit(&t->queue->turn_us, ld_monotonic_us(), memory_order_relaxed);
}

/* A mean that forgets three quarters of itself in five turns. */
void ld_queue_end_turn(struct ld_tenant *t, size_t n)
{
    const int64_t us = ld_monotonic_us() - atomic_load_explicit(&t->queue->turn_us, memory_order_relaxed);
    const int64_t before = atomic_load_explicit(&t->queue->us_per_op, memory_order_relaxed);

    if (n > 0)
        atomic_store_explicit(&t->queue->us_per_op, before > 0 ? (3 * before + us / (int64_t)n) / 4 : us / (int64_t)n,
                              memory_order_relaxed);
    atomic_store_explicit(&t->queue->turn_us, 0, memory_order_relaxed);
}

/* Seconds until a line of that depth is worked off, as fast as the last turns were; and as long as the present one has
 * lasted already, which a disk that hangs makes long. */
static int drain_s(const struct ld_tenant *t, size_t depth)
{
    const int64_t began = atomic_load_explicit(&t->queue->turn_us, memory_order_relaxed);
    const int64_t turn = began > 0 ? ld_monotonic_us() - began : 0;
    const int64_t line = (int64_t)depth * atomic_load_explicit(&t->queue->us_per_op, memory_order_relaxed);
    const int64_t s = ((line > turn ? line : turn) + 999999) / 1000000;

    return s < 1 ? 1 : s > MOST_WAIT_S ? MOST_WAIT_S : (int)s;
}

/* ---- the line --------------------------------------------------------------------------------------- */

/* What it keeps in memory, as far as its caller has chosen that. */
static size_t bytes_of(const struct ld_op *op)
{
    return op->bytes + ld_doc_mapped_bytes(op->doc);
}

/* Which limit keeps the op out; LD_N_LIMITED: none. Lock held. Alone in the line an op may have any size. */
static enum ld_limited limit_of(const struct ld_tenant *t, const struct ld_op *op)
{
    const struct ld_world *w = t->world;

    if (t->queue->depth >= w->max_queue)
        return LD_LIMITED_QUEUE;
    const bool is_heavy =
        w->max_queue_bytes > 0 && t->queue->depth > 0 && t->queue->queued_bytes + bytes_of(op) > w->max_queue_bytes;
    return is_heavy ? LD_LIMITED_QUEUE_BYTES : LD_N_LIMITED;
}

/* LD_N_LIMITED: it is in the line. */
static enum ld_limited push(struct ld_tenant *t, struct ld_op *op, size_t *depth)
{
    enum ld_limited limit;

    pthread_mutex_lock(&t->queue->lock);
    *depth = t->queue->depth;
    limit = limit_of(t, op);
    if (limit == LD_N_LIMITED) {
        op->next = NULL;
        if (t->queue->head == NULL)
            t->queue->head = op;
        else
            t->queue->tail->next = op;
        t->queue->tail = op;
        t->queue->depth++;
        t->queue->queued_bytes += bytes_of(op);
        if (atomic_load(&t->queue->waiting_since_us) == 0)
            atomic_store(&t->queue->waiting_since_us, ld_monotonic_us());
    }
    pthread_mutex_unlock(&t->queue->lock);
    return limit;
}

static void refuse(struct ld_tenant *t, struct ld_op *op, enum ld_limited limit, size_t depth)
{
    struct ld_metrics *m = t->world->metrics;
    const bool is_number = limit == LD_LIMITED_QUEUE;

    ld_count(&m->refused_busy, 1);
    ld_count(&m->limited[limit], 1);
    ld_op_refuse_busy(op, is_number ? "the tenant's queue is full" : "the bodies in the tenant's queue are too large");
    ld_problem_limit(ld_op_problem(op), is_number ? "queue" : "queue_bytes",
                     (double)(is_number ? t->world->max_queue : t->world->max_queue_bytes));
    ld_op_problem(op)->retry_after_s = drain_s(t, depth);
    op->done(op);
}

/* A tenant that is read-only can be verified, which ends with the line that it stands before. */
static bool refuse_change(const struct ld_tenant *t, struct ld_op *op)
{
    if (t->read_only_from == 0 || (op->type == LD_OP_TASK && op->task->is_for_read_only))
        return false;
    ld_op_forgive(op);
    ld_problem_set(ld_op_problem(op), 503, "the tenant is read-only until it is repaired: %.400s", t->fault.text);
    ld_op_problem(op)->retry_after_s = READ_ONLY_RETRY_S;
    op->done(op);
    return true;
}

/* A doomed tenant refuses here, so that nothing is put in a line that nobody will empty; the writer checks again for
 * what was in the line already. The line is filled before the scheduler is woken: a wake that finds the writer
 * running makes it run once more. */
void ld_tenant_submit(struct ld_tenant *t, struct ld_op *op)
{
    if (atomic_load(&t->is_doomed)) {
        ld_op_refuse_closed(t, op);
        op->done(op);
        return;
    }
    if (refuse_change(t, op))
        return;
    size_t depth;
    const enum ld_limited limit = push(t, op, &depth);
    if (limit != LD_N_LIMITED) {
        refuse(t, op, limit, depth);
        return;
    }
    ld_sched_wake(t->world->sched, &t->queue->turn);
}

/* Cuts the line off after max ops; the rest keeps its order. The ops belong to the caller, linked by next. NULL when
 * nothing waits. max bounds a turn, so that one tenant cannot keep a thread of the pool for itself. */
struct ld_op *ld_queue_take(struct ld_tenant *t, size_t max)
{
    struct ld_op *first, *last = NULL;

    pthread_mutex_lock(&t->queue->lock);
    first = t->queue->head;
    for (size_t i = 0; i < max && t->queue->head != NULL; i++) {
        last = t->queue->head;
        t->queue->head = last->next;
        t->queue->depth--;
        t->queue->queued_bytes -= bytes_of(last);
    }
    if (last != NULL)
        last->next = NULL;
    pthread_mutex_unlock(&t->queue->lock);
    return first;
}

/* By the writer, when it has answered some, and (is_end) when its turn is over. */
void ld_queue_moved(struct ld_tenant *t, bool is_end)
{
    pthread_mutex_lock(&t->queue->lock);
    if (atomic_load(&t->queue->waiting_since_us) != 0)
        atomic_store(&t->queue->waiting_since_us, is_end && t->queue->depth == 0 ? 0 : ld_monotonic_us());
    pthread_mutex_unlock(&t->queue->lock);
}

int64_t ld_tenant_waiting_since(const struct ld_tenant *t)
{
    return atomic_load(&t->queue->waiting_since_us);
}

/* For metrics and for the writer's question whether to come again. The number is old when it is read. */
size_t ld_tenant_queue_depth(const struct ld_tenant *t)
{
    struct ld_tenant *mutable = (struct ld_tenant *)t; /* the lock is no part of the tenant's state */
    size_t depth;

    pthread_mutex_lock(&mutable->queue->lock);
    depth = t->queue->depth;
    pthread_mutex_unlock(&mutable->queue->lock);
    return depth;
}

size_t ld_tenant_queue_bytes(const struct ld_tenant *t)
{
    struct ld_tenant *mutable = (struct ld_tenant *)t;
    size_t bytes;

    pthread_mutex_lock(&mutable->queue->lock);
    bytes = t->queue->queued_bytes;
    pthread_mutex_unlock(&mutable->queue->lock);
    return bytes;
}
