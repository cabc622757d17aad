/* Values of metrics that open decisions have beside their rewards. They teach nothing and are no part of the digest:
 * they are kept so that a value that comes again, is corrected or is added to can be told from a new one, and they go
 * when the window closes. */
#include "model/engine_impl.h"

#include "base/magnitude.h"
#include "model/engine_read.h"

enum kb_err kb_engine_keep_metric(struct kb_pending_entry *entry, const struct kb_pending_slot *slot,
                                  const struct kb_ev_metric *metric, struct kb_errmsg *msg)
{
    struct kb_pending_value *v;

    if (!kb_is_measurable(metric->value) || !kb_is_measurable(kb_ev_metric_total(metric)))
        return kb_fail(KB_ERANGE, msg, "/reward", "expected a value, and a sum of values, of at most %g in size",
                       KB_MOST_MAGNITUDE);
    const enum kb_err rc = kb_pending_keep_value(entry, (uint32_t)(slot - entry->slot), metric->name, &v);
    if (rc == KB_EFULL)
        return kb_fail(rc, msg, "/metric", "the decision has values of %u metrics and arms already", KB_MOST_VALUES);
    return rc;
}

void kb_engine_take_metric(struct kb_engine *e, struct kb_pending_entry *entry, const struct kb_pending_slot *slot,
                           const struct kb_ev_metric *metric)
{
    struct kb_pending_value *v = kb_pending_value(entry, (uint32_t)(slot - entry->slot), metric->name);

    kb_pending_set_value(&e->pending, entry, v, kb_ev_metric_total(metric));
}

static enum kb_err reserve_measured(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_pending_entry *entry = NULL;

    if (ev->as.measured.is_late)
        return KB_OK;
    enum kb_err rc = kb_engine_find_open(e, ev->as.measured.decision, &entry, msg);
    if (rc != KB_OK)
        return rc;
    const struct kb_pending_slot *slot = kb_engine_find_slot(e, entry, ev->as.measured.arm);
    if (slot == NULL)
        return kb_fail(KB_ENOTFOUND, msg, "/arm", "decision has no slot with arm '%.100s'", ev->as.measured.arm);
    if (entry->is_deferred)
        return kb_fail(KB_ECONFLICT, msg, "/decision", "the decision is deferred and has not been activated");
    rc = kb_engine_keep_metric(entry, slot, &ev->as.measured.metric, msg);
    if (rc == KB_OK)
        entry->is_reserved = true;
    return rc;
}

static void apply_measured(struct kb_engine *e, const struct kb_event *ev)
{
    if (ev->as.measured.is_late)
        return;
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.measured.decision);

    kb_engine_take_metric(e, entry, kb_engine_find_slot(e, entry, ev->as.measured.arm), &ev->as.measured.metric);
    entry->is_reserved = false;
}

enum kb_err kb_engine_metric(const struct kb_engine *e, const char *decision, const char *arm, const char *metric,
                             bool *has_value, double *value)
{
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, decision);
    const struct kb_pending_slot *slot = entry != NULL ? kb_engine_find_slot(e, entry, arm) : NULL;

    *has_value = false;
    if (entry != NULL && entry->is_reserved)
        return KB_EBUSY;
    if (slot == NULL)
        return KB_ENOTFOUND;
    const struct kb_pending_value *v = kb_pending_value(entry, (uint32_t)(slot - entry->slot), metric);
    if (v == NULL || !v->has_value)
        return KB_OK;
    *has_value = true;
    *value = v->value;
    return KB_OK;
}

const struct kb_event_ops kb_ops_measured = {.reserve = reserve_measured, .apply = apply_measured};
