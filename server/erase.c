/* Erasing a user: every event of theirs leaves the log, and the model becomes that of a log that never had them.
 *
 *     writer   puts into the log that a reset has begun, and goes on serving and learning
 *     job      folds the log into a new engine, each line as it will read without the user (redact.h); builds the new
 *              model there, and folds what has come meanwhile, until that is little
 *     writer   folds the rest; rewrites the lines and adds the reset, in one transaction; puts the new engine in the
 *              place of the old one; answers
 *
 * Until the transaction nothing is changed but that a rebuild has begun, so a server that dies, a disk that fails or a
 * tenant that is deleted in between leaves the user where they were, and the answer that the caller did not get tells
 * them to ask again. What the user does while it goes on is erased with the rest. The snapshot, which holds what the
 * log will not, is removed before.
 *
 * SQLite is told to write zeros over what it frees (store_sqlite.c), and the write-ahead log is moved into the file and
 * cut before the answer; where somebody reads the log just then, soon after it (upkeep.c), and after a crash in between by
 * the next start. Copies that were made before - backups, exports - are the operator's to remove.
 *
 * Cost: a fold of the whole log beside the traffic, 10 us a line, and the memory of a second engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "redact.h"
#include "tenant_impl.h"

#define TAIL_EVENTS 256u /* that the writer folds in its own turn */
#define MOST_ROUNDS 16u

struct ld_erasure {
    struct ld_tenant *t;
    struct ld_op *op;         /* the caller's, to be answered */
    struct kb_engine *engine; /* the one to come */
    struct ld_redactor redactor;
    uint64_t folded; /* last event in it */
    char why[512];
    bool is_ok, is_waiting; /* waiting: for a build of the old engine to come back from its job */
};

/* ---- folding ------------------------------------------------------------------------------------------ */

static int give_up(struct ld_erasure *x, uint64_t seq, const char *what)
{
    snprintf(x->why, sizeof x->why, "event %llu: %.300s", (unsigned long long)seq, what);
    return -1;
}

/* For ld_store_read: one line, without the user. */
static int fold_row(void *arg, const struct ld_row *row)
{
    struct ld_erasure *x = arg;
    const struct kb_spec *spec = kb_engine_spec(x->engine);
    struct ld_doc *doc = NULL;
    struct ld_problem problem;
    struct kb_errmsg msg = {.text = ""};
    struct kb_event ev;
    int rc = 0;

    ld_problem_init(&problem);
    if (atomic_load(&x->t->is_halting))
        rc = give_up(x, row->seq, "the tenant is being closed");
    else if (ld_doc_parse(&doc, row->text, row->n_text, false, &problem) != 0 ||
             ld_decode_event(doc, spec->context_dim, spec->arm_dim, &ev, &problem) != 0)
        rc = give_up(x, row->seq, "cannot be read");
    else if (ld_redact(&x->redactor, doc, &ev, spec->context_dim, spec->arm_dim) != KB_OK)
        rc = give_up(x, row->seq, "out of memory");
    else if (kb_engine_fold(x->engine, &ev, &msg) != KB_OK)
        rc = give_up(x, row->seq, msg.text[0] != '\0' ? msg.text : "cannot be folded");
    else
        x->folded = row->seq;
    ld_doc_free(doc);
    return rc;
}

static bool fold_tail(struct ld_erasure *x)
{
    const int rc = ld_store_read(x->t->store, x->folded, SIZE_MAX, fold_row, x);

    if (rc != 0 && x->why[0] == '\0')
        snprintf(x->why, sizeof x->why, "the log cannot be read");
    return rc == 0;
}

/* ---- the job ------------------------------------------------------------------------------------------ */

/* Where others may tell it to end. */
static void show_build(struct ld_tenant *t, struct kb_build *b)
{
    pthread_mutex_lock(&t->queue_lock);
    t->erasing_build = b;
    if (b != NULL && atomic_load(&t->is_halting))
        kb_build_cancel(b);
    pthread_mutex_unlock(&t->queue_lock);
}

