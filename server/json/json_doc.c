/* The document: JSON or NDJSON text parsed, and the memory of what was decoded from it.
 *
 * json_parse.c reads the text; where that gives up, json_refused.c finds the words. NDJSON is parsed line by line into
 * one array, so that decoders see items either way; which line an item came from is kept beside it, since blank lines
 * count for whoever looks for line 517. All bad lines are reported, not only the first: whoever sends ten thousand
 * lines wants to fix them once. Strings stay in the document's copy of the text.
 *
 * Memory is handed out from blocks that double in size, so that decoding ten thousand observations makes a dozen
 * allocations. Cost of the parsing: json_parse.c's. */
#include "json/json_doc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/magnitude.h"
#include "base/problem.h"
#include "json/json_value.h"

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

/* In its own first block. */
struct ld_doc *ld_doc_new(void)
{
    struct ld_doc start = {.magnitude = KB_MOST_MAGNITUDE}, *doc = ld_doc_alloc(&start, 1, sizeof *doc);
    if (doc != NULL)
        *doc = start;
    return doc;
}

static void unmap_names(struct ld_doc *doc)
{
    if (doc->named != NULL)
        ld_names_close(&doc->named->names);
    doc->named = NULL;
    doc->is_short = false;
}

void ld_doc_map_names(struct ld_doc *doc, const struct ld_name_map *map, size_t most_bytes)
{
    if (map->dim == 0) {
        unmap_names(doc);
        return;
    }
    if (doc->named == NULL)
        doc->named = ld_doc_alloc(doc, 1, sizeof *doc->named);
    doc->is_short = doc->named == NULL;
    if (doc->named != NULL)
        doc->named->map = *map;
    doc->most_mapped = most_bytes;
}

size_t ld_doc_mapped_bytes(const struct ld_doc *doc)
{
    return doc != NULL ? doc->mapped : 0;
}

bool ld_doc_names_user(const struct ld_doc *doc)
{
    return doc->named != NULL && doc->named->map.user[0] != '\0';
}

bool ld_doc_maps_names(const struct ld_doc *doc)
{
    return doc->named != NULL || doc->is_short;
}

void ld_doc_free(struct ld_doc *doc)
{
    if (doc == NULL)
        return;
    free(doc->line);
    free(doc->item);
    unmap_names(doc);
    for (struct ld_block *b = doc->blocks, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
}

/* --- texts -------------------------------------------------------------------------------------------- */

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
                ld_parser_tell(
                    &(struct ld_refused){parser, text + start, copy + start, end - start, prefix, line, start}, p);
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
        ld_parser_tell(&(struct ld_refused){&parser, text, copy, n, "", 0, 0}, p);
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
