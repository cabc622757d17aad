/* One moment of a tenant's file, read or copied beside the writer.
 *
 * The moment is a read transaction that stays open: in WAL mode commits go on beside it, and every page is read as it
 * was when it began. SQLite's backup would begin anew whenever another connection has committed; within such a
 * transaction it does not notice. What it costs: pages of the write-ahead log that came later cannot be moved into the
 * file until it ends.
 *
 * The copy has neither a journal on the disk nor a sync: a crash leaves a file that nobody looks at. Memory: two page
 * caches. */
#include "store/store_impl.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_PAGES 256 /* 1 MiB, a few milliseconds */

struct ld_store_view {
    struct ld_store *store;
    struct ld_conn *conn;
};

/* The query takes the snapshot: BEGIN alone reads nothing. */
int ld_store_view_open(struct ld_store_view **out, struct ld_store *s, uint64_t *seq)
{
    int status = LD_STORE_NOMEM;
    int64_t last = 0;
    struct ld_store_view *v = calloc(1, sizeof *v);
    if (v == NULL)
        return status;
    v->store = s;
    v->conn = ld_store_borrow(s, &status);
    if (v->conn != NULL)
        status = ld_sql_exec(v->conn->db, "BEGIN", NULL);
    if (v->conn != NULL && status == LD_STORE_OK)
        status = ld_sql_int(v->conn->db, LD_LAST_SEQ, &last, NULL);
    if (status != LD_STORE_OK) {
        ld_store_view_close(v);
        return status;
    }
    *seq = (uint64_t)last;
    *out = v;
    return LD_STORE_OK;
}

/* A transaction that has only read cannot fail to end. NULL is fine. */
void ld_store_view_close(struct ld_store_view *v)
{
    if (v == NULL)
        return;
    if (v->conn != NULL) {
        if (sqlite3_get_autocommit(v->conn->db) == 0)
            (void)ld_sql_exec(v->conn->db, "COMMIT", NULL);
        ld_store_give_back(v->store, v->conn);
    }
    free(v);
}

int ld_store_view_read(struct ld_store_view *v, int (*fn)(void *arg, const struct ld_row *row), void *arg)
{
    sqlite3_stmt *stmt = NULL;
    int status = ld_sql_prepare(v->conn->db, "SELECT " LD_ROW_COLUMNS " FROM " LD_LOG " ORDER BY seq", &stmt, NULL);
    if (status == LD_STORE_OK)
        status = ld_store_each_row(v->conn, stmt, fn, arg);
    (void)sqlite3_finalize(stmt);
    return status;
}

/* Until all pages are there; 0 or SQLite's code. The destination has no other user, so nothing is ever busy. */
static int copy_pages(sqlite3_backup *b, bool (*is_over)(void *arg), void *arg)
{
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK)
        rc = is_over(arg) ? SQLITE_INTERRUPT : sqlite3_backup_step(b, STEP_PAGES);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int ld_store_view_copy(struct ld_store_view *v, const char *path, bool (*is_over)(void *arg), void *arg,
                       struct ld_message *why)
{
    struct sqlite3 *to = NULL;
    int made = ld_db_touch_private(path) == 0 ? LD_STORE_OK : LD_STORE_IO;
    if (made == LD_STORE_OK)
        made = ld_sql_connect(&to, path, SQLITE_OPEN_READWRITE, NULL, why);
    else
        ld_fail(why, "%.300s: %s", path, strerror(errno));
    if (made != LD_STORE_OK)
        return made;
    int rc = sqlite3_exec(to, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    sqlite3_backup *b = rc == SQLITE_OK ? sqlite3_backup_init(to, "main", v->conn->db, "main") : NULL;
    if (b != NULL) {
        rc = copy_pages(b, is_over, arg);
        const int end = sqlite3_backup_finish(b);
        rc = rc != SQLITE_OK ? rc : end;
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(to);
    }
    const int status = rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(to, rc, path, why);
    (void)sqlite3_close(to);
    return status;
}
