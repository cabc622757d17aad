/* What the background is given and gives back: opening, lending and closing of builds, and what is said of them.
 *
 * The writer alone calls these, but for kb_engine_build_state, which readers may call. At most one build is open and at
 * most one is lent; they differ when the open one has taken the place of one that a worker still has. */
#include "model/engine_impl.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "model/engine_background.h"
#include "model/engine_steps.h"

void kb_engine_set_inline_work(struct kb_engine *e, double work)
{
    e->inline_work = work;
}

bool kb_engine_is_rebuilding(const struct kb_engine *e)
{
    return e->build != NULL && !e->build->is_point;
}

bool kb_engine_is_building(const struct kb_engine *e)
{
    return e->build != NULL;
}

uint64_t kb_engine_draw_key(const struct kb_engine *e, const struct kb_spec *spec)
{
    return kb_hash_u64(kb_hash_double(kb_hash_u64(KB_HASH_INIT, spec->seed), e->history.n_observed), e->history.n);
}

/* Whether a resampled dictionary for spec may be drawn from the posterior in force, and its user kernel kept: it has
 * the same kernel, which no reset learns anew, and the fold has not run ahead of it. */
static bool serves_resampling(const struct kb_engine *e, const struct kb_spec *spec, uint64_t seq)
{
    return kb_repr_is_resampled(spec->repr.type) && !kb_user_kernel_is_learned(spec->user_kernel.type) &&
           e->posterior != NULL && seq > e->quiet_until && e->staged->graph == NULL && !e->staged->awaits_reset &&
           kb_spec_same_model(spec, &e->spec);
}

/* Whether the user kernel in force is one over the graph that a reset will have. */
static bool has_graph_in_force(const struct kb_engine *e, uint64_t seq)
{
    return e->posterior != NULL && seq > e->quiet_until && e->staged->graph == NULL && !e->staged->awaits_reset &&
           !(kb_engine_is_rebuilding(e) && e->build->has_graph) && kb_repr_is_of_components(e->spec.repr.type);
}

struct kb_site kb_engine_site(struct kb_engine *e, const struct kb_spec *spec, uint64_t seq)
{
    return (struct kb_site){.history = &e->history,
                            .node_of = e->staged->graph != NULL ? e->staged->node_of : e->node_of,
                            .graph = kb_engine_coming_graph(e, spec),
                            .like = serves_resampling(e, spec, seq) ? e->posterior : NULL,
                            .users = has_graph_in_force(e, seq) ? e->posterior : NULL,
                            .key = kb_engine_draw_key(e, spec),
                            .scratch = &e->scratch};
}

/* ---- life of a build ----------------------------------------------------------------------------------- */

struct kb_build *kb_engine_new_build(struct kb_engine *e, uint64_t seq)
{
    struct kb_build *b = kb_array(1, 1, sizeof *b);

    if (b == NULL)
        return NULL;
    kb_scratch_init(&b->scratch);
    b->from = seq;
    if (kb_build_reserve(b, e->history.n + e->staged->n_points, e->users.n + e->staged->fresh_users.n) == KB_OK)
        return b;
    kb_build_free(b);
    return NULL;
}

static void free_build(void *b)
{
    kb_build_free(b);
}

/* What the build looks at is held back as long as it is there: arrays of the history that move, and the posterior that
 * a point was to enter. */
void kb_engine_open_build(struct kb_engine *e, struct kb_build *b)
{
    kb_engine_close_build(e);
    kb_engine_hold_retired(e);
    e->build = b;
}

/* Its point stops entering: the posterior learns for it no longer. */
void kb_engine_close_build(struct kb_engine *e)
{
    struct kb_build *b = e->build;

    if (b == NULL)
        return;
    if (b->is_point && b->target == e->posterior)
        kb_posterior_abandon_atom(e->posterior);
    e->build = NULL;
    if (b == e->lent) {
        kb_build_cancel(b);
        return;
    }
    kb_engine_release_retired(e);
    kb_engine_retire(e, b, free_build);
}

/* ---- the worker's side ----------------------------------------------------------------------------------- */

struct kb_build *kb_engine_lend_build(struct kb_engine *e)
{
    struct kb_build *b = e->build;

    if (b == NULL || e->lent != NULL)
        return NULL;
    if (!b->is_point && kb_build_hand_over(b, &e->history) != KB_OK)
        return NULL;
    if (kb_build_is_done(b))
        return NULL;
    atomic_store_explicit(&b->watch.is_cancelled, false, memory_order_relaxed);
    atomic_store_explicit(&b->watch.is_done, false, memory_order_relaxed);
    b->n_rounds++;
    e->lent = b;
    return b;
}

void kb_engine_return_build(struct kb_engine *e, struct kb_build *b)
{
    e->lent = NULL;
    atomic_store_explicit(&b->watch.is_done, kb_build_is_done(b), memory_order_relaxed);
    if (b == e->build)
        return;
    kb_engine_release_retired(e);
    kb_build_free(b);
    kb_engine_collect(e);
}

/* ---- what is said of it ---------------------------------------------------------------------------------- */

/* Choosing and filling pass over all rows each; a sweep passes once. The writer lends and takes back beside readers, so
 * this reads what stands still while a build is open, and the watch. */
void kb_engine_build_state(const struct kb_engine *e, struct kb_build_state *out)
{
    struct kb_build *b = e->build;

    *out = (struct kb_build_state){.is_open = b != NULL};
    if (b == NULL)
        return;
    const double total = (double)b->rows.n * (b->is_point ? 1 : 2) + 1;
    const double done = (double)atomic_load_explicit(&b->watch.done, memory_order_relaxed);

    out->is_reset = !b->is_point;
    out->from = b->from;
    out->rows = b->rows.n;
    out->is_done = atomic_load_explicit(&b->watch.is_done, memory_order_relaxed);
    out->progress = done < total ? done / total : 1;
}
