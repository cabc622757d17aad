/* Compaction: the log's beginning gives way to a summary of what it has left, and the model stays as it is, bit for
 * bit.
 *
 *     writer   where the last reset of the model was begun before the events that are to go, begins another: a fold
 *              builds the posterior there, from a history that the summary has (core/model/summary.h)
 *     job      folds the events and writes the summary's lines (compact_fold.c)
 *     writer   puts the lines into the file, about a megabyte in each turn; then lets the log start with them, which
 *              changes one row; answers; and deletes what was replaced, some rows in each turn (store_summary.c)
 *
 * The engine that serves has no part in it. A process that dies finds the log as it was before, or compacted, and rows
 * to be deleted; a log that is to be erased from (erase.c) is not compacted meanwhile. */
#include "task/compact.h"
#include "tenant/batch.h"
#include "task/challenger.h"
#include "task/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "tenant/fold.h"
#include "base/log.h"
#include "base/metrics.h"

#define STAGE_BYTES (1u << 20)
#define MARK_LINES 16u /* a snapshot rests on so many lines before it (recover.h) */

/* ---- end ------------------------------------------------------------------------------------------------ */

static void answer(struct ld_compaction *x, bool is_done)
{
    struct ld_text text;
    size_t n = 0;

    if (x->why.text[0] != '\0') {
        ld_op_refuse_busy(x->task.op, "the log could not be compacted now; it is as it was");
        return;
    }
    ld_text_init(&text);
    ld_text_lit(&text, "{");
    ld_text_put_bool(&text, "compacted", is_done);
    ld_text_put_count(&text, "events", is_done ? x->last - x->first + 1 : 0);
    ld_text_put_count(&text, "lines", is_done ? x->n : 0);
    ld_text_put_count(&text, "seq", is_done ? x->last : 0);
    ld_laggards_tell(&x->laggards, &text);
    ld_text_lit(&text, "}");
    char *json = ld_text_take(&text, &n);
    ld_op_reply_text(x->task.op, json, n);
    if (x->laggards.is_any)
        x->task.op->reply_status = 202;
}

void ld_compaction_conclude(struct ld_compaction *x, bool is_done)
{
    const struct ld_tenant *t = x->task.t;

    atomic_store(&x->task.t->is_compacting, false);
    ld_trace_enter(x->task.op != NULL ? &x->task.op->trace : NULL);
    if (is_done)
        ld_log(LD_LOG_INFO, "tenant %s: events %llu to %llu are now a summary of %zu lines", t->name,
               (unsigned long long)x->first, (unsigned long long)x->last, x->n);
    else if (x->why.text[0] != '\0' && !atomic_load(&x->is_cancelled))
        ld_log(LD_LOG_WARN, "tenant %s: the log was not compacted: %s", t->name, x->why.text);
    ld_trace_enter(NULL);
    if (is_done)
        atomic_fetch_add_explicit(&t->world->metrics->compactions, 1, memory_order_relaxed);
    if (x->task.op != NULL)
        answer(x, is_done);
    ld_task_end(&x->task);
}

enum ld_chore ld_compaction_fail(struct ld_compaction *x, const char *why)
{
    ld_fail(&x->why, "%.300s", why);
    ld_compaction_conclude(x, false);
    return LD_CHORE_NONE;
}

void ld_compaction_cancel(struct ld_tenant *t)
{
    struct ld_compaction *x = ld_task_find(t, &ld_compaction);

    if (x == NULL)
        return;
    atomic_store(&x->is_cancelled, true);
    if (x->state == LD_COMPACT_FOLDING || x->state == LD_COMPACT_AWAITED)
        return; /* the job comes back */
    if (x->n_staged > 0)
        t->has_leftovers = true;
    ld_compaction_fail(x, "something else came first");
}

/* ---- begin ---------------------------------------------------------------------------------------------- */

void ld_compaction_begin(struct ld_tenant *t, uint64_t wanted)
{
    struct ld_compaction *x = ld_task_of(t, &ld_compaction);

    if (x != NULL) {
        x->wanted = wanted;
        atomic_store(&t->is_compacting, true);
    }
}

