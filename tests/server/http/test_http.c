/* The HTTP server over real loopback sockets: replies from other threads, clients that leave, bodies that are slow, too
 * large or unwanted, pipelines, and the end of the server. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http.h"
#include "kbt.h"
#include "base/metrics.h"
#include "raw_http.h"

static struct ld_http *server;
static struct ld_metrics metrics;
static atomic_int n_handled, n_workers;
static _Atomic(struct ld_request *) kept; /* of "/never" and "/left": replied to by the test itself */
static atomic_bool has_left;              /* the client of "/left", who has reset its connection */
static struct kbt_response answer;
static char spool_path[64];
static atomic_int n_sent; /* files that were sent, or whose client has gone */

/* Answers with "METHOD PATH BYTES". */
static void reply_echo(struct ld_request *r)
{
    size_t n;
    char *text = malloc(512);
    ld_request_body(r, &n);
    int length = snprintf(text, 512, "%s %s %zu", ld_request_method(r), ld_request_path(r), n);
    ld_reply(r, &(struct ld_reply){.content_type = "text/plain", .text = text, .n = (size_t)length});
}

static void *reply_later(void *arg)
{
    struct ld_request *r = arg;
    const char *ms = ld_request_query(r, "ms");
    if (ms != NULL && atoi(ms) > 0)
        kbt_pause_ms(atoi(ms));
    reply_echo(r);
    atomic_fetch_sub(&n_workers, 1);
    return NULL;
}

static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg;
    if (strcmp(ld_request_path(r), "/refused") == 0)
        ld_reply_status(r, 401, "no");
    if (strcmp(ld_request_path(r), "/spooled") == 0)
        ld_request_spool(r, spool_path);
    *(int *)ld_request_context(r) = 3; /* the row of its route */
    return strcmp(ld_request_path(r), "/small") == 0 ? 10 : 1 << 20;
}

static void count_sent(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_sent, 1);
}

/* What is in the body's file, from a file that has no name any more. */
static void reply_from_file(struct ld_request *r)
{
    size_t n;
    const struct ld_header header = {"Laplaced-Seq", "7"};
    ld_request_body(r, &n);
    const int fd = open(ld_request_body_file(r), O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ld_reply_file(r, &(struct ld_body_file){.content_type = "text/plain",
                                            .fd = fd,
                                            .bytes = n,
                                            .headers = &header,
                                            .n_headers = 1,
                                            .done = count_sent});
}

/* What is kept apart from the connection says the same as the connection. */
static void reply_from_head(struct ld_request *r)
{
    static const char *const headers[] = {"laplaced-tenant", "LAPLACED-TENANT", "Origin", "Empty", "Twice"};
    static const char *const queries[] = {"a", "A", "flag", "none", ""};
    const char *before[2][5], *after;
    for (size_t i = 0; i < 5; i++) {
        before[0][i] = ld_request_header(r, headers[i]);
        before[1][i] = ld_request_query(r, queries[i]);
    }
    bool is_same = ld_request_keep_head(r) == 0 && ld_request_keep_head(r) == 0;
    for (size_t i = 0; i < 10; i++) {
        const char *was = before[i / 5][i % 5];
        after = i < 5 ? ld_request_header(r, headers[i]) : ld_request_query(r, queries[i - 5]);
        is_same =
            is_same && (was == NULL) == (after == NULL) && (was == NULL || (was != after && strcmp(was, after) == 0));
    }
    is_same = is_same && strcmp(ld_request_header(r, "Laplaced-Tenant"), "shop") == 0 &&
              strcmp(ld_request_query(r, "a"), "b c") == 0;
    ld_reply_status(r, is_same ? 418 : 500, "compared");
}

static void handle(void *arg, struct ld_request *r)
{
    pthread_t worker;
    (void)arg;
    atomic_fetch_add(&n_handled, 1);
    if (strcmp(ld_request_path(r), "/never") == 0) {
        atomic_store(&kept, r);
    } else if (strcmp(ld_request_path(r), "/left") == 0) {
        if (ld_request_keep_head(r) != 0)
            abort();
        while (!atomic_load(&has_left)) /* in the library's thread, which sees it next */
            kbt_pause_ms(1);
        atomic_store(&kept, r);
    } else if (strcmp(ld_request_path(r), "/head") == 0) {
        reply_from_head(r);
    } else if (strcmp(ld_request_path(r), "/spooled") == 0) {
        reply_from_file(r);
    } else if (strcmp(ld_request_path(r), "/busy") == 0) {
        kbt_pause_ms(30); /* in the library's thread */
        reply_echo(r);
    } else if (strcmp(ld_request_path(r), "/later") == 0) {
        atomic_fetch_add(&n_workers, 1);
        pthread_attr_t detached; /* from the start: detaching a thread that may be gone reads what is freed */
        if (pthread_attr_init(&detached) != 0 || pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) != 0 ||
            pthread_create(&worker, &detached, reply_later, r) != 0)
            abort();
        pthread_attr_destroy(&detached);
    } else {
        reply_echo(r);
    }
}

