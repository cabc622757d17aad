/* The table of keys: an open-addressed hash table by id, whose digits are random already. A request is one look-up, one
 * hash and one comparison in constant time, however many keys there are. An id that is not there is compared with
 * nothing just as long; ids are no secret, so what else a look-up's time may tell does not matter.
 *
 * A table in force changes in two ways only. A key that is added makes another table, put in place by a pointer under
 * the write lock; a key that is revoked is marked as gone, which needs no memory and hence cannot fail once its row is
 * deleted. The next table leaves it out.
 *
 *   change_lock   one change at a time, held over the disk; whoever holds it may read the table without the other
 *   lock          the table, for as long as a request looks a key up or a pointer is exchanged
 *
 * The order of a change is: memory, disk, table. After a failure of the first two nothing has changed; the third cannot
 * fail. The last use is kept to the second, so that requests by one key do not fight over a cache line. */
#include "keys/keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/log.h"

#define FLUSH_MS 60000
#define USE_STEP_MS 1000

/* Never changed but for its atomics. Owned by the table that is in force. */
struct entry {
    struct ld_key key;
    _Atomic int64_t last_used_at;
    _Atomic int64_t written_at; /* of last_used_at, what the file has */
    atomic_bool is_gone;
};

/* n entries in cap slots, a power of two and at least 2 (n + 1), so that a search ends at an empty one. */
struct table {
    size_t n, cap;
    struct entry *slot[];
};

struct ld_keys {
    struct ld_registry_file *file;
    pthread_mutex_t change_lock;
    pthread_rwlock_t lock;
    struct table *table;
    atomic_bool do_exist;
    _Atomic int64_t next_flush_ms;
};

/* ---- the table --------------------------------------------------------------------------------------- */

/* An empty one with room for n; NULL without memory. */
static struct table *table_new(size_t n)
{
    size_t cap = 8;
    while (cap < 2 * (n + 1))
        cap *= 2;
    struct table *t = calloc(1, sizeof *t + cap * sizeof t->slot[0]);
    if (t != NULL)
        t->cap = cap;
    return t;
}

/* Slot of the id, or the empty one where it belongs. */
static size_t find(const struct table *t, const char *id)
{
    size_t i = (size_t)strtoull(id, NULL, 16) & (t->cap - 1);
    while (t->slot[i] != NULL && strcmp(t->slot[i]->key.id, id) != 0)
        i = (i + 1) & (t->cap - 1);
    return i;
}

/* There is room, and no entry of that id. */
static void put(struct table *t, struct entry *e)
{
    t->slot[find(t, e->key.id)] = e;
    t->n++;
}

/* The entry, unless it is gone; NULL. */
static struct entry *lookup(const struct table *t, const char *id)
{
    struct entry *e = t->slot[find(t, id)];
    return e != NULL && !atomic_load(&e->is_gone) ? e : NULL;
}

/* NULL is fine. */
static void table_free(struct table *t, bool with_entries)
{
    for (size_t i = 0; t != NULL && with_entries && i < t->cap; i++)
        free(t->slot[i]);
    free(t);
}

/* The next entry at or after *i that is not gone, NULL at the end; *i is moved behind it. */
static struct entry *next(const struct table *t, size_t *i)
{
    while (*i < t->cap) {
        struct entry *e = t->slot[(*i)++];
        if (e != NULL && !atomic_load(&e->is_gone))
            return e;
    }
    return NULL;
}

/* ---- start and end ------------------------------------------------------------------------------------- */

static struct entry *entry_new(const struct ld_key *key)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->key = *key;
    atomic_init(&e->last_used_at, key->last_used_at);
    atomic_init(&e->written_at, key->last_used_at);
    return e;
}

