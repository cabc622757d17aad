/* The HTTP front end on libmicrohttpd: threads with epoll, each serving its share of the connections (http_lane.c,
 * http_accept.c).
 *
 * A connection that waits for a commit costs no thread: it stays in its thread's rounds, or beside them when it takes
 * long. http_reply.c explains the hand-over.
 *
 * Connections and their limits: http_connection.c; heads: http_head.c; bodies: http_body.c; replies: http_reply.c. Cost
 * of a request outside the handler: about 10 us of CPU, and one lock taken three times for a few instructions each.
 *
 * Life of a request in the library's callbacks, all in the connection's thread:
 *
 *   target     the request line has been read (ld_connection_target)
 *   serve      first call: the headers; request_new, then admission (ld_request_begin)
 *   serve      once for each piece of the body: ld_request_collect
 *   serve      no data left: complete hands it over; the same call again in each round until the reply is there
 *   completed  the answer is sent or the client gone: out of the list, counted, the connection's reference dropped
 *
 * Whatever ends a connection early (timeout, reset, MHD_NO) leads to completed as well, so nothing is cleaned up
 * twice. */
#include "http/http_impl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/listen.h"
#include "base/log.h"
#include "base/metrics.h"

#define MOST_LOOKS 32 /* of the library for a reply, before the connection is suspended */

/* --- what a request says ---------------------------------------------------------------------------- */

const char *ld_request_method(const struct ld_request *r)
{
    return r->method;
}

const char *ld_request_path(const struct ld_request *r)
{
    return r->path;
}

/* The bytes collected so far; the whole body once `handle` is called. */
const char *ld_request_body(const struct ld_request *r, size_t *n)
{
    *n = r->n_body;
    return r->body != NULL ? r->body : "";
}

/* Complete and closed once `handle` is called; nothing of it has been synced. */
const char *ld_request_body_file(const struct ld_request *r)
{
    return r->spool;
}

void ld_request_end_connection(struct ld_request *r)
{
    r->is_last = true;
}

void ld_request_set_share(struct ld_request *r, uint64_t share)
{
    r->share = share;
}

const struct ld_trace *ld_request_trace(const struct ld_request *r)
{
    return &r->trace;
}

