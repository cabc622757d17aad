/* What an operator does about a log that no fold takes to its end, so that its tenant cannot be opened:
 *
 *     read_only   the tenant is served as it was before the line that is refused, and takes no changes
 *     drop        the line gives way to a `redacted` one with its number, which says what stood there
 *     lift        a tenant that is read-only, if it is, is to be opened like any other
 *
 * The line is named by the caller and looked for again by a fold: what was repaired meanwhile is not repaired twice.
 * Who calls has the tenant's files for itself.
 *
 * Of a log that several servers share the file is one server's copy. That the tenant is read-only there is that
 * server's own matter: whoever cannot fold a line takes no changes anyway. A line is dropped in the log, for all of
 * them (drop_shared.h). */
#ifndef LD_REPAIR_H
#define LD_REPAIR_H

#include <stdint.h>

#include "base/message.h"
#include "base/problem.h"
#include "store/store.h"
#include "types/repair.h"

/* 0 when it is durable, or -1 with the problem: 409 when the line is not the first that a fold refuses, 503. *why (512
 * bytes) is what the fold says of the line. O(the log). */
struct ld_progress;
int ld_repair(const char *data_dir, const char *name, const struct ld_repair *wanted, struct ld_progress *progress,
              struct ld_message *why, struct ld_problem *p);

/* The first line that a fold refuses; seq 0: none. */
struct ld_refused {
    struct ld_row row; /* its number, time and type */
    struct ld_message why;
};

/* What keeps the line from being treated as wanted: p says 409. `first`: the log's first line. */
void ld_repair_check(const struct ld_refused *s, const struct ld_repair *wanted, uint64_t first, struct ld_problem *p);
/* The line that says what stood there, malloc'd; NULL: no memory. */
char *ld_repair_note(const struct ld_refused *s, const char *by, size_t *n);

#endif
