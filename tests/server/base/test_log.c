/* The log's lines as a reader of stderr gets them: forms, escapes, limits, and a reader that does not read. Each test
 * is a process of its own (check forks), whose stderr is what the test puts in its place. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kbt.h"
#include "base/log.h"
#include "base/trace.h"

static int reader;
static char got[1 << 20];

static void replace_stderr(int fd, bool is_json)
{
    ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
    close(fd);
    ld_log_open(is_json);
}

static void open_pipe(bool is_json)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    replace_stderr(ends[1], is_json);
}

/* All that is there now. */
static const char *read_all(void)
{
    size_t n = 0;
    ssize_t more;
    while (n < sizeof got - 1 && (more = read(reader, got + n, sizeof got - 1 - n)) > 0)
        n += (size_t)more;
    got[n] = '\0';
    return got;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* --- forms ---------------------------------------------------------------------------------------------- */

static const char nasty[] = "a\"b\\c\nd\x01\x7f\xc2\x9b\xff\xc3\xa9=";

START_TEST(text_lines_are_escaped)
{
    open_pipe(false);
    ld_log(LD_LOG_WARN, "%s", nasty);
    const char *line = read_all();
    ck_assert_uint_eq(strspn(line, "ts=0123456789-T:.Z"), strlen("ts=2026-11-21T10:00:00.123Z"));
    ck_assert_ptr_nonnull(strstr(line, " level=warn msg=\"a\\\"b\\\\c\\x0ad\\x01\\x7f\\x9b\\xff\xc3\xa9=\"\n"));
    ck_assert_uint_eq(count(line, "\n"), 1);
}
END_TEST

START_TEST(json_lines_are_json_whatever_is_in_them)
{
    static const struct ld_log_member members[] = {
        {.key = "name", .text = "x\"\n"}, {.key = "empty", .text = ""}, {.key = "n", .number = 0.25}};
    static const struct ld_trace trace = {.high = 1, .low = 2, .span = 3};
    const char *msg, *name, *id;
    double n;
    open_pipe(true);
    ld_trace_enter(&trace);
    ld_log_members(LD_LOG_ERROR, nasty, true, members, 3);
    ld_trace_enter(NULL);
    json_t *o = json_loads(read_all(), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(o != NULL, "%s", got);
    ck_assert_int_eq(json_unpack(o, "{s:s,s:s,s:F,s:s}", "msg", &msg, "name", &name, "n", &n, "trace", &id), 0);
    ck_assert_str_eq(msg, "a\"b\\c\nd\x01\x7f\xc2\x9b\xef\xbf\xbd\xc3\xa9=");
    ck_assert_str_eq(name, "x\"\n");
    ck_assert_ptr_null(json_object_get(o, "empty"));
    ck_assert_double_eq(n, 0.25);
    ck_assert_str_eq(id, "00000000000000010000000000000002");
    json_decref(o);
}
END_TEST

START_TEST(text_members_are_quoted_where_they_must)
{
    static const struct ld_log_member members[] = {
        {.key = "route", .text = "/tenants/{t}"}, {.key = "name", .text = "a b"}, {.key = "n", .number = 3}};
    open_pipe(false);
    ld_log_members(LD_LOG_INFO, "request", true, members, 3);
    ck_assert_ptr_nonnull(strstr(read_all(), "msg=\"request\" route=/tenants/{t} name=\"a b\" n=3\n"));
}
END_TEST

/* A message that fills its line with escapes is cut; the line stays one, and whole. */
START_TEST(long_messages_are_cut)
{
    char text[4096];
    memset(text, '\x01', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    open_pipe(true);
    ld_log(LD_LOG_INFO, "%s", text);
    json_t *o = json_loads(read_all(), 0, NULL);
    ck_assert_msg(o != NULL, "%s", got);
    ck_assert_uint_lt(strlen(got), 1300);
    ck_assert_uint_gt(strlen(got), 1000);
    json_decref(o);
}
END_TEST

START_TEST(ids_in_quotes_are_blanked)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"decision 'secret' exists already", "decision '*' exists already"},
        {"'secret' is not in the tenant's catalogue", "'*' is not in the tenant's catalogue"},
        {"arm 'sec' ret' x' is new", "arm '*' is new"},
        {"the snapshot's digest differs", "the snapshot's digest differs"},
        {"cut off: 'secret that goes on", "cut off: '*"},
        {"two: 'secret' and 'secret'", "two: '*'"},
        {"empty: ''", "empty: ''"},
    };
    open_pipe(false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, "msg=\"%s\"\n", cases[i].want);
        ld_log(LD_LOG_INFO, "%s", cases[i].text);
        ck_assert_msg(strstr(read_all(), want) != NULL, "%s", got);
    }
}
END_TEST

