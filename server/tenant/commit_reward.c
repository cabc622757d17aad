/* Rewards: what the engine and the log make of each.
 *
 *     decision is            slot has            answer
 *     open                   no reward           applied
 *     open                   the same value      first, last: duplicate; sum: applied
 *     open                   another value       first: 409; sum, last: applied
 *     open, deferred         -                   409
 *     closed                 the same value      duplicate (sum: as the next lines)
 *     closed by its window   -                   410, kept as a `late` event; first, last: not twice in a row
 *     closed                 another value       409
 *     unknown                -                   404
 *
 * Under `first` a decision closes with the reward of its last slot, under `sum` and `last` with its window; the window
 * closes when the timer says so, hence up to a tick late. A slot is named by its arm; NULL is the arm drawn. Rewards
 * that name a user, and what stands in the log under the id of a reward, are the business of commit_reward_user.c;
 * those that name a metric, of commit_metric.c.
 *
 * An array is answered item by item. When a commit fails, the items of that batch are lost and say 503, while items
 * committed before stay as they are; if nothing at all was committed the whole request is 503 and may be sent again.
 *
 * Cost: an open decision is the engine's hash look-up and one reserve; a closed one is a look into the log by the
 * index on decisions. Rewards are compared as doubles, bit for bit but for the sign of zero: a retry sends the same
 * text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"
#include "json/json_out.h"

#define LATE "the decision's window has passed; the reward was kept, not learned"

/* detail lives as long as the op: a constant, or the document's. */
static void tell(struct ld_reward_result *result, int status, const char *detail)
{
    *result = (struct ld_reward_result){.status = status, .detail = detail};
}

static void tell_absent(struct ld_reward_result *result, enum ld_problem_type type, const char *detail)
{
    *result = (struct ld_reward_result){.status = 404, .type = type, .detail = detail};
}

/* The engine's refusal in the words of the engine; its pointers mean nothing inside an array and are left out. */
static void tell_core(struct ld_op *op, struct ld_reward_result *result, int rc, const struct kb_errmsg *msg)
{
    struct kb_errmsg *kept = ld_doc_alloc(op->doc, 1, sizeof *kept);

    if (kept != NULL)
        *kept = *msg;
    const char *detail = kept != NULL && kept->text[0] != '\0' ? kept->text : kb_strerror(rc);
    if (rc == KB_ENOTFOUND) { /* of an open decision: an unknown one never comes here (judge) */
        tell_absent(result, LD_NO_ARM, detail);
        return;
    }
    tell(result, ld_problem_status(rc), detail);
    if (kept != NULL && result->status == 400)
        result->pointer = kept->pointer;
}

/* A reward after its window: counted and kept for those who read the log. KB_EBUSY is passed on, all else is told. */
static int stage_late(struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result)
{
    struct ld_entry entry = {.ev = {.type = KB_EV_LATE}};
    int rc;

    entry.ev.as.late.decision = reward->decision;
    entry.ev.as.late.arm = reward->arm;
    entry.ev.as.late.reward = reward->reward;
    entry.ev.as.late.id = reward->id;
    entry.ev.as.late.event = reward->event;
    entry.ev.as.late.happened_at_ms = reward->happened_at_ms;
    rc = ld_batch_stage(t, &entry, NULL);
    if (rc == KB_OK)
        tell(result, 410, LATE);
    else if (rc != KB_EBUSY)
        tell(result, 503, "the commit failed");
    return rc == KB_EBUSY ? KB_EBUSY : KB_OK;
}

/* The engine has no such open decision: the log knows whether there ever was one. O(log n + rows of the decision).
 * The decision's row outlives its place in the engine, so nothing is forgotten. */
static int judge_closed(struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result)
{
    struct ld_decision_record record = {0};
    const bool is_sum = t->settings.spec.aggregation == KB_AGG_SUM;
    int rc = KB_OK;

    if (ld_store_decision(t->store, reward->decision, reward->arm, &record) != LD_STORE_OK)
        tell(result, 503, "the log cannot be read");
    else if (!record.is_decided)
        tell_absent(result, LD_NO_DECISION, "no such decision");
    else if (reward->metric != NULL)
        rc = ld_metric_judge_closed(t, reward, record.arm, result);
    else if (record.has_reward && record.reward == reward->reward && !is_sum)
        tell(result, LD_DUPLICATE, NULL);
    else if (record.is_expired && record.has_late && record.late == reward->reward && !is_sum)
        tell(result, 410, LATE); /* sent again, by a client that did not get the first answer */
    else if (record.is_expired)
        rc = stage_late(t, reward, result);
    else if (record.has_reward)
        tell(result, 409, "the decision has another reward");
    else
        tell_absent(result, LD_NO_ARM, "the decision has no such arm");
    ld_decision_record_close(&record);
    return rc;
}

