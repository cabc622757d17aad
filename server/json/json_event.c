/* A line of the log (schema/event.schema.json) <-> struct kb_event, in both directions by one table a type: recovery,
 * imports and folds read what the tenant's writer has written once. A line holds all that the event does, doubles bit
 * for bit, so that a model can be folded from lines alone.
 *
 *   {"seq":7,"type":"rewarded","at":"2026-11-21T10:00:00.123Z","decision":"d1","reward":1}
 *
 * Members are written in the order of the rows; seq, type and at come first, so that a person can read a log by its
 * left edge. What a type may have and an event has not is left out (`arm` of a reward); what a type always has is
 * always there, empty lists included, so that readers in other languages need no defaults.
 *
 * Lines are read as strictly as any body: one that is not exactly what its type says is refused, since a line that
 * lost a member must not pass for one that never had it. Logs outlive versions: a member that is added to a type later
 * is LD_ROW_OPTIONAL or LD_ROW_YOUNG, and one that is there today cannot be taken away. Presets of the version that
 * reads play no part, since lines are written in full.
 *
 * Lists of a summary's part are columns of one length, as names would weigh more than points do; numbers of users and
 * arms are judged by the engine, which knows how many there are. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "json/json_rows.h"

#define MAX_COUNT 9007199254740991.0 /* 2^53 - 1: what a double counts */

/* Sums of the evidence over one component of the mixture. */
struct sums {
    double energy, log_det;
};

/* What the rows fill and write: an event, and what stands elsewhere in it than in its line. */
struct line {
    struct kb_event ev;
    struct kb_ev_summary part;
    struct kb_ev_slot first; /* `arm` and `features` of a decision: those of its first slot */
    const struct kb_ev_slot *slate;
    const struct sums *mixture; /* NULL: each component has what the first has */
    size_t n_slate, n_draws, n_mixture;
    struct sums other[KB_N_MIXTURE - 1];
    struct kb_tuning tuning; /* of a refit; or the scales in force at the beginning of a summary */
    bool has_scales, has_forgotten, has_sums, has_match;
};

#define AT(member) offsetof(struct line, member)
#define EV(member) offsetof(struct line, ev.as.member)
#define PART(member) offsetof(struct line, part.member)
#define OPTIONAL LD_ROW_OPTIONAL

static const struct ld_rule any = {.lo = 0, .hi = INFINITY}, real = {.lo = -INFINITY, .hi = INFINITY},
                            positive = {.lo = 0, .hi = INFINITY, .is_lo_open = true},
                            probability = {.lo = 0, .hi = 1, .is_lo_open = true},
                            number = {.lo = 0, .hi = UINT32_MAX - 1}, count = {.lo = 0, .hi = MAX_COUNT},
                            one_or_more = {.lo = 1, .hi = MAX_COUNT}, level = {.lo = 1, .hi = KB_MAX_LEVEL},
                            candidates = {.lo = 1, .hi = INT32_MAX}, share = {.lo = 0, .hi = 1},
                            level_or_none = {.lo = 0, .hi = KB_MAX_LEVEL}, word = {.lo = 1, .hi = 32},
                            dropped_text = {.lo = 1, .hi = LD_MAX_DROPPED},
                            up_to_most_tunings = {.lo = 0, .hi = KB_MOST_TUNINGS},
                            up_to_most_values = {.lo = 1, .hi = KB_MOST_VALUES},
                            up_to_most_odds = {.lo = 1, .hi = KB_MOST_ODDS},
                            one_slot_or_more = {.lo = 1, .hi = KB_MAX_SLOTS},
                            two_slots_or_more = {.lo = 2, .hi = KB_MAX_SLOTS},
                            up_to_most_slots = {.lo = 1, .hi = KB_MAX_SLOTS},
                            other_components = {.lo = KB_N_MIXTURE - 1, .hi = KB_N_MIXTURE - 1};

