/* What the http*.c files share about requests and connections. Nobody else includes this.
 *
 * Life of a request: the library's thread creates it with the headers, collects the body, hands it to the handler and
 * queues the response; some thread replies once. Two references keep it: one of the connection (dropped when the
 * library reports the request completed, whatever became of the client), one of the handler (dropped by its reply).
 *
 *   state    who moves it                        meaning
 *   RUNNING  created so                          the library's thread is inside our callback, or reading the body
 *   SUSPENDED the library's thread               it waits for the reply; whoever replies resumes it
 *   LEFT     whoever leaves the reply to be made `then` is to run, by who moves it on: the connection's thread when it
 *                                                comes to it or lets go of the request, or a server that stops
 *   REPLIED  the one who claimed the reply       response and status are set
 *   OVER     the library's thread               the connection has let go of it: who comes late is alone with it */
#ifndef LD_HTTP_IMPL_H
#define LD_HTTP_IMPL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "http/http.h"
#include "base/names.h"
#include "base/trace.h"

/* Beyond --max-connections: those that gave way and are not closed yet. */
#define LD_SPARE_CONNECTIONS 256u

/* What a client does not take of an answer is to wait with us, where its time is counted, and not as megabytes in the
 * kernel, which would be there after the connection, too. How much may be on its way stays the kernel's to find out. */
#define LD_UNSENT_BYTES (128 << 10)

/* What a connection is at (http_connection.c). */
enum connection_phase { PHASE_HEAD, PHASE_BODY, PHASE_HANDLED, PHASE_ANSWER, PHASE_IDLE, PHASE_CUT, N_PHASES };

enum target_fault { TARGET_FINE, TARGET_TOO_LONG, TARGET_MALFORMED };

/* One connection: a line of the cache. The word belongs to everybody, n_received is written by the library's thread;
 * target_fault and n_target are that thread's own, the rest is guarded by the lock of all connections. */
struct ld_connection {
    _Alignas(64) _Atomic uint64_t word; /* phase, and above it when the timer first saw it (ms; 0: not yet) */
    _Atomic uint64_t n_received;        /* of the body */
    struct MHD_Connection *connection;  /* NULL: the record is free */
    uint64_t address;                   /* what is counted together; 0: not counted */
    uint64_t n_at_stamp;                /* bytes that had moved when the word got its time */
    uint64_t closed_at;                 /* the word when the client's end was seen */
    uint32_t next;                      /* free record, or connection of the same bucket of addresses */
    int fd;
    uint32_t n_target;          /* bytes of the target of the request that is coming */
    uint8_t target_fault, lane; /* lane: the number of the one that serves it */
    bool is_counted;            /* in n_open; not, when it gave way */
};

/* All of them. The lock guards what changes: what stands behind it, and the buckets. */
struct ld_connections {
    unsigned max, max_per_address, bucket_bits;
    uint32_t n_records;
    size_t max_head;
    struct ld_metrics *metrics;
    struct ld_connection *record;
    uint32_t *bucket; /* first record of each bucket of addresses */
    pthread_mutex_t lock;
    uint64_t limit_ms[N_PHASES]; /* 0: none */
    uint64_t window_bytes;       /* that are to move in the time of a phase, for it to be given again */
    unsigned n_open;
    uint32_t n_touched, free_record; /* records ever used; the first free one of them */
};

#define LD_SHARES 64u

/* Requests of a share that were put off, in the order of their first time. */
struct ld_line {
    struct ld_request *first, *last;
};

/* A connection between the accepting thread and its lane. */
struct ld_given {
    int fd;
    socklen_t n_address;
    struct sockaddr_storage address;
};
#define LD_GIVEN 128u

/* One thread, which serves the connections that it is given (http_accept.c). */
struct ld_lane {
    struct ld_http *http;
    struct MHD_Daemon *daemon;
    bool is_ours; /* the thread, which then runs the daemon (http_lane.c); else it is the library's */
    pthread_t thread;
    int wait_fd, wake_fd;
    atomic_int state;
    atomic_bool is_ending;
    atomic_uint n_open; /* connections given and not closed */
    pthread_mutex_t given_lock;
    atomic_uint n_given;
    struct ld_given given[LD_GIVEN];
    /* The thread's own, of this round: something may go on at once; requests that wait for their replies. And whether
     * the library has told of the connection that it is given. */
    bool has_moved, has_begun;
    unsigned n_waiting;
    /* Turns of tenants: */
    const struct ld_request *first_put_off; /* of this round */
    int64_t round_us, handled_us;           /* when it began; when a request was last handed over and handled */
    bool is_served[LD_SHARES];              /* in it, by share */
    struct ld_line line[LD_SHARES];
};

enum request_state { REQUEST_RUNNING, REQUEST_SUSPENDED, REQUEST_LEFT, REQUEST_REPLIED, REQUEST_OVER };

/* http_kept.c. What a head that was kept has under that name. */
struct ld_kept;
const char *ld_kept_find(const struct ld_kept *kept, enum MHD_ValueKind kind, const char *name);

