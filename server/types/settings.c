/* See settings.h. */
#include "types/settings.h"

#include <string.h>

#include "base/hash.h"

struct ld_challenger_settings *ld_settings_challenger(struct ld_settings *s, const char *name)
{
    for (size_t i = 0; i < s->n_challengers; i++)
        if (strcmp(s->challenger[i].name, name) == 0)
            return &s->challenger[i];
    return NULL;
}

void ld_settings_init(struct ld_settings *s)
{
    *s = (struct ld_settings){.guardrail = {.level = 0.95, .min_decisions = 1000}};
}

bool ld_settings_log_candidates(const struct ld_settings *s)
{
    return s->is_logging_candidates || s->n_challengers > 0;
}

KB_WORDS(ld_metric_role_words, LD_METRIC_ROLE_MAP);

const struct ld_metric_settings *ld_settings_metric(const struct ld_settings *s, const char *name)
{
    for (size_t i = 0; i < s->n_metrics; i++)
        if (strcmp(s->metric[i].name, name) == 0)
            return &s->metric[i];
    return NULL;
}

bool ld_settings_weigh_metrics(const struct ld_settings *s)
{
    size_t n = 0;
    bool is_plain = true;

    for (size_t i = 0; i < s->n_metrics; i++) {
        if (s->metric[i].role != LD_OBJECTIVE)
            continue;
        n++;
        is_plain &= s->metric[i].weight == 1;
    }
    return n > 1 || !is_plain;
}

bool ld_metric_is_measured(const struct ld_settings *s, const struct ld_metric_settings *m)
{
    return m->role != LD_OBJECTIVE || ld_settings_weigh_metrics(s);
}

bool ld_metric_is_same(const struct ld_metric_settings *a, const struct ld_metric_settings *b)
{
    return strcmp(a->name, b->name) == 0 && a->role == b->role && a->weight == b->weight && a->low == b->low &&
           a->high == b->high && a->aggregation == b->aggregation && a->missing == b->missing && a->harm == b->harm &&
           a->level == b->level;
}

bool ld_settings_log_odds(const struct ld_settings *s)
{
    return s->experiment.is_on || s->guardrail.baseline[0] != '\0';
}

bool ld_experiment_is_same(const struct ld_experiment_settings *a, const struct ld_experiment_settings *b)
{
    if (!a->is_on || !b->is_on)
        return a->is_on == b->is_on;
    return strcmp(a->baseline, b->baseline) == 0 && a->difference == b->difference && a->level == b->level &&
           a->traffic_level == b->traffic_level && a->low == b->low && a->high == b->high;
}

bool ld_challenger_is_same(const struct ld_challenger_settings *a, const struct ld_challenger_settings *b)
{
    struct kb_spec other = b->spec;

    other.routing = a->spec.routing; /* the tenant's own, which no challenger's decision looks at */
    return strcmp(a->name, b->name) == 0 &&
           kb_spec_digest(&a->spec, KB_HASH_INIT) == kb_spec_digest(&other, KB_HASH_INIT);
}

bool ld_personalizer_is_same(const struct ld_personalizer_settings *a, const struct ld_personalizer_settings *b)
{
    return strcmp(a->policy_name, b->policy_name) == 0 && strcmp(a->policy_arguments, b->policy_arguments) == 0 &&
           strcmp(a->export_frequency, b->export_frequency) == 0 &&
           strcmp(a->optimization_frequency, b->optimization_frequency) == 0 &&
           strcmp(a->optimization_start, b->optimization_start) == 0 && a->retrain_days == b->retrain_days &&
           a->is_explained == b->is_explained;
}
