/* Names, limits and words of request bodies: the JSON Schemas of schema/ as tables. Written by tools/schemas.py: change
 * the schemas, and run it. The decoders (json_*.c) read by these and have no limits of their own. */
/* clang-format off */
#ifndef LD_RULES_H
#define LD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A member of an object, or a value by itself (key NULL). The limits are those of a number, of the bytes of a string or
 * of the items of an array; an end that is open does not belong to them. */
struct ld_rule {
    const char *key;
    const char *const *choices; /* of an enumeration, NULL behind the last */
    double lo, hi;              /* INFINITY: none */
    bool is_lo_open, is_hi_open;
    bool is_magnitude; /* a server may bound it closer (ld_doc_bound) */
    bool takes_digits; /* of a text, or of the texts of a list: a whole number means its digits */
};

/* The members of an object, in the order of its schema. */
struct ld_rules {
    const struct ld_rule *rule;
    size_t n;
    uint64_t required; /* bits of those that an object must have */
};

#define LD_MAX_DEPTH 16u
extern const struct ld_rule ld_id_rule;
extern const struct ld_rule ld_user_id_rule;
extern const struct ld_rule ld_decision_id_rule;
extern const struct ld_rule ld_metric_name_rule;

enum { LD_CANDIDATE_ID, LD_CANDIDATE_FEATURES };
extern const struct ld_rules ld_candidate_rules;
extern const struct ld_rule ld_edge_rule;
extern const struct ld_rule ld_pair_rule;
extern const struct ld_rule ld_attribute_name_rule;
extern const struct ld_rule ld_attribute_value_rule;
extern const struct ld_rule ld_attribute_values_rule;
extern const struct ld_rule ld_hour_rule;

enum { LD_ELIGIBILITY_ALLOW, LD_ELIGIBILITY_DENY, LD_ELIGIBILITY_FROM, LD_ELIGIBILITY_UNTIL, LD_ELIGIBILITY_HOURS,
       LD_ELIGIBILITY_DAYS };
extern const struct ld_rules ld_eligibility_rules;
extern const struct ld_rule ld_weight_rule;

enum { LD_ACTIVATE_DECISION };
extern const struct ld_rules ld_activate_rules;

enum { LD_ARMS_ARMS };
extern const struct ld_rules ld_arms_rules;

enum { LD_ARM_ID, LD_ARM_FEATURES, LD_ARM_ACTIVE, LD_ARM_STOPPED, LD_ARM_ELIGIBILITY, LD_ARM_VALUE };
extern const struct ld_rules ld_arm_rules;

enum { LD_ARMS_PATCH_ARMS, LD_ARMS_PATCH_REMOVE, LD_ARMS_PATCH_STOP, LD_ARMS_PATCH_START };
extern const struct ld_rules ld_arms_patch_rules;

enum { LD_COMPACT_KEEP_EVENTS };
extern const struct ld_rules ld_compact_rules;

enum { LD_EVALUATION_POLICIES, LD_EVALUATION_FROM, LD_EVALUATION_TO, LD_EVALUATION_ESTIMATORS, LD_EVALUATION_METRIC,
       LD_EVALUATION_NOTE, LD_EVALUATION_ID };
extern const struct ld_rules ld_evaluation_rules;

enum { LD_ARM_POLICY_ARM };
extern const struct ld_rules ld_arm_policy_rules;

enum { LD_CONFIGURED_POLICY_CONFIGURATION, LD_CONFIGURED_POLICY_NAME };
extern const struct ld_rules ld_configured_policy_rules;

enum { LD_GRAPH_USERS, LD_GRAPH_EDGES };
extern const struct ld_rules ld_graph_rules;

enum { LD_GRAPH_PATCH_USERS, LD_GRAPH_PATCH_ADD, LD_GRAPH_PATCH_REMOVE };
extern const struct ld_rules ld_graph_patch_rules;

enum { LD_SERVER_KEY_ROLES, LD_SERVER_KEY_LABEL, LD_SERVER_KEY_EXPIRES_IN_S };
extern const struct ld_rules ld_server_key_rules;

