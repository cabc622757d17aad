/* Rewards whose sender knows a user and no decision, and rewards that are sent again under an id.
 *
 *     by user     the open decision that the user was shown last, or all of them     none: 404, and counted
 *     by id       as the log says under that id, whatever has become of the decisions since
 *
 * Which decision it is depends on the order of the log, so it is found in the writer's turn, against a state in which
 * everything that could change it is applied (kb_engine_shown). The line then names the decision: nobody who reads the
 * log looks for it again.
 *
 * An event of a client's (`is_tracked`) that finds none takes the newest that waits to be activated: that is staged,
 * and the reward looks again behind its commit. What stands in the log under its id has been looked for before.
 *
 * A reward that found no decision leaves no line. Its id is free: a retry may find the decision that has come since.
 *
 * All of a user's decisions get the reward in one transaction, unless a change of the dictionary comes in between. Who
 * was cut off there by a crash is told by the id which of them have it.
 *
 * Cost: the user's table, O(1); with an id a look into the log, O(log n). */
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "model/engine_write.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"

#define MOST 1000u /* decisions that one reward may be learned for */
#define NO_MEMORY "out of memory"
#define TAKEN "another reward has this id"

static void tell(struct ld_reward_result *result, int status, const char *detail)
{
    *result = (struct ld_reward_result){.status = status, .detail = detail};
}

/* ---- by id ------------------------------------------------------------------------------------------------ */

/* What the log has under an id, beside the reward that is at hand. */
struct found {
    struct ld_tenant *t;
    struct ld_op *op;
    const struct ld_reward *reward;
    const char *metric;     /* of it, as the log has it */
    const char **decisions; /* [most] in the op's memory */
    size_t n, most;
    bool is_other, has_no_memory;
};

static const char *keep(struct ld_op *op, const char *text)
{
    char *copy = ld_doc_alloc(op->doc, strlen(text) + 1, 1);

    return copy != NULL ? strcpy(copy, text) : NULL;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Whether the arm is the one that was meant. By the name of a slot: where the log still has its decision. */
static bool is_arm_meant(const struct found *f, const struct ld_told_reward *told)
{
    char *arm = NULL;

    if (f->reward->slot == NULL)
        return is_same_text(told->arm, f->reward->arm);
    (void)ld_store_slot_arm(f->t->store, told->decision, f->reward->slot, &arm);
    const bool is_meant = arm == NULL || is_same_text(told->arm, arm);
    free(arm);
    return is_meant;
}

static int find(void *arg, const struct ld_told_reward *told)
{
    struct found *f = arg;
    const struct ld_reward *asked = f->reward;

    f->is_other |= f->n == f->most || told->reward != asked->reward || !is_arm_meant(f, told) ||
                   !is_same_text(told->metric, f->metric) ||
                   (asked->decision != NULL && !is_same_text(told->decision, asked->decision));
    if (f->is_other)
        return 1;
    const char *copy = told->decision != NULL ? keep(f->op, told->decision) : NULL;
    f->has_no_memory = copy == NULL;
    if (f->has_no_memory)
        return 1;
    f->decisions[f->n++] = copy;
    return 0;
}

/* Whether the decision was made for another user. One that the log no longer has may be anybody's. LD_STORE_*. */
static int compare_user(struct ld_tenant *t, struct found *f)
{
    struct ld_decision_record record = {0};
    const int rc = ld_store_decision(t->store, f->decisions[0], NULL, &record);

    f->is_other = rc == LD_STORE_OK && record.is_decided && strcmp(record.user, f->reward->user) != 0;
    ld_decision_record_close(&record);
    return rc;
}

bool ld_reward_is_repeated(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                           struct ld_reward_result *result)
{
    struct found f = {.t = t,
                      .op = op,
                      .reward = reward,
                      .metric = ld_metric_in_log(t, reward->metric),
                      .most = reward->is_all ? MOST : 1};
    int rc = LD_STORE_OK;

    f.decisions = ld_doc_alloc(op->doc, f.most, sizeof *f.decisions);
    f.has_no_memory = f.decisions == NULL;
    if (!ld_batch_commit_id(t, reward->id)) {
        tell(result, 503, "the commit failed");
        return true;
    }
    if (!f.has_no_memory)
        rc = ld_store_rewards(t->store, reward->id, find, &f);
    if (rc == LD_STORE_OK && f.n > 0 && reward->user != NULL)
        rc = compare_user(t, &f);
    if (f.is_other)
        tell(result, 409, TAKEN);
    else if (f.has_no_memory)
        tell(result, 503, NO_MEMORY);
    else if (rc != LD_STORE_OK)
        tell(result, 503, "the log cannot be read");
    else if (f.n > 0)
        *result = (struct ld_reward_result){.status = 200,
                                            .decisions = reward->user != NULL ? f.decisions : NULL,
                                            .n_decisions = f.n,
                                            .is_repeated = true};
    else
        return false;
    return true;
}

/* ---- by user ---------------------------------------------------------------------------------------------- */

/* As if it had been named. Only what this very reward has staged before could make it wait, or what other servers have
 * written: the first of its decisions then waits for a look at the whole reward, whose id may be in the log by now. */
static int reward_one(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward, const char *decision,
                      bool is_first, struct ld_reward_result *result)
{
    struct ld_reward one = *reward;
    one.decision = decision;
    int rc = ld_reward_judge(t, op, &one, result);

    if (rc == KB_EBUSY && is_first)
        return rc;
    for (int n = 1; rc == KB_EBUSY && n < LD_MOST_LOOKS; n++) {
        ld_batch_flush(t);
        rc = ld_reward_judge(t, op, &one, result);
    }
    if (rc != KB_OK)
        tell(result, 503, "the tenant is busy with what this depends on");
    return KB_OK;
}

/* ids, of which *n are there, to those of them that the answer names: where some took the reward, these; else what the
 * first of them says holds for all that say the same. What a commit has lost is told in any case. KB_EBUSY: nothing of
 * it is staged. */
static int reward_each(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward, const char **ids,
                       size_t *n, struct ld_reward_result *result)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < *n; i++) {
        struct ld_reward_result r;

        if (reward_one(t, op, reward, ids[i], i == 0, &r) == KB_EBUSY)
            return KB_EBUSY;
        const bool is_better = i == 0 || r.status == 503 || (r.status == 200 && result->status != 503);
        if (is_better && (i == 0 || r.status != result->status))
            n_kept = 0;
        if (is_better)
            *result = r;
        if (r.status == result->status)
            ids[n_kept++] = ids[i];
    }
    *n = n_kept;
    return KB_OK;
}

