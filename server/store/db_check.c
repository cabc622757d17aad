/* The look at a database file before it is used: ld_db_check of sqlite_util.h.
 *
 * Anybody may have made the file, and a file can hold code: triggers, views, checks, expressions of indexes. So the
 * first thing that is asked of it is its schema, which is to be ours row by row; what SQLite runs from there on is our
 * own statements over our own tables.
 *
 *   version     through the write-ahead log: a newer program may have died before its number reached the header
 *   schema      every row of it (db_schema.c)
 *   structure   quick_check, below 64 MiB or when the caller asks for it
 *   contents    a question of the kind of file
 *
 * Everything is read through one connection that writes nothing, under a watch: however the pages point at each other,
 * the look ends in time that is in proportion to the file's size. Without a write-ahead log the file is opened as
 * immutable, so that nothing appears beside it; with one, closing must not checkpoint. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/migrate.h"
#include "store/sqlite_util.h"
#include "store/store.h"

#define NAME_BYTES 4096
#define QUICK_CHECK_BYTES (INT64_C(64) << 20)
#define SCHEMA_ROW_BYTES (1 << 20) /* ours have some hundreds */

/* Bytes on the disk, in holes none. 0: there is no such file. */
static int64_t weight_of(const char *path, const char *suffix)
{
    char name[NAME_BYTES];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", path, suffix);
    if (n < 0 || n >= NAME_BYTES || stat(name, &st) != 0)
        return 0;
    const int64_t held = (int64_t)st.st_blocks * 512;
    return held < st.st_size ? held : st.st_size;
}

int64_t ld_db_weight(const char *path)
{
    return weight_of(path, "") + weight_of(path, "-wal");
}

/* file:PATH?immutable=1, with what has a meaning in a URI escaped. -1 when it does not fit. Immutable is a promise to
 * SQLite that the file does not change: it then takes no locks and makes no -shm beside it. */
static int immutable_uri(char *out, size_t cap, const char *path)
{
    size_t n = (size_t)snprintf(out, cap, "file:");
    for (; *path != '\0' && n + 32 < cap; path++) {
        if (strchr("%?#", *path) != NULL)
            n += (size_t)snprintf(out + n, cap - n, "%%%02x", (unsigned)(unsigned char)*path);
        else
            out[n++] = *path;
    }
    (void)snprintf(out + n, cap - n, "?immutable=1");
    return *path == '\0' ? 0 : -1;
}

/* Whether the disk gives every page of the file. */
static bool is_readable(struct sqlite3 *db)
{
    unsigned char page[4096];
    sqlite3_file *f = NULL;
    sqlite3_int64 n = 0;
    int rc = sqlite3_file_control(db, NULL, SQLITE_FCNTL_FILE_POINTER, &f);
    if (rc == SQLITE_OK)
        rc = f->pMethods->xFileSize(f, &n);
    for (sqlite3_int64 at = 0; at < n && rc == SQLITE_OK; at += (sqlite3_int64)sizeof page)
        if ((rc = f->pMethods->xRead(f, page, sizeof page, at)) == SQLITE_IOERR_SHORT_READ)
            rc = SQLITE_OK; /* the last one */
    return rc == SQLITE_OK;
}

static int ask_pages(struct sqlite3 *db, bool with_indexes, char *verdict, int cap, struct ld_message *why)
{
    return ld_sql_text(db, with_indexes ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)", verdict, cap, why);
}

/* A page that the disk did not give is told among the faults of the file, and is none of them. Of some pages SQLite
 * does not say so: then the disk is asked for all of them, and SQLite again. */
static bool is_unread(struct sqlite3 *db, bool with_indexes, const char *verdict)
{
    const char *code = strstr(verdict, "error code=");
    char again[256] = "";
    if (code != NULL)
        return (atoi(code + strlen("error code=")) & 0xff) == SQLITE_IOERR;
    return !is_readable(db) ||
           (ask_pages(db, with_indexes, again, sizeof again, NULL) == LD_STORE_OK && strcmp(again, "ok") == 0);
}

/* Every page is read and its structure checked. 1 asks for the first fault only. O(file): this is what the limit of
 * 64 MiB is about. */
int ld_db_check_pages(struct sqlite3 *db, bool with_indexes, struct ld_message *why)
{
    char verdict[256];
    const int status = ask_pages(db, with_indexes, verdict, sizeof verdict, why);
    if (status != LD_STORE_OK || strcmp(verdict, "ok") == 0)
        return status;
    if (is_unread(db, with_indexes, verdict))
        return ld_fail_as(LD_STORE_IO, why, "cannot be read: %s", verdict);
    return ld_fail_as(LD_STORE_CORRUPT, why, "damaged: %s", verdict);
}

