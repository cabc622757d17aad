/* The HTTP server from its beginning to its end: the socket, the records of connections, the threads; limits that
 * change while it runs; and a stop, in which everybody who waits is answered. What it does between is http.c's. */
#include "http/http_impl.h"

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
