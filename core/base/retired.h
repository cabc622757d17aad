/* What has been replaced in a model that is read: pointers changed hands under exclusion, and the old things wait here
 * to be freed after it, since giving back large memory takes as long as filling it.
 *
 * Work of long standing beside the writer may still look at arrays that have moved since it began: while it holds the
 * list, nothing in it is freed. All calls are the writer's. */
#ifndef KB_RETIRED_H
#define KB_RETIRED_H

#include <stddef.h>

#include "base/err.h"

struct kb_retired_item {
    void *ptr;
    void (*free)(void *ptr);
};

struct kb_retired {
    struct kb_retired_item *item;
    size_t n, cap;
    size_t n_holds;
};

void kb_retired_init(struct kb_retired *r);
void kb_retired_close(struct kb_retired *r); /* frees everything; nobody may hold it (asserted) */

/* Room for n more items, so that adding them cannot fail. */
enum kb_err kb_retired_reserve(struct kb_retired *r, size_t n);
/* Takes ptr over (NULL is fine), to be freed by `free_it`. Room reserved (asserted). O(1). */
void kb_retired_add(struct kb_retired *r, void *ptr, void (*free_it)(void *));

/* Frees all that is there, unless the list is held. */
void kb_retired_sweep(struct kb_retired *r);

/* Counted. A release frees nothing: the next sweep does. */
void kb_retired_hold(struct kb_retired *r);
void kb_retired_release(struct kb_retired *r);

#endif
