/* The table of routes, and the search in it. */
#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/embed.h"
#include "http/http.h"
#include "base/ids.h"
#include "kbt.h"
#include "base/metrics.h"
#include "api/route.h"

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
        const char *hole = strstr(ld_routes[i].path, "{t}"), *version = strstr(ld_routes[i].path, "{v}");
        if (hole == NULL)
            hole = version;
        if (hole == NULL)
            strcpy(path, ld_routes[i].path);
        else
            snprintf(path, sizeof path, "%.*s%s%s", (int)(hole - ld_routes[i].path), ld_routes[i].path,
                     hole == version ? "v1.0" : "a-tenant", hole + 3);
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
    static const char *const unknown[] = {"",
                                          "//",
                                          "/select/",
                                          "/Select",
                                          "/tenants/",
                                          "/tenants//",
                                          "/tenants/a/b",
                                          "/tenants/a/graph/",
                                          "/healthzz",
                                          "/tenants//x",
                                          "/tenants/a/graph/x",
                                          "/problems/",
                                          "/problems/a/b"};
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
    ck_assert_str_eq(allow, "PUT, PATCH, GET, HEAD, DELETE, OPTIONS");
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

START_TEST(only_probes_the_contract_and_pages_are_public)
{
    for (size_t i = 0; i < ld_n_routes; i++) {
        const char *path = ld_routes[i].path;
        static const char *const public[] = {
            "/healthz", "/readyz",      "/openapi.yaml", "/openapi-3.0.yaml", "/problems",   "/problems/{p}",
            "/",        "/favicon.ico", "/console",      "/console/",         "/console/{f}"};
        bool is_public = false;
        for (size_t k = 0; k < sizeof public / sizeof *public; k++)
            is_public |= strcmp(path, public[k]) == 0;
        ck_assert_msg((ld_routes[i].role == LD_ROLE_PUBLIC) == is_public, "%s", path);
    }
}
END_TEST

/* The text between the line `head` and the next line with as little indentation; cut at 64 KiB. */
static const char *section(const char *text, const char *head)
{
    static char out[2][65536];
    static int turn;
    char *copy = out[turn = 1 - turn];
    const char *at = strstr(text, head);
    copy[0] = '\0';
    if (at == NULL)
        return copy;
    at += strlen(head);
    size_t indent = strspn(head + 1, " "), n = 0;
    while (at[n] != '\0' && n < sizeof out[0] - 1 &&
           !(at[n] == '\n' && strspn(at + n + 1, " ") <= indent && at[n + 1] != '\n'))
        n++;
    memcpy(copy, at, n);
    copy[n] = '\0';
    return copy;
}

/* The role that openapi.yaml tells of the row; "public" without one; NULL when the contract has no such operation. */
static const char *role_in_contract(const struct ld_route *route)
{
    enum { N_NAMES = 9 };
    static const char *const names[N_NAMES][2] = {{"{t}", "{tenant}"},     {"{u}", "{user}"},     {"{k}", "{key}"},
                                                  {"{p}", "{problem}"},    {"{d}", "{decision}"}, {"{f}", "{file}"},
                                                  {"{e}", "{evaluation}"}, {"{v}", "{version}"},  {"{i}", "{event}"}};
    static char role[32];
    char head[256] = "\n  ", method[16] = "\n    ";
    for (const char *p = route->path; *p != '\0'; p += *p == '{' ? 3 : 1) {
        size_t k = 0;
        while (k < N_NAMES && strncmp(p, names[k][0], 3) != 0)
            k++;
        strncat(head, k < N_NAMES ? names[k][1] : p, k < N_NAMES ? 32 : 1);
    }
    strcat(head, ":");
    for (size_t i = 0; route->method[i] != '\0'; i++)
        method[5 + i] = (char)tolower((unsigned char)route->method[i]), method[6 + i] = '\0';
    strcat(method, ":");
    const char *path = section(ld_embed_openapi_yaml, head);
    const char *operation = section(path, method);
    if (operation[0] == '\0')
        return NULL;
    const char *at = strstr(operation, "\n      x-role: ");
    if (at == NULL)
        return "public";
    snprintf(role, sizeof role, "%.*s", (int)strcspn(at + 15, "\n"), at + 15);
    return role;
}

START_TEST(every_row_states_one_role_and_the_contract_the_same)
{
    for (size_t i = 0; i < ld_n_routes; i++) {
        const char *name = NULL, *told = role_in_contract(&ld_routes[i]);
        for (size_t k = 0; k < LD_N_ROLES; k++)
            if (ld_routes[i].role == 1u << k)
                name = ld_role_name(k);
        if (ld_routes[i].role == LD_ROLE_PUBLIC)
            name = "public";
        ck_assert_msg(name != NULL, "%s %s has no role", ld_routes[i].method, ld_routes[i].path);
        ck_assert_msg(told != NULL && strcmp(told, name) == 0, "%s %s: %s, openapi.yaml says %s", ld_routes[i].method,
                      ld_routes[i].path, name, told != NULL ? told : "nothing");
    }
}
END_TEST

