/* laplacectl select, reward, observe, activate: one decision by hand, for a first look and for shell scripts.
 *
 * The commands differ in their bodies only: words and options become one JSON object, or a file goes in whole; one
 * request is sent, and the answer is printed. What is not asked for is left out: the server's defaults stay the
 * server's. Exit status 0 or 1 as the server decides; 2 for words that make no request. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/http_client.h"

#define MAX_CONTEXT 4096u /* numbers: the largest dimension that a tenant's context may have (core/spec/fields.c) */

/* --- parts of bodies -------------------------------------------------------------------------------- */

/* "0.1,0.7" as a JSON array, empty items dropped; NULL: nothing. 0 or 2 (printed). */
static int put_context(struct lc_text *out, const char *list)
{
    double v[MAX_CONTEXT];
    size_t n = 0;
    bool is_good = true;
    if (list == NULL)
        return 0;
    char *copy = lc_copy(list), *save = NULL;
    for (char *p = strtok_r(copy, ",", &save); p != NULL && is_good; p = strtok_r(NULL, ",", &save)) {
        is_good = n < MAX_CONTEXT && lc_is_number(p);
        if (is_good)
            v[n++] = strtod(p, NULL);
    }
    free(copy);
    if (!is_good)
        return lc_misuse("--context %s: expected numbers like 0.1,0.7", list);
    lc_put_key(out, "context");
    lc_text_vector(out, v, n);
    return 0;
}

/* An arm as typed: an id, or a JSON object with features, which is passed on unread. An id that begins with "{" cannot
 * be typed here; --body takes it. A slot likewise: put_slots. */
static void put_arm(struct lc_text *out, const char *word)
{
    if (word[0] == '{')
        lc_text_puts(out, word);
    else
        lc_text_json(out, word);
}

/* A member that is an array of arms as typed; left out when empty, since [] and absent differ for candidates. */
static void put_list(struct lc_text *out, const char *name, const char *const *items, size_t n)
{
    if (n == 0)
        return;
    lc_put_key(out, name);
    for (size_t i = 0; i < n; i++) {
        lc_text_puts(out, i > 0 ? "," : "[");
        put_arm(out, items[i]);
    }
    lc_text_puts(out, "]");
}

/* Slots as typed: an id, or the slot's whole object. */
static void put_slots(struct lc_text *out, const struct lc_list *slots)
{
    if (slots->n == 0)
        return;
    lc_put_key(out, "slots");
    for (size_t i = 0; i < slots->n; i++) {
        const bool is_whole = slots->item[i][0] == '{';

        lc_text_puts(out, i > 0 ? "," : "[");
        lc_text_puts(out, is_whole ? "" : "{\"id\":");
        put_arm(out, slots->item[i]);
        lc_text_puts(out, is_whole ? "" : "}");
    }
    lc_text_puts(out, "]");
}

/* NAME=VALUE items as an object of strings. 0, or 2 after a printed error. */
static int put_attributes(struct lc_text *out, const struct lc_list *list)
{
    struct lc_text name = {0};
    int rc = 0;
    for (size_t i = 0; i < list->n && rc == 0; i++) {
        const char *equals = strchr(list->item[i], '=');
        if (equals == NULL) {
            rc = lc_misuse("--attribute %s: expected NAME=VALUE", list->item[i]);
            break;
        }
        lc_text_clear(&name);
        lc_text_put(&name, list->item[i], (size_t)(equals - list->item[i]));
        lc_text_puts(out, i == 0 ? ",\"attributes\":{" : ",");
        lc_text_json(out, name.data);
        lc_text_puts(out, ":");
        lc_text_json(out, equals + 1);
    }
    lc_text_puts(out, list->n > 0 ? "}" : "");
    lc_text_close(&name);
    return rc;
}

/* POST and print, the tenant by header. The path without its slash names it in errors. 0 or 1. */
static int send_body(const struct lc_session *s, const char *path, const char *type, const struct lc_text *body)
{
    struct lc_client *c = lc_client_new(s, s->tenant);
    int status = lc_reply_print(s, lc_client_send(c, "POST", path, type, body->data, body->n), path + 1);
    lc_client_free(c);
    return status;
}

/* The same with a body that somebody else wrote; neither words nor options are mixed into it. */
static int send_file(const struct lc_session *s, const char *path, const char *type, const char *file)
{
    char why[LC_WHY];
    struct lc_text body = {0};
    const int status = lc_read_file(file, &body, why) != 0 ? lc_fail("%s", why) : send_body(s, path, type, &body);
    lc_text_close(&body);
    return status;
}

