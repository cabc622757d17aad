/* Lines of the log that a summary consists of: one for each part of what a compacted log had said. Lists of a part are
 * columns of one length, as names would weigh more than points do; numbers of users and arms are judged by the engine,
 * which knows how many there are. */
#include <string.h>

#include "json/json_event_rows.h"

#define PART_HEAD                                                                                                      \
    HEAD,                                                                                                              \
    {                                                                                                                  \
        "part", LD_ROW_WORD, 0, PART(part), .rule = &word, .of = &kb_part_words                                        \
    }

static const struct ld_row a_number = {.kind = LD_ROW_NUMBER, .rule = &number},
                           an_event = {.kind = LD_ROW_COUNT, .rule = &count}, a_real = {.kind = LD_ROW_REAL},
                           a_time = {.kind = LD_ROW_TIME}, a_route = WORD("route", 0, 0, kb_route_words);

static const struct ld_row part_begin[] = {
    PART_HEAD,
    FROM_ONE("version", 0, PART(version)),
    WORD("representation", 0, PART(repr), kb_repr_words),
    LENGTHSCALE("context_lengthscale", PART(context_lengthscale)),
    LENGTHSCALE("arm_lengthscale", PART(arm_lengthscale)),
    OBJECT("scales", LD_ROW_HAS, AT(tuning), AT(has_scales), &ld_scale_rows),
    COLUMN("scale", OPTIONAL | LD_ROW_SETS_N, PART(scale), PART(n_scale), &ld_scale_row),
    SHORT_LIST("tunings", OPTIONAL, PART(tunings), PART(n_tunings), &ld_tunings_list, &up_to_most_tunings),
    BY,
    SETTINGS(PART(spec)),
};

static const struct ld_row part_users[] = {
    PART_HEAD,
    IDS("users", 0, PART(users), PART(n_users)),
    COLUMN("squares", 0, PART(squares), PART(n_users), &a_real),
};

/* [u, v, weight] by users' numbers. */
static void read_link(struct ld_in *in, const struct ld_value *v, void *item)
{
    struct kb_ev_link *out = item;
    uint32_t *ends[] = {&out->u, &out->v};
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != 3) {
        ld_in_fault(in, NULL, "expected [user, user, weight]");
        return;
    }
    for (size_t i = 0; i < 2; i++)
        *ends[i] = (uint32_t)ld_in_count(in, ld_item_of(v, i), &number, 0);
    (void)ld_in_real(in, ld_item_of(v, 2), &real, &out->weight);
}

static const struct ld_row link_rows[] = {
    NUMBER("u", 0, offsetof(struct kb_ev_link, u), &number),
    NUMBER("v", 0, offsetof(struct kb_ev_link, v), &number),
    REAL("weight", 0, offsetof(struct kb_ev_link, weight)),
};
static const struct ld_list links = {LD_ROWS(link_rows), sizeof(struct kb_ev_link), .shape = LD_LIST_TUPLES,
                                     .read_item = read_link};

static const struct ld_row part_graph[] = {
    PART_HEAD,
    COLUMN("nodes", LD_ROW_SETS_N, PART(nodes), PART(n_nodes), &a_number),
    LIST("edges", 0, PART(links), PART(n_links), &links),
};

static const struct ld_row part_points[] = {
    PART_HEAD,
    COLUMN("user", LD_ROW_SETS_N, PART(points.user), PART(points.n), &a_number),
    COLUMN("arm", 0, PART(points.arm), PART(points.n), &a_number),
    COLUMN("level", 0, PART(points.level), PART(points.n), &a_number),
    COLUMN("event", 0, PART(points.event), PART(points.n), &an_event),
    COLUMN("count", 0, PART(points.count), PART(points.n), &a_real),
    COLUMN("sum", 0, PART(points.sum), PART(points.n), &a_real),
    {"x", LD_ROW_COLUMN, 0, PART(points.x), PART(points.n), .of = &a_real, .dim = LD_DIM_POINT},
    COLUMN("halvings", OPTIONAL, PART(points.halvings), PART(points.n), &a_real),
};

static const struct ld_row open_slot_rows[] = {
    ID("arm", 0, offsetof(struct kb_ev_open_slot, arm)),
    ID("id", OPTIONAL, offsetof(struct kb_ev_open_slot, id)),
    NUMBER("level", OPTIONAL, offsetof(struct kb_ev_open_slot, level), &level),
    REAL("importance", OPTIONAL | LD_ROW_OR_ZERO, offsetof(struct kb_ev_open_slot, importance)),
    VECTOR("x", 0, offsetof(struct kb_ev_open_slot, x), LD_DIM_POINT),
    REAL_OR_NOT("reward", offsetof(struct kb_ev_open_slot, reward), offsetof(struct kb_ev_open_slot, has_reward)),
    REAL("halvings", OPTIONAL | LD_ROW_OR_ZERO, offsetof(struct kb_ev_open_slot, halvings)),
    REAL_OR_NOT("model", offsetof(struct kb_ev_open_slot, model), offsetof(struct kb_ev_open_slot, has_model)),
    FLAG("unlearned", OPTIONAL, offsetof(struct kb_ev_open_slot, is_unlearned)),
    FLAG("forgotten", OPTIONAL, offsetof(struct kb_ev_open_slot, is_forgotten)),
};
static const struct ld_list open_slots = {LD_ROWS(open_slot_rows), sizeof(struct kb_ev_open_slot),
                                          .shape = LD_LIST_OBJECTS};

