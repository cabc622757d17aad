/* What http.c and http_reply.c share about a request. Nobody else includes this.
 *
 * Life of a request: the library's thread creates it with the headers, collects the body, hands it to the handler and
 * queues the response; some thread replies once. Two references keep it: one of the connection (dropped when the
 * library reports the request completed, whatever became of the client), one of the handler (dropped by its reply).
 *
 *   state    who moves it                        meaning
 *   RUNNING  created so                          the library's thread is inside our callback, or reading the body
 *   SUSPENDED the library's thread               it waits for the reply; whoever replies resumes it
 *   REPLIED  the one who claimed the reply       response and status are set */
#ifndef LD_HTTP_INTERNAL_H
#define LD_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "http.h"
#include "trace.h"

enum request_state { REQUEST_RUNNING, REQUEST_SUSPENDED, REQUEST_REPLIED };

/* One server. Fields that neither the lock guards nor are atomic do not change once the daemon runs. */
struct ld_http {
    struct MHD_Daemon *daemon;
    struct ld_http_hooks hooks;
    struct ld_metrics *metrics;
    atomic_uint timeout_s;
    atomic_bool is_timeout_changed; /* the library's own is that of the start */
    int port;
    int listen_fd; /* the library's, which closes it at the end */
    atomic_bool is_quiescing;
    atomic_size_t n_in_flight;
    atomic_size_t n_suspended;
    pthread_mutex_t lock;      /* guards the list and is_stopping */
    struct ld_request *newest; /* all requests not yet completed */
    bool is_stopping;
};

/* One request. Until it is handed over it belongs to the library's thread; then status and response belong to whoever
 * claims the reply, until the state is REPLIED, and to the library's thread again afterwards. */
struct ld_request {
    struct ld_http *http;
    struct MHD_Connection *connection;
    struct ld_request *older, *newer; /* by http->lock */
    atomic_int refs, state;
    atomic_bool is_claimed; /* somebody replies */
    bool is_handed;         /* the handler holds a reference */
    bool is_discarding;     /* the rest of the body is read and thrown away: the reply stands already */
    int n_seen_closed;      /* by ld_http_drop_vanished */
    int route, status;
    struct ld_caller caller;
    void *context;
    int64_t started_us;
    struct ld_trace trace;
    uint64_t n_answer; /* bytes of the response's body */
    struct MHD_Response *response;
    char *body; /* NULL until the first byte */
    size_t n_body, cap, limit, n_received;
    size_t n_wanted; /* of n_received: before the rest was refused */
    char *spool;     /* path of the body's file, NULL: in memory */
    int spool_fd;    /* -1 until the first byte */
    char *path;      /* behind the method in `text` */
    char method[];   /* then path */
};

void ld_request_unref(struct ld_request *r);

/* Answers 503 in place of a handler that has not replied (stopping). Its own reply will be dropped. */
void ld_request_force(struct ld_request *r);

/* http_body.c. First call of a request, with the headers: admits or refuses it. */
enum MHD_Result ld_request_begin(struct ld_request *r);

/* A piece of the body. MHD_NO ends the connection. */
enum MHD_Result ld_request_collect(struct ld_request *r, const char *data, size_t n);

/* The body's file, when there is one: complete; closed and removed. */
void ld_request_close_spool(struct ld_request *r);
void ld_request_drop_spool(struct ld_request *r);

/* Hands the response of a REPLIED request to the library. In the library's thread only. */
enum MHD_Result ld_request_queue(struct ld_request *r);

#endif
