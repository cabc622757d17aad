/* Where in a JSON text a byte stands: the JSON pointer of the value at hand when a parser gave up.
 *
 * A parser knows a line and a column; a person with a body of a thousand rewards wants "/517/reward". The scan
 * below follows brackets, keys and commas without judging the text, since it runs only on texts that have
 * just been refused. Keys are given as they stand in the text, escapes included. Cost: O(at).
 *
 * The two functions that use the scan of strings share its rule: a quote ends a string unless a backslash stands
 * before it. A text cut off inside a string ends there. */
#include "json/json_util.h"

#include <stdio.h>
#include <string.h>

#define MAX_LEVELS 64u /* deeper ones are left out of the pointer */

/* One bracket that is open at the place in question. */
struct level {
    bool is_object;
    bool wants_key;  /* object: the next string is a key */
    const char *key; /* object: the last key, NULL before the first and after a comma */
    size_t n_key;
    size_t index; /* array: commas so far */
};

/* 2 KiB on the stack; nothing is allocated. */
struct scan {
    struct level level[MAX_LEVELS];
    size_t depth; /* may exceed MAX_LEVELS; then only counted */
};

/* The innermost level, unless it is too deep to be kept (or there is none). Callers do nothing for such levels but
 * count them. */
static struct level *top(struct scan *s)
{
    return s->depth > 0 && s->depth <= MAX_LEVELS ? &s->level[s->depth - 1] : NULL;
}

/* End of the string that starts at text[i] == '"': the index after its closing quote, or n. i is past n when the text
 * ends in a backslash, hence the comparison. */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\')
            i++;
    return i < n ? i + 1 : n;
}

/* A value begins that has values inside. An array starts at index 0, an object before its first key. */
static void open_level(struct scan *s, bool is_object)
{
    s->depth++;
    if (top(s) != NULL)
        *top(s) = (struct level){.is_object = is_object, .wants_key = is_object};
}

/* In an object the next string is a key again; in an array the next value has the next index. NULL: between levels
 * that are not kept. */
static void see_comma(struct level *l)
{
    if (l == NULL)
        return;
    if (l->is_object) {
        l->wants_key = true;
        l->key = NULL;
    } else {
        l->index++;
    }
}

/* The byte at which the parser stopped opens or names something, but closes nothing: `[1,]` is refused inside the
 * array. A comma right before the place is not followed either. A key counts once its closing quote lies before the
 * place. */
static void scan_to(struct scan *s, const char *text, size_t n, size_t at)
{
    size_t i = 0;
    while (i < at && i < n) {
        char c = text[i];
        if (c == '"') {
            size_t end = skip_string(text, n, i);
            struct level *l = top(s);
            if (l != NULL && l->wants_key && end <= at) {
                l->key = text + i + 1;
                l->n_key = end - i >= 2 ? end - i - 2 : 0;
                l->wants_key = false;
            }
            i = end;
            continue;
        }
        if (c == '{' || c == '[')
            open_level(s, c == '{');
        else if (c == ',' && i + 1 < at)
            see_comma(top(s));
        else if ((c == '}' || c == ']') && i + 1 < at && s->depth > 0)
            s->depth--;
        i++;
    }
}

/* Bytes of a key or an index, escaped for a pointer, as long as there is room. Three bytes are kept free: an escape
 * of two, and the NUL. */
static void append(char *pointer, size_t cap, size_t *n, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes && *n + 3 < cap; i++) {
        if (bytes[i] == '~' || bytes[i] == '/') {
            pointer[(*n)++] = '~';
            pointer[(*n)++] = bytes[i] == '~' ? '0' : '1';
        } else {
            pointer[(*n)++] = bytes[i];
        }
    }
    pointer[*n] = '\0';
}

/* An object whose key is not known yet ends the pointer: the fault is in the object itself. `pointer` may hold a
 * prefix (the line of an NDJSON body) and stays NUL-terminated; it is cut at a whole byte when it does not fit. */
void ld_json_where(const char *text, size_t n, size_t at, char *pointer, size_t cap)
{
    struct scan s = {.depth = 0};
    size_t used = strlen(pointer);
    scan_to(&s, text, n, at);
    for (size_t k = 0; k < s.depth && k < MAX_LEVELS && used + 2 < cap; k++) {
        const struct level *l = &s.level[k];
        if (l->is_object && l->key == NULL)
            break;
        char number[24];
        int digits = snprintf(number, sizeof number, "%zu", l->index);
        pointer[used++] = '/';
        append(pointer, cap, &used, l->is_object ? l->key : number, l->is_object ? l->n_key : (size_t)digits);
    }
}

/* One pass before parsing, without memory: brackets inside strings do not count. O(n). Unbalanced brackets are the
 * parser's to refuse. */
size_t ld_json_too_deep(const char *text, size_t n, size_t max_depth)
{
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            i = skip_string(text, n, i) - 1;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > max_depth)
                return i;
        } else if ((text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return SIZE_MAX;
}