static const struct ld_row open_value_rows[] = {
    {"metric", LD_ROW_TEXT, 0, offsetof(struct kb_ev_open_value, metric), .rule = &ld_metric_name_rule},
    NUMBER("slot", 0, offsetof(struct kb_ev_open_value, slot), &number),
    REAL("value", 0, offsetof(struct kb_ev_open_value, value)),
};
static const struct ld_list open_values = {LD_ROWS(open_value_rows), sizeof(struct kb_ev_open_value),
                                           .shape = LD_LIST_OBJECTS};

static const struct ld_row part_decision[] = {
    PART_HEAD,
    DECISION_ID("decision", 0, PART(decision)),
    ID("user", 0, PART(user)),
    ID("arm", 0, AT(first.arm)), /* as in `decided` */
    TIME("expires_at", 0, PART(expires_at_ms)),
    FLAG("deferred", 0, PART(is_deferred)),
    REAL("importance", OPTIONAL | LD_ROW_OR_ZERO, PART(importance)),
    NUMBER("level", 0, PART(level), &level_or_none),
    WORD("route", OPTIONAL, PART(route), kb_route_words),
    SHORT_LIST("slots", LD_ROW_EARLY, PART(slots), PART(n_slots), &open_slots, &one_slot_or_more),
    SHORT_LIST("values", OPTIONAL, PART(values), PART(n_values), &open_values, &up_to_most_values),
};

#define KNOWN(member) offsetof(struct kb_ev_known_arm, member)
static const struct ld_row known_arm_rows[] = {
    ID("id", 0, KNOWN(id)),
    FEATURES_OR_NULL(0, KNOWN(features)),
    FLAG("in_catalogue", 0, KNOWN(is_in_catalogue)),
    FLAG("active", 0, KNOWN(is_active)),
    FLAG("stopped", OPTIONAL, KNOWN(is_stopped)),
    ELIGIBILITY(KNOWN(eligibility)),
    {"value", LD_ROW_VALUE, OPTIONAL, .at = KNOWN(value)},
    COUNT("decided", KNOWN(decided)),
    COUNT("rewarded", KNOWN(rewarded)),
    REAL("reward_sum", 0, KNOWN(reward_sum)),
    REAL("square_sum", OPTIONAL, KNOWN(square_sum)),
};
static const struct ld_list known_arms = {LD_ROWS(known_arm_rows), sizeof(struct kb_ev_known_arm),
                                          .shape = LD_LIST_OBJECTS};

static const struct ld_row part_arms[] = {
    PART_HEAD,
    LIST("arms", 0, PART(arms), PART(n_arms), &known_arms),
};

static const struct ld_row part_assigned[] = {
    PART_HEAD,
    COLUMN("user", LD_ROW_SETS_N, PART(assigned.user), PART(assigned.n), &a_number),
    COLUMN("arm", 0, PART(assigned.arm), PART(assigned.n), &a_number),
    COLUMN("propensity", 0, PART(assigned.propensity), PART(assigned.n), &a_real),
    COLUMN("route", 0, PART(assigned.route), PART(assigned.n), &a_route),
    COLUMN("until", 0, PART(assigned.until_ms), PART(assigned.n), &a_time),
};

#define ROUTED(member) offsetof(struct kb_route_stats, member)
static const struct ld_row routed_rows[] = {
    COUNT("decided", ROUTED(decided)),         COUNT("repeated", ROUTED(repeated)),
    COUNT("rewarded", ROUTED(rewarded)),       REAL("reward_sum", 0, ROUTED(reward_sum)),
    REAL("square_sum", 0, ROUTED(square_sum)),
};
static const struct ld_rows routed = LD_ROWS(routed_rows);

/* Left out in logs of versions that did not count them. */
static const struct ld_row route_rows[] = {
    OBJECT("policy", OPTIONAL, PART(totals.routes[KB_ROUTE_POLICY]), 0, &routed),
    OBJECT("holdout", OPTIONAL, PART(totals.routes[KB_ROUTE_HOLDOUT]), 0, &routed),
    OBJECT("stopped", OPTIONAL, PART(totals.routes[KB_ROUTE_STOPPED]), 0, &routed),
};
static const struct ld_rows routes = LD_ROWS(route_rows);

