/* Getters, counts and the digest of the engine. */
#include "model/engine_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define ONE_SIDED_LEAST 100u /* decisions */

enum kb_decision_state kb_engine_decision_state(const struct kb_engine *e, const char *decision)
{
    const struct kb_pending_entry *entry = kb_pending_find(&e->pending, decision);

    if (entry == NULL)
        return KB_DECISION_UNKNOWN;
    return entry->is_deferred ? KB_DECISION_DEFERRED : KB_DECISION_PENDING;
}

enum kb_err kb_engine_slot_reward(const struct kb_engine *e, const char *decision, const char *arm, bool *has_reward,
                                  double *reward)
{
    const struct kb_pending_entry *entry = kb_pending_find(&e->pending, decision);
    const uint32_t ix = arm != NULL ? kb_ids_find(&e->arm_ids, arm) : KB_ID_NONE;

    if (entry == NULL || (arm != NULL && ix == KB_ID_NONE))
        return KB_ENOTFOUND;
    for (size_t i = 0; i < entry->n_slots; i++) {
        if (arm != NULL && entry->slot[i].arm != ix)
            continue;
        *has_reward = entry->slot[i].has_reward;
        *reward = entry->slot[i].reward;
        return KB_OK;
    }
    return KB_ENOTFOUND;
}

const char *kb_engine_slot_arm(const struct kb_engine *e, const char *decision, const char *slot)
{
    const struct kb_pending_entry *entry = kb_pending_find(&e->pending, decision);

    for (size_t i = 0; entry != NULL && i < entry->n_slots; i++)
        if (entry->slot[i].name != NULL && strcmp(entry->slot[i].name, slot) == 0)
            return kb_ids_str(&e->arm_ids, entry->slot[i].arm);
    return NULL;
}

/* A user who is not known yet may be one of those whom something reserved brings. */
static bool is_to_be_shown(const struct kb_engine *e, uint32_t user)
{
    const struct kb_staged *s = e->staged;

    for (size_t i = 0; i < s->n_shown; i++)
        if (s->shown[i] == user || (user == KB_ID_NONE && s->shown[i] >= e->users.n))
            return true;
    return false;
}

enum kb_err kb_engine_shown(const struct kb_engine *e, const char *user, const char **ids, size_t max, size_t *n)
{
    const uint32_t ix = kb_ids_find(&e->users, user);

    *n = 0;
    if (is_to_be_shown(e, ix))
        return KB_EBUSY;
    const struct kb_pending_entry *entry = ix != KB_ID_NONE ? kb_pending_newest(&e->pending, ix) : NULL;
    for (; entry != NULL && *n < max; entry = entry->older) {
        if (entry->is_reserved)
            return KB_EBUSY;
        ids[(*n)++] = entry->id;
    }
    return KB_OK;
}

enum kb_err kb_engine_waiting(const struct kb_engine *e, const char *user, const char **id)
{
    const uint32_t ix = kb_ids_find(&e->users, user);

    *id = NULL;
    if (is_to_be_shown(e, ix))
        return KB_EBUSY;
    const struct kb_pending_entry *entry = ix != KB_ID_NONE ? kb_pending_waiting(&e->pending, ix) : NULL;
    if (entry != NULL && entry->is_reserved)
        return KB_EBUSY;
    const struct kb_pending_entry *shown = entry != NULL ? kb_pending_newest(&e->pending, ix) : NULL;
    if (entry != NULL && (shown == NULL || shown->expires_at_ms < entry->expires_at_ms))
        *id = entry->id;
    return KB_OK;
}

int64_t kb_engine_next_expiry(const struct kb_engine *e)
{
    return kb_pending_next_expiry(&e->pending);
}

size_t kb_engine_active_arms(const struct kb_engine *e)
{
    return e->arms.n_active;
}

size_t kb_engine_expired(struct kb_engine *e, int64_t now_ms, const char **ids, size_t max)
{
    return kb_pending_expired(&e->pending, now_ms, ids, max);
}

static size_t engine_bytes(const struct kb_engine *e)
{
    const size_t posterior = e->posterior != NULL ? kb_posterior_bytes(e->posterior) : 0;
    const size_t ids = e->users.cap_bytes + e->arm_ids.cap_bytes + (e->users.cap + e->arm_ids.cap) * sizeof(size_t) +
                       (e->users.n_slots + e->arm_ids.n_slots) * sizeof(uint32_t);

    return sizeof(struct kb_engine_whole) + ids + e->cap_nodes * sizeof *e->node_of +
           e->cap_squares * sizeof *e->square_of + e->cap_surprise * sizeof *e->surprise +
           kb_history_bytes(&e->history) + kb_user_graph_bytes(&e->graph) + e->pending.bytes +
           e->pending.n_slots * KB_PENDING_SLOT_BYTES + e->pending.cap_users * sizeof *e->pending.newest +
           e->arms.cap * sizeof(struct kb_arm) + e->arms.n_catalogue * e->spec.arm_dim * sizeof(double) +
           e->arms.rules_bytes + e->assignments.cap * sizeof *e->assignments.of + posterior;
}

