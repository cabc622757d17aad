/* The table of routes and the search in it.
 *
 * The search is linear: some thirty rows of short strings, most of them refused at the first byte, cost less than a
 * microsecond. Metrics name a route by its row, so that no client can invent labels. */
#include "api/route.h"

#include <string.h>

#include "api/api.h"
#include "task/tasks.h"

#define HANDLED(handle) handle, LD_OP_EVENT, NULL, NULL
#define QUEUED(op, fill) NULL, op, NULL, fill
#define TASK(kind, fill) NULL, LD_OP_TASK, &kind, fill

/* clang-format off */
/* The role is what a key must have; access.c says what else is asked. */
const struct ld_route ld_routes[] = {
    /* method   path                        body              role              place           opens                 work             handler */
    {"POST",   "/select",                  LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    HANDLED(api_select)},
    {"POST",   "/reward",                  LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_REWARDS, fill_rewards)},
    {"POST",   "/activate",                LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_ACTIVATE, fill_activate)},
    {"POST",   "/observe",                 LD_BODY_OBSERVE,  LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_OBSERVE, fill_observe)},
    {"GET",    "/tenants",                 LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_tenant_list)},
    {"PUT",    "/tenants/{t}",             LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OR_NEW,     LD_WORK_TOLD,    HANDLED(api_tenant_put)},
    {"PATCH",  "/tenants/{t}",             LD_BODY_MERGE,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_PATCH, fill_patch)},
    {"GET",    "/tenants/{t}",             LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_REQUEST, HANDLED(api_tenant_get)},
    {"DELETE", "/tenants/{t}",             LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_tenant_delete)},
    {"PUT",    "/tenants/{t}/graph",       LD_BODY_BULK,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_graph_put)},
    {"PATCH",  "/tenants/{t}/graph",       LD_BODY_PATCH,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_graph_patch)},
    {"GET",    "/tenants/{t}/graph",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_graph_get)},
    {"PUT",    "/tenants/{t}/arms",        LD_BODY_BULK,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_EVENT, fill_arms_put)},
    {"PATCH",  "/tenants/{t}/arms",        LD_BODY_PATCH,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_EVENT, fill_arms_patch)},
    {"GET",    "/tenants/{t}/arms",        LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_arms_get)},
    {"GET",    "/tenants/{t}/limits",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_limits_get)},
    {"PUT",    "/tenants/{t}/limits",      LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_limits_put)},
    {"POST",   "/tenants/{t}/rebuild",     LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_REBUILD, NULL)},
    {"POST",   "/tenants/{t}/compact",     LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_TOLD,    TASK(ld_compaction, fill_compact)},
    {"POST",   "/tenants/{t}/verify",      LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    TASK(ld_verification, NULL)},
    {"POST",   "/tenants/{t}/repair",      LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_tenant_repair)},
    {"GET",    "/tenants/{t}/challengers", LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_challengers_get)},
    {"POST",   "/tenants/{t}/promote",     LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_PROMOTE, fill_promote)},
    {"POST",   "/tenants/{t}/rollback",    LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_PROMOTE, fill_rollback)},
    {"POST",   "/tenants/{t}/stop",        LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, QUEUED(LD_OP_SWITCH, fill_stop)},
    {"POST",   "/tenants/{t}/start",       LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, QUEUED(LD_OP_SWITCH, NULL)},
    {"DELETE", "/tenants/{t}/users/{u}",   LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    TASK(ld_erasure, fill_erase)},
    {"GET",    "/tenants/{t}/model",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_MODEL,   HANDLED(api_model)},
    {"GET",    "/tenants/{t}/stats",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_stats)},
    {"GET",    "/tenants/{t}/events",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_events)},
    {"GET",    "/tenants/{t}/export",      LD_BODY_NONE,     LD_ROLE_READ,     LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_COPY,    HANDLED(api_export)},
    {"POST",   "/tenants/{t}/import",      LD_BODY_LOG,      LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_import)},
    {"POST",   "/tenants/{t}/replay",      LD_BODY_LOG,      LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_FOLD,    HANDLED(api_replay)},
    {"POST",   "/tenants/{t}/snapshot",    LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_COPY,    HANDLED(api_snapshot_post)},
    {"PUT",    "/tenants/{t}/snapshot",    LD_BODY_DATABASE, LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_snapshot_put)},
    {"POST",   "/keys",                    LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_keys_post)},
    {"GET",    "/keys",                    LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_keys_get)},
    {"DELETE", "/keys/{k}",                LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_key_delete)},
    {"POST",   "/tenants/{t}/keys",        LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_keys_post)},
    {"GET",    "/tenants/{t}/keys",        LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_keys_get)},
    {"DELETE", "/tenants/{t}/keys/{k}",    LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_key_delete)},
    {"GET",    "/healthz",                 LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_healthz)},
    {"GET",    "/readyz",                  LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_readyz)},
    {"GET",    "/metrics",                 LD_BODY_NONE,     LD_ROLE_METRICS,  LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_metrics)},
    {"GET",    "/openapi.yaml",            LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_openapi)},
    {"GET",    "/problems",                LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_problems)},
    {"GET",    "/problems/{p}",            LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_problem)},
    {"GET",    "/",                        LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_front)},
    {"GET",    "/favicon.ico",             LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_favicon)},
};
/* clang-format on */
const size_t ld_n_routes = sizeof ld_routes / sizeof *ld_routes;

