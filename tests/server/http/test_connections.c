/* The book of connections by itself: how many there may be, of one address and in all, who gives way, and how the time
 * of each phase runs out. The sockets are pairs of our own, and the timer's clock is the test's. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_impl.h"
#include "kbt.h"
#include "base/metrics.h"

enum { MAX = 8, HEAD_S = 10, BODY_S = 30, IDLE_S = 20, RATE = 100 };

static struct ld_connections book;
static struct ld_metrics metrics;
static uint64_t now_ms;

/* One end is the server's. */
struct pair {
    int ours, theirs;
    struct ld_connection *c; /* NULL: refused */
};

static void start_with(unsigned max_per_address)
{
    const struct ld_http_options o = {
        .limits = {.timeout_s = IDLE_S, .head_timeout_s = HEAD_S, .body_timeout_s = BODY_S, .min_rate = RATE},
        .max_connections = MAX,
        .max_per_address = max_per_address,
        .metrics = &metrics};
    memset(&book, 0, sizeof book);
    memset(&metrics, 0, sizeof metrics);
    now_ms = 1000000;
    ck_assert_int_eq(ld_connections_init(&book, &o), 0);
}

static void start(void)
{
    start_with(0);
}

static void stop(void)
{
    ld_connections_destroy(&book);
}

/* The library's handle of a connection: looked at only to see whether it is TLS, and never before it is cut in the
 * middle of a body. */
static struct MHD_Connection *handle(void)
{
    static char nothing[4096];
    return (struct MHD_Connection *)(void *)nothing;
}

static struct pair dial(const char *address)
{
    struct pair p;
    int fd[2];
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    bool is_v6 = strchr(address, ':') != NULL;
    ck_assert_int_eq(
        inet_pton(is_v6 ? AF_INET6 : AF_INET, address, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr), 1);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    p.ours = fd[0];
    p.theirs = fd[1];
    p.c = ld_connections_open(&book, handle(), p.ours,
                              is_v6 ? (const struct sockaddr *)(void *)&v6 : (const struct sockaddr *)(void *)&v4, 0);
    return p;
}

static void hang_up(struct pair *p)
{
    if (p->c != NULL)
        ld_connections_close(&book, p->c);
    close(p->ours);
    close(p->theirs);
}

/* The timer goes on by so much. */
static void pass(unsigned ms)
{
    now_ms += ms;
    ld_connections_sweep(&book, now_ms);
}

