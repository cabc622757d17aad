/* Ratios of sums with intervals: see ope_series.h.
 *
 * Numerical notes. Sums are plain: n eps, 1e-12 at ten thousand events, is far below any interval. The sum of squared
 * residuals comes from three sums of products, which loses digits only where residuals are far smaller than their
 * parts; it is taken as 0 when rounding makes it negative. */
#include "evaluate/ope_series.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/rng.h"

#define N_BISECTIONS 200
#define TIE 1e-12 /* relative: the order of a sum must not decide what is equal */

int ld_ope_series_init(struct ld_ope_series *s)
{
    *s = (struct ld_ope_series){.per_block = 1};
    s->block_num = kb_array(LD_OPE_SERIES_BLOCKS, 1, sizeof *s->block_num);
    s->block_den = kb_array(LD_OPE_SERIES_BLOCKS, 1, sizeof *s->block_den);
    return s->block_num != NULL && s->block_den != NULL ? 0 : -1;
}

void ld_ope_series_close(struct ld_ope_series *s)
{
    kb_free(s->block_num);
    kb_free(s->block_den);
    *s = (struct ld_ope_series){0};
}

static void halve(struct ld_ope_series *s)
{
    for (size_t i = 0; i < LD_OPE_SERIES_BLOCKS / 2; i++) {
        s->block_num[i] = s->block_num[2 * i] + s->block_num[2 * i + 1];
        s->block_den[i] = s->block_den[2 * i] + s->block_den[2 * i + 1];
    }
    s->n_blocks = LD_OPE_SERIES_BLOCKS / 2;
    s->per_block *= 2;
    s->in_block = s->per_block;
}

void ld_ope_series_add(struct ld_ope_series *s, double num, double den)
{
    s->n++;
    s->num += num;
    s->den += den;
    s->num_num += num * num;
    s->num_den += num * den;
    s->den_den += den * den;
    if (s->n_blocks == LD_OPE_SERIES_BLOCKS && s->in_block == s->per_block)
        halve(s);
    if (s->n_blocks == 0 || s->in_block == s->per_block) {
        s->block_num[s->n_blocks] = s->block_den[s->n_blocks] = 0;
        s->n_blocks++;
        s->in_block = 0;
    }
    s->block_num[s->n_blocks - 1] += num;
    s->block_den[s->n_blocks - 1] += den;
    s->in_block++;
}

double ld_ope_series_estimate(const struct ld_ope_series *s)
{
    return s->den != 0 ? s->num / s->den : (double)NAN;
}

/* Sum of squares of num - v den over events. */
static double residual_squares(const struct ld_ope_series *s, double v)
{
    const double sum = s->num_num - 2 * v * s->num_den + v * v * s->den_den;

    return sum > 0 ? sum : 0;
}

double ld_ope_series_error(const struct ld_ope_series *s)
{
    return sqrt(residual_squares(s, ld_ope_series_estimate(s))) / fabs(s->den);
}

/* --- bootstrap ------------------------------------------------------------------------------------------ */

int ld_ope_bootstrap_init(struct ld_ope_bootstrap *b)
{
    b->value = kb_array(b->n, 1, sizeof *b->value);
    b->other = kb_array(b->n, 1, sizeof *b->other);
    return b->value != NULL && b->other != NULL ? 0 : -1;
}

