/* Who may call which route: keys, roles, and whose tenant it is. */
#ifndef LD_ACCESS_H
#define LD_ACCESS_H

#include "http/http.h"
#include "api/route.h"

struct ld_app;

/* Finds out who calls, into ld_request_caller(r). False after a 401. */
bool ld_access_identify(struct ld_app *app, struct ld_request *r);

/* Whether that caller may use the route. False after a 403, or a 404 for a tenant of others. */
bool ld_access_allow(const struct ld_app *app, struct ld_request *r, const struct ld_route *route);

/* Whether requests must show a key. Once they must, they must as long as the process lives. */
bool ld_access_wants_keys(struct ld_app *app);

/* The name of the tenant that a request without one in its path is about; "": of none. */
const char *ld_access_tenant(const struct ld_app *app, const struct ld_request *r);

/* 404, in the one wording that there is for it: that of a tenant which is not there and that of one which the caller
 * may not know of. */
void ld_access_no_tenant(struct ld_request *r, const char *name);

#endif
