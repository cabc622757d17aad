/* The memory of a document: handed out from blocks that double in size, so that decoding ten thousand observations
 * makes a dozen allocations. */
#include "json/json_doc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/magnitude.h"
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
