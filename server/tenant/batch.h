/* The commit cycle's own view of a batch, and what each kind of op does with it: inside of a tenant, whose structure
 * has one. */
#ifndef LD_BATCH_H
#define LD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/commit.h"
#include "base/ids.h"
#include "base/message.h"

struct ld_doc;
struct ld_op;
struct ld_shared_place;
struct ld_reward;
struct ld_reward_result;
struct ld_row;
struct ld_settings;
struct ld_tenant;

#define LD_BATCH_EVENTS 2048  /* events in one transaction */
#define LD_EXPIRE_EVENTS 1024 /* windows closed in one turn */

/* Returned beside enum kb_err: a commit of this turn failed; the op's events in it are undone and ld_op_lose was told.
 */
#define LD_LOST (-1000)

/* Returned by an op's expand: it is answered later, by whoever has kept it. */
#define LD_KEPT (-1001)

/* An event with what its row needs besides. */
struct ld_entry {
    struct kb_event ev;
    const char *answer;                 /* of a named decision */
    const struct ld_settings *settings; /* of a configured event */
    uint64_t line;                      /* of a graph: what of its row is written already (store.h); 0: nothing */
};

/* What of it the batch keeps beside the event. */
struct ld_beside {
    const char *answer;
    const struct ld_settings *settings;
    uint64_t line;
    struct ld_doc *kept; /* memory of an op that was answered before the commit */
};

/* The open batch: events reserved in the engine, in order, and the ops that its commit will answer. */
struct ld_batch {
    struct kb_commit commit;
    struct ld_beside *beside; /* [commit.n] */
    struct ld_row *row;
    size_t cap, cap_rows;
    size_t n_decided;
    struct kb_ids ids; /* of its observations and rewards that have one of their sender's */
    struct ld_op *first, *last;
    struct ld_op *current; /* the op being expanded, not in the list yet */
    size_t n_current;      /* its events in this batch */
};

/* commit.c. A commit of the open batch, for its hooks. */
struct ld_flush {
    struct ld_tenant *t;
    int rc; /* LD_STORE_*; without memory there is nothing to append */
    struct ld_message why;
    int64_t appended_us;              /* when it was durable */
    bool is_passing;                  /* the failure says nothing about what the log is kept on */
    const struct ld_shared_place *to; /* of a batch of others: where a shared log stands behind it */
};
/* What `append` returns. */
enum kb_err ld_flush_result(const struct ld_flush *f);
/* Runs it: what `append` has made durable is applied, and given to the books. False: nothing has changed. */
bool ld_batch_run(struct ld_flush *f, enum kb_err (*append)(void *flush, const struct kb_event *event, size_t n));
/* What readers are told of the state then; is_settled: with bounds that take it in. */
void ld_batch_show(struct ld_flush *f, bool is_settled);

/* commit_stage.c. Stages ev (copied; what it points at must live until the op is answered) in the open batch,
 * committing before it when it must. KB_OK; KB_EBUSY: flush and ask again, the event depends on one that is not
 * applied, or others have written meanwhile; LD_LOST; or the engine's refusal. */
int ld_batch_stage(struct ld_tenant *t, const struct ld_entry *entry, struct kb_errmsg *msg);
/* commit.c. Commits, applies, answers. False when the append failed: the batch is undone, its ops have been answered
 * 503. With a shared log the turn in it goes on, and what others have written in between is applied. */
bool ld_batch_flush(struct ld_tenant *t);
/* The same at the end of a turn. */
void ld_batch_end(struct ld_tenant *t);
/* commit_stage.c. What the engine's own state calls for, in a batch of its own; the batch must be empty. */
void ld_batch_commit_due(struct ld_tenant *t);
/* The same for a reset that somebody asks for: 0 also when there is nothing to do, or LD_LOST, or the engine's refusal.
 */
int ld_batch_stage_rebuild(struct ld_tenant *t);
/* Likewise the beginning of a reset that erases (erase.c). */
int ld_batch_begin_erasure(struct ld_tenant *t);
/* commit.c. The open batch of n events has been forgotten by the engine, with one of the current op: all are told. */
void ld_batch_lose(struct ld_tenant *t, size_t n);
/* Undoes the open batch, which holds events of the current op only. */
void ld_batch_drop(struct ld_tenant *t);

/* commit_turn.c. Expands one op at once, commits it, and answers it: for the first event, before anybody knows the
 * tenant, and for what was kept. Nothing is staged. */
void ld_tenant_run_op(struct ld_tenant *t, struct ld_op *op);

/* To who asks whether something was recorded, when nobody knows. */
#define LD_UNSURE "it is not known whether it was recorded: ask again with the same id"

/* An op is looked at again at most so often: each time others may have written in between. */
#define LD_MOST_LOOKS 16

