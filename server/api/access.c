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
#include "api/call.h"

#include <string.h>

/* Keys that were made count as soon as there is one. */
bool ld_access_wants_keys(struct ld_server *s)
{
    return ld_auth_has_had_file(s->auth) || ld_keys_exist(s->keys);
}

/* Both kinds of keys are tried always: which of them it was shows in no time. */
bool ld_access_identify(struct ld_call *c, struct ld_problem *p)
{
    struct ld_server *s = c->server;
    const char *header = ld_request_header(c->request, "Authorization"), *token = ld_auth_token(header);
    c->caller = (struct ld_caller){0};
    bool is_known = ld_keys_allow(s->keys, token != NULL ? token : "", s->world.now_ms(), &c->caller);
    if (ld_auth_allows(s->auth, header) || !ld_access_wants_keys(s)) {
        c->caller = (struct ld_caller){.roles = LD_ALL_ROLES};
        is_known = true;
    }
    if (!is_known)
        ld_problem_set(p, 401, "this server asks for a key: Authorization: Bearer KEY");
    return is_known;
}

/* Names the roles that would do, so that whoever made the key knows what to add. */
static void refuse_role(const struct ld_route *route, struct ld_problem *p)
{
    const char *name = "admin";
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if (route->role == 1u << i)
            name = ld_role_name(i);
    ld_problem_set(p, 403, "the key lacks the role `%s`", name);
}

/* A route whose row forgot its role has none that a key could have, but an admin has all: it is theirs alone. */
bool ld_access_allow(const struct ld_call *c, struct ld_problem *p)
{
    const bool is_about_one = c->name[0] != '\0' || c->route->opens == LD_TENANT_OF_HEADER;
    if (c->caller.tenant[0] != '\0' && is_about_one && strcmp(c->name, c->caller.tenant) != 0)
        ld_problem_no_tenant(p, c->name);
    else if ((c->caller.roles & (unsigned)c->route->role) == 0 && c->caller.roles != LD_ALL_ROLES)
        refuse_role(c->route, p);
    return p->status == 0;
}
