/* Scores of a challenger: see challenger_scores.h. */
#include "task/challenger_scores.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_key.h"

#define HOUR_MS (INT64_C(3600) * 1000)
#define MINUTE_MS (INT64_C(60) * 1000)
#define NOT_IN_LINE UINT64_MAX

struct ld_open_decision {
    uint64_t id, arm; /* hashes; id 0: the place is free */
    uint64_t number;  /* in the line; NOT_IN_LINE: none */
    double weight, reward;
    bool has_reward;
};

struct ld_due {
    uint64_t id;
    int64_t expires_at_ms, given_up_ms; /* by the log's time; by moving_ms */
    double share, chance;               /* of the challenger's group; share 0: it is not in the guardrail's sums */
    double reward;
    bool has_reward, is_final;
};

void ld_scores_close(struct ld_scores *s)
{
    kb_free(s->open);
    kb_free(s->due);
    *s = (struct ld_scores){0};
}

size_t ld_scores_bytes(const struct ld_scores *s)
{
    return s->cap_open * sizeof *s->open + s->cap_due * sizeof *s->due;
}

/* ---- open decisions -------------------------------------------------------------------------------------- */

static uint64_t id_of(const char *decision)
{
    const uint64_t h = kb_keyed_str(ld_hash_key(), decision);

    return h != 0 ? h : 1;
}

/* The place of id, or the free one where it would stand. The table is never full. */
static struct ld_open_decision *place(const struct ld_scores *s, uint64_t id)
{
    size_t i = (size_t)id & (s->cap_open - 1);

    while (s->open[i].id != 0 && s->open[i].id != id)
        i = (i + 1) & (s->cap_open - 1);
    return &s->open[i];
}

static struct ld_open_decision *find(const struct ld_scores *s, uint64_t id)
{
    struct ld_open_decision *at = s->cap_open > 0 ? place(s, id) : NULL;

    return at != NULL && at->id != 0 ? at : NULL;
}

/* What stands behind the freed place moves up where a search would pass it. */
static void remove_open(struct ld_scores *s, struct ld_open_decision *at)
{
    const size_t mask = s->cap_open - 1;
    size_t hole = (size_t)(at - s->open);

    for (size_t i = (hole + 1) & mask; s->open[i].id != 0; i = (i + 1) & mask) {
        const size_t home = (size_t)s->open[i].id & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            s->open[hole] = s->open[i];
            hole = i;
        }
    }
    s->open[hole].id = 0;
    s->told.n_open--;
}

static enum kb_err grow_open(struct ld_scores *s)
{
    struct ld_scores old = *s;

    if (2 * (s->told.n_open + 1) <= s->cap_open)
        return KB_OK;
    s->cap_open = old.cap_open > 0 ? 2 * old.cap_open : 64;
    s->open = kb_array(s->cap_open, 1, sizeof *s->open);
    if (s->open == NULL) {
        *s = old;
        return KB_ENOMEM;
    }
    for (size_t i = 0; i < old.cap_open; i++)
        if (old.open[i].id != 0)
            *place(s, old.open[i].id) = old.open[i];
    kb_free(old.open);
    return KB_OK;
}

/* Room for one more at the end of the line, which begins anew in front when it has become half empty. */
static enum kb_err grow_due(struct ld_scores *s)
{
    if (s->head > 0 && s->head + s->n_due == s->cap_due && s->head >= s->cap_due / 2) {
        memmove(s->due, s->due + s->head, s->n_due * sizeof *s->due);
        s->head = 0;
    }
    return kb_grow((void **)&s->due, &s->cap_due, s->head + s->n_due + 1, 64, sizeof *s->due) == 0 ? KB_OK : KB_ENOMEM;
}

/* ---- counting ---------------------------------------------------------------------------------------------- */

static struct ld_due *due_of(const struct ld_scores *s, uint64_t number)
{
    return number != NOT_IN_LINE && number >= s->first ? &s->due[s->head + (size_t)(number - s->first)] : NULL;
}

/* One that has proved to be worse is not promoted by the same sums. */
static void look(struct ld_guard *g)
{
    const double enough = -log(1 - g->level);

    if (g->verdict != LD_GUARD_GOES_ON || g->pair.n < g->first || (g->n_clipped > 0 && !g->has_range))
        return;
    if (kb_pair_log_e(&g->pair, 1, 0, true) >= enough)
        g->verdict = LD_GUARD_BETTER;
    else if (kb_pair_log_e(&g->pair, 1, 0, false) >= enough)
        g->verdict = LD_GUARD_WORSE;
}

