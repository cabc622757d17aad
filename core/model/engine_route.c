/* Routes past the policy: who is held out, whose arm sticks, and what the log says of it.
 *
 *   stopped   the tenant's switch: the baseline for everybody
 *   holdout   the baseline for users whose place (routing.h) is below the share
 *   sticky    the arm that an earlier draw had given the user, on the same side of the holdout, until its time is over
 *   policy    all others
 *
 * A baseline that is an arm is shown with probability 1 where it is a candidate, and so is the first candidate under
 * the rule first; where it is not, and under the rule uniform, every candidate alike, and such a draw may stick as the
 * policy's may. What sticks is what was drawn: an arm
 * that was the baseline anyway leaves the user's assignment as it was, so a tenant that is stopped for an hour goes on
 * with the arms its users had.
 *
 * Of several slots each has a baseline of its own, before the tenant's; only the first may stick.
 *
 * A decision looks under the read lock and changes nothing. The fold writes down what the event says. */
#include "model/engine_decide.h"
#include "model/engine_impl.h"
#include "model/engine_read.h"

#include <float.h>
#include <string.h>

/* Among the candidates, or SIZE_MAX. An arm that no event has named has no number, and is sought by its id. */
static size_t place_of(const struct kb_candidates *cand, const char *const *ids, uint32_t arm, const char *id)
{
    for (size_t i = 0; i < cand->n; i++)
        if (arm != KB_ID_NONE ? cand->arms[i] == arm : strcmp(ids[i], id) == 0)
            return i;
    return SIZE_MAX;
}

size_t kb_engine_place_of(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                          const char *id)
{
    return place_of(cand, ids, kb_ids_find(&e->arm_ids, id), id);
}

static enum kb_route side_of(const struct kb_routing_spec *r, const char *user)
{
    if (r->is_stopped)
        return KB_ROUTE_STOPPED;
    return r->holdout > 0 && kb_holdout_place(r->salt, user) < r->holdout ? KB_ROUTE_HOLDOUT : KB_ROUTE_POLICY;
}

struct kb_way kb_engine_find_way(const struct kb_engine *e, const struct kb_query *q, const struct kb_candidates *cand,
                                 const char *const *ids)
{
    const struct kb_routing_spec *r = &e->spec.routing;
    struct kb_way way = {.route = KB_ROUTE_POLICY, .index = SIZE_MAX, .propensity = 1};

    if (q->is_unrouted)
        return way;
    way.route = side_of(r, q->user);
    if (way.route != KB_ROUTE_POLICY && q->placed != NULL && q->placed->slot->baseline != NULL) {
        way.index = kb_engine_place_of(e, cand, ids, q->placed->slot->baseline);
        if (way.index != SIZE_MAX)
            return way;
    }
    if (way.route != KB_ROUTE_POLICY && r->baseline != KB_BASELINE_UNIFORM) {
        way.index = r->baseline == KB_BASELINE_FIRST ? 0 : kb_engine_place_of(e, cand, ids, r->arm);
        if (way.index != SIZE_MAX)
            return way;
    }
    if (r->sticky_ms == 0 || (q->placed != NULL && q->placed->n > 0))
        return way;
    const struct kb_assignment *had = kb_assignments_find(&e->assignments, cand->user.index);
    if (had != NULL && had->until_ms > q->now_ms && (had->route == KB_ROUTE_POLICY) == (way.route == KB_ROUTE_POLICY)) {
        way.index = place_of(cand, ids, had->arm, "");
        if (way.index != SIZE_MAX)
            return (struct kb_way){.route = KB_ROUTE_STICKY, .index = way.index, .propensity = had->propensity};
    }
    way.assigned_until_ms = q->now_ms + r->sticky_ms;
    return way;
}

/* Sums to 1, but where an arm sticks: the one that does has the propensity of its draw, and no other can be shown. */
void kb_way_propensities(const struct kb_way *way, size_t n, double *propensity)
{
    for (size_t i = 0; i < n; i++)
        propensity[i] = way->index == SIZE_MAX ? 1.0 / (double)n : i == way->index ? way->propensity : 0;
}

/* ---- the fold ------------------------------------------------------------------------------------------ */

void kb_engine_stage_route(struct kb_engine *e, const struct kb_event *ev, uint32_t user)
{
    if (ev->as.decided.assigned_until_ms != 0 && user >= e->staged->n_assigned)
        e->staged->n_assigned = (size_t)user + 1;
}

void kb_engine_take_route(struct kb_engine *e, const struct kb_event *ev, struct kb_pending_entry *entry)
{
    const struct kb_assignment *had = kb_assignments_find(&e->assignments, entry->user);
    const bool is_repeat = ev->as.decided.route == KB_ROUTE_STICKY;

    entry->route = !is_repeat ? ev->as.decided.route : had != NULL ? had->route : KB_ROUTE_POLICY;
    e->routes[entry->route].decided++;
    e->routes[entry->route].repeated += is_repeat;
    if (ev->as.decided.has_match) {
        e->n_compared++;
        e->match_sum += ev->as.decided.match;
    }
    if (ev->as.decided.assigned_until_ms == 0)
        return;
    const struct kb_assignment drawn = {.arm = entry->slot[0].arm,
                                        .route = entry->route,
                                        .propensity = ev->as.decided.propensity,
                                        .until_ms = ev->as.decided.assigned_until_ms};
    kb_assignments_put(&e->assignments, entry->user, &drawn);
}

void kb_engine_count_reward(struct kb_engine *e, const struct kb_pending_entry *entry,
                            const struct kb_pending_slot *slot, double d_count, double d_sum, double d_square)
{
    struct kb_route_stats *s = &e->routes[entry->route];

    if (slot != entry->slot)
        return;
    s->rewarded += d_count > 0;
    s->reward_sum += d_sum;
    s->square_sum += d_square;
    if (!(s->square_sum <= DBL_MAX)) /* no line of a log can hold more: the spread is not known any longer */
        s->square_sum = DBL_MAX;
    if (s->square_sum < 0) /* corrections, by rounding */
        s->square_sum = 0;
}
