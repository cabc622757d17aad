/* Bodies of /select, /reward, /activate and /observe, and the question for the posterior -> structs: see json_in.h.
 * Strings and vectors are borrowed from the document; arrays are made in its memory. Operations on a tenant:
 * json_operations.c.
 *
 * What is judged here is the form, by the rules of schema/ (rules.h), and what a schema cannot say: vectors have the
 * tenant's dimensions, and no candidate stands twice. Whether a user, an arm or a decision exists is for the engine
 * and the log to say, under the tenant's lock.
 *
 * Each kind of object has a function that reads one member of it, called by ld_in_members in the order of the text.
 * Cost: O(members), next to nothing beside the parse. No function here knows a tenant; dimensions come as arguments,
 * and the caller looks again whether they still hold (dims_epoch). */
#include "json/json_in.h"

#include <math.h>
#include <string.h>

#include "base/hash_key.h"
#include "base/ids.h"
#include "json/json_routing.h"
#include "json/json_rows.h"
#include "json/json_vector.h"

#define AT(type, member) .at = offsetof(type, member)

/* --- /select ----------------------------------------------------------------------------------------- */

static const struct ld_row candidate_rows[] = {
    [LD_CANDIDATE_ID] = {.kind = LD_ROW_TEXT, AT(struct kb_candidate, arm)},
    [LD_CANDIDATE_FEATURES] = {.kind = LD_ROW_VECTOR,
                               .how = LD_ROW_OR_NULL,
                               AT(struct kb_candidate, features),
                               .dim = LD_DIM_ARM},
};

/* An arm as "id" or {"id", "features"?}. One spelling for candidates and observations: the catalogue's own list has
 * `active` besides (json_graph.c). */
static void read_arm(struct ld_in *in, const struct ld_value *v, struct kb_candidate *out)
{
    if (ld_is(v, LD_V_STRING) || ld_is(v, LD_V_NUMBER))
        out->arm = ld_in_text(in, v, &ld_id_rule);
    else if (ld_is(v, LD_V_OBJECT))
        (void)ld_in_body(in, v, &ld_candidate_rules, candidate_rows, out);
    else
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id and features");
}

/* Left out, every active arm of the catalogue is meant, which is why an empty list is a fault and not the same thing.
 * Whether two of them are the same arm is for the engine to say, which looks ids up anyway. */
static void take_candidates(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule,
                            struct kb_query *q)
{
    if (!ld_in_list(in, array, rule))
        return;
    size_t n = ld_n_items(array);
    struct kb_candidate *c = ld_in_alloc(in, n, sizeof *c);
    if (c == NULL)
        return;
    struct kb_ids seen;
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_arm(in, ld_item_of(array, i), &c[i]);
        if (in->is_thorough)
            ld_in_refuse_repeat(in, &seen, c[i].arm);
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    q->candidates = c;
    q->n_candidates = n;
}

static void read_candidates(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule, void *base)
{
    take_candidates(in, array, rule, &((struct ld_select *)base)->query);
}

static void read_attributes(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base)
{
    struct kb_query *q = &((struct ld_select *)base)->query;
    q->attributes = ld_in_attributes(in, v, rule, &q->n_attributes);
}

/* A context is missing where there are dimensions: what the schema cannot say. Called behind ld_in_members. */
static void need_context(struct ld_in *in, const struct ld_value *object, const struct ld_rule *rule, uint32_t dim)
{
    if (dim > 0 && ld_member_of(object, rule->key) == NULL)
        ld_in_fault(in, rule->key, "required: %s %u numbers, since the tenant's context_dim is %u",
                    in->doc->named != NULL ? "an object of named features, or" : "an array of", (unsigned)dim,
                    (unsigned)dim);
}

#define IN_SLOT(member) AT(struct slot, member)

/* A slot, and features that are to join its context or that of the decision. */
struct slot {
    struct kb_slot_query query;
    const struct ld_value *features;
};

static void keep_features(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base)
{
    (void)rule;
    if (!ld_is(v, LD_V_OBJECT))
        ld_in_fault(in, NULL, "expected an object of named features");
    ((struct slot *)base)->features = v;
}

