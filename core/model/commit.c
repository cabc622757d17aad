/* See commit.h. What readers wait for: the lock is held once for up to LIGHT_RUN events that only keep books (a lock
 * taken in turn with readers costs more than they do), and once for each event that teaches. Prepare runs without it,
 * except inside a run of light events, where there is nothing to prepare. */
#include "model/commit.h"

#include "base/alloc.h"
#include "model/engine_background.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"

#define LIGHT_RUN 64u
#define FIRST_CAP 4u

static const struct kb_commit_hooks no_hooks;

void kb_commit_begin(struct kb_commit *c, struct kb_engine *engine, uint64_t seq)
{
    c->engine = engine;
    c->seq = seq;
}

void kb_commit_free(struct kb_commit *c)
{
    kb_free(c->event);
    *c = (struct kb_commit){.engine = NULL};
}

bool kb_event_is_alone(enum kb_event_type type)
{
    return type == KB_EV_CONFIGURED || type == KB_EV_GRAPH || type == KB_EV_ARMS || type == KB_EV_FORGOTTEN;
}

bool kb_commit_takes(const struct kb_commit *c, const struct kb_event *ev)
{
    return !c->is_closed && (c->n == 0 || !kb_event_is_alone(ev->type));
}

/* ---- add --------------------------------------------------------------------------------------------------- */

static bool is_numbered(const struct kb_event *ev)
{
    return ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN;
}

static uint64_t next_seq(const struct kb_commit *c)
{
    return (c->n > 0 ? c->event[c->n - 1].seq : c->seq) + 1;
}

/* Reserves ev behind the others; there is room. */
static enum kb_err push(struct kb_commit *c, const struct kb_event *ev, int64_t at_ms, struct kb_errmsg *msg)
{
    struct kb_event *next = &c->event[c->n];

    *next = *ev;
    if (!is_numbered(ev))
        next->seq = next_seq(c);
    next->at_ms = at_ms;
    const enum kb_err rc = kb_engine_reserve(c->engine, next, msg);
    if (rc != KB_OK)
        return rc;
    c->n++;
    c->is_closed |= kb_event_is_alone(ev->type) || kb_event_is_dictionary(ev);
    return KB_OK;
}

/* Room for two is made before anything is reserved, so that a follow-up never fails for want of it. */
enum kb_err kb_commit_add(struct kb_commit *c, const struct kb_event *ev, int64_t at_ms, struct kb_errmsg *msg)
{
    struct kb_event next = {.type = KB_EV_NONE};
    enum kb_err rc;

    c->is_lost = false;
    if (kb_grow((void **)&c->event, &c->cap, c->n + 2, FIRST_CAP, sizeof *c->event) != KB_OK)
        return KB_ENOMEM;
    rc = push(c, ev, at_ms, msg);
    if (rc != KB_OK || kb_event_is_dictionary(ev))
        return rc;
    rc = kb_engine_follow_up(c->engine, &c->event[c->n - 1], &next);
    if (rc == KB_OK && next.type != KB_EV_NONE)
        rc = push(c, &next, at_ms, msg);
    if (rc != KB_OK) {
        kb_commit_drop(c);
        c->is_lost = true;
    }
    return rc;
}

enum kb_err kb_commit_follow(struct kb_commit *c, const struct kb_event *ev, struct kb_errmsg *msg)
{
    if (!is_numbered(ev) && ev->seq != next_seq(c))
        return kb_fail(KB_ECONFLICT, msg, "/seq", "event %llu is the next, and not %llu",
                       (unsigned long long)next_seq(c), (unsigned long long)ev->seq);
    if (kb_grow((void **)&c->event, &c->cap, c->n + 1, FIRST_CAP, sizeof *c->event) != KB_OK)
        return KB_ENOMEM;
    return push(c, ev, ev->at_ms, msg);
}

/* ---- run --------------------------------------------------------------------------------------------------- */

static void lock(const struct kb_commit_hooks *h, bool is_unseen)
{
    if (h->lock != NULL)
        h->lock(h->arg, is_unseen);
}

static void unlock(const struct kb_commit_hooks *h)
{
    if (h->unlock != NULL)
        h->unlock(h->arg);
}

/* What has grown beside readers is put in place; they are kept out only when there is any. */
static void swap_grown(struct kb_commit *c, const struct kb_commit_hooks *h)
{
    if (!kb_engine_has_grown(c->engine))
        return;
    lock(h, false);
    kb_engine_swap(c->engine);
    unlock(h);
}

static void apply_one(struct kb_commit *c, const struct kb_commit_hooks *h, size_t i)
{
    kb_engine_apply(c->engine, &c->event[i]);
    c->seq = c->event[i].seq;
    if (h->applied != NULL)
        h->applied(h->arg, i, &c->event[i]);
}

