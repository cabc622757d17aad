/* Memory of the sweep's kernel values: see sweep_cache.h. Who sweeps fills it (post_nystrom.c).
 *
 * Rows are contiguous, so that a row's product with the new point's coefficients is one pass, and the blocks of 64 rows
 * that the sweep works in stand as they would in its scratch, with another leading dimension.
 *
 * Cost: a change of the stride copies what is there; the dictionary's room doubles, so O(rows m) in all. */
#include "posterior/sweep_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"

#define FIRST_ROWS 64u

void kb_sweep_cache_close(struct kb_sweep_cache *c)
{
    kb_free(c->k);
    *c = (struct kb_sweep_cache){.is_off = true};
}

/* The same rows, further apart. */
static bool widen(struct kb_sweep_cache *c, size_t stride)
{
    double *k = kb_array(c->cap_rows, stride, sizeof *k);
    if (k == NULL)
        return false;
    for (size_t j = 0; j < c->rows; j++)
        memcpy(k + j * stride, c->k + j * c->stride, c->stride * sizeof *k);
    kb_free(c->k);
    c->k = k;
    c->stride = stride;
    return true;
}

static bool lengthen(struct kb_sweep_cache *c, size_t rows, size_t stride)
{
    size_t cap = kb_grown_cap(c->cap_rows, rows, FIRST_ROWS);
    if (cap > KB_SWEEP_CACHE_MAX / stride)
        cap = rows;
    if (kb_grow_doubles(&c->k, cap * stride) != KB_OK)
        return false;
    c->cap_rows = cap;
    c->stride = stride;
    return true;
}

bool kb_sweep_cache_fit(struct kb_sweep_cache *c, size_t rows, size_t stride)
{
    if (c->is_off)
        return false;
    bool fits = rows <= KB_SWEEP_CACHE_MAX / stride;
    if (fits && c->k != NULL && stride > c->stride)
        fits = widen(c, stride);
    if (fits && rows > c->cap_rows)
        fits = lengthen(c, rows, stride);
    if (!fits)
        kb_sweep_cache_close(c);
    return fits;
}

size_t kb_sweep_cache_bytes(const struct kb_sweep_cache *c)
{
    return c->cap_rows * c->stride * sizeof *c->k;
}
