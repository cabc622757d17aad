/* Learners against plain folds of the events that they should have fed their engines, and against each other. */
#include <math.h>
#include <string.h>

#include "paper/env_ek.h"
#include "paper/learner.h"
#include "toy_env.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "posterior/posterior.h"

#define ROUNDS 40

static struct pb_learner *play_in(struct pb_env *env, const struct pb_algorithm *a, uint64_t seed, size_t rounds,
                                  size_t *choices)
{
    struct pb_learner *l = NULL;
    struct pb_round r;

    ck_assert_int_eq(pb_learner_new(&l, a, env, seed, rounds), KB_OK);
    for (size_t t = 0; t < rounds; t++) {
        env->ops->round(env, t, &r);
        ck_assert_int_eq(pb_learner_decide(l, &r, &choices[t]), KB_OK);
        ck_assert_uint_lt(choices[t], r.n_arms);
        ck_assert_int_eq(pb_learner_learn(l, &r, choices[t], env->ops->reward(env, choices[t])), KB_OK);
        ck_assert(!kb_engine_is_building(pb_learner_engine(l)));
    }
    return l;
}

/* In a toy environment, which needs no closing. */
static struct pb_learner *play(const struct pb_setting *s, const struct pb_algorithm *a, uint64_t seed, size_t rounds,
                               size_t *choices)
{
    struct pb_env *env = NULL;

    ck_assert_int_eq(s->open(s, seed, rounds, &env), KB_OK);
    return play_in(env, a, seed, rounds, choices);
}

static uint64_t posterior_digest(const struct pb_learner *l)
{
    return kb_posterior_digest(kb_engine_posterior(pb_learner_engine(l)), 0);
}

/* An engine that folds configuration, graph and observations as they were, without any of the learner's code. */
static struct kb_engine *fold(const struct kb_spec *spec, const size_t *choices, size_t rounds)
{
    struct kb_engine *e = NULL;
    struct pb_env *env = NULL;
    struct pb_round r;
    struct kb_event ev = {.type = KB_EV_CONFIGURED, .seq = 1, .as.configured = {.spec = spec, .version = 1}};

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(toy_graph.open(&toy_graph, 0, rounds, &env), KB_OK);
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    ev = (struct kb_event){
        .type = KB_EV_GRAPH,
        .seq = 2,
        .as.graph = {.is_replace = true, .users = toy_users, .n_users = TOY_USERS, .add = toy_edges, .n_add = 2}};
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    for (size_t t = 0; t < rounds; t++) {
        const size_t c = choices[t];

        env->ops->round(env, t, &r);
        ev = (struct kb_event){.type = KB_EV_OBSERVED,
                               .seq = 3 + t,
                               .as.observed = {.user = r.user,
                                               .context = r.context,
                                               .arm = {r.arm[c], r.features[c]},
                                               .reward = env->ops->reward(env, c),
                                               .propensity = (double)NAN}};
        ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
    }
    return e;
}

START_TEST(an_exact_learner_is_a_fold_of_what_it_was_shown)
{
    const struct pb_algorithm a = {.name = "lk", .preset = "lk-gp-ucb"};
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_graph, &a, 7, ROUNDS, choices);
    struct kb_engine *e = fold(kb_engine_spec(pb_learner_engine(l)), choices, ROUNDS);

    ck_assert(kb_engine_digest(pb_learner_engine(l)) == kb_engine_digest(e));
    ck_assert_uint_eq(kb_posterior_n_support(kb_engine_posterior(e)), ROUNDS); /* contexts are all different */
    kb_engine_free(e);
    pb_learner_free(l);
}
END_TEST

