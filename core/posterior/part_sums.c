/* See part_sums.h. A new coordinate takes its square off what its component misses; where rounding leaves less than
 * nothing, 0 is the nearer value. */
#include "posterior/part_sums.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "linalg/linalg.h"

void kb_part_sums_close(struct kb_part_sums *p)
{
    kb_free(p->mass);
    *p = (struct kb_part_sums){0};
}

enum kb_err kb_part_sums_grow(struct kb_part_sums *p, size_t m, struct kb_moves *moves)
{
    return m > p->cap ? kb_moves_add(moves, &p->mass, p->cap, m, sizeof *p->mass, &p->cap) : KB_OK;
}

void kb_part_sums_clear(struct kb_part_sums *p, size_t m)
{
    if (p->cap > 0)
        memset(p->mass, 0, m * sizeof *p->mass);
    memset(p->missed, 0, sizeof p->missed);
    p->count = p->sum = 0;
}

void kb_part_sums_add(struct kb_part_sums *p, size_t m, const double *z, const double *missed, double count, double sum)
{
    p->count += count;
    p->sum += sum;
    kb_axpy(m, count, z, p->mass);
    for (size_t j = 1; j < KB_N_PARTS; j++)
        p->missed[j] += count * fmax(missed[j], 0);
}

void kb_part_sums_append(struct kb_part_sums *p, uint32_t part, size_t m, double square, double mass)
{
    p->mass[m] = mass;
    p->missed[part] = fmax(p->missed[part] - square, 0);
}

void kb_part_sums_scale(struct kb_part_sums *p, size_t m, double left)
{
    if (p->cap == 0)
        return;
    for (size_t i = 0; i < m; i++)
        p->mass[i] *= left;
    for (size_t j = 0; j < KB_N_PARTS; j++)
        p->missed[j] *= left;
    p->count *= left;
    p->sum *= left;
}

/* --- digest and snapshot ----------------------------------------------------------------------------------- */

uint64_t kb_part_sums_digest(const struct kb_part_sums *p, const uint32_t *part, size_t m, uint64_t h)
{
    h = kb_hash_double(kb_hash_double(kb_hash_array(h, p->missed, sizeof p->missed), p->count), p->sum);
    if (m == 0)
        return h;
    return kb_hash_bytes(kb_hash_array(h, p->mass, m * sizeof *p->mass), part, m * sizeof *part);
}

void kb_part_sums_save(const struct kb_part_sums *p, const uint32_t *part, size_t m, struct kb_writer *w)
{
    kb_put_u32s(w, part, m);
    kb_put_doubles(w, p->mass, m);
    kb_put_doubles(w, p->missed, KB_N_PARTS);
    kb_put_double(w, p->count);
    kb_put_double(w, p->sum);
}

enum kb_err kb_part_sums_load(struct kb_part_sums *p, uint32_t *part, size_t m, struct kb_reader *r)
{
    kb_get_u32s(r, part, m);
    kb_get_doubles(r, p->mass, m);
    kb_get_doubles(r, p->missed, KB_N_PARTS);
    p->count = kb_get_double(r);
    p->sum = kb_get_double(r);
    if (r->rc != KB_OK)
        return r->rc;
    for (size_t i = 0; i < m; i++)
        if (part[i] == KB_PART_ALL || part[i] >= KB_N_PARTS)
            return KB_ECORRUPT;
    for (size_t j = 0; j < KB_N_PARTS; j++)
        if (!(p->missed[j] >= 0 && isfinite(p->missed[j])))
            return KB_ECORRUPT;
    return p->count >= 0 && isfinite(p->count) && isfinite(p->sum) ? KB_OK : KB_ECORRUPT;
}
