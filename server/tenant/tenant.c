/* A tenant's life, its locks and what readers may ask of it. See tenant_impl.h for who may touch what.
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
 * A tenant is open exactly when it is in memory: there is no half-open state, and no call here fails later because
 * opening was put off. When that is, is the registry's business (registry_opening.c, registry_closing.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "store/folder.h"
#include "base/hash_key.h"
#include "base/log.h"
#include "base/metrics.h"
#include "json/json_doc.h"
#include "tenant/recover.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"

#define STORE_WEIGHED_MS 100
#define BOOK_LINES 10000u /* that books may lack and are given while the tenant is opened; else beside the traffic */

/* The attribute is glibc's; non-recursive means that a reader must not take the lock twice, and none does.
 * Initialisation cannot fail on Linux, so results are not looked at. */
static void init_locks(struct ld_tenant *t)
{
    pthread_rwlockattr_t attr;

    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&t->lock, &attr);
    pthread_rwlock_init(&t->deciding, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&t->queue_lock, NULL);
    pthread_mutex_init(&t->pool_lock, NULL);
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
    for (size_t i = 0; i < t->n_scratches; i++)
        kb_engine_scratch_free(t->scratch[i]);
    kb_commit_free(&t->batch.commit);
    kb_free(t->batch.beside);
    kb_free(t->batch.row);
    pthread_rwlock_destroy(&t->lock);
    pthread_rwlock_destroy(&t->deciding);
    pthread_mutex_destroy(&t->queue_lock);
    pthread_mutex_destroy(&t->pool_lock);
    pthread_mutex_destroy(&t->books.lock);
    free(t);
}

/* The bucket's fill is as it was; only how fast it fills is another. */
void ld_tenant_follow_rate(struct ld_tenant *t)
{
    const bool is_own = atomic_load(&t->has_rate);
    const struct ld_rate rate = {.rate = is_own ? t->own_rate : t->world->rate,
                                 .burst = is_own ? t->own_burst : t->world->burst};

    ld_bucket_set(&t->bucket, &rate);
}

/* Under the registry's lock, hence one at a time; the timer, which may follow meanwhile, follows again. */
void ld_tenant_set_rate(struct ld_tenant *t, const struct ld_rate *own)
{
    if (own != NULL) {
        t->own_rate = own->rate;
        t->own_burst = own->burst;
    }
    atomic_store(&t->has_rate, own != NULL);
    ld_tenant_follow_rate(t);
}

/* Memory, locks and paths; no file is touched. NULL: no memory, or a path that does not fit. The caller has the first
 * hold. */
static struct ld_tenant *tenant_new(const struct ld_world *world, const char *name)
{
    static const struct ld_turn_ops turns = {ld_tenant_run_writer, ld_tenant_hold, ld_tenant_release};
    struct ld_tenant *t = calloc(1, sizeof *t);

    if (t == NULL)
        return NULL;
    t->world = world;
    t->turn = (struct ld_turn){.tenant = t, .ops = &turns};
    kb_ids_init(&t->batch.ids, ld_hash_key());
    atomic_init(&t->n_holders, 1);
    atomic_init(&t->next_expiry_ms, INT64_MAX);
    atomic_init(&t->next_look_ms, INT64_MAX);
    atomic_init(&t->log_first, 1);
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
    atomic_store(&t->log_first, first);
    atomic_store(&t->log_kept, kept);
}

/* Takes over what recovery found. The epoch starts at 1, so that an op whose dims_epoch nobody set (0) is never
 * current. */
static void adopt(struct ld_tenant *t, const struct ld_recovered *r)
{
    struct kb_engine_counts counts;

    t->engine = r->engine;
    t->settings = r->settings;
    t->seq = r->seq;
    t->snapshot_seq = r->snapshot_seq;
    t->dims_epoch = 1;
    if (r->is_snapshot_refused)
        atomic_fetch_add_explicit(&t->world->metrics->snapshots_refused, 1, memory_order_relaxed);
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    ld_tenant_note_start(t);
    if (t->read_only_from > 0)
        return;
    atomic_store(&t->next_expiry_ms, kb_engine_next_expiry(t->engine));
    if (t->settings.keep_events > 0 || t->settings.keep_age_ms > 0)
        atomic_store(&t->next_look_ms, 0);
    if (ld_store_has_leftovers(t->store, &t->has_leftovers) != LD_STORE_OK)
        t->has_leftovers = false; /* the next compaction finds them */
    atomic_store(&t->has_chores, t->has_leftovers || kb_engine_is_building(t->engine)); /* as the last run left it */
    atomic_store(&t->must_scrub, ld_store_wal_bytes(t->store) > 0);                     /* of a process that died */
    kb_engine_set_inline_work(t->engine, t->world->inline_work);
}

