/* Keys that several servers have in common: the shared log has them, and each server follows.
 *
 * A change is judged by the keys that the log has in its own transaction, and is in force here when it is committed;
 * the other servers read all keys again when they see that the revision has moved (registry_common.c). What was read is
 * kept in the registry file, so that who shows a key is known while the log is away, and after a start then. When a key
 * was last used is each server's own.
 *
 * change_lock is not held while the log is asked: who lists keys does not wait for it. */
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "keys/keys_impl.h"
#include "shared/shared_log.h"

/* ---- changes ------------------------------------------------------------------------------------------- */

/* One that is being made. */
struct change {
    const struct ld_key *add;
    const char *tenant, *id;
    bool has_other;
    struct ld_key_table *t; /* all keys, as the log has them */
    struct ld_problem *p;
};

static void begin(void *arg)
{
    struct change *c = arg;

    ld_key_table_free(c->t, true);
    c->t = ld_key_table_new(0);
}

static bool take(void *arg, const struct ld_key *key, uint64_t tenant)
{
    struct change *c = arg;

    (void)tenant;
    return c->t != NULL && ld_key_table_load(&c->t, key);
}

static bool judge(void *arg)
{
    const struct change *c = arg;

    if (c->t == NULL) {
        ld_problem_set(c->p, 503, "out of memory");
        return false;
    }
    return c->add != NULL ? ld_keys_may_create(c->t, c->add, c->t->n > 0, c->has_other, c->p)
                          : ld_keys_may_revoke(c->t, c->tenant, c->id, c->has_other, c->p);
}

static void refuse(const struct change *c, enum ld_shared_rc rc, const struct ld_message *why)
{
    if (c->p->status != 0)
        return;
    if (rc == LD_SHARED_NONE && c->add != NULL)
        ld_problem_no_tenant(c->p, c->add->tenant);
    else if (rc == LD_SHARED_NONE)
        ld_problem_set_as(c->p, LD_NO_KEY, "there is no key of that id");
    else if (rc == LD_SHARED_UNKNOWN)
        ld_problem_set(c->p, 503, "it is not known whether the change of keys was recorded: look at the list");
    else
        ld_problem_set(c->p, 503, "the shared log cannot be asked, and nothing was changed: %.300s",
                       why->text[0] != '\0' ? why->text : ld_shared_say(rc));
}

/* 0 with *revision, or -1 with the problem. */
static int change(struct ld_keys *k, struct change *c, uint64_t *revision)
{
    const struct ld_shared_key_change wanted = {
        .add = c->add, .remove = c->id, .each = take, .begin = begin, .judge = judge, .arg = c};
    struct ld_message why = {""};
    const enum ld_shared_rc rc = k->log->ops->change_key(k->log, &wanted, revision, &why);

    ld_key_table_free(c->t, true);
    if (rc != LD_SHARED_OK)
        refuse(c, rc, &why);
    return rc == LD_SHARED_OK ? 0 : -1;
}

/* change_lock held. What was read before this change is too old from here on. */
static void note(struct ld_keys *k, uint64_t revision)
{
    ld_failpoint("mid_key");
    if (k->least < revision)
        k->least = revision;
    atomic_store(&k->is_guess, false);
}

int ld_keys_create_shared(struct ld_keys *k, const struct ld_key *made, bool has_other, struct ld_problem *p)
{
    struct ld_key_entry *e = ld_key_entry_new(made);
    struct change c = {.add = made, .has_other = has_other, .p = p};
    uint64_t revision = 0;

    if (e == NULL)
        ld_problem_set(p, 503, "out of memory");
    if (e == NULL || change(k, &c, &revision) != 0) {
        free(e);
        return -1;
    }
    pthread_mutex_lock(&k->change_lock);
    struct ld_key_table *fresh = ld_key_table_find(k->table, made->id) == NULL ? ld_key_table_copy(k->table) : NULL;
    note(k, revision);
    if (fresh != NULL)
        ld_keys_take_in(k, fresh, e);
    else
        free(e); /* it was read already; or, for want of memory, it will be */
    pthread_mutex_unlock(&k->change_lock);
    return 0;
}

