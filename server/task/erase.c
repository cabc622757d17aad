/* Erasing a user: every event of theirs leaves the log, and the model becomes that of a log that never had them.
 *
 *     writer   puts into the log that a reset has begun, and goes on serving and learning
 *     job      folds the log into a new engine (fold.h), each line as it will read without the user (redact.h); builds
 *              the new model there, and folds what has come meanwhile, until that is little
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
#include "tenant/fold.h"
#include "base/log.h"
#include "task/redact.h"
#include "store/sqlite_util.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"
#include "json/json_out.h"

struct ld_erasure {
    struct ld_tenant *t;
    struct ld_op *op;    /* the caller's, to be answered */
    struct ld_fold fold; /* its engine is the one to come */
    struct ld_redactor redactor;
    bool is_ok, is_waiting; /* waiting: for a build or a snapshot of the old engine to come back from its job */
};

/* ---- the job ------------------------------------------------------------------------------------------ */

static void run(void *arg)
{
    struct ld_tenant *t = arg;

    t->erasure->is_ok = ld_fold_catch_up(&t->erasure->fold);
    ld_tenant_tell_writer(t, LD_OP_ERASED);
    ld_tenant_release(t);
}

/* ---- begin -------------------------------------------------------------------------------------------- */

static void erasure_free(struct ld_erasure *x)
{
    ld_redactor_close(&x->redactor);
    ld_fold_close(&x->fold);
    free(x);
}

/* Everything quiet: the posterior is made by the build alone. */
static struct ld_erasure *erasure_new(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_erasure *x = calloc(1, sizeof *x);

    if (x == NULL || ld_fold_open(&x->fold, t, &x->redactor, UINT64_MAX) != KB_OK) {
        free(x);
        return NULL;
    }
    x->t = t;
    x->op = op;
    ld_redactor_open(&x->redactor, op->user);
    return x;
}

static bool give_job(struct ld_tenant *t)
{
    if (t->world->sched == NULL) {
        t->erasure->is_ok = ld_fold_catch_up(&t->erasure->fold);
        ld_tenant_tell_writer(t, LD_OP_ERASED);
        return true;
    }
    ld_tenant_hold(t);
    if (ld_sched_long_work(t->world->sched, run, t) == 0)
        return true;
    ld_tenant_release(t);
    return false;
}

/* NULL, or what stood in the way. The build that is begun stays open in the log, for the new engine: from before it is
 * begun there is an erasure under way, so nobody works on it here. */
static const char *start(struct ld_tenant *t, struct ld_op *op)
{
    const char *why = NULL;

    t->erasure = erasure_new(t, op);
    if (t->erasure == NULL)
        return "out of memory; nothing was erased";
    if (ld_batch_begin_erasure(t) != KB_OK || !ld_batch_flush(t))
        why = "the commit failed; nothing was erased";
    else if (!give_job(t))
        why = "out of memory; nothing was erased";
    if (why != NULL) {
        erasure_free(t->erasure);
        t->erasure = NULL;
    }
    return why;
}

