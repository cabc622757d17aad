/* Interned ids (ids.h): one byte pool, one offset per id, and an open-addressing table over them.
 *
 * The table holds indices only; a probe compares strings in the pool. It is kept at most half full, so a
 * linear probe ends after about two steps. Nothing is ever removed, hence no tombstones. Memory is obtained in
 * `reserve` alone, which keeps the promise that `add` cannot fail after an event has been logged.
 *
 * Cost: find and add O(length of the id); reserve amortised O(1) per id, O(n) when the table is rebuilt.
 *
 * The engine keeps one for users and one for arms, and two small ones for ids that a batch brings (staged).
 * An index is the name of a user or an arm in every other structure of the core; the string comes back in
 * answers only. Readers look ids up under the tenant's read lock; `reserve` moves the arrays at once and needs
 * exclusion, `grow` makes the new ones beside readers and leaves a swap to be done (moves.h). */
#include "base/ids.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"

#define FIRST_SLOTS ((size_t)16)

void kb_ids_init(struct kb_ids *ids, struct kb_hash_key key)
{
    *ids = (struct kb_ids){.key = key};
}

/* Empty again, as after init. */
void kb_ids_close(struct kb_ids *ids)
{
    kb_free(ids->bytes);
    kb_free(ids->offset);
    kb_free(ids->slot);
    kb_ids_init(ids, ids->key);
}

/* Slot of the table where id stands, or the empty one where it would go. Needs a table with a free slot. */
static size_t probe(const uint32_t *slot, size_t n_slots, const struct kb_ids *ids, const char *id)
{
    size_t at = (size_t)kb_keyed_str(ids->key, id) & (n_slots - 1);
    while (slot[at] != KB_ID_NONE && strcmp(ids->bytes + ids->offset[slot[at]], id) != 0)
        at = (at + 1) & (n_slots - 1);
    return at;
}

/* A reader's function: it touches no counter and no memory. */
uint32_t kb_ids_find(const struct kb_ids *ids, const char *id)
{
    return ids->n_slots == 0 ? KB_ID_NONE : ids->slot[probe(ids->slot, ids->n_slots, ids, id)];
}

size_t kb_ids_slots_for(size_t n)
{
    size_t n_slots = FIRST_SLOTS;
    while (n_slots < 2 * n)
        n_slots *= 2;
    return n_slots;
}

uint32_t *kb_ids_slots_new(size_t n_slots)
{
    uint32_t *slot = kb_regrow(NULL, n_slots, sizeof *slot);
    if (slot != NULL)
        memset(slot, 0xff, n_slots * sizeof *slot); /* KB_ID_NONE is all ones */
    return slot;
}

/* Distinct ids: the first free slot is the right one. */
void kb_ids_place(uint32_t *slot, size_t n_slots, struct kb_hash_key key, const char *id, uint32_t number)
{
    size_t at = (size_t)kb_keyed_str(key, id) & (n_slots - 1);
    while (slot[at] != KB_ID_NONE)
        at = (at + 1) & (n_slots - 1);
    slot[at] = number;
}

static void place_all(uint32_t *slot, size_t n_slots, struct kb_hash_key key, const struct kb_ids *ids, size_t first)
{
    for (uint32_t ix = 0; ix < ids->n; ix++)
        kb_ids_place(slot, n_slots, key, kb_ids_str(ids, ix), (uint32_t)first + ix);
}

/* A table of at least 2 n slots with the present ids in it. The old one stays in force until the swap. Doubling makes
 * this O(1) per id over a life. */
static enum kb_err grow_slots(struct kb_ids *ids, size_t n, struct kb_moves *m)
{
    const size_t want = kb_ids_slots_for(n);
    if (want <= ids->n_slots)
        return KB_OK;
    uint32_t *slot = kb_ids_slots_new(want);
    if (slot != NULL)
        place_all(slot, want, ids->key, ids, 0);
    return kb_moves_take(m, &ids->slot, slot, &ids->n_slots, want);
}

/* Counts add to what is there, so growing twice without adding in between asks for no more than once. */
enum kb_err kb_ids_grow(struct kb_ids *ids, size_t n, size_t n_bytes, struct kb_moves *m)
{
    enum kb_err rc;
    if (n >= KB_ID_NONE - ids->n)
        return KB_ELIMIT;
    if (n_bytes > SIZE_MAX / 2 - ids->n_bytes)
        return KB_ENOMEM;
    KB_TRY(grow_slots(ids, ids->n + n, m));
    if (ids->n_bytes + n_bytes > ids->cap_bytes)
        KB_TRY(kb_moves_add(m, &ids->bytes, ids->n_bytes, kb_grown_cap(ids->cap_bytes, ids->n_bytes + n_bytes, 256), 1,
                            &ids->cap_bytes));
    if (ids->n + n > ids->cap)
        KB_TRY(kb_moves_add(m, &ids->offset, ids->n, kb_grown_cap(ids->cap, ids->n + n, FIRST_SLOTS),
                            sizeof *ids->offset, &ids->cap));
out:
    return rc;
}