/* In the library's thread; empty for an address that is none of IP. */
void ld_request_peer(const struct ld_request *r, char out[LD_PEER_BYTES])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info != NULL ? info->client_addr : NULL;
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = '\0';
    if (a != NULL && a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, LD_PEER_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else if (a != NULL && a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)a;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(out, LD_PEER_BYTES, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

void *ld_request_context(const struct ld_request *r)
{
    return (void *)(uintptr_t)r->context;
}

/* --- life of a request ------------------------------------------------------------------------------ */

/* Path and method are copied behind the context: other threads read them, when the connection may be gone.
 * NULL: no memory, and the connection is ended. The clock starts here: what the histogram of durations shows begins
 * with the complete headers. The list is for ld_http_stop, which must find requests that nobody calls back for. */
static struct ld_request *request_new(struct ld_http *h, struct MHD_Connection *c, const char *method, const char *path)
{
    size_t n_context = h->hooks.n_context, n_method = strlen(method) + 1, n_path = strlen(path) + 1;
    struct ld_request *r = calloc(1, sizeof *r + n_context + n_method + n_path);
    if (r == NULL)
        return NULL;
    r->http = ld_http_hold(h);
    r->connection = c;
    r->memory = h->body_memory;
    r->on = ld_connection_of(c);
    r->lane = &h->lane[r->on->lane];
    r->n_head = MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    r->spool_fd = -1;
    r->started_us = ld_monotonic_us();
    atomic_init(&r->refs, 1);
    atomic_init(&r->state, REQUEST_RUNNING);
    r->method = memcpy(r->context + n_context, method, n_method);
    r->path = memcpy(r->method + n_method, path, n_path);
    ld_target_decode(r->path);
    ld_trace_begin(&r->trace, ld_request_header(r, "traceparent"));
    atomic_fetch_add(&h->n_in_flight, 1);
    pthread_mutex_lock(&h->lock);
    r->older = h->newest;
    if (h->newest != NULL)
        h->newest->newer = r;
    h->newest = r;
    pthread_mutex_unlock(&h->lock);
    return r;
}

/* After this ld_http_stop cannot find the request any more. */
static void unlink_request(struct ld_http *h, struct ld_request *r)
{
    pthread_mutex_lock(&h->lock);
    if (r->newer != NULL)
        r->newer->older = r->older;
    else
        h->newest = r->older;
    if (r->older != NULL)
        r->older->newer = r->newer;
    pthread_mutex_unlock(&h->lock);
}

/* Has the answer counted and logged. status 0: there was none; somebody may be at one still. */
static void record(struct ld_http *h, const struct ld_request *r, int status)
{
    const struct ld_outcome outcome = {.status = status,
                                       .us = ld_monotonic_us() - r->started_us,
                                       .n_in = r->n_received,
                                       .n_out = status != 0 ? r->n_answer : 0};
    if (h->hooks.completed != NULL)
        h->hooks.completed(h->hooks.arg, r, &outcome);
}

/* The library is through with the request: answered, or its client gone. n_in_flight goes last: a drain that sees 0
 * knows that no callback of ours is at work on a request. */
void ld_http_completed(void *arg, struct MHD_Connection *c, void **slot, enum MHD_RequestTerminationCode why)
{
    struct ld_http *h = arg;
    struct ld_request *r = *slot;
    (void)c;
    (void)why;
    if (r == NULL)
        return;
    *slot = NULL;
    struct ld_lane *lane = r->lane;
    lane->has_moved = true;
    ld_lane_forgets(lane, r);
    unlink_request(h, r);
    const int before = atomic_exchange(&r->state, REQUEST_OVER);
    record(h, r, before == REQUEST_REPLIED ? r->status : 0);
    if (before == REQUEST_LEFT)
        r->then(r->then_arg);
    (void)ld_connection_enter(r->on, PHASE_IDLE);
    ld_request_unref(r);
    atomic_fetch_sub(&h->n_in_flight, 1);
}

/* --- serving -------------------------------------------------------------------------------------------- */

/* Calls the handler with a reference of its own, unless the server is about to end. The flag and the reference are
 * set under the lock that ld_http_stop takes: it either sees the request as handed over and forces its reply, or has
 * told us before that it is stopping. The handler itself runs without the lock, and may have replied, from whatever
 * thread, before it returns. */
static void hand_over(struct ld_http *h, struct ld_request *r)
{
    ld_request_close_spool(r);
    pthread_mutex_lock(&h->lock);
    bool is_stopping = h->is_stopping;
    if (!is_stopping) {
        r->is_handed = true;
        atomic_fetch_add(&r->refs, 1);
    }
    pthread_mutex_unlock(&h->lock);
    if (is_stopping)
        ld_request_force(r);
    else
        h->hooks.handle(h->hooks.arg, r);
}

/* Whether a request that has no reply yet is to be asked for again in the next round, in place of being suspended. In
 * the library's own threads, which would not rest meanwhile, only once: one that is suspended at once is read from when
 * it resumes, and when its client has shut down its side by then, the library ends it without the answer (0.9.75). */
static bool stays(struct ld_lane *lane, struct ld_request *r)
{
    lane->n_waiting++;
    return r->n_looks++ < (lane->is_ours ? MOST_LOOKS : 1);
}

/* The body is complete: hands the request over, unless others go first or its time was up a moment before. Called again
 * in each round until the reply is there, and after a resume. */
static enum MHD_Result complete(struct ld_http *h, struct ld_request *r)
{
    struct ld_lane *lane = r->lane;
    bool is_first = !r->is_handed && atomic_load(&r->state) == REQUEST_RUNNING;
    if (is_first && ld_lane_puts_off(lane, r)) {
        lane->has_moved = true;
        return MHD_YES;
    }
    if (is_first && !ld_connection_enter(r->on, PHASE_HANDLED))
        return MHD_YES; /* the timer is about to say so and to end the connection: closing it now would cut it short */
    if (is_first) {
        hand_over(h, r);
        ld_lane_has_handled(lane);
    }
    int left = REQUEST_LEFT;
    if (atomic_compare_exchange_strong(&r->state, &left, REQUEST_RUNNING))
        r->then(r->then_arg);
    if (atomic_load(&r->state) == REQUEST_REPLIED)
        return ld_request_queue(r);
    if (stays(lane, r))
        return MHD_YES;
    ld_lane_suspend(lane, r->connection);
    int expected = REQUEST_RUNNING;
    if (!atomic_compare_exchange_strong(&r->state, &expected, REQUEST_SUSPENDED))
        ld_lane_resume(lane, r->connection); /* the reply crossed the suspension */
    return MHD_YES;
}

/* The library's one callback for everything that arrives. *n is set to 0 to say that the piece was taken; MHD_NO ends
 * the connection without an answer. */
enum MHD_Result ld_http_serve(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *data, size_t *n, void **slot)
{
    struct ld_http *h = arg;
    struct ld_request *r = *slot;
    if (r == NULL) {
        *slot = r = ld_connection_of(c) != NULL ? request_new(h, c, method, ld_target_path(url)) : NULL;
        return r != NULL ? ld_request_begin(r, &(struct request_line){method, url, version}) : MHD_NO;
    }
    if (*n == 0)
        return complete(h, r);
    r->lane->has_moved = true;
    enum MHD_Result rc = ld_request_collect(r, data, *n);
    *n = 0;
    return rc;
}

/* --- the server ------------------------------------------------------------------------------------- */

/* Handed on to the sockets that are accepted. */
static void bound_unsent(int listen_fd)
{
    const int bytes = LD_UNSENT_BYTES;
    (void)setsockopt(listen_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

/* The socket, the library's threads, and the one that gives them connections. On failure nothing is left, and why says
 * what it was. */
static int begin(struct ld_http *h, const struct ld_http_options *o, struct ld_message *why)
{
    struct ld_endpoint e = {.port = o->port, .is_ipv6 = strchr(o->host, ':') != NULL};
    snprintf(e.host, sizeof e.host, "%s", o->host);
    h->listen_fd = o->listen_fd > 0 ? o->listen_fd : ld_endpoint_listen(&e, 4096, why);
    if (h->listen_fd < 0)
        return -1;
    h->port = e.port;
    bound_unsent(h->listen_fd);
    ld_fail(why, "cannot start %u HTTP threads for %u connections", o->threads, o->max_connections);
    if (ld_lanes_start(h, o) == 0) {
        if (ld_accept_start(h) == 0)
            return 0;
        ld_lanes_end(h);
    }
    close(h->listen_fd);
    return -1;
}

/* The records of connections, and what TLS keeps for each. */
static int make_records(struct ld_http *h, const struct ld_http_options *o, struct ld_message *why)
{
    ld_fail(why, "no memory for %u connections", o->max_connections);
    if (ld_connections_init(&h->connections, o) != 0)
        return -1;
    if (h->tls == NULL || (h->pairs = calloc(h->connections.n_records, sizeof *h->pairs)) != NULL)
        return 0;
    ld_connections_destroy(&h->connections);
    return -1;
}

struct ld_http *ld_http_hold(struct ld_http *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

/* The last one frees what is left when all threads and connections have ended. */
void ld_http_let_go(struct ld_http *h)
{
    if (atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    ld_lanes_free(h);
    pthread_mutex_destroy(&h->lock);
    free(h->pairs);
    free(h->answer_dir);
    free(h);
}

/* On failure nothing is left: neither socket nor thread. When it returns 0, requests may be in the hooks already. */
int ld_http_start(struct ld_http **out, const struct ld_http_options *o, const struct ld_http_hooks *hooks,
                  struct ld_message *why)
{
    struct ld_http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return ld_fail(why, "out of memory");
    atomic_init(&h->refs, 1);
    h->hooks = *hooks;
    h->metrics = o->metrics;
    h->body_memory = o->body_memory;
    h->tls = o->tls;
    pthread_mutex_init(&h->lock, NULL);
    h->answer_dir = o->answer_dir != NULL ? strdup(o->answer_dir) : NULL; /* without memory there are no such files */
    int rc = make_records(h, o, why);
    if (rc == 0 && (rc = begin(h, o, why)) != 0)
        ld_connections_destroy(&h->connections);
    if (rc == 0)
        *out = h;
    else
        ld_http_let_go(h);
    return rc;
}

int ld_http_port(const struct ld_http *h)
{
    return h->port;
}

/* Exact at the moment of reading; a drain calls it until it is 0. None for a server that is not there yet or no more,
 * which a job left over from a forced stop may meet. */
size_t ld_http_in_flight(const struct ld_http *h)
{
    return h != NULL ? atomic_load(&h->n_in_flight) : 0;
}

void ld_http_set_limits(struct ld_http *h, const struct ld_http_limits *limits)
{
    ld_connections_set_limits(&h->connections, limits);
}

/* Called by the timer. */
void ld_http_sweep(struct ld_http *h)
{
    ld_connections_sweep(&h->connections, (uint64_t)(ld_monotonic_us() / 1000));
}

/* From here on the kernel refuses connections, and resets those that it had accepted but we had not; nothing was
 * promised to them. On a socket that a service manager keeps they wait for the next process. Called twice it does
 * nothing. */
void ld_http_quiesce(struct ld_http *h)
{
    if (h != NULL && !atomic_exchange(&h->is_quiescing, true))
        ld_accept_end(h);
}

/* Waits up to `ms` until *n is 0. Polls, since stopping happens once and nothing else runs in this thread. */
static void wait_for_zero(const atomic_size_t *n, int ms)
{
    const struct timespec tick = {.tv_nsec = 1000000};
    for (; ms > 0 && atomic_load(n) > 0; ms--)
        nanosleep(&tick, NULL);
}

/* Nobody may start a request while this runs, except those already in the library's hands: is_stopping turns them
 * away. Forced replies are sent by the library's threads; a second is given for that, and clients that do not read in
 * that time lose their answer. Replies of handlers that come later find the request claimed and are dropped. */
void ld_http_stop(struct ld_http *h)
{
    if (h == NULL)
        return;
    ld_http_quiesce(h);
    pthread_mutex_lock(&h->lock);
    h->is_stopping = true;
    for (struct ld_request *r = h->newest; r != NULL; r = r->older)
        if (r->stream != NULL)
            ld_stream_abandon(r->stream);
        else if (r->is_handed)
            ld_request_force(r);
    pthread_mutex_unlock(&h->lock);
    wait_for_zero(&h->n_given, 1000);
    wait_for_zero(&h->n_in_flight, 1000);
    wait_for_zero(&h->n_suspended, 1000); /* the library refuses to stop with suspended connections */
    ld_lanes_end(h);
    ld_connections_destroy(&h->connections);
    ld_http_let_go(h);
}
