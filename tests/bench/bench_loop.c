/* Load over epoll (bench_loop.h).
 *
 * A thread has its share of the clients and of the rate (a sum of Poisson processes is one), and plays every n-th
 * request, so that lists which may be played only once are. It sleeps until something is answered or due: ppoll takes
 * nanoseconds where epoll_wait takes milliseconds. Requests are written in one blocking call, as the socket's buffer is
 * empty when they are; answers are read by their Content-Length. */
#include "bench_loop.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench_machine.h"
#include "base/rng.h"

#define NAME "bench_loop"
#define S_NS 1e9
#define ROOM 65536 /* of an answer */
#define EVENTS 64

/* --- arrivals ------------------------------------------------------------------------------------------------ */

/* Exponential, in nanoseconds. */
static uint64_t gap(const struct bench_arrivals *a)
{
    return (uint64_t)(-log1p(-kb_rng_uniform(a->seed, KB_STREAM_SIMULATION, a->n_taken)) / a->rate * S_NS);
}

void bench_arrivals_begin(struct bench_arrivals *a, double rate, uint64_t seed, uint64_t start_ns, uint64_t end_ns,
                          uint64_t limit)
{
    *a = (struct bench_arrivals){.rate = rate, .seed = seed, .end_ns = end_ns, .limit = limit};
    a->due_ns = start_ns + (rate > 0 ? gap(a) : 0);
}

uint64_t bench_arrivals_due(const struct bench_arrivals *a, uint64_t now_ns)
{
    const uint64_t due = a->rate > 0 ? a->due_ns : now_ns;
    return a->n_taken < a->limit && due < a->end_ns ? due : UINT64_MAX;
}

uint64_t bench_arrivals_take(struct bench_arrivals *a, uint64_t now_ns)
{
    const uint64_t due = a->rate > 0 ? a->due_ns : now_ns;

    a->n_taken++;
    if (a->rate > 0)
        a->due_ns += gap(a);
    return due;
}

/* --- clients ------------------------------------------------------------------------------------------------- */

struct client {
    int fd;
    uint64_t from_ns; /* of the request under way */
    size_t n_in;
    char in[ROOM];
};

struct worker {
    pthread_t thread;
    const struct bench_plan *plan;
    struct bench_arrivals arrivals;
    struct client *client;
    struct client **idle; /* a stack */
    size_t n_clients, n_idle, next_request;
    int epoll;
    uint64_t idle_since_ns, give_up_ns; /* since when somebody has been idle */
    struct bench_outcome outcome;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open_client(struct worker *w, struct client *c)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)w->plan->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    const int on = 1;

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&at, sizeof at) != 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, c->fd, &ev) != 0)
        bench_die(NAME, "connecting");
    w->idle[w->n_idle++] = c;
}

static void send_request(struct client *c, const struct bench_text *t)
{
    for (size_t at = 0; at < t->n;) {
        const ssize_t done = send(c->fd, t->bytes + at, t->n - at, MSG_NOSIGNAL);

        if (done <= 0)
            bench_die(NAME, "sending a request");
        at += (size_t)done;
    }
    c->n_in = 0;
}

/* Sends what is due while somebody is idle. Late is what the bench itself lost: an arrival that found all clients busy
 * is the server's doing up to the moment when one came free. */
static void send_due(struct worker *w)
{
    uint64_t now = now_ns();

    while (w->n_idle > 0 && bench_arrivals_due(&w->arrivals, now) <= now) {
        struct client *c = w->idle[--w->n_idle];

        c->from_ns = bench_arrivals_take(&w->arrivals, now);
        const uint64_t could = c->from_ns > w->idle_since_ns ? c->from_ns : w->idle_since_ns;
        lc_histogram_add(&w->outcome.late, now > could ? now - could : 0);
        send_request(c, &w->plan->request[w->next_request % w->plan->n_requests]);
        w->next_request += w->plan->n_threads;
        now = now_ns();
    }
}

/* Bytes of the whole answer: 0 while its head is not there. */
static size_t answer_bytes(const struct client *c)
{
    const char *end = memmem(c->in, c->n_in, "\r\n\r\n", 4);
    const char *length = end != NULL ? strcasestr(c->in, "\r\nContent-Length:") : NULL;
    const size_t n_head = end != NULL ? (size_t)(end - c->in) + 4 : 0;
    return length != NULL && length < end ? n_head + strtoul(length + 17, NULL, 10) : n_head;
}

static void count_answer(struct worker *w, struct client *c)
{
    const uint64_t now = now_ns();

    lc_histogram_add(&w->outcome.latency, now - c->from_ns);
    w->outcome.n_bytes += c->n_in;
    if (c->n_in > 12 && atoi(c->in + 9) == w->plan->status)
        w->outcome.n_answered++;
    else
        w->outcome.n_refused++;
    c->from_ns = 0;
    if (w->n_idle == 0)
        w->idle_since_ns = now;
    w->idle[w->n_idle++] = c;
}

