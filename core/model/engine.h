/* The engine of one tenant: a model as a fold over its log.
 *
 * It performs no I/O, reads no clock and starts no thread. `decide` computes and changes nothing; events
 * change the model by one path, live and in recovery alike:
 *
 *     follow_up (live only: draws the dictionary change an event brings with it)
 *     reserve   validates the event, gets its memory, builds what is heavy           may fail
 *     grow      makes the larger arrays that all that is reserved needs              may fail
 *       -- the caller appends the events to the log and commits --
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
 * Locking: one writer at a time calls the functions above. Those marked exclusive must not run beside
 * readers (decide, facts, digest, getters); the others may. */
#ifndef KB_ENGINE_H
#define KB_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "spec/event.h"
#include "posterior/posterior.h"
#include "spec/spec.h"

struct kb_engine;
struct kb_graph_ref;
struct kb_ids;

enum kb_err kb_engine_new(struct kb_engine **out, struct kb_hash_key key);
void kb_engine_free(struct kb_engine *e);

/* --- writer ---------------------------------------------------------------------------------------- */

/* The dictionary event that must stand right after ev in the log, if any: an admission for a learning event, a
 * reset for a configured or graph event that changes the model of a non-empty history. next->type is
 * KB_EV_NONE when there is none. Call after reserve(ev), before anything else is reserved. *next borrows from
 * the engine until apply or rollback; its seq and at_ms are left to the caller (seq = ev->seq + 1). */
enum kb_err kb_engine_follow_up(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next);

/* A dictionary reset that the engine's own state calls for (exact_limit passed; a median lengthscale
 * moved; a learned user kernel wants a refresh; a dictionary is to be resampled), to be handled as a batch of its own
 * before new events. next->type KB_EV_NONE when nothing is due. */
enum kb_err kb_engine_due(struct kb_engine *e, uint64_t seq, struct kb_event *next);

/* The reset that somebody asks for: the posterior built anew from the history, under the values in force; the first
 * one, behind a summary. KB_EV_NONE when nothing has been learned yet, or when a reset is on its way. */
enum kb_err kb_engine_rebuild(struct kb_engine *e, uint64_t seq, struct kb_event *next);

/* Taking data out of a model (server/task/erase.c): `begin` is a reset that is begun in every case, under the values to
 * come. Another engine folds the log, without what is to go and quietly, over that event and to the end; its build is
 * run; and `finish` is called on it for the event that puts it in force. The evidence is that of `served`, the engine
 * that it takes the place of: it bounds a sum over more observations, and each term of that sum is positive. */
enum kb_err kb_engine_begin_erasure(struct kb_engine *served, struct kb_event *next);
enum kb_err kb_engine_finish_erasure(struct kb_engine *e, const struct kb_engine *served, struct kb_event *next);

enum kb_err kb_engine_reserve(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);
/* After grow, for the same batch. Only copies, and only what the events have no room in: O(history) once in so many
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
 * after a batch. Work of long standing that looks at such arrays (rows of the history never change their place within
 * them) holds them back: between hold and release nothing is freed. Counted; the writer's calls. */
void kb_engine_collect(struct kb_engine *e);
void kb_engine_hold_retired(struct kb_engine *e);
void kb_engine_release_retired(struct kb_engine *e);

/* After a batch, where the confidence rule reads an eigendecomposition: settle makes it anew for all that is applied
 * (beside readers; O(n^3), so once a batch and not once an event), publish shows it to them. Bounds rest on the last
 * one published, which stays valid; a failed settle costs nothing but freshness, and the next one makes up for it. */
enum kb_err kb_engine_settle(struct kb_engine *e);
bool kb_engine_has_settled(const struct kb_engine *e); /* something waits for publish */
void kb_engine_publish(struct kb_engine *e);           /* exclusive, O(1) */

/* Bytes that may be spent on keeping between decisions what each of them would compute again: the factors of the
 * catalogue's arms (arm_columns.h). From the start nothing is kept, as suits a fold that nobody asks; at most
 * KB_MOST_KEPT is. It counts from the next settle on, which also lays out what decisions have missed. The bytes that
 * are taken are part of kb_engine_bytes. */
#define KB_MOST_KEPT ((size_t)16 << 20)
void kb_engine_set_most_kept(struct kb_engine *e, size_t bytes);
size_t kb_engine_kept_bytes(const struct kb_engine *e);

/* Long work beside the engine (build.h). Where a change of the model takes more multiply-adds than `work` (from the
 * start: KB_INLINE_WORK), its event only begins it, and a build is open until a second event finishes it. In between
 * the writer, after a batch: lends the build (NULL: nothing to do for a worker now), has it run by any one thread,
 * without any lock, takes it back, and asks kb_engine_due, which tells the event that finishes it once all is done;
 * while much was learned meanwhile there is more to lend. A run ends with KB_OK, KB_ECANCELLED, or KB_ENOMEM and the
 * like, after which the build may be lent again. An engine with an open build cannot be saved (KB_EBUSY); folding its
 * log up to here opens the same build. */
