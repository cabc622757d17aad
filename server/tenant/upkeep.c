/* Upkeep of a tenant: when snapshots are begun (saving.c), checkpoints of the WAL, the expiry timer, and the way back
 * from a disk that refused. All of it but the larger part of a checkpoint runs in the writer's turn (the timer only
 * asks for one), so the engine stands still under it and readers go on.
 *
 * Nothing here may keep the tenant from serving: a checkpoint that fails makes the WAL longer, a probe that fails is
 * tried again at the next tick. Only the commit cycle sets is_failing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tenant/line.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"

/* Bytes of the WAL after which it is moved into the file; the next commit then begins it anew, so it stays about this
 * long. */
#define WAL_LIMIT (8 << 20)
#define PROBE_BYTES 65536u

/* ---- files ----------------------------------------------------------------------------------------- */

/* Not inside a commit, where SQLite would do it at the cost of somebody's answer. A reader of long standing
 * keeps it from moving all; the next turn tries again. */
static void checkpoint_wal(struct ld_tenant *t)
{
    if (ld_store_checkpoint(t->store) != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "tenant %s: the write-ahead log could not be checkpointed", t->name);
}

enum { WAL_STANDS, WAL_IS_MOVING, WAL_HAS_MOVED };

/* On the pool, beside the writer. Where that has rested meanwhile, nothing is left to be done. */
static void move_wal(void *arg)
{
    struct ld_tenant *t = arg;

    checkpoint_wal(t);
    atomic_store(&t->wal_move, ld_store_wal_bytes(t->store) > WAL_LIMIT ? WAL_HAS_MOVED : WAL_STANDS);
    ld_tenant_release(t);
}

/* Most of it is moved beside the writer, some milliseconds of pages and an fsync of the file; then what has come
 * meanwhile by the writer itself, since the log can only begin anew when nothing is left of it. */
static void shorten_wal(struct ld_tenant *t)
{
    const int move = atomic_load(&t->wal_move);

    if (ld_store_wal_bytes(t->store) <= WAL_LIMIT || move == WAL_IS_MOVING)
        return;
    if (move == WAL_STANDS) {
        ld_tenant_hold(t);
        atomic_store(&t->wal_move, WAL_IS_MOVING);
        if (ld_sched_give(t->world->sched, LD_POOL, move_wal, t, SIZE_MAX) == 0)
            return;
        ld_tenant_release(t);
    }
    checkpoint_wal(t);
    atomic_store(&t->wal_move, WAL_STANDS);
}

/* At the end of a turn, after everybody has been answered. A backlog of closed windows asks for another turn rather
 * than making this one longer. A failing disk gets no snapshot, which would only fail as well, and a doomed tenant
 * needs none. */
void ld_tenant_upkeep(struct ld_tenant *t)
{
    if (t->read_only_from > 0) /* its turns verify, and no more */
        return;
    const enum ld_chore chore = ld_tasks_at(t, LD_AT_TURN_END);
    const bool wants_turn = t->has_backlog || chore == LD_CHORE_NOW;

    atomic_store(&t->has_chores, chore != LD_CHORE_NONE);
    atomic_store(&t->next_expiry_ms, kb_engine_next_expiry(t->engine));
    ld_tenant_weigh(t);
    if (!atomic_load(&t->is_failing) && !atomic_load(&t->is_doomed)) {
        if (atomic_load(&t->must_scrub))
            atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
        else
            shorten_wal(t);
    }
    if (wants_turn) {
        t->has_backlog = false;
        ld_tenant_tick(t, t->now_ms);
    }
}

/* At shutdown: the next start then has nothing to fold. In the main thread, when no writer runs any more. */
void ld_tenant_checkpoint(struct ld_tenant *t)
{
    if (atomic_load(&t->is_doomed) || t->read_only_from > 0)
        return;
    ld_tasks_at(t, LD_AT_REST);
    checkpoint_wal(t);
}

/* ---- timer ----------------------------------------------------------------------------------------- */

/* Asks the writer to close windows that are due, to try the disk again, or to go on with what waits. Runs on the loop,
 * or in the writer's turn: some atomic loads when nothing is due. */
void ld_tenant_tick(struct ld_tenant *t, int64_t now_ms)
{
    ld_tenant_follow_rate(t);
    ld_tasks_at(t, LD_AT_TICK);
    if (atomic_load(&t->next_expiry_ms) > now_ms && !atomic_load(&t->is_failing) && !atomic_load(&t->must_scrub) &&
        !atomic_load(&t->has_chores) && atomic_load(&t->next_look_ms) > now_ms)
        return;
    atomic_store(&t->queue->is_due, true);
    ld_sched_wake(t->world->sched, &t->queue->turn);
}

/* ---- healing --------------------------------------------------------------------------------------- */

/* Whether a file beside the log takes bytes: the store's own probe writes into a WAL that has its blocks already, and
 * would not see a full disk. 64 KiB, written and synced, then removed. */
static bool takes_bytes(const char *path)
{
    static const char bytes[4096];
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    bool is_ok = fd >= 0;

    for (size_t n = 0; is_ok && n < PROBE_BYTES; n += sizeof bytes)
        is_ok = write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    is_ok = is_ok && fdatasync(fd) == 0;
    if (fd >= 0)
        close(fd);
    unlink(path);
    return is_ok;
}

/* In the writer's turn. Clears the failing state; a later commit may set it again. */
bool ld_tenant_probe(struct ld_tenant *t)
{
    char path[LD_PATH_MAX + 8];
    struct ld_message why;

    snprintf(path, sizeof path, "%s.probe", t->db_path);
    if (!takes_bytes(path) || ld_store_append(t->store, NULL, 0, &why) != LD_STORE_OK)
        return false;
    if (t->world->shared != NULL && !ld_shared_begin(t))
        return false;
    if (atomic_exchange(&t->is_failing, false))
        ld_log(LD_LOG_INFO, "tenant %s: %s takes writes again", t->name,
               t->world->shared != NULL ? "the shared log" : "the disk");
    return true;
}
