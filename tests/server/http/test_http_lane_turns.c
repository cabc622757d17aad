/* Turns within one thread of the HTTP server: a tenant with many requests lets those of others in between. */
#include <check.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http.h"
#include "kbt.h"
#include "base/metrics.h"
#include "raw_http.h"

#define CROWD 24

static struct ld_http *server;
static struct ld_metrics metrics;
static struct kbt_response answer;
static atomic_int n_handled;
static atomic_bool is_held, is_open; /* the first request is in its handler; it may go on */

/* The share is the path's first character after the slash. */
static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg;
    ld_request_set_share(r, (uint64_t)ld_request_path(r)[1]);
    return 0;
}

/* Takes a while, and answers with how many were handled before. The first one holds the thread until all have sent
 * theirs. */
static void handle(void *arg, struct ld_request *r)
{
    char *text = malloc(32);
    (void)arg;
    int n = atomic_fetch_add(&n_handled, 1);
    atomic_store(&is_held, true);
    while (!atomic_load(&is_open))
        kbt_pause_ms(1);
    kbt_pause_ms(n > 0);
    ld_reply(r,
             &(struct ld_reply){.content_type = "text/plain", .text = text, .n = (size_t)snprintf(text, 32, "%d", n)});
}

static void start(void)
{
    static const struct ld_http_hooks hooks = {.admit = admit, .handle = handle};
    const struct ld_http_options o = {.host = "127.0.0.1", .threads = 1, .max_connections = 64, .metrics = &metrics};
    struct ld_message why;
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
}

static void stop(void)
{
    ld_http_stop(server);
}

static int dial(const char *path)
{
    return kbt_get(ld_http_port(server), path);
}

/* How many were handled before the one that was sent on fd. */
static int place_of(int fd)
{
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 200);
    close(fd);
    return atoi(answer.body);
}

/* Sent while the thread is held, so that it finds all of them at once: those of the crowd's shares in turn, then one of
 * a share of its own. */
static int place_behind(const char *const *crowd, size_t n_shares, int *fd)
{
    fd[0] = dial(crowd[0]);
    while (!atomic_load(&is_held))
        kbt_pause_ms(1);
    for (int i = 1; i < CROWD; i++)
        fd[i] = dial(crowd[(size_t)i % n_shares]);
    int other = dial("/other");
    kbt_pause_ms(50);
    atomic_store(&is_open, true);
    return place_of(other);
}

START_TEST(one_request_goes_before_a_crowd_of_another_tenant)
{
    static const char *const crowd[] = {"/a"};
    int fd[CROWD], last = -1;
    ck_assert_int_le(place_behind(crowd, 1, fd), 3);
    for (int i = 0; i < CROWD; i++) { /* and all of the crowd are served, in their order */
        int place = place_of(fd[i]);
        ck_assert_int_gt(place, last);
        last = place;
    }
    ck_assert_int_eq(last, CROWD);
}
END_TEST

/* Asks again whoever has its answer, until so many are served; how many of them each has had. */
static void serve_in_a_loop(struct pollfd *client, int n_clients, int n_wanted, int *n_served)
{
    for (int n = 0; n < n_wanted;) {
        ck_assert_int_gt(poll(client, (nfds_t)n_clients, 5000), 0);
        for (int i = 0; i < n_clients; i++)
            if (client[i].revents != 0) {
                kbt_receive(client[i].fd, &answer);
                ck_assert_int_eq(answer.status, 200);
                kbt_send(client[i].fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
                n_served[i]++;
                n++;
            }
    }
}

/* The library has an order of its own among connections; it is not the one in which they are served. */
START_TEST(clients_of_a_tenant_that_ask_again_are_served_alike)
{
    struct pollfd client[8];
    int n_served[8] = {0};
    for (int i = 0; i < 8; i++)
        client[i] = (struct pollfd){.fd = dial("/a"), .events = POLLIN};
    atomic_store(&is_open, true);
    serve_in_a_loop(client, 8, 160, n_served);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_ge(n_served[i], 17);
        ck_assert_int_le(n_served[i], 23);
        close(client[i].fd);
    }
}
END_TEST

START_TEST(crowds_of_several_tenants_let_another_in)
{
    static const char *const crowd[] = {"/a", "/b", "/c"};
    int fd[CROWD];
    ck_assert_int_le(place_behind(crowd, 3, fd), 8);
    for (int i = 0; i < CROWD; i++)
        place_of(fd[i]);
}
END_TEST

/* Without a share of its own a request waits for nobody. */
START_TEST(requests_without_a_tenant_are_not_put_off)
{
    static const char *const crowd[] = {"/"};
    int fd[CROWD];
    ck_assert_int_eq(place_behind(crowd, 1, fd), CROWD);
    for (int i = 0; i < CROWD; i++)
        place_of(fd[i]);
}
END_TEST

START_TEST(clients_that_leave_while_they_are_put_off_are_forgotten)
{
    static const char *const crowd[] = {"/a"};
    const struct linger reset = {.l_onoff = 1};
    int fd[CROWD];
    fd[0] = dial(crowd[0]);
    while (!atomic_load(&is_held))
        kbt_pause_ms(1);
    for (int i = 1; i < CROWD; i++)
        fd[i] = dial(crowd[0]);
    kbt_pause_ms(50);
    for (int i = 2; i < CROWD; i += 2) {
        setsockopt(fd[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd[i]);
    }
    atomic_store(&is_open, true);
    place_of(fd[0]);
    for (int i = 1; i < CROWD; i += 2)
        place_of(fd[i]);
    place_of(dial("/a"));
    for (int i = 0; i < 3000 && ld_http_in_flight(server) > 0; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(ld_http_in_flight(server), 0);
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH("http_lane_turns", 30, start, stop, one_request_goes_before_a_crowd_of_another_tenant,
                        clients_of_a_tenant_that_ask_again_are_served_alike, crowds_of_several_tenants_let_another_in,
                        requests_without_a_tenant_are_not_put_off,
                        clients_that_leave_while_they_are_put_off_are_forgotten);
}
