/* Rates that an operator has set for tenants: rows of the registry, kept with the members and told to those in memory.
 * Where the log is shared it has them, and the registry what this server knows of them (registry_common.c). */
#include "tenants/registry_impl.h"

#include "base/clock.h"

/* The member's own, or the server's. Some lock held. */
static struct ld_rate in_force(const struct ld_tenants *r, const struct ld_member *member)
{
    const struct ld_rate server = {.rate = r->world->rate, .burst = r->world->burst};

    return ld_rate_with_burst(member->has_rate ? member->rate : server);
}

bool ld_tenants_get_rate(struct ld_tenants *r, const char *name, struct ld_rate *out, bool *is_own, double *fill)
{
    pthread_rwlock_rdlock(&r->lock);
    const struct ld_member *member = ld_member_find(r, name);
    if (member != NULL) {
        *out = in_force(r, member);
        *is_own = member->has_rate;
        *fill = ld_rate_fill(
            out, member->tenant != NULL ? ld_bucket_state(ld_tenant_bucket(member->tenant)) : member->bucket_state,
            ld_monotonic_ns());
    }
    pthread_rwlock_unlock(&r->lock);
    return member != NULL;
}

/* A tenant that is being opened reads its member's when it is put into it, under the lock. */
static void put(struct ld_tenants *r, const char *name, const struct ld_rate *own)
{
    pthread_rwlock_wrlock(&r->lock);
    struct ld_member *member = ld_member_find(r, name);
    if (member != NULL) {
        member->has_rate = own != NULL;
        member->rate = own != NULL ? *own : (struct ld_rate){.rate = 0};
        if (member->tenant != NULL)
            ld_tenant_set_rate(member->tenant, own);
    }
    pthread_rwlock_unlock(&r->lock);
}

bool ld_rate_take_over(struct ld_tenants *r, const char *name, const struct ld_rate *own)
{
    const bool is_written = ld_registry_set_rate(r->file, name, own) == LD_STORE_OK;

    if (is_written)
        put(r, name, own);
    return is_written;
}

/* Beside creations and removals one at a time, so that the row that is changed is that of the tenant that was found. */
void ld_tenants_set_rate(struct ld_tenants *r, const char *name, const struct ld_rate *own, struct ld_problem *p)
{
    pthread_mutex_lock(&r->change_lock);
    if (r->nodes != NULL)
        ld_nodes_set_rate(r, name, own, p);
    else if (!ld_tenants_has(r, name))
        ld_problem_no_tenant(p, name);
    if (p->status == 0 && !ld_rate_take_over(r, name, own))
        ld_problem_set(p, 503, "the registry cannot be written");
    pthread_mutex_unlock(&r->change_lock);
}

static int take_over(void *arg, const char *name, const struct ld_rate *own)
{
    put(arg, name, own);
    return 0;
}

int ld_tenants_read_rates(struct ld_tenants *r)
{
    return ld_registry_rates(r->file, take_over, r);
}
