/* Builds: their view of the history, what a worker does, and what is taught afterwards. See build.h.
 *
 *     step      does                                                              cost
 *     OPEN      the empty posterior: its user kernel                              O(N^3) for a dense graph
 *     CHOOSE    the rows of its dictionary                                        O(n m (dim + m))
 *     FILL      the regression over the view                                      O(n m (dim + m) + m^3)
 *     TEACH     what was learned since `from`, one by one, in the order of the log
 *
 * A run that is told to end, or has no memory, leaves the step that it was in undone: OPEN to FILL begin again at OPEN,
 * since a half-chosen dictionary is worth nothing; what was taught stays taught. Points that are taught get no chance
 * to enter the new dictionary: chances are drawn by the model in force, and after the swap that is this one. */
#include "model/build.h"

#include <string.h>

#include "base/alloc.h"
#include "base/moves.h"
#include "model/engine_background.h"
#include "posterior/open.h"

#define TAIL_STEPS 256u /* that the writer teaches in its own turn */
#define MOST_ROUNDS 16u

/* ---- life ------------------------------------------------------------------------------------------- */

static void drop_result(struct kb_build *b)
{
    kb_posterior_free(b->posterior);
    kb_free(b->atoms);
    b->posterior = NULL;
    b->atoms = NULL;
    b->n_atoms = b->n_taught = 0;
    b->step = KB_BUILD_OPEN;
}

void kb_build_free(struct kb_build *b)
{
    if (b == NULL)
        return;
    drop_result(b);
    kb_posterior_free(b->users);
    kb_scratch_close(&b->scratch);
    kb_graph_ref_release(b->graph); /* after the posteriors that rest on it */
    kb_history_view_close(&b->rows);
    kb_free(b->node_of);
    kb_free(b->fresh);
    kb_free(b->taken);
    kb_free(b);
}

enum kb_err kb_build_reserve(struct kb_build *b, size_t n_rows, size_t n_users)
{
    b->node_of = kb_malloc((n_users + 1) * sizeof *b->node_of);
    b->scratch.watch = &b->watch;
    return b->node_of != NULL ? kb_history_view_reserve(&b->rows, n_rows) : KB_ENOMEM;
}

void kb_build_take_view(struct kb_build *b, const struct kb_history *h, const uint32_t *node_of, size_t n_users)
{
    kb_history_view_take(&b->rows, h);
    if (n_users > 0)
        memcpy(b->node_of, node_of, n_users * sizeof *node_of);
    b->n_nodes = n_users;
}

/* ---- what is taught afterwards ------------------------------------------------------------------------ */

static enum kb_err grow(struct kb_build *b)
{
    struct kb_moves moves;

    kb_moves_init(&moves);
    return kb_moves_finish(&moves, kb_posterior_grow(b->posterior, &b->scratch, &moves));
}

/* What was forgotten before the step, at the same steps as the model in force. */
static enum kb_err forget(struct kb_build *b, double unit)
{
    const enum kb_err rc = unit > kb_posterior_unit(b->posterior) ? kb_posterior_reserve_spare(b->posterior) : KB_OK;

    if (rc != KB_OK || !(unit > kb_posterior_unit(b->posterior)))
        return rc;
    kb_posterior_prepare_unit(b->posterior, unit, &b->scratch);
    kb_posterior_take_unit(b->posterior, &b->scratch);
    return KB_OK;
}

static enum kb_err teach(struct kb_build *b, const struct kb_delta *d)
{
    struct kb_point pt = kb_history_point(&b->rows, NULL, d->row);
    enum kb_err rc = KB_OK;

    if (pt.user.index < b->n_nodes)
        pt.user.node = b->node_of[pt.user.index];
    KB_TRY(kb_posterior_stage_learn(b->posterior, &pt, &b->scratch));
    KB_TRY(grow(b));
    KB_TRY(forget(b, d->unit));
    kb_posterior_learn(b->posterior, &pt, d->d_count, d->d_sum, d->d_square, &b->scratch);
out:
    if (rc != KB_OK)
        kb_posterior_discard(b->posterior);
    return rc;
}

static enum kb_err teach_taken(struct kb_build *b)
{
    enum kb_err rc = KB_OK;

    while (rc == KB_OK && b->n_taught < b->n_taken) {
        rc = teach(b, &b->taken[b->n_taught]);
        b->n_taught += rc == KB_OK;
        if (rc == KB_OK && !kb_scratch_goes_on(&b->scratch, 1))
            rc = KB_ECANCELLED;
    }
    return rc;
}

