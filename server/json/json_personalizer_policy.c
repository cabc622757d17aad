/* The policy of Azure Personalizer ("learning settings"), to and from the rule of a tenant.
 *
 * `arguments` are flags of Vowpal Wabbit (base/vw_flags.h). What they say of exploration becomes the tenant's `rule`
 * and `confidence`; of its kernels the degree alone changes, where they are polynomials. Name and arguments are kept in
 * `personalizer`, and told again as long as the rule in force is what they mean; else flags that mean that rule. */
#include <stdlib.h>
#include <string.h>

#include "base/vw_flags.h"
#include "json/json_personalizer.h"
#include "json/json_personalizer_settings.h"

static const char *const kernels[] = {"context_kernel", "arm_kernel"};
#define N_KERNELS 2u

static bool is_polynomial(const struct ld_value *now, const char *kernel)
{
    const char *type = ld_string_of(ld_member_of(ld_member_of(now, kernel), "type"));
    return type != NULL && strcmp(type, "polynomial") == 0;
}

/* Whether its flags may speak of products of features of one side. */
static bool has_degrees(const struct ld_value *now)
{
    return is_polynomial(now, kernels[0]) && is_polynomial(now, kernels[1]);
}

/* --- told ----------------------------------------------------------------------------------------------------------
 */

/* The rule in force as flags would have asked for it. What has no equal is the nearest. */
static struct ld_vw in_force(const struct ld_value *now)
{
    const struct ld_value *rule = ld_member_of(now, "rule"), *confidence = ld_member_of(now, "confidence");
    const char *type = ld_string_of(ld_member_of(rule, "type"));
    struct ld_vw vw = {.rule = LD_VW_THOMPSON, .epsilon = ld_number_of(ld_member_of(rule, "epsilon"))};
    for (int i = LD_VW_UCB; type != NULL && i < LD_VW_N_RULES; i++)
        if (strcmp(ld_vw_rules[i], type) == 0)
            vw.rule = (enum ld_vw_rule)i;
    if (vw.rule == LD_VW_UCB && ld_is(ld_member_of(confidence, "beta"), LD_V_NUMBER) &&
        ld_number_of(ld_member_of(confidence, "beta")) == 0)
        vw.rule = LD_VW_GREEDY;
    vw.gamma_scale = ld_number_of(ld_member_of(rule, "gamma_scale"));
    vw.gamma_exponent = ld_number_of(ld_member_of(rule, "gamma_exponent"));
    vw.has_all_pairs = has_degrees(now) && ld_number_of(ld_member_of(ld_member_of(now, kernels[0]), "degree")) == 2;
    return vw;
}

/* Of the policy that was put, if there is one, with a name and arguments, and it is in force still. */
static bool is_kept(const struct ld_value *now, struct ld_vw *out)
{
    const struct ld_value *kept = ld_member_of(now, "personalizer");
    const char *arguments = ld_string_of(ld_member_of(kept, "policy_arguments"));
    const struct ld_vw rule = in_force(now);
    struct ld_message why;
    if (arguments == NULL || ld_string_of(ld_member_of(kept, "policy_name")) == NULL ||
        ld_vw_read(arguments, out, &why) != 0)
        return false;
    out->has_all_pairs &= has_degrees(now);
    return ld_vw_is_same(out, &rule);
}

