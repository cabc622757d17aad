/* Lanes of the HTTP server: requests that wait in their rounds, or beside them when it takes long, and who makes a
 * reply that was left to them. */
#include <check.h>
#include <pthread.h>
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

#define MANY 200
#define BURST 400
#define LONG_BYTES (8u << 20)
#define HEAD_BYTES (40u << 10)

static struct ld_http *server;
static struct ld_metrics metrics;
static struct kbt_response answer;
static _Atomic(struct ld_request *) kept[MANY]; /* of "/N", in the order of their coming */
static atomic_uint n_kept, n_made;              /* n_made: replies that were made where they were left to */
static pthread_t maker;                         /* of the last one */

static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg;
    (void)r;
    return LONG_BYTES;
}

static void echo(struct ld_request *r)
{
    char *text = malloc(64);
    ld_reply(r, &(struct ld_reply){.content_type = "text/plain",
                                   .text = text,
                                   .n = (size_t)snprintf(text, 64, "%s", ld_request_path(r))});
}

static void make(void *arg)
{
    maker = pthread_self();
    atomic_fetch_add(&n_made, 1);
    echo(arg);
}

/* "/long" is answered with LONG_BYTES at once, "/size" with those of its body; all others wait for the test. */
static void handle(void *arg, struct ld_request *r)
{
    size_t n;
    (void)arg;
    if (strcmp(ld_request_path(r), "/long") == 0) {
        FILE *f = tmpfile();
        for (size_t i = 0; i < LONG_BYTES; i += 8)
            fputs("long....", f);
        fflush(f);
        ld_reply_file(r, &(struct ld_body_file){
                             .content_type = "text/plain", .fd = dup(fileno(f)), .bytes = LONG_BYTES, .done = free});
        fclose(f);
    } else if (strcmp(ld_request_path(r), "/size") == 0) {
        char *text = malloc(64);
        ld_request_body(r, &n);
        ld_reply(r, &(struct ld_reply){
                        .content_type = "text/plain", .text = text, .n = (size_t)snprintf(text, 64, "%zu", n)});
    } else if (strcmp(ld_request_path(r), "/busy") == 0) {
        kbt_pause_ms(200); /* in its lane, which does nothing else meanwhile */
        echo(r);
    } else {
        atomic_store(&kept[atomic_fetch_add(&n_kept, 1)], r);
    }
}

static void start(void)
{
    static const struct ld_http_hooks hooks = {.admit = admit, .handle = handle};
    const struct ld_http_options o = {
        .host = "127.0.0.1", .threads = 2, .max_head = 64u << 10, .max_connections = 512, .metrics = &metrics};
    struct ld_message why;
    atomic_store(&n_kept, 0);
    atomic_store(&n_made, 0);
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
}

static void stop(void)
{
    ld_http_stop(server);
}

static int ask(const char *path)
{
    return kbt_get(ld_http_port(server), path);
}

static struct ld_request *wait_for(unsigned i)
{
    for (int ms = 0; ms < 5000 && (atomic_load(&n_kept) <= i || atomic_load(&kept[i]) == NULL); ms++)
        kbt_pause_ms(1);
    ck_assert_ptr_nonnull(atomic_load(&kept[i]));
    return atomic_load(&kept[i]);
}

static void expect(int fd, int status, const char *body)
{
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, status);
    if (body != NULL)
        ck_assert_str_eq(answer.body, body);
    close(fd);
}

static void wait_until_idle(void)
{
    for (int ms = 0; ms < 5000 && ld_http_in_flight(server) > 0; ms++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(ld_http_in_flight(server), 0);
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* In any order, from another thread, at once or after a rest of any length: each reaches its own client. */
START_TEST(replies_reach_those_who_wait)
{
    static const int rest_ms[] = {0, 5, 300};
    int fd[MANY];
    char path[16];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "/%u", i);
        fd[i] = ask(path);
    }
    wait_for(MANY - 1);
    for (size_t k = 0; k < 3; k++) {
        kbt_pause_ms(rest_ms[k]);
        for (unsigned i = (unsigned)k; i < MANY; i += 3)
            echo(wait_for(MANY - 1 - i));
    }
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "/%u", i);
        expect(fd[i], 200, path);
    }
}
END_TEST

/* A crowd that waits costs what a handful does: a tenth of a second of processor would be a fifth of the time. */
START_TEST(who_waits_for_long_costs_nothing)
{
    int fd[MANY];
    for (unsigned i = 0; i < MANY; i++)
        fd[i] = ask("/later");
    wait_for(MANY - 1);
    kbt_pause_ms(300);
    const double before = cpu_s();
    kbt_pause_ms(500);
    ck_assert_double_lt(cpu_s() - before, 0.1);
    for (unsigned i = 0; i < MANY; i++)
        echo(wait_for(i));
    for (unsigned i = 0; i < MANY; i++)
        expect(fd[i], 200, "/later");
}
END_TEST

