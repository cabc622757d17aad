/* Migrations, and the look at a file's header before anything is done with it: see migrate.h.
 *
 * The header of an SQLite database (https://www.sqlite.org/fileformat2.html) is 100 bytes, big-endian:
 *   0 magic   16 page size (1 = 65536)   18, 19 who may write, read it   24 change counter   28 pages
 *   56 encoding   60 user_version   68 application_id   92 the change counter at which `pages` was right
 * Ours carries application_id and user_version from its first transaction on, which ran in rollback-journal
 * mode, so they stand in the file itself even when later work is still in the WAL.
 *
 * The look is by read(2) and not through SQLite, because opening a database is not innocent: a journal or a WAL
 * that lies beside a foreign file would be replayed into it.
 *
 * A migration is never changed once it is released: files carry its number, not its text. A new one is added to the
 * list of its kind of file (store_sqlite.c, registry_file.c) and may rely on all before it. */
#include "store/migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "store/sqlite_util.h"
#include "store/store_status.h"

/* A database has at least one page, so a file with less than its header is not whole. */
#define HEADER_BYTES 100

static const char magic[] = "SQLite format 3";

/* --- the header -------------------------------------------------------------------------------------- */

/* Four bytes of the header as a number. */
static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Writes "PATH: reason" into why and returns the status, so that a check is one line. */
__attribute__((format(printf, 4, 5))) static int refuse(int status, struct ld_message *why, const char *path,
                                                        const char *fmt, ...)
{
    char text[sizeof why->text];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ld_fail(why, "%s: %s", path, text);
    return status;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISLNK(mode) ? "a symbolic link" : S_ISFIFO(mode) ? "a pipe" : "a device";
}

/* Whoever reads a pipe may wait for ever, and a link leads to files that are not of this folder. LD_STORE_*; *size is
 * -1 when there is nothing at path with the suffix. */
