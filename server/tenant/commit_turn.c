/* A turn of the writer: ops out of the line, one after another, into batches (commit.c), until none waits.
 *
 * An op is expanded into events, and answered when the commit of its last ones has been, or at once when none of its is
 * waiting. Under durability `relaxed` decisions, rewards and observations are answered once reserved; their memory
 * moves into the batch, since the op is gone by the time of the commit. Where processors are short, a batch that would
 * be committed now waits a moment for more (pace.h). */
#include "base/pace.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_impl.h"

#define COMPANY 4u   /* ops of the last turn, from which on more may be on their way */
#define MOST_RESTS 7 /* in a turn */

/* Relaxed durability is for traffic only: who changes graph, arms or settings, or activates, is told the truth. */
static bool may_answer_early(const struct ld_tenant *t, const struct ld_op *op)
{
    if (!t->settings.is_relaxed || op->problem->status != 0)
        return false;
    return op->type == LD_OP_REWARDS || op->type == LD_OP_OBSERVE ||
           (op->type == LD_OP_EVENT && op->event.type == KB_EV_DECIDED);
}

/* The op is expanded: it is answered with the commit of its last events, or at once when none of its is waiting. */
static void finish(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_batch *b = t->batch;
    const bool is_waiting = b->n_current > 0;

    b->current = NULL;
    b->n_current = 0;
    if (is_waiting && !may_answer_early(t, op)) {
        op->next = NULL;
        if (b->first == NULL)
            b->first = op;
        else
            b->last->next = op;
        b->last = op;
        return;
    }
    if (is_waiting) {
        b->beside[b->commit.n - 1].kept = op->doc;
        op->doc = NULL;
    }
    ld_op_answer(t, op);
}

/* A closed batch goes first: it may hold a new catalogue or new dimensions, which the op is checked against. KB_EBUSY
 * asks for another look at a state in which all before it is applied; it comes again only where other servers write in
 * between. With a shared log an op is looked at by whoever has the turn in it, at its tip. */
static void run_op(struct ld_tenant *t, struct ld_op *op)
{
    if (t->batch->commit.is_closed)
        ld_batch_flush(t);
    if (t->world->shared != NULL && !ld_shared_takes(t, op))
        return;
    t->batch->current = op;
    t->batch->n_current = 0;
    int rc = ld_op_expand(t, op);
    for (int n = 1; rc == KB_EBUSY && n < LD_MOST_LOOKS; n++) {
        ld_batch_flush(t);
        rc = ld_op_expand(t, op);
    }
    if (rc == KB_EBUSY)
        ld_op_refuse_busy(op, "the tenant is busy with what this depends on");
    if (rc != LD_KEPT)
        finish(t, op);
}

/* The time is read once: all events of a turn carry the same, and a long turn does not let windows close under its own
 * ops. Other servers of a shared log have clocks of their own, and times of a log never go back. */
static void read_clock(struct ld_tenant *t)
{
    t->now_ms = t->world->now_ms();
    if (t->now_ms < t->shared.at_ms)
        t->now_ms = t->shared.at_ms;
}

/* A turn of one op, without the line. */
void ld_tenant_run_op(struct ld_tenant *t, struct ld_op *op)
{
    read_clock(t);
    t->has_failed = false;
    run_op(t, op);
    ld_batch_end(t);
}

/* Whether more ops have come for a batch that would be committed now, but that processors are short: then requests of
 * others are on their way through them, and as long as one comes in a moment's rest the next may be worth another. The
 * clients wait for a processor anyway, and each commit that is saved gives it to them. */
static bool has_company(struct ld_tenant *t, int *n_rests)
{
    struct ld_pace *pace = t->world->pace;

    if (pace == NULL || t->batch->commit.n == 0 || t->batch->commit.is_closed || t->has_failed ||
        t->queue->n_turned < COMPANY || *n_rests == MOST_RESTS || !ld_pace_is_short(pace))
        return false;
    ++*n_rests;
    pace->rest();
    return ld_tenant_queue_depth(t) > 0;
}

/* What waits, up to n_left ops. Returns how many may follow. */
static size_t run_line(struct ld_tenant *t, size_t n_left)
{
    struct ld_op *op;

    while (n_left > 0 && (op = ld_queue_take(t, n_left)) != NULL) {
        while (op != NULL) {
            struct ld_op *next = op->next;

            run_op(t, op);
            n_left--;
            op = next;
        }
    }
    return n_left;
}

/* One turn. Ops that come while others are staged go into the same commit: the disk is what they would wait
 * for. Returns whether more ops wait, so that the scheduler can let other tenants go first. */
bool ld_tenant_run_writer(struct ld_tenant *t)
{
    size_t n_left = LD_TURN_OPS;
    int n_rests = 0;

    read_clock(t);
    t->has_failed = false;
    ld_queue_begin_turn(t);
    if (t->world->shared != NULL) {
        if (!atomic_load(&t->shared.is_followed)) /* what there is to follow is followed without the turn */
            atomic_store(&t->shared.is_asked, true);
        ld_shared_read(t);
    }
    ld_tasks_finish(t);
    if (atomic_exchange(&t->queue->is_due, false) && !atomic_load(&t->is_doomed))
        ld_batch_expire(t);
    kb_engine_set_inline_work(t->engine, t->world->inline_work);
    do
        n_left = run_line(t, n_left);
    while (n_left > 0 && has_company(t, &n_rests));
    ld_batch_end(t);
    t->queue->n_turned = LD_TURN_OPS - n_left;
    ld_queue_end_turn(t, t->queue->n_turned);
    if (t->world->shared != NULL)
        ld_shared_end(t); /* snapshots and checkpoints keep nobody waiting */
    ld_tenant_upkeep(t);
    if (t->world->shared != NULL)
        ld_shared_end(t);
    ld_queue_moved(t, true);
    return ld_tenant_queue_depth(t) > 0 || atomic_load(&t->queue->is_due) || ld_tasks_have_run(t);
}
