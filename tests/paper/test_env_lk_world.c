/* What a seed draws for LK's environments: the covariance of f from naive algebra, graphs and items by counting.
 * Margins are four to five standard deviations of the statistic, seeds are fixed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper/exp_lk.h"
#include "kbt.h"

static const enum pb_lk_graph random_graphs[] = {PB_LK_ER, PB_LK_RBF, PB_LK_SBM};

static struct pb_env *open_env(const struct pb_setting *s, uint64_t seed)
{
    struct pb_env *env = NULL;
    ck_assert_int_eq(pb_lk_open(s, seed, 100, &env), KB_OK);
    return env;
}

static const struct pb_setting fitted = PB_LK_SETTING("fitted", 20, ER, MEDIUM, GP, FITTED, 0);
static const struct pb_setting literal = PB_LK_SETTING("literal", 20, ER, MEDIUM, GP, LITERAL, 0);

/* --- f ------------------------------------------------------------------------------------------------------ */

#define N 4u
#define M 2u /* = d, so that the items' own Gram is regular, too */
#define F (N * M)

/* a = V diag(g(e)) V^T of the world's L + shift I, by Jacobi rotations: h(e) = e^-power. */
static void matrix_power(const struct pb_lk_world *w, double shift, double power, double *a)
{
    double l[N * N], value[N], vector[N * N];
    for (size_t u = 0; u < N; u++) {
        l[u * N + u] = shift;
        for (size_t v = 0; v < N; v++)
            l[u * N + u] += w->weight[u * N + v];
        for (size_t v = 0; v < N; v++)
            if (v != u)
                l[u * N + v] = -w->weight[u * N + v];
    }
    kbt_eigen(N, l, value, vector);
    for (size_t u = 0; u < N; u++)
        for (size_t v = 0; v < N; v++) {
            a[u * N + v] = 0.0;
            for (size_t i = 0; i < N; i++)
                a[u * N + v] += vector[i * N + u] * vector[i * N + v] * pow(value[i], -power);
        }
}

/* The items' side of the covariance: x x', the SE kernel with l = 1, or that kernel's square. */
static void item_side(const struct pb_lk_world *w, double *b)
{
    double k[M * M];
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < M; j++) {
            const double *x = w->item + i * M, *y = w->item + j * M;
            const double r2 = pow(x[0] - y[0], 2.0) + pow(x[1] - y[1], 2.0);
            k[i * M + j] = w->shape.regime == PB_LK_LINEAR ? x[0] * y[0] + x[1] * y[1] : exp(-0.5 * r2);
        }
    memcpy(b, k, sizeof k);
    if (w->shape.regime == PB_LK_REPRESENTER)
        kbt_multiply_t(M, M, k, k, b);
}

/* Covariance of f, entry (u M + i, v M + j), as the paper states it for each regime. */
static void covariance(const struct pb_lk_world *w, double *k)
{
    double a[N * N], b[M * M];
    if (w->shape.regime == PB_LK_LINEAR)
        matrix_power(w, 1.0, 2.0, a);
    else
        matrix_power(w, w->shape.rho, w->shape.regime == PB_LK_GP ? w->shape.power : 2.0 * w->shape.power, a);
    item_side(w, b);
    for (size_t r = 0; r < F; r++)
        for (size_t c = 0; c < F; c++)
            k[r * F + c] = a[r / M * N + c / M] * b[r % M * M + c % M];
}

/* x = C^-1 f for K = C C^T by the schoolbook Cholesky; k is destroyed. */
static void whiten(double *k, const double *f, double *x)
{
    for (size_t i = 0; i < F; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = k[i * F + j];
            for (size_t l = 0; l < j; l++)
                sum -= k[i * F + l] * k[j * F + l];
            k[i * F + j] = i == j ? sqrt(sum) : sum / k[j * F + j];
        }
    for (size_t i = 0; i < F; i++) {
        x[i] = f[i];
        for (size_t j = 0; j < i; j++)
            x[i] -= k[i * F + j] * x[j];
        x[i] /= k[i * F + i];
    }
}

/* If f has the covariance K of its own graph and items, C^-1 f is white whatever they are: over 4,000 seeds every
 * second moment is delta_ij to within five of its standard deviations, sqrt((1 + delta_ij) / 4000). */
