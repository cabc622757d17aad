/* Which schema a file is to have: the rows of sqlite_schema that our own migrations make, and no other.
 *
 * They are not written down here: a database in memory is brought to the version in question, once in the life of the
 * process for each kind of file and version, and its rows are kept. A file is compared by one query, row by row in the
 * order of type and name; what SQLite makes by itself, the indexes of primary keys, is among the rows on both sides.
 * Where the tables' roots lie in the file differs from file to file and is quick_check's to judge.
 *
 * Cost: a millisecond for the first file of a version, tens of microseconds for each. */
#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/migrate.h"
#include "store/sqlite_util.h"
#include "store/store_status.h"

#define N_COLUMNS 4 /* type, name, tbl_name, sql */
#define MOST_ROWS 32

struct row {
    char *column[N_COLUMNS]; /* NULL is NULL */
};

/* Of one kind of file and version; kept until the process ends. */
struct schema {
    struct schema *next;
    const struct ld_db_format *format;
    int64_t version;
    size_t n;
    struct row row[MOST_ROWS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct schema *schemas; /* guarded by it; what it leads to does not change any more */

/* LIMIT keeps what is sorted short, however many rows a stranger has made. */
static int select_rows(struct sqlite3 *db, size_t n, sqlite3_stmt **stmt, struct ld_message *why)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name LIMIT %zu",
                   n);
    return ld_sql_prepare(db, sql, stmt, why);
}

/* --- ours ---------------------------------------------------------------------------------------------- */

static void schema_free(struct schema *s)
{
    for (size_t i = 0; s != NULL && i < s->n; i++)
        for (int k = 0; k < N_COLUMNS; k++)
            free(s->row[i].column[k]);
    free(s);
}

static int copy_row(struct schema *s, sqlite3_stmt *stmt)
{
    assert(s->n < MOST_ROWS);
    struct row *row = &s->row[s->n++];
    for (int k = 0; k < N_COLUMNS; k++) {
        const char *text = (const char *)sqlite3_column_text(stmt, k);
        row->column[k] = text != NULL ? strdup(text) : NULL;
        if (row->column[k] == NULL && sqlite3_column_type(stmt, k) != SQLITE_NULL)
            return LD_STORE_NOMEM;
    }
    return LD_STORE_OK;
}

static int copy_rows(struct schema *s, struct sqlite3 *db, struct ld_message *why)
{
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_DONE, status = select_rows(db, MOST_ROWS + 1, &stmt, why);
    while (status == LD_STORE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
        status = copy_row(s, stmt);
    if (status == LD_STORE_OK && rc != SQLITE_DONE)
        status = ld_sql_fail(db, rc, "no schema", why);
    (void)sqlite3_finalize(stmt);
    return status;
}

static int make_schema(struct schema **out, const struct ld_db_format *f, int64_t version, struct ld_message *why)
{
    struct sqlite3 *db = NULL;
    struct schema *s = calloc(1, sizeof *s);
    ld_fail(why, "out of memory");
    if (s == NULL)
        return LD_STORE_NOMEM;
    s->format = f;
    s->version = version;
    int status = ld_sql_connect(&db, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL, why);
    for (int i = 0; i < f->n_migrations && status == LD_STORE_OK; i++)
        if (f->migrations[i].version <= version)
            status = ld_sql_exec(db, f->migrations[i].sql, why);
    if (status == LD_STORE_OK)
        status = copy_rows(s, db, why);
    (void)sqlite3_close(db);
    if (status != LD_STORE_OK)
        schema_free(s);
    else
        *out = s;
    return status;
}

/* The schema of that version, made when it is first asked for. */
static int find_schema(const struct schema **out, const struct ld_db_format *f, int64_t version, struct ld_message *why)
{
    int status = LD_STORE_OK;
    struct schema *s;
    (void)pthread_mutex_lock(&lock);
    for (s = schemas; s != NULL && (s->format != f || s->version != version); s = s->next)
        ;
    if (s == NULL && (status = make_schema(&s, f, version, why)) == LD_STORE_OK) {
        s->next = schemas;
        schemas = s;
    }
    (void)pthread_mutex_unlock(&lock);
    *out = s;
    return status;
}

/* --- theirs -------------------------------------------------------------------------------------------- */

/* Byte by byte, and as texts: a number, or a text with a NUL in it, is not the text that it reads like. */
static bool is_same(sqlite3_stmt *stmt, int k, const char *ours)
{
    const int type = sqlite3_column_type(stmt, k);
    if (ours == NULL || type != SQLITE_TEXT)
        return ours == NULL && type == SQLITE_NULL;
    const char *theirs = (const char *)sqlite3_column_text(stmt, k);
    const size_t n = strlen(ours);
    return theirs != NULL && (size_t)sqlite3_column_bytes(stmt, k) == n && memcmp(theirs, ours, n) == 0;
}

/* A part of a stranger's text that can stand in a line of the log. */
static void quote(char *out, size_t cap, const char *text)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < cap; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ';
    out[i] = '\0';
}

