/* Evidence of a model split by arm: against the likelihood of the single rewards by dense algebra, its gradient against
 * differences, and fits against a grid. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "posterior/marginal.h"

#define MOST_POINTS 12u
#define MOST_ARMS 6u
#define MOST_REWARDS 400u
#define MOST_J KB_MARGINAL_COMPONENTS

static const struct kb_scales_prior PRIOR = {.ratio = {1, 0.1, 3, 3, 1}, .spread = 1.5, .range = 2};

/* Arms with points on a line, and rewards one by one. Component j is an RBF of lengthscale 2^-j. */
struct world {
    size_t n_arms, n_components, n_rewards, n_asked;
    size_t n[MOST_ARMS], arm_of[MOST_REWARDS], point_of[MOST_REWARDS];
    double x[MOST_ARMS][MOST_POINTS], count[MOST_ARMS][MOST_POINTS], sum[MOST_ARMS][MOST_POINTS], y[MOST_REWARDS];
    struct kb_marginal_arm arm[MOST_ARMS];
    struct kb_marginal_rows rows;
};

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

static double kernel(size_t j, double x, double y)
{
    return exp(-0.5 * (x - y) * (x - y) * pow(4, (double)j)) * (1 + (double)j);
}

/* The upper triangles hold what must not be read. */
static void gram(const void *of, size_t a, double *const *out)
{
    struct world *w = (struct world *)of;

    w->n_asked++;
    for (size_t j = 0; j < w->n_components; j++)
        for (size_t c = 0; c < w->n[a]; c++)
            for (size_t r = 0; r < w->n[a]; r++)
                out[j][c * w->n[a] + r] = r < c ? (double)NAN : kernel(j, w->x[a][r], w->x[a][c]);
}

static void add_reward(struct world *w, size_t a, size_t i, double y)
{
    ck_assert_uint_lt(w->n_rewards, MOST_REWARDS);
    w->arm_of[w->n_rewards] = a;
    w->point_of[w->n_rewards] = i;
    w->y[w->n_rewards++] = y;
    w->count[a][i]++;
    w->sum[a][i] += y;
    w->rows.square += y * y;
}

/* Arms of 0, 1 and more points, each with one reward or more. */
static void make_world(struct world *w, uint64_t key, size_t n_arms, size_t n_components, double unit, double offset)
{
    uint64_t next = 0;

    memset(w, 0, sizeof *w);
    w->n_arms = n_arms;
    w->n_components = n_components;
    for (size_t a = 0; a < n_arms; a++) {
        w->n[a] = a == 0 ? 1 : a == 1 ? 0 : 1 + (size_t)(uniform(key, next++) * MOST_POINTS);
        for (size_t i = 0; i < w->n[a]; i++) {
            const size_t n = 1 + (size_t)(4 * uniform(key, next++));

            w->x[a][i] = 4 * uniform(key, next++);
            for (size_t k = 0; k < n; k++)
                add_reward(w, a, i,
                           offset + unit * (sin(3 * w->x[a][i] + (double)a) +
                                            0.3 * kb_rng_normal(key + 1, KB_STREAM_SIMULATION, next++)));
        }
        w->arm[a] = (struct kb_marginal_arm){w->n[a], w->count[a], w->sum[a]};
    }
    w->rows.n_arms = n_arms;
    w->rows.arm = w->arm;
    w->rows.n_components = n_components;
    w->rows.gram = gram;
    w->rows.of = w;
}

static struct kb_scales some_scales(uint64_t key)
{
    struct kb_scales s = {.mean = uniform(key, 100) - 0.5, .noise = 0.05 + uniform(key, 101)};

    for (size_t j = 0; j < MOST_J; j++)
        s.variance[j] = exp(4 * uniform(key, 102 + j) - 3);
    return s;
}

