/* The fold of a tenant's whole log beside the traffic, for jobs that want the model once more (verify.c) or another one
 * (erase.c):
 *
 *     job      catch_up: folds what is there and builds what the log has begun, until little has come meanwhile
 *     writer   tail: the rest, in its own turn, so that nothing can come in between
 *
 * It ends early when it is cancelled, or its tenant is to be closed. Whoever rewrites the log (ld_tenant.n_rewrites)
 * makes those under way worthless. */
#ifndef LD_REFOLD_H
#define LD_REFOLD_H

#include <stdatomic.h>

#include "base/message.h"
#include "tenant/fold.h"

struct ld_tenant;

struct ld_refold {
    struct ld_tenant *t;
    struct kb_engine *engine;
    struct ld_fold fold;    /* its sink is the engine; the owner may put another `take` before it */
    struct ld_message why;  /* a failure in words; fold.rc LD_STORE_CORRUPT: the log itself is at fault */
    struct kb_build *build; /* being run; under the lock of the tenant's queue */
    atomic_bool is_cancelled;
    /* For whoever looks, from any thread: lines that were folded, and the share of the log, never backwards and never
     * whole. */
    _Atomic uint64_t n_seen;
    _Atomic double progress;
    uint64_t last; /* of the log, as the job has seen it */
};

/* An empty engine for the tenant's log; events before quiet_until teach only the history
 * (kb_engine_fold_quietly_until). KB_ENOMEM: nothing to close. Open and close are the writer's calls. */
enum kb_err ld_refold_open(struct ld_refold *f, struct ld_tenant *t, uint64_t quiet_until);
void ld_refold_close(struct ld_refold *f); /* the engine too, unless it was taken (NULL) */

/* False with why. */
bool ld_refold_catch_up(struct ld_refold *f);
bool ld_refold_tail(struct ld_refold *f);
/* Runs what was begun there, once: false with why. */
bool ld_refold_build(struct ld_refold *f);

/* It ends at its next line, and what it builds soon; the lock of the tenant's queue is held. */
void ld_refold_cancel(struct ld_refold *f);

#endif
