/* laplacectl tenant: list, put, patch, stop, start, get, delete, compact, challengers, promote, rollback.
 *
 * A configuration is built from a JSON file, or from nothing, and then from --set path=value options in their
 * order; the server fills what is left out from the preset and answers with the whole. A PUT replaces the whole
 * configuration; patch changes single fields and keeps the others, whatever changes at the same time. --keep is older:
 * it reads what is in force and puts the whole back.
 *
 * delete removes a tenant with its log for good; the server asks no question, and neither do we. This file
 * also holds the two helpers that the other commands share (commands.h).
 *
 * Unknown members, wrong types and combinations that are not supported are the server's to refuse: it names
 * each by pointer, and this client would only be a second, older copy of its rules. */
#include "ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/http_client.h"
#include "common/json.h"

/* A path needs a name, and no answer tells what a server's --default-tenant is called. */
const char *lc_tenant_name(const struct lc_session *s)
{
    return s->tenant != NULL ? s->tenant : "default";
}

/* The path serves as the name of what failed. rest: what follows the tenant's name, with its slash and any
 * query. Used by graph, arms, model and stats. The status is 1 when the server refuses. */
int lc_get_and_print(const struct lc_session *s, const char *rest)
{
    struct lc_client *c = lc_client_new(s, s->tenant);
    struct lc_text path = {0};
    lc_text_puts(&path, "/tenants/");
    lc_path_segment(&path, lc_tenant_name(s));
    lc_text_puts(&path, rest);
    int status = lc_reply_print(s, lc_client_get(c, path.data), path.data);
    lc_text_close(&path);
    lc_client_free(c);
    return status;
}

/* --- list ------------------------------------------------------------------------------------------- */

/* Numbers are counts, printed without decimals. A member that is missing shows as "?" or 0: an older server
 * should still make a table. Of a tenant that is not in memory there is its state to show, and the reason of one that
 * cannot be opened. */
static void print_row(const struct lc_json *t)
{
    static const char *const columns[] = {"version", "events", "decisions"};
    const char *name = lc_json_string(lc_json_get(t, "name"));
    const char *algorithm = lc_json_string(lc_json_get(t, "algorithm"));
    const char *state = lc_json_string(lc_json_get(t, "state"));
    const char *detail = lc_json_string(lc_json_get(t, "detail"));
    double count[3] = {0};
    for (size_t i = 0; i < 3; i++)
        lc_json_number(lc_json_get(t, columns[i]), &count[i]);
    if (algorithm == NULL && state != NULL)
        lc_say("%-24s (%s)%s%s", name != NULL ? name : "?", state, detail != NULL ? " " : "",
               detail != NULL ? detail : "");
    else
        lc_say("%-24s %-18s %12.0f %12.0f %12.0f", name != NULL ? name : "?", algorithm != NULL ? algorithm : "?",
               count[0], count[1], count[2]);
}

/* A table for people; the server's answer with --json. The session's tenant plays no part. 0 or 1.
 * Columns are padded for names of usual length; longer ones push the row to the right. */
static int list_tenants(const struct lc_session *s)
{
    char why[LC_WHY];
    int status = 0;
    struct lc_client *c = lc_client_new(s, NULL);
    const struct lc_reply *r = lc_client_get(c, "/tenants");
    if (s->is_json || !lc_reply_ok(r)) {
        status = lc_reply_print(s, r, "list of tenants");
    } else {
        struct lc_json *doc = lc_json_parse(r->body.data, r->body.n, why);
        const struct lc_json *rows = lc_json_get(doc, "tenants");
        printf("%-24s %-18s %12s %12s %12s\n", "tenant", "algorithm", "version", "events", "decisions");
        for (size_t i = 0; i < lc_json_length(rows); i++)
            print_row(lc_json_at(rows, i));
        lc_json_free(doc);
    }
    lc_client_free(c);
    return status;
}

/* --- put -------------------------------------------------------------------------------------------- */

/* Applies "path=value"; 0 or 1 (printed). The path ends at the first "=", so values may hold more of them.
 * Paths are dotted: "user_kernel.rho". The value is JSON where it parses as JSON (json.c), so quotes are
 * needed for a string like "1". */
