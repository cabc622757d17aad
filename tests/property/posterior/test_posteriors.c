/* Properties of every preset's posterior, against oracles that share no code with it (tests/lib/kbt_world.c).
 * Each test walks every row of the preset table, with and without contexts and features. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt_world.h"
#include "base/rng.h"
#include "posterior/learning.h"

#define N_USERS 9u
#define N_ARMS 6u
#define N_EVENTS 70u
#define N_QUERIES 40u
#define MOST_POINTS (N_EVENTS * (KB_N_PARTS - 1)) /* a row may stand for each component of a sum */

/* User kernels that no preset has by itself. n_vectors 3 of the 6 non-trivial vectors of a world's graph; mmd has
 * learned nothing (tests/property/model/test_engine.c has it learn). */
static const struct kb_user_kernel_spec more_user_kernels[] = {
    {.type = KB_USER_LAPLACIAN, .rho = 0.1, .power = 0.5, .tau = 1, .n_vectors = 8},
    {.type = KB_USER_LAPLACIAN, .rho = 0.7, .power = 2, .tau = 1, .n_vectors = 8, .is_normalized = true},
    {.type = KB_USER_HEAT, .rho = 0.1, .power = 1, .tau = 0.4, .n_vectors = 8},
    {.type = KB_USER_HEAT, .rho = 0.1, .power = 1, .tau = 1, .n_vectors = 8, .is_normalized = true},
    {.type = KB_USER_SPECTRAL_RBF, .rho = 0.1, .power = 1, .tau = 1, .n_vectors = 3},
    {.type = KB_USER_SPECTRAL_RBF, .rho = 0.1, .power = 1, .tau = 1, .n_vectors = 2, .lengthscale = 0.4},
    {.type = KB_USER_MMD, .rho = 0.1, .power = 1, .tau = 1, .n_vectors = 8},
};

static bool holds_all_points(const struct kb_spec *spec)
{
    return spec->repr.type == KB_REPR_EXACT || spec->repr.type == KB_REPR_BY_ARM;
}

/* The exact baseline and the default row, with each of them. */
static void for_each_user_kernel(void (*fn)(const struct kb_spec *spec))
{
    static const char *const rows[] = {"coop-kernel-ucb", "laplaced-kors"};
    for (size_t i = 0; i < 2 * sizeof more_user_kernels / sizeof more_user_kernels[0]; i++) {
        struct kb_spec spec;
        ck_assert_int_eq(kb_spec_preset(&spec, rows[i % 2], 0, 2), KB_OK);
        spec.user_kernel = more_user_kernels[i / 2];
        spec.user_kernel.n_features = spec.user_kernel.refresh = spec.user_kernel.min_observations = 20;
        ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
        spec.repr.lambda = 0.3;
        fn(&spec);
    }
}

/* One mean for each user, context and arm: what no preset has over contexts. */
static void for_each_cell(void (*fn)(const struct kb_spec *spec))
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "lin-ucb-per-user", 2, 0), KB_OK);
    spec.context_kernel.type = KB_VEC_DELTA;
    spec.repr.lambda = 0.3;
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    fn(&spec);
}

/* Calls fn(spec) for every preset in every pair of dimensions, for every user kernel, and for cells. */
static void for_each_preset(void (*fn)(const struct kb_spec *spec))
{
    for_each_user_kernel(fn);
    for_each_cell(fn);
    static const uint32_t dims[][2] = {{0, 0}, {2, 3}, {0, 2}, {3, 0}};
    for (size_t i = 0; kb_preset_name(i) != NULL; i++) {
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
            struct kb_spec spec;
            ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), dims[d][0], dims[d][1]), KB_OK);
            ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
            spec.repr.lambda = 0.3;
            fn(&spec);
        }
    }
}

static void draw_queries(const struct kbt_world *w, struct kbt_observation *query)
{
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 4242, q);
}

/* p's predictions against an oracle's mean and variance. */
static void expect_predictions(const struct kb_posterior *p, struct kbt_world *w, const struct kbt_observation *query,
                               const double *mean, const double *variance, double tol)
{
    for (size_t q = 0; q < N_QUERIES; q++) {
        double m, sd;
        kbt_predict(p, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], tol), "%s: mean %.17g, expected %.17g", w->spec.algorithm, m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], tol), "%s: variance %.17g, expected %.17g", w->spec.algorithm,
                      sd * sd, variance[q]);
    }
}

/* --- against dense solves ----------------------------------------------------------------------------------- */

