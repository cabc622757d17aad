/* A tenant's file: the ordered log of events, durable by group commit. SQLite, WAL, synchronous=FULL (checked at
 * open). One writer (the tenant's) and any number of readers, each on a connection of its own. */
#ifndef LD_STORE_H
#define LD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"
#include "store/store_status.h"
#include "types/views.h"
#include "base/problem.h"

struct ld_store;

/* Opens (creating and migrating when needed) the file. Header (magic, application_id, user_version) and integrity
 * are checked read-only before anything is written; a refused file keeps its bytes. `why` receives
 * a sentence that names the file. Integrity: the schema is ours to the letter, and PRAGMA quick_check when the file is
 * below 64 MiB or `is_thorough`. */
int ld_store_open(struct ld_store **out, const char *path, bool is_thorough, struct ld_message *why);
/* The same with more care. */
struct ld_store_care {
    bool is_thorough;           /* quick_check, however large the file is */
    bool is_copy;               /* of a shared log: it is going to be written without waiting for the disk */
    bool is_foreign;            /* made by somebody else: thorough, and whatever is read of it later is bounded, too */
    bool (*is_over)(void *arg); /* asked meanwhile: true ends it with LD_STORE_STOPPED; NULL: nothing does */
    void *arg;
};
int ld_store_open_with(struct ld_store **out, const char *path, const struct ld_store_care *care,
                       struct ld_message *why);
/* The same for reading alone, of a file that nobody else has open; nothing is written, migrated or checkpointed. Only
 * what reads may be called. */
int ld_store_open_readonly(struct ld_store **out, const char *path, struct ld_message *why);
void ld_store_close(struct ld_store *s);

/* A row of the log. text is the event's JSON line. The index columns may be NULL / NaN; `decision` of an observation is
 * its own id, which is in a namespace of its own. */
struct ld_row {
    uint64_t seq;
    int64_t at_ms;
    int type; /* enum kb_event_type */
    const char *decision, *user, *arm;
    double reward;
    bool is_reset; /* dictionary reset, see kb_engine_fold_quietly_until */
    const char *text;
    size_t n_text;
    const char *answer; /* the /select answer, kept when the caller named the decision; else NULL */
    uint64_t line;      /* the pieces that `text` is the beginning of, when it is appended; 0: it is all */
};

/* One transaction for all rows, whose seq goes on from the last without gaps. On failure nothing is recorded. Without
 * rows it is a probe: one page is written as it is, to learn whether the disk takes writes again. */
int ld_store_append(struct ld_store *s, const struct ld_row *rows, size_t n, struct ld_message *why);

/* The file as a copy of a log that several servers share (schema/0009_copies.sql). `hash` is the chain's behind line
 * `seq`. tenant 0: the file is no copy. */
#define LD_COPY_HASH_BYTES 16
struct ld_copy_mark {
    uint64_t tenant, seq;
    unsigned char hash[LD_COPY_HASH_BYTES];
    uint64_t generation; /* the last rewriting that it has */
};
int ld_store_copy_mark(struct ld_store *s, struct ld_copy_mark *out);
/* The same of a file that nobody has open, which keeps its bytes; *is_empty: it has no line. */
int ld_store_look_at_copy(const char *path, struct ld_copy_mark *out, bool *is_empty, struct ld_message *why);
/* From here on it is one, and commits do not wait for the disk. */
int ld_store_be_copy(struct ld_store *s, const struct ld_copy_mark *mark, struct ld_message *why);
/* As ld_store_append, with where the copy then stands. */
int ld_store_append_copy(struct ld_store *s, const struct ld_row *rows, size_t n, const struct ld_copy_mark *mark,
                         struct ld_message *why);
/* It is a log of its own from here on: taken out of the cluster by a copy of the file. */
int ld_store_be_no_copy(struct ld_store *s, struct ld_message *why);

