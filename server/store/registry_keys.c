/* Keys in the registry file: rows in and out. See key_rows.h.
 *
 * A key is added by one statement that also looks whether its tenant is there: a removal that comes in between finds
 * the key and takes it along (ld_registry_remove), one that came before leaves none to be added.
 * Each call prepares its statement; keys are made and revoked by people. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "store/key_rows.h"
#include "store/registry_file.h"
#include "store/sqlite_util.h"

/* 0 is `never` in memory and NULL in the file. */
static void bind_time(sqlite3_stmt *stmt, int i, int64_t at_ms)
{
    if (at_ms != 0)
        (void)sqlite3_bind_int64(stmt, i, at_ms);
}

/* "" is `none` in memory and NULL in the file. */
static void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
    if (text[0] != '\0')
        (void)sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

static void bind_key(struct sqlite3_stmt *stmt, const void *arg)
{
    const struct ld_key *key = arg;
    bind_text(stmt, 1, key->id);
    bind_text(stmt, 2, key->tenant);
    (void)sqlite3_bind_int64(stmt, 3, key->roles);
    (void)sqlite3_bind_blob(stmt, 4, key->hash, LD_KEY_HASH_BYTES, SQLITE_STATIC);
    bind_text(stmt, 5, key->label);
    bind_time(stmt, 6, key->created_at);
    bind_time(stmt, 7, key->expires_at);
    bind_time(stmt, 8, key->last_used_at);
    bind_text(stmt, 9, key->patterns);
}

static void bind_id(struct sqlite3_stmt *stmt, const void *id)
{
    bind_text(stmt, 1, id);
}

static const char insert_sql[] = "INSERT INTO keys (id, tenant, roles, hash, label, created_at, expires_at, "
                                 "last_used_at, tenants) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 "
                                 "WHERE ?2 IS NULL OR EXISTS (SELECT 1 FROM tenants WHERE name = ?2)";

int ld_key_rows_add(struct ld_registry_file *r, const struct ld_key *key, bool *is_added)
{
    int n = 0;
    const int status = ld_registry_change(r, insert_sql, bind_key, key, &n);
    *is_added = n == 1;
    return status;
}

/* Removing one that is not there changes nothing. */
int ld_key_rows_remove(struct ld_registry_file *r, const char *id)
{
    return ld_registry_change(r, "DELETE FROM keys WHERE id = ?1", bind_id, id, NULL);
}

int ld_key_rows_has_tenant(struct ld_registry_file *r, const char *tenant, bool *is_there)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE;
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_prepare(r->db, "SELECT 1 FROM tenants WHERE name = ?1", &stmt, NULL);
    if (status == LD_STORE_OK) {
        bind_text(stmt, 1, tenant);
        rc = sqlite3_step(stmt);
        status = ld_sql_status(rc);
    }
    (void)sqlite3_finalize(stmt);
    (void)pthread_mutex_unlock(&r->lock);
    *is_there = rc == SQLITE_ROW;
    return status;
}

/* Lock held, inside a transaction. */
static int write_used(struct sqlite3 *db, const struct ld_key *key, size_t n)
{
    sqlite3_stmt *stmt = NULL;
    int status = ld_sql_prepare(db, "UPDATE keys SET last_used_at = ?2 WHERE id = ?1", &stmt, NULL);
    for (size_t i = 0; i < n && status == LD_STORE_OK; i++) {
        bind_text(stmt, 1, key[i].id);
        bind_time(stmt, 2, key[i].last_used_at);
        status = ld_sql_status(sqlite3_step(stmt));
        (void)sqlite3_reset(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

/* One transaction. */
static int write_all(struct ld_registry_file *r, int (*write)(struct sqlite3 *db, const struct ld_key *key, size_t n),
                     const struct ld_key *key, size_t n)
{
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_exec(r->db, "BEGIN IMMEDIATE", NULL);
    if (status == LD_STORE_OK) {
        status = write(r->db, key, n);
        if (status == LD_STORE_OK)
            status = ld_sql_exec(r->db, "COMMIT", NULL);
        if (status != LD_STORE_OK)
            (void)ld_sql_undo(r->db);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return ld_registry_note(r, status);
}

int ld_key_rows_used(struct ld_registry_file *r, const struct ld_key *key, size_t n)
{
    return write_all(r, write_used, key, n);
}

/* Lock held, inside a transaction. */
static int write_anew(struct sqlite3 *db, const struct ld_key *key, size_t n)
{
    sqlite3_stmt *stmt = NULL;
    int status = ld_sql_exec(db, "DELETE FROM keys", NULL);
    if (status == LD_STORE_OK)
        status = ld_sql_prepare(db, insert_sql, &stmt, NULL);
    for (size_t i = 0; i < n && status == LD_STORE_OK; i++) {
        (void)sqlite3_clear_bindings(stmt);
        bind_key(stmt, &key[i]);
        status = ld_sql_status(sqlite3_step(stmt));
        (void)sqlite3_reset(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

int ld_key_rows_replace(struct ld_registry_file *r, const struct ld_key *key, size_t n)
{
    return ld_db_is_in_place(r->path, &r->place, NULL) ? write_all(r, write_anew, key, n)
                                                       : ld_registry_note(r, LD_STORE_IO);
}

/* A column's text, cut to its field; NULL is read as empty. */
static void read_text(sqlite3_stmt *stmt, int column, char *out, size_t bytes)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    (void)snprintf(out, bytes, "%s", text != NULL ? (const char *)text : "");
}

/* The row in hand. The hash has its length by the table's CHECK; one of another length would match no key. */
static struct ld_key read_key(sqlite3_stmt *stmt)
{
    struct ld_key key = {.roles = (unsigned)sqlite3_column_int(stmt, 2),
                         .created_at = sqlite3_column_int64(stmt, 5),
                         .expires_at = sqlite3_column_int64(stmt, 6),
                         .last_used_at = sqlite3_column_int64(stmt, 7)};
    read_text(stmt, 0, key.id, sizeof key.id);
    read_text(stmt, 1, key.tenant, sizeof key.tenant);
    read_text(stmt, 4, key.label, sizeof key.label);
    read_text(stmt, 8, key.patterns, sizeof key.patterns);
    const void *hash = sqlite3_column_blob(stmt, 3);
    if (hash != NULL && sqlite3_column_bytes(stmt, 3) == LD_KEY_HASH_BYTES)
        memcpy(key.hash, hash, LD_KEY_HASH_BYTES);
    else
        key.roles = 0;
    return key;
}

int ld_key_rows_list(struct ld_registry_file *r, int (*fn)(void *arg, const struct ld_key *key), void *arg)
{
    static const char sql[] = "SELECT id, tenant, roles, hash, label, created_at, expires_at, last_used_at, tenants "
                              "FROM keys";
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, answer = 0;
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_prepare(r->db, sql, &stmt, NULL);
    while (status == LD_STORE_OK && answer == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ld_key key = read_key(stmt);
        answer = fn(arg, &key);
    }
    (void)sqlite3_finalize(stmt);
    (void)pthread_mutex_unlock(&r->lock);
    if (status != LD_STORE_OK)
        return status;
    return answer != 0 ? answer : ld_sql_status(rc);
}
