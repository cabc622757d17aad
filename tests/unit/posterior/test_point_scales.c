/* Scales of points that stand apart: their evidence is that of dense algebra over single rewards, its slopes are
 * differences, the fit ends where the best of a grid is, and what is fixed stays. */
#include "posterior/point_scales.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "posterior/posterior.h"

#define MOST_POINTS 6u
#define MOST_REWARDS 40u

static const struct kb_scales_prior PRIOR = {.ratio = {1}, .spread = 1.5, .range = 2};

struct world {
    double reward[MOST_REWARDS], count[MOST_POINTS], sum[MOST_POINTS];
    size_t point[MOST_REWARDS], n_rewards;
    struct kb_point_rows rows;
};

static void make_world(struct world *w, uint64_t key, size_t n_points, size_t n_rewards, double unit)
{
    *w = (struct world){.n_rewards = n_rewards};
    for (size_t i = 0; i < n_rewards; i++) {
        const size_t at = i < n_points ? i : kb_rng_bits(key, KB_STREAM_SIMULATION, 3 * i) % n_points;
        const double own = kb_rng_normal(key, KB_STREAM_SIMULATION, 1000 + at);

        w->point[i] = at;
        w->reward[i] = unit * (0.3 + 0.5 * own + 0.4 * kb_rng_normal(key, KB_STREAM_SIMULATION, 2000 + i));
        w->count[at]++;
        w->sum[at] += w->reward[i];
        w->rows.square += w->reward[i] * w->reward[i];
    }
    w->rows.n = n_points;
    w->rows.count = w->count;
    w->rows.sum = w->sum;
}

/* -ln N(y; mu, K + s2 I) by a Cholesky factor of all rewards, less n/2 ln 2 pi, and the priors. */
static double dense_value(const struct world *w, const struct kb_scales *at)
{
    static double l[MOST_REWARDS][MOST_REWARDS];
    double z[MOST_REWARDS], value = 0;

    for (size_t i = 0; i < w->n_rewards; i++) {
        z[i] = w->reward[i] - at->mean;
        for (size_t j = 0; j <= i; j++) {
            double k = (w->point[i] == w->point[j] ? at->variance[0] : 0) + (i == j ? at->noise : 0);

            for (size_t m = 0; m < j; m++)
                k -= l[i][m] * l[j][m];
            l[i][j] = i == j ? sqrt(k) : k / l[j][j];
            if (j < i)
                z[i] -= l[i][j] * z[j];
        }
        z[i] /= l[i][i];
        value += z[i] * z[i] / 2 + log(l[i][i]);
    }
    const double off = log(at->variance[0] / at->noise) / PRIOR.spread;
    return value + off * off / 2 + log(at->noise) + PRIOR.range * PRIOR.range / 4 / at->noise;
}

static struct kb_scales some_scales(uint64_t key)
{
    return (struct kb_scales){.mean = kb_rng_normal(key, KB_STREAM_SIMULATION, 1),
                              .noise = exp(kb_rng_normal(key, KB_STREAM_SIMULATION, 2)),
                              .variance = {exp(kb_rng_normal(key, KB_STREAM_SIMULATION, 3))}};
}

/* Up to a constant of the counts, which is what two scales differ by. */
START_TEST(evidence_is_that_of_single_rewards)
{
    struct world w;

    for (uint64_t key = 0; key < 30; key++) {
        const struct kb_scales one = some_scales(key), two = some_scales(key + 1000);
        double a, b;

        make_world(&w, key, 1 + key % MOST_POINTS, MOST_POINTS + key, 1);
        ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &one, &a, NULL), KB_OK);
        ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &two, &b, NULL), KB_OK);
        ck_assert(kbt_close(a - b, dense_value(&w, &one) - dense_value(&w, &two), 1e-10));
    }
}
END_TEST

