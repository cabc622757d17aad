/* See arm_kernel.h. Each component is one pass over the points, in unit stride.
 *
 * Cost: O(n (dim + 1)) for a column of n points. */
#include "kernel/arm_kernel.h"

#include "vector/vec_kernel.h"

static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1, .degree = 1};

void kb_arm_kernel_init(struct kb_arm_kernel *k, const struct kb_prior_spec *prior, const struct kb_kernel *parts)
{
    const bool has_contexts = parts->context.type != KB_VEC_ONES;
    *k = (struct kb_arm_kernel){.parts = parts,
                                .arm = prior->arm,
                                .user = kb_user_kernel_is_ones(parts->user) ? 0 : prior->user,
                                .context = has_contexts ? prior->context : 0,
                                .linear = has_contexts ? prior->linear / (double)parts->context_dim : 0};
}

/* out[i] += variance kc(context_i, context). */
static void add_contexts(const struct kb_vec_kernel_spec *kernel, double variance, size_t dim, const double *x,
                         size_t n, const double *context, double *work, double *out)
{
    for (size_t i = 0; i < n; i++)
        work[i] = variance;
    kb_vec_kernel_scale(kernel, dim, x, dim, n, context, work);
    for (size_t i = 0; i < n; i++)
        out[i] += work[i];
}

/* out[i] = arm + user G[asker, user of point i]: the same bits with a row at hand as without. */
static void begin_column(const struct kb_arm_kernel *k, const uint32_t *anchor, size_t n,
                         const struct kb_arm_asker *asker, double *out)
{
    const double arm = k->arm, user = k->user;
    if (user > 0 && asker->row == NULL)
        kb_user_kernel_row_at(k->parts->user, asker->user, asker->diag, anchor, n, out);
    for (size_t i = 0; user > 0 && i < n; i++)
        out[i] = arm + user * (asker->row != NULL ? asker->row[anchor[i]] : out[i]);
    for (size_t i = 0; !(user > 0) && i < n; i++)
        out[i] = arm;
}

void kb_arm_kernel_column(const struct kb_arm_kernel *k, const struct kb_arm_points *b, size_t n,
                          const struct kb_arm_asker *asker, double *work, double *out)
{
    const size_t dim = k->parts->context_dim;
    begin_column(k, b->anchor, n, asker, out);
    if (k->context > 0)
        add_contexts(&k->parts->context, k->context, dim, b->x, n, asker->context, work, out);
    if (k->linear > 0)
        add_contexts(&linear, k->linear, dim, b->x, n, asker->context, work, out);
}

void kb_arm_kernel_contexts(const struct kb_vec_kernel_spec *kernel, size_t dim, const double *x, size_t n,
                            const double *context, double *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = kernel != NULL ? 1 : 1 / (double)dim;
    kb_vec_kernel_scale(kernel != NULL ? kernel : &linear, dim, x, dim, n, context, out);
}

enum kb_err kb_arm_kernel_median(size_t n, size_t dim, const double *x, double *out)
{
    return kb_median_distance(n, dim, x, dim, out);
}

double kb_arm_kernel_diag(const struct kb_arm_kernel *k, double diag_user, const double *context)
{
    const size_t dim = k->parts->context_dim;
    double value = k->arm + k->user * diag_user;
    if (k->context > 0)
        value += k->context * kb_vec_kernel_value(&k->parts->context, dim, context, context);
    return k->linear > 0 ? value + k->linear * kb_vec_kernel_value(&linear, dim, context, context) : value;
}
