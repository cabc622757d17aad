/* Open decisions in one open-addressed table, keyed by decision id.
 *
 * Deadlines are few per second against many entries, so expiry scans the table. `next_expiry_ms` is a lower
 * bound that removals leave alone and a scan makes exact, so that idle ticks cost O(1); it is atomic because the
 * writer refreshes it while readers may ask for it.
 *
 * Linear probing at a load of at most one half; removal shifts the rest of the run back, so there are no
 * tombstones and a search ends at the first empty slot. The table's layout depends on its history and is no
 * part of the state: entries are saved in whatever order the slots have, and the digest is a sum over
 * entries, in which order is lost.
 *
 * An entry is one block (struct, slots, vectors, id in this order, which is also that of falling alignment):
 * made in `reserve`, outside any table, put in by `apply`, freed when the decision closes.
 *
 * Cost: find, insert, remove O(1) expected; expiry O(table) when something is due, else O(1). */
#include "pending.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "event.h"
#include "hash.h"

#define PENDING_ID_MAX 4096u

/* An empty table owns no memory; the first reserve makes one of at least 64 slots. */
void kb_pending_init(struct kb_pending *p)
{
    *p = (struct kb_pending){.next_expiry_ms = INT64_MAX};
}

/* Frees the entries too, reserved or not. Ready for use again. The entries of staged events are not in
 * the table and are not freed here. */
void kb_pending_close(struct kb_pending *p)
{
    for (size_t i = 0; i < p->n_slots; i++)
        kb_free(p->slot[i]);
    kb_free(p->slot);
    kb_pending_init(p);
}

/* Of a table of n_slots. The low bits of the hash. Not folded, unlike the tables of ids.c and history.c. */
static size_t home_in(size_t n_slots, const char *id)
{
    return (size_t)kb_hash_str(KB_HASH_INIT, id) & (n_slots - 1);
}

/* Needs a table. */
static size_t home_of(const struct kb_pending *p, const char *id)
{
    return home_in(p->n_slots, id);
}

/* Puts the entry into the first free slot of a table from its home on. Room is the caller's business. No comparison
 * with what stands there: ids are distinct. */
static void place(struct kb_pending_entry **slot, size_t n_slots, struct kb_pending_entry *entry)
{
    size_t i = home_in(n_slots, entry->id);

    while (slot[i] != NULL)
        i = (i + 1) & (n_slots - 1);
    slot[i] = entry;
}

/* The entries stay where they are, only the table of pointers is made anew. */
enum kb_err kb_pending_grow(struct kb_pending *p, size_t n, struct kb_moves *m)
{
    size_t want = p->n_slots > 0 ? p->n_slots : 64;

    /* at most half full after n more */
    while (want / 2 < p->n + n)
        want *= 2;
    if (want == p->n_slots)
        return KB_OK;
    struct kb_pending_entry **slot = kb_array(want, 1, sizeof(struct kb_pending_entry *));
    if (slot == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < p->n_slots; i++)
        if (p->slot[i] != NULL)
            place(slot, want, p->slot[i]);
    return kb_moves_take(m, &p->slot, slot, &p->n_slots, want);
}

/* KB_ENOMEM changes nothing. */
enum kb_err kb_pending_reserve(struct kb_pending *p, size_t n)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_pending_grow(p, n, &m));
}

/* All fields but id, counts and pointers are zero: the caller fills them. n_slots is at most 16 and dim
 * bounded by the spec, so the sizes cannot wrap. kb_free gives all of it back at once. */
struct kb_pending_entry *kb_pending_entry_new(const char *id, size_t n_slots, size_t dim)
{
    const size_t id_bytes = strlen(id) + 1;
    const size_t slots_bytes = n_slots * sizeof(struct kb_pending_slot);
    const size_t x_bytes = n_slots * dim * sizeof(double);
    const size_t bytes = sizeof(struct kb_pending_entry) + slots_bytes + x_bytes + id_bytes;
    /* One allocation: an entry cannot be made halfway. */
    unsigned char *block = kb_array(bytes, 1, 1);

