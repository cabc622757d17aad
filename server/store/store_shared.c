/* A tenant's file as a copy of a shared log (schema/0009_copies.sql): where the copy stands is written with the lines.
 *
 * The lines are durable in the shared log before they come here, so a commit here waits for no disk:
 * synchronous=NORMAL. A power cut may take the last transactions, each as a whole and in order; the copy then stands
 * further back, and says so. The writes of a commit are not gathered as elsewhere (store_wal.h): they are to be there
 * when it is over, and no sync says when that is. */
#include "store/store_impl.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* A file of before schema/0010_generations.sql has no generation. */
static int read_mark(sqlite3 *db, bool has_generation, struct ld_copy_mark *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, status;

    *out = (struct ld_copy_mark){.tenant = 0};
    status = ld_sql_prepare(db,
                            has_generation ? "SELECT tenant, seq, hash, generation FROM copy_of"
                                           : "SELECT tenant, seq, hash, 0 FROM copy_of",
                            &stmt, NULL);
    if (status == LD_STORE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 2) == LD_COPY_HASH_BYTES) {
        out->tenant = (uint64_t)sqlite3_column_int64(stmt, 0);
        out->seq = (uint64_t)sqlite3_column_int64(stmt, 1);
        memcpy(out->hash, sqlite3_column_blob(stmt, 2), LD_COPY_HASH_BYTES);
        out->generation = (uint64_t)sqlite3_column_int64(stmt, 3);
    } else if (status == LD_STORE_OK && rc != SQLITE_DONE) {
        status = ld_sql_status(rc);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

int ld_store_copy_mark(struct ld_store *s, struct ld_copy_mark *out)
{
    int status;
    struct ld_conn *c = ld_store_borrow(s, &status);

    *out = (struct ld_copy_mark){.tenant = 0};
    if (c == NULL)
        return status;
    status = read_mark(c->db, true, out);
    ld_store_give_back(s, c);
    return status;
}

/* A file of an older schema has no table of copies, and is none. */
int ld_store_look_at_copy(const char *path, struct ld_copy_mark *out, bool *is_empty, struct ld_message *why)
{
    sqlite3 *db = NULL;
    int64_t n_columns = 0, has_lines = 0;
    int status = ld_db_connect_readonly(&db, path, why);

    *out = (struct ld_copy_mark){.tenant = 0};
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "SELECT count(*) FROM pragma_table_info('copy_of')", &n_columns, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "SELECT EXISTS (SELECT 1 FROM events)", &has_lines, why);
    if (status == LD_STORE_OK && n_columns > 0)
        status = read_mark(db, n_columns > 4, out);
    *is_empty = has_lines == 0;
    (void)sqlite3_close(db);
    return status;
}

/* SQLite's code. */
static int put_mark(struct ld_store *s, const struct ld_copy_mark *mark)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO copy_of (only, tenant, seq, hash, generation) VALUES (1, ?1, ?2, ?3, ?4)";

    if (s->put_mark == NULL && ld_sql_prepare(s->db, sql, &s->put_mark, NULL) != LD_STORE_OK)
        return SQLITE_NOMEM;
    (void)sqlite3_bind_int64(s->put_mark, 1, (sqlite3_int64)mark->tenant);
    (void)sqlite3_bind_int64(s->put_mark, 2, (sqlite3_int64)mark->seq);
    (void)sqlite3_bind_blob(s->put_mark, 3, mark->hash, LD_COPY_HASH_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s->put_mark, 4, (sqlite3_int64)mark->generation);
    return ld_store_step(s->put_mark);
}

