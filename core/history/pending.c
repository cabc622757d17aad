/* Open decisions in one open-addressed table, keyed by decision id, in a heap by their deadlines, and in a list for
 * each user by when they were shown.
 *
 * There may be a million of them, each in a block of its own somewhere in memory: so what goes over all of them does
 * not touch the blocks. The table has the ids' hashes, by which it grows and by which a search passes others by; the
 * heap has the deadlines. Only saving reads every block, and asks for those to come ahead of time.
 *
 * Linear probing at a load of at most one half; removal shifts the rest of the run back, so there are no
 * tombstones and a search ends at the first empty slot. The layouts of table and heap depend on their history and are
 * no part of the state: entries are saved in the heap's order, and the digest is a sum over entries, in which order is
 * lost. The lists by user are made again when entries are loaded, by the numbers in which they were shown; what a
 * reward by user has found stands in the log, so a fold does not ask them.
 *
 * An entry (pending_entry.c) is made in `reserve`, outside any table, put in by `apply`, freed when the decision
 * closes.
 *
 * Cost: find O(1) expected, by user O(1); insert and remove O(1) expected and O(log n) at worst in the heap, O(1) where
 * deadlines come in order; expiry O(what has expired). */
#include "history/pending.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"

#define AHEAD 16u
#define FIRST_USERS 64u
#define ENTRY_BYTES (17 * sizeof(uint64_t)) /* of one slot in a snapshot, at the least */

/* An empty table owns no memory; the first reserve makes one of at least 64 slots. */
void kb_pending_init(struct kb_pending *p, struct kb_hash_key key)
{
    *p = (struct kb_pending){.key = key};
}

/* Frees the entries too, reserved or not. Ready for use again. The entries of staged events are not in
 * the table and are not freed here. */
void kb_pending_close(struct kb_pending *p)
{
    for (size_t i = 0; i < p->n_slots; i++)
        kb_pending_entry_free(p->slot[i].entry);
    kb_free(p->slot);
    kb_free(p->due);
    kb_free(p->newest);
    kb_pending_init(p, p->key);
}

/* In a table of n_slots. */
static size_t home_of(uint64_t hash, size_t n_slots)
{
    return (size_t)hash & (n_slots - 1);
}

/* Puts it into the first free slot of a table from its home on. Room is the caller's business. No comparison
 * with what stands there: ids are distinct. */
static void place(struct kb_pending_place *slot, size_t n_slots, struct kb_pending_place what)
{
    size_t i = home_of(what.hash, n_slots);

    while (slot[i].entry != NULL)
        i = (i + 1) & (n_slots - 1);
    slot[i] = what;
}

static enum kb_err grow_users(struct kb_pending *p, size_t n_users, struct kb_moves *m)
{
    if (n_users <= p->cap_users)
        return KB_OK;
    const size_t cap = kb_grown_cap(p->cap_users, n_users, FIRST_USERS);
    struct kb_pending_user *newest = kb_array(cap, 1, sizeof *newest);

    if (newest == NULL)
        return KB_ENOMEM;
    if (p->cap_users > 0)
        memcpy(newest, p->newest, p->cap_users * sizeof *newest);
    return kb_moves_take(m, &p->newest, newest, &p->cap_users, cap);
}

/* The entries stay where they are; tables and heap are made anew. */
static enum kb_err grow_entries(struct kb_pending *p, size_t n, struct kb_moves *m)
{
    size_t want = p->n_slots > 0 ? p->n_slots : 64;

    /* at most half full after n more */
    while (want / 2 < p->n + n)
        want *= 2;
    if (want == p->n_slots)
        return KB_OK;
    struct kb_pending_place *slot = kb_array(want, 1, sizeof *slot);
    if (slot == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < p->n_slots; i++)
        if (p->slot[i].entry != NULL)
            place(slot, want, p->slot[i]);
    const enum kb_err rc = kb_moves_take(m, &p->slot, slot, &p->n_slots, want);
    return rc == KB_OK ? kb_moves_add(m, &p->due, p->n, want / 2, sizeof *p->due, NULL) : rc;
}

