/* Scores of a challenger: see challenger_scores.h. */
#include "task/challenger_scores.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_key.h"

#define LEAST_WEIGHT 100 /* decisions' worth of weight (ESS) without which a look proves nothing */

struct ld_open_decision {
    uint64_t id, arm; /* hashes; id 0: the place is free */
    double weight, reward;
    bool has_reward;
};

struct ld_due {
    uint64_t id;
    int64_t expires_at_ms;
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
    if (!s->is_late)
        return KB_OK;
    if (s->head > 0 && s->head + s->n_due == s->cap_due && s->head >= s->cap_due / 2) {
        memmove(s->due, s->due + s->head, s->n_due * sizeof *s->due);
        s->head = 0;
    }
    return kb_grow((void **)&s->due, &s->cap_due, s->head + s->n_due + 1, 64, sizeof *s->due) == 0 ? KB_OK : KB_ENOMEM;
}

/* ---- counting ---------------------------------------------------------------------------------------------- */

/* What is in force has lost when its upper bound lies below the other's lower one. Weights that are not 1 on the
 * average tell of arms that are never shown: then the challenger's value is not in the log, and nothing is proved. */
static void look(struct ld_scores *s)
{
    const double level = kb_look_level(s->told.level, s->told.n_looks);

    s->told.look = (struct ld_look){.n = s->told.sums.n,
                                    .level = level,
                                    .value = kb_snips_value(&s->told.sums, level),
                                    .logged = kb_snips_logged(&s->told.sums, level),
                                    .weight = kb_snips_weight(&s->told.sums, level)};
    s->told.is_proved |= s->told.look.value.lower > s->told.look.logged.upper && s->told.look.weight.lower <= 1 &&
                         s->told.look.weight.upper >= 1 && kb_snips_ess(&s->told.sums) >= LEAST_WEIGHT;
    s->told.n_looks++;
}

static void count(struct ld_scores *s, struct ld_open_decision *at)
{
    kb_snips_add(&s->told.sums, at->weight, at->reward);
    remove_open(s, at);
    if (s->told.level > 0 && s->told.sums.n >= kb_look_size(s->told.first, s->told.n_looks))
        look(s);
}

/* ---- events ------------------------------------------------------------------------------------------------ */

static void begin_anew(struct ld_scores *s, uint64_t version)
{
    if (s->cap_open > 0)
        memset(s->open, 0, s->cap_open * sizeof *s->open);
    s->told.n_open = s->n_due = s->head = 0;
    s->told.n_unrewarded = s->told.n_unknown = s->told.n_lost = 0;
    s->told.sums = (struct kb_snips){0};
    s->told.since = version;
}

/* Sizes that have passed are not looked at, and spend nothing. */
static void set_guardrail(struct ld_scores *s, double level, uint64_t first)
{
    s->told.level = level;
    s->told.first = first;
    s->told.n_looks = 0;
    s->told.look = (struct ld_look){0};
    s->told.is_proved = false;
}

/* The switch is no part of the policy: while a tenant is stopped nothing is scored, and then the comparison goes on. */
static uint64_t digest_policy(const struct kb_spec *spec)
{
    struct kb_spec policy = *spec;

    policy.routing.is_stopped = false;
    return kb_spec_digest(&policy, KB_HASH_INIT);
}

void ld_scores_configure(struct ld_scores *s, const struct ld_settings *settings, uint64_t version, const char *name)
{
    const struct kb_spec *spec = &settings->spec;
    const uint64_t policy = digest_policy(spec);
    const bool is_new = s->told.version == 0 || policy != s->policy;
    const bool is_guarded = strcmp(settings->guardrail.baseline, name) == 0;
    const double level = is_guarded ? settings->guardrail.level : 0;

    if (is_new)
        begin_anew(s, version);
    if (is_new || level != s->told.level || settings->guardrail.min_decisions != s->told.first)
        set_guardrail(s, level, settings->guardrail.min_decisions);
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

void ld_scores_decide(struct ld_scores *s, const struct kb_event *ev, double probability)
{
    const uint64_t id = id_of(ev->as.decided.decision);

    if (!isfinite(probability)) {
        s->told.n_unknown++;
        return;
    }
    if (s->told.n_open >= LD_SCORES_OPEN || s->n_due >= LD_SCORES_OPEN || find(s, id) != NULL ||
        grow_open(s) != KB_OK || grow_due(s) != KB_OK) {
        s->told.n_lost++;
        return;
    }
    *place(s, id) = (struct ld_open_decision){.id = id,
                                              .arm = kb_keyed_str(ld_hash_key(), ev->as.decided.slots[0].arm),
                                              .weight = probability / ev->as.decided.propensity};
    s->told.n_open++;
    if (s->is_late)
        s->due[s->head + s->n_due++] = (struct ld_due){id, ev->as.decided.expires_at_ms};
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
    remove_open(s, at);
}

/* Of decisions that the engine has closed by their reward no expiry comes. */
static void close_windows(struct ld_scores *s, int64_t now_ms)
{
    for (; s->n_due > 0 && s->due[s->head].expires_at_ms <= now_ms; s->n_due--) {
        struct ld_open_decision *at = find(s, s->due[s->head++].id);

        if (at != NULL && at->has_reward)
            count(s, at);
    }
    if (s->n_due == 0)
        s->head = 0;
}

void ld_scores_follow(struct ld_scores *s, const struct kb_event *ev)
{
    if (ev->type == KB_EV_REWARDED)
        take_reward(s, ev);
    else if (ev->type == KB_EV_EXPIRED)
        take_expiry(s, ev);
    close_windows(s, ev->at_ms);
}
