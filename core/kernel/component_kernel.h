/* The kernel of points as a sum of components, where arms share what their features have in common:
 *
 *   k(s, s') = arm [a = a'] + ( feature + user G[u, u'] + context kc(c, c') + linear c.c' / d ) kx(x, x')
 *
 * with variances in front (kb_prior_spec); G, kc and kx are those of the product kernel (kernel.h), d the coordinates
 * of contexts. A component that the parts cannot tell points by is 0; so is `feature` where arms are compared by their
 * names alone, since `arm` says it already. Nothing is common to all arms.
 *
 * A support point stands for one component (kb_point.part), and its values are those of this component alone; between
 * points of two components the kernel is 0. So a dictionary holds points of its own for each, and its features are
 * those of all components, one after another. A point that stands for none is asked, or learned at: then k is the whole
 * sum. */
#ifndef KB_COMPONENT_KERNEL_H
#define KB_COMPONENT_KERNEL_H

#include "graph/user_kernel.h"
#include "kernel/support.h"

struct kb_components {
    const struct kb_user_kernel *user; /* borrowed: G */
    struct kb_vec_kernel_spec context; /* kc */
    size_t context_dim;
    double variance[KB_N_PARTS];
};

/* Of the spec's prior; user and context: the parts that tell points apart. */
void kb_components_init(struct kb_components *k, const struct kb_spec *spec, const struct kb_user_kernel *user,
                        const struct kb_vec_kernel_spec *context);

/* out[i] = what support point i's component makes of a user and a context, without the factor of arms. diag_user: of
 * that user. O(n (dim + 1)). */
void kb_components_base(const struct kb_components *k, const struct kb_support *s, size_t n, struct kb_user user,
                        double diag_user, const double *context, double *out);

/* After the factor of arms: what compares arms by their names, and 0 for points of other components than `part`, unless
 * that is KB_PART_ALL. O(n). */
void kb_components_finish(const struct kb_components *k, const struct kb_support *s, size_t n, uint32_t arm,
                          uint32_t part, double *out);

/* k(s, s) of component `part`, or of all, for the user's diagonal and kx(x, x). */
double kb_components_diag(const struct kb_components *k, double diag_user, const double *context, double diag_arm,
                          uint32_t part);

#endif
