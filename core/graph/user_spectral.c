/* User kernels from the eigendecomposition L = Q diag(e) Q^T of the graph's Laplacian (user_spectral.h).
 *
 *   letter     shape   meaning
 *   n                  nodes of the graph
 *   L, Q, e            Laplacian, its orthonormal eigenvectors (columns), eigenvalues, ascending, >= 0
 *   f(e)               laplacian: (e + rho)^-power;   heat: exp(-tau e)
 *   G          n x n   Q diag(f(e)) Q^T;   spectral_rbf: exp(-|x_u - x_v|^2 / 2 l^2), users of one component
 *   x_u        m       spectral coordinates of user u: row u of the m lowest non-trivial columns of Q
 *
 * Powers: [LK, Thm 2.1] is power 1, and the tables of [LK, sec. 5] come from power 1/2 (docs/PAPERS.md). Heat and
 * spectral_rbf are the kernels between users of [LK, baselines], COOP-KernelUCB.
 *
 * Spectral coordinates. An eigenvalue below 1e-9 of the largest is trivial: its vector tells components apart and
 * nothing within one. Of the others the k lowest count, together with those that coincide with the k-th (within the
 * same 1e-9): inside an eigenspace the basis is LAPACK's accident, but distances over the whole of it are not. So G
 * is a function of the graph, whatever the numbering of its nodes (test:
 * spectral_kernels_do_not_depend_on_the_numbering). Coordinates of rounding size are set to zero.
 * Deviation: users of different components are independent, G_uv = 0. In [LK] the graph is connected and the case
 * does not arise; an RBF of coordinates alone would put every user whose component has none of the k vectors on the
 * same point, and have strangers to each other share everything (test: components_do_not_share). The product with
 * "same component" keeps G positive semi-definite. For f(L) the same zeros hold by theory; writing them takes away
 * the rounding.
 *
 * lengthscale 0 asks for the median of the positive distances among (at most 512 of) the users: kb_median_distance.
 *
 * Numerics: e carries errors of n eps e_max, so rho must stay well above that; below, KB_ENOTPD, as the Cholesky
 * factorisation of power 1 says. Negative roundings of e are lifted to 0, so f never exceeds f(0).
 * Cost: 9 n^3 flops for the decomposition, n^3 for Q diag(f) Q^T as a symmetric product, n^2 m for coordinates. */
#include "graph/user_spectral.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/eigen.h"
#include "linalg/linalg.h"
#include "vector/vec_kernel.h"

#define TRIVIAL 1e-9            /* of e_max: null vectors, and how near eigenvalues must be to count as one */
#define ROUNDING 1e-12          /* coordinates of unit vectors below it carry no digit */
#define LEAST_LENGTHSCALE 1e-12 /* all coordinates differ by more or by nothing, and its square is a number */
#define LEAST_RIDGE_UNITS 1e3   /* rho in units of n eps e_max: three digits of (e + rho) at e = 0 at the least */

/* Work of one kernel: the decomposition and who is connected with whom. */
struct spectrum {
    size_t n;
    double *q, *e;       /* n x n by column; n ascending */
    uint32_t *component; /* [n] the least node of the component */
};

static void spectrum_close(struct spectrum *s)
{
    kb_free(s->q);
    kb_free(s->e);
    kb_free(s->component);
}

/* L itself is singular, so the dense Laplacian is written with rho = 0 and the ridge enters in f. */
static enum kb_err spectrum_open(struct spectrum *s, const struct kb_graph *graph)
{
    size_t n = kb_graph_n_nodes(graph);
    enum kb_err rc;
    *s = (struct spectrum){.n = n,
                           .q = kb_array(n, n, sizeof *s->q),
                           .e = kb_array(n, 1, sizeof *s->e),
                           .component = kb_array(n, 1, sizeof *s->component)};
    if (s->q == NULL || s->e == NULL || s->component == NULL)
        return KB_ENOMEM;
    kb_graph_components(graph, s->component);
    kb_graph_dense(graph, 0.0, 0.0, s->q);
    KB_TRY(kb_eigen_symmetric(n, s->q, s->e));
    for (size_t j = 0; j < n; j++)
        s->e[j] = fmax(s->e[j], 0.0);
out:
    return rc;
}

/* --- f(L) -------------------------------------------------------------------------------------------- */

/* f at one eigenvalue. */
static double filter(const struct kb_user_kernel_spec *spec, double e)
{
    return spec->type == KB_USER_HEAT ? exp(-spec->tau * e) : pow(e + spec->rho, -spec->power);
}

