/* The log's file: what is appended is read, what fails is not there, what is not ours is left alone. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kbt.h"
#include "base/rng.h"
#include "store/store.h"
#include "store/store_impl.h"
#include "kbt_files.h"

static char folder[64], path[128];
static struct ld_message why;

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ld-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
}

static void remove_folder(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", ".new", ".new-journal"};
    char name[160];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static struct ld_store *open_store(void)
{
    struct ld_store *s = NULL;
    int rc = ld_store_open(&s, path, false, &why);
    ck_assert_msg(rc == LD_STORE_OK, "%d %s", rc, why.text);
    return s;
}

/* --- rows with contents that depend on seq alone ----------------------------------------------------------- */

struct text {
    char decision[32], line[4096], answer[64];
};

static struct ld_row make_row(uint64_t seq, struct text *t)
{
    size_t filler = kb_rng_bits(1, KB_STREAM_SIMULATION, seq) % 3000;
    struct ld_row row = {.seq = seq,
                         .at_ms = (int64_t)(1000 * seq),
                         .type = 4,
                         .decision = t->decision,
                         .user = "u\xc3\xa9",
                         .arm = seq % 2 ? "a" : NULL,
                         .reward = seq % 3 == 0 ? (double)NAN : 1.0 / (double)seq,
                         .is_reset = false,
                         .text = t->line,
                         .answer = seq % 2 ? NULL : t->answer};
    (void)snprintf(t->decision, sizeof t->decision, "d%llu", (unsigned long long)seq);
    (void)snprintf(t->answer, sizeof t->answer, "{\"answer\":%llu}", (unsigned long long)seq);
    memset(t->line, 'x', filler);
    (void)snprintf(t->line + filler, sizeof t->line - filler, "{\"seq\":%llu}", (unsigned long long)seq);
    row.n_text = strlen(t->line);
    return row;
}

static int append(struct ld_store *s, uint64_t from, size_t n)
{
    struct text *texts = calloc(n + 1, sizeof *texts);
    struct ld_row *rows = calloc(n + 1, sizeof *rows);
    for (size_t i = 0; i < n; i++)
        rows[i] = make_row(from + i, &texts[i]);
    int rc = ld_store_append(s, rows, n, &why);
    free(rows);
    free(texts);
    return rc;
}

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

struct reader {
    uint64_t next, stop_at;
    size_t n;
};

/* Each row must be the one that make_row gives for the next seq. */
static int check_row(void *arg, const struct ld_row *row)
{
    struct reader *r = arg;
    struct text t;
    struct ld_row want = make_row(r->next, &t);
    ck_assert_uint_eq(row->seq, want.seq);
    ck_assert(row->at_ms == want.at_ms && row->type == want.type && row->is_reset == want.is_reset);
    ck_assert(same(row->decision, want.decision) && same(row->user, want.user) && same(row->arm, want.arm));
    ck_assert(same(row->text, want.text) && row->n_text == want.n_text && same(row->answer, want.answer));
    ck_assert(memcmp(&row->reward, &want.reward, sizeof row->reward) == 0 ||
              (isnan(row->reward) && isnan(want.reward)));
    r->next++;
    r->n++;
    return row->seq == r->stop_at ? 7 : 0;
}

static void assert_log(struct ld_store *s, uint64_t last)
{
    struct reader r = {.next = 1};
    uint64_t tip = 99, reset = 99;
    ck_assert_int_eq(ld_store_read(s, 0, SIZE_MAX, check_row, &r), LD_STORE_OK);
    ck_assert_uint_eq(r.n, last);
    ck_assert_int_eq(ld_store_tip(s, &tip, &reset), LD_STORE_OK);
    ck_assert_uint_eq(tip, last);
    ck_assert_uint_eq(reset, 0);
}

/* --- appending and reading ----------------------------------------------------------------------------- */

START_TEST(what_is_appended_is_read_in_order)
{
    struct ld_store *s = open_store();
    uint64_t seq = 1;
    static const size_t batches[] = {1, 7, 64, 1, 300, 8, 9, 15, 16, 17};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        ck_assert_msg(append(s, seq, batches[i]) == LD_STORE_OK, "%s", why.text);
        seq += batches[i];
        assert_log(s, seq - 1);
    }
    struct reader r = {.next = 11};
    ck_assert_int_eq(ld_store_read(s, 10, 5, check_row, &r), LD_STORE_OK);
    ck_assert_uint_eq(r.n, 5);
    r = (struct reader){.next = 3, .stop_at = 6};
    ck_assert_int_eq(ld_store_read(s, 2, SIZE_MAX, check_row, &r), 7);
    ck_assert_uint_eq(r.n, 4);
    r = (struct reader){.next = 1};
    ck_assert_int_eq(ld_store_read(s, UINT64_MAX, 10, check_row, &r), LD_STORE_OK);
    ck_assert_uint_eq(r.n, 0);
    ld_store_close(s);
    s = open_store();
    assert_log(s, seq - 1);
    ld_store_close(s);
}
END_TEST

