/* Summaries: what the events of a log up to some point have left, as a few events that stand in their place.
 *
 * A summary is a run of `summary` events, its parts, in this order:
 *
 *     begin     configuration, version, and what resets have put in force
 *     users     ids in the order of their numbers, with the sum of squares of each one's rewards
 *     graph     nodes and edges, by users' numbers
 *     points    rows of the history, in their order: user, arm, level, vector, count, sum, first event
 *     arms      ids in the order of their numbers, with catalogue and counts
 *     assigned  arms that stick to users, by the numbers of both; none where there are none
 *     decision  one that is open, with all that its reward needs, by ids
 *     end       totals; from here on the engine is what the events before had made it
 *
 * Lists are cut into several parts of one kind, so that no line of the log grows without bound. The last part has the
 * number of the last event that the summary stands for, so nothing behind it is numbered anew; the first part may have
 * any number, and a fold may begin with it.
 *
 * Everything is in it but the posterior, which a dictionary reset builds from the history. So the log that goes on must
 * hold one that was begun behind the summary (or nothing was learned before), and the fold teaches the history alone
 * until there. The state is the same bit for bit as without the summary: engine digests are equal from the last part
 * on.
 *
 * Not in it: decisions that are closed, single rewards, the order in which they came. */
#ifndef KB_SUMMARY_H
#define KB_SUMMARY_H

#include <stdbool.h>

#include "base/err.h"
#include "spec/event.h"

struct kb_engine;

/* Whether the events so far can be summarized here: no model waits for its reset, no build is open, and no summary
 * lacks its end. */
bool kb_engine_can_be_summarized(const struct kb_engine *e);

/* Whether the engine can serve: configured, and with a posterior. Not so in the middle of a summary, in a quiet fold,
 * and between a summary and the first reset behind it. */
bool kb_engine_is_whole(const struct kb_engine *e);

/* Writes the summary of an engine that stands still. Parts borrow from both until the next one. KB_ENOMEM. */
struct kb_summarizer;
enum kb_err kb_summarizer_new(struct kb_summarizer **out, const struct kb_engine *e);
void kb_summarizer_free(struct kb_summarizer *s);
/* The next part into *ev, whose seq and at_ms are the caller's to set; false after the end. */
bool kb_summarizer_next(struct kb_summarizer *s, struct kb_event *ev);

#endif
