/* Rank, Reward and refusals of Azure Personalizer, to and from the bodies of /select and /reward.
 *
 * A body of Rank becomes one of /select, as text, so that there is one decoder of decisions:
 *
 *   Rank                                  /select
 *   eventId                               decision
 *   actions[{id, features[{}]}]           candidates[{id, features}]
 *   excludedActions                       exclude
 *   contextFeatures[{}]                   context, and user, if the tenant's `features` say where he stands in it
 *   deferActivation                       defer
 *
 * Lists of objects become one object: a name that stands in several has the list of its objects, or of its strings,
 * which the mapping of named features merges; of other values the last one counts.
 *
 * `ranking` has every action. Those that were excluded keep their place, with probability 0; the others stand by their
 * probabilities, the greatest first. */
#include "json/json_personalizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/hash_key.h"
#include "json/json_flag_value.h"
#include "json/json_util.h"
#include "json/json_vector.h"

#define MOST_NAMES 1000u /* of a list of features */

/* --- Rank ---------------------------------------------------------------------------------------------- */

/* A list of objects, or nothing. */
static void check_features(struct ld_in *in, const struct ld_value *list)
{
    size_t n = 0;
    if (list == NULL || ld_is(list, LD_V_NULL))
        return;
    if (!ld_is(list, LD_V_ARRAY)) {
        ld_in_fault(in, NULL, "expected an array of objects");
        return;
    }
    for (size_t i = 0; i < ld_n_items(list); i++) {
        const size_t here = ld_in_item(in, list, i);
        if (!ld_is(ld_item_of(list, i), LD_V_OBJECT))
            ld_in_fault(in, NULL, "expected an object");
        ld_in_leave(in, here);
        n += 1 + ld_n_members(ld_item_of(list, i));
    }
    if (n > MOST_NAMES)
        ld_in_fault(in, NULL, "expected at most %u objects and names", MOST_NAMES);
}

void ld_check_rank_features(struct ld_in *in, const struct ld_value *object, const char *key)
{
    const size_t here = ld_in_key(in, key);
    check_features(in, ld_member_of(object, key));
    ld_in_leave(in, here);
}

static void read_action(struct ld_in *in, const struct ld_value *v, struct ld_rank_action *out)
{
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object with id and features");
        return;
    }
    out->id = ld_in_text_of(in, v, "id", &ld_id_rule, true);
    ld_check_rank_features(in, v, "features");
}

static void read_actions(struct ld_in *in, const struct ld_value *list, struct ld_rank *out)
{
    struct kb_ids seen;
    const size_t n = ld_n_items(list);
    if (n < 1 || n > LD_MOST_ACTIONS) {
        ld_in_fault(in, NULL, "expected an array of 1 to %u actions", LD_MOST_ACTIONS);
        return;
    }
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < n; i++) {
        const size_t here = ld_in_item(in, list, i);
        read_action(in, ld_item_of(list, i), &out->action[i]);
        ld_in_refuse_repeat(in, &seen, out->action[i].id);
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    out->n = n;
}

static void exclude(struct ld_rank *rank, const char *id)
{
    for (size_t i = 0; i < rank->n; i++)
        if (rank->action[i].id != NULL && strcmp(rank->action[i].id, id) == 0)
            rank->action[i].is_excluded = true;
}

/* Ids that no action has are taken, and mean nothing. */
static void read_excluded(struct ld_in *in, const struct ld_value *list, struct ld_rank *out)
{
    size_t n_left = 0;
    if (list != NULL && !ld_is(list, LD_V_NULL) && !ld_is(list, LD_V_ARRAY))
        ld_in_fault(in, NULL, "expected an array of ids of actions");
    for (size_t i = 0; i < ld_n_items(list); i++) {
        const size_t here = ld_in_item(in, list, i);
        const char *id = ld_in_text(in, ld_item_of(list, i), &ld_id_rule);
        if (id != NULL)
            exclude(out, id);
        ld_in_leave(in, here);
    }
    for (size_t i = 0; i < out->n; i++)
        n_left += !out->action[i].is_excluded;
    if (out->n > 0 && n_left == 0)
        ld_in_fault(in, NULL, "every action is excluded: expected one to be left");
}

static const struct ld_rule event_rule = {.key = "eventId", .lo = 1, .hi = LD_EVENT_BYTES};

static void read_defer(struct ld_in *in, const struct ld_value *v)
{
    if (v != NULL && !ld_is(v, LD_V_NULL) && !ld_is_bool(v))
        ld_in_fault(in, "deferActivation", "expected true or false");
}

