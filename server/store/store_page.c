/* A tenant's file, parts of the log: pages, forwards or newest first, of all types or of some; and a decision's lines.
 *
 * A page of some types is a merge of one sorted walk a type, each by the index on `type`: O(lines of the page), however
 * rare they are in a long log. Lines of a summary have two types alone, and few of them are redacted: that table is
 * walked in the order of its key.
 *
 * Statements are prepared each time: that of a page depends on its types. Some 50 us. */
#include "store/store_impl.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "spec/event.h"

#define COLUMNS "seq, at, type, decision, user, arm, reward, reset, text, answer"
#define RANGE " AND seq > ?1 AND seq < ?2"
#define OF_EVENTS "SELECT " COLUMNS ", line FROM events WHERE seq >= (SELECT kept FROM log_start)" RANGE
#define OF_SUMMARY                                                                                                     \
    "SELECT " COLUMNS ", CAST(NULL AS INTEGER) AS line FROM summary"                                                   \
    " WHERE generation = (SELECT generation FROM log_start)" RANGE
#define MAX_SQL 8192 /* some 250 a type */

#define BIT(type) (1u << (type))
#define IN_SUMMARY (BIT(KB_EV_SUMMARY) | BIT(KB_EV_REDACTED))
_Static_assert(KB_EV_SUMMARY == 11 && KB_EV_REDACTED == 12, "stored, hence never renumbered");

/* Types are small numbers of ours: they are printed into the text, and no word of a client is. */
static void add(char sql[MAX_SQL], const char *between, const char *select, unsigned type)
{
    const size_t n = strlen(sql);
    if (type == 0)
        (void)snprintf(sql + n, MAX_SQL - n, "%s%s", n > 0 ? between : "", select);
    else
        (void)snprintf(sql + n, MAX_SQL - n, "%s%s AND type = %u", n > 0 ? between : "", select, type);
}

static void write_sql(char sql[MAX_SQL], const struct ld_page *page)
{
    static const char all[] = " UNION ALL ";
    const size_t n_types = (size_t)kb_event_words.n;
    sql[0] = '\0';
    if (page->types == 0) {
        add(sql, all, OF_SUMMARY, 0);
        add(sql, all, OF_EVENTS, 0);
    }
    for (unsigned type = 1; type < n_types; type++) {
        if ((page->types & BIT(type)) == 0)
            continue;
        if ((IN_SUMMARY & BIT(type)) != 0)
            add(sql, all, OF_SUMMARY, type);
        add(sql, all, OF_EVENTS, type);
    }
    const size_t n = strlen(sql);
    (void)snprintf(sql + n, MAX_SQL - n, " ORDER BY seq %s LIMIT ?3", page->is_backwards ? "DESC" : "ASC");
}

static sqlite3_int64 cut(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (sqlite3_int64)n;
}

/* A statement on a connection of its own. On failure nothing is held. */
static int begin(struct ld_store *s, const char *sql, struct ld_conn **c, sqlite3_stmt **stmt)
{
    int status;
    *c = ld_store_borrow(s, &status);
    if (*c == NULL)
        return status;
    status = ld_sql_prepare((*c)->db, sql, stmt, NULL);
    if (status != LD_STORE_OK)
        ld_store_give_back(s, *c);
    return status;
}

static void end(struct ld_store *s, struct ld_conn *c, sqlite3_stmt *stmt)
{
    (void)sqlite3_finalize(stmt);
    ld_store_give_back(s, c);
}

int ld_store_page(struct ld_store *s, const struct ld_page *page, int (*fn)(void *arg, const struct ld_row *row),
                  void *arg)
{
    char sql[MAX_SQL];
    struct ld_conn *c;
    sqlite3_stmt *stmt = NULL;
    write_sql(sql, page);
    int status = begin(s, sql, &c, &stmt);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_int64(stmt, 1, cut(page->after));
    (void)sqlite3_bind_int64(stmt, 2, page->before == 0 ? INT64_MAX : cut(page->before));
    (void)sqlite3_bind_int64(stmt, 3, cut(page->limit));
    status = ld_store_each_row(c, stmt, fn, arg);
    end(s, c, stmt);
    return status;
}

/* --- a decision -------------------------------------------------------------------------------------- */

/* By the indexes on `decision`; ids of observations (6) are a namespace of their own. */
int ld_store_decision_lines(struct ld_store *s, const char *decision, int (*fn)(void *arg, const struct ld_row *row),
                            void *arg)
{
    struct ld_conn *c;
    sqlite3_stmt *stmt = NULL;
    int status = begin(s,
                       "SELECT " LD_ROW_COLUMNS " FROM " LD_LOG " WHERE decision = ?1 AND type <> 6"
                       " ORDER BY seq",
                       &c, &stmt);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(stmt, 1, decision, -1, SQLITE_STATIC);
    status = ld_store_each_row(c, stmt, fn, arg);
    end(s, c, stmt);
    return status;
}

/* The last configured event before it, or the beginning of the log's summary. */
int ld_store_version_at(struct ld_store *s, uint64_t seq, uint64_t *version)
{
    static const char sql[] = "SELECT json_extract(text, '$.version') FROM " LD_LOG " WHERE seq ="
                              " coalesce((SELECT max(seq) FROM events WHERE type = 1 AND seq < ?1"
                              "  AND seq >= (SELECT kept FROM log_start)),"
                              " (SELECT seq FROM " LD_LOG " ORDER BY seq LIMIT 1))";
    struct ld_conn *c;
    sqlite3_stmt *stmt = NULL;
    const int status = begin(s, sql, &c, &stmt);
    *version = 0;
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_int64(stmt, 1, cut(seq));
    const int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *version = (uint64_t)sqlite3_column_int64(stmt, 0);
    end(s, c, stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? LD_STORE_OK : ld_sql_status(rc);
}
