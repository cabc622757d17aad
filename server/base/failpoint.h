/* Named points where a crash test lets the process die, as a power cut would: LAPLACED_FAILPOINT=name[:count] kills
 * it with SIGKILL at the count-th passage (default: the first). Nothing is flushed and no handler runs. With name@PATH
 * whoever comes by waits there as long as there is a file at PATH, as for a disk that does not answer.
 *
 *   before_take     a turn in a shared log is asked for
 *   after_take      it is had, and all that others wrote is applied
 *   mid_follow      a batch of others is reserved, and not in the copy
 *   before_shared_append   a batch is reserved, and nothing is in the shared log
 *   after_shared_commit    it is in the shared log, and not in the copy
 *   before_shared_erasure  a user's lines are to be rewritten in the shared log, and nothing is there yet
 *   before_shared_rewrite  they are rewritten in the transaction, which is not committed
 *   after_shared_erasure   the shared log has it, and not the copy
 *   mid_renewal     a batch of a log that was rewritten is held against the copy
 *   before_renewal  the copy is renewed in the transaction, which is not committed
 *   before_shared_summary  a summary is to go into the shared log, nothing was sent
 *   before_shared_compaction  it is in the transaction, which is not committed
 *   after_shared_summary   it is in the shared log, and not read back
 *   mid_shared_send  a line of a file is on its way into the shared log, in a transaction that is not committed
 *   before_shared_push     lost lines are in the transaction, but for the last
 *   after_shared_drop      a line that no fold takes is dropped in the shared log, and the copy has it
 *   before_exchange        a tenant has another's place in the transaction, which is not committed
 *   after_exchange         it has it in the shared log, and the copy is the other's
 *   before_rewind          lines are kept in a file, the copy is as it was
 *   before_append   a batch is reserved, nothing is in the file
 *   after_append    its rows are written in the transaction, which is not committed
 *   after_commit    the batch is durable, not applied, not answered
 *   after_apply     applied, not answered
 *   mid_snapshot    the temporary snapshot file is written, not renamed
 *   mid_migration   between two statements of a new schema
 *   mid_graph       a graph made beside the writer is there, and its turn has not come
 *   mid_pieces      after each piece of a graph's row that is in the file
 *   mid_build       a model built beside the writer is there, and not in force
 *   mid_erasure     the snapshot is removed, the lines of the log are not rewritten
 *   mid_compaction  after each step that changes the file: lines staged, the log's start moved, rows trimmed
 *   mid_key         a key's row is made or gone, and requests do not know yet
 *   mid_recovery    before a line of the log is folded into a model that is being opened
 *   mid_refold      before a line of the log is folded into another model beside the traffic
 *   in_tick         in the loop's timer */
#ifndef LD_FAILPOINT_H
#define LD_FAILPOINT_H

#include <stdbool.h>

/* Reads the environment at its first call only; otherwise one comparison. */
void ld_failpoint(const char *name);

/* Whether text is a failpoint's name with an optional count >= 1, or with a path (then the count is 0); fills
 * *name_length and *count. */
bool ld_failpoint_parse(const char *text, int *name_length, long *count);

#endif
