/* laplacectl snapshot, restore, export, import: tenants out of a server and into one. Logs of other formats are
 * move_logs.c.
 *
 * snapshot and export write what the server sends as it comes; restore and import send a file as it is read: memory
 * does not depend on the size. To a FILE that is named they write FILE.part first and rename it when it is whole, so
 * that a copy that is broken off takes the place of no older one; to standard output there is only the exit status to
 * go by.
 *
 * The server says which moment a copy is of and what it folds to; both go to standard error, to be compared with what
 * restore or import answer. None of the requests has a time limit: --timeout does not count here. */
#include "ctl/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/http_client.h"
#include "ctl/move_logs.h"

static int fail_file(const char *file)
{
    return lc_fail("%s: %s", file, strerror(errno));
}

/* --- out ---------------------------------------------------------------------------------------------- */

static int fetch(const struct lc_session *s, const char *method, const char *path, FILE *out)
{
    struct lc_client *c = lc_client_new(s, NULL);
    lc_client_be_patient(c);
    const struct lc_reply *r = lc_client_exchange(c, method, path, NULL, NULL, NULL, out);
    int status = lc_reply_ok(r) ? 0 : lc_reply_fail(r, path);
    if (status == 0)
        lc_note("events up to %s, digest %s", r->seq, r->digest[0] != '\0' ? r->digest : "not told");
    lc_client_free(c);
    return status;
}

/* What is written to a file: a copy of the server's, or lines made of it. */
struct copy {
    const char *method, *path;
    struct lc_move_options *as; /* NULL: as it comes */
};

static int put(const struct lc_session *s, const struct copy *c, FILE *out)
{
    return c->as != NULL ? lc_move_out(s, c->as, out) : fetch(s, c->method, c->path, out);
}

static int put_file(const struct lc_session *s, const struct copy *c, const char *file)
{
    struct lc_part part;
    if (lc_part_open(&part, file) != 0)
        return lc_fail("%s.part: %s", file, strerror(errno));
    const int status = put(s, c, part.file), rc = lc_part_close(&part, status == 0);
    if (rc == -1 && status == 0)
        return lc_fail("%s.part: %s", file, strerror(errno));
    return rc == -2 ? fail_file(file) : status;
}

static int copy_out(const struct lc_session *s, const struct copy *c, const char *file)
{
    return strcmp(file, "-") != 0 ? put_file(s, c, file) : put(s, c, stdout);
}

static int run_snapshot(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 1, 2);
    if (rc != LC_GO)
        return rc;
    struct lc_text path = lc_tenant_path(w.word[0], "/snapshot");
    rc = copy_out(s, &(struct copy){"POST", path.data, NULL}, w.n == 2 ? w.word[1] : "-");
    lc_text_close(&path);
    return rc;
}

/* Words: NAME [FILE], or with --format the file alone, of the session's tenant. */
static int run_export(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_move_options o = {.default_reward = -1};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"format", LC_OPT_TEXT, &o.format, "NAME", "dsjson or ndjson: decisions with their rewards, of --tenant"},
        {"default-reward", LC_OPT_REAL, &o.default_reward, "R",
         "reward of decisions without one (default: they are left out)"},
    };
    int rc = lc_args_parse(self, s, opts, 2, argc, argv, &w, 0, 2);
    if (rc != LC_GO)
        return rc;
    if (o.format != NULL && strcmp(o.format, "dsjson") != 0 && strcmp(o.format, "ndjson") != 0)
        return lc_misuse("--format: expected dsjson or ndjson");
    if (o.format != NULL ? w.n > 1 : w.n < 1)
        return lc_misuse("usage: laplacectl export NAME [FILE], or export --format NAME --tenant NAME [FILE]");
    if (o.format != NULL)
        return copy_out(s, &(struct copy){.as = &o}, w.n == 1 ? w.word[0] : "-");
    struct lc_text path = lc_tenant_path(w.word[0], "/export");
    rc = copy_out(s, &(struct copy){"GET", path.data, NULL}, w.n == 2 ? w.word[1] : "-");
    lc_text_close(&path);
    return rc;
}

const struct lc_command lc_cmd_snapshot = {
    .name = "snapshot",
    .synopsis = "snapshot NAME [FILE]",
    .about = "a copy of a tenant's file, taken while it serves",
    .text = "An SQLite database with the log of one moment, to FILE or to standard output. FILE is replaced only when "
            "the copy\n"
            "is whole. `laplacectl restore` makes a tenant from it.\n"
            "\n"
            "  laplacectl snapshot shop shop.db\n",
    .run = run_snapshot,
};

