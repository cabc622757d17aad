/* Times as texts: the log, the bodies and the server's own messages write them in one form, which is the only one that
 * is read. */
#ifndef LD_TIME_TEXT_H
#define LD_TIME_TEXT_H

#include <stdint.h>

/* ISO 8601 UTC with milliseconds, "2026-11-21T10:00:00.123Z" (buffer of at least 32; years 1970 to 9999), and back (-1
 * when malformed). */
void ld_format_time(int64_t at_ms, char *out);
int ld_parse_time(const char *text, int64_t *at_ms);

#endif
