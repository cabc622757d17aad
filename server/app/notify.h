/* What the process tells a service manager: systemd's protocol of sd_notify(3), one datagram of lines a message, to the
 * socket that NOTIFY_SOCKET names. Without one every call does nothing. */
#ifndef LD_NOTIFY_H
#define LD_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct ld_notify {
    int fd; /* -1: nobody listens */
    struct sockaddr_un to;
    socklen_t n_to;
    int64_t watchdog_us; /* the manager ends the process when it hears nothing for so long; 0: it does not look */
};

/* From the environment, which stays as it is. */
void ld_notify_open(struct ld_notify *n);
void ld_notify_close(struct ld_notify *n);

/* Lines of NAME=VALUE. What cannot be sent is lost: nobody is served worse for it. From the main thread. */
void ld_notify(const struct ld_notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
