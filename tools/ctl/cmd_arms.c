/* laplacectl arms: load the catalogue from CSV `id,f1,f2,...` or NDJSON, or show it.
 *
 * A CSV file becomes one JSON body {"arms":[...]}; the catalogue is small beside a graph (thousands of arms), so it
 * is built in memory. Every row must have as many features as the first.
 *
 * The file is read to its end before anything is sent: a fault in its last row changes nothing on the server.
 * The server checks again, and its faults come back by pointer. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/edges.h"
#include "common/http_client.h"
#include "common/json.h"

/* --- CSV -> JSON ------------------------------------------------------------------------------------ */

/* A header row is one whose features are not all numbers, or, without features, whose only cell reads "id" or
 * "arm". Only the first row that counts is asked. A catalogue of one arm called "id" needs --header no.
 * With features the header's names are words: one cell that is no number is enough. A missing feature (an
 * empty cell) in the first row therefore reads as a header; --header no then names the cell. Numbers are
 * what lc_is_number takes: finite, decimal point, nothing behind. */
static bool looks_like_header(const struct lc_csv *csv)
{
    if (csv->n_fields == 1)
        return strcmp(csv->fields[0], "id") == 0 || strcmp(csv->fields[0], "arm") == 0;
    for (size_t i = 1; i < csv->n_fields; i++)
        if (!lc_is_number(csv->fields[i]))
            return true;
    return false;
}

/* Column 1 up may be called "active": then it is no feature but true/false/1/0. Returns its index or 0. The
 * first column is the id and cannot be it. Without a header there is none. Asked of a header row only.
 * The name is compared as it is written. */
static size_t active_column(const struct lc_csv *csv)
{
    for (size_t i = 1; i < csv->n_fields; i++)
        if (strcmp(csv->fields[i], "active") == 0)
            return i;
    return 0;
}

/* The member "active" of one arm; 0 or -1 with csv->why. Exactly these four spellings: anything else is more
 * likely a shifted column. The value is written as JSON true or false, whichever spelling the file has. */
static int put_active(struct lc_csv *csv, size_t i, struct lc_text *out)
{
    const char *v = csv->fields[i];
    bool is_on = strcmp(v, "true") == 0 || strcmp(v, "1") == 0;
    if (!is_on && strcmp(v, "false") != 0 && strcmp(v, "0") != 0)
        return lc_csv_fail(csv, "active is true, false, 1 or 0, not \"%.40s\"", v);
    lc_text_printf(out, ",\"active\":%s", is_on ? "true" : "false");
    return 0;
}

/* The member "features", left out when the row has no feature column: arms without features are plain ids.
 * Order of the columns is order of the features; numbers go out bit for bit (text.c). Members are written
 * as they are checked, so after an error `out` holds half an object; the caller drops it. */
static int put_features(struct lc_csv *csv, size_t active, struct lc_text *out)
{
    size_t n = 0;
    for (size_t i = 1; i < csv->n_fields; i++) {
        double v;
        if (i == active)
            continue;
        if (!lc_csv_number(csv, i, &v))
            return -1;
        lc_text_puts(out, n++ == 0 ? ",\"features\":[" : ",");
        lc_text_number(out, v);
    }
    if (n > 0)
        lc_text_puts(out, "]");
    return 0;
}

/* One row as a JSON item; 0 or -1 with csv->why. `active` 0 means that there is no such column. Columns
 * are checked against the first row, so a shifted row is found here and not by the server. */
static int put_arm(struct lc_csv *csv, size_t n_columns, size_t active, struct lc_text *out)
{
    if (csv->n_fields != n_columns)
        return lc_csv_fail(csv, "%zu columns where the rows before have %zu", csv->n_fields, n_columns);
    if (csv->fields[0][0] == '\0')
        return lc_csv_fail(csv, "an empty arm id");
    lc_text_puts(out, "{\"id\":");
    lc_text_json(out, csv->fields[0]);
    if (active != 0 && put_active(csv, active, out) != 0)
        return -1;
    if (put_features(csv, active, out) != 0)
        return -1;
    lc_text_puts(out, "}");
    return 0;
}

/* The whole file; 0 or -1 with csv->why. An empty file makes an empty catalogue: it is what the file
 * says. n_columns is 0 until the first row: that row decides how many there are, header or not. Rows are
 * written in their order, which is the order in which the server numbers arms that it has not seen. rc is
 * 0 at the end of the file and -1 after a bad row, which is what the caller wants to know. */
static int arms_from_csv(struct lc_csv *csv, enum lc_header header, struct lc_text *out)
{
    size_t n_columns = 0, active = 0, n = 0;
    int rc;
    lc_text_puts(out, "{\"arms\":[");
    while ((rc = lc_csv_next(csv)) == 1) {
        /* the first row decides the number of columns, header or not */
        bool is_first = n_columns == 0;
        if (is_first)
            n_columns = csv->n_fields;
        if (is_first && (header == LC_HEADER_YES || (header == LC_HEADER_AUTO && looks_like_header(csv)))) {
            active = active_column(csv);
            continue;
        }
        if (n++ > 0)
            lc_text_puts(out, ",");
        if (put_arm(csv, n_columns, active, out) != 0)
            return -1;
    }
    lc_text_puts(out, "]}");
    return rc;
}

/* --- command ---------------------------------------------------------------------------------------- */

