/* Resampled dictionaries [BKB, Alg. 1]: how often a row enters, what is left out, what the posterior is afterwards,
 * when a draw is due, and BKB's Fig. 1. Oracles are dense (tests/lib/kbt_world.c) and share no code with the core. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt_world.h"
#include "base/rng.h"
#include "posterior/learning.h"

#define N_USERS 8u
#define N_ARMS 12u
#define N_POINTS 10u
#define N_DRAWS 4000u
#define N_QUERIES 30u

static struct kb_spec spec_of(const char *preset, uint32_t context_dim, uint32_t arm_dim)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, preset, context_dim, arm_dim), KB_OK);
    return spec;
}

/* The arm of this index, seen by user 0. */
static struct kbt_observation arm_of(const struct kbt_world *w, uint32_t arm)
{
    struct kbt_observation o = {.user = 0, .arm = arm, .reward = 0.1 * arm};
    for (size_t d = 0; d < w->spec.arm_dim; d++)
        o.x[d] = w->arm_features[arm * w->spec.arm_dim + d];
    return o;
}

/* Arms 0..N_POINTS-1 as the rows of the history, row j taught j % 3 + 1 times. */
static void teach_arms(struct kbt_world *w)
{
    for (uint32_t arm = 0; arm < N_POINTS; arm++) {
        struct kbt_observation o = arm_of(w, arm);
        for (uint32_t i = 0; i <= arm % 3; i++)
            kbt_world_learn(w, &o);
    }
    ck_assert_uint_eq(w->history.n, N_POINTS);
}

/* One draw from the variances of the world's posterior, as atoms (to be freed); the drawn posterior too when asked. */
static size_t draw(struct kbt_world *w, uint64_t key, struct kb_atom **atoms, struct kb_posterior **out)
{
    struct kb_posterior *p = NULL;
    size_t n;
    ck_assert_int_eq(kb_posterior_new_like(&p, &w->spec, w->posterior), KB_OK);
    ck_assert_int_eq(kb_posterior_resample(p, w->posterior, &w->history, w->node_of, key, &w->scratch, atoms, &n),
                     KB_OK);
    ck_assert_uint_eq(n, kb_posterior_n_support(p));
    if (out != NULL)
        *out = p;
    else
        kb_posterior_free(p);
    return n;
}

/* --- the draw -------------------------------------------------------------------------------------------- */

/* p_j by the dense formula over the first m arms as dictionary. */
static void dense_probabilities(const struct kbt_world *w, size_t m, double *p)
{
    struct kbt_observation arm[N_POINTS];
    double mean[N_POINTS], variance[N_POINTS];
    for (uint32_t i = 0; i < N_POINTS; i++)
        arm[i] = arm_of(w, i);
    kbt_dense_nystrom(w, arm, m, arm, N_POINTS, mean, variance);
    for (size_t i = 0; i < N_POINTS; i++)
        p[i] = fmin(1.0, w->spec.repr.q * variance[i] / w->spec.repr.lambda);
}

START_TEST(rows_enter_as_often_as_their_variance_says)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bkb", 0, 2);
    struct kbt_observation first[6];
    double p[N_POINTS], hits[N_POINTS] = {0};
    size_t n_between = 0, n_sure = 0;
    spec.arm_kernel.lengthscale = 0.3;
    spec.repr.lambda = 0.3;
    spec.repr.q = 0.4;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 3);
    teach_arms(&w);
    for (uint32_t i = 0; i < 6; i++)
        first[i] = arm_of(&w, i);
    kbt_world_take_dictionary(&w, first, 6);
    dense_probabilities(&w, 6, p);
    for (uint64_t key = 0; key < N_DRAWS; key++) {
        struct kb_atom *atoms;
        size_t n = draw(&w, 1000 + key, &atoms, NULL);
        for (size_t i = 0; i < n; i++) {
            hits[atoms[i].row]++;
            ck_assert(kbt_close(atoms[i].probability, p[atoms[i].row], 1e-9));
        }
        kb_free(atoms);
    }
    for (size_t i = 0; i < N_POINTS; i++) {
        double want = 1 - pow(1 - p[i], (double)(i % 3 + 1)), got = hits[i] / N_DRAWS;
        double margin = 4.5 * sqrt(want * (1 - want) / N_DRAWS) + 1e-12;
        ck_assert_msg(fabs(got - want) <= margin, "row %zu: %g of the draws, expected %g +- %g", i, got, want, margin);
        n_between += want > 0.1 && want < 0.9;
        n_sure += want >= 1; /* so no draw is empty */
    }
    ck_assert_uint_ge(n_between, 4);
    ck_assert_uint_ge(n_sure, 1);
    kbt_world_close(&w);
}
END_TEST