/* An object that was begun, when it came out well (rc 0); the exit status. Closes the body. */
static int finish(const struct lc_session *s, const char *path, struct lc_text *body, int rc)
{
    lc_text_puts(body, "}");
    if (rc == 0)
        rc = send_body(s, path, LC_JSON_TYPE, body);
    lc_text_close(body);
    return rc;
}

/* --- select ----------------------------------------------------------------------------------------- */

/* Words: the user, then the candidates; without them the server takes the whole catalogue. */
static int run_select(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *context = NULL, *decision = NULL, *file = NULL;
    struct lc_list exclude = {.n = 0}, attributes = {.n = 0}, slots = {.n = 0};
    size_t top = 1;
    bool is_explained = false, is_dry = false, is_deferred = false;
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"context", LC_OPT_TEXT, &context, "X1,X2,...", "the context"},
        {"exclude", LC_OPT_LIST, &exclude, "ID", "leave this arm out (may be repeated)"},
        {"attribute", LC_OPT_LIST, &attributes, "NAME=VALUE",
         "what is true of the user, for arms that not everybody may see (may be repeated)"},
        {"top", LC_OPT_COUNT, &top, "N", "a slate of N arms (default 1)"},
        {"slot", LC_OPT_LIST, &slots, "SLOT", "fill this place, and others so named, in their order (up to 50)"},
        {"explain", LC_OPT_FLAG, &is_explained, NULL, "show every candidate"},
        {"dry-run", LC_OPT_FLAG, &is_dry, NULL, "record nothing"},
        {"defer", LC_OPT_FLAG, &is_deferred, NULL, "the reward counts only after `laplacectl activate`"},
        {"decision", LC_OPT_TEXT, &decision, "ID",
         "an id of your own; asked again under it, the answer is the first one"},
        {"body", LC_OPT_TEXT, &file, "FILE", "the whole JSON body from a file (\"-\": standard input)"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 0, 64);
    if (rc != LC_GO)
        return rc;
    if (file != NULL)
        return send_file(s, "/select", LC_JSON_TYPE, file);
    if (w.n == 0)
        return lc_usage(self);
    lc_text_puts(&body, "{");
    lc_put_text(&body, "user", w.word[0]);
    rc = put_context(&body, context);
    if (rc == 0)
        rc = put_attributes(&body, &attributes);
    put_list(&body, "candidates", w.word + 1, w.n - 1);
    put_list(&body, "exclude", exclude.item, exclude.n);
    put_slots(&body, &slots);
    lc_put_text(&body, "decision", decision);
    if (top != 1)
        lc_put_count(&body, "top", top);
    lc_text_printf(&body, "%s%s%s", is_explained ? ",\"explain\":true" : "", is_dry ? ",\"dry_run\":true" : "",
                   is_deferred ? ",\"defer\":true" : "");
    return finish(s, "/select", &body, rc);
}

const struct lc_command lc_cmd_select = {
    .name = "select",
    .synopsis = "select USER [ARM...] [options]",
    .about = "which arm for this user, now?",
    .text = "ARM is an id, or JSON: '{\"id\":\"a9\",\"features\":[1,0,0.5]}'. Without arms: the whole catalogue.\n"
            "SLOT is an id as well, or JSON: '{\"id\":\"left\",\"exclude\":[\"red\"]}'.\n\n"
            "  laplacectl select u42 red green blue --explain\n"
            "  laplacectl select u42 red green blue --slot top --slot left --decision page-1\n",
    .run = run_select,
};

/* --- reward ----------------------------------------------------------------------------------------- */

/* Words: the decision's id, unless a user stands for it, and the value, which may be negative: "-0.5" is a word here
 * (args.c). */