static void read_answer(struct worker *w, struct client *c)
{
    const ssize_t got = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in - 1, MSG_DONTWAIT);

    if (got <= 0)
        bench_die(NAME, "reading an answer (of 64 kB at most)");
    c->n_in += (size_t)got;
    c->in[c->n_in] = '\0';
    const size_t n = answer_bytes(c);
    if (n > 0 && c->n_in >= n)
        count_answer(w, c);
}

/* --- the loop -------------------------------------------------------------------------------------------------- */

/* Until something can be read, or something is due that an idle client could send, or the bench gives up. */
static void wait_for_news(const struct worker *w)
{
    const uint64_t now = now_ns(), due = w->n_idle > 0 ? bench_arrivals_due(&w->arrivals, now) : UINT64_MAX;
    const uint64_t until = due < w->give_up_ns ? due : w->give_up_ns, ns = until > now ? until - now : 0;
    const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    struct pollfd p = {.fd = w->epoll, .events = POLLIN};

    (void)ppoll(&p, 1, &t, NULL);
}

static void take_answers(struct worker *w)
{
    struct epoll_event ev[EVENTS];
    const int n = epoll_wait(w->epoll, ev, EVENTS, 0);

    for (int i = 0; i < n; i++)
        read_answer(w, ev[i].data.ptr);
}

/* What was sent and not answered, and what was due and not sent, has waited until now at least. */
static void count_unanswered(struct worker *w, uint64_t now)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->client[i].from_ns != 0) {
            lc_histogram_add(&w->outcome.latency, now - w->client[i].from_ns);
            w->outcome.n_unanswered++;
        }
    while (w->arrivals.rate > 0 && bench_arrivals_due(&w->arrivals, now) <= now) {
        lc_histogram_add(&w->outcome.latency, now - bench_arrivals_take(&w->arrivals, now));
        w->outcome.n_unanswered++;
    }
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    const uint64_t start = now_ns();

    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* 50 us otherwise */
    const double rate = w->plan->rate / w->plan->n_threads;
    const uint64_t limit =
        w->plan->limit / w->plan->n_threads + (w->next_request < w->plan->limit % w->plan->n_threads);
    bench_arrivals_begin(&w->arrivals, rate, w->next_request + 1, start, start + (uint64_t)(w->plan->seconds * S_NS),
                         limit);
    w->give_up_ns = start + (uint64_t)((w->plan->seconds + w->plan->grace_s) * S_NS);
    w->idle_since_ns = start;
    uint64_t now = start;
    while (now < w->give_up_ns && (w->n_idle < w->n_clients || bench_arrivals_due(&w->arrivals, now) != UINT64_MAX)) {
        send_due(w);
        wait_for_news(w);
        take_answers(w);
        now = now_ns();
    }
    count_unanswered(w, now);
    w->outcome.seconds = (double)(now - start) / S_NS;
    return NULL;
}

static void open_worker(struct worker *w, const struct bench_plan *plan, unsigned i)
{
    *w = (struct worker){.plan = plan, .next_request = i, .epoll = epoll_create1(0)};
    w->n_clients = plan->n_clients / plan->n_threads + (i < plan->n_clients % plan->n_threads);
    w->client = calloc(w->n_clients, sizeof *w->client);
    w->idle = calloc(w->n_clients, sizeof(struct client *));
    if (w->epoll < 0 || w->client == NULL || w->idle == NULL)
        bench_die(NAME, "memory");
    lc_histogram_clear(&w->outcome.latency);
    lc_histogram_clear(&w->outcome.late);
    for (size_t k = 0; k < w->n_clients; k++)
        open_client(w, &w->client[k]);
}

static void close_worker(struct worker *w, struct bench_outcome *into)
{
    const struct bench_outcome *o = &w->outcome;

    lc_histogram_merge(&into->latency, &o->latency);
    lc_histogram_merge(&into->late, &o->late);
    into->n_answered += o->n_answered;
    into->n_refused += o->n_refused;
    into->n_unanswered += o->n_unanswered;
    into->n_bytes += o->n_bytes;
    into->seconds = o->seconds > into->seconds ? o->seconds : into->seconds;
    for (size_t k = 0; k < w->n_clients; k++)
        close(w->client[k].fd);
    close(w->epoll);
    free(w->client);
    free(w->idle);
}

void bench_loop_run(const struct bench_plan *plan, struct bench_outcome *out)
{
    struct worker *w = calloc(plan->n_threads, sizeof *w);

    if (w == NULL || plan->n_requests == 0 || plan->n_clients < plan->n_threads)
        bench_die(NAME, "a plan");
    memset(out, 0, sizeof *out);
    lc_histogram_clear(&out->latency);
    lc_histogram_clear(&out->late);
    for (unsigned i = 0; i < plan->n_threads; i++)
        open_worker(&w[i], plan, i);
    for (unsigned i = 0; i < plan->n_threads; i++)
        if (pthread_create(&w[i].thread, NULL, run_worker, &w[i]) != 0)
            bench_die(NAME, "a thread");
    for (unsigned i = 0; i < plan->n_threads; i++) {
        pthread_join(w[i].thread, NULL);
        close_worker(&w[i], out);
    }
    free(w);
}
