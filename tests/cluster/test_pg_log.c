/* The shared log in PostgreSQL, against a primary with a synchronous standby (tests/cluster/pg.py): turns, what others
 * have written, copies that do not fit, and tenants. What becomes of a commit under faults is in test_pg_faults.c. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "pg_fixture.h"
#include "shared/pg_log_impl.h"

static struct ld_message why;

/* --- turns ------------------------------------------------------------------------------------------------ */

START_TEST(a_batch_that_was_acknowledged_is_what_the_next_turn_is_told_of)
{
    struct writer a, b;
    pg_open(&a, "a", "turns");
    pg_open(&b, "b", "turns");
    ck_assert_int_eq(pg_write(&a, "one\ntwo\n", 2), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&b, "three\n", 1), LD_SHARED_OK);
    ck_assert_str_eq(b.told, "a:1-2:one\ntwo\n|");
    ck_assert_int_eq(pg_write(&a, "four\n", 1), LD_SHARED_OK);
    ck_assert_str_eq(a.told, "b:3-3:three\n|");
    ck_assert_uint_eq(a.at.seq, 4);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

START_TEST(bodies_come_back_byte_for_byte_and_so_do_the_numbers_of_their_batch)
{
    struct writer a, b;
    pg_open(&a,
            "n\xc3\xb6"
            "de",
            "bytes");
    pg_open(&b, "b", "bytes");
    char body[512];
    for (int i = 0; i < 512; i++)
        body[i] = (char)i;
    struct ld_shared_batch sent = {
        .n = 3, .at_ms = -5, .node = a.node, .nonce = UINT64_MAX - 6, .body = body, .n_body = 512};
    ck_assert_int_eq(pg_append(&a, &sent), LD_SHARED_OK);
    struct ld_shared_turn *turn = NULL;
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, pg_tell, &b, &turn, &why), LD_SHARED_OK);
    b.log->ops->release(turn);
    ck_assert_uint_eq(b.last.n, 3);
    ck_assert_int_eq(b.last.at_ms, -5);
    ck_assert_uint_eq(b.last.nonce, UINT64_MAX - 6);
    ck_assert_str_eq(b.last_node, "n\xc3\xb6"
                                  "de");
    ck_assert_uint_eq(b.last.n_body, 512);
    ck_assert_mem_eq(b.last_body, body, 512);
    ck_assert_mem_eq(b.at.hash, a.at.hash, LD_CHAIN_BYTES);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

struct racer {
    struct writer w;
    int n_done;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    for (int i = 0; i < 100; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "%s %d\n", r->w.node, i);
        if (pg_write(&r->w, line, 1) == LD_SHARED_OK)
            r->n_done++;
    }
    return NULL;
}

/* No turn overlaps another: the log has each line once, in the order of its writer. */
START_TEST(three_writers_by_turns_leave_each_line_once_and_one_chain)
{
    struct racer r[3];
    pthread_t thread[3];
    int next[3] = {0};
    for (int i = 0; i < 3; i++) {
        char node[2] = {(char)('a' + i), '\0'};
        r[i].n_done = 0;
        pg_open(&r[i].w, node, "race");
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, race, &r[i]), 0);
    for (int i = 0; i < 3; i++) {
        (void)pthread_join(thread[i], NULL);
        ck_assert_int_eq(r[i].n_done, 100);
    }
    struct writer all;
    pg_open(&all, "all", "race");
    ck_assert_int_eq(pg_follow(&all), LD_SHARED_OK);
    ck_assert_uint_eq(all.at.seq, 300);
    for (const char *at = strchr(all.told, ':'); at != NULL; at = strchr(at + 1, ':')) {
        char node = '\0';
        int n = 0;
        if (sscanf(at, ":%*d-%*d:%c %d\n|", &node, &n) != 2)
            continue;
        ck_assert_int_eq(n, next[node - 'a']++);
    }
    ck_assert_int_eq(next[0] + next[1] + next[2], 300);
    for (int i = 0; i < 3; i++)
        pg_close(&r[i].w);
    pg_close(&all);
}
END_TEST

START_TEST(a_turn_that_is_given_up_leaves_nothing)
{
    struct writer a, b;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "given up");
    pg_open(&b, "b", "given up");
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_OK);
    a.log->ops->release(turn);
    ck_assert_int_eq(pg_write(&b, "one\n", 1), LD_SHARED_OK);
    ck_assert_uint_eq(b.at.seq, 1);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* PostgreSQL takes the row from who is silent for two seconds, and a server that computes is not. */
START_TEST(a_turn_that_computes_for_three_seconds_is_kept)
{
    struct writer a;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "long");
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_OK);
    ck_assert_int_eq(usleep(3000000), 0);
    ck_assert_int_eq(pg_append_in(&a, turn, "one\n", 1), LD_SHARED_OK);
    pg_close(&a);
}
END_TEST

