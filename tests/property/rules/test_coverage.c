/* Coverage: the rules that claim a level keep it, over runs that they steer themselves (tests/lib/kbt_coverage.h), and
 * would be caught if they did not. A few cells of the grid; `make coverage` runs all of them. */
#include "kbt_coverage.h"

#include <string.h>

#include "kbt.h"

#define N_RUNS 12u
#define N_CONTROLS 30u
#define TAIL 1e-6 /* of the margin: about 200 counts here, so that at most one build in 5,000 fails by chance */

/* Each rule meets each noise, target and kernel, a small and a large ridge and norm; with every representation. */
static const struct kbt_cover_cell cells[] = {
    {KBT_COVER_RBF, KBT_COVER_RADEMACHER, KBT_COVER_MISFIT, 0.25, 10, KB_REPR_EXACT},
    {KBT_COVER_LINEAR, KBT_COVER_GAUSSIAN, KBT_COVER_SUM, 1e-4, 1e-3, KB_REPR_EXACT},
    {KBT_COVER_MATERN32, KBT_COVER_BERNOULLI, KBT_COVER_BUMP, 1e-2, 0.1, KB_REPR_EXACT},
    {KBT_COVER_SMALL_RBF, KBT_COVER_BERNOULLI, KBT_COVER_MISFIT, 1e-4, 0.1, KB_REPR_EXACT},
};
#define N_CELLS (sizeof cells / sizeof *cells)

static void expect_level(enum kb_repr_type repr)
{
    for (unsigned r = 0; r < kbt_cover_n_rules; r++) {
        unsigned total = 0;
        for (size_t i = 0; i < N_CELLS; i++) {
            struct kbt_cover_cell cell = cells[i];
            cell.repr = repr;
            if (kbt_cover_rules[r].twist != KBT_COVER_AS_IS || !kbt_cover_has(&cell, &kbt_cover_rules[r]))
                continue;
            const unsigned n = kbt_cover_count(&cell, &kbt_cover_rules[r], N_RUNS);
            ck_assert_msg(n <= kbt_cover_allowed(N_RUNS, TAIL), "%s, cell %zu: %u of %u", kbt_cover_rules[r].name, i, n,
                          N_RUNS);
            total += n;
        }
        ck_assert_msg(total <= kbt_cover_allowed(N_CELLS * N_RUNS, TAIL), "%s: %u in all", kbt_cover_rules[r].name,
                      total);
    }
}

START_TEST(on_all_points_no_rule_is_violated_more_often_than_its_level_says)
{
    expect_level(KB_REPR_EXACT);
}
END_TEST

START_TEST(over_a_dictionary_no_rule_is_violated_more_often_than_its_level_says)
{
    expect_level(KB_REPR_KORS);
    expect_level(KB_REPR_THRESHOLD);
    expect_level(KB_REPR_BKB);
}
END_TEST

/* --- the simulation can fail ------------------------------------------------------------------------------- */

static const struct kbt_cover_rule *named(const char *name)
{
    for (unsigned r = 0; r < kbt_cover_n_rules; r++) {
        if (strcmp(kbt_cover_rules[r].name, name) == 0)
            return &kbt_cover_rules[r];
    }
    ck_abort_msg("no rule %s", name);
}

static void expect_caught(const char *name, struct kbt_cover_cell cell)
{
    const unsigned n = kbt_cover_count(&cell, named(name), N_CONTROLS);
    ck_assert_msg(n > kbt_cover_allowed(N_CONTROLS, TAIL), "%s: %u of %u", name, n, N_CONTROLS);
}

START_TEST(bounds_of_three_tenths_of_the_width_are_violated_in_most_runs)
{
    for (size_t i = 0; i < N_CELLS; i++)
        expect_caught("cmm at 0.3 of its width", cells[i]);
    expect_caught("lk at 0.3 of its width", cells[0]);
}
END_TEST

/* Noise alone leaves them: B = 1/1000, the ridge below 1. */
START_TEST(igp_as_printed_is_violated_at_a_ridge_below_one)
{
    expect_caught("igp as printed", cells[1]);
    expect_caught("igp as printed", (struct kbt_cover_cell){KBT_COVER_RBF, KBT_COVER_BERNOULLI, KBT_COVER_SUM, 1e-2,
                                                            1e-3, KB_REPR_EXACT});
}
END_TEST

/* By its logarithm, where k(s,s) t < 1; by its bias, where a dictionary misses more than its q would let it. */
START_TEST(bkb_as_printed_is_violated_by_small_kernels_and_by_coarse_dictionaries)
{
    struct kbt_cover_cell small = cells[1];
    small.lambda = 1e-6;
    expect_caught("bkb as printed", small);
    expect_caught("bkb as printed", (struct kbt_cover_cell){KBT_COVER_RBF, KBT_COVER_GAUSSIAN, KBT_COVER_MISFIT, 0.25,
                                                            10, KB_REPR_THRESHOLD});
}
END_TEST

START_TEST(bounds_that_take_the_projection_error_for_zero_are_violated_in_most_runs)
{
    expect_caught(
        "cmm split, projection error taken for 0",
        (struct kbt_cover_cell){KBT_COVER_RBF, KBT_COVER_GAUSSIAN, KBT_COVER_MISFIT, 0.25, 10, KB_REPR_THRESHOLD});
}
END_TEST

/* The margin against plain sums of the binomial distribution. */
START_TEST(the_margin_is_the_binomial_tail)
{
    for (unsigned n = 1; n <= 200; n += 7) {
        const unsigned k = kbt_cover_allowed(n, 1e-6);
        double chance = 1, more = 0, at = 0;
        for (unsigned i = 0; i < n; i++)
            chance *= 1 - KBT_COVER_DELTA;
        for (unsigned i = 0; i <= n; i++) {
            more += i > k ? chance : 0;
            at += i >= k ? chance : 0;
            chance *= (n - i) / (i + 1.0) * KBT_COVER_DELTA / (1 - KBT_COVER_DELTA);
        }
        ck_assert_msg(more <= 1e-6 * (1 + 1e-6) && (k == 0 || at > 1e-6 * (1 - 1e-6)), "%u: %u, %g, %g", n, k, more,
                      at);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "coverage", on_all_points_no_rule_is_violated_more_often_than_its_level_says,
        over_a_dictionary_no_rule_is_violated_more_often_than_its_level_says,
        bounds_of_three_tenths_of_the_width_are_violated_in_most_runs, igp_as_printed_is_violated_at_a_ridge_below_one,
        bkb_as_printed_is_violated_by_small_kernels_and_by_coarse_dictionaries,
        bounds_that_take_the_projection_error_for_zero_are_violated_in_most_runs, the_margin_is_the_binomial_tail);
}
