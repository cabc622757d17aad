/* Files that somebody else may have made: what is in them does not run, the look at them can be ended, their schema is
 * held to that of their version; and all of ours are their owner's alone. What such files may hold is
 * tests/http/k10_hostile_files.py. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "store/migrate.h"
#include "kbt.h"
#include "kbt_files.h"
#include "store/snapshot.h"
#include "store/sqlite_util.h"
#include "store/store.h"

static char folder[64], path[128];
static struct ld_message why;

static void begin(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ld-check-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
}

static void finish(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".snapshot"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[160];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static void sql(const char *text)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

/* A log of n lines, closed. */
static void make_log(uint64_t n)
{
    struct ld_store *s = NULL;
    ck_assert_msg(ld_store_open(&s, path, false, &why) == LD_STORE_OK, "%s", why.text);
    for (uint64_t seq = 1; seq <= n; seq++) {
        const struct ld_row row = {.seq = seq, .type = 6, .text = "{}", .n_text = 2};
        ck_assert_int_eq(ld_store_append(s, &row, 1, &why), LD_STORE_OK);
    }
    ld_store_close(s);
}

/* --- connections --------------------------------------------------------------------------------------- */

START_TEST(nothing_in_a_file_runs_by_itself)
{
    static const struct {
        int option, value;
    } rows[] = {{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},  {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                {SQLITE_DBCONFIG_DEFENSIVE, 1},       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0}, {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}};
    struct sqlite3 *db = NULL;
    int64_t n = 0;
    begin();
    sql("CREATE TABLE t (x); CREATE VIEW v AS SELECT 1 AS x;"
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END");
    ck_assert_int_eq(ld_sql_connect(&db, path, SQLITE_OPEN_READWRITE, NULL, &why), LD_STORE_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int value = -1;
        ck_assert_int_eq(sqlite3_db_config(db, rows[i].option, -1, &value), SQLITE_OK);
        ck_assert_int_eq(value, rows[i].value);
    }
    ck_assert_int_eq(ld_sql_exec(db, "INSERT INTO t VALUES (1)", &why), LD_STORE_OK);
    ck_assert_int_eq(ld_sql_int(db, "SELECT count(*) FROM t", &n, &why), LD_STORE_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_ne(ld_sql_int(db, "SELECT x FROM v", &n, &why), LD_STORE_OK);
    (void)ld_sql_exec(db, "PRAGMA writable_schema = ON", NULL);
    ck_assert_int_ne(ld_sql_exec(db, "DELETE FROM sqlite_schema", &why), LD_STORE_OK);
    (void)sqlite3_close(db);
    finish();
}
END_TEST

/* --- the look ------------------------------------------------------------------------------------------- */

static int n_asked, n_patience;

static bool is_over(void *arg)
{
    (void)arg;
    return ++n_asked > n_patience;
}

static int count_row(void *arg, const struct ld_row *row)
{
    (void)row;
    ++*(int *)arg;
    return 0;
}

/* Wherever the stop falls, from the first look on: nothing has happened to the file, and the next one opens it. */
START_TEST(a_stop_ends_whatever_is_asked_of_a_file)
{
    const struct ld_store_care care = {.is_foreign = true, .is_over = is_over};
    size_t n = 0, n_after = 0;
    int rc = LD_STORE_STOPPED, n_rows = 0;
    begin();
    make_log(3000);
    unsigned char *before = kbt_read_file(path, &n);
    for (n_patience = 0; rc == LD_STORE_STOPPED; n_patience++) {
        struct ld_store *s = NULL;
        n_asked = 0;
        n_rows = 0;
        rc = ld_store_open_with(&s, path, &care, &why);
        ck_assert(rc != LD_STORE_STOPPED || strstr(why.text, "stopping") != NULL);
        if (rc == LD_STORE_OK)
            rc = ld_store_read(s, 0, SIZE_MAX, count_row, &n_rows);
        ld_store_close(s);
        unsigned char *after = kbt_read_file(path, &n_after);
        ck_assert(n == n_after && memcmp(before, after, n) == 0);
        free(after);
    }
    ck_assert_msg(rc == LD_STORE_OK, "%d %s", rc, why.text);
    ck_assert_int_eq(n_rows, 3000);
    ck_assert_int_gt(n_patience, 20);
    free(before);
    finish();
}
END_TEST

/* The writer of a tenant that serves is not under a watch: only the look is. */
START_TEST(a_stop_does_not_end_what_a_tenant_of_ours_does)
{
    const struct ld_store_care care = {.is_over = is_over};
    struct ld_store *s = NULL;
    int n_rows = 0;
    begin();
    make_log(3000);
    n_asked = 0;
    n_patience = 1 << 30;
    ck_assert_int_eq(ld_store_open_with(&s, path, &care, &why), LD_STORE_OK);
    ck_assert_int_gt(n_asked, 0);
    n_patience = 0;
    ck_assert_int_eq(ld_store_read(s, 0, SIZE_MAX, count_row, &n_rows), LD_STORE_OK);
    ck_assert_int_eq(n_rows, 3000);
    ld_store_close(s);
    finish();
}
END_TEST

START_TEST(a_schema_is_held_to_that_of_its_version)
{
    static const struct ld_migration versions[] = {
        {1, ld_embed_0001_tenant_sql},       {2, ld_embed_0002_summary_sql},     {3, ld_embed_0003_pieces_sql},
        {4, ld_embed_0004_books_sql},        {5, ld_embed_0005_reward_ids_sql},  {6, ld_embed_0006_types_sql},
        {7, ld_embed_0007_metrics_sql},      {8, ld_embed_0008_evaluations_sql}, {9, ld_embed_0009_copies_sql},
        {11, ld_embed_0011_generations_sql},
    };
    for (size_t n = 1; n <= sizeof versions / sizeof *versions; n++)
        for (int is_spoiled = 0; is_spoiled <= 1; is_spoiled++) {
            struct ld_store *s = NULL;
            char text[128];
            begin();
            const int last = versions[n - 1].version;
            for (size_t i = 0; i < n; i++)
                sql(versions[i].sql);
            (void)snprintf(text, sizeof text, "PRAGMA application_id = 0x6c706c64; PRAGMA user_version = %d", last);
            sql(text);
            if (is_spoiled)
                sql("CREATE TRIGGER sneaky AFTER INSERT ON events BEGIN DELETE FROM events; END");
            const int rc = ld_store_open(&s, path, false, &why);
            ck_assert_msg(rc == (is_spoiled ? LD_STORE_CORRUPT : LD_STORE_OK), "%d: %d %s", last, rc, why.text);
            (void)snprintf(text, sizeof text, "version %d: found trigger \"sneaky\" on \"events\"", last);
            ck_assert_msg(!is_spoiled || strstr(why.text, text) != NULL, "%s", why.text);
            ld_store_close(s);
            finish();
        }
}
END_TEST

/* --- who may read ------------------------------------------------------------------------------------------ */

static mode_t mode_of(const char *suffix)
{
    char name[160];
    struct stat st;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    ck_assert_msg(stat(name, &st) == 0, "%s", name);
    return st.st_mode & 0777;
}

START_TEST(files_are_their_owners_alone_whatever_the_umask_is)
{
    const struct ld_row row = {.seq = 1, .type = 6, .text = "{}", .n_text = 2};
    const mode_t before = umask(0);
    struct ld_store *s = NULL;
    char name[160];
    begin();
    (void)snprintf(name, sizeof name, "%s.snapshot", path);
    ck_assert_int_eq(ld_store_open(&s, path, false, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_append(s, &row, 1, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_snapshot_write(name, 1, "body", 4, &why), 0);
    for (int is_again = 0; is_again <= 1; is_again++) {
        ck_assert_uint_eq(mode_of(""), 0600);
        ck_assert_uint_eq(mode_of("-wal"), 0600);
        ck_assert_uint_eq(mode_of("-shm"), 0600);
        ck_assert_uint_eq(mode_of(".snapshot"), 0600);
        ld_store_close(s);
        s = NULL;
        ck_assert_int_eq(chmod(path, 0644), 0);
        ck_assert_int_eq(ld_store_open(&s, path, false, &why), LD_STORE_OK);
        uint64_t last, last_reset;
        ck_assert_int_eq(ld_store_tip(s, &last, &last_reset), LD_STORE_OK);
    }
    ld_store_close(s);
    (void)umask(before);
    finish();
}
END_TEST

int main(void)
{
    return KBT_RUN("db_check", nothing_in_a_file_runs_by_itself, a_stop_ends_whatever_is_asked_of_a_file,
                   a_stop_does_not_end_what_a_tenant_of_ours_does, a_schema_is_held_to_that_of_its_version,
                   files_are_their_owners_alone_whatever_the_umask_is);
}
