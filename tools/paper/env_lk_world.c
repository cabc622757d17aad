/* What a seed draws once for [LK]'s environments: the user graph, the pool of items, and f on users x items.
 *
 *   graph   ER   every pair with probability .2, weight 1                                              [LK, F.1.1]
 *           RBF  z_u ~ N(0, I_4), weight exp(-.1 |z_u - z_v|^2) where that is at least .1              [LK, F.1.1]
 *           SBM  four blocks, .5 inside and .05 between, weight 1: ours, the paper gives no numbers
 *           complete, alone  weight 1 between all, none at all: for the spectra
 *   items   x_i ~ N(0, I_d), perhaps scaled to length 1
 *   f       n x M, all three regimes as f = H(L) Z F^T with Z normal, n x k, and H(L) = Q diag(h(e)) Q^T:
 *
 *           regime       h(e)                F (M x k)                      source
 *           linear       1 / (1 + e)         the items, k = d               [LK, F.1.2 (1)]: Theta = (I + L)^-1 Z
 *           GP draw      (e + rho)^(-p/2)    factor of the items' Gram      [LK, F.1.2 (2A)]: cov f = L_rho^-p (x) Kx
 *           representer  (e + rho)^-p        the items' Gram                [LK, F.1.2 (2B)]: f = K alpha
 *
 * Letters: n users, M items, d dimension, L = D - W, Q diag(e) Q^T its eigendecomposition, p power, l = 1 the
 * environment's lengthscale. The draw uses the Kronecker structure, so the nM x nM covariance is never formed.
 *
 * Numerics: eigenvalues of L are clipped at 0 (they come out at -1e-15); the Gram gets 1e-10 on its diagonal, which
 * moves a draw by 1e-5 of its spread at most. Eigenvalues below 1e-9 of the largest count as 0.
 * Cost: O(n^3) for the eigendecomposition, O(n^2 k + n k M) for the draw. */
#include "paper/env_lk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/chol.h"
#include "linalg/eigen.h"
#include "base/hash.h"
#include "linalg/linalg.h"

#define ER_PROBABILITY 0.2
#define RBF_PLACES 4u
#define RBF_RATE 0.1
#define RBF_LEAST 0.1
#define SBM_BLOCKS 4u
#define SBM_INSIDE 0.5
#define SBM_BETWEEN 0.05
#define LENGTHSCALE 1.0
#define JITTER 1e-10
#define NO_EIGENVALUE 1e-9 /* of the largest: the kernel of L */

/* Purposes have keys of their own, so that a change in one draw (a larger pool, say) leaves all others as they were. */
uint64_t pb_lk_key(uint64_t seed, enum pb_lk_purpose purpose)
{
    return kb_hash_u64(kb_hash_u64(KB_HASH_INIT, seed), (uint64_t)purpose);
}

/* --- graph -------------------------------------------------------------------------------------------- */

static double distance2(const double *x, const double *y, size_t k)
{
    double sum = 0.0;
    for (size_t j = 0; j < k; j++)
        sum += (x[j] - y[j]) * (x[j] - y[j]);
    return sum;
}

/* Users' places are made anew for every pair: cheaper to state than to store, and 4 normals are nothing. */
static double rbf_weight(uint64_t seed, size_t u, size_t v)
{
    const uint64_t key = pb_lk_key(seed, PB_LK_KEY_PLACES);
    double a[RBF_PLACES], b[RBF_PLACES];
    for (size_t j = 0; j < RBF_PLACES; j++) {
        a[j] = pb_lk_normal(key, u * RBF_PLACES + j);
        b[j] = pb_lk_normal(key, v * RBF_PLACES + j);
    }
    const double w = exp(-RBF_RATE * distance2(a, b, RBF_PLACES));
    return w >= RBF_LEAST ? w : 0.0;
}