int ld_erase_expand(struct ld_tenant *t, struct ld_op *op)
{
    ld_batch_flush(t);
    if (t->erasure != NULL) {
        ld_op_refuse_busy(op, "another user of the tenant is being erased");
        return 0;
    }
    if (!kb_engine_knows_user(t->engine, op->user)) {
        ld_problem_set_as(&op->problem, LD_NO_USER, "the tenant has no data of user '%.100s'", op->user);
        return 0;
    }
    ld_compaction_cancel(t); /* it would bring back what goes */
    const char *why = start(t, op);
    if (why == NULL)
        return LD_KEPT;
    ld_op_refuse_busy(op, why);
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------------------- */

/* Readers meet the old engine before and the new one after. */
static void swap_engines(struct ld_erasure *x, uint64_t seq)
{
    struct ld_tenant *t = x->t;
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
    t->saving.seq = 0; /* there is none */
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
    if (!remove_snapshot(x->t)) {
        snprintf(x->fold.why, sizeof x->fold.why, "the snapshot cannot be removed");
        return -1;
    }
    if (!ld_compaction_clear(x->t)) { /* rows that a compaction has left may be the user's */
        snprintf(x->fold.why, sizeof x->fold.why, "what was compacted cannot be deleted");
        return -1;
    }
    return 0;
}

/* The event that puts the new model in force becomes the next row, in one transaction with the lines that change. */
static enum kb_err append_reset(void *arg, const struct kb_event *reset, size_t n_events)
{
    struct ld_erasure *x = arg;
    struct ld_tenant *t = x->t;
    const struct kb_spec *spec = &t->settings.spec;
    struct ld_row row = {
        .seq = reset->seq, .at_ms = reset->at_ms, .type = KB_EV_DICTIONARY, .reward = (double)NAN, .is_reset = true};
    int rc = -1;

    (void)n_events; /* a reset brings nothing along */
    char *text = ld_encode_event(reset, spec->context_dim, spec->arm_dim, &t->settings, &row.n_text);
    if (text == NULL)
        return KB_ENOMEM;
    row.text = text;
    if (remove_leftovers(x) == 0) {
        ld_failpoint("mid_erasure");
        rc = ld_store_rewrite(t->store, x->redactor.item, x->redactor.n, &row, x->fold.why);
    }
    free(text);
    return rc == LD_STORE_OK ? KB_OK : KB_ECANCELLED;
}

static bool commit(struct ld_erasure *x)
{
    const struct kb_commit_hooks hooks = {.append = append_reset, .arg = x};
    struct kb_commit c = {.n = 0};
    struct kb_event reset;
    enum kb_err rc = kb_engine_finish_erasure(x->fold.engine, x->t->engine, &reset);

    kb_commit_begin(&c, x->fold.engine, x->t->seq);
    if (rc == KB_OK)
        rc = kb_commit_one(&c, &reset, x->t->now_ms, &hooks, NULL);
    if (rc == KB_OK)
        swap_engines(x, c.seq);
    else if (rc == KB_ENOMEM)
        snprintf(x->fold.why, sizeof x->fold.why, "out of memory");
    kb_commit_free(&c);
    return rc == KB_OK;
}

static void answer(struct ld_erasure *x, bool is_ok)
{
    char text[160];
    const int n = snprintf(text, sizeof text, "{\"erased\":true,\"events\":%llu,\"seq\":%llu}",
                           (unsigned long long)x->redactor.n_events, (unsigned long long)x->t->seq);

    if (is_ok && n > 0)
        ld_op_reply_copy(x->op, text);
    else
        ld_op_refuse_busy(x->op, "the user could not be erased now; nothing was changed");
    ld_trace_enter(&x->op->trace);
    if (!is_ok)
        ld_log(LD_LOG_ERROR, "tenant %s: a user could not be erased: %s", x->t->name, x->fold.why);
    ld_trace_enter(NULL);
    x->op->done(x->op);
}

/* A change of the model that came in between has begun its own build: one more round. Without an open build there is
 * nothing to finish, and never will be. */
static bool needs_round(struct ld_erasure *x)
{
    struct kb_build_state state;

    kb_engine_build_state(x->fold.engine, &state);
    if (!state.is_open) {
        snprintf(x->fold.why, sizeof x->fold.why, "the rebuild that was begun for it is gone from the log");
        x->is_ok = false;
    }
    return state.is_open && !state.is_done;
}

static bool run_again(struct ld_tenant *t)
{
    if (t->world->sched == NULL)
        return false;
    ld_tenant_hold(t);
    if (ld_sched_long_work(t->world->sched, run, t) == 0)
        return true;
    ld_tenant_release(t);
    return false;
}

bool ld_erasure_is_waiting(const struct ld_tenant *t)
{
    return t->erasure != NULL && t->erasure->is_waiting;
}

int ld_erased_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_erasure *x = t->erasure;
    bool is_ok;

    (void)op;
    ld_batch_flush(t);
    x->is_waiting = t->build != NULL || t->saving.job != NULL;
    if (x->is_waiting)
        return 0;
    is_ok = x->is_ok && ld_fold_tail(&x->fold);
    if (is_ok && needs_round(x)) {
        x->is_ok = is_ok = false;
        if (run_again(t))
            return 0;
    }
    is_ok = is_ok && x->is_ok && commit(x);
    if (is_ok) {
        ld_challengers_forget(t->challengers); /* they have learned of the user as well */
        atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
    }
    t->erasure = NULL;
    answer(x, is_ok);
    erasure_free(x);
    return 0;
}

/* With the tenant, when its turn never came. */
void ld_erasure_drop(struct ld_tenant *t)
{
    if (t->erasure == NULL)
        return;
    ld_problem_init(&t->erasure->op->problem);
    ld_problem_set_as(&t->erasure->op->problem, LD_NO_TENANT, "the tenant has been deleted");
    t->erasure->op->done(t->erasure->op);
    erasure_free(t->erasure);
    t->erasure = NULL;
}
