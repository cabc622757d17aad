/* A growing text that JSON is written into. Failure (no memory, or a number that is not finite) sticks: later
 * puts do nothing and ld_text_take returns NULL, so that callers check once. Commas are set by the writer: a
 * key or an item puts one unless it is the first of its object or array. */
#ifndef LD_TEXT_H
#define LD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ld_text {
    char *data;
    size_t n, cap;
    bool is_failed;
};

void ld_text_init(struct ld_text *t);
void ld_text_close(struct ld_text *t);

/* The text, NUL-terminated and malloc'd, with its length in *n; NULL after a failure. Closes t. */
char *ld_text_take(struct ld_text *t, size_t *n);

void ld_text_raw(struct ld_text *t, const char *bytes, size_t n);
void ld_text_lit(struct ld_text *t, const char *s);

/* Values. A string is quoted and escaped; bytes that are not UTF-8 become U+FFFD. A number reads back bit for
 * bit: 15, 16 or 17 digits, whichever is the first to do so, with a point whatever the locale. */
void ld_text_string(struct ld_text *t, const char *s);
void ld_text_number(struct ld_text *t, double x);
void ld_text_count(struct ld_text *t, uint64_t x);
void ld_text_bool(struct ld_text *t, bool x);
void ld_text_vector(struct ld_text *t, const double *x, size_t n); /* [x...]; null when x is NULL and n > 0 */
void ld_text_strings(struct ld_text *t, const char *const *s, size_t n);

/* Bytes of the UTF-8 character at s (NUL-terminated), 0 when it is none. */
size_t ld_text_utf8_length(const unsigned char *s);
/* Whether a control character begins at s (NUL-terminated): of ASCII, or one of U+0080 to U+009F. */
bool ld_text_is_control(const char *s);

void ld_text_item(struct ld_text *t);                  /* before a value in an array: the comma when due */
void ld_text_key(struct ld_text *t, const char *name); /* "name": with the comma when due; name needs no escapes */

/* key and value in one; a NULL string is written as null. */
void ld_text_put_string(struct ld_text *t, const char *name, const char *s);
void ld_text_put_number(struct ld_text *t, const char *name, double x);
void ld_text_put_count(struct ld_text *t, const char *name, uint64_t x);
void ld_text_put_bool(struct ld_text *t, const char *name, bool x);

#endif
