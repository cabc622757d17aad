/* The commit cycle: the one path by which a tenant's model changes while it serves.
 *
 *     stage    reserve the event in the engine; with the dictionary change that follows from it     (fails: refused)
 *     grow     larger copies of the arrays that are too small                                       (fails: undone)
 *     append   all rows of the batch in one transaction                                             (fails: undone)
 *     swap     the copies, where there are any                                     write lock       cannot fail
 *     apply    prepare without the lock, then apply, event by event                write lock       cannot fail
 *     settle   what confidence rules read of the model, where they read more than mean and sd (swap: write lock)
 *     answer   the ops whose last event was in the batch
 *
 * A batch ends when it is full, when an event must stand alone or last (is_alone; dictionary events), when an event
 * depends on one that is not applied yet (KB_EBUSY), and at the end of the turn. So what was acknowledged is durable,
 * what is visible is durable, and a failed append leaves neither a row nor a trace in memory.
 *
 * Cost: one fsync for a batch; the write lock is held once for up to LIGHT_RUN events that only keep books (a lock
 * taken in turn with readers costs more than they do), and once for each event that teaches. */
#include <stdio.h>

#include "alloc.h"
#include "failpoint.h"
#include "log.h"
#include "metrics.h"
#include "tenant_impl.h"

#define LIGHT_RUN 64u

/* Events that change what others are checked against stand in a batch of their own. */
static bool is_alone(enum kb_event_type type)
{
    return type == KB_EV_CONFIGURED || type == KB_EV_GRAPH || type == KB_EV_ARMS;
}

/* ---- append -----------------------------------------------------------------------------------------*/

/* Makes the batch durable: LD_STORE_OK, or another with why: nothing is in the file. */
static int append_batch(struct ld_tenant *t, char *why)
{
    struct ld_batch *b = &t->batch;
    const int64_t start_us = ld_monotonic_us();
    int rc;

    if (ld_batch_build_rows(t) != KB_OK) {
        snprintf(why, 512, "out of memory");
        return LD_STORE_NOMEM;
    }
    ld_failpoint("before_append"); /* dying here loses what nobody was promised */
    rc = ld_store_append(t->store, b->row, b->n, why);
    ld_failpoint("after_commit"); /* and here what is recovered was never answered */
    ld_histogram_add(&t->world->metrics->commit_time, ld_monotonic_us() - start_us);
    ld_batch_free_rows(t);
    return rc;
}

/* ---- apply ----------------------------------------------------------------------------------------- */

/* What is begun counts when it is finished. */
static void count_dictionary(struct ld_metrics *m, const struct kb_event *ev)
{
    if (ev->type == KB_EV_DICTIONARY && !ev->as.dictionary.is_begun)
        ld_count(ev->as.dictionary.is_reset ? &m->resets : &m->admissions, 1);
}

/* Under the write lock. */
static void apply_entry(struct ld_tenant *t, const struct ld_entry *entry)
{
    kb_engine_apply(t->engine, &entry->ev);
    count_dictionary(t->world->metrics, &entry->ev);
    t->seq = entry->ev.seq;
    if (entry->ev.type == KB_EV_ARMS)
        t->arms_epoch++;
    if (entry->ev.type != KB_EV_CONFIGURED)
        return;
    if (entry->settings->spec.context_dim != t->settings.spec.context_dim ||
        entry->settings->spec.arm_dim != t->settings.spec.arm_dim)
        t->dims_epoch++;
    t->settings = *entry->settings;
}

/* What has grown beside readers is put in place; they are kept out only when there is any. */
static void swap_grown(struct ld_tenant *t)
{
    if (!kb_engine_has_grown(t->engine))
        return;
    ld_tenant_write_lock(t);
    kb_engine_swap(t->engine);
    ld_tenant_write_unlock(t);
}

/* The first of b's events from i on, and those behind it that go under the same lock; one after the last. Prepare runs
 * without the lock, beside readers, except inside a run of light events, where there is nothing to prepare. */