static void check_against_dense(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES], atoms[MOST_POINTS];
    double mean[N_QUERIES], variance[N_QUERIES];
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 11);
    kbt_world_run(&w, N_EVENTS, 12);
    draw_queries(&w, query);
    size_t m = kbt_support(w.posterior, atoms);
    ck_assert_uint_gt(m, 0);
    if (holds_all_points(spec))
        kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
    else
        kbt_dense_nystrom(&w, atoms, m, query, N_QUERIES, mean, variance);
    expect_predictions(w.posterior, &w, query, mean, variance, 1e-9);
    kbt_world_close(&w);
}

START_TEST(posterior_equals_the_naive_dense_solve)
{
    for_each_preset(check_against_dense);
}
END_TEST

/* The preset's kernel over a dictionary that spans everything seen. */
static void check_full_dictionary(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES];
    struct kb_spec full = *spec;
    full.repr.type = KB_REPR_THRESHOLD;
    full.repr.threshold = 1e-6;
    full.repr.max_dictionary = 4096;
    kbt_world_open(&w, &full, N_USERS, N_ARMS, true, 21);
    kbt_world_run(&w, N_EVENTS, 22);
    draw_queries(&w, query);
    kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
    expect_predictions(w.posterior, &w, query, mean, variance, 1e-8);
    kbt_world_close(&w);
}

START_TEST(dictionary_of_everything_equals_the_exact_posterior)
{
    for_each_preset(check_full_dictionary);
}
END_TEST

/* --- bounds and monotony ------------------------------------------------------------------------------------- */

/* Variances of the queries, which must lie in [0, prior]. */
static void bounded_variances(struct kbt_world *w, const struct kbt_observation *query, double *variance)
{
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean, sd, prior = kbt_world_kernel(w, &query[q], &query[q]);
        kbt_predict(w->posterior, &w->scratch, w, &query[q], &mean, &sd);
        ck_assert(sd >= 0 && sd * sd <= prior * (1 + 1e-12) + 1e-15);
        variance[q] = sd * sd;
    }
}

/* An admission may raise a variance (the compression of the data to the dictionary is not monotone in it); an
 * observation may not. */
static void check_variances(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES];
    double before[N_QUERIES], after[N_QUERIES];
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 31);
    draw_queries(&w, query);
    for (uint64_t step = 0; step < 6; step++) {
        bounded_variances(&w, query, before);
        for (uint64_t i = 0; i < 10; i++) {
            struct kbt_observation o = kbt_world_draw(&w, 32 + step, i);
            kbt_world_learn(&w, &o);
        }
        bounded_variances(&w, query, after);
        for (size_t q = 0; q < N_QUERIES; q++)
            ck_assert_msg(after[q] <= before[q] + 1e-9 * (1 + before[q]), "%s: variance rose from %g to %g",
                          spec->algorithm, before[q], after[q]);
        kbt_world_run(&w, 5, 132 + step);
    }
    kbt_world_close(&w);
}

START_TEST(variances_lie_between_zero_and_the_prior_and_fall_by_learning)
{
    for_each_preset(check_variances);
}
END_TEST

static void check_information_gain(const struct kb_spec *spec)
{
    struct kbt_world w;
    double last = 0;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 41);
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        struct kb_posterior_facts facts;
        struct kbt_observation o = kbt_world_draw(&w, 42, i);
        kbt_world_learn(&w, &o);
        kbt_world_admit(&w, &o, kb_rng_uniform(42, KB_STREAM_DICTIONARY, i));
        if (kb_repr_is_resampled(spec->repr.type) && i == N_EVENTS / 2) {
            kbt_world_resample(&w, 42); /* another dictionary may know less of what was learned */
            last = 0;
        }
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
        ck_assert_msg(facts.information_gain >= last - 1e-9 * (1 + last), "%s: gain fell from %.17g to %.17g",
                      spec->algorithm, last, facts.information_gain);
        ck_assert(facts.effective_dimension >= 0 && facts.effective_dimension <= (double)facts.n_support + 1e-9);
        ck_assert_uint_eq(facts.n_clamped, 0);
        last = facts.information_gain;
    }
    ck_assert_double_gt(last, 0.1);
    if (holds_all_points(spec))
        ck_assert(kbt_close(last, kbt_dense_information_gain(&w), 1e-9));
    else
        ck_assert_double_le(last, kbt_dense_information_gain(&w) + 1e-9);
    kbt_world_close(&w);
}

