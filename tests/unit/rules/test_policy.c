/* Decision rules: propensities and draws. */
#include <math.h>

#include "kbt.h"
#include "rules/policy.h"
#include "base/rng.h"

#define N 5u

static const double mean[N] = {0.1, 0.9, 0.5, 0.9, -1}, sd[N] = {0.5, 0.1, 0.3, 0.2, 1};
static const double score[N] = {0.2, 1.5, 0.5, 1.5, 1.4};

static void propensities(const struct kb_rule_spec *rule, double scale, size_t n, double *p)
{
    struct kb_arena arena;
    kb_arena_init(&arena);
    ck_assert_int_eq(kb_arena_fit(&arena, kb_policy_bytes(rule, n)), KB_OK);
    kb_policy_propensities(rule, scale, n, mean, sd, score, p, &arena);
    ck_assert_uint_eq(kb_arena_mark(&arena), 0);
    kb_arena_close(&arena);
}

static void expect_sum_one(const double *p)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += p[i];
    ck_assert_double_eq_tol(sum, 1, 1e-14);
}

START_TEST(ucb_draws_alike_among_the_tied_for_the_best_score)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_UCB};
    double p[N];
    propensities(&rule, 2, N, p);
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq(p[i], i == 1 || i == 3 ? 0.5 : 0);
}
END_TEST

/* Equal but for rounding is tied; what a model tells apart is not. What was added up far from zero is as unsure there.
 */
START_TEST(arms_tie_within_the_rounding_of_their_values)
{
    const double value[4] = {1 - 1e-13, 1, 1 - 1e-9, 0.5}, size[4] = {0};
    double share[4];
    ck_assert_uint_eq(kb_policy_share_best(4, value, size, share), 1);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq(share[i], i < 2 ? 0.5 : 0);
    const double far[4] = {-1e6, -1e6, -1e6, -1e6}, cancelled[4] = {1e-7, 2e-7, 0, -1e-3};
    ck_assert_uint_eq(kb_policy_share_best(4, cancelled, far, share), 1);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq(share[i], i < 3 ? 1.0 / 3 : 0);
    const double huge[4] = {INFINITY, 1, -INFINITY, 1e308};
    ck_assert_uint_eq(kb_policy_share_best(4, huge, size, share), 0);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq(share[i], i == 0);
}
END_TEST

START_TEST(epsilon_spreads_its_share_evenly)
{
    const enum kb_rule_type types[] = {KB_RULE_UCB, KB_RULE_THOMPSON, KB_RULE_UNIFORM, KB_RULE_RAND_UCB,
                                       KB_RULE_IGW, KB_RULE_TOP_TWO,  KB_RULE_SPLIT};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct kb_rule_spec rule = {.type = types[t]};
        double pure[N], mixed[N];
        propensities(&rule, 1, N, pure);
        rule.epsilon = 0.2;
        propensities(&rule, 1, N, mixed);
        for (size_t i = 0; i < N; i++)
            ck_assert_double_eq_tol(mixed[i], 0.8 * pure[i] + 0.04, 1e-15);
        expect_sum_one(mixed);
    }
}
END_TEST

START_TEST(uniform_knows_no_favourites)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_UNIFORM};
    double p[N];
    propensities(&rule, 1, N, p);
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq(p[i], 0.2);
}
END_TEST

/* Scale multiplies the standard deviations: two arms have a closed form at every scale. */
START_TEST(thompson_scales_the_standard_deviations)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_THOMPSON};
    for (double scale = 0.25; scale < 5; scale *= 2) {
        double p[2];
        propensities(&rule, scale, 2, p);
        double z = (mean[0] - mean[1]) / (scale * hypot(sd[0], sd[1]));
        ck_assert_double_eq_tol(p[0], 0.5 * erfc(-z / sqrt(2)), 1e-10);
        ck_assert_double_eq_tol(p[0] + p[1], 1, 1e-15);
    }
}
END_TEST

START_TEST(thompson_without_scale_is_greedy)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_THOMPSON};
    double p[N];
    propensities(&rule, 0, N, p);
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq(p[i], i == 1 || i == 3 ? 0.5 : 0);
}
END_TEST

