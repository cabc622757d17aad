/* Rewards that name a metric (docs/EXPERIMENTS.md). That of a single objective is a reward as any other; all others
 * have a value of their own beside it, for each slot of a decision:
 *
 *     decision is     has of the metric     answer
 *     open            nothing               applied
 *     open            the same value        first, last: duplicate; sum: applied
 *     open            another value         first: 409; sum, last: applied
 *     closed          the same value        duplicate (sum: as the next line)
 *     closed          another, or none      410, kept as a late line; first, last: not twice in a row
 *
 * A metric of a weighted sum is learned: its line is a reward, of weight times what the value has changed, so a fold
 * adds and knows no weights. What else is measured has a line of its own, which teaches nothing.
 *
 * Cost: that of a reward of an open decision, and O(its values); a closed one is a look into the log. */
#include "tenant/batch.h"
#include "tenant/tenant_state.h"

#define LATE "the decision's window has passed; the value was kept and does not count"

static void tell(struct ld_reward_result *result, int status, const char *detail)
{
    *result = (struct ld_reward_result){.status = status, .detail = detail};
}

bool ld_metric_is_unknown(const struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result)
{
    if (reward->metric == NULL || ld_settings_metric(&t->settings, reward->metric) != NULL)
        return false;
    *result = (struct ld_reward_result){
        .status = 422, .type = LD_NO_METRIC, .detail = "the tenant has no metric of this name", .pointer = "/metric"};
    return true;
}

const char *ld_metric_in_log(const struct ld_tenant *t, const char *name)
{
    const struct ld_metric_settings *m = name != NULL ? ld_settings_metric(&t->settings, name) : NULL;

    return m != NULL && !ld_metric_is_measured(&t->settings, m) ? NULL : name;
}

static void fill_measured(const struct ld_reward *reward, const struct kb_ev_metric *metric, struct kb_event *ev)
{
    *ev = (struct kb_event){.type = KB_EV_MEASURED};
    ev->as.measured.decision = reward->decision;
    ev->as.measured.arm = reward->arm;
    ev->as.measured.metric = *metric;
    ev->as.measured.id = reward->id;
    ev->as.measured.event = reward->event;
    ev->as.measured.happened_at_ms = reward->happened_at_ms;
}

static struct kb_ev_metric metric_of(const struct ld_reward *reward, bool is_sum, bool has_before, double before)
{
    const bool has_total = is_sum && has_before;

    return (struct kb_ev_metric){.name = reward->metric,
                                 .is_told = true,
                                 .value = reward->reward,
                                 .has_before = has_before,
                                 .before = before,
                                 .has_total = has_total,
                                 .total = has_total ? before + reward->reward : 0};
}

bool ld_metric_fill(const struct ld_tenant *t, const struct ld_reward *reward, struct kb_event *ev,
                    struct ld_reward_result *result, int *rc)
{
    const struct ld_metric_settings *m = ld_settings_metric(&t->settings, reward->metric);
    bool has_value = false;
    double before = 0;

    *rc = kb_engine_metric(t->engine, reward->decision, reward->arm, reward->metric, &has_value, &before);
    if (*rc == KB_EBUSY)
        return false;
    *rc = KB_OK; /* what is not open is found out when it is staged */
    if (has_value && m->aggregation != KB_AGG_SUM && before == reward->reward) {
        tell(result, LD_DUPLICATE, NULL);
        return false;
    }
    if (has_value && m->aggregation == KB_AGG_FIRST) {
        tell(result, 409, "the decision has another value of this metric");
        return false;
    }
    const struct kb_ev_metric metric = metric_of(reward, m->aggregation == KB_AGG_SUM, has_value, before);
    if (m->role == LD_OBJECTIVE) {
        ev->as.rewarded.reward = m->weight * (kb_ev_metric_total(&metric) - before);
        ev->as.rewarded.metric = metric;
    } else {
        fill_measured(reward, &metric, ev);
    }
    return true;
}

/* KB_EBUSY is passed on, all else is told. */
static int stage_late(struct ld_tenant *t, const struct ld_reward *reward, struct ld_reward_result *result)
{
    const struct kb_ev_metric metric = metric_of(reward, false, false, 0);
    struct ld_entry entry = {.ev = {.type = KB_EV_MEASURED}};

    fill_measured(reward, &metric, &entry.ev);
    entry.ev.as.measured.is_late = true;
    const int rc = ld_batch_stage(t, &entry, NULL);
    if (rc == KB_OK)
        tell(result, 410, LATE);
    else if (rc != KB_EBUSY)
        tell(result, 503, "the commit failed");
    return rc == KB_EBUSY ? KB_EBUSY : KB_OK;
}

int ld_metric_judge_closed(struct ld_tenant *t, const struct ld_reward *reward, const char *slot_0,
                           struct ld_reward_result *result)
{
    const struct ld_metric_settings *m = ld_settings_metric(&t->settings, reward->metric);
    struct ld_metric_record record;

    const struct ld_told_reward of = {.decision = reward->decision, .arm = reward->arm, .metric = reward->metric};

    if (ld_store_metric(t->store, &of, slot_0, &record) != LD_STORE_OK)
        tell(result, 503, "the log cannot be read");
    else if (m->aggregation != KB_AGG_SUM && record.has_value && record.value == reward->reward)
        tell(result, LD_DUPLICATE, NULL);
    else if (m->aggregation != KB_AGG_SUM && record.has_late && record.late == reward->reward)
        tell(result, 410, LATE);
    else
        return stage_late(t, reward, result);
    return KB_OK;
}
