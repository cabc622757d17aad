/* The pair e-process against its definition: constants, inequality, intervals by an evaluation over all decisions. */
#include <math.h>

#include "base/rng.h"
#include "inference/sequences.h"
#include "inference/verdict.h"
#include "kbt.h"

#define N_BETS 24
#define LOG_40 3.68887945411393630285 /* log(2 / 0.05) */

static double uniform(uint64_t key, size_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* In long loops: libcheck keeps a record of every assertion. */
static void add(struct kb_pair *p, double p_base, double p_arm, bool is_arm, double reward, double reach)
{
    if (!kb_pair_add(p, p_base, p_arm, is_arm, reward, reach))
        ck_abort_msg("%g, %g with reward %g and reach %g was refused", p_base, p_arm, reward, reach);
}

/* --- the definition, in long double, over all decisions ---------------------------------------------------------- */

struct bet {
    long double size, weight, fourth;
};

/* k_j by its series where the closed form would cancel: -log(1 - l) - l - l^2/2 - l^3/3 = l^4/4 + l^5/5 + ... */
static long double fourth_of(long double l)
{
    long double sum = 0, power = l * l * l * l;
    for (int i = 4; i < 2000; i++, power *= l)
        sum += power / i;
    return sum;
}

static void make_bets(struct bet *bet)
{
    const long double sharpest = sqrtl(2 * logl(40) / 200);
    long double sum = 0, l = 0.95L;
    for (int j = 0; j < N_BETS; j++, l /= 1.5L) {
        bet[j] = (struct bet){l, l * sharpest / (l * l + sharpest * sharpest), fourth_of(l)};
        sum += bet[j].weight;
    }
    for (int j = 0; j < N_BETS; j++)
        bet[j].weight /= sum;
}

/* One decision of a pair. */
struct row {
    double p_base, p_arm, reward;
    bool is_arm;
};

/* log E+ (is_above) or log E- against delta: each decision's exponents are added up bet by bet, the guess is the mean
 * of what came before with half a decision of 1/2 to it. */
static long double log_e(const struct row *row, size_t n, double reach, double delta, bool is_above)
{
    struct bet bet[N_BETS];
    long double term[N_BETS] = {0}, most = -INFINITY, sum = 0, earlier = 0.5L;
    size_t count = 1;
    make_bets(bet);
    for (size_t i = 0; i < n; i++) {
        if (row[i].p_base == 0 || row[i].p_arm == 0)
            continue;
        const long double pi = (long double)row[i].p_arm / ((long double)row[i].p_base + row[i].p_arm);
        const long double g = ((row[i].is_arm ? 1 : 0) - pi) * (row[i].reward - earlier / count);
        const long double sign = is_above ? 1 : -1, x = sign * g / reach, shift = sign * pi * (1 - pi) * delta / reach;
        for (int j = 0; j < N_BETS; j++) {
            const long double y = bet[j].size * x;
            term[j] += y - bet[j].size * shift - y * y / 2 + y * y * y / 3 - bet[j].fourth * x * x * x * x;
        }
        earlier += row[i].reward;
        count++;
    }
    for (int j = 0; j < N_BETS; j++)
        most = fmaxl(most, term[j] + logl(bet[j].weight));
    for (int j = 0; j < N_BETS; j++)
        sum += expl(term[j] + logl(bet[j].weight) - most);
    return most + logl(sum);
}

/* The effect at which log E reaches the level; log E+ falls in delta, log E- rises. */
static double end_of(const struct row *row, size_t n, double reach, double level, bool is_above)
{
    double refuted = is_above ? -1 : 1, kept = -refuted;
    if (log_e(row, n, reach, refuted, is_above) < level)
        return refuted;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (refuted + kept);
        if (log_e(row, n, reach, middle, is_above) >= level)
            refuted = middle;
        else
            kept = middle;
    }
    return refuted;
}

/* --- logs --------------------------------------------------------------------------------------------------- */

#define N_ROWS 3000

struct history {
    struct row row[N_ROWS];
    struct kb_pair pair;
    double reach;
};