/* Grows by a new table for each doubling; arg is the table so far. 1: no memory. */
static int load_key(void *arg, const struct ld_key *key)
{
    struct table **t = arg;
    struct entry *e = entry_new(key);
    if (e != NULL && 2 * ((*t)->n + 2) > (*t)->cap) {
        struct table *grown = table_new(2 * ((*t)->n + 1));
        for (size_t i = 0; grown != NULL && i < (*t)->cap; i++)
            if ((*t)->slot[i] != NULL)
                put(grown, (*t)->slot[i]);
        if (grown != NULL) {
            table_free(*t, false);
            *t = grown;
        } else {
            free(e);
            e = NULL;
        }
    }
    if (e == NULL)
        return 1;
    put(*t, e);
    return 0;
}

int ld_keys_open(struct ld_keys **out, struct ld_registry_file *file, struct ld_message *why)
{
    struct ld_keys *k = calloc(1, sizeof *k);
    struct table *t = table_new(0);
    const char *fault = k == NULL || t == NULL  ? "out of memory"
                        : ld_secret_init() != 0 ? "no source of randomness"
                                                : NULL;
    int rc = fault == NULL ? ld_key_rows_list(file, load_key, &t) : 1;
    if (rc != 0) {
        fault = fault != NULL ? fault : rc == 1 ? "out of memory" : "the disk does not give them";
        ld_fail(why, "the keys in registry.db cannot be read: %s", fault);
        table_free(t, true);
        free(k);
        return -1;
    }
    k->file = file;
    k->table = t;
    atomic_init(&k->do_exist, t->n > 0);
    pthread_mutex_init(&k->change_lock, NULL);
    pthread_rwlock_init(&k->lock, NULL);
    *out = k;
    return 0;
}

