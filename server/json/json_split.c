/* Weights of a split in JSON: see json_split.h. Names of arms are the caller's own, so the object is walked key by key;
 * none stands twice. */
#include "json/json_split.h"

#include <string.h>

#include "json/rules.h"

static void read_weight(struct ld_in *in, const struct ld_member *m, struct kb_split *out)
{
    const struct ld_value id = {.kind = LD_V_STRING, .n = (uint32_t)strlen(m->key), .as.string = m->key};
    double weight = 0;

    if (ld_in_text(in, &id, &ld_id_rule) == NULL || !ld_in_real(in, &m->value, &ld_split_weight_rule, &weight))
        return;
    if (kb_split_put(out, m->key, weight) == KB_OK)
        return;
    ld_in_fault(in, NULL, "the ids of arms with a weight take more than %u bytes in all", KB_SPLIT_BYTES);
    ld_problem_limit(in->p, "weight_bytes", KB_SPLIT_BYTES);
}

void ld_in_weights(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                   const struct ld_weights_of *of, struct kb_split *out)
{
    *out = (struct kb_split){.n = 0};
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object of weights by the %s", of->keys);
        return;
    }
    if ((double)ld_n_members(v) > rule->hi) {
        ld_in_fault(in, NULL, "expected at most %.0f %s", rule->hi, of->what);
        ld_problem_limit(in->p, rule->key, rule->hi);
        return;
    }
    for (size_t i = 0; i < ld_n_members(v); i++) {
        const size_t here = ld_in_key(in, v->as.member[i].key);

        of->read(in, &v->as.member[i], out);
        ld_in_leave(in, here);
    }
}

void ld_in_split(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct kb_split *out)
{
    static const struct ld_weights_of arms = {"ids of their arms", "arms", read_weight};

    ld_in_weights(in, v, rule, &arms, out);
}

/* In the order of the ids. */
void ld_text_split(struct ld_text *t, const struct kb_split *s)
{
    ld_text_lit(t, "{");
    for (uint32_t i = 0; i < s->n; i++) {
        ld_text_item(t);
        ld_text_string(t, kb_split_id(s, i)); /* any text: to be escaped, which ld_text_key does not */
        ld_text_lit(t, ":");
        ld_text_number(t, s->weight[i]);
    }
    ld_text_lit(t, "}");
}
