/* The live tenants: name -> tenant, with the registry file behind it. Thread safe. */
#ifndef LD_REGISTRY_H
#define LD_REGISTRY_H

#include <stddef.h>

#include "tenant.h"

struct ld_tenants;

/* Locks the data folder (one server at a time), opens registry.db and every tenant in it; a new folder gets the
 * tenant `default`. 0 or -1 with why naming the file and the reason. */
int ld_tenants_open(struct ld_tenants **out, const struct ld_world *world, char *why);
void ld_tenants_close(struct ld_tenants *r); /* snapshots and closes all */

/* Held tenant or NULL. */
struct ld_tenant *ld_tenants_find(struct ld_tenants *r, const char *name);

/* Creates the tenant (file, registry row, first configured event). 0, or -1 with the problem filled (409 when it
 * exists: the caller then submits LD_OP_SETTINGS to it). Blocks on fsyncs: call it from the work pool. */
int ld_tenants_create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p);

/* The same from a file that has been made elsewhere in the data folder, closed and synced (and a snapshot of its model
 * at `snapshot`, when there is one): all or nothing. */
int ld_tenants_adopt(struct ld_tenants *r, const char *name, const char *file, const char *snapshot,
                     struct ld_problem *p);

/* Takes the tenant out and removes its files once nobody holds it. 0 or -1 (404). From the work pool. */
int ld_tenants_delete(struct ld_tenants *r, const char *name, struct ld_problem *p);

/* fn for each tenant in order of name (held during the call). */
void ld_tenants_each(struct ld_tenants *r, void (*fn)(void *arg, struct ld_tenant *t), void *arg);

int ld_tenant_name_is_valid(const char *name); /* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */

#endif
