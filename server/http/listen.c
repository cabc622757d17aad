/* Listening sockets, made here rather than by the HTTP library so that a refused address is reported with its reason
 * and a port of 0 with the port that the kernel chose.
 *
 * Names are not resolved: an address that may change its meaning between two starts is no address to check the
 * loopback rule on. SO_REUSEADDR lets a restarted server have its port back while old connections are in TIME_WAIT;
 * on Linux it does not let two servers share a port.
 *
 * A socket that a service manager keeps is taken as it is: connections wait in it from one process to the next, so a
 * restart refuses none (docs/decisions/0128-sockets-that-stay.md).
 *
 * An endpoint is a plain value, parsed when the options are checked and again when the server starts; the socket
 * belongs to whoever called ld_endpoint_listen. */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Large enough for both families; the kernel wants the length of the one that is meant. */
union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

#define FIRST_INHERITED 3 /* what sd_listen_fds(3) promises */

/* Decimal port at text, nothing behind it. -1 when malformed. Signs and blanks are refused, and with five digits atoi
 * cannot overflow. */
static int parse_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 5 || text[n] != '\0')
        return -1;
    int port = atoi(text);
    return port <= 65535 ? port : -1;
}

/* Fills *a from the endpoint; its length, or 0 when the host is not numeric. inet_pton takes no names, no scopes
 * (%eth0) and no short forms such as 127.1. */
static socklen_t make_address(const struct ld_endpoint *e, union address *a)
{
    memset(a, 0, sizeof *a);
    if (e->is_ipv6) {
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons((uint16_t)e->port);
        return inet_pton(AF_INET6, e->host, &a->v6.sin6_addr) == 1 ? (socklen_t)sizeof a->v6 : 0;
    }
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = htons((uint16_t)e->port);
    return inet_pton(AF_INET, e->host, &a->v4.sin_addr) == 1 ? (socklen_t)sizeof a->v4 : 0;
}

/* Brackets tell IPv6, whose colons would otherwise be taken for the port's. All or nothing: *out is set on success
 * only. Without brackets the last colon is the port's, so an IPv6 address without them fails as a host. The copy is
 * NUL-terminated by the zeroes of e. */
int ld_endpoint_parse(const char *text, struct ld_endpoint *out)
{
    struct ld_endpoint e = {.is_ipv6 = text[0] == '['};
    const char *host = e.is_ipv6 ? text + 1 : text;
    const char *end = e.is_ipv6 ? strchr(host, ']') : strrchr(host, ':');
    if (end == NULL || end == host || (size_t)(end - host) >= sizeof e.host)
        return -1;
    const char *colon = e.is_ipv6 ? end + 1 : end;
    if (*colon != ':')
        return -1;
    e.port = parse_port(colon + 1);
    memcpy(e.host, host, (size_t)(end - host));
    /* The one name that is taken: it means loopback wherever it is written. */
    if (strcmp(e.host, "localhost") == 0)
        strcpy(e.host, "127.0.0.1");
    union address a;
    if (e.port < 0 || make_address(&e, &a) == 0)
        return -1;
    *out = e;
    return 0;
}

/* Inverse of the parser. 80 bytes hold the longest host with brackets and port. */
void ld_endpoint_format(const struct ld_endpoint *e, char *out)
{
    snprintf(out, 80, e->is_ipv6 ? "[%s]:%d" : "%s:%d", e->host, e->port);
}

