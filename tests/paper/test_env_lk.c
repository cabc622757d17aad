/* LK's rounds by counting, the schedule of lambda by hand, every row of every experiment by the check that a tenant's
 * configuration gets. Margins are four to five standard deviations of the statistic, seeds are fixed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper/exp_lk.h"
#include "kbt.h"

static struct pb_env *open_env(const struct pb_setting *s, uint64_t seed)
{
    struct pb_env *env = NULL;
    ck_assert_int_eq(s->open(s, seed, 100, &env), KB_OK);
    return env;
}

static const struct pb_setting fitted = PB_LK_SETTING("fitted", 20, ER, MEDIUM, GP, FITTED, 0);
static const struct pb_setting literal = PB_LK_SETTING("literal", 20, ER, MEDIUM, GP, LITERAL, 0);
static const struct pb_setting apart = PB_LK_SETTING("apart", 20, ER, MEDIUM, GP, FITTED, 1);

/* --- rounds --------------------------------------------------------------------------------------------------- */

static void check_round(const struct pb_env *env, const struct pb_round *r, size_t n_shown, size_t *shown,
                        size_t *users)
{
    const struct pb_lk_world *w = pb_lk_world_of(env);
    const size_t u = (size_t)atoi(r->user + 1);
    bool is_there[20] = {false};
    double best = -INFINITY;
    ck_assert_uint_eq(r->n_arms, n_shown);
    for (size_t i = 0; i < n_shown; i++) {
        const size_t item = (size_t)atoi(r->arm[i] + 1);
        ck_assert(!is_there[item]);
        is_there[item] = true;
        ck_assert_double_eq(r->mean[i], w->truth[u * 20 + item]);
        ck_assert_mem_eq(r->features[i], w->item + item * 10, 10 * sizeof(double));
        best = fmax(best, r->mean[i]);
        shown[item]++;
    }
    ck_assert_double_eq(r->best, best);
    users[u]++;
}

START_TEST(rounds_show_distinct_items_to_uniform_users)
{
    const struct pb_setting *s[2] = {&fitted, &literal};
    for (size_t k = 0; k < 2; k++) {
        struct pb_env *env = open_env(s[k], 4);
        const size_t n_shown = k == 0 ? 10 : 5, rounds = 8000;
        size_t shown[20] = {0}, users[20] = {0};
        for (size_t t = 0; t < rounds; t++) {
            struct pb_round r;
            env->ops->round(env, t, &r);
            check_round(env, &r, n_shown, shown, users);
        }
        const double p = (double)n_shown / 20.0;
        for (size_t i = 0; i < 20; i++) {
            ck_assert_double_eq_tol((double)users[i], 400.0, 4.5 * sqrt(8000.0 * .05 * .95));
            ck_assert_double_eq_tol((double)shown[i], 8000.0 * p, 4.5 * sqrt(8000.0 * p * (1.0 - p)));
        }
        env->ops->close(env);
    }
}
END_TEST

START_TEST(rounds_and_noise_do_not_depend_on_what_was_chosen)
{
    struct pb_env *a = open_env(&fitted, 5), *b = open_env(&fitted, 5), *c = open_env(&fitted, 6);
    size_t n_same = 0;
    for (size_t t = 0; t < 300; t++) {
        struct pb_round ra, rb, rc;
        a->ops->round(a, t, &ra);
        b->ops->round(b, t, &rb);
        c->ops->round(c, t, &rc);
        ck_assert_str_eq(ra.user, rb.user);
        for (size_t i = 0; i < ra.n_arms; i++)
            ck_assert_str_eq(ra.arm[i], rb.arm[i]);
        ck_assert_mem_eq(ra.mean, rb.mean, ra.n_arms * sizeof(double));
        const double ea = a->ops->reward(a, 0) - ra.mean[0], eb = b->ops->reward(b, 9) - rb.mean[9];
        ck_assert_double_eq_tol(ea, eb, 1e-12);
        n_same += strcmp(ra.user, rc.user) == 0;
    }
    ck_assert_uint_lt(n_same, 40); /* 15 expected */
    ck_assert_mem_ne(pb_lk_world_of(a)->truth, pb_lk_world_of(c)->truth, 400 * sizeof(double));
    a->ops->close(a);
    b->ops->close(b);
    c->ops->close(c);
}
END_TEST

START_TEST(noise_has_the_spread_of_its_reading)
{
    struct pb_setting s[3] = {fitted, literal, literal};
    s[2].value[PB_LK_AT_REGIME] = PB_LK_REPRESENTER; /* the text's sigma = .1 */
    for (size_t k = 0; k < 3; k++) {
        struct pb_env *env = open_env(&s[k], 9);
        const double *f = pb_lk_world_of(env)->truth;
        double least = INFINITY, most = -INFINITY, squares = 0.0;
        for (size_t i = 0; i < 400; i++) {
            least = fmin(least, f[i]);
            most = fmax(most, f[i]);
        }
        ck_assert_double_eq_tol(env->noise, k == 2 ? .1 : .01 * (most - least), 1e-14);
        for (size_t t = 0; t < 5000; t++) {
            struct pb_round r;
            env->ops->round(env, t, &r);
            squares += pow((env->ops->reward(env, t % 5) - r.mean[t % 5]) / env->noise, 2.0);
        }
        ck_assert_double_eq_tol(squares, 5000.0, 4.0 * sqrt(10000.0)); /* chi^2(5000) */
        env->ops->close(env);
    }
}
END_TEST

