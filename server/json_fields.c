/* The table of the configuration's fields: see json_fields.h.
 *
 * Ranges stand here so that one answer names every fault of a body; kb_spec_check, which has the last word,
 * stops at the first and adds the combinations. Rows are in the order in which a configuration is written, and
 * rows of a group stand together. */
#include "json_fields.h"

#include <string.h>

#define MAX_WINDOW_S (10.0 * 366 * 24 * 3600)
#define MAX_AGE_S (10 * MAX_WINDOW_S)

static const struct ld_choice user_kernels = {kb_user_kernel_name, kb_user_kernel_from_name};
static const struct ld_choice vec_kernels = {kb_vec_kernel_name, kb_vec_kernel_from_name};
static const struct ld_choice reprs = {kb_repr_name, kb_repr_from_name};
static const struct ld_choice confs = {kb_conf_name, kb_conf_from_name};
static const struct ld_choice forms = {kb_sketch_form_name, kb_sketch_form_from_name};
static const struct ld_choice scores = {kb_score_name, kb_score_from_name};
static const struct ld_choice rules = {kb_rule_name, kb_rule_from_name};
static const struct ld_choice forgettings = {kb_forgetting_name, kb_forgetting_from_name};
static const struct ld_choice aggregations = {kb_aggregation_name, kb_aggregation_from_name};

#define AT(member) offsetof(struct ld_settings, member)
#define TINY 1e-12
#define HUGE_NUMBER 1e12
#define POSITIVE TINY, HUGE_NUMBER, false
#define NOT_NEGATIVE 0, HUGE_NUMBER, false
#define INSIDE_UNIT 0, 1, true

