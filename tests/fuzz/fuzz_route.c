/* Method and path to a row of the table: what stands at {t}, {u} and {k} is cut right, a path that is not served tells
 * its methods or none, and a parameter, behind "?", is the row's own or nobody's. */
#include <stdlib.h>
#include <string.h>

#include "api/route.h"
#include "targets.h"

static void check_row(const struct ld_route *route, const char *path)
{
    char tenant[LD_PATH_TENANT_BYTES];
    char rest[LD_PATH_REST_BYTES];

    ld_route_rest(route, path, rest);
    ld_route_tenant(route, path, tenant);
    FUZZ_EXPECT(strlen(tenant) < sizeof tenant && strchr(tenant, '/') == NULL);
    FUZZ_EXPECT(strlen(rest) <= strlen(path) && strlen(rest) < sizeof rest);
    FUZZ_EXPECT(ld_route_hides(route, path) || strchr(tenant, '%') == NULL);
    FUZZ_EXPECT(strstr(route->path, "{p}") == NULL || strchr(path + strlen("/problems/"), '/') == NULL);
    FUZZ_EXPECT((strstr(route->path, "{u}") != NULL || strstr(route->path, "{k}") != NULL) == (rest[0] != '\0'));
}

static void check_query(const struct ld_route *route, const char *name)
{
    const struct ld_query *q = ld_route_query(route, name);

    FUZZ_EXPECT(q == NULL || (strcmp(q->name, name) == 0 && strcmp(q->path, route->path) == 0 && q->min <= q->max));
}

int fuzz_route(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1), allow[LD_ALLOW_BYTES];

    FUZZ_EXPECT(text != NULL);
    memcpy(text, data, n);
    text[n] = '\0';
    char *path = strchr(text, ' ');
    if (path != NULL) {
        *path++ = '\0';
        char *query = strchr(path, '?');
        if (query != NULL)
            *query++ = '\0';
        const int row = ld_route_find(text, path, allow);
        FUZZ_EXPECT(row >= -1 && row < (int)ld_n_routes);
        if (row >= 0 && query != NULL)
            check_query(&ld_routes[row], query);
        if (row >= 0)
            check_row(&ld_routes[row], path);
        else
            FUZZ_EXPECT(strlen(allow) < sizeof allow);
    }
    free(text);
    return 0;
}
