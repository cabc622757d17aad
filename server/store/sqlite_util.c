/* Helpers over SQLite: codes, sentences, one-value queries. See sqlite_util.h.
 *
 * SQLite has some thirty result codes and ten times as many extended ones. What a caller can do about them comes
 * down to three: wait for better times (LD_STORE_IO), stop trusting the file (LD_STORE_CORRUPT), or get memory
 * (LD_STORE_NOMEM). The sentence beside the code keeps SQLite's own words.
 *
 * Everything takes a connection that the caller owns and uses in one thread. */
#include "store/sqlite_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/store_status.h"

#define BUSY_MS 5000
#define LOOK_STEPS 1000
#define LOOKS_AT_LEAST 10000 /* some tenths of a second */
#define BYTES_A_LOOK 20      /* a row of 20 bytes or more takes some 100 steps to check, and fewer to read */
#define CPU_US_AT_LEAST INT64_C(5000000)
#define BYTES_A_CPU_US 1 /* a hundredth of what a slow machine reads */

/* The extended codes share their low byte with the primary one, which is all that matters here: is it the memory,
 * the file's contents, or the surroundings. */
int ld_sql_status(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return LD_STORE_OK;
    case SQLITE_NOMEM:
        return LD_STORE_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR: /* a table is missing: the statements themselves are known to be right */
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return LD_STORE_CORRUPT;
    case SQLITE_INTERRUPT:
        return LD_STORE_STOPPED;
    default: /* FULL, IOERR, READONLY, CANTOPEN, BUSY, PERM, ...: the surroundings refuse, and may change */
        return LD_STORE_IO;
    }
}

/* Never LD_STORE_OK: SQLITE_DONE where a row was wanted is a failure too, and then counts as LD_STORE_IO. */
int ld_sql_fail(struct sqlite3 *db, int rc, const char *what, struct ld_message *why)
{
    const char *message = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    if (why != NULL)
        ld_fail(why, "%s: %s", what, message);
    int status = ld_sql_status(rc);
    return status != LD_STORE_OK ? status : LD_STORE_IO;
}

/* --- connections ------------------------------------------------------------------------------------- */

