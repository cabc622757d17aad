/* A tenant's file, the reading side: counts by arm over a window of time. O(rows of the window log n), since each
 * reward looks up its decision. */
#include "store/store_impl.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Of the window: a slate counts one decision for each of its arms. A reward without an arm is that of slot 0.
 * Under `last` (?2) only the last reward of a slot counts; `rewarded` counts slots, so that corrections and sums do
 * not make two of one, observations, and slots for which a closed window taught the default. The rows of a window are
 * those behind the last one that is older: found by the index on `type`. */
#define SINCE "coalesce((SELECT seq FROM events WHERE at < ?1 ORDER BY seq DESC LIMIT 1), 0)"
/* clang-format off */
static const char aggregation[] = "SELECT json_extract(text, '$.configuration.aggregation') FROM " LD_LOG " WHERE seq = " LD_CONFIGURED_SEQ;
static const char decisions_since[] = "SELECT count(*) FROM events WHERE type = 4 AND seq > " SINCE;
static const char rows_since[] =
    "WITH since(seq) AS (SELECT " SINCE "),"
    " told AS (SELECT seq, decision, reward, arm AS named, " LD_SLOT_0("r.decision") " AS slot_0 FROM events r"
    "  WHERE type = 5 AND seq > (SELECT seq FROM since)),"
    " slots AS (SELECT coalesce(named, slot_0) AS arm, total(reward) AS reward FROM told"
    "  WHERE slot_0 IS NOT NULL AND (?2 = 0 OR NOT EXISTS (SELECT 1 FROM events n WHERE n.decision = told.decision"
    "   AND +n.type = 5 AND n.seq > told.seq AND coalesce(n.arm, slot_0) = coalesce(named, slot_0)))"
    "  GROUP BY 1, decision),"
    " closed AS (SELECT seq, decision, reward, " LD_SLOT_0("x.decision") " AS slot_0 FROM events x"
    "  WHERE type = 7 AND reward IS NOT NULL AND seq > (SELECT seq FROM since))"
    "SELECT arm, sum(decided), sum(rewarded), total(reward), total(reward * reward) FROM ("
    " SELECT arm, 1 AS decided, 0 AS rewarded, 0.0 AS reward FROM events"
    "  WHERE type = 4 AND seq > (SELECT seq FROM since) AND instr(text, '\"slate\":') = 0"
    " UNION ALL"
    " SELECT json_extract(j.value, '$.arm'), 1, 0, 0.0 FROM events e, json_each(e.text, '$.slate') j"
    "  WHERE e.type = 4 AND e.seq > (SELECT seq FROM since) AND instr(e.text, '\"slate\":') > 0"
    " UNION ALL"
    " SELECT arm, 0, 1, reward FROM slots"
    " UNION ALL"
    " SELECT arm, 0, 1, reward FROM events WHERE type = 6 AND seq > (SELECT seq FROM since)"
    " UNION ALL"
    " SELECT coalesce(json_extract(j.value, '$.arm'), slot_0) AS a, 0, 1, x.reward FROM closed x"
    "  LEFT JOIN events d ON d.decision = x.decision AND +d.type = 4,"
    "  json_each(coalesce(json_extract(d.text, '$.slate'), '[{}]')) j"
    "  WHERE slot_0 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events r WHERE r.decision = x.decision"
    "   AND +r.type = 5 AND r.seq < x.seq AND coalesce(r.arm, slot_0) = a)"
    ") GROUP BY arm ORDER BY arm";
/* clang-format on */

/* Rows of the window as they come; names in one block, by offset until it stops growing. */
struct window {
    struct ld_arm_stats *arms;
    size_t n, cap;
    char *names;
    size_t n_names, cap_names;
};

/* Room for one more arm whose name takes n bytes. On failure what is there stays valid. */
static int fit(struct window *w, size_t n)
{
    if (w->n == w->cap) {
        size_t cap = w->cap == 0 ? 32 : w->cap * 2;
        struct ld_arm_stats *arms = realloc(w->arms, cap * sizeof *arms);
        if (arms == NULL)
            return LD_STORE_NOMEM;
        w->arms = arms;
        w->cap = cap;
    }
    if (w->cap_names - w->n_names < n) {
        size_t cap = w->cap_names * 2 + n + 1024;
        char *names = realloc(w->names, cap);
        if (names == NULL)
            return LD_STORE_NOMEM;
        w->names = names;
        w->cap_names = cap;
    }
    return LD_STORE_OK;
}

