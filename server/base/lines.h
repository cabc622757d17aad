/* The lines of a file, one at a time in a buffer that is used again: bodies that were spooled. */
#ifndef LD_LINES_H
#define LD_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ld_lines {
    FILE *file; /* owned */
    char *text; /* the last line, without its end and blanks before that; not NUL-terminated */
    size_t n;
    uint64_t n_lines, n_bytes; /* read so far, empty lines included */
    size_t cap, max;
};

enum ld_lines_status {
    LD_LINES_LINE = 1,
    LD_LINES_END = 0,
    LD_LINES_LONG = -1,  /* longer than max, or no memory for it */
    LD_LINES_BROKEN = -2 /* the file cannot be read */
};

/* Takes fd over, whatever happens (-1: there is none). A line holds max bytes at most. 0, or -1 without memory or
 * file. */
int ld_lines_open(struct ld_lines *l, int fd, size_t max);
void ld_lines_close(struct ld_lines *l);

/* The next line into l->text; one of nothing but blanks has n 0. */
enum ld_lines_status ld_lines_next(struct ld_lines *l);

#endif
