/* clang-format off */
/* Inside of a tenant, shared by the files below only.
 *
 *   tenant.c          life, locks, readers' getters
 *   tenant_select.c   decisions, in the thread of the request
 *   tenant_ask.c      what the model thinks, without a decision
 *   queue.c           ops and their waiting line
 *   commit.c          batches: append, apply, answer (commit_stage.c: how events get into one; commit_rows.c: their rows)
 *   commit_turn.c     ops out of the line into batches
 *   shared_turn.c     the turn in a log that several servers write (shared_follow.c: what others have written there;
 *                     shared_open.c: a copy of it; shared_renew.c: lines that were rewritten there)
 *   commit_ops.c      what each kind of op stages (commit_observe.c, commit_reward.c, commit_settings.c: some of them)
 *   upkeep.c          WAL, expiry, healing
 *   tenant_tasks.c    work beside the writer (task.h)
 *   refold.c          the log folded once more, beside the traffic (exchange.c: put in force)
 *   books.c           what is counted over the log beside the model
 *
 * Who may touch what: `lock` guards what readers see (engine, settings, epochs) and is taken for writing by the
 * writer only; decisions take `deciding` in its place, which the writer takes after it, unless it changes nothing that
 * they look at; `queue_lock` guards the line; all below "the writer's own" belongs to the one writer. */
/* clang-format on */
#ifndef LD_TENANT_IMPL_H
#define LD_TENANT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/message.h"
#include "tenant/batch.h"
#include "tenant/books.h"
#include "base/names.h"
#include "shared/shared_log.h"
#include "tenant/shared_send.h"
#include "tenant/task.h"
#include "tenant/tenant.h"
#include "tenant/turns.h"

#define LD_TURN_OPS 1024 /* ops taken in one turn */
#define LD_POOL_SCRATCHES 32

/* What a tenant has of a shared log. */
struct ld_shared {
    uint64_t id;
    atomic_bool is_asked;        /* others may have written: the next turn reads on */
    atomic_bool is_forked;       /* it has other lines: no change is taken */
    atomic_bool is_followed;     /* the last time that it was asked, it told all that it had */
    _Atomic uint64_t generation; /* the last rewriting that copy and model have */
    /* The writer's: */
    struct ld_shared_place place; /* where the copy stands */
    struct ld_shared_turn *turn;  /* ours, at the log's tip; NULL: not now */
    int64_t at_ms;                /* of the last line */
    uint64_t n_followed;          /* lines of others, so far */
    enum ld_shared_rc rc;         /* why the last turn was not had */
    struct ld_message why;        /* of a batch of others that could not be followed */
    bool is_used;                 /* the turn ended with an append, and what is under way goes on */
    bool is_unsure;               /* the batch that was lost may be in the shared log */
    bool is_stale;                /* the copy was renewed, and the model is older than it */
};

struct ld_tenant {
    const struct ld_world *world;
    char name[LD_NAME_MAX + 1];
    char db_path[LD_PATH_MAX], snapshot_path[LD_PATH_MAX];
    atomic_size_t n_holders;
    atomic_bool is_rebuilding;                 /* from the staging of a model change to the end of its batch */
    atomic_bool is_doomed, is_failing, is_due; /* is_due: the timer has asked for a turn, see ld_tenant_tick */
    atomic_bool has_chores;                    /* upkeep wants one more turn */
    atomic_bool must_scrub;                    /* the write-ahead log may hold what was erased */
    atomic_int wal_move;                       /* of upkeep.c */
    atomic_bool is_halting;                    /* no job of a build is to start any more */
    struct ld_bucket bucket;
    atomic_bool has_rate; /* of its own, below; else the world's holds */
    _Atomic double own_rate, own_burst;
    atomic_size_t n_served;
    atomic_size_t n_points, n_active_arms; /* after the writer's last turn, like the next three */
    _Atomic uint64_t n_learned;
    _Atomic uint32_t n_dims;
    _Atomic int64_t waiting_since_us; /* see ld_tenant_waiting_since; set under queue_lock */
    atomic_size_t bytes, model_bytes; /* after the writer's last turn: of all, and of the engine */
    _Atomic uint64_t tip;             /* the last event that is applied, after the writer's last batch */
    atomic_bool has_challengers;      /* the configuration has */
    atomic_bool is_held;              /* what one server of a shared log does for all is this one's */
    _Atomic int64_t next_expiry_ms;
    _Atomic int64_t next_look_ms;         /* at what the log may lose by its retention; INT64_MAX: none is set */
    _Atomic uint64_t log_first, log_kept; /* numbers of the log's first line, and of the first event behind a summary */
    atomic_bool is_compacting;
    struct ld_store *store;
    struct ld_turn turn;
    uint64_t read_only_from; /* the line that no fold takes; 0: the tenant takes changes. Set at its opening */
    struct ld_message fault; /* what the fold said of it */

