/* The configuration object -> struct ld_settings, by the table of json_fields.c.
 *
 * The preset named by `algorithm` fills everything first, given the dimensions; then each member that is there
 * overrides its field. Faults of type and range are all collected (400); values that the contract has and this
 * version does not serve are 422, and so are combinations that kb_spec_check refuses.
 *
 * Units: reward_window_s is seconds in JSON and milliseconds in the struct. */
#include "json_util.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_fields.h"

_Static_assert(offsetof(struct ld_settings, spec) == 0, "a pointer to the spec is one to its settings");
_Static_assert(sizeof(enum kb_rule_type) == sizeof(int), "enums are read and written as int");

/* Ends belong to the interval unless the row says otherwise. NaN is in none, which covers what is not a number. */
static void read_number(struct ld_in *in, const struct ld_field *f, const json_t *v, double *out, const char *other)
{
    double x = json_is_number(v) ? json_number_value(v) : (double)NAN;
    if (f->is_open ? x > f->lo && x < f->hi : x >= f->lo && x <= f->hi)
        *out = x;
    else
        ld_in_fault(in, NULL, "expected a number %s %g and %s %g%s", f->is_open ? ">" : ">=", f->lo,
                    f->is_open ? "<" : "<=", f->hi, other);
}

/* Both ends are whole and below 2^53, so comparing as doubles is exact. */
static uint64_t read_whole(struct ld_in *in, const struct ld_field *f, const json_t *v, uint64_t otherwise)
{
    double x = json_is_number(v) ? json_number_value(v) : (double)NAN;
    if (x >= f->lo && x <= f->hi && x == floor(x))
        return (uint64_t)x;
    ld_in_fault(in, NULL, "expected a whole number from %.0f to %.0f", f->lo, f->hi);
    return otherwise;
}

