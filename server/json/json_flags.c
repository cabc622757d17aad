/* Flags in the form of the OpenFeature Remote Evaluation Protocol: what a body asks for, and what is answered.
 *
 * The user is the context's `targetingKey`. Its strings are attributes, for the arms' eligibility, and all of it but
 * the user is features where the tenant maps names. A string that is longer than rules may be is left out: no rule
 * would match it. Other members are not looked at; a context is the caller's own, and has more in it than flags need.
 *
 * Reasons:
 *   DISABLED         the tenant is stopped: the baseline's value
 *   TARGETING_MATCH  rules of eligibility have left one arm, or none
 *   STATIC           there is one arm to show
 *   SPLIT            the arm was drawn for the user, now or earlier
 *   UNKNOWN          there is no arm; no value, and callers take their own default */
#include "json/json_in.h"

#include <stdio.h>
#include <string.h>

#include "json/json_out.h"
#include "json/json_routing.h"
#include "json/json_vector.h"

#define MOST_NAME_BYTES 64u
#define MOST_VALUE_BYTES 256u
#define MOST_EVENTS 1000u
#define TRACK_PATH "/ofrep/v1/track"

/* --- the context --------------------------------------------------------------------------------------- */

static bool is_attribute(const struct ld_member *m)
{
    const size_t n_key = strlen(m->key), n_value = ld_string_bytes(&m->value);
    return ld_is(&m->value, LD_V_STRING) && strcmp(m->key, "targetingKey") != 0 && n_key > 0 &&
           n_key <= MOST_NAME_BYTES && n_value > 0 && n_value <= MOST_VALUE_BYTES;
}

static void read_attributes(struct ld_in *in, const struct ld_value *context, struct kb_query *q)
{
    struct kb_attribute *out = ld_in_alloc(in, KB_MAX_ATTRIBUTES, sizeof *out);
    q->attributes = out;
    for (size_t i = 0; out != NULL && i < ld_n_members(context); i++) {
        const struct ld_member *m = &context->as.member[i];
        if (!is_attribute(m))
            continue;
        if (q->n_attributes == KB_MAX_ATTRIBUTES) {
            ld_in_fault(in, NULL, "expected at most %u strings besides targetingKey", KB_MAX_ATTRIBUTES);
            ld_problem_limit(in->p, "attributes", KB_MAX_ATTRIBUTES);
            return;
        }
        out[q->n_attributes].name = m->key;
        out[q->n_attributes++].value = ld_string_of(&m->value);
    }
}

static void read_context(struct ld_in *in, const struct ld_value *context, struct kb_query *q, const char **code)
{
    const struct ld_value *key = ld_member_of(context, "targetingKey");
    if (!ld_is(context, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, context == NULL ? "required" : "expected an object");
        return;
    }
    if (key == NULL || ld_is(key, LD_V_NULL) || (ld_is(key, LD_V_STRING) && ld_string_bytes(key) == 0)) {
        *code = "TARGETING_KEY_MISSING";
        ld_in_fault(in, "targetingKey", "required: the id of the user");
        return;
    }
    const size_t here = ld_in_key(in, "targetingKey");
    q->user = ld_in_text(in, key, &ld_id_rule);
    ld_in_leave(in, here);
    read_attributes(in, context, q);
}

int ld_decode_flag_context(struct ld_doc *doc, struct ld_select *out, const char **code, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_select){.top = 1};
    *code = "INVALID_CONTEXT";
    if (!ld_is(&doc->root, LD_V_OBJECT)) {
        *code = "PARSE_ERROR";
        ld_in_fault(&in, NULL, "expected an object");
    } else {
        const size_t here = ld_in_key(&in, "context");
        out->named = ld_member_of(&doc->root, "context");
        read_context(&in, out->named, &out->query, code);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}

int ld_decode_flag_features(struct ld_doc *doc, uint32_t dim, struct ld_select *out, struct ld_problem *p)
{
    struct ld_value rest = {.kind = LD_V_OBJECT};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    rest.as.member = ld_in_alloc(&in, ld_n_members(out->named), sizeof *rest.as.member);
    for (size_t i = 0; rest.as.member != NULL && i < ld_n_members(out->named); i++)
        if (strcmp(out->named->as.member[i].key, "targetingKey") != 0)
            rest.as.member[rest.n++] = out->named->as.member[i];
    const size_t here = ld_in_key(&in, "context");
    if (rest.as.member != NULL)
        out->query.context = ld_in_vector_value(&in, &rest, dim, LD_DIM_CONTEXT, false);
    ld_in_leave(&in, here);
    return ld_in_done(&in);
}

/* --- tracking ------------------------------------------------------------------------------------------ */

/* The one who acted, where the event names no decision. */
static const char *read_actor(struct ld_in *in, const struct ld_value *context)
{
    const size_t here = ld_in_key(in, "context");
    const char *user = NULL;
    if (context != NULL && !ld_is(context, LD_V_OBJECT))
        ld_in_fault(in, NULL, "expected an object");
    else if (ld_member_of(context, "targetingKey") != NULL)
        user = ld_in_text_of(in, context, "targetingKey", &ld_id_rule, true);
    else
        ld_in_fault(in, "targetingKey", "required where attributes.decision names no decision");
    ld_in_leave(in, here);
    return user;
}

