/* The configuration object -> struct ld_settings, by the table of json_fields.c.
 *
 * The preset named by `algorithm` fills everything first, given the dimensions; then each member that is there
 * overrides its field. Faults of type and range are all collected (400); values that the contract has and this
 * version does not serve are 422, and so are combinations that kb_spec_check refuses.
 *
 * Units: reward_window_s is seconds in JSON and milliseconds in the struct. */
#include "json/json_in.h"
#include "json/json_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json/json_experiment.h"
#include "json/json_features.h"
#include "json/json_fields.h"
#include "json/json_metric.h"
#include "json/json_personalizer_settings.h"
#include "json/json_routing.h"
#include "json/json_split.h"
#include "base/names.h"
#include "spec/fields.h"

_Static_assert(offsetof(struct ld_settings, spec) == 0, "a pointer to the spec is one to its settings");
_Static_assert(sizeof(enum kb_rule_type) == sizeof(int), "enums are read and written as int");

static void read_choice(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, void *out)
{
    const char *name = ld_in_choice(in, v, f->rule);
    int type = name != NULL ? kb_word_value(f->words, name) : -1;
    if (type >= 0)
        memcpy(out, &type, sizeof type);
}

/* Under "median" the number stays what the preset has, until the first reset of the log puts a measured one in
 * force. */
static void read_lengthscale(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, double *out,
                             bool *is_median)
{
    *is_median = ld_is_text(v, "median");
    if (!*is_median)
        (void)ld_in_real(in, v, f->rule, out);
}

/* 0 inside the program means what the word says: that the rule chooses ("auto"), or the data ("median"). */
static void read_or(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, double *out)
{
    if (ld_is_text(v, f->rule->choices[0]))
        *out = 0;
    else
        (void)ld_in_real(in, v, f->rule, out);
}

/* Rounded to the millisecond, so that what is written reads back the same. */
static void read_window(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, int64_t *out)
{
    double seconds = (double)*out / 1000;
    (void)ld_in_real(in, v, f->rule, &seconds);
    *out = llround(seconds * 1000);
}

/* null, the default, is 0 in the struct: nothing is left out by this rule. */
static void read_age(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, int64_t *out)
{
    double seconds = 0;
    (void)ld_in_real_or_null(in, v, f->rule, &seconds);
    *out = llround(seconds * 1000);
}

/* What gives up a promise must be spelled out. */
static void read_either(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, bool *is_second)
{
    const char *name = ld_in_choice(in, v, f->rule);
    *is_second = name != NULL && strcmp(name, f->rule->choices[1]) == 0;
}

/* A challenger's name, or null. Whether there is such a challenger is asked behind all others (check_guardrail). */
static void read_name(struct ld_in *in, const struct ld_value *v, char *out)
{
    const char *name = ld_string_of(v);
    out[0] = '\0';
    if (name != NULL && ld_tenant_name_is_valid(name))
        strcpy(out, name);
    else if (!ld_is(v, LD_V_NULL))
        ld_in_fault(in, NULL, "expected the name of a challenger, or null");
}

static void read_challengers(struct ld_in *in, const struct ld_value *v, struct ld_settings *out);
static void read_group(struct ld_in *in, const char *group, const struct ld_value *object, struct ld_settings *out);

