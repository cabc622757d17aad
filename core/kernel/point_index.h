/* Which support point is this? A hash table from points, as the kernel tells them apart, to their numbers. */
#ifndef KB_POINT_INDEX_H
#define KB_POINT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"
#include "base/moves.h"

#define KB_POINT_NONE UINT32_MAX

struct kb_point_index {
    uint32_t *slot; /* open addressing; n_slots is a power of two, or 0 */
    size_t n_slots;
};

/* No memory; find on it answers KB_POINT_NONE. */
void kb_point_index_init(struct kb_point_index *ix);
void kb_point_index_close(struct kb_point_index *ix);

/* Room for n points once m is swapped (moves.h), with those of s that are in force entered. KB_ENOMEM. O(n dim) or
 * nothing. */
enum kb_err kb_point_index_grow(struct kb_point_index *ix, size_t n, const struct kb_kernel *k,
                                const struct kb_support *s, struct kb_moves *m);

/* Enters points first..s->n - 1. Room reserved; none of them equal to one entered before. */
void kb_point_index_add(struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s, size_t first);

/* Number of the support point that is the same to the kernel as pt, or KB_POINT_NONE. Expected O(dim). */
uint32_t kb_point_index_find(const struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s,
                             const struct kb_point *pt);
/* The same for n arms at one place: a decision's user, level and context. Coordinates of arms are not looked at (at->x
 * has the context alone). Expected O(1) an arm besides comparing. */
void kb_point_index_find_arms(const struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s,
                              const struct kb_point *at, const uint32_t *arms, size_t n, uint32_t *out);

#endif
