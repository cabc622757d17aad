/* Experiments in JSON: see json_experiment.h. Read by the rules of schema/ (rules.h), in bodies and log lines alike. */
#include "json/json_experiment.h"

#include <string.h>

static void read_baseline(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, char *out)
{
    const char *id = ld_is(v, LD_V_NULL) ? "" : ld_in_text(in, v, rule);

    if (id != NULL && strlen(id) <= KB_ID_MAX_BYTES)
        strcpy(out, id);
}

void ld_in_range(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *low, double *high)
{
    double *ends[] = {low, high};

    if (!ld_in_list(in, v, rule))
        return;
    for (size_t i = 0; i < 2; i++) {
        const size_t here = ld_in_item(in, v, i);
        (void)ld_in_real(in, ld_item_of(v, i), &ld_range_end_rule, ends[i]);
        ld_in_leave(in, here);
    }
}

void ld_text_range(struct ld_text *t, double low, double high)
{
    ld_text_lit(t, "[");
    ld_text_item(t);
    ld_text_number(t, low);
    ld_text_item(t);
    ld_text_number(t, high);
    ld_text_lit(t, "]");
}

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct ld_experiment_settings *out = arg;
    const struct ld_rule *rule = &ld_experiment_rules.rule[i];

    switch (i) {
    case LD_EXPERIMENT_BASELINE:
        read_baseline(in, v, rule, out->baseline);
        break;
    case LD_EXPERIMENT_DIFFERENCE:
        (void)ld_in_real(in, v, rule, &out->difference);
        break;
    case LD_EXPERIMENT_LEVEL:
        (void)ld_in_real(in, v, rule, &out->level);
        break;
    case LD_EXPERIMENT_TRAFFIC_LEVEL:
        (void)ld_in_real(in, v, rule, &out->traffic_level);
        break;
    default:
        ld_in_range(in, v, rule, &out->low, &out->high);
        break;
    }
}

void ld_in_experiment(struct ld_in *in, const struct ld_value *v, struct ld_experiment_settings *out)
{
    *out = (struct ld_experiment_settings){.level = 0.05, .traffic_level = 0.01, .low = 0, .high = 1};
    if (ld_is(v, LD_V_NULL))
        return;
    out->is_on = ld_in_members(in, v, &ld_experiment_rules, read_member, out);
}

void ld_text_experiment_settings(struct ld_text *t, const struct ld_experiment_settings *e)
{
    ld_text_lit(t, "{");
    ld_text_key(t, "baseline");
    if (e->baseline[0] == '\0')
        ld_text_lit(t, "null");
    else
        ld_text_string(t, e->baseline);
    ld_text_put_number(t, "difference", e->difference);
    ld_text_put_number(t, "level", e->level);
    ld_text_put_number(t, "traffic_level", e->traffic_level);
    ld_text_key(t, "range");
    ld_text_range(t, e->low, e->high);
    ld_text_lit(t, "}");
}