/* Minus the logarithm of N(y; mu, K + s2 I) without its pi, one row a reward, and the priors as they are written. */
static double dense_value(const struct world *w, const struct kb_scales_prior *prior, const struct kb_scales *s)
{
    const size_t n = w->n_rewards;
    double *k = kbt_array(n * n), *y = kbt_array(n), *alpha = kbt_array(n), value = 0;

    for (size_t c = 0; c < n; c++) {
        y[c] = w->y[c] - s->mean;
        for (size_t r = 0; r < n; r++) {
            k[c * n + r] = r == c ? s->noise : 0;
            for (size_t j = 0; j < w->n_components && w->arm_of[r] == w->arm_of[c]; j++)
                k[c * n + r] +=
                    s->variance[j] * kernel(j, w->x[w->arm_of[r]][w->point_of[r]], w->x[w->arm_of[c]][w->point_of[c]]);
        }
    }
    kbt_solve(n, k, y, alpha);
    for (size_t i = 0; i < n; i++)
        value += y[i] * alpha[i] / 2;
    value += kbt_logdet(n, k) / 2 + log(s->noise) + prior->range * prior->range / 4 / s->noise;
    for (size_t j = 0; j < w->n_components; j++)
        value += prior->is_fixed[j] ? 0 : pow(log(s->variance[j] / s->noise / prior->ratio[j]) / prior->spread, 2) / 2;
    free(k);
    free(y);
    free(alpha);
    return value;
}

START_TEST(evidence_equals_the_likelihood_of_single_rewards)
{
    struct world w;
    double value;

    for (uint64_t key = 0; key < 24; key++) {
        const struct kb_scales s = some_scales(key);
        struct kb_scales_prior prior = PRIOR;

        prior.is_fixed[0] = key % 5 == 0;
        make_world(&w, key, 1 + key % MOST_ARMS, 1 + key % MOST_J, 1, 0);
        ck_assert_int_eq(kb_marginal_value(&w.rows, &prior, &s, &value, NULL), KB_OK);
        const double want = dense_value(&w, &prior, &s);
        ck_assert_msg(kbt_close(value, want, 1e-10), "%llu: %.15g, expected %.15g", (unsigned long long)key, value,
                      want);
    }
}
END_TEST

static double *log_scale(struct kb_scales *s, size_t n_components, size_t j)
{
    return j < n_components ? &s->variance[j] : &s->noise;
}

START_TEST(gradient_equals_differences)
{
    const double step = 1e-5;
    struct world w;
    double value, up, down, gradient[MOST_J + 1];

    for (uint64_t key = 0; key < 24; key++) {
        const size_t n = 1 + key % MOST_J;
        const struct kb_scales s = some_scales(key);
        struct kb_scales_prior prior = PRIOR;

        make_world(&w, key, 1 + key % MOST_ARMS, n, 1, 0);
        prior.is_fixed[0] = key % 5 == 0;
        prior.is_noise_fixed = key % 7 == 0;
        ck_assert_int_eq(kb_marginal_value(&w.rows, &prior, &s, &value, gradient), KB_OK);
        for (size_t j = 0; j <= n; j++) {
            struct kb_scales at = s;

            *log_scale(&at, n, j) *= exp(step);
            ck_assert_int_eq(kb_marginal_value(&w.rows, &prior, &at, &up, NULL), KB_OK);
            *log_scale(&at, n, j) *= exp(-2 * step);
            ck_assert_int_eq(kb_marginal_value(&w.rows, &prior, &at, &down, NULL), KB_OK);
            if (j < n ? prior.is_fixed[j] : prior.is_noise_fixed)
                ck_assert_double_eq(gradient[j], 0);
            else
                ck_assert_msg(kbt_close(gradient[j], (up - down) / (2 * step), 1e-6),
                              "%llu, %zu: %.10g, expected %.10g", (unsigned long long)key, j, gradient[j],
                              (up - down) / (2 * step));
        }
    }
}
END_TEST