/* No request may be in flight. NULL is fine. */
void ld_keys_close(struct ld_keys *k)
{
    if (k == NULL)
        return;
    (void)ld_keys_flush(k);
    table_free(k->table, true);
    pthread_rwlock_destroy(&k->lock);
    pthread_mutex_destroy(&k->change_lock);
    free(k);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

bool ld_keys_exist(struct ld_keys *k)
{
    return atomic_load(&k->do_exist);
}

static bool is_expired(const struct ld_key *key, int64_t now_ms)
{
    return key->expires_at != 0 && now_ms >= key->expires_at;
}

/* Both locks are about the table; the hash is made before. Without an entry the comparison is with zeros, which are no
 * text's hash that anybody could find. */
bool ld_keys_allow(struct ld_keys *k, const char *text, int64_t now_ms, struct ld_caller *caller)
{
    static const unsigned char nothing[LD_KEY_HASH_BYTES];
    unsigned char hash[LD_KEY_HASH_BYTES];
    char id[LD_KEY_ID_BYTES];
    if (!ld_secret_id(text, id))
        return false;
    ld_secret_hash(text, hash);
    pthread_rwlock_rdlock(&k->lock);
    struct entry *e = lookup(k->table, id);
    bool is_known = ld_secret_equal(e != NULL ? e->key.hash : nothing, hash) && e != NULL;
    if (is_known && !is_expired(&e->key, now_ms)) {
        bool is_admin = (e->key.roles & LD_ROLE_ADMIN) != 0;
        ld_caller_set(caller, is_admin ? LD_ALL_ROLES : e->key.roles);
        memcpy(caller->tenant, e->key.tenant, sizeof caller->tenant);
        strcpy(caller->patterns, e->key.patterns);
        memcpy(caller->key, e->key.id, sizeof caller->key);
        if (now_ms - atomic_load_explicit(&e->last_used_at, memory_order_relaxed) >= USE_STEP_MS)
            atomic_store_explicit(&e->last_used_at, now_ms, memory_order_relaxed);
    } else {
        is_known = false;
    }
    pthread_rwlock_unlock(&k->lock);
    return is_known;
}

/* ---- changes ------------------------------------------------------------------------------------------- */

/* change_lock held. */
static size_t count(const struct ld_keys *k, const char *tenant)
{
    size_t n = 0, i = 0;
    for (const struct entry *e; (e = next(k->table, &i)) != NULL;)
        n += strcmp(e->key.tenant, tenant) == 0;
    return n;
}

/* A key by which an admin can always get in. */
static bool is_lasting_admin(const struct ld_key *key)
{
    return (key->roles & LD_ROLE_ADMIN) != 0 && key->expires_at == 0;
}

/* change_lock held. Whether there is one besides that key. */
static bool has_admin_beside(const struct ld_keys *k, const struct entry *but)
{
    size_t i = 0;
    for (const struct entry *e; (e = next(k->table, &i)) != NULL;)
        if (e != but && is_lasting_admin(&e->key))
            return true;
    return false;
}

/* change_lock held. A table of all that are there, with room for one more, which may be NULL. */
static struct table *copy_table(const struct table *from)
{
    struct table *t = table_new(from->n + 1);
    size_t i = 0;
    for (struct entry *e; t != NULL && (e = next(from, &i)) != NULL;)
        put(t, e);
    return t;
}

/* change_lock held. The old table goes, and of its entries those that are gone. */
static void exchange(struct ld_keys *k, struct table *fresh)
{
    pthread_rwlock_wrlock(&k->lock);
    struct table *old = k->table;
    k->table = fresh;
    pthread_rwlock_unlock(&k->lock);
    for (size_t i = 0; i < old->cap; i++)
        if (old->slot[i] != NULL && atomic_load(&old->slot[i]->is_gone))
            free(old->slot[i]);
    table_free(old, false);
}

/* change_lock held; *p when not. A first key that is no admin's would shut out everybody who could make another. */
static bool may_create(struct ld_keys *k, const struct ld_key *key, bool has_other, struct ld_problem *p)
{
    if (count(k, key->tenant) >= LD_MAX_KEYS) {
        ld_problem_set(p, 409, "there are %d keys already: revoke one first", LD_MAX_KEYS);
        ld_problem_limit(p, "keys", LD_MAX_KEYS);
    } else if (!is_lasting_admin(key) && !has_other && !ld_keys_exist(k))
        ld_problem_set(p, 409,
                       "the first key must be an admin's that does not expire (POST /keys): once there is a key, "
                       "nobody gets in without one");
    return p->status == 0;
}

/* change_lock held. Memory first, then the row, then the table. */
static int add(struct ld_keys *k, const struct ld_key *key, struct ld_problem *p)
{
    struct table *fresh = copy_table(k->table);
    struct entry *e = entry_new(key);
    bool is_added = false;
    int status = fresh != NULL && e != NULL ? ld_key_rows_add(k->file, key, &is_added) : LD_STORE_NOMEM;
    if (status == LD_STORE_OK && is_added) {
        ld_failpoint("mid_key");
        put(fresh, e);
        exchange(k, fresh);
        atomic_store(&k->do_exist, true);
        return 0;
    }
    free(fresh);
    free(e);
    if (status == LD_STORE_OK)
        ld_problem_no_tenant(p, key->tenant);
    else
        ld_problem_set(p, 503, status == LD_STORE_NOMEM ? "out of memory" : "the registry cannot be written");
    return -1;
}

/* An id that is there already, one time in 2^64 / n, is refused by the file as a fault of the moment. */
int ld_keys_create(struct ld_keys *k, const struct ld_key *wish, bool has_other, int64_t now_ms, struct ld_key *made,
                   char text[LD_KEY_TEXT_BYTES], struct ld_problem *p)
{
    *made = *wish;
    made->created_at = now_ms;
    made->last_used_at = 0;
    ld_secret_make(text, made->id, made->hash);
    pthread_mutex_lock(&k->change_lock);
    int rc = may_create(k, made, has_other, p) ? add(k, made, p) : -1;
    pthread_mutex_unlock(&k->change_lock);
    return rc;
}

/* The mark is set under the write lock: requests that were being checked by it have been let in before, and whoever
 * comes after finds it gone. */
static void mark_gone(struct ld_keys *k, struct entry *e)
{
    pthread_rwlock_wrlock(&k->lock);
    atomic_store(&e->is_gone, true);
    pthread_rwlock_unlock(&k->lock);
}

/* Another tenant's key is not there, for whoever asks about this one. */
int ld_keys_revoke(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p)
{
    pthread_mutex_lock(&k->change_lock);
    struct entry *e = lookup(k->table, id);
    if (e == NULL || strcmp(e->key.tenant, tenant) != 0)
        ld_problem_set_as(p, LD_NO_KEY, "there is no key of that id");
    else if ((e->key.roles & LD_ROLE_ADMIN) != 0 && !has_other && !has_admin_beside(k, e))
        ld_problem_set(p, 409, "it is the last admin's key that does not expire: make another first");
    else if (ld_key_rows_remove(k->file, id) != LD_STORE_OK)
        ld_problem_set(p, 503, "the registry cannot be written");
    else {
        ld_failpoint("mid_key");
        mark_gone(k, e);
    }
    pthread_mutex_unlock(&k->change_lock);
    return p->status == 0 ? 0 : -1;
}

/* A key that was being added is added before, and found here, or finds no tenant. */
void ld_keys_forget_tenant(struct ld_keys *k, const char *tenant)
{
    size_t i = 0;
    pthread_mutex_lock(&k->change_lock);
    for (struct entry *e; (e = next(k->table, &i)) != NULL;)
        if (strcmp(e->key.tenant, tenant) == 0)
            mark_gone(k, e);
    pthread_mutex_unlock(&k->change_lock);
}

/* ---- lists and last uses --------------------------------------------------------------------------------- */

static int compare_age(const void *a, const void *b)
{
    const struct ld_key *x = a, *y = b;
    if (x->created_at != y->created_at)
        return x->created_at < y->created_at ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* As a plain struct, with the last use of this moment. */
static struct ld_key key_of(const struct entry *e)
{
    struct ld_key key = e->key;
    key.last_used_at = atomic_load_explicit(&e->last_used_at, memory_order_relaxed);
    return key;
}

int ld_keys_list(struct ld_keys *k, const char *tenant, struct ld_key **out, size_t *n)
{
    size_t i = 0;
    *n = 0;
    pthread_mutex_lock(&k->change_lock);
    *out = calloc(count(k, tenant) + 1, sizeof **out);
    for (const struct entry *e; *out != NULL && (e = next(k->table, &i)) != NULL;)
        if (strcmp(e->key.tenant, tenant) == 0)
            (*out)[(*n)++] = key_of(e);
    pthread_mutex_unlock(&k->change_lock);
    if (*out == NULL)
        return -1;
    qsort(*out, *n, sizeof **out, compare_age);
    return 0;
}

/* The first call of a minute says yes, whether or not anything was used: ld_keys_flush finds out. */
bool ld_keys_flush_is_due(struct ld_keys *k, int64_t now_ms)
{
    if (now_ms < atomic_load(&k->next_flush_ms))
        return false;
    return atomic_exchange(&k->next_flush_ms, now_ms + FLUSH_MS) != 0 && ld_keys_exist(k);
}

/* change_lock held. Keys whose last use the file does not have, into *used. */
static size_t collect_used(const struct ld_keys *k, struct ld_key *used)
{
    size_t n = 0, i = 0;
    for (const struct entry *e; (e = next(k->table, &i)) != NULL;)
        if (atomic_load_explicit(&e->last_used_at, memory_order_relaxed) != atomic_load(&e->written_at))
            used[n++] = key_of(e);
    return n;
}

/* One transaction at most. Nothing is lost but times when it never succeeds. */
int ld_keys_flush(struct ld_keys *k)
{
    pthread_mutex_lock(&k->change_lock);
    struct ld_key *used = calloc(k->table->n + 1, sizeof *used);
    size_t n = used != NULL ? collect_used(k, used) : 0;
    int status = used == NULL ? LD_STORE_NOMEM : n > 0 ? ld_key_rows_used(k->file, used, n) : LD_STORE_OK;
    for (size_t i = 0; i < n && status == LD_STORE_OK; i++)
        atomic_store(&lookup(k->table, used[i].id)->written_at, used[i].last_used_at);
    pthread_mutex_unlock(&k->change_lock);
    free(used);
    if (status != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "the last uses of keys could not be written down");
    return status;
}