START_TEST(information_gain_never_falls)
{
    for_each_preset(check_information_gain);
}
END_TEST

static void check_effective_dimension(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kb_posterior_facts facts;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 45);
    kbt_world_run(&w, N_EVENTS, 46);
    ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
    double dense = kbt_dense_effective_dimension(&w);
    if (holds_all_points(spec))
        ck_assert(kbt_close(facts.effective_dimension, dense, 1e-9));
    else
        ck_assert_double_le(facts.effective_dimension, dense + 1e-9);
    kbt_world_close(&w);
}

START_TEST(effective_dimension_is_that_of_the_gram_matrix)
{
    for_each_preset(check_effective_dimension);
}
END_TEST

/* --- order, independence ---------------------------------------------------------------------------------------- */

/* Two worlds, the second taught backwards; a dictionary (if any) is the same in both. */
static void check_order(const struct kb_spec *spec)
{
    struct kbt_world w, v;
    struct kbt_observation query[N_QUERIES], atoms[MOST_POINTS];
    double mean[N_QUERIES], variance[N_QUERIES];
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 51);
    kbt_world_open(&v, spec, N_USERS, N_ARMS, true, 51);
    kbt_world_run(&w, N_EVENTS, 52);
    for (size_t i = N_EVENTS; i-- > 0;)
        kbt_world_learn(&v, &w.seen[i]);
    size_t m = kbt_support(w.posterior, atoms);
    /* which components points stand for depends on the order in which they enter */
    const bool is_taken = kb_repr_is_resampled(spec->repr.type) || spec->repr.type == KB_REPR_BY_COMPONENT;
    for (size_t i = 0; i < m && !holds_all_points(spec) && !is_taken; i++)
        ck_assert(kbt_world_admit(&v, &atoms[m - 1 - i], 0));
    if (is_taken)
        kbt_world_take_dictionary(&v, atoms, m);
    draw_queries(&w, query);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double sd;
        kbt_predict(v.posterior, &v.scratch, &v, &query[q], &mean[q], &sd);
        variance[q] = sd * sd;
    }
    expect_predictions(w.posterior, &w, query, mean, variance, 1e-9);
    kbt_world_close(&v);
    kbt_world_close(&w);
}

START_TEST(order_of_observations_is_irrelevant)
{
    for_each_preset(check_order);
}
END_TEST

/* On a graph without edges (and without the crowd) what one user does moves nobody else. */
static void check_isolation(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kb_spec alone = *spec;
    alone.user_kernel.population = 0;
    alone.prior.arm = alone.prior.feature = alone.prior.context = alone.prior.linear = 0;
    if (alone.user_kernel.type == KB_USER_ONES)
        return; /* one user by design */
    kbt_world_open(&w, &alone, N_USERS, N_ARMS, false, 61);
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 62, i);
        o.user = (uint32_t)(i % 2 == 0 ? 3 : N_USERS - 1);
        kbt_world_learn(&w, &o);
        kbt_world_admit(&w, &o, kb_rng_uniform(62, KB_STREAM_DICTIONARY, i));
    }
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean, sd;
        struct kbt_observation o = kbt_world_draw(&w, 4242, q);
        o.user = (uint32_t)(q % 2 == 0 ? 4 : N_USERS - 2);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        ck_assert_double_eq(mean, 0);
        ck_assert(kbt_close(sd * sd, kbt_world_kernel(&w, &o, &o), 1e-12));
    }
    kbt_world_close(&w);
}

START_TEST(without_edges_users_are_independent)
{
    for_each_preset(check_isolation);
}
END_TEST

/* Corrected rewards leave the model that only ever saw the last values. */
static void check_corrections(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES], atoms[MOST_POINTS];
    double mean[N_QUERIES], variance[N_QUERIES];
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 71);
    kbt_world_run(&w, N_EVENTS, 72);
    for (size_t i = 0; i < N_EVENTS; i += 3) {
        kbt_world_correct(&w, &w.seen[i], 2.5);
        w.seen[i].reward += 2.5; /* what the oracles see */
    }
    draw_queries(&w, query);
    size_t m = kbt_support(w.posterior, atoms);
    if (holds_all_points(spec))
        kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
    else
        kbt_dense_nystrom(&w, atoms, m, query, N_QUERIES, mean, variance);
    expect_predictions(w.posterior, &w, query, mean, variance, 1e-9);
    kbt_world_close(&w);
}