/* Two lines cross where the gap is made up for by the multiplier. */
START_TEST(rand_ucb_scales_the_standard_deviations)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_RAND_UCB};
    const double beta = kb_policy_scale(&rule, 0.7, 100);
    double p[3];
    ck_assert_double_eq(beta, 0.7);
    propensities(&rule, beta, 2, p);
    ck_assert_double_eq_tol(p[0], erfc((mean[1] - mean[0]) / (beta * (sd[0] - sd[1])) * M_SQRT1_2), 1e-14);
    ck_assert_double_eq_tol(p[0] + p[1], 1, 1e-15);
    propensities(&rule, beta, 3, p); /* the third line passes where the two meet, and is nowhere above both */
    ck_assert_double_eq_tol(p[2], 0, 1e-14);
    propensities(&rule, 0, 3, p);
    ck_assert(p[0] == 0 && p[1] == 1 && p[2] == 0);
}
END_TEST

/* As printed: 1 / (mu + gamma gap) with mu = C, the best arm what is left. */
START_TEST(igw_weighs_by_the_inverse_gap)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_IGW, .scale = 2, .gamma_scale = 10, .gamma_exponent = 0.5};
    const double gamma = kb_policy_scale(&rule, 7, 100);
    double p[N], left = 1;
    ck_assert_double_eq_tol(gamma, 50, 1e-12);
    propensities(&rule, gamma, N, p);
    for (size_t i = 0; i < N; i++)
        if (mean[i] < 0.9) {
            ck_assert_double_eq_tol(p[i], 1 / (N + gamma * (0.9 - mean[i])), 1e-15);
            left -= p[i];
        }
    ck_assert_double_eq_tol(p[1], left / 2, 1e-15);
    ck_assert_double_eq(p[1], p[3]);
    expect_sum_one(p);
}
END_TEST

START_TEST(igw_is_uniform_before_the_first_reward_and_greedy_at_last)
{
    struct kb_rule_spec rule = {.type = KB_RULE_IGW, .scale = 1, .gamma_scale = 10, .gamma_exponent = 0.5};
    double p[N];
    propensities(&rule, kb_policy_scale(&rule, 1, 0), N, p);
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq_tol(p[i], 0.2, 1e-15);
    rule.gamma_scale = 1e12;
    rule.scale = 1e-12;
    propensities(&rule, kb_policy_scale(&rule, 1, 1e15), N, p);
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq_tol(p[i], i == 1 || i == 3 ? 0.5 : 0, 1e-15);
    rule = (struct kb_rule_spec){.type = KB_RULE_IGW, .scale = 4, .gamma_scale = 8};
    ck_assert_double_eq(kb_policy_scale(&rule, 1, 0), 2); /* exponent 0: the same gamma at all times */
    ck_assert_double_eq(kb_policy_scale(&rule, 1, 1e6), 2);
    const double far[2] = {1e155, -1e155};
    struct kb_arena arena;
    kb_arena_init(&arena);
    kb_policy_propensities(&rule, 1e180, 2, far, sd, score, p, &arena);
    ck_assert(p[0] == 1 && p[1] == 0);
}
END_TEST

/* An arm as the definitions say, by one draw: the highest of mean + u sd for u = 1.5 |N(0,1)|. */
static size_t highest_line(uint64_t draw)
{
    const double u = 1.5 * fabs(kb_rng_normal(6, KB_STREAM_SIMULATION, draw));
    size_t arm = 0;
    for (size_t i = 1; i < N; i++)
        if (mean[i] + u * sd[i] > mean[arm] + u * sd[arm])
            arm = i;
    return arm;
}

/* Each arm below the best with the chance 1 / (C + 10 gap), else one of the two best. */
static size_t inverse_gap(uint64_t draw)
{
    double uniform = kb_rng_uniform(7, KB_STREAM_SIMULATION, draw);
    for (size_t i = 0; i < N; i++) {
        if (mean[i] == 0.9)
            continue;
        uniform -= 1 / (N + 10 * (0.9 - mean[i]));
        if (uniform < 0)
            return i;
    }
    return draw % 2 == 0 ? 1 : 3;
}

static void expect_share(double count, double n, double p)
{
    ck_assert_msg(fabs(count / n - p) < 5 * sqrt(p * (1 - p) / n), "%g of %g draws for %g", count, n, p);
}