/* The context as one object is what the pointer is into, as it is what is mapped. */
static void read_user(struct ld_in *in, struct ld_rank *out)
{
    const struct ld_value *list = ld_member_of(&in->doc->root, "contextFeatures");
    struct ld_doc *merged = NULL;
    struct ld_text t;
    size_t n = 0;
    if (!ld_doc_names_user(in->doc))
        return;
    ld_text_init(&t);
    ld_put_rank_features(&t, list);
    char *text = ld_text_take(&t, &n);
    const size_t here = ld_in_key(in, "contextFeatures");
    if (text == NULL)
        ld_problem_set(in->p, 503, "out of memory");
    else if (ld_doc_parse(&merged, text, n, false, in->p) == 0) {
        const char *user = ld_in_user(in, &merged->root);
        if (user != NULL)
            out->user = user;
    }
    ld_in_leave(in, here);
    ld_doc_free(merged);
    free(text);
}

/* Members that Personalizer does not have are not looked at, as there. */
int ld_decode_rank(struct ld_doc *doc, bool has_slots, struct ld_rank *out, struct ld_problem *p)
{
    const struct ld_value *root = &doc->root, *event = ld_member_of(root, "eventId");
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_rank){.user = LD_RANK_NOBODY};
    if (!ld_is(root, LD_V_OBJECT)) {
        ld_in_fault(&in, NULL, "expected an object");
        return ld_in_done(&in);
    }
    size_t here = ld_in_key(&in, "actions");
    read_actions(&in, ld_member_of(root, "actions"), out);
    ld_in_leave(&in, here);
    here = ld_in_key(&in, has_slots ? "slots" : "excludedActions");
    if (has_slots)
        ld_read_rank_slots(&in, ld_member_of(root, "slots"), out);
    else
        read_excluded(&in, ld_member_of(root, "excludedActions"), out);
    ld_in_leave(&in, here);
    ld_check_rank_features(&in, root, "contextFeatures");
    here = ld_in_key(&in, "eventId");
    if (event != NULL && !ld_is(event, LD_V_NULL) && !(ld_is(event, LD_V_STRING) && ld_string_bytes(event) == 0))
        out->event = ld_in_text(&in, event, &event_rule);
    ld_in_leave(&in, here);
    read_defer(&in, ld_member_of(root, "deferActivation"));
    if (p->status == 0)
        read_user(&in, out);
    return ld_in_done(&in);
}

/* --- /select ------------------------------------------------------------------------------------------- */

/* The values of a name in the list, from item i on: the last one; and whether they are several, all of them objects or
 * all strings. */
static const struct ld_value *last_value(const struct ld_value *list, size_t i, const char *name, bool *is_list)
{
    const struct ld_value *last = NULL;
    size_t n = 0, n_objects = 0, n_strings = 0;
    for (; i < ld_n_items(list); i++) {
        const struct ld_value *v = ld_member_of(ld_item_of(list, i), name);
        if (v == NULL)
            continue;
        n_objects += ld_is(v, LD_V_OBJECT);
        n_strings += ld_is(v, LD_V_STRING);
        last = v;
        n++;
    }
    *is_list = n > 1 && (n_objects == n || n_strings == n);
    return last;
}

static bool stands_before(const struct ld_value *list, size_t i, const char *name)
{
    while (i-- > 0)
        if (ld_member_of(ld_item_of(list, i), name) != NULL)
            return true;
    return false;
}

static void put_values(struct ld_text *t, const struct ld_value *list, size_t i, const char *name)
{
    ld_text_lit(t, "[");
    for (; i < ld_n_items(list); i++) {
        const struct ld_value *v = ld_member_of(ld_item_of(list, i), name);
        if (v == NULL)
            continue;
        ld_text_item(t);
        ld_text_value(t, v);
    }
    ld_text_lit(t, "]");
}

/* A name is written where it stands first. O((objects + names) names), of which there are MOST_NAMES at most. */
void ld_put_rank_features(struct ld_text *t, const struct ld_value *list)
{
    if (ld_n_items(list) == 1) {
        ld_text_value(t, ld_item_of(list, 0));
        return;
    }
    ld_text_lit(t, "{");
    for (size_t i = 0; i < ld_n_items(list); i++) {
        const struct ld_value *object = ld_item_of(list, i);
        for (size_t j = 0; j < ld_n_members(object); j++) {
            const char *name = object->as.member[j].key;
            bool is_list;
            if (stands_before(list, i, name))
                continue;
            const struct ld_value *last = last_value(list, i, name, &is_list);
            ld_text_item(t);
            ld_text_string(t, name);
            ld_text_lit(t, ":");
            if (is_list)
                put_values(t, list, i, name);
            else
                ld_text_value(t, last);
        }
    }
    ld_text_lit(t, "}");
}

