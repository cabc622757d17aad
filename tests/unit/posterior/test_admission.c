/* Admission rules against their definitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "posterior/admission.h"
#include "posterior/features.h"
#include "kbt.h"
#include "base/rng.h"

#define N 24u

static struct kb_repr_spec kors_spec(void)
{
    return (struct kb_repr_spec){
        .type = KB_REPR_KORS, .lambda = 1, .mu = 0.4, .gamma = 1.3, .epsilon = 0.25, .max_dictionary = N};
}

/* A positive definite K over N points, and probabilities in (0, 1]. */
static void draw(double *k, double *probability)
{
    kbt_random_spd(N, 3, 0.5, k);
    for (size_t i = 0; i < N; i++)
        probability[i] = 0.05 + 0.95 * kb_rng_uniform(4, KB_STREAM_SIMULATION, i);
}

/* Residual of point n over points 0..n-1, densely. */
static double residual(const double *k, size_t n)
{
    double *a = kbt_array(n * n + 1), *x = kbt_array(n + 1), r = k[n * N + n];
    for (size_t i = 0; i < n; i++)
        memcpy(a + i * n, k + i * N, n * sizeof *a);
    kbt_solve(n, a, k + n * N, x);
    for (size_t i = 0; i < n; i++)
        r -= x[i] * k[n * N + i];
    free(a);
    free(x);
    return r;
}

/* EK eq. 41 as printed: point n itself enters the bordered system with weight 1. */
static double bordered_tau(const double *k, const double *probability, size_t n, const struct kb_repr_spec *spec)
{
    size_t order = n + 1;
    double *a = kbt_array(order * order), *b = kbt_array(order), *x = kbt_array(order), tau = k[n * N + n];
    for (size_t i = 0; i < order; i++) {
        double s_i = i < n ? 1 / sqrt(probability[i]) : 1;
        for (size_t j = 0; j < order; j++) {
            double s_j = j < n ? 1 / sqrt(probability[j]) : 1;
            a[i * order + j] = s_i * k[i * N + j] * s_j + (i == j ? spec->mu : 0);
        }
        b[i] = s_i * k[n * N + i];
    }
    kbt_solve(order, a, b, x);
    for (size_t i = 0; i < order; i++)
        tau -= b[i] * x[i];
    free(a);
    free(b);
    free(x);
    return (1 + spec->epsilon) / spec->mu * tau;
}

static struct kb_admission_query query_of(const double *k, size_t n)
{
    return (struct kb_admission_query){.k_z = k + n * N, .diag = k[n * N + n], .residual = residual(k, n)};
}

/* From the second point on; the first enters for certain. */
START_TEST(kors_matches_the_bordered_definition)
{
    double k[N * N], probability[N], work[N];
    struct kb_repr_spec spec = kors_spec();
    struct kb_admission a;
    size_t n_below_one = 0;
    draw(k, probability);
    for (size_t i = 0; i < N * N; i++)
        k[i] *= 0.01; /* leverages below 1 */
    kb_admission_init(&a, &spec);
    KBT_ROOM(kb_admission_grow(&a, N, &room));
    for (size_t n = 0; n < N; n++) {
        struct kb_admission_query q = query_of(k, n);
        double want = n == 0 ? 1 : fmin(1, spec.gamma * bordered_tau(k, probability, n, &spec));
        double have = kb_admission_probability(&a, &q, work);
        ck_assert_msg(kbt_close(have, want, 1e-12), "point %zu: %.15g, expected %.15g", n, have, want);
        n_below_one += have < 1;
        kb_admission_append(&a, &q, probability[n], work);
    }
    ck_assert_uint_gt(n_below_one, N / 2);
    kb_admission_close(&a);
}
END_TEST

START_TEST(threshold_compares_the_residual_share)
{
    double k[N * N], probability[N], work[N];
    struct kb_repr_spec spec = {.type = KB_REPR_THRESHOLD, .threshold = 0.2, .max_dictionary = N};
    struct kb_admission a;
    draw(k, probability);
    kb_admission_init(&a, &spec);
    KBT_ROOM(kb_admission_grow(&a, N, &room));
    struct kb_admission_query q = query_of(k, 0);
    for (double share = 0.01; share < 1; share += 0.01) {
        q.residual = share * q.diag;
        if (fabs(share - 0.2) > 1e-9)
            ck_assert_double_eq(kb_admission_probability(&a, &q, work), share > 0.2);
    }
    kb_admission_append(&a, &q, 1, work);
    ck_assert_uint_eq(a.n, 1);
    kb_admission_close(&a);
}
END_TEST

