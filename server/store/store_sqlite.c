/* A tenant's file, the writing side: open, append, checkpoint, and the pool of reading connections. Reading is in
 * store_query.c; what the rows are, in schema/0001_tenant.sql.
 *
 * One row is one event. All rows of a batch go in one transaction, which is on the disk when ld_store_append
 * returns: one fdatasync of the WAL, whatever the number of rows (8 us of CPU for a row alone, 1.5 in hundreds).
 * On failure the transaction is rolled back, and what it has left in the WAL written over (ld_sql_undo).
 *
 * Nothing checkpoints by itself: that is a burst of writes in the middle of a commit. The tenant asks for it.
 *
 * Threads: append and probe are the writer's; everything else may be called beside it. The lock guards the pool of
 * connections alone and is never held while SQLite works. */
#include "store/migrate.h"
#include "store/store_impl.h"
#include "store/store_wal.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/embed.h"
#include "base/failpoint.h"

#define TENANT_APPLICATION_ID 0x6c706c64u /* "lpld" */
/* Connections kept for the next reader; each costs two descriptors and some cache. */
#define MAX_IDLE 4

/* By version, ascending; a new schema is a new file in schema/ and a row here. */
static const struct ld_migration migrations[] = {
    {1, ld_embed_0001_tenant_sql},       {2, ld_embed_0002_summary_sql},     {3, ld_embed_0003_pieces_sql},
    {4, ld_embed_0004_books_sql},        {5, ld_embed_0005_reward_ids_sql},  {6, ld_embed_0006_types_sql},
    {7, ld_embed_0007_metrics_sql},      {8, ld_embed_0008_evaluations_sql}, {9, ld_embed_0009_copies_sql},
    {10, ld_embed_0010_generations_sql},
};

/* The log has no gaps and one start. It begins with event 1, with the summary that log_start tells of, or (brought from
 * elsewhere) with the lines of one among the events. */
static const char contents_sql[] =
    "SELECT (SELECT count(*) = coalesce(max(seq) + 1 - iif(kept = 1"
    "    AND (SELECT type FROM events ORDER BY seq LIMIT 1) = 11, min(seq), kept), 0)"
    "   FROM events WHERE seq >= kept)"
    " AND (SELECT count(*) = coalesce(max(seq) + 1 - min(seq), 0) AND coalesce(max(seq), 0) = kept - 1"
    "   FROM summary s WHERE s.generation = l.generation)"
    " AND (SELECT count(*) FROM log_start) = 1 FROM log_start l";

static const struct ld_db_format format = {
    .migrations = migrations,
    .n_migrations = sizeof migrations / sizeof *migrations,
    .application_id = TENANT_APPLICATION_ID,
    .contents = contents_sql,
    .contents_before = "SELECT count(*) = coalesce(max(seq), 0) FROM events",
    .contents_since = 2,
    .contents_broken = "the log has gaps",
    .view = "log",
};

/* --- life -------------------------------------------------------------------------------------------- */

/* 0 when there is no such file. */
static int64_t size_of(const char *path, const char *suffix)
{
    char name[4096];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", path, suffix);
    return n > 0 && (size_t)n < sizeof name && stat(name, &st) == 0 ? st.st_size : 0;
}

/* Called by SQLite after each commit with the WAL's length. In the committing thread. */
static int note_wal(void *store, struct sqlite3 *db, const char *name, int pages)
{
    struct ld_store *s = store;
    (void)db;
    (void)name;
    atomic_store(&s->wal_pages, pages);
    return SQLITE_OK;
}

/* Parameters are bound by number: ld_store_insert has those of every line, ?10 and ?11 are the events' own. A line in
 * pieces has its text there. */
static const char insert_sql[] =
    "INSERT INTO events (seq, at, type, decision, user, arm, reward, reset, text, answer, line)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?10, iif(?11 IS NULL, ?8, ''), ?9, ?11)";

/* As many lines in one statement, none of them in pieces. OR FAIL: what fails takes the whole transaction back, so
 * SQLite need not be ready to take back the statement alone. */
#define SOME_ROWS 8
#define ROW "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
static const char some_sql[] =
    "INSERT OR FAIL INTO events (seq, at, type, decision, user, arm, reward, text, answer, reset)"
    " VALUES " ROW "," ROW "," ROW "," ROW "," ROW "," ROW "," ROW "," ROW;