/* All of them, so that a fault's place is that of its action. */
static void put_candidates(struct ld_text *t, const struct ld_value *actions, const struct ld_rank *rank,
                           bool has_features)
{
    ld_text_key(t, "candidates");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < rank->n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", rank->action[i].id);
        if (has_features) {
            ld_text_key(t, "features");
            ld_put_rank_features(t, ld_member_of(ld_item_of(actions, i), "features"));
        }
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_excluded(struct ld_text *t, const struct ld_rank *rank)
{
    ld_text_key(t, "exclude");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < rank->n; i++)
        if (rank->action[i].is_excluded) {
            ld_text_item(t);
            ld_text_string(t, rank->action[i].id);
        }
    ld_text_lit(t, "]");
}

char *ld_encode_rank_select(const struct ld_doc *doc, const struct ld_rank *rank, const char *decision,
                            bool has_features, size_t *n)
{
    const struct ld_value *root = &doc->root;
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "user", rank->user);
    if (decision != NULL)
        ld_text_put_string(&t, "decision", decision);
    put_candidates(&t, ld_member_of(root, "actions"), rank, has_features);
    put_excluded(&t, rank);
    if (has_features) {
        ld_text_key(&t, "context");
        ld_put_rank_features(&t, ld_member_of(root, "contextFeatures"));
    }
    if (ld_is(ld_member_of(root, "deferActivation"), LD_V_TRUE))
        ld_text_put_bool(&t, "defer", true);
    if (rank->n_slots > 0)
        ld_put_rank_slots(&t, ld_member_of(root, "slots"), rank, has_features);
    else
        ld_text_put_bool(&t, "explain", true);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

/* --- its answer ---------------------------------------------------------------------------------------- */

struct ranked {
    const char *id;
    double probability;
};

/* NULL: it is not among them. */
static const struct ld_value *entry_of(const struct ld_value *ranking, const char *id)
{
    for (size_t i = 0; i < ld_n_items(ranking); i++) {
        const char *arm = ld_string_of(ld_member_of(ld_item_of(ranking, i), "arm"));
        if (arm != NULL && strcmp(arm, id) == 0)
            return ld_item_of(ranking, i);
    }
    return NULL;
}

/* Whether the answer is about the actions that the request leaves: that of an earlier request may be about others. */
static bool is_about(const struct ld_rank *rank, const struct ld_value *ranking)
{
    size_t n = 0;
    for (size_t i = 0; i < rank->n; i++)
        if (!rank->action[i].is_excluded) {
            n++;
            if (entry_of(ranking, rank->action[i].id) == NULL)
                return false;
        }
    return n == ld_n_items(ranking);
}

/* Equal ones stay in the order of the request. */
static void sort(struct ranked *r, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && r[j].probability > r[j - 1].probability; j--) {
            const struct ranked swap = r[j];
            r[j] = r[j - 1];
            r[j - 1] = swap;
        }
}

size_t ld_rank_first(const struct ld_rank *rank, const struct ld_value *ranking)
{
    size_t first = 0;
    double most = -1;
    for (size_t i = 0; i < rank->n; i++) {
        if (rank->action[i].is_excluded)
            continue;
        const double p = ld_number_of(ld_member_of(entry_of(ranking, rank->action[i].id), "propensity"));
        if (p > most) {
            first = i;
            most = p;
        }
    }
    return first;
}

