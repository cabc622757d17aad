/* How a database file of ours is opened, made or refused: ld_db_open of sqlite_util.h.
 *
 *   inspect   100 bytes of the header, by read(2)                                          migrate.c
 *   check     a read-only connection: version, structure, contents. Without a WAL the file is opened as
 *             immutable, so that nothing appears beside it; with one, closing must not checkpoint
 *   open      read-write, WAL, synchronous=FULL, both read back; migrations
 *
 * Whatever inspect or check refuse keeps its bytes. A file is made as NAME.new in rollback-journal mode, closed,
 * renamed, and the directory synced: a power cut leaves either no file or a whole one, and an empty or short
 * file at the path is damage, not a beginning. Files of a name that is made anew go first (.new, -wal, -shm):
 * a WAL without its database belongs to one that was deleted, and must not be replayed into the next.
 *
 * Every failure is a LD_STORE_* code and a sentence that begins with the path. What an operator may do about it: IO
 * wants room or permissions, NEWER the newer program, FOREIGN another folder, CORRUPT a backup.
 *
 * A file belongs to one process (the folder's lock sees to that), so between these steps nobody else changes it. */
#include "sqlite_util.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store.h"
#include "store_wal.h"

#define BUSY_MS 5000
#define QUICK_CHECK_BYTES (INT64_C(64) << 20)
#define NAME_BYTES 4096

/* path with a suffix. -1 when it does not fit. */
static int name_with(char *out, const char *path, const char *suffix)
{
    int n = snprintf(out, NAME_BYTES, "%s%s", path, suffix);
    return n > 0 && n < NAME_BYTES ? 0 : -1;
}

/* Puts the file's name before the sentence. Which file it is about is the first thing that whoever reads the log
 * wants to know. The sentence is cut to half of the buffer, so that a long path leaves room for it. */
static int name_file(const char *path, char *why, int status)
{
    char text[LD_WHY_BYTES];
    if (status == LD_STORE_OK)
        return status;
    (void)snprintf(text, sizeof text, "%s", why);
    (void)snprintf(why, LD_WHY_BYTES, "%s: %.*s", path, LD_WHY_BYTES / 2, text);
    return status;
}

/* NOMUTEX: a connection of ours has one thread at a time. Waiting for another's lock is bounded; past it the call
 * fails as busy, which is an I/O failure to the caller. SQLite gives a connection even when opening fails, for its
 * message; it is closed here. */