static int apply_set(struct lc_json *config, const char *item)
{
    char path[256], why[LC_WHY];
    const char *eq = strchr(item, '=');
    if (eq == NULL || eq == item || (size_t)(eq - item) >= sizeof path) {
        return lc_fail("--set %s: expected path=value", item);
    }
    snprintf(path, sizeof path, "%.*s", (int)(eq - item), item);
    if (lc_json_set(config, path, eq + 1, why) == 0)
        return 0;
    return lc_fail("--set %s: %s", item, why);
}

/* The parsed file, or NULL after a printed error. Any JSON value passes here; lc_json_set or the server
 * refuses what is no object. To be freed by the caller. The message has the line and column of a syntax
 * error. */
static struct lc_json *config_from_file(const char *file)
{
    struct lc_text text = {0};
    char why[LC_WHY];
    struct lc_json *doc = NULL;
    if (lc_read_file(file, &text, why) != 0)
        lc_fail("%s", why);
    else if ((doc = lc_json_parse(text.data, text.n, why)) == NULL)
        lc_fail("%s: %s", file, why);
    lc_text_close(&text);
    return doc;
}

/* The configuration in force, copied out of the tenant's view. NULL after a printed error. Written out and
 * parsed again, because readers borrow from their root. This GET and the PUT behind it are two requests:
 * a change by somebody else in between is overwritten. */
static struct lc_json *config_in_force(struct lc_client *c, const char *path)
{
    char why[LC_WHY];
    struct lc_text text = {0};
    const struct lc_reply *r = lc_client_get(c, path);
    if (!lc_reply_ok(r)) {
        lc_reply_fail(r, path);
        return NULL;
    }
    struct lc_json *view = lc_json_parse(r->body.data, r->body.n, why);
    lc_json_write(lc_json_get(view, "configuration"), false, &text);
    lc_json_free(view);
    struct lc_json *config = text.n > 0 ? lc_json_parse(text.data, text.n, why) : NULL;
    if (config == NULL)
        lc_fail("%s: the answer holds no configuration", path);
    lc_text_close(&text);
    return config;
}

/* set: in the order of the command line; a later one wins */
struct put_options {
    struct lc_list set;
    bool keeps;
    const char *version;
};

/* Sources in this order: the file, with --keep what is in force, else nothing but --set. 0 or 1. With a file
 * --keep plays no part. The answer is the whole configuration, defaults included. `path` also names the
 * request in errors. Nothing is sent when the file or one of the --set is faulty. The server answers 4xx
 * for a configuration it does not like, and the old one stays in force. */
static int put_tenant(const struct lc_session *s, const struct put_options *o, const char *path, const char *file)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text body = {0};
    int status = 0;
    struct lc_json *config = file != NULL ? config_from_file(file)
                             : o->keeps   ? config_in_force(c, path)
                                          : lc_json_object();
    /* the reason was printed */
    if (config == NULL)
        status = 1;
    for (size_t i = 0; status == 0 && i < o->set.n; i++)
        status = apply_set(config, o->set.item[i]);
    if (status == 0) {
        lc_json_write(config, false, &body);
        status = lc_reply_print(s, lc_client_json(c, "PUT", path, &body), path);
    }
    lc_text_close(&body);
    lc_json_free(config);
    lc_client_free(c);
    return status;
}

/* --- patch ------------------------------------------------------------------------------------------ */

/* A word that begins like a JSON object is the patch itself; any other names a file. NULL after a printed error. */
static struct lc_json *patch_from_word(const char *word)
{
    char why[LC_WHY];
    if (word[strspn(word, " \t\r\n")] != '{')
        return config_from_file(word);
    struct lc_json *doc = lc_json_parse(word, strlen(word), why);
    if (doc == NULL)
        lc_fail("the patch is not JSON: %s", why);
    return doc;
}

