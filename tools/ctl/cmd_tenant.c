/* laplacectl tenant: list, put, patch, stop, start, get, delete, compact, challengers, promote, rollback, from-vw.
 *
 * A configuration is built from a JSON file, or from nothing, and then from --set path=value options in their order;
 * the server fills what is left out from the preset and answers with the whole. A PUT replaces the whole configuration;
 * patch changes single fields and keeps the others, whatever changes at the same time. --keep is older: it reads what
 * is in force and puts the whole back.
 *
 * delete removes a tenant with its log for good; the server asks no question, and neither do we. What a configuration
 * may hold is the server's to judge: it names each fault by pointer. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vw_flags.h"
#include "common/http_client.h"

/* set: in the order of the command line; a later one wins */
struct tenant_options {
    struct lc_list set;
    bool keeps, has_history;
    const char *version;
};

/* What a verb makes its body of. */
struct job {
    const struct lc_session *session;
    const struct tenant_options *o;
    const char *path, *word; /* word: the one behind the name; NULL: none */
};

/* --- configurations ----------------------------------------------------------------------------------- */

/* Applies "path=value"; 0 or 1 (printed). Values may hold "="; one is JSON where it parses as JSON (json.c), so quotes
 * are needed for a string like "1". */
static int apply_set(struct json_t *config, const char *item)
{
    char path[256], why[LC_WHY];
    const char *eq = strchr(item, '=');
    if (eq == NULL || eq == item || (size_t)(eq - item) >= sizeof path)
        return lc_fail("--set %s: expected path=value", item);
    snprintf(path, sizeof path, "%.*s", (int)(eq - item), item);
    return lc_json_set(config, path, eq + 1, why) == 0 ? 0 : lc_fail("--set %s: %s", item, why);
}

/* With every --set, as a body. Frees the configuration; NULL: its fault was printed. 0 or 1. */
static int write_config(const struct job *j, struct json_t *config, bool has_version, struct lc_text *body)
{
    char why[LC_WHY];
    int status = config == NULL ? 1 : 0;
    for (size_t i = 0; status == 0 && i < j->o->set.n; i++)
        status = apply_set(config, j->o->set.item[i]);
    if (status == 0 && has_version && lc_json_set(config, "version", j->o->version, why) != 0)
        status = lc_fail("--version %s: %s", j->o->version, why);
    if (status == 0)
        lc_json_write(config, false, body);
    lc_json_free(config);
    return status;
}

/* The configuration in force, copied out of the tenant's view. NULL after a printed error. A change by somebody else
 * between this GET and the PUT behind it is overwritten. */
static struct json_t *config_in_force(const struct job *j)
{
    char why[LC_WHY];
    struct lc_text text = {0};
    struct json_t *config = NULL;
    struct lc_client *c = lc_client_new(j->session, NULL);
    const struct lc_reply *r = lc_client_get(c, j->path);
    if (lc_reply_ok(r)) {
        struct json_t *view = lc_reply_json(r);
        lc_json_write(lc_json_get(view, "configuration"), false, &text);
        lc_json_free(view);
        config = text.n > 0 ? lc_json_parse(text.data, text.n, why) : NULL;
        if (config == NULL)
            lc_fail("%s: the answer holds no configuration", j->path);
    } else {
        lc_reply_fail(r, j->path);
    }
    lc_text_close(&text);
    lc_client_free(c);
    return config;
}

static int make_put(const struct job *j, struct lc_text *body)
{
    struct json_t *config = j->word != NULL ? lc_json_from_file(j->word)
                            : j->o->keeps   ? config_in_force(j)
                                            : lc_json_object();
    return write_config(j, config, false, body);
}

