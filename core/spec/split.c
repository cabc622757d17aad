/* See split.h. */
#include "spec/split.h"

#include <string.h>

#include "base/hash.h"

/* The first arm whose id does not stand before this one. */
static uint32_t place_of(const struct kb_split *s, const char *id)
{
    uint32_t i = 0;

    while (i < s->n && strcmp(kb_split_id(s, i), id) < 0)
        i++;
    return i;
}

enum kb_err kb_split_put(struct kb_split *s, const char *id, double weight)
{
    const size_t n = strlen(id) + 1;
    const uint32_t i = place_of(s, id);

    if (s->n == KB_SPLIT_ARMS || n > KB_SPLIT_BYTES - s->n_bytes)
        return KB_EFULL;
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof *s->at);
    memmove(&s->weight[i + 1], &s->weight[i], (s->n - i) * sizeof *s->weight);
    s->at[i] = (uint16_t)s->n_bytes;
    s->weight[i] = weight;
    memcpy(s->id + s->n_bytes, id, n);
    s->n_bytes += (uint32_t)n;
    s->n++;
    return KB_OK;
}

double kb_split_weight(const struct kb_split *s, const char *id)
{
    const uint32_t i = place_of(s, id);

    return i < s->n && strcmp(kb_split_id(s, i), id) == 0 ? s->weight[i] : 0;
}

double kb_split_sum(const struct kb_split *s)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->n; i++)
        sum += s->weight[i];
    return sum;
}

bool kb_split_is_same(const struct kb_split *a, const struct kb_split *b)
{
    bool is_same = a->n == b->n;

    for (uint32_t i = 0; is_same && i < a->n; i++)
        is_same = a->weight[i] == b->weight[i] && strcmp(kb_split_id(a, i), kb_split_id(b, i)) == 0;
    return is_same;
}

uint64_t kb_split_digest(const struct kb_split *s, uint64_t h)
{
    for (uint32_t i = 0; i < s->n; i++)
        h = kb_hash_double(kb_hash_str(h, kb_split_id(s, i)), s->weight[i]);
    return h;
}

void kb_split_save(const struct kb_split *s, struct kb_writer *w)
{
    kb_put_u64(w, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        kb_put_str(w, kb_split_id(s, i));
        kb_put_double(w, s->weight[i]);
    }
}

enum kb_err kb_split_load(struct kb_split *s, struct kb_reader *r)
{
    struct kb_split read = {.n = 0};
    const size_t n = kb_get_count(r, KB_SPLIT_ARMS);

    *s = (struct kb_split){.n = 0};
    for (size_t i = 0; i < n; i++) {
        char id[KB_SPLIT_BYTES] = "";
        size_t bytes = 0;
        const char *text = kb_get_str(r, &bytes);
        const double weight = kb_get_double(r);

        if (r->rc != KB_OK || text == NULL || bytes >= sizeof id || memchr(text, '\0', bytes) != NULL ||
            !(weight >= 0 && weight < 1e300))
            return r->rc = r->rc != KB_OK ? r->rc : KB_ECORRUPT;
        memcpy(id, text, bytes);
        if (kb_split_put(&read, id, weight) != KB_OK)
            return r->rc = KB_ECORRUPT;
    }
    *s = read;
    return r->rc;
}
