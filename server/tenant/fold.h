/* The fold of a log: from a source to a sink, line by line. A line is decoded here and nowhere else; restarts,
 * verification, repair, erasure, compaction, restores, imports, challengers, replays and evaluations are each a source,
 * a sink, and what they make of the end.
 *
 *     sources   a tenant's file    ld_fold_store, or whatever else calls ld_fold_row with rows
 *               lines of a body    ld_fold_lines: as an export has them
 *     sinks     an engine          ld_engine_sink
 *               others             a function `take` of their own, often in front of an engine
 *
 * The fold ends at the first line that cannot be read, that is refused by its sink, or that is not wanted. It then
 * knows the line, and the fault with pointers into it. */
#ifndef LD_FOLD_H
#define LD_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"
#include "base/problem.h"
#include "spec/event.h"
#include "store/store.h"
#include "types/settings.h"

struct kb_engine;
struct ld_doc;
struct ld_lines;

/* A line that was read. */
struct ld_line {
    const struct ld_row *row; /* of a body's line: its text and its answer alone */
    struct kb_event ev;
    struct ld_doc *doc; /* the event's memory, freed behind the sink; who keeps it puts NULL here */
};

struct ld_sink {
    /* KB_OK, or a refusal; msg is empty before. KB_ECANCELLED: it was told to end. */
    enum kb_err (*take)(void *to, struct ld_line *line, struct kb_errmsg *msg);
    void *to;
    /* Asked before a line is read; NULL: all are wanted. Not 0 ends the fold, with what `fault` may be told:
     * LD_STORE_STOPPED, LD_STORE_CORRUPT, or 1 where that is no failure. */
    int (*before)(void *watch, const struct ld_row *row, struct ld_problem *fault);
    void *watch;
    const uint32_t *context_dim, *arm_dim; /* of the vectors in the next line */
};

/* kb_engine_fold, the path that live events take. */
struct ld_sink ld_engine_sink(struct kb_engine *e);

struct ld_fold {
    struct ld_sink sink;
    uint64_t n_lines, seq; /* taken so far; the number of the last one */
    /* Of its end: */
    int rc;                  /* as ld_fold_row returned last */
    struct ld_row at;        /* the last line that was looked at: seq, at_ms and type, where a file has them */
    uint64_t line;           /* its number in a body, from 1; 0: it came from a file */
    bool is_refused;         /* by the sink; else it could not be read */
    struct ld_problem fault; /* status 0: the line has none */
};

void ld_fold_init(struct ld_fold *f, struct ld_sink sink);

/* One line of a file (for ld_store_read): its number and columns must be those of the row. 0, or what ended the fold:
 * LD_STORE_CORRUPT, LD_STORE_NOMEM, LD_STORE_STOPPED, or what `before` has said. */
int ld_fold_row(void *fold, const struct ld_row *row);

/* As ld_store_read, whose own failures leave no fault. */
int ld_fold_store(struct ld_fold *f, struct ld_store *s, uint64_t after, size_t limit);

/* One line of a body, whose number from 1 is `line`: as an export writes it. Else as ld_fold_row. */
int ld_fold_text(struct ld_fold *f, uint64_t line, const char *text, size_t n);

/* Up to n more lines, without those that are empty. False where the fold has ended, or the source: *end is
 * LD_LINES_END after the last line, else what keeps the source from going on, or LD_LINES_LINE. */
bool ld_fold_lines(struct ld_fold *f, struct ld_lines *from, size_t n, int *end);

/* Whether the log's last reset of the model was begun behind event `before`; a sink's dimensions are those of the
 * log's end. */
struct ld_store;
bool ld_fold_has_reset(struct ld_store *store, struct ld_sink sink, uint64_t before);

/* What ended it, as a sentence for the operator that names the event. */
void ld_fold_say(const struct ld_fold *f, struct ld_message *why);

/* The same for whoever has brought the log, who finds the line and the pointer into it. A problem that is there stays;
 * status is that of a refusal. */
void ld_fold_blame(const struct ld_fold *f, int status, struct ld_problem *p);

/* The settings that an event brings - a configured one, or a summary's beginning - or NULL. The spec is the first
 * member of what it was decoded into (json_in.h). */
const struct ld_settings *ld_line_settings(const struct kb_event *ev);

#endif
