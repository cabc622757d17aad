/* The inside of a store, shared by store_sqlite.c (writing), store_query.c and store_window.c (reading) and
 * store_pieces.c (long lines).
 */
#ifndef LD_STORE_IMPL_H
#define LD_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/message.h"
#include "store/sqlite_util.h"
#include "store/store.h"

/* The reading statements; their texts stand where they are asked. */
enum ld_query {
    LD_QUERY_READ,
    LD_QUERY_TIP,
    LD_QUERY_LAST_AT,
    LD_QUERY_CONFIGURED,
    LD_QUERY_DECISION,
    LD_QUERY_SLOT,
    LD_QUERY_OBSERVATION,
    LD_QUERY_REWARDS,
    LD_QUERY_METRIC,
    LD_QUERY_AGGREGATION,
    LD_QUERY_DECISIONS_SINCE,
    LD_QUERY_WINDOW,
    LD_QUERY_PIECES, /* store_pieces.c */
    LD_N_QUERIES
};

/* A connection for reading, with the statements that it has prepared so far. One thread at a time. */
struct ld_conn {
    struct ld_conn *next;
    struct sqlite3 *db;
    struct sqlite3_stmt *stmt[LD_N_QUERIES];
    char *text; /* of the last long line, until the connection is given back */
};

/* One tenant's file. db and its statements belong to the writer's thread; reading threads borrow connections. */
struct ld_store {
    char *path;
    bool is_readonly; /* of what follows there are only the lock and the idle connections */
    bool is_foreign;  /* reading connections are under the watch; one thread has the store */
    struct ld_sql_watch watch;
    struct sqlite3 *db;                                                        /* the writer's */
    struct sqlite3_stmt *begin, *commit, *insert, *insert_some, *insert_piece; /* insert_some: NULL until asked for */
    struct sqlite3_stmt *put_mark;                                             /* likewise */
    uint64_t line, n_pieces;   /* the long line that is being written; 0: none */
    bool has_wiped;            /* a transaction overwrote what it deleted, and the file was not written anew since */
    _Atomic int64_t wal_pages; /* in the WAL, not yet known to be in the file */
    int64_t page_bytes;
    struct ld_db_place place;
    pthread_mutex_t lock; /* of the two below */
    struct ld_conn *idle;
    int n_idle;
};

/* The log, in order by seq: the view of schema/0003_pieces.sql, spelled out, since views of a file are not believed. */
#define LD_LOG_COLUMNS "SELECT seq, at, type, decision, user, arm, reward, reset, text, answer"
#define LD_LOG                                                                                                         \
    "(" LD_LOG_COLUMNS                                                                                                 \
    ", CAST(NULL AS INTEGER) AS line FROM summary WHERE generation = (SELECT generation FROM log_start)"               \
    " UNION ALL " LD_LOG_COLUMNS ", line FROM events WHERE seq >= (SELECT kept FROM log_start))"

/* The number of the last event, 0 when there is none: a log may end with its summary. */
#define LD_LAST_SEQ "SELECT max(coalesce((SELECT max(seq) FROM events), 0), (SELECT kept - 1 FROM log_start))"

/* A log without a configured event begins with a summary, whose first line has the configuration. */
#define LD_CONFIGURED_SEQ                                                                                              \
    "coalesce((SELECT max(seq) FROM events WHERE type = 1 AND seq >= (SELECT kept FROM log_start)),"                   \
    " (SELECT seq FROM " LD_LOG " ORDER BY seq LIMIT 1))"

/* The arm that a decision's slot 0 shows: of its row, or of the summary that stands for it. */
#define LD_SLOT_0(decision)                                                                                            \
    "coalesce((SELECT d.arm FROM events d WHERE d.decision = " decision " AND +d.type = 4),"                           \
    " (SELECT d.arm FROM " LD_LOG " d WHERE d.decision = " decision " AND +d.type = 11))"

/* fn for each row of a statement that gives these columns, until it returns non-zero, which is returned; the row is
 * its own until then. Else LD_STORE_*. The statement is reset by the caller. */
#define LD_ROW_COLUMNS "seq, at, type, decision, user, arm, reward, reset, text, answer, line"
int ld_store_each_row(struct ld_conn *c, struct sqlite3_stmt *stmt, int (*fn)(void *arg, const struct ld_row *row),
                      void *arg);
/* The text of a row that is in pieces: put together, the connection's until the next one. LD_STORE_*; NOMEM also when
 * `text` is NULL. */
int ld_store_whole_text(struct ld_conn *c, struct ld_row *row);

/* Every transaction of the writer. BEGIN IMMEDIATE takes the write lock first, so that a lock held by a person with a
 * shell is found before any row is made; is_wiping: what is deleted from here on is overwritten with zeros. `end`
 * commits when rc is SQLITE_OK; else, or when the commit fails, nothing has happened, also for the next start.
 * LD_STORE_*; a transaction that was not begun is not to be ended. */
int ld_store_begin(struct ld_store *s, bool is_wiping, struct ld_message *why);
int ld_store_end(struct ld_store *s, int rc, struct ld_message *why);
/* Runs a statement that gives no rows, and clears what was bound. SQLite's code. */
int ld_store_step(struct sqlite3_stmt *stmt);
/* Rows of the log behind its last one; none: a probe. SQLite's code. */
int ld_store_insert_all(struct ld_store *s, const struct ld_row *rows, size_t n);
/* Lines that are to read otherwise. SQLite's code. */
int ld_store_rewrite_all(struct ld_store *s, const struct ld_rewrite *lines, size_t n);
/* A line of the log into one of the two tables: parameters 1 to 9 are seq, at, type, decision, user, arm, reward, text,
 * answer. SQLite's code. */
int ld_store_insert(struct sqlite3_stmt *insert, const struct ld_row *row);
/* A piece of a long line (store_pieces.c). SQLite's code. */
int ld_store_insert_piece(struct ld_store *s, uint64_t line, uint64_t n, const char *text, size_t n_text);

/* A reading statement in use with the connection that it belongs to. Begin prepares it once a connection; it is ready
 * to be bound then. LD_STORE_*; on failure nothing is held. Every begin that succeeds is followed by one end. */
struct ld_query_use {
    struct ld_conn *conn;
    struct sqlite3_stmt *stmt;
};
int ld_query_begin(struct ld_store *s, enum ld_query which, const char *sql, struct ld_query_use *q);
void ld_query_end(struct ld_store *s, struct ld_query_use *q);

/* Books as rows of the file, inside a transaction (store_books.c). SQLite's code. */
int ld_store_insert_books(struct ld_store *s, const struct ld_book_row *rows, size_t n);

/* A reading connection of one's own until given back. NULL on failure, *status says which. */
/* For one query or one checkpoint at a time. */
struct ld_conn *ld_store_borrow(struct ld_store *s, int *status);
void ld_store_give_back(struct ld_store *s, struct ld_conn *c);

#endif
