/* A tenant's configuration with what only the server uses: challengers, guardrail, durability, retention. */
#ifndef LD_SETTINGS_H
#define LD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/feature_names.h"
#include "base/words.h"
#include "spec/event.h"
#include "spec/spec.h"

#define LD_MAX_CHALLENGERS 4u
#define LD_CHALLENGER_NAME_BYTES 65u /* with the NUL; names are as those of tenants */
#define LD_CHALLENGER_PREVIOUS "previous"

/* A configuration that is followed beside the one in force (challenger.h); how rewards are booked is the tenant's. */
struct ld_challenger_settings {
    char name[LD_CHALLENGER_NAME_BYTES];
    struct kb_spec spec;
};

/* Why a configuration that was a challenger's is in force. */
enum ld_promotion_reason {
    LD_PROMOTED_NOT,
    LD_PROMOTED_ON_REQUEST,
    LD_PROMOTED_BY_GUARDRAIL,
    LD_PROMOTED_BY_ROLLBACK,
    LD_PROMOTED_N
};

/* What is compared, and by when it is enough (book/experiment.h). Rewards are clipped to low..high. */
struct ld_experiment_settings {
    bool is_on;                         /* else nothing else of it is read */
    char baseline[KB_ID_MAX_BYTES + 1]; /* "": the first arm of the catalogue */
    double difference;                  /* the smallest that matters, > 0, in units of a reward */
    double level, traffic_level;        /* chances of a wrong sentence and of a false alarm, 1e-6..0.5 */
    double low, high;
};

#define LD_MOST_METRICS 16u

/* X(enum, word) */
#define LD_METRIC_ROLE_MAP(X)                                                                                          \
    X(LD_OBSERVED, "observed")                                                                                         \
    X(LD_GUARDRAIL, "guardrail")                                                                                       \
    X(LD_OBJECTIVE, "objective")
enum ld_metric_role { LD_METRIC_ROLE_MAP(KB_WORD_ENUM) LD_N_METRIC_ROLES };
extern const struct kb_words ld_metric_role_words;

/* What is measured of decisions by this name (docs/EXPERIMENTS.md). */
struct ld_metric_settings {
    char name[KB_METRIC_MAX_BYTES + 1];
    enum ld_metric_role role;
    double weight;                   /* of an objective */
    double low, high;                /* of a decision's value; what is beyond is clipped */
    enum kb_aggregation aggregation; /* of several values */
    bool has_aggregation;            /* it was named, and no log's line named it */
    double missing;                  /* what a decision without one counts as */
    double harm, level;              /* of a guardrail */
};

/* What clients of Azure Personalizer have set and read again, in their words (docs/PERSONALIZER.md); "": nothing. */
struct ld_personalizer_settings {
    char policy_name[257], policy_arguments[1025];
    char export_frequency[65], optimization_frequency[65], optimization_start[65];
    uint64_t retrain_days;
    bool is_explained; /* answers of Rank name the features that moved a score */
};

/* The configuration with what only the server uses. */
struct ld_settings {
    struct kb_spec spec;
    bool is_relaxed;     /* durability: answer before the commit */
    bool decides_alone;  /* on_log_failure: decide, and record nothing, while a shared log is away */
    size_t keep_events;  /* retention: of the last ones so many, 0: not by number */
    int64_t keep_age_ms; /* and those that are younger than this, 0: not by age; neither: all */
    struct ld_challenger_settings challenger[LD_MAX_CHALLENGERS];
    size_t n_challengers;
    bool is_logging_candidates; /* also without challengers */
    struct {
        char baseline[LD_CHALLENGER_NAME_BYTES]; /* a challenger's name, or "": no guardrail */
        double level;
        size_t min_decisions;
        bool has_range; /* of rewards; else that of the experiment, or 0 to 1, and what lies beyond proves nothing */
        double low, high;
    } guardrail;
    struct {
        char challenger[LD_CHALLENGER_NAME_BYTES]; /* that was promoted last; "": none */
        enum ld_promotion_reason reason;
    } promotion;
    struct ld_experiment_settings experiment;
    struct ld_metric_settings metric[LD_MOST_METRICS];
    size_t n_metrics;
    struct ld_name_map features; /* dim 0: bodies have vectors alone; else it is the spec's context_dim and arm_dim */
    struct ld_personalizer_settings personalizer;
};
/* What a configuration has that says nothing, but for its spec. */
void ld_settings_init(struct ld_settings *s);
/* The challenger of that name, or NULL. */
struct ld_challenger_settings *ld_settings_challenger(struct ld_settings *s, const char *name);
/* Whether decisions tell what they were made among. */
bool ld_settings_log_candidates(const struct ld_settings *s);
bool ld_settings_log_odds(const struct ld_settings *s); /* and with what propensity each of them */

/* NULL: none of that name. */
const struct ld_metric_settings *ld_settings_metric(const struct ld_settings *s, const char *name);
/* Whether the objective is a weighted sum of metrics; else at most one is it, and its rewards are the tenant's. */
bool ld_settings_weigh_metrics(const struct ld_settings *s);
/* Whether values are kept of it beside the reward: of all but a single objective. */
bool ld_metric_is_measured(const struct ld_settings *s, const struct ld_metric_settings *m);
bool ld_metric_is_same(const struct ld_metric_settings *a, const struct ld_metric_settings *b);

bool ld_personalizer_is_same(const struct ld_personalizer_settings *a, const struct ld_personalizer_settings *b);
bool ld_experiment_is_same(const struct ld_experiment_settings *a, const struct ld_experiment_settings *b);

/* By name and values. */
bool ld_challenger_is_same(const struct ld_challenger_settings *a, const struct ld_challenger_settings *b);

#endif
