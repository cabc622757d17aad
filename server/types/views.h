/* What is shown of a tenant, and what is answered of its rewards: taken under its locks, written as JSON without them.
 */
#ifndef LD_VIEWS_H
#define LD_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "base/ids.h"
#include "base/snips.h"
#include "types/settings.h"

#define LD_DUPLICATE 208 /* already reported: inside the program only, clients see a member that says so */

struct ld_reward_result {
    int status; /* 200 applied; LD_DUPLICATE; else the problem's status */
    enum ld_problem_type type;
    const char *detail;
    const char *pointer; /* 400: the place in a reward of its own; NULL: none, or an array's */
    /* Of a reward that named a user: the decisions that got it. NULL: it named one */
    const char *const *decisions;
    size_t n_decisions;
    bool is_repeated; /* 200: it is in the log since an earlier request */
};

struct ld_log_view {
    uint64_t first;      /* number of the first line */
    uint64_t summarized; /* the last event that a summary stands for, 0: none */
    uint64_t bytes;      /* of the files: log, write-ahead log and snapshot */
    bool is_compacting;
    bool is_shared; /* by several servers, and how far this one is behind it */
    uint64_t lag_events;
    int64_t lag_us;
};

struct ld_graph_view {
    size_t n_changes; /* 0: none, and nothing is shown */
    const char *stage;
    double progress;
};
/* What an overview shows of a tenant besides its counts. */
struct ld_overview {
    uint64_t unknown; /* rewards that found no decision, since it was opened */
    int64_t last_ms;  /* when its last event was recorded; -1: not known */
    bool has_experiment, is_void;
    char sentence[KB_ID_MAX_BYTES + 128u]; /* has_experiment: what it says */
    size_t n_challengers;
    struct ld_challenger_glance {
        char name[LD_CHALLENGER_NAME_BYTES];
        uint64_t seq; /* last event that it has read */
        bool is_stopped, is_proved;
        struct kb_estimate difference; /* to what is in force */
    } challenger[LD_MAX_CHALLENGERS];
};
struct ld_tenant_view {
    const char *name;
    const char *state, *detail;         /* in a list: whether it is in memory, and why it cannot be ("": it can) */
    uint64_t read_only_from;            /* the line that no fold takes, with what it said in detail; 0: none */
    const struct ld_settings *settings; /* NULL, in a list: not in memory */
    const struct kb_spec *in_force;
    const struct kb_engine_counts *counts;
    const struct ld_overview *overview; /* in a list; NULL: not asked for */
    bool is_rebuilding;                 /* in this very turn of the writer */
    struct kb_build_state build;        /* or beside it */
    struct ld_graph_view graph;
    struct ld_log_view log;
};

/* The model behind event `seq`: task/model_history.h. NaN: not known, or there is none. */
#define LD_MODEL_POINTS 128u
struct ld_model_point {
    uint64_t seq;
    int64_t at_ms;
    uint64_t version, learned, points;
    double cap; /* of a dictionary */
    double effective_dimension, information_gain;
    double first_weight; /* of the first reward beside one of now */
};
struct ld_model_history {
    uint64_t step;
    size_t n;
    struct ld_model_point point[LD_MODEL_POINTS];
};

struct ld_arm_stats { /* over a time window, from the store */
    const char *arm;
    uint64_t decided, rewarded;
    double reward_sum, square_sum; /* square_sum NaN: not known */
};
/* Values told of a metric since its book has counted them; where that is behind the log nothing is known. */
struct ld_metric_stats {
    char name[KB_METRIC_MAX_BYTES + 1];
    bool is_known;
    uint64_t n;
    double sum;
};

struct ld_window_stats {
    int64_t seconds;
    uint64_t decided, rewarded;
    double reward_sum;
    const struct ld_arm_stats *arms;
    size_t n_arms;
    /* Not of the window, but as of now: */
    bool is_traffic_void; /* of the tenant's experiment */
    struct ld_metric_stats metric[LD_MOST_METRICS];
    size_t n_metrics;
};

#endif
