/* The one reader of JSON texts, in one pass: see json_value.h.
 *
 * It knows where a text is at fault, and not how to say it: jansson (json_refused.c), which is slow, finds the words.
 * So it takes what jansson takes, as the same tree, and nothing else: tests/server/json/test_json_parse.c and the fuzz
 * target `values` compare them. RFC 8259 is the grammar; besides, no key twice, no NUL in strings, no more than
 * LD_MAX_DEPTH levels.
 *
 * The text is a copy that ends in a NUL, which no value may contain: every loop below stops there at the latest. After
 * a fault r->at may be behind it: nothing is read any more then, and each list that is open notes where it stood.
 * Strings stay where they stand, their closing quote becomes a NUL, and escapes, which are longer than what they mean,
 * are undone in place.
 *
 * What is open lies on a stack; at its end an array or object moves from there into the document, in one piece.
 *
 * Numbers: digits are collected in an integer. Up to 2^53, and with at most 22 powers of ten, integer and power are
 * doubles and one division or multiplication rounds correctly [CL]; all others go to number.cc.
 *
 * Cost: some 200 instructions per number of a vector, 10 a byte of a string: a fifteenth of jansson's and a nineteenth
 * of its time (docs/PERFORMANCE.md). */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_doc.h"
#include "json/json_value.h"
#include "base/number.h"
#include "json/rules.h"
#include "base/text.h"

#if FLT_EVAL_METHOD != 0
#error "a double must be rounded once: compile for SSE2 or another unit without extended precision"
#endif

#define FEW_MEMBERS 64 /* each key is compared with all before it; those of more are sorted at the end */
#define MOST_DIGITS 18 /* fit an int64_t */

static bool read_value(struct ld_parser *r, struct ld_value *out);

/* Allocates nothing. */
void ld_parser_init(struct ld_parser *r, struct ld_doc *doc)
{
    r->doc = doc;
    r->stack = NULL;
    r->cap_stack = 0;
}

void ld_parser_close(struct ld_parser *r)
{
    free(r->stack);
    ld_parser_init(r, r->doc);
}