/* Only a power of L + rho I amplifies what rounding did to the null eigenvalue. */
static bool is_ridge_lost(const struct kb_user_kernel_spec *spec, const struct spectrum *s)
{
    double e_max = s->e[s->n - 1];
    return spec->type == KB_USER_LAPLACIAN && spec->rho < LEAST_RIDGE_UNITS * (double)s->n * DBL_EPSILON * e_max;
}

/* A large tau takes off everything that rounding has put onto the null eigenvalue, and then all of the diagonal. */
static bool is_diagonal_lost(size_t n, const double *g)
{
    for (size_t i = 0; i < n; i++)
        if (!(g[i * (n + 1)] > 0 && isfinite(g[i * (n + 1)])))
            return true;
    return false;
}

/* Columns of Q are scaled by sqrt(f), then G = Q Q^T: symmetric and semi-definite by construction. */
static enum kb_err fill_function(const struct kb_user_kernel_spec *spec, struct spectrum *s, double *g)
{
    size_t n = s->n;
    if (is_ridge_lost(spec, s))
        return KB_ENOTPD;
    for (size_t j = 0; j < n; j++) {
        double root = sqrt(filter(spec, s->e[j]));
        for (size_t i = 0; i < n; i++)
            s->q[j * n + i] *= root;
    }
    kb_syrk_lower(n, n, 1.0, s->q, n, 0.0, g, n);
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++) {
            double value = s->component[i] == s->component[j] ? g[j * n + i] : 0.0;
            g[j * n + i] = g[i * n + j] = value;
        }
    return is_diagonal_lost(n, g) ? KB_ENOTPD : KB_OK;
}

/* --- spectral coordinates -------------------------------------------------------------------------------- */

/* The columns of Q that make the coordinates: *first and how many; 0 when no edge connects anybody. */
static size_t choose_columns(const struct spectrum *s, size_t k, size_t *first)
{
    double unit = TRIVIAL * s->e[s->n - 1];
    size_t at = 0, end;
    while (at < s->n && s->e[at] <= unit)
        at++;
    *first = at;
    end = s->n - at < k ? s->n : at + k;
    while (end > at && end < s->n && s->e[end] <= s->e[end - 1] + unit)
        end++;
    return end - at;
}

/* Rows of m coordinates, one per user. */
static void write_coordinates(const struct spectrum *s, size_t first, size_t m, double *x)
{
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < s->n; i++) {
            double value = s->q[(first + j) * s->n + i];
            x[i * m + j] = fabs(value) > ROUNDING ? value : 0.0;
        }
}

/* A column of G starts as "same component" and is multiplied by the RBF of the coordinates. */
static enum kb_err fill_rbf(const struct kb_user_kernel_spec *spec, struct spectrum *s, double *g)
{
    struct kb_vec_kernel_spec rbf = {
        .type = KB_VEC_RBF, .lengthscale = fmax(spec->lengthscale, LEAST_LENGTHSCALE), .degree = 1};
    size_t n = s->n, first, m = choose_columns(s, spec->n_vectors, &first);
    double *x = kb_array(n, m + 1, sizeof *x);
    enum kb_err rc = x != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    write_coordinates(s, first, m, x);
    if (spec->lengthscale <= 0.0)
        KB_TRY(kb_median_distance(n, m, x, m, &rbf.lengthscale));
    for (size_t j = 0; j < n; j++) {
        double *column = g + j * n;
        for (size_t i = 0; i < n; i++)
            column[i] = s->component[i] == s->component[j] ? 1.0 : 0.0;
        if (m > 0)
            kb_vec_kernel_scale(&rbf, m, x, m, n, x + j * m, column);
    }
out:
    kb_free(x);
    return rc;
}

/* --- the kernels ------------------------------------------------------------------------------------------ */

enum kb_err kb_user_spectral(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph, double *g)
{
    struct spectrum s = {0};
    enum kb_err rc = KB_OK;
    if (graph == NULL || kb_graph_n_nodes(graph) == 0)
        return KB_OK;
    KB_TRY(spectrum_open(&s, graph));
    rc = spec->type == KB_USER_SPECTRAL_RBF ? fill_rbf(spec, &s, g) : fill_function(spec, &s, g);
out:
    spectrum_close(&s);
    return rc;
}

/* A node without edges has e = 0 and a component of its own. */
double kb_user_spectral_isolated(const struct kb_user_kernel_spec *spec)
{
    return spec->type == KB_USER_SPECTRAL_RBF ? 1.0 : filter(spec, 0.0);
}
