/* Estimators of decisions with slots, in worlds whose values are known: exact, over a log that has each answer as often
 * as its logging policy would give it, and by simulation. Each is right where its assumption holds, and is seen to be
 * wrong where it does not. */
#include <math.h>
#include <string.h>

#include "kbt.h"
#include "base/rng.h"
#include "evaluate/ope.h"

#define N_SLOTS 3
#define N_ARMS 3
#define N_DRAWS 20000

enum world {
    PRODUCT,     /* slots are drawn independently, and each tells its reward */
    TOLD_FIRST,  /* the same, but the sum of the rewards is told of the first slot */
    DEPENDENT,   /* the second slot is drawn by what the first shows; its reward and the target know nothing of it */
    INTERACTION, /* slots are drawn independently; reward and target of the second know what the first shows */
    ALONE        /* one slot */
};

static const double REWARD[N_SLOTS][N_ARMS] = {{0.2, 0.9, 0.4}, {0.1, 0.5, 0.8}, {0.7, 0.3, 0.6}};
static const double TARGET[N_SLOTS][N_ARMS] = {{0.6, 0.3, 0.1}, {0.1, 0.2, 0.7}, {0.25, 0.25, 0.5}};
static const int WEIGHT[N_SLOTS][N_ARMS] = {{2, 1, 3}, {1, 2, 1}, {1, 1, 1}}; /* of the logging policy */

static enum world world;
static bool is_simulated;
static double scale = 1;                                      /* of the rewards behind the first slot */
static double known_lo = (double)NAN, known_hi = (double)NAN; /* rewards, as the caller knows them */

/* --- the world ------------------------------------------------------------------------------------------- */

static size_t n_slots(void)
{
    return world == ALONE ? 1 : N_SLOTS;
}

static int weight(size_t slot, const size_t *shown, size_t arm)
{
    return WEIGHT[slot][world == DEPENDENT && slot == 1 ? (arm + shown[0]) % N_ARMS : arm];
}

static double share(size_t slot, const size_t *shown, size_t arm)
{
    double sum = 0;

    for (size_t a = 0; a < N_ARMS; a++)
        sum += weight(slot, shown, a);
    return weight(slot, shown, arm) / sum;
}

static double target(size_t slot, size_t before, size_t arm)
{
    return TARGET[slot][world == INTERACTION && slot == 1 ? (arm + before) % N_ARMS : arm];
}

static double reward(size_t slot, const size_t *shown)
{
    return (slot > 0 ? scale : 1) * REWARD[slot][shown[slot]] *
           (world == INTERACTION && slot == 1 && shown[0] == 0 ? 0.5 : 1);
}

/* Sums over all answers of all slots: what the target earns; and what it would earn in each slot behind what the log
 * showed. */
static void values(double *whole, double *by_slot)
{
    *whole = *by_slot = 0;
    for (size_t i = 0; i < N_ARMS * N_ARMS * N_ARMS; i++) {
        const size_t shown[N_SLOTS] = {i % N_ARMS, i / N_ARMS % N_ARMS, i / N_ARMS / N_ARMS};
        double pi = 1, mu = 1;

        for (size_t s = 0; s < N_SLOTS; s++)
            pi *= target(s, shown[0], shown[s]);
        for (size_t s = 0; s < N_SLOTS; s++) {
            /* slots behind this one are summed over: count each answer up to it once */
            bool is_first = true;
            for (size_t later = s + 1; later < N_SLOTS; later++)
                is_first = is_first && shown[later] == 0;
            if (is_first)
                *by_slot += mu * target(s, shown[0], shown[s]) * reward(s, shown);
            mu *= share(s, shown, shown[s]);
            *whole += pi * reward(s, shown);
        }
    }
}

/* --- a log of it ------------------------------------------------------------------------------------------- */

static int give(struct ld_decisions *log, const struct ld_decisions_pass *pass, const size_t *shown)
{
    static const uint32_t arms[N_SLOTS][N_ARMS] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}};
    static const char *const names[N_SLOTS] = {"0", "1", "2"};
    struct ld_logged slot[N_SLOTS];
    double total = 0;

    for (size_t s = 0; s < n_slots(); s++) {
        slot[s] = (struct ld_logged){.user = "u",
                                     .slot = names[s],
                                     .stratum = (uint32_t)shown[0],
                                     .n = N_ARMS,
                                     .arm = arms[s],
                                     .chosen = shown[s],
                                     .propensity = share(s, shown, shown[s]),
                                     .reward = reward(s, shown)};
        total += slot[s].reward;
    }
    for (size_t s = 0; world == TOLD_FIRST && s < N_SLOTS; s++)
        slot[s].reward = s == 0 ? total : (double)NAN;
    slot[0].more = slot + 1;
    slot[0].n_more = n_slots() - 1;
    return ld_decisions_judge(log, &slot[0], 1) == 1 ? pass->decision(pass->arg, &slot[0]) : -1;
}

