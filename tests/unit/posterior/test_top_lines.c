/* Which lines may be on top of those that are known: against values on a fine grid of u, where lines tie, and where
 * numbers are none. */
#include <math.h>

#include "base/rng.h"
#include "kbt.h"
#include "posterior/top_lines.h"

#define N_CASES 4000u
#define N_GRID 400u

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* By how much the line is above all known ones where it does best; u goes up to KB_MOST_U. */
static double most_above(const struct kb_top_lines *t, double mean, double slope)
{
    double most = -(double)INFINITY;
    for (size_t g = 0; g < N_GRID; g++) {
        const double part = (double)g / (N_GRID - 1), u = KB_MOST_U * part * part * part;
        double least = (double)INFINITY;
        for (size_t i = 0; i < t->n; i++)
            least = fmin(least, mean - t->mean[i] + u * (slope - t->slope[i]));
        most = fmax(most, least);
    }
    return most;
}

START_TEST(a_line_that_is_on_top_somewhere_is_never_left_out)
{
    size_t n_left_out = 0, n_above = 0;
    for (uint64_t key = 0; key < N_CASES; key++) {
        struct kb_top_lines t = {.n = 0};
        for (uint64_t i = 0; i < key % 6; i++)
            kb_top_lines_add(&t, uniform(key, 2 * i), uniform(key, 2 * i + 1));
        const double mean = 1.2 * uniform(key, 50) - 0.1, slope = 1.2 * uniform(key, 51);
        const bool reaches = kb_top_lines_reach(&t, mean, slope);
        const double above = most_above(&t, mean, slope);
        ck_assert(reaches || above < 0);
        ck_assert(!reaches || above > -0.05); /* the grid is coarse */
        n_left_out += !reaches;
        n_above += above >= 0;
    }
    ck_assert_uint_gt(n_left_out, N_CASES / 4);
    ck_assert_uint_gt(n_above, N_CASES / 4);
}
END_TEST

START_TEST(lines_that_tie_with_one_that_is_known_are_not_left_out)
{
    static const double shift[] = {0, 1e-12, -1e-12};
    struct kb_top_lines t = {.n = 0};
    kb_top_lines_add(&t, 0.3, 0.7);
    kb_top_lines_add(&t, 0.9, 0.1);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            ck_assert(kb_top_lines_reach(&t, 0.3 + shift[i], 0.7 + shift[k]));
            ck_assert(kb_top_lines_reach(&t, 0.9 + shift[i], 0.1 + shift[k]));
        }
    ck_assert(!kb_top_lines_reach(&t, 0.9 - 1e-6, 0.1));
    ck_assert(!kb_top_lines_reach(&t, 0.3, 0.7 - 1e-6));
    ck_assert(!kb_top_lines_reach(&t, 0.3, 0.1));
}
END_TEST

START_TEST(what_is_no_number_is_not_left_out)
{
    struct kb_top_lines t = {.n = 0};
    ck_assert(kb_top_lines_reach(&t, -1e300, 0));
    kb_top_lines_add(&t, 1, 1);
    ck_assert(kb_top_lines_reach(&t, (double)NAN, 0));
    ck_assert(kb_top_lines_reach(&t, 0, (double)NAN));
    ck_assert(kb_top_lines_reach(&t, (double)INFINITY, 0));
}
END_TEST

START_TEST(lines_that_have_no_room_are_not_kept)
{
    struct kb_top_lines t = {.n = 0};
    for (size_t i = 0; i < KB_MOST_LINES; i++)
        kb_top_lines_add(&t, 0, 0);
    kb_top_lines_add(&t, 9, 9);
    ck_assert_uint_eq(t.n, KB_MOST_LINES);
    ck_assert(kb_top_lines_reach(&t, 1, 1));
    ck_assert(!kb_top_lines_reach(&t, -1, 0));
}
END_TEST

int main(void)
{
    return KBT_RUN("top_lines", a_line_that_is_on_top_somewhere_is_never_left_out,
                   lines_that_tie_with_one_that_is_known_are_not_left_out, what_is_no_number_is_not_left_out,
                   lines_that_have_no_room_are_not_kept);
}