/* A word that begins like a JSON object is the patch itself; any other names a file. */
static int make_patch(const struct job *j, struct lc_text *body)
{
    char why[LC_WHY];
    struct json_t *patch = NULL;
    if (j->word == NULL)
        patch = lc_json_object();
    else if (j->word[strspn(j->word, " \t\r\n")] != '{')
        patch = lc_json_from_file(j->word);
    else if ((patch = lc_json_parse(j->word, strlen(j->word), why)) == NULL)
        lc_fail("the patch is not JSON: %s", why);
    return write_config(j, patch, j->o->version != NULL, body);
}

/* What stays is said by number, as the server wants it; the server judges the number. */
static int make_compact(const struct job *j, struct lc_text *body)
{
    lc_text_printf(body, "{\"keep_events\":%s}", j->word);
    return 0;
}

/* promote, rollback: a challenger's name, or none, and the version that it was decided on. */
static int make_change(const struct job *j, struct lc_text *body)
{
    lc_text_puts(body, "{");
    lc_put_text(body, "challenger", j->word);
    if (j->o->version != NULL) {
        lc_put_key(body, "version");
        lc_text_puts(body, j->o->version);
    }
    lc_text_puts(body, "}");
    return 0;
}

/* --- verbs ---------------------------------------------------------------------------------------------- */

/* Words with the verb's own. delete, stop, start, promote and rollback want the tenant said, lest `default` goes by a
 * slip. */
static const struct verb {
    const char *name;
    size_t least, most;
    const char *method, *rest, *type;
    int (*make)(const struct job *j, struct lc_text *body); /* 0, or 1 after a printed error; NULL: no body */
} verbs[] = {
    {"put", 1, 3, "PUT", "", LC_JSON_TYPE, make_put},
    {"patch", 2, 3, "PATCH", "", LC_PATCH_TYPE, make_patch},
    {"get", 1, 2, "GET", "", NULL, NULL},
    {"delete", 2, 2, "DELETE", "", NULL, NULL},
    {"stop", 2, 2, "POST", "/stop", NULL, NULL},
    {"start", 2, 2, "POST", "/start", NULL, NULL},
    {"compact", 3, 3, "POST", "/compact", LC_JSON_TYPE, make_compact},
    {"challengers", 1, 2, "GET", "/challengers", NULL, NULL},
    {"promote", 3, 3, "POST", "/promote", LC_JSON_TYPE, make_change},
    {"rollback", 2, 2, "POST", "/rollback", LC_JSON_TYPE, make_change},
};

static int run_verb(const struct lc_session *s, const struct tenant_options *o, const struct verb *verb,
                    const struct lc_words *w)
{
    const char *rest = o->has_history && strcmp(verb->name, "challengers") == 0 ? "/challengers?history=1" : verb->rest;
    struct lc_text path = lc_tenant_path(w->n > 1 ? w->word[1] : lc_tenant_name(s), rest), body = {0};
    const struct job j = {s, o, path.data, w->n > 2 ? w->word[2] : NULL};
    int status = verb->make != NULL ? verb->make(&j, &body) : 0;
    if (status == 0)
        status = lc_request(s, verb->method, path.data, verb->type, verb->make != NULL ? &body : NULL);
    lc_text_close(&path);
    lc_text_close(&body);
    return status;
}

/* Numbers are counts. Of a tenant that is not in memory there is its state to show, and the reason of one that cannot
 * be opened. */
static void print_row(const struct json_t *t)
{
    const char *name = lc_json_text(t, "name");
    const char *algorithm = lc_json_text(t, "algorithm");
    const char *state = lc_json_text(t, "state");
    const char *detail = lc_json_text(t, "detail");
    if (algorithm == NULL && state != NULL)
        lc_say("%-24s (%s)%s%s", name != NULL ? name : "?", state, detail != NULL ? " " : "",
               detail != NULL ? detail : "");
    else
        lc_say("%-24s %-18s %12.0f %12.0f %12.0f", name != NULL ? name : "?", algorithm != NULL ? algorithm : "?",
               lc_json_real(t, "version"), lc_json_real(t, "events"), lc_json_real(t, "decisions"));
}

