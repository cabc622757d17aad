/* The registry file: which tenants there are (registry_keys.c has the keys in it). A few rows, changed by a person's
 * request at a time, so every change is its own transaction and every call prepares its statement. Same refusals as a
 * tenant's file.
 *
 * What a tenant is stands in its own file, so that it can be moved as one; the registry only says that there is
 * one. A tenant is in being from the commit that adds its name until the one that takes it away: files without a
 * name are leftovers, a name without a file is damage. One connection under a mutex. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/limit.h"
#include "store/registry_file.h"
#include "store/migrate.h"
#include "store/sqlite_util.h"
#include "store/store.h"

#define REGISTRY_APPLICATION_ID 0x6c707267u /* "lprg" */

/* By version; a new schema is a new file in schema/ and a row here. */
static const struct ld_migration migrations[] = {{1, ld_embed_registry_0001_sql},
                                                 {2, ld_embed_registry_0002_sql},
                                                 {3, ld_embed_registry_0003_sql},
                                                 {4, ld_embed_registry_0004_sql}};

/* The question about the contents: every row has a name that could be one. */
static const struct ld_db_format format = {
    .migrations = migrations,
    .n_migrations = sizeof migrations / sizeof *migrations,
    .application_id = REGISTRY_APPLICATION_ID,
    .contents = "SELECT count(*) = 0 FROM tenants WHERE name = '' OR length(name) > 64",
    .contents_broken = "a tenant's name is none",
};

