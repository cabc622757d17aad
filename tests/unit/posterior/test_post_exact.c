/* The exact posterior beyond what tests/property/posterior/test_posteriors.c proves of every row: repeats, batches,
 * large graphs, degradation, missing memory. */
#include <math.h>
#include <stdlib.h>

#include "kbt_world.h"
#include "base/rng.h"
#include "posterior/learning.h"

#define N_QUERIES 30u

static struct kb_spec exact_spec(const char *preset, uint32_t context_dim, uint32_t arm_dim, double lambda)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, preset, context_dim, arm_dim), KB_OK);
    spec.repr.type = KB_REPR_EXACT;
    kb_spec_tune(&spec, false);
    spec.repr.lambda = lambda;
    return spec;
}

static void expect_dense(struct kbt_world *w, const struct kb_posterior *p, double tol)
{
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES];
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 999, q);
    kbt_dense_gp(w, query, N_QUERIES, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double m, sd;
        kbt_predict(p, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], tol), "mean %.15g, expected %.15g", m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], tol), "variance %.15g, expected %.15g", sd * sd, variance[q]);
    }
}

START_TEST(an_empty_posterior_is_the_prior)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 1);
    struct kb_posterior_facts facts;
    kbt_world_open(&w, &spec, 6, 4, true, 9);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean, sd;
        struct kbt_observation o = kbt_world_draw(&w, 1, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        ck_assert_double_eq(mean, 0);
        ck_assert(kbt_close(sd * sd, kbt_world_kernel(&w, &o, &o), 1e-12));
    }
    ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
    ck_assert_uint_eq(facts.n_support, 0);
    ck_assert_double_eq(facts.information_gain, 0);
    ck_assert_double_eq(facts.effective_dimension, 0);
    kbt_world_close(&w);
}
END_TEST

/* n repeats of one point: mean k S / (n k + lambda), variance k lambda / (n k + lambda). */
START_TEST(a_thousand_repeats_equal_the_closed_form)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("ucb", 0, 0, 0.7);
    double sum = 0, mean, sd;
    kbt_world_open(&w, &spec, 6, 4, true, 9);
    struct kbt_observation o = {.user = 1, .arm = 2};
    for (uint64_t n = 1; n <= 1000; n++) {
        o.reward = kb_rng_normal(1, KB_STREAM_SIMULATION, n) + 0.4;
        sum += o.reward;
        o.user = (uint32_t)n % 6; /* under `ones` all users are one */
        kbt_world_learn(&w, &o);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        ck_assert(kbt_close(mean, sum / ((double)n + 0.7), 1e-11));
        ck_assert(kbt_close_relative(sd * sd, 0.7 / ((double)n + 0.7), 1e-10));
    }
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 1);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_batch_staged_at_once_equals_one_by_one)
{
    struct kbt_world w, v;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_open(&v, &spec, 9, 6, true, 9);
    for (uint64_t batch = 0; batch < 8; batch++) {
        struct kbt_observation o[20];
        for (uint64_t i = 0; i < 20; i++) {
            o[i] = kbt_world_draw(&w, 3, (20 * batch + i) % 50); /* repeats inside the batch and across */
            struct kb_point pt = kbt_point(&v, &o[i]);
            ck_assert_int_eq(kb_posterior_stage_learn(v.posterior, &pt, &v.scratch), KB_OK);
            kbt_world_learn(&w, &o[i]);
        }
        ck_assert_int_eq(kbt_grow(v.posterior, &v.scratch), KB_OK);
        for (size_t i = 0; i < 20; i++) {
            struct kb_point pt = kbt_point(&v, &o[i]);
            kb_posterior_learn(v.posterior, &pt, 1, o[i].reward, o[i].reward * o[i].reward, &v.scratch);
        }
        ck_assert_uint_eq(kb_posterior_digest(v.posterior, 1), kb_posterior_digest(w.posterior, 1));
    }
    kbt_world_close(&v);
    kbt_world_close(&w);
}
END_TEST

START_TEST(discarded_work_leaves_no_trace)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 30, 4);
    uint64_t digest = kb_posterior_digest(w.posterior, 1);
    for (uint64_t i = 0; i < 200; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 5, i);
        o.x[0] += (double)i; /* never seen */
        struct kb_point pt = kbt_point(&w, &o);
        ck_assert_int_eq(kb_posterior_stage_learn(w.posterior, &pt, &w.scratch), KB_OK);
    }
    ck_assert(kbt_needs_growth(w.posterior, &w.scratch));
    kb_posterior_discard(w.posterior);
    ck_assert(!kbt_needs_growth(w.posterior, &w.scratch));
    ck_assert_uint_eq(kb_posterior_digest(w.posterior, 1), digest);
    kbt_world_run(&w, 30, 6);
    expect_dense(&w, w.posterior, 1e-9);
    kbt_world_close(&w);
}
END_TEST

