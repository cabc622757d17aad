/* Inside of the engine, shared by the engine_*.c files only.
 *
 *   engine.c        life, the table of event types, reserve / prepare / apply / rollback
 *   engine_grow.c   grow / swap / collect: room for a batch, and the end of what it replaces
 *   engine_teach.c  what a learning event does to history and model, and how they forget
 *   engine_measure.c  whether a model can compute with what it is told
 *   engine_open.c   open decisions that deviations know
 *   engine_log.c    events of the traffic: decided, rewarded, observed, expired, activated, late
 *   engine_model.c  events that change the model: configured, graph
 *   engine_arms.c   and the catalogue
 *   engine_reset.c  dictionary events that build the posterior anew, at once or in the background
 *   engine_forget.c the event that makes a model forget
 *   engine_admit.c  dictionary events that let one point in, likewise
 *   engine_work.c   what the background is given and gives back
 *   engine_build.c, build.c  the posterior and the dictionary that a reset puts in force; builds
 *   engine_lengthscale.c  median lengthscales
 *   engine_tune.c   refits of the model's own scales
 *   engine_summary.c, engine_summary_check.c  summaries folded (summary.c writes them)
 *   engine_decide.c decide and its scratch
 *   engine_slots.c  several places, one after the other
 *   engine_route.c  who is routed past the policy
 *   engine_read.c   getters, counts, digest
 *   engine_codec.c  snapshot body
 *   engine_snapshot.c  the same for another thread to write
 *   engine_sound.c  whether the parts of a snapshot fit each other
 *
 * State is what the log says; `staged` is what reserve has got ready for events not yet applied. */
#ifndef KB_ENGINE_IMPL_H
#define KB_ENGINE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history/arms.h"
#include "history/assignments.h"
#include "model/build.h"
#include "spec/decay.h"
#include "history/history.h"
#include "base/ids.h"
#include "base/moves.h"
#include "history/pending.h"
#include "base/retired.h"
#include "model/user_graph.h"

struct kb_query;
struct kb_slot_query;
struct kb_decision;

/* A learning step that is reserved: where it will teach, for follow-ups within the batch. x is borrowed from the
 * pending entry or the event. */
struct kb_staged_point {
    uint64_t seq;
    uint32_t user, arm; /* indices to come */
    uint32_t level;     /* that it teaches: 0 without a rule that reads levels */
    double importance;  /* of its draw (tuning.h); 0: not known */
    bool is_open;       /* deviations know of it already (engine_open.c) */
    const double *x;
};

struct kb_staged {
    size_t n_events;
    struct kb_ids fresh_users, fresh_arms; /* new ids in the order in which apply will intern them */
    struct kb_pending_entry **entry;       /* decided events: entries to insert, in order */
    size_t n_entries, cap_entries, next_entry;
    uint32_t *shown; /* users whose open decisions change by what is staged: numbers to come */
    size_t n_shown, cap_shown;
    struct kb_staged_point *point;
    size_t n_points, cap_points;
    struct kb_arm_parts *parts; /* arms event: copies by position, taken over by apply */
    size_t n_parts;
    size_t n_assigned; /* users to have an assignment: the largest number + 1 */
    double *x;         /* observed events: context and features joined; one block per event, in `blocks` */
    void **block;
    size_t n_blocks, cap_blocks;
    bool is_heavy;        /* a model-changing event is reserved: nothing else may join the batch */
    bool is_closed;       /* a dictionary event is reserved: nothing may follow */
    bool forgets_at_once; /* an event `changed` is reserved */
    /* Model changes: */
    bool has_spec;
    struct kb_spec configured;  /* has_spec: the configured values to come */
    struct kb_spec spec;        /* has_spec: those in force to come */
    struct kb_graph_ref *graph; /* to come; NULL: no change of the graph */
    uint32_t *node_of;          /* [cap_nodes] nodes of all users for the graph that is to be installed */
    size_t cap_nodes;
    bool has_users;                 /* the graph's new users are in `moves`: there are many */
    struct kb_catalogue *change;    /* of arms, when it is large (engine_arms.c); new ones are in `moves` */
    struct kb_moves moves;          /* what apply swaps: arrays with many new ids in them */
    struct kb_posterior *posterior; /* built for a reset or for an empty history */
    bool is_planned;                /* it was built by a plan for the reset that follows */
    struct kb_tuning tuning;        /* of a refit that is planned, or reserved: has_tuning */
    struct kb_spec found;           /* of one that is planned */
    bool has_tuning;
    struct kb_spec reset_spec; /* the values that the reset puts in force */
    struct kb_anew *anew;      /* of an event that forgets (engine_forget.c) */
    bool awaits_reset;         /* applied, but what it changes waits for the reset that must come next */
    struct kb_build *build;    /* begun: to be open once the event is applied */
    /* Follow-up returned last: */
    struct kb_ev_atom *atoms; /* owned */
};