START_TEST(an_empty_draw_keeps_the_likeliest_row)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bkb", 0, 2);
    struct kbt_observation first[7];
    double p[N_POINTS];
    size_t best = 0;
    spec.arm_kernel.lengthscale = 0.7;
    spec.repr.q = 1e-9;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 3);
    teach_arms(&w);
    for (uint32_t i = 0; i < 7; i++)
        first[i] = arm_of(&w, i);
    kbt_world_take_dictionary(&w, first, 7);
    dense_probabilities(&w, 7, p);
    for (size_t i = 1; i < N_POINTS; i++)
        best = p[i] > p[best] ? i : best;
    ck_assert_uint_gt(best, 0);
    for (uint64_t key = 0; key < 20; key++) {
        struct kb_atom *atoms;
        ck_assert_uint_eq(draw(&w, key, &atoms, NULL), 1);
        ck_assert_uint_eq(atoms[0].row, best);
        ck_assert(kbt_close(atoms[0].probability, p[best], 1e-9));
        kb_free(atoms);
    }
    kbt_world_close(&w);
}
END_TEST

/* Under `ones` the same arm seen by two users is one point in two rows. */
START_TEST(rows_that_add_no_direction_are_left_out)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bkb", 0, 2);
    struct kb_atom *atoms;
    spec.repr.q = 1e9;
    spec.arm_kernel.lengthscale = 0.3;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 5);
    for (uint32_t user = 0; user < 3; user++) {
        for (uint32_t arm = 0; arm < N_POINTS; arm++) {
            struct kbt_observation o = arm_of(&w, arm);
            o.user = user;
            kbt_world_learn(&w, &o);
        }
    }
    ck_assert_uint_eq(draw(&w, 1, &atoms, NULL), N_POINTS);
    for (size_t i = 0; i < N_POINTS; i++)
        ck_assert_uint_eq(atoms[i].row, i); /* the first of the three */
    kb_free(atoms);
    kbt_world_close(&w);

    spec.arm_kernel.type = KB_VEC_LINEAR; /* of rank 2 */
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 5);
    teach_arms(&w);
    ck_assert_uint_eq(draw(&w, 1, &atoms, NULL), 2);
    kb_free(atoms);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_dictionary_does_not_pass_its_limit)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bkb", 0, 2);
    struct kb_atom *atoms;
    spec.repr.q = 1e9;
    spec.repr.max_dictionary = 4;
    spec.arm_kernel.lengthscale = 0.3;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 5);
    teach_arms(&w);
    ck_assert_uint_eq(draw(&w, 1, &atoms, NULL), 4);
    kb_free(atoms);
    kbt_world_close(&w);
}
END_TEST

START_TEST(nothing_is_admitted_between_draws)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bbkb", 0, 2);
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 5);
    for (uint32_t arm = 0; arm < N_POINTS; arm++) {
        struct kbt_observation o = arm_of(&w, arm);
        kbt_world_learn(&w, &o);
        ck_assert(!kbt_world_admit(&w, &o, 0));
    }
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 0);
    kbt_world_close(&w);
}
END_TEST

/* --- the posterior over it ---------------------------------------------------------------------------------- */

