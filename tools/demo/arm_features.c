/* Arm features by a truncated eigendecomposition of the positive pointwise mutual information of co-likes:
 *
 *   P_ij = max(0, ln( co_ij T / (r_i r_j) )),  r_i = sum_j co_ij,  T = sum_i r_i,  P_ii = 0
 *   P ~ sum_k lambda_k v_k v_k^T over the `dim` eigenvalues of largest absolute value
 *   feature of arm i = ( sqrt|lambda_1| v_1i, ..., sqrt|lambda_dim| v_dim,i ), scaled to length 1
 *
 * PPMI takes the arms' popularity out: two rare arms liked by the same few users come out as close as two popular ones.
 * The eigenvectors come from orthogonal iteration (multiply by P, orthonormalise, repeat), which converges like
 * |lambda_{dim+1} / lambda_dim|^iterations; where these are close, the subspace is blurred there and the features
 * lose little, so a fixed number of iterations is enough. Signs are made positive at the largest entry. */
#include "demo/people.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/linalg.h"
#include "base/rng.h"
#include "common/text.h"

/* fixed, so that the cost and the bits do not hang on a test for convergence */
#define ITERATIONS 200
#define START_KEY 20260101u /* the start vectors are noise from a fixed key */
#define TINY 1e-12

/* P from the counts, both m x m. Pairs never liked together have information -infinity, hence 0. O(m^2). Rows without
 * any co-like are zero, and so are their features in the end. */
static void make_ppmi(size_t m, const double *co, double *p)
{
    double total = 0.0;
    double *row = lc_alloc(m, sizeof *row);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            row[i] += i != j ? co[i * m + j] : 0.0;
    for (size_t i = 0; i < m; i++)
        total += row[i];
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            double c = co[i * m + j];
            p[i * m + j] = i != j && c > 0.0 ? fmax(0.0, log(c * total / (row[i] * row[j]))) : 0.0;
        }
    free(row);
}

/* Modified Gram-Schmidt, twice for orthogonality to rounding; a column that vanishes becomes zero. Columns of length m,
 * the first ones first: column k loses its parts along 0..k-1. */
static void orthonormalise(size_t m, size_t dim, double *v)
{
    for (size_t k = 0; k < dim; k++) {
        double *x = v + k * m;
        for (int pass = 0; pass < 2; pass++)
            for (size_t j = 0; j < k; j++)
                kb_axpy(m, -kb_dot(m, v + j * m, x), v + j * m, x);
        double norm = sqrt(kb_dot(m, x, x));
        for (size_t i = 0; i < m; i++)
            x[i] = norm > TINY ? x[i] / norm : 0.0;
    }
}

/* An eigenvector and its negative are the same; this picks one, so that features do not depend on the start. */
static void fix_sign(size_t m, double *x)
{
    size_t best = 0;
    for (size_t i = 1; i < m; i++)
        if (fabs(x[i]) > fabs(x[best]))
            best = i;
    if (x[best] < 0.0)
        for (size_t i = 0; i < m; i++)
            x[i] = -x[i];
}

/* v: m x dim, column-major, orthonormal; lambda: Rayleigh quotients. Absolute values of lambda, since the largest in
 * size count, of either sign. */
static void top_eigenvectors(size_t m, const double *p, size_t dim, double *v, double *lambda)
{
    double *w = lc_alloc(m * dim, sizeof *w);
    for (size_t i = 0; i < m * dim; i++)
        v[i] = kb_rng_normal(START_KEY, KB_STREAM_SIMULATION, i);
    orthonormalise(m, dim, v);
    for (int it = 0; it < ITERATIONS; it++) {
        kb_gemm(m, dim, m, 1.0, p, m, v, m, 0.0, w, m);
        memcpy(v, w, m * dim * sizeof *v);
        orthonormalise(m, dim, v);
    }
    kb_gemm(m, dim, m, 1.0, p, m, v, m, 0.0, w, m);
    for (size_t k = 0; k < dim; k++) {
        fix_sign(m, v + k * m);
        lambda[k] = fabs(kb_dot(m, v + k * m, w + k * m));
    }
    free(w);
}

/* To length 1: an RBF on them then sees the angle between arms, not how much information there is about them. */
static void scale_rows(size_t m, size_t dim, double *x)
{
    for (size_t i = 0; i < m; i++) {
        double norm = sqrt(kb_dot(dim, x + i * dim, x + i * dim));
        for (size_t k = 0; k < dim; k++)
            x[i * dim + k] = norm > TINY ? x[i * dim + k] / norm : 0.0;
    }
}

void lc_arm_features(size_t m, const double *co, size_t dim, double *out)
{
    double *p = lc_alloc(m * m, sizeof *p), *v = lc_alloc(m * dim, sizeof *v), *lambda = lc_alloc(dim, sizeof *lambda);
    make_ppmi(m, co, p);
    top_eigenvectors(m, p, dim, v, lambda);
    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k < dim; k++)
            out[i * dim + k] = sqrt(lambda[k]) * v[k * m + i];
    scale_rows(m, dim, out);
    free(p);
    free(v);
    free(lambda);
}