static const struct ld_row slot_rows[] = {
    [LD_SLOT_ID] = {.kind = LD_ROW_TEXT, IN_SLOT(query.id)},
    [LD_SLOT_CONTEXT] = {.kind = LD_ROW_VECTOR, IN_SLOT(query.context), .dim = LD_DIM_CONTEXT},
    [LD_SLOT_FEATURES] = {.kind = LD_ROW_OWN, .own = keep_features},
    [LD_SLOT_EXCLUDE] = {.kind = LD_ROW_TEXTS, IN_SLOT(query.exclude), .more = offsetof(struct slot, query.n_exclude)},
    [LD_SLOT_BASELINE] = {.kind = LD_ROW_TEXT, IN_SLOT(query.baseline)},
};

/* The features become the member `slot` of the context that they join: the vector of both. */
static void join_features(struct ld_in *in, const struct ld_value *v, struct slot *slot)
{
    const char *key = ld_slot_rules.rule[LD_SLOT_FEATURES].key;
    const struct ld_value *own = ld_member_of(v, ld_slot_rules.rule[LD_SLOT_CONTEXT].key);
    const struct ld_value *to =
        own != NULL ? own : ld_member_of(&in->doc->root, ld_select_rules.rule[LD_SELECT_CONTEXT].key);
    if (to != NULL && !ld_is(to, LD_V_OBJECT)) {
        ld_in_fault(in, key, "expected a context of named features beside it");
        return;
    }
    if (to != NULL && ld_member_of(to, "slot") != NULL) {
        ld_in_fault(in, key, "the context has a member \"slot\" already");
        return;
    }
    const uint32_t dim = in->dim[LD_DIM_CONTEXT], n = to != NULL ? to->n : 0;
    const size_t here = ld_in_key(in, key);
    const bool is_sound = ld_in_vector_value(in, slot->features, dim, LD_DIM_CONTEXT, false) != NULL;
    struct ld_member *member = ld_in_alloc(in, n + 1, sizeof *member);
    if (is_sound && member != NULL) {
        if (n > 0)
            memcpy(member, to->as.member, n * sizeof *member);
        member[n] = (struct ld_member){.key = "slot", .value = *slot->features};
        const struct ld_value both = {.kind = LD_V_OBJECT, .n = n + 1, .as.member = member};
        slot->query.context = ld_in_vector_value(in, &both, dim, LD_DIM_CONTEXT, false);
    }
    ld_in_leave(in, here);
}

static void read_slots(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule, void *base)
{
    struct ld_select *out = base;
    if (!ld_in_list(in, array, rule))
        return;
    const size_t n = ld_n_items(array);
    struct kb_slot_query *slots = ld_in_alloc(in, n, sizeof *slots);
    if (slots == NULL)
        return;
    struct kb_ids seen;
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < n; i++) {
        const struct ld_value *v = ld_item_of(array, i);
        struct slot slot = {.features = NULL};
        const size_t here = ld_in_item(in, array, i);
        if (ld_in_body(in, v, &ld_slot_rules, slot_rows, &slot))
            ld_in_refuse_repeat(in, &seen, slot.query.id);
        if (slot.features != NULL && ld_is(slot.features, LD_V_OBJECT))
            join_features(in, v, &slot);
        slots[i] = slot.query;
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    out->slots = slots;
    out->n_slots = n;
}

#define IN_SELECT(member) AT(struct ld_select, member)

/* `explain` only widens the ranking in the answer; `top` is also how many arms count as put before the user. */
static const struct ld_row select_rows[] = {
    [LD_SELECT_USER] = {.kind = LD_ROW_TEXT, IN_SELECT(query.user)},
    [LD_SELECT_CONTEXT] = {.kind = LD_ROW_VECTOR, IN_SELECT(query.context), .dim = LD_DIM_CONTEXT},
    [LD_SELECT_CANDIDATES] = {.kind = LD_ROW_OWN, .own = read_candidates},
    [LD_SELECT_EXCLUDE] = {.kind = LD_ROW_TEXTS,
                           IN_SELECT(query.exclude),
                           .more = offsetof(struct ld_select, query.n_exclude)},
    [LD_SELECT_TOP] = {.kind = LD_ROW_COUNT, IN_SELECT(top)},
    [LD_SELECT_SLOTS] = {.kind = LD_ROW_OWN, .own = read_slots},
    [LD_SELECT_EXPLAIN] = {.kind = LD_ROW_FLAG, IN_SELECT(is_explained)},
    [LD_SELECT_NEIGHBOURS] = {.kind = LD_ROW_COUNT, IN_SELECT(n_neighbours)},
    [LD_SELECT_DRY_RUN] = {.kind = LD_ROW_FLAG, IN_SELECT(is_dry_run)},
    [LD_SELECT_DECISION] = {.kind = LD_ROW_TEXT, IN_SELECT(decision)},
    [LD_SELECT_ATTRIBUTES] = {.kind = LD_ROW_OWN, .own = read_attributes},
    [LD_SELECT_DEFER] = {.kind = LD_ROW_FLAG, IN_SELECT(is_deferred)},
};

