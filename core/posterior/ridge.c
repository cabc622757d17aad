/* The regression of rewards on features, kept as a Cholesky factor.
 *
 *   V = sum n_j z_j z_j^T + lambda I = R R^T   m x m      b = sum S_j z_j   m      w = R^-1 b   m
 *   V0 = V - lambda I
 *
 *   mean = z.V^-1 b = (R^-1 z).w          spread = z.V^-1 z = |R^-1 z|^2          [EK, Prop. 4.2]
 *
 * Learning is a rank-one update of R, whose rotations take w along: recursive least squares by orthogonal
 * transformations [Gentleman, 1973], which are as stable for w as for R (tests: w_keeps_its_digits_over_many_steps).
 * A new coordinate borders V by
 *
 *   [ V        cross           ]        new row of R:  R^-1 cross,  pivot^2 = square + lambda - |R^-1 cross|^2
 *   [ cross^T  square + lambda ]
 *
 * Numerical notes. pivot^2 is the Schur complement of a matrix >= lambda I, hence >= lambda; when rounding says
 * otherwise lambda is the nearer value and is taken, and counted when the gap is more than rounding explains. The
 * papers' Sherman-Morrison and Schur updates of the inverse lose every digit on near-duplicates;
 * rotations do not.
 *
 * Cost: learn, append O(m^2); bulk O(m^2) per row and O(m^3 / 3) once; predict O(m^2) per candidate. */
#include "posterior/ridge.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "linalg/factor_io.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "linalg/linalg.h"

#define ROUNDING 1e-6
#define ROUNDING_UNITS 16.0

void kb_ridge_init(struct kb_ridge *v, double lambda)
{
    *v = (struct kb_ridge){.lambda = lambda};
    kb_chol_init(&v->r);
    kb_chol_init(&v->spare);
}

void kb_ridge_close(struct kb_ridge *v)
{
    kb_chol_close(&v->r);
    kb_chol_close(&v->spare);
    kb_free(v->b);
    kb_free(v->w);
    kb_ridge_init(v, v->lambda);
}

enum kb_err kb_ridge_grow(struct kb_ridge *v, size_t n, struct kb_moves *m)
{
    enum kb_err rc = KB_OK;
    if (n <= v->cap && v->b != NULL)
        return KB_OK;
    KB_TRY(kb_chol_grow(&v->r, n, m));
    KB_TRY(kb_moves_add(m, &v->b, v->cap, n, sizeof *v->b, NULL));
    KB_TRY(kb_moves_add(m, &v->w, v->cap, n, sizeof *v->w, &v->cap));
out:
    return rc;
}

/* w = R^-1 b. O(m^2), like the change that made it necessary; predictions then need one solve, not two. */
static void refresh(struct kb_ridge *v)
{
    if (v->r.n == 0)
        return;
    memcpy(v->w, v->b, v->r.n * sizeof *v->w);
    kb_chol_solve_l(&v->r, v->w);
}

/* --- learning ----------------------------------------------------------------------------------------- */

/* Rank-one update with sqrt(d_count) z; b follows, and w by the same rotations, which leave behind what was foretold:
 * one pass over R where solving for z, w and the prediction would take three more. d_count = 0 is a correction: the
 * reward sum changes, V does not. */
void kb_ridge_learn(struct kb_ridge *v, double *z, double d_count, double d_sum, struct kb_foretold *out)
{
    size_t m = v->r.n;
    assert(d_count >= 0);
    kb_axpy(m, d_sum, z, v->b);
    if (d_count == 0) {
        refresh(v);
        return;
    }
    const double root = sqrt(d_count), y = d_sum / root;
    struct kb_chol_row row = {.w = v->w, .rest = y};
    for (size_t i = 0; i < m; i++)
        z[i] *= root;
    kb_chol_update_row(&v->r, z, &row);
    if (out != NULL)
        *out = (struct kb_foretold){(y - row.rest * sqrt(1 + row.spread)) / root, row.spread / d_count};
}

