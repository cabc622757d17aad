/* Open decisions over a dictionary (open.h): a second factor over the same features.
 *
 *   V_h = V + sum over open decisions of z z^T = R_h R_h^T      while there are any; else it is V
 *   sd^2(s) = r(s) + lambda z.V_h^-1 z,   mean(s) = z.(V^-1 b)
 *
 * A decision adds its z z^T by an update, and one that is taken back is a downdate: harmless, since V_h - z z^T >= V. A
 * reward of an open decision moves z z^T from the sum to V. A reward of another one comes into both. The point that
 * enters the dictionary borders V_h by what borders V and the sums of the open decisions, which are swept as the
 * history is (nystrom_admit.c).
 *
 * Cost: O(m^2) each, and O(open m (dim + 1)) for a point that enters. */
#include <math.h>
#include <string.h>

#include "linalg/linalg.h"
#include "posterior/nystrom.h"

enum kb_err kb_nystrom_grow_open(struct kb_nystrom *n, size_t n_points, struct kb_moves *m)
{
    enum kb_err rc = KB_OK;
    KB_TRY(kb_chol_grow(&n->known, n_points, m));
    KB_TRY(kb_moves_add(m, &n->mean_weight, n->base.support.n, n_points, sizeof *n->mean_weight, NULL));
    KB_TRY(kb_moves_add(m, &n->open_cross, 0, n_points, sizeof *n->open_cross, NULL));
out:
    return rc;
}

void kb_nystrom_open(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    const size_t m = p->support.n;
    double *z = kb_arena_doubles(&s->arena, m + 1);
    if (p->n_open == 0)
        kb_chol_copy(&n->known, &n->ridge[0].r);
    if (m == 0)
        return;
    kb_posterior_column(p, m, pt, s, z);
    kb_features_map(&n->features, z);
    if (d_count > 0)
        kb_chol_update(&n->known, z, 0);
    else if (kb_chol_downdate(&n->known, z, 0) != KB_OK)
        kb_posterior_count_clamp(p);
}

void kb_nystrom_follow_open(struct kb_nystrom *n, double *z)
{
    const struct kb_ridge *v = &n->ridge[0];
    if (!n->base.counts_open || v->r.n == 0)
        return;
    memcpy(n->mean_weight, v->w, v->r.n * sizeof *v->w);
    kb_chol_solve_lt(&v->r, n->mean_weight);
    if (z != NULL && n->base.n_open > 0 && !n->base.is_answering)
        kb_chol_update(&n->known, z, 0);
}

void kb_nystrom_predict_open(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                             double *mean, double *variance)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    const size_t m = n->features.a.n;
    kb_features_map_many(&n->features, block, ld, n_c);
    kb_features_residuals(&n->features, block, ld, n_c, diag, variance);
    for (size_t c = 0; c < n_c; c++)
        mean[c] = n->mean + kb_dot(m, block + c * ld, n->mean_weight);
    if (m > 0)
        kb_chol_solve_l_many(&n->known, block, ld, n_c);
    for (size_t c = 0; c < n_c; c++)
        variance[c] += p->lambda * kb_dot(m, block + c * ld, block + c * ld);
}

/* --- a point that enters -------------------------------------------------------------------------------------- */

/* Before A^-1, as the sweep over the history has it. */
void kb_nystrom_sweep_open(struct kb_posterior *p, const struct kb_point *pts, size_t n_points, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    const size_t m = n->features.a.n;
    double *k = kb_arena_doubles(&s->arena, m + 1), z_new;
    n->open_square = 0;
    memset(n->open_cross, 0, p->cap * sizeof *n->open_cross);
    for (size_t i = 0; i < n_points; i++) {
        if (kb_kernel_ignores(&p->kernel, &pts[i]))
            continue;
        kb_posterior_column(p, m + 1, &pts[i], s, k);
        kb_features_new_coordinates(&n->features, &n->border, k, m + 1, 1, &z_new);
        for (size_t j = 0; j < m; j++)
            n->open_cross[j] += z_new * k[j];
        n->open_square += z_new * z_new;
    }
    if (m > 0)
        kb_features_map(&n->features, n->open_cross);
}

/* The new row of R_h, as the ridge appends its own. Where nothing is open there is no V_h. */
void kb_nystrom_enter_open(struct kb_nystrom *n, double *cross)
{
    const size_t m = n->known.n;
    const double lambda = n->ridge[0].lambda;
    if (!n->base.counts_open || n->base.n_open == 0)
        return;
    for (size_t i = 0; i < m; i++)
        cross[i] += n->open_cross[i];
    if (m > 0)
        kb_chol_solve_l(&n->known, cross);
    const double schur = n->square + n->open_square + lambda - kb_dot(m, cross, cross);
    if (!(schur >= lambda))
        kb_posterior_count_clamp(&n->base);
    kb_chol_append_row(&n->known, cross, sqrt(fmax(schur, lambda)));
}
