/* A compaction of a tenant's log: what the writer (compact.c; compact_shared.c across servers) and its job
 * (compact_fold.c) share. Included by those only. */
#ifndef LD_COMPACT_H
#define LD_COMPACT_H

#include "base/message.h"
#include "tenant/shared_await.h"
#include "tenant/tenant_state.h"

enum ld_compact_state {
    LD_COMPACT_WAITING, /* for a reset behind what is to go, or for the rows of the last one to be trimmed */
    LD_COMPACT_FOLDING, /* the job has it */
    LD_COMPACT_STAGING, /* lines go into the file, some in each turn */
    LD_COMPACT_AWAITED  /* the shared log begins with them, and the job waits for other servers */
};

struct ld_compaction {
    struct ld_task task; /* its op NULL: the tenant's own */
    enum ld_compact_state state;
    uint64_t wanted;          /* the last event that is to go */
    atomic_bool is_cancelled; /* by the writer, while the job has it */
    /* The job's results: */
    bool is_ok;           /* else `why`; "" where nothing would be gained */
    uint64_t first, last; /* lines of the log that go */
    struct ld_row *row;   /* [n] lines of the summary; their texts are owned, columns are in `names` */
    size_t n, cap;
    char **name; /* [n_names] owned */
    size_t n_names, cap_names;
    struct ld_message why;
    size_t n_staged;
    /* Where a log is shared: */
    uint64_t n_rewrites; /* of the log, when the fold began */
    uint64_t generation; /* of the compaction, when it is in the log */
    struct ld_laggards laggards;
};

enum ld_chore ld_compaction_fail(struct ld_compaction *x, const char *why);
void ld_compaction_conclude(struct ld_compaction *x, bool is_done);
/* The writer's, of a summary that is folded: into the shared log. */
enum ld_chore ld_compaction_send(struct ld_compaction *x);

/* Folds the log up to `wanted`, or a little less, and writes down what that leaves. In any thread, without a lock. */
void ld_compaction_fold(struct ld_compaction *x);
void ld_compaction_drop(void *task);

#endif