/* A summary of which parts are still to come: what can be put in place only when all is there. */
struct kb_draft {
    uint32_t *node; /* [n_nodes] user of each */
    size_t n_nodes, cap_nodes;
    struct kb_ev_link *link; /* [n_links] */
    size_t n_links, cap_links;
    size_t n_arms;   /* that rows have named: the largest number + 1 */
    double halvings; /* the most that had passed when a row or a decision was learned */
};

/* Open decisions as points, in the order in which they were shown (engine_open.c). */
struct kb_open_list {
    struct kb_pending_entry **entry; /* [cap_entries] */
    struct kb_point *point;          /* [cap_points] */
    bool *is_open;                   /* [cap_flags] of the points: the posterior to come has had room for it */
    size_t n, cap_entries, cap_points, cap_flags;
};

#define KB_MAX_WAITING 64u

struct kb_engine {
    struct kb_hash_key key; /* of all its tables */
    bool is_configured;
    struct kb_spec configured; /* as the last configured event says */
    struct kb_spec spec;       /* in force: lengthscales and representation moved by resets */
    uint64_t version, seq, quiet_until;
    uint64_t afresh_from; /* kb_engine_build_afresh_from; 0: no reset */
    struct kb_ids users, arm_ids;
    struct kb_arms arms;
    struct kb_graph_ref *graph_ref; /* holds the graph in force; NULL: none */
    struct kb_user_graph graph;     /* the same, borrowed */
    uint32_t *node_of;              /* [cap_nodes] node of each user index, KB_ID_NONE = unknown to the graph */
    size_t cap_nodes;
    double *square_of; /* [cap_squares] sum of squares of each user's rewards, as square_sum counts them */
    size_t cap_squares;
    struct kb_history history;
    struct kb_decay decay;
    double *surprise; /* [cap_surprise] of each arm (engine_changes.c); 0 where nothing is watched. The writer's */
    size_t cap_surprise;
    struct kb_assignments assignments;
    struct kb_pending pending;
    struct kb_posterior *posterior;
    struct kb_build *build;                    /* open: between its two events in the log. NULL: none */
    struct kb_build *lent;                     /* with a worker; the open one, or one that was superseded meanwhile */
    struct kb_ev_atom waiting[KB_MAX_WAITING]; /* points drawn while a build was open; no part of the state */
    size_t n_waiting;
    size_t most_kept;          /* bytes for values kept between decisions; no part of the state */
    double inline_work;        /* work that a change of the model may do at once; no part of the state */
    struct kb_scratch scratch; /* the writer's */
    uint64_t n_decided, n_rewarded, n_observed, n_expired, n_late;
    struct kb_route_stats routes[KB_ROUTE_N]; /* by the route that had drawn the arm */
    uint64_t n_unlearned;                     /* rewards that are counted and that the model does not have */
    uint64_t n_compared;                      /* decisions of an apprentice, and the sum of their matches */
    double match_sum;
    double reward_sum;
    double square_sum;      /* of the rewards in force: what a reset starts its evidence with when nothing else knows */
    size_t reset_rows;      /* history rows at the last reset */
    double reset_count;     /* and its observations, from which a learned user kernel counts to its next refresh */
    struct kb_draft *draft; /* a summary is being folded. NULL: none */
    struct kb_reward_sums sums;
    struct kb_tuning tuning[KB_MOST_TUNINGS]; /* [n_tunings] the newest refits, oldest first */
    size_t n_tunings;
    bool is_summarized;  /* the log begins with a summary: there is no posterior until a reset behind it */
    size_t checked_rows; /* and when median lengthscales were last looked at; not part of the state */
    struct kb_staged staged;
    struct kb_open_list open;  /* the writer's */
    struct kb_moves moves;     /* arrays that have grown and wait for the swap */
    struct kb_retired retired; /* what was replaced, until kb_engine_collect */
};

