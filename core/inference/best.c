/* The chance that each arm is the best, and what choosing it would lose (sequences.h).
 *
 *   F(x)    prod_k Phi((x - m_k) / s_k), the distribution of the largest theta
 *   P_a     int F(x) f_a(x) / F_a(x) dx               E max   int x F'(x) dx,  F' = sum_a F f_a / F_a
 *   loss_a  E max - m_a;  of two arms, with D = |m_1 - m_0| and s^2 = s_0^2 + s_1^2, that of the better one is
 *           s phi(D / s) - D Phi(-D / s)
 *
 * All arms are integrated together, over spans that are halved until the Gauss and the Kronrod sum of F' agree, and of
 * F as well: a narrow arm between the nodes of a wide span shows as a step of F. Below the highest m_k - TAIL s_k the
 * largest theta has no mass that a double could tell.
 *
 * A deviation of 0 counts as 1e-9 of the largest distance or deviation, so ties of certain arms share alike.
 *
 * Cost: 0.1 ms at 10 arms; no allocation, since the sums stand in the results. rules/quad.c has P alone, to 1e-10, for
 * the propensities of a draw. */
#include "inference/sequences.h"

#include <math.h>

#include "base/kronrod.h"

#define TAIL 8.5
#define TOLERANCE 1e-10
#define MAX_DEPTH 48
#define LEAST_SD 1e-9
#define ROOT_2PI 2.50662827463100050242

/* What the arms are shrunk by, and where positions are counted from. */
struct field {
    const double *mean, *sd;
    size_t n;
    bool is_shrunk;
    double centre, tau2;
    double origin; /* the largest mean */
    double least_sd;
};

static double share_kept(const struct field *f, size_t k)
{
    const double noise = f->sd[k] * f->sd[k];
    return !f->is_shrunk || noise == 0 ? 1 : f->tau2 / (f->tau2 + noise);
}

/* Less the origin. */
static double mean_of(const struct field *f, size_t k)
{
    return (f->centre - f->origin) + share_kept(f, k) * (f->mean[k] - f->centre);
}

static double sd_of(const struct field *f, size_t k)
{
    return fmax(f->least_sd, sqrt(share_kept(f, k)) * f->sd[k]);
}

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

static double density(double z)
{
    return exp(-0.5 * z * z) / ROOT_2PI;
}

/* tau^2 from what the means vary beyond their noise, and the mean that they are shrunk to. */
static void shrink(struct field *f)
{
    const double n = (double)f->n;
    double sum = 0, noise = 0, square = 0, weight = 0, weighted = 0;
    for (size_t k = 0; k < f->n; k++) {
        sum += f->mean[k] / n;
        noise += f->sd[k] * f->sd[k] / n;
    }
    for (size_t k = 0; k < f->n; k++)
        square += (f->mean[k] - sum) * (f->mean[k] - sum) / (n - 1);
    f->tau2 = fmax(0, square - noise);
    for (size_t k = 0; k < f->n; k++) {
        const double w = 1 / fmax(f->tau2 + f->sd[k] * f->sd[k], 1e-300);
        weight += w;
        weighted += w * f->mean[k];
    }
    f->centre = weighted / weight;
}

/* --- quadrature -------------------------------------------------------------------------------------------------- */

/* F at x, and F' as *slope. With `part`, adds weight times each arm's share of F' to it. */
static double evaluate(const struct field *f, double x, double *slope, double weight, double *part)
{
    double product = 1;
    *slope = 0;
    for (size_t k = 0; k < f->n && product > 0; k++)
        product *= normal_cdf((x - mean_of(f, k)) / sd_of(f, k));
    for (size_t k = 0; k < f->n && product > 0; k++) {
        const double s = sd_of(f, k), z = (x - mean_of(f, k)) / s, value = product / normal_cdf(z) * density(z) / s;
        *slope += value;
        if (part != NULL)
            part[k] += weight * value;
    }
    return product;
}

/* Adds one node; `slope` and `height` are sums of F' and F by Gauss, less those by Kronrod. */
static void compare_at(const struct field *f, double x, int i, double *slope, double *height)
{
    double d;
    const double value = evaluate(f, x, &d, 0, NULL), weight = kb_gauss_weights[i] - kb_kronrod_weights[i];
    *slope += weight * d;
    *height += weight * value;
}