/* One server. Fields that neither the lock guards nor are atomic do not change once the daemon runs. */
struct ld_http {
    atomic_size_t refs; /* of its owner, and of each request: who replies may call a lane when all is over */
    struct ld_lane *lane;
    unsigned n_lanes, last_lane; /* last_lane: the accepting thread's */
    struct ld_http_hooks hooks;
    struct ld_metrics *metrics;
    struct ld_body_memory *body_memory;
    struct ld_connections connections;
    struct ld_tls *tls;         /* NULL: plain */
    struct ld_tls_pair **pairs; /* by record of the connection, NULL: plain */
    int port;
    int listen_fd, wake_fd; /* the accepting thread's; wake_fd tells it to end */
    pthread_t accepting;
    atomic_bool is_quiescing;
    atomic_size_t n_in_flight;
    atomic_size_t n_suspended;
    atomic_size_t n_given;     /* connections that a lane has been given and has not begun with */
    pthread_mutex_t lock;      /* guards the list and is_stopping */
    struct ld_request *newest; /* all requests not yet completed */
    char *answer_dir;          /* of long answers' files (http_file.c); NULL: they stay in memory */
    atomic_uint n_answer_files;
    _Atomic uint64_t answer_bytes;
    bool is_stopping;
};

/* One request. Until it is handed over it belongs to the library's thread; then status and response belong to whoever
 * claims the reply, until the state is REPLIED, and to the library's thread again afterwards. */
struct ld_request {
    struct ld_http *http;
    struct ld_lane *lane;
    struct MHD_Connection *connection;
    struct ld_connection *on;
    struct ld_request *older, *newer; /* by http->lock */
    atomic_int refs, state;
    atomic_bool is_claimed; /* somebody replies */
    bool is_handed;         /* the handler holds a reference */
    bool is_odd;            /* ld_request_is_odd */
    bool is_last;           /* its answer is the connection's */
    bool is_discarding;     /* the rest of the body is read and thrown away: the reply stands already */
    int status;
    unsigned n_looks;        /* for the reply, by the library */
    void (*then)(void *arg); /* makes the reply; set before the state is LEFT */
    void *then_arg;
    uint64_t share; /* whose requests take turns with others'; 0: it waits for nobody */
    bool is_put_off;
    struct ld_request *before, *behind; /* in the line of those that are */
    int64_t started_us;
    struct ld_trace trace;
    uint64_t n_answer; /* bytes of the response's body */
    struct MHD_Response *response;
    struct ld_kept *kept;          /* what the head says, apart from the connection; NULL: it is there alone */
    struct ld_stream *stream;      /* that the response is read from; NULL: it is whole. By http->lock */
    char *body;                    /* NULL until the first byte */
    struct ld_body_memory *memory; /* of the server, which may be gone when the handler is through; NULL: no bound */
    size_t n_memory;               /* what the body has of it */
    size_t n_body, cap, limit, n_received;
    size_t n_head;                   /* bytes of request line and headers */
    size_t n_wanted;                 /* of n_received: before the rest was refused */
    char *spool;                     /* path of the body's file, NULL: in memory */
    int spool_fd;                    /* -1 until the first byte */
    char *method, *path;             /* behind the context */
    const struct ld_header *headers; /* [n_headers] of every answer */
    size_t n_headers;
    char *(*tell)(const struct ld_request *r, const struct ld_problem *p, const char *instance, int *status, size_t *n);
    _Alignas(max_align_t) char context[]; /* of the hooks; then method and path */
};

void ld_request_unref(struct ld_request *r);
struct ld_http *ld_http_hold(struct ld_http *h);
void ld_http_let_go(struct ld_http *h);

/* Answers 503 in place of a handler that has not replied (stopping). Its own reply will be dropped. */
void ld_request_force(struct ld_request *r);

/* http_connection.c. The library's calls at both ends of a connection, and what the hooks of a request do: NULL for a
 * connection that was refused, false when its time is up. */
int ld_connections_init(struct ld_connections *all, const struct ld_http_options *o);
void ld_connections_set_limits(struct ld_connections *all, const struct ld_http_limits *limits);
void ld_connections_destroy(struct ld_connections *all);
void ld_connection_notify(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code);
struct ld_connection *ld_connection_of(struct MHD_Connection *connection);
bool ld_connection_enter(struct ld_connection *c, enum connection_phase phase);
void ld_connections_sweep(struct ld_connections *all, uint64_t now_ms);
struct ld_connection *ld_connections_open(struct ld_connections *all, struct MHD_Connection *connection, int fd,
                                          const struct sockaddr *address, unsigned lane);
void ld_connections_close(struct ld_connections *all, struct ld_connection *c);

/* http_accept.c. Begins to share connections out among the lanes; 0, or -1. And ends it, the listening socket closed:
 * once, by whoever has set is_quiescing. */
int ld_accept_start(struct ld_http *h);
void ld_accept_end(struct ld_http *h);

