/* laplacectl select, reward, observe, activate: one decision by hand, for a first look and for shell scripts.
 *
 * Bodies are written here field by field; what needs more than the options offer goes in whole with --body.
 *
 * The commands differ in their bodies only: words and options become one JSON object, one request is sent,
 * and the answer is printed as the server gave it (indented, unless --json). Exit status 0 or 1 as the server
 * decides; 2 for words that make no request. Nothing is repeated on failure: a select with --decision may be
 * repeated by hand. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/http_client.h"

/* --- parts of bodies -------------------------------------------------------------------------------- */

/* "0.1,0.7" as a JSON array; 0 or 2 (printed). At most 4096 numbers, the largest dimension that a tenant's
 * context may have (core/spec/fields.c). strtok_r drops empty items: "1,,2" is 1,2. The list is copied because
 * strtok_r writes into it. lc_is_number has checked each item, so sscanf cannot stop in its middle; both
 * conditions stand in one test for one message. On an error `out` holds a beginning that is not sent. */
static int put_vector(struct lc_text *out, const char *name, const char *list)
{
    double v[4096];
    size_t n = 0;
    /* a copy, as strtok_r writes into its text */
    char *copy = lc_copy(list), *save = NULL;
    for (char *p = strtok_r(copy, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        if (n >= 4096 || !lc_is_number(p) || sscanf(p, "%lf", &v[n]) != 1) {
            lc_fail("--%s %s: expected numbers like 0.1,0.7", name, list);
            free(copy);
            return 2;
        }
        n++;
    }
    free(copy);
    lc_text_printf(out, ",\"%s\":", name);
    lc_text_vector(out, v, n);
    return 0;
}

/* An arm as typed: an id, or a JSON object with features. An object is passed on unread: the server tells
 * what is wrong with it. An id that begins with "{" cannot be typed here; --body takes it. */
static void put_arm(struct lc_text *out, const char *word)
{
    if (word[0] == '{')
        lc_text_puts(out, word);
    else
        lc_text_json(out, word);
}

/* A member that is an array of arms or ids; left out when empty, since [] and absent differ for candidates.
 * `items` are arms as typed. The member's name is a constant of the contract and needs no escapes. */
static void put_list(struct lc_text *out, const char *name, const char *const *items, size_t n)
{
    if (n == 0)
        return;
    lc_text_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            lc_text_puts(out, ",");
        put_arm(out, items[i]);
    }
    lc_text_puts(out, "]");
}

/* An optional member that is a string. NULL: not given, left out. Written with its escapes; a leading
 * comma, as "user" or "decision" always stands before. */
static void put_string(struct lc_text *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    lc_text_printf(out, ",\"%s\":", name);
    lc_text_json(out, value);
}

/* POST and print: the end of every command of this file. The path without its slash names it in errors. One
 * connection per command. The tenant goes by header, as these routes have no tenant in their path. The
 * reply belongs to the client and is printed before the client is freed. path begins with "/". 0, or 1
 * after a printed error. */
static int send_body(const struct lc_session *s, const char *path, const char *type, const struct lc_text *body)
{
    struct lc_client *c = lc_client_new(s, s->tenant);
    int status = lc_reply_print(s, lc_client_send(c, "POST", path, type, body->data, body->n), path + 1);
    lc_client_free(c);
    return status;
}

/* The same with a body that somebody else wrote; the server checks it, not we. NDJSON and JSON alike; the
 * whole file is held in memory. Neither the words nor the other options of the command are mixed into
 * such a body. A file that cannot be read ends with status 1. */
static int send_file(const struct lc_session *s, const char *path, const char *type, const char *file)
{
    char why[LC_WHY];
    struct lc_text body = {0};
    int status = 1;
    if (lc_read_file(file, &body, why) != 0)
        lc_fail("%s", why);
    else
        status = send_body(s, path, type, &body);
    lc_text_close(&body);
    return status;
}

/* --- select ----------------------------------------------------------------------------------------- */

/* What the options of `select` fill; NULL, 0 and false mean "not given", and top is 1. exclude: arms to
 * be left out, in any order */
struct select_options {
    const char *context, *decision, *body;
    struct lc_list exclude, attributes; /* attributes: NAME=VALUE */
    size_t top;
    bool is_explained, is_dry, is_deferred;
};

