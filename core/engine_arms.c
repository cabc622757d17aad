/* Events that change the catalogue of arms.
 *
 * A change of a few arms is made where they are, in apply. A large one, or one that replaces a large catalogue, is made
 * beside readers, in a copy of the table with the new arms' ids in copies of theirs, and apply swaps the copies in:
 * what readers wait for does not grow with the catalogue. Both leave the same state (test:
 * a_large_change_equals_many_small_ones).
 *
 * The event stands in a batch of its own (is_heavy), so nothing else moves between the copy and the swap. */
#include "engine_impl.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "grow.h"

static enum kb_err check_put(const struct kb_engine *e, const struct kb_event *ev, struct kb_ids *seen,
                             struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        const struct kb_ev_arm *arm = &ev->as.arms.put[i];

        if (e->spec.arm_dim > 0 && arm->features == NULL)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/features", "expected %u numbers", e->spec.arm_dim);
        if (kb_ids_find(seen, arm->id) != KB_ID_NONE)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/id", "'%.100s' stands twice", arm->id);
        if (kb_ids_reserve(seen, 1, strlen(arm->id) + 1) != KB_OK)
            return KB_ENOMEM;
        kb_ids_add(seen, arm->id);
    }
    return KB_OK;
}

static enum kb_err check_remove(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.arms.n_remove; i++) {
        const uint32_t ix = kb_ids_find(&e->arm_ids, ev->as.arms.remove[i]);

        if (ix == KB_ID_NONE || !e->arms.arm[ix].is_in_catalogue)
            return kb_fail_item(KB_ECONFLICT, msg, "/remove", i, "", "'%.100s' is not in the catalogue",
                                ev->as.arms.remove[i]);
    }
    return KB_OK;
}

static enum kb_err stage_features(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = &e->staged;
    const size_t dim = e->spec.arm_dim;

    s->features = kb_array(ev->as.arms.n_put + 1, 1, sizeof(double *));
    if (s->features == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < ev->as.arms.n_put; i++, s->n_features++) {
        if (dim == 0)
            continue;
        s->features[i] = kb_array(dim, 1, sizeof(double));
        if (s->features[i] == NULL)
            return KB_ENOMEM;
        memcpy(s->features[i], ev->as.arms.put[i].features, dim * sizeof(double));
    }
    return KB_OK;
}

/* ---- large changes ------------------------------------------------------------------------------------- */

static bool is_large(const struct kb_engine *e, const struct kb_event *ev)
{
    return ev->as.arms.n_put + ev->as.arms.n_remove + (ev->as.arms.is_replace ? e->arms.n_catalogue : 0) >
           KB_SMALL_CHANGE;
}

/* Before apply `arms` is the catalogue to come; after it, the one that was. */
struct kb_catalogue {
    struct kb_arms arms;
    double **gone; /* [n_gone] features that are no longer in force, once it is applied */
    size_t n_gone;
    bool is_applied;
};

void kb_catalogue_free(void *change)
{
    struct kb_catalogue *c = change;

    if (c == NULL)
        return;
    for (size_t i = 0; c->is_applied && i < c->n_gone; i++)
        kb_free(c->gone[i]);
    kb_free(c->gone);
    kb_free(c->arms.arm); /* its features are the other one's as well, or in the list */
    kb_free(c);
}

/* Counts move only with events of the traffic, none of which is in the batch. */
static enum kb_err copy_arms(const struct kb_engine *e, struct kb_arms *to)
{
    const size_t n = e->arms.n + e->staged.fresh_arms.n, cap = kb_grown_cap(e->arms.cap, n, 16);

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

/* What apply does for a small change. The new features stay the stage's until apply. */
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
        c->gone[c->n_gone++] = kb_arms_put(&c->arms, ix, e->staged.features[i], ev->as.arms.put[i].is_active);
    }
out:
    return rc;
}

static enum kb_err stage_change(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = &e->staged;
    struct kb_catalogue *c = kb_array(1, 1, sizeof *c);
    enum kb_err rc = KB_OK;

    if (c == NULL)
        return KB_ENOMEM;
    s->change = c;
    c->gone = kb_array(e->arms.n_catalogue + ev->as.arms.n_remove + ev->as.arms.n_put + 1, 1, sizeof(double *));
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
    struct kb_staged *s = &e->staged;
    struct kb_catalogue *c = s->change;
    const struct kb_arms old = e->arms;

    kb_engine_swap_staged(e);
    e->arms = c->arms;
    c->arms = old;
    c->is_applied = true;
    kb_engine_retire(e, c, kb_catalogue_free);
    s->change = NULL;
    kb_engine_retire(e, s->features, kb_free);
    s->features = NULL;
    s->n_features = 0;
}

/* ---- the event ----------------------------------------------------------------------------------------- */

static enum kb_err reserve_arms(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_ids seen;
    uint32_t ix = 0;
    enum kb_err rc = KB_OK;

    kb_ids_init(&seen);
    KB_TRY(check_put(e, ev, &seen, msg));
    KB_TRY(check_remove(e, ev, msg));
    KB_TRY(kb_engine_begin_heavy(e));
    for (size_t i = 0; i < ev->as.arms.n_put; i++)
        KB_TRY(kb_engine_stage_arm(e, ev->as.arms.put[i].id, &ix));
    KB_TRY(stage_features(e, ev));
    if (is_large(e, ev))
        rc = stage_change(e, ev);
    else
        rc = kb_retired_reserve(&e->retired, KB_RETIRED_PER_EVENT + e->arms.n_catalogue + ev->as.arms.n_put);
out:
    kb_ids_close(&seen);
    return rc;
}

static void apply_arms(struct kb_engine *e, const struct kb_event *ev)
{
    if (e->staged.change != NULL) {
        apply_change(e);
        return;
    }
    for (uint32_t i = 0; ev->as.arms.is_replace && i < e->arms.n; i++)
        if (e->arms.arm[i].is_in_catalogue)
            kb_engine_retire(e, kb_arms_remove(&e->arms, i), kb_free);
    for (size_t i = 0; i < ev->as.arms.n_remove; i++)
        kb_engine_retire(e, kb_arms_remove(&e->arms, kb_ids_find(&e->arm_ids, ev->as.arms.remove[i])), kb_free);
    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        const uint32_t ix = kb_engine_intern_arm(e, ev->as.arms.put[i].id);

        kb_engine_retire(e, kb_arms_put(&e->arms, ix, e->staged.features[i], ev->as.arms.put[i].is_active), kb_free);
        e->staged.features[i] = NULL;
    }
}

const struct kb_event_ops kb_ops_arms = {.reserve = reserve_arms, .apply = apply_arms};
