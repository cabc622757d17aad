/* Keys: their table from start to end, and what changes it; who.c asks it who is let in.
 *
 * The order of a change is: memory, disk, table. After a failure of the first two nothing has changed; the third cannot
 * fail. Where several
 * servers share a log, its keys are the truth and the file is what this server knows of them (keys_shared.c). */
#include "keys/keys_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/log.h"

#define FLUSH_MS 60000

/* ---- start and end ------------------------------------------------------------------------------------- */

/* arg is the table so far. 1: no memory. */
static int load_key(void *arg, const struct ld_key *key)
{
    return ld_key_table_load(arg, key) ? 0 : 1;
}

int ld_keys_open(struct ld_keys **out, struct ld_registry_file *file, struct ld_shared_log *log, bool is_new,
                 struct ld_message *why)
{
    struct ld_keys *k = calloc(1, sizeof *k);
    struct ld_key_table *t = ld_key_table_new(0);
    const char *fault = k == NULL || t == NULL  ? "out of memory"
                        : ld_secret_init() != 0 ? "no source of randomness"
                                                : NULL;
    int rc = fault == NULL ? ld_key_rows_list(file, load_key, &t) : 1;
    if (rc != 0) {
        fault = fault != NULL ? fault : rc == 1 ? "out of memory" : "the disk does not give them";
        ld_fail(why, "the keys in registry.db cannot be read: %s", fault);
        ld_key_table_free(t, true);
        free(k);
        return -1;
    }
    k->file = file;
    k->table = t;
    k->log = log;
    atomic_init(&k->is_guess, log != NULL && is_new && t->n == 0);
    atomic_init(&k->do_exist, t->n > 0 || atomic_load(&k->is_guess));
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
    ld_key_table_free(k->table, true);
    pthread_rwlock_destroy(&k->lock);
    pthread_mutex_destroy(&k->change_lock);
    free(k);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

bool ld_keys_exist(struct ld_keys *k)
{
    return atomic_load(&k->do_exist);
}

bool ld_keys_are_guessed(struct ld_keys *k)
{
    return atomic_load(&k->is_guess);
}

/* ---- changes ------------------------------------------------------------------------------------------- */

static size_t count(const struct ld_key_table *t, const char *tenant)
{
    size_t n = 0, i = 0;
    for (const struct ld_key_entry *e; (e = ld_key_table_next(t, &i)) != NULL;)
        n += strcmp(e->key.tenant, tenant) == 0;
    return n;
}

/* A key by which an admin can always get in. */
static bool is_lasting_admin(const struct ld_key *key)
{
    return (key->roles & LD_ROLE_ADMIN) != 0 && key->expires_at == 0;
}

/* Whether there is one besides that key. */
static bool has_admin_beside(const struct ld_key_table *t, const struct ld_key_entry *but)
{
    size_t i = 0;
    for (const struct ld_key_entry *e; (e = ld_key_table_next(t, &i)) != NULL;)
        if (e != but && is_lasting_admin(&e->key))
            return true;
    return false;
}

struct ld_key_table *ld_keys_put(struct ld_keys *k, struct ld_key_table *fresh)
{
    pthread_rwlock_wrlock(&k->lock);
    struct ld_key_table *old = k->table;
    k->table = fresh;
    pthread_rwlock_unlock(&k->lock);
    return old;
}

/* The old table goes, and of its entries those that are gone. */
void ld_keys_take_in(struct ld_keys *k, struct ld_key_table *fresh, struct ld_key_entry *e)
{
    ld_key_table_put(fresh, e);
    struct ld_key_table *old = ld_keys_put(k, fresh);
    for (size_t i = 0; i < old->cap; i++)
        if (old->slot[i] != NULL && atomic_load(&old->slot[i]->is_gone))
            free(old->slot[i]);
    ld_key_table_free(old, false);
    atomic_store(&k->do_exist, true);
}

/* A first key that is no admin's would shut out everybody who could make another. */
bool ld_keys_may_create(const struct ld_key_table *t, const struct ld_key *key, bool has_any, bool has_other,
                        struct ld_problem *p)
{
    if (count(t, key->tenant) >= LD_MAX_KEYS) {
        ld_problem_set(p, 409, "there are %d keys already: revoke one first", LD_MAX_KEYS);
        ld_problem_limit(p, "keys", LD_MAX_KEYS);
    } else if (!is_lasting_admin(key) && !has_other && !has_any)
        ld_problem_set(p, 409,
                       "the first key must be an admin's that does not expire (POST /keys): once there is a key, "
                       "nobody gets in without one");
    return p->status == 0;
}

/* change_lock held. Memory first, then the row, then the table. */
static int add(struct ld_keys *k, const struct ld_key *key, struct ld_problem *p)
{
    struct ld_key_table *fresh = ld_key_table_copy(k->table);
    struct ld_key_entry *e = ld_key_entry_new(key);
    bool is_added = false;
    int status = fresh != NULL && e != NULL ? ld_key_rows_add(k->file, key, &is_added) : LD_STORE_NOMEM;
    if (status == LD_STORE_OK && is_added) {
        ld_failpoint("mid_key");
        ld_keys_take_in(k, fresh, e);
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

static int create_alone(struct ld_keys *k, const struct ld_key *made, bool has_other, struct ld_problem *p)
{
    pthread_mutex_lock(&k->change_lock);
    int rc = ld_keys_may_create(k->table, made, ld_keys_exist(k), has_other, p) ? add(k, made, p) : -1;
    pthread_mutex_unlock(&k->change_lock);
    return rc;
}

/* An id that is there already, one time in 2^64 / n, is refused by the file as a fault of the moment. */
int ld_keys_create(struct ld_keys *k, const struct ld_key *wish, bool has_other, int64_t now_ms, struct ld_key *made,
                   char text[LD_KEY_TEXT_BYTES], struct ld_problem *p)
{
    *made = *wish;
    made->created_at = now_ms;
    made->last_used_at = 0;
    ld_secret_make(text, made->id, made->hash);
    return k->log != NULL ? ld_keys_create_shared(k, made, has_other, p) : create_alone(k, made, has_other, p);
}

/* The mark is set under the write lock: requests that were being checked by it have been let in before, and whoever
 * comes after finds it gone. */
void ld_keys_mark_gone(struct ld_keys *k, struct ld_key_entry *e)
{
    pthread_rwlock_wrlock(&k->lock);
    atomic_store(&e->is_gone, true);
    pthread_rwlock_unlock(&k->lock);
}

/* Another tenant's key is not there, for whoever asks about this one. */
bool ld_keys_may_revoke(const struct ld_key_table *t, const char *tenant, const char *id, bool has_other,
                        struct ld_problem *p)
{
    const struct ld_key_entry *e = ld_key_table_find(t, id);
    if (e == NULL || strcmp(e->key.tenant, tenant) != 0)
        ld_problem_set_as(p, LD_NO_KEY, "there is no key of that id");
    else if ((e->key.roles & LD_ROLE_ADMIN) != 0 && !has_other && !has_admin_beside(t, e))
        ld_problem_set(p, 409, "it is the last admin's key that does not expire: make another first");
    return p->status == 0;
}

static void revoke_alone(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p)
{
    pthread_mutex_lock(&k->change_lock);
    if (!ld_keys_may_revoke(k->table, tenant, id, has_other, p))
        ;
    else if (ld_key_rows_remove(k->file, id) != LD_STORE_OK)
        ld_problem_set(p, 503, "the registry cannot be written");
    else {
        ld_failpoint("mid_key");
        ld_keys_mark_gone(k, ld_key_table_find(k->table, id));
    }
    pthread_mutex_unlock(&k->change_lock);
}

int ld_keys_revoke(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p)
{
    if (k->log != NULL)
        return ld_keys_revoke_shared(k, tenant, id, has_other, p);
    revoke_alone(k, tenant, id, has_other, p);
    return p->status == 0 ? 0 : -1;
}

/* A key that was being added is added before, and found here, or finds no tenant. */
void ld_keys_forget_tenant(struct ld_keys *k, const char *tenant)
{
    size_t i = 0;
    pthread_mutex_lock(&k->change_lock);
    for (struct ld_key_entry *e; (e = ld_key_table_next(k->table, &i)) != NULL;)
        if (strcmp(e->key.tenant, tenant) == 0)
            ld_keys_mark_gone(k, e);
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

int ld_keys_list(struct ld_keys *k, const char *tenant, struct ld_key **out, size_t *n)
{
    size_t i = 0;
    *n = 0;
    pthread_mutex_lock(&k->change_lock);
    *out = calloc(count(k->table, tenant) + 1, sizeof **out);
    for (const struct ld_key_entry *e; *out != NULL && (e = ld_key_table_next(k->table, &i)) != NULL;)
        if (strcmp(e->key.tenant, tenant) == 0)
            (*out)[(*n)++] = ld_key_entry_view(e);
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
    for (const struct ld_key_entry *e; (e = ld_key_table_next(k->table, &i)) != NULL;)
        if (atomic_load_explicit(&e->last_used_at, memory_order_relaxed) != atomic_load(&e->written_at))
            used[n++] = ld_key_entry_view(e);
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
        atomic_store(&ld_key_table_find(k->table, used[i].id)->written_at, used[i].last_used_at);
    pthread_mutex_unlock(&k->change_lock);
    free(used);
    if (status != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "the last uses of keys could not be written down");
    return status;
}