/* What an event type does at each step; reserve may fail, the others may not. NULL: nothing to do. */
struct kb_event_ops {
    enum kb_err (*reserve)(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);
    void (*prepare)(struct kb_engine *e, const struct kb_event *ev);
    void (*apply)(struct kb_engine *e, const struct kb_event *ev);
};

extern const struct kb_event_ops kb_ops_configured, kb_ops_graph, kb_ops_arms,
    kb_ops_dictionary; /* engine_model.c, engine_reset.c */
extern const struct kb_event_ops kb_admission_ops, kb_begun_point_ops, kb_entered_point_ops; /* engine_admit.c */
extern const struct kb_event_ops kb_ops_decided, kb_ops_rewarded, kb_ops_observed, kb_ops_expired, kb_ops_activated,
    kb_ops_late, kb_ops_redacted;                  /* engine_log.c */
extern const struct kb_event_ops kb_ops_summary;   /* engine_summary.c */
extern const struct kb_event_ops kb_ops_measured;  /* engine_metric.c */
extern const struct kb_event_ops kb_ops_forgotten; /* engine_forget.c */
extern const struct kb_event_ops kb_ops_changed;   /* engine_changes.c */

static inline size_t kb_engine_dim(const struct kb_engine *e)
{
    return (size_t)e->spec.context_dim + e->spec.arm_dim;
}

/* True while a fold runs ahead of a reset that will build the posterior anew: one that it was told of, or the first
 * behind a summary. */
static inline bool kb_engine_is_quiet(const struct kb_engine *e, uint64_t seq)
{
    return seq < e->quiet_until || (e->is_summarized && e->posterior == NULL);
}

struct kb_user kb_engine_user_at(const struct kb_engine *e, uint32_t user);

/* Index that the id has, or will have once the batch is applied. */
enum kb_err kb_engine_stage_user(struct kb_engine *e, const char *id, uint32_t *ix);
enum kb_err kb_engine_stage_arm(struct kb_engine *e, const char *id, uint32_t *ix);

/* What will be in force once the batch is applied. */
const struct kb_spec *kb_engine_coming_spec(const struct kb_engine *e);
const struct kb_graph *kb_engine_coming_graph(const struct kb_engine *e, const struct kb_spec *spec);
/* The graph as the last event has it, whether or not a model rests on it yet. */
const struct kb_user_graph *kb_engine_last_graph(const struct kb_engine *e);
/* The graph in force from here on, held once more; every user gets its node: O(1) when those are staged. Exclusive. */
void kb_engine_install_graph(struct kb_engine *e, struct kb_graph_ref *graph);

/* Large changes (KB_SMALL_CHANGE) are made beside readers, in copies that apply swaps in; small ones where they are, in
 * apply. */
enum kb_err kb_engine_begin_heavy(struct kb_engine *e); /* such a change wants the batch to itself: KB_EBUSY */
/* Nodes of all users to come, for install. */
enum kb_err kb_engine_stage_nodes(struct kb_engine *e, const struct kb_user_graph *g);
/* For apply: swaps `moves`, and retires what they replace. */
void kb_engine_swap_staged(struct kb_engine *e);
void kb_catalogue_free(void *change);
void kb_anew_free(void *anew);

/* Whether the coming values make another model than the one in force. */
bool kb_engine_changes_model(const struct kb_engine *e);

/* Whether a learned user kernel will have seen enough since the last reset to look again, n_more observations from now.
 */
bool kb_engine_is_refresh_due(const struct kb_engine *e, size_t n_more);

/* Memory kept until the batch is applied or rolled back. NULL: no memory. */
void *kb_engine_stage_block(struct kb_engine *e, size_t n, size_t size);

/* Work of long standing that looks at arrays which may move (rows of the history never change their place within them)
 * holds back what is replaced: between hold and release nothing is freed. Counted; the writer's calls. */