#define KB_INLINE_WORK 2e7
void kb_engine_set_inline_work(struct kb_engine *e, double work);
struct kb_build;
struct kb_build *kb_engine_lend_build(struct kb_engine *e);
enum kb_err kb_build_run(struct kb_build *b); /* any thread */
void kb_build_cancel(struct kb_build *b);     /* any thread: the run ends early */
void kb_engine_return_build(struct kb_engine *e, struct kb_build *b);
bool kb_engine_is_building(const struct kb_engine *e);   /* whether a build is open */
bool kb_engine_is_rebuilding(const struct kb_engine *e); /* and it is a whole posterior */

struct kb_build_state {
    bool is_open, is_reset; /* else one more point of the dictionary */
    uint64_t from;          /* event that began it */
    uint64_t rows;          /* of the history that it passes over */
    double progress;        /* 0 to 1 */
    bool is_done;           /* it waits for the event that finishes it */
};
void kb_engine_build_state(const struct kb_engine *e, struct kb_build_state *out); /* for readers */

/* reserve, grow, swap, prepare, apply and collect in one call: for folds without readers. On failure nothing has
 * changed. */
enum kb_err kb_engine_fold(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);

/* Before a fold from the beginning: events before `seq` teach only the history, since a reset at `seq` builds
 * the posterior anew. The result is the same bit for bit (test: quiet_fold_equals_plain_fold). */
void kb_engine_fold_quietly_until(struct kb_engine *e, uint64_t seq);

/* --- readers --------------------------------------------------------------------------------------- */

struct kb_candidate {
    const char *arm;
    const double *features; /* NULL: take them from the catalogue (or none when arm_dim is 0) */
};

struct kb_query {
    const char *user;
    const struct kb_attribute *attributes; /* of the user, for the arms' eligibility; up to KB_MAX_ATTRIBUTES */
    size_t n_attributes;
    int64_t now_ms;   /* for schedules, and for what sticks */
    bool is_unrouted; /* what the policy makes of the candidates as they are: no switch, rule or route is looked at */
    const double *context;                 /* context_dim values */
    const struct kb_candidate *candidates; /* none: every active arm of the catalogue */
    size_t n_candidates;
    const char *const *exclude; /* arm ids left out */
    size_t n_exclude;
    uint64_t key;   /* keys the draw: a hash of the decision id */
    size_t n_shown; /* how many of the best arms will be shown, 0: all. Where bounds do not decide, those of others are
                       NaN; and the others have no order */
};

/* Result of decide; arrays live in the scratch until its next use. */
struct kb_decision {
    size_t n; /* candidates considered */
    size_t chosen;
    const char *const *arm;                                       /* [n] */
    const double *const *features;                                /* [n], NULL pointers when arm_dim is 0 */
    const double *mean, *sd, *lower, *upper, *score, *propensity; /* [n] */
    const size_t *order; /* [n] the chosen one, then by score descending, equal ones as drawn; as far as n_shown */
    uint64_t n_learned;  /* t: rewards learned */
    size_t n_support;    /* dictionary size (exact: distinct points) */
    uint32_t level;      /* that the arm's reward will teach; 0: none, or the rule has no levels */
    enum kb_route route; /* how the arm was had */
    bool is_unasked;     /* the model was not asked: its values are NaN */
    int64_t assigned_until_ms; /* the arm was drawn and is to stay the user's until then; 0: it is not */
};

/* Reader memory; one per concurrent decide. */
enum kb_err kb_engine_scratch_new(struct kb_scratch **out);
void kb_engine_scratch_free(struct kb_scratch *s);
/* Makes *s large enough for a decision of n candidates (0: the catalogue). Allocates only when it must. */
enum kb_err kb_engine_fit_scratch(const struct kb_engine *e, struct kb_scratch *s, size_t n_candidates,
                                  size_t n_exclude);

/* Errors: KB_ENOTFOUND "/candidates/3" unknown arm without features; KB_EINVAL no candidate is left, features
 * missing or a candidate twice. No allocation. Of a route past the policy the propensities are those of the draw that
 * had the arm: docs/ROUTING.md. */
enum kb_err kb_engine_decide(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s,
                             struct kb_decision *out, struct kb_errmsg *msg);

enum kb_decision_state {
    KB_DECISION_UNKNOWN, /* never seen, or closed: the log knows */
    KB_DECISION_PENDING,
    KB_DECISION_DEFERRED
};
enum kb_decision_state kb_engine_decision_state(const struct kb_engine *e, const char *decision);

/* Reward so far of a slot of a pending decision (arm NULL: slot 0): KB_ENOTFOUND no such decision or slot,
 * *has_reward false when none yet. */
