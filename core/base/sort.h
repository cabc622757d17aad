/* Puts indices in order, in place: decisions sort candidates, and may not allocate as qsort does. */
#ifndef KB_SORT_H
#define KB_SORT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether item a stands before item b; a strict order. */
typedef bool kb_before_fn(const void *items, size_t a, size_t b);

/* Sorts order[0..n-1]. Items that neither stands before the other come in no order of their own. O(n log n) calls of
 * `before`, whatever the input. */
void kb_sort(size_t n, size_t *order, kb_before_fn *before, const void *items);

#endif