START_TEST(staging_a_known_point_again_and_again_asks_for_no_room)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 0, 0, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 2000, 4); /* at most 54 distinct points */
    ck_assert_uint_le(kb_posterior_n_support(w.posterior), 54);
    ck_assert_uint_lt(kb_posterior_bytes(w.posterior), 200000);
    ck_assert(!kbt_needs_growth(w.posterior, &w.scratch));
    kbt_world_close(&w);
}
END_TEST

START_TEST(filling_equals_learning_one_by_one)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.1);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 300, 4);
    struct kb_posterior *p = kbt_world_fill(&w, NULL, 0);
    ck_assert_uint_eq(kb_posterior_n_support(p), kb_posterior_n_support(w.posterior));
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean[2], sd[2];
        struct kbt_observation o = kbt_world_draw(&w, 999, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean[0], &sd[0]);
        kbt_predict(p, &w.scratch, &w, &o, &mean[1], &sd[1]);
        ck_assert(kbt_close(mean[0], mean[1], 1e-10));
        ck_assert(kbt_close(sd[0], sd[1], 1e-10));
    }
    kb_posterior_free(p);
    kbt_world_close(&w);
}
END_TEST

START_TEST(graphs_too_large_for_a_dense_inverse_give_the_dense_answer)
{
    for (int i = 0; i < 4; i++) {
        struct kbt_world w;
        struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
        spec.user_kernel.population = i % 2 ? 0.5 : 0;
        spec.user_kernel.is_normalized = i / 2;
        kbt_world_open_large(&w, &spec, 9, 6, 9);
        kbt_world_run(&w, 60, 4);
        expect_dense(&w, w.posterior, 1e-8);
        struct kb_posterior *p = kbt_world_fill(&w, NULL, 0);
        expect_dense(&w, p, 1e-8);
        kb_posterior_free(p);
        kbt_world_close(&w);
    }
}
END_TEST

/* Predictions for more candidates than a block holds equal those for one at a time. */
START_TEST(predictions_do_not_depend_on_the_company)
{
    enum { N_ARMS = 150 };
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
    uint32_t arms[N_ARMS];
    const double *features[N_ARMS];
    double mean[N_ARMS], sd[N_ARMS];
    kbt_world_open(&w, &spec, 9, N_ARMS, true, 9);
    kbt_world_run(&w, 100, 4);
    struct kbt_observation o = kbt_world_draw(&w, 999, 0);
    for (uint32_t a = 0; a < N_ARMS; a++) {
        arms[a] = a;
        features[a] = w.arm_features + 3 * a;
    }
    struct kb_candidates cand = {
        .user = kbt_point(&w, &o).user, .context = o.x, .n = N_ARMS, .arms = arms, .features = features};
    ck_assert_int_eq(kb_posterior_fit_scratch(w.posterior, &w.scratch, 0), KB_OK);
    kb_posterior_predict(w.posterior, &cand, &w.scratch, mean, sd);
    for (uint32_t a = 0; a < N_ARMS; a++) {
        double alone[2];
        o.arm = a;
        for (size_t d = 0; d < 3; d++)
            o.x[2 + d] = features[a][d];
        kbt_predict(w.posterior, &w.scratch, &w, &o, &alone[0], &alone[1]);
        ck_assert(kbt_close(mean[a], alone[0], 1e-12));
        ck_assert(kbt_close(sd[a], alone[1], 1e-12));
    }
    kbt_world_close(&w);
}
END_TEST

/* Finite means of a sane size and variances within the prior, at new points and at those seen. */
static void expect_sane(struct kbt_world *w, const struct kb_posterior *p)
{
    struct kb_posterior_facts facts;
    for (size_t q = 0; q < N_QUERIES + w->n_seen; q++) {
        double mean, sd;
        struct kbt_observation o = q < N_QUERIES ? kbt_world_draw(w, 999, q) : w->seen[q - N_QUERIES];
        double prior = kbt_world_kernel(w, &o, &o);
        kbt_predict(p, &w->scratch, w, &o, &mean, &sd);
        ck_assert(isfinite(mean) && fabs(mean) < 1e6);
        ck_assert(sd >= 0 && sd * sd <= prior * (1 + 1e-6));
        if (q >= N_QUERIES)
            ck_assert_double_lt(sd * sd, 1e-3 * prior);
    }
    ck_assert_int_eq(kb_posterior_facts(p, &facts), KB_OK);
    ck_assert_uint_gt(facts.n_clamped, 0);
}

