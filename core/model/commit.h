/* The way of events into a model, one for all who change models: a tenant's writer, models that follow a log, an
 * erasure, experiments and tests.
 *
 *     add      reserves an event as the next of the log, with the dictionary change that it brings along     may fail
 *     follow   the same of an event that somebody else has put into the log, as it stands there              may fail
 *     run      grow      larger copies of the arrays that are too small                                      may fail
 *              append    the caller makes the batch durable                                                  may fail
 *              swap      the copies, where there are any                                       exclusive
 *              apply     prepare beside readers, then apply, event by event                    exclusive
 *              collect   what has been replaced is freed
 *     settle   what confidence rules read of the model, where they read more than mean and deviation
 *
 * It promises: a batch is in the log and in the model as a whole, in one order, or in neither. Nothing is visible
 * before append has succeeded, and nothing can fail behind it.
 *
 * Locking: the caller's, by hooks; lock and unlock stand around what is exclusive in engine_steps.h. Without them there
 * are no readers. One thread at a time calls these functions. */
#ifndef KB_COMMIT_H
#define KB_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "spec/event.h"

struct kb_build;
struct kb_engine;

struct kb_commit {
    struct kb_engine *engine; /* borrowed */
    struct kb_event *event;   /* [n] of the open batch; what they point at is the caller's until run or drop */
    size_t n, cap;
    uint64_t seq;   /* of the last event that is applied */
    bool is_closed; /* nothing may follow in this batch */
    bool is_lost;   /* the last add has lost the whole batch, and not its own event alone */
};

/* NULL: nothing is to be done there. */
struct kb_commit_hooks {
    enum kb_err (*append)(void *arg, const struct kb_event *event, size_t n); /* KB_OK: it is durable */
    void (*lock)(void *arg, bool is_unseen); /* is_unseen: decisions may go on beside it (kb_engine_is_unseen) */
    void (*unlock)(void *arg);
    void (*applied)(void *arg, size_t i, const struct kb_event *ev); /* under the lock */
    enum kb_err (*build)(void *arg, struct kb_build *b);             /* NULL: kb_build_run */
    void *arg;
};

/* From here on the events go to this engine, behind seq. The batch must be empty. */
void kb_commit_begin(struct kb_commit *c, struct kb_engine *engine, uint64_t seq);
void kb_commit_free(struct kb_commit *c);

/* Events that change what others are checked against stand in a batch of their own. */
bool kb_event_is_alone(enum kb_event_type type);
/* Whether the event may go into the open batch; else run comes first. */
bool kb_commit_takes(const struct kb_commit *c, const struct kb_event *ev);

/* Reserves the event, numbered and dated here (but for the beginning of a summary, which has a number), and the
 * dictionary change that follows from it. A refusal leaves the batch as it was; KB_EBUSY asks for run, then for the
 * event again. Where the change cannot be had the event cannot either, and the engine forgets batches as a whole:
 * is_lost. */
enum kb_err kb_commit_add(struct kb_commit *c, const struct kb_event *ev, int64_t at_ms, struct kb_errmsg *msg);

/* The same of an event as the log has it: its number, which must be the next, and its time are its own, and what
 * follows from it stands in the log as well. KB_ECONFLICT: another number is the next. */
enum kb_err kb_commit_follow(struct kb_commit *c, const struct kb_event *ev, struct kb_errmsg *msg);

/* Commits the batch, which is empty afterwards. A failure of grow or append: nothing has changed. */
enum kb_err kb_commit_run(struct kb_commit *c, const struct kb_commit_hooks *hooks);
/* add and run, for a batch of one. After a failure nothing has changed. */
enum kb_err kb_commit_one(struct kb_commit *c, const struct kb_event *ev, int64_t at_ms,
                          const struct kb_commit_hooks *hooks, struct kb_errmsg *msg);
/* What the engine wants for itself before the next event (a reset, the end of a build), as a batch of one. KB_OK also
 * where there is nothing, as before the first event. */
enum kb_err kb_commit_due(struct kb_commit *c, int64_t at_ms, const struct kb_commit_hooks *hooks,
                          struct kb_errmsg *msg);
/* Runs what has only been begun, and puts it in force: for callers that have no threads to lend builds to. */
enum kb_err kb_commit_finish_builds(struct kb_commit *c, int64_t at_ms, const struct kb_commit_hooks *hooks,
                                    struct kb_errmsg *msg);
/* Forgets the batch. */
void kb_commit_drop(struct kb_commit *c);

/* Once a batch, or when somebody asks. A failure costs nothing but freshness. */
enum kb_err kb_commit_settle(struct kb_engine *e, const struct kb_commit_hooks *hooks);

/* One event as the log has it, for folds: what follows from it stands in the log as well. No readers. On failure
 * nothing has changed. */
enum kb_err kb_engine_fold(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);

#endif