START_TEST(who_waits_too_long_for_a_turn_is_told_so_and_the_turn_goes_on)
{
    struct writer a, b;
    struct ld_shared_turn *turn = NULL, *other = NULL;
    pg_open(&a, "a", "queue");
    pg_open_for(&b, "b", "queue", 300);
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_OK);
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, pg_tell, &b, &other, &why), LD_SHARED_DOWN);
    ck_assert_ptr_null(other);
    ck_assert_ptr_nonnull(strstr(why.text, "turn"));
    ck_assert_int_eq(pg_append_in(&a, turn, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&b, "two\n", 1), LD_SHARED_OK);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

static enum ld_shared_rc refuse(void *arg, const struct ld_shared_batch *batch)
{
    (void)arg;
    (void)batch;
    return LD_SHARED_NOMEM;
}

START_TEST(what_the_told_one_answers_ends_the_take_and_frees_the_turn)
{
    struct writer a, b;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "refused");
    pg_open(&b, "b", "refused");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, refuse, NULL, &turn, &why), LD_SHARED_NOMEM);
    ck_assert_ptr_null(turn);
    ck_assert_int_eq(pg_write(&a, "two\n", 1), LD_SHARED_OK);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* More batches than a page has, by number and by bytes. */
START_TEST(a_long_log_is_read_in_parts_and_taken_whole)
{
    struct writer a, b, c;
    struct ld_shared_turn *turn = NULL;
    char *body = malloc(3 << 20);
    pg_open(&a, "a", "long log");
    pg_open(&b, "b", "long log");
    pg_open(&c, "c", "long log");
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(pg_write(&a, "x\n", 1), LD_SHARED_OK);
    memset(body, 'y', 3 << 20);
    for (int i = 0; i < 4; i++) {
        const struct ld_shared_batch big = {.n = 1, .node = a.node, .nonce = 1, .body = body, .n_body = 3 << 20};
        ck_assert_int_eq(pg_append(&a, &big), LD_SHARED_OK);
    }
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, pg_count, &b, &turn, &why), LD_SHARED_OK);
    b.log->ops->release(turn);
    ck_assert_int_eq(b.n_told, 304);
    ck_assert_mem_eq(&b.at, &a.at, sizeof a.at);
    ck_assert_int_eq(c.log->ops->read(c.log, c.id, &c.at, 20, pg_count, &c, &why), LD_SHARED_OK);
    ck_assert_int_eq(c.n_told, 10);
    ck_assert_int_eq(c.log->ops->read(c.log, c.id, &c.at, 0, pg_count, &c, &why), LD_SHARED_OK);
    ck_assert_int_eq(c.n_told, 11);
    while (c.at.seq < 304)
        ck_assert_int_eq(c.log->ops->read(c.log, c.id, &c.at, 1 << 20, pg_count, &c, &why), LD_SHARED_OK);
    ck_assert_mem_eq(&c.at, &a.at, sizeof a.at);
    free(body);
    pg_close(&a);
    pg_close(&b);
    pg_close(&c);
}
END_TEST

/* --- a slow network: what goes through the relay goes at RELAY_BYTES in ten milliseconds ---------------------- */

#define RELAY_BYTES (48 * 1024)

static int relay_port;

static void copy_slowly(int from, int to)
{
    static _Thread_local char bytes[RELAY_BYTES];
    ssize_t n = 0;
    while ((n = read(from, bytes, sizeof bytes)) > 0) {
        for (ssize_t sent = 0, m = 0; sent < n; sent += m)
            if ((m = write(to, bytes + sent, (size_t)(n - sent))) <= 0)
                break;
        (void)usleep(10000);
    }
    (void)shutdown(from, SHUT_RDWR);
    (void)shutdown(to, SHUT_RDWR);
}

static void *copy_back(void *arg)
{
    const int *ends = arg;
    copy_slowly(ends[1], ends[0]);
    return NULL;
}

static void *relay_one(void *arg)
{
    int *ends = arg;
    pthread_t back;
    if (pthread_create(&back, NULL, copy_back, ends) == 0) {
        copy_slowly(ends[0], ends[1]);
        (void)pthread_join(back, NULL);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    free(ends);
    return NULL;
}

static void *relay(void *arg)
{
    const int listener = *(const int *)arg;
    int client = 0;
    while ((client = accept(listener, NULL, NULL)) >= 0) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)relay_port)};
        int *ends = malloc(2 * sizeof *ends);
        pthread_t thread;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ends[0] = client;
        ends[1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(ends[1], (struct sockaddr *)&to, sizeof to) == 0 &&
            pthread_create(&thread, NULL, relay_one, ends) == 0)
            (void)pthread_detach(thread);
    }
    return NULL;
}