/* The rule that decides whether keys may be left out, so doubt counts as reachable. */
bool ld_endpoint_is_loopback(const struct ld_endpoint *e)
{
    union address a;
    if (make_address(e, &a) == 0)
        return false;
    if (!e->is_ipv6)
        return ntohl(a.v4.sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *ip = &a.v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

/* Reads back the port that the socket has. -1 cannot happen for a socket that listens; it would show in the line that
 * is printed. */
static int bound_port(int fd)
{
    union address a;
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.any, &n) != 0)
        return -1;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

/* Makes, binds, listens; `step` remembers where it failed. IPv6 sockets take IPv6 only: "[::]" beside "0.0.0.0" is
 * two decisions, not one. Non-blocking, since several threads wait for the same connection and only one gets it;
 * closed on exec. */
int ld_endpoint_listen(struct ld_endpoint *e, int backlog, struct ld_message *why)
{
    union address a;
    char name[80];
    int fd = -1, one = 1;
    const char *step = "address";
    socklen_t n = make_address(e, &a);
    ld_endpoint_format(e, name);
    /* What the failure of a host that is not numeric is told as; system calls set their own. */
    errno = EINVAL;
    if (n == 0)
        goto fail;
    step = "socket";
    fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        goto fail;
    step = "options";
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        (e->is_ipv6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0))
        goto fail;
    step = "bind";
    if (bind(fd, &a.any, n) != 0)
        goto fail;
    step = "listen";
    if (listen(fd, backlog) != 0)
        goto fail;
    e->port = bound_port(fd);
    return fd;
fail:
    if (errno == EADDRINUSE)
        ld_fail(why, "cannot listen on %s: the port is in use by another program", name);
    else
        ld_fail(why, "cannot listen on %s: %s: %s", name, step, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The whole number that a variable has; -1 where it is none, or is not there. */
static long number_of(const char *text)
{
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    const long n = strtol(text, &end, 10);
    return *end == '\0' && errno == 0 ? n : -1;
}

/* What keeps fd from being served, as the end of a sentence; NULL: it listens for TCP, at the address *a. */
static const char *fault_of(int fd, union address *a)
{
    int type = 0, is_listening = 0;
    socklen_t n = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0)
        return strerror(errno);
    n = sizeof *a;
    memset(a, 0, sizeof *a);
    if (type != SOCK_STREAM || getsockname(fd, &a->any, &n) != 0 ||
        (a->any.sa_family != AF_INET && a->any.sa_family != AF_INET6))
        return "it is not one of TCP (ListenStream=HOST:PORT)";
    n = sizeof is_listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &n) != 0 || !is_listening)
        return "it does not listen (Accept=no)";
    return NULL;
}

/* Its numbers as text. The kernel's addresses are shorter than an endpoint's. */
static void name_address(const union address *a, struct ld_endpoint *e)
{
    *e = (struct ld_endpoint){.is_ipv6 = a->any.sa_family == AF_INET6};
    if (e->is_ipv6)
        inet_ntop(AF_INET6, &a->v6.sin6_addr, e->host, sizeof e->host);
    else
        inet_ntop(AF_INET, &a->v4.sin_addr, e->host, sizeof e->host);
    e->port = ntohs(e->is_ipv6 ? a->v6.sin6_port : a->v4.sin_port);
}

/* What is meant for another process is not looked at: variables are passed on to children, sockets are not. The socket
 * is made non-blocking, as ours are. It outlasts an execv: the program may run itself again for other kernels. */
int ld_endpoint_inherited(struct ld_endpoint *e, int *fd, char *(*env_of)(const char *name), struct ld_message *why)
{
    union address a;
    const char *given = env_of("LISTEN_FDS");
    if (given == NULL || number_of(env_of("LISTEN_PID")) != (long)getpid())
        return 0;
    const long n = number_of(given);
    if (n < 0)
        return ld_fail(why, "LISTEN_FDS: \"%s\" is no number of sockets", given);
    if (n == 0)
        return 0;
    if (n > 1)
        return ld_fail(why, "%ld sockets were handed over: one is served (a single ListenStream= in laplaced.socket)",
                       n);
    const char *fault = fault_of(FIRST_INHERITED, &a);
    if (fault != NULL)
        return ld_fail(why, "the socket that was handed over cannot be served: %s", fault);
    const int flags = fcntl(FIRST_INHERITED, F_GETFL);
    if (flags < 0 || fcntl(FIRST_INHERITED, F_SETFL, flags | O_NONBLOCK) != 0)
        return ld_fail(why, "the socket that was handed over cannot be served: %s", strerror(errno));
    name_address(&a, e);
    *fd = FIRST_INHERITED;
    return 1;
}
