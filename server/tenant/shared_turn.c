/* A tenant whose log several servers write (shared_log.h). */
#include "shared/shared_log.h"

#include "tenant/tenant_impl.h"

void ld_tenant_follow(struct ld_tenant *t)
{
    if (t->world->shared == NULL)
        return;
    atomic_store(&t->shared.is_asked, true);
    ld_sched_wake(t->world->sched, &t->turn);
}

void ld_tenant_shared(const struct ld_tenant *t, struct ld_tenant_shared *out)
{
    *out = (struct ld_tenant_shared){.id = t->shared.id,
                                     .seq = atomic_load(&t->tip),
                                     .is_forked = atomic_load(&t->shared.is_forked),
                                     .is_followed = atomic_load(&t->shared.is_followed)};
}
