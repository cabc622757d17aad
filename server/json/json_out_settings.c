/* struct ld_settings -> the configuration object, by the table of json_fields.c: always in full, so that a line of
 * the log does not depend on what presets a later version ships. `parameters` are the same rows in groups, with
 * numbers where the configuration may hold a rule for them (lengthscale "median").
 *
 * What is written here is read by json_settings.c to the same bits (test: every_preset_reads_back_from_its_full_form).
 */
#include "json/json_out.h"

#include <string.h>

#include "json/json_experiment.h"
#include "json/json_features.h"
#include "json/json_fields.h"
#include "json/json_metric.h"
#include "json/json_routing.h"
#include "json/json_split.h"
#include "json/json_util.h"
#include "spec/fields.h"

/* A word for the value that means none (null), ours to choose (auto) or the data's (median, a function of the graph
 * alone or of the log up to the last reset, so `parameters` may leave it as a word). */
static void write_or(struct ld_text *t, bool is_named, const char *name, double x)
{
    if (is_named && name == NULL)
        ld_text_lit(t, "null");
    else if (is_named)
        ld_text_string(t, name);
    else
        ld_text_number(t, x);
}

/* Fields of struct ld_settings by the rules of an object. */
static void write_members(struct ld_text *t, const char *group, const struct ld_rules *rules,
                          const struct ld_settings *s, bool is_in_force);

void ld_text_challenger(struct ld_text *t, const struct ld_challenger_settings *c)
{
    const struct ld_settings s = {.spec = c->spec};
    write_members(t, "", &ld_challenger_rules, &s, false);
}

/* By their names, in the order in which they were told. */
static void write_challengers(struct ld_text *t, const struct ld_settings *s)
{
    ld_text_lit(t, "{");
    for (size_t i = 0; i < s->n_challengers; i++) {
        ld_text_key(t, s->challenger[i].name);
        ld_text_challenger(t, &s->challenger[i]);
    }
    ld_text_lit(t, "}");
}

static void write_name(struct ld_text *t, const char *name)
{
    if (name[0] == '\0')
        ld_text_lit(t, "null");
    else
        ld_text_string(t, name);
}

/* is_in_force: numbers where the configuration may hold a rule for them. */
static void write_value(struct ld_text *t, const struct ld_field *f, const struct ld_settings *s, bool is_in_force)
{
    const void *at = (const char *)s + f->offset;
    const bool *flag = (const bool *)((const char *)s + f->flag);
    int type;
    if ((f->learned & s->spec.learned) != 0 && !is_in_force) {
        ld_text_string(t, "learned");
        return;
    }
    switch (f->kind) {
    case LD_GROUP:
        write_members(t, f->rule->key, ld_field_rules(f->rule->key), s, is_in_force);
        break;
    case LD_ALGORITHM:
        ld_text_string(t, at);
        break;
    case LD_DIMENSION:
        ld_text_count(t, *(const uint32_t *)at);
        break;
    case LD_NUMBER:
        ld_text_number(t, *(const double *)at);
        break;
    case LD_SIZE:
        ld_text_count(t, *(const size_t *)at);
        break;
    case LD_DEGREE:
        ld_text_number(t, *(const int *)at);
        break;
    case LD_SEED:
        ld_text_count(t, *(const uint64_t *)at);
        break;
    case LD_FLAG:
        ld_text_bool(t, *(const bool *)at);
        break;
    case LD_CHOICE:
        memcpy(&type, at, sizeof type);
        ld_text_string(t, kb_word(f->words, type));
        break;
    case LD_LENGTHSCALE:
        write_or(t, *flag && !is_in_force, "median", *(const double *)at);
        break;
    case LD_OR_WORD:
        write_or(t, *(const double *)at <= 0, f->rule->choices[0], *(const double *)at);
        break;
    case LD_WINDOW:
        ld_text_number(t, (double)*(const int64_t *)at / 1000);
        break;
    case LD_DEFAULT_REWARD:
        write_or(t, !*flag, NULL, *(const double *)at);
        break;
    case LD_EITHER:
        ld_text_string(t, f->rule->choices[*(const bool *)at ? 1 : 0]);
        break;
    case LD_SIZE_OR_NULL:
        write_or(t, *(const size_t *)at == 0, NULL, (double)*(const size_t *)at);
        break;
    case LD_AGE_OR_NULL:
        write_or(t, *(const int64_t *)at == 0, NULL, (double)*(const int64_t *)at / 1000);
        break;
    case LD_NAME_OR_NULL:
        write_name(t, at);
        break;
    case LD_CHALLENGERS:
        write_challengers(t, s);
        break;
    case LD_ROUTING:
        ld_text_routing(t, at);
        break;
    case LD_EXPERIMENT:
        ld_text_experiment_settings(t, at);
        break;
    case LD_METRICS:
        ld_text_metrics(t, s);
        break;
    case LD_RANGE_OR_NULL:
        ld_text_range(t, *(const double *)at, *((const double *)at + 1));
        break;
    case LD_WEIGHTS:
        ld_text_split(t, at);
        break;
    case LD_FEATURES:
        ld_text_features(t, at);
        break;
    }
}

