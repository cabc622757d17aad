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
#include "task/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "tenant/fold.h"
#include "base/log.h"
#include "base/metrics.h"
#include "json/json_in.h"

#define STAGE_BYTES (1u << 20)
#define MARK_LINES 16u /* a snapshot rests on so many lines before it (recover.h) */

/* ---- end ------------------------------------------------------------------------------------------------ */

static void answer(struct ld_compaction *x, bool is_done)
{
    char text[160];

    if (x->why[0] != '\0') {
        ld_op_refuse_busy(x->op, "the log could not be compacted now; it is as it was");
    } else {
        snprintf(text, sizeof text, "{\"compacted\":%s,\"events\":%llu,\"lines\":%zu,\"seq\":%llu}",
                 is_done ? "true" : "false", (unsigned long long)(is_done ? x->last - x->first + 1 : 0),
                 is_done ? x->n : 0, (unsigned long long)(is_done ? x->last : 0));
        ld_op_reply_copy(x->op, text);
    }
    x->op->done(x->op);
}

static void finish(struct ld_tenant *t, bool is_done)
{
    struct ld_compaction *x = t->compaction;

    t->compaction = NULL;
    atomic_store(&t->is_compacting, false);
    ld_trace_enter(x->op != NULL ? &x->op->trace : NULL);
    if (is_done)
        ld_log(LD_LOG_INFO, "tenant %s: events %llu to %llu are now a summary of %zu lines", t->name,
               (unsigned long long)x->first, (unsigned long long)x->last, x->n);
    else if (x->why[0] != '\0' && !atomic_load(&x->is_cancelled))
        ld_log(LD_LOG_WARN, "tenant %s: the log was not compacted: %s", t->name, x->why);
    ld_trace_enter(NULL);
    if (is_done)
        atomic_fetch_add_explicit(&t->world->metrics->compactions, 1, memory_order_relaxed);
    if (x->op != NULL)
        answer(x, is_done);
    ld_compaction_free(x);
}

static void fail(struct ld_tenant *t, const char *why)
{
    snprintf(t->compaction->why, sizeof t->compaction->why, "%.300s", why);
    finish(t, false);
}

void ld_compaction_cancel(struct ld_tenant *t)
{
    if (t->compaction == NULL)
        return;
    atomic_store(&t->compaction->is_cancelled, true);
    if (t->compaction->state == LD_COMPACT_FOLDING)
        return; /* the job comes back */
    if (t->compaction->n_staged > 0)
        t->has_leftovers = true;
    fail(t, "something else came first");
}

void ld_compaction_drop(struct ld_tenant *t)
{
    struct ld_compaction *x = t->compaction;

    if (x == NULL)
        return;
    t->compaction = NULL;
    if (x->op != NULL) {
        ld_op_refuse_busy(x->op, "the tenant was closed");
        x->op->done(x->op);
    }
    ld_compaction_free(x);
}

/* ---- begin ---------------------------------------------------------------------------------------------- */

/* A failure leaves what was known: it is for people to read. */
void ld_tenant_note_start(struct ld_tenant *t)
{
    uint64_t first, kept;

    if (ld_store_start(t->store, &first, &kept) != LD_STORE_OK)
        return;
    atomic_store(&t->log_first, first);
    atomic_store(&t->log_kept, kept);
}

bool ld_compaction_begin(struct ld_tenant *t, struct ld_op *op, uint64_t wanted)
{
    struct ld_compaction *x = calloc(1, sizeof *x);

    if (x == NULL)
        return false;
    x->t = t;
    x->op = op;
    x->wanted = wanted;
    t->compaction = x;
    atomic_store(&t->is_compacting, true);
    return true;
}

int ld_compact_expand(struct ld_tenant *t, struct ld_op *op)
{
    uint64_t first = 0, kept = 0;

    ld_batch_flush(t);
    const uint64_t wanted = t->seq > op->keep_events ? t->seq - op->keep_events : 0;
    if (t->compaction != NULL || ld_task_find(t, &ld_erasure) != NULL)
        ld_op_refuse_busy(op, "the log is being compacted, or erased from, already");
    else if (ld_store_start(t->store, &first, &kept) != LD_STORE_OK)
        ld_op_refuse_busy(op, "the log cannot be read");
    else if (wanted < kept)
        ld_op_reply_copy(op, "{\"compacted\":false,\"events\":0,\"lines\":0,\"seq\":0}");
    else if (ld_compaction_begin(t, op, wanted))
        return LD_KEPT;
    else
        ld_op_refuse_busy(op, "out of memory");
    return 0;
}

/* ---- waiting -------------------------------------------------------------------------------------------- */

/* The event that began the reset of this line. */
static enum kb_err take_from(void *from, struct ld_line *line, struct kb_errmsg *msg)
{
    (void)msg;
    if (line->ev.type == KB_EV_DICTIONARY)
        *(uint64_t *)from = line->ev.as.dictionary.from > 0 ? line->ev.as.dictionary.from : line->ev.seq;
    return KB_OK;
}

/* Whether a fold of what follows `wanted` finds a reset that was begun there, or needs none. */
static bool has_reset_behind(struct ld_tenant *t, uint64_t wanted)
{
    struct ld_fold f = {.sink = ld_engine_sink(t->engine)};
    struct kb_engine_counts counts;
    uint64_t last = 0, last_reset = 0, from = 0;

    kb_engine_counts(t->engine, &counts);
    if (counts.history_rows == 0)
        return true;
    if (ld_store_tip(t->store, &last, &last_reset) != LD_STORE_OK || last_reset == 0)
        return false;
    f.sink.take = take_from;
    f.sink.to = &from;
    return ld_fold_store(&f, t->store, last_reset - 1, 1) == LD_STORE_OK && from > wanted;
}

