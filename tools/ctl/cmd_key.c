/* laplacectl key: create, list, revoke.
 *
 * With a tenant (--tenant, LAPLACED_TENANT) the keys are that tenant's; without one they are the server's own: admins,
 * for metrics, or for the decisions of several tenants. create prints the key alone on standard output, so that a
 * script can keep it, and the rest on standard error; the server shows it this once.
 *
 * The first key is an admin's. From then on the server asks everybody for one, this program included: --key, or better
 * LAPLACED_KEY, since command lines are seen by others. */
#include "ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/http_client.h"

#define ROW "%-16s %-20s %-24s %-24s %-24s %s"

struct key_options {
    const char *roles, *tenants, *label;
    size_t expires_in_s;
};

/* "decide,read" as an array of strings; NULL: no member. Which names there are is for the server to say. */
static void put_names(const char *member, const char *names, struct lc_text *body)
{
    struct lc_text name = {0};
    if (names == NULL)
        return;
    lc_put_key(body, member);
    lc_text_puts(body, "[");
    for (bool is_last = false; !is_last;) {
        const size_t n = strcspn(names, ",");
        is_last = names[n] == '\0';
        lc_text_clear(&name);
        lc_text_put(&name, names, n);
        lc_text_json(body, name.data);
        lc_text_puts(body, is_last ? "]" : ",");
        names += n + 1;
    }
    lc_text_close(&name);
}

/* The key for a script, a sentence for its reader. 0, or 1 when the answer has no key. */
static int print_made(const struct lc_session *s, const struct lc_reply *r)
{
    struct json_t *doc = lc_reply_json(r);
    const char *key = lc_json_text(doc, "key"), *id = lc_json_text(doc, "id");
    int status = 0;
    if (key != NULL && id != NULL) {
        lc_say("%s", key);
        lc_note("key %s of %s%s; it is not shown again", id, s->tenant != NULL ? "tenant " : "the server",
                s->tenant != NULL ? s->tenant : "");
    } else {
        status = lc_fail("the answer holds no key");
    }
    lc_json_free(doc);
    return status;
}

static int create_key(const struct lc_session *s, const struct key_options *o, const char *path)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text body = {0};
    lc_text_puts(&body, "{");
    put_names("roles", o->roles, &body);
    put_names("tenants", o->tenants, &body);
    lc_put_text(&body, "label", o->label);
    if (o->expires_in_s > 0)
        lc_put_count(&body, "expires_in_s", o->expires_in_s);
    lc_text_puts(&body, "}");
    const struct lc_reply *r = lc_client_json(c, "POST", path, &body);
    const int status = s->is_json || !lc_reply_ok(r) ? lc_reply_print(s, r, path) : print_made(s, r);
    lc_text_close(&body);
    lc_client_free(c);
    return status;
}

static const char *shown(const struct json_t *key, const char *member)
{
    const char *text = lc_json_text(key, member);
    return text != NULL ? text : "-";
}

/* `before`, then the array's strings with commas; nothing without the member. */
static void add_names(const struct json_t *array, const char *before, struct lc_text *out)
{
    for (size_t i = 0; i < lc_json_length(array); i++)
        lc_text_printf(out, "%s%s", i > 0 ? "," : before, lc_json_string(lc_json_at(array, i)));
}

static void print_row(const struct json_t *key)
{
    struct lc_text names = {0};
    add_names(lc_json_get(key, "roles"), "", &names);
    add_names(lc_json_get(key, "tenants"), ": ", &names);
    lc_say(ROW, shown(key, "id"), names.n > 0 ? names.data : "-", shown(key, "created_at"), shown(key, "expires_at"),
           shown(key, "last_used_at"), shown(key, "label"));
    lc_text_close(&names);
}

static int run_words(const struct lc_command *self, const struct lc_session *s, const struct key_options *o,
                     const struct lc_words *w)
{
    struct lc_text path = {0};
    int status = 2;
    if (s->tenant != NULL)
        path = lc_tenant_path(s->tenant, "");
    lc_text_puts(&path, "/keys");
    if (strcmp(w->word[0], "create") == 0 && w->n == 1) {
        status = create_key(s, o, path.data);
    } else if (strcmp(w->word[0], "list") == 0 && w->n == 1) {
        char header[160];
        snprintf(header, sizeof header, ROW, "id", "roles", "created", "expires", "last used", "label");
        status = lc_list(s, path.data, path.data, "keys", header, print_row);
    } else if (strcmp(w->word[0], "revoke") == 0 && w->n == 2) {
        lc_text_puts(&path, "/");
        lc_path_segment(&path, w->word[1]);
        status = lc_request(s, "DELETE", path.data, NULL, NULL);
    } else {
        status = lc_usage(self);
    }
    lc_text_close(&path);
    return status;
}

static int run_key(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct key_options o = {0};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"role", LC_OPT_TEXT, &o.roles, "ROLE,...",
         "create: decide, read, manage; without a tenant admin, metrics, or decide with --tenants"},
        {"tenants", LC_OPT_TEXT, &o.tenants, "NAME,...",
         "create: the tenants that it decides for; * at the end of a name is any end"},
        {"label", LC_OPT_TEXT, &o.label, "TEXT", "create: a note of whose key it is"},
        {"expires-in", LC_OPT_COUNT, &o.expires_in_s, "SECONDS", "create: the key ends after so many seconds"},
    };
    const int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof *opts, argc, argv, &w, 1, 2);
    return rc != LC_GO ? rc : run_words(self, s, &o, &w);
}

const struct lc_command lc_cmd_key = {
    .name = "key",
    .synopsis =
        "key create [--role ROLE,...] [--tenants NAME,...] [--label TEXT] [--expires-in SECONDS] | list | revoke ID",
    .about = "make, list and revoke keys, of a tenant or of the server",
    .text =
        "With --tenant the keys are those of that tenant, else those of the server. create prints the key on standard\n"
        "output. To rotate a key, create another, put it in place, and revoke the first.\n\n"
        "  export LAPLACED_KEY=$(laplacectl key create --label ann)          # the first: an admin's\n"
        "  laplacectl key create --tenant shop --role decide --label web\n"
        "  laplacectl key create --role metrics --label prometheus\n"
        "  laplacectl key create --role decide --tenants 'home-*,checkout' --label pages\n"
        "  laplacectl key list --tenant shop\n",
    .run = run_key,
};