int ld_store_be_copy(struct ld_store *s, const struct ld_copy_mark *mark, struct ld_message *why)
{
    int64_t level = -1;
    int status = ld_store_begin(s, false, why);

    if (status == LD_STORE_OK)
        status = ld_store_end(s, put_mark(s, mark), why);
    if (status == LD_STORE_OK)
        status = ld_sql_exec(s->db, "PRAGMA synchronous=NORMAL", why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(s->db, "PRAGMA synchronous", &level, why);
    if (status == LD_STORE_OK && level != 1)
        status = ld_fail_as(LD_STORE_IO, why, "%s: synchronous is %lld", s->path, (long long)level);
    return status;
}

int ld_store_append_copy(struct ld_store *s, const struct ld_row *rows, size_t n, const struct ld_copy_mark *mark,
                         struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);
    int rc;

    if (status != LD_STORE_OK)
        return status;
    rc = ld_store_insert_all(s, rows, n);
    return ld_store_end(s, rc == SQLITE_OK ? put_mark(s, mark) : rc, why);
}

int ld_store_be_no_copy(struct ld_store *s, struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);

    return status != LD_STORE_OK ? status
                                 : ld_store_end(s, sqlite3_exec(s->db, "DELETE FROM copy_of", NULL, NULL, NULL), why);
}

/* --- rewriting ---------------------------------------------------------------------------------------- */

int ld_store_rewrite_copy(struct ld_store *s, const struct ld_rewrite *lines, size_t n, const struct ld_row *rows,
                          size_t n_rows, const struct ld_copy_mark *mark, struct ld_message *why)
{
    const int status = ld_store_begin(s, true, why);
    int rc;

    if (status != LD_STORE_OK)
        return status;
    rc = ld_store_rewrite_all(s, lines, n);
    if (rc == SQLITE_OK)
        rc = ld_store_insert_all(s, rows, n_rows);
    return ld_store_end(s, rc == SQLITE_OK ? put_mark(s, mark) : rc, why);
}

int ld_store_begin_renewal(struct ld_store *s, struct ld_message *why)
{
    return ld_store_begin(s, true, why);
}

/* A line of the summary in force; a row of it that is there is replaced. */
static int renew_summary(struct ld_store *s, const struct ld_row *row)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        s->db,
        "INSERT OR REPLACE INTO summary (generation, seq, at, type, decision, user, arm, reward, text, answer)"
        " VALUES ((SELECT generation FROM log_start), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = ld_store_insert(stmt, row);
    (void)sqlite3_finalize(stmt);
    return rc;
}

static int renew_event(struct ld_store *s, const struct ld_row *row)
{
    char sql[64];

    (void)snprintf(sql, sizeof sql, "DELETE FROM events WHERE seq = %llu", (unsigned long long)row->seq);
    const int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ld_store_insert_all(s, row, 1) : rc;
}

int ld_store_renew(struct ld_store *s, const struct ld_row *row, struct ld_message *why)
{
    int64_t kept = 0;
    int status = ld_sql_int(s->db, "SELECT kept FROM log_start", &kept, why);

    if (status != LD_STORE_OK)
        return status;
    const int rc = row->seq < (uint64_t)kept ? renew_summary(s, row) : renew_event(s, row);
    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(s->db, rc, s->path, why);
}

/* A generation that no line has yet. */
int ld_store_renew_start(struct ld_store *s, uint64_t kept, const struct ld_book_row *books, size_t n,
                         struct ld_message *why)
{
    char sql[192];

    (void)snprintf(sql, sizeof sql,
                   "UPDATE log_start SET kept = %llu, generation = max(generation,"
                   " coalesce((SELECT max(generation) FROM summary), 0)) + 1",
                   (unsigned long long)kept);
    const int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ld_store_renew_books(s, books, n, why) : ld_sql_fail(s->db, rc, s->path, why);
}

int ld_store_renew_books(struct ld_store *s, const struct ld_book_row *books, size_t n, struct ld_message *why)
{
    const int rc = ld_store_insert_books(s, books, n);

    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(s->db, rc, s->path, why);
}

int ld_store_end_renewal(struct ld_store *s, const struct ld_copy_mark *mark, struct ld_message *why)
{
    return ld_store_end(s, mark != NULL ? put_mark(s, mark) : SQLITE_ABORT, why);
}
