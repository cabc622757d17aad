/* The protocol is an interface that systemd promises to keep, and small: a datagram. libsystemd would bring a library
 * of 800 kB, and those that it loads, into every process for it (docs/decisions/0029-operation.md).
 *
 * Messages that are sent, and when, stand where they are sent (app.c). A process that corrects its BLAS core by running
 * itself again keeps its id and its environment, so NOTIFY_SOCKET and WATCHDOG_PID mean the same to it. */
#include "app/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A path, or with @ in front a name in the kernel's own space. Whether it fits. */
static int set_address(struct ld_notify *n, const char *path)
{
    const size_t length = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || length < 2 || length >= sizeof n->to.sun_path)
        return -1;
    memset(&n->to, 0, sizeof n->to);
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, path, length);
    if (path[0] == '@')
        n->to.sun_path[0] = '\0';
    n->n_to = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 0;
}

/* Meant for this process, unless it names another one. */
static int64_t watchdog_us(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (us == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoll(us, NULL, 10);
}

/* A manager that does not read its messages may cost a second each, not the loop. */
void ld_notify_open(struct ld_notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const struct timeval patience = {.tv_sec = 1};

    n->fd = -1;
    n->watchdog_us = 0;
    if (path == NULL || set_address(n, path) != 0)
        return;
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0)
        return;
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    n->watchdog_us = watchdog_us();
}

void ld_notify_close(struct ld_notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void ld_notify(const struct ld_notify *n, const char *fmt, ...)
{
    char text[512];
    va_list args;

    if (n->fd < 0)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)sendto(n->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->n_to);
}
