/* What an operator does about a shared log that has lost lines which a server's copy has: its database was restored
 * from a backup, or a standby was promoted that had not everything.
 *
 *     push     the copy's lines behind the log's end go back into the log, where all that the log has are the copy's
 *              too. The log gets a new generation, so that every server compares its copy with it
 *     rewind   the copy's lines that the log has not are kept in a file beside it, and the copy is made anew from the
 *              log
 *
 * Both compare the copy with the whole log, line by line. Nothing of it is ever done without being asked for. Who calls
 * has the tenant's files for itself. */
#ifndef LD_REPAIR_SHARED_H
#define LD_REPAIR_SHARED_H

#include "base/problem.h"
#include "types/repair.h"

struct ld_progress;
struct ld_shared_log;

/* 0 with *out, or -1 with the problem: 409 where it is not that what is wrong, 503. `node`: who writes. O(the log). */
int ld_repair_shared(struct ld_shared_log *log, const char *node, const char *data_dir, const char *name,
                     enum ld_repair_action action, struct ld_progress *progress, struct ld_repaired *out,
                     struct ld_problem *p);

#endif
