/* The server's log: one line per call on stderr, in logfmt, safe from every thread.
 *
 *     ts=2026-11-21T10:00:00.123Z level=info msg="tenant opened: default, 12 events"
 *
 * Control characters, quotes and backslashes of the text are escaped, so what a client sent can neither break a
 * line nor forge one. A line longer than 1 KiB is cut. */
#ifndef LD_LOG_H
#define LD_LOG_H

enum ld_log_level { LD_LOG_DEBUG, LD_LOG_INFO, LD_LOG_WARN, LD_LOG_ERROR, LD_LOG_N };

/* Lines below `level` are dropped. The default is LD_LOG_INFO. */
void ld_log_set_level(enum ld_log_level level);

/* "debug" ... "error", NULL past the end; and back (-1 when unknown). */
const char *ld_log_level_name(int level);
int ld_log_level_from_name(const char *name);

void ld_log(enum ld_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
