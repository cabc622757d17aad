/* Coverage: the rules that claim a level keep it, over simulated runs, and would be caught if they did not.
 *
 * A run draws f = sum alpha_i k(., x_i) of norm B in an RBF space, observes it at T points with Gaussian noise and
 * looks, at every tenth reward and for every rule, whether f leaves the bounds anywhere on a set of test points. The
 * rules hold for all time and all points with probability 1 - delta, so a run counts as violated when it happens once.
 */
#include <math.h>

#include "confidence.h"
#include "kbt_world.h"
#include "rng.h"

#define N_RUNS 100u
#define T 60u
#define N_TEST 25u
#define N_CENTRES 8u
#define B 3.0
#define SIGMA 0.2
#define DELTA 0.1

static const enum kb_conf_type rules[] = {KB_CONF_LK,  KB_CONF_EK,  KB_CONF_AY, KB_CONF_IGP,
                                          KB_CONF_AMM, KB_CONF_DMM, KB_CONF_CMM};
#define N_RULES (sizeof rules / sizeof rules[0])

/* A function of norm B, by its centres. */
struct function {
    struct kbt_observation centre[N_CENTRES];
    double alpha[N_CENTRES];
};

static struct kbt_observation point(uint64_t key, uint64_t i)
{
    return (struct kbt_observation){
        .arm = 1,
        .x = {kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * i), kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * i + 1)}};
}

static struct function draw_function(const struct kbt_world *w, uint64_t key)
{
    struct function f;
    double norm_sq = 0;
    for (uint64_t i = 0; i < N_CENTRES; i++) {
        f.centre[i] = point(key, 1000 + i);
        f.alpha[i] = kb_rng_normal(key, KB_STREAM_SIMULATION, 9000 + i);
    }
    for (size_t i = 0; i < N_CENTRES; i++) {
        for (size_t j = 0; j < N_CENTRES; j++)
            norm_sq += f.alpha[i] * f.alpha[j] * kbt_world_kernel(w, &f.centre[i], &f.centre[j]);
    }
    for (size_t i = 0; i < N_CENTRES; i++)
        f.alpha[i] *= B / sqrt(norm_sq);
    return f;
}

static double value(const struct kbt_world *w, const struct function *f, const struct kbt_observation *o)
{
    double sum = 0;
    for (size_t i = 0; i < N_CENTRES; i++)
        sum += f->alpha[i] * kbt_world_kernel(w, &f->centre[i], o);
    return sum;
}

/* Whether f leaves the rule's bounds at a test point now. */
static bool is_outside(struct kbt_world *w, const struct function *f, const struct kb_conf_spec *conf)
{
    double mean[N_TEST], sd[N_TEST], lower[N_TEST], upper[N_TEST], score[N_TEST];
    const double *features[N_TEST];
    struct kbt_observation o[N_TEST];
    uint32_t arms[N_TEST];
    for (size_t i = 0; i < N_TEST; i++) {
        o[i] = point(77, i);
        features[i] = o[i].x;
        arms[i] = 1;
    }
    struct kb_point pt = kbt_point(w, &o[0]);
    const struct kb_candidates cand = {.user = pt.user, .n = N_TEST, .arms = arms, .features = features};
    ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
    kb_posterior_predict(w->posterior, &cand, &w->scratch, mean, sd);
    kb_confidence_bounds(w->posterior, conf, &cand, &w->scratch, mean, sd, lower, upper, score);
    for (size_t i = 0; i < N_TEST; i++) {
        double v = value(w, f, &o[i]);
        if (v < lower[i] || v > upper[i])
            return true;
    }
    return false;
}

/* One run: marks the rules that were violated at some time. They are told the noise `told`. */
static void run(uint64_t key, double told, bool is_violated[N_RULES])
{
    struct kbt_world w;
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "cmm-ucb", 0, 2), KB_OK);
    spec.arm_kernel.lengthscale = 0.4;
    spec.repr.lambda = told * told;
    kbt_world_open(&w, &spec, 3, 3, false, 9);
    struct function f = draw_function(&w, key);
    for (uint64_t t = 0; t < T; t++) {
        struct kbt_observation o = point(key, t % 40); /* a third comes back */
        o.reward = value(&w, &f, &o) + SIGMA * kb_rng_normal(key, KB_STREAM_SIMULATION, 5000 + t);
        kbt_world_learn(&w, &o);
        if (t % 10 != 9)
            continue;
        ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK);
        kb_posterior_publish(w.posterior);
        for (size_t r = 0; r < N_RULES; r++) {
            const struct kb_conf_spec conf = {.type = rules[r], .norm_bound = B, .noise = told, .delta = DELTA};
            is_violated[r] |= is_outside(&w, &f, &conf);
        }
    }
    kbt_world_close(&w);
}

START_TEST(anytime_bounds_are_violated_in_at_most_delta_of_the_runs)
{
    size_t n[N_RULES] = {0};
    double margin = 3 * sqrt(DELTA * (1 - DELTA) * N_RUNS);
    for (uint64_t key = 1; key <= N_RUNS; key++) {
        bool is_violated[N_RULES] = {false};
        run(key, SIGMA, is_violated);
        for (size_t r = 0; r < N_RULES; r++)
            n[r] += is_violated[r];
    }
    for (size_t r = 0; r < N_RULES; r++)
        ck_assert_msg((double)n[r] <= DELTA * N_RUNS + margin, "%s: %zu of %u", kb_conf_name((int)rules[r]), n[r],
                      N_RUNS);
}
END_TEST

/* The simulation can fail: a rule that is told a twentieth of the noise is wrong most of the time. */
START_TEST(bounds_that_are_told_too_little_noise_are_violated_in_most_runs)
{
    size_t n = 0;
    for (uint64_t key = 1; key <= 20; key++) {
        bool is_violated[N_RULES] = {false};
        run(key, SIGMA / 20, is_violated);
        n += is_violated[N_RULES - 3]; /* amm, whose set is never empty */
    }
    ck_assert_uint_gt(n, 10);
}
END_TEST

int main(void)
{
    return KBT_RUN("coverage", anytime_bounds_are_violated_in_at_most_delta_of_the_runs,
                   bounds_that_are_told_too_little_noise_are_violated_in_most_runs);
}