/* clang-format off */
/* The parameters of their queries. A route that does not stand here takes none; what it does not take is refused
 * (stray.c). */
const struct ld_query ld_queries[] = {
    /* method path                    name        min  max        preset */
    {"GET",   "/tenants/{t}/stats",   "window_s", 1,   31536000,  3600},
    {"GET",   "/tenants/{t}/events",  "after",    0,   INT64_MAX, 0},
    {"GET",   "/tenants/{t}/events",  "limit",    1,   100000,    10000},
};
/* clang-format on */
const size_t ld_n_queries = sizeof ld_queries / sizeof *ld_queries;

const struct ld_query *ld_route_query(const struct ld_route *route, const char *name)
{
    for (size_t i = 0; i < ld_n_queries; i++)
        if (strcmp(ld_queries[i].name, name) == 0 && strcmp(ld_queries[i].path, route->path) == 0 &&
            strcmp(ld_queries[i].method, route->method) == 0)
            return &ld_queries[i];
    return NULL;
}

/* Whether path fits the pattern, in which {t} and {p} take one non-empty segment, and {u} or {k} at its end all that is
 * left, slashes included: a user's id may have them. An escaped slash is part of its segment (ld_request_path keeps it
 * so). *rest, unless NULL, is set to what is left. */
static bool fits(const char *pattern, const char *path, const char **rest)
{
    while (*pattern != '\0') {
        if (*pattern == '{' && (pattern[1] == 't' || pattern[1] == 'p')) {
            size_t segment = strcspn(path, "/");
            if (segment == 0)
                return false;
            path += segment;
            pattern += strlen("{t}");
        } else if (*pattern == '{') {
            if (rest != NULL)
                *rest = path;
            return *path != '\0';
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

/* The path has been found to fit the route. Cut to what out holds, hence longer than any id that is valid. */
void ld_route_rest(const struct ld_route *route, const char *path, char out[LD_PATH_REST_BYTES])
{
    const char *rest = "";
    size_t n = 0;
    (void)fits(route->path, path, &rest);
    while (*rest != '\0' && n < LD_PATH_REST_BYTES - 1) {
        const bool is_slash = strncmp(rest, "%2F", 3) == 0, is_percent = strncmp(rest, "%25", 3) == 0;
        out[n++] = is_slash ? '/' : *rest;
        rest += is_slash || is_percent ? 3 : 1;
    }
    out[n] = '\0';
}

/* Escapes that are left are of slashes and percent signs, which only a user's id may have. */
bool ld_route_hides(const struct ld_route *route, const char *path)
{
    const char *escape = strchr(path, '%'), *rest = NULL;
    if (escape == NULL)
        return false;
    if (route != NULL && strstr(route->path, "{u}") != NULL)
        (void)fits(route->path, path, &rest);
    return rest == NULL || escape < rest;
}

/* Cut rather than overrun; LD_ALLOW_BYTES holds all methods that there are. Each is added once: no method's name is
 * part of another's. */
static void add_method(char allow[LD_ALLOW_BYTES], const char *method)
{
    size_t n = strlen(allow);
    if (strstr(allow, method) != NULL)
        return;
    const char *comma = n > 0 ? ", " : "";
    if (n + strlen(comma) + strlen(method) < LD_ALLOW_BYTES)
        strcat(strcat(allow, comma), method);
}

/* Goes on after a path that fits with another method, so that `allow` is complete. OPTIONS has no row: it is always
 * answered from `allow` (dispatch.c), also for "*", which is any path. */
int ld_route_find(const char *method, const char *path, char allow[LD_ALLOW_BYTES])
{
    /* The library leaves out the body of an answer to HEAD. */
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    bool is_any = strcmp(path, "*") == 0;
    allow[0] = '\0';
    for (size_t i = 0; i < ld_n_routes; i++) {
        if (!is_any && !fits(ld_routes[i].path, path, NULL))
            continue;
        if (!is_any && strcmp(ld_routes[i].method, wanted) == 0)
            return (int)i;
        add_method(allow, ld_routes[i].method);
        if (strcmp(ld_routes[i].method, "GET") == 0)
            add_method(allow, "HEAD");
    }
    if (allow[0] != '\0')
        add_method(allow, "OPTIONS");
    return -1;
}

/* Long names are cut to 65 bytes, one more than any valid name: they stay invalid instead of becoming another's. The
 * path has been found to fit the route. */
void ld_route_tenant(const struct ld_route *route, const char *path, char out[LD_PATH_TENANT_BYTES])
{
    const char *hole = strstr(route->path, "{t}");
    out[0] = '\0';
    if (hole == NULL)
        return;
    const char *segment = path + (hole - route->path);
    size_t n = strcspn(segment, "/");
    if (n >= LD_PATH_TENANT_BYTES)
        n = LD_PATH_TENANT_BYTES - 1;
    memcpy(out, segment, n);
    out[n] = '\0';
}
