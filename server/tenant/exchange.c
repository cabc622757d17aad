/* Another engine in the place of the one that serves: behind lines that were rewritten. The snapshot of the old one
 * goes first, since it holds what the log does not have any more. */
#include <stdio.h>
#include <unistd.h>

#include "store/sqlite_util.h"
#include "tenant/tenant_impl.h"

/* And what a process that died while it wrote one has left of it. Synced: a power cut must not bring either back. */
bool ld_tenant_remove_snapshot(const struct ld_tenant *t)
{
    char unfinished[LD_PATH_MAX + 8];

    snprintf(unfinished, sizeof unfinished, "%s.tmp", t->snapshot_path);
    unlink(unfinished);
    unlink(t->snapshot_path);
    return access(t->snapshot_path, F_OK) != 0 && access(unfinished, F_OK) != 0 &&
           ld_sync_directory_of(t->snapshot_path) == 0;
}

/* Vectors that were decoded for other dimensions are found out by the epoch. */
void ld_tenant_follow_settings(struct ld_tenant *t, const struct ld_settings *settings)
{
    if (settings->spec.context_dim != t->settings.spec.context_dim ||
        settings->spec.arm_dim != t->settings.spec.arm_dim ||
        !ld_name_map_is_same(&settings->features, &t->settings.features))
        t->dims_epoch++;
    t->settings = *settings;
}

/* Readers meet the old engine before and the new one after. */
void ld_tenant_exchange(struct ld_tenant *t, struct kb_engine **engine, const struct ld_settings *settings,
                        uint64_t seq)
{
    struct kb_engine_counts counts;
    struct kb_engine *old = t->engine;

    kb_engine_set_inline_work(*engine, t->world->inline_work);
    ld_tenant_write_lock(t);
    t->engine = *engine;
    if (settings != NULL)
        ld_tenant_follow_settings(t, settings);
    t->seq = seq;
    t->arms_epoch++;
    t->engine_epoch++;
    ld_tenant_write_unlock(t);
    *engine = old;
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    t->snapshot_seq = 0; /* there is none */
    t->n_rewrites++;
}