/* Begins to relay to the primary; its own port. */
static int begin_relay(void)
{
    static int listener;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    pthread_t thread;
    relay_port = atoi(pg_ask("sql \"SHOW port\""));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 16), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, relay, &listener), 0);
    (void)pthread_detach(thread);
    return ntohs(at.sin_port);
}

/* As a graph is: its way takes longer than a call may wait, and no wait is long. */
START_TEST(a_body_of_many_megabytes_over_a_slow_network_is_no_silence)
{
    struct writer a, b;
    const size_t n = 24 << 20;
    char *body = malloc(n), url[128];
    struct ld_shared_tenant t;
    (void)snprintf(url, sizeof url, "postgresql://laplaced@127.0.0.1:%d/log", begin_relay());
    const struct ld_pg_config config = {.url = url, .node = "slow", .wait_ms = 2500};
    pg_open(&b, "b", "large");
    memset(&a, 0, sizeof a);
    (void)snprintf(a.node, sizeof a.node, "slow");
    ck_assert_int_eq(ld_pg_log_open(&a.log, &config, &why), 0);
    ck_assert_msg(a.log->ops->find(a.log, "large", true, &t, NULL, &why) == LD_SHARED_OK, "%s", why.text);
    a.id = t.id;
    for (size_t i = 0; i < n; i++) /* nothing that compression makes short */
        body[i] = (char)((i * 2654435761u) >> 13);
    const struct ld_shared_batch big = {.n = 1, .node = a.node, .nonce = 1, .body = body, .n_body = n};
    int64_t began = ld_monotonic_us();
    ck_assert_msg(pg_append(&a, &big) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_int_gt(ld_monotonic_us() - began, 3200000);
    memset(&a.at, 0, sizeof a.at);
    began = ld_monotonic_us();
    ck_assert_int_eq(a.log->ops->read(a.log, a.id, &a.at, 1, pg_count, &a, &why), LD_SHARED_OK);
    ck_assert_int_gt(ld_monotonic_us() - began, 3200000);
    ck_assert_uint_eq(a.at.seq, 1);
    ck_assert_int_eq(pg_write(&b, "two\n", 1), LD_SHARED_OK);
    free(body);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* --- addresses -------------------------------------------------------------------------------------------- */

static void expect_hosts(const char *url, unsigned first, const char *host, const char *port)
{
    struct pg_hosts h;
    ld_pg_hosts(&h, url, first);
    ck_assert_str_eq(h.list[PG_HOST] != NULL ? h.list[PG_HOST] : "", host);
    ck_assert_str_eq(h.list[PG_PORT] != NULL ? h.list[PG_PORT] : "", port);
    ld_pg_hosts_free(&h);
}

START_TEST(addresses_are_turned_round_with_their_ports)
{
    expect_hosts("postgresql://u@a:1,b:2,c:3/db", 0, "a,b,c", "1,2,3");
    expect_hosts("postgresql://u@a:1,b:2,c:3/db", 1, "b,c,a", "2,3,1");
    expect_hosts("postgresql://u@a:1,b:2,c:3/db", 5, "c,a,b", "3,1,2");
    expect_hosts("postgresql://u@a:1,b,c:3/db", 1, "b,c,a", ",3,1");
    expect_hosts("postgresql://u@a:1,b,c/db", 1, "b,c,a", ",,1");
    expect_hosts("postgresql://u@a:1,b,c/db", 2, "c,a,b", ",1,");
    expect_hosts("host=a,b port=7 dbname=db", 1, "b,a", "7");
    expect_hosts("host=/run/postgresql dbname=db", 3, "/run/postgresql", "");
    expect_hosts("postgresql:///db", 1, "", "");
    expect_hosts("postgresql://[::1]:4,[::2]:5/db", 1, "::2,::1", "5,4");
}
END_TEST

/* --- copies that do not fit ------------------------------------------------------------------------------- */

static void expect_forked(struct writer *w, const struct ld_shared_place *at, const char *said)
{
    struct ld_shared_turn *turn = NULL;
    ck_assert_int_eq(w->log->ops->take(w->log, w->id, at, pg_count, w, &turn, &why), LD_SHARED_FORKED);
    ck_assert_ptr_null(turn);
    ck_assert_msg(strstr(why.text, said) != NULL, "%s", why.text);
    ck_assert_int_eq(w->log->ops->read(w->log, w->id, at, 1 << 20, pg_count, w, &why), LD_SHARED_FORKED);
}

START_TEST(a_copy_with_other_lines_or_more_of_them_is_told_that_it_is_a_fork)
{
    struct writer a;
    pg_open(&a, "a", "fork");
    ck_assert_int_eq(pg_write(&a, "one\ntwo\n", 2), LD_SHARED_OK);
    struct ld_shared_place other = a.at, ahead = a.at, inside = a.at;
    other.hash[0] ^= 1;
    ahead.seq = 3;
    inside.seq = 1;
    expect_forked(&a, &other, "other lines");
    expect_forked(&a, &ahead, "ended already");
    expect_forked(&a, &inside, "no batch");
    ck_assert_int_eq(pg_write(&a, "three\n", 1), LD_SHARED_OK);
    pg_close(&a);
}
END_TEST

START_TEST(a_row_that_was_changed_or_lost_in_the_database_breaks_the_chain)
{
    struct writer a;
    struct ld_shared_place first;
    pg_open(&a, "a", "chain");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    first = a.at;
    ck_assert_int_eq(pg_write(&a, "two\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&a, "three\n", 1), LD_SHARED_OK);
    pg_kit("sql \"UPDATE laplaced.batch SET body = 'tvo!' WHERE seq = 2 AND tenant = "
           "(SELECT id FROM laplaced.tenant WHERE name = 'chain')\"");
    expect_forked(&a, &first, "chain");
    pg_kit("sql \"DELETE FROM laplaced.batch WHERE seq = 2 AND tenant = "
           "(SELECT id FROM laplaced.tenant WHERE name = 'chain')\"");
    expect_forked(&a, &first, "gap");
    pg_close(&a);
}
END_TEST

/* A database that was set back must not be taken for one whose tenant was deleted. */
START_TEST(a_tenant_that_the_database_has_never_had_is_a_fork_for_a_copy_and_none_for_nobody)
{
    struct writer a;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "never");
    a.id = 1000000;
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_NONE);
    a.at.seq = 3;
    expect_forked(&a, &a.at, "never had");
    pg_close(&a);
}
END_TEST

START_TEST(an_end_of_the_log_that_was_lost_is_no_shorter_log_but_a_fork)
{
    struct writer a;
    struct ld_shared_place first;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "end");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    first = a.at;
    ck_assert_int_eq(pg_write(&a, "two\n", 1), LD_SHARED_OK);
    pg_kit("sql \"DELETE FROM laplaced.batch WHERE seq = 2 AND tenant = "
           "(SELECT id FROM laplaced.tenant WHERE name = 'end')\"");
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &first, pg_count, &a, &turn, &why), LD_SHARED_FORKED);
    expect_forked(&a, &a.at, "no batch");
    pg_close(&a);
}
END_TEST