/* The word's patch, or none, then --set in their order, then the version; the server judges all of them. 0 or 1. */
static int patch_tenant(const struct lc_session *s, const struct put_options *o, const char *path, const char *word)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text body = {0};
    char why[LC_WHY];
    struct lc_json *patch = word != NULL ? patch_from_word(word) : lc_json_object();
    int status = patch == NULL;
    for (size_t i = 0; status == 0 && i < o->set.n; i++)
        status = apply_set(patch, o->set.item[i]);
    if (status == 0 && o->version != NULL && lc_json_set(patch, "version", o->version, why) != 0) {
        lc_fail("--version %s: %s", o->version, why);
        status = 1;
    }
    if (status == 0) {
        lc_json_write(patch, false, &body);
        status = lc_reply_print(s, lc_client_send(c, "PATCH", path, LC_PATCH_TYPE, body.data, body.n), path);
    }
    lc_text_close(&body);
    lc_json_free(patch);
    lc_client_free(c);
    return status;
}

/* --- get, delete ------------------------------------------------------------------------------------ */

/* A request without a body, its answer printed. For GET and DELETE. path: as the server knows it,
 * encoded. DELETE answers without a body, then nothing is printed and the status tells. */
static int plain(const struct lc_session *s, const char *method, const char *path)
{
    struct lc_client *c = lc_client_new(s, NULL);
    int status = lc_reply_print(s, lc_client_send(c, method, path, NULL, NULL, 0), path);
    lc_client_free(c);
    return status;
}

/* What stays is said by number, as the server wants it; the server judges the number. */
static int compact(const struct lc_session *s, const char *path, const char *keep)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text whole = {0}, body = {0};
    lc_text_puts(&whole, path);
    lc_text_puts(&whole, "/compact");
    lc_text_puts(&body, "{\"keep_events\":");
    lc_text_puts(&body, keep);
    lc_text_puts(&body, "}");
    int status = lc_reply_print(s, lc_client_json(c, "POST", whole.data, &body), whole.data);
    lc_text_close(&whole);
    lc_text_close(&body);
    lc_client_free(c);
    return status;
}

/* A body that names a challenger (NULL: none), and the version that it was decided on, which the server judges. */
static int change_places(const struct lc_session *s, const char *path, const char *verb, const char *challenger,
                         const char *version)
{
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text whole = {0}, body = {0};
    lc_text_printf(&whole, "%s/%s", path, verb);
    lc_text_puts(&body, "{");
    if (challenger != NULL) {
        lc_text_puts(&body, "\"challenger\":");
        lc_text_json(&body, challenger);
    }
    if (version != NULL)
        lc_text_printf(&body, "%s\"version\":%s", challenger != NULL ? "," : "", version);
    lc_text_puts(&body, "}");
    int status = lc_reply_print(s, lc_client_json(c, "POST", whole.data, &body), whole.data);
    lc_text_close(&whole);
    lc_text_close(&body);
    lc_client_free(c);
    return status;
}

/* stop, start. */
static int turn(const struct lc_session *s, struct lc_text *path, const char *verb)
{
    lc_text_printf(path, "/%s", verb);
    return plain(s, "POST", path->data);
}

static int show_challengers(const struct lc_session *s, struct lc_text *path)
{
    lc_text_puts(path, "/challengers");
    return plain(s, "GET", path->data);
}

/* All usage errors of this command end here: status 2. */
static int unknown_verb(const struct lc_command *self)
{
    fprintf(stderr, "usage: laplacectl %s\n", self->synopsis);
    return 2;
}

/* The verbs that need a tenant's name; delete, stop and start want it said, lest `default` goes by a slip. put without
 * a name works on the session's tenant, or on `default`; FILE needs the name before it. The path is made here, once,
 * for all three verbs. w holds at least the verb. One word too many is a usage error for get and delete. */
