/* The hot path: /select, /reward, /activate, /observe.
 *
 * /select computes in the thread that serves the connection, under the tenant's lock for decisions, so that one hot
 * tenant uses every core; only its record goes through the tenant's queue. A long one goes to the pool. The others are
 * queued whole: what they mean depends on the order of the log. Nothing here changes a model.
 *
 * Holds: a handler takes the tenant first and lets go of it once, either by ld_api_submit, which does it, or on its
 * own way out. Ops are freed by done(), or here when they never reach the queue. */
#include "api/api.h"

#include <string.h>

#include "api/charge.h"
#include "tenant/price.h"
#include "base/ulid.h"

/* The id under which the decision is recorded: the caller's, or a new one in the op's memory. NULL: no memory. The
 * new id takes its first ten characters from the server's clock, so ids sort by the time of the request. */
static const char *decision_id(struct ld_app *app, struct ld_op *op, const char *callers)
{
    if (callers != NULL)
        return callers;
    char *id = ld_doc_alloc(op->doc, LD_ULID_BYTES, 1);
    if (id != NULL)
        ld_ulid(app->world.now_ms(), id);
    else
        ld_problem_set(&op->problem, 503, "out of memory");
    return id;
}

/* What is refused today may have been decided yesterday: arms come and go, and limits are lowered. The writer looks the
 * id up. If the log has no decision under it, the refusal stands. */
static bool may_be_retry(struct ld_op *op, const struct ld_select *select, const char *id)
{
    if (!op->is_named || select->is_dry_run)
        return false;
    op->event = (struct kb_event){.type = KB_EV_DECIDED};
    op->event.as.decided.decision = id;
    op->event.as.decided.user = select->query.user;
    return true;
}

/* Whether there is an arm, and the decision is no more work than the operator lets one be. */
static bool is_bounded(const struct ld_app *app, const struct ld_select *select, const struct ld_size *size,
                       const char *tenant, struct ld_problem *p)
{
    const size_t n = select->query.n_candidates, max = n > 0 ? app->limits.candidates : app->limits.arms;
    if (n == 0 && size->active_arms == 0) {
        ld_problem_add(p, "/candidates",
                       "the catalogue has no active arm: name candidates, or fill it by PUT /tenants/%s/arms", tenant);
        return false;
    }
    if ((n > 0 ? n : size->active_arms) <= max)
        return true;
    if (n > 0)
        ld_problem_add(p, "/candidates", "expected an array of 1 to %zu items", max);
    else
        ld_problem_set(p, 400, "the catalogue has %zu active arms: name candidates", size->active_arms);
    ld_problem_limit(p, n > 0 ? "candidates" : "arms", (double)max);
    return false;
}

#define SERVED_TOKENS 1000.0 /* about 0.1 s */

/* What takes longer would hold up every connection of the thread that serves this one, other tenants' too. */
static bool is_long(const struct ld_request *r, double price)
{
    return price > SERVED_TOKENS && !ld_request_is_kept(r);
}

/* Decodes and computes; 0, perhaps with a refusal that the writer is to confirm, or -1 with op->problem filled; 1:
 * nothing was done or paid, and the request is to be handled beside the serving threads. The dimensions are read before
 * the body is decoded against them and looked at again under the lock (dims_epoch): a configuration that changes in
 * between makes a 409, never a vector of the wrong length. */
static int decide(struct ld_app *app, struct ld_request *r, struct ld_tenant *t, struct ld_op *op,
                  struct ld_select *select)
{
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(t, &context_dim, &arm_dim);
    if (ld_decode_select(op->doc, context_dim, arm_dim, select, &op->problem) != 0)
        return -1;
    struct ld_size size;
    ld_tenant_size(t, &size);
    const double price = ld_price_decision(&size, select->query.n_candidates);
    if (is_long(r, price))
        return 1;
    if (!ld_charge(app, t, price, &op->problem))
        return -1;
    const char *id = decision_id(app, op, select->decision);
    if (id == NULL)
        return -1;
    op->is_named = select->decision != NULL;
    const bool is_small = is_bounded(app, select, &size, ld_tenant_name(t), &op->problem);
    if (is_small && ld_tenant_select(t, select, id, op) == 0)
        return 0;
    /* The engine names the first candidate that stands there twice: name them all. */
    if (is_small && op->problem.status == 400)
        ld_decode_select_faults(op->doc, context_dim, arm_dim, &op->problem);
    return may_be_retry(op, select, id) ? 0 : -1;
}