const struct lc_command lc_cmd_export = {
    .name = "export",
    .synopsis = "export NAME [FILE] | export --format dsjson|ndjson --tenant NAME [FILE]",
    .about = "the whole log of a tenant, a line an event, for import",
    .text =
        "The lines of `laplacectl events`, of one moment, with the answers of named decisions, to FILE or to standard\n"
        "output. FILE is replaced only when the log is whole. `laplacectl import` makes a tenant from it.\n"
        "\n"
        "  laplacectl export shop | gzip > shop.ndjson.gz\n"
        "\n"
        "With --format: its decisions with their rewards, one a line, for other systems (docs/REPLAY.md). `evaluate` "
        "and\n"
        "`import --format` read both formats back.\n"
        "\n"
        "  laplacectl export --format dsjson --tenant shop shop.dsjson\n",
    .run = run_export,
};

/* --- in ----------------------------------------------------------------------------------------------- */

/* libcurl asks for more of the body. A file that cannot be read breaks the request off. */
static size_t read_piece(void *arg, char *buf, size_t n)
{
    FILE *in = arg;
    size_t got = fread(buf, 1, n, in);
    return got == 0 && ferror(in) ? LC_READ_FAILED : got;
}

static int send_in(struct lc_session *s, const struct lc_words *w, const char *method, const char *rest,
                   const char *type)
{
    FILE *in = strcmp(w->word[1], "-") == 0 ? stdin : fopen(w->word[1], "rb");
    if (in == NULL)
        return fail_file(w->word[1]);
    struct lc_client *c = lc_client_new(s, NULL);
    lc_client_be_patient(c);
    struct lc_text path = lc_tenant_path(w->word[0], rest);
    int rc = lc_reply_print(s, lc_client_exchange(c, method, path.data, type, read_piece, in, NULL), path.data);
    lc_text_close(&path);
    lc_client_free(c);
    if (in != stdin)
        (void)fclose(in);
    return rc;
}

static int run_restore(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 2, 2);
    return rc != LC_GO ? rc : send_in(s, &w, "PUT", "/snapshot", LC_DATABASE_TYPE);
}

/* Words: NAME FILE, or with --format the file alone, into the session's tenant. */
static int run_import(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_move_options o = {.default_reward = -1};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"format", LC_OPT_TEXT, &o.format, "NAME", "obd, dsjson, ndjson or csv: learn this log into --tenant"},
        {"map", LC_OPT_TEXT, &o.log.map, "MAP", "csv, ndjson: user=..,arm=..,reward=..,propensity=..,context=a+b"},
        {"items", LC_OPT_TEXT, &o.log.items, "FILE", "obd: item_context.csv, the arms and their features"},
        {"hash-seed", LC_OPT_COUNT, &o.hash_seed, "N", "seed of the hashing of features (default 0)"},
        {"skip-bad", LC_OPT_COUNT, &o.log.read.skip_bad, "N", "faulty lines to pass over and count (default 0)"},
        {"default-reward", LC_OPT_REAL, &o.default_reward, "R",
         "reward of decisions without one (default: they are left out)"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 1, 2);
    if (rc != LC_GO)
        return rc;
    if (o.format != NULL && lc_log_format(o.format) == NULL)
        return lc_misuse("--format: expected obd, dsjson, ndjson or csv");
    if (w.n != (o.format != NULL ? 1 : 2))
        return lc_misuse("usage: laplacectl import NAME FILE, or import --format NAME --tenant NAME LOG");
    return o.format != NULL ? lc_move_in(s, &o, w.word[0]) : send_in(s, &w, "POST", "/import", LC_NDJSON_TYPE);
}

const struct lc_command lc_cmd_restore = {
    .name = "restore",
    .synopsis = "restore NAME FILE",
    .about = "make a tenant from a copy of a file",
    .text = "The tenant must not exist; \"-\" is standard input. The server checks the file to the last line. It "
            "answers with\n"
            "the number of events and the digest, or says what is wrong and makes no tenant.\n"
            "\n"
            "  laplacectl restore shop shop.db\n",
    .run = run_restore,
};

const struct lc_command lc_cmd_import = {
    .name = "import",
    .synopsis = "import NAME FILE | import --format obd|dsjson|ndjson|csv --tenant NAME [options] LOG",
    .about = "make a tenant from a log, or learn another system's log into one",
    .text = "The tenant must not exist; \"-\" is standard input. A faulty line is named, and no tenant is made.\n"
            "\n"
            "  zcat shop.ndjson.gz | laplacectl import shop-2 -\n"
            "\n"
            "With --format the tenant must exist. It learns the decisions of the log with their propensities (by "
            "/observe):\n"
            "a warm start. Features that are names are hashed to vectors of its dimensions (docs/REPLAY.md). LOG may "
            "be packed.\n"
            "\n"
            "  laplacectl import --format dsjson --tenant shop old.dsjson.zst\n",
    .run = run_import,
};
