/* Values by the rules of the schemas (rules.h): of bodies, and of log lines by rules of their own. A fault is told at
 * the place in hand, and reading goes on with a harmless value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ids.h"
#include "json/json_util.h"

/* --- values ------------------------------------------------------------------------------------------ */

static bool is_id(const struct ld_rule *rule)
{
    static const char *const keys[] = {"user", "arm", "decision", "id"};
    for (size_t i = 0; rule->key != NULL && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], rule->key) == 0)
            return true;
    return rule == &ld_id_rule;
}

/* Where it stands for no id. Apart from ld_in_text, which is what all texts go through. */
static __attribute__((noinline)) const char *number_for_text(struct ld_in *in, const struct ld_value *v,
                                                             const struct ld_rule *rule)
{
    if (in->is_log || is_id(rule))
        return ld_in_id_value(in, v, (size_t)rule->hi);
    ld_in_fault_unquoted(in, v, "expected a string");
    return NULL;
}

const char *ld_in_text(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    return ld_is(v, LD_V_NUMBER) ? number_for_text(in, v, rule) : ld_in_id_value(in, v, (size_t)rule->hi);
}

/* NaN is in no range, which covers what is no number. */
static bool is_within(const struct ld_rule *rule, double x)
{
    return (rule->is_lo_open ? x > rule->lo : x >= rule->lo) && (rule->is_hi_open ? x < rule->hi : x <= rule->hi);
}

/* Of what a model computes with, the server may want no more than the schema does. */
static double magnitude_of(const struct ld_in *in, const struct ld_rule *rule)
{
    return rule->is_magnitude && !in->is_log ? in->doc->magnitude : (double)INFINITY;
}

/* "expected a number > 0 and <= 1, or auto, or null" */
static void fault_range(struct ld_in *in, const struct ld_rule *rule, const char *or_null)
{
    char lo[32] = "", hi[32] = "";
    const double least = fmax(rule->lo, -magnitude_of(in, rule)), most = fmin(rule->hi, magnitude_of(in, rule));
    const bool has_lo = isfinite(least), has_hi = isfinite(most);
    if (has_lo)
        (void)snprintf(lo, sizeof lo, " %s %.16g", rule->is_lo_open ? ">" : ">=", least);
    if (has_hi)
        (void)snprintf(hi, sizeof hi, "%s %s %.16g", has_lo ? " and" : "", rule->is_hi_open ? "<" : "<=", most);
    ld_in_fault(in, NULL, "expected a %snumber%s%s%s%s%s", has_lo || has_hi ? "" : "finite ", lo, hi,
                rule->choices != NULL ? ", or " : "", rule->choices != NULL ? rule->choices[0] : "", or_null);
}

/* Every number of JSON is finite here. False, with *out as it was: it is out of range, or no number. */
static inline bool read_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                             const char *or_null, double *out)
{
    const double x = ld_is(v, LD_V_NUMBER) ? ld_number_of(v) : (double)NAN;
    if (is_within(rule, x) && fabs(x) <= magnitude_of(in, rule)) {
        *out = x;
        return true;
    }
    fault_range(in, rule, or_null);
    return false;
}

bool ld_in_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out)
{
    return read_real(in, v, rule, "", out);
}

bool ld_in_real_or_null(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out)
{
    if (ld_is(v, LD_V_NULL))
        return false;
    (void)read_real(in, v, rule, ", or null", out);
    return true;
}

/* 1.0 and 1e0 are whole. Bounds are whole and at most 2^53, where doubles still count one by one. */
uint64_t ld_in_count(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, uint64_t otherwise)
{
    const double x = ld_is(v, LD_V_NUMBER) ? ld_number_of(v) : (double)NAN;
    if (is_within(rule, x) && x == floor(x))
        return (uint64_t)x;
    ld_in_fault(in, NULL, "expected a whole number from %.0f to %.0f", rule->lo, rule->hi);
    if (x > rule->hi && rule->key != NULL)
        ld_problem_limit(in->p, rule->key, rule->hi);
    return otherwise;
}

/* 0 and 1 are not booleans. */
bool ld_in_flag(struct ld_in *in, const struct ld_value *v)
{
    if (!ld_is_bool(v))
        ld_in_fault(in, NULL, "expected true or false");
    return ld_is(v, LD_V_TRUE);
}

/* The word in the rule's own memory, or NULL. */
const char *ld_in_choice(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    const char *word = ld_string_of(v);
    char list[220] = "";
    size_t n = 0;
    for (size_t i = 0; word != NULL && rule->choices[i] != NULL; i++)
        if (strcmp(rule->choices[i], word) == 0)
            return rule->choices[i];
    for (size_t i = 0; rule->choices[i] != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", rule->choices[i]);
    ld_in_fault(in, NULL, "expected one of %s", list);
    return NULL;
}

/* --- lists -------------------------------------------------------------------------------------------- */

/* Whether v is an array with as many items as the rule allows. Without an upper end the body's size is the bound. */
bool ld_in_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    const double n = (double)ld_n_items(v);
    if (ld_is(v, LD_V_ARRAY) && n >= rule->lo && n <= rule->hi)
        return true;
    if (n > rule->hi && (rule->key != NULL || rule == &ld_rewards_rule))
        ld_problem_limit(in->p, rule->key != NULL ? rule->key : "rewards", rule->hi);
    if (isfinite(rule->hi))
        ld_in_fault(in, NULL, "expected an array of %.0f to %.0f items", rule->lo, rule->hi);
    else
        ld_in_fault(in, NULL, "expected an array");
    return false;
}

/* NULL and *n = 0 when the list is faulty or empty. Faulty items stay NULL; the fault keeps it from being used. The
 * strings are borrowed from the document, the array of pointers lives in its memory. Repeats are not looked for. */
const char *const *ld_in_id_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, size_t *n)
{
    const size_t n_items = ld_n_items(v);
    const char **ids = ld_in_list(in, v, rule) && n_items > 0 ? ld_in_alloc(in, n_items, sizeof *ids) : NULL;
    *n = ids != NULL ? n_items : 0;
    for (size_t i = 0; i < *n; i++) {
        const size_t here = ld_in_item(in, v, i);
        ids[i] = ld_in_id_value(in, ld_item_of(v, i), KB_ID_MAX_BYTES);
        ld_in_leave(in, here);
    }
    return ids;
}

/* A context is missing where there are dimensions: what the schema cannot say. Called behind ld_in_members. */
void ld_in_need_context(struct ld_in *in, const struct ld_value *object, const struct ld_rule *rule, uint32_t dim)
{
    if (dim > 0 && ld_member_of(object, rule->key) == NULL)
        ld_in_fault(in, rule->key, "required: an array of %u numbers, since the tenant's context_dim is %u",
                    (unsigned)dim, (unsigned)dim);
}

/* Tells of an id that stands in the list already, at the second of the two. `seen` are those so
 * far; what is no id is let pass. */
void ld_in_refuse_repeat(struct ld_in *in, struct kb_ids *seen, const char *id)
{
    if (id == NULL)
        return;
    if (kb_ids_find(seen, id) != KB_ID_NONE)
        ld_in_fault(in, NULL, "the arm stands in the list already");
    else if (kb_ids_reserve(seen, 1, strlen(id) + 1) == KB_OK)
        (void)kb_ids_add(seen, id);
    else
        ld_problem_set(in->p, 503, "out of memory");
}
