/* What each kind of op stages, and what it is answered.
 *
 * A handler looks at the applied state and stages events; it returns KB_EBUSY when an event depends on one that is
 * staged but not applied, and is then called again with everything applied: up to its first staged event it has no
 * side effect. Refusals go into op->problem. Answers that show the state (graph, arms, settings) are made after apply.
 *
 * Three moments of an op, all in the writer's thread: expand stages its events, lose tells it that a commit took some
 * of them away, answer fills the reply and calls done. Each kind is a row of KINDS at the end; the two that carry
 * many items have files of their own, and so have changes of the configuration.
 *
 * Memory: what an event names must live until its commit, hence in the op's document. Cost: a look into the log is
 * O(log n) and happens only for ids of the caller's and for decisions that are closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "tenant/batch.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"
#include "json/json_in.h"
#include "json/json_out.h"

/* Takes text over. NULL (no memory) cannot undo what is durable, so the problem says so. The status must not invite a
 * retry, as 503 would. */
void ld_op_reply_text(struct ld_op *op, char *text, size_t n)
{
    op->reply = text;
    op->n_reply = n;
    op->reply_status = 200;
    if (text == NULL)
        ld_problem_set(ld_op_problem(op), 500, "out of memory for the answer; what it tells of has been recorded");
}

/* For answers that are constants or live on the stack. A failed copy becomes the problem of ld_op_reply_text. */
void ld_op_reply_copy(struct ld_op *op, const char *text)
{
    char *copy = strdup(text);

    ld_op_reply_text(op, copy, strlen(text));
}

/* The writer alone moves the epoch, so this needs no lock here. Nothing is decoded again here: the client has the
 * body, and may want to look at the new configuration first. */
bool ld_op_is_outdated(const struct ld_tenant *t, struct ld_op *op)
{
    if (op->dims_epoch == t->dims_epoch)
        return false;
    ld_problem_set(ld_op_problem(op), 409, "the configuration has changed since the request came: try again");
    return true;
}

/* The end of a handler: what the engine refused becomes the problem. Of LD_LOST the op was told already, by its lose
 * function. Returns what ld_op_expand returns. */
int ld_op_conclude(struct ld_op *op, int rc, const struct kb_errmsg *msg)
{
    if (rc == KB_EBUSY)
        return rc;
    if (rc != KB_OK && rc != LD_LOST)
        ld_problem_from_core(ld_op_problem(op), rc, msg->text[0] != '\0' ? msg : NULL);
    return 0;
}

/* ---- decided --------------------------------------------------------------------------------------- */

/* Whether the caller's decision id is in the log; if so, op is answered as it was then. A decision without a kept
 * answer was not named by a caller (the id was the server's own), or came here without it (api_copy.c): a conflict. A
 * log that cannot be read answers 503: to decide again would make two decisions of one id. */
static bool is_answered_before(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_decision_record record = {0};
    bool is_known;

    if (ld_store_decision(t->store, op->event.as.decided.decision, NULL, &record) != LD_STORE_OK) {
        ld_op_refuse_busy(op, "the log cannot be read");
        return true;
    }
    is_known = record.is_decided;
    const bool is_anothers = is_known && strcmp(record.user, op->event.as.decided.user) != 0;
    if (is_known)
        ld_op_forgive(op); /* what the model made of the retry does not matter */
    if (is_known && record.answer != NULL && !is_anothers) {
        ld_op_reply_text(op, record.answer, strlen(record.answer));
        record.answer = NULL;
    } else if (is_known) {
        ld_problem_set(ld_op_problem(op), 409, "the decision's id is taken");
        ld_problem_add(ld_op_problem(op), "/decision",
                       is_anothers ? "a decision for another user has this id already"
                                   : "a decision has this id already, and the log keeps no answer to repeat");
    }
    ld_decision_record_close(&record);
    return is_known;
}

/* By the writer, which has no event of the op staged. What the log has under its id is its answer all the same, as far
 * as the copy goes; and what stands now is what it is decided by. Without memory it is refused. */
