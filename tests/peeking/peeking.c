/* The whole simulation of experiments that are looked at after every decision (tests/lib/kbt_peeking.h): a line of JSON
 * for each cell on standard output. tests/peeking/table.py judges them.
 *
 *   peeking [RUNS [STEP [FIRST]]]     runs of each cell (2000); cells FIRST (0), FIRST + STEP (1), ...
 *
 * Half widths, stopping times, users and traffic have runs of their own number, in proportion to RUNS / 2000. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kbt_cells.h"
#include "kbt_peeking.h"

#define USUAL_RUNS 2000u
#define N_DECISIONS 20000u
#define N_TRAFFIC 100000u

static unsigned n_runs = USUAL_RUNS;

/* So many runs of 2,000, at least 10. */
static unsigned runs_of(unsigned usual)
{
    const unsigned n = (unsigned)((uint64_t)usual * n_runs / USUAL_RUNS);
    return n > 10 ? n : 10;
}

/* --- runs without effect, and with -------------------------------------------------------------------------- */

#define N_KINDS 8u /* of rate, drift and lateness, for each policy */
#define N_GRID (N_KINDS * KBT_PEEK_N_POLICIES)

/* Beside the grid of rates, policies, drift and lateness over two arms without effect. */
static const struct kbt_peek_cell others[] = {{KBT_PEEK_SPLIT, 2, 0.05, 0.025, false, false, false},
                                              {KBT_PEEK_THOMPSON_10, 2, 0.05, 0.025, false, false, false},
                                              {KBT_PEEK_THOMPSON_10, 2, 0.05, 0.025, false, true, false},
                                              {KBT_PEEK_RAND_UCB, 2, 0.05, -0.025, false, false, false},
                                              {KBT_PEEK_SPLIT, 3, 0.05, 0, true, true, false},
                                              {KBT_PEEK_GREEDY_30, 3, 0.05, 0, true, true, false},
                                              {KBT_PEEK_GREEDY_5, 5, 0.2, 0, true, true, false},
                                              {KBT_PEEK_RAND_UCB_FREE, 5, 0.2, 0, true, true, false},
                                              {KBT_PEEK_SPLIT, 2, 0.25, 0, false, false, true},
                                              {KBT_PEEK_GREEDY_5, 5, 0.25, 0, false, true, true}};
#define N_OTHERS (sizeof others / sizeof *others)

/* Each rate plain, and with drift and late rewards; 0.05 also with either alone. */
static struct kbt_peek_cell grid_cell(size_t i)
{
    static const struct {
        double rate;
        bool is_doubling, is_late;
    } kind[N_KINDS] = {{0.5, false, false}, {0.5, true, true},  {0.05, false, false}, {0.05, true, false},
                       {0.05, false, true}, {0.05, true, true}, {0.01, false, false}, {0.01, true, true}};
    const size_t k = i % N_KINDS;
    return (struct kbt_peek_cell){.policy = (enum kbt_peek_policy)(i / N_KINDS),
                                  .n_arms = 2,
                                  .rate = kind[k].rate,
                                  .is_doubling = kind[k].is_doubling,
                                  .is_late = kind[k].is_late};
}

static void tell_run(struct kbt_peek_cell c, uint64_t key)
{
    unsigned count[KBT_PEEK_N_FAULTS];
    kbt_peek_count(&c, key, n_runs, N_DECISIONS, count);
    printf("\"kind\":\"run\",\"policy\":\"%s\",\"arms\":%zu,\"rate\":%g,\"effect\":%g,\"doubling\":%s,\"late\":%s,"
           "\"graded\":%s,\"decisions\":%u,\"runs\":%u",
           kbt_peek_policy_names[c.policy], c.n_arms, c.rate, c.effect, c.is_doubling ? "true" : "false",
           c.is_late ? "true" : "false", c.is_graded ? "true" : "false", N_DECISIONS, n_runs);
    for (int f = 0; f < KBT_PEEK_N_FAULTS; f++)
        if (kbt_peek_has(&c, f))
            printf(",\"%s\":%u", kbt_peek_fault_names[f], count[f]);
    printf("}\n");
}

/* --- users -------------------------------------------------------------------------------------------------- */

static void tell_users(size_t i)
{
    static const size_t per_user[] = {4, 20, 100};
    const unsigned runs = runs_of(1000);
    const bool is_conditional = i % 2;
    printf("\"kind\":\"users\",\"per_user\":%zu,\"conditional\":%s,\"decisions\":%u,\"runs\":%u,\"pair\":%u}\n",
           per_user[i / 2], is_conditional ? "true" : "false", N_DECISIONS, runs,
           kbt_peek_users(UINT64_C(1) << 33, runs, N_DECISIONS, per_user[i / 2], is_conditional));
}
#define N_USERS 6u

/* --- traffic ------------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the runs that have an end to the front; returns how many do. */
static unsigned sort_ends(size_t *at, unsigned n)
{
    unsigned n_ended = 0;
    for (unsigned i = 0; i < n; i++)
        if (at[i] > 0)
            at[n_ended++] = at[i];
    qsort(at, n_ended, sizeof *at, by_size);
    return n_ended;
}

static const struct {
    bool is_changing, is_naive;
    double shift;
    unsigned runs;
} traffics[] = {{false, false, 0, 1000},    {true, false, 0, 1000},    {false, true, 0, 1000},
                {false, false, 0.01, 1000}, {true, false, 0.01, 1000}, {false, false, 0.005, 200}};
#define N_TRAFFICS (sizeof traffics / sizeof *traffics)