START_TEST(corrections_leave_the_model_of_the_last_values)
{
    for_each_preset(check_corrections);
}
END_TEST

/* --- filling and snapshots ------------------------------------------------------------------------------------------
 */

static void check_fill(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kb_posterior *p = NULL;
    struct kb_atom *atoms;
    size_t n;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 81);
    kbt_world_run(&w, N_EVENTS, 82);
    ck_assert_int_eq(kb_posterior_new(&p, spec, w.graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &w.scratch, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_choose(p, &w.history, w.node_of, 5, &w.scratch, &atoms, &n), KB_OK);
    ck_assert_int_eq(kb_posterior_fill(p, &w.history, w.node_of, atoms, n, &w.scratch), KB_OK);
    struct kb_posterior *again = kbt_world_fill(&w, atoms, n);
    ck_assert_uint_eq(kb_posterior_digest(p, 1), kb_posterior_digest(again, 1));
    ck_assert_uint_eq(n, holds_all_points(spec) ? 0 : kb_posterior_n_support(p));
    struct kbt_observation query[N_QUERIES], dictionary[MOST_POINTS];
    double mean[N_QUERIES], variance[N_QUERIES];
    draw_queries(&w, query);
    size_t m = kbt_support(p, dictionary);
    if (holds_all_points(spec))
        kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
    else
        kbt_dense_nystrom(&w, dictionary, m, query, N_QUERIES, mean, variance);
    expect_predictions(again, &w, query, mean, variance, 1e-9);
    kb_posterior_free(p);
    kb_posterior_free(again);
    free(atoms);
    kbt_world_close(&w);
}

START_TEST(filling_after_choosing_or_not_gives_equal_bits_and_the_dense_answer)
{
    for_each_preset(check_fill);
}
END_TEST

static struct kb_posterior *reload(struct kbt_world *w)
{
    struct kb_writer out;
    struct kb_reader in;
    struct kb_posterior *p = NULL;
    kb_writer_init(&out);
    kb_posterior_save(w->posterior, &out);
    ck_assert_int_eq(out.rc, KB_OK);
    ck_assert_int_eq(kb_posterior_new(&p, &w->spec, w->graph, kbt_key), KB_OK);
    kb_reader_init(&in, out.data, out.n);
    ck_assert_int_eq(kb_posterior_load(p, &in, &w->scratch), KB_OK);
    ck_assert_uint_eq(in.pos, in.n);
    kb_writer_close(&out);
    return p;
}

static void check_snapshot(const struct kb_spec *spec)
{
    struct kbt_world w, v;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 91);
    kbt_world_open(&v, spec, N_USERS, N_ARMS, true, 91);
    for (uint64_t round = 0; round < 4; round++) {
        struct kb_posterior *copy = reload(&v);
        ck_assert_uint_eq(kb_posterior_digest(copy, 7), kb_posterior_digest(w.posterior, 7));
        kb_posterior_free(v.posterior);
        v.posterior = copy; /* learning goes on from the copy; w never stops */
        kbt_world_run(&w, N_EVENTS / 3, 92 + round);
        kbt_world_run(&v, N_EVENTS / 3, 92 + round);
        ck_assert_uint_eq(kb_posterior_digest(v.posterior, 7), kb_posterior_digest(w.posterior, 7));
    }
    for (uint64_t q = 0; q < N_QUERIES; q++) {
        double a[2], b[2];
        struct kbt_observation o = kbt_world_draw(&w, 4242, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &a[0], &a[1]);
        kbt_predict(v.posterior, &v.scratch, &v, &o, &b[0], &b[1]);
        ck_assert_mem_eq(a, b, sizeof a);
    }
    kbt_world_close(&v);
    kbt_world_close(&w);
}

START_TEST(snapshots_keep_every_bit_and_learning_goes_on_alike)
{
    for_each_preset(check_snapshot);
}
END_TEST

int main(void)
{
    return KBT_RUN("posteriors", posterior_equals_the_naive_dense_solve,
                   dictionary_of_everything_equals_the_exact_posterior,
                   variances_lie_between_zero_and_the_prior_and_fall_by_learning, information_gain_never_falls,
                   effective_dimension_is_that_of_the_gram_matrix, order_of_observations_is_irrelevant,
                   without_edges_users_are_independent, corrections_leave_the_model_of_the_last_values,
                   filling_after_choosing_or_not_gives_equal_bits_and_the_dense_answer,
                   snapshots_keep_every_bit_and_learning_goes_on_alike);
}
