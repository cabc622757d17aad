/* Writes to the write-ahead log that are gathered: fewer of them, and nobody sees a difference. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_vfs.h"
#include "kbt.h"
#include "kbt_files.h"
#include "base/rng.h"
#include "store/store_wal.h"

#define NEVER ((size_t)1 << 40)
#define MODEL 4000 /* ids that rows may have */

static char folder[64], path[128];

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/ld-wal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.db", folder);
}

static void end(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[160];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK, "%s: %s", sql, why);
}

static sqlite3 *open_by(const char *name, const char *vfs)
{
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs), SQLITE_OK);
    return db;
}

static sqlite3 *open_writer(void)
{
    sqlite3 *db = open_by(path, ld_wal_vfs());
    run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;"
            "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, size INTEGER, text BLOB)");
    return db;
}

static long long ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    const long long n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return n;
}

static void insert(sqlite3 *db, int first, int n, int bytes)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE i(k) AS (SELECT %d UNION ALL SELECT k + 1 FROM i WHERE k < %d)"
             " INSERT OR REPLACE INTO rows SELECT k, %d, zeroblob(%d) FROM i",
             first, first + n - 1, bytes, bytes);
    run(db, sql);
}

/* Calls of write that something took. */
static size_t n_writes(void)
{
    return NEVER - fault.left;
}

START_TEST(a_commit_is_one_write)
{
    fault_vfs_install();
    sqlite3 *plain, *db = open_writer();
    insert(db, 1, 30, 700);
    fault_arm(FAULT_WRITE, NEVER, true);
    insert(db, 31, 30, 700);
    ck_assert_uint_eq(n_writes(), 1);
    fault_arm(FAULT_WRITE, NEVER, true);
    insert(db, 61, 1000, 700); /* some 200 pages, of which sixteen are held at a time */
    ck_assert_uint_ge(n_writes(), 12);
    ck_assert_uint_le(n_writes(), 20);
    sqlite3_close(db);
    plain = open_by(path, NULL); /* beside it, SQLite by itself: two for each page */
    insert(plain, 1, 1, 1);
    fault_arm(FAULT_WRITE, NEVER, true);
    insert(plain, 2001, 30, 700);
    ck_assert_uint_ge(n_writes(), 10);
    sqlite3_close(plain);
}
END_TEST

static long long wal_bytes(void)
{
    char wal[160];
    struct stat st;
    snprintf(wal, sizeof wal, "%s-wal", path);
    ck_assert_int_eq(stat(wal, &st), 0);
    return (long long)st.st_size;
}

/* Its length is the file system's to keep, which takes a sync as long as the data. */
START_TEST(the_log_grows_in_few_steps)
{
    sqlite3 *db = open_writer();
    long long before = 0;
    int n_steps = 0;
    for (int i = 0; i < 200; i++) {
        insert(db, 1 + 8 * i, 8, 500);
        n_steps += wal_bytes() != before;
        before = wal_bytes();
    }
    ck_assert_int_ge(ask(db, "PRAGMA wal_checkpoint(PASSIVE)"), 0);
    ck_assert_int_le(n_steps, 80);
    ck_assert_int_le(before, 4 << 20); /* of some 2.5 MB that it holds */
    run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    ck_assert_int_eq(wal_bytes(), 0);
    insert(db, 1, 8, 500);
    before = wal_bytes();
    insert(db, 1, 8, 500);
    ck_assert_int_eq(wal_bytes(), before);
    sqlite3_close(db);
}
END_TEST

/* Zeros that do not fit are left away; what was to be committed is. */
START_TEST(a_commit_does_not_need_room_to_grow)
{
    fault_vfs_install();
    sqlite3 *db = open_writer(), *reader = open_by(path, NULL);
    for (int i = 0; i < 20; i++) {
        const long long before = wal_bytes();
        fault_arm(FAULT_WRITE, 1, true);
        insert(db, 1 + 30 * i, 30, 700);
        ck_assert_int_le(wal_bytes(), before + (64 << 10));
        fault_arm(FAULT_WRITE, NEVER, true);
        ck_assert_int_eq(ask(reader, "SELECT count(*) FROM rows"), 30 * (i + 1));
    }
    sqlite3_close(reader);
    sqlite3_close(db);
}
END_TEST

