/* Bodies of /select, /reward, /activate, /observe, /compact, /promote and /rollback -> structs: see json_in.h. Strings
 * and vectors are borrowed from the document; arrays are made in its memory.
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
#include "json/json_util.h"

/* --- /select ----------------------------------------------------------------------------------------- */

/* An arm, and how many features it has when it brings any. */
struct arm_reading {
    uint32_t dim;
    const char *id;
    const double *features;
};

static void read_arm_member(struct ld_in *in, size_t i, const struct ld_value *v, void *out)
{
    struct arm_reading *arm = out;
    if (i == LD_CANDIDATE_ID)
        arm->id = ld_in_text(in, v, &ld_id_rule);
    else
        arm->features = ld_in_vector_value(in, v, arm->dim, "arm_dim", true);
}

/* An arm as "id" or {"id", "features"?}. One spelling for candidates and observations: the catalogue's own list has
 * `active` besides (json_graph.c). */
static void read_arm(struct ld_in *in, const struct ld_value *v, uint32_t arm_dim, const char **id,
                     const double **features)
{
    struct arm_reading arm = {.dim = arm_dim};
    if (ld_is(v, LD_V_STRING) || ld_is(v, LD_V_NUMBER))
        arm.id = ld_in_text(in, v, &ld_id_rule);
    else if (ld_is(v, LD_V_OBJECT))
        (void)ld_in_members(in, v, &ld_candidate_rules, read_arm_member, &arm);
    else
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id and features");
    *id = arm.id;
    *features = arm.features;
}

/* A body on its way; repeats among candidates are looked for only where something else was at fault. */
struct select_reading {
    struct ld_select *out;
    uint32_t context_dim, arm_dim;
    bool is_thorough;
};

/* Left out, every active arm of the catalogue is meant, which is why an empty list is a fault and not the same thing.
 * Whether two of them are the same arm is for the engine to say, which looks ids up anyway. */
static void read_candidates(struct ld_in *in, const struct ld_value *array, const struct select_reading *r)
{
    struct kb_query *q = &r->out->query;
    if (!ld_in_list(in, array, &ld_select_rules.rule[LD_SELECT_CANDIDATES]))
        return;
    size_t n = ld_n_items(array);
    struct kb_candidate *c = ld_in_alloc(in, n, sizeof *c);
    if (c == NULL)
        return;
    struct kb_ids seen;
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_arm(in, ld_item_of(array, i), r->arm_dim, &c[i].arm, &c[i].features);
        if (r->is_thorough)
            ld_in_refuse_repeat(in, &seen, c[i].arm);
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    q->candidates = c;
    q->n_candidates = n;
}

/* `explain` only widens the ranking in the answer; `top` is also how many arms count as put before the user. */
static void read_select(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct select_reading *r = arg;
    const struct ld_rule *rule = &ld_select_rules.rule[i];
    struct ld_select *out = r->out;
    switch (i) {
    case LD_SELECT_USER:
        out->query.user = ld_in_text(in, v, rule);
        break;
    case LD_SELECT_CONTEXT:
        out->query.context = ld_in_vector_value(in, v, r->context_dim, "context_dim", r->context_dim == 0);
        break;
    case LD_SELECT_CANDIDATES:
        read_candidates(in, v, r);
        break;
    case LD_SELECT_EXCLUDE:
        out->query.exclude = ld_in_id_list(in, v, rule, &out->query.n_exclude);
        break;
    case LD_SELECT_TOP:
        out->top = (size_t)ld_in_count(in, v, rule, 1);
        break;
    case LD_SELECT_EXPLAIN:
        out->is_explained = ld_in_flag(in, v);
        break;
    case LD_SELECT_DRY_RUN:
        out->is_dry_run = ld_in_flag(in, v);
        break;
    case LD_SELECT_DECISION:
        out->decision = ld_in_text(in, v, rule);
        break;
    case LD_SELECT_ATTRIBUTES:
        out->query.attributes = ld_in_attributes(in, v, rule, &out->query.n_attributes);
        break;
    case LD_SELECT_DEFER:
        out->is_deferred = ld_in_flag(in, v);
        break;
    default:
        break;
    }
}

static int decode_select(struct ld_doc *doc, struct select_reading *r, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *r->out = (struct ld_select){.top = 1};
    if (ld_in_members(&in, &doc->root, &ld_select_rules, read_select, r))
        ld_in_need_context(&in, &doc->root, &ld_select_rules.rule[LD_SELECT_CONTEXT], r->context_dim);
    return ld_in_done(&in);
}

