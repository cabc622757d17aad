/* The tenants: name -> tenant, with the registry file behind it. Thread safe.
 *
 * A start reads names alone. A tenant is opened when it is first asked for, which folds the end of its log, and closed
 * again when memory is short and nobody needs it; whoever asks for it then waits a moment longer and sees no other
 * difference. Opening and closing are work for the pool: the threads that serve HTTP use ld_tenants_find_open and
 * ld_tenants_await, which never wait. */
#ifndef LD_REGISTRY_H
#define LD_REGISTRY_H

#include <stddef.h>

#include "base/message.h"
#include "tenant/tenant.h"

struct ld_tenants;

/* Locks the data folder (one server at a time), opens registry.db and reads which tenants there are; a new folder gets
 * the tenant `default`. 0 or -1 with why naming the file and the reason. */
int ld_tenants_open(struct ld_tenants **out, const struct ld_world *world, struct ld_message *why);
void ld_tenants_close(struct ld_tenants *r); /* snapshots and closes all */

/* Opens every tenant, in this thread, before requests are served. 0, or -1 with why when one cannot be
 * opened, or the start was ended by ld_tenants_halt. */
int ld_tenants_open_all(struct ld_tenants *r, struct ld_message *why);

/* ld_tenants_close is to write no snapshots: the files stay as they are. From any thread. */
void ld_tenants_leave(struct ld_tenants *r);

/* Before the HTTP server stops for good: who still waits for a tenant is told 503, no other opening begins, and models
 * that are being built are left as they are (ld_tenant_halt). */
void ld_tenants_halt(struct ld_tenants *r);

/* Held tenant, opened in this thread when it is not in memory, or NULL with *p filled (404, or why it cannot be
 * opened). May take as long as a fold of the log: from the work pool. */
struct ld_tenant *ld_tenants_get(struct ld_tenants *r, const char *name, struct ld_problem *p);
/* The same without the reason. */
struct ld_tenant *ld_tenants_find(struct ld_tenants *r, const char *name);

/* Held tenant when it is in memory, else NULL. */
struct ld_tenant *ld_tenants_find_open(struct ld_tenants *r, const char *name);

/* Somebody who waits for a tenant; part of a struct of the caller's. done is called once, from any thread: with the
 * tenant, held for the callee, or with NULL and the reason. */
struct ld_tenant_wait {
    struct ld_tenant_wait *next;
    const char *name; /* of a tenant that nobody here knows; the caller's, until done */
    uint64_t round;   /* after which it is known or not */
    void (*done)(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p);
};
/* Has the tenant opened; all who wait for it wait for one opening. done may be called before this returns. False: there
 * is no such tenant, and done is not called. With a shared log another server may just have made it: then done tells of
 * a tenant that is not there, too. `name` lasts until done. */
bool ld_tenants_await(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait);

/* Creates the tenant (file, registry row, first configured event). 0, or -1 with the problem filled (409 when it
 * exists: the caller then submits LD_OP_SETTINGS to it). Blocks on fsyncs: call it from the work pool. */
int ld_tenants_create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p);

/* A tenant's file that has been made elsewhere in the data folder, closed and synced. */
struct ld_tenant_file {
    const char *path, *snapshot; /* snapshot: of its model, where there is one */
    bool (*is_over)(void *arg);  /* asked on a long way: true ends it with 503; NULL: nothing does */
    void *arg;
};
/* The same from a file: all or nothing. */
int ld_tenants_adopt(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p);

/* A file in the place of the tenant's own, and a snapshot of its model likewise: from one moment to the next, in
 * memory and on the disk. Who asks for the tenant meanwhile waits. 0, or -1 (404, 503: somebody has it in use, 507).
 * Where a log is shared, in it: for all servers, which come to it by their next question. */
int ld_tenants_replace(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p);

/* Whether there is a tenant of that name, in memory or not. */
bool ld_tenants_has(struct ld_tenants *r, const char *name);

/* Takes the tenant out and removes its files once nobody holds it; opens nothing. 0 or -1 (404). From the work pool. */
int ld_tenants_delete(struct ld_tenants *r, const char *name, struct ld_problem *p);

/* Repairs a tenant that cannot be opened, or is read-only (repair.h): 0 with why, what a fold says of the line; or one
 * whose shared log has lost lines (repair_shared.h): 0 with *out. Else -1 (404, 409, 503). From the work pool: O(the
 * log). */
