/* The table of routes, and the search in it. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "http.h"
#include "kbt.h"
#include "metrics.h"
#include "route.h"

static char allow[LD_ALLOW_BYTES];

static const char *found(const char *method, const char *path)
{
    int i = ld_route_find(method, path, allow);
    return i >= 0 ? ld_routes[i].path : NULL;
}

START_TEST(every_row_finds_itself)
{
    for (size_t i = 0; i < ld_n_routes; i++) {
        char path[128] = "";
        const char *hole = strstr(ld_routes[i].path, "{t}");
        if (hole == NULL)
            strcpy(path, ld_routes[i].path);
        else
            snprintf(path, sizeof path, "%.*sa-tenant%s", (int)(hole - ld_routes[i].path), ld_routes[i].path, hole + 3);
        ck_assert_int_eq(ld_route_find(ld_routes[i].method, path, allow), (int)i);
    }
    ck_assert_uint_lt(ld_n_routes, LD_MAX_ROUTES); /* metrics keep the last row for the rest */
}
END_TEST

START_TEST(tenant_is_one_segment_of_the_path)
{
    char tenant[LD_PATH_TENANT_BYTES];
    int i = ld_route_find("GET", "/tenants/shop.eu-1/arms", allow);
    ck_assert_int_ge(i, 0);
    ld_route_tenant(&ld_routes[i], "/tenants/shop.eu-1/arms", tenant);
    ck_assert_str_eq(tenant, "shop.eu-1");
    i = ld_route_find("DELETE", "/tenants/x", allow);
    ld_route_tenant(&ld_routes[i], "/tenants/x", tenant);
    ck_assert_str_eq(tenant, "x");
    i = ld_route_find("GET", "/metrics", allow);
    ld_route_tenant(&ld_routes[i], "/metrics", tenant);
    ck_assert_str_eq(tenant, "");
}
END_TEST

START_TEST(overlong_tenant_stays_too_long_to_be_valid)
{
    char path[400] = "/tenants/", tenant[LD_PATH_TENANT_BYTES];
    memset(path + 9, 'a', 300);
    int i = ld_route_find("GET", path, allow);
    ck_assert_int_ge(i, 0);
    ld_route_tenant(&ld_routes[i], path, tenant);
    ck_assert_uint_eq(strlen(tenant), 65);
}
END_TEST

START_TEST(unknown_paths_have_no_methods)
{
    static const char *const unknown[] = {"",          "/",           "/select/",          "/Select",
                                          "/tenants/", "/tenants//",  "/tenants/a/b",      "/tenants/a/graph/",
                                          "/healthzz", "/tenants//x", "/tenants/a/graph/x"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        ck_assert_msg(found("GET", unknown[i]) == NULL, "%s", unknown[i]);
        ck_assert_str_eq(allow, "");
    }
}
END_TEST

START_TEST(other_methods_are_told_what_is_allowed)
{
    ck_assert_ptr_null(found("GET", "/select"));
    ck_assert_str_eq(allow, "POST, OPTIONS");
    ck_assert_ptr_null(found("POST", "/tenants/a"));
    ck_assert_str_eq(allow, "PUT, GET, HEAD, DELETE, OPTIONS");
    ck_assert_ptr_null(found("DELETE", "/tenants/a/graph"));
    ck_assert_str_eq(allow, "PUT, PATCH, GET, HEAD, OPTIONS");
    ck_assert_ptr_null(found("OPTIONS", "/metrics"));
    ck_assert_str_eq(allow, "GET, HEAD, OPTIONS");
}
END_TEST

START_TEST(head_finds_get)
{
    ck_assert_str_eq(found("HEAD", "/tenants/a/stats"), "/tenants/{t}/stats");
    ck_assert_ptr_null(found("HEAD", "/reward"));
}
END_TEST

START_TEST(only_probes_and_the_contract_are_public)
{
    for (size_t i = 0; i < ld_n_routes; i++) {
        const char *path = ld_routes[i].path;
        bool is_probe =
            strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0 || strcmp(path, "/openapi.yaml") == 0;
        ck_assert_int_eq(ld_routes[i].is_public, is_probe);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("route", every_row_finds_itself, tenant_is_one_segment_of_the_path,
                   overlong_tenant_stays_too_long_to_be_valid, unknown_paths_have_no_methods,
                   other_methods_are_told_what_is_allowed, head_finds_get, only_probes_and_the_contract_are_public);
}
