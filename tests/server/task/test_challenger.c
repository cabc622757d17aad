/* Challengers: scores by their definition, promotions as changes of a configuration, followers that are functions of
 * the log however it is cut, and the guardrail: which fires on a bad policy and not on an equal one. */
#include <math.h>

#include "task/challenger.h"
#include "task/challenger_scores.h"
#include "base/rng.h"
#include "tenant_fixture.h"

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* ---- promotions ------------------------------------------------------------------------------------------ */

static int promote(const struct ld_settings *now, const char *name, enum ld_promotion_reason reason,
                   struct ld_settings *out)
{
    struct ld_promotion p = {.reason = reason};
    struct ld_problem problem;

    ld_problem_init(&problem);
    strcpy(p.challenger, name);
    return ld_promote(now, 5, &p, out, &problem);
}

static const char *in_place(const struct ld_settings *s, size_t i)
{
    return i < s->n_challengers ? s->challenger[i].name : "";
}

START_TEST(a_promotion_swaps_and_a_rollback_swaps_back)
{
    const struct ld_settings first =
        fixture_settings("{\"algorithm\":\"ucb\",\"challengers\":{\"a\":{\"algorithm\":\"ts\"},\"b\":{\"algorithm\":"
                         "\"random\"}},\"guardrail\":{\"baseline\":\"a\"}}");
    struct ld_settings second, third, fourth;

    ck_assert_int_eq(promote(&first, "a", LD_PROMOTED_ON_REQUEST, &second), 0);
    ck_assert_str_eq(second.spec.algorithm, "ts");
    ck_assert_str_eq(in_place(&second, 0), "previous");
    ck_assert_str_eq(second.challenger[0].spec.algorithm, "ucb");
    ck_assert_str_eq(second.guardrail.baseline, "");
    ck_assert_int_eq(promote(&second, "a", LD_PROMOTED_ON_REQUEST, &third), 1);
    ck_assert_int_eq(promote(&second, "nobody", LD_PROMOTED_ON_REQUEST, &third), -1);

    ck_assert_int_eq(promote(&second, "b", LD_PROMOTED_BY_GUARDRAIL, &third), 0);
    ck_assert_str_eq(third.spec.algorithm, "random");
    ck_assert_uint_eq(third.n_challengers, 1);
    ck_assert_str_eq(third.challenger[0].spec.algorithm, "ts");

    ck_assert_int_eq(promote(&third, "", LD_PROMOTED_BY_ROLLBACK, &fourth), 0);
    ck_assert_str_eq(fourth.spec.algorithm, "ts");
    ck_assert_str_eq(in_place(&fourth, 0), "b");
    ck_assert_int_eq(promote(&fourth, "", LD_PROMOTED_BY_ROLLBACK, &third), -1);
    ck_assert_int_eq(promote(&first, "", LD_PROMOTED_BY_ROLLBACK, &third), -1);
}
END_TEST

/* ---- scores ---------------------------------------------------------------------------------------------- */

static struct kb_event decided(const char *id, const struct kb_ev_slot *slot, double propensity, int64_t at_ms)
{
    struct kb_event ev = {.type = KB_EV_DECIDED, .seq = 1, .at_ms = at_ms};

    ev.as.decided.decision = id;
    ev.as.decided.user = "u";
    ev.as.decided.slots = slot;
    ev.as.decided.n_slots = 1;
    ev.as.decided.propensity = propensity;
    ev.as.decided.expires_at_ms = at_ms + 1000;
    return ev;
}

static struct kb_event rewarded(const char *id, const char *arm, double reward, int64_t at_ms)
{
    struct kb_event ev = {.type = KB_EV_REWARDED, .at_ms = at_ms};

    ev.as.rewarded.decision = id;
    ev.as.rewarded.arm = arm;
    ev.as.rewarded.reward = reward;
    return ev;
}

static struct kb_event expired(const char *id, bool has_reward, double reward, int64_t at_ms)
{
    struct kb_event ev = {.type = KB_EV_EXPIRED, .at_ms = at_ms};

    ev.as.expired.decision = id;
    ev.as.expired.has_reward = has_reward;
    ev.as.expired.reward = reward;
    return ev;
}

static void follow(struct ld_scores *s, struct kb_event ev)
{
    ld_scores_follow(s, &ev);
}

static void decide(struct ld_scores *s, struct kb_event ev, double probability)
{
    ld_scores_decide(s, &ev, probability, 0);
    ld_scores_follow(s, &ev);
}

