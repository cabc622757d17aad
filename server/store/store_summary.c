/* A tenant's file, compaction: a summary takes the place of the log's beginning (schema/0002_summary.sql).
 *
 *     stage     some lines of a summary to come, in a transaction of their own; they belong to no log yet
 *     start     the log begins with what was staged: one row is changed; the books are saved         O(books)
 *     trim      some of the rows that belong to no log any more are deleted, and pages given back
 *
 * Each step is short and durable, so that commits of the traffic find their place in between, and a process that dies
 * leaves either log whole, with rows that the next start trims.
 *
 * What is deleted is overwritten with zeros (secure_delete): the lines of a user who is erased later must not stand in
 * pages that are no longer used. Files made by this version give such pages back to the file system (auto_vacuum is
 * incremental); older files keep their size and fill the pages again.
 *
 * All but the two readers are the writer's. */
#include "store/store_impl.h"

#include <sqlite3.h>
#include <stdio.h>

/* A step's share: a few milliseconds of the disk. Lines of a summary may be large, those of events seldom are. */
#define TRIM_ROWS "2000"
#define TRIM_LINES "8"
#define TRIM_PAGES "1000"

/* ---- reading -------------------------------------------------------------------------------------------- */

/* By a connection for reading; statements are not kept, since these are asked seldom. */
static int ask(struct ld_store *s, const char *sql, int64_t *out, int n)
{
    int status;
    struct ld_conn *c = ld_store_borrow(s, &status);
    sqlite3_stmt *stmt = NULL;

    if (c == NULL)
        return status;
    status = ld_sql_prepare(c->db, sql, &stmt, NULL);
    if (status == LD_STORE_OK) {
        const int rc = sqlite3_step(stmt);

        for (int i = 0; i < n && rc == SQLITE_ROW; i++)
            out[i] = sqlite3_column_int64(stmt, i);
        status = rc == SQLITE_ROW ? LD_STORE_OK : rc == SQLITE_DONE ? LD_STORE_CORRUPT : ld_sql_status(rc);
    }
    (void)sqlite3_finalize(stmt);
    ld_store_give_back(s, c);
    return status;
}

int ld_store_start(struct ld_store *s, uint64_t *first, uint64_t *kept)
{
    int64_t out[2] = {0, 0};
    const int status =
        ask(s, "SELECT coalesce((SELECT seq FROM " LD_LOG " ORDER BY seq LIMIT 1), 1), (SELECT kept FROM log_start)",
            out, 2);

    *first = (uint64_t)out[0];
    *kept = (uint64_t)out[1];
    return status;
}

/* Pieces of lines that no event has, but for the one that is being written (%llu). */
#define STRAY_PIECES "pieces WHERE line <> %llu AND line NOT IN (SELECT line FROM events WHERE line IS NOT NULL)"

int ld_store_has_leftovers(struct ld_store *s, bool *has)
{
    char sql[512];
    int64_t out = 0;

    (void)snprintf(sql, sizeof sql,
                   "SELECT EXISTS (SELECT 1 FROM events, log_start WHERE seq < kept)"
                   " OR EXISTS (SELECT 1 FROM summary s, log_start l WHERE s.generation > l.generation)"
                   " OR EXISTS (SELECT 1 FROM summary s, log_start l WHERE s.generation < l.generation)"
                   " OR EXISTS (SELECT 1 FROM " STRAY_PIECES ")",
                   (unsigned long long)s->line);
    const int status = ask(s, sql, &out, 1);

    *has = out != 0;
    return status;
}

/* Times follow the order of the log, but for a clock that was set back; by halving, O(log n) look-ups. */
int ld_store_before(struct ld_store *s, int64_t at_ms, uint64_t *last)
{
    char sql[160];
    int64_t ends[2] = {0, 0}, at = 0;
    int status = ask(s, "SELECT kept, coalesce((SELECT max(seq) FROM events), 0) FROM log_start", ends, 2);
    int64_t low = ends[0] - 1, high = ends[1]; /* the answer lies in [low, high] */

    while (status == LD_STORE_OK && low < high) {
        const int64_t middle = low + (high - low + 1) / 2;

        /* a log that was brought from elsewhere may begin later than its first row could */
        (void)snprintf(sql, sizeof sql, "SELECT coalesce((SELECT at FROM events WHERE seq = %lld), 0)",
                       (long long)middle);
        status = ask(s, sql, &at, 1);
        if (at < at_ms)
            low = middle;
        else
            high = middle - 1;
    }
    *last = (uint64_t)low;
    return status;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

int ld_store_stage_summary(struct ld_store *s, const struct ld_row *rows, size_t n, struct ld_message *why)
{
    static const char sql[] =
        "INSERT INTO summary (generation, seq, at, type, decision, user, arm, reward, text, answer)"
        " VALUES ((SELECT generation + 1 FROM log_start), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    sqlite3_stmt *stmt = NULL;
    const int status = ld_store_begin(s, false, why);

    if (status != LD_STORE_OK)
        return status;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);
    for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
        rc = ld_store_insert(stmt, &rows[i]);
    (void)sqlite3_finalize(stmt);
    return ld_store_end(s, rc, why);
}

int ld_store_start_behind(struct ld_store *s, uint64_t last, const struct ld_book_row *books, size_t n_books,
                          struct ld_message *why)
{
    char sql[128];
    const int status = ld_store_begin(s, false, why);

    if (status != LD_STORE_OK)
        return status;
    (void)snprintf(sql, sizeof sql, "UPDATE log_start SET kept = %llu, generation = generation + 1",
                   (unsigned long long)last + 1);
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = ld_store_insert_books(s, books, n_books);
    return ld_store_end(s, rc, why);
}

/* Events go from the lowest on, so that what is left has no gaps. */
static const char trim_sql[] =
    "DELETE FROM events WHERE seq < (SELECT kept FROM log_start)"
    " AND seq < (SELECT min(seq) FROM events) + " TRIM_ROWS ";"
    "DELETE FROM summary WHERE rowid IN (SELECT s.rowid FROM summary s, log_start l"
    " WHERE s.generation <> l.generation LIMIT " TRIM_LINES ");"
    "DELETE FROM pieces WHERE rowid IN (SELECT rowid FROM " STRAY_PIECES " LIMIT " TRIM_LINES ")";

int ld_store_trim(struct ld_store *s, bool *has_more, struct ld_message *why)
{
    char sql[sizeof trim_sql + 24];
    int64_t n_free = 0;
    int status = ld_store_begin(s, true, why);

    (void)snprintf(sql, sizeof sql, trim_sql, (unsigned long long)s->line);
    if (status == LD_STORE_OK)
        status = ld_store_end(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL), why);
    *has_more = true;
    if (status != LD_STORE_OK)
        return status;
    status = ld_sql_exec(s->db, "PRAGMA incremental_vacuum(" TRIM_PAGES ")", why);
    if (status == LD_STORE_OK)
        status = ld_store_has_leftovers(s, has_more);
    if (status == LD_STORE_OK && !*has_more)
        status = ld_sql_int(s->db,
                            "SELECT iif((SELECT auto_vacuum FROM pragma_auto_vacuum) = 0, 0,"
                            " (SELECT freelist_count FROM pragma_freelist_count))",
                            &n_free, why);
    *has_more |= n_free > 0;
    return status;
}
