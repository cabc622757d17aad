/* A tenant's file, books: what is counted over the log beside the model (schema/0004_books.sql). A row each, replaced
 * as a whole. Writing is the writer's; reading happens when a tenant is opened. */
#include "store/store_impl.h"

#include <sqlite3.h>

int ld_store_insert_books(struct ld_store *s, const struct ld_book_row *rows, size_t n)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        s->db, "INSERT OR REPLACE INTO books (name, version, seq, body) VALUES (?1, ?2, ?3, ?4)", -1, &stmt, NULL);

    for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
        ld_sql_bind_text(stmt, 1, rows[i].name);
        (void)sqlite3_bind_int64(stmt, 2, rows[i].version);
        (void)sqlite3_bind_int64(stmt, 3, (sqlite3_int64)rows[i].seq);
        (void)sqlite3_bind_blob64(stmt, 4, rows[i].body, rows[i].n_body, SQLITE_STATIC);
        rc = ld_store_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

int ld_store_put_books(struct ld_store *s, const struct ld_book_row *rows, size_t n, struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);

    return status != LD_STORE_OK ? status : ld_store_end(s, ld_store_insert_books(s, rows, n), why);
}

/* Numbers that no row of ours has are told as zeros: the book is then begun anew. */
static struct ld_book_row row_of(sqlite3_stmt *stmt)
{
    const int64_t version = sqlite3_column_int64(stmt, 1), seq = sqlite3_column_int64(stmt, 2);
    struct ld_book_row row = {.name = (const char *)sqlite3_column_text(stmt, 0)};

    row.version = version > 0 && version <= UINT32_MAX ? (uint32_t)version : 0;
    row.seq = seq > 0 ? (uint64_t)seq : 0;
    row.body = (unsigned char *)(uintptr_t)sqlite3_column_blob(stmt, 3);
    row.n_body = (size_t)sqlite3_column_bytes(stmt, 3);
    return row;
}

int ld_store_each_book(struct ld_store *s, int (*fn)(void *arg, const struct ld_book_row *row), void *arg)
{
    return ld_store_one_book(s, NULL, fn, arg);
}

/* NULL: all of them. */
int ld_store_one_book(struct ld_store *s, const char *name, int (*fn)(void *arg, const struct ld_book_row *row),
                      void *arg)
{
    int status, rc = SQLITE_DONE;
    struct ld_conn *c = ld_store_borrow(s, &status);
    sqlite3_stmt *stmt = NULL;

    if (c == NULL)
        return status;
    status = ld_sql_prepare(
        c->db, "SELECT name, version, seq, body FROM books WHERE ?1 IS NULL OR name = ?1 ORDER BY name", &stmt, NULL);
    if (status == LD_STORE_OK)
        ld_sql_bind_text(stmt, 1, name);
    while (status == LD_STORE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ld_book_row row = row_of(stmt);

        if (row.name != NULL)
            status = fn(arg, &row);
    }
    if (status == LD_STORE_OK && rc != SQLITE_DONE)
        status = ld_sql_status(rc);
    (void)sqlite3_finalize(stmt);
    ld_store_give_back(s, c);
    return status;
}
