/* What the servers of a shared log have in common beside the tenants' logs, in PostgreSQL: keys, rates of tenants,
 * and who does what one server does for all (schema/shared_0003.sql). See pg_log.h.
 *
 * A change of the keys is one transaction. It has the row of laplaced.common locked from its beginning, so the keys
 * that it reads then are those that it is committed upon: two first keys, or two last admins, are not both believed. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

enum ld_shared_rc ld_pg_common(struct ld_shared_log *log, struct ld_shared_common *out, struct ld_message *why)
{
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_COMMON, NULL, why);
    const bool is_there = r != NULL && PQntuples(r) == 1;

    if (is_there)
        *out = (struct ld_shared_common){.revision = (uint64_t)ld_pg_int(r, 0, 0),
                                         .n_nodes = (unsigned)ld_pg_int(r, 0, 1)};
    PQclear(r);
    return is_there ? LD_SHARED_OK : LD_SHARED_DOWN;
}

/* --- keys ------------------------------------------------------------------------------------------------- */

static void read_text(char *out, size_t bytes, const PGresult *r, int row, int column)
{
    (void)snprintf(out, bytes, "%.*s", PQgetlength(r, row, column), PQgetvalue(r, row, column));
}

/* A hash of another length would match no key. */
static struct ld_key read_key(const PGresult *r, int row)
{
    struct ld_key key = {.roles = (unsigned)ld_pg_int(r, row, 4),
                         .created_at = ld_pg_int(r, row, 7),
                         .expires_at = ld_pg_int(r, row, 8)};

    read_text(key.id, sizeof key.id, r, row, 1);
    read_text(key.tenant, sizeof key.tenant, r, row, 3);
    read_text(key.label, sizeof key.label, r, row, 6);
    read_text(key.patterns, sizeof key.patterns, r, row, 9);
    if (PQgetlength(r, row, 5) == LD_KEY_HASH_BYTES)
        memcpy(key.hash, PQgetvalue(r, row, 5), LD_KEY_HASH_BYTES);
    else
        key.roles = 0;
    return key;
}

/* Rows of PG_KEYS: one without an id says that there are none. */
static bool tell_keys(const PGresult *r, ld_shared_key_fn fn, void *arg)
{
    bool is_told = true;

    for (int row = 0; row < PQntuples(r) && is_told; row++) {
        const struct ld_key key = read_key(r, row);
        is_told = key.id[0] == '\0' || fn(arg, &key, (uint64_t)ld_pg_int(r, row, 2));
    }
    return is_told;
}

enum ld_shared_rc ld_pg_keys(struct ld_shared_log *log, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                             struct ld_message *why)
{
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_KEYS, NULL, why);
    enum ld_shared_rc rc = r != NULL && PQntuples(r) > 0 ? LD_SHARED_OK : LD_SHARED_DOWN;

    if (rc == LD_SHARED_OK && !tell_keys(r, fn, arg))
        rc = LD_SHARED_NOMEM;
    *revision = rc == LD_SHARED_OK ? (uint64_t)ld_pg_int(r, 0, 0) : 0;
    PQclear(r);
    return rc;
}

/* --- a change of them ------------------------------------------------------------------------------------- */

/* BEGIN; the lock; all keys, as they are when it is had. OK: they were told. */
static enum ld_shared_rc lock_keys(struct pg_conn *c, const struct ld_shared_key_change *change, uint64_t *revision,
                                   int64_t deadline, struct ld_message *why)
{
    enum { BEGUN, LOCKED, KEYS, N };
    PGresult *r[N];
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_send(c, PG_BEGIN, NULL);
    ld_pg_send(c, PG_COMMON_LOCK, NULL);
    ld_pg_send(c, PG_KEYS, NULL);
    ld_pg_sync(c);
    for (int i = 0; i < N; i++)
        r[i] = ld_pg_next(c, deadline);
    ld_pg_skip(c, deadline);
    for (int i = LOCKED; i < N && rc == LD_SHARED_OK; i++)
        if (c->is_broken || !ld_pg_is(r[i], PGRES_TUPLES_OK) || PQntuples(r[i]) == 0)
            rc = ld_pg_down(c, r[i], why);
    if (rc == LD_SHARED_OK) {
        *revision = (uint64_t)ld_pg_int(r[LOCKED], 0, 0) + 1;
        change->begin(change->arg);
        rc = tell_keys(r[KEYS], change->each, change->arg) ? LD_SHARED_OK : LD_SHARED_NOMEM;
    }
    for (int i = 0; i < N; i++)
        PQclear(r[i]);
    return rc;
}

static void add_or_null(struct pg_args *args, const char *text)
{
    if (text[0] != '\0')
        ld_pg_add_text(args, text);
    else
        ld_pg_add_null(args);
}

static void send_change(struct pg_conn *c, const struct ld_shared_key_change *change)
{
    struct pg_args args = {0};
    const struct ld_key *key = change->add;

    ld_pg_add_text(&args, key != NULL ? key->id : change->remove);
    if (key != NULL) {
        add_or_null(&args, key->tenant);
        ld_pg_add_int(&args, key->roles);
        ld_pg_add_bytes(&args, key->hash, LD_KEY_HASH_BYTES);
        add_or_null(&args, key->label);
        ld_pg_add_int(&args, key->created_at);
        if (key->expires_at != 0)
            ld_pg_add_int(&args, key->expires_at);
        else
            ld_pg_add_null(&args);
        add_or_null(&args, key->patterns);
    }
    c->is_warned = false;
    ld_pg_send(c, key != NULL ? PG_KEY_ADD : PG_KEY_REMOVE, &args);
    ld_pg_send(c, PG_REVISE, NULL);
    ld_pg_send(c, PG_COMMIT, NULL);
    ld_pg_send(c, PG_SYNC, NULL);
    ld_pg_sync(c);
}

