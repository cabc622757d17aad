/* The document: JSON or NDJSON text parsed by jansson, and the memory of what is decoded from it.
 *
 * jansson checks UTF-8 and refuses NUL, trailing bytes and (as told here) duplicate keys; numbers are all read
 * as doubles. Depth is checked before parsing, so that no text can make the parser recurse deeper than
 * LD_MAX_DEPTH. Where jansson gives up, json_where.c turns its position into a pointer.
 *
 * NDJSON is parsed line by line into one array, so that decoders see items either way; which line an item came
 * from is kept beside it, since blank lines count for whoever looks for line 517. All bad lines are reported, not
 * only the first: whoever sends ten thousand lines wants to fix them once.
 *
 * Memory is handed out from blocks that double in size: decoding ten thousand observations makes a dozen
 * allocations. Cost: parsing takes 300-500 ns per number, by far the largest part of a body's way in. */
#include "json_in.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "json_util.h"

#define FIRST_BLOCK 4096u
#define LARGEST_BLOCK (1u << 20)
#define ALIGNMENT 16u

/* Its bytes follow the struct; `used` of them are handed out, from the front. */
struct ld_block {
    struct ld_block *next;
    size_t used, cap;
};

/* Bytes after the block's head, kept aligned. */
#define HEAD ((sizeof(struct ld_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

/* A block of at least `need` bytes becomes the newest. Blocks double up to 1 MiB, so the number of them is small and
 * the unused end of the last one is bounded. A request beyond the largest block gets one of its own size. */
static struct ld_block *add_block(struct ld_doc *doc, size_t need)
{
    size_t cap = doc->blocks == NULL ? FIRST_BLOCK : doc->blocks->cap * 2;
    /* Bounds what the unused end of a block can waste. */
    if (cap > LARGEST_BLOCK)
        cap = LARGEST_BLOCK;
    if (cap < need)
        cap = need;
    struct ld_block *b = malloc(HEAD + cap);
    if (b == NULL)
        return NULL;
    *b = (struct ld_block){.next = doc->blocks, .cap = cap};
    doc->blocks = b;
    return b;
}

/* What is left of the newest block is given up when a request does not fit: requests are of like size within one
 * body. n * size = 0 is a pointer as well, to no bytes. The bound on n keeps sums far from wrapping. */
void *ld_doc_alloc(struct ld_doc *doc, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / 4 / size)
        return NULL;
    /* Rounded up, so that the next one is aligned for any type. */
    size_t bytes = (n * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct ld_block *b = doc->blocks;
    if (b == NULL || b->cap - b->used < bytes)
        b = add_block(doc, bytes);
    if (b == NULL)
        return NULL;
    char *memory = (char *)b + HEAD + b->used;
    b->used += bytes;
    memset(memory, 0, bytes);
    return memory;
}

/* Strings are borrowed from the tree, so tree and blocks go together. Nothing decoded from it may be looked at
 * afterwards; NULL is fine. */
void ld_doc_free(struct ld_doc *doc)
{
    if (doc == NULL)
        return;
    json_decref(doc->root);
    while (doc->blocks != NULL) {
        struct ld_block *next = doc->blocks->next;
        free(doc->blocks);
        doc->blocks = next;
    }
    free(doc->line);
    free(doc);
}

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

/* One value. NULL with a fault when the text is none. Out of memory is the one failure that is no fault of the text. */
static json_t *parse_value(const char *text, size_t n, const struct place *at, struct ld_problem *p)
{
    /* Before the parser, which recurses. */
    size_t deep = ld_json_too_deep(text, n, LD_MAX_DEPTH);
    if (deep != SIZE_MAX) {
        char detail[64];
        (void)snprintf(detail, sizeof detail, "byte %zu: nested deeper than %u levels", at->n_bytes + deep + 1,
                       LD_MAX_DEPTH);
        fault_at(p, at->prefix, text, n, deep, detail);
        ld_problem_limit(p, "depth", LD_MAX_DEPTH);
        return NULL;
    }
    const size_t flags = (LD_CHECKED ? JSON_REJECT_DUPLICATES : 0) | JSON_DECODE_INT_AS_REAL | (size_t)JSON_DECODE_ANY;
    json_error_t error;
    json_t *v = json_loadb(text, n, flags, &error);
    if (v == NULL && json_error_code(&error) == json_error_out_of_memory) {
        ld_problem_set(p, 503, "out of memory");
    } else if (v == NULL) {
        refuse_text(p, at, text, n, &error);
    }
    return v;
}

/* Blank lines, and the carriage returns of other systems, separate nothing and are skipped but counted. */
static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* Appends v (taken over) as the item that stands on `line`. doc->line grows beside the array by doubling. False: no
 * memory, and v is let go. */
static bool add_line(struct ld_doc *doc, json_t *v, size_t line, size_t *cap)
{
    size_t n = json_array_size(doc->root);
    if (n == *cap) {
        size_t more = *cap == 0 ? 64 : *cap * 2;
        size_t *grown = realloc(doc->line, more * sizeof *grown);
        if (grown == NULL) {
            json_decref(v);
            return false;
        }
        doc->line = grown;
        *cap = more;
    }
    doc->line[n] = line;
    return json_array_append_new(doc->root, v) == 0;
}

/* Goes on after a bad line, so that all of them are named. `line` counts from 0, as pointers do. O(n) besides the
 * parsing: every line is looked at once. */
static void parse_lines(struct ld_doc *doc, const char *text, size_t n, struct ld_problem *p)
{
    size_t cap = 0, line = 0, start = 0;
    while (start < n) {
        const char *newline = memchr(text + start, '\n', n - start);
        size_t end = newline != NULL ? (size_t)(newline - text) : n;
        if (!is_blank(text + start, end - start)) {
            char prefix[24];
            (void)snprintf(prefix, sizeof prefix, "/%zu", line);
            const struct place at = {prefix, line, start};
            json_t *v = parse_value(text + start, end - start, &at, p);
            if (v != NULL && !add_line(doc, v, line, &cap))
                ld_problem_set(p, 503, "out of memory");
        }
        start = end + 1;
        line++;
    }
}

/* *out is set on success alone; on failure nothing is left allocated and p tells the line and column. The text is not
 * needed afterwards: jansson copies its strings. p must have been initialised, and holds no problem yet. */
int ld_doc_parse(struct ld_doc **out, const char *text, size_t n, bool is_ndjson, struct ld_problem *p)
{
    struct ld_doc *doc = calloc(1, sizeof *doc);
    if (doc == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return -1;
    }
    if (is_ndjson) {
        doc->root = json_array();
        /* An NDJSON text always has line numbers, also with no line in it. */
        doc->line = malloc(sizeof *doc->line);
        if (doc->root == NULL || doc->line == NULL)
            ld_problem_set(p, 503, "out of memory");
        else
            parse_lines(doc, text, n, p);
    } else {
        doc->root = parse_value(text, n, &(struct place){"", 0, 0}, p);
    }
    if (p->status != 0) {
        ld_doc_free(doc);
        return -1;
    }
    *out = doc;
    return 0;
}
