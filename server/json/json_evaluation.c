/* See json_evaluation.h. A configuration that the schema takes and this version does not serve is told when nothing
 * else is wrong, as everywhere. */
#include "json/json_evaluation.h"

#include <stdio.h>
#include <string.h>

#include "json/json_routing.h"
#include "json/json_util.h"

#define NO_POLICY "expected logged, uniform or first, or an object with an arm or a configuration"

struct reading {
    struct ld_evaluation_request *out;
    uint32_t context_dim, arm_dim;
    size_t at;                 /* the policy in hand */
    struct ld_problem refusal; /* the first of a configuration */
};

/* ---- policies ------------------------------------------------------------------------------------------- */

static void read_arm(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct reading *r = arg;
    struct ld_evaluation_policy *policy = &r->out->policy[r->at];

    (void)i;
    policy->arm = ld_in_text(in, v, &ld_arm_policy_rules.rule[LD_ARM_POLICY_ARM]);
    if (policy->arm != NULL)
        (void)snprintf(policy->name, sizeof policy->name, "arm:%.256s", policy->arm);
}

static void check_dimensions(struct ld_in *in, const struct reading *r, const struct kb_spec *spec)
{
    if (spec->context_dim > 0 && spec->context_dim != r->context_dim)
        ld_in_refuse(in, "context_dim", "the tenant's contexts have %u numbers: expected 0 or that", r->context_dim);
    if (spec->arm_dim > 0 && r->arm_dim > 0 && spec->arm_dim != r->arm_dim)
        ld_in_refuse(in, "arm_dim", "the tenant's arms have %u numbers: expected 0 or that", r->arm_dim);
}

static void read_configuration(struct ld_in *in, const struct ld_value *v, struct reading *r)
{
    const bool was_fine = in->p->status == 0;
    struct ld_settings *settings = ld_in_alloc(in, 1, sizeof *settings);

    if (settings == NULL)
        return;
    ld_in_settings(in, v, settings);
    if (in->p->status == 0)
        check_dimensions(in, r, &settings->spec);
    if (was_fine && in->p->status == 422) {
        if (r->refusal.status == 0)
            r->refusal = *in->p;
        ld_problem_init(in->p);
    }
    r->out->policy[r->at].settings = settings;
}

static bool is_name(const char *name)
{
    const size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return name[0] != '\0' && name[n] == '\0' && strchr("._-", name[0]) == NULL;
}

/* A name or an id, into `out` of LD_EVALUATION_ID_BYTES or more. */
static void read_name(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, char *out)
{
    const char *name = ld_in_text(in, v, rule);

    if (name == NULL)
        return;
    if (is_name(name))
        strcpy(out, name); /* the rule bounds it */
    else
        ld_in_fault(in, NULL,
                    "expected 1 to 64 characters of A-Z a-z 0-9 . _ -, of which the first is none of the "
                    "last three");
}

static void read_configured(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct reading *r = arg;

    if (i == LD_CONFIGURED_POLICY_CONFIGURATION)
        read_configuration(in, v, r);
    else
        read_name(in, v, &ld_configured_policy_rules.rule[i], r->out->policy[r->at].name);
}

static void read_word(struct ld_in *in, const struct ld_value *v, struct ld_evaluation_policy *out)
{
    static const char *const words[] = {
        [LD_POLICY_LOGGED] = "logged", [LD_POLICY_UNIFORM] = "uniform", [LD_POLICY_FIRST] = "first"};
    const char *word = ld_string_of(v);

    for (int i = LD_POLICY_LOGGED; i <= LD_POLICY_FIRST; i++)
        if (strcmp(word, words[i]) == 0) {
            out->kind = i;
            strcpy(out->name, word);
            return;
        }
    ld_in_fault(in, NULL, NO_POLICY);
}

static void read_policy(struct ld_in *in, const struct ld_value *v, struct reading *r)
{
    struct ld_evaluation_policy *out = &r->out->policy[r->at];

    if (ld_is(v, LD_V_STRING)) {
        read_word(in, v, out);
    } else if (ld_is(v, LD_V_OBJECT) && (ld_member_of(v, "arm") != NULL || (ld_member_of(v, "configuration") == NULL &&
                                                                            ld_member_of(v, "name") == NULL))) {
        out->kind = LD_POLICY_ARM;
        (void)ld_in_members(in, v, &ld_arm_policy_rules, read_arm, r);
    } else if (ld_is(v, LD_V_OBJECT)) {
        out->kind = LD_POLICY_CONFIGURATION;
        (void)snprintf(out->name, sizeof out->name, "configuration%zu", r->at + 1);
        (void)ld_in_members(in, v, &ld_configured_policy_rules, read_configured, r);
    } else {
        ld_in_fault(in, NULL, NO_POLICY);
    }
}

