/* Writer of JSON text: see text.h.
 *
 * Numbers: 17 significant digits always read back to the same double, 15 often do; the shortest of the three
 * lengths is taken, so that 0.1 is written 0.1, with a point in every locale (number.cc). Cost: amortised O(1) per
 * byte; some 700 instructions per number.
 *
 * Strings: ids may hold any UTF-8 and problems quote what clients sent, so bytes are checked on the way out as well;
 * an answer of ours is valid JSON whatever it is about. Slashes and characters beyond ASCII stand as they are.
 *
 * Failure sticks (is_failed): a text is put together by many small calls, and one check at the end is hard to forget.
 *
 * A number that is not finite fails the whole text: JSON has none, and leaving it out or writing null would say
 * something else. */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* Allocates nothing: a text that nothing is put into costs nothing. */
void ld_text_init(struct ld_text *t)
{
    *t = (struct ld_text){0};
}

/* Closing twice is fine. */
void ld_text_close(struct ld_text *t)
{
    free(t->data);
    ld_text_init(t);
}

/* The terminating NUL is put like any other byte, so that a failure to get memory for it is found in one place. */
char *ld_text_take(struct ld_text *t, size_t *n)
{
    ld_text_raw(t, "", 1);
    if (t->is_failed) {
        ld_text_close(t);
        *n = 0;
        return NULL;
    }
    char *data = t->data;
    *n = t->n - 1;
    ld_text_init(t);
    return data;
}

/* Room for `more` bytes; doubles. The first block has 512 bytes, enough for most answers. Once it has failed it
 * refuses for ever. */
static bool fit(struct ld_text *t, size_t more)
{
    if (t->is_failed)
        return false;
    if (t->cap - t->n >= more)
        return true;
    /* Keeps the doubling below from wrapping. */
    if (more > SIZE_MAX / 4 || t->n > SIZE_MAX / 4) {
        t->is_failed = true;
        return false;
    }
    size_t cap = t->cap < 512 ? 512 : t->cap;
    while (cap - t->n < more)
        cap *= 2;
    char *data = realloc(t->data, cap);
    if (data == NULL) {
        t->is_failed = true;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

/* n bytes as they are. */
void ld_text_raw(struct ld_text *t, const char *bytes, size_t n)
{
    if (!fit(t, n) || n == 0)
        return;
    memcpy(t->data + t->n, bytes, n);
    t->n += n;
}

/* What stands between values is a byte at a time, most often with room for it. */
static inline void put_byte(struct ld_text *t, char c)
{
    if (t->n < t->cap)
        t->data[t->n++] = c;
    else
        ld_text_raw(t, &c, 1);
}

/* Text of ours, already valid JSON. */
void ld_text_lit(struct ld_text *t, const char *s)
{
    ld_text_raw(t, s, strlen(s));
}

bool ld_text_is_control(const char *s)
{
    const unsigned char c = (unsigned char)s[0];
    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] < 0xa0);
}

/* Length of the UTF-8 sequence at s (NUL-terminated), 0 when it is none: over-long forms, surrogates and values
 * beyond U+10FFFF are refused (RFC 3629). The rows are those of RFC 3629, section 4: only the second byte has ranges
 * of its own. */
size_t ld_text_utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char lo, hi, second_lo, second_hi, length;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (s[0] < rows[i].lo || s[0] > rows[i].hi)
            continue;
        /* The NUL at the end is no continuation byte, so a sequence that was cut off ends here. */
        if (rows[i].length > 1 && (s[1] < rows[i].second_lo || s[1] > rows[i].second_hi))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].length;
    }
    return 0;
}

/* What must not stand in a JSON string as it is. RFC 8259, section 7: quote, backslash and what is below 0x20 must be
 * escaped. */
static void put_escaped(struct ld_text *t, char c)
{
    static const char plain[] = "\"\\\n\r\t", escaped[] = "\"\\nrt";
    const char *at = strchr(plain, c);
    char code[8];
    if (at != NULL)
        (void)snprintf(code, sizeof code, "\\%c", escaped[at - plain]);
    else
        (void)snprintf(code, sizeof code, "\\u%04x", (unsigned)(unsigned char)c);
    ld_text_lit(t, code);
}

