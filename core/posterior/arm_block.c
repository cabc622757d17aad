/* See arm_block.h. The arrays of a block lie behind its struct in one piece of memory, the factor first and on a line
 * of the cache.
 *
 * Cost: O(cap^2) memory and, for a larger block, O(n^2) to copy: doubling, so O(n) a point over a life. */
#include "posterior/arm_block.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define LINE ((size_t)64)
#define SMALL 8u /* order below which rows of the factor are not put onto lines */

static size_t on_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Whole lines, an odd number of them (chol.c). */
static size_t leading_dimension(size_t cap)
{
    return cap < SMALL ? cap : ((cap + 7) & ~(size_t)7) | 8;
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
    return on_lines(leading_dimension(cap) * cap * sizeof(double));
}

size_t kb_arm_block_bytes(size_t cap, size_t context_dim)
{
    const size_t point = (2 + context_dim) * sizeof(double) + 2 * sizeof(uint32_t);
    return on_lines(sizeof(struct kb_arm_block)) + factor_bytes(cap) + on_lines(cap * point);
}

struct kb_arm_block *kb_arm_block_new(size_t cap, size_t context_dim, const struct kb_arm_block *from)
{
    struct kb_arm_block *b = kb_lines(kb_arm_block_bytes(cap, context_dim), 1, 1);
    if (b == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)b + on_lines(sizeof *b);
    b->cap = cap;
    b->f.l = (double *)(void *)at;
    b->f.cap = leading_dimension(cap);
    b->count = (double *)(void *)(at + factor_bytes(cap));
    b->w = b->count + cap;
    b->x = b->w + cap;
    b->anchor = (uint32_t *)(void *)(b->x + cap * context_dim);
    b->support = b->anchor + cap;
    if (from == NULL)
        return b;
    assert(from->n <= cap);
    kb_arm_block_copy_points(b, from, context_dim);
    kb_chol_copy(&b->f, &from->f);
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
