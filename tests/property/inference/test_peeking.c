/* What an experiment says keeps its level however often one looks (tests/lib/kbt_peeking.h), and what must fail does. A
 * few cells and short runs; `make peeking` has 2,000 runs of each of all cells (docs/PEEKING.md). */
#include "kbt_peeking.h"

#include "kbt.h"

#define N_RUNS 100u
#define N_DECISIONS 4000u
#define TAIL 1e-7 /* of the margin, for each of some 40 counts */

static const struct kbt_peek_cell cells[] = {
    {KBT_PEEK_SPLIT, 2, 0.5, 0, false, false, false},        {KBT_PEEK_SPLIT, 2, 0.05, 0, true, true, false},
    {KBT_PEEK_UNEVEN, 2, 0.05, 0.025, false, false, false},  {KBT_PEEK_THOMPSON_10, 2, 0.05, 0, false, false, false},
    {KBT_PEEK_THOMPSON_2, 2, 0.2, 0, true, true, false},     {KBT_PEEK_GREEDY_30, 3, 0.05, 0, true, false, false},
    {KBT_PEEK_GREEDY_5, 5, 0.25, 0, false, false, true},     {KBT_PEEK_RAND_UCB, 2, 0.05, 0, false, true, false},
    {KBT_PEEK_RAND_UCB_FREE, 3, 0.2, 0.1, true, true, false}};
#define N_CELLS (sizeof cells / sizeof *cells)

static bool is_control(enum kbt_peek_fault f)
{
    return f == KBT_PEEK_NORMAL || f == KBT_PEEK_PROVISIONAL;
}

START_TEST(no_sentence_is_wrong_more_often_than_its_level_says)
{
    for (size_t c = 0; c < N_CELLS; c++) {
        unsigned count[KBT_PEEK_N_FAULTS];
        kbt_peek_count(&cells[c], 1000 * c, N_RUNS, N_DECISIONS, count);
        for (int f = 0; f < KBT_PEEK_N_FAULTS; f++)
            ck_assert_msg(is_control(f) || !kbt_peek_has(&cells[c], f) ||
                              count[f] <= kbt_peek_allowed(N_RUNS, KBT_PEEK_ALPHA, TAIL),
                          "cell %zu, %s: %u of %u", c, kbt_peek_fault_names[f], count[f], N_RUNS);
    }
}
END_TEST

static void expect_caught(struct kbt_peek_cell cell, enum kbt_peek_fault fault)
{
    unsigned count[KBT_PEEK_N_FAULTS];
    kbt_peek_count(&cell, 50, N_RUNS, N_DECISIONS, count);
    ck_assert_msg(count[fault] > kbt_peek_allowed(N_RUNS, KBT_PEEK_ALPHA, TAIL), "%s: %u of %u",
                  kbt_peek_fault_names[fault], count[fault], N_RUNS);
}

START_TEST(normal_intervals_that_are_peeked_at_are_caught)
{
    expect_caught(cells[0], KBT_PEEK_NORMAL);
    expect_caught(cells[3], KBT_PEEK_NORMAL);
}
END_TEST

START_TEST(zeros_folded_before_they_are_final_are_caught)
{
    expect_caught((struct kbt_peek_cell){KBT_PEEK_SPLIT, 2, 0.2, 0, false, true, false}, KBT_PEEK_PROVISIONAL);
    expect_caught((struct kbt_peek_cell){KBT_PEEK_THOMPSON_10, 2, 0.2, 0, false, true, false}, KBT_PEEK_PROVISIONAL);
}
END_TEST

START_TEST(users_who_keep_their_arm_are_one_draw_each)
{
    const unsigned allowed = kbt_peek_allowed(N_RUNS, KBT_PEEK_ALPHA, TAIL);
    ck_assert_uint_le(kbt_peek_users(7, N_RUNS, 10000, 100, true), allowed);
    ck_assert_uint_gt(kbt_peek_users(7, N_RUNS, 10000, 100, false), allowed);
}
END_TEST

static unsigned n_alarms(unsigned n_runs, size_t n_decisions, bool is_changing, double shift, bool is_naive)
{
    size_t at[N_RUNS];
    unsigned n = 0;
    kbt_peek_traffic(9, n_runs, n_decisions, is_changing, shift, is_naive, at);
    for (unsigned i = 0; i < n_runs; i++)
        n += at[i] > 0;
    return n;
}

START_TEST(traffic_as_told_gives_no_alarm_and_one_point_more_does)
{
    const unsigned allowed = kbt_peek_allowed(N_RUNS, KBT_PEEK_TRAFFIC_ALPHA, TAIL);
    ck_assert_uint_le(n_alarms(N_RUNS, 20000, false, 0, false), allowed);
    ck_assert_uint_le(n_alarms(N_RUNS, 20000, true, 0, false), allowed);
    ck_assert_uint_gt(n_alarms(N_RUNS, 20000, false, 0, true), allowed);
    ck_assert_uint_ge(n_alarms(20, 100000, false, 0.01, false), 18);
}
END_TEST

int main(void)
{
    return KBT_RUN("peeking", no_sentence_is_wrong_more_often_than_its_level_says,
                   normal_intervals_that_are_peeked_at_are_caught, zeros_folded_before_they_are_final_are_caught,
                   users_who_keep_their_arm_are_one_draw_each, traffic_as_told_gives_no_alarm_and_one_point_more_does);
}