static int connect_by(struct sqlite3 **out, const char *name, int flags, const char *vfs, char *why)
{
    int rc = sqlite3_open_v2(name, out, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(*out, BUSY_MS);
    if (rc == SQLITE_OK)
        return LD_STORE_OK;
    int status = ld_sql_fail(*out, rc, "cannot be opened", why);
    (void)sqlite3_close(*out);
    *out = NULL;
    return status;
}

static int connect_to(struct sqlite3 **out, const char *name, int flags, char *why)
{
    return connect_by(out, name, flags, NULL, why);
}

/* --- check ------------------------------------------------------------------------------------------- */

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

/* A page that the disk did not give is told among the faults of the file, by SQLite's code, and is none of them. */
static bool is_read_failure(const char *verdict)
{
    const char *code = strstr(verdict, "error code=");
    return code != NULL && (atoi(code + strlen("error code=")) & 0xff) == SQLITE_IOERR;
}

/* quick_check reads every page and checks each one's structure, not whether indexes match their rows: a tenth of the
 * time of integrity_check. Then our own question about the rows. 1 asks for the first fault only. O(file): this is
 * what the limit of 64 MiB is about. */
static int check_contents(struct sqlite3 *db, const struct ld_db_format *f, char *why)
{
    char verdict[256];
    int64_t is_sound = 0, version = 0;
    int status = ld_sql_text(db, "PRAGMA quick_check(1)", verdict, sizeof verdict, why);
    if (status != LD_STORE_OK)
        return status;
    if (strcmp(verdict, "ok") != 0) {
        bool is_unread = is_read_failure(verdict);
        (void)snprintf(why, LD_WHY_BYTES, "%s: %s", is_unread ? "cannot be read" : "damaged", verdict);
        return is_unread ? LD_STORE_IO : LD_STORE_CORRUPT;
    }
    status = ld_sql_int(db, "PRAGMA user_version", &version, why);
    if (status == LD_STORE_OK) {
        const bool is_before = version < f->contents_since;
        status = ld_sql_int(db, is_before ? f->contents_before : f->contents, &is_sound, why);
    }
    if (status == LD_STORE_OK && !is_sound) {
        (void)snprintf(why, LD_WHY_BYTES, "damaged: %s", f->contents_broken);
        return LD_STORE_CORRUPT;
    }
    return status;
}

/* Again, and now through the WAL: a newer program may have died before its version reached the file's header. The
 * header that migrate.c has read may be older than what the WAL holds. */
static int check_version(struct sqlite3 *db, const struct ld_db_format *f, char *why)
{
    int64_t version = 0;
    int last = f->migrations[f->n_migrations - 1].version;
    int status = ld_sql_int(db, "PRAGMA user_version", &version, why);
    if (status == LD_STORE_OK && version > last) {
        (void)snprintf(why, LD_WHY_BYTES, "schema version %lld is newer than this program (%d)", (long long)version,
                       last);
        return LD_STORE_NEWER;
    }
    return status;
}

/* With a WAL SQLite may write the -shm index beside the file, which holds nothing of its own. */
int ld_db_connect_readonly(struct sqlite3 **out, const char *path, char *why)
{
    char name[NAME_BYTES * 3 + 64], wal[NAME_BYTES];
    struct stat st;
    if (name_with(wal, path, "-wal") != 0 || immutable_uri(name, sizeof name, path) != 0) {
        (void)snprintf(why, LD_WHY_BYTES, "the path is too long");
        return LD_STORE_IO;
    }
    bool has_wal = stat(wal, &st) == 0 && st.st_size > 0;
    int status = connect_to(out, has_wal ? path : name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why);
    if (status == LD_STORE_OK)
        (void)sqlite3_db_config(*out, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return status;
}

/* Read-only from first to last; whatever it finds, the file and its WAL keep their bytes. O(file), or O(1) for large
 * files. The first query makes SQLite read the schema: a file that is no database fails there and not in the middle. */
static int check(const char *path, const struct ld_db_format *f, bool is_thorough, char *why)
{
    struct stat st;
    struct sqlite3 *db = NULL;
    int64_t n_tables;
    if (stat(path, &st) != 0) {
        (void)snprintf(why, LD_WHY_BYTES, "cannot be read: %s", strerror(errno));
        return LD_STORE_IO;
    }
    int status = ld_db_connect_readonly(&db, path, why);
    if (status != LD_STORE_OK)
        return status;
    status = ld_sql_int(db, "SELECT count(*) FROM sqlite_schema", &n_tables, why);
    if (status == LD_STORE_OK)
        status = check_version(db, f, why);
    if (status == LD_STORE_OK && (is_thorough || st.st_size < QUICK_CHECK_BYTES))
        status = check_contents(db, f, why);
    (void)sqlite3_close(db);
    return status;
}

/* --- make -------------------------------------------------------------------------------------------- */

/* What a creation or a deletion that was cut off left behind. Only called when there is no file at path: nothing here
 * can belong to a living tenant. */
static int remove_leftovers(const char *path, char *why)
{
    static const char *const suffixes[] = {".new", ".new-journal", "-wal", "-shm", "-journal"};
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (name_with(name, path, suffixes[i]) != 0 || (unlink(name) != 0 && errno != ENOENT)) {
            (void)snprintf(why, LD_WHY_BYTES, "%s cannot be removed: %s", suffixes[i], strerror(errno));
            return LD_STORE_IO;
        }
    }
    return LD_STORE_OK;
}

/* synchronous=EXTRA also syncs the directory after the journal is gone, so that the renamed file cannot be rolled
 * back by a journal that a crash brings back. The first migration runs before the rename, so whoever sees the file
 * sees its tables, version and application id. What a failure leaves under the name .new, the next attempt removes. */
static int make(const char *path, const struct ld_db_format *f, char *why)
{
    char name[NAME_BYTES];
    struct sqlite3 *db = NULL;
    int status = remove_leftovers(path, why);
    if (status != LD_STORE_OK)
        return status;
    (void)name_with(name, path, ".new");
    status = connect_to(&db, name, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why);
    if (status != LD_STORE_OK)
        return status;
    status =
        ld_sql_exec(db, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA", why);
    if (status == LD_STORE_OK)
        status = ld_migrate(db, f->migrations, f->n_migrations, f->application_id, why);
    (void)sqlite3_close(db);
    if (status == LD_STORE_OK && (rename(name, path) != 0 || ld_sync_directory_of(path) != 0)) {
        (void)snprintf(why, LD_WHY_BYTES, "cannot be made: %s", strerror(errno));
        status = LD_STORE_IO;
    }
    return status;
}

/* --- open -------------------------------------------------------------------------------------------- */

/* What the promise of durability rests on is read back, not assumed. wal_autocheckpoint=0: SQLite would otherwise
 * checkpoint inside a commit (upkeep.c does it instead). */
static int set_durable(struct sqlite3 *db, char *why)
{
    char mode[16] = "";
    int64_t synchronous = 0;
    int status = ld_sql_text(db, "PRAGMA journal_mode=WAL", mode, sizeof mode, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(db, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0", why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA synchronous", &synchronous, why);
    if (status == LD_STORE_OK && (strcmp(mode, "wal") != 0 || synchronous != 2)) {
        (void)snprintf(why, LD_WHY_BYTES, "journal_mode is %s and synchronous %lld, not wal and 2", mode,
                       (long long)synchronous);
        status = LD_STORE_IO;
    }
    return status;
}

/* The connection that writes: what it rests on (store_wal.h) is what set_durable has read back. One that SQLite could
 * only open for reading (no permission to write) is refused here, not at the first commit. *out is set on success
 * alone; a failed migration was rolled back and is tried again at the next start. */
static int open_checked(struct sqlite3 **out, const char *path, const struct ld_db_format *f, char *why)
{
    struct sqlite3 *db = NULL;
    int64_t before = 0;
    int status = connect_by(&db, path, SQLITE_OPEN_READWRITE, ld_wal_vfs(), why);
    if (status != LD_STORE_OK)
        return status;
    if (sqlite3_db_readonly(db, "main") == 1) {
        (void)snprintf(why, LD_WHY_BYTES, "is read-only");
        status = LD_STORE_IO;
    }
    if (status == LD_STORE_OK)
        status = set_durable(db, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA user_version", &before, why);
    if (status == LD_STORE_OK)
        status = ld_migrate(db, f->migrations, f->n_migrations, f->application_id, why);
    /* A new version belongs in the file's header at once, where an older program would look for it. */
    if (status == LD_STORE_OK && before < f->migrations[f->n_migrations - 1].version)
        status = ld_sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", why);
    if (status != LD_STORE_OK) {
        (void)sqlite3_close(db);
        return status;
    }
    *out = db;
    return LD_STORE_OK;
}

/* Inspect, check or make, open: in this order, and the first failure ends it. Nothing but the leftovers of a file
 * that is not there is removed. */
int ld_db_open(struct sqlite3 **out, const char *path, const struct ld_db_format *format, bool is_thorough,
               bool *was_created, char *why)
{
    int exists = 0, last = format->migrations[format->n_migrations - 1].version;
    int status = ld_migrate_inspect(path, last, format->application_id, &exists, why);
    if (status != LD_STORE_OK)
        return status;
    status = exists ? check(path, format, is_thorough, why) : make(path, format, why);
    if (status == LD_STORE_OK)
        status = open_checked(out, path, format, why);
    *was_created = !exists;
    return name_file(path, why, status);
}

int ld_db_open_readonly(struct sqlite3 **out, const char *path, const struct ld_db_format *format, char *why)
{
    int exists = 0, last = format->migrations[format->n_migrations - 1].version;
    int64_t version = 0;
    struct sqlite3 *db = NULL;
    int status = ld_migrate_inspect(path, last, format->application_id, &exists, why);
    if (status == LD_STORE_OK)
        status = check(path, format, true, why); /* a file that is not there is told by it */
    if (status == LD_STORE_OK)
        status = ld_db_connect_readonly(&db, path, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA user_version", &version, why);
    if (status == LD_STORE_OK && version < last) {
        (void)snprintf(why, LD_WHY_BYTES, "schema version %lld: a start of the server brings it to %d",
                       (long long)version, last);
        status = LD_STORE_IO;
    }
    if (status == LD_STORE_OK)
        *out = db;
    else if (db != NULL)
        (void)sqlite3_close(db);
    return name_file(path, why, status);
}

/* The schema as one text, malloc'd; NULL: no memory. SQLite's own tables and automatic indexes are left out. */
static char *schema_of(struct sqlite3 *db)
{
    static const char sql[] = "SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || sql, char(10))"
                              " FROM (SELECT * FROM sqlite_schema WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'"
                              " ORDER BY type, name)";
    sqlite3_stmt *stmt = NULL;
    char *text = NULL;
    if (ld_sql_prepare(db, sql, &stmt, NULL) == LD_STORE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *column = (const char *)sqlite3_column_text(stmt, 0);
        text = strdup(column != NULL ? column : "");
    }
    (void)sqlite3_finalize(stmt);
    return text;
}

/* Compared with a database in memory that the same migrations have made. */
int ld_db_check_schema(struct sqlite3 *db, const struct ld_db_format *format, char *why)
{
    struct sqlite3 *fresh = NULL;
    char *ours = NULL, *theirs = NULL;
    int status = connect_to(&fresh, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why);
    if (status == LD_STORE_OK)
        status = ld_migrate(fresh, format->migrations, format->n_migrations, format->application_id, why);
    if (status == LD_STORE_OK) {
        ours = schema_of(fresh);
        theirs = schema_of(db);
        (void)snprintf(why, LD_WHY_BYTES, "its tables are not those of this program");
        status = ours == NULL || theirs == NULL ? LD_STORE_NOMEM
                 : strcmp(ours, theirs) == 0    ? LD_STORE_OK
                                                : LD_STORE_FOREIGN;
    }
    (void)sqlite3_close(fresh);
    free(ours);
    free(theirs);
    return status;
}

/* --- place ------------------------------------------------------------------------------------------- */

static void identify(const char *path, const char *suffix, uint64_t id[2])
{
    char name[NAME_BYTES];
    struct stat st;
    bool is_there = name_with(name, path, suffix) == 0 && stat(name, &st) == 0;
    id[0] = is_there ? (uint64_t)st.st_dev : 0;
    id[1] = is_there ? (uint64_t)st.st_ino : 0;
}

/* The write-ahead log is there since the version was read. */
void ld_db_note_place(const char *path, struct ld_db_place *place)
{
    identify(path, "", place->file);
    identify(path, "-wal", place->wal);
}

bool ld_db_is_in_place(const char *path, const struct ld_db_place *place, char *why)
{
    struct ld_db_place now;
    ld_db_note_place(path, &now);
    if (memcmp(&now, place, sizeof now) == 0)
        return true;
    if (why != NULL)
        (void)snprintf(why, LD_WHY_BYTES, "%s: it, or its write-ahead log, is not in its place any more", path);
    return false;
}

/* --- more connections -------------------------------------------------------------------------------- */

/* query_only keeps a slip in a query from writing; checkpoints are still allowed. Several of them may be open at
 * once; each has its own view of the last commit. */
int ld_db_connect(struct sqlite3 **out, const char *path, char *why)
{
    int status = connect_to(out, path, SQLITE_OPEN_READWRITE, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(*out, "PRAGMA query_only=1; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0", why);
    if (status != LD_STORE_OK && *out != NULL) {
        (void)sqlite3_close(*out);
        *out = NULL;
    }
    return status;
}
