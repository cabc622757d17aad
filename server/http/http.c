/* A request in the HTTP front end on libmicrohttpd, whose threads each serve their share of the connections
 * (http_server.c, http_lane.c, http_accept.c).
 *
 * A connection that waits for a commit costs no thread: it stays in its thread's rounds, or beside them when it takes
 * long. http_reply.c explains the hand-over. Tenants take turns in the rounds of a thread: whose it is, is said here.
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

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MOST_LOOKS 32 /* of the library for a reply, before the connection is suspended */
#define ROUND_US 100
#define QUIET_US 50 /* in a thread of the library's: it has looked for what has come */

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

/* The first one of that name, without regard to case. */
const char *ld_request_header(const struct ld_request *r, const char *name)
{
    if (r->kept != NULL)
        return ld_kept_find(r->kept, MHD_HEADER_KIND, name);
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* Decoded like the path; "+" is a blank. A name without "=" counts as an empty value. */
const char *ld_request_query(const struct ld_request *r, const char *name)
{
    const char *value = NULL;
    if (r->kept != NULL)
        return ld_kept_find(r->kept, MHD_GET_ARGUMENT_KIND, name);
    enum MHD_Result found =
        MHD_lookup_connection_value_n(r->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, NULL);
    return found == MHD_YES && value == NULL ? "" : value;
}

struct each {
    bool (*look)(void *arg, const char *name);
    void *arg;
};

static enum MHD_Result pass_on(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    const struct each *each = arg;
    const bool is_nothing = *name == '\0' && value == NULL; /* between two "&" */
    (void)kind;
    return is_nothing || each->look(each->arg, name) ? MHD_YES : MHD_NO;
}

void ld_request_each_header(const struct ld_request *r, bool (*look)(void *arg, const char *name), void *arg)
{
    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, pass_on, &(struct each){look, arg});
}

bool ld_request_is_odd(const struct ld_request *r)
{
    return r->is_odd;
}

bool ld_request_has_query(const struct ld_request *r)
{
    return MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0;
}

void ld_request_each_parameter(const struct ld_request *r, bool (*look)(void *arg, const char *name), void *arg)
{
    (void)MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, pass_on, &(struct each){look, arg});
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

void *ld_request_context(const struct ld_request *r)
{
    return (void *)(uintptr_t)r->context;
}

/* --- life of a request ------------------------------------------------------------------------------ */

struct ld_http *ld_http_hold(struct ld_http *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

/* Path and method are copied behind the context: other threads read them, when the connection may be gone.
 * NULL: no memory, or a connection that was refused: it is ended. The clock starts here: what the histogram of
 * durations shows begins with the complete headers. The list is for ld_http_stop, which must find requests that nobody
 * calls back for. */
static struct ld_request *request_new(struct ld_http *h, struct MHD_Connection *c, const char *method, const char *path)
{
    struct ld_connection *on = ld_connection_of(c);
    size_t n_context = h->hooks.n_context, n_method = strlen(method) + 1, n_path = strlen(path) + 1;
    struct ld_request *r = on != NULL ? calloc(1, sizeof *r + n_context + n_method + n_path) : NULL;
    if (r == NULL)
        return NULL;
    r->http = ld_http_hold(h);
    r->connection = c;
    r->memory = h->body_memory;
    r->on = on;
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

/* --- turns of tenants ---------------------------------------------------------------------------------------
 *
 * A decision is computed in the thread of its connection, and the library takes the connections that are ready one
 * after another: behind fifty requests of a tenant with a large model, another one's would wait for fifty decisions. So
 * a round has a time. When that is over, a tenant that has had a request served in the round has the rest of them say
 * that they are not ready: the library then looks for what has come meanwhile, and asks them again.
 *
 * It asks in an order of its own, in which some connections are always before others. So those that were put off stand
 * in a line, and the first that is served of a tenant in a round is the first in its line.
 *
 * Requests that cost little do not use a round's time up. When a round begins our own threads know; for one of the
 * library's nothing tells but the first request that was put off being asked again, or a while in which it handled
 * nothing. */

void ld_lane_begin_round(struct ld_lane *lane)
{
    lane->first_put_off = NULL;
    lane->round_us = ld_monotonic_us();
    memset(lane->is_served, 0, sizeof lane->is_served);
}

static struct ld_line *line_of(struct ld_lane *lane, const struct ld_request *r)
{
    return &lane->line[r->share % LD_SHARES];
}

static void join_line(struct ld_line *line, struct ld_request *r)
{
    r->is_put_off = true;
    r->before = line->last;
    r->behind = NULL;
    *(line->last != NULL ? &line->last->behind : &line->first) = r;
    line->last = r;
}

static void leave_line(struct ld_line *line, struct ld_request *r)
{
    if (!r->is_put_off)
        return;
    r->is_put_off = false;
    *(r->before != NULL ? &r->before->behind : &line->first) = r->behind;
    *(r->behind != NULL ? &r->behind->before : &line->last) = r->before;
}

static bool is_new_round(const struct ld_lane *lane, const struct ld_request *r)
{
    if (lane->first_put_off != NULL || lane->is_ours)
        return lane->first_put_off == r;
    return ld_monotonic_us() - lane->handled_us > QUIET_US;
}

static void has_handled(struct ld_lane *lane)
{
    if (!lane->is_ours)
        lane->handled_us = ld_monotonic_us();
}

static bool puts_off(struct ld_lane *lane, struct ld_request *r)
{
    if (r->share == 0)
        return false;
    if (is_new_round(lane, r))
        ld_lane_begin_round(lane);
    struct ld_line *line = line_of(lane, r);
    bool *is_served = &lane->is_served[r->share % LD_SHARES];
    if (*is_served ? ld_monotonic_us() - lane->round_us < ROUND_US : line->first == NULL || line->first == r) {
        *is_served = true;
        leave_line(line, r);
        return false;
    }
    if (!r->is_put_off)
        join_line(line, r);
    if (lane->first_put_off == NULL)
        lane->first_put_off = r;
    return true;
}

static void forgets(struct ld_lane *lane, struct ld_request *r)
{
    leave_line(line_of(lane, r), r);
    if (lane->first_put_off == r)
        ld_lane_begin_round(lane);
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
    forgets(lane, r);
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
    if (is_first && puts_off(lane, r)) {
        lane->has_moved = true;
        return MHD_YES;
    }
    if (is_first && !ld_connection_enter(r->on, PHASE_HANDLED))
        return MHD_YES; /* the timer is about to say so and to end the connection: closing it now would cut it short */
    if (is_first) {
        hand_over(h, r);
        has_handled(lane);
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
        *slot = r = request_new(h, c, method, ld_target_path(url));
        return r != NULL ? ld_request_begin(r, &(struct request_line){method, url, version}) : MHD_NO;
    }
    if (*n == 0)
        return complete(h, r);
    r->lane->has_moved = true;
    enum MHD_Result rc = ld_request_collect(r, data, *n);
    *n = 0;
    return rc;
}
