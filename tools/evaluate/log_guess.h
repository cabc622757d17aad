/* What a file of traffic seems to be, by its first line, for people who did not say: what to give as --format. Nothing
 * is read by a guess. */
#ifndef LC_LOG_GUESS_H
#define LC_LOG_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* line: n bytes and a NUL. True with a sentence in `out` (LC_WHY bytes) that says what it looks like and what to give;
 * false where it is an object as `replay` takes it without a format, or nothing that is known. */
bool lc_log_guess(const char *line, size_t n, char *out);

/* The same of the first line of a file, unpacked, where any object will do: for `evaluate`. Standard input is not
 * looked at. */
bool lc_log_guess_file(const char *path, char *out);

#endif