/* What a file may not do by itself. */
static int harden(struct sqlite3 *db)
{
    static const struct {
        int option, value;
    } rows[] = {{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                {SQLITE_DBCONFIG_DEFENSIVE, 1},
                {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
                {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0}};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && rc == SQLITE_OK; i++)
        rc = sqlite3_db_config(db, rows[i].option, rows[i].value, NULL);
    return rc;
}

/* NOMUTEX: a connection of ours has one thread at a time. Waiting for another's lock is bounded; past it the call
 * fails as busy, which is an I/O failure to the caller. SQLite gives a connection even when opening fails, for its
 * message; it is closed here. */
int ld_sql_connect(struct sqlite3 **out, const char *name, int flags, const char *vfs, struct ld_message *why)
{
    int rc = sqlite3_open_v2(name, out, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
    if (rc == SQLITE_OK)
        rc = harden(*out);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(*out, BUSY_MS);
    if (rc == SQLITE_OK)
        return LD_STORE_OK;
    int status = ld_sql_fail(*out, rc, "cannot be opened", why);
    (void)sqlite3_close(*out);
    *out = NULL;
    return status;
}

static int64_t cpu_us(void)
{
    struct timespec now = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void ld_sql_watch_init(struct ld_sql_watch *w, int64_t bytes, bool has_deadline, bool (*is_over)(void *), void *arg)
{
    *w = (struct ld_sql_watch){.is_over = is_over, .arg = arg, .n_looks = LOOKS_AT_LEAST + bytes / BYTES_A_LOOK};
    if (has_deadline)
        w->cpu_us = cpu_us() + CPU_US_AT_LEAST + bytes / BYTES_A_CPU_US;
}

/* Called by SQLite in the middle of a statement; not 0 ends it. */
static int look(void *watch)
{
    struct ld_sql_watch *w = watch;
    w->is_spent = --w->n_looks < 0 || (w->cpu_us != 0 && cpu_us() > w->cpu_us);
    return w->is_spent || (w->is_over != NULL && w->is_over(w->arg));
}

void ld_sql_watch(struct sqlite3 *db, struct ld_sql_watch *w)
{
    sqlite3_progress_handler(db, LOOK_STEPS, look, w);
}

int ld_sql_watched(const struct ld_sql_watch *w, int status, struct ld_message *why)
{
    if (status != LD_STORE_STOPPED)
        return status;
    if (why != NULL)
        ld_fail(why, "%s",
                w->is_spent ? "damaged: reading it takes more work than a whole file of its size does"
                            : "the server is stopping");
    return w->is_spent ? LD_STORE_CORRUPT : status;
}

/* --- statements -------------------------------------------------------------------------------------- */

/* For statements without parameters and without rows that matter. Several statements may stand in sql; the first
 * failure ends it. */
int ld_sql_exec(struct sqlite3 *db, const char *sql, struct ld_message *why)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(db, rc, "statement failed", why);
}

/* Kept for long: SQLite takes its memory from the heap then instead of from the connection's small slots. The caller
 * finalizes; *out is NULL on failure. */
int ld_sql_prepare(struct sqlite3 *db, const char *sql, struct sqlite3_stmt **out, struct ld_message *why)
{
    int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(db, rc, "statement refused", why);
}

/* Runs sql up to its first row; *stmt is to be finalized in any case. No row at all is a failure. */
static int first_row(struct sqlite3 *db, const char *sql, sqlite3_stmt **stmt, struct ld_message *why)
{
    int status = ld_sql_prepare(db, sql, stmt, why);
    if (status != LD_STORE_OK)
        return status;
    int rc = sqlite3_step(*stmt);
    return rc == SQLITE_ROW ? LD_STORE_OK : ld_sql_fail(db, rc, "no answer", why);
}

/* One number, as most pragmas are. *out is left alone on failure. */
int ld_sql_int(struct sqlite3 *db, const char *sql, int64_t *out, struct ld_message *why)
{
    sqlite3_stmt *stmt = NULL;
    int status = first_row(db, sql, &stmt, why);
    if (status == LD_STORE_OK)
        *out = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return status;
}

/* One text, cut to cap; NULL is read as empty. */
int ld_sql_text(struct sqlite3 *db, const char *sql, char *out, int cap, struct ld_message *why)
{
    sqlite3_stmt *stmt = NULL;
    int status = first_row(db, sql, &stmt, why);
    if (status == LD_STORE_OK) {
        const unsigned char *text = sqlite3_column_text(stmt, 0);
        (void)snprintf(out, (size_t)cap, "%s", text != NULL ? (const char *)text : "");
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

void ld_sql_bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
    (void)(text != NULL ? sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(stmt, at));
}

/* A version that cannot be read leaves 0, and nothing is written. */
int ld_sql_touch(struct sqlite3 *db)
{
    char sql[64];
    int64_t version = 0;
    (void)ld_sql_int(db, "PRAGMA user_version", &version, NULL);
    (void)snprintf(sql, sizeof sql, "PRAGMA user_version = %lld", (long long)version);
    return version > 0 ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_IOERR;
}

/* The rollback is skipped where SQLite has done it by itself, as it may for a full disk: autocommit is off while a
 * transaction is open. A disk that does not even take the one page in a place that was just written is tried again by
 * whoever probes it (upkeep.c). */
bool ld_sql_undo(struct sqlite3 *db)
{
    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return ld_sql_touch(db) == SQLITE_OK;
}

/* A new or renamed file is not durable before its directory is. A name without a slash is in the current directory,
 * one whose only slash comes first in the root; a folder's name may end with slashes. */
int ld_sync_directory_of(const char *path)
{
    char folder[4096];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *slash = memrchr(path, '/', n);
    const size_t n_folder = slash == NULL ? 0 : (size_t)(slash - path);
    if (n_folder >= sizeof folder)
        return -1;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)n_folder, path);
    const char *name = slash == NULL ? "." : n_folder == 0 ? "/" : folder;
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    (void)close(fd);
    return rc;
}

/* write(2) may take less than it was given, or be interrupted by a signal. -1 with errno; a disk that is full shows
 * here or at the fsync. */
int ld_write_all(int fd, const void *data, size_t n)
{
    const unsigned char *at = data;
    while (n > 0) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        at += written;
        n -= (size_t)written;
    }
    return 0;
}