static void completed(void *arg, const struct ld_request *r, const struct ld_outcome *o)
{
    (void)arg;
    if (o->status != 0)
        ld_count_request(&metrics, *(const int *)ld_request_context(r), o->status, o->us);
}

static const struct ld_http_hooks hooks = {
    .n_context = sizeof(int), .admit = admit, .handle = handle, .completed = completed};

/* The timer: the server's own ticks every 250 ms. */
static atomic_bool is_ticking;
static pthread_t ticker;

static void *tick(void *arg)
{
    (void)arg;
    while (atomic_load(&is_ticking)) {
        ld_http_sweep(server);
        kbt_pause_ms(20);
    }
    return NULL;
}

static void start_ticking(void)
{
    atomic_store(&is_ticking, true);
    ck_assert_int_eq(pthread_create(&ticker, NULL, tick, NULL), 0);
}

static void stop_ticking(void)
{
    if (atomic_exchange(&is_ticking, false))
        pthread_join(ticker, NULL);
}

static void start(void)
{
    struct ld_message why;
    const struct ld_http_options o = {
        .host = "127.0.0.1",
        .threads = 2,
        .limits = {.timeout_s = 1, .head_timeout_s = 1, .body_timeout_s = 1, .min_rate = 1024},
        .max_head = 16384,
        .max_connections = 256,
        .metrics = &metrics};
    memset(&metrics, 0, sizeof metrics);
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
    start_ticking();
}

static void stop(void)
{
    while (atomic_load(&n_workers) > 0)
        kbt_pause_ms(1);
    stop_ticking();
    ld_http_stop(server);
}

