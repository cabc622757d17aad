/* See space_weights.h. */
#include "posterior/space_weights.h"

#include <math.h>

void kb_spaces_weigh(const struct kb_split *spaces, const double *weight, size_t dim, size_t n, const double *raw,
                     double *x)
{
    for (size_t i = 0; i < n; i++, raw += dim, x += dim) {
        size_t d = 0;

        for (uint32_t g = 0; g < spaces->n; g++) {
            const double root = sqrt(weight[g]);
            for (const size_t end = d + (size_t)spaces->weight[g]; d < end && d < dim; d++)
                x[d] = raw[d] * root;
        }
        for (; d < dim; d++)
            x[d] = raw[d];
    }
}

/* Of one pair: what it adds, by how often it stands in the matrix. */
static void add_pair(const struct kb_split *spaces, const struct kb_spaces_part *p, const double *x, const double *y,
                     double apart, double along, double *out)
{
    size_t d = 0;

    for (uint32_t g = 0; g < spaces->n; g++) {
        double square = 0, product = 0;

        for (const size_t end = d + (size_t)spaces->weight[g]; d < end && d < p->dim; d++) {
            square += (x[d] - y[d]) * (x[d] - y[d]);
            product += x[d] * y[d];
        }
        out[g] += along * product - apart * square;
    }
}

void kb_spaces_slope(const struct kb_split *spaces, const struct kb_spaces_part *p, const double *m, size_t ld,
                     double *out)
{
    const double per_square = p->gram != NULL ? p->context / (2 * p->lengthscale * p->lengthscale) : 0;

    for (size_t j = 0; j < p->n; j++)
        for (size_t i = j; i < p->n; i++) {
            const double twice = (i == j ? 1 : 2) * m[j * ld + i];
            const double apart = p->gram != NULL ? twice * per_square * p->gram[j * p->n + i] : 0;

            add_pair(spaces, p, p->x + i * p->dim, p->x + j * p->dim, apart, twice * p->linear, out);
        }
}
