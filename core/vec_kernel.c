/* Kernels on vectors, evaluated for many points against one.
 *
 *   k(x, y) = shape(t),  t = |x - y|^2 (stationary kernels), x.y (linear, polynomial) or [x = y] (delta)
 *
 * Two steps per block of points: `arguments` gathers t for each point, `shape` maps it. The step over a block
 * keeps the branch on the type out of the loops; each loop is compiled for several vector widths (clones.h), eight
 * values at a time, with an exponential of our own (exponential.h).
 *
 * Many against many, as a decision asks: eight points are laid side by side once, coordinate by coordinate (struct
 * tile), and met by every candidate, in vectors of four by the compiler's vector extensions.
 *
 * Numerical notes. Distances are sums of squared differences, not |x|^2 + |y|^2 - 2 x.y: equal points then give
 * exactly 0 and k(s, s) exactly 1, on which the recognition of repeated points and the residuals of the
 * dictionary rely; that is why there is no dgemm here. Four partial sums break the dependency chain; their order is
 * fixed, in tiles as in pairs, so that a value does not depend on the block it was computed in, nor on the machine
 * (tests: value_is_bitwise_independent_of_the_block).
 *
 * Cost: O(dim) per point and one exp for stationary kernels: 256 points of 16 coordinates against 20 took 35 us by
 * pairs and libm's exp, and take 16.
 *
 * In the product kernel (kernel.c) this is the context factor and the arm factor: a kernel column over the
 * support starts as a row of the user kernel and is multiplied by each factor in turn. That is why the entry
 * point scales `out` in place instead of writing it. `delta` on arms never comes here: kernel.c compares ids.
 *
 * All functions but the last are const and allocate nothing; readers call them side by side. */
#include "vec_kernel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "alloc.h"
#include "clones.h"
#include "exponential.h"

#define BLOCK 64u
#define LANES 8u      /* points of a tile, and values that shapes take at once */
#define TILE_DIM 256u /* coordinates that a tile has room for, 16 kB; points of more are met in pairs */
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

/* Matern of half-integer order on squared distances: poly(s) exp(-s), s = root |x - y| / l, poly = 1 + linear s +
 * quadratic s^2 (vec_kernel.h). */
struct matern {
    double root, linear, quadratic, lengthscale;
};

static inline double matern_at(const struct matern *m, double t)
{
    const double s = m->root * sqrt(t) / m->lengthscale;
    return (1.0 + s * (m->linear + s * m->quadratic)) * kb_exp_of_negative(-s);
}