/* Weight of the pair u < v; 0 = no edge. Blocks are contiguous and differ in size by one at most. */
static double pair_weight(const struct pb_lk_shape *shape, uint64_t seed, size_t u, size_t v)
{
    const size_t n = shape->n_users;
    const double toss = pb_lk_uniform(pb_lk_key(seed, PB_LK_KEY_GRAPH), u * n + v);
    switch (shape->graph) {
    case PB_LK_ER:
        return toss < ER_PROBABILITY ? 1.0 : 0.0;
    case PB_LK_RBF:
        return rbf_weight(seed, u, v);
    case PB_LK_SBM:
        return toss < (u * SBM_BLOCKS / n == v * SBM_BLOCKS / n ? SBM_INSIDE : SBM_BETWEEN) ? 1.0 : 0.0;
    case PB_LK_COMPLETE:
        return 1.0;
    case PB_LK_ALONE:
    case PB_LK_N_GRAPHS:
        break;
    }
    return 0.0;
}

/* Both triangles: the degrees below are column sums, and edges are read by rows. O(n^2). */
static void draw_graph(struct pb_lk_world *w, uint64_t seed)
{
    const size_t n = w->shape.n_users;
    for (size_t u = 0; u < n; u++)
        for (size_t v = u + 1; v < n; v++)
            w->weight[u * n + v] = w->weight[v * n + u] = pair_weight(&w->shape, seed, u, v);
}

/* lambda_2 / lambda_max. A disconnected graph has lambda_2 = 0, which would put the schedule of lambda at its floor;
 * the smallest eigenvalue that is not 0 stands in for it. */
static double spectral_ratio(const double *eigenvalue, size_t n)
{
    const double largest = eigenvalue[n - 1];
    for (size_t i = 0; i < n && largest > 0.0; i++)
        if (eigenvalue[i] > NO_EIGENVALUE * largest)
            return eigenvalue[i] / largest;
    return 1.0;
}

/* L = D - W into `basis`, then its eigenvectors. One decomposition serves every use of L: the draw of f, the schedule's
 * ratio, any power of (L + rho I). Vectors of eigenvalues that coincide are some basis of their common space, which no
 * function of L depends on. KB_ENOMEM. O(n^3). */
static enum kb_err decompose(struct pb_lk_world *w)
{
    const size_t n = w->shape.n_users;
    for (size_t v = 0; v < n; v++) {
        double degree = 0.0;
        for (size_t u = 0; u < n; u++) {
            w->basis[v * n + u] = -w->weight[v * n + u];
            degree += w->weight[v * n + u];
        }
        w->basis[v * n + v] = degree;
    }
    const enum kb_err rc = kb_eigen_symmetric(n, w->basis, w->eigenvalue);
    if (rc != KB_OK)
        return rc;
    for (size_t i = 0; i < n; i++)
        w->eigenvalue[i] = fmax(0.0, w->eigenvalue[i]);
    w->ratio = spectral_ratio(w->eigenvalue, n);
    return KB_OK;
}

/* --- items -------------------------------------------------------------------------------------------- */

/* Scaled, the items are uniform on the sphere and at most 2 apart, so that l = 1 ties them together; as drawn they are
 * about sqrt(2 d) apart, and the environment's kernel between two of them is nearly 0. That is what the readings differ
 * in most. */
