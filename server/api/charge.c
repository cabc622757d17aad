/* A request is charged once, by one compare-and-swap: where its price is in its route before the body is parsed, else
 * when the body has been decoded and before anything is computed or queued. A refusal has done nothing but that.
 * Whoever asks, the tenant pays: an operator's key is no way around it. What is no tenant's work is not charged: lists,
 * keys, metrics, limits, the making and deleting of tenants. */
#include "api/charge.h"

#include "app/app.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/limit.h"
#include "tenant/price.h"
#include "api/route.h"

static void refuse(struct ld_app *app, const struct ld_bucket *b, double tokens, int64_t wait_ns, struct ld_problem *p)
{
    struct ld_rate limit;

    ld_bucket_get(b, &limit);
    ld_problem_set(p, 429, "the tenant's rate of %g tokens a second (burst %g) is used up; this costs %.3g", limit.rate,
                   limit.burst, tokens < limit.burst ? tokens : limit.burst);
    ld_problem_limit(p, "rate", limit.rate);
    p->retry_after_s = ld_retry_after_s(wait_ns);
    ld_count(&app->metrics.limited[LD_LIMITED_RATE], 1);
}

bool ld_charge(struct ld_app *app, struct ld_tenant *t, double tokens, struct ld_problem *p)
{
    struct ld_bucket *b = ld_tenant_bucket(t);
    const int64_t wait_ns = LD_CHECKED ? ld_bucket_take(b, tokens, ld_monotonic_ns()) : 0;

    if (wait_ns > 0)
        refuse(app, b, tokens, wait_ns, p);
    return wait_ns == 0;
}

bool ld_charge_route(struct ld_app *app, struct ld_tenant *t, const struct ld_route *route, struct ld_problem *p)
{
    struct ld_bucket *b = ld_tenant_bucket(t);
    struct ld_size size;

    ld_tenant_size(t, &size);
    const double price = ld_price_work(&size, route->work);
    if (price > 0)
        return ld_charge(app, t, price, p);
    const int64_t wait_ns = LD_CHECKED ? ld_bucket_look(b, 1, ld_monotonic_ns()) : 0;
    if (wait_ns > 0)
        refuse(app, b, 1, wait_ns, p);
    return wait_ns == 0;
}