/* clang-format off */
#define ID(name, how, at) {name, LD_ROW_TEXT, how, at, .rule = &ld_id_rule}
#define DECISION_ID(name, how, at) {name, LD_ROW_TEXT, how, at, .rule = &ld_decision_id_rule}
#define REAL(name, how, at) {name, LD_ROW_REAL, how, at, .rule = &real}
#define REAL_OR_NOT(name, at, flag) {name, LD_ROW_REAL, LD_ROW_HAS, at, flag, .rule = &real}
#define LENGTHSCALE(name, at) {name, LD_ROW_REAL, 0, at, .rule = &positive}
#define PROBABILITY(name, how, at) {name, LD_ROW_REAL, how, at, .rule = &probability}
#define COUNT(name, at) {name, LD_ROW_COUNT, 0, at, .rule = &count}
#define FROM_ONE(name, how, at) {name, LD_ROW_COUNT, how, at, .rule = &one_or_more}
#define NUMBER(name, how, at, bounds) {name, LD_ROW_NUMBER, how, at, .rule = bounds}
#define FLAG(name, how, where) {name, LD_ROW_FLAG, how, .at = where}
#define TIME(name, how, where) {name, LD_ROW_TIME, how, .at = where}
#define WORD(name, how, at, words) {name, LD_ROW_WORD, how, at, .rule = &word, .of = &words}
#define VECTOR(name, how, at, dims) {name, LD_ROW_VECTOR, how, at, .dim = dims}
#define CONTEXT(at) VECTOR("context", 0, at, LD_DIM_CONTEXT)
#define FEATURES(how, at) VECTOR("features", how, at, LD_DIM_ARM)
#define FEATURES_OR_NULL(how, at) FEATURES(LD_ROW_YOUNG | LD_ROW_OR_NULL | (how), at)
#define IDS(name, how, at, n) {name, LD_ROW_TEXTS, how, at, n, .rule = &any}
#define LIST(name, how, at, n, list) {name, LD_ROW_LIST, how, at, n, .rule = &any, .of = list}
#define SHORT_LIST(name, how, at, n, list, bounds) {name, LD_ROW_LIST, how, at, n, .rule = bounds, .of = list}
#define OBJECT(name, how, at, flag, rows) {name, LD_ROW_OBJECT, how, at, flag, .of = rows}
#define COLUMN(name, how, at, n, item) {name, LD_ROW_COLUMN, how, at, n, .of = item}
#define ELIGIBILITY(where) {"eligibility", LD_ROW_ELIGIBILITY, OPTIONAL, .at = where}
#define SETTINGS(where) {"configuration", LD_ROW_SETTINGS, .at = where}
#define BY ID("by", OPTIONAL, AT(ev.by)) /* who has asked for the change */
#define IGNORED(name) {name, LD_ROW_IGNORED, .how = OPTIONAL}
/* clang-format on */

/* What every line begins with. Number and time are known in the writer's turn only. */
#define N_HEAD 3
#define HEAD FROM_ONE("seq", 0, AT(ev.seq)), WORD("type", 0, AT(ev.type), kb_event_words), TIME("at", 0, AT(ev.at_ms))

/* --- configured ---------------------------------------------------------------------------------------- */

/* In full: presets may change between versions, a log may not. `version` counts configurations. */
static const struct ld_row configured[] = {
    HEAD,
    FROM_ONE("version", 0, EV(configured.version)),
    SETTINGS(EV(configured.spec)),
    BY,
};

/* --- graph --------------------------------------------------------------------------------------------- */

static const struct ld_row graph[] = {
    HEAD,
    FLAG("replace", 0, EV(graph.is_replace)),
    IDS("users", 0, EV(graph.users), EV(graph.n_users)),
    LIST("add", 0, EV(graph.add), EV(graph.n_add), &ld_edges_list),
    LIST("remove", 0, EV(graph.remove), EV(graph.n_remove), &ld_pairs_list),
    BY,
};

/* --- arms ---------------------------------------------------------------------------------------------- */

static const struct ld_row arms[] = {
    HEAD,
    FLAG("replace", 0, EV(arms.is_replace)),
    LIST("put", 0, EV(arms.put), EV(arms.n_put), &ld_arms_list),
    IDS("remove", 0, EV(arms.remove), EV(arms.n_remove)),
    IDS("stop", OPTIONAL, EV(arms.stop), EV(arms.n_stop)),
    IDS("start", OPTIONAL, EV(arms.start), EV(arms.n_start)),
    BY,
};