/* What a row is, and its text from where it begins to differ. */
static void describe(char *out, size_t cap, const char *const column[N_COLUMNS], size_t from)
{
    char text[N_COLUMNS][40];
    for (int k = 0; k < 3; k++)
        quote(text[k], sizeof text[k], column[k] != NULL ? column[k] : "");
    quote(text[3], sizeof text[3], column[3] != NULL ? column[3] + from : "");
    (void)snprintf(out, cap, "%.24s \"%.24s\" on \"%.24s\" (%s)", text[0], text[1], text[2], text[3]);
}

/* In the order of the query, by type and name. Either may be NULL, which comes last. */
static int compare(const char *const *a, const char *const *b)
{
    if (a == NULL || b == NULL)
        return (a == NULL) - (b == NULL);
    int order = 0;
    for (int k = 0; k < 2 && order == 0; k++)
        order = strcmp(a[k] != NULL ? a[k] : "", b[k] != NULL ? b[k] : "");
    return order;
}

/* The first row that differs; NULL: there is none any more on that side. */
static int refuse(const char *const *theirs, const char *const *ours, int64_t version, struct ld_message *why)
{
    char found[160] = "", wanted[160] = "";
    size_t n = 0;
    const int order = compare(theirs, ours);
    if (order == 0 && theirs[3] != NULL && ours[3] != NULL)
        while (theirs[3][n] != '\0' && theirs[3][n] == ours[3][n])
            n++;
    if (order <= 0)
        describe(found, sizeof found, theirs, n);
    if (order >= 0)
        describe(wanted, sizeof wanted, ours, n);
    return ld_fail_as(LD_STORE_CORRUPT, why, "its schema is not that of version %lld: %s%s%s%s", (long long)version,
                      order <= 0 ? "found " : "", found,
                      order < 0    ? ", which is not expected"
                      : order == 0 ? ", expected "
                                   : "missing is ",
                      wanted);
}

/* The row that the statement stands at, or none; and ours. */
static int compare_row(sqlite3_stmt *stmt, bool has_row, const struct row *ours, int64_t version,
                       struct ld_message *why)
{
    const char *theirs[N_COLUMNS] = {NULL};
    bool is_ours = has_row == (ours != NULL);
    for (int k = 0; k < N_COLUMNS && is_ours && has_row; k++)
        is_ours = is_same(stmt, k, ours->column[k]);
    for (int k = 0; k < N_COLUMNS && !is_ours && has_row; k++)
        theirs[k] = (const char *)sqlite3_column_text(stmt, k);
    return is_ours
               ? LD_STORE_OK
               : refuse(has_row ? theirs : NULL, ours != NULL ? (const char *const *)ours->column : NULL, version, why);
}

int ld_db_check_schema(struct sqlite3 *db, const struct ld_db_format *format, int64_t version, struct ld_message *why)
{
    const struct schema *s = NULL;
    sqlite3_stmt *stmt = NULL;
    int rc = SQLITE_ROW, status = find_schema(&s, format, version, why);
    if (status == LD_STORE_OK)
        status = select_rows(db, s->n + 1, &stmt, why);
    for (size_t i = 0; status == LD_STORE_OK && rc == SQLITE_ROW && i <= s->n; i++) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW || rc == SQLITE_DONE)
            status = compare_row(stmt, rc == SQLITE_ROW, i < s->n ? &s->row[i] : NULL, version, why);
        else
            status = ld_sql_fail(db, rc, "its schema cannot be read", why);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}