    pthread_rwlock_t lock,
        deciding; /* deciding: for decisions, of what they look at alone (see ld_tenant_write_lock) */
    struct kb_engine *engine;
    struct ld_settings settings;
    uint32_t dims_epoch, arms_epoch, engine_epoch; /* engine_epoch: of `engine` itself, which an erasure exchanges */

    pthread_mutex_t queue_lock;
    struct ld_op *head, *tail;
    size_t depth, queued_bytes;
    _Atomic int64_t turn_us;   /* when the writer's turn began, on the monotonic clock; 0: it rests */
    _Atomic int64_t us_per_op; /* that the last turns took */
    struct ld_task *tasks;

    struct ld_books books; /* none where the tenant is read-only */
    struct ld_shared shared;

    pthread_mutex_t pool_lock;
    struct kb_scratch *scratch[LD_POOL_SCRATCHES];
    size_t n_scratches;

    /* The writer's own: */
    struct ld_batch batch;
    int64_t now_ms;
    size_t n_turned;    /* ops of the last turn */
    size_t store_bytes; /* that SQLite had at store_weighed_ms; 0: not asked yet */
    int64_t store_weighed_ms;
    uint64_t seq;          /* last applied */
    uint64_t snapshot_seq; /* of the last snapshot, or of the last attempt */
    int64_t tail_us;       /* what folding the log since then would take, roughly: what applying it took */
    size_t n_pending;
    int64_t locked_us, locked_cpu_us; /* since when the write lock is held */
    bool keeps_out_decisions;         /* it, that is */
    atomic_size_t n_graphs_read;      /* bodies of changes of the graph that are being read */
    bool has_leftovers;               /* the file has rows that are no part of the log any more */
    uint64_t n_rewrites;              /* times that lines of the log were changed or removed */
    bool has_failed;  /* a commit of this turn did: the rest of the turn does not wait for the disk again */
    bool has_backlog; /* more windows have closed than one turn takes */
};

/* tenant.c: what changes what readers see, by the writer. How long it lasts is counted. */
void ld_tenant_write_lock(struct ld_tenant *t);
void ld_tenant_write_unlock(struct ld_tenant *t);
/* The same for what decisions do not look at (kb_engine_is_unseen): they go on beside it. */
void ld_tenant_write_lock_unseen(struct ld_tenant *t);

/* tenant_select.c: memory of a reader, as many as ever ran at the same time; NULL: no memory. It is one reader's until
 * he gives it back; its contents mean nothing to the next. */
struct kb_scratch *ld_tenant_take_scratch(struct ld_tenant *t);
void ld_tenant_give_scratch(struct ld_tenant *t, struct kb_scratch *s);

/* tenant.c: the rate in force may be another by now. */
void ld_tenant_follow_rate(struct ld_tenant *t);

/* shared_turn.c, with a shared log alone; the writer's. Takes the turn in it, unless it is had: what others wrote is
 * applied. The batch must be empty. False: the tenant has failed in this turn, or does here. */