START_TEST(lines_below_the_level_are_left_out)
{
    open_pipe(false);
    ld_log_set_level(LD_LOG_WARN);
    ld_log(LD_LOG_INFO, "not this");
    ld_log_members(LD_LOG_INFO, "nor this", true, NULL, 0);
    ld_log(LD_LOG_WARN, "but this");
    ck_assert_uint_eq(count(read_all(), "\n"), 1);
    ck_assert_ptr_nonnull(strstr(got, "but this"));
}
END_TEST

/* --- limits --------------------------------------------------------------------------------------------- */

START_TEST(repeated_lines_are_limited_and_counted)
{
    const struct timespec second = {.tv_sec = 1, .tv_nsec = 50000000};
    open_pipe(false);
    for (int i = 0; i < 3 * LD_LOG_PER_SECOND; i++)
        ld_log(LD_LOG_INFO, "again and again: %d", i);
    ld_log(LD_LOG_INFO, "of another kind");
    for (int i = 0; i < 2 * LD_LOG_PER_SECOND; i++)
        ld_log_members(LD_LOG_INFO, "without a limit", true, NULL, 0);
    read_all();
    /* A machine that stalls for a second in between opens a second window. */
    const size_t n = count(got, "again and again");
    ck_assert(n == LD_LOG_PER_SECOND || n == 2 * LD_LOG_PER_SECOND || n == 3 * LD_LOG_PER_SECOND);
    ck_assert_uint_eq(count(got, "of another kind"), 1);
    ck_assert_uint_eq(count(got, "without a limit"), 2 * LD_LOG_PER_SECOND);
    ck_assert_uint_eq(ld_log_n_limited(), 3 * LD_LOG_PER_SECOND - n);
    nanosleep(&second, NULL);
    ld_log_tick();
    if (n == LD_LOG_PER_SECOND)
        ck_assert_msg(strstr(read_all(), "lines=100 like=\"again and again: %d\"\n") != NULL, "%s", got);
    ld_log_tick();
    ck_assert_str_eq(read_all(), ""); /* told once */
    ld_log(LD_LOG_INFO, "again and again: %d", 0);
    ck_assert_uint_eq(count(read_all(), "\n"),
                      1); /* other texts of the same format are another call's: the limit is new */
}
END_TEST

/* --- readers that do not read --------------------------------------------------------------------------- */

/* Fills what holds unread lines, in far more lines than fit; returns when none waited. */
static uint64_t overfill(void)
{
    for (int i = 0; i < 20000; i++)
        ld_log_members(LD_LOG_INFO, "nobody reads this, and the server goes on", true, NULL, 0);
    return ld_log_n_lost();
}

static void check_stall(void)
{
    const uint64_t n_lost = overfill();
    ck_assert_uint_gt(n_lost, 0);
    ck_assert_uint_lt(n_lost, 20000);
    ck_assert_uint_eq(count(read_all(), "nobody reads this"), 20000 - n_lost);
    for (const char *line = got, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        ck_assert_msg(strncmp(line, "ts=", 3) == 0 && end[-1] == '"', "%.*s", (int)(end - line), line);
    ld_log(LD_LOG_INFO, "read again");
    char want[64];
    snprintf(want, sizeof want, "lines=%llu\n", (unsigned long long)n_lost);
    ck_assert_msg(strstr(read_all(), want) != NULL && strstr(got, "read again") > strstr(got, want), "%s", got);
    ck_assert_uint_eq(ld_log_n_lost(), n_lost);
}

START_TEST(a_full_pipe_loses_lines_and_time_for_nobody)
{
    open_pipe(false);
    check_stall();
}
END_TEST

START_TEST(a_full_socket_does_so_as_well)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    replace_stderr(ends[1], false);
    const uint64_t n_lost = overfill();
    ck_assert(n_lost > 0 && n_lost < 20000);
    read_all();
    ld_log(LD_LOG_INFO, "read again");
    ck_assert_ptr_nonnull(strstr(read_all(), "read again"));
}
END_TEST