char *ld_encode_policy(const struct ld_told_tenant *tenant, size_t *n)
{
    const struct ld_value *now = ld_member_of(&tenant->doc->root, "configuration"),
                          *kept = ld_member_of(now, "personalizer");
    const char *name = ld_string_of(ld_member_of(kept, "policy_name"));
    struct ld_vw vw;
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    if (is_kept(now, &vw)) {
        ld_text_put_string(&t, "name", name);
        ld_text_put_string(&t, "arguments", ld_string_of(ld_member_of(kept, "policy_arguments")));
    } else {
        vw = in_force(now);
        ld_text_put_string(&t, "name", ld_string_of(ld_member_of(now, "algorithm")));
        ld_text_key(&t, "arguments");
        ld_text_lit(&t, "\"");
        ld_vw_put_flags(&t, &vw);
        ld_text_lit(&t, "\"");
    }
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

void ld_policy_ignored(const struct ld_told_tenant *tenant, char out[LD_IGNORED_BYTES])
{
    const struct ld_value *now = ld_member_of(&tenant->doc->root, "configuration");
    struct ld_vw vw;
    out[0] = '\0';
    if (!is_kept(now, &vw))
        return;
    for (size_t i = 0; i < vw.n; i++) {
        const bool is_idle = vw.remark[i].is_idle || (vw.remark[i].is_of_pairs && !has_degrees(now));
        if (!is_idle || strlen(out) + strlen(vw.remark[i].flag) + 3 > LD_IGNORED_BYTES)
            continue;
        strcat(strcat(out, out[0] != '\0' ? ", " : ""), vw.remark[i].flag);
    }
}

/* --- put -------------------------------------------------------------------------------------------------------------
 */

static void put_degree(struct ld_text *t, const struct ld_value *now, bool has_all_pairs)
{
    for (size_t i = 0; i < N_KERNELS && has_degrees(now); i++) {
        ld_text_key(t, kernels[i]);
        ld_text_lit(t, has_all_pairs ? "{\"degree\":2}" : "{\"degree\":1}");
    }
}

/* The algorithm's own rule, and nothing kept. */
static void put_reset(struct ld_text *t)
{
    ld_text_lit(t, "\"rule\":null,\"confidence\":null,"
                   "\"personalizer\":{\"policy_name\":null,\"policy_arguments\":null}");
}

static bool is_told(const struct ld_told_tenant *now, const char *name, const char *arguments)
{
    struct ld_doc *told = NULL;
    struct ld_problem p;
    size_t n = 0;
    char *text = ld_encode_policy(now, &n);
    bool is_same = false;
    ld_problem_init(&p);
    if (text != NULL && ld_doc_parse(&told, text, n, false, &p) == 0)
        is_same = ld_is_text(ld_member_of(&told->root, "name"), name) &&
                  ld_is_text(ld_member_of(&told->root, "arguments"), arguments);
    ld_doc_free(told);
    free(text);
    return is_same;
}

/* Who writes back what was told changes nothing. */
static void read_policy(struct ld_in *in, const struct ld_value *body, const struct ld_told_tenant *tenant,
                        struct ld_text *t, const char **code)
{
    const struct ld_value *now = ld_member_of(&tenant->doc->root, "configuration");
    const char *name = ld_in_text_of(in, body, "name",
                                     &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_NAME], true),
               *arguments =
                   ld_in_text_of(in, body, "arguments",
                                 &ld_personalizer_settings_rules.rule[LD_PERSONALIZER_SETTINGS_POLICY_ARGUMENTS], true);
    struct ld_message why;
    struct ld_vw vw;
    if (name == NULL || arguments == NULL || is_told(tenant, name, arguments))
        return;
    if (ld_vw_read(arguments, &vw, &why) != 0) {
        *code = "InvalidPolicyConfiguration";
        ld_in_fault(in, "arguments", "%.200s", why.text);
        return;
    }
    ld_vw_put_rule(t, &vw, true);
    put_degree(t, now, vw.has_all_pairs);
    ld_text_key(t, "personalizer");
    ld_text_lit(t, "{");
    ld_text_put_string(t, "policy_name", name);
    ld_text_put_string(t, "policy_arguments", arguments);
    ld_text_lit(t, "}");
}

char *ld_decode_policy(struct ld_doc *doc, const struct ld_told_tenant *now, size_t *n, const char **code,
                       struct ld_problem *p)
{
    struct ld_in in;
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    if (doc == NULL) {
        put_reset(&t);
    } else {
        ld_in_init(&in, doc, p);
        if (ld_is(&doc->root, LD_V_OBJECT))
            read_policy(&in, &doc->root, now, &t, code);
        else
            ld_in_fault(&in, NULL, "expected an object with name and arguments");
    }
    ld_text_lit(&t, "}");
    if (p->status == 0)
        return ld_text_take(&t, n);
    ld_text_close(&t);
    return NULL;
}
