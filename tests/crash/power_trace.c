/* Writes down what a server does to its disk, for a simulator of power cuts (power_disk.py); preloaded into the server.
 *
 * Every change of files below POWER_ROOT goes into the file POWER_TRACE, in one total order with its data and the time
 * (CLOCK_MONOTONIC, by which clients know when they had read an answer). A change and its record are made under one
 * lock; a sync has two records, since what is written while it runs may not be covered by it. SIGUSR2 is a kill between
 * two records.
 *
 *   op  record                             fd      path    other        at       n        data
 *   X   a process begins
 *   O   open; at: OPEN_* flags             fd      path
 *   C   close                              fd
 *   W   write, pwrite                      fd                           offset   bytes    what was written
 *   T   ftruncate                          fd                                    new size
 *   S s a sync begins, has ended           fd                           its number
 *   R   rename                                     old     new
 *   U   unlink                                     path
 *   M   mkdir                                      path
 *
 * These are the functions that the server and SQLite call. Should one of them begin to call another, its changes would
 * be missing here: the campaign compares the replay of all records with the folder after each life of a server. The
 * index of a write-ahead log (-shm) is written in a map; no power cut leaves it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FD 65536
#define OPEN_CREATED 1
#define OPEN_TRUNCATED 2
#define OPEN_DIRECTORY 4

struct record {
    uint64_t t_ns;
    int64_t at, n;
    int32_t fd;
    uint16_t n_path, n_other;
    uint8_t op, zero[7];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char is_ours[MAX_FD];
static const char *root;
static size_t n_root;
static int out = -1;
static int64_t n_syncs;

/* The C library's own function of that name. */
#define REAL(name, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

