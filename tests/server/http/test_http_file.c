/* Long answers: whole from a file, whatever their length; and without a file bounded by the memory of bodies. */
#include <check.h>
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

#define FREE_BYTES LD_BODY_FREE_BYTES
#define BUDGET ((size_t)1 << 20)

static struct ld_http *server;
static struct ld_metrics metrics;
static struct ld_body_memory memory;

static size_t asked(struct ld_request *r, const char *name)
{
    const char *text = ld_request_query(r, name);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

/* The byte at i of every answer here. */
static char byte_at(size_t i)
{
    return (char)('a' + i % 23);
}

static char *text_of(size_t from, size_t n)
{
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        text[i] = byte_at(from + i);
    return text;
}

static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg;
    (void)r;
    return 0;
}

/* n pieces of `size` bytes, as far as there is room. */
static void reply_pieces(struct ld_request *r)
{
    struct ld_answer a;
    const size_t n = asked(r, "n"), size = asked(r, "size");
    ld_answer_init(&a, r);
    for (size_t i = 0, rc = 0; i < n && rc == 0; i++) {
        char *text = text_of(i * size, size);
        rc = (size_t)(ld_answer_put(&a, text, size) != 0);
        free(text);
    }
    if (ld_answer_bytes(&a) > 0 || n == 0) {
        ld_answer_reply(&a, "text/plain");
    } else {
        ld_answer_drop(&a);
        ld_reply_status(r, 503, "no room");
    }
}

static void handle(void *arg, struct ld_request *r)
{
    const size_t size = asked(r, "size");
    (void)arg;
    if (strcmp(ld_request_path(r), "/pieces") == 0)
        reply_pieces(r);
    else
        ld_reply(r, &(struct ld_reply){.content_type = "text/plain", .text = text_of(0, size), .n = size});
}

static void start_with(const char *dir)
{
    static const struct ld_http_hooks hooks = {.admit = admit, .handle = handle};
    struct ld_message why;
    const struct ld_http_options o = {.host = "127.0.0.1",
                                      .threads = 1,
                                      .max_head = 16384,
                                      .max_connections = 256,
                                      .answer_dir = dir,
                                      .body_memory = &memory,
                                      .metrics = &metrics};
    atomic_store(&memory.max, BUDGET);
    ck_assert_msg(ld_http_start(&server, &o, &hooks, &why) == 0, "%s", why.text);
}

/* Everything that was taken has been given back when the server is gone. */
static void stop(void)
{
    ld_http_stop(server);
    ck_assert_uint_eq(atomic_load(&memory.used), 0);
}

/* The body's length, its bytes as they should be; *status. */
static size_t get(const char *path, int *status)
{
    static char piece[65536];
    struct kbt_response head;
    const int fd = kbt_get(ld_http_port(server), path);
    size_t n = 0, length = 0;
    kbt_receive_head(fd, &head);
    const char *told = strstr(head.head, "Content-Length: ");
    *status = head.status;
    if (told != NULL)
        length = strtoul(told + strlen("Content-Length: "), NULL, 10);
    while (n < length) {
        const ssize_t got = recv(fd, piece, sizeof piece, 0);
        ck_assert_int_gt(got, 0);
        for (ssize_t i = 0; i < got && *status == 200; i++)
            if (piece[i] != byte_at(n + (size_t)i))
                ck_abort_msg("another byte at %zu", n + (size_t)i);
        n += (size_t)got;
    }
    close(fd);
    return n;
}

static const size_t sizes[] = {
    0, 1, FREE_BYTES - 1, FREE_BYTES, FREE_BYTES + 1, 2 * FREE_BYTES, 300001, 5000000,
};

START_TEST(answers_of_any_length_arrive_whole)
{
    char path[64];
    int status;
    start_with("/tmp");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(path, sizeof path, "/whole?size=%zu", sizes[i]);
        ck_assert_uint_eq(get(path, &status), sizes[i]);
        ck_assert_int_eq(status, 200);
        ck_assert_uint_eq(atomic_load(&memory.used), 0); /* of files, not of memory */
    }
    stop();
}
END_TEST

START_TEST(answers_in_pieces_arrive_whole)
{
    static const size_t pieces[][2] = {
        {0, 0},          {1, FREE_BYTES},     {1, FREE_BYTES + 1}, {2, FREE_BYTES / 2}, {3, FREE_BYTES / 2},
        {2, FREE_BYTES}, {5, FREE_BYTES + 3}, {4000, 17},          {9000, 1000}};
    char path[64];
    int status;
    start_with("/tmp");
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        snprintf(path, sizeof path, "/pieces?n=%zu&size=%zu", pieces[i][0], pieces[i][1]);
        ck_assert_uint_eq(get(path, &status), pieces[i][0] * pieces[i][1]);
        ck_assert_int_eq(status, 200);
    }
    stop();
}
END_TEST

/* Nowhere to write to: the memory of bodies bounds what is whole, and pieces end after the last that fits. */
static void check_without_files(const char *dir)
{
    int status;
    start_with(dir);
    ck_assert_uint_eq(get("/whole?size=65536", &status), FREE_BYTES);
    ck_assert_uint_eq(get("/whole?size=900000", &status), 900000);
    ck_assert_int_eq(status, 200);
    (void)get("/whole?size=1200000", &status);
    ck_assert_int_eq(status, 503);
    ck_assert_uint_eq(atomic_load(&metrics.limited[LD_LIMITED_BODY_MEMORY]), 1);
    ck_assert_uint_eq(get("/pieces?n=100&size=1000", &status), 65000);
    ck_assert_uint_eq(get("/pieces?n=3&size=900000", &status), 900000);
    ck_assert_int_eq(status, 200);
    (void)get("/pieces?n=1&size=1200000", &status);
    ck_assert_int_eq(status, 503);
    stop();
}

START_TEST(without_files_answers_count_as_bodies)
{
    memset(&metrics, 0, sizeof metrics);
    check_without_files(NULL);
    memset(&metrics, 0, sizeof metrics);
    check_without_files("/nowhere/at/all");
}
END_TEST

/* More than there may be files for, none of them read: the rest is in memory, and all are let go of with their clients.
 */
START_TEST(stalled_readers_hold_a_bounded_number_of_files)
{
    enum { N = 140 };
    int fd[N], status;
    start_with("/tmp");
    for (int i = 0; i < N; i++) {
        fd[i] = kbt_get(ld_http_port(server), "/pieces?n=5000&size=1000");
        ck_assert_int_ge(fd[i], 0);
        char byte;
        ck_assert_int_eq(recv(fd[i], &byte, 1, 0), 1);
    }
    ck_assert_uint_eq(get("/pieces?n=5000&size=1000", &status), 65000);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    for (int i = 0; i < 5000 && get("/pieces?n=5000&size=1000", &status) != 5000000; i++)
        kbt_pause_ms(1);
    ck_assert_uint_eq(get("/pieces?n=5000&size=1000", &status), 5000000);
    stop();
}
END_TEST

int main(void)
{
    return KBT_RUN("http_file", answers_of_any_length_arrive_whole, answers_in_pieces_arrive_whole,
                   without_files_answers_count_as_bodies, stalled_readers_hold_a_bounded_number_of_files);
}
