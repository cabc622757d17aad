/* Memory that cannot fail, and text that grows. A command-line tool has nothing better to do without memory than
 * to say so and end: lc_alloc and what builds on it print a line and exit with status 1. */
#ifndef LC_TEXT_H
#define LC_TEXT_H

#include <stddef.h>

void *lc_alloc(size_t n, size_t size);             /* zeroed, never NULL; sizes multiply checked */
void *lc_regrow(void *ptr, size_t n, size_t size); /* realloc; new part not zeroed */
void lc_out_of_memory(size_t n, size_t size) __attribute__((noreturn));
char *lc_copy(const char *s);

/* Makes *ptr, an array of *cap items, hold at least `need`, by doubling. */
void lc_reserve(void **ptr, size_t *cap, size_t need, size_t size);

/* Growing text; data is NUL-terminated once something was put. Zero-initialised = empty. n counts without the
 * NUL. After close it is empty again and may be used again. */
struct lc_text {
    char *data;
    size_t n, cap;
};

void lc_text_close(struct lc_text *t);
void lc_text_clear(struct lc_text *t); /* keeps the memory; data becomes "" */
void lc_text_put(struct lc_text *t, const void *bytes, size_t n);
void lc_text_puts(struct lc_text *t, const char *s);
void lc_text_printf(struct lc_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* JSON values: a quoted string with its escapes; a number that reads back bit for bit; an array of numbers. s
 * is UTF-8; it is not checked here. */
void lc_text_json(struct lc_text *t, const char *s);
void lc_text_number(struct lc_text *t, double v);
void lc_text_vector(struct lc_text *t, const double *v, size_t n);

/* "12,345" and the like; rotating static buffers, eight at a time per thread. */
const char *lc_thousands(unsigned long long v);

/* Reads a whole file ("-" is standard input). 0, or -1 with `why` (256 bytes) filled. */
int lc_read_file(const char *path, struct lc_text *out, char *why);

#define LC_WHY 256 /* size of every `why` buffer */

#endif
