/* The document: JSON or NDJSON text parsed.
 *
 * json_parse.c reads it. Where that gives up, jansson, which the rest of the program does not know, is asked for the
 * words: it checks UTF-8 and refuses NUL, trailing bytes and (as told here) duplicate keys; numbers are all read as
 * doubles. It never sees a text that is nested deeper than LD_MAX_DEPTH before its first fault.
 *
 * NDJSON is parsed line by line into one array, so that decoders see items either way; which line an item came
 * from is kept beside it, since blank lines count for whoever looks for line 517. All bad lines are reported, not
 * only the first: whoever sends ten thousand lines wants to fix them once.
 *
 * Strings stay in the document's copy of the text. Cost: json_parse.c's. */
#include "json/json_in.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_key.h"
#include "json/json_util.h"
#include "base/magnitude.h"

/* A text that is refused: all of a body, or a line of NDJSON. */
struct refused {
    const struct ld_parser *parser;
    const char *text, *copy; /* as it came, and as the parser has left it */
    size_t n;
    const char *prefix;    /* of pointers: "/17" for a line of NDJSON, "" for a whole body */
    size_t lines, n_bytes; /* before it */
};

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
static void put_pointer(const struct refused *r, char *pointer, size_t cap)
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
static void tell(const struct refused *r, const char *detail, struct ld_problem *p)
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
static void find_words(const struct refused *r, struct ld_problem *p)
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

static void refuse(const struct refused *r, struct ld_problem *p)
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

/* Blank lines, and the carriage returns of other systems, separate nothing and are skipped but counted. */
static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* Appends v as the item that stands on `line`. Both arrays grow by doubling. False: no memory. */
static bool add_line(struct ld_doc *doc, const struct ld_value *v, size_t line)
{
    const size_t n = doc->root.n;
    if (n == 0 || (n >= 64 && (n & (n - 1)) == 0)) {
        const size_t cap = n == 0 ? 64 : 2 * n;
        size_t *lines = realloc(doc->line, cap * sizeof *lines);
        if (lines == NULL)
            return false;
        doc->line = lines;
        struct ld_value *items = realloc(doc->item, cap * sizeof *items);
        if (items == NULL)
            return false;
        doc->item = items;
    }
    doc->line[n] = line;
    doc->item[n] = *v;
    doc->root = (struct ld_value){.kind = LD_V_ARRAY, .n = (uint32_t)n + 1, .as.item = doc->item};
    return true;
}

/* Goes on after a bad line, so that all of them are named. `line` counts from 0, as pointers do. O(n) besides the
 * parsing: every line is looked at once. `copy` is of the text. */
static void parse_lines(struct ld_parser *parser, const char *text, char *copy, size_t n, struct ld_problem *p)
{
    size_t line = 0, start = 0;
    while (start < n) {
        const char *newline = memchr(text + start, '\n', n - start);
        size_t end = newline != NULL ? (size_t)(newline - text) : n;
        copy[end] = '\0';
        if (!is_blank(text + start, end - start)) {
            struct ld_value v;
            if (!ld_parser_read(parser, copy + start, end - start, &v)) {
                char prefix[24];
                (void)snprintf(prefix, sizeof prefix, "/%zu", line);
                refuse(&(struct refused){parser, text + start, copy + start, end - start, prefix, line, start}, p);
            } else if (!add_line(parser->doc, &v, line)) {
                ld_problem_set(p, 503, "out of memory");
            }
        }
        start = end + 1;
        line++;
    }
}

/* The text is parsed in a copy, in which strings are ended and unescaped; what is said of faults is said of the text.
 */
static void parse(struct ld_doc *doc, const char *text, size_t n, bool is_ndjson, struct ld_problem *p)
{
    struct ld_parser parser;
    /* The lengths of values have 32 bits; no body and no row of SQLite is longer. */
    char *copy = n < UINT32_MAX ? ld_doc_alloc(doc, n + 1, 1) : NULL;
    if (copy == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return;
    }
    if (n > 0)
        memcpy(copy, text, n);
    ld_parser_init(&parser, doc);
    if (is_ndjson)
        parse_lines(&parser, text, copy, n, p);
    else if (!ld_parser_read(&parser, copy, n, &doc->root))
        refuse(&(struct refused){&parser, text, copy, n, "", 0, 0}, p);
    ld_parser_close(&parser);
}

void ld_doc_bound(struct ld_doc *doc, double magnitude)
{
    doc->magnitude = magnitude;
}

/* *out is set on success alone; on failure nothing is left allocated and p tells the line and column. The text is not
 * needed afterwards. p must have been initialised, and holds no problem yet. */
int ld_doc_parse(struct ld_doc **out, const char *text, size_t n, bool is_ndjson, struct ld_problem *p)
{
    struct ld_doc *doc = ld_doc_new();
    if (doc == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return -1;
    }
    /* An NDJSON text is an array with line numbers, also with no line in it. */
    doc->root.kind = is_ndjson ? LD_V_ARRAY : LD_V_NULL;
    parse(doc, text, n, is_ndjson, p);
    if (p->status != 0) {
        ld_doc_free(doc);
        return -1;
    }
    *out = doc;
    return 0;
}
