/* Where lines of the log go: stderr, without ever waiting for whoever reads it.
 *
 *   a pipe, a terminal   opened once more through /proc, so that "do not wait" is a property of this opening alone and
 *                        not of the one that is shared with the shell that started us; where that is not to be had,
 *                        asked for room before each line
 *   a socket             (a journal's) told so with each line
 *   a file               takes what it is given
 *
 * A line leaves in one write(2), which the kernel does not interleave with that of another process on a pipe (up to
 * PIPE_BUF), a terminal or an appended file. */
#include "base/log_out.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum way { WAY_PLAIN, WAY_ASKING, WAY_SOCKET };

static int fd = STDERR_FILENO;
static enum way way = WAY_PLAIN;
static bool is_cut; /* the last line went out in part */

bool ld_log_out_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;
    return stream != NULL && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == dev && st.st_ino == ino;
}

void ld_log_out_open(void)
{
    struct stat st;
    if (fstat(STDERR_FILENO, &st) != 0 || S_ISREG(st.st_mode))
        return;
    if (S_ISSOCK(st.st_mode)) {
        way = WAY_SOCKET;
        return;
    }
    const int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0)
        fd = own;
    else
        way = WAY_ASKING;
}

static ssize_t send_line(const char *line, size_t n)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (way == WAY_SOCKET)
        return send(fd, line, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (way == WAY_ASKING && (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0))
        return -1;
    return write(fd, line, n);
}

/* An interrupted write counts as an error, too. What was cut off is ended before the next line, so that one broken line
 * does not spoil two. */
bool ld_log_out_write(const char *line, size_t n)
{
    if (is_cut && send_line("\n", 1) != 1)
        return false;
    is_cut = false;
    const ssize_t done = send_line(line, n);
    is_cut = done > 0 && (size_t)done < n;
    return done == (ssize_t)n;
}
