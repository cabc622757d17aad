/* Challengers: what they are worth, and putting one in force or taking that back. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "json/json_out_challengers.h"
#include "task/challenger.h"

/* The views in the configuration's order; a challenger that nobody has followed yet has read nothing. */
static void put_in_order(struct ld_challenger_view *views, size_t n, const struct ld_settings *settings,
                         struct ld_challenger_view *out)
{
    for (size_t i = 0; i < settings->n_challengers; i++) {
        out[i] = (struct ld_challenger_view){.settings = settings->challenger[i]};
        for (size_t k = 0; k < n; k++)
            if (ld_challenger_is_same(&views[k].settings, &settings->challenger[i]))
                out[i] = views[k];
    }
}

/* GET /tenants/{t}/challengers. Each is of one moment; the log may have gone on since. */
void api_challengers_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct ld_challenger_view *views = calloc((size_t)2 * LD_MAX_CHALLENGERS, sizeof *views);
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    size_t n = 0, n_text = 0;
    char *text = NULL;
    if (views != NULL) {
        n = ld_challengers_view(ld_tenant_challengers(t), views + LD_MAX_CHALLENGERS);
        kb_engine_counts(ld_tenant_read_lock(t, &settings), &counts);
        put_in_order(views + LD_MAX_CHALLENGERS, n, settings, views);
        n = settings->n_challengers;
        ld_tenant_read_unlock(t);
        text = ld_encode_challengers(views, n, counts.seq, counts.version, &n_text);
    }
    free(views);
    ld_tenant_release(t);
    ld_reply_json(r, 200, text, n_text);
}

static void submit(struct ld_app *app, struct ld_request *r, const char *tenant, enum ld_promotion_reason reason)
{
    struct ld_op *op = ld_api_op(app, r, LD_OP_PROMOTE);
    if (op == NULL)
        return;
    op->promotion.reason = reason;
    if (ld_decode_promotion(op->doc, &op->promotion, &op->problem) != 0)
        ld_api_refuse(r, op);
    else
        ld_api_submit_to(app, r, tenant, op);
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