int ld_keys_revoke_shared(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p)
{
    struct change c = {.tenant = tenant, .id = id, .has_other = has_other, .p = p};
    uint64_t revision = 0;

    if (change(k, &c, &revision) != 0)
        return -1;
    pthread_mutex_lock(&k->change_lock);
    struct ld_key_entry *e = ld_key_table_find(k->table, id);
    note(k, revision);
    if (e != NULL)
        ld_keys_mark_gone(k, e);
    if (ld_key_rows_remove(k->file, id) != LD_STORE_OK)
        k->is_file_old = true;
    pthread_mutex_unlock(&k->change_lock);
    return 0;
}

/* ---- following ------------------------------------------------------------------------------------------- */

struct reading {
    struct ld_keys *k;
    struct ld_key_table *t;
    bool (*has_tenant)(void *arg, const char *name, uint64_t id);
    void *arg;
    bool is_whole;
};

/* The name's keys went to the tenant that took its place. Until this server sees that tenant, a key that was good for
 * the name stays good. */
static bool is_handed_over(const struct reading *r, const struct ld_key *key)
{
    pthread_mutex_lock(&r->k->change_lock);
    const struct ld_key_entry *e = ld_key_table_find(r->k->table, key->id);
    const bool is_same = e != NULL && strcmp(e->key.tenant, key->tenant) == 0;
    pthread_mutex_unlock(&r->k->change_lock);
    return is_same;
}

static bool read_key(void *arg, const struct ld_key *key, uint64_t tenant)
{
    struct reading *r = arg;

    if (key->tenant[0] != '\0' && !r->has_tenant(r->arg, key->tenant, tenant)) {
        r->is_whole = false;
        if (!is_handed_over(r, key))
            return true;
    }
    return ld_key_table_load(&r->t, key);
}

/* change_lock held. Last uses go along, and the file has them as of now. */
static void write_file(struct ld_keys *k, struct ld_key_table *t)
{
    struct ld_key *rows = calloc(t->n + 1, sizeof *rows);
    size_t n = 0, i = 0;
    bool is_written = false;

    for (struct ld_key_entry *e; rows != NULL && (e = ld_key_table_next(t, &i)) != NULL;) {
        const struct ld_key_entry *before = ld_key_table_find(k->table, e->key.id);
        rows[n] = ld_key_entry_view(before != NULL ? before : e);
        atomic_store(&e->last_used_at, rows[n].last_used_at);
        atomic_store(&e->written_at, rows[n++].last_used_at);
    }
    is_written = rows != NULL && ld_key_rows_replace(k->file, rows, n) == LD_STORE_OK;
    if (!is_written && !k->is_file_old)
        ld_log(LD_LOG_WARN,
               "the keys of the shared log could not be written down: a start without the log would not know them");
    k->is_file_old = !is_written;
    free(rows);
}

/* change_lock held. */
static void put_in_force(struct ld_keys *k, struct reading *r, uint64_t revision)
{
    write_file(k, r->t);
    if (r->t->n > 0)
        atomic_store(&k->do_exist, true);
    else if (atomic_load(&k->is_guess))
        atomic_store(&k->do_exist, !r->is_whole);
    if (r->t->n > 0 || r->is_whole)
        atomic_store(&k->is_guess, false);
    k->read = r->is_whole ? revision : 0;
    r->t = ld_keys_put(k, r->t);
}

/* One thread follows. */
bool ld_keys_follow(struct ld_keys *k, uint64_t revision, bool (*has_tenant)(void *arg, const char *name, uint64_t id),
                    void *arg)
{
    struct reading r = {.k = k, .has_tenant = has_tenant, .arg = arg, .is_whole = true};
    struct ld_message why;
    uint64_t found = 0;

    pthread_mutex_lock(&k->change_lock);
    const bool is_news = k->read != revision || k->is_file_old;
    pthread_mutex_unlock(&k->change_lock);
    if (!is_news)
        return true;
    r.t = ld_key_table_new(0);
    const bool is_read = r.t != NULL && k->log->ops->keys(k->log, read_key, &r, &found, &why) == LD_SHARED_OK;
    pthread_mutex_lock(&k->change_lock);
    if (is_read && found >= k->least)
        put_in_force(k, &r, found);
    const bool is_done = k->read >= revision && !k->is_file_old;
    pthread_mutex_unlock(&k->change_lock);
    ld_key_table_free(r.t, true);
    return is_done;
}
