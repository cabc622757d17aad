/* The ridge regression against dense solves, and the snapshot of a factor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/factor_io.h"
#include "kbt.h"
#include "posterior/ridge.h"
#include "base/rng.h"

#define M 16u
#define N 90u
#define LAMBDA 0.35

/* N rows of M features with counts 1..4 and reward sums. */
struct data {
    double z[N * M], count[N], sum[N];
};

static void draw(struct data *d)
{
    kbt_random_normal(N * M, 8, d->z);
    kbt_random_normal(N, 9, d->sum);
    for (size_t j = 0; j < N; j++)
        d->count[j] = 1 + (double)(kb_rng_bits(10, KB_STREAM_SIMULATION, j) % 4);
}

/* V (m x m) and b of the first m coordinates. */
static void dense(const struct data *d, size_t m, double *v, double *b)
{
    for (size_t i = 0; i < m; i++) {
        b[i] = 0;
        for (size_t j = 0; j < N; j++)
            b[i] += d->sum[j] * d->z[j * M + i];
        for (size_t k = 0; k < m; k++) {
            v[i * m + k] = i == k ? LAMBDA : 0;
            for (size_t j = 0; j < N; j++)
                v[i * m + k] += d->count[j] * d->z[j * M + i] * d->z[j * M + k];
        }
    }
}

static void expect_dense(const struct kb_ridge *r, const struct data *d, size_t m)
{
    double v[M * M], b[M], solved[M], z[M], mean, spread;
    dense(d, m, v, b);
    for (uint64_t q = 0; q < 20; q++) {
        double want_mean = 0, want_spread = 0;
        kbt_random_normal(m, 100 + q, z);
        kbt_solve(m, v, z, solved);
        for (size_t i = 0; i < m; i++) {
            want_mean += solved[i] * b[i];
            want_spread += solved[i] * z[i];
        }
        kb_ridge_predict(r, z, m, 1, &mean, &spread);
        ck_assert(kbt_close(mean, want_mean, 1e-11));
        ck_assert(kbt_close(spread, want_spread, 1e-11));
    }
}

static void open(struct kb_ridge *r)
{
    kb_ridge_init(r, LAMBDA);
    KBT_ROOM(kb_ridge_grow(r, M, &room));
}

/* All rows in blocks of 25 over m coordinates. */
static void fill(struct kb_ridge *r, const struct data *d, size_t m)
{
    double block[25 * M];
    kb_ridge_clear(r, m);
    for (size_t first = 0; first < N; first += 25) {
        size_t n_c = N - first < 25 ? N - first : 25;
        memcpy(block, d->z + first * M, n_c * M * sizeof *block);
        kb_ridge_accumulate(r, m, block, M, n_c, d->count + first, d->sum + first);
    }
    ck_assert_int_eq(kb_ridge_factor(r, m, false), KB_OK);
}

START_TEST(filling_equals_the_dense_solve)
{
    static struct data d;
    struct kb_ridge r;
    draw(&d);
    open(&r);
    for (size_t m = 1; m <= M; m += 5) { /* and it can be filled again */
        fill(&r, &d, m);
        expect_dense(&r, &d, m);
    }
    kb_ridge_close(&r);
}
END_TEST

START_TEST(learning_one_by_one_equals_the_dense_solve)
{
    static struct data d, none;
    struct kb_ridge r;
    double z[M];
    draw(&d);
    open(&r);
    fill(&r, &none, M); /* no observations: V = lambda I */
    for (size_t j = 0; j < N; j++) {
        for (double c = 0; c < d.count[j]; c++) {
            memcpy(z, d.z + j * M, sizeof z);
            kb_ridge_learn(&r, z, 1, c == 0 ? d.sum[j] + 1 : 0, NULL);
        }
        memcpy(z, d.z + j * M, sizeof z);
        kb_ridge_learn(&r, z, 0, -1, NULL); /* a correction */
    }
    expect_dense(&r, &d, M);
    kb_ridge_close(&r);
}
END_TEST

/* What a step tells of its reward, at any weight, is the prediction that was in force before it. */
START_TEST(a_step_foretells_what_the_model_before_it_predicted)
{
    static struct data d, none;
    static const double weights[] = {1, 0.25, 3};
    struct kb_ridge r;
    struct kb_foretold told;
    double z[M], mean, spread;
    draw(&d);
    open(&r);
    fill(&r, &none, M);
    for (size_t j = 0; j < N; j++) {
        memcpy(z, d.z + j * M, sizeof z);
        kb_ridge_predict(&r, z, M, 1, &mean, &spread);
        memcpy(z, d.z + j * M, sizeof z);
        kb_ridge_learn(&r, z, weights[j % 3], weights[j % 3] * d.sum[j], &told);
        ck_assert_msg(kbt_close(told.mean, mean, 1e-12), "%.17g, %.17g", told.mean, mean);
        ck_assert_msg(kbt_close_relative(told.s2, spread, 1e-11), "%.17g, %.17g", told.s2, spread);
    }
    kb_ridge_close(&r);
}
END_TEST