/* A change that found nothing is committed as well: it only moves the revision. */
static enum ld_shared_rc commit_change(const struct pg_log *l, struct pg_conn *c,
                                       const struct ld_shared_key_change *change, int64_t deadline,
                                       struct ld_message *why)
{
    enum { CHANGED, REVISED, COMMITTED, SYNCED, N };
    PGresult *r[N];
    enum ld_shared_rc rc = LD_SHARED_UNKNOWN;

    send_change(c, change);
    for (int i = 0; i < N; i++)
        r[i] = ld_pg_next(c, deadline);
    if (r[CHANGED] == NULL || r[COMMITTED] == NULL)
        (void)ld_fail(why, "%s", c->why.text);
    else if (!ld_pg_is(r[CHANGED], PGRES_COMMAND_OK) || !ld_pg_is(r[REVISED], PGRES_COMMAND_OK))
        rc = ld_pg_down(c, r[ld_pg_is(r[CHANGED], PGRES_COMMAND_OK) ? REVISED : CHANGED], why);
    else
        rc = ld_pg_judge_commit(c, r[COMMITTED], true, why);
    if (rc == LD_SHARED_OK && !ld_pg_is_synced(l, r[SYNCED]))
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_UNKNOWN, why, "no standby was waited for");
    if (rc == LD_SHARED_OK && strcmp(PQcmdTuples(r[CHANGED]), "1") != 0)
        rc = LD_SHARED_NONE;
    for (int i = 0; i < N; i++)
        PQclear(r[i]);
    ld_pg_skip(c, deadline);
    return rc;
}

/* Until the change is sent a connection that turns out to be gone is no outcome: another one is tried. */
enum ld_shared_rc ld_pg_change_key(struct ld_shared_log *log, const struct ld_shared_key_change *change,
                                   uint64_t *revision, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    const int64_t deadline = ld_pg_deadline(l);
    enum ld_shared_rc rc = LD_SHARED_DOWN;
    bool is_gone = true;

    while (is_gone && ld_monotonic_us() < deadline) {
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        if (c == NULL)
            return LD_SHARED_DOWN;
        rc = lock_keys(c, change, revision, deadline, why);
        is_gone = rc == LD_SHARED_DOWN && c->is_broken;
        if (rc == LD_SHARED_OK)
            rc = change->judge(change->arg) ? commit_change(l, c, change, deadline, why) : LD_SHARED_BEHIND;
        ld_pg_rollback(c, deadline);
        ld_pg_put(l, c);
    }
    return rc;
}

/* --- rates ------------------------------------------------------------------------------------------------ */

enum ld_shared_rc ld_pg_set_rate(struct ld_shared_log *log, uint64_t id, const struct ld_rate *own,
                                 struct ld_message *why)
{
    struct pg_args args = {0};
    int n = 0;

    ld_pg_add_int(&args, (int64_t)id);
    if (own != NULL) {
        ld_pg_add_double(&args, own->rate);
        ld_pg_add_double(&args, own->burst);
    }
    const enum ld_shared_rc rc =
        ld_pg_ask_change((struct pg_log *)log, own != NULL ? PG_RATE_SET : PG_RATE_CLEAR, &args, &n, why);
    return rc == LD_SHARED_OK && n == 0 ? LD_SHARED_NONE : rc;
}

enum ld_shared_rc ld_pg_rates(struct ld_shared_log *log,
                              void (*fn)(void *arg, const char *name, const struct ld_rate *own), void *arg,
                              struct ld_message *why)
{
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_RATES, NULL, why);

    if (r == NULL)
        return LD_SHARED_DOWN;
    for (int row = 0; row < PQntuples(r); row++) {
        const struct ld_rate own = {.rate = ld_pg_double(r, row, 1), .burst = ld_pg_double(r, row, 2)};
        fn(arg, PQgetvalue(r, row, 0), &own);
    }
    PQclear(r);
    return LD_SHARED_OK;
}

/* --- what one server does for all --------------------------------------------------------------------------- */

enum ld_shared_rc ld_pg_hold(struct ld_shared_log *log, uint64_t id, const char *view, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    struct pg_args args = {0};
    int n = 0;

    ld_pg_add_int(&args, (int64_t)id);
    ld_pg_add_text(&args, l->config.node);
    add_or_null(&args, view != NULL ? view : "");
    const enum ld_shared_rc rc = ld_pg_ask_change(l, PG_HOLD, &args, &n, why);
    return rc == LD_SHARED_OK && n == 0 ? LD_SHARED_BEHIND : rc;
}

enum ld_shared_rc ld_pg_held(struct ld_shared_log *log, uint64_t id,
                             void (*fn)(void *arg, const char *node, const char *view), void *arg,
                             struct ld_message *why)
{
    struct pg_args args = {0};

    ld_pg_add_int(&args, (int64_t)id);
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_HELD, &args, why);
    const enum ld_shared_rc rc = r == NULL ? LD_SHARED_DOWN : PQntuples(r) == 0 ? LD_SHARED_NONE : LD_SHARED_OK;
    if (rc == LD_SHARED_OK)
        fn(arg, PQgetvalue(r, 0, 0), PQgetisnull(r, 0, 1) ? NULL : PQgetvalue(r, 0, 1));
    PQclear(r);
    return rc;
}
