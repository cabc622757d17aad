/* See arm_block.h. The arrays of a block lie behind its struct in one piece of memory, the factor first and on a line
 * of the cache.
 *
 * Cost: O(cap^2) memory and, for a larger block, O(n^2) to copy: doubling, so O(n) a point over a life. */
#include "posterior/arm_block.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define LINE ((size_t)64)

static size_t on_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

size_t kb_arm_block_cap(size_t n, size_t most)
{
    size_t cap = 1;
    while (cap < n)
        cap *= 2;
    return cap <= most || n > most ? cap : most;
}

static size_t factor_bytes(size_t cap)
{
    return kb_tiled_doubles(cap) * sizeof(double); /* whole lines */
}

size_t kb_arm_block_bytes(size_t cap, size_t context_dim)
{
    const size_t point = (1 + context_dim) * sizeof(double) + 2 * sizeof(uint32_t);
    return on_lines(sizeof(struct kb_arm_block)) + factor_bytes(cap) +
           on_lines(cap * point + kb_tiled_padded(cap) * sizeof(double));
}

struct kb_arm_block *kb_arm_block_new(size_t cap, size_t context_dim, const struct kb_arm_block *from)
{
    struct kb_arm_block *b = kb_lines(kb_arm_block_bytes(cap, context_dim), 1, 1);
    if (b == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)b + on_lines(sizeof *b);
    b->cap = cap;
    b->f.t = (double *)(void *)at;
    b->w = (double *)(void *)(at + factor_bytes(cap));
    b->count = b->w + kb_tiled_padded(cap);
    b->x = b->count + cap;
    b->anchor = (uint32_t *)(void *)(b->x + cap * context_dim);
    b->support = b->anchor + cap;
    if (from == NULL)
        return b;
    assert(from->n <= cap);
    kb_arm_block_copy_points(b, from, context_dim);
    b->f.n = from->f.n;
    memcpy(b->f.t, from->f.t, kb_tiled_doubles(from->f.n) * sizeof *b->f.t);
    if (from->f.n > 0)
        memcpy(b->w, from->w, from->f.n * sizeof *b->w);
    b->log_det = from->log_det;
    return b;
}

void kb_arm_block_copy_points(struct kb_arm_block *to, const struct kb_arm_block *from, size_t context_dim)
{
    const size_t n = from->n;
    assert(n <= to->cap);
    to->n = n;
    to->refused = from->refused;
    if (n == 0)
        return;
    memcpy(to->count, from->count, n * sizeof *to->count);
    memcpy(to->anchor, from->anchor, n * sizeof *to->anchor);
    memcpy(to->support, from->support, n * sizeof *to->support);
    if (context_dim > 0)
        memcpy(to->x, from->x, n * context_dim * sizeof *to->x);
}

void kb_arm_block_push(struct kb_arm_block *b, const double *context, size_t context_dim, uint32_t anchor,
                       uint32_t support, double count)
{
    assert(b->n < b->cap);
    if (context_dim > 0)
        memcpy(b->x + b->n * context_dim, context, context_dim * sizeof *context);
    b->anchor[b->n] = anchor;
    b->support[b->n] = support;
    b->count[b->n++] = count;
}
