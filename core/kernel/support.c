/* Support sets: the points that others are evaluated against (the dictionary, or every distinct point).
 *
 * A support is a structure of arrays, so that a kernel column walks each of them once in unit stride:
 *   user[i]    the user, for saving and for telling points apart
 *   anchor[i]  the slot under which the user kernel keeps that user's column
 *   arm[i]     interned arm, for kernels that compare arms by identity
 *   level[i]   for kernels with levels (elimination.h); else 0
 *   part[i]    for kernels that are sums (component_kernel.h); else 0
 *   x[i]       context, then features: dim doubles, copied
 *   marks[i]   a bit for each of them: whether it is not 0 (vec_many.c)
 *
 * `put` writes behind the points in force, where readers do not look: a staged dictionary point can be evaluated
 * against the whole history while decisions go on. `push` puts and counts. Neither allocates: `reserve` does, and
 * it moves the arrays at once, so it needs exclusion; `grow` leaves a swap to be done (moves.h).
 *
 * Cost: push and put O(dim); reserve amortised O(dim) per point. */
#include "kernel/support.h"

#include <assert.h>
#include <string.h>

#include "base/grow.h"
#include "vector/vec_kernel.h"

#define FIRST_POINTS 16u

/* dim is fixed for the support's life: context and arm dimensions of the spec. */
void kb_support_init(struct kb_support *s, size_t dim)
{
    *s = (struct kb_support){.dim = dim};
}

void kb_support_close(struct kb_support *s)
{
    kb_free(s->user);
    kb_free(s->anchor);
    kb_free(s->arm);
    kb_free(s->level);
    kb_free(s->part);
    kb_free(s->x);
    kb_free(s->marks);
    kb_support_init(s, s->dim);
}

/* Only the points in force are copied: what was put behind them is for a step that is over. */
enum kb_err kb_support_grow(struct kb_support *s, size_t n_more, struct kb_moves *m)
{
    enum kb_err rc = KB_OK;
    if (n_more > UINT32_MAX - s->n)
        return KB_ELIMIT;
    size_t cap = kb_grown_cap(s->cap, s->n + n_more, FIRST_POINTS);
    if (cap == s->cap)
        return KB_OK;
    if (s->dim > 0 && cap > SIZE_MAX / sizeof(double) / s->dim)
        return KB_ENOMEM;
    KB_TRY(kb_moves_add(m, &s->user, s->n, cap, sizeof *s->user, NULL));
    KB_TRY(kb_moves_add(m, &s->anchor, s->n, cap, sizeof *s->anchor, NULL));
    KB_TRY(kb_moves_add(m, &s->arm, s->n, cap, sizeof *s->arm, NULL));
    KB_TRY(kb_moves_add(m, &s->x, s->n * s->dim, cap * s->dim, sizeof *s->x, NULL));
    KB_TRY(kb_moves_add(m, &s->marks, s->n * kb_vec_mark_words(s->dim), cap * kb_vec_mark_words(s->dim),
                        sizeof *s->marks, NULL));
    KB_TRY(kb_moves_add(m, &s->part, s->n, cap, sizeof *s->part, NULL));
    KB_TRY(kb_moves_add(m, &s->level, s->n, cap, sizeof *s->level, &s->cap));
out:
    return rc;
}

/* Only moves arrays when they grow; kb_point values handed out before are then stale. */
enum kb_err kb_support_reserve(struct kb_support *s, size_t n_more)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_support_grow(s, n_more, &m));
}

void kb_support_put(struct kb_support *s, size_t i, const struct kb_point *p, uint32_t anchor)
{
    assert(i >= s->n && i < s->cap);
    s->user[i] = p->user;
    s->anchor[i] = anchor;
    s->arm[i] = p->arm;
    s->level[i] = p->level;
    s->part[i] = p->part;
    if (s->dim > 0)
        memcpy(s->x + i * s->dim, p->x, s->dim * sizeof *p->x);
    kb_support_mark(s, i);
}

void kb_support_mark(struct kb_support *s, size_t i)
{
    if (s->dim > 0)
        kb_vec_mark(s->dim, s->x + i * s->dim, s->marks + i * kb_vec_mark_words(s->dim));
}

size_t kb_support_point_bytes(const struct kb_support *s)
{
    return sizeof *s->user + sizeof *s->anchor + sizeof *s->arm + sizeof *s->level + sizeof *s->part +
           s->dim * sizeof *s->x + kb_vec_mark_words(s->dim) * sizeof *s->marks;
}

void kb_support_push(struct kb_support *s, const struct kb_point *p, uint32_t anchor)
{
    kb_support_put(s, s->n, p, anchor);
    s->n++;
}

/* Also for points that are put and not yet counted. x is borrowed until the next reserve. */
struct kb_point kb_support_point(const struct kb_support *s, size_t i)
{
    assert(i < s->cap);
    return (struct kb_point){
        .user = s->user[i], .arm = s->arm[i], .x = s->x + i * s->dim, .level = s->level[i], .part = s->part[i]};
}
