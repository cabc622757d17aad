/* Prices: see price.h, which has the table. The weights are those of docs/SPEED.md: ten multiply-adds a nanosecond, 0.1
 * ms for a request and 10 us for an event besides its update. They need not be exact: they are to make a tenant of
 * 1,000 points pay for what it does to the others. */
#include "price.h"

#include "api.h"
#include "route.h"

#define REQUEST 1.0
#define WORK_OF_TOKEN 1e6 /* multiply-adds */
#define EVENT 0.1
#define LINE 0.01 /* of the log, read or folded; an edge or an arm */
#define LOOK 10.0 /* what reads much and computes little */

static double update(const struct ld_size *size)
{
    const double m = (double)size->points;

    return (3 * m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_decision(const struct ld_size *size, size_t n_candidates)
{
    const double m = (double)size->points;
    const double n = (double)(n_candidates > 0 ? n_candidates : size->active_arms);

    return REQUEST + n * (m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_events(const struct ld_size *size, size_t n)
{
    return REQUEST + (double)n * (EVENT + update(size));
}

double ld_price_items(size_t n)
{
    return REQUEST + (double)n * LINE;
}

double ld_price_lines(uint64_t n)
{
    return REQUEST + (double)n * LINE;
}

double ld_price_fold(const struct ld_size *size)
{
    return REQUEST + (double)size->learned * (LINE + update(size));
}

double ld_price_route(const struct ld_size *size, const struct ld_route *route)
{
    const double m = (double)size->points;

    if (route->body != LD_BODY_NONE || route->handle == api_events)
        return 0;
    if (route->handle == api_model)
        return REQUEST + m * m * m / WORK_OF_TOKEN;
    if (route->handle == api_stats || route->handle == api_graph_get || route->handle == api_arms_get)
        return LOOK;
    if (route->handle == api_export || route->handle == api_snapshot_post)
        return ld_price_lines(size->learned);
    if (route->handle == api_tenant_rebuild || route->handle == api_tenant_verify || route->handle == api_user_delete)
        return ld_price_fold(size);
    return REQUEST;
}
