/* clang-format off */
/* The tridiagonal form behind confidence rules that look at many ridges (spectrum.h has the letters).
 *
 * Derivation for repeated points. Let E (t x n) say which point each observation is of, so that K_t = E K_UU E^T and
 * E^T E = N. The columns of E N^-1/2 are orthonormal, and K_t = (E N^-1/2) M (E N^-1/2)^T with M as in the header.
 * Hence K_t + a I is M + a I on their span and a I outside, which gives for every a
 *
 *   k_t(s)^T (K_t + a I)^-1 y    = w^T (T + a I)^-1 yt,           since k_t(s) = E k_U(s) and E^T y = S
 *   y^T (K_t + a I)^-1 y         = yt^T (T + a I)^-1 yt + scatter / a
 *   ln det(I + K_t / a)          = ln det(I + T / a)
 *
 * Elimination from both ends. Rows above the middle row m are eliminated downwards, rows below it upwards, m last:
 * T + a I = L D L^T with one entry l_i beside each one of L, towards the middle. Let o_i link row i to the row before
 * it on its way (0 for the first). Then, for all sums in one run,
 *
 *   l_i = o_i / d_before,  d_i = T_ii + a - l_i o_i,  u = L^-1 w:  u_i = w_i - l_i u_before
 *   w^T (T + a I)^-1 v                            = sum u_i v'_i / d_i   with v' = L^-1 v
 *   tr (T + a I)^-1    = d/da ln det(T + a I)     = sum d_i' / d_i,      d_i' = 1 + l_i^2 d_before', 1 for the first
 *
 * Row m has two rows before it.
 *
 * Numerical notes. M is positive semidefinite, so d_i >= a; where rounding leaves less (order n eps |M|), a is taken,
 * which moves an eigenvalue by no more than the error that the reduction has anyway. Elimination of a positive definite
 * tridiagonal matrix is backward stable entry by entry, without pivots [Higham, thm 9.14].
 *
 * Cost: about 4/3 n^3 flops once, 2 n^2 per candidate for w, O(n) per ridge and candidate after that: n divisions,
 * each of which waits for the one before. So sums of candidates go from both ends, at KB_RIDGE_LANES ridges at a time;
 * what is asked for once, from the top alone. */
/* clang-format on */
#include "posterior/spectrum.h"

#include <math.h>

#include "base/alloc.h"
#include "linalg/clones.h"
#include "linalg/tridiagonal.h"

#define LARGE_PRODUCT 1e200 /* times one more factor it is finite: d / a < 1e100 */

enum kb_err kb_spectrum_new(struct kb_spectrum **out, size_t n, bool is_diagonal)
{
    struct kb_spectrum *sp = kb_array(1, 1, sizeof *sp);
    if (sp == NULL)
        return KB_ENOMEM;
    sp->n = n;
    sp->is_diagonal = is_diagonal;
    if (n > 0) {
        sp->diag = kb_array(4 * n + 1, 1, sizeof *sp->diag);
        sp->basis = is_diagonal ? NULL : kb_array(n, n, sizeof *sp->basis);
        sp->factor = is_diagonal ? NULL : kb_array(n, KB_TRIDIAGONAL_PANEL, sizeof *sp->factor);
        if (sp->diag == NULL || (!is_diagonal && (sp->basis == NULL || sp->factor == NULL))) {
            kb_spectrum_free(sp);
            return KB_ENOMEM;
        }
        sp->off = sp->diag + n;
        sp->target = sp->off + n + 1;
        sp->root = sp->target + n;
    }
    *out = sp;
    return KB_OK;
}

void kb_spectrum_free(struct kb_spectrum *sp)
{
    if (sp == NULL)
        return;
    kb_free(sp->basis);
    kb_free(sp->factor);
    kb_free(sp->diag);
    kb_free(sp);
}

size_t kb_spectrum_bytes(const struct kb_spectrum *sp)
{
    return sp != NULL ? sizeof *sp + kb_spectrum_room(sp->n, sp->is_diagonal) : 0;
}

size_t kb_spectrum_room(size_t n, bool is_diagonal)
{
    return n > 0 ? (((is_diagonal ? 0 : n + KB_TRIDIAGONAL_PANEL) + 4) * n + 1) * sizeof(double) : 0;
}

/* M in basis -> T and Q; target -> Q^T target. */
static enum kb_err reduce(struct kb_spectrum *sp)
{
    enum kb_err rc = KB_OK;
    double *work = NULL;
    KB_TRY(kb_tridiagonal_reduce(sp->n, sp->basis, sp->diag, sp->off, sp->factor));
    work = kb_array(sp->n, 1, sizeof *work);
    rc = work != NULL ? KB_OK : KB_ENOMEM;
    if (rc == KB_OK)
        kb_tridiagonal_rotate(sp->n, sp->basis, sp->factor, 1, sp->target, sp->n, work);
out:
    kb_free(work);
    return rc;
}

/* Lower triangle of K_UU -> that of M; facts of the diagonal and the targets N^-1/2 S on the way. */
enum kb_err kb_spectrum_decompose(struct kb_spectrum *sp, const double *count, const double *sum)
{
    size_t n = sp->n;
    for (size_t j = 0; j < n; j++) {
        sp->n_observed += count[j];
        sp->largest_diag = fmax(sp->largest_diag, sp->basis[j * n + j]);
        sp->root[j] = sqrt(count[j]);
        sp->target[j] = sum[j] / sp->root[j];
        for (size_t i = j; i < n; i++)
            sp->basis[j * n + i] *= sqrt(count[i] * count[j]);
    }
    return n > 0 ? reduce(sp) : KB_OK;
}