/* --- tenants ---------------------------------------------------------------------------------------------- */

START_TEST(a_name_is_made_once_and_found_by_all)
{
    struct writer a, b;
    struct ld_shared_tenant t, u;
    bool is_new = true;
    pg_open(&a, "a", "made");
    pg_open(&b, "b", "made");
    ck_assert_uint_eq(a.id, b.id);
    ck_assert_int_eq(a.log->ops->find(a.log, "nobody", false, &t, &is_new, &why), LD_SHARED_NONE);
    ck_assert(!is_new);
    ck_assert_int_eq(a.log->ops->find(a.log, "somebody", true, &t, &is_new, &why), LD_SHARED_OK);
    ck_assert(is_new && t.tip.seq == 0);
    ck_assert_int_eq(b.log->ops->find(b.log, "somebody", true, &u, &is_new, &why), LD_SHARED_OK);
    ck_assert(!is_new && u.id == t.id);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

START_TEST(a_tenant_that_is_dropped_is_gone_for_all_and_its_name_begins_anew)
{
    struct writer a, b;
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_tenant t;
    bool is_new = false;
    pg_open(&a, "a", "dropped");
    pg_open(&b, "b", "dropped");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->drop(a.log, a.id, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->drop(a.log, a.id, &why), LD_SHARED_NONE);
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, pg_tell, &b, &turn, &why), LD_SHARED_NONE);
    ck_assert_int_eq(b.log->ops->read(b.log, b.id, &b.at, 100, pg_tell, &b, &why), LD_SHARED_NONE);
    ck_assert_int_eq(b.log->ops->find(b.log, "dropped", true, &t, &is_new, &why), LD_SHARED_OK);
    ck_assert(is_new && t.id != a.id && t.tip.seq == 0);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* The watch removes them; nobody waits for it. */
