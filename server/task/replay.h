/* A replay: the lines of a log through a shadow (shadow.h), with what is told of it on the way and at its end, and on
 * request the shadow's own log as lines that a tenant can be made of (restore.h). Knows no HTTP. */
#ifndef LD_REPLAY_H
#define LD_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/settings.h"
#include "base/problem.h"
#include "base/text.h"

struct ld_replay;

struct ld_replay_how {
    const struct ld_settings *settings; /* of the shadow; copied */
    int fd;                             /* of the log; taken over, whatever happens */
    const char *own;                    /* path of the file to be made with the shadow's own log; NULL: none */
    size_t n_head;                      /* lines of the file that stand before the log */
    size_t max_line, quota;             /* bytes of a line, and of the shadow's model; quota 0: any */
};

/* 0, or -1 with the problem: pointers into the configuration begin at "/0/configuration", those into a line with its
 * number from 0. */
int ld_replay_open(struct ld_replay **out, const struct ld_replay_how *how, struct ld_problem *p);
void ld_replay_close(struct ld_replay *x); /* NULL is fine; the file of its own log stays */

/* Up to n more lines. 1: there may be more, 0: that was the last, -1 with the problem. */
int ld_replay_go_on(struct ld_replay *x, size_t n, struct ld_problem *p);
/* Whether every byte of the log has been read: there is no more to come, though nobody has looked yet. */
bool ld_replay_is_read(const struct ld_replay *x);

/* After the last line: the shadow's own log is whole and closed. */
int ld_replay_finish(struct ld_replay *x, struct ld_problem *p);

/* From any thread: it ends soon, with a 503. */
void ld_replay_cancel(struct ld_replay *x);

uint64_t ld_replay_digest(const struct ld_replay *x);

/* Members of an object: how far it is; and what came of it. */
void ld_replay_put_progress(const struct ld_replay *x, struct ld_text *t);
void ld_replay_put_report(const struct ld_replay *x, struct ld_text *t);

#endif
