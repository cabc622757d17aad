/* One open decision by itself: its block of memory, the values of its metrics, its hash, and how it stands in a
 * snapshot. The block has struct, slots, vectors, id and names in this order, which is also that of falling alignment.
 */
#include "history/pending.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "spec/event.h"

#define PENDING_ID_MAX 4096u

/* All fields but id, counts and pointers are zero: the caller fills them. n_slots is at most 50 and dim
 * bounded by the spec, so the sizes cannot wrap. kb_free gives all of it back at once. */
struct kb_pending_entry *kb_pending_entry_new(const char *id, size_t n_slots, size_t name_bytes, size_t dim)
{
    const size_t id_bytes = strlen(id) + 1;
    const size_t slots_bytes = n_slots * sizeof(struct kb_pending_slot);
    const size_t x_bytes = n_slots * dim * sizeof(double);
    const size_t bytes = sizeof(struct kb_pending_entry) + slots_bytes + x_bytes + id_bytes + name_bytes;
    /* One allocation: an entry cannot be made halfway. */
    unsigned char *block = kb_array(bytes, 1, 1);

    assert(n_slots <= KB_MAX_SLOTS);
    if (block == NULL)
        return NULL;
    struct kb_pending_entry *entry = (void *)block;
    entry->slot = (void *)(block + sizeof *entry);
    entry->x = (void *)(block + sizeof *entry + slots_bytes);
    entry->id = memcpy(block + sizeof *entry + slots_bytes + x_bytes, id, id_bytes);
    entry->name_end = (char *)block + bytes - name_bytes;
    entry->n_slots = n_slots;
    entry->n_x = n_slots * dim;
    entry->bytes = bytes;
    for (size_t i = 0; i < n_slots; i++)
        entry->slot[i].x = entry->x + i * dim;
    return entry;
}

void kb_pending_name(struct kb_pending_entry *entry, size_t slot, const char *name, size_t n)
{
    entry->slot[slot].name = memcpy(entry->name_end, name, n); /* the block is zeroed: a NUL follows */
    entry->name_end += n + 1;
}

void kb_pending_entry_free(struct kb_pending_entry *entry)
{
    while (entry != NULL && entry->values != NULL) {
        struct kb_pending_value *next = entry->values->next;

        kb_free(entry->values);
        entry->values = next;
    }
    kb_free(entry);
}

/* ---- values of metrics ------------------------------------------------------------------------------ */

struct kb_pending_value *kb_pending_value(const struct kb_pending_entry *entry, uint32_t slot, const char *metric)
{
    struct kb_pending_value *v = entry->values;

    while (v != NULL && (v->slot != slot || strcmp(v->metric, metric) != 0))
        v = v->next;
    return v;
}

enum kb_err kb_pending_keep_value(struct kb_pending_entry *entry, uint32_t slot, const char *metric,
                                  struct kb_pending_value **out)
{
    *out = kb_pending_value(entry, slot, metric);
    if (*out != NULL)
        return KB_OK;
    if (entry->n_values == KB_MOST_VALUES)
        return KB_EFULL;
    struct kb_pending_value *v = kb_array(sizeof *v + strlen(metric) + 1, 1, 1);
    if (v == NULL)
        return KB_ENOMEM;
    v->next = entry->values;
    v->slot = slot;
    strcpy(v->metric, metric);
    entry->values = *out = v;
    entry->n_values++;
    return KB_OK;
}

/* ---- what it is ------------------------------------------------------------------------------------ */

/* is_reserved is left out: it belongs to the batch in hand, not to what the log says. is_weighed: with what is weighed
 * where rewards are forgotten, or was learned by such a weight. */
uint64_t kb_pending_entry_hash(const struct kb_pending_entry *entry, bool is_weighed)
{
    uint64_t h = kb_hash_str(KB_HASH_INIT, entry->id);

    h = kb_hash_mix(h, entry->user);
    h = kb_hash_mix(h, (uint64_t)entry->expires_at_ms);
    h = kb_hash_mix(h, (uint64_t)entry->route << 32 | (uint64_t)entry->slot[0].level << 1 | entry->is_deferred);
    for (size_t i = 0; i < entry->n_slots; i++) {
        const double value[2] = {entry->slot[i].reward, is_weighed ? entry->slot[i].halvings : 0};

        if (entry->slot[i].name != NULL)
            h = kb_hash_mix(kb_hash_str(h, entry->slot[i].name), entry->slot[i].level);
        h = kb_hash_mix(h, (uint64_t)entry->slot[i].arm << 1 | entry->slot[i].has_reward);
        h = kb_hash_mix_doubles(h, value, 2);
        if (is_weighed && !kb_pending_is_level(&entry->slot[i]))
            h = kb_hash_mix_doubles(kb_hash_mix(h, entry->slot[i].taught), &entry->slot[i].model, 1);
    }
    return kb_hash_finish(kb_hash_mix_doubles(h, entry->x, entry->n_x));
}

/* ---- in a snapshot ---------------------------------------------------------------------------------- */

static void save_values(const struct kb_pending_entry *entry, struct kb_writer *w)
{
    size_t n = 0;

    for (const struct kb_pending_value *v = entry->values; v != NULL; v = v->next)
        n += v->has_value;
    kb_put_u64(w, n);
    for (const struct kb_pending_value *v = entry->values; v != NULL; v = v->next) {
        if (!v->has_value)
            continue;
        kb_put_str(w, v->metric);
        kb_put_u64(w, v->slot);
        kb_put_double(w, v->value);
    }
}

