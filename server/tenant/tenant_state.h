/* clang-format off */
/* A tenant as its one writer and the work beside it see it: the log, the model that folds it, and what they know.
 *
 *   tenant.c          life, locks, readers' getters (tenant_open.c: how it is opened)
 *   tenant_select.c   decisions, in the thread of the request
 *   tenant_ask.c      what the model thinks, without a decision
 *   queue.c           ops and their waiting line
 *   commit.c          batches: append, apply, answer (commit_stage.c: how events get into one; commit_rows.c: rows)
 *   commit_turn.c     ops out of the line into batches
 *   shared_turn.c     the turn in a log that several servers write (shared_follow.c: what others have written there;
 *                     shared_open.c: a copy of it; shared_renew.c: lines that were rewritten there)
 *   commit_ops.c      what each kind of op stages (commit_observe.c, commit_reward.c, commit_settings.c: some of them)
 *   upkeep.c          WAL, expiry, healing
 *   tenant_tasks.c    work beside the writer (task.h)
 *   refold.c          the log folded once more, beside the traffic (exchange.c: put in force)
 *   books.c           what is counted over the log beside the model
 *
 * What one file owns stands in a header of its own, and is a pointer here: the line (line.h), what threads of requests
 * share (readers.h), the open batch (batch.h).
 *
 * Who may touch what: `readers->lock` guards what readers see (engine, settings, epochs) and is taken for writing by
 * the writer only; decisions take `readers->deciding` in its place, which the writer takes after it, unless it changes
 * nothing that they look at; `queue->lock` guards the line and the list of tasks; what is not atomic is the writer's.
 */
/* clang-format on */
#ifndef LD_TENANT_STATE_H
#define LD_TENANT_STATE_H

#include <stdatomic.h>

#include "base/message.h"
#include "base/names.h"
#include "tenant/books.h"
#include "tenant/recover.h"
#include "tenant/shared_state.h"
#include "tenant/task.h"
#include "tenant/tenant.h"

struct ld_batch;
struct ld_queue;
struct ld_readers;

struct ld_tenant {
    const struct ld_world *world;
    char name[LD_NAME_MAX + 1];
    char db_path[LD_PATH_MAX], snapshot_path[LD_PATH_MAX];
    uint64_t read_only_from; /* the line that no fold takes; 0: the tenant takes changes. Set at its opening */
    struct ld_message fault; /* what the fold said of it */
    struct ld_store *store;
    struct ld_queue *queue;
    struct ld_readers *readers;
    struct ld_batch *batch;
    struct ld_task *tasks; /* queue->lock */
    struct ld_books books; /* none where the tenant is read-only */
    struct ld_shared shared;
    struct ld_progress *progress; /* the world's while it is opened, then `served`: traffic is no progress of a start */
    struct ld_progress served;

    /* What readers see: readers->lock. */
    struct kb_engine *engine;
    struct ld_settings settings;
    uint32_t dims_epoch, arms_epoch, engine_epoch; /* engine_epoch: of `engine` itself, which an erasure exchanges */

    atomic_bool is_rebuilding; /* from the staging of a model change to the end of its batch */
    atomic_bool is_doomed, is_failing;
    atomic_bool is_replaced; /* doomed, since another tenant has its name by now */
    atomic_bool is_halting;  /* no job of a build is to start any more */
    atomic_bool is_compacting;
    atomic_bool has_chores;      /* upkeep wants one more turn */
    atomic_bool must_scrub;      /* the write-ahead log may hold what was erased */
    atomic_bool has_challengers; /* the configuration has */
    atomic_int wal_move;         /* of upkeep.c */
    atomic_size_t model_bytes;   /* of the engine, after the writer's last turn */
    atomic_size_t n_graphs_read; /* bodies of changes of the graph that are being read */
    _Atomic uint64_t tip;        /* the last event that is applied, after the writer's last batch */
    _Atomic uint64_t log_kept;   /* number of the first event behind a summary */
    _Atomic int64_t next_expiry_ms;
    _Atomic int64_t next_look_ms; /* at what the log may lose by its retention; INT64_MAX: none is set */

    int64_t now_ms;
    uint64_t seq;          /* last applied */
    uint64_t snapshot_seq; /* of the last snapshot, or of the last attempt */
    int64_t tail_us;       /* what folding the log since then would take, roughly: what applying it took */
    size_t n_pending;
    bool has_leftovers;  /* the file has rows that are no part of the log any more */
    uint64_t n_rewrites; /* times that lines of the log were changed or removed */
    bool has_failed;     /* a commit of this turn did: the rest of the turn does not wait for the disk again */
    bool has_backlog;    /* more windows have closed than one turn takes */
};

/* exchange.c, by the writer: an engine for the log up to `seq` in the place of the one that serves, which is *engine
 * then; settings NULL: they are the same. */
void ld_tenant_exchange(struct ld_tenant *t, struct kb_engine **engine, const struct ld_settings *settings,
                        uint64_t seq);
/* What the disk has of a snapshot, for good. */
bool ld_tenant_remove_snapshot(const struct ld_tenant *t);

/* tenant.c: reads where the log starts. */
void ld_tenant_note_start(struct ld_tenant *t);

#endif