/* done() of the first event: it is answered in the thread that asked, which waits for nothing else. arg is a struct
 * ld_problem on that thread's stack. */
static void keep_problem(struct ld_op *op)
{
    *(struct ld_problem *)op->arg = *op->problem;
    ld_op_free(op);
}

/* Opens the file, and where it is another tenant's copy, a new one in its place. LD_STORE_*. */
static int open_store(struct ld_tenant *t, struct ld_message *why)
{
    const struct ld_world *w = t->world;
    const struct ld_store_care care = {.is_thorough = w->verify_on_start,
                                       .is_copy = w->shared != NULL,
                                       .is_over = ld_progress_is_over,
                                       .arg = w->progress};
    bool is_away = false;
    int rc = ld_store_open_with(&t->store, t->db_path, &care, why);

    if (rc == LD_STORE_OK)
        rc = ld_shared_check(t, &is_away, why);
    if (rc != LD_STORE_OK || !is_away)
        return rc;
    rc = ld_store_open_with(&t->store, t->db_path, &care, why);
    return rc == LD_STORE_OK ? ld_shared_check(t, &is_away, why) : rc;
}

/* The first event, on the path of every other one. The tenant is not yet known to anybody else. LD_STORE_OK means
 * that the configuration is durable. */
static int write_first_event(struct ld_tenant *t, const struct ld_settings *initial, struct ld_message *why)
{
    if (t->world->shared != NULL && (!ld_shared_begin(t) || t->seq > 0)) {
        ld_shared_end(t);
        return t->seq > 0 ? ld_fail_as(LD_STORE_TAKEN, why, "tenant \"%s\" has been made by another server", t->name)
                          : ld_fail_as(LD_STORE_IO, why, "%s", ld_shared_say(t->shared.rc));
    }
    struct ld_op *op = ld_op_new(LD_OP_SETTINGS);
    struct ld_problem problem;

    if (op == NULL) {
        ld_shared_end(t);
        return ld_fail_as(LD_STORE_NOMEM, why, "%.400s: out of memory", t->db_path);
    }
    ld_problem_init(&problem);
    *op->settings = *initial;
    op->done = keep_problem;
    op->arg = &problem;
    ld_tenant_run_op(t, op);
    if (problem.status == 0)
        return LD_STORE_OK;
    return ld_fail_as(LD_STORE_IO, why, "%.180s: the first event was refused: %.300s", t->db_path, problem.detail);
}

/* Of a tenant that is read-only nothing is begun: it has no work that the log would have to be told of. */
static int recover(struct ld_tenant *t, struct ld_recovered *out, struct ld_message *why)
{
    const struct ld_world *w = t->world;
    const int rc = ld_quarantine(w->data_dir, t->name, &t->read_only_from, &t->fault);

    if (rc != LD_STORE_OK) {
        ld_fail(why, "%s", t->fault.text);
        return rc;
    }
    if (t->read_only_from == 0)
        return ld_recover(out, t->store, t->db_path, t->snapshot_path, w->verify_on_start, w->progress, why);
    ld_log(LD_LOG_WARN, "tenant %s is read-only: %s", t->name, t->fault.text);
    return ld_recover_before(out, t->store, t->read_only_from, t->db_path, w->progress, why);
}

/* What is counted over the log, as far as the log has been folded. */
static int open_books(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_books *b = &t->books;

    if (t->read_only_from > 0)
        return LD_STORE_OK;
    if (ld_books_open(b, t->world->books, t->store, t->seq) != KB_OK)
        return ld_fail_as(LD_STORE_NOMEM, why, "%.400s: out of memory", t->db_path);
    if (ld_books_lag(b, t->seq) <= BOOK_LINES &&
        ld_books_fold(b, t->store, SIZE_MAX, ld_progress_is_over, t->world->progress, why))
        ld_books_join(b, t->seq);
    if (ld_books_are_behind(b))
        atomic_store(&t->has_chores, true);
    return LD_STORE_OK;
}