static int look_at(const char *path, const char *suffix, off_t *size, struct ld_message *why)
{
    char name[4096];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", path, suffix);
    *size = -1;
    if (n < 0 || (size_t)n >= sizeof name)
        return refuse(LD_STORE_IO, why, path, "the path is too long");
    if (lstat(name, &st) != 0)
        return errno == ENOENT ? LD_STORE_OK : refuse(LD_STORE_IO, why, path, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse(LD_STORE_FOREIGN, why, path, "%s%s is %s, not a file", suffix[0] != '\0' ? "its " : "it", suffix,
                      kind_of(st.st_mode));
    *size = st.st_size;
    return LD_STORE_OK;
}

/* No file of ours has a rollback journal beside it (db_file.c), and SQLite would write what is in it into the file. */
static int look_beside(const char *path, struct ld_message *why)
{
    off_t size = 0;
    int status = look_at(path, "-wal", &size, why);
    if (status == LD_STORE_OK)
        status = look_at(path, "-shm", &size, why);
    if (status == LD_STORE_OK)
        status = look_at(path, "-journal", &size, why);
    if (status == LD_STORE_OK && size > 0)
        return refuse(
            LD_STORE_CORRUPT, why, path,
            "a rollback journal lies beside it, and none is expected: it was copied in the middle of a change,"
            " or is not of this program; let sqlite3 open it, or take the journal away");
    return status;
}

/* Up to HEADER_BYTES of the file and its size. LD_STORE_*; *exists false when there is no file. A file that is there
 * but cannot be opened is a failure, not an absence: it must not be made anew over it. */
static int read_header(const char *path, unsigned char *header, ssize_t *n, off_t *size, int *exists,
                       struct ld_message *why)
{
    struct stat st;
    int status = look_at(path, "", size, why);
    *exists = status != LD_STORE_OK || *size >= 0;
    if (status != LD_STORE_OK || !*exists)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return refuse(LD_STORE_IO, why, path, "%s", strerror(errno));
    *n = read(fd, header, HEADER_BYTES);
    int rc = *n < 0 ? -1 : fstat(fd, &st);
    int error = errno;
    (void)close(fd);
    if (rc != 0)
        return refuse(LD_STORE_IO, why, path, "%s", strerror(error));
    *size = st.st_size;
    return LD_STORE_OK;
}

/* A WAL with something in it; SQLite may leave an empty one behind. Its contents are not judged; SQLite checks each
 * frame. */
static bool has_wal(const char *path)
{
    char name[4096];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s-wal", path);
    return n > 0 && (size_t)n < sizeof name && stat(name, &st) == 0 && st.st_size > 0;
}

/* Whether pages that the header counts are missing. */
static bool is_truncated(const unsigned char *header, off_t size)
{
    uint32_t page = (uint32_t)header[16] << 8 | header[17];
    uint32_t pages = big_endian(header + 28);
    if (page == 1)
        page = 65536;
    return (off_t)page * (off_t)pages > size;
}

/* From the outside in: is it a database, is it whole enough to ask, is it ours, do we know its version, is it written
 * as ours are, is all of it there, is nothing beside it that would change it. The first no is the answer. An empty file
 * matches the beginning of the magic and is found truncated, hence damaged and never taken for new. O(1). */
int ld_migrate_inspect(const char *path, int last_version, uint32_t application_id, int *exists, struct ld_message *why)
{
    unsigned char header[HEADER_BYTES] = {0};
    ssize_t n = 0;
    off_t size = 0;
    int status = read_header(path, header, &n, &size, exists, why);
    if (status != LD_STORE_OK || !*exists)
        return status;
    size_t n_magic = (size_t)n < sizeof magic ? (size_t)n : sizeof magic;
    if (memcmp(header, magic, n_magic) != 0)
        return refuse(LD_STORE_FOREIGN, why, path, "not a database of laplaced");
    if (n < HEADER_BYTES)
        return refuse(LD_STORE_CORRUPT, why, path, "truncated: %lld bytes", (long long)size);
    if (big_endian(header + 68) != application_id)
        return refuse(LD_STORE_FOREIGN, why, path, "a database, but not of this kind (application id %08x)",
                      (unsigned)big_endian(header + 68));
    uint32_t version = big_endian(header + 60);
    if (version > (uint32_t)last_version)
        return refuse(LD_STORE_NEWER, why, path, "schema version %u is newer than this program (%d)", (unsigned)version,
                      last_version);
    if (version == 0)
        return refuse(LD_STORE_CORRUPT, why, path, "has no schema version");
    if (header[18] > 2 || header[19] > 2 || big_endian(header + 56) != 1)
        return refuse(LD_STORE_CORRUPT, why, path,
                      "its format is %u/%u and its encoding %u, not 1 or 2 (rollback, WAL) and 1 (UTF-8)", header[18],
                      header[19], (unsigned)big_endian(header + 56));
    /* With a WAL beside it the file may rightly be short: a checkpoint that was cut off writes the first page before
     * the last. */
    const bool is_unfinished = has_wal(path);
    /* The program that wrote last has kept the count of pages, which the two change counters tell. Any SQLite since 3.7
     * does; without it the file's length would count, which says nothing. */
    const bool is_counted = big_endian(header + 28) > 0 && big_endian(header + 24) == big_endian(header + 92);
    if (!is_unfinished && !is_counted)
        return refuse(LD_STORE_CORRUPT, why, path, "damaged: its header does not say how many pages it has");
    if (!is_unfinished && is_truncated(header, size))
        return refuse(LD_STORE_CORRUPT, why, path, "truncated: %lld bytes are less than the header counts",
                      (long long)size);
    return look_beside(path, why);
}

/* --- migrations -------------------------------------------------------------------------------------- */

/* One statement after the other, as sqlite3_exec would; each may be the last thing that this process does. What stands
 * behind the last one makes no statement. */
static int run_script(struct sqlite3 *db, const char *sql, struct ld_message *why)
{
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && *sql != '\0') {
        sqlite3_stmt *stmt = NULL;
        rc = sqlite3_prepare_v2(db, sql, -1, &stmt, &sql);
        if (rc != SQLITE_OK || stmt == NULL)
            break;
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            ;
        (void)sqlite3_finalize(stmt);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
        ld_failpoint("mid_migration");
    }
    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(db, rc, "statement failed", why);
}

/* Schema and number change in one transaction: a cut in between leaves the version before it, whole. PRAGMAs take no
 * parameters, so the numbers are printed into the text. The id is set with the first one only. */
static int apply(struct sqlite3 *db, const struct ld_migration *m, bool is_first, uint32_t application_id,
                 struct ld_message *why)
{
    char set_version[64], set_id[64];
    (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", m->version);
    (void)snprintf(set_id, sizeof set_id, "PRAGMA application_id = %u", (unsigned)application_id);
    int status = ld_sql_exec(db, "BEGIN IMMEDIATE", why);
    if (status != LD_STORE_OK)
        return status;
    status = run_script(db, m->sql, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(db, set_version, why);
    if (status == LD_STORE_OK && is_first)
        status = ld_sql_exec(db, set_id, why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(db, "COMMIT", why);
    if (status != LD_STORE_OK)
        (void)ld_sql_exec(db, "ROLLBACK", NULL);
    return status;
}

/* Only what comes after the file's version is run; a file at the last version is not written to. A failure in the
 * middle of several leaves the file at the last version that was reached. */
int ld_migrate(struct sqlite3 *db, const struct ld_migration *list, int n, uint32_t application_id,
               struct ld_message *why)
{
    int64_t version = 0;
    int status = ld_sql_int(db, "PRAGMA user_version", &version, why);
    if (status != LD_STORE_OK)
        return status;
    if (n > 0 && version > list[n - 1].version)
        return ld_fail_as(LD_STORE_NEWER, why, "schema version %lld is newer than this program (%d)",
                          (long long)version, list[n - 1].version);
    for (int i = 0; i < n && status == LD_STORE_OK; i++)
        if (list[i].version > version)
            status = apply(db, &list[i], version == 0 && i == 0, application_id, why);
    return status;
}