/* Formats are told by the name of the file alone. The same test as in cmd_graph.c; case counts. */
static bool has_suffix(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

/* Reads FILE into body and says its content type; NULL after a printed error. Anything that is not called
 * .json, .ndjson or .jsonl is read as CSV, standard input too. The type is a constant of http_client.h.
 * Nothing was sent yet when this fails, and the message says so. The reader is closed on every way; its
 * message is printed first, since it is part of the reader. */
static const char *read_body(const char *file, enum lc_header header, struct lc_text *body)
{
    struct lc_csv csv;
    char why[LC_WHY];
    bool is_json = has_suffix(file, ".json");
    if (is_json || has_suffix(file, ".ndjson") || has_suffix(file, ".jsonl")) {
        if (lc_read_file(file, body, why) == 0)
            return is_json ? LC_JSON_TYPE : LC_NDJSON_TYPE;
        lc_fail("%s", why);
        return NULL;
    }
    int rc = lc_csv_open(&csv, file);
    if (rc == 0)
        rc = arms_from_csv(&csv, header, body);
    if (rc != 0)
        lc_fail("%s (nothing was changed)", csv.why);
    lc_csv_close(&csv);
    return rc == 0 ? LC_JSON_TYPE : NULL;
}

/* One request to the catalogue of the session's tenant; the exit status. The tenant stands in the path; the
 * header says the same. `body` stays the caller's. The path is percent-encoded and serves as the
 * request's name in errors. */
static int send_arms(const struct lc_session *s, const char *method, const char *type, const struct lc_text *body)
{
    struct lc_client *c = lc_client_new(s, s->tenant);
    struct lc_text path = {0};
    lc_text_puts(&path, "/tenants/");
    lc_path_segment(&path, lc_tenant_name(s));
    lc_text_puts(&path, "/arms");
    int status = lc_reply_print(s, lc_client_send(c, method, path.data, type, body->data, body->n), path.data);
    lc_text_close(&path);
    lc_client_free(c);
    return status;
}

/* arms remove|stop|start ID...: a PATCH with the ids under the verb's own name. The server says which of them it does
 * not know. These changes need no features, so they take no file. */
static int patch_ids(const struct lc_session *s, const struct lc_words *w)
{
    struct lc_text body = {0};
    lc_text_printf(&body, "{\"%s\":[", w->word[0]);
    for (size_t i = 1; i < w->n; i++) {
        if (i > 1)
            lc_text_puts(&body, ",");
        lc_text_json(&body, w->word[i]);
    }
    lc_text_puts(&body, "]}");
    int status = send_arms(s, "PATCH", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return status;
}

/* PUT or PATCH of a file. 1 after an error of the file, which was printed. PUT makes the file the whole
 * catalogue: arms that are not in it leave, but keep their history. */
static int load_arms(const struct lc_session *s, const char *method, const char *file, enum lc_header header)
{
    struct lc_text body = {0};
    int status = 1;
    const char *type = read_body(file, header, &body);
    if (type != NULL)
        status = send_arms(s, method, type, &body);
    lc_text_close(&body);
    return status;
}

/* Verbs are few and differ in their words, so they are told apart here and not by a table. A wrong --header
 * falls through to the usage line, as a wrong verb does. The exit status is that of the request, 2 for
 * words that fit no verb. */
static int run_arms(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *header_name = "auto";
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"header", LC_OPT_TEXT, &header_name, "auto|yes|no", "is the first row of the CSV a header? (default auto)"},
    };
    int rc = lc_args_parse(self, s, opts, 1, argc, argv, &w, 1, 64);
    if (rc != LC_GO)
        return rc;
    int header = lc_header_from_name(header_name);
    if (strcmp(w.word[0], "get") == 0 && w.n == 1)
        return lc_get_and_print(s, "/arms");
    const bool is_of_ids =
        strcmp(w.word[0], "remove") == 0 || strcmp(w.word[0], "stop") == 0 || strcmp(w.word[0], "start") == 0;
    if (is_of_ids && w.n >= 2)
        return patch_ids(s, &w);
    if (strcmp(w.word[0], "put") == 0 && w.n == 2 && header >= 0)
        return load_arms(s, "PUT", w.word[1], (enum lc_header)header);
    if (strcmp(w.word[0], "patch") == 0 && w.n == 2 && header >= 0)
        return load_arms(s, "PATCH", w.word[1], (enum lc_header)header);
    fprintf(stderr, "usage: laplacectl %s\n", self->synopsis);
    return 2;
}

/* The row that main.c finds; `text` is what --help shows behind the options. */
const struct lc_command lc_cmd_arms = {
    .name = "arms",
    .synopsis = "arms get | put FILE | patch FILE | remove ID... | stop ID... | start ID... [--header auto|yes|no]",
    .about = "the catalogue of arms: load, add, remove, stop, show",
    .text =
        "put replaces the catalogue; patch adds arms and changes them. stop hides an arm from everybody, start shows "
        "it\n"
        "again. FILE "
        "(\"-\": standard input) is\n"
        "  CSV      id or id,f1,f2,... a row; a header is noticed; a column named active holds true or false\n"
        "  NDJSON   (.ndjson, .jsonl) {\"id\":\"a1\",\"features\":[...],\"active\":true} or \"a1\" a line; put only\n"
        "  JSON     (.json) {\"arms\":[...]}; for patch also {\"remove\":[ids]}\n\n"
        "  laplacectl arms put films.csv --tenant shop\n",
    .run = run_arms,
};
