/* Thompson's quadrature against closed forms, symmetry, simulation and extreme scales. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "kbt.h"
#include "rules/policy.h"
#include "base/rng.h"

#define MAX_N 1024u

static void argmax(size_t n, const double *mean, const double *sd, double *p)
{
    struct kb_arena arena;
    kb_arena_init(&arena);
    ck_assert_int_eq(kb_arena_fit(&arena, kb_quad_bytes(n)), KB_OK);
    kb_quad_argmax(n, mean, sd, p, &arena);
    ck_assert_uint_eq(kb_arena_mark(&arena), 0);
    kb_arena_close(&arena);
}

static double sum_of(size_t n, const double *p)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i];
    return sum;
}

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

/* P(z_0 > z_1) = Phi((m_0 - m_1) / sqrt(d_0^2 + d_1^2)). */
static void expect_two(double mean0, double sd0, double mean1, double sd1)
{
    double mean[2] = {mean0, mean1}, sd[2] = {sd0, sd1}, p[2];
    double want = normal_cdf((mean0 - mean1) / hypot(sd0, sd1));
    argmax(2, mean, sd, p);
    ck_assert_msg(fabs(p[0] - want) <= 1e-10, "N(%g, %g) over N(%g, %g): %.15g, expected %.15g", mean0, sd0, mean1, sd1,
                  p[0], want);
    ck_assert_msg(fabs(p[1] - (1 - want)) <= 1e-10, "second arm %.15g, expected %.15g", p[1], 1 - want);
}

START_TEST(two_arms_equal_the_closed_form)
{
    for (uint64_t i = 0; i < 400; i++) {
        double scale = pow(10, 6 * kb_rng_uniform(1, KB_STREAM_SIMULATION, 3 * i) - 3);
        double mean = 3 * kb_rng_normal(2, KB_STREAM_SIMULATION, i);
        expect_two(mean, scale, mean + kb_rng_normal(3, KB_STREAM_SIMULATION, i), 1);
    }
}
END_TEST

START_TEST(two_arms_of_extreme_scales_equal_the_closed_form)
{
    const double ratio[] = {1e-15, 1e-12, 1e-9, 1e-6, 1e-3};
    const double shift[] = {-3, -1, 0, 0.3, 2};
    for (size_t r = 0; r < 5; r++) {
        for (size_t s = 0; s < 5; s++) {
            expect_two(0, ratio[r], shift[s], 1);
            expect_two(0.7, 1, 0.7 + shift[s], ratio[r]);
            /* both narrow and far from zero: positions as plain doubles would not do */
            expect_two(1 + shift[s] * 1e-6, 1e-6, 1, 1e-6 * 0.5);
            expect_two(1e6, 1e6 * ratio[r], 1e6 + shift[s] * 1e6 * ratio[r], 1e6 * ratio[r]);
        }
    }
}
END_TEST

START_TEST(equal_arms_share_equally)
{
    double mean[MAX_N], sd[MAX_N], p[MAX_N];
    for (size_t n = 1; n <= MAX_N; n *= 4) {
        for (size_t i = 0; i < n; i++) {
            mean[i] = -0.3;
            sd[i] = 0.02;
        }
        argmax(n, mean, sd, p);
        for (size_t i = 0; i < n; i++)
            ck_assert_double_eq_tol(p[i], 1 / (double)n, 1e-11);
    }
}
END_TEST

/* Around the mean of the others an arm is first or last of three with equal probability. */
START_TEST(three_arms_in_symmetry_split_evenly)
{
    const double mean[3] = {-1, 0, 1}, sd[3] = {0.5, 2, 0.5};
    const double mirrored[3] = {1, 0, -1};
    double p[3], q[3];
    argmax(3, mean, sd, p);
    argmax(3, mirrored, sd, q);
    ck_assert_double_eq_tol(p[0], q[2], 1e-11);
    ck_assert_double_eq_tol(p[1], q[1], 1e-11);
    ck_assert_double_eq_tol(p[2], q[0], 1e-11);
    ck_assert_double_eq_tol(sum_of(3, p), 1, 1e-11);
}
END_TEST

START_TEST(shifting_and_scaling_everything_changes_nothing)
{
    double mean[20], sd[20], p[20], q[20];
    for (size_t i = 0; i < 20; i++) {
        mean[i] = kb_rng_normal(5, KB_STREAM_SIMULATION, i);
        sd[i] = 0.1 + kb_rng_uniform(6, KB_STREAM_SIMULATION, i);
    }
    argmax(20, mean, sd, p);
    for (size_t i = 0; i < 20; i++) {
        mean[i] = 100 + 1e-5 * mean[i];
        sd[i] *= 1e-5;
    }
    argmax(20, mean, sd, q);
    for (size_t i = 0; i < 20; i++)
        ck_assert_double_eq_tol(p[i], q[i], 1e-8); /* 100 + 1e-5 m has lost nine digits of m */
}
END_TEST

