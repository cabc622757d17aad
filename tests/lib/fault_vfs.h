/* A disk that fails on demand: an SQLite VFS around the system's own, in front of it as the default from
 * fault_vfs_install on. One call of a kind is counted down to; it fails, alone or with all of the kind after it.
 *
 * Files of the database kinds only (main file, write-ahead log, journal); what is written by other means is not seen.
 */
#ifndef FAULT_VFS_H
#define FAULT_VFS_H

#include <check.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_WRITE, /* nothing is written: SQLITE_IOERR_WRITE */
    FAULT_SHORT, /* half of it is written: SQLITE_IOERR_WRITE */
    FAULT_FULL,  /* half of it is written: SQLITE_FULL */
    FAULT_SYNC,  /* written, not synced: SQLITE_IOERR_FSYNC */
    FAULT_TRUNCATE,
    FAULT_SHM, /* the index of the write-ahead log cannot be had: SQLITE_IOERR_SHMMAP */
    FAULT_OPEN,
    FAULT_READ,
    N_FAULT_KINDS
};

static const char *const fault_names[N_FAULT_KINDS] = {"none",     "write", "short", "full", "sync",
                                                       "truncate", "shm",   "open",  "read"};

/* What is to come. left: calls of the kind that still go well. */
static struct {
    enum fault_kind kind;
    size_t left;
    bool is_lasting;
    size_t n_failed;
} fault;

struct fault_file {
    sqlite3_file base;
    sqlite3_file *real; /* right behind */
};

static inline void fault_arm(enum fault_kind kind, size_t n, bool is_lasting)
{
    fault.kind = kind;
    fault.left = n;
    fault.is_lasting = is_lasting;
    fault.n_failed = 0;
}

/* Mends the disk. True when something had failed. */
static inline bool fault_disarm(void)
{
    fault.kind = FAULT_NONE;
    return fault.n_failed > 0;
}

/* Whether this call of the kind is one that fails. */
static inline bool fault_hits(enum fault_kind kind)
{
    if (fault.kind != kind)
        return false;
    if (fault.left > 0) {
        fault.left--;
        return false;
    }
    if (fault.n_failed > 0 && !fault.is_lasting)
        return false;
    fault.n_failed++;
    return true;
}

static inline sqlite3_file *fault_real(sqlite3_file *f)
{
    return ((struct fault_file *)(void *)f)->real;
}

/* ---- what may fail -------------------------------------------------------------------------------------- */

static inline int fault_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
    sqlite3_file *real = fault_real(f);

    if (fault_hits(FAULT_WRITE))
        return SQLITE_IOERR_WRITE;
    const bool is_short = fault_hits(FAULT_SHORT), is_full = fault_hits(FAULT_FULL);
    const int rc = real->pMethods->xWrite(real, bytes, is_short || is_full ? n / 2 : n, at);
    return is_short ? SQLITE_IOERR_WRITE : is_full ? SQLITE_FULL : rc;
}

