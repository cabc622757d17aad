/* The scales of a posterior that holds arms apart (scale_search.h), from its blocks. */
#ifndef KB_ARM_SCALES_H
#define KB_ARM_SCALES_H

#include "kernel/arm_kernel.h"
#include "posterior/arm_block.h"
#include "posterior/posterior_impl.h"

/* What is looked at; all of it borrowed. */
struct kb_arm_view_of_points {
    const struct kb_posterior *p;
    const struct kb_arm_kernel *kernel;
    struct kb_arm_block *const *block; /* [n_arms]; NULL: nothing was learned of the arm */
    size_t n_arms;
    const double *count, *sum; /* by the support's numbers */
};

enum kb_err kb_arm_scales_find(const struct kb_arm_view_of_points *view, const struct kb_scale_search *search,
                               struct kb_scratch *s, struct kb_tuning *out);

#endif