/* A weight counts as so many rewards: half of each twice is each once. */
START_TEST(weights_count_as_rewards)
{
    static struct world w, half;
    struct kb_marginal_arm arms[MOST_ARMS];
    double once, twice, count[MOST_ARMS][MOST_POINTS], sum[MOST_ARMS][MOST_POINTS];
    const struct kb_scales s = some_scales(3), finer = {s.mean, s.noise / 2, {s.variance[0], s.variance[1]}, {0}};
    struct kb_scales_prior prior = PRIOR;

    prior.is_fixed[0] = prior.is_fixed[1] = true; /* no prior moves along */
    make_world(&w, 5, MOST_ARMS, 2, 1, 0);
    half = w;
    half.rows.of = &half;
    half.rows.arm = arms;
    half.rows.square = w.rows.square / 2;
    for (size_t a = 0; a < MOST_ARMS; a++) {
        for (size_t i = 0; i < w.n[a]; i++) {
            count[a][i] = w.count[a][i] / 2;
            sum[a][i] = w.sum[a][i] / 2;
        }
        arms[a] = (struct kb_marginal_arm){w.n[a], count[a], sum[a]};
    }
    ck_assert_int_eq(kb_marginal_value(&w.rows, &prior, &s, &once, NULL), KB_OK);
    ck_assert_int_eq(kb_marginal_value(&half.rows, &prior, &finer, &twice, NULL), KB_OK);
    const double n = (double)w.n_rewards, b0 = PRIOR.range * PRIOR.range / 4;
    double n_points = 0;
    for (size_t a = 0; a < MOST_ARMS; a++)
        n_points += (double)w.n[a];
    /* K and W / s2 are the same; what is not: the constants of determinants and priors */
    const double constants = (n / 2 - n_points) * log(finer.noise) / 2 - (n - n_points) * log(s.noise) / 2 -
                             n_points * log(2) / 2 + log(finer.noise / s.noise) + b0 / finer.noise - b0 / s.noise;
    ck_assert(kbt_close(twice - once, constants, 1e-10));
}
END_TEST

static enum kb_err fit(const struct world *w, const struct kb_scales_prior *prior, struct kb_scales *s, double *after)
{
    double before;
    const enum kb_err rc = kb_marginal_fit(&w->rows, prior, s, 40, NULL, NULL, &before, after);

    ck_assert(rc != KB_OK || *after <= before);
    return rc;
}

/* One component and the noise: no point of a fine grid is better, and the best of the grid is where the fit ends. */
START_TEST(fits_end_where_the_best_of_a_grid_is)
{
    struct world w;

    for (uint64_t key = 0; key < 6; key++) {
        struct kb_scales s = {.mean = 0.1, .noise = 0.25, .variance = {0.05}}, best = s;
        double after, value, least = INFINITY;

        make_world(&w, key, MOST_ARMS, 1, 1, 0);
        ck_assert_int_eq(fit(&w, &PRIOR, &s, &after), KB_OK);
        for (int i = -60; i <= 60; i++)
            for (int k = -60; k <= 60; k++) {
                const struct kb_scales at = {.mean = 0.1, .noise = exp(0.1 * i), .variance = {exp(0.1 * k)}};

                ck_assert_int_eq(kb_marginal_value(&w.rows, &PRIOR, &at, &value, NULL), KB_OK);
                if (value < least) {
                    least = value;
                    best = at;
                }
            }
        ck_assert_double_le(after, least + 1e-6);
        ck_assert_double_lt(fabs(log(s.noise / best.noise)), 0.11);
        ck_assert_double_lt(fabs(log(s.variance[0] / best.variance[0])), 0.11);
    }
}
END_TEST

START_TEST(at_the_end_no_scale_has_a_slope)
{
    struct world w;
    double after, gradient[MOST_J + 1];

    for (uint64_t key = 0; key < 12; key++) {
        struct kb_scales s = some_scales(key);

        make_world(&w, key, MOST_ARMS, 1 + key % MOST_J, 1, 0);
        ck_assert_int_eq(fit(&w, &PRIOR, &s, &after), KB_OK);
        ck_assert_int_eq(kb_marginal_value(&w.rows, &PRIOR, &s, &after, gradient), KB_OK);
        for (size_t j = 0; j <= w.n_components; j++)
            ck_assert_double_lt(fabs(gradient[j]), 0.01);
    }
}
END_TEST