/* Kernels of users and arms that differ from the presets', with contexts; large: the graph's columns form. */
static void check_dense(const char *preset, bool is_large)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(preset, 2, 2), rows = spec_of("laplaced-kors", 2, 2);
    struct kbt_observation query[N_QUERIES], atoms[200];
    double mean[N_QUERIES], variance[N_QUERIES];
    spec.user_kernel = rows.user_kernel;
    spec.context_kernel.type = KB_VEC_MATERN32;
    spec.repr.lambda = 0.2;
    spec.repr.q = 0.3;
    spec.repr.batch_ratio = 2;
    if (is_large)
        kbt_world_open_large(&w, &spec, N_USERS, N_ARMS, 7);
    else
        kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 7);
    kbt_world_run(&w, is_large ? 12 : 120, 8);
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(&w, 4242, q);
    for (uint64_t key = 0; key < 3; key++) {
        kbt_world_resample(&w, key);
        size_t m = kbt_support(w.posterior, atoms);
        ck_assert_uint_gt(m, 3);
        ck_assert_uint_lt(m, w.history.n);
        kbt_dense_nystrom(&w, atoms, m, query, N_QUERIES, mean, variance);
        for (size_t q = 0; q < N_QUERIES; q++) {
            double got, sd;
            kbt_predict(w.posterior, &w.scratch, &w, &query[q], &got, &sd);
            ck_assert_msg(kbt_close(got, mean[q], 1e-9), "mean %.17g, expected %.17g", got, mean[q]);
            ck_assert_msg(kbt_close(sd * sd, variance[q], 1e-9), "variance %.17g, expected %.17g", sd * sd,
                          variance[q]);
        }
    }
    kbt_world_close(&w);
}

START_TEST(a_drawn_posterior_is_the_dense_one_over_its_dictionary)
{
    check_dense("bkb", false);
    check_dense("bbkb", false);
}
END_TEST

START_TEST(so_it_is_over_a_large_graph)
{
    check_dense("bkb", true);
}
END_TEST

/* The shared user kernel gives the bits of one that is made anew, and stays when its first owner goes. */
static void check_sharing(bool is_large)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bkb", 0, 2), rows = spec_of("laplaced-kors", 0, 2);
    struct kb_posterior *shared = NULL;
    struct kb_atom *atoms;
    spec.user_kernel = rows.user_kernel;
    if (is_large)
        kbt_world_open_large(&w, &spec, N_USERS, N_ARMS, 7);
    else
        kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 7);
    kbt_world_run(&w, 30, 8);
    size_t n = draw(&w, 9, &atoms, &shared);
    ck_assert_int_eq(kb_posterior_fill(shared, &w.history, w.node_of, atoms, n, &w.scratch), KB_OK);
    struct kb_posterior *own = kbt_world_fill(&w, atoms, n);
    kb_posterior_free(w.posterior);
    w.posterior = shared;
    ck_assert_uint_eq(kb_posterior_digest(shared, 1), kb_posterior_digest(own, 1));
    for (size_t q = 0; q < N_QUERIES; q++) {
        double a[2], b[2];
        struct kbt_observation o = kbt_world_draw(&w, 4242, q);
        kbt_predict(shared, &w.scratch, &w, &o, &a[0], &a[1]);
        kbt_predict(own, &w.scratch, &w, &o, &b[0], &b[1]);
        ck_assert_mem_eq(a, b, sizeof a);
    }
    kb_posterior_free(own);
    kb_free(atoms);
    kbt_world_close(&w);
}

START_TEST(a_shared_user_kernel_gives_the_bits_of_its_own)
{
    check_sharing(false);
    check_sharing(true);
}
END_TEST

/* --- when it is due --------------------------------------------------------------------------------------- */

/* Walks 80 rewards of a world and draws whenever the oracle's own sum says so; returns how often it did. */
static size_t check_schedule(const char *preset, double limit)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(preset, 2, 2);
    double sum = 0, mean, variance;
    size_t n_due = 0;
    spec.repr.lambda = 0.3;
    spec.repr.batch_ratio = 3;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 11);
    for (uint64_t i = 0; i < 80; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 12, i), atoms[80];
        size_t m = kbt_support(w.posterior, atoms);
        kbt_dense_nystrom(&w, atoms, m, &o, 1, &mean, &variance);
        sum += variance / spec.repr.lambda;
        kbt_world_learn(&w, &o);
        if (i % 7 == 0)
            kbt_world_correct(&w, &o, 0); /* tells nothing of variances */
        ck_assert_msg(kbt_close(kb_posterior_accumulated(w.posterior), sum, 1e-9),
                      "%s: %.17g after reward %d, not %.17g", preset, kb_posterior_accumulated(w.posterior), (int)i,
                      sum);
        ck_assert_int_eq(kb_posterior_is_outdated(w.posterior), 1 + sum > limit);
        if (1 + sum <= limit)
            continue;
        kbt_world_resample(&w, i);
        ck_assert(!kb_posterior_is_outdated(w.posterior));
        ck_assert_double_eq(kb_posterior_accumulated(w.posterior), 0);
        sum = 0;
        n_due++;
    }
    kbt_world_close(&w);
    return n_due;
}

