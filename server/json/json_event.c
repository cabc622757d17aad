/* A line of the log -> struct kb_event: the inverse of json_out_event.c, for recovery and for logs that come
 * from elsewhere. Hence as strict as with any body: a line that is not exactly what its type says is refused.
 * Features may be null whatever arm_dim is, for an arm of the catalogue; the engine looks them up.
 *
 * Each type has one function, which reads what it has beyond seq, type and at, and one row of the table at the
 * end, which names its members; adding a type is adding both. Faults do not stop a function: it fills the event
 * with what it can, and the caller of ld_decode_event gets -1 and all of them. An event that was refused is not
 * to be looked at.
 *
 * Logs outlive versions: a member that is added to a type later has to be optional here, and one that is there today
 * cannot be taken away. Lines are written in full, so nothing depends on the presets of the version that reads them. */
#include "json/json_in.h"
#include "json/json_util.h"

#include <math.h>

#include "base/ids.h"
#include "json/json_out.h"
#include "json/json_routing.h"

/* Sequence numbers and versions pass through doubles on their way; up to here none is rounded. */
#define MAX_COUNT UINT64_C(9007199254740991) /* 2^53 - 1: what a double counts */

/* Lengths of the vectors that the line may hold: those in force where the line stands in the log. */
struct dims {
    uint32_t context, arm;
};

/* Six of the ten types are about a decision. */
static const char *read_decision(struct ld_in *in, const struct ld_value *o)
{
    return ld_in_id(in, o, "decision", LD_DECISION_MAX_BYTES, true);
}

/* --- one function a type ------------------------------------------------------------------------------ */

/* The settings stand in the document whole, since the server needs back what the engine's spec does not hold; the
 * event points to the spec, their first member. On a fault the spec stays NULL, and the caller of ld_decode_event has
 * been told. */
static void read_configured(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    struct ld_settings *settings = ld_in_alloc(in, 1, sizeof *settings);
    const struct ld_value *v = ld_in_get(in, o, "configuration", true);
    ev->as.configured.version = ld_in_whole(in, o, "version", 1, MAX_COUNT, 1, true);
    if (settings == NULL || v == NULL)
        return;
    size_t mark = ld_in_key(in, "configuration");
    ld_in_settings(in, v, settings);
    ld_in_leave(in, mark);
    ev->as.configured.spec = &settings->spec;
}

/* All three lists must be there, if empty: a line that lost a member must not pass for one that never had it. In the
 * engine's terms this is the same for a PUT and a PATCH, told apart by `replace`. */
static void read_graph(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    ev->as.graph.is_replace = ld_in_bool(in, o, "replace", true, true);
    ev->as.graph.users = ld_in_ids(in, o, "users", SIZE_MAX, &ev->as.graph.n_users, true);
    ev->as.graph.add = ld_in_edges_at(in, o, "add", false, true, &ev->as.graph.n_add);
    ev->as.graph.remove = ld_in_edges_at(in, o, "remove", true, true, &ev->as.graph.n_remove);
}

/* As in the graph: lists are present or the line is refused. Within `put` an arm may stand once, as in a body. */
static void read_arms(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    const struct ld_value *put = ld_in_array(in, o, "put", 0, SIZE_MAX, true);
    ev->as.arms.is_replace = ld_in_bool(in, o, "replace", true, true);
    ev->as.arms.remove = ld_in_ids(in, o, "remove", SIZE_MAX, &ev->as.arms.n_remove, true);
    ev->as.arms.stop = ld_in_ids(in, o, "stop", SIZE_MAX, &ev->as.arms.n_stop, false);
    ev->as.arms.start = ld_in_ids(in, o, "start", SIZE_MAX, &ev->as.arms.n_start, false);
    size_t mark = ld_in_key(in, "put");
    ev->as.arms.put = ld_in_arms(in, put, d.arm, &ev->as.arms.n_put);
    ld_in_leave(in, mark);
}

/* The arms of a slate; the first is the one drawn. A slate of one is not written, and refused here: one decision has
 * one spelling. */
