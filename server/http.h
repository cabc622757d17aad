/* HTTP server: libmicrohttpd (owner: http.c) with its own epoll threads; requests and responses as plain structs.
 * A handler either answers at once (ld_reply_*) or submits work and returns; the connection is then suspended until
 * ld_reply_* is called from another thread. Exactly one reply per request. */
#ifndef LD_HTTP_H
#define LD_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "problem.h"

struct ld_http;
struct ld_request; /* one request in progress */

struct ld_http_options {
    const char *host; /* numeric address */
    int port;         /* 0: any free port */
    unsigned threads;
    size_t max_body;        /* bytes, ordinary routes */
    size_t max_bulk_body;   /* graph, arms, NDJSON */
    unsigned timeout_s;     /* idle connections */
    unsigned max_connections;
};

/* `handle` is called once the body is complete (or was refused: then a 413 has been sent already). */
int ld_http_start(struct ld_http **out, const struct ld_http_options *o, void (*handle)(void *arg, struct ld_request *r),
                  size_t (*body_limit)(void *arg, const struct ld_request *r), void *arg, char *why);
int ld_http_port(const struct ld_http *h);
void ld_http_quiesce(struct ld_http *h); /* stops listening; open connections finish their request, then close */
size_t ld_http_in_flight(const struct ld_http *h);
void ld_http_stop(struct ld_http *h);

const char *ld_request_method(const struct ld_request *r);
const char *ld_request_path(const struct ld_request *r);                     /* percent-decoded */
const char *ld_request_header(const struct ld_request *r, const char *name); /* NULL when absent */
const char *ld_request_query(const struct ld_request *r, const char *name);
const char *ld_request_body(const struct ld_request *r, size_t *n);
void ld_request_set_route(struct ld_request *r, int route); /* for metrics */

/* `text` is malloc'd and taken over; NULL text = empty body. content_type is static. */
void ld_reply(struct ld_request *r, int status, const char *content_type, char *text, size_t n);
void ld_reply_problem(struct ld_request *r, const struct ld_problem *p);
void ld_reply_allow(struct ld_request *r, const char *allow); /* 405 */

#endif
