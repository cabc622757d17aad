/* Connections to PostgreSQL, for pg_*.c alone: see pg_log.h.
 *
 * Every connection is in libpq's pipeline mode and does not block: statements are sent in a row, then their results are
 * read in the same order. Each wait ends at a deadline, or when nothing has moved for --log-wait since. All statements
 * are prepared, with binary values. */
#ifndef LD_PG_LOG_IMPL_H
#define LD_PG_LOG_IMPL_H

#include <libpq-fe.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/pg_log.h"

enum pg_statement {
    PG_BEGIN,
    PG_BEGIN_READ, /* one moment for all statements behind it */
    PG_COMMIT,
    PG_ROLLBACK,
    PG_PING,
    PG_STATE,    /* whether the primary may acknowledge */
    PG_BEAT,     /* this server lives */
    PG_LOCK,     /* the tenant's row, for a turn */
    PG_TIP,      /* the same without a lock */
    PG_PLACE,    /* the hash behind a line */
    PG_PAGE,     /* batches behind a line */
    PG_APPEND,   /* a batch, and the tip */
    PG_BEFORE,   /* the last batch that ends before a line */
    PG_REWRITE,  /* a batch's hash, and its body where that is another */
    PG_EXTEND,   /* a batch behind those that were rewritten */
    PG_GENERATE, /* the tip and the generation behind them */
    PG_TRIM,     /* some batches up to a line that go */
    PG_BOOKS,
    PG_BOOKS_CLEAR,
    PG_BOOK_ADD,
    PG_SYNC,  /* whether commits wait for standbys */
    PG_BATCH, /* who wrote the batch that ends at a line */
    PG_FIND,
    PG_MAKE,
    PG_DROP,
    PG_HAND_KEYS, /* a tenant's keys and rate become another's, and its name */
    PG_HAND_RATE,
    PG_HAND_NAME,
    PG_TIPS,
    PG_STANDBYS,
    PG_NODES,
    PG_REPORT,
    PG_LAGGARDS,
    PG_PURGE, /* some batches of deleted tenants */
    PG_PURGE_COMMON,
    PG_COMMON,
    PG_COMMON_LOCK,
    PG_REVISE,
    PG_KEYS,
    PG_KEY_ADD,
    PG_KEY_REMOVE,
    PG_RATES,
    PG_RATE_SET,
    PG_RATE_CLEAR,
    PG_HOLD,
    PG_HELD,
    PG_N
};

/* The values of a statement, in order. Texts and bytes are borrowed. */
struct pg_args {
    int n;
    const char *value[10];
    int bytes[10];
    unsigned char number[10][8];
};
void ld_pg_add_int(struct pg_args *a, int64_t value);
void ld_pg_add_bytes(struct pg_args *a, const void *bytes, size_t n);
void ld_pg_add_text(struct pg_args *a, const char *text);
void ld_pg_add_double(struct pg_args *a, double value);
void ld_pg_add_null(struct pg_args *a);

struct pg_conn {
    PGconn *pg;
    unsigned epoch;        /* of the log, when it was made */
    int64_t wait_us;       /* how long it may be silent */
    int64_t moved_us;      /* when bytes moved, of the row of statements that is under way */
    struct pg_conn *next;  /* in the pool */
    bool is_broken;        /* to be closed */
    bool is_warned;        /* a warning came since this was false */
    struct ld_message why; /* the warning, or why it is broken */
};

/* --- addresses: pg_hosts.c -------------------------------------------------------------------------------- */

enum { PG_HOST, PG_HOSTADDR, PG_PORT, PG_N_HOSTS };

/* The lists of a URL, which begin with the address number `first` (counted round). NULL: it has none. */
struct pg_hosts {
    char *list[PG_N_HOSTS];
};
void ld_pg_hosts(struct pg_hosts *out, const char *url, unsigned first);
void ld_pg_hosts_free(struct pg_hosts *h);

/* --- one connection: pg_conn.c ---------------------------------------------------------------------------- */

/* NULL with why; *is_bare: it answers, and has not the tables. `first`: of the URL's addresses, which is tried first.
 * `deadline` is of ld_monotonic_us, here and below. */
struct pg_conn *ld_pg_connect(const struct ld_pg_config *config, unsigned first, int64_t deadline, bool *is_bare,
                              struct ld_message *why);
void ld_pg_close(struct pg_conn *c);

/* Puts a statement behind those that were sent; ld_pg_sync ends the row of them. What fails makes the connection
 * broken, and the results say so. */
void ld_pg_send(struct pg_conn *c, enum pg_statement s, const struct pg_args *args);
void ld_pg_sync(struct pg_conn *c);

/* The result of the next statement, to be cleared; NULL: the connection is broken, or the deadline has passed (it is
 * broken then as well). */
