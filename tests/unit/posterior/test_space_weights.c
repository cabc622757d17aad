/* Weights of namespaces: the gradient of the evidence against differences, and what weighed contexts are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "posterior/marginal.h"
#include "posterior/space_weights.h"

#define DIM 9u
#define POINTS 11u
#define ARMS 3u

static const struct kb_scales_prior PRIOR = {.ratio = {1, 3, 3}, .spread = 1.5, .range = 2, .are_weights_free = true};
static const double LENGTHSCALE = 1.3;

/* Components: arm (ones), rbf, linear. Two namespaces of 3 and 4 coordinates, and 2 of none. */
struct world {
    struct kb_split spaces;
    double raw[ARMS][POINTS * DIM], x[ARMS][POINTS * DIM], gram[ARMS][3][POINTS * POINTS];
    double count[ARMS][POINTS], sum[ARMS][POINTS];
    struct kb_marginal_arm arm[ARMS];
};

static void gram(const void *of, size_t a, double *const *out)
{
    const struct world *w = of;
    for (size_t k = 0; k < 3; k++)
        memcpy(out[k], w->gram[a][k], w->arm[a].n * w->arm[a].n * sizeof(double));
}

/* By the definition: weights inside of distances and products. */
static void weigh(const void *of, const double *weight)
{
    struct world *w = (struct world *)of;
    for (size_t a = 0; a < ARMS; a++) {
        const size_t n = w->arm[a].n;
        kb_spaces_weigh(&w->spaces, weight, DIM, n, w->raw[a], w->x[a]);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                double square = 0, product = 0;
                for (size_t d = 0; d < DIM; d++) {
                    const double u = w->raw[a][i * DIM + d], v = w->raw[a][j * DIM + d];
                    const double by = d < 3 ? weight[0] : d < 7 ? weight[1] : 1;
                    square += by * (u - v) * (u - v);
                    product += by * u * v;
                }
                w->gram[a][0][j * n + i] = 1;
                w->gram[a][1][j * n + i] = exp(-square / 2 / LENGTHSCALE / LENGTHSCALE);
                w->gram[a][2][j * n + i] = product / DIM;
            }
    }
}

static void slope(const void *of, size_t a, const struct kb_scales *at, const double *m, size_t ld, double *out)
{
    const struct world *w = of;
    const struct kb_spaces_part p = {.n = w->arm[a].n,
                                     .dim = DIM,
                                     .x = w->x[a],
                                     .context = at->variance[1],
                                     .lengthscale = LENGTHSCALE,
                                     .gram = w->gram[a][1],
                                     .linear = at->variance[2] / DIM};
    kb_spaces_slope(&w->spaces, &p, m, ld, out);
}

/* Arms of 11, 4 and 1 points, whose rewards follow the first namespace. */
static void make_world(struct world *w, uint64_t key)
{
    static const size_t n[ARMS] = {POINTS, 4, 1};
    memset(w, 0, sizeof *w);
    ck_assert_int_eq(kb_split_put(&w->spaces, "a", 3), KB_OK);
    ck_assert_int_eq(kb_split_put(&w->spaces, "b", 4), KB_OK);
    for (size_t a = 0; a < ARMS; a++) {
        double noise[POINTS];
        kbt_random_normal(POINTS * DIM, key + a, w->raw[a]);
        kbt_random_normal(POINTS, key + 10 + a, noise);
        for (size_t i = 0; i < n[a]; i++) {
            w->count[a][i] = 1 + (double)(i % 3);
            w->sum[a][i] = w->count[a][i] * (w->raw[a][i * DIM] + 0.2 * noise[i]);
        }
        w->arm[a] = (struct kb_marginal_arm){n[a], w->count[a], w->sum[a]};
    }
}

static struct kb_marginal_rows rows_of(const struct world *w)
{
    return (struct kb_marginal_rows){.n_arms = ARMS,
                                     .arm = w->arm,
                                     .n_components = 3,
                                     .square = 100,
                                     .gram = gram,
                                     .of = w,
                                     .n_weights = 2,
                                     .weigh = weigh,
                                     .slope = slope};
}

START_TEST(gradient_is_that_of_differences)
{
    for (uint64_t key = 1; key < 20; key++) {
        struct world w;
        make_world(&w, 100 * key);
        const struct kb_marginal_rows rows = rows_of(&w);
        const struct kb_scales s = {.mean = 0.1,
                                    .noise = 0.2,
                                    .variance = {0.3, 0.5 + 0.1 * (double)key, 0.7},
                                    .weight = {exp(1 - 0.2 * (double)key), 0.4 * (double)key}};
        double value, gradient[6];
        ck_assert_int_eq(kb_marginal_value(&rows, &PRIOR, &s, &value, gradient), KB_OK);
        for (size_t g = 0; g < 2; g++) {
            struct kb_scales at = s;
            double up, down;
            at.weight[g] = s.weight[g] * exp(1e-5);
            ck_assert_int_eq(kb_marginal_value(&rows, &PRIOR, &at, &up, NULL), KB_OK);
            at.weight[g] = s.weight[g] * exp(-1e-5);
            ck_assert_int_eq(kb_marginal_value(&rows, &PRIOR, &at, &down, NULL), KB_OK);
            ck_assert(kbt_close(gradient[4 + g], (up - down) / 2e-5, 1e-5));
        }
    }
}
END_TEST

/* Rewards follow a coordinate of the first namespace alone. */
START_TEST(a_fit_weighs_what_tells_something_more)
{
    size_t n_right = 0;
    for (uint64_t key = 1; key <= 10; key++) {
        struct world w;
        make_world(&w, 1000 * key);
        const struct kb_marginal_rows rows = rows_of(&w);
        struct kb_scales s = {.noise = 0.2, .variance = {0.3, 0.5, 0.5}, .weight = {1, 1}};
        double before, after;
        ck_assert_int_eq(kb_marginal_fit(&rows, &PRIOR, &s, 30, NULL, NULL, &before, &after), KB_OK);
        ck_assert(after <= before);
        n_right += s.weight[0] > s.weight[1];
    }
    ck_assert_uint_ge(n_right, 8);
}
END_TEST

/* The same search with weights held leaves them, and asks for no slope. */
START_TEST(held_weights_stay)
{
    struct world w;
    make_world(&w, 5);
    struct kb_marginal_rows rows = rows_of(&w);
    struct kb_scales_prior prior = PRIOR;
    struct kb_scales s = {.noise = 0.2, .variance = {0.3, 0.5, 0.5}, .weight = {2, 0.5}};
    double before, after;
    weigh(&w, s.weight);
    rows.n_weights = 0;
    prior.are_weights_free = false;
    ck_assert_int_eq(kb_marginal_fit(&rows, &prior, &s, 30, NULL, NULL, &before, &after), KB_OK);
    ck_assert_double_eq(s.weight[0], 2);
    ck_assert_double_eq(s.weight[1], 0.5);
}
END_TEST

int main(void)
{
    return KBT_RUN("space_weights", gradient_is_that_of_differences, a_fit_weighs_what_tells_something_more,
                   held_weights_stay);
}