static int append_inside(void *arg, const struct ld_row *row)
{
    struct ld_store *s = arg;
    ck_assert_int_eq(append(s, row->seq + 50, 1), LD_STORE_OK);
    return row->seq == 50 ? 1 : 0;
}

START_TEST(readers_see_the_log_as_it_was_and_do_not_stop_the_writer)
{
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, 50), LD_STORE_OK);
    ck_assert_int_eq(ld_store_read(s, 0, SIZE_MAX, append_inside, s), 1);
    assert_log(s, 100);
    ld_store_close(s);
}
END_TEST

START_TEST(a_repeated_seq_is_refused_with_its_whole_batch)
{
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, 5), LD_STORE_OK);
    ck_assert_int_eq(append(s, 4, 9), LD_STORE_CORRUPT);
    assert_log(s, 5);
    ck_assert_int_eq(append(s, 6, 1), LD_STORE_OK);
    assert_log(s, 6);
    ld_store_close(s);
}
END_TEST

/* Eight rows are one statement: the fifth is refused. */
START_TEST(a_statement_that_fails_half_way_leaves_nothing)
{
    struct ld_store *s = open_store();
    sqlite3 *db = NULL;
    ck_assert_int_eq(append(s, 1, 5), LD_STORE_OK);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(
        sqlite3_exec(db, "INSERT INTO events (seq, at, type, text) VALUES (10, 0, 4, '')", NULL, NULL, NULL),
        SQLITE_OK);
    ck_assert_int_eq(append(s, 6, 8), LD_STORE_CORRUPT);
    ck_assert_int_eq(sqlite3_exec(db, "DELETE FROM events WHERE seq = 10", NULL, NULL, NULL), SQLITE_OK);
    assert_log(s, 5);
    ck_assert_int_eq(append(s, 6, 8), LD_STORE_OK);
    assert_log(s, 13);
    sqlite3_close(db);
    ld_store_close(s);
}
END_TEST

START_TEST(a_reset_is_found_wherever_it_stands_in_a_batch)
{
    struct ld_store *s = open_store();
    struct ld_row rows[19];
    struct text texts[19];
    uint64_t seq = 0, tip, reset;
    for (size_t at = 0; at < 19; at++) {
        for (size_t i = 0; i < 19; i++) {
            rows[i] = make_row(++seq, &texts[i]);
            rows[i].is_reset = i == at;
        }
        ck_assert_int_eq(ld_store_append(s, rows, 19, &why), LD_STORE_OK);
        ck_assert_int_eq(ld_store_tip(s, &tip, &reset), LD_STORE_OK);
        ck_assert_uint_eq(tip, seq);
        ck_assert_uint_eq(reset, seq - 18 + at);
    }
    ld_store_close(s);
}
END_TEST