/* Of the first ONE_SIDED_LEAST decisions nothing is said. Squares and sums are rounded as they are added up. */
static bool is_one_sided(const struct kb_engine *e)
{
    double n = 0, sum = 0, squares = 0;

    for (size_t i = 0; i < KB_ROUTE_N; i++) {
        n += (double)e->routes[i].rewarded;
        sum += e->routes[i].reward_sum;
        squares += e->routes[i].square_sum;
    }
    return !e->spec.has_default_reward && e->n_decided >= ONE_SIDED_LEAST && n > 0 && 2 * n <= (double)e->n_decided &&
           fabs(n * squares - sum * sum) <= 1e-9 * sum * sum;
}

void kb_engine_counts(const struct kb_engine *e, struct kb_engine_counts *out)
{
    *out = (struct kb_engine_counts){
        .seq = e->seq,
        .version = e->version,
        .decided = e->n_decided,
        .rewarded = e->n_rewarded,
        .observed = e->n_observed,
        .expired = e->n_expired,
        .late = e->n_late,
        .pending = e->pending.n,
        .learned = (uint64_t)e->history.n_observed,
        .valued = (uint64_t)e->history.n_observed + e->n_unlearned,
        .compared = e->n_compared,
        .match_sum = e->match_sum,
        .halvings = kb_decay_halvings(&e->decay, &e->spec.forgetting),
        .n_changes = e->decay.n_changes,
        .last_change = e->decay.last_change,
        .reward_sum = e->reward_sum,
        .users = e->users.n,
        .arms = e->arms.n_catalogue,
        .active_arms = e->arms.n_active,
        .stopped_arms = e->arms.n_stopped,
        .history_rows = e->history.n,
        .n_support = e->posterior != NULL ? kb_posterior_n_support(e->posterior) : 0,
        .width = e->posterior != NULL ? (size_t)round(kb_posterior_width(e->posterior)) : 0,
        .pending_bytes = e->pending.bytes,
        .bytes = engine_bytes(e),
        .clamped = e->posterior != NULL ? kb_posterior_n_clamped(e->posterior) : 0,
        .is_one_sided = is_one_sided(e),
    };
    memcpy(out->routes, e->routes, sizeof out->routes);
}

size_t kb_engine_n_arms(const struct kb_engine *e)
{
    return e->arms.n;
}

struct kb_arm_view kb_engine_arm(const struct kb_engine *e, size_t i)
{
    const struct kb_arm *arm = &e->arms.arm[i];

    assert(i < e->arms.n);
    return (struct kb_arm_view){.id = kb_ids_str(&e->arm_ids, (uint32_t)i),
                                .features = arm->parts.features,
                                .eligibility = arm->parts.eligibility,
                                .value = arm->parts.value,
                                .is_stopped = arm->is_stopped,
                                .is_in_catalogue = arm->is_in_catalogue,
                                .is_active = arm->is_active,
                                .decided = arm->decided,
                                .rewarded = arm->rewarded,
                                .reward_sum = arm->reward_sum,
                                .square_sum = arm->square_sum};
}

const char *kb_engine_arm_value(const struct kb_engine *e, const char *arm)
{
    const uint32_t ix = kb_ids_find(&e->arm_ids, arm);

    return ix != KB_ID_NONE ? e->arms.arm[ix].parts.value : NULL;
}

bool kb_engine_has_targets(const struct kb_engine *e)
{
    for (size_t i = 0; i < e->arms.n; i++)
        if (e->arms.arm[i].is_active && !e->arms.arm[i].is_stopped && e->arms.arm[i].parts.eligibility != NULL)
            return true;
    return false;
}

uint64_t kb_engine_version(const struct kb_engine *e)
{
    return e->version;
}

const struct kb_spec *kb_engine_spec(const struct kb_engine *e)
{
    return &e->spec;
}

const struct kb_tuning *kb_engine_tunings(const struct kb_engine *e, size_t *n)
{
    *n = e->n_tunings;
    return e->tuning;
}

const struct kb_graph *kb_engine_graph(const struct kb_engine *e)
{
    return kb_engine_last_graph(e)->graph;
}

struct kb_graph_ref *kb_engine_hold_graph(const struct kb_engine *e)
{
    return kb_graph_ref_hold(kb_engine_is_rebuilding(e) && e->build->has_graph ? e->build->graph : e->graph_ref);
}

const struct kb_ids *kb_engine_users(const struct kb_engine *e)
{
    return &e->users;
}

const char *kb_engine_user(const struct kb_engine *e, uint32_t user)
{
    return kb_ids_str(&e->users, user);
}

bool kb_engine_knows_user(const struct kb_engine *e, const char *id)
{
    return kb_ids_find(&e->users, id) != KB_ID_NONE;
}