enum { LD_SPANNING_KEY_ROLES, LD_SPANNING_KEY_LABEL, LD_SPANNING_KEY_EXPIRES_IN_S, LD_SPANNING_KEY_TENANTS };
extern const struct ld_rules ld_spanning_key_rules;

enum { LD_LIMITS_RATE, LD_LIMITS_BURST };
extern const struct ld_rules ld_limits_rules;
#define LD_OBSERVATION_MAX_LINES 10000u

enum { LD_OBSERVATION_USER, LD_OBSERVATION_CONTEXT, LD_OBSERVATION_ARM, LD_OBSERVATION_REWARD,
       LD_OBSERVATION_PROPENSITY, LD_OBSERVATION_ID };
extern const struct ld_rules ld_observation_rules;

enum { LD_POSTERIOR_USERS, LD_POSTERIOR_ARMS, LD_POSTERIOR_CONTEXT, LD_POSTERIOR_NEIGHBOURS, LD_POSTERIOR_FEATURES };
extern const struct ld_rules ld_posterior_rules;

enum { LD_PROMOTE_CHALLENGER, LD_PROMOTE_VERSION };
extern const struct ld_rules ld_promote_rules;

enum { LD_REPAIR_ACTION, LD_REPAIR_SEQ };
extern const struct ld_rules ld_repair_rules;

enum { LD_REPLAY_TYPE, LD_REPLAY_CONFIGURATION, LD_REPLAY_LOG, LD_REPLAY_COMMIT };
extern const struct ld_rules ld_replay_rules;

enum { LD_REWARD_DECISION, LD_REWARD_REWARD, LD_REWARD_ARM, LD_REWARD_SLOT, LD_REWARD_METRIC, LD_REWARD_ID,
       LD_REWARD_EVENT, LD_REWARD_AT };
extern const struct ld_rules ld_reward_rules;

enum { LD_USER_REWARD_USER, LD_USER_REWARD_REWARD, LD_USER_REWARD_ARM, LD_USER_REWARD_SLOT, LD_USER_REWARD_ALL,
       LD_USER_REWARD_METRIC, LD_USER_REWARD_ID, LD_USER_REWARD_EVENT, LD_USER_REWARD_AT };
extern const struct ld_rules ld_user_reward_rules;
extern const struct ld_rule ld_rewards_rule;

enum { LD_ROLLBACK_VERSION };
extern const struct ld_rules ld_rollback_rules;

enum { LD_SELECT_USER, LD_SELECT_CONTEXT, LD_SELECT_CANDIDATES, LD_SELECT_EXCLUDE, LD_SELECT_TOP, LD_SELECT_SLOTS,
       LD_SELECT_EXPLAIN, LD_SELECT_NEIGHBOURS, LD_SELECT_DRY_RUN, LD_SELECT_DECISION, LD_SELECT_ATTRIBUTES,
       LD_SELECT_DEFER };
extern const struct ld_rules ld_select_rules;

enum { LD_SLOT_ID, LD_SLOT_CONTEXT, LD_SLOT_FEATURES, LD_SLOT_EXCLUDE, LD_SLOT_BASELINE };
extern const struct ld_rules ld_slot_rules;

