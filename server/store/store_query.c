/* A tenant's file, the reading side: the log in order, and what it says of a decision.
 *
 * Every call borrows a connection of its own, so that a long export stands in nobody's way; in WAL mode readers
 * see the last commit at their start and do not wait for the writer. Statements are prepared once a connection.
 *
 * Costs: reading in order about 1 us a row; a decision, the tip and the last configuration O(log n) by partial
 * indexes.
 *
 * Failure: LD_STORE_* as SQLite's code says; a file that a query finds damaged is told as such and left alone. A
 * callback runs inside the read transaction: it holds up no one, but pages that it may still see cannot be
 * checkpointed away. */
#include "store/store_impl.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "spec/event.h"

#define COLUMNS LD_ROW_COLUMNS

/* Where a decision is told, +type keeps SQLite from the index on types, which it takes for as good.
 * Types are written as numbers because partial indexes are chosen by literals: 1 configured, 4 decided, 5
 * rewarded, 6 observed, 7 expired, 8 activated, 11 summary, 14 measured (event.h; stored, hence never renumbered). */
_Static_assert(KB_EV_CONFIGURED == 1 && KB_EV_DECIDED == 4 && KB_EV_REWARDED == 5 && KB_EV_OBSERVED == 6 &&
                   KB_EV_MEASURED == 14,
               "see the statements below");

static const char *const statements[LD_N_QUERIES] = {
    [LD_QUERY_READ] = "SELECT " COLUMNS " FROM " LD_LOG " WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    [LD_QUERY_TIP] = LD_LAST_SEQ
    ","
    " coalesce((SELECT max(seq) FROM events WHERE reset = 1 AND seq >= (SELECT kept FROM log_start)), 0)",
    [LD_QUERY_LAST_AT] = "SELECT at FROM " LD_LOG " ORDER BY seq DESC LIMIT 1",
    [LD_QUERY_CONFIGURED] = "SELECT " COLUMNS " FROM " LD_LOG " WHERE seq = " LD_CONFIGURED_SEQ,
    [LD_QUERY_DECISION] = "SELECT type, arm, reward, answer, user FROM " LD_LOG " WHERE decision = ?1 ORDER BY seq",
    [LD_QUERY_SLOT] = "SELECT coalesce(json_extract(l.text, '$.slate[' || j.key || '].arm'),"
                      " json_extract(j.value, '$.arm'), l.arm) FROM " LD_LOG " l, json_each(l.text, '$.slots') j"
                      " WHERE l.decision = ?1 AND (+l.type = 4 OR +l.type = 11) AND json_extract(j.value, '$.id') = ?2",
    [LD_QUERY_OBSERVATION] = "SELECT user = ?2 AND arm = ?3 AND reward = ?4 FROM events"
                             " WHERE decision = ?1 AND +type = 6 AND seq >= (SELECT kept FROM log_start)",
    [LD_QUERY_REWARDS] = "SELECT decision, arm, coalesce(json_extract(text, '$.value'), reward),"
                         " json_extract(text, '$.metric'), seq FROM events INDEXED BY events_reward_id"
                         " WHERE user = ?1 AND type = 5 AND seq >= (SELECT kept FROM log_start)"
                         " UNION ALL SELECT decision, arm, reward, json_extract(text, '$.metric'), seq"
                         " FROM events INDEXED BY events_measured_id"
                         " WHERE user = ?1 AND type = 14 AND seq >= (SELECT kept FROM log_start) ORDER BY seq",
    [LD_QUERY_METRIC] = "SELECT json_extract(s.text, '$.slots[' || json_extract(v.value, '$.slot') || '].arm'),"
                        " json_extract(v.value, '$.value'), NULL, s.seq FROM summary s, json_each(s.text, '$.values') v"
                        " WHERE s.decision = ?1 AND s.generation = (SELECT generation FROM log_start)"
                        " AND json_extract(v.value, '$.metric') = ?2"
                        " UNION ALL SELECT arm, coalesce(json_extract(text, '$.value'), reward),"
                        " json_extract(text, '$.late'), seq FROM events"
                        " WHERE decision = ?1 AND (+type = 14 OR +type = 5)"
                        " AND json_extract(text, '$.metric') = ?2 AND seq >= (SELECT kept FROM log_start) ORDER BY seq",
};

