/* A tenant's rate: who has the tenant may read it, the operator alone may set it. On the work pool, since it is a row
 * of the registry; the tenant need not be in memory, and what it has used up of its bucket stays used up. */
#include "api/api.h"

#include "api/access.h"
#include "json/json_limits.h"
#include "base/log.h"

static void reply(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_rate limit;
    bool is_own;
    size_t n = 0;

    if (!ld_tenants_get_rate(app->tenants, tenant, &limit, &is_own)) {
        ld_access_no_tenant(r, tenant);
        return;
    }
    char *text = ld_encode_limits(&limit, is_own, &n);
    ld_reply_json(r, 200, text, n);
}

/* GET /tenants/{t}/limits: those in force, and whether they are the tenant's own. */
void api_limits_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    reply(app, r, tenant);
}

/* PUT /tenants/{t}/limits. In force, and durable, when it is answered. */
void api_limits_put(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    struct ld_rate limit;
    bool is_own = false;
    size_t n;
    const char *body = ld_request_body(r, &n);

    ld_problem_init(&p);
    if (ld_doc_parse(&doc, body, n, false, &p) == 0 && ld_decode_limits(doc, &limit, &is_own, &p) == 0)
        ld_tenants_set_rate(app->tenants, tenant, is_own ? &limit : NULL, &p);
    ld_doc_free(doc);
    if (p.status != 0) {
        ld_reply_problem(r, &p);
        return;
    }
    ld_log(LD_LOG_INFO, "tenant %s: its limits are set", tenant);
    reply(app, r, tenant);
}
