/* Inside of the book of an experiment: experiment.c folds, experiment_queue.c holds what waits, experiment_io.c saves
 * and loads, experiment_view.c reads. */
#ifndef LD_BOOK_EXPERIMENT_IMPL_H
#define LD_BOOK_EXPERIMENT_IMPL_H

#include "book/experiment.h"
#include "inference/sequences.h"
#include "inference/verdict.h"
#include "spec/event.h"

/* ---- what waits ---------------------------------------------------------------------------------------- */

enum {
    LD_WAITS_HAS_ODDS = 1,   /* to be counted by its arm */
    LD_WAITS_IS_FIRST = 2,   /* of its user, to be counted by its side */
    LD_WAITS_IS_HOLDOUT = 4, /* its side */
    LD_WAITS_IS_SHOWN = 8,   /* not deferred, or activated */
    LD_WAITS_HAS_REWARD = 16,
    LD_WAITS_IS_FINAL = 32,
    LD_WAITS_ALL = 63
};

#define LD_ARM_OTHER 255u /* none of the experiment */

/* Ids are kept by 64-bit hashes. */
struct ld_waiting {
    uint64_t id, slot; /* of the decision, and of the arm shown */
    int64_t at_ms, expires_at_ms;
    double reward;
    uint8_t arm, flags;
};

struct ld_place {
    uint64_t id, number; /* number + 1 of the decision in the queue; 0: empty */
};

/* In the order of decisions; each has n_odds propensities beside it. A table finds them by id. */
struct ld_waiting_queue {
    struct ld_waiting *entry; /* [cap], a ring: number & (cap - 1) */
    double *odds;             /* [cap][n_odds] */
    double *values;           /* [cap][n_values] of metrics; NaN: not told */
    struct ld_place *place;   /* [2 cap] */
    size_t cap, n_odds, n_values;
    uint64_t head, tail; /* numbers of the first, and of the next one */
};

/* KB_ENOMEM, or KB_EFULL at LD_WAITING_MOST_BYTES; nothing changed. */
#define LD_WAITING_MOST_BYTES ((size_t)64 << 20)
enum kb_err ld_waiting_grow(struct ld_waiting_queue *q, size_t n_more);
/* Room must be there. Its odds are zeros, to be filled in, and no value is told. NULL: the id is there already. */
struct ld_waiting *ld_waiting_push(struct ld_waiting_queue *q, const struct ld_waiting *entry, double **odds);
struct ld_waiting *ld_waiting_find(struct ld_waiting_queue *q, uint64_t id);
static inline struct ld_waiting *ld_waiting_head(const struct ld_waiting_queue *q)
{
    return q->head == q->tail ? NULL : &q->entry[q->head & (q->cap - 1)];
}
static inline double *ld_waiting_odds(const struct ld_waiting_queue *q, const struct ld_waiting *entry)
{
    return q->odds + (size_t)(entry - q->entry) * q->n_odds;
}
static inline double *ld_waiting_values(const struct ld_waiting_queue *q, const struct ld_waiting *entry)
{
    return q->values + (size_t)(entry - q->entry) * q->n_values;
}
void ld_waiting_pop(struct ld_waiting_queue *q);
/* Empty, for decisions of n_odds propensities and n_values metrics. */
void ld_waiting_clear(struct ld_waiting_queue *q, size_t n_odds, size_t n_values);
/* Room for values beside what waits already, of which none is told. KB_ENOMEM. */
enum kb_err ld_waiting_widen(struct ld_waiting_queue *q, size_t n_values);
size_t ld_waiting_bytes(const struct ld_waiting_queue *q);

/* Users that had a decision, by hashes; 0 is an empty place. */
struct ld_user_set {
    uint64_t *place; /* [cap] */
    size_t cap, n;
};
enum kb_err ld_users_grow(struct ld_user_set *s);        /* room for one more; as ld_waiting_grow */
bool ld_users_add(struct ld_user_set *s, uint64_t user); /* false: it was there */
void ld_users_clear(struct ld_user_set *s);

/* ---- the book ------------------------------------------------------------------------------------------ */

/* What of the configuration it reads, in force. */
struct ld_experiment_rules {
    struct ld_experiment_settings settings;
    enum kb_rule_type rule;
    enum kb_aggregation aggregation;
    bool has_default;
    double default_reward, epsilon, holdout;
    struct kb_split split; /* of the rule split */
    char salt[KB_SALT_MAX_BYTES + 1];
    struct ld_metric_settings
        metric[LD_MOST_METRICS]; /* that are measured; with any a decision is final with its window */
    size_t n_metrics;
};

