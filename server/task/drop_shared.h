/* A line of a shared log that no fold takes gives way to a `redacted` one that says what stood there, for all servers.
 *
 * The line is named by the caller and looked for by a fold of the log itself: a server that could not follow it has it
 * in no copy. It is rewritten in the tenant's turn like a line of a user who is erased (erase_shared.c), so every
 * server renews its copy and its model; those that have refused the line go on. */
#ifndef LD_DROP_SHARED_H
#define LD_DROP_SHARED_H

#include "base/message.h"
#include "base/problem.h"
#include "types/repair.h"

struct ld_progress;
struct ld_shared_log;

/* 0 when it is durable, as where the line was dropped before; or -1 with the problem: 404, 409 when the line is not the
 * first that a fold refuses, 503. *why is what the fold says of the line. O(the log). */
int ld_drop_shared(struct ld_shared_log *log, const char *name, const struct ld_repair *wanted,
                   struct ld_progress *progress, struct ld_message *why, struct ld_problem *p);

#endif
