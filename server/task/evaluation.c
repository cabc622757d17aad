/* clang-format off */
/* Evaluations: what other policies would have earned on the tenant's own log (docs/REPLAY.md), beside the traffic.
 *
 *     writer   puts the request into the tenant's file, and begins
 *     job      reads the log, once and again for each policy (evaluate/own_evaluation.h)
 *     writer   puts the result into the file; begins anew where lines of the log were rewritten meanwhile
 *
 * A tenant has at most one under way, the server MOST_AT_ONCE: they have the threads for transfers, and leave one to
 * copies. One that a process did not live to end stays in the file without an end, and is shown as interrupted; nothing
 * begins it anew, since it may be what the process died of.
 *
 * Memory: some buffers of constant size and a model for each policy that learns, within what the tenant's quota leaves.
 * Cost: folds of the log, 10 us a line, and a decision for each decision. */
/* clang-format on */
#include "task/evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "evaluate/own_evaluation.h"
#include "json/json_evaluation.h"
#include "store/store_evaluations.h"
#include "task/tasks.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"

#define MOST_AT_ONCE 1u
#define MOST_TRIES 3u

struct evaluation {
    struct ld_own_evaluation of;
    struct ld_tenant *t;
    struct ld_doc *doc; /* of the request */
    struct ld_evaluation_request *request;
    uint64_t n_rewrites; /* of the log, when it was begun */
    unsigned n_tries;
    atomic_bool is_cancelled;
};

struct ld_evaluating {
    struct ld_task task;
    pthread_mutex_t lock; /* of which there is one under way: changed by the writer alone */
    struct evaluation *now;
};

/* ---- life ---------------------------------------------------------------------------------------------------- */

static void evaluation_free(struct evaluation *e)
{
    if (e == NULL)
        return;
    ld_doc_free(e->doc);
    free(e->request);
    free(e->of.result);
    free(e);
}

static void init(void *task)
{
    struct ld_evaluating *x = task;

    pthread_mutex_init(&x->lock, NULL);
}

static bool take_slot(struct ld_metrics *m)
{
    uint64_t n = atomic_load(&m->evaluations_running);

    while (n < MOST_AT_ONCE)
        if (atomic_compare_exchange_weak(&m->evaluations_running, &n, n + 1))
            return true;
    return false;
}

/* The writer's. e NULL: there is none any more. */
static void set_now(struct ld_evaluating *x, struct evaluation *e)
{
    pthread_mutex_lock(&x->lock);
    struct evaluation *before = x->now;
    x->now = e;
    pthread_mutex_unlock(&x->lock);
    if (before != NULL)
        atomic_fetch_sub(&x->task.t->world->metrics->evaluations_running, 1);
    evaluation_free(before);
}

static void drop(void *task)
{
    struct ld_evaluating *x = task;

    set_now(x, NULL);
    pthread_mutex_destroy(&x->lock);
}

static void cancel(void *task)
{
    struct ld_evaluating *x = task;

    pthread_mutex_lock(&x->lock);
    if (x->now != NULL)
        ld_own_evaluation_cancel(&x->now->of);
    pthread_mutex_unlock(&x->lock);
}

void ld_evaluation_look(const struct ld_tenant *t, struct ld_evaluation_live *out)
{
    struct ld_evaluating *x = ld_task_find(t, &ld_evaluating);

    *out = (struct ld_evaluation_live){.id = ""};
    if (x == NULL)
        return;
    pthread_mutex_lock(&x->lock);
    if (x->now != NULL) {
        strcpy(out->id, x->now->request->id);
        out->is_cancelled = atomic_load(&x->now->is_cancelled);
        out->progress = atomic_load(&x->now->of.progress);
    }
    pthread_mutex_unlock(&x->lock);
}

/* ---- the job ------------------------------------------------------------------------------------------------- */

static bool is_ended(void *arg)
{
    const struct evaluation *e = arg;

    return atomic_load(&e->is_cancelled) || atomic_load(&e->t->is_halting) || atomic_load(&e->t->is_doomed);
}

static void run(void *task)
{
    struct ld_evaluating *x = task;

    ld_own_evaluation_run(&x->now->of); /* the writer changes `now` when the job is over */
    atomic_store(&x->task.bytes, 0);
}

/* ---- the beginning -------------------------------------------------------------------------------------------------
 */

static bool begin(struct evaluation *e)
{
    uint64_t last_reset;

    e->n_rewrites = e->t->n_rewrites;
    e->n_tries++;
    e->of.why.text[0] = '\0';
    return ld_store_tip(e->t->store, &e->of.last, &last_reset) == LD_STORE_OK;
}