    assert(n_slots <= KB_MAX_SLOTS);
    if (block == NULL)
        return NULL;
    struct kb_pending_entry *entry = (void *)block;
    entry->slot = (void *)(block + sizeof *entry);
    entry->x = (void *)(block + sizeof *entry + slots_bytes);
    entry->id = memcpy(block + sizeof *entry + slots_bytes + x_bytes, id, id_bytes);
    entry->n_slots = n_slots;
    entry->n_x = n_slots * dim;
    entry->bytes = bytes;
    for (size_t i = 0; i < n_slots; i++)
        entry->slot[i].x = entry->x + i * dim;
    return entry;
}

/* is_reserved is left out: it belongs to the batch in hand, not to what the log says. */
static uint64_t entry_hash(const struct kb_pending_entry *entry)
{
    uint64_t h = kb_hash_str(KB_HASH_INIT, entry->id);

    h = kb_hash_mix(h, entry->user);
    h = kb_hash_mix(h, (uint64_t)entry->expires_at_ms);
    h = kb_hash_mix(h, (uint64_t)entry->route << 32 | (uint64_t)entry->level << 1 | entry->is_deferred);
    for (size_t i = 0; i < entry->n_slots; i++) {
        const double value[2] = {entry->slot[i].reward, entry->slot[i].halvings};

        h = kb_hash_mix(h, (uint64_t)entry->slot[i].arm << 1 | entry->slot[i].has_reward);
        h = kb_hash_mix_doubles(h, value, 2);
    }
    return kb_hash_finish(kb_hash_mix_doubles(h, entry->x, entry->n_x));
}

void kb_pending_changed(struct kb_pending *p, struct kb_pending_entry *entry)
{
    p->digest -= entry->hash;
    entry->hash = entry_hash(entry);
    p->digest += entry->hash;
}

/* The bound is lowered at once, so that no deadline is missed between two scans. */
void kb_pending_insert(struct kb_pending *p, struct kb_pending_entry *entry)
{
    assert(p->n < p->n_slots / 2);
    place(p->slot, p->n_slots, entry);
    p->n++;
    p->bytes += entry->bytes;
    entry->hash = entry_hash(entry);
    p->digest += entry->hash;
    if (entry->expires_at_ms < p->next_expiry_ms)
        p->next_expiry_ms = entry->expires_at_ms;
}

/* A table without entries may not exist, hence the first test. */
struct kb_pending_entry *kb_pending_find(const struct kb_pending *p, const char *id)
{
    if (p->n == 0)
        return NULL;
    for (size_t i = home_of(p, id); p->slot[i] != NULL; i = (i + 1) & (p->n_slots - 1))
        if (strcmp(p->slot[i]->id, id) == 0)
            return p->slot[i];
    return NULL;
}

/* Deadline bound from scratch: after the entry that set it has gone. O(table). Called by load, and when a
 * scan for due entries has found none. */
static int64_t scan_next(const struct kb_pending *p)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < p->n_slots; i++)
        if (p->slot[i] != NULL && p->slot[i]->expires_at_ms < next)
            next = p->slot[i]->expires_at_ms;
    return next;
}

/* Removal by shifting the run back (no tombstones). The bound is kept as it is: a low bound only costs a
 * scan. `entry` must be in the table: the search for it does not end otherwise. Every entry of the run behind
 * the hole is placed anew, so that no search stops at the hole before it has come to its entry. The run is
 * short at a load of one half. */
void kb_pending_remove(struct kb_pending *p, struct kb_pending_entry *entry)
{
    size_t hole = home_of(p, entry->id);

    while (p->slot[hole] != entry)
        hole = (hole + 1) & (p->n_slots - 1);
    p->slot[hole] = NULL;
    for (size_t i = (hole + 1) & (p->n_slots - 1); p->slot[i] != NULL; i = (i + 1) & (p->n_slots - 1)) {
        struct kb_pending_entry *moved = p->slot[i];

        p->slot[i] = NULL;
        place(p->slot, p->n_slots, moved);
    }
    p->n--;
    p->bytes -= entry->bytes;
    p->digest -= entry->hash;
    kb_free(entry);
    if (p->n == 0)
        p->next_expiry_ms = INT64_MAX;
}

/* In the order of the table, hence of the hash: among those due none is first. When fewer than `max` came
 * back the caller has seen all of them; once none is left the next call makes the bound exact. */
