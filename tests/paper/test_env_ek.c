/* EK's environments against rounds recorded from numpy (env_ek.py), against the figures known of trivial policies, and
 * against what the authors' own programs get on them: with the right stream of numbers, exact K-UCB and KORS at
 * gamma >= lambda must give the authors' regrets to the last printed digit. */
#include <math.h>

#include "paper/env_ek.h"
#include "env_ek_values.h"
#include "kbt.h"
#include "paper/learner.h"
#include "model/engine_read.h"
#include "posterior/posterior.h"

#define N_ENVS 3
#define N_SEEDS 3
#define LAMBDA 10.0
enum { BUMP, CHESS, STEP };

static const struct pb_setting settings[N_ENVS] = {
    {.name = "bump", .open = pb_ek_open, .value = {PB_EK_BUMP}},
    {.name = "chessboard", .open = pb_ek_open, .value = {PB_EK_CHESSBOARD}},
    {.name = "step", .open = pb_ek_open, .value = {PB_EK_STEP}}};
static const double anchors[] = {0.08, 0.70, 0.82, 0.28, 0.63, 0.00, 0.05, 0.50, 0.81, 0.04};

static struct pb_env *open_env(size_t which, uint64_t seed)
{
    struct pb_env *env = NULL;
    ck_assert_int_eq(settings[which].open(&settings[which], seed, 2002, &env), KB_OK);
    return env;
}

/* --- what is shown and paid ------------------------------------------------------------------------------------ */

START_TEST(the_ten_anchors_are_shown_after_a_first_round_with_one)
{
    for (size_t which = 0; which < N_ENVS; which++) {
        struct pb_env *env = open_env(which, 1);
        struct pb_round r;
        env->ops->round(env, 0, &r);
        ck_assert_uint_eq(r.n_arms, 1);
        ck_assert_double_eq_tol(r.features[0][0], 0.82, 1e-12);
        ck_assert(r.best == r.mean[0]);
        env->ops->round(env, 1, &r);
        ck_assert_uint_eq(r.n_arms, 10);
        for (size_t i = 0; i < 10; i++)
            ck_assert_double_eq_tol(r.features[i][0], anchors[i], 1e-12);
        ck_assert_uint_eq(env->context_dim, which == BUMP ? 5 : 1);
        env->ops->close(env);
    }
}
END_TEST

static void compare_round(struct pb_env *env, const struct pb_round *r, const double *want)
{
    size_t first = r->n_arms == 1 ? 2 : 0;
    double best = 0;
    ck_assert(r->context[0] == want[0]);
    for (size_t i = 0; i < r->n_arms; i++) {
        ck_assert_double_eq_tol(r->mean[i], want[1 + first + i], 1e-14);
        ck_assert_double_eq_tol(env->ops->reward(env, i), want[1 + first + i] + want[11], 1e-14);
        best = fmax(best, want[1 + first + i]);
    }
    ck_assert_double_eq_tol(r->best, best, 1e-14);
    ck_assert_double_eq_tol(pb_ek_best_reward(env), want[12], 1e-14);
}

START_TEST(rounds_are_those_that_numpy_draws)
{
    static const uint64_t seeds[] = {0, 2};
    for (size_t which = 0; which < N_ENVS; which++) {
        for (size_t s = 0; s < 2; s++) {
            struct pb_env *env = open_env(which, seeds[s]);
            struct pb_round r;
            for (size_t t = 0, k = 0; k < N_AT; t++) {
                env->ops->round(env, t, &r);
                if (t == at[k])
                    compare_round(env, &r, recorded[which][s][k++]);
            }
            env->ops->close(env);
        }
    }
}
END_TEST

/* a*, x*, w* by their printed digits, which are not read from the code. */
START_TEST(bump_has_the_printed_peak_and_slope)
{
    static const double peak[] = {.1085423, .51165472, .9097694, .21837601, .36310407};
    static const double slope[] = {.70994563, .4227836, -.21411118, -.53739704, -.23965057};
    struct pb_env *env = open_env(BUMP, 0);
    struct pb_round r;
    size_t n_positive = 0;
    for (size_t t = 0; t < 50; t++) {
        env->ops->round(env, t, &r);
        for (size_t i = 0; i < r.n_arms; i++) {
            double want = 1 - fabs(r.features[i][0] - 0.81);
            for (size_t k = 0; k < 5; k++)
                want -= slope[k] * (r.context[k] - peak[k]);
            n_positive += want > 0;
            ck_assert_double_eq_tol(r.mean[i], fmax(0, want), 1e-7);
        }
    }
    ck_assert_uint_gt(n_positive, 50);
    env->ops->close(env);
}
END_TEST

