/* Lines of the log that are written in pieces before their commit: whoever reads the log sees them whole or not at all.
 */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/embed.h"
#include "spec/event.h"
#include "kbt.h"
#include "store/store.h"

static char folder[64], path[128], copy[128];
static struct ld_message why;
static struct ld_store *s;

static void open_store(void)
{
    ck_assert_msg(ld_store_open(&s, path, false, &why) == LD_STORE_OK, "%s", why.text);
}

static void begin(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ld-pieces-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    (void)snprintf(copy, sizeof copy, "%s/copy.db", folder);
    open_store();
}

static void finish(void)
{
    ld_store_close(s);
    (void)unlink(path);
    (void)unlink(copy);
    ck_assert_int_eq(rmdir(folder), 0);
}

static int64_t number(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    const int64_t out = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    (void)sqlite3_close(db);
    return out;
}

static void append(uint64_t seq, const char *text, uint64_t line)
{
    const struct ld_row row = {
        .seq = seq, .type = KB_EV_GRAPH, .reward = (double)NAN, .text = text, .n_text = strlen(text), .line = line};
    ck_assert_msg(ld_store_append(s, &row, 1, &why) == LD_STORE_OK, "%s", why.text);
}

static uint64_t put(const char *piece)
{
    uint64_t line = 0;
    ck_assert_msg(ld_store_put_piece(s, piece, strlen(piece), &line, &why) == LD_STORE_OK, "%s", why.text);
    return line;
}

/* All texts, one behind the other. */
static char all[4096];

static int note(void *arg, const struct ld_row *row)
{
    (void)arg;
    ck_assert_uint_eq(strlen(row->text), row->n_text);
    strcat(strcat(all, row->text), "|");
    return 0;
}

static void assert_log(const char *want)
{
    all[0] = '\0';
    ck_assert_int_eq(ld_store_read(s, 0, SIZE_MAX, note, NULL), LD_STORE_OK);
    ck_assert_str_eq(all, want);
}

static void assert_trimmed(int64_t n_pieces)
{
    bool has = true;
    while (has)
        ck_assert_msg(ld_store_trim(s, &has, &why) == LD_STORE_OK, "%s", why.text);
    ck_assert_int_eq(ld_store_has_leftovers(s, &has), LD_STORE_OK);
    ck_assert(!has);
    ck_assert_int_eq(number("SELECT count(*) FROM pieces"), n_pieces);
}

START_TEST(a_line_in_pieces_is_read_whole_between_others)
{
    bool has = true;
    begin();
    append(1, "one", 0);
    const uint64_t line = put("second ");
    append(2, "two", 0); /* the traffic goes on */
    ck_assert_uint_eq(put("third "), line);
    assert_log("one|two|");
    ck_assert_int_eq(ld_store_has_leftovers(s, &has), LD_STORE_OK);
    ck_assert(!has); /* it is being written */
    assert_trimmed(2);
    append(3, "first ", line);
    ld_store_end_pieces(s);
    append(4, "four", 0);
    assert_log("one|two|first second third |four|");
    ck_assert_uint_ne(put("another"), line);
    assert_trimmed(4);
    ld_store_end_pieces(s);
    assert_trimmed(3);
    ld_store_close(s);
    open_store();
    assert_log("one|two|first second third |four|");
    finish();
}
END_TEST

static bool never_over(void *arg)
{
    (void)arg;
    return false;
}

START_TEST(a_copy_has_long_lines_and_what_was_begun_is_trimmed_there)
{
    struct ld_store_view *v = NULL;
    uint64_t seq = 0;
    begin();
    append(1, "one ", put("line"));
    ld_store_end_pieces(s);
    (void)put("never");
    ck_assert_int_eq(ld_store_view_open(&v, s, &seq), LD_STORE_OK);
    append(2, "later", 0);
    all[0] = '\0';
    ck_assert_int_eq(ld_store_view_read(v, note, NULL), LD_STORE_OK);
    ck_assert_str_eq(all, "one line|");
    ck_assert_int_eq(ld_store_view_copy(v, copy, never_over, NULL, &why), LD_STORE_OK);
    ld_store_view_close(v);
    ld_store_close(s);
    ck_assert_int_eq(rename(copy, path), 0);
    open_store();
    assert_log("one line|");
    assert_trimmed(2);
    finish();
}
END_TEST

START_TEST(a_process_that_dies_leaves_nothing_of_a_line_without_its_row)
{
    int status;
    begin();
    append(1, "one", 0);
    ld_store_close(s);
    pid_t pid = fork();
    if (pid == 0) {
        open_store();
        const uint64_t line = put("lost");
        append(2, "two ", line + 1); /* of which there is its beginning alone */
        ld_store_end_pieces(s);
        (void)raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    open_store();
    bool has = false;
    ck_assert_int_eq(ld_store_has_leftovers(s, &has), LD_STORE_OK);
    ck_assert(has);
    assert_trimmed(1);
    assert_log("one|two |");
    finish();
}
END_TEST

START_TEST(a_line_that_is_rewritten_or_compacted_leaves_no_pieces)
{
    struct ld_row reset = {.seq = 3, .type = KB_EV_DICTIONARY, .reward = (double)NAN, .text = "reset", .n_text = 5};
    begin();
    append(1, "secret ", put("name"));
    ld_store_end_pieces(s);
    append(2, "kept ", put("line"));
    ld_store_end_pieces(s);
    struct ld_rewrite rewrite = {.seq = 1, .type = KB_EV_GRAPH, .text = (char[]){"clean"}, .n_text = 5};
    ck_assert_msg(ld_store_rewrite(s, &rewrite, 1, &reset, &why) == LD_STORE_OK, "%s", why.text);
    assert_log("clean|kept line|reset|");
    assert_trimmed(2);
    const struct ld_row summary = {
        .seq = 2, .type = KB_EV_SUMMARY, .reward = (double)NAN, .text = "summary", .n_text = 7};
    ck_assert_int_eq(ld_store_stage_summary(s, &summary, 1, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_start_behind(s, 2, NULL, 0, &why), LD_STORE_OK);
    assert_trimmed(0);
    assert_log("summary|reset|");
    finish();
}
END_TEST

/* As the last version left it, with a log that was compacted. */
START_TEST(a_file_of_version_2_is_taken_over)
{
    sqlite3 *db;
    begin();
    ld_store_close(s);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, ld_embed_0001_tenant_sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, ld_embed_0002_summary_sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db,
                                  "INSERT INTO summary (generation, seq, at, type, text) VALUES (1, 4, 0, 11, 'sum');"
                                  "INSERT INTO events (seq, at, type, text) VALUES (5, 0, 2, 'five'), (6, 0, 2, 'six');"
                                  "UPDATE log_start SET kept = 5, generation = 1;"
                                  "PRAGMA application_id = 0x6c706c64; PRAGMA user_version = 2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(db);
    open_store();
    assert_log("sum|five|six|");
    append(7, "seven ", put("too"));
    ld_store_end_pieces(s);
    assert_log("sum|five|six|seven too|");
    ld_store_close(s);
    open_store(); /* whose schema is held to that of the last version */
    assert_log("sum|five|six|seven too|");
    finish();
}
END_TEST

int main(void)
{
    return KBT_RUN("pieces", a_line_in_pieces_is_read_whole_between_others,
                   a_copy_has_long_lines_and_what_was_begun_is_trimmed_there,
                   a_process_that_dies_leaves_nothing_of_a_line_without_its_row,
                   a_line_that_is_rewritten_or_compacted_leaves_no_pieces, a_file_of_version_2_is_taken_over);
}
