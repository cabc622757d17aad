/* The fold of an experiment: see experiment.h. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "book/experiment_impl.h"
#include "spec/event.h"

#define HOUR_MS (INT64_C(3600) * 1000)
#define ROUNDING 1e-12     /* as kb_pair_add allows */
#define LOOKS_AT_EACH 100u /* decisions; then at every hundredth part more */

static uint64_t hash_of(const char *text)
{
    return kb_hash_finish(kb_hash_str(KB_HASH_INIT, text));
}

static size_t find_id(char *const *ids, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(ids[i], id) == 0)
            return i;
    return SIZE_MAX;
}

static char *copy_text(const char *text)
{
    char *copy = kb_malloc(strlen(text) + 1);

    return copy != NULL ? strcpy(copy, text) : NULL;
}

/* ---- the catalogue ------------------------------------------------------------------------------------- */

static void clear_catalogue(struct ld_catalogue *c)
{
    for (size_t i = 0; i < c->n; i++)
        kb_free(c->id[i]);
    c->n = 0;
    c->is_many = false;
}

static enum kb_err put_arm(struct ld_catalogue *c, const char *id)
{
    if (c->is_many || find_id(c->id, c->n, id) < c->n)
        return KB_OK;
    if (c->n == LD_CATALOGUE_MOST) {
        clear_catalogue(c);
        c->is_many = true;
        return KB_OK;
    }
    char *copy = copy_text(id);
    if (copy == NULL || kb_grow((void **)&c->id, &c->cap, c->n + 1, 4, sizeof *c->id) != 0) {
        kb_free(copy);
        return KB_ENOMEM;
    }
    c->id[c->n++] = copy;
    return KB_OK;
}

static void remove_arm(struct ld_catalogue *c, const char *id)
{
    const size_t i = find_id(c->id, c->n, id);

    if (i >= c->n)
        return;
    kb_free(c->id[i]);
    memmove(&c->id[i], &c->id[i + 1], (c->n - i - 1) * sizeof *c->id);
    c->n--;
}

/* The same event twice comes to the same. */
static enum kb_err take_arms(struct ld_catalogue *c, const struct kb_event *ev)
{
    enum kb_err rc = KB_OK;

    if (ev->as.arms.is_replace)
        clear_catalogue(c);
    for (size_t i = 0; rc == KB_OK && i < ev->as.arms.n_put; i++)
        rc = put_arm(c, ev->as.arms.put[i].id);
    for (size_t i = 0; rc == KB_OK && i < ev->as.arms.n_remove; i++)
        remove_arm(c, ev->as.arms.remove[i]);
    return rc;
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

/* Odds of a split, whatever candidates are left: what epsilon gives to both makes them more even. An arm without a
 * weight has its part of epsilon alone. */
double ld_experiment_reach(const struct ld_experiment_rules *rules, size_t n_arms, const char *baseline,
                           const char *arm)
{
    const bool is_split = rules->rule == KB_RULE_SPLIT;
    const double base = is_split ? kb_split_weight(&rules->split, baseline) : 0;
    const double other = is_split ? kb_split_weight(&rules->split, arm) : 0;
    double reach = 1;

    if (rules->rule == KB_RULE_UNIFORM)
        reach = 0.5;
    else if (base > 0 && other > 0)
        reach = kb_reach_of_split(base, other);
    else if (rules->epsilon > 0)
        reach = kb_reach_of_floor(rules->epsilon, n_arms);
    return reach;
}

size_t ld_experiment_n_sentences(const struct ld_experiment *e)
{
    return e->n_arms - 1 + (e->holdout > 0);
}

size_t ld_experiment_n_traffic(const struct ld_experiment *e)
{
    return e->n_arms + (e->holdout > 0);
}

static void free_arms(char **arm, size_t n)
{
    for (size_t i = 0; arm != NULL && i < n; i++)
        kb_free(arm[i]);
    kb_free(arm);
}

/* Nothing is counted any more, and what was is gone. */
static void end(struct ld_experiment *e, enum ld_experiment_state state)
{
    const struct ld_experiment kept = {.now = e->now, .catalogue = e->catalogue, .state = state, .seq = e->seq};

    free_arms(e->arm, e->n_arms);
    kb_free(e->metric);
    ld_waiting_clear(&e->waiting, 0, 0);
    ld_users_clear(&e->users);
    *e = kept;
}

static double share_of(const struct ld_experiment_rules *now)
{
    return now->holdout < 1 ? now->holdout : 0; /* nobody is left to be compared with */
}

/* KB_ENOMEM: as it was. */
static enum kb_err begin(struct ld_experiment *e, const struct kb_event *ev)
{
    const size_t n = e->catalogue.n;
    char **arm = kb_array(n, 1, sizeof *arm);
    struct ld_metric_sums *metric = NULL;
    bool is_whole = arm != NULL;

