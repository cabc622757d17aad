/* Routing in JSON: see json_routing.h. Read by the rules of schema/ (rules.h), in bodies and log lines alike.
 *
 * Names of attributes are the caller's own, so their objects are walked key by key; none stands twice. Times are judged
 * against each other once both are read: a schedule that ends before it begins is a fault and no way to switch an arm
 * off. */
#include "json/json_routing.h"

#include <math.h>
#include <string.h>

#include "base/time_text.h"

#define FRACTION_AT 19 /* of "2026-11-22T00:00:00.000Z", and where a time without one ends */

/* --- the configuration -------------------------------------------------------------------------------- */

static void copy_text(char *out, size_t cap, const char *text)
{
    if (text != NULL && strlen(text) < cap)
        strcpy(out, text);
}

static void read_baseline_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct kb_routing_spec *r = arg;
    const struct ld_rule *rule = &ld_baseline_rules.rule[i];
    if (i == LD_BASELINE_RULE) {
        const char *name = ld_in_choice(in, v, rule);
        r->baseline = name != NULL && strcmp(name, "first") == 0 ? KB_BASELINE_FIRST : KB_BASELINE_UNIFORM;
    } else {
        copy_text(r->arm, sizeof r->arm, ld_in_text(in, v, rule));
        r->baseline = KB_BASELINE_ARM;
    }
}

static void read_baseline(struct ld_in *in, const struct ld_value *v, struct kb_routing_spec *r)
{
    r->baseline = KB_BASELINE_NONE;
    r->arm[0] = '\0';
    if (ld_is(v, LD_V_NULL) || !ld_in_members(in, v, &ld_baseline_rules, read_baseline_member, r))
        return;
    const bool has_arm = ld_member_of(v, "arm") != NULL, has_rule = ld_member_of(v, "rule") != NULL;
    if (has_arm == has_rule)
        ld_in_fault(in, NULL, "expected either an arm or a rule");
}

static void read_holdout(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct kb_routing_spec *r = arg;
    const struct ld_rule *rule = &ld_holdout_rules.rule[i];
    if (i == LD_HOLDOUT_SHARE)
        (void)ld_in_real(in, v, rule, &r->holdout);
    else if (i == LD_HOLDOUT_BASELINE)
        read_baseline(in, v, r);
    else if (ld_is(v, LD_V_STRING) && ld_string_bytes(v) == 0)
        r->salt[0] = '\0';
    else
        copy_text(r->salt, sizeof r->salt, ld_in_text(in, v, rule));
}

static void read_sticky(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    double seconds = 0;
    if (ld_in_real(in, v, &ld_sticky_rules.rule[i], &seconds))
        ((struct kb_routing_spec *)arg)->sticky_ms = llround(seconds * 1000);
}

static void read_routing(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct kb_routing_spec *r = arg;
    if (i == LD_ROUTING_HOLDOUT)
        (void)ld_in_members(in, v, &ld_holdout_rules, read_holdout, r);
    else if (i == LD_ROUTING_STOPPED)
        r->is_stopped = ld_in_flag(in, v);
    else if (i == LD_ROUTING_APPRENTICE)
        r->is_apprentice = ld_in_flag(in, v);
    else if (!ld_is(v, LD_V_NULL))
        (void)ld_in_members(in, v, &ld_sticky_rules, read_sticky, r);
}

void ld_in_routing(struct ld_in *in, const struct ld_value *v, struct kb_routing_spec *out)
{
    (void)ld_in_members(in, v, &ld_routing_rules, read_routing, out);
}

static void put_baseline(struct ld_text *t, const struct kb_routing_spec *r)
{
    ld_text_key(t, "baseline");
    if (r->baseline == KB_BASELINE_NONE) {
        ld_text_lit(t, "null");
        return;
    }
    ld_text_lit(t, "{");
    if (r->baseline == KB_BASELINE_ARM)
        ld_text_put_string(t, "arm", r->arm);
    else
        ld_text_put_string(t, "rule", r->baseline == KB_BASELINE_FIRST ? "first" : "uniform");
    ld_text_lit(t, "}");
}

