/* Where lines of the log go. For log.c, which calls it under its lock. */
#ifndef LD_LOG_OUT_H
#define LD_LOG_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether stderr is a journal's stream, which reads priorities at the start of lines. */
bool ld_log_out_is_journal(void);

/* From now on no write waits. */
void ld_log_out_open(void);

/* A whole line, at most PIPE_BUF bytes. False: not taken, or in part. */
bool ld_log_out_write(const char *line, size_t n);

#endif