static inline void skip_space(struct ld_parser *r)
{
    while ((unsigned char)*r->at <= ' ' && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* --- numbers ----------------------------------------------------------------------------------------- */

/* Appends the digits that come to *whole, modulo 2^64: how many there were is the caller's to look at. */
static inline void read_digits(const char **at, uint64_t *whole)
{
    const char *c = *at;
    uint64_t sum = *whole;
    for (; is_digit(*c); c++)
        sum = sum * 10 + (uint64_t)(*c - '0');
    *whole = sum;
    *at = c;
}

/* *at is behind e or E. Of exponents with more than MOST_DIGITS digits only the sign counts. */
static bool read_exponent(const char **at, ptrdiff_t *exponent)
{
    uint64_t whole = 0;
    const bool is_negative = **at == '-';
    *at += **at == '-' || **at == '+';
    if (!is_digit(**at))
        return false;
    while (**at == '0')
        (*at)++;
    const char *digits = *at;
    read_digits(at, &whole);
    if (*at - digits > MOST_DIGITS)
        whole = UINT64_C(1000000000000000000);
    *exponent += is_negative ? -(ptrdiff_t)whole : (ptrdiff_t)whole;
    return true;
}

/* [begin, end) is a number; n of its digits, without the exponent's, are `exponent` powers of ten from being whole. Too
 * small is 0; too large is a fault. Kept out of line: it would take registers of those that are read at once. */
static __attribute__((noinline)) bool read_by_library(const char *begin, const char *end, ptrdiff_t n,
                                                      ptrdiff_t exponent, double *out)
{
    const char *digit = begin + (*begin == '-');
    if (ld_number_read(begin, end, out))
        return true;
    for (; *digit == '0' || *digit == '.'; digit++)
        n -= *digit == '0';
    *out = *begin == '-' ? -0.0 : 0.0;
    return n + exponent < 0;
}

/* What JSON calls a number; from_chars and strtod would not hold to its grammar. */
static bool read_number(struct ld_parser *r, struct ld_value *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *digits = r->at + (*r->at == '-'), *at = digits;
    uint64_t whole = 0;
    ptrdiff_t exponent = 0;
    read_digits(&at, &whole);
    if (at == digits || (*digits == '0' && at > digits + 1))
        return false;
    ptrdiff_t n = at - digits;
    if (*at == '.') {
        const char *fraction = ++at;
        read_digits(&at, &whole);
        exponent = fraction - at;
        n -= exponent;
        if (exponent == 0)
            return false;
    }
    if ((*at == 'e' || *at == 'E') && (at++, !read_exponent(&at, &exponent)))
        return false;
    const char *begin = r->at;
    r->at += at - begin;
    out->kind = LD_V_NUMBER;
    if (n > MOST_DIGITS || whole > UINT64_C(1) << DBL_MANT_DIG || exponent < -22 || exponent > 22)
        return read_by_library(begin, at, n, exponent, &out->as.number);
    const double x = exponent < 0 ? (double)whole / power[-exponent] : (double)whole * power[exponent];
    out->as.number = *begin == '-' ? -x : x;
    return true;
}

/* --- strings ----------------------------------------------------------------------------------------- */

/* Four hexadecimal digits, or -1. */
static long read_hex(const char *s)
{
    long code = 0;
    for (size_t i = 0; i < 4; i++) {
        const char c = s[i];
        if (is_digit(c))
            code = code * 16 + (c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            code = code * 16 + ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return code;
}

/* \uXXXX, or two of them for what lies beyond U+FFFF; r->at is at the first u and goes behind it all. */
static char *read_unicode(struct ld_parser *r, char *to)
{
    long code = read_hex(r->at + 1);
    r->at += 5;
    if (code >= 0xd800 && code < 0xdc00 && r->at[0] == '\\' && r->at[1] == 'u') {
        const long low = read_hex(r->at + 2);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
        r->at += 6;
    }
    if (code <= 0 || (code >= 0xd800 && code < 0xe000))
        return NULL;
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(first[n_more] | code >> 6 * n_more);
    for (int i = n_more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> 6 * i & 0x3f));
    return to;
}

/* A backslash is in hand. Where writing goes on, or NULL. */
static char *read_escape(struct ld_parser *r, char *to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = *++r->at;
    if (c == 'u')
        return read_unicode(r, to);
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    if (name == NULL)
        return NULL;
    r->at++;
    *to++ = values[name - names];
    return to;
}

/* Of ASCII, and neither the string's end nor an escape; NUL is none. */
static bool is_plain(char c)
{
    return c != '"' && c != '\\' && (unsigned char)c >= ' ' && (unsigned char)c < 0x80;
}

/* One character that is not plain, moved to `to`. Where writing goes on, or NULL. */
static char *read_character(struct ld_parser *r, char *to)
{
    if (*r->at == '\\')
        return read_escape(r, to);
    const size_t length = (unsigned char)*r->at >= ' ' ? ld_text_utf8_length((const unsigned char *)r->at) : 0;
    memmove(to, r->at, length);
    r->at += length;
    return length > 0 ? to + length : NULL;
}

/* The opening quote is in hand. *n: its bytes. NULL: a doubt. */
static const char *read_string(struct ld_parser *r, uint32_t *n)
{
    char *begin = ++r->at, *to = begin;
    for (;;) {
        char *run = r->at;
        while (is_plain(*r->at))
            r->at++;
        if (to != run)
            memmove(to, run, (size_t)(r->at - run));
        to += r->at - run;
        if (*r->at == '"')
            break;
        to = read_character(r, to);
        if (to == NULL)
            return NULL;
    }
    r->at++;
    *to = '\0';
    *n = (uint32_t)(to - begin);
    return begin;
}

/* --- arrays and objects ------------------------------------------------------------------------------ */

static bool push(struct ld_parser *r, const struct ld_member *m)
{
    if (r->n_stack == r->cap_stack) {
        const size_t cap = r->cap_stack == 0 ? 64 : 2 * r->cap_stack;
        struct ld_member *stack = realloc(r->stack, cap * sizeof *stack);
        r->fault = stack == NULL ? LD_FAULT_MEMORY : r->fault;
        if (stack == NULL)
            return false;
        r->stack = stack;
        r->cap_stack = cap;
    }
    r->stack[r->n_stack++] = *m;
    return true;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A key that stands twice in an object of many members, those from base on. NULL: there is none. O(n log n). */
static __attribute__((noinline)) const char *find_repeat(struct ld_parser *r, size_t base)
{
    const size_t n = r->n_stack - base;
    const char **key = malloc(n * sizeof *key), *found = NULL;
    if (key == NULL) {
        r->fault = LD_FAULT_MEMORY;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        key[i] = r->stack[base + i].key;
    qsort(key, n, sizeof *key, by_key);
    for (size_t i = 1; i < n && found == NULL; i++)
        if (strcmp(key[i - 1], key[i]) == 0)
            found = key[i];
    free(key);
    return found;
}

/* Moves all from base on off the stack: *out becomes their array or object. */
static bool close_list(struct ld_parser *r, size_t base, enum ld_value_kind kind, struct ld_value *out)
{
    const size_t n = r->n_stack - base;
    void *memory = ld_doc_alloc(r->doc, n, kind == LD_V_ARRAY ? sizeof *out->as.item : sizeof *out->as.member);
    *out = (struct ld_value){.kind = kind, .n = (uint32_t)n};
    r->fault = memory == NULL ? LD_FAULT_MEMORY : r->fault;
    if (memory == NULL)
        return false;
    if (kind == LD_V_ARRAY)
        out->as.item = memory;
    else
        out->as.member = memory;
    for (size_t i = 0; kind == LD_V_ARRAY && i < n; i++)
        out->as.item[i] = r->stack[base + i].value;
    for (size_t i = 0; kind == LD_V_OBJECT && i < n; i++)
        out->as.member[i] = r->stack[base + i];
    r->n_stack = base;
    r->depth--;
    return true;
}

/* A member's key with its colon; those from base on are its object's so far. */
static bool read_key(struct ld_parser *r, size_t base, const char **key)
{
    uint32_t n;
    *key = *r->at == '"' ? read_string(r, &n) : NULL;
    if (*key == NULL)
        return false;
    for (size_t i = base; i < r->n_stack && r->n_stack - base < FEW_MEMBERS; i++)
        if (strcmp(r->stack[i].key, *key) == 0)
            return false;
    skip_space(r);
    return *r->at++ == ':';
}

static inline bool has_many(const struct ld_parser *r, size_t base, enum ld_value_kind kind)
{
    return kind == LD_V_OBJECT && r->n_stack - base > FEW_MEMBERS;
}

/* The list that is open does not come to its end: key, or index, is what was in hand. Those outside of it follow. */
static bool give_up(struct ld_parser *r, size_t base, enum ld_value_kind kind, const char *key, size_t index)
{
    const char *repeat = has_many(r, base, kind) ? find_repeat(r, base) : NULL;
    if (repeat != NULL || r->n_places == 0) /* a repeat stands before whatever else is wrong */
        r->n_places = r->depth;
    r->place[--r->depth] =
        (struct ld_place){.is_object = kind == LD_V_OBJECT, .key = repeat != NULL ? repeat : key, .index = index};
    r->n_stack = base;
    return false;
}

/* An array or object whose opening bracket is in hand. */
static bool read_list(struct ld_parser *r, struct ld_value *out)
{
    const enum ld_value_kind kind = *r->at == '{' ? LD_V_OBJECT : LD_V_ARRAY;
    const char end = kind == LD_V_OBJECT ? '}' : ']';
    const size_t base = r->n_stack;
    struct ld_member m = {.key = NULL};
    if (r->depth == LD_MAX_DEPTH) {
        r->fault = LD_FAULT_DEPTH;
        return false;
    }
    r->depth++;
    do {
        r->at++;
        skip_space(r);
        if (*r->at == end && r->n_stack == base)
            break;
        if (kind == LD_V_OBJECT && !read_key(r, base, &m.key))
            return give_up(r, base, kind, m.key, 0);
        const bool is_number = is_digit(*r->at) || *r->at == '-'; /* vectors are most of most bodies */
        if (!(is_number ? read_number(r, &m.value) : read_value(r, &m.value)) || !push(r, &m))
            return give_up(r, base, kind, m.key, r->n_stack - base);
        skip_space(r);
    } while (*r->at == ',');
    if (*r->at++ == end && (!has_many(r, base, kind) || (find_repeat(r, base) == NULL && r->fault == LD_FAULT_TEXT)) &&
        close_list(r, base, kind, out))
        return true;
    return give_up(r, base, kind, m.key, r->n_stack - base - (r->n_stack > base));
}

/* --- values ------------------------------------------------------------------------------------------ */

static bool read_word(struct ld_parser *r, const char *word, enum ld_value_kind kind, struct ld_value *out)
{
    const size_t n = strlen(word);
    *out = (struct ld_value){.kind = kind};
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* Recurses as deep as the text does, LD_MAX_DEPTH levels at most. */
static bool read_value(struct ld_parser *r, struct ld_value *out)
{
    skip_space(r);
    switch (*r->at) {
    case '"':
        out->kind = LD_V_STRING;
        out->as.string = read_string(r, &out->n);
        return out->as.string != NULL;
    case '{':
    case '[':
        return read_list(r, out);
    case 't':
        return read_word(r, "true", LD_V_TRUE, out);
    case 'f':
        return read_word(r, "false", LD_V_FALSE, out);
    case 'n':
        return read_word(r, "null", LD_V_NULL, out);
    default:
        return read_number(r, out);
    }
}

bool ld_parser_read(struct ld_parser *r, char *text, size_t n, struct ld_value *out)
{
    r->at = text;
    r->fault = LD_FAULT_TEXT;
    r->depth = r->n_places = 0;
    r->n_stack = 0;
    if (!read_value(r, out))
        return false;
    skip_space(r);
    return r->at == text + n;
}