static const struct kb_ev_slot A = {.arm = "a"};

START_TEST(a_decision_counts_at_its_reward_or_when_its_window_is_over)
{
    static const struct {
        const char *settings;
        uint64_t n[4]; /* after the reward, the correction, the end of the windows, the expiry */
        double mean;
    } cases[] = {{"{\"algorithm\":\"ucb\",\"default_reward\":null,\"log_candidates\":true}", {1, 1, 1, 1}, 2},
                 {"{\"algorithm\":\"ucb\",\"log_candidates\":true,\"default_reward\":-1}", {0, 0, 1, 2}, 0.5},
                 {"{\"algorithm\":\"ucb\",\"default_reward\":null,\"log_candidates\":true,\"aggregation\":\"sum\"}",
                  {0, 0, 1, 1},
                  5},
                 {"{\"algorithm\":\"ucb\",\"default_reward\":null,\"log_candidates\":true,\"aggregation\":\"last\"}",
                  {0, 0, 1, 1},
                  3}};
    const struct ld_settings settings = fixture_settings(cases[_i].settings);
    const bool is_corrected = settings.spec.aggregation != KB_AGG_FIRST;
    struct ld_scores s = {0};

    ck_assert(!ld_scores_wants(&s));
    ld_scores_configure(&s, &settings, 3, "x");
    ck_assert(ld_scores_wants(&s));
    decide(&s, decided("d1", &A, 0.5, 0), 0.25);
    decide(&s, decided("d2", &A, 0.5, 0), 0.25);
    decide(&s, decided("d3", &A, 0.5, 0), (double)NAN);
    follow(&s, rewarded("d1", "b", 9, 1)); /* another slot's */
    follow(&s, rewarded("nobody", NULL, 9, 1));
    follow(&s, rewarded("d1", NULL, 2, 2));
    ck_assert_uint_eq(s.told.sums.n, cases[_i].n[0]);
    if (is_corrected)
        follow(&s, rewarded("d1", "a", 3, 3));
    ck_assert_uint_eq(s.told.sums.n, cases[_i].n[1]);
    follow(&s, (struct kb_event){.type = KB_EV_ARMS, .at_ms = 1000});
    ck_assert_uint_eq(s.told.sums.n, cases[_i].n[2]);
    follow(&s, expired("d2", settings.spec.has_default_reward, -1, 1001));
    ck_assert_uint_eq(s.told.sums.n, cases[_i].n[3]);
    ck_assert_double_eq(kb_snips_logged(&s.told.sums, 0.95).estimate, cases[_i].mean);
    ck_assert_double_eq(kb_snips_weight(&s.told.sums, 0.95).estimate, 0.5);
    ck_assert_uint_eq(s.told.n_unknown, 1);
    ck_assert_uint_eq(s.told.n_open, 0);
    ck_assert_uint_eq(s.told.n_unrewarded, settings.spec.has_default_reward ? 0 : 1);
    ld_scores_close(&s);
}
END_TEST

START_TEST(another_policy_in_force_begins_anew_and_another_challenger_does_not)
{
    const struct ld_settings one = fixture_settings(
                                 "{\"algorithm\":\"ucb\",\"default_reward\":null,\"log_candidates\":true}"),
                             same = fixture_settings(
                                 "{\"algorithm\":\"ucb\",\"default_reward\":null,\"challengers\":{\"y\":{}}}"),
                             silent = fixture_settings("{\"algorithm\":\"ucb\",\"default_reward\":null}"),
                             other = fixture_settings(
                                 "{\"algorithm\":\"ts\",\"default_reward\":null,\"log_candidates\":true}");
    struct ld_scores s = {0};

    ld_scores_configure(&s, &one, 1, "x");
    decide(&s, decided("d", &A, 1, 0), 1);
    follow(&s, rewarded("d", NULL, 1, 0));
    decide(&s, decided("open", &A, 1, 0), 1);
    ld_scores_configure(&s, &same, 2, "x");
    ck_assert(s.told.sums.n == 1 && s.told.n_open == 1 && s.told.since == 1 && s.told.version == 2);
    ld_scores_configure(&s, &silent, 3, "x");
    ck_assert(s.told.sums.n == 1 && !ld_scores_wants(&s));
    ld_scores_configure(&s, &other, 4, "x");
    ck_assert(s.told.sums.n == 0 && s.told.n_open == 0 && s.told.since == 4 && ld_scores_wants(&s));
    ld_scores_close(&s);
}
END_TEST

