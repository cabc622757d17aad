/* The data folder: see folder.h. All paths are built here.
 *
 * A removal is made certain by a marker file whose directory entry is synced before anything else is touched; from
 * then on every start finishes it. File by file the marker goes last, so an interruption anywhere is only a delay.
 *
 * Failure: functions return -1 with the reason in why or in errno; nothing here ends the process. Apart from the lock
 * no state is kept, and what is done to one name never touches another's files, so calls for different names may run
 * side by side (the registry serialises those for one name). */
#include "store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/names.h"
#include "store/snapshot.h"
#include "store/sqlite_util.h"
#include "store/store_status.h"

#define ROOM_BYTES 262144u

void ld_folder_keep_private(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && (st.st_mode & 077) != 0)
        (void)chmod(path, st.st_mode & 0700);
}

/* Readable by the owner alone: logs hold what users did. Parents are not made: a mistyped path should not grow a
 * tree. All that is synced below a folder is as durable as the folder's own name. One that was there may be of a start
 * that died here, so its name is synced as well; a parent that cannot be opened is then no reason to refuse. */
static int make_dir(const char *path, struct ld_message *why)
{
    const bool is_new = mkdir(path, 0700) == 0, is_there = is_new || errno == EEXIST;

    if (is_there && (ld_sync_directory_of(path) == 0 || !is_new))
        return 0;
    ld_fail(why, "%.400s: %s", path, strerror(errno));
    if (is_new)
        (void)rmdir(path);
    return -1;
}

/* The lock belongs to the open file, so it goes with the process however that ends; the file itself stays. A second
 * server would append events with the same numbers. flock, not fcntl: the latter would be lost when any descriptor of
 * the file is closed. On network file systems it is as good as the server's support for it. */
static int lock_folder(const char *data_dir, int *fd, struct ld_message *why)
{
    char path[LD_PATH_MAX];

    snprintf(path, sizeof path, "%s/lock", data_dir);
    *fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0) {
        ld_folder_keep_private(path);
        return 0;
    }
    ld_fail(why, "%.400s: %s", path, errno == EWOULDBLOCK ? "another server uses this data folder" : strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return -1;
}

/* Order matters: nothing below the folder is touched before the lock is held. 128 bytes are kept free for what is
 * added to the path: a name, a suffix, and what SQLite appends. */
int ld_folder_open(const char *data_dir, int *fd, struct ld_message *why)
{
    char path[LD_PATH_MAX];

    if (strlen(data_dir) > LD_PATH_MAX - 128)
        return ld_fail(why, "the data folder's path is too long");
    snprintf(path, sizeof path, "%s/tenants", data_dir);
    if (make_dir(data_dir, why) != 0 || lock_folder(data_dir, fd, why) != 0 || make_dir(path, why) != 0)
        return -1;
    ld_folder_keep_private(path);
    return 0;
}

/* Without a lock file no server was ever here; the folder itself is then what is held. */
int ld_folder_open_readonly(const char *data_dir, int *fd, struct ld_message *why)
{
    char path[LD_PATH_MAX];

    snprintf(path, sizeof path, "%s/lock", data_dir);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        *fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0 && flock(*fd, LOCK_SH | LOCK_NB) == 0)
        return 0;
    ld_fail(why, "%.400s: %s", data_dir, errno == EWOULDBLOCK ? "a server uses this data folder" : strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return -1;
}

/* Names are checked where they enter (ld_tenant_name_is_valid); none of them can leave the folder. The path is not
 * looked at: it may or may not exist. */
int ld_folder_path(const char *data_dir, const char *name, const char *suffix, char *path)
{
    const int n = snprintf(path, LD_PATH_MAX, "%s/tenants/%s%s", data_dir, name, suffix);

    return n > 0 && n < LD_PATH_MAX ? 0 : -1;
}

/* The marker counts as well: while a removal is under way, a new tenant of that name would lose its files to it. A
 * snapshot alone does not count, since it says nothing without its log. */
bool ld_folder_has(const char *data_dir, const char *name)
{
    static const char *const suffixes[] = {".db", ".db.deleted"};
    char path[LD_PATH_MAX];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (ld_folder_path(data_dir, name, suffixes[i], path) == 0 && access(path, F_OK) == 0)
            return true;
    return false;
}

