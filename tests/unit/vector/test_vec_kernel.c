/* Kernels on vectors against their definitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/rng.h"
#include "vector/vec_kernel.h"
#include "vector/vec_many.h"

#define DIM 7u
#define N 150u

static const struct kb_vec_kernel_spec kernels[] = {
    {.type = KB_VEC_RBF, .lengthscale = 0.7},
    {.type = KB_VEC_MATERN12, .lengthscale = 1.3},
    {.type = KB_VEC_MATERN32, .lengthscale = 0.9},
    {.type = KB_VEC_MATERN52, .lengthscale = 2.1},
    {.type = KB_VEC_LINEAR, .lengthscale = 1},
    {.type = KB_VEC_POLYNOMIAL, .lengthscale = 1, .degree = 3, .offset = 0.5},
    {.type = KB_VEC_DELTA, .lengthscale = 1},
    {.type = KB_VEC_ONES, .lengthscale = 1},
};
#define N_KERNELS (sizeof kernels / sizeof kernels[0])

static double definition(const struct kb_vec_kernel_spec *k, const double *x, const double *y)
{
    double r = 0, dot = 0;
    for (size_t d = 0; d < DIM; d++) {
        r = hypot(r, x[d] - y[d]);
        dot += x[d] * y[d];
    }
    double s3 = sqrt(3) * r / k->lengthscale, s5 = sqrt(5) * r / k->lengthscale;
    switch (k->type) {
    case KB_VEC_RBF:
        return exp(-pow(r / k->lengthscale, 2) / 2);
    case KB_VEC_MATERN12:
        return exp(-r / k->lengthscale);
    case KB_VEC_MATERN32:
        return (1 + s3) * exp(-s3);
    case KB_VEC_MATERN52:
        return (1 + s5 + s5 * s5 / 3) * exp(-s5);
    case KB_VEC_LINEAR:
        return dot;
    case KB_VEC_POLYNOMIAL:
        return pow(dot + k->offset, k->degree);
    case KB_VEC_DELTA:
        return r == 0;
    case KB_VEC_ONES:
    case KB_VEC_N:
        break;
    }
    return 1;
}

START_TEST(every_kernel_equals_its_definition)
{
    double x[N * DIM];
    kbt_random_normal(N * DIM, 1, x);
    for (size_t k = 0; k < N_KERNELS; k++) {
        for (size_t i = 0; i + 1 < N; i++)
            ck_assert(kbt_close(kb_vec_kernel_value(&kernels[k], DIM, x + i * DIM, x + (i + 1) * DIM),
                                definition(&kernels[k], x + i * DIM, x + (i + 1) * DIM), 1e-13));
    }
}
END_TEST

START_TEST(scale_multiplies_what_is_there)
{
    double x[N * DIM], factor[N], out[N];
    kbt_random_normal(N * DIM, 2, x);
    kbt_random_normal(N, 3, factor);
    for (size_t k = 0; k < N_KERNELS; k++) {
        for (size_t i = 0; i < N; i++)
            out[i] = factor[i];
        kb_vec_kernel_scale(&kernels[k], DIM, x, DIM, N, x + 5 * DIM, out);
        for (size_t i = 0; i < N; i++)
            ck_assert(kbt_close(out[i], factor[i] * definition(&kernels[k], x + i * DIM, x + 5 * DIM), 1e-13));
    }
}
END_TEST

/* The first point of every window is computed at another place of another block. */
START_TEST(value_is_bitwise_independent_of_the_block)
{
    double x[N * DIM], out[N];
    kbt_random_normal(N * DIM, 4, x);
    for (size_t k = 0; k < N_KERNELS; k++) {
        for (size_t i = 0; i < N; i++)
            out[i] = 1;
        kb_vec_kernel_scale(&kernels[k], DIM, x, DIM, N, x, out);
        for (size_t i = 0; i < N; i++) {
            double alone = kb_vec_kernel_value(&kernels[k], DIM, x + i * DIM, x);
            ck_assert_mem_eq(&out[i], &alone, sizeof alone);
        }
    }
}
END_TEST

/* Every number of points, candidates and coordinates that tiles, vectors and groups begin or end at, for every width of
 * vectors that the processor has. */