static void tell_traffic(size_t i)
{
    const unsigned runs = runs_of(traffics[i].runs);
    size_t *at = calloc(runs, sizeof *at);
    ck_assert_ptr_nonnull(at);
    kbt_peek_traffic(UINT64_C(1) << 34, runs, N_TRAFFIC, traffics[i].is_changing, traffics[i].shift,
                     traffics[i].is_naive, at);
    const unsigned n = sort_ends(at, runs), ninety = (9 * runs + 9) / 10;
    printf("\"kind\":\"traffic\",\"changing\":%s,\"naive\":%s,\"shift\":%g,\"decisions\":%u,\"runs\":%u,\"alarms\":%u,"
           "\"median\":%zu,\"ninety\":%zu}\n",
           traffics[i].is_changing ? "true" : "false", traffics[i].is_naive ? "true" : "false", traffics[i].shift,
           N_TRAFFIC, runs, n, n > runs / 2 ? at[runs / 2] : 0, n >= ninety ? at[ninety - 1] : 0);
    free(at);
}

/* --- figures on a split ------------------------------------------------------------------------------------- */

/* ratio: half width over that of a normal interval of as many decisions, as the design has it. */
static const struct {
    double rate;
    size_t n;
    double ratio;
} widths[] = {{0.5, 1000, 1.61},   {0.5, 5000, 1.65},  {0.5, 20000, 1.74}, {0.05, 1000, 1.74}, {0.05, 5000, 1.62},
              {0.05, 20000, 1.64}, {0.01, 1000, 2.20}, {0.01, 5000, 1.74}, {0.01, 20000, 1.63}};
#define N_WIDTHS (sizeof widths / sizeof *widths)

static void tell_width(size_t i)
{
    const unsigned runs = runs_of(400);
    const double rate = widths[i].rate, naive = 1.959964 * 2 * sqrt(rate * (1 - rate) / (double)widths[i].n);
    const double half = kbt_peek_half_width(UINT64_C(1) << 35, runs, widths[i].n, rate);
    printf("\"kind\":\"width\",\"rate\":%g,\"n\":%zu,\"runs\":%u,\"half_width\":%.6g,\"naive\":%.6g,\"design\":%g}\n",
           rate, widths[i].n, runs, half, naive, widths[i].ratio);
}

/* fixed: the decisions of a test of a fixed size with power 0.8; cap: in multiples of it; the design's median and mean.
 */
static const struct {
    double rate, lift, fixed;
    unsigned cap, runs;
    double median, mean;
    unsigned design_runs;
} stops[] = {{0.5, 0.1, 3124, 6, 2000, 0.97, 1.14, 1000},  {0.5, 0.5, 110, 20, 4000, 1.27, 1.43, 1000},
             {0.05, 0.5, 2936, 8, 2000, 1.01, 1.14, 1000}, {0.01, 0.5, 15494, 5, 1000, 0.99, 1.15, 500},
             {0.05, 0.1, 62463, 4, 400, 1.18, 1.28, 200},  {0.01, 0.1, 326189, 3, 120, 1.22, 1.27, 80}};
#define N_STOPS (sizeof stops / sizeof *stops)

static void tell_stop(size_t i)
{
    const unsigned runs = runs_of(stops[i].runs);
    const size_t cap = (size_t)(stops[i].fixed * stops[i].cap);
    size_t *at = calloc(runs, sizeof *at);
    double sum = 0;
    ck_assert_ptr_nonnull(at);
    kbt_peek_stops(UINT64_C(1) << 36, runs, cap, stops[i].rate, stops[i].rate * stops[i].lift, at);
    const unsigned n = sort_ends(at, runs);
    for (unsigned k = 0; k < runs; k++)
        sum += k < n ? (double)at[k] : (double)cap;
    printf(
        "\"kind\":\"stop\",\"rate\":%g,\"lift\":%g,\"fixed\":%g,\"cap\":%u,\"runs\":%u,\"reached\":%u,\"median\":%.4g,"
        "\"mean\":%.4g,\"design_median\":%g,\"design_mean\":%g,\"design_runs\":%u}\n",
        stops[i].rate, stops[i].lift, stops[i].fixed, stops[i].cap, runs, n,
        n > runs / 2 ? (double)at[runs / 2] / stops[i].fixed : 0, sum / runs / stops[i].fixed, stops[i].median,
        stops[i].mean, stops[i].design_runs);
    free(at);
}

/* --- all of them --------------------------------------------------------------------------------------- */

static void tell_usual(size_t i)
{
    tell_run(grid_cell(i), (uint64_t)i << 20);
}

static void tell_other(size_t i)
{
    tell_run(others[i], (uint64_t)(N_GRID + i) << 20);
}

static const struct {
    size_t n;
    void (*tell)(size_t i);
} kinds[] = {{N_GRID, tell_usual},       {N_OTHERS, tell_other}, {N_USERS, tell_users},
             {N_TRAFFICS, tell_traffic}, {N_WIDTHS, tell_width}, {N_STOPS, tell_stop}};
#define N_CELLS (N_GRID + N_OTHERS + N_USERS + N_TRAFFICS + N_WIDTHS + N_STOPS)

static void tell(size_t i)
{
    size_t kind = 0;
    printf("{\"cell\":%zu,", i);
    while (i >= kinds[kind].n)
        i -= kinds[kind++].n;
    kinds[kind].tell(i);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    return kbt_run_cells(argc, argv, "peeking", N_CELLS, &n_runs, tell);
}