void ld_ope_bootstrap_close(struct ld_ope_bootstrap *b)
{
    kb_free(b->value);
    kb_free(b->other);
    b->value = b->other = NULL;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

/* By bisection: it is called three times an interval. */
static double normal_quantile(double p)
{
    double lo = -40, hi = 40;

    for (int i = 0; i < N_BISECTIONS; i++) {
        const double mid = 0.5 * (lo + hi);
        *(normal_cdf(mid) < p ? &lo : &hi) = mid;
    }
    return 0.5 * (lo + hi);
}

/* Resampled estimates in value[0 .. n - 1]; which blocks are drawn depends on their number alone. A resample without
 * any weight counts as the estimate. False: it was told to end. */
static bool resample(const struct ld_ope_series *s, const struct ld_ope_bootstrap *how, double *value)
{
    const size_t m = s->n_blocks;

    for (size_t b = 0; b < how->n; b++) {
        double num = 0, den = 0;
        if (how->is_over != NULL && how->is_over(how->arg))
            return false;
        for (size_t i = 0; i < m; i++) {
            const double u = kb_rng_uniform(how->seed, KB_STREAM_SIMULATION, (uint64_t)(b * m + i));
            const size_t j = (size_t)(u * (double)m);
            num += s->block_num[j];
            den += s->block_den[j];
        }
        value[b] = den != 0 ? num / den : ld_ope_series_estimate(s);
    }
    return true;
}

/* Skewness of the blocks' influence over 6 sqrt(m): the acceleration of a mean, and of a ratio to first order. The
 * influence is the residual u_a, or with b u_a / den_a - u_b / den_b. False when it is 0 in all. */
static bool acceleration(const struct ld_ope_series *a, const struct ld_ope_series *b, double *out)
{
    const double v = ld_ope_series_estimate(a), w = b != NULL ? ld_ope_series_estimate(b) : 0,
                 den = b != NULL ? a->den : 1;
    double squares = 0, cubes = 0, size = 0;

    for (size_t i = 0; i < a->n_blocks; i++) {
        const double x = a->block_num[i] / den, y = b != NULL ? b->block_num[i] / b->den : 0;
        const double u = x - v * a->block_den[i] / den - (b != NULL ? y - w * b->block_den[i] / b->den : 0);
        squares += u * u;
        cubes += u * u * u;
        size += x * x + y * y;
    }
    *out = squares > 0 ? cubes / (6 * squares * sqrt(squares)) : 0;
    return squares > 1e-24 * size;
}

/* The resampled value at rank floor(p n), which is kept within the sample. */
static double value_at(const double *value, size_t n, double p)
{
    const double at = floor(p * (double)n);

    return value[at < 0 ? 0 : at > (double)(n - 1) ? n - 1 : (size_t)at];
}

/* The interval out of resampled values. v: the estimate; slack: how near is equal; a: acceleration. */
static void correct(double *value, size_t n, double v, double slack, double a, double level,
                    struct ld_ope_interval *out)
{
    double below = 0;

    qsort(value, n, sizeof *value, by_value);
    for (size_t b = 0; b < n; b++)
        below += value[b] < v - slack ? 1 : value[b] <= v + slack ? 0.5 : 0;
    const double z0 = normal_quantile((below + 0.5) / ((double)n + 1));
    const double tail = normal_quantile(0.5 * (1 - level));
    const double low = z0 + (z0 + tail) / (1 - a * (z0 + tail)), high = z0 + (z0 - tail) / (1 - a * (z0 - tail));
    out->lower = value_at(value, n, normal_cdf(low));
    out->upper = value_at(value, n, normal_cdf(high));
}

bool ld_ope_series_bootstrap(const struct ld_ope_series *a, const struct ld_ope_series *b,
                             const struct ld_ope_bootstrap *how, struct ld_ope_interval *out)
{
    const double v = ld_ope_series_estimate(a), w = b != NULL ? ld_ope_series_estimate(b) : 0;
    double accelerated;

    if (a->n_blocks < 2 || isnan(v) || isnan(w) || (b != NULL && (a->n != b->n || a->per_block != b->per_block)) ||
        !acceleration(a, b, &accelerated))
        return false;
    if (!resample(a, how, how->value) || (b != NULL && !resample(b, how, how->other)))
        return false;
    for (size_t i = 0; b != NULL && i < how->n; i++)
        how->value[i] -= how->other[i];
    correct(how->value, how->n, v - w, TIE * (fabs(v) + fabs(w)), accelerated, how->level, out);
    return true;
}

struct ld_ope_series ld_ope_series_part(const struct ld_ope_series *s, size_t from, size_t to)
{
    struct ld_ope_series part = {.per_block = s->per_block,
                                 .n_blocks = to - from,
                                 .block_num = s->block_num + from,
                                 .block_den = s->block_den + from};

    for (size_t i = 0; i < part.n_blocks; i++) {
        part.num += part.block_num[i];
        part.den += part.block_den[i];
    }
    part.n = (to < s->n_blocks ? to * s->per_block : s->n) - from * s->per_block;
    return part;
}

size_t ld_ope_series_per_block(size_t n)
{
    size_t size = 1;

    while (n > size * LD_OPE_SERIES_BLOCKS)
        size *= 2;
    return size;
}

/* --- Bernstein ------------------------------------------------------------------------------------------ */

/* Whether v can be the truth by the bound. */
static bool is_covered(const struct ld_ope_series *s, double log_term, double range, double v)
{
    const double n = (double)s->n, sum = s->num - v * s->den;
    const double spread = residual_squares(s, v) - sum * sum / n, variance = spread > 0 ? spread / (n - 1) : 0;

    return fabs(sum) / n <= sqrt(2 * variance * log_term / n) + 7 * range * log_term / (3 * (n - 1));
}

/* From a value inside to the edge in the direction of `end`. */
static double edge(const struct ld_ope_series *s, double log_term, double range, double inside, double end)
{
    if (is_covered(s, log_term, range, end))
        return end;
    for (int i = 0; i < N_BISECTIONS; i++) {
        const double mid = 0.5 * (inside + end);
        *(is_covered(s, log_term, range, mid) ? &inside : &end) = mid;
    }
    return inside;
}

/* The bound's set is taken for an interval around the estimate, which it is but for extremes of the weights. */
struct ld_ope_interval ld_ope_series_bernstein(const struct ld_ope_series *s, double level, double range, double lo,
                                               double hi)
{
    const double log_term = log(4 / (1 - level)), v = ld_ope_series_estimate(s);

    if (s->n < 2 || isnan(v))
        return (struct ld_ope_interval){lo, hi};
    return (struct ld_ope_interval){edge(s, log_term, range, v, v < lo ? v : lo),
                                    edge(s, log_term, range, v, v > hi ? v : hi)};
}
