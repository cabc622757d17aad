/* laplacectl snapshot, restore, export, import: tenants out of a server and into one.
 *
 * snapshot and export write what the server sends as it comes; restore and import send a file as it is read: memory
 * does not depend on the size. To a FILE that is named they write FILE.part first and rename it when it is whole, so
 * that a copy that is broken off takes the place of no older one; to standard output there is only the exit status to
 * go by.
 *
 * The server says which moment a copy is of and what it folds to; both go to standard error, to be compared with what
 * restore or import answer. None of the requests has a time limit: --timeout does not count here. */
#include "commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "http_client.h"

/* "/tenants/NAME" and the rest. */
static void path_of(struct lc_text *path, const char *tenant, const char *rest)
{
    lc_text_puts(path, "/tenants/");
    lc_path_segment(path, tenant);
    lc_text_puts(path, rest);
}

static int fail_file(const char *file)
{
    fprintf(stderr, "laplacectl: %s: %s\n", file, strerror(errno));
    return 1;
}

/* --- out ---------------------------------------------------------------------------------------------- */

static int fetch(const struct lc_session *s, const char *method, const char *path, FILE *out)
{
    struct lc_client *c = lc_client_new(s, NULL);
    lc_client_be_patient(c);
    const struct lc_reply *r = lc_client_fetch(c, method, path, out);
    int status = lc_reply_ok(r) ? 0 : lc_reply_fail(r, path);
    if (status == 0)
        fprintf(stderr, "laplacectl: events up to %s, digest %s\n", r->seq,
                r->digest[0] != '\0' ? r->digest : "not told");
    lc_client_free(c);
    return status;
}

/* A part that is not whole is removed. On the disk before it takes the name. */
static int fetch_file(const struct lc_session *s, const char *method, const char *path, const char *file)
{
    struct lc_text part = {0};
    lc_text_printf(&part, "%s.part", file);
    FILE *out = fopen(part.data, "wb");
    int status = out == NULL ? fail_file(part.data) : fetch(s, method, path, out);
    if (out != NULL) {
        if (status == 0 && (fflush(out) != 0 || fsync(fileno(out)) != 0))
            status = fail_file(part.data);
        if (fclose(out) != 0 && status == 0)
            status = fail_file(part.data);
        if (status == 0 && rename(part.data, file) != 0)
            status = fail_file(file);
        if (status != 0)
            (void)remove(part.data);
    }
    lc_text_close(&part);
    return status;
}

static int run_out(const struct lc_command *self, struct lc_session *s, int argc, char **argv, const char *method,
                   const char *rest)
{
    struct lc_words w;
    struct lc_text path = {0};
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 1, 2);
    if (rc != LC_GO)
        return rc;
    path_of(&path, w.word[0], rest);
    rc = w.n == 2 && strcmp(w.word[1], "-") != 0 ? fetch_file(s, method, path.data, w.word[1])
                                                 : fetch(s, method, path.data, stdout);
    lc_text_close(&path);
    return rc;
}

static int run_snapshot(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    return run_out(self, s, argc, argv, "POST", "/snapshot");
}

static int run_export(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    return run_out(self, s, argc, argv, "GET", "/export");
}

const struct lc_command lc_cmd_snapshot = {
    .name = "snapshot",
    .synopsis = "snapshot NAME [FILE]",
    .about = "a copy of a tenant's file, taken while it serves",
    .text =
        "An SQLite database with the log of one moment, to FILE (which it takes the place of when it is whole) or to\n"
        "standard output. `laplacectl restore` makes a tenant from it.\n\n"
        "  laplacectl snapshot shop shop.db\n",
    .run = run_snapshot,
};

const struct lc_command lc_cmd_export = {
    .name = "export",
    .synopsis = "export NAME [FILE]",
    .about = "the whole log of a tenant, a line an event, for import",
    .text = "The lines of `laplacectl events`, of one moment, with the answers of named decisions. To FILE (which it "
            "takes the\n"
            "place of when it is whole) or to standard output. `laplacectl import` makes a tenant from it.\n\n"
            "  laplacectl export shop | gzip > shop.ndjson.gz\n",
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

static int run_in(const struct lc_command *self, struct lc_session *s, int argc, char **argv, const char *method,
                  const char *rest, const char *type)
{
    struct lc_words w;
    struct lc_text path = {0};
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 2, 2);
    if (rc != LC_GO)
        return rc;
    FILE *in = strcmp(w.word[1], "-") == 0 ? stdin : fopen(w.word[1], "rb");
    if (in == NULL)
        return fail_file(w.word[1]);
    struct lc_client *c = lc_client_new(s, NULL);
    lc_client_be_patient(c);
    path_of(&path, w.word[0], rest);
    rc = lc_reply_print(s, lc_client_stream(c, method, path.data, type, read_piece, in), path.data);
    lc_text_close(&path);
    lc_client_free(c);
    if (in != stdin)
        (void)fclose(in);
    return rc;
}

static int run_restore(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    return run_in(self, s, argc, argv, "PUT", "/snapshot", LC_DATABASE_TYPE);
}

static int run_import(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    return run_in(self, s, argc, argv, "POST", "/import", LC_NDJSON_TYPE);
}

const struct lc_command lc_cmd_restore = {
    .name = "restore",
    .synopsis = "restore NAME FILE",
    .about = "make a tenant from a copy of a file",
    .text = "The tenant must not exist; \"-\" is standard input. The server checks the file to the last line and "
            "answers with\n"
            "the number of events and the digest, or says what is wrong with it; then there is no tenant.\n\n"
            "  laplacectl restore shop shop.db\n",
    .run = run_restore,
};

const struct lc_command lc_cmd_import = {
    .name = "import",
    .synopsis = "import NAME FILE",
    .about = "make a tenant from a log",
    .text = "The tenant must not exist; \"-\" is standard input. The first line that does not fit is named.\n\n"
            "  zcat shop.ndjson.gz | laplacectl import shop-2 -\n",
    .run = run_import,
};