static void put_ranking(struct ld_text *t, const struct ld_rank *rank, const struct ld_value *ranking)
{
    struct ranked shown[LD_MOST_ACTIONS];
    size_t n = 0, next = 0;
    for (size_t i = 0; i < rank->n; i++)
        if (!rank->action[i].is_excluded)
            shown[n++] = (struct ranked){
                rank->action[i].id, ld_number_of(ld_member_of(entry_of(ranking, rank->action[i].id), "propensity"))};
    sort(shown, n);
    ld_text_key(t, "ranking");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < rank->n; i++) {
        const bool is_excluded = rank->action[i].is_excluded;
        const struct ranked r = is_excluded ? (struct ranked){rank->action[i].id, 0} : shown[next++];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", r.id);
        ld_text_put_number(t, "probability", r.probability);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

char *ld_encode_ranking(const struct ld_rank *rank, const char *answer, size_t n_answer, size_t *n, bool *is_explained,
                        struct ld_problem *p)
{
    struct ld_doc *doc = NULL;
    struct ld_text t;
    *is_explained = false;
    if (ld_doc_parse(&doc, answer, n_answer, false, p) != 0)
        return NULL;
    const bool has_slots = rank->n_slots > 0;
    const struct ld_value *root = &doc->root, *shown = ld_member_of(root, has_slots ? "slots" : "ranking");
    if (!(has_slots ? ld_slots_are_of : is_about)(rank, shown)) {
        ld_problem_add(p, "/eventId", "%s",
                       has_slots
                           ? "this event was ranked otherwise before: expected a new id, or those slots and actions"
                           : "this event was ranked among other actions: expected a new id, or those actions");
        ld_doc_free(doc);
        return NULL;
    }
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    (has_slots ? ld_put_filled_slots : put_ranking)(&t, rank, shown);
    ld_text_put_string(&t, "eventId", rank->event != NULL ? rank->event : ld_string_of(ld_member_of(root, "decision")));
    if (!has_slots)
        ld_text_put_string(&t, "rewardActionId", ld_string_of(ld_member_of(root, "arm")));
    *is_explained = rank->explanation != NULL && rank->explained == ld_rank_first(rank, shown);
    if (*is_explained)
        ld_put_rank_explanation(&t, rank);
    ld_text_lit(&t, "}");
    char *text = ld_text_take(&t, n);
    ld_doc_free(doc);
    if (text == NULL)
        ld_problem_set(p, 503, "out of memory");
    return text;
}

/* --- Reward -------------------------------------------------------------------------------------------- */

int ld_decode_rank_reward(struct ld_doc *doc, double *value, struct ld_problem *p)
{
    const struct ld_value *v = ld_member_of(&doc->root, "value");
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *value = ld_number_of(v);
    if (!ld_is(&doc->root, LD_V_OBJECT))
        ld_in_fault(&in, NULL, "expected an object");
    else if (!ld_is(v, LD_V_NUMBER) || *value < -1 || *value > 1)
        ld_in_fault(&in, "value", "expected a number from -1 to 1");
    return ld_in_done(&in);
}

/* --- refusals ------------------------------------------------------------------------------------------ */

static void put_target(struct ld_text *t, const char *pointer)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = {{"/candidates", "/actions"},
                 {"/context", "/contextFeatures"},
                 {"/decision", "/eventId"},
                 {"/reward_window_s", "/rewardWaitTime"},
                 {"/default_reward", "/defaultReward"},
                 {"/rule/epsilon", "/explorationPercentage"},
                 {"/retention/age_s", "/logRetentionDays"},
                 {"/routing", "/learningMode"}};
    char target[192];
    size_t n = 0;
    const char *theirs = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n_ours = strlen(names[i].ours);
        if (strncmp(pointer, names[i].ours, n_ours) == 0 && (pointer[n_ours] == '/' || pointer[n_ours] == '\0')) {
            theirs = names[i].theirs;
            n = n_ours;
        }
    }
    target[0] = '\0';
    strncat(strcat(target, theirs), pointer + n, sizeof target - strlen(theirs) - 1);
    ld_text_put_string(t, "target", target);
}

char *ld_encode_rank_refusal(const struct ld_problem *p, const char *code, const char *instance, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{\"error\":{");
    ld_text_put_string(&t, "code", code);
    ld_text_put_string(&t, "message", p->detail);
    if (p->n_errors > 0) {
        put_target(&t, p->errors[0].pointer);
        ld_text_key(&t, "details");
        ld_text_lit(&t, "[");
        for (size_t i = 0; i < p->n_errors; i++) {
            ld_text_item(&t);
            ld_text_lit(&t, "{");
            ld_text_put_string(&t, "code", code);
            ld_text_put_string(&t, "message", p->errors[i].detail);
            put_target(&t, p->errors[i].pointer);
            ld_text_lit(&t, "}");
        }
        ld_text_lit(&t, "]");
    }
    if (instance != NULL) {
        ld_text_key(&t, "innerError");
        ld_text_lit(&t, "{");
        ld_text_put_string(&t, "code", instance);
        ld_text_lit(&t, "}");
    }
    ld_text_lit(&t, "}}");
    return ld_text_take(&t, n);
}
