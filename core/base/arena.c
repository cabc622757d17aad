/* Scratch memory with mark and reset (arena.h).
 *
 * Every piece starts on a 64-byte boundary (one cache line, one AVX-512 register) and takes a whole number of
 * lines, so that what a caller draws is the sum of kb_arena_need() over its pieces, in any order. The block
 * itself is only aligned as malloc gives it, hence one spare line at its end.
 *
 * Why not malloc: a decision draws a dozen arrays whose sizes are known before it starts, must not fail in
 * its middle, and should not meet the allocator's locks. KB_ENOMEM is possible in kb_arena_fit alone. */
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>

#include "base/alloc.h"

#define LINE ((size_t)64)

/* Whole cache lines. */
static size_t round_to_line(size_t bytes)
{
    assert(bytes <= SIZE_MAX - LINE);
    return (bytes + LINE - 1) & ~(LINE - 1);
}

/* Bytes from base to its first 64-byte boundary. */
static size_t lead_in(const struct kb_arena *a)
{
    return (LINE - (size_t)((uintptr_t)a->base & (LINE - 1))) & (LINE - 1);
}

void kb_arena_init(struct kb_arena *a)
{
    *a = (struct kb_arena){0};
}

/* Back to the state of init: kb_arena_fit may follow. */
void kb_arena_close(struct kb_arena *a)
{
    kb_free(a->base);
    kb_arena_init(a);
}

/* Grows only; a smaller wish keeps the larger block. A failure keeps the old block. */
enum kb_err kb_arena_fit(struct kb_arena *a, size_t bytes)
{
    assert(a->used == 0);
    if (bytes > SIZE_MAX - 2 * LINE)
        return KB_ENOMEM;
    size_t want = round_to_line(bytes);
    if (a->base != NULL && want <= a->cap)
        return KB_OK;
    /* The contents are scratch: a fresh block spares the copy that growing in place would make. */
    unsigned char *base = kb_malloc(want + LINE);
    if (base == NULL)
        return KB_ENOMEM;
    kb_free(a->base);
    *a = (struct kb_arena){.base = base, .cap = want};
    return KB_OK;
}

/* The assertion is the promise of the decide path: an arena is sized before, never grown while in use. */
void *kb_arena_bytes(struct kb_arena *a, size_t n)
{
    size_t want = round_to_line(n);
    assert(a->base != NULL && want <= a->cap - a->used);
    unsigned char *piece = a->base + lead_in(a) + a->used;
    a->used += want;
    return piece;
}

double *kb_arena_doubles(struct kb_arena *a, size_t n)
{
    assert(n <= SIZE_MAX / sizeof(double));
    return kb_arena_bytes(a, n * sizeof(double));
}

/* Marks nest like calls: a function takes one, draws, and resets to it before it returns. */
size_t kb_arena_mark(const struct kb_arena *a)
{
    return a->used;
}

/* Gives back everything drawn since the mark was taken. */
void kb_arena_reset(struct kb_arena *a, size_t mark)
{
    assert(mark <= a->used);
    a->used = mark;
}

/* Equal to what kb_arena_doubles takes, by construction: both round the same way. */
size_t kb_arena_need(size_t n_doubles)
{
    assert(n_doubles <= (SIZE_MAX - LINE) / sizeof(double));
    return round_to_line(n_doubles * sizeof(double));
}
