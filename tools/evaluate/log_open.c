/* Decisions without their reward: a balanced tree of the C library by id, and a list. Memory: their lines. */
#include "evaluate/log_open.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct lc_open *)a)->id, ((const struct lc_open *)b)->id);
}

struct lc_open *lc_open_find(const struct lc_open_set *s, const char *id)
{
    const struct lc_open wanted = {.id = (char *)(uintptr_t)id};
    struct lc_open *const *found = tfind(&wanted, &s->tree, by_id);

    return found != NULL ? *found : NULL;
}

struct lc_open *lc_open_add(struct lc_open_set *s, const char *id, const char *line, size_t n)
{
    struct lc_open *o = lc_alloc(1, sizeof *o);

    o->id = lc_copy(id);
    o->line = lc_alloc(n + 1, 1);
    memcpy(o->line, line, n);
    if (tsearch(o, &s->tree, by_id) == NULL)
        lc_out_of_memory(1, sizeof *o);
    o->before = s->last;
    *(s->last != NULL ? &s->last->after : &s->first) = o;
    s->last = o;
    return o;
}

void lc_open_remove(struct lc_open_set *s, struct lc_open *o)
{
    tdelete(o, &s->tree, by_id);
    *(o->before != NULL ? &o->before->after : &s->first) = o->after;
    *(o->after != NULL ? &o->after->before : &s->last) = o->before;
    free(o->id);
    free(o->line);
    free(o);
}

void lc_open_close(struct lc_open_set *s)
{
    while (s->first != NULL)
        lc_open_remove(s, s->first);
}