/* Decisions open and close in any order: a table that loses one, or finds one that has gone, counts otherwise. */
START_TEST(no_open_decision_is_lost_among_many)
{
    enum { N = 4000 };
    static bool is_open[N];
    const struct ld_settings settings =
        fixture_settings("{\"algorithm\":\"ucb\",\"default_reward\":null,\"log_candidates\":true}");
    struct ld_scores s = {0};
    uint64_t n_open = 0, n_scored = 0;
    char id[16];

    memset(is_open, 0, sizeof is_open);
    ld_scores_configure(&s, &settings, 1, "x");
    for (uint64_t step = 0; step < 40000; step++) {
        const size_t i = (size_t)(uniform(1, step) * N);

        snprintf(id, sizeof id, "d%zu", i);
        if (is_open[i]) {
            follow(&s, rewarded(id, NULL, 1, 0));
            n_scored++;
        } else {
            decide(&s, decided(id, &A, 1, 0), 1);
        }
        is_open[i] = !is_open[i];
        n_open += is_open[i] ? 1 : (uint64_t)-1;
        ck_assert_uint_eq(s.told.n_open, n_open);
        ck_assert_uint_eq(s.told.sums.n, n_scored);
    }
    ck_assert_uint_eq(s.told.n_lost, 0);
    ld_scores_close(&s);
}
END_TEST

/* ---- the guardrail, by scores ------------------------------------------------------------------------------ */

static const struct ld_settings *guarded(const char *more)
{
    static struct ld_settings settings;
    char text[512];

    snprintf(text, sizeof text,
             "{\"algorithm\":\"random\",%s\"challengers\":{\"x\":{}},\"guardrail\":{\"baseline\":\"x\","
             "\"min_decisions\":200}}",
             more);
    settings = fixture_settings(text);
    return &settings;
}

/* In force: arm b with probability p, which pays `pays_b` where a pays 0.4. The baseline shows b with q. Decisions
 * until there is a verdict, or n. */
static uint64_t until_verdict(uint64_t seed, double p, double q, double pays_b, uint64_t n, enum ld_guard_verdict *out)
{
    static const struct kb_ev_slot slot[2] = {{.arm = "a"}, {.arm = "b"}};
    const double share = fmin(p / q, (1 - p) / (1 - q));
    struct ld_scores s = {0};
    char id[24];
    uint64_t i = 0;

    ld_scores_configure(&s, guarded("\"default_reward\":null,"), 1, "x");
    for (; i < n && s.told.guard.verdict == LD_GUARD_GOES_ON; i++) {
        const size_t arm = uniform(seed, 2 * i) < p;
        const struct kb_ev_odds odds[2] = {{"a", 1 - p}, {"b", p}};
        struct kb_event ev;

        snprintf(id, sizeof id, "d%llu", (unsigned long long)i);
        ev = decided(id, &slot[arm], arm == 1 ? p : 1 - p, 0);
        ev.as.decided.odds = odds;
        ev.as.decided.n_odds = 2;
        ld_scores_decide(&s, &ev, arm == 1 ? q : 1 - q, share);
        follow(&s, rewarded(id, NULL, uniform(seed, 2 * i + 1) < (arm == 1 ? pays_b : 0.4), 0));
    }
    *out = s.told.guard.verdict;
    ld_scores_close(&s);
    return i;
}

START_TEST(the_guardrail_fires_on_a_bad_policy_and_not_on_an_equal_one)
{
    enum ld_guard_verdict verdict;
    size_t n_better = 0, n_worse = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        ck_assert_uint_lt(until_verdict(seed, 0.5, 0.9, 0.8, 3000, &verdict), 3000);
        ck_assert_int_eq(verdict, LD_GUARD_BETTER);
        ck_assert_uint_lt(until_verdict(seed, 0.5, 0.1, 0.8, 3000, &verdict), 3000);
        ck_assert_int_eq(verdict, LD_GUARD_WORSE);
    }
    for (uint64_t seed = 1; seed <= 400; seed++) { /* looked at after each of 3,000 decisions */
        (void)until_verdict(1000 + seed, seed % 2 ? 0.5 : 0.9, 0.7, 0.4, 3000, &verdict);
        n_better += verdict == LD_GUARD_BETTER;
        n_worse += verdict == LD_GUARD_WORSE;
    }
    ck_assert_uint_le(n_better, 33); /* each has a level of a twentieth: 20, and three deviations */
    ck_assert_uint_le(n_worse, 33);
    ck_assert_uint_ge(until_verdict(7, 0.5, 0.9, 1, 3000, &verdict), 200); /* min_decisions */
}
END_TEST

