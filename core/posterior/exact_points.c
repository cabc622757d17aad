/* The distinct points of an exact posterior, with what was observed at each: what post_exact.c and post_diagonal.c
 * share, whether or not there is a factor over them.
 *
 *   U      the support: points distinct to the kernel, in the order in which they were first learned at
 *   n_i    observations at point i; under forgetting their weight, KB_LEAST_COUNT where nothing is left
 *   S_i    sum of the rewards, weighted alike
 *
 * The index of U by point is read by decisions, too, where there is no factor: it changes with a learning step, and
 * moves with the other arrays (moves.h).
 *
 * Cost: O(dim) per look-up; O(1) more per point that enters; O(|U|) to fade, to save and to load. */
#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "posterior/exact.h"
#include "posterior/noisy_gram.h"

enum kb_err kb_exact_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_exact *e = kb_exact_of(p);
    kb_chol_init(&e->f);
    kb_chol_init(&e->spare);
    kb_point_index_init(&e->index);
    p->max_support = p->kernel.has_levels || kb_spec_is_unbounded(spec) ? SIZE_MAX : spec->repr.exact_limit;
    return KB_OK;
}

void kb_exact_close(struct kb_posterior *p)
{
    struct kb_exact *e = kb_exact_of(p);
    kb_chol_close(&e->f);
    kb_chol_close(&e->spare);
    kb_free(e->count);
    kb_free(e->sum);
    kb_free(e->w);
    kb_point_index_close(&e->index);
}

/* --- room and look-up --------------------------------------------------------------------------------------- */

size_t kb_exact_point_bytes(const struct kb_posterior *p)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    return 2 * p->cap * sizeof(double) + e->index.n_slots * sizeof *e->index.slot;
}

enum kb_err kb_exact_grow_points(struct kb_posterior *p, size_t n, struct kb_moves *m)
{
    enum kb_err rc;
    struct kb_exact *e = kb_exact_of(p);
    KB_TRY(kb_moves_add(m, &e->count, p->support.n, n, sizeof *e->count, NULL));
    KB_TRY(kb_moves_add(m, &e->sum, p->support.n, n, sizeof *e->sum, NULL));
    KB_TRY(kb_point_index_grow(&e->index, n, &p->kernel, &p->support, m));
out:
    return rc;
}

uint32_t kb_exact_find(const struct kb_exact *e, const struct kb_point *pt)
{
    return kb_point_index_find(&e->index, &e->base.kernel, &e->base.support, pt);
}

bool kb_exact_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt)
{
    return kb_exact_find(kb_exact_of_const(p), pt) == KB_POINT_NONE;
}

/* --- points ------------------------------------------------------------------------------------------------- */

/* A new last support point, without observations yet. Room reserved. */
static void push_point(struct kb_exact *e, const struct kb_point *pt, uint32_t anchor)
{
    size_t i = e->base.support.n;
    kb_support_push(&e->base.support, pt, anchor);
    e->count[i] = e->sum[i] = 0;
    kb_point_index_add(&e->index, &e->base.kernel, &e->base.support, i);
}

uint32_t kb_exact_enter(struct kb_exact *e, const struct kb_point *pt)
{
    uint32_t anchor = kb_user_kernel_find_anchor(e->base.kernel.user, pt->user);
    assert(anchor != KB_ID_NONE && e->base.support.n < e->base.cap);
    kb_user_kernel_commit_anchor(e->base.kernel.user, anchor);
    push_point(e, pt, anchor);
    return (uint32_t)e->base.support.n - 1;
}

/* One row of the history, where it counts. */
static enum kb_err collect_row(struct kb_exact *e, const struct kb_history *h, const uint32_t *node_of, size_t row)
{
    struct kb_point pt = kb_history_point(h, node_of, row);
    double count = kb_history_count(h, row);
    if (!(count >= KB_LEAST_COUNT) || kb_kernel_ignores(&e->base.kernel, &pt))
        return KB_OK;
    uint32_t i = kb_exact_find(e, &pt);
    if (i == KB_POINT_NONE && e->takes != NULL && !e->takes(e, &pt, count))
        return KB_OK;
    if (i == KB_POINT_NONE) {
        i = (uint32_t)e->base.support.n;
        enum kb_err rc = kb_posterior_reserve(&e->base, i + (size_t)1);
        if (rc != KB_OK)
            return rc;
        push_point(e, &pt, KB_ID_NONE);
    }
    e->count[i] += count;
    e->sum[i] += kb_history_sum(h, row);
    return KB_OK;
}

enum kb_err kb_exact_collect(struct kb_exact *e, const struct kb_history *h, const uint32_t *node_of,
                             struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;
    assert(e->base.support.n == 0);
    for (size_t row = 0; row < h->n; row++)
        KB_TRY(collect_row(e, h, node_of, row));
    KB_TRY(kb_posterior_fit_for(&e->base, s, e->base.support.n, 0));
    KB_TRY(kb_posterior_anchor_support(&e->base, 0, s));
out:
    return rc;
}

void kb_exact_fade(struct kb_exact *e, double left)
{
    for (size_t i = 0; i < e->base.support.n; i++) {
        double count = kb_count_left(e->count[i], left);
        e->sum[i] *= count / e->count[i];
        e->count[i] = count;
    }
}

/* --- snapshot ----------------------------------------------------------------------------------------------- */

void kb_exact_save_points(const struct kb_exact *e, struct kb_writer *w)
{
    kb_put_doubles(w, e->count, e->base.support.n);
    kb_put_doubles(w, e->sum, e->base.support.n);
}

enum kb_err kb_exact_load_points(struct kb_exact *e, struct kb_reader *r)
{
    const size_t n = e->base.support.n;
    kb_get_doubles(r, e->count, n);
    kb_get_doubles(r, e->sum, n);
    if (r->rc != KB_OK)
        return r->rc;
    for (size_t i = 0; i < n; i++) {
        if (!(e->count[i] > 0) || !isfinite(e->count[i]) || !isfinite(e->sum[i]))
            return KB_ECORRUPT;
    }
    kb_point_index_add(&e->index, &e->base.kernel, &e->base.support, 0);
    return KB_OK;
}
