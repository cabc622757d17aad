/* Refuses what a request says where nobody reads it (decision 0056), and reads Laplaced-After where a log is shared.
 *
 *   header       of routes whose tenant a header names (LD_TENANT_OF_HEADER)
 *     Laplaced-*   the prefix is this service's: all but Laplaced-Tenant is refused, misspelt or of another kind;
 *                  where a log is shared, Laplaced-After is read, too
 *     a tenant     what is `tenant`, `tenant id` or `tenant name`, with or without X-, whatever stands between the
 *                  words: X-Tenant, Tenant-Id, X_TenantID
 *     others       not looked at, as HTTP has it: X-Azure-Tenant-Id is a proxy's business
 *   parameter    of every route: those of the table in route.c, each once; all else is refused
 *
 * Names of clients are cut to 64 bytes in the answer. Cost: a look at the first letter of each header. */
#include "api/call.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SQUASHED_BYTES 24 /* longer than any name that is looked for */

/* Letters and digits of the name, small, without a leading x; cut. */
static void squash(const char *name, char out[SQUASHED_BYTES])
{
    size_t n = 0;
    for (const char *p = name; *p != '\0' && n < SQUASHED_BYTES - 1; p++) {
        const char c = *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : *p;
        const bool is_first_x = c == 'x' && p == name;
        if (!is_first_x && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
            out[n++] = c;
    }
    out[n] = '\0';
}

static bool is_about_tenant(const char *squashed)
{
    static const char *const names[] = {"tenant", "tenantid", "tenantname", "laplacedtenant"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(squashed, names[i]) == 0)
            return true;
    return false;
}

/* --- headers ------------------------------------------------------------------------------------------------ */

struct headers {
    bool has_after; /* somebody reads Laplaced-After (after.c) */
    const char *stray;
};

/* Stops at the first stray. */
static bool look_at_header(void *arg, const char *name)
{
    struct headers *h = arg;
    char squashed[SQUASHED_BYTES];
    if (strchr(LD_STRAY_LETTERS, *name | 0x20) == NULL || strcasecmp(name, "Laplaced-Tenant") == 0 ||
        (h->has_after && strcasecmp(name, "Laplaced-After") == 0))
        return true;
    squash(name, squashed);
    if (strncmp(squashed, "laplaced", strlen("laplaced")) == 0 || is_about_tenant(squashed))
        h->stray = name;
    return h->stray == NULL;
}

bool ld_stray_header_allow(const struct ld_call *c, struct ld_problem *p)
{
    struct headers h = {.has_after = c->server->world.shared != NULL};
    ld_request_each_header(c->request, look_at_header, &h);
    if (h.stray != NULL)
        ld_problem_set_as(p, LD_TENANT_NOT_NAMED,
                          "nobody reads the header \"%.64s\": the tenant is named by the header Laplaced-Tenant",
                          h.stray);
    return h.stray == NULL;
}

/* --- the query ---------------------------------------------------------------------------------------------- */

struct query {
    const struct ld_route *route;
    bool has_version, has_seen_version; /* of that service's interface (rank_door.c) */
    const char *stray, *twice;
    unsigned n_seen;
    const struct ld_query *seen[LD_MAX_QUERIES];
};

/* Stops at the first fault. Of a route's parameters each is seen once, so seen[] has room. */
static bool look_at_parameter(void *arg, const char *name)
{
    struct query *q = arg;
    const struct ld_query *found = ld_route_query(q->route, name);
    if (q->has_version && strcmp(name, "api-version") == 0) {
        if (q->has_seen_version)
            q->twice = name;
        q->has_seen_version = true;
        return q->twice == NULL;
    }
    if (found == NULL) {
        q->stray = name;
        return false;
    }
    for (unsigned i = 0; i < q->n_seen; i++)
        if (q->seen[i] == found)
            q->twice = name;
    if (q->twice == NULL)
        q->seen[q->n_seen++] = found;
    return q->twice == NULL;
}

/* "after and limit"; "" when there are none. */
static void list(const struct ld_route *route, char out[128])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ld_n_queries && n < 128; i++)
        if (ld_route_query(route, ld_queries[i].name) == &ld_queries[i])
            n += (size_t)snprintf(out + n, 128 - n, "%s%s", n > 0 ? " and " : "", ld_queries[i].name);
}

/* A tenant has its place; of all else it is told what there is. */
static void describe(const struct query *q, struct ld_problem *p)
{
    char squashed[SQUASHED_BYTES], known[128];
    squash(q->stray, squashed);
    list(q->route, known);
    if (is_about_tenant(squashed) && ld_route_reads_header(q->route))
        ld_problem_set_as(p, LD_TENANT_NOT_NAMED,
                          "query parameter \"%.64s\": the tenant is named by the header Laplaced-Tenant", q->stray);
    else if (is_about_tenant(squashed) && strstr(q->route->path, "{t}") != NULL)
        ld_problem_set_as(p, LD_TENANT_NOT_NAMED, "query parameter \"%.64s\": the tenant is the one in the path",
                          q->stray);
    else
        ld_problem_set(p, 400, "query parameter \"%.64s\": this operation takes %s", q->stray,
                       known[0] != '\0' ? known : "none");
}

bool ld_stray_query_allow(const struct ld_call *c, struct ld_problem *p)
{
    struct query q = {.route = c->route, .has_version = c->is_of_2022};
    ld_request_each_parameter(c->request, look_at_parameter, &q);
    if (q.twice != NULL)
        ld_problem_set(p, 400, "query parameter %s stands twice", q.twice);
    else if (q.stray != NULL)
        describe(&q, p);
    return q.stray == NULL && q.twice == NULL;
}
