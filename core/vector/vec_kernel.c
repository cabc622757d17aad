/* Kernels on vectors, evaluated for many points against one.
 *
 *   k(x, y) = shape(t),  t = |x - y|^2 (stationary kernels), x.y (linear, polynomial) or [x = y] (delta)
 *
 * Two steps per block of points: `arguments` gathers t for each point, `shape` maps it. The step over a block
 * keeps the branch on the type out of the loops; each loop is compiled for several vector widths (clones.h), eight
 * values at a time, with an exponential of our own (exponential.h).
 *
 * Numerical notes. Distances are sums of squared differences, not |x|^2 + |y|^2 - 2 x.y: equal points then give
 * exactly 0 and k(s, s) exactly 1, on which the recognition of repeated points and the residuals of the
 * dictionary rely; that is why there is no dgemm here. Four partial sums break the dependency chain; their order is
 * fixed, in tiles as in pairs, so that a value does not depend on the block it was computed in, nor on the machine
 * (tests: value_is_bitwise_independent_of_the_block).
 *
 * Cost: O(dim) per point and one exp for stationary kernels. Many against many are several times as fast (vec_many.c).
 *
 * In the product kernel (kernel.c) this is the context factor and the arm factor: a kernel column over the
 * support starts as a row of the user kernel and is multiplied by each factor in turn. That is why the entry
 * point scales `out` in place instead of writing it. `delta` on arms never comes here: kernel.c compares ids.
 *
 * All functions but the last are const and allocate nothing; readers call them side by side. */
#include "vector/vec_kernel.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "linalg/clones.h"
#include "linalg/exponential.h"
#include "base/magnitude.h"
#include "spec/fields.h"
#include "vector/matern.h"

#define BLOCK 64u
#define LANES 8u /* values that shapes take at once */
#define MAX_MEDIAN_POINTS 512u

