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

/* Behind the scores, so that no point is newer than they are only by a slice of the job. */
static bool add_histories(const struct ld_call *c, struct ld_challenger_view *views, size_t n,
                          struct ld_score_history **all)
{
    *all = calloc(LD_MAX_CHALLENGERS, sizeof **all);
    if (*all == NULL)
        return false;
    ld_challengers_histories(c->tenant, views, n, *all);
    for (size_t i = 0; i < n; i++)
        views[i].history = &(*all)[i];
    return true;
}

/* GET /tenants/{t}/challengers. Each is of one moment; the log may have gone on since. */
bool api_challengers_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_challenger_view *views = calloc((size_t)2 * LD_MAX_CHALLENGERS, sizeof *views);
    struct ld_score_history *histories = NULL;
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    uint64_t has_history = 0;
    if (views != NULL && ld_call_number(c, "history", &has_history, out->problem) == 0) {
        size_t n = ld_challengers_view(c->tenant, views + LD_MAX_CHALLENGERS);
        kb_engine_counts(ld_tenant_read_lock(c->tenant, &settings), &counts);
        put_in_order(views + LD_MAX_CHALLENGERS, n, settings, views);
        n = settings->n_challengers;
        ld_tenant_read_unlock(c->tenant);
        if (has_history == 0 || add_histories(c, views, n, &histories))
            out->text = ld_encode_challengers(views, n, counts.seq, counts.version, &out->n);
    }
    free(histories);
    free(views);
    return true;
}

/* POST /tenants/{t}/promote: the tenant, once its new configuration is durable; the model follows. */
bool fill_promote(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    (void)c;
    op->promotion.reason = LD_PROMOTED_ON_REQUEST;
    return ld_decode_promotion(op->doc, &op->promotion, p) == 0;
}

/* POST /tenants/{t}/rollback: likewise. */
bool fill_rollback(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    (void)c;
    op->promotion.reason = LD_PROMOTED_BY_ROLLBACK;
    return ld_decode_promotion(op->doc, &op->promotion, p) == 0;
}
