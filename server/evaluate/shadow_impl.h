/* A shadow from within: shadow.c, which commits events of its own, and shadow_log.c, which makes them of the log's. */
#ifndef LD_SHADOW_IMPL_H
#define LD_SHADOW_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "model/commit.h"
#include "evaluate/shadow.h"

struct ld_shadow {
    struct kb_engine *engine;
    struct kb_spec asked;          /* by the caller */
    struct kb_spec spec;           /* the same with the log's books */
    uint32_t context_dim, arm_dim; /* of the log */
    bool has_begun;                /* the engine is configured */
    bool is_settled;
    struct kb_commit commit; /* of its own events */
    uint64_t cursor, n_read, n_passed;
    int64_t at_ms;              /* of the log's last event */
    struct kb_scratch *scratch; /* of probabilities, with the candidates of the last one */
    struct kb_candidate *candidate;
    size_t cap_candidates;
    ld_shadow_keep *keep;
    void *keep_arg;
    atomic_bool is_cancelled;
    pthread_mutex_t lock; /* of build, which ld_shadow_cancel ends */
    struct kb_build *build;
};

/* Configures the engine, unless it is. */
enum kb_err ld_shadow_begin(struct ld_shadow *s, int64_t at_ms, struct kb_errmsg *msg);

/* One event and what follows from it, numbered here. After a failure nothing has changed. */
enum kb_err ld_shadow_commit(struct ld_shadow *s, struct kb_event ev, struct kb_errmsg *msg);

/* Runs and finishes what the last event has begun. */
enum kb_err ld_shadow_finish(struct ld_shadow *s, int64_t at_ms, struct kb_errmsg *msg);

/* The same for an event of traffic: with what the engine itself wants done before it, and all finished behind it. */
enum kb_err ld_shadow_learn(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg);

#endif