static int dial(void)
{
    int fd = kbt_connect(ld_http_port(server));
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void ask(int fd, const char *request)
{
    kbt_send(fd, request);
    kbt_receive(fd, &answer);
}

static void wait_until_idle(void)
{
    for (int i = 0; i < 3000 && ld_http_in_flight(server) > 0; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(ld_http_in_flight(server), 0);
}

/* The count follows the end of the connection. */
static void wait_until_timed_out(enum ld_timed_phase phase)
{
    for (int i = 0; i < 5000 && atomic_load(&metrics.connections_timed_out[phase]) == 0; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(atomic_load(&metrics.connections_timed_out[phase]), 1);
}

/* --- replies ---------------------------------------------------------------------------------------- */

START_TEST(handler_sees_method_path_and_body)
{
    int fd = dial();
    ask(fd, "POST /a%41%2fb%25?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(answer.body, "POST /aA%2Fb%25 5");
    ck_assert(kbt_has_header(&answer, "Content-Type", "text/plain"));
    close(fd);
}
END_TEST

START_TEST(reply_of_another_thread_resumes_the_connection)
{
    int fd = dial();
    ask(fd, "POST /later?ms=30 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(answer.body, "POST /later 3");
    close(fd);
}
END_TEST

/* A reply without delay meets the suspension at every point of its way. */
START_TEST(replies_that_cross_the_suspension_all_arrive)
{
    enum { N = 20 };
    int fd[N];
    for (int i = 0; i < N; i++)
        fd[i] = dial();
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < N; i++)
            kbt_send(fd[i], "GET /later?ms=0 HTTP/1.1\r\nHost: x\r\n\r\n");
        for (int i = 0; i < N; i++) {
            kbt_receive(fd[i], &answer);
            ck_assert_str_eq(answer.body, "GET /later 0");
        }
    }
    for (int i = 0; i < N; i++)
        close(fd[i]);
    ck_assert_int_eq(atomic_load(&n_handled), N * 40);
}
END_TEST

START_TEST(head_is_answered_without_a_body)
{
    int fd = dial();
    kbt_send(fd, "HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n");
    kbt_receive_head(fd, &answer);
    ck_assert_int_eq(answer.status, 200);
    ck_assert(kbt_has_header(&answer, "Content-Length", "9")); /* "HEAD /x 0" */
    ask(fd, "GET /y HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_str_eq(answer.body, "GET /y 0");
    close(fd);
}
END_TEST

/* Over all durations. */
static uint64_t count_of(int route, int status)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= LD_HIST_BUCKETS; i++)
        n += atomic_load(&metrics.requests[route].n[ld_slot_of_status(status)][i]);
    return n;
}

START_TEST(requests_are_completed_with_their_status_and_memory)
{
    int fd = dial();
    ask(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    ask(fd, "GET /refused HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert(kbt_has_header(&answer, "WWW-Authenticate", "Bearer realm=\"laplaced\""));
    wait_until_idle();
    ck_assert_uint_eq(count_of(3, 200), 1);
    ck_assert_uint_eq(count_of(3, 401), 1);
    ck_assert_uint_eq(count_of(3, 400), 0);
    close(fd);
}
END_TEST

/* --- clients that misbehave ------------------------------------------------------------------------- */

START_TEST(client_that_leaves_while_suspended_is_forgotten)
{
    for (int i = 0; i < 20; i++) {
        int fd = dial();
        kbt_send(fd, "GET /later?ms=50 HTTP/1.1\r\nHost: x\r\n\r\n");
        kbt_pause_ms(2);
        close(fd);
    }
    kbt_pause_ms(20);
    wait_until_idle();
    int fd = dial();
    ask(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_int_eq(answer.status, 200);
    close(fd);
}
END_TEST

START_TEST(head_can_be_kept_apart_from_the_connection)
{
    int fd = dial();
    ask(fd, "GET /head?a=b%20c&flag HTTP/1.1\r\nHost: x\r\nLaplaced-Tenant: shop\r\nEmpty:\r\nTwice: 1\r\nTwice: "
            "2\r\n\r\n");
    ck_assert_int_eq(answer.status, 418);
    close(fd);
}
END_TEST

#define N_OLDER 8

/* A request that its client resets while the handler is called; it is in `kept`. Whether the connection goes before it
 * is suspended: where the thread has an older one, which it looks after first. */
static bool reset_while_handled(void)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    const int n_before = atomic_load(&n_handled);
    int older[N_OLDER];
    for (size_t i = 0; i < N_OLDER; i++)
        older[i] = dial();
    const int fd = dial();
    atomic_store(&has_left, false);
    atomic_store(&kept, NULL);
    kbt_send(fd, "GET /left?a=b%20c&flag HTTP/1.1\r\nHost: x\r\nLaplaced-Tenant: shop\r\n\r\n");
    for (int i = 0; i < 3000 && atomic_load(&n_handled) == n_before; i++)
        kbt_pause_ms(1);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    atomic_store(&has_left, true);
    for (int i = 0; i < 3000 && atomic_load(&kept) == NULL; i++)
        kbt_pause_ms(1);
    for (int i = 0; i < 100 && ld_http_in_flight(server) > 0; i++)
        kbt_pause_ms(1);
    const bool is_gone = ld_http_in_flight(server) == 0;
    for (size_t i = 0; i < N_OLDER; i++)
        close(older[i]);
    return is_gone;
}

START_TEST(head_outlives_a_connection_that_goes_while_another_thread_has_the_request)
{
    bool is_gone = false;
    for (int i = 0; i < 20 && !is_gone; i++) {
        is_gone = reset_while_handled();
        kbt_pause_ms(20); /* its memory is freed a moment later */
        struct ld_request *r = atomic_load(&kept);
        ck_assert_ptr_nonnull(r);
        ck_assert_str_eq(ld_request_header(r, "laplaced-tenant"), "shop");
        ck_assert_ptr_null(ld_request_header(r, "Origin"));
        ck_assert_str_eq(ld_request_query(r, "a"), "b c");
        ck_assert_str_eq(ld_request_query(r, "flag"), "");
        ck_assert_ptr_null(ld_request_query(r, "b"));
        reply_echo(r);
        wait_until_idle();
    }
    ck_assert(is_gone);
}
END_TEST

START_TEST(client_that_leaves_within_its_body_is_forgotten)
{
    int fd = dial();
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    for (int i = 0; i < 2000 && ld_http_in_flight(server) == 0; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(ld_http_in_flight(server), 1);
    close(fd);
    wait_until_idle();
    ck_assert_int_eq(atomic_load(&n_handled), 0);
}
END_TEST

START_TEST(slow_body_is_waited_for)
{
    int fd = dial();
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n");
    for (int i = 0; i < 8; i++) {
        kbt_pause_ms(20);
        kbt_send(fd, "z");
    }
    kbt_receive(fd, &answer);
    ck_assert_str_eq(answer.body, "POST /x 8");
    close(fd);
}
END_TEST

START_TEST(body_that_stops_coming_ends_the_connection)
{
    int fd = dial();
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nabc");
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 408);
    ck_assert(kbt_has_header(&answer, "Connection", "close"));
    ck_assert(kbt_is_closed(fd, 3000));
    wait_until_idle();
    ck_assert_int_eq(atomic_load(&n_handled), 0);
    wait_until_timed_out(LD_TIMED_BODY);
    close(fd);
}
END_TEST

/* A byte now and then is never idle; it is too slow all the same. */
START_TEST(body_that_trickles_ends_the_connection)
{
    int fd = dial();
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    for (int i = 0; i < 600 && atomic_load(&metrics.connections_timed_out[LD_TIMED_BODY]) == 0; i++) {
        kbt_send(fd, "z");
        kbt_pause_ms(10);
    }
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 408);
    close(fd);
}
END_TEST

/* Bodies that become whole at the moment when their time is up: each is either answered by the handler or told 408,
 * never both, and nothing is handled that was told so. */
START_TEST(body_is_either_handled_or_out_of_time)
{
    enum { N = 120 };
    static const char head[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na";
    int fd[N], n_handled_here = 0;
    for (int i = 0; i < N; i++) {
        fd[i] = dial();
        kbt_send(fd[i], head);
    }
    kbt_pause_ms(960);
    for (int i = 0; i < N; i++) {
        kbt_send(fd[i], "b");
        kbt_pause_ms(1);
    }
    for (int i = 0; i < N; i++) {
        kbt_receive(fd[i], &answer);
        ck_assert_msg(answer.status == 200 || answer.status == 408, "%d", answer.status);
        n_handled_here += answer.status == 200;
        if (answer.status == 408)
            ck_assert(kbt_is_closed(fd[i], 3000));
        close(fd[i]);
    }
    wait_until_idle();
    ck_assert_int_eq(atomic_load(&n_handled), n_handled_here);
    ck_assert_int_lt(n_handled_here, N);
}
END_TEST

START_TEST(headers_that_trickle_end_the_connection)
{
    int fd = dial();
    for (int i = 0; i < 600 && atomic_load(&metrics.connections_timed_out[LD_TIMED_HEADERS]) == 0; i++) {
        kbt_send(fd, i == 0 ? "GET /x HTTP/1.1\r\n" : "a");
        kbt_pause_ms(10);
    }
    wait_until_timed_out(LD_TIMED_HEADERS);
    ck_assert(kbt_is_closed(fd, 3000));
    close(fd);
}
END_TEST

START_TEST(body_beyond_the_limit_is_refused_and_the_connection_kept)
{
    int fd = dial();
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world");
    ck_assert_int_eq(answer.status, 413);
    ck_assert(kbt_has_header(&answer, "Content-Type", "application/problem+json"));
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhelloworld");
    ck_assert_str_eq(answer.body, "POST /small 10");
    ck_assert_int_eq(atomic_load(&n_handled), 1);
    close(fd);
}
END_TEST

START_TEST(chunked_body_beyond_the_limit_is_refused)
{
    int fd = dial();
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "8\r\naaaaaaaa\r\n8\r\nbbbbbbbb\r\n0\r\n\r\n");
    ck_assert_int_eq(answer.status, 413);
    ck_assert(kbt_is_closed(fd, 3000));
    close(fd);
    fd = dial();
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\naaaa\r\n4\r\nbbbb\r\n0\r\n\r\n");
    ck_assert_str_eq(answer.body, "POST /small 8");
    close(fd);
}
END_TEST

START_TEST(large_body_beyond_the_limit_is_read_before_the_refusal)
{
    enum { N = 3 << 20 };
    char *body = malloc(N);
    int fd = dial();
    memset(body, 'x', N);
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3145728\r\n\r\n");
    kbt_send_bytes(fd, body, N);
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 413);
    free(body);
    close(fd);
}
END_TEST