/* 0, or 2 after a printed error. */
static int put_attributes(struct lc_text *out, const struct lc_list *list)
{
    struct lc_text name = {0};

    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->item[i], '=');
        if (equals == NULL) {
            lc_fail("--attribute %s: expected NAME=VALUE", list->item[i]);
            lc_text_close(&name);
            return 2;
        }
        lc_text_clear(&name);
        lc_text_printf(&name, "%.*s", (int)(equals - list->item[i]), list->item[i]);
        lc_text_puts(out, i == 0 ? ",\"attributes\":{" : ",");
        lc_text_json(out, name.data);
        lc_text_puts(out, ":");
        lc_text_json(out, equals + 1);
    }
    lc_text_puts(out, list->n > 0 ? "}" : "");
    lc_text_close(&name);
    return 0;
}

/* Only what was asked for goes into the body: the server's defaults stay the server's. 0, or 2 after a
 * printed error. `user` goes first, so every other member may begin with a comma. Candidates that are
 * left out mean the whole catalogue to the server, which is why no empty array is sent. */
static int select_body(const struct select_options *o, const struct lc_words *w, struct lc_text *out)
{
    lc_text_puts(out, "{\"user\":");
    lc_text_json(out, w->word[0]);
    if (o->context != NULL && put_vector(out, "context", o->context) != 0)
        return 2;
    if (put_attributes(out, &o->attributes) != 0)
        return 2;
    put_list(out, "candidates", w->word + 1, w->n - 1);
    put_list(out, "exclude", o->exclude.item, o->exclude.n);
    put_string(out, "decision", o->decision);
    /* 1 is the server's default as well */
    if (o->top != 1)
        lc_text_printf(out, ",\"top\":%zu", o->top);
    if (o->is_explained)
        lc_text_puts(out, ",\"explain\":true");
    if (o->is_dry)
        lc_text_puts(out, ",\"dry_run\":true");
    if (o->is_deferred)
        lc_text_puts(out, ",\"defer\":true");
    lc_text_puts(out, "}");
    return 0;
}

/* Words: the user, then the candidates. With --body they are not looked at. --top above 1 asks for a
 * slate; the answer then names its arms in order, each rewarded by --arm. The answer names the arm, its
 * propensity and the decision's id; with --explain every candidate's numbers as well. */
static int run_select(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct select_options o = {.top = 1};
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"context", LC_OPT_TEXT, &o.context, "X1,X2,...", "the context"},
        {"exclude", LC_OPT_LIST, &o.exclude, "ID", "leave this arm out (may be repeated)"},
        {"attribute", LC_OPT_LIST, &o.attributes, "NAME=VALUE",
         "what is true of the user, for arms that not everybody may see (may be repeated)"},
        {"top", LC_OPT_COUNT, &o.top, "N", "a slate of N arms (default 1)"},
        {"explain", LC_OPT_FLAG, &o.is_explained, NULL, "show every candidate"},
        {"dry-run", LC_OPT_FLAG, &o.is_dry, NULL, "record nothing"},
        {"defer", LC_OPT_FLAG, &o.is_deferred, NULL, "the reward counts only after `laplacectl activate`"},
        {"decision", LC_OPT_TEXT, &o.decision, "ID",
         "an id of your own; asked again under it, the answer is the first one"},
        {"body", LC_OPT_TEXT, &o.body, "FILE", "the whole JSON body from a file (\"-\": standard input)"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 0, 64);
    if (rc != LC_GO)
        return rc;
    /* the words are not needed then, which is why none is demanded above */
    if (o.body != NULL)
        return send_file(s, "/select", LC_JSON_TYPE, o.body);
    if (w.n == 0) {
        fprintf(stderr, "usage: laplacectl %s\n", self->synopsis);
        return 2;
    }
    rc = select_body(&o, &w, &body);
    if (rc == 0)
        rc = send_body(s, "/select", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return rc;
}

/* One decision; its id, in the answer, is what `reward` and `activate` take. */
const struct lc_command lc_cmd_select = {
    .name = "select",
    .synopsis = "select USER [ARM...] [options]",
    .about = "which arm for this user, now?",
    .text = "ARM is an id, or JSON: '{\"id\":\"a9\",\"features\":[1,0,0.5]}'. Without arms: the whole catalogue.\n\n"
            "  laplacectl select u42 red green blue --explain\n",
    .run = run_select,
};

/* --- reward ----------------------------------------------------------------------------------------- */

/* A value may be negative: "-0.5" is a word here, not an option (args.c). Words: the decision's id and the
 * value; --arm tells the slots of a slate apart. lc_is_number has looked at the value, so strtod reads all of
 * it. The arm is checked by the server. With --body several rewards go in one request. */
