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
#include <math.h>

#include "base/alloc.h"
#include "graph/user_kernel_impl.h"

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
    return kb_user_kernel_solves(k) && !is_stranger(u);
}

/* Pushes u with what is known of its diagonal; a column still to be solved brings its own. */
static uint32_t push(struct kb_user_kernel *k, struct kb_user u)
{
    bool is_trivial = k->form == KB_FORM_ONES || k->form == KB_FORM_IDENTITY;
    u = kb_user_placed(k, u);
    return kb_anchors_push(&k->anchors, kb_user_kernel_row(k, u), u,
                           is_trivial ? 1.0 : kb_user_kernel_known_diag(k, u));
}

/* --- near columns -------------------------------------------------------------------------------------- */

/* B^-1_uu of the node: by pushes, which then wait to go on to the column (true), or by conjugate gradients. */
static bool push_diagonal(const struct kb_user_kernel *k, uint32_t node, struct kb_user_scratch *s, double *diag)
{
    kb_push_begin(&s->push, node);
    if (kb_push_diagonal(&s->push, k->cg.graph, k->cg.rho, k->spec.tolerance, diag))
        return true;
    *diag = kb_cg_diagonal(&k->cg, &s->work, node);
    return false;
}

double kb_user_kernel_solve_diag(const struct kb_user_kernel *k, uint32_t node, struct kb_user_scratch *s)
{
    double diag;
    if (k->form != KB_FORM_NEAR)
        return kb_cg_diagonal(&k->cg, &s->work, node);
    (void)push_diagonal(k, node, s, &diag);
    kb_push_clear(&s->push);
    return diag;
}

/* Entry i of a column that was solved, by pushes (the i-th touched) or by conjugate gradients (of node i). */
static double solved_entry(const struct kb_user_scratch *s, bool is_pushed, size_t i, uint32_t *node)
{
    *node = is_pushed ? s->push.touched[i] : (uint32_t)i;
    return is_pushed ? s->push.cell[*node].x : s->work.x[i];
}

/* What is above the limit, and the diagonal whatever it is, with the bits of kb_user_kernel_solve_diag. */
static enum kb_err take_entries(const struct kb_user_kernel *k, const struct kb_user_scratch *s, bool is_pushed,
                                uint32_t own, double diag, struct kb_near_column *out)
{
    const size_t n = is_pushed ? s->push.n_touched : k->n;
    const double limit = kb_user_kernel_limit(k) / k->cg.rho;
    size_t n_kept = 1;
    uint32_t node;
    for (size_t i = 0; i < n; i++)
        n_kept += fabs(solved_entry(s, is_pushed, i, &node)) > limit && node != own;
    const enum kb_err rc = kb_near_column_init(out, n_kept, k->n);
    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        const double x = solved_entry(s, is_pushed, i, &node);
        if (node == own)
            kb_near_column_put(out, node, diag);
        else if (fabs(x) > limit)
            kb_near_column_put(out, node, x);
    }
    return rc;
}

/* The diagonal is that of kb_user_kernel_solve_diag, however the column comes about. */
static enum kb_err solve_near(struct kb_user_kernel *k, uint32_t slot, struct kb_user_scratch *s)
{
    struct kb_anchor_panel *panel = k->anchors.panel[slot / KB_CG_PANEL];
    const uint32_t node = panel->user[slot % KB_CG_PANEL].node;
    struct kb_near_column near = {0};
    double diag, other;
    bool is_pushed = push_diagonal(k, node, s, &diag);
    enum kb_err rc = KB_OK;
    is_pushed = is_pushed && kb_push_column(&s->push, k->cg.graph, k->cg.rho, kb_user_kernel_limit(k));
    if (!is_pushed)
        KB_TRY(kb_cg_columns(&k->cg, &s->work, &node, 1, &other));
    KB_TRY(take_entries(k, s, is_pushed, node, diag, &near));
    kb_anchors_take_near(&k->anchors, slot, &near);
    diag += k->shared;
    panel->diag[slot % KB_CG_PANEL] = diag;
    atomic_store_explicit(&k->diag[node], diag, memory_order_relaxed);
out:
    kb_push_clear(&s->push);
    return rc;
}

/* --- whole columns ------------------------------------------------------------------------------------- */

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

/* Solves the columns of all listed slots: whole ones by blocks, and what is too little for a block one by one. */
static enum kb_err solve_all(struct kb_user_kernel *k, const uint32_t *slots, size_t n, struct kb_user_scratch *s)
{
    struct kb_cg_work block = {0};
    enum kb_err rc = KB_OK;
    for (size_t i = 0; k->form == KB_FORM_NEAR && rc == KB_OK && i < n; i++)
        rc = solve_near(k, slots[i], s);
    if (k->form == KB_FORM_NEAR)
        return rc;
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
            if (k->form == KB_FORM_COLUMNS)
                KB_TRY(kb_anchors_reserve_column(&k->anchors, at));
            KB_TRY(solve_all(k, &at, 1, s));
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
        if (k->form == KB_FORM_COLUMNS)
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
