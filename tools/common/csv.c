/* CSV reader: a state machine over characters, one row at a time, in constant memory but for the row itself.
 *
 *   - fields are separated by one of , ; TAB: the first of them outside quotes in the first row decides for the file
 *   - a field in double quotes may hold separators, line breaks and doubled quotes ("" = ")
 *   - rows end with LF, CRLF or the end of the file; a UTF-8 byte order mark is skipped
 *   - blank rows and rows that begin with # are skipped (edge lists in the wild carry such comments)
 *   - spaces around unquoted fields are dropped
 *
 * A quote that never closes, text after a closing quote, a NUL byte, a field of more than 1 MiB or a row of more than
 * 16 MiB or 1,048,576 fields is an error with file and line. Cost: O(bytes). */
#include "common/csv.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FIELD (1u << 20)
#define MAX_ROW (16u << 20)
#define MAX_FIELDS (1u << 20)

/* `line` is where the row starts, which for a quoted field with line breaks may be some lines up. */
int lc_csv_fail(struct lc_csv *csv, const char *fmt, ...)
{
    va_list args;
    int n = snprintf(csv->why, sizeof csv->why, "%.120s:%zu: ", csv->path, csv->line);
    va_start(args, fmt);
    if (n > 0 && (size_t)n < sizeof csv->why)
        vsnprintf(csv->why + n, sizeof csv->why - (size_t)n, fmt, args);
    va_end(args);
    return -1;
}

static int raw_char(struct lc_csv *csv)
{
    if (csv->n_ahead == 0)
        return getc_unlocked(csv->file);
    int c = csv->ahead[0];
    csv->ahead[0] = csv->ahead[1];
    csv->n_ahead--;
    return c;
}

/* Skips a byte order mark at the start; other bytes that were read on the way are kept in `ahead`. One byte can be
 * pushed back by ungetc for certain, three may have been read: hence `ahead` for those before. */
static void skip_mark(struct lc_csv *csv)
{
    static const int mark[3] = {0xEF, 0xBB, 0xBF};
    int c = '\0';
    for (size_t i = 0; i < 3; i++) {
        c = getc_unlocked(csv->file);
        if (c != mark[i])
            break;
        if (i == 2) {
            csv->n_ahead = 0;
            return;
        }
        csv->ahead[csv->n_ahead++] = (unsigned char)c;
    }
    if (c != EOF)
        ungetc(c, csv->file);
}

void lc_csv_open_stream(struct lc_csv *csv, FILE *file, const char *name)
{
    *csv = (struct lc_csv){.path = name, .file = file, .next_line = 1};
    skip_mark(csv);
}

/* A folder opens on Linux and fails at the first read; lc_csv_next then tells. */
int lc_csv_open(struct lc_csv *csv, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (f == NULL) {
        *csv = (struct lc_csv){.path = path};
        snprintf(csv->why, sizeof csv->why, "%.160s: %s", path, strerror(errno));
        return -1;
    }
    lc_csv_open_stream(csv, f, is_stdin ? "standard input" : path);
    csv->is_owned = !is_stdin;
    return 0;
}

void lc_csv_close(struct lc_csv *csv)
{
    if (csv->is_owned && csv->file != NULL)
        fclose(csv->file);
    lc_text_close(&csv->bytes);
    free(csv->fields);
    free(csv->starts);
    csv->file = NULL;
    csv->fields = NULL;
    csv->starts = NULL;
    csv->n_fields = csv->cap_fields = csv->cap_starts = 0;
}

/* --- characters ------------------------------------------------------------------------------------- */

/* Next character with CRLF folded into LF; counts lines. A lone CR ends a line, too (old Macintosh files). */
static int next_char(struct lc_csv *csv)
{
    int c = raw_char(csv);
    if (c == '\r') {
        int d = raw_char(csv);
        if (d != '\n' && d != EOF)
            ungetc(d, csv->file);
        c = '\n';
    }
    if (c == '\n')
        csv->next_line++;
    return c;
}

/* Decides the separator of the file when it meets the first one. A file of one column never decides, and then all three
 * characters would still do. */
static bool is_separator(struct lc_csv *csv, int c)
{
    if (csv->separator != '\0')
        return c == csv->separator;
    if (c != ',' && c != ';' && c != '\t')
        return false;
    csv->separator = (char)c;
    return true;
}

/* Where there is room, as there nearly always is, without a call: logs have a hundred million characters. */
static void put_byte(struct lc_text *t, char byte)
{
    if (t->n + 1 < t->cap) {
        t->data[t->n++] = byte;
        t->data[t->n] = '\0';
    } else {
        lc_text_put(t, &byte, 1);
    }
}

/* Appends to the field that starts at `start`; 0 or -1 with why. The limit stops a file whose quote never closes from
 * being read into one field. */