/* While somebody waits the lane rests between its rounds; what still moves is not to rest with it. */
START_TEST(others_go_on_beside_who_waits)
{
    static char sent[HEAD_BYTES];
    int waiting[2] = {ask("/a"), ask("/b")}; /* one for each lane */
    wait_for(1);
    const int64_t n_rounds = 3;
    for (int64_t i = 0; i < n_rounds; i++) {
        int fd = ask("/long");
        size_t n = 0, got;
        while ((got = (size_t)recv(fd, sent, sizeof sent, 0)) > 0 && (n += got) < LONG_BYTES)
            continue;
        ck_assert_uint_ge(n, LONG_BYTES);
        close(fd);
        fd = kbt_connect(ld_http_port(server));
        snprintf(sent, sizeof sent, "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\nX-Long: ", LONG_BYTES);
        kbt_send(fd, sent);
        memset(sent, 'x', sizeof sent); /* of more than the library reads at a time */
        kbt_send_bytes(fd, sent, sizeof sent);
        kbt_send(fd, "\r\n\r\n");
        for (n = 0; n < LONG_BYTES; n += sizeof sent)
            kbt_send_bytes(fd, sent, LONG_BYTES - n < sizeof sent ? LONG_BYTES - n : sizeof sent);
        expect(fd, 200, "8388608");
    }
    for (unsigned i = 0; i < 2; i++)
        echo(wait_for(i));
    expect(waiting[0], 200, "/a");
    expect(waiting[1], 200, "/b");
}
END_TEST

START_TEST(a_reply_that_is_left_is_made_in_the_connections_thread)
{
    static const int rest_ms[] = {0, 300};
    for (unsigned i = 0; i < 2; i++) {
        int fd = ask("/left");
        struct ld_request *r = wait_for(i);
        kbt_pause_ms(rest_ms[i]); /* in the rounds, or suspended */
        ld_request_reply_by(r, make, r);
        expect(fd, 200, "/left");
        ck_assert(!pthread_equal(maker, pthread_self()));
    }
    ck_assert_uint_eq(atomic_load(&n_made), 2);
}
END_TEST

/* Where the connection is gone, or the server, there is still somebody who makes it: it frees what it has. */
START_TEST(a_reply_that_is_left_is_made_without_a_client)
{
    const struct linger reset = {.l_onoff = 1};
    for (unsigned i = 0; i < 20; i++) {
        int fd = ask("/gone");
        struct ld_request *r = wait_for(i);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (i % 2 == 0)
            ld_request_reply_by(r, make, r);
        close(fd);
        kbt_pause_ms((int)i % 4);
        if (i % 2 == 1)
            ld_request_reply_by(r, make, r);
    }
    wait_until_idle();
    ck_assert_uint_eq(atomic_load(&n_made), 20);
}
END_TEST

START_TEST(a_reply_that_is_left_to_a_server_that_ends_is_made)
{
    int fd = ask("/never");
    struct ld_request *r = wait_for(0);
    ld_http_stop(server);
    server = NULL;
    expect(fd, 503, NULL);
    ld_request_reply_by(r, make, r);
    ck_assert_uint_eq(atomic_load(&n_made), 1);
}
END_TEST

/* More than a lane is given at a time come while both are busy. */
START_TEST(a_burst_of_connections_is_taken)
{
    int busy[2] = {ask("/busy"), ask("/busy")}, fd[BURST];
    for (unsigned i = 0; i < BURST; i++)
        fd[i] = ask("/size");
    for (unsigned i = 0; i < 2; i++)
        expect(busy[i], 200, "/busy");
    for (unsigned i = 0; i < BURST; i++)
        expect(fd[i], 200, "0");
}
END_TEST

/* Held replies wait for the word, or for a round that comes by itself. */
START_TEST(held_replies_are_sent_together)
{
    int fd[16];
    for (unsigned i = 0; i < 16; i++)
        fd[i] = ask("/held");
    wait_for(15);
    ld_http_hold_replies();
    for (unsigned i = 0; i < 16; i++)
        echo(wait_for(i));
    ld_http_send_replies();
    for (unsigned i = 0; i < 16; i++)
        expect(fd[i], 200, "/held");
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH("http_lane", 60, start, stop, replies_reach_those_who_wait, who_waits_for_long_costs_nothing,
                        others_go_on_beside_who_waits, a_reply_that_is_left_is_made_in_the_connections_thread,
                        a_reply_that_is_left_is_made_without_a_client,
                        a_reply_that_is_left_to_a_server_that_ends_is_made, a_burst_of_connections_is_taken,
                        held_replies_are_sent_together);
}
