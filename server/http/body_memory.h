/* How much memory the bodies of all requests may take together. Each has its first bytes free, so that the bodies of
 * decisions and rewards are never refused for the sake of somebody's graph: those are bounded by the number of
 * connections. What goes beyond them is taken from one budget as it arrives, and given back when the request is over.
 */
#ifndef LD_BODY_MEMORY_H
#define LD_BODY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define LD_BODY_FREE_BYTES ((size_t)64 << 10)

struct ld_body_memory {
    atomic_size_t max; /* 0: no limit */
    atomic_size_t used;
};

/* m NULL is no limit everywhere below. For a body that has *taken so far and is to have n bytes. False: there is no
 * room, and nothing has changed. */
bool ld_body_memory_take(struct ld_body_memory *m, size_t *taken, size_t n);
void ld_body_memory_give(struct ld_body_memory *m, size_t *taken);
/* Whether a body of n bytes would find room now. */
bool ld_body_memory_has(const struct ld_body_memory *m, size_t n);

#endif