/* Within 5 sigma: what the policy draws, and what its definition draws. */
static void draw_a_million(enum kb_rule_type type, size_t (*defined)(uint64_t draw))
{
    const size_t n = 1000000;
    const struct kb_rule_spec rule = {
        .type = type, .epsilon = 0.1, .scale = 1, .gamma_scale = 2, .gamma_exponent = 0.5};
    double p[N], drawn[N] = {0}, wanted[N] = {0};
    propensities(&rule, kb_policy_scale(&rule, 1.5, 25), N, p);
    for (size_t draw = 0; draw < n; draw++) {
        const double uniform = kb_rng_uniform(4, KB_STREAM_SIMULATION, draw);
        drawn[kb_policy_draw(N, p, kb_rng_uniform(3, KB_STREAM_SIMULATION, draw))]++;
        wanted[uniform < rule.epsilon ? (size_t)(uniform / rule.epsilon * N) : defined(draw)]++;
    }
    for (size_t i = 0; i < N; i++) {
        expect_share(drawn[i], (double)n, p[i]);
        expect_share(wanted[i], (double)n, p[i]);
    }
}

START_TEST(a_million_draws_of_rand_ucb_have_its_propensities)
{
    draw_a_million(KB_RULE_RAND_UCB, highest_line);
}
END_TEST

START_TEST(a_million_draws_of_igw_have_its_propensities)
{
    draw_a_million(KB_RULE_IGW, inverse_gap);
}
END_TEST

/* As the rule is told: a draw, its best arm leads; half of the time draws go on until another arm is the best of one.
 */
START_TEST(top_two_is_what_draws_and_draws_again_give)
{
    enum { N_DRAWS = 1000000 };
    const struct kb_rule_spec rule = {.type = KB_RULE_TOP_TWO};
    const double scale = kb_policy_scale(&rule, 1.5, 100);
    double p[N], count[N] = {0};
    uint64_t next = 0;
    propensities(&rule, scale, N, p);
    expect_sum_one(p);
    for (size_t draw = 0; draw < N_DRAWS; draw++) {
        const bool is_leader = kb_rng_uniform(12, KB_STREAM_SIMULATION, draw) < 0.5;
        size_t leader = N, arm = N;
        while (arm == N) {
            size_t best = 0;
            double most = -INFINITY;
            for (size_t i = 0; i < N; i++) {
                const double z = mean[i] + scale * sd[i] * kb_rng_normal(11, KB_STREAM_SIMULATION, next++);
                if (z > most)
                    most = z, best = i;
            }
            leader = leader == N ? best : leader;
            if (is_leader || best != leader)
                arm = best;
        }
        count[arm]++;
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(fabs(p[i] - count[i] / N_DRAWS) < 5 * sqrt(p[i] * (1 - p[i]) / N_DRAWS), "arm %zu: %g for %g", i,
                      p[i], count[i] / N_DRAWS);
}
END_TEST

/* Two arms challenge each other: both have one half, whatever is known of them. */
START_TEST(top_two_shows_two_arms_alike)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_TOP_TWO};
    for (double scale = 0; scale < 3; scale += 0.25) {
        double p[2];
        propensities(&rule, scale, 2, p);
        ck_assert_double_eq_tol(p[0], 0.5, 1e-12);
        ck_assert_double_eq_tol(p[1], 0.5, 1e-12);
    }
}
END_TEST

/* The chances of the others underflow; the one nearest to the leader is what they would run together to. */
START_TEST(top_two_challenges_a_certain_leader_with_the_nearest_arm)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_TOP_TWO};
    const double far[4] = {0, 10, 4, 3}, narrow[4] = {0.1, 0.1, 0.1, 0.9}, none[4] = {0};
    struct kb_arena arena;
    double p[4];
    kb_arena_init(&arena);
    ck_assert_int_eq(kb_arena_fit(&arena, kb_policy_bytes(&rule, 4)), KB_OK);
    kb_policy_propensities(&rule, 1, 4, far, narrow, NULL, p, &arena); /* gaps in deviations: 71, 42, 7.7 */
    ck_assert_double_eq_tol(p[1], 0.5, 1e-9);
    ck_assert_double_eq_tol(p[3], 0.5, 1e-9);
    ck_assert(p[0] < 1e-9 && p[2] < 1e-9);
    kb_policy_propensities(&rule, 1, 4, far, none, NULL, p, &arena); /* nothing tells the others apart */
    ck_assert_double_eq_tol(p[1], 0.5, 1e-15);
    for (size_t i = 0; i < 4; i++)
        ck_assert(i == 1 || fabs(p[i] - 0.5 / 3) < 1e-15);
    kb_arena_close(&arena);
}
END_TEST

