/* Memory that cannot fail, and text that grows. A command-line tool has nothing better to do without memory than
 * to say so and end: lc_alloc and what builds on it print a line and exit with status 1. */
#ifndef LC_TEXT_H
#define LC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

void *lc_alloc(size_t n, size_t size);             /* zeroed, never NULL; sizes multiply checked */
void *lc_regrow(void *ptr, size_t n, size_t size); /* realloc; new part not zeroed */
void lc_out_of_memory(size_t n, size_t size) __attribute__((noreturn));
char *lc_copy(const char *s);
bool lc_ends_with(const char *s, const char *tail);

/* An array of *cap items with room for at least `need`, by doubling: ptr, or where it has moved; new items are zero. */
void *lc_room(void *ptr, size_t *cap, size_t need, size_t size);

/* Growing text; data is NUL-terminated once something was put. Zero-initialised = empty. n counts without the NUL.
 * After close it is empty again and may be used again. */
struct lc_text {
    char *data;
    size_t n, cap;
};

void lc_text_close(struct lc_text *t);
void lc_text_clear(struct lc_text *t); /* keeps the memory; data becomes "" */
void lc_text_put(struct lc_text *t, const void *bytes, size_t n);
void lc_text_puts(struct lc_text *t, const char *s);
void lc_text_printf(struct lc_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* JSON values: a quoted string with its escapes; a number that reads back bit for bit; an array of numbers. s is UTF-8;
 * it is not checked here. */
void lc_text_json(struct lc_text *t, const char *s);
void lc_text_number(struct lc_text *t, double v);
void lc_text_vector(struct lc_text *t, const double *v, size_t n);

/* Members of a JSON object under way: a comma where one is due, the key, and the value. A NULL string leaves the member
 * out; a number that is not finite is null. `key` needs no escapes. */
void lc_put_key(struct lc_text *t, const char *key);
void lc_put_text(struct lc_text *t, const char *key, const char *value);
void lc_put_number(struct lc_text *t, const char *key, double v);
void lc_put_count(struct lc_text *t, const char *key, unsigned long long v);

/* For a terminal: control characters, which texts of servers and files may hold, become \u001b and the like, bytes that
 * are no UTF-8 \x9b; line breaks may stay. */
void lc_text_shown(struct lc_text *t, const char *s, bool keeps_lines);

/* One line, shown as above: of standard output; of standard error, behind "laplacectl: ", there also with the exit
 * status 1, or with that of a usage error, 2. */
void lc_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void lc_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int lc_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int lc_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "12,345" and the like; rotating static buffers, eight at a time per thread. */
const char *lc_thousands(unsigned long long v);

/* Reads a whole file ("-" is standard input). 0, or -1 with `why` (256 bytes) filled. */
int lc_read_file(const char *path, struct lc_text *out, char *why);

/* A file that is written beside its place, as PATH.part, and takes it when it is whole. */
struct lc_part {
    char *path, *name;
    FILE *file;
};
int lc_part_open(struct lc_part *p, const char *path); /* 0, or -1 with errno */
/* Whole: the part goes to the disk and takes its place; else, or where that fails, it is removed. 0; with errno -1 when
 * it could not be written, -2 when it could not take its place. */
int lc_part_close(struct lc_part *p, bool is_whole);

/* The most that one line of a log may have: a graph of a million edges has half of that. A few packed bytes may unpack
 * to a line without an end. */
#define LC_MAX_LINE ((size_t)64 << 20)
#define LC_LINE_TOO_LONG "a line of more than 64 MiB (LC_MAX_LINE)"
enum lc_line { LC_LINE = 1, LC_LINE_END = 0, LC_LINE_BROKEN = -1 /* errno */, LC_LINE_LONG = -2 };

/* The next line into *buffer, its end included and a NUL behind it; *buffer grows and is used again. */
enum lc_line lc_read_line(FILE *file, char **buffer, size_t *cap, size_t *n);

#define LC_WHY 256 /* size of every `why` buffer */

#endif
