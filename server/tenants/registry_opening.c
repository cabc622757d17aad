/* Opening tenants at their first use.
 *
 * Opening folds the end of a log, or all of it: milliseconds or minutes. So members that are asked for stand in a line,
 * and a few jobs of the pool take from it: never all of the pool's threads, which other requests need, too.
 * Whoever asks in a thread of the pool (ld_tenants_get) works at the line as well instead of waiting for it, so that a
 * pool full of those who ask still moves. All who ask for one tenant wait for one opening.
 *
 * Decisions whose window closed while the tenant was not in memory are closed right behind the opening: that op stands
 * in the tenant's line before those of whoever waited, so a reward that comes too late is too late.
 *
 * An opening that fails answers all who wait with the reason. The next try is a second later at the earliest, and ten
 * times as long as the failed one took: a log whose millionth line is damaged does not keep a thread for itself. What
 * may pass (the disk, memory) is a 503; a damaged file, one of somebody else's or of a later version is a 500, since
 * asking again does not help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "tenant/recover.h"
#include "tenants/registry_impl.h"
#include "tenant/sched.h"

#define MAX_OPENERS 2 /* the pool has four threads or more */
#define RETRY_US 1000000
#define RETRY_FACTOR 10

/* ---- answers ---------------------------------------------------------------------------------------- */

/* t is held by the caller, and for each who waits once more. */
void ld_tenant_waits_end(struct ld_tenant_wait *first, struct ld_tenant *t, const struct ld_problem *p)
{
    while (first != NULL) {
        struct ld_tenant_wait *next = first->next; /* done may free it */

        first->done(first, t != NULL ? ld_tenant_hold(t) : NULL, p);
        first = next;
    }
}

static void set_stopping(struct ld_problem *p)
{
    ld_problem_set(p, 503, "the server is stopping");
    p->retry_after_s = 1;
}

static void set_failure(struct ld_problem *p, const char *name, int failure, const char *why)
{
    const bool may_pass = failure == LD_STORE_IO || failure == LD_STORE_NOMEM;

    why = why != NULL ? why : "out of memory";
    if (may_pass)
        ld_problem_set(p, 503, "tenant \"%s\" cannot be opened: %.400s", name, why);
    else
        ld_problem_set_as(p, LD_OPENING_FAILED, "tenant \"%s\" cannot be opened: %.400s", name, why);
}

/* How long it has to wait still nobody knows: as a rule, a moment. */
static void set_crowded(struct ld_tenants *r, struct ld_problem *p, const struct ld_member *member)
{
    ld_problem_set(p, 503, "too many requests wait for tenant \"%s\" to be opened", member->name);
    ld_problem_limit(p, "opening", (double)r->world->max_opening);
    ld_count(&r->world->metrics->limited[LD_LIMITED_OPENING], 1);
}

/* ---- the line (lock held for writing) ----------------------------------------------------------------- */

void ld_member_line_up(struct ld_tenants *r, struct ld_member *member)
{
    member->state = LD_TENANT_WAITING;
    member->next = NULL;
    if (r->head == NULL)
        r->head = member;
    else
        r->tail->next = member;
    r->tail = member;
}

/* O(line). Who waits is the caller's to tell. */
void ld_member_step_out(struct ld_tenants *r, struct ld_member *member)
{
    struct ld_member *before = NULL;

    for (struct ld_member *p = r->head; p != member; p = p->next)
        before = p;
    if (before == NULL)
        r->head = member->next;
    else
        before->next = member->next;
    if (r->tail == member)
        r->tail = before;
    member->state = LD_TENANT_CLOSED;
}

/* ---- opening ------------------------------------------------------------------------------------------ */

/* What the member remembers of an opening; still this thread's. A line in the log for each new reason: the same one
 * again is no news. */
static void note(struct ld_tenants *r, struct ld_member *member, int rc, const char *why, int64_t took_us)
{
    struct ld_metrics *m = r->world->metrics;

    ld_histogram_add(&m->open_time, took_us);
    if (rc == LD_STORE_OK) {
        atomic_fetch_add_explicit(&m->opens, 1, memory_order_relaxed);
        free(member->why);
        member->why = NULL;
        return;
    }
    atomic_fetch_add_explicit(&m->open_failures, 1, memory_order_relaxed);
    if (rc != LD_STORE_STOPPED && (member->why == NULL || strcmp(member->why, why) != 0))
        ld_log(LD_LOG_ERROR, "tenant %s cannot be opened: %s", member->name, why);
    free(member->why);
    member->why = strdup(why);
    member->failure = rc;
    member->retry_us = ld_monotonic_us() + (RETRY_FACTOR * took_us > RETRY_US ? RETRY_FACTOR * took_us : RETRY_US);
}

/* It was deleted while it was opened: the files are this thread's to remove. */
static void drop_removed(struct ld_tenants *r, struct ld_member *member, struct ld_tenant *t)
{
    if (t != NULL)
        ld_tenant_doom(t);
    else
        ld_folder_remove(r->world->data_dir, member->name);
    ld_tenant_release(t);
    ld_member_free(member);
}

