/* The words for a text that is no JSON.
 *
 * json_parse.c knows where it gave up, and not why. jansson, which the rest of the program does not know, is asked for
 * the words: it checks UTF-8 and refuses NUL, trailing bytes and (as told here) duplicate keys; numbers are all read as
 * doubles. It never sees a text that is nested deeper than LD_MAX_DEPTH before its first fault. Nobody comes here with
 * a text that is fine. */

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_key.h"
#include "base/problem.h"
#include "json/json_value.h"

/* Escaped for a pointer, as long as there is room: three bytes are kept free, an escape of two and the NUL. */
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

/* Bytes of a key as it came, escapes included. */
static size_t key_bytes(const char *key)
{
    size_t n = 0;
    while (key[n] != '"')
        n += key[n] == '\\' ? 2 : 1;
    return n;
}

/* Where the parser stopped. An object whose key is not known yet ends the pointer: the fault is in the object itself.
 */
static void put_pointer(const struct ld_refused *r, char *pointer, size_t cap)
{
    size_t n = (size_t)snprintf(pointer, cap, "%s", r->prefix);
    for (size_t i = 0; i < r->parser->n_places && n + 2 < cap; i++) {
        const struct ld_place *l = &r->parser->place[i];
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", l->index);
        if (l->is_object && l->key == NULL)
            break;
        const char *word = l->is_object ? r->text + (l->key - r->copy) : number;
        pointer[n++] = '/';
        append(pointer, cap, &n, word, l->is_object ? key_bytes(word) : strlen(number));
    }
}

/* The first bad line makes the detail, every one an entry of the list. */
static void tell(const struct ld_refused *r, const char *detail, struct ld_problem *p)
{
    char pointer[160];
    put_pointer(r, pointer, sizeof pointer);
    ld_problem_set(p, 400, r->prefix[0] == '\0' ? "the body is not JSON" : "a line is not JSON");
    ld_problem_add(p, pointer, "%s", detail);
}

/* What people stumble over that jansson has no words for; else its own. `end` counts the bytes that were read. */
static const char *reason(const char *text, size_t n, size_t end, const json_error_t *error)
{
    if (end > 0 && text[end - 1] == '\0')
        return "a NUL byte";
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return "a byte order mark: send UTF-8 without it";
    return error->text;
}

/* Where jansson has no memory in the middle of a token it calls the token invalid, so its allocations are watched. Its
 * tables' hash is seeded here, too, and not by whatever it finds at its first object. */
static _Thread_local bool has_run_short;

static void *watched_malloc(size_t n)
{
    void *memory = malloc(n);
    has_run_short |= memory == NULL;
    return memory;
}

static void settle_jansson(void)
{
    json_set_alloc_funcs(watched_malloc, free);
    json_object_seed((size_t)kb_keyed_str(ld_hash_key(), "jansson"));
}

/* By jansson, which refuses what the parser does. Line, column (in characters) and byte count from 1 and in the whole
 * body; they are those of the last one that was read. */
static void find_words(const struct ld_refused *r, struct ld_problem *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | (size_t)JSON_DECODE_ANY;
    json_error_t error;
    char detail[JSON_ERROR_TEXT_LENGTH + 96];
    (void)pthread_once(&once, settle_jansson);
    has_run_short = false;
    json_decref(json_loadb(r->text, r->n, flags, &error));
    const size_t end = error.position > 0 ? (size_t)error.position : 0;
    (void)snprintf(detail, sizeof detail, "line %zu, column %d, byte %zu: %s", r->lines + (size_t)error.line,
                   error.column, r->n_bytes + end, reason(r->text, r->n, end, &error));
    if (has_run_short)
        ld_problem_set(p, 503, "out of memory");
    else
        tell(r, detail, p);
}

void ld_parser_tell(const struct ld_refused *r, struct ld_problem *p)
{
    char detail[64];
    switch (r->parser->fault) {
    case LD_FAULT_TEXT:
        find_words(r, p);
        break;
    case LD_FAULT_DEPTH:
        (void)snprintf(detail, sizeof detail, "byte %zu: nested deeper than %u levels",
                       r->n_bytes + (size_t)(r->parser->at - r->copy) + 1, LD_MAX_DEPTH);
        tell(r, detail, p);
        ld_problem_limit(p, "depth", LD_MAX_DEPTH);
        break;
    default:
        ld_problem_set(p, 503, "out of memory");
    }
}
