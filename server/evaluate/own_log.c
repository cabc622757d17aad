/* See own_log.h. A decision that is open is kept in one block of memory: its texts and vectors stand behind it. */
#include "evaluate/own_log.h"

#include <math.h>
#include <search.h>
#include <string.h>

#include "base/alloc.h"

enum { ACTIVE = 1, STOPPED = 2 };

#define ONE_ARM 1.0 /* the propensity of a baseline that is one arm */

struct ld_own_open {
    struct kb_event ev;            /* decided; what it points to stands behind */
    uint32_t context_dim, arm_dim; /* of its vectors: those of the log may be others by its end */
    double reward;                 /* so far */
    bool has_reward;
    bool is_deferred; /* and not activated: nobody was shown it */
    struct ld_own_open *before, *after;
};

/* --- open decisions --------------------------------------------------------------------------------------- */

static const char *id_of(const struct ld_own_open *o)
{
    return o->ev.as.decided.decision;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(id_of(a), id_of(b));
}

static struct ld_own_open *find_open(const struct ld_own_log *s, const char *id)
{
    struct ld_own_open wanted = {.ev.as.decided.decision = id};
    struct ld_own_open *const *found = tfind(&wanted, &s->tree, by_id);

    return found != NULL ? *found : NULL;
}

static void unlink_open(struct ld_own_log *s, struct ld_own_open *o)
{
    tdelete(o, &s->tree, by_id);
    *(o->before != NULL ? &o->before->after : &s->first) = o->after;
    *(o->after != NULL ? &o->after->before : &s->last) = o->before;
}

/* A writer of copies: with `at` NULL it measures. */
struct copy {
    char *at;
    size_t n;
};