/* Of what arms that the log never shows would have earned nothing is known. */
START_TEST(the_guardrail_waits_where_the_log_has_no_chance_in_it)
{
    const struct kb_ev_odds sure = {"a", 1};
    struct ld_scores s = {0};
    char id[24];

    ld_scores_configure(&s, guarded("\"default_reward\":null,"), 1, "x");
    for (uint64_t i = 0; i < 1000; i++) {
        const bool agrees = i % 2 == 0, is_told = i % 4 != 1;
        struct kb_event ev;

        snprintf(id, sizeof id, "d%llu", (unsigned long long)i);
        ev = decided(id, &A, 1, 0);
        ev.as.decided.odds = is_told ? &sure : NULL;
        ev.as.decided.n_odds = is_told;
        ld_scores_decide(&s, &ev, agrees ? 1 : 0, agrees && is_told ? 1 : 0);
        follow(&s, rewarded(id, NULL, agrees, 0));
    }
    ck_assert_uint_eq(s.told.guard.pair.n, 500);
    ck_assert(s.told.guard.pair.score == 0 && s.told.guard.verdict == LD_GUARD_GOES_ON);
    ck_assert_uint_eq(s.told.guard.n_untold, 250);
    ld_scores_close(&s);
}
END_TEST

/* A decision of an even draw at 100, whose window closes at 1000 and of which the guardrail's group has a half. */
static void decide_by_odds(struct ld_scores *s, const char *id)
{
    static const struct kb_ev_odds odds[2] = {{"a", 0.5}, {"b", 0.5}};
    struct kb_event ev = decided(id, &A, 0.5, 100);

    ev.as.decided.odds = odds;
    ev.as.decided.n_odds = 2;
    ev.as.decided.expires_at_ms = 1000;
    ld_scores_decide(s, &ev, 0.25, 0.5);
    ld_scores_follow(s, &ev);
}

/* Rewards that come in any order are added in that of the decisions; one that does not come holds up the others. */
START_TEST(the_guardrail_adds_decisions_in_their_order)
{
    struct ld_scores s = {0};
    char id[24];

    ld_scores_configure(&s, guarded("\"default_reward\":null,"), 1, "x");
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "d%d", i);
        decide_by_odds(&s, id);
    }
    follow(&s, rewarded("d1", NULL, 1, 200));
    follow(&s, rewarded("d3", NULL, 1, 200));
    ck_assert_uint_eq(s.told.sums.n, 2);
    ck_assert_uint_eq(s.told.guard.pair.n, 0);
    follow(&s, rewarded("d0", NULL, 0, 300));
    ck_assert_uint_eq(s.told.guard.pair.n, 2);
    /* (w - s) (r - q): w = 0.5 0.25 / 0.5, s = 0.5; q is 1/2, then (0 + 1/2) / 2 */
    ck_assert_double_eq_tol(s.told.guard.pair.score, -0.25 * (0 - 0.5) - 0.25 * (1 - 0.25), 1e-15);
    ck_assert_double_eq(s.told.guard.pair.weight, 1);
    follow(&s, (struct kb_event){.type = KB_EV_EXPIRED, .at_ms = 1000, .as.expired = {.decision = "d2"}});
    ck_assert_uint_eq(s.told.guard.pair.n, 3); /* the one without a reward does not count */
    ck_assert(s.n_due == 0 && s.told.n_unrewarded == 1);
    ld_scores_close(&s);
}
END_TEST

/* The server was away: what its windows have closed is told one line after the other, hours later. */
START_TEST(after_a_pause_the_guardrail_takes_those_without_a_reward_too)
{
    const int64_t back_ms = 1000 + 2 * 3600 * 1000;
    struct ld_scores s = {0};
    char id[24];

    ld_scores_configure(&s, guarded("\"default_reward\":0,"), 1, "x");
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "d%d", i);
        decide_by_odds(&s, id);
    }
    for (int i = 0; i < 100; i += 10) {
        snprintf(id, sizeof id, "d%d", i);
        follow(&s, rewarded(id, NULL, 1, 200));
    }
    for (int i = 0; i < 100; i++)
        if (i % 10 != 0) {
            snprintf(id, sizeof id, "d%d", i);
            follow(&s, expired(id, true, 0, back_ms));
        }
    ck_assert_uint_eq(s.told.guard.pair.n, 100);
    ck_assert_uint_eq(s.told.sums.n, 100);
    ck_assert(s.n_due == 0 && s.told.n_open == 0);
    ld_scores_close(&s);
}
END_TEST

