/* Keys: make, list, revoke. The same three handlers serve a tenant's keys and, without a tenant, the server's own. On
 * the work pool: each change waits for the disk.
 *
 * A key is shown in the one answer that makes it; what is kept is a hash. A caller gives no role that it has not
 * itself, so that nobody can make a key that is good for more than their own. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_keys.h"
#include "base/log.h"

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

/* POST /keys, POST /tenants/{t}/keys. 201 once the key is durable. An answer that is lost leaves a key that nobody has:
 * the list shows it, and it can be revoked. A name that is too long for a tenant's is no tenant's. */
bool api_keys_post(struct ld_call *c, struct ld_reply *out)
{
    struct ld_server *s = c->server;
    struct ld_problem *p = out->problem;
    struct ld_doc *doc = NULL;
    struct ld_key wish, made;
    char text[LD_KEY_TEXT_BYTES];
    if (strlen(c->name) >= sizeof wish.tenant) {
        ld_problem_no_tenant(p, c->name);
        return true;
    }
    if (ld_call_parse(c, &doc, p) == 0 && ld_decode_key(doc, c->name[0] != '\0', s->world.now_ms(), &wish, p) == 0) {
        check_gift(&c->caller, &wish, p);
        strcpy(wish.tenant, c->name);
    }
    if (p->status == 0)
        (void)ld_keys_create(s->keys, &wish, ld_auth_has_file(s->auth), s->world.now_ms(), &made, text, p);
    ld_doc_free(doc);
    if (p->status != 0)
        return true;
    ld_log(LD_LOG_INFO, "key %s of %s made", made.id, owner(c->name));
    out->status = 201;
    out->text = ld_encode_key(&made, text, &out->n);
    return true;
}

/* GET /keys, GET /tenants/{t}/keys. What they are, never what they open. */
bool api_keys_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_key *keys = NULL;
    bool is_there = true;
    size_t n_keys = 0;
    if (c->name[0] != '\0' &&
        ld_key_rows_has_tenant(ld_tenants_registry(c->server->tenants), c->name, &is_there) != LD_STORE_OK)
        ld_problem_set(out->problem, 503, "the registry cannot be read");
    else if (!is_there)
        ld_problem_no_tenant(out->problem, c->name);
    else if (ld_keys_list(c->server->keys, c->name, &keys, &n_keys) == 0)
        out->text = ld_encode_keys(keys, n_keys, &out->n);
    free(keys);
    return true;
}

/* DELETE /keys/{k}, DELETE /tenants/{t}/keys/{k}. When it answers 204 the key opens nothing any more, in this process
 * and in any that reads the file later. */
bool api_key_delete(struct ld_call *c, struct ld_reply *out)
{
    char id[LD_PATH_REST_BYTES];
    ld_call_rest(c, id);
    if (ld_keys_revoke(c->server->keys, c->name, id, ld_auth_has_file(c->server->auth), out->problem) == 0)
        ld_log(LD_LOG_INFO, "key %s of %s revoked", id, owner(c->name));
    out->status = 204;
    return true;
}
