/* Connections over the threads of the HTTP server: each thread has its share, whatever the order in which they come and
 * go, and want of descriptors is waited out without spinning. */
#include <check.h>
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

#define THREADS 4
#define CLIENTS 40

static struct ld_http *server;
static struct ld_metrics metrics;
static struct kbt_response answer;

static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg;
    (void)r;
    return 0;
}

/* Answers with the number of the thread that serves the connection. */
static void handle(void *arg, struct ld_request *r)
{
    char *text = malloc(32);
    (void)arg;
    int n = snprintf(text, 32, "%d", (int)gettid());
    ld_reply(r, &(struct ld_reply){.content_type = "text/plain", .text = text, .n = (size_t)n});
}

static void start(void)
{
    static const struct ld_http_hooks hooks = {.admit = admit, .handle = handle};
    const struct ld_http_options o = {
        .host = "127.0.0.1", .threads = THREADS, .max_connections = 64, .metrics = &metrics};
    struct ld_message why;
    memset(&metrics, 0, sizeof metrics);
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
}

static void stop(void)
{
    ld_http_stop(server);
}

/* Which thread answers on the connection. */
static int thread_of(int fd)
{
    kbt_send(fd, "GET /thread HTTP/1.1\r\nHost: x\r\n\r\n");
    kbt_receive(fd, &answer);
    ck_assert_int_eq(answer.status, 200);
    return atoi(answer.body);
}

/* How many of the clients each thread has; *n_threads is how many have any. */
static size_t largest_share(const int *thread, size_t n, size_t *n_threads)
{
    size_t most = 0;
    *n_threads = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0, before = 0;
        for (size_t k = 0; k < n; k++) {
            same += thread[k] == thread[i];
            before += k < i && thread[k] == thread[i];
        }
        most = same > most ? same : most;
        *n_threads += before == 0;
    }
    return most;
}

/* All connected before the first of them says a word, as a backend's pool does. */
static void dial_all(int *fd, int *thread)
{
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_ge(fd[i] = kbt_connect(ld_http_port(server)), 0);
    for (int i = 0; i < CLIENTS; i++)
        thread[i] = thread_of(fd[i]);
}

START_TEST(a_pool_of_connections_is_shared_by_all_threads)
{
    int fd[CLIENTS], thread[CLIENTS];
    size_t n_threads;
    dial_all(fd, thread);
    ck_assert_uint_eq(largest_share(thread, CLIENTS, &n_threads), CLIENTS / THREADS);
    ck_assert_uint_eq(n_threads, THREADS);
    for (int i = 0; i < CLIENTS; i++)
        close(fd[i]);
}
END_TEST

START_TEST(new_connections_go_where_others_have_left)
{
    int fd[CLIENTS], thread[CLIENTS];
    size_t n_threads, n_closed = 0;
    dial_all(fd, thread);
    const int left = thread[0];
    for (int i = 0; i < CLIENTS; i++)
        if (thread[i] == left) {
            close(fd[i]);
            fd[i] = -1;
            n_closed++;
        }
    for (int i = 0; i < 5000 && atomic_load(&metrics.connections) > CLIENTS - n_closed; i++)
        kbt_pause_ms(1);
    for (int i = 0; i < CLIENTS; i++)
        if (fd[i] < 0) {
            ck_assert_int_ge(fd[i] = kbt_connect(ld_http_port(server)), 0);
            ck_assert_int_eq(thread_of(fd[i]), left);
        }
    ck_assert_uint_eq(largest_share(thread, CLIENTS, &n_threads), CLIENTS / THREADS);
    for (int i = 0; i < CLIENTS; i++)
        close(fd[i]);
}
END_TEST

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* The client has the last descriptor that the process may have, so that none is left for the server's end. */
START_TEST(clients_wait_while_there_is_no_descriptor_for_them)
{
    struct rlimit before, tight;
    const struct timeval little = {.tv_usec = 300000};
    char byte;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = kbt_connect(ld_http_port(server)), other = fd;
    ck_assert_int_gt(thread_of(fd), 0);
    int filler[64], n = 0;
    for (; n < 64; n++) /* no hole is left below */
        ck_assert_int_ge(filler[n] = dup(fd), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)filler[n - 1] + 1;
    close(filler[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    ck_assert_int_ge(other = kbt_connect(ld_http_port(server)), 0);
    kbt_send(other, "GET /thread HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_int_eq(setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little), 0);
    const double cpu = cpu_s();
    ck_assert_int_eq(recv(other, &byte, 1, MSG_PEEK), -1);
    ck_assert_double_lt(cpu_s() - cpu, 0.15); /* half of the time, had it spun */
    ck_assert_int_gt(thread_of(fd), 0);       /* the others are served meanwhile */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    kbt_receive(other, &answer);
    ck_assert_int_eq(answer.status, 200);
    while (n > 0)
        close(filler[--n]);
    close(fd);
    close(other);
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH("http_accept", 30, start, stop, a_pool_of_connections_is_shared_by_all_threads,
                        new_connections_go_where_others_have_left, clients_wait_while_there_is_no_descriptor_for_them);
}