/* --- borrowed statements -------------------------------------------------------------------------------- */

int ld_query_begin(struct ld_store *s, enum ld_query which, const char *sql, struct ld_query_use *q)
{
    int status;
    q->stmt = NULL;
    q->conn = ld_store_borrow(s, &status);
    if (q->conn == NULL)
        return status;
    sqlite3_stmt **cached = &q->conn->stmt[which];
    status = *cached != NULL ? LD_STORE_OK : ld_sql_prepare(q->conn->db, sql, cached, NULL);
    if (status != LD_STORE_OK) {
        ld_store_give_back(s, q->conn);
        return status;
    }
    q->stmt = *cached;
    return LD_STORE_OK;
}

/* Resetting ends the read transaction, so that checkpoints can move past it. A reset cannot fail in a way that
 * matters: the step has told. */
void ld_query_end(struct ld_store *s, struct ld_query_use *q)
{
    (void)sqlite3_reset(q->stmt);
    (void)sqlite3_clear_bindings(q->stmt);
    ld_store_give_back(s, q->conn);
}

static int begin(struct ld_store *s, enum ld_query which, struct ld_query_use *q)
{
    return ld_query_begin(s, which, statements[which], q);
}

/* Borrowed from the row; NULL for a NULL, or when SQLite has no memory to convert. */
static const char *text_of(sqlite3_stmt *stmt, int column)
{
    return (const char *)sqlite3_column_text(stmt, column);
}

/* --- the log ----------------------------------------------------------------------------------------- */

/* Valid until the next step. n_text is asked after the text, as SQLite wants it, so that both are of one encoding. */
static struct ld_row row_of(sqlite3_stmt *stmt)
{
    struct ld_row row = {.seq = (uint64_t)sqlite3_column_int64(stmt, 0),
                         .at_ms = sqlite3_column_int64(stmt, 1),
                         .type = sqlite3_column_int(stmt, 2),
                         .decision = text_of(stmt, 3),
                         .user = text_of(stmt, 4),
                         .arm = text_of(stmt, 5),
                         .reward = (double)NAN,
                         .is_reset = sqlite3_column_int(stmt, 7) != 0,
                         .text = text_of(stmt, 8),
                         .answer = text_of(stmt, 9),
                         .line = (uint64_t)sqlite3_column_int64(stmt, 10)};
    row.n_text = (size_t)sqlite3_column_bytes(stmt, 8);
    if (sqlite3_column_type(stmt, 6) != SQLITE_NULL)
        row.reward = sqlite3_column_double(stmt, 6);
    return row;
}

/* `text` is NOT NULL in the schema, so its absence is memory. */
int ld_store_each_row(struct ld_conn *c, sqlite3_stmt *stmt, int (*fn)(void *arg, const struct ld_row *row), void *arg)
{
    int rc, answer = 0;
    while (answer == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct ld_row row = row_of(stmt);
        const int status = ld_store_whole_text(c, &row);
        if (status != LD_STORE_OK)
            return status;
        answer = fn(arg, &row);
    }
    return answer != 0 ? answer : ld_sql_status(rc);
}

/* One read transaction from first row to last: what is appended meanwhile is not seen. Memory of one row. Numbers
 * beyond what SQLite counts are cut to its largest. */
int ld_store_read(struct ld_store *s, uint64_t after, size_t limit, int (*fn)(void *arg, const struct ld_row *row),
                  void *arg)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_READ, &q);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_int64(q.stmt, 1, after > INT64_MAX ? INT64_MAX : (sqlite3_int64)after);
    (void)sqlite3_bind_int64(q.stmt, 2, limit > INT64_MAX ? INT64_MAX : (sqlite3_int64)limit);
    status = ld_store_each_row(q.conn, q.stmt, fn, arg);
    ld_query_end(s, &q);
    return status;
}

/* By the index of such rows: O(log n), however long the log. */
int ld_store_last_configured(struct ld_store *s, int (*fn)(void *arg, const struct ld_row *row), void *arg)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_CONFIGURED, &q);
    if (status != LD_STORE_OK)
        return status;
    status = ld_store_each_row(q.conn, q.stmt, fn, arg);
    ld_query_end(s, &q);
    return status;
}

