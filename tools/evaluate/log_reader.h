/* Logged decisions with their rewards, of several formats, one at a time and in constant memory (but for the arms, and
 * what a format has to keep until a reward comes).
 *
 * A log is read in passes: the first learns which arms there are, later ones show them to every event. Faults are
 * "file:line: field: what was expected". */
#ifndef LC_LOG_READER_H
#define LC_LOG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/ids.h"
#include "common/text.h"

#define LC_LOG_MAX_REASONS 8
#define LC_LOG_UNIFORM (-1.0)

struct lc_log_options {
    const char *path;  /* "-": standard input, which is copied to a file without a name */
    FILE *input;       /* in place of standard input: such a file already, which the log closes */
    const char *items; /* obd: the items' features, NULL: none */
    const char *map;   /* csv, ndjson: which column is what, NULL: by their names */
    uint32_t context_dim, arm_dim;
    uint32_t hash_seed;
    size_t skip_bad;       /* faulty lines passed over before one ends it all */
    double default_reward; /* of decisions without one; NaN: they are left out */
    double propensity;     /* of all decisions, in (0, 1]; LC_LOG_UNIFORM: 1 / candidates; 0: the log tells them */
    bool draws_only;       /* our own log: what was no draw of the policy's kind is passed over (docs/ROUTING.md) */
};

/* One decision. Everything borrowed until the next one is read. */
struct lc_logged {
    size_t line;           /* from 1 */
    const char *user, *id; /* id: of the decision or event, NULL: none */
    int64_t at_ms;         /* Unix time; 0: not told */
    const double *context; /* [context_dim], NULL when that is 0 */
    uint32_t stratum;      /* what action distributions may depend on besides the context: obd's position; else 0 */
    /* Candidates: numbers of arms in the log's table, and their features (NULL, or [n] vectors of arm_dim). */
    size_t n;
    const uint32_t *arm;
    const double *const *features;
    const double *logged; /* [n] the logging policy's probabilities; NULL: only that of the arm chosen is known */
    size_t chosen;        /* index of the arm shown */
    double propensity;    /* of it; NaN: not told */
    double reward;
    size_t epoch; /* events of one epoch have the same candidates; 0: those are its own */
};

struct lc_log;

/* A format. `open` reads what stands in front of the events; `next` gives 1 with *ev, 0 at the end, -1 with log->why
 * for a line that is faulty (the next call goes on behind it) or LC_LOG_BROKEN where nothing can be read any more;
 * `close` frees what the state holds, also after a failed open. The state itself, zeroed before `open`, the file and
 * its lines are the log's. */
struct lc_log_reader_ops {
    const char *name;
    int (*open)(struct lc_log *log);
    int (*next)(struct lc_log *log, struct lc_logged *ev);
    void (*close)(struct lc_log *log);
    size_t state_bytes;
};

#define LC_LOG_BROKEN (-2)

struct lc_log {
    const struct lc_log_reader_ops *ops;
    struct lc_log_options o;
    FILE *file;   /* unpacked */
    FILE *spool;  /* of standard input */
    char *buffer; /* the line in hand */
    size_t cap_buffer, line;
    void *state; /* the format's */
    /* Arms by number in order of first sight, kept from pass to pass. */
    struct kb_ids arms;
    double **features; /* [arms.n] vectors of arm_dim, or NULL */
    size_t cap_features;
    bool *is_offered; /* [arms.n] among the candidates of events that name none */
    size_t cap_offered;
    size_t epoch; /* counts changes of what is offered, from 1 */
    /* the candidates of events that name none: made again when the epoch has moved */
    uint32_t *offered;
    const double **offered_features;
    size_t *place; /* [arms.n] of an arm among them; SIZE_MAX: not there */
    size_t n_offered, cap_list, list_epoch;
    double *context; /* [context_dim] of the event in hand */
    /* the candidates of an event that names its own: room for cap_named */
    uint32_t *named;
    const double **named_features;
    double *vectors; /* their features, [cap_named] of arm_dim */
    size_t cap_named;
    /* Told each line of our own log that changes the graph of users; 0, or -1 with `why` (LC_WHY bytes). NULL: nobody.
     */
    int (*on_graph)(void *arg, const char *line, size_t n, char *why);
    void *graph_arg;
    size_t n_events, n_bad;
    char first_bad[LC_WHY];
    struct {
        const char *reason;
        size_t n;
    } skipped[LC_LOG_MAX_REASONS];
    char why[LC_WHY];
};

/* "obd", "dsjson", "ndjson", "csv"; NULL when unknown. */
const struct lc_log_reader_ops *lc_log_format(const char *name);

/* 0, or -1 with log->why. Close in either case. `o` is copied, its texts are borrowed. */
int lc_log_open(struct lc_log *log, const struct lc_log_reader_ops *ops, const struct lc_log_options *o);
int lc_log_rewind(struct lc_log *log); /* to a new pass; arms are kept, counts begin anew */
void lc_log_close(struct lc_log *log);

/* 1, 0 at the end, -1 with log->why: more faulty lines than were allowed, or nothing can be read. */
int lc_log_next(struct lc_log *log, struct lc_logged *ev);

/* --- for formats ---------------------------------------------------------------------------------------- */

/* "file:line: field: ..." into log->why; -1. field NULL: the line as a whole. */
int lc_log_fail(struct lc_log *log, const char *field, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Next line without its end, blank ones passed over: its length in *n. 1, 0, or LC_LOG_BROKEN. */
int lc_log_line(struct lc_log *log, size_t *n);
void lc_log_skip(struct lc_log *log, const char *reason); /* counts a line that asks for nothing; the text is kept */

/* Number of an arm, made when new, with its own name as its one feature. KB_ID_NONE with log->why: no good id. */
uint32_t lc_log_arm(struct lc_log *log, const char *id);
/* Its features, zeroed, to be filled anew; NULL when arm_dim is 0. */
double *lc_log_arm_features(struct lc_log *log, uint32_t arm);
void lc_log_offer(struct lc_log *log, uint32_t arm, bool is_offered);
/* The candidates of an event that names none: the arms offered, and the one chosen whatever it is. */
void lc_log_candidates(struct lc_log *log, uint32_t chosen, struct lc_logged *ev);
/* The candidates of an event that names its own: room for n of them, then each arm at its place, whose vector is for
 * the format to fill. The second returns where the same arm stands before i, or i. */
void lc_log_name(struct lc_log *log, size_t n, struct lc_logged *ev);
size_t lc_log_name_arm(struct lc_log *log, size_t i, uint32_t arm);
/* Checks propensity (NaN, or in (0, 1]) and reward (finite). 0 or -1. */
int lc_log_check(struct lc_log *log, const struct lc_logged *ev);

/* "2019-11-24 00:03:13.442536+00:00", "2021-02-04T16:31:29.2460000Z" and seconds or milliseconds since 1970; false for
 * others. */
bool lc_log_time(const char *text, int64_t *at_ms);

extern const struct lc_log_reader_ops lc_log_obd, lc_log_dsjson, lc_log_ndjson, lc_log_csv;

#endif