/* Whoever was erased has no line that closes a window: an hour of a log that goes on, and it is given up. */
START_TEST(a_line_that_never_comes_holds_the_guardrail_up_for_an_hour_of_events)
{
    struct ld_scores s = {0};

    ld_scores_configure(&s, guarded("\"default_reward\":0,"), 1, "x");
    decide_by_odds(&s, "gone");
    decide_by_odds(&s, "d");
    follow(&s, expired("d", true, 0, 1000));
    for (int64_t minute = 1; minute <= 60; minute++) {
        ck_assert_uint_eq(s.told.guard.pair.n, 0);
        follow(&s, (struct kb_event){.type = KB_EV_ARMS, .at_ms = 1000 + minute * 60 * 1000});
    }
    ck_assert_uint_eq(s.told.guard.pair.n, 1);
    follow(&s, expired("gone", true, 1, 1000 + 62 * 60 * 1000)); /* after all: it is in no line any more */
    ck_assert_uint_eq(s.told.guard.pair.n, 1);
    ck_assert(s.n_due == 0 && s.told.n_open == 0);
    ld_scores_close(&s);
}
END_TEST

START_TEST(rewards_beyond_the_range_prove_nothing_unless_it_was_told)
{
    static const struct kb_ev_slot slot[2] = {{.arm = "a"}, {.arm = "b"}};
    const struct kb_ev_odds odds[2] = {{"a", 0.5}, {"b", 0.5}};
    for (int is_told = 0; is_told < 2; is_told++) {
        struct ld_settings settings = *guarded("\"default_reward\":null,");
        struct ld_scores s = {0};
        char id[24];

        settings.guardrail.has_range = is_told;
        settings.guardrail.low = 0;
        settings.guardrail.high = 10;
        ld_scores_configure(&s, &settings, 1, "x");
        for (uint64_t i = 0; i < 2000; i++) {
            const size_t arm = i % 2;
            struct kb_event ev;

            snprintf(id, sizeof id, "d%llu", (unsigned long long)i);
            ev = decided(id, &slot[arm], 0.5, 0);
            ev.as.decided.odds = odds;
            ev.as.decided.n_odds = 2;
            ld_scores_decide(&s, &ev, arm ? 1 : 0, 0.5);
            follow(&s, rewarded(id, NULL, arm ? 8 : 2, 0));
        }
        ck_assert_uint_eq(s.told.guard.n_clipped, is_told ? 0 : 2000);
        ck_assert_int_eq(s.told.guard.verdict, is_told ? LD_GUARD_BETTER : LD_GUARD_GOES_ON);
        ck_assert_double_eq_tol(kb_pair_estimate(&s.told.guard.pair), is_told ? 0.3 : 0, 0.01);
        ld_scores_close(&s);
    }
}
END_TEST

/* ---- followers ----------------------------------------------------------------------------------------------- */

#define FOLLOWED                                                                                                       \
    "{\"algorithm\":\"random\",\"default_reward\":null,\"context_dim\":1,\"challengers\":{\"kors\":{\"algorithm\":"    \
    "\"laplaced\",\"rule\":{"                                                                                          \
    "\"type\":\"thompson\"}},\"exact\":{\"algorithm\":\"gp-ucb\",\"rule\":{\"epsilon\":0.2}}}}"

/* Decisions n at a time, and their rewards: the better the arm's letter comes. */
static void traffic(struct fixture *f, int first, int n)
{
    struct ld_op *op[64];
    char text[4096] = "[", id[16];

    for (int i = 0; i < n; i++) {
        char body[96];

        snprintf(body, sizeof body, "{\"user\":\"u%d\"%s}", i % 5,
                 f->settings.spec.context_dim > 0 ? ",\"context\":[0.5]" : "");
        snprintf(id, sizeof id, "d%d", first + i);
        op[i] = op_select(f->t, body, id);
        ld_tenant_submit(f->t, op[i]);
    }
    run_all(f->t);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(op[i]->problem->status, 0);
        const char arm = strstr(op[i]->reply, "\"arm\":\"")[7];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s{\"decision\":\"d%d\",\"reward\":%d}",
                 i > 0 ? "," : "", first + i, arm == 'a' ? 1 : 0);
        ld_op_free(op[i]);
    }
    strcat(text, "]");
    expect_status(f->t, op_rewards(f->t, text), 200);
}