static int run_reward(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *arm = NULL, *file = NULL;
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"arm", LC_OPT_TEXT, &arm, "ID", "the slot of a slate"},
        {"body", LC_OPT_TEXT, &file, "FILE", "the whole JSON body (an object, or an array of up to 1000)"},
    };
    int rc = lc_args_parse(self, s, opts, 2, argc, argv, &w, 0, 2);
    if (rc != LC_GO)
        return rc;
    if (file != NULL)
        return send_file(s, "/reward", LC_JSON_TYPE, file);
    if (w.n != 2 || !lc_is_number(w.word[1])) {
        fprintf(stderr, "usage: laplacectl %s\n", self->synopsis);
        return 2;
    }
    lc_text_puts(&body, "{\"decision\":");
    lc_text_json(&body, w.word[0]);
    lc_text_puts(&body, ",\"reward\":");
    lc_text_number(&body, strtod(w.word[1], NULL));
    put_string(&body, "arm", arm);
    lc_text_puts(&body, "}");
    rc = send_body(s, "/reward", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return rc;
}

/* Later than the tenant's window the server answers 410, which ends with status 1. */
const struct lc_command lc_cmd_reward = {
    .name = "reward",
    .synopsis = "reward DECISION VALUE [--arm ID] | reward --body FILE",
    .about = "what a decision has earned",
    .text = "  laplacectl reward 01JD0000000000000000000000 1.0\n",
    .run = run_reward,
};

/* --- observe ---------------------------------------------------------------------------------------- */

/* context, id and file: NULL when not given. propensity: 0 when not given. With `file` the others play no
 * part. */
struct observe_options {
    const char *context, *id, *file;
    double propensity;
};

/* A propensity of 0 cannot be observed, so 0 stands for "not given". As select_body. --propensity above 1
 * is refused by the server. The arm may bring its features (JSON), for arms that are not in the
 * catalogue. */
static int observe_body(const struct observe_options *o, const struct lc_words *w, struct lc_text *out)
{
    lc_text_puts(out, "{\"user\":");
    lc_text_json(out, w->word[0]);
    if (o->context != NULL && put_vector(out, "context", o->context) != 0)
        return 2;
    lc_text_puts(out, ",\"arm\":");
    put_arm(out, w->word[1]);
    lc_text_puts(out, ",\"reward\":");
    lc_text_number(out, strtod(w->word[2], NULL));
    /* left out otherwise: the server then knows of no propensity */
    if (o->propensity > 0.0) {
        lc_text_puts(out, ",\"propensity\":");
        lc_text_number(out, o->propensity);
    }
    if (o->id != NULL) {
        lc_text_puts(out, ",\"id\":");
        lc_text_json(out, o->id);
    }
    lc_text_puts(out, "}");
    return 0;
}

/* Words: user, arm, reward. With --file they are not looked at. For rewards that another system has
 * earned; the propensity, where it is known, is kept in the log for evaluation. Status 2 when the value
 * is no number; nothing is sent then. */
static int run_observe(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct observe_options o = {0};
    struct lc_words w;
    struct lc_text body = {0};
    const struct lc_opt opts[] = {
        {"context", LC_OPT_TEXT, &o.context, "X1,X2,...", "the context"},
        {"propensity", LC_OPT_REAL, &o.propensity, "P", "the probability with which the arm was chosen"},
        {"id", LC_OPT_TEXT, &o.id, "ID", "an id of your own; sent again under it, it is learned once"},
        {"file", LC_OPT_TEXT, &o.file, "FILE", "NDJSON, up to 10,000 lines, all or nothing (\"-\": standard input)"},
    };
    int rc = lc_args_parse(self, s, opts, 4, argc, argv, &w, 0, 3);
    if (rc != LC_GO)
        return rc;
    if (o.file != NULL)
        return send_file(s, "/observe", LC_NDJSON_TYPE, o.file);
    if (w.n != 3 || !lc_is_number(w.word[2])) {
        fprintf(stderr, "usage: laplacectl %s\n", self->synopsis);
        return 2;
    }
    rc = observe_body(&o, &w, &body);
    if (rc == 0)
        rc = send_body(s, "/observe", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return rc;
}

/* A batch by --file is one commit: one refused line refuses all of them. */
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

/* Idempotent on the server: a second activation answers duplicate. For decisions made with --defer: from here
 * on their reward teaches. An unknown decision ends with status 1 and the server's reason. Takes exactly one
 * word. */
static int run_activate(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    struct lc_text body = {0};
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 1, 1);
    if (rc != LC_GO)
        return rc;
    lc_text_puts(&body, "{\"decision\":");
    lc_text_json(&body, w.word[0]);
    lc_text_puts(&body, "}");
    rc = send_body(s, "/activate", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return rc;
}

/* The one command here that takes no options of its own. */
const struct lc_command lc_cmd_activate = {
    .name = "activate",
    .synopsis = "activate DECISION",
    .about = "say that a deferred decision was shown to its user",
    .run = run_activate,
};
