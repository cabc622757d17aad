/* A tenant's file as a copy of a shared log (schema/0009_copies.sql): where the copy stands is written with the lines.
 *
 * The lines are durable in the shared log before they come here, so a commit here waits for no disk:
 * synchronous=NORMAL. A power cut may take the last transactions, each as a whole and in order; the copy then stands
 * further back, and says so. The writes of a commit are not gathered as elsewhere (store_wal.h): they are to be there
 * when it is over, and no sync says when that is. */
#include "store/store_impl.h"

#include <sqlite3.h>
#include <string.h>

static int read_mark(sqlite3 *db, struct ld_copy_mark *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, status = ld_sql_prepare(db, "SELECT tenant, seq, hash FROM copy_of", &stmt, NULL);

    *out = (struct ld_copy_mark){.tenant = 0};
    if (status == LD_STORE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 2) == LD_COPY_HASH_BYTES) {
        out->tenant = (uint64_t)sqlite3_column_int64(stmt, 0);
        out->seq = (uint64_t)sqlite3_column_int64(stmt, 1);
        memcpy(out->hash, sqlite3_column_blob(stmt, 2), LD_COPY_HASH_BYTES);
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
    status = read_mark(c->db, out);
    ld_store_give_back(s, c);
    return status;
}

/* A file of an older schema has no table of copies, and is none. */
int ld_store_look_at_copy(const char *path, struct ld_copy_mark *out, bool *is_empty, struct ld_message *why)
{
    sqlite3 *db = NULL;
    int64_t n_tables = 0, has_lines = 0;
    int status = ld_db_connect_readonly(&db, path, why);

    *out = (struct ld_copy_mark){.tenant = 0};
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "SELECT count(*) FROM sqlite_master WHERE name = 'copy_of'", &n_tables, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(db, "SELECT EXISTS (SELECT 1 FROM events)", &has_lines, why);
    if (status == LD_STORE_OK && n_tables > 0)
        status = read_mark(db, out);
    *is_empty = has_lines == 0;
    (void)sqlite3_close(db);
    return status;
}

/* SQLite's code. */
static int put_mark(struct ld_store *s, const struct ld_copy_mark *mark)
{
    static const char sql[] = "INSERT OR REPLACE INTO copy_of (only, tenant, seq, hash) VALUES (1, ?1, ?2, ?3)";

    if (s->put_mark == NULL && ld_sql_prepare(s->db, sql, &s->put_mark, NULL) != LD_STORE_OK)
        return SQLITE_NOMEM;
    (void)sqlite3_bind_int64(s->put_mark, 1, (sqlite3_int64)mark->tenant);
    (void)sqlite3_bind_int64(s->put_mark, 2, (sqlite3_int64)mark->seq);
    (void)sqlite3_bind_blob(s->put_mark, 3, mark->hash, LD_COPY_HASH_BYTES, SQLITE_STATIC);
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
