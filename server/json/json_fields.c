/* The table of the configuration's fields: see json_fields.h.
 *
 * Names, ranges and words are those of schema/settings.schema.json (rules.h), so that one answer names every fault of
 * a body; kb_spec_check, which has the last word, stops at the first and adds the combinations. Rows are in the order
 * in which a configuration is written, and rows of a group stand together. */
#include "json/json_fields.h"

#include <string.h>

static const struct ld_choice user_kernels = {kb_user_kernel_name, kb_user_kernel_from_name};
static const struct ld_choice vec_kernels = {kb_vec_kernel_name, kb_vec_kernel_from_name};
static const struct ld_choice reprs = {kb_repr_name, kb_repr_from_name};
static const struct ld_choice confs = {kb_conf_name, kb_conf_from_name};
static const struct ld_choice forms = {kb_sketch_form_name, kb_sketch_form_from_name};
static const struct ld_choice scores = {kb_score_name, kb_score_from_name};
static const struct ld_choice rules = {kb_rule_name, kb_rule_from_name};
static const struct ld_choice forgettings = {kb_forgetting_name, kb_forgetting_from_name};

static const char *reason_name(int type)
{
    static const char *const names[LD_PROMOTED_N] = {"none", "request", "guardrail", "rollback"};
    return type >= 0 && type < LD_PROMOTED_N ? names[type] : NULL;
}

static int reason_from_name(const char *name)
{
    for (int i = 0; i < LD_PROMOTED_N; i++)
        if (strcmp(reason_name(i), name) == 0)
            return i;
    return -1;
}

static const struct ld_choice reasons = {reason_name, reason_from_name};
static const struct ld_choice aggregations = {kb_aggregation_name, kb_aggregation_from_name};

#define AT(member) offsetof(struct ld_settings, member)
/* A member of a group, as in rules.h. */
#define USER_KERNEL(name) "user_kernel", &ld_user_kernel_rules, LD_USER_KERNEL_##name
#define REPRESENTATION(name) "representation", &ld_representation_rules, LD_REPRESENTATION_##name
#define CONFIDENCE(name) "confidence", &ld_confidence_rules, LD_CONFIDENCE_##name
#define RULE(name) "rule", &ld_rule_rules, LD_RULE_##name
#define FORGETTING(name) "forgetting", &ld_forgetting_rules, LD_FORGETTING_##name
#define RETENTION(name) "retention", &ld_retention_rules, LD_RETENTION_##name
#define GUARDRAIL(name) "guardrail", &ld_guardrail_rules, LD_GUARDRAIL_##name
#define PROMOTION(name) "promotion", &ld_promotion_rules, LD_PROMOTION_##name
#define CONFIGURATION(name) "", &ld_configuration_rules, LD_CONFIGURATION_##name
#define VECTOR(group, name) #group, &ld_vector_kernel_rules, LD_VECTOR_KERNEL_##name

/* Both kernels on vectors have the same members. */
/* clang-format off */
#define VECTOR_KERNEL(group)                                                        \
    {VECTOR(group, TYPE), LD_CHOICE, AT(spec.group.type), &vec_kernels},            \
    {VECTOR(group, LENGTHSCALE), LD_LENGTHSCALE, AT(spec.group), NULL},             \
    {VECTOR(group, DEGREE), LD_DEGREE, AT(spec.group.degree), NULL},                \
    {VECTOR(group, OFFSET), LD_NUMBER, AT(spec.group.offset), NULL}
/* clang-format on */

