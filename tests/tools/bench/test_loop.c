/* The load of benches (tests/bench/bench_loop.h): its schedule and its latencies against Lindley's recursion for a
 * queue with one server, and over sockets with a server that stands still once: an open loop must show it, which a
 * closed one does not. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench_loop.h"
#include "kbt.h"

#define SECOND UINT64_C(1000000000)

/* --- arithmetic ------------------------------------------------------------------------------------------------ */

START_TEST(arrivals_are_poisson_and_do_not_depend_on_when_they_are_taken)
{
    struct bench_arrivals prompt, tardy;
    double mean = 0, square = 0;
    uint64_t last = 5 * SECOND, n = 0;
    bench_arrivals_begin(&prompt, 1000, 1, 5 * SECOND, 25 * SECOND, UINT64_MAX);
    bench_arrivals_begin(&tardy, 1000, 1, 5 * SECOND, 25 * SECOND, UINT64_MAX);
    for (uint64_t due; (due = bench_arrivals_due(&prompt, 0)) != UINT64_MAX; n++) {
        ck_assert_uint_ge(due, last);
        ck_assert_uint_lt(due, 25 * SECOND);
        ck_assert_uint_eq(bench_arrivals_take(&prompt, due), due);
        ck_assert_uint_eq(bench_arrivals_take(&tardy, 100 * SECOND), due);
        const double gap_s = (double)(due - last) / (double)SECOND;
        mean += gap_s;
        square += gap_s * gap_s;
        last = due;
    }
    ck_assert_uint_eq(bench_arrivals_due(&tardy, 100 * SECOND), UINT64_MAX);
    mean /= (double)n;
    /* Exponential gaps: mean 1/rate, standard deviation the same; n = 20,000, so five errors are 4 and 8 percent. */
    ck_assert_double_eq_tol(mean, 1e-3, 4e-5);
    ck_assert_double_eq_tol(sqrt(square / (double)n - mean * mean), 1e-3, 8e-5);
}
END_TEST

START_TEST(a_closed_loop_is_due_at_once_until_its_end_or_limit)
{
    struct bench_arrivals a;
    bench_arrivals_begin(&a, 0, 1, 10, 20, 3);
    ck_assert_uint_eq(bench_arrivals_due(&a, 12), 12);
    ck_assert_uint_eq(bench_arrivals_due(&a, 20), UINT64_MAX);
    for (uint64_t now = 12; now < 15; now++)
        ck_assert_uint_eq(bench_arrivals_take(&a, now), now);
    ck_assert_uint_eq(bench_arrivals_due(&a, 15), UINT64_MAX);
}
END_TEST

static int by_value(const void *x, const void *y)
{
    uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;
    return p < q ? -1 : p > q;
}

/* A server that takes 0.8 ms for each request, and 300 ms more for the hundredth, in simulated time. */
static uint64_t service_ns(uint64_t i)
{
    return 800000 + (i == 99) * 300000000;
}

/* Of a single server in the order of arrival: W(i+1) = max(0, W(i) + S(i) - A(i)), latency W + S. */
static size_t lindley(uint64_t *latency, double rate, uint64_t end)
{
    struct bench_arrivals a;
    uint64_t wait = 0, last = 0;
    size_t n = 0;

    bench_arrivals_begin(&a, rate, 9, 0, end, UINT64_MAX);
    for (uint64_t due; (due = bench_arrivals_due(&a, 0)) != UINT64_MAX; n++) {
        const uint64_t between = due - last;
        if (n > 0)
            wait = wait + service_ns(n - 1) > between ? wait + service_ns(n - 1) - between : 0;
        latency[n] = wait + service_ns(n);
        last = bench_arrivals_take(&a, due);
    }
    return n;
}

/* As the bench does it with one client: take what is due when idle, count from what take says. */
static void simulate(struct lc_histogram *h, double rate, uint64_t end)
{
    struct bench_arrivals a;
    uint64_t now = 0, i = 0;

    lc_histogram_clear(h);
    bench_arrivals_begin(&a, rate, 9, 0, end, UINT64_MAX);
    for (uint64_t due; (due = bench_arrivals_due(&a, now)) != UINT64_MAX; i++) {
        now = due > now ? due : now;
        const uint64_t from = bench_arrivals_take(&a, now);
        now += service_ns(i);
        lc_histogram_add(h, now - from);
    }
}

START_TEST(open_latencies_follow_lindley)
{
    enum { ROOM = 4000 };
    static uint64_t want[ROOM];
    static struct lc_histogram h;
    const double qs[] = {0.1, 0.5, 0.9, 0.99, 1};
    simulate(&h, 500, 4 * SECOND);
    const size_t n = lindley(want, 500, 4 * SECOND);
    ck_assert_uint_eq(h.count, n);
    ck_assert_uint_lt(n, ROOM);
    qsort(want, n, sizeof *want, by_value);
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        const double exact = (double)want[(size_t)ceil(qs[i] * (double)n) - 1];
        ck_assert_double_le(fabs((double)lc_histogram_quantile(&h, qs[i]) - exact), exact / 256 + 0.5);
    }
    simulate(&h, 0, 4 * SECOND); /* the same server under a closed loop: one slow answer, and the p99 knows nothing */
    ck_assert_uint_eq(lc_histogram_quantile(&h, 1), service_ns(99));
    ck_assert_double_eq_tol((double)lc_histogram_quantile(&h, 0.99), 800000, 800000 / 256.0 + 0.5);
}
END_TEST

