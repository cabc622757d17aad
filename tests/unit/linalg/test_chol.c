/* The growing Cholesky factor against Gaussian elimination: L L^T is recomputed from the factor each time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/chol.h"
#include "kbt.h"

#define N 70

static double s[N * N], product[N * N], x[N], y[N];
static struct kb_chol c;

/* product = L L^T of order n, from the stored lower triangle alone. */
static void multiply_out(const struct kb_chol *f, double *out)
{
    double *l = kbt_array(f->n * f->n);
    for (size_t j = 0; j < f->n; j++)
        memcpy(l + j * f->n + j, f->l + j * f->cap + j, (f->n - j) * sizeof *l);
    kbt_multiply_t(f->n, f->n, l, l, out);
    free(l);
}

static void make_factor(uint64_t key, double ridge)
{
    kb_chol_init(&c);
    kbt_random_spd(N, key, ridge, s);
    ck_assert_int_eq(kb_chol_factor(&c, s, N, N), KB_OK);
}

/* s += sign x x^T */
static void change(double sign, const double *v)
{
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < N; i++)
            s[j * N + i] += sign * v[i] * v[j];
}

START_TEST(factor_multiplies_out_to_the_matrix)
{
    make_factor(1, 0.5);
    multiply_out(&c, product);
    ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-13);
    kb_chol_close(&c);
}
END_TEST

START_TEST(append_row_equals_full_factorization)
{
    struct kb_chol grown;
    make_factor(2, 0.5);
    kb_chol_init(&grown);
    for (size_t n = 0; n < N; n++) {
        double square = 0.0;
        for (size_t i = 0; i < n; i++)
            x[i] = s[i * N + n];
        kb_chol_solve_l(&grown, x);
        for (size_t i = 0; i < n; i++)
            square += x[i] * x[i];
        ck_assert_int_eq(kb_chol_reserve(&grown, n + 1), KB_OK);
        kb_chol_append_row(&grown, x, sqrt(s[n * N + n] - square));
    }
    for (size_t j = 0; j < N; j++)
        ck_assert_double_lt(kbt_distance(N - j, grown.l + j * grown.cap + j, c.l + j * c.cap + j), 1e-11);
    kb_chol_close(&grown);
    kb_chol_close(&c);
}
END_TEST

START_TEST(reserve_keeps_the_factor)
{
    make_factor(3, 0.5);
    for (size_t n = N; n < 1000; n += 97) {
        ck_assert_int_eq(kb_chol_reserve(&c, n), KB_OK);
        ck_assert_uint_ge(c.cap, n);
        ck_assert_uint_eq(c.n, N);
        multiply_out(&c, product);
        ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-13);
    }
    kb_chol_close(&c);
}
END_TEST

START_TEST(solves_agree_with_gaussian_elimination)
{
    make_factor(4, 0.5);
    kbt_random_normal(N, 5, x);
    kbt_solve(N, s, x, y);
    kb_chol_solve_l(&c, x);
    kb_chol_solve_lt(&c, x);
    ck_assert_double_lt(kbt_distance(N, x, y), 1e-10);
    kb_chol_close(&c);
}
END_TEST

/* Orders around the block size and numbers of right-hand sides around the four that go together. */
START_TEST(many_right_hand_sides_equal_one_at_a_time)
{
    const size_t orders[] = {1, 31, 32, 33, 200}, widths[] = {0, 1, 3, 4, 5, 20};
    for (size_t o = 0; o < 5; o++)
        for (size_t w = 0; w < 6; w++) {
            size_t n = orders[o], ld = n + 3, n_rhs = widths[w];
            double *a = kbt_array(n * n), *many = kbt_array(ld * (n_rhs + 1)), *one = kbt_array(ld * (n_rhs + 1));
            kbt_random_spd(n, 6 + o, 1.0, a);
            kbt_random_normal(ld * n_rhs, 7, many);
            memcpy(one, many, ld * n_rhs * sizeof *one);
            kb_chol_init(&c);
            ck_assert_int_eq(kb_chol_factor(&c, a, n, n), KB_OK);
            kb_chol_solve_l_many(&c, many, ld, n_rhs);
            for (size_t j = 0; j < n_rhs; j++)
                kb_chol_solve_l(&c, one + j * ld);
            ck_assert_double_lt(kbt_distance(ld * n_rhs, many, one), 1e-11); /* the padding, too, is as it was */
            kb_chol_close(&c);
            free(a);
            free(many);
            free(one);
        }
}
END_TEST