/* The order of the two kinds of learning does not show in an exact posterior. */
START_TEST(learning_by_decisions_teaches_what_observing_does)
{
    const struct pb_algorithm observes = {.name = "lk", .preset = "lk-gp-ucb"};
    const struct pb_algorithm decides = {.name = "lk", .preset = "lk-gp-ucb", .is_by_decision = true};
    struct kb_engine_counts counts;
    size_t a[ROUNDS], b[ROUNDS];
    struct pb_learner *one = play(&toy_graph, &observes, 7, ROUNDS, a);
    struct pb_learner *two = play(&toy_graph, &decides, 7, ROUNDS, b);

    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert(posterior_digest(one) == posterior_digest(two));
    kb_engine_counts(pb_learner_engine(one), &counts);
    ck_assert(counts.observed == ROUNDS && counts.decided == 0 && counts.seq == ROUNDS + 2);
    kb_engine_counts(pb_learner_engine(two), &counts);
    ck_assert(counts.observed == 0 && counts.decided == ROUNDS && counts.rewarded == ROUNDS && counts.pending == 0);
    pb_learner_free(one);
    pb_learner_free(two);
}
END_TEST

/* Elimination explores by levels, and what it explores is in its model. */
START_TEST(the_level_of_a_decision_is_what_its_reward_teaches)
{
    const struct pb_algorithm a = {.name = "sup", .preset = "sup-kernel-ucb", .is_by_decision = true};
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_plain, &a, 3, ROUNDS, choices);

    ck_assert_uint_gt(kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(l))), 0);
    pb_learner_free(l);
}
END_TEST

/* Only follow-ups make a dictionary; without them it would stay empty. */
START_TEST(a_dictionary_grows_by_what_follows_from_the_events)
{
    const struct pb_algorithm a = {.name = "ek", .preset = "ek-ucb"};
    struct kb_engine_counts counts;
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_plain, &a, 3, ROUNDS, choices);

    kb_engine_counts(pb_learner_engine(l), &counts);
    ck_assert_uint_gt(counts.n_support, 0);
    ck_assert_uint_eq(counts.learned, ROUNDS);
    ck_assert_uint_eq(counts.seq, 1 + ROUNDS + counts.n_support); /* no graph; an event for every atom */
    pb_learner_free(l);
}
END_TEST

static void tune_to_limit(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value)
{
    (void)env, (void)rounds;
    spec->repr.exact_limit = (size_t)value[0];
}

START_TEST(a_reset_that_is_due_is_made)
{
    const struct pb_algorithm a = {.name = "lk", .preset = "lk-gp-ucb", .tune = tune_to_limit, .value = {10}};
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_graph, &a, 3, ROUNDS, choices);

    ck_assert_int_eq(kb_engine_spec(pb_learner_engine(l))->repr.type, KB_REPR_KORS);
    pb_learner_free(l);
}
END_TEST

static bool halve_at_ten(struct kb_spec *spec, const struct pb_env *env, size_t t, size_t rounds, const double *value)
{
    (void)env, (void)rounds, (void)value;
    if (t != 10)
        return false;
    spec->repr.lambda /= 2;
    return true;
}

/* The changed learner's posterior is that of one which had the later ridge from the start and saw the same. */
START_TEST(a_schedule_puts_its_spec_in_force)
{
    const struct pb_algorithm a = {.name = "lk", .preset = "lk-gp-ucb", .schedule = halve_at_ten};
    struct kb_engine_counts counts;
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_graph, &a, 7, ROUNDS, choices);
    struct kb_engine *e = fold(kb_engine_spec(pb_learner_engine(l)), choices, ROUNDS);
    struct kb_posterior_facts one, two;

    kb_engine_counts(pb_learner_engine(l), &counts);
    ck_assert_uint_eq(counts.version, 2);
    ck_assert(kb_engine_spec(pb_learner_engine(l))->repr.lambda == 0.5);
    ck_assert_int_eq(kb_posterior_facts(kb_engine_posterior(pb_learner_engine(l)), &one), KB_OK);
    ck_assert_int_eq(kb_posterior_facts(kb_engine_posterior(e), &two), KB_OK);
    ck_assert(kbt_close(one.information_gain, two.information_gain, 1e-10));
    kb_engine_free(e);
    pb_learner_free(l);
}
END_TEST

