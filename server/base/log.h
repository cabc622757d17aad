/* The server's log: one line per call on stderr, in logfmt or JSON, safe from every thread.
 *
 *     ts=2026-11-21T10:00:00.123Z level=info msg="tenant opened: default, 12 events" trace=4bf92f35...
 *     {"ts":"2026-11-21T10:00:00.123Z","level":"info","msg":"...","trace":"4bf92f35..."}
 *
 * No line holds a key, a body, or the id of a user, an arm or a decision: whoever adds one keeps to that. Names of
 * tenants and ids of keys are there, for they say whose business it is. What a message has in single quotes is blanked,
 * since that is where the core puts ids.
 *
 * Control characters, quotes and backslashes of the text are escaped, so what a client sent can neither break a
 * line nor forge one. A message is cut at 1 KiB.
 *
 * Nobody waits for the log: a line that the reader of stderr has no room for is lost and counted. Of lines of one kind
 * (one format in the code) only LD_LOG_PER_SECOND go out in a second; the rest is counted, and told afterwards. */
#ifndef LD_LOG_H
#define LD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LD_LOG_PER_SECOND 50

enum ld_log_level { LD_LOG_DEBUG, LD_LOG_INFO, LD_LOG_WARN, LD_LOG_ERROR, LD_LOG_N };

/* Lines below `level` are dropped. The default is LD_LOG_INFO. */
void ld_log_set_level(enum ld_log_level level);

/* "debug" ... "error", NULL past the end; and back (-1 when unknown). */
const char *ld_log_level_name(int level);
int ld_log_level_from_name(const char *name);

/* Before other threads are there: looks at what stderr is, and from then on waits for no reader of it. */
enum ld_log_format { LD_LOG_TEXT, LD_LOG_JSON }; /* in the order of the words of --log-format */
void ld_log_open(bool is_json);

/* fmt, a constant, tells kinds of lines apart. */
void ld_log(enum ld_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line with members behind its message; never limited when is_all. */
struct ld_log_member {
    const char *key, *text; /* text NULL: the number; "": the member is left out */
    double number;
};
void ld_log_members(enum ld_log_level level, const char *msg, bool is_all, const struct ld_log_member *member,
                    size_t n);

/* Now and then: tells how many lines were left out by the limit, once the second is over. */
void ld_log_tick(void);

/* Lines since the start that are missing: the limit left them out; stderr did not take them. */
uint64_t ld_log_n_limited(void);
uint64_t ld_log_n_lost(void);

#endif
