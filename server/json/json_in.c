/* The document: JSON or NDJSON text parsed.
 *
 * json_parse.c reads what is plainly well formed. All else is read by jansson, which knows what is wrong: it checks
 * UTF-8 and refuses NUL, trailing bytes and (as told here) duplicate keys; numbers are all read as doubles. Depth is
 * checked before that, so that no text can make jansson recurse deeper than LD_MAX_DEPTH. Where it gives up,
 * json_where.c turns its position into a pointer; what it takes all the same becomes values as from json_parse.c.
 *
 * NDJSON is parsed line by line into one array, so that decoders see items either way; which line an item came
 * from is kept beside it, since blank lines count for whoever looks for line 517. All bad lines are reported, not
 * only the first: whoever sends ten thousand lines wants to fix them once.
 *
 * Strings stay in the document's copy of the text. Cost: 1 to 4 instructions a byte that is read twice, and
 * json_parse.c's. */
#include "json/json_in.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash_key.h"
#include "json/json_util.h"
#include "base/magnitude.h"

/* The line's prefix of pointers: "/17", or "" for a text that is one value. The first bad line makes the detail,
 * every one an entry of the list. */
static void fault_at(struct ld_problem *p, const char *prefix, const char *text, size_t n, size_t at,
                     const char *detail)
{
    char pointer[160];
    (void)snprintf(pointer, sizeof pointer, "%s", prefix);
    ld_json_where(text, n, at, pointer, sizeof pointer);
    ld_problem_set(p, 400, prefix[0] == '\0' ? "the body is not JSON" : "a line is not JSON");
    ld_problem_add(p, pointer, "%s", detail);
}

/* Where in a body a value stands that is parsed by itself. */
struct place {
    const char *prefix;    /* of pointers: "/17" for a line of NDJSON, "" for a whole body */
    size_t lines, n_bytes; /* before it */
};

/* What people stumble over that jansson has no words for; else its own. `end` counts the bytes that were read. */
static const char *reason(const char *text, size_t n, size_t end, const json_error_t *error)
{
    if (end > 0 && text[end - 1] == '\0')
        return "a NUL byte";
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return "a byte order mark: send UTF-8 without it";
    return error->text;
}

/* Line, column (in characters) and byte count from 1 and in the whole body; they are those of the last one that was
 * read. */
static void refuse_text(struct ld_problem *p, const struct place *at, const char *text, size_t n,
                        const json_error_t *error)
{
    const size_t end = error->position > 0 ? (size_t)error->position : 0;
    char detail[JSON_ERROR_TEXT_LENGTH + 96];
    (void)snprintf(detail, sizeof detail, "line %zu, column %d, byte %zu: %s", at->lines + (size_t)error->line,
                   error->column, at->n_bytes + end, reason(text, n, end, error));
    fault_at(p, at->prefix, text, n, end, detail);
}

/* The same values as json_parse.c makes, of a tree of jansson's that is LD_MAX_DEPTH deep at most. False: no memory. */
static bool copy_value(struct ld_doc *doc, const json_t *v, struct ld_value *out);

static bool copy_string(struct ld_doc *doc, const char *s, size_t n, const char **out)
{
    char *copy = ld_doc_alloc(doc, n + 1, 1);
    if (copy != NULL && n > 0)
        memcpy(copy, s, n);
    *out = copy;
    return copy != NULL;
}

static bool copy_items(struct ld_doc *doc, const json_t *v, struct ld_value *out)
{
    *out = (struct ld_value){.kind = LD_V_ARRAY, .n = (uint32_t)json_array_size(v)};
    out->as.item = ld_doc_alloc(doc, out->n, sizeof *out->as.item);
    for (size_t i = 0; out->as.item != NULL && i < out->n; i++)
        if (!copy_value(doc, json_array_get(v, i), &out->as.item[i]))
            return false;
    return out->as.item != NULL;
}

static bool copy_members(struct ld_doc *doc, const json_t *v, struct ld_value *out)
{
    json_t *object = (json_t *)(uintptr_t)v, *member; /* jansson's iterator is not const-correct */
    const char *key;
    *out = (struct ld_value){.kind = LD_V_OBJECT, .n = (uint32_t)json_object_size(v)};
    struct ld_member *m = ld_doc_alloc(doc, out->n, sizeof *m);
    out->as.member = m;
    if (m == NULL)
        return false;
    json_object_foreach(object, key, member)
    {
        if (!copy_string(doc, key, strlen(key), &m->key) || !copy_value(doc, member, &m->value))
            return false;
        m++;
    }
    return true;
}

static bool copy_value(struct ld_doc *doc, const json_t *v, struct ld_value *out)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return copy_members(doc, v, out);
    case JSON_ARRAY:
        return copy_items(doc, v, out);
    case JSON_STRING:
        *out = (struct ld_value){.kind = LD_V_STRING, .n = (uint32_t)json_string_length(v)};
        return copy_string(doc, json_string_value(v), out->n, &out->as.string);
    case JSON_TRUE:
    case JSON_FALSE:
        *out = (struct ld_value){.kind = json_is_true(v) ? LD_V_TRUE : LD_V_FALSE};
        return true;
    case JSON_NULL:
        *out = (struct ld_value){.kind = LD_V_NULL};
        return true;
    default:
        *out = (struct ld_value){.kind = LD_V_NUMBER, .as.number = json_number_value(v)};
        return true;
    }
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

static json_t *load(const char *text, size_t n, size_t flags, json_error_t *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, settle_jansson);
    has_run_short = false;
    return json_loadb(text, n, flags, error);
}

/* By jansson: false with a fault when the text is no value. Out of memory is the one failure that is no fault of the
 * text. */
static bool parse_slowly(struct ld_doc *doc, const char *text, size_t n, const struct place *at, struct ld_value *out,
                         struct ld_problem *p)
{
    size_t deep = ld_json_too_deep(text, n, LD_MAX_DEPTH);
    if (deep != SIZE_MAX) {
        char detail[64];
        (void)snprintf(detail, sizeof detail, "byte %zu: nested deeper than %u levels", at->n_bytes + deep + 1,
                       LD_MAX_DEPTH);
        fault_at(p, at->prefix, text, n, deep, detail);
        ld_problem_limit(p, "depth", LD_MAX_DEPTH);
        return false;
    }
    const size_t flags = (LD_CHECKED ? JSON_REJECT_DUPLICATES : 0) | JSON_DECODE_INT_AS_REAL | (size_t)JSON_DECODE_ANY;
    json_error_t error;
    json_t *v = load(text, n, flags, &error);
    const bool is_short = v != NULL ? !copy_value(doc, v, out) : has_run_short;
    json_decref(v);
    if (is_short)
        ld_problem_set(p, 503, "out of memory");
    else if (v == NULL)
        refuse_text(p, at, text, n, &error);
    return v != NULL && !is_short;
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
            bool is_read = ld_parser_read(parser, copy + start, end - start, &v);
            if (!is_read) {
                char prefix[24];
                (void)snprintf(prefix, sizeof prefix, "/%zu", line);
                const struct place at = {prefix, line, start};
                is_read = parse_slowly(parser->doc, text + start, end - start, &at, &v, p);
            }
            if (is_read && !add_line(parser->doc, &v, line))
                ld_problem_set(p, 503, "out of memory");
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
        (void)parse_slowly(doc, text, n, &(struct place){"", 0, 0}, &doc->root, p);
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
    struct ld_doc *doc = calloc(1, sizeof *doc);
    if (doc == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return -1;
    }
    doc->magnitude = KB_MOST_MAGNITUDE;
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