/* --- decided ------------------------------------------------------------------------------------------- */

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
static const struct ld_list slate = {LD_ROWS(slot_rows), sizeof(struct kb_ev_slot), LD_LIST_OBJECTS, NULL};
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
static const struct ld_list draws = {LD_ROWS(draw_rows), sizeof(struct kb_ev_draw), LD_LIST_OBJECTS, NULL};
/* An id for each candidate, or with its features where they were given inline. */
static const struct ld_list among = {LD_ROWS(candidate_rows), sizeof(struct kb_ev_slot), LD_LIST_SHORT, NULL};

/* [arm, propensity] of what could be drawn. */
static void read_odds(struct ld_in *in, const struct ld_value *v, struct kb_ev_odds *out)
{
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != 2) {
        ld_in_fault(in, NULL, "expected [arm, propensity]");
        return;
    }
    out->arm = ld_in_text(in, ld_item_of(v, 0), &ld_id_rule);
    (void)ld_in_real(in, ld_item_of(v, 1), &probability, &out->propensity);
}

static const void *read_all_odds(struct ld_in *in, const struct ld_value *v, size_t *n)
{
    struct kb_ev_odds *odds = ld_in_alloc(in, ld_n_items(v), sizeof *odds);
    for (; odds != NULL && *n < ld_n_items(v); (*n)++) {
        const size_t here = ld_in_item(in, v, *n);
        read_odds(in, ld_item_of(v, *n), &odds[*n]);
        ld_in_leave(in, here);
    }
    return odds;
}

static const struct ld_row odds_rows[] = {
    ID("arm", 0, offsetof(struct kb_ev_odds, arm)),
    PROBABILITY("propensity", 0, offsetof(struct kb_ev_odds, propensity)),
};
static const struct ld_list odds = {LD_ROWS(odds_rows), sizeof(struct kb_ev_odds), LD_LIST_TUPLES, read_all_odds};

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

static const struct ld_row redacted[] = {
    HEAD,
    {"dropped", LD_ROW_TEXT, OPTIONAL, EV(redacted.dropped), .rule = &dropped_text},
    BY,
};

/* Learning starts anew; what stands before it stays in the log. */
static const struct ld_row forgotten[] = {HEAD, BY};

/* An arm earns less than it did; `left` of what was learned so far counts on. */
static const struct ld_row changed[] = {HEAD, ID("arm", 0, EV(changed.arm)), REAL("left", 0, EV(changed.left))};

/* --- dictionary ---------------------------------------------------------------------------------------- */

static const struct ld_row sums_rows[] = {
    REAL("energy", 0, offsetof(struct sums, energy)),
    REAL("log_det", 0, offsetof(struct sums, log_det)),
};
static const struct ld_list mixture = {LD_ROWS(sums_rows), sizeof(struct sums), LD_LIST_OBJECTS, NULL};

static const struct ld_row evidence_rows[] = {
    REAL("square", 0, EV(dictionary.square)),
    REAL("energy", 0, EV(dictionary.energy)),
    REAL("log_det", 0, EV(dictionary.log_det)),
    SHORT_LIST("mixture", OPTIONAL, AT(mixture), AT(n_mixture), &mixture, &other_components),
};
static const struct ld_rows evidence = LD_ROWS(evidence_rows);

/* A point names the event that first taught it, so it means the same in every fold of the log, and its probability of
 * inclusion as it was when it was drawn. */
static const struct ld_row point_rows[] = {
    FROM_ONE("event", 0, offsetof(struct kb_ev_atom, event)),
    PROBABILITY("probability", 0, offsetof(struct kb_ev_atom, probability)),
};
static const struct ld_list points = {LD_ROWS(point_rows), sizeof(struct kb_ev_atom), LD_LIST_OBJECTS, NULL};

#define DICTIONARY                                                                                                     \
    HEAD, FLAG("reset", 0, EV(dictionary.is_reset)), FLAG("begun", OPTIONAL, EV(dictionary.is_begun)),                 \
        FLAG("refit", OPTIONAL, EV(dictionary.is_refit)), FROM_ONE("from", OPTIONAL, EV(dictionary.from))
