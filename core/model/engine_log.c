/* Events of the traffic: decided, rewarded, observed, expired, activated, late.
 *
 * A decision opens an entry that keeps what learning will need (context and features by value); a reward teaches
 * the history and the posterior at that point. Corrections (aggregation sum and last) change the sum of rewards and
 * not the count, so `last` leaves the totals of a log that only ever saw the last value. */
#include "model/engine_impl.h"
#include "base/magnitude.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_steps.h"

/* The user gets a decision, or is shown one, by what is staged. */
static enum kb_err stage_shown(struct kb_engine *e, uint32_t user)
{
    struct kb_staged *s = e->staged;

    if (kb_grow((void **)&s->shown, &s->cap_shown, s->n_shown + 1, 16, sizeof *s->shown) != 0)
        return KB_ENOMEM;
    s->shown[s->n_shown++] = user;
    return KB_OK;
}

/* Joins a context and an arm's features into x. */
static void join_vectors(const struct kb_engine *e, const double *context, const double *features, double *x)
{
    const size_t n_context = e->spec.context_dim, n_features = e->spec.arm_dim;

    if (n_context > 0)
        memcpy(x, context, n_context * sizeof *x);
    if (n_features > 0)
        memcpy(x + n_context, features, n_features * sizeof *x);
}

static bool is_staged_decision(const struct kb_engine *e, const char *id)
{
    for (size_t i = e->staged->next_entry; i < e->staged->n_entries; i++)
        if (strcmp(e->staged->entry[i]->id, id) == 0)
            return true;
    return false;
}

enum kb_err kb_engine_find_open(struct kb_engine *e, const char *id, struct kb_pending_entry **entry,
                                struct kb_errmsg *msg)
{
    *entry = kb_pending_find(&e->pending, id);
    if (*entry == NULL)
        return is_staged_decision(e, id) ? KB_EBUSY
                                         : kb_fail(KB_ENOTFOUND, msg, "/decision", "no open decision '%.100s'", id);
    return (*entry)->is_reserved ? KB_EBUSY : KB_OK;
}

struct kb_pending_slot *kb_engine_find_slot(const struct kb_engine *e, struct kb_pending_entry *entry, const char *arm)
{
    if (arm == NULL)
        return &entry->slot[0];
    const uint32_t ix = kb_ids_find(&e->arm_ids, arm);
    for (size_t i = 0; ix != KB_ID_NONE && i < entry->n_slots; i++)
        if (entry->slot[i].arm == ix)
            return &entry->slot[i];
    return NULL;
}

/* What a slot of an open decision will teach. Of a slate without names only slot 0 was drawn: the rest was put beside
 * it and is kept like what any other rule has shown, at level 0. */
static struct kb_staged_point point_of_slot(const struct kb_pending_entry *entry, const struct kb_pending_slot *slot,
                                            uint64_t seq)
{
    return (struct kb_staged_point){.seq = seq,
                                    .user = entry->user,
                                    .arm = slot->arm,
                                    .level = slot->level,
                                    .importance = slot->importance,
                                    .is_open = slot->is_open,
                                    .is_decided = true,
                                    .x = slot->x};
}

/* ---- decided --------------------------------------------------------------------------------------- */

/* A reward has to find the slot that it means, by its name and by its arm. */
static bool stands_twice(const struct kb_event *ev, size_t i)
{
    const struct kb_ev_slot *slots = ev->as.decided.slots;
    const struct kb_ev_draw *draws = ev->as.decided.draws;

    for (size_t k = 0; k < i; k++)
        if (strcmp(draws[k].id, draws[i].id) == 0 || strcmp(slots[k].arm, slots[i].arm) == 0)
            return true;
    return false;
}

static enum kb_err check_draw(const struct kb_event *ev, size_t i, struct kb_errmsg *msg)
{
    const struct kb_ev_draw *draw = &ev->as.decided.draws[i];

    if (stands_twice(ev, i))
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "", "expected another name and arm than of the slots before");
    if (i > 0 && !(draw->propensity > 0 && draw->propensity <= 1))
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/propensity", "expected more than 0, up to 1");
    if (draw->level > KB_MAX_LEVEL)
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/level", "expected 0 to %u", KB_MAX_LEVEL);
    return KB_OK;
}

