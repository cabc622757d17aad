/* A tenant's life, its locks and what readers may ask of it. See tenant_state.h for who may touch what.
 *
 * The lock prefers the writer: with readers preferred, a stream of /select would keep a reward from being applied for
 * ever. Readers hold it for one decision, the writer for one apply.
 *
 * Files: DATA/tenants/NAME.db (the log) and NAME.snapshot (a cache of the model; may be deleted at will).
 *
 * Holds: the registry has one, each request that a handler works on another, the scheduler one while a job waits or
 * runs, which covers the ops in the line. Whoever lets go last closes the file; of a doomed tenant that removes it,
 * too. So a tenant is never freed under anybody, and nobody waits for others to let go (but the registry a little,
 * registry.c).
 *
 * A tenant is open (tenant_open.c) exactly when it is in memory: there is no half-open state, and no call here fails
 * later because opening was put off. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "store/folder.h"
#include "base/hash_key.h"
#include "base/metrics.h"
#include "json/json_doc.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/readers.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"

#define STORE_WEIGHED_MS 100

/* A tenant with what its header only points to. */
struct whole {
    struct ld_tenant tenant;
    struct ld_queue queue;
    struct ld_readers readers;
    struct ld_batch batch;
};

/* The attribute is glibc's; non-recursive means that a reader must not take the lock twice, and none does.
 * Initialisation cannot fail on Linux, so results are not looked at. */
static void init_locks(struct ld_tenant *t)
{
    pthread_rwlockattr_t attr;

    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&t->readers->lock, &attr);
    pthread_rwlock_init(&t->readers->deciding, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&t->queue->lock, NULL);
    pthread_mutex_init(&t->readers->pool_lock, NULL);
    pthread_mutex_init(&t->books.lock, NULL);
}

/* Nobody holds t. Its line is empty: who waits there holds it. The file is closed before it is removed. NULL parts,
 * of an opening that failed, are fine. */
static void tenant_free(struct ld_tenant *t)
{
    ld_tasks_drop(t);
    ld_books_close(&t->books);
    ld_store_close(t->store);
    if (atomic_load(&t->is_doomed))
        ld_folder_remove(t->world->data_dir, t->name);
    kb_engine_free(t->engine);
    for (size_t i = 0; i < t->readers->n_scratches; i++)
        kb_engine_scratch_free(t->readers->scratch[i]);
    kb_commit_free(&t->batch->commit);
    kb_free(t->batch->beside);
    kb_free(t->batch->row);
    pthread_rwlock_destroy(&t->readers->lock);
    pthread_rwlock_destroy(&t->readers->deciding);
    pthread_mutex_destroy(&t->queue->lock);
    pthread_mutex_destroy(&t->readers->pool_lock);
    pthread_mutex_destroy(&t->books.lock);
    free(t);
}

/* The bucket's fill is as it was; only how fast it fills is another. */
void ld_tenant_follow_rate(struct ld_tenant *t)
{
    const bool is_own = atomic_load(&t->readers->has_rate);
    const struct ld_rate rate = {.rate = is_own ? t->readers->own_rate : t->world->rate,
                                 .burst = is_own ? t->readers->own_burst : t->world->burst};

    ld_bucket_set(&t->readers->bucket, &rate);
}

/* Under the registry's lock, hence one at a time; the timer, which may follow meanwhile, follows again. */
void ld_tenant_set_rate(struct ld_tenant *t, const struct ld_rate *own)
{
    if (own != NULL) {
        t->readers->own_rate = own->rate;
        t->readers->own_burst = own->burst;
    }
    atomic_store(&t->readers->has_rate, own != NULL);
    ld_tenant_follow_rate(t);
}

/* In one piece of memory, which ends with the tenant's. */
struct ld_tenant *ld_tenant_new(const struct ld_world *world, const char *name)
{
    static const struct ld_turn_ops turns = {ld_tenant_run_writer, ld_tenant_hold, ld_tenant_release};
    struct whole *whole = calloc(1, sizeof *whole);

    if (whole == NULL)
        return NULL;
    struct ld_tenant *t = &whole->tenant;
    t->queue = &whole->queue;
    t->readers = &whole->readers;
    t->batch = &whole->batch;
    t->world = world;
    t->progress = world->progress;
    t->served.above = world->progress;
    t->queue->turn = (struct ld_turn){.tenant = t, .ops = &turns};
    kb_ids_init(&t->batch->ids, ld_hash_key());
    atomic_init(&t->readers->n_holders, 1);
    atomic_init(&t->next_expiry_ms, INT64_MAX);
    atomic_init(&t->next_look_ms, INT64_MAX);
    atomic_init(&t->readers->log_first, 1);
    atomic_init(&t->log_kept, 1);
    snprintf(t->name, sizeof t->name, "%s", name);
    if (ld_folder_path(world->data_dir, name, ".db", t->db_path) != 0 ||
        ld_folder_path(world->data_dir, name, ".snapshot", t->snapshot_path) != 0) {
        free(t);
        return NULL;
    }
    ld_tenant_follow_rate(t);
    init_locks(t);
    return t;
}

