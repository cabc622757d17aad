/* Inside of an erasure: erase.c, and erase_shared.c where several servers share the log. */
#ifndef LD_ERASE_IMPL_H
#define LD_ERASE_IMPL_H

#include "base/text.h"
#include "task/redact.h"
#include "tenant/refold.h"
#include "tenant/shared_await.h"
#include "tenant/tenant_state.h"

#define LD_ERASE_ROWS 2

struct ld_erasure {
    struct ld_task task;
    struct ld_refold fold; /* its engine is the one to come */
    struct ld_redactor redactor;
    struct ld_row row[LD_ERASE_ROWS]; /* [n_rows] that come behind the log; texts owned */
    size_t n_rows;
    bool is_ok;
    /* Where a log is shared: */
    enum { LD_ERASE_FOLDS, LD_ERASE_BUILDS, LD_ERASE_WAITS } phase; /* what is to be run */
    uint64_t n_rewrites;                                            /* of the log, when its fold began */
    unsigned n_folds;
    uint64_t seq, generation; /* of the erasure, when it is in the log */
    struct ld_laggards laggards;
};

/* A fold that begins at the log's first line, in the place of one that may be there. False: no memory. */
bool ld_erase_open(struct ld_erasure *x);
/* The event as the next of the rows. */
enum kb_err ld_erase_add_row(struct ld_erasure *x, const struct kb_event *ev);
/* What else of the user the folder has. 0, or -1 with why. */
int ld_erase_leftovers(struct ld_erasure *x);
/* Answers that nothing was changed. */
void ld_erase_fail(struct ld_erasure *x, const char *told);
/* A change of the model that came in between has begun its own build: one more round. Without an open build there is
 * nothing to finish, and never will be. */
bool ld_erase_needs_round(struct ld_erasure *x);

/* erase_shared.c: what is run, and finished, from the fold on. */
void ld_erase_wait(struct ld_erasure *x);
void ld_erase_finish_shared(struct ld_erasure *x);

#endif
