/* What one server of a shared log does for all of a tenant: follow its challengers (task/challenger.h), and compact a
 * log whose configuration has `retention` (task/retain.c). Which one is a row of the log: it renews the row every two
 * seconds and says in it what it has found; where it has been silent for ten, the first that asks takes over. A server
 * that was silent and goes on learns it at its next renewal; until then two do the same work, which is told twice and
 * done once: a promotion is judged in the tenant's turn.
 *
 * A few rows a question at most, so that the question is not held up. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "shared/shared_log.h"
#include "task/challenger.h"
#include "tenants/registry_impl.h"

#define RENEW_US 2000000
#define MOST_AT_ONCE 4

/* The next tenant in memory that is due, held; NULL: there is none. Some lock is taken here. */
static struct ld_tenant *find_due(struct ld_tenants *r, int64_t now, uint64_t *id)
{
    struct ld_tenant *t = NULL;

    pthread_rwlock_rdlock(&r->lock);
    for (size_t i = 0; i < r->n && t == NULL; i++) {
        struct ld_member *member = r->item[i];

        if (member->state != LD_TENANT_OPEN || member->shared_id == 0 || member->held_us > now ||
            !ld_tenant_has_held_work(member->tenant))
            continue;
        member->held_us = now + RENEW_US;
        *id = member->shared_id;
        t = ld_tenant_hold(member->tenant);
    }
    pthread_rwlock_unlock(&r->lock);
    return t;
}

static void renew(struct ld_tenants *r, struct ld_tenant *t, uint64_t id)
{
    const bool was_held = ld_tenant_is_held(t);
    struct ld_message why;
    size_t n;
    const struct ld_challengers_telling how = {.node = r->world->node, .is_hurried = true};
    char *view = was_held ? ld_challengers_text(t, &how, &n) : NULL;
    const enum ld_shared_rc rc = ld_nodes_ops(r)->hold(r->world->shared, id, view, &why);

    free(view);
    if (rc != LD_SHARED_OK && rc != LD_SHARED_BEHIND)
        return;
    ld_tenant_set_held(t, rc == LD_SHARED_OK);
    if (was_held != (rc == LD_SHARED_OK))
        ld_log(LD_LOG_INFO,
               rc == LD_SHARED_OK ? "tenant %s: this server follows its challengers, and compacts its log"
                                  : "tenant %s: another server follows its challengers, and compacts its log",
               ld_tenant_name(t));
}

void ld_tenants_hold_work(struct ld_tenants *r)
{
    const int64_t now = ld_monotonic_us();
    struct ld_tenant *t = NULL;
    uint64_t id;

    for (int i = 0; i < MOST_AT_ONCE && (t = find_due(r, now, &id)) != NULL; i++) {
        renew(r, t, id);
        ld_tenant_release(t);
    }
}