void kb_spectrum_of_counts(struct kb_spectrum *sp, const double *count, const double *sum)
{
    for (size_t i = 0; i < sp->n; i++) {
        sp->n_observed += count[i];
        sp->largest_diag = 1;
        sp->root[i] = sqrt(count[i]);
        sp->diag[i] = count[i];
        sp->target[i] = sum[i] / sp->root[i];
    }
}

enum kb_err kb_spectrum_decompose_features(struct kb_spectrum *sp, const double *b)
{
    sp->is_sketch = true;
    for (size_t j = 0; j < sp->n; j++) {
        sp->root[j] = 1;
        sp->target[j] = b[j];
    }
    return sp->n > 0 ? reduce(sp) : KB_OK;
}

void kb_spectrum_project(const struct kb_spectrum *sp, double *block, size_t ld, size_t n_c, double *w)
{
    for (size_t c = 0; c < n_c; c++)
        for (size_t i = 0; i < sp->n; i++)
            w[c * ld + i] = sp->root[i] * block[c * ld + i];
    if (!sp->is_diagonal)
        kb_tridiagonal_rotate(sp->n, sp->basis, sp->factor, n_c, w, ld, block);
}

/* --- sums at a ridge --------------------------------------------------------------------------------------- */

/* A pivot, which is at least a. */
static inline double at_least(double d, double a)
{
    return d > a ? d : a;
}

/* The row before on the way down, or up, in each lane; and what was summed. */
struct run {
    double reciprocal[KB_RIDGE_LANES], u[KB_RIDGE_LANES], v[KB_RIDGE_LANES]; /* 1 / d, u, v' */
    struct kb_ridge_sums sum;
};

/* Row i, linked by o. */
static inline __attribute__((always_inline)) void pass(const struct kb_spectrum *sp, size_t i, double o,
                                                       const double *w, const double *a, struct run *r)
{
    const double square = o * o, diag = sp->diag[i], target = sp->target[i];
    for (size_t k = 0; k < KB_RIDGE_LANES; k++) {
        const double l = o * r->reciprocal[k], d = at_least(diag + a[k] - square * r->reciprocal[k], a[k]);
        r->u[k] = w[i * KB_RIDGE_LANES + k] - l * r->u[k];
        r->v[k] = target - l * r->v[k];
        r->reciprocal[k] = 1 / d;
        const double scaled = r->u[k] * r->reciprocal[k];
        r->sum.mean[k] += scaled * r->v[k];
        r->sum.known[k] += scaled * r->u[k];
        r->sum.energy[k] += r->v[k] * r->v[k] * r->reciprocal[k];
    }
}

/* A search over ridges spends most of its time here. */
KB_HOT
void kb_spectrum_sums(const struct kb_spectrum *sp, const double *w, const double *a, struct kb_ridge_sums *out)
{
    const size_t n = sp->n, middle = n / 2;
    struct run down = {0}, up = {0};
    *out = (struct kb_ridge_sums){0};
    if (n == 0)
        return;
    for (size_t i = 0; i < n - 1 - middle; i++) {
        pass(sp, i, sp->off[i], w, a, &down);
        pass(sp, n - 1 - i, sp->off[n - i], w, a, &up);
    }
    if (n % 2 == 0)
        pass(sp, middle - 1, sp->off[middle - 1], w, a, &down);
    const double above = sp->off[middle], below = sp->off[middle + 1];
    for (size_t k = 0; k < KB_RIDGE_LANES; k++) {
        const double l = above * down.reciprocal[k], h = below * up.reciprocal[k];
        const double d = at_least(sp->diag[middle] + a[k] - l * above - h * below, a[k]);
        const double u = w[middle * KB_RIDGE_LANES + k] - l * down.u[k] - h * up.u[k];
        const double v = sp->target[middle] - l * down.v[k] - h * up.v[k];
        out->mean[k] = down.sum.mean[k] + up.sum.mean[k] + u * v / d;
        out->known[k] = down.sum.known[k] + up.sum.known[k] + u * u / d;
        out->energy[k] = down.sum.energy[k] + up.sum.energy[k] + v * v / d;
    }
}

/* d_i on the way down, where l is l_i. */
static inline double pivot(const struct kb_spectrum *sp, size_t i, double l, double a)
{
    return at_least(sp->diag[i] + a - l * sp->off[i], a);
}

/* A logarithm for a product of many factors instead of one for each: decisions ask for this at several ridges. Factors
 * that round to 1 are lost, n eps in all. */
double kb_spectrum_log_det(const struct kb_spectrum *sp, double a)
{
    double sum = 0, product = 1, inverse = 1 / a, reciprocal = 0;
    for (size_t i = 0; i < sp->n; i++) {
        const double d = pivot(sp, i, sp->off[i] * reciprocal, a);
        reciprocal = 1 / d;
        product *= d * inverse;
        if (product > LARGE_PRODUCT) {
            sum += log(product);
            product = 1;
        }
    }
    return sum + log(product);
}

double kb_spectrum_effective_dimension(const struct kb_spectrum *sp, double a)
{
    double sum = 0, reciprocal = 0, slope = 0;
    for (size_t i = 0; i < sp->n; i++) {
        const double l = sp->off[i] * reciprocal;
        reciprocal = 1 / pivot(sp, i, l, a);
        slope = 1 + l * l * slope;
        sum += 1 - a * slope * reciprocal;
    }
    return fmax(0, sum);
}

double kb_spectrum_energy(const struct kb_spectrum *sp, double a)
{
    double sum = 0, reciprocal = 0, v = 0;
    for (size_t i = 0; i < sp->n; i++) {
        const double l = sp->off[i] * reciprocal;
        v = sp->target[i] - l * v;
        reciprocal = 1 / pivot(sp, i, l, a);
        sum += v * v * reciprocal;
    }
    return sum;
}