START_TEST(tip_knows_the_last_reset_and_the_last_configuration)
{
    struct ld_store *s = open_store();
    struct ld_row rows[4];
    struct text t[4];
    uint64_t last, reset;
    static const int types[] = {1, 9, 1, 9};
    for (uint64_t i = 0; i < 4; i++) {
        rows[i] = make_row(i + 1, &t[i]);
        rows[i].type = types[i];
        rows[i].is_reset = i == 1;
    }
    struct reader r = {.next = 3};
    ck_assert_int_eq(ld_store_tip(s, &last, &reset), LD_STORE_OK);
    ck_assert(last == 0 && reset == 0);
    ck_assert_int_eq(ld_store_last_configured(s, check_row, &r), LD_STORE_OK);
    ck_assert_uint_eq(r.n, 0);
    ck_assert_int_eq(ld_store_append(s, rows, 4, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_tip(s, &last, &reset), LD_STORE_OK);
    ck_assert(last == 4 && reset == 2);
    ld_store_close(s);
}
END_TEST

/* --- decisions --------------------------------------------------------------------------------------- */

struct line {
    int type;
    int64_t at_ms;
    const char *decision, *arm;
    double reward;
    const char *text, *answer;
};

static void append_lines(struct ld_store *s, const struct line *lines, size_t n)
{
    uint64_t last, reset;
    ck_assert_int_eq(ld_store_tip(s, &last, &reset), LD_STORE_OK);
    for (size_t i = 0; i < n; i++) {
        struct ld_row row = {.seq = last + 1 + i,
                             .at_ms = lines[i].at_ms,
                             .type = lines[i].type,
                             .decision = lines[i].decision,
                             .user = "u",
                             .arm = lines[i].arm,
                             .reward = lines[i].reward,
                             .text = lines[i].text != NULL ? lines[i].text : "{}",
                             .answer = lines[i].answer};
        row.n_text = strlen(row.text);
        ck_assert_msg(ld_store_append(s, &row, 1, &why) == LD_STORE_OK, "%s", why.text);
    }
}

START_TEST(a_decision_tells_its_story)
{
    static const struct line lines[] = {
        {4, 1, "d1", "a", NAN, NULL, "{\"first\":1}"}, {4, 2, "d2", "a", NAN, NULL, NULL},
        {8, 3, "d2", NULL, NAN, NULL, NULL},           {5, 4, "d1", NULL, 0.5, NULL, NULL},
        {5, 5, "d1", "b", 0.25, NULL, NULL},           {5, 6, "d1", "a", 0.75, NULL, NULL},
        {7, 7, "d2", NULL, NAN, NULL, NULL},
    };
    struct ld_store *s = open_store();
    struct ld_decision_record r;
    append_lines(s, lines, sizeof lines / sizeof *lines);
    ck_assert_int_eq(ld_store_decision(s, "d1", NULL, &r), LD_STORE_OK);
    ck_assert(r.is_decided && !r.is_expired && !r.is_activated && r.n_rewards == 3 && r.has_reward && r.reward == 0.75);
    ck_assert_str_eq(r.answer, "{\"first\":1}");
    ck_assert_str_eq(r.arm, "a");
    ck_assert_str_eq(r.user, "u");
    ld_decision_record_close(&r);
    ck_assert_int_eq(ld_store_decision(s, "d1", "b", &r), LD_STORE_OK);
    ck_assert(r.has_reward && r.reward == 0.25);
    ld_decision_record_close(&r);
    ck_assert_int_eq(ld_store_decision(s, "d1", "c", &r), LD_STORE_OK);
    ck_assert(!r.has_reward && r.n_rewards == 3);
    ld_decision_record_close(&r);
    ck_assert_int_eq(ld_store_decision(s, "d2", "a", &r), LD_STORE_OK);
    ck_assert(r.is_decided && r.is_expired && r.is_activated && !r.has_reward && r.answer == NULL);
    ld_decision_record_close(&r);
    ck_assert_int_eq(ld_store_decision(s, "d3", NULL, &r), LD_STORE_OK);
    ck_assert(!r.is_decided && r.arm == NULL);
    ld_store_close(s);
}
END_TEST

static void assert_arm(const struct ld_window_stats *w, const char *arm, uint64_t decided, uint64_t rewarded,
                       double sum)
{
    for (size_t i = 0; i < w->n_arms; i++) {
        if (strcmp(w->arms[i].arm, arm) != 0)
            continue;
        ck_assert_uint_eq(w->arms[i].decided, decided);
        ck_assert_uint_eq(w->arms[i].rewarded, rewarded);
        ck_assert_double_eq_tol(w->arms[i].reward_sum, sum, 1e-12);
        return;
    }
    ck_abort_msg("no arm %s", arm);
}

/* The log of the window tests: a slate of a and c, single decisions of a and b, rewards with and without arm. */
static void append_window(struct ld_store *s, const char *aggregation)
{
    char configured[128];
    (void)snprintf(configured, sizeof configured, "{\"configuration\":{\"aggregation\":\"%s\"}}", aggregation);
    const struct line lines[] = {
        {1, 0, NULL, NULL, NAN, configured, NULL},
        {4, 500, "old", "a", NAN, NULL, NULL},
        {4, 1000, "d1", "a", NAN, "{\"slate\":[{\"arm\":\"a\"},{\"arm\":\"c\"}]}", NULL},
        {4, 1100, "d2", "b", NAN, "{\"user\":\"\\\"slate\\\":\"}", NULL},
        {4, 1200, "d3", "a", NAN, NULL, NULL},
        {4, 1250, "d4", "c", NAN, "{\"slate\":[{\"arm\":\"c\"},{\"arm\":\"a\"}]}", NULL},
        {5, 1300, "d1", NULL, 1, NULL, NULL},
        {5, 1400, "d1", "c", 2, NULL, NULL},
        {5, 1500, "old", NULL, 8, NULL, NULL},
        {5, 1600, "d2", NULL, 4, NULL, NULL},
        {5, 1700, "d2", "b", 16, NULL, NULL}, /* the same slot again: only under sum and last */
        {5, 1750, "d4", "a", 3, NULL, NULL},
        {7, 1800, "d3", NULL, 0, NULL, NULL},
        {10, 1900, "d3", NULL, 32, NULL, NULL},
        {7, 1960, "d4", NULL, 0.5, NULL, NULL}, /* for the slot that has none */
        {6, 1970, NULL, "b", 64, NULL, NULL},
    };
    append_lines(s, lines, sizeof lines / sizeof *lines);
}

START_TEST(a_window_counts_by_arm)
{
    struct ld_store *s = open_store();
    struct ld_window_stats w;
    struct ld_arm_stats *arms;
    ck_assert_int_eq(ld_store_window(s, 0, &w, &arms), LD_STORE_OK);
    ck_assert(w.decided == 0 && w.rewarded == 0 && w.n_arms == 0);
    free(arms);
    append_window(s, "sum");
    ck_assert_int_eq(ld_store_window(s, 1000, &w, &arms), LD_STORE_OK);
    ck_assert(w.decided == 4 && w.n_arms == 3 && w.rewarded == 8);
    ck_assert_double_eq_tol(w.reward_sum, 1 + 2 + 8 + 4 + 16 + 3 + 0.5 + 64, 1e-12);
    assert_arm(&w, "a", 3, 4, 1 + 8 + 3);
    assert_arm(&w, "b", 1, 2, 20 + 64);
    assert_arm(&w, "c", 2, 2, 2.5);
    free(arms);
    ck_assert_int_eq(ld_store_window(s, 1650, &w, &arms), LD_STORE_OK);
    ck_assert(w.decided == 0 && w.n_arms == 3 && w.rewarded == 5);
    assert_arm(&w, "a", 0, 2, 3);
    assert_arm(&w, "b", 0, 2, 80);
    assert_arm(&w, "c", 0, 1, 0.5);
    free(arms);
    ld_store_close(s);
}
END_TEST

START_TEST(under_last_a_window_sums_the_last_reward_of_a_slot)
{
    struct ld_store *s = open_store();
    struct ld_window_stats w;
    struct ld_arm_stats *arms;
    append_window(s, "last");
    ck_assert_int_eq(ld_store_window(s, 1000, &w, &arms), LD_STORE_OK);
    assert_arm(&w, "b", 1, 2, 16 + 64);
    assert_arm(&w, "a", 3, 4, 1 + 8 + 3);
    free(arms);
    ld_store_close(s);
}
END_TEST

static int count_row(void *arg, const struct ld_row *row)
{
    (void)row;
    ++*(uint64_t *)arg;
    return 0;
}

/* Partial indexes are chosen by the statements' literals; a scan of the log would be a fault that nobody sees. */
START_TEST(queries_use_their_indexes)
{
    static const struct {
        const char *sql, *index;
    } rows[] = {
        {"SELECT type FROM events WHERE decision = ?1 ORDER BY seq", "events_decision"},
        {"SELECT count(*) FROM events WHERE type = 4 AND seq > ?1", "events_type"},
        {"SELECT seq FROM events WHERE type = 6 AND seq < ?1 ORDER BY seq DESC LIMIT 9", "events_type"},
        {"SELECT user FROM events WHERE decision = ?1 AND +type = 6 AND seq >= 1", "events_decision"},
        {"SELECT max(seq) FROM events WHERE reset = 1", "events_reset"},
        {"SELECT max(seq) FROM events WHERE type = 1", "events_type"},
    };
    ld_store_close(open_store());
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sql[256];
        sqlite3_stmt *stmt;
        (void)snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", rows[i].sql);
        ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
        ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
        const char *plan = (const char *)sqlite3_column_text(stmt, 3);
        ck_assert_msg(strstr(plan, rows[i].index) != NULL, "%s: %s", rows[i].sql, plan);
        (void)sqlite3_finalize(stmt);
    }
    (void)sqlite3_close(db);
}
END_TEST

