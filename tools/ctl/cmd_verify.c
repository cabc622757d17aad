/* laplacectl verify: whether models are what their logs say, asked of a server or found out from the files of a stopped
 * one (verify_files.c). One line a tenant; with --json one JSON object a line, but for --log.
 *
 * Exit status 0 means that every tenant was compared and every one was equal. */
#include <stdio.h>

#include "ctl/commands.h"
#include "common/http_client.h"

static int print_answer(const struct lc_session *s, const char *name, const struct lc_reply *r)
{
    if (!lc_reply_ok(r))
        return lc_reply_fail(r, name);
    struct json_t *doc = lc_reply_json(r);
    const bool is_equal = lc_json_is_true(lc_json_get(doc, "equal"));
    const char *digest = lc_json_text(doc, "digest");
    const char *logical = lc_json_text(doc, "logical_digest"); /* NULL: of an older server */
    const char *folded = lc_json_text(doc, "folded_digest");
    const char *fault = lc_json_text(doc, "fault");
    const double seq = lc_json_real(doc, "seq"), events = lc_json_real(doc, "events");
    if (s->is_json)
        printf("%s\n", r->body.data);
    else if (is_equal)
        lc_say("%-24s equal      event %.0f, %.0f lines, digest %s, of the log alone: %s", name, seq, events, digest,
               logical != NULL ? logical : "?");
    else
        lc_say("%-24s DIFFERENT  event %.0f, %.0f lines, digest %s, of the fold: %s; of the log alone: %s", name, seq,
               events, digest,
               fault != NULL    ? fault
               : folded != NULL ? folded
                                : "?",
               logical != NULL ? logical : "?");
    lc_json_free(doc);
    return is_equal ? 0 : 1;
}

static int verify_one(const struct lc_session *s, struct lc_client *c, const char *name)
{
    struct lc_text path = lc_tenant_path(name, "/verify");
    int status = print_answer(s, name, lc_client_send(c, "POST", path.data, NULL, NULL, 0));
    lc_text_close(&path);
    return status;
}

/* All tenants that the server has, one after the other: each costs the memory of a second model. */
static int verify_all(const struct lc_session *s, struct lc_client *c)
{
    int status = 0;
    const struct lc_reply *r = lc_client_get(c, "/tenants");
    if (!lc_reply_ok(r))
        return lc_reply_fail(r, "list of tenants");
    struct json_t *doc = lc_reply_json(r);
    const struct json_t *rows = lc_json_get(doc, "tenants");
    for (size_t i = 0; i < lc_json_length(rows); i++) {
        const char *name = lc_json_text(lc_json_at(rows, i), "name");
        status |= name != NULL ? verify_one(s, c, name) : 1;
    }
    lc_json_free(doc);
    return status;
}

static int run_verify(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *data = NULL, *log = NULL;
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"data", LC_OPT_TEXT, &data, "DIR", "read the data folder of a stopped server instead of asking one"},
        {"log", LC_OPT_TEXT, &log, "URL",
         "the chain of the log that servers share, and with --data the copy beside it"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof *opts, argc, argv, &w, 0, 1);
    if (rc != LC_GO)
        return rc;
    const char *name = w.n > 0 ? w.word[0] : s->tenant;
    if (log != NULL)
        return lc_verify_log(log, data, name);
    if (data != NULL)
        return lc_verify_files(s, data, name);
    struct lc_client *c = lc_client_new(s, NULL);
    rc = name != NULL ? verify_one(s, c, name) : verify_all(s, c);
    lc_client_free(c);
    return rc;
}

const struct lc_command lc_cmd_verify = {
    .name = "verify",
    .synopsis = "verify [NAME] [--data DIR] [--log URL]",
    .about = "compute models anew from their logs, and compare",
    .text =
        "Computes the model of the tenant, or of every tenant, from the first line of its log, and compares its "
        "digest\n"
        "with that of the model that serves, bit for bit. A server does so beside its traffic. With --data it is done\n"
        "in the folder of a stopped server: the snapshot with the lines after it is compared, and nothing is written.\n"
        "A server goes on when you leave by Ctrl-C: DELETE /tenants/NAME/verify ends that, too.\n"
        "One line a tenant; exit status 1 when one differs or cannot be read. Verify a folder on the machine that\n"
        "served it: other processors round otherwise.\n\n"
        "With --log nothing is folded: the hashes that chain the lines of a log in PostgreSQL are computed anew, "
        "without a\n"
        "server, and the first line that does not fit is named; with --data it is compared with the copy of a stopped\n"
        "server, line by line. It says so in words, with --json as well.\n\n"
        "  laplacectl verify shop\n"
        "  laplacectl verify --data /var/lib/laplaced\n",
    .run = run_verify,
};