static void arms(struct fixture *f)
{
    expect_status(f->t, op_arms(f->t, "{\"arms\":[\"a\",\"b\",\"c\",\"d\"]}"), 200);
}

static size_t views(struct fixture *f, struct ld_challenger_view out[LD_MAX_CHALLENGERS])
{
    ld_tasks_at(f->t, LD_AT_TICK);
    while (ld_tasks_have_run(f->t))
        ld_tasks_finish(f->t);
    return ld_challengers_view(f->t, out);
}

static void expect_same(const struct ld_challenger_view *a, const struct ld_challenger_view *b)
{
    ck_assert_str_eq(a->settings.name, b->settings.name);
    ck_assert(a->has_digest && b->has_digest && a->digest == b->digest && a->seq == b->seq);
    ck_assert(memcmp(&a->scores.sums, &b->scores.sums, sizeof a->scores.sums) == 0);
    ck_assert_uint_eq(a->scores.n_open, b->scores.n_open);
    ck_assert_uint_eq(a->scores.since, b->scores.since);
}

START_TEST(a_challenger_is_a_function_of_the_log_however_it_is_cut)
{
    struct ld_challenger_view often[LD_MAX_CHALLENGERS], once[LD_MAX_CHALLENGERS];
    struct fixture f;

    fixture_open(&f, FOLLOWED);
    arms(&f);
    for (int i = 0; i < 6; i++) {
        traffic(&f, 40 * i, 7 * i + 3);
        ck_assert_uint_eq(views(&f, often), 2);
    }
    ck_assert_uint_eq(often[0].seq, counts_of(f.t).seq);
    ck_assert_uint_eq(often[0].scores.sums.n, 123);
    ck_assert(often[0].scores.sums.w > 0 && often[0].digest != often[1].digest);
    fixture_restart(&f);
    ck_assert_uint_eq(views(&f, once), 2);
    for (size_t i = 0; i < 2; i++)
        expect_same(&once[i], &often[i]);
    fixture_close(&f);
}
END_TEST

START_TEST(a_challenger_that_is_declared_later_has_read_all_and_others_stay)
{
    static const char *const more =
        "{\"algorithm\":\"random\",\"default_reward\":null,\"context_dim\":1,\"challengers\":{\"late\":{\"algorithm\":"
        "\"gp-ucb\",\"rule\":{"
        "\"epsilon\":0.2}},\"exact\":{\"algorithm\":\"gp-ucb\",\"rule\":{\"epsilon\":0.2}}}}";
    struct ld_challenger_view before[LD_MAX_CHALLENGERS], after[LD_MAX_CHALLENGERS];
    struct fixture f;

    fixture_open(&f, FOLLOWED);
    arms(&f);
    traffic(&f, 0, 40);
    ck_assert_uint_eq(views(&f, before), 2);
    expect_status(f.t, op_settings(more), 200);
    ck_assert_uint_eq(views(&f, after), 2);
    ck_assert_str_eq(after[0].settings.name, "late");
    ck_assert_uint_eq(after[0].digest, after[1].digest);
    ck_assert(memcmp(&after[0].scores.sums, &after[1].scores.sums, sizeof after[0].scores.sums) == 0);
    ck_assert(memcmp(&before[1].scores.sums, &after[1].scores.sums, sizeof after[0].scores.sums) == 0);
    expect_status(f.t, op_settings("{\"algorithm\":\"random\",\"default_reward\":null,\"context_dim\":1}"), 200);
    ck_assert_uint_eq(views(&f, after), 0);
    ck_assert_uint_eq(ld_challengers_bytes(f.t), 0);
    fixture_close(&f);
}
END_TEST

/* A guardrail over a log whose policy in force is bad. */
static void open_guarded(struct fixture *f)
{
    fixture_open(f, "{\"algorithm\":\"random\",\"default_reward\":null,\"challengers\":{\"careful\":{\"algorithm\":"
                    "\"ucb\",\"rule\":{"
                    "\"epsilon\":0.1}}},\"guardrail\":{\"baseline\":\"careful\",\"min_decisions\":100}}");
    arms(f);
    for (int i = 0; i < 14; i++)
        traffic(f, 50 * i, 50);
}

