/* What an arm earned where it was shown, and the check of traffic, against their definitions and exact distributions.
 */
#include <math.h>

#include "base/rng.h"
#include "inference/sequences.h"
#include "kbt.h"

static double uniform(uint64_t key, size_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* --- shown means
 * ------------------------------------------------------------------------------------------------------ */

/* M(m) for rewards of 0 and 1 as a product of one-step predictions, each (hits + 1/2) / (count + 1) against m. */
static long double log_m(uint64_t hits, uint64_t n, long double m)
{
    long double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const bool is_hit = i < hits; /* the order does not matter */
        const long double seen = is_hit ? (long double)i : (long double)(i - hits);
        sum += logl((seen + 0.5L) / ((long double)i + 1)) - logl(is_hit ? m : 1 - m);
    }
    return sum;
}

static struct kb_shown shown(uint64_t hits, uint64_t n)
{
    struct kb_shown s = {0};
    for (uint64_t i = 0; i < n; i++)
        if (!kb_shown_add(&s, i < hits))
            ck_abort_msg("a reward of 0 or 1 was refused");
    return s;
}

START_TEST(shown_means_are_where_the_product_of_predictions_reaches_the_level)
{
    const uint64_t cases[][2] = {{0, 1}, {1, 1}, {0, 50}, {3, 50}, {50, 50}, {500, 1000}, {7, 100000}, {99990, 100000}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const double alpha = c % 2 ? 0.05 : 0.01;
        const struct kb_shown s = shown(cases[c][0], cases[c][1]);
        double low, high;
        kb_shown_interval(&s, alpha, &low, &high);
        const long double level = logl(1 / (long double)alpha);
        if (cases[c][0] == 0)
            ck_assert(low == 0);
        else
            ck_assert(fabsl(log_m(cases[c][0], cases[c][1], low) - level) < 1e-6L);
        if (cases[c][0] == cases[c][1])
            ck_assert(high == 1);
        else
            ck_assert(fabsl(log_m(cases[c][0], cases[c][1], high) - level) < 1e-6L);
        ck_assert(low < high);
    }
}
END_TEST

START_TEST(an_arm_that_was_not_shown_may_have_any_mean)
{
    struct kb_shown s = {0};
    double low, high;
    kb_shown_interval(&s, 0.05, &low, &high);
    ck_assert(low == 0 && high == 1);
    ck_assert(!kb_shown_add(&s, -0.1) && !kb_shown_add(&s, 1.1) && !kb_shown_add(&s, NAN));
    ck_assert(s.n == 0 && s.reward == 0);
}
END_TEST

/* Moments of Beta(1/2 + s, 1/2 + n - s) by midpoints, in the variable whose density is smooth: m = sin^2 u. */
START_TEST(the_posterior_s_moments_are_those_of_its_density)
{
    const uint64_t cases[][2] = {{0, 0}, {0, 3}, {2, 5}, {40, 100}};
    for (size_t c = 0; c < 4; c++) {
        const struct kb_shown s = shown(cases[c][0], cases[c][1]);
        double mass = 0, first = 0, second = 0, mean, sd;
        for (int i = 0; i < 4000; i++) {
            const double u = M_PI_2 * (i + 0.5) / 4000, m = sin(u) * sin(u);
            const double f = pow(m, s.reward) * pow(1 - m, (double)s.n - s.reward);
            mass += f, first += f * m, second += f * m * m;
        }
        kb_shown_posterior(&s, &mean, &sd);
        ck_assert(kbt_close(mean, first / mass, 1e-10));
        ck_assert(kbt_close(sd * sd, second / mass - first / mass * first / mass, 1e-10));
    }
}
END_TEST

/* Rates of misses over runs that look after every decision. */
START_TEST(shown_means_are_missed_in_fewer_runs_than_the_level_however_often_one_looks)
{
    const double rates[] = {0.5, 0.05};
    for (size_t r = 0; r < 2; r++) {
        unsigned n_missed = 0;
        for (uint64_t run = 0; run < 200; run++) {
            struct kb_shown s = {0};
            bool is_missed = false;
            for (size_t i = 0; i < 1000 && !is_missed; i++) {
                double low, high;
                if (!kb_shown_add(&s, uniform(1000 + run, i) < rates[r]))
                    ck_abort_msg("a reward of 0 or 1 was refused");
                kb_shown_interval(&s, 0.05, &low, &high);
                is_missed = rates[r] < low || rates[r] > high;
            }
            n_missed += is_missed;
        }
        ck_assert_uint_le(n_missed, 27); /* P(Bin(200, 0.05) > 27) < 1e-6 */
    }
}
END_TEST