START_TEST(body_at_the_limit_arrives_whole)
{
    enum { N = 1 << 20 };
    char *body = malloc(N);
    int fd = dial();
    memset(body, 'x', N);
    kbt_send(fd, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n");
    kbt_send_bytes(fd, body, N);
    kbt_receive(fd, &answer);
    ck_assert_str_eq(answer.body, "POST /x 1048576");
    free(body);
    close(fd);
}
END_TEST

START_TEST(client_that_asks_before_sending_is_refused_at_once)
{
    int fd = dial();
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(answer.status, 413);
    close(fd);
    fd = dial();
    ask(fd, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    ck_assert_int_eq(answer.status, 100);
    ask(fd, "hello");
    ck_assert_str_eq(answer.body, "POST /small 5");
    close(fd);
}
END_TEST

START_TEST(refusal_by_the_headers_never_reaches_the_handler)
{
    int fd = dial();
    ask(fd, "POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    ck_assert_int_eq(answer.status, 401);
    ask(fd, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"); /* the body was not taken for a request */
    ck_assert_int_eq(answer.status, 200);
    ck_assert_int_eq(atomic_load(&n_handled), 1);
    close(fd);
}
END_TEST

/* --- files -------------------------------------------------------------------------------------------- */

/* The library lets go of an answer after it has told that the request is over. */
static void wait_until_sent(void)
{
    for (int i = 0; i < 3000 && atomic_load(&n_sent) == 0; i++)
        kbt_pause_ms(1);
    ck_assert_int_eq(atomic_load(&n_sent), 1);
}

static void name_spool(void)
{
    snprintf(spool_path, sizeof spool_path, "/tmp/laplaced-test-%d", (int)getpid());
    ck_assert_int_ne(access(spool_path, F_OK), 0);
}

START_TEST(spooled_body_is_a_file_until_the_reply)
{
    name_spool();
    int fd = dial();
    ask(fd, "PUT /spooled HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, "
            "world\r\n0\r\n\r\n");
    ck_assert_int_eq(answer.status, 200);
    ck_assert_str_eq(answer.body, "hello, world");
    ck_assert(kbt_has_header(&answer, "Laplaced-Seq", "7"));
    ck_assert_int_ne(access(spool_path, F_OK), 0);
    ck_assert(kbt_is_closed(fd, 3000)); /* it came in chunks */
    close(fd);
    wait_until_idle();
    wait_until_sent();
}
END_TEST

START_TEST(spooled_body_goes_with_the_client_that_leaves)
{
    name_spool();
    int fd = dial();
    kbt_send(fd, "PUT /spooled HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhello");
    for (int i = 0; i < 3000 && access(spool_path, F_OK) != 0; i++)
        kbt_pause_ms(1);
    ck_assert_int_eq(access(spool_path, F_OK), 0);
    close(fd);
    wait_until_idle();
    ck_assert_int_ne(access(spool_path, F_OK), 0);
    ck_assert_int_eq(atomic_load(&n_handled), 0);
}
END_TEST

START_TEST(spooled_body_that_has_no_room_is_refused_as_such)
{
    struct rlimit limit;
    name_spool();
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 3;
    setrlimit(RLIMIT_FSIZE, &limit);
    int fd = dial();
    kbt_send(fd, "PUT /spooled HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello");
    kbt_pause_ms(50);
    ask(fd, "world");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(answer.status, 507);
    ck_assert_int_ne(access(spool_path, F_OK), 0);
    ck_assert_int_eq(atomic_load(&n_handled), 0);
    close(fd);
}
END_TEST

/* A client that never reads: its file is let go when the connection has been idle for too long. */
START_TEST(file_is_let_go_when_its_client_does_not_read)
{
    name_spool();
    char *body = calloc(1, (1 << 20) - 1);
    int fd = dial();
    kbt_send(fd, "PUT /spooled HTTP/1.1\r\nHost: x\r\nContent-Length: 1048575\r\n\r\n");
    kbt_send_bytes(fd, body, (1 << 20) - 1);
    free(body);
    wait_until_idle();
    wait_until_sent();
    ck_assert_int_ne(access(spool_path, F_OK), 0);
    close(fd);
}
END_TEST

/* --- connections ------------------------------------------------------------------------------------ */

START_TEST(pipelined_requests_are_answered_in_order)
{
    int fd = dial();
    kbt_send(fd, "GET /later?ms=40 HTTP/1.1\r\nHost: x\r\n\r\n"
                 "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
                 "GET /later?ms=0 HTTP/1.1\r\nHost: x\r\n\r\n"
                 "GET /d HTTP/1.1\r\nHost: x\r\n\r\n");
    const char *const want[] = {"GET /later 0", "POST /b 2", "GET /later 0", "GET /d 0"};
    for (int i = 0; i < 4; i++) {
        kbt_receive(fd, &answer);
        ck_assert_str_eq(answer.body, want[i]);
    }
    close(fd);
}
END_TEST

START_TEST(connection_is_kept_until_the_client_says_close)
{
    int fd = dial();
    ask(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    ask(fd, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_str_eq(answer.body, "GET /b 0");
    ask(fd, "GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ck_assert_str_eq(answer.body, "GET /c 0");
    ck_assert(kbt_is_closed(fd, 3000));
    close(fd);
}
END_TEST

/* Its end arrives with the request, or while the request waits; others come and go beside it. */
START_TEST(client_that_has_said_all_gets_its_answer)
{
    int other = dial();
    for (int i = 0; i < 40; i++) {
        int fd = dial();
        kbt_send(fd, "POST /later?ms=10 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
        kbt_pause_ms(i % 4);
        shutdown(fd, SHUT_WR);
        kbt_receive(fd, &answer);
        ck_assert_str_eq(answer.body, "POST /later 2");
        ck_assert(kbt_is_closed(fd, 3000));
        close(fd);
    }
    close(other);
}
END_TEST

/* While the one thread is busy, so many requests come that the library has as many events as it takes in a round. */
START_TEST(a_full_round_of_requests_is_not_slept_over)
{
    enum { N = 128 };
    static const char request[] = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd[N];
    struct ld_message why;
    const struct ld_http_options o = {.host = "127.0.0.1", .threads = 1, .max_connections = 256, .metrics = &metrics};
    stop_ticking();
    ld_http_stop(server);
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
    start_ticking();
    int busy = dial();
    for (int i = 0; i < N; i++) {
        fd[i] = dial();
        ask(fd[i], request);
    }
    for (int round = 0; round < 10; round++) {
        kbt_send(busy, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
        kbt_pause_ms(5);
        for (int i = 0; i < N; i++)
            kbt_send(fd[i], request);
        for (int i = 0; i < N; i++) {
            kbt_receive(fd[i], &answer);
            ck_assert_int_eq(answer.status, 200);
        }
        kbt_receive(busy, &answer);
        ck_assert_int_eq(answer.status, 200);
    }
    for (int i = 0; i < N; i++)
        close(fd[i]);
    close(busy);
}
END_TEST

/* Of a server with room for four. */
static struct ld_http *crowded;
static atomic_int n_answered, n_turned_away;

static void *crowd(void *arg)
{
    static const char request[] = "GET /later?ms=1 HTTP/1.1\r\nHost: x\r\n\r\n";
    struct kbt_response *got = arg;
    for (int i = 0; i < 60; i++) {
        int fd = kbt_connect(ld_http_port(crowded));
        if (fd < 0)
            abort();
        for (int k = 0; k < 3; k++) {
            kbt_send(fd, request);
            kbt_receive(fd, got);
            if (got->status != 200)
                break;
            atomic_fetch_add(&n_answered, 1);
        }
        if (got->status != 200 && got->status != 503 && got->status != 0)
            abort();
        atomic_fetch_add(&n_turned_away, got->status != 200);
        close(fd);
    }
    return NULL;
}

static void *sweep(void *arg)
{
    while (atomic_load((atomic_bool *)arg))
        ld_http_sweep(crowded);
    return NULL;
}

/* Connections begin, end, give way and are refused in all threads at once while the timer never rests. */
START_TEST(crowds_beyond_the_number_are_counted_right)
{
    enum { N = 8 };
    static struct kbt_response got[N];
    static atomic_bool is_sweeping;
    struct ld_metrics *counts = calloc(1, sizeof *counts);
    const struct ld_http_options o = {.host = "127.0.0.1",
                                      .threads = 2,
                                      .limits = {.timeout_s = 1, .head_timeout_s = 1, .body_timeout_s = 1},
                                      .max_connections = 4,
                                      .metrics = counts};
    struct ld_message why;
    pthread_t client[N], sweeper;
    ck_assert_msg(ld_http_start(&crowded, &o, &hooks, &why) == 0, "%s", why.text);
    atomic_store(&is_sweeping, true);
    ck_assert_int_eq(pthread_create(&sweeper, NULL, sweep, &is_sweeping), 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(pthread_create(&client[i], NULL, crowd, &got[i]), 0);
    for (int i = 0; i < N; i++)
        pthread_join(client[i], NULL);
    atomic_store(&is_sweeping, false);
    pthread_join(sweeper, NULL);
    ck_assert_int_gt(atomic_load(&n_answered), 0);
    ck_assert_int_gt(atomic_load(&n_turned_away), 0);
    for (int i = 0; i < 5000 && atomic_load(&counts->connections) > 0; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(atomic_load(&counts->connections), 0);
    ck_assert_uint_gt(atomic_load(&counts->connections_refused) + atomic_load(&counts->connections_gave_way), 0);
    ld_http_stop(crowded);
    free(counts);
}
END_TEST

START_TEST(quiescing_finishes_what_was_accepted_and_takes_no_more)
{
    int fd = dial(), idle = dial();
    ask(idle, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    kbt_send(fd, "GET /later?ms=200 HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 2000 && atomic_load(&n_handled) < 2; i++)
        kbt_pause_ms(1);
    ld_http_quiesce(server);
    ck_assert_int_eq(kbt_connect(ld_http_port(server)), -1);
    ask(idle, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n"); /* open connections are still served, for the last time */
    ck_assert_str_eq(answer.body, "GET /b 0");
    ck_assert(kbt_has_header(&answer, "Connection", "close"));
    kbt_receive(fd, &answer);
    ck_assert_str_eq(answer.body, "GET /later 0");
    ck_assert(kbt_has_header(&answer, "Connection", "close"));
    wait_until_idle();
    close(fd);
    close(idle);
}
END_TEST

START_TEST(stopping_answers_those_who_wait_and_drops_the_late_reply)
{
    int fd = dial();
    kbt_send(fd, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 2000 && atomic_load(&kept) == NULL; i++)
        kbt_pause_ms(1);
    kbt_pause_ms(20);
    stop_ticking();
    ld_http_stop(server);
    server = NULL;
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 503);
    ck_assert(kbt_has_header(&answer, "Retry-After", "1"));
    reply_echo(atomic_load(&kept)); /* to a server that is gone */
    close(fd);
}
END_TEST

/* Knocks on the port without a pause until told to end: the library's threads wake up all the time. */
static atomic_int knocking_port;

static void *knock(void *arg)
{
    (void)arg;
    for (int port; (port = atomic_load(&knocking_port)) != 0;) {
        int fd = kbt_connect(port);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

/* The library's threads and the one that stops must not both try to take the listening socket out of their epoll sets:
 * the process would end. */
START_TEST(stopping_while_clients_knock_never_ends_the_process)
{
    const struct ld_http_options o = {.host = "127.0.0.1", .threads = 8, .max_connections = 64, .metrics = &metrics};
    struct ld_message why;
    for (int i = 0; i < 60; i++) {
        struct ld_http *knocked;
        pthread_t client[2];
        ck_assert_msg(ld_http_start(&knocked, &o, &hooks, &why) == 0, "%s", why.text);
        atomic_store(&knocking_port, ld_http_port(knocked));
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(pthread_create(&client[k], NULL, knock, NULL), 0);
        kbt_pause_ms(2);
        ld_http_quiesce(knocked);
        ld_http_stop(knocked);
        atomic_store(&knocking_port, 0);
        for (int k = 0; k < 2; k++)
            pthread_join(client[k], NULL);
    }
}
END_TEST

START_TEST(port_in_use_is_told_by_name)
{
    struct ld_message why;
    struct ld_http *second;
    const struct ld_http_options o = {
        .host = "127.0.0.1", .port = ld_http_port(server), .threads = 1, .max_connections = 8, .metrics = &metrics};
    ck_assert_int_eq(ld_http_start(&second, &o, &hooks, &why), -1);
    ck_assert_ptr_nonnull(strstr(why.text, "in use"));
    ck_assert_ptr_nonnull(strstr(why.text, "127.0.0.1:"));
}
END_TEST

START_TEST(ipv6_is_served)
{
    struct ld_message why;
    struct ld_http *second;
    const struct ld_http_options o = {.host = "::1", .threads = 1, .max_connections = 8, .metrics = &metrics};
    if (ld_http_start(&second, &o, &hooks, &why) != 0) {
        ck_assert_ptr_nonnull(strstr(why.text, "[::1]:0")); /* a machine without IPv6 */
        return;
    }
    int fd = kbt_connect_host("::1", ld_http_port(second));
    ask(fd, "GET /six HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_str_eq(answer.body, "GET /six 0");
    close(fd);
    ld_http_stop(second);
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH(
        "http", 30, start, stop, handler_sees_method_path_and_body, reply_of_another_thread_resumes_the_connection,
        replies_that_cross_the_suspension_all_arrive, head_is_answered_without_a_body,
        requests_are_completed_with_their_status_and_memory, client_that_leaves_while_suspended_is_forgotten,
        head_can_be_kept_apart_from_the_connection,
        head_outlives_a_connection_that_goes_while_another_thread_has_the_request,
        client_that_leaves_within_its_body_is_forgotten, slow_body_is_waited_for,
        body_that_stops_coming_ends_the_connection, body_that_trickles_ends_the_connection,
        body_is_either_handled_or_out_of_time, headers_that_trickle_end_the_connection,
        body_beyond_the_limit_is_refused_and_the_connection_kept, chunked_body_beyond_the_limit_is_refused,
        large_body_beyond_the_limit_is_read_before_the_refusal, body_at_the_limit_arrives_whole,
        client_that_asks_before_sending_is_refused_at_once, refusal_by_the_headers_never_reaches_the_handler,
        spooled_body_is_a_file_until_the_reply, spooled_body_goes_with_the_client_that_leaves,
        spooled_body_that_has_no_room_is_refused_as_such, file_is_let_go_when_its_client_does_not_read,
        pipelined_requests_are_answered_in_order, connection_is_kept_until_the_client_says_close,
        client_that_has_said_all_gets_its_answer, a_full_round_of_requests_is_not_slept_over,
        crowds_beyond_the_number_are_counted_right, quiescing_finishes_what_was_accepted_and_takes_no_more,
        stopping_answers_those_who_wait_and_drops_the_late_reply, stopping_while_clients_knock_never_ends_the_process,
        port_in_use_is_told_by_name, ipv6_is_served);
}
