/* Heapsort: no memory, and n log n in the worst case, too. Items sink to the bottom of the heap along the later of two
 * children, and rise again from there: about n log2 n comparisons, half of those of the usual way [Wegener 1993]. */
#include "base/sort.h"

/* Moves `item` into the hole at `at` of a heap of n whose first item stands last. */
static void sift(size_t n, size_t *heap, size_t at, size_t item, kb_before_fn *before, const void *items)
{
    const size_t top = at;
    size_t child;

    while ((child = 2 * at + 1) < n) {
        if (child + 1 < n && before(items, heap[child], heap[child + 1]))
            child++;
        heap[at] = heap[child];
        at = child;
    }
    while (at > top && before(items, heap[(at - 1) / 2], item)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

void kb_sort(size_t n, size_t *order, kb_before_fn *before, const void *items)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(n, order, i, order[i], before, items);
    for (size_t end = n; end-- > 1;) {
        const size_t item = order[end];

        order[end] = order[0];
        sift(end, order, 0, item, before, items);
    }
}