/* What is written stays written when a process dies, synced or not: nothing is synced in earnest. */
static inline int fault_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return fault_hits(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static inline int fault_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    sqlite3_file *real = fault_real(f);

    return fault_hits(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : real->pMethods->xTruncate(real, n);
}

static inline int fault_read(sqlite3_file *f, void *bytes, int n, sqlite3_int64 at)
{
    sqlite3_file *real = fault_real(f);

    return fault_hits(FAULT_READ) ? SQLITE_IOERR_READ : real->pMethods->xRead(real, bytes, n, at);
}

static inline int fault_shm_map(sqlite3_file *f, int page, int size, int may_extend, void volatile **out)
{
    sqlite3_file *real = fault_real(f);

    return fault_hits(FAULT_SHM) ? SQLITE_IOERR_SHMMAP : real->pMethods->xShmMap(real, page, size, may_extend, out);
}

/* ---- what passes through ---------------------------------------------------------------------------------- */

#define FAULT_PASS(name, params, args)                                                                                 \
    static inline int fault_##name params                                                                              \
    {                                                                                                                  \
        sqlite3_file *real = fault_real(f);                                                                            \
        return real->pMethods->x##name args;                                                                           \
    }
FAULT_PASS(FileSize, (sqlite3_file * f, sqlite3_int64 *n), (real, n))
FAULT_PASS(Lock, (sqlite3_file * f, int level), (real, level))
FAULT_PASS(Unlock, (sqlite3_file * f, int level), (real, level))
FAULT_PASS(CheckReservedLock, (sqlite3_file * f, int *out), (real, out))
FAULT_PASS(FileControl, (sqlite3_file * f, int op, void *arg), (real, op, arg))
FAULT_PASS(SectorSize, (sqlite3_file * f), (real))
FAULT_PASS(DeviceCharacteristics, (sqlite3_file * f), (real))
FAULT_PASS(ShmLock, (sqlite3_file * f, int at, int n, int flags), (real, at, n, flags))
FAULT_PASS(ShmUnmap, (sqlite3_file * f, int is_deleted), (real, is_deleted))
#undef FAULT_PASS

static inline void fault_shm_barrier(sqlite3_file *f)
{
    sqlite3_file *real = fault_real(f);

    real->pMethods->xShmBarrier(real);
}

static inline int fault_close(sqlite3_file *f)
{
    sqlite3_file *real = fault_real(f);

    return real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
}

/* Version 2: without memory maps, so that every read and write is a call. */
static const sqlite3_io_methods fault_methods = {.iVersion = 2,
                                                 .xClose = fault_close,
                                                 .xRead = fault_read,
                                                 .xWrite = fault_write,
                                                 .xTruncate = fault_truncate,
                                                 .xSync = fault_sync,
                                                 .xFileSize = fault_FileSize,
                                                 .xLock = fault_Lock,
                                                 .xUnlock = fault_Unlock,
                                                 .xCheckReservedLock = fault_CheckReservedLock,
                                                 .xFileControl = fault_FileControl,
                                                 .xSectorSize = fault_SectorSize,
                                                 .xDeviceCharacteristics = fault_DeviceCharacteristics,
                                                 .xShmMap = fault_shm_map,
                                                 .xShmLock = fault_ShmLock,
                                                 .xShmBarrier = fault_shm_barrier,
                                                 .xShmUnmap = fault_ShmUnmap};

/* ---- the VFS ---------------------------------------------------------------------------------------------- */

static inline int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
    struct fault_file *file = (struct fault_file *)(void *)f;
    sqlite3_vfs *real = vfs->pAppData;

    file->real = (sqlite3_file *)(void *)(file + 1);
    file->real->pMethods = NULL;
    file->base.pMethods = NULL;
    if (fault_hits(FAULT_OPEN))
        return SQLITE_CANTOPEN;
    const int rc = real->xOpen(real, name, file->real, flags, out_flags);
    file->base.pMethods = file->real->pMethods != NULL ? &fault_methods : NULL;
    return rc;
}

static inline int fault_delete(sqlite3_vfs *vfs, const char *name, int must_sync)
{
    sqlite3_vfs *real = vfs->pAppData;

    return real->xDelete(real, name, must_sync);
}

static inline int fault_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    sqlite3_vfs *real = vfs->pAppData;

    return real->xAccess(real, name, flags, out);
}

static inline int fault_full_path(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
    sqlite3_vfs *real = vfs->pAppData;

    return real->xFullPathname(real, name, n, out);
}

/* Once a process (a case of libcheck is one), before anything is opened. */
static inline void fault_vfs_install(void)
{
    static sqlite3_vfs vfs;
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);

    vfs = *real;
    vfs.zName = "fault";
    vfs.pAppData = real;
    vfs.szOsFile = (int)sizeof(struct fault_file) + real->szOsFile;
    vfs.xOpen = fault_open;
    vfs.xDelete = fault_delete;
    vfs.xAccess = fault_access;
    vfs.xFullPathname = fault_full_path;
    ck_assert_int_eq(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

#endif
