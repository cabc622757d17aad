/* What the threads of requests share of a tenant beside its writer: holds, the locks of the model, memory of decisions,
 * the rate of its requests, and the figures that they are told. */
#ifndef LD_READERS_H
#define LD_READERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limit.h"

struct kb_scratch;
struct ld_tenant;

#define LD_POOL_SCRATCHES 32

struct ld_readers {
    atomic_size_t n_holders;
    pthread_rwlock_t lock;
    pthread_rwlock_t deciding; /* for decisions, of what they look at alone (see ld_tenant_write_lock) */
    /* By who has them for writing: since when, and whether decisions are kept out, too. */
    int64_t locked_us, locked_cpu_us;
    bool keeps_out_decisions;
    pthread_mutex_t pool_lock;
    struct kb_scratch *scratch[LD_POOL_SCRATCHES];
    size_t n_scratches;
    struct ld_bucket bucket;
    atomic_bool has_rate; /* of its own, below; else the world's holds */
    _Atomic double own_rate, own_burst;
    atomic_size_t n_served;
    atomic_bool is_held; /* what one server of a shared log does for all is this one's */
    /* After the writer's last turn: */
    atomic_size_t n_points, n_active_arms, bytes;
    _Atomic uint64_t n_learned, log_first; /* log_first: number of the log's first line */
    _Atomic uint32_t n_dims;
    size_t store_bytes; /* that SQLite had at store_weighed_ms; 0: not asked yet. The writer's */
    int64_t store_weighed_ms;
};

/* tenant_select.c. Memory of a reader, as many as ever ran at the same time; NULL: no memory. It is one reader's until
 * he gives it back; its contents mean nothing to the next. */
struct kb_scratch *ld_tenant_take_scratch(struct ld_tenant *t);
void ld_tenant_give_scratch(struct ld_tenant *t, struct kb_scratch *s);

#endif
