/* Snapshots of a tenant beside its writer. Part of tenant_impl.h: included by the files named there only. */
#ifndef LD_SAVING_H
#define LD_SAVING_H

#include <stdbool.h>
#include <stdint.h>

struct ld_tenant;

/* The writer's books of snapshots. */
struct ld_saving {
    struct ld_snapshot_job *job; /* on its way to the file; NULL: none */
    uint64_t seq;                /* of the last snapshot, or of the last attempt */
    int64_t tail_us;             /* what folding the log since then would take, roughly: what applying it took */
    int64_t took_us;             /* the last attempt; 0: none yet */
};

/* At the end of a turn, and when a build has ended: begins one when it is due and may be had. */
void ld_saving_start(struct ld_tenant *t);
/* The job's op has come: its result is counted, what it held is let go. Nothing to do without a job. */
void ld_saving_finish(struct ld_tenant *t);
/* In the calling thread, for a tenant at rest. */
void ld_saving_now(struct ld_tenant *t);

#endif
