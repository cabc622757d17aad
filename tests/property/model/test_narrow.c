/* Decisions over many candidates of whom few are shown (posterior_top.c): the arm, the arms shown, their values and all
 * propensities are those of the decision that computes every candidate. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_read.h"
#include "rules/policy.h"

#define N_ARMS 1500u
#define N_TWINS 40u /* arms with the features of another */
#define DIM 3u
#define N_REWARDS 150u
#define CLOSE 1e-9

static struct {
    char id[N_ARMS][24];
    double x[N_ARMS][DIM];
} world;

static double number(uint64_t i)
{
    return 2 * kb_rng_uniform(i * 0x9e3779b97f4a7c15u, KB_STREAM_ARM, 5) - 1;
}

static struct kb_spec spec_of(int which)
{
    static const char *const names[] = {"laplaced-kors", "ek-ucb", "laplaced-by-component", "laplaced-kors"};
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, names[which], 0, DIM), KB_OK);
    spec.rule.type = KB_RULE_UCB;
    spec.conf.score = KB_SCORE_FIXED;
    spec.conf.type = KB_CONF_FIXED;
    spec.arm_kernel.lengthscale = 0.4;
    spec.arm_kernel.is_median = false;
    spec.rule.epsilon = which == 1 ? 0 : 0.3;
    spec.repr.max_dictionary = 60;
    spec.is_tuned = false;
    spec.learned = 0;
    if (which == 3)
        spec.repr.type = KB_REPR_THRESHOLD;
    return spec;
}

static void open_world(struct kbt_log *log, const struct kb_spec *spec, size_t n_rewards)
{
    static struct kb_ev_arm put[N_ARMS];
    kbt_log_open(log);
    ck_assert_int_eq(kbt_log_live(log, kbt_configured(spec, 1), NULL), KB_OK);
    for (size_t a = 0; a < N_ARMS; a++) {
        snprintf(world.id[a], sizeof world.id[a], "a%zu", a);
        for (size_t d = 0; d < DIM; d++)
            world.x[a][d] = a >= N_ARMS - N_TWINS ? world.x[a - N_TWINS][d] : number(10 * a + d + 1);
        put[a] = (struct kb_ev_arm){.id = world.id[a], .features = world.x[a], .is_active = true};
    }
    const struct kb_event ev = {.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = put, .n_put = N_ARMS}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
    for (size_t i = 0; i < n_rewards; i++) {
        const size_t a = i * 7 % N_ARMS;
        const struct kb_event seen = {.type = KB_EV_OBSERVED,
                                      .as.observed = {.user = i % 3 ? "u" : "v",
                                                      .arm = {world.id[a], world.x[a]},
                                                      .reward = world.x[a][0] + 0.1 * number(100000 + i)}};
        ck_assert_int_eq(kbt_log_live(log, seen, NULL), KB_OK);
    }
}

/* That arms are equally good, to a rule and to the eye. */
static bool ties(const struct kb_decision *d, size_t i, size_t k)
{
    return fabs(d->score[i] - d->score[k]) <= KB_TIE * fmax(fabs(d->score[i]), fabs(d->mean[i]));
}

/* Returns how many candidates have no deviation. */
static size_t compare(const struct kb_decision *all, const struct kb_decision *few, size_t n_shown)
{
    size_t n_left_out = 0;
    ck_assert_uint_eq(all->n, few->n);
    ck_assert_uint_eq(all->chosen, few->chosen);
    for (size_t i = 0; i < all->n; i++) {
        ck_assert(all->propensity[i] == few->propensity[i]);
        ck_assert(kbt_close(all->mean[i], few->mean[i], CLOSE));
        n_left_out += isnan(few->sd[i]) != 0;
        ck_assert(isnan(few->sd[i]) || kbt_close(all->sd[i], few->sd[i], CLOSE));
    }
    for (size_t k = 0; k < n_shown; k++) {
        const size_t i = few->order[k];
        ck_assert(i == all->order[k] || ties(all, i, all->order[k]));
        ck_assert(kbt_close(all->score[i], few->score[i], CLOSE));
        ck_assert(kbt_close(all->lower[i], few->lower[i], CLOSE) && kbt_close(all->upper[i], few->upper[i], CLOSE));
    }
    return n_left_out;
}

START_TEST(who_is_shown_and_how_likely_is_that_of_the_whole_computation)
{
    static const size_t shown[] = {1, 3, 16};
    const struct kb_spec spec = spec_of(_i);
    struct kb_scratch *s[2];
    struct kbt_log log;
    size_t n_left_out = 0, n_explored = 0;
    open_world(&log, &spec, N_REWARDS);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(kb_engine_scratch_new(&s[i]), KB_OK);
    for (uint64_t k = 0; k < 30; k++) {
        struct kb_decision all, few;
        struct kb_query q = {.user = k % 2 ? "u" : "stranger", .key = k * 77 + 5};
        ck_assert_int_eq(kb_engine_fit_scratch(log.live, s[0], 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_fit_scratch(log.live, s[1], 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(log.live, &q, s[0], &all, NULL), KB_OK);
        q.n_shown = shown[k % 3];
        ck_assert_int_eq(kb_engine_decide(log.live, &q, s[1], &few, NULL), KB_OK);
        n_left_out += compare(&all, &few, q.n_shown);
        n_explored += !(few.propensity[few.chosen] > spec.rule.epsilon / N_ARMS * 1.5);
        ck_assert(!isnan(few.sd[few.chosen]));
    }
    ck_assert_uint_gt(n_left_out, 30u * N_ARMS / 4); /* else nothing was saved */
    ck_assert(spec.rule.epsilon == 0 || n_explored > 0);
    for (size_t i = 0; i < 2; i++)
        kb_engine_scratch_free(s[i]);
    kbt_log_close(&log);
}
END_TEST

/* Before the first reward nothing tells arms apart, and all are as good as the best. */
START_TEST(all_that_tie_with_the_best_share_alike)
{
    const struct kb_spec spec = spec_of(_i);
    struct kb_scratch *s;
    struct kb_decision d;
    struct kbt_log log;
    open_world(&log, &spec, 0);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(log.live, s, 0, 0), KB_OK);
    const struct kb_query q = {.user = "u", .key = 9, .n_shown = 1};
    ck_assert_int_eq(kb_engine_decide(log.live, &q, s, &d, NULL), KB_OK);
    for (size_t i = 0; i < d.n; i++)
        ck_assert(kbt_close(d.propensity[i], 1.0 / N_ARMS, 1e-12));
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("narrow", 300, {who_is_shown_and_how_likely_is_that_of_the_whole_computation, 4},
                         {all_that_tie_with_the_best_share_alike, 4});
}