/* One member, by the kind of its row. The path already points at it. */
static void read_field(struct ld_in *in, const struct ld_field *f, const struct ld_value *v, struct ld_settings *out)
{
    void *at = (char *)out + f->offset;
    bool *flag = (bool *)((char *)out + f->flag);
    const struct ld_rule *rule = f->rule;
    if (f->learned != 0 && ld_is_text(v, "learned")) {
        kb_spec_learn(&out->spec, f->learned);
        return;
    }
    out->spec.learned &= ~f->learned;
    switch (f->kind) {
    case LD_ALGORITHM: /* these two have been read (read_identity): what is wrong with them is told in its place */
        (void)ld_in_choice(in, v, rule);
        break;
    case LD_DIMENSION:
        (void)ld_in_count(in, v, rule, 0);
        break;
    case LD_NUMBER:
        (void)ld_in_real(in, v, rule, at);
        break;
    case LD_SIZE:
        *(size_t *)at = (size_t)ld_in_count(in, v, rule, *(size_t *)at);
        break;
    case LD_DEGREE:
        *(int *)at = (int)ld_in_count(in, v, rule, (uint64_t) * (int *)at);
        break;
    case LD_SEED:
        *(uint64_t *)at = ld_in_count(in, v, rule, *(uint64_t *)at);
        break;
    case LD_FLAG:
        *(bool *)at = ld_in_flag(in, v);
        break;
    case LD_CHOICE:
        read_choice(in, f, v, at);
        break;
    case LD_LENGTHSCALE:
        read_lengthscale(in, f, v, at, flag);
        break;
    case LD_OR_WORD:
        read_or(in, f, v, at);
        break;
    case LD_WINDOW:
        read_window(in, f, v, at);
        break;
    case LD_DEFAULT_REWARD:
        *flag = ld_in_real_or_null(in, v, rule, at);
        break;
    case LD_EITHER:
        read_either(in, f, v, at);
        break;
    case LD_SIZE_OR_NULL:
        *(size_t *)at = ld_is(v, LD_V_NULL) ? 0 : (size_t)ld_in_count(in, v, rule, 0);
        break;
    case LD_AGE_OR_NULL:
        read_age(in, f, v, at);
        break;
    case LD_NAME_OR_NULL:
        read_name(in, v, at);
        break;
    case LD_CHALLENGERS: /* for its faults, which stand here; its values rest on those of all others */
        read_challengers(in, v, out);
        break;
    case LD_ROUTING:
        ld_in_routing(in, v, at);
        break;
    case LD_EXPERIMENT:
        ld_in_experiment(in, v, at);
        break;
    case LD_METRICS:
        ld_in_metrics(in, v, rule, out);
        break;
    case LD_RANGE_OR_NULL:
        *flag = !ld_is(v, LD_V_NULL);
        if (*flag)
            ld_in_range(in, v, rule, at, (double *)at + 1);
        break;
    case LD_WEIGHTS:
        ld_in_split(in, v, rule, at);
        break;
    case LD_FEATURES:
        ld_in_features(in, v, at);
        break;
    case LD_PERSONALIZER:
        ld_in_personalizer(in, v, at);
        break;
    case LD_GROUP:
        read_group(in, rule->key, v, out);
        break;
    }
}

/* KORS's mu is a ridge that is told, unless it is told as well: a dictionary coarser than the noise would cost what it
 * saves. */
static void follow_lambda(const struct ld_value *representation, struct ld_settings *out)
{
    if (ld_is(ld_member_of(representation, "lambda"), LD_V_NUMBER) && ld_member_of(representation, "mu") == NULL)
        out->spec.repr.mu = out->spec.repr.lambda;
}

/* Bounds cannot be had of rewards that change, over a dictionary, that are forgotten or that wait (spec_check.c): who
 * asks for that without naming a confidence rule gets `fixed` where bounds are for reading only, and who names one is
 * told. */
static void follow_bookkeeping(const struct ld_value *object, struct kb_spec *spec)
{
    const bool is_asked = spec->aggregation != KB_AGG_FIRST || spec->forgetting.type != KB_FORGET_NONE ||
                          spec->pending != KB_PENDING_IGNORE;

    if (ld_member_of(ld_member_of(object, "confidence"), "type") == NULL && is_asked &&
        spec->conf.score == KB_SCORE_FIXED)
        kb_spec_drop_unserved_confidence(spec);
}

/* A group on its way. */
struct group_reading {
    const char *group;
    const struct ld_rules *rules;
    struct ld_settings *out;
};

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct group_reading *r = arg;
    const struct ld_field f = ld_field_find(r->group, &r->rules->rule[i]);
    read_field(in, &f, v, r->out);
}

/* Configurations that were logged before kernels had a tolerance had exact ones, and are folded as they were. */
static void keep_exact(const struct ld_in *in, const struct ld_value *object, struct ld_settings *out)
{
    if (in->is_log && ld_member_of(object, "tolerance") == NULL)
        out->spec.user_kernel.tolerance = 0;
}

/* The members of one group, or of the configuration itself (""). */
static void read_group(struct ld_in *in, const char *group, const struct ld_value *object, struct ld_settings *out)
{
    struct group_reading r = {group, ld_field_rules(group), out};
    (void)ld_in_members(in, object, r.rules, read_member, &r);
    if (strcmp(group, "representation") == 0)
        follow_lambda(object, out);
    if (strcmp(group, "user_kernel") == 0)
        keep_exact(in, object, out);
}

/* A dimension, or 0 where it is faulty or none is told. */
static uint32_t dimension(const struct ld_value *object, size_t at)
{
    const struct ld_rule *rule = &ld_configuration_rules.rule[at];
    const struct ld_value *v = ld_member_of(object, rule->key);
    const double x = ld_is(v, LD_V_NUMBER) ? ld_number_of(v) : 0;
    return x >= rule->lo && x <= rule->hi ? (uint32_t)x : 0;
}

/* A configuration in the log says all that it leaves to the rewards; those of older versions said nothing. */
static void learn_nothing(struct kb_spec *spec)
{
    spec->is_tuned = false;
    spec->learned = 0;
}

