/* Challengers: what they are worth, and putting one in force or taking that back. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "json_out_challengers.h"

/* GET /tenants/{t}/challengers. Each is of one moment; the log may have gone on since. */
void api_challengers_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct ld_challenger_view *views = calloc(LD_MAX_CHALLENGERS, sizeof *views);
    struct kb_engine_counts counts;
    size_t n = 0, n_text = 0;
    if (views != NULL)
        n = ld_challengers_view(ld_tenant_challengers(t), views);
    kb_engine_counts(ld_tenant_read_lock(t, NULL), &counts);
    ld_tenant_read_unlock(t);
    char *text = views != NULL ? ld_encode_challengers(views, n, counts.seq, counts.version, &n_text) : NULL;
    free(views);
    ld_tenant_release(t);
    ld_reply_json(r, 200, text, n_text);
}

static void submit(struct ld_app *app, struct ld_request *r, const char *tenant, enum ld_promotion_reason reason)
{
    struct ld_op *op = ld_api_op(r, LD_OP_PROMOTE);
    if (op == NULL)
        return;
    op->promotion.reason = reason;
    if (ld_decode_promotion(op->doc, &op->promotion, &op->problem) != 0) {
        ld_api_refuse(r, op);
        return;
    }
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t != NULL)
        ld_api_submit(r, t, op);
    else
        ld_op_free(op);
}

/* POST /tenants/{t}/promote: the tenant, once its new configuration is durable; the model follows. */
void api_promote(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    submit(app, r, tenant, LD_PROMOTED_ON_REQUEST);
}

/* POST /tenants/{t}/rollback: likewise. */
void api_rollback(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    submit(app, r, tenant, LD_PROMOTED_BY_ROLLBACK);
}
