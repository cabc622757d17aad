/* A VFS in front of the default one that gathers writes to the write-ahead log.
 *
 * A commit writes each of its pages to the log as a header of 24 bytes and the page, a system call each: some twenty
 * for ten decisions, more processor time than all that SQLite does besides (docs/decisions/0045-commits.md).
 * Here pieces that follow each other are put together, and written when the log is synced, which with synchronous=FULL
 * each commit does before anybody is shown its pages.
 *
 * Order is as asked for: whatever else is done with the file comes after what was held back. Who reads through another
 * connection looks at pages of commits alone, and they are in the file by then. A write that fails is told by the sync,
 * or whatever makes it happen, as one that is not held back is told by itself: either way the commit fails.
 *
 * And a log that grows does so in large steps, by zeros: a sync of a file whose length has changed is a commit of the
 * file system's own journal as well, twice the time of one that only writes over what is there.
 *
 * All other files are the default VFS's own. */
#include "store/store_wal.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_HELD ((size_t)8 << 10) /* bytes of what holds them, which grows as commits ask for it and stays */
#define MOST_HELD ((size_t)64 << 10)
#define LEAST_AHEAD ((sqlite3_int64)32 << 10)
#define MOST_AHEAD ((sqlite3_int64)64 << 10)

struct wal_file {
    sqlite3_file base;
    sqlite3_file *real; /* right behind */
    char *held;         /* n bytes that belong at `at`; NULL: none yet */
    size_t n, cap;
    sqlite3_int64 at, size; /* size: of the file, as far as it is known */
    bool has_grown;         /* since the last sync */
};

static struct wal_file *wal_of(sqlite3_file *f)
{
    return (struct wal_file *)(void *)f;
}

static int put(struct wal_file *w, const void *data, size_t n, sqlite3_int64 at)
{
    const int rc = w->real->pMethods->xWrite(w->real, data, (int)n, at);
    const sqlite3_int64 end = at + (sqlite3_int64)n;
    if (rc == SQLITE_OK && end > w->size) {
        w->size = end;
        w->has_grown = true;
    }
    return rc;
}

/* Writes what is held. When that fails it is gone, as it would be without us: the commit fails, and what comes after it
 * is written anew. */
static int flush(struct wal_file *w)
{
    const int rc = w->n > 0 ? put(w, w->held, w->n, w->at) : SQLITE_OK;
    w->n = 0;
    return rc;
}

/* Zeros behind what has made the file longer, as many as it has bytes, between two bounds: the log ends where they
 * begin. Where the disk has no room for them there are none. */
static void extend(struct wal_file *w)
{
    static const char zeros[MOST_AHEAD];
    const sqlite3_int64 n = w->size < LEAST_AHEAD ? LEAST_AHEAD : w->size > MOST_AHEAD ? MOST_AHEAD : w->size;
    (void)put(w, zeros, (size_t)n, w->size);
    w->has_grown = false;
}

/* Room for so many bytes in all. False: there is none. */
static bool fit(struct wal_file *w, size_t size)
{
    size_t cap = w->cap > 0 ? w->cap : LEAST_HELD;
    while (cap < size && cap < MOST_HELD)
        cap *= 2;
    if (size <= w->cap || size > cap)
        return size <= w->cap;
    char *held = realloc(w->held, cap);
    if (held == NULL)
        return false;
    w->held = held;
    w->cap = cap;
    return true;
}

static int wal_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    struct wal_file *w = wal_of(f);
    const size_t size = (size_t)n;
    const bool is_next = w->n > 0 && at == w->at + (sqlite3_int64)w->n;
    if (!is_next || !fit(w, w->n + size)) {
        const int rc = flush(w);
        if (rc != SQLITE_OK)
            return rc;
        if (!fit(w, size))
            return put(w, data, size, at);
        w->at = at;
    }
    memcpy(w->held + w->n, data, size);
    w->n += size;
    return SQLITE_OK;
}

static int wal_sync(sqlite3_file *f, int flags)
{
    struct wal_file *w = wal_of(f);
    const int rc = flush(w);
    if (rc == SQLITE_OK && w->has_grown)
        extend(w);
    return rc == SQLITE_OK ? w->real->pMethods->xSync(w->real, flags) : rc;
}

static int wal_close(sqlite3_file *f)
{
    struct wal_file *w = wal_of(f);
    const int written = flush(w), closed = w->real->pMethods->xClose(w->real);
    free(w->held);
    return written != SQLITE_OK ? written : closed;
}

