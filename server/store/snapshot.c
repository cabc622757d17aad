/* Snapshot files: see snapshot.h; the format byte by byte is in schema/snapshot.md.
 *
 * A snapshot is a cache of the log, so the worst that a bad one may do is cost a fold from the beginning: every
 * byte is under a checksum, and whatever does not fit to the last byte is refused. The checksum (FNV-1a, 64 bits)
 * finds damage, not malice: each step is a bijection of the state, so one changed byte always shows, and
 * anything else with probability 1 - 2^-64. Cost: about 1 ns per byte, and two fsyncs.
 *
 * Order: temporary name, fsync, rename, fsync of the directory. Without the first fsync a power cut may leave the new
 * name with old or no contents; without the second, the old snapshot, which is merely older.
 *
 * Nothing here knows what the body says: recover.c and the engine do. A tenant's snapshot is written by one
 * thread at a time (saving.c), and read at the start only. */
#include "store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/hash.h"
#include "store/sqlite_util.h"

#define HEADER_BYTES 48u
#define VERSION 1u
#define SYNC_BYTES (2u << 20)

static const unsigned char magic[8] = {'l', 'a', 'p', 'l', 's', 'n', 'a', 'p'};

/* The low n bytes of value, lowest first, whatever the machine. */
static void put(unsigned char *at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* The inverse of put. */
static uint64_t get(const unsigned char *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* -1, with the file's name before the reason. The errno of the moment is turned into text by the caller, before
 * anything else can change it. */
static int fail(struct ld_message *why, const char *path, const char *what)
{
    return ld_fail(why, "%s: %s", path, what);
}

/* --- writing ----------------------------------------------------------------------------------------- */

/* The header's own checksum comes last and covers all before it. Offsets are those of the table in
 * schema/snapshot.md. */
static void make_header(unsigned char *h, uint64_t seq, const void *body, size_t n)
{
    memcpy(h, magic, sizeof magic);
    put(h + 8, VERSION, 4);
    put(h + 12, HEADER_BYTES, 4);
    put(h + 16, seq, 8);
    put(h + 24, n, 8);
    put(h + 32, kb_hash_bytes(KB_HASH_INIT, body, n), 8);
    put(h + 40, kb_hash_bytes(KB_HASH_INIT, h, 40), 8);
}

/* Synced as it goes: a commit of the log that falls in between then waits for one such piece at the disk, not for all.
 */
static int write_synced(int fd, const unsigned char *body, size_t n)
{
    int rc = 0;
    for (size_t at = 0; at < n && rc == 0; at += SYNC_BYTES) {
        rc = ld_write_all(fd, body + at, n - at < SYNC_BYTES ? n - at : SYNC_BYTES);
        if (rc == 0)
            rc = fdatasync(fd);
    }
    return rc;
}

/* The whole file under its temporary name, on the disk, for its owner alone to read. What a death has left under that
 * name goes first, unread: it may be anything. The errno of the first failure survives the close, which may
 * fail by itself on network file systems. */
static int write_file(const char *name, uint64_t seq, const void *body, size_t n)
{
    unsigned char header[HEADER_BYTES];
    int fd = -1;
    if (unlink(name) == 0 || errno == ENOENT)
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    make_header(header, seq, body, n);
    int rc = ld_write_all(fd, header, sizeof header);
    if (rc == 0)
        rc = write_synced(fd, body, n);
    if (rc == 0)
        rc = fsync(fd);
    int error = errno;
    if (close(fd) != 0 && rc == 0) {
        error = errno;
        rc = -1;
    }
    errno = error;
    return rc;
}

/* On failure the old snapshot is still there, and the temporary file is gone unless the process dies. Blocks for as
 * long as the disk takes for n bytes. */
int ld_snapshot_write(const char *path, uint64_t seq, const void *body, size_t n, struct ld_message *why)
{
    char name[4096];
    int length = snprintf(name, sizeof name, "%s.tmp", path);
    if (length < 0 || (size_t)length >= sizeof name)
        return fail(why, path, "the name is too long");
    int rc = write_file(name, seq, body, n);
    ld_failpoint("mid_snapshot");
    if (rc == 0)
        rc = rename(name, path);
    if (rc == 0)
        rc = ld_sync_directory_of(path);
    if (rc == 0)
        return 0;
    /* unlink may change errno. */
    int error = errno;
    (void)unlink(name);
    return fail(why, path, strerror(error));
}

/* --- reading ----------------------------------------------------------------------------------------- */

/* The file may shrink between fstat and read: that is a failure, not an endless loop. 0 bytes from read(2) is the end
 * of the file. */
static int read_all(int fd, void *data, size_t n)
{
    unsigned char *at = data;
    while (n > 0) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

/* NULL when the header is one that this program wrote, for a file of this size. The checksum is looked at before the
 * version: of a damaged header no field says anything. */
static const char *judge_header(const unsigned char *h, uint64_t size)
{
    if (memcmp(h, magic, sizeof magic) != 0)
        return "not a snapshot";
    if (get(h + 40, 8) != kb_hash_bytes(KB_HASH_INIT, h, 40))
        return "the header is damaged";
    if (get(h + 8, 4) != VERSION || get(h + 12, 4) != HEADER_BYTES)
        return "another version of the format";
    /* size is at least HEADER_BYTES here: the caller has read that many. */
    if (get(h + 24, 8) != size - HEADER_BYTES)
        return "the length is not that of the body";
    return NULL;
}

/* body is filled, or NULL and the fault returned. A body of 0 bytes gets a block of 1, so that NULL means failure. */
static const char *read_body(int fd, const unsigned char *header, void **body, size_t n)
{
    const char *fault = NULL;
    unsigned char *data = malloc(n > 0 ? n : 1);
    if (data == NULL)
        fault = "out of memory";
    else if (read_all(fd, data, n) != 0)
        fault = "cannot be read to its end";
    else if (get(header + 32, 8) != kb_hash_bytes(KB_HASH_INIT, data, n))
        fault = "the body is damaged";
    if (fault != NULL) {
        free(data);
        data = NULL;
    }
    *body = data;
    return fault;
}

/* The length is compared with the file's own before a byte of memory is asked for, so damage cannot make it ask for
 * much. No file is no failure: a tenant that has never been snapshotted is folded from its log. Faults are static
 * texts. */
int ld_snapshot_read(const char *path, uint64_t *seq, void **body, size_t *n, struct ld_message *why)
{
    unsigned char header[HEADER_BYTES];
    struct stat st;
    const char *fault = NULL;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC); /* a pipe is not waited for */
    /* Any other failure to open is told: a snapshot that is there and unreadable is worth a warning. */
    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0)
        return fail(why, path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)HEADER_BYTES ||
        read_all(fd, header, sizeof header) != 0)
        fault = "too short";
    else
        fault = judge_header(header, (uint64_t)st.st_size);
    if (fault == NULL) {
        *n = (size_t)st.st_size - HEADER_BYTES;
        *seq = get(header + 16, 8);
        fault = read_body(fd, header, body, *n);
    }
    (void)close(fd);
    return fault == NULL ? 0 : fail(why, path, fault);
}
