/* Checked arrays over a replaceable allocator. Sizes are multiplied with overflow checks; a failed
 * allocation returns NULL. Tests replace the hook to let the n-th allocation fail. */
#ifndef KB_ALLOC_H
#define KB_ALLOC_H

#include <stddef.h>

struct kb_alloc_hook {
    void *(*realloc)(void *ptr, size_t bytes); /* ptr may be NULL; returns NULL on failure */
    void (*free)(void *ptr);
};

/* Replaces the allocator for the whole process; NULL restores the C library's. Not thread safe: call it
 * before any other thread uses the core (tests only). */
void kb_alloc_set_hook(const struct kb_alloc_hook *hook);

void *kb_malloc(size_t bytes);                     /* uninitialised */
void *kb_array(size_t n, size_t m, size_t size);   /* n*m*size bytes, zeroed; NULL on overflow */
void *kb_lines(size_t n, size_t m, size_t size);   /* the same, beginning on a line of the cache, 64 bytes */
void *kb_regrow(void *ptr, size_t n, size_t size); /* realloc to n*size; old block kept on failure */
void kb_free(void *ptr);                           /* NULL is fine */

/* Makes *ptr (an array of *cap items) hold at least `need` items, by doubling from `first`. 0 or -1 (no
 * memory, nothing changed). */
int kb_grow(void **ptr, size_t *cap, size_t need, size_t first, size_t size);

#endif