START_TEST(many_against_many_have_the_bits_of_pairs)
{
    static const size_t dims[] = {1, 3, 4, 5, 16, 256, 257}, points[] = {1, 7, 8, 9, 70}, candidates[] = {1, 6, 65};
    const size_t ld = 72;
    double *x = kbt_array(70 * 257), *y = kbt_array(65 * 257), *many = kbt_array(65 * ld), *one = kbt_array(65 * ld);
    const double *at[65];
    kbt_random_normal(70 * 257, 14, x);
    kbt_random_normal(65 * 257, 15, y);
    for (size_t i = 0; i < N_KERNELS * 7 * 5 * 3; i++) {
        const struct kb_vec_kernel_spec *k = &kernels[i % N_KERNELS];
        const size_t dim = dims[i / N_KERNELS % 7], n = points[i / N_KERNELS / 7 % 5];
        const size_t n_c = candidates[i / N_KERNELS / 35];
        for (size_t c = 0; c < 65 * ld; c++)
            one[c] = 1 + (double)c / 100;
        for (size_t c = 0; c < n_c; c++) {
            at[c] = c == 2 ? x : y + c * dim; /* one of them stands among the points */
            kb_vec_kernel_scale(k, dim, x, dim, n, at[c], one + c * ld);
        }
        for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
            for (size_t c = 0; c < 65 * ld; c++)
                many[c] = 1 + (double)c / 100;
            const struct kb_vec_points p = {.x = x, .stride = dim, .n = n};
            kb_vec_kernel_scale_by(lanes, k, dim, &p, at, n_c, many, ld);
            ck_assert_mem_eq(many, one, 65 * ld * sizeof *one);
        }
    }
    free(x), free(y), free(many), free(one);
}
END_TEST

/* Against long double, in ranges that the exponent and the polynomial change in; and where the range ends. */
START_TEST(exponential_is_within_its_bound)
{
    const struct kb_vec_kernel_spec k = {.type = KB_VEC_MATERN12, .lengthscale = 1}; /* exp(-|x|) */
    static const double ranges[] = {1e-300, 1e-9, 0.4, 1, 40, 708};
    const double zero = 0;
    double x[64], out[64], worst = 0;
    for (uint64_t round = 0; round < 6 * 4000; round++) {
        for (size_t i = 0; i < 64; i++) {
            x[i] = ranges[round % 6] * kb_rng_uniform(16, KB_STREAM_SIMULATION, 64 * round + i);
            out[i] = 1;
        }
        kb_vec_kernel_scale(&k, 1, x, 1, 64, &zero, out);
        for (size_t i = 0; i < 64; i++) {
            const long double exact = expl(-(long double)sqrt(x[i] * x[i]));
            worst = fmax(worst, (double)(fabsl((long double)out[i] - exact) / exact));
            ck_assert(out[i] <= 1);
        }
    }
    ck_assert_msg(worst <= 0x1p-52, "%g", worst);
    for (size_t i = 0; i < 64; i++) {
        x[i] = i % 2 == 0 ? 708.5 + (double)i * 1e150 : 707.9;
        out[i] = 1;
    }
    kb_vec_kernel_scale(&k, 1, x, 1, 64, &zero, out);
    for (size_t i = 0; i < 64; i++)
        ck_assert(i % 2 == 0 ? out[i] == 0 : out[i] > 0);
}
END_TEST

/* Vectors that are mostly 0, as those of named features: n_of of dim coordinates are not, drawn from a vocabulary of
 * `words`; a few are -0. */
static void draw_sparse(size_t n, size_t dim, size_t n_of, size_t words, uint64_t key, double *x)
{
    double *const value = kbt_array(n * n_of), *const place = kbt_array(n * n_of);
    kbt_random_normal(n * n_of, key, value);
    kbt_random_normal(n * n_of, key + 1, place);
    for (size_t i = 0; i < n * dim; i++)
        x[i] = i % 13 == 0 ? -0.0 : 0.0;
    for (size_t i = 0; i < n * n_of; i++) {
        const size_t word = (size_t)(fabs(place[i]) * 1e6) % words;
        x[i / n_of * dim + word * 2654435761u % dim] = value[i];
    }
    free(value), free(place);
}

