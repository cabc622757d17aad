/* What a tenant is told in bulk: the user graph and the catalogue of arms. The bodies are large, so these run on the
 * work pool; what they decode becomes one event of the log. */
#include "api/api.h"
#include "api/charge.h"
#include "tenant/price.h"
#include "json/json_out.h"

/* The event of the body, by the decoder of graph or arms. A graph names users only, so its op is never outdated by
 * new dimensions; arms carry features and may be. */
static int decode(struct ld_tenant *t, struct ld_op *op, bool is_graph, bool is_patch)
{
    uint32_t context_dim, arm_dim;
    op->dims_epoch = ld_tenant_dims(t, &context_dim, &arm_dim);
    return is_graph ? ld_decode_graph(op->doc, is_patch, &op->event, &op->problem)
                    : ld_decode_arms(op->doc, is_patch, arm_dim, &op->event, &op->problem);
}

/* Of a graph or a catalogue that was told: as many items as it has. */
static size_t n_items(const struct kb_event *ev)
{
    return ev->type == KB_EV_GRAPH ? ev->as.graph.n_users + ev->as.graph.n_add + ev->as.graph.n_remove
                                   : ev->as.arms.n_put + ev->as.arms.n_remove;
}

/* The one way of all four: decode into an event, queue it. The event is validated once more when it is reserved,
 * against the model as it then is (a removal of what is absent answers 409); the answer is the summary after it was
 * applied. */
static void change(struct ld_app *app, struct ld_request *r, const char *tenant, bool is_graph, bool is_patch)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    if (is_graph)
        ld_tenant_read_graph(t, false);
    struct ld_op *op = ld_api_op(app, r, LD_OP_EVENT);
    const bool is_read = op != NULL && decode(t, op, is_graph, is_patch) == 0;
    if (is_graph)
        ld_tenant_read_graph(t, true);
    if (is_read && ld_charge(app, t, ld_price_lines(n_items(&op->event)), &op->problem)) {
        ld_api_submit(r, t, op);
        return;
    }
    if (op != NULL)
        ld_api_refuse(r, op);
    ld_tenant_release(t);
}

#define ARMS_PIECE 256u
#define PIECEMEAL_TRIES 3

/* Answers with what encode() writes of the engine, under the read lock. A NULL of the encoder (no memory) becomes a
 * 503 in ld_reply_json. */
static void show(struct ld_app *app, struct ld_request *r, const char *tenant,
                 char *(*encode)(const struct kb_engine *e, size_t *n))
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    const struct ld_settings *settings;
    size_t n = 0;
    char *text = encode(ld_tenant_read_lock(t, &settings), &n);
    ld_tenant_read_unlock(t);
    ld_tenant_release(t);
    ld_reply_json(r, 200, text, n);
}

/* PUT: the body is the whole graph. Users that it leaves out keep their history and become isolated nodes. */
void api_graph_put(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    change(app, r, tenant, true, false);
}

/* PATCH: edges to add or to re-weight, edges to remove, users to add. */
void api_graph_patch(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    change(app, r, tenant, true, true);
}

/* GET: users, edges, components, degrees. O(1). */
void api_graph_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    show(app, r, tenant, ld_encode_graph_summary);
}

/* PUT: the whole catalogue. Arms left out stay in the history; they are no candidates any more. */
void api_arms_put(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    change(app, r, tenant, false, false);
}

/* PATCH: arms to put by id, ids to remove. */
void api_arms_patch(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    change(app, r, tenant, false, true);
}

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
void api_arms_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    struct ld_text text;
    size_t n = 0;
    if (t == NULL)
        return;
    for (int tries = 0; tries < PIECEMEAL_TRIES + 1; tries++) {
        ld_text_init(&text);
        if (put_all_arms(t, tries < PIECEMEAL_TRIES ? ARMS_PIECE : SIZE_MAX, &text))
            break;
        ld_text_close(&text);
    }
    ld_tenant_release(t);
    char *answer = ld_text_take(&text, &n);
    ld_reply_json(r, 200, answer, n);
}