static enum kb_err check_slots(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const size_t n = ev->as.decided.n_slots;
    const unsigned most = ev->as.decided.draws != NULL ? KB_MAX_SLOTS : KB_MAX_TOP;
    enum kb_err rc = KB_OK;

    if (n == 0 || n > most)
        return kb_fail(KB_EINVAL, msg, "/slate", "expected 1 to %u arms", most);
    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        if (e->spec.arm_dim > 0 && ev->as.decided.slots[i].features == NULL)
            return kb_fail(KB_EINVAL, msg, "/features", "expected %u numbers", e->spec.arm_dim);
        rc = ev->as.decided.draws != NULL ? check_draw(ev, i, msg) : KB_OK;
    }
    return rc;
}

static enum kb_err check_decided(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const char *id = ev->as.decided.decision;
    const enum kb_err rc = check_slots(e, ev, msg);

    if (rc != KB_OK)
        return rc;
    if (kb_pending_find(&e->pending, id) != NULL)
        return kb_fail(KB_EEXIST, msg, "/decision", "decision '%.100s' exists already", id);
    if (is_staged_decision(e, id))
        return KB_EBUSY;
    if (ev->as.decided.route >= KB_ROUTE_N)
        return kb_fail(KB_EINVAL, msg, "/route", "unknown route");
    if (ev->as.decided.assigned_until_ms != 0 && ev->as.decided.route == KB_ROUTE_STICKY)
        return kb_fail(KB_EINVAL, msg, "/assigned_until", "an arm that stuck is not assigned anew");
    if (ev->as.decided.has_match && !(ev->as.decided.match >= 0 && ev->as.decided.match <= 1))
        return kb_fail(KB_EINVAL, msg, "/match", "expected 0 to 1");
    if (ev->as.decided.level > KB_MAX_LEVEL)
        return kb_fail(KB_EINVAL, msg, "/level", "expected 0 to %u", KB_MAX_LEVEL);
    if (e->spec.context_dim > 0 && ev->as.decided.context == NULL)
        return kb_fail(KB_EINVAL, msg, "/context", "expected %u numbers", e->spec.context_dim);
    return KB_OK;
}

/* What its slots will teach, and what others would have been shown. */
static enum kb_err measure_decided(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    enum kb_err rc = kb_engine_measure_context(e, ev->as.decided.context, msg);

    for (size_t i = 0; rc == KB_OK && i < ev->as.decided.n_slots; i++)
        rc = kb_fail_within(kb_engine_measure_features(e, ev->as.decided.slots[i].features, "/features", msg), msg,
                            "/slate", i);
    for (size_t i = 1; rc == KB_OK && ev->as.decided.draws != NULL && i < ev->as.decided.n_slots; i++)
        if (ev->as.decided.draws[i].context != NULL)
            rc = kb_fail_within(kb_engine_measure_context(e, ev->as.decided.draws[i].context, msg), msg, "/slots", i);
    for (size_t i = 0; rc == KB_OK && i < ev->as.decided.n_among && ev->as.decided.among[i].features != NULL; i++)
        if (kb_first_unmeasurable(ev->as.decided.among[i].features, e->spec.arm_dim) < e->spec.arm_dim)
            rc = kb_fail_item(KB_ERANGE, msg, "/among", i, "/features", "expected numbers of at most %g in size",
                              KB_MOST_MAGNITUDE);
    return rc;
}

static enum kb_err measure_reward(double reward, struct kb_errmsg *msg)
{
    return kb_is_measurable(reward)
               ? KB_OK
               : kb_fail(KB_ERANGE, msg, "/reward", "expected at most %g in size", KB_MOST_MAGNITUDE);
}

/* How many slot i was drawn from. Candidates that are not told are the catalogue's active arms, where there are any;
 * those of a slot lack the arms of the slots before it. 0: not known. */
static size_t candidates_of(const struct kb_engine *e, const struct kb_event *ev, size_t i)
{
    const size_t n = ev->as.decided.among != NULL ? ev->as.decided.n_among : e->arms.n_active;

    if (ev->as.decided.draws != NULL && ev->as.decided.draws[i].n_candidates > 0)
        return ev->as.decided.draws[i].n_candidates;
    return n > i ? n - i : 0;
}

/* Of the draw of slot i; 0: it was not drawn. */
static double importance_of(const struct kb_engine *e, const struct kb_event *ev, size_t i)
{
    if (i > 0 && ev->as.decided.draws == NULL)
        return 0;
    return kb_importance(candidates_of(e, ev, i),
                         i > 0 ? ev->as.decided.draws[i].propensity : ev->as.decided.propensity);
}