static size_t apply_run(struct ld_tenant *t, struct ld_batch *b, size_t i)
{
    const size_t first = i;
    const bool is_unseen = kb_engine_is_unseen(t->engine, &b->entry[i].ev);

    kb_engine_prepare(t->engine, &b->entry[i].ev);
    (is_unseen ? ld_tenant_write_lock_unseen : ld_tenant_write_lock)(t);
    apply_entry(t, &b->entry[i++]);
    while (kb_event_is_light(&b->entry[i - 1].ev) && i < b->n && kb_event_is_light(&b->entry[i].ev) &&
           i - first < LIGHT_RUN && (!is_unseen || kb_engine_is_unseen(t->engine, &b->entry[i].ev))) {
        kb_engine_prepare(t->engine, &b->entry[i].ev);
        apply_entry(t, &b->entry[i++]);
    }
    ld_tenant_write_unlock(t);
    return i;
}

/* Events are applied in the order of the log: the next prepare may rest on this apply. */
static void apply_batch(struct ld_tenant *t)
{
    struct ld_batch *b = &t->batch;

    swap_grown(t);
    for (size_t i = 0; i < b->n;)
        i = apply_run(t, b, i);
    kb_engine_collect(t->engine);
    ld_failpoint("after_apply");
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
static void refresh_derived(struct ld_tenant *t)
{
    kb_engine_set_most_kept(t->engine, room_to_keep(t));
    const enum kb_err rc = kb_engine_settle(t->engine);

    if (rc != KB_OK)
        ld_log(LD_LOG_WARN, "tenant %s: bounds are those of an earlier event: %s", t->name, kb_strerror(rc));
    if (!kb_engine_has_settled(t->engine))
        return;
    ld_tenant_write_lock(t);
    kb_engine_publish(t->engine);
    ld_tenant_write_unlock(t);
    kb_engine_collect(t->engine);
}

/* ---- batches --------------------------------------------------------------------------------------- */

/* Logs the two edges only: a disk that refuses for an hour is two lines, not one for each request. A batch that is lost
 * for want of memory says nothing about the disk: the tenant does not fail, and the server stays ready. */
static void count_commit(struct ld_tenant *t, int rc, const char *why)
{
    struct ld_metrics *m = t->world->metrics;
    const bool is_ok = rc == LD_STORE_OK;

    if (is_ok) {
        ld_count(&m->commits, 1);
        ld_count(&m->committed_rows, t->batch.n);
        ld_histogram_add(&m->commit_tenths, 10 * (int64_t)t->batch.n);
    } else {
        atomic_fetch_add_explicit(&m->commit_failures, 1, memory_order_relaxed);
    }
    if (rc == LD_STORE_NOMEM)
        ld_log(LD_LOG_ERROR, "tenant %s: %zu events were not recorded: %s", t->name, t->batch.n, why);
    else if (atomic_exchange(&t->is_failing, !is_ok) == is_ok)
        ld_log(is_ok ? LD_LOG_INFO : LD_LOG_ERROR, "tenant %s: commit %s %s", t->name,
               is_ok ? "works again" : "failed:", is_ok ? "" : why);
}

/* Empties the batch and answers its ops: all committed, or all lost. */
static void settle(struct ld_tenant *t, bool is_ok)
{
    struct ld_batch *b = &t->batch;
    struct ld_op *op = b->first;

    for (size_t i = 0; i < b->n; i++)
        ld_doc_free(b->entry[i].kept);
    if (b->current != NULL && b->n_current > 0) {
        if (is_ok)
            b->current->n_safe = b->current->n_done;
        else
            ld_op_lose(b->current);
    }
    b->n = b->n_current = b->n_decided = 0;
    kb_ids_close(&b->observed);
    b->is_closed = false;
    b->first = b->last = NULL;
    atomic_store(&t->is_rebuilding, false);
    if (t->world->hold_answers != NULL)
        t->world->hold_answers();
    while (op != NULL) {
        struct ld_op *next = op->next;

        if (!is_ok)
            ld_op_lose(op);
        ld_op_answer(t, op);
        op = next;
    }
    if (t->world->send_answers != NULL)
        t->world->send_answers();
    ld_queue_moved(t, false);
}

/* The heart of the promise: between ld_store_append and the answers nothing can fail, and before it nothing has
 * happened that rollback does not undo. An empty batch only answers ops that were waiting for it. */
bool ld_batch_flush(struct ld_tenant *t)
{
    char why[512] = "out of memory";
    struct kb_engine_counts counts;

    if (t->batch.n == 0) {
        settle(t, true);
        return true;
    }
    const int rc = kb_engine_grow(t->engine) == KB_OK ? append_batch(t, why) : LD_STORE_NOMEM;
    const bool is_ok = rc == LD_STORE_OK;
    count_commit(t, rc, why);
    t->has_failed |= !is_ok;
    if (is_ok) {
        const int64_t start_us = ld_monotonic_us();

        apply_batch(t);
        refresh_derived(t);
        t->saving.tail_us += ld_monotonic_us() - start_us;
    } else {
        kb_engine_rollback(t->engine);
    }
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    ld_tenant_measure(t, &counts);
    settle(t, is_ok);
    if (t->world->sched != NULL) /* a busy turn is long: what was begun is not to wait for its end */
        ld_tenant_start_build(t);
    return is_ok;
}

/* Not a failure of the disk: nobody else has events in this batch, so nobody is answered. */
void ld_batch_drop(struct ld_tenant *t)
{
    kb_engine_rollback(t->engine);
    t->batch.n = t->batch.n_current = t->batch.n_decided = 0;
    kb_ids_close(&t->batch.observed);
    t->batch.is_closed = false;
}

/* Reserves entry as the batch's next event; room for two entries is there. */
static enum kb_err push_entry(struct ld_tenant *t, const struct ld_entry *from, struct kb_errmsg *msg)
{
    struct ld_batch *b = &t->batch;
    struct ld_entry *entry = &b->entry[b->n];
    enum kb_err rc;

    if (is_alone(from->ev.type) || (from->ev.type == KB_EV_DICTIONARY && from->ev.as.dictionary.is_reset))
        atomic_store(&t->is_rebuilding, true);
    *entry = *from;
    entry->ev.seq = t->seq + b->n + 1;
    entry->ev.at_ms = t->now_ms;
    rc = kb_engine_reserve(t->engine, &entry->ev, msg);
    if (rc != KB_OK) {
        if (b->n == 0) /* whoever is told of the refusal may look at once */
            atomic_store(&t->is_rebuilding, false);
        return rc;
    }
    b->n++;
    b->n_decided += entry->ev.type == KB_EV_DECIDED;
    b->is_closed |= is_alone(entry->ev.type) || entry->ev.type == KB_EV_DICTIONARY;
    return KB_OK;
}

/* Before new events: a dictionary reset, or the end of one that was begun. It is not urgent: when it cannot be had now,
 * the next batch asks again. */
void ld_batch_commit_due(struct ld_tenant *t)
{
    struct ld_entry next = {0};

    if (t->has_failed || kb_grow((void **)&t->batch.entry, &t->batch.cap, 2, 64, sizeof *t->batch.entry) != 0)
        return;
    if (kb_engine_due(t->engine, t->seq + 1, &next.ev) != KB_OK || next.ev.type == KB_EV_NONE)
        return;
    if (push_entry(t, &next, NULL) == KB_OK)
        ld_batch_flush(t);
}

/* Reserves the dictionary change that stands right behind the event just pushed, if any. When that fails the event
 * cannot be had either, and the engine only forgets batches as a whole. */
static int push_follow_up(struct ld_tenant *t)
{
    struct ld_batch *b = &t->batch;
    struct ld_entry next = {0};
    enum kb_err rc = kb_engine_follow_up(t->engine, &b->entry[b->n - 1].ev, &next.ev);

    if (rc == KB_OK && next.ev.type != KB_EV_NONE)
        rc = push_entry(t, &next, NULL);
    if (rc == KB_OK)
        return KB_OK;
    ld_log(LD_LOG_ERROR, "tenant %s: no dictionary change for event %llu: %s", t->name,
           (unsigned long long)b->entry[b->n - 1].ev.seq, kb_strerror(rc));
    kb_engine_rollback(t->engine);
    settle(t, false);
    return LD_LOST;
}

/* Whether the tenant may take the memory that the event wants, computed before any of it is taken. Events that take
 * nothing pass however full it is, and so do the tenant's own: a window that closes gives memory back. */
static int check_quota(const struct ld_tenant *t, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const size_t quota = t->world->tenant_quota;

    if (quota == 0 || ev->type == KB_EV_EXPIRED || ev->type == KB_EV_LATE || ev->type == KB_EV_ACTIVATED)
        return KB_OK;
    const size_t after = kb_engine_bytes_after(t->engine, ev) - kb_engine_kept_bytes(t->engine);
    if (after <= quota)
        return KB_OK;
    const size_t now = kb_engine_bytes(t->engine) - kb_engine_kept_bytes(t->engine);
    if (after <= now)
        return KB_OK;
    return kb_fail(KB_EFULL, msg, "", "the tenant has a quota of %zu bytes and takes %zu; this may take it to %zu",
                   quota, now, after);
}

/* Room for two entries is made before anything is reserved, so that a follow-up never fails for want of it. After a
 * failed commit the turn stages nothing more: the disk would make every op wait as long as the first. */
int ld_batch_stage(struct ld_tenant *t, const struct ld_entry *entry, struct kb_errmsg *msg)
{
    struct ld_batch *b = &t->batch;
    int rc;

    if (b->is_closed || b->n + 1 >= LD_BATCH_EVENTS || (is_alone(entry->ev.type) && b->n > 0))
        ld_batch_flush(t);
    if (kb_grow((void **)&b->entry, &b->cap, b->n + 2, 64, sizeof *b->entry) != 0)
        return KB_ENOMEM;
    if (b->n == 0)
        ld_batch_commit_due(t);
    if (t->has_failed) {
        ld_op_lose(b->current);
        return LD_LOST;
    }
    if ((rc = check_quota(t, &entry->ev, msg)) != KB_OK || (rc = push_entry(t, entry, msg)) != KB_OK)
        return rc;
    b->n_current++; /* from here on a failure is the op's: see settle */
    return push_follow_up(t);
}

/* A batch of its own for an event that the engine plans: nothing may come between the plan and the event. */
static int stage_planned(struct ld_tenant *t, bool is_erasure)
{
    struct ld_batch *b = &t->batch;
    struct ld_entry next = {0};
    int rc;

    ld_batch_flush(t);
    ld_batch_commit_due(t);
    if (t->has_failed) {
        ld_op_lose(b->current);
        return LD_LOST;
    }
    if (kb_grow((void **)&b->entry, &b->cap, 2, 64, sizeof *b->entry) != 0)
        return KB_ENOMEM;
    rc = is_erasure ? kb_engine_begin_erasure(t->engine, &next.ev) : kb_engine_rebuild(t->engine, t->seq + 1, &next.ev);
    if (rc != KB_OK || next.ev.type == KB_EV_NONE)
        return rc;
    rc = push_entry(t, &next, NULL);
    b->n_current += rc == KB_OK;
    return rc;
}

int ld_batch_stage_rebuild(struct ld_tenant *t)
{
    return stage_planned(t, false);
}

int ld_batch_begin_erasure(struct ld_tenant *t)
{
    return stage_planned(t, true);
}

/* For observations and expiries, whose meaning does not depend on what the batch before does to the state. */
int ld_batch_stage_again(struct ld_tenant *t, const struct ld_entry *entry, struct kb_errmsg *msg)
{
    const int rc = ld_batch_stage(t, entry, msg);

    if (rc != KB_EBUSY)
        return rc;
    ld_batch_flush(t);
    return ld_batch_stage(t, entry, msg);
}
