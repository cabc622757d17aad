/* The spectrum against plain elimination on all t observations, at ridges from far below the eigenvalues to far above.
 */
#include "posterior/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "linalg/linalg.h"
#include "base/rng.h"

#define N 9u
#define T 21u

/* n points with counts 1 to 4 and a random Gram matrix; the t observations say their point and reward. */
struct world {
    double k[N * N], count[N], sum[N], scatter;
    size_t of[T];
    double y[T];
};

static void make_world(struct world *w)
{
    *w = (struct world){0};
    kbt_random_spd(N, 4, 0.01, w->k);
    for (size_t i = 0; i < T; i++) {
        w->of[i] = i < N ? i : (i * i) % N;
        w->y[i] = kb_rng_normal(3, KB_STREAM_SIMULATION, i);
        w->count[w->of[i]]++;
        w->sum[w->of[i]] += w->y[i];
        w->scatter += w->y[i] * w->y[i];
    }
    for (size_t i = 0; i < N; i++)
        w->scatter -= w->sum[i] * w->sum[i] / w->count[i];
}

static struct kb_spectrum *decompose(const struct world *w)
{
    struct kb_spectrum *sp = NULL;
    ck_assert_int_eq(kb_spectrum_new(&sp, N, false), KB_OK);
    for (size_t j = 0; j < N; j++) {
        for (size_t i = j; i < N; i++)
            sp->basis[j * N + i] = w->k[j * N + i];
    }
    ck_assert_int_eq(kb_spectrum_decompose(sp, w->count, w->sum), KB_OK);
    return sp;
}

/* K_t + a I. */
static void dense(const struct world *w, double a, double *m)
{
    for (size_t i = 0; i < T; i++) {
        for (size_t j = 0; j < T; j++)
            m[j * T + i] = w->k[w->of[j] * N + w->of[i]] + (i == j ? a : 0);
    }
}

static const double ridges[] = {1e-3, 0.1, 1, 30, 1e5};

START_TEST(energy_and_determinant_are_those_of_all_observations_at_every_ridge)
{
    struct world w;
    double m[T * T], x[T];
    make_world(&w);
    struct kb_spectrum *sp = decompose(&w);
    for (size_t r = 0; r < sizeof ridges / sizeof ridges[0]; r++) {
        double a = ridges[r];
        dense(&w, a, m);
        kbt_solve(T, m, w.y, x);
        ck_assert(kbt_close(kb_spectrum_energy(sp, a) + w.scatter / a, kb_dot(T, x, w.y), 1e-9));
        ck_assert(kbt_close(kb_spectrum_log_det(sp, a), kbt_logdet(T, m) - T * log(a), 1e-9));
    }
    kb_spectrum_free(sp);
}
END_TEST

/* A candidate and a ridge of its own in each lane. */
START_TEST(mean_variance_and_energy_are_those_of_all_observations_at_every_ridge)
{
    struct world w;
    double m[T * T], x[T], solved[T], column[T], k[KB_RIDGE_LANES][N], block[KB_RIDGE_LANES][N];
    double projected[KB_RIDGE_LANES][N], by_lane[N * KB_RIDGE_LANES], a[KB_RIDGE_LANES];
    make_world(&w);
    struct kb_spectrum *sp = decompose(&w);
    kbt_random_normal(KB_RIDGE_LANES * N, 8, k[0]);
    memcpy(block, k, sizeof k);
    kb_spectrum_project(sp, block[0], N, KB_RIDGE_LANES, projected[0]);
    for (size_t c = 0; c < KB_RIDGE_LANES; c++) {
        a[c] = ridges[c % (sizeof ridges / sizeof ridges[0])] * (double)(1 + c);
        for (size_t i = 0; i < N; i++)
            by_lane[i * KB_RIDGE_LANES + c] = projected[c][i];
    }
    struct kb_ridge_sums at;
    kb_spectrum_sums(sp, by_lane, a, &at);
    for (size_t c = 0; c < KB_RIDGE_LANES; c++) {
        for (size_t i = 0; i < T; i++)
            column[i] = k[c][w.of[i]];
        dense(&w, a[c], m);
        kbt_solve(T, m, w.y, x);
        kbt_solve(T, m, column, solved);
        ck_assert(kbt_close(at.mean[c], kb_dot(T, column, x), 1e-9));
        ck_assert(kbt_close(at.known[c], kb_dot(T, column, solved), 1e-9));
        ck_assert(kbt_close(at.energy[c] + w.scatter / a[c], kb_dot(T, w.y, x), 1e-9));
    }
    kb_spectrum_free(sp);
}
END_TEST