static void check_white(enum pb_lk_graph graph, enum pb_lk_regime regime, double power)
{
    const size_t n_seeds = 4000;
    const struct pb_lk_shape shape = {.n_users = N,
                                      .n_items = M,
                                      .n_shown = 1,
                                      .dim = M,
                                      .graph = graph,
                                      .regime = regime,
                                      .rho = .1,
                                      .power = power};
    double moment[F * F] = {0};
    for (uint64_t seed = 0; seed < n_seeds; seed++) {
        struct pb_lk_world w;
        double k[F * F], x[F];
        ck_assert_int_eq(pb_lk_world_open(&w, &shape, seed), KB_OK);
        covariance(&w, k);
        whiten(k, w.truth, x);
        for (size_t i = 0; i < F * F; i++)
            moment[i] += x[i / F] * x[i % F] / (double)n_seeds;
        pb_lk_world_close(&w);
    }
    for (size_t i = 0; i < F; i++)
        for (size_t j = 0; j < F; j++)
            ck_assert_double_eq_tol(moment[i * F + j], i == j, 5.0 * sqrt((1.0 + (i == j)) / (double)n_seeds));
}

START_TEST(f_has_the_covariance_of_its_regime)
{
    const enum pb_lk_graph tried[] = {PB_LK_ER, PB_LK_RBF, PB_LK_COMPLETE};
    for (size_t g = 0; g < 3; g++) {
        check_white(tried[g], PB_LK_GP, .5);
        check_white(tried[g], PB_LK_GP, 1.0);
        check_white(tried[g], PB_LK_LINEAR, .5);
        check_white(tried[g], PB_LK_REPRESENTER, .5);
    }
}
END_TEST

START_TEST(user_covariance_is_the_power_of_the_shifted_laplacian)
{
    const struct pb_lk_shape shape = {
        .n_users = N, .n_items = M, .n_shown = 1, .dim = M, .graph = PB_LK_RBF, .rho = .1};
    struct pb_lk_world w;
    double got[N * N], want[N * N];
    ck_assert_int_eq(pb_lk_world_open(&w, &shape, 3), KB_OK);
    for (double power = .5; power < 2.0; power += .5) {
        ck_assert_int_eq(pb_lk_user_covariance(&w, .2, power, got), KB_OK);
        matrix_power(&w, .2, power, want);
        ck_assert_double_lt(kbt_distance(N * N, got, want), 1e-12);
    }
    pb_lk_world_close(&w);
}
END_TEST

/* --- graphs ------------------------------------------------------------------------------------------------- */

/* Pairs, edges and sum of weights inside blocks of a quarter and between them, over 60 seeds of 40 users. */
struct tally {
    double pairs[2], edges[2], weight;
};

static struct tally count_edges(enum pb_lk_graph graph)
{
    const struct pb_lk_shape shape = {.n_users = 40, .n_items = M, .n_shown = 1, .dim = M, .graph = graph, .rho = .1};
    struct tally t = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct pb_lk_world w;
        ck_assert_int_eq(pb_lk_world_open(&w, &shape, seed), KB_OK);
        for (size_t u = 0; u < 40; u++) {
            ck_assert_double_eq(w.weight[u * 40 + u], 0.0);
            for (size_t v = 0; v < u; v++) {
                ck_assert_double_eq(w.weight[u * 40 + v], w.weight[v * 40 + u]);
                t.pairs[u / 10 == v / 10] += 1.0;
                t.edges[u / 10 == v / 10] += w.weight[u * 40 + v] > 0.0;
                t.weight += w.weight[u * 40 + v];
            }
        }
        pb_lk_world_close(&w);
    }
    return t;
}

static void check_share(double edges, double pairs, double p)
{
    ck_assert_double_eq_tol(edges / pairs, p, 4.0 * sqrt(p * (1.0 - p) / pairs));
}

START_TEST(graphs_have_the_edges_they_claim)
{
    const struct tally er = count_edges(PB_LK_ER), sbm = count_edges(PB_LK_SBM), all = count_edges(PB_LK_COMPLETE);
    check_share(er.edges[0] + er.edges[1], er.pairs[0] + er.pairs[1], .2);
    check_share(sbm.edges[1], sbm.pairs[1], .5);
    check_share(sbm.edges[0], sbm.pairs[0], .05);
    ck_assert_double_eq(er.weight, er.edges[0] + er.edges[1]);
    ck_assert_double_eq(sbm.weight, sbm.edges[0] + sbm.edges[1]);
    ck_assert_double_eq(all.weight, all.pairs[0] + all.pairs[1]);
    ck_assert_double_eq(count_edges(PB_LK_ALONE).weight, 0.0);
}
END_TEST

/* |z - z'|^2 = 2 c with c ~ chi^2(4): P(w >= .1) = 1 - e^(-x/2) (1 + x/2) at x = 5 ln 10, and the mean of w over pairs
 * is the same kind of integral, .50875. Pairs share users: the margins are wider than for independent ones. */
