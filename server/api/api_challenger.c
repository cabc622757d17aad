/* Challengers: what they are worth, and putting one in force or taking that back. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "shared/shared_log.h"
#include "task/challenger.h"

/* What another server has told. */
struct told {
    char *text;
    size_t n;
};

static void keep(void *arg, const char *node, const char *view)
{
    struct told *told = arg;
    (void)node;
    told->text = view != NULL ? strdup(view) : NULL;
    told->n = told->text != NULL ? strlen(told->text) : 0;
}

/* GET /tenants/{t}/challengers. Of several servers one follows, and the others say what it has told last; where nobody
 * has yet, that nothing was read. */
bool api_challengers_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_shared_log *log = c->server->world.shared;
    struct ld_tenant_shared at;
    struct ld_message why;
    struct told told = {.text = NULL};
    uint64_t has_history = 0;
    if (ld_call_number(c, "history", &has_history, out->problem) != 0)
        return true;
    if (!ld_tenant_is_held(c->tenant)) {
        ld_tenant_shared(c->tenant, &at);
        if (log->ops->held(log, at.id, keep, &told, &why) == LD_SHARED_DOWN)
            ld_problem_set(out->problem, 503,
                           "another server follows the challengers, and the shared log cannot be asked");
    }
    out->text = told.text;
    out->n = told.n;
    if (out->problem->status == 0 && told.text == NULL) {
        const struct ld_challengers_telling how = {.node = log != NULL ? c->server->world.node : NULL,
                                                   .has_history = has_history != 0};
        out->text = ld_challengers_text(c->tenant, &how, &out->n);
    }
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