/* A line that is too long for one commit is written before it: all but its beginning, in pieces, each in a transaction
 * of its own; they are part of no log until a row is appended that has their number, *line. One such line at a time,
 * ended by `end`, appended or not: what no row has is trimmed (ld_store_has_leftovers, ld_store_trim). */
int ld_store_put_piece(struct ld_store *s, const char *text, size_t n_text, uint64_t *line, struct ld_message *why);
void ld_store_end_pieces(struct ld_store *s);

/* A line of the log that is to read otherwise. `redacted` ones lose their columns as well. */
struct ld_rewrite {
    uint64_t seq;
    int type;
    char *text; /* owned by whoever owns the list */
    size_t n_text;
};
/* Rewrites lines and appends the next row, unless that is NULL, in one transaction; what they held before is
 * overwritten with zeros, in the write-ahead log once ld_store_scrub has run. On failure nothing has changed. O(n log
 * rows). */
int ld_store_rewrite(struct ld_store *s, const struct ld_rewrite *lines, size_t n, const struct ld_row *row,
                     struct ld_message *why);
/* The same of a copy, with the n_rows that come next, and where the copy then stands. */
int ld_store_rewrite_copy(struct ld_store *s, const struct ld_rewrite *lines, size_t n, const struct ld_row *rows,
                          size_t n_rows, const struct ld_copy_mark *mark, struct ld_message *why);
/* A copy that is made equal to a log which was rewritten: `begin`, then each line that is another there or is not here
 * yet, ascending, then `end`, in one transaction; readers have the old one until then. A mark of NULL, or a line that
 * failed: nothing has changed. LD_STORE_*; behind a `begin` that succeeded there has to be an `end`. */
int ld_store_begin_renewal(struct ld_store *s, struct ld_message *why);
int ld_store_renew(struct ld_store *s, const struct ld_row *row, struct ld_message *why);
/* In between, before the first line: the log begins with a summary, whose lines come next, up to number kept - 1; and
 * the books are these. What was there before `kept` is left over, and trimmed. */
struct ld_book_row;
int ld_store_renew_start(struct ld_store *s, uint64_t kept, const struct ld_book_row *books, size_t n,
                         struct ld_message *why);
/* In between: these books in place of those of their names. */
int ld_store_renew_books(struct ld_store *s, const struct ld_book_row *books, size_t n, struct ld_message *why);
int ld_store_end_renewal(struct ld_store *s, const struct ld_copy_mark *mark, struct ld_message *why);
/* Behind something that was rewritten or deleted for ever: a file of up to LD_WRITTEN_ANEW_BYTES is written anew, which
 * takes about as long as reading it twice; then the write-ahead log is moved into the file and cut. False when a reader
 * that is at work keeps some of it, or the disk refuses: try again. */
#define LD_WRITTEN_ANEW_BYTES (64 << 20)
bool ld_store_scrub(struct ld_store *s);

/* A row beside the books' whose count no line has: each server's own. */
#define LD_UNKNOWN_BOOK "unknown"

/* What is counted over the log beside the model (schema/0004_books.sql): a row each, by name. */
struct ld_book_row {
    const char *name;
    uint32_t version;
    uint64_t seq; /* the last event that it has taken */
    unsigned char *body;
    size_t n_body;
};
/* The writer's: replaces those rows in one transaction. */
int ld_store_put_books(struct ld_store *s, const struct ld_book_row *rows, size_t n, struct ld_message *why);
/* fn for each row, borrowed; not 0 ends it and is returned. */
int ld_store_each_book(struct ld_store *s, int (*fn)(void *arg, const struct ld_book_row *row), void *arg);
/* The same for the row of one name alone, where there is one. */
int ld_store_one_book(struct ld_store *s, const char *name, int (*fn)(void *arg, const struct ld_book_row *row),
                      void *arg);

/* Compaction (store_summary.c). The writer stages the lines of a summary, some at a time, and then lets the log start
 * with them, in the place of all rows up to `last`, which the books (below) have taken; trimming, some rows at a time,
 * removes what is no part of the log any more, left over from this or from a process that died. Each call is one short
 * transaction. */
