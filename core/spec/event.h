/* Events of a tenant's log: the only thing that changes a model. Plain structs; every pointer is borrowed
 * for the call. Outcomes of chance (the arm drawn, the points admitted) stand in the event, so a fold draws
 * nothing. The JSON line of each type is described in schema/event.schema.json. */
#ifndef KB_EVENT_H
#define KB_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/decay.h"
#include "spec/eligibility.h"
#include "spec/evidence.h"
#include "spec/routing.h"
#include "spec/spec.h"
#include "spec/tuning.h"

/* X(enum, word in the log), from 1 on. Values are stored: new ones at the end. */
#define KB_EVENT_MAP(X)                                                                                                \
    X(KB_EV_CONFIGURED, "configured")                                                                                  \
    X(KB_EV_GRAPH, "graph")                                                                                            \
    X(KB_EV_ARMS, "arms")                                                                                              \
    X(KB_EV_DECIDED, "decided")                                                                                        \
    X(KB_EV_REWARDED, "rewarded")                                                                                      \
    X(KB_EV_OBSERVED, "observed")                                                                                      \
    X(KB_EV_EXPIRED, "expired")                                                                                        \
    X(KB_EV_ACTIVATED, "activated")                                                                                    \
    X(KB_EV_DICTIONARY, "dictionary")                                                                                  \
    X(KB_EV_LATE, "late")                                                                                              \
    X(KB_EV_SUMMARY, "summary")                                                                                        \
    X(KB_EV_REDACTED, "redacted")                                                                                      \
    X(KB_EV_TUNED, "tuned")                                                                                            \
    X(KB_EV_MEASURED, "measured")                                                                                      \
    X(KB_EV_FORGOTTEN, "forgotten")                                                                                    \
    X(KB_EV_CHANGED, "changed")

enum kb_event_type { KB_EV_NONE, KB_EVENT_MAP(KB_WORD_ENUM) };
extern const struct kb_words kb_event_words;

struct kb_graph_draft; /* graph_draft.h */

struct kb_ev_edge {
    const char *u, *v;
    double weight; /* not read in removals */
};

struct kb_ev_arm {
    const char *id;
    const double *features; /* arm_dim values, or NULL: an arm without features */
    bool is_active;
    bool is_stopped;                          /* shown to nobody */
    const struct kb_eligibility *eligibility; /* NULL: for everybody, always */
    const char *value;                        /* what callers are to be told with the arm; NULL: nothing */
};

/* A value is text that no model reads. */
#define KB_MAX_VALUE_BYTES 4096u

/* An arm put before the user. Slot 0 of a decision is the arm drawn. */
struct kb_ev_slot {
    const char *arm;
    const double *features; /* arm_dim values or NULL when arm_dim is 0 */
};

/* Slots with names were drawn one after the other: how. What the decision itself says is slot 0's, and read there. */
struct kb_ev_draw {
    const char *id;
    const double *context;   /* NULL: that of slot 0 */
    double propensity, mean; /* given the arms before it; mean NaN: the model was not asked */
    uint32_t level;          /* that it teaches */
    uint32_t n_candidates;   /* that it was drawn from; 0: not told */
};

/* A candidate with the propensity of being drawn. */
struct kb_ev_odds {
    const char *arm;
    double propensity;
};

#define KB_METRIC_MAX_BYTES 64u /* of a metric's name */
#define KB_MOST_VALUES 800u     /* of metrics, of one open decision: of each of 16 metrics for each slot */

/* What was told of a metric of a decision, and what it has come to by that: `before` is what the slot had, `total` what
 * it has now where that is not what was told. The model reads neither. */
struct kb_ev_metric {
    const char *name; /* NULL: none */
    bool is_told, has_before, has_total;
    double value, before, total;
};

static inline double kb_ev_metric_total(const struct kb_ev_metric *m)
{
    return m->has_total ? m->total : m->value;
}

/* A dictionary point: the log sequence number that first taught it, and its inclusion probability. */
struct kb_ev_atom {
    uint64_t event;
    double probability;
};

/* Parts of a summary (summary.h), in their order in the log. X(enum, name in the log) */
#define KB_PART_MAP(X)                                                                                                 \
    X(KB_PART_BEGIN, "begin")                                                                                          \
    X(KB_PART_USERS, "users")                                                                                          \
    X(KB_PART_GRAPH, "graph")                                                                                          \
    X(KB_PART_POINTS, "points")                                                                                        \
    X(KB_PART_ARMS, "arms")                                                                                            \
    X(KB_PART_ASSIGNED, "assigned")                                                                                    \
    X(KB_PART_DECISION, "decision")                                                                                    \
    X(KB_PART_END, "end")

enum kb_summary_part { KB_PART_MAP(KB_WORD_ENUM) KB_PART_N };
extern const struct kb_words kb_part_words;

/* An edge between users by their numbers. */
struct kb_ev_link {
    uint32_t u, v;
    double weight;
};

