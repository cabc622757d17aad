/* Observations: learning without a decision, one or many.
 *
 * All or nothing is a promise about faults of the body: every line is checked before the first is staged, and when the
 * engine still refuses one, the batch is undone, which is why a bulk op starts a batch of its own. It is not a promise
 * of one transaction: a dictionary change ends a batch, so a long body spans several, and is answered when the last is
 * applied. Should a commit fail in between, what came before it is durable, and the answer says how many lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ids.h"
#include "tenant_impl.h"

/* Ids of catalogue arms that have features, or as few as memory allowed (*rc). */
static void list_featured(const struct ld_tenant *t, struct kb_ids *ids, enum kb_err *rc)
{
    kb_ids_init(ids);
    for (size_t i = 0; *rc == KB_OK && i < kb_engine_n_arms(t->engine); i++) {
        const struct kb_arm_view arm = kb_engine_arm(t->engine, i);

        if (arm.features == NULL)
            continue;
        *rc = kb_ids_reserve(ids, 1, strlen(arm.id) + 1);
        if (*rc == KB_OK)
            kb_ids_add(ids, arm.id);
    }
}

static void point_at_item(const struct ld_op *op, size_t i, const char *field, char *out, size_t n)
{
    if (op->is_array)
        snprintf(out, n, "/%zu%.100s", i, field);
    else
        snprintf(out, n, "%.100s", field);
}

/* Every observation names features, or an arm whose features the catalogue knows. */
static bool check_observations(const struct ld_tenant *t, struct ld_op *op)
{
    struct kb_ids featured;
    enum kb_err rc = KB_OK;
    char pointer[160];

    if (t->settings.spec.arm_dim == 0)
        return true;
    list_featured(t, &featured, &rc);
    for (size_t i = 0; rc == KB_OK && i < op->n; i++) {
        const struct kb_ev_slot *arm = &op->events[i].as.observed.arm;

        if (arm->features != NULL || kb_ids_find(&featured, arm->arm) != KB_ID_NONE)
            continue;
        point_at_item(op, i, "/arm", pointer, sizeof pointer);
        ld_problem_add(&op->problem, pointer, "the catalogue has no features of '%.100s': give its %u", arm->arm,
                       t->settings.spec.arm_dim);
    }
    kb_ids_close(&featured);
    if (rc != KB_OK)
        ld_problem_from_core(&op->problem, rc, NULL);
    return op->problem.status == 0;
}

static void refuse_observation(struct ld_tenant *t, struct ld_op *op, int rc, const struct kb_errmsg *msg)
{
    struct kb_errmsg at = *msg;

    if (op->n > 1)
        ld_batch_drop(t);
    point_at_item(op, op->n_done, msg->pointer, at.pointer, sizeof at.pointer);
    if (op->n_safe > 0)
        ld_problem_set(&op->problem, 503, "the first %zu of %zu observations were recorded, the rest was not",
                       op->n_safe, op->n);
    ld_problem_from_core(&op->problem, rc, msg->text[0] != '\0' ? &at : NULL);
}

int ld_observe_expand(struct ld_tenant *t, struct ld_op *op)
{
    int rc = KB_OK;

    if (op->n > 1)
        ld_batch_flush(t);
    if (ld_op_is_outdated(t, op) || !check_observations(t, op))
        return 0;
    for (op->n_done = 0; op->n_done < op->n && rc == KB_OK; op->n_done += rc == KB_OK) {
        const struct ld_entry entry = {.ev = op->events[op->n_done]};
        struct kb_errmsg msg = {.text = ""};

        rc = ld_batch_stage_again(t, &entry, &msg);
        if (rc != KB_OK && rc != LD_LOST)
            refuse_observation(t, op, rc, &msg);
    }
    return 0;
}

void ld_observe_answer(struct ld_tenant *t, struct ld_op *op)
{
    char text[48];

    (void)t;
    snprintf(text, sizeof text, "{\"observed\":%zu}", op->n);
    ld_op_reply_copy(op, text);
}

void ld_observe_lose(struct ld_op *op)
{
    if (op->n_safe == 0) {
        ld_op_refuse_busy(op, "the commit failed; nothing was recorded");
        return;
    }
    ld_problem_set(&op->problem, 503, "the commit failed; the first %zu of %zu observations were recorded", op->n_safe,
                   op->n);
    op->problem.retry_after_s = 1;
}