/* Behind all that it was ever given, which is wanted once more where the posterior has to be filled anew. */
enum kb_err kb_build_hand_over(struct kb_build *b, const struct kb_history *h)
{
    kb_history_view_borrow(&b->rows, h); /* arrays may have moved, and rows taught may be new */
    if (b->n_fresh == 0)
        return KB_OK;
    if (kb_grow((void **)&b->taken, &b->cap_taken, b->n_taken + b->n_fresh, 64, sizeof *b->taken) != 0)
        return KB_ENOMEM;
    memcpy(b->taken + b->n_taken, b->fresh, b->n_fresh * sizeof *b->fresh);
    b->n_taken += b->n_fresh;
    b->n_fresh = 0;
    return KB_OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */

static struct kb_site site_of(struct kb_build *b)
{
    return (struct kb_site){.history = &b->rows,
                            .node_of = b->node_of,
                            .graph = b->graph != NULL ? b->graph->graph.graph : NULL,
                            .users = b->users,
                            .key = b->key,
                            .scratch = &b->scratch};
}

/* The posterior as it would be under the values in force tells which ones fit better. */
static enum kb_err find_scales(struct kb_build *b, const struct kb_site *site)
{
    struct kb_posterior *p = NULL;
    enum kb_err rc = KB_OK;

    KB_TRY(kb_site_open_filled(site, &b->spec, &p));
    b->found = b->spec;
    KB_TRY(kb_site_find_scales(site, &b->refit, p, &b->found, &b->tuning));
    b->is_found = true;
out:
    kb_posterior_free(p);
    return rc;
}

static enum kb_err run_reset(struct kb_build *b)
{
    const struct kb_site site = site_of(b);
    enum kb_err rc = KB_OK;

    if (b->step < KB_BUILD_TEACH) {
        drop_result(b);
        atomic_store_explicit(&b->watch.done, 0, memory_order_relaxed);
        if (b->is_refit && !b->is_found)
            KB_TRY(find_scales(b, &site));
        struct kb_spec *spec = b->is_refit ? &b->found : &b->spec;
        KB_TRY(kb_site_open(&site, spec, &b->posterior));
        b->step = KB_BUILD_CHOOSE;
        KB_TRY(kb_site_choose(&site, spec, b->posterior, &b->atoms, &b->n_atoms));
        b->step = KB_BUILD_FILL;
        KB_TRY(kb_posterior_fill(b->posterior, &b->rows, b->node_of, b->atoms, b->n_atoms, &b->scratch));
        b->step = KB_BUILD_TEACH;
    }
    KB_TRY(teach_taken(b));
out:
    if (rc != KB_OK && b->step < KB_BUILD_TEACH)
        drop_result(b);
    return rc;
}

enum kb_err kb_build_run(struct kb_build *b)
{
    if (!b->is_point)
        return run_reset(b);
    if (b->is_swept)
        return KB_OK;
    atomic_store_explicit(&b->watch.done, 0, memory_order_relaxed);
    b->is_swept = kb_posterior_sweep(b->target, &b->rows, b->node_of, &b->scratch);
    return b->is_swept ? KB_OK : KB_ECANCELLED;
}

void kb_build_cancel(struct kb_build *b)
{
    atomic_store_explicit(&b->watch.is_cancelled, true, memory_order_relaxed);
}

bool kb_build_is_done(const struct kb_build *b)
{
    return b->is_point ? b->is_swept : b->step == KB_BUILD_TEACH && b->n_taught == b->n_taken;
}

bool kb_build_is_ripe(const struct kb_build *b)
{
    return kb_build_is_done(b) && (b->n_fresh <= TAIL_STEPS || b->n_rounds >= MOST_ROUNDS);
}

/* ---- finishing ---------------------------------------------------------------------------------------- */

static bool has_atoms(const struct kb_build *b, const struct kb_atom *atoms, size_t n)
{
    if (b->step != KB_BUILD_TEACH || b->n_atoms != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (b->atoms[i].row != atoms[i].row || b->atoms[i].probability != atoms[i].probability)
            return false;
    return true;
}

/* From the event's own points: nothing is chosen. */
static enum kb_err fill_as_told(struct kb_build *b, const struct kb_atom *atoms, size_t n)
{
    const struct kb_site site = site_of(b);
    enum kb_err rc = KB_OK;

    drop_result(b);
    b->atoms = kb_array(n + 1, 1, sizeof *b->atoms);
    if (b->atoms == NULL)
        return KB_ENOMEM;
    memcpy(b->atoms, atoms, n * sizeof *atoms);
    b->n_atoms = n;
    KB_TRY(kb_site_open_as(&site, &b->spec, &b->posterior));
    KB_TRY(kb_posterior_fit_scratch(b->posterior, &b->scratch, 0));
    KB_TRY(kb_posterior_fill(b->posterior, &b->rows, b->node_of, atoms, n, &b->scratch));
    b->step = KB_BUILD_TEACH;
out:
    if (rc != KB_OK)
        drop_result(b);
    return rc;
}

enum kb_err kb_build_complete(struct kb_build *b, const struct kb_history *h, const struct kb_atom *atoms, size_t n)
{
    enum kb_err rc = KB_OK;

    if (!has_atoms(b, atoms, n))
        KB_TRY(fill_as_told(b, atoms, n));
    KB_TRY(kb_build_hand_over(b, h));
    KB_TRY(teach_taken(b));
out:
    return rc;
}

void kb_build_undo(struct kb_build *b)
{
    if (b->posterior != NULL && kb_posterior_n_open(b->posterior) > 0)
        drop_result(b);
}