/* Puts what came of it into the member, and tells who waited. While the server stops they are told that, since their
 * connections may be gone. */
static void settle(struct ld_tenants *r, struct ld_member *member, struct ld_tenant *t, int rc, const char *why,
                   int64_t took_us)
{
    struct ld_tenant_wait *first;
    struct ld_problem p;
    bool is_removed, is_halting;

    ld_problem_init(&p);
    note(r, member, rc, why, took_us);
    pthread_rwlock_wrlock(&r->lock);
    first = member->first;
    member->first = member->last = NULL;
    member->n_waiting = 0;
    is_removed = member->is_removed;
    is_halting = r->is_halting;
    if (is_removed)
        ld_problem_no_more(&p, member->is_replaced);
    else if (is_halting)
        set_stopping(&p);
    else if (t == NULL)
        set_failure(&p, member->name, rc, why);
    if (!is_removed) {
        member->state = t != NULL ? LD_TENANT_OPEN : LD_TENANT_FAILED;
        member->tenant = t != NULL ? ld_tenant_hold(t) : NULL;
        if (t != NULL && member->has_rate)
            ld_tenant_set_rate(t, &member->rate);
        ld_member_use(r, member);
    }
    pthread_rwlock_unlock(&r->lock);
    if (t != NULL && is_halting) /* too late for ld_tenants_halt to see it */
        ld_tenant_halt(t);
    ld_tenant_waits_end(first, p.status == 0 ? t : NULL, &p);
    if (is_removed)
        drop_removed(r, member, t);
    else
        ld_tenant_release(t);
}

static struct ld_member *take_first(struct ld_tenants *r)
{
    struct ld_member *member;

    pthread_rwlock_wrlock(&r->lock);
    member = r->head;
    if (member != NULL) {
        ld_member_step_out(r, member);
        member->state = LD_TENANT_OPENING;
    }
    pthread_rwlock_unlock(&r->lock);
    return member;
}

/* The shared log has no such tenant: it was deleted while this server was down, or is none of that log. Its file is not
 * ours to remove, since a log can be the wrong one. */
static void forget(struct ld_tenants *r, struct ld_member *member, const char *why)
{
    struct ld_tenant_wait *first;
    struct ld_problem p;

    ld_problem_init(&p);
    ld_log(LD_LOG_WARN, "tenant %s is not served any more: %s", member->name, why);
    pthread_mutex_lock(&r->change_lock);
    pthread_rwlock_wrlock(&r->lock);
    const bool is_removed = member->is_removed;
    ld_problem_no_more(&p, member->is_replaced);
    first = member->first;
    if (!is_removed)
        ld_member_take_out(r, member);
    pthread_rwlock_unlock(&r->lock);
    if (!is_removed)
        (void)ld_registry_remove(r->file, member->name); /* else the next opening tries it again */
    pthread_mutex_unlock(&r->change_lock);
    ld_tenant_waits_end(first, NULL, &p);
    if (is_removed)
        ld_folder_remove(r->world->data_dir, member->name);
    ld_member_free(member);
}

bool ld_tenants_open_next(struct ld_tenants *r)
{
    struct ld_member *member = take_first(r);
    struct ld_tenant *t = NULL;
    struct ld_message why = {""};

    if (member == NULL)
        return false;
    const int64_t start_us = ld_monotonic_us();
    const int rc = ld_tenant_open(&t, r->world, member->name, NULL, &why);
    if (rc == LD_STORE_GONE) {
        forget(r, member, why.text);
        return true;
    }
    if (rc == LD_STORE_OK)
        ld_bucket_restore(ld_tenant_bucket(t), member->bucket_state);
    if (rc == LD_STORE_OK)
        ld_tenant_tick(t, r->world->now_ms());
    settle(r, member, t, rc, why.text, ld_monotonic_us() - start_us);
    ld_tenants_trim(r);
    return true;
}

/* ---- openers ------------------------------------------------------------------------------------------ */

/* Whether the job goes on: the line and the count of those who work at it change together, so that no member is left
 * behind by the last of them. */
static bool has_line(struct ld_tenants *r)
{
    bool is_there;

    pthread_rwlock_wrlock(&r->lock);
    is_there = r->head != NULL;
    r->n_openers -= !is_there;
    pthread_rwlock_unlock(&r->lock);
    return is_there;
}

/* On the pool. */
static void run_opener(void *arg)
{
    struct ld_tenants *r = arg;

    while (has_line(r))
        ld_tenants_open_next(r);
}

/* Without memory for a job the line is worked off right here, if nobody else does: slow, and better than never. */
static void start_opener(struct ld_tenants *r)
{
    bool is_needed;

    pthread_rwlock_wrlock(&r->lock);
    is_needed = r->head != NULL && r->n_openers < MAX_OPENERS;
    r->n_openers += is_needed;
    pthread_rwlock_unlock(&r->lock);
    if (is_needed && ld_sched_give(r->world->sched, LD_POOL, run_opener, r, SIZE_MAX) != 0)
        run_opener(r);
}