START_TEST(seeds_that_numpy_refuses_are_refused)
{
    struct pb_env *env = NULL;
    ck_assert_int_eq(pb_ek_open(&settings[STEP], UINT64_C(1) << 32, 10, &env), KB_EINVAL);
    ck_assert(env == NULL);
}
END_TEST

/* --- trivial policies --------------------------------------------------------------------------------------------- */

/* Mean over the seeds of the regret at T = 1,000 of uniform choice (in expectation) and of every fixed arm. */
static void trivial_regrets(size_t which, double *uniform, double fixed[10])
{
    *uniform = 0;
    for (size_t i = 0; i < 10; i++)
        fixed[i] = 0;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        struct pb_env *env = open_env(which, seed);
        struct pb_round r;
        env->ops->round(env, 0, &r);
        for (size_t t = 1; t <= 1001; t++) {
            env->ops->round(env, t, &r);
            for (size_t i = 0; i < 10; i++) {
                *uniform += (r.best - r.mean[i]) / (10.0 * N_SEEDS);
                fixed[i] += (r.best - r.mean[i]) / N_SEEDS;
            }
        }
        env->ops->close(env);
    }
}

START_TEST(random_and_fixed_arms_have_their_known_regrets)
{
    static const double random_regret[] = {380, 446, 715}, best_regret[] = {0, 251, 657}, noise[] = {1e-9, 15, 15};
    static const size_t best_arm[] = {8, 1}; /* .81, .70 */
    for (size_t which = 0; which < N_ENVS; which++) {
        double uniform, fixed[10];
        size_t best = 0;
        trivial_regrets(which, &uniform, fixed);
        for (size_t i = 1; i < 10; i++)
            best = fixed[i] < fixed[best] ? i : best;
        ck_assert_double_eq_tol(uniform, random_regret[which], 15);
        ck_assert_double_eq_tol(fixed[best], best_regret[which], noise[which]);
        if (which != STEP)
            ck_assert_uint_eq(best, best_arm[which]);
    }
}
END_TEST

/* --- the authors' regrets ----------------------------------------------------------------------------------------- */

/* The joint kernel exp(-|s - s'|^2 / 2 l^2) is the product of the two; EK's width .1 is on sigma = sd / sqrt(lambda).
 */
static void tune(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value)
{
    (void)rounds, (void)value;
    spec->context_kernel.lengthscale = spec->arm_kernel.lengthscale = env->lengthscale;
    spec->repr.lambda = spec->repr.mu = spec->repr.gamma = LAMBDA;
    spec->conf.beta = 0.1 / sqrt(LAMBDA);
}

static const struct pb_algorithm exact = {.name = "k-ucb", .preset = "k-ucb", .tune = tune};
static const struct pb_algorithm kors = {.name = "ek-ucb", .preset = "ek-ucb", .tune = tune};

/* One algorithm on one stream of rounds, with the regret of the paper's script beside ours. */
struct player {
    struct pb_env *env;
    struct pb_learner *learner;
    double regret, reported;
};

static void open_player(struct player *p, size_t which, uint64_t seed, const struct pb_algorithm *algorithm)
{
    *p = (struct player){.env = open_env(which, seed)};
    ck_assert_int_eq(pb_learner_new(&p->learner, algorithm, p->env, seed, 2002), KB_OK);
}

static void close_player(struct player *p)
{
    pb_learner_free(p->learner);
    p->env->ops->close(p->env);
}

