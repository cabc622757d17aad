/* Opening a tenant: its file, the model that its log folds to, its books, and the first event of a new one. When that
 * is to be done is the registry's business (registry_opening.c). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "model/engine_write.h"
#include "store/folder.h"
#include "tenant/batch.h"
#include "tenant/recover.h"
#include "tenant/tenant_impl.h"

#define BOOK_LINES 10000u /* that books may lack and are given while the tenant is opened; else beside the traffic */

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
    if (t->read_only_from > 0) { /* it has no turns that would do it */
        if (atomic_load(&t->must_scrub))
            atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
        return;
    }
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

uint64_t ld_tenant_renew_closed(const struct ld_world *world, const char *name)
{
    struct ld_tenant *t = ld_tenant_new(world, name);
    struct ld_message why;
    uint64_t generation = 0;

    if (t != NULL && ld_shared_find(t, &why) == LD_STORE_OK && open_store(t, &why) == LD_STORE_OK &&
        ld_store_scrub(t->store))
        generation = t->shared.place.generation;
    ld_tenant_release(t);
    return generation;
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
    if (ld_shared_is_mended(t) && ld_folder_forget_read_only(w->data_dir, t->name) == 0)
        t->read_only_from = 0;
    if (t->read_only_from == 0)
        return ld_recover(out, t->store, t->db_path, t->snapshot_path, w->verify_on_start, w->progress, why);
    ld_log(LD_LOG_WARN, "tenant %s is read-only: %s", t->name, t->fault.text);
    if (w->shared != NULL && t->shared.place.seq < t->read_only_from)
        return ld_fail_as(LD_STORE_IO, why,
                          "it is read-only, and its copy cannot be read anew from the shared log now");
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
    struct ld_tenant *t = ld_tenant_new(world, name);
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
    t->progress = &t->served;
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
    ld_tenant_release(t);
    return rc;
}
