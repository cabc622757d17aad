/* Self-normalised importance sampling by running moments: see snips.h. */
#include "base/snips.h"

#include <math.h>
#include <stddef.h>

#define N_BISECTIONS 100

void kb_snips_add(struct kb_snips *s, double weight, double reward)
{
    if (s->n++ == 0)
        s->origin = reward;
    const double r = reward - s->origin, wr = weight * r;

    s->w += weight;
    s->ww += weight * weight;
    s->wr += wr;
    s->wwr += weight * wr;
    s->wrr += wr * r;
    s->wwrr += wr * wr;
    s->r += r;
    s->rr += r * r;
    s->max = weight > s->max ? weight : s->max;
}

/* z with P(|Z| > z) = tail, for a normal Z; by bisection on the tail itself, which keeps its digits where it is small.
 * 0.5 us. */
static double two_sided(double tail)
{
    double lo = 0, hi = 40;

    for (int i = 0; i < N_BISECTIONS && lo < hi; i++) {
        const double mid = 0.5 * (lo + hi);
        *(erfc(mid * M_SQRT1_2) > tail ? &lo : &hi) = mid;
    }
    return 0.5 * (lo + hi);
}

/* An estimate of which `squares` is the sum of squared influences of n decisions. */
static struct kb_estimate interval(double estimate, double squares, uint64_t n, double level)
{
    const double count = (double)n, sum = squares > 0 ? squares : 0;
    const double half = n > 1 ? two_sided(1 - level) * sqrt(sum / (count * (count - 1))) : (double)INFINITY;

    return (struct kb_estimate){estimate, estimate - half, estimate + half};
}

static const struct kb_estimate NOTHING = {(double)NAN, (double)NAN, (double)NAN};

/* sum w^2 (r - v)^2, where v is less the origin as the sums are. */
static double residuals(const struct kb_snips *s, double v)
{
    return s->wwrr - 2 * v * s->wwr + v * v * s->ww;
}

struct kb_estimate kb_snips_value(const struct kb_snips *s, double level)
{
    if (s->w <= 0)
        return NOTHING;
    const double v = s->wr / s->w, scale = (double)s->n / s->w;

    return interval(s->origin + v, scale * scale * residuals(s, v), s->n, level);
}

/* Not free of the rewards' offset, as the others are: the sums are moved back by it. */
struct kb_estimate kb_snips_plain(const struct kb_snips *s, double level)
{
    if (s->n == 0)
        return NOTHING;
    const double sum = s->wr + s->origin * s->w;
    const double squares = s->wwrr + 2 * s->origin * s->wwr + s->origin * s->origin * s->ww;
    const double p = sum / (double)s->n;

    return interval(p, squares - p * sum, s->n, level);
}

struct kb_estimate kb_snips_logged(const struct kb_snips *s, double level)
{
    if (s->n == 0)
        return NOTHING;
    const double m = s->r / (double)s->n;

    return interval(s->origin + m, s->rr - m * s->r, s->n, level);
}

/* sum w (r - v) (r - m) is sum w r (r - v), since sum w (r - v) is 0. */
struct kb_estimate kb_snips_difference(const struct kb_snips *s, double level)
{
    if (s->w <= 0)
        return NOTHING;
    const double v = s->wr / s->w, m = s->r / (double)s->n, scale = (double)s->n / s->w;
    const double squares = scale * scale * residuals(s, v) - 2 * scale * (s->wrr - v * s->wr) + (s->rr - m * s->r);

    return interval(v - m, squares, s->n, level);
}

struct kb_estimate kb_snips_weight(const struct kb_snips *s, double level)
{
    if (s->n == 0)
        return NOTHING;
    const double mean = s->w / (double)s->n;

    return interval(mean, s->ww - mean * s->w, s->n, level);
}

double kb_snips_ess(const struct kb_snips *s)
{
    return s->ww > 0 ? s->w * s->w / s->ww : 0;
}
