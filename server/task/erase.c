/* Erasing a user: every event of theirs leaves the log, and the model becomes that of a log that never had them.
 *
 *     writer   puts into the log that a reset has begun, and goes on serving and learning
 *     job      folds the log into a new engine (refold.h), each line as it will read without the user (redact.h);
 *              builds the new model there, and folds what has come meanwhile, until that is little
 *     writer   folds the rest; rewrites the lines and adds the reset, in one transaction; puts the new engine in the
 *              place of the old one; answers
 *
 * Until the transaction nothing is changed but that a rebuild has begun, so a server that dies, a disk that fails or a
 * tenant that is deleted in between leaves the user where they were, and the answer that the caller did not get tells
 * them to ask again. What the user does while it goes on is erased with the rest. The snapshot, which holds what the
 * log will not, is removed before.
 *
 * SQLite is told to write zeros over what it frees (store_sqlite.c), and the write-ahead log is moved into the file and
 * cut before the answer; where somebody reads the log just then, soon after it (upkeep.c), and after a crash in between
 * by the next start. Copies that were made before - backups, exports - are the operator's to remove.
 *
 * Cost: a fold of the whole log beside the traffic, 10 us a line, and the memory of a second engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "tenant/refold.h"
#include "base/log.h"
#include "task/challenger.h"
#include "task/redact.h"
#include "task/tasks.h"
#include "store/sqlite_util.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"
#include "json/json_out.h"

struct ld_erasure {
    struct ld_task task;
    struct ld_refold fold; /* its engine is the one to come */
    struct ld_redactor redactor;
    bool is_ok;
};

/* Each line as it will read without the user. */
static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct ld_erasure *x = arg;
    const struct kb_spec *spec = kb_engine_spec(x->fold.engine);
    const enum kb_err rc = ld_redact(&x->redactor, line->doc, &line->ev, spec->context_dim, spec->arm_dim);

    return rc == KB_OK ? kb_engine_fold(x->fold.engine, &line->ev, msg) : rc;
}

static void run(void *task)
{
    struct ld_erasure *x = task;

    x->fold.fold.sink.take = take;
    x->fold.fold.sink.to = x;
    x->is_ok = ld_refold_catch_up(&x->fold);
}

/* Lengthscales and scales in force were found with the user's rewards among others: the reset that was begun for this,
 * or whatever takes its place, finds them anew. */
static bool begin(struct ld_erasure *x)
{
    kb_engine_build_afresh_from(x->fold.engine, x->task.t->seq);
    return ld_task_run(&x->task);
}

/* In the new engine all is quiet: its posterior is made by the build alone. That build stays open in the log, for the
 * new engine: from before it is begun there is an erasure under way, so nobody works on it here. */