/* T = B B^T, B lower bidiagonal, at orders with a middle row and with two. Sums along yt itself are all the energy. */
START_TEST(sums_from_both_ends_are_those_from_the_top)
{
    for (size_t n = 1; n < 8; n++) {
        struct kb_spectrum *sp = NULL;
        struct kb_ridge_sums at;
        double b[2 * N], w[N * KB_RIDGE_LANES], a[KB_RIDGE_LANES];
        ck_assert_int_eq(kb_spectrum_new(&sp, n, false), KB_OK);
        kbt_random_normal(2 * N, n, b);
        kbt_random_normal(n, 90 + n, sp->target);
        for (size_t i = 0; i < n; i++) {
            sp->diag[i] = b[i] * b[i] + (i > 0 ? b[N + i] * b[N + i] : 0);
            sp->off[i] = i > 0 ? b[N + i] * b[i - 1] : 0;
        }
        for (size_t k = 0; k < KB_RIDGE_LANES; k++) {
            a[k] = pow(10, (double)k - 4);
            for (size_t i = 0; i < n; i++)
                w[i * KB_RIDGE_LANES + k] = sp->target[i];
        }
        kb_spectrum_sums(sp, w, a, &at);
        for (size_t k = 0; k < KB_RIDGE_LANES; k++) {
            const double energy = kb_spectrum_energy(sp, a[k]);
            ck_assert(kbt_close(at.energy[k], energy, 1e-9));
            ck_assert(kbt_close(at.mean[k], energy, 1e-9));
            ck_assert(kbt_close(at.known[k], energy, 1e-9));
        }
        kb_spectrum_free(sp);
    }
}
END_TEST

START_TEST(facts_of_the_points_are_counted)
{
    struct world w;
    double m[T * T], inverse[T * T], trace = 0, largest = 0;
    make_world(&w);
    struct kb_spectrum *sp = decompose(&w);
    for (size_t i = 0; i < N; i++)
        largest = fmax(largest, w.k[i * N + i]);
    ck_assert_double_eq(sp->n_observed, T);
    ck_assert_double_eq(sp->largest_diag, largest);
    dense(&w, 0.7, m);
    kbt_inverse(T, m, inverse);
    for (size_t i = 0; i < T; i++)
        trace += 1 - 0.7 * inverse[i * T + i];
    ck_assert(kbt_close(kb_spectrum_effective_dimension(sp, 0.7), trace, 1e-10));
    kb_spectrum_free(sp);
}
END_TEST

START_TEST(no_points_and_singular_points_are_fine)
{
    struct kb_spectrum *sp = NULL;
    const double count[2] = {3, 5}, sum[2] = {3, 10};
    ck_assert_int_eq(kb_spectrum_new(&sp, 0, false), KB_OK);
    ck_assert_int_eq(kb_spectrum_decompose(sp, NULL, NULL), KB_OK);
    ck_assert_double_eq(kb_spectrum_log_det(sp, 1) + kb_spectrum_energy(sp, 1), 0);
    kb_spectrum_free(sp);
    ck_assert_int_eq(kb_spectrum_new(&sp, 2, false), KB_OK);
    sp->basis[0] = sp->basis[1] = sp->basis[3] = 2; /* two points with one row: rank one */
    ck_assert_int_eq(kb_spectrum_decompose(sp, count, sum), KB_OK);
    ck_assert_double_eq_tol(sp->diag[0] * sp->diag[1], sp->off[1] * sp->off[1], 1e-13);
    ck_assert(kbt_close(kb_spectrum_log_det(sp, 1), log(17), 1e-12));
    /* y^T (K + I)^-1 y = y.y - S^2 2 / (1 + 2 t), with the scatter 3 * 0 + 5 * 0 */
    ck_assert(kbt_close(kb_spectrum_energy(sp, 1), 3 + 20 - 2.0 * 169 / 17, 1e-12));
    kb_spectrum_free(sp);
    kb_spectrum_free(NULL);
    ck_assert_uint_eq(kb_spectrum_bytes(NULL), 0);
}
END_TEST

int main(void)
{
    return KBT_RUN("spectrum", energy_and_determinant_are_those_of_all_observations_at_every_ridge,
                   mean_variance_and_energy_are_those_of_all_observations_at_every_ridge,
                   sums_from_both_ends_are_those_from_the_top, facts_of_the_points_are_counted,
                   no_points_and_singular_points_are_fine);
}
