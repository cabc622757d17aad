/* Memory: tenants that nobody needs are closed, the least used first, when all together are over the cap.
 *
 * A tenant is idle when the table's hold is the only one: no request works with it, nothing waits in its line, its
 * writer does not run, no build or erasure is under way. Holds are taken under the table's lock, so that what is idle
 * under the write lock stays so while its member says CLOSING. It gets a snapshot when its log is longer than the last
 * one, and its file is closed. Who asks for it meanwhile waits, and has it opened again by the same thread.
 *
 * A tenant that fails to commit stays: it is tried again by the timer (upkeep.c), and readiness asks about it. So does
 * one whose log has an open build, which a snapshot cannot hold. Windows of decisions are closed when the tenant is
 * next opened, so their deadlines do not bring it back.
 *
 * The cap is on the sum of what tenants say of themselves (ld_tenant_bytes). It is kept after each opening and by the
 * timer, not before memory is taken: tenants in use are never closed, and may be over it together. */
#include "base/log.h"
#include "base/metrics.h"
#include "tenants/registry_impl.h"
#include "tenant/sched.h"

/* The idle tenant that was used longest ago goes to CLOSING. NULL when there is none. O(tenants). */
static struct ld_member *take_least_used(struct ld_tenants *r, struct ld_tenant **t)
{
    struct ld_member *least = NULL;

    pthread_rwlock_wrlock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        struct ld_member *member = r->item[i];

        if (member->state == LD_TENANT_OPEN && (least == NULL || member->used_at < least->used_at) &&
            ld_tenant_is_idle(member->tenant))
            least = member;
    }
    if (least != NULL) {
        least->state = LD_TENANT_CLOSING;
        *t = least->tenant;
        least->tenant = NULL;
    }
    pthread_rwlock_unlock(&r->lock);
    return least;
}

/* Who has asked for it meanwhile gets it back; a removal is finished. */
void ld_member_settle_closed(struct ld_tenants *r, struct ld_member *member)
{
    struct ld_problem p;
    bool is_removed, is_wanted;

    pthread_rwlock_wrlock(&r->lock);
    is_removed = member->is_removed;
    is_wanted = member->first != NULL && !is_removed;
    member->state = LD_TENANT_CLOSED;
    if (is_wanted)
        ld_member_line_up(r, member);
    pthread_rwlock_unlock(&r->lock);
    if (is_wanted)
        while (ld_tenants_open_next(r))
            ;
    if (!is_removed)
        return;
    ld_problem_init(&p);
    ld_problem_no_more(&p, member->is_replaced);
    ld_tenant_waits_end(member->first, NULL, &p);
    ld_folder_remove(r->world->data_dir, member->name);
    ld_member_free(member);
}

static void close_one(struct ld_tenants *r, struct ld_member *member, struct ld_tenant *t)
{
    ld_log(LD_LOG_DEBUG, "tenant %s is closed to make room", member->name);
    atomic_fetch_add_explicit(&r->world->metrics->evictions, 1, memory_order_relaxed);
    ld_tenant_checkpoint(t);
    atomic_store(&member->tip, ld_tenant_tip(t));
    member->bucket_state = ld_bucket_state(ld_tenant_bucket(t));
    ld_tenant_release(t);
    ld_member_settle_closed(r, member);
}

static bool is_over_cap(struct ld_tenants *r)
{
    struct ld_tenants_counts counts;

    if (r->world->memory_cap == 0)
        return false;
    ld_tenants_count(r, &counts);
    return counts.bytes > r->world->memory_cap;
}

/* By one thread at a time; another that comes meanwhile leaves it to that one, or to the next tick. */
void ld_tenants_trim(struct ld_tenants *r)
{
    struct ld_member *member;
    struct ld_tenant *t;

    if (!is_over_cap(r) || atomic_exchange(&r->is_trimming, true))
        return;
    while (is_over_cap(r) && (member = take_least_used(r, &t)) != NULL)
        close_one(r, member, t);
    atomic_store(&r->is_trimming, false);
}

static void run_trim(void *arg)
{
    ld_tenants_trim(arg);
}

/* Closing is work for the pool. Without memory for the job the next tick asks again. */
void ld_tenants_tick(struct ld_tenants *r)
{
    atomic_fetch_add_explicit(&r->tick, 1, memory_order_relaxed);
    if (is_over_cap(r) && !atomic_load(&r->is_trimming))
        (void)ld_sched_give(r->world->sched, LD_POOL, run_trim, r, SIZE_MAX);
}
