/* Room for what a batch brings, and the end of what it replaces: nothing that readers wait for allocates, copies,
 * clears or frees more than a few words.
 *
 *   grow      beside readers: larger copies of the arrays that are too small (moves.h); tables are hashed anew here
 *   swap      under exclusion: pointers change hands
 *   collect   without it: the old arrays are freed, and whatever else apply has put onto the list (retired.h)
 *
 * Between grow and swap the batch is appended to the log, and nothing in the engine changes. When that fails, rollback
 * drops the copies, and the model is what it was to the last byte of memory.
 *
 * Cost: doubling, so O(1) copies per item over a life; the step that doubles takes O(items) of the writer's time, and
 * the memory of both arrays until collect. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "model/engine_steps.h"
#include "posterior/learning.h"

/* ---- growing ----------------------------------------------------------------------------------------- */

/* New ones are 0. */
static enum kb_err grow_doubles(struct kb_engine *e, double **at, size_t *cap_at, size_t n)
{
    if (n <= *cap_at)
        return KB_OK;
    const size_t cap = kb_grown_cap(*cap_at, n, 64);
    double *grown = kb_array(cap, 1, sizeof *grown);

    if (grown == NULL)
        return KB_ENOMEM;
    if (*cap_at > 0)
        memcpy(grown, *at, *cap_at * sizeof *grown);
    return kb_moves_take(&e->moves, at, grown, cap_at, cap);
}

/* A graph that is installed brings an array of its own, of another capacity than that of the squares. */
static enum kb_err grow_nodes(struct kb_engine *e, size_t n_users)
{
    if (n_users <= e->cap_nodes)
        return KB_OK;
    const size_t cap = kb_grown_cap(e->cap_nodes, n_users, 64);
    uint32_t *node_of = kb_regrow(NULL, cap, sizeof *node_of);
    if (node_of == NULL)
        return KB_ENOMEM;
    if (e->cap_nodes > 0)
        memcpy(node_of, e->node_of, e->cap_nodes * sizeof *node_of);
    for (size_t i = e->cap_nodes; i < cap; i++)
        node_of[i] = KB_ID_NONE;
    return kb_moves_take(&e->moves, &e->node_of, node_of, &e->cap_nodes, cap);
}

/* Whether what is staged may move the unit of the posterior in force: with its own step of forgetting, or because the
 * posterior, empty so far, has none of what a summary says has passed. */
static bool may_forget(const struct kb_engine *e)
{
    return e->posterior != NULL && (e->staged->n_points > 0 || e->staged->forgets_at_once) &&
           (e->spec.forgetting.type != KB_FORGET_NONE || e->history.unit > kb_posterior_unit(e->posterior));
}

enum kb_err kb_engine_grow(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;
    enum kb_err rc = KB_OK;

    assert(e->moves.n == 0);
    if (!s->has_users) /* else they are in copies already */
        KB_TRY(kb_ids_grow(&e->users, s->fresh_users.n, s->fresh_users.n_bytes, &e->moves));
    if (s->change == NULL) {
        KB_TRY(kb_ids_grow(&e->arm_ids, s->fresh_arms.n, s->fresh_arms.n_bytes, &e->moves));
        KB_TRY(kb_arms_grow(&e->arms, s->fresh_arms.n, &e->moves));
    }
    KB_TRY(
        grow_doubles(e, &e->surprise, &e->cap_surprise, kb_engine_is_watching(e) ? e->arm_ids.n + s->fresh_arms.n : 0));
    KB_TRY(grow_nodes(e, e->users.n + s->fresh_users.n));
    KB_TRY(grow_doubles(e, &e->square_of, &e->cap_squares, e->users.n + s->fresh_users.n));
    KB_TRY(kb_assignments_grow(&e->assignments, s->n_assigned, &e->moves));
    KB_TRY(kb_pending_grow(&e->pending, s->n_entries, e->users.n + s->fresh_users.n, &e->moves));
    KB_TRY(kb_history_grow(&e->history, s->n_points, &e->moves));
    if (e->posterior != NULL)
        KB_TRY(kb_posterior_grow(e->posterior, &e->scratch, &e->moves));
    if (may_forget(e))
        KB_TRY(kb_posterior_reserve_spare(e->posterior));
    KB_TRY(kb_retired_reserve(&e->retired, e->moves.n + KB_RETIRED_PER_EVENT * s->n_events));
out:
    return rc;
}

bool kb_engine_has_grown(const struct kb_engine *e)
{
    return e->moves.n > 0;
}

/* The list of moves is kept for the next time, its blocks are handed on. */
void kb_engine_swap(struct kb_engine *e)
{
    kb_moves_swap(&e->moves);
    for (size_t i = 0; i < e->moves.n; i++)
        kb_retired_add(&e->retired, e->moves.move[i].block, kb_free);
    e->moves.n = 0;
}

/* ---- what was replaced ------------------------------------------------------------------------------- */

void kb_engine_retire(struct kb_engine *e, void *ptr, void (*free_it)(void *))
{
    kb_retired_add(&e->retired, ptr, free_it);
}

void kb_engine_retire_ids(struct kb_engine *e, struct kb_ids *ids)
{
    kb_retired_add(&e->retired, ids->bytes, kb_free);
    kb_retired_add(&e->retired, ids->offset, kb_free);
    kb_retired_add(&e->retired, ids->slot, kb_free);
    kb_ids_init(ids, ids->key);
}

static void free_posterior(void *ptr)
{
    kb_posterior_free(ptr);
}

void kb_engine_retire_posterior(struct kb_engine *e, struct kb_posterior *p)
{
    kb_retired_add(&e->retired, p, free_posterior);
}

void kb_engine_collect(struct kb_engine *e)
{
    kb_retired_sweep(&e->retired);
}

void kb_engine_hold_retired(struct kb_engine *e)
{
    kb_retired_hold(&e->retired);
}

void kb_engine_release_retired(struct kb_engine *e)
{
    kb_retired_release(&e->retired);
}
