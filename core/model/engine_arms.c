/* Events that change the catalogue of arms.
 *
 * A change of a few arms is made where they are, in apply. A large one, or one that replaces a large catalogue, is made
 * beside readers, in a copy of the table with the new arms' ids in copies of theirs, and apply swaps the copies in:
 * what readers wait for does not grow with the catalogue. Both leave the same state (test:
 * a_large_change_equals_many_small_ones).
 *
 * The event stands in a batch of its own (is_heavy), so nothing else moves between the copy and the swap. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"

static enum kb_err see(struct kb_ids *seen, const char *id)
{
    if (kb_ids_reserve(seen, 1, strlen(id) + 1) != KB_OK)
        return KB_ENOMEM;
    kb_ids_add(seen, id);
    return KB_OK;
}

static enum kb_err check_put(const struct kb_engine *e, const struct kb_event *ev, struct kb_ids *seen,
                             struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        const struct kb_ev_arm *arm = &ev->as.arms.put[i];

        if (e->spec.arm_dim > 0 && arm->features == NULL)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/features", "expected %u numbers: arm_dim is %u",
                                e->spec.arm_dim, e->spec.arm_dim);
        if (kb_ids_find(seen, arm->id) != KB_ID_NONE)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/id", "'%.100s' stands twice", arm->id);
        if (arm->eligibility != NULL && !kb_eligibility_is_valid(arm->eligibility))
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/eligibility", "rules beyond their limits");
        if (arm->value != NULL && strlen(arm->value) > KB_MAX_VALUE_BYTES)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/value", "expected at most %u bytes", KB_MAX_VALUE_BYTES);
        const enum kb_err rc = kb_engine_measure_features(e, arm->features, "/features", msg);
        if (rc != KB_OK)
            return kb_fail_within(rc, msg, "/arms", i);
        if (see(seen, arm->id) != KB_OK)
            return KB_ENOMEM;
    }
    return KB_OK;
}

/* Arms of the catalogue by their names, in the list that `pointer` names. */
static enum kb_err check_names(const struct kb_engine *e, const char *pointer, const char *const *ids, size_t n,
                               struct kb_errmsg *msg)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t ix = kb_ids_find(&e->arm_ids, ids[i]);

        if (ix == KB_ID_NONE || !e->arms.arm[ix].is_in_catalogue)
            return kb_fail_item(KB_ECONFLICT, msg, pointer, i, "", "'%.100s' is not in the catalogue", ids[i]);
    }
    return KB_OK;
}

/* What is switched is neither put nor removed, nor switched twice. */
static enum kb_err check_switch(const struct kb_engine *e, const char *pointer, const char *const *ids, size_t n,
                                struct kb_ids *seen, struct kb_errmsg *msg)
{
    enum kb_err rc = check_names(e, pointer, ids, n, msg);

    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        if (kb_ids_find(seen, ids[i]) != KB_ID_NONE)
            return kb_fail_item(KB_EINVAL, msg, pointer, i, "", "'%.100s' stands twice", ids[i]);
        rc = see(seen, ids[i]);
    }
    return rc;
}

static enum kb_err check_arms(const struct kb_engine *e, const struct kb_event *ev, struct kb_ids *seen,
                              struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;

    KB_TRY(check_put(e, ev, seen, msg));
    KB_TRY(check_names(e, "/remove", ev->as.arms.remove, ev->as.arms.n_remove, msg));
    if (ev->as.arms.is_replace && ev->as.arms.n_stop + ev->as.arms.n_start > 0)
        return kb_fail(KB_EINVAL, msg, "/stop", "expected in a patch alone");
    for (size_t i = 0; i < ev->as.arms.n_remove; i++)
        KB_TRY(see(seen, ev->as.arms.remove[i]));
    KB_TRY(check_switch(e, "/stop", ev->as.arms.stop, ev->as.arms.n_stop, seen, msg));
    KB_TRY(check_switch(e, "/start", ev->as.arms.start, ev->as.arms.n_start, seen, msg));
out:
    return rc;
}

