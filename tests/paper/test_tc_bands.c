/* The bands of TC's Figure 1 against TC's formulas in dense algebra: kernel, inverse and determinant are made here. */
#include <math.h>
#include <string.h>

#include "kbt.h"
#include "paper/tc_bands.h"

#define N PB_BANDS_OBSERVED
#define B 10.0
#define SIGMA 0.1
#define DELTA 0.01

static size_t rule_of(const char *name)
{
    size_t k = 0;
    while (strcmp(pb_bands_rules[k].name, name) != 0)
        k++;
    return k;
}

static double point(size_t i)
{
    return -1 + 0.02 * (double)i;
}

/* Matern 3/2, lengthscale .5, on [-1, 1]. */
static double kernel(double x, double y)
{
    const double r = sqrt(3) * fabs(x - y) / 0.5;
    return (1 + r) * exp(-r);
}

/* K + a I = L L^T. */
static void cholesky(const struct pb_bands *b, double a, double l[N][N])
{
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = kernel(b->x[i], b->x[j]) + (i == j ? a : 0);
            for (size_t k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
}

/* u^T (K + a I)^-1 v. */
static double form(double l[N][N], const double *u, const double *v)
{
    double p[N], q[N], sum = 0;
    for (size_t i = 0; i < N; i++) {
        p[i] = u[i], q[i] = v[i];
        for (size_t k = 0; k < i; k++)
            p[i] -= l[i][k] * p[k], q[i] -= l[i][k] * q[k];
        p[i] /= l[i][i], q[i] /= l[i][i];
        sum += p[i] * q[i];
    }
    return sum;
}

/* ln det(I + K / a). */
static double log_det(double l[N][N], double a)
{
    double sum = -(double)N * log(a);
    for (size_t i = 0; i < N; i++)
        sum += 2 * log(l[i][i]);
    return sum;
}

/* R^2 at alpha_0 [TC, eq. 8]. */
static double ball(const struct pb_bands *b, double a0)
{
    double l[N][N];
    cholesky(b, a0, l);
    return a0 * form(l, b->y, b->y) + SIGMA * SIGMA * (log_det(l, a0) - 2 * log(DELTA));
}

/* Mean and deviation at x by the ridge a. */
static void predict(const struct pb_bands *b, double l[N][N], double x, double *mean, double *sd)
{
    double k[N];
    for (size_t i = 0; i < N; i++)
        k[i] = kernel(x, b->x[i]);
    *mean = form(l, k, b->y);
    *sd = sqrt(1 - form(l, k, k));
}

/* Narrows the bounds by those of the ridge a [TC, eq. 12]. */
static void narrow(const struct pb_bands *b, double r_sq, double a, double lower[PB_BANDS_POINTS],
                   double upper[PB_BANDS_POINTS])
{
    double l[N][N], mean, sd;
    cholesky(b, a, l);
    const double radius = sqrt((r_sq + a * B * B - a * form(l, b->y, b->y)) / a);
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        predict(b, l, point(i), &mean, &sd);
        lower[i] = fmax(lower[i], mean - radius * sd);
        upper[i] = fmin(upper[i], mean + radius * sd);
    }
}

static void narrow_by(const struct pb_bands *b, const double *ridges, size_t n, double lower[PB_BANDS_POINTS],
                      double upper[PB_BANDS_POINTS])
{
    const double a0 = SIGMA * SIGMA / pow(N, -1.0 / 5), r_sq = ball(b, a0);
    for (size_t i = 0; i < PB_BANDS_POINTS; i++)
        lower[i] = -INFINITY, upper[i] = INFINITY;
    for (size_t i = 0; i < n; i++)
        narrow(b, r_sq, ridges[i] * a0, lower, upper);
}

/* mean -+ radius sd at ridge a. */
static void band(const struct pb_bands *b, double a, double radius, double lower[PB_BANDS_POINTS],
                 double upper[PB_BANDS_POINTS])
{
    double l[N][N], mean, sd;
    cholesky(b, a, l);
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        predict(b, l, point(i), &mean, &sd);
        lower[i] = mean - radius * sd, upper[i] = mean + radius * sd;
    }
}

