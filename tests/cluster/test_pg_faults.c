/* What becomes of a turn and of its commit under faults, against a primary with a synchronous standby (tests/cluster/
 * pg.py): servers that die, hang or are cut off while they have the row; commits whose wait for the standby is
 * cancelled, or whose standby is gone; a primary that is lost, and its standby promoted.
 *
 * The ledger of each case: what was OK is in the log once, what was not written is not there, and what is unknown is
 * settled to what an independent reader (psql) finds. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "pg_fixture.h"

static struct ld_message why;

/* --- other servers, as processes -------------------------------------------------------------------------- */

/* Before the test has threads: a server that takes the turn of `tenant`, says so, stops or waits, and appends when it
 * goes on. Its exit status is what the append said. */
static pid_t spawn_holder(const char *tenant, bool is_stopping)
{
    int said[2];
    char byte = 0;
    ck_assert_int_eq(pipe(said), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct writer w;
        struct ld_shared_turn *turn = NULL;
        pg_open(&w, "holder", tenant);
        if (w.log->ops->take(w.log, w.id, &w.at, pg_tell, &w, &turn, &why) != LD_SHARED_OK)
            _exit(99);
        (void)!write(said[1], "x", 1);
        if (is_stopping)
            (void)raise(SIGSTOP);
        else
            (void)pause();
        _exit((int)pg_append_in(&w, turn, "late\n", 1));
    }
    ck_assert_int_gt(pid, 0);
    (void)close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 1);
    (void)close(said[0]);
    return pid;
}

static int exit_of(pid_t pid)
{
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(a_server_that_dies_with_the_turn_holds_nobody_up)
{
    struct writer a;
    const pid_t pid = spawn_holder("death", false);
    pg_open(&a, "a", "death");
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(exit_of(pid), -1);
    const int64_t began = ld_monotonic_us();
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_lt(ld_monotonic_us() - began, 1000000);
    ck_assert_str_eq(a.told, "");
    pg_close(&a);
}
END_TEST

START_TEST(a_server_that_hangs_with_the_turn_loses_it_and_its_late_batch_is_refused)
{
    struct writer a;
    const pid_t pid = spawn_holder("hang", true);
    pg_open(&a, "a", "hang");
    const int64_t began = ld_monotonic_us();
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    ck_assert_int_lt(ld_monotonic_us() - began, 4000000);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(exit_of(pid), LD_SHARED_BEHIND);
    ck_assert_int_eq(pg_write(&a, "two\n", 1), LD_SHARED_OK);
    ck_assert_str_eq(a.told, "");
    pg_close(&a);
}
END_TEST

START_TEST(a_turn_whose_session_was_terminated_is_behind_and_the_next_one_works)
{
    struct writer a;
    struct ld_shared_turn *turn = NULL;
    pg_open(&a, "a", "terminated");
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_OK);
    pg_kit("sql \"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'\"");
    ck_assert_int_eq(pg_append_in(&a, turn, "one\n", 1), LD_SHARED_BEHIND);
    ck_assert_int_eq(pg_write(&a, "two\n", 1), LD_SHARED_OK);
    ck_assert_uint_eq(a.at.seq, 1);
    pg_close(&a);
}
END_TEST

/* A connection in the pool that is gone is no error of the call that finds it. */
START_TEST(connections_that_were_terminated_are_replaced)
{
    struct writer a;
    pg_open(&a, "a", "replaced");
    for (int i = 0; i < 3; i++) {
        pg_kit("sql \"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'laplaced'\"");
        ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    }
    pg_close(&a);
}
END_TEST

/* --- commits that wait for the standby -------------------------------------------------------------------- */

/* A batch that is appended beside the test. */
struct pending {
    struct writer *w;
    struct ld_shared_batch batch;
    enum ld_shared_rc rc;
    pthread_t thread;
};

static void *append_it(void *arg)
{
    struct pending *p = arg;
    struct ld_shared_turn *turn = NULL;
    p->rc = p->w->log->ops->take(p->w->log, p->w->id, &p->w->at, pg_tell, p->w, &turn, &p->w->why);
    if (p->rc == LD_SHARED_OK)
        p->rc = pg_append_batch(p->w, turn, &p->batch);
    return NULL;
}