/* The opening that the shell shares with us is not changed. */
START_TEST(a_pipe_stays_as_it_was_for_others)
{
    open_pipe(false);
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
}
END_TEST

START_TEST(a_reader_that_is_gone_costs_lines_only)
{
    open_pipe(false);
    close(reader);
    signal(SIGPIPE, SIG_IGN);
    ld_log(LD_LOG_INFO, "into the void");
    ck_assert_uint_eq(ld_log_n_lost(), 1);
}
END_TEST

START_TEST(a_journal_gets_priorities)
{
    char stream[64];
    struct stat st;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    ck_assert_int_eq(fstat(ends[1], &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    replace_stderr(ends[1], false);
    ld_log(LD_LOG_WARN, "w");
    ld_log(LD_LOG_ERROR, "e");
    ck_assert_int_eq(strncmp(read_all(), "<4>ts=", 6), 0);
    ck_assert_ptr_nonnull(strstr(got, "\n<3>ts="));
}
END_TEST

/* A service that was started by another one inherits its variable, and a stderr that is none. */
START_TEST(a_pipe_is_no_journal)
{
    setenv("JOURNAL_STREAM", "8:12345", 1);
    open_pipe(false);
    ld_log(LD_LOG_WARN, "w");
    ck_assert_int_eq(strncmp(read_all(), "ts=", 3), 0);
}
END_TEST

/* --- threads -------------------------------------------------------------------------------------------- */

static void *write_lines(void *arg)
{
    const struct ld_trace trace = {.high = 0xabc, .low = *(const unsigned *)arg, .span = 1};
    for (int i = 0; i < 300; i++) {
        const struct ld_log_member member = {.key = "of", .number = *(const unsigned *)arg};
        ld_trace_enter(&trace);
        ld_log_members(LD_LOG_INFO, "line of a thread", true, &member, 1);
        ld_log(LD_LOG_DEBUG, "not wanted");
        ld_log_tick();
    }
    return NULL;
}

static void *drain(void *arg)
{
    FILE *out = arg;
    char bytes[4096];
    struct pollfd p = {.fd = reader, .events = POLLIN};
    while (poll(&p, 1, 500) > 0) {
        ssize_t n = read(reader, bytes, sizeof bytes);
        if (n <= 0)
            break;
        fwrite(bytes, 1, (size_t)n, out);
    }
    return NULL;
}

/* Every line whole, with the trace of its own thread, and none missing but those that are counted. */
START_TEST(threads_do_not_mix_their_lines)
{
    static const unsigned number[] = {1, 2, 3, 4};
    pthread_t thread[4], readers_thread;
    char *text = NULL;
    size_t n_text = 0, n = 0;
    FILE *out = open_memstream(&text, &n_text);
    open_pipe(false);
    pthread_create(&readers_thread, NULL, drain, out);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, write_lines, (void *)(uintptr_t)&number[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    pthread_join(readers_thread, NULL);
    fclose(out);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char want[80];
        const char *of = strstr(line, "msg=\"line of a thread\" of=");
        if (of == NULL)
            continue; /* about lines that were lost */
        snprintf(want, sizeof want, "of=%c trace=0000000000000abc000000000000000%c", line[of - line + 26],
                 line[of - line + 26]);
        ck_assert_msg(strcmp(of + 23, want) == 0, "%s", line);
        n++;
    }
    ck_assert_uint_eq(n + ld_log_n_lost(), 1200);
    free(text);
}
END_TEST

int main(void)
{
    return KBT_RUN("log", text_lines_are_escaped, json_lines_are_json_whatever_is_in_them,
                   text_members_are_quoted_where_they_must, long_messages_are_cut, ids_in_quotes_are_blanked,
                   lines_below_the_level_are_left_out, repeated_lines_are_limited_and_counted,
                   a_full_pipe_loses_lines_and_time_for_nobody, a_full_socket_does_so_as_well,
                   a_pipe_stays_as_it_was_for_others, a_reader_that_is_gone_costs_lines_only, a_journal_gets_priorities,
                   a_pipe_is_no_journal, threads_do_not_mix_their_lines);
}