static enum kb_err copy_parts(const struct kb_ev_arm *arm, size_t dim, struct kb_arm_parts *out)
{
    if (arm->eligibility != NULL && kb_eligibility_copy(arm->eligibility, &out->eligibility) != KB_OK)
        return KB_ENOMEM;
    if (arm->value != NULL && (out->value = kb_arm_value_copy(arm->value)) == NULL)
        return KB_ENOMEM;
    if (dim == 0)
        return KB_OK;
    out->features = kb_array(dim, 1, sizeof *out->features);
    if (out->features == NULL)
        return KB_ENOMEM;
    memcpy(out->features, arm->features, dim * sizeof *out->features);
    return KB_OK;
}

static enum kb_err stage_parts(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = e->staged;
    enum kb_err rc = KB_OK;

    s->parts = kb_array(ev->as.arms.n_put + 1, 1, sizeof *s->parts);
    if (s->parts == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; rc == KB_OK && i < ev->as.arms.n_put; i++)
        rc = copy_parts(&ev->as.arms.put[i], e->spec.arm_dim, &s->parts[s->n_parts++]);
    return rc;
}

/* The switches of an event, in a table that holds what it puts. */
static void turn(const struct kb_engine *e, const struct kb_event *ev, struct kb_arms *arms)
{
    for (size_t i = 0; i < ev->as.arms.n_stop; i++)
        kb_arms_stop(arms, kb_ids_find(&e->arm_ids, ev->as.arms.stop[i]), true);
    for (size_t i = 0; i < ev->as.arms.n_start; i++)
        kb_arms_stop(arms, kb_ids_find(&e->arm_ids, ev->as.arms.start[i]), false);
}

/* ---- large changes ------------------------------------------------------------------------------------- */

static bool is_large(const struct kb_engine *e, const struct kb_event *ev)
{
    return ev->as.arms.n_put + ev->as.arms.n_remove + ev->as.arms.n_stop + ev->as.arms.n_start +
               (ev->as.arms.is_replace ? e->arms.n_catalogue : 0) >
           KB_SMALL_CHANGE;
}

/* Before apply `arms` is the catalogue to come; after it, the one that was. */
struct kb_catalogue {
    struct kb_arms arms;
    struct kb_arm_parts *gone; /* [n_gone] that are no longer in force, once it is applied */
    size_t n_gone;
    bool is_applied;
};

void kb_catalogue_free(void *change)
{
    struct kb_catalogue *c = change;

    if (c == NULL)
        return;
    for (size_t i = 0; c->is_applied && i < c->n_gone; i++)
        kb_arm_parts_free(&c->gone[i]);
    kb_free(c->gone);
    kb_free(c->arms.arm); /* their parts are the other one's as well, or in the list */
    kb_free(c);
}

/* Counts move only with events of the traffic, none of which is in the batch. */
static enum kb_err copy_arms(const struct kb_engine *e, struct kb_arms *to)
{
    const size_t n = e->arms.n + e->staged->fresh_arms.n, cap = kb_grown_cap(e->arms.cap, n, 16);

    assert(e->arms.n == e->arm_ids.n);
    *to = e->arms;
    to->arm = kb_array(cap, 1, sizeof *to->arm);
    if (to->arm == NULL)
        return KB_ENOMEM;
    if (e->arms.n > 0)
        memcpy(to->arm, e->arms.arm, e->arms.n * sizeof *to->arm);
    to->n = n;
    to->cap = cap;
    return KB_OK;
}

/* What apply does for a small change. The new parts stay the stage's until apply. */
static enum kb_err change_copy(struct kb_engine *e, const struct kb_event *ev, struct kb_catalogue *c)
{
    uint32_t ix = 0;
    enum kb_err rc = KB_OK;