START_TEST(update_equals_factor_of_the_changed_matrix)
{
    const size_t firsts[] = {0, 1, 33, N - 1, N};
    const double scales[] = {1e-8, 1.0, 1e8};
    for (size_t f = 0; f < 5; f++)
        for (size_t k = 0; k < 3; k++) {
            make_factor(8, 0.1);
            kbt_random_normal(N, 9 + f, x);
            for (size_t i = 0; i < N; i++)
                x[i] = i < firsts[f] ? 0.0 : x[i] * scales[k];
            change(1.0, x);
            kb_chol_update(&c, x, firsts[f]);
            multiply_out(&c, product);
            double size = 1.0 + scales[k] * scales[k];
            for (size_t i = 0; i < N * N; i++)
                if (!(fabs(product[i] - s[i]) <= 1e-12 * size))
                    ck_abort_msg("entry %zu: %g, want %g", i, product[i], s[i]);
            kb_chol_close(&c);
        }
}
END_TEST

START_TEST(entries_before_first_are_not_read)
{
    make_factor(10, 0.5);
    kbt_random_normal(N, 11, x);
    for (size_t i = 0; i < 40; i++)
        x[i] = NAN;
    kb_chol_update(&c, x, 40);
    kbt_random_normal(N, 11, x);
    for (size_t i = 0; i < 40; i++)
        x[i] = NAN;
    ck_assert_int_eq(kb_chol_downdate(&c, x, 40), KB_OK);
    multiply_out(&c, product);
    ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-12);
    kb_chol_close(&c);
}
END_TEST

START_TEST(downdate_takes_an_update_back)
{
    const size_t firsts[] = {0, 5, N - 1, N};
    for (size_t f = 0; f < 4; f++) {
        make_factor(12, 0.5);
        kbt_random_normal(N, 13, x);
        memset(x, 0, firsts[f] * sizeof *x);
        memcpy(y, x, sizeof y);
        kb_chol_update(&c, x, firsts[f]);
        ck_assert_int_eq(kb_chol_downdate(&c, y, firsts[f]), KB_OK);
        multiply_out(&c, product);
        ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-12);
        kb_chol_close(&c);
    }
}
END_TEST

START_TEST(downdate_beyond_definiteness_is_refused_and_changes_nothing)
{
    make_factor(14, 0.5);
    double *before = kbt_array(c.cap * c.cap);
    memcpy(before, c.l, c.cap * c.cap * sizeof *before);
    memset(x, 0, sizeof x);
    x[3] = 1.0001 * sqrt(s[3 * N + 3]); /* S - x x^T has a negative diagonal entry */
    ck_assert_int_eq(kb_chol_downdate(&c, x, 0), KB_ENOTPD);
    memset(x, 0, sizeof x);
    x[3] = NAN;
    ck_assert_int_eq(kb_chol_downdate(&c, x, 0), KB_ENOTPD);
    ck_assert_mem_eq(before, c.l, c.cap * c.cap * sizeof *before);
    free(before);
    kb_chol_close(&c);
}
END_TEST

/* The error follows the conditioning, not the number of updates. */
START_TEST(ten_thousand_changes_leave_twelve_digits)
{
    make_factor(15, 1.0);
    for (uint64_t t = 0; t < 10000; t++) {
        kbt_random_normal(N, 1000 + t, x);
        memcpy(y, x, sizeof y);
        kb_chol_update(&c, x, 0);
        ck_assert_int_eq(kb_chol_downdate(&c, y, 0), KB_OK);
    }
    multiply_out(&c, product);
    ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-11);
    kb_chol_close(&c);
}
END_TEST

START_TEST(logdet_and_inverse_agree_with_elimination)
{
    double *inverse = kbt_array(N * N), *scratch = kbt_array(N * KB_TRACE_COLUMNS), trace = 0.0;
    make_factor(16, 0.5);
    kbt_inverse(N, s, inverse);
    for (size_t i = 0; i < N; i++)
        trace += inverse[i * N + i];
    ck_assert(kbt_close(kb_chol_logdet(&c), kbt_logdet(N, s), 1e-12));
    ck_assert(kbt_close(kb_chol_inverse_trace(&c, scratch), trace, 1e-10));
    kb_chol_invert(&c);
    for (size_t j = 0; j < N; j++)
        for (size_t i = j; i < N; i++)
            ck_assert(kbt_close(c.l[j * c.cap + i], inverse[j * N + i], 1e-10));
    ck_assert_uint_eq(c.n, 0);
    kb_chol_invert(&c); /* of order 0: nothing */
    free(scratch);
    free(inverse);
    kb_chol_close(&c);
}
END_TEST