/* Rows of the history by columns; x holds n vectors of context and features joined. */
struct kb_ev_points {
    size_t n;
    const uint32_t *user, *arm, *level;
    const uint64_t *event; /* that first taught the row */
    const double *count, *sum, *x;
    const double *halvings; /* NULL: none has passed for any of them */
};

struct kb_ev_known_arm {
    const char *id;
    const double *features; /* NULL: none */
    bool is_in_catalogue, is_active, is_stopped;
    const struct kb_eligibility *eligibility; /* NULL: none */
    const char *value;                        /* NULL: none */
    uint64_t decided, rewarded;
    double reward_sum, square_sum; /* square_sum NaN: not known */
};

/* Arms that stick to users, by columns: the numbers of both, the route that had drawn the arm, the propensity of that
 * draw, and until when it is shown again. */
struct kb_ev_assigned {
    size_t n;
    const uint32_t *user, *arm;
    const enum kb_route *route;
    const double *propensity;
    const int64_t *until_ms;
};

struct kb_ev_open_slot {
    const char *arm;
    const char *id;    /* NULL: it has no name */
    uint32_t level;    /* of a slot behind the first: that it teaches, */
    double importance; /* and of its draw */
    bool has_reward;
    double reward;   /* in force: the last told, or the sum */
    double halvings; /* when the model was first taught */
    const double *x; /* context, then features */
    bool has_model;  /* the model has not that reward but `model` */
    double model;
    bool is_unlearned, is_forgotten; /* or none: not yet, or for ever */
};

/* What a slot of an open decision has of a metric. */
struct kb_ev_open_value {
    const char *metric;
    uint32_t slot;
    double value;
};

struct kb_ev_totals {
    uint64_t decided, rewarded, observed, expired, late;
    double reward_sum, square_sum;
    struct kb_route_stats routes[KB_ROUTE_N]; /* by the route that had drawn the arm */
    uint64_t unlearned;                       /* rewards that are counted and that the model does not have */
    uint64_t compared;                        /* decisions of an apprentice, and the sum of their matches */
    double match_sum;
    uint64_t reset_rows; /* rows and observations at the last reset */
    double reset_count;
    struct kb_decay decay;
    double n_learned; /* read when anything has been forgotten or counted */
    struct kb_reward_sums sums;
};

/* One part: the members of its kind are read, the others are not. */
struct kb_ev_summary {
    enum kb_summary_part part;
    const struct kb_spec *spec; /* begin: as configured */
    uint64_t version;
    enum kb_repr_type repr; /* begin: in force */
    double context_lengthscale, arm_lengthscale;
    const struct kb_tuning *in_force; /* its values alone; NULL: those of spec. Then the newest refits, oldest first: */
    const double *scale;              /* [n_scale] of contexts, in force */
    size_t n_scale;
    const struct kb_tuning *tunings;
    size_t n_tunings;
    const char *const *users; /* [n_users] */
    const double *squares;    /* [n_users] */
    size_t n_users;
    const uint32_t *nodes; /* [n_nodes] users of the graph's nodes */
    const struct kb_ev_link *links;
    size_t n_nodes, n_links;
    struct kb_ev_points points;
    const char *decision, *user;
    uint32_t level;
    int64_t expires_at_ms;
    bool is_deferred;
    double importance;   /* of slot 0 (tuning.h) */
    enum kb_route route; /* that had drawn the arm */
    const struct kb_ev_open_slot *slots;
    size_t n_slots;
    const struct kb_ev_open_value *values;
    size_t n_values;
    const struct kb_ev_known_arm *arms;
    size_t n_arms;
    struct kb_ev_assigned assigned;
    struct kb_ev_totals totals;
};

#define KB_MAX_SLOTS 50u
#define KB_MAX_TOP 16u   /* of those, without names */
#define KB_MOST_ODDS 64u /* of a decision; of more candidates none are told */
#define KB_MAX_LEVEL 16u /* of a decision under a rule that learns by levels (elimination.h) */

