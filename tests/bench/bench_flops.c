/* The flops that the operations of a model need, by formulas (bench_flops.h).
 *
 *   m           distinct points of an exact model, points of a dictionary        C = 20 candidates
 *   d, c        coordinates of arms (8) and of contexts (4)                      r = 1 exact, 2 dictionary (A, R)
 *   f(k, n)     one value of a kernel on n coordinates: rbf 3 n + 2 (an exp counts as one), linear 2 n, others 0
 *   col         m (f(kc, c) + f(kx, d) + 2)                one column of kernel values
 *   blk(n)      m (f(kc, c) + 1) + n m (f(kx, d) + 1)      the columns of a decision, which share user and context
 *   E           ridges that a bound looks at: cmm 34, dmm 5 (10 over a dictionary), amm 1 over a dictionary
 *   B           candidates that get bounds: C, or 1 under score fixed, where one arm is shown
 *
 *   decide      blk(C) + C (r m^2 + 4 m): r solves, two dot products after the last
 *               with a spectrum + blk(B) + B (r + 1) m^2 (projection) + 36 B E m (both sides) + 400 m (the norm)
 *               exact without a factor (ucb, ts, random): 3 C; by arm, where each has one point: 3 C + blk(1) of C
 *   learn       exact, a point seen before: 7/3 m^2: a downdate from a column uniform in 0..m-1 is 4/3, w is 1
 *               dictionary: col + 4 m^2: feature 1, rank-one change of R with w and what was foretold 3
 *               without a factor 40, of which two logarithms are most
 *               with a spectrum + 128 m + 57,000, the share of closing a block of 64 rewards
 *   learn new   exact, a point not seen before: col + 2 m^2: row of F 1, w 1
 *   ask         may the point enter the dictionary: col + m^2 (threshold), col + 2 m^2 (kors)
 *   settle      4/3 m^3, to tridiagonal form; exact + m/2 col (K anew), dictionary + m^3 / 3 (V from R)
 *   redraw      not counted; docs/decisions/0012 has the cost
 *
 * Not counted at all: what an exp, a root or a division takes beyond one flop, Thompson's quadrature, look-ups of ids.
 * So a fraction of the machine's rate is the share of the time in which that rate would have done the sums. */
#include "bench_flops.h"
#include "posterior/posterior.h"

#define WITHOUT_FACTOR 40.0

static double value_flops(const struct kb_vec_kernel_spec *k, size_t dim)
{
    switch (k->type) {
    case KB_VEC_DELTA:
    case KB_VEC_ONES:
        return 0;
    case KB_VEC_LINEAR:
        return 2.0 * (double)dim;
    default:
        return 3.0 * (double)dim + 2;
    }
}

static double column_flops(const struct kb_spec *spec, double m)
{
    return m * (value_flops(&spec->context_kernel, CONTEXT_DIM) + value_flops(&spec->arm_kernel, ARM_DIM) + 2);
}

static double block_flops(const struct kb_spec *spec, double m, double n)
{
    return m * (value_flops(&spec->context_kernel, CONTEXT_DIM) + 1) +
           n * m * (value_flops(&spec->arm_kernel, ARM_DIM) + 1);
}

/* E of the file header. */
static double ridges(const struct kb_spec *spec, bool is_sketch)
{
    switch (spec->conf.type) {
    case KB_CONF_CMM:
        return 34;
    case KB_CONF_DMM:
        return is_sketch ? 10 : 5;
    default:
        return 1;
    }
}

static double n_points(const struct bench_subject *s)
{
    return (double)kb_posterior_n_support(kb_engine_posterior(s->engine));
}

/* Every arm has one point here. */
static bool is_without_factor(const struct kb_spec *spec)
{
    return kb_spec_is_diagonal(spec) || spec->repr.type == KB_REPR_BY_ARM;
}

double bench_decide_flops(const struct bench_subject *s)
{
    const bool is_sketch = bench_has_dictionary(s);
    const double m = n_points(s), r = is_sketch ? 2 : 1;
    if (s->spec.repr.type == KB_REPR_BY_ARM)
        return block_flops(&s->spec, N_CANDIDATES, 1) + 3 * N_CANDIDATES;
    if (kb_spec_is_diagonal(&s->spec) && !kb_spec_reads_spectrum(&s->spec))
        return 3 * N_CANDIDATES;
    const double bounded = s->spec.conf.score == KB_SCORE_FIXED ? 1 : N_CANDIDATES;
    double flops = block_flops(&s->spec, m, N_CANDIDATES) + N_CANDIDATES * (r * m * m + 4 * m);

    if (kb_spec_reads_spectrum(&s->spec))
        flops += block_flops(&s->spec, m, bounded) + bounded * ((r + 1) * m * m) +
                 36 * bounded * ridges(&s->spec, is_sketch) * m + 400 * m;
    return flops;
}

double bench_learn_flops(const struct bench_subject *s)
{
    const double m = n_points(s);

    if (is_without_factor(&s->spec))
        return WITHOUT_FACTOR;
    if (!bench_has_dictionary(s))
        return 7.0 / 3 * m * m;
    return column_flops(&s->spec, m) + 4 * m * m + (kb_spec_reads_spectrum(&s->spec) ? 128 * m + 57000 : 0);
}

double bench_learn_new_flops(const struct bench_subject *s)
{
    const double m = n_points(s);
    return is_without_factor(&s->spec) ? WITHOUT_FACTOR : column_flops(&s->spec, m) + 2 * m * m;
}

double bench_ask_flops(const struct bench_subject *s)
{
    const double m = n_points(s);
    return column_flops(&s->spec, m) + (s->spec.repr.type == KB_REPR_KORS ? 2 : 1) * m * m;
}

double bench_settle_flops(const struct bench_subject *s)
{
    const double m = n_points(s);
    return 4.0 / 3 * m * m * m + (bench_has_dictionary(s) ? m * m * m / 3 : m / 2 * column_flops(&s->spec, m));
}