static int decode_select(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, bool is_thorough,
                         struct ld_select *out, struct ld_problem *p)
{
    struct ld_in in;
    *out = (struct ld_select){.top = 1};
    ld_in_init(&in, doc, p);
    ld_in_set_dims(&in, context_dim, arm_dim);
    in.is_thorough = is_thorough;
    if (ld_in_body(&in, &doc->root, &ld_select_rules, select_rows, out))
        need_context(&in, &doc->root, &ld_select_rules.rule[LD_SELECT_CONTEXT], context_dim);
    return ld_in_done(&in);
}

/* For a body that was refused, be it by the engine for a candidate that stands there twice: all its faults, in the
 * place of those that p has. When none is found p stays. O(body). */
void ld_decode_select_faults(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_problem *p)
{
    struct ld_select select;
    struct ld_problem all;
    ld_problem_init(&all);
    if (decode_select(doc, context_dim, arm_dim, true, &select, &all) != 0)
        *p = all;
}

/* Reads all members even after a fault, so that one answer names every one of them. O(candidates x arm_dim). */
int ld_decode_select(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_select *out,
                     struct ld_problem *p)
{
    if (decode_select(doc, context_dim, arm_dim, false, out, p) == 0)
        return 0;
    ld_decode_select_faults(doc, context_dim, arm_dim, p);
    return -1;
}

/* --- /tenants/{t}/posterior ---------------------------------------------------------------------------- */

static void read_arms(struct ld_in *in, const struct ld_value *array, const struct ld_rule *rule, void *base)
{
    take_candidates(in, array, rule, &((struct ld_ask *)base)->query);
}

#define IN_ASK(member) AT(struct ld_ask, member)

static const struct ld_row posterior_rows[] = {
    [LD_POSTERIOR_USERS] = {.kind = LD_ROW_TEXTS, IN_ASK(users), .more = offsetof(struct ld_ask, n_users)},
    [LD_POSTERIOR_ARMS] = {.kind = LD_ROW_OWN, .own = read_arms},
    [LD_POSTERIOR_CONTEXT] = {.kind = LD_ROW_VECTOR, IN_ASK(query.context), .dim = LD_DIM_CONTEXT},
    [LD_POSTERIOR_NEIGHBOURS] = {.kind = LD_ROW_COUNT, IN_ASK(n_neighbours)},
    [LD_POSTERIOR_FEATURES] = {.kind = LD_ROW_COUNT, IN_ASK(n_features)},
};

/* The vectors of one user and one arm without each of their features; of more of them the tenant says that it cannot
 * (tenant_ask.c). */
static void leave_out(struct ld_in *in, struct ld_ask *out)
{
    const char *key = ld_posterior_rules.rule[LD_POSTERIOR_FEATURES].key;
    const struct ld_value *context = ld_member_of(&in->doc->root, "context");
    const struct ld_value *arms = ld_member_of(&in->doc->root, "arms");
    const struct ld_value *arm = out->query.n_candidates == 1 ? ld_member_of(ld_item_of(arms, 0), "features") : NULL;
    const bool has_context = context != NULL && ld_is(context, LD_V_OBJECT);
    const bool has_arm = arm != NULL && ld_is(arm, LD_V_OBJECT);

    out->has_named = has_context || has_arm;
    if (out->n_users != 1 || out->query.n_candidates != 1 || !out->has_named)
        return;
    out->without = ld_in_alloc(in, LD_MOST_WITHOUT, sizeof *out->without);
    if (in->p->status == 0 && has_context)
        ld_in_without(in, context, false, key, out);
    if (in->p->status == 0 && has_arm)
        ld_in_without(in, arm, true, key, out);
}