/* Unit and offset of the rewards change the scales by the unit's square and nothing else. */
START_TEST(units_of_the_rewards_do_not_matter)
{
    static struct world w, scaled;
    double after;

    for (uint64_t key = 0; key < 6; key++)
        for (int e = -3; e <= 3; e++) {
            const double unit = pow(10, e);
            struct kb_scales s = {.mean = 0.1, .noise = 0.25, .variance = {0.05, 0.02, 0.1}}, t = s;
            struct kb_scales_prior prior = PRIOR;

            make_world(&w, key, MOST_ARMS, 3, 1, 0);
            make_world(&scaled, key, MOST_ARMS, 3, unit, 5);
            t.mean = 5 + unit * s.mean;
            t.noise *= unit * unit;
            prior.range *= unit;
            for (size_t j = 0; j < 3; j++)
                t.variance[j] *= unit * unit;
            ck_assert_int_eq(fit(&w, &PRIOR, &s, &after), KB_OK);
            ck_assert_int_eq(fit(&scaled, &prior, &t, &after), KB_OK);
            ck_assert(kbt_close_relative(t.noise, unit * unit * s.noise, 1e-4));
            for (size_t j = 0; j < 3; j++)
                ck_assert(kbt_close_relative(t.variance[j], unit * unit * s.variance[j], 1e-3));
        }
}
END_TEST

/* Five arms that never earned anything: the noise stays where its prior has it, as do what tells arms apart. */
START_TEST(rewards_that_are_all_alike_do_not_take_the_noise_away)
{
    static struct world w;
    const struct kb_scales_prior prior = {.ratio = {1}, .spread = 1.5, .range = 1};

    for (int kind = 0; kind < 2; kind++) {
        struct kb_scales s = {.mean = kind, .noise = 0.25, .variance = {0.05}};
        double after;

        memset(&w, 0, sizeof w);
        w.n_arms = 5;
        w.n_components = 1;
        for (size_t a = 0; a < 5; a++) {
            w.n[a] = 1;
            w.count[a][0] = 400;
            w.sum[a][0] = 400 * kind;
            w.arm[a] = (struct kb_marginal_arm){1, w.count[a], w.sum[a]};
        }
        w.rows = (struct kb_marginal_rows){
            .n_arms = 5, .arm = w.arm, .n_components = 1, .square = 2000.0 * kind, .gram = gram, .of = &w};
        ck_assert_int_eq(fit(&w, &prior, &s, &after), KB_OK);
        ck_assert(s.noise > 1e-4 && s.noise < 1e-3);
        ck_assert(s.variance[0] > s.noise / 1000);
    }
}
END_TEST

START_TEST(what_is_held_stays_to_the_bit)
{
    struct world w;

    for (unsigned held = 0; held < 16; held++) {
        const struct kb_scales start = some_scales(held);
        struct kb_scales s = start, again = start;
        struct kb_scales_prior prior = PRIOR;
        double after;

        for (size_t j = 0; j < 3; j++)
            prior.is_fixed[j] = held >> j & 1;
        prior.is_noise_fixed = held >> 3 & 1;
        make_world(&w, held, MOST_ARMS, 3, 1, 0);
        ck_assert_int_eq(fit(&w, &prior, &s, &after), KB_OK);
        for (size_t j = 0; j < 3; j++)
            ck_assert((s.variance[j] == start.variance[j]) == prior.is_fixed[j]);
        ck_assert((s.noise == start.noise) == prior.is_noise_fixed);
        ck_assert(s.mean == start.mean && s.variance[3] == start.variance[3]);
        ck_assert_int_eq(fit(&w, &prior, &again, &after), KB_OK);
        ck_assert_mem_eq(&again, &s, sizeof s);
    }
}
END_TEST

START_TEST(no_scale_moves_further_than_the_bounds)
{
    struct world w;

    for (int e = -40; e <= 40; e += 8) {
        const struct kb_scales start = {.mean = 0, .noise = exp(e), .variance = {exp(-e), exp(e)}};
        struct kb_scales s = start;
        double after;

        make_world(&w, 7, MOST_ARMS, 2, 1, 0);
        const enum kb_err rc = fit(&w, &PRIOR, &s, &after);
        ck_assert(rc == KB_OK || (rc == KB_ENOTPD && memcmp(&s, &start, sizeof s) == 0));
        for (size_t j = 0; j <= 2; j++)
            ck_assert_double_le(fabs(log(*log_scale(&s, 2, j)) - (j == 1   ? e
                                                                  : j == 0 ? -e
                                                                           : e)),
                                KB_MARGINAL_MOST_STEP + 1e-12);
    }
}
END_TEST