static void draw_items(struct pb_lk_world *w, uint64_t seed)
{
    const size_t d = w->shape.dim;
    const uint64_t key = pb_lk_key(seed, PB_LK_KEY_ITEMS);
    for (size_t i = 0; i < w->shape.n_items; i++) {
        double *x = w->item + i * d, norm = 0.0;
        for (size_t j = 0; j < d; j++) {
            x[j] = pb_lk_normal(key, i * d + j);
            norm += x[j] * x[j];
        }
        for (size_t j = 0; j < d && w->shape.is_normalized; j++)
            x[j] /= sqrt(norm);
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over the M (M - 1) / 2 pairs, the mean of the middle two when their number is even. KB_ENOMEM. */
static enum kb_err median_distance(struct pb_lk_world *w)
{
    const size_t m = w->shape.n_items, d = w->shape.dim;
    size_t n = 0;
    double *all = kb_array(m, m, sizeof *all);
    if (all == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < m; i++)
        for (size_t j = i + 1; j < m; j++)
            all[n++] = sqrt(distance2(w->item + i * d, w->item + j * d, d));
    qsort(all, n, sizeof *all, ascending);
    w->lengthscale = 0.5 * (all[(n - 1) / 2] + all[n / 2]);
    kb_free(all);
    return KB_OK;
}

/* exp(-|x_i - x_j|^2 / 2 l^2) over the pool. O(d). Callers need M^2 values once, so nothing is kept. */
static double item_kernel(const struct pb_lk_world *w, size_t i, size_t j, double lengthscale)
{
    const size_t d = w->shape.dim;
    return exp(-distance2(w->item + i * d, w->item + j * d, d) / (2.0 * lengthscale * lengthscale));
}

/* --- f ------------------------------------------------------------------------------------------------ */

/* h of the header's table at one eigenvalue of L. A GP draw takes the root of the covariance's spectrum, the
 * representer the spectrum itself, since there H stands for the kernel and not for a factor of it. */
static double user_share(const struct pb_lk_shape *shape, double e)
{
    switch (shape->regime) {
    case PB_LK_LINEAR:
        return 1.0 / (1.0 + e);
    case PB_LK_GP:
        return pow(e + shape->rho, -0.5 * shape->power);
    case PB_LK_REPRESENTER:
    case PB_LK_N_REGIMES:
        break;
    }
    return pow(e + shape->rho, -shape->power);
}

/* The items' Gram at the environment's own lengthscale, M x M, into f; its lower factor for a GP draw. Entries above
 * the diagonal are written, too: what the factor leaves there is not 0. KB_ENOMEM, KB_ENOTPD. O(M^2 (d + M)). */
static enum kb_err gram_factor(const struct pb_lk_world *w, double *f)
{
    const size_t m = w->shape.n_items;
    struct kb_chol chol;
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < m; i++)
            f[j * m + i] = item_kernel(w, i, j, LENGTHSCALE) + (i == j ? JITTER : 0.0);
    if (w->shape.regime != PB_LK_GP)
        return KB_OK;
    kb_chol_init(&chol);
    const enum kb_err rc = kb_chol_factor(&chol, f, m, m);
    for (size_t j = 0; j < m && rc == KB_OK; j++)
        for (size_t i = 0; i < m; i++)
            f[j * m + i] = i < j ? 0.0 : chol.l[j * chol.cap + i];
    kb_chol_close(&chol);
    return rc;
}

/* F^T of the header's table: k x M, column i belongs to item i. Transposed, so that the linear regime's is the pool as
 * it lies in memory. */
static enum kb_err item_factor(const struct pb_lk_world *w, size_t k, double *ft)
{
    const size_t m = w->shape.n_items;
    enum kb_err rc = KB_ENOMEM;
    if (w->shape.regime == PB_LK_LINEAR) {
        memcpy(ft, w->item, m * k * sizeof *ft); /* [M][d] is d x M by columns */
        return KB_OK;
    }
    double *f = kb_array(m, m, sizeof *f);
    if (f != NULL)
        rc = gram_factor(w, f);
    for (size_t i = 0; i < m && rc == KB_OK; i++)
        for (size_t j = 0; j < m; j++)
            ft[i * m + j] = f[j * m + i];
    kb_free(f);
    return rc;
}

/* y = H x for n x k matrices: Q diag(h) Q^T x. work: n x k; y may be x. O(n^2 k). */
static void apply_users(const struct pb_lk_world *w, size_t k, const double *x, double *work, double *y)
{
    const size_t n = w->shape.n_users;
    kb_gemm_tn(n, k, n, 1.0, w->basis, n, x, n, 0.0, work, n);
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < n; i++)
            work[j * n + i] *= user_share(&w->shape, w->eigenvalue[i]);
    kb_gemm(n, k, n, 1.0, w->basis, n, work, n, 0.0, y, n);
}

