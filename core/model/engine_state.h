/* What an engine is made of, for the files that read it; what changes it is engine_impl.h. State is what the log says.
 */
#ifndef KB_ENGINE_STATE_H
#define KB_ENGINE_STATE_H

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

struct kb_staged;

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
    bool is_summarized;        /* the log begins with a summary: there is no posterior until a reset behind it */
    size_t checked_rows;       /* and when median lengthscales were last looked at; not part of the state */
    struct kb_staged *staged;  /* what reserve has got ready (engine_impl.h) */
    struct kb_open_list open;  /* the writer's */
    struct kb_moves moves;     /* arrays that have grown and wait for the swap */
    struct kb_retired retired; /* what was replaced, until kb_engine_collect */
};

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

/* What will be in force once the batch is applied. */
const struct kb_spec *kb_engine_coming_spec(const struct kb_engine *e);
const struct kb_graph *kb_engine_coming_graph(const struct kb_engine *e, const struct kb_spec *spec);
/* The graph as the last event has it, whether or not a model rests on it yet. */
const struct kb_user_graph *kb_engine_last_graph(const struct kb_engine *e);
bool kb_engine_is_rebuilding(const struct kb_engine *e); /* a build is open, of a whole posterior */
/* Whether deviations know open decisions (engine_open.c). */
bool kb_engine_counts_open(const struct kb_engine *e);

/* Work of long standing that looks at arrays which may move (rows of the history never change their place within them)
 * holds back what is replaced: between hold and release nothing is freed. Counted; the writer's calls. */
void kb_engine_hold_retired(struct kb_engine *e);
void kb_engine_release_retired(struct kb_engine *e);

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

/* Median lengthscales (engine_lengthscale.c): moves those of *spec that follow the data to what the history, and the
 * catalogue as `arms_event` (may be NULL) will leave it, say. *has_moved: by more than 5 %. KB_ENOMEM. */
enum kb_err kb_engine_follow_medians(const struct kb_engine *e, const struct kb_event *arms_event, struct kb_spec *spec,
                                     bool *has_moved);

#endif