const struct ld_field ld_fields[] = {
    {CONFIGURATION(ALGORITHM), LD_ALGORITHM, AT(spec.algorithm), NULL},
    {CONFIGURATION(CONTEXT_DIM), LD_DIMENSION, AT(spec.context_dim), NULL},
    {CONFIGURATION(ARM_DIM), LD_DIMENSION, AT(spec.arm_dim), NULL},
    {USER_KERNEL(TYPE), LD_CHOICE, AT(spec.user_kernel.type), &user_kernels},
    {USER_KERNEL(RHO), LD_NUMBER, AT(spec.user_kernel.rho), NULL},
    {USER_KERNEL(POPULATION), LD_NUMBER, AT(spec.user_kernel.population), NULL},
    {USER_KERNEL(NORMALIZE), LD_FLAG, AT(spec.user_kernel.is_normalized), NULL},
    {USER_KERNEL(TOLERANCE), LD_NUMBER, AT(spec.user_kernel.tolerance), NULL},
    {USER_KERNEL(POWER), LD_NUMBER, AT(spec.user_kernel.power), NULL},
    {USER_KERNEL(TAU), LD_NUMBER, AT(spec.user_kernel.tau), NULL},
    {USER_KERNEL(K), LD_SIZE, AT(spec.user_kernel.n_vectors), NULL},
    {USER_KERNEL(LENGTHSCALE), LD_OR_MEDIAN, AT(spec.user_kernel.lengthscale), NULL},
    {USER_KERNEL(BANDWIDTH), LD_OR_MEDIAN, AT(spec.user_kernel.bandwidth), NULL},
    {USER_KERNEL(FEATURES), LD_SIZE, AT(spec.user_kernel.n_features), NULL},
    {USER_KERNEL(REFRESH), LD_SIZE, AT(spec.user_kernel.refresh), NULL},
    {USER_KERNEL(MIN_OBSERVATIONS), LD_SIZE, AT(spec.user_kernel.min_observations), NULL},
    VECTOR_KERNEL(context_kernel),
    VECTOR_KERNEL(arm_kernel),
    {REPRESENTATION(TYPE), LD_CHOICE, AT(spec.repr.type), &reprs},
    {REPRESENTATION(LAMBDA), LD_NUMBER, AT(spec.repr.lambda), NULL},
    {REPRESENTATION(MU), LD_NUMBER, AT(spec.repr.mu), NULL},
    {REPRESENTATION(GAMMA), LD_NUMBER, AT(spec.repr.gamma), NULL},
    {REPRESENTATION(EPSILON), LD_NUMBER, AT(spec.repr.epsilon), NULL},
    {REPRESENTATION(THRESHOLD), LD_NUMBER, AT(spec.repr.threshold), NULL},
    {REPRESENTATION(Q), LD_NUMBER, AT(spec.repr.q), NULL},
    {REPRESENTATION(BATCH_RATIO), LD_NUMBER, AT(spec.repr.batch_ratio), NULL},
    {REPRESENTATION(MAX_DICTIONARY), LD_SIZE, AT(spec.repr.max_dictionary), NULL},
    {REPRESENTATION(EXACT_LIMIT), LD_SIZE, AT(spec.repr.exact_limit), NULL},
    {CONFIDENCE(TYPE), LD_CHOICE, AT(spec.conf.type), &confs},
    {CONFIDENCE(BETA), LD_NUMBER, AT(spec.conf.beta), NULL},
    {CONFIDENCE(NORM_BOUND), LD_OR_AUTO, AT(spec.conf.norm_bound), NULL},
    {CONFIDENCE(NOISE), LD_NUMBER, AT(spec.conf.noise), NULL},
    {CONFIDENCE(DELTA), LD_NUMBER, AT(spec.conf.delta), NULL},
    {CONFIDENCE(FORM), LD_CHOICE, AT(spec.conf.form), &forms},
    {CONFIDENCE(MIXTURE), LD_FLAG, AT(spec.conf.is_mixture), NULL},
    {CONFIDENCE(SCORE), LD_CHOICE, AT(spec.conf.score), &scores},
    {RULE(TYPE), LD_CHOICE, AT(spec.rule.type), &rules},
    {RULE(EPSILON), LD_NUMBER, AT(spec.rule.epsilon), NULL},
    {RULE(SCALE), LD_NUMBER, AT(spec.rule.scale), NULL},
    {FORGETTING(TYPE), LD_CHOICE, AT(spec.forgetting.type), &forgettings},
    {FORGETTING(DISCOUNT), LD_NUMBER, AT(spec.forgetting.discount), NULL},
    {FORGETTING(HALF_LIFE_S), LD_NUMBER, AT(spec.forgetting.half_life_s), NULL},
    {CONFIGURATION(ROUTING), LD_ROUTING, AT(spec.routing), NULL},
    {RETENTION(EVENTS), LD_SIZE_OR_NULL, AT(keep_events), NULL},
    {RETENTION(AGE_S), LD_AGE_OR_NULL, AT(keep_age_ms), NULL},
    {CONFIGURATION(PENDING), LD_PENDING, 0, NULL},
    {CONFIGURATION(REWARD_WINDOW_S), LD_WINDOW, AT(spec.reward_window_ms), NULL},
    {CONFIGURATION(DEFAULT_REWARD), LD_DEFAULT_REWARD, AT(spec.default_reward), NULL},
    {CONFIGURATION(AGGREGATION), LD_CHOICE, AT(spec.aggregation), &aggregations},
    {CONFIGURATION(DURABILITY), LD_DURABILITY, AT(is_relaxed), NULL},
    {CONFIGURATION(SEED), LD_SEED, AT(spec.seed), NULL},
    {CONFIGURATION(CHALLENGERS), LD_CHALLENGERS, AT(challenger), NULL},
    {CONFIGURATION(LOG_CANDIDATES), LD_FLAG, AT(is_logging_candidates), NULL},
    {GUARDRAIL(BASELINE), LD_NAME_OR_NULL, AT(guardrail.baseline), NULL},
    {GUARDRAIL(LEVEL), LD_NUMBER, AT(guardrail.level), NULL},
    {GUARDRAIL(MIN_DECISIONS), LD_SIZE, AT(guardrail.min_decisions), NULL},
    {PROMOTION(CHALLENGER), LD_NAME_OR_NULL, AT(promotion.challenger), NULL},
    {PROMOTION(REASON), LD_CHOICE, AT(promotion.reason), &reasons},
};

const size_t ld_n_fields = sizeof ld_fields / sizeof *ld_fields;

const struct ld_rule *ld_field_rule(const struct ld_field *f)
{
    return &f->rules->rule[f->at];
}

const struct ld_field *ld_field_find(const char *group, size_t at)
{
    for (size_t i = 0; i < ld_n_fields; i++)
        if (ld_fields[i].at == at && strcmp(ld_fields[i].group, group) == 0)
            return &ld_fields[i];
    return NULL;
}

const struct ld_rules *ld_field_rules(const char *group)
{
    for (size_t i = 0; i < ld_n_fields; i++)
        if (strcmp(ld_fields[i].group, group) == 0)
            return ld_fields[i].rules;
    return NULL;
}
