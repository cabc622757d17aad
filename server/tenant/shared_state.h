/* What a tenant has of a log that several servers write, and what its writer does with it: the turn in that log, what
 * others have written there, and the copy of it. */
#ifndef LD_SHARED_STATE_H
#define LD_SHARED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/message.h"
#include "shared/shared_log.h"
#include "tenant/shared_send.h"

struct kb_event;
struct ld_op;
struct ld_tenant;

/* What a tenant has of a shared log. */
struct ld_shared {
    uint64_t id;
    atomic_bool is_asked;        /* others may have written: the next turn reads on */
    atomic_bool is_forked;       /* it has other lines: no change is taken */
    atomic_bool is_followed;     /* the last time that it was asked, it told all that it had */
    _Atomic uint64_t generation; /* the last rewriting that copy and model have */
    _Atomic uint64_t head;       /* the log's last line, as it was last told */
    _Atomic uint64_t behind_seq; /* the end that was told and is not reached yet, and since when; 0: there is none */
    _Atomic int64_t behind_us;
    /* The writer's: */
    struct ld_shared_place place; /* where the copy stands */
    struct ld_shared_turn *turn;  /* ours, at the log's tip; NULL: not now */
    int64_t at_ms;                /* of the last line */
    uint64_t n_followed;          /* lines of others, so far */
    enum ld_shared_rc rc;         /* why the last turn was not had */
    struct ld_message why;        /* of a batch of others that could not be followed */
    uint64_t refused;             /* the line of it that no fold takes; 0: that is not what is wrong */
    bool is_used;                 /* the turn ended with an append, and what is under way goes on */
    bool is_unsure;               /* the batch that was lost may be in the shared log */
    bool is_stale;                /* the copy was renewed, and the model is older than it */
    uint64_t unfoldable;          /* no fold takes this line of the copy, or of the log that it is to become; 0: none */
    uint64_t unfoldable_at;       /* the rewriting of the log as of which that is so */
    struct ld_message unfoldable_why;
};

/* shared_turn.c, with a shared log alone; the writer's. Takes the turn in it, unless it is had: what others wrote is
 * applied. The batch must be empty. False: the tenant has failed in this turn, or does here. */
bool ld_shared_begin(struct ld_tenant *t);
/* Of lines that may be written (LD_LOG_VERSION); the newest where the log is this server's alone. */
unsigned ld_shared_version(const struct ld_tenant *t);
void ld_shared_go_on(struct ld_tenant *t); /* after a commit: takes it again, where that has used it up */
void ld_shared_end(struct ld_tenant *t);   /* gives it up */
/* Whether the op may be looked at; else it has been answered. */
bool ld_shared_takes(struct ld_tenant *t, struct ld_op *op);
/* Of a tenant that was deleted: whether another has its name. */
bool ld_shared_is_exchanged(const struct ld_tenant *t);
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

/* shared_open.c, while a tenant is opened: LD_STORE_*. `find` looks for its name, and says whether a copy may be made
 * or opened; `check` whose copy the file is that was opened, and puts away what is another tenant's: the file is then
 * to be opened anew (*is_away); `catch_up` follows what the copy lacks. */
int ld_shared_find(struct ld_tenant *t, struct ld_message *why);
int ld_shared_check(struct ld_tenant *t, bool *is_away, struct ld_message *why);
int ld_shared_catch_up(struct ld_tenant *t, struct ld_message *why);
/* Whether the line that made the tenant read-only is not in the copy any more: it was dropped in the log, or went. */
bool ld_shared_is_mended(struct ld_tenant *t);

#endif