START_TEST(no_rule_admits_what_lies_inside_the_span)
{
    double k[N * N], probability[N], work[N];
    draw(k, probability);
    for (int type = KB_REPR_KORS; type <= KB_REPR_THRESHOLD; type++) {
        struct kb_repr_spec spec = kors_spec();
        struct kb_admission a;
        spec.type = (enum kb_repr_type)type;
        spec.threshold = 1e-12;
        spec.gamma = 1e9;
        kb_admission_init(&a, &spec);
        KBT_ROOM(kb_admission_grow(&a, N, &room));
        struct kb_admission_query q = query_of(k, 0);
        q.residual = 0.99 * KB_RESIDUAL_MIN * q.diag;
        ck_assert_double_eq(kb_admission_probability(&a, &q, work), 0);
        q.residual = 1.01 * KB_RESIDUAL_MIN * q.diag;
        ck_assert_double_gt(kb_admission_probability(&a, &q, work), 0);
        q.residual = q.diag = 0; /* the origin under a linear kernel */
        ck_assert_double_eq(kb_admission_probability(&a, &q, work), 0);
        kb_admission_close(&a);
    }
}
END_TEST

START_TEST(a_full_dictionary_admits_nothing)
{
    double k[N * N], probability[N], work[N];
    struct kb_repr_spec spec = kors_spec();
    struct kb_admission a;
    draw(k, probability);
    spec.max_dictionary = 3;
    kb_admission_init(&a, &spec);
    KBT_ROOM(kb_admission_grow(&a, 3, &room));
    for (size_t n = 0; n < 3; n++) {
        struct kb_admission_query q = query_of(k, n);
        ck_assert_double_gt(kb_admission_probability(&a, &q, work), 0);
        kb_admission_append(&a, &q, 1, work);
    }
    struct kb_admission_query q = query_of(k, 3);
    ck_assert_double_eq(kb_admission_probability(&a, &q, work), 0);
    kb_admission_close(&a);
}
END_TEST

/* More points in the dictionary can only make the next one less needed. */
START_TEST(kors_probabilities_fall_as_the_dictionary_grows)
{
    double k[N * N], probability[N], work[N], last = INFINITY;
    struct kb_repr_spec spec = kors_spec();
    struct kb_admission a;
    draw(k, probability);
    spec.gamma = 1e-3;
    kb_admission_init(&a, &spec);
    KBT_ROOM(kb_admission_grow(&a, N, &room));
    for (size_t n = 0; n + 1 < N; n++) {
        struct kb_admission_query fixed = {
            .k_z = k + (N - 1) * N, .diag = k[N * N - 1], .residual = 0.01 * k[N * N - 1]};
        double p = kb_admission_probability(&a, &fixed, work);
        ck_assert_double_le(p, last);
        last = p;
        struct kb_admission_query q = query_of(k, n);
        kb_admission_append(&a, &q, probability[n], work);
    }
    kb_admission_close(&a);
}
END_TEST

static void fill(struct kb_admission *a, const struct kb_repr_spec *spec)
{
    double k[N * N], probability[N], work[N];
    draw(k, probability);
    kb_admission_init(a, spec);
    KBT_ROOM(kb_admission_grow(a, N, &room));
    for (size_t n = 0; n + 1 < N; n++) {
        struct kb_admission_query q = query_of(k, n);
        kb_admission_append(a, &q, probability[n], work);
    }
}

START_TEST(snapshot_keeps_every_bit)
{
    for (int type = KB_REPR_KORS; type <= KB_REPR_THRESHOLD; type++) {
        struct kb_repr_spec spec = kors_spec();
        struct kb_admission a, copy;
        struct kb_writer w;
        struct kb_reader r;
        spec.type = (enum kb_repr_type)type;
        fill(&a, &spec);
        kb_writer_init(&w);
        kb_admission_save(&a, &w);
        kb_admission_init(&copy, &spec);
        KBT_ROOM(kb_admission_grow(&copy, N, &room));
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_admission_load(&copy, a.n, &r), KB_OK);
        ck_assert_uint_eq(r.pos, r.n);
        ck_assert_uint_eq(kb_admission_digest(&copy, 1), kb_admission_digest(&a, 1));
        kb_reader_init(&r, w.data, w.n - 1);
        ck_assert_int_eq(kb_admission_load(&copy, a.n, &r), KB_ECORRUPT);
        kb_admission_close(&copy);
        kb_writer_close(&w);
        kb_admission_close(&a);
    }
}
END_TEST

START_TEST(a_probability_of_zero_in_a_snapshot_is_refused)
{
    struct kb_repr_spec spec = kors_spec();
    struct kb_admission a, copy;
    struct kb_writer w;
    struct kb_reader r;
    fill(&a, &spec);
    a.probability[5] = 0;
    kb_writer_init(&w);
    kb_admission_save(&a, &w);
    kb_admission_init(&copy, &spec);
    KBT_ROOM(kb_admission_grow(&copy, N, &room));
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_admission_load(&copy, a.n, &r), KB_ECORRUPT);
    kb_admission_close(&copy);
    kb_writer_close(&w);
    kb_admission_close(&a);
}
END_TEST

int main(void)
{
    return KBT_RUN("admission", kors_matches_the_bordered_definition, threshold_compares_the_residual_share,
                   no_rule_admits_what_lies_inside_the_span, a_full_dictionary_admits_nothing,
                   kors_probabilities_fall_as_the_dictionary_grows, snapshot_keeps_every_bit,
                   a_probability_of_zero_in_a_snapshot_is_refused);
}
