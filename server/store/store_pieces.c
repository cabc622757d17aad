/* A tenant's file, lines that are too long for one commit (schema/0003_pieces.sql): written a piece at a time before
 * the row that makes them a line, and read as one.
 *
 * Pieces have numbers from 1 on in the order in which they were written; the 0th is the row's own text, the beginning,
 * which is known last. Cost: a transaction for each when it is written; one copy of the whole when it is read. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_impl.h"

/* --- writing ----------------------------------------------------------------------------------------- */

int ld_store_insert_piece(struct ld_store *s, uint64_t line, uint64_t n, const char *text, size_t n_text)
{
    (void)sqlite3_bind_int64(s->insert_piece, 1, (sqlite3_int64)line);
    (void)sqlite3_bind_int64(s->insert_piece, 2, (sqlite3_int64)n);
    (void)sqlite3_bind_text64(s->insert_piece, 3, text, n_text, SQLITE_STATIC, SQLITE_UTF8);
    return ld_store_step(s->insert_piece);
}

int ld_store_put_piece(struct ld_store *s, const char *text, size_t n_text, uint64_t *line, struct ld_message *why)
{
    int64_t last = 0;
    int status = LD_STORE_OK;
    if (s->line == 0)
        status = ld_sql_int(s->db, "SELECT coalesce(max(line), 0) FROM pieces", &last, why);
    if (status == LD_STORE_OK)
        status = ld_store_begin(s, false, why);
    if (status != LD_STORE_OK)
        return status;
    if (s->line == 0)
        s->line = (uint64_t)last + 1;
    status = ld_store_end(s, ld_store_insert_piece(s, s->line, s->n_pieces + 1, text, n_text), why);
    s->n_pieces += status == LD_STORE_OK;
    *line = s->line;
    return status;
}

void ld_store_end_pieces(struct ld_store *s)
{
    s->line = s->n_pieces = 0;
}

/* --- reading ----------------------------------------------------------------------------------------- */

/* Behind what is there; *cap doubles, so that a long line costs as many calls as it has doublings. */
static bool append_piece(struct ld_conn *c, struct ld_row *row, size_t *cap, const char *piece, size_t n)
{
    while (*cap < row->n_text + n + 1) {
        char *more = realloc(c->text, *cap > 0 ? 2 * *cap : 4u << 20);
        if (more == NULL)
            return false;
        *cap = *cap > 0 ? 2 * *cap : 4u << 20;
        c->text = more;
    }
    memcpy(c->text + row->n_text, piece, n);
    row->n_text += n;
    c->text[row->n_text] = '\0';
    return true;
}

/* A line whose pieces are gone has an empty text, which is no line. */
int ld_store_whole_text(struct ld_conn *c, struct ld_row *row)
{
    int status = row->text != NULL ? LD_STORE_OK : LD_STORE_NOMEM, rc = SQLITE_ROW;
    size_t cap = 0;
    if (row->line == 0 || status != LD_STORE_OK)
        return status;
    sqlite3_stmt **stmt = &c->stmt[LD_QUERY_PIECES];
    if (*stmt == NULL && (status = ld_sql_prepare(c->db, "SELECT text FROM pieces WHERE line = ?1 ORDER BY n", stmt,
                                                  NULL)) != LD_STORE_OK)
        return status;
    free(c->text);
    c->text = NULL;
    row->n_text = 0;
    (void)sqlite3_bind_int64(*stmt, 1, (sqlite3_int64)row->line);
    while (status == LD_STORE_OK && (rc = sqlite3_step(*stmt)) == SQLITE_ROW) {
        const char *piece = (const char *)sqlite3_column_text(*stmt, 0);
        if (piece == NULL || !append_piece(c, row, &cap, piece, (size_t)sqlite3_column_bytes(*stmt, 0)))
            status = LD_STORE_NOMEM;
    }
    (void)sqlite3_reset(*stmt);
    row->text = c->text != NULL ? c->text : "";
    return status == LD_STORE_OK && rc != SQLITE_DONE ? ld_sql_status(rc) : status;
}