enum { LD_CONFIGURATION_ALGORITHM, LD_CONFIGURATION_CONTEXT_DIM, LD_CONFIGURATION_ARM_DIM,
       LD_CONFIGURATION_USER_KERNEL, LD_CONFIGURATION_CONTEXT_KERNEL, LD_CONFIGURATION_ARM_KERNEL,
       LD_CONFIGURATION_REPRESENTATION, LD_CONFIGURATION_PRIOR, LD_CONFIGURATION_TUNE, LD_CONFIGURATION_CONFIDENCE,
       LD_CONFIGURATION_RULE, LD_CONFIGURATION_FORGETTING, LD_CONFIGURATION_ROUTING, LD_CONFIGURATION_RETENTION,
       LD_CONFIGURATION_PENDING, LD_CONFIGURATION_REWARD_WINDOW_S, LD_CONFIGURATION_DEFAULT_REWARD,
       LD_CONFIGURATION_AGGREGATION, LD_CONFIGURATION_LEARN, LD_CONFIGURATION_DURABILITY,
       LD_CONFIGURATION_ON_LOG_FAILURE, LD_CONFIGURATION_SEED, LD_CONFIGURATION_CHALLENGERS,
       LD_CONFIGURATION_LOG_CANDIDATES, LD_CONFIGURATION_GUARDRAIL, LD_CONFIGURATION_PROMOTION,
       LD_CONFIGURATION_EXPERIMENT, LD_CONFIGURATION_METRICS, LD_CONFIGURATION_FEATURES, LD_CONFIGURATION_PERSONALIZER
       };
extern const struct ld_rules ld_configuration_rules;

enum { LD_FEATURE_NAMES_MAPPING, LD_FEATURE_NAMES_DIM, LD_FEATURE_NAMES_SEED, LD_FEATURE_NAMES_WEIGHTS,
       LD_FEATURE_NAMES_NAMESPACES, LD_FEATURE_NAMES_USER };
extern const struct ld_rules ld_feature_names_rules;
extern const struct ld_rule ld_feature_space_rule;
extern const struct ld_rule ld_feature_weight_rule;

enum { LD_PERSONALIZER_SETTINGS_POLICY_NAME, LD_PERSONALIZER_SETTINGS_POLICY_ARGUMENTS,
       LD_PERSONALIZER_SETTINGS_MODEL_EXPORT_FREQUENCY, LD_PERSONALIZER_SETTINGS_MODEL_RETRAIN_DAYS,
       LD_PERSONALIZER_SETTINGS_AUTO_OPTIMIZATION_FREQUENCY, LD_PERSONALIZER_SETTINGS_AUTO_OPTIMIZATION_START_DATE,
       LD_PERSONALIZER_SETTINGS_EXPLAIN_INFERENCE };
extern const struct ld_rules ld_personalizer_settings_rules;

enum { LD_METRIC_NAME, LD_METRIC_ROLE, LD_METRIC_WEIGHT, LD_METRIC_RANGE, LD_METRIC_AGGREGATION, LD_METRIC_DEFAULT,
       LD_METRIC_HARM, LD_METRIC_LEVEL };
extern const struct ld_rules ld_metric_rules;

enum { LD_CHALLENGER_ALGORITHM, LD_CHALLENGER_USER_KERNEL, LD_CHALLENGER_CONTEXT_KERNEL, LD_CHALLENGER_ARM_KERNEL,
       LD_CHALLENGER_REPRESENTATION, LD_CHALLENGER_PRIOR, LD_CHALLENGER_TUNE, LD_CHALLENGER_CONFIDENCE,
       LD_CHALLENGER_RULE, LD_CHALLENGER_FORGETTING, LD_CHALLENGER_SEED };
extern const struct ld_rules ld_challenger_rules;

enum { LD_GUARDRAIL_BASELINE, LD_GUARDRAIL_LEVEL, LD_GUARDRAIL_MIN_DECISIONS, LD_GUARDRAIL_RANGE };
extern const struct ld_rules ld_guardrail_rules;

enum { LD_EXPERIMENT_BASELINE, LD_EXPERIMENT_DIFFERENCE, LD_EXPERIMENT_LEVEL, LD_EXPERIMENT_TRAFFIC_LEVEL,
       LD_EXPERIMENT_RANGE };
extern const struct ld_rules ld_experiment_rules;
extern const struct ld_rule ld_range_end_rule;

enum { LD_PROMOTION_CHALLENGER, LD_PROMOTION_REASON };
extern const struct ld_rules ld_promotion_rules;