void kb_engine_hold_retired(struct kb_engine *e);
void kb_engine_release_retired(struct kb_engine *e);

/* For apply: what is no longer in force, freed by kb_engine_collect when the lock is given back. Takes ptr over (NULL
 * is fine). Up to KB_RETIRED_PER_EVENT calls per event, whose room `reserve` has made. */
#define KB_RETIRED_PER_EVENT 16u
void kb_engine_retire(struct kb_engine *e, void *ptr, void (*free_it)(void *));
void kb_engine_retire_posterior(struct kb_engine *e, struct kb_posterior *p);
void kb_engine_retire_ids(struct kb_engine *e, struct kb_ids *ids); /* *ids is empty then */

/* Interns at apply time: the room was reserved by grow. */
uint32_t kb_engine_intern_user(struct kb_engine *e, const char *id);
uint32_t kb_engine_intern_arm(struct kb_engine *e, const char *id);

/* Whether a model of this spec can compute with a context, and with the features of an arm, which stand at `pointer` in
 * a body: KB_ERANGE. A vector may be NULL where it has no dimensions. */
enum kb_err kb_measure_context(const struct kb_spec *spec, const double *context, struct kb_errmsg *msg);
enum kb_err kb_measure_features(const struct kb_spec *spec, const double *features, const char *pointer,
                                struct kb_errmsg *msg);
/* The same of an event, for the model in force and the one to come. The writer's. */
enum kb_err kb_engine_measure_context(const struct kb_engine *e, const double *context, struct kb_errmsg *msg);
enum kb_err kb_engine_measure_features(const struct kb_engine *e, const double *features, const char *pointer,
                                       struct kb_errmsg *msg);
/* Whether `spec` can compute with all that the tenant has told: KB_EUNSUPPORTED. O(rows dim) where its kernels have no
 * bound of their own. */
enum kb_err kb_engine_measure_all(const struct kb_engine *e, const struct kb_spec *spec, struct kb_errmsg *msg);

/* Refits (engine_tune.c). Whether one is due with n_more observations; what it reads, as of event `seq`; its plan, done
 * at once or begun. */
bool kb_engine_is_refit_due(const struct kb_engine *e, size_t n_more);
struct kb_refit kb_engine_refit(const struct kb_engine *e, uint64_t seq);
void kb_engine_keep_tuning(struct kb_engine *e, const struct kb_tuning *t);
/* Whether the model finds its scales out, and has not yet. */
bool kb_engine_is_untuned(const struct kb_engine *e);
bool kb_engine_is_tuned(const struct kb_engine *e); /* a refit has been, and others will be */

/* Changes of what arms earn (engine_changes.c). Whether they are looked for; a reward is compared with what is
 * foretold, before it is learned; no arm is surprising any more; whether one is, and then the event that says so. */
bool kb_engine_is_watching(const struct kb_engine *e);
void kb_engine_compare(struct kb_engine *e, const struct kb_point *point, double reward);
void kb_engine_calm(struct kb_engine *e);
bool kb_engine_plan_change(const struct kb_engine *e, struct kb_event *next);
uint64_t kb_engine_surprise_digest(const struct kb_engine *e, uint64_t h);
void kb_engine_save_surprise(const struct kb_engine *e, struct kb_writer *w);
enum kb_err kb_engine_load_surprise(struct kb_engine *e, struct kb_reader *r);

/* Teaching: stage in reserve, teach in apply. pt->x: dim values that live until apply. An event that teaches anything
 * but corrections is a step of forgetting: prepared before, and taken once before it teaches (engine_teach.c). One that
 * would lead beyond what weights can be computed for is refused: KB_ERANGE. */
enum kb_err kb_engine_stage_point(struct kb_engine *e, const struct kb_staged_point *pt);
enum kb_err kb_engine_check_step(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);
void kb_engine_prepare_step(struct kb_engine *e, const struct kb_event *ev);
double kb_engine_take_step(struct kb_engine *e, const struct kb_event *ev); /* halvings that have passed by then */
/* The history and the posterior are in the unit of what has been forgotten by event `seq`, for which the latter is
 * prepared. */