static int run_named(const struct lc_command *self, const struct lc_session *s, const struct put_options *o,
                     const struct lc_words *w)
{
    struct lc_text path = {0};
    int status = 2;
    const char *verb = w->word[0];
    lc_text_puts(&path, "/tenants/");
    lc_path_segment(&path, w->n > 1 ? w->word[1] : lc_tenant_name(s));
    if (strcmp(verb, "put") == 0)
        status = put_tenant(s, o, path.data, w->n > 2 ? w->word[2] : NULL);
    else if (strcmp(verb, "get") == 0 && w->n <= 2)
        status = plain(s, "GET", path.data);
    else if (strcmp(verb, "delete") == 0 && w->n == 2)
        status = plain(s, "DELETE", path.data);
    else if ((strcmp(verb, "stop") == 0 || strcmp(verb, "start") == 0) && w->n == 2)
        status = turn(s, &path, verb);
    else if (strcmp(verb, "patch") == 0 && w->n >= 2 && (w->n == 3 || o->set.n > 0))
        status = patch_tenant(s, o, path.data, w->n > 2 ? w->word[2] : NULL);
    else if (strcmp(verb, "compact") == 0 && w->n == 3)
        status = compact(s, path.data, w->word[2]);
    else if (strcmp(verb, "challengers") == 0 && w->n <= 2)
        status = show_challengers(s, &path);
    else if (strcmp(verb, "promote") == 0 && w->n == 3)
        status = change_places(s, path.data, verb, w->word[2], o->version);
    else if (strcmp(verb, "rollback") == 0 && w->n == 2)
        status = change_places(s, path.data, verb, NULL, o->version);
    else
        unknown_verb(self);
    lc_text_close(&path);
    return status;
}

/* Options are taken with every verb and used by those that they name. */
static int run_tenant(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct put_options o = {0};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"set", LC_OPT_LIST, &o.set, "PATH=VALUE", "put, patch: set one field (may be repeated)"},
        {"keep", LC_OPT_FLAG, &o.keeps, NULL, "put: start from the configuration in force"},
        {"version", LC_OPT_TEXT, &o.version, "N", "patch, promote, rollback: only while the configuration is this one"},
    };
    int rc = lc_args_parse(self, s, opts, 3, argc, argv, &w, 1, 3);
    if (rc != LC_GO)
        return rc;
    if (strcmp(w.word[0], "list") == 0)
        return w.n == 1 ? list_tenants(s) : unknown_verb(self);
    return run_named(self, s, &o, &w);
}

/* The preset's defaults come from the server: `get` shows what was made of a configuration. */
const struct lc_command lc_cmd_tenant = {
    .name = "tenant",
    .synopsis = "tenant list | put NAME [FILE] [--keep] [--set PATH=VALUE]... |"
                " patch NAME [JSON|FILE] [--set PATH=VALUE]... [--version N] | stop NAME | start NAME |"
                " get [NAME] | delete NAME |"
                " compact NAME KEEP | challengers [NAME] | promote NAME CHALLENGER [--version N] |"
                " rollback NAME [--version N]",
    .about = "configurations: list, put, patch, get, delete, stop, start; compact; challengers, promote, rollback",
    .text =
        "FILE holds the JSON configuration (\"-\": standard input). --set reads its value as JSON where it is\n"
        "JSON, else as a string. What put leaves out comes from the preset.\n\n"
        "patch changes the fields that it names and keeps all others. It takes JSON, or a file (\"-\": standard\n"
        "input); null gives a field its default. With --version N it is refused when the configuration is\n"
        "another one by now.\n\n"
        "stop shows everybody the baseline and does not ask the model; start ends that. Both change nothing else.\n\n"
        "compact replaces all events but the last KEEP by a summary; the model stays.\n\n"
        "challengers shows what other configurations would have earned; promote puts one in force, rollback takes\n"
        "that back.\n\n"
        "  laplacectl tenant stop shop\n"
        "  laplacectl tenant patch shop '{\"reward_window_s\": 600}' --version 7\n"
        "  laplacectl tenant promote shop linear --version 7\n"
        "  laplacectl tenant compact shop 100000\n"
        "  laplacectl tenant put shop --set algorithm=lk-gp-ucb --set arm_dim=3\n"
        "  laplacectl tenant put shop --keep --set user_kernel.rho=0.5 --set confidence.beta=1\n"
        "  laplacectl tenant put shop shop.json\n",
    .run = run_tenant,
};
