/* Evaluations that clients of Azure Personalizer ask for, as those of a tenant (json_evaluation.h).
 *
 *   there                          here
 *   Online                         "logged"
 *   Baseline                       "first": the first action that was not excluded
 *   Random                         "uniform"
 *   policies[{name, arguments}]    the tenant's configuration with the rule that the flags mean
 *   enableOfflineExperimentation   some other rules, as far as there is room for them
 *
 * What was asked for stands in the note of the tenant's evaluation, from where it is told again
 * (json_personalizer_result.c). */
#include <stdlib.h>
#include <string.h>

#include "base/vw_flags.h"
#include "json/json_flag_value.h"
#include "json/json_personalizer.h"
#include "json/json_personalizer_settings.h"
#include "json/json_personalizer_time.h"
#include "types/evaluation.h"

#define N_OWN 3u
#define MOST_CUSTOM (LD_MOST_EVALUATED - N_OWN)

static const char *const own_policies[N_OWN] = {"logged", "first", "uniform"};
static const char *const own_names[N_OWN] = {"Online", "Baseline", "Random"};

/* --- what is asked for ---------------------------------------------------------------------------------------------
 */

/* A policy that is to learn along the way. */
struct custom {
    const char *name, *arguments, *source;
    struct ld_vw vw;
};

struct asked {
    const char *name;
    int64_t from_ms, to_ms;
    bool is_searching;
    struct custom custom[MOST_CUSTOM];
    size_t n;
};

static void read_custom(struct ld_in *in, const struct ld_value *v, struct asked *out, const char **code)
{
    struct custom *c = &out->custom[out->n];
    struct ld_message why;
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object with name and arguments");
        return;
    }
    c->source = "Custom";
    c->name =
        ld_in_text_of(in, v, "name", &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_NAME], true);
    c->arguments = ld_in_text_of(in, v, "arguments",
                                 &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_ARGUMENTS], true);
    if (c->name == NULL || c->arguments == NULL)
        return;
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->custom[i].name, c->name) == 0) {
            *code = "DuplicateCustomPolicyNames";
            ld_in_fault(in, "name", "stands there twice");
        }
    if (ld_vw_read(c->arguments, &c->vw, &why) == 0) {
        out->n++;
        return;
    }
    *code = "InvalidPolicyConfiguration";
    ld_in_fault(in, "arguments", "%.200s", why.text);
}

static void read_customs(struct ld_in *in, const struct ld_value *list, struct asked *out, const char **code)
{
    const size_t here = ld_in_key(in, "policies");
    if (!ld_is(list, LD_V_ARRAY) || ld_n_items(list) > MOST_CUSTOM)
        ld_in_fault(in, NULL, "expected an array of at most %u policies", MOST_CUSTOM);
    for (size_t i = 0; ld_is(list, LD_V_ARRAY) && i < ld_n_items(list) && out->n < MOST_CUSTOM; i++) {
        const size_t there = ld_in_item(in, list, i);
        read_custom(in, ld_item_of(list, i), out, code);
        ld_in_leave(in, there);
    }
    ld_in_leave(in, here);
}

/* Rules that differ most from each other; those that a caller named are not tried twice. */
static void add_search(struct asked *out)
{
    static const struct custom tried[] = {
        {.name = "Greedy", .arguments = "--cb_explore_adf --epsilon 0.05"},
        {.name = "SquareCB", .arguments = "--cb_explore_adf --squarecb"},
        {.name = "Bag", .arguments = "--cb_explore_adf --bag 10"},
    };
    struct ld_message why;
    for (size_t i = 0; i < sizeof tried / sizeof *tried && out->n < MOST_CUSTOM; i++) {
        struct custom *c = &out->custom[out->n];
        bool is_new = true;
        *c = tried[i];
        c->source = "OfflineExperimentation";
        (void)ld_vw_read(c->arguments, &c->vw, &why);
        for (size_t k = 0; k < out->n; k++)
            is_new &= !ld_vw_is_same(&c->vw, &out->custom[k].vw) && strcmp(c->name, out->custom[k].name) != 0;
        out->n += is_new;
    }
}