/* A failure leaves what was known: it is for people to read. */
void ld_tenant_note_start(struct ld_tenant *t)
{
    uint64_t first, kept;

    if (ld_store_start(t->store, &first, &kept) != LD_STORE_OK)
        return;
    atomic_store(&t->readers->log_first, first);
    atomic_store(&t->log_kept, kept);
}

/* Only from somebody who holds it, or under the registry's lock. Returns t, for use in expressions. */
struct ld_tenant *ld_tenant_hold(struct ld_tenant *t)
{
    atomic_fetch_add(&t->readers->n_holders, 1);
    return t;
}

/* The last one closes the file and, of a doomed tenant, removes it: some tens of milliseconds at worst. NULL is fine.
 */
void ld_tenant_release(struct ld_tenant *t)
{
    if (t != NULL && atomic_fetch_sub(&t->readers->n_holders, 1) == 1)
        tenant_free(t);
}

/* For the registry's patience and for tests; it may change at once. */
size_t ld_tenant_n_holders(const struct ld_tenant *t)
{
    return atomic_load(&t->readers->n_holders);
}

/* Irrevocable. What is in the line is answered 404 by the writer, what comes after by ld_tenant_submit. Decisions
 * that are being computed finish; their ops are refused like all others. */
void ld_tenant_doom(struct ld_tenant *t)
{
    atomic_store(&t->is_doomed, true);
    ld_tenant_halt(t);
}

/* The same for the life of the tenant: it may be read without a lock and kept while t is held. */
const char *ld_tenant_name(const struct ld_tenant *t)
{
    return t->name;
}

/* The epoch travels with the op: a body decoded for other dimensions is found out under the lock, not trusted.
 * Returns the epoch. Waits for an apply at most. */
uint32_t ld_tenant_dims(struct ld_tenant *t, struct ld_doc *doc, uint32_t *context_dim, uint32_t *arm_dim)
{
    uint32_t epoch;

    pthread_rwlock_rdlock(&t->readers->deciding);
    epoch = t->dims_epoch;
    *context_dim = t->settings.spec.context_dim;
    *arm_dim = t->settings.spec.arm_dim;
    if (doc != NULL)
        ld_doc_map_names(doc, &t->settings.features, t->world->max_feature_bytes);
    pthread_rwlock_unlock(&t->readers->deciding);
    return epoch;
}

/* Keep it short: the writer waits for every reader, and new readers wait for the writer. Never in a thread that holds
 * the lock already: a writer waiting in between would block both for ever. */
const struct kb_engine *ld_tenant_read_lock(struct ld_tenant *t, const struct ld_settings **settings)
{
    pthread_rwlock_rdlock(&t->readers->lock);
    if (settings != NULL)
        *settings = &t->settings;
    return t->engine;
}

uint32_t ld_tenant_arms_epoch(const struct ld_tenant *t)
{
    return t->arms_epoch;
}

void ld_tenant_read_unlock(struct ld_tenant *t)
{
    pthread_rwlock_unlock(&t->readers->lock);
}

/* The time that this thread spent at the processor is counted beside the clock's: a hold that is long by the clock
 * alone was one whose thread the machine had no room for. */
static void write_lock(struct ld_tenant *t, bool keeps_out_decisions)
{
    pthread_rwlock_wrlock(&t->readers->lock);
    if (keeps_out_decisions)
        pthread_rwlock_wrlock(&t->readers->deciding);
    t->readers->keeps_out_decisions = keeps_out_decisions;
    t->readers->locked_us = ld_monotonic_us();
    t->readers->locked_cpu_us = ld_thread_cpu_us();
}

/* With one lock for all, each commit of a decision would wait for those that are being computed, and keep the next from
 * beginning: with two threads at it, half of the time. */
void ld_tenant_write_lock(struct ld_tenant *t)
{
    write_lock(t, true);
}

void ld_tenant_write_lock_unseen(struct ld_tenant *t)
{
    write_lock(t, false);
}

void ld_tenant_write_unlock(struct ld_tenant *t)
{
    struct ld_metrics *m = t->world->metrics;
    const int64_t us = ld_monotonic_us() - t->readers->locked_us,
                  cpu_us = ld_thread_cpu_us() - t->readers->locked_cpu_us;

    if (t->readers->keeps_out_decisions)
        pthread_rwlock_unlock(&t->readers->deciding);
    pthread_rwlock_unlock(&t->readers->lock);
    ld_histogram_add(&m->write_lock, us);
    ld_raise(&m->write_lock_cpu_max_us, cpu_us);
}

/* By stat, and from what was noted when the log's start last changed. */
void ld_tenant_log(const struct ld_tenant *t, struct ld_log_view *out)
{
    struct ld_lag lag;
    struct stat st;

    ld_tenant_lag(t, &lag);
    *out = (struct ld_log_view){.first = atomic_load(&t->readers->log_first),
                                .summarized = atomic_load(&t->log_kept) - 1,
                                .bytes = (uint64_t)ld_store_bytes(t->store),
                                .is_compacting = atomic_load(&t->is_compacting),
                                .is_shared = t->world->shared != NULL,
                                .lag_events = lag.events,
                                .lag_us = lag.us};
    if (stat(t->snapshot_path, &st) == 0)
        out->bytes += (uint64_t)st.st_size;
}