/* Makes the entries of DATA/tenants durable: a new file's own fsync does not cover its name. */
static int sync_folder(const char *data_dir)
{
    char path[LD_PATH_MAX];
    int fd, rc;

    snprintf(path, sizeof path, "%s/tenants", data_dir);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd >= 0 ? fsync(fd) : -1;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* What a deletion has left of the name goes first: a write-ahead log must not be replayed into another database. The
 * log comes last, as it goes last: a snapshot alone says nothing. */
int ld_folder_place(const char *data_dir, const char *name, const char *file, const char *snapshot)
{
    char path[LD_PATH_MAX];

    ld_folder_remove(data_dir, name);
    if (ld_folder_path(data_dir, name, ".snapshot", path) != 0 || (rename(snapshot, path) != 0 && errno != ENOENT))
        return -1;
    if (ld_folder_path(data_dir, name, ".db", path) == 0 && rename(file, path) == 0 && sync_folder(data_dir) == 0)
        return 0;
    const int error = errno;
    ld_folder_remove(data_dir, name);
    errno = error;
    return -1;
}

/* A write-ahead log belongs to the old file, and is in it when it was closed well: else nothing is done. Between the
 * two names there is no snapshot, which a start does without. A line that no fold took was the old log's. */
int ld_folder_replace(const char *data_dir, const char *name, const char *file, const char *snapshot)
{
    char path[LD_PATH_MAX], wal[LD_PATH_MAX];
    struct stat st;

    if (ld_folder_path(data_dir, name, ".db-wal", wal) != 0 || ld_folder_path(data_dir, name, ".snapshot", path) != 0)
        return -1;
    if (stat(wal, &st) == 0 && st.st_size > 0) {
        errno = EBUSY;
        return -1;
    }
    if (unlink(path) != 0 && errno != ENOENT)
        return -1;
    if (ld_folder_path(data_dir, name, ".db", path) != 0 || sync_folder(data_dir) != 0 || rename(file, path) != 0)
        return -1;
    const bool is_whole = ld_folder_path(data_dir, name, LD_READ_ONLY_SUFFIX, path) == 0 &&
                          (unlink(path) == 0 || errno == ENOENT) && sync_folder(data_dir) == 0;
    (void)ld_folder_path(data_dir, name, ".snapshot", path);
    (void)rename(snapshot, path);
    return is_whole ? 0 : 1;
}

/* Doing it twice is fine. After 0 the tenant is gone for every later start, whatever happens to this one. The marker
 * is empty: its name says all. A failure before the sync may still leave it there, and the next start would finish a
 * removal that this one has refused. */
int ld_folder_mark_deleted(const char *data_dir, const char *name)
{
    char path[LD_PATH_MAX];
    int fd;

    if (ld_folder_path(data_dir, name, ".db.deleted", path) != 0)
        return -1;
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    return sync_folder(data_dir);
}

/* One file. What cannot be removed is logged. */
static void remove_file(const char *data_dir, const char *name, const char *suffix)
{
    char path[LD_PATH_MAX];

    if (ld_folder_path(data_dir, name, suffix, path) == 0 && unlink(path) != 0 && errno != ENOENT)
        ld_log(LD_LOG_WARN, "%s: %s", path, strerror(errno));
}

int ld_folder_forget_snapshot(const char *data_dir, const char *name)
{
    remove_file(data_dir, name, ".snapshot");
    return sync_folder(data_dir);
}

int ld_folder_forget_read_only(const char *data_dir, const char *name)
{
    char path[LD_PATH_MAX];

    if (ld_folder_path(data_dir, name, LD_READ_ONLY_SUFFIX, path) != 0)
        return -1;
    if (unlink(path) != 0)
        return errno == ENOENT ? 0 : -1;
    return sync_folder(data_dir);
}

/* The log after everything that is only a copy of it. */
void ld_folder_remove_copy(const char *data_dir, const char *name)
{
    static const char *const suffixes[] = {".snapshot", ".snapshot.tmp", ".db-wal", ".db-shm", ".db-journal", ".db"};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        remove_file(data_dir, name, suffixes[i]);
}

/* Whether the file has lines that a rewind of the tenant's copy has kept: behind the tenant's name there is nothing but
 * numbers, so that it is not one of a tenant whose name begins alike. */
static bool has_lost_lines(const char *file, const char *name)
{
    const size_t n = strlen(name), n_lost = strlen(LD_FOLDER_LOST);

    if (strncmp(file, name, n) != 0 || strncmp(file + n, LD_FOLDER_LOST, n_lost) != 0)
        return false;
    const char *rest = file + n + n_lost + strspn(file + n + n_lost, "0123456789-");
    return *rest == '\0' || strcmp(rest, ".tmp") == 0;
}

static void remove_lost_lines(const char *data_dir, const char *name)
{
    char path[LD_PATH_MAX];

    snprintf(path, sizeof path, "%s/tenants", data_dir);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir))
        if (has_lost_lines(item->d_name, name))
            remove_file(data_dir, item->d_name, "");
    closedir(dir);
}