/* The bordering of the file header. b's new entry is a sum over the history, so b needs no solve. */
bool kb_ridge_append(struct kb_ridge *v, double *cross, double square, double target)
{
    size_t m = v->r.n;
    assert(m < v->cap);
    kb_chol_solve_l(&v->r, cross);
    double schur = square + v->lambda - kb_dot(m, cross, cross);
    bool is_clamped = !(schur >= v->lambda * (1 - ROUNDING));
    kb_chol_append_row(&v->r, cross, sqrt(schur >= v->lambda ? schur : v->lambda));
    v->b[m] = target;
    refresh(v);
    return is_clamped;
}

/* --- forgetting ------------------------------------------------------------------------------------------- */

/* scale R R^T into the lower triangle of a, panel by panel of columns. What stands above the diagonal of R is not to be
 * read, hence the copy. */
static void product(const struct kb_ridge *v, double scale, double *a, size_t ld, double *work)
{
    size_t m = v->r.n;
    for (size_t j = 0; j < m; j++)
        memset(a + j * ld + j, 0, (m - j) * sizeof *a);
    for (size_t first = 0; first < m; first += KB_RIDGE_PANEL) {
        size_t rows = m - first, width = rows < KB_RIDGE_PANEL ? rows : KB_RIDGE_PANEL;
        memset(work, 0, rows * width * sizeof *work);
        for (size_t j = 0; j < width; j++)
            memcpy(work + j * rows + j, v->r.l + (first + j) * v->r.cap + first + j, (rows - j) * sizeof *work);
        kb_syrk_lower(rows, width, scale, work, rows, 1, a + first * (ld + 1), ld);
    }
}

/* Its contents are of no use between a take and the next prepare, so nothing is copied. */
enum kb_err kb_ridge_reserve_spare(struct kb_ridge *v, size_t n)
{
    v->spare.n = 0;
    return kb_chol_reserve(&v->spare, n);
}

/* sqrt(left) R, the factor of left V: its ridge is left lambda. */
static void shrink(struct kb_ridge *v, double left)
{
    for (size_t j = 0; j < v->r.n; j++)
        for (size_t i = j; i < v->r.n; i++)
            v->spare.l[j * v->spare.cap + i] = sqrt(left) * v->r.l[j * v->r.cap + i];
    v->spare.n = v->r.n;
}

/* left V0 + lambda I = left R R^T + (1 - left) lambda I: a sum of two positive matrices, so nothing cancels, and a
 * factorisation that fails would mean an R that was lost in rounding before. */
bool kb_ridge_prepare_left(struct kb_ridge *v, double left, double *work)
{
    size_t m = v->r.n;
    assert(v->spare.cap >= m);
    product(v, left, v->spare.l, v->spare.cap, work);
    for (size_t i = 0; i < m; i++)
        v->spare.l[i * (v->spare.cap + 1)] += (1 - left) * v->lambda;
    if (kb_chol_factor_in_place(&v->spare, m) == KB_OK)
        return false;
    shrink(v, fmax(left, DBL_MIN));
    return true;
}

void kb_ridge_take_left(struct kb_ridge *v, double left)
{
    struct kb_chol old = v->r;
    v->r = v->spare;
    v->spare = old;
    for (size_t i = 0; i < v->r.n; i++)
        v->b[i] *= left;
    refresh(v);
}

/* --- building in bulk ------------------------------------------------------------------------------------ */

/* V0 is gathered in the factor's own memory: no second matrix. */
void kb_ridge_clear(struct kb_ridge *v, size_t m)
{
    assert(m <= v->cap);
    v->r.n = 0;
    for (size_t j = 0; j < m; j++) {
        memset(v->r.l + j * v->r.cap + j, 0, (m - j) * sizeof *v->r.l);
        v->b[j] = 0;
    }
}

/* One syrk per block: sum n_j z_j z_j^T = (Z sqrt(N)) (Z sqrt(N))^T. */
void kb_ridge_accumulate(struct kb_ridge *v, size_t m, double *z, size_t ld, size_t n_c, const double *count,
                         const double *sum)
{
    if (m == 0 || n_c == 0)
        return;
    kb_gemv(m, n_c, 1.0, z, ld, sum, 1.0, v->b);
    for (size_t c = 0; c < n_c; c++) {
        double root = sqrt(count[c]);
        for (size_t i = 0; i < m; i++)
            z[c * ld + i] *= root;
    }
    kb_syrk_lower(m, n_c, 1.0, z, ld, 1.0, v->r.l, v->r.cap);
}