enum kb_err kb_pending_grow(struct kb_pending *p, size_t n, size_t n_users, struct kb_moves *m)
{
    const enum kb_err rc = grow_entries(p, n, m);

    return rc == KB_OK && n > 0 ? grow_users(p, n_users, m) : rc;
}

/* KB_ENOMEM changes nothing. */
enum kb_err kb_pending_reserve(struct kb_pending *p, size_t n, size_t n_users)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_pending_grow(p, n, n_users, &m));
}

/* Its memory counts from its first value on: until then a batch may still be lost. */
void kb_pending_set_value(struct kb_pending *p, struct kb_pending_entry *entry, struct kb_pending_value *v, double x)
{
    const size_t bytes = sizeof *v + strlen(v->metric) + 1;

    if (!v->has_value) {
        entry->bytes += bytes;
        if (p != NULL)
            p->bytes += bytes;
    }
    v->has_value = true;
    v->value = x;
}

void kb_pending_changed(struct kb_pending *p, struct kb_pending_entry *entry)
{
    p->digest -= entry->hash;
    entry->hash = kb_pending_entry_hash(entry, true);
    p->digest += entry->hash;
}

/* ---- deadlines ------------------------------------------------------------------------------------- */

static void set_due(struct kb_pending *p, size_t i, struct kb_pending_due d)
{
    p->due[i] = d;
    d.entry->due_at = i;
}

/* d to the place that is its own, from i on, where nothing stands: towards the root, then away from it. */
static void sift(struct kb_pending *p, size_t i, struct kb_pending_due d)
{
    for (; i > 0 && p->due[(i - 1) / 2].at_ms > d.at_ms; i = (i - 1) / 2)
        set_due(p, i, p->due[(i - 1) / 2]);
    for (size_t child; (child = 2 * i + 1) < p->n; i = child) {
        if (child + 1 < p->n && p->due[child + 1].at_ms < p->due[child].at_ms)
            child++;
        if (p->due[child].at_ms >= d.at_ms)
            break;
        set_due(p, i, p->due[child]);
    }
    set_due(p, i, d);
}

/* ---- what a user was shown ---------------------------------------------------------------------------- */

/* The list that the entry is in, or belongs into: by whether it has a number. */
static struct kb_pending_entry **head_of(struct kb_pending *p, const struct kb_pending_entry *entry)
{
    struct kb_pending_user *user = &p->newest[entry->user];

    return entry->shown > 0 ? &user->shown : &user->waiting;
}

/* In front of `older`, behind `newer`; NULL: at an end. */
static void link_between(struct kb_pending *p, struct kb_pending_entry *entry, struct kb_pending_entry *newer,
                         struct kb_pending_entry *older)
{
    assert(entry->newer == NULL && entry->older == NULL);
    entry->newer = newer;
    entry->older = older;
    if (older != NULL)
        older->newer = entry;
    if (newer != NULL)
        newer->older = entry;
    else
        *head_of(p, entry) = entry;
}

static void unlink_entry(struct kb_pending *p, struct kb_pending_entry *entry)
{
    if (entry->newer != NULL)
        entry->newer->older = entry->older;
    else
        *head_of(p, entry) = entry->older;
    if (entry->older != NULL)
        entry->older->newer = entry->newer;
    entry->newer = entry->older = NULL;
}

/* Deadlines first, which follow the order of decisions where windows are of one length; then ids, so that it is the
 * same order whenever it is asked for. */