/* Propensities that change with every decision, above a floor; a third of rewards are between 0 and 1. */
static void make_log(struct history *told, uint64_t key, size_t n, double floor, double rate, double effect)
{
    told->pair = (struct kb_pair){0};
    told->reach = 1 - floor;
    for (size_t i = 0; i < n; i++) {
        struct row *r = &told->row[i];
        const double other = 0.3 * uniform(key, 5 * i), share = floor + (1 - 2 * floor) * uniform(key, 5 * i + 1);
        *r = (struct row){.p_base = (1 - other) * (1 - share), .p_arm = (1 - other) * share};
        r->is_arm = uniform(key, 5 * i + 2) < share;
        const double p = rate + (r->is_arm ? effect : 0);
        r->reward = uniform(key, 5 * i + 3) < p ? 1 : 0;
        if (i % 3 == 0)
            r->reward *= uniform(key, 5 * i + 4);
        if (i % 50 == 7)
            r->is_arm ? (r->p_base = 0) : (r->p_arm = 0);
        add(&told->pair, r->p_base, r->p_arm, r->is_arm, r->reward, told->reach);
    }
}

/* --- cases -------------------------------------------------------------------------------------------------- */

START_TEST(e_values_are_those_of_the_definition)
{
    static struct history told;
    const double deltas[] = {-0.3, -0.01, 0, 0.05, 0.9};
    for (uint64_t key = 1; key <= 6; key++) {
        const size_t n = (size_t[]){1, 2, 40, 500, 3000, 3000}[key - 1];
        make_log(&told, key, n, key % 2 ? 0.01 : 0.3, 0.2, 0.1);
        for (size_t d = 0; d < 5; d++) {
            for (int above = 0; above < 2; above++)
                ck_assert(kbt_close(kb_pair_log_e(&told.pair, told.reach, deltas[d], above),
                                    (double)log_e(told.row, n, told.reach, deltas[d], above), 1e-10));
        }
    }
}
END_TEST

START_TEST(intervals_are_those_of_the_definition)
{
    static struct history told;
    for (uint64_t key = 1; key <= 8; key++) {
        const size_t n = (size_t[]){1, 30, 200, 1000, 3000, 3000, 3000, 3000}[key - 1];
        const double level = key % 2 ? LOG_40 : log(2 * 4 / 0.01);
        double low, high;
        make_log(&told, 10 + key, n, key % 2 ? 0.02 : 0.4, 0.3, key > 4 ? -0.2 : 0.3);
        kb_pair_interval(&told.pair, told.reach, level, &low, &high);
        ck_assert(kbt_close(low, end_of(told.row, n, told.reach, level, true), 1e-9));
        ck_assert(kbt_close(high, end_of(told.row, n, told.reach, level, false), 1e-9));
        ck_assert(low <= high);
    }
}
END_TEST

START_TEST(both_ends_of_an_interval_are_where_the_e_values_reach_the_level)
{
    static struct history told;
    double low, high;
    make_log(&told, 30, N_ROWS, 0.1, 0.5, 0.05);
    kb_pair_interval(&told.pair, told.reach, LOG_40, &low, &high);
    ck_assert(low > -1 && high < 1 && low < high);
    ck_assert(fabs(kb_pair_log_e(&told.pair, told.reach, low, true) - LOG_40) < 1e-9);
    ck_assert(fabs(kb_pair_log_e(&told.pair, told.reach, high, false) - LOG_40) < 1e-9);
}
END_TEST

START_TEST(the_bound_before_the_first_decision_is_the_mixture_s_own)
{
    /* sum_j w_j exp(l_j x) = 40, by bisection over the definition's weights */
    struct bet bet[N_BETS];
    long double lo = 0, hi = 50;
    make_bets(bet);
    for (int i = 0; i < 100; i++) {
        long double x = (lo + hi) / 2, sum = 0;
        for (int j = 0; j < N_BETS; j++)
            sum += bet[j].weight * expl(bet[j].size * x);
        *(sum < 40 ? &lo : &hi) = x;
    }
    ck_assert(fabs(kb_pair_bound(0, 0, 0, LOG_40) - (double)lo) < 1e-12);
    ck_assert(fabs((double)lo - 6.639) < 5e-4);
}
END_TEST

/* log of the mixture at x, in long double. */
static long double mixture(double x, double square, double cube, double fourth)
{
    struct bet bet[N_BETS];
    long double term[N_BETS], most = -INFINITY, sum = 0;
    make_bets(bet);
    for (int j = 0; j < N_BETS; j++) {
        const long double l = bet[j].size;
        term[j] = logl(bet[j].weight) + l * x - l * l * square / 2 + l * l * l * cube / 3 - bet[j].fourth * fourth;
        most = fmaxl(most, term[j]);
    }
    for (int j = 0; j < N_BETS; j++)
        sum += expl(term[j] - most);
    return most + logl(sum);
}