bool ld_op_stand_alone(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_problem p;
    size_t n = 0;

    if (!op->is_plain || !t->settings.decides_alone || op->again == NULL || op->problem->status != 0)
        return false;
    if (op->is_named && is_answered_before(t, op))
        return true;
    if (op->answer == NULL) { /* it was staged */
        op->answer = op->reply;
        op->n_answer = op->n_reply;
        op->reply = NULL;
    }
    ld_problem_init(&p);
    if (ld_tenant_is_stale(t, op) && ld_tenant_select_again(t, op, &p) != 0) {
        *ld_op_problem(op) = p;
        return true;
    }
    char *text =
        op->answer != NULL ? ld_encode_unrecorded(op->event.as.decided.decision, op->answer, op->n_answer, &n) : NULL;
    if (text == NULL)
        return false;
    ld_op_reply_text(op, text, n);
    ld_count(&t->world->metrics->shared.unrecorded, 1);
    return true;
}

/* With a shared log: a decision that is out of date is made again, and may come to nothing that is to be recorded
 * (*is_over). KB_EBUSY: its user may have got an arm to keep in the open batch. */
static int look_again(struct ld_tenant *t, struct ld_op *op, bool *is_over)
{
    const bool is_kept = op->event.as.decided.assigned_until_ms > 0;
    struct ld_problem p;

    *is_over = false;
    if (is_kept && kb_ids_find(&t->batch->ids, op->event.as.decided.user) != KB_ID_NONE)
        return KB_EBUSY;
    if (!ld_tenant_is_stale(t, op))
        return KB_OK;
    ld_problem_init(&p);
    if (ld_tenant_select_again(t, op, &p) != 0)
        *ld_op_problem(op) = p;
    *is_over = p.status != 0 || op->answer == NULL;
    return KB_OK;
}

/* Windows end by the log's time, which another server's clock may have put ahead of ours: else they would have ended
 * before they began. */
static void count_from_the_log(const struct ld_tenant *t, struct kb_event *ev)
{
    const int64_t ahead_ms = t->now_ms - t->world->now_ms();

    if (ahead_ms <= 0)
        return;
    ev->as.decided.expires_at_ms += ahead_ms;
    if (ev->as.decided.assigned_until_ms > 0)
        ev->as.decided.assigned_until_ms += ahead_ms;
}

/* The arm was drawn in the serving thread; here the decision is only recorded, or a refusal confirmed, unless the log
 * has the answer to give. A retry of the caller's id may meet
 * its first attempt in the log (answered from there) or in this very batch (KB_EBUSY, and then in the log). The bound
 * on open decisions counts those staged as well; it bounds the engine's memory. The answer is kept in the row only
 * when the caller can ask again, that is when the id was the caller's. */
static int expand_decided(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_entry entry = {.ev = op->event};
    struct kb_errmsg msg = {.text = ""};
    bool is_over;
    int rc;

    if (op->problem->status != 0)
        ld_batch_flush(t); /* refused by the model of now: its first attempt may stand in this very batch */
    if ((op->is_named && is_answered_before(t, op)) || op->problem->status != 0)
        return 0;
    if (ld_op_is_outdated(t, op))
        return 0;
    if (op->again != NULL && op->event.as.decided.draws != NULL && ld_shared_version(t) < LD_LOG_VERSION_SLOTS) {
        ld_op_refuse_busy(op, "decisions with slots wait until all servers know them (laplacectl cluster upgrade); "
                              "nothing was recorded");
        return 0;
    }
    if (op->again != NULL) {
        rc = look_again(t, op, &is_over);
        if (rc != KB_OK || is_over)
            return rc;
        entry.ev = op->event;
        count_from_the_log(t, &entry.ev);
    }
    if (t->n_pending + t->batch->n_decided >= t->world->max_pending) {
        ld_op_refuse_busy(op, "too many decisions wait for their reward");
        ld_problem_limit(ld_op_problem(op), "pending", (double)t->world->max_pending);
        return 0;
    }
    if (entry.ev.as.decided.among == NULL && op->arms_epoch != t->arms_epoch) {
        /* the catalogue of then is not the log's of now */
        if (ld_settings_log_candidates(&t->settings))
            entry.ev.as.decided.among = entry.ev.as.decided.slots;
        else if (entry.ev.as.decided.draws == NULL)
            entry.ev.as.decided.n_candidates = op->n_among;
    }
    if (op->again != NULL && ld_shared_version(t) < LD_LOG_VERSION_COUNTS)
        entry.ev.as.decided.n_candidates = 0;
    if (op->is_named) {
        char *answer = ld_doc_alloc(op->doc, op->n_answer + 1, 1);

        if (answer == NULL)
            return ld_op_conclude(op, KB_ENOMEM, &msg);
        entry.answer = memcpy(answer, op->answer, op->n_answer + 1);
    }
    rc = ld_batch_stage(t, &entry, &msg);
    if (rc == KB_OK) {
        ld_op_reply_text(op, op->answer, op->n_answer);
        op->answer = NULL;
        if (op->again != NULL && entry.ev.as.decided.assigned_until_ms > 0)
            ld_batch_remember(t, entry.ev.as.decided.user);
    }
    return ld_op_conclude(op, rc, &msg);
}

