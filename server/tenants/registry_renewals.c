/* Lines of a shared log that were rewritten (a user was erased): when this server has nothing left of what they were.
 *
 * A tenant in memory is renewed by its writer (shared_renew.c). One that is closed would keep its old copy for as long
 * as nobody asks for it; its files are removed, and the next use reads the log, as it would have to fold it. The copy
 * of one that is read-only is renewed in its place: the log may have a line that no copy takes, and what is here is all
 * that this server can serve. When no copy is left that lacks a rewriting, the log is told so, and whoever erased is
 * answered. */
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "shared/shared_log.h"
#include "store/folder.h"
#include "tenants/registry_impl.h"

#define RETRY_US 1000000
#define RETRY_FACTOR 10

static bool is_read_only(const struct ld_tenants *r, const char *name)
{
    char path[LD_PATH_MAX];

    return ld_folder_path(r->world->data_dir, name, LD_READ_ONLY_SUFFIX, path) == 0 && access(path, F_OK) == 0;
}

/* One that cannot be renewed now is tried again after a pause: it is the whole log that is read. */
static bool renew_copy(struct ld_tenants *r, struct ld_member *member, uint64_t generation)
{
    const int64_t start_us = ld_monotonic_us();
    const bool is_renewed = ld_tenant_renew_closed(r->world, member->name) >= generation;
    const int64_t pause_us = RETRY_FACTOR * (ld_monotonic_us() - start_us);

    member->renew_us = is_renewed ? 0 : ld_monotonic_us() + (pause_us > RETRY_US ? pause_us : RETRY_US);
    return is_renewed;
}

/* The member's files are this thread's. False: they cannot be read, and may have what is to go. */
static bool remove_old(struct ld_tenants *r, struct ld_member *member, uint64_t id, uint64_t generation)
{
    char path[LD_PATH_MAX];
    struct ld_copy_mark mark = {.tenant = 0};
    struct ld_message why;
    bool is_empty = true;

    if (ld_folder_path(r->world->data_dir, member->name, ".db", path) != 0)
        return false;
    if (access(path, F_OK) != 0)
        return true;
    if (ld_tenants_look_at_copy(r, member->name, &mark, &is_empty, &why) != LD_STORE_OK)
        return false;
    if (mark.tenant != id || mark.generation >= generation)
        return true;
    if (is_read_only(r, member->name))
        return renew_copy(r, member, generation);
    ld_folder_remove_copy(r->world->data_dir, member->name);
    ld_log(LD_LOG_INFO, "tenant %s: its copy is removed: lines of the shared log were rewritten", member->name);
    return access(path, F_OK) != 0;
}

/* Lock held for writing. One that is read-only reads nothing: it is closed, and what keeps it so is looked at when it
 * is opened again (ld_shared_is_mended). */
static bool may_take(const struct ld_member *member)
{
    const char *fault;

    return member->state == LD_TENANT_CLOSED || member->state == LD_TENANT_FAILED ||
           (member->state == LD_TENANT_OPEN && ld_tenant_read_only(member->tenant, &fault) > 0 &&
            ld_tenant_is_idle(member->tenant));
}

/* A member that is not in memory any more, taken out of everybody's hands; NULL: another is at work on it. */
static struct ld_member *take_closed(struct ld_tenants *r, const char *name)
{
    struct ld_tenant *t = NULL;

    pthread_rwlock_wrlock(&r->lock);
    struct ld_member *member = ld_member_find(r, name);
    if (member != NULL && may_take(member) && ld_monotonic_us() >= member->renew_us) {
        t = member->tenant;
        member->tenant = NULL;
        member->state = LD_TENANT_CLOSING;
        member->retry_us = 0; /* it may have failed by what was rewritten */
    } else {
        member = NULL;
    }
    pthread_rwlock_unlock(&r->lock);
    if (t != NULL)
        member->bucket_state = ld_bucket_state(ld_tenant_bucket(t));
    ld_tenant_release(t);
    return member;
}

/* Whether the member needs no look at its files. */
static bool is_known_to_be_renewed(struct ld_tenants *r, const char *name, uint64_t id, uint64_t generation)
{
    struct ld_tenant_shared place = {.id = 0};
    bool is_so = true;

    pthread_rwlock_rdlock(&r->lock);
    const struct ld_member *member = ld_member_find(r, name);
    if (member != NULL && member->state == LD_TENANT_OPEN) {
        ld_tenant_shared(member->tenant, &place);
        is_so = place.id != id || place.generation >= generation;
        if (!is_so)
            ld_tenant_follow(member->tenant);
    } else if (member != NULL) {
        is_so = member->generation >= generation;
    }
    pthread_rwlock_unlock(&r->lock);
    return is_so;
}

bool ld_member_renew(struct ld_tenants *r, const char *name, uint64_t id, uint64_t generation)
{
    if (is_known_to_be_renewed(r, name, id, generation))
        return true;
    struct ld_member *member = take_closed(r, name);
    if (member == NULL)
        return false;
    const bool is_renewed = remove_old(r, member, id, generation);
    if (is_renewed)
        member->generation = generation;
    ld_member_settle_closed(r, member);
    return is_renewed;
}

void ld_nodes_report(struct ld_tenants *r, uint64_t generation, size_t n_old)
{
    struct ld_message why;

    ld_gauge_set(&r->world->metrics->shared.generation_lag, n_old);
    if (n_old == 0 && generation != r->nodes->reported &&
        ld_nodes_ops(r)->report(r->world->shared, generation, &why) == LD_SHARED_OK)
        r->nodes->reported = generation;
}