/* Its commit waits for the standby when this returns. */
static void begin_append(struct pending *p, struct writer *w, const char *body)
{
    *p = (struct pending){
        .w = w, .batch = {.n = 1, .at_ms = 1, .node = w->node, .nonce = 77, .body = body, .n_body = strlen(body)}};
    ck_assert_int_eq(pthread_create(&p->thread, NULL, append_it, p), 0);
    pg_kit(
        "sql \"DO \\$\\$BEGIN FOR i IN 1..100 LOOP EXIT WHEN EXISTS (SELECT 1 FROM pg_stat_activity WHERE "
        "wait_event = 'SyncRep' AND query LIKE 'COMMIT%'); PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); "
        "END LOOP; END\\$\\$\"");
}

static enum ld_shared_rc end_append(struct pending *p)
{
    (void)pthread_join(p->thread, NULL);
    return p->rc;
}

static enum ld_shared_rc settle(struct pending *p)
{
    return p->w->log->ops->settle(p->w->log, p->w->id, &p->batch, &p->w->why);
}

/* Settles again until it is known: the log looks for its standby twice a second. */
static enum ld_shared_rc settle_at_last(struct pending *p)
{
    enum ld_shared_rc rc = LD_SHARED_UNKNOWN;
    for (int i = 0; i < 100 && rc == LD_SHARED_UNKNOWN; i++) {
        rc = settle(p);
        if (rc == LD_SHARED_UNKNOWN)
            (void)usleep(250000);
    }
    return rc;
}

/* Writes until it works: after a fault. */
static void write_at_last(struct writer *w, const char *body)
{
    enum ld_shared_rc rc = LD_SHARED_DOWN;
    for (int i = 0; i < 100 && rc != LD_SHARED_OK; i++) {
        rc = pg_write(w, body, 1);
        ck_assert_msg(rc == LD_SHARED_OK || rc == LD_SHARED_DOWN, "%d %s", (int)rc, w->why.text);
        if (rc != LD_SHARED_OK)
            (void)usleep(250000);
    }
    ck_assert_int_eq(rc, LD_SHARED_OK);
}

/* The session says COMMIT and INSERT 0 1, and a warning that only it knows of. */
START_TEST(a_commit_whose_wait_was_cancelled_is_unknown_and_settled_when_a_standby_has_it)
{
    struct writer a;
    struct pending p;
    pg_open_for(&a, "a", "cancelled", 1500);
    pg_kit("freeze_standbys");
    begin_append(&p, &a, "one\n");
    pg_kit("sql \"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'\"");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    ck_assert_msg(strstr(a.why.text, "warns") != NULL, "%s", a.why.text);
    ck_assert_int_eq(settle(&p), LD_SHARED_UNKNOWN);
    pg_kit("thaw_standbys");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_OK);
    write_at_last(&a, "two\n");
    ck_assert_str_eq(a.told, "a:1-1:one\n|");
    pg_close(&a);
}
END_TEST

START_TEST(a_commit_whose_session_was_terminated_in_its_wait_is_unknown_and_settled)
{
    struct writer a;
    struct pending p;
    pg_open_for(&a, "a", "cut", 1500);
    pg_kit("freeze_standbys");
    begin_append(&p, &a, "one\n");
    pg_kit("sql \"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'\"");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    pg_kit("thaw_standbys");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_OK);
    pg_close(&a);
}
END_TEST

START_TEST(a_commit_that_the_list_of_standbys_was_taken_from_is_not_acknowledged)
{
    struct writer a;
    struct pending p;
    pg_open(&a, "a", "emptied");
    pg_kit("freeze_standbys");
    begin_append(&p, &a, "one\n");
    pg_kit("set synchronous_standby_names ''");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    pg_kit("set synchronous_standby_names 'ANY 1 (a, b)'");
    pg_kit("thaw_standbys");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_OK);
    pg_close(&a);
}
END_TEST

