/* A client that speaks HTTP/1.1 byte by byte over a loopback socket, for what a proper client would never do: half a
 * body, several requests in one write, leaving before the answer. All reads give up after five seconds. */
#ifndef KBT_RAW_HTTP_H
#define KBT_RAW_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct kbt_response {
    int status;       /* 0: the connection ended before a status line */
    char head[4096];  /* status line and headers */
    char body[65536]; /* NUL-terminated */
    size_t n_body;
};

int kbt_connect(int port); /* 127.0.0.1; -1 when refused */
int kbt_connect_host(const char *host, int port);
int kbt_get(int port, const char *path); /* a connection, which must be had, on which a GET has been sent */
void kbt_send(int fd, const char *text);
void kbt_send_bytes(int fd, const void *bytes, size_t n);

/* Reads one response with a Content-Length (interim 100 answers are responses of their own). */
void kbt_receive(int fd, struct kbt_response *out);
void kbt_receive_head(int fd, struct kbt_response *out); /* of an answer to HEAD: no body follows */

/* Whether the head has the line "name: value", without regard to the case of the name. */
bool kbt_has_header(const struct kbt_response *r, const char *name, const char *value);

void kbt_pause_ms(int ms);

/* Whether the other side has closed (true) or something else came (false), waiting up to ms. */
bool kbt_is_closed(int fd, int ms);

#endif
