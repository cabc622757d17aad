/* How events get into a batch: what must be committed before them, the quota, the engine's reserve, and what follows
 * from them (commit.c has the order of a commit). Where a commit comes first, other servers of a shared log may write
 * behind it; whoever stages is then told to look again. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "model/engine_write.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"

/* What the engine has made of the events from the first-th on has no row's extras but entry's own. */
static void keep_beside(struct ld_batch *b, size_t first, const struct ld_entry *entry)
{
    for (size_t i = first; i < b->commit.n; i++)
        b->beside[i] = (struct ld_beside){.answer = NULL};
    b->beside[first] =
        (struct ld_beside){.answer = entry->answer, .settings = entry->settings, .line = entry->line, .kept = NULL};
}

/* Adds entry, and what follows from it, to the batch. When the latter cannot be had the whole batch is lost. */
static int push_entry(struct ld_tenant *t, const struct ld_entry *entry, struct kb_errmsg *msg)
{
    struct ld_batch *b = t->batch;
    struct kb_commit *c = &b->commit;
    const enum kb_event_type type = entry->ev.type;
    const size_t n = c->n;

    if (n == 0)
        kb_commit_begin(c, t->engine, t->seq);
    if (kb_event_is_alone(type) || (kb_event_is_dictionary(&entry->ev) && entry->ev.as.dictionary.is_reset))
        atomic_store(&t->is_rebuilding, true);
    const enum kb_err rc = kb_commit_add(c, &entry->ev, t->now_ms, msg);
    if (rc == KB_OK) {
        keep_beside(b, n, entry);
        b->n_decided += type == KB_EV_DECIDED;
        return KB_OK;
    }
    if (!c->is_lost) {
        if (n == 0) /* whoever is told of the refusal may look at once */
            atomic_store(&t->is_rebuilding, false);
        return rc;
    }
    ld_log(LD_LOG_ERROR, "tenant %s: no dictionary change for event %llu: %s", t->name,
           (unsigned long long)(t->seq + n + 1), kb_strerror(rc));
    ld_batch_lose(t, n);
    return LD_LOST;
}

enum kb_err ld_batch_grow(struct ld_batch *b, size_t n)
{
    return kb_grow((void **)&b->beside, &b->cap, n, 64, sizeof *b->beside) == 0 ? KB_OK : KB_ENOMEM;
}

/* For one, and for what follows from it. */
static enum kb_err grow_beside(struct ld_batch *b)
{
    return ld_batch_grow(b, b->commit.n + 2);
}

/* Before new events: a dictionary reset, or the end of one that was begun; a change, where all servers know the line.
 * It is not urgent: when it cannot be had now, the next batch asks again. */
void ld_batch_commit_due(struct ld_tenant *t)
{
    struct ld_entry next = {0};

    if (t->world->shared != NULL && !ld_shared_begin(t))
        return;
    if (t->has_failed || grow_beside(t->batch) != KB_OK)
        return;
    const bool may_change = ld_shared_version(t) >= LD_LOG_VERSION_CHANGES;
    if (kb_engine_due(t->engine, t->seq + 1, may_change, &next.ev) != KB_OK || next.ev.type == KB_EV_NONE)
        return;
    if (push_entry(t, &next, NULL) == KB_OK)
        ld_batch_flush(t);
}

/* What must come before the event is committed. Whether others have written in between. */
static bool make_way(struct ld_tenant *t, const struct kb_event *ev)
{
    struct ld_batch *b = t->batch;
    const bool is_full = !kb_commit_takes(&b->commit, ev) || b->commit.n + 1 >= LD_BATCH_EVENTS;

    if (!is_full && b->commit.n > 0)
        return false;
    const uint64_t n_followed = t->shared.n_followed;
    if (is_full)
        ld_batch_flush(t);
    ld_batch_commit_due(t);
    return n_followed != t->shared.n_followed;
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

/* After a failed commit the turn stages nothing more: the disk would make every op wait as long as the first. */
int ld_batch_stage(struct ld_tenant *t, const struct ld_entry *entry, struct kb_errmsg *msg)
{
    struct ld_batch *b = t->batch;
    int rc;

    const bool is_moved = make_way(t, &entry->ev);
    if (t->has_failed) {
        if (b->current != NULL)
            ld_op_lose(b->current);
        return LD_LOST;
    }
    if (is_moved)
        return KB_EBUSY;
    if (grow_beside(b) != KB_OK)
        return KB_ENOMEM;
    if ((rc = check_quota(t, &entry->ev, msg)) != KB_OK || (rc = push_entry(t, entry, msg)) != KB_OK)
        return rc;
    b->n_current++; /* from here on a failure is the op's: see conclude */
    return KB_OK;
}

/* A batch of its own for an event that the engine plans: nothing may come between the plan and the event. */
static int stage_planned(struct ld_tenant *t, bool is_erasure)
{
    struct ld_batch *b = t->batch;
    struct ld_entry next = {0};
    int rc;

    ld_batch_flush(t);
    ld_batch_commit_due(t);
    if (t->has_failed) {
        ld_op_lose(b->current);
        return LD_LOST;
    }
    if (grow_beside(b) != KB_OK)
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

/* Without memory for it the commit is now. */
void ld_batch_remember(struct ld_tenant *t, const char *id)
{
    struct kb_ids *ids = &t->batch->ids;

    if (id == NULL || kb_ids_find(ids, id) != KB_ID_NONE)
        return;
    if (kb_ids_reserve(ids, 1, strlen(id) + 1) == KB_OK)
        (void)kb_ids_add(ids, id);
    else
        ld_batch_flush(t);
}

bool ld_batch_commit_id(struct ld_tenant *t, const char *id)
{
    return kb_ids_find(&t->batch->ids, id) == KB_ID_NONE || ld_batch_flush(t);
}