/* --- what comes after what is held back ---------------------------------------------------------------------- */

static int wal_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    struct wal_file *w = wal_of(f);
    const int rc = flush(w);
    return rc == SQLITE_OK ? w->real->pMethods->xRead(w->real, out, n, at) : rc;
}

static int wal_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct wal_file *w = wal_of(f);
    const int rc = flush(w);
    w->size = size;
    return rc == SQLITE_OK ? w->real->pMethods->xTruncate(w->real, size) : rc;
}

static int wal_size(sqlite3_file *f, sqlite3_int64 *size)
{
    struct wal_file *w = wal_of(f);
    const int rc = flush(w);
    return rc == SQLITE_OK ? w->real->pMethods->xFileSize(w->real, size) : rc;
}

static int wal_control(sqlite3_file *f, int op, void *arg)
{
    struct wal_file *w = wal_of(f);
    const int rc = flush(w);
    return rc == SQLITE_OK ? w->real->pMethods->xFileControl(w->real, op, arg) : rc;
}

/* Locks are of the database's main file; SQLite asks for none of the log's. */
static int wal_lock(sqlite3_file *f, int level)
{
    struct wal_file *w = wal_of(f);
    return w->real->pMethods->xLock(w->real, level);
}

static int wal_unlock(sqlite3_file *f, int level)
{
    struct wal_file *w = wal_of(f);
    return w->real->pMethods->xUnlock(w->real, level);
}

static int wal_is_reserved(sqlite3_file *f, int *out)
{
    struct wal_file *w = wal_of(f);
    return w->real->pMethods->xCheckReservedLock(w->real, out);
}

static int wal_sector(sqlite3_file *f)
{
    struct wal_file *w = wal_of(f);
    return w->real->pMethods->xSectorSize(w->real);
}

static int wal_device(sqlite3_file *f)
{
    struct wal_file *w = wal_of(f);
    return w->real->pMethods->xDeviceCharacteristics(w->real);
}

/* Version 1: neither shared memory, which is the main file's, nor maps, past which we would not see a read. */
static const sqlite3_io_methods wal_methods = {.iVersion = 1,
                                               .xClose = wal_close,
                                               .xRead = wal_read,
                                               .xWrite = wal_write,
                                               .xTruncate = wal_truncate,
                                               .xSync = wal_sync,
                                               .xFileSize = wal_size,
                                               .xLock = wal_lock,
                                               .xUnlock = wal_unlock,
                                               .xCheckReservedLock = wal_is_reserved,
                                               .xFileControl = wal_control,
                                               .xSectorSize = wal_sector,
                                               .xDeviceCharacteristics = wal_device};

size_t ld_wal_bytes(struct sqlite3 *db)
{
    sqlite3_file *f = NULL;
    if (sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &f) != SQLITE_OK || f == NULL ||
        f->pMethods != &wal_methods)
        return 0;
    return wal_of(f)->cap;
}

/* --- the VFS --------------------------------------------------------------------------------------------------- */

static sqlite3_vfs *real_of(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
    sqlite3_vfs *real = real_of(vfs);
    if ((flags & SQLITE_OPEN_WAL) == 0)
        return real->xOpen(real, name, f, flags, out_flags);
    struct wal_file *w = wal_of(f);
    *w = (struct wal_file){.real = (sqlite3_file *)(void *)(w + 1)};
    w->real->pMethods = NULL;
    const int rc = real->xOpen(real, name, w->real, flags, out_flags);
    w->base.pMethods = w->real->pMethods != NULL ? &wal_methods : NULL;
    if (rc == SQLITE_OK)
        (void)w->real->pMethods->xFileSize(w->real, &w->size);
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int must_sync)
{
    return real_of(vfs)->xDelete(real_of(vfs), name, must_sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    return real_of(vfs)->xAccess(real_of(vfs), name, flags, out);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
    return real_of(vfs)->xFullPathname(real_of(vfs), name, n, out);
}

static sqlite3_vfs vfs;
static bool is_registered;

/* The rest of the default's methods ask nothing of the VFS that they are called for. */
static void make_vfs(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    if (real == NULL)
        return;
    vfs = *real;
    vfs.pNext = NULL;
    vfs.zName = "laplaced";
    vfs.pAppData = real;
    vfs.szOsFile = (int)sizeof(struct wal_file) + real->szOsFile;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    vfs.xAccess = vfs_access;
    vfs.xFullPathname = vfs_full_path;
    is_registered = sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
}

const char *ld_wal_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_vfs);
    return is_registered ? vfs.zName : NULL;
}