static void put(const void *data, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    const char *at = data;

    if (real == NULL)
        real = REAL("write", ssize_t(*)(int, const void *, size_t));
    while (n > 0) {
        const ssize_t done = real(out, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            abort(); /* a trace with a hole would prove nothing */
        at += done;
        n -= (size_t)done;
    }
}

/* Lock held. */
static void record(char op, int fd, const char *path, const char *other, int64_t at, int64_t n, const void *data)
{
    const int error = errno;
    struct timespec now;
    struct record r = {.at = at, .n = n, .fd = fd, .op = (uint8_t)op};

    if (out < 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    r.t_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    r.n_path = (uint16_t)(path != NULL ? strlen(path) : 0);
    r.n_other = (uint16_t)(other != NULL ? strlen(other) : 0);
    put(&r, sizeof r);
    put(path, r.n_path);
    put(other, r.n_other);
    if (data != NULL)
        put(data, (size_t)n);
    errno = error;
}

static bool is_below(const char *path)
{
    return out >= 0 && path != NULL && strncmp(path, root, n_root) == 0 && (path[n_root] == '/' || path[n_root] == 0);
}

static bool has(int fd)
{
    return out >= 0 && fd >= 0 && fd < MAX_FD && is_ours[fd];
}

static volatile sig_atomic_t must_die;

static void note_signal(int number)
{
    (void)number;
    must_die = 1;
}

/* Dies here when it was told to: no thread is then between a change and its record. */
static void enter(void)
{
    pthread_mutex_lock(&lock);
    if (must_die)
        (void)kill(getpid(), SIGKILL);
}

static void leave(void)
{
    const int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("POWER_TRACE");

    root = getenv("POWER_ROOT");
    if (path == NULL || root == NULL)
        return;
    n_root = strlen(root);
    out = REAL("open", int (*)(const char *, int, ...))(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        abort();
    (void)signal(SIGUSR2, note_signal);
    record('X', -1, NULL, NULL, 0, 0, NULL);
}

/* ---- opening and closing -------------------------------------------------------------------------------------- */

static int open_any(const char *path, int flags, mode_t mode)
{
    static int (*real)(const char *, int, ...);
    struct stat st;

    if (real == NULL)
        real = REAL("open", int (*)(const char *, int, ...));
    if (!is_below(path))
        return real(path, flags, mode);
    enter();
    const bool was_there = stat(path, &st) == 0;
    const int fd = real(path, flags, mode);
    if (fd >= MAX_FD)
        abort();
    if (fd >= 0) {
        const bool is_dir = was_there && S_ISDIR(st.st_mode);
        is_ours[fd] = 1;
        record('O', fd, path, NULL,
               (was_there ? 0 : OPEN_CREATED) | ((flags & O_TRUNC) != 0 ? OPEN_TRUNCATED : 0) |
                   (is_dir ? OPEN_DIRECTORY : 0),
               0, NULL);
    }
    leave();
    return fd;
}

#define MODE_OF(flags, mode)                                                                                           \
    mode_t mode = 0;                                                                                                   \
    if (((flags)&O_CREAT) != 0) {                                                                                      \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode = va_arg(args, mode_t);                                                                                   \
        va_end(args);                                                                                                  \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(path, flags, mode);
}

int close(int fd)
{
    static int (*real)(int);

    if (real == NULL)
        real = REAL("close", int (*)(int));
    if (!has(fd))
        return real(fd);
    enter();
    record('C', fd, NULL, NULL, 0, 0, NULL);
    is_ours[fd] = 0;
    const int rc = real(fd);
    leave();
    return rc;
}

/* ---- contents ------------------------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);

    if (real == NULL)
        real = REAL("write", ssize_t(*)(int, const void *, size_t));
    if (!has(fd))
        return real(fd, data, n);
    enter();
    const ssize_t done = real(fd, data, n);
    if (done > 0)
        record('W', fd, NULL, NULL, lseek(fd, 0, SEEK_CUR) - done, done, data);
    leave();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);

    if (real == NULL)
        real = REAL("pwrite", ssize_t(*)(int, const void *, size_t, off_t));
    if (!has(fd))
        return real(fd, data, n, at);
    enter();
    const ssize_t done = real(fd, data, n, at);
    if (done > 0)
        record('W', fd, NULL, NULL, at, done, data);
    leave();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at)
{
    return pwrite(fd, data, n, at);
}

int ftruncate(int fd, off_t size)
{
    static int (*real)(int, off_t);

    if (real == NULL)
        real = REAL("ftruncate", int (*)(int, off_t));
    if (!has(fd))
        return real(fd, size);
    enter();
    const int rc = real(fd, size);
    if (rc == 0)
        record('T', fd, NULL, NULL, 0, size, NULL);
    leave();
    return rc;
}

int ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

/* ---- syncs ---------------------------------------------------------------------------------------------------- */

static int sync_by(int (*real)(int), int fd)
{
    if (!has(fd))
        return real(fd);
    enter();
    const int64_t number = n_syncs++;
    record('S', fd, NULL, NULL, number, 0, NULL);
    leave();
    const int rc = real(fd);
    enter();
    if (rc == 0)
        record('s', fd, NULL, NULL, number, 0, NULL);
    leave();
    return rc;
}

int fsync(int fd)
{
    static int (*real)(int);

    if (real == NULL)
        real = REAL("fsync", int (*)(int));
    return sync_by(real, fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);

    if (real == NULL)
        real = REAL("fdatasync", int (*)(int));
    return sync_by(real, fd);
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

int rename(const char *old, const char *new)
{
    enter();
    const int rc = REAL("rename", int (*)(const char *, const char *))(old, new);
    if (rc == 0 && is_below(new))
        record('R', -1, old, new, 0, 0, NULL);
    leave();
    return rc;
}

int unlink(const char *path)
{
    enter();
    const int rc = REAL("unlink", int (*)(const char *))(path);
    if (rc == 0 && is_below(path))
        record('U', -1, path, NULL, 0, 0, NULL);
    leave();
    return rc;
}

int mkdir(const char *path, mode_t mode)
{
    enter();
    const int rc = REAL("mkdir", int (*)(const char *, mode_t))(path, mode);
    if (rc == 0 && is_below(path))
        record('M', -1, path, NULL, 0, 0, NULL);
    leave();
    return rc;
}