struct ld_repair;
struct ld_repaired;
int ld_tenants_repair(struct ld_tenants *r, const char *name, const struct ld_repair *wanted, struct ld_message *why,
                      struct ld_repaired *out, struct ld_problem *p);

/* The rate in force for a tenant, and whether it is its own; false: there is no such tenant. */
bool ld_tenants_get_rate(struct ld_tenants *r, const char *name, struct ld_rate *out, bool *is_own, double *fill);
/* Sets its own, NULL: none, so that the server's holds; in force and durable unless p says 404 or 503. From the pool.
 */
void ld_tenants_set_rate(struct ld_tenants *r, const char *name, const struct ld_rate *own, struct ld_problem *p);

/* Whoever must know of a removal: fn is called once the tenant's row is gone and before its name can be used again, one
 * at a time. is_replaced: another tenant of the shared log has the name by now, which may have its keys. Before
 * requests are served. */
void ld_tenants_on_removal(struct ld_tenants *r, void (*fn)(void *arg, const char *name, bool is_replaced), void *arg);

/* The registry's file, for the keys in it; borrowed until ld_tenants_close. */
struct ld_registry_file *ld_tenants_registry(struct ld_tenants *r);

/* ---- servers that share a log (registry_nodes.c); world->shared is not NULL ---- */

/* Begins to ask the log, every poll_ms, which tenants there are and how far they are. after_round, unless NULL, is
 * called in that thread after each time, until ld_tenants_close; true: somebody waits, ask again soon. 0, or -1 with
 * why. */
int ld_tenants_watch(struct ld_tenants *r, unsigned poll_ms, bool (*after_round)(void *arg), void *arg,
                     struct ld_message *why);
/* Ends that thread, before what it tells goes; nothing where there is none. */
void ld_tenants_unwatch(struct ld_tenants *r);
/* Once, in this thread. False: the log did not answer. */
bool ld_tenants_poll(struct ld_tenants *r);
/* Soon, by that thread. */
void ld_tenants_poll_soon(struct ld_tenants *r);

/* fn is told after each question at which revision is what the servers have in common beside the logs, in that thread.
 * Before the first. */
void ld_tenants_on_common(struct ld_tenants *r, void (*fn)(void *arg, uint64_t revision), void *arg);
/* Whether the tenant is known here, and is not known to be another than that one of the log. */
bool ld_tenants_has_shared(struct ld_tenants *r, const char *name, uint64_t id);

/* How this server stands to the log. */
struct ld_nodes_view {
    int64_t down_us;   /* since it last answered and might acknowledge; 0: it does */
    struct ld_lag lag; /* the longest that a tenant in memory has been behind it, and the most events that one is */
    int n_standbys;    /* as struct ld_shared_health has it */
    unsigned n_nodes;  /* servers of the log, as it was last told */
    struct ld_message why;
};
void ld_tenants_nodes(struct ld_tenants *r, struct ld_nodes_view *out);

/* Now and then, from the loop: time passes for the order of use, and tenants are closed when memory is over the cap. */
void ld_tenants_tick(struct ld_tenants *r);

/* fn for each tenant that is in memory, in order of name (held during the call). */
void ld_tenants_each(struct ld_tenants *r, void (*fn)(void *arg, struct ld_tenant *t), void *arg);

enum ld_tenant_state {
    LD_TENANT_CLOSED,
    LD_TENANT_WAITING, /* to be opened */
    LD_TENANT_OPENING,
    LD_TENANT_OPEN,
    LD_TENANT_CLOSING,
    LD_TENANT_FAILED, /* the last opening did */
    LD_N_TENANT_STATES
};
const char *ld_tenant_state_name(enum ld_tenant_state state);

/* Every tenant, or the one of that name unless it is "", with its state, in order of name: t is held during the call
 * and NULL unless it is in memory, why is the reason of LD_TENANT_FAILED. Opens none. False: no memory. */
bool ld_tenants_list(struct ld_tenants *r, const char *only,
                     void (*fn)(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t,
                                const char *why),
                     void *arg);

/* The last event of a tenant, as far as that is known without opening it: 0 of one that was never open, or that is not
 * there. */
uint64_t ld_tenants_tip(struct ld_tenants *r, const char *name);

/* How many tenants are in each state, and the bytes of those in memory. */
struct ld_tenants_counts {
    size_t n[LD_N_TENANT_STATES], bytes;
};
void ld_tenants_count(struct ld_tenants *r, struct ld_tenants_counts *out);

#endif