static bool halve_at_five_hundred(struct kb_spec *spec, const struct pb_env *env, size_t t, size_t rounds,
                                  const double *value)
{
    (void)env, (void)rounds, (void)value;
    if (t != 500)
        return false;
    spec->repr.lambda /= 2;
    return true;
}

/* Factoring 500 points is more than an engine does at once (KB_INLINE_WORK): it begins a build, which a server's thread
 * would run. Nobody but the learner can run it here, and nothing that comes after may meet the old model. */
START_TEST(a_rebuild_that_the_engine_only_begins_is_finished_before_the_next_round)
{
    const struct pb_algorithm a = {.name = "lk", .preset = "lk-gp-ucb", .schedule = halve_at_five_hundred};
    size_t choices[520];
    struct pb_learner *l = play(&toy_graph, &a, 7, 520, choices);
    struct kb_engine *e = fold(kb_engine_spec(pb_learner_engine(l)), choices, 520);
    struct kb_posterior_facts one, two;

    ck_assert(kb_engine_spec(pb_learner_engine(l))->repr.lambda == 0.5);
    ck_assert_int_eq(kb_posterior_facts(kb_engine_posterior(pb_learner_engine(l)), &one), KB_OK);
    ck_assert_int_eq(kb_posterior_facts(kb_engine_posterior(e), &two), KB_OK);
    ck_assert(kbt_close(one.information_gain, two.information_gain, 1e-10));
    kb_engine_free(e);
    pb_learner_free(l);
}
END_TEST

#define BUMP_ROUNDS 1400 /* from about 1,290 points on the sweep of a new one is more than KB_INLINE_WORK */

static void keep_all(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value)
{
    (void)rounds, (void)value;
    spec->context_kernel.lengthscale = spec->arm_kernel.lengthscale = env->lengthscale;
    spec->repr.lambda = spec->repr.mu = spec->repr.gamma = 10;
    spec->repr.epsilon = 0.5;
    spec->repr.max_dictionary = spec->repr.exact_limit = 2 * BUMP_ROUNDS;
    spec->conf.beta = 0.1;
}

/* The points that the algorithm's model has at the end. */
static size_t play_bump(const struct pb_algorithm *a, size_t *choices)
{
    const struct pb_setting bump = {.name = "bump", .open = pb_ek_open, .value = {PB_EK_BUMP}};
    struct pb_env *env = NULL;

    ck_assert_int_eq(bump.open(&bump, 1, BUMP_ROUNDS, &env), KB_OK);
    struct pb_learner *l = play_in(env, a, 1, BUMP_ROUNDS, choices);
    const size_t n = kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(l)));
    pb_learner_free(l);
    env->ops->close(env);
    return n;
}

/* On Bump a dictionary at gamma = lambda holds every point, so its course is that of the exact model, which has no
 * dictionary and no builds. A learner that leaves builds to others stops admitting. */
START_TEST(points_that_the_engine_only_begins_to_admit_are_in_before_the_next_round)
{
    const struct pb_algorithm dictionary = {.name = "ek", .preset = "ek-ucb", .tune = keep_all};
    const struct pb_algorithm exact = {.name = "k", .preset = "k-ucb", .tune = keep_all};
    static size_t one[BUMP_ROUNDS], two[BUMP_ROUNDS];

    ck_assert_uint_eq(play_bump(&dictionary, one), BUMP_ROUNDS);
    ck_assert_uint_eq(play_bump(&exact, two), BUMP_ROUNDS);
    ck_assert_mem_eq(one, two, sizeof one);
}
END_TEST

