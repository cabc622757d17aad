/* Lines of the log about decisions: what was decided, what followed it, and observations. */
#include <assert.h>
#include <stdint.h>

#include "json/json_event_rows.h"

static const struct ld_row slot_rows[] = {
    ID("arm", 0, offsetof(struct kb_ev_slot, arm)),
    FEATURES_OR_NULL(0, offsetof(struct kb_ev_slot, features)),
};
static const struct ld_row candidate_rows[] = {
    ID("arm", 0, offsetof(struct kb_ev_slot, arm)),
    FEATURES(0, offsetof(struct kb_ev_slot, features)),
};

/* All slots, the one drawn first; `arm` and `features` of the line repeat that one for readers who know no slates. A
 * slate of one is not written, and refused: one decision has one spelling. */
static const struct ld_list slate = {LD_ROWS(slot_rows), sizeof(struct kb_ev_slot), .shape = LD_LIST_OBJECTS};
/* Of slots with names, one for each arm of the slate, or for the only arm. `context` where it is not that of the line.
 */
static const struct ld_row draw_rows[] = {
    ID("id", 0, offsetof(struct kb_ev_draw, id)),
    PROBABILITY("propensity", 0, offsetof(struct kb_ev_draw, propensity)),
    REAL("mean", OPTIONAL, offsetof(struct kb_ev_draw, mean)),
    VECTOR("context", OPTIONAL, offsetof(struct kb_ev_draw, context), LD_DIM_CONTEXT),
    NUMBER("level", OPTIONAL, offsetof(struct kb_ev_draw, level), &level),
    NUMBER("candidates", OPTIONAL, offsetof(struct kb_ev_draw, n_candidates), &candidates),
};
static const struct ld_list draws = {LD_ROWS(draw_rows), sizeof(struct kb_ev_draw), .shape = LD_LIST_OBJECTS};
/* An id for each candidate, or with its features where they were given inline. */
static const struct ld_list among = {LD_ROWS(candidate_rows), sizeof(struct kb_ev_slot), .shape = LD_LIST_SHORT};

/* [arm, propensity] of what could be drawn. */
static void read_odds(struct ld_in *in, const struct ld_value *v, void *item)
{
    struct kb_ev_odds *out = item;
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != 2) {
        ld_in_fault(in, NULL, "expected [arm, propensity]");
        return;
    }
    out->arm = ld_in_text(in, ld_item_of(v, 0), &ld_id_rule);
    (void)ld_in_real(in, ld_item_of(v, 1), &probability, &out->propensity);
}

static const struct ld_row odds_rows[] = {
    ID("arm", 0, offsetof(struct kb_ev_odds, arm)),
    PROBABILITY("propensity", 0, offsetof(struct kb_ev_odds, propensity)),
};
static const struct ld_list odds = {LD_ROWS(odds_rows), sizeof(struct kb_ev_odds), .shape = LD_LIST_TUPLES,
                                    .read_item = read_odds};

/* Propensity and mean are those of slot 0 at the time, and kept as told: a fold does not decide again, and could not,
 * since the kernels of another machine round otherwise. Offline estimators need nothing else from the model. */
static const struct ld_row decided[] = {
    HEAD,
    DECISION_ID("decision", 0, EV(decided.decision)),
    ID("user", 0, EV(decided.user)),
    CONTEXT(EV(decided.context)),
    ID("arm", LD_ROW_LATE, AT(first.arm)),
    FEATURES_OR_NULL(LD_ROW_LATE, AT(first.features)),
    PROBABILITY("propensity", 0, EV(decided.propensity)),
    REAL("mean", OPTIONAL, EV(decided.mean)),
    TIME("expires_at", 0, EV(decided.expires_at_ms)),
    FLAG("deferred", OPTIONAL, EV(decided.is_deferred)),
    WORD("route", OPTIONAL, EV(decided.route), kb_route_words),
    TIME("assigned_until", OPTIONAL, EV(decided.assigned_until_ms)),
    NUMBER("level", OPTIONAL, EV(decided.level), &level),
    {"match", LD_ROW_REAL, LD_ROW_HAS, EV(decided.match), EV(decided.has_match), .rule = &share},
    SHORT_LIST("slate", OPTIONAL, AT(slate), AT(n_slate), &slate, &two_slots_or_more),
    SHORT_LIST("slots", OPTIONAL, EV(decided.draws), AT(n_draws), &draws, &up_to_most_slots),
    LIST("among", OPTIONAL, EV(decided.among), EV(decided.n_among), &among),
    NUMBER("candidates", OPTIONAL, EV(decided.n_candidates), &candidates),
    SHORT_LIST("odds", OPTIONAL, EV(decided.odds), EV(decided.n_odds), &odds, &up_to_most_odds),
};

static void open_decided(struct line *l)
{
    l->first = l->ev.as.decided.slots[0];
    l->n_slate = l->ev.as.decided.n_slots;
    l->slate = l->n_slate > 1 ? l->ev.as.decided.slots : NULL;
    l->n_draws = l->n_slate;
}

