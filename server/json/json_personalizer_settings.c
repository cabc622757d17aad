/* See json_personalizer_settings.h. */
#include "json/json_personalizer_settings.h"

#include <string.h>

/* The place of a text, by its member; NULL: the member is none. Its rule bounds it. */
static char *text_at(struct ld_personalizer_settings *s, size_t i)
{
    switch (i) {
    case LD_PERSONALIZER_SETTINGS_POLICY_NAME:
        return s->policy_name;
    case LD_PERSONALIZER_SETTINGS_POLICY_ARGUMENTS:
        return s->policy_arguments;
    case LD_PERSONALIZER_SETTINGS_MODEL_EXPORT_FREQUENCY:
        return s->export_frequency;
    case LD_PERSONALIZER_SETTINGS_AUTO_OPTIMIZATION_FREQUENCY:
        return s->optimization_frequency;
    case LD_PERSONALIZER_SETTINGS_AUTO_OPTIMIZATION_START_DATE:
        return s->optimization_start;
    default:
        return NULL;
    }
}

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct ld_rule *rule = &ld_personalizer_settings_rules.rule[i];
    struct ld_personalizer_settings *out = arg;
    char *at = text_at(out, i);
    const char *text = at != NULL ? ld_in_text(in, v, rule) : NULL;

    if (i == LD_PERSONALIZER_SETTINGS_EXPLAIN_INFERENCE)
        out->is_explained = ld_in_flag(in, v);
    else if (at == NULL)
        out->retrain_days = ld_in_count(in, v, rule, 0);
    else if (text != NULL)
        strcpy(at, text);
}

void ld_in_personalizer(struct ld_in *in, const struct ld_value *v, struct ld_personalizer_settings *out)
{
    *out = (struct ld_personalizer_settings){.retrain_days = 0};
    if (!ld_is(v, LD_V_NULL))
        (void)ld_in_members(in, v, &ld_personalizer_settings_rules, read_member, out);
}

void ld_text_personalizer(struct ld_text *t, const struct ld_personalizer_settings *s)
{
    const struct ld_rules *rules = &ld_personalizer_settings_rules;
    struct ld_personalizer_settings told = *s;

    ld_text_lit(t, "{");
    for (size_t i = 0; i < rules->n; i++) {
        const char *text = text_at(&told, i);
        if (i == LD_PERSONALIZER_SETTINGS_EXPLAIN_INFERENCE && told.is_explained)
            ld_text_put_bool(t, rules->rule[i].key, true);
        else if (i == LD_PERSONALIZER_SETTINGS_MODEL_RETRAIN_DAYS && told.retrain_days > 0)
            ld_text_put_count(t, rules->rule[i].key, told.retrain_days);
        else if (text != NULL && text[0] != '\0')
            ld_text_put_string(t, rules->rule[i].key, text);
    }
    ld_text_lit(t, "}");
}