/* Our own question about the rows. */
static int check_rows(struct sqlite3 *db, const struct ld_db_format *f, int64_t version, struct ld_message *why)
{
    char sql[1024];
    int64_t is_sound = 0;
    (void)snprintf(sql, sizeof sql, "SELECT coalesce((%s), 0)",
                   version < f->contents_since ? f->contents_before : f->contents);
    int status = ld_sql_int(db, sql, &is_sound, why);
    if (status == LD_STORE_OK && !is_sound)
        return ld_fail_as(LD_STORE_CORRUPT, why, "damaged: %s", f->contents_broken);
    return status;
}

/* What the header says, now through the write-ahead log: that may bring another first page along. */
static int check_header(struct sqlite3 *db, const struct ld_db_format *f, int64_t *version, struct ld_message *why)
{
    char encoding[16] = "";
    int64_t id = 0;
    int last = f->migrations[f->n_migrations - 1].version;
    int status = ld_sql_int(db, "PRAGMA user_version", version, why);
    if (status == LD_STORE_OK && *version > last)
        return ld_fail_as(LD_STORE_NEWER, why, "schema version %lld is newer than this program (%d)",
                          (long long)*version, last);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA application_id", &id, why);
    if (status == LD_STORE_OK)
        status = ld_sql_text(db, "PRAGMA encoding", encoding, sizeof encoding, why);
    if (status == LD_STORE_OK && (*version < 1 || id != (int64_t)f->application_id || strcmp(encoding, "UTF-8") != 0))
        return ld_fail_as(
            LD_STORE_CORRUPT, why,
            "damaged: its write-ahead log says version %lld, application id %08llx and %s, not 1 to %d, %08x"
            " and UTF-8",
            (long long)*version, (unsigned long long)id, encoding, last, (unsigned)f->application_id);
    return status;
}

/* With a WAL SQLite may write the -shm index beside the file, which holds nothing of its own. */
int ld_db_connect_readonly(struct sqlite3 **out, const char *path, struct ld_message *why)
{
    char name[NAME_BYTES * 3 + 64];
    if (immutable_uri(name, sizeof name, path) != 0)
        return ld_fail_as(LD_STORE_IO, why, "the path is too long");
    const bool has_wal = weight_of(path, "-wal") > 0;
    int status = ld_sql_connect(out, has_wal ? path : name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL, why);
    if (status == LD_STORE_OK)
        (void)sqlite3_db_config(*out, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return status;
}

/* A row of a schema that is longer than any of ours need not be read to its end to be refused. */
static int check_schema(struct sqlite3 *db, const struct ld_db_format *f, int64_t *version, struct ld_message *why)
{
    const int most = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, SCHEMA_ROW_BYTES);
    int status = check_header(db, f, version, why);
    if (status == LD_STORE_OK)
        status = ld_db_check_schema(db, f, *version, why);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, most);
    return status;
}

/* Read-only from first to last; whatever it finds, the file and its WAL keep their bytes. O(file), or O(1) for large
 * files. The first statement makes SQLite read the schema: a file that is no database fails there and not in the
 * middle. */
int ld_db_check(const char *path, const struct ld_db_format *f, const struct ld_store_care *care,
                struct ld_message *why)
{
    const bool is_thorough = care->is_thorough || care->is_foreign;
    struct ld_sql_watch watch;
    struct stat st;
    struct sqlite3 *db = NULL;
    int64_t version = 0;
    if (stat(path, &st) != 0)
        return ld_fail_as(LD_STORE_IO, why, "cannot be read: %s", strerror(errno));
    int status = ld_db_connect_readonly(&db, path, why);
    if (status != LD_STORE_OK)
        return status;
    ld_sql_watch_init(&watch, ld_db_weight(path), true, care->is_over, care->arg);
    ld_sql_watch(db, &watch);
    status = check_schema(db, f, &version, why);
    if (status == LD_STORE_OK && (is_thorough || st.st_size < QUICK_CHECK_BYTES))
        status = ld_db_check_pages(db, false, why);
    if (status == LD_STORE_OK && (is_thorough || st.st_size < QUICK_CHECK_BYTES))
        status = check_rows(db, f, version, why);
    status = ld_sql_watched(&watch, status, why);
    (void)sqlite3_close(db);
    return status;
}