/* `initial` NULL wants a log that is there and not empty: a tenant that lost its file must not come back as a new
 * one. Nobody else knows the tenant yet, so nothing here takes a lock. On failure nothing is left open; a file that
 * was made stays, and is adopted or undone by the next start (registry.c). */
int ld_tenant_open(struct ld_tenant **out, const struct ld_world *world, const char *name,
                   const struct ld_settings *initial, struct ld_message *why)
{
    struct ld_tenant *t = tenant_new(world, name);
    struct ld_recovered recovered = {0};
    int rc;

    if (t == NULL)
        return ld_fail_as(LD_STORE_NOMEM, why, "%s: out of memory or the path is too long", name);
    if (initial == NULL && world->shared == NULL && access(t->db_path, F_OK) != 0) {
        rc = ld_fail_as(LD_STORE_IO, why, "%.400s: %s", t->db_path, strerror(errno));
        goto out;
    }
    if ((rc = ld_shared_find(t, why)) != LD_STORE_OK || (rc = open_store(t, why)) != LD_STORE_OK)
        goto out;
    ld_folder_keep_private(t->snapshot_path);
    const int64_t start_us = ld_monotonic_us();
    if ((rc = recover(t, &recovered, why)) != LD_STORE_OK)
        goto out;
    adopt(t, &recovered);
    if ((rc = open_books(t, why)) != LD_STORE_OK || (rc = ld_shared_catch_up(t, why)) != LD_STORE_OK)
        goto out;
    t->tail_us = t->seq > t->snapshot_seq ? ld_monotonic_us() - start_us : 0;
    if (t->seq == 0 && initial == NULL) {
        rc = ld_fail_as(world->shared != NULL ? LD_STORE_IO : LD_STORE_EMPTY, why, "%.400s: the log is empty",
                        t->db_path);
        goto out;
    }
    if (world->shared != NULL && initial != NULL && t->seq > 0) {
        rc = ld_fail_as(LD_STORE_TAKEN, why, "tenant \"%s\" has been made by another server", t->name);
        goto out;
    }
    if (t->seq == 0 && (rc = write_first_event(t, initial, why)) != LD_STORE_OK)
        goto out;
    ld_tenant_weigh(t);
    *out = t;
    return LD_STORE_OK;
out:
    tenant_free(t);
    return rc;
}

/* Only from somebody who holds it, or under the registry's lock. Returns t, for use in expressions. */
struct ld_tenant *ld_tenant_hold(struct ld_tenant *t)
{
    atomic_fetch_add(&t->n_holders, 1);
    return t;
}

/* The last one closes the file and, of a doomed tenant, removes it: some tens of milliseconds at worst. NULL is fine.
 */
void ld_tenant_release(struct ld_tenant *t)
{
    if (t != NULL && atomic_fetch_sub(&t->n_holders, 1) == 1)
        tenant_free(t);
}

/* For the registry's patience and for tests; it may change at once. */
size_t ld_tenant_n_holders(const struct ld_tenant *t)
{
    return atomic_load(&t->n_holders);
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

    pthread_rwlock_rdlock(&t->deciding);
    epoch = t->dims_epoch;
    *context_dim = t->settings.spec.context_dim;
    *arm_dim = t->settings.spec.arm_dim;
    if (doc != NULL)
        ld_doc_map_names(doc, &t->settings.features, t->world->max_feature_bytes);
    pthread_rwlock_unlock(&t->deciding);
    return epoch;
}

/* Keep it short: the writer waits for every reader, and new readers wait for the writer. Never in a thread that holds
 * the lock already: a writer waiting in between would block both for ever. */
const struct kb_engine *ld_tenant_read_lock(struct ld_tenant *t, const struct ld_settings **settings)
{
    pthread_rwlock_rdlock(&t->lock);
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
    pthread_rwlock_unlock(&t->lock);
}

/* The time that this thread spent at the processor is counted beside the clock's: a hold that is long by the clock
 * alone was one whose thread the machine had no room for. */