static size_t play_round(struct player *p, size_t t)
{
    struct pb_round r;
    size_t chosen;
    p->env->ops->round(p->env, t, &r);
    ck_assert_int_eq(pb_learner_decide(p->learner, &r, &chosen), KB_OK);
    double reward = p->env->ops->reward(p->env, chosen);
    ck_assert_int_eq(pb_learner_learn(p->learner, &r, chosen, reward), KB_OK);
    p->regret += r.best - r.mean[chosen];
    p->reported += t > 0 ? pb_ek_best_reward(p->env) - reward : 0;
    return chosen;
}

/* T = 1,000: rounds 0 .. 1,001. Regrets are printed with one digit. */
START_TEST(exact_k_ucb_gets_the_authors_regrets_on_every_environment)
{
    static const double regret[N_ENVS][N_SEEDS] = {{36.8, 30.9, 15.8}, {52.0, 58.0, 61.0}, {444.5, 282.5, 369.0}};
    static const double reported[N_ENVS][N_SEEDS] = {{35.7, 29.5, 13.1}, {307.4, 314.4, 312.2}, {483.9, 318.9, 407.7}};
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        struct player p;
        open_player(&p, (size_t)_i, seed, &exact);
        for (size_t t = 0; t < 1002; t++)
            play_round(&p, t);
        ck_assert_double_eq_tol(p.regret, regret[_i][seed], 0.0501);
        ck_assert_double_eq_tol(p.reported, reported[_i][seed], 0.0501);
        close_player(&p);
    }
}
END_TEST

/* A number that changes with any action: the base is above the number of arms. */
static uint64_t add_action(uint64_t hash, size_t chosen)
{
    return hash * 1099511628211u + chosen + 1;
}

/* T = 2,000. To 1,000 the actions are compared with those of exact K-UCB played here, which costs t^2 a round; beyond,
 * by a hash recorded from one such run to the end (on every machine the same, or regrets could not be the authors'). */
START_TEST(kors_at_gamma_lambda_takes_every_action_of_exact_k_ucb_with_at_most_a_hundred_points)
{
    static const double regret[N_ENVS][N_SEEDS] = {{0}, {81.5, 85.5, 82.5}, {773.5, 543.5, 640.5}};
    static const uint64_t actions[N_ENVS][N_SEEDS] = {{0},
                                                      {0x53fd6680e63c713cu, 0x4b3b891f7111e4cbu, 0xd26ae637bc9168e2u},
                                                      {0x0c5b317f5e26626eu, 0x8685efa6b8cd4fc7u, 0x421acbf5fa5af2c5u}};
    size_t which = _i / N_SEEDS == 0 ? CHESS : STEP;
    uint64_t seed = (uint64_t)_i % N_SEEDS, hash = 0;
    struct player a, b;
    open_player(&a, which, seed, &exact);
    open_player(&b, which, seed, &kors);
    for (size_t t = 0; t < 2002; t++) {
        size_t chosen = play_round(&b, t);
        hash = add_action(hash, chosen);
        if (t < 1002)
            ck_assert_uint_eq(play_round(&a, t), chosen);
    }
    ck_assert_uint_eq(hash, actions[which][seed]);
    ck_assert_double_eq_tol(b.regret, regret[which][seed], 1e-9);
    ck_assert_uint_le(kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(b.learner))), 100);
    close_player(&a);
    close_player(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("env_ek");
    TCase *rounds = tcase_create("rounds"), *runs = tcase_create("runs");
    tcase_add_test(rounds, the_ten_anchors_are_shown_after_a_first_round_with_one);
    tcase_add_test(rounds, rounds_are_those_that_numpy_draws);
    tcase_add_test(rounds, bump_has_the_printed_peak_and_slope);
    tcase_add_test(rounds, seeds_that_numpy_refuses_are_refused);
    tcase_add_test(rounds, random_and_fixed_arms_have_their_known_regrets);
    tcase_set_timeout(runs, 120);
    tcase_add_loop_test(runs, exact_k_ucb_gets_the_authors_regrets_on_every_environment, 0, N_ENVS);
    tcase_add_loop_test(runs, kors_at_gamma_lambda_takes_every_action_of_exact_k_ucb_with_at_most_a_hundred_points, 0,
                        2 * N_SEEDS);
    suite_add_tcase(suite, rounds);
    suite_add_tcase(suite, runs);
    return kbt_run_suite(suite);
}