static int start(void *task, struct ld_op *op)
{
    struct ld_erasure *x = task;
    struct ld_tenant *t = x->task.t;

    if (!kb_engine_knows_user(t->engine, op->user)) {
        ld_problem_set_as(ld_op_problem(op), LD_NO_USER, "the tenant has no data of user '%.100s'", op->user);
        return 0;
    }
    ld_compaction_cancel(t); /* it would bring back what goes */
    ld_redactor_open(&x->redactor, op->user);
    x->redactor.by = op->by[0] != '\0' ? op->by : NULL;
    if (ld_refold_open(&x->fold, t, UINT64_MAX) != KB_OK)
        ld_op_refuse_busy(op, "out of memory; nothing was erased");
    else if (ld_batch_begin_erasure(t) != KB_OK || !ld_batch_flush(t))
        ld_op_refuse_busy(op, "the commit failed; nothing was erased");
    else if (begin(x))
        return LD_KEPT;
    else
        ld_op_refuse_busy(op, "out of memory; nothing was erased");
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------------------- */

/* Readers meet the old engine before and the new one after. */
static void swap_engines(struct ld_erasure *x, uint64_t seq)
{
    struct ld_tenant *t = x->task.t;
    struct kb_engine_counts counts;
    struct kb_engine *old = t->engine;

    kb_engine_set_inline_work(x->fold.engine, t->world->inline_work);
    ld_tenant_write_lock(t);
    t->engine = x->fold.engine;
    t->seq = seq;
    t->arms_epoch++;
    t->engine_epoch++;
    ld_tenant_write_unlock(t);
    x->fold.engine = old;
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    t->snapshot_seq = 0; /* there is none */
    t->n_rewrites++;
}

/* And what a process that died while it wrote one has left of it. Synced: a power cut must not bring either back. */
static bool remove_snapshot(const struct ld_tenant *t)
{
    char unfinished[LD_PATH_MAX + 8];

    snprintf(unfinished, sizeof unfinished, "%s.tmp", t->snapshot_path);
    unlink(unfinished);
    unlink(t->snapshot_path);
    return access(t->snapshot_path, F_OK) != 0 && access(unfinished, F_OK) != 0 &&
           ld_sync_directory_of(t->snapshot_path) == 0;
}

/* What else of the user the folder has. 0, or -1 with why. */
static int remove_leftovers(struct ld_erasure *x)
{
    if (!remove_snapshot(x->task.t))
        return ld_fail(&x->fold.why, "the snapshot cannot be removed");
    if (!ld_compaction_clear(x->task.t)) { /* rows that a compaction has left may be the user's */
        return ld_fail(&x->fold.why, "what was compacted cannot be deleted");
    }
    return 0;
}

/* The event that puts the new model in force becomes the next row, in one transaction with the lines that change. */
static enum kb_err append_reset(void *arg, const struct kb_event *reset, size_t n_events)
{
    struct ld_erasure *x = arg;
    struct ld_tenant *t = x->task.t;
    const struct kb_spec *spec = &t->settings.spec;
    struct ld_row row = {
        .seq = reset->seq, .at_ms = reset->at_ms, .type = (int)reset->type, .reward = (double)NAN, .is_reset = true};
    int rc = -1;

    (void)n_events; /* a reset brings nothing along */
    struct kb_event line = *reset;
    line.by = x->redactor.by;
    char *text = ld_encode_event(&line, spec->context_dim, spec->arm_dim, &t->settings, &row.n_text);
    if (text == NULL)
        return KB_ENOMEM;
    row.text = text;
    if (remove_leftovers(x) == 0) {
        ld_failpoint("mid_erasure");
        rc = ld_store_rewrite(t->store, x->redactor.item, x->redactor.n, &row, &x->fold.why);
    }
    free(text);
    return rc == LD_STORE_OK ? KB_OK : KB_ECANCELLED;
}

static bool commit(struct ld_erasure *x)
{
    const struct kb_commit_hooks hooks = {.append = append_reset, .arg = x};
    struct kb_commit c = {.n = 0};
    struct kb_event reset;
    enum kb_err rc = kb_engine_finish_erasure(x->fold.engine, x->task.t->engine, &reset);

    kb_commit_begin(&c, x->fold.engine, x->task.t->seq);
    if (rc == KB_OK)
        rc = kb_commit_one(&c, &reset, x->task.t->now_ms, &hooks, NULL);
    if (rc == KB_OK) {
        swap_engines(x, c.seq);
        reset.seq = c.seq;
        ld_books_take(&x->task.t->books, &reset, 1);
    } else if (rc == KB_ENOMEM)
        ld_fail(&x->fold.why, "out of memory");
    kb_commit_free(&c);
    return rc == KB_OK;
}

/* A change of the model that came in between has begun its own build: one more round. Without an open build there is
 * nothing to finish, and never will be. */
static bool needs_round(struct ld_erasure *x)
{
    struct kb_build_state state;

    kb_engine_build_state(x->fold.engine, &state);
    if (!state.is_open) {
        ld_fail(&x->fold.why, "the rebuild that was begun for it is gone from the log");
        x->is_ok = false;
    }
    return state.is_open && !state.is_done;
}

static void answer(struct ld_erasure *x, bool is_ok)
{
    struct ld_op *op = x->task.op;
    char text[160];

    snprintf(text, sizeof text, "{\"erased\":true,\"events\":%llu,\"seq\":%llu}",
             (unsigned long long)x->redactor.n_events, (unsigned long long)x->task.t->seq);
    if (is_ok) {
        ld_op_reply_copy(op, text);
        return;
    }
    ld_op_refuse_busy(op, "the user could not be erased now; nothing was changed");
    ld_trace_enter(&op->trace);
    ld_log(LD_LOG_ERROR, "tenant %s: a user could not be erased: %s", x->task.t->name, x->fold.why.text);
    ld_trace_enter(NULL);
}

/* A build or a snapshot of the old engine comes back from its job before. */
static void finish(void *task)
{
    struct ld_erasure *x = task;
    struct ld_tenant *t = x->task.t;

    if (ld_task_is_under_way(t, &ld_building) || ld_task_is_under_way(t, &ld_saving)) {
        ld_task_wait(&x->task);
        return;
    }
    bool is_ok = x->is_ok && ld_refold_tail(&x->fold);
    if (is_ok && needs_round(x)) {
        x->is_ok = is_ok = false;
        if (ld_task_run(&x->task))
            return;
    }
    is_ok = is_ok && x->is_ok && commit(x);
    if (is_ok) {
        ld_challengers_forget(t); /* they have learned of the user as well */
        atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
    }
    answer(x, is_ok);
    ld_task_end(&x->task);
}

static void cancel(void *task)
{
    struct ld_erasure *x = task;

    ld_refold_cancel(&x->fold);
}

static void drop(void *task)
{
    struct ld_erasure *x = task;

    ld_redactor_close(&x->redactor);
    ld_refold_close(&x->fold);
}

const struct ld_task_kind ld_erasure = {.size = sizeof(struct ld_erasure),
                                        .threads = LD_LONG_WORK,
                                        .busy = "another user of the tenant is being erased",
                                        .start = start,
                                        .run = run,
                                        .finish = finish,
                                        .cancel = cancel,
                                        .drop = drop};