/* No server is asked: the configuration goes to the output, for `put NAME -`, what is said of it to the other one. */
static int from_vw(const char *flags)
{
    struct ld_message why;
    struct ld_text out;
    struct ld_vw vw;
    size_t n;
    if (ld_vw_read(flags, &vw, &why) != 0)
        return lc_fail("%s", why.text);
    ld_text_init(&out);
    ld_vw_put_configuration(&out, &vw);
    char *text = ld_text_take(&out, &n);
    if (text != NULL)
        lc_say("%s", text);
    for (size_t i = 0; text != NULL && i < vw.n; i++)
        fprintf(stderr, "%s: %s\n", vw.remark[i].flag, vw.remark[i].text);
    free(text);
    return text != NULL ? 0 : lc_fail("out of memory");
}

/* Options are taken with every verb and used by those that they name. */
static int run_tenant(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct tenant_options o = {0};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"set", LC_OPT_LIST, &o.set, "PATH=VALUE", "put, patch: set one field (may be repeated)"},
        {"keep", LC_OPT_FLAG, &o.keeps, NULL, "put: start from the configuration in force"},
        {"version", LC_OPT_TEXT, &o.version, "N", "patch, promote, rollback: only while the configuration is this one"},
        {"history", LC_OPT_FLAG, &o.has_history, NULL, "challengers: how their scores went, too"},
    };
    int rc = lc_args_parse(self, s, opts, 4, argc, argv, &w, 1, 3);
    if (rc != LC_GO)
        return rc;
    if (strcmp(w.word[0], "from-vw") == 0 && w.n == 2)
        return from_vw(w.word[1]);
    if (strcmp(w.word[0], "list") == 0 && w.n == 1) {
        char header[96];
        snprintf(header, sizeof header, "%-24s %-18s %12s %12s %12s", "tenant", "algorithm", "version", "events",
                 "decisions");
        return lc_list(s, "/tenants", "list of tenants", "tenants", header, print_row);
    }
    for (const struct verb *v = verbs; v < verbs + sizeof verbs / sizeof verbs[0]; v++)
        if (strcmp(w.word[0], v->name) == 0 && w.n >= v->least && w.n <= v->most &&
            !(v->make == make_patch && w.n == 2 && o.set.n == 0))
            return run_verb(s, &o, v, &w);
    return lc_usage(self);
}

/* The preset's defaults come from the server: `get` shows what was made of a configuration. */
const struct lc_command lc_cmd_tenant = {
    .name = "tenant",
    .synopsis = "tenant list | put NAME [FILE] [--keep] [--set PATH=VALUE]... |"
                " patch NAME [JSON|FILE] [--set PATH=VALUE]... [--version N] | stop NAME | start NAME |"
                " get [NAME] | delete NAME |"
                " compact NAME KEEP | challengers [NAME] [--history] | promote NAME CHALLENGER [--version N] |"
                " rollback NAME [--version N] | from-vw FLAGS",
    .about =
        "configurations: list, put, patch, get, delete, stop, start; compact; challengers, promote, rollback; from-vw",
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
        "from-vw prints the configuration that does what Vowpal Wabbit does with FLAGS; it asks no server.\n\n"
        "  laplacectl tenant from-vw \"--cb_explore_adf --epsilon 0.1 -q UA\" | laplacectl tenant put shop -\n"
        "  laplacectl tenant stop shop\n"
        "  laplacectl tenant patch shop '{\"reward_window_s\": 600}' --version 7\n"
        "  laplacectl tenant promote shop linear --version 7\n"
        "  laplacectl tenant compact shop 100000\n"
        "  laplacectl tenant put shop --set algorithm=lk-gp-ucb --set arm_dim=3\n"
        "  laplacectl tenant put shop --keep --set user_kernel.rho=0.5 --set confidence.beta=1\n"
        "  laplacectl tenant put shop shop.json\n",
    .run = run_tenant,
};
