/* Addresses to listen on: numeric IPv4 and IPv6, and the sockets made of them. */
#ifndef LD_LISTEN_H
#define LD_LISTEN_H

#include <stdbool.h>

#include "base/message.h"

struct ld_endpoint {
    char host[64]; /* numeric, without brackets */
    int port;      /* 0: any free port */
    bool is_ipv6;
};

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080" (read as 127.0.0.1). 0, or -1 when malformed. */
int ld_endpoint_parse(const char *text, struct ld_endpoint *out);

/* "127.0.0.1:8080" or "[::1]:8080", for messages and URLs (buffer of at least 80). */
void ld_endpoint_format(const struct ld_endpoint *e, char *out);

/* Whether only this machine can reach the address (127.0.0.0/8, ::1, and ::ffff:127.0.0.0/104). */
bool ld_endpoint_is_loopback(const struct ld_endpoint *e);

/* A listening, non-blocking socket, the port in force in e->port; or -1 with why naming the address. */
int ld_endpoint_listen(struct ld_endpoint *e, int backlog, struct ld_message *why);

/* The socket that a service manager has made for us, if there is one (sd_listen_fds(3)): 1, with its descriptor and its
 * address; 0: there is none; -1 with why it cannot be listened on. env_of is getenv, or a test's. Called at any time,
 * it finds the same. */
int ld_endpoint_inherited(struct ld_endpoint *e, int *fd, char *(*env_of)(const char *name), struct ld_message *why);

#endif