const char *kb_engine_arm_id(const struct kb_engine *e, uint32_t arm)
{
    return kb_ids_str(&e->arm_ids, arm);
}

const struct kb_posterior *kb_engine_posterior(const struct kb_engine *e)
{
    return e->posterior;
}

static uint64_t ids_digest(const struct kb_ids *ids, uint64_t h)
{
    return kb_hash_array(kb_hash_u64(h, ids->n), ids->bytes, ids->n_bytes);
}

static uint64_t routes_digest(const struct kb_engine *e, uint64_t h)
{
    for (size_t i = 0; i < KB_ROUTE_N; i++) {
        const struct kb_route_stats *s = &e->routes[i];

        h = kb_hash_u64(kb_hash_u64(kb_hash_u64(h, s->decided), s->repeated), s->rewarded);
        h = kb_hash_double(kb_hash_double(h, s->reward_sum), s->square_sum);
    }
    return h;
}

/* What there was not, before it could be, is no part of a digest. */
static uint64_t late_digest(const struct kb_engine *e, uint64_t h)
{
    if (e->n_unlearned > 0)
        h = kb_hash_u64(kb_hash_str(h, "unlearned"), e->n_unlearned);
    return e->n_compared > 0 ? kb_hash_double(kb_hash_u64(kb_hash_str(h, "match"), e->n_compared), e->match_sum) : h;
}

uint64_t kb_engine_content_digest(const struct kb_engine *e)
{
    uint64_t h = kb_spec_digest(&e->spec, kb_spec_digest(&e->configured, KB_HASH_INIT));

    h = ids_digest(&e->arm_ids, ids_digest(&e->users, h));
    h = kb_arms_digest(&e->arms, e->spec.arm_dim, h);
    h = kb_user_graph_digest(&e->graph, h);
    h = kb_history_content_digest(&e->history, h);
    h = kb_hash_u64(kb_hash_u64(kb_hash_u64(h, e->n_decided), e->n_rewarded), e->n_observed);
    h = late_digest(e, kb_hash_double(kb_hash_u64(h, e->n_expired), e->reward_sum));
    return e->posterior != NULL ? kb_posterior_content_digest(e->posterior, h) : h;
}

/* Configuration, place in the log, and what it names. */
static uint64_t names_digest(const struct kb_engine *e)
{
    uint64_t h = kb_spec_digest(&e->configured, KB_HASH_INIT);

    h = kb_spec_digest(&e->spec, h);
    h = kb_hash_u64(kb_hash_u64(h, e->version), e->seq);
    h = ids_digest(&e->arm_ids, ids_digest(&e->users, h));
    h = kb_arms_digest(&e->arms, e->spec.arm_dim, h);
    return kb_user_graph_digest(&e->graph, h);
}

static uint64_t counters_digest(const struct kb_engine *e, uint64_t h)
{
    h = routes_digest(e, h);
    h = kb_hash_u64(kb_hash_u64(kb_hash_u64(h, e->n_decided), e->n_rewarded), e->n_observed);
    h = kb_hash_u64(kb_hash_u64(kb_hash_u64(h, e->n_expired), e->n_late), e->reset_rows);
    h = late_digest(e, kb_hash_double(kb_hash_double(h, e->reset_count), e->reward_sum));
    return e->build != NULL ? kb_hash_u64(kb_hash_u64(h, e->build->from), e->build->is_point) : h;
}

static uint64_t tunings_digest(const struct kb_engine *e, uint64_t h)
{
    for (size_t i = 0; i < e->n_tunings; i++)
        h = kb_tuning_digest(&e->tuning[i], h);
    return h;
}

uint64_t kb_engine_logical_digest(const struct kb_engine *e)
{
    uint64_t h = names_digest(e);

    if (kb_decay_is_none(&e->decay))
        h = kb_pending_digest(&e->pending, kb_history_digest(&e->history, h));
    else
        h = kb_pending_logical_digest(&e->pending,
                                      kb_decay_events_digest(&e->decay, kb_history_points_digest(&e->history, h)));
    h = counters_digest(e, kb_assignments_digest(&e->assignments, h));
    h = tunings_digest(e, h);
    return e->posterior != NULL ? kb_posterior_dictionary_digest(e->posterior, h) : h;
}

uint64_t kb_engine_digest(const struct kb_engine *e)
{
    uint64_t h = names_digest(e);

    h = kb_decay_digest(&e->decay, kb_history_digest(&e->history, h));
    h = kb_engine_surprise_digest(e, h);
    h = kb_assignments_digest(&e->assignments, kb_pending_digest(&e->pending, h));
    h = counters_digest(e, h);
    if (e->spec.is_tuned)
        h = kb_reward_sums_digest(&e->sums, h);
    h = tunings_digest(e, h);
    return e->posterior != NULL ? kb_posterior_digest(e->posterior, h) : h;
}
