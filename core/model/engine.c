/* The engine: life cycle and the one path by which events change it.
 *
 * Letters: e engine, ev event, ix interned index, seq log sequence number.
 *
 * reserve gets what an event needs into `staged` without touching what readers see; grow makes larger copies of the
 * visible arrays and swap puts them in place; apply moves staged things over. Nothing large is allocated, copied,
 * cleared or freed where readers wait: what is replaced goes onto a list (`retired`), which collect empties. Staged
 * counts are dropped when the last event of the batch has been applied, or by rollback. */
#include "model/engine_impl.h"
#include "base/magnitude.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_background.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "posterior/learning.h"

static const struct kb_event_ops *const OPS[] = {
    [KB_EV_CONFIGURED] = &kb_ops_configured,
    [KB_EV_GRAPH] = &kb_ops_graph,
    [KB_EV_ARMS] = &kb_ops_arms,
    [KB_EV_DECIDED] = &kb_ops_decided,
    [KB_EV_REWARDED] = &kb_ops_rewarded,
    [KB_EV_OBSERVED] = &kb_ops_observed,
    [KB_EV_EXPIRED] = &kb_ops_expired,
    [KB_EV_ACTIVATED] = &kb_ops_activated,
    [KB_EV_DICTIONARY] = &kb_ops_dictionary,
    [KB_EV_LATE] = &kb_ops_late,
    [KB_EV_SUMMARY] = &kb_ops_summary,
    [KB_EV_REDACTED] = &kb_ops_redacted,
    [KB_EV_TUNED] = &kb_ops_dictionary,
    [KB_EV_MEASURED] = &kb_ops_measured,
    [KB_EV_FORGOTTEN] = &kb_ops_forgotten,
};

enum kb_err kb_engine_new(struct kb_engine **out, struct kb_hash_key key)
{
    struct kb_engine_whole *whole = kb_array(1, 1, sizeof *whole);

    if (whole == NULL)
        return KB_ENOMEM;
    struct kb_engine *e = &whole->engine;
    e->staged = &whole->staged;
    e->key = key;
    kb_ids_init(&e->users, key);
    kb_ids_init(&e->arm_ids, key);
    kb_ids_init(&e->staged->fresh_users, key);
    kb_ids_init(&e->staged->fresh_arms, key);
    kb_arms_init(&e->arms);
    kb_assignments_init(&e->assignments);
    kb_user_graph_init(&e->graph);
    kb_history_init(&e->history, 0, key);
    kb_pending_init(&e->pending, key);
    kb_scratch_init(&e->scratch);
    kb_reward_sums_init(&e->sums);
    e->inline_work = KB_INLINE_WORK;
    kb_moves_init(&e->moves);
    kb_retired_init(&e->retired);
    *out = e;
    return KB_OK;
}

void kb_engine_free(struct kb_engine *e)
{
    if (e == NULL)
        return;
    kb_engine_rollback(e);
    kb_ids_close(&e->staged->fresh_users);
    kb_ids_close(&e->staged->fresh_arms);
    kb_free(e->staged->entry);
    kb_free(e->staged->shown);
    kb_free(e->staged->point);
    kb_free(e->staged->block);
    kb_ids_close(&e->users);
    kb_ids_close(&e->arm_ids);
    kb_arms_close(&e->arms);
    kb_assignments_close(&e->assignments);
    kb_posterior_free(e->posterior);
    kb_free(e->open.entry);
    kb_free(e->open.point);
    kb_free(e->open.is_open);
    if (e->build != NULL)
        kb_engine_release_retired(e);
    kb_build_free(e->build);
    kb_graph_ref_release(e->graph_ref);
    kb_free(e->node_of);
    kb_free(e->square_of);
    kb_draft_free(e->draft);
    kb_history_close(&e->history);
    kb_pending_close(&e->pending);
    kb_scratch_close(&e->scratch);
    kb_retired_close(&e->retired);
    kb_free(e);
}

void kb_engine_fold_quietly_until(struct kb_engine *e, uint64_t seq)
{
    e->quiet_until = seq;
}

struct kb_user kb_engine_user_at(const struct kb_engine *e, uint32_t user)
{
    return (struct kb_user){.index = user, .node = user < e->cap_nodes ? e->node_of[user] : KB_ID_NONE};
}

/* ---- staging --------------------------------------------------------------------------------------- */

static enum kb_err stage_id(const struct kb_ids *known, struct kb_ids *fresh, const char *id, uint32_t *ix)
{
    *ix = kb_ids_find(known, id);
    if (*ix != KB_ID_NONE)
        return KB_OK;
    if (kb_ids_reserve(fresh, 1, strlen(id) + 1) != KB_OK)
        return KB_ENOMEM;
    *ix = (uint32_t)known->n + kb_ids_add(fresh, id);
    return KB_OK;
}