/* True when something was built. */
static bool build(struct ld_erasure *x, enum kb_err *rc)
{
    struct kb_build *b = kb_engine_lend_build(x->engine);

    *rc = KB_OK;
    if (b == NULL)
        return false;
    show_build(x->t, b);
    *rc = kb_build_run(b);
    show_build(x->t, NULL);
    kb_engine_return_build(x->engine, b);
    return true;
}

/* Until nearly all that has come meanwhile is in the new engine as well. */
static void catch_up(struct ld_erasure *x)
{
    uint64_t last = 0, last_reset = 0;
    enum kb_err rc = KB_OK;

    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        if (!fold_tail(x))
            return;
        const bool has_built = build(x, &rc);
        if (rc != KB_OK) {
            snprintf(x->why, sizeof x->why, "the model cannot be built: %s", kb_strerror(rc));
            return;
        }
        if (ld_store_tip(x->t->store, &last, &last_reset) != LD_STORE_OK) {
            snprintf(x->why, sizeof x->why, "the log cannot be read");
            return;
        }
        if (!has_built && last - x->folded <= TAIL_EVENTS)
            break;
    }
    x->is_ok = true;
}

static void told(struct ld_op *op)
{
    ld_op_free(op);
}

static void tell_writer(struct ld_tenant *t)
{
    struct ld_op *op = ld_op_new(LD_OP_ERASED);

    if (op == NULL) {
        ld_log(LD_LOG_ERROR, "out of memory for the end of an erasure");
        abort();
    }
    op->done = told;
    ld_tenant_submit(t, op);
}

static void run(void *arg)
{
    struct ld_tenant *t = arg;

    catch_up(t->erasure);
    tell_writer(t);
    ld_tenant_release(t);
}

/* ---- begin -------------------------------------------------------------------------------------------- */

static void erasure_free(struct ld_erasure *x)
{
    ld_redactor_close(&x->redactor);
    kb_engine_free(x->engine);
    free(x);
}

/* Everything quiet: the posterior is made by the build alone. */
static struct ld_erasure *erasure_new(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_erasure *x = calloc(1, sizeof *x);

    if (x == NULL || kb_engine_new(&x->engine) != KB_OK) {
        free(x);
        return NULL;
    }
    kb_engine_fold_quietly_until(x->engine, UINT64_MAX);
    x->t = t;
    x->op = op;
    ld_redactor_open(&x->redactor, op->user);
    return x;
}

/* The old engine's build stays open in the log, for the new engine; here nobody works on it. */
static int start(struct ld_tenant *t, struct ld_op *op)
{
    t->erasure = erasure_new(t, op);
    if (t->erasure == NULL)
        return KB_ENOMEM;
    if (t->world->sched == NULL) {
        catch_up(t->erasure);
        tell_writer(t);
        return KB_OK;
    }
    ld_tenant_hold(t);
    if (ld_sched_long_work(t->world->sched, run, t) == 0)
        return KB_OK;
    ld_tenant_release(t);
    erasure_free(t->erasure);
    t->erasure = NULL;
    return KB_ENOMEM;
}