/* ---- asking ------------------------------------------------------------------------------------------- */

/* Lock held for writing. The tenant, held; or NULL: p tells why not, or, with no status, wait stands with those who are
 * to be told. */
static struct ld_tenant *ask(struct ld_tenants *r, struct ld_member *member, struct ld_tenant_wait *wait,
                             struct ld_problem *p)
{
    ld_member_use(r, member);
    if (member->state == LD_TENANT_OPEN)
        return ld_tenant_hold(member->tenant);
    if (r->is_halting) {
        set_stopping(p);
        return NULL;
    }
    if (member->state == LD_TENANT_FAILED && ld_monotonic_us() < member->retry_us) {
        set_failure(p, member->name, member->failure, member->why);
        return NULL;
    }
    if (r->world->max_opening > 0 && member->n_waiting >= r->world->max_opening) {
        set_crowded(r, p, member);
        return NULL;
    }
    wait->next = NULL;
    member->n_waiting++;
    if (member->first == NULL)
        member->first = wait;
    else
        member->last->next = wait;
    member->last = wait;
    if (member->state == LD_TENANT_CLOSED || member->state == LD_TENANT_FAILED)
        ld_member_line_up(r, member);
    return NULL;
}

bool ld_tenants_await_known(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait)
{
    struct ld_tenant *t = NULL;
    struct ld_problem p;

    ld_problem_init(&p);
    pthread_rwlock_wrlock(&r->lock);
    struct ld_member *member = ld_member_find(r, name);
    if (member != NULL)
        t = ask(r, member, wait, &p);
    pthread_rwlock_unlock(&r->lock);
    if (member == NULL)
        return false;
    if (t != NULL || p.status != 0)
        wait->done(wait, t, &p);
    else
        start_opener(r);
    return true;
}

bool ld_tenants_await(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait)
{
    if (ld_tenants_await_known(r, name, wait))
        return true;
    if (r->nodes == NULL || !ld_tenant_name_is_valid(name))
        return false;
    ld_nodes_await(r, name, wait);
    return true;
}

/* A thread that waits for a tenant itself. */
struct waiter {
    struct ld_tenant_wait wait;
    pthread_mutex_t lock;
    pthread_cond_t has_ended;
    bool is_over;
    struct ld_tenant *t;
    struct ld_problem *p;
};

static void end_wait(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct waiter *w = (struct waiter *)(void *)wait;

    pthread_mutex_lock(&w->lock);
    w->t = t;
    if (t == NULL)
        *w->p = *p;
    w->is_over = true;
    pthread_cond_signal(&w->has_ended);
    pthread_mutex_unlock(&w->lock);
}

static bool is_over(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    const bool over = w->is_over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

/* Works at the line until the tenant is there, or another thread has it in hands: that one ends by itself. */
static void wait_here(struct ld_tenants *r, struct waiter *w)
{
    while (!is_over(w) && ld_tenants_open_next(r))
        ;
    pthread_mutex_lock(&w->lock);
    while (!w->is_over)
        pthread_cond_wait(&w->has_ended, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

struct ld_tenant *ld_tenants_get(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct ld_tenant *t = ld_tenants_find_open(r, name);
    struct waiter w = {.wait = {.done = end_wait}, .p = p};

    if (t != NULL)
        return t;
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.has_ended, NULL);
    if (ld_tenants_await(r, name, &w.wait))
        wait_here(r, &w);
    else
        ld_problem_no_tenant(p, name);
    pthread_cond_destroy(&w.has_ended);
    pthread_mutex_destroy(&w.lock);
    return w.t;
}

struct ld_tenant *ld_tenants_find(struct ld_tenants *r, const char *name)
{
    struct ld_problem p;

    ld_problem_init(&p);
    return ld_tenants_get(r, name, &p);
}

/* ---- the end ------------------------------------------------------------------------------------------ */

static void halt_tenant(void *arg, struct ld_tenant *t)
{
    (void)arg;
    ld_tenant_halt(t);
}

/* Openings under way end by themselves; who waits for them is told then. */
void ld_tenants_halt(struct ld_tenants *r)
{
    struct ld_problem p;

    ld_problem_init(&p);
    set_stopping(&p);
    if (r->world->progress != NULL)
        atomic_store(&r->world->progress->is_stopping, true);
    pthread_rwlock_wrlock(&r->lock);
    r->is_halting = true;
    while (r->head != NULL) {
        struct ld_member *member = r->head;
        struct ld_tenant_wait *first = member->first;

        ld_member_step_out(r, member);
        member->first = member->last = NULL;
        member->n_waiting = 0;
        pthread_rwlock_unlock(&r->lock);
        ld_tenant_waits_end(first, NULL, &p);
        pthread_rwlock_wrlock(&r->lock);
    }
    pthread_rwlock_unlock(&r->lock);
    if (r->nodes != NULL)
        ld_nodes_halt(r);
    ld_tenants_each(r, halt_tenant, NULL);
}