#define POINTS LIST("points", LD_ROW_EARLY, EV(dictionary.atoms), EV(dictionary.n_atoms), &points)

/* Scales, in force or as a refit has found them (spec/tuning.h). */
#define TUNING(member) offsetof(struct kb_tuning, member)
static const struct ld_row tuning_rows[] = {
    REAL("mean", 0, TUNING(prior.mean)),
    REAL("noise", 0, TUNING(noise)),
    REAL("arm", 0, TUNING(prior.arm)),
    REAL("feature", 0, TUNING(prior.feature)),
    REAL("user", 0, TUNING(prior.user)),
    REAL("context", 0, TUNING(prior.context)),
    REAL("linear", 0, TUNING(prior.linear)),
    REAL("lengthscale", 0, TUNING(lengthscale)),
    REAL("rho", 0, TUNING(rho)),
    REAL("rewards", 0, TUNING(rewards)),
    REAL("range", 0, TUNING(range)),
    REAL("evidence_before", 0, TUNING(before)),
    REAL("evidence_after", 0, TUNING(after)),
    COUNT("event", TUNING(event)),
};
static const struct ld_row a_scale = {.kind = LD_ROW_REAL, .rule = &positive}; /* of a coordinate of contexts */
static const struct ld_rows tuning = LD_ROWS(tuning_rows), scales = {tuning_rows, 9};
static const struct ld_list tunings = {LD_ROWS(tuning_rows), sizeof(struct kb_tuning), LD_LIST_OBJECTS, NULL};

void ld_text_tuning(struct ld_text *t, const struct kb_tuning *of, bool is_found)
{
    const struct ld_out out = {t, {1, 0, 0, 0}, NULL};
    ld_text_raw(t, "{", 1);
    ld_text_rows(&out, &tuning, 0, is_found ? tuning.n : scales.n, of);
    ld_text_raw(t, "}", 1);
}

/* What a reset puts in force must all be in the line, since nothing of it is drawn or measured again in a fold, and
 * comes before the points, of which there may be thousands. Lengthscales are any positive numbers: medians of real data
 * are not confined to what a configuration may ask for. */
static const struct ld_row reset[] = {
    DICTIONARY,
    WORD("representation", 0, EV(dictionary.repr), kb_repr_words),
    LENGTHSCALE("context_lengthscale", EV(dictionary.context_lengthscale)),
    LENGTHSCALE("arm_lengthscale", EV(dictionary.arm_lengthscale)),
    OBJECT("evidence", LD_ROW_HAS, 0, EV(dictionary.has_evidence), &evidence),
    BY,
    POINTS,
};
/* A reset under scales that the model has found. */
static const struct ld_row tuned[] = {
    HEAD,
    OBJECT("scales", 0, AT(tuning), 0, &tuning),
    COLUMN("scale", OPTIONAL | LD_ROW_SETS_N, EV(dictionary.scale), EV(dictionary.n_scale), &a_scale),
    FROM_ONE("from", OPTIONAL, EV(dictionary.from)),
    WORD("representation", 0, EV(dictionary.repr), kb_repr_words),
    LENGTHSCALE("context_lengthscale", EV(dictionary.context_lengthscale)),
    LENGTHSCALE("arm_lengthscale", EV(dictionary.arm_lengthscale)),
    OBJECT("evidence", LD_ROW_HAS, 0, EV(dictionary.has_evidence), &evidence),
    BY,
    POINTS,
};
/* Adds its points to the dictionary in force, and changes nothing else. */
static const struct ld_row admission[] = {
    DICTIONARY,
    IGNORED("representation"),
    IGNORED("context_lengthscale"),
    IGNORED("arm_lengthscale"),
    IGNORED("evidence"),
    POINTS,
};

