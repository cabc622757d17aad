/* The table of keys: see keys_impl.h. An id that is not there is compared with nothing just as long; ids are no secret,
 * so what else a look-up's time may tell does not matter. */
#include <stdlib.h>
#include <string.h>

#include "keys/keys_impl.h"

struct ld_key_table *ld_key_table_new(size_t n)
{
    size_t cap = 8;
    while (cap < 2 * (n + 1))
        cap *= 2;
    struct ld_key_table *t = calloc(1, sizeof *t + cap * sizeof t->slot[0]);
    if (t != NULL)
        t->cap = cap;
    return t;
}

void ld_key_table_free(struct ld_key_table *t, bool with_entries)
{
    for (size_t i = 0; t != NULL && with_entries && i < t->cap; i++)
        free(t->slot[i]);
    free(t);
}

void ld_key_table_put(struct ld_key_table *t, struct ld_key_entry *e)
{
    t->slot[ld_key_table_slot(t, e->key.id)] = e;
    t->n++;
}

struct ld_key_entry *ld_key_table_next(const struct ld_key_table *t, size_t *i)
{
    while (*i < t->cap) {
        struct ld_key_entry *e = t->slot[(*i)++];
        if (e != NULL && !atomic_load(&e->is_gone))
            return e;
    }
    return NULL;
}

struct ld_key_table *ld_key_table_copy(const struct ld_key_table *from)
{
    struct ld_key_table *t = ld_key_table_new(from->n + 1);
    size_t i = 0;
    for (struct ld_key_entry *e; t != NULL && (e = ld_key_table_next(from, &i)) != NULL;)
        ld_key_table_put(t, e);
    return t;
}

/* ---- entries --------------------------------------------------------------------------------------------- */

struct ld_key_entry *ld_key_entry_new(const struct ld_key *key)
{
    struct ld_key_entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->key = *key;
    atomic_init(&e->last_used_at, key->last_used_at);
    atomic_init(&e->written_at, key->last_used_at);
    return e;
}

struct ld_key ld_key_entry_view(const struct ld_key_entry *e)
{
    struct ld_key key = e->key;
    key.last_used_at = atomic_load_explicit(&e->last_used_at, memory_order_relaxed);
    return key;
}

static bool grow(struct ld_key_table **t)
{
    struct ld_key_table *grown = ld_key_table_new(2 * ((*t)->n + 1));
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < (*t)->cap; i++)
        if ((*t)->slot[i] != NULL)
            ld_key_table_put(grown, (*t)->slot[i]);
    ld_key_table_free(*t, false);
    *t = grown;
    return true;
}

bool ld_key_table_load(struct ld_key_table **t, const struct ld_key *key)
{
    struct ld_key_entry *e = ld_key_entry_new(key);
    if (e == NULL || (2 * ((*t)->n + 2) > (*t)->cap && !grow(t))) {
        free(e);
        return false;
    }
    ld_key_table_put(*t, e);
    return true;
}
