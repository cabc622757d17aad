/* HTTP server: requests and responses as plain structs, over libmicrohttpd (owners: the http*.c files). Its daemons run
 * in threads of ours, round by round (http_lane.c); with TLS in threads of the library. A handler either answers at
 * once (ld_reply_*) or submits work and returns; the connection then waits, at the cost of no thread, until another one
 * replies or leaves the reply to it. Exactly one reply per request. */
#ifndef LD_HTTP_H
#define LD_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"
#include "base/problem.h"

struct ld_http;
struct ld_tls;
struct ld_request; /* one request in progress */
struct ld_metrics;
struct ld_trace;

#define LD_PEER_BYTES 64 /* [IPv6 address]:port, with the NUL */

/* Limits that may change while it runs; 0: none. */
struct ld_http_limits {
    unsigned timeout_s; /* of connections without a request */
    unsigned head_timeout_s;
    unsigned body_timeout_s; /* for min_rate times as many bytes of a body or an answer */
    unsigned min_rate;
};

/* How much memory the bodies of all requests may take together. Each has its first bytes free, so that the bodies of
 * decisions and rewards are never refused for the sake of somebody's graph: those are bounded by the number of
 * connections. What goes beyond them is taken from one budget as it arrives, and given back when the request is over.
 */
#define LD_BODY_FREE_BYTES ((size_t)64 << 10)

struct ld_body_memory {
    atomic_size_t max; /* 0: no limit */
    atomic_size_t used;
};

struct ld_http_options {
    struct ld_tls *tls; /* NULL: plain HTTP; else outlives the server */
    const char *host;   /* numeric address */
    int port;           /* 0: any free port */
    int listen_fd;      /* a socket that listens there already, ours from here on; 0: there is none */
    unsigned threads;
    struct ld_http_limits limits;
    size_t max_head; /* bytes of a request line with its headers */
    unsigned max_connections;
    unsigned max_per_address;           /* 0: none */
    const char *answer_dir;             /* where long answers wait for clients that read slowly; NULL: in memory */
    struct ld_body_memory *body_memory; /* of all requests together; outlives their last reply. NULL: no bound */
    struct ld_metrics *metrics;         /* may be NULL */
};

struct ld_header {
    const char *name, *value;
};

/* What became of a request. */
struct ld_outcome {
    int status;           /* 0: the client left before it was answered */
    int64_t us;           /* since its headers were read */
    uint64_t n_in, n_out; /* bytes of the bodies */
};

struct ld_http_hooks {
    /* First letters, small, of headers by which a request is odd unless HTTP reads them itself: ld_request_is_odd. May
     * be NULL. */
    const char *odd;
    /* Memory that each request has for them (ld_request_context), zeroed at first. */
    size_t n_context;
    /* Called with the headers, before the body: returns how many bytes of body are taken. It may refuse by a reply of
     * its own (ld_reply_*, in this thread); the body is then discarded and `handle` not called. */
    size_t (*admit)(void *arg, struct ld_request *r);
    /* Called once the body is complete. */
    void (*handle)(void *arg, struct ld_request *r);
    /* Called when the answer goes out, in the library's thread: one more header, whose value lasts as the context does,
     * unless the answer has it; false: none. May be NULL. */
    bool (*mark)(void *arg, struct ld_request *r, struct ld_header *out);
    /* Called when it is over: answered, or its client gone. In the library's thread; may be NULL. */
    void (*completed)(void *arg, const struct ld_request *r, const struct ld_outcome *o);
    void *arg;
};

/* 0, or -1 with why. */
int ld_http_start(struct ld_http **out, const struct ld_http_options *o, const struct ld_http_hooks *hooks,
                  struct ld_message *why);
int ld_http_port(const struct ld_http *h);

/* Other limits, for what connections are at already, too. From any thread. */
void ld_http_set_limits(struct ld_http *h, const struct ld_http_limits *limits);

/* Stops listening; open connections finish the request they have, told "Connection: close". */
void ld_http_quiesce(struct ld_http *h);
/* Every 250 ms: ends connections whose time is up, and those whose client left in the middle of a body. */
void ld_http_sweep(struct ld_http *h);
size_t ld_http_in_flight(const struct ld_http *h); /* from the headers read to the last byte sent */

/* Ends all connections and threads. Requests still waiting for their reply are answered 503; replies that come later
 * are dropped. */
void ld_http_stop(struct ld_http *h);

/* What a request says; borrowed until its reply. */
const char *ld_request_method(const struct ld_request *r);
const char *ld_request_path(const struct ld_request *r); /* decoded, but for %2F and %25: segments are as they came */
const char *ld_request_header(const struct ld_request *r, const char *name); /* NULL when absent */
const char *ld_request_query(const struct ld_request *r, const char *name);  /* "" without a value, NULL when absent */
/* In `admit`: look(arg, name) for each header, or for each parameter of the query, until it returns false. */
void ld_request_each_header(const struct ld_request *r, bool (*look)(void *arg, const char *name), void *arg);
void ld_request_each_parameter(const struct ld_request *r, bool (*look)(void *arg, const char *name), void *arg);
bool ld_request_is_odd(const struct ld_request *r);    /* it has a header that the hooks may have to look at */
bool ld_request_has_query(const struct ld_request *r); /* in `admit` */
/* Before the request is handed to another thread, by the one that the handler was called in: its client may leave, and
 * the connection goes with it. 0, or -1 for no memory. */