bool ld_shared_begin(struct ld_tenant *t);
/* Of lines that may be written (LD_LOG_VERSION); the newest where the log is this server's alone. */
unsigned ld_shared_version(const struct ld_tenant *t);
void ld_shared_go_on(struct ld_tenant *t); /* after a commit: takes it again, where that has used it up */
void ld_shared_end(struct ld_tenant *t);   /* gives it up */
/* Whether the op may be looked at; else it has been answered. */
bool ld_shared_takes(struct ld_tenant *t, struct ld_op *op);
/* Without a turn: what others have written since, where somebody has said that they may have. */
void ld_shared_read(struct ld_tenant *t);
/* For ld_batch_run: into the shared log, then into the copy. */
enum kb_err ld_shared_append(void *flush, const struct kb_event *event, size_t n);
/* The batch's n rows into the copy, which then stands at `to`. LD_STORE_*. */
int ld_shared_copy(struct ld_tenant *t, const struct ld_shared_place *to, size_t n, struct ld_message *why);

/* What became of a batch that is LD_SHARED_UNKNOWN: OK, BEHIND, or still UNKNOWN. */
enum ld_shared_rc ld_shared_settle(struct ld_tenant *t, const struct ld_shared_batch *batch, struct ld_message *why);

/* shared_follow.c: a batch of others, for take and read; arg is the tenant. Not OK: nothing of it is applied. */
enum ld_shared_rc ld_shared_follow(void *arg, const struct ld_shared_batch *batch);

/* shared_renew.c, by the writer, without a turn in it, where lines of the log were rewritten: the copy and the model
 * anew. Not OK: changes have to wait; why tells. `copy` is the first half; *is_model_kept: the model, which was folded
 * from it before, is that of its last line, and the books are; NULL: there is no model yet. REWRITTEN: once more, from
 * the beginning. */
enum ld_shared_rc ld_shared_renew(struct ld_tenant *t, struct ld_message *why);
enum ld_shared_rc ld_shared_renew_copy(struct ld_tenant *t, bool *is_model_kept, struct ld_message *why);

/* exchange.c, by the writer: an engine for the log up to `seq` in the place of the one that serves, which is *engine
 * then; settings NULL: they are the same. */
void ld_tenant_exchange(struct ld_tenant *t, struct kb_engine **engine, const struct ld_settings *settings,
                        uint64_t seq);
/* What the disk has of a snapshot, for good. */
bool ld_tenant_remove_snapshot(const struct ld_tenant *t);

/* shared_open.c, while a tenant is opened: LD_STORE_*. `find` looks for its name, and says whether a copy may be made
 * or opened; `check` whose copy the file is that was opened, and puts away what is another tenant's: the file is then
 * to be opened anew (*is_away); `catch_up` follows what the copy lacks. */
int ld_shared_find(struct ld_tenant *t, struct ld_message *why);
int ld_shared_check(struct ld_tenant *t, bool *is_away, struct ld_message *why);
int ld_shared_catch_up(struct ld_tenant *t, struct ld_message *why);

/* queue.c: how long the writer takes with what it takes from the line: from the beginning of a turn to its end, of n
 * ops. */
void ld_queue_begin_turn(struct ld_tenant *t);
void ld_queue_end_turn(struct ld_tenant *t, size_t n);

/* queue.c: up to max ops in order of arrival, linked. */
struct ld_op *ld_queue_take(struct ld_tenant *t, size_t max);
void ld_queue_moved(struct ld_tenant *t, bool is_end);

/* tenant.c: reads where the log starts. */
void ld_tenant_note_start(struct ld_tenant *t);

/* tenant.c: after a batch, before its answers: what ld_tenant_size tells. */
void ld_tenant_measure(struct ld_tenant *t, const struct kb_engine_counts *counts);
/* tenant.c: after a turn of the writer, and when the tenant is opened; measures as well. */
void ld_tenant_weigh(struct ld_tenant *t);

/* upkeep.c: after a turn of the writer. */
void ld_tenant_upkeep(struct ld_tenant *t);
/* Whether the disk takes writes again, by trying. */
bool ld_tenant_probe(struct ld_tenant *t);

#endif