static int compare_waiting(const struct kb_pending_entry *x, const struct kb_pending_entry *y)
{
    if (x->expires_at_ms != y->expires_at_ms)
        return x->expires_at_ms < y->expires_at_ms ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* Into the list that it belongs into. A number is a new one, hence in front of all others; among those that wait it
 * stands behind those with a later deadline, of which there are some only where the window was made shorter. */
static void link_entry(struct kb_pending *p, struct kb_pending_entry *entry)
{
    struct kb_pending_entry *newer = NULL, *older = *head_of(p, entry);

    while (entry->shown == 0 && older != NULL && compare_waiting(older, entry) > 0) {
        newer = older;
        older = older->older;
    }
    link_between(p, entry, newer, older);
}

void kb_pending_show(struct kb_pending *p, struct kb_pending_entry *entry)
{
    unlink_entry(p, entry);
    entry->shown = ++p->n_shown;
    link_entry(p, entry);
}

int kb_pending_compare_shown(const void *a, const void *b)
{
    const struct kb_pending_entry *const *x = a, *const *y = b;
    const int order = ((*x)->shown > (*y)->shown) - ((*x)->shown < (*y)->shown);

    return order != 0 || (*x)->shown > 0 ? order : compare_waiting(*x, *y);
}

/* ---- entries --------------------------------------------------------------------------------------- */

/* Into all but the list of its user. */
static void enter(struct kb_pending *p, struct kb_pending_entry *entry)
{
    assert(p->n < p->n_slots / 2 && entry->user < p->cap_users);
    place(p->slot, p->n_slots, (struct kb_pending_place){kb_keyed_str(p->key, entry->id), entry});
    p->n++;
    sift(p, p->n - 1, (struct kb_pending_due){entry->expires_at_ms, entry});
    p->bytes += entry->bytes;
    entry->hash = kb_pending_entry_hash(entry, true);
    p->digest += entry->hash;
}

void kb_pending_insert(struct kb_pending *p, struct kb_pending_entry *entry)
{
    enter(p, entry);
    if (!entry->is_deferred)
        entry->shown = ++p->n_shown;
    link_entry(p, entry);
}

/* A table without entries may not exist, hence the first test. */
struct kb_pending_entry *kb_pending_find(const struct kb_pending *p, const char *id)
{
    if (p->n == 0)
        return NULL;
    const uint64_t hash = kb_keyed_str(p->key, id);
    for (size_t i = home_of(hash, p->n_slots); p->slot[i].entry != NULL; i = (i + 1) & (p->n_slots - 1))
        if (p->slot[i].hash == hash && strcmp(p->slot[i].entry->id, id) == 0)
            return p->slot[i].entry;
    return NULL;
}

/* Removal by shifting the run back (no tombstones). `entry` must be in the table: the search for it does not end
 * otherwise. Every entry of the run behind the hole is placed anew, so that no search stops at the hole before it has
 * come to its entry. The run is short at a load of one half. */
static void take_out(struct kb_pending *p, const struct kb_pending_entry *entry)
{
    size_t hole = home_of(kb_keyed_str(p->key, entry->id), p->n_slots);

    while (p->slot[hole].entry != entry)
        hole = (hole + 1) & (p->n_slots - 1);
    p->slot[hole].entry = NULL;
    for (size_t i = (hole + 1) & (p->n_slots - 1); p->slot[i].entry != NULL; i = (i + 1) & (p->n_slots - 1)) {
        const struct kb_pending_place moved = p->slot[i];

        p->slot[i].entry = NULL;
        place(p->slot, p->n_slots, moved);
    }
}

/* The heap's last deadline takes the place of the one that goes. */
void kb_pending_remove(struct kb_pending *p, struct kb_pending_entry *entry)
{
    take_out(p, entry);
    unlink_entry(p, entry);
    p->n--;
    if (entry->due_at < p->n)
        sift(p, entry->due_at, p->due[p->n]);
    p->bytes -= entry->bytes;
    p->digest -= entry->hash;
    kb_pending_entry_free(entry);
}

/* Below a deadline that has not come none has: from the root on, what has expired and its children are all that is
 * looked at. Of a heap of depth h at most h wait to be. */
size_t kb_pending_expired(const struct kb_pending *p, int64_t now_ms, const char **ids, size_t max)
{
    size_t waiting[8 * sizeof(size_t)], n_waiting = 0, n = 0;

    if (p->n > 0)
        waiting[n_waiting++] = 0;
    while (n_waiting > 0 && n < max) {
        const size_t i = waiting[--n_waiting];

        if (p->due[i].at_ms > now_ms)
            continue;
        ids[n++] = p->due[i].entry->id;
        if (2 * i + 2 < p->n)
            waiting[n_waiting++] = 2 * i + 2;
        if (2 * i + 1 < p->n)
            waiting[n_waiting++] = 2 * i + 1;
    }
    return n;
}

/* INT64_MAX when nothing is open. */
int64_t kb_pending_next_expiry(const struct kb_pending *p)
{
    return p->n > 0 ? p->due[0].at_ms : INT64_MAX;
}

uint64_t kb_pending_digest(const struct kb_pending *p, uint64_t h)
{
    return kb_hash_u64(kb_hash_u64(h, p->n), p->digest);
}

uint64_t kb_pending_logical_digest(const struct kb_pending *p, uint64_t h)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->n; i++)
        sum += kb_pending_entry_hash(p->due[i].entry, false);
    return kb_hash_u64(kb_hash_u64(h, p->n), sum);
}

