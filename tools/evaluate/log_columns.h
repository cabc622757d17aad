/* Rows of a CSV file with a header, by the names of its columns. */
#ifndef LC_LOG_COLUMNS_H
#define LC_LOG_COLUMNS_H

#include "common/csv.h"
#include "base/hashing.h"
#include "evaluate/log_reader.h"

#define LC_NO_COLUMN SIZE_MAX

struct lc_columns {
    struct lc_csv csv;
    char **name; /* [n] of the header */
    size_t n;
};

/* Opens the CSV in the log's file and reads its header. 0, or -1 with log->base.why.text. Close in either case. */
int lc_columns_open(struct lc_columns *c, struct lc_log *log);
/* The header of a CSV that is open already: what lc_csv_next says of it. Close in any case. */
int lc_columns_header(struct lc_columns *c);
void lc_columns_close(struct lc_columns *c);

/* Index of a column; LC_NO_COLUMN when there is none of this name. */
size_t lc_columns_find(const struct lc_columns *c, const char *name);

/* Next row with as many fields as the header: 1, 0, -1 or LD_DECISIONS_BROKEN. */
int lc_columns_next(struct lc_columns *c, struct lc_log *log);

/* The number in a column of the row in hand. An empty field, or none, is NaN where that is allowed; 0 or -1. */
int lc_columns_number(const struct lc_columns *c, struct lc_log *log, size_t column, bool may_be_empty, double *out);

/* x += the field as a feature of the column's name: a number where it is one, else a category; nothing when empty. */
void lc_columns_hash(const struct lc_columns *c, const struct ld_hasher *h, size_t column, double *x);

/* The position in a column, a whole number from 0 to 1,000,000, and the time in another, into *ev; nothing from
 * LC_NO_COLUMN. 0 or -1. */
int lc_columns_place(const struct lc_columns *c, struct lc_log *log, size_t position, size_t time,
                     struct ld_logged *ev);

#endif