/* |x - y|^2 in four partial sums. A remainder of up to three coordinates goes into the first sum. */
static double squared_distance(size_t dim, const double *x, const double *y)
{
    double s[4] = {0, 0, 0, 0};
    size_t d = 0;
    for (; d + 4 <= dim; d += 4) {
        for (size_t i = 0; i < 4; i++)
            s[i] += (x[d + i] - y[d + i]) * (x[d + i] - y[d + i]);
    }
    for (; d < dim; d++)
        s[0] += (x[d] - y[d]) * (x[d] - y[d]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* x.y in four partial sums. Not kb_dot: BLAS may order the sum differently for another machine or alignment. */
static double dot(size_t dim, const double *x, const double *y)
{
    double s[4] = {0, 0, 0, 0};
    size_t d = 0;
    for (; d + 4 <= dim; d += 4) {
        for (size_t i = 0; i < 4; i++)
            s[i] += x[d + i] * y[d + i];
    }
    for (; d < dim; d++)
        s[0] += x[d] * y[d];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* [x = y] as numbers: 0.0 equals -0.0. */
static double is_equal(size_t dim, const double *x, const double *y)
{
    for (size_t d = 0; d < dim; d++) {
        if (x[d] != y[d])
            return 0.0;
    }
    return 1.0;
}

/* t[i] for n points: what the kernel's shape is a function of. One branch on the type per block, none per
 * point. */
static void arguments(enum kb_vec_kernel_type type, size_t dim, const double *x, size_t stride, size_t n,
                      const double *y, double *t)
{
    double (*pair)(size_t, const double *, const double *) = squared_distance;
    if (type == KB_VEC_LINEAR || type == KB_VEC_POLYNOMIAL)
        pair = dot;
    else if (type == KB_VEC_DELTA)
        pair = is_equal;
    for (size_t i = 0; i < n; i++)
        t[i] = pair(dim, x + i * stride, y);
}

/* (t + offset)^degree by repeated multiplication: the same bits on every machine, unlike pow. degree >= 1.
 * With offset >= 0, which the spec demands, the kernel is positive definite. */
static void polynomial(size_t n, int degree, double offset, double *t)
{
    for (size_t i = 0; i < n; i++) {
        double base = t[i] + offset, power = base;
        for (int d = 1; d < degree; d++)
            power *= base;
        t[i] = power;
    }
}

static inline double matern_at(struct kb_matern m, double lengthscale, double t)
{
    const double s = m.root * sqrt(t) / lengthscale;
    return (1.0 + s * (m.linear + s * m.quadratic)) * kb_exp_of_negative(-s);
}

KB_HOT static void matern(size_t n, struct kb_matern m, double lengthscale, double *t)
{
    size_t first = 0;
    for (; first + LANES <= n; first += LANES)
        for (size_t i = 0; i < LANES; i++)
            t[first + i] = matern_at(m, lengthscale, t[first + i]);
    for (; first < n; first++)
        t[first] = matern_at(m, lengthscale, t[first]);
}

/* exp(-t / 2 l^2). */
KB_HOT static void rbf(size_t n, double lengthscale, double *t)
{
    const double factor = -0.5 / (lengthscale * lengthscale);
    size_t first = 0;
    for (; first + LANES <= n; first += LANES)
        for (size_t i = 0; i < LANES; i++)
            t[first + i] = kb_exp_of_negative(factor * t[first + i]);
    for (; first < n; first++)
        t[first] = kb_exp_of_negative(factor * t[first]);
}

/* t[i] <- k at argument t[i]. The lengthscale in force comes with the spec: a median one was put in before
 * (engine_lengthscale.c). */
static void shape(const struct kb_vec_kernel_spec *k, size_t n, double *t)
{
    switch (k->type) {
    case KB_VEC_RBF:
        rbf(n, k->lengthscale, t);
        break;
    case KB_VEC_MATERN12:
    case KB_VEC_MATERN32:
    case KB_VEC_MATERN52:
        matern(n, kb_matern_of(k->type), k->lengthscale, t);
        break;
    case KB_VEC_POLYNOMIAL:
        polynomial(n, k->degree, k->offset, t);
        break;
    case KB_VEC_LINEAR:
    case KB_VEC_DELTA:
        break; /* t is the value */
    case KB_VEC_ONES:
    case KB_VEC_N:
        assert(!"handled before");
    }
}

/* The arguments stand on the stack: 64 points are enough for the loops to run at speed. `ones` is 1
 * everywhere and is left out. Blocks of points do not change any value. */
void kb_vec_kernel_scale(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, size_t stride, size_t n,
                         const double *y, double *out)
{
    double t[BLOCK];
    if (k->type == KB_VEC_ONES)
        return;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t width = n - first < BLOCK ? n - first : BLOCK;
        arguments(k->type, dim, x + first * stride, stride, width, y, t);
        shape(k, width, t);
        for (size_t i = 0; i < width; i++)
            out[first + i] *= t[i];
    }
}

/* Eight coordinates to a byte. */
static inline uint64_t mark_eight(const double *x)
{
    uint64_t bits = 0;
#ifdef __SSE2__
    typedef double two __attribute__((vector_size(16)));
    typedef double stretch __attribute__((vector_size(16), aligned(sizeof(double)), may_alias));
    for (size_t d = 0; d < 8; d += 2) {
        const two at = *(const stretch *)(x + d);
        bits |= (uint64_t)(unsigned)__builtin_ia32_movmskpd((two)(at != (two){0})) << d;
    }
#else
    for (size_t d = 0; d < 8; d++)
        bits |= (uint64_t)(x[d] != 0) << d;
#endif
    return bits;
}

void kb_vec_mark(size_t dim, const double *x, uint64_t *marks)
{
    for (size_t w = 0; w < kb_vec_mark_words(dim); w++, x += 64) {
        const size_t n = dim - w * 64 < 64 ? dim - w * 64 : 64;
        uint64_t bits = 0;
        size_t d = 0;
        for (; d + 8 <= n; d += 8)
            bits |= mark_eight(x + d) << d;
        for (; d < n; d++)
            bits |= (uint64_t)(x[d] != 0) << d;
        marks[w] = bits;
    }
}

bool kb_vec_kernel_is_bounded(enum kb_vec_kernel_type type)
{
    return type != KB_VEC_LINEAR && type != KB_VEC_POLYNOMIAL;
}

bool kb_vec_kernel_measures(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, double most)
{
    return kb_first_unmeasurable(x, dim) == dim &&
           (kb_vec_kernel_is_bounded(k->type) || kb_vec_kernel_value(k, dim, x, x) <= most);
}

/* Through the same code as the columns, so that k(s, s) and a column's own entry agree to the bit. A point beside
 * itself is what a decision asks of each candidate: where distances count, 1 to the last bit. */
double kb_vec_kernel_value(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, const double *y)
{
    double out = 1.0;
    if (x == y && (KB_STATIONARY_KERNELS >> k->type & 1) != 0)
        return out;
    kb_vec_kernel_scale(k, dim, x, dim, 1, y, &out);
    return out;
}

/* --- median lengthscale ------------------------------------------------------------------------------ */

/* Ascending; no NaN comes here. */
static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Positive distances among `n_used` vectors spread evenly over the n given; returns how many. Zero distances
 * are left out: they come from repeated contexts and say nothing about scale. Vector i of those used is
 * number floor(i n / n_used) of those given, so the subsample needs no chance. */
static size_t positive_distances(size_t n, size_t n_used, size_t dim, const double *x, size_t stride, double *out)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n_used; i++) {
        const double *xi = x + i * n / n_used * stride;
        for (size_t j = 0; j < i; j++) {
            double d2 = squared_distance(dim, xi, x + j * n / n_used * stride);
            if (d2 > 0)
                out[n_out++] = sqrt(d2);
        }
    }
    return n_out;
}

/* Quadratic in the vectors used, at most 130,816 distances. The mean of the two middle ones when there is no
 * middle. Called by the writer when lengthscales are looked at again, not on the path of a decision. */
enum kb_err kb_median_distance(size_t n, size_t dim, const double *x, size_t stride, double *out)
{
    size_t n_used = n < MAX_MEDIAN_POINTS ? n : MAX_MEDIAN_POINTS;
    *out = 1.0;
    if (n_used < 2)
        return KB_OK;
    double *distance = kb_array(n_used * (n_used - 1) / 2, 1, sizeof *distance);
    if (distance == NULL)
        return KB_ENOMEM;
    size_t n_positive = positive_distances(n, n_used, dim, x, stride, distance);
    if (n_positive > 0) {
        qsort(distance, n_positive, sizeof *distance, compare_doubles);
        const double median = 0.5 * (distance[(n_positive - 1) / 2] + distance[n_positive / 2]);
        *out = fmin(fmax(median, KB_LEAST_SCALE), KB_MOST_SCALE);
    }
    kb_free(distance);
    return KB_OK;
}