/* "expected one of a, b, c" */
static void fault_choice(struct ld_in *in, const char *(*name)(int))
{
    char list[200];
    size_t n = 0;
    list[0] = '\0';
    for (int i = 0; name(i) != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", name(i));
    ld_in_fault(in, NULL, "expected one of %s", list);
}

static void read_choice(struct ld_in *in, const struct ld_field *f, const json_t *v, void *out)
{
    const char *s = json_string_value(v);
    int type = s != NULL ? f->choice->from_name(s) : -1;
    if (type >= 0) {
        memcpy(out, &type, sizeof type);
        return;
    }
    fault_choice(in, f->choice->name);
}

/* Whether v is this very string. */
static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

/* Under "median" the number stays what the preset has, until the first reset of the log puts a measured one in
 * force. */
static void read_lengthscale(struct ld_in *in, const struct ld_field *f, const json_t *v, struct kb_vec_kernel_spec *k)
{
    k->is_median = is_text(v, "median");
    if (!k->is_median)
        read_number(in, f, v, &k->lengthscale, ", or \"median\"");
}

/* 0 inside the program means what the word says: that the rule chooses ("auto"), or the data ("median"). */
static void read_or(struct ld_in *in, const struct ld_field *f, const json_t *v, double *out, const char *word)
{
    char other[24];
    (void)snprintf(other, sizeof other, ", or \"%s\"", word);
    if (is_text(v, word))
        *out = 0;
    else
        read_number(in, f, v, out, other);
}

/* Rounded to the millisecond, so that what is written reads back the same. */
static void read_window(struct ld_in *in, const struct ld_field *f, const json_t *v, int64_t *out)
{
    double seconds = (double)*out / 1000;
    read_number(in, f, v, &seconds, "");
    *out = llround(seconds * 1000);
}

/* null, the default, is 0 in the struct: nothing is left out by this rule. */
static void read_age(struct ld_in *in, const struct ld_field *f, const json_t *v, int64_t *out)
{
    double seconds = 0;
    if (!json_is_null(v))
        read_number(in, f, v, &seconds, ", or null");
    *out = llround(seconds * 1000);
}

/* null, the default, teaches nothing when a window closes. */
static void read_default_reward(struct ld_in *in, const json_t *v, struct kb_spec *spec)
{
    spec->has_default_reward = !json_is_null(v);
    if (spec->has_default_reward && !json_is_number(v))
        ld_in_fault(in, NULL, "expected a finite number or null");
    else
        spec->default_reward = json_number_value(v);
}

/* One value is served; the other is promised. */
static void read_pending(struct ld_in *in, const json_t *v)
{
    if (is_text(v, "hallucinate"))
        ld_in_refuse(in, NULL, "hallucinate is not available in this version");
    else if (!is_text(v, "ignore"))
        ld_in_fault(in, NULL, "expected one of ignore");
}

/* `relaxed` is the one promise that a tenant can give up, so it must be spelled out. */
static void read_durability(struct ld_in *in, const json_t *v, bool *is_relaxed)
{
    *is_relaxed = is_text(v, "relaxed");
    if (!*is_relaxed && !is_text(v, "commit"))
        ld_in_fault(in, NULL, "expected one of commit, relaxed");
}

/* One member, by the kind of its row. The path already points at it. */
static void read_field(struct ld_in *in, const struct ld_field *f, const json_t *v, struct ld_settings *out)
{
    void *at = (char *)out + f->offset;
    switch (f->kind) {
    case LD_ALGORITHM:
    case LD_DIMENSION:
        break; /* read_identity has them */
    case LD_NUMBER:
        read_number(in, f, v, at, "");
        break;
    case LD_SIZE:
        *(size_t *)at = (size_t)read_whole(in, f, v, *(size_t *)at);
        break;
    case LD_DEGREE:
        *(int *)at = (int)read_whole(in, f, v, (uint64_t) * (int *)at);
        break;
    case LD_SEED:
        *(uint64_t *)at = read_whole(in, f, v, *(uint64_t *)at);
        break;
    case LD_FLAG:
        *(bool *)at = json_is_true(v);
        if (!json_is_boolean(v))
            ld_in_fault(in, NULL, "expected true or false");
        break;
    case LD_CHOICE:
        read_choice(in, f, v, at);
        break;
    case LD_LENGTHSCALE:
        read_lengthscale(in, f, v, at);
        break;
    case LD_OR_AUTO:
        read_or(in, f, v, at, "auto");
        break;
    case LD_OR_MEDIAN:
        read_or(in, f, v, at, "median");
        break;
    case LD_WINDOW:
        read_window(in, f, v, at);
        break;
    case LD_DEFAULT_REWARD:
        read_default_reward(in, v, &out->spec);
        break;
    case LD_PENDING:
        read_pending(in, v);
        break;
    case LD_DURABILITY:
        read_durability(in, v, at);
        break;
    case LD_SIZE_OR_NULL:
        *(size_t *)at = json_is_null(v) ? 0 : (size_t)read_whole(in, f, v, 0);
        break;
    case LD_AGE_OR_NULL:
        read_age(in, f, v, at);
        break;
    }
}

/* KORS's mu is the ridge unless it is told: a dictionary coarser than the noise would cost what it saves. */
static void follow_lambda(const json_t *representation, struct ld_settings *out)
{
    if (json_object_get(representation, "lambda") != NULL && json_object_get(representation, "mu") == NULL)
        out->spec.repr.mu = out->spec.repr.lambda;
}

/* Bounds cannot be had of rewards that change, over a dictionary, or that are forgotten (spec.c): who asks for that
 * without naming a confidence rule gets `fixed` where bounds are for reading only, and who names one is told. */
static void follow_bookkeeping(const json_t *object, struct ld_settings *out)
{
    const bool is_asked = out->spec.aggregation != KB_AGG_FIRST || out->spec.forgetting.type != KB_FORGET_NONE;

    if (json_object_get(json_object_get(object, "confidence"), "type") == NULL && is_asked &&
        out->spec.conf.score == KB_SCORE_FIXED)
        kb_spec_drop_unserved_confidence(&out->spec);
}

/* The members of one group; groups inside the configuration itself are read by a call for each. */
static void read_group(struct ld_in *in, const char *group, const json_t *object, struct ld_settings *out)
{
    if (!json_is_object(object)) {
        ld_in_fault(in, NULL, "expected an object");
        return;
    }
    const char *key;
    json_t *member;
    json_t *members = (json_t *)(uintptr_t)object; /* jansson's iterator is not const-correct */
    json_object_foreach(members, key, member)
    {
        const struct ld_field *f = ld_field_find(group, key);
        size_t mark = ld_in_key(in, key);
        if (f != NULL)
            read_field(in, f, member, out);
        else if (group[0] == '\0' && ld_field_is_group(key))
            read_group(in, key, member, out);
        else
            ld_in_fault(in, NULL, "unknown field");
        ld_in_leave(in, mark);
    }
    if (strcmp(group, "representation") == 0)
        follow_lambda(object, out);
}

/* As fault_choice wants it. */
static const char *preset_name(int i)
{
    return kb_preset_name((size_t)i);
}

/* Algorithm and dimensions, which decide what all other fields are when left out. */
static void read_identity(struct ld_in *in, const json_t *v, struct ld_settings *out)
{
    const json_t *algorithm = json_object_get(v, "algorithm");
    const char *name = algorithm != NULL ? json_string_value(algorithm) : "laplaced";
    uint32_t context_dim = (uint32_t)ld_in_whole(in, v, "context_dim", 0, 4096, 0, false);
    uint32_t arm_dim = (uint32_t)ld_in_whole(in, v, "arm_dim", 0, 4096, 0, false);
    enum kb_err rc = name != NULL ? kb_spec_preset(&out->spec, name, context_dim, arm_dim) : KB_ENOTFOUND;
    if (rc == KB_OK)
        return;
    size_t mark = ld_in_key(in, "algorithm");
    fault_choice(in, preset_name);
    ld_in_leave(in, mark);
    (void)kb_spec_preset(&out->spec, "laplaced", context_dim, arm_dim); /* to find the other faults */
}

/* What may still be asked about must not be gone. */
static enum kb_err check_retention(const struct ld_settings *settings, struct kb_errmsg *msg)
{
    if (settings->keep_age_ms == 0 || settings->keep_age_ms >= settings->spec.reward_window_ms)
        return KB_OK;
    return kb_fail(KB_EUNSUPPORTED, msg, "/retention/age_s",
                   "decisions must be kept for as long as their rewards may come (reward_window_s)");
}

/* kb_spec_check runs on a spec without faults only: it stops at its first, which would hide the list. */
void ld_in_settings(struct ld_in *in, const struct json_t *v, struct ld_settings *out)
{
    struct kb_errmsg msg = {"", ""};
    *out = (struct ld_settings){.is_relaxed = false};
    if (!json_is_object(v)) {
        ld_in_fault(in, NULL, "expected an object");
        return;
    }
    read_identity(in, v, out);
    read_group(in, "", v, out);
    if (ld_in_done(in) != 0)
        return;
    follow_bookkeeping(v, out);
    enum kb_err rc = kb_spec_check(&out->spec, &msg);
    if (rc == KB_OK)
        rc = check_retention(out, &msg);
    if (rc == KB_OK)
        return;
    ld_problem_set(in->p, ld_problem_status(rc), "the configuration is refused: %s", msg.text);
    char pointer[sizeof in->path + sizeof msg.pointer];
    (void)snprintf(pointer, sizeof pointer, "%s%s", in->path, msg.pointer);
    ld_problem_add(in->p, pointer, "%s", msg.text);
}

/* The body of PUT /tenants/{t}. */
int ld_decode_settings(struct ld_doc *doc, struct ld_settings *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    ld_in_settings(&in, doc->root, out);
    return ld_in_done(&in);
}
