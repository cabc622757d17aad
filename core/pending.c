/* Open decisions in one open-addressed table, keyed by decision id.
 *
 * Deadlines are few per second against many entries, so expiry scans the table. `next_expiry_ms` is a lower
 * bound that removals leave alone and a scan makes exact, so that idle ticks cost O(1); it is atomic because the
 * writer refreshes it while readers may ask for it. */
#include "pending.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "event.h"
#include "hash.h"

#define PENDING_ID_MAX 4096u

void kb_pending_init(struct kb_pending *p)
{
    *p = (struct kb_pending){.next_expiry_ms = INT64_MAX};
}

void kb_pending_close(struct kb_pending *p)
{
    for (size_t i = 0; i < p->n_slots; i++)
        kb_free(p->slot[i]);
    kb_free(p->slot);
    kb_pending_init(p);
}

static size_t home_of(const struct kb_pending *p, const char *id)
{
    return (size_t)kb_hash_str(KB_HASH_INIT, id) & (p->n_slots - 1);
}

static void place(struct kb_pending *p, struct kb_pending_entry *entry)
{
    size_t i = home_of(p, entry->id);

    while (p->slot[i] != NULL)
        i = (i + 1) & (p->n_slots - 1);
    p->slot[i] = entry;
}

enum kb_err kb_pending_reserve(struct kb_pending *p, size_t n)
{
    size_t want = p->n_slots > 0 ? p->n_slots : 64;
    struct kb_pending_entry **old = p->slot;
    const size_t n_old = p->n_slots;

    while (want / 2 < p->n + n)
        want *= 2;
    if (want == n_old)
        return KB_OK;
    struct kb_pending_entry **slot = kb_array(want, 1, sizeof(struct kb_pending_entry *));
    if (slot == NULL)
        return KB_ENOMEM;
    p->slot = slot;
    p->n_slots = want;
    for (size_t i = 0; i < n_old; i++)
        if (old[i] != NULL)
            place(p, old[i]);
    kb_free(old);
    return KB_OK;
}

struct kb_pending_entry *kb_pending_entry_new(const char *id, size_t n_slots, size_t dim)
{
    const size_t id_bytes = strlen(id) + 1;
    const size_t slots_bytes = n_slots * sizeof(struct kb_pending_slot);
    const size_t x_bytes = n_slots * dim * sizeof(double);
    const size_t bytes = sizeof(struct kb_pending_entry) + slots_bytes + x_bytes + id_bytes;
    unsigned char *block = kb_array(bytes, 1, 1);

    assert(n_slots <= KB_MAX_SLOTS);
    if (block == NULL)
        return NULL;
    struct kb_pending_entry *entry = (void *)block;
    entry->slot = (void *)(block + sizeof *entry);
    entry->x = (void *)(block + sizeof *entry + slots_bytes);
    entry->id = memcpy(block + sizeof *entry + slots_bytes + x_bytes, id, id_bytes);
    entry->n_slots = n_slots;
    entry->bytes = bytes;
    for (size_t i = 0; i < n_slots; i++)
        entry->slot[i].x = entry->x + i * dim;
    return entry;
}

void kb_pending_insert(struct kb_pending *p, struct kb_pending_entry *entry)
{
    assert(p->n < p->n_slots / 2);
    place(p, entry);
    p->n++;
    p->bytes += entry->bytes;
    if (entry->expires_at_ms < p->next_expiry_ms)
        p->next_expiry_ms = entry->expires_at_ms;
}

struct kb_pending_entry *kb_pending_find(const struct kb_pending *p, const char *id)
{
    if (p->n == 0)
        return NULL;
    for (size_t i = home_of(p, id); p->slot[i] != NULL; i = (i + 1) & (p->n_slots - 1))
        if (strcmp(p->slot[i]->id, id) == 0)
            return p->slot[i];
    return NULL;
}

/* Deadline bound from scratch: after the entry that set it has gone. */
static int64_t scan_next(const struct kb_pending *p)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < p->n_slots; i++)
        if (p->slot[i] != NULL && p->slot[i]->expires_at_ms < next)
            next = p->slot[i]->expires_at_ms;
    return next;
}