/* f = H Z F^T into `truth`, user by user, as rounds read it. Z is keyed by (user, column), so a user's part of it does
 * not move when others join. KB_ENOMEM, KB_ENOTPD. */
static enum kb_err draw_truth(struct pb_lk_world *w, uint64_t seed)
{
    const size_t n = w->shape.n_users, m = w->shape.n_items, k = w->shape.regime == PB_LK_LINEAR ? w->shape.dim : m;
    const uint64_t key = pb_lk_key(seed, PB_LK_KEY_TRUTH);
    enum kb_err rc = KB_ENOMEM;
    double *z = kb_array(n, k, sizeof *z), *work = kb_array(n, k, sizeof *work);
    double *ft = kb_array(k, m, sizeof *ft), *f = kb_array(n, m, sizeof *f);
    if (z == NULL || work == NULL || ft == NULL || f == NULL)
        goto out;
    KB_TRY(item_factor(w, k, ft));
    for (size_t u = 0; u < n; u++)
        for (size_t j = 0; j < k; j++)
            z[j * n + u] = pb_lk_normal(key, u * k + j);
    apply_users(w, k, z, work, z);
    kb_gemm(n, m, k, 1.0, z, n, ft, k, 0.0, f, n);
    for (size_t u = 0; u < n; u++)
        for (size_t i = 0; i < m; i++)
            w->truth[u * m + i] = f[i * n + u];
out:
    kb_free(z);
    kb_free(work);
    kb_free(ft);
    kb_free(f);
    return rc;
}

static double range_of(const double *x, size_t n)
{
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    return most - least;
}

/* From the spectrum that is there already; a second way to the same matrix than core/graph/user_kernel.c takes. */
enum kb_err pb_lk_user_covariance(const struct pb_lk_world *w, double rho, double power, double *g)
{
    const size_t n = w->shape.n_users;
    double *scaled = kb_array(n, n, sizeof *scaled);
    if (scaled == NULL)
        return KB_ENOMEM;
    for (size_t j = 0; j < n; j++) /* row i of Q diag(h) contiguous: column i of g is Q times it */
        for (size_t i = 0; i < n; i++)
            scaled[i * n + j] = w->basis[j * n + i] * pow(w->eigenvalue[j] + rho, -power);
    for (size_t i = 0; i < n; i++)
        kb_gemv(n, n, 1.0, w->basis, n, scaled + i * n, 0.0, g + i * n);
    kb_free(scaled);
    return KB_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

void pb_lk_world_close(struct pb_lk_world *w)
{
    kb_free(w->weight);
    kb_free(w->eigenvalue);
    kb_free(w->basis);
    kb_free(w->item);
    kb_free(w->truth);
    *w = (struct pb_lk_world){0};
}

/* The order of the draws does not matter: each has its own key. f comes last since it needs all others, and the noise
 * is measured on it. */
enum kb_err pb_lk_world_open(struct pb_lk_world *w, const struct pb_lk_shape *shape, uint64_t seed)
{
    const size_t n = shape->n_users, m = shape->n_items;
    enum kb_err rc = KB_ENOMEM;
    *w = (struct pb_lk_world){.shape = *shape,
                              .weight = kb_array(n, n, sizeof(double)),
                              .eigenvalue = kb_array(n, 1, sizeof(double)),
                              .basis = kb_array(n, n, sizeof(double)),
                              .item = kb_array(m, shape->dim, sizeof(double)),
                              .truth = kb_array(n, m, sizeof(double))};
    if (w->weight == NULL || w->eigenvalue == NULL || w->basis == NULL || w->item == NULL || w->truth == NULL)
        goto out;
    draw_graph(w, seed);
    draw_items(w, seed);
    KB_TRY(decompose(w));
    KB_TRY(median_distance(w));
    KB_TRY(draw_truth(w, seed));
    w->noise = shape->noise * (shape->is_relative ? range_of(w->truth, n * m) : 1.0);
out:
    if (rc != KB_OK)
        pb_lk_world_close(w);
    return rc;
}