static void run(void *arg)
{
    struct ld_tenant *t = arg;

    ld_compaction_fold(t->compaction);
    ld_tenant_tell_writer(t, LD_OP_COMPACTED);
    ld_tenant_release(t);
}

static void start_job(struct ld_tenant *t)
{
    t->compaction->state = LD_COMPACT_FOLDING;
    ld_tenant_hold(t);
    if (ld_sched_give(t->world->sched, LD_LONG_WORK, run, t, SIZE_MAX) == 0)
        return;
    ld_tenant_release(t);
    fail(t, "out of memory");
}

/* One reset is asked for; when that is in force, and it took its view behind `wanted`, the fold can begin. A build that
 * failed is tried again later, for as long as memory is short: the compaction does not wait for that. */
static enum ld_chore wait_for_reset(struct ld_tenant *t)
{
    if (kb_engine_is_building(t->engine)) {
        if (atomic_load(&t->next_build_ms) > t->now_ms)
            fail(t, "the model that it needs cannot be built now");
        return LD_CHORE_NONE; /* the end of the build is a turn */
    }
    if (!has_reset_behind(t, t->compaction->wanted)) {
        if (t->has_failed || ld_batch_stage_rebuild(t) != KB_OK || !ld_batch_flush(t)) {
            fail(t, "the model could not be built anew");
            return LD_CHORE_NONE;
        }
        if (kb_engine_is_building(t->engine))
            return LD_CHORE_NONE;
        if (!has_reset_behind(t, t->compaction->wanted)) {
            fail(t, "the model was not built anew");
            return LD_CHORE_NONE;
        }
    }
    start_job(t);
    return LD_CHORE_NONE;
}

/* ---- staging -------------------------------------------------------------------------------------------- */

int ld_compacted_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_compaction *x = t->compaction;

    (void)op;
    if (atomic_load(&x->is_cancelled))
        fail(t, "something else came first");
    else if (!x->is_ok)
        finish(t, false);
    else
        x->state = LD_COMPACT_STAGING;
    return 0;
}

/* A snapshot that rests on lines which have gone is no use any more: the next is due at once. */
static void forget_snapshot(struct ld_tenant *t, uint64_t last)
{
    if (t->saving.seq < last + MARK_LINES)
        t->saving.seq = 0;
}

static enum ld_chore stage(struct ld_tenant *t)
{
    struct ld_compaction *x = t->compaction;
    size_t n = 0, n_bytes = 0;

    while (x->n_staged + n < x->n && n_bytes < STAGE_BYTES)
        n_bytes += x->row[x->n_staged + n++].n_text;
    if (n > 0) {
        t->has_leftovers = true; /* until the log starts with them */
        if (ld_store_stage_summary(t->store, x->row + x->n_staged, n, x->why) != LD_STORE_OK) {
            finish(t, false);
            return LD_CHORE_LATER;
        }
        x->n_staged += n;
        ld_failpoint("mid_compaction");
        return LD_CHORE_NOW;
    }
    if (ld_store_start_behind(t->store, x->last, x->why) != LD_STORE_OK) {
        finish(t, false);
        return LD_CHORE_LATER;
    }
    ld_failpoint("mid_compaction");
    t->n_rewrites++;
    ld_tenant_note_start(t);
    forget_snapshot(t, x->last);
    finish(t, true);
    return LD_CHORE_NOW;
}

/* ---- trimming ------------------------------------------------------------------------------------------- */

/* The last rows gone, the write-ahead log still has them: it is cut, so that the file is as small as it looks. */
static enum ld_chore trim(struct ld_tenant *t)
{
    char why[512];

    if (ld_store_trim(t->store, &t->has_leftovers, why) != LD_STORE_OK) {
        ld_log(LD_LOG_WARN, "tenant %s: rows that were compacted could not be deleted: %s", t->name, why);
        return LD_CHORE_LATER;
    }
    ld_failpoint("mid_compaction");
    if (!t->has_leftovers)
        atomic_store(&t->must_scrub, true);
    return t->has_leftovers || t->compaction != NULL ? LD_CHORE_NOW : LD_CHORE_NONE;
}

bool ld_compaction_clear(struct ld_tenant *t)
{
    char why[512];

    while (t->has_leftovers)
        if (ld_store_trim(t->store, &t->has_leftovers, why) != LD_STORE_OK)
            return false;
    return true;
}

enum ld_chore ld_compaction_step(struct ld_tenant *t)
{
    const bool is_failing = atomic_load(&t->is_failing);

    if (t->compaction != NULL && t->compaction->state != LD_COMPACT_FOLDING &&
        (is_failing || atomic_load(&t->is_halting)))
        fail(t, is_failing ? "commits fail" : "the tenant is being closed");
    if (is_failing)
        return LD_CHORE_NONE; /* the way back is a turn */
    if (t->compaction != NULL && t->compaction->state == LD_COMPACT_STAGING)
        return stage(t);
    if (t->has_leftovers)
        return trim(t);
    if (t->compaction == NULL)
        ld_retain(t);
    if (t->compaction != NULL && t->compaction->state == LD_COMPACT_WAITING)
        return wait_for_reset(t);
    return LD_CHORE_NONE;
}