/* Near-duplicates over a small ridge, where what has been learned is large beside what is new. */
START_TEST(w_keeps_its_digits_over_many_steps)
{
    static struct data d, none;
    struct kb_ridge r;
    double z[M], solved[M], largest = 0;
    draw(&d);
    open(&r);
    r.lambda = 1e-3;
    fill(&r, &none, M);
    for (uint64_t t = 0; t < 20000; t++) {
        for (size_t i = 0; i < M; i++)
            z[i] = d.z[i] + 1e-3 * d.z[(1 + t % (N - 1)) * M + i];
        kb_ridge_learn(&r, z, 1, d.sum[t % N], NULL);
    }
    memcpy(solved, r.b, sizeof solved);
    kb_chol_solve_l(&r.r, solved);
    for (size_t i = 0; i < M; i++)
        largest = fmax(largest, fabs(solved[i]));
    for (size_t i = 0; i < M; i++)
        ck_assert_msg(fabs(r.w[i] - solved[i]) <= 1e-11 * largest, "%zu: %.17g, %.17g", i, r.w[i], solved[i]);
    kb_ridge_close(&r);
}
END_TEST

START_TEST(growing_by_borders_equals_the_dense_solve)
{
    static struct data d;
    struct kb_ridge r;
    draw(&d);
    open(&r);
    for (size_t m = 0; m < M; m++) {
        double cross[M] = {0}, square = 0, target = 0;
        for (size_t j = 0; j < N; j++) {
            double z_new = d.z[j * M + m];
            for (size_t i = 0; i < m; i++)
                cross[i] += d.count[j] * z_new * d.z[j * M + i];
            square += d.count[j] * z_new * z_new;
            target += d.sum[j] * z_new;
        }
        ck_assert(!kb_ridge_append(&r, cross, square, target));
        expect_dense(&r, &d, m + 1);
    }
    kb_ridge_close(&r);
}
END_TEST

START_TEST(a_border_that_contradicts_the_ridge_is_lifted)
{
    static struct data d;
    struct kb_ridge r;
    double cross[M], mean, spread, z[M] = {0};
    draw(&d);
    open(&r);
    fill(&r, &d, M - 1);
    for (size_t i = 0; i < M - 1; i++)
        cross[i] = 50; /* no data could have this with a square of 0 */
    ck_assert(kb_ridge_append(&r, cross, 0, 0));
    z[M - 1] = 1;
    kb_ridge_predict(&r, z, M, 1, &mean, &spread);
    ck_assert(isfinite(mean) && spread > 0 && spread <= 1 / LAMBDA + 1e-12);
    kb_ridge_close(&r);
}
END_TEST

START_TEST(facts_equal_their_definitions)
{
    static struct data d;
    struct kb_ridge r;
    double v[M * M], b[M], inverse[M * M], trace = 0, work[M * KB_TRACE_COLUMNS];
    draw(&d);
    open(&r);
    fill(&r, &d, M);
    dense(&d, M, v, b);
    kbt_inverse(M, v, inverse);
    for (size_t i = 0; i < M; i++)
        trace += 1 - LAMBDA * inverse[i * M + i];
    ck_assert(kbt_close(M - LAMBDA * kb_chol_inverse_trace(&r.r, work), trace, 1e-11));
    ck_assert(kbt_close(kb_ridge_information_gain(&r), 0.5 * (kbt_logdet(M, v) - M * log(LAMBDA)), 1e-12));
    kb_ridge_close(&r);
}
END_TEST

START_TEST(snapshot_keeps_every_bit)
{
    static struct data d;
    struct kb_ridge r, copy;
    struct kb_writer w;
    struct kb_reader in;
    draw(&d);
    open(&r);
    fill(&r, &d, M);
    kb_writer_init(&w);
    kb_ridge_save(&r, &w);
    kb_ridge_init(&copy, LAMBDA);
    KBT_ROOM(kb_ridge_grow(&copy, 3 * M, &room)); /* another leading dimension */
    kb_reader_init(&in, w.data, w.n);
    ck_assert_int_eq(kb_ridge_load(&copy, M, &in), KB_OK);
    ck_assert_uint_eq(kb_ridge_digest(&copy, 1), kb_ridge_digest(&r, 1));
    kb_ridge_close(&copy);
    kb_writer_close(&w);
    kb_ridge_close(&r);
}
END_TEST

/* Each entry in turn is spoiled; a factor with it must not be accepted. */
START_TEST(damaged_factors_are_refused)
{
    double a[9 * 9];
    struct kb_chol c, copy;
    kbt_random_spd(9, 3, 1, a);
    kb_chol_init(&c);
    kb_chol_init(&copy);
    ck_assert_int_eq(kb_chol_factor(&c, a, 9, 9), KB_OK);
    ck_assert_int_eq(kb_chol_reserve(&copy, 9), KB_OK);
    for (size_t j = 0; j < 9; j++) {
        for (size_t i = j; i < 9; i++) {
            struct kb_writer w;
            struct kb_reader r;
            double *entry = &c.l[j * c.cap + i], kept = *entry;
            kb_writer_init(&w);
            *entry = i == j ? -kept : (double)INFINITY;
            kb_factor_save(&c, &w);
            *entry = kept;
            kb_reader_init(&r, w.data, w.n);
            ck_assert_int_eq(kb_factor_load(&copy, 9, &r), KB_ECORRUPT);
            ck_assert_uint_eq(copy.n, 0);
            kb_writer_close(&w);
        }
    }
    kb_chol_close(&copy);
    kb_chol_close(&c);
}
END_TEST

int main(void)
{
    return KBT_RUN("ridge", filling_equals_the_dense_solve, learning_one_by_one_equals_the_dense_solve,
                   a_step_foretells_what_the_model_before_it_predicted, w_keeps_its_digits_over_many_steps,
                   growing_by_borders_equals_the_dense_solve, a_border_that_contradicts_the_ridge_is_lifted,
                   facts_equal_their_definitions, snapshot_keeps_every_bit, damaged_factors_are_refused);
}
