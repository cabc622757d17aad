/* The search for a route, and what its pattern says of a path.
 *
 * The search is linear: some thirty rows of short strings, most of them refused at the first byte, cost less than a
 * microsecond. */
#include "api/route.h"

#include <string.h>

const struct ld_query *ld_route_query(const struct ld_route *route, const char *name)
{
    for (size_t i = 0; i < ld_n_queries; i++)
        if (strcmp(ld_queries[i].name, name) == 0 && strcmp(ld_queries[i].path, route->path) == 0 &&
            strcmp(ld_queries[i].method, route->method) == 0)
            return &ld_queries[i];
    return NULL;
}

const struct ld_door *ld_door_of(const char *path)
{
    for (size_t i = 0; i < ld_n_doors; i++)
        if (strncmp(path, ld_doors[i]->root, strlen(ld_doors[i]->root)) == 0)
            return ld_doors[i];
    return NULL;
}

/* What of the path stands for the hole at `pattern`, in bytes: a version that is served, all that is left, or one
 * segment. 0: nothing that may. */
static size_t fill_of(const char *pattern, const char *path)
{
    static const char *const versions[] = {"v1.0", "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3"};
    const size_t segment = strcspn(path, "/");
    if (pattern[1] != 'v')
        return strchr("ukde", pattern[1]) != NULL ? strlen(path) : segment;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strlen(versions[i]) == segment && strncmp(path, versions[i], segment) == 0)
            return segment;
    return 0;
}

/* Whether path fits the pattern, in which {t}, {p}, {f}, {v} and {i} take one non-empty segment, and {u}, {k}, {d} or
 * {e} at its end all that is left, slashes included: a user's id may have them. An escaped slash is part of its segment
 * (ld_request_path keeps it so). *rest, unless NULL, is set to where an id begins, *n_rest to its bytes. */
static bool fits(const char *pattern, const char *path, const char **rest, size_t *n_rest)
{
    while (*pattern != '\0') {
        if (*pattern == '{') {
            const size_t n = fill_of(pattern, path);
            if (n == 0)
                return false;
            if (rest != NULL && strchr("tpfv", pattern[1]) == NULL) {
                *rest = path;
                *n_rest = n;
            }
            path += n;
            pattern += strlen("{t}");
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
    size_t n = 0, n_rest = 0;
    (void)fits(route->path, path, &rest, &n_rest);
    for (const char *end = rest + n_rest; rest < end && n < LD_PATH_REST_BYTES - 1;) {
        const bool is_slash = strncmp(rest, "%2F", 3) == 0, is_percent = strncmp(rest, "%25", 3) == 0;
        out[n++] = is_slash ? '/' : *rest;
        rest += is_slash || is_percent ? 3 : 1;
    }
    out[n] = '\0';
}

/* Escapes that are left are of slashes and percent signs, which only ids of users and decisions may have. */
bool ld_route_hides(const struct ld_route *route, const char *path)
{
    const char *escape = strchr(path, '%'), *rest = NULL;
    size_t n_rest = 0;
    if (escape == NULL)
        return false;
    if (route != NULL && (strstr(route->path, "{u}") != NULL || strstr(route->path, "{d}") != NULL ||
                          strstr(route->path, "{i}") != NULL))
        (void)fits(route->path, path, &rest, &n_rest);
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
        if (!is_any && !fits(ld_routes[i].path, path, NULL, NULL))
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