/* In order by seq from both tables at once: were it sorted, each page of /events would put all that follows it into a
 * file beside the data folder. */
START_TEST(reading_the_log_sorts_nothing)
{
    struct ld_store *s = open_store();
    uint64_t n = 0;
    ck_assert_int_eq(append(s, 1, 200), LD_STORE_OK);
    ck_assert_int_eq(ld_store_read(s, 0, 10, count_row, &n), LD_STORE_OK);
    ck_assert_uint_eq(n, 10);
    ck_assert_ptr_nonnull(s->idle->stmt[LD_QUERY_READ]);
    ck_assert_int_eq(sqlite3_stmt_status(s->idle->stmt[LD_QUERY_READ], SQLITE_STMTSTATUS_SORT, 0), 0);
    ck_assert_int_lt(sqlite3_stmt_status(s->idle->stmt[LD_QUERY_READ], SQLITE_STMTSTATUS_VM_STEP, 0), 1000);
    ld_store_close(s);
}
END_TEST

/* --- failure ----------------------------------------------------------------------------------------- */

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The limit falls on every place of a batch's way into the WAL. */
START_TEST(a_batch_that_does_not_fit_on_the_disk_leaves_nothing)
{
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, 20), LD_STORE_OK);
    int64_t used = ld_store_wal_bytes(s);
    ck_assert_int_gt(used, 0);
    for (rlim_t extra = 0; extra < 40000; extra += 2777) {
        limit_file_size((rlim_t)used + extra);
        ck_assert_int_eq(append(s, 21, 60), LD_STORE_IO);
        ck_assert_ptr_nonnull(strstr(why.text, path));
        limit_file_size(RLIM_INFINITY);
        assert_log(s, 20);
    }
    limit_file_size((rlim_t)used);
    ck_assert_int_eq(append(s, 21, 0), LD_STORE_IO); /* the probe sees it too */
    limit_file_size(RLIM_INFINITY);
    ck_assert_int_eq(append(s, 21, 0), LD_STORE_OK);
    ck_assert_int_eq(append(s, 21, 60), LD_STORE_OK);
    assert_log(s, 80);
    ld_store_close(s);
    s = open_store();
    assert_log(s, 80);
    ld_store_close(s);
}
END_TEST

