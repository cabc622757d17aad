/* Work beside a tenant's writer: what all of it has in common.
 *
 *     writer   start, or one of the moments: has something for a thread to do        RESTS
 *     thread   run, without a lock, beside the traffic                               RUNS
 *     writer   finish, at the beginning of a turn, when nothing is staged            HAS_RUN -> RESTS, or WAITS
 *
 * A kind of task is a row of ld_tasks (task/tasks.c), and a tenant has at most one task of a kind. One that somebody
 * has asked for ends with its answer; the others stay, resting, with what they know, until the tenant goes. A task that
 * runs holds its tenant, and none is begun any more when the tenant is halting. Its end needs no memory: the thread
 * leaves a state and wakes the writer. */
#ifndef LD_TASK_H
#define LD_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tenant/sched.h"

struct ld_op;
struct ld_tenant;

/* What is to be done next of something long. */
enum ld_chore {
    LD_CHORE_NONE,
    LD_CHORE_LATER, /* a turn with the timer's next tick */
    LD_CHORE_NOW    /* another turn */
};

enum ld_moment {
    LD_AT_COMMIT,    /* the writer's: a batch is committed, and not answered yet */
    LD_AT_BATCH_END, /* the writer's: it is answered */
    LD_AT_TURN_END,  /* the writer's: nothing is staged */
    LD_AT_TICK,      /* the loop's, four times a second: what it says does not matter */
    LD_AT_REST,      /* nobody else has the tenant, and it is about to be closed */
    LD_N_MOMENTS
};

/* The first member of every kind's own structure. */
struct ld_task {
    const struct ld_task_kind *kind;
    struct ld_tenant *t;
    struct ld_task *next; /* of the tenant's; under the queue's lock */
    struct ld_op *op;     /* to be answered with the end of the task; NULL: nobody has asked */
    atomic_size_t bytes;  /* of what it keeps, as far as that is large */
    enum { LD_TASK_RESTS, LD_TASK_RUNS, LD_TASK_HAS_RUN, LD_TASK_WAITS } _Atomic state;
};

/* `task` is the kind's own structure. Functions that are NULL have nothing to do. */
struct ld_task_kind {
    size_t size; /* of that structure, zeros at first but for its struct ld_task */
    enum ld_threads threads;
    bool is_for_read_only;    /* a tenant that takes no changes has it, too */
    bool has_engine;          /* what runs works on the engine in force: it is not exchanged meanwhile */
    bool takes_turn;          /* where a log is shared, who asks is answered by its tip */
    bool is_lasting;          /* who asks finds the same one each time, and start answers; `busy` is not looked at */
    const char *busy;         /* to who asks for it while it is under way */
    void (*init)(void *task); /* before anybody sees it */
    /* The writer's, for an op that asks: LD_KEPT, or all is said in op, and the task ends unless it lasts. */
    int (*start)(void *task, struct ld_op *op);
    /* The writer's: an op that is to be staged is the task's instead, which has it answered. */
    bool (*keep)(struct ld_tenant *t, struct ld_op *op);
    enum ld_chore (*at[LD_N_MOMENTS])(struct ld_tenant *t);
    void (*run)(void *task);
    void (*finish)(void *task);
    void (*cancel)(void *task); /* from any thread, under the queue's lock: what runs ends soon */
    void (*drop)(void *task);   /* what it owns, but its op, before it is freed */
};

/* All kinds; NULL ends them. */
extern const struct ld_task_kind *const ld_tasks[];

/* The tenant's task of a kind; NULL: it has none. */
void *ld_task_find(const struct ld_tenant *t, const struct ld_task_kind *kind);
/* The same, made when there is none; NULL: no memory. */
void *ld_task_of(struct ld_tenant *t, const struct ld_task_kind *kind);
/* From any thread: shows a task that is there to `visit`, which takes no lock; it cannot go meanwhile. False: there is
 * none. */
bool ld_task_visit(struct ld_tenant *t, const struct ld_task_kind *kind, void (*visit)(void *task, void *arg),
                   void *arg);
/* From the moment that it is to run until it has been finished. */
bool ld_task_is_under_way(const struct ld_tenant *t, const struct ld_task_kind *kind);
/* Has it run, once. False: no thread, no memory, or the tenant is halting. From the writer, or from the loop. */
bool ld_task_run(struct ld_task *task);
/* The same by the writer itself: it has been run when this returns, and is not finished. */
bool ld_task_run_here(struct ld_task *task);
/* Instead of what finish was to do: it is called again in each turn until another task is no longer in the way. */
void ld_task_wait(struct ld_task *task);
/* The tenant has it no longer; its op is answered with what it says, and all is freed. */
void ld_task_end(struct ld_task *task);

/* For an op that asks for op->task: its expand. */
int ld_task_expand(struct ld_tenant *t, struct ld_op *op);
bool ld_tasks_keep(struct ld_tenant *t, struct ld_op *op);
/* At a moment: what the most urgent of all wants. */
enum ld_chore ld_tasks_at(struct ld_tenant *t, enum ld_moment moment);
/* At the beginning of a turn: finishes what has run. */
void ld_tasks_finish(struct ld_tenant *t);
bool ld_tasks_have_run(struct ld_tenant *t);
/* Whether one that is under way has the engine in its hands. */
bool ld_tasks_have_engine(struct ld_tenant *t);
size_t ld_tasks_bytes(struct ld_tenant *t);
void ld_tasks_drop(struct ld_tenant *t); /* with the tenant; ops are told */

#endif