START_TEST(items_apart_are_numerical_twins_and_never_the_same_bits)
{
    struct pb_env *env = open_env(&apart, 7), *plain = open_env(&fitted, 7);
    double last[20][10] = {{0}};
    for (size_t t = 0; t < 200; t++) {
        struct pb_round r, p;
        env->ops->round(env, t, &r);
        plain->ops->round(plain, t, &p);
        ck_assert_mem_eq(r.mean, p.mean, 10 * sizeof(double));
        for (size_t i = 0; i < 10; i++) {
            double *before = last[atoi(r.arm[i] + 1)];
            ck_assert_mem_ne(before, r.features[i], sizeof last[0]);
            memcpy(before, r.features[i], sizeof last[0]);
            for (size_t j = 0; j < 10; j++)
                ck_assert_double_eq_tol(r.features[i][j], p.features[i][j], 1e-6);
        }
    }
    env->ops->close(env);
    plain->ops->close(plain);
}
END_TEST

START_TEST(settings_out_of_range_are_refused)
{
    const struct {
        enum pb_lk_value at;
        double value;
    } bad[] = {{PB_LK_AT_USERS, 1},   {PB_LK_AT_USERS, 1e9}, {PB_LK_AT_GRAPH, PB_LK_N_GRAPHS},
               {PB_LK_AT_TASK, -1},   {PB_LK_AT_TASK, 3},    {PB_LK_AT_REGIME, NAN},
               {PB_LK_AT_READING, 3}, {PB_LK_AT_APART, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_setting s = fitted;
        struct pb_env *env = NULL;
        s.value[bad[i].at] = bad[i].value;
        ck_assert_int_eq(pb_lk_open(&s, 1, 10, &env), KB_EINVAL);
        ck_assert_ptr_null(env);
    }
}
END_TEST

static enum kb_err open_fitted(void *arg)
{
    return pb_lk_open(&fitted, 1, 10, arg);
}

static void close_it(void *arg)
{
    struct pb_env **env = arg;
    if (*env != NULL)
        (*env)->ops->close(*env);
    *env = NULL;
}

START_TEST(a_failed_allocation_leaves_nothing_behind)
{
    struct pb_env *env = NULL;
    ck_assert_uint_gt(kbt_brutal(open_fitted, close_it, &env), 10);
}
END_TEST

/* --- rows ----------------------------------------------------------------------------------------------------- */

/* T = 3,000: T / (T + t) is .9375, .882, .789, .652 at the looks; only the third is 20 % away from what is in force. */
START_TEST(lambda_follows_its_schedule_and_changes_when_it_is_worth_it)
{
    struct pb_env *env = open_env(&fitted, 1);
    const struct pb_algorithm *lk = &pb_lk_systems[0];
    const double first = .1 * pb_lk_world_of(env)->ratio;
    struct kb_spec spec;
    size_t n_changes = 0;
    ck_assert_int_eq(kb_spec_preset(&spec, lk->preset, 0, 10), KB_OK);
    lk->tune(&spec, env, 3000, lk->value);
    ck_assert_double_eq_tol(spec.repr.lambda, first, 1e-15);
    for (size_t t = 0; t < 3000; t++)
        if (lk->schedule(&spec, env, t, 3000, lk->value)) {
            ck_assert_uint_eq(t, 800);
            n_changes++;
        }
    ck_assert_uint_eq(n_changes, 1);
    ck_assert_double_eq_tol(spec.repr.lambda, first * 3000.0 / 3800.0, 1e-15);
    ck_assert_double_eq_tol(spec.repr.mu, spec.repr.lambda, 1e-15);
    ck_assert_double_eq(pb_lk_lambda(env, 0, 3000, 1e3), .1);
    ck_assert_double_eq(pb_lk_lambda(env, 0, 3000, 1e-9), 1e-6);
    env->ops->close(env);
}
END_TEST

START_TEST(every_row_of_every_experiment_is_a_valid_specification)
{
    for (const struct pb_experiment *const *x = pb_experiments; *x != NULL; x++)
        for (size_t s = 0; s < (*x)->n_settings; s++) {
            struct pb_env *env = open_env(&(*x)->settings[s], 1);
            for (size_t a = 0; a < (*x)->n_algorithms; a++) {
                const struct pb_algorithm *row = &(*x)->algorithms[a];
                struct kb_spec spec;
                struct kb_errmsg msg = {"", ""};
                ck_assert_int_eq(kb_spec_preset(&spec, row->preset, env->context_dim, env->arm_dim), KB_OK);
                if (row->tune != NULL)
                    row->tune(&spec, env, (*x)->rounds, row->value);
                ck_assert_msg(kb_spec_check(&spec, &msg) == KB_OK, "%s %s: %s", row->name, msg.pointer, msg.text);
            }
            env->ops->close(env);
        }
}
END_TEST

START_TEST(every_printed_figure_belongs_to_a_run)
{
    for (size_t i = 0; i < pb_lk_table1.n_printed; i++) {
        const struct pb_printed *p = &pb_lk_table1.printed[i];
        size_t n = 0;
        for (size_t s = 0; s < pb_lk_table1.n_settings; s++)
            for (size_t a = 0; a < pb_lk_table1.n_algorithms; a++)
                n += strcmp(pb_lk_table1.settings[s].name, p->setting) == 0 &&
                     strcmp(pb_lk_table1.algorithms[a].name, p->algorithm) == 0;
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_eq(p->at, pb_lk_table1.rounds);
    }
    ck_assert_uint_eq(pb_lk_table1.n_printed, 32);
}
END_TEST

/* LK Fig. 2 to 4: one regime each, and in each the three tasks with their horizons, on two graphs. */
START_TEST(figures_two_to_four_show_a_regime_each_over_three_tasks)
{
    static const size_t rounds[PB_LK_N_TASKS] = {[PB_LK_EASY] = 1000, [PB_LK_MEDIUM] = 3000, [PB_LK_HARD] = 5000};
    const struct pb_experiment *const x[] = {&pb_lk_fig2, &pb_lk_fig3, &pb_lk_fig4};
    static const enum pb_lk_regime regime[] = {PB_LK_LINEAR, PB_LK_GP, PB_LK_REPRESENTER};
    for (size_t k = 0; k < 3; k++) {
        size_t n[PB_LK_N_TASKS][PB_LK_N_GRAPHS] = {{0}};
        ck_assert_uint_eq(x[k]->n_settings, 6);
        for (size_t i = 0; i < 6; i++) {
            const struct pb_setting *s = &x[k]->settings[i];
            const size_t task = (size_t)s->value[PB_LK_AT_TASK];
            ck_assert(s->value[PB_LK_AT_REGIME] == regime[k]);
            ck_assert_uint_eq(s->rounds, rounds[task]);
            n[task][(size_t)s->value[PB_LK_AT_GRAPH]]++;
        }
        for (size_t task = 0; task < PB_LK_N_TASKS; task++)
            ck_assert(n[task][PB_LK_ER] == 1 && n[task][PB_LK_RBF] == 1);
    }
}
END_TEST

static struct kb_spec spec_of(const struct pb_algorithm *a, const struct pb_env *env)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, a->preset, env->context_dim, env->arm_dim), KB_OK);
    a->tune(&spec, env, 3000, a->value);
    return spec;
}