static void read_policies(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct reading *r)
{
    if (!ld_in_list(in, v, rule))
        return;
    for (r->at = 0; r->at < ld_n_items(v); r->at++) {
        const size_t here = ld_in_item(in, v, r->at);

        read_policy(in, ld_item_of(v, r->at), r);
        ld_in_leave(in, here);
    }
    r->out->n = ld_n_items(v);
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

static void read_end(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                     struct ld_evaluation_span *out)
{
    if (ld_is(v, LD_V_STRING)) {
        out->kind = LD_SPAN_TIME;
        ld_in_moment(in, v, &out->at_ms);
    } else if (ld_is(v, LD_V_NUMBER)) {
        out->kind = LD_SPAN_EVENT;
        out->seq = ld_in_count(in, v, rule, 0);
    } else {
        ld_in_fault(in, NULL, "expected an event's number, or a time such as 2026-11-22T09:00:00Z");
    }
}

static void read_estimators(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, bool *is_wanted)
{
    if (!ld_in_list(in, v, rule))
        return;
    memset(is_wanted, 0, LD_N_ESTIMATORS * sizeof *is_wanted);
    for (size_t i = 0; i < ld_n_items(v); i++) {
        const size_t here = ld_in_item(in, v, i);
        const char *word = ld_in_choice(in, ld_item_of(v, i), rule);

        for (size_t k = 0; word != NULL && k < LD_N_ESTIMATORS; k++)
            if (strcmp(rule->choices[k], word) == 0) {
                if (is_wanted[k])
                    ld_in_fault(in, NULL, "stands there twice");
                is_wanted[k] = true;
            }
        ld_in_leave(in, here);
    }
}

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct ld_rule *rule = &ld_evaluation_rules.rule[i];
    struct reading *r = arg;

    switch (i) {
    case LD_EVALUATION_POLICIES:
        read_policies(in, v, rule, r);
        break;
    case LD_EVALUATION_FROM:
        read_end(in, v, rule, &r->out->from);
        break;
    case LD_EVALUATION_TO:
        read_end(in, v, rule, &r->out->to);
        break;
    case LD_EVALUATION_METRIC:
        r->out->metric = ld_in_text(in, v, rule);
        break;
    case LD_EVALUATION_NOTE:
        r->out->note = ld_in_text(in, v, rule);
        break;
    case LD_EVALUATION_ESTIMATORS:
        read_estimators(in, v, rule, r->out->is_wanted);
        break;
    default:
        read_name(in, v, rule, r->out->id);
        break;
    }
}

int ld_decode_evaluation(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_evaluation_request *out,
                         struct ld_problem *p)
{
    struct reading r = {.out = out, .context_dim = context_dim, .arm_dim = arm_dim};
    struct ld_in in;

    *out = (struct ld_evaluation_request){.n = 0};
    for (size_t i = 0; i < LD_N_ESTIMATORS; i++)
        out->is_wanted[i] = true;
    ld_in_init(&in, doc, p);
    (void)ld_in_members(&in, &doc->root, &ld_evaluation_rules, read_member, &r);
    if (p->status == 0 && r.refusal.status != 0)
        *p = r.refusal;
    return ld_in_done(&in);
}

/* ---- what is shown -------------------------------------------------------------------------------------- */

static void put_policy(struct ld_text *t, const struct ld_evaluation_policy *policy)
{
    ld_text_item(t);
    if (policy->kind != LD_POLICY_ARM && policy->kind != LD_POLICY_CONFIGURATION) {
        ld_text_string(t, policy->name);
        return;
    }
    ld_text_lit(t, "{");
    if (policy->kind == LD_POLICY_ARM) {
        ld_text_put_string(t, "arm", policy->arm);
    } else {
        ld_text_put_string(t, "name", policy->name);
        ld_text_key(t, "configuration");
        ld_text_settings(t, policy->settings);
    }
    ld_text_lit(t, "}");
}

static void put_end(struct ld_text *t, const char *key, const struct ld_evaluation_span *span)
{
    if (span->kind == LD_SPAN_EVENT)
        ld_text_put_count(t, key, span->seq);
    else
        ld_text_put_time_or_null(t, key, span->kind == LD_SPAN_TIME, span->at_ms);
}

void ld_text_evaluation_request(struct ld_text *t, const struct ld_evaluation_request *r)
{
    ld_text_lit(t, "{");
    ld_text_key(t, "policies");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < r->n; i++)
        put_policy(t, &r->policy[i]);
    ld_text_lit(t, "]");
    put_end(t, "from", &r->from);
    put_end(t, "to", &r->to);
    ld_text_key(t, "estimators");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < LD_N_ESTIMATORS; i++)
        if (r->is_wanted[i]) {
            ld_text_item(t);
            ld_text_string(t, ld_evaluation_rules.rule[LD_EVALUATION_ESTIMATORS].choices[i]);
        }
    ld_text_lit(t, "]");
    if (r->metric != NULL)
        ld_text_put_string(t, "metric", r->metric);
    if (r->note != NULL)
        ld_text_put_string(t, "note", r->note);
    ld_text_lit(t, "}");
}

static void put_json(struct ld_text *t, const char *key, const char *json)
{
    ld_text_key(t, key);
    ld_text_lit(t, json != NULL ? json : "null");
}

void ld_text_evaluation(struct ld_text *t, const struct ld_evaluation_view *v)
{
    ld_text_lit(t, "{");
    ld_text_put_string(t, "id", v->id);
    ld_text_put_string(t, "state", v->state);
    ld_text_put_known(t, "progress", v->progress);
    ld_text_put_time(t, "begun_at", v->begun_ms);
    ld_text_put_time_or_null(t, "ended_at", v->ended_ms > 0, v->ended_ms);
    ld_text_put_string(t, "by", v->by);
    put_json(t, "request", v->request);
    if (!v->is_short) {
        put_json(t, "result", v->result);
        put_json(t, "problem", v->problem);
    }
    ld_text_lit(t, "}");
}
