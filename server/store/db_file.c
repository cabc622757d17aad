/* How a database file of ours is opened, made or refused: ld_db_open of sqlite_util.h.
 *
 *   inspect   100 bytes of the header, by read(2), and what lies beside the file            migrate.c
 *   check     by a connection that writes nothing: version, schema, structure, contents     db_check.c
 *   open      read-write, WAL, synchronous=FULL, both read back; migrations
 *
 * Whatever inspect or check refuse keeps its bytes. A file is made as NAME.new in rollback-journal mode, turned to WAL,
 * closed, renamed, and the directory synced: a power cut leaves either no file or a whole one, an empty or short
 * file at the path is damage, not a beginning, and no file of ours ever has a rollback journal beside it: one that has
 * is refused, since SQLite would write what stands in it into the file. Files of a name that is made anew go first
 * (.new, -wal, -shm): a WAL without its database belongs to one that was deleted, and must not be replayed into the
 * next.
 *
 * All of them are the owner's alone to read, whatever the umask is, and older ones become so when they are opened.
 *
 * Every failure is a LD_STORE_* code and a sentence that begins with the path. What an operator may do about it: IO
 * wants room or permissions, NEWER the newer program, FOREIGN another folder, CORRUPT a backup.
 *
 * A file belongs to one process (the folder's lock sees to that), so between these steps nobody else changes it. */
#include "store/migrate.h"
#include "store/sqlite_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "store/store_wal.h"

#define NAME_BYTES 4096

/* path with a suffix. -1 when it does not fit. */
static int name_with(char *out, const char *path, const char *suffix)
{
    int n = snprintf(out, NAME_BYTES, "%s%s", path, suffix);
    return n > 0 && n < NAME_BYTES ? 0 : -1;
}

/* Puts the file's name before the sentence. Which file it is about is the first thing that whoever reads the log
 * wants to know. */
static int name_file(const char *path, struct ld_message *why, int status)
{
    if (status != LD_STORE_OK)
        ld_fail(why, "%s: %.256s", path, why->text);
    return status;
}

/* --- make -------------------------------------------------------------------------------------------- */

/* What a creation or a deletion that was cut off left behind. Only called when there is no file at path: nothing here
 * can belong to a living tenant. */
static int remove_leftovers(const char *path, struct ld_message *why)
{
    static const char *const suffixes[] = {".new", ".new-journal", ".new-wal", ".new-shm", "-wal", "-shm", "-journal"};
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (name_with(name, path, suffixes[i]) != 0 || (unlink(name) != 0 && errno != ENOENT))
            return ld_fail_as(LD_STORE_IO, why, "%s cannot be removed: %s", suffixes[i], strerror(errno));
    }
    return LD_STORE_OK;
}

/* An empty file, which SQLite takes for a new database; what it makes beside a file has that file's mode. */
int ld_db_touch_private(const char *path)
{
    const int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? close(fd) : -1;
}

/* The file's header says from here on how commits are written, before anybody can see the file. */
static int turn_to_wal(struct sqlite3 *db, struct ld_message *why)
{
    char mode[16] = "";
    int status = ld_sql_text(db, "PRAGMA journal_mode=WAL", mode, sizeof mode, why);
    if (status == LD_STORE_OK && strcmp(mode, "wal") != 0)
        status = ld_fail_as(LD_STORE_IO, why, "journal_mode is %s, not wal", mode);
    return status;
}

/* synchronous=EXTRA also syncs the directory after the journal is gone, so that the renamed file cannot be rolled
 * back by a journal that a crash brings back. The first migration runs before the rename, so whoever sees the file
 * sees its tables, version and application id. What a failure leaves under the name .new, the next attempt removes. */
