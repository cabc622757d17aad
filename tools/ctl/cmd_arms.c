/* laplacectl arms: load the catalogue from CSV `id,f1,f2,...` or NDJSON, or show it.
 *
 * A CSV file becomes one JSON body {"arms":[...]}; the catalogue is small beside a graph (thousands of arms), so it
 * is built in memory. Every row must have as many features as the first.
 *
 * The file is read to its end before anything is sent: a fault in its last row changes nothing on the server.
 * The server checks again, and its faults come back by pointer. */
#include "ctl/commands.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/csv.h"
#include "common/edges.h"
#include "common/http_client.h"

/* --- CSV -> JSON ------------------------------------------------------------------------------------ */

/* A header row is one whose features are not all numbers, or, without features, whose only cell reads "id" or "arm". */
static bool looks_like_header(const struct lc_csv *csv)
{
    if (csv->n_fields == 1)
        return strcmp(csv->fields[0], "id") == 0 || strcmp(csv->fields[0], "arm") == 0;
    for (size_t i = 1; i < csv->n_fields; i++)
        if (!lc_is_number(csv->fields[i]))
            return true;
    return false;
}

/* The member "active" of one arm; 0 or -1 with csv->why. Other spellings are more likely a shifted column. */
static int put_active(struct lc_csv *csv, size_t i, struct lc_text *out)
{
    const char *v = csv->fields[i];
    bool is_on = strcmp(v, "true") == 0 || strcmp(v, "1") == 0;
    if (!is_on && strcmp(v, "false") != 0 && strcmp(v, "0") != 0)
        return lc_csv_fail(csv, "active is true, false, 1 or 0, not \"%.40s\"", v);
    lc_text_printf(out, ",\"active\":%s", is_on ? "true" : "false");
    return 0;
}

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

/* The whole file; 0 or -1 with csv->why. The first row says how many columns there are, header or not. */
static int arms_from_csv(struct lc_csv *csv, enum lc_header header, struct lc_text *out)
{
    size_t n_columns = 0, active = 0, n = 0;
    int rc;
    lc_text_puts(out, "{\"arms\":[");
    while ((rc = lc_csv_next(csv)) == 1) {
        bool is_first = n_columns == 0;
        if (is_first)
            n_columns = csv->n_fields;
        if (is_first && (header == LC_HEADER_YES || (header == LC_HEADER_AUTO && looks_like_header(csv)))) {
            active = lc_csv_find(csv, "active"); /* which is no feature */
            active = active == SIZE_MAX ? 0 : active;
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

/* The content type of FILE; NULL after a printed error. What is not called .json, .ndjson or .jsonl is CSV. */
static const char *read_body(const char *file, enum lc_header header, struct lc_text *body)
{
    struct lc_csv csv;
    char why[LC_WHY];
    const char *type = lc_type_of(file);
    if (type != NULL) {
        if (lc_read_file(file, body, why) == 0)
            return type;
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

/* arms remove|stop|start ID...: a PATCH with the ids under the verb's own name. */
static int patch_ids(const struct lc_session *s, const struct lc_words *w)
{
    struct lc_text body = {0};
    lc_text_printf(&body, "{\"%s\":", w->word[0]);
    for (size_t i = 1; i < w->n; i++) {
        lc_text_puts(&body, i > 1 ? "," : "[");
        lc_text_json(&body, w->word[i]);
    }
    lc_text_puts(&body, "]}");
    const int status = lc_tenant_request(s, "PATCH", "/arms", LC_JSON_TYPE, &body);
    lc_text_close(&body);
    return status;
}

/* PUT makes the file the whole catalogue: arms that are not in it leave, but keep their history. */
static int load_arms(const struct lc_session *s, const char *method, const char *file, enum lc_header header)
{
    struct lc_text body = {0};
    const char *type = read_body(file, header, &body);
    const int status = type != NULL ? lc_tenant_request(s, method, "/arms", type, &body) : 1;
    lc_text_close(&body);
    return status;
}

/* A wrong --header falls through to the usage line, as a wrong verb does. */
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
        return lc_tenant_request(s, "GET", "/arms", NULL, NULL);
    const bool is_of_ids =
        strcmp(w.word[0], "remove") == 0 || strcmp(w.word[0], "stop") == 0 || strcmp(w.word[0], "start") == 0;
    if (is_of_ids && w.n >= 2)
        return patch_ids(s, &w);
    if (strcmp(w.word[0], "put") == 0 && w.n == 2 && header >= 0)
        return load_arms(s, "PUT", w.word[1], (enum lc_header)header);
    if (strcmp(w.word[0], "patch") == 0 && w.n == 2 && header >= 0)
        return load_arms(s, "PATCH", w.word[1], (enum lc_header)header);
    return lc_usage(self);
}

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