/* `tune`, which an exact model hears before its numbers: they fix what they name. */
static void hear_tune(const struct ld_value *object, struct kb_spec *spec)
{
    const struct ld_value *v = ld_member_of(object, "tune");

    if (ld_is(v, LD_V_TRUE) && !spec->is_tuned)
        kb_spec_tune(spec, true);
    else if (ld_is(v, LD_V_FALSE))
        kb_spec_tune(spec, false);
}

/* Behind all members. In a request what an exact model cannot find, or is not to, is what it is in the papers; the line
 * of a log that is older than such a prior has none. */
static void settle_tune(const struct ld_in *in, const struct ld_value *object, struct kb_spec *spec)
{
    const bool is_exact = spec->repr.type == KB_REPR_EXACT;

    if (is_exact && !in->is_log && !kb_spec_is_scaled(spec) && (spec->learned & KB_LEARNED_APART) != 0)
        kb_spec_tune(spec, false);
    if (in->is_log && kb_spec_is_scaled(spec) && ld_member_of(object, "prior") == NULL)
        spec->is_tuned = false;
}

/* Algorithm and dimensions, which decide what all other fields are when left out. What is wrong with them is told when
 * read_group comes by; until then a default helps to find the other faults. */
static void read_identity(const struct ld_in *in, const struct ld_value *v, struct ld_settings *out)
{
    const char *name = ld_string_of(ld_member_of(v, "algorithm"));
    const uint32_t named = ld_features_dim(ld_member_of(v, "features"));
    const uint32_t context_dim = named > 0 ? named : dimension(v, LD_CONFIGURATION_CONTEXT_DIM);
    const uint32_t arm_dim = named > 0 ? named : dimension(v, LD_CONFIGURATION_ARM_DIM);
    if (name == NULL || kb_spec_preset(&out->spec, name, context_dim, arm_dim) != KB_OK)
        (void)kb_spec_preset(&out->spec, "laplaced", context_dim, arm_dim);
    if (in->is_log)
        learn_nothing(&out->spec);
    else
        hear_tune(v, &out->spec);
}

/* --- challengers --------------------------------------------------------------------------------------- */

/* From the tenant's own values or, under an algorithm of its own, from that preset's; dimensions, seed and how rewards
 * are booked are the tenant's in both cases. */
static void read_challenger(struct ld_in *in, const struct ld_value *v, const struct kb_spec *own, struct kb_spec *out)
{
    const char *name = ld_string_of(ld_member_of(v, "algorithm"));
    struct ld_settings s = {.spec = *own};
    struct group_reading r = {"", &ld_challenger_rules, &s};
    if (name != NULL && kb_spec_preset(&s.spec, name, own->context_dim, own->arm_dim) == KB_OK) {
        kb_spec_take_books(&s.spec, own);
        s.spec.seed = own->seed;
        s.spec.spaces = own->spaces;
    }
    if (in->is_log)
        learn_nothing(&s.spec);
    else
        hear_tune(v, &s.spec);
    if (ld_in_members(in, v, &ld_challenger_rules, read_member, &r))
        follow_bookkeeping(v, &s.spec);
    settle_tune(in, v, &s.spec);
    *out = s.spec;
}

/* Once where they stand, and once more behind all other members, whose values they start from. */
static void read_challengers(struct ld_in *in, const struct ld_value *v, struct ld_settings *out)
{
    out->n_challengers = 0;
    if (v != NULL && !ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object of challengers by their names");
        return;
    }
    if (ld_n_members(v) > LD_MAX_CHALLENGERS) {
        ld_in_fault(in, NULL, "expected at most %u challengers", LD_MAX_CHALLENGERS);
        ld_problem_limit(in->p, "challengers", LD_MAX_CHALLENGERS);
        return;
    }
    for (size_t i = 0; i < ld_n_members(v); i++) {
        const struct ld_member *m = &v->as.member[i];
        struct ld_challenger_settings *c = &out->challenger[out->n_challengers];
        const size_t mark = ld_in_key(in, m->key);
        if (ld_tenant_name_is_valid(m->key)) {
            strcpy(c->name, m->key);
            read_challenger(in, &m->value, &out->spec, &c->spec);
            out->n_challengers++;
        } else {
            ld_in_fault(in, NULL,
                        "a name has 1 to 64 characters of A-Z a-z 0-9 . _ - and starts with one of the "
                        "first three kinds");
        }
        ld_in_leave(in, mark);
    }
}

/* --- the whole ----------------------------------------------------------------------------------------- */

/* What may still be asked about must not be gone. */
static enum kb_err check_retention(const struct ld_settings *settings, struct kb_errmsg *msg)
{
    if (settings->keep_age_ms == 0 || settings->keep_age_ms >= settings->spec.reward_window_ms)
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, "/retention/age_s",
                   "decisions must be kept for as long as their rewards may come (reward_window_s)");
}