void kb_engine_take_unit(struct kb_engine *e, uint64_t seq);
/* What is counted of a reward, learned or not: n_new of them. */
void kb_engine_book(struct kb_engine *e, uint32_t arm, double n_new, double d_sum, double d_square);
/* Of an observation that was learned when `halvings` had passed: now, or before when it is corrected. */
void kb_engine_teach(struct kb_engine *e, const struct kb_staged_point *pt, double d_count, double d_sum,
                     double d_square, double halvings);
/* The spec in force from here on. Another setting of forgetting counts from here. */
void kb_engine_put_spec(struct kb_engine *e, const struct kb_spec *spec);

/* Open decisions that deviations know (posterior/open.h), where the model is one that asks for it; else nothing is done
 * (engine_open.c). In reserve and apply of an event that shows a decision; before one without a reward is closed, or
 * its reward is not to be learned. */
bool kb_engine_counts_open(const struct kb_engine *e);
enum kb_err kb_engine_stage_open(struct kb_engine *e, const struct kb_pending_entry *entry, uint64_t seq);
void kb_engine_open(struct kb_engine *e, struct kb_pending_entry *entry, uint64_t seq);
void kb_engine_take_back(struct kb_engine *e, const struct kb_pending_entry *entry, struct kb_pending_slot *slot);
/* A posterior to come learns of all that are open; users' nodes are node_of[0..n_nodes-1]. In reserve, of an event that
 * stands alone. And once it is in force: which these are. */
enum kb_err kb_engine_open_all(struct kb_engine *e, struct kb_posterior *p, const uint32_t *node_of, size_t n_nodes,
                               struct kb_scratch *s);
void kb_engine_mark_open(struct kb_engine *e);
/* What they add to a point that enters the dictionary: room in reserve; in prepare, before it is committed. */
enum kb_err kb_engine_reserve_open(struct kb_engine *e);
void kb_engine_sweep_open(struct kb_engine *e);

/* The staged point of an event, or NULL. */
const struct kb_staged_point *kb_engine_staged_point(const struct kb_engine *e, uint64_t seq);

void kb_draft_free(struct kb_draft *d);
/* Items of a summary's parts, and its totals at the end, when the draft is complete (engine_summary_check.c):
 * KB_EINVAL, KB_ERANGE. `last`: the event of the point before. */
enum kb_err kb_summary_check_arm(const struct kb_engine *e, const struct kb_ev_known_arm *arm, size_t i,
                                 struct kb_errmsg *msg);
enum kb_err kb_summary_check_point(const struct kb_engine *e, const struct kb_ev_points *p, size_t i, uint64_t last,
                                   struct kb_errmsg *msg);
enum kb_err kb_summary_check_decision(const struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg);
enum kb_err kb_summary_check_totals(const struct kb_engine *e, const struct kb_ev_totals *t, struct kb_errmsg *msg);
const double *kb_summary_vector(const struct kb_engine *e, const struct kb_ev_points *p, size_t i); /* NULL: dim is 0 */

/* Frees all that is staged for model changes (rollback, and when nothing waits for it any more). */
void kb_engine_drop_model_stage(struct kb_engine *e);

/* Where a reset at `seq` finds what it builds from, in the writer's own turn: the history, graph and nodes to come. */
struct kb_site kb_engine_site(struct kb_engine *e, const struct kb_spec *spec, uint64_t seq);
/* Keys the draws of a reset: by what was learned, not by the number of an event, so that two logs that teach the same
 * choose the same dictionary. */
uint64_t kb_engine_draw_key(const struct kb_engine *e, const struct kb_spec *spec);
bool kb_engine_is_rebuilding(const struct kb_engine *e); /* a build is open, of a whole posterior */
/* A build with room for a view of the history as it will stand after the batch. NULL: no memory. */
struct kb_build *kb_engine_new_build(struct kb_engine *e, uint64_t seq);
/* Opens a build in place of the one that is open; takes the open one away. What is replaced is freed by collect, or
 * when it comes back from its worker. For apply. */
void kb_engine_open_build(struct kb_engine *e, struct kb_build *b);
void kb_engine_close_build(struct kb_engine *e);