/* Always checked in full: the file is small, and a lost name is a lost tenant. On failure nothing is left open. */
int ld_registry_open(struct ld_registry_file **out, const char *path, struct ld_message *why)
{
    const struct ld_store_care care = {.is_thorough = true};
    struct ld_registry_file *r = calloc(1, sizeof *r);
    bool was_created;
    if (r == NULL || (r->path = strdup(path)) == NULL) {
        free(r);
        return ld_fail_as(LD_STORE_NOMEM, why, "%s: out of memory", path);
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    int status = ld_db_open(&r->db, path, &format, &care, &was_created, why);
    if (status != LD_STORE_OK) {
        ld_registry_close(r);
        return status;
    }
    ld_db_note_place(path, &r->place);
    *out = r;
    return LD_STORE_OK;
}

/* NULL is fine. */
void ld_registry_close(struct ld_registry_file *r)
{
    if (r == NULL)
        return;
    (void)sqlite3_close(r->db);
    (void)pthread_mutex_destroy(&r->lock);
    free(r->path);
    free(r);
}

int ld_registry_note(struct ld_registry_file *r, int status)
{
    atomic_store(&r->is_failing, status != LD_STORE_OK);
    return status;
}

/* One statement. NULL for why: the caller's sentence is enough. */
static int run(struct ld_registry_file *r, const char *sql, void (*bind)(struct sqlite3_stmt *stmt, const void *arg),
               const void *arg)
{
    sqlite3_stmt *stmt = NULL;
    int status = ld_sql_prepare(r->db, sql, &stmt, NULL);
    if (status == LD_STORE_OK) {
        bind(stmt, arg);
        status = ld_sql_status(sqlite3_step(stmt));
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

int ld_registry_change(struct ld_registry_file *r, const char *sql,
                       void (*bind)(struct sqlite3_stmt *stmt, const void *arg), const void *arg, int *n_rows)
{
    if (!ld_db_is_in_place(r->path, &r->place, NULL))
        return ld_registry_note(r, LD_STORE_IO);
    (void)pthread_mutex_lock(&r->lock);
    int status = run(r, sql, bind, arg);
    if (status == LD_STORE_OK && n_rows != NULL)
        *n_rows = sqlite3_changes(r->db);
    if (status != LD_STORE_OK)
        (void)ld_sql_undo(r->db);
    (void)pthread_mutex_unlock(&r->lock);
    return ld_registry_note(r, status);
}

/* One page, written and synced. */
static int touch(struct ld_registry_file *r)
{
    if (!ld_db_is_in_place(r->path, &r->place, NULL))
        return LD_STORE_IO;
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_status(ld_sql_touch(r->db));
    (void)pthread_mutex_unlock(&r->lock);
    return status;
}

bool ld_registry_is_failing(struct ld_registry_file *r)
{
    return atomic_load(&r->is_failing) && ld_registry_note(r, touch(r)) != LD_STORE_OK;
}

/* A row of tenants, as far as a statement wants it. */
struct row {
    const char *name;
    int64_t created_at;
    const struct ld_rate *own;
};

static void bind_name(struct sqlite3_stmt *stmt, const void *arg)
{
    const struct row *row = arg;
    ld_sql_bind_text(stmt, 1, row->name);
}

static void bind_creation(struct sqlite3_stmt *stmt, const void *arg)
{
    const struct row *row = arg;
    bind_name(stmt, row);
    (void)sqlite3_bind_int64(stmt, 2, row->created_at);
}

static void bind_rate(struct sqlite3_stmt *stmt, const void *arg)
{
    const struct row *row = arg;
    bind_name(stmt, row);
    if (row->own == NULL)
        return; /* NULL and NULL */
    (void)sqlite3_bind_double(stmt, 2, row->own->rate);
    (void)sqlite3_bind_double(stmt, 3, row->own->burst);
}

/* Adding a name that is there already changes nothing. The time of creation is for people; nothing reads it back. */
int ld_registry_add(struct ld_registry_file *r, const char *name, int64_t at_ms)
{
    static const char sql[] = "INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    const struct row row = {.name = name, .created_at = at_ms};
    return ld_registry_change(r, sql, bind_creation, &row, NULL);
}

/* Removing one that is not there changes nothing either. Its keys go with it, in one transaction: the trigger that the
 * file has for that does not run (ld_sql_connect). */
int ld_registry_remove(struct ld_registry_file *r, const char *name)
{
    const struct row row = {.name = name};
    if (!ld_db_is_in_place(r->path, &r->place, NULL))
        return ld_registry_note(r, LD_STORE_IO);
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_exec(r->db, "BEGIN IMMEDIATE", NULL);
    if (status == LD_STORE_OK)
        status = run(r, "DELETE FROM keys WHERE tenant = ?1", bind_name, &row);
    if (status == LD_STORE_OK)
        status = run(r, "DELETE FROM tenants WHERE name = ?1", bind_name, &row);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(r->db, "COMMIT", NULL);
    if (status != LD_STORE_OK)
        (void)ld_sql_undo(r->db);
    (void)pthread_mutex_unlock(&r->lock);
    return ld_registry_note(r, status);
}

/* A name that is not there changes nothing. */
int ld_registry_set_rate(struct ld_registry_file *r, const char *name, const struct ld_rate *own)
{
    static const char sql[] = "UPDATE tenants SET rate = ?2, burst = ?3 WHERE name = ?1";
    const struct row row = {.name = name, .own = own};
    return ld_registry_change(r, sql, bind_rate, &row, NULL);
}

/* Under the lock: fn must not call back into the registry. The name is valid during the call of fn. A result of fn
 * other than 0 ends the list and is returned. */
int ld_registry_list(struct ld_registry_file *r, int (*fn)(void *arg, const char *name), void *arg)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, answer = 0;
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_prepare(r->db, "SELECT name FROM tenants ORDER BY name", &stmt, NULL);
    while (status == LD_STORE_OK && answer == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
        answer = fn(arg, (const char *)sqlite3_column_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    (void)pthread_mutex_unlock(&r->lock);
    if (status != LD_STORE_OK)
        return status;
    return answer != 0 ? answer : ld_sql_status(rc);
}

int ld_registry_rates(struct ld_registry_file *r, int (*fn)(void *arg, const char *name, const struct ld_rate *own),
                      void *arg)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, answer = 0;
    (void)pthread_mutex_lock(&r->lock);
    int status = ld_sql_prepare(r->db, "SELECT name, rate, burst FROM tenants WHERE rate IS NOT NULL", &stmt, NULL);
    while (status == LD_STORE_OK && answer == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ld_rate own = {.rate = sqlite3_column_double(stmt, 1), .burst = sqlite3_column_double(stmt, 2)};
        answer = fn(arg, (const char *)sqlite3_column_text(stmt, 0), &own);
    }
    (void)sqlite3_finalize(stmt);
    (void)pthread_mutex_unlock(&r->lock);
    if (status != LD_STORE_OK)
        return status;
    return answer != 0 ? answer : ld_sql_status(rc);
}