/* Every parameter is a route's, has a range with its preset in it, and stands once; no route has too many. */
START_TEST(parameters_of_queries_belong_to_routes)
{
    for (size_t i = 0; i < ld_n_queries; i++) {
        const struct ld_query *q = &ld_queries[i];
        size_t n_routes = 0, n_same = 0;
        for (size_t k = 0; k < ld_n_routes; k++)
            n_routes += strcmp(ld_routes[k].path, q->path) == 0 && strcmp(ld_routes[k].method, q->method) == 0 &&
                        ld_route_query(&ld_routes[k], q->name) == q;
        for (size_t k = 0; k < ld_n_queries; k++)
            n_same += strcmp(ld_queries[k].path, q->path) == 0 && strcmp(ld_queries[k].method, q->method) == 0;
        ck_assert_uint_eq(n_routes, 1);
        ck_assert_uint_le(n_same, LD_MAX_QUERIES);
        ck_assert(q->min <= q->preset && q->preset <= q->max);
    }
    ck_assert_ptr_null(ld_route_query(&ld_routes[0], "limit"));
}
END_TEST

START_TEST(the_rest_of_a_path_is_the_last_name_in_it)
{
    char rest[LD_PATH_REST_BYTES];
    static const struct {
        const char *path, *rest;
    } cases[] = {{"/tenants/a/users/u1", "u1"},
                 {"/tenants/a/users/x/y/", "x/y/"},
                 {"/tenants/a/users/x%2Fy", "x/y"},
                 {"/tenants/a/users/%252F%2F%25", "%2F/%"},
                 {"/tenants/a/keys/0123456789abcdef", "0123456789abcdef"},
                 {"/keys/00", "00"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int row = ld_route_find("DELETE", cases[i].path, allow);
        ck_assert_msg(row >= 0, "%s", cases[i].path);
        ld_route_rest(&ld_routes[row], cases[i].path, rest);
        ck_assert_str_eq(rest, cases[i].rest);
    }
    ck_assert_ptr_null(found("DELETE", "/keys/"));
    ck_assert_ptr_null(found("DELETE", "/tenants/a/users/"));
    ld_route_rest(&ld_routes[0], "/select", rest);
    ck_assert_str_eq(rest, "");
}
END_TEST

START_TEST(an_id_may_be_a_segment_in_the_middle)
{
    char rest[LD_PATH_REST_BYTES];
    static const struct {
        const char *path, *rest;
    } cases[] = {{"/personalizer/v1.0/events/e/reward", "e"},
                 {"/personalizer/v1.1-preview.3/events/reward/reward", "reward"},
                 {"/personalizer/v1.0/events/a%2Fb%25/reward", "a/b%"},
                 {"/personalizer/events/e/reward", "e"}}; /* of 2022 */
    static const char *const none[] = {
        "/personalizer/v1.0/events//reward",   "/personalizer/v1.0/events/a/b/reward",
        "/personalizer/v1.0/events/a/reward/", "/personalizer/v1.00/events/a/reward",
        "/personalizer//events/a/reward",      "/personalizer/v1.1-preview.4/events/a/reward"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int row = ld_route_find("POST", cases[i].path, allow);
        ck_assert_msg(row >= 0, "%s", cases[i].path);
        ld_route_rest(&ld_routes[row], cases[i].path, rest);
        ck_assert_str_eq(rest, cases[i].rest);
        ck_assert(!ld_route_hides(&ld_routes[row], cases[i].path));
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(found("POST", none[i]) == NULL, "%s", none[i]);
}
END_TEST

START_TEST(a_rest_that_is_too_long_stays_longer_than_any_id)
{
    char path[1024] = "/tenants/a/users/", rest[LD_PATH_REST_BYTES];
    memset(path + strlen(path), 'u', 700);
    ld_route_rest(&ld_routes[ld_route_find("DELETE", path, allow)], path, rest);
    ck_assert_uint_eq(strlen(rest), LD_PATH_REST_BYTES - 1);
    ck_assert_uint_gt(strlen(rest), KB_ID_MAX_BYTES);
}
END_TEST

START_TEST(only_a_users_id_may_have_what_is_escaped)
{
    static const char *const hiding[] = {"/tenants/a%2Fb/users/u", "/tenants/a%25/graph", "/keys/a%2F",
                                         "/tenants/a/keys/%25",    "/healthz%2F",         "/tenants%2Fa"};
    for (size_t i = 0; i < sizeof hiding / sizeof *hiding; i++) {
        int row = ld_route_find(strstr(hiding[i], "graph") != NULL ? "GET" : "DELETE", hiding[i], allow);
        ck_assert_msg(ld_route_hides(row >= 0 ? &ld_routes[row] : NULL, hiding[i]), "%s", hiding[i]);
    }
    int row = ld_route_find("DELETE", "/tenants/a/users/u%2F%25", allow);
    ck_assert(!ld_route_hides(&ld_routes[row], "/tenants/a/users/u%2F%25"));
    ck_assert(!ld_route_hides(NULL, "/nowhere"));
}
END_TEST

int main(void)
{
    return KBT_RUN("route", every_row_finds_itself, tenant_is_one_segment_of_the_path,
                   overlong_tenant_stays_too_long_to_be_valid, unknown_paths_have_no_methods,
                   other_methods_are_told_what_is_allowed, head_finds_get,
                   only_probes_the_contract_and_pages_are_public, every_row_states_one_role_and_the_contract_the_same,
                   the_rest_of_a_path_is_the_last_name_in_it, an_id_may_be_a_segment_in_the_middle,
                   parameters_of_queries_belong_to_routes, a_rest_that_is_too_long_stays_longer_than_any_id,
                   only_a_users_id_may_have_what_is_escaped);
}
