/* Decisions without their reward: a chained hash table whose entries are a list, too. Memory: their lines. */
#include "evaluate/log_open.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_key.h"
#include "common/text.h"

static struct lc_open **bucket_of(const struct lc_open_set *s, const char *id)
{
    return &s->bucket[kb_keyed_str(ld_hash_key(), id) & (s->n_buckets - 1)];
}

struct lc_open *lc_open_find(const struct lc_open_set *s, const char *id)
{
    struct lc_open *o = s->n_buckets > 0 ? *bucket_of(s, id) : NULL;

    while (o != NULL && strcmp(o->id, id) != 0)
        o = o->next;
    return o;
}

/* One entry a bucket on average. */
static void grow(struct lc_open_set *s)
{
    if (s->n < s->n_buckets)
        return;
    free(s->bucket);
    s->n_buckets = s->n_buckets > 0 ? 2 * s->n_buckets : 64;
    s->bucket = lc_alloc(s->n_buckets, sizeof(struct lc_open *));
    for (struct lc_open *o = s->first; o != NULL; o = o->after) {
        struct lc_open **at = bucket_of(s, o->id);
        o->next = *at;
        *at = o;
    }
}

/* The line is copied. */
struct lc_open *lc_open_add(struct lc_open_set *s, const char *id, const char *line, size_t n)
{
    struct lc_open *o = lc_alloc(1, sizeof *o);

    grow(s);
    o->id = lc_copy(id);
    o->line = lc_alloc(n + 1, 1);
    memcpy(o->line, line, n);
    struct lc_open **at = bucket_of(s, id);
    o->next = *at;
    *at = o;
    o->before = s->last;
    *(s->last != NULL ? &s->last->after : &s->first) = o;
    s->last = o;
    s->n++;
    return o;
}

void lc_open_remove(struct lc_open_set *s, struct lc_open *o)
{
    struct lc_open **at = bucket_of(s, o->id);

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    *(o->before != NULL ? &o->before->after : &s->first) = o->after;
    *(o->after != NULL ? &o->after->before : &s->last) = o->before;
    s->n--;
    free(o->id);
    free(o->line);
    free(o);
}

void lc_open_close(struct lc_open_set *s)
{
    while (s->first != NULL)
        lc_open_remove(s, s->first);
    free(s->bucket);
    *s = (struct lc_open_set){0};
}