KB_HOT static void matern(size_t n, struct matern m, double *t)
{
    size_t first = 0;
    for (; first + LANES <= n; first += LANES)
        for (size_t i = 0; i < LANES; i++)
            t[first + i] = matern_at(&m, t[first + i]);
    for (; first < n; first++)
        t[first] = matern_at(&m, t[first]);
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
        matern(n, (struct matern){1.0, 0.0, 0.0, k->lengthscale}, t);
        break;
    case KB_VEC_MATERN32:
        matern(n, (struct matern){sqrt(3.0), 1.0, 0.0, k->lengthscale}, t);
        break;
    case KB_VEC_MATERN52:
        matern(n, (struct matern){sqrt(5.0), 1.0, 1.0 / 3.0, k->lengthscale}, t);
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

/* --- many against many --------------------------------------------------------------------------------- */

typedef double four __attribute__((vector_size(4 * sizeof(double))));
#define FOURS (LANES / 4)

/* Coordinate d of point i is lane i % 4 of at[d][i / 4]. */
struct tile {
    four at[TILE_DIM][FOURS];
};

/* Lanes without a point have the last one's coordinates: what comes of them is not looked at. */
static void lay_out(struct tile *tile, size_t dim, const double *x, size_t stride, size_t n)
{
    for (size_t i = 0; i < LANES; i++) {
        const double *point = x + (i < n ? i : n - 1) * stride;
        double *lane = (double *)tile->at + i;
        for (size_t d = 0; d < dim; d++)
            lane[d * LANES] = point[d];
    }
}

/* t[c][i] = |x_i - y_c|^2 or x_i.y_c for the points of a tile, in the order of sums that pairs have. */
#define DEFINE_MEET(name, TERM)                                                                                        \
    KB_HOT static void name(const struct tile *tile, size_t dim, const double *const *y, size_t n_c,                   \
                            four(*restrict t)[FOURS])                                                                  \
    {                                                                                                                  \
        for (size_t c = 0; c < n_c; c++) {                                                                             \
            const double *z = y[c];                                                                                    \
            for (size_t i = 0; i < FOURS; i++) {                                                                       \
                const four *x = &tile->at[0][i];                                                                       \
                four s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};                                                           \
                size_t d = 0;                                                                                          \
                for (; d + 4 <= dim; d += 4) {                                                                         \
                    s0 += TERM(x[d * FOURS], z[d]);                                                                    \
                    s1 += TERM(x[(d + 1) * FOURS], z[d + 1]);                                                          \
                    s2 += TERM(x[(d + 2) * FOURS], z[d + 2]);                                                          \
                    s3 += TERM(x[(d + 3) * FOURS], z[d + 3]);                                                          \
                }                                                                                                      \
                for (; d < dim; d++)                                                                                   \
                    s0 += TERM(x[d * FOURS], z[d]);                                                                    \
                t[c][i] = (s0 + s1) + (s2 + s3);                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }
#define SQUARE(x, y) (((y) - (x)) * ((y) - (x)))
#define PRODUCT(x, y) ((x) * (y))
DEFINE_MEET(meet_by_distance, SQUARE)
DEFINE_MEET(meet_by_product, PRODUCT)

/* n at most LANES, and nearly always that. */
static void multiply(size_t n, const double *restrict value, double *restrict out)
{
    if (n == LANES)
        for (size_t i = 0; i < LANES; i++)
            out[i] *= value[i];
    else
        for (size_t i = 0; i < n; i++)
            out[i] *= value[i];
}

/* At most LANES points against at most BLOCK. */
static void scale_tile(const struct kb_vec_kernel_spec *k, const struct tile *tile, size_t dim, size_t n,
                       const double *const *y, size_t n_c, double *out, size_t ld)
{
    four t[BLOCK][FOURS];
    const double *value = (const double *)t;
    const bool is_product = k->type == KB_VEC_LINEAR || k->type == KB_VEC_POLYNOMIAL;
    (is_product ? meet_by_product : meet_by_distance)(tile, dim, y, n_c, t);
    shape(k, n_c * LANES, (double *)t);
    for (size_t c = 0; c < n_c; c++)
        multiply(n, value + c * LANES, out + c * ld);
}

void kb_vec_kernel_scale_many(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, size_t stride, size_t n,
                              const double *const *y, size_t n_c, double *out, size_t ld)
{
    struct tile tile;
    if (k->type == KB_VEC_DELTA || k->type == KB_VEC_ONES || dim > TILE_DIM) {
        for (size_t c = 0; c < n_c; c++)
            kb_vec_kernel_scale(k, dim, x, stride, n, y[c], out + c * ld);
        return;
    }
    for (size_t first = 0; first < n; first += LANES) {
        const size_t width = n - first < LANES ? n - first : LANES;
        lay_out(&tile, dim, x + first * stride, stride, width);
        for (size_t c = 0; c < n_c; c += BLOCK)
            scale_tile(k, &tile, dim, width, y + c, n_c - c < BLOCK ? n_c - c : BLOCK, out + c * ld + first, ld);
    }
}

/* Through the same code as the columns, so that k(s, s) and a column's own entry agree to the bit. */
double kb_vec_kernel_value(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, const double *y)
{
    double out = 1.0;
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
        *out = 0.5 * (distance[(n_positive - 1) / 2] + distance[n_positive / 2]);
    }
    kb_free(distance);
    return KB_OK;
}