/* Event i, and those behind it that go under the same lock; one after the last. */
static size_t apply_run(struct kb_commit *c, const struct kb_commit_hooks *h, size_t i)
{
    const size_t first = i;
    const struct kb_event *ev = c->event;
    const bool is_unseen = h->lock != NULL && kb_engine_is_unseen(c->engine, &ev[i]);

    kb_engine_prepare(c->engine, &ev[i]);
    lock(h, is_unseen);
    apply_one(c, h, i++);
    while (kb_event_is_light(&ev[i - 1]) && i < c->n && kb_event_is_light(&ev[i]) && i - first < LIGHT_RUN &&
           (!is_unseen || kb_engine_is_unseen(c->engine, &ev[i]))) {
        kb_engine_prepare(c->engine, &ev[i]);
        apply_one(c, h, i++);
    }
    unlock(h);
    return i;
}

static void forget(struct kb_commit *c)
{
    c->n = 0;
    c->is_closed = false;
}

/* Events are applied in the order of the log: the next prepare may rest on this apply. */
enum kb_err kb_commit_run(struct kb_commit *c, const struct kb_commit_hooks *hooks)
{
    const struct kb_commit_hooks *h = hooks != NULL ? hooks : &no_hooks;
    enum kb_err rc = kb_engine_grow(c->engine);

    if (rc == KB_OK && h->append != NULL)
        rc = h->append(h->arg, c->event, c->n);
    if (rc != KB_OK) {
        kb_commit_drop(c);
        return rc;
    }
    swap_grown(c, h);
    for (size_t i = 0; i < c->n;)
        i = apply_run(c, h, i);
    kb_engine_collect(c->engine);
    forget(c);
    return KB_OK;
}

enum kb_err kb_commit_one(struct kb_commit *c, const struct kb_event *ev, int64_t at_ms,
                          const struct kb_commit_hooks *hooks, struct kb_errmsg *msg)
{
    const enum kb_err rc = kb_commit_add(c, ev, at_ms, msg);

    return rc == KB_OK ? kb_commit_run(c, hooks) : rc;
}

enum kb_err kb_commit_due(struct kb_commit *c, int64_t at_ms, const struct kb_commit_hooks *hooks,
                          struct kb_errmsg *msg)
{
    struct kb_event next = {.type = KB_EV_NONE};
    const enum kb_err rc = c->seq > 0 ? kb_engine_due(c->engine, c->seq + 1, true, &next) : KB_OK;

    return rc == KB_OK && next.type != KB_EV_NONE ? kb_commit_one(c, &next, at_ms, hooks, msg) : rc;
}

static enum kb_err run_build(struct kb_commit *c, struct kb_build *b, const struct kb_commit_hooks *h)
{
    const enum kb_err rc = h->build != NULL ? h->build(h->arg, b) : kb_build_run(b);

    kb_engine_return_build(c->engine, b);
    return rc;
}

enum kb_err kb_commit_finish_builds(struct kb_commit *c, int64_t at_ms, const struct kb_commit_hooks *hooks,
                                    struct kb_errmsg *msg)
{
    const struct kb_commit_hooks *h = hooks != NULL ? hooks : &no_hooks;
    enum kb_err rc = KB_OK;

    while (rc == KB_OK && kb_engine_is_building(c->engine)) {
        struct kb_build *b = kb_engine_lend_build(c->engine);

        rc = b != NULL ? run_build(c, b, h) : kb_commit_due(c, at_ms, h, msg);
    }
    return rc;
}

void kb_commit_drop(struct kb_commit *c)
{
    if (c->n > 0)
        kb_engine_rollback(c->engine);
    forget(c);
}

enum kb_err kb_commit_settle(struct kb_engine *e, const struct kb_commit_hooks *hooks)
{
    const struct kb_commit_hooks *h = hooks != NULL ? hooks : &no_hooks;
    const enum kb_err rc = kb_engine_settle(e);

    if (!kb_engine_has_settled(e))
        return rc;
    lock(h, false);
    kb_engine_publish(e);
    unlock(h);
    kb_engine_collect(e);
    return rc;
}

enum kb_err kb_engine_fold(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    enum kb_err rc = kb_engine_reserve(e, ev, msg);

    if (rc == KB_OK)
        rc = kb_engine_grow(e);
    if (rc != KB_OK) {
        kb_engine_rollback(e);
        return rc;
    }
    kb_engine_swap(e);
    kb_engine_prepare(e, ev);
    kb_engine_apply(e, ev);
    kb_engine_collect(e);
    return KB_OK;
}
