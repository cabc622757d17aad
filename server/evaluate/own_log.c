/* See own_log.h. */
#include "evaluate/own_log.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "types/settings.h"

#define ONE_ARM 1.0 /* the propensity of a baseline that is one arm */

/* Of the first slot, where `among` does not tell them; 0: not told. */
static size_t n_candidates(const struct kb_event *ev)
{
    return ev->as.decided.draws != NULL ? ev->as.decided.draws[0].n_candidates : ev->as.decided.n_candidates;
}

/* Whether a decision was made among others than the active arms of the catalogue, and the line does not tell which: it
 * shows an arm that the catalogue has not, or there was another number of them. */
static bool is_named(const struct ld_own_log *s, const struct kb_event *ev)
{
    const uint32_t arm = kb_ids_find(&s->d->arms, ev->as.decided.slots[0].arm);
    const size_t n = n_candidates(ev);

    if (ev->as.decided.among != NULL || !s->catalogue.is_told)
        return ev->as.decided.among == NULL && n > 0;
    return arm == KB_ID_NONE || !s->d->is_offered[arm] || (n > 0 && n != ld_decisions_n_offered(s->d));
}

/* Without a catalogue, where as many arms were candidates as the log has there. */
static bool is_among_all(const struct ld_own_log *s, const struct ld_own_open *o)
{
    const struct ld_decisions *d = s->d;

    return !s->catalogue.is_told && (d->is_counting || n_candidates(&o->ev) == d->n_counted);
}

static int begin_decision(struct ld_own_log *s, const struct kb_event *ev)
{
    const char *id = ev->as.decided.decision;

    if (s->metric != NULL && !s->is_measured) {
        ld_decisions_skip(s->d, "decisions from before the metric was what it is");
        return 0;
    }
    if (ld_own_opens_find(&s->open, id) != NULL)
        return ld_decisions_fail(s->d, "decision", "\"%.60s\" stands twice", id);
    struct ld_own_open *o = ld_own_opens_add(&s->open, ev, s->context_dim, s->arm_dim);
    if (o == NULL)
        return ld_decisions_no_memory(s->d);
    o->is_named = is_named(s, ev);
    return 0;
}

void ld_own_log_begin(struct ld_own_log *s)
{
    s->d->is_own = true;
    for (uint32_t i = 0; s->d->is_counted && i < s->d->arms.n; i++)
        ld_decisions_offer(s->d, i, s->d->was_offered[i]);
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
    s->is_lent = s->catalogue.is_told && !s->d->is_offered[arm];
    s->lent = arm;
    ld_decisions_candidates(s->d, arm, out);
}