START_TEST(the_lines_of_a_dropped_tenant_go_and_those_of_others_stay)
{
    struct writer a, b;
    pg_open(&a, "a", "going");
    pg_open(&b, "b", "staying");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
        ck_assert_int_eq(pg_write(&b, "one\n", 1), LD_SHARED_OK);
    }
    ck_assert_int_eq(a.log->ops->drop(a.log, a.id, &why), LD_SHARED_OK);
    char count[256], kept[256];
    (void)snprintf(count, sizeof count, "sql \"SELECT count(*) FROM laplaced.batch WHERE tenant = %d\"", (int)a.id);
    (void)snprintf(kept, sizeof kept, "sql \"SELECT count(*) FROM laplaced.batch WHERE tenant = %d\"", (int)b.id);
    for (int i = 0; i < 60 && strcmp(pg_ask(count), "0") != 0; i++)
        (void)usleep(250000);
    ck_assert_str_eq(pg_ask(count), "0");
    ck_assert_str_eq(pg_ask(kept), "3");
    ck_assert_int_eq(pg_write(&b, "two\n", 1), LD_SHARED_OK);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

/* --- lines that are rewritten -------------------------------------------------------------------------------- */

static void note_name(void *arg, const char *node)
{
    char *names = arg;
    const size_t n = strlen(names);
    (void)snprintf(names + n, 64 - n, "%s ", node);
}