static double scaled(struct ld_guard *g, double reward)
{
    if (reward >= g->low && reward <= g->high)
        return fmin((reward - g->low) / (g->high - g->low), 1);
    g->n_clipped++;
    return reward > g->high ? 1 : 0;
}

static void add_to_guard(struct ld_guard *g, const struct ld_due *d)
{
    if (g->level <= 0 || !(d->share > 0) || !d->has_reward)
        return;
    (void)kb_pair_add_group(&g->pair, d->share, d->chance, scaled(g, d->reward));
    look(g);
}

/* What is final, with all before it. The line that closes a window may never come, since its user was erased: an hour
 * behind it nothing is waited for. Time in which there was no event does not count: after a pause the lines of all that
 * it has closed are still to come, and to give them up would leave those alone that were told of a reward. */
static void advance(struct ld_scores *s)
{
    for (; s->n_due > 0; s->n_due--, s->first++) {
        const struct ld_due *d = &s->due[s->head];

        if (!d->is_final && s->moving_ms <= d->given_up_ms)
            break;
        add_to_guard(&s->told.guard, d);
        s->head++;
    }
    if (s->n_due == 0)
        s->head = 0;
    s->closing = s->closing < s->first ? s->first : s->closing;
}

static void count(struct ld_scores *s, struct ld_open_decision *at)
{
    struct ld_due *d = due_of(s, at->number);

    if (d != NULL && d->id == at->id) {
        d->reward = at->reward;
        d->has_reward = d->is_final = true;
    }
    kb_snips_add(&s->told.sums, at->weight, at->reward);
    remove_open(s, at);
}

/* ---- events ------------------------------------------------------------------------------------------------ */

static void begin_anew(struct ld_scores *s, uint64_t version)
{
    if (s->cap_open > 0)
        memset(s->open, 0, s->cap_open * sizeof *s->open);
    s->told.n_open = s->n_due = s->head = 0;
    s->first = s->closing = 0;
    s->told.n_unrewarded = s->told.n_unknown = s->told.n_lost = s->told.n_compared = 0;
    s->told.match_sum = 0;
    s->told.sums = (struct kb_snips){0};
    s->told.since = version;
}

/* Decisions that wait were made under another one. */
static void set_guardrail(struct ld_scores *s, const struct ld_guard *wanted)
{
    s->told.guard = *wanted;
    for (size_t i = 0; i < s->n_due; i++)
        s->due[s->head + i].share = 0;
}

static struct ld_guard guard_of(const struct ld_settings *settings, const char *name)
{
    const struct ld_experiment_settings *e = &settings->experiment;
    struct ld_guard g = {.first = settings->guardrail.min_decisions, .high = 1};

    if (strcmp(settings->guardrail.baseline, name) == 0)
        g.level = settings->guardrail.level;
    g.has_range = settings->guardrail.has_range || e->is_on;
    if (g.has_range) {
        g.low = settings->guardrail.has_range ? settings->guardrail.low : e->low;
        g.high = settings->guardrail.has_range ? settings->guardrail.high : e->high;
    }
    return g;
}

static bool is_same_guard(const struct ld_guard *a, const struct ld_guard *b)
{
    return a->level == b->level && a->first == b->first && a->has_range == b->has_range && a->low == b->low &&
           a->high == b->high;
}

/* Switches are no part of the policy: while a tenant is stopped nothing is scored, and then the comparison goes on. */
static uint64_t digest_policy(const struct kb_spec *spec)
{
    struct kb_spec policy = *spec;

    policy.routing.is_stopped = policy.routing.is_apprentice = false;
    policy.learns = true;
    return kb_spec_digest(&policy, KB_HASH_INIT);
}

void ld_scores_configure(struct ld_scores *s, const struct ld_settings *settings, uint64_t version, const char *name)
{
    const struct kb_spec *spec = &settings->spec;
    const uint64_t policy = digest_policy(spec);
    const bool is_new = s->told.version == 0 || policy != s->policy;
    const struct ld_guard guard = guard_of(settings, name);

    if (is_new)
        begin_anew(s, version);
    if (is_new || !is_same_guard(&guard, &s->told.guard))
        set_guardrail(s, &guard);
    s->told.version = version;
    s->policy = policy;
    s->is_logging = ld_settings_log_candidates(settings);
    s->is_late = spec->has_default_reward || spec->aggregation != KB_AGG_FIRST;
    s->is_sum = spec->aggregation == KB_AGG_SUM;
}

