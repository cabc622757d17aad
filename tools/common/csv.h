/* CSV reader (RFC 4180, with comma, semicolon or tab): rows of fields, errors with file and line.
 *
 * One row is in memory at a time, so files of any size can be read. Errors are final: after -1 the reader is
 * only good for closing. No function ends the program, except that there is no way on without memory
 * (text.h). */
#ifndef LC_CSV_H
#define LC_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/text.h"

struct lc_csv {
    const char *path; /* for messages; borrowed */
    /* NULL before open and after close */
    FILE *file;
    size_t line;            /* line on which the current row starts, from 1 */
    size_t next_line;       /* line of the next byte to be read */
    char separator;         /* found in the first row; '\0' before */
    unsigned char ahead[2]; /* read too early, while looking for a byte order mark */
    size_t n_ahead;
    bool is_owned;        /* close the file with the reader */
    struct lc_text bytes; /* the row's fields, each NUL-terminated */
    const char **fields;  /* [n_fields], valid until the next row */
    /* of the current row; room in `fields` */
    size_t n_fields, cap_fields;
    /* offsets of the fields in `bytes` while the row is being read */
    size_t *starts, cap_starts;
    char why[LC_WHY]; /* "file:line: ..." after an error */
};

/* "-" is standard input. 0, or -1 with csv->why filled. */
int lc_csv_open(struct lc_csv *csv, const char *path);
void lc_csv_open_stream(struct lc_csv *csv, FILE *file, const char *name); /* borrowed */
void lc_csv_close(struct lc_csv *csv);

/* Next row that is not blank and does not start with '#': 1, 0 at the end, -1 with csv->why filled. */
int lc_csv_next(struct lc_csv *csv);

/* Index of the field of the current row that is `name`, SIZE_MAX when there is none. */
size_t lc_csv_find(const struct lc_csv *csv, const char *name);

/* Field i as a finite number. False with csv->why = "file:line: field 3: ... is not a number". i counts from 0, the
 * message from 1. A missing field is no number. */
bool lc_csv_number(struct lc_csv *csv, size_t i, double *out);

/* Fills csv->why with "file:line: " and the message; returns -1. */
int lc_csv_fail(struct lc_csv *csv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool lc_is_number(const char *text); /* the whole text is one finite number */

#endif