START_TEST(bkb_draws_after_every_reward)
{
    ck_assert_uint_eq(check_schedule("bkb", 1), 80);
}
END_TEST

START_TEST(bbkb_draws_when_the_sum_of_variances_passes_its_ratio)
{
    size_t n_due = check_schedule("bbkb", 3);
    ck_assert_uint_ge(n_due, 5);
    ck_assert_uint_le(n_due, 60);
}
END_TEST

/* The sum's bytes are found in the snapshot by their value, which stands there once. */
/* The sum has variances as updated within the batch, so that it bounds the ratio by e^(C - 1) where one of variances at
 * the batch's start would bound it by C: sd^2 at the start <= e^sum sd^2 now, at every point. */
START_TEST(within_a_batch_variances_fall_by_no_more_than_e_to_the_sum)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of("bbkb", 2, 2);
    double start[N_USERS], most = 0, sum_at_start = 0, mean, variance;
    spec.repr.lambda = 0.3;
    spec.repr.batch_ratio = 1e9;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 11);
    kbt_world_run(&w, 20, 12);
    kbt_world_resample(&w, 1);
    struct kbt_observation at_start[80], query[N_USERS];
    size_t n_then = w.n_seen, m = kbt_support(w.posterior, at_start);
    for (uint64_t q = 0; q < N_USERS; q++) {
        query[q] = kbt_world_draw(&w, 14, q);
        kbt_dense_nystrom(&w, at_start, m, &query[q], 1, &mean, &start[q]);
    }
    for (uint64_t i = 0; i < 30; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 13, i);
        size_t now = w.n_seen;
        w.n_seen = n_then;
        kbt_dense_nystrom(&w, at_start, m, &o, 1, &mean, &variance);
        w.n_seen = now;
        sum_at_start += variance / spec.repr.lambda;
        kbt_world_learn(&w, &o);
        const double sum = kb_posterior_accumulated(w.posterior);
        ck_assert_double_le(sum, sum_at_start * (1 + 1e-9));
        for (size_t q = 0; q < N_USERS; q++) {
            kbt_dense_nystrom(&w, at_start, m, &query[q], 1, &mean, &variance);
            ck_assert_double_le(start[q], exp(sum) * variance * (1 + 1e-9));
            most = fmax(most, start[q] / variance);
        }
    }
    ck_assert_double_gt(most, 1.5); /* they do fall */
    ck_assert_double_lt(kb_posterior_accumulated(w.posterior), 0.95 * sum_at_start);
    kbt_world_close(&w);
}
END_TEST

START_TEST(snapshots_keep_the_sum_and_refuse_one_that_cannot_be)
{
    static const double bad[] = {-1, (double)NAN, (double)INFINITY};
    struct kbt_world w;
    struct kb_spec spec = spec_of("bbkb", 0, 2);
    struct kb_writer out;
    struct kb_reader in;
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 5);
    kbt_world_run(&w, 9, 6);
    const double sum = kb_posterior_accumulated(w.posterior);
    kb_writer_init(&out);
    kb_posterior_save(w.posterior, &out);
    ck_assert_int_eq(out.rc, KB_OK);
    unsigned char *at = memmem(out.data, out.n, &sum, sizeof sum);
    ck_assert(sum > 1 && at != NULL);
    for (size_t i = 0; i < 4; i++) {
        struct kb_posterior *copy = NULL;
        ck_assert_int_eq(kb_posterior_new_like(&copy, &spec, w.posterior), KB_OK);
        memcpy(at, i > 0 ? &bad[i - 1] : &sum, sizeof sum);
        kb_reader_init(&in, out.data, out.n);
        ck_assert_int_eq(kb_posterior_load(copy, &in, &w.scratch), i > 0 ? KB_ECORRUPT : KB_OK);
        if (i == 0)
            ck_assert_double_eq(kb_posterior_accumulated(copy), sum);
        kb_posterior_free(copy);
    }
    kb_writer_close(&out);
    kbt_world_close(&w);
}
END_TEST

/* --- BKB's Fig. 1 ------------------------------------------------------------------------------------------ */