/* --- a server that stands still once -------------------------------------------------------------------------------
 */

#define N_CLIENTS 4
#define STALL_MS 400
#define STALL_AT 40
#define GRACE_S 0.5

struct fake {
    pthread_t thread;
    int listen_fd, port;
    int n_seen, n_refused_at; /* the request that is answered 503, or 0 */
    bool is_stalling, is_mute;
};

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}";

/* Requests of the test come whole. False when the client has gone. */
static bool answer(struct fake *f, int fd)
{
    char in[256];

    if (recv(fd, in, sizeof in, 0) <= 0)
        return false;
    f->n_seen++;
    if (f->is_stalling && f->n_seen == STALL_AT)
        nanosleep(&(struct timespec){.tv_nsec = STALL_MS * 1000000L}, NULL);
    const char *text = f->n_seen == f->n_refused_at ? busy : ok;
    if (!f->is_mute)
        ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return true;
}

/* One thread for all connections, until the last of N_CLIENTS is closed. */
static void *run_fake(void *arg)
{
    struct fake *f = arg;
    struct pollfd p[N_CLIENTS];
    int n_open = N_CLIENTS;

    for (int i = 0; i < N_CLIENTS; i++)
        p[i] = (struct pollfd){.fd = accept(f->listen_fd, NULL, NULL), .events = POLLIN};
    while (n_open > 0 && poll(p, N_CLIENTS, -1) > 0)
        for (int i = 0; i < N_CLIENTS; i++)
            if (p[i].revents != 0 && !answer(f, p[i].fd)) {
                close(p[i].fd);
                p[i].fd = -1;
                n_open--;
            }
    return NULL;
}

static void start_fake(struct fake *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;

    f->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(f->listen_fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(f->listen_fd, 16), 0);
    ck_assert_int_eq(getsockname(f->listen_fd, (struct sockaddr *)&at, &n), 0);
    f->port = ntohs(at.sin_port);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, run_fake, f), 0);
}

static void play(struct fake *f, double rate, double seconds, uint64_t limit, struct bench_outcome *o)
{
    static const char text[] = "GET / HTTP/1.1\r\n\r\n";
    const struct bench_text request = {text, strlen(text)};

    start_fake(f);
    bench_loop_run(&(struct bench_plan){.port = f->port,
                                        .status = 200,
                                        .request = &request,
                                        .n_requests = 1,
                                        .limit = limit,
                                        .n_clients = N_CLIENTS,
                                        .n_threads = 2,
                                        .rate = rate,
                                        .seconds = seconds,
                                        .grace_s = GRACE_S},
                   o);
    pthread_join(f->thread, NULL);
    close(f->listen_fd);
}

/* Two fifths of the arrivals of a second fall into the pause, half of them with more than half of it to wait: a fifth,
 * hence the p85 is above half of the pause. A busy machine can only add to it. The closed loop saw the same pause. */
START_TEST(a_pause_shows_in_the_open_loop_and_hides_in_the_closed_one)
{
    static struct bench_outcome open, closed;
    const uint64_t pause = STALL_MS * UINT64_C(1000000);
    play(&(struct fake){.is_stalling = true}, 400, 1, UINT64_MAX, &open);
    play(&(struct fake){.is_stalling = true}, 0, 1, UINT64_MAX, &closed);
    ck_assert_uint_ge(lc_histogram_quantile(&open.latency, 0.85), pause / 2);
    ck_assert_uint_ge(closed.latency.max, pause / 4 * 3); /* the first one waits for it whole, the others nearly so */
    ck_assert_uint_lt(lc_histogram_quantile(&closed.latency, 0.85), pause / 20);
    ck_assert_uint_eq(open.n_answered, open.latency.count);
    ck_assert_uint_eq(open.n_refused + open.n_unanswered, 0);
}
END_TEST

/* Every request is played once, whatever the threads; another status is no answer. */
START_TEST(limits_and_statuses_are_counted)
{
    static struct bench_outcome o;
    struct fake f = {.n_refused_at = 7};
    play(&f, 0, 60, 101, &o);
    ck_assert_int_eq(f.n_seen, 101);
    ck_assert_uint_eq(o.n_answered, 100);
    ck_assert_uint_eq(o.n_refused, 1);
    ck_assert_uint_eq(o.n_bytes, 100 * strlen(ok) + strlen(busy));
}
END_TEST

/* Four are under way and the others wait in line: all of them count, with at least the grace that they were given. */
START_TEST(what_is_never_answered_counts_with_its_wait)
{
    static struct bench_outcome o;
    play(&(struct fake){.is_mute = true}, 200, 0.1, UINT64_MAX, &o);
    ck_assert_uint_eq(o.n_answered + o.n_refused, 0);
    ck_assert_uint_gt(o.n_unanswered, N_CLIENTS);
    ck_assert_uint_eq(o.latency.count, o.n_unanswered);
    ck_assert_uint_ge(o.latency.min, (uint64_t)(GRACE_S * 1e9));
}
END_TEST

int main(void)
{
    return KBT_RUN("arrivals", arrivals_are_poisson_and_do_not_depend_on_when_they_are_taken,
                   a_closed_loop_is_due_at_once_until_its_end_or_limit, open_latencies_follow_lindley) |
           KBT_RUN("loop", a_pause_shows_in_the_open_loop_and_hides_in_the_closed_one, limits_and_statuses_are_counted,
                   what_is_never_answered_counts_with_its_wait);
}