    is_whole = is_whole && ld_metrics_begin(&e->now, &metric) == KB_OK;
    for (size_t i = 0; is_whole && i < n; i++) {
        arm[i] = copy_text(e->catalogue.id[i]);
        is_whole = arm[i] != NULL;
    }
    if (!is_whole) {
        free_arms(arm, n);
        kb_free(metric);
        return KB_ENOMEM;
    }
    end(e, LD_EXPERIMENT_RUNS);
    e->begun = e->now.settings;
    e->baseline = e->begun.baseline[0] != '\0' ? find_id(arm, n, e->begun.baseline) : 0;
    strcpy(e->begun.baseline, arm[e->baseline]);
    e->since_seq = ev->seq;
    e->since_ms = ev->at_ms;
    e->arm = arm;
    e->n_arms = n;
    e->holdout = share_of(&e->now);
    e->policy.reach = fmax(e->holdout, 1 - e->holdout);
    for (size_t a = 0; a < n; a++)
        e->sums[a].against.reach = ld_experiment_reach(&e->now, n, arm[e->baseline], arm[a]);
    e->next_look = 1;
    e->metric = metric;
    e->n_metrics = e->now.n_metrics;
    e->has_metric_policies = true;
    for (size_t m = 0; m < e->n_metrics; m++) {
        e->metric[m].policy.reach = e->policy.reach;
        for (size_t a = 0; a < n; a++)
            e->metric[m].against[a].reach = e->sums[a].against.reach;
    }
    ld_waiting_clear(&e->waiting, n, e->n_metrics);
    return KB_OK;
}

/* Whether what is in force is what was begun. */
static bool is_begun(const struct ld_experiment *e)
{
    struct ld_experiment_settings wanted = e->now.settings;

    if (wanted.baseline[0] == '\0')
        strcpy(wanted.baseline, e->catalogue.id[0]);
    if (!ld_experiment_is_same(&wanted, &e->begun) || e->catalogue.n != e->n_arms || share_of(&e->now) != e->holdout ||
        !ld_metrics_are_begun(e))
        return false;
    for (size_t a = 0; a < e->n_arms; a++)
        if (find_id(e->catalogue.id, e->n_arms, e->arm[a]) >= e->n_arms ||
            ld_experiment_reach(&e->now, e->n_arms, e->arm[e->baseline], e->arm[a]) > e->sums[a].against.reach)
            return false;
    return true;
}

static enum ld_experiment_state state_of(const struct ld_experiment *e)
{
    const struct ld_catalogue *c = &e->catalogue;
    const char *baseline = e->now.settings.baseline;

    if (!e->now.settings.is_on)
        return LD_EXPERIMENT_OFF;
    if (c->is_many || c->n > LD_EXPERIMENT_ARMS)
        return LD_EXPERIMENT_MANY_ARMS;
    if (c->n < 2)
        return LD_EXPERIMENT_FEW_ARMS;
    return baseline[0] == '\0' || find_id(c->id, c->n, baseline) < c->n ? LD_EXPERIMENT_RUNS
                                                                        : LD_EXPERIMENT_NO_BASELINE;
}

/* Behind a change of the configuration or of the catalogue. */
static enum kb_err refresh(struct ld_experiment *e, const struct kb_event *ev)
{
    const enum ld_experiment_state state = state_of(e);

