/* See body_memory.h. One atomic addition, and one subtraction when it was too much: two that come at once may both be
 * refused where one would have fitted, never both taken where one would not. */
#include "http/body_memory.h"

static size_t beyond_free(size_t n)
{
    return n > LD_BODY_FREE_BYTES ? n - LD_BODY_FREE_BYTES : 0;
}

bool ld_body_memory_take(struct ld_body_memory *m, size_t *taken, size_t n)
{
    const size_t want = beyond_free(n);

    if (m == NULL || want <= *taken)
        return true;
    const size_t more = want - *taken;
    if (atomic_fetch_add(&m->used, more) + more > m->max && m->max > 0) {
        atomic_fetch_sub(&m->used, more);
        return false;
    }
    *taken = want;
    return true;
}

void ld_body_memory_give(struct ld_body_memory *m, size_t *taken)
{
    if (m != NULL)
        atomic_fetch_sub(&m->used, *taken);
    *taken = 0;
}

bool ld_body_memory_has(const struct ld_body_memory *m, size_t n)
{
    const size_t want = beyond_free(n), used = m != NULL ? atomic_load(&m->used) : 0;

    return m == NULL || m->max == 0 || want == 0 || (used <= m->max && want <= m->max - used);
}