/* Both by an index's last entry: O(log n). One row always comes, also from an empty log. */
int ld_store_tip(struct ld_store *s, uint64_t *last, uint64_t *last_reset)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_TIP, &q);
    if (status != LD_STORE_OK)
        return status;
    int rc = sqlite3_step(q.stmt);
    if (rc == SQLITE_ROW) {
        *last = (uint64_t)sqlite3_column_int64(q.stmt, 0);
        *last_reset = (uint64_t)sqlite3_column_int64(q.stmt, 1);
    }
    ld_query_end(s, &q);
    return rc == SQLITE_ROW ? LD_STORE_OK : ld_sql_status(rc);
}

int ld_store_last_at(struct ld_store *s, int64_t *at_ms)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_LAST_AT, &q);
    if (status != LD_STORE_OK)
        return status;
    int rc = sqlite3_step(q.stmt);
    *at_ms = rc == SQLITE_ROW ? sqlite3_column_int64(q.stmt, 0) : -1;
    ld_query_end(s, &q);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? LD_STORE_OK : ld_sql_status(rc);
}

/* --- a decision -------------------------------------------------------------------------------------- */

/* NULL stays NULL. Without memory it is NULL as well; ld_store_decision finds that out by the arm. */
static char *copy_of(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

/* Whether a reward's arm names the slot wanted; NULL is slot 0, whichever of the two it is. */
static bool is_of_slot(const struct ld_decision_record *r, const char *arm, const char *wanted)
{
    return r->arm != NULL && strcmp(arm != NULL ? arm : r->arm, wanted != NULL ? wanted : r->arm) == 0;
}

static void note_reward(struct ld_decision_record *r, sqlite3_stmt *stmt, const char *arm, const char *wanted)
{
    r->n_rewards++;
    if (is_of_slot(r, arm, wanted)) {
        r->has_reward = true;
        r->reward = sqlite3_column_double(stmt, 2);
    }
}

/* One row of the decision's story, in order of the log. Rows come in the order of the log, so the last reward that
 * fits is the one that stays. */
static void note_row(struct ld_decision_record *r, sqlite3_stmt *stmt, const char *wanted)
{
    const char *arm = text_of(stmt, 1);
    int type = sqlite3_column_int(stmt, 0);
    if (type == KB_EV_DECIDED || type == KB_EV_SUMMARY) {
        r->is_decided = true;
        r->arm = copy_of(arm);
        r->answer = copy_of(text_of(stmt, 3));
        r->user = copy_of(text_of(stmt, 4));
        /* one that was open when the log was compacted has its reward so far in the same row */
        if (sqlite3_column_type(stmt, 2) != SQLITE_NULL)
            note_reward(r, stmt, NULL, wanted);
    } else if (type == KB_EV_EXPIRED) {
        r->is_expired = true;
    } else if (type == KB_EV_ACTIVATED) {
        r->is_activated = true;
    } else if (type == KB_EV_REWARDED) {
        note_reward(r, stmt, arm, wanted);
    } else if (type == KB_EV_LATE && is_of_slot(r, arm, wanted)) {
        r->has_late = true;
        r->late = sqlite3_column_double(stmt, 2);
    }
}

/* By the index on decision: its few rows, in order of the log. On failure *out holds nothing. O(log n + its rows). */
int ld_store_decision(struct ld_store *s, const char *decision, const char *arm_wanted, struct ld_decision_record *out)
{
    struct ld_query_use q;
    int rc, status = begin(s, LD_QUERY_DECISION, &q);
    *out = (struct ld_decision_record){.is_decided = false};
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(q.stmt, 1, decision, -1, SQLITE_STATIC);
    while ((rc = sqlite3_step(q.stmt)) == SQLITE_ROW)
        note_row(out, q.stmt, arm_wanted);
    ld_query_end(s, &q);
    status = ld_sql_status(rc);
    if (status == LD_STORE_OK && out->is_decided && (out->arm == NULL || out->user == NULL))
        status = LD_STORE_NOMEM;
    if (status != LD_STORE_OK)
        ld_decision_record_close(out);
    return status;
}

/* Closing twice is fine. */
void ld_decision_record_close(struct ld_decision_record *r)
{
    free(r->answer);
    free(r->arm);
    free(r->user);
    *r = (struct ld_decision_record){.is_decided = false};
}

int ld_store_slot_arm(struct ld_store *s, const char *decision, const char *slot, char **arm)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_SLOT, &q);
    *arm = NULL;
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(q.stmt, 1, decision, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(q.stmt, 2, slot, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(q.stmt);
    if (rc == SQLITE_ROW)
        *arm = copy_of(text_of(q.stmt, 0));
    ld_query_end(s, &q);
    return rc != SQLITE_ROW ? ld_sql_status(rc) : *arm != NULL ? LD_STORE_OK : LD_STORE_NOMEM;
}

/* --- an observation ---------------------------------------------------------------------------------- */

/* By the same index, which holds decisions and observations; 0 and -0 are one reward. O(log n). */
int ld_store_observation(struct ld_store *s, const struct kb_event *ev, bool *is_known, bool *is_same)
{
    struct ld_query_use q;
    int status = begin(s, LD_QUERY_OBSERVATION, &q);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(q.stmt, 1, ev->as.observed.id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(q.stmt, 2, ev->as.observed.user, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(q.stmt, 3, ev->as.observed.arm.arm, -1, SQLITE_STATIC);
    (void)sqlite3_bind_double(q.stmt, 4, ev->as.observed.reward);
    const int rc = sqlite3_step(q.stmt);
    *is_known = rc == SQLITE_ROW;
    *is_same = *is_known && sqlite3_column_int(q.stmt, 0) != 0;
    ld_query_end(s, &q);
    return *is_known ? LD_STORE_OK : ld_sql_status(rc);
}

/* --- rewards under an id ------------------------------------------------------------------------------- */

/* By the index of such rows, whose `user` is the id. O(log n + them). */
int ld_store_rewards(struct ld_store *s, const char *id, int (*fn)(void *arg, const struct ld_told_reward *told),
                     void *arg)
{
    struct ld_query_use q;
    int rc = SQLITE_DONE, answer = 0, status = begin(s, LD_QUERY_REWARDS, &q);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(q.stmt, 1, id, -1, SQLITE_STATIC);
    while (answer == 0 && (rc = sqlite3_step(q.stmt)) == SQLITE_ROW)
        answer = fn(arg, &(struct ld_told_reward){text_of(q.stmt, 0), text_of(q.stmt, 1), text_of(q.stmt, 3),
                                                  sqlite3_column_double(q.stmt, 2)});
    ld_query_end(s, &q);
    return answer != 0 ? answer : ld_sql_status(rc);
}

/* A row of another slot says nothing. */
static void note_metric(struct ld_metric_record *r, sqlite3_stmt *stmt, const char *wanted, const char *slot_0)
{
    const char *arm = text_of(stmt, 0);
    const double value = sqlite3_column_double(stmt, 1);
    if (strcmp(arm != NULL ? arm : slot_0, wanted) != 0)
        return;
    if (sqlite3_column_type(stmt, 2) != SQLITE_NULL) {
        r->has_late = true;
        r->late = value;
    } else {
        r->has_value = true;
        r->value = value;
    }
}

/* By the index on decisions, as ld_store_decision. What a decision had when it was open at a compaction stands in the
 * summary's line of it. */
int ld_store_metric(struct ld_store *s, const struct ld_told_reward *of, const char *slot_0,
                    struct ld_metric_record *out)
{
    struct ld_query_use q;
    int rc, status = begin(s, LD_QUERY_METRIC, &q);
    *out = (struct ld_metric_record){.has_value = false};
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_text(q.stmt, 1, of->decision, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(q.stmt, 2, of->metric, -1, SQLITE_STATIC);
    while ((rc = sqlite3_step(q.stmt)) == SQLITE_ROW)
        note_metric(out, q.stmt, of->arm != NULL ? of->arm : slot_0, slot_0);
    ld_query_end(s, &q);
    return ld_sql_status(rc);
}