static const struct ld_row forgetting_rows[] = {
    FLAG("begun", 0, PART(totals.decay.has_begun)),
    REAL("halvings", 0, PART(totals.decay.base)),
    COUNT("events", PART(totals.decay.steps)),
    TIME("first", 0, PART(totals.decay.first_ms)),
    TIME("latest", 0, PART(totals.decay.last_ms)),
    REAL("observations", 0, PART(totals.n_learned)),
    {"changes", LD_ROW_COUNT, OPTIONAL, PART(totals.decay.n_changes), .rule = &count},
    {"last_change", LD_ROW_COUNT, OPTIONAL, PART(totals.decay.last_change), .rule = &count},
};
static const struct ld_rows forgetting = LD_ROWS(forgetting_rows);

#define SUMS(name, member) REAL(name, 0, PART(totals.sums.member))
static const struct ld_row reward_sums_rows[] = {
    SUMS("lowest", lowest),     SUMS("highest", highest), SUMS("weight", weight),
    SUMS("weighted", weighted), SUMS("square", square),   SUMS("halvings", halvings),
};
static const struct ld_rows reward_sums = LD_ROWS(reward_sums_rows);

static const struct ld_row match_rows[] = {
    COUNT("decisions", PART(totals.compared)),
    REAL("sum", 0, PART(totals.match_sum)),
};
static const struct ld_rows match = LD_ROWS(match_rows);

static const struct ld_row part_end[] = {
    PART_HEAD,
    COUNT("decided", PART(totals.decided)),
    COUNT("rewarded", PART(totals.rewarded)),
    COUNT("observed", PART(totals.observed)),
    COUNT("expired", PART(totals.expired)),
    COUNT("late", PART(totals.late)),
    REAL("reward_sum", 0, PART(totals.reward_sum)),
    REAL("square_sum", 0, PART(totals.square_sum)),
    COUNT("reset_rows", PART(totals.reset_rows)),
    REAL("reset_observations", 0, PART(totals.reset_count)),
    {"unlearned", LD_ROW_COUNT, OPTIONAL, PART(totals.unlearned), .rule = &count},
    OBJECT("match", LD_ROW_HAS, 0, AT(has_match), &match),
    OBJECT("routes", LD_ROW_YOUNG, 0, 0, &routes),
    OBJECT("sums", LD_ROW_HAS, 0, AT(has_sums), &reward_sums),
    OBJECT("forgetting", LD_ROW_HAS, 0, AT(has_forgotten), &forgetting),
};

static void open_summary(struct line *l)
{
    struct kb_ev_summary *part = &l->part;
    bool has_halvings = false;
    *part = *l->ev.as.summary;
    for (size_t i = 0; part->points.halvings != NULL && i < part->points.n; i++)
        has_halvings |= part->points.halvings[i] > 0;
    if (!has_halvings)
        part->points.halvings = NULL;
    if (part->part == KB_PART_DECISION)
        l->first.arm = part->slots[0].arm;
    l->has_forgotten = !kb_decay_is_none(&part->totals.decay);
    l->has_match = part->totals.compared > 0;
    l->has_sums = part->totals.sums.lowest <= part->totals.sums.highest;
    l->has_scales = part->in_force != NULL;
    if (l->has_scales)
        l->tuning = *part->in_force;
}

static void close_summary(struct ld_in *in, struct line *l)
{
    struct kb_ev_summary *part = ld_in_alloc(in, 1, sizeof *part);
    if (part == NULL)
        return;
    *part = l->part;
    if (l->has_scales)
        part->in_force = ld_event_keep_tuning(in, l);
    if (!l->has_sums)
        kb_reward_sums_init(&part->totals.sums);
    l->ev.as.summary = part;
    if (part->part == KB_PART_POINTS && part->points.n == 0)
        ld_in_fault(in, "user", "expected one point or more");
    if (part->part == KB_PART_DECISION && part->n_slots > 0 && part->slots[0].arm != NULL && l->first.arm != NULL &&
        strcmp(part->slots[0].arm, l->first.arm) != 0)
        ld_in_fault(in, "arm", "expected that of the first slot");
}

#define SUMMARY(of)                                                                                                    \
    {                                                                                                                  \
        LD_ROWS(of), open_summary, close_summary                                                                       \
    }
const struct ld_event_rows ld_event_parts[KB_PART_N] = {
    [KB_PART_BEGIN] = SUMMARY(part_begin),       [KB_PART_USERS] = SUMMARY(part_users),
    [KB_PART_GRAPH] = SUMMARY(part_graph),       [KB_PART_POINTS] = SUMMARY(part_points),
    [KB_PART_DECISION] = SUMMARY(part_decision), [KB_PART_ARMS] = SUMMARY(part_arms),
    [KB_PART_ASSIGNED] = SUMMARY(part_assigned), [KB_PART_END] = SUMMARY(part_end),
};