/* What the tenant's quota leaves. False with 507. */
static bool find_room(struct evaluation *e, struct ld_op *op)
{
    const size_t quota = e->t->world->tenant_quota, fixed = e->request->n * LD_OWN_POLICY_BYTES;
    const size_t used = atomic_load(&e->t->model_bytes) + fixed;

    if (quota == 0)
        return true;
    e->of.max_bytes = quota > used ? quota - used : 0;
    if (e->of.max_bytes > 0)
        return true;
    ld_problem_set(ld_op_problem(op), 507,
                   "the tenant's model leaves no room for an evaluation in the %zu bytes that it may have", quota);
    ld_problem_limit(ld_op_problem(op), "tenant_quota", (double)quota);
    return false;
}

static char *text_of(struct evaluation *e, const char *by, char **request)
{
    struct ld_evaluation_view v = {.id = e->request->id, .state = "running", .by = by, .begun_ms = e->t->now_ms};
    struct ld_text t;
    size_t n;

    ld_text_init(&t);
    ld_text_evaluation_request(&t, e->request);
    *request = ld_text_take(&t, &n);
    if (*request == NULL)
        return NULL;
    v.request = *request;
    ld_text_init(&t);
    ld_text_evaluation(&t, &v);
    return ld_text_take(&t, &n);
}

/* Into the file and on its way; e is x's from here on. False with the op's problem. */
static bool launch(struct ld_evaluating *x, struct evaluation *e, struct ld_op *op)
{
    struct ld_tenant *t = e->t;
    struct ld_message why = {""};
    char *request = NULL, *answer = text_of(e, op->by[0] != '\0' ? op->by : NULL, &request);
    const struct ld_evaluation_row row = {
        .id = e->request->id, .by = op->by[0] != '\0' ? op->by : NULL, .begun_ms = t->now_ms, .request = request};
    bool is_ok = false;

    set_now(x, e);
    if (answer == NULL || !begin(e))
        ld_op_refuse_busy(op, "the log cannot be read now, or memory is out");
    else if (ld_store_begin_evaluation(t->store, &row, LD_EVALUATIONS_KEPT - 1, &why) != LD_STORE_OK)
        ld_op_refuse_busy(op, "the commit failed; nothing was begun");
    else if (!ld_task_run(&x->task)) {
        (void)ld_store_forget_evaluation(t->store, row.id, &why);
        ld_op_refuse_busy(op, "there is no thread for it now");
    } else {
        is_ok = true;
    }
    free(request);
    if (is_ok) {
        ld_op_reply_text(op, answer, strlen(answer));
        op->reply_status = 202;
        return true;
    }
    free(answer);
    set_now(x, NULL);
    return false;
}

/* The metric that the request names, into e: that of a single objective is the reward itself. False with 422. */
static bool find_metric(struct evaluation *e, struct ld_op *op)
{
    const struct ld_settings *s = &e->t->settings;
    const struct ld_metric_settings *m = e->request->metric != NULL ? ld_settings_metric(s, e->request->metric) : NULL;

    if (e->request->metric != NULL && m == NULL) {
        ld_problem_set_as(ld_op_problem(op), LD_NO_METRIC, "the tenant has no metric of this name");
        ld_problem_add(ld_op_problem(op), "/metric", "the tenant has no metric of this name");
        return false;
    }
    e->of.has_metric = m != NULL && ld_metric_is_measured(s, m);
    if (e->of.has_metric)
        e->of.metric = *m;
    return true;
}

/* 0 with the op answered. */
static int start_new(struct ld_evaluating *x, struct ld_op *op)
{
    struct ld_tenant *t = x->task.t;
    bool is_known = false;

    if (x->now != NULL || ld_store_has_evaluation(t->store, op->evaluation->id, &is_known) != LD_STORE_OK) {
        if (x->now != NULL)
            ld_problem_set(ld_op_problem(op), 409, "evaluation \"%.64s\" of the tenant is under way: one at a time",
                           x->now->request->id);
        else
            ld_op_refuse_busy(op, "the tenant's file cannot be read");
        return 0;
    }
    if (is_known) {
        ld_problem_set(ld_op_problem(op), 409, "the evaluation's id is taken");
        ld_problem_add(ld_op_problem(op), "/id", "the tenant has an evaluation of this id already");
        return 0;
    }
    struct evaluation *e = calloc(1, sizeof *e);
    if (e == NULL || !take_slot(t->world->metrics)) {
        free(e);
        ld_op_refuse_busy(op, "an evaluation of another tenant is under way: one at a time");
        return 0;
    }
    *e = (struct evaluation){.of = {.request = op->evaluation,
                                    .store = t->store,
                                    .is_ended = is_ended,
                                    .arg = e,
                                    .bytes = &x->task.bytes,
                                    .lock = &x->lock},
                             .t = t,
                             .doc = op->doc,
                             .request = op->evaluation};
    op->doc = NULL;
    op->evaluation = NULL;
    if (find_metric(e, op) && find_room(e, op)) {
        (void)launch(x, e, op);
        return 0;
    }
    atomic_fetch_sub(&t->world->metrics->evaluations_running, 1);
    evaluation_free(e);
    return 0;
}