/* What slot i of a new entry has of the event, but for its arm. */
static void take_slot(const struct kb_engine *e, const struct kb_event *ev, size_t i, struct kb_pending_entry *entry)
{
    const struct kb_ev_draw *draw = ev->as.decided.draws != NULL ? &ev->as.decided.draws[i] : NULL;
    const bool is_later = i > 0 && draw != NULL;
    const double *context = is_later && draw->context != NULL ? draw->context : ev->as.decided.context;

    entry->slot[i].level = is_later ? draw->level : i == 0 ? ev->as.decided.level : 0;
    entry->slot[i].importance = importance_of(e, ev, i);
    if (draw != NULL)
        kb_pending_name(entry, i, draw->id, strlen(draw->id));
    join_vectors(e, context, ev->as.decided.slots[i].features, entry->x + i * kb_engine_dim(e));
}

static enum kb_err reserve_decided(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    struct kb_pending_entry *entry = NULL;
    enum kb_err rc = check_decided(e, ev, msg);

    if (rc == KB_OK)
        rc = measure_decided(e, ev, msg);
    if (rc != KB_OK)
        return rc;
    if (kb_grow((void **)&s->entry, &s->cap_entries, s->n_entries + 1, 16, sizeof(struct kb_pending_entry *)) != 0)
        return KB_ENOMEM;
    entry = kb_pending_entry_new(ev->as.decided.decision, ev->as.decided.n_slots, kb_event_name_bytes(ev),
                                 kb_engine_dim(e));
    if (entry == NULL)
        return KB_ENOMEM;
    entry->expires_at_ms = ev->as.decided.expires_at_ms;
    entry->is_deferred = ev->as.decided.is_deferred;
    KB_TRY(kb_engine_stage_user(e, ev->as.decided.user, &entry->user));
    kb_engine_stage_route(e, ev, entry->user);
    for (size_t i = 0; i < entry->n_slots; i++) {
        KB_TRY(kb_engine_stage_arm(e, ev->as.decided.slots[i].arm, &entry->slot[i].arm));
        take_slot(e, ev, i, entry);
    }
    KB_TRY(stage_shown(e, entry->user));
    if (!entry->is_deferred)
        KB_TRY(kb_engine_stage_open(e, entry, ev->seq));
    s->entry[s->n_entries++] = entry;
    return KB_OK;
out:
    kb_pending_entry_free(entry);
    return rc;
}

static void apply_decided(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_pending_entry *entry = e->staged->entry[e->staged->next_entry++];
    const uint32_t user = kb_engine_intern_user(e, ev->as.decided.user);

    assert(user == entry->user);
    (void)user;
    for (size_t i = 0; i < entry->n_slots; i++) {
        const uint32_t arm = kb_engine_intern_arm(e, ev->as.decided.slots[i].arm);

        assert(arm == entry->slot[i].arm);
        e->arms.arm[arm].decided++;
    }
    kb_engine_take_route(e, ev, entry);
    kb_pending_insert(&e->pending, entry);
    kb_engine_open(e, entry, ev->seq);
    e->n_decided++;
}

/* The other fields that it writes are counters and the table of open decisions, which decisions do not look at. */
static bool is_decided_unseen(const struct kb_engine *e, const struct kb_event *ev)
{
    if (ev->as.decided.assigned_until_ms != 0 || kb_ids_find(&e->users, ev->as.decided.user) == KB_ID_NONE)
        return false;
    for (size_t i = 0; i < ev->as.decided.n_slots; i++)
        if (kb_ids_find(&e->arm_ids, ev->as.decided.slots[i].arm) == KB_ID_NONE)
            return false;
    return true;
}

bool kb_engine_is_unseen(const struct kb_engine *e, const struct kb_event *ev)
{
    return kb_event_is_light(ev) && !kb_engine_counts_open(e) &&
           (ev->type != KB_EV_DECIDED || is_decided_unseen(e, ev));
}

/* ---- rewarded -------------------------------------------------------------------------------------- */

/* The reward that the slot will have. */
static double reward_after(const struct kb_engine *e, const struct kb_pending_slot *slot, double y)
{
    return slot->has_reward && e->spec.aggregation == KB_AGG_SUM ? slot->reward + y : y;
}

/* Whether the model is told of the slot's reward. Of what it was made to forget it hears no more. */
static bool is_learned(const struct kb_engine *e, const struct kb_pending_slot *slot)
{
    return e->spec.learns && slot->taught != KB_VOID;
}