/* Ids in their order; beyond LD_CATALOGUE_MOST they are not kept, until the catalogue is replaced. */
#define LD_CATALOGUE_MOST 256u
struct ld_catalogue {
    char **id;
    size_t n, cap;
    bool is_many;
};

struct ld_comparison {
    struct kb_pair pair;
    double reach;
    struct ld_experiment_stop stop;
};

struct ld_arm_sums {
    struct ld_comparison against; /* the baseline */
    struct kb_shown shown[LD_SIDE_N];
    double square[LD_SIDE_N]; /* of its rewards */
};

/* Of one metric. */
struct ld_metric_sums {
    struct ld_metric_settings settings; /* as begun */
    uint64_t n_clipped;
    struct ld_comparison against[LD_EXPERIMENT_ARMS]; /* the baseline */
    struct ld_comparison policy;                      /* against the holdout */
    struct kb_shown shown[LD_EXPERIMENT_ARMS][LD_SIDE_N];
};

struct ld_experiment {
    struct ld_experiment_rules now;
    struct ld_catalogue catalogue;
    enum ld_experiment_state state;
    /* As it was begun: */
    struct ld_experiment_settings begun; /* its baseline resolved */
    uint64_t since_seq, seq;             /* seq: the last event that was taken */
    int64_t since_ms;
    size_t n_arms, baseline;
    char **arm;     /* owned */
    double holdout; /* its share, 0: none is compared */
    /* Sums: */
    struct ld_arm_sums sums[LD_EXPERIMENT_ARMS];
    struct ld_comparison policy;   /* against the holdout */
    struct ld_metric_sums *metric; /* [n_metrics], owned */
    size_t n_metrics;
    bool has_metric_policies; /* else begun before there were any: the arms have all of a metric's level */
    struct kb_traffic traffic[LD_EXPERIMENT_ARMS + 1]; /* the last of n_arms + 1 is the holdout's */
    uint64_t n_counted, n_left_out, n_clipped, n_beyond, next_look;
    double traffic_log_e; /* the largest at a look so far */
    uint64_t void_seq;    /* 0: the traffic has matched */
    int64_t void_ms;
    struct ld_waiting_queue waiting;
    struct ld_user_set users;
};

/* What a rule promises of the arms of a pair: the reach c of the pair e-process. */
double ld_experiment_reach(const struct ld_experiment_rules *rules, size_t n_arms, const char *baseline,
                           const char *arm);
/* Comparisons that share the level. */
size_t ld_experiment_n_sentences(const struct ld_experiment *e);
size_t ld_experiment_n_traffic(const struct ld_experiment *e);

/* A value in [0, 1] of low..high; what is beyond is clipped, and counted. NaN is the least. */
double ld_experiment_scaled(double value, double low, double high, uint64_t *n_clipped);
/* Whether the pair took it. What it is asked does not depend on what was shown or earned. */
bool ld_comparison_add(struct ld_comparison *c, double p_base, double p_arm, bool is_arm, double reward);

/* experiment_view.c: a side and a pair in units of a reward or of a metric; base is the mean that a lift is told of.
 * *low, *high: the interval in units of the range. The verdict and what is needed are the caller's. */
void ld_experiment_show_side(const struct kb_shown *s, double alpha, double zero, double width,
                             struct ld_experiment_side *out);
void ld_experiment_show_pair(const struct ld_comparison *c, double log_inverse, double width, double base,
                             struct ld_experiment_difference *out, double *low, double *high);

/* experiment_metric.c. */
void ld_metrics_take_rules(struct ld_experiment_rules *rules, const struct ld_settings *s);
/* Empty sums, NULL for none; reaches are the caller's to fill in. KB_ENOMEM. */
enum kb_err ld_metrics_begin(const struct ld_experiment_rules *rules, struct ld_metric_sums **out);
bool ld_metrics_are_begun(const struct ld_experiment *e); /* those in force, by their names */
void ld_metrics_take(struct ld_experiment *e, struct ld_waiting *w, const struct kb_ev_metric *metric);
void ld_metrics_count(struct ld_experiment *e, const struct ld_waiting *w, const double *p);
void ld_metrics_look(struct ld_experiment *e, const struct kb_event *ev);
void ld_metrics_show(const struct ld_experiment *e, struct ld_experiment_view *out);

void ld_experiment_save(const void *book, struct kb_writer *w);
enum kb_err ld_experiment_load(void *book, struct kb_reader *r);

#endif