static int start(void *task, struct ld_op *op)
{
    const struct ld_compaction *x = task;
    struct ld_tenant *t = x->task.t;
    uint64_t first = 0, kept = 0;
    const uint64_t wanted = t->seq > op->keep_events ? t->seq - op->keep_events : 0;

    if (ld_task_find(t, &ld_erasure) != NULL) {
        ld_op_refuse_busy(op, ld_compaction.busy);
    } else if (ld_store_start(t->store, &first, &kept) != LD_STORE_OK) {
        ld_op_refuse_busy(op, "the log cannot be read");
    } else if (wanted < kept) {
        ld_op_reply_copy(op, "{\"compacted\":false,\"events\":0,\"lines\":0,\"seq\":0}");
    } else {
        ld_compaction_begin(t, wanted);
        return LD_KEPT;
    }
    return 0;
}

/* ---- waiting -------------------------------------------------------------------------------------------- */

/* Whether a fold of what follows `wanted` finds a reset that was begun there, or needs none. */
static bool has_reset_behind(struct ld_tenant *t, uint64_t wanted)
{
    struct kb_engine_counts counts;

    kb_engine_counts(t->engine, &counts);
    return counts.history_rows == 0 || ld_fold_has_reset(t->store, ld_engine_sink(t->engine), wanted);
}

static void run(void *task)
{
    struct ld_compaction *x = task;

    if (x->state == LD_COMPACT_AWAITED)
        ld_laggards_wait(&x->laggards, x->task.t, x->generation);
    else
        ld_compaction_fold(x);
}

/* One reset is asked for; when that is in force, and it took its view behind `wanted`, the fold can begin. A build that
 * failed is tried again later, for as long as memory is short: the compaction does not wait for that. */
static enum ld_chore wait_for_reset(struct ld_compaction *x)
{
    struct ld_tenant *t = x->task.t;

    if (kb_engine_is_building(t->engine)) /* its end is a turn */
        return ld_building_has_failed(t) ? ld_compaction_fail(x, "the model that it needs cannot be built now")
                                         : LD_CHORE_NONE;
    if (!has_reset_behind(t, x->wanted)) {
        if (t->has_failed || (t->world->shared != NULL && !ld_shared_begin(t)) || ld_batch_stage_rebuild(t) != KB_OK ||
            !ld_batch_flush(t))
            return ld_compaction_fail(x, "the model could not be built anew");
        if (kb_engine_is_building(t->engine))
            return LD_CHORE_NONE;
        if (!has_reset_behind(t, x->wanted))
            return ld_compaction_fail(x, "the model was not built anew");
    }
    x->state = LD_COMPACT_FOLDING;
    x->n_rewrites = t->n_rewrites;
    return ld_task_run(&x->task) ? LD_CHORE_NONE : ld_compaction_fail(x, "out of memory");
}

/* ---- staging -------------------------------------------------------------------------------------------- */

static void finish(void *task)
{
    struct ld_compaction *x = task;

    if (x->state == LD_COMPACT_AWAITED)
        ld_compaction_conclude(x, true);
    else if (atomic_load(&x->is_cancelled))
        ld_compaction_fail(x, "something else came first");
    else if (!x->is_ok)
        ld_compaction_conclude(x, false);
    else
        x->state = LD_COMPACT_STAGING;
}

/* What is counted over the log is saved with it: the lines that it was counted from are gone behind this. */
static bool start_behind(struct ld_compaction *x)
{
    struct ld_tenant *t = x->task.t;
    struct ld_book_rows books;
    bool is_ok = ld_books_pack(&t->books, &books) == KB_OK;

    if (!is_ok)
        ld_fail(&x->why, "out of memory");
    ld_challengers_keep(t);
    is_ok = is_ok && ld_store_start_behind(t->store, x->last, books.row, books.n, &x->why) == LD_STORE_OK;
    if (is_ok)
        t->books.saved_seq = t->books.tried_seq = t->seq;
    ld_book_rows_close(&books);
    return is_ok;
}