static int run_reward(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *arm = NULL, *slot = NULL, *file = NULL, *user = NULL, *id = NULL, *event = NULL, *metric = NULL;
    bool is_all = false;
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"arm", LC_OPT_TEXT, &arm, "ID", "which arm of several that were shown"},
        {"slot", LC_OPT_TEXT, &slot, "ID", "the same by its slot"},
        {"metric", LC_OPT_TEXT, &metric, "NAME", "what it is a value of, if not of the objective"},
        {"user", LC_OPT_TEXT, &user, "ID", "in place of DECISION: the open one that the user was shown last"},
        {"all", LC_OPT_FLAG, &is_all, NULL, "with --user: every open one that was shown"},
        {"id", LC_OPT_TEXT, &id, "ID", "an id of yours: sent again under it, the reward is learned once"},
        {"event", LC_OPT_TEXT, &event, "NAME", "what has happened, for the log"},
        {"body", LC_OPT_TEXT, &file, "FILE", "the whole JSON body (an object, or an array of up to 1000)"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof *opts, argc, argv, &w, 0, 2);
    if (rc != LC_GO)
        return rc;
    if (file != NULL)
        return send_file(s, "/reward", LC_JSON_TYPE, file);
    const size_t n = user != NULL ? 1 : 2;
    if (w.n != n || !lc_is_number(w.word[n - 1]))
        return lc_usage(self);
    lc_text_puts(&body, "{");
    lc_put_text(&body, "decision", user != NULL ? NULL : w.word[0]);
    lc_put_text(&body, "user", user);
    lc_put_number(&body, "reward", strtod(w.word[n - 1], NULL));
    lc_put_text(&body, "arm", arm);
    lc_put_text(&body, "slot", slot);
    lc_put_text(&body, "metric", metric);
    if (is_all)
        lc_text_puts(&body, ",\"all\":true");
    lc_put_text(&body, "id", id);
    lc_put_text(&body, "event", event);
    return finish(s, "/reward", &body, 0);
}

const struct lc_command lc_cmd_reward = {
    .name = "reward",
    .synopsis = "reward DECISION VALUE [options] | reward --user ID VALUE [options] | reward --body FILE",
    .about = "what a decision has earned",
    .text = "  laplacectl reward 01JD0000000000000000000000 1.0\n"
            "  laplacectl reward page-1 1.0 --slot left\n"
            "  laplacectl reward --user u42 1.0 --event checkout --id order-7731\n"
            "  laplacectl reward --user u42 49.90 --metric revenue\n",
    .run = run_reward,
};

/* --- observe ---------------------------------------------------------------------------------------- */

/* Words: user, arm, reward. A propensity of 0 cannot be observed, so 0 stands for "not given". */
static int run_observe(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *context = NULL, *id = NULL, *file = NULL;
    double propensity = 0;
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"context", LC_OPT_TEXT, &context, "X1,X2,...", "the context"},
        {"propensity", LC_OPT_REAL, &propensity, "P", "the probability with which the arm was chosen"},
        {"id", LC_OPT_TEXT, &id, "ID", "an id of your own; sent again under it, it is learned once"},
        {"file", LC_OPT_TEXT, &file, "FILE", "NDJSON, up to 10,000 lines, all or nothing (\"-\": standard input)"},
    };
    int rc = lc_args_parse(self, s, opts, 4, argc, argv, &w, 0, 3);
    if (rc != LC_GO)
        return rc;
    if (file != NULL)
        return send_file(s, "/observe", LC_NDJSON_TYPE, file);
    if (w.n != 3 || !lc_is_number(w.word[2]))
        return lc_usage(self);
    lc_text_puts(&body, "{");
    lc_put_text(&body, "user", w.word[0]);
    rc = put_context(&body, context);
    lc_put_key(&body, "arm");
    put_arm(&body, w.word[1]);
    lc_put_number(&body, "reward", strtod(w.word[2], NULL));
    if (propensity > 0.0)
        lc_put_number(&body, "propensity", propensity);
    lc_put_text(&body, "id", id);
    return finish(s, "/observe", &body, rc);
}

const struct lc_command lc_cmd_observe = {
    .name = "observe",
    .synopsis = "observe USER ARM VALUE [--context X1,X2,...] [--propensity P] [--id ID] | observe --file FILE",
    .about = "teach the reward of an arm that somebody else has chosen",
    .text = "A line of FILE: {\"user\":\"u1\",\"context\":[...],\"arm\":\"a1\" or {\"id\",\"features\"},\"reward\":1,\n"
            "\"propensity\":0.2,\"id\":\"e1\"}; context, features, propensity and id where they apply. For longer\n"
            "files, with progress and latencies, see `laplacectl replay --help`.\n",
    .run = run_observe,
};

/* --- activate --------------------------------------------------------------------------------------- */

static int run_activate(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    struct lc_text body = {0};
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 1, 1);
    if (rc != LC_GO)
        return rc;
    lc_text_puts(&body, "{");
    lc_put_text(&body, "decision", w.word[0]);
    return finish(s, "/activate", &body, 0);
}

const struct lc_command lc_cmd_activate = {
    .name = "activate",
    .synopsis = "activate DECISION",
    .about = "say that a deferred decision was shown to its user",
    .run = run_activate,
};
