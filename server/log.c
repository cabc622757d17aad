/* The log's one writer: formats into a buffer on the stack and hands it over in a single write(2), which the kernel
 * does not interleave with that of another thread on a pipe (up to PIPE_BUF), a terminal or an appended file.
 *
 * The level is the only state of the process here: an atomic, since SIGHUP handlers and tests may change it while
 * others log. Cost of a dropped line: one relaxed load. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "json_out.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static _Atomic int threshold = LD_LOG_INFO;

/* Takes effect for lines begun after it. Called at the start and by tests. */
void ld_log_set_level(enum ld_log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

/* For printing the options in force. */
const char *ld_log_level_name(int level)
{
    return level >= 0 && level < LD_LOG_N ? level_names[level] : NULL;
}

/* Exact spelling. */
int ld_log_level_from_name(const char *name)
{
    for (int i = 0; i < LD_LOG_N; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -1;
}

/* Appends text to line[*n..cap) with quotes, backslashes and control characters escaped; stops before overrunning.
 * Five bytes are kept free: the longest escape has four, and snprintf wants room for its NUL. UTF-8 passes as it is. */
static void append_escaped(char *line, size_t cap, size_t *n, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && *n + 5 < cap; p++) {
        if (*p == '"' || *p == '\\') {
            line[(*n)++] = '\\';
            line[(*n)++] = (char)*p;
        } else if (*p < 0x20 || *p == 0x7f) {
            *n += (size_t)snprintf(line + *n, cap - *n, "\\x%02x", *p);
        } else {
            line[(*n)++] = (char)*p;
        }
    }
}

/* The whole line must leave in one call where possible; a short write (full pipe) is finished, an error dropped:
 * there is nowhere to report that the log itself cannot be written. An interrupted write counts as an error too: a
 * line may be lost, the program goes on. */
static void write_all(const char *line, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, line, n);
        if (done <= 0)
            return;
        line += done;
        n -= (size_t)done;
    }
}

/* Formats nothing when the line is dropped. No allocation: it may be called when memory is out. The text is cut at
 * 767 bytes, the line at 1,024. */
void ld_log(enum ld_log_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    char text[768], line[1024], at[40];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ld_format_time(ld_now_ms(), at);
    size_t n = (size_t)snprintf(line, sizeof line, "ts=%s level=%s msg=\"", at, level_names[level]);
    append_escaped(line, sizeof line - 2, &n, text);
    line[n++] = '"';
    line[n++] = '\n';
    write_all(line, n);
}
