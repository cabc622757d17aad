/* Guesses at formats: see log_guess.h.
 *
 *   packed    the first bytes of gzip or zstd
 *   dsjson    an object with _label_cost, _label_Action, _labelIndex, or c._multi
 *   csv       no JSON, and more than one field; its columns say more:
 *     obd     item_id, with a propensity of the data set's names, or user_feature_0
 *     csv     arm and reward by their names, else --map has to say which column is what */
#include "evaluate/log_guess.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/json.h"
#include "common/text.h"
#include "evaluate/unpack.h"

#define SHOWN 70 /* characters of a header that are shown */

static bool has_column(const struct lc_csv *csv, const char *name)
{
    return lc_csv_find(csv, name) != SIZE_MAX;
}

/* A row of several fields is CSV, of what kind its names say. */
static bool guess_row(const struct lc_csv *csv, const char *line, size_t n, char *out)
{
    if (csv->n_fields < 2)
        return false;
    if (has_column(csv, "item_id") && (has_column(csv, "propensity_score") || has_column(csv, "action_prob") ||
                                       has_column(csv, "pscore") || has_column(csv, "user_feature_0")))
        snprintf(out, LC_WHY, "this looks like CSV of the Open Bandit Dataset: give --format obd");
    else if (has_column(csv, "arm") && has_column(csv, "reward"))
        snprintf(out, LC_WHY, "this looks like CSV: give --format csv");
    else
        snprintf(out, LC_WHY,
                 "this looks like CSV: give --format csv --map arm=COLUMN,reward=COLUMN,user=COLUMN; its columns are "
                 "%.*s",
                 n < SHOWN ? (int)n : SHOWN, line);
    return true;
}

static bool guess_csv(const char *line, size_t n, char *out)
{
    FILE *f = fmemopen((void *)(uintptr_t)line, n, "r");
    struct lc_csv csv;

    if (f == NULL)
        return false;
    lc_csv_open_stream(&csv, f, "");
    const bool is_known = lc_csv_next(&csv) == 1 && guess_row(&csv, line, n, out);
    lc_csv_close(&csv);
    fclose(f);
    return is_known;
}

static bool guess_object(const struct json_t *doc, char *out)
{
    if (lc_json_get(doc, "_label_cost") == NULL && lc_json_get(doc, "_label_Action") == NULL &&
        lc_json_get(doc, "_labelIndex") == NULL && lc_json_get(lc_json_get(doc, "c"), "_multi") == NULL)
        return false;
    snprintf(out, LC_WHY, "this looks like Vowpal Wabbit's dsjson: give --format dsjson");
    return true;
}

static bool is_packed(const char *line, size_t n)
{
    return (n >= 2 && memcmp(line, "\x1f\x8b", 2) == 0) || (n >= 4 && memcmp(line, "\x28\xb5\x2f\xfd", 4) == 0);
}

bool lc_log_guess(const char *line, size_t n, char *out)
{
    char why[LC_WHY];

    if (is_packed(line, n)) {
        snprintf(out, LC_WHY, "this file is packed: give --format obd, dsjson, ndjson or csv, which unpack it");
        return true;
    }
    while (n > 0 && strchr(" \t\r\n", line[n - 1]) != NULL)
        n--;
    struct json_t *doc = lc_json_parse_loosely(line, n, why);
    const bool is_known =
        doc != NULL ? guess_object(doc, out) : n > 0 && *line != '{' && *line != '[' && guess_csv(line, n, out);
    lc_json_free(doc);
    return is_known;
}

bool lc_log_guess_file(const char *path, char *out)
{
    FILE *plain = strcmp(path, "-") != 0 ? fopen(path, "rb") : NULL, *f = plain != NULL ? lc_unpack(plain) : NULL;
    char *line = NULL;
    size_t cap = 0, n;
    bool is_known = false;

    if (f == NULL)
        return false;
    if (lc_read_line(f, &line, &cap, &n) == LC_LINE) {
        is_known = lc_log_guess(line, n, out);
        if (!is_known && *line == '{') {
            snprintf(out, LC_WHY, "this looks like NDJSON: give --format ndjson");
            is_known = true;
        }
    }
    fclose(f);
    free(line);
    return is_known;
}