/* With every field but an apprentice that there is not: what was written before there was one stays what it was. */
void ld_text_routing(struct ld_text *t, const struct kb_routing_spec *r)
{
    ld_text_lit(t, "{");
    ld_text_key(t, "holdout");
    ld_text_lit(t, "{");
    ld_text_put_number(t, "share", r->holdout);
    put_baseline(t, r);
    ld_text_put_string(t, "salt", r->salt);
    ld_text_lit(t, "}");
    ld_text_key(t, "sticky");
    if (r->sticky_ms > 0) {
        ld_text_lit(t, "{");
        ld_text_put_number(t, "ttl_s", (double)r->sticky_ms / 1000);
        ld_text_lit(t, "}");
    } else {
        ld_text_lit(t, "null");
    }
    ld_text_put_bool(t, "stopped", r->is_stopped);
    if (r->is_apprentice)
        ld_text_put_bool(t, "apprentice", true);
    ld_text_lit(t, "}");
}

/* --- eligibility ---------------------------------------------------------------------------------------- */

/* A name that the caller has chosen. False with a fault: the value is not looked at then. */
static bool is_name(struct ld_in *in, const char *key)
{
    const struct ld_value name = {.kind = LD_V_STRING, .n = (uint32_t)strlen(key), .as.string = key};
    return ld_in_text(in, &name, &ld_attribute_name_rule) != NULL;
}

/* Whether v is an object of no more members than the rule allows. */
static bool is_map(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    if (ld_is(v, LD_V_OBJECT) && (double)ld_n_members(v) <= rule->hi)
        return true;
    ld_in_fault(in, NULL, "expected an object of at most %.0f members", rule->hi);
    if (ld_is(v, LD_V_OBJECT))
        ld_problem_limit(in->p, rule->key, rule->hi);
    return false;
}

static void read_values(struct ld_in *in, const struct ld_value *v, struct kb_attribute_rule *out)
{
    struct ld_rule rule = ld_attribute_values_rule;
    rule.key = "values";
    if (!ld_in_list(in, v, &rule))
        return;
    const size_t n = ld_n_items(v);
    const char **values = ld_in_alloc(in, n, sizeof *values);
    for (size_t i = 0; values != NULL && i < n; i++) {
        const size_t here = ld_in_item(in, v, i);
        values[i] = ld_in_text(in, ld_item_of(v, i), &ld_attribute_value_rule);
        ld_in_leave(in, here);
    }
    out->values = values;
    out->n_values = values != NULL ? n : 0;
}

static const struct kb_attribute_rule *read_rules(struct ld_in *in, const struct ld_value *v,
                                                  const struct ld_rule *rule, size_t *n)
{
    struct kb_attribute_rule *rules = is_map(in, v, rule) ? ld_in_alloc(in, ld_n_members(v) + 1, sizeof *rules) : NULL;
    if (rules == NULL)
        return NULL;
    for (*n = 0; *n < ld_n_members(v); (*n)++) {
        const char *key = v->as.member[*n].key;
        const size_t here = ld_in_key(in, key);
        rules[*n].name = key;
        if (is_name(in, key))
            read_values(in, &v->as.member[*n].value, &rules[*n]);
        ld_in_leave(in, here);
    }
    return rules;
}

/* With the log's milliseconds or, as people write it, without. */
void ld_in_moment(struct ld_in *in, const struct ld_value *v, int64_t *out)
{
    const char *text = ld_is(v, LD_V_STRING) ? ld_string_of(v) : "";
    char full[32];
    if (strlen(text) == FRACTION_AT + 1 && text[FRACTION_AT] == 'Z') {
        memcpy(full, text, FRACTION_AT);
        strcpy(full + FRACTION_AT, ".000Z");
        text = full;
    }
    if (ld_parse_time(text, out) != 0)
        ld_in_fault(in, NULL, "expected a time such as 2026-11-22T09:00:00Z");
}

/* Hours, and days by their names, as bits. */
static uint32_t read_bits(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    uint32_t bits = 0;
    if (!ld_in_list(in, v, rule))
        return 0;
    for (size_t i = 0; i < ld_n_items(v); i++) {
        const struct ld_value *item = ld_item_of(v, i);
        const size_t here = ld_in_item(in, v, i);
        uint32_t bit = 0;
        if (rule->choices == NULL) {
            bit = (uint32_t)ld_in_count(in, item, &ld_hour_rule, 0);
        } else {
            const char *day = ld_in_choice(in, item, rule);
            while (day != NULL && rule->choices[bit] != day)
                bit++;
        }
        bits |= UINT32_C(1) << bit;
        ld_in_leave(in, here);
    }
    return bits;
}

