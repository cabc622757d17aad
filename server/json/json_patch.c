/* PATCH /tenants/{t}: changes some fields of a configuration and leaves all others as they are.
 *
 * The patch is a merge patch (RFC 7396). It is merged into the configuration in the form that GET shows, where every
 * field has a value, and the result is read like the body of a PUT. So null removes a field, and reading gives it its
 * default. Faults are those of PUT, by pointer; where the patch names a field, the pointer is one into the patch.
 *
 * Five things go beyond the RFC:
 *
 *   version      a member of the patch alone: the version that it was made for
 *   algorithm    where the patch names it, the groups that a preset fills are left out of what it is merged into, so
 *                that they come from the preset; a challenger's likewise
 *   features     where the patch brings them, what the preset has for no vectors goes with dimensions of 0, so that it
 *                comes from the preset anew; of each challenger likewise
 *   aggregation  where the patch names it, that of a single objective goes with it
 *   {"x": null}  where no configuration has a field x, it stays in, so that its reader names it
 *
 * Members that the patch names come first, in its order, since faults are told in that order. Challengers keep the
 * order that they had: it is part of the configuration. */
#include "json/json_in.h"
#include "json/json_util.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_fields.h"
#include "json/json_metric.h"
#include "json/json_out.h"

/* The place of `challengers`, whose members have names of the caller's. */
static const struct ld_rules names_of_challengers = {NULL, 0, 0};

/* The groups in which presets differ. */
static const char *const of_preset[] = {"user_kernel", "context_kernel", "arm_kernel", "representation",
                                        "prior",       "tune",           "confidence", "rule"};

static bool is_of_preset(const char *key)
{
    for (size_t i = 0; i < sizeof of_preset / sizeof *of_preset; i++)
        if (strcmp(of_preset[i], key) == 0)
            return true;
    return false;
}

/* Whether a whole configuration, or a challenger's, stands there. */
static bool has_algorithm(const struct ld_rules *rules)
{
    return rules == &ld_configuration_rules || rules == &ld_challenger_rules;
}

/* The rules of the object that stands at a member. NULL: none may stand there. */
static const struct ld_rules *rules_below(const struct ld_rules *rules, const char *key)
{
    if (rules == &names_of_challengers)
        return &ld_challenger_rules;
    if (rules == &ld_routing_rules)
        return strcmp(key, "holdout") == 0 ? &ld_holdout_rules : strcmp(key, "sticky") == 0 ? &ld_sticky_rules : NULL;
    if (rules == &ld_holdout_rules)
        return strcmp(key, "baseline") == 0 ? &ld_baseline_rules : NULL;
    if (!has_algorithm(rules) || key[0] == '\0')
        return NULL;
    if (strcmp(key, "challengers") == 0)
        return &names_of_challengers;
    return strcmp(key, "routing") == 0 ? &ld_routing_rules : ld_field_rules(key);
}

static bool is_known(const struct ld_rules *rules, const char *key)
{
    for (size_t i = 0; i < rules->n; i++)
        if (strcmp(rules->rule[i].key, key) == 0)
            return true;
    return false;
}

/* An object on its way. */
struct merging {
    struct ld_in *in;
    const struct ld_value *target, *patch;
    const struct ld_rules *rules;
    struct ld_value *out;
};

static void merge(struct ld_in *in, const struct ld_value *target, const struct ld_value *patch,
                  const struct ld_rules *rules, struct ld_value *out);

/* Whether the patch fills this anew: a preset the groups that it has, `features` the dimensions. */
static bool is_refilled(const struct merging *m, const char *key)
{
    if (m->rules == &ld_configuration_rules && (strcmp(key, "context_dim") == 0 || strcmp(key, "arm_dim") == 0))
        return ld_is(ld_member_of(m->patch, "features"), LD_V_OBJECT);
    return has_algorithm(m->rules) && is_of_preset(key) && ld_member_of(m->patch, "algorithm") != NULL;
}

/* Whether the member goes without a word: null for a field that there is, and the version, which is none. */
static bool is_left_out(const struct merging *m, const struct ld_member *member)
{
    if (m->rules == &ld_configuration_rules && strcmp(member->key, "version") == 0)
        return true;
    return ld_is(&member->value, LD_V_NULL) &&
           (m->rules == NULL || m->rules == &names_of_challengers || is_known(m->rules, member->key));
}

/* What the patch makes of its member. */
static void put_patched(struct merging *m, const struct ld_member *member)
{
    if (is_left_out(m, member))
        return;
    const struct ld_value *old = is_refilled(m, member->key) ? NULL : ld_member_of(m->target, member->key);
    struct ld_member *next = &m->out->as.member[m->out->n++];
    next->key = member->key;
    merge(m->in, old, &member->value, rules_below(m->rules, member->key), &next->value);
}

/* What the patch says nothing of. */
static void put_kept(struct merging *m, const struct ld_member *member)
{
    if (!is_refilled(m, member->key))
        m->out->as.member[m->out->n++] = *member;
}