/* ---- graph, arms ----------------------------------------------------------------------------------- */

/* Graph, catalogue, and a model that is to forget: the engine checks ids, weights and features; the codec has checked
 * the rest. The event stands alone in its batch (kb_event_is_alone), so what it is checked against is applied. */
static int expand_event(struct ld_tenant *t, struct ld_op *op)
{
    const struct ld_entry entry = {.ev = op->event, .line = op->line};
    struct kb_errmsg msg = {.text = ""};

    if (op->event.type == KB_EV_DECIDED)
        return expand_decided(t, op);
    if (op->event.type == KB_EV_ARMS && ld_op_is_outdated(t, op))
        return 0;
    if (op->problem->status == 0 && ld_tasks_keep(t, op))
        return LD_KEPT;
    if (op->problem->status != 0)
        return 0;
    return ld_op_conclude(op, ld_batch_stage(t, &entry, &msg), &msg);
}

/* A decision brought its answer along; graph and arms show the state after the event, outside the write lock: the
 * writer reads what only it can change. */
static void answer_event(struct ld_tenant *t, struct ld_op *op)
{
    char *text, done[64];
    size_t n = 0;

    if (op->reply != NULL)
        return;
    if (op->event.type == KB_EV_FORGOTTEN) {
        snprintf(done, sizeof done, "{\"forgotten\":true,\"seq\":%llu}", (unsigned long long)t->seq);
        ld_op_reply_copy(op, done);
        return;
    }
    text =
        op->event.type == KB_EV_GRAPH ? ld_encode_graph_summary(t->engine, &n) : ld_encode_arms_summary(t->engine, &n);
    ld_op_reply_text(op, text, n);
}

/* ---- activations ----------------------------------------------------------------------------------- */

#define DUPLICATE_ACTIVATION "{\"activated\":false,\"duplicate\":true}"

/* The engine does not know the decision: closed, or never made. A decision that was closed by its rewards was shown,
 * whatever it was called: the activation comes too late to matter. */
static void answer_closed_activation(struct ld_tenant *t, struct ld_op *op, const char *decision)
{
    struct ld_decision_record record = {0};

    if (ld_store_decision(t->store, decision, NULL, &record) != LD_STORE_OK)
        ld_op_refuse_busy(op, "the log cannot be read");
    else if (!record.is_decided)
        ld_problem_set_as(ld_op_problem(op), LD_NO_DECISION, "no such decision");
    else if (record.is_expired)
        ld_problem_set(ld_op_problem(op), 410, "the decision's window has passed");
    else
        ld_op_reply_copy(op, DUPLICATE_ACTIVATION);
    ld_decision_record_close(&record);
}

/* Of a user: the newest decision that waits. NULL with the op's answer, or with KB_EBUSY: the one that they were shown
 * last is newer, or there is none at all. */
