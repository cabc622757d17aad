/* A tenant from elsewhere: its file, or the lines of its log. What comes in is believed only as far as it has been
 * checked: structure, tables, every line by the decoder and by the fold that the server itself recovers by. */
#ifndef LD_RESTORE_H
#define LD_RESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"

#define LD_RESTORE_SNAPSHOT ".snapshot" /* behind the path */

struct ld_restore {
    const char *path;           /* the database to be checked, or to be made */
    const char *lines;          /* the log to make it from; NULL: path is there */
    size_t max_bytes;           /* of the model; 0: any */
    size_t max_line;            /* bytes of the longest line that is taken */
    bool (*is_over)(void *arg); /* asked now and then: true ends it, with 503 */
    void *arg;
};

struct ld_restored {
    uint64_t events, seq, digest;
    /* What the configuration in force asks for of its server: */
    bool is_relaxed;
};

/* In the calling thread; a fold of the log. On success path is a tenant's file, closed, whole (no write-ahead log
 * beside it) and synced; beside it, where the model could be saved, a snapshot. 0, or -1 with the problem filled: 400
 * names the line and the member. What was begun is the caller's to remove (spool.h). */
int ld_restore(const struct ld_restore *how, struct ld_restored *out, struct ld_problem *p);

#endif
