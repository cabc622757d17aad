/* The evaluation that a request asks for: each of its policies by itself over the tenant's own log, up to the event
 * that was its last at the beginning, and one report of all.
 *
 * Memory: some buffers of constant size and a model for each policy that learns, which may take max_bytes together. */
#ifndef LD_OWN_EVALUATION_H
#define LD_OWN_EVALUATION_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/message.h"
#include "types/evaluation.h"

struct ld_ope_policy;
struct ld_own_entry;
struct ld_store;

#define LD_OWN_POLICY_BYTES ((size_t)1 << 20) /* of a policy's sums over blocks of decisions, and of the bootstrap */

struct ld_own_evaluation {
    const struct ld_evaluation_request *request;
    struct ld_store *store;
    uint64_t last;                    /* event that it ends with */
    struct ld_metric_settings metric; /* that is judged */
    bool has_metric;                  /* else the reward is */
    size_t max_bytes;                 /* of the models; 0: any */
    bool (*is_ended)(void *arg);      /* asked at each line: true ends it */
    void *arg;
    atomic_size_t *bytes; /* told what it holds */
    _Atomic double progress;
    atomic_bool is_too_large;          /* it ended by max_bytes */
    pthread_mutex_t *lock;             /* of `learning` */
    struct ld_ope_policy *learning[2]; /* for who cancels: the policy in hand, and the model of dr */
    char *result;                      /* JSON, the caller's to free; NULL: it failed, and `why` says it */
    struct ld_message why;
    /* Its own: */
    size_t at, pass; /* policy in hand, and passes over the log that it has begun */
    uint64_t seen;
    struct ld_own_entry *entry;
    struct ld_ope_report *report;
};

/* Cost: some folds of the log for each policy, 10 us a line, and a decision for each decision. */
void ld_own_evaluation_run(struct ld_own_evaluation *e);
/* From any thread, with the lock: what models compute ends soon. is_ended is true by then. */
void ld_own_evaluation_cancel(struct ld_own_evaluation *e);

#endif