static const void *put(struct copy *c, const void *bytes, size_t n)
{
    char *here = c->at;

    if (bytes == NULL)
        return NULL;
    c->n += (n + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    if (c->at == NULL)
        return NULL;
    memcpy(here, bytes, n);
    c->at += (n + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    return here;
}

static void copy_slot(const struct ld_own_log *s, struct copy *c, const struct kb_ev_slot *from, struct kb_ev_slot *to)
{
    to->arm = put(c, from->arm, strlen(from->arm) + 1);
    to->features = put(c, from->features, s->arm_dim * sizeof(double));
}

/* Of a slate the first slot alone. */
static void copy_decided(const struct ld_own_log *s, struct copy *c, const struct kb_event *from, struct kb_event *to)
{
    const size_t n = from->as.decided.n_among;
    struct kb_ev_slot slot = from->as.decided.slots[0], other;

    *to = *from;
    to->by = NULL;
    to->as.decided.decision = put(c, from->as.decided.decision, strlen(from->as.decided.decision) + 1);
    to->as.decided.user = put(c, from->as.decided.user, strlen(from->as.decided.user) + 1);
    to->as.decided.context = put(c, from->as.decided.context, s->context_dim * sizeof(double));
    copy_slot(s, c, from->as.decided.slots, &slot);
    to->as.decided.slots = put(c, &slot, sizeof slot);
    to->as.decided.n_slots = 1;
    to->as.decided.odds = NULL;
    if (from->as.decided.among == NULL)
        return;
    struct kb_ev_slot *among = (struct kb_ev_slot *)(uintptr_t)put(c, from->as.decided.among, n * sizeof *among);
    to->as.decided.among = among;
    for (size_t i = 0; i < n; i++)
        copy_slot(s, c, &from->as.decided.among[i], among != NULL ? &among[i] : &other);
}

static int begin_decision(struct ld_own_log *s, const struct kb_event *ev)
{
    struct copy size = {NULL, 0};
    struct kb_event measured;

    if (find_open(s, ev->as.decided.decision) != NULL)
        return ld_decisions_fail(s->d, "decision", "\"%.60s\" stands twice", ev->as.decided.decision);
    copy_decided(s, &size, ev, &measured);
    struct ld_own_open *o = kb_array(1, 1, sizeof *o + size.n);
    if (o == NULL)
        return ld_decisions_no_memory(s->d);
    struct copy c = {(char *)(o + 1), 0};
    copy_decided(s, &c, ev, &o->ev);
    o->context_dim = s->context_dim;
    o->arm_dim = s->arm_dim;
    o->is_deferred = ev->as.decided.is_deferred;
    if (tsearch(o, &s->tree, by_id) == NULL) {
        kb_free(o);
        return ld_decisions_no_memory(s->d);
    }
    o->before = s->last;
    *(s->last != NULL ? &s->last->after : &s->first) = o;
    s->last = o;
    return 0;
}

/* --- what a decision comes to ------------------------------------------------------------------------------ */

void ld_own_log_next(struct ld_own_log *s)
{
    if (s->is_lent)
        ld_decisions_offer(s->d, s->lent, false);
    s->is_lent = false;
    kb_free(s->ended);
    s->ended = NULL;
}

/* An arm that the catalogue does not have at the moment was a candidate all the same: it was shown. */
void ld_own_log_candidates(struct ld_own_log *s, uint32_t arm, struct ld_logged *out)
{
    s->is_lent = s->has_catalogue && !s->d->is_offered[arm];
    s->lent = arm;
    ld_decisions_candidates(s->d, arm, out);
}

/* The arm's number, and its vector where it is told. KB_ID_NONE with why. */
static uint32_t read_arm(struct ld_own_log *s, uint32_t dim, const char *id, const double *features)
{
    struct ld_decisions *d = s->d;
    const uint32_t arm = ld_decisions_arm(d, id);

    if (arm == KB_ID_NONE || features == NULL || dim == 0 || d->o.arm_dim == 0)
        return arm;
    if (dim != d->o.arm_dim) {
        (void)ld_decisions_fail(d, "features", "%u numbers, where the configuration has %u", dim, d->o.arm_dim);
        return KB_ID_NONE;
    }
    memcpy(ld_decisions_arm_features(d, arm), features, d->o.arm_dim * sizeof *features);
    return arm;
}

static int read_context(struct ld_own_log *s, uint32_t dim, const double *context, struct ld_logged *out)
{
    struct ld_decisions *d = s->d;

    if (d->o.context_dim == 0)
        return 0;
    if (dim != d->o.context_dim || context == NULL)
        return ld_decisions_fail(d, "context", "%u numbers, where the configuration has %u", dim, d->o.context_dim);
    memcpy(d->context, context, d->o.context_dim * sizeof *context);
    out->context = d->context;
    return 0;
}

/* Candidates that a line names: their features are those that it tells, copied, as the next line may tell others. */
static int read_among(struct ld_own_log *s, const struct ld_own_open *o, uint32_t chosen, struct ld_logged *out)
{
    struct ld_decisions *d = s->d;
    const struct kb_ev_slot *among = o->ev.as.decided.among;
    const size_t dim = d->o.arm_dim, n = o->ev.as.decided.n_among;

    if (ld_decisions_name(d, n, out) != 0)
        return LD_DECISIONS_BROKEN;
    out->chosen = n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = read_arm(s, o->arm_dim, among[i].arm, among[i].features);
        if (arm == KB_ID_NONE)
            return -1;
        const size_t k = ld_decisions_name_arm(d, i, arm);
        if (k < i)
            return ld_decisions_fail(d, "candidates", "%zu and %zu are the same arm", k + 1, i + 1);
        if (arm == chosen)
            out->chosen = i;
        if (dim > 0)
            memcpy(d->vectors + i * dim, d->features[arm], dim * sizeof(double));
    }
    return out->chosen < n ? 1 : ld_decisions_fail(d, "candidates", "the arm chosen is not among them");
}

/* Why a decision is no draw that estimators may weigh; NULL: it is one. A baseline that is one arm shows nothing of the
 * others to the users who have it, and these users are a share of all by chance: without them the rest is a sample. */
static const char *why_no_draw(const struct kb_event *decided)
{
    if (decided->as.decided.route == KB_ROUTE_POLICY)
        return NULL;
    if (decided->as.decided.route == KB_ROUTE_STICKY)
        return "repeats of an arm that stuck to its user";
    return decided->as.decided.propensity >= ONE_ARM ? "decisions of a baseline that is one arm" : NULL;
}

/* Why there is nothing to be made of a decision that has come to its end; NULL: there is. */
static const char *why_passed(const struct ld_own_log *s, const struct ld_own_open *o)
{
    const bool is_told = o->has_reward || (!isnan(s->d->o.default_reward) && !o->is_deferred);
    const char *why = is_told && s->d->o.draws_only ? why_no_draw(&o->ev) : NULL;

    return is_told ? why : "decisions without a reward";
}

/* The decision o with its reward: 1 with *out, 0 when there is none to be made of it, -1. o is the one in hand then. */
static int end_decision(struct ld_own_log *s, struct ld_own_open *o, struct ld_logged *out)
{
    const struct kb_event *ev = &o->ev;
    const char *passed = why_passed(s, o);
    struct ld_decisions *d = s->d;

    unlink_open(s, o);
    s->ended = o;
    if (passed != NULL) {
        ld_decisions_skip(d, passed);
        return 0;
    }
    out->reward = o->has_reward ? o->reward : d->o.default_reward;
    out->id = ev->as.decided.decision;
    out->user = ev->as.decided.user;
    out->at_ms = ev->at_ms;
    out->propensity = ev->as.decided.propensity;
    const uint32_t arm = read_arm(s, o->arm_dim, ev->as.decided.slots[0].arm, ev->as.decided.slots[0].features);
    if (arm == KB_ID_NONE || read_context(s, o->context_dim, ev->as.decided.context, out) != 0 ||
        ld_decisions_check(d, out) != 0)
        return -1;
    if (ev->as.decided.among != NULL && ev->as.decided.n_among == 0) {
        ld_decisions_skip(d, "decisions whose candidates are not known");
        return 0;
    }
    if (ev->as.decided.among != NULL)
        return read_among(s, o, arm, out);
    ld_own_log_candidates(s, arm, out);
    return 1;
}

/* --- rewards ----------------------------------------------------------------------------------------------- */

/* arm NULL, or of the arm drawn: the others of a slate have no propensity. Where there are metrics every window has its
 * line, also of decisions that have had their reward. */
static int reward(struct ld_own_log *s, const char *id, const char *arm, double v, bool is_end, struct ld_logged *out)
{
    struct ld_own_open *o = find_open(s, id);

    if (o == NULL && is_end && s->has_metrics)
        return 0;
    if (o == NULL || (arm != NULL && strcmp(arm, o->ev.as.decided.slots[0].arm) != 0)) {
        ld_decisions_skip(s->d,
                          o == NULL ? "rewards of decisions that are not open" : "rewards of other arms of a slate");
        return 0;
    }
    if (!isnan(v) && !(is_end && o->has_reward)) {
        o->reward = s->is_sum ? o->reward + v : v;
        o->has_reward = true;
    }
    return is_end || !s->is_held ? end_decision(s, o, out) : 0;
}

static int observe(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out)
{
    out->user = ev->as.observed.user;
    out->at_ms = ev->at_ms;
    out->propensity = ev->as.observed.propensity;
    out->reward = ev->as.observed.reward;
    out->id = ev->as.observed.id;
    const uint32_t arm = read_arm(s, s->arm_dim, ev->as.observed.arm.arm, ev->as.observed.arm.features);
    if (arm == KB_ID_NONE || read_context(s, s->context_dim, ev->as.observed.context, out) != 0 ||
        ld_decisions_check(s->d, out) != 0)
        return -1;
    ld_own_log_candidates(s, arm, out);
    return 1;
}

/* --- catalogue ---------------------------------------------------------------------------------------------- */

/* Arms that are stopped are no candidates, and are again what they were when they are started. 0, or no memory. */
static int set_flags(struct ld_own_log *s, uint32_t arm, bool is_active, bool is_stopped)
{
    const size_t before = s->cap_flags;

    if (kb_grow((void **)&s->flags, &s->cap_flags, (size_t)arm + 1, 16, 1) != 0)
        return ld_decisions_no_memory(s->d);
    memset(s->flags + before, 0, s->cap_flags - before);
    s->flags[arm] = (unsigned char)((is_active ? ACTIVE : 0) | (is_stopped ? STOPPED : 0));
    ld_decisions_offer(s->d, arm, is_active && !is_stopped);
    return 0;
}

/* Only such as the log has shown. */
static void turn_arms(struct ld_own_log *s, const char *const *ids, size_t n, bool is_stopped)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = kb_ids_find(&s->d->arms, ids[i]);
        if (arm != KB_ID_NONE && arm < s->cap_flags)
            (void)set_flags(s, arm, (s->flags[arm] & ACTIVE) != 0, is_stopped); /* it has its place */
    }
}