/* Removal by shifting the run back (no tombstones). The bound is kept as it is: a low bound only costs a scan. */
void kb_pending_remove(struct kb_pending *p, struct kb_pending_entry *entry)
{
    size_t hole = home_of(p, entry->id);

    while (p->slot[hole] != entry)
        hole = (hole + 1) & (p->n_slots - 1);
    p->slot[hole] = NULL;
    for (size_t i = (hole + 1) & (p->n_slots - 1); p->slot[i] != NULL; i = (i + 1) & (p->n_slots - 1)) {
        struct kb_pending_entry *moved = p->slot[i];

        p->slot[i] = NULL;
        place(p, moved);
    }
    p->n--;
    p->bytes -= entry->bytes;
    kb_free(entry);
    if (p->n == 0)
        p->next_expiry_ms = INT64_MAX;
}

size_t kb_pending_expired(struct kb_pending *p, int64_t now_ms, const char **ids, size_t max)
{
    size_t n = 0;

    if (p->next_expiry_ms > now_ms)
        return 0;
    for (size_t i = 0; i < p->n_slots && n < max; i++)
        if (p->slot[i] != NULL && p->slot[i]->expires_at_ms <= now_ms)
            ids[n++] = p->slot[i]->id;
    if (n == 0)
        p->next_expiry_ms = scan_next(p);
    return n;
}

int64_t kb_pending_next_expiry(const struct kb_pending *p)
{
    return p->next_expiry_ms;
}

static uint64_t entry_digest(const struct kb_pending_entry *entry, size_t dim)
{
    uint64_t h = kb_hash_str(KB_HASH_INIT, entry->id);

    h = kb_hash_u64(h, entry->user);
    h = kb_hash_u64(h, (uint64_t)entry->expires_at_ms);
    h = kb_hash_u64(h, entry->is_deferred);
    for (size_t i = 0; i < entry->n_slots; i++) {
        h = kb_hash_u64(h, entry->slot[i].arm);
        h = kb_hash_u64(h, entry->slot[i].has_reward);
        h = kb_hash_double(h, entry->slot[i].reward);
    }
    return kb_hash_bytes(h, entry->x, entry->n_slots * dim * sizeof(double));
}

uint64_t kb_pending_digest(const struct kb_pending *p, size_t dim, uint64_t h)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->n_slots; i++)
        if (p->slot[i] != NULL)
            sum += entry_digest(p->slot[i], dim);
    return kb_hash_u64(kb_hash_u64(h, p->n), sum);
}

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
        for (size_t k = 0; k < entry->n_slots; k++) {
            kb_put_u64(w, entry->slot[k].arm);
            kb_put_u64(w, entry->slot[k].has_reward);
            kb_put_double(w, entry->slot[k].reward);
        }
        kb_put_doubles(w, entry->x, entry->n_slots * dim);
    }
}

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
    struct kb_pending_entry *entry = kb_pending_entry_new(id, n_slots, dim);
    if (entry == NULL)
        return KB_ENOMEM;
    entry->user = (uint32_t)kb_get_u64(r);
    entry->expires_at_ms = (int64_t)kb_get_u64(r);
    entry->is_deferred = kb_get_u64(r) != 0;
    for (size_t k = 0; k < n_slots; k++) {
        entry->slot[k].arm = (uint32_t)kb_get_u64(r);
        entry->slot[k].has_reward = kb_get_u64(r) != 0;
        entry->slot[k].reward = kb_get_double(r);
    }
    kb_get_doubles(r, entry->x, n_slots * dim);
    kb_pending_insert(p, entry);
    return r->rc;
}

enum kb_err kb_pending_load(struct kb_pending *p, size_t dim, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, r->n);
    enum kb_err rc = kb_pending_reserve(p, n);

    for (size_t i = 0; i < n && rc == KB_OK; i++)
        rc = load_entry(p, dim, r);
    p->next_expiry_ms = scan_next(p);
    return rc != KB_OK ? rc : r->rc;
}