START_TEST(lines_that_are_rewritten_are_read_from_the_beginning_and_an_old_place_is_told_so)
{
    static const struct ld_shared_line line = {.seq = 3, .text = "THREE!", .n_text = 6};
    struct writer a, b, c;
    struct ld_shared_turn *turn = NULL;
    char names[64] = "";
    pg_open(&a, "w-a", "rewritten");
    pg_open(&b, "w-b", "rewritten");
    pg_open(&c, "w-c", "rewritten");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&a, "two\nthree\n", 2), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&a, "four\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_follow(&b), LD_SHARED_OK);
    struct ld_shared_batch more[] = {{.at.seq = 5, .n = 1, .node = a.node, .nonce = 71, .body = "five\n", .n_body = 5},
                                     {.at.seq = 6, .n = 1, .node = a.node, .nonce = 72, .body = "six\n", .n_body = 4}};
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &a.why), LD_SHARED_OK);
    ck_assert_msg(a.log->ops->rewrite(turn, &line, 1, more, 2, &a.why) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_uint_gt(more[1].at.generation, 0);
    ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &more[1], &a.why), LD_SHARED_OK);
    a.at = more[1].at; /* who has rewritten goes on */
    ck_assert_int_eq(pg_write(&a, "seven\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_follow(&b), LD_SHARED_REWRITTEN);
    ck_assert_int_eq(b.log->ops->take(b.log, b.id, &b.at, pg_tell, &b, &turn, &b.why), LD_SHARED_REWRITTEN);
    ck_assert_ptr_null(turn);
    c.at.generation = LD_ANY_GENERATION;
    ck_assert_int_eq(pg_follow(&c), LD_SHARED_OK); /* every link of the chain is held to the one before */
    ck_assert_str_eq(c.told, "w-a:1-1:one\n|w-a:2-3:two\nTHREE!\n|w-a:4-4:four\n|w-a:5-5:five\n|w-a:6-6:six\n|"
                             "w-a:7-7:seven\n|");
    ck_assert_uint_eq(c.at.generation, more[1].at.generation);
    ck_assert_int_eq(pg_write(&c, "eight\n", 1), LD_SHARED_OK);
    c.at.generation++; /* a log that was set back */
    ck_assert_int_eq(pg_follow(&c), LD_SHARED_FORKED);
    ck_assert_int_eq(a.log->ops->report(a.log, more[1].at.generation, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->laggards(a.log, more[1].at.generation, note_name, names, &why), LD_SHARED_OK);
    ck_assert_msg(strstr(names, "w-a") == NULL && strstr(names, "w-b w-c ") != NULL, "%s", names);
    pg_close(&a);
    pg_close(&b);
    pg_close(&c);
}
END_TEST

START_TEST(a_line_that_is_rewritten_alone_moves_nothing_but_the_chain_and_the_generation)
{
    struct writer a, b, c;
    struct ld_shared_turn *turn = NULL;
    const struct ld_shared_line line = {.seq = 2, .text = "TWO", .n_text = 3},
                                none = {.seq = 9, .text = "?", .n_text = 1};
    pg_open(&a, "w-a", "one-line");
    pg_open(&b, "w-b", "one-line");
    pg_open(&c, "w-c", "one-line");
    ck_assert_int_eq(pg_write(&a, "one\ntwo\n", 2), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&a, "three\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_follow(&b), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &a.why), LD_SHARED_OK);
    ck_assert_msg(a.log->ops->rewrite(turn, &line, 1, NULL, 0, &a.why) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_int_eq(pg_follow(&b), LD_SHARED_REWRITTEN);
    c.at.generation = LD_ANY_GENERATION;
    ck_assert_int_eq(pg_follow(&c), LD_SHARED_OK);
    ck_assert_str_eq(c.told, "w-a:1-2:one\nTWO\n|w-a:3-3:three\n|");
    ck_assert_uint_gt(c.at.generation, 0);
    ck_assert_int_eq(c.log->ops->take(c.log, c.id, &c.at, pg_tell, &c, &turn, &c.why), LD_SHARED_OK);
    ck_assert_int_eq(c.log->ops->rewrite(turn, &none, 1, NULL, 0, &c.why), LD_SHARED_DOWN); /* it has no such line */
    ck_assert_int_eq(pg_write(&c, "four\n", 1), LD_SHARED_OK);
    pg_close(&a);
    pg_close(&b);
    pg_close(&c);
}
END_TEST

/* Lines of a tenant that comes under a name of nobody's, the last of them to be its commit. */
static struct ld_shared_turn *come(struct writer *w, const char *name, uint64_t *id, struct ld_shared_batch *last)
{
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_batch first = {.at.seq = 1, .n = 1, .node = w->node, .nonce = 81, .body = "un\n", .n_body = 3};
    ck_assert_int_eq(w->log->ops->make(w->log, name, &turn, id, &w->why), LD_SHARED_OK);
    ld_chain(first.at.hash, (unsigned char[LD_CHAIN_BYTES]){0}, first.body, first.n_body);
    ck_assert_int_eq(w->log->ops->put(turn, &first, &w->why), LD_SHARED_OK);
    *last = (struct ld_shared_batch){.at.seq = 2, .n = 1, .node = w->node, .nonce = 82, .body = "deux\n", .n_body = 5};
    ld_chain(last->at.hash, first.at.hash, last->body, last->n_body);
    return turn;
}

/* Limits that are set, or cleared, for the one that is exchanged meanwhile. */
struct limits {
    struct writer *w;
    uint64_t id;
    const struct ld_rate *own;
    enum ld_shared_rc rc;
};

static void *run_limits(void *arg)
{
    struct limits *l = arg;

    l->rc = l->w->log->ops->set_rate(l->w->log, l->id, l->own, &l->w->why);
    return NULL;
}

static void note_rate(void *arg, const char *name, const struct ld_rate *own)
{
    if (strcmp(name, "limited") == 0)
        *(struct ld_rate *)arg = *own;
}

START_TEST(limits_of_a_tenant_that_is_exchanged_meanwhile_are_refused)
{
    const struct ld_rate rate = {.rate = 3, .burst = 4}, other = {.rate = 7, .burst = 8};
    struct ld_rate found = {.rate = 0};
    struct ld_shared_batch last;
    struct writer a, b;
    uint64_t id = 0;
    pthread_t thread;
    pg_open(&a, "w-a", "limited");
    pg_open(&b, "w-b", "limited");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &rate, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, NULL, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, NULL, &why), LD_SHARED_OK); /* there is none, of one that is */
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &rate, &why), LD_SHARED_OK);
    struct ld_shared_turn *turn = come(&a, ".nobodys", &id, &last);
    struct limits limits = {&b, a.id, _i == 0 ? &other : NULL, LD_SHARED_OK};
    ck_assert_int_eq(a.log->ops->exchange(turn, "limited", a.id, &a.why), LD_SHARED_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_limits, &limits), 0);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* as a rule its statement has begun by then */
    ck_assert_msg(a.log->ops->append(turn, &last, &a.why) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_msg(limits.rc == LD_SHARED_NONE, "%d %s", limits.rc, b.why.text);
    ck_assert_int_eq(a.log->ops->rates(a.log, note_rate, &found, &why), LD_SHARED_OK);
    ck_assert(found.rate == 3 && found.burst == 4); /* they went with the name */
    ck_assert_int_eq(b.log->ops->set_rate(b.log, id, limits.own, &b.why), LD_SHARED_OK);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

START_TEST(a_tenant_takes_anothers_place_with_its_commit_or_not_at_all)
{
    struct writer a, b, c;
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_tenant t;
    struct ld_shared_batch last;
    uint64_t id = 0;
    bool is_new = false;
    const struct ld_rate rate = {.rate = 3, .burst = 4};
    pg_open(&a, "w-a", "place");
    pg_open_for(&b, "w-b", "place", 500);
    pg_open(&c, "w-c", "place");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->set_rate(a.log, a.id, &rate, &why), LD_SHARED_OK);
    turn = come(&a, ".nobodys", &id, &last);
    ck_assert_int_eq(pg_write(&b, "two\n", 1), LD_SHARED_OK); /* the other goes on */
    ck_assert_int_eq(a.log->ops->exchange(turn, "place", a.id, &a.why), LD_SHARED_OK);
    ck_assert_int_eq(pg_write(&b, "three\n", 1), LD_SHARED_DOWN); /* until here */
    a.log->ops->release(turn);
    ck_assert_int_eq(a.log->ops->find(a.log, "place", false, &t, &is_new, &why), LD_SHARED_OK);
    ck_assert_uint_eq(t.id, a.id);
    ck_assert_uint_eq(t.tip.seq, 2);
    turn = come(&a, ".nobodys", &id, &last);
    ck_assert_int_eq(a.log->ops->exchange(turn, "place", a.id, &a.why), LD_SHARED_OK);
    ck_assert_msg(a.log->ops->append(turn, &last, &a.why) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_int_eq(a.log->ops->settle(a.log, id, &last, &a.why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->find(a.log, "place", false, &t, &is_new, &why), LD_SHARED_OK);
    ck_assert_uint_eq(t.id, id);
    ck_assert_uint_eq(t.tip.seq, 2);
    ck_assert_int_eq(a.log->ops->find(a.log, ".nobodys", false, &t, &is_new, &why), LD_SHARED_NONE);
    ck_assert_int_eq(pg_write(&b, "three\n", 1), LD_SHARED_NONE);
    c.id = id;
    ck_assert_int_eq(pg_follow(&c), LD_SHARED_OK);
    ck_assert_str_eq(c.told, "w-a:1-1:un\n|w-a:2-2:deux\n|");
    turn = come(&c, ".nobodys", &id, &last); /* of one that is there no more */
    ck_assert_int_eq(c.log->ops->exchange(turn, "place", a.id, &c.why), LD_SHARED_BEHIND);
    c.log->ops->release(turn);
    pg_close(&a);
    pg_close(&b);
    pg_close(&c);
}
END_TEST

/* What a summary stands for was there, or was not: nobody can tell any more. */
START_TEST(of_a_batch_that_a_summary_would_have_taken_nothing_is_said)
{
    struct writer a;
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_batch gone = {.n = 1, .at_ms = 1, .node = "w-a", .nonce = 4711, .body = "two\n", .n_body = 4},
                           last = {.at.seq = 2, .n = 1, .at_ms = 1, .node = "w-a", .nonce = 4712, .body = "sum\n"};
    struct ld_shared_batch other = last;
    const struct ld_shared_summary summary = {.last = 2, .batch = &last, .n = 1};

    last.n_body = 4;
    pg_open_for(&a, "w-a", "summed-up", 1000);
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(pg_append(&a, &gone), LD_SHARED_OK);
    gone.at.seq = 2;
    ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &gone, &a.why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &other, &a.why), LD_SHARED_BEHIND);
    ck_assert_int_eq(pg_write(&a, "three\n", 1), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &a.why), LD_SHARED_OK);
    ck_assert_msg(a.log->ops->compact(turn, &summary, &a.why) == LD_SHARED_OK, "%s", a.why.text);
    ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &last, &a.why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &gone, &a.why), LD_SHARED_UNKNOWN);
    for (other.at.seq = 3; other.at.seq < 5; other.at.seq++)
        ck_assert_int_eq(a.log->ops->settle(a.log, a.id, &other, &a.why), LD_SHARED_BEHIND);
    pg_close(&a);
}
END_TEST

