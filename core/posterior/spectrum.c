/* The eigendecomposition behind confidence rules that look at many ridges (spectrum.h has the letters).
 *
 * Derivation for repeated points. Let E (t x n) say which point each observation is of, so that K_t = E K_UU E^T and
 * E^T E = N. The columns of E N^-1/2 are orthonormal, and K_t = (E N^-1/2) M (E N^-1/2)^T with M as in the header.
 * Hence K_t + a I is M + a I on their span and a I outside, which gives for every a
 *
 *   k_t(s)^T (K_t + a I)^-1 y    = w^T diag(1 / (e + a)) yt,      since k_t(s) = E k_U(s) and E^T y = S
 *   y^T (K_t + a I)^-1 y         = sum yt_i^2 / (e_i + a) + scatter / a
 *   ln det(I + K_t / a)          = sum ln(1 + e_i / a)
 *
 * Numerical notes. M is positive semidefinite; eigenvalues that rounding leaves below zero are set to zero, which
 * moves each by no more than the error that the decomposition has anyway (order n eps |M|). Divisions are by e + a
 * with a > 0, so small ridges are as accurate as large ones, unlike a factor per ridge.
 *
 * Cost: about 9 n^3 flops once, n^2 per candidate for w, O(n) per ridge and candidate after that. */
#include "posterior/spectrum.h"

#include <math.h>

#include "base/alloc.h"
#include "linalg/clones.h"
#include "linalg/eigen.h"
#include "linalg/linalg.h"

#define LARGE_PRODUCT 1e200 /* times one more factor it is finite: e / a < 1e100 */

enum kb_err kb_spectrum_new(struct kb_spectrum **out, size_t n, bool is_diagonal)
{
    struct kb_spectrum *sp = kb_array(1, 1, sizeof *sp);
    if (sp == NULL)
        return KB_ENOMEM;
    sp->n = n;
    sp->is_diagonal = is_diagonal;
    if (n > 0) {
        sp->basis = kb_array(n, is_diagonal ? 1 : n, sizeof *sp->basis);
        sp->value = kb_array(n, 1, sizeof *sp->value);
        sp->target = kb_array(n, 1, sizeof *sp->target);
        if (sp->basis == NULL || sp->value == NULL || sp->target == NULL) {
            kb_spectrum_free(sp);
            return KB_ENOMEM;
        }
    }
    *out = sp;
    return KB_OK;
}

void kb_spectrum_free(struct kb_spectrum *sp)
{
    if (sp == NULL)
        return;
    kb_free(sp->basis);
    kb_free(sp->value);
    kb_free(sp->target);
    kb_free(sp);
}

size_t kb_spectrum_bytes(const struct kb_spectrum *sp)
{
    return sp != NULL ? sizeof *sp + kb_spectrum_room(sp->n, sp->is_diagonal) : 0;
}

size_t kb_spectrum_room(size_t n, bool is_diagonal)
{
    return ((is_diagonal ? 1 : n) + 2) * n * sizeof(double);
}

/* Lower triangle of K_UU -> that of M; facts of the diagonal and the targets N^-1/2 S on the way. */
static void weigh_points(struct kb_spectrum *sp, const double *count, const double *sum)
{
    size_t n = sp->n;
    for (size_t j = 0; j < n; j++) {
        sp->n_observed += count[j];
        sp->largest_diag = fmax(sp->largest_diag, sp->basis[j * n + j]);
        sp->target[j] = sum[j] / sqrt(count[j]);
        for (size_t i = j; i < n; i++)
            sp->basis[j * n + i] *= sqrt(count[i] * count[j]);
    }
}

/* yt = Q^T target, then Q -> N^1/2 Q. `work`: n doubles. */
static void finish_basis(struct kb_spectrum *sp, const double *count, double *work)
{
    size_t n = sp->n;
    kb_gemv_t(n, n, 1, sp->basis, n, sp->target, 0, work);
    for (size_t j = 0; j < n; j++) {
        sp->target[j] = work[j];
        sp->value[j] = fmax(sp->value[j], 0);
    }
    for (size_t i = 0; i < n; i++)
        work[i] = sqrt(count[i]);
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < n; i++)
            sp->basis[j * n + i] *= work[i];
    }
}

enum kb_err kb_spectrum_decompose(struct kb_spectrum *sp, const double *count, const double *sum)
{
    enum kb_err rc = KB_OK;
    double *work = NULL;
    if (sp->n == 0)
        return KB_OK;
    weigh_points(sp, count, sum);
    KB_TRY(kb_eigen_symmetric(sp->n, sp->basis, sp->value));
    work = kb_array(sp->n, 1, sizeof *work);
    rc = work != NULL ? KB_OK : KB_ENOMEM;
    if (rc == KB_OK)
        finish_basis(sp, count, work);
out:
    kb_free(work);
    return rc;
}

void kb_spectrum_of_counts(struct kb_spectrum *sp, const double *count, const double *sum)
{
    for (size_t i = 0; i < sp->n; i++) {
        sp->n_observed += count[i];
        sp->largest_diag = 1;
        sp->basis[i] = sqrt(count[i]);
        sp->value[i] = count[i];
        sp->target[i] = sum[i] / sp->basis[i];
    }
}

enum kb_err kb_spectrum_decompose_features(struct kb_spectrum *sp, const double *b)
{
    enum kb_err rc = KB_OK;
    sp->is_sketch = true;
    if (sp->n == 0)
        return KB_OK;
    KB_TRY(kb_eigen_symmetric(sp->n, sp->basis, sp->value));
    kb_gemv_t(sp->n, sp->n, 1, sp->basis, sp->n, b, 0, sp->target);
    for (size_t j = 0; j < sp->n; j++)
        sp->value[j] = fmax(sp->value[j], 0);
out:
    return rc;
}

/* A search over ridges spends most of its time here. */
KB_HOT
void kb_spectrum_reciprocals(const struct kb_spectrum *sp, double a, double *reciprocal)
{
    for (size_t i = 0; i < sp->n; i++)
        reciprocal[i] = 1 / (sp->value[i] + a);
}

/* A logarithm for a product of many factors instead of one for each: decisions ask for this at several ridges. Factors
 * that round to 1 are lost, n eps in all. */
double kb_spectrum_log_det(const struct kb_spectrum *sp, double a)
{
    double sum = 0, product = 1, inverse = 1 / a;
    for (size_t i = 0; i < sp->n; i++) {
        product *= 1 + sp->value[i] * inverse;
        if (product > LARGE_PRODUCT) {
            sum += log(product);
            product = 1;
        }
    }
    return sum + log(product);
}

double kb_spectrum_effective_dimension(const struct kb_spectrum *sp, double a)
{
    double sum = 0;
    for (size_t i = 0; i < sp->n; i++)
        sum += sp->value[i] / (sp->value[i] + a);
    return sum;
}

double kb_spectrum_energy(const struct kb_spectrum *sp, const double *reciprocal)
{
    double sum = 0;
    for (size_t i = 0; i < sp->n; i++)
        sum += sp->target[i] * sp->target[i] * reciprocal[i];
    return sum;
}
