/* The exact posterior that is split by arm, beyond what tests/property/ proves of every row: each mix of its components
 * against the dense solve, the prior mean, where users are told apart, an arm's limit, arms never learned at, room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt_world.h"
#include "posterior/learning.h"

#define N_QUERIES 40u
#define N_MIXES 16u

/* Components as the bits of `mix`: arm, user, context, linear; the last one, so that some variance is there, always. */
static struct kb_spec spec_of(unsigned mix)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-arm", 2, 0), KB_OK);
    spec.prior = (struct kb_prior_spec){.mean = 0.7,
                                        .arm = mix & 1 ? 0.4 : 0,
                                        .user = mix & 2 ? 0.9 : 0,
                                        .context = mix & 4 ? 1.3 : 0,
                                        .linear = mix & 8 ? 0.6 : 0};
    spec.repr.lambda = 0.3;
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    return spec;
}

static void expect_dense(struct kbt_world *w, double tolerance)
{
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES], m, sd;
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 99, q);
    kbt_dense_gp(w, query, N_QUERIES, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        kbt_predict(w->posterior, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], tolerance), "mean %.17g, expected %.17g", m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], tolerance), "variance %.17g, expected %.17g", sd * sd,
                      variance[q]);
    }
}

START_TEST(every_mix_of_components_equals_the_dense_solve)
{
    static const bool normalized[] = {false, true};
    for (unsigned mix = 1; mix < N_MIXES; mix++)
        for (size_t i = 0; i < 2; i++) {
            struct kbt_world w;
            struct kb_posterior_facts facts;
            struct kb_spec spec = spec_of(mix);
            spec.user_kernel.is_normalized = normalized[i];
            kbt_world_open(&w, &spec, 9, 5, true, 3 + mix);
            kbt_world_run(&w, 120, 4 + mix);
            expect_dense(&w, 1e-10);
            ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
            ck_assert(kbt_close(facts.information_gain, kbt_dense_information_gain(&w), 1e-9));
            ck_assert(kbt_close(facts.effective_dimension, kbt_dense_effective_dimension(&w), 1e-9));
            ck_assert(kbt_close(kb_posterior_log_det(w.posterior), 2 * kbt_dense_information_gain(&w), 1e-9));
            ck_assert_uint_eq(facts.n_clamped, 0);
            struct kb_posterior *filled = kbt_world_fill(&w, NULL, 0), *learned = w.posterior;
            w.posterior = filled;
            expect_dense(&w, 1e-10);
            kb_posterior_free(learned);
            kbt_world_close(&w);
        }
}
END_TEST

/* Points of an arm that the kernel cannot tell apart are one with a count. */
START_TEST(without_components_for_them_users_and_contexts_are_one_point)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(1);
    kbt_world_open(&w, &spec, 9, 5, true, 3);
    kbt_world_run(&w, 500, 4);
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 5);
    for (uint32_t arm = 0; arm < 5; arm++) {
        double n = 0, sum = 0, mean, sd;
        struct kbt_observation o = {.arm = arm};
        for (size_t i = 0; i < w.n_seen; i++) {
            n += w.seen[i].arm == arm;
            sum += w.seen[i].arm == arm ? w.seen[i].reward - 0.7 : 0;
        }
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        ck_assert(kbt_close(mean, 0.7 + 0.4 * sum / (0.4 * n + 0.3), 1e-12));
        ck_assert(kbt_close(sd * sd, 0.4 * 0.3 / (0.4 * n + 0.3), 1e-12));
    }
    kbt_world_close(&w);
}
END_TEST

/* As in A/B tests before a graph is there: thousands of users are no thousands of points. */
START_TEST(a_kernel_over_a_graph_that_is_not_there_tells_no_users_apart)
{
    struct kb_posterior *p = NULL;
    struct kb_scratch s;
    struct kb_spec spec = spec_of(3);
    kb_scratch_init(&s);
    ck_assert_int_eq(kb_posterior_new(&p, &spec, NULL, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &s, 0), KB_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        const double x[2] = {0};
        const struct kb_point pt = {.user = {.index = i, .node = KB_ID_NONE}, .arm = i % 3, .x = x};
        ck_assert_int_eq(kb_posterior_stage_learn(p, &pt, &s), KB_OK);
        ck_assert_int_eq(kbt_grow(p, &s), KB_OK);
        kb_posterior_learn(p, &pt, 1, 0.5, 0.25, &s);
    }
    ck_assert_uint_eq(kb_posterior_n_support(p), 3);
    kb_posterior_free(p);
    kb_scratch_close(&s);
}
END_TEST

