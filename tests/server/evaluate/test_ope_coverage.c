/* Intervals of estimates over many simulated logs whose truth is known: they must cover it as often as they say, for
 * policies that stand still and for one that learns; and controls that break a premise must be noticed.
 *
 *   world    a visitor of one of three kinds (the stratum), four arms, rewards 0 or 1 with probability MEAN[kind][arm]
 *   logging  softmax-like shares that depend on the kind, never below 0.05
 *   target   other shares; or UCB, whose truth is the mean of its own propensities' values along the log
 *
 * 200 runs at 95 %: fewer than 181 covered have a probability of 0.1 % when the level is kept. */
#include <math.h>
#include <string.h>

#include "kbt.h"
#include "evaluate/ope.h"
#include "base/rng.h"

#define N_RUNS 200
#define N_EVENTS 600
#define N_KINDS 3
#define N_ARMS 4
#define AT_LEAST 181
#define LIE_AT_MOST 100

static const double MEAN[N_KINDS][N_ARMS] = {{0.1, 0.3, 0.5, 0.7}, {0.6, 0.4, 0.2, 0.1}, {0.3, 0.3, 0.8, 0.2}};
static const double LOGGING[N_KINDS][N_ARMS] = {{0.55, 0.3, 0.1, 0.05}, {0.1, 0.2, 0.3, 0.4}, {0.25, 0.25, 0.25, 0.25}};
static const double TARGET[N_KINDS][N_ARMS] = {{0.1, 0.1, 0.3, 0.5}, {0.5, 0.3, 0.1, 0.1}, {0.1, 0.1, 0.7, 0.1}};

/* --- a source that reads nothing ---------------------------------------------------------------------------- */

static uint64_t run_key;
static bool is_lying; /* the log tells equal propensities, which they were not */

static size_t draw(const double *share, double u)
{
    size_t i = 0;

    for (; i + 1 < N_ARMS && u >= share[i]; i++)
        u -= share[i];
    return i;
}

static double chance(size_t k, size_t which)
{
    return kb_rng_uniform(run_key, KB_STREAM_FEATURES, 3 * k + which);
}

static int simulate(struct ld_decisions *log, const struct ld_decisions_pass *pass)
{
    static const char *const arms[N_ARMS] = {"a", "b", "c", "d"};

    ld_decisions_begin(log);
    for (size_t i = 0; i < N_ARMS; i++)
        ld_decisions_offer(log, ld_decisions_arm(log, arms[i]), true);
    for (size_t k = 0; k < N_EVENTS; k++) {
        struct ld_logged ev = {.user = "u", .stratum = (uint32_t)(chance(k, 0) * N_KINDS)};
        const size_t arm = draw(LOGGING[ev.stratum], chance(k, 1));

        ev.propensity = is_lying ? 1.0 / N_ARMS : LOGGING[ev.stratum][arm];
        ev.reward = chance(k, 2) < MEAN[ev.stratum][arm] ? 1 : 0;
        ld_decisions_candidates(log, (uint32_t)arm, &ev);
        if (ld_decisions_judge(log, &ev, 1) != 1 || pass->decision(pass->arg, &ev) != 0)
            return -1;
    }
    return 0;
}

/* --- policies ------------------------------------------------------------------------------------------------ */

struct known {
    struct ld_ope_policy base;
    struct ld_ope_policy *inner; /* NULL: TARGET */
    double truth;                /* sum over events */
    size_t n;
};

/* The value of the propensities at this event, whoever the visitor is: E over kinds where they do not see the kind. */
static void book(struct known *p, const struct ld_logged *ev, const double *pi)
{
    p->n++;
    for (size_t a = 0; a < N_ARMS; a++)
        p->truth += pi[a] * MEAN[ev->stratum][a];
}

static int known_propensities(struct ld_ope_policy *base, const struct ld_decisions *log, const struct ld_logged *ev,
                              const double **out, struct ld_message *why)
{
    struct known *p = (struct known *)base;
    int rc = 0;

    if (p->inner != NULL)
        rc = p->inner->ops->propensities(p->inner, log, ev, out, why);
    else
        *out = TARGET[ev->stratum];
    if (rc == 0)
        book(p, ev, *out);
    return rc;
}

static int known_learn(struct ld_ope_policy *base, const struct ld_decisions *log, const struct ld_logged *ev,
                       struct ld_message *why)
{
    struct known *p = (struct known *)base;

    return p->inner->ops->learn(p->inner, log, ev, why);
}