/* Marks of rows in which `before` other coordinates stand first. */
static uint64_t *mark_rows(size_t n, size_t dim, size_t before, const double *x, double *rows)
{
    uint64_t *marks = calloc(n * kb_vec_mark_words(before + dim), sizeof *marks);
    ck_assert_ptr_nonnull(marks);
    for (size_t i = 0; i < n; i++) {
        double *row = rows + i * (before + dim);
        kbt_random_normal(before, 77 + i, row);
        memcpy(row + before, x + i * dim, dim * sizeof *x);
        kb_vec_mark(before + dim, row, marks + i * kb_vec_mark_words(before + dim));
    }
    return marks;
}

/* Few words that all share, many words, and vectors of which one is dense; rows that begin with another vector. */
START_TEST(sparse_vectors_have_the_bits_of_pairs)
{
    static const size_t dims[] = {47, 48, 130, 191, 256, 257}, words[] = {20, 100000}, befores[] = {0, 5, 64, 70};
    const size_t n = 19, n_c = 70, ld = 24;
    double *x = kbt_array(n * 257), *y = kbt_array(n_c * 257), *rows = kbt_array(n * (257 + 70));
    double *many = kbt_array(n_c * ld), *one = kbt_array(n_c * ld);
    const double *at[70];
    for (size_t i = 0; i < N_KERNELS * 6 * 2 * 4 * 2; i++) {
        const struct kb_vec_kernel_spec *k = &kernels[i % N_KERNELS];
        const size_t dim = dims[i / N_KERNELS % 6], n_words = words[i / N_KERNELS / 6 % 2];
        const size_t before = befores[i / N_KERNELS / 12 % 4];
        draw_sparse(n, dim, 12, n_words, 3 * i + 1, x);
        draw_sparse(n_c, dim, 9, n_words, 3 * i + 2, y);
        if (i / N_KERNELS / 48 == 1)
            kbt_random_normal(dim, i, y + 66 * dim);
        uint64_t *marks = mark_rows(n, dim, before, x, rows);
        const struct kb_vec_points p = {.x = rows + before,
                                        .stride = before + dim,
                                        .n = n,
                                        .marks = marks,
                                        .n_words = kb_vec_mark_words(before + dim),
                                        .skip = before};
        for (size_t c = 0; c < n_c * ld; c++)
            one[c] = 1 + (double)c / 100;
        for (size_t c = 0; c < n_c; c++) {
            at[c] = c == 2 ? x : y + c * dim;
            kb_vec_kernel_scale(k, dim, x, dim, n, at[c], one + c * ld);
        }
        for (enum kb_lanes lanes = KB_LANES_2; lanes <= kb_widest_lanes(); lanes++) {
            for (size_t c = 0; c < n_c * ld; c++)
                many[c] = 1 + (double)c / 100;
            kb_vec_kernel_scale_by(lanes, k, dim, &p, at, n_c, many, ld);
            ck_assert_mem_eq(many, one, n_c * ld * sizeof *one);
        }
        free(marks);
    }
    free(x), free(y), free(rows), free(many), free(one);
}
END_TEST

START_TEST(stationary_kernels_are_exactly_one_at_equal_points)
{
    double x[DIM], y[DIM];
    for (uint64_t key = 0; key < 200; key++) {
        kbt_random_normal(DIM, key, x);
        memcpy(y, x, sizeof y);
        for (size_t k = 0; k < N_KERNELS; k++) {
            const double apart = kb_vec_kernel_value(&kernels[k], DIM, x, y);
            ck_assert_double_eq(kb_vec_kernel_value(&kernels[k], DIM, x, x), apart);
            if (kernels[k].type == KB_VEC_LINEAR || kernels[k].type == KB_VEC_POLYNOMIAL)
                continue;
            ck_assert_double_eq(apart, 1.0);
        }
    }
}
END_TEST

