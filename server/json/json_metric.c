/* Metrics in JSON: see json_metric.h. Read by the rules of schema/ (rules.h). */
#include "json/json_metric.h"

#include <stdio.h>
#include <string.h>

#include "json/json_experiment.h"

static void read_name(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, char *out)
{
    const char *name = ld_in_text(in, v, rule);

    if (name != NULL && strlen(name) <= KB_METRIC_MAX_BYTES)
        strcpy(out, name);
}

static int read_word(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                     const struct kb_words *words)
{
    const char *name = ld_in_choice(in, v, rule);
    const int value = name != NULL ? kb_word_value(words, name) : 0;

    return value >= 0 ? value : 0;
}

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct ld_metric_settings *out = arg;
    const struct ld_rule *rule = &ld_metric_rules.rule[i];

    switch (i) {
    case LD_METRIC_NAME:
        read_name(in, v, rule, out->name);
        break;
    case LD_METRIC_ROLE:
        out->role = (enum ld_metric_role)read_word(in, v, rule, &ld_metric_role_words);
        break;
    case LD_METRIC_WEIGHT:
        (void)ld_in_real(in, v, rule, &out->weight);
        break;
    case LD_METRIC_RANGE:
        ld_in_range(in, v, rule, &out->low, &out->high);
        break;
    case LD_METRIC_AGGREGATION:
        out->aggregation = (enum kb_aggregation)read_word(in, v, rule, &kb_aggregation_words);
        out->has_aggregation = !in->is_log;
        break;
    case LD_METRIC_DEFAULT:
        (void)ld_in_real(in, v, rule, &out->missing);
        break;
    case LD_METRIC_HARM:
        (void)ld_in_real(in, v, rule, &out->harm);
        break;
    default:
        (void)ld_in_real(in, v, rule, &out->level);
        break;
    }
}

void ld_in_metrics(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct ld_settings *out)
{
    out->n_metrics = 0;
    if (!ld_in_list(in, v, rule))
        return;
    for (size_t i = 0; i < ld_n_items(v) && i < LD_MOST_METRICS; i++) {
        struct ld_metric_settings *m = &out->metric[out->n_metrics++];
        const size_t here = ld_in_item(in, v, i);

        *m = (struct ld_metric_settings){.weight = 1, .high = 1, .level = 0.05};
        (void)ld_in_members(in, ld_item_of(v, i), &ld_metric_rules, read_member, m);
        ld_in_leave(in, here);
    }
}

void ld_text_metrics(struct ld_text *t, const struct ld_settings *s)
{
    ld_text_lit(t, "[");
    for (size_t i = 0; i < s->n_metrics; i++) {
        const struct ld_metric_settings *m = &s->metric[i];

        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "name", m->name);
        ld_text_put_string(t, "role", kb_word(&ld_metric_role_words, (int)m->role));
        ld_text_put_number(t, "weight", m->weight);
        ld_text_key(t, "range");
        ld_text_range(t, m->low, m->high);
        ld_text_put_string(t, "aggregation", kb_word(&kb_aggregation_words, (int)m->aggregation));
        ld_text_put_number(t, "default", m->missing);
        ld_text_put_number(t, "harm", m->harm);
        ld_text_put_number(t, "level", m->level);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* A single objective is booked as the tenant's rewards are; the check refuses one that was named otherwise. */
void ld_settle_metrics(struct ld_settings *s)
{
    s->spec.has_metrics = false;
    for (size_t i = 0; i < s->n_metrics; i++) {
        if (ld_metric_is_measured(s, &s->metric[i]))
            s->spec.has_metrics = true;
        else if (!s->metric[i].has_aggregation)
            s->metric[i].aggregation = s->spec.aggregation;
    }
}

/* Its aggregation is the tenant's, and goes with it. */
void ld_free_objective(const struct ld_settings *s, struct ld_value *configuration)
{
    const struct ld_value *list = ld_member_of(configuration, "metrics");

    for (size_t i = 0; i < s->n_metrics && i < ld_n_items(list); i++)
        if (!ld_metric_is_measured(s, &s->metric[i]))
            ld_leave_out(&list->as.item[i], "aggregation");
}

static enum kb_err refuse(size_t i, const char *member, const char *text, struct kb_errmsg *msg)
{
    return kb_fail_item(KB_EUNSUPPORTED, msg, "/metrics", i, member, "%s", text);
}

enum kb_err ld_check_metrics(const struct ld_settings *s, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < s->n_metrics; i++) {
        const struct ld_metric_settings *m = &s->metric[i];

        if (ld_settings_metric(s, m->name) != m)
            return refuse(i, "/name", "another metric has this name", msg);
        if (!(m->low < m->high))
            return refuse(i, "/range", "expected [low, high] with low below high", msg);
        if (m->harm >= m->high - m->low)
            return refuse(i, "/harm", "expected less than the width of the range", msg);
        if (m->role != LD_OBJECTIVE && m->weight != 1)
            return refuse(i, "/weight", "only an objective has a weight", msg);
        if (!ld_metric_is_measured(s, m) && m->aggregation != s->spec.aggregation)
            return refuse(i, "/aggregation",
                          "of a single objective it is the tenant's: leave it out, or set the tenant's `aggregation`",
                          msg);
    }
    if (ld_settings_weigh_metrics(s) && s->spec.aggregation != KB_AGG_SUM)
        return kb_fail(KB_EUNSUPPORTED, msg, "/aggregation",
                       "a weighted sum of metrics is learned under the aggregation `sum`");
    return KB_OK;
}
