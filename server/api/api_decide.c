/* The hot path: /select, /reward, /activate, /observe.
 *
 * /select computes in the thread that serves the connection, under the tenant's lock for decisions, so that one hot
 * tenant uses every core; only its record goes through the tenant's queue. A long one goes to the pool. The others are
 * queued whole: what they mean depends on the order of the log. Nothing here changes a model. */
#include "api/api.h"

#include <string.h>

#include "base/ulid.h"

/* The id under which the decision is recorded: the caller's, or a new one in the op's memory. NULL: no memory. The
 * new id takes its first ten characters from the server's clock, so ids sort by the time of the request. */
static const char *decision_id(const struct ld_call *c, struct ld_op *op, const char *callers, struct ld_problem *p)
{
    if (callers != NULL)
        return callers;
    char *id = ld_doc_alloc(op->doc, LD_ULID_BYTES, 1);
    if (id != NULL)
        ld_ulid(c->server->world.now_ms(), id);
    else
        ld_problem_set(p, 503, "out of memory");
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
static bool is_bounded(const struct ld_call *c, const struct ld_select *select, const struct ld_size *size,
                       struct ld_problem *p)
{
    const struct ld_limits *limits = &c->server->limits;
    const size_t n = select->query.n_candidates, max = n > 0 ? limits->candidates : limits->arms;
    if (n == 0 && size->active_arms == 0) {
        ld_problem_add(p, "/candidates",
                       "the catalogue has no active arm: name candidates, or fill it by PUT /tenants/%s/arms", c->name);
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

bool ld_call_is_long(const struct ld_call *c, double price)
{
    return price > SERVED_TOKENS && !ld_request_is_kept(c->request);
}

bool ld_call_price_neighbours(const struct ld_call *c, uint64_t n, double *price, struct ld_problem *p)
{
    const double work = n > 0 ? ld_tenant_neighbours_work(c->tenant) : 0;
    *price = ld_price_neighbours(work);
    if (n > 0 && (c->caller.roles & LD_ROLE_READ) == 0) {
        ld_problem_set(p, 403, "`neighbours` names other users: the key lacks the role `read`");
    } else if (work > LD_MOST_NEIGHBOURS_WORK) {
        ld_problem_add(p, "/neighbours",
                       "all rewards that the model has learned are %.3g multiply-adds, of %.3g at most", work,
                       LD_MOST_NEIGHBOURS_WORK);
        ld_problem_limit(p, "neighbours_work", LD_MOST_NEIGHBOURS_WORK);
    }
    return p->status == 0;
}

/* An answer that is recorded names nobody else: it would outlast their erasure. */
static bool may_name(const struct ld_call *c, const struct ld_select *select, double *price, struct ld_problem *p)
{
    if (select->n_neighbours > 0 && !select->is_dry_run)
        ld_problem_add(p, "/neighbours",
                       "expected `dry_run` beside it: an answer that is recorded names no other users");
    return p->status == 0 && ld_call_price_neighbours(c, select->n_neighbours, price, p);
}

/* The dimensions are read before the body is decoded against them and looked at again under the lock (dims_epoch): a
 * configuration that changes in between makes a 409, never a vector of the wrong length. */
int ld_call_decide(struct ld_call *c, struct ld_op *op, struct ld_select *select, struct ld_problem *p)
{
    struct ld_tenant *t = c->tenant;
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(t, op->doc, &context_dim, &arm_dim);
    if (ld_decode_select(op->doc, context_dim, arm_dim, select, p) != 0)
        return -1;
    struct ld_size size;
    ld_tenant_size(t, &size);
    double besides = 0;
    if (select->n_neighbours > 0 && !may_name(c, select, &besides, p))
        return -1;
    const double price = ld_price_decision(&size, select->query.n_candidates) + besides;
    if (ld_call_is_long(c, price))
        return 1;
    if (!ld_charge(c, price, p))
        return -1;
    const char *id = decision_id(c, op, select->decision, p);
    if (id == NULL)
        return -1;
    op->is_named = select->decision != NULL;
    const bool is_small = is_bounded(c, select, &size, p);
    if (is_small && ld_tenant_select(t, select, id, op, p) == 0)
        return 0;
    /* The engine names the first candidate that stands there twice: name them all. */
    if (is_small && p->status == 400)
        ld_decode_select_faults(op->doc, context_dim, arm_dim, p);
    if (!may_be_retry(op, select, id))
        return -1;
    *ld_op_problem(op) = *p;
    return 0;
}

/* POST /select. 200 with the decision: the first answer when the caller's id is known (the writer looks), 400 with
 * the faults of the body, 404, 409 when the dimensions changed under way, 503 when the queue or the pending list is
 * full. A dry run ends here: it leaves no record, needs no queue, and is answered while the writer is busy or the
 * disk full. */
bool api_select(struct ld_call *c, struct ld_reply *out)
{
    struct ld_op *op = ld_call_op(c, LD_OP_EVENT, out->problem);
    struct ld_select select = {.decision = NULL};
    const int rc = op != NULL ? ld_call_decide(c, op, &select, out->problem) : -1;
    if (op != NULL)
        op->is_plain = true;
    if (rc == 0 && !select.is_dry_run) {
        ld_call_submit(c, c->tenant, op);
        return false;
    }
    if (rc == 0) {
        out->text = op->reply;
        out->n = op->n_reply;
        op->reply = NULL;
    }
    ld_op_free(op);
    if (rc > 0)
        ld_call_beside(c);
    return rc <= 0;
}

/* POST /reward. One object: 200, 404, 409 or 410; an array: 200 with each reward answered in place. Rewards name
 * decisions, not vectors: they need no dimensions. */
bool fill_rewards(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    return ld_decode_rewards(op->doc, &op->rewards, &op->n, &op->is_array, p) == 0 && ld_charge_events(c, op->n, p);
}

/* POST /activate. 200 whether or not the decision was activated before; 404 and 410 as for rewards. The one id of the
 * body goes where the writer looks for it. */
bool fill_activate(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    op->event.type = KB_EV_ACTIVATED;
    return ld_decode_activate(op->doc, &op->event.as.activated.decision, p) == 0 && ld_charge_events(c, 0, p);
}

/* POST /observe. 200 with the number of observations learned. An NDJSON body is learned whole or not at all: every line
 * is decoded before anything is queued. One line or ten thousand, it is one op and answered once. */
bool fill_observe(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(c->tenant, op->doc, &context_dim, &arm_dim);
    op->is_array = c->media == LD_MEDIA_NDJSON;
    return ld_decode_observe(op->doc, op->is_array, context_dim, arm_dim, &op->events, &op->n, p) == 0 &&
           ld_charge_events(c, op->n, p);
}