int ld_store_stage_summary(struct ld_store *s, const struct ld_row *rows, size_t n, struct ld_message *why);
int ld_store_start_behind(struct ld_store *s, uint64_t last, const struct ld_book_row *books, size_t n_books,
                          struct ld_message *why);
int ld_store_trim(struct ld_store *s, bool *has_more, struct ld_message *why);
int ld_store_has_leftovers(struct ld_store *s, bool *has);
/* The number of the log's first line, and that of the first event behind the summary (1 without one). */
int ld_store_start(struct ld_store *s, uint64_t *first, uint64_t *kept);
/* The last event of before at_ms (one less than the first kept when there is none). */
int ld_store_before(struct ld_store *s, int64_t at_ms, uint64_t *last);

/* Calls fn for each row with seq > after, ascending, until it returns non-zero (which is returned) or limit rows.
 * Uses a connection of its own (safe beside the writer). LD_STORE_* on failure. */
int ld_store_read(struct ld_store *s, uint64_t after, size_t limit, int (*fn)(void *arg, const struct ld_row *row),
                  void *arg);

/* A page of the log: lines with after < seq < before, of those types, at most `limit`, ascending or newest first. */
struct ld_page {
    uint64_t after, before; /* before 0: to the end */
    unsigned types;         /* bits by enum kb_event_type; 0: of any */
    bool is_backwards;
    size_t limit;
};
/* fn for each row, as ld_store_read. O(lines of the page + log n), however rare those types are. */
int ld_store_page(struct ld_store *s, const struct ld_page *page, int (*fn)(void *arg, const struct ld_row *row),
                  void *arg);

/* The lines of a decision, in order: decided (or what a summary has of an open one), rewarded, late, expired,
 * activated. As ld_store_read. And the version of the configuration in force before that line; 0: not known. O(log n).
 */
int ld_store_decision_lines(struct ld_store *s, const char *decision, int (*fn)(void *arg, const struct ld_row *row),
                            void *arg);
int ld_store_version_at(struct ld_store *s, uint64_t seq, uint64_t *version);

/* Calls fn for the last configured event, or the beginning of a summary when that is later; 0 without a call when there
 * is none. */
int ld_store_last_configured(struct ld_store *s, int (*fn)(void *arg, const struct ld_row *row), void *arg);

/* Last seq (0 when empty), and the seq of the last dictionary reset (0 when none). */
int ld_store_tip(struct ld_store *s, uint64_t *last, uint64_t *last_reset);

/* When the last event was recorded; -1 when there is none. O(log n). */
int ld_store_last_at(struct ld_store *s, int64_t *at_ms);

/* One moment of the log, for as long as it takes to copy it (store_copy.c): commits go on beside it, but the
 * write-ahead log cannot be cut meanwhile. *seq: its last event. */
struct ld_store_view;
int ld_store_view_open(struct ld_store_view **out, struct ld_store *s, uint64_t *seq);
void ld_store_view_close(struct ld_store_view *v);
/* fn for each row of that moment, as ld_store_read. */
int ld_store_view_read(struct ld_store_view *v, int (*fn)(void *arg, const struct ld_row *row), void *arg);
/* The file as it was at that moment, into a new file at path, a few pages at a time; is_over(arg) ends it early, with
 * LD_STORE_STOPPED. Not synced. What was begun is the caller's to remove. */
int ld_store_view_copy(struct ld_store_view *v, const char *path, bool (*is_over)(void *arg), void *arg,
                       struct ld_message *why);

/* The columns of an event's row (commit_rows.c); seq, at_ms and type are among them, text and answer are not. Borrowed.
 */
void ld_row_index(struct ld_row *row, const struct kb_event *ev);
/* Whether a row's columns are those: queries go by them, and they may only repeat the line. */
bool ld_row_repeats(const struct ld_row *row, const struct kb_event *ev);
#define LD_COLUMNS_LIE "its columns do not repeat its line"

