/* The model compared with its log: the answer to whether what is served is what the events say, to the last bit.
 *
 *     job      folds the log from its first line into a second engine (refold.h), beside the traffic
 *     writer   folds the rest, takes the digest of both, and answers
 *
 * Both are at the same event then: nothing can come in between in the writer's turn, and the digests are taken without
 * the tenant's lock, since no writer moves and readers change nothing. A difference is a fault of this program or of
 * the machine; the log stays the truth, and a restart without the snapshot serves it.
 *
 * Others may ask meanwhile how far it is, and cancel it. Of a cancel and the end one is first, and both callers hear
 * the same of it: `phase` changes by a compare-and-exchange.
 *
 * Cost: a fold of the whole log at low priority, and the memory of a second engine. */
#include "task/verification.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tenant/refold.h"
#include "base/log.h"
#include "base/metrics.h"
#include "task/tasks.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "base/text.h"

enum phase { BEGINS, FOLDS, IS_CANCELLED, IS_ANSWERED };

struct ld_verification {
    struct ld_task task;
    struct ld_refold fold;
    uint64_t n_rewrites; /* of the log, before it began */
    bool is_ok;
    atomic_int phase;
};

/* Out of FOLDS; false: somebody else was sooner. */
static bool leave(struct ld_verification *v, enum phase to)
{
    int from = FOLDS;

    return atomic_compare_exchange_strong(&v->phase, &from, (int)to);
}

/* What comes before the last reset teaches only the history there, as at a start. */
static int start(void *task, struct ld_op *op)
{
    struct ld_verification *v = task;
    struct ld_tenant *t = v->task.t;
    uint64_t last = 0, last_reset = 0;

    v->n_rewrites = t->n_rewrites;
    if (ld_store_tip(t->store, &last, &last_reset) == LD_STORE_OK && ld_refold_open(&v->fold, t, last_reset) == KB_OK) {
        atomic_store(&v->phase, FOLDS);
        if (ld_task_run(&v->task))
            return LD_KEPT;
    }
    ld_op_refuse_busy(op, "the log cannot be read now, or memory is out");
    return 0;
}

static void run(void *task)
{
    struct ld_verification *v = task;

    v->is_ok = ld_refold_catch_up(&v->fold);
}

static void cancel(void *task)
{
    struct ld_verification *v = task;

    ld_refold_cancel(&v->fold);
}

/* ---- from any thread ------------------------------------------------------------------------------------------- */

static void look(void *task, void *arg)
{
    struct ld_verification *v = task;
    struct ld_verification_live *out = arg;

    if ((out->is_running = atomic_load(&v->phase) == FOLDS)) {
        out->n_lines = atomic_load_explicit(&v->fold.n_seen, memory_order_relaxed);
        out->progress = atomic_load_explicit(&v->fold.progress, memory_order_relaxed);
    }
}

void ld_verification_look(struct ld_tenant *t, struct ld_verification_live *out)
{
    *out = (struct ld_verification_live){.is_running = false};
    (void)ld_task_visit(t, &ld_verification, look, out);
}

static void end(void *task, void *has_ended)
{
    if ((*(bool *)has_ended = leave(task, IS_CANCELLED)))
        cancel(task);
}

bool ld_verification_cancel(struct ld_tenant *t)
{
    bool has_ended = false;

    return ld_task_visit(t, &ld_verification, end, &has_ended) && has_ended;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void drop(void *task)
{
    struct ld_verification *v = task;

    ld_refold_close(&v->fold);
}

static void put_digest(struct ld_text *text, const char *name, uint64_t of)
{
    char digest[20];

    snprintf(digest, sizeof digest, "%016" PRIx64, of);
    ld_text_put_string(text, name, digest);
}

static void answer(struct ld_tenant *t, const struct ld_verification *v, bool is_folded, bool is_equal)
{
    struct ld_text text;
    size_t n = 0;

    ld_text_init(&text);
    ld_text_lit(&text, "{");
    ld_text_put_bool(&text, "equal", is_equal);
    ld_text_put_count(&text, "seq", t->seq);
    ld_text_put_count(&text, "events", v->fold.fold.n_lines);
    put_digest(&text, "digest", kb_engine_digest(t->engine));
    put_digest(&text, "logical_digest", kb_engine_logical_digest(t->engine));
    if (!is_folded)
        ld_text_put_string(&text, "fault", v->fold.why.text);
    else if (!is_equal)
        put_digest(&text, "folded_digest", kb_engine_digest(v->fold.engine));
    ld_text_lit(&text, "}");
    char *json = ld_text_take(&text, &n);
    ld_op_reply_text(v->task.op, json, n);
}

/* A log that cannot be folded differs as well, and worse. */
static void report(struct ld_tenant *t, const struct ld_verification *v, bool is_folded)
{
    const bool is_equal = is_folded && kb_engine_digest(t->engine) == kb_engine_digest(v->fold.engine);
    struct ld_metrics *m = t->world->metrics;

    atomic_fetch_add_explicit(&m->verifications, 1, memory_order_relaxed);
    if (!is_equal) {
        atomic_fetch_add_explicit(&m->verifications_different, 1, memory_order_relaxed);
        ld_trace_enter(&v->task.op->trace);
        ld_log(LD_LOG_ERROR, "tenant %s: the model at event %" PRIu64 " differs from a fold of its log%s%s", t->name,
               t->seq, is_folded ? "" : ": ", v->fold.why.text);
        ld_trace_enter(NULL);
    }
    answer(t, v, is_folded, is_equal);
}

/* Nothing is found out where lines of the log changed under the fold, or the file cannot be read. */
static void conclude(struct ld_verification *v)
{
    struct ld_tenant *t = v->task.t;

    if (t->n_rewrites == v->n_rewrites && v->is_ok)
        v->is_ok = ld_refold_tail(&v->fold);
    if (t->n_rewrites != v->n_rewrites)
        ld_op_refuse_busy(v->task.op, "lines of the log were rewritten meanwhile");
    else if (v->is_ok || v->fold.fold.rc == LD_STORE_CORRUPT)
        report(t, v, v->is_ok);
    else
        ld_op_refuse_busy(v->task.op, v->fold.why.text);
}

static void finish(void *task)
{
    struct ld_verification *v = task;

    if (leave(v, IS_ANSWERED))
        conclude(v);
    else
        ld_problem_set(ld_op_problem(v->task.op), 409, "the verification was cancelled; nothing was found out");
    ld_task_end(&v->task);
}

const struct ld_task_kind ld_verification = {.size = sizeof(struct ld_verification),
                                             .threads = LD_LONG_WORK,
                                             .is_for_read_only = true,
                                             .busy = "the tenant is being verified already",
                                             .start = start,
                                             .run = run,
                                             .finish = finish,
                                             .cancel = cancel,
                                             .drop = drop};
