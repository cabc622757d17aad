/* Limits of a tenant as JSON: the body that sets them, and how they are shown. */

#include "json/json_limits.h"

#include <math.h>

#include "json/json_util.h"

struct limits_reading {
    struct ld_rate *out;
    bool has_rate, has_burst;
};

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct limits_reading *r = arg;
    const struct ld_rule *rule = &ld_limits_rules.rule[i];

    *(i == LD_LIMITS_RATE ? &r->has_rate : &r->has_burst) = true;
    (void)ld_in_real(in, v, rule, i == LD_LIMITS_RATE ? &r->out->rate : &r->out->burst);
}

/* A burst alone would change with the server's rate, which nobody can mean: the schema's dependentRequired. */
int ld_decode_limits(struct ld_doc *doc, struct ld_rate *out, bool *is_own, struct ld_problem *p)
{
    struct limits_reading r = {.out = out};
    struct ld_in in;

    ld_in_init(&in, doc, p);
    *out = (struct ld_rate){.rate = 0};
    if (ld_in_members(&in, &doc->root, &ld_limits_rules, read_member, &r) && r.has_burst && !r.has_rate)
        ld_in_fault(&in, "rate", "required beside a burst");
    *is_own = r.has_rate;
    return ld_in_done(&in);
}

char *ld_encode_limits(const struct ld_rate *limit, bool is_own, double fill, size_t *n)
{
    struct ld_text t;

    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_number(&t, "rate", limit->rate);
    ld_text_put_number(&t, "burst", limit->burst);
    ld_text_put_bool(&t, "own", is_own);
    ld_text_put_known(&t, "available", limit->rate > 0 ? fill : (double)NAN);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
