/* Checked arrays over a replaceable allocator (alloc.h).
 *
 * Every block of the core comes from `hook.realloc` and goes to `hook.free`; the hook is the one mutable global
 * of the core, written by tests before any thread starts and only read afterwards. Sizes are products of
 * counts, so each multiplication is checked: a wrapped size would be a small block that is then overrun.
 *
 * A block of 0 bytes is asked for as 1 byte, so that NULL always and only means "no memory". */
#include "alloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Zeroed, so that a struct made here is in its state of rest: no pointers, counts of 0, and 0.0 in doubles. */
void *kb_array(size_t n, size_t m, size_t size)
{
    size_t bytes;
    if (!multiply(n, m, &bytes) || !multiply(bytes, size, &bytes))
        return NULL;
    void *ptr = obtain(NULL, bytes);
    if (ptr != NULL)
        memset(ptr, 0, bytes);
    return ptr;
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