static int enumerate(struct ld_decisions *log, const struct ld_decisions_pass *pass)
{
    const size_t n = n_slots() == 1 ? N_ARMS : N_ARMS * N_ARMS * N_ARMS;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const size_t shown[N_SLOTS] = {i % N_ARMS, i / N_ARMS % N_ARMS, i / N_ARMS / N_ARMS};
        int times = 1;
        for (size_t s = 0; s < n_slots(); s++)
            times *= weight(s, shown, shown[s]);
        for (int k = 0; rc == 0 && k < times; k++)
            rc = give(log, pass, shown);
    }
    return rc;
}

static int simulate(struct ld_decisions *log, const struct ld_decisions_pass *pass)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < N_DRAWS; k++) {
        size_t shown[N_SLOTS] = {0};
        for (size_t s = 0; s < n_slots(); s++) {
            double u = kb_rng_uniform(7, KB_STREAM_FEATURES, N_SLOTS * k + s);
            while (shown[s] + 1 < N_ARMS && u >= share(s, shown, shown[s]))
                u -= share(s, shown, shown[s]++);
        }
        rc = give(log, pass, shown);
    }
    return rc;
}

static int pass_over(struct ld_decisions *log, const struct ld_decisions_pass *pass)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

    ld_decisions_begin(log);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        (void)ld_decisions_arm(log, ids[i]);
    return is_simulated ? simulate(log, pass) : enumerate(log, pass);
}

/* --- estimates --------------------------------------------------------------------------------------------- */

static int propensities(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                        const double **out, struct ld_message *why)
{
    static double pi[N_ARMS];

    (void)p, (void)log, (void)why;
    for (size_t a = 0; a < N_ARMS; a++)
        pi[a] = target((size_t)(ev->slot[0] - '0'), ev->stratum, a);
    *out = pi;
    return 0;
}

static void estimate(enum world of, bool by_chance, struct ld_ope_result *out)
{
    static const struct ld_ope_policy_ops ops = {"known", propensities, NULL, NULL, NULL};
    const struct ld_decisions_options reading = {.default_reward = (double)NAN};
    struct ld_ope_options o = {.level = 0.95,
                               .n_resamples = 200,
                               .seed = 3,
                               .clip = 10,
                               .max_unsupported = 0.05,
                               .reward_lo = known_lo,
                               .reward_hi = known_hi};
    struct ld_ope_policy policy = {.ops = &ops};
    struct ld_message why = {""};
    struct ld_decisions log;

    world = of;
    is_simulated = by_chance;
    o.is_wanted[LD_OPE_IPS] = o.is_wanted[LD_OPE_BY_SLOT] = o.is_wanted[LD_OPE_PSEUDO] = true;
    ck_assert_int_eq(ld_decisions_init(&log, &reading), 0);
    log.pass = pass_over;
    ck_assert_msg(ld_ope_evaluate(&log, &policy, &o, out, &why) == 0, "%s", why.text);
    ck_assert_str_eq(out->estimate[LD_OPE_BY_SLOT].refused, "");
    ck_assert_str_eq(out->estimate[LD_OPE_PSEUDO].refused, "");
    ld_decisions_close(&log);
}

#define BY_SLOT(r) ((r).estimate[LD_OPE_BY_SLOT].value)
#define PSEUDO(r) ((r).estimate[LD_OPE_PSEUDO].value)
#define EXACT 1e-12
#define WRONG 0.01

START_TEST(both_are_exact_where_slots_are_independent)
{
    struct ld_ope_result r;
    double whole, by_slot;

    estimate(PRODUCT, false, &r);
    values(&whole, &by_slot);
    ck_assert_double_eq_tol(whole, by_slot, EXACT);
    ck_assert_double_eq_tol(BY_SLOT(r), whole, EXACT);
    ck_assert_double_eq_tol(PSEUDO(r), whole, EXACT);
    ck_assert_double_gt(fabs(r.logged_total.value - whole), WRONG); /* it is no accident */
    ck_assert_uint_eq(r.slots.most, N_SLOTS);
    ld_ope_close(&r);
}
END_TEST

/* Nobody says which slot earned what: the pseudo-inverse finds it, the other counts all for the first. */
START_TEST(the_pseudo_inverse_needs_the_sum_alone)
{
    struct ld_ope_result r;
    double whole, by_slot;

    estimate(TOLD_FIRST, false, &r);
    values(&whole, &by_slot);
    ck_assert_double_eq_tol(PSEUDO(r), whole, EXACT);
    ck_assert_double_gt(fabs(BY_SLOT(r) - whole), WRONG);
    ld_ope_close(&r);
}
END_TEST

START_TEST(by_slot_needs_no_product)
{
    struct ld_ope_result r;
    double whole, by_slot;

    estimate(DEPENDENT, false, &r);
    values(&whole, &by_slot);
    ck_assert_double_eq_tol(BY_SLOT(r), whole, EXACT);
    ck_assert_double_gt(fabs(PSEUDO(r) - whole), WRONG);
    ld_ope_close(&r);
}
END_TEST