    if (state == LD_EXPERIMENT_RUNS)
        return e->state == LD_EXPERIMENT_RUNS && is_begun(e) ? KB_OK : begin(e, ev);
    end(e, state);
    return KB_OK;
}

/* ---- looks -------------------------------------------------------------------------------------------------- */

static void look_at(struct ld_experiment *e, struct ld_comparison *c, const struct kb_event *ev)
{
    struct ld_experiment_stop stop = {.seq = ev->seq, .at_ms = ev->at_ms, .n = c->pair.n};
    const double log_inverse = log(2 * (double)ld_experiment_n_sentences(e) / e->begun.level);

    if (c->stop.verdict != KB_GO_ON || c->pair.n == 0)
        return;
    kb_pair_interval(&c->pair, c->reach, log_inverse, &stop.low, &stop.high);
    stop.estimate = kb_pair_estimate(&c->pair);
    stop.verdict = kb_verdict(stop.low, stop.high, e->begun.difference / (e->begun.high - e->begun.low), false);
    if (stop.verdict != KB_GO_ON)
        c->stop = stop;
}

/* What it finds stays; a pair that has stopped is not looked at again. */
static void look(struct ld_experiment *e, const struct kb_event *ev)
{
    e->next_look = e->n_counted + 1 + (e->n_counted >= LOOKS_AT_EACH ? e->n_counted / LOOKS_AT_EACH : 0);
    e->traffic_log_e = fmax(e->traffic_log_e, kb_traffic_log_e(e->traffic, ld_experiment_n_traffic(e)));
    if (e->void_seq == 0 && e->traffic_log_e >= -log(e->begun.traffic_level)) {
        e->void_seq = ev->seq;
        e->void_ms = ev->at_ms;
    }
    if (e->void_seq > 0)
        return;
    for (size_t a = 0; a < e->n_arms; a++)
        if (a != e->baseline)
            look_at(e, &e->sums[a].against, ev);
    if (e->holdout > 0)
        look_at(e, &e->policy, ev);
    ld_metrics_look(e, ev);
}

/* ---- counting ------------------------------------------------------------------------------------------------ */

double ld_experiment_scaled(double value, double low, double high, uint64_t *n_clipped)
{
    if (value >= low && value <= high)
        return fmin((value - low) / (high - low), 1);
    (*n_clipped)++;
    return value > high ? 1 : 0;
}

bool ld_comparison_add(struct ld_comparison *c, double p_base, double p_arm, bool is_arm, double reward)
{
    if (p_base > 0 && p_arm > 0 && !(fmax(p_base, p_arm) / (p_base + p_arm) <= c->reach * (1 + ROUNDING)))
        return false;
    (void)kb_pair_add(&c->pair, p_base, p_arm, is_arm, reward, c->reach);
    return true;
}

static void count_by_arm(struct ld_experiment *e, const struct ld_waiting *w, const double *p, double reward)
{
    const size_t base = e->baseline;
    bool is_within = true;

    for (size_t a = 0; a < e->n_arms; a++) {
        kb_traffic_add(&e->traffic[a], p[a], w->arm == a);
        if (a != base && (w->arm == a || w->arm == base))
            is_within &= ld_comparison_add(&e->sums[a].against, p[base], p[a], w->arm == a, reward);
    }
    e->n_beyond += !is_within;
    if (w->arm == LD_ARM_OTHER)
        return;
    const size_t side = (w->flags & LD_WAITS_IS_HOLDOUT) != 0 ? LD_SIDE_HOLDOUT : LD_SIDE_POLICY;
    (void)kb_shown_add(&e->sums[w->arm].shown[side], reward);
    e->sums[w->arm].square[side] += reward * reward;
}

static void count_by_side(struct ld_experiment *e, bool is_holdout, double reward)
{
    (void)ld_comparison_add(&e->policy, e->holdout, 1 - e->holdout, !is_holdout, reward);
    kb_traffic_add(&e->traffic[e->n_arms], e->holdout, is_holdout);
}

/* The head of the queue, whose reward is final. A deferred decision that nobody activated was not shown. */
static void count(struct ld_experiment *e, const struct ld_waiting *w, const struct kb_event *ev)
{
    if ((w->flags & LD_WAITS_IS_SHOWN) == 0)
        return;
    const bool is_told = (w->flags & LD_WAITS_HAS_REWARD) != 0;
    const double none = e->now.has_default ? e->now.default_reward : 0;
    const double told = is_told ? w->reward : none;
    const double reward = ld_experiment_scaled(told, e->begun.low, e->begun.high, &e->n_clipped);

    if ((w->flags & LD_WAITS_HAS_ODDS) != 0)
        count_by_arm(e, w, ld_waiting_odds(&e->waiting, w), reward);
    ld_metrics_count(e, w, ld_waiting_odds(&e->waiting, w));
    if ((w->flags & LD_WAITS_IS_FIRST) != 0)
        count_by_side(e, (w->flags & LD_WAITS_IS_HOLDOUT) != 0, reward);
    if (++e->n_counted >= e->next_look)
        look(e, ev);
}

/* The watermark moves over what is final. The line that closes a decision's window may never come, since its user was
 * erased: an hour behind the window it counts as it stands. */
static void advance(struct ld_experiment *e, const struct kb_event *ev)
{
    for (;;) {
        const struct ld_waiting *w = ld_waiting_head(&e->waiting);

        if (w == NULL || ((w->flags & LD_WAITS_IS_FINAL) == 0 && ev->at_ms - HOUR_MS <= w->expires_at_ms))
            return;
        count(e, w, ev);
        ld_waiting_pop(&e->waiting);
    }
}

/* ---- events -------------------------------------------------------------------------------------------------- */

/* Whether the user's side is to be counted by this decision: the first one of theirs. */
static bool is_first(struct ld_experiment *e, const char *user)
{
    return e->holdout > 0 && e->users.cap > 0 && 2 * (e->users.n + 1) <= e->users.cap &&
           ld_users_add(&e->users, hash_of(user));
}

static uint8_t flags_of(struct ld_experiment *e, const struct kb_event *ev)
{
    const enum kb_route route = ev->as.decided.route;
    const char *user = ev->as.decided.user;
    const bool is_holdout =
        route == KB_ROUTE_STICKY ? kb_holdout_place(e->now.salt, user) < e->now.holdout : route == KB_ROUTE_HOLDOUT;
    int flags = is_holdout ? LD_WAITS_IS_HOLDOUT : 0;

    if (route != KB_ROUTE_STICKY && ev->as.decided.n_odds > 0)
        flags |= LD_WAITS_HAS_ODDS;
    if (!ev->as.decided.is_deferred)
        flags |= LD_WAITS_IS_SHOWN;
    if (is_first(e, user))
        flags |= LD_WAITS_IS_FIRST;
    return (uint8_t)flags;
}

static void fill_odds(const struct ld_experiment *e, const struct kb_event *ev, double *odds)
{
    for (size_t i = 0; i < ev->as.decided.n_odds; i++) {
        const size_t a = find_id(e->arm, e->n_arms, ev->as.decided.odds[i].arm);

        if (a < e->n_arms)
            odds[a] = ev->as.decided.odds[i].propensity;
    }
}

/* Without room it is left out, whoever it is for and whatever is shown: that biases nothing. */
static enum kb_err take_decided(struct ld_experiment *e, const struct kb_event *ev)
{
    const struct kb_ev_slot *slot = ev->as.decided.slots;
    const size_t a = find_id(e->arm, e->n_arms, slot->arm);
    double *odds;

