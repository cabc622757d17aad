/* How a challenger's scores went over time: points at fixed places of the log, which outlive the process and the lines
 * that they were made of.
 *
 * A point is taken behind the event by which the number of scored decisions reaches the next multiple of `step`. When
 * LD_SCORE_POINTS are there, every second one goes and the step doubles. So points are a function of the log: who
 * follows it again comes to the same ones. They are of one comparison; when another begins, all go.
 *
 * After a compaction and a restart the log has lost decisions, and sums begin behind its summary. Points that were
 * taken before stay, and new ones come behind them. Those of an erased user's decisions stay as well, in their sums. */
#ifndef LD_CHALLENGER_HISTORY_H
#define LD_CHALLENGER_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "store/store.h"
#include "task/challenger_scores.h"

struct kb_event;

/* Behind an event that s has taken, with so many decisions scored before it. True: h is another one than it was. */
bool ld_score_history_take(struct ld_score_history *h, const struct ld_scores *s, uint64_t before,
                           const struct kb_event *ev);

/* Which challenger the points are of: the same number in every process. */
uint64_t ld_challenger_identity(const struct ld_challenger_settings *settings);

struct ld_kept_history {
    uint64_t identity;
    struct ld_score_history history;
};

/* Into the tenant's file, behind event `seq`, as a row beside those of its books: LD_STORE_*. The writer's. */
int ld_score_histories_put(struct ld_store *store, const struct ld_kept_history *kept, size_t n, uint64_t seq,
                           struct ld_message *why);
/* Those that the file has, without what is behind event `tip`: the log was cut. A row that cannot be read is none. */
int ld_score_histories_get(struct ld_store *store, uint64_t tip, struct ld_kept_history kept[LD_MAX_CHALLENGERS],
                           size_t *n);

#endif