/* Scored, and put in force by the tenant's own writer. */
START_TEST(a_bad_policy_in_force_is_demoted_by_one_configuration)
{
    struct ld_challenger_view view[LD_MAX_CHALLENGERS];
    struct fixture f;

    open_guarded(&f);
    ck_assert_uint_eq(views(&f, view), 1);
    ck_assert(view[0].scores.guard.verdict == LD_GUARD_BETTER);
    ck_assert_uint_eq(counts_of(f.t).version, 1);
    run_all(f.t);
    const struct ld_settings *now;
    ck_assert_ptr_nonnull(ld_tenant_read_lock(f.t, &now));
    ck_assert_str_eq(now->spec.algorithm, "ucb");
    ck_assert_str_eq(now->challenger[0].name, "previous");
    ck_assert_int_eq(now->promotion.reason, LD_PROMOTED_BY_GUARDRAIL);
    ld_tenant_read_unlock(f.t);
    ck_assert_uint_eq(counts_of(f.t).version, 2);
    ck_assert_uint_eq(f.metrics.guardrail_promotions, 1);
    views(&f, view);
    run_all(f.t);
    ck_assert_uint_eq(counts_of(f.t).version, 2);
    ck_assert_uint_eq(view[0].scores.sums.n, 0);
    fixture_close(&f);
}
END_TEST

/* What the guardrail decided on has changed before its turn came. */
START_TEST(a_person_who_was_faster_than_the_guardrail_has_the_last_word)
{
    struct ld_challenger_view view[LD_MAX_CHALLENGERS];
    struct fixture f;

    open_guarded(&f);
    struct ld_op *op = op_settings("{\"algorithm\":\"ts\",\"challengers\":{\"careful\":{\"algorithm\":\"ucb\"}}}");
    ld_tenant_submit(f.t, op);
    ck_assert_uint_eq(views(&f, view), 1);
    ck_assert(view[0].scores.guard.verdict == LD_GUARD_BETTER);
    run_all(f.t);
    ck_assert_int_eq(op->problem->status, 0);
    ld_op_free(op);
    ck_assert_uint_eq(counts_of(f.t).version, 2);
    ck_assert_uint_eq(f.metrics.guardrail_promotions, 0);
    fixture_close(&f);
}
END_TEST

START_TEST(what_was_forgotten_is_read_again)
{
    struct ld_challenger_view before[LD_MAX_CHALLENGERS], after[LD_MAX_CHALLENGERS];
    struct fixture f;

    fixture_open(&f, FOLLOWED);
    arms(&f);
    traffic(&f, 0, 30);
    views(&f, before);
    ld_challengers_forget(f.t);
    ck_assert_uint_eq(ld_challengers_view(f.t, after), 2);
    ck_assert(after[0].seq == 0 && after[0].scores.sums.n == 0);
    views(&f, after);
    expect_same(&after[0], &before[0]);
    expect_same(&after[1], &before[1]);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "challenger", 60, {a_promotion_swaps_and_a_rollback_swaps_back, 1},
        {a_decision_counts_at_its_reward_or_when_its_window_is_over, 4},
        {another_policy_in_force_begins_anew_and_another_challenger_does_not, 1},
        {no_open_decision_is_lost_among_many, 1}, {the_guardrail_fires_on_a_bad_policy_and_not_on_an_equal_one, 1},
        {the_guardrail_waits_where_the_log_has_no_chance_in_it, 1}, {the_guardrail_adds_decisions_in_their_order, 1},
        {after_a_pause_the_guardrail_takes_those_without_a_reward_too, 1},
        {a_line_that_never_comes_holds_the_guardrail_up_for_an_hour_of_events, 1},
        {rewards_beyond_the_range_prove_nothing_unless_it_was_told, 1},
        {a_challenger_is_a_function_of_the_log_however_it_is_cut, 1},
        {a_challenger_that_is_declared_later_has_read_all_and_others_stay, 1},
        {a_bad_policy_in_force_is_demoted_by_one_configuration, 1},
        {a_person_who_was_faster_than_the_guardrail_has_the_last_word, 1}, {what_was_forgotten_is_read_again, 1});
}
