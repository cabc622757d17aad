/* See store_evaluations.h. A row each; writing is a transaction of its own. */
#include "store/store_evaluations.h"

#include <sqlite3.h>

#include "store/store_impl.h"

/* The statement, whose parameters are bound by `bind`, run to its end. */
static int change(struct ld_store *s, const char *sql, void (*bind)(sqlite3_stmt *stmt, const void *arg),
                  const void *arg)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        bind(stmt, arg);
        rc = ld_store_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

static void bind_new(sqlite3_stmt *stmt, const void *arg)
{
    const struct ld_evaluation_row *row = arg;

    ld_sql_bind_text(stmt, 1, row->id);
    (void)sqlite3_bind_int64(stmt, 2, row->begun_ms);
    ld_sql_bind_text(stmt, 3, row->by);
    ld_sql_bind_text(stmt, 4, row->request);
}

static void bind_keep(sqlite3_stmt *stmt, const void *arg)
{
    (void)sqlite3_bind_int64(stmt, 1, (sqlite3_int64) * (const size_t *)arg);
}

static void bind_end(sqlite3_stmt *stmt, const void *arg)
{
    const struct ld_evaluation_row *row = arg;

    ld_sql_bind_text(stmt, 1, row->id);
    (void)sqlite3_bind_int64(stmt, 2, row->ended_ms);
    ld_sql_bind_text(stmt, 3, row->state);
    ld_sql_bind_text(stmt, 4, row->outcome);
}

static void bind_id(sqlite3_stmt *stmt, const void *id)
{
    ld_sql_bind_text(stmt, 1, id);
}

int ld_store_begin_evaluation(struct ld_store *s, const struct ld_evaluation_row *row, size_t keep,
                              struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);

    if (status != LD_STORE_OK)
        return status;
    int rc = change(s,
                    "DELETE FROM evaluations WHERE number NOT IN"
                    " (SELECT number FROM evaluations ORDER BY number DESC LIMIT ?1)",
                    bind_keep, &keep);
    if (rc == SQLITE_OK)
        rc = change(s,
                    "INSERT INTO evaluations (id, number, begun_ms, by, request)"
                    " VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM evaluations), ?2, ?3, ?4)",
                    bind_new, row);
    return ld_store_end(s, rc, why);
}

int ld_store_end_evaluation(struct ld_store *s, const struct ld_evaluation_row *row, struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);

    if (status != LD_STORE_OK)
        return status;
    return ld_store_end(
        s, change(s, "UPDATE evaluations SET ended_ms = ?2, state = ?3, outcome = ?4 WHERE id = ?1", bind_end, row),
        why);
}

int ld_store_forget_evaluation(struct ld_store *s, const char *id, struct ld_message *why)
{
    const int status = ld_store_begin(s, false, why);

    if (status != LD_STORE_OK)
        return status;
    return ld_store_end(s, change(s, "DELETE FROM evaluations WHERE id = ?1", bind_id, id), why);
}

static struct ld_evaluation_row row_of(sqlite3_stmt *stmt)
{
    return (struct ld_evaluation_row){.id = (const char *)sqlite3_column_text(stmt, 0),
                                      .by = (const char *)sqlite3_column_text(stmt, 1),
                                      .begun_ms = sqlite3_column_int64(stmt, 2),
                                      .ended_ms = sqlite3_column_int64(stmt, 3),
                                      .state = (const char *)sqlite3_column_text(stmt, 4),
                                      .request = (const char *)sqlite3_column_text(stmt, 5),
                                      .outcome = (const char *)sqlite3_column_text(stmt, 6),
                                      .n_outcome = (size_t)sqlite3_column_bytes(stmt, 6)};
}

int ld_store_each_evaluation(struct ld_store *s, const char *id,
                             int (*fn)(void *arg, const struct ld_evaluation_row *row), void *arg)
{
    int status, rc = SQLITE_DONE;
    struct ld_conn *c = ld_store_borrow(s, &status);
    sqlite3_stmt *stmt = NULL;

    if (c == NULL)
        return status;
    status = ld_sql_prepare(c->db,
                            "SELECT id, by, begun_ms, ended_ms, state, request, iif(?1 IS NULL, NULL, outcome)"
                            " FROM evaluations WHERE ?1 IS NULL OR id = ?1 ORDER BY number DESC",
                            &stmt, NULL);
    if (status == LD_STORE_OK)
        ld_sql_bind_text(stmt, 1, id);
    while (status == LD_STORE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ld_evaluation_row row = row_of(stmt);

        if (row.id != NULL && row.request != NULL)
            status = fn(arg, &row);
    }
    if (status == LD_STORE_OK && rc != SQLITE_DONE)
        status = ld_sql_status(rc);
    (void)sqlite3_finalize(stmt);
    ld_store_give_back(s, c);
    return status;
}

static int note(void *arg, const struct ld_evaluation_row *row)
{
    (void)row;
    *(bool *)arg = true;
    return 0;
}

int ld_store_has_evaluation(struct ld_store *s, const char *id, bool *has)
{
    *has = false;
    return ld_store_each_evaluation(s, id, note, has);
}