/* Prior variances of 1e9 beside a noise of 1e-12: rounding is far above the noise, and pivots have to be lifted. */
START_TEST(hopeless_scales_degrade_visibly_and_stay_finite)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 1e-12);
    spec.user_kernel.rho = 1e-9;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    for (uint64_t i = 0; i < 200; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 4, i);
        o.x[0] *= 1e-9;
        o.x[1] *= 1e-9;
        kbt_world_learn(&w, &o);
    }
    expect_sane(&w, w.posterior);
    struct kb_posterior *p = kbt_world_fill(&w, NULL, 0); /* the same when built in one go */
    expect_sane(&w, p);
    kb_posterior_free(p);
    kbt_world_close(&w);
}
END_TEST

/* Two points that the kernel can hardly tell apart: the second pivot is a rounding error, of either sign. */
START_TEST(a_pivot_of_rounding_errors_is_lifted_however_it_comes_out)
{
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 1e-12);
    spec.user_kernel.rho = 1e-3;
    for (uint64_t key = 0; key < 40; key++) {
        struct kbt_world w;
        struct kb_posterior_facts facts;
        kbt_world_open(&w, &spec, 9, 6, true, 9);
        struct kbt_observation o = kbt_world_draw(&w, key, 0);
        kbt_world_learn(&w, &o);
        o.x[0] += 1e-9;
        kbt_world_learn(&w, &o);
        struct kb_posterior *p = kbt_world_fill(&w, NULL, 0);
        ck_assert_int_eq(kb_posterior_facts(p, &facts), KB_OK);
        ck_assert_uint_eq(facts.n_support, 2);
        ck_assert_uint_ge(facts.n_clamped, 1);
        kb_posterior_free(p);
        kbt_world_close(&w);
    }
}
END_TEST

/* --- memory ---------------------------------------------------------------------------------------------- */

static enum kb_err new_posterior(void *arg)
{
    struct kbt_world *w = arg;
    struct kb_posterior *p = NULL;
    struct kb_scratch s;
    enum kb_err rc;
    kb_scratch_init(&s);
    KB_TRY(kb_posterior_new(&p, &w->spec, w->graph, kbt_key));
    KB_TRY(kb_posterior_fit_scratch(p, &s, 1000));
    KB_TRY(kb_posterior_fill(p, &w->history, w->node_of, NULL, 0, &s));
    struct kb_posterior_facts facts;
    KB_TRY(kb_posterior_facts(p, &facts));
out:
    kb_scratch_close(&s);
    kb_posterior_free(p);
    return rc;
}

static void nothing(void *arg)
{
    (void)arg;
}

START_TEST(building_without_memory_fails_cleanly_at_every_step)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 40, 4);
    ck_assert_uint_gt(kbt_brutal(new_posterior, nothing, &w), 10);
    kbt_world_close(&w);
}
END_TEST

START_TEST(staging_and_growing_without_memory_change_nothing)
{
    struct kbt_world w;
    struct kb_spec spec = exact_spec("lk-gp-ucb", 2, 3, 0.3);
    size_t n_failed = 0;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 200, 4);
    for (uint64_t i = 0; i < 300; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 5, i);
        o.x[0] += (double)i;
        struct kb_point pt = kbt_point(&w, &o);
        uint64_t digest = kb_posterior_digest(w.posterior, 1);
        kbt_alloc_watch(1 + i % 3);
        enum kb_err rc = kb_posterior_stage_learn(w.posterior, &pt, &w.scratch);
        if (rc == KB_OK)
            rc = kbt_grow(w.posterior, &w.scratch);
        kbt_alloc_unwatch();
        ck_assert_uint_eq(kb_posterior_digest(w.posterior, 1), digest);
        kb_posterior_discard(w.posterior);
        if (rc != KB_OK) {
            ck_assert_int_eq(rc, KB_ENOMEM);
            n_failed++;
        }
        kbt_world_learn(&w, &o); /* and it goes on */
    }
    ck_assert_uint_gt(n_failed, 0);
    expect_dense(&w, w.posterior, 1e-8);
    kbt_world_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "post_exact", an_empty_posterior_is_the_prior, a_thousand_repeats_equal_the_closed_form,
        a_batch_staged_at_once_equals_one_by_one, discarded_work_leaves_no_trace,
        staging_a_known_point_again_and_again_asks_for_no_room, filling_equals_learning_one_by_one,
        graphs_too_large_for_a_dense_inverse_give_the_dense_answer, predictions_do_not_depend_on_the_company,
        hopeless_scales_degrade_visibly_and_stay_finite, a_pivot_of_rounding_errors_is_lifted_however_it_comes_out,
        building_without_memory_fails_cleanly_at_every_step, staging_and_growing_without_memory_change_nothing);
}