START_TEST(slopes_equal_differences)
{
    const double step = 1e-5;
    struct world w;
    double value, slope[2];

    for (uint64_t key = 0; key < 30; key++) {
        const struct kb_scales at = some_scales(key);

        make_world(&w, key, 1 + key % MOST_POINTS, MOST_POINTS + key, 1);
        ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &at, &value, slope), KB_OK);
        for (size_t j = 0; j < 2; j++) {
            struct kb_scales up = at, down = at;
            double above, below;

            *(j == 0 ? &up.variance[0] : &up.noise) *= exp(step);
            *(j == 0 ? &down.variance[0] : &down.noise) *= exp(-step);
            ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &up, &above, NULL), KB_OK);
            ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &down, &below, NULL), KB_OK);
            ck_assert(kbt_close(slope[j], (above - below) / (2 * step), 1e-6));
        }
    }
}
END_TEST

static struct kb_tuning find(const struct world *w, const struct kb_spec *spec, double range)
{
    struct kb_scratch s;
    struct kb_tuning t;
    const struct kb_scale_search search = {
        .spec = spec, .is_first = true, .mean = 0.3 * range / 2, .range = range, .square = w->rows.square};

    kb_scratch_init(&s);
    ck_assert_int_eq(kb_point_scales_find(&w->rows, &search, &s, &t), KB_OK);
    kb_scratch_close(&s);
    return t;
}

START_TEST(a_fit_ends_where_the_best_of_a_grid_is)
{
    struct kb_spec spec;
    struct world w;

    ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
    for (uint64_t key = 0; key < 6; key++) {
        double least = INFINITY, value;

        make_world(&w, key, MOST_POINTS, MOST_REWARDS, 1);
        const struct kb_tuning t = find(&w, &spec, PRIOR.range);
        for (int i = -60; i <= 60; i++)
            for (int k = -60; k <= 60; k++) {
                const struct kb_scales at = {.mean = 0.3, .noise = exp(0.1 * i), .variance = {exp(0.1 * k)}};

                ck_assert_int_eq(kb_point_scales_value(&w.rows, &PRIOR, &at, &value, NULL), KB_OK);
                least = fmin(least, value);
            }
        ck_assert_double_ge(t.after, -least - 1e-6);
        ck_assert_double_ge(t.after, t.before);
        ck_assert_double_eq(t.prior.mean, 0.3);
    }
}
END_TEST

START_TEST(the_unit_of_rewards_is_no_matter)
{
    struct kb_spec spec;
    struct world w, scaled;

    ck_assert_int_eq(kb_spec_preset(&spec, "ts", 0, 0), KB_OK);
    make_world(&w, 4, MOST_POINTS, MOST_REWARDS, 1);
    make_world(&scaled, 4, MOST_POINTS, MOST_REWARDS, 1024);
    const struct kb_tuning a = find(&w, &spec, 2), b = find(&scaled, &spec, 2048);
    ck_assert(kbt_close(b.noise, a.noise * 1024 * 1024, 1e-6));
    ck_assert(kbt_close(b.prior.arm, a.prior.arm * 1024 * 1024, 1e-6));
}
END_TEST

START_TEST(what_is_fixed_stays)
{
    struct kb_spec spec;
    struct world w;

    make_world(&w, 4, MOST_POINTS, MOST_REWARDS, 1);
    for (unsigned which = 1; which <= KB_LEARNED_APART; which++) {
        if ((which & ~(unsigned)KB_LEARNED_APART) != 0)
            continue;
        ck_assert_int_eq(kb_spec_preset(&spec, "ucb", 0, 0), KB_OK);
        spec.learned &= ~which;
        spec.repr.lambda = which & KB_LEARNED_NOISE ? 0.7 : spec.repr.lambda;
        spec.prior.mean = which & KB_LEARNED_MEAN ? -2 : spec.prior.mean;
        spec.prior.arm = which & KB_LEARNED_ARM ? 0.3 : spec.prior.arm;
        const struct kb_tuning t = find(&w, &spec, 2);
        ck_assert((t.noise == 0.7) == ((which & KB_LEARNED_NOISE) != 0));
        ck_assert((t.prior.mean == -2) == ((which & KB_LEARNED_MEAN) != 0));
        ck_assert((t.prior.arm == 0.3) == ((which & KB_LEARNED_ARM) != 0));
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("point_scales", evidence_is_that_of_single_rewards, slopes_equal_differences,
                   a_fit_ends_where_the_best_of_a_grid_is, the_unit_of_rewards_is_no_matter, what_is_fixed_stays);
}