int ld_decode_posterior(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_ask *out,
                        struct ld_problem *p)
{
    struct ld_in in;
    *out = (struct ld_ask){.users = NULL};
    ld_in_init(&in, doc, p);
    ld_in_set_dims(&in, context_dim, arm_dim);
    in.is_thorough = true;
    if (ld_in_body(&in, &doc->root, &ld_posterior_rules, posterior_rows, out))
        need_context(&in, &doc->root, &ld_posterior_rules.rule[LD_POSTERIOR_CONTEXT], context_dim);
    if (p->status == 0 && out->n_features > 0)
        leave_out(&in, out);
    return ld_in_done(&in);
}

/* --- what was answered --------------------------------------------------------------------------------- */

int ld_decode_told(struct ld_doc **doc, const char *text, size_t n, struct ld_told *out)
{
    struct ld_problem p;
    ld_problem_init(&p);
    if (text == NULL || ld_doc_parse(doc, text, n, false, &p) != 0)
        return -1;
    const struct ld_value *root = &(*doc)->root;
    *out = (struct ld_told){.decision = ld_string_of(ld_member_of(root, "decision")),
                            .arm = ld_string_of(ld_member_of(root, "arm")),
                            .propensity = ld_number_of(ld_member_of(root, "propensity"))};
    return out->decision != NULL && out->arm != NULL ? 0 : -1;
}

/* --- /reward, /activate ------------------------------------------------------------------------------ */

static void read_happened_at(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base)
{
    (void)rule;
    ld_in_moment(in, v, &((struct ld_reward *)base)->happened_at_ms);
}

#define IN_REWARD(member) AT(struct ld_reward, member)

/* The reward must be there: null is not 0. Any finite number is a reward; scaling is the sender's affair. Without an
 * arm the one drawn is meant. */
static const struct ld_row reward_rows[] = {
    [LD_REWARD_DECISION] = {.kind = LD_ROW_TEXT, IN_REWARD(decision)},
    [LD_REWARD_REWARD] = {.kind = LD_ROW_REAL, IN_REWARD(reward)},
    [LD_REWARD_ARM] = {.kind = LD_ROW_TEXT, IN_REWARD(arm)},
    [LD_REWARD_SLOT] = {.kind = LD_ROW_TEXT, IN_REWARD(slot)},
    [LD_REWARD_METRIC] = {.kind = LD_ROW_TEXT, IN_REWARD(metric)},
    [LD_REWARD_ID] = {.kind = LD_ROW_TEXT, IN_REWARD(id)},
    [LD_REWARD_EVENT] = {.kind = LD_ROW_TEXT, IN_REWARD(event)},
    [LD_REWARD_AT] = {.kind = LD_ROW_OWN, .own = read_happened_at},
};
static const struct ld_row user_reward_rows[] = {
    [LD_USER_REWARD_USER] = {.kind = LD_ROW_TEXT, IN_REWARD(user)},
    [LD_USER_REWARD_REWARD] = {.kind = LD_ROW_REAL, IN_REWARD(reward)},
    [LD_USER_REWARD_ARM] = {.kind = LD_ROW_TEXT, IN_REWARD(arm)},
    [LD_USER_REWARD_SLOT] = {.kind = LD_ROW_TEXT, IN_REWARD(slot)},
    [LD_USER_REWARD_ALL] = {.kind = LD_ROW_FLAG, IN_REWARD(is_all)},
    [LD_USER_REWARD_METRIC] = {.kind = LD_ROW_TEXT, IN_REWARD(metric)},
    [LD_USER_REWARD_ID] = {.kind = LD_ROW_TEXT, IN_REWARD(id)},
    [LD_USER_REWARD_EVENT] = {.kind = LD_ROW_TEXT, IN_REWARD(event)},
    [LD_USER_REWARD_AT] = {.kind = LD_ROW_OWN, .own = read_happened_at},
};

/* Of a user, or of a decision: what names neither is one of a decision that lacks its id, unless it asks for all. */
static void read_reward(struct ld_in *in, const struct ld_value *v, struct ld_reward *out)
{
    bool has_decision = false, has_user = false, has_all = false;
    for (size_t i = 0; i < ld_n_members(v); i++) {
        const char *key = v->as.member[i].key;
        has_decision |= ld_is_key(key, "decision");
        has_user |= ld_is_key(key, "user");
        has_all |= ld_is_key(key, "all");
    }
    if (has_decision && has_user)
        ld_in_fault(in, "user", "expected a decision or a user, not both");
    else if (has_user || (!has_decision && has_all))
        (void)ld_in_body(in, v, &ld_user_reward_rules, user_reward_rows, out);
    else
        (void)ld_in_body(in, v, &ld_reward_rules, reward_rows, out);
}

