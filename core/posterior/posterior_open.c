/* Open decisions in a posterior: see open.h.
 *
 * A dictionary has a second factor, of V_h, over the same features (nystrom_open.c). The others have a second posterior
 * of the same representation, whose points are those learned at and those that are open, and whose counts are the sums
 * of both: an open decision is learned there, with no reward, and one that is taken back lowers its count. Its means
 * say nothing. It holds as many points as the first one may (exact_limit); at the limit it takes no more, so a decision
 * at another point is not opened. What it knows of a point is never less than what is learned, but where such a limit
 * was met in another order (for each arm: post_by_arm.c), so of the two deviations the smaller one is taken.
 *
 * A point of which nothing is left keeps KB_LEAST_COUNT. When most are such, or a fifth where there is no room, the
 * posterior is built anew (a reset).
 *
 * Cost: a decision predicts twice while any is open; memory of two models that hold the points learned and open, each
 * at most exact_limit of them. */
#include "posterior/open.h"

#include <assert.h>
#include <math.h>

#include "posterior/posterior_impl.h"

#define DEAD_ROOM 64u

bool kb_posterior_counts_open(const struct kb_posterior *p)
{
    return p->counts_open;
}

size_t kb_posterior_n_open(const struct kb_posterior *p)
{
    return p->n_open;
}

/* --- changes ---------------------------------------------------------------------------------------------- */

enum kb_err kb_posterior_stage_open(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    assert(p->counts_open);
    return kb_posterior_stage_learn(p->beside != NULL ? p->beside : p, pt, s);
}

/* Whether the second posterior may be taught at the point. */
static bool has_room(const struct kb_posterior *p, const struct kb_point *pt)
{
    const struct kb_posterior *other = p->beside;
    return other == NULL || other->support.n < other->most_points || !other->ops->learn_adds_point(other, pt);
}

/* d_count: 1, or -1. */
static void change(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s)
{
    const size_t mark = kb_arena_mark(&s->arena);
    assert(p->counts_open);
    if (kb_kernel_ignores(&p->kernel, pt))
        return;
    if (p->beside != NULL)
        p->beside->ops->learn(p->beside, pt, d_count, 0, s);
    else
        p->ops->open(p, pt, d_count, s);
    kb_arena_reset(&s->arena, mark);
}

bool kb_posterior_open(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    const bool is_open = kb_kernel_ignores(&p->kernel, pt) || has_room(p, pt);
    if (is_open) {
        change(p, pt, 1, s);
        p->n_open++;
    }
    kb_posterior_use_staged(p->beside != NULL ? p->beside : p);
    return is_open;
}

void kb_posterior_take_back(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    assert(p->n_open > 0);
    change(p, pt, -1, s);
    p->n_open--;
}

void kb_posterior_learn_open(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                             double d_square, struct kb_scratch *s)
{
    assert(p->n_open > 0 && d_count > 0);
    p->n_open--;
    p->is_answering = true;
    kb_posterior_learn(p, pt, d_count, d_sum, d_square, s);
    p->is_answering = false;
}

/* A correction changes no variance. */
void kb_posterior_learn_beside(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s)
{
    if (d_count > 0 && !p->is_answering && has_room(p, pt))
        kb_posterior_learn(p->beside, pt, d_count, 0, 0, s);
    else
        kb_posterior_use_staged(p->beside);
}

enum kb_err kb_posterior_open_all(struct kb_posterior *p, const struct kb_point *pts, size_t n, bool *is_open,
                                  struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;
    assert(p->n_open == 0);
    for (size_t i = 0; i < n && p->counts_open; i++) {
        struct kb_moves m;
        kb_moves_init(&m);
        KB_TRY(kb_posterior_stage_open(p, &pts[i], s));
        KB_TRY(kb_moves_finish(&m, kb_posterior_grow(p, s, &m)));
        is_open[i] = kb_posterior_open(p, &pts[i], s);
    }
out:
    if (rc != KB_OK)
        kb_posterior_discard(p);
    return rc;
}

void kb_posterior_sweep_open(struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s)
{
    const size_t mark = kb_arena_mark(&s->arena);
    if (p->ops->sweep_open != NULL && p->counts_open)
        p->ops->sweep_open(p, pts, n, s);
    kb_arena_reset(&s->arena, mark);
}

bool kb_posterior_holds_dead(const struct kb_posterior *p)
{
    const struct kb_posterior *other = p->beside;
    const size_t n_live = p->support.n + p->n_open;
    return other != NULL && (other->support.n > 2 * n_live + DEAD_ROOM ||
                             (other->support.n >= other->most_points && 4 * other->support.n > 5 * n_live));
}

/* --- prediction ------------------------------------------------------------------------------------------- */

void kb_posterior_narrow_sd(const struct kb_posterior *p, const struct kb_candidates *cand,
                            const struct kb_beside *beside, struct kb_scratch *s, double *sd)
{
    const size_t mark = kb_arena_mark(&s->arena);
    double *mean = kb_arena_doubles(&s->arena, KB_BLOCK), *known = kb_arena_doubles(&s->arena, KB_BLOCK);
    for (size_t c0 = 0; c0 < cand->n; c0 += KB_BLOCK) {
        struct kb_candidates some = *cand;
        some.n = cand->n - c0 < KB_BLOCK ? cand->n - c0 : KB_BLOCK;
        some.arms += c0;
        some.features = cand->features != NULL ? cand->features + c0 : NULL;
        some.stamps = cand->stamps != NULL ? cand->stamps + c0 : NULL;
        kb_posterior_predict_beside(p->beside, &some, beside, s, mean, known);
        for (size_t c = 0; c < some.n; c++)
            sd[c0 + c] = fmin(sd[c0 + c], known[c]);
    }
    kb_arena_reset(&s->arena, mark);
}