/* A reward in force of a slot becomes another one. */
struct change {
    double d_count, d_sum, d_square;
};

/* From old, 0 where there was none, to now, by the value told: the change itself where rewards are added, since a sum
 * of the old and the new one is rounded. */
static struct change change_of(const struct kb_engine *e, const struct kb_pending_slot *slot, bool had, double old,
                               double y, double now)
{
    const bool is_added = had && e->spec.aggregation != KB_AGG_LAST && old == slot->reward;

    return (struct change){
        .d_count = had ? 0 : 1, .d_sum = is_added ? y : now - old, .d_square = now * now - old * old};
}

static enum kb_err reserve_rewarded(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_pending_entry *entry = NULL;
    enum kb_err rc = kb_engine_find_open(e, ev->as.rewarded.decision, &entry, msg);

    if (rc != KB_OK)
        return rc;
    const struct kb_pending_slot *slot = kb_engine_find_slot(e, entry, ev->as.rewarded.arm);
    if (slot == NULL)
        return kb_fail(KB_ENOTFOUND, msg, "/arm", "decision has no slot with arm '%.100s'", ev->as.rewarded.arm);
    if (entry->is_deferred)
        return kb_fail(KB_ECONFLICT, msg, "/decision", "the decision is deferred and has not been activated");
    if (slot->has_reward && e->spec.aggregation == KB_AGG_FIRST)
        return kb_fail(KB_ECONFLICT, msg, "/reward", "the decision has a reward already");
    if ((rc = measure_reward(ev->as.rewarded.reward, msg)) != KB_OK)
        return rc;
    if (!kb_is_measurable(reward_after(e, slot, ev->as.rewarded.reward)))
        return kb_fail(KB_ERANGE, msg, "/reward", "expected a sum of the decision's rewards of at most %g in size",
                       KB_MOST_MAGNITUDE);
    if (ev->as.rewarded.metric.name != NULL &&
        (rc = kb_engine_keep_metric(entry, slot, &ev->as.rewarded.metric, msg)) != KB_OK)
        return rc;
    const struct kb_staged_point pt = point_of_slot(entry, slot, ev->seq);
    rc = is_learned(e, slot) ? kb_engine_stage_point(e, &pt) : KB_OK;
    if (rc == KB_OK)
        entry->is_reserved = true;
    return rc;
}

/* Under `first` a decision closes when every slot has its reward; otherwise corrections may come until the window
 * closes, and so may values of metrics. */
static bool is_complete(const struct kb_engine *e, const struct kb_pending_entry *entry)
{
    if (e->spec.aggregation != KB_AGG_FIRST || e->spec.has_metrics)
        return false;
    for (size_t i = 0; i < entry->n_slots; i++)
        if (!entry->slot[i].has_reward)
            return false;
    return true;
}

/* The first reward that is learned of a slot is a step of forgetting, a correction is none. */
static void prepare_rewarded(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.rewarded.decision);
    const struct kb_pending_slot *slot = kb_engine_find_slot(e, entry, ev->as.rewarded.arm);

    if (is_learned(e, slot) && slot->taught == KB_UNTAUGHT)
        kb_engine_prepare_step(e, ev);
}

/* The model gets the reward in force: what it has not learned of the slot so far comes with it. */
static void teach_rewarded(struct kb_engine *e, const struct kb_event *ev, const struct kb_pending_entry *entry,
                           struct kb_pending_slot *slot, double now)
{
    const bool had = slot->taught == KB_TAUGHT;
    const struct kb_staged_point pt = point_of_slot(entry, slot, ev->seq);
    const struct change c = change_of(e, slot, had, had ? slot->model : 0, ev->as.rewarded.reward, now);

    if (!had)
        slot->halvings = kb_engine_take_step(e, ev);
    kb_reward_sums_see(&e->sums, now);
    kb_engine_teach(e, &pt, c.d_count, c.d_sum, c.d_square, slot->halvings);
    if (!had && slot->has_reward)
        e->n_unlearned--;
    slot->is_open = false;
    slot->taught = KB_TAUGHT;
    slot->model = now;
}