enum kb_err kb_engine_slot_reward(const struct kb_engine *e, const char *decision, const char *arm, bool *has_reward,
                                  double *reward);

/* Earliest deadline among pending decisions, INT64_MAX when none. For the writer. O(1). */
int64_t kb_engine_next_expiry(const struct kb_engine *e);
/* Arms that a decision over the catalogue ranks, but for those that are stopped or restricted. With the lock of
 * kb_engine_decide. O(1). */
size_t kb_engine_active_arms(const struct kb_engine *e);

/* Ids of up to max pending decisions whose deadline is <= now; borrowed until the next apply. For the writer.
 * O(these). */
size_t kb_engine_expired(struct kb_engine *e, int64_t now_ms, const char **ids, size_t max);

/* Bytes that the engine takes, and at most would take once ev is applied with what it brings along, from sizes: nothing
 * is taken, nothing changes. Equal where the event takes nothing. The writer's calls, before reserve. O(ids in the
 * event). */
size_t kb_engine_bytes(const struct kb_engine *e);
size_t kb_engine_bytes_after(const struct kb_engine *e, const struct kb_event *ev);

struct kb_engine_counts {
    uint64_t seq, version;
    uint64_t decided, rewarded, observed, expired, late, pending;
    uint64_t learned; /* t */
    double reward_sum;
    struct kb_route_stats routes[KB_ROUTE_N]; /* by the route that had drawn the arm: none is KB_ROUTE_STICKY */
    size_t users, arms, active_arms, stopped_arms, history_rows, n_support;
    size_t pending_bytes, bytes;
    uint64_t clamped; /* by the posterior in force: see kb_posterior_facts */
    /* Most decisions have no reward, no window teaches one, and all that came are equal: every mean is that value. */
    bool is_one_sided;
};
void kb_engine_counts(const struct kb_engine *e, struct kb_engine_counts *out);

struct kb_arm_view {
    const char *id;
    const double *features; /* NULL when it has none */
    bool is_in_catalogue, is_active, is_stopped;
    const struct kb_eligibility *eligibility; /* NULL: for everybody, always */
    uint64_t decided, rewarded;
    double reward_sum;
};
size_t kb_engine_n_arms(const struct kb_engine *e); /* every arm ever seen */
struct kb_arm_view kb_engine_arm(const struct kb_engine *e, size_t i);

/* Spec in force: configured values, with the lengthscales and representation that resets have put in force. */
const struct kb_spec *kb_engine_spec(const struct kb_engine *e);
const struct kb_graph *kb_engine_graph(const struct kb_engine *e); /* NULL when none */
/* The same, held (user_graph.h), for a patch that is made of it (graph_draft.h), and who the users are: under the
 * readers' lock. */
struct kb_graph_ref *kb_engine_hold_graph(const struct kb_engine *e); /* NULL when none */
const struct kb_ids *kb_engine_users(const struct kb_engine *e);
const char *kb_engine_graph_user(const struct kb_engine *e, uint32_t node);
const char *kb_engine_user(const struct kb_engine *e, uint32_t user);
bool kb_engine_knows_user(const struct kb_engine *e, const char *id); /* by any event, or from the graph */
const char *kb_engine_arm_id(const struct kb_engine *e, uint32_t arm);
const struct kb_posterior *kb_engine_posterior(const struct kb_engine *e); /* NULL before the first configured */

/* 64-bit digest of everything that decides future answers: spec, graph, catalogue, history, pending,
 * counters, posterior bits. Equal after a restart and after a fresh fold on one machine. */
uint64_t kb_engine_digest(const struct kb_engine *e);

/* The same without what depends on the way to it: numbers and times of events, open decisions, evidence. Equal for two
 * engines that hold the same users, arms, graph, history and model, in the same order. */
uint64_t kb_engine_content_digest(const struct kb_engine *e);

/* Snapshot body (schema/snapshot.md) and back; load wants a new engine. KB_EVERSION, KB_ECORRUPT, KB_ENOMEM. */
enum kb_err kb_engine_save(const struct kb_engine *e, struct kb_writer *w);
enum kb_err kb_engine_load(struct kb_engine *e, const void *data, size_t n);

/* The same for another thread to write, beside a writer that goes on. It holds the state as it stood when it was
 * taken: what still changes is copied (O(rows) at the speed of memory, and the posterior), what does not is shared, and
 * held back from being freed until the writer drops it. Drop it before the engine is freed. KB_EBUSY, KB_ENOMEM.
 */
struct kb_snapshot;
enum kb_err kb_engine_take_snapshot(struct kb_engine *e, struct kb_snapshot **out); /* writer */
enum kb_err kb_snapshot_save(const struct kb_snapshot *d, struct kb_writer *w);     /* any thread */
void kb_engine_drop_snapshot(struct kb_engine *e, struct kb_snapshot *d);           /* writer; NULL is fine */

#endif