START_TEST(kernels_are_symmetric_to_the_bit)
{
    double x[2 * DIM];
    for (uint64_t key = 0; key < 100; key++) {
        kbt_random_normal(2 * DIM, key, x);
        for (size_t k = 0; k < N_KERNELS; k++) {
            double there = kb_vec_kernel_value(&kernels[k], DIM, x, x + DIM);
            double back = kb_vec_kernel_value(&kernels[k], DIM, x + DIM, x);
            ck_assert_mem_eq(&there, &back, sizeof back);
        }
    }
}
END_TEST

START_TEST(strided_points_are_read_in_place)
{
    double x[N * (DIM + 3)], out[N];
    kbt_random_normal(N * (DIM + 3), 6, x);
    for (size_t i = 0; i < N; i++)
        out[i] = 1;
    kb_vec_kernel_scale(&kernels[0], DIM, x + 2, DIM + 3, N, x, out);
    for (size_t i = 0; i < N; i++)
        ck_assert(kbt_close(out[i], definition(&kernels[0], x + 2 + i * (DIM + 3), x), 1e-13));
}
END_TEST

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(median_is_that_of_all_positive_distances)
{
    double x[60 * DIM], all[60 * 60], median;
    kbt_random_normal(60 * DIM, 7, x);
    for (size_t d = 0; d < DIM; d++) /* a repeated point: its distance of zero does not count */
        x[DIM + d] = x[d];
    size_t n = 0;
    for (size_t i = 0; i < 60; i++) {
        for (size_t j = i + 1; j < 60; j++) {
            double r = 0;
            for (size_t d = 0; d < DIM; d++)
                r = hypot(r, x[i * DIM + d] - x[j * DIM + d]);
            if (r > 0)
                all[n++] = r;
        }
    }
    qsort(all, n, sizeof *all, compare);
    ck_assert_int_eq(kb_median_distance(60, DIM, x, DIM, &median), KB_OK);
    ck_assert(kbt_close(median, n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2, 1e-14));
}
END_TEST

START_TEST(median_of_many_points_is_close_to_that_of_all)
{
    double *x = kbt_array(4000), median;
    for (size_t i = 0; i < 4000; i++)
        x[i] = (double)i / 4000; /* distances of uniform points: median 1 - sqrt(1/2) */
    ck_assert_int_eq(kb_median_distance(4000, 1, x, 1, &median), KB_OK);
    ck_assert_double_eq_tol(median, 1 - sqrt(0.5), 0.005);
    free(x);
}
END_TEST

START_TEST(median_without_distances_is_one)
{
    const double x[4] = {1, 1, 1, 1};
    double median;
    ck_assert_int_eq(kb_median_distance(4, 1, x, 1, &median), KB_OK);
    ck_assert_double_eq(median, 1);
    ck_assert_int_eq(kb_median_distance(1, 1, x, 1, &median), KB_OK);
    ck_assert_double_eq(median, 1);
    ck_assert_int_eq(kb_median_distance(0, 1, NULL, 1, &median), KB_OK);
    ck_assert_double_eq(median, 1);
}
END_TEST

static enum kb_err take_median(void *arg)
{
    const double x[3] = {1, 2, 4};
    return kb_median_distance(3, 1, x, 1, arg);
}

static void check_median(void *arg)
{
    double *median = arg;
    ck_assert(*median == 1.0 || *median == 2.0); /* 1 without memory, else the median of 1, 2, 3 */
}

START_TEST(median_without_memory_says_so)
{
    double median = 0;
    ck_assert_uint_eq(kbt_brutal(take_median, check_median, &median), 1);
    ck_assert_double_eq(median, 2);
}
END_TEST

int main(void)
{
    return KBT_RUN("vec_kernel", every_kernel_equals_its_definition, scale_multiplies_what_is_there,
                   value_is_bitwise_independent_of_the_block, many_against_many_have_the_bits_of_pairs,
                   sparse_vectors_have_the_bits_of_pairs, exponential_is_within_its_bound,
                   stationary_kernels_are_exactly_one_at_equal_points, kernels_are_symmetric_to_the_bit,
                   strided_points_are_read_in_place, median_is_that_of_all_positive_distances,
                   median_of_many_points_is_close_to_that_of_all, median_without_distances_is_one,
                   median_without_memory_says_so);
}