/* An array with one bad item is refused whole: half of a malformed body may be another body than the sender meant.
 * *out and *n hold the rewards in the order of the body, which is the order in which they count. */
int ld_decode_rewards(struct ld_doc *doc, struct ld_reward **out, size_t *n, bool *is_array, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *is_array = ld_is(&doc->root, LD_V_ARRAY);
    if (*is_array && !ld_in_list(&in, &doc->root, &ld_rewards_rule))
        return -1;
    *n = *is_array ? ld_n_items(&doc->root) : 1;
    *out = ld_in_alloc(&in, *n, sizeof **out);
    if (*out == NULL)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        size_t here = *is_array ? ld_in_item(&in, &doc->root, i) : in.n_path;
        const struct ld_value *v = *is_array ? ld_item_of(&doc->root, i) : &doc->root;
        read_reward(&in, v, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}

/* Whether the decision is open, deferred or known at all: the writer looks. */
int ld_decode_activate(struct ld_doc *doc, const char **decision, struct ld_problem *p)
{
    static const struct ld_row rows[] = {[LD_ACTIVATE_DECISION] = {.kind = LD_ROW_TEXT}};
    return ld_decode_body(doc, &ld_activate_rules, rows, decision, p);
}

/* --- /observe ---------------------------------------------------------------------------------------- */

static void read_observed_arm(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base)
{
    struct kb_ev_slot *slot = &((struct kb_event *)base)->as.observed.arm;
    struct kb_candidate arm = {NULL, NULL};
    (void)rule;
    read_arm(in, v, &arm);
    *slot = (struct kb_ev_slot){arm.arm, arm.features};
}

#define IN_OBSERVATION(member) AT(struct kb_event, as.observed.member)

static const struct ld_row observation_rows[] = {
    [LD_OBSERVATION_USER] = {.kind = LD_ROW_TEXT, IN_OBSERVATION(user)},
    [LD_OBSERVATION_CONTEXT] = {.kind = LD_ROW_VECTOR, IN_OBSERVATION(context), .dim = LD_DIM_CONTEXT},
    [LD_OBSERVATION_ARM] = {.kind = LD_ROW_OWN, .own = read_observed_arm},
    [LD_OBSERVATION_REWARD] = {.kind = LD_ROW_REAL, IN_OBSERVATION(reward)},
    [LD_OBSERVATION_PROPENSITY] = {.kind = LD_ROW_REAL, IN_OBSERVATION(propensity)},
    [LD_OBSERVATION_ID] = {.kind = LD_ROW_TEXT, IN_OBSERVATION(id)},
};

/* The features of a bare id are left NULL, for the engine to take from the catalogue. A propensity that was not told
 * is NaN. The type is set even when the rest is at fault, and seq and time are given by the writer. */
static void read_observation(struct ld_in *in, const struct ld_value *v, struct kb_event *ev)
{
    ev->type = KB_EV_OBSERVED;
    ev->as.observed.propensity = (double)NAN;
    if (ld_in_body(in, v, &ld_observation_rules, observation_rows, ev))
        need_context(in, v, &ld_observation_rules.rule[LD_OBSERVATION_CONTEXT], in->dim[LD_DIM_CONTEXT]);
}

/* All lines or none: the events are only handed out when every line is good. O(lines x dimensions). A blank line is
 * no item; pointers count it all the same. */
int ld_decode_observe(struct ld_doc *doc, bool is_ndjson, uint32_t context_dim, uint32_t arm_dim, struct kb_event **out,
                      size_t *n, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    ld_in_set_dims(&in, context_dim, arm_dim);
    *n = is_ndjson ? ld_n_items(&doc->root) : 1;
    if (*n < 1 || *n > LD_OBSERVATION_MAX_LINES) {
        ld_in_fault(&in, NULL, "expected 1 to %u lines", LD_OBSERVATION_MAX_LINES);
        if (*n > LD_OBSERVATION_MAX_LINES)
            ld_problem_limit(p, "lines", LD_OBSERVATION_MAX_LINES);
        return -1;
    }
    *out = ld_in_alloc(&in, *n, sizeof **out);
    if (*out == NULL)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        size_t here = is_ndjson ? ld_in_item(&in, &doc->root, i) : in.n_path;
        read_observation(&in, is_ndjson ? ld_item_of(&doc->root, i) : &doc->root, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}