/* Runs fn in a child that is killed, not closed, afterwards. */
static void run_and_kill(void (*fn)(struct ld_store *s))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct ld_store *s = NULL;
        if (ld_store_open(&s, path, false, &why) == LD_STORE_OK)
            fn(s);
        (void)kill(getpid(), SIGKILL);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void append_thirty(struct ld_store *s)
{
    uint64_t last, reset;
    if (ld_store_tip(s, &last, &reset) == LD_STORE_OK)
        (void)append(s, last + 1, 30);
}

static void append_and_fail(struct ld_store *s)
{
    append_thirty(s);
    limit_file_size((rlim_t)ld_store_wal_bytes(s) + 9000);
    (void)append(s, 31, 60);
}

static void append_and_checkpoint(struct ld_store *s)
{
    append_thirty(s);
    (void)ld_store_checkpoint(s);
    append_thirty(s);
}

START_TEST(a_killed_process_leaves_what_it_had_committed)
{
    run_and_kill(append_thirty);
    struct ld_store *s = open_store();
    assert_log(s, 30);
    ld_store_close(s);
    for (int i = 2; i < 5; i++)
        run_and_kill(append_thirty);
    s = open_store();
    assert_log(s, 120);
    ld_store_close(s);
}
END_TEST

START_TEST(a_failed_batch_does_not_come_back_after_a_kill)
{
    run_and_kill(append_and_fail);
    struct ld_store *s = open_store();
    assert_log(s, 30);
    ck_assert_int_eq(append(s, 31, 5), LD_STORE_OK);
    assert_log(s, 35);
    ld_store_close(s);
}
END_TEST

START_TEST(a_checkpoint_moves_the_wal_and_loses_nothing)
{
    run_and_kill(append_and_checkpoint);
    struct ld_store *s = open_store();
    assert_log(s, 60);
    ck_assert_int_eq(append(s, 61, 100), LD_STORE_OK);
    int64_t wal = ld_store_wal_bytes(s), before = ld_store_bytes(s);
    ck_assert_int_gt(wal, 0);
    ck_assert_int_ge(before, wal);
    ck_assert_int_eq(ld_store_checkpoint(s), LD_STORE_OK);
    ck_assert_int_eq(ld_store_wal_bytes(s), 0);
    ck_assert_int_eq(append(s, 161, 1), LD_STORE_OK);
    ck_assert_int_gt(ld_store_wal_bytes(s), 0);
    ck_assert_int_lt(ld_store_wal_bytes(s), wal);
    assert_log(s, 161);
    ld_store_close(s);
}
END_TEST

/* --- refusals ---------------------------------------------------------------------------------------- */

