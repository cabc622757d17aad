/* The simulated town: the same from the same seed, connected, and a draw from the covariance that it claims. The chart
 * that shows the result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/chart.h"
#include "kbt.h"
#include "demo/town.h"

static struct lc_town_options small(uint64_t seed)
{
    struct lc_town_options o = lc_town_defaults();
    o.seed = seed;
    o.n_users = 12;
    o.n_arms = 5;
    o.n_candidates = 3;
    return o;
}

static void open_town(struct lc_town *t, const struct lc_town_options *o)
{
    char why[LC_WHY] = "";
    ck_assert_msg(lc_town_new(t, o, why) == 0, "%s", why);
}

START_TEST(a_seed_makes_one_town)
{
    struct lc_town a, b, c;
    struct lc_town_options o = small(5), p = small(6);
    open_town(&a, &o);
    open_town(&b, &o);
    open_town(&c, &p);
    ck_assert_uint_eq(a.n_edges, b.n_edges);
    ck_assert_mem_eq(a.truth, b.truth, 60 * sizeof(double));
    ck_assert_mem_ne(a.truth, c.truth, 60 * sizeof(double));
    for (size_t t = 0; t < 50; t++) {
        ck_assert_uint_eq(lc_town_user(&a, t), lc_town_user(&b, t));
        ck_assert_double_eq(lc_town_reward(&a, t, 2), lc_town_reward(&b, t, 2));
    }
    lc_town_close(&a);
    lc_town_close(&b);
    lc_town_close(&c);
}
END_TEST

START_TEST(every_town_is_connected)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct lc_town town;
        struct lc_town_options o = lc_town_defaults();
        struct kb_graph *g = NULL;
        o.seed = seed;
        o.n_users = 2 + 7 * (size_t)seed;
        open_town(&town, &o);
        ck_assert_int_eq(kb_graph_new(&g, o.n_users, town.edges, town.n_edges, NULL), KB_OK);
        ck_assert_uint_eq(kb_graph_n_edges(g), town.n_edges);
        ck_assert_uint_eq(kb_graph_n_components(g), 1);
        kb_graph_free(g);
        lc_town_close(&town);
    }
}
END_TEST

/* (L + rho I)^-1 by naive elimination, 12 x 12. */
static void user_covariance(const struct lc_town *t, double *out)
{
    size_t n = t->o.n_users;
    double a[144] = {0};
    for (size_t i = 0; i < n; i++)
        a[i * n + i] = t->o.rho;
    for (size_t e = 0; e < t->n_edges; e++) {
        size_t u = t->edges[e].u, v = t->edges[e].v;
        a[u * n + u] += 1.0;
        a[v * n + v] += 1.0;
        a[u * n + v] -= 1.0;
        a[v * n + u] -= 1.0;
    }
    kbt_inverse(n, a, out);
}

static double arm_covariance(const struct lc_town *t, size_t a, size_t b)
{
    double r2 = 0.0;
    for (size_t j = 0; j < t->o.dim; j++)
        r2 += pow(t->features[a * t->o.dim + j] - t->features[b * t->o.dim + j], 2.0);
    return exp(-r2 / (2.0 * t->o.lengthscale * t->o.lengthscale));
}

/* Two forms of f whose expectations the covariance K = G (x) A fixes, each over |f|^2, which the scaling holds at n m:
 *   whole    f^T K^-1 f          expected n m / tr K     (sensitive to rho and to the lengthscale)
 *   friends  sum over friendships and arms of (f_ua - f_va)^2, expected tr(L G) m / tr K     (sensitive to the graph)
 * Over 200 seeds the mean of each is within a few percent of the ratio of expectations, but for the lift of
 * E[1 / |f|^2] over 1 / E|f|^2 (Jensen), which the bounds leave room for. rho = 1 keeps that lift small. */