/* How many were shown so far, n, then per entry: id, number of slots, their names (each with its NUL, or none at all),
 * user, deadline, deferred, route, shown, the slots, the vectors, values of metrics (schema/snapshot.md). Fields of 64
 * bits throughout, flags too: entries are few, and a plain format is easier to check by hand. */
void kb_pending_entry_save(const struct kb_pending_entry *entry, size_t dim, struct kb_writer *w)
{
    const char *names = entry->slot[0].name;
    const uint64_t head[] = {entry->user, (uint64_t)entry->expires_at_ms, entry->is_deferred, entry->route,
                             entry->shown};

    kb_put_str(w, entry->id);
    kb_put_u64(w, entry->n_slots);
    kb_put_u64(w, names != NULL ? (uint64_t)(entry->name_end - names) : 0);
    if (names != NULL)
        kb_put_bytes(w, names, (size_t)(entry->name_end - names));
    kb_put_words(w, head, sizeof head / sizeof *head);
    for (size_t k = 0; k < entry->n_slots; k++) {
        const struct kb_pending_slot *slot = &entry->slot[k];
        const double numbers[4] = {slot->reward, slot->model, slot->halvings, slot->importance};
        uint64_t words[8] = {slot->arm, slot->level, slot->has_reward, (uint64_t)slot->is_open << 8 | slot->taught};

        memcpy(&words[4], numbers, sizeof numbers);
        kb_put_words(w, words, 8);
    }
    kb_put_doubles(w, entry->x, entry->n_slots * dim);
    save_values(entry, w);
}

static enum kb_err load_values(struct kb_pending_entry *entry, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, KB_MOST_VALUES);
    enum kb_err rc = r->rc;

    for (size_t i = 0; i < n && rc == KB_OK; i++) {
        char metric[KB_METRIC_MAX_BYTES + 1];
        struct kb_pending_value *v;
        size_t len = 0;
        const char *text = kb_get_str(r, &len);
        const size_t slot = kb_get_count(r, entry->n_slots - 1);
        const double value = kb_get_double(r);

        if (r->rc != KB_OK || text == NULL || len >= sizeof metric || memchr(text, '\0', len) != NULL)
            return KB_ECORRUPT;
        memcpy(metric, text, len);
        metric[len] = '\0';
        rc = kb_pending_keep_value(entry, (uint32_t)slot, metric, &v);
        if (rc == KB_OK)
            kb_pending_set_value(NULL, entry, v, value);
    }
    return rc;
}

/* A name for each of the slots, or none for any. */
static bool take_names(struct kb_pending_entry *entry, const char *names, size_t n)
{
    size_t at = 0;

    for (size_t k = 0; k < entry->n_slots && at < n; k++) {
        const char *end = memchr(names + at, '\0', n - at);

        if (end == NULL || end == names + at)
            return false;
        kb_pending_name(entry, k, names + at, (size_t)(end - names) - at);
        at = (size_t)(end - names) + 1;
    }
    return at == n && (n == 0 || entry->slot[entry->n_slots - 1].name != NULL);
}

/* An id of 4 KiB or more is no id of ours and means a damaged file. The id is copied
 * to the stack because the reader's bytes have no NUL behind them. */
enum kb_err kb_pending_entry_load(size_t dim, size_t n_users, struct kb_reader *r, struct kb_pending_entry **out)
{
    char id[PENDING_ID_MAX];
    size_t len = 0;
    const char *text = kb_get_str(r, &len);
    size_t n_names = 0;
    const size_t n_slots = kb_get_count(r, KB_MAX_SLOTS);
    const char *names = kb_get_str(r, &n_names);

    if (r->rc != KB_OK || text == NULL || len >= sizeof id || n_slots == 0)
        return KB_ECORRUPT;
    memcpy(id, text, len);
    id[len] = '\0';
    if (strlen(id) != len)
        return KB_ECORRUPT;
    struct kb_pending_entry *entry = kb_pending_entry_new(id, n_slots, n_names, dim);
    if (entry == NULL)
        return KB_ENOMEM;
    const bool are_named = take_names(entry, names, n_names);
    entry->user = (uint32_t)kb_get_count(r, n_users - 1);
    entry->expires_at_ms = (int64_t)kb_get_u64(r);
    entry->is_deferred = kb_get_u64(r) != 0;
    entry->route = (uint32_t)kb_get_count(r, KB_ROUTE_N - 1);
    entry->shown = kb_get_u64(r);
    for (size_t k = 0; k < n_slots; k++) {
        entry->slot[k].arm = (uint32_t)kb_get_u64(r);
        entry->slot[k].level = (uint32_t)kb_get_count(r, KB_MAX_LEVEL);
        entry->slot[k].has_reward = kb_get_u64(r) != 0;
        const size_t taught = kb_get_count(r, 1 << 8 | (KB_TAUGHT_N - 1));
        entry->slot[k].is_open = taught >> 8 != 0;
        entry->slot[k].taught = (uint8_t)(taught & 0xff);
        if (entry->slot[k].taught >= KB_TAUGHT_N)
            r->rc = KB_ECORRUPT;
        entry->slot[k].reward = kb_get_double(r);
        entry->slot[k].model = kb_get_double(r);
        entry->slot[k].halvings = kb_get_double(r);
        entry->slot[k].importance = kb_get_double(r);
    }
    kb_get_doubles(r, entry->x, n_slots * dim);
    const enum kb_err rc = are_named ? load_values(entry, r) : KB_ECORRUPT;
    if (rc == KB_OK)
        *out = entry;
    else
        kb_pending_entry_free(entry);
    return rc;
}
