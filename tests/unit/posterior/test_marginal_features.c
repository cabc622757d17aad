/* Evidence over a dictionary: against the likelihood of the single rewards under the model that the features are, and
 * under the process itself, by dense algebra; its gradient against differences; fits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "posterior/marginal_features.h"

#define N 60u /* rewards */
#define MOST_J KB_MARGINAL_COMPONENTS
#define MOST_M (MOST_J * N)
#define LD (MOST_M + 3)

static const struct kb_scales_prior PRIOR = {.ratio = {1, 0.1, 3, 3, 1}, .spread = 1.5, .range = 2};

/* Rewards at points of a line; component j is an RBF of lengthscale 2^-j times 1 + j, over points of its own. */
struct world {
    size_t n_components, m;
    double x[N], y[N];
    double *z; /* [N][m] features */
    uint32_t component[MOST_M];
    double *gram, target[MOST_M], mass[MOST_M], missed[MOST_J];
    struct kb_feature_sums sums;
};

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

static double kernel(size_t j, double x, double y)
{
    return exp(-0.5 * (x - y) * (x - y) * pow(4, (double)j)) * (1 + (double)j);
}

/* Features of component j over m points, from coordinate `first` on, by the definition. */
static void add_features(struct world *w, size_t j, const double *at, size_t m, size_t first)
{
    double a[N][N];

    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k <= i; k++) {
            double v = kernel(j, at[i], at[k]);
            for (size_t l = 0; l < k; l++)
                v -= a[i][l] * a[k][l];
            a[i][k] = i == k ? sqrt(v) : v / a[k][k];
        }
    for (size_t s = 0; s < N; s++) {
        double *z = w->z + s * MOST_M + first;
        for (size_t i = 0; i < m; i++) {
            z[i] = kernel(j, w->x[s], at[i]);
            for (size_t l = 0; l < i; l++)
                z[i] -= a[i][l] * z[l];
            z[i] /= a[i][i];
        }
    }
}

/* m_of_j points for component j: the first of the rewards', which lie apart. Coordinates end up in the order of
 * one of each in turn, so that those of a component do not stand together. */
static void make_world(struct world *w, uint64_t key, size_t n_components, const size_t *m_of, double unit,
                       double offset)
{
    memset(w, 0, sizeof *w);
    w->n_components = n_components;
    w->z = kbt_array(N * MOST_M);
    w->gram = kbt_array(LD * MOST_M);
    for (size_t s = 0; s < N; s++) {
        w->x[s] = 0.2 * (double)((s * 37) % N) + 0.02 * uniform(key, s);
        w->y[s] = offset + unit * (sin(w->x[s]) + 0.3 * kb_rng_normal(key + 1, KB_STREAM_SIMULATION, s));
        w->sums.square += w->y[s] * w->y[s];
        w->sums.sum += w->y[s];
    }
    double *z = kbt_array(N * MOST_M), *by_component = w->z;
    size_t first[MOST_J] = {0}, taken[MOST_J] = {0};
    for (size_t j = 0; j < n_components; j++) {
        first[j] = w->m;
        add_features(w, j, w->x, m_of[j], w->m);
        w->m += m_of[j];
    }
    for (size_t i = 0, j = 0; i < w->m; i++, j++) {
        for (j %= n_components; taken[j] == m_of[j]; j = (j + 1) % n_components)
            ;
        for (size_t s = 0; s < N; s++)
            z[s * MOST_M + i] = by_component[s * MOST_M + first[j] + taken[j]];
        w->component[i] = (uint32_t)j;
        taken[j]++;
    }
    free(by_component);
    w->z = z;
    for (size_t i = 0; i < LD * MOST_M; i++)
        w->gram[i] = (double)NAN; /* what must not be read */
    for (size_t c = 0; c < w->m; c++)
        for (size_t r = c; r < w->m; r++)
            w->gram[c * LD + r] = 0;
    for (size_t j = 0; j < n_components; j++)
        w->missed[j] = N * kernel(j, 0, 0);
    for (size_t s = 0; s < N; s++) {
        const double *row = z + s * MOST_M;
        for (size_t c = 0; c < w->m; c++) {
            w->target[c] += w->y[s] * row[c];
            w->mass[c] += row[c];
            w->missed[w->component[c]] -= row[c] * row[c];
            for (size_t r = c; r < w->m; r++)
                w->gram[c * LD + r] += row[r] * row[c];
        }
    }
    for (size_t j = 0; j < n_components; j++)
        w->missed[j] = fmax(w->missed[j], 0);
    w->sums.m = w->m;
    w->sums.n_components = n_components;
    w->sums.component = w->component;
    w->sums.gram = w->gram;
    w->sums.ld = LD;
    w->sums.target = w->target;
    w->sums.mass = w->mass;
    w->sums.count = N;
    w->sums.missed = w->missed;
}

static void drop_world(struct world *w)
{
    free(w->z);
    free(w->gram);
}