/* A row of the result. Pointers to names are set when the block has stopped moving. Totals of the window grow with
 * it, but for the decisions, which are counted apart. */
static int add_arm(struct window *w, sqlite3_stmt *stmt, struct ld_window_stats *sum)
{
    const char *name = (const char *)sqlite3_column_text(stmt, 0);
    if (name == NULL)
        return LD_STORE_NOMEM;
    size_t n = strlen(name) + 1;
    if (fit(w, n) != LD_STORE_OK)
        return LD_STORE_NOMEM;
    struct ld_arm_stats *a = &w->arms[w->n++];
    *a = (struct ld_arm_stats){.decided = (uint64_t)sqlite3_column_int64(stmt, 1),
                               .rewarded = (uint64_t)sqlite3_column_int64(stmt, 2),
                               .reward_sum = sqlite3_column_double(stmt, 3),
                               .square_sum = sqlite3_column_double(stmt, 4)};
    memcpy(w->names + w->n_names, name, n);
    w->n_names += n;
    sum->rewarded += a->rewarded;
    sum->reward_sum += a->reward_sum;
    return LD_STORE_OK;
}

/* Arms and their names in one block, which is what the caller frees. The names stand behind the array, in its order.
 * NULL: no memory. */
static struct ld_arm_stats *joined(struct window *w)
{
    struct ld_arm_stats *arms = malloc(w->n * sizeof *arms + w->n_names + 1);
    if (arms == NULL)
        return NULL;
    char *names = (char *)(arms + w->n);
    if (w->n > 0) {
        memcpy(arms, w->arms, w->n * sizeof *arms);
        memcpy(names, w->names, w->n_names);
    }
    for (size_t i = 0; i < w->n; i++) {
        arms[i].arm = names;
        names += strlen(names) + 1;
    }
    return arms;
}

/* A slate is one decision here, whatever the number of its arms. By the index on type: O(rows in the window). */
static int count_decisions(struct ld_store *s, int64_t since_ms, uint64_t *n)
{
    struct ld_query_use q;
    int status = ld_query_begin(s, LD_QUERY_DECISIONS_SINCE, decisions_since, &q);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_int64(q.stmt, 1, since_ms);
    int rc = sqlite3_step(q.stmt);
    *n = (uint64_t)sqlite3_column_int64(q.stmt, 0);
    ld_query_end(s, &q);
    return ld_sql_status(rc);
}

/* Whether rewards of a slot replace each other in the configuration in force. The log is asked, since the store knows
 * no engine. */
static int is_aggregating_last(struct ld_store *s, bool *is_last)
{
    struct ld_query_use q;
    int status = ld_query_begin(s, LD_QUERY_AGGREGATION, aggregation, &q);
    if (status != LD_STORE_OK)
        return status;
    int rc = sqlite3_step(q.stmt);
    const char *name = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q.stmt, 0) : NULL;
    *is_last = name != NULL && strcmp(name, kb_word(&kb_aggregation_words, KB_AGG_LAST)) == 0;
    ld_query_end(s, &q);
    return ld_sql_status(rc);
}

/* Three questions in three read transactions; a commit in between may show in the later ones, which statistics
 * can bear. */
int ld_store_window(struct ld_store *s, int64_t since_ms, struct ld_window_stats *out, struct ld_arm_stats **arms)
{
    struct window w = {.n = 0};
    struct ld_query_use q;
    bool is_last = false;
    *out = (struct ld_window_stats){.seconds = 0};
    int rc, status = is_aggregating_last(s, &is_last);
    if (status == LD_STORE_OK)
        status = count_decisions(s, since_ms, &out->decided);
    if (status == LD_STORE_OK)
        status = ld_query_begin(s, LD_QUERY_WINDOW, rows_since, &q);
    if (status != LD_STORE_OK)
        return status;
    (void)sqlite3_bind_int64(q.stmt, 1, since_ms);
    (void)sqlite3_bind_int(q.stmt, 2, is_last);
    while (status == LD_STORE_OK && (rc = sqlite3_step(q.stmt)) == SQLITE_ROW)
        status = add_arm(&w, q.stmt, out);
    ld_query_end(s, &q);
    if (status == LD_STORE_OK)
        status = ld_sql_status(rc);
    *arms = status == LD_STORE_OK ? joined(&w) : NULL;
    if (status == LD_STORE_OK && *arms == NULL)
        status = LD_STORE_NOMEM;
    out->arms = *arms;
    out->n_arms = w.n;
    free(w.arms);
    free(w.names);
    return status;
}