/* A reset that the present values call for, into *next: planned in full, or only begun when it is long work. */
enum kb_err kb_engine_plan_reset(struct kb_engine *e, struct kb_spec spec, uint64_t seq, struct kb_event *next);
/* The event that puts a finished build in force. */
enum kb_err kb_engine_plan_finish(struct kb_engine *e, struct kb_event *next);
/* The event that begins what waits for a build to end, if anything does. */
enum kb_err kb_engine_plan_waiting(struct kb_engine *e, struct kb_event *next);
/* The dictionary event that a learning event brings with it. */
enum kb_err kb_engine_follow_learning(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next);

/* Several places that one decision fills (engine_slots.c): the one in hand, and what stands before it. */
struct kb_placed {
    const struct kb_slot_query *slot;
    size_t n, n_slots;
    const char **arm; /* [n] */
    struct kb_beside beside;
};
/* As kb_engine_decide, above what stands in the arena. */
enum kb_err kb_engine_decide_above(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s,
                                   struct kb_decision *out, struct kb_errmsg *msg);
size_t kb_engine_decide_bytes(const struct kb_engine *e, size_t n_candidates, size_t n_exclude);

/* How a decision was routed (engine_route.c). */
struct kb_way {
    enum kb_route route;
    size_t index;      /* of the candidate that it names, SIZE_MAX: to be drawn */
    double propensity; /* of that candidate */
    int64_t assigned_until_ms;
};
/* ids are those of the candidates. O(candidates) where there is anything but a policy. */
struct kb_way kb_engine_find_way(const struct kb_engine *e, const struct kb_query *q, const struct kb_candidates *cand,
                                 const char *const *ids);
/* For a way that is not the policy's. */
/* The arm's place among the candidates, whose names are ids; SIZE_MAX: it is none of them. */
size_t kb_engine_place_of(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                          const char *id);
void kb_way_propensities(const struct kb_way *way, size_t n, double *propensity);
/* What `decided` says of it: in reserve, with the user's number to come; and in apply. */
void kb_engine_stage_route(struct kb_engine *e, const struct kb_event *ev, uint32_t user);
void kb_engine_take_route(struct kb_engine *e, const struct kb_event *ev, struct kb_pending_entry *entry);
/* A change of the reward of a slot, as it is taught. */
void kb_engine_count_reward(struct kb_engine *e, const struct kb_pending_entry *entry,
                            const struct kb_pending_slot *slot, double d_count, double d_sum, double d_square);

/* The open decision that an event is about, not touched by another reserved event (KB_EBUSY); and its slot by name,
 * NULL: slot 0. engine_log.c. */
enum kb_err kb_engine_find_open(struct kb_engine *e, const char *id, struct kb_pending_entry **entry,
                                struct kb_errmsg *msg);
struct kb_pending_slot *kb_engine_find_slot(const struct kb_engine *e, struct kb_pending_entry *entry, const char *arm);

/* Values of metrics (engine_metric.c): in reserve, and in apply. */
enum kb_err kb_engine_keep_metric(struct kb_pending_entry *entry, const struct kb_pending_slot *slot,
                                  const struct kb_ev_metric *metric, struct kb_errmsg *msg);
void kb_engine_take_metric(struct kb_engine *e, struct kb_pending_entry *entry, const struct kb_pending_slot *slot,
                           const struct kb_ev_metric *metric);

/* Parts of the snapshot body (engine_codec.c), which kb_snapshot_save puts together as kb_engine_save does. */
void kb_engine_put_head(const struct kb_engine *e, struct kb_writer *w);
void kb_engine_put_ids(const struct kb_ids *ids, struct kb_writer *w);
void kb_engine_put_tail(const struct kb_engine *e, struct kb_writer *w);

/* Whether a snapshot says what a fold can have left (engine_sound.c): all but the posterior, and the posterior. */
bool kb_engine_is_state_sound(const struct kb_engine *e);
bool kb_engine_is_posterior_sound(const struct kb_engine *e);

/* Median lengthscales (engine_lengthscale.c): moves those of *spec that follow the data to what the history, and the
 * catalogue as `arms_event` (may be NULL) will leave it, say. *has_moved: by more than 5 %. KB_ENOMEM. */
enum kb_err kb_engine_follow_medians(const struct kb_engine *e, const struct kb_event *arms_event, struct kb_spec *spec,
                                     bool *has_moved);

#endif
