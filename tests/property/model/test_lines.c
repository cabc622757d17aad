/* Decisions of rand_ucb that predict those candidates alone whose line can be on top (kb_posterior_predict_lines): the
 * arm, its values and all propensities have the bits of the decision that predicts every candidate. Over random events,
 * users and candidates: arms that are equal, stopped, never learned at, at their limit; one candidate; points that are
 * met again, fade and are taken back; a model that was read from a snapshot. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define N_USERS 40u /* the last two are none of the graph's */
#define N_ARMS 26u
#define N_TWINS 4u /* arms whose rewards are those of the first ones */
#define N_FRESH 3u /* arms that nothing is learned of */
#define N_EVENTS 420u
#define EVERY 7u /* events between two rounds of questions */

enum variant { GRAPH, CONTEXTS, FORGETTING, FIXED_SCORE, STEEP, FLAT, QUIET, LIMIT, HALLUCINATE, PLAIN, N_VARIANTS };

static struct {
    char user[N_USERS][8], arm[N_ARMS][8], decision[24];
    struct kbt_log log;
    struct kb_spec spec;
    struct kb_scratch *scratch[2];
    size_t n_asked, n_left_out, n_completed;
} world;

static double number(uint64_t i)
{
    return kb_rng_uniform(31 + world.spec.seed, KB_STREAM_SIMULATION, i);
}

static size_t pick(uint64_t i, size_t n)
{
    return (size_t)(number(i) * (double)n);
}

static struct kb_spec spec_of(enum variant v)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-arm", v == CONTEXTS ? 2 : 0, 0), KB_OK);
    spec.seed = (uint64_t)v;
    spec.is_tuned = spec.forgetting.detects_changes = false;
    spec.learned = 0;
    spec.has_default_reward = false;
    spec.aggregation = v % 2 ? KB_AGG_SUM : KB_AGG_FIRST;
    spec.prior = (struct kb_prior_spec){.mean = 0.2,
                                        .arm = 0.1,
                                        .user = v == PLAIN ? 0 : 0.15,
                                        .context = v == CONTEXTS ? 0.2 : 0,
                                        .linear = v == CONTEXTS ? 0.1 : 0};
    spec.repr.lambda = v == QUIET ? 1e-7 : 0.1;
    spec.rule.epsilon = 0.2;
    spec.conf.beta = v == STEEP ? 6 : v == FLAT ? 0 : 1;
    if (v == FIXED_SCORE)
        spec.conf.score = KB_SCORE_FIXED;
    if (v == LIMIT)
        spec.repr.exact_limit = 9;
    if (v == HALLUCINATE)
        spec.pending = KB_PENDING_HALLUCINATE;
    if (v == FORGETTING) {
        spec.forgetting.type = KB_FORGET_DISCOUNT;
        spec.forgetting.discount = 0.99;
    }
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    return spec;
}

static void live(struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};
    ck_assert_msg(kbt_log_live(&world.log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static void open_world(enum variant v)
{
    struct kb_ev_edge edges[2 * N_USERS];
    struct kb_ev_arm arms[N_ARMS];
    size_t n = 0;
    world.n_asked = world.n_left_out = world.n_completed = 0;
    world.spec = spec_of(v);
    for (size_t i = 0; i < N_USERS; i++)
        snprintf(world.user[i], sizeof world.user[i], "u%zu", i);
    for (size_t i = 0; i < N_ARMS; i++) {
        snprintf(world.arm[i], sizeof world.arm[i], "a%zu", i);
        arms[i] = (struct kb_ev_arm){.id = world.arm[i], .is_active = true};
    }
    kbt_log_open(&world.log);
    live(kbt_configured(&world.spec, 1));
    for (size_t i = 0; i + 3 < N_USERS; i++)
        for (size_t k = 1; k < 3; k++)
            if (i + k + 2 < N_USERS)
                edges[n++] = (struct kb_ev_edge){world.user[i], world.user[i + k], 1 + number(i)};
    live((struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = n}});
    live((struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = N_ARMS}});
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(kb_engine_scratch_new(&world.scratch[i]), KB_OK);
}

static void close_world(void)
{
    for (size_t i = 0; i < 2; i++)
        kb_engine_scratch_free(world.scratch[i]);
    kbt_log_close(&world.log);
}

static void observe(uint64_t key, size_t arm)
{
    const double x[2] = {number(key + 1), number(key + 2)};
    const size_t user = pick(key + 3, N_USERS);
    live((struct kb_event){.type = KB_EV_OBSERVED,
                           .as.observed = {.user = world.user[user],
                                           .context = x,
                                           .arm = {world.arm[arm], NULL},
                                           .reward = number(key + 4) < 0.1 + 0.03 * (double)(arm % 16),
                                           .propensity = (double)NAN}});
}