/* http_lane.c. All lanes, or none: 0, or -1. Their end; and the end of what may be called until nobody is left. */
int ld_lanes_start(struct ld_http *h, const struct ld_http_options *o);
void ld_lanes_end(struct ld_http *h);
void ld_lanes_free(struct ld_http *h);
/* The lane, which has room, takes over the connection. False: it did not, and the socket is closed. */
bool ld_lane_has_room(struct ld_lane *lane);
bool ld_lane_give(struct ld_lane *lane, const struct ld_given *given);
/* From any thread: something waits for the lane. At most a system call; see also ld_http_hold_replies. */
void ld_lane_call(struct ld_lane *lane);
/* Takes a connection out of the rounds, in the lane's thread, and puts it back, in any. */
void ld_lane_suspend(struct ld_lane *lane, struct MHD_Connection *connection);
void ld_lane_resume(struct ld_lane *lane, struct MHD_Connection *connection);
/* http.c. A round of the lane begins: its time, and that of no tenant a request has been served in it. */
void ld_lane_begin_round(struct ld_lane *lane);

/* http.c. The library's calls, for each piece of a request and when it is over. */
enum MHD_Result ld_http_serve(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *data, size_t *n, void **slot);
void ld_http_completed(void *arg, struct MHD_Connection *c, void **slot, enum MHD_RequestTerminationCode why);

/* http_tls.c. The daemon's options for TLS; returns its flags. And a connection that has begun, before its handshake (c
 * is NULL: refused), or is gone, its session freed; in the connection's thread. Without TLS nothing is done. */
unsigned ld_http_tls_options(struct MHD_OptionItem out[2]);
void ld_http_tls_begin(struct ld_http *h, struct MHD_Connection *connection, const struct ld_connection *c);
void ld_http_tls_end(struct ld_http *h, const struct ld_connection *c);

/* http_head.c. The library's calls with a request's target and with its parts, which are decoded in place, but for
 * the path; what the path of a target is, and its decoding (ld_request_path). */
#define LD_MAX_TARGET 8000 /* RFC 9110, 4.1: at least so many are to be taken */
void *ld_connection_target(void *arg, const char *target, struct MHD_Connection *connection);
size_t ld_target_unescape(void *arg, struct MHD_Connection *connection, char *text);
const char *ld_target_path(const char *target);
void ld_target_decode(char *path);

/* Whether the complete head may be served, else it is refused by a reply. The parts are as the library
 * gives them: pointers into its buffer. */
struct request_line {
    const char *method, *target, *version;
};
bool ld_request_check_head(struct ld_request *r, const struct request_line *line);

/* http_reply.c. A problem with an id of its own straight to the socket, past the library, which will not write there
 * any more. What does not fit into the socket at once is lost. */
void ld_http_tell(int fd, int status, const char *detail);

/* http_reply.c. Gives a response with a body of n bytes (0: nobody knows yet) to the request: the handler's reply. */
void ld_request_finish(struct ld_request *r, int status, struct MHD_Response *response, uint64_t n);

/* http_reply.c. Takes text over, whatever happens; it is NULL where there is to be none, or was no memory for it, which
 * the type says. n is the length without a NUL; the library frees text when the response goes. NULL: no memory, and
 * the connection ends in the answer's place. */
struct MHD_Response *ld_response_of(const char *content_type, char *text, size_t n);
/* *response is NULL, or has the header, or becomes NULL. */
void ld_response_header(struct MHD_Response **response, const char *name, const char *value);

/* http_file.c. Replies with a copy of the text in a file; false: there is none to be had, and nothing was replied. An
 * answer of more than LD_ANSWER_BYTES is to wait there for its client. */
#define LD_ANSWER_BYTES LD_BODY_FREE_BYTES
bool ld_reply_long(struct ld_request *r, int status, const char *content_type, const char *text, size_t n);

/* http_stream.c. The stream of a request that the server ends with: nothing more is sent. And one reference less. */
void ld_stream_abandon(struct ld_stream *s);
void ld_stream_unref(struct ld_stream *s);

/* http_body.c. First call of a request, with the headers: admits or refuses it. */
enum MHD_Result ld_request_begin(struct ld_request *r, const struct request_line *line);

/* A piece of the body. MHD_NO ends the connection. */
enum MHD_Result ld_request_collect(struct ld_request *r, const char *data, size_t n);

/* The memory of all bodies (http.h). m NULL is no limit everywhere below. For a body that has *taken so far and is to
 * have n bytes. False: there is no room, and nothing has changed. */
bool ld_body_memory_take(struct ld_body_memory *m, size_t *taken, size_t n);
void ld_body_memory_give(struct ld_body_memory *m, size_t *taken);
/* Whether a body of n bytes would find room now. */
bool ld_body_memory_has(const struct ld_body_memory *m, size_t n);
/* Replies 503: bodies and answers of others take the memory. */
void ld_request_refuse_memory(struct ld_request *r);

/* The body's file, when there is one: complete; closed and removed. */
void ld_request_close_spool(struct ld_request *r);
void ld_request_drop_spool(struct ld_request *r);

/* Hands the response of a REPLIED request to the library. In the library's thread only. */
enum MHD_Result ld_request_queue(struct ld_request *r);

#endif
