/* Multi-slot Rank and Reward of Azure Personalizer, to and from the bodies of /select and /reward.
 *
 *   slots[{id, features[{}], excludedActions, baselineAction}]     slots[{id, features, exclude, baseline}]
 *   reward[{slotId, value}]                                        [{decision, slot, reward}] */
#include "json/json_personalizer.h"

#include <string.h>

#include "base/hash_key.h"
#include "base/ids.h"
#include "json/json_flag_value.h"
#include "json/json_util.h"
#include "types/requests.h"

/* --- Rank ---------------------------------------------------------------------------------------------- */

static bool is_action(const struct ld_rank *rank, const char *id)
{
    for (size_t i = 0; i < rank->n; i++)
        if (rank->action[i].id != NULL && strcmp(rank->action[i].id, id) == 0)
            return true;
    return false;
}

static void check_baseline(struct ld_in *in, const struct ld_rank *rank, size_t i)
{
    const char *id = rank->slot[i].baseline;
    if (id == NULL)
        return;
    if (rank->n > 0 && !is_action(rank, id))
        ld_in_fault(in, "baselineAction", "expected the id of an action");
    for (size_t k = 0; k < i; k++)
        if (rank->slot[k].baseline != NULL && strcmp(rank->slot[k].baseline, id) == 0)
            ld_in_fault(in, "baselineAction", "expected another one than that of slot %zu", k + 1);
}

static void check_excluded(struct ld_in *in, const struct ld_value *slot)
{
    const struct ld_value *list = ld_member_of(slot, "excludedActions");
    const size_t key = ld_in_key(in, "excludedActions");
    if (list != NULL && !ld_is(list, LD_V_NULL) && !ld_is(list, LD_V_ARRAY))
        ld_in_fault(in, NULL, "expected an array of ids of actions");
    for (size_t i = 0; i < ld_n_items(list); i++) {
        const size_t here = ld_in_item(in, list, i);
        (void)ld_in_text(in, ld_item_of(list, i), &ld_id_rule);
        ld_in_leave(in, here);
    }
    ld_in_leave(in, key);
}

void ld_read_rank_slots(struct ld_in *in, const struct ld_value *list, struct ld_rank *out)
{
    struct kb_ids seen;
    const size_t n = ld_n_items(list);
    if (n < 1 || n > LD_MOST_ACTIONS || (out->n > 0 && n > out->n)) {
        ld_in_fault(in, NULL, "expected an array of 1 to %u slots, and an action for each", LD_MOST_ACTIONS);
        return;
    }
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < n; i++) {
        const struct ld_value *v = ld_item_of(list, i);
        const size_t here = ld_in_item(in, list, i);
        if (ld_is(v, LD_V_OBJECT)) {
            out->slot[i] = (struct ld_rank_slot){ld_in_text_of(in, v, "id", &ld_id_rule, true),
                                                 ld_in_text_of(in, v, "baselineAction", &ld_id_rule, true)};
            ld_in_refuse_repeat(in, &seen, out->slot[i].id);
            check_baseline(in, out, i);
            check_excluded(in, v);
            ld_check_rank_features(in, v, "features");
        } else {
            ld_in_fault(in, NULL, "expected an object with id and baselineAction");
        }
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    out->n_slots = n;
}

void ld_put_rank_slots(struct ld_text *t, const struct ld_value *list, const struct ld_rank *rank, bool has_features)
{
    ld_text_key(t, "slots");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < rank->n_slots; i++) {
        const struct ld_value *v = ld_item_of(list, i), *excluded = ld_member_of(v, "excludedActions");
        const struct ld_value *features = ld_member_of(v, "features");
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", rank->slot[i].id);
        ld_text_put_string(t, "baseline", rank->slot[i].baseline);
        if (ld_n_items(excluded) > 0) {
            ld_text_key(t, "exclude");
            ld_text_value(t, excluded);
        }
        if (has_features && ld_n_items(features) > 0) {
            ld_text_key(t, "features");
            ld_put_rank_features(t, features);
        }
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* --- its answer ---------------------------------------------------------------------------------------- */

/* Whether the answer is about the slots of the request, and shows its actions: that of an earlier one may be about
 * others. */
bool ld_slots_are_of(const struct ld_rank *rank, const struct ld_value *slots)
{
    if (ld_n_items(slots) != rank->n_slots)
        return false;
    for (size_t i = 0; i < rank->n_slots; i++) {
        const char *id = ld_string_of(ld_member_of(ld_item_of(slots, i), "id"));
        const char *arm = ld_string_of(ld_member_of(ld_item_of(slots, i), "arm"));
        if (id == NULL || arm == NULL || strcmp(id, rank->slot[i].id) != 0 || !is_action(rank, arm))
            return false;
    }
    return true;
}

void ld_put_filled_slots(struct ld_text *t, const struct ld_rank *rank, const struct ld_value *slots)
{
    ld_text_key(t, "slots");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < rank->n_slots; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", rank->slot[i].id);
        ld_text_put_string(t, "rewardActionId", ld_string_of(ld_member_of(ld_item_of(slots, i), "arm")));
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* --- Reward -------------------------------------------------------------------------------------------- */

static void read_reward(struct ld_in *in, const struct ld_value *v, struct ld_reward *out)
{
    const struct ld_value *value = ld_member_of(v, "value");
    out->reward = ld_number_of(value);
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object with slotId and value");
        return;
    }
    out->slot = ld_in_text_of(in, v, "slotId", &ld_id_rule, true);
    if (!ld_is(value, LD_V_NUMBER) || out->reward < -1 || out->reward > 1)
        ld_in_fault(in, "value", "expected a number from -1 to 1");
}

int ld_decode_slot_rewards(struct ld_doc *doc, const char *decision, struct ld_reward **out, size_t *n,
                           struct ld_problem *p)
{
    const struct ld_value *list = ld_member_of(&doc->root, "reward");
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *n = ld_n_items(list);
    if (*n < 1 || *n > LD_MOST_ACTIONS) {
        ld_in_fault(&in, "reward", "expected an array of 1 to %u objects with slotId and value", LD_MOST_ACTIONS);
        return -1;
    }
    *out = ld_in_alloc(&in, *n, sizeof **out);
    const size_t key = ld_in_key(&in, "reward");
    for (size_t i = 0; *out != NULL && i < *n; i++) {
        const size_t here = ld_in_item(&in, list, i);
        (*out)[i] = (struct ld_reward){.decision = decision};
        read_reward(&in, ld_item_of(list, i), &(*out)[i]);
        ld_in_leave(&in, here);
    }
    ld_in_leave(&in, key);
    return ld_in_done(&in);
}
