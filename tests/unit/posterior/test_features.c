/* Nystrom features against dense algebra. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "posterior/features.h"
#include "kbt.h"

#define M 20u
#define N 60u /* points 0..M-1 are the dictionary */

struct fixture {
    double k[N * N];
    struct kb_features f;
    double l[M], q[M];
    struct kb_feature_border border;
};

static void open(struct fixture *x, size_t m)
{
    kbt_random_spd(N, 5, 0.3, x->k);
    kb_features_init(&x->f);
    KBT_ROOM(kb_features_grow(&x->f, M + 1, &room));
    x->border = (struct kb_feature_border){.l = x->l, .q = x->q};
    for (size_t i = 0; i < m; i++) {
        kb_features_border(&x->f, x->k + i * N, x->k[i * N + i], &x->border);
        ck_assert(!x->border.is_clamped);
        kb_features_append(&x->f, &x->border);
    }
}

static void close(struct fixture *x)
{
    kb_features_close(&x->f);
}

/* k_Z(a)^T K_ZZ^-1 k_Z(b) over the first m points. */
static double nystrom(const double *k, size_t m, size_t a, size_t b)
{
    double *k_zz = kbt_array(m * m + 1), *s = kbt_array(m + 1), value = 0;
    for (size_t i = 0; i < m; i++)
        memcpy(k_zz + i * m, k + i * N, m * sizeof *k_zz);
    kbt_solve(m, k_zz, k + b * N, s);
    for (size_t i = 0; i < m; i++)
        value += k[a * N + i] * s[i];
    free(k_zz);
    free(s);
    return value;
}

static double dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Features of all N points over the fixture's dictionary: z (M per point). */
static void map_all(struct fixture *x, double *z)
{
    for (size_t s = 0; s < N; s++)
        memcpy(z + s * M, x->k + s * N, M * sizeof *z);
    kb_features_map_many(&x->f, z, M, N);
}

START_TEST(products_of_features_are_the_nystrom_kernel)
{
    static struct fixture x;
    double z[N * M];
    open(&x, M);
    map_all(&x, z);
    for (size_t a = 0; a < N; a += 7) {
        for (size_t b = 0; b < N; b += 5)
            ck_assert(kbt_close(dot(M, z + a * M, z + b * M), nystrom(x.k, M, a, b), 1e-10));
        for (size_t i = 0; i < M; i++) /* the kernel itself on the dictionary */
            ck_assert(kbt_close(dot(M, z + a * M, z + i * M), x.k[a * N + i], 1e-10));
    }
    close(&x);
}
END_TEST

START_TEST(one_by_one_equals_many_at_once)
{
    static struct fixture x;
    double z[N * M], alone[M];
    open(&x, M);
    map_all(&x, z);
    for (size_t s = 0; s < N; s++) {
        memcpy(alone, x.k + s * N, sizeof alone);
        kb_features_map(&x.f, alone);
        ck_assert_double_lt(kbt_distance(M, alone, z + s * M), 1e-13);
    }
    close(&x);
}
END_TEST

START_TEST(residuals_are_the_schur_complements_and_zero_on_the_dictionary)
{
    static struct fixture x;
    double z[N * M], diag[N], residual[N];
    open(&x, M);
    map_all(&x, z);
    for (size_t s = 0; s < N; s++)
        diag[s] = x.k[s * N + s];
    kb_features_residuals(&x.f, z, M, N, diag, residual);
    for (size_t s = 0; s < N; s++) {
        ck_assert_double_ge(residual[s], 0);
        ck_assert(kbt_close(residual[s], fmax(diag[s] - nystrom(x.k, M, s, s), 0), 1e-10));
        if (s < M)
            ck_assert_double_le(residual[s], 1e-12 * diag[s]);
    }
    close(&x);
}
END_TEST

/* What a point gains by the M-th dictionary point, found from kernel columns, is its last feature. */
START_TEST(new_coordinates_are_the_features_after_the_append)
{
    static struct fixture x;
    double z[N * M], found[N];
    open(&x, M - 1);
    size_t last = M - 1;
    kb_features_border(&x.f, x.k + last * N, x.k[last * N + last], &x.border);
    kb_features_new_coordinates(&x.f, &x.border, x.k, N, N, found);
    kb_features_append(&x.f, &x.border);
    map_all(&x, z);
    for (size_t s = 0; s < N; s++)
        ck_assert(kbt_close(found[s], z[s * M + last], 1e-10));
    close(&x);
}
END_TEST

START_TEST(a_point_inside_the_span_gets_a_lifted_pivot)
{
    static struct fixture x;
    open(&x, M);
    kb_features_border(&x.f, x.k + 3 * N, x.k[3 * N + 3], &x.border); /* point 3 again */
    ck_assert(x.border.is_clamped);
    ck_assert_double_gt(x.border.pivot, 0);
    ck_assert_double_lt(x.border.pivot * x.border.pivot, KB_RESIDUAL_MIN * x.k[3 * N + 3]);
    kb_features_append(&x.f, &x.border);
    double z[M + 1];
    memcpy(z, x.k + 7 * N, M * sizeof *z);
    z[M] = x.k[7 * N + 3];
    kb_features_map(&x.f, z);
    ck_assert_double_le(dot(M + 1, z, z), x.k[7 * N + 7] * (1 + 1e-9)); /* still no more than k(s,s) */
    close(&x);
}
END_TEST

START_TEST(a_point_without_norm_has_no_coordinate)
{
    static struct fixture x;
    double zero[M] = {0};
    open(&x, 0);
    kb_features_border(&x.f, zero, 0, &x.border);
    ck_assert(x.border.is_clamped);
    kb_features_append(&x.f, &x.border);
    double z = 0;
    kb_features_map(&x.f, &z);
    ck_assert_double_eq(z, 0);
    close(&x);
}
END_TEST

START_TEST(snapshot_keeps_every_bit)
{
    static struct fixture x;
    struct kb_features copy;
    struct kb_writer w;
    struct kb_reader r;
    open(&x, M);
    kb_writer_init(&w);
    kb_features_save(&x.f, &w);
    kb_features_init(&copy);
    KBT_ROOM(kb_features_grow(&copy, M, &room));
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_features_load(&copy, M, &r), KB_OK);
    ck_assert_uint_eq(kb_features_digest(&copy, 1), kb_features_digest(&x.f, 1));
    kb_features_close(&copy);
    kb_writer_close(&w);
    close(&x);
}
END_TEST

int main(void)
{
    return KBT_RUN("features", products_of_features_are_the_nystrom_kernel, one_by_one_equals_many_at_once,
                   residuals_are_the_schur_complements_and_zero_on_the_dictionary,
                   new_coordinates_are_the_features_after_the_append, a_point_inside_the_span_gets_a_lifted_pivot,
                   a_point_without_norm_has_no_coordinate, snapshot_keeps_every_bit);
}
