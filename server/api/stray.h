/* What a request says where nobody reads it: parameters that its route does not take, and tenants named by another
 * header than Laplaced-Tenant. Such a request was meant for something else than it would do, so it is refused. */
#ifndef LD_STRAY_H
#define LD_STRAY_H

#include <stdbool.h>

#include "api/route.h"

struct ld_request;

/* Whether all of the query's parameters are the route's; else 400 is replied. In `admit`. */
bool ld_stray_query_allow(struct ld_request *r, const struct ld_route *route);

/* Whether no header of a request that is about the tenant of a header looks like that one; else 400 is replied. In
 * `admit`. */
bool ld_stray_header_allow(struct ld_request *r, const struct ld_route *route);

#endif