static void apply_rewarded(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.rewarded.decision);
    struct kb_pending_slot *slot = kb_engine_find_slot(e, entry, ev->as.rewarded.arm);
    const double y = ev->as.rewarded.reward;
    const double now = reward_after(e, slot, y);
    const struct change c = change_of(e, slot, slot->has_reward, slot->has_reward ? slot->reward : 0, y, now);

    kb_engine_book(e, slot->arm, c.d_count, c.d_sum, c.d_square);
    kb_engine_count_reward(e, entry, slot, c.d_count, c.d_sum, c.d_square);
    if (is_learned(e, slot))
        teach_rewarded(e, ev, entry, slot, now);
    else
        e->n_unlearned += c.d_count > 0;
    kb_engine_take_back(e, entry, slot);
    slot->reward = now;
    slot->has_reward = true;
    entry->is_reserved = false;
    e->n_rewarded++;
    if (ev->as.rewarded.metric.name != NULL)
        kb_engine_take_metric(e, entry, slot, &ev->as.rewarded.metric);
    if (is_complete(e, entry))
        kb_pending_remove(&e->pending, entry);
    else
        kb_pending_changed(&e->pending, entry);
}

/* ---- observed -------------------------------------------------------------------------------------- */

/* Observations have no decision of ours: they are the first level's, as if it had asked for them. Under a rule without
 * levels they are level 0, like all it learns. */
static uint32_t observed_level(const struct kb_engine *e)
{
    return kb_rule_reads_levels(e->spec.rule.type) ? 1 : 0;
}

static enum kb_err reserve_observed(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const double *features = ev->as.observed.arm.features;
    uint32_t user = 0, arm = 0;
    enum kb_err rc = KB_OK;

    if (e->spec.arm_dim > 0 && features == NULL) {
        arm = kb_ids_find(&e->arm_ids, ev->as.observed.arm.arm);
        if (arm == KB_ID_NONE || e->arms.arm[arm].parts.features == NULL)
            return kb_fail(KB_EINVAL, msg, "/arm", "'%.100s' is not in the catalogue: give its %u features (arm_dim)",
                           ev->as.observed.arm.arm, e->spec.arm_dim);
        features = e->arms.arm[arm].parts.features;
    }
    if (e->spec.context_dim > 0 && ev->as.observed.context == NULL)
        return kb_fail(KB_EINVAL, msg, "/context", "expected %u numbers", e->spec.context_dim);
    KB_TRY(measure_reward(ev->as.observed.reward, msg));
    KB_TRY(kb_engine_measure_context(e, ev->as.observed.context, msg));
    KB_TRY(kb_engine_measure_features(e, features, "/arm/features", msg));
    double *x = kb_engine_stage_block(e, kb_engine_dim(e), sizeof *x);
    if (x == NULL)
        return KB_ENOMEM;
    join_vectors(e, ev->as.observed.context, features, x);
    KB_TRY(kb_engine_stage_user(e, ev->as.observed.user, &user));
    KB_TRY(kb_engine_stage_arm(e, ev->as.observed.arm.arm, &arm));
    if (!e->spec.learns)
        return KB_OK;
    KB_TRY(kb_engine_stage_point(
        e, &(struct kb_staged_point){.seq = ev->seq,
                                     .user = user,
                                     .arm = arm,
                                     .level = observed_level(e),
                                     .importance = kb_importance(e->arms.n_active, ev->as.observed.propensity),
                                     .x = x}));
out:
    return rc;
}

/* Observations are no decisions of ours: the model is told, or it is not. */
static void prepare_observed(struct kb_engine *e, const struct kb_event *ev)
{
    if (e->spec.learns)
        kb_engine_prepare_step(e, ev);
}

static void apply_observed(struct kb_engine *e, const struct kb_event *ev)
{
    const struct kb_staged_point *pt = kb_engine_staged_point(e, ev->seq);
    const double y = ev->as.observed.reward;

    assert((pt != NULL) == e->spec.learns);
    kb_engine_intern_user(e, ev->as.observed.user);
    kb_engine_book(e, kb_engine_intern_arm(e, ev->as.observed.arm.arm), 1, y, y * y);
    e->n_observed++;
    if (pt == NULL) {
        e->n_unlearned++;
        return;
    }
    kb_reward_sums_see(&e->sums, y);
    kb_engine_teach(e, pt, 1, y, y * y, kb_engine_take_step(e, ev));
}

/* ---- expired, activated, late ---------------------------------------------------------------------- */

/* Whether the closing window brings the default reward for this slot. */
static bool takes_default(const struct kb_event *ev, const struct kb_pending_entry *entry, size_t i)
{
    return ev->as.expired.has_reward && !entry->is_deferred && !entry->slot[i].has_reward;
}