    for (uint32_t i = 0; ev->as.arms.is_replace && i < c->arms.n; i++)
        if (c->arms.arm[i].is_in_catalogue)
            c->gone[c->n_gone++] = kb_arms_remove(&c->arms, i);
    for (size_t i = 0; i < ev->as.arms.n_remove; i++)
        c->gone[c->n_gone++] = kb_arms_remove(&c->arms, kb_ids_find(&e->arm_ids, ev->as.arms.remove[i]));
    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        KB_TRY(kb_engine_stage_arm(e, ev->as.arms.put[i].id, &ix)); /* it is known by now */
        c->gone[c->n_gone++] = kb_arms_put(&c->arms, ix, &e->staged->parts[i], ev->as.arms.put[i].is_active,
                                           ev->as.arms.put[i].is_stopped);
    }
    turn(e, ev, &c->arms);
out:
    return rc;
}

static enum kb_err stage_change(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = e->staged;
    struct kb_catalogue *c = kb_array(1, 1, sizeof *c);
    enum kb_err rc = KB_OK;

    if (c == NULL)
        return KB_ENOMEM;
    s->change = c;
    c->gone = kb_array(e->arms.n_catalogue + ev->as.arms.n_remove + ev->as.arms.n_put + 1, 1, sizeof *c->gone);
    if (c->gone == NULL)
        return KB_ENOMEM;
    KB_TRY(copy_arms(e, &c->arms));
    KB_TRY(change_copy(e, ev, c));
    if (s->fresh_arms.n > 0)
        KB_TRY(kb_ids_join(&e->arm_ids, &s->fresh_arms, &s->moves));
out:
    return rc;
}

/* O(1). */
static void apply_change(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;
    struct kb_catalogue *c = s->change;
    const struct kb_arms old = e->arms;

    kb_engine_swap_staged(e);
    e->arms = c->arms;
    c->arms = old;
    c->is_applied = true;
    kb_engine_retire(e, c, kb_catalogue_free);
    s->change = NULL;
    kb_engine_retire(e, s->parts, kb_free);
    s->parts = NULL;
    s->n_parts = 0;
}

/* ---- the event ----------------------------------------------------------------------------------------- */

static enum kb_err reserve_arms(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_ids seen;
    uint32_t ix = 0;
    enum kb_err rc = KB_OK;

    kb_ids_init(&seen, e->key);
    KB_TRY(check_arms(e, ev, &seen, msg));
    KB_TRY(kb_engine_begin_heavy(e));
    for (size_t i = 0; i < ev->as.arms.n_put; i++)
        KB_TRY(kb_engine_stage_arm(e, ev->as.arms.put[i].id, &ix));
    KB_TRY(stage_parts(e, ev));
    if (is_large(e, ev))
        rc = stage_change(e, ev);
    else
        rc = kb_retired_reserve(&e->retired, KB_RETIRED_PER_EVENT + 3 * (e->arms.n_catalogue + ev->as.arms.n_put));
out:
    kb_ids_close(&seen);
    return rc;
}

static void retire_parts(struct kb_engine *e, struct kb_arm_parts parts)
{
    kb_engine_retire(e, parts.features, kb_free);
    kb_engine_retire(e, parts.eligibility, kb_free);
    kb_engine_retire(e, parts.value, kb_free);
}

static void apply_arms(struct kb_engine *e, const struct kb_event *ev)
{
    if (e->staged->change != NULL) {
        apply_change(e);
        return;
    }
    for (uint32_t i = 0; ev->as.arms.is_replace && i < e->arms.n; i++)
        if (e->arms.arm[i].is_in_catalogue)
            retire_parts(e, kb_arms_remove(&e->arms, i));
    for (size_t i = 0; i < ev->as.arms.n_remove; i++)
        retire_parts(e, kb_arms_remove(&e->arms, kb_ids_find(&e->arm_ids, ev->as.arms.remove[i])));
    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        const struct kb_ev_arm *put = &ev->as.arms.put[i];
        const uint32_t ix = kb_engine_intern_arm(e, put->id);

        retire_parts(e, kb_arms_put(&e->arms, ix, &e->staged->parts[i], put->is_active, put->is_stopped));
        e->staged->parts[i] = (struct kb_arm_parts){0};
    }
    turn(e, ev, &e->arms);
}

const struct kb_event_ops kb_ops_arms = {.reserve = reserve_arms, .apply = apply_arms};