/* An open decision whose slot has a reward: whether the new one changes nothing or may not. False also when the
 * engine does not know the decision: staging will say so. */
static bool is_settled(struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result)
{
    const enum kb_aggregation aggregation = t->settings.spec.aggregation;
    bool has_reward = false;
    double told = 0;

    if (kb_engine_slot_reward(t->engine, reward->decision, reward->arm, &has_reward, &told) != KB_OK || !has_reward)
        return false;
    if (aggregation != KB_AGG_SUM && told == reward->reward)
        tell(result, LD_DUPLICATE, NULL);
    else if (aggregation == KB_AGG_FIRST)
        tell(result, 409, "the decision has another reward");
    else
        return false;
    return true;
}

/* ENOTFOUND has two meanings: no open decision, which the log must judge, or no such arm in one that is open. */
static int judge_one(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                     struct ld_reward_result *result)
{
    struct ld_entry entry = {.ev = {.type = KB_EV_REWARDED}};
    struct kb_errmsg msg = {.text = ""};
    int rc = KB_OK;

    if (reward->metric == NULL && is_settled(t, reward, result))
        return KB_OK;
    entry.ev.as.rewarded.decision = reward->decision;
    entry.ev.as.rewarded.arm = reward->arm;
    entry.ev.as.rewarded.reward = reward->reward;
    entry.ev.as.rewarded.id = reward->id;
    entry.ev.as.rewarded.event = reward->event;
    entry.ev.as.rewarded.happened_at_ms = reward->happened_at_ms;
    if (reward->metric != NULL && !ld_metric_fill(t, reward, &entry.ev, result, &rc))
        return rc;
    rc = ld_batch_stage(t, &entry, &msg);
    if (rc == KB_OK) {
        tell(result, 200, NULL);
        ld_batch_remember(t, reward->id);
    } else if ((rc == KB_ENOTFOUND || rc == LD_LOST) &&
               kb_engine_decision_state(t->engine, reward->decision) == KB_DECISION_UNKNOWN)
        return judge_closed(t, reward, result); /* which may need no commit, in a turn whose disk has failed as well */
    else if (rc == LD_LOST)
        tell(result, 503, "the commit failed");
    else if (rc != KB_EBUSY)
        tell_core(op, result, rc, &msg);
    return rc == KB_EBUSY ? KB_EBUSY : KB_OK;
}

/* The arm of the slot that a reward names, in the op's memory: by the engine, or by the log where the decision is
 * closed. NULL with the result, or with *rc: it may be among what is staged. */
static const char *find_slot(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                             struct ld_reward_result *result, int *rc)
{
    const bool is_open = kb_engine_decision_state(t->engine, reward->decision) != KB_DECISION_UNKNOWN;
    const char *arm = kb_engine_slot_arm(t->engine, reward->decision, reward->slot);
    struct ld_decision_record record = {0};
    char *logged = NULL, *kept = NULL;

    if (!is_open && t->batch->n_decided > 0) {
        *rc = KB_EBUSY;
        return NULL;
    }
    if (!is_open && (ld_store_slot_arm(t->store, reward->decision, reward->slot, &logged) != LD_STORE_OK ||
                     ld_store_decision(t->store, reward->decision, NULL, &record) != LD_STORE_OK)) {
        free(logged);
        tell(result, 503, "the log cannot be read");
        return NULL;
    }
    arm = logged != NULL ? logged : arm;
    if (arm == NULL && !is_open && !record.is_decided)
        tell_absent(result, LD_NO_DECISION, "no such decision");
    else if (arm == NULL)
        tell_absent(result, LD_NO_ARM, "the decision has no such slot");
    else if ((kept = ld_doc_alloc(op->doc, strlen(arm) + 1, 1)) == NULL)
        tell(result, 503, "out of memory");
    if (kept != NULL)
        strcpy(kept, arm);
    ld_decision_record_close(&record);
    free(logged);
    return kept;
}

int ld_reward_judge(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                    struct ld_reward_result *result)
{
    struct ld_reward of_arm = *reward;
    int rc = KB_OK;

    if (reward->slot != NULL && (of_arm.arm = find_slot(t, op, reward, result, &rc)) == NULL)
        return rc;
    return judge_one(t, op, &of_arm, result);
}

int ld_reward_activate(struct ld_tenant *t, const char *decision, struct ld_reward_result *result)
{
    const struct ld_entry entry = {.ev = {.type = KB_EV_ACTIVATED, .as.activated.decision = decision}};
    const int rc = ld_batch_stage(t, &entry, NULL);

    if (rc == KB_OK || rc == KB_EBUSY)
        return KB_EBUSY;
    tell(result, 503, rc == LD_LOST ? "the commit failed" : kb_strerror(rc));
    return KB_OK;
}

