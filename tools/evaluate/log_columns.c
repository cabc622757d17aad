/* CSV with a header, for the formats that are CSV: see log_columns.h. */
#include "evaluate/log_columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int broken(struct lc_columns *c, struct lc_log *log)
{
    (void)ld_fail(&log->base.why, "%s", c->csv.why);
    return LD_DECISIONS_BROKEN;
}

int lc_columns_open(struct lc_columns *c, struct lc_log *log)
{
    lc_csv_open_stream(&c->csv, log->file, strcmp(log->o.path, "-") == 0 ? "standard input" : log->o.path);
    const int rc = lc_columns_header(c);

    log->base.line = c->csv.line;
    if (rc < 0)
        (void)broken(c, log);
    if (rc == 0)
        ld_decisions_fail(&log->base, NULL, "expected a header row");
    return rc == 1 ? 0 : -1;
}

int lc_columns_header(struct lc_columns *c)
{
    const int rc = lc_csv_next(&c->csv);

    c->n = rc == 1 ? c->csv.n_fields : 0;
    c->name = lc_alloc(c->n, sizeof *c->name);
    for (size_t i = 0; i < c->n; i++)
        c->name[i] = lc_copy(c->csv.fields[i]);
    return rc;
}

void lc_columns_close(struct lc_columns *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->name[i]);
    free(c->name);
    lc_csv_close(&c->csv);
    c->name = NULL;
    c->n = 0;
}

size_t lc_columns_find(const struct lc_columns *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->name[i], name) == 0)
            return i;
    return LC_NO_COLUMN;
}

int lc_columns_next(struct lc_columns *c, struct lc_log *log)
{
    const int rc = lc_csv_next(&c->csv);

    log->base.line = c->csv.line;
    if (ferror(log->file)) { /* a row cut off looks like one that ends with the file */
        ld_decisions_fail(&log->base, NULL, "%s",
                          errno == EBADMSG ? "the packed data are damaged or cut" : strerror(errno));
        return LD_DECISIONS_BROKEN;
    }
    if (rc < 0)
        return broken(c, log);
    if (rc == 1 && c->csv.n_fields != c->n)
        return ld_decisions_fail(&log->base, NULL, "%zu fields, where the header has %zu", c->csv.n_fields, c->n);
    return rc;
}

int lc_columns_number(const struct lc_columns *c, struct lc_log *log, size_t column, bool may_be_empty, double *out)
{
    const char *text = column != LC_NO_COLUMN ? c->csv.fields[column] : "";
    char *end;

    *out = (double)NAN;
    if (may_be_empty && *text == '\0')
        return 0;
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(*out))
        return 0;
    return ld_decisions_fail(&log->base, c->name[column], "\"%.40s\" is not a finite number", text);
}

void lc_columns_hash(const struct lc_columns *c, const struct ld_hasher *h, size_t column, double *x)
{
    const char *text = c->csv.fields[column];

    if (lc_is_number(text))
        ld_hash_number(h, c->name[column], strtod(text, NULL), x);
    else if (*text != '\0')
        ld_hash_category(h, c->name[column], text, x);
}

int lc_columns_place(const struct lc_columns *c, struct lc_log *log, size_t position, size_t time, struct ld_logged *ev)
{
    double v = 0;

    if (position != LC_NO_COLUMN && lc_columns_number(c, log, position, false, &v) != 0)
        return -1;
    if (!(v >= 0 && v <= 1e6 && v == floor(v)))
        return ld_decisions_fail(&log->base, c->name[position], "%g is no whole number from 0 to 1,000,000", v);
    ev->stratum = (uint32_t)v;
    if (time != LC_NO_COLUMN && !lc_log_time(c->csv.fields[time], &ev->at_ms))
        return ld_decisions_fail(&log->base, c->name[time], "\"%.40s\" is no time", c->csv.fields[time]);
    return 0;
}
