/* Keys: the body that asks for one, and how they are shown. A role that the kind of key cannot have is a fault of the
 * body; one that the caller may not give is not looked at here (api_keys.c). */
#include <stdio.h>

#include "json/json_keys.h"
#include "json/json_out.h"
#include "json/json_util.h"

/* The two kinds of key have the same members, under different rules. */
_Static_assert((int)LD_TENANT_KEY_ROLES == (int)LD_SERVER_KEY_ROLES, "one reader for both");
_Static_assert((int)LD_TENANT_KEY_LABEL == (int)LD_SERVER_KEY_LABEL, "one reader for both");

struct key_reading {
    struct ld_key *out;
    const struct ld_rules *rules;
    int64_t now_ms;
};

/* A role told twice is a fault like any other that tells of a slip. */
static void read_roles(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule, unsigned *roles)
{
    *roles = 0;
    if (!ld_in_list(in, array, rule))
        return;
    for (size_t i = 0; i < ld_n_items(array); i++) {
        size_t here = ld_in_item(in, array, i);
        const char *name = ld_in_choice(in, ld_item_of(array, i), rule);
        unsigned role = name != NULL ? ld_role_from_name(name) : 0;
        if ((*roles & role) != 0)
            ld_in_fault(in, NULL, "the role is there already");
        *roles |= role;
        ld_in_leave(in, here);
    }
}

static void read_key(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct key_reading *r = arg;
    const struct ld_rule *rule = &r->rules->rule[i];
    if (i == LD_TENANT_KEY_ROLES) {
        read_roles(in, v, rule, &r->out->roles);
    } else if (i == LD_TENANT_KEY_LABEL) {
        const char *label = ld_in_text(in, v, rule);
        (void)snprintf(r->out->label, sizeof r->out->label, "%s", label != NULL ? label : "");
    } else {
        r->out->expires_at = r->now_ms + 1000 * (int64_t)ld_in_count(in, v, rule, 0);
    }
}

/* Without roles a key of the server's own is an admin's; a tenant's must have some. */
int ld_decode_key(struct ld_doc *doc, bool is_tenants, int64_t now_ms, struct ld_key *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_key){.roles = is_tenants ? 0 : LD_ROLE_ADMIN};
    struct key_reading r = {out, is_tenants ? &ld_tenant_key_rules : &ld_server_key_rules, now_ms};
    (void)ld_in_members(&in, &doc->root, r.rules, read_key, &r);
    return ld_in_done(&in);
}

/* null when it never happens, or has not. */
static void put_time(struct ld_text *t, const char *name, int64_t at_ms)
{
    ld_text_key(t, name);
    if (at_ms != 0)
        ld_text_time(t, at_ms);
    else
        ld_text_lit(t, "null");
}

static void put_key(struct ld_text *t, const struct ld_key *key, const char *text)
{
    ld_text_lit(t, "{");
    ld_text_put_string(t, "id", key->id);
    if (text != NULL)
        ld_text_put_string(t, "key", text);
    ld_text_put_string(t, "tenant", key->tenant[0] != '\0' ? key->tenant : NULL);
    ld_text_key(t, "roles");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if ((key->roles & 1u << i) != 0) {
            ld_text_item(t);
            ld_text_string(t, ld_role_name(i));
        }
    ld_text_lit(t, "]");
    ld_text_put_string(t, "label", key->label[0] != '\0' ? key->label : NULL);
    put_time(t, "created_at", key->created_at);
    put_time(t, "expires_at", key->expires_at);
    put_time(t, "last_used_at", key->last_used_at);
    ld_text_lit(t, "}");
}

char *ld_encode_key(const struct ld_key *key, const char *text, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    put_key(&t, key, text);
    return ld_text_take(&t, n);
}

char *ld_encode_keys(const struct ld_key *key, size_t n_keys, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_key(&t, "keys");
    ld_text_lit(&t, "[");
    for (size_t i = 0; i < n_keys; i++) {
        ld_text_item(&t);
        put_key(&t, &key[i], NULL);
    }
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, n);
}