/* The other components of a mixture stand there only where they differ from the first. */
static void open_dictionary(struct line *l)
{
    const double *energy = l->ev.as.dictionary.energy, *log_det = l->ev.as.dictionary.log_det;
    l->ev.as.dictionary.has_evidence &= l->ev.as.dictionary.is_reset && !l->ev.as.dictionary.is_begun;
    l->n_mixture = KB_N_MIXTURE - 1;
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        l->other[i - 1] = (struct sums){energy[i], log_det[i]};
        if (energy[i] != energy[0] || log_det[i] != log_det[0])
            l->mixture = l->other;
    }
}

static void close_dictionary(struct ld_in *in, struct line *l)
{
    double *energy = l->ev.as.dictionary.energy, *log_det = l->ev.as.dictionary.log_det;
    if (l->ev.as.dictionary.is_begun && l->ev.as.dictionary.from > 0)
        ld_in_fault(in, "from", "expected only where something that was begun is done");
    if (l->ev.as.dictionary.is_refit && !(l->ev.as.dictionary.is_reset && l->ev.as.dictionary.is_begun))
        ld_in_fault(in, "refit", "expected only where a reset begins");
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        energy[i] = l->mixture != NULL ? l->mixture[i - 1].energy : energy[0];
        log_det[i] = l->mixture != NULL ? l->mixture[i - 1].log_det : log_det[0];
    }
}

static void open_tuned(struct line *l)
{
    l->tuning = *l->ev.as.dictionary.tuning;
    open_dictionary(l);
}

static const struct kb_tuning *keep_tuning(struct ld_in *in, const struct line *l)
{
    struct kb_tuning *kept = ld_in_alloc(in, 1, sizeof *kept);
    if (kept != NULL)
        *kept = l->tuning;
    return kept;
}

static void close_tuned(struct ld_in *in, struct line *l)
{
    l->ev.as.dictionary.is_reset = true;
    l->ev.as.dictionary.tuning = keep_tuning(in, l);
    close_dictionary(in, l);
}

/* --- parts of a summary -------------------------------------------------------------------------------- */

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
    OBJECT("scales", LD_ROW_HAS, AT(tuning), AT(has_scales), &scales),
    COLUMN("scale", OPTIONAL | LD_ROW_SETS_N, PART(scale), PART(n_scale), &a_scale),
    SHORT_LIST("tunings", OPTIONAL, PART(tunings), PART(n_tunings), &tunings, &up_to_most_tunings),
    BY,
    SETTINGS(PART(spec)),
};

static const struct ld_row part_users[] = {
    PART_HEAD,
    IDS("users", 0, PART(users), PART(n_users)),
    COLUMN("squares", 0, PART(squares), PART(n_users), &a_real),
};

/* [u, v, weight] by users' numbers. */
static void read_link(struct ld_in *in, const struct ld_value *v, struct kb_ev_link *out)
{
    uint32_t *ends[] = {&out->u, &out->v};
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != 3) {
        ld_in_fault(in, NULL, "expected [user, user, weight]");
        return;
    }
    for (size_t i = 0; i < 2; i++)
        *ends[i] = (uint32_t)ld_in_count(in, ld_item_of(v, i), &number, 0);
    (void)ld_in_real(in, ld_item_of(v, 2), &real, &out->weight);
}

static const void *read_links(struct ld_in *in, const struct ld_value *v, size_t *n)
{
    struct kb_ev_link *links = ld_in_alloc(in, ld_n_items(v), sizeof *links);
    for (; links != NULL && *n < ld_n_items(v); (*n)++) {
        const size_t here = ld_in_item(in, v, *n);
        read_link(in, ld_item_of(v, *n), &links[*n]);
        ld_in_leave(in, here);
    }
    return links;
}

static const struct ld_row link_rows[] = {
    NUMBER("u", 0, offsetof(struct kb_ev_link, u), &number),
    NUMBER("v", 0, offsetof(struct kb_ev_link, v), &number),
    REAL("weight", 0, offsetof(struct kb_ev_link, weight)),
};
static const struct ld_list links = {LD_ROWS(link_rows), sizeof(struct kb_ev_link), LD_LIST_TUPLES, read_links};

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
static const struct ld_list open_slots = {LD_ROWS(open_slot_rows), sizeof(struct kb_ev_open_slot), LD_LIST_OBJECTS,
                                          NULL};