void ld_evaluation_miss(const char *node, const char *id, struct ld_problem *p)
{
    if (node == NULL)
        ld_problem_set_as(p, LD_NO_EVALUATION, "the tenant has no evaluation '%.64s'", id);
    else
        ld_problem_set_as(p, LD_NO_EVALUATION,
                          "server %.64s has no evaluation '%.64s' of the tenant: of servers that share a log each has "
                          "those that it was asked for, and begins the ids that it makes with its name",
                          node, id);
}

/* The one that op->user names: ended if it is under way, else forgotten. */
static int start_removal(struct ld_evaluating *x, struct ld_op *op)
{
    struct ld_tenant *t = x->task.t;
    struct ld_message why = {""};
    bool is_known = false;

    op->reply_status = 204;
    if (x->now != NULL && strcmp(x->now->request->id, op->user) == 0) {
        atomic_store(&x->now->is_cancelled, true);
        cancel(x);
        return 0;
    }
    if (ld_store_has_evaluation(t->store, op->user, &is_known) != LD_STORE_OK)
        ld_op_refuse_busy(op, "the tenant's file cannot be read");
    else if (!is_known)
        ld_evaluation_miss(t->world->shared != NULL ? t->world->node : NULL, op->user, ld_op_problem(op));
    else if (ld_store_forget_evaluation(t->store, op->user, &why) != LD_STORE_OK)
        ld_op_refuse_busy(op, "the commit failed; nothing was removed");
    return 0;
}

static int start(void *task, struct ld_op *op)
{
    return op->evaluation != NULL ? start_new(task, op) : start_removal(task, op);
}

/* ---- the end -------------------------------------------------------------------------------------------------------
 */

/* Why it failed, as a problem document. */
static char *problem_of(const struct evaluation *e)
{
    const bool has_memory = strstr(e->of.why.text, kb_strerror((int)KB_ENOMEM)) == NULL;
    struct ld_problem p;
    size_t n;

    ld_problem_init(&p);
    if (atomic_load(&e->of.is_too_large)) {
        ld_problem_set(&p, 507,
                       "the models of the evaluation take more than the %zu bytes that the tenant's quota leaves",
                       e->of.max_bytes);
        ld_problem_limit(&p, "tenant_quota", (double)e->t->world->tenant_quota);
    } else {
        ld_problem_set(&p, has_memory ? 422 : 503, "%s", e->of.why.text);
    }
    return ld_problem_json(&p, NULL, &n);
}

static void keep(const struct evaluation *e)
{
    const bool is_cancelled = atomic_load(&e->is_cancelled);
    struct ld_tenant *t = e->t;
    struct ld_message why = {""};
    char *problem = e->of.result == NULL && !is_cancelled ? problem_of(e) : NULL;
    const struct ld_evaluation_row row = {.id = e->request->id,
                                          .ended_ms = t->now_ms,
                                          .state = is_cancelled           ? "cancelled"
                                                   : e->of.result != NULL ? "done"
                                                                          : "failed",
                                          .outcome = is_cancelled           ? NULL
                                                     : e->of.result != NULL ? e->of.result
                                                                            : problem};

    if (ld_store_end_evaluation(t->store, &row, &why) != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "tenant %s: the end of evaluation %s cannot be kept: %s", t->name, row.id, why.text);
    free(problem);
    ld_count(e->of.result != NULL && !is_cancelled ? &t->world->metrics->evaluations
                                                   : &t->world->metrics->evaluation_failures,
             1);
}

/* One that the end of the tenant has ended says nothing: its row has no end. */
static void finish(void *task)
{
    struct ld_evaluating *x = task;
    struct evaluation *e = x->now;
    struct ld_tenant *t = x->task.t;

    if (e == NULL)
        return;
    const bool is_ending = atomic_load(&t->is_halting) || atomic_load(&t->is_doomed);
    const bool was_rewritten = t->n_rewrites != e->n_rewrites;
    if (!is_ending && was_rewritten && !atomic_load(&e->is_cancelled) && e->n_tries < MOST_TRIES) {
        free(e->of.result);
        e->of.result = NULL;
        if (begin(e) && ld_task_run(&x->task))
            return;
    }
    if (was_rewritten) {
        free(e->of.result);
        e->of.result = NULL;
        (void)ld_fail(&e->of.why, "lines of the log were rewritten meanwhile, again and again");
    }
    if (!is_ending)
        keep(e);
    set_now(x, NULL);
}

const struct ld_task_kind ld_evaluating = {.size = sizeof(struct ld_evaluating),
                                           .threads = LD_TRANSFERS,
                                           .is_lasting = true,
                                           .init = init,
                                           .start = start,
                                           .run = run,
                                           .finish = finish,
                                           .cancel = cancel,
                                           .drop = drop};