/* POST /select. 200 with the decision: the first answer when the caller's id is known (the writer looks), 400 with
 * the faults of the body, 404, 409 when the dimensions changed under way, 503 when the queue or the pending list is
 * full. A dry run ends here: it leaves no record, needs no queue, and is answered while the writer is busy or the
 * disk full. */
void api_select(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    struct ld_op *op = t != NULL ? ld_api_op(app, r, LD_OP_EVENT) : NULL;
    struct ld_select select = {.decision = NULL};
    if (op == NULL)
        goto out;
    const int rc = decide(app, r, t, op, &select);
    if (rc > 0) {
        ld_op_free(op);
        ld_app_handle_beside(app, r, t);
    } else if (rc < 0) {
        ld_api_refuse(r, op);
    } else if (select.is_dry_run) {
        char *text = op->reply;
        op->reply = NULL;
        ld_reply_json(r, 200, text, op->n_reply);
        ld_op_free(op);
    } else {
        ld_api_submit(r, t, op);
        return;
    }
out:
    if (t != NULL)
        ld_tenant_release(t);
}

/* The common way of what is only queued: decode() fills the op from its doc, and the tenant pays for its items. The
 * handler's thread does the parsing alone; all that depends on the model is left to the writer. */
static void queue_decoded(struct ld_app *app, struct ld_request *r, const char *tenant, enum ld_op_type type,
                          int (*decode)(struct ld_request *r, struct ld_tenant *t, struct ld_op *op))
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct ld_op *op = ld_api_op(app, r, type);
    struct ld_size size;
    ld_tenant_size(t, &size);
    if (op != NULL && decode(r, t, op) == 0 && ld_charge(app, t, ld_price_events(&size, op->n), &op->problem)) {
        ld_api_submit(r, t, op);
        return;
    }
    if (op != NULL)
        ld_api_refuse(r, op);
    ld_tenant_release(t);
}

/* Rewards name decisions, not vectors: they need no dimensions. */
static int decode_rewards(struct ld_request *r, struct ld_tenant *t, struct ld_op *op)
{
    (void)r;
    (void)t;
    return ld_decode_rewards(op->doc, &op->rewards, &op->n, &op->is_array, &op->problem);
}

/* The one id of the body goes where the writer looks for it. */
static int decode_activate(struct ld_request *r, struct ld_tenant *t, struct ld_op *op)
{
    (void)r;
    (void)t;
    op->event.type = KB_EV_ACTIVATED;
    return ld_decode_activate(op->doc, &op->event.as.activated.decision, &op->problem);
}

/* An NDJSON body is learned whole or not at all: every line is decoded before anything is queued. One line or ten
 * thousand, it is one op and answered once. */
static int decode_observe(struct ld_request *r, struct ld_tenant *t, struct ld_op *op)
{
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(t, &context_dim, &arm_dim);
    op->is_array = ld_request_media(r) == LD_MEDIA_NDJSON;
    return ld_decode_observe(op->doc, op->is_array, context_dim, arm_dim, &op->events, &op->n, &op->problem);
}

/* POST /reward. One object: 200, 404, 409 or 410; an array: 200 with each reward answered in place. */
void api_reward(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    queue_decoded(app, r, tenant, LD_OP_REWARDS, decode_rewards);
}

/* POST /activate. 200 whether or not the decision was activated before; 404 and 410 as for rewards. */
void api_activate(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    queue_decoded(app, r, tenant, LD_OP_ACTIVATE, decode_activate);
}

/* POST /observe. 200 with the number of observations learned. */
void api_observe(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    queue_decoded(app, r, tenant, LD_OP_OBSERVE, decode_observe);
}