static void read_eligibility(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct ld_rule *rule = &ld_eligibility_rules.rule[i];
    struct kb_eligibility *out = arg;
    switch (i) {
    case LD_ELIGIBILITY_ALLOW:
        out->allow = read_rules(in, v, rule, &out->n_allow);
        break;
    case LD_ELIGIBILITY_DENY:
        out->deny = read_rules(in, v, rule, &out->n_deny);
        break;
    case LD_ELIGIBILITY_FROM:
        ld_in_moment(in, v, &out->from_ms);
        break;
    case LD_ELIGIBILITY_UNTIL:
        ld_in_moment(in, v, &out->until_ms);
        break;
    case LD_ELIGIBILITY_HOURS:
        out->hours = read_bits(in, v, rule);
        break;
    default:
        out->days = read_bits(in, v, rule);
        break;
    }
}

const struct kb_eligibility *ld_in_eligibility(struct ld_in *in, const struct ld_value *v)
{
    struct kb_eligibility *rules = ld_in_alloc(in, 1, sizeof *rules);
    if (rules == NULL)
        return NULL;
    *rules = KB_ELIGIBILITY_ANY;
    if (!ld_in_members(in, v, &ld_eligibility_rules, read_eligibility, rules))
        return NULL;
    if (rules->from_ms >= rules->until_ms)
        ld_in_fault(in, "until", "expected a time after from");
    const bool is_any = rules->n_allow == 0 && rules->n_deny == 0 && rules->from_ms == INT64_MIN &&
                        rules->until_ms == INT64_MAX && rules->hours == 0 && rules->days == 0;
    return is_any || ld_in_done(in) != 0 ? NULL : rules;
}

static void put_rules(struct ld_text *t, const char *name, const struct kb_attribute_rule *rules, size_t n)
{
    if (n == 0)
        return;
    ld_text_key(t, name);
    ld_text_lit(t, "{");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_string(t, rules[i].name); /* any text: to be escaped, which ld_text_key does not */
        ld_text_lit(t, ":[");
        for (size_t k = 0; k < rules[i].n_values; k++) {
            ld_text_item(t);
            ld_text_string(t, rules[i].values[k]);
        }
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "}");
}

static void put_bits(struct ld_text *t, const struct ld_rule *rule, uint32_t bits)
{
    if (bits == 0)
        return;
    ld_text_key(t, rule->key);
    ld_text_lit(t, "[");
    for (size_t i = 0; bits >> i != 0; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        ld_text_item(t);
        if (rule->choices == NULL)
            ld_text_count(t, i);
        else
            ld_text_string(t, rule->choices[i]);
    }
    ld_text_lit(t, "]");
}

/* What is not said is left out, so that the text is a body again. */
void ld_text_eligibility(struct ld_text *t, const struct kb_eligibility *rules)
{
    ld_text_lit(t, "{");
    put_rules(t, "allow", rules->allow, rules->n_allow);
    put_rules(t, "deny", rules->deny, rules->n_deny);
    if (rules->from_ms != INT64_MIN)
        ld_text_put_time(t, "from", rules->from_ms);
    if (rules->until_ms != INT64_MAX)
        ld_text_put_time(t, "until", rules->until_ms);
    put_bits(t, &ld_eligibility_rules.rule[LD_ELIGIBILITY_HOURS], rules->hours);
    put_bits(t, &ld_eligibility_rules.rule[LD_ELIGIBILITY_DAYS], rules->days);
    ld_text_lit(t, "}");
}

/* --- requests -------------------------------------------------------------------------------------------- */

const struct kb_attribute *ld_in_attributes(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                                            size_t *n)
{
    struct kb_attribute *out = is_map(in, v, rule) ? ld_in_alloc(in, ld_n_members(v) + 1, sizeof *out) : NULL;
    if (out == NULL)
        return NULL;
    for (*n = 0; *n < ld_n_members(v); (*n)++) {
        const char *key = v->as.member[*n].key;
        const size_t here = ld_in_key(in, key);
        out[*n].name = key;
        if (is_name(in, key))
            out[*n].value = ld_in_text(in, &v->as.member[*n].value, &ld_attribute_value_rule);
        ld_in_leave(in, here);
    }
    return out;
}