static bool is_cut(const struct pair *p)
{
    char byte;
    return recv(p->theirs, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* --- by address ------------------------------------------------------------------------------------------- */

/* Whether two connections of one address leave room for a third of the other. */
static bool is_counted_apart(const char *one, const char *other)
{
    struct pair p[3];
    start_with(2);
    p[0] = dial(one);
    p[1] = dial(one);
    p[2] = dial(other);
    ck_assert(p[0].c != NULL && p[1].c != NULL);
    bool is_apart = p[2].c != NULL;
    ck_assert_uint_eq(atomic_load(&metrics.connections_refused), !is_apart);
    for (int i = 0; i < 3; i++)
        hang_up(&p[i]);
    ck_assert_uint_eq(atomic_load(&metrics.connections), 0);
    stop();
    return is_apart;
}

START_TEST(addresses_are_counted_as_one_household)
{
    ck_assert(!is_counted_apart("192.0.2.1", "192.0.2.1"));
    ck_assert(is_counted_apart("192.0.2.1", "192.0.2.2"));
    ck_assert(!is_counted_apart("192.0.2.1", "::ffff:192.0.2.1"));
    ck_assert(!is_counted_apart("2001:db8::1", "2001:db8::1"));
    ck_assert(!is_counted_apart("2001:db8::1", "2001:db8::ffff:1:2:3"));
    ck_assert(!is_counted_apart("2001:db8:0:1::1", "2001:db8:0:1:8000::"));
    ck_assert(is_counted_apart("2001:db8:0:1::1", "2001:db8:0:2::1"));
    ck_assert(is_counted_apart("2001:db8::1", "192.0.2.1"));
}
END_TEST

START_TEST(loopback_is_not_counted)
{
    ck_assert(is_counted_apart("127.0.0.1", "127.0.0.1"));
    ck_assert(is_counted_apart("127.1.2.3", "127.1.2.3"));
    ck_assert(is_counted_apart("::1", "::1"));
    ck_assert(is_counted_apart("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
}
END_TEST

/* In whatever order they leave: the list of a bucket is one way. */
START_TEST(room_of_an_address_comes_back_with_each_that_leaves)
{
    struct pair p[MAX];
    start_with(3);
    for (unsigned round = 0; round < 200; round++) {
        for (int i = 0; i < 6; i++)
            p[i] = dial(i % 2 == 0 ? "192.0.2.1" : "198.51.100.7");
        struct pair refused = dial("192.0.2.1");
        ck_assert(refused.c == NULL);
        hang_up(&refused);
        int first = (int)(round % 6);
        hang_up(&p[first]);
        p[first] = dial(first % 2 == 0 ? "192.0.2.1" : "198.51.100.7");
        for (int i = 0; i < 6; i++) {
            ck_assert(p[(i * 5 + first) % 6].c != NULL);
            hang_up(&p[(i * 5 + first) % 6]);
        }
    }
    ck_assert_uint_eq(atomic_load(&metrics.connections_refused), 200);
    stop();
}
END_TEST

/* --- in all ------------------------------------------------------------------------------------------------ */

START_TEST(the_one_without_a_request_for_the_longest_time_gives_way)
{
    struct pair p[MAX + 4];
    for (int i = 0; i < MAX; i++) {
        p[i] = dial("127.0.0.1");
        pass(300);
    }
    ck_assert(ld_connection_enter(p[0].c, PHASE_HANDLED)); /* works on a request */
    ck_assert(ld_connection_enter(p[1].c, PHASE_IDLE));    /* has just been answered */
    ck_assert(ld_connection_enter(p[2].c, PHASE_BODY));
    ck_assert(ld_connection_enter(p[3].c, PHASE_ANSWER));
    pass(300);
    static const int order[] = {4, 5, 6, 7, 1};
    for (int k = 0; k < 4; k++) {
        p[MAX + k] = dial("127.0.0.1");
        ck_assert(p[MAX + k].c != NULL);
        for (int i = 0; i < 5; i++)
            ck_assert(is_cut(&p[order[i]]) == (i <= k));
    }
    ck_assert_uint_eq(atomic_load(&metrics.connections_gave_way), 4);
    ck_assert_uint_eq(atomic_load(&metrics.connections), MAX + 4); /* until the library lets go of them */
    ck_assert(!ld_connection_enter(p[4].c, PHASE_BODY));           /* whose request comes after all */
    for (int i = 0; i < MAX + 4; i++)
        hang_up(&p[i]);
    ck_assert_uint_eq(atomic_load(&metrics.connections), 0);
}
END_TEST

START_TEST(a_new_one_is_refused_when_all_have_requests)
{
    struct pair p[MAX + 1];
    static const enum connection_phase busy[] = {PHASE_BODY, PHASE_HANDLED, PHASE_ANSWER};
    for (int i = 0; i < MAX; i++) {
        p[i] = dial("127.0.0.1");
        ck_assert(ld_connection_enter(p[i].c, busy[i % 3]));
    }
    pass(300);
    p[MAX] = dial("127.0.0.1");
    ck_assert(p[MAX].c == NULL);
    hang_up(&p[MAX]);
    ck_assert_uint_eq(atomic_load(&metrics.connections_refused), 1);
    hang_up(&p[3]);
    p[3] = dial("127.0.0.1"); /* room again */
    ck_assert(p[3].c != NULL);
    for (int i = 0; i < MAX; i++)
        hang_up(&p[i]);
}
END_TEST

/* Connections of this moment are about to send their request: they do not give way to one another. */
START_TEST(newcomers_do_not_push_each_other_out)
{
    struct pair p[MAX + 1];
    for (int i = 0; i < MAX + 1; i++)
        p[i] = dial("127.0.0.1");
    ck_assert(p[MAX].c == NULL);
    for (int i = 0; i < MAX; i++)
        ck_assert(!is_cut(&p[i]));
    for (int i = 0; i < MAX + 1; i++)
        hang_up(&p[i]);
}
END_TEST

/* Those that gave way and are not closed yet have records beyond the number, but not without end. */
START_TEST(connections_that_are_not_let_go_use_up_the_spare_ones)
{
    enum { ALL = MAX + (int)LD_SPARE_CONNECTIONS };
    static struct pair p[ALL + 1];
    for (int i = 0; i < ALL + 1; i++) {
        p[i] = dial("127.0.0.1");
        ck_assert((p[i].c != NULL) == (i < ALL));
        pass(300);
    }
    for (int i = 0; i < ALL + 1; i++)
        hang_up(&p[i]);
    p[0] = dial("127.0.0.1");
    ck_assert(p[0].c != NULL);
    hang_up(&p[0]);
}
END_TEST

/* --- time -------------------------------------------------------------------------------------------------- */

static uint64_t timed_out(enum ld_timed_phase phase)
{
    return atomic_load(&metrics.connections_timed_out[phase]);
}

/* Time counts from when the timer has seen the phase. */
static void check_time(enum connection_phase phase, unsigned seconds, enum ld_timed_phase counted)
{
    struct pair p = dial("127.0.0.1");
    pass(1000000);
    ck_assert(!is_cut(&p)); /* however late it was */
    ck_assert(ld_connection_enter(p.c, phase));
    pass(1000000);
    pass(seconds * 1000);
    ck_assert(!is_cut(&p));
    ck_assert_uint_eq(timed_out(counted), 0);
    pass(1);
    ck_assert(is_cut(&p));
    ck_assert_uint_eq(timed_out(counted), 1);
    ck_assert(!ld_connection_enter(p.c, PHASE_HANDLED));
    pass(1000000);
    ck_assert_uint_eq(timed_out(counted), 1); /* once */
    hang_up(&p);
}

START_TEST(heads_and_idleness_have_their_time)
{
    check_time(PHASE_HEAD, HEAD_S, LD_TIMED_HEADERS);
    check_time(PHASE_IDLE, IDLE_S, LD_TIMED_IDLE);
}
END_TEST

START_TEST(a_request_in_hand_may_take_any_time)
{
    struct pair p = dial("127.0.0.1");
    ck_assert(ld_connection_enter(p.c, PHASE_HANDLED));
    for (int i = 0; i < 100; i++)
        pass(1000000);
    ck_assert(!is_cut(&p) && ld_connection_enter(p.c, PHASE_ANSWER));
    hang_up(&p);
}
END_TEST

/* The same phase again, after another, has its time from the beginning. */
START_TEST(each_request_has_its_own_time)
{
    struct pair p = dial("127.0.0.1");
    for (int i = 0; i < 100; i++) {
        ck_assert(ld_connection_enter(p.c, PHASE_IDLE));
        pass(250);
        pass(IDLE_S * 1000 - 250);
        ck_assert(ld_connection_enter(p.c, PHASE_HEAD));
        pass(250);
        pass(HEAD_S * 1000 - 250);
        ck_assert(ld_connection_enter(p.c, PHASE_HANDLED));
    }
    ck_assert(!is_cut(&p));
    hang_up(&p);
}
END_TEST

/* The bytes that have come are the library's thread's to say. An answer's are the kernel's, and sockets that are no TCP
 * have none. */
static void receive(struct pair *p, uint64_t n)
{
    atomic_fetch_add(&p->c->n_received, n);
}

START_TEST(a_body_that_keeps_its_rate_may_take_any_time)
{
    struct pair p = dial("127.0.0.1");
    ck_assert(ld_connection_enter(p.c, PHASE_BODY));
    pass(250);
    for (int i = 0; i < 100; i++) {
        receive(&p, RATE * BODY_S + (i == 0 ? 1000 * RATE * BODY_S : 0)); /* a burst helps once */
        pass(BODY_S * 1000 + 1);
        ck_assert(!is_cut(&p));
    }
    hang_up(&p);
}
END_TEST

/* The library may overlook an end of stream that comes with other bytes. */
START_TEST(clients_that_left_are_seen)
{
    struct pair idle = dial("127.0.0.1"), body = dial("127.0.0.1"), whole = dial("127.0.0.1"),
                handled = dial("127.0.0.1");
    const struct pair all[] = {idle, body, whole, handled};
    ck_assert(ld_connection_enter(idle.c, PHASE_IDLE));
    ck_assert(ld_connection_enter(body.c, PHASE_BODY));
    ck_assert(ld_connection_enter(whole.c, PHASE_BODY));
    ck_assert(ld_connection_enter(handled.c, PHASE_HANDLED));
    ck_assert_int_eq(write(whole.theirs, "x", 1), 1); /* not read yet */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shutdown(all[i].theirs, SHUT_WR);
    pass(250);
    ck_assert(!is_cut(&idle) && !is_cut(&body));
    pass(250);
    ck_assert(is_cut(&idle) && !is_cut(&body)); /* a body may be handed over by the next look */
    pass(250);
    ck_assert(is_cut(&body));
    pass(250);
    ck_assert(!is_cut(&whole) && !is_cut(&handled));
    for (int phase = 0; phase < LD_N_TIMED_PHASES; phase++)
        ck_assert_uint_eq(timed_out((enum ld_timed_phase)phase), 0);
    hang_up(&idle);
    hang_up(&body);
    hang_up(&whole);
    hang_up(&handled);
}
END_TEST

START_TEST(a_new_limit_counts_for_those_that_wait_already)
{
    struct pair p = dial("127.0.0.1");
    const struct ld_http_limits other = {.timeout_s = 3600, .head_timeout_s = 1};
    pass(250);
    pass(2000);
    ck_assert(!is_cut(&p));
    ld_connections_set_limits(&book, &other);
    pass(0);
    ck_assert(is_cut(&p));
    hang_up(&p);
}
END_TEST

static Suite *make_suite(void)
{
    const TTest *const addresses[] = {addresses_are_counted_as_one_household, loopback_is_not_counted,
                                      room_of_an_address_comes_back_with_each_that_leaves};
    const TTest *const cases[] = {
        the_one_without_a_request_for_the_longest_time_gives_way,
        a_new_one_is_refused_when_all_have_requests,
        newcomers_do_not_push_each_other_out,
        connections_that_are_not_let_go_use_up_the_spare_ones,
        heads_and_idleness_have_their_time,
        a_request_in_hand_may_take_any_time,
        each_request_has_its_own_time,
        a_body_that_keeps_its_rate_may_take_any_time,
        clients_that_left_are_seen,
        a_new_limit_counts_for_those_that_wait_already,
    };
    Suite *s = suite_create("connections");
    TCase *by_address = tcase_create("by address"), *all = tcase_create("all");
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        tcase_add_test(by_address, addresses[i]);
    tcase_add_checked_fixture(all, start, stop);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_test(all, cases[i]);
    suite_add_tcase(s, by_address);
    suite_add_tcase(s, all);
    return s;
}

int main(void)
{
    return kbt_run_suite(make_suite());
}