/* --- many at once --------------------------------------------------------------------------------------- */

static enum kb_err join_strings(struct kb_ids *ids, const struct kb_ids *fresh, struct kb_moves *m)
{
    const size_t n = ids->n + fresh->n, cap = kb_grown_cap(ids->cap, n, FIRST_SLOTS);
    const size_t n_bytes = ids->n_bytes + fresh->n_bytes, cap_bytes = kb_grown_cap(ids->cap_bytes, n_bytes, 256);
    char *bytes = kb_regrow(NULL, cap_bytes, 1);
    size_t *offset = kb_regrow(NULL, cap, sizeof *offset);
    if (bytes != NULL && offset != NULL) {
        if (ids->n > 0) {
            memcpy(bytes, ids->bytes, ids->n_bytes);
            memcpy(offset, ids->offset, ids->n * sizeof *offset);
        }
        memcpy(bytes + ids->n_bytes, fresh->bytes, fresh->n_bytes);
        for (size_t i = 0; i < fresh->n; i++)
            offset[ids->n + i] = ids->n_bytes + fresh->offset[i];
    }
    const enum kb_err rc = kb_moves_take(m, &ids->bytes, bytes, &ids->cap_bytes, cap_bytes);
    const enum kb_err rc_offset = kb_moves_take(m, &ids->offset, offset, &ids->cap, cap);
    return rc != KB_OK ? rc : rc_offset;
}

/* The numbers move with the arrays. */
enum kb_err kb_ids_join_placed(struct kb_ids *ids, const struct kb_ids *fresh, uint32_t *slot, size_t n_slots,
                               struct kb_moves *m)
{
    enum kb_err rc = kb_moves_take(m, &ids->slot, slot, &ids->n_slots, n_slots);
    KB_TRY(rc);
    KB_TRY(join_strings(ids, fresh, m));
    KB_TRY(kb_moves_number(m, &ids->n_bytes, ids->n_bytes + fresh->n_bytes));
    KB_TRY(kb_moves_number(m, &ids->n, ids->n + fresh->n));
out:
    return rc;
}

enum kb_err kb_ids_join(struct kb_ids *ids, const struct kb_ids *fresh, struct kb_moves *m)
{
    if (fresh->n >= KB_ID_NONE - ids->n)
        return KB_ELIMIT;
    const size_t want = kb_ids_slots_for(ids->n + fresh->n), n_slots = want > ids->n_slots ? want : ids->n_slots;
    uint32_t *slot = kb_ids_slots_new(n_slots);
    if (slot == NULL)
        return KB_ENOMEM;
    place_all(slot, n_slots, ids->key, ids, 0);
    place_all(slot, n_slots, ids->key, fresh, ids->n);
    return kb_ids_join_placed(ids, fresh, slot, n_slots, m);
}

/* --- lists ---------------------------------------------------------------------------------------------- */

/* Nobody reads a list while it grows. */
enum kb_err kb_ids_list(struct kb_ids *ids, size_t n, size_t n_bytes)
{
    if (n >= KB_ID_NONE - ids->n)
        return KB_ELIMIT;
    if (kb_grow((void **)&ids->offset, &ids->cap, ids->n + n, FIRST_SLOTS, sizeof *ids->offset) != 0 ||
        kb_grow((void **)&ids->bytes, &ids->cap_bytes, ids->n_bytes + n_bytes, 256, 1) != 0)
        return KB_ENOMEM;
    return KB_OK;
}

uint32_t kb_ids_put(struct kb_ids *ids, const char *id)
{
    const size_t length = strlen(id) + 1;
    assert(ids->n < ids->cap && length <= ids->cap_bytes - ids->n_bytes);
    memcpy(ids->bytes + ids->n_bytes, id, length);
    ids->offset[ids->n] = ids->n_bytes;
    ids->n_bytes += length;
    return (uint32_t)ids->n++;
}

/* All arrays or none. */
enum kb_err kb_ids_reserve(struct kb_ids *ids, size_t n, size_t n_bytes)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_ids_grow(ids, n, n_bytes, &m));
}

/* Cannot fail: the assertion says that the caller forgot to reserve. */
uint32_t kb_ids_add(struct kb_ids *ids, const char *id)
{
    assert(ids->n_slots > 0);
    size_t at = probe(ids->slot, ids->n_slots, ids, id);
    if (ids->slot[at] != KB_ID_NONE)
        return ids->slot[at];
    assert(2 * (ids->n + 1) <= ids->n_slots);
    return ids->slot[at] = kb_ids_put(ids, id);
}

/* Points into the pool, which kb_ids_reserve may move. */
const char *kb_ids_str(const struct kb_ids *ids, uint32_t ix)
{
    assert(ix < ids->n);
    return ids->bytes + ids->offset[ix];
}
