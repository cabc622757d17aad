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

#include "base/failpoint.h"
#include "base/log.h"
#include "task/challenger.h"
#include "task/erase_impl.h"
#include "task/tasks.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "model/engine_write.h"
#include "json/json_out.h"

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

    if (x->phase == LD_ERASE_FOLDS)
        x->is_ok = ld_refold_catch_up(&x->fold);
    else if (x->phase == LD_ERASE_BUILDS)
        x->is_ok = ld_refold_build(&x->fold);
    else
        ld_erase_wait(x);
}

bool ld_erase_open(struct ld_erasure *x)
{
    struct ld_tenant *t = x->task.t;

    ld_redactor_close(&x->redactor);
    ld_refold_close(&x->fold);
    ld_redactor_open(&x->redactor, x->task.op->user);
    x->redactor.by = x->task.op->by[0] != '\0' ? x->task.op->by : NULL;
    x->n_rewrites = t->n_rewrites;
    x->n_folds++;
    if (ld_refold_open(&x->fold, t, UINT64_MAX) != KB_OK)
        return false;
    x->fold.fold.sink.take = take;
    x->fold.fold.sink.to = x;
    return true;
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
    x->task.op = op;
    const bool is_open = ld_erase_open(x);
    x->task.op = NULL;
    if (!is_open)
        ld_op_refuse_busy(op, "out of memory; nothing was erased");
    else if (t->world->shared != NULL && ld_task_run(&x->task))
        return LD_KEPT; /* nothing is begun in the log before all can be done at once */
    else if (t->world->shared != NULL || ld_batch_begin_erasure(t) != KB_OK || !ld_batch_flush(t))
        ld_op_refuse_busy(op, "the commit failed; nothing was erased");
    else if (begin(x))
        return LD_KEPT;
    else
        ld_op_refuse_busy(op, "out of memory; nothing was erased");
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------------------- */

int ld_erase_leftovers(struct ld_erasure *x)
{
    if (!ld_tenant_remove_snapshot(x->task.t))
        return ld_fail(&x->fold.why, "the snapshot cannot be removed");
    if (!ld_compaction_clear(x->task.t)) { /* rows that a compaction has left may be the user's */
        return ld_fail(&x->fold.why, "what was compacted cannot be deleted");
    }
    return 0;
}

enum kb_err ld_erase_add_row(struct ld_erasure *x, const struct kb_event *ev)
{
    struct ld_tenant *t = x->task.t;
    struct ld_row *row = &x->row[x->n_rows];
    struct kb_event line = *ev;

    line.by = x->redactor.by;
    ld_row_index(row, &line);
    row->text =
        ld_encode_event(&line, t->settings.spec.context_dim, t->settings.spec.arm_dim, &t->settings, &row->n_text);
    x->n_rows += row->text != NULL;
    return row->text != NULL ? KB_OK : KB_ENOMEM;
}

/* The event that puts the new model in force becomes the next row, in one transaction with the lines that change. */
static enum kb_err append_reset(void *arg, const struct kb_event *reset, size_t n_events)
{
    struct ld_erasure *x = arg;
    struct ld_tenant *t = x->task.t;
    int rc = -1;

    (void)n_events; /* a reset brings nothing along */
    if (ld_erase_add_row(x, reset) != KB_OK)
        return KB_ENOMEM;
    if (ld_erase_leftovers(x) == 0) {
        ld_failpoint("mid_erasure");
        rc = ld_store_rewrite(t->store, x->redactor.item, x->redactor.n, &x->row[0], &x->fold.why);
    }
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
        ld_tenant_exchange(x->task.t, &x->fold.engine, NULL, c.seq);
        reset.seq = c.seq;
        ld_books_take(&x->task.t->books, &reset, 1);
    } else if (rc == KB_ENOMEM)
        ld_fail(&x->fold.why, "out of memory");
    kb_commit_free(&c);
    return rc == KB_OK;
}

bool ld_erase_needs_round(struct ld_erasure *x)
{
    struct kb_build_state state;

    kb_engine_build_state(x->fold.engine, &state);
    if (!state.is_open) {
        ld_fail(&x->fold.why, "the rebuild that was begun for it is gone from the log");
        x->is_ok = false;
    }
    return state.is_open && !state.is_done;
}

void ld_erase_fail(struct ld_erasure *x, const char *told)
{
    struct ld_op *op = x->task.op;

    ld_op_refuse_busy(op, told);
    ld_trace_enter(&op->trace);
    ld_log(LD_LOG_ERROR, "tenant %s: a user could not be erased: %s", x->task.t->name, x->fold.why.text);
    ld_trace_enter(NULL);
}

static void answer(struct ld_erasure *x, bool is_ok)
{
    char text[160];

    snprintf(text, sizeof text, "{\"erased\":true,\"events\":%llu,\"seq\":%llu}",
             (unsigned long long)x->redactor.n_events, (unsigned long long)x->task.t->seq);
    if (is_ok)
        ld_op_reply_copy(x->task.op, text);
    else
        ld_erase_fail(x, "the user could not be erased now; nothing was changed");
}

/* A build or a snapshot of the old engine comes back from its job before. */
static void finish(void *task)
{
    struct ld_erasure *x = task;
    struct ld_tenant *t = x->task.t;

    if (ld_tasks_have_engine(t)) {
        ld_task_wait(&x->task);
        return;
    }
    if (t->world->shared != NULL) {
        ld_erase_finish_shared(x);
        return;
    }
    bool is_ok = x->is_ok && ld_refold_tail(&x->fold);
    if (is_ok && ld_erase_needs_round(x)) {
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

    for (size_t i = 0; i < x->n_rows; i++)
        free((char *)x->row[i].text);
    ld_laggards_close(&x->laggards);
    ld_redactor_close(&x->redactor);
    ld_refold_close(&x->fold);
}

const struct ld_task_kind ld_erasure = {.size = sizeof(struct ld_erasure),
                                        .threads = LD_LONG_WORK,
                                        .takes_turn = true,
                                        .busy = "another user of the tenant is being erased",
                                        .start = start,
                                        .run = run,
                                        .finish = finish,
                                        .cancel = cancel,
                                        .drop = drop};