int ld_request_keep_head(struct ld_request *r);
bool ld_request_is_kept(const struct ld_request *r);                /* it has been: another thread has the request */
const char *ld_request_body(const struct ld_request *r, size_t *n); /* NUL-terminated, never NULL */

/* Its trace; and who sent it, as an address with a port. */
const struct ld_trace *ld_request_trace(const struct ld_request *r);
void ld_request_peer(const struct ld_request *r, char out[LD_PEER_BYTES]);

/* In `admit`: the body goes into a new file at path, not into memory. The file goes with the reply, unless somebody
 * has renamed it. ld_request_body tells its bytes, ld_request_body_file where it is (NULL without one). */
void ld_request_spool(struct ld_request *r, const char *path);
const char *ld_request_body_file(const struct ld_request *r);

/* In `admit`: headers that every answer to the request has, whoever gives it; borrowed until then. */
void ld_request_add_headers(struct ld_request *r, const struct ld_header *headers, size_t n);
/* In `admit`: problems are told in the form of another protocol than ours. `tell` writes the body, as JSON in memory of
 * malloc, and may change the status. */
void ld_request_tell_by(struct ld_request *r, char *(*tell)(const struct ld_request *r, const struct ld_problem *p,
                                                            const char *instance, int *status, size_t *n));

/* In `admit`: nothing that follows on the connection is read as a request. */
void ld_request_end_connection(struct ld_request *r);

/* Whether somebody has answered it already: a server that stops, to which this may come as news. What is done for it
 * from then on reaches nobody. */
bool ld_request_is_answered(const struct ld_request *r);

/* In `admit`: requests of one share take turns with those of others in the thread that serves them, a few at a time. 0,
 * which it is until set: it waits for nobody. */
void ld_request_set_share(struct ld_request *r, uint64_t share);

/* The hooks' own memory (n_context), theirs until the reply. Not read here. */
void *ld_request_context(const struct ld_request *r);

/* An answer that is there as a whole. */
struct ld_reply {
    struct ld_problem *problem; /* with a status: the answer is this alone. NULL: none */
    int status;                 /* 0: 200; 204 and 304 have no body */
    const char *content_type;   /* static; NULL: JSON */
    char *text;                 /* malloc'd and taken over; NULL: there was no memory for it, which is the answer */
    const char *constant;       /* static, in place of it */
    size_t n;
    const struct ld_header *headers; /* of a constant, a short text, or of a 204; copied */
    size_t n_headers;
};
/* A long text goes into a file; without room for that, 503 may be the answer. */
void ld_reply(struct ld_request *r, const struct ld_reply *reply);
void ld_reply_problem(struct ld_request *r, const struct ld_problem *p);
void ld_reply_status(struct ld_request *r, int status, const char *detail); /* a problem of one sentence */

/* Has then(arg) make the reply in the thread that serves the request, or in this one where that has let go of it, or
 * in the one that stops the server. */
void ld_request_reply_by(struct ld_request *r, void (*then)(void *arg), void *arg);

/* Between the two a thread's replies do not wake those that send them, one by one; then all do at once. For who gives
 * many in a row, and for as long as that takes. */
void ld_http_hold_replies(void);
void ld_http_send_replies(void);

/* An answer from a file: read as it is sent, closed when it is sent or the client is gone. done(arg) is called when its
 * last piece has been read, or the client is gone, in whatever thread that happens; it may not call back into HTTP.
 * Names and values of headers are copied; content_type is static. */
struct ld_body_file {
    const char *content_type;
    int fd; /* taken over */
    uint64_t bytes;
    const struct ld_header *headers;
    size_t n_headers;
    void (*done)(void *arg); /* may be NULL */
    void *arg;
};
void ld_reply_file(struct ld_request *r, const struct ld_body_file *file);

/* An answer of 200 in pieces, of any length and a told memory. put: 0, or -1 where there is no room: nothing of the
 * piece is in it, and what was put before may be answered. Ended by one of reply and drop; content_type is static. */
struct ld_answer {
    struct ld_request *request;
    char *text; /* behind what is in the file */
    size_t n, cap;
    int fd;
    uint64_t n_file;
};
void ld_answer_init(struct ld_answer *a, struct ld_request *r);
int ld_answer_put(struct ld_answer *a, const char *data, size_t n);
uint64_t ld_answer_bytes(const struct ld_answer *a);
void ld_answer_reply(struct ld_answer *a, const char *content_type);
void ld_answer_drop(struct ld_answer *a);

/* An answer of 200 that is written while it is sent, in chunks, by one thread of whoever answers. What is not sent yet
 * is kept in memory: who writes much asks is_sent between. `gone` is called at most once, when the client has left or
 * the server ends: from then on nothing is sent. It is called under a lock of the stream's, in whatever thread, and may
 * not call back. end: the last thing that the writer does with it; what was written is still sent, and `gone` is not
 * called any more. content_type is static. NULL without memory: the request is answered then. */
struct ld_stream;
struct ld_stream *ld_reply_stream(struct ld_request *r, const char *content_type, void (*gone)(void *arg), void *arg);
void ld_stream_write(struct ld_stream *s, const char *text, size_t n);
bool ld_stream_is_sent(struct ld_stream *s);
bool ld_stream_is_gone(struct ld_stream *s);
void ld_stream_end(struct ld_stream *s);

/* 405, or 204 to OPTIONS, with the methods in `Allow`. */
void ld_reply_allow(struct ld_request *r, int status, const char *allow);

#endif