/* Two points that are one, seen so often that the noise does not tell them apart: there is no factor. */
START_TEST(a_start_without_a_factor_is_refused)
{
    static struct world w;
    const struct kb_scales start = {.mean = 0, .noise = 1e-30, .variance = {1}};
    struct kb_scales s = start;
    double value = 7, gradient[2];

    make_world(&w, 1, 3, 1, 1, 0);
    w.n[2] = w.arm[2].n = 3;
    for (size_t i = 0; i < 3; i++) {
        w.x[2][i] = 0.25;
        w.count[2][i] = 1;
    }
    ck_assert_int_eq(kb_marginal_value(&w.rows, &PRIOR, &s, &value, gradient), KB_ENOTPD);
    ck_assert_int_eq(fit(&w, &PRIOR, &s, &value), KB_ENOTPD);
    ck_assert_mem_eq(&s, &start, sizeof s);
    /* from elsewhere the search passes such places by */
    s = (struct kb_scales){.mean = 0, .noise = 1e-13, .variance = {1}};
    ck_assert_int_eq(fit(&w, &PRIOR, &s, &value), KB_OK);
    ck_assert(isfinite(value) && s.noise > 1e-13);
}
END_TEST

static bool counts_down(void *left)
{
    return (*(size_t *)left)-- > 0;
}

START_TEST(a_search_can_be_ended_before_each_evaluation)
{
    struct world w;
    const struct kb_scales start = {.mean = 0, .noise = 0.25, .variance = {0.05, 0.02}};
    size_t n_ended = 0;

    make_world(&w, 2, MOST_ARMS, 2, 1, 0);
    for (size_t most = 0;; most++) {
        struct kb_scales s = start;
        size_t left = most;
        double before, after;

        w.n_asked = 0;
        const enum kb_err rc = kb_marginal_fit(&w.rows, &PRIOR, &s, 20, counts_down, &left, &before, &after);
        if (rc == KB_OK)
            break;
        ck_assert_int_eq(rc, KB_ECANCELLED);
        ck_assert_mem_eq(&s, &start, sizeof s);
        ck_assert_uint_eq(w.n_asked, most * (MOST_ARMS - 1)); /* the arm without points is not asked for */
        n_ended++;
    }
    ck_assert(n_ended >= 5 && n_ended < 40);
}
END_TEST

START_TEST(without_iterations_the_start_is_the_result)
{
    struct world w;
    const struct kb_scales start = some_scales(1);
    struct kb_scales s = start;
    double before, after;

    make_world(&w, 2, MOST_ARMS, 2, 1, 0);
    ck_assert_int_eq(kb_marginal_fit(&w.rows, &PRIOR, &s, 0, NULL, NULL, &before, &after), KB_OK);
    ck_assert(before == after && memcmp(&s, &start, sizeof s) == 0);
}
END_TEST

static enum kb_err fit_once(void *arg)
{
    const struct world *w = arg;
    struct kb_scales s = some_scales(4);
    double before, after;

    return kb_marginal_fit(&w->rows, &PRIOR, &s, 20, NULL, NULL, &before, &after);
}

static void nothing_left(void *arg)
{
    (void)arg;
}

START_TEST(every_failing_allocation_is_survived)
{
    struct world w;

    make_world(&w, 2, MOST_ARMS, 3, 1, 0);
    ck_assert_uint_ge(kbt_brutal(fit_once, nothing_left, &w), 5);
}
END_TEST

int main(void)
{
    return KBT_RUN("marginal", evidence_equals_the_likelihood_of_single_rewards, gradient_equals_differences,
                   weights_count_as_rewards, fits_end_where_the_best_of_a_grid_is, at_the_end_no_scale_has_a_slope,
                   units_of_the_rewards_do_not_matter, rewards_that_are_all_alike_do_not_take_the_noise_away,
                   what_is_held_stays_to_the_bit, no_scale_moves_further_than_the_bounds,
                   a_start_without_a_factor_is_refused, a_search_can_be_ended_before_each_evaluation,
                   without_iterations_the_start_is_the_result, every_failing_allocation_is_survived);
}