/* The file is refused with this code and a sentence that names it; not a byte of it and no file beside it changes. */
static void assert_refused(int want)
{
    size_t n, n_after;
    unsigned char *before = kbt_read_file(path, &n);
    struct ld_store *s = NULL;
    int rc = ld_store_open(&s, path, false, &why);
    ck_assert_msg(rc == want, "%d: %s", rc, rc != 0 ? why.text : "opened");
    ck_assert_msg(strstr(why.text, path) != NULL, "%s", why.text);
    unsigned char *after = kbt_read_file(path, &n_after);
    ck_assert_uint_eq(n, n_after);
    ck_assert_mem_eq(before, after, n);
    free(before);
    free(after);
    char wal[160];
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    ck_assert_int_ne(access(wal, F_OK), 0);
}

static void sql(const char *text)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

static void make_store(size_t rows)
{
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, rows), LD_STORE_OK);
    ld_store_close(s);
}

START_TEST(foreign_files_are_refused)
{
    static const char *const contents[] = {"hello", "SQLite format 4", "#!/bin/sh\nexit 0\n"};
    for (size_t i = 0; i < 3; i++) {
        kbt_write_file(path, contents[i], strlen(contents[i]));
        assert_refused(LD_STORE_FOREIGN);
    }
    (void)unlink(path);
    sql("CREATE TABLE events (x); INSERT INTO events VALUES (1)");
    assert_refused(LD_STORE_FOREIGN);
}
END_TEST

START_TEST(a_newer_schema_is_refused)
{
    make_store(3);
    sql("PRAGMA user_version = 11");
    assert_refused(LD_STORE_NEWER);
    sql("PRAGMA user_version = 0");
    assert_refused(LD_STORE_CORRUPT);
    sql("PRAGMA user_version = 10");
    struct ld_store *s = open_store();
    assert_log(s, 3);
    ld_store_close(s);
}
END_TEST

/* The newer program died before a checkpoint: its version is in the WAL alone. */
static void become_newer(struct ld_store *s)
{
    sqlite3 *db;
    (void)append(s, 1, 3);
    if (sqlite3_open(path, &db) == SQLITE_OK)
        (void)sqlite3_exec(db, "PRAGMA user_version = 11", NULL, NULL, NULL);
}

START_TEST(a_newer_schema_in_the_wal_is_refused)
{
    char wal[160];
    struct stat before, after;
    size_t n, n_after;
    struct ld_store *s = NULL;
    run_and_kill(become_newer);
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    unsigned char *bytes = kbt_read_file(path, &n);
    ck_assert_int_eq(bytes[63], 10); /* the header of the file does not know yet */
    ck_assert_int_eq(stat(wal, &before), 0);
    ck_assert_int_eq(ld_store_open(&s, path, false, &why), LD_STORE_NEWER);
    ck_assert_ptr_nonnull(strstr(why.text, path));
    unsigned char *bytes_after = kbt_read_file(path, &n_after);
    ck_assert_uint_eq(n, n_after);
    ck_assert_mem_eq(bytes, bytes_after, n);
    ck_assert_int_eq(stat(wal, &after), 0);
    ck_assert(before.st_size == after.st_size && before.st_mtime == after.st_mtime);
    free(bytes);
    free(bytes_after);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    size_t n;
    make_store(40);
    unsigned char *good = kbt_read_file(path, &n);
    for (size_t cut = 0; cut < n; cut += cut < 200 ? 1 : 1021) {
        kbt_write_file(path, good, cut);
        /* Nothing of an empty file says that it was ours: it is damage all the same. */
        assert_refused(LD_STORE_CORRUPT);
    }
    kbt_write_file(path, good, n);
    struct ld_store *s = open_store();
    assert_log(s, 40);
    ld_store_close(s);
    free(good);
}
END_TEST

/* A page of garbage: structure broken, refused; no page can make the program fall over. */
START_TEST(a_page_of_garbage_is_refused_or_harmless)
{
    size_t n, n_refused = 0;
    make_store(60);
    unsigned char *good = kbt_read_file(path, &n);
    for (size_t page = 0; page < n / 4096; page++) {
        unsigned char *bad = malloc(n);
        memcpy(bad, good, n);
        for (size_t i = 0; i < 4096; i++)
            if (page > 0 || i >= 100)
                bad[page * 4096 + i] = (unsigned char)kb_rng_bits(page, KB_STREAM_SIMULATION, i);
        kbt_write_file(path, bad, n);
        struct ld_store *s = NULL;
        int rc = ld_store_open(&s, path, false, &why);
        if (rc == LD_STORE_OK) {
            ld_store_close(s);
        } else {
            ck_assert_msg(rc == LD_STORE_CORRUPT, "page %zu: %d %s", page, rc, why.text);
            assert_refused(LD_STORE_CORRUPT);
            n_refused++;
        }
        free(bad);
    }
    ck_assert_uint_ge(n_refused, n / 4096 - 2); /* all but overflow pages, which are content alone */
    free(good);
}
END_TEST