static bool is_smooth(const struct field *f, double centre, double half)
{
    double slope = 0, height = 0;
    for (int i = 0; i < KB_KRONROD_N; i++) {
        compare_at(f, centre - half * kb_kronrod_nodes[i], i, &slope, &height);
        if (i < KB_KRONROD_N - 1)
            compare_at(f, centre + half * kb_kronrod_nodes[i], i, &slope, &height);
    }
    return fabs(slope) * half <= TOLERANCE && fabs(height) <= TOLERANCE;
}

/* Adds a span to each arm's chance; returns its part of int x F' dx. */
static double add_span(const struct field *f, double centre, double half, double *p_best)
{
    double moment = 0;
    for (int i = 0; i < 2 * KB_KRONROD_N - 1; i++) {
        const int node = i % KB_KRONROD_N;
        const double x = centre + (i < KB_KRONROD_N ? half : -half) * kb_kronrod_nodes[node];
        const double weight = half * kb_kronrod_weights[node];
        double slope;
        (void)evaluate(f, x, &slope, weight, p_best);
        moment += weight * slope * x;
    }
    return moment;
}

struct span {
    double lo, hi;
    int depth;
};

/* Depth first: the stack holds one span a depth. */
static double integrate(const struct field *f, struct span whole, double *p_best)
{
    struct span stack[MAX_DEPTH + 2];
    double moment = 0;
    size_t n = 0;
    stack[n++] = whole;
    while (n > 0) {
        const struct span s = stack[--n];
        const double half = 0.5 * (s.hi - s.lo), centre = s.lo + half;
        /* A first cut into 16, whatever the sums say: they could agree by chance over a span that is much too wide. */
        if (s.depth >= MAX_DEPTH || (s.depth >= 4 && is_smooth(f, centre, half))) {
            moment += add_span(f, centre, half, p_best);
            continue;
        }
        stack[n++] = (struct span){s.lo, centre, s.depth + 1};
        stack[n++] = (struct span){centre, s.hi, s.depth + 1};
    }
    return moment;
}

/* Positions are less the origin. */
static struct span range_of(const struct field *f)
{
    struct span s = {.lo = -INFINITY, .hi = -INFINITY};
    for (size_t k = 0; k < f->n; k++) {
        s.lo = fmax(s.lo, mean_of(f, k) - TAIL * sd_of(f, k));
        s.hi = fmax(s.hi, mean_of(f, k) + TAIL * sd_of(f, k));
    }
    return s;
}

static void best_of_many(const struct field *f, double *p_best, double *loss)
{
    double sum = 0;
    for (size_t k = 0; k < f->n; k++)
        p_best[k] = 0;
    const double moment = integrate(f, range_of(f), p_best);
    for (size_t k = 0; k < f->n; k++)
        sum += p_best[k];
    for (size_t k = 0; k < f->n; k++) {
        p_best[k] /= sum;
        loss[k] = fmax(0, moment / sum - mean_of(f, k));
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

static void best_of_two(const struct field *f, double *p_best, double *loss)
{
    const double gap = mean_of(f, 1) - mean_of(f, 0), s = hypot(sd_of(f, 0), sd_of(f, 1)), z = fabs(gap) / s;
    const double least = fmax(0, s * density(z) - fabs(gap) * normal_cdf(-z));
    p_best[0] = normal_cdf(-gap / s);
    p_best[1] = normal_cdf(gap / s);
    loss[0] = least + fmax(0, gap);
    loss[1] = least + fmax(0, -gap);
}

/* The largest distance of a mean to the first, and the largest deviation: what the least deviation is a part of. */
static double size_of(const struct field *f)
{
    double size = 0;
    for (size_t k = 0; k < f->n; k++)
        size = fmax(size, fmax(fabs(f->mean[k] - f->mean[0]), f->sd[k]));
    return size;
}

void kb_best(const double *mean, const double *sd, size_t n, double *p_best, double *loss)
{
    struct field f = {.mean = mean, .sd = sd, .n = n, .is_shrunk = n > 2, .centre = mean[0], .origin = mean[0]};
    if (f.is_shrunk)
        shrink(&f);
    for (size_t k = 0; k < n; k++)
        f.origin = fmax(f.origin, mean[k]);
    f.least_sd = LEAST_SD * size_of(&f);
    for (size_t k = 0; k < n; k++) {
        p_best[k] = 1 / (double)n;
        loss[k] = 0;
    }
    if (n > 1 && f.least_sd > 0 && !(f.is_shrunk && f.tau2 == 0))
        (n == 2 ? best_of_two : best_of_many)(&f, p_best, loss);
}