    if (ev->as.decided.route == KB_ROUTE_STOPPED)
        return KB_OK;
    if (e->holdout > 0 && ld_users_grow(&e->users) == KB_ENOMEM)
        return KB_ENOMEM;
    const enum kb_err rc = ld_waiting_grow(&e->waiting, 1);
    if (rc == KB_ENOMEM)
        return rc;
    const struct ld_waiting w = {.id = hash_of(ev->as.decided.decision),
                                 .slot = hash_of(slot->arm),
                                 .at_ms = ev->at_ms,
                                 .expires_at_ms = ev->as.decided.expires_at_ms,
                                 .arm = a < e->n_arms ? (uint8_t)a : LD_ARM_OTHER,
                                 .flags = flags_of(e, ev)};
    const bool is_drawn = ev->as.decided.route != KB_ROUTE_STICKY;
    const bool is_counted = (w.flags & (LD_WAITS_HAS_ODDS | LD_WAITS_IS_FIRST)) != 0;

    if (is_drawn && (w.flags & LD_WAITS_HAS_ODDS) == 0)
        e->n_left_out++;
    if (!is_counted)
        return KB_OK;
    if (rc != KB_OK || ld_waiting_push(&e->waiting, &w, &odds) == NULL)
        e->n_left_out++;
    else if ((w.flags & LD_WAITS_HAS_ODDS) != 0)
        fill_odds(e, ev, odds);
    return KB_OK;
}

static void take_reward(struct ld_experiment *e, const struct kb_event *ev)
{
    struct ld_waiting *w = ld_waiting_find(&e->waiting, hash_of(ev->as.rewarded.decision));
    const double reward = ev->as.rewarded.reward;

    if (w == NULL || (w->flags & LD_WAITS_IS_FINAL) != 0 ||
        (ev->as.rewarded.arm != NULL && hash_of(ev->as.rewarded.arm) != w->slot))
        return;
    const bool is_sum = e->now.aggregation == KB_AGG_SUM && (w->flags & LD_WAITS_HAS_REWARD) != 0;
    w->reward = is_sum ? w->reward + reward : reward;
    w->flags |= LD_WAITS_HAS_REWARD;
    ld_metrics_take(e, w, &ev->as.rewarded.metric);
    if (e->now.aggregation == KB_AGG_FIRST && e->now.n_metrics == 0)
        w->flags |= LD_WAITS_IS_FINAL;
}

static void take_measured(struct ld_experiment *e, const struct kb_event *ev)
{
    struct ld_waiting *w = ld_waiting_find(&e->waiting, hash_of(ev->as.measured.decision));

    if (w != NULL && (w->flags & LD_WAITS_IS_FINAL) == 0 && !ev->as.measured.is_late &&
        (ev->as.measured.arm == NULL || hash_of(ev->as.measured.arm) == w->slot))
        ld_metrics_take(e, w, &ev->as.measured.metric);
}

static void take_expired(struct ld_experiment *e, const struct kb_event *ev)
{
    struct ld_waiting *w = ld_waiting_find(&e->waiting, hash_of(ev->as.expired.decision));

    if (w == NULL)
        return;
    if ((w->flags & LD_WAITS_HAS_REWARD) == 0 && ev->as.expired.has_reward) {
        w->reward = ev->as.expired.reward;
        w->flags |= LD_WAITS_HAS_REWARD;
    }
    w->flags |= LD_WAITS_IS_FINAL;
}

static void take_activated(struct ld_experiment *e, const struct kb_event *ev)
{
    struct ld_waiting *w = ld_waiting_find(&e->waiting, hash_of(ev->as.activated.decision));

    if (w != NULL)
        w->flags |= LD_WAITS_IS_SHOWN;
}

/* The spec is the first member of the settings that a line was decoded into, or that a request brought. */
static void take_rules(struct ld_experiment *e, const struct kb_spec *spec)
{
    const struct ld_settings *s = (const struct ld_settings *)spec;

    e->now = (struct ld_experiment_rules){.settings = s->experiment,
                                          .rule = spec->rule.type,
                                          .aggregation = spec->aggregation,
                                          .has_default = spec->has_default_reward,
                                          .default_reward = spec->default_reward,
                                          .epsilon = spec->rule.epsilon,
                                          .holdout = spec->routing.holdout,
                                          .split = spec->rule.split};
    strcpy(e->now.salt, spec->routing.salt);
    ld_metrics_take_rules(&e->now, s);
}

/* A log that was compacted begins with one. What it counted before is not in it: the sums begin behind it. */
static enum kb_err take_summary(struct ld_experiment *e, const struct kb_event *ev)
{
    const struct kb_ev_summary *part = ev->as.summary;
    enum kb_err rc = KB_OK;