static int make(const char *path, const struct ld_db_format *f, struct ld_message *why)
{
    char name[NAME_BYTES];
    struct sqlite3 *db = NULL;
    int status = remove_leftovers(path, why);
    if (status != LD_STORE_OK)
        return status;
    (void)name_with(name, path, ".new");
    if (ld_db_touch_private(name) != 0)
        return ld_fail_as(LD_STORE_IO, why, "cannot be made: %s", strerror(errno));
    status = ld_sql_connect(&db, name, SQLITE_OPEN_READWRITE, NULL, why);
    if (status != LD_STORE_OK)
        return status;
    status =
        ld_sql_exec(db, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA", why);
    if (status == LD_STORE_OK)
        status = ld_migrate(db, f->migrations, f->n_migrations, f->application_id, why);
    if (status == LD_STORE_OK)
        status = turn_to_wal(db, why);
    (void)sqlite3_close(db);
    if (status == LD_STORE_OK && (rename(name, path) != 0 || ld_sync_directory_of(path) != 0))
        status = ld_fail_as(LD_STORE_IO, why, "cannot be made: %s", strerror(errno));
    return status;
}

/* --- open -------------------------------------------------------------------------------------------- */

/* What the promise of durability rests on is read back, not assumed. wal_autocheckpoint=0: SQLite would otherwise
 * checkpoint inside a commit (upkeep.c does it instead). */
static int set_durable(struct sqlite3 *db, struct ld_message *why)
{
    int64_t synchronous = 0;
    int status = turn_to_wal(db, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(db, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0", why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA synchronous", &synchronous, why);
    if (status == LD_STORE_OK && synchronous != 2)
        status = ld_fail_as(LD_STORE_IO, why, "synchronous is %lld, not 2", (long long)synchronous);
    return status;
}

/* What is done once for a file that somebody else made: its indexes have to match its rows, since they are asked
 * instead of them. And SQLite (3.40) passes over the list of free pages in a schema whose last table is a view: a page
 * of the log that a stranger has put into that list would be written over. So it is asked once more without the view,
 * in a transaction that is taken back: nothing of it reaches the file. */
static int check_all_pages(struct sqlite3 *db, const struct ld_db_format *f, struct ld_message *why)
{
    char sql[96];
    if (f->view == NULL)
        return LD_STORE_OK;
    (void)snprintf(sql, sizeof sql, "PRAGMA cache_spill=0; BEGIN IMMEDIATE; DROP VIEW IF EXISTS %s", f->view);
    int status = ld_sql_exec(db, sql, why);
    if (status == LD_STORE_OK)
        status = ld_db_check_pages(db, true, why);
    const int end = ld_sql_exec(db, "ROLLBACK; PRAGMA cache_spill=1", NULL);
    return status != LD_STORE_OK ? status : end;
}

/* Of files that an older program made, or somebody copied here. One that is another user's stays as it is. */
static void make_private(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[NAME_BYTES];
    struct stat st;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (name_with(name, path, suffixes[i]) == 0 && stat(name, &st) == 0 && (st.st_mode & 077) != 0)
            (void)chmod(name, st.st_mode & 0700);
}

/* The connection that writes: what it rests on (store_wal.h) is what set_durable has read back. One that SQLite could
 * only open for reading (no permission to write) is refused here, not at the first commit. *out is set on success
 * alone; a failed migration was rolled back and is tried again at the next start. */
static int open_checked(struct sqlite3 **out, const char *path, const struct ld_db_format *f,
                        const struct ld_store_care *care, struct ld_message *why)
{
    struct ld_sql_watch watch;
    struct sqlite3 *db = NULL;
    int64_t before = 0;
    int status = ld_sql_connect(&db, path, SQLITE_OPEN_READWRITE, care->is_copy ? NULL : ld_wal_vfs(), why);
    if (status != LD_STORE_OK)
        return status;
    ld_sql_watch_init(&watch, ld_db_weight(path), false, care->is_over, care->arg);
    if (care->is_foreign)
        ld_sql_watch(db, &watch);
    if (sqlite3_db_readonly(db, "main") == 1)
        status = ld_fail_as(LD_STORE_IO, why, "is read-only");
    if (status == LD_STORE_OK && care->is_foreign)
        status = check_all_pages(db, f, why);
    if (status == LD_STORE_OK)
        status = set_durable(db, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA user_version", &before, why);
    if (status == LD_STORE_OK)
        status = ld_migrate(db, f->migrations, f->n_migrations, f->application_id, why);
    /* A new version belongs in the file's header at once, where an older program would look for it. */
    if (status == LD_STORE_OK && before < f->migrations[f->n_migrations - 1].version)
        status = ld_sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", why);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    if (status != LD_STORE_OK) {
        (void)sqlite3_close(db);
        return ld_sql_watched(&watch, status, why);
    }
    *out = db;
    return LD_STORE_OK;
}

/* Inspect, check or make, open: in this order, and the first failure ends it. Nothing but the leftovers of a file
 * that is not there is removed. */
int ld_db_open(struct sqlite3 **out, const char *path, const struct ld_db_format *format,
               const struct ld_store_care *care, bool *was_created, struct ld_message *why)
{
    int exists = 0, last = format->migrations[format->n_migrations - 1].version;
    int status = ld_migrate_inspect(path, last, format->application_id, &exists, why);
    if (status != LD_STORE_OK)
        return status;
    status = exists ? ld_db_check(path, format, care, why) : make(path, format, why);
    if (status == LD_STORE_OK) {
        make_private(path);
        status = open_checked(out, path, format, care, why);
    }
    *was_created = !exists;
    return name_file(path, why, status);
}

int ld_db_open_readonly(struct sqlite3 **out, const char *path, const struct ld_db_format *format,
                        struct ld_message *why)
{
    const struct ld_store_care care = {.is_thorough = true};
    int exists = 0, last = format->migrations[format->n_migrations - 1].version;
    int64_t version = 0;
    struct sqlite3 *db = NULL;
    int status = ld_migrate_inspect(path, last, format->application_id, &exists, why);
    if (status == LD_STORE_OK)
        status = ld_db_check(path, format, &care, why); /* a file that is not there is told by it */
    if (status == LD_STORE_OK)
        status = ld_db_connect_readonly(&db, path, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "PRAGMA user_version", &version, why);
    if (status == LD_STORE_OK && version < last)
        status = ld_fail_as(LD_STORE_IO, why, "schema version %lld: a start of the server brings it to %d",
                            (long long)version, last);
    if (status == LD_STORE_OK)
        *out = db;
    else if (db != NULL)
        (void)sqlite3_close(db);
    return name_file(path, why, status);
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

bool ld_db_is_in_place(const char *path, const struct ld_db_place *place, struct ld_message *why)
{
    struct ld_db_place now;
    ld_db_note_place(path, &now);
    if (memcmp(&now, place, sizeof now) == 0)
        return true;
    if (why != NULL)
        ld_fail(why, "%s: it, or its write-ahead log, is not in its place any more", path);
    return false;
}

/* --- more connections -------------------------------------------------------------------------------- */

/* query_only keeps a slip in a query from writing; checkpoints are still allowed. Several of them may be open at
 * once; each has its own view of the last commit. */
int ld_db_connect(struct sqlite3 **out, const char *path, struct ld_message *why)
{
    int status = ld_sql_connect(out, path, SQLITE_OPEN_READWRITE, NULL, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(*out, "PRAGMA query_only=1; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0", why);
    if (status != LD_STORE_OK && *out != NULL) {
        (void)sqlite3_close(*out);
        *out = NULL;
    }
    return status;
}
