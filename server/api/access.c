/* Who may call which route. The order of the questions is the point:
 *
 *   1. whose key is it?               nobody's: 401, whatever was asked for
 *   2. is there such a route?         404, 405 (dispatch.c)
 *   3. is it the key's own tenant?    any other: 404, without looking whether there is one
 *   4. has the key the route's role?  403
 *
 * So a tenant's key hears the same about a tenant of others as about one that never was, in the same time, before a
 * byte of the body is read. A key of the server itself (an admin's, or one for metrics) stops at 4 when it lacks the
 * role, hence learns nothing either. */
#include "api/access.h"

#include <string.h>

#include "app/app.h"
#include "base/checked.h"

/* Keys that were made count as soon as there is one. */
bool ld_access_wants_keys(struct ld_app *app)
{
    return ld_auth_has_had_file(app->auth) || ld_keys_exist(app->keys);
}

/* Both kinds of keys are tried always: which of them it was shows in no time. */
bool ld_access_identify(struct ld_app *app, struct ld_request *r)
{
    const char *header = ld_request_header(r, "Authorization"), *token = ld_auth_token(header);
    struct ld_caller caller = {0};
    bool is_known = !LD_CHECKED || ld_keys_allow(app->keys, token != NULL ? token : "", app->world.now_ms(), &caller);
    if (!LD_CHECKED || ld_auth_allows(app->auth, header) || !ld_access_wants_keys(app)) {
        caller = (struct ld_caller){.roles = LD_ALL_ROLES};
        is_known = true;
    }
    ld_request_set_caller(r, &caller);
    if (!is_known)
        ld_reply_status(r, 401, "this server asks for a key: Authorization: Bearer KEY");
    return is_known;
}

/* A tenant's key stands for its tenant; an admin may name one in the header. */
const char *ld_access_tenant(const struct ld_app *app, const struct ld_request *r)
{
    const char *header = ld_request_header(r, "Laplaced-Tenant"), *own = ld_request_caller(r)->tenant;
    if (header != NULL)
        return header;
    return own[0] != '\0' ? own : app->world.default_tenant;
}

void ld_access_no_tenant(struct ld_request *r, const char *name)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_no_tenant(&p, name);
    ld_reply_problem(r, &p);
}

/* The tenant that the request is about; NULL for a route that is about none. */
static const char *tenant_of(const struct ld_app *app, const struct ld_request *r, const struct ld_route *route,
                             char name[LD_PATH_TENANT_BYTES])
{
    ld_route_tenant(route, ld_request_path(r), name);
    if (name[0] != '\0')
        return name;
    return route->opens == LD_TENANT_OF_HEADER ? ld_access_tenant(app, r) : NULL;
}

/* Names the roles that would do, so that whoever made the key knows what to add. */
static void refuse_role(struct ld_request *r, const struct ld_route *route)
{
    struct ld_problem p;
    const char *name = "admin";
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if (route->role == 1u << i)
            name = ld_role_name(i);
    ld_problem_init(&p);
    ld_problem_set(&p, 403, "the key lacks the role `%s`", name);
    ld_reply_problem(r, &p);
}

/* A route whose row forgot its role has none that a key could have, but an admin has all: it is theirs alone. */
bool ld_access_allow(const struct ld_app *app, struct ld_request *r, const struct ld_route *route)
{
    char buffer[LD_PATH_TENANT_BYTES];
    const struct ld_caller *caller = ld_request_caller(r);
    if (!LD_CHECKED)
        return true;
    const char *tenant = caller->tenant[0] != '\0' ? tenant_of(app, r, route, buffer) : NULL;
    if (tenant != NULL && strcmp(tenant, caller->tenant) != 0) {
        ld_access_no_tenant(r, tenant);
        return false;
    }
    if ((caller->roles & (unsigned)route->role) == 0 && caller->roles != LD_ALL_ROLES) {
        refuse_role(r, route);
        return false;
    }
    return true;
}
