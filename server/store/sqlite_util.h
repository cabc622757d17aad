/* What the SQLite files share: codes, sentences, and how a database file of ours is opened or refused. Private to
 * store_*.c, migrate.c and registry_file.c; SQLite's types stay names here. */
#ifndef LD_SQLITE_UTIL_H
#define LD_SQLITE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"

struct ld_migration;
struct sqlite3;
struct sqlite3_stmt;

/* LD_STORE_* of a result code of SQLite. */
int ld_sql_status(int rc);

/* Every connection of the program is made here. Nothing in a file runs by itself on it: no triggers, no views, no
 * extensions, no functions that a schema may not be trusted with; the schema's own table cannot be written. `vfs`: NULL
 * is the default one. LD_STORE_*; *out is NULL on failure. */
int ld_sql_connect(struct sqlite3 **out, const char *name, int flags, const char *vfs, struct ld_message *why);

/* How long statements of a connection may run: on a file that others may have made, a short one can ask for more work
 * than anybody has. What is over ends as LD_STORE_STOPPED. */
struct ld_sql_watch {
    bool (*is_over)(void *arg); /* true: the server stops; NULL: it never does */
    void *arg;
    int64_t n_looks; /* looks that are left, some steps of SQLite's machine apart; below 0: all were taken */
    int64_t cpu_us;  /* of the thread, past which nothing goes on; 0: however much */
    bool is_spent;   /* it asked for more than that */
};
/* For a file of so many bytes. `has_deadline`: the thread does nothing else meanwhile, so its time counts as well. */
void ld_sql_watch_init(struct ld_sql_watch *w, int64_t bytes, bool has_deadline, bool (*is_over)(void *), void *arg);
/* Of one connection, which it must outlive. One watch has one thread at a time. */
void ld_sql_watch(struct sqlite3 *db, struct ld_sql_watch *w);
/* The status of what has failed under the watch, and the sentence where it was the watch that ended it. */
int ld_sql_watched(const struct ld_sql_watch *w, int status, struct ld_message *why);

/* Writes "what: SQLite's message" into why (unless NULL) and returns the status of rc. db may be NULL. */
int ld_sql_fail(struct sqlite3 *db, int rc, const char *what, struct ld_message *why);

/* LD_STORE_OK or a failure told in why (may be NULL). */
int ld_sql_exec(struct sqlite3 *db, const char *sql, struct ld_message *why);
int ld_sql_prepare(struct sqlite3 *db, const char *sql, struct sqlite3_stmt **out, struct ld_message *why);
int ld_sql_int(struct sqlite3 *db, const char *sql, int64_t *out,
               struct ld_message *why); /* first column of the first row */
int ld_sql_text(struct sqlite3 *db, const char *sql, char *out, int cap, struct ld_message *why);

void ld_sql_bind_text(struct sqlite3_stmt *stmt, int at, const char *text); /* borrowed until the step; NULL is NULL */

/* Writes the first page as it is, in a transaction: a probe, whether the disk takes writes. SQLite's code. */
int ld_sql_touch(struct sqlite3 *db);

/* After a commit that failed: ends the transaction, and takes care that no crash brings it back. Where only the sync
 * has failed, the write-ahead log holds the transaction whole, with its commit mark; this process does not count it,
 * but the next one, which reads the log anew, would. So something else is written in its place, synced or not. */
bool ld_sql_undo(struct sqlite3 *db);

/* fsync of the directory that holds path. 0 or -1 (errno). */
int ld_sync_directory_of(const char *path);
/* All n bytes at the file's position. 0, or -1 (errno). */
int ld_write_all(int fd, const void *data, size_t n);

/* A kind of file. */
struct ld_db_format {
    const struct ld_migration *migrations;
    int n_migrations;
    uint32_t application_id;
    const char *contents;        /* a query that gives 1 when the rows are sound */
    const char *contents_before; /* for files of versions before `contents_since` */
    int contents_since;
    const char *contents_broken; /* the sentence when it does not */
    const char *view;            /* that the last version's files have; NULL: none */
};

/* Opens the file at path for writing: looks at its header, then (read-only) at its schema, which is to be that of its
 * version to the letter, and at its structure when it is below 64 MiB or is_thorough, and only then as a database that
 * may be written: WAL, synchronous=FULL, migrated. One that does not exist is made under another name, synced, and
 * renamed, so that a file of ours is never half made. A refused file keeps its bytes. The look is bounded by the file's
 * size, and ended by the care's is_over. LD_STORE_*; why names the file. */
struct ld_store_care;
int ld_db_open(struct sqlite3 **out, const char *path, const struct ld_db_format *format,
               const struct ld_store_care *care, bool *was_created, struct ld_message *why);

/* A connection that writes nothing, to a file that nobody else has open: header, version, structure and contents are
 * looked at as by ld_db_open. A file that wants migrating is refused. */
int ld_db_open_readonly(struct sqlite3 **out, const char *path, const struct ld_db_format *format,
                        struct ld_message *why);
/* One more of those. */
int ld_db_connect_readonly(struct sqlite3 **out, const char *path, struct ld_message *why);
/* The read-only look of ld_db_open (db_check.c); path's header has been inspected. */
int ld_db_check(const char *path, const struct ld_db_format *format, const struct ld_store_care *care,
                struct ld_message *why);
/* The first fault of the pages, as LD_STORE_CORRUPT, or LD_STORE_IO where the disk did not give one: by quick_check, or
 * also whether indexes match their rows, which takes ten times as long. */
int ld_db_check_pages(struct sqlite3 *db, bool with_indexes, struct ld_message *why);
/* Whether the schema is, row by row, the one that the migrations up to `version` make: else LD_STORE_CORRUPT, and why
 * says what was found and what was expected (db_schema.c). */
int ld_db_check_schema(struct sqlite3 *db, const struct ld_db_format *format, int64_t version, struct ld_message *why);
/* Bytes on the disk of the file and what lies beside it: what a watch is in proportion to. */
int64_t ld_db_weight(const char *path);

/* Which files stand at the path and at that of its write-ahead log: device and inode, 0 where there is none. */
struct ld_db_place {
    uint64_t file[2], wal[2];
};

/* Of a database that has just been opened. A file that is removed, moved or replaced later takes commits for as long as
 * it is open, and nobody will ever read them: what is acknowledged has to be where the next start looks. So this is
 * asked before each commit: two system calls. False with why (may be NULL). */
void ld_db_note_place(const char *path, struct ld_db_place *place);
bool ld_db_is_in_place(const char *path, const struct ld_db_place *place, struct ld_message *why);

/* Makes an empty file that its owner alone may read, for SQLite to fill; none may be there. 0 or -1 (errno). */
int ld_db_touch_private(const char *path);

/* One more connection to a file that ld_db_open holds, for reading and checkpoints. */
int ld_db_connect(struct sqlite3 **out, const char *path, struct ld_message *why);

#endif
