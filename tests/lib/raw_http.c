/* See raw_http.h. One byte per read while looking for the end of the head: slow, and it never reads into the next
 * response of a pipeline. */
#include "raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int kbt_connect_host(const char *host, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    bool is_v6 = strchr(host, ':') != NULL;
    const struct timeval patience = {.tv_sec = 5};
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (fd < 0 ||
        inet_pton(is_v6 ? AF_INET6 : AF_INET, host, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr) != 1)
        abort();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int rc = is_v6 ? connect(fd, (struct sockaddr *)&v6, sizeof v6) : connect(fd, (struct sockaddr *)&v4, sizeof v4);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

int kbt_connect(int port)
{
    return kbt_connect_host("127.0.0.1", port);
}

int kbt_get(int port, const char *path)
{
    char text[128];
    const int fd = kbt_connect(port);
    if (fd < 0 || snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) >= (int)sizeof text)
        abort();
    kbt_send(fd, text);
    return fd;
}

void kbt_pause_ms(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

void kbt_send_bytes(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done <= 0)
            return; /* the other side left: the test sees it in what it receives */
        p += done;
        n -= (size_t)done;
    }
}

void kbt_send(int fd, const char *text)
{
    kbt_send_bytes(fd, text, strlen(text));
}

void kbt_receive_head(int fd, struct kbt_response *out)
{
    size_t n = 0;
    memset(out, 0, sizeof *out);
    while (n + 1 < sizeof out->head && recv(fd, out->head + n, 1, 0) == 1) {
        n++;
        if (n >= 4 && memcmp(out->head + n - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    if (sscanf(out->head, "HTTP/1.1 %d", &out->status) != 1)
        out->status = 0;
}

/* Start of the header's value in the head, or NULL. */
static const char *find_header(const struct kbt_response *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(r->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " ");
    }
    return NULL;
}

void kbt_receive(int fd, struct kbt_response *out)
{
    kbt_receive_head(fd, out);
    const char *length = find_header(out, "Content-Length");
    size_t n = length != NULL ? strtoul(length, NULL, 10) : 0;
    if (n >= sizeof out->body)
        abort(); /* a test must not ask for so much */
    while (out->n_body < n) {
        ssize_t got = recv(fd, out->body + out->n_body, n - out->n_body, 0);
        if (got <= 0)
            break;
        out->n_body += (size_t)got;
    }
}

bool kbt_has_header(const struct kbt_response *r, const char *name, const char *value)
{
    const char *found = find_header(r, name);
    size_t n = strlen(value);
    return found != NULL && strncmp(found, value, n) == 0 && found[n] == '\r';
}

bool kbt_is_closed(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&p, 1, ms) == 1 && recv(fd, &byte, 1, 0) <= 0;
}