enum kb_err kb_engine_stage_user(struct kb_engine *e, const char *id, uint32_t *ix)
{
    return stage_id(&e->users, &e->staged->fresh_users, id, ix);
}

enum kb_err kb_engine_stage_arm(struct kb_engine *e, const char *id, uint32_t *ix)
{
    return stage_id(&e->arm_ids, &e->staged->fresh_arms, id, ix);
}

void *kb_engine_stage_block(struct kb_engine *e, size_t n, size_t size)
{
    struct kb_staged *s = e->staged;

    if (kb_grow((void **)&s->block, &s->cap_blocks, s->n_blocks + 1, 16, sizeof *s->block) != 0)
        return NULL;
    void *block = kb_array(n > 0 ? n : 1, 1, size);
    if (block != NULL)
        s->block[s->n_blocks++] = block;
    return block;
}

/* Points are staged in order of seq; an event's first one is sought. */
const struct kb_staged_point *kb_engine_staged_point(const struct kb_engine *e, uint64_t seq)
{
    size_t low = 0, high = e->staged->n_points;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (e->staged->point[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->staged->n_points && e->staged->point[low].seq == seq ? &e->staged->point[low] : NULL;
}

/* ---- applying -------------------------------------------------------------------------------------- */

uint32_t kb_engine_intern_user(struct kb_engine *e, const char *id)
{
    const uint32_t ix = kb_ids_add(&e->users, id);

    assert(ix < e->cap_nodes);
    return ix;
}

uint32_t kb_engine_intern_arm(struct kb_engine *e, const char *id)
{
    const uint32_t ix = kb_ids_add(&e->arm_ids, id);

    kb_arms_extend(&e->arms, e->arm_ids.n);
    return ix;
}

/* ---- the path of an event -------------------------------------------------------------------------- */

/* A log may begin with a summary, which has the numbers of events that it stands for. */
static bool is_first_part(const struct kb_engine *e, const struct kb_event *ev)
{
    return !e->is_configured && e->seq == 0 && ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN;
}

/* One that leaves a posterior where there was none. */
static bool is_full_reset(const struct kb_event *ev)
{
    return ev->type == KB_EV_FORGOTTEN ||
           (kb_event_is_dictionary(ev) && ev->as.dictionary.is_reset && !ev->as.dictionary.is_begun);
}

static bool is_learning(const struct kb_event *ev)
{
    return ev->type == KB_EV_REWARDED || ev->type == KB_EV_OBSERVED || ev->type == KB_EV_EXPIRED;
}

static enum kb_err check_order(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    if (ev->type <= KB_EV_NONE || (size_t)ev->type >= sizeof OPS / sizeof OPS[0] || OPS[ev->type] == NULL)
        return kb_fail(KB_EINVAL, msg, "/type", "unknown event type %d", (int)ev->type);
    if (is_first_part(e, ev) && ev->seq > KB_MOST_NUMBER)
        return kb_fail(KB_ERANGE, msg, "/seq", "expected at most %llu", (unsigned long long)KB_MOST_NUMBER);
    if (is_first_part(e, ev))
        return e->staged->n_events > 0 ? KB_EBUSY : KB_OK;
    if (e->draft != NULL && ev->type != KB_EV_SUMMARY && ev->type != KB_EV_REDACTED)
        return kb_fail(KB_EINVAL, msg, "/type", "a summary must come to its end first");
    if (ev->seq != e->seq + e->staged->n_events + 1)
        return kb_fail(KB_EINVAL, msg, "/seq", "expected %llu", (unsigned long long)(e->seq + e->staged->n_events + 1));
    if (!e->is_configured && ev->type != KB_EV_CONFIGURED)
        return kb_fail(KB_EINVAL, msg, "/type", "the first event must be 'configured'");
    if (e->is_configured && e->posterior == NULL && !kb_engine_is_quiet(e, ev->seq) && !is_full_reset(ev))
        return kb_fail(KB_EINVAL, msg, "/type", "expected the reset that the log was folded quietly up to");
    if (e->staged->awaits_reset && (!kb_event_is_dictionary(ev) || !ev->as.dictionary.is_reset))
        return kb_fail(KB_EINVAL, msg, "/type", "a dictionary reset must follow a change of the model");
    /* A refresh or refit falls between two batches: one that has earned it ends here, however the events came. */
    if (e->staged->n_points > 0 && !kb_event_is_dictionary(ev) &&
        (kb_engine_is_refresh_due(e, e->staged->n_points) || kb_engine_is_refit_due(e, e->staged->n_points)))
        return KB_EBUSY;
    if (e->staged->is_closed || (e->staged->is_heavy && !kb_event_is_dictionary(ev)))
        return KB_EBUSY;
    return is_learning(ev) && e->spec.learns ? kb_engine_check_step(e, ev, msg) : KB_OK;
}

enum kb_err kb_engine_reserve(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const size_t n_fresh = e->staged->fresh_users.n + e->staged->fresh_arms.n;
    enum kb_err rc = check_order(e, ev, msg);

    if (rc == KB_OK)
        rc = kb_retired_reserve(&e->retired, KB_RETIRED_PER_EVENT * (e->staged->n_events + 1));
    if (rc == KB_OK)
        rc = OPS[ev->type]->reserve(e, ev, msg);
    if (rc == KB_OK) {
        e->staged->n_events++;
        return KB_OK;
    }
    if (rc == KB_ENOMEM)
        kb_fail(rc, msg, "", "%s", kb_strerror(rc));
    if (e->staged->n_events == 0)
        kb_engine_rollback(e);
    else if (e->staged->fresh_users.n + e->staged->fresh_arms.n != n_fresh)
        e->staged->is_closed = true; /* indices to come no longer agree: let the batch end here */
    return rc;
}

void kb_engine_prepare(struct kb_engine *e, const struct kb_event *ev)
{
    if (OPS[ev->type]->prepare != NULL)
        OPS[ev->type]->prepare(e, ev);
}

/* Forgets staged things that apply has not taken over. */
static void clear_stage(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;

    for (size_t i = s->next_entry; i < s->n_entries; i++)
        kb_pending_entry_free(s->entry[i]);
    for (size_t i = 0; i < s->n_blocks; i++)
        kb_free(s->block[i]);
    for (size_t i = 0; i < s->n_parts; i++)
        kb_arm_parts_free(&s->parts[i]);
    kb_free(s->parts);
    s->parts = NULL;
    s->n_entries = s->next_entry = s->n_points = s->n_blocks = s->n_parts = s->n_assigned = s->n_events = 0;
    s->n_shown = 0;
    kb_ids_close(&s->fresh_users);
    kb_ids_close(&s->fresh_arms);
    kb_catalogue_free(s->change);
    s->change = NULL;
    kb_moves_drop(&s->moves);
    s->is_heavy = s->is_closed = s->has_users = false;
    if (!s->awaits_reset)
        kb_engine_drop_model_stage(e);
}

void kb_engine_apply(struct kb_engine *e, const struct kb_event *ev)
{
    assert(e->staged->n_events > 0 && (ev->seq == e->seq + 1 || is_first_part(e, ev)));
    OPS[ev->type]->apply(e, ev);
    e->seq = ev->seq;
    if (--e->staged->n_events > 0)
        return;
    kb_engine_retire_ids(e, &e->staged->fresh_users);
    kb_engine_retire_ids(e, &e->staged->fresh_arms);
    clear_stage(e);
}

/* Marks of reserved events on open decisions. */
static void unmark(struct kb_engine *e)
{
    for (size_t i = 0; i < e->pending.n; i++)
        e->pending.due[i].entry->is_reserved = false;
}

void kb_engine_rollback(struct kb_engine *e)
{
    kb_moves_drop(&e->moves);
    if (e->staged->n_events > 0)
        unmark(e);
    if (e->posterior != NULL)
        kb_posterior_discard(e->posterior);
    if (e->build != NULL && e->lent != e->build)
        kb_build_undo(e->build);
    e->staged->awaits_reset = false;
    clear_stage(e);
}

/* Without memory to put away what publish replaces, what is kept of arms stays as it is. */
enum kb_err kb_engine_settle(struct kb_engine *e)
{
    if (e->posterior == NULL)
        return KB_OK;
    if (e->most_kept + kb_posterior_kept_bytes(e->posterior) > 0 && kb_retired_reserve(&e->retired, 1) == KB_OK)
        kb_posterior_keep_arms(e->posterior, &e->arms, e->most_kept);
    return kb_posterior_settle(e->posterior, &e->scratch);
}

bool kb_engine_has_settled(const struct kb_engine *e)
{
    return e->posterior != NULL && (kb_posterior_has_settled(e->posterior) || kb_posterior_has_kept(e->posterior));
}

void kb_engine_publish(struct kb_engine *e)
{
    if (e->posterior == NULL)
        return;
    kb_posterior_publish(e->posterior);
    kb_retired_add(&e->retired, kb_posterior_publish_arms(e->posterior), kb_free);
}

void kb_engine_set_most_kept(struct kb_engine *e, size_t bytes)
{
    e->most_kept = bytes < KB_MOST_KEPT ? bytes : KB_MOST_KEPT;
}