static int judge(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward, struct ld_reward_result *result)
{
    struct ld_reward one = *reward;

    if (one.is_tracked && t->settings.spec.has_metrics)
        one.metric = one.event;
    if (one.id != NULL && ld_reward_is_repeated(t, op, &one, result))
        return KB_OK;
    if (ld_metric_is_unknown(t, &one, result))
        return KB_OK;
    one.metric = ld_metric_in_log(t, one.metric);
    if (one.is_tracked && one.decision != NULL &&
        kb_engine_decision_state(t->engine, one.decision) == KB_DECISION_DEFERRED)
        return ld_reward_activate(t, one.decision, result);
    return one.user != NULL ? ld_reward_judge_user(t, op, &one, result) : ld_reward_judge(t, op, &one, result);
}

/* A reward that depends on an event of the batch is judged again when that is applied, and when others have written
 * meanwhile. After the flush nothing is staged that it could depend on. One that finds no decision is counted: nobody
 * else will tell of it. */
static void judge_item(struct ld_tenant *t, struct ld_op *op, size_t i)
{
    const struct ld_reward *reward = &op->rewards[i];
    struct ld_reward_result *result = &op->results[i];
    int rc = judge(t, op, reward, result);

    for (int n = 1; rc == KB_EBUSY && n < LD_MOST_LOOKS; n++) {
        ld_batch_flush(t);
        rc = judge(t, op, reward, result);
    }
    if (rc != KB_OK)
        tell(result, 503, "the tenant is busy with what this depends on");
    if (result->type == LD_NO_DECISION || (result->type == LD_NO_METRIC && reward->is_tracked))
        atomic_fetch_add_explicit(&t->books.n_unknown, 1, memory_order_relaxed);
}

/* Items are judged one after the other against a state in which everything that they depend on is applied, so an
 * array means what the same rewards sent one by one would mean. Never KB_EBUSY: items wait one by one, not the op as
 * a whole. */
int ld_rewards_expand(struct ld_tenant *t, struct ld_op *op)
{
    op->results = ld_doc_alloc(op->doc, op->n, sizeof *op->results);
    if (op->results == NULL) {
        ld_problem_from_core(ld_op_problem(op), KB_ENOMEM, NULL);
        return 0;
    }
    for (op->n_done = 0; op->n_done < op->n; op->n_done++)
        judge_item(t, op, op->n_done);
    return 0;
}

/* Items from n_safe on went with the batch; what only looked something up (404, duplicates, what was learned before)
 * stays true. */
void ld_rewards_lose(struct ld_op *op)
{
    for (size_t i = op->n_safe; i < op->n_done; i++)
        if ((op->results[i].status == 200 && !op->results[i].is_repeated) || op->results[i].status == 410)
            tell(&op->results[i], 503, op->is_unsure ? LD_UNSURE : "the commit failed");
    op->n_safe = op->n_done;
}

/* Nothing of it is in the log, but something should be. Asked after the last commit of the op. Items that were merely
 * looked up do not count either way. */
static bool is_lost(const struct ld_op *op)
{
    bool has_lost = false;

    for (size_t i = 0; i < op->n; i++) {
        if (op->results[i].status == 200 || op->results[i].status == 410)
            return false;
        has_lost |= op->results[i].status == 503;
    }
    return has_lost;
}

/* A single reward speaks in status codes, an array in place. A duplicate is a success with a member that says so,
 * since the sender of a retry wants to stop retrying. */
void ld_rewards_answer(struct ld_tenant *t, struct ld_op *op)
{
    const struct ld_reward_result *first = &op->results[0];
    size_t n = 0;
    char *text;

    (void)t;
    if (is_lost(op)) {
        ld_op_refuse_busy(op, op->is_array ? ld_op_loss(op) : first->detail);
        return;
    }
    if (!op->is_array && first->status != 200 && first->status != LD_DUPLICATE) {
        if (first->type != LD_PROBLEM_OF_STATUS)
            ld_problem_set_as(ld_op_problem(op), first->type, "%s", first->detail);
        ld_problem_set(ld_op_problem(op), first->status, "%s", first->detail);
        if (first->pointer != NULL)
            ld_problem_add(ld_op_problem(op), first->pointer, "%s", first->detail);
        return;
    }
    text = op->is_array ? ld_encode_rewards(op->results, op->n, &n) : ld_encode_reward(first, &n);
    ld_op_reply_text(op, text, n);
}