/* What the log says of a decision id, for answers after it was closed. */
struct ld_decision_record {
    bool is_decided, is_expired, is_activated;
    char *user;   /* whom it was for, malloc'd */
    char *answer; /* malloc'd or NULL */
    size_t n_rewards;
    char *arm;       /* slot 0, malloc'd */
    bool has_reward; /* last reward told for `arm_wanted` (NULL: slot 0) */
    double reward;
    bool has_late; /* the same for rewards after the window */
    double late;
};
int ld_store_decision(struct ld_store *s, const char *decision, const char *arm_wanted, struct ld_decision_record *out);
void ld_decision_record_close(struct ld_decision_record *r);

/* The arm in the slot of that name, malloc'd; NULL: the log has no such decision or slot. O(log n + its line). */
int ld_store_slot_arm(struct ld_store *s, const char *decision, const char *slot, char **arm);

/* Whether the log has an observation of ev's id, and whether it is that one: user, arm and reward. */
int ld_store_observation(struct ld_store *s, const struct kb_event *ev, bool *is_known, bool *is_same);

/* A reward of the log: as it was told, of a metric or of the objective (NULL); arm may be NULL. */
struct ld_told_reward {
    const char *decision, *arm, *metric;
    double reward;
};

/* What the log says of a metric of a decision's arm (NULL: that of slot 0). Values are the last ones told. */
struct ld_metric_record {
    bool has_value, has_late;
    double value, late;
};
int ld_store_metric(struct ld_store *s, const struct ld_told_reward *of, const char *slot_0,
                    struct ld_metric_record *out);

/* Calls fn for each reward that was learned under an id of its sender's, in order of the log, until it returns non-zero
 * (which is returned). What it is given lasts as long as the call. */
int ld_store_rewards(struct ld_store *s, const char *id, int (*fn)(void *arg, const struct ld_told_reward *told),
                     void *arg);

/* Decisions, and rewards learned, since at_ms, by arm: rewards told, observations, defaults of closed windows; *arms is
 * malloc'd with its strings in one block (free(*arms)). A slate counts for each of its arms; `rewarded` counts slots,
 * and under `last` only a slot's last reward is summed. out->seconds is the caller's to set. O(rows in the window). */
int ld_store_window(struct ld_store *s, int64_t since_ms, struct ld_window_stats *out, struct ld_arm_stats **arms);

int64_t ld_store_bytes(struct ld_store *s);     /* file + WAL */
size_t ld_store_memory(struct ld_store *s);     /* of SQLite's connections */
int64_t ld_store_wal_bytes(struct ld_store *s); /* committed, not yet known to be checkpointed */
int ld_store_checkpoint(struct ld_store *s);    /* WAL checkpoint, PASSIVE; called off the hot path */

/* The registry: names of tenants. Same refusals as ld_store_open. */
struct ld_registry_file;
int ld_registry_open(struct ld_registry_file **out, const char *path, struct ld_message *why);
void ld_registry_close(struct ld_registry_file *r);
int ld_registry_add(struct ld_registry_file *r, const char *name, int64_t at_ms);
int ld_registry_remove(struct ld_registry_file *r, const char *name);
/* What an operator has set for a tenant; own NULL: nothing. And fn for each that has some. */
struct ld_rate;
int ld_registry_set_rate(struct ld_registry_file *r, const char *name, const struct ld_rate *own);
int ld_registry_rates(struct ld_registry_file *r, int (*fn)(void *arg, const char *name, const struct ld_rate *own),
                      void *arg);
/* fn for each tenant name, ascending. */
int ld_registry_list(struct ld_registry_file *r, int (*fn)(void *arg, const char *name), void *arg);
/* Whether the disk refused the last change; then one that changes nothing is tried first. */
bool ld_registry_is_failing(struct ld_registry_file *r);

#endif