/* --- traffic
 * ------------------------------------------------------------------------------------------------------------ */

static long double traffic_e(const struct kb_traffic *t, size_t n_arms)
{
    long double sum = 0;
    for (size_t a = 0; a < n_arms; a++) {
        for (int k = 0; k < 12; k++) {
            const long double theta = 0.01L * powl(2, 0.75L * k), price = (expl(theta) - 1 - theta) * t[a].variance;
            sum += expl(theta * t[a].deviation - price) + expl(-theta * t[a].deviation - price);
        }
    }
    return sum / (24 * (long double)n_arms);
}

START_TEST(the_traffic_s_e_value_is_that_of_its_definition)
{
    struct kb_traffic t[3] = {{0}};
    ck_assert(fabs(kb_traffic_log_e(t, 3)) < 1e-15);
    for (size_t i = 0; i < 5000; i++) {
        const double more = 0.1 * (double)(i % 3), p[3] = {0.2, 0.3 + more, 0.5 - more}, u = uniform(3, i);
        const size_t arm = u < p[0] ? 0 : u < p[0] + p[1] ? 1 : 2;
        for (size_t a = 0; a < 3; a++)
            kb_traffic_add(&t[a], p[a], a == arm);
        if (i % 100 == 0)
            ck_assert(kbt_close(kb_traffic_log_e(t, 3), (double)logl(traffic_e(t, 3)), 1e-12));
    }
}
END_TEST

/* Every factor of every term has a mean of at most 1: over both outcomes, for all propensities. */
START_TEST(no_propensity_makes_the_traffic_s_bets_better_than_fair)
{
    for (int k = 0; k < 12; k++) {
        const long double theta = 0.01L * powl(2, 0.75L * k);
        for (int i = 0; i <= 10000; i++) {
            const long double p = i / 10000.0L, price = expl(-(expl(theta) - 1 - theta) * p * (1 - p));
            for (int sign = -1; sign <= 1; sign += 2) {
                const long double mean = p * expl(sign * theta * (1 - p)) + (1 - p) * expl(-sign * theta * p);
                if (!(mean * price <= 1 + 1e-15L))
                    ck_abort_msg("theta %Lg, p %Lg", theta, p);
            }
        }
    }
}
END_TEST

/* Decisions until E >= 100; 0: none. The true share is `share`, the told one 1/2. */
static size_t alarm_at(uint64_t key, double share, size_t n)
{
    struct kb_traffic t[2] = {{0}};
    for (size_t i = 0; i < n; i++) {
        const bool is_first = uniform(key, i) < share;
        kb_traffic_add(&t[0], 0.5, is_first);
        kb_traffic_add(&t[1], 0.5, !is_first);
        if (i % 10 == 0 && kb_traffic_log_e(t, 2) >= log(100))
            return i + 1;
    }
    return 0;
}

START_TEST(honest_traffic_is_left_alone_and_a_planted_shift_is_found)
{
    unsigned n_false = 0, n_found = 0;
    for (uint64_t run = 0; run < 100; run++) {
        n_false += alarm_at(2000 + run, 0.5, 5000) > 0;
        n_found += run < 20 && alarm_at(3000 + run, 0.54, 8000) > 0;
    }
    ck_assert_uint_le(n_false, 8); /* P(Bin(100, 0.01) > 8) < 1e-5 */
    ck_assert_uint_ge(n_found, 15);
}
END_TEST

START_TEST(traffic_of_one_arm_that_is_always_shown_is_as_told_until_it_is_not)
{
    struct kb_traffic t = {0};
    for (size_t i = 0; i < 1000; i++)
        kb_traffic_add(&t, 1, true);
    ck_assert(fabs(kb_traffic_log_e(&t, 1)) < 1e-12);
    for (size_t i = 0; i < 4; i++)
        kb_traffic_add(&t, 1, false);
    ck_assert(kb_traffic_log_e(&t, 1) > log(100));
}
END_TEST

int main(void)
{
    return KBT_RUN("shown", shown_means_are_where_the_product_of_predictions_reaches_the_level,
                   an_arm_that_was_not_shown_may_have_any_mean, the_posterior_s_moments_are_those_of_its_density,
                   shown_means_are_missed_in_fewer_runs_than_the_level_however_often_one_looks,
                   the_traffic_s_e_value_is_that_of_its_definition,
                   no_propensity_makes_the_traffic_s_bets_better_than_fair,
                   honest_traffic_is_left_alone_and_a_planted_shift_is_found,
                   traffic_of_one_arm_that_is_always_shown_is_as_told_until_it_is_not);
}