static const char *find_waiting(struct ld_tenant *t, struct ld_op *op, int *rc)
{
    const char *user = op->rewards[0].user, *id = NULL, *shown = NULL;
    size_t n = 0;

    *rc = kb_engine_waiting(t->engine, user, &id);
    if (*rc == KB_EBUSY || id != NULL)
        return id;
    *rc = kb_engine_shown(t->engine, user, &shown, 1, &n);
    if (*rc == KB_OK && n > 0) {
        ld_op_reply_copy(op, DUPLICATE_ACTIVATION);
    } else if (*rc == KB_OK) {
        ld_problem_set_as(ld_op_problem(op), LD_NO_DECISION, "the user has no open decision");
        atomic_fetch_add_explicit(&t->books.n_unknown, 1, memory_order_relaxed);
    }
    return NULL;
}

/* Every outcome but success is decided by what the engine says of the decision: already active, or not open. Only a
 * decision made with `defer` waits to be activated; for all others it is a duplicate. */
static int expand_activate(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_entry entry = {.ev = op->event};
    struct kb_errmsg msg = {.text = ""};
    int rc = KB_OK;

    entry.ev.type = KB_EV_ACTIVATED;
    if (op->rewards != NULL) {
        const char *id = find_waiting(t, op, &rc);
        char *copy = id != NULL ? ld_doc_alloc(op->doc, strlen(id) + 1, 1) : NULL;
        if (id == NULL)
            return rc;
        if (copy == NULL)
            return ld_op_conclude(op, KB_ENOMEM, &msg);
        entry.ev.as.activated.decision = strcpy(copy, id);
    }
    rc = ld_batch_stage(t, &entry, &msg);
    if (rc == KB_EEXIST)
        ld_op_reply_copy(op, DUPLICATE_ACTIVATION);
    else if (rc == KB_ENOTFOUND)
        answer_closed_activation(t, op, op->event.as.activated.decision);
    else
        return ld_op_conclude(op, rc, &msg);
    return 0;
}

/* A duplicate brought its answer along. */
static void answer_activate(struct ld_tenant *t, struct ld_op *op)
{
    (void)t;
    if (op->reply == NULL)
        ld_op_reply_copy(op, "{\"activated\":true}");
}

/* ---- expiry ---------------------------------------------------------------------------------------- */

/* Ids are copied: those of the engine go with the next apply, and a batch may end in the middle. Returns how many it
 * copied: short of memory, the rest waits for the next tick. */
static size_t copy_expired(struct ld_tenant *t, struct ld_doc *doc, const char **ids)
{
    const size_t n = kb_engine_expired(t->engine, t->now_ms, ids, LD_EXPIRE_EVENTS);

    for (size_t i = 0; i < n; i++) {
        char *id = ld_doc_alloc(doc, strlen(ids[i]) + 1, 1);

        if (id == NULL)
            return i;
        ids[i] = strcpy(id, ids[i]);
    }
    return n;
}

static int stage_expiry(struct ld_tenant *t, const char *id)
{
    const struct kb_spec *spec = &t->settings.spec;
    struct ld_entry entry = {.ev = {.type = KB_EV_EXPIRED}};

    entry.ev.as.expired.decision = id;
    entry.ev.as.expired.has_reward =
        spec->has_default_reward && kb_engine_decision_state(t->engine, id) == KB_DECISION_PENDING;
    entry.ev.as.expired.reward = entry.ev.as.expired.has_reward ? spec->default_reward : 0;
    return ld_batch_stage(t, &entry, NULL);
}

/* What is left over waits for another turn. The probe of the disk is a tenant's way back when no other traffic comes.
 * The default reward is learned for decisions that were shown; a deferred one that never was teaches nothing. */