/* What it says is what the target earns behind what the log showed, and not behind what itself would have shown. */
START_TEST(by_slot_is_the_value_behind_the_slots_as_logged)
{
    struct ld_ope_result r;
    double whole, by_slot;

    estimate(INTERACTION, false, &r);
    values(&whole, &by_slot);
    ck_assert_double_eq_tol(BY_SLOT(r), by_slot, EXACT);
    ck_assert_double_gt(fabs(by_slot - whole), WRONG);
    ld_ope_close(&r);
}
END_TEST

START_TEST(one_slot_is_ips_to_the_last_digit)
{
    for (int by_chance = 0; by_chance < 2; by_chance++) {
        struct ld_ope_result r;
        struct ld_ope_difference gain[LD_OPE_N];

        estimate(ALONE, by_chance == 1, &r);
        ck_assert_uint_lt(r.slots.most, 2);
        for (int kind = LD_OPE_BY_SLOT; kind < LD_OPE_N; kind++)
            ck_assert_mem_eq(&r.estimate[kind], &r.estimate[LD_OPE_IPS], sizeof r.estimate[kind]);
        ck_assert_mem_eq(&r.logged_total, &r.logged, sizeof r.logged);
        for (int kind = LD_OPE_IPS; kind < LD_OPE_N; kind += LD_OPE_BY_SLOT - LD_OPE_IPS) {
            struct ld_ope_bootstrap how = {.level = 0.95, .n = 100, .seed = 1};
            ck_assert_int_eq(ld_ope_bootstrap_init(&how), 0);
            ck_assert(ld_ope_compare(&r, NULL, kind, &how, &gain[kind]));
            ck_assert_double_eq(gain[kind].value, gain[LD_OPE_IPS].value);
            ld_ope_bootstrap_close(&how);
        }
        ld_ope_close(&r);
    }
}
END_TEST

START_TEST(draws_come_to_the_same_within_their_error)
{
    static const enum world worlds[] = {PRODUCT, TOLD_FIRST, DEPENDENT, INTERACTION};

    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        struct ld_ope_result r;
        double whole, by_slot;

        estimate(worlds[i], true, &r);
        values(&whole, &by_slot);
        const struct ld_ope_estimate *slots = &r.estimate[LD_OPE_BY_SLOT], *pseudo = &r.estimate[LD_OPE_PSEUDO];
        if (worlds[i] != TOLD_FIRST)
            ck_assert_double_lt(fabs(slots->value - by_slot), 4 * slots->error);
        if (worlds[i] == PRODUCT || worlds[i] == TOLD_FIRST)
            ck_assert_double_lt(fabs(pseudo->value - whole), 4 * pseudo->error);
        ck_assert(slots->error > 0 && pseudo->error > 0 && pseudo->error < 0.05);
        ck_assert(pseudo->bernstein.lower < pseudo->interval.lower && pseudo->interval.upper < pseudo->bernstein.upper);
        ld_ope_close(&r);
    }
}
END_TEST

/* The bounds need what any slot can earn: the same as when the caller says it, and the first slot's stay as they are.
 */
START_TEST(the_range_of_rewards_is_that_of_all_slots)
{
    const int kinds[] = {LD_OPE_BY_SLOT, LD_OPE_PSEUDO};
    struct ld_ope_result seen, said;

    scale = 100;
    estimate(PRODUCT, true, &seen);
    known_lo = 0;
    known_hi = 80; /* 0.8 in the second slot */
    estimate(PRODUCT, true, &said);
    scale = 1;
    known_lo = known_hi = (double)NAN;
    for (size_t i = 0; i < 2; i++) {
        const struct ld_ope_interval *a = &seen.estimate[kinds[i]].bernstein, *b = &said.estimate[kinds[i]].bernstein;
        ck_assert(a->lower == b->lower && a->upper == b->upper);
    }
    ck_assert(seen.logged_total.bernstein.lower == said.logged_total.bernstein.lower);
    ck_assert(seen.logged_total.bernstein.upper == said.logged_total.bernstein.upper);
    ck_assert(seen.reward_lo == 0 && seen.reward_hi == 1);
    ld_ope_close(&seen);
    ld_ope_close(&said);
}
END_TEST

/* Rewards are from 0.5 to 4, but a slot without one earns 0. */
START_TEST(totals_reach_down_to_slots_without_a_reward)
{
    struct ld_ope_result r;

    known_lo = 0.5;
    known_hi = 4;
    estimate(TOLD_FIRST, true, &r);
    known_lo = known_hi = (double)NAN;
    const struct ld_ope_interval want =
        ld_ope_series_bernstein(&r.slots.totals, 0.95, N_SLOTS * 4.0, 0.5, N_SLOTS * 4.0);
    ck_assert(r.logged_total.bernstein.lower == want.lower && r.logged_total.bernstein.upper == want.upper);
    ld_ope_close(&r);
}
END_TEST

int main(void)
{
    return KBT_RUN("estimates of slots", both_are_exact_where_slots_are_independent,
                   the_pseudo_inverse_needs_the_sum_alone, by_slot_needs_no_product,
                   by_slot_is_the_value_behind_the_slots_as_logged, one_slot_is_ips_to_the_last_digit,
                   draws_come_to_the_same_within_their_error, the_range_of_rewards_is_that_of_all_slots,
                   totals_reach_down_to_slots_without_a_reward);
}