/* Runs of plain ASCII, which is what ids are made of nearly always, are copied whole; only what stands between them
 * is looked at byte by byte. O(length). 0x7f is escaped as well, since terminals act on it. */
void ld_text_string(struct ld_text *t, const char *s)
{
    const unsigned char *at = (const unsigned char *)s;
    put_byte(t, '"');
    while (*at != '\0') {
        /* The common case: one memcpy for the whole string. */
        const unsigned char *run = at;
        while (*at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
            at++;
        ld_text_raw(t, (const char *)run, (size_t)(at - run));
        if (*at == '\0')
            break;
        size_t length = ld_text_utf8_length(at);
        if (length > 1)
            ld_text_raw(t, (const char *)at, length);
        else if (length == 1)
            put_escaped(t, (char)*at);
        else
            ld_text_lit(t, "\\ufffd");
        /* A byte that begins no character is replaced alone, and reading goes on behind it. */
        at += length > 0 ? length : 1;
    }
    put_byte(t, '"');
}

/* Not finite: the text fails, since JSON has no word for it and a line that cannot be read back must not be written. */
void ld_text_number(struct ld_text *t, double x)
{
    if (!isfinite(x))
        t->is_failed = true;
    else if (fit(t, LD_NUMBER_BYTES))
        t->n += ld_number_write(x, t->data + t->n);
}

/* Integers beyond 2^53 are written in full; a reader that holds numbers as doubles will round them, so the API
 * has none. */
void ld_text_count(struct ld_text *t, uint64_t x)
{
    if (fit(t, LD_NUMBER_BYTES))
        t->n += ld_count_write(x, t->data + t->n);
}

/* JSON's words, not 0 and 1. */
void ld_text_bool(struct ld_text *t, bool x)
{
    ld_text_lit(t, x ? "true" : "false");
}

/* An empty vector is [], whether or not there is an array behind it. O(n); values that are not finite fail the text. */
void ld_text_vector(struct ld_text *t, const double *x, size_t n)
{
    if (x == NULL && n > 0) {
        ld_text_lit(t, "null");
        return;
    }
    put_byte(t, '[');
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_number(t, x[i]);
    }
    put_byte(t, ']');
}

void ld_text_strings(struct ld_text *t, const char *const *s, size_t n)
{
    put_byte(t, '[');
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_string(t, s[i]);
    }
    put_byte(t, ']');
}

/* The first item is known by the bracket, or the colon, that stands before it. A string ends in a quote, so its
 * contents cannot be mistaken for one. The comma before the very first value of a text is left out as well. */
void ld_text_item(struct ld_text *t)
{
    const char before = t->n > 0 ? t->data[t->n - 1] : ':';
    if (before != '{' && before != '[' && before != ':')
        put_byte(t, ',');
}

/* The colon at its end tells ld_text_item that a value follows without a comma. */
void ld_text_key(struct ld_text *t, const char *name)
{
    const size_t n = strlen(name);
    ld_text_item(t);
    if (!fit(t, n + 3))
        return;
    char *out = t->data + t->n;
    out[0] = '"';
    memcpy(out + 1, name, n);
    memcpy(out + 1 + n, "\":", 2);
    t->n += n + 3;
}

/* The four below write a member: key, then value. */
void ld_text_put_string(struct ld_text *t, const char *name, const char *s)
{
    ld_text_key(t, name);
    if (s == NULL)
        ld_text_lit(t, "null");
    else
        ld_text_string(t, s);
}

void ld_text_put_number(struct ld_text *t, const char *name, double x)
{
    ld_text_key(t, name);
    ld_text_number(t, x);
}

void ld_text_put_count(struct ld_text *t, const char *name, uint64_t x)
{
    ld_text_key(t, name);
    ld_text_count(t, x);
}

void ld_text_put_bool(struct ld_text *t, const char *name, bool x)
{
    ld_text_key(t, name);
    ld_text_bool(t, x);
}
