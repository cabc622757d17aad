/* The users' Gram matrix of a world (kbt_world.h), from definitions, nothing of core/ called.
 *
 * (L + rho I)^-1 is the inverse, by elimination, of a dense matrix written entry by entry from the edge list, with
 * the virtual node as one more row when there is a population; users unknown to the graph are handled by the
 * conditional distribution of user_kernel.h. Other powers, heat and spectral_rbf come from Jacobi's rotations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "kbt_world.h"

/* --- (L + rho I)^-1 ---------------------------------------------------------------------------------------- */

/* Inverse of L + rho I over the nodes (and the virtual node, last), order *order. malloc'ed. */
static double *node_gram(const struct kbt_world *w, size_t *order)
{
    double rho = w->spec.user_kernel.rho, population = w->spec.user_kernel.population;
    size_t n = w->n_nodes + (population > 0);
    double *a = kbt_array(n * n + 1), *inverse = kbt_array(n * n + 1);
    for (size_t i = 0; i < n; i++)
        a[i * n + i] = rho;
    for (size_t e = 0; e < w->n_edges; e++) {
        size_t u = w->edges[e].u, v = w->edges[e].v;
        a[u * n + u] += w->edges[e].weight;
        a[v * n + v] += w->edges[e].weight;
        a[u * n + v] -= w->edges[e].weight;
        a[v * n + u] -= w->edges[e].weight;
    }
    for (size_t i = 0; population > 0 && i < w->n_nodes; i++) {
        a[i * n + i] += population;
        a[(n - 1) * n + n - 1] += population;
        a[i * n + n - 1] = a[(n - 1) * n + i] = -population;
    }
    /* padding hangs on the virtual node alone and is eliminated from the system: population - population^2 / (...) */
    if (population > 0)
        a[n * n - 1] += (double)w->n_padding * (population - population * population / (population + rho));
    kbt_inverse(n, a, inverse);
    free(a);
    *order = n;
    return inverse;
}

/* G_uv before normalisation. */
static double laplacian_value(const struct kbt_world *w, const double *g, size_t order, size_t u, size_t v)
{
    double rho = w->spec.user_kernel.rho, population = w->spec.user_kernel.population;
    double c = population / (population + rho), own = u == v ? 1 / (population + rho) : 0;
    bool u_known = w->node_of[u] != KB_ID_NONE, v_known = w->node_of[v] != KB_ID_NONE;
    if (u_known && v_known)
        return g[w->node_of[u] * order + w->node_of[v]];
    if (population <= 0)
        return own;
    size_t p = order - 1;
    if (!u_known && !v_known)
        return c * c * g[p * order + p] + own;
    return c * g[w->node_of[u_known ? u : v] * order + p];
}

/* --- functions of the spectrum ------------------------------------------------------------------------------ */

/* Jacobi's decomposition of L; values ascend. */
struct spectrum {
    size_t n;
    double *e, *v;
};

/* Selection sort of the columns by their values. */
static void sort_columns(struct spectrum *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = i + 1; j < s->n; j++) {
            if (s->e[j] >= s->e[i])
                continue;
            double e = s->e[i];
            s->e[i] = s->e[j];
            s->e[j] = e;
            for (size_t r = 0; r < s->n; r++) {
                double v = s->v[i * s->n + r];
                s->v[i * s->n + r] = s->v[j * s->n + r];
                s->v[j * s->n + r] = v;
            }
        }
}

static struct spectrum decompose(const struct kbt_world *w)
{
    struct spectrum s = {w->n_nodes, kbt_array(w->n_nodes), kbt_array(w->n_nodes * w->n_nodes)};
    double *l = kbt_array(s.n * s.n);
    for (size_t k = 0; k < w->n_edges; k++) {
        size_t u = w->edges[k].u, v = w->edges[k].v;
        l[u * s.n + u] += w->edges[k].weight;
        l[v * s.n + v] += w->edges[k].weight;
        l[u * s.n + v] -= w->edges[k].weight;
        l[v * s.n + u] -= w->edges[k].weight;
    }
    kbt_eigen(s.n, l, s.e, s.v);
    sort_columns(&s);
    free(l);
    return s;
}