static const struct ld_row open_value_rows[] = {
    {"metric", LD_ROW_TEXT, 0, offsetof(struct kb_ev_open_value, metric), .rule = &ld_metric_name_rule},
    NUMBER("slot", 0, offsetof(struct kb_ev_open_value, slot), &number),
    REAL("value", 0, offsetof(struct kb_ev_open_value, value)),
};
static const struct ld_list open_values = {LD_ROWS(open_value_rows), sizeof(struct kb_ev_open_value), LD_LIST_OBJECTS,
                                           NULL};

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
static const struct ld_list known_arms = {LD_ROWS(known_arm_rows), sizeof(struct kb_ev_known_arm), LD_LIST_OBJECTS,
                                          NULL};

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

static const struct ld_rows parts[KB_PART_N] = {
    [KB_PART_BEGIN] = LD_ROWS(part_begin),       [KB_PART_USERS] = LD_ROWS(part_users),
    [KB_PART_GRAPH] = LD_ROWS(part_graph),       [KB_PART_POINTS] = LD_ROWS(part_points),
    [KB_PART_DECISION] = LD_ROWS(part_decision), [KB_PART_ARMS] = LD_ROWS(part_arms),
    [KB_PART_ASSIGNED] = LD_ROWS(part_assigned), [KB_PART_END] = LD_ROWS(part_end),
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
        part->in_force = keep_tuning(in, l);
    if (!l->has_sums)
        kb_reward_sums_init(&part->totals.sums);
    l->ev.as.summary = part;
    if (part->part == KB_PART_POINTS && part->points.n == 0)
        ld_in_fault(in, "user", "expected one point or more");
    if (part->part == KB_PART_DECISION && part->n_slots > 0 && part->slots[0].arm != NULL && l->first.arm != NULL &&
        strcmp(part->slots[0].arm, l->first.arm) != 0)
        ld_in_fault(in, "arm", "expected that of the first slot");
}

/* --- the table of types -------------------------------------------------------------------------------- */

/* By the number of the type, as stored; type 0 is none. */
static const struct {
    struct ld_rows rows;
    void (*open)(struct line *l);                    /* before it is written */
    void (*close)(struct ld_in *in, struct line *l); /* when it was read */
} types[] = {
    [KB_EV_CONFIGURED] = {LD_ROWS(configured), NULL, NULL},
    [KB_EV_GRAPH] = {LD_ROWS(graph), NULL, NULL},
    [KB_EV_ARMS] = {LD_ROWS(arms), NULL, NULL},
    [KB_EV_DECIDED] = {LD_ROWS(decided), open_decided, close_decided},
    [KB_EV_REWARDED] = {LD_ROWS(rewarded), NULL, close_rewarded},
    [KB_EV_LATE] = {{rewarded, N_LATE}, NULL, NULL},
    [KB_EV_OBSERVED] = {LD_ROWS(observed), NULL, NULL},
    [KB_EV_EXPIRED] = {LD_ROWS(expired), NULL, NULL},
    [KB_EV_ACTIVATED] = {LD_ROWS(activated), NULL, NULL},
    [KB_EV_DICTIONARY] = {LD_ROWS(reset), open_dictionary, close_dictionary},
    [KB_EV_SUMMARY] = {{NULL, 0}, open_summary, close_summary},
    [KB_EV_REDACTED] = {LD_ROWS(redacted), NULL, NULL},
    [KB_EV_TUNED] = {LD_ROWS(tuned), open_tuned, close_tuned},
    [KB_EV_MEASURED] = {LD_ROWS(measured), NULL, NULL},
    [KB_EV_FORGOTTEN] = {LD_ROWS(forgotten), NULL, NULL},
    [KB_EV_CHANGED] = {LD_ROWS(changed), NULL, NULL},
};