START_TEST(the_bound_solves_its_equation_over_nine_orders_of_magnitude)
{
    for (double square = 0.01; square <= 1.01e6; square *= 1.37) {
        for (int skew = -4; skew <= 4; skew++) {
            for (int tail = 0; tail < 4; tail++) {
                /* of |x| <= 1: |cube| <= square, cube^2 / square <= fourth <= square */
                const double cube = square * skew / 4, least = cube * cube / square;
                const double fourth = least + (square - least) * tail / 3;
                for (int level = 0; level < 3; level++) {
                    const double want = (double[]){log(1 / 0.05), LOG_40, 30}[level];
                    const double x = kb_pair_bound(square, cube, fourth, want);
                    const long double residual = mixture(x, square, cube, fourth) - (long double)want;
                    if (!(fabsl(residual) < 1e-9L))
                        ck_abort_msg("V %g, S3 %g, S4 %g, level %g: %Lg", square, cube, fourth, want, residual);
                }
            }
        }
    }
}
END_TEST

/* exp(l x - l^2 x^2/2 + l^3 x^3/3 - k x^4) <= 1 + l x for x in [-1, 1], which is what makes it a supermartingale. */
START_TEST(no_bet_pays_more_than_a_fair_one)
{
    struct bet bet[N_BETS];
    make_bets(bet);
    for (int j = 0; j < N_BETS; j++) {
        for (int i = -3000; i <= 3000; i++) {
            const long double x = i / 3000.0L, y = bet[j].size * x;
            const long double paid = expl(y - y * y / 2 + y * y * y / 3 - bet[j].fourth * x * x * x * x);
            if (!(paid <= (1 + y) * (1 + 8e-17L)))
                ck_abort_msg("bet %d at x = %Lg", j, x);
        }
    }
}
END_TEST

START_TEST(exchanging_the_arms_turns_the_interval_round)
{
    static struct history told;
    struct kb_pair turned = {0};
    double low, high, low_turned, high_turned;
    make_log(&told, 40, 2000, 0.05, 0.3, 0.1);
    for (size_t i = 0; i < 2000; i++) {
        const struct row *r = &told.row[i];
        add(&turned, r->p_arm, r->p_base, !r->is_arm, r->reward, told.reach);
    }
    kb_pair_interval(&told.pair, told.reach, LOG_40, &low, &high);
    kb_pair_interval(&turned, told.reach, LOG_40, &low_turned, &high_turned);
    ck_assert(kbt_close(low, -high_turned, 1e-12) && kbt_close(high, -low_turned, 1e-12));
    ck_assert(kbt_close(kb_pair_estimate(&told.pair), -kb_pair_estimate(&turned), 1e-12));
    ck_assert(kbt_close(kb_pair_log_e(&told.pair, told.reach, 0.02, true),
                        kb_pair_log_e(&turned, told.reach, -0.02, false), 1e-12));
}
END_TEST

START_TEST(without_decisions_nothing_is_refuted)
{
    struct kb_pair p = {0};
    double low, high;
    kb_pair_interval(&p, 1, LOG_40, &low, &high);
    ck_assert(low == -1 && high == 1 && isnan(kb_pair_estimate(&p)));
    ck_assert(fabs(kb_pair_log_e(&p, 1, 0, true)) < 1e-15);
    /* what has no choice in it tells nothing and teaches the guess nothing */
    ck_assert(kb_pair_add(&p, 1, 0, false, 1, 0.5) && kb_pair_add(&p, 0, 0.2, true, 1, 0.5));
    ck_assert(p.n == 0 && p.reward == 0 && p.weight == 0 && !p.is_broken);
}
END_TEST

static void expect_broken(struct kb_pair p, double p_base, double p_arm, double reward, double reach)
{
    double low, high;
    ck_assert(!kb_pair_add(&p, p_base, p_arm, true, reward, reach));
    ck_assert(p.is_broken);
    kb_pair_interval(&p, reach, LOG_40, &low, &high);
    ck_assert(low == -1 && high == 1 && isnan(kb_pair_estimate(&p)));
    ck_assert(kb_pair_log_e(&p, reach, 0, true) == 0 && kb_pair_log_e(&p, reach, 0, false) == 0);
    const struct kb_pair before = p;
    ck_assert(!kb_pair_add(&p, 0.5, 0.5, true, 1, 1));
    ck_assert(p.n == before.n && p.score == before.score && p.is_broken);
}