static int put_arm(struct ld_own_log *s, const struct kb_ev_arm *a)
{
    const uint32_t arm = read_arm(s, s->arm_dim, a->id, a->features);

    return arm != KB_ID_NONE ? set_flags(s, arm, a->is_active, a->is_stopped) : -1;
}

static void begin_catalogue(struct ld_own_log *s, bool is_replace)
{
    for (uint32_t i = 0; (!s->has_catalogue || is_replace) && i < s->d->arms.n; i++)
        ld_decisions_offer(s->d, i, false);
    s->has_catalogue = true;
}

static int change_catalogue(struct ld_own_log *s, const struct kb_event *ev)
{
    int rc = 0;

    begin_catalogue(s, ev->as.arms.is_replace);
    for (size_t i = 0; i < ev->as.arms.n_remove; i++) {
        const uint32_t arm = kb_ids_find(&s->d->arms, ev->as.arms.remove[i]);
        if (arm != KB_ID_NONE)
            ld_decisions_offer(s->d, arm, false);
    }
    turn_arms(s, ev->as.arms.stop, ev->as.arms.n_stop, true);
    turn_arms(s, ev->as.arms.start, ev->as.arms.n_start, false);
    for (size_t i = 0; rc == 0 && i < ev->as.arms.n_put; i++)
        rc = put_arm(s, &ev->as.arms.put[i]);
    return rc;
}