static enum kb_err reserve_expired(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_pending_entry *entry = NULL;
    enum kb_err rc = kb_engine_find_open(e, ev->as.expired.decision, &entry, msg);

    if (rc == KB_OK && ev->as.expired.has_reward)
        rc = measure_reward(ev->as.expired.reward, msg);
    for (size_t i = 0; rc == KB_OK && i < entry->n_slots; i++) {
        const struct kb_staged_point pt = point_of_slot(entry, &entry->slot[i], ev->seq);

        if (e->spec.learns && takes_default(ev, entry, i))
            rc = kb_engine_stage_point(e, &pt);
    }
    if (rc == KB_OK)
        entry->is_reserved = true;
    return rc;
}

static bool teaches_default(const struct kb_engine *e, const struct kb_event *ev, const struct kb_pending_entry *entry)
{
    for (size_t i = 0; e->spec.learns && i < entry->n_slots; i++)
        if (takes_default(ev, entry, i))
            return true;
    return false;
}

static void prepare_expired(struct kb_engine *e, const struct kb_event *ev)
{
    if (teaches_default(e, ev, kb_pending_find(&e->pending, ev->as.expired.decision)))
        kb_engine_prepare_step(e, ev);
}

/* One step, whatever the number of slots: they were shown, and are given up, together. */
static void apply_expired(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.expired.decision);
    const double y = ev->as.expired.reward;
    const double halvings = teaches_default(e, ev, entry) ? kb_engine_take_step(e, ev) : 0;

    for (size_t i = 0; i < entry->n_slots; i++) {
        const struct kb_staged_point pt = point_of_slot(entry, &entry->slot[i], ev->seq);

        if (!takes_default(ev, entry, i))
            continue;
        kb_engine_book(e, entry->slot[i].arm, 1, y, y * y);
        kb_engine_count_reward(e, entry, &entry->slot[i], 1, y, y * y);
        e->n_unlearned += !e->spec.learns;
        if (!e->spec.learns)
            continue;
        kb_reward_sums_see(&e->sums, y);
        kb_engine_teach(e, &pt, 1, y, y * y, halvings);
        entry->slot[i].is_open = false;
    }
    for (size_t i = 0; i < entry->n_slots; i++)
        kb_engine_take_back(e, entry, &entry->slot[i]);
    kb_pending_remove(&e->pending, entry);
    e->n_expired++;
}

static enum kb_err reserve_activated(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_pending_entry *entry = NULL;
    enum kb_err rc = kb_engine_find_open(e, ev->as.activated.decision, &entry, msg);

    if (rc == KB_OK && !entry->is_deferred)
        return kb_fail(KB_EEXIST, msg, "/decision", "the decision is active already");
    if (rc == KB_OK)
        rc = stage_shown(e, entry->user);
    if (rc == KB_OK)
        rc = kb_engine_stage_open(e, entry, ev->seq);
    if (rc == KB_OK)
        entry->is_reserved = true;
    return rc;
}

static void apply_activated(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.activated.decision);

    entry->is_deferred = entry->is_reserved = false;
    kb_pending_show(&e->pending, entry);
    kb_pending_changed(&e->pending, entry);
    kb_engine_open(e, entry, ev->seq);
}

/* Nothing to get ready. */
static enum kb_err reserve_late(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    (void)e;
    (void)ev;
    (void)msg;
    return KB_OK;
}

static void apply_late(struct kb_engine *e, const struct kb_event *ev)
{
    (void)ev;
    e->n_late++;
}

/* ---- redacted --------------------------------------------------------------------------------------- */

/* An event that was taken out of the log: only its number is left. */
static void apply_redacted(struct kb_engine *e, const struct kb_event *ev)
{
    (void)e;
    (void)ev;
}

const struct kb_event_ops kb_ops_decided = {.reserve = reserve_decided, .apply = apply_decided};
const struct kb_event_ops kb_ops_rewarded = {
    .reserve = reserve_rewarded, .prepare = prepare_rewarded, .apply = apply_rewarded};
const struct kb_event_ops kb_ops_observed = {
    .reserve = reserve_observed, .prepare = prepare_observed, .apply = apply_observed};
const struct kb_event_ops kb_ops_expired = {
    .reserve = reserve_expired, .prepare = prepare_expired, .apply = apply_expired};
const struct kb_event_ops kb_ops_activated = {.reserve = reserve_activated, .apply = apply_activated};
const struct kb_event_ops kb_ops_late = {.reserve = reserve_late, .apply = apply_late};
const struct kb_event_ops kb_ops_redacted = {.reserve = reserve_late, .apply = apply_redacted};
