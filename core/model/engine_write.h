/* A tenant's engine, a model as a fold over its log: its life, and what its one writer asks of it. Events change it by
 * model/commit.h alone, live and in recovery alike; decisions and other readers see it by engine_read.h, threads for
 * long work by engine_background.h.
 *
 * It performs no I/O, reads no clock and starts no thread. One thread at a time calls the functions here; readers may
 * go on beside them, but for free and load. */
#ifndef KB_ENGINE_WRITE_H
#define KB_ENGINE_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed.h"
#include "spec/event.h"

struct kb_engine;

enum kb_err kb_engine_new(struct kb_engine **out, struct kb_hash_key key);
void kb_engine_free(struct kb_engine *e);
/* From the body of a snapshot (kb_engine_save), into a new engine. KB_EVERSION, KB_ECORRUPT, KB_ENOMEM. */
enum kb_err kb_engine_load(struct kb_engine *e, const void *data, size_t n);

/* Before a fold from the beginning: events before `seq` teach only the history, since a reset at `seq` builds
 * the posterior anew. The result is the same bit for bit (test: quiet_fold_equals_plain_fold). */
void kb_engine_fold_quietly_until(struct kb_engine *e, uint64_t seq);

/* Before a fold that is to know nothing of a user: resets that begin at `seq` or later find lengthscales and scales
 * from the configured ones and the history alone, whatever the model in force has learned (engine_reset.c). Their
 * finishing event carries what was found. */
void kb_engine_build_afresh_from(struct kb_engine *e, uint64_t seq);

/* A dictionary reset that the engine's own state calls for (exact_limit passed; a median lengthscale
 * moved; a learned user kernel wants a refresh; a dictionary is to be resampled), to be handled as a batch of its own
 * before new events; and a change, where its line may be written. next->type KB_EV_NONE when nothing is due. */
enum kb_err kb_engine_due(struct kb_engine *e, uint64_t seq, bool may_change, struct kb_event *next);

/* The reset that somebody asks for: the posterior built anew from the history, under the values in force; the first
 * one, behind a summary. KB_EV_NONE when nothing has been learned yet, or when a reset is on its way. */
enum kb_err kb_engine_rebuild(struct kb_engine *e, uint64_t seq, struct kb_event *next);

/* Taking data out of a model (server/task/erase.c): `begin` is a reset that is begun in every case, under the values to
 * come. Another engine folds the log, without what is to go and quietly, over that event and to the end; its build is
 * run; and `finish` is called on it for the event that puts it in force. The evidence is that of `served`, the engine
 * that it takes the place of: it bounds a sum over more observations, and each term of that sum is positive. */
enum kb_err kb_engine_begin_erasure(struct kb_engine *served, struct kb_event *next);
enum kb_err kb_engine_finish_erasure(struct kb_engine *e, const struct kb_engine *served, struct kb_event *next);

/* The open decisions that the user was shown, the one shown last first: ids of up to max of them, *n, borrowed until
 * the next apply. KB_EBUSY: something that is reserved may change which they are. Of the first O(1), then O(max) and
 * what is reserved. */
enum kb_err kb_engine_shown(const struct kb_engine *e, const char *user, const char **ids, size_t max, size_t *n);

/* The newest of the user's decisions that wait to be activated, by deadline, borrowed until the next apply; NULL: none,
 * or the one that the user was shown last is newer. KB_EBUSY as above. O(what is reserved). */
enum kb_err kb_engine_waiting(const struct kb_engine *e, const char *user, const char **id);

/* Earliest deadline among pending decisions, INT64_MAX when none. For the writer. O(1). */
int64_t kb_engine_next_expiry(const struct kb_engine *e);
/* Ids of up to max pending decisions whose deadline is <= now; borrowed until the next apply. For the writer.
 * O(these). */
size_t kb_engine_expired(struct kb_engine *e, int64_t now_ms, const char **ids, size_t max);

/* Bytes that the engine (kb_engine_bytes) at most would take once ev is applied with what it brings along, from sizes:
 * nothing is taken, nothing changes. Equal where the event takes nothing. Call before the event is added. O(ids in the
 * event). */
size_t kb_engine_bytes_after(const struct kb_engine *e, const struct kb_event *ev);

/* Bytes that may be spent on keeping between decisions what each of them would compute again: the factors of the
 * catalogue's arms (arm_columns.h). From the start nothing is kept, as suits a fold that nobody asks; at most
 * KB_MOST_KEPT is. It counts from the next settle on, which also lays out what decisions have missed. The bytes that
 * are taken are part of kb_engine_bytes. */
#define KB_MOST_KEPT ((size_t)16 << 20)
void kb_engine_set_most_kept(struct kb_engine *e, size_t bytes);

#endif