/* What the user did shows that they have seen what waits to be activated, where nothing else is open. */
static int judge_none(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                      struct ld_reward_result *result)
{
    const char *id = NULL;

    if (reward->is_tracked && kb_engine_waiting(t->engine, reward->user, &id) == KB_EBUSY)
        return KB_EBUSY;
    if (id == NULL) {
        *result = (struct ld_reward_result){
            .status = 404, .type = LD_NO_DECISION, .detail = "the user has no open decision that was shown"};
        return KB_OK;
    }
    id = keep(op, id);
    if (id != NULL)
        return ld_reward_activate(t, id, result);
    tell(result, 503, NO_MEMORY);
    return KB_OK;
}

int ld_reward_judge_user(struct ld_tenant *t, struct ld_op *op, const struct ld_reward *reward,
                         struct ld_reward_result *result)
{
    const size_t most = reward->is_all ? MOST + 1 : 1;
    const char **ids = ld_doc_alloc(op->doc, most, sizeof *ids);
    size_t n = 0;

    if (ids == NULL) {
        tell(result, 503, NO_MEMORY);
        return KB_OK;
    }
    if (kb_engine_shown(t->engine, reward->user, ids, most, &n) == KB_EBUSY)
        return KB_EBUSY;
    if (n > MOST) {
        tell(result, 409, "the user has more than 1000 open decisions: name them");
        return KB_OK;
    }
    if (n == 0)
        return judge_none(t, op, reward, result);
    for (size_t i = 0; i < n; i++)
        if ((ids[i] = keep(op, ids[i])) == NULL) {
            tell(result, 503, NO_MEMORY);
            return KB_OK;
        }
    const uint64_t n_followed = t->shared.n_followed;
    if (n > 1 && t->batch->commit.n + n + 1 >= LD_BATCH_EVENTS)
        ld_batch_flush(t);
    if (n_followed != t->shared.n_followed) /* the id may be in the log by now */
        return KB_EBUSY;
    if (reward_each(t, op, reward, ids, &n, result) == KB_EBUSY)
        return KB_EBUSY;
    if (result->status == 200 || result->status == LD_DUPLICATE) {
        result->decisions = ids;
        result->n_decisions = n;
    }
    return KB_OK;
}