START_TEST(without_a_standby_nothing_is_acknowledged_and_health_says_why)
{
    struct writer a;
    struct pending p;
    struct ld_shared_health h;
    struct ld_shared_turn *turn = NULL;
    pg_open_for(&a, "a", "alone", 1500);
    pg_kit("stop_standbys");
    begin_append(&p, &a, "one\n");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    for (int i = 0; i < 40; i++) {
        a.log->ops->health(a.log, &h);
        if (!h.is_up)
            break;
        (void)usleep(100000);
    }
    ck_assert(!h.is_up && h.n_standbys == 0);
    ck_assert_msg(strstr(h.why.text, "no synchronous standby") != NULL, "%s", h.why.text);
    const int64_t began = ld_monotonic_us();
    ck_assert_int_eq(a.log->ops->take(a.log, a.id, &a.at, pg_tell, &a, &turn, &why), LD_SHARED_DOWN);
    ck_assert_int_lt(ld_monotonic_us() - began, 100000);
    ck_assert_int_eq(settle(&p), LD_SHARED_UNKNOWN);
    pg_kit("start_standbys");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_OK);
    write_at_last(&a, "two\n");
    a.log->ops->health(a.log, &h);
    ck_assert(h.is_up && h.n_standbys == 1);
    pg_close(&a);
}
END_TEST

/* A server's settings for a role or a database do not weaken a commit of ours. */
START_TEST(a_role_that_may_commit_without_standbys_does_not)
{
    struct writer a;
    struct pending p;
    pg_kit("sql \"ALTER ROLE laplaced SET synchronous_commit = 'local'\"");
    pg_open_for(&a, "a", "local", 1500);
    pg_kit("freeze_standbys");
    begin_append(&p, &a, "one\n");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    pg_kit("thaw_standbys");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_OK);
    pg_kit("sql \"ALTER ROLE laplaced RESET synchronous_commit\"");
    pg_close(&a);
}
END_TEST

START_TEST(a_trusted_primary_acknowledges_alone)
{
    struct writer a;
    pg_kit("set synchronous_standby_names ''");
    pg_open_trusted(&a, "a", "trusted");
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    pg_close(&a);
    struct writer b;
    struct ld_shared_health h;
    const struct ld_pg_config config = {.url = pg_url(), .node = "b", .wait_ms = 500};
    memset(&b, 0, sizeof b);
    ck_assert_int_eq(ld_pg_log_open(&b.log, &config, &why), 0);
    b.log->ops->health(b.log, &h);
    ck_assert(!h.is_up);
    ck_assert_msg(strstr(h.why.text, "synchronous_standby_names is empty") != NULL, "%s", h.why.text);
    pg_kit("set synchronous_standby_names 'ANY 1 (a, b)'");
    pg_close(&b);
}
END_TEST

/* --- a primary that is lost ------------------------------------------------------------------------------- */

#define N_WRITERS 4
#define N_LINES 4000

/* One line a turn, each with a number of its own; what became of each is noted. */
struct scribe {
    struct writer w;
    pthread_t thread;
    int first, n;
    enum ld_shared_rc said[N_LINES];
    struct ld_shared_batch batch[N_LINES];
    char line[N_LINES][16];
    _Atomic bool *is_over;
};

static void *scribble(void *arg)
{
    struct scribe *s = arg;
    while (!*s->is_over && s->n < N_LINES) {
        struct ld_shared_turn *turn = NULL;
        const int i = s->n++;
        (void)snprintf(s->line[i], sizeof s->line[i], "L%d\n", s->first + i);
        s->batch[i] = (struct ld_shared_batch){.n = 1,
                                               .at_ms = 1,
                                               .node = s->w.node,
                                               .nonce = (uint64_t)(s->first + i),
                                               .body = s->line[i],
                                               .n_body = strlen(s->line[i])};
        s->said[i] = s->w.log->ops->take(s->w.log, s->w.id, &s->w.at, pg_count, &s->w, &turn, &s->w.why);
        if (s->said[i] == LD_SHARED_OK)
            s->said[i] = pg_append_batch(&s->w, turn, &s->batch[i]);
        if (s->said[i] == LD_SHARED_DOWN)
            (void)usleep(20000);
    }
    return NULL;
}

/* How often each line is in the log, by psql and not by us. */
static void count_lines(int *n_times, int n_lines)
{
    char line[512], name[128];
    (void)snprintf(name, sizeof name, "%s/lines", pg_folder);
    (void)snprintf(line, sizeof line,
                   "/usr/bin/python3 -B tests/cluster/pg.py %s/pg sql \"SELECT convert_from(body, 'UTF8') FROM "
                   "laplaced.batch\" >%s",
                   pg_folder, name);
    ck_assert_int_eq(system(line), 0);
    FILE *in = fopen(name, "r");
    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof line, in) != NULL) {
        int i = 0;
        if (sscanf(line, "L%d", &i) == 1) {
            ck_assert_int_lt(i, n_lines);
            n_times[i]++;
        }
    }
    (void)fclose(in);
}

