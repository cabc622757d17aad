/* Arrays that grow beside their readers. Only the tenant's writer changes containers, and readers only look: so it
 * makes the larger arrays and fills them while readers go on, swaps the pointers under exclusion, and frees the old
 * arrays after it. The swap is O(arrays), whatever they hold.
 *
 *     add   make a larger array and copy into it           beside readers, may fail
 *     swap  put all of them in place, with their sizes     exclusive, cannot fail
 *     drop  free what is not in place: the old arrays after a swap, the new ones instead of one
 *
 * Between add and swap nothing may write to the old arrays. */
#ifndef KB_MOVES_H
#define KB_MOVES_H

#include <stddef.h>

#include "base/err.h"

struct kb_move {
    void *at;     /* address of the array's pointer, of whatever type that is; NULL: only the size changes */
    void *block;  /* owned: the new array before the swap, the old one after it */
    size_t *size; /* address of the size that goes with it; NULL when another move of the array's struct has it */
    size_t value; /* that it will have */
};

struct kb_moves {
    struct kb_move *move;
    size_t n, cap;
};

void kb_moves_init(struct kb_moves *m);

/* A block of cap items of `size` bytes to stand for *at, an array of which n_used items are copied; what follows them
 * is left as it is. size_at (may be NULL) becomes cap with the swap. KB_ENOMEM. */
enum kb_err kb_moves_add(struct kb_moves *m, void *at, size_t n_used, size_t cap, size_t size, size_t *size_at);

/* The same for a block that the caller fills by itself: taken over, and freed on failure (NULL is one). */
enum kb_err kb_moves_take(struct kb_moves *m, void *at, void *block, size_t *size_at, size_t value);

/* A size by itself: *at becomes value with the swap. KB_ENOMEM. */
enum kb_err kb_moves_number(struct kb_moves *m, size_t *at, size_t value);

void kb_moves_swap(struct kb_moves *m);
void kb_moves_drop(struct kb_moves *m); /* m is as after init */

/* For arrays that nobody reads: what was added with the result rc is put in place at once, or dropped when that is a
 * failure. Returns rc. */
enum kb_err kb_moves_finish(struct kb_moves *m, enum kb_err rc);

#endif