static void forms(const struct lc_town *t, const double *g, double *whole, double *friends)
{
    const size_t n = t->o.n_users, m = t->o.n_arms;
    double k[60 * 60] = {0}, x[60], trace = 0.0, got = 0.0, want = 0.0, quad = 0.0;
    for (size_t i = 0; i < n * m; i++)
        for (size_t j = 0; j < n * m; j++)
            k[j * n * m + i] = g[i / m * n + j / m] * arm_covariance(t, i % m, j % m);
    kbt_solve(n * m, k, t->truth, x);
    for (size_t i = 0; i < n * m; i++) {
        trace += k[i * n * m + i];
        quad += t->truth[i] * x[i];
    }
    for (size_t e = 0; e < t->n_edges; e++) {
        size_t u = t->edges[e].u, v = t->edges[e].v;
        want += (double)m * (g[u * n + u] + g[v * n + v] - 2.0 * g[u * n + v]);
        for (size_t a = 0; a < m; a++)
            got += pow(t->truth[u * m + a] - t->truth[v * m + a], 2.0);
    }
    *whole = quad * trace / pow((double)(n * m), 2.0);
    *friends = got / (double)(n * m) * trace / want;
}

START_TEST(the_truth_has_the_covariance_it_claims)
{
    const size_t n_seeds = 200;
    double sum_whole = 0.0, sum_friends = 0.0;
    for (uint64_t seed = 1; seed <= n_seeds; seed++) {
        struct lc_town town;
        struct lc_town_options o = small(seed);
        double g[144] = {0}, whole, friends;
        o.rho = 1.0;
        open_town(&town, &o);
        user_covariance(&town, g);
        forms(&town, g, &whole, &friends);
        sum_whole += whole / (double)n_seeds;
        sum_friends += friends / (double)n_seeds;
        lc_town_close(&town);
    }
    ck_assert_double_gt(sum_whole, 0.97);
    ck_assert_double_lt(sum_whole, 1.15);
    ck_assert_double_gt(sum_friends, 0.97);
    ck_assert_double_lt(sum_friends, 1.15);
}
END_TEST

START_TEST(the_truth_has_root_mean_square_one)
{
    struct lc_town town;
    struct lc_town_options o = lc_town_defaults();
    double ss = 0.0;
    open_town(&town, &o);
    for (size_t i = 0; i < o.n_users * o.n_arms; i++)
        ss += town.truth[i] * town.truth[i];
    ck_assert_double_eq_tol(ss / (double)(o.n_users * o.n_arms), 1.0, 1e-12);
    lc_town_close(&town);
}
END_TEST

START_TEST(candidates_are_distinct_and_every_arm_has_its_turn)
{
    struct lc_town town;
    struct lc_town_options o = lc_town_defaults();
    size_t arms[10], seen[20] = {0}, users[120] = {0};
    open_town(&town, &o);
    for (size_t t = 0; t < 4000; t++) {
        bool is_there[20] = {false};
        lc_town_candidates(&town, t, arms);
        users[lc_town_user(&town, t)]++;
        for (size_t i = 0; i < 10; i++) {
            ck_assert_uint_lt(arms[i], 20);
            ck_assert(!is_there[arms[i]]);
            is_there[arms[i]] = true;
            seen[arms[i]]++;
        }
    }
    for (size_t a = 0; a < 20; a++) /* 2,000 expected, sd 32 */
        ck_assert(seen[a] > 1840 && seen[a] < 2160);
    for (size_t u = 0; u < 120; u++) /* 33 expected, sd 5.7 */
        ck_assert(users[u] > 5 && users[u] < 70);
    lc_town_close(&town);
}
END_TEST

START_TEST(regret_is_zero_for_the_best_and_positive_for_others)
{
    struct lc_town town;
    struct lc_town_options o = small(3);
    size_t arms[3];
    open_town(&town, &o);
    for (size_t t = 0; t < 100; t++) {
        const double *f = town.truth + lc_town_user(&town, t) * 5;
        double least = INFINITY, best = -INFINITY;
        lc_town_candidates(&town, t, arms);
        for (size_t i = 0; i < 3; i++)
            best = fmax(best, f[arms[i]]);
        for (size_t i = 0; i < 3; i++) {
            double r = lc_town_regret(&town, t, arms[i]);
            ck_assert_double_eq_tol(r, best - f[arms[i]], 1e-15);
            least = fmin(least, r);
        }
        ck_assert_double_eq(least, 0.0);
    }
    lc_town_close(&town);
}
END_TEST