struct kb_event {
    enum kb_event_type type;
    uint64_t seq;   /* 1, 2, 3, ... without gaps */
    int64_t at_ms;  /* Unix time */
    const char *by; /* of what changes something: the id of the key that asked for it; NULL: not told. The model's
                       business it is not */
    union {
        struct {
            const struct kb_spec *spec;
            uint64_t version; /* 1, 2, ... */
        } configured;
        struct { /* replace: the whole graph is users + add; otherwise a patch */
            bool is_replace;
            const char *const *users;
            size_t n_users;
            const struct kb_ev_edge *add, *remove;
            size_t n_add, n_remove;
            struct kb_graph_draft *draft; /* made of this event beforehand, or NULL; used up */
        } graph;
        struct { /* replace: the whole catalogue; otherwise put (by id) and remove */
            bool is_replace;
            const struct kb_ev_arm *put;
            size_t n_put;
            const char *const *remove, *const *stop, *const *start; /* of a patch: the switch alone of what is there */
            size_t n_remove, n_stop, n_start;
        } arms;
        struct {
            const char *decision, *user;
            const double *context; /* of slot 0: context_dim values, may be NULL when 0 */
            const struct kb_ev_slot *slots;
            size_t n_slots;                 /* 1..KB_MAX_SLOTS, without names 1..KB_MAX_TOP */
            const struct kb_ev_draw *draws; /* [n_slots]; NULL: they have no names, and slot 0 alone was drawn */
            double propensity, mean;        /* of slot 0, when decided; mean NaN: the model was not asked */
            enum kb_route route;
            int64_t assigned_until_ms; /* slot 0 was drawn for the user and stays theirs until then; 0: it does not */
            int64_t expires_at_ms;
            bool is_deferred; /* not learned from until activated */
            uint32_t level;   /* that slot 0 teaches, 0..KB_MAX_LEVEL; 0: none, or the rule has no levels */
            bool has_match;
            double match; /* of an apprentice: the probability with which the policy would have shown slot 0 */
            /* For who asks what another policy would have done; not used by the model. The candidates, with features
             * where they were given inline; NULL: they are not told, or all active arms of the catalogue. With none in
             * it: not known. */
            const struct kb_ev_slot *among;
            size_t n_among;
            uint32_t n_candidates; /* how many there were, where `among` does not tell them and the request named them,
                                      or some active arms were none; 0: not told. Not used by the model */
            /* For experiments; not used by the model. All that could be drawn, the arm drawn among them; NULL: not
             * told. */
            const struct kb_ev_odds *odds;
            size_t n_odds;
        } decided;
        struct {
            const char *decision;
            const char *arm; /* NULL: slot 0 */
            double reward;
            /* The sender's, for readers of the log; not used by the model. NULL, 0: not told */
            const char *id, *event; /* id: by which a repeated one is known; event: its name */
            int64_t happened_at_ms;
            struct kb_ev_metric metric; /* of a weighted sum of metrics, whose change `reward` is */
        } rewarded;
        struct { /* a value of a metric that the model does not learn */
            const char *decision;
            const char *arm; /* NULL: slot 0 */
            struct kb_ev_metric metric;
            bool is_late; /* it came after the window, and does not count */
            const char *id, *event;
            int64_t happened_at_ms;
        } measured;
        struct {
            const char *user;
            const double *context;
            struct kb_ev_slot arm;
            double reward;
            double propensity; /* NaN when not told; not used by the model */
            const char *id;    /* the caller's own, by which a repeated one is known; NULL: none; the same */
        } observed;
        struct { /* the window closed; has_reward: the default reward is learned for slots without one */
            const char *decision;
            bool has_reward;
            double reward;
        } expired;
        struct {
            const char *decision;
        } activated;
        struct { /* reset: the representation is built anew from the history with these points */
            bool is_reset;
            /* Long work is two events. `begun`: what follows is made from the history as it stands here, and taught
             * what is learned meanwhile; no points of a reset yet. The event that puts it in force has the number of
             * that one in `from`. Neither: done at once, from the history as it stands. */
            bool is_begun;
            uint64_t from;
            enum kb_repr_type repr;                      /* reset: in force from here on, or once it is done */
            double context_lengthscale, arm_lengthscale; /* the same */
            /* reset: what the rewards before it have proved (evidence.h), all of the mixture, so that a fold that
             * starts here knows it; false when nothing is known */
            bool has_evidence;
            double square, energy[KB_N_MIXTURE], log_det[KB_N_MIXTURE];
            const struct kb_ev_atom *atoms;
            size_t n_atoms;
            bool is_refit;                  /* begun: scales are to be found first, and `tuned` will be what is done */
            const struct kb_tuning *tuning; /* of `tuned`: the values that it puts in force */
            const double *scale;            /* and [n_scale] scales of contexts (spec.h) */
            size_t n_scale;
        } dictionary; /* and tuned: a reset under values that the model has found */
        struct {      /* a reward after its window: kept, not learned */
            const char *decision;
            const char *arm;
            double reward;
            const char *id, *event;
            int64_t happened_at_ms;
        } late;
        struct { /* an arm earns less than it did: what has been learned so far counts less */
            const char *arm;
            double left; /* of its weight, in (0, 1) */
        } changed;
        const struct kb_ev_summary *summary;
        struct {                 /* a line that is gone: of a user who was erased, or that no fold took */
            const char *dropped; /* what stood there and why it went; NULL: erased */
        } redacted;
    } as;
};

/* Whether it is about what the posterior rests on: its members are those of `dictionary`. */
static inline bool kb_event_is_dictionary(const struct kb_event *ev)
{
    return ev->type == KB_EV_DICTIONARY || ev->type == KB_EV_TUNED;
}

/* Of a decision: what the names of its slots take, each with its NUL. */
size_t kb_event_name_bytes(const struct kb_event *decided);

/* Whether it only keeps books: it teaches nothing, so that preparing and applying it is O(its names). */
bool kb_event_is_light(const struct kb_event *ev);

#endif
