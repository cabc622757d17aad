/* What readers see of an engine: decisions, counts and getters. Any number of threads call these, beside each other and
 * beside the writer, but for what stands between the hooks lock and unlock of commit.h. */
#ifndef KB_ENGINE_READ_H
#define KB_ENGINE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "spec/event.h"
#include "spec/spec.h"

struct kb_engine;
struct kb_graph;
struct kb_graph_ref;
struct kb_ids;
struct kb_posterior;
struct kb_scratch;

struct kb_candidate {
    const char *arm;
    const double *features; /* NULL: take them from the catalogue (or none when arm_dim is 0) */
};

/* One of several places that a decision fills one after the other, each with another arm. */
struct kb_slot_query {
    const char *id;
    const double *context;      /* NULL: that of the decision */
    const char *const *exclude; /* arm ids left out here, beside those of the decision */
    size_t n_exclude;
    const char *baseline; /* shown where the policy does not decide and it is a candidate; NULL: as the tenant says */
};

struct kb_placed; /* the engine's: what stands in the places before */

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
    size_t n_shown; /* how many of the best arms will be shown, 0: all. Where bounds do not decide, or one arm is
                       shown, those of others may be NaN, and so may be the sd of those that cannot be among them, whose
                       score then is -inf and whose mean is rough; and the others have no order */
    struct kb_placed *placed; /* NULL */
};

/* Result of decide; arrays live in the scratch until its next use. */
struct kb_decision {
    size_t n; /* candidates considered */
    size_t chosen;
    const char *const *arm;                                       /* [n] */
    const double *const *features;                                /* [n], NULL pointers when arm_dim is 0 */
    const double *mean, *sd, *lower, *upper, *score, *propensity; /* [n] */
    const size_t *order;   /* [n] the chosen one, then by score descending, equal ones as drawn; as far as n_shown */
    const uint32_t *asked; /* [n] the level that mean and sd are of; NULL: the rule has no levels */
    uint64_t n_learned;    /* t: rewards learned */
    size_t n_support;      /* dictionary size (exact: distinct points) */
    uint32_t level;        /* that the arm's reward will teach; 0: none, or the rule has no levels */
    enum kb_route route;   /* how the arm was had */
    bool is_unasked;       /* the model was not asked: its values are NaN */
    bool has_match;        /* of an apprentice: with which probability the policy would have shown the arm */
    double match;
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

/* Several places: slot 0 is drawn as a decision without slots would draw, with its context and without what it
 * excludes; each of the others likewise of what is left, by a number of its own, keyed by q->key and its index.
 * Propensities are given the arms before, and so are deviations, where rules ask for them (posterior.h: kb_beside);
 * levels are asked for each slot by itself. Only slot 0 may stick to its user. `take` is called for each in turn, with
 * what lives as long as the call; not KB_OK: that is the end. Errors beside those above: KB_EINVAL "/slots/3" no
 * candidate is left. */
enum kb_err kb_engine_fit_slots(const struct kb_engine *e, struct kb_scratch *s, const struct kb_query *q,
                                const struct kb_slot_query *slots, size_t n);
enum kb_err kb_engine_decide_slots(const struct kb_engine *e, const struct kb_query *q,
                                   const struct kb_slot_query *slots, size_t n, struct kb_scratch *s,
                                   enum kb_err (*take)(void *arg, size_t slot, const struct kb_decision *d), void *arg,
                                   struct kb_errmsg *msg);

/* Solves what a decision for this user would have to solve first, so that it need not: a graph that is too large to be
 * inverted has a system for a new user. With a scratch that fits. No allocation. */
void kb_engine_meet(const struct kb_engine *e, const char *user, struct kb_scratch *s);

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

/* The arm in the slot of that name of a pending decision; NULL: there is none. */
const char *kb_engine_slot_arm(const struct kb_engine *e, const char *decision, const char *slot);

/* What such a slot has of a metric so far; and KB_EBUSY while an event of the decision is reserved. */
enum kb_err kb_engine_metric(const struct kb_engine *e, const char *decision, const char *arm, const char *metric,
                             bool *has_value, double *value);

/* Arms that a decision over the catalogue ranks, but for those that are stopped or restricted. With the lock of
 * kb_engine_decide. O(1). */
size_t kb_engine_active_arms(const struct kb_engine *e);

/* Bytes that the engine takes, from sizes, and those of them that hold what decisions would compute again
 * (kb_engine_set_most_kept). */
size_t kb_engine_bytes(const struct kb_engine *e);
size_t kb_engine_kept_bytes(const struct kb_engine *e);

/* The newest refits, oldest first: *n of them, borrowed until the next apply. [shared] */
const struct kb_tuning *kb_engine_tunings(const struct kb_engine *e, size_t *n);

struct kb_engine_counts {
    uint64_t seq, version;
    uint64_t decided, rewarded, observed, expired, late, pending;
    uint64_t learned;  /* t */
    uint64_t valued;   /* rewards of which reward_sum is the sum: those, and what the model does not have */
    uint64_t compared; /* decisions of an apprentice, and the sum of their matches */
    double match_sum;
    double halvings;                 /* that what was learned first has been forgotten by (spec/decay.h) */
    uint64_t n_changes, last_change; /* events `changed`, and the last of them */
    double reward_sum;
    struct kb_route_stats routes[KB_ROUTE_N]; /* by the route that had drawn the arm: none is KB_ROUTE_STICKY */
    size_t users, arms, active_arms, stopped_arms, history_rows, n_support;
    size_t width; /* kb_posterior_width, rounded */
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
    const char *value;                        /* NULL: none */
    uint64_t decided, rewarded;
    double reward_sum, square_sum; /* square_sum NaN: not known */
};
size_t kb_engine_n_arms(const struct kb_engine *e); /* every arm ever seen */
struct kb_arm_view kb_engine_arm(const struct kb_engine *e, size_t i);
const char *kb_engine_arm_value(const struct kb_engine *e, const char *arm); /* NULL: none */
/* Whether a rule of the catalogue keeps an active arm that nobody has stopped from some users, or at some times.
 * O(arms). */
bool kb_engine_has_targets(const struct kb_engine *e);
uint64_t kb_engine_version(const struct kb_engine *e); /* of the configuration */

/* Spec in force: configured values, with the lengthscales and representation that resets have put in force. */
const struct kb_spec *kb_engine_spec(const struct kb_engine *e);
const struct kb_graph *kb_engine_graph(const struct kb_engine *e); /* NULL when none */
/* The same, held (user_graph.h), for a patch that is made of it (graph_draft.h), and who the users are: under the
 * readers' lock. */
struct kb_graph_ref *kb_engine_hold_graph(const struct kb_engine *e); /* NULL when none */
const struct kb_ids *kb_engine_users(const struct kb_engine *e);
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

/* What the lines of the log say, and nothing that was computed: equal for all folds of one log, on whatever processor.
 * Of the posterior it has the points of a dictionary, which stand in the log; of what is forgotten, which is weighed by
 * powers, the events alone. What arms and open decisions were told is in it, to the last bit. */
uint64_t kb_engine_logical_digest(const struct kb_engine *e);

/* The body of a snapshot (schema/snapshot.md). KB_EBUSY, KB_ENOMEM. */
enum kb_err kb_engine_save(const struct kb_engine *e, struct kb_writer *w);

#endif
