/* Keys: the body that asks for one, and how they are shown. A role that the kind of key cannot have is a fault of the
 * body; one that the caller may not give is not looked at here (api_keys.c). */
#include <jansson.h>
#include <string.h>

#include "json_keys.h"
#include "json_out.h"
#include "json_util.h"

#define MAX_LIFE_S ((uint64_t)100 * 365 * 86400) /* a hundred years */

/* One role into the set; twice the same is a fault like any other that tells of a slip. */
static void read_role(struct ld_in *in, const json_t *v, unsigned allowed, unsigned *roles)
{
    const char *name = json_string_value(v);
    unsigned role = name != NULL ? ld_role_from_name(name) : 0;
    if ((role & allowed) == 0)
        ld_in_fault(in, NULL, "expected one of %s",
                    allowed == LD_TENANT_ROLES ? "decide, read, manage" : "admin, metrics");
    else if ((*roles & role) != 0)
        ld_in_fault(in, NULL, "the role is there already");
    else
        *roles |= role;
}

/* Without a list: what `preset` says, or a fault when it says nothing. */
static unsigned read_roles(struct ld_in *in, const json_t *o, unsigned allowed, unsigned preset)
{
    json_t *array = ld_in_array(in, o, "roles", 1, LD_N_ROLES, preset == 0);
    unsigned roles = 0;
    if (array == NULL)
        return preset;
    size_t mark = ld_in_key(in, "roles");
    for (size_t i = 0; i < json_array_size(array); i++) {
        size_t here = ld_in_item(in, array, i);
        read_role(in, json_array_get(array, i), allowed, &roles);
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
    return roles;
}

int ld_decode_key(struct ld_doc *doc, bool is_tenants, int64_t now_ms, struct ld_key *out, struct ld_problem *p)
{
    static const char *const names[] = {"roles", "label", "expires_in_s", NULL};
    struct ld_in in;
    const json_t *o = doc->root;
    ld_in_init(&in, doc, p);
    *out = (struct ld_key){.roles = 0};
    if (!ld_in_object(&in, o, names))
        return -1;
    out->roles = read_roles(&in, o, is_tenants ? LD_TENANT_ROLES : LD_SERVER_ROLES, is_tenants ? 0 : LD_ROLE_ADMIN);
    const char *label = ld_in_id(&in, o, "label", LD_KEY_LABEL_BYTES - 1, false);
    if (label != NULL)
        strcpy(out->label, label);
    uint64_t seconds = ld_in_whole(&in, o, "expires_in_s", 1, MAX_LIFE_S, 0, false);
    if (seconds > 0)
        out->expires_at = now_ms + 1000 * (int64_t)seconds;
    return ld_in_done(&in);
}

/* null when it never happens, or has not. */
static void put_time(struct ld_text *t, const char *name, int64_t at_ms)
{
    char text[32];
    if (at_ms != 0)
        ld_format_time(at_ms, text);
    ld_text_put_string(t, name, at_ms != 0 ? text : NULL);
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
