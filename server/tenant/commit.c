/* The commit cycle: the one path by which a tenant's model changes while it serves. core/model/commit.h has the order
 * of it; here are the batch, its rows and its ops:
 *
 *     stage    due changes, the quota, then kb_commit_add                                           (fails: refused)
 *     flush    kb_commit_run, whose append is one transaction for all rows of the batch             (fails: undone)
 *     settle   what confidence rules read of the model, where they read more than mean and sd
 *     commit   work that follows from it, such as builds under --finish-builds (LD_AT_COMMIT)
 *     answer   the ops whose last event was in the batch
 *
 * A batch ends when it is full or closed, when an event must stand alone, when one depends on another that is not
 * applied yet (KB_EBUSY), and at the end of the turn. So what was acknowledged is durable, what is visible is durable,
 * and a failed append leaves neither a row nor a trace in memory.
 *
 * Cost: one fsync for a batch. */

#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"
#include "json/json_in.h"

/* ---- append -----------------------------------------------------------------------------------------*/

enum kb_err ld_flush_result(const struct ld_flush *f)
{
    return f->rc == LD_STORE_OK ? KB_OK : f->rc == LD_STORE_NOMEM ? KB_ENOMEM : KB_ECANCELLED;
}

/* Makes the batch durable, or nothing is in the file. */
static enum kb_err append_batch(void *arg, const struct kb_event *event, size_t n)
{
    struct ld_flush *f = arg;
    struct ld_tenant *t = f->t;
    const int64_t start_us = ld_monotonic_us();

    (void)event; /* rows are made of the batch */
    if (ld_batch_build_rows(t) != KB_OK)
        return KB_ENOMEM;
    ld_failpoint("before_append"); /* dying here loses what nobody was promised */
    f->rc = ld_store_append(t->store, t->batch->row, n, &f->why);
    ld_failpoint("after_commit"); /* and here what is recovered was never answered */
    f->appended_us = ld_monotonic_us();
    ld_histogram_add(&t->world->metrics->commit_time, f->appended_us - start_us);
    ld_batch_free_rows(t);
    return ld_flush_result(f);
}

/* ---- apply ----------------------------------------------------------------------------------------- */

/* Under the write lock. Of the dictionary, what is begun counts when it is finished. */
static void applied(void *arg, size_t i, const struct kb_event *ev)
{
    const struct ld_flush *f = arg;
    struct ld_tenant *t = f->t;
    const struct ld_settings *settings = t->batch->beside[i].settings;

    if (kb_event_is_dictionary(ev) && !ev->as.dictionary.is_begun)
        ld_count(ev->as.dictionary.is_reset ? &t->world->metrics->resets : &t->world->metrics->admissions, 1);
    t->seq = ev->seq;
    if (ev->type == KB_EV_ARMS)
        t->arms_epoch++;
    if (ev->type == KB_EV_CONFIGURED)
        ld_tenant_follow_settings(t, settings);
}

static void lock(void *arg, bool is_unseen)
{
    const struct ld_flush *f = arg;

    (is_unseen ? ld_tenant_write_lock_unseen : ld_tenant_write_lock)(f->t);
}

static void unlock(void *arg)
{
    const struct ld_flush *f = arg;

    ld_tenant_write_unlock(f->t);
}

/* What the tenant's quota leaves for values that decisions keep: they give way to the model. */
static size_t room_to_keep(const struct ld_tenant *t)
{
    const size_t quota = t->world->tenant_quota;

    if (quota == 0)
        return KB_MOST_KEPT;
    const size_t model = kb_engine_bytes(t->engine) - kb_engine_kept_bytes(t->engine);
    return quota > model ? quota - model : 0;
}

/* Bounds that take in the batch, where the rule needs heavy work for that; done before the answers, so that who was
 * told that a reward is applied finds it in the bounds, and once a batch, so that a busy tenant pays for it once.
 * Without memory the last ones stay in force, which are valid, only wider. Room for what decisions would keep comes by
 * the same way. */
static void refresh_derived(struct ld_tenant *t, const struct kb_commit_hooks *hooks)
{
    kb_engine_set_most_kept(t->engine, room_to_keep(t));
    const enum kb_err rc = kb_commit_settle(t->engine, hooks);

    if (rc != KB_OK)
        ld_log(LD_LOG_WARN, "tenant %s: bounds are those of an earlier event: %s", t->name, kb_strerror(rc));
}

/* ---- batches --------------------------------------------------------------------------------------- */

/* Logs the two edges only: a disk that refuses for an hour is two lines, not one for each request. A batch that is lost
 * for want of memory, or because another server was faster, says nothing about the disk: the tenant does not fail, and
 * the server stays ready. */