START_TEST(a_promise_that_is_broken_ends_all_verdicts)
{
    struct kb_pair p = {0};
    for (int i = 0; i < 1000; i++)
        add(&p, 0.5, 0.5, i % 2, i % 2, 0.5);
    ck_assert(kb_pair_estimate(&p) > 0.9);
    expect_broken(p, 0.4, 0.6, 0.5, 0.5);
    expect_broken(p, 0.6, 0.4, 0.5, 0.5);
    expect_broken(p, 0.5, 0.5, 1.0001, 0.5);
    expect_broken(p, 0.5, 0.5, -1e-9, 0.5);
    expect_broken(p, 0.5, 0.5, NAN, 0.5);
    expect_broken(p, NAN, 0.5, 0.5, 0.5);
    expect_broken(p, 0.5, -0.1, 0.5, 0.5);
    expect_broken(p, 1.5, 0.5, 0.5, 1);
    expect_broken(p, 0.5, 0.5, 0.5, NAN);
}
END_TEST

START_TEST(reaches_told_beforehand_are_never_passed)
{
    const size_t n_arms[] = {2, 3, 10};
    for (size_t a = 0; a < 3; a++) {
        for (double epsilon = 0; epsilon <= 1; epsilon += 1.0 / 64) {
            const double n = (double)n_arms[a], reach = kb_reach_of_floor(epsilon, n_arms[a]);
            struct kb_pair p = {0};
            for (int i = 0; i <= 100; i++) { /* the two share what is not explored, and others may have some of it */
                const double all = i % 2 ? 1 : 0.7, part = i / 100.0;
                const double p_base = (1 - epsilon) * all * (1 - part) + epsilon / n;
                const double p_arm = (1 - epsilon) * all * part + epsilon / n;
                add(&p, fmin(1, p_base), fmin(1, p_arm), i % 3 == 0, i % 5 == 0, reach);
            }
        }
    }
    for (double share = 0.01; share < 1; share += 0.07) {
        struct kb_pair p = {0};
        for (size_t i = 0; i < 100; i++)
            add(&p, 0.8 * (1 - share), 0.8 * share, i % 2, 1, kb_reach_of_split(1 - share, share));
    }
}
END_TEST

START_TEST(the_same_decisions_in_the_same_order_give_the_same_bits)
{
    static struct history one, two;
    make_log(&one, 50, N_ROWS, 0.05, 0.3, 0.1);
    make_log(&two, 50, N_ROWS, 0.05, 0.3, 0.1);
    ck_assert_mem_eq(&one.pair.weight, &two.pair.weight, 6 * sizeof(double));
    ck_assert_uint_eq(one.pair.n, two.pair.n);
}
END_TEST

START_TEST(very_large_sums_stay_finite)
{
    const struct kb_pair p = {
        .n = 1000000000000, .weight = 2.5e11, .score = 1e11, .square = 2e11, .cube = 1e11, .fourth = 1e11};
    double low, high;
    kb_pair_interval(&p, 1, LOG_40, &low, &high);
    ck_assert(low > 0.3999 && low < 0.4 && high > 0.4 && high < 0.4001);
    ck_assert(isfinite(kb_pair_log_e(&p, 1, 0, true)) && kb_pair_log_e(&p, 1, 0, true) > 1e6);
    ck_assert(isfinite(kb_pair_log_e(&p, 1, 0, false)));
}
END_TEST

int main(void)
{
    return KBT_RUN("pair", e_values_are_those_of_the_definition, intervals_are_those_of_the_definition,
                   both_ends_of_an_interval_are_where_the_e_values_reach_the_level,
                   the_bound_before_the_first_decision_is_the_mixture_s_own,
                   the_bound_solves_its_equation_over_nine_orders_of_magnitude, no_bet_pays_more_than_a_fair_one,
                   exchanging_the_arms_turns_the_interval_round, without_decisions_nothing_is_refuted,
                   a_promise_that_is_broken_ends_all_verdicts, reaches_told_beforehand_are_never_passed,
                   the_same_decisions_in_the_same_order_give_the_same_bits, very_large_sums_stay_finite);
}