void ld_batch_expire(struct ld_tenant *t)
{
    struct ld_batch *b = t->batch;
    struct ld_problem problem;
    struct ld_doc *doc = NULL;
    size_t n = 0;

    if (atomic_load(&t->is_failing) && !ld_tenant_probe(t)) {
        t->has_failed = true;
        return;
    }
    if (t->world->shared != NULL && (kb_engine_next_expiry(t->engine) > t->now_ms || !ld_shared_begin(t)))
        return;
    ld_batch_flush(t);
    ld_problem_init(&problem);
    const char **ids =
        ld_doc_parse(&doc, "{}", 2, false, &problem) == 0 ? ld_doc_alloc(doc, LD_EXPIRE_EVENTS, sizeof *ids) : NULL;
    if (ids != NULL)
        n = copy_expired(t, doc, ids);
    t->has_backlog = n == LD_EXPIRE_EVENTS;
    for (size_t i = 0; i < n; i++) {
        int rc = stage_expiry(t, ids[i]);

        for (int k = 1; rc == KB_EBUSY && k < LD_MOST_LOOKS; k++) {
            ld_batch_flush(t);
            rc = stage_expiry(t, ids[i]);
        }
        if (rc != KB_OK)
            break; /* the timer comes back */
    }
    if (b->n_current > 0)
        b->beside[b->commit.n - 1].kept = doc;
    else
        ld_doc_free(doc);
    b->n_current = 0;
}

/* ---- models built beside the writer ------------------------------------------------------------------------ */

/* Where one is on its way already, or nothing has been learned, there is nothing to begin. */
static int expand_rebuild(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_errmsg msg = {.text = ""};

    return ld_op_conclude(op, ld_batch_stage_rebuild(t), &msg);
}

/* ---- table ----------------------------------------------------------------------------------------- */

/* By type of op. A kind that cannot lose anything but itself has no lose function. */
static const struct {
    int (*expand)(struct ld_tenant *t, struct ld_op *op);
    void (*answer)(struct ld_tenant *t, struct ld_op *op); /* NULL: nothing to add */
    void (*lose)(struct ld_op *op);                        /* NULL: 503 */
} KINDS[] = {
    [LD_OP_EVENT] = {expand_event, answer_event, NULL},
    [LD_OP_REWARDS] = {ld_rewards_expand, ld_rewards_answer, ld_rewards_lose},
    [LD_OP_OBSERVE] = {ld_observe_expand, ld_observe_answer, ld_observe_lose},
    [LD_OP_ACTIVATE] = {expand_activate, answer_activate, NULL},
    [LD_OP_SETTINGS] = {ld_settings_expand, ld_settings_answer, NULL},
    [LD_OP_PATCH] = {ld_patch_expand, ld_settings_answer, NULL},
    [LD_OP_SWITCH] = {ld_switch_expand, ld_settings_answer, NULL},
    [LD_OP_PROMOTE] = {ld_promote_expand, ld_promote_answer, NULL},
    [LD_OP_REBUILD] = {expand_rebuild, ld_settings_answer, NULL},
    [LD_OP_TASK] = {ld_task_expand, NULL, NULL},
};

/* A doomed tenant has nothing to say any more, whatever was asked. 0 means that the op is through with staging,
 * whether or not it went well. */
int ld_op_expand(struct ld_tenant *t, struct ld_op *op)
{
    if (!atomic_load(&t->is_doomed))
        return KINDS[op->type].expand(t, op);
    ld_op_refuse_closed(t, op);
    return 0;
}

/* The last thing that happens to an op here: done may free it. Under relaxed durability this may come before the
 * commit; a failure after it is told to nobody but the log and metrics. */
void ld_op_answer(struct ld_tenant *t, struct ld_op *op)
{
    if (op->problem->status == 0 && KINDS[op->type].answer != NULL)
        KINDS[op->type].answer(t, op);
    op->done(op);
}

/* May be called twice for an op (once for its batch, once for what it wanted to stage next); the second changes
 * nothing. The reply of a decision was taken from op->answer when it was staged, and goes with the batch. */
void ld_op_lose(struct ld_op *op)
{
    if (KINDS[op->type].lose != NULL) {
        KINDS[op->type].lose(op);
        return;
    }
    free(op->reply);
    op->reply = NULL;
    ld_op_refuse_busy(op, ld_op_loss(op));
}

const char *ld_op_loss(const struct ld_op *op)
{
    return op->is_unsure ? LD_UNSURE : "the commit failed; nothing was recorded";
}
