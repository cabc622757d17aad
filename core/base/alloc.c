/* Checked arrays over a replaceable allocator (alloc.h).
 *
 * Every block of the core comes from `hook.realloc` and goes to `hook.free`; the hook is the one mutable global
 * of the core, written by tests before any thread starts and only read afterwards. Sizes are products of
 * counts, so each multiplication is checked: a wrapped size would be a small block that is then overrun.
 *
 * Whole matrices that loops of wide vectors go over begin on a line of the cache (kb_lines): at any other place each of
 * their loads would be two.
 *
 * A block of 0 bytes is asked for as 1 byte, so that NULL always and only means "no memory". */
#include "base/alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE ((size_t)64) /* of the cache; an AVX-512 register */

static struct kb_alloc_hook hook = {realloc, free};

void kb_alloc_set_hook(const struct kb_alloc_hook *h)
{
    hook = h != NULL ? *h : (struct kb_alloc_hook){realloc, free};
}

/* *out = a b; false when the product does not fit. */
static bool multiply(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* The only call of hook.realloc: a NULL ptr asks for a new block, else the block is resized with its contents
 * kept. On NULL the old block is untouched, as with realloc. */
static void *obtain(void *ptr, size_t bytes)
{
    /* Beyond PTRDIFF_MAX pointer differences are undefined; the C library refuses such sizes, a hook may not. */
    if (bytes > (size_t)PTRDIFF_MAX)
        return NULL;
    return hook.realloc(ptr, bytes != 0 ? bytes : 1);
}

void *kb_malloc(size_t bytes)
{
    return obtain(NULL, bytes);
}

static void *zeroed(void *ptr, size_t bytes)
{
    return ptr != NULL ? memset(ptr, 0, bytes) : NULL;
}

/* Zeroed, so that a struct made here is in its state of rest: no pointers, counts of 0, and 0.0 in doubles. */
void *kb_array(size_t n, size_t m, size_t size)
{
    size_t bytes;
    if (!multiply(n, m, &bytes) || !multiply(bytes, size, &bytes))
        return NULL;
    return zeroed(obtain(NULL, bytes), bytes);
}

/* C wants whole lines here. A hook that a test has put in place knows none: then the block begins anywhere. */
void *kb_lines(size_t n, size_t m, size_t size)
{
    size_t bytes;
    if (hook.realloc != realloc)
        return kb_array(n, m, size);
    if (!multiply(n, m, &bytes) || !multiply(bytes, size, &bytes) || bytes > (size_t)PTRDIFF_MAX - LINE)
        return NULL;
    bytes = bytes > 0 ? (bytes + LINE - 1) / LINE * LINE : LINE;
    return zeroed(aligned_alloc(LINE, bytes), bytes);
}

/* The new part is not zeroed: callers write an item before they count it. */
void *kb_regrow(void *ptr, size_t n, size_t size)
{
    size_t bytes;
    return multiply(n, size, &bytes) ? obtain(ptr, bytes) : NULL;
}

/* The hook never sees NULL, so one that counts live blocks needs no special case. */
void kb_free(void *ptr)
{
    if (ptr != NULL)
        hook.free(ptr);
}

/* Doubling keeps the cost of n appends at O(n) copies; the last step jumps to `need` when doubling would wrap. */
int kb_grow(void **ptr, size_t *cap, size_t need, size_t first, size_t size)
{
    assert(first > 0);
    if (need <= *cap)
        return 0;
    size_t want = *cap > 0 ? *cap : first;
    while (want < need)
        want = want > SIZE_MAX / 2 ? need : want * 2;
    void *bigger = kb_regrow(*ptr, want, size);
    if (bigger == NULL)
        return -1;
    *ptr = bigger;
    *cap = want;
    return 0;
}