START_TEST(a_gap_in_the_log_is_refused)
{
    make_store(10);
    sql("DELETE FROM events WHERE seq = 4");
    assert_refused(LD_STORE_CORRUPT);
    ck_assert_ptr_nonnull(strstr(why.text, "gaps"));
}
END_TEST

START_TEST(a_missing_table_is_refused)
{
    make_store(2);
    sql("DROP TABLE events");
    assert_refused(LD_STORE_CORRUPT);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_io_failure)
{
    struct ld_store *s = NULL;
    ck_assert_int_eq(ld_store_open(&s, "/tmp/ld-no-such-folder-1234/t.db", false, &why), LD_STORE_IO);
    ck_assert_ptr_nonnull(strstr(why.text, "/tmp/ld-no-such-folder-1234/t.db"));
}
END_TEST

/* Whatever the transaction is for: a file that was moved takes none, and all of them again once it is back. */
START_TEST(a_moved_file_takes_no_transaction)
{
    char moved[160];
    struct text text;
    struct ld_store *s = open_store();
    const struct ld_row row = make_row(1, &text), next = make_row(4, &text);
    bool has_more = false;

    ck_assert_int_eq(append(s, 1, 3), LD_STORE_OK);
    (void)snprintf(moved, sizeof moved, "%s.new", path);
    ck_assert_int_eq(rename(path, moved), 0);
    ck_assert_int_eq(append(s, 4, 1), LD_STORE_IO);
    ck_assert_int_eq(ld_store_rewrite(s, NULL, 0, &next, &why), LD_STORE_IO);
    ck_assert_int_eq(ld_store_stage_summary(s, &row, 1, &why), LD_STORE_IO);
    ck_assert_int_eq(ld_store_start_behind(s, 1, NULL, 0, &why), LD_STORE_IO);
    ck_assert_int_eq(ld_store_trim(s, &has_more, &why), LD_STORE_IO);
    ck_assert_int_eq(rename(moved, path), 0);
    ck_assert_int_eq(ld_store_stage_summary(s, &row, 1, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_start_behind(s, 1, NULL, 0, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_trim(s, &has_more, &why), LD_STORE_OK);
    ck_assert_int_eq(append(s, 4, 1), LD_STORE_OK);
    ld_store_close(s);
}
END_TEST

/* A WAL whose database is gone belonged to a deleted tenant; its rows must not appear in the next one. */
START_TEST(leftovers_of_a_deleted_file_do_not_come_back)
{
    char wal[160], fresh[160];
    run_and_kill(append_thirty);
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    ck_assert_int_eq(access(wal, F_OK), 0);
    ck_assert_int_eq(unlink(path), 0);
    FILE *f = fopen(fresh, "w"); /* a creation that was cut off */
    (void)fputs("half", f);
    (void)fclose(f);
    struct ld_store *s = open_store();
    assert_log(s, 0);
    ck_assert_int_ne(access(fresh, F_OK), 0);
    ld_store_close(s);
}
END_TEST

static int refuse_book(void *arg, const struct ld_book_row *row)
{
    (void)arg;
    ck_abort_msg("there is a book %s", row->name);
}

/* As when there was no memory to take it back: who writes next does, and the store is not lost for good. */
START_TEST(a_transaction_that_was_left_open_is_taken_back_by_the_next)
{
    unsigned char body[] = "body";
    const struct ld_book_row row = {"model", 1, 1, body, sizeof body};
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, 2), LD_STORE_OK);
    ck_assert_int_eq(ld_store_begin(s, false, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_insert_books(s, &row, 1), SQLITE_OK);
    ck_assert_int_eq(append(s, 3, 2), LD_STORE_OK);
    ld_store_close(s);
    s = open_store();
    assert_log(s, 4);
    ck_assert_int_eq(ld_store_one_book(s, "model", refuse_book, NULL), LD_STORE_OK);
    ld_store_close(s);
}
END_TEST

START_TEST(the_files_header_names_kind_and_version_at_once)
{
    size_t n;
    struct ld_store *s = open_store();
    ck_assert_int_eq(append(s, 1, 1), LD_STORE_OK);
    unsigned char *bytes = kbt_read_file(path, &n);
    ck_assert_uint_ge(n, 100);
    ck_assert_mem_eq(bytes, "SQLite format 3", 16);
    ck_assert_mem_eq(bytes + 60, "\0\0\0\12", 4);
    ck_assert_mem_eq(bytes + 68, "lpld", 4);
    free(bytes);
    ld_store_close(s);
}
END_TEST

/* --- registry ---------------------------------------------------------------------------------------- */

static int join_name(void *arg, const char *name)
{
    strcat(arg, name);
    strcat(arg, " ");
    return strcmp(name, "stop") == 0 ? 5 : 0;
}

START_TEST(registry_remembers_names_in_order)
{
    struct ld_registry_file *r = NULL;
    char names[128] = "";
    ck_assert_msg(ld_registry_open(&r, path, &why) == LD_STORE_OK, "%s", why.text);
    ck_assert_int_eq(ld_registry_add(r, "b", 1), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_add(r, "a", 2), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_add(r, "c", 3), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_add(r, "b", 4), LD_STORE_OK); /* there already */
    ck_assert_int_eq(ld_registry_remove(r, "c"), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_remove(r, "never"), LD_STORE_OK);
    ld_registry_close(r);
    ck_assert_int_eq(ld_registry_open(&r, path, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_list(r, join_name, names), LD_STORE_OK);
    ck_assert_str_eq(names, "a b ");
    ck_assert_int_eq(ld_registry_add(r, "stop", 5), LD_STORE_OK);
    ck_assert_int_eq(ld_registry_add(r, "z", 6), LD_STORE_OK);
    names[0] = '\0';
    ck_assert_int_eq(ld_registry_list(r, join_name, names), 5);
    ck_assert_str_eq(names, "a b stop ");
    ld_registry_close(r);
}
END_TEST

START_TEST(registry_and_tenant_files_are_not_taken_for_each_other)
{
    struct ld_registry_file *r = NULL;
    make_store(1);
    ck_assert_int_eq(ld_registry_open(&r, path, &why), LD_STORE_FOREIGN);
    (void)unlink(path);
    ck_assert_int_eq(ld_registry_open(&r, path, &why), LD_STORE_OK);
    ld_registry_close(r);
    assert_refused(LD_STORE_FOREIGN);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, what_is_appended_is_read_in_order);
    tcase_add_test(tc, readers_see_the_log_as_it_was_and_do_not_stop_the_writer);
    tcase_add_test(tc, a_repeated_seq_is_refused_with_its_whole_batch);
    tcase_add_test(tc, a_statement_that_fails_half_way_leaves_nothing);
    tcase_add_test(tc, a_reset_is_found_wherever_it_stands_in_a_batch);
    tcase_add_test(tc, tip_knows_the_last_reset_and_the_last_configuration);
    tcase_add_test(tc, a_decision_tells_its_story);
    tcase_add_test(tc, a_window_counts_by_arm);
    tcase_add_test(tc, under_last_a_window_sums_the_last_reward_of_a_slot);
    tcase_add_test(tc, queries_use_their_indexes);
    tcase_add_test(tc, reading_the_log_sorts_nothing);
    tcase_add_test(tc, a_batch_that_does_not_fit_on_the_disk_leaves_nothing);
    tcase_add_test(tc, a_killed_process_leaves_what_it_had_committed);
    tcase_add_test(tc, a_failed_batch_does_not_come_back_after_a_kill);
    tcase_add_test(tc, a_checkpoint_moves_the_wal_and_loses_nothing);
    tcase_add_test(tc, foreign_files_are_refused);
    tcase_add_test(tc, a_newer_schema_is_refused);
    tcase_add_test(tc, a_newer_schema_in_the_wal_is_refused);
    tcase_add_test(tc, every_truncation_is_refused);
    tcase_add_test(tc, a_page_of_garbage_is_refused_or_harmless);
    tcase_add_test(tc, a_gap_in_the_log_is_refused);
    tcase_add_test(tc, a_missing_table_is_refused);
    tcase_add_test(tc, a_folder_that_is_not_there_is_an_io_failure);
    tcase_add_test(tc, a_moved_file_takes_no_transaction);
    tcase_add_test(tc, leftovers_of_a_deleted_file_do_not_come_back);
    tcase_add_test(tc, a_transaction_that_was_left_open_is_taken_back_by_the_next);
    tcase_add_test(tc, the_files_header_names_kind_and_version_at_once);
    tcase_add_test(tc, registry_remembers_names_in_order);
    tcase_add_test(tc, registry_and_tenant_files_are_not_taken_for_each_other);
    suite_add_tcase(s, tc);
    return kbt_run_suite(s);
}