struct listing {
    char text[4096];
};

static void list(void *arg, const char *name, const struct ld_shared_tenant *t)
{
    struct listing *l = arg;
    const size_t n = strlen(l->text);
    (void)snprintf(l->text + n, sizeof l->text - n, "%s=%llu ", name, (unsigned long long)t->tip.seq);
}

START_TEST(tips_name_the_living_in_order_with_the_end_of_their_logs)
{
    struct writer a, b, c;
    struct listing l = {.text = ""};
    uint64_t generation = 0;
    pg_open(&a, "a", "tips-b");
    pg_open(&b, "a", "tips-B");
    pg_open(&c, "a", "tips-a");
    ck_assert_int_eq(pg_write(&a, "one\ntwo\n", 2), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->drop(a.log, b.id, &why), LD_SHARED_OK);
    ck_assert_int_eq(a.log->ops->tips(a.log, list, &l, &generation, &why), LD_SHARED_OK);
    ck_assert_msg(strstr(l.text, "tips-a=0 tips-b=2 ") != NULL, "%s", l.text);
    ck_assert_ptr_null(strstr(l.text, "tips-B"));
    pg_close(&a);
    pg_close(&b);
    pg_close(&c);
}
END_TEST

/* --- opening ---------------------------------------------------------------------------------------------- */

START_TEST(health_counts_the_standbys_that_commits_wait_for)
{
    struct writer a, b;
    struct ld_shared_health h;
    pg_open(&a, "a", "health");
    a.log->ops->health(a.log, &h);
    ck_assert(h.is_up && h.n_standbys == 1);
    pg_open_trusted(&b, "b", "health");
    b.log->ops->health(b.log, &h);
    ck_assert(h.is_up && h.n_standbys == -1);
    pg_close(&a);
    pg_close(&b);
}
END_TEST

