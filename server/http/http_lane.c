/* Lanes: the threads that serve connections, each with a daemon of the library that knows its connections alone.
 *
 * In plain HTTP the thread is ours and runs the daemon round by round. A request that waits for its reply then simply
 * stays where it is: in each round the library asks for it again, a fifth of a microsecond, and who replies wakes the
 * lane, once for many. The library's own way, to suspend the connection and to resume it, takes the socket out of epoll
 * and puts it back, writes to the thread for each reply, and looks in vain for a next request: five system calls beside
 * the three that a request takes (decision 0044). A request that has been asked for MOST_LOOKS times is suspended all
 * the same (http.c): what waits for long costs nothing then.
 *
 *     RUNS    the lane is at work; it looks for replies before it rests
 *     CALLED  something has come since: it goes on
 *     RESTS   it waits for its sockets; the first who calls it wakes it, by an eventfd
 *
 * What the library has not finished with it does not tell apart from what waits for us. A lane goes on without a rest
 * while something has moved (has_moved: a piece of a body, of a long answer, a request over, one put off), rests until
 * something comes when nothing is left to it, and looks again after REST_MS where requests wait and nothing has moved:
 * a head of more than its buffer is the one thing that this keeps waiting.
 *
 * With TLS the thread is the library's, which has ways of its own (http_tls.c). */
#include "http/http_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define REST_MS 2
#define MEMORY_BESIDE ((size_t)8 << 10) /* a head: what the library makes of it, and the head of the answer */
#define MIN_MEMORY ((size_t)16 << 10)
#define MOST_HELD 8 /* lanes that one thread holds its calls to */

enum { LANE_RUNS, LANE_CALLED, LANE_RESTS };

/* --- calls ------------------------------------------------------------------------------------------------ */

/* Of this thread: the lane that it runs; and those that it is to wake when it has given all of its replies. */
static _Thread_local struct {
    struct ld_lane *own, *lane[MOST_HELD];
    unsigned n;
    bool is_holding;
} held;

static void wake(struct ld_lane *lane)
{
    (void)!eventfd_write(lane->wake_fd, 1);
}

void ld_lane_call(struct ld_lane *lane)
{
    if (!lane->is_ours || held.own == lane || atomic_exchange(&lane->state, LANE_CALLED) != LANE_RESTS)
        return;
    if (held.is_holding && held.n < MOST_HELD)
        held.lane[held.n++] = lane;
    else
        wake(lane);
}

/* Counted before somebody may resume it: n_suspended never falls below zero. */
void ld_lane_suspend(struct ld_lane *lane, struct MHD_Connection *connection)
{
    MHD_suspend_connection(connection);
    atomic_fetch_add(&lane->http->n_suspended, 1);
}

/* The library wakes its own threads alone. Counted last of all: ld_http_stop waits for it. */
void ld_lane_resume(struct ld_lane *lane, struct MHD_Connection *connection)
{
    struct ld_http *h = lane->http;
    MHD_resume_connection(connection);
    if (held.own == lane)
        lane->has_moved = true;
    ld_lane_call(lane);
    atomic_fetch_sub(&h->n_suspended, 1);
}

void ld_http_hold_replies(void)
{
    held.is_holding = true;
}

void ld_http_send_replies(void)
{
    held.is_holding = false;
    while (held.n > 0)
        wake(held.lane[--held.n]);
}

/* --- connections -------------------------------------------------------------------------------------------- */

/* The accepting thread alone adds: what it finds room for, it has. */
bool ld_lane_has_room(struct ld_lane *lane)
{
    return atomic_load(&lane->n_given) < LD_GIVEN;
}

static void leave(struct ld_lane *lane, const struct ld_given *given)
{
    pthread_mutex_lock(&lane->given_lock);
    const unsigned at = atomic_load(&lane->n_given);
    lane->given[at] = *given;
    atomic_store(&lane->n_given, at + 1);
    pthread_mutex_unlock(&lane->given_lock);
    ld_lane_call(lane);
}

bool ld_lane_give(struct ld_lane *lane, const struct ld_given *given)
{
    if (lane->is_ours)
        leave(lane, given);
    return lane->is_ours || MHD_add_connection(lane->daemon, given->fd, (const struct sockaddr *)&given->address,
                                               given->n_address) == MHD_YES;
}

/* One whose record the library has not even asked for is counted back here. */
static void begin(struct ld_lane *lane, const struct ld_given *given)
{
    lane->has_begun = false;
    if (MHD_add_connection(lane->daemon, given->fd, (const struct sockaddr *)&given->address, given->n_address) ==
            MHD_YES ||
        lane->has_begun)
        return;
    atomic_fetch_sub_explicit(&lane->n_open, 1, memory_order_relaxed);
    atomic_fetch_sub(&lane->http->n_given, 1);
}

static void take_given(struct ld_lane *lane)
{
    struct ld_given given[LD_GIVEN];
    pthread_mutex_lock(&lane->given_lock);
    const unsigned n = atomic_load(&lane->n_given);
    for (unsigned i = 0; i < n; i++)
        given[i] = lane->given[i];
    atomic_store(&lane->n_given, 0);
    pthread_mutex_unlock(&lane->given_lock);
    for (unsigned i = 0; i < n; i++)
        begin(lane, &given[i]);
}

/* --- rounds ------------------------------------------------------------------------------------------------- */