/* The writer's turn waits for it: room for all is had at once (an entry is no longer in the file than in memory), and
 * entries go by their deadlines, which is, but for some, how they came and how they stand in memory; those behind are
 * asked for ahead of time. */
void kb_pending_save(const struct kb_pending *p, size_t dim, struct kb_writer *w)
{
    kb_writer_reserve(w, 2 * sizeof(uint64_t) + p->bytes);
    kb_put_u64(w, p->n_shown);
    kb_put_u64(w, p->n);
    for (size_t i = 0; i < p->n; i++) {
        const char *ahead = (const char *)p->due[i + AHEAD < p->n ? i + AHEAD : i].entry;

        for (size_t line = 0; line < 3; line++)
            __builtin_prefetch(ahead + 64 * line);
        kb_pending_entry_save(p->due[i].entry, dim, w);
    }
}

/* Room for it is reserved. */
static enum kb_err load_entry(struct kb_pending *p, size_t dim, size_t n_users, struct kb_reader *r)
{
    struct kb_pending_entry *entry = NULL;
    const enum kb_err rc = kb_pending_entry_load(dim, n_users, r, &entry);

    if (rc != KB_OK)
        return rc;
    if (kb_pending_find(p, entry->id) != NULL) {
        kb_pending_entry_free(entry);
        return KB_ECORRUPT;
    }
    enter(p, entry);
    return KB_OK;
}

/* The lists by user, in the order in which the entries were shown. Numbers twice or beyond the last one are a damaged
 * file's. O(n log n). */
static enum kb_err link_shown(struct kb_pending *p)
{
    struct kb_pending_entry **in_order = kb_array(p->n + 1, 1, sizeof *in_order);

    if (in_order == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        in_order[i] = p->due[i].entry;
    qsort(in_order, p->n, sizeof *in_order, kb_pending_compare_shown);
    uint64_t last = 0;
    bool is_sound = true;
    for (size_t i = 0; i < p->n; i++) {
        struct kb_pending_entry *entry = in_order[i];

        is_sound &= entry->is_deferred ? entry->shown == 0 : entry->shown > last;
        last = entry->shown;
        link_entry(p, entry);
    }
    kb_free(in_order);
    return is_sound && last <= p->n_shown ? KB_OK : KB_ECORRUPT;
}

/* After a failure some entries are in; kb_pending_close frees them. */
enum kb_err kb_pending_load(struct kb_pending *p, size_t dim, size_t n_users, struct kb_reader *r)
{
    p->n_shown = kb_get_u64(r);
    const size_t n = kb_get_count(r, (r->n - r->pos) / ENTRY_BYTES);
    enum kb_err rc = n > 0 && n_users == 0 ? KB_ECORRUPT : kb_pending_reserve(p, n, n_users);

    for (size_t i = 0; i < n && rc == KB_OK; i++)
        rc = load_entry(p, dim, n_users, r);
    if (rc == KB_OK && r->rc == KB_OK)
        rc = link_shown(p);
    return rc != KB_OK ? rc : r->rc;
}