static int read_summary(struct ld_own_log *s, const struct kb_ev_summary *part)
{
    int rc = 0;

    if (part->part != KB_PART_ARMS)
        return 0;
    begin_catalogue(s, false);
    for (size_t i = 0; rc == 0 && i < part->n_arms; i++) {
        const struct kb_ev_known_arm *known = &part->arms[i];
        const struct kb_ev_arm arm = {.id = known->id,
                                      .features = known->features,
                                      .is_active = known->is_active && known->is_in_catalogue,
                                      .is_stopped = known->is_stopped};
        rc = put_arm(s, &arm);
    }
    return rc;
}

/* --- events ------------------------------------------------------------------------------------------------- */

static void take_books(struct ld_own_log *s, const struct kb_spec *spec)
{
    s->is_held = spec->aggregation != KB_AGG_FIRST;
    s->is_sum = spec->aggregation == KB_AGG_SUM;
    s->has_metrics = spec->has_metrics;
}

int ld_own_log_take(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out)
{
    struct ld_own_open *o;

    switch (ev->type) {
    case KB_EV_DECIDED:
        return begin_decision(s, ev);
    case KB_EV_REWARDED:
        return reward(s, ev->as.rewarded.decision, ev->as.rewarded.arm, ev->as.rewarded.reward, false, out);
    case KB_EV_EXPIRED:
        return reward(s, ev->as.expired.decision, NULL, ev->as.expired.has_reward ? ev->as.expired.reward : (double)NAN,
                      true, out);
    case KB_EV_OBSERVED:
        return observe(s, ev, out);
    case KB_EV_ACTIVATED:
        if ((o = find_open(s, ev->as.activated.decision)) != NULL)
            o->is_deferred = false;
        return 0;
    case KB_EV_ARMS:
        return change_catalogue(s, ev);
    case KB_EV_CONFIGURED:
        take_books(s, ev->as.configured.spec);
        return 0;
    case KB_EV_SUMMARY:
        if (ev->as.summary->part == KB_PART_BEGIN)
            take_books(s, ev->as.summary->spec);
        return read_summary(s, ev->as.summary);
    default:
        return 0;
    }
}

int ld_own_log_end(struct ld_own_log *s, struct ld_logged *out, bool *is_over)
{
    *is_over = s->first == NULL;
    return *is_over ? 0 : end_decision(s, s->first, out);
}

void ld_own_log_close(struct ld_own_log *s)
{
    struct ld_own_open *after;

    for (struct ld_own_open *o = s->first; o != NULL; o = after) {
        after = o->after;
        unlink_open(s, o);
        kb_free(o);
    }
    kb_free(s->ended);
    kb_free(s->flags);
    s->ended = NULL;
    s->flags = NULL;
    s->cap_flags = 0;
}
