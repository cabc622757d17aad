/* Three questions, from the narrow to the wide:
 *
 *   alive    the loop turns. It never computes and waits for no disk, so one that has stood still for --stuck-after
 *            seconds never comes back, and to start anew is what helps. /healthz.
 *   moving   alive, and the pool answers, and no change has waited for so long while its writer got nowhere: a writer
 *            that is slow moves, one that hangs in a call of the disk or in a lock does not. The watchdog.
 *   ready    moving, and up: recovered, not stopping, every tenant commits, the disk has room, the registry takes
 *            changes; with a shared log, that one was reached and read to its end within --max-lag. /readyz.
 *
 * A disk that refuses is no reason to end the process, which answers what it can and heals by itself; so it is neither
 * dead nor stuck, only not ready.
 *
 * The loop asks the pool for a look at the disk once a second: that says how full it is, tries a registry that has
 * failed, and shows that the pool still runs jobs. A look that hangs holds one thread of the pool; no other is begun
 * meanwhile. Cost: a statvfs a second, an atomic load a tenant and tick. */
#include "api/api.h"
#include "api/server.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/folder.h"
#include "base/log.h"
#include "store/store.h"

#define ASK_US 1000000

/* ---- the loop's ------------------------------------------------------------------------------------- */

/* Says so when it changes. */
static void note(atomic_bool *state, bool is_bad, const char *what, const char *good)
{
    if (atomic_exchange(state, is_bad) != is_bad)
        ld_log(is_bad ? LD_LOG_ERROR : LD_LOG_INFO, "%s", is_bad ? what : good);
}

/* On the pool. */
static void look(void *arg)
{
    struct ld_server *s = arg;
    struct ld_health *h = &s->health;

    note(&h->is_full, !ld_folder_has_room(s->world.data_dir), "the disk of the data folder has no room left",
         "the disk of the data folder has room again");
    note(&h->is_registry_failing, ld_registry_is_failing(ld_tenants_registry(s->tenants)),
         "the registry takes no changes", "the registry takes changes again");
    atomic_store(&h->asked_at, 0);
}

void ld_health_turn(struct ld_server *s, int64_t waiting_since)
{
    struct ld_health *h = &s->health;
    const int64_t now = ld_monotonic_us();

    atomic_store(&h->turned_at, now);
    atomic_store(&h->waiting_since, waiting_since);
    if (now < h->next_ask || atomic_load(&h->asked_at) != 0)
        return;
    h->next_ask = now + ASK_US;
    atomic_store(&h->asked_at, now);
    if (ld_sched_give(s->sched, LD_POOL, look, s, SIZE_MAX) != 0)
        atomic_store(&h->asked_at, 0);
}

/* ---- questions -------------------------------------------------------------------------------------- */

static bool is_over(const struct ld_health *h, const _Atomic int64_t *since)
{
    const int64_t at = atomic_load(since);

    return at != 0 && ld_monotonic_us() - at > atomic_load(&h->stuck_after_us);
}

bool ld_health_is_alive(const struct ld_server *s)
{
    return !is_over(&s->health, &s->health.turned_at);
}

bool ld_health_is_moving(const struct ld_server *s)
{
    const struct ld_health *h = &s->health;

    return ld_health_is_alive(s) && !is_over(h, &h->asked_at) && !is_over(h, &h->waiting_since);
}

/* Keeps the first failing tenant's name; arg is a buffer of 65 bytes, empty at first. Reads one atomic of each
 * tenant; one name is enough to send somebody to the log. */
static void find_failing(void *arg, struct ld_tenant *t)
{
    char *name = arg;

    if (name[0] == '\0' && ld_tenant_is_failing(t))
        strncpy(name, ld_tenant_name(t), 64);
}

/* Everybody may ask: with keys in force nobody learns a name here. It stands in the log and in /metrics. */
static const char *find_fault(struct ld_server *s, char buffer[LD_HEALTH_BYTES])
{
    char name[65] = "";

    ld_tenants_each(s->tenants, find_failing, name);
    if (name[0] == '\0')
        return NULL;
    if (ld_keys_are_asked(s->keys, s->auth))
        return "the last commit of a tenant failed";
    snprintf(buffer, LD_HEALTH_BYTES, "the last commit of tenant \"%s\" failed", name);
    return buffer;
}

struct voids {
    char name[65]; /* of the first */
    size_t n;
};

/* Reads one atomic of each tenant in memory. */
static void count_void(void *arg, struct ld_tenant *t)
{
    struct voids *v = arg;

    if (!ld_traffic_is_void(t))
        return;
    if (v->n++ == 0)
        strncpy(v->name, ld_tenant_name(t), sizeof v->name - 1);
}

const char *ld_health_warns(struct ld_server *s, char buffer[LD_HEALTH_BYTES])
{
    struct voids v = {.n = 0};

    ld_tenants_each(s->tenants, count_void, &v);
    if (v.n == 0)
        return NULL;
    if (ld_keys_are_asked(s->keys, s->auth))
        snprintf(buffer, LD_HEALTH_BYTES, "experiments whose traffic does not match what was told: %zu", v.n);
    else
        snprintf(buffer, LD_HEALTH_BYTES, "experiments whose traffic does not match what was told: %zu (\"%s\")", v.n,
                 v.name);
    return buffer;
}

/* A log that is away for a moment is no reason to leave: another server would not reach it either. Commits that fail
 * because of it are none meanwhile. */
static const char *find_lag(struct ld_server *s, char buffer[LD_HEALTH_BYTES], bool *is_away)
{
    struct ld_nodes_view view;

    *is_away = false;
    if (s->world.shared == NULL)
        return NULL;
    ld_tenants_nodes(s->tenants, &view);
    *is_away = view.down_us > 0;
    if (view.down_us > s->health.max_lag_us &&
        ld_keys_are_asked(s->keys, s->auth)) /* what it says names hosts and roles */
        snprintf(buffer, LD_HEALTH_BYTES, "the shared log does not answer, or may not acknowledge");
    else if (view.down_us > s->health.max_lag_us)
        snprintf(buffer, LD_HEALTH_BYTES, "the shared log: %.100s", view.why.text);
    else if (view.lag.us > s->health.max_lag_us)
        snprintf(buffer, LD_HEALTH_BYTES, "%lld ms behind the shared log, %llu events", (long long)(view.lag.us / 1000),
                 (unsigned long long)view.lag.events);
    else
        return NULL;
    return buffer;
}

/* What the disk says comes last: a tenant that fails because of it says more. */
const char *ld_health_refuses(struct ld_server *s, char buffer[LD_HEALTH_BYTES])
{
    const struct ld_health *h = &s->health;

    if (atomic_load(&s->is_draining))
        return "the server is stopping";
    if (!atomic_load(&s->is_ready))
        return "the server is recovering its tenants";
    if (!ld_health_is_alive(s))
        return "the server's loop stands still";
    if (is_over(h, &h->waiting_since))
        return "a change has been waiting for its commit for too long";
    if (is_over(h, &h->asked_at))
        return "the server's work pool stands still";
    bool is_away;
    const char *fault = find_lag(s, buffer, &is_away);
    if (fault == NULL && !is_away)
        fault = find_fault(s, buffer);
    if (fault != NULL)
        return fault;
    if (atomic_load(&h->is_full))
        return "the disk is full";
    return atomic_load(&h->is_registry_failing) ? "the registry takes no changes" : NULL;
}