static void read_slate(struct ld_in *in, const struct ld_value *slate, struct dims d, struct kb_ev_slot *slots)
{
    static const char *const names[] = {"arm", "features", NULL};
    size_t mark = ld_in_key(in, "slate");
    for (size_t i = 0; i < ld_n_items(slate); i++) {
        const struct ld_value *v = ld_item_of(slate, i);
        size_t here = ld_in_item(in, slate, i);
        if (ld_in_object(in, v, names)) {
            slots[i].arm = ld_in_id(in, v, "arm", KB_ID_MAX_BYTES, true);
            slots[i].features = ld_in_vector(in, v, "features", d.arm, false);
        }
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
}

/* Ids, or objects where the features were given inline. */
static void read_candidate(struct ld_in *in, const struct ld_value *v, struct dims d, struct kb_ev_slot *out)
{
    static const char *const names[] = {"arm", "features", NULL};
    if (!ld_is(v, LD_V_OBJECT)) {
        out->arm = ld_in_id_value(in, v, KB_ID_MAX_BYTES);
    } else if (ld_in_object(in, v, names)) {
        out->arm = ld_in_id(in, v, "arm", KB_ID_MAX_BYTES, true);
        out->features = ld_in_vector(in, v, "features", d.arm, true);
    }
}

static void read_among(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    const struct ld_value *among = ld_in_array(in, o, "among", 0, SIZE_MAX, false);
    if (among == NULL)
        return;
    const size_t n = ld_n_items(among);
    struct kb_ev_slot *slots = ld_in_alloc(in, n + 1, sizeof *slots); /* not NULL where there are none */
    size_t mark = ld_in_key(in, "among");
    for (size_t i = 0; slots != NULL && i < n; i++) {
        size_t here = ld_in_item(in, among, i);
        read_candidate(in, ld_item_of(among, i), d, &slots[i]);
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
    ev->as.decided.among = slots;
    ev->as.decided.n_among = slots != NULL ? n : 0;
}

/* Slot 0 is given by the line's own `arm` and `features`, also when a slate repeats them. The propensity and mean of
 * the time are kept as told: a fold does not decide again, and could not, since the kernels of another machine round
 * otherwise. */
static void read_decided(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    const struct ld_value *slate = ld_in_array(in, o, "slate", 2, KB_MAX_SLOTS, false);
    size_t n = slate != NULL ? ld_n_items(slate) : 1;
    struct kb_ev_slot *slots = ld_in_alloc(in, n, sizeof *slots);
    ev->as.decided.decision = read_decision(in, o);
    ev->as.decided.user = ld_in_id(in, o, "user", KB_ID_MAX_BYTES, true);
    ev->as.decided.context = ld_in_vector(in, o, "context", d.context, true);
    ev->as.decided.propensity = ld_in_propensity(in, o, "propensity", NAN, true);
    ev->as.decided.mean = ld_in_number(in, o, "mean", NAN, false);
    ev->as.decided.expires_at_ms = ld_in_time(in, o, "expires_at");
    ev->as.decided.is_deferred = ld_in_bool(in, o, "deferred", false, false);
    ev->as.decided.route = ld_in_route(in, o);
    if (ld_member_of(o, "assigned_until") != NULL)
        ev->as.decided.assigned_until_ms = ld_in_time(in, o, "assigned_until");
    ev->as.decided.level = (uint32_t)ld_in_whole(in, o, "level", 1, KB_MAX_LEVEL, 0, false);
    read_among(in, o, d, ev);
    if (slots == NULL)
        return;
    if (slate != NULL)
        read_slate(in, slate, d, slots);
    slots[0].arm = ld_in_id(in, o, "arm", KB_ID_MAX_BYTES, true);
    slots[0].features = ld_in_vector(in, o, "features", d.arm, false);
    ev->as.decided.slots = slots;
    ev->as.decided.n_slots = n;
}

/* `late` has the same members as `rewarded`; what differs is what the engine does with them. */
static void read_rewarded(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    const char *decision = read_decision(in, o), *arm = ld_in_id(in, o, "arm", KB_ID_MAX_BYTES, false);
    double reward = ld_in_number(in, o, "reward", NAN, true);
    if (ev->type == KB_EV_LATE) {
        ev->as.late.decision = decision;
        ev->as.late.arm = arm;
        ev->as.late.reward = reward;
    } else {
        ev->as.rewarded.decision = decision;
        ev->as.rewarded.arm = arm;
        ev->as.rewarded.reward = reward;
    }
}

/* Without a propensity the observation is as good to the model; NaN says that none was told. Features are null in a
 * tenant whose arms have none. */
static void read_observed(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    ev->as.observed.user = ld_in_id(in, o, "user", KB_ID_MAX_BYTES, true);
    ev->as.observed.context = ld_in_vector(in, o, "context", d.context, true);
    ev->as.observed.arm.arm = ld_in_id(in, o, "arm", KB_ID_MAX_BYTES, true);
    ev->as.observed.arm.features = ld_in_vector(in, o, "features", d.arm, false);
    ev->as.observed.reward = ld_in_number(in, o, "reward", NAN, true);
    ev->as.observed.propensity = ld_in_propensity(in, o, "propensity", NAN, false);
    ev->as.observed.id = ld_in_id(in, o, "id", LD_DECISION_MAX_BYTES, false);
}

/* A reward is there only when the tenant had a default one to learn when the window closed. 0 with has_reward false
 * is a window that closed and taught nothing. */
static void read_expired(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    ev->as.expired.decision = read_decision(in, o);
    ev->as.expired.has_reward = ld_member_of(o, "reward") != NULL;
    ev->as.expired.reward = ld_in_number(in, o, "reward", 0, false);
}

/* Nothing but the id: what is activated stands in the decided event. */
static void read_activated(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    ev->as.activated.decision = read_decision(in, o);
}

/* Points name the event that first taught them, so they mean the same in every fold of the log. The probability is
 * that of the point's inclusion, as it was when it was drawn. */
static const struct kb_ev_atom *read_points(struct ld_in *in, const struct ld_value *array, size_t *n)
{
    static const char *const names[] = {"event", "probability", NULL};
    *n = ld_n_items(array);
    struct kb_ev_atom *atoms = *n > 0 ? ld_in_alloc(in, *n, sizeof *atoms) : NULL;
    if (atoms == NULL)
        *n = 0;
    size_t mark = ld_in_key(in, "points");
    for (size_t i = 0; i < *n; i++) {
        const struct ld_value *v = ld_item_of(array, i);
        size_t here = ld_in_item(in, array, i);
        if (ld_in_object(in, v, names)) {
            atoms[i].event = ld_in_whole(in, v, "event", 1, MAX_COUNT, 1, true);
            atoms[i].probability = ld_in_propensity(in, v, "probability", 1, true);
        }
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
    return atoms;
}

/* Any positive finite number: medians of real data are not confined to what a configuration may ask for. `median`
 * never stands in this event: it is the number that the median was at the reset. */
static double read_lengthscale(struct ld_in *in, const struct ld_value *o, const char *key)
{
    double x = ld_in_number(in, o, key, 1, true);
    if (!(x > 0))
        ld_in_fault(in, key, "expected a number > 0");
    return x;
}

/* The other components of the mixture; where they are left out each has what the first has. */
static void read_mixture(struct ld_in *in, const struct ld_value *evidence, struct kb_event *ev)
{
    static const char *const names[] = {"energy", "log_det", NULL};
    for (size_t i = 1; i < KB_N_MIXTURE; i++) {
        ev->as.dictionary.energy[i] = ev->as.dictionary.energy[0];
        ev->as.dictionary.log_det[i] = ev->as.dictionary.log_det[0];
    }
    if (ld_member_of(evidence, "mixture") == NULL)
        return;
    const struct ld_value *others = ld_in_array(in, evidence, "mixture", KB_N_MIXTURE - 1, KB_N_MIXTURE - 1, true);
    const size_t mark = ld_in_key(in, "mixture"), n = ld_n_items(others);
    for (size_t i = 0; i < n && i < KB_N_MIXTURE - 1; i++) {
        const struct ld_value *v = ld_item_of(others, i);
        const size_t here = ld_in_item(in, others, i);
        if (ld_in_object(in, v, names)) {
            ev->as.dictionary.energy[i + 1] = ld_in_number(in, v, "energy", 0, true);
            ev->as.dictionary.log_det[i + 1] = ld_in_number(in, v, "log_det", 0, true);
        }
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
}

/* Left out where nothing is known, as in logs of versions that kept no such sums. */
static void read_evidence(struct ld_in *in, const struct ld_value *o, struct kb_event *ev)
{
    static const char *const names[] = {"square", "energy", "log_det", "mixture", NULL};
    const struct ld_value *evidence = ld_member_of(o, "evidence");
    if (evidence == NULL)
        return;
    size_t mark = ld_in_key(in, "evidence");
    if (ld_in_object(in, evidence, names)) {
        ev->as.dictionary.has_evidence = true;
        ev->as.dictionary.square = ld_in_number(in, evidence, "square", 0, true);
        ev->as.dictionary.energy[0] = ld_in_number(in, evidence, "energy", 0, true);
        ev->as.dictionary.log_det[0] = ld_in_number(in, evidence, "log_det", 0, true);
        read_mixture(in, evidence, ev);
    }
    ld_in_leave(in, mark);
}

/* What a reset puts in force must all be in the line, since nothing of it is drawn or measured again in a fold. A
 * change without `reset` adds its points to the dictionary in force. An unknown representation is a fault of the
 * line, and the value put in its place is never used. */
static void read_dictionary(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    const struct ld_value *points = ld_in_array(in, o, "points", 0, SIZE_MAX, true);
    ev->as.dictionary.is_reset = ld_in_bool(in, o, "reset", false, true);
    ev->as.dictionary.is_begun = ld_in_bool(in, o, "begun", false, false);
    if (ld_member_of(o, "from") != NULL)
        ev->as.dictionary.from = ld_in_whole(in, o, "from", 1, MAX_COUNT, 1, true);
    if (ev->as.dictionary.is_begun && ev->as.dictionary.from > 0)
        ld_in_fault(in, "from", "expected only where something that was begun is done");
    ev->as.dictionary.atoms = read_points(in, points, &ev->as.dictionary.n_atoms);
    if (!ev->as.dictionary.is_reset)
        return;
    const char *name = ld_in_id(in, o, "representation", 32, true);
    int repr = name != NULL ? kb_word_value(&kb_repr_words, name) : -1;
    if (name != NULL && repr < 0)
        ld_in_fault(in, "representation", "unknown representation");
    ev->as.dictionary.repr = repr < 0 ? KB_REPR_EXACT : (enum kb_repr_type)repr;
    ev->as.dictionary.context_lengthscale = read_lengthscale(in, o, "context_lengthscale");
    ev->as.dictionary.arm_lengthscale = read_lengthscale(in, o, "arm_lengthscale");
    read_evidence(in, o, ev);
}

/* Each part has members of its own. */
static void read_summary(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    ld_in_summary(in, o, d.context, d.arm, ev);
}

static void read_redacted(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev)
{
    (void)d;
    ev->as.redacted.dropped = ld_in_id(in, o, "dropped", LD_MAX_DROPPED, false);
}

/* --- the table of types ------------------------------------------------------------------------------- */

/* The members that every line begins with. */
#define COMMON "seq", "type", "at"

/* By type; type 0 is none. Indexed by the number of the type, as stored. The lists end by the NULLs behind them: 20
 * has room for that. */
static const struct row {
    void (*read)(struct ld_in *in, const struct ld_value *o, struct dims d, struct kb_event *ev);
    const char *names[20];
} rows[] = {
    [KB_EV_CONFIGURED] = {read_configured, {COMMON, "version", "configuration"}},
    [KB_EV_GRAPH] = {read_graph, {COMMON, "replace", "users", "add", "remove"}},
    [KB_EV_ARMS] = {read_arms, {COMMON, "replace", "put", "remove", "stop", "start"}},
    [KB_EV_DECIDED] = {read_decided,
                       {COMMON, "decision", "user", "context", "arm", "features", "propensity", "mean", "expires_at",
                        "deferred", "route", "assigned_until", "level", "slate", "among"}},
    [KB_EV_REWARDED] = {read_rewarded, {COMMON, "decision", "reward", "arm"}},
    [KB_EV_OBSERVED] = {read_observed, {COMMON, "user", "context", "arm", "features", "reward", "propensity", "id"}},
    [KB_EV_EXPIRED] = {read_expired, {COMMON, "decision", "reward"}},
    [KB_EV_ACTIVATED] = {read_activated, {COMMON, "decision"}},
    [KB_EV_DICTIONARY] = {read_dictionary,
                          {COMMON, "reset", "begun", "from", "points", "representation", "context_lengthscale",
                           "arm_lengthscale", "evidence"}},
    [KB_EV_LATE] = {read_rewarded, {COMMON, "decision", "reward", "arm"}},
    [KB_EV_SUMMARY] = {read_summary, {NULL}},
    [KB_EV_REDACTED] = {read_redacted, {COMMON, "dropped"}},
};

/* The type comes first, since it says which members may stand beside it. O(length). A line without a known type is
 * refused with that one fault: nothing else in it could be judged. -1 also for a seq of 0 or beyond 2^53 - 1; whether
 * it is the next one is the caller's question. */
int ld_decode_event(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct kb_event *out,
                    struct ld_problem *p)
{
    struct ld_in in;
    struct dims d = {context_dim, arm_dim};
    ld_in_init(&in, doc, p);
    in.is_log = true;
    if (!ld_is(&doc->root, LD_V_OBJECT)) {
        ld_in_fault(&in, NULL, "expected an object");
        return -1;
    }
    const char *name = ld_in_id(&in, &doc->root, "type", 32, true);
    int type = name != NULL ? kb_word_value(&kb_event_words, name) : KB_EV_NONE;
    if (type <= KB_EV_NONE || (size_t)type >= sizeof rows / sizeof *rows || rows[type].read == NULL) {
        if (name != NULL)
            ld_in_fault(&in, "type", "unknown type of event");
        return -1;
    }
    *out = (struct kb_event){.type = (enum kb_event_type)type};
    out->seq = ld_in_whole(&in, &doc->root, "seq", 1, MAX_COUNT, 1, true);
    out->at_ms = ld_in_time(&in, &doc->root, "at");
    if (rows[type].names[0] != NULL)
        (void)ld_in_object(&in, &doc->root, rows[type].names);
    rows[type].read(&in, &doc->root, d, out);
    return ld_in_done(&in);
}