START_TEST(rbf_graph_has_the_weights_of_its_places)
{
    const struct tally rbf = count_edges(PB_LK_RBF);
    const double pairs = rbf.pairs[0] + rbf.pairs[1], x = 5.0 * log(10.0);
    ck_assert_double_eq_tol((rbf.edges[0] + rbf.edges[1]) / pairs, 1.0 - exp(-x / 2.0) * (1.0 + x / 2.0), .005);
    ck_assert_double_eq_tol(rbf.weight / pairs, .50875, .012);
}
END_TEST

/* Seeds whose graph falls apart are the case: lambda_2 would be 0. */
START_TEST(spectral_ratio_is_that_of_the_smallest_eigenvalue_that_is_not_zero)
{
    const struct pb_lk_shape shape = {.n_users = N, .n_items = M, .n_shown = 1, .dim = M, .graph = PB_LK_ER, .rho = .1};
    size_t n_apart = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct pb_lk_world w;
        double g[N * N], value[N], vector[N * N], least = INFINITY, most = 0.0;
        size_t n_zero = 0;
        ck_assert_int_eq(pb_lk_world_open(&w, &shape, seed), KB_OK);
        matrix_power(&w, 1.0, 1.0, g); /* (L + I)^-1 has the eigenvalues 1 / (e + 1) */
        kbt_eigen(N, g, value, vector);
        for (size_t i = 0; i < N; i++) {
            const double e = 1.0 / value[i] - 1.0;
            n_zero += e < 1e-9;
            least = e < 1e-9 ? least : fmin(least, e);
            most = fmax(most, e);
        }
        n_apart += n_zero > 1 && n_zero < N;
        ck_assert_double_eq_tol(w.ratio, n_zero == N ? 1.0 : least / most, 1e-12);
        pb_lk_world_close(&w);
    }
    ck_assert_uint_gt(n_apart, 5);
}
END_TEST

START_TEST(edges_of_the_environment_are_its_graph)
{
    for (size_t g = 0; g < 3; g++) {
        struct pb_setting s = fitted;
        double sum = 0.0, want = 0.0;
        s.value[PB_LK_AT_GRAPH] = random_graphs[g];
        struct pb_env *env = open_env(&s, 8);
        const struct pb_lk_world *w = pb_lk_world_of(env);
        ck_assert_uint_eq(env->n_users, 20);
        for (size_t e = 0; e < env->n_edges; e++) {
            const size_t u = (size_t)atoi(env->edges[e].u + 1), v = (size_t)atoi(env->edges[e].v + 1);
            ck_assert_str_eq(env->users[u], env->edges[e].u);
            ck_assert_double_eq(env->edges[e].weight, w->weight[u * 20 + v]);
            sum += 2.0 * env->edges[e].weight;
        }
        for (size_t i = 0; i < 400; i++)
            want += w->weight[i];
        ck_assert_double_eq_tol(sum, want, 1e-9);
        env->ops->close(env);
    }
}
END_TEST

/* --- items -------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(items_lie_on_the_sphere_under_the_literal_reading_only)
{
    struct pb_env *env[2] = {open_env(&literal, 2), open_env(&fitted, 2)};
    double all = 0.0, all_distances[190];
    size_t n = 0;
    for (size_t i = 0; i < 20; i++) {
        double norm = 0.0;
        for (size_t j = 0; j < 10; j++) {
            norm += pow(pb_lk_world_of(env[0])->item[i * 10 + j], 2.0);
            all += pow(pb_lk_world_of(env[1])->item[i * 10 + j], 2.0);
        }
        ck_assert_double_eq_tol(norm, 1.0, 1e-14);
        for (size_t k = 0; k < i; k++) {
            double r2 = 0.0;
            for (size_t j = 0; j < 10; j++)
                r2 += pow(pb_lk_world_of(env[1])->item[i * 10 + j] - pb_lk_world_of(env[1])->item[k * 10 + j], 2.0);
            all_distances[n++] = sqrt(r2);
        }
    }
    ck_assert_double_eq_tol(all, 200.0, 4.0 * sqrt(400.0)); /* chi^2(200) */
    qsort(all_distances, n, sizeof *all_distances, ascending);
    ck_assert_double_eq_tol(env[1]->lengthscale, 0.5 * (all_distances[94] + all_distances[95]), 1e-14);
    env[0]->ops->close(env[0]);
    env[1]->ops->close(env[1]);
}
END_TEST

int main(void)
{
    return KBT_RUN("lk_world", f_has_the_covariance_of_its_regime,
                   user_covariance_is_the_power_of_the_shifted_laplacian, graphs_have_the_edges_they_claim,
                   rbf_graph_has_the_weights_of_its_places,
                   spectral_ratio_is_that_of_the_smallest_eigenvalue_that_is_not_zero,
                   edges_of_the_environment_are_its_graph, items_lie_on_the_sphere_under_the_literal_reading_only);
}
