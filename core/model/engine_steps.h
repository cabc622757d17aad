/* The steps of a commit, in the engine: commit.c takes them in this order, and nobody else does but for tests.
 *
 *     reserve   validates the event, gets its memory, builds what is heavy           may fail
 *     follow_up the dictionary change that it brings with it (live only)             may fail
 *     grow      makes the larger arrays that all that is reserved needs              may fail
 *       -- the events are appended to the log --
 *     swap      puts them in place, when there are any                               O(1), exclusive
 *     prepare   heavy work that cannot fail (the sweep over the history)
 *     apply     makes the event visible                                              cannot fail, exclusive
 *     collect   frees what swap and apply have replaced
 *     rollback  instead of prepare/apply: forgets everything reserved
 *
 * A failed reserve leaves the events reserved before it as they were; the batch may go on with other events.
 * A batch is reserved event by event and then applied in the same order. KB_EBUSY from reserve means: the
 * event depends on one that is reserved but not applied; apply the batch first. Heavy events (configured,
 * graph, dictionary resets) want an empty batch before them, and nothing may follow a dictionary event in
 * its batch.
 *
 * Those marked exclusive must not run beside readers (engine_read.h); the others may. */
#ifndef KB_ENGINE_STEPS_H
#define KB_ENGINE_STEPS_H

#include <stdbool.h>

#include "base/err.h"
#include "spec/event.h"

struct kb_engine;

enum kb_err kb_engine_reserve(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);

/* The dictionary event that must stand right after ev in the log, if any: an admission for a learning event, a
 * reset for a configured or graph event that changes the model of a non-empty history. next->type is
 * KB_EV_NONE when there is none. Call after reserve(ev), before anything else is reserved. *next borrows from
 * the engine until apply or rollback; its seq and at_ms are left to the caller (seq = ev->seq + 1). */
enum kb_err kb_engine_follow_up(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next);

/* For all that is reserved. Only copies, and only what the events have no room in: O(history) once in so many
 * rows as there are. A failure leaves the batch reserved; roll it back. */
enum kb_err kb_engine_grow(struct kb_engine *e);
bool kb_engine_has_grown(const struct kb_engine *e); /* something waits for swap */
void kb_engine_swap(struct kb_engine *e);            /* exclusive, O(1) */
void kb_engine_prepare(struct kb_engine *e, const struct kb_event *ev);
void kb_engine_apply(struct kb_engine *e, const struct kb_event *ev); /* exclusive */
/* Whether apply, right now, changes nothing that kb_engine_decide reads: then only other readers need be kept out. True
 * of a decision of a user and arms that are known, which sticks to nobody, and of what teaches nothing. O(slots). */
bool kb_engine_is_unseen(const struct kb_engine *e, const struct kb_event *ev);
void kb_engine_rollback(struct kb_engine *e);

/* Frees what is no longer in force: arrays that have moved, a posterior or a graph that was replaced. Without the lock,
 * after a batch. Nothing where somebody holds them back (kb_engine_hold_retired). */
void kb_engine_collect(struct kb_engine *e);

/* After a batch, where the confidence rule reads a decomposition (spectrum.h): settle makes it anew for all that is
 * applied (beside readers; O(n^3), so once a batch and not once an event), publish shows it to them. Bounds rest on the
 * last one published, which stays valid; a failed settle costs nothing but freshness, and the next one makes up for
 * it. */
enum kb_err kb_engine_settle(struct kb_engine *e);
bool kb_engine_has_settled(const struct kb_engine *e); /* something waits for publish */
void kb_engine_publish(struct kb_engine *e);           /* exclusive, O(1) */

#endif