/* Slot 0 is given by the line's own arm and features, also when a slate repeats them. */
static void close_decided(struct ld_in *in, struct line *l)
{
    const size_t n = l->slate != NULL ? l->n_slate : 1;
    struct kb_ev_slot *slots = ld_in_alloc(in, n, sizeof *slots);
    if (slots == NULL)
        return;
    if (l->ev.as.decided.draws != NULL && l->n_draws != n)
        ld_in_fault(in, "slots", "expected as many as arms");
    else if (l->ev.as.decided.draws != NULL && l->ev.as.decided.draws[0].propensity != l->ev.as.decided.propensity)
        ld_in_fault(in, "slots", "expected the propensity of the line in the first");
    else if (l->ev.as.decided.draws == NULL && n > KB_MAX_TOP)
        ld_in_fault(in, "slate", "expected at most %u arms without names", KB_MAX_TOP);
    for (size_t i = 1; i < n; i++)
        slots[i] = l->slate[i];
    slots[0] = l->first;
    l->ev.as.decided.slots = slots;
    l->ev.as.decided.n_slots = n;
}

/* --- what follows a decision, and observations --------------------------------------------------------- */

#define METRIC(of, told, how)                                                                                          \
    {"metric", LD_ROW_TEXT, how, EV(of.metric.name), .rule = &ld_metric_name_rule}, told,                              \
        REAL_OR_NOT("before", EV(of.metric.before), EV(of.metric.has_before)),                                         \
        REAL_OR_NOT("total", EV(of.metric.total), EV(of.metric.has_total))

/* Shared by `rewarded` and `late`, of which the type alone says whether the reward was learned. Without an arm, slot 0
 * was meant. A late one is of no metric: the first N_LATE are its. */
#define N_LATE (N_HEAD + 6)
static const struct ld_row rewarded[] = {
    HEAD,
    DECISION_ID("decision", 0, EV(rewarded.decision)),
    REAL("reward", LD_ROW_LATE, EV(rewarded.reward)),
    ID("arm", OPTIONAL, EV(rewarded.arm)),
    DECISION_ID("id", OPTIONAL, EV(rewarded.id)),
    ID("event", OPTIONAL, EV(rewarded.event)),
    TIME("happened_at", OPTIONAL, EV(rewarded.happened_at_ms)),
    METRIC(rewarded, REAL_OR_NOT("value", EV(rewarded.metric.value), EV(rewarded.metric.is_told)), OPTIONAL),
};

static void close_rewarded(struct ld_in *in, struct line *l)
{
    const struct kb_ev_metric *m = &l->ev.as.rewarded.metric;
    if ((m->name != NULL) != m->is_told || (m->name == NULL && (m->has_before || m->has_total)))
        ld_in_fault(in, m->name != NULL ? "value" : "metric", "required: metric and value stand together");
}

static const struct ld_row measured[] = {
    HEAD,
    DECISION_ID("decision", 0, EV(measured.decision)),
    METRIC(measured, REAL("reward", 0, EV(measured.metric.value)), 0),
    ID("arm", OPTIONAL, EV(measured.arm)),
    FLAG("late", OPTIONAL, EV(measured.is_late)),
    DECISION_ID("id", OPTIONAL, EV(measured.id)),
    ID("event", OPTIONAL, EV(measured.event)),
    TIME("happened_at", OPTIONAL, EV(measured.happened_at_ms)),
};

static_assert(EV(late.decision) == EV(rewarded.decision) && EV(late.arm) == EV(rewarded.arm) &&
                  EV(late.reward) == EV(rewarded.reward) && EV(late.id) == EV(rewarded.id) &&
                  EV(late.event) == EV(rewarded.event) && EV(late.happened_at_ms) == EV(rewarded.happened_at_ms),
              "one table for both");

/* The model does not use the propensity; offline estimators do. */
static const struct ld_row observed[] = {
    HEAD,
    ID("user", 0, EV(observed.user)),
    CONTEXT(EV(observed.context)),
    ID("arm", 0, EV(observed.arm.arm)),
    FEATURES_OR_NULL(0, EV(observed.arm.features)),
    REAL("reward", 0, EV(observed.reward)),
    PROBABILITY("propensity", OPTIONAL, EV(observed.propensity)),
    DECISION_ID("id", OPTIONAL, EV(observed.id)),
};

/* A reward is there only when the tenant had a default one to learn when the window closed. */
static const struct ld_row expired[] = {
    HEAD,
    DECISION_ID("decision", 0, EV(expired.decision)),
    REAL_OR_NOT("reward", EV(expired.reward), EV(expired.has_reward)),
};

/* Nothing but the id: what is activated stands in the decided event. */
static const struct ld_row activated[] = {HEAD, DECISION_ID("decision", 0, EV(activated.decision))};

const struct ld_event_rows ld_event_decided = {LD_ROWS(decided), open_decided, close_decided};
const struct ld_event_rows ld_event_rewarded = {LD_ROWS(rewarded), NULL, close_rewarded};
const struct ld_event_rows ld_event_late = {{rewarded, N_LATE}, NULL, NULL};
const struct ld_event_rows ld_event_measured = {LD_ROWS(measured), NULL, NULL};
const struct ld_event_rows ld_event_observed = {LD_ROWS(observed), NULL, NULL};
const struct ld_event_rows ld_event_expired = {LD_ROWS(expired), NULL, NULL};
const struct ld_event_rows ld_event_activated = {LD_ROWS(activated), NULL, NULL};