/* The first `exact_limit` points of an arm are held, and what is observed there; the posterior is theirs. */
START_TEST(an_arm_at_its_limit_goes_on_learning_at_the_points_that_it_has)
{
    for (unsigned mix = 2; mix < N_MIXES; mix += 4) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(mix | 1);
        spec.repr.exact_limit = 7;
        kbt_world_open(&w, &spec, 9, 3, true, 5);
        kbt_world_run(&w, 300, 6);
        struct kbt_observation *held = calloc(w.n_seen, sizeof *held), point[3][7] = {{{0}}};
        size_t n_held = 0, n_of[3] = {0};
        for (size_t i = 0; i < w.n_seen; i++) {
            const struct kbt_observation *o = &w.seen[i];
            size_t k = 0;
            while (k < n_of[o->arm] && (point[o->arm][k].user != o->user ||
                                        (mix >= 4 && memcmp(point[o->arm][k].x, o->x, 2 * sizeof(double)) != 0)))
                k++;
            if (k == 7)
                continue;
            if (k == n_of[o->arm])
                point[o->arm][n_of[o->arm]++] = *o;
            held[n_held++] = *o;
        }
        ck_assert(mix < 4 || n_held < w.n_seen);
        ck_assert_uint_le(kb_posterior_n_support(w.posterior), 21);
        memcpy(w.seen, held, n_held * sizeof *held);
        w.n_seen = n_held;
        expect_dense(&w, 1e-10);
        struct kb_posterior *filled = kbt_world_fill(&w, NULL, 0), *learned = w.posterior;
        ck_assert_uint_eq(kb_posterior_n_support(filled), kb_posterior_n_support(learned));
        w.posterior = filled;
        expect_dense(&w, 1e-10);
        kb_posterior_free(learned);
        kbt_world_close(&w);
        free(held);
    }
}
END_TEST

/* Under forgetting: what an arm holds fades, so what it has no room for must find it one day. */
START_TEST(an_arm_at_its_limit_is_filled_with_the_points_of_which_most_is_left)
{
    struct kbt_world w;
    struct kb_posterior *p = NULL;
    struct kb_spec spec = spec_of(2);
    double mean, sd;
    spec.user_kernel.type = KB_USER_IDENTITY;
    spec.repr.exact_limit = 4;
    kbt_world_open(&w, &spec, 9, 1, true, 5);
    for (uint32_t user = 0; user < 9; user++) { /* each learned a halving after the one before */
        const double x[2] = {0};
        ck_assert_int_eq(kb_history_reserve(&w.history, 1), KB_OK);
        kb_history_add_then(&w.history, user, 0, 0, x, 1, 1.7, user, user + 1);
    }
    w.history.unit = 8;
    p = kbt_world_fill(&w, NULL, 0);
    ck_assert_uint_eq(kb_posterior_n_support(p), 4);
    for (uint32_t user = 0; user < 9; user++) {
        const struct kbt_observation o = {.user = user};
        const double n = exp2((double)user - 8);
        kbt_predict(p, &w.scratch, &w, &o, &mean, &sd);
        ck_assert(kbt_close(mean, user < 5 ? 0.7 : 0.7 + 0.9 * n / (0.9 * n + 0.3), 1e-12));
    }
    ck_assert(!kb_posterior_is_outdated(p));
    for (size_t i = 0; i < 2; i++) { /* at a user that there is no room for */
        const double x[2] = {0};
        const struct kb_point pt = {.user = {.index = 1, .node = w.node_of[1]}, .arm = 0, .x = x};
        ck_assert_int_eq(kb_posterior_stage_learn(p, &pt, &w.scratch), KB_OK);
        ck_assert_int_eq(kbt_grow(p, &w.scratch), KB_OK);
        kb_posterior_learn(p, &pt, 1, 1, 1, &w.scratch);
        ck_assert(kb_posterior_is_outdated(p) == (i == 1));
    }
    kb_posterior_free(p);
    kbt_world_close(&w);
}
END_TEST

/* Few points ask for their users' values one by one, many for a row that is made once: the same bits. */
START_TEST(a_candidate_alone_has_the_bits_that_it_has_among_others)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(15);
    kbt_world_open(&w, &spec, 30, 20, true, 3);
    kbt_world_run(&w, 30, 4);
    const double *features[20] = {NULL};
    uint32_t arms[20];
    double mean[20], sd[20];
    for (uint32_t a = 0; a < 20; a++)
        arms[a] = a;
    ck_assert_int_eq(kb_posterior_fit_scratch(w.posterior, &w.scratch, 0), KB_OK);
    for (size_t i = 0; i < w.n_seen; i++) {
        struct kb_candidates cand = {.user = kbt_point(&w, &w.seen[i]).user,
                                     .context = w.seen[i].x,
                                     .n = 20,
                                     .arms = arms,
                                     .features = features};
        kb_posterior_predict(w.posterior, &cand, &w.scratch, mean, sd);
        cand.n = 1;
        for (uint32_t a = 0; a < 20; a++) {
            double one[2];
            cand.arms = arms + a;
            kb_posterior_predict(w.posterior, &cand, &w.scratch, &one[0], &one[1]);
            ck_assert(one[0] == mean[a] && one[1] == sd[a]);
        }
    }
    kbt_world_close(&w);
}
END_TEST

