/* What the files of a tenant's life, its locks and its upkeep do for its writer. Its structure is tenant_state.h. */
#ifndef LD_TENANT_IMPL_H
#define LD_TENANT_IMPL_H

#include <stdbool.h>

#include "tenant/tenant_state.h"

struct kb_engine_counts;

/* tenant.c: memory, locks and paths; no file is touched. The caller has the first hold. NULL: no memory, or a path that
 * does not fit. */
struct ld_tenant *ld_tenant_new(const struct ld_world *world, const char *name);

/* tenant.c: what changes what readers see, by the writer. How long it lasts is counted. */
void ld_tenant_write_lock(struct ld_tenant *t);
void ld_tenant_write_unlock(struct ld_tenant *t);
/* The same for what decisions do not look at (kb_engine_is_unseen): they go on beside it. */
void ld_tenant_write_lock_unseen(struct ld_tenant *t);

/* exchange.c, with the lock: these are in force. */
void ld_tenant_follow_settings(struct ld_tenant *t, const struct ld_settings *settings);

/* tenant.c: the rate in force may be another by now. */
void ld_tenant_follow_rate(struct ld_tenant *t);

/* tenant.c: after a batch, before its answers: what ld_tenant_size tells. */
void ld_tenant_measure(struct ld_tenant *t, const struct kb_engine_counts *counts);
/* tenant.c: after a turn of the writer, and when the tenant is opened; measures as well. */
void ld_tenant_weigh(struct ld_tenant *t);

/* upkeep.c: after a turn of the writer. */
void ld_tenant_upkeep(struct ld_tenant *t);
/* Whether the disk takes writes again, by trying. */
bool ld_tenant_probe(struct ld_tenant *t);

#endif