/* lambda k_Z^T (K_Zt K_tZ + lambda K_ZZ)^-1 k_Z: the variance of the subset of regressors, which lacks the residual. */
static double subset_of_regressors(const struct kbt_world *w, const struct kbt_observation *z, size_t m,
                                   const struct kbt_observation *s)
{
    double *phi = kbt_array(m * m), *column = kbt_array(m), *solved = kbt_array(m), value = 0;
    for (size_t i = 0; i < m; i++) {
        column[i] = kbt_world_kernel(w, &z[i], s);
        for (size_t j = 0; j < m; j++) {
            phi[i * m + j] = w->spec.repr.lambda * kbt_world_kernel(w, &z[i], &z[j]);
            for (size_t t = 0; t < w->n_seen; t++)
                phi[i * m + j] += kbt_world_kernel(w, &z[i], &w->seen[t]) * kbt_world_kernel(w, &z[j], &w->seen[t]);
        }
    }
    kbt_solve(m, phi, column, solved);
    for (size_t i = 0; i < m; i++)
        value += w->spec.repr.lambda * column[i] * solved[i];
    free(phi);
    free(column);
    free(solved);
    return value;
}

/* Rewards at uniform points of [0, 0.5], k = exp(-50 r^2), lambda 0.01; variances over [0, 1] after t of them. */
static void check_starvation(struct kbt_world *w, double q)
{
    struct kbt_observation grid[N_QUERIES + 1], atoms[215];
    double mean[N_QUERIES + 1], exact[N_QUERIES + 1], got, sd;
    for (size_t i = 0; i <= N_QUERIES; i++)
        grid[i] = (struct kbt_observation){.x = {i < N_QUERIES ? (double)i / (N_QUERIES - 1) : 0.75}};
    kbt_dense_gp(w, grid, N_QUERIES + 1, mean, exact);
    for (size_t i = 0; i <= N_QUERIES; i++) {
        kbt_predict(w->posterior, &w->scratch, w, &grid[i], &got, &sd);
        ck_assert_msg(sd * sd >= exact[i] / 3 && sd * sd <= 3 * exact[i], "q %g, t %zu, x %g: %g against %g", q,
                      w->n_seen, grid[i].x[0], sd * sd, exact[i]);
    }
    size_t m = kbt_support(w->posterior, atoms);
    ck_assert_double_ge(sd * sd, 0.97); /* at 0.75, where nothing was seen; the prior is 1 */
    double starved = subset_of_regressors(w, atoms, m, &grid[N_QUERIES]);
    ck_assert_double_le(starved, 0.25);
}

START_TEST(variances_do_not_starve_where_nothing_was_seen)
{
    static const double q[] = {2, 5};
    struct kb_spec spec = spec_of("bkb", 0, 1);
    struct kbt_world w;
    spec.arm_kernel.lengthscale = 0.1;
    spec.repr.lambda = 0.01;
    spec.repr.q = q[_i];
    kbt_world_open(&w, &spec, N_USERS, N_ARMS, true, 21);
    for (uint64_t i = 0; i < 215; i++) {
        struct kbt_observation o = {.x = {0.5 * kb_rng_uniform(22, KB_STREAM_SIMULATION, i)}, .reward = 1};
        kbt_world_learn(&w, &o);
        kbt_world_resample(&w, kb_rng_bits(23, KB_STREAM_DICTIONARY, i));
        if (i == 5 || i == 62 || i == 214)
            check_starvation(&w, q[_i]);
    }
    kbt_world_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "resampling", 60, {rows_enter_as_often_as_their_variance_says, 1}, {an_empty_draw_keeps_the_likeliest_row, 1},
        {rows_that_add_no_direction_are_left_out, 1}, {a_dictionary_does_not_pass_its_limit, 1},
        {nothing_is_admitted_between_draws, 1}, {a_drawn_posterior_is_the_dense_one_over_its_dictionary, 1},
        {so_it_is_over_a_large_graph, 1}, {a_shared_user_kernel_gives_the_bits_of_its_own, 1},
        {bkb_draws_after_every_reward, 1}, {bbkb_draws_when_the_sum_of_variances_passes_its_ratio, 1},
        {within_a_batch_variances_fall_by_no_more_than_e_to_the_sum, 1},
        {snapshots_keep_the_sum_and_refuse_one_that_cannot_be, 1}, {variances_do_not_starve_where_nothing_was_seen, 2});
}
