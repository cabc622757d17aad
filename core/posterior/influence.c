/* Influences: what does not differ between representations (influence.h). Each of them fills the weights by the solves
 * of its own prediction, once more and transposed; rows are then looked up by their points, or, where a dictionary
 * stands for the points, compared with it. */
#include "posterior/influence.h"

#include <assert.h>

#include "linalg/linalg.h"
#include "posterior/exact.h"

#define ROW_WORK 500.0    /* of a look-up, in multiply-adds, of which a nanosecond has ten: 50 ns */
#define HASH_WORK 20.0    /* of each coordinate of its point, which is hashed and compared */
#define KERNEL_WORK 250.0 /* of a value of a kernel beside its coordinates, as measured: 11 to 33 ns */

void kb_posterior_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                            struct kb_influence *in)
{
    const size_t mark = kb_arena_mark(&s->arena);
    assert(cand->n == 1);
    in->arm = KB_ID_NONE;
    p->ops->influence(p, cand, s, in);
    kb_arena_reset(&s->arena, mark);
}

double kb_posterior_row_influence(const struct kb_posterior *p, const struct kb_influence *in,
                                  const struct kb_point *row, struct kb_scratch *s)
{
    if (kb_kernel_ignores(&p->kernel, row) || (in->arm != KB_ID_NONE && in->arm != row->arm))
        return 0;
    if (!p->ops->is_sketch) {
        const uint32_t i = kb_exact_find(kb_exact_of_const(p), row);
        return i != KB_POINT_NONE ? in->weight[i] : 0;
    }
    const size_t m = p->support.n, mark = kb_arena_mark(&s->arena);
    double *column = kb_arena_doubles(&s->arena, m);
    kb_posterior_column(p, m, row, s, column);
    const double h = kb_dot(m, column, in->weight);
    kb_arena_reset(&s->arena, mark);
    return h;
}

bool kb_posterior_tells_users(const struct kb_posterior *p)
{
    if (p->ops->tells_users != NULL)
        return p->ops->tells_users(p);
    return !kb_user_kernel_is_ones(p->kernel.user) && (!p->kernel.is_sum || p->kernel.sum.variance[KB_PART_USER] > 0);
}

double kb_posterior_influence_work(const struct kb_posterior *p, size_t n_rows)
{
    const double m = p->ops->is_sketch ? (double)p->support.n : kb_posterior_width(p);
    const double dim = (double)p->support.dim;
    const double row = p->ops->is_sketch ? m * (dim + KERNEL_WORK) : ROW_WORK + HASH_WORK * dim;
    return 4 * m * m + (double)p->support.n + row * (double)n_rows;
}
