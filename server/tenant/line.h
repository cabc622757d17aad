/* The line in which ops wait for their tenant's writer, and how the writer gets on with it: queue.c's own. Who looks at
 * a tenant's tasks takes its lock. */
#ifndef LD_LINE_H
#define LD_LINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenant/turns.h"

struct ld_op;
struct ld_tenant;

#define LD_TURN_OPS 1024 /* ops taken in one turn */

struct ld_queue {
    struct ld_turn turn; /* the tenant's, of writers */
    atomic_bool is_due;  /* the timer has asked for a turn, see ld_tenant_tick */
    pthread_mutex_t lock;
    struct ld_op *head, *tail;
    size_t depth, queued_bytes;
    _Atomic int64_t waiting_since_us; /* see ld_tenant_waiting_since; set under the lock */
    _Atomic int64_t turn_us;          /* when the writer's turn began, on the monotonic clock; 0: it rests */
    _Atomic int64_t us_per_op;        /* that the last turns took */
    size_t n_turned;                  /* ops of the last turn; the writer's */
};

/* How long the writer takes with what it takes from the line: from the beginning of a turn to its end, of n
 * ops. */
void ld_queue_begin_turn(struct ld_tenant *t);
void ld_queue_end_turn(struct ld_tenant *t, size_t n);

/* Up to max ops in order of arrival, linked. */
struct ld_op *ld_queue_take(struct ld_tenant *t, size_t max);
void ld_queue_moved(struct ld_tenant *t, bool is_end);

#endif
