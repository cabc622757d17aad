/* Lists of changes (e-BH), and guardrails that are looked at after every decision: the share of what is told without
 * need is within its level, and what is there is found. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "inference/sequences.h"
#include "kbt.h"

START_TEST(the_list_is_as_long_as_it_can_be)
{
    const double e[] = {50, 13.5, 14, 1, 0.2};
    double log_e[5];
    bool is_found[5];
    for (int i = 0; i < 5; i++)
        log_e[i] = log(e[i]);
    /* of four at 0.1: 40 / k; 14 is none for k = 2, and 13.5 is one for k = 3 */
    ck_assert_uint_eq(kb_find_changes(log_e, 4, 0.1, is_found), 3);
    ck_assert(is_found[0] && is_found[1] && is_found[2] && !is_found[3]);
    ck_assert_uint_eq(kb_find_changes(log_e, 5, 0.1, is_found), 1);
    ck_assert(is_found[0] && !is_found[1]);
    log_e[0] = log(49.99);
    ck_assert_uint_eq(kb_find_changes(log_e, 5, 0.1, is_found), 0);
    ck_assert_uint_eq(kb_find_changes(log_e, 0, 0.1, is_found), 0);
}
END_TEST

START_TEST(equal_evidence_is_told_alike)
{
    const double log_e[4] = {log(10.01), log(10.01), log(10.01), log(10.01)};
    bool is_found[4];
    ck_assert_uint_eq(kb_find_changes(log_e, 4, 0.1, is_found), 4);
}
END_TEST

#define N_METRICS 8
#define N_CHANGED 3 /* of them, where there is an effect */
#define N_DECISIONS 1500u
#define N_RUNS 300u
#define LEVEL 0.1

struct dice {
    uint64_t key, index;
};

static double roll(struct dice *d)
{
    return kb_rng_uniform(d->key, KB_STREAM_SIMULATION, d->index++);
}

/* A split; metrics of one decision depend on each other by a shared draw. */
static void decide(struct kb_pair *p, struct dice *d, double effect)
{
    const bool is_arm = roll(d) < 0.5;
    const double shared = roll(d);

    for (int m = 0; m < N_METRICS; m++) {
        const double u = m % 2 ? shared : roll(d);
        const double rate = 0.3 + (is_arm && m < N_CHANGED ? effect : 0);
        (void)kb_pair_add(&p[m], 0.5, 0.5, is_arm, u < rate ? 1 : 0, 0.5);
    }
}

static double log_e_of(const struct kb_pair *p)
{
    const double up = kb_pair_log_e(p, 0.5, 0, true), down = kb_pair_log_e(p, 0.5, 0, false);
    return fmax(up, down) + log1p(exp(-fabs(up - down))) - log(2);
}

/* The list at the moment at which it is longest, the worst that a team could wait for within the run, and at the end.
 */
START_TEST(few_of_the_changes_that_are_told_are_none)
{
    const double effect = _i == 0 ? 0 : 0.2;
    double false_share = 0, found = 0;
    for (unsigned run = 0; run < N_RUNS; run++) {
        struct dice dice = {.key = 1000u * (unsigned)_i + run};
        struct kb_pair p[N_METRICS];
        double share = 0;
        size_t most = 0;
        memset(p, 0, sizeof p);
        for (unsigned n = 1; n <= N_DECISIONS; n++) {
            double log_e[N_METRICS];
            bool is_found[N_METRICS];
            size_t n_false = 0;
            decide(p, &dice, effect);
            if (n % 10 != 0)
                continue;
            for (int m = 0; m < N_METRICS; m++)
                log_e[m] = log_e_of(&p[m]);
            const size_t n_found = kb_find_changes(log_e, N_METRICS, LEVEL, is_found);
            for (int m = effect > 0 ? N_CHANGED : 0; m < N_METRICS; m++)
                n_false += is_found[m];
            if (n_found > most) { /* a stop: the first list of its length */
                most = n_found;
                share = (double)n_false / (double)n_found;
            }
            if (n == N_DECISIONS)
                found += (double)(n_found - n_false) / N_CHANGED;
        }
        false_share += share;
    }
    /* the mean of N_RUNS shares within [0, 1], two standard deviations of a share that is 0 or 1 beside it */
    ck_assert_double_le(false_share / N_RUNS, LEVEL + 2 * sqrt(LEVEL * (1 - LEVEL) / N_RUNS));
    if (effect > 0)
        ck_assert_double_gt(found / N_RUNS, 0.9);
}
END_TEST

/* One side, at its own level, at every decision: without a fall beyond what is tolerated (here exactly at it) the alarm
 * is within the level; the same look at a normal bound is not, which is the control. */
START_TEST(a_guardrail_is_seldom_harmed_without_need)
{
    static const double harm = 0.1;
    unsigned n_harmed = 0, n_naive = 0, n_found = 0;
    for (unsigned run = 0; run < N_RUNS; run++)
        for (int is_worse = 0; is_worse < 2; is_worse++) {
            struct dice dice = {.key = 77000u + 2 * run + (unsigned)is_worse};
            struct kb_pair p = {.n = 0};
            bool is_harmed = false, is_naive = false;
            for (unsigned n = 1; n <= N_DECISIONS; n++) {
                const bool is_arm = roll(&dice) < 0.5;
                const double rate = 0.4 - (is_arm ? harm + 0.2 * is_worse : 0);
                (void)kb_pair_add(&p, 0.5, 0.5, is_arm, roll(&dice) < rate, 0.5);
                is_harmed |= kb_pair_log_e(&p, 0.5, -harm, false) >= log(1 / LEVEL);
                const double z = (p.score + harm * p.weight) / sqrt(p.square + 1e-300);
                is_naive |= n >= 60 && z < -1.2816;
            }
            n_harmed += is_worse == 0 && is_harmed;
            n_naive += is_worse == 0 && is_naive;
            n_found += is_worse == 1 && is_harmed;
        }
    ck_assert_double_le(n_harmed, N_RUNS * LEVEL + 2.5 * sqrt(N_RUNS * LEVEL * (1 - LEVEL)));
    ck_assert_double_gt(n_naive, N_RUNS * LEVEL + 2.5 * sqrt(N_RUNS * LEVEL * (1 - LEVEL)));
    ck_assert_uint_gt(n_found, N_RUNS * 9 / 10);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("many", 120, {the_list_is_as_long_as_it_can_be, 1}, {equal_evidence_is_told_alike, 1},
                         {few_of_the_changes_that_are_told_are_none, 2},
                         {a_guardrail_is_seldom_harmed_without_need, 1});
}