static const struct ld_ope_policy_ops still_ops = {"still", known_propensities, NULL, NULL, NULL};
static const struct ld_ope_policy_ops learning_ops = {"learning", known_propensities, known_learn, NULL, NULL};

/* --- runs ---------------------------------------------------------------------------------------------------- */

struct score {
    size_t covered[LD_OPE_N], concentrated[LD_OPE_N], refused;
};

static double still_truth(void)
{
    double v = 0;

    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (size_t a = 0; a < N_ARMS; a++)
            v += TARGET[kind][a] * MEAN[kind][a] / N_KINDS;
    return v;
}

static void judge_run(const struct ld_ope_result *r, double truth, struct score *s)
{
    for (int i = 0; i < LD_OPE_N; i++) {
        const struct ld_ope_estimate *e = &r->estimate[i];
        if (e->refused[0] != '\0') {
            s->refused++;
            continue;
        }
        s->covered[i] += e->interval.lower <= truth && truth <= e->interval.upper;
        s->concentrated[i] += e->bernstein.lower <= truth && truth <= e->bernstein.upper;
    }
}

static void one_run(uint64_t run, bool learns, struct score *s)
{
    const struct ld_ope_options o = {.is_wanted = {true, true, true, true, true, true, true},
                                     .level = 0.95,
                                     .n_resamples = 300,
                                     .seed = run,
                                     .clip = 1e9,
                                     .max_unsupported = 0.05,
                                     .reward_lo = (double)NAN,
                                     .reward_hi = (double)NAN};
    struct known policy = {.base.ops = learns ? &learning_ops : &still_ops};
    const struct ld_decisions_options options = {.default_reward = (double)NAN};
    struct ld_ope_result r;
    struct kb_spec spec;
    struct ld_decisions log;
    struct ld_message why = {""};

    run_key = 1000 + run;
    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    if (learns)
        policy.inner = ld_ope_policy_learning(&spec, NULL, &why);
    ck_assert_int_eq(ld_decisions_init(&log, &options), 0);
    log.pass = simulate;
    ck_assert_msg(ld_ope_evaluate(&log, &policy.base, &o, &r, &why) == 0, "%s", why.text);
    judge_run(&r, learns ? policy.truth / (double)policy.n : still_truth(), s);
    ld_ope_close(&r);
    ld_decisions_close(&log);
    ld_ope_policy_free(policy.inner);
}

static struct score all_runs(bool learns)
{
    struct score s = {{0}, {0}, 0};

    for (uint64_t run = 0; run < N_RUNS; run++)
        one_run(run, learns, &s);
    ck_assert_uint_eq(s.refused, 0);
    return s;
}

START_TEST(intervals_cover_the_truth_as_often_as_they_say)
{
    const struct score s = all_runs(false);

    for (int i = 0; i < LD_OPE_N; i++) {
        ck_assert_msg(s.covered[i] >= AT_LEAST, "%s covers %zu", ld_ope_name(i), s.covered[i]);
        ck_assert_msg(s.concentrated[i] >= AT_LEAST, "%s by Bernstein covers %zu", ld_ope_name(i), s.concentrated[i]);
    }
}
END_TEST

/* The truth is that of the histories it really had; visitors' kinds are part of it, so that only the draw of arms and
 * rewards is left to chance, and intervals, which allow for visitors too, are wider than they would have to be. */
START_TEST(intervals_cover_what_a_learning_policy_was_worth)
{
    const struct score s = all_runs(true);

    for (int i = LD_OPE_IPS; i < LD_OPE_N; i++)
        ck_assert_msg(s.covered[i] >= AT_LEAST, "%s covers %zu", ld_ope_name(i), s.covered[i]);
}
END_TEST

/* Control: the same test must fail where propensities are false. */
START_TEST(a_log_that_lies_about_its_propensities_is_not_covered)
{
    is_lying = true;
    const struct score s = all_runs(false);
    is_lying = false;

    ck_assert_uint_lt(s.covered[LD_OPE_IPS], LIE_AT_MOST);
    ck_assert_uint_lt(s.covered[LD_OPE_SNIPS], LIE_AT_MOST);
    ck_assert_uint_lt(s.covered[LD_OPE_DR], LIE_AT_MOST);
}
END_TEST

int main(void)
{
    return KBT_RUN("ope coverage", intervals_cover_the_truth_as_often_as_they_say,
                   intervals_cover_what_a_learning_policy_was_worth,
                   a_log_that_lies_about_its_propensities_is_not_covered);
}