/* Bit for bit, so that they are ties to a rule. */
START_TEST(arms_never_learned_at_are_all_the_same)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(15);
    uint32_t arms[100];
    double mean[100], sd[100];
    const double *features[100] = {NULL};
    kbt_world_open(&w, &spec, 9, 5, true, 3);
    kbt_world_run(&w, 60, 4);
    for (uint32_t i = 0; i < 100; i++)
        arms[i] = i % 2 == 0 ? KB_ID_NONE : 1000 + i;
    const struct kb_candidates cand = {
        .user = kbt_point(&w, &w.seen[0]).user, .context = w.seen[0].x, .n = 100, .arms = arms, .features = features};
    ck_assert_int_eq(kb_posterior_fit_scratch(w.posterior, &w.scratch, 0), KB_OK);
    kb_posterior_predict(w.posterior, &cand, &w.scratch, mean, sd);
    for (size_t i = 0; i < 100; i++)
        ck_assert(mean[i] == 0.7 && sd[i] == sd[0]);
    ck_assert(kbt_close(sd[0] * sd[0], kbt_world_kernel(&w, &w.seen[0], &w.seen[0]), 1e-12));
    kbt_world_close(&w);
}
END_TEST

/* What a request is charged by: the same of a model that learned one by one and of one that was filled. */
START_TEST(the_width_is_the_root_of_the_mean_square_of_arms)
{
    struct kbt_world w;
    const struct kb_spec spec = spec_of(15);
    double n_of[5] = {0}, squares = 0;
    kbt_world_open(&w, &spec, 9, 5, true, 3);
    ck_assert_double_eq(kb_posterior_width(w.posterior), 0);
    kbt_world_run(&w, 60, 4);
    for (size_t i = 0; i < kb_posterior_n_support(w.posterior); i++)
        n_of[kb_posterior_support_point(w.posterior, i).arm]++;
    for (size_t a = 0; a < 5; a++)
        squares += n_of[a] * n_of[a];
    ck_assert_double_gt(squares, 0);
    ck_assert(kbt_close(kb_posterior_width(w.posterior), sqrt(squares / 5), 1e-12));
    struct kb_posterior *filled = kbt_world_fill(&w, NULL, 0);
    ck_assert(kbt_close(kb_posterior_width(filled), sqrt(squares / 5), 1e-12));
    kb_posterior_free(filled);
    kbt_world_close(&w);
}
END_TEST

/* Rewards times a and plus b: means and deviations follow, when the scales of the prior do. */
START_TEST(the_model_has_no_scale_of_its_own)
{
    struct kbt_world w, v;
    struct kb_spec spec = spec_of(15), scaled = spec;
    const double a = 100, b = 5;
    scaled.prior.mean = a * spec.prior.mean + b;
    scaled.prior.arm *= a * a, scaled.prior.user *= a * a, scaled.prior.context *= a * a, scaled.prior.linear *= a * a;
    scaled.repr.lambda *= a * a;
    kbt_world_open(&w, &spec, 9, 5, true, 3);
    kbt_world_open(&v, &scaled, 9, 5, true, 3);
    for (uint64_t i = 0; i < 100; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 4, i);
        kbt_world_learn(&w, &o);
        o.reward = a * o.reward + b;
        kbt_world_learn(&v, &o);
    }
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean[2], sd[2];
        const struct kbt_observation o = kbt_world_draw(&w, 99, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean[0], &sd[0]);
        kbt_predict(v.posterior, &v.scratch, &v, &o, &mean[1], &sd[1]);
        ck_assert(kbt_close(mean[1], a * mean[0] + b, 1e-9) && kbt_close(sd[1], a * sd[0], 1e-9));
    }
    kbt_world_close(&w);
    kbt_world_close(&v);
}
END_TEST

int main(void)
{
    return KBT_RUN("post_by_arm", every_mix_of_components_equals_the_dense_solve,
                   without_components_for_them_users_and_contexts_are_one_point,
                   a_kernel_over_a_graph_that_is_not_there_tells_no_users_apart,
                   an_arm_at_its_limit_goes_on_learning_at_the_points_that_it_has,
                   an_arm_at_its_limit_is_filled_with_the_points_of_which_most_is_left,
                   arms_never_learned_at_are_all_the_same, a_candidate_alone_has_the_bits_that_it_has_among_others,
                   the_width_is_the_root_of_the_mean_square_of_arms, the_model_has_no_scale_of_its_own);
}