enum { LD_USER_KERNEL_TYPE, LD_USER_KERNEL_RHO, LD_USER_KERNEL_POPULATION, LD_USER_KERNEL_NORMALIZE,
       LD_USER_KERNEL_TOLERANCE, LD_USER_KERNEL_POWER, LD_USER_KERNEL_TAU, LD_USER_KERNEL_K,
       LD_USER_KERNEL_LENGTHSCALE, LD_USER_KERNEL_BANDWIDTH, LD_USER_KERNEL_FEATURES, LD_USER_KERNEL_REFRESH,
       LD_USER_KERNEL_MIN_OBSERVATIONS };
extern const struct ld_rules ld_user_kernel_rules;

enum { LD_CONTEXT_KERNEL_TYPE, LD_CONTEXT_KERNEL_LENGTHSCALE, LD_CONTEXT_KERNEL_DEGREE, LD_CONTEXT_KERNEL_OFFSET };
extern const struct ld_rules ld_context_kernel_rules;

enum { LD_VECTOR_KERNEL_TYPE, LD_VECTOR_KERNEL_LENGTHSCALE, LD_VECTOR_KERNEL_DEGREE, LD_VECTOR_KERNEL_OFFSET };
extern const struct ld_rules ld_vector_kernel_rules;

enum { LD_REPRESENTATION_TYPE, LD_REPRESENTATION_LAMBDA, LD_REPRESENTATION_MU, LD_REPRESENTATION_GAMMA,
       LD_REPRESENTATION_EPSILON, LD_REPRESENTATION_THRESHOLD, LD_REPRESENTATION_Q, LD_REPRESENTATION_BATCH_RATIO,
       LD_REPRESENTATION_MAX_DICTIONARY, LD_REPRESENTATION_EXACT_LIMIT };
extern const struct ld_rules ld_representation_rules;

enum { LD_PRIOR_MEAN, LD_PRIOR_ARM, LD_PRIOR_FEATURE, LD_PRIOR_USER, LD_PRIOR_CONTEXT, LD_PRIOR_LINEAR };
extern const struct ld_rules ld_prior_rules;

enum { LD_CONFIDENCE_TYPE, LD_CONFIDENCE_BETA, LD_CONFIDENCE_NORM_BOUND, LD_CONFIDENCE_NOISE, LD_CONFIDENCE_DELTA,
       LD_CONFIDENCE_FORM, LD_CONFIDENCE_MIXTURE, LD_CONFIDENCE_SCORE };
extern const struct ld_rules ld_confidence_rules;

enum { LD_RULE_TYPE, LD_RULE_EPSILON, LD_RULE_SCALE, LD_RULE_GAMMA_SCALE, LD_RULE_GAMMA_EXPONENT, LD_RULE_WEIGHTS };
extern const struct ld_rules ld_rule_rules;
extern const struct ld_rule ld_split_weight_rule;

enum { LD_FORGETTING_TYPE, LD_FORGETTING_DISCOUNT, LD_FORGETTING_HALF_LIFE_S, LD_FORGETTING_DETECT_CHANGES };
extern const struct ld_rules ld_forgetting_rules;

enum { LD_ROUTING_HOLDOUT, LD_ROUTING_STICKY, LD_ROUTING_STOPPED, LD_ROUTING_APPRENTICE };
extern const struct ld_rules ld_routing_rules;

enum { LD_HOLDOUT_SHARE, LD_HOLDOUT_BASELINE, LD_HOLDOUT_SALT };
extern const struct ld_rules ld_holdout_rules;

enum { LD_BASELINE_ARM, LD_BASELINE_RULE };
extern const struct ld_rules ld_baseline_rules;

enum { LD_STICKY_TTL_S };
extern const struct ld_rules ld_sticky_rules;

enum { LD_RETENTION_EVENTS, LD_RETENTION_AGE_S };
extern const struct ld_rules ld_retention_rules;

enum { LD_TENANT_KEY_ROLES, LD_TENANT_KEY_LABEL, LD_TENANT_KEY_EXPIRES_IN_S };
extern const struct ld_rules ld_tenant_key_rules;

#endif