PGresult *ld_pg_next(struct pg_conn *c, int64_t deadline);
/* The end of the row; false: broken. */
bool ld_pg_end(struct pg_conn *c, int64_t deadline);
/* What is left of the row, and its end. */
void ld_pg_skip(struct pg_conn *c, int64_t deadline);
/* One statement and its end. */
PGresult *ld_pg_ask(struct pg_conn *c, enum pg_statement s, const struct pg_args *args, int64_t deadline);
/* Ends a transaction that nobody wants; the connection is broken where that does not work. */
void ld_pg_rollback(struct pg_conn *c, int64_t deadline);
/* Notes what the server has said unasked: that it has closed the connection. */
void ld_pg_look(struct pg_conn *c);

/* --- results: pg_conn.c ----------------------------------------------------------------------------------- */

bool ld_pg_is(const PGresult *r, ExecStatusType status);
/* SQLSTATE, "" where the server gave none. */
const char *ld_pg_state(const PGresult *r);
int64_t ld_pg_int(const PGresult *r, int row, int column);
double ld_pg_double(const PGresult *r, int row, int column);
/* The first line of a text of libpq, into why behind `before`. Always -1. */
int ld_pg_say(struct ld_message *why, const char *before, const char *text);

/* --- the log's connections: pg_pool.c --------------------------------------------------------------------- */

struct pg_log {
    struct ld_shared_log base;
    struct ld_pg_config config; /* its texts are the log's own */
    pthread_mutex_t lock;       /* of what is below */
    pthread_cond_t wake;        /* of the threads of pg_watch.c */
    struct pg_conn *pool;
    struct ld_shared_turn *turns;
    struct ld_shared_health health;
    bool is_unfit;  /* it answers, and may not acknowledge */
    bool is_known;  /* health is more than a guess */
    unsigned first; /* of the addresses: the next connection begins there */
    unsigned epoch; /* moves when the log may not be used: connections of before are not used any more */
    bool is_shaken; /* a connection broke: time to look */
    bool is_ending;
    pthread_t watch, keep;
};

enum pg_fit {
    PG_FIT,
    PG_AWAY,  /* it does not answer */
    PG_UNFIT, /* it may not acknowledge, now */
    PG_ALIEN, /* it has no tables of ours, or newer ones */
    PG_NEWER, /* lines of a version that this program does not know may be in it */
};

/* When a call that begins now has to be over. PostgreSQL's own limit for locks comes before it. */
int64_t ld_pg_deadline(const struct pg_log *l);

/* A connection that has nothing under way; NULL with why. A new one has proved first that a standby has all that it
 * can see. Where the database is away, it is asked again until the deadline, or until it has been away for long. */
struct pg_conn *ld_pg_get(struct pg_log *l, int64_t deadline, struct ld_message *why);
/* Gives it back. A broken one is closed, with those that nobody uses. */
void ld_pg_put(struct pg_log *l, struct pg_conn *c);
/* Whether a commit that has returned was one of two disks: `r` is of PG_SYNC behind it. An operator who empties the
 * list of standbys releases the commits that wait for them. */
bool ld_pg_is_synced(const struct pg_log *l, const PGresult *r);
/* A connection for the first time, and whether the log may be used. */
enum pg_fit ld_pg_try(struct pg_log *l, struct pg_conn **out, int64_t deadline, struct ld_message *why);
/* Looks at the primary, and writes that this server lives: one commit that a standby has to take. */
enum pg_fit ld_pg_prove(struct pg_log *l, struct pg_conn *c, int64_t deadline, struct ld_message *why);
/* What the columns of PG_STATE say. */
enum pg_fit ld_pg_judge(bool is_trusted, const PGresult *r, int *n_standbys, struct ld_message *why);
/* Says that the log's lines are of a version that this program does not know, and returns rc. */
int ld_pg_is_newer(unsigned version, int rc, struct ld_message *why);
/* DOWN, or NEWER where that is why there is no connection. */
enum ld_shared_rc ld_pg_why_none(struct pg_log *l);
/* What the last look has found. */
void ld_pg_note(struct pg_log *l, enum pg_fit fit, int n_standbys, const struct ld_message *why);
void ld_pg_drain(struct pg_log *l);

/* --- turns: pg_turn.c, pg_append.c, pg_rewrite.c
 * ------------------------------------------------------------------------------------- */

struct ld_shared_turn {
    struct pg_log *log;
    struct pg_conn *c;
    uint64_t id;
    struct ld_shared_place seen;
    uint64_t first;   /* the log's first line */
    unsigned version; /* of lines that may be written */
    struct ld_shared_turn *next;
    pthread_mutex_t busy; /* whoever uses the connection: the turn's thread, or the one that keeps it alive */
    int64_t used_us;
};

