/* A tenant's rate: who has the tenant may read it, the operator alone may set it. On the work pool, since it is a row
 * of the registry; the tenant need not be in memory, and what it has used up of its bucket stays used up. */
#include "api/api.h"

#include "json/json_limits.h"
#include "base/log.h"

/* GET /tenants/{t}/limits: those in force, whether they are the tenant's own, and what is left of the bucket. */
bool api_limits_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_rate limit;
    bool is_own;
    double fill;
    if (ld_tenants_get_rate(c->server->tenants, c->name, &limit, &is_own, &fill))
        out->text = ld_encode_limits(&limit, is_own, fill, &out->n);
    else
        ld_problem_no_tenant(out->problem, c->name);
    return true;
}

/* PUT /tenants/{t}/limits. In force, and durable, when it is answered. */
bool api_limits_put(struct ld_call *c, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_doc *doc = NULL;
    struct ld_rate limit;
    bool is_own = false;
    if (ld_call_parse(c, &doc, p) == 0 && ld_decode_limits(doc, &limit, &is_own, p) == 0)
        ld_tenants_set_rate(c->server->tenants, c->name, is_own ? &limit : NULL, p);
    ld_doc_free(doc);
    if (p->status != 0)
        return true;
    ld_log(LD_LOG_INFO, "tenant %s: its limits are set", c->name);
    return api_limits_get(c, out);
}
