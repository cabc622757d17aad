/* Anchors of the user kernel: staging, solving and storing their columns (user_kernel.h).
 *
 * An anchor is pushed first and solved afterwards, since its slot decides where its column goes; a failure takes
 * the push back. Staged slots lie behind those in force, in memory that readers do not look at, so the heavy part
 * (one solve of conjugate gradients per column) needs no exclusion.
 *
 * The solver's bits do not depend on the company of a column, so `add` may cut its work into blocks of KB_CG_PANEL
 * and still give what `stage` gives one by one (test: blocks_of_anchors_equal_single_ones).
 *
 * Cost on the 41,773-node Deezer graph: 30-45 ms for a column alone, 6-11 ms each in a block of 16; with a population
 * about 0.6 of that, since B's ridge is rho + w (decisions/0009). */
#include <assert.h>

#include "alloc.h"
#include "user_kernel_impl.h"

_Static_assert(KB_CG_WIDTH == KB_CG_PANEL, "a block of solved columns fills a panel");

#define BLOCK_PAYS_FROM 4 /* fewer columns than this are solved one by one: a block always costs 16 */

/* By kernel row, not by user: under `ones` everybody finds the one anchor. */
uint32_t kb_user_kernel_find_anchor(const struct kb_user_kernel *k, struct kb_user u)
{
    return kb_anchors_find(&k->anchors, kb_user_kernel_row(k, u));
}

/* Strangers are told by two constants; the dense form has every column. */
static bool needs_column(const struct kb_user_kernel *k, struct kb_user u)
{
    return k->form == KB_FORM_COLUMNS && !is_stranger(u);
}

/* Pushes u with what is known of its diagonal; a column still to be solved brings its own. */
static uint32_t push(struct kb_user_kernel *k, struct kb_user u)
{
    bool is_trivial = k->form == KB_FORM_ONES || k->form == KB_FORM_IDENTITY;
    u = kb_user_placed(k, u);
    return kb_anchors_push(&k->anchors, kb_user_kernel_row(k, u), u,
                           is_trivial ? 1.0 : kb_user_kernel_known_diag(k, u));
}

/* Solves the columns of n <= work->width slots (pushed, with room for columns), adds what all share, stores them. */
static enum kb_err solve_slots(struct kb_user_kernel *k, struct kb_cg_work *work, const uint32_t *slots, size_t n)
{
    uint32_t nodes[KB_CG_PANEL] = {0};
    double diag[KB_CG_PANEL];
    for (size_t i = 0; i < n; i++)
        nodes[i] = k->anchors.panel[slots[i] / KB_CG_PANEL]->user[slots[i] % KB_CG_PANEL].node;
    enum kb_err rc = kb_cg_columns(&k->cg, work, nodes, n, diag);
    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        diag[i] += k->shared;
        for (size_t row = 0; row < k->n; row++)
            work->x[row * work->width + i] += k->shared;
        work->x[(size_t)nodes[i] * work->width + i] = diag[i];
        k->anchors.panel[slots[i] / KB_CG_PANEL]->diag[slots[i] % KB_CG_PANEL] = diag[i];
        atomic_store_explicit(&k->diag[nodes[i]], diag[i], memory_order_relaxed);
        kb_anchors_set_column(&k->anchors, slots[i], work->x, work->width, i);
    }
    return rc;
}

/* Push, room, solve; an error takes the push back, earlier staged slots stay. */
enum kb_err kb_user_kernel_stage_anchor(struct kb_user_kernel *k, struct kb_user u, struct kb_user_scratch *s,
                                        uint32_t *slot)
{
    size_t n_staged = k->anchors.n_staged;
    uint32_t at = kb_user_kernel_find_anchor(k, u);
    enum kb_err rc = KB_OK;
    if (at == KB_ID_NONE) {
        KB_TRY(kb_anchors_reserve(&k->anchors, 1));
        at = push(k, u);
        if (needs_column(k, u)) {
            assert(kb_user_scratch_fits(s, k));
            KB_TRY(kb_anchors_reserve_column(&k->anchors, at));
            KB_TRY(solve_slots(k, &s->work, &at, 1));
        }
    }
    *slot = at;
    return KB_OK;
out:
    kb_anchors_truncate(&k->anchors, n_staged);
    return rc;
}

void kb_user_kernel_commit_anchor(struct kb_user_kernel *k, uint32_t slot)
{
    kb_anchors_commit(&k->anchors, slot);
}

void kb_user_kernel_discard_anchors(struct kb_user_kernel *k)
{
    kb_anchors_truncate(&k->anchors, 0);
}

/* Solves the columns of all listed slots: by blocks, and what is too little for a block one by one. */
static enum kb_err solve_all(struct kb_user_kernel *k, const uint32_t *slots, size_t n, struct kb_user_scratch *s)
{
    struct kb_cg_work block = {0};
    enum kb_err rc = KB_OK;
    if (n >= BLOCK_PAYS_FROM)
        KB_TRY(kb_cg_work_init(&block, k->n, KB_CG_WIDTH));
    for (size_t i = 0; i < n;) {
        size_t left = n - i, step = left < KB_CG_WIDTH ? left : KB_CG_WIDTH;
        step = left < BLOCK_PAYS_FROM ? 1 : step;
        KB_TRY(solve_slots(k, step == 1 ? &s->work : &block, slots + i, step));
        i += step;
    }
out:
    kb_cg_work_close(&block);
    return rc;
}

/* All users are pushed first, so repeats within the list find their slot; then all open columns are solved and the
 * whole is committed, or nothing is. */
enum kb_err kb_user_kernel_add_anchors(struct kb_user_kernel *k, const struct kb_user *users, size_t n, uint32_t *slots,
                                       struct kb_user_scratch *s)
{
    enum kb_err rc = KB_OK;
    size_t n_open = 0;
    assert(k->anchors.n_staged == 0);
    uint32_t *open = kb_array(n, 1, sizeof *open); /* slots whose column is still to be solved */
    if (open == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        slots[i] = kb_user_kernel_find_anchor(k, users[i]);
        if (slots[i] != KB_ID_NONE)
            continue;
        KB_TRY(kb_anchors_reserve(&k->anchors, 1));
        slots[i] = push(k, users[i]);
        if (!needs_column(k, users[i]))
            continue;
        KB_TRY(kb_anchors_reserve_column(&k->anchors, slots[i]));
        open[n_open++] = slots[i];
    }
    KB_TRY(solve_all(k, open, n_open, s));
    if (k->anchors.n_staged > 0)
        kb_anchors_commit(&k->anchors, (uint32_t)(k->anchors.n + k->anchors.n_staged - 1));
out:
    if (rc != KB_OK)
        kb_anchors_truncate(&k->anchors, 0);
    kb_free(open);
    return rc;
}
