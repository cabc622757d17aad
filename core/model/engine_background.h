/* Long work beside an engine, in other threads than its writer's: builds of models, and snapshots. */
#ifndef KB_ENGINE_BACKGROUND_H
#define KB_ENGINE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct kb_engine;

/* Builds (build.h). Where a change of the model takes more multiply-adds than `work` (from the start: KB_INLINE_WORK),
 * its event only begins it, and a build is open until a second event finishes it. In between the writer, after a batch:
 * lends the build (NULL: nothing to do for a worker now), has it run by any one thread, without any lock, takes it
 * back, and asks kb_engine_due, which tells the event that finishes it once all is done; while much was learned
 * meanwhile there is more to lend. A run ends with KB_OK, KB_ECANCELLED, or KB_ENOMEM and the like, after which the
 * build may be lent again. An engine with an open build cannot be saved (KB_EBUSY); folding its log up to here opens
 * the same build. */
#define KB_INLINE_WORK 2e7
void kb_engine_set_inline_work(struct kb_engine *e, double work);
struct kb_build;
struct kb_build *kb_engine_lend_build(struct kb_engine *e);
enum kb_err kb_build_run(struct kb_build *b); /* any thread */
void kb_build_cancel(struct kb_build *b);     /* any thread: the run ends early */
void kb_engine_return_build(struct kb_engine *e, struct kb_build *b);
bool kb_engine_is_building(const struct kb_engine *e); /* whether a build is open */

struct kb_build_state {
    bool is_open, is_reset; /* else one more point of the dictionary */
    uint64_t from;          /* event that began it */
    uint64_t rows;          /* of the history that it passes over */
    double progress;        /* 0 to 1 */
    bool is_done;           /* it waits for the event that finishes it */
};
void kb_engine_build_state(const struct kb_engine *e, struct kb_build_state *out); /* for readers */

/* What kb_engine_save writes, for another thread to write beside a writer that goes on. It holds the state as it stood
 * when it was taken: what still changes is copied (O(rows) at the speed of memory, and the posterior), what does not is
 * shared, and held back from being freed until the writer drops it. Drop it before the engine is freed. KB_EBUSY,
 * KB_ENOMEM. */
struct kb_snapshot;
enum kb_err kb_engine_take_snapshot(struct kb_engine *e, struct kb_snapshot **out); /* writer */
enum kb_err kb_snapshot_save(const struct kb_snapshot *d, struct kb_writer *w);     /* any thread */
void kb_engine_drop_snapshot(struct kb_engine *e, struct kb_snapshot *d);           /* writer; NULL is fine */

#endif