static void write_lock(struct ld_tenant *t, bool keeps_out_decisions)
{
    pthread_rwlock_wrlock(&t->lock);
    if (keeps_out_decisions)
        pthread_rwlock_wrlock(&t->deciding);
    t->keeps_out_decisions = keeps_out_decisions;
    t->locked_us = ld_monotonic_us();
    t->locked_cpu_us = ld_thread_cpu_us();
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
    const int64_t us = ld_monotonic_us() - t->locked_us, cpu_us = ld_thread_cpu_us() - t->locked_cpu_us;

    if (t->keeps_out_decisions)
        pthread_rwlock_unlock(&t->deciding);
    pthread_rwlock_unlock(&t->lock);
    ld_histogram_add(&m->write_lock, us);
    ld_raise(&m->write_lock_cpu_max_us, cpu_us);
}

/* By stat, and from what was noted when the log's start last changed. */
void ld_tenant_log(const struct ld_tenant *t, struct ld_log_view *out)
{
    struct stat st;

    *out = (struct ld_log_view){.first = atomic_load(&t->log_first),
                                .summarized = atomic_load(&t->log_kept) - 1,
                                .bytes = (uint64_t)ld_store_bytes(t->store),
                                .is_compacting = atomic_load(&t->is_compacting)};
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
    return t->world->shared == NULL || atomic_load(&t->is_held);
}

void ld_tenant_set_held(struct ld_tenant *t, bool is_held)
{
    atomic_store(&t->is_held, is_held);
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
    atomic_store(&t->n_points, counts->width);
    atomic_store(&t->n_active_arms, counts->active_arms);
    atomic_store(&t->n_learned, counts->learned);
    atomic_store(&t->n_dims, t->settings.spec.context_dim + t->settings.spec.arm_dim);
    atomic_store(&t->has_challengers, t->settings.n_challengers > 0 && t->read_only_from == 0);
    atomic_store(&t->tip, counts->seq);
}

/* The writer's: the engine stands still under it. What SQLite has is asked for now and then: it counts its pages one by
 * one, which is a twelfth of a full turn's work, and its cache has a bound. */
void ld_tenant_weigh(struct ld_tenant *t)
{
    struct kb_engine_counts counts;

    if (t->store_bytes == 0 || t->now_ms - t->store_weighed_ms >= STORE_WEIGHED_MS || t->now_ms < t->store_weighed_ms) {
        t->store_bytes = ld_store_memory(t->store);
        t->store_weighed_ms = t->now_ms;
    }
    kb_engine_counts(t->engine, &counts);
    ld_tenant_measure(t, &counts);
    atomic_store(&t->model_bytes, kb_engine_bytes(t->engine));
    atomic_store(&t->bytes, sizeof *t + t->model_bytes + ld_tasks_bytes(t) + ld_books_bytes(&t->books) +
                                t->store_bytes + t->batch.cap * sizeof *t->batch.beside +
                                t->batch.commit.cap * sizeof *t->batch.commit.event +
                                t->batch.cap_rows * sizeof *t->batch.row);
}

uint64_t ld_tenant_unknown_rewards(const struct ld_tenant *t)
{
    return atomic_load_explicit(&t->books.n_unknown, memory_order_relaxed);
}

size_t ld_tenant_bytes(const struct ld_tenant *t)
{
    return atomic_load_explicit(&t->bytes, memory_order_relaxed);
}

/* Each is of the last batch, if not all of the same one: prices need not be exact. */
void ld_tenant_size(const struct ld_tenant *t, struct ld_size *out)
{
    out->points = atomic_load_explicit(&t->n_points, memory_order_relaxed);
    out->active_arms = atomic_load_explicit(&t->n_active_arms, memory_order_relaxed);
    out->learned = atomic_load_explicit(&t->n_learned, memory_order_relaxed);
    out->dims = atomic_load_explicit(&t->n_dims, memory_order_relaxed);
}

struct ld_bucket *ld_tenant_bucket(struct ld_tenant *t)
{
    return &t->bucket;
}

atomic_size_t *ld_tenant_n_served(struct ld_tenant *t)
{
    return &t->n_served;
}

/* The one hold is the table's, so nobody works with it, in whatever thread, and nothing waits: the scheduler and jobs
 * hold it, too. What is left is what memory alone knows (a failing disk, a write-ahead log that is to be cut) and
 * what a snapshot cannot hold (an open build). */
bool ld_tenant_is_idle(const struct ld_tenant *t)
{
    return atomic_load(&t->n_holders) == 1 && !atomic_load(&t->is_failing) && !atomic_load(&t->must_scrub) &&
           !atomic_load(&t->has_chores) && !atomic_load(&t->is_compacting) &&
           (t->read_only_from > 0 || !kb_engine_is_building(t->engine));
}
