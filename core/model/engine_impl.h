/* What changes an engine, shared by the engine_*.c files that do; what they read as well is engine_state.h.
 *
 *   engine.c        life, the table of event types, reserve / prepare / apply / rollback
 *   engine_grow.c   grow / swap / collect: room for a batch, and the end of what it replaces
 *   engine_teach.c  what a learning event does to history and model, and how they forget
 *   engine_measure.c  whether a model can compute with what it is told
 *   engine_open.c   open decisions that deviations know
 *   engine_log.c    events of the traffic: decided, rewarded, observed, expired, activated, late
 *   engine_model.c  events that change the model: configured, graph
 *   engine_arms.c   and the catalogue
 *   engine_plan.c   when resets fall due, and what their events say
 *   engine_reset.c  dictionary events that build the posterior anew, at once or in the background
 *   engine_forget.c the event that makes a model forget
 *   engine_changes.c  changes of what arms earn, and the event that says so
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

#include "model/engine_state.h"

/* A learning step that is reserved: where it will teach, for follow-ups within the batch. x is borrowed from the
 * pending entry or the event. */
struct kb_staged_point {
    uint64_t seq;
    uint32_t user, arm; /* indices to come */
    uint32_t level;     /* that it teaches: 0 without a rule that reads levels */
    double importance;  /* of its draw (tuning.h); 0: not known */
    bool is_open;       /* deviations know of it already (engine_open.c) */
    bool is_decided;    /* of a decision, and no observation */
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

/* An engine with what its own structure only points to. */
struct kb_engine_whole {
    struct kb_engine engine;
    struct kb_staged staged;
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

/* Index that the id has, or will have once the batch is applied. */
enum kb_err kb_engine_stage_user(struct kb_engine *e, const char *id, uint32_t *ix);
enum kb_err kb_engine_stage_arm(struct kb_engine *e, const char *id, uint32_t *ix);

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

/* For apply: what is no longer in force, freed by kb_engine_collect when the lock is given back. Takes ptr over (NULL
 * is fine). Up to KB_RETIRED_PER_EVENT calls per event, whose room `reserve` has made. */
#define KB_RETIRED_PER_EVENT 16u
void kb_engine_retire(struct kb_engine *e, void *ptr, void (*free_it)(void *));
void kb_engine_retire_posterior(struct kb_engine *e, struct kb_posterior *p);
void kb_engine_retire_ids(struct kb_engine *e, struct kb_ids *ids); /* *ids is empty then */

/* Interns at apply time: the room was reserved by grow. */
uint32_t kb_engine_intern_user(struct kb_engine *e, const char *id);
uint32_t kb_engine_intern_arm(struct kb_engine *e, const char *id);

/* Teaching: stage in reserve, teach in apply. pt->x: dim values that live until apply. An event that teaches anything
 * but corrections is a step of forgetting: prepared before, and taken once before it teaches (engine_teach.c). One that
 * would lead beyond what weights can be computed for is refused: KB_ERANGE. */
enum kb_err kb_engine_stage_point(struct kb_engine *e, const struct kb_staged_point *pt);
enum kb_err kb_engine_check_step(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg);
void kb_engine_prepare_step(struct kb_engine *e, const struct kb_event *ev);
double kb_engine_take_step(struct kb_engine *e, const struct kb_event *ev); /* halvings that have passed by then */
/* The posterior is made ready for the unit of so many halvings, at event `seq`; then it and the history take the unit
 * of what has been forgotten by then. */
void kb_engine_prepare_unit(struct kb_engine *e, double halvings, uint64_t seq);
void kb_engine_take_unit(struct kb_engine *e, uint64_t seq);
/* What is counted of a reward, learned or not: n_new of them. */
void kb_engine_book(struct kb_engine *e, uint32_t arm, double n_new, double d_sum, double d_square);
/* Of an observation that was learned when `halvings` had passed: now, or before when it is corrected. */
void kb_engine_teach(struct kb_engine *e, const struct kb_staged_point *pt, double d_count, double d_sum,
                     double d_square, double halvings);
/* The spec in force from here on. Another setting of forgetting counts from here. */
void kb_engine_put_spec(struct kb_engine *e, const struct kb_spec *spec);

/* Changes of what arms earn (engine_changes.c): a reward is compared with what is foretold, before it is learned; no
 * arm is surprising any more; whether one is, and then the event that says so. */
void kb_engine_compare(struct kb_engine *e, const struct kb_point *point, double reward);
void kb_engine_calm(struct kb_engine *e);
bool kb_engine_plan_change(const struct kb_engine *e, struct kb_event *next);

/* Open decisions that deviations know (posterior/open.h), where the model is one that asks for it; else nothing is done
 * (engine_open.c). In reserve and apply of an event that shows a decision; before one without a reward is closed, or
 * its reward is not to be learned. */
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
/* Frees all that is staged for model changes (rollback, and when nothing waits for it any more). */
void kb_engine_drop_model_stage(struct kb_engine *e);

/* Where a reset at `seq` finds what it builds from, in the writer's own turn: the history, graph and nodes to come. */
struct kb_site kb_engine_site(struct kb_engine *e, const struct kb_spec *spec, uint64_t seq);
/* Keys the draws of a reset: by what was learned, not by the number of an event, so that two logs that teach the same
 * choose the same dictionary. */
uint64_t kb_engine_draw_key(const struct kb_engine *e, const struct kb_spec *spec);
/* A build with room for a view of the history as it will stand after the batch. NULL: no memory. */
struct kb_build *kb_engine_new_build(struct kb_engine *e, uint64_t seq);
/* Opens a build in place of the one that is open; takes the open one away. What is replaced is freed by collect, or
 * when it comes back from its worker. For apply. */
void kb_engine_open_build(struct kb_engine *e, struct kb_build *b);
void kb_engine_close_build(struct kb_engine *e);

/* The event that begins what waits for a build to end, if anything does. */
enum kb_err kb_engine_plan_waiting(struct kb_engine *e, struct kb_event *next);
/* The dictionary event that a learning event brings with it. */
enum kb_err kb_engine_follow_learning(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next);

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

#endif
