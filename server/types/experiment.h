/* What an experiment says when it is looked at: GET /tenants/{t}/experiment. Values are in units of a reward. */
#ifndef LD_EXPERIMENT_VIEW_H
#define LD_EXPERIMENT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inference/verdict.h"
#include "types/settings.h"

#define LD_EXPERIMENT_ARMS 32u /* at most */

/* Why nothing is counted. */
enum ld_experiment_state {
    LD_EXPERIMENT_OFF, /* the configuration has none */
    LD_EXPERIMENT_RUNS,
    LD_EXPERIMENT_FEW_ARMS,    /* the catalogue has fewer than two arms */
    LD_EXPERIMENT_MANY_ARMS,   /* or more than LD_EXPERIMENT_ARMS */
    LD_EXPERIMENT_NO_BASELINE, /* or not the one that the others are to be compared with */
    LD_EXPERIMENT_N
};

/* The sides of a holdout. */
enum { LD_SIDE_POLICY, LD_SIDE_HOLDOUT, LD_SIDE_N };

/* The first look at which there was something to say, and what was said. It stays. */
struct ld_experiment_stop {
    enum kb_verdict verdict; /* KB_GO_ON: none yet */
    uint64_t seq;            /* of the event behind which it was looked */
    int64_t at_ms;
    uint64_t n; /* decisions of the comparison by then */
    double estimate, low, high;
};

struct ld_experiment_side {
    uint64_t n;
    double mean, low, high; /* mean NaN where n is 0 */
};

struct ld_experiment_arm_view {
    char id[KB_ID_MAX_BYTES + 1];
    struct ld_experiment_side side[LD_SIDE_N];
    double p_best, loss;
};

struct ld_experiment_difference {
    uint64_t n;
    double estimate, low, high; /* estimate NaN while nothing is known */
    double lift;                /* estimate over the mean of what it is compared with; NaN where that is not above 0 */
    double lift_lower, lift_upper; /* its interval, of the objective; NaN: none follows */
    double log10_e;                /* against "there is no difference" */
    double needed;                 /* more decisions of the comparison, roughly; NaN: not known */
    double reach;
    enum kb_verdict verdict; /* of now, or of its stop */
    struct ld_experiment_stop stop;
};

/* A metric by arm. Verdicts of a guardrail: KB_WORSE, harmed; KB_NO_DIFFERENCE, it holds. Of another: KB_BETTER, it is
 * not the baseline's (docs/EXPERIMENTS.md). */
struct ld_experiment_metric_view {
    struct ld_metric_settings settings;
    uint64_t n_clipped;
    struct ld_experiment_side side[LD_EXPERIMENT_ARMS][LD_SIDE_N];
    struct ld_experiment_difference difference[LD_EXPERIMENT_ARMS];
    struct ld_experiment_difference policy; /* against the holdout */
};

struct ld_experiment_view {
    enum ld_experiment_state state;
    struct ld_experiment_settings settings; /* as begun; baseline resolved */
    uint64_t since_seq, seq;                /* where the sums began, and the last event that was taken */
    int64_t since_ms;
    size_t n_arms, baseline;
    struct ld_experiment_arm_view arm[LD_EXPERIMENT_ARMS];
    struct ld_experiment_difference difference[LD_EXPERIMENT_ARMS]; /* by arm; the baseline's says nothing */
    bool has_holdout;
    double holdout;                         /* its share */
    struct ld_experiment_difference policy; /* against the holdout */
    size_t n_sentences;
    uint64_t n_counted, n_waiting, n_left_out, n_clipped, n_beyond;
    int64_t waiting_since_ms; /* of the oldest that waits */
    double traffic_log10_e;   /* the largest so far */
    bool is_void;
    uint64_t void_seq; /* 0: of now, not yet of a look that stays */
    int64_t void_ms;
    bool is_slow;                         /* the rule leaves some arm too rarely shown to prove much */
    bool has_metric_policies;             /* the policy is compared by metrics as well */
    size_t n_metrics, n_tests, n_changes; /* tests: of metrics that are no guardrails */
    struct ld_experiment_metric_view metric[LD_MOST_METRICS];
};

#endif
