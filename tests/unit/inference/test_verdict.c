/* The verdict's table, and the plan against an interval of as many decisions. */
#include <math.h>

#include "base/rng.h"
#include "inference/sequences.h"
#include "inference/verdict.h"
#include "kbt.h"

START_TEST(verdicts_follow_the_interval)
{
    const struct {
        double low, high;
        enum kb_verdict verdict;
    } rows[] = {{-1, 1, KB_GO_ON},
                {0.001, 0.2, KB_BETTER},
                {0.001, 0.004, KB_BETTER},
                {-0.2, -0.001, KB_WORSE},
                {-0.009, 0.009, KB_NO_DIFFERENCE},
                {-0.01, 0.009, KB_GO_ON},
                {-0.009, 0.01, KB_GO_ON},
                {0, 0.2, KB_GO_ON},
                {-0.2, 0, KB_GO_ON}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(kb_verdict(rows[i].low, rows[i].high, 0.01, false), rows[i].verdict);
        ck_assert_int_eq(kb_verdict(rows[i].low, rows[i].high, 0.01, true), KB_VOID);
    }
}
END_TEST

START_TEST(a_plan_is_kept_by_the_interval_it_plans)
{
    const double rates[] = {0.5, 0.05};
    for (size_t r = 0; r < 2; r++) {
        const double half_width = 0.2 * sqrt(rates[r] * (1 - rates[r]) / 1.0) * 0.3;
        const size_t n = (size_t)kb_decisions_needed(rates[r], half_width);
        struct kb_pair p = {0};
        double low, high;
        for (size_t i = 0; i < n; i++)
            if (!kb_pair_add(&p, 0.5, 0.5, kb_rng_uniform(1, KB_STREAM_SIMULATION, 2 * i) < 0.5,
                             kb_rng_uniform(1, KB_STREAM_SIMULATION, 2 * i + 1) < rates[r], 0.5))
                ck_abort_msg("refused");
        kb_pair_interval(&p, 0.5, log(40), &low, &high);
        ck_assert_msg(fabs((high - low) / 2 / half_width - 1) < 0.1, "%zu decisions, %g for %g", n, (high - low) / 2,
                      half_width);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("verdict", verdicts_follow_the_interval, a_plan_is_kept_by_the_interval_it_plans);
}