START_TEST(spd_inverse_agrees_with_elimination_and_is_symmetric)
{
    double *inverse = kbt_array(N * N);
    kbt_random_spd(N, 17, 0.5, s);
    kbt_inverse(N, s, inverse);
    ck_assert_int_eq(kb_spd_inverse(N, s), KB_OK);
    ck_assert_double_lt(kbt_distance(N * N, s, inverse), 1e-10);
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < j; i++)
            ck_assert(s[j * N + i] == s[i * N + j]);
    ck_assert_int_eq(kb_spd_inverse(0, s), KB_OK);
    free(inverse);
}
END_TEST

START_TEST(indefinite_nan_and_infinite_matrices_are_refused)
{
    const double bad[] = {-1.0, 0.0, NAN, INFINITY};
    make_factor(18, 0.5);
    for (size_t b = 0; b < 4; b++)
        for (size_t at = 0; at < N; at += N - 1) {
            double *a = kbt_array(N * N);
            memcpy(a, s, N * N * sizeof *a);
            a[at * N + at] = bad[b];
            ck_assert_int_eq(kb_chol_factor(&c, a, N, N), KB_ENOTPD);
            ck_assert_int_eq(kb_spd_inverse(N, a), KB_ENOTPD);
            free(a);
        }
    s[5] = NAN; /* off the diagonal */
    ck_assert_int_eq(kb_chol_factor(&c, s, N, N), KB_ENOTPD);
    kbt_random_spd(N, 18, 0.5, s);
    multiply_out(&c, product); /* the factor is still the old one */
    ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-13);
    kb_chol_close(&c);
}
END_TEST

START_TEST(factor_in_place_needs_no_memory)
{
    make_factor(19, 0.5);
    for (size_t j = 0; j < N; j++)
        memcpy(c.l + j * c.cap + j, s + j * N + j, (N - j) * sizeof *c.l);
    kbt_alloc_watch(1);
    ck_assert_int_eq(kb_chol_factor_in_place(&c, N), KB_OK);
    kbt_alloc_unwatch();
    multiply_out(&c, product);
    ck_assert_double_lt(kbt_distance(N * N, product, s), 1e-13);
    c.l[0] = -1.0;
    ck_assert_int_eq(kb_chol_factor_in_place(&c, N), KB_ENOTPD);
    ck_assert_uint_eq(c.n, 0);
    kb_chol_close(&c);
}
END_TEST

static enum kb_err factor_then_grow(void *arg)
{
    (void)arg;
    enum kb_err rc;
    kb_chol_init(&c);
    KB_TRY(kb_chol_factor(&c, s, N, N));
    KB_TRY(kb_chol_factor(&c, s, N, N - 10));
    KB_TRY(kb_chol_reserve(&c, 500));
out:
    return rc;
}

static void factor_is_whole(void *arg)
{
    (void)arg;
    multiply_out(&c, product);
    for (size_t j = 0; j < c.n; j++)
        ck_assert_double_lt(kbt_distance(c.n, product + j * c.n, s + j * N), 1e-13);
    kb_chol_close(&c);
}

START_TEST(no_memory_changes_nothing)
{
    kbt_random_spd(N, 20, 0.5, s);
    ck_assert_uint_eq(kbt_brutal(factor_then_grow, factor_is_whole, NULL), 6);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "chol", factor_multiplies_out_to_the_matrix, append_row_equals_full_factorization, reserve_keeps_the_factor,
        solves_agree_with_gaussian_elimination, many_right_hand_sides_equal_one_at_a_time,
        update_equals_factor_of_the_changed_matrix, entries_before_first_are_not_read, downdate_takes_an_update_back,
        downdate_beyond_definiteness_is_refused_and_changes_nothing, ten_thousand_changes_leave_twelve_digits,
        logdet_and_inverse_agree_with_elimination, spd_inverse_agrees_with_elimination_and_is_symmetric,
        indefinite_nan_and_infinite_matrices_are_refused, factor_in_place_needs_no_memory, no_memory_changes_nothing);
}
