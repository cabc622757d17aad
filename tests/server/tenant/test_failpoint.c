/* Failpoints: a process that dies at a named point leaves a log from which the next one goes on. */
#include <sys/wait.h>

#include "base/failpoint.h"
#include "tenant_fixture.h"

START_TEST(names_and_counts_are_parsed_strictly)
{
    static const char *const wrong[] = {"",
                                        "before",
                                        "before_appendx",
                                        "before_append:",
                                        "before_append:0",
                                        "before_append:-1",
                                        "before_append:2x",
                                        "before_append@",
                                        "before@/tmp/x",
                                        "nonsense:1"};
    int n = 0;
    long count = 0;

    ck_assert(ld_failpoint_parse("before_append", &n, &count));
    ck_assert_int_eq(n, 13);
    ck_assert_int_eq(count, 1);
    ck_assert(ld_failpoint_parse("mid_snapshot:17", &n, &count));
    ck_assert_int_eq(n, 12);
    ck_assert_int_eq(count, 17);
    ck_assert(ld_failpoint_parse("in_tick@/tmp/a:b", &n, &count));
    ck_assert_int_eq(n, 7);
    ck_assert_int_eq(count, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!ld_failpoint_parse(wrong[i], &n, &count), "%s", wrong[i]);
}
END_TEST

/* In a child: the failpoint armed, up to ten decisions; each that was answered adds a byte to the pipe. Returns how
 * many were answered before the child was killed. */
static int die_at(struct fixture *f, const char *failpoint)
{
    int fd[2], status, n = 0;
    char byte = 0;

    ck_assert_int_eq(pipe(fd), 0);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setenv("LAPLACED_FAILPOINT", failpoint, 1);
        fixture_start(f);
        for (int i = 0; i < 10; i++) {
            char id[16];
            snprintf(id, sizeof id, "d%d", i);
            struct ld_op *op = op_select(f->t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", id);
            if (settle_op(f->t, op) != 200 || write(fd[1], &byte, 1) != 1)
                _exit(1);
            ld_op_free(op);
        }
        ld_tenant_checkpoint(f->t);
        _exit(0);
    }
    close(fd[1]);
    while (read(fd[0], &byte, 1) == 1)
        n++;
    close(fd[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", (unsigned)status);
    return n;
}

/* The configured event passes the first three points once. The environment is read once: one call for each test. */
static void check_death(const char *failpoint, int want_answered, uint64_t want_decided)
{
    struct fixture f;

    fixture_world(&f);
    f.settings = fixture_settings("{\"algorithm\":\"ucb\"}");
    ck_assert_int_eq(die_at(&f, failpoint), want_answered);
    fixture_start(&f);
    ck_assert_uint_eq(counts_of(f.t).decided, want_decided);
    const uint64_t digest = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "next"), 200);
    ck_assert_uint_eq(counts_of(f.t).decided, want_decided + 1);
    fixture_close(&f);
}

START_TEST(death_before_the_append_loses_only_the_unanswered)
{
    check_death("before_append:4", 2, 2);
}
END_TEST

START_TEST(death_in_the_transaction_loses_only_the_unanswered)
{
    check_death("after_append:4", 2, 2);
}
END_TEST

/* Whatever a first open has come to, the next one comes to its end. */
START_TEST(death_between_the_statements_of_the_schema_leaves_a_tenant_that_starts)
{
    char point[32];

    snprintf(point, sizeof point, "mid_migration:%d", _i + 1);
    check_death(point, 0, 0);
}
END_TEST

/* In a child; 5 of 20 observations are of u1. */
static void erase_under(struct fixture *f, const char *failpoint)
{
    setenv("LAPLACED_FAILPOINT", failpoint, 1);
    fixture_start(f);
    for (int i = 0; i < 20; i++) {
        char text[96];
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"arm\":\"a%d\",\"reward\":%d}", i % 4, i % 3, i % 2);
        expect_status(f->t, op_observe(f->t, text, false), 200);
    }
    struct ld_op *op = op_task(&ld_erasure);
    strcpy(op->user, "u1");
    ld_tenant_submit(f->t, op);
    run_all(f->t);
}

START_TEST(death_in_an_erasure_leaves_the_user)
{
    struct fixture f;
    int status;

    fixture_world(&f);
    f.settings = fixture_settings("{\"algorithm\":\"laplaced\"}");
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        erase_under(&f, "mid_erasure");
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", (unsigned)status);
    fixture_start(&f);
    ck_assert(kb_engine_knows_user(ld_tenant_read_lock(f.t, NULL), "u1"));
    ld_tenant_read_unlock(f.t);
    ck_assert_uint_eq(counts_of(f.t).learned, 20);
    run_all(f.t); /* the reset that it has begun is built */
    const uint64_t digest = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

START_TEST(death_after_the_commit_keeps_the_unanswered)
{
    check_death("after_commit:4", 2, 3);
}
END_TEST

START_TEST(death_after_the_apply_keeps_the_unanswered)
{
    check_death("after_apply:4", 2, 3);
}
END_TEST

START_TEST(death_before_the_first_event_leaves_a_tenant_that_starts)
{
    check_death("before_append", 0, 0);
}
END_TEST

START_TEST(death_after_the_first_event_leaves_a_tenant_that_starts)
{
    check_death("after_commit", 0, 0);
}
END_TEST

START_TEST(death_in_a_snapshot_leaves_the_log)
{
    check_death("mid_snapshot", 10, 10);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "failpoint", 0, {names_and_counts_are_parsed_strictly, 1},
        {death_before_the_append_loses_only_the_unanswered, 1}, {death_in_the_transaction_loses_only_the_unanswered, 1},
        {death_after_the_commit_keeps_the_unanswered, 1}, {death_after_the_apply_keeps_the_unanswered, 1},
        {death_before_the_first_event_leaves_a_tenant_that_starts, 1},
        {death_after_the_first_event_leaves_a_tenant_that_starts, 1}, {death_in_a_snapshot_leaves_the_log, 1},
        {death_between_the_statements_of_the_schema_leaves_a_tenant_that_starts, 5},
        {death_in_an_erasure_leaves_the_user, 1});
}