static const char piece_sql[] = "INSERT INTO pieces (line, n, text) VALUES (?1, ?2, ?3)";

/* Closed, so far. NULL: no memory. */
static struct ld_store *store_new(const char *path, struct ld_message *why)
{
    struct ld_store *s = calloc(1, sizeof *s);
    if (s == NULL || (s->path = strdup(path)) == NULL) {
        free(s);
        ld_fail(why, "%s: out of memory", path);
        return NULL;
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

/* The first connection has looked at the file; it is kept open, so that nothing of it is undone meanwhile. */
int ld_store_open_readonly(struct ld_store **out, const char *path, struct ld_message *why)
{
    struct ld_store *s = store_new(path, why);
    if (s == NULL)
        return LD_STORE_NOMEM;
    s->is_readonly = true;
    int status = ld_db_open_readonly(&s->db, path, &format, why);
    if (status == LD_STORE_OK)
        *out = s;
    else
        ld_store_close(s);
    return status;
}

/* Statements are prepared here, so that a table that is missing shows at the start and not at the first reward. On
 * failure nothing is left open and *out is not set. */
int ld_store_open_with(struct ld_store **out, const char *path, const struct ld_store_care *care,
                       struct ld_message *why)
{
    bool was_created;
    struct ld_store *s = store_new(path, why);
    if (s == NULL)
        return LD_STORE_NOMEM;
    int status = ld_db_open(&s->db, path, &format, care, &was_created, why);
    if (status == LD_STORE_OK)
        status = ld_sql_prepare(s->db, "BEGIN IMMEDIATE", &s->begin, why);
    if (status == LD_STORE_OK)
        status = ld_sql_prepare(s->db, "COMMIT", &s->commit, why);
    if (status == LD_STORE_OK)
        status = ld_sql_prepare(s->db, insert_sql, &s->insert, why);
    if (status == LD_STORE_OK)
        status = ld_sql_prepare(s->db, piece_sql, &s->insert_piece, why);
    if (status == LD_STORE_OK)
        status = ld_sql_int(s->db, "PRAGMA page_size", &s->page_bytes, why);
    if (status != LD_STORE_OK) {
        ld_store_close(s);
        return status;
    }
    s->is_foreign = care->is_foreign;
    ld_sql_watch_init(&s->watch, ld_db_weight(path), false, care->is_over, care->arg);
    ld_db_note_place(path, &s->place);
    /* Replaces SQLite's own hook, which would checkpoint by itself. */
    (void)sqlite3_wal_hook(s->db, note_wal, s);
    atomic_init(&s->wal_pages, size_of(path, "-wal") / s->page_bytes); /* what a process that died has left */
    *out = s;
    return LD_STORE_OK;
}

int ld_store_open(struct ld_store **out, const char *path, bool is_thorough, struct ld_message *why)
{
    const struct ld_store_care care = {.is_thorough = is_thorough};
    return ld_store_open_with(out, path, &care, why);
}

/* Finalizing NULL is fine: not every statement was needed. */
static void close_conn(struct ld_conn *c)
{
    for (int i = 0; i < LD_N_QUERIES; i++)
        (void)sqlite3_finalize(c->stmt[i]);
    (void)sqlite3_close(c->db);
    free(c->text);
    free(c);
}

/* The last connection to close moves the WAL into the file and removes it. No connection may be lent out. A WAL that
 * could not be moved stays beside the file and is read at the next start. */
void ld_store_close(struct ld_store *s)
{
    if (s == NULL)
        return;
    while (s->idle != NULL) {
        struct ld_conn *next = s->idle->next;
        close_conn(s->idle);
        s->idle = next;
    }
    (void)sqlite3_finalize(s->begin);
    (void)sqlite3_finalize(s->commit);
    (void)sqlite3_finalize(s->insert);
    (void)sqlite3_finalize(s->insert_some);
    (void)sqlite3_finalize(s->insert_piece);
    (void)sqlite3_finalize(s->put_mark);
    (void)sqlite3_close(s->db);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}

/* --- writing ----------------------------------------------------------------------------------------- */

/* A statement without parameters and rows. SQLite's code. */
static int run(sqlite3_stmt *stmt)
{
    (void)sqlite3_step(stmt);
    return sqlite3_reset(stmt); /* what the step has said */
}

int ld_store_begin(struct ld_store *s, bool is_wiping, struct ld_message *why)
{
    if (!ld_db_is_in_place(s->path, &s->place, why))
        return LD_STORE_IO;
    if (sqlite3_get_autocommit(s->db) == 0 && !ld_sql_undo(s->db))
        return ld_fail_as(LD_STORE_IO, why, "%.900s: a transaction that failed cannot be taken back", s->path);
    int rc = is_wiping ? sqlite3_exec(s->db, "PRAGMA secure_delete = ON", NULL, NULL, NULL) : SQLITE_OK;
    if (rc == SQLITE_OK)
        rc = run(s->begin);
    s->has_wiped |= is_wiping;
    return rc == SQLITE_OK ? LD_STORE_OK : ld_sql_fail(s->db, rc, s->path, why);
}

/* COMMIT writes the frames and syncs the WAL; only then is LD_STORE_OK returned. */
int ld_store_end(struct ld_store *s, int rc, struct ld_message *why)
{
    if (rc == SQLITE_OK)
        rc = run(s->commit);
    if (rc == SQLITE_OK)
        return LD_STORE_OK;
    const int status = ld_sql_fail(s->db, rc, s->path, why);
    return ld_sql_undo(s->db) ? status : LD_STORE_IO; /* whoever probes the disk tries again */
}

/* The nine parameters of a line behind the first n. Borrowed: rows live until the step. */
static void bind_line(sqlite3_stmt *stmt, int n, const struct ld_row *row)
{
    (void)sqlite3_bind_int64(stmt, n + 1, (sqlite3_int64)row->seq);
    (void)sqlite3_bind_int64(stmt, n + 2, row->at_ms);
    (void)sqlite3_bind_int(stmt, n + 3, row->type);
    ld_sql_bind_text(stmt, n + 4, row->decision);
    ld_sql_bind_text(stmt, n + 5, row->user);
    ld_sql_bind_text(stmt, n + 6, row->arm);
    (void)sqlite3_bind_double(stmt, n + 7, row->reward); /* NaN becomes NULL */
    (void)sqlite3_bind_text64(stmt, n + 8, row->text, row->n_text, SQLITE_STATIC, SQLITE_UTF8);
    ld_sql_bind_text(stmt, n + 9, row->answer);
}

int ld_store_step(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int ld_store_insert(sqlite3_stmt *stmt, const struct ld_row *row)
{
    bind_line(stmt, 0, row);
    return ld_store_step(stmt);
}

/* One row through the one prepared INSERT; about 1.5 us of CPU. Returns SQLite's code. */
static int insert_row(struct ld_store *s, const struct ld_row *row)
{
    (void)sqlite3_bind_int(s->insert, 10, row->is_reset);
    if (row->line == 0)
        return ld_store_insert(s->insert, row);
    (void)sqlite3_bind_int64(s->insert, 11, (sqlite3_int64)row->line);
    const int rc = ld_store_insert_piece(s, row->line, 0, row->text, row->n_text);
    return rc == SQLITE_OK ? ld_store_insert(s->insert, row) : rc;
}

/* Whether the next rows are as many as go into one statement, which is prepared when it is first asked for: two thirds
 * of the work of single ones. */
static bool are_some(struct ld_store *s, const struct ld_row *rows, size_t n)
{
    for (size_t i = 0; i < SOME_ROWS; i++)
        if (i == n || rows[i].line != 0)
            return false;
    return s->insert_some != NULL || ld_sql_prepare(s->db, some_sql, &s->insert_some, NULL) == LD_STORE_OK;
}

static int insert_some(struct ld_store *s, const struct ld_row *rows)
{
    for (int i = 0; i < SOME_ROWS; i++) {
        bind_line(s->insert_some, 10 * i, &rows[i]);
        (void)sqlite3_bind_int(s->insert_some, 10 * i + 10, rows[i].is_reset);
    }
    return ld_store_step(s->insert_some);
}

/* No rows: a probe, whether the disk takes writes again. */
int ld_store_insert_all(struct ld_store *s, const struct ld_row *rows, size_t n)
{
    int rc = n == 0 ? ld_sql_touch(s->db) : SQLITE_OK;
    for (size_t i = 1; i < n; i++)
        assert(rows[i].seq == rows[i - 1].seq + 1);
    for (size_t i = 0; i < n && rc == SQLITE_OK;) {
        const bool is_some = are_some(s, rows + i, n - i);
        rc = is_some ? insert_some(s, rows + i) : insert_row(s, &rows[i]);
        i += is_some ? SOME_ROWS : 1;
    }
    return rc;
}

int ld_store_append(struct ld_store *s, const struct ld_row *rows, size_t n, struct ld_message *why)
{
    int status = ld_store_begin(s, false, why);
    if (status != LD_STORE_OK)
        return status;
    int rc = ld_store_insert_all(s, rows, n);
    if (n > 0)
        ld_failpoint("after_append");
    return ld_store_end(s, rc, why);
}

/* --- rewriting ---------------------------------------------------------------------------------------- */

static int rewrite_line(sqlite3_stmt *stmt, const struct ld_rewrite *line)
{
    (void)sqlite3_bind_int64(stmt, 1, (sqlite3_int64)line->seq);
    (void)sqlite3_bind_int(stmt, 2, line->type);
    (void)sqlite3_bind_text64(stmt, 3, line->text, line->n_text, SQLITE_STATIC, SQLITE_UTF8);
    (void)sqlite3_bind_int(stmt, 4, line->type == KB_EV_REDACTED);
    return ld_store_step(stmt);
}

#define REWRITE                                                                                                        \
    " type = ?2, text = ?3, decision = iif(?4, NULL, decision), user = iif(?4, NULL, user),"                           \
    " arm = iif(?4, NULL, arm), reward = iif(?4, NULL, reward), answer = iif(?4, NULL, answer),"                       \
    " reset = iif(?4, 0, reset) WHERE seq = ?1"

/* A line stands in one of the two tables; its pieces, if it has any, go with its text. */
int ld_store_rewrite_all(struct ld_store *s, const struct ld_rewrite *lines, size_t n)
{
    static const char of_events[] = "UPDATE events SET line = NULL," REWRITE " AND seq >= (SELECT kept FROM log_start)";
    static const char of_summary[] = "UPDATE summary SET" REWRITE " AND generation = (SELECT generation FROM log_start)"
                                     " AND seq < (SELECT kept FROM log_start)";
    static const char of_pieces[] = "DELETE FROM pieces WHERE line = (SELECT line FROM events WHERE seq = ?1)";
    sqlite3_stmt *event = NULL, *summary = NULL, *pieces = NULL;
    int rc = sqlite3_prepare_v2(s->db, of_events, -1, &event, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(s->db, of_summary, -1, &summary, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(s->db, of_pieces, -1, &pieces, NULL);
    for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
        rc = rewrite_line(summary, &lines[i]);
        if (rc != SQLITE_OK || sqlite3_changes(s->db) > 0)
            continue;
        (void)sqlite3_bind_int64(pieces, 1, (sqlite3_int64)lines[i].seq);
        rc = ld_store_step(pieces);
        if (rc == SQLITE_OK)
            rc = rewrite_line(event, &lines[i]);
    }
    (void)sqlite3_finalize(pieces);
    (void)sqlite3_finalize(event);
    (void)sqlite3_finalize(summary);
    return rc;
}

int ld_store_rewrite(struct ld_store *s, const struct ld_rewrite *lines, size_t n, const struct ld_row *row,
                     struct ld_message *why)
{
    int status = ld_store_begin(s, true, why);
    if (status != LD_STORE_OK)
        return status;
    int rc = ld_store_rewrite_all(s, lines, n);
    if (rc == SQLITE_OK && row != NULL)
        rc = insert_row(s, row);
    ld_failpoint("after_append");
    return ld_store_end(s, rc, why);
}

/* SQLite syncs the file, and not the log that it has cut: what was in it could come back. */
static bool sync_log(struct sqlite3 *db)
{
    sqlite3_file *f = NULL;

    return sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &f) == SQLITE_OK &&
           (f == NULL || f->pMethods == NULL || f->pMethods->xSync(f, SQLITE_SYNC_NORMAL) == SQLITE_OK);
}

/* Cells that SQLite moves between pages leave their bytes in what is free on the old page, in indexes above all, and
 * secure_delete does not know of them. Only pages that are written anew have nothing of what was deleted. The copy is
 * made in memory, so that it needs no folder for temporary files; a file that is larger is left as it is
 * (docs/SECURITY.md). */
static bool write_anew(struct ld_store *s)
{
    int64_t n_pages = 0;

    if (ld_sql_int(s->db, "PRAGMA page_count", &n_pages, NULL) != LD_STORE_OK)
        return false;
    if (n_pages * s->page_bytes > LD_WRITTEN_ANEW_BYTES)
        return true;
    return sqlite3_exec(s->db, "PRAGMA temp_store = MEMORY; VACUUM", NULL, NULL, NULL) == SQLITE_OK;
}

/* On the writer's own connection: no commit can come in between. */
bool ld_store_scrub(struct ld_store *s)
{
    if (s->has_wiped && !write_anew(s))
        return false;
    s->has_wiped = false;
    const bool is_ok =
        sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK && sync_log(s->db);

    if (is_ok)
        atomic_store(&s->wal_pages, 0);
    return is_ok;
}

/* --- size and checkpoints ------------------------------------------------------------------------------- */

/* By stat, without asking SQLite: for metrics. */
int64_t ld_store_bytes(struct ld_store *s)
{
    return size_of(s->path, "") + size_of(s->path, "-wal");
}

static size_t memory_of(struct sqlite3 *db)
{
    static const int kinds[] = {SQLITE_DBSTATUS_CACHE_USED, SQLITE_DBSTATUS_SCHEMA_USED, SQLITE_DBSTATUS_STMT_USED};
    size_t sum = 0;
    int now = 0, most;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (sqlite3_db_status(db, kinds[i], &now, &most, 0) == SQLITE_OK)
            sum += (size_t)now;
    return sum;
}

/* Of the writer's connection and of those that wait for the next reader. A few microseconds each; in the writer's
 * thread.
 */
size_t ld_store_memory(struct ld_store *s)
{
    size_t sum = memory_of(s->db) + ld_wal_bytes(s->db);
    (void)pthread_mutex_lock(&s->lock);
    for (struct ld_conn *c = s->idle; c != NULL; c = c->next)
        sum += sizeof *c + memory_of(c->db);
    (void)pthread_mutex_unlock(&s->lock);
    return sum;
}

/* From the last commit's own count, without touching the file. Pages alone: the 24 bytes before each are left out. */
int64_t ld_store_wal_bytes(struct ld_store *s)
{
    return atomic_load(&s->wal_pages) * s->page_bytes;
}

/* PASSIVE moves what no reader still needs and waits for nobody. It runs on a reading connection, so the writer may
 * append meanwhile. It includes an fsync of the file, outside of every commit. */
int ld_store_checkpoint(struct ld_store *s)
{
    int status, in_wal = 0, moved = 0;
    struct ld_conn *c = ld_store_borrow(s, &status);
    if (c == NULL)
        return status;
    /* Read before the checkpoint: what a commit adds meanwhile must not be taken for moved. */
    int64_t before = atomic_load(&s->wal_pages);
    int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_wal, &moved);
    ld_store_give_back(s, c);
    /* All moved: the next commit starts the WAL anew. A commit meanwhile has set the count itself. */
    if (rc == SQLITE_OK && in_wal == moved)
        (void)atomic_compare_exchange_strong(&s->wal_pages, &before, 0);
    return ld_sql_status(rc);
}

/* --- reading connections -------------------------------------------------------------------------------- */

/* Opens a new one only when all are lent out; opening costs about 100 us. Given back by ld_store_give_back, whatever
 * became of the query. */
struct ld_conn *ld_store_borrow(struct ld_store *s, int *status)
{
    (void)pthread_mutex_lock(&s->lock);
    struct ld_conn *c = s->idle;
    if (c != NULL) {
        s->idle = c->next;
        s->n_idle--;
    }
    (void)pthread_mutex_unlock(&s->lock);
    *status = LD_STORE_OK;
    if (c != NULL)
        return c;
    c = calloc(1, sizeof *c);
    *status = c == NULL        ? LD_STORE_NOMEM
              : s->is_readonly ? ld_db_connect_readonly(&c->db, s->path, NULL)
                               : ld_db_connect(&c->db, s->path, NULL);
    if (*status != LD_STORE_OK) {
        free(c);
        return NULL;
    }
    if (s->is_foreign)
        ld_sql_watch(c->db, &s->watch);
    return c;
}

/* A few are kept for the next reader; after a burst the rest are closed, outside the lock. Its read transaction must
 * be over. */
void ld_store_give_back(struct ld_store *s, struct ld_conn *c)
{
    free(c->text);
    c->text = NULL;
    (void)pthread_mutex_lock(&s->lock);
    bool is_kept = s->n_idle < MAX_IDLE;
    if (is_kept) {
        c->next = s->idle;
        s->idle = c;
        s->n_idle++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!is_kept)
        close_conn(c);
}
