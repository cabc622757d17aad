/* The configuration's fields in JSON: see json_fields.h.
 *
 * Names, ranges and words are those of schema/settings.schema.json (rules.h), so that one answer names every fault of
 * a body; kb_spec_check, which has the last word, stops at the first and adds the combinations. */
#include "json/json_fields.h"

#include <stdio.h>
#include <string.h>

#include "spec/fields.h"
#include "types/settings.h"

static const char *const reasons[LD_PROMOTED_N] = {"none", "request", "guardrail", "rollback"};
static const struct kb_words reason_words = {reasons, LD_PROMOTED_N};

/* What the server has beside the spec. */
#define AT(member) offsetof(struct ld_settings, member)
static const struct {
    const char *pointer;
    enum ld_field_kind kind;
    size_t offset, flag;
} own[] = {
    {"/routing", LD_ROUTING, AT(spec.routing), 0},
    {"/retention/events", LD_SIZE_OR_NULL, AT(keep_events), 0},
    {"/retention/age_s", LD_AGE_OR_NULL, AT(keep_age_ms), 0},
    {"/durability", LD_EITHER, AT(is_relaxed), 0},
    {"/on_log_failure", LD_EITHER, AT(decides_alone), 0},
    {"/challengers", LD_CHALLENGERS, AT(challenger), 0},
    {"/log_candidates", LD_FLAG, AT(is_logging_candidates), 0},
    {"/guardrail/baseline", LD_NAME_OR_NULL, AT(guardrail.baseline), 0},
    {"/guardrail/level", LD_NUMBER, AT(guardrail.level), 0},
    {"/guardrail/min_decisions", LD_SIZE, AT(guardrail.min_decisions), 0},
    {"/guardrail/range", LD_RANGE_OR_NULL, AT(guardrail.low), AT(guardrail.has_range)},
    {"/promotion/challenger", LD_NAME_OR_NULL, AT(promotion.challenger), 0},
    {"/promotion/reason", LD_CHOICE, AT(promotion.reason), 0},
    {"/experiment", LD_EXPERIMENT, AT(experiment), 0},
    {"/metrics", LD_METRICS, AT(spec.has_metrics), 0}, /* which follows from them */
    {"/features", LD_FEATURES, AT(features), 0},       /* which say the dimensions */
};

static const enum ld_field_kind kinds[] = {
    [KB_FIELD_TEXT] = LD_ALGORITHM,
    [KB_FIELD_WEIGHTS] = LD_WEIGHTS,
    [KB_FIELD_CHOICE] = LD_CHOICE,
    [KB_FIELD_FLAG] = LD_FLAG,
    [KB_FIELD_INT] = LD_DEGREE,
    [KB_FIELD_DIMENSION] = LD_DIMENSION,
    [KB_FIELD_SIZE] = LD_SIZE,
    [KB_FIELD_MS] = LD_WINDOW,
    [KB_FIELD_SEED] = LD_SEED,
    [KB_FIELD_REAL] = LD_NUMBER,
    [KB_FIELD_REWARD] = LD_DEFAULT_REWARD,
    [KB_FIELD_LENGTHSCALE] = LD_LENGTHSCALE,
};

struct ld_field ld_field_find(const char *group, const struct ld_rule *rule)
{
    char pointer[128];

    (void)snprintf(pointer, sizeof pointer, "%s%s/%s", group[0] != '\0' ? "/" : "", group, rule->key);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].pointer, pointer) == 0)
            return (struct ld_field){own[i].kind, rule, own[i].offset, own[i].flag, &reason_words, 0};
    for (const struct kb_field *f = kb_fields; f < kb_fields + kb_n_fields; f++)
        if (strcmp(f->pointer, pointer) == 0) {
            const bool is_or_word = f->kind == KB_FIELD_REAL && rule->choices != NULL && f->learned == 0;
            return (struct ld_field){
                is_or_word ? LD_OR_WORD : kinds[f->kind], rule, f->offset, f->flag, f->words, f->learned};
        }
    return (struct ld_field){.kind = LD_GROUP, .rule = rule};
}

const struct ld_rules *ld_field_rules(const char *group)
{
    static const struct {
        const char *key;
        const struct ld_rules *rules;
    } groups[] = {
        {"", &ld_configuration_rules},
        {"user_kernel", &ld_user_kernel_rules},
        {"context_kernel", &ld_context_kernel_rules},
        {"arm_kernel", &ld_vector_kernel_rules},
        {"representation", &ld_representation_rules},
        {"prior", &ld_prior_rules},
        {"confidence", &ld_confidence_rules},
        {"rule", &ld_rule_rules},
        {"forgetting", &ld_forgetting_rules},
        {"retention", &ld_retention_rules},
        {"guardrail", &ld_guardrail_rules},
        {"promotion", &ld_promotion_rules},
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i].key, group) == 0)
            return groups[i].rules;
    return NULL;
}
