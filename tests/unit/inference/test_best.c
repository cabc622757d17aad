/* Betting odds against closed forms, the quadrature of propensities, and draws. */
#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "inference/sequences.h"
#include "kbt.h"
#include "rules/policy.h"

#define MAX_N 40u

/* What kb_best shrinks, written out. */
static void shrink(size_t n, const double *mean, const double *sd, double *to_mean, double *to_sd)
{
    double average = 0, spread = 0, noise = 0, sum = 0, weight = 0;
    for (size_t i = 0; i < n; i++)
        average += mean[i] / (double)n, noise += sd[i] * sd[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        spread += (mean[i] - average) * (mean[i] - average) / ((double)n - 1);
    const double tau2 = fmax(0, spread - noise);
    for (size_t i = 0; i < n; i++) {
        const double w = 1 / (tau2 + sd[i] * sd[i]);
        sum += w * mean[i], weight += w;
    }
    for (size_t i = 0; i < n; i++) {
        const double kept = tau2 / (tau2 + sd[i] * sd[i]);
        to_mean[i] = sum / weight + kept * (mean[i] - sum / weight);
        to_sd[i] = sqrt(kept) * sd[i];
    }
}

static void argmax(size_t n, const double *mean, const double *sd, double *p)
{
    struct kb_arena arena;
    kb_arena_init(&arena);
    ck_assert_int_eq(kb_arena_fit(&arena, kb_quad_bytes(n)), KB_OK);
    kb_quad_argmax(n, mean, sd, p, &arena);
    kb_arena_close(&arena);
}

/* Arms whose means vary by 1 and whose deviations span `orders` orders of magnitude below 1. */
static void make_arms(uint64_t key, size_t n, double orders, double *mean, double *sd)
{
    for (size_t i = 0; i < n; i++) {
        mean[i] = 0.3 + kb_rng_normal(key, KB_STREAM_SIMULATION, i);
        sd[i] = 0.5 * pow(10, -orders * kb_rng_uniform(key + 100, KB_STREAM_SIMULATION, i));
    }
}

START_TEST(chances_are_those_of_the_quadrature_of_propensities)
{
    const size_t counts[] = {3, 4, 10, 40};
    for (uint64_t key = 0; key < 40; key++) {
        const size_t n = counts[key % 4];
        double mean[MAX_N], sd[MAX_N], to_mean[MAX_N], to_sd[MAX_N], p[MAX_N], loss[MAX_N], want[MAX_N];
        make_arms(key, n, (double)(key % 5), mean, sd);
        kb_best(mean, sd, n, p, loss);
        shrink(n, mean, sd, to_mean, to_sd);
        argmax(n, to_mean, to_sd, want);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(fabs(p[i] - want[i]) <= 1e-7, "key %u, arm %zu: %.12g, expected %.12g", (unsigned)key, i,
                          p[i], want[i]);
    }
}
END_TEST

START_TEST(chances_and_losses_are_those_of_draws)
{
    enum { N = 4, N_DRAWS = 400000 };
    double mean[N], sd[N], to_mean[N], to_sd[N], p[N], loss[N], wins[N] = {0}, most = 0;
    make_arms(7, N, 1, mean, sd);
    kb_best(mean, sd, N, p, loss);
    shrink(N, mean, sd, to_mean, to_sd);
    for (size_t d = 0; d < N_DRAWS; d++) {
        double best = -INFINITY;
        size_t arm = 0;
        for (size_t i = 0; i < N; i++) {
            const double z = to_mean[i] + to_sd[i] * kb_rng_normal(77, KB_STREAM_SIMULATION, d * N + i);
            if (z > best)
                best = z, arm = i;
        }
        wins[arm] += 1.0 / N_DRAWS;
        most += best / N_DRAWS;
    }
    for (size_t i = 0; i < N; i++) {
        ck_assert(fabs(p[i] - wins[i]) < 4e-3);
        ck_assert(fabs(loss[i] - (most - to_mean[i])) < 4e-3);
    }
}
END_TEST

START_TEST(two_arms_have_a_closed_form_and_are_not_shrunk)
{
    const double gaps[] = {0, 0.01, -0.02, 1};
    for (size_t g = 0; g < 4; g++) {
        const double mean[2] = {0.05, 0.05 + gaps[g]}, sd[2] = {0.004, 0.01}, s = hypot(0.004, 0.01);
        double p[2], loss[2], most = 0;
        kb_best(mean, sd, 2, p, loss);
        ck_assert(fabs(p[1] - 0.5 * erfc(-gaps[g] / s * M_SQRT1_2)) < 1e-12 && fabs(p[0] + p[1] - 1) < 1e-12);
        /* E max(0, gap + s z) by midpoints */
        for (int i = 0; i < 200000; i++) {
            const double z = -10 + 20 * (i + 0.5) / 200000;
            most += fmax(0, gaps[g] + s * z) * exp(-z * z / 2) / sqrt(2 * M_PI) * 20 / 200000;
        }
        ck_assert(fabs(loss[0] - most) < 1e-8 && fabs(loss[1] - (most - gaps[g])) < 1e-8);
    }
}
END_TEST

START_TEST(arms_that_noise_alone_tells_apart_are_the_same)
{
    const double mean[3] = {0.1, 0.1001, 0.0999}, sd[3] = {0.01, 0.01, 0.01};
    double p[3], loss[3];
    kb_best(mean, sd, 3, p, loss);
    for (size_t i = 0; i < 3; i++)
        ck_assert(fabs(p[i] - 1.0 / 3) < 1e-15 && loss[i] == 0);
}
END_TEST

START_TEST(arms_without_deviation_are_certain)
{
    const double mean[3] = {0, 1, 3}, same[3] = {2, 2, 2}, none[3] = {0};
    double p[3], loss[3];
    kb_best(mean, none, 3, p, loss);
    ck_assert(fabs(p[2] - 1) < 1e-9 && p[0] < 1e-9 && fabs(loss[0] - 3) < 1e-6 && fabs(loss[1] - 2) < 1e-6);
    ck_assert(loss[2] < 1e-6);
    kb_best(same, none, 3, p, loss);
    ck_assert(fabs(p[0] - 1.0 / 3) < 1e-15 && loss[1] == 0);
    kb_best(mean, none, 2, p, loss);
    ck_assert(p[1] == 1 && p[0] == 0 && loss[0] == 1 && loss[1] == 0);
    kb_best(same, none, 2, p, loss);
    ck_assert(p[0] == 0.5 && loss[0] == 0);
    kb_best(mean, none, 1, p, loss);
    ck_assert(p[0] == 1 && loss[0] == 0);
}
END_TEST

int main(void)
{
    return KBT_RUN("best", chances_are_those_of_the_quadrature_of_propensities, chances_and_losses_are_those_of_draws,
                   two_arms_have_a_closed_form_and_are_not_shrunk, arms_that_noise_alone_tells_apart_are_the_same,
                   arms_without_deviation_are_certain);
}