/* What a client tells of an event beside this (more of its context, more attributes) is not read. */
static void read_event(struct ld_in *in, const struct ld_value *v, struct ld_track_event *out)
{
    const struct ld_value *attributes = ld_member_of(v, "attributes"), *value = ld_member_of(v, "value"),
                          *at = ld_member_of(v, "timestamp");
    struct ld_reward *r = &out->reward;
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object");
        return;
    }
    *r = (struct ld_reward){.reward = 1, .is_tracked = true};
    r->event = ld_in_text_of(in, v, "name", &ld_id_rule, true);
    r->id = ld_in_text_of(in, v, "id", &ld_reward_rules.rule[LD_REWARD_ID], false);
    out->is_exposure = r->event != NULL && strcmp(r->event, "$exposure") == 0;
    size_t here = ld_in_key(in, "value");
    if (value != NULL)
        (void)ld_in_real(in, value, &ld_reward_rules.rule[LD_REWARD_REWARD], &r->reward);
    ld_in_leave(in, here);
    here = ld_in_key(in, "timestamp");
    if (at != NULL)
        ld_in_moment(in, at, &r->happened_at_ms);
    ld_in_leave(in, here);
    here = ld_in_key(in, "attributes");
    if (attributes != NULL && !ld_is(attributes, LD_V_OBJECT))
        ld_in_fault(in, NULL, "expected an object");
    out->flag = ld_in_text_of(in, attributes, "flag", &ld_id_rule, false);
    r->decision = ld_in_text_of(in, attributes, "decision", &ld_decision_id_rule, false);
    ld_in_leave(in, here);
    if (ld_member_of(attributes, "decision") == NULL)
        r->user = read_actor(in, ld_member_of(v, "context"));
}

int ld_decode_track(struct ld_doc *doc, struct ld_track_event **out, size_t *n, struct ld_problem *p)
{
    const struct ld_value *events = ld_member_of(&doc->root, "events");
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *n = ld_n_items(events);
    *out = NULL;
    const size_t mark = ld_in_key(&in, "events");
    if (*n < 1 || *n > MOST_EVENTS) {
        ld_in_fault(&in, NULL, "expected an array of 1 to %u events", MOST_EVENTS);
        if (*n > MOST_EVENTS)
            ld_problem_limit(p, "events", MOST_EVENTS);
    } else if ((*out = ld_in_alloc(&in, *n, sizeof **out)) != NULL) {
        for (size_t i = 0; i < *n; i++) {
            const size_t here = ld_in_item(&in, events, i);
            read_event(&in, ld_item_of(events, i), &(*out)[i]);
            ld_in_leave(&in, here);
        }
    }
    ld_in_leave(&in, mark);
    return ld_in_done(&in);
}

/* --- answers ------------------------------------------------------------------------------------------- */

static const char *reason_of(const struct kb_engine *e, const struct kb_decision *d)
{
    if (d->route == KB_ROUTE_STOPPED)
        return "DISABLED";
    if (d->n > 1)
        return "SPLIT";
    return kb_engine_has_targets(e) ? "TARGETING_MATCH" : "STATIC";
}

/* Metadata are those of this decision, and last. */
char *ld_encode_flag(const struct kb_engine *e, const char *flag, const char *decision, const struct kb_decision *d,
                     size_t *n_tagged, size_t *n)
{
    const char *arm = d->arm[d->chosen], *value = kb_engine_arm_value(e, arm);
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "key", flag);
    ld_text_put_string(&t, "reason", reason_of(e, d));
    ld_text_put_string(&t, "variant", arm);
    ld_text_key(&t, "value");
    if (value != NULL)
        ld_text_lit(&t, value);
    else
        ld_text_string(&t, arm);
    *n_tagged = t.n;
    ld_text_key(&t, "metadata");
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "decision", decision);
    ld_text_put_number(&t, "propensity", d->propensity[d->chosen]);
    ld_text_put_string(&t, "route", kb_word(&kb_route_words, (int)d->route));
    ld_text_put_count(&t, "version", kb_engine_version(e));
    ld_text_put_string(&t, "trackUrl", TRACK_PATH);
    ld_text_lit(&t, "}}");
    return ld_text_take(&t, n);
}

char *ld_encode_flag_default(const char *flag, const char *reason, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "key", flag);
    ld_text_put_string(&t, "reason", reason);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

char *ld_encode_flag_failure(const char *key, const char *code, const char *details, const char *instance, size_t *n)
{
    char text[1024];
    struct ld_text t;
    if (instance != NULL)
        (void)snprintf(text, sizeof text, "%s (urn:laplaced:request:%s)", details, instance);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    if (key != NULL)
        ld_text_put_string(&t, "key", key);
    ld_text_put_string(&t, "errorCode", code);
    ld_text_put_string(&t, "errorDetails", instance != NULL ? text : details);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
