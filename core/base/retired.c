/* The list of replaced things (retired.h).
 *
 * Adding cannot fail, since it happens while an event is applied: room is made when the event is reserved, a failure
 * of which refuses the event. An item brings its own way to be freed, for the list knows arrays, posteriors and graphs
 * alike. A hold is a count and not a time: who holds longer keeps more memory, and nothing else is affected. */
#include "base/retired.h"

#include <assert.h>

#include "base/alloc.h"

void kb_retired_init(struct kb_retired *r)
{
    *r = (struct kb_retired){0};
}

void kb_retired_close(struct kb_retired *r)
{
    assert(r->n_holds == 0);
    kb_retired_sweep(r);
    kb_free(r->item);
    kb_retired_init(r);
}

enum kb_err kb_retired_reserve(struct kb_retired *r, size_t n)
{
    return kb_grow((void **)&r->item, &r->cap, r->n + n, 16, sizeof *r->item) == 0 ? KB_OK : KB_ENOMEM;
}

void kb_retired_add(struct kb_retired *r, void *ptr, void (*free_it)(void *))
{
    if (ptr == NULL)
        return;
    assert(r->n < r->cap);
    r->item[r->n++] = (struct kb_retired_item){ptr, free_it};
}

void kb_retired_sweep(struct kb_retired *r)
{
    if (r->n_holds > 0)
        return;
    for (size_t i = 0; i < r->n; i++)
        r->item[i].free(r->item[i].ptr);
    r->n = 0;
}

void kb_retired_hold(struct kb_retired *r)
{
    r->n_holds++;
}

void kb_retired_release(struct kb_retired *r)
{
    assert(r->n_holds > 0);
    r->n_holds--;
}
