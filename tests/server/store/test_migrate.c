/* Migrations: each one whole or not at all; a file's header is judged without opening it as a database. */
#include <check.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kbt.h"
#include "store/migrate.h"
#include "store/sqlite_util.h"
#include "store/store.h"

#define ID 0x74657374u /* "test" */

static const struct ld_migration list[] = {
    {1, "CREATE TABLE one (x); INSERT INTO one VALUES (1)"},
    {2, "ALTER TABLE one ADD COLUMN y DEFAULT 7"},
    {3, "CREATE TABLE three (x); UPDATE one SET y = 8"},
};

static char path[64];
static struct ld_message why;

static void make_path(void)
{
    (void)snprintf(path, sizeof path, "/tmp/ld-migrate-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    (void)unlink(path);
}

static void remove_path(void)
{
    char name[80];
    (void)unlink(path);
    (void)snprintf(name, sizeof name, "%s-journal", path);
    (void)unlink(name);
}

static sqlite3 *open_db(void)
{
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static int64_t value(sqlite3 *db, const char *sql)
{
    int64_t x = -1;
    ck_assert_msg(ld_sql_int(db, sql, &x, &why) == LD_STORE_OK, "%s: %s", sql, why.text);
    return x;
}

static int inspect(int last_version, int *exists)
{
    return ld_migrate_inspect(path, last_version, ID, exists, &why);
}

START_TEST(a_new_file_gets_every_migration_in_order)
{
    int exists;
    sqlite3 *db = open_db();
    ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
    ck_assert_int_eq(value(db, "PRAGMA user_version"), 3);
    ck_assert_int_eq(value(db, "PRAGMA application_id"), ID);
    ck_assert_int_eq(value(db, "SELECT y FROM one"), 8);
    ck_assert_int_eq(value(db, "SELECT count(*) FROM three"), 0);
    (void)sqlite3_close(db);
    ck_assert_int_eq(inspect(3, &exists), LD_STORE_OK);
    ck_assert_int_eq(exists, 1);
}
END_TEST

/* In a child, which dies at the n-th passage. False when it came to its end. */
static bool migrate_and_die(int n)
{
    char point[32];
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)snprintf(point, sizeof point, "mid_migration:%d", n);
        (void)setenv("LAPLACED_FAILPOINT", point, 1);
        _exit(ld_migrate(open_db(), list, 3, ID, &why) == LD_STORE_OK ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* Each of the five statements, from each of the versions before: what was there stays, and the next one goes on. */
START_TEST(a_death_between_statements_leaves_a_version_whole)
{
    for (int from = 1; from <= 2; from++)
        for (int n = 1, has_died = 1; has_died; n++) {
            sqlite3 *db = open_db();
            ck_assert_int_eq(ld_migrate(db, list, from, ID, &why), LD_STORE_OK);
            (void)sqlite3_close(db);
            has_died = migrate_and_die(n);
            db = open_db();
            int64_t version = value(db, "PRAGMA user_version");
            ck_assert_int_ge(version, from);
            ck_assert_int_le(version, has_died ? 2 : 3);
            ck_assert_int_eq(value(db, "SELECT count(*) FROM sqlite_schema"), version < 3 ? 1 : 2);
            ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
            ck_assert_int_eq(value(db, "SELECT y FROM one"), 8);
            (void)sqlite3_close(db);
            remove_path();
            ck_assert_int_le(n, 4);
        }
}
END_TEST

START_TEST(an_older_file_gets_what_it_lacks)
{
    for (int from = 1; from <= 3; from++) {
        sqlite3 *db = open_db();
        ck_assert_int_eq(ld_migrate(db, list, from, ID, &why), LD_STORE_OK);
        ck_assert_int_eq(value(db, "PRAGMA user_version"), from);
        ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
        ck_assert_int_eq(value(db, "PRAGMA user_version"), 3);
        ck_assert_int_eq(value(db, "SELECT count(*) FROM one"), 1);
        ck_assert_int_eq(value(db, "SELECT y FROM one"), 8);
        (void)sqlite3_close(db);
        (void)unlink(path);
    }
}
END_TEST

START_TEST(migrating_again_changes_nothing)
{
    sqlite3 *db = open_db();
    ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
    int64_t changes = value(db, "PRAGMA data_version"), total = sqlite3_total_changes(db);
    ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
    ck_assert_int_eq(value(db, "PRAGMA data_version"), changes);
    ck_assert_int_eq(sqlite3_total_changes(db), total);
    (void)sqlite3_close(db);
}
END_TEST

START_TEST(a_migration_that_fails_leaves_the_version_before_it)
{
    const struct ld_migration broken[] = {
        list[0], {2, "CREATE TABLE two (x); INSERT INTO nowhere VALUES (1)"}, {3, list[2].sql}};
    sqlite3 *db = open_db();
    ck_assert_int_ne(ld_migrate(db, broken, 3, ID, &why), LD_STORE_OK);
    ck_assert_ptr_nonnull(strstr(why.text, "nowhere"));
    ck_assert_int_eq(value(db, "PRAGMA user_version"), 1);
    ck_assert_int_eq(value(db, "SELECT count(*) FROM sqlite_schema WHERE name IN ('two', 'three')"), 0);
    ck_assert_int_eq(sqlite3_get_autocommit(db), 1);
    ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
    ck_assert_int_eq(value(db, "SELECT y FROM one"), 8);
    (void)sqlite3_close(db);
}
END_TEST

START_TEST(a_newer_version_is_refused_by_both)
{
    int exists;
    sqlite3 *db = open_db();
    ck_assert_int_eq(ld_migrate(db, list, 3, ID, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_migrate(db, list, 2, ID, &why), LD_STORE_NEWER);
    ck_assert_int_eq(value(db, "PRAGMA user_version"), 3);
    (void)sqlite3_close(db);
    ck_assert_int_eq(inspect(2, &exists), LD_STORE_NEWER);
    ck_assert_ptr_nonnull(strstr(why.text, path));
}
END_TEST

START_TEST(inspecting_tells_absent_empty_foreign_and_other_kinds_apart)
{
    int exists = 7;
    ck_assert_int_eq(inspect(3, &exists), LD_STORE_OK);
    ck_assert_int_eq(exists, 0);
    FILE *f = fopen(path, "w");
    (void)fclose(f);
    ck_assert_int_eq(inspect(3, &exists), LD_STORE_CORRUPT);
    f = fopen(path, "w");
    (void)fputs(
        "a text of more than a hundred bytes, which is what a careless hand may put where a database of ours should be",
        f);
    (void)fclose(f);
    ck_assert_int_eq(inspect(3, &exists), LD_STORE_FOREIGN);
    (void)unlink(path);
    sqlite3 *db = open_db();
    ck_assert_int_eq(ld_migrate(db, list, 3, ID + 1, &why), LD_STORE_OK);
    (void)sqlite3_close(db);
    ck_assert_int_eq(inspect(3, &exists), LD_STORE_FOREIGN);
}
END_TEST

START_TEST(result_codes_have_the_status_that_calls_for_the_right_deed)
{
    static const struct {
        int rc, status;
    } rows[] = {{SQLITE_OK, LD_STORE_OK},
                {SQLITE_DONE, LD_STORE_OK},
                {SQLITE_FULL, LD_STORE_IO},
                {SQLITE_IOERR_FSYNC, LD_STORE_IO},
                {SQLITE_READONLY_DIRECTORY, LD_STORE_IO},
                {SQLITE_CANTOPEN, LD_STORE_IO},
                {SQLITE_BUSY_SNAPSHOT, LD_STORE_IO},
                {SQLITE_CORRUPT_INDEX, LD_STORE_CORRUPT},
                {SQLITE_NOTADB, LD_STORE_CORRUPT},
                {SQLITE_IOERR_NOMEM & 0xff, LD_STORE_IO},
                {SQLITE_NOMEM, LD_STORE_NOMEM}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_int_eq(ld_sql_status(rows[i].rc), rows[i].status);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("migrate");
    TCase *tc = tcase_create("migrate");
    tcase_add_checked_fixture(tc, make_path, remove_path);
    tcase_add_test(tc, a_new_file_gets_every_migration_in_order);
    tcase_add_test(tc, a_death_between_statements_leaves_a_version_whole);
    tcase_add_test(tc, an_older_file_gets_what_it_lacks);
    tcase_add_test(tc, migrating_again_changes_nothing);
    tcase_add_test(tc, a_migration_that_fails_leaves_the_version_before_it);
    tcase_add_test(tc, a_newer_version_is_refused_by_both);
    tcase_add_test(tc, inspecting_tells_absent_empty_foreign_and_other_kinds_apart);
    tcase_add_test(tc, result_codes_have_the_status_that_calls_for_the_right_deed);
    suite_add_tcase(s, tc);
    return kbt_run_suite(s);
}