/* A decision, and its reward, which is then corrected: the point stays, and its sum is another. */
static void decide_and_correct(uint64_t key, size_t arm)
{
    const double x[2] = {number(key + 1), number(key + 2)};
    const struct kb_ev_slot slot = {world.arm[arm], NULL};
    snprintf(world.decision, sizeof world.decision, "d%zu", (size_t)key);
    live((struct kb_event){.type = KB_EV_DECIDED,
                           .as.decided = {.decision = world.decision,
                                          .user = world.user[pick(key + 3, N_USERS)],
                                          .context = x,
                                          .slots = &slot,
                                          .n_slots = 1,
                                          .propensity = 0.5,
                                          .expires_at_ms = INT64_MAX / 2}});
    if (key % 3 == 0)
        return; /* it stays open */
    live(kbt_rewarded(world.decision, 1));
    if (world.spec.aggregation == KB_AGG_SUM)
        live(kbt_rewarded(world.decision, -0.5));
}

static void step(uint64_t i)
{
    const uint64_t key = 1000 * (i + 1);
    const size_t arm = pick(key, N_ARMS - N_TWINS - N_FRESH);
    if (i == N_EVENTS / 2) {
        const char *const stopped[] = {world.arm[3], world.arm[9]};
        live((struct kb_event){.type = KB_EV_ARMS, .as.arms = {.stop = stopped, .n_stop = 2}});
    }
    if (i % 11 == 5 && arm >= N_TWINS)
        decide_and_correct(key, arm);
    else
        observe(key, arm);
    if (arm < N_TWINS && i % 11 != 5)
        observe(key, N_ARMS - N_FRESH - N_TWINS + arm);
}

static void expect_same(const struct kb_decision *all, const struct kb_decision *few)
{
    const size_t c = all->chosen;
    ck_assert_uint_eq(all->n, few->n);
    ck_assert_uint_eq(c, few->chosen);
    for (size_t i = 0; i < all->n; i++) {
        ck_assert_msg(memcmp(&all->propensity[i], &few->propensity[i], sizeof(double)) == 0,
                      "candidate %zu of %zu: %.17g in place of %.17g; mean %.17g, sd %.17g, predicted: %d", i, all->n,
                      few->propensity[i], all->propensity[i], all->mean[i], all->sd[i], !isnan(few->sd[i]));
        ck_assert(isnan(few->sd[i]) || memcmp(&all->mean[i], &few->mean[i], sizeof(double)) == 0);
        ck_assert(isnan(few->sd[i]) || memcmp(&all->sd[i], &few->sd[i], sizeof(double)) == 0);
        world.n_left_out += isnan(few->sd[i]) != 0;
    }
    ck_assert(!isnan(few->sd[c]));
    ck_assert(all->lower[c] == few->lower[c] && all->upper[c] == few->upper[c] && all->score[c] == few->score[c]);
    world.n_asked += all->n;
    world.n_completed += few->propensity[c] <= world.spec.rule.epsilon / (double)few->n;
}

static void ask(const struct kb_engine *few_of, uint64_t key)
{
    static const size_t sizes[] = {0, 1, 2, 5, 12, 20};
    const double x[2] = {number(key + 1), number(key + 2)};
    struct kb_candidate named[N_ARMS];
    struct kb_decision all, few;
    const size_t first = pick(key + 3, N_ARMS), n = sizes[pick(key + 4, 6)];
    struct kb_query q = {.user = number(key + 5) < 0.1 ? "stranger" : world.user[pick(key + 6, N_USERS)],
                         .context = x,
                         .candidates = named,
                         .n_candidates = n,
                         .key = key,
                         .is_unrouted = n == 1,
                         .now_ms = world.log.now_ms};
    for (size_t i = 0; i < n; i++)
        named[i] = (struct kb_candidate){.arm = world.arm[(first + 7 * i) % N_ARMS]};
    if (n == 2) /* one of them is unknown */
        named[1].arm = "new";
    ck_assert_int_eq(kb_engine_fit_scratch(world.log.live, world.scratch[0], n, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(world.log.live, &q, world.scratch[0], &all, NULL), KB_OK);
    q.n_shown = 1;
    ck_assert_int_eq(kb_engine_fit_scratch(few_of, world.scratch[1], n, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(few_of, &q, world.scratch[1], &few, NULL), KB_OK);
    expect_same(&all, &few);
}

START_TEST(a_decision_is_that_of_the_whole_computation)
{
    open_world((enum variant)_i);
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        step(i);
        for (uint64_t k = 0; i % EVERY == 0 && k < 20; k++)
            ask(world.log.live, 1000000 + 10000 * i + 50 * k);
    }
    if (_i == HALLUCINATE)
        ck_assert_uint_eq(world.n_left_out, 0);
    else
        ck_assert_uint_gt(world.n_left_out, world.n_asked / 4);
    ck_assert_uint_gt(world.n_completed, 10);
    struct kb_engine *read = kbt_log_reload(world.log.live);
    for (uint64_t k = 0; k < 100; k++)
        ask(read, 77 + 50 * k);
    kb_engine_free(read);
    close_world();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("lines", 300, {a_decision_is_that_of_the_whole_computation, N_VARIANTS});
}
