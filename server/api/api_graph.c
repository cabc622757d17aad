/* What a tenant is told in bulk: the user graph and the catalogue of arms. The bodies are large, so these run on the
 * work pool; what they decode becomes one event of the log. */
#include "api/api.h"
#include "json/json_out.h"

/* Of a graph or a catalogue that was told: as many items as it has. */
static bool charge_items(struct ld_call *c, const struct kb_event *ev, struct ld_problem *p)
{
    const size_t n = ev->type == KB_EV_GRAPH ? ev->as.graph.n_users + ev->as.graph.n_add + ev->as.graph.n_remove
                                             : ev->as.arms.n_put + ev->as.arms.n_remove;
    return ld_charge(c, ld_price_lines(n), p);
}

/* The event is validated once more when it is reserved, against the model as it then is (a removal of what is absent
 * answers 409); the answer is the summary after it was applied. */
static bool change_graph(struct ld_call *c, struct ld_reply *out, bool is_patch)
{
    ld_tenant_read_graph(c->tenant, false);
    struct ld_op *op = ld_call_op(c, LD_OP_EVENT, out->problem);
    const bool is_read = op != NULL && ld_decode_graph(op->doc, is_patch, &op->event, out->problem) == 0;
    ld_tenant_read_graph(c->tenant, true);
    if (is_read && charge_items(c, &op->event, out->problem)) {
        ld_call_submit(c, c->tenant, op);
        return false;
    }
    ld_op_free(op);
    return true;
}

/* PUT: the body is the whole graph. Users that it leaves out keep their history and become isolated nodes. */
bool api_graph_put(struct ld_call *c, struct ld_reply *out)
{
    return change_graph(c, out, false);
}

/* PATCH: edges to add or to re-weight, edges to remove, users to add. */
bool api_graph_patch(struct ld_call *c, struct ld_reply *out)
{
    return change_graph(c, out, true);
}

/* GET: users, edges, components, degrees. O(1). */
bool api_graph_get(struct ld_call *c, struct ld_reply *out)
{
    const struct ld_settings *settings;
    out->text = ld_encode_graph_summary(ld_tenant_read_lock(c->tenant, &settings), &out->n);
    ld_tenant_read_unlock(c->tenant);
    return true;
}

/* Arms carry features, so the op is outdated by new dimensions. */
static bool fill_arms(struct ld_call *c, struct ld_op *op, bool is_patch, struct ld_problem *p)
{
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(c->tenant, op->doc, &context_dim, &arm_dim);
    return ld_decode_arms(op->doc, is_patch, arm_dim, &op->event, p) == 0 && charge_items(c, &op->event, p);
}

/* PUT: the whole catalogue. Arms left out stay in the history; they are no candidates any more. */
bool fill_arms_put(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    return fill_arms(c, op, false, p);
}

/* PATCH: arms to put by id, ids to remove. */
bool fill_arms_patch(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    return fill_arms(c, op, true, p);
}

#define ARMS_PIECE 256u
#define PIECEMEAL_TRIES 3

/* All in pieces of so many arms, each under the read lock for itself. False when the catalogue has changed in between:
 * then the text is worth nothing. */
static bool put_all_arms(struct ld_tenant *t, size_t piece, struct ld_text *text)
{
    const struct ld_settings *settings;
    uint32_t epoch = 0;

    for (size_t from = 0; from != SIZE_MAX;) {
        const struct kb_engine *e = ld_tenant_read_lock(t, &settings);
        const bool is_same = from == 0 || ld_tenant_arms_epoch(t) == epoch;

        epoch = ld_tenant_arms_epoch(t);
        if (is_same)
            from = ld_put_arms(e, from, piece, text);
        ld_tenant_read_unlock(t);
        if (!is_same)
            return false;
    }
    return true;
}

/* GET: the catalogue with features and whether each is active, as it stood at one moment. O(arms): a large one takes as
 * long as a hundred decisions to write, and a writer that waits for it would keep all of them waiting. Only where it
 * changes all the time it is written in one go. */
bool api_arms_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_text text;
    for (int tries = 0; tries < PIECEMEAL_TRIES + 1; tries++) {
        ld_text_init(&text);
        if (put_all_arms(c->tenant, tries < PIECEMEAL_TRIES ? ARMS_PIECE : SIZE_MAX, &text))
            break;
        ld_text_close(&text);
    }
    out->text = ld_text_take(&text, &out->n);
    return true;
}
