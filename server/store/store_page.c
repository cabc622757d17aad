/* A tenant's file, pages of the log: forwards or newest first, of all types or of some.
 *
 * A page of some types is a merge of one sorted walk a type, each by the index on `type`: O(lines of the page), however
 * rare they are in a long log. Lines of a summary have two types alone, and few of them are redacted: that table is
 * walked in the order of its key.
 *
 * The statement depends on the types, so it is prepared each time: some 50 us. */
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

int ld_store_page(struct ld_store *s, const struct ld_page *page, int (*fn)(void *arg, const struct ld_row *row),
                  void *arg)
{
    char sql[MAX_SQL];
    sqlite3_stmt *stmt = NULL;
    int status;
    struct ld_conn *c = ld_store_borrow(s, &status);
    if (c == NULL)
        return status;
    write_sql(sql, page);
    status = ld_sql_prepare(c->db, sql, &stmt, NULL);
    if (status == LD_STORE_OK) {
        (void)sqlite3_bind_int64(stmt, 1, cut(page->after));
        (void)sqlite3_bind_int64(stmt, 2, page->before == 0 ? INT64_MAX : cut(page->before));
        (void)sqlite3_bind_int64(stmt, 3, cut(page->limit));
        status = ld_store_each_row(c, stmt, fn, arg);
    }
    (void)sqlite3_finalize(stmt);
    ld_store_give_back(s, c);
    return status;
}
