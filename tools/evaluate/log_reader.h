/* Logs of several formats as decisions (evaluate/decisions.h): the file and its lines.
 *
 * Faults are "file:line: field: what was expected". */
#ifndef LC_LOG_READER_H
#define LC_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/text.h"
#include "evaluate/decisions.h"

struct lc_metric;

struct lc_log_options {
    const char *path;               /* "-": standard input, which is copied to a file without a name */
    FILE *input;                    /* in place of standard input: such a file already, which the log closes */
    const char *items;              /* obd: the items' features, NULL: none */
    const char *map;                /* csv, ndjson: which column is what, NULL: by their names */
    const struct lc_metric *metric; /* ndjson: of our own log, judged in place of the rewards; NULL: these are */
    struct ld_decisions_options read;
};

struct lc_log;

/* A format. `open` reads what stands in front of the events; `next` gives 1 with *ev, 0 at the end, -1 with
 * log->base.why.text for a line that is faulty (the next call goes on behind it) or LD_DECISIONS_BROKEN where nothing
 * can be read any more; `close` frees what the state holds, also after a failed open. The state itself, zeroed before
 * `open`, the file and its lines are the log's. */
struct lc_log_reader_ops {
    const char *name;
    int (*open)(struct lc_log *log);
    int (*next)(struct lc_log *log, struct ld_logged *ev);
    void (*close)(struct lc_log *log);
    size_t state_bytes;
};

struct lc_log {
    struct ld_decisions base; /* the first */
    const struct lc_log_reader_ops *ops;
    struct lc_log_options o;
    FILE *file;   /* unpacked */
    FILE *spool;  /* of standard input */
    char *buffer; /* the line in hand */
    size_t cap_buffer;
    void *state;                          /* the format's */
    const struct ld_decisions_pass *pass; /* under way; NULL: none */
    bool is_read;                         /* a pass has begun */
    struct ld_names names;                /* room for mapping objects */
    char user[LD_NAMES_USER_BYTES + 1];   /* whom the context of the line in hand names */
};

/* "obd", "dsjson", "ndjson", "csv"; NULL when unknown. */
const struct lc_log_reader_ops *lc_log_format(const char *name);

/* 0, or -1 with log->base.why. Close in either case. `o` is copied, its texts are borrowed. */
int lc_log_open(struct lc_log *log, const struct lc_log_reader_ops *ops, const struct lc_log_options *o);
int lc_log_rewind(struct lc_log *log); /* to a new pass; arms are kept, counts begin anew */
void lc_log_close(struct lc_log *log);

/* 1, 0 at the end, -1 with log->base.why.text: more faulty lines than were allowed, or nothing can be read. */
int lc_log_next(struct lc_log *log, struct ld_logged *ev);

/* --- for formats ---------------------------------------------------------------------------------------- */

/* Next line without its end, blank ones passed over: its length in *n. 1, 0, or LD_DECISIONS_BROKEN. */
int lc_log_line(struct lc_log *log, size_t *n);

/* "2019-11-24 00:03:13.442536+00:00", "2021-02-04T16:31:29.2460000Z" and seconds or milliseconds since 1970; false for
 * others. */
bool lc_log_time(const char *text, int64_t *at_ms);

extern const struct lc_log_reader_ops lc_log_obd, lc_log_dsjson, lc_log_ndjson, lc_log_csv;

#endif
