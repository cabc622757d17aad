/* See component_kernel.h. Each factor is one pass over the points, a tile of them at a time: all values that any
 * component may want, of which the point's own is taken.
 *
 * Cost: O(n (dim + 1)) for a column of n points. */
#include "kernel/component_kernel.h"

#include "vector/vec_kernel.h"

#define TILE 128u

static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1, .degree = 1};

void kb_components_init(struct kb_components *k, const struct kb_spec *spec, const struct kb_user_kernel *user,
                        const struct kb_vec_kernel_spec *context)
{
    const bool has_contexts = context->type != KB_VEC_ONES, has_features = spec->arm_kernel.type != KB_VEC_DELTA;

    *k = (struct kb_components){.user = user, .context = *context, .context_dim = spec->context_dim};
    k->variance[KB_PART_ARM] = spec->prior.arm;
    k->variance[KB_PART_FEATURE] = has_features ? spec->prior.feature : 0;
    k->variance[KB_PART_USER] = kb_user_kernel_is_ones(user) ? 0 : spec->prior.user;
    k->variance[KB_PART_CONTEXT] = has_contexts ? spec->prior.context : 0;
    k->variance[KB_PART_LINEAR] = has_contexts ? spec->prior.linear / (double)spec->context_dim : 0;
}

/* out[i] = variance kernel(context_i, context), 0 where there is no variance. */
static void contexts(const struct kb_vec_kernel_spec *kernel, double variance, const struct kb_components *k,
                     const double *x, size_t stride, size_t n, const double *context, double *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = variance;
    if (variance > 0)
        kb_vec_kernel_scale(kernel, k->context_dim, x, stride, n, context, out);
}

void kb_components_base(const struct kb_components *k, const struct kb_support *s, size_t n, struct kb_user user,
                        double diag_user, const double *context, double *out)
{
    double value[KB_N_PARTS][TILE];

    for (size_t first = 0; first < n; first += TILE) {
        const size_t m = n - first < TILE ? n - first : TILE;
        const double *x = s->x + first * s->dim;

        for (size_t i = 0; i < m; i++) {
            value[KB_PART_ALL][i] = value[KB_PART_USER][i] = 0;
            value[KB_PART_ARM][i] = k->variance[KB_PART_ARM];
            value[KB_PART_FEATURE][i] = k->variance[KB_PART_FEATURE];
        }
        if (k->variance[KB_PART_USER] > 0)
            kb_user_kernel_row_at(k->user, user, diag_user, s->anchor + first, m, value[KB_PART_USER]);
        for (size_t i = 0; i < m; i++)
            value[KB_PART_USER][i] *= k->variance[KB_PART_USER];
        contexts(&k->context, k->variance[KB_PART_CONTEXT], k, x, s->dim, m, context, value[KB_PART_CONTEXT]);
        contexts(&linear, k->variance[KB_PART_LINEAR], k, x, s->dim, m, context, value[KB_PART_LINEAR]);
        for (size_t i = 0; i < m; i++)
            out[first + i] = value[s->part[first + i]][i];
    }
}

void kb_components_finish(const struct kb_components *k, const struct kb_support *s, size_t n, uint32_t arm,
                          uint32_t part, double *out)
{
    for (size_t i = 0; i < n; i++) {
        if (part != KB_PART_ALL && s->part[i] != part)
            out[i] = 0;
        else if (s->part[i] == KB_PART_ARM)
            out[i] = s->arm[i] == arm ? k->variance[KB_PART_ARM] : 0;
    }
}

double kb_components_diag(const struct kb_components *k, double diag_user, const double *context, double diag_arm,
                          uint32_t part)
{
    const double *v = k->variance;
    double value[KB_N_PARTS] = {0}, sum = 0;

    value[KB_PART_ARM] = v[KB_PART_ARM];
    value[KB_PART_FEATURE] = v[KB_PART_FEATURE] * diag_arm;
    value[KB_PART_USER] = v[KB_PART_USER] * diag_user * diag_arm;
    if (v[KB_PART_CONTEXT] > 0)
        value[KB_PART_CONTEXT] =
            v[KB_PART_CONTEXT] * kb_vec_kernel_value(&k->context, k->context_dim, context, context) * diag_arm;
    if (v[KB_PART_LINEAR] > 0)
        value[KB_PART_LINEAR] =
            v[KB_PART_LINEAR] * kb_vec_kernel_value(&linear, k->context_dim, context, context) * diag_arm;
    for (uint32_t i = 1; i < KB_N_PARTS; i++)
        sum += part == KB_PART_ALL || part == i ? value[i] : 0;
    return sum;
}
