/* Scratch memory with mark and reset: sized once, then handed out without calling an allocator.
 * Overrunning it is a bug (asserted): callers size it from the same formulas they draw with.
 *
 * One arena serves one thread at a time. The engine's scratch (kernel.h) holds one; the server keeps a
 * pool of scratches per tenant, so that decisions run side by side without an allocator between them. */
#ifndef KB_ARENA_H
#define KB_ARENA_H

#include <stddef.h>

#include "base/err.h"

struct kb_arena {
    unsigned char *base;
    size_t cap, used;
};

void kb_arena_init(struct kb_arena *a);
void kb_arena_close(struct kb_arena *a);

/* At least `bytes` of room; needs used == 0. */
enum kb_err kb_arena_fit(struct kb_arena *a, size_t bytes);

double *kb_arena_doubles(struct kb_arena *a, size_t n); /* 64-byte aligned, uninitialised */
void *kb_arena_bytes(struct kb_arena *a, size_t n);
size_t kb_arena_mark(const struct kb_arena *a);
void kb_arena_reset(struct kb_arena *a, size_t mark);

/* What n doubles take of an arena, alignment included: for sizing. */
size_t kb_arena_need(size_t n_doubles);

#endif