/* Those that were there, in their order, patched or not; then the new ones. */
static void put_in_old_order(struct merging *m)
{
    for (size_t i = 0; i < ld_n_members(m->target); i++) {
        const struct ld_member *had = &m->target->as.member[i];
        const struct ld_value *v = ld_member_of(m->patch, had->key);
        if (v != NULL)
            put_patched(m, &(struct ld_member){.key = had->key, .value = *v});
        else
            put_kept(m, had);
    }
    for (size_t i = 0; i < ld_n_members(m->patch); i++)
        if (ld_member_of(m->target, m->patch->as.member[i].key) == NULL)
            put_patched(m, &m->patch->as.member[i]);
}

static void put_in_patch_order(struct merging *m)
{
    for (size_t i = 0; i < ld_n_members(m->patch); i++)
        put_patched(m, &m->patch->as.member[i]);
    for (size_t i = 0; i < ld_n_members(m->target); i++)
        if (ld_member_of(m->patch, m->target->as.member[i].key) == NULL)
            put_kept(m, &m->target->as.member[i]);
}

/* RFC 7396, section 2. As deep as the patch, whose depth its parser bounds. Values are shared, not copied. Without
 * memory the object stays empty, and the problem says why. */
static void merge(struct ld_in *in, const struct ld_value *target, const struct ld_value *patch,
                  const struct ld_rules *rules, struct ld_value *out)
{
    *out = *patch;
    if (!ld_is(patch, LD_V_OBJECT))
        return;
    const size_t n = ld_n_members(target) + ld_n_members(patch);
    struct merging m = {in, target, patch, rules, out};
    *out = (struct ld_value){.kind = LD_V_OBJECT};
    out->as.member = ld_in_alloc(in, n + 1, sizeof *out->as.member);
    if (out->as.member == NULL)
        return;
    if (rules == &names_of_challengers)
        put_in_old_order(&m);
    else
        put_in_patch_order(&m);
}

/* --- features for models that had none --------------------------------------------------------------- */

/* The groups of a preset that is another model where arms have features. */
static const char *const of_model[] = {"user_kernel", "representation", "prior", "tune"};

/* Kernels of no vectors are blind: the preset has others. */
static void open_model(const struct kb_spec *now, struct ld_value *model)
{
    const char *algorithm = ld_string_of(ld_member_of(model, "algorithm"));

    if (now->context_dim == 0)
        ld_leave_out(model, "context_kernel");
    if (now->arm_dim == 0)
        ld_leave_out(model, "arm_kernel");
    if (now->arm_dim == 0 && algorithm != NULL && kb_preset_follows_features(algorithm))
        for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
            ld_leave_out(model, of_model[i]);
}

static void open_models(const struct ld_settings *now, struct ld_value *configuration)
{
    const struct ld_value *challengers = ld_member_of(configuration, "challengers");

    for (size_t i = 0; i < ld_n_members(challengers); i++)
        open_model(&now->spec, &challengers->as.member[i].value);
    open_model(&now->spec, configuration);
}

/* 0: the patch is for any. */
static uint64_t version_of(struct ld_in *in, const struct ld_value *patch)
{
    const struct ld_value *v = ld_member_of(patch, "version");
    if (v == NULL)
        return 0;
    const size_t mark = ld_in_key(in, "version");
    const uint64_t version = ld_in_count(in, v, &ld_rollback_rules.rule[LD_ROLLBACK_VERSION], 0);
    ld_in_leave(in, mark);
    return version;
}

int ld_decode_patch(struct ld_doc *doc, const struct ld_settings *now, uint64_t version, struct ld_settings *out,
                    struct ld_problem *p)
{
    struct ld_doc *base = NULL;
    struct ld_value merged;
    struct ld_in in;
    size_t n = 0;
    ld_in_init(&in, doc, p);
    const uint64_t wanted = version_of(&in, &doc->root);
    if (wanted != 0 && wanted != version) {
        ld_problem_set(p, 409, "the configuration has changed since it was looked at");
        ld_problem_add(p, "/version", "is %llu by now", (unsigned long long)version);
        return -1;
    }
    char *text = ld_encode_settings(now, &n);
    if (text == NULL)
        ld_problem_set(p, 503, "out of memory");
    else if (ld_doc_parse(&base, text, n, false, p) == 0) {
        if (ld_member_of(&doc->root, "aggregation") != NULL)
            ld_free_objective(now, &base->root);
        if (ld_is(ld_member_of(&doc->root, "features"), LD_V_OBJECT))
            open_models(now, &base->root);
        merge(&in, &base->root, &doc->root, &ld_configuration_rules, &merged);
        ld_in_settings(&in, &merged, out);
    }
    ld_doc_free(base);
    free(text);
    return ld_in_done(&in);
}

bool ld_doc_has_member(const struct ld_doc *doc, const char *key)
{
    return ld_member_of(&doc->root, key) != NULL;
}