static double log_det_at(const struct pb_bands *b, double a)
{
    double l[N][N];
    cholesky(b, a, l);
    return log_det(l, a);
}

static void expect(const struct pb_bands *b, const char *rule, const double *lower, const double *upper, double tol)
{
    const size_t k = rule_of(rule);
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        ck_assert_msg(fabs(b->lower[k][i] - lower[i]) < tol, "%s at %g: lower %.12g, expected %.12g", rule, point(i),
                      b->lower[k][i], lower[i]);
        ck_assert_msg(fabs(b->upper[k][i] - upper[i]) < tol, "%s at %g: upper %.12g, expected %.12g", rule, point(i),
                      b->upper[k][i], upper[i]);
    }
}

START_TEST(every_band_is_its_formula)
{
    static struct pb_bands b;
    double lower[PB_BANDS_POINTS], upper[PB_BANDS_POINTS];
    const double ours[] = {1, 3, 10, 30, 100}, own[] = {0.1, 0.3, 1, 3, 10}, one[] = {1}, c = pow(N, -1.0 / 5);

    ck_assert_int_eq(pb_bands_measure((uint64_t)_i, &b), KB_OK);
    narrow_by(&b, ours, 5, lower, upper);
    expect(&b, "dmm", lower, upper, 1e-8);
    narrow_by(&b, own, 5, lower, upper);
    expect(&b, "dmm, own grid", lower, upper, 1e-8);
    narrow_by(&b, one, 1, lower, upper);
    expect(&b, "amm", lower, upper, 1e-8);
    band(&b, SIGMA * SIGMA / c, sqrt(c * log_det_at(&b, SIGMA * SIGMA / c) - 2 * c * log(DELTA)) + B, lower, upper);
    expect(&b, "ay", lower, upper, 1e-8);
    band(&b, 1 + 2.0 / N, SIGMA * sqrt(log_det_at(&b, 1 + 2.0 / N) + 2 - 2 * log(DELTA)) + B, lower, upper);
    expect(&b, "igp", lower, upper, 1e-8);
}
END_TEST

/* Over 400 ridges the best comes within the grid's error of CMM's, and never below it. */
START_TEST(cmm_is_the_best_of_all_ridges)
{
    static struct pb_bands b;
    double lower[PB_BANDS_POINTS], upper[PB_BANDS_POINTS], ridges[400];
    const size_t k = rule_of("cmm");

    ck_assert_int_eq(pb_bands_measure((uint64_t)_i, &b), KB_OK);
    for (size_t i = 0; i < 400; i++)
        ridges[i] = pow(10, -4 + 8 * (double)i / 399);
    narrow_by(&b, ridges, 400, lower, upper);
    expect(&b, "cmm", lower, upper, 1e-3);
    for (size_t i = 0; i < PB_BANDS_POINTS; i++)
        ck_assert(b.upper[k][i] <= upper[i] + 1e-8 && b.lower[k][i] >= lower[i] - 1e-8);
}
END_TEST

START_TEST(observations_lie_on_both_sides_of_the_gap_and_f_inside_every_band)
{
    static struct pb_bands b;
    double most = 0;

    ck_assert_int_eq(pb_bands_measure((uint64_t)_i, &b), KB_OK);
    for (size_t i = 0; i < N; i++) {
        const double x = i < N / 2 ? -b.x[i] : b.x[i];
        const size_t at = (size_t)floor((b.x[i] + 1) / 0.02);
        ck_assert(0.2 <= x && x <= 0.8);
        /* f between the points beside it: the kernel has |f(x) - f(y)| <= B sqrt(2 - 2 k(x, y)) < .7 at .02 */
        most = fmax(most, fabs(b.y[i] - b.f[at]));
    }
    ck_assert(most > 0 && most < 0.7 + 5 * SIGMA);
    for (size_t k = 0; k < PB_BANDS_N_RULES; k++)
        for (size_t i = 0; i < PB_BANDS_POINTS; i++)
            ck_assert(b.lower[k][i] <= b.f[i] && b.f[i] <= b.upper[k][i]);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("tc_bands", 0, {every_band_is_its_formula, 3}, {cmm_is_the_best_of_all_ridges, 2},
                         {observations_lie_on_both_sides_of_the_gap_and_f_inside_every_band, 20});
}