static enum ld_chore stage(struct ld_compaction *x)
{
    struct ld_tenant *t = x->task.t;
    size_t n = 0, n_bytes = 0;

    while (x->n_staged + n < x->n && n_bytes < STAGE_BYTES)
        n_bytes += x->row[x->n_staged + n++].n_text;
    if (n > 0) {
        t->has_leftovers = true; /* until the log starts with them */
        if (ld_store_stage_summary(t->store, x->row + x->n_staged, n, &x->why) != LD_STORE_OK) {
            ld_compaction_conclude(x, false);
            return LD_CHORE_LATER;
        }
        x->n_staged += n;
        ld_failpoint("mid_compaction");
        return LD_CHORE_NOW;
    }
    if (ld_books_are_behind(&t->books)) /* they need the lines that are to go */
        return LD_CHORE_LATER;
    if (!start_behind(x)) {
        ld_compaction_conclude(x, false);
        return LD_CHORE_LATER;
    }
    ld_failpoint("mid_compaction");
    t->n_rewrites++;
    ld_tenant_note_start(t);
    if (t->snapshot_seq < x->last + MARK_LINES)
        t->snapshot_seq = 0; /* a snapshot that rests on lines which have gone is no use: the next is due at once */
    ld_compaction_conclude(x, true);
    return LD_CHORE_NOW;
}

/* ---- trimming ------------------------------------------------------------------------------------------- */

/* The last rows gone, the write-ahead log still has them: it is cut, so that the file is as small as it looks. */
static enum ld_chore trim(struct ld_tenant *t)
{
    struct ld_message why;

    if (ld_store_trim(t->store, &t->has_leftovers, &why) != LD_STORE_OK) {
        ld_log(LD_LOG_WARN, "tenant %s: rows that were compacted could not be deleted: %s", t->name, why.text);
        return LD_CHORE_LATER;
    }
    ld_failpoint("mid_compaction");
    if (!t->has_leftovers)
        atomic_store(&t->must_scrub, true);
    return t->has_leftovers || ld_task_find(t, &ld_compaction) != NULL ? LD_CHORE_NOW : LD_CHORE_NONE;
}

bool ld_compaction_clear(struct ld_tenant *t)
{
    struct ld_message why;

    while (t->has_leftovers)
        if (ld_store_trim(t->store, &t->has_leftovers, &why) != LD_STORE_OK)
            return false;
    return true;
}

static enum ld_chore look(struct ld_tenant *t)
{
    const bool is_failing = atomic_load(&t->is_failing);
    struct ld_compaction *x = ld_task_find(t, &ld_compaction);

    if (atomic_load(&t->is_doomed))
        return LD_CHORE_NONE;
    if (x != NULL && x->state != LD_COMPACT_FOLDING && x->state != LD_COMPACT_AWAITED &&
        (is_failing || atomic_load(&t->is_halting))) {
        ld_compaction_fail(x, is_failing ? "commits fail" : "the tenant is being closed");
        x = NULL;
    }
    if (is_failing)
        return LD_CHORE_NONE; /* the way back is a turn */
    if (x != NULL && x->state == LD_COMPACT_STAGING)
        return t->world->shared != NULL ? ld_compaction_send(x) : stage(x);
    if (t->has_leftovers)
        return trim(t);
    if (x == NULL)
        ld_retain(t);
    x = ld_task_find(t, &ld_compaction);
    return x != NULL && x->state == LD_COMPACT_WAITING ? wait_for_reset(x) : LD_CHORE_NONE;
}

const struct ld_task_kind ld_compaction = {.size = sizeof(struct ld_compaction),
                                           .threads = LD_LONG_WORK,
                                           .busy = "the log is being compacted, or erased from, already",
                                           .start = start,
                                           .at = {[LD_AT_TURN_END] = look},
                                           .run = run,
                                           .finish = finish,
                                           .drop = ld_compaction_drop};
