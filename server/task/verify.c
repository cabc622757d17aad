/* The model compared with its log: the answer to whether what is served is what the events say, to the last bit.
 *
 *     job      folds the log from its first line into a second engine (fold.h), beside the traffic
 *     writer   folds the rest, takes the digest of both, and answers
 *
 * Both are at the same event then: nothing can come in between in the writer's turn, and the digests are taken without
 * the tenant's lock, since no writer moves and readers change nothing. A difference is a fault of this program or of
 * the machine; the log stays the truth, and a restart without the snapshot serves it.
 *
 * Cost: a fold of the whole log at low priority, and the memory of a second engine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tenant/fold.h"
#include "base/log.h"
#include "base/metrics.h"
#include "tenant/tenant_impl.h"
#include "base/text.h"

struct ld_verification {
    struct ld_op *op; /* the caller's, to be answered */
    struct ld_fold fold;
    uint64_t n_rewrites; /* of the log, before it began */
    bool is_ok;
};

static void verification_free(struct ld_tenant *t)
{
    ld_fold_close(&t->verification->fold);
    free(t->verification);
    t->verification = NULL;
}

/* ---- begin -------------------------------------------------------------------------------------------- */

static void run(void *arg)
{
    struct ld_tenant *t = arg;

    t->verification->is_ok = ld_fold_catch_up(&t->verification->fold);
    ld_tenant_tell_writer(t, LD_OP_VERIFIED);
    ld_tenant_release(t);
}

/* What comes before the last reset teaches only the history there, as at a start. */
static enum kb_err verification_new(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_verification *v = calloc(1, sizeof *v);
    uint64_t last = 0, last_reset = 0;

    if (v == NULL)
        return KB_ENOMEM;
    if (ld_store_tip(t->store, &last, &last_reset) != LD_STORE_OK ||
        ld_fold_open(&v->fold, t, NULL, last_reset) != KB_OK) {
        free(v);
        return KB_ENOMEM;
    }
    v->op = op;
    v->n_rewrites = t->n_rewrites;
    t->verification = v;
    return KB_OK;
}

/* Without a scheduler (tests) the fold is made in this turn. */
static bool start(struct ld_tenant *t, struct ld_op *op)
{
    if (verification_new(t, op) != KB_OK)
        return false;
    ld_tenant_hold(t);
    if (t->world->sched == NULL) {
        run(t);
        return true;
    }
    if (ld_sched_long_work(t->world->sched, run, t) == 0)
        return true;
    ld_tenant_release(t);
    verification_free(t);
    return false;
}

int ld_verify_expand(struct ld_tenant *t, struct ld_op *op)
{
    if (t->verification != NULL)
        ld_op_refuse_busy(op, "the tenant is being verified already");
    else if (!start(t, op))
        ld_op_refuse_busy(op, "the log cannot be read now, or memory is out");
    else
        return LD_KEPT;
    return 0;
}

/* ---- end ---------------------------------------------------------------------------------------------- */

static void put_digest(struct ld_text *text, const char *name, const struct kb_engine *e)
{
    char digest[20];

    snprintf(digest, sizeof digest, "%016" PRIx64, kb_engine_digest(e));
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
    ld_text_put_count(&text, "events", v->fold.n_lines);
    put_digest(&text, "digest", t->engine);
    if (!is_folded)
        ld_text_put_string(&text, "fault", v->fold.why);
    else if (!is_equal)
        put_digest(&text, "folded_digest", v->fold.engine);
    ld_text_lit(&text, "}");
    char *json = ld_text_take(&text, &n);
    ld_op_reply_text(v->op, json, n);
}

/* A log that cannot be folded differs as well, and worse. */
static void report(struct ld_tenant *t, const struct ld_verification *v, bool is_folded)
{
    const bool is_equal = is_folded && kb_engine_digest(t->engine) == kb_engine_digest(v->fold.engine);
    struct ld_metrics *m = t->world->metrics;

    atomic_fetch_add_explicit(&m->verifications, 1, memory_order_relaxed);
    if (!is_equal) {
        atomic_fetch_add_explicit(&m->verifications_different, 1, memory_order_relaxed);
        ld_trace_enter(&v->op->trace);
        ld_log(LD_LOG_ERROR, "tenant %s: the model at event %" PRIu64 " differs from a fold of its log%s%s", t->name,
               t->seq, is_folded ? "" : ": ", v->fold.why);
        ld_trace_enter(NULL);
    }
    answer(t, v, is_folded, is_equal);
}

/* Nothing was found out: the tenant goes, lines of the log changed under the fold, or the file cannot be read. */
static void refuse(const struct ld_tenant *t, const struct ld_verification *v)
{
    if (atomic_load(&t->is_doomed))
        ld_problem_set_as(&v->op->problem, LD_NO_TENANT, "the tenant has been deleted");
    else if (t->n_rewrites != v->n_rewrites)
        ld_op_refuse_busy(v->op, "lines of the log were rewritten meanwhile");
    else
        ld_op_refuse_busy(v->op, v->fold.why);
}

int ld_verified_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_verification *v = t->verification;
    const bool is_same_log = t->n_rewrites == v->n_rewrites && !atomic_load(&t->is_doomed);

    (void)op;
    ld_batch_flush(t);
    if (is_same_log && v->is_ok)
        v->is_ok = ld_fold_tail(&v->fold);
    if (is_same_log && (v->is_ok || v->fold.rc == LD_STORE_CORRUPT))
        report(t, v, v->is_ok);
    else
        refuse(t, v);
    v->op->done(v->op);
    verification_free(t);
    return 0;
}

/* With the tenant, when its turn never came. */
void ld_verification_drop(struct ld_tenant *t)
{
    if (t->verification == NULL)
        return;
    ld_problem_init(&t->verification->op->problem);
    ld_problem_set_as(&t->verification->op->problem, LD_NO_TENANT, "the tenant has been deleted");
    t->verification->op->done(t->verification->op);
    verification_free(t);
}