START_TEST(an_address_that_is_none_and_a_database_without_tables_are_refused)
{
    struct ld_shared_log *log = NULL;
    struct ld_pg_config config = {.url = "postgresql://[", .node = "a", .wait_ms = 1000};
    char url[256];
    ck_assert_int_eq(ld_pg_log_open(&log, &config, &why), -1);
    ck_assert_msg(strstr(why.text, "cannot be read") != NULL, "%s", why.text);
    (void)snprintf(url, sizeof url, "%.*s/postgres", (int)(strrchr(pg_url(), '/') - pg_url()), pg_url());
    config.url = url;
    ck_assert_int_eq(ld_pg_log_open(&log, &config, &why), -1);
    ck_assert_msg(strstr(why.text, "laplacectl cluster init") != NULL, "%s", why.text);
    ck_assert_ptr_null(log);
}
END_TEST

START_TEST(tables_are_made_once)
{
    bool is_new = true;
    ck_assert_msg(ld_pg_init(pg_url(), &is_new, &why) == 0, "%s", why.text);
    ck_assert(!is_new);
}
END_TEST

START_TEST(a_database_that_does_not_answer_is_down_and_no_failure)
{
    struct ld_shared_log *log = NULL;
    struct ld_shared_health h;
    struct ld_shared_tenant t;
    const struct ld_pg_config config = {.url = "postgresql://127.0.0.1:9/log", .node = "a", .wait_ms = 300};
    ck_assert_int_eq(ld_pg_log_open(&log, &config, &why), 0);
    log->ops->health(log, &h);
    ck_assert(!h.is_up && h.why.text[0] != '\0');
    ck_assert_int_eq(log->ops->find(log, "x", true, &t, NULL, &why), LD_SHARED_DOWN);
    log->ops->close(log);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pg_log");
    TCase *c = tcase_create("pg_log");
    tcase_add_unchecked_fixture(c, pg_begin, pg_end);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_batch_that_was_acknowledged_is_what_the_next_turn_is_told_of);
    tcase_add_test(c, bodies_come_back_byte_for_byte_and_so_do_the_numbers_of_their_batch);
    tcase_add_test(c, three_writers_by_turns_leave_each_line_once_and_one_chain);
    tcase_add_test(c, a_turn_that_is_given_up_leaves_nothing);
    tcase_add_test(c, a_turn_that_computes_for_three_seconds_is_kept);
    tcase_add_test(c, who_waits_too_long_for_a_turn_is_told_so_and_the_turn_goes_on);
    tcase_add_test(c, what_the_told_one_answers_ends_the_take_and_frees_the_turn);
    tcase_add_test(c, a_long_log_is_read_in_parts_and_taken_whole);
    tcase_add_test(c, a_body_of_many_megabytes_over_a_slow_network_is_no_silence);
    tcase_add_test(c, addresses_are_turned_round_with_their_ports);
    tcase_add_test(c, a_copy_with_other_lines_or_more_of_them_is_told_that_it_is_a_fork);
    tcase_add_test(c, a_row_that_was_changed_or_lost_in_the_database_breaks_the_chain);
    tcase_add_test(c, a_tenant_that_the_database_has_never_had_is_a_fork_for_a_copy_and_none_for_nobody);
    tcase_add_test(c, an_end_of_the_log_that_was_lost_is_no_shorter_log_but_a_fork);
    tcase_add_test(c, a_name_is_made_once_and_found_by_all);
    tcase_add_test(c, a_tenant_that_is_dropped_is_gone_for_all_and_its_name_begins_anew);
    tcase_add_test(c, the_lines_of_a_dropped_tenant_go_and_those_of_others_stay);
    tcase_add_test(c, tips_name_the_living_in_order_with_the_end_of_their_logs);
    tcase_add_test(c, of_a_batch_that_a_summary_would_have_taken_nothing_is_said);
    tcase_add_test(c, lines_that_are_rewritten_are_read_from_the_beginning_and_an_old_place_is_told_so);
    tcase_add_test(c, a_line_that_is_rewritten_alone_moves_nothing_but_the_chain_and_the_generation);
    tcase_add_test(c, a_tenant_takes_anothers_place_with_its_commit_or_not_at_all);
    tcase_add_loop_test(c, limits_of_a_tenant_that_is_exchanged_meanwhile_are_refused, 0, 2);
    tcase_add_test(c, health_counts_the_standbys_that_commits_wait_for);
    tcase_add_test(c, an_address_that_is_none_and_a_database_without_tables_are_refused);
    tcase_add_test(c, tables_are_made_once);
    tcase_add_test(c, a_database_that_does_not_answer_is_down_and_no_failure);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return kbt_run_suite(suite());
}
