/* The kinds of work beside a tenant's writer (tenant/task.h), each in a file of its own. */
#ifndef LD_TASKS_H
#define LD_TASKS_H

#include "tenant/task.h"

/* clang-format off */
/* All, in the order in which they have their moments, and in which what has run is finished. */
#define LD_TASKS(KIND) \
    KIND(ld_graph_changing) /* large changes of the graph: graph_change.c */ \
    KIND(ld_compaction)     /* the log's beginning summarized: compact.c */ \
    KIND(ld_erasure)        /* a user's data taken out: erase.c */ \
    KIND(ld_verification)   /* the model compared with its log: verify.c */ \
    KIND(ld_building)       /* models made anew over a long history: background.c */ \
    KIND(ld_bookkeeping)    /* what is counted over the log: bookkeeping.c */ \
    KIND(ld_saving)         /* snapshots: saving.c */ \
    KIND(ld_evaluating)     /* what other policies would have earned: evaluation.c */ \
    KIND(ld_remembering)    /* how the model went: model_history.c */ \
    KIND(ld_following)      /* challengers that follow the log: challenger.c */
/* clang-format on */

#define LD_DECLARE_TASK(kind) extern const struct ld_task_kind kind;
LD_TASKS(LD_DECLARE_TASK)
#undef LD_DECLARE_TASK

/* What tasks ask of others, in the writer's turns. */
bool ld_building_has_failed(const struct ld_tenant *t); /* for want of memory, and is to be tried again later */
/* Events up to `wanted` are to go, and nobody waits for that. No compaction is under way. */
void ld_compaction_begin(struct ld_tenant *t, uint64_t wanted);
/* Something that cannot go on beside it is about to begin: it ends without effect, now or when its job comes back. */
void ld_compaction_cancel(struct ld_tenant *t);
bool ld_compaction_clear(struct ld_tenant *t); /* deletes all that is no part of the log; false: the disk refused */
/* Begins a compaction where the tenant's retention asks for one; none is under way. */
void ld_retain(struct ld_tenant *t);

#endif