void kb_ridge_gather_from(struct kb_ridge *v, const struct kb_ridge *from, size_t m)
{
    assert(m <= v->cap && v->r.n == 0);
    for (size_t j = 0; j < m; j++) {
        memcpy(v->r.l + j * v->r.cap + j, from->r.l + j * from->r.cap + j, (m - j) * sizeof *v->r.l);
        v->b[j] = from->b[j];
    }
}

/* R R^T, then the ridge off. What rounding leaves below zero is of the order of eps V: the reader of the eigenvalues
 * clips it. */
void kb_ridge_gram(const struct kb_ridge *v, double *a, double *work)
{
    size_t m = v->r.n;
    product(v, 1, a, m, work);
    for (size_t j = 0; j < m; j++)
        a[j * (m + 1)] = fmax(0, a[j * (m + 1)] - v->lambda);
}

/* What rounding may have taken from the eigenvalues of V0, generously. */
static double rounding_of(const struct kb_ridge *v, size_t m)
{
    double largest = 0;
    for (size_t i = 0; i < m; i++)
        largest = fmax(largest, v->r.l[i * (v->r.cap + 1)]);
    return ROUNDING_UNITS * (double)m * DBL_EPSILON * largest;
}

/* lambda goes onto the diagonal last; without it V0 is singular as long as there are fewer rows than
 * coordinates. */
enum kb_err kb_ridge_factor(struct kb_ridge *v, size_t m, bool is_lifted)
{
    const double ridge = is_lifted ? fmax(v->lambda, rounding_of(v, m)) : v->lambda;
    for (size_t i = 0; i < m; i++)
        v->r.l[i * v->r.cap + i] += ridge;
    enum kb_err rc = kb_chol_factor_in_place(&v->r, m);
    if (rc == KB_OK)
        refresh(v);
    return rc;
}

/* --- prediction ---------------------------------------------------------------------------------------- */

/* One solve for all columns, then dot products. The variance is then r(s) + lambda spread. */
void kb_ridge_predict(const struct kb_ridge *v, double *z, size_t ld, size_t n_c, double *mean, double *spread)
{
    size_t m = v->r.n;
    if (m > 0)
        kb_chol_solve_l_many(&v->r, z, ld, n_c);
    for (size_t c = 0; c < n_c; c++) {
        const double *column = z + c * ld;
        mean[c] = kb_dot(m, column, v->w);
        spread[c] = kb_dot(m, column, column);
    }
}

/* --- facts --------------------------------------------------------------------------------------------- */

/* ln det(V / lambda) = ln det V - m ln lambda. */
double kb_ridge_information_gain(const struct kb_ridge *v)
{
    return 0.5 * (kb_chol_logdet(&v->r) - (double)v->r.n * log(v->lambda));
}

/* --- digest and snapshot ----------------------------------------------------------------------------------- */

/* Bits of R, b and w. */
uint64_t kb_ridge_digest(const struct kb_ridge *v, uint64_t h)
{
    h = kb_factor_digest(&v->r, h);
    if (v->r.n == 0)
        return h;
    h = kb_hash_array(h, v->b, v->r.n * sizeof *v->b);
    return kb_hash_array(h, v->w, v->r.n * sizeof *v->w);
}

/* R, b and w; w so that not a bit hangs on solving it anew. */
void kb_ridge_save(const struct kb_ridge *v, struct kb_writer *w)
{
    kb_factor_save(&v->r, w);
    kb_put_doubles(w, v->b, v->r.n);
    kb_put_doubles(w, v->w, v->r.n);
}

/* b and w are not looked at: they are sums, and any number is possible in them. */
enum kb_err kb_ridge_load(struct kb_ridge *v, size_t m, struct kb_reader *r)
{
    assert(m <= v->cap);
    enum kb_err rc = kb_factor_load(&v->r, m, r);
    if (rc != KB_OK)
        return rc;
    kb_get_doubles(r, v->b, m);
    kb_get_doubles(r, v->w, m);
    return r->rc;
}

size_t kb_ridge_bytes(const struct kb_ridge *v)
{
    return (v->r.cap * v->r.cap + 2 * v->cap) * sizeof *v->b;
}