size_t kb_pending_expired(struct kb_pending *p, int64_t now_ms, const char **ids, size_t max)
{
    size_t n = 0;

    if (p->next_expiry_ms > now_ms)
        return 0;
    for (size_t i = 0; i < p->n_slots && n < max; i++)
        if (p->slot[i] != NULL && p->slot[i]->expires_at_ms <= now_ms)
            ids[n++] = p->slot[i]->id;
    /* nothing was due: the entry that had set the bound is gone, so look where the next one lies */
    if (n == 0)
        p->next_expiry_ms = scan_next(p);
    return n;
}

/* A lower bound: the nearest deadline may be later than it says, never earlier. INT64_MAX when nothing is
 * open. */
int64_t kb_pending_next_expiry(const struct kb_pending *p)
{
    return p->next_expiry_ms;
}

uint64_t kb_pending_digest(const struct kb_pending *p, uint64_t h)
{
    return kb_hash_u64(kb_hash_u64(h, p->n), p->digest);
}

/* n, then per entry: id, number of slots, user, deadline, deferred, level, route, the slots, the vectors
 * (schema/snapshot.md). Fields of 64 bits throughout, flags too: entries are few, and a plain format is
 * easier to check by hand. */
void kb_pending_save(const struct kb_pending *p, size_t dim, struct kb_writer *w)
{
    kb_put_u64(w, p->n);
    for (size_t i = 0; i < p->n_slots; i++) {
        const struct kb_pending_entry *entry = p->slot[i];

        if (entry == NULL)
            continue;
        kb_put_str(w, entry->id);
        kb_put_u64(w, entry->n_slots);
        kb_put_u64(w, entry->user);
        kb_put_u64(w, (uint64_t)entry->expires_at_ms);
        kb_put_u64(w, entry->is_deferred);
        kb_put_u64(w, entry->level);
        kb_put_u64(w, entry->route);
        for (size_t k = 0; k < entry->n_slots; k++) {
            kb_put_u64(w, entry->slot[k].arm);
            kb_put_u64(w, entry->slot[k].has_reward);
            kb_put_double(w, entry->slot[k].reward);
            kb_put_double(w, entry->slot[k].halvings);
        }
        kb_put_doubles(w, entry->x, entry->n_slots * dim);
    }
}

/* Room for it is reserved. An id of 4 KiB or more is no id of ours and means a damaged file. The id is copied
 * to the stack because the reader's bytes have no NUL behind them. */
static enum kb_err load_entry(struct kb_pending *p, size_t dim, struct kb_reader *r)
{
    char id[PENDING_ID_MAX];
    size_t len = 0;
    const char *text = kb_get_str(r, &len);
    const size_t n_slots = kb_get_count(r, KB_MAX_SLOTS);

    if (r->rc != KB_OK || text == NULL || len >= sizeof id || n_slots == 0)
        return KB_ECORRUPT;
    memcpy(id, text, len);
    id[len] = '\0';
    if (kb_pending_find(p, id) != NULL)
        return KB_ECORRUPT;
    struct kb_pending_entry *entry = kb_pending_entry_new(id, n_slots, dim);
    if (entry == NULL)
        return KB_ENOMEM;
    entry->user = (uint32_t)kb_get_u64(r);
    entry->expires_at_ms = (int64_t)kb_get_u64(r);
    entry->is_deferred = kb_get_u64(r) != 0;
    entry->level = (uint32_t)kb_get_count(r, KB_MAX_LEVEL);
    entry->route = (uint32_t)kb_get_count(r, KB_ROUTE_N - 1);
    for (size_t k = 0; k < n_slots; k++) {
        entry->slot[k].arm = (uint32_t)kb_get_u64(r);
        entry->slot[k].has_reward = kb_get_u64(r) != 0;
        entry->slot[k].reward = kb_get_double(r);
        entry->slot[k].halvings = kb_get_double(r);
    }
    kb_get_doubles(r, entry->x, n_slots * dim);
    kb_pending_insert(p, entry);
    return r->rc;
}

/* p fresh from init. After a failure some entries are in; kb_pending_close frees them. */
enum kb_err kb_pending_load(struct kb_pending *p, size_t dim, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, r->n);
    enum kb_err rc = kb_pending_reserve(p, n);

    for (size_t i = 0; i < n && rc == KB_OK; i++)
        rc = load_entry(p, dim, r);
    p->next_expiry_ms = scan_next(p);
    return rc != KB_OK ? rc : r->rc;
}