/* For a body that was refused, be it by the engine for a candidate that stands there twice: all its faults, in the
 * place of those that p has. When none is found p stays. O(body). */
void ld_decode_select_faults(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_problem *p)
{
    struct ld_select select;
    struct select_reading r = {&select, context_dim, arm_dim, true};
    struct ld_problem all;
    ld_problem_init(&all);
    if (decode_select(doc, &r, &all) != 0)
        *p = all;
}

/* Reads all members even after a fault, so that one answer names every one of them. O(candidates x arm_dim). */
int ld_decode_select(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_select *out,
                     struct ld_problem *p)
{
    struct select_reading r = {out, context_dim, arm_dim, false};
    if (decode_select(doc, &r, p) == 0)
        return 0;
    ld_decode_select_faults(doc, context_dim, arm_dim, p);
    return -1;
}

/* --- /reward, /activate ------------------------------------------------------------------------------ */

/* The reward must be there: null is not 0. Any finite number is a reward; scaling is the sender's affair. Without an
 * arm the one drawn is meant. */
static void read_reward(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct ld_rule *rule = &ld_reward_rules.rule[i];
    struct ld_reward *out = arg;
    if (i == LD_REWARD_DECISION)
        out->decision = ld_in_text(in, v, rule);
    else if (i == LD_REWARD_REWARD)
        (void)ld_in_real(in, v, rule, &out->reward);
    else
        out->arm = ld_in_text(in, v, rule);
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
        (void)ld_in_members(&in, v, &ld_reward_rules, read_reward, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}

static void read_activate(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const char **decision = arg;
    *decision = ld_in_text(in, v, &ld_activate_rules.rule[i]);
}

/* Whether the decision is open, deferred or known at all: the writer looks. */
int ld_decode_activate(struct ld_doc *doc, const char **decision, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    (void)ld_in_members(&in, &doc->root, &ld_activate_rules, read_activate, decision);
    return ld_in_done(&in);
}

/* --- /tenants/{t}/compact ----------------------------------------------------------------------------- */

static void read_compact(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    uint64_t *keep_events = arg;
    *keep_events = ld_in_count(in, v, &ld_compact_rules.rule[i], 0);
}

/* How many of the last events stay must be said: it is what is lost otherwise. */
int ld_decode_compact(struct ld_doc *doc, uint64_t *keep_events, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    (void)ld_in_members(&in, &doc->root, &ld_compact_rules, read_compact, keep_events);
    return ld_in_done(&in);
}

/* --- /tenants/{t}/repair ------------------------------------------------------------------------------ */

static void read_repair(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct ld_repair *out = arg;
    const struct ld_rule *rule = &ld_repair_rules.rule[i];
    if (i == LD_REPAIR_SEQ) {
        out->seq = ld_in_count(in, v, rule, 0);
        return;
    }
    const char *action = ld_in_choice(in, v, rule);
    for (size_t k = 0; action != NULL && rule->choices[k] != NULL; k++)
        if (rule->choices[k] == action)
            out->action = (enum ld_repair_action)k;
}

int ld_decode_repair(struct ld_doc *doc, struct ld_repair *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_repair){.action = LD_REPAIR_LIFT};
    (void)ld_in_members(&in, &doc->root, &ld_repair_rules, read_repair, out);
    return ld_in_done(&in);
}

/* --- /tenants/{t}/promote and /rollback ------------------------------------------------------------------ */

static void read_promote(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct ld_promotion *out = arg;
    const struct ld_rule *rule = &ld_promote_rules.rule[i];
    const char *name = i == LD_PROMOTE_CHALLENGER ? ld_in_text(in, v, rule) : NULL;
    if (i == LD_PROMOTE_VERSION)
        out->version = ld_in_count(in, v, rule, 0);
    else if (name != NULL)
        strcpy(out->challenger, name);
}

static void read_rollback(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct ld_promotion *out = arg;
    out->version = ld_in_count(in, v, &ld_rollback_rules.rule[i], 0);
}