static void count_commit(const struct ld_flush *f, size_t n)
{
    struct ld_tenant *t = f->t;
    struct ld_metrics *m = t->world->metrics;
    const bool is_ok = f->rc == LD_STORE_OK;

    if (is_ok) {
        ld_count(&m->commits, 1);
        ld_count(&m->committed_rows, n);
        ld_histogram_add(&m->commit_tenths, 10 * (int64_t)n);
    } else {
        atomic_fetch_add_explicit(&m->commit_failures, 1, memory_order_relaxed);
    }
    if (f->rc == LD_STORE_NOMEM || f->is_passing)
        ld_log(LD_LOG_ERROR, "tenant %s: %zu events were not recorded: %s", t->name, n, f->why.text);
    else if (atomic_exchange(&t->is_failing, !is_ok) == is_ok)
        ld_log(is_ok ? LD_LOG_INFO : LD_LOG_ERROR, "tenant %s: commit %s %s", t->name,
               is_ok ? "works again" : "failed:", is_ok ? "" : f->why.text);
}

static void lose(struct ld_tenant *t, struct ld_op *op)
{
    op->is_unsure |= t->shared.is_unsure;
    if (op->is_unsure || t->shared.rc != LD_SHARED_DOWN || !ld_op_stand_alone(t, op))
        ld_op_lose(op);
}

/* The batch of n events is over: all committed, or all lost. Returns the ops that it answers. */
static struct ld_op *conclude(struct ld_tenant *t, size_t n, bool is_ok)
{
    struct ld_batch *b = t->batch;
    struct ld_op *op = b->first;

    for (size_t i = 0; i < n; i++)
        ld_doc_free(b->beside[i].kept);
    if (b->current != NULL && b->n_current > 0) {
        if (is_ok)
            b->current->n_safe = b->current->n_done;
        else
            lose(t, b->current);
    }
    b->n_current = b->n_decided = 0;
    kb_ids_close(&b->ids);
    b->first = b->last = NULL;
    atomic_store(&t->is_rebuilding, false);
    return op;
}

static void answer(struct ld_tenant *t, struct ld_op *op, bool is_ok)
{
    if (t->world->hold_answers != NULL)
        t->world->hold_answers();
    while (op != NULL) {
        struct ld_op *next = op->next;

        if (!is_ok)
            lose(t, op);
        ld_op_answer(t, op);
        op = next;
    }
    if (t->world->send_answers != NULL)
        t->world->send_answers();
    ld_queue_moved(t, false);
}

static struct kb_commit_hooks hooks_of(struct ld_flush *f)
{
    return (struct kb_commit_hooks){.lock = lock, .unlock = unlock, .applied = applied, .arg = f};
}

bool ld_batch_run(struct ld_flush *f, enum kb_err (*append)(void *flush, const struct kb_event *event, size_t n))
{
    struct kb_commit *c = &f->t->batch->commit;
    struct kb_commit_hooks hooks = hooks_of(f);
    const size_t n = c->n;

    hooks.append = append;
    if (kb_commit_run(c, &hooks) != KB_OK)
        return false;
    ld_failpoint("after_apply");
    ld_books_take(&f->t->books, c->event, n);
    return true;
}

void ld_batch_show(struct ld_flush *f, bool is_settled)
{
    const struct kb_commit_hooks hooks = hooks_of(f);
    struct ld_tenant *t = f->t;
    struct kb_engine_counts counts;

    if (is_settled)
        refresh_derived(t, &hooks);
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    ld_tenant_measure(t, &counts);
}

/* The heart of the promise: between the append and the answers nothing can fail, and before it nothing has happened
 * that kb_commit_run does not undo. An empty batch only answers ops that were waiting for it. */
static bool flush(struct ld_tenant *t)
{
    struct ld_flush f = {.t = t, .rc = LD_STORE_NOMEM, .why = {"out of memory"}};
    const size_t n = t->batch->commit.n;

    if (n == 0) {
        answer(t, conclude(t, 0, true), true);
        return true;
    }
    const bool is_ok = ld_batch_run(&f, t->world->shared != NULL ? ld_shared_append : append_batch);
    count_commit(&f, n);
    t->has_failed |= !is_ok;
    ld_batch_show(&f, is_ok);
    if (is_ok)
        t->tail_us += ld_monotonic_us() - f.appended_us;
    struct ld_op *const ops = conclude(t, n, is_ok);
    if (is_ok)
        ld_tasks_at(t, LD_AT_COMMIT);
    answer(t, ops, is_ok);
    t->shared.is_unsure = false;
    ld_tasks_at(t, LD_AT_BATCH_END);
    return is_ok;
}

bool ld_batch_flush(struct ld_tenant *t)
{
    const bool is_ok = flush(t);

    if (t->world->shared != NULL)
        ld_shared_go_on(t);
    return is_ok;
}

void ld_batch_end(struct ld_tenant *t)
{
    flush(t);
    if (t->world->shared != NULL)
        ld_shared_end(t);
}

/* Of a batch whose events the engine has forgotten already; that of the op under way among them. */
void ld_batch_lose(struct ld_tenant *t, size_t n)
{
    t->batch->n_current += 1; /* its own is lost as well: see conclude */
    answer(t, conclude(t, n, false), false);
}

/* Not a failure of the disk: nobody else has events in this batch, so nobody is answered. */
void ld_batch_drop(struct ld_tenant *t)
{
    kb_commit_drop(&t->batch->commit);
    t->batch->n_current = t->batch->n_decided = 0;
    kb_ids_close(&t->batch->ids);
}