/* Counts of what was said, and then what it came to. */
static void settle_scribe(struct scribe *s, int *n_of)
{
    for (int i = 0; i < s->n; i++) {
        n_of[s->said[i]]++;
        if (s->said[i] == LD_SHARED_UNKNOWN) {
            struct pending p = {.w = &s->w, .batch = s->batch[i]};
            s->said[i] = settle_at_last(&p);
            ck_assert_int_ne(s->said[i], LD_SHARED_UNKNOWN);
        }
    }
}

static void judge_scribe(const struct scribe *s, const int *n_times)
{
    for (int i = 0; i < s->n; i++)
        ck_assert_msg(n_times[s->first + i] == (s->said[i] == LD_SHARED_OK ? 1 : 0), "line %d: %d, there %d",
                      s->first + i, (int)s->said[i], n_times[s->first + i]);
}

static struct scribe scribes[N_WRITERS];

/* Two writers share a tenant, two have one of their own; the fault comes while they write. What is left is judged when
 * all is over. */
static void write_through(const char *const *fault, size_t n_faults, int wait_ms)
{
    static const char *const tenant[N_WRITERS] = {"lost-0", "lost-0", "lost-1", "lost-2"};
    static int n_times[N_WRITERS * N_LINES];
    int n_of[8] = {0};
    _Atomic bool is_over = false;
    memset(n_times, 0, sizeof n_times);
    for (int i = 0; i < N_WRITERS; i++) {
        char node[16];
        (void)snprintf(node, sizeof node, "n%d", i);
        struct scribe *s = &scribes[i];
        memset(s, 0, sizeof *s);
        pg_open_for(&s->w, node, tenant[i], wait_ms);
        s->first = i * N_LINES;
        s->is_over = &is_over;
        ck_assert_int_eq(pg_follow(&s->w), LD_SHARED_OK);
        ck_assert_int_eq(pthread_create(&s->thread, NULL, scribble, s), 0);
    }
    (void)usleep(300000);
    for (size_t i = 0; i < n_faults; i++)
        pg_kit(fault[i]);
    (void)usleep(1500000);
    is_over = true;
    for (int i = 0; i < N_WRITERS; i++)
        (void)pthread_join(scribes[i].thread, NULL);
    for (int i = 0; i < N_WRITERS; i++)
        settle_scribe(&scribes[i], n_of);
    count_lines(n_times, N_WRITERS * N_LINES);
    for (int i = 0; i < N_WRITERS; i++) {
        judge_scribe(&scribes[i], n_times);
        ck_assert_int_eq(scribes[i].said[scribes[i].n - 1], LD_SHARED_OK);
        pg_close(&scribes[i].w);
    }
    printf("%s: %d ok, %d behind, %d unknown, %d down\n", fault[0], n_of[LD_SHARED_OK], n_of[LD_SHARED_BEHIND],
           n_of[LD_SHARED_UNKNOWN], n_of[LD_SHARED_DOWN]);
    ck_assert_int_gt(n_of[LD_SHARED_OK], 10);
    pg_kit("sql \"DELETE FROM laplaced.batch; UPDATE laplaced.tenant SET deleted_at = 1\"");
}

START_TEST(a_primary_that_is_lost_takes_no_acknowledged_batch_along_and_settle_tells_the_truth_of_the_others)
{
    static const char *const fault[] = {"kill_primary", "promote", "rejoin"};
    for (int round = 0; round < 3; round++)
        write_through(fault, 3, 5000);
}
END_TEST

START_TEST(a_primary_that_hangs_and_goes_on_has_each_line_as_it_was_said)
{
    static const char *const fault[] = {"freeze_primary", "wait 2.5", "thaw_primary"};
    write_through(fault, 3, 1000);
}
END_TEST

START_TEST(standbys_that_hang_and_go_on_leave_each_line_as_it_was_said)
{
    static const char *const fault[] = {"freeze_standbys", "wait 2.5", "thaw_standbys"};
    write_through(fault, 3, 1000);
}
END_TEST

START_TEST(sessions_that_are_terminated_at_random_leave_each_line_as_it_was_said)
{
    static const char *const fault[] = {
        "sql \"DO \\$\\$BEGIN FOR i IN 1..100 LOOP PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
        "usename = "
        "'laplaced' ORDER BY random() LIMIT 2; PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; "
        "END\\$\\$\""};
    write_through(fault, 1, 5000);
}
END_TEST