static enum kb_err check_guardrail(struct ld_settings *settings, struct kb_errmsg *msg)
{
    const char *name = settings->guardrail.baseline;
    if (settings->guardrail.has_range && !(settings->guardrail.low < settings->guardrail.high))
        return kb_fail(KB_EUNSUPPORTED, msg, "/guardrail/range", "expected [low, high] with low below high");
    if (name[0] == '\0' || ld_settings_challenger(settings, name) != NULL)
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, "/guardrail/baseline", "there is no challenger of that name");
}

/* Ends in the wrong order, and a difference that no two means can have. */
static enum kb_err check_experiment(const struct ld_experiment_settings *e, struct kb_errmsg *msg)
{
    if (!e->is_on)
        return KB_OK;
    if (!(e->low < e->high))
        return kb_fail(KB_EUNSUPPORTED, msg, "/experiment/range", "expected [low, high] with low below high");
    if (e->difference > e->high - e->low)
        return kb_fail(KB_EUNSUPPORTED, msg, "/experiment/difference", "expected at most %g, the width of the range",
                       e->high - e->low);
    return KB_OK;
}

/* A length that is told beside `features` is theirs. */
static enum kb_err check_features(const struct ld_value *object, const struct ld_settings *settings,
                                  struct kb_errmsg *msg)
{
    static const char *const fields[] = {"/context_dim", "/arm_dim"};
    const uint32_t dim = settings->features.dim;
    for (size_t i = 0; dim > 0 && i < 2; i++) {
        const struct ld_value *told = ld_member_of(object, fields[i] + 1);
        if (told != NULL && ld_number_of(told) != (double)dim)
            return kb_fail(KB_EUNSUPPORTED, msg, fields[i], "expected %u, the dim of features: leave this out",
                           (unsigned)dim);
    }
    return ld_check_features(ld_member_of(object, "features"), &settings->features, msg);
}

static enum kb_err check_spec(const struct ld_in *in, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const enum kb_err rc = kb_spec_check(spec, msg);

    return rc != KB_OK || in->is_log ? rc : kb_spec_check_origin(spec, msg);
}

static enum kb_err check_challenger(const struct ld_in *in, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (kb_rule_reads_levels(spec->rule.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/rule/type",
                       "%s learns from its own decisions alone: it cannot follow another's",
                       kb_word(&kb_rule_words, (int)spec->rule.type));
    return check_spec(in, spec, msg);
}

/* The fault that a check has found, below the place in hand. */
static void refuse(struct ld_in *in, enum kb_err rc, const struct kb_errmsg *msg)
{
    char pointer[sizeof in->path + sizeof msg->pointer];
    ld_problem_set(in->p, ld_problem_status(rc), "the configuration is refused: %s", msg->text);
    (void)snprintf(pointer, sizeof pointer, "%s%s", in->path, msg->pointer);
    ld_problem_add(in->p, pointer, "%s", msg->text);
}

static void check_challengers(struct ld_in *in, const struct ld_settings *settings)
{
    const size_t mark = ld_in_key(in, "challengers");
    for (size_t i = 0; i < settings->n_challengers; i++) {
        struct kb_errmsg msg = {"", ""};
        const size_t here = ld_in_key(in, settings->challenger[i].name);
        const enum kb_err rc = check_challenger(in, &settings->challenger[i].spec, &msg);
        if (rc != KB_OK)
            refuse(in, rc, &msg);
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
}

/* kb_spec_check runs on a spec without faults only: it stops at its first, which would hide the list. */
void ld_in_settings(struct ld_in *in, const struct ld_value *v, struct ld_settings *out)
{
    struct kb_errmsg msg = {"", ""};
    ld_settings_init(out);
    read_identity(in, v, out);
    read_group(in, "", v, out);
    if (ld_in_done(in) != 0)
        return;
    ld_settle_metrics(out);
    follow_bookkeeping(v, &out->spec);
    settle_tune(in, v, &out->spec);
    out->spec.spaces = out->features.spaces;
    read_challengers(in, ld_member_of(v, "challengers"), out);
    enum kb_err rc = check_features(v, out, &msg);
    if (rc == KB_OK)
        rc = check_spec(in, &out->spec, &msg);
    if (rc == KB_OK)
        rc = check_retention(out, &msg);
    if (rc == KB_OK)
        rc = check_guardrail(out, &msg);
    if (rc == KB_OK)
        rc = check_experiment(&out->experiment, &msg);
    if (rc == KB_OK)
        rc = ld_check_metrics(out, &msg);
    if (rc != KB_OK)
        refuse(in, rc, &msg);
    else
        check_challengers(in, out);
}

/* The body of PUT /tenants/{t}. */
int ld_decode_settings(struct ld_doc *doc, struct ld_settings *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    ld_in_settings(&in, &doc->root, out);
    return ld_in_done(&in);
}