/* commit_stage.c. Room beside the events, for n of them. */
enum kb_err ld_batch_grow(struct ld_batch *b, size_t n);

/* commit_rows.c. Fills batch.row; KB_ENOMEM leaves no text behind. */
enum kb_err ld_batch_build_rows(struct ld_tenant *t);
void ld_batch_free_rows(struct ld_tenant *t);

/* commit_ops.c. Closes windows that have passed, LD_EXPIRE_EVENTS at most. A tenant that fails tries the disk first. */
void ld_batch_expire(struct ld_tenant *t);
/* Expands one op;KB_EBUSY as above, else 0 with op->problem telling. */
int ld_op_expand(struct ld_tenant *t, struct ld_op *op);
/* Fills the reply from the applied state (unless there is a problem) and calls done. */
void ld_op_answer(struct ld_tenant *t, struct ld_op *op);
/* The commit of the op's events from n_safe on has failed. */
void ld_op_lose(struct ld_op *op);
/* While a shared log is away: whether the op is a decision that is answered by itself, unrecorded, as its tenant has
 * chosen; it has its answer then. */
bool ld_op_stand_alone(struct ld_tenant *t, struct ld_op *op);
const char *ld_op_loss(const struct ld_op *op);            /* what it is told then, if nothing of it is safe */
void ld_op_refuse_busy(struct ld_op *op, const char *why); /* problem 503 with Retry-After */
void ld_op_refuse_closed(const struct ld_tenant *t, struct ld_op *op); /* 404 of a deleted tenant, else 503 */
void ld_op_reply_text(struct ld_op *op, char *text, size_t n);

void ld_op_reply_copy(struct ld_op *op, const char *text);
/* The end of an expand: what the engine or ld_batch_stage said becomes the problem. Returns what expand returns. */
int ld_op_conclude(struct ld_op *op, int rc, const struct kb_errmsg *msg);
/* Vectors were decoded for other dimensions than those in force: a problem then. */
bool ld_op_is_outdated(const struct ld_tenant *t, struct ld_op *op);

/* commit_settings.c */
int ld_settings_expand(struct ld_tenant *t, struct ld_op *op);
int ld_patch_expand(struct ld_tenant *t, struct ld_op *op);
int ld_switch_expand(struct ld_tenant *t, struct ld_op *op);
int ld_promote_expand(struct ld_tenant *t, struct ld_op *op);
void ld_settings_answer(struct ld_tenant *t, struct ld_op *op);
void ld_promote_answer(struct ld_tenant *t, struct ld_op *op);

/* commit_observe.c */
int ld_observe_expand(struct ld_tenant *t, struct ld_op *op);
void ld_observe_answer(struct ld_tenant *t, struct ld_op *op);
void ld_observe_lose(struct ld_op *op);

/* commit_stage.c. That the open batch brings this id of a sender's; NULL is none. And, where it does, its commit: the
 * log can be asked then. False: that has failed. */
void ld_batch_remember(struct ld_tenant *t, const char *id);
bool ld_batch_commit_id(struct ld_tenant *t, const char *id);

/* commit_reward.c: one reward of a decision against the applied state. KB_EBUSY: look again once all is applied; else
 * *result tells. */
int ld_reward_judge(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                    struct ld_reward_result *result);
/* That a decision which waits is shown. KB_EBUSY: it is staged, or waits for what is: look again; else *result tells.
 */
int ld_reward_activate(struct ld_tenant *t, const char *decision, struct ld_reward_result *result);
/* commit_metric.c. Whether the reward names a metric that the tenant has not, which is told. */
bool ld_metric_is_unknown(const struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result);
/* The metric's name as lines of the log have it: none of a single objective. */
const char *ld_metric_in_log(const struct ld_tenant *t, const char *name);
/* The line of a value, over that of a reward of the objective. False: *result tells all, or *rc is KB_EBUSY. */
bool ld_metric_fill(const struct ld_tenant *t, const struct ld_reward *reward, struct kb_event *ev,
                    struct ld_reward_result *result, int *rc);
/* Of a decision that the log has and that is closed; slot_0 is the arm that it showed. Like ld_reward_judge. */
int ld_metric_judge_closed(struct ld_tenant *t, const struct ld_reward *reward, const char *slot_0,
                           struct ld_reward_result *result);
/* commit_reward_user.c: ld_reward_judge of one that names a user. */
int ld_reward_judge_user(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                         struct ld_reward_result *result);
/* Whether the log has rewards under its id, or cannot be asked: *result tells. */
bool ld_reward_is_repeated(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                           struct ld_reward_result *result);

/* commit_reward.c */
int ld_rewards_expand(struct ld_tenant *t, struct ld_op *op);
void ld_rewards_answer(struct ld_tenant *t, struct ld_op *op);
void ld_rewards_lose(struct ld_op *op);

#endif