/* How long to wait for sockets after a round in which nothing has moved. */
static int rest_ms(const struct ld_lane *lane)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    if (MHD_get_timeout(lane->daemon, &ms) != MHD_YES)
        return -1;
    if (ms == 0)
        return lane->n_waiting > 0 ? REST_MS : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void rest(struct ld_lane *lane)
{
    struct epoll_event seen[2];
    const int ms = rest_ms(lane);
    int expected = LANE_RUNS;
    if (ms != 0 && atomic_compare_exchange_strong(&lane->state, &expected, LANE_RESTS))
        (void)!epoll_wait(lane->wait_fd, seen, 2, ms);
}

static void *run(void *arg)
{
    struct ld_lane *lane = arg;
    pthread_setname_np(pthread_self(), "http");
    held.own = lane;
    while (!atomic_load(&lane->is_ending)) {
        (void)atomic_exchange(&lane->state, LANE_RUNS); /* before the looks at what callers have left */
        if (atomic_load(&lane->n_given) > 0)
            take_given(lane);
        lane->has_moved = false;
        lane->n_waiting = 0;
        ld_lane_begin_round(lane);
        (void)MHD_run(lane->daemon);
        if (!lane->has_moved)
            rest(lane);
    }
    return NULL;
}

/* --- beginning and end ---------------------------------------------------------------------------------------- */

/* The library's own messages are about broken clients, mostly. At level debug, therefore: they would fill the log on
 * any day that somebody scans the port. */
static __attribute__((format(printf, 2, 0))) void library_log(void *arg, const char *fmt, va_list args)
{
    char text[512];
    (void)arg;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    ld_log(LD_LOG_DEBUG, "http: %s", text);
}

/* The logger stands first: it gets what the options after it have to say. The library's limits are never met before
 * ours: of connections (0.9.75 keeps a lock for ever when a connection that it was given is one too many), of memory
 * for a head, of which it answers the excess in HTML; it has no limits on time. Memory of a connection is touched as
 * far as it is used. */
static struct MHD_Daemon *start_daemon(struct ld_lane *lane, const struct ld_http_options *o)
{
    struct ld_http *h = lane->http;
    struct MHD_OptionItem more[3];
    size_t n = h->tls != NULL ? 2 : 0;
    unsigned flags = h->tls != NULL ? ld_http_tls_options(more) : MHD_USE_EPOLL;
    flags |= MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    size_t memory = o->max_head + MEMORY_BESIDE > MIN_MEMORY ? o->max_head + MEMORY_BESIDE : MIN_MEMORY;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, ld_http_serve, h, MHD_OPTION_EXTERNAL_LOGGER, library_log, h, MHD_OPTION_NOTIFY_COMPLETED,
        ld_http_completed, h, MHD_OPTION_NOTIFY_CONNECTION, ld_connection_notify, lane, MHD_OPTION_URI_LOG_CALLBACK,
        ld_connection_target, h, MHD_OPTION_UNESCAPE_CALLBACK, ld_target_unescape, NULL, MHD_OPTION_CONNECTION_LIMIT,
        UINT_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static bool watch(int wait_fd, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    return fd >= 0 && epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The eventfd is never read: each write to it is an edge. */
static int start_thread(struct ld_lane *lane)
{
    const union MHD_DaemonInfo *sockets = MHD_get_daemon_info(lane->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    lane->wake_fd = eventfd(0, EFD_CLOEXEC);
    lane->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    return sockets != NULL && lane->wait_fd >= 0 && watch(lane->wait_fd, lane->wake_fd, EPOLLIN | EPOLLET) &&
                   watch(lane->wait_fd, sockets->epoll_fd, EPOLLIN)
               ? -pthread_create(&lane->thread, NULL, run, lane)
               : -1;
}

static int start(struct ld_lane *lane, struct ld_http *h, const struct ld_http_options *o)
{
    *lane = (struct ld_lane){.http = h, .is_ours = h->tls == NULL, .wait_fd = -1, .wake_fd = -1};
    pthread_mutex_init(&lane->given_lock, NULL);
    lane->daemon = start_daemon(lane, o);
    if (lane->daemon == NULL)
        return -1;
    if (!lane->is_ours || start_thread(lane) == 0)
        return 0;
    MHD_stop_daemon(lane->daemon);
    return -1;
}

/* The library closes the connections that the lane still has; those that it has not begun with are closed here. */
static void end(struct ld_lane *lane)
{
    if (lane->is_ours) {
        atomic_store(&lane->is_ending, true);
        (void)atomic_exchange(&lane->state, LANE_CALLED);
        wake(lane);
        pthread_join(lane->thread, NULL);
        for (unsigned i = 0; i < atomic_load(&lane->n_given); i++)
            close(lane->given[i].fd);
    }
    MHD_stop_daemon(lane->daemon);
}

void ld_lanes_end(struct ld_http *h)
{
    for (unsigned i = 0; i < h->n_lanes; i++)
        end(&h->lane[i]);
}

static void discard(struct ld_lane *lane)
{
    if (lane->wait_fd >= 0)
        close(lane->wait_fd);
    if (lane->wake_fd >= 0)
        close(lane->wake_fd);
    pthread_mutex_destroy(&lane->given_lock);
}

void ld_lanes_free(struct ld_http *h)
{
    for (unsigned i = 0; i < h->n_lanes; i++)
        discard(&h->lane[i]);
    free(h->lane);
}

int ld_lanes_start(struct ld_http *h, const struct ld_http_options *o)
{
    const unsigned n = o->threads > 0 ? o->threads : 1;
    h->lane = calloc(n, sizeof *h->lane);
    for (h->n_lanes = 0; h->lane != NULL && h->n_lanes < n; h->n_lanes++)
        if (start(&h->lane[h->n_lanes], h, o) != 0) {
            ld_lanes_end(h);
            discard(&h->lane[h->n_lanes]);
            return -1;
        }
    return h->lane != NULL ? 0 : -1;
}