int ld_decode_promotion(struct ld_doc *doc, struct ld_promotion *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    if (out->reason == LD_PROMOTED_BY_ROLLBACK)
        (void)ld_in_members(&in, &doc->root, &ld_rollback_rules, read_rollback, out);
    else
        (void)ld_in_members(&in, &doc->root, &ld_promote_rules, read_promote, out);
    return ld_in_done(&in);
}

/* --- /tenants/{t}/replay ------------------------------------------------------------------------------- */

struct replay_reading {
    struct ld_replay_head *out;
    struct ld_problem refusal; /* of a configuration that the schema takes; told when nothing else is wrong */
};

static void read_replay(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct replay_reading *r = arg;
    const struct ld_rule *rule = &ld_replay_rules.rule[i];
    if (i == LD_REPLAY_TYPE) {
        (void)ld_in_choice(in, v, rule);
    } else if (i == LD_REPLAY_CONFIGURATION) {
        const bool was_fine = in->p->status == 0;
        ld_in_settings(in, v, &r->out->settings);
        if (was_fine && in->p->status == 422) {
            r->refusal = *in->p;
            ld_problem_init(in->p);
        }
    } else if (i == LD_REPLAY_LOG) {
        const char *log = ld_in_choice(in, v, rule);
        r->out->is_own = log != NULL && strcmp(log, "own") == 0;
    } else {
        r->out->commit = ld_in_text(in, v, rule);
    }
}

int ld_decode_replay(struct ld_doc *doc, bool is_ndjson, struct ld_replay_head *out, struct ld_problem *p)
{
    struct replay_reading r = {.out = out};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_replay_head){.commit = NULL};
    size_t here = is_ndjson ? ld_in_item(&in, &doc->root, 0) : in.n_path;
    (void)ld_in_members(&in, is_ndjson ? doc->item : &doc->root, &ld_replay_rules, read_replay, &r);
    ld_in_leave(&in, here);
    if (p->status == 0 && r.refusal.status != 0)
        *p = r.refusal;
    return ld_in_done(&in);
}

/* --- /observe ---------------------------------------------------------------------------------------- */

struct observation_reading {
    struct kb_event *out;
    uint32_t context_dim, arm_dim;
};

static void read_observation_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct observation_reading *r = arg;
    const struct ld_rule *rule = &ld_observation_rules.rule[i];
    switch (i) {
    case LD_OBSERVATION_USER:
        r->out->as.observed.user = ld_in_text(in, v, rule);
        break;
    case LD_OBSERVATION_CONTEXT:
        r->out->as.observed.context = ld_in_vector_value(in, v, r->context_dim, "context_dim", r->context_dim == 0);
        break;
    case LD_OBSERVATION_ARM:
        read_arm(in, v, r->arm_dim, &r->out->as.observed.arm.arm, &r->out->as.observed.arm.features);
        break;
    case LD_OBSERVATION_REWARD:
        (void)ld_in_real(in, v, rule, &r->out->as.observed.reward);
        break;
    case LD_OBSERVATION_PROPENSITY:
        (void)ld_in_real(in, v, rule, &r->out->as.observed.propensity);
        break;
    case LD_OBSERVATION_ID:
        r->out->as.observed.id = ld_in_text(in, v, rule);
        break;
    default:
        break;
    }
}

/* The features of a bare id are left NULL, for the engine to take from the catalogue. A propensity that was not told
 * is NaN. The type is set even when the rest is at fault, and seq and time are given by the writer. */
static void read_observation(struct ld_in *in, const struct ld_value *v, struct observation_reading *r,
                             struct kb_event *ev)
{
    ev->type = KB_EV_OBSERVED;
    ev->as.observed.propensity = (double)NAN;
    r->out = ev;
    if (ld_in_members(in, v, &ld_observation_rules, read_observation_member, r))
        ld_in_need_context(in, v, &ld_observation_rules.rule[LD_OBSERVATION_CONTEXT], r->context_dim);
}

/* All lines or none: the events are only handed out when every line is good. O(lines x dimensions). A blank line is
 * no item; pointers count it all the same. */
int ld_decode_observe(struct ld_doc *doc, bool is_ndjson, uint32_t context_dim, uint32_t arm_dim, struct kb_event **out,
                      size_t *n, struct ld_problem *p)
{
    struct observation_reading r = {NULL, context_dim, arm_dim};
    struct ld_in in;
    ld_in_init(&in, doc, p);
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
        read_observation(&in, is_ndjson ? ld_item_of(&doc->root, i) : &doc->root, &r, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}