/* Some points of each component, other numbers with every key; none of some. */
static void some_world(struct world *w, uint64_t key)
{
    size_t m_of[MOST_J];

    for (size_t j = 0; j < MOST_J; j++)
        m_of[j] = (size_t)(12 * uniform(key, 500 + j));
    make_world(w, key, 1 + key % MOST_J, m_of, 1, 0);
}

static struct kb_scales some_scales(uint64_t key)
{
    struct kb_scales s = {.mean = uniform(key, 100) - 0.5, .noise = 0.05 + uniform(key, 101)};

    for (size_t j = 0; j < MOST_J; j++)
        s.variance[j] = exp(4 * uniform(key, 102 + j) - 3);
    return s;
}

static double minus_log_priors(size_t n_components, const struct kb_scales_prior *prior, const struct kb_scales *s)
{
    double value = log(s->noise) + prior->range * prior->range / 4 / s->noise;

    for (size_t j = 0; j < n_components; j++)
        value += prior->is_fixed[j] ? 0 : pow(log(s->variance[j] / s->noise / prior->ratio[j]) / prior->spread, 2) / 2;
    return value;
}

/* E by dense algebra over the rewards: of the process itself, or of what the features make of it, charged. */
static double dense_value(const struct world *w, const struct kb_scales_prior *prior, const struct kb_scales *s,
                          bool is_process)
{
    double *k = kbt_array(N * N), *y = kbt_array(N), *alpha = kbt_array(N), value = 0;

    for (size_t c = 0; c < N; c++) {
        y[c] = w->y[c] - s->mean;
        for (size_t r = 0; r < N; r++) {
            k[c * N + r] = r == c ? s->noise : 0;
            for (size_t j = 0; is_process && j < w->n_components; j++)
                k[c * N + r] += s->variance[j] * kernel(j, w->x[r], w->x[c]);
            for (size_t i = 0; !is_process && i < w->m; i++)
                k[c * N + r] += s->variance[w->component[i]] * w->z[r * MOST_M + i] * w->z[c * MOST_M + i];
        }
    }
    kbt_solve(N, k, y, alpha);
    for (size_t i = 0; i < N; i++)
        value += y[i] * alpha[i] / 2;
    value += kbt_logdet(N, k) / 2 + minus_log_priors(w->n_components, prior, s);
    for (size_t j = 0; !is_process && j < w->n_components; j++)
        value += s->variance[j] * w->missed[j] / s->noise / 2;
    free(k);
    free(y);
    free(alpha);
    return value;
}

START_TEST(evidence_equals_the_likelihood_of_single_rewards_and_is_a_bound)
{
    struct world w;
    double value;

    for (uint64_t key = 0; key < 20; key++) {
        const struct kb_scales s = some_scales(key);
        struct kb_scales_prior prior = PRIOR;

        prior.is_fixed[0] = key % 4 == 0;
        some_world(&w, key);
        ck_assert_int_eq(kb_marginal_features_value(&w.sums, &prior, &s, &value, NULL), KB_OK);
        const double want = dense_value(&w, &prior, &s, false), process = dense_value(&w, &prior, &s, true);
        ck_assert_msg(kbt_close(value, want, 1e-10), "%llu: %.15g, expected %.15g", (unsigned long long)key, value,
                      want);
        ck_assert_double_ge(value, process - 1e-8);
        drop_world(&w);
    }
}
END_TEST

/* Where components hold all points nothing is missed. Short lengthscales: K has a factor in double precision. */
START_TEST(with_all_points_it_is_the_evidence_of_the_process)
{
    struct world w;
    double value;
    const size_t all[MOST_J] = {0, 0, N, N, N};
    const struct kb_scales s = {.mean = 0.1, .noise = 0.3, .variance = {1e-30, 1e-30, 0.2, 0.4, 0.1}};

    make_world(&w, 3, MOST_J, all, 1, 0);
    ck_assert_int_eq(kb_marginal_features_value(&w.sums, &PRIOR, &s, &value, NULL), KB_OK);
    const double want = dense_value(&w, &PRIOR, &s, true);
    ck_assert_msg(kbt_close(value, want, 1e-8), "%.15g, expected %.15g", value, want);
    drop_world(&w);
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

    for (uint64_t key = 0; key < 20; key++) {
        const struct kb_scales s = some_scales(key);
        struct kb_scales_prior prior = PRIOR;

        some_world(&w, key);
        prior.is_fixed[0] = key % 4 == 0;
        prior.is_noise_fixed = key % 7 == 0;
        ck_assert_int_eq(kb_marginal_features_value(&w.sums, &prior, &s, &value, gradient), KB_OK);
        for (size_t j = 0; j <= w.n_components; j++) {
            struct kb_scales at = s;

            *log_scale(&at, w.n_components, j) *= exp(step);
            ck_assert_int_eq(kb_marginal_features_value(&w.sums, &prior, &at, &up, NULL), KB_OK);
            *log_scale(&at, w.n_components, j) *= exp(-2 * step);
            ck_assert_int_eq(kb_marginal_features_value(&w.sums, &prior, &at, &down, NULL), KB_OK);
            if (j < w.n_components ? prior.is_fixed[j] : prior.is_noise_fixed)
                ck_assert_double_eq(gradient[j], 0);
            else
                ck_assert_msg(kbt_close(gradient[j], (up - down) / (2 * step), 1e-6),
                              "%llu, %zu: %.10g, expected %.10g", (unsigned long long)key, j, gradient[j],
                              (up - down) / (2 * step));
        }
        drop_world(&w);
    }
}
END_TEST

