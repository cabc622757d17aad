/* Nystrom features of points over a dictionary, and how they grow with it.
 *
 *   Z, m        dictionary, its size           k_Z(s)   m      kernel column of s over Z
 *   A           m x m, K_ZZ = A A^T            z(s)     m      A^-1 k_Z(s): the feature
 *   l, pivot    row that a new point adds      r(s)            k(s,s) - z.z >= 0: what the dictionary misses
 *   q           A^-T l                         z_new,j         the coordinate that point j gains
 *
 * z.z' is the Nystrom approximation of k(s, s') [EK, sec. 4.1]; it is the kernel itself on the span of Z. Features
 * are nested: a new dictionary point adds a coordinate behind the others and leaves those as they are, which is
 * what makes growing cheap.
 *
 *   z_new,j = (k(new, s_j) - l.z_j) / pivot,   l.z_j = l.A^-1 k_Z(s_j) = q.k_Z(s_j)
 *
 * so the pass over the history needs the kernel columns only, O(m) per row, and stores no features.
 *
 * Numerical notes. The error of everything downstream goes with 1 / min(pivot)^2, the conditioning of K_ZZ, not
 * with the number of updates. Hence points of r < 1e-6 k(s,s) are refused by the admission; one
 * that the log names all the same (written on another machine, where its residual came out differently) gets its
 * pivot lifted to FLOOR k(s,s): A A^T is then K_ZZ with a little more on that diagonal entry, which lowers z.z
 * and errs to the side of a larger r. Counted, never silent. No explicit inverse is formed.
 *
 * Cost: map O(m^2) per point, border O(m^2), new coordinates O(m) per point. */
#include "posterior/features.h"

#include <math.h>
#include <string.h>

#include "linalg/factor_io.h"
#include "linalg/linalg.h"

#define FLOOR (0.1 * KB_RESIDUAL_MIN)

void kb_features_init(struct kb_features *f)
{
    kb_chol_init(&f->a);
}

void kb_features_close(struct kb_features *f)
{
    kb_chol_close(&f->a);
}

enum kb_err kb_features_grow(struct kb_features *f, size_t n, struct kb_moves *m)
{
    return kb_chol_grow(&f->a, n, m);
}

/* --- the map ------------------------------------------------------------------------------------------ */

void kb_features_map(const struct kb_features *f, double *k_z)
{
    kb_chol_solve_l(&f->a, k_z);
}

void kb_features_map_many(const struct kb_features *f, double *k_z, size_t ld, size_t n_c)
{
    if (f->a.n > 0)
        kb_chol_solve_l_many(&f->a, k_z, ld, n_c);
}

void kb_features_residuals(const struct kb_features *f, const double *z, size_t ld, size_t n_c, const double *diag,
                           double *residual)
{
    for (size_t c = 0; c < n_c; c++) {
        const double *column = z + c * ld;
        residual[c] = fmax(diag[c] - kb_dot(f->a.n, column, column), 0.0);
    }
}

/* --- growth ------------------------------------------------------------------------------------------- */

void kb_features_border(const struct kb_features *f, const double *k_z, double diag, struct kb_feature_border *border)
{
    size_t m = f->a.n;
    if (m > 0) {
        memcpy(border->l, k_z, m * sizeof *k_z);
        kb_features_map(f, border->l);
        memcpy(border->q, border->l, m * sizeof *border->q);
        kb_chol_solve_lt(&f->a, border->q);
    }
    /* A point of k(s,s) = 0, or next to it, has no direction at all; any positive pivot leaves its coordinate at zero.
     */
    double r = diag - kb_dot(m, border->l, border->l);
    double floor = FLOOR * diag > 0 ? FLOOR * diag : 1.0;
    border->is_clamped = !(r >= floor);
    border->pivot = sqrt(border->is_clamped ? floor : r);
}

void kb_features_new_coordinates(const struct kb_features *f, const struct kb_feature_border *border, const double *k,
                                 size_t ld, size_t n_c, double *out)
{
    size_t m = f->a.n;
    for (size_t c = 0; c < n_c; c++)
        out[c] = (k[c * ld + m] - kb_dot(m, border->q, k + c * ld)) / border->pivot;
}

void kb_features_append(struct kb_features *f, const struct kb_feature_border *border)
{
    kb_chol_append_row(&f->a, border->l, border->pivot);
}

/* --- digest and snapshot ------------------------------------------------------------------------------ */

uint64_t kb_features_digest(const struct kb_features *f, uint64_t h)
{
    return kb_factor_digest(&f->a, h);
}

void kb_features_save(const struct kb_features *f, struct kb_writer *w)
{
    kb_factor_save(&f->a, w);
}

enum kb_err kb_features_load(struct kb_features *f, size_t m, struct kb_reader *r)
{
    return kb_factor_load(&f->a, m, r);
}