    if (part->part == KB_PART_BEGIN) {
        end(e, LD_EXPERIMENT_OFF);
        clear_catalogue(&e->catalogue);
        take_rules(e, part->spec);
    }
    for (size_t i = 0; part->part == KB_PART_ARMS && rc == KB_OK && i < part->n_arms; i++)
        if (part->arms[i].is_in_catalogue)
            rc = put_arm(&e->catalogue, part->arms[i].id);
    return part->part == KB_PART_END ? refresh(e, ev) : rc;
}

static enum kb_err take_running(struct ld_experiment *e, const struct kb_event *ev)
{
    enum kb_err rc = KB_OK;

    if (ev->type == KB_EV_DECIDED)
        rc = take_decided(e, ev);
    else if (ev->type == KB_EV_REWARDED)
        take_reward(e, ev);
    else if (ev->type == KB_EV_MEASURED)
        take_measured(e, ev);
    else if (ev->type == KB_EV_EXPIRED)
        take_expired(e, ev);
    else if (ev->type == KB_EV_ACTIVATED)
        take_activated(e, ev);
    if (rc == KB_OK)
        advance(e, ev);
    return rc;
}

static enum kb_err take(void *book, const struct kb_event *ev)
{
    struct ld_experiment *e = book;
    enum kb_err rc = KB_OK;