/* Both kernels on vectors have the same members. */
/* clang-format off */
#define VECTOR_KERNEL(name)                                                      \
    {#name, "type", LD_CHOICE, AT(spec.name.type), 0, 0, false, &vec_kernels},   \
    {#name, "lengthscale", LD_LENGTHSCALE, AT(spec.name), POSITIVE, NULL},       \
    {#name, "degree", LD_DEGREE, AT(spec.name.degree), 1, 8, false, NULL},       \
    {#name, "offset", LD_NUMBER, AT(spec.name.offset), NOT_NEGATIVE, NULL}
/* clang-format on */

const struct ld_field ld_fields[] = {
    {"", "algorithm", LD_ALGORITHM, AT(spec.algorithm), 0, 0, false, NULL},
    {"", "context_dim", LD_DIMENSION, AT(spec.context_dim), 0, 4096, false, NULL},
    {"", "arm_dim", LD_DIMENSION, AT(spec.arm_dim), 0, 4096, false, NULL},
    {"user_kernel", "type", LD_CHOICE, AT(spec.user_kernel.type), 0, 0, false, &user_kernels},
    {"user_kernel", "rho", LD_NUMBER, AT(spec.user_kernel.rho), POSITIVE, NULL},
    {"user_kernel", "population", LD_NUMBER, AT(spec.user_kernel.population), NOT_NEGATIVE, NULL},
    {"user_kernel", "normalize", LD_FLAG, AT(spec.user_kernel.is_normalized), 0, 0, false, NULL},
    {"user_kernel", "power", LD_NUMBER, AT(spec.user_kernel.power), TINY, 4, false, NULL},
    {"user_kernel", "tau", LD_NUMBER, AT(spec.user_kernel.tau), POSITIVE, NULL},
    {"user_kernel", "k", LD_SIZE, AT(spec.user_kernel.n_vectors), 1, 2048, false, NULL},
    {"user_kernel", "lengthscale", LD_OR_MEDIAN, AT(spec.user_kernel.lengthscale), POSITIVE, NULL},
    {"user_kernel", "bandwidth", LD_OR_MEDIAN, AT(spec.user_kernel.bandwidth), POSITIVE, NULL},
    {"user_kernel", "features", LD_SIZE, AT(spec.user_kernel.n_features), 1, 4096, false, NULL},
    {"user_kernel", "refresh", LD_SIZE, AT(spec.user_kernel.refresh), 1, 1000000, false, NULL},
    {"user_kernel", "min_observations", LD_SIZE, AT(spec.user_kernel.min_observations), 1, 1000000, false, NULL},
    VECTOR_KERNEL(context_kernel),
    VECTOR_KERNEL(arm_kernel),
    {"representation", "type", LD_CHOICE, AT(spec.repr.type), 0, 0, false, &reprs},
    {"representation", "lambda", LD_NUMBER, AT(spec.repr.lambda), POSITIVE, NULL},
    {"representation", "mu", LD_NUMBER, AT(spec.repr.mu), POSITIVE, NULL},
    {"representation", "gamma", LD_NUMBER, AT(spec.repr.gamma), POSITIVE, NULL},
    {"representation", "epsilon", LD_NUMBER, AT(spec.repr.epsilon), INSIDE_UNIT, NULL},
    {"representation", "threshold", LD_NUMBER, AT(spec.repr.threshold), INSIDE_UNIT, NULL},
    {"representation", "q", LD_NUMBER, AT(spec.repr.q), POSITIVE, NULL},
    {"representation", "batch_ratio", LD_NUMBER, AT(spec.repr.batch_ratio), 1, HUGE_NUMBER, false, NULL},
    {"representation", "max_dictionary", LD_SIZE, AT(spec.repr.max_dictionary), 1, 4096, false, NULL},
    {"representation", "exact_limit", LD_SIZE, AT(spec.repr.exact_limit), 1, 16384, false, NULL},
    {"confidence", "type", LD_CHOICE, AT(spec.conf.type), 0, 0, false, &confs},
    {"confidence", "beta", LD_NUMBER, AT(spec.conf.beta), NOT_NEGATIVE, NULL},
    {"confidence", "norm_bound", LD_OR_AUTO, AT(spec.conf.norm_bound), POSITIVE, NULL},
    {"confidence", "noise", LD_NUMBER, AT(spec.conf.noise), POSITIVE, NULL},
    {"confidence", "delta", LD_NUMBER, AT(spec.conf.delta), INSIDE_UNIT, NULL},
    {"confidence", "form", LD_CHOICE, AT(spec.conf.form), 0, 0, false, &forms},
    {"confidence", "mixture", LD_FLAG, AT(spec.conf.is_mixture), 0, 0, false, NULL},
    {"confidence", "score", LD_CHOICE, AT(spec.conf.score), 0, 0, false, &scores},
    {"rule", "type", LD_CHOICE, AT(spec.rule.type), 0, 0, false, &rules},
    {"rule", "epsilon", LD_NUMBER, AT(spec.rule.epsilon), 0, 1, false, NULL},
    {"rule", "scale", LD_NUMBER, AT(spec.rule.scale), POSITIVE, NULL},
    {"forgetting", "type", LD_CHOICE, AT(spec.forgetting.type), 0, 0, false, &forgettings},
    {"forgetting", "discount", LD_NUMBER, AT(spec.forgetting.discount), INSIDE_UNIT, NULL},
    {"forgetting", "half_life_s", LD_NUMBER, AT(spec.forgetting.half_life_s), 0.001, 1e9, false, NULL},
    {"retention", "events", LD_SIZE_OR_NULL, AT(keep_events), 1, 9007199254740991, false, NULL},
    {"retention", "age_s", LD_AGE_OR_NULL, AT(keep_age_ms), 0.001, MAX_AGE_S, false, NULL},
    {"", "pending", LD_PENDING, 0, 0, 0, false, NULL},
    {"", "reward_window_s", LD_WINDOW, AT(spec.reward_window_ms), 0.001, MAX_WINDOW_S, false, NULL},
    {"", "default_reward", LD_DEFAULT_REWARD, AT(spec.default_reward), 0, 0, false, NULL},
    {"", "aggregation", LD_CHOICE, AT(spec.aggregation), 0, 0, false, &aggregations},
    {"", "durability", LD_DURABILITY, AT(is_relaxed), 0, 0, false, NULL},
    {"", "seed", LD_SEED, AT(spec.seed), 0, 9007199254740991, false, NULL},
};

const size_t ld_n_fields = sizeof ld_fields / sizeof *ld_fields;

const struct ld_field *ld_field_find(const char *group, const char *key)
{
    for (size_t i = 0; i < ld_n_fields; i++)
        if (strcmp(ld_fields[i].group, group) == 0 && strcmp(ld_fields[i].key, key) == 0)
            return &ld_fields[i];
    return NULL;
}

bool ld_field_is_group(const char *key)
{
    for (size_t i = 0; i < ld_n_fields; i++)
        if (ld_fields[i].group[0] != '\0' && strcmp(ld_fields[i].group, key) == 0)
            return true;
    return false;
}