enum ld_shared_rc ld_pg_take(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                             ld_shared_take_fn fn, void *arg, struct ld_shared_turn **turn, struct ld_message *why);
/* Sends COMMIT, and reads what became of all before it: OK, BEHIND, UNKNOWN. The caller has the connection. pg_append.c
 */
enum ld_shared_rc ld_pg_commit(struct ld_shared_turn *turn, struct ld_message *why);
enum ld_shared_rc ld_pg_rewrite(struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                                struct ld_shared_batch *batch, size_t n_batches, struct ld_message *why);
enum ld_shared_rc ld_pg_compact(struct ld_shared_turn *turn, const struct ld_shared_summary *summary,
                                struct ld_message *why);
enum ld_shared_rc ld_pg_books(struct ld_shared_log *log, uint64_t id,
                              bool (*fn)(void *arg, const struct ld_shared_book *book), void *arg,
                              struct ld_message *why);
enum ld_shared_rc ld_pg_append(struct ld_shared_turn *turn, const struct ld_shared_batch *batch,
                               struct ld_message *why);
void ld_pg_release(struct ld_shared_turn *turn);
unsigned ld_pg_version(const struct ld_shared_turn *turn);
enum ld_shared_rc ld_pg_make(struct ld_shared_log *log, const char *name, struct ld_shared_turn **turn, uint64_t *id,
                             struct ld_message *why);
enum ld_shared_rc ld_pg_exchange(struct ld_shared_turn *turn, const char *name, uint64_t old, struct ld_message *why);
enum ld_shared_rc ld_pg_put_batch(struct ld_shared_turn *turn, const struct ld_shared_batch *batch,
                                  struct ld_message *why);
/* Frees a turn that is over; the caller has its connection (busy). */
void ld_pg_end_turn(struct ld_shared_turn *turn);
enum ld_shared_rc ld_pg_settle(struct ld_shared_log *log, uint64_t id, const struct ld_shared_batch *batch,
                               struct ld_message *why);
enum ld_shared_rc ld_pg_read(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                             size_t max_bytes, ld_shared_take_fn fn, void *arg, struct ld_message *why);

/* What became of a COMMIT, which statements that have done what they should (is_moved) stand before: pg_append.c. */
enum ld_shared_rc ld_pg_judge_commit(const struct pg_conn *c, const PGresult *r, bool is_moved, struct ld_message *why);

/* Asks once for rows; again over another connection where the first one turns out to be gone. NULL with why: pg_log.c.
 */
PGresult *ld_pg_ask_rows(struct pg_log *l, enum pg_statement s, const struct pg_args *args, struct ld_message *why);
/* One statement that writes, once: *n rows. OK, or DOWN, where it is not known what became of it, too. */
enum ld_shared_rc ld_pg_ask_change(struct pg_log *l, enum pg_statement s, const struct pg_args *args, int *n,
                                   struct ld_message *why);
/* Why it gave no rows, or no change: LD_SHARED_DOWN. */
enum ld_shared_rc ld_pg_down(struct pg_conn *c, const PGresult *r, struct ld_message *why);

/* --- what servers have in common: pg_common.c ---------------------------------------------------------------- */

enum ld_shared_rc ld_pg_common(struct ld_shared_log *log, struct ld_shared_common *out, struct ld_message *why);
enum ld_shared_rc ld_pg_keys(struct ld_shared_log *log, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                             struct ld_message *why);
enum ld_shared_rc ld_pg_change_key(struct ld_shared_log *log, const struct ld_shared_key_change *change,
                                   uint64_t *revision, struct ld_message *why);
enum ld_shared_rc ld_pg_set_rate(struct ld_shared_log *log, uint64_t id, const struct ld_rate *own,
                                 struct ld_message *why);
enum ld_shared_rc ld_pg_rates(struct ld_shared_log *log,
                              void (*fn)(void *arg, const char *name, const struct ld_rate *own), void *arg,
                              struct ld_message *why);

enum ld_shared_rc ld_pg_hold(struct ld_shared_log *log, uint64_t id, const char *view, struct ld_message *why);
enum ld_shared_rc ld_pg_held(struct ld_shared_log *log, uint64_t id,
                             void (*fn)(void *arg, const char *node, const char *view), void *arg,
                             struct ld_message *why);

/* The version that the tables have with all of schema/shared_*.sql: pg_admin.c. */
int ld_pg_schema_version(void);

/* Columns id, last, hash, generation, first, kept and rewritten, from `column` on: pg_log.c. */
void ld_pg_read_tenant(struct ld_shared_tenant *out, const PGresult *r, int row, int column);

/* --- threads: pg_watch.c ---------------------------------------------------------------------------------- */

/* One looks at the primary, one keeps turns alive that compute for long. 0 or -1. */
int ld_pg_watch_start(struct pg_log *l);
void ld_pg_watch_stop(struct pg_log *l);

#endif