static double filter(const struct kb_user_kernel_spec *k, double e)
{
    return k->type == KB_USER_HEAT ? exp(-k->tau * fmax(e, 0)) : pow(fmax(e, 0) + k->rho, -k->power);
}

/* Squared distance of two nodes over the k lowest non-trivial vectors (eigenvalues of these worlds are simple). */
static double distance2(const struct spectrum *s, size_t k, size_t a, size_t b)
{
    double sum = 0;
    size_t first = 0;
    while (first < s->n && s->e[first] <= 1e-9 * s->e[s->n - 1])
        first++;
    for (size_t j = first; j < s->n && j < first + k; j++)
        sum += pow(s->v[j * s->n + a] - s->v[j * s->n + b], 2);
    return sum;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_distance(const struct spectrum *s, size_t k)
{
    double *d = kbt_array(s->n * s->n), median = 1;
    size_t count = 0;
    for (size_t a = 0; a < s->n; a++)
        for (size_t b = 0; b < a; b++)
            if (distance2(s, k, a, b) > 1e-20)
                d[count++] = sqrt(distance2(s, k, a, b));
    qsort(d, count, sizeof *d, ascending);
    if (count > 0)
        median = 0.5 * (d[(count - 1) / 2] + d[count / 2]);
    free(d);
    return median;
}

/* G_uv before normalisation; a stranger is an isolated node. A world's graph is connected or has no edge at all. */
static double spectral_value(const struct kbt_world *w, const struct spectrum *s, size_t u, size_t v)
{
    const struct kb_user_kernel_spec *k = &w->spec.user_kernel;
    bool is_rbf = k->type == KB_USER_SPECTRAL_RBF;
    size_t a = w->node_of[u], b = w->node_of[v];
    if (u == v && is_rbf)
        return 1;
    if (a == KB_ID_NONE || b == KB_ID_NONE)
        return u == v ? filter(k, 0) : 0;
    if (is_rbf) {
        double scale = k->lengthscale > 0 ? k->lengthscale : median_distance(s, k->n_vectors);
        return w->n_edges > 0 ? exp(-distance2(s, k->n_vectors, a, b) / (2 * scale * scale)) : 0;
    }
    double sum = 0;
    for (size_t j = 0; j < s->n; j++)
        sum += filter(k, s->e[j]) * s->v[j * s->n + a] * s->v[j * s->n + b];
    return w->n_edges > 0 || a == b ? sum : 0;
}

/* --- the matrix ------------------------------------------------------------------------------------------------ */

void kbt_world_fill_user_gram(struct kbt_world *w)
{
    const struct kb_user_kernel_spec *k = &w->spec.user_kernel;
    bool is_inverse = k->type == KB_USER_LAPLACIAN && k->power == 1.0;
    size_t n = w->n_users, order;
    double *g = node_gram(w, &order), *raw = kbt_array(n * n);
    struct spectrum s = decompose(w);
    for (size_t u = 0; u < n; u++)
        for (size_t v = 0; v < n; v++)
            raw[u * n + v] = is_inverse ? laplacian_value(w, g, order, u, v) : spectral_value(w, &s, u, v);
    for (size_t u = 0; u < n; u++)
        for (size_t v = 0; v < n; v++) {
            double value = raw[u * n + v];
            if (k->is_normalized)
                value /= sqrt(raw[u * n + u]) * sqrt(raw[v * n + v]);
            if (k->type == KB_USER_IDENTITY || k->type == KB_USER_MMD) /* which has learned nothing in a world */
                value = u == v;
            if (k->type == KB_USER_ONES)
                value = 1;
            w->user_gram[u * n + v] = value;
        }
    free(g);
    free(raw);
    free(s.e);
    free(s.v);
}
