/* The kernel between points of one arm, a sum of components:
 *
 *   k(s, s') = arm + user G[u, u'] + context kc(c, c') + linear c.c' / d          d coordinates of contexts
 *
 * for models in which arms share nothing. G and kc are those of the product kernel (kernel.h), whose kernel of arms is
 * not looked at. */
#ifndef KB_ARM_KERNEL_H
#define KB_ARM_KERNEL_H

#include "kernel/kernel.h"

/* Variances of the components; one that the parts cannot tell points by is 0. */
struct kb_arm_kernel {
    const struct kb_kernel *parts; /* borrowed: G and kc */
    double arm, user, context, linear;
};

/* Points of an arm; borrowed. */
struct kb_arm_points {
    const uint32_t *anchor; /* of their users */
    const double *x;        /* [n][context_dim] */
};

void kb_arm_kernel_init(struct kb_arm_kernel *k, const struct kb_prior_spec *prior, const struct kb_kernel *parts);

/* Whose values are asked for: a user in a context. */
struct kb_arm_asker {
    struct kb_user user;
    double diag;           /* kb_user_kernel_diag */
    const double *row;     /* G[user, every anchor in force], where it is at hand; may be NULL */
    const double *context; /* [context_dim] */
};

/* out[i] = k(point i, asker), i < n; work: n doubles. O(n (dim + 1)). */
void kb_arm_kernel_column(const struct kb_arm_kernel *k, const struct kb_arm_points *b, size_t n,
                          const struct kb_arm_asker *asker, double *work, double *out);

/* One component between contexts, without its variance: out[i] = kc(x_i, context), or x_i.context / dim where kernel is
 * NULL. O(n dim). */
void kb_arm_kernel_contexts(const struct kb_vec_kernel_spec *kernel, size_t dim, const double *x, size_t n,
                            const double *context, double *out);
/* Median of the distances of n contexts: where a search for their lengthscale begins (kb_median_distance). */
enum kb_err kb_arm_kernel_median(size_t n, size_t dim, const double *x, double *out);

/* The variance of a point before anything is learned. */
double kb_arm_kernel_diag(const struct kb_arm_kernel *k, double diag_user, const double *context);

#endif