static void read_time(struct ld_in *in, const struct ld_value *body, const char *key, int64_t *out)
{
    if (!ld_moment_of(ld_string_of(ld_member_of(body, key)), out))
        ld_in_fault(in, key, "expected a time such as 2026-11-22T09:00:00Z");
}

static void read_asked(struct ld_in *in, const struct ld_value *body, struct asked *out, const char **code)
{
    *out = (struct asked){.is_searching = ld_is(ld_member_of(body, "enableOfflineExperimentation"), LD_V_TRUE) ||
                                          ld_is(ld_member_of(body, "enablePolicyOptimization"), LD_V_TRUE)};
    out->name = ld_in_text_of(in, body, "name",
                              &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_NAME], true);
    read_time(in, body, "startTime", &out->from_ms);
    read_time(in, body, "endTime", &out->to_ms);
    if (in->p->status == 0 && out->from_ms >= out->to_ms)
        ld_in_fault(in, "endTime", "expected a time behind startTime");
    read_customs(in, ld_member_of(body, "policies"), out, code);
    if (out->is_searching)
        add_search(out);
}

/* --- as the tenant's -------------------------------------------------------------------------------------------------
 */

static bool is_kernel(const char *key)
{
    return strcmp(key, "context_kernel") == 0 || strcmp(key, "arm_kernel") == 0;
}

static void put_kernel(struct ld_text *t, const struct ld_value *kernel, bool has_all_pairs)
{
    const char *type = ld_string_of(ld_member_of(kernel, "type"));
    const bool is_polynomial = type != NULL && strcmp(type, "polynomial") == 0;
    ld_text_lit(t, "{");
    for (size_t i = 0; i < ld_n_members(kernel); i++) {
        const struct ld_member *m = &kernel->as.member[i];
        ld_text_key(t, m->key);
        if (is_polynomial && strcmp(m->key, "degree") == 0)
            ld_text_count(t, has_all_pairs ? 2 : 1);
        else
            ld_text_value(t, &m->value);
    }
    ld_text_lit(t, "}");
}

/* What a policy takes over of the tenant: what it learns by. */
static void put_configuration(struct ld_text *t, const struct ld_value *now, const struct ld_vw *vw)
{
    static const char *const taken[] = {"algorithm",   "context_dim",    "arm_dim",    "features",
                                        "user_kernel", "context_kernel", "arm_kernel", "representation",
                                        "prior",       "tune",           "forgetting", "default_reward",
                                        "seed"};
    ld_text_lit(t, "{");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const struct ld_value *v = ld_member_of(now, taken[i]);
        if (v == NULL)
            continue;
        ld_text_key(t, taken[i]);
        if (is_kernel(taken[i]))
            put_kernel(t, v, vw->has_all_pairs);
        else
            ld_text_value(t, v);
    }
    ld_vw_put_rule(t, vw, false);
    ld_text_lit(t, "}");
}

static void put_policies(struct ld_text *t, const struct ld_value *now, const struct asked *asked)
{
    char name[16] = "policy0";
    ld_text_key(t, "policies");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < N_OWN; i++) {
        ld_text_item(t);
        ld_text_string(t, own_policies[i]);
    }
    for (size_t i = 0; i < asked->n; i++) {
        name[6] = (char)('1' + i);
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "name", name);
        ld_text_key(t, "configuration");
        put_configuration(t, now, &asked->custom[i].vw);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_named(struct ld_text *t, const char *name, const char *arguments, const char *source)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "name", name);
    ld_text_put_string(t, "arguments", arguments);
    ld_text_put_string(t, "policySource", source);
    ld_text_lit(t, "}");
}