/* 300 seeds: each arm within four standard deviations of its third. UCB alone would always take the first. */
START_TEST(the_first_action_is_uniform_where_the_row_says_so)
{
    const struct pb_algorithm a = {.name = "gp", .preset = "gp-ucb", .first_is_uniform = true};
    const struct pb_algorithm b = {.name = "gp", .preset = "gp-ucb"};
    size_t n[TOY_ARMS] = {0}, choice, again;

    for (uint64_t seed = 0; seed < 300; seed++) {
        pb_learner_free(play(&toy_plain, &a, seed, 1, &choice));
        n[choice]++;
        pb_learner_free(play(&toy_plain, &a, seed, 1, &again));
        ck_assert_uint_eq(choice, again);
        pb_learner_free(play(&toy_plain, &b, seed, 1, &choice));
        ck_assert_uint_eq(choice, 0);
    }
    for (size_t i = 0; i < TOY_ARMS; i++)
        ck_assert_double_lt(fabs((double)n[i] - 100), 4 * sqrt(300.0 * 2 / 9));
}
END_TEST

START_TEST(a_seed_is_a_course_of_things)
{
    const struct pb_algorithm a = {.name = "ts", .preset = "lk-gp-ts"};
    size_t one[ROUNDS], two[ROUNDS], other[ROUNDS];

    pb_learner_free(play(&toy_graph, &a, 5, ROUNDS, one));
    pb_learner_free(play(&toy_graph, &a, 5, ROUNDS, two));
    pb_learner_free(play(&toy_graph, &a, 6, ROUNDS, other));
    ck_assert_mem_eq(one, two, sizeof one);
    ck_assert(memcmp(one, other, sizeof one) != 0);
}
END_TEST

/* CMM reads an eigendecomposition: settled and published after each event, or the first decision would dispute it. */
START_TEST(times_tell_deciding_learning_and_settling_apart)
{
    const struct pb_algorithm cmm = {.name = "cmm", .preset = "cmm-ucb"};
    size_t choices[ROUNDS];
    struct pb_learner *l = play(&toy_plain, &cmm, 5, ROUNDS, choices);
    const struct pb_times t = pb_learner_times(l);

    ck_assert(t.decide > 0 && t.learn > 0 && t.settle > t.learn);
    ck_assert(!kb_engine_has_settled(pb_learner_engine(l)));
    pb_learner_free(l);
}
END_TEST

START_TEST(rows_that_make_no_spec_are_refused)
{
    const struct pb_algorithm nobody = {.name = "x", .preset = "no-such-preset"};
    const struct pb_algorithm bad = {.name = "x", .preset = "gp-ucb", .tune = tune_to_limit, .value = {0}};
    struct pb_env *env = NULL;
    struct pb_learner *l = NULL;

    ck_assert_int_eq(toy_plain.open(&toy_plain, 0, 1, &env), KB_OK);
    ck_assert_int_eq(pb_learner_new(&l, &nobody, env, 0, 1), KB_ENOTFOUND);
    ck_assert_int_eq(pb_learner_new(&l, &bad, env, 0, 1), KB_EINVAL);
    ck_assert_ptr_null(l);
}
END_TEST

/* 300 s: the 1,400 points of Bump take long under a sanitizer, on a busy machine. */
int main(void)
{
    return KBT_RUN_EACH(
        "learner", 300, NULL, NULL, an_exact_learner_is_a_fold_of_what_it_was_shown,
        learning_by_decisions_teaches_what_observing_does, the_level_of_a_decision_is_what_its_reward_teaches,
        a_dictionary_grows_by_what_follows_from_the_events, a_reset_that_is_due_is_made,
        a_schedule_puts_its_spec_in_force, a_rebuild_that_the_engine_only_begins_is_finished_before_the_next_round,
        points_that_the_engine_only_begins_to_admit_are_in_before_the_next_round,
        the_first_action_is_uniform_where_the_row_says_so, a_seed_is_a_course_of_things,
        times_tell_deciding_learning_and_settling_apart, rows_that_make_no_spec_are_refused);
}