START_TEST(noise_has_the_spread_it_claims)
{
    struct lc_town town;
    struct lc_town_options o = small(4);
    double sum = 0.0, ss = 0.0;
    const size_t n = 20000;
    open_town(&town, &o);
    for (size_t t = 0; t < n; t++) {
        double e = lc_town_reward(&town, t, t % 5) - town.truth[lc_town_user(&town, t) * 5 + t % 5];
        sum += e;
        ss += e * e;
    }
    ck_assert_double_lt(fabs(sum / (double)n), 4.0 * o.noise / sqrt((double)n));
    ck_assert_double_eq_tol(sqrt(ss / (double)n), o.noise, 0.02 * o.noise);
    lc_town_close(&town);
}
END_TEST

START_TEST(impossible_towns_are_refused)
{
    struct lc_town town;
    char why[LC_WHY];
    struct lc_town_options few = small(1), greedy = small(1), vast = small(1);
    few.n_users = 1;
    greedy.n_candidates = 6;
    vast.n_users = 1000000;
    ck_assert_int_eq(lc_town_new(&town, &few, why), -1);
    ck_assert_int_eq(lc_town_new(&town, &greedy, why), -1);
    ck_assert_int_eq(lc_town_new(&town, &vast, why), -1);
}
END_TEST

/* --- chart ---------------------------------------------------------------------------------------------- */

START_TEST(a_straight_line_runs_from_corner_to_corner)
{
    double y[10];
    struct lc_text out = {0};
    struct lc_chart c = {.width = 10, .height = 10, .x_label = "round"};
    for (size_t i = 0; i < 10; i++)
        y[i] = (double)i;
    struct ld_ope_series s = {"line", y, 10, '*', 32};
    lc_chart_draw(&c, &s, 1, &out);
    const char *line = out.data;
    for (size_t row = 0; row < 10; row++) {
        const char *bar = strchr(line, '|');
        ck_assert_int_eq(bar[10 - row], '*'); /* the anti-diagonal */
        if (row < 9)
            ck_assert_ptr_null(memchr(bar + 1, '*', 8 - row)); /* and nothing left of it */
        line = strchr(line, '\n') + 1;
    }
    ck_assert_ptr_nonnull(strstr(out.data, "* line"));
    ck_assert_ptr_nonnull(strstr(out.data, "round 10"));
    lc_text_close(&out);
}
END_TEST

START_TEST(braille_fills_the_dots_of_a_flat_line)
{
    const double y[4] = {1.0, 1.0, 1.0, 1.0};
    struct lc_text out = {0};
    struct lc_chart c = {.width = 2, .height = 1, .is_coloured = true, .x_label = "t"};
    struct ld_ope_series s = {"one", y, 4, '*', 31};
    lc_chart_draw(&c, &s, 1, &out);
    /* the top dots of both columns of a cell: bits 1 and 8, U+2809 */
    ck_assert_ptr_nonnull(strstr(out.data, "\033[31m\xE2\xA0\x89\033[0m\033[31m\xE2\xA0\x89\033[0m"));
    lc_text_close(&out);
}
END_TEST

START_TEST(labels_of_curves_that_end_together_stand_on_lines_of_their_own)
{
    const double y[2] = {0.0, 1.0};
    struct lc_text out = {0};
    struct lc_chart c = {.width = 8, .height = 4, .x_label = "t"};
    const struct ld_ope_series s[3] = {{"xx", y, 2, 'a', 31}, {"yy", y, 2, 'b', 32}, {"zz", y, 2, 'c', 33}};
    lc_chart_draw(&c, s, 3, &out);
    size_t lines = 0;
    for (const char *p = out.data; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1) {
        size_t n = strcspn(p, "\n"), labels = 0;
        for (size_t i = 0; i < 3; i++)
            labels += memmem(p, n, s[i].label, 2) != NULL;
        ck_assert_uint_le(labels, 1);
        lines += labels;
    }
    ck_assert_uint_eq(lines, 3);
    lc_text_close(&out);
}
END_TEST

int main(void)
{
    return KBT_RUN("town", a_seed_makes_one_town, every_town_is_connected, the_truth_has_the_covariance_it_claims,
                   the_truth_has_root_mean_square_one, candidates_are_distinct_and_every_arm_has_its_turn,
                   regret_is_zero_for_the_best_and_positive_for_others, noise_has_the_spread_it_claims,
                   impossible_towns_are_refused) |
           KBT_RUN("chart", a_straight_line_runs_from_corner_to_corner, braille_fills_the_dots_of_a_flat_line,
                   labels_of_curves_that_end_together_stand_on_lines_of_their_own);
}