/* Any thread may read through it; only the writer appends. */
struct ld_store *ld_tenant_store(struct ld_tenant *t)
{
    return t->store;
}

uint64_t ld_tenant_tip(const struct ld_tenant *t)
{
    return atomic_load(&t->tip);
}

struct ld_books *ld_tenant_books(struct ld_tenant *t)
{
    return &t->books;
}

uint64_t ld_tenant_read_only(const struct ld_tenant *t, const char **fault)
{
    *fault = t->fault.text;
    return t->read_only_from;
}

bool ld_tenant_has_held_work(const struct ld_tenant *t)
{
    return atomic_load(&t->has_challengers) || atomic_load(&t->next_look_ms) != INT64_MAX;
}

bool ld_tenant_is_held(const struct ld_tenant *t)
{
    return t->world->shared == NULL || atomic_load(&t->readers->is_held);
}

void ld_tenant_set_held(struct ld_tenant *t, bool is_held)
{
    atomic_store(&t->readers->is_held, is_held);
}

bool ld_tenant_is_rebuilding(const struct ld_tenant *t)
{
    return atomic_load(&t->is_rebuilding);
}

/* Set and cleared by the commit cycle; readiness asks. */
bool ld_tenant_is_failing(const struct ld_tenant *t)
{
    return atomic_load(&t->is_failing);
}

/* The writer's: what ld_tenant_size tells. Before the answers, so that who was told of a change is judged by it. */
void ld_tenant_measure(struct ld_tenant *t, const struct kb_engine_counts *counts)
{
    atomic_store(&t->readers->n_points, counts->width);
    atomic_store(&t->readers->n_active_arms, counts->active_arms);
    atomic_store(&t->readers->n_learned, counts->learned);
    atomic_store(&t->readers->n_dims, t->settings.spec.context_dim + t->settings.spec.arm_dim);
    atomic_store(&t->has_challengers, t->settings.n_challengers > 0 && t->read_only_from == 0);
    atomic_store(&t->tip, counts->seq);
}

/* The writer's: the engine stands still under it. What SQLite has is asked for now and then: it counts its pages one by
 * one, which is a twelfth of a full turn's work, and its cache has a bound. */
void ld_tenant_weigh(struct ld_tenant *t)
{
    struct kb_engine_counts counts;

    if (t->readers->store_bytes == 0 || t->now_ms - t->readers->store_weighed_ms >= STORE_WEIGHED_MS ||
        t->now_ms < t->readers->store_weighed_ms) {
        t->readers->store_bytes = ld_store_memory(t->store);
        t->readers->store_weighed_ms = t->now_ms;
    }
    kb_engine_counts(t->engine, &counts);
    ld_tenant_measure(t, &counts);
    atomic_store(&t->model_bytes, kb_engine_bytes(t->engine));
    atomic_store(&t->readers->bytes, sizeof(struct whole) + t->model_bytes + ld_tasks_bytes(t) +
                                         ld_books_bytes(&t->books) + t->readers->store_bytes +
                                         t->batch->cap * sizeof *t->batch->beside +
                                         t->batch->commit.cap * sizeof *t->batch->commit.event +
                                         t->batch->cap_rows * sizeof *t->batch->row);
}

uint64_t ld_tenant_unknown_rewards(const struct ld_tenant *t)
{
    return atomic_load_explicit(&t->books.n_unknown, memory_order_relaxed);
}

size_t ld_tenant_bytes(const struct ld_tenant *t)
{
    return atomic_load_explicit(&t->readers->bytes, memory_order_relaxed);
}

/* Each is of the last batch, if not all of the same one: prices need not be exact. */
void ld_tenant_size(const struct ld_tenant *t, struct ld_size *out)
{
    out->points = atomic_load_explicit(&t->readers->n_points, memory_order_relaxed);
    out->active_arms = atomic_load_explicit(&t->readers->n_active_arms, memory_order_relaxed);
    out->learned = atomic_load_explicit(&t->readers->n_learned, memory_order_relaxed);
    out->dims = atomic_load_explicit(&t->readers->n_dims, memory_order_relaxed);
}

struct ld_bucket *ld_tenant_bucket(struct ld_tenant *t)
{
    return &t->readers->bucket;
}

atomic_size_t *ld_tenant_n_served(struct ld_tenant *t)
{
    return &t->readers->n_served;
}

/* The one hold is the table's, so nobody works with it, in whatever thread, and nothing waits: the scheduler and jobs
 * hold it, too. What is left is what memory alone knows (a failing disk, a write-ahead log that is to be cut) and
 * what a snapshot cannot hold (an open build). */
bool ld_tenant_is_idle(const struct ld_tenant *t)
{
    return atomic_load(&t->readers->n_holders) == 1 && !atomic_load(&t->is_failing) && !atomic_load(&t->must_scrub) &&
           !atomic_load(&t->has_chores) && !atomic_load(&t->is_compacting) &&
           (t->read_only_from > 0 || !kb_engine_is_building(t->engine));
}