bool ld_scores_wants(const struct ld_scores *s)
{
    return s->told.version > 0 && s->is_logging;
}

bool ld_scores_is_guarded(const struct ld_scores *s)
{
    return s->told.guard.level > 0;
}

/* Its place in the line, with room there; a full line is for those that must wait there. */
static uint64_t put_in_line(struct ld_scores *s, uint64_t id, const struct kb_event *ev, double probability,
                            double share)
{
    if (!s->is_late && (!ld_scores_is_guarded(s) || s->n_due >= LD_SCORES_OPEN))
        return NOT_IN_LINE;
    s->due[s->head + s->n_due] =
        (struct ld_due){.id = id,
                        .expires_at_ms = ev->as.decided.expires_at_ms,
                        .given_up_ms = s->moving_ms + HOUR_MS + ev->as.decided.expires_at_ms - ev->at_ms,
                        .share = share,
                        .chance = share * probability / ev->as.decided.propensity};
    return s->first + s->n_due++;
}

void ld_scores_compare(struct ld_scores *s, double probability)
{
    s->told.n_compared += isfinite(probability);
    s->told.match_sum += isfinite(probability) ? probability : 0;
}

void ld_scores_decide(struct ld_scores *s, const struct kb_event *ev, double probability, double share)
{
    const uint64_t id = id_of(ev->as.decided.decision);

    if (!isfinite(probability)) {
        s->told.n_unknown++;
        return;
    }
    if (s->told.n_open >= LD_SCORES_OPEN || (s->is_late && s->n_due >= LD_SCORES_OPEN) || find(s, id) != NULL ||
        grow_open(s) != KB_OK || grow_due(s) != KB_OK) {
        s->told.n_lost++;
        return;
    }
    s->told.guard.n_untold += ev->as.decided.n_odds == 0;
    *place(s, id) = (struct ld_open_decision){.id = id,
                                              .arm = kb_keyed_str(ld_hash_key(), ev->as.decided.slots[0].arm),
                                              .number = put_in_line(s, id, ev, probability, share),
                                              .weight = probability / ev->as.decided.propensity};
    s->told.n_open++;
}

static void take_reward(struct ld_scores *s, const struct kb_event *ev)
{
    struct ld_open_decision *at = find(s, id_of(ev->as.rewarded.decision));
    const char *arm = ev->as.rewarded.arm;

    if (at == NULL || (arm != NULL && kb_keyed_str(ld_hash_key(), arm) != at->arm))
        return;
    at->reward = ev->as.rewarded.reward + (s->is_sum && at->has_reward ? at->reward : 0);
    at->has_reward = true;
    if (!s->is_late)
        count(s, at);
}

static void take_expiry(struct ld_scores *s, const struct kb_event *ev)
{
    struct ld_open_decision *at = find(s, id_of(ev->as.expired.decision));

    if (at == NULL)
        return;
    if (!at->has_reward && ev->as.expired.has_reward) {
        at->reward = ev->as.expired.reward;
        at->has_reward = true;
    }
    if (at->has_reward) {
        count(s, at);
        return;
    }
    s->told.n_unrewarded++;
    struct ld_due *d = due_of(s, at->number);
    if (d != NULL && d->id == at->id)
        d->is_final = true;
    remove_open(s, at);
}

/* Of decisions that the engine has closed by their reward no expiry comes. */
static void close_windows(struct ld_scores *s, int64_t now_ms)
{
    for (; s->is_late && s->closing < s->first + s->n_due; s->closing++) {
        const struct ld_due *d = due_of(s, s->closing);

        if (d->expires_at_ms > now_ms)
            break;
        struct ld_open_decision *at = find(s, d->id);
        if (at != NULL && at->has_reward)
            count(s, at);
    }
}

void ld_scores_follow(struct ld_scores *s, const struct kb_event *ev)
{
    if (ev->type == KB_EV_REWARDED)
        take_reward(s, ev);
    else if (ev->type == KB_EV_EXPIRED)
        take_expiry(s, ev);
    else if (ev->type == KB_EV_FORGOTTEN)
        begin_anew(s, s->told.version);
    close_windows(s, ev->at_ms);
    if (ev->at_ms > s->last_ms) {
        s->moving_ms += ev->at_ms - s->last_ms < MINUTE_MS ? ev->at_ms - s->last_ms : MINUTE_MS;
        s->last_ms = ev->at_ms;
    }
    advance(s);
}