/* In this order: that it is read-only, what ld_folder_remove_copy has, the marker when nothing else is left, for
 * certain: a log that a power cut brings back without its marker would be a tenant again. A marker that stays has the
 * next start remove what is left. Without a marker a copy is only made anew, and what it has kept of lost lines stays.
 */
void ld_folder_remove(const char *data_dir, const char *name)
{
    char path[LD_PATH_MAX];

    remove_file(data_dir, name, LD_READ_ONLY_SUFFIX);
    remove_file(data_dir, name, LD_READ_ONLY_SUFFIX ".tmp");
    ld_folder_remove_copy(data_dir, name);
    if (ld_folder_path(data_dir, name, ".db.deleted", path) != 0 || access(path, F_OK) != 0)
        return;
    remove_lost_lines(data_dir, name);
    if (sync_folder(data_dir) == 0)
        remove_file(data_dir, name, ".db.deleted");
    else
        ld_log(LD_LOG_WARN, "%s stays: %s", path, strerror(errno));
}

/* The tenant's name when file is a valid name with the suffix. Files of other programs, and the temporary ones of
 * ours, do not end this way or make no valid name. */
static bool name_of(const char *file, const char *suffix, char *name)
{
    const size_t n = strlen(file), n_suffix = strlen(suffix);

    if (n <= n_suffix || n - n_suffix > LD_NAME_MAX || strcmp(file + n - n_suffix, suffix) != 0)
        return false;
    memcpy(name, file, n - n_suffix);
    name[n - n_suffix] = '\0';
    return ld_tenant_name_is_valid(name) != 0;
}

/* Order is the file system's; callers that need another sort for themselves. Other files are passed over in silence.
 * fn may remove files of the name that it is given: readdir then goes on with the others. */
int ld_folder_scan(const char *data_dir, const char *suffix, int (*fn)(void *arg, const char *name), void *arg)
{
    char path[LD_PATH_MAX], name[LD_NAME_MAX + 1];
    int rc = 0;
    DIR *dir;

    snprintf(path, sizeof path, "%s/tenants", data_dir);
    dir = opendir(path);
    if (dir == NULL)
        return -1;
    for (struct dirent *item = readdir(dir); rc == 0 && item != NULL; item = readdir(dir))
        if (name_of(item->d_name, suffix, name))
            rc = fn(arg, name);
    closedir(dir);
    return rc;
}

/* For ld_folder_scan: stops it at the file of any other tenant than arg's. */
static int is_other(void *arg, const char *name)
{
    return strcmp(name, arg) != 0;
}

/* A folder that cannot be read counts as one with others in it. */
bool ld_folder_has_others(const char *data_dir, const char *name)
{
    char copy[LD_NAME_MAX + 1];

    snprintf(copy, sizeof copy, "%s", name);
    return ld_folder_scan(data_dir, ".db", is_other, copy) != 0 ||
           ld_folder_scan(data_dir, ".db.deleted", is_other, copy) != 0;
}

/* Room for who is not root, and a file or two. A folder that is not there has none. */
bool ld_folder_has_room(const char *data_dir)
{
    struct statvfs disk;

    if (statvfs(data_dir, &disk) != 0)
        return false;
    return disk.f_bavail * disk.f_frsize >= ROOM_BYTES && (disk.f_files == 0 || disk.f_favail > 1);
}

int ld_quarantine(const char *data_dir, const char *name, uint64_t *seq, struct ld_message *why)
{
    char path[LD_PATH_MAX];
    struct ld_message fault;
    void *body = NULL;
    size_t n = 0;

    *seq = 0;
    why->text[0] = '\0';
    if (ld_folder_path(data_dir, name, LD_READ_ONLY_SUFFIX, path) != 0)
        return LD_STORE_IO;
    const int found = ld_snapshot_read(path, seq, &body, &n, &fault);
    if (found == 0)
        ld_fail(why, "%.*s", (int)(n < 511 ? n : 511), (const char *)body);
    else if (found != 1)
        ld_fail(why, "%.200s: %.300s", path, fault.text);
    free(body);
    return found == 0 || found == 1 ? LD_STORE_OK : LD_STORE_CORRUPT;
}
