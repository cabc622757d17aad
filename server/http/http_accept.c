/* Accepting: one thread takes connections from the listening socket and shares them out among the library's.
 *
 * The library's own way is that every thread polls the socket, and whoever wakes first takes all that wait: a backend's
 * pool of connections, dialled at once, then stays with one thread, and with one core. Here each thread of the library
 * is a daemon without a listening socket (struct ld_lane), and a connection goes to the one that has the fewest; among
 * equals, to the next one in turn.
 *
 * Without descriptors or memory for another connection, or when the lanes are behind with those that they have been
 * given, the thread rests for a moment: those who knock wait in the kernel, and are taken when others have left. */
#include "http/http_impl.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define REST_MS 50
#define BEHIND_MS 1

/* The lane with the fewest connections, from the one behind the last one chosen; NULL: even that one has as many as may
 * be open in all, and is behind with refusing them, or with those that it has been given. */
static struct ld_lane *next_lane(struct ld_http *h)
{
    struct ld_lane *best = &h->lane[(h->last_lane + 1) % h->n_lanes];
    unsigned fewest = atomic_load_explicit(&best->n_open, memory_order_relaxed);
    for (unsigned i = 2; i <= h->n_lanes; i++) {
        struct ld_lane *lane = &h->lane[(h->last_lane + i) % h->n_lanes];
        unsigned n = atomic_load_explicit(&lane->n_open, memory_order_relaxed);
        if (n < fewest) {
            best = lane;
            fewest = n;
        }
    }
    h->last_lane = (unsigned)(best - h->lane);
    return fewest < h->connections.n_records && ld_lane_has_room(best) ? best : NULL;
}

/* Takes one connection. 0, or the errno of the reason why there is none. One that the library has no memory for is
 * closed by it. */
static int take(struct ld_http *h)
{
    struct ld_given given = {.n_address = sizeof given.address};
    struct ld_lane *lane = next_lane(h);
    if (lane == NULL)
        return EBUSY;
    given.fd = accept4(h->listen_fd, (struct sockaddr *)&given.address, &given.n_address, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (given.fd < 0)
        return errno;
    atomic_fetch_add(&h->n_given, 1);
    atomic_fetch_add_explicit(&lane->n_open, 1, memory_order_relaxed);
    if (!ld_lane_give(lane, &given)) {
        atomic_fetch_sub_explicit(&lane->n_open, 1, memory_order_relaxed);
        atomic_fetch_sub(&h->n_given, 1);
    }
    return 0;
}

/* What accept4 says of the client that it was to take, not of us: it, or its network, has gone. */
static bool is_clients(int why)
{
    static const int gone[] = {0,         EINTR,        ECONNABORTED, EPERM,      EPROTO,     ENETDOWN,
                               EHOSTDOWN, EHOSTUNREACH, ENETUNREACH,  EOPNOTSUPP, ENOPROTOOPT};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (why == gone[i])
            return true;
    return false;
}

/* All that wait. 0, or why the next cannot be taken. */
static int take_all(struct ld_http *h)
{
    for (;;) {
        int why = take(h);
        if (why == EAGAIN || why == EWOULDBLOCK)
            return 0;
        if (!is_clients(why))
            return why;
    }
}

/* Tells the beginning of a want of room, not each connection of it. */
static void *accept_all(void *arg)
{
    struct ld_http *h = arg;
    int why = 0;
    pthread_setname_np(pthread_self(), "accept");
    while (!atomic_load(&h->is_quiescing)) {
        /* without room only the end is waited for, and for a moment */
        struct pollfd on[2] = {{.fd = h->wake_fd, .events = POLLIN},
                               {.fd = why == 0 ? h->listen_fd : -1, .events = POLLIN}};
        if (poll(on, 2, why == 0 ? -1 : why == EBUSY ? BEHIND_MS : REST_MS) > 0 && on[0].revents != 0)
            break;
        int before = why;
        why = take_all(h);
        if (why != 0 && before == 0 && why != EBUSY)
            ld_log(LD_LOG_WARN, "clients wait to be accepted: %s", strerror(why));
    }
    return NULL;
}

int ld_accept_start(struct ld_http *h)
{
    h->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (h->wake_fd < 0)
        return -1;
    if (pthread_create(&h->accepting, NULL, accept_all, h) == 0)
        return 0;
    close(h->wake_fd);
    return -1;
}

void ld_accept_end(struct ld_http *h)
{
    (void)!eventfd_write(h->wake_fd, 1);
    pthread_join(h->accepting, NULL);
    close(h->wake_fd);
    close(h->listen_fd);
}