static enum kb_err fit(const struct world *w, const struct kb_scales_prior *prior, struct kb_scales *s)
{
    double before = 0, after = 0;
    const enum kb_err rc = kb_marginal_features_fit(&w->sums, prior, s, 40, NULL, NULL, &before, &after);

    ck_assert(rc != KB_OK || after <= before);
    return rc;
}

START_TEST(at_the_end_no_scale_has_a_slope_and_what_is_held_stays_to_the_bit)
{
    struct world w;
    double value, gradient[MOST_J + 1];

    for (uint64_t key = 0; key < 20; key++) {
        const struct kb_scales start = some_scales(key);
        struct kb_scales s = start, again = start;
        struct kb_scales_prior prior = PRIOR;

        prior.is_fixed[0] = key % 4 == 0;
        prior.is_noise_fixed = key % 7 == 0;
        some_world(&w, key);
        ck_assert_int_eq(fit(&w, &prior, &s), KB_OK);
        ck_assert_int_eq(kb_marginal_features_value(&w.sums, &prior, &s, &value, gradient), KB_OK);
        for (size_t j = 0; j <= w.n_components; j++)
            ck_assert_double_lt(fabs(gradient[j]), 0.01);
        ck_assert((s.variance[0] == start.variance[0]) == prior.is_fixed[0]);
        ck_assert((s.noise == start.noise) == prior.is_noise_fixed);
        ck_assert(s.mean == start.mean);
        ck_assert_int_eq(fit(&w, &prior, &again), KB_OK);
        ck_assert_mem_eq(&again, &s, sizeof s);
        drop_world(&w);
    }
}
END_TEST

/* Unit and offset of the rewards change the scales by the unit's square and nothing else. */
START_TEST(units_of_the_rewards_do_not_matter)
{
    struct world w, scaled;
    const size_t m_of[MOST_J] = {8, 12, 16};

    for (int e = -3; e <= 3; e++) {
        const double unit = pow(10, e);
        struct kb_scales s = {.mean = 0.1, .noise = 0.25, .variance = {0.05, 0.02, 0.1}}, t = s;
        struct kb_scales_prior prior = PRIOR;

        make_world(&w, 5, 3, m_of, 1, 0);
        make_world(&scaled, 5, 3, m_of, unit, 5);
        t.mean = 5 + unit * s.mean;
        t.noise *= unit * unit;
        prior.range *= unit;
        for (size_t j = 0; j < 3; j++)
            t.variance[j] *= unit * unit;
        ck_assert_int_eq(fit(&w, &PRIOR, &s), KB_OK);
        ck_assert_int_eq(fit(&scaled, &prior, &t), KB_OK);
        ck_assert(kbt_close_relative(t.noise, unit * unit * s.noise, 1e-4));
        for (size_t j = 0; j < 3; j++)
            ck_assert(kbt_close_relative(t.variance[j], unit * unit * s.variance[j], 1e-3));
        drop_world(&w);
        drop_world(&scaled);
    }
}
END_TEST

/* A component without a point is charged for all of it and goes as far down as its prior lets it. */
START_TEST(what_the_dictionary_misses_is_not_overrated)
{
    struct world w;
    const size_t m_of[MOST_J] = {12, 0};
    struct kb_scales s = {.mean = 0, .noise = 0.25, .variance = {0.2, 0.2}};

    make_world(&w, 9, 2, m_of, 1, 0);
    ck_assert_int_eq(fit(&w, &PRIOR, &s), KB_OK);
    ck_assert_double_lt(s.variance[1], 0.1 * s.noise);
    ck_assert_double_gt(s.variance[0], s.noise);
    drop_world(&w);
}
END_TEST

static enum kb_err fit_once(void *arg)
{
    struct kb_scales s = some_scales(4);

    return fit(arg, &PRIOR, &s);
}

static void nothing_left(void *arg)
{
    (void)arg;
}

START_TEST(every_failing_allocation_is_survived)
{
    struct world w;

    some_world(&w, 4);
    ck_assert_uint_ge(kbt_brutal(fit_once, nothing_left, &w), 3);
    drop_world(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN("marginal_features", evidence_equals_the_likelihood_of_single_rewards_and_is_a_bound,
                   with_all_points_it_is_the_evidence_of_the_process, gradient_equals_differences,
                   at_the_end_no_scale_has_a_slope_and_what_is_held_stays_to_the_bit,
                   units_of_the_rewards_do_not_matter, what_the_dictionary_misses_is_not_overrated,
                   every_failing_allocation_is_survived);
}