/* A field, or a group of them, that nobody reads and nobody has set, and that is younger than much that was written
 * without it. */
static bool is_silent(const struct ld_field *group, const struct ld_settings *s)
{
    const struct kb_spec *spec = &s->spec;
    if (group->kind == LD_EXPERIMENT)
        return !s->experiment.is_on;
    if (group->kind == LD_METRICS)
        return s->n_metrics == 0;
    if (group->kind == LD_FEATURES)
        return s->features.dim == 0;
    if (strcmp(group->rule->key, "learn") == 0)
        return spec->learns;
    if (strcmp(group->rule->key, "on_log_failure") == 0)
        return !s->decides_alone;
    if (group->kind == LD_RANGE_OR_NULL)
        return !*(const bool *)((const char *)s + group->flag);
    if (group->kind == LD_WEIGHTS)
        return spec->rule.split.n == 0;
    if (group->kind != LD_GROUP || strcmp(group->rule->key, "prior") != 0)
        return false;
    for (size_t i = 0; i < kb_n_fields; i++)
        if (strncmp(kb_fields[i].pointer, "/prior/", 7) == 0 && !kb_field_is_silent(&kb_fields[i], spec))
            return false;
    return true;
}

static void write_members(struct ld_text *t, const char *group, const struct ld_rules *rules,
                          const struct ld_settings *s, bool is_in_force)
{
    ld_text_lit(t, "{");
    for (size_t i = 0; i < rules->n; i++) {
        const struct ld_field f = ld_field_find(group, &rules->rule[i]);
        if ((is_in_force && group[0] == '\0' && f.kind != LD_GROUP) || is_silent(&f, s))
            continue;
        ld_text_key(t, f.rule->key);
        write_value(t, &f, s, is_in_force);
    }
    ld_text_lit(t, "}");
}

/* Every field, groups as objects. A guardrail that nobody has set, as where there was a spec alone, is the usual one.
 */
void ld_text_settings(struct ld_text *t, const struct ld_settings *settings)
{
    struct ld_settings whole = *settings, usual;
    ld_settings_init(&usual);
    if (whole.guardrail.min_decisions == 0)
        whole.guardrail = usual.guardrail;
    write_members(t, "", &ld_configuration_rules, &whole, false);
}

/* The groups of a challenger, which are those of the spec, as they are in force: what a reader needs to recompute the
 * model's answers. */
void ld_text_parameters(struct ld_text *t, const struct kb_spec *in_force)
{
    struct ld_settings s = {.spec = *in_force};
    write_members(t, "", &ld_challenger_rules, &s, true);
}

/* About 900 bytes. */
char *ld_encode_settings(const struct ld_settings *settings, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_settings(&t, settings);
    return ld_text_take(&t, n);
}