/* Of the policy in force the arguments are told, of the two others none. */
static char *encode_note(const struct asked *asked, const struct ld_value *body, const char *arguments)
{
    struct ld_text t;
    size_t n;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "name", asked->name);
    ld_text_put_string(&t, "startTime", ld_string_of(ld_member_of(body, "startTime")));
    ld_text_put_string(&t, "endTime", ld_string_of(ld_member_of(body, "endTime")));
    ld_text_key(&t, "policies");
    ld_text_lit(&t, "[");
    for (size_t i = 0; i < N_OWN; i++)
        put_named(&t, own_names[i], i == 0 ? arguments : "", own_names[i]);
    for (size_t i = 0; i < asked->n; i++)
        put_named(&t, asked->custom[i].name, asked->custom[i].arguments, asked->custom[i].source);
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, &n);
}

/* Freed by *doc. */
static const char *arguments_in_force(const struct ld_told_tenant *now, struct ld_doc **doc)
{
    struct ld_problem p;
    size_t n = 0;
    char *text = ld_encode_policy(now, &n);
    ld_problem_init(&p);
    *doc = NULL;
    if (text != NULL)
        (void)ld_doc_parse(doc, text, n, false, &p);
    free(text);
    return *doc != NULL ? ld_string_of(ld_member_of(&(*doc)->root, "arguments")) : NULL;
}

static char *encode_request(const struct asked *asked, const struct ld_value *body, const struct ld_told_tenant *now,
                            const char *id, size_t *n)
{
    struct ld_doc *policy;
    char *note = encode_note(asked, body, arguments_in_force(now, &policy));
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    put_policies(&t, ld_member_of(&now->doc->root, "configuration"), asked);
    ld_text_key(&t, "from");
    ld_text_time(&t, asked->from_ms);
    ld_text_key(&t, "to");
    ld_text_time(&t, asked->to_ms);
    ld_text_lit(&t, ",\"estimators\":[\"ips\",\"snips\"]");
    if (note != NULL)
        ld_text_put_string(&t, "note", note);
    if (id != NULL)
        ld_text_put_string(&t, "id", id);
    ld_text_lit(&t, "}");
    free(note);
    ld_doc_free(policy);
    return ld_text_take(&t, n);
}

char *ld_decode_rank_evaluation(struct ld_doc *doc, const struct ld_told_tenant *now, const char *id, size_t *n,
                                const char **code, struct ld_problem *p)
{
    const struct ld_value *configuration = ld_member_of(&now->doc->root, "configuration");
    struct asked asked;
    struct ld_in in;
    ld_in_init(&in, doc, p);
    if (!ld_is(&doc->root, LD_V_OBJECT))
        ld_in_fault(&in, NULL, "expected an object");
    else
        read_asked(&in, &doc->root, &asked, code);
    if (ld_in_done(&in) != 0)
        return NULL;
    if (ld_is(ld_member_of(configuration, "log_candidates"), LD_V_TRUE) ||
        ld_n_members(ld_member_of(configuration, "challengers")) > 0)
        return encode_request(&asked, &doc->root, now, id, n);
    ld_problem_set(p, 400,
                   "the tenant's log does not say which actions there were to choose from: PATCH `log_candidates` to "
                   "true, and evaluate what comes from then on");
    return NULL;
}

/* --- put in force ---------------------------------------------------------------------------------------------------
 */

char *ld_decode_rank_reference(struct ld_doc *doc, char id[LD_EVALUATION_ID_BYTES], struct ld_problem *p)
{
    const struct ld_value *body = &doc->root;
    struct ld_in in;
    ld_in_init(&in, doc, p);
    const char *name = NULL, *evaluation = ld_string_of(ld_member_of(body, "evaluationId"));
    if (ld_is(body, LD_V_OBJECT))
        name = ld_in_text_of(&in, body, "policyName",
                             &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_NAME], true);
    if (!ld_is(body, LD_V_OBJECT) || evaluation == NULL || evaluation[0] == '\0')
        ld_in_fault(&in, "evaluationId", "expected the id of an evaluation");
    if (ld_in_done(&in) != 0)
        return NULL;
    id[0] = '\0';
    strncat(id, evaluation, LD_EVALUATION_ID_BYTES - 1);
    char *copy = strdup(name);
    if (copy == NULL)
        ld_problem_set(p, 503, "out of memory");
    return copy;
}
