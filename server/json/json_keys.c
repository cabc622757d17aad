/* Keys: the body that asks for one, and how they are shown. A role that the kind of key cannot have is a fault of the
 * body; one that the caller may not give is not looked at here (api_keys.c). */
#include <stdio.h>
#include <string.h>

#include "json/json_keys.h"
#include "json/json_util.h"
#include "base/names.h"

/* The kinds of key have the same members, under different rules. */
#define IS_SAME(member)                                                                                                \
    _Static_assert((int)LD_TENANT_KEY_##member == (int)LD_SERVER_KEY_##member &&                                       \
                       (int)LD_TENANT_KEY_##member == (int)LD_SPANNING_KEY_##member,                                   \
                   "one reader for all")
IS_SAME(ROLES);
IS_SAME(LABEL);
IS_SAME(EXPIRES_IN_S);

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

/* The name of a tenant, or what such a name may begin with and a star; the star alone is all of them. */
static bool is_pattern(const char *text)
{
    char name[LD_PATTERN_BYTES + 1];
    size_t n = strlen(text);
    if (n == 0 || n > LD_PATTERN_BYTES)
        return false;
    n -= text[n - 1] == '*';
    memcpy(name, text, n);
    name[n] = '\0';
    return n == 0 || ld_tenant_name_is_valid(name);
}

static bool is_listed(const char *const *seen, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(seen[i], text) == 0)
            return true;
    return false;
}

/* There is room for all that the rule lets in. */
static void read_patterns(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule, char *out)
{
    const char *seen[LD_MAX_PATTERNS];
    size_t n = 0;
    if (!ld_in_list(in, array, rule))
        return;
    for (size_t i = 0; i < ld_n_items(array) && n < LD_MAX_PATTERNS; i++) {
        const size_t here = ld_in_item(in, array, i);
        const struct ld_value *v = ld_item_of(array, i);
        const char *text = ld_is(v, LD_V_STRING) ? ld_string_of(v) : "";
        if (strlen(text) != ld_string_bytes(v) || !is_pattern(text)) {
            ld_in_fault(in, NULL, "expected the name of a tenant, or its beginning and a *");
        } else if (is_listed(seen, n, text)) {
            ld_in_fault(in, NULL, "the tenant is there already");
        } else {
            (void)sprintf(out + strlen(out), "%s%s", n > 0 ? "," : "", text);
            seen[n++] = text;
        }
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
    } else if (i == LD_SPANNING_KEY_TENANTS) {
        read_patterns(in, v, rule, r->out->patterns);
    } else {
        r->out->expires_at = r->now_ms + 1000 * (int64_t)ld_in_count(in, v, rule, 0);
    }
}

/* Of the two kinds of the server's own, that of several tenants is known by them, or by its role. */
static bool is_spanning(const struct ld_value *root)
{
    const struct ld_value *roles = ld_member_of(root, "roles");
    for (size_t i = 0; i < ld_n_items(roles); i++)
        if (ld_is(ld_item_of(roles, i), LD_V_STRING) && strcmp(ld_string_of(ld_item_of(roles, i)), "decide") == 0)
            return true;
    return ld_member_of(root, "tenants") != NULL;
}

/* Without roles a key of the server's own is an admin's; a tenant's must have some. */
int ld_decode_key(struct ld_doc *doc, bool is_tenants, int64_t now_ms, struct ld_key *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_key){.roles = is_tenants ? 0 : LD_ROLE_ADMIN};
    const struct ld_rules *rules = is_tenants                ? &ld_tenant_key_rules
                                   : is_spanning(&doc->root) ? &ld_spanning_key_rules
                                                             : &ld_server_key_rules;
    struct key_reading r = {out, rules, now_ms};
    (void)ld_in_members(&in, &doc->root, rules, read_key, &r);
    return ld_in_done(&in);
}

/* Left out where there are none. */
static void put_patterns(struct ld_text *t, const char *patterns)
{
    if (patterns[0] == '\0')
        return;
    ld_text_key(t, "tenants");
    ld_text_lit(t, "[");
    for (size_t n; *patterns != '\0'; patterns += n + (patterns[n] == ',')) {
        char one[LD_PATTERN_BYTES + 1];
        n = strcspn(patterns, ",");
        (void)snprintf(one, sizeof one, "%.*s", (int)n, patterns);
        ld_text_item(t);
        ld_text_string(t, one);
    }
    ld_text_lit(t, "]");
}

static void put_key(struct ld_text *t, const struct ld_key *key, const char *text)
{
    ld_text_lit(t, "{");
    ld_text_put_string(t, "id", key->id);
    if (text != NULL)
        ld_text_put_string(t, "key", text);
    ld_text_put_string(t, "tenant", key->tenant[0] != '\0' ? key->tenant : NULL);
    put_patterns(t, key->patterns);
    ld_text_key(t, "roles");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if ((key->roles & 1u << i) != 0) {
            ld_text_item(t);
            ld_text_string(t, ld_role_name(i));
        }
    ld_text_lit(t, "]");
    ld_text_put_string(t, "label", key->label[0] != '\0' ? key->label : NULL);
    ld_text_put_time_or_null(t, "created_at", key->created_at != 0, key->created_at);
    ld_text_put_time_or_null(t, "expires_at", key->expires_at != 0, key->expires_at);
    ld_text_put_time_or_null(t, "last_used_at", key->last_used_at != 0, key->last_used_at);
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
