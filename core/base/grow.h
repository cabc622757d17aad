/* Regrowing of arrays, without casting pointers to pointers. On failure (KB_ENOMEM) the array is as it was. A size of
 * zero keeps one item, so the pointer is never NULL. */
#ifndef KB_GROW_H
#define KB_GROW_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/err.h"

static inline enum kb_err kb_grow_doubles(double **array, size_t n)
{
    void *grown = kb_regrow(*array, n > 0 ? n : 1, sizeof **array);
    if (grown == NULL)
        return KB_ENOMEM;
    *array = grown;
    return KB_OK;
}

/* Doubling: the least of cap * 2^i (from `first`) that holds need. */
static inline size_t kb_grown_cap(size_t cap, size_t need, size_t first)
{
    if (need <= cap)
        return cap;
    size_t twice = cap > first / 2 ? 2 * cap : first;
    return twice > need ? twice : need;
}

#endif