    if (ev->type == KB_EV_CONFIGURED) {
        take_rules(e, ev->as.configured.spec);
        rc = refresh(e, ev);
    } else if (ev->type == KB_EV_ARMS) {
        rc = take_arms(&e->catalogue, ev);
        rc = rc == KB_OK ? refresh(e, ev) : rc;
    } else if (ev->type == KB_EV_SUMMARY) {
        rc = take_summary(e, ev);
    }
    if (rc == KB_OK && e->state == LD_EXPERIMENT_RUNS)
        rc = take_running(e, ev);
    if (rc == KB_OK)
        e->seq = ev->seq;
    return rc;
}

/* ---- the kind ------------------------------------------------------------------------------------------------- */

static void close_book(void *book)
{
    struct ld_experiment *e = book;

    end(e, LD_EXPERIMENT_OFF);
    clear_catalogue(&e->catalogue);
    kb_free(e->catalogue.id);
    *e = (struct ld_experiment){.n_arms = 0};
}

static size_t bytes(const void *book)
{
    const struct ld_experiment *e = book;

    return ld_waiting_bytes(&e->waiting) + e->users.cap * sizeof *e->users.place + e->n_metrics * sizeof *e->metric +
           (e->n_arms + e->catalogue.cap) * (sizeof(char *) + 32);
}

const struct ld_book_kind ld_experiment_book = {.name = "experiment",
                                                .version = 1,
                                                .size = sizeof(struct ld_experiment),
                                                .take = take,
                                                .save = ld_experiment_save,
                                                .load = ld_experiment_load,
                                                .close = close_book,
                                                .bytes = bytes,
                                                .is_alarmed = ld_experiment_is_void};
