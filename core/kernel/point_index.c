/* The index of the exact posterior's points.
 *
 * Open addressing with linear probing at a load of at most one half. An entry is a support point's number, so the
 * table holds no copy of a point and is derived from the support alone: it is neither saved nor digested, and its
 * layout moves nothing that is served.
 *
 * What counts as the same point is the kernel's business (kb_kernel_same, kb_kernel_hash): under `ones` all users
 * are one, under an rbf kernel on arms two names with equal features are one.
 *
 * The writer changes it under exclusion and makes larger tables to the side; decisions find points in it where there
 * is no factor to solve with (post_diagonal.c).
 *
 * Why: a reward at a point that is known is a rank-one change of counts, one at a new point is a new row of
 * the factor, O(n^2). post_exact.c asks here which of the two it is, once per reward. */
#include "kernel/point_index.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_SLOTS 128u

void kb_point_index_init(struct kb_point_index *ix)
{
    *ix = (struct kb_point_index){0};
}

void kb_point_index_close(struct kb_point_index *ix)
{
    kb_free(ix->slot);
    kb_point_index_init(ix);
}

/* The slot that holds the point, or the empty one where it belongs. Ends, since half of the slots are empty. */
static size_t find_slot(const struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s,
                        const struct kb_point *pt, uint64_t hash)
{
    size_t mask = ix->n_slots - 1, i = (size_t)hash & mask;
    for (; ix->slot[i] != KB_POINT_NONE; i = (i + 1) & mask) {
        struct kb_point held = kb_support_point(s, ix->slot[i]);
        if (kb_kernel_same(k, &held, pt))
            break;
    }
    return i;
}

/* Only larger tables are made; all points of s are entered again. */
enum kb_err kb_point_index_grow(struct kb_point_index *ix, size_t n, const struct kb_kernel *k,
                                const struct kb_support *s, struct kb_moves *m)
{
    struct kb_point_index larger = {.n_slots = FIRST_SLOTS};
    while (larger.n_slots < 2 * n)
        larger.n_slots *= 2;
    if (larger.n_slots <= ix->n_slots)
        return KB_OK;
    larger.slot = kb_array(larger.n_slots, 1, sizeof *larger.slot);
    if (larger.slot != NULL) {
        memset(larger.slot, 0xff, larger.n_slots * sizeof *larger.slot);
        kb_point_index_add(&larger, k, s, 0);
    }
    return kb_moves_take(m, &ix->slot, larger.slot, &ix->n_slots, larger.n_slots);
}

/* Adding nothing (first == s->n) is allowed on an index without a table. */
void kb_point_index_add(struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s, size_t first)
{
    assert(2 * s->n <= ix->n_slots || s->n == first);
    for (size_t i = first; i < s->n; i++) {
        struct kb_point pt = kb_support_point(s, i);
        ix->slot[find_slot(ix, k, s, &pt, kb_kernel_hash(k, &pt))] = (uint32_t)i;
    }
}

uint32_t kb_point_index_find(const struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s,
                             const struct kb_point *pt)
{
    return ix->n_slots > 0 ? ix->slot[find_slot(ix, k, s, pt, kb_kernel_hash(k, pt))] : KB_POINT_NONE;
}

/* Where a point is its arm and nothing else. */
static uint32_t find_arm(const struct kb_point_index *ix, const struct kb_support *s, uint32_t arm, uint64_t hash)
{
    const size_t mask = ix->n_slots - 1;
    size_t i = (size_t)hash & mask;
    while (ix->slot[i] != KB_POINT_NONE && s->arm[ix->slot[i]] != arm)
        i = (i + 1) & mask;
    return ix->slot[i];
}

void kb_point_index_find_arms(const struct kb_point_index *ix, const struct kb_kernel *k, const struct kb_support *s,
                              const struct kb_point *at, const uint32_t *arms, size_t n, uint32_t *out)
{
    const uint64_t place = kb_kernel_hash_place(k, at);
    const bool is_of_arms = kb_kernel_is_of_arms(k);
    struct kb_point pt = *at;
    for (size_t c = 0; c < n; c++) {
        pt.arm = arms[c];
        const uint64_t hash = kb_kernel_hash_arm(k, place, &pt);
        if (ix->n_slots == 0)
            out[c] = KB_POINT_NONE;
        else
            out[c] = is_of_arms ? find_arm(ix, s, pt.arm, hash) : ix->slot[find_slot(ix, k, s, &pt, hash)];
    }
}
