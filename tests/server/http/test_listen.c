/* A socket that a service manager hands over: taken as it is, or refused by its name. Each case runs in a process of
 * its own, whose descriptor 3 it may replace. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/listen.h"
#include "kbt.h"

static char number[2][32];
static bool has_fds;

static char *env_of(const char *name)
{
    if (strcmp(name, "LISTEN_PID") == 0)
        return number[0];
    return strcmp(name, "LISTEN_FDS") == 0 && has_fds ? number[1] : NULL;
}

static void say(long pid, const char *fds)
{
    snprintf(number[0], sizeof number[0], "%ld", pid);
    snprintf(number[1], sizeof number[1], "%s", fds);
    has_fds = true;
}

/* A socket of ours at descriptor 3. */
static struct ld_endpoint hand_over(const char *address)
{
    struct ld_endpoint e;
    struct ld_message why;

    ck_assert_int_eq(ld_endpoint_parse(address, &e), 0);
    const int fd = ld_endpoint_listen(&e, 8, &why);
    ck_assert_msg(fd >= 0, "%s", why.text);
    ck_assert_int_eq(dup2(fd, 3), 3);
    if (fd != 3)
        close(fd);
    return e;
}

static void is_taken(const char *address)
{
    struct ld_endpoint made = hand_over(address), found;
    struct ld_message why;
    char a[80], b[80];
    int fd = -1;

    fcntl(3, F_SETFL, fcntl(3, F_GETFL) & ~O_NONBLOCK);
    ck_assert_int_eq(ld_endpoint_inherited(&found, &fd, env_of, &why), 1);
    ld_endpoint_format(&made, a);
    ld_endpoint_format(&found, b);
    ck_assert_str_eq(a, b);
    ck_assert_int_eq(fd, 3);
    ck_assert_int_ne(fcntl(3, F_GETFL) & O_NONBLOCK, 0);
    ck_assert(ld_endpoint_is_loopback(&found));
}

START_TEST(what_is_handed_over_is_taken_with_its_address)
{
    say((long)getpid(), "1");
    is_taken("127.0.0.1:0");
    is_taken("[::1]:0");
    is_taken("127.0.0.1:0"); /* again, as a reload would see it */
}
END_TEST

START_TEST(what_is_for_another_process_or_for_nobody_is_not_looked_at)
{
    static const struct {
        long of;
        const char *fds;
    } rows[] = {{1, "1"}, {1, "many"}, {0, "0"}};
    struct ld_endpoint e;
    struct ld_message why;
    int fd = -1;

    close(3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        say((long)getpid() + rows[i].of, rows[i].fds);
        ck_assert_int_eq(ld_endpoint_inherited(&e, &fd, env_of, &why), 0);
    }
    has_fds = false;
    ck_assert_int_eq(ld_endpoint_inherited(&e, &fd, env_of, &why), 0);
    ck_assert_int_eq(fd, -1);
}
END_TEST

static void is_refused(const char *fds, const char *said)
{
    struct ld_endpoint e;
    struct ld_message why = {""};
    int fd = -1;

    say((long)getpid(), fds);
    ck_assert_int_eq(ld_endpoint_inherited(&e, &fd, env_of, &why), -1);
    ck_assert_msg(strstr(why.text, said) != NULL, "%s", why.text);
    ck_assert_int_eq(fd, -1);
}

START_TEST(what_cannot_be_served_is_told_by_its_reason)
{
    static const char *const numbers[] = {"", "-1", "+1", " 1", "1x", "99999999999999999999"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        is_refused(numbers[i], "is no number of sockets");
    hand_over("127.0.0.1:0");
    is_refused("2", "2 sockets were handed over");
    close(3);
    is_refused("1", "Bad file descriptor");
    const int datagrams = socket(AF_INET, SOCK_DGRAM, 0), silent = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(dup2(datagrams, 3), 3);
    is_refused("1", "not one of TCP");
    ck_assert_int_eq(dup2(silent, 3), 3);
    is_refused("1", "does not listen");
}
END_TEST

int main(void)
{
    /* Before libcheck opens what it reports by. */
    if (dup2(open("/dev/null", O_RDONLY), 3) != 3)
        return 1;
    return KBT_RUN("listen", what_is_handed_over_is_taken_with_its_address,
                   what_is_for_another_process_or_for_nobody_is_not_looked_at,
                   what_cannot_be_served_is_told_by_its_reason);
}
