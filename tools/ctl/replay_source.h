/* Traffic to be replayed: NDJSON lines in, or a log of another format (log_reader.h); requests out. */
#ifndef LC_REPLAY_SOURCE_H
#define LC_REPLAY_SOURCE_H

#include <stddef.h>
#include <stdio.h>

#include "base/ids.h"
#include "common/json.h"
#include "evaluate/log_reader.h"
#include "common/text.h"

enum lc_task_kind {
    LC_TASK_SELECT, /* POST /select, then reward the arm that was chosen */
    LC_TASK_OBSERVE /* POST /observe */
};

/* One request to be sent. Owned by who asked for it; lc_task_close frees it. */
struct lc_task {
    enum lc_task_kind kind;
    size_t line;         /* of the file, from 1 */
    int64_t at_ms;       /* when it happened, Unix time; 0: not told */
    struct lc_text body; /* of the request */
    struct json_t *doc;  /* select: the line, which holds its rewards */
};

/* Not thread safe: replay.c reads it under its lock. */
struct lc_source {
    const char *path;
    const char *id_prefix; /* decision ids "<prefix>-<line>"; NULL: the server makes them */
    FILE *file;
    struct lc_log *log;  /* of another format, in place of file; owned */
    struct ld_logged ev; /* its decision in hand, and how many of the slots behind the first were sent */
    size_t n_slots;
    char *buffer; /* of the line */
    size_t cap_buffer;
    size_t line, bytes;  /* read so far */
    size_t total_bytes;  /* 0: unknown (a pipe) */
    size_t n_understood; /* lines that were of one of the three kinds */
    size_t n_skipped;    /* lines that ask for nothing: configured, late, a second reward, ... */
    /* an index of it is one of `decided`; NULL there: rewarded, and not kept any more */
    struct kb_ids decisions; /* of our own log, with the decided line until it is rewarded */
    char **decided;
    size_t cap_decided;
    char why[LC_WHY];
};

/* path and id_prefix are borrowed. */
int lc_source_open(struct lc_source *s, const char *path, const char *id_prefix); /* "-": standard input; 0 or -1 */
/* A log of another format, whose decisions become observations. */
int lc_source_open_log(struct lc_source *s, const struct lc_log_reader_ops *format, const struct lc_log_options *o);
void lc_source_open_stream(struct lc_source *s, FILE *file, const char *name, const char *id_prefix);
void lc_source_close(struct lc_source *s);

/* Next request: 1 with *task filled, 0 at the end, -1 with s->why = "file:line: ...". The task is the caller's to close
 * after a 1, and empty otherwise. */
int lc_source_next(struct lc_source *s, struct lc_task *task);
void lc_task_close(struct lc_task *task);

/* What `arm` earns in a select task: rewards[arm], else "default" of the line, else 0. For select tasks only; valid
 * while the task is open. */
double lc_task_reward(const struct lc_task *task, const char *arm);

/* The formats in words, for --help. */
extern const char lc_source_help[];

#endif