/* What the experiment claims for itself: nothing but the representation differs from LK-GP-UCB's row. A preset's own
 * default, such as a share of uniform exploration, may not slip in. */
START_TEST(rows_beside_lk_gp_ucb_differ_in_the_representation_alone)
{
    const struct pb_experiment *const x[] = {&pb_lk_laplaced, &pb_lk_dictionary};
    struct pb_env *env = open_env(&fitted, 3);
    for (size_t k = 0; k < 2; k++) {
        const struct kb_spec exact = spec_of(&x[k]->algorithms[0], env);
        for (size_t i = 1; i < x[k]->n_algorithms; i++) {
            struct kb_spec spec = spec_of(&x[k]->algorithms[i], env);
            ck_assert(spec.repr.lambda == exact.repr.lambda && spec.repr.type != exact.repr.type);
            ck_assert(spec.rule.type == exact.rule.type && spec.rule.epsilon == exact.rule.epsilon);
            ck_assert(spec.conf.type == exact.conf.type && spec.conf.beta == exact.conf.beta);
            ck_assert(spec.conf.score == exact.conf.score);
            spec.repr = exact.repr;
            ck_assert(kb_spec_same_model(&spec, &exact));
        }
    }
    env->ops->close(env);
}
END_TEST

int main(void)
{
    return KBT_RUN("env_lk", rounds_show_distinct_items_to_uniform_users,
                   rounds_and_noise_do_not_depend_on_what_was_chosen, noise_has_the_spread_of_its_reading,
                   items_apart_are_numerical_twins_and_never_the_same_bits, settings_out_of_range_are_refused,
                   a_failed_allocation_leaves_nothing_behind) |
           KBT_RUN("exp_lk", lambda_follows_its_schedule_and_changes_when_it_is_worth_it,
                   every_row_of_every_experiment_is_a_valid_specification, every_printed_figure_belongs_to_a_run,
                   figures_two_to_four_show_a_regime_each_over_three_tasks,
                   rows_beside_lk_gp_ucb_differ_in_the_representation_alone);
}