START_TEST(draws_follow_the_propensities)
{
    const double p[4] = {0.1, 0, 0.6, 0.3};
    enum { N_DRAWS = 100000 };
    double drawn[4] = {0};
    for (uint64_t i = 0; i < N_DRAWS; i++)
        drawn[kb_policy_draw(4, p, kb_rng_uniform(1, KB_STREAM_ARM, i))]++;
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq_tol(drawn[i] / N_DRAWS, p[i], 5 * sqrt(p[i] * (1 - p[i]) / N_DRAWS) + 1e-12);
}
END_TEST

START_TEST(draw_takes_the_first_whose_cumulative_share_exceeds_the_number)
{
    const double p[4] = {0.25, 0.25, 0, 0.5};
    ck_assert_uint_eq(kb_policy_draw(4, p, 0), 0);
    ck_assert_uint_eq(kb_policy_draw(4, p, nextafter(0.25, 0)), 0);
    ck_assert_uint_eq(kb_policy_draw(4, p, 0.25), 1);
    ck_assert_uint_eq(kb_policy_draw(4, p, 0.5), 3);
    ck_assert_uint_eq(kb_policy_draw(4, p, nextafter(1, 0)), 3);
}
END_TEST

START_TEST(split_draws_by_the_weights_of_those_that_are_there)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_SPLIT, .epsilon = 0.1};
    const double share[4] = {0.125, 0, 0.375, 0.5};
    double p[4] = {1, 0, 3, 4}, none[2] = {0, 0}, small[2] = {5e-324, 1e6};
    kb_policy_propensities(&rule, 1, 4, mean, sd, p, p, NULL);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq_tol(p[i], 0.9 * share[i] + 0.025, 1e-15);
    kb_policy_propensities(&rule, 1, 2, mean, sd, none, none, NULL);
    ck_assert(none[0] == 0.5 && none[1] == 0.5);
    kb_policy_propensities(&(struct kb_rule_spec){.type = KB_RULE_SPLIT}, 1, 2, mean, sd, small, small, NULL);
    ck_assert(small[0] == 0 && small[1] == 1);
}
END_TEST

START_TEST(an_arm_of_propensity_zero_is_never_drawn)
{
    const double first[3] = {0, 1, 0};
    ck_assert_uint_eq(kb_policy_draw(3, first, 0), 1);
    /* a sum that rounding left short of the number drawn */
    const double last[3] = {0.5, 0.5 - 1e-12, 0};
    ck_assert_uint_eq(kb_policy_draw(3, last, nextafter(1, 0)), 1);
}
END_TEST

START_TEST(a_single_arm_has_propensity_one_under_every_rule)
{
    for (int type = 0; type < KB_RULE_N; type++) {
        const struct kb_rule_spec rule = {.type = (enum kb_rule_type)type, .epsilon = 0.3};
        double p[1] = {1};
        if (kb_rule_reads_levels(rule.type))
            kb_policy_explore(&rule, 1, p);
        else
            propensities(&rule, 1, 1, p);
        ck_assert_double_eq_tol(p[0], 1, 1e-15);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("policy", ucb_draws_alike_among_the_tied_for_the_best_score,
                   arms_tie_within_the_rounding_of_their_values, epsilon_spreads_its_share_evenly,
                   uniform_knows_no_favourites, thompson_scales_the_standard_deviations,
                   thompson_without_scale_is_greedy, rand_ucb_scales_the_standard_deviations,
                   igw_weighs_by_the_inverse_gap, igw_is_uniform_before_the_first_reward_and_greedy_at_last,
                   a_million_draws_of_rand_ucb_have_its_propensities, a_million_draws_of_igw_have_its_propensities,
                   top_two_is_what_draws_and_draws_again_give, split_draws_by_the_weights_of_those_that_are_there,
                   top_two_shows_two_arms_alike, top_two_challenges_a_certain_leader_with_the_nearest_arm,
                   draws_follow_the_propensities, draw_takes_the_first_whose_cumulative_share_exceeds_the_number,
                   an_arm_of_propensity_zero_is_never_drawn, a_single_arm_has_propensity_one_under_every_rule);
}