int ld_erase_expand(struct ld_tenant *t, struct ld_op *op)
{
    int rc;

    ld_batch_flush(t);
    if (t->erasure != NULL) {
        ld_op_refuse_busy(op, "another user of the tenant is being erased");
        return 0;
    }
    if (!kb_engine_knows_user(t->engine, op->user)) {
        ld_problem_set(&op->problem, 404, "the tenant has no data of user '%.100s'", op->user);
        return 0;
    }
    ld_compaction_cancel(t); /* it would bring back what goes */
    if (ld_batch_begin_erasure(t) != KB_OK || !ld_batch_flush(t)) {
        ld_op_refuse_busy(op, "the commit failed; nothing was erased");
        return 0;
    }
    rc = start(t, op);
    if (rc == KB_OK)
        return LD_KEPT;
    ld_op_refuse_busy(op, "out of memory; nothing was erased");
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------------------- */

/* The event that puts the new model in force, as the next row. */
static bool put_reset(struct ld_erasure *x, struct kb_event *next, struct ld_row *row)
{
    struct ld_tenant *t = x->t;
    const struct kb_spec *spec = &t->settings.spec;
    size_t n = 0;

    if (kb_engine_finish_erasure(x->engine, t->engine, next) != KB_OK)
        return false;
    next->seq = t->seq + 1;
    next->at_ms = t->now_ms;
    if (kb_engine_reserve(x->engine, next, NULL) != KB_OK || kb_engine_grow(x->engine) != KB_OK)
        return false;
    char *text = ld_encode_event(next, spec->context_dim, spec->arm_dim, &t->settings, &n);
    *row = (struct ld_row){.seq = next->seq,
                           .at_ms = next->at_ms,
                           .type = KB_EV_DICTIONARY,
                           .reward = (double)NAN,
                           .is_reset = true,
                           .text = text,
                           .n_text = n};
    return text != NULL;
}

/* Readers meet the old engine before and the new one after. */
static void swap_engines(struct ld_erasure *x, const struct kb_event *reset)
{
    struct ld_tenant *t = x->t;
    struct kb_engine_counts counts;
    struct kb_engine *old = t->engine;

    kb_engine_swap(x->engine);
    kb_engine_prepare(x->engine, reset);
    kb_engine_apply(x->engine, reset);
    kb_engine_collect(x->engine);
    kb_engine_set_inline_work(x->engine, t->world->inline_work);
    ld_tenant_write_lock(t);
    t->engine = x->engine;
    t->seq = reset->seq;
    ld_tenant_write_unlock(t);
    x->engine = old;
    kb_engine_counts(t->engine, &counts);
    t->n_pending = (size_t)counts.pending;
    t->snapshot_seq = 0; /* there is none */
}

static bool commit(struct ld_erasure *x)
{
    struct ld_tenant *t = x->t;
    struct kb_event reset;
    struct ld_row row = {.text = NULL};
    bool is_ok = put_reset(x, &reset, &row);

    if (!is_ok)
        snprintf(x->why, sizeof x->why, "out of memory");
    if (is_ok && unlink(t->snapshot_path) != 0 && access(t->snapshot_path, F_OK) == 0) {
        snprintf(x->why, sizeof x->why, "the snapshot cannot be removed");
        is_ok = false;
    }
    if (is_ok && !ld_compaction_clear(t)) { /* rows that a compaction has left may be the user's */
        snprintf(x->why, sizeof x->why, "what was compacted cannot be deleted");
        is_ok = false;
    }
    if (is_ok)
        is_ok = ld_store_rewrite(t->store, x->redactor.item, x->redactor.n, &row, x->why) == LD_STORE_OK;
    free((char *)row.text);
    if (is_ok)
        swap_engines(x, &reset);
    else
        kb_engine_rollback(x->engine);
    return is_ok;
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
    if (!is_ok)
        ld_log(LD_LOG_ERROR, "tenant %s: a user could not be erased: %s", x->t->name, x->why);
    x->op->done(x->op);
}

/* A change of the model that came in between has begun its own build: one more round. */
static bool needs_round(struct ld_erasure *x)
{
    struct kb_build_state state;

    kb_engine_build_state(x->engine, &state);
    return !state.is_done;
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
    x->is_waiting = t->build != NULL;
    if (x->is_waiting)
        return 0;
    is_ok = x->is_ok && fold_tail(x);
    if (is_ok && needs_round(x)) {
        x->is_ok = is_ok = false;
        if (run_again(t))
            return 0;
    }
    is_ok = is_ok && commit(x);
    if (is_ok)
        atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
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
    ld_problem_set(&t->erasure->op->problem, 404, "the tenant has been deleted");
    t->erasure->op->done(t->erasure->op);
    erasure_free(t->erasure);
    t->erasure = NULL;
}