/* Who reads meanwhile sees the last commit, never a part of the next; and each as soon as it is over. */
START_TEST(readers_see_whole_commits)
{
    sqlite3 *db = open_writer(), *reader = open_by(path, NULL);
    for (int i = 0; i < 50; i++) {
        run(db, "BEGIN IMMEDIATE");
        insert(db, 1 + 40 * i, 40, 500);
        ck_assert_int_eq(ask(db, "SELECT count(*) FROM rows"), 40 * (i + 1));
        ck_assert_int_eq(ask(reader, "SELECT count(*) FROM rows"), 40 * i);
        run(db, "COMMIT");
        ck_assert_int_eq(ask(reader, "SELECT count(*) FROM rows"), 40 * (i + 1));
        ck_assert_int_eq(ask(reader, "SELECT count(*) FROM rows WHERE size != length(text)"), 0);
        if (i % 7 == 0)
            run(reader, "PRAGMA wal_checkpoint(PASSIVE)");
        if (i % 19 == 0)
            run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    sqlite3_close(reader);
    sqlite3_close(db);
}
END_TEST

/* Transactions that do not fit into the cache write pages to the log before they commit, read them back from there, and
 * may take all of it back. Against a model in memory. */
START_TEST(what_is_spilled_is_read_back_and_taken_back)
{
    static int size[MODEL + 1], before[MODEL + 1];
    sqlite3 *db = open_writer(), *reader = open_by(path, NULL);
    run(db, "PRAGMA cache_size=8");
    for (uint64_t i = 0; i < 60; i++) {
        memcpy(before, size, sizeof size);
        run(db, "BEGIN IMMEDIATE");
        for (uint64_t k = 0; k < 3; k++) {
            const int first = 1 + (int)(kb_rng_bits(i, KB_STREAM_SIMULATION, 4 * k) % (MODEL - 300));
            const int n = 1 + (int)(kb_rng_bits(i, KB_STREAM_SIMULATION, 4 * k + 1) % 300);
            const int bytes = (int)(kb_rng_bits(i, KB_STREAM_SIMULATION, 4 * k + 2) % 900);
            insert(db, first, n, bytes);
            for (int j = first; j < first + n; j++)
                size[j] = bytes + 1;
        }
        long long want_n = 0, want_sum = 0;
        for (int j = 1; j <= MODEL; j++) {
            want_n += size[j] > 0;
            want_sum += size[j] > 0 ? size[j] - 1 : 0;
        }
        ck_assert_int_eq(ask(db, "SELECT count(*) FROM rows"), want_n);
        ck_assert_int_eq(ask(db, "SELECT coalesce(sum(length(text)), 0) FROM rows"), want_sum);
        if (i % 3 == 2) {
            run(db, "ROLLBACK");
            memcpy(size, before, sizeof size);
        } else {
            run(db, "COMMIT");
            ck_assert_int_eq(ask(reader, "SELECT coalesce(sum(length(text)), 0) FROM rows"), want_sum);
        }
    }
    ck_assert_int_eq(ask(reader, "SELECT quick_check = 'ok' FROM pragma_quick_check"), 1);
    sqlite3_close(reader);
    sqlite3_close(db);
}
END_TEST

/* The files as they are when a process dies right behind a commit, and within the next transaction. */
START_TEST(what_is_committed_is_in_the_files)
{
    char wal[160], copy[160], copy_wal[176];
    sqlite3 *db = open_writer();
    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(copy, sizeof copy, "%s.copy", path);
    snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
    for (int i = 0; i < 20; i++) {
        insert(db, 1 + 30 * i, 30, 600);
        for (int is_within = 0; is_within < 2; is_within++) {
            if (is_within == 1) {
                run(db, "BEGIN IMMEDIATE");
                insert(db, 1 + 30 * (i + 1), 10, 600);
            }
            kbt_copy_file(path, copy);
            kbt_copy_file(wal, copy_wal);
            sqlite3 *image = open_by(copy, NULL);
            ck_assert_int_eq(ask(image, "SELECT count(*) FROM rows"), 30 * (i + 1));
            ck_assert_int_eq(ask(image, "SELECT quick_check = 'ok' FROM pragma_quick_check"), 1);
            sqlite3_close(image);
            unlink(copy_wal);
        }
        run(db, "ROLLBACK");
    }
    unlink(copy);
    sqlite3_close(db);
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH("store_wal", 60, begin, end, a_commit_is_one_write, the_log_grows_in_few_steps,
                        a_commit_does_not_need_room_to_grow, readers_see_whole_commits,
                        what_is_spilled_is_read_back_and_taken_back, what_is_committed_is_in_the_files);
}
