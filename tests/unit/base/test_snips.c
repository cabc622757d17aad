/* Running moments against the estimators written out over all decisions, and their intervals by how often they cover.
 */
#include <math.h>
#include <stdlib.h>

#include "kbt.h"
#include "base/rng.h"
#include "base/snips.h"

#define Z95 1.959963984540054

static double uniform(uint64_t key, size_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* Mean and standard error of influences psi about an estimate. */
static void check(struct kb_estimate got, double estimate, const double *psi, size_t n, double tol)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += psi[i] * psi[i];
    const double half = Z95 * sqrt(squares / ((double)n * ((double)n - 1)));
    ck_assert(kbt_close(got.estimate, estimate, tol));
    ck_assert(kbt_close(got.lower, estimate - half, tol));
    ck_assert(kbt_close(got.upper, estimate + half, tol));
}

static void compare_with_all_decisions(size_t n, double offset, double tol)
{
    double *w = kbt_array(n), *r = kbt_array(n), *psi = kbt_array(n);
    double sum_w = 0, sum_wr = 0, sum_r = 0, sum_ww = 0;
    struct kb_snips s = {0};
    for (size_t i = 0; i < n; i++) {
        w[i] = uniform(1, i) < 0.3 ? 0 : 4 * uniform(2, i);
        r[i] = offset + uniform(3, i) + 0.3 * w[i];
        kb_snips_add(&s, w[i], r[i]);
        sum_w += w[i], sum_wr += w[i] * (r[i] - offset), sum_r += r[i] - offset, sum_ww += w[i] * w[i];
    }
    const double count = (double)n, v = offset + sum_wr / sum_w, m = offset + sum_r / count;
    for (size_t i = 0; i < n; i++)
        psi[i] = count / sum_w * w[i] * (r[i] - v);
    check(kb_snips_value(&s, 0.95), v, psi, n, tol);
    for (size_t i = 0; i < n; i++)
        psi[i] -= r[i] - m;
    check(kb_snips_difference(&s, 0.95), v - m, psi, n, tol * (1 + fabs(offset)));
    const double p = (sum_wr + offset * sum_w) / count;
    for (size_t i = 0; i < n; i++)
        psi[i] = w[i] * r[i] - p;
    check(kb_snips_plain(&s, 0.95), p, psi, n, tol);
    for (size_t i = 0; i < n; i++)
        psi[i] = r[i] - m;
    check(kb_snips_logged(&s, 0.95), m, psi, n, tol);
    for (size_t i = 0; i < n; i++)
        psi[i] = w[i] - sum_w / count;
    check(kb_snips_weight(&s, 0.95), sum_w / count, psi, n, tol);
    ck_assert(kbt_close(kb_snips_ess(&s), sum_w * sum_w / sum_ww, tol));
    free(w), free(r), free(psi);
}

START_TEST(moments_give_what_all_decisions_give)
{
    compare_with_all_decisions(2, 0, 1e-12);
    compare_with_all_decisions(7, -3, 1e-12);
    compare_with_all_decisions(20000, 0, 1e-11);
}
END_TEST

START_TEST(an_offset_of_all_rewards_costs_no_digits)
{
    compare_with_all_decisions(20000, 1e6, 1e-9);
}
END_TEST

START_TEST(little_data_promise_little)
{
    struct kb_snips s = {0};
    ck_assert(isnan(kb_snips_value(&s, 0.95).estimate) && isnan(kb_snips_logged(&s, 0.95).lower));
    ck_assert(isnan(kb_snips_plain(&s, 0.95).estimate));
    ck_assert_double_eq(kb_snips_ess(&s), 0);
    kb_snips_add(&s, 0, 5);
    ck_assert(isnan(kb_snips_value(&s, 0.95).estimate) && isnan(kb_snips_difference(&s, 0.95).upper));
    ck_assert_double_eq(kb_snips_logged(&s, 0.95).estimate, 5);
    ck_assert(isinf(kb_snips_logged(&s, 0.95).upper));
    kb_snips_add(&s, 2, 7);
    ck_assert_double_eq(kb_snips_value(&s, 0.95).estimate, 7);
    ck_assert_double_eq(s.max, 2);
}
END_TEST

START_TEST(the_same_policy_is_the_mean_and_never_differs)
{
    struct kb_snips s = {0};
    for (size_t i = 0; i < 1000; i++)
        kb_snips_add(&s, 1, uniform(4, i));
    const struct kb_estimate v = kb_snips_value(&s, 0.95), m = kb_snips_logged(&s, 0.95);
    ck_assert(kbt_close(v.estimate, m.estimate, 1e-14) && kbt_close(v.lower, m.lower, 1e-12));
    const struct kb_estimate d = kb_snips_difference(&s, 0.95);
    ck_assert(fabs(d.estimate) < 1e-14 && d.upper - d.lower < 1e-7);
    ck_assert(kbt_close(kb_snips_ess(&s), 1000, 1e-12));
}
END_TEST

/* Three arms shown with unequal odds; the target prefers the rarest. */
static const double SHOWN[3] = {0.6, 0.3, 0.1}, TARGET[3] = {0.2, 0.2, 0.6}, MEAN[3] = {0.2, 0.5, 0.4};

static void simulate(struct kb_snips *s, uint64_t key, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const double u = uniform(key, 2 * i);
        const size_t arm = u < SHOWN[0] ? 0 : u < SHOWN[0] + SHOWN[1] ? 1 : 2;
        kb_snips_add(s, TARGET[arm] / SHOWN[arm], uniform(key, 2 * i + 1) < MEAN[arm]);
    }
}

static double mean_under(const double *p)
{
    return p[0] * MEAN[0] + p[1] * MEAN[1] + p[2] * MEAN[2];
}

static bool covers(struct kb_estimate e, double truth)
{
    return e.lower <= truth && truth <= e.upper;
}

/* 200 logs at 0.9: 180 expected with a deviation of 4.2, so the bounds are four of those away. */
START_TEST(intervals_cover_at_their_level_over_200_logs)
{
    const double value = mean_under(TARGET), logged = mean_under(SHOWN);
    size_t n_value = 0, n_logged = 0, n_difference = 0, n_weight = 0;
    for (uint64_t log = 0; log < 200; log++) {
        struct kb_snips s = {0};
        simulate(&s, 100 + log, 0, 2000);
        n_value += covers(kb_snips_value(&s, 0.9), value);
        n_logged += covers(kb_snips_logged(&s, 0.9), logged);
        n_difference += covers(kb_snips_difference(&s, 0.9), value - logged);
        n_weight += covers(kb_snips_weight(&s, 0.9), 1);
    }
    ck_assert(n_value >= 163 && n_value <= 197);
    ck_assert(n_logged >= 163 && n_logged <= 197);
    ck_assert(n_difference >= 163 && n_difference <= 197);
    ck_assert(n_weight >= 163 && n_weight <= 197);
}
END_TEST

int main(void)
{
    return KBT_RUN("snips", moments_give_what_all_decisions_give, an_offset_of_all_rewards_costs_no_digits,
                   little_data_promise_little, the_same_policy_is_the_mean_and_never_differs,
                   intervals_cover_at_their_level_over_200_logs);
}