/* A commit waits at the primary for standbys that are gone; the machine hangs; a standby comes back and is promoted;
 * the machine goes on. Now there are two that can be written. The URL names the deposed one first, and its session
 * still has the batch in hand. */
START_TEST(a_primary_that_was_deposed_and_still_answers_says_nothing_and_is_passed_by)
{
    struct writer a;
    struct pending p;
    char at_new[256], new[8];
    pg_open_for(&a, "a", "deposed", 1500);
    ck_assert_int_eq(pg_write(&a, "one\n", 1), LD_SHARED_OK);
    pg_kit("stop_standbys");
    begin_append(&p, &a, "late\n");
    ck_assert_int_eq(end_append(&p), LD_SHARED_UNKNOWN);
    pg_kit("freeze_primary");
    pg_kit("start_standbys_alone");
    (void)snprintf(new, sizeof new, "%.4s", pg_ask("promote"));
    (void)snprintf(at_new, sizeof at_new, "sql_at %s \"SELECT count(*) FROM pg_stat_replication\"", new);
    for (int i = 0; i < 100 && strcmp(pg_ask(at_new), "1") != 0; i++)
        (void)usleep(100000);
    pg_kit("thaw a");
    ck_assert_str_eq(
        pg_ask("sql_at a \"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE "
               "'COMMIT%'\""),
        "1");
    ck_assert_int_eq(settle_at_last(&p), LD_SHARED_BEHIND);
    write_at_last(&a, "two\n");
    ck_assert_uint_eq(a.at.seq, 2);
    (void)snprintf(at_new, sizeof at_new,
                   "sql_at %s \"SELECT string_agg(convert_from(body, 'UTF8'), '' ORDER BY seq) = E'one\\ntwo\\n' FROM "
                   "laplaced.batch\"",
                   new);
    ck_assert_str_eq(pg_ask(at_new), "t");
    pg_close(&a);
}
END_TEST

/* With a PostgreSQL of its own. */
static TCase *add_case(Suite *s, const char *name, void (*begin)(void))
{
    TCase *c = tcase_create(name);
    tcase_add_unchecked_fixture(c, begin, pg_end);
    tcase_set_timeout(c, 120);
    suite_add_tcase(s, c);
    return c;
}

static Suite *suite(void)
{
    Suite *s = suite_create("pg_faults");
    TCase *c = NULL;

    c = add_case(s, "turns", pg_begin);
    tcase_add_test(c, a_server_that_dies_with_the_turn_holds_nobody_up);
    tcase_add_test(c, a_server_that_hangs_with_the_turn_loses_it_and_its_late_batch_is_refused);
    tcase_add_test(c, a_turn_whose_session_was_terminated_is_behind_and_the_next_one_works);
    tcase_add_test(c, connections_that_were_terminated_are_replaced);
    c = add_case(s, "waits", pg_begin);
    tcase_add_test(c, a_commit_whose_wait_was_cancelled_is_unknown_and_settled_when_a_standby_has_it);
    tcase_add_test(c, a_commit_whose_session_was_terminated_in_its_wait_is_unknown_and_settled);
    tcase_add_test(c, a_commit_that_the_list_of_standbys_was_taken_from_is_not_acknowledged);
    tcase_add_test(c, without_a_standby_nothing_is_acknowledged_and_health_says_why);
    tcase_add_test(c, a_role_that_may_commit_without_standbys_does_not);
    tcase_add_test(c, a_trusted_primary_acknowledges_alone);
    c = add_case(s, "losses", pg_begin);
    tcase_add_test(c, sessions_that_are_terminated_at_random_leave_each_line_as_it_was_said);
    tcase_add_test(c, standbys_that_hang_and_go_on_leave_each_line_as_it_was_said);
    tcase_add_test(c, a_primary_that_hangs_and_goes_on_has_each_line_as_it_was_said);
    tcase_add_test(c,
                   a_primary_that_is_lost_takes_no_acknowledged_batch_along_and_settle_tells_the_truth_of_the_others);
    c = add_case(s, "deposed", pg_begin_two);
    tcase_add_test(c, a_primary_that_was_deposed_and_still_answers_says_nothing_and_is_passed_by);
    return s;
}

int main(void)
{
    return kbt_run_suite(suite());
}