/* Into out, of the dimensions that are asked for. */
static int read_context(struct ld_own_log *s, uint32_t dim, const double *context, double *out)
{
    struct ld_decisions *d = s->d;

    if (d->o.context_dim == 0)
        return 0;
    if (dim != d->o.context_dim || context == NULL)
        return ld_decisions_fail(d, "context", "%u numbers, where the configuration has %u", dim, d->o.context_dim);
    memcpy(out, context, d->o.context_dim * sizeof *context);
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
        const uint32_t arm = ld_own_arm(s->d, o->arm_dim, among[i].arm, among[i].features);
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

static bool is_told(const struct ld_own_log *s, const struct ld_own_open *o)
{
    bool has_reward = !isnan(o->reward[0]);

    for (size_t k = 1; s->d->o.all_slots && k < o->ev.as.decided.n_slots; k++)
        has_reward = has_reward || !isnan(o->reward[k]);
    return has_reward || (!isnan(s->d->o.default_reward) && !o->is_deferred);
}

/* Why there is nothing to be made of a decision that has come to its end; NULL: there is. */
static const char *why_passed(const struct ld_own_log *s, const struct ld_own_open *o)
{
    if (!is_told(s, o))
        return "decisions without a reward";
    return s->d->o.draws_only ? why_no_draw(&o->ev) : NULL;
}

/* The reward of slot k; NaN: it was not told. */
static double reward_of(const struct ld_own_log *s, const struct ld_own_open *o, size_t k)
{
    return isnan(o->reward[k]) && !o->is_deferred ? s->d->o.default_reward : o->reward[k];
}

/* Slot k behind the first. Its arm may be no candidate of the first, or in the catalogue no more. 0, -1 or
 * LD_DECISIONS_BROKEN with why. */
static int read_slot(struct ld_own_log *s, const struct ld_own_open *o, size_t k, const struct ld_logged *first)
{
    const struct kb_ev_slot *slot = &o->ev.as.decided.slots[k];
    const struct kb_ev_draw *draw = &o->ev.as.decided.draws[k];
    struct ld_decisions *d = s->d;
    const uint32_t arm = kb_ids_find(&d->arms, slot->arm);
    struct ld_logged *out = ld_decisions_slot(d, k, first, NULL, arm);

    if (out->chosen == out->n)
        ld_decisions_slot_add(d, out, arm);
    out->slot = draw->id;
    /* Where the slot was drawn from other arms than stand here (its own `exclude`), its propensity says nothing. */
    out->propensity = draw->n_candidates == 0 || draw->n_candidates == out->n ? draw->propensity : (double)NAN;
    out->reward = reward_of(s, o, k);
    if (draw->context != NULL && d->o.context_dim > 0) {
        double *context = d->slot_contexts + k * d->o.context_dim;

        if (read_context(s, o->context_dim, draw->context, context) != 0)
            return -1;
        out->context = context;
    }
    return ld_decisions_check(d, out);
}

/* Those behind the first, whose candidates *out has. 1, -1 or LD_DECISIONS_BROKEN with why. */
static int read_slots(struct ld_own_log *s, const struct ld_own_open *o, struct ld_logged *out)
{
    const size_t n = o->ev.as.decided.n_slots;
    struct ld_decisions *d = s->d;
    int rc = 0;

    if (o->ev.as.decided.draws == NULL)
        return 1;
    if (ld_decisions_slots(d, n, out->n) != 0)
        return LD_DECISIONS_BROKEN;
    out->slot = o->ev.as.decided.draws[0].id;
    d->slots[0] = *out;
    for (size_t k = 1; rc == 0 && k < n; k++)
        rc = read_slot(s, o, k, out);
    out->more = d->slots + 1;
    out->n_more = n - 1;
    return rc == 0 ? 1 : rc;
}

/* All arms shown get their numbers before anything of the decision is read: an arm that is new moves the tables that
 * candidates are read from. 0, or -1 with why. */
static int number_arms(struct ld_own_log *s, const struct ld_own_open *o)
{
    const struct kb_ev_slot *slots = o->ev.as.decided.slots;

    for (size_t k = 0; k < o->ev.as.decided.n_slots; k++)
        if (ld_own_arm(s->d, o->arm_dim, slots[k].arm, slots[k].features) == KB_ID_NONE)
            return -1;
    return 0;
}

/* Candidates of the decision, and its arm among them. 1, 0 when they are not known, -1 or LD_DECISIONS_BROKEN with why.
 */
static int read_candidates(struct ld_own_log *s, const struct ld_own_open *o, struct ld_logged *out)
{
    const struct kb_event *ev = &o->ev;
    const uint32_t arm = kb_ids_find(&s->d->arms, ev->as.decided.slots[0].arm);

    if (ev->as.decided.among != NULL && ev->as.decided.n_among == 0) {
        ld_decisions_skip(s->d, "decisions whose candidates are not known");
        return 0;
    }
    if (ev->as.decided.among != NULL)
        return read_among(s, o, arm, out);
    if (s->d->o.needs_candidates && o->is_named && !is_among_all(s, o)) {
        ld_decisions_skip(s->d, "decisions that named their candidates, which the log does not tell");
        return 0;
    }
    ld_own_log_candidates(s, arm, out);
    return 1;
}

/* The decision o, which is the one in hand then, with its rewards: 1 with *out, 0 when there is none to be made, -1. */
static int end_decision(struct ld_own_log *s, struct ld_own_open *o, struct ld_logged *out)
{
    const struct kb_event *ev = &o->ev;
    const char *passed = why_passed(s, o);
    struct ld_decisions *d = s->d;

    ld_own_opens_unlink(&s->open, o);
    s->ended = o;
    if (passed != NULL) {
        ld_decisions_skip(d, passed);
        return 0;
    }
    out->reward = reward_of(s, o, 0);
    out->id = ev->as.decided.decision;
    out->user = ev->as.decided.user;
    out->at_ms = ev->at_ms;
    out->propensity = ev->as.decided.propensity;
    if (d->o.context_dim > 0)
        out->context = d->context;
    if (read_context(s, o->context_dim, ev->as.decided.context, d->context) != 0 || ld_decisions_check(d, out) != 0 ||
        number_arms(s, o) != 0)
        return -1;
    const int rc = read_candidates(s, o, out);
    return rc == 1 ? read_slots(s, o, out) : rc;
}

/* --- rewards ----------------------------------------------------------------------------------------------- */

/* The slot of an arm, NULL being the first; n_slots: none that is kept, since the others of a slate without names have
 * no propensity. */
static size_t slot_of(const struct ld_own_open *o, const char *arm)
{
    size_t k = 0;

    while (arm != NULL && k < o->ev.as.decided.n_slots && strcmp(arm, o->ev.as.decided.slots[k].arm) != 0)
        k++;
    return k;
}

/* Under `first` a decision is over when all its slots have a reward. */
static bool has_all(const struct ld_own_open *o)
{
    size_t k = 0;

    while (k < o->ev.as.decided.n_slots && !isnan(o->reward[k]))
        k++;
    return k == o->ev.as.decided.n_slots;
}

static int reward(struct ld_own_log *s, const char *id, const char *arm, double v, struct ld_logged *out)
{
    struct ld_own_open *o = ld_own_opens_find(&s->open, id);
    const size_t k = o != NULL ? slot_of(o, arm) : 0;

    if (s->metric != NULL)
        return 0;
    if (o == NULL || k == o->ev.as.decided.n_slots) {
        ld_decisions_skip(s->d,
                          o == NULL ? "rewards of decisions that are not open" : "rewards of other arms of a slate");
        return 0;
    }
    if (!isnan(v))
        o->reward[k] = s->is_sum && !isnan(o->reward[k]) ? o->reward[k] + v : v;
    return !s->is_held && has_all(o) ? end_decision(s, o, out) : 0;
}

/* What was told of the metric, as the experiments count it: in its range, and its default where nothing was told. */
static double metric_value(const struct ld_metric_settings *m, double told)
{
    return isnan(told) ? m->missing : fmin(fmax(told, m->low), m->high);
}

/* The window's end. Where there are metrics every window has its line, also of a decision that has had its reward. */
static int expire(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out)
{
    struct ld_own_open *o = ld_own_opens_find(&s->open, ev->as.expired.decision);
    const double otherwise = ev->as.expired.has_reward ? ev->as.expired.reward : (double)NAN;

    if (o == NULL && !s->has_metrics && s->metric == NULL)
        ld_decisions_skip(s->d, "rewards of decisions that are not open");
    if (o == NULL)
        return 0;
    for (size_t k = 0; k < o->ev.as.decided.n_slots; k++) {
        if (s->metric != NULL && !o->is_deferred)
            o->reward[k] = metric_value(s->metric, o->reward[k]);
        else if (s->metric == NULL && isnan(o->reward[k]))
            o->reward[k] = otherwise;
    }
    return end_decision(s, o, out);
}

/* A value of a metric: what it has come to, until the window closes. */
static void measure(struct ld_own_log *s, const char *id, const char *arm, const struct kb_ev_metric *metric)
{
    struct ld_own_open *o = ld_own_opens_find(&s->open, id);
    const size_t k = o != NULL ? slot_of(o, arm) : 0;

    if (s->metric != NULL && metric->name != NULL && strcmp(metric->name, s->metric->name) == 0 && o != NULL &&
        k < o->ev.as.decided.n_slots)
        o->reward[k] = kb_ev_metric_total(metric);
}

static int observe(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out)
{
    if (s->metric != NULL) {
        ld_decisions_skip(s->d, "observations, which have no metrics");
        return 0;
    }
    out->user = ev->as.observed.user;
    out->at_ms = ev->at_ms;
    out->propensity = ev->as.observed.propensity;
    out->reward = ev->as.observed.reward;
    out->id = ev->as.observed.id;
    const uint32_t arm = ld_own_arm(s->d, s->arm_dim, ev->as.observed.arm.arm, ev->as.observed.arm.features);
    if (s->d->o.context_dim > 0)
        out->context = s->d->context;
    if (arm == KB_ID_NONE || read_context(s, s->context_dim, ev->as.observed.context, s->d->context) != 0 ||
        ld_decisions_check(s->d, out) != 0)
        return -1;
    ld_own_log_candidates(s, arm, out);
    return 1;
}

/* --- events ------------------------------------------------------------------------------------------------- */

static void take_books(struct ld_own_log *s, const struct kb_spec *spec)
{
    s->is_held = spec->aggregation != KB_AGG_FIRST;
    s->is_sum = spec->aggregation == KB_AGG_SUM;
    s->has_metrics = spec->has_metrics;
}

bool ld_own_log_measures(const struct ld_settings *s, const struct ld_metric_settings *wanted)
{
    const struct ld_metric_settings *m = ld_settings_metric(s, wanted->name);

    return m != NULL && ld_metric_is_measured(s, m) && m->low == wanted->low && m->high == wanted->high &&
           m->missing == wanted->missing && m->aggregation == wanted->aggregation;
}

int ld_own_log_take(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out)
{
    struct ld_own_open *o;

    s->catalogue.d = s->d;
    s->catalogue.arm_dim = s->arm_dim;
    switch (ev->type) {
    case KB_EV_DECIDED:
        return begin_decision(s, ev);
    case KB_EV_REWARDED:
        measure(s, ev->as.rewarded.decision, ev->as.rewarded.arm, &ev->as.rewarded.metric);
        return reward(s, ev->as.rewarded.decision, ev->as.rewarded.arm, ev->as.rewarded.reward, out);
    case KB_EV_MEASURED:
        if (!ev->as.measured.is_late)
            measure(s, ev->as.measured.decision, ev->as.measured.arm, &ev->as.measured.metric);
        return 0;
    case KB_EV_EXPIRED:
        return expire(s, ev, out);
    case KB_EV_OBSERVED:
        return observe(s, ev, out);
    case KB_EV_ACTIVATED:
        if ((o = ld_own_opens_find(&s->open, ev->as.activated.decision)) != NULL)
            o->is_deferred = false;
        return 0;
    case KB_EV_ARMS:
        return ld_own_catalogue_change(&s->catalogue, ev);
    case KB_EV_CONFIGURED:
        take_books(s, ev->as.configured.spec);
        return 0;
    case KB_EV_SUMMARY:
        if (ev->as.summary->part == KB_PART_BEGIN)
            take_books(s, ev->as.summary->spec);
        return ld_own_catalogue_summary(&s->catalogue, ev->as.summary);
    default:
        return 0;
    }
}

int ld_own_log_end(struct ld_own_log *s, struct ld_logged *out, bool *is_over)
{
    struct ld_own_open *o = s->open.first;

    *is_over = o == NULL;
    if (o == NULL)
        return 0;
    if (s->metric == NULL)
        return end_decision(s, o, out);
    ld_own_opens_unlink(&s->open, o);
    s->ended = o;
    ld_decisions_skip(s->d, "decisions whose window is open");
    return 0;
}

void ld_own_log_close(struct ld_own_log *s)
{
    ld_own_opens_close(&s->open);
    ld_own_catalogue_close(&s->catalogue);
    kb_free(s->ended);
    s->ended = NULL;
}