/* Those of a type, where a part of a summary, or whether it is a reset, says which. */
static const struct ld_rows *rows_of(enum kb_event_type type, int part, bool is_reset)
{
    static const struct ld_rows of_admission = LD_ROWS(admission);
    if (type == KB_EV_SUMMARY)
        return &parts[part];
    return type == KB_EV_DICTIONARY && !is_reset ? &of_admission : &types[type].rows;
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* A member of the line that says which others it has; -1 when it is no word of the list, which is told. */
static int read_kind(struct ld_in *in, const char *key, const struct kb_words *words, const char *fault)
{
    const struct ld_value *v = ld_member_of(&in->doc->root, key);
    const size_t mark = ld_in_key(in, key);
    const char *name = v != NULL ? ld_in_text(in, v, &word) : NULL;
    const int kind = name != NULL ? kb_word_value(words, name) : -1;
    if (v == NULL || (name != NULL && kind < 0))
        ld_in_fault(in, NULL, "%s", v == NULL ? "required" : fault);
    ld_in_leave(in, mark);
    return kind;
}

/* The type comes first, since it says which members may stand beside it. O(length). A line without a known type is
 * refused with that one fault: nothing else in it could be judged. -1 also for a seq of 0 or beyond 2^53 - 1; whether
 * it is the next one is the caller's question. */
int ld_decode_event(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct kb_event *out,
                    struct ld_problem *p)
{
    struct ld_in in;
    struct line l = {.part = {.n_users = 0}};
    ld_in_init(&in, doc, p);
    in.is_log = true;
    ld_in_set_dims(&in, context_dim, arm_dim);
    if (!ld_is(&doc->root, LD_V_OBJECT)) {
        ld_in_fault(&in, NULL, "expected an object");
        return -1;
    }
    const int type = read_kind(&in, "type", &kb_event_words, "unknown type of event");
    const int part = type == KB_EV_SUMMARY ? read_kind(&in, "part", &kb_part_words, "unknown part of a summary") : 0;
    if (type <= KB_EV_NONE || part < 0)
        return -1;
    const bool is_reset = ld_is(ld_member_of(&doc->root, "reset"), LD_V_TRUE);
    ld_in_rows(&in, &doc->root, rows_of((enum kb_event_type)type, part, is_reset), &l);
    if (types[type].close != NULL)
        types[type].close(&in, &l);
    *out = l.ev;
    return ld_in_done(&in);
}

/* --- writing ------------------------------------------------------------------------------------------- */

/* The members of its rows from..to - 1, or to the last. */
static char *encode(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                    const struct ld_settings *settings, size_t from, size_t to, size_t *n)
{
    struct ld_text t;
    struct line l = {.ev = *ev};
    const struct ld_out out = {&t, {1, context_dim, arm_dim, context_dim + arm_dim}, settings};
    if (types[ev->type].open != NULL)
        types[ev->type].open(&l);
    const struct ld_rows *rows =
        rows_of(ev->type, (int)l.part.part, kb_event_is_dictionary(ev) && ev->as.dictionary.is_reset);
    ld_text_init(&t);
    ld_text_raw(&t, "{", 1);
    ld_text_rows(&out, rows, from, to < rows->n ? to : rows->n, &l);
    if (to >= rows->n)
        ld_text_raw(&t, "}", 1);
    return ld_text_take(&t, n);
}

/* NULL when a number is not finite: the caller refuses the event then, so it is never logged. O(length of the line).
 * Ids in ev must be NUL-terminated UTF-8, as the decoders leave them. */
char *ld_encode_event(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                      const struct ld_settings *settings, size_t *n)
{
    return encode(ev, context_dim, arm_dim, settings, 0, SIZE_MAX, n);
}

char *ld_encode_event_head(const struct kb_event *ev, size_t *n)
{
    return encode(ev, 0, 0, NULL, 0, N_HEAD, n);
}

char *ld_encode_graph_tail(const struct kb_event *ev, size_t *n)
{
    char *text = encode(ev, 0, 0, NULL, N_HEAD, SIZE_MAX, n);
    if (text != NULL)
        *text = ','; /* behind the members of the head */
    return text;
}

void ld_text_arm(struct ld_text *t, const struct kb_ev_arm *arm, uint32_t arm_dim)
{
    const struct ld_out out = {t, {1, 0, arm_dim, 0}, NULL};
    ld_text_raw(t, "{", 1);
    ld_text_rows(&out, &ld_arms_list.rows, 0, ld_arms_list.rows.n, arm);
    ld_text_raw(t, "}", 1);
}