static int put_char(struct lc_csv *csv, size_t start, int c)
{
    if (c == '\0')
        return lc_csv_fail(csv, "a NUL byte: this is no text file");
    if (csv->bytes.n - start >= MAX_FIELD)
        return lc_csv_fail(csv, "a field of more than 1 MiB (a quote that is not closed?)");
    put_byte(&csv->bytes, (char)c);
    return 0;
}

/* --- fields ----------------------------------------------------------------------------------------- */

/* After the opening quote. Leaves the character that ends the field (separator, LF or EOF) in *end. */
static int quoted_field(struct lc_csv *csv, size_t start, int *end)
{
    for (;;) {
        int c = next_char(csv);
        if (c == EOF)
            return lc_csv_fail(csv, "a quote is not closed");
        if (c == '"') {
            c = next_char(csv);
            if (c != '"') {
                while (c == ' ')
                    c = next_char(csv);
                if (c != EOF && c != '\n' && !is_separator(csv, c))
                    return lc_csv_fail(csv, "text after a closing quote");
                *end = c;
                return 0;
            }
        }
        if (put_char(csv, start, c) != 0)
            return -1;
    }
}

/* First character c of the field was read already. Trailing blanks are cut. */
static int plain_field(struct lc_csv *csv, size_t start, int c, int *end)
{
    for (; c != EOF && c != '\n' && !is_separator(csv, c); c = next_char(csv))
        if (put_char(csv, start, c) != 0)
            return -1;
    while (csv->bytes.n > start &&
           strchr(" \t", csv->bytes.data[csv->bytes.n - 1]) != NULL) /* a tab that separates not */
        csv->bytes.n--;
    *end = c;
    return 0;
}

/* One field into bytes, NUL included; *end as above. c: the field's first character. */
static int read_field(struct lc_csv *csv, int c, int *end)
{
    /* an offset: the buffer moves while it grows */
    size_t start = csv->bytes.n;
    if (start >= MAX_ROW)
        return lc_csv_fail(csv, "a row of more than 16 MiB");
    if (csv->n_fields >= MAX_FIELDS)
        return lc_csv_fail(csv, "a row of more than 1,048,576 fields");
    csv->starts = lc_room(csv->starts, &csv->cap_starts, csv->n_fields + 1, sizeof *csv->starts);
    while (c == ' ')
        c = next_char(csv);
    int rc = c == '"' ? quoted_field(csv, start, end) : plain_field(csv, start, c, end);
    if (rc != 0)
        return -1;
    lc_text_put(&csv->bytes, "", 1);
    csv->starts[csv->n_fields++] = start;
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------------- */

/* First character of the next row that counts, or EOF. A line of spaces alone counts as blank. */
static int start_of_row(struct lc_csv *csv)
{
    for (;;) {
        csv->line = csv->next_line;
        int c = next_char(csv);
        while (c == ' ')
            c = next_char(csv);
        if (c != '#' && c != '\n')
            return c;
        while (c != EOF && c != '\n') /* a comment */
            c = next_char(csv);
    }
}

/* Pointers only now: the buffer moves while it grows. */
static void point_fields(struct lc_csv *csv)
{
    csv->fields = lc_room(csv->fields, &csv->cap_fields, csv->n_fields, sizeof *csv->fields);
    for (size_t i = 0; i < csv->n_fields; i++)
        csv->fields[i] = csv->bytes.data + csv->starts[i];
}

/* Offsets are collected while the row is read and turned into pointers at its end. A separator at the end of a row
 * makes one more, empty field. */
int lc_csv_next(struct lc_csv *csv)
{
    int end = '\0';
    csv->n_fields = 0;
    lc_text_clear(&csv->bytes);
    int c = start_of_row(csv);
    if (c == EOF) {
        if (ferror(csv->file))
            return lc_csv_fail(csv, "%s", strerror(errno));
        return 0;
    }
    for (;;) {
        if (read_field(csv, c, &end) != 0)
            return -1;
        if (end == '\n' || end == EOF)
            break;
        c = next_char(csv);
    }
    point_fields(csv);
    return 1;
}

size_t lc_csv_find(const struct lc_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->n_fields; i++)
        if (strcmp(csv->fields[i], name) == 0)
            return i;
    return SIZE_MAX;
}

/* --- numbers ---------------------------------------------------------------------------------------- */

/* strtod also takes hexadecimal and surrounding text; the latter is refused here. An empty field is no number, so a
 * missing weight is an error and not 0. */
static bool to_number(const char *text, double *out)
{
    char *end = NULL;
    if (*text == '\0')
        return false;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

bool lc_is_number(const char *text)
{
    double v;
    return to_number(text, &v);
}

bool lc_csv_number(struct lc_csv *csv, size_t i, double *out)
{
    if (i < csv->n_fields && to_number(csv->fields[i], out))
        return true;
    lc_csv_fail(csv, "field %zu: \"%.40s\" is not a finite number", i + 1, i < csv->n_fields ? csv->fields[i] : "");
    return false;
}
