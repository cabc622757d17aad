/* Keys: make, list, revoke. The same three handlers serve a tenant's keys and, without a tenant, the server's own. On
 * the work pool: each change waits for the disk.
 *
 * A key is shown in the one answer that makes it; what is kept is a hash. A caller gives no role that it has not
 * itself, so that nobody can make a key that is good for more than their own. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "json/json_keys.h"
#include "base/log.h"
#include "api/route.h"

/* Whose keys, for the log. */
static const char *owner(const char *tenant)
{
    return tenant[0] != '\0' ? tenant : "(server)";
}

/* A fault of each role that the caller lacks, by its place in the body's list. The list has been checked: its items are
 * names, each once, so the bits of the set are they. Admins have all roles. */
static void check_gift(const struct ld_caller *caller, const struct ld_key *wish, struct ld_problem *p)
{
    unsigned missing = wish->roles & ~caller->roles;
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if ((missing & 1u << i) != 0) {
            ld_problem_set(p, 403, "a key gives no role that it has not itself");
            ld_problem_add(p, "/roles", "the key that asks lacks `%s`", ld_role_name(i));
        }
}

/* 0 with *wish ready to be made, or -1 with *p. */
static int decode(struct ld_app *app, struct ld_request *r, const char *tenant, struct ld_doc **doc,
                  struct ld_key *wish, struct ld_problem *p)
{
    size_t n;
    const char *body = ld_request_body(r, &n);
    if (ld_doc_parse(doc, body, n, false, p) != 0 ||
        ld_decode_key(*doc, tenant[0] != '\0', app->world.now_ms(), wish, p) != 0)
        return -1;
    check_gift(ld_request_caller(r), wish, p);
    strcpy(wish->tenant, tenant);
    return p->status == 0 ? 0 : -1;
}

/* POST /keys, POST /tenants/{t}/keys. 201 once the key is durable. An answer that is lost leaves a key that nobody has:
 * the list shows it, and it can be revoked. A name that is too long for a tenant's is no tenant's. */
void api_keys_post(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_doc *doc = NULL;
    struct ld_key wish, made;
    struct ld_problem p;
    char text[LD_KEY_TEXT_BYTES];
    size_t n = 0;
    ld_problem_init(&p);
    if (strlen(tenant) >= sizeof wish.tenant) {
        ld_access_no_tenant(r, tenant);
        return;
    }
    int rc = decode(app, r, tenant, &doc, &wish, &p);
    if (rc == 0)
        rc = ld_keys_create(app->keys, &wish, ld_auth_has_file(app->auth), app->world.now_ms(), &made, text, &p);
    ld_doc_free(doc);
    if (rc != 0) {
        ld_reply_problem(r, &p);
        return;
    }
    ld_log(LD_LOG_INFO, "key %s of %s made", made.id, owner(tenant));
    char *answer = ld_encode_key(&made, text, &n);
    ld_reply_json(r, 201, answer, n);
}

/* GET /keys, GET /tenants/{t}/keys. What they are, never what they open. */
void api_keys_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_key *keys = NULL;
    bool is_there = true;
    size_t n_keys = 0, n = 0;
    if (tenant[0] != '\0' &&
        ld_key_rows_has_tenant(ld_tenants_registry(app->tenants), tenant, &is_there) != LD_STORE_OK) {
        ld_reply_status(r, 503, "the registry cannot be read");
    } else if (!is_there) {
        ld_access_no_tenant(r, tenant);
    } else {
        char *text = ld_keys_list(app->keys, tenant, &keys, &n_keys) == 0 ? ld_encode_keys(keys, n_keys, &n) : NULL;
        ld_reply_json(r, 200, text, n);
    }
    free(keys);
}

/* DELETE /keys/{k}, DELETE /tenants/{t}/keys/{k}. When it answers 204 the key opens nothing any more, in this process
 * and in any that reads the file later. */
void api_key_delete(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    char id[LD_PATH_REST_BYTES];
    ld_route_rest(&ld_routes[ld_request_route(r)], ld_request_path(r), id);
    struct ld_problem p;
    ld_problem_init(&p);
    if (ld_keys_revoke(app->keys, tenant, id, ld_auth_has_file(app->auth), &p) != 0) {
        ld_reply_problem(r, &p);
        return;
    }
    ld_log(LD_LOG_INFO, "key %s of %s revoked", id, owner(tenant));
    ld_reply(r, 204, NULL, NULL, 0);
}
