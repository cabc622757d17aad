/* HTTP server: libmicrohttpd (owners: http.c, http_reply.c) with its own epoll threads; requests and responses as
 * plain structs. A handler either answers at once (ld_reply_*) or submits work and returns; the connection is then
 * suspended until ld_reply_* is called from another thread. Exactly one reply per request. */
#ifndef LD_HTTP_H
#define LD_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "problem.h"

struct ld_http;
struct ld_request; /* one request in progress */
struct ld_metrics;

struct ld_http_options {
    const char *host; /* numeric address */
    int port;         /* 0: any free port */
    unsigned threads;
    unsigned timeout_s; /* idle connections */
    unsigned max_connections;
    struct ld_metrics *metrics; /* may be NULL */
};

struct ld_http_hooks {
    /* Called with the headers, before the body: returns how many bytes of body are taken. It may refuse by a reply of
     * its own (ld_reply_*, in this thread); the body is then discarded and `handle` not called. */
    size_t (*admit)(void *arg, struct ld_request *r);
    /* Called once the body is complete. */
    void (*handle)(void *arg, struct ld_request *r);
    void *arg;
};

/* 0, or -1 with why (>= 256 bytes). */
int ld_http_start(struct ld_http **out, const struct ld_http_options *o, const struct ld_http_hooks *hooks, char *why);
int ld_http_port(const struct ld_http *h);

/* Stops listening; open connections finish the request they have, told "Connection: close". */
void ld_http_quiesce(struct ld_http *h);
/* Now and then: ends requests whose client left in the middle of a body. */
void ld_http_drop_vanished(struct ld_http *h);
size_t ld_http_in_flight(const struct ld_http *h); /* from the headers read to the last byte sent */

/* Ends all connections and threads. Requests still waiting for their reply are answered 503; replies that come later
 * are dropped. */
void ld_http_stop(struct ld_http *h);

/* What a request says; borrowed until its reply. */
const char *ld_request_method(const struct ld_request *r);
const char *ld_request_path(const struct ld_request *r);                     /* percent-decoded */
const char *ld_request_header(const struct ld_request *r, const char *name); /* NULL when absent */
const char *ld_request_query(const struct ld_request *r, const char *name);  /* "" without a value, NULL when absent */
const char *ld_request_body(const struct ld_request *r, size_t *n);          /* NUL-terminated, never NULL */

/* Row of the route table, for metrics and for finding it again in `handle`; -1 until set. */
void ld_request_set_route(struct ld_request *r, int route);
int ld_request_route(const struct ld_request *r);

/* Whatever the handler's caller keeps with it; NULL until set. Not read here. */
void ld_request_set_context(struct ld_request *r, void *context);
void *ld_request_context(const struct ld_request *r);

/* `text` is malloc'd and taken over; NULL text = empty body. content_type is static, NULL when there is no body. */
void ld_reply(struct ld_request *r, int status, const char *content_type, char *text, size_t n);
void ld_reply_json(struct ld_request *r, int status, char *text, size_t n); /* NULL text: answers 503, no memory */
void ld_reply_problem(struct ld_request *r, const struct ld_problem *p);
void ld_reply_status(struct ld_request *r, int status, const char *detail); /* a problem of one sentence */
/* 405, or 204 to OPTIONS, with the methods in `Allow`. */
void ld_reply_allow(struct ld_request *r, int status, const char *allow);

#endif