/* Sums to one for hundreds of random problems over many scales: what is lost anywhere would be missing here. */
START_TEST(probabilities_sum_to_one)
{
    double mean[64], sd[64], p[64];
    for (uint64_t t = 0; t < 300; t++) {
        size_t n = 2 + kb_rng_bits(7, KB_STREAM_SIMULATION, t) % 63;
        double spread = pow(10, 4 * kb_rng_uniform(8, KB_STREAM_SIMULATION, t) - 3);
        for (size_t i = 0; i < n; i++) {
            mean[i] = spread * kb_rng_normal(9, KB_STREAM_SIMULATION, 64 * t + i);
            sd[i] = pow(10, -7 * kb_rng_uniform(10, KB_STREAM_SIMULATION, 64 * t + i));
        }
        argmax(n, mean, sd, p);
        ck_assert_msg(fabs(sum_of(n, p) - 1) <= 1e-10, "problem %u: sum - 1 = %g", (unsigned)t, sum_of(n, p) - 1);
        for (size_t i = 0; i < n; i++)
            ck_assert(p[i] >= 0 && p[i] <= 1 + 1e-10);
    }
}
END_TEST

START_TEST(simulation_agrees)
{
    enum { N_ARMS = 6, N_DRAWS = 400000 };
    double mean[N_ARMS] = {0, 0.2, -0.5, 0.1, 1, -3}, sd[N_ARMS] = {1, 0.3, 2, 0.01, 0.2, 1.5}, p[N_ARMS];
    double wins[N_ARMS] = {0};
    for (uint64_t t = 0; t < N_DRAWS; t++) {
        size_t best = 0;
        double highest = -INFINITY;
        for (size_t i = 0; i < N_ARMS; i++) {
            double z = mean[i] + sd[i] * kb_rng_normal(11, KB_STREAM_SIMULATION, N_ARMS * t + i);
            if (z > highest) {
                highest = z;
                best = i;
            }
        }
        wins[best]++;
    }
    argmax(N_ARMS, mean, sd, p);
    for (size_t i = 0; i < N_ARMS; i++) /* five standard errors */
        ck_assert_double_eq_tol(wins[i] / N_DRAWS, p[i], 5 * sqrt(p[i] * (1 - p[i]) / N_DRAWS) + 1e-5);
}
END_TEST

START_TEST(point_masses_win_by_mean_and_share_ties)
{
    const double mean[4] = {1, 3, 3 + 1e-14, 2}, sd[4] = {0, 0, 0, 0};
    double p[4];
    argmax(4, mean, sd, p);
    ck_assert_double_eq(p[0], 0);
    ck_assert_double_eq(p[1], 0.5);
    ck_assert_double_eq(p[2], 0.5);
    ck_assert_double_eq(p[3], 0);
    argmax(1, mean, sd, p);
    ck_assert_double_eq(p[0], 1);
}
END_TEST

START_TEST(a_point_mass_among_normals_has_the_product_of_their_cdfs)
{
    const double mean[4] = {0, 0.5, 0.4, -1}, sd[4] = {1, 0, 0, 2};
    double p[4], below = normal_cdf(0.5) * normal_cdf(0.75);
    argmax(4, mean, sd, p);
    ck_assert_double_eq_tol(p[1], below, 1e-14);
    ck_assert_double_eq(p[2], 0); /* under the higher point mass */
    ck_assert_double_eq_tol(sum_of(4, p), 1, 1e-11);
    /* the limit of an ever narrower arm */
    const double narrow[4] = {1, 1e-9, 0, 2};
    double q[4];
    argmax(4, mean, narrow, q);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq_tol(p[i], q[i], 1e-8);
}
END_TEST

START_TEST(hopeless_arms_get_nothing_and_cost_nothing)
{
    double mean[MAX_N], sd[MAX_N], p[MAX_N];
    for (size_t i = 0; i < MAX_N; i++) {
        mean[i] = i < 2 ? 0 : -100 - (double)i;
        sd[i] = 1;
    }
    argmax(MAX_N, mean, sd, p);
    ck_assert_double_eq_tol(p[0], 0.5, 1e-11);
    for (size_t i = 2; i < MAX_N; i++)
        ck_assert_double_le(p[i], 1e-15);
}
END_TEST

/* Processor time, not wall-clock time; the bound is fifty times what it takes. */
START_TEST(a_hundred_arms_take_milliseconds)
{
    double mean[100], sd[100], p[100];
    for (size_t i = 0; i < 100; i++) {
        mean[i] = kb_rng_normal(12, KB_STREAM_SIMULATION, i);
        sd[i] = 0.01 + kb_rng_uniform(13, KB_STREAM_SIMULATION, i);
    }
    clock_t before = clock();
    argmax(100, mean, sd, p);
    ck_assert_double_lt((double)(clock() - before) / CLOCKS_PER_SEC, 0.5);
    ck_assert_double_eq_tol(sum_of(100, p), 1, 1e-10);
}
END_TEST

int main(void)
{
    return KBT_RUN("quad", two_arms_equal_the_closed_form, two_arms_of_extreme_scales_equal_the_closed_form,
                   equal_arms_share_equally, three_arms_in_symmetry_split_evenly,
                   shifting_and_scaling_everything_changes_nothing, probabilities_sum_to_one, simulation_agrees,
                   point_masses_win_by_mean_and_share_ties, a_point_mass_among_normals_has_the_product_of_their_cdfs,
                   hopeless_arms_get_nothing_and_cost_nothing, a_hundred_arms_take_milliseconds);
}
