/* Retention: a tenant's log loses by itself what its configuration does not ask to keep (compact.c).
 *
 *     retention.events   the last so many events are kept
 *     retention.age_s    and all that are younger
 *     reward_window_s    in any case what is younger: a reward may still come, or come again
 *
 * What is kept by either rule stays. A compaction costs a fold of what goes and a rebuild, so it is not made for each
 * event that falls out: there must be a thousand, and a quarter of what stays, lines and points; or, where the age
 * counts, one that has passed it by a quarter. Looked at every few seconds, by two look-ups. */
#include "task/tasks.h"
#include "tenant/tenant_state.h"

#define LOOK_MS 2000
#define LEAST_EVENTS 1000u
#define SHARE 4u

/* The last event that need not stay; less than `kept` when all of them must. */
static int find_wanted(struct ld_tenant *t, uint64_t *wanted)
{
    const struct ld_settings *s = &t->settings;
    const int64_t age_ms = s->keep_age_ms > s->spec.reward_window_ms ? s->keep_age_ms : s->spec.reward_window_ms;
    const int rc = ld_store_before(t->store, t->now_ms - age_ms, wanted);

    if (s->keep_events > 0) {
        const uint64_t most = t->seq > s->keep_events ? t->seq - s->keep_events : 0;

        *wanted = *wanted < most ? *wanted : most;
    }
    return rc;
}

/* Whether an event that need not stay is older than it should be, by a quarter. */
static bool is_overdue(struct ld_tenant *t, uint64_t kept)
{
    const int64_t age_ms = t->settings.keep_age_ms;
    uint64_t last = 0;

    return age_ms > 0 && t->settings.keep_events == 0 &&
           ld_store_before(t->store, t->now_ms - age_ms - age_ms / SHARE, &last) == LD_STORE_OK && last >= kept;
}

static bool is_due(struct ld_tenant *t, uint64_t wanted)
{
    const uint64_t kept = atomic_load(&t->log_kept);
    struct kb_engine_counts counts;

    if (wanted < kept)
        return false;
    kb_engine_counts(t->engine, &counts);
    const uint64_t n = wanted - kept + 1, stays = t->seq - wanted + counts.history_rows;
    return (n >= LEAST_EVENTS && n >= stays / SHARE) || is_overdue(t, kept);
}

void ld_retain(struct ld_tenant *t)
{
    const bool is_set = t->settings.keep_events > 0 || t->settings.keep_age_ms > 0;
    uint64_t wanted = 0;

    if (!is_set)
        atomic_store(&t->next_look_ms, INT64_MAX);
    else if (atomic_load(&t->next_look_ms) == INT64_MAX)
        atomic_store(&t->next_look_ms, t->now_ms);
    if (!is_set || !ld_tenant_is_held(t) || atomic_load(&t->next_look_ms) > t->now_ms ||
        ld_task_find(t, &ld_erasure) != NULL)
        return;
    atomic_store(&t->next_look_ms, t->now_ms + LOOK_MS);
    if (find_wanted(t, &wanted) == LD_STORE_OK && is_due(t, wanted))
        ld_compaction_begin(t, wanted);
}
