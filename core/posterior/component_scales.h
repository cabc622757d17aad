/* The scales of a dictionary whose kernel is a sum of components, by the bound on their evidence
 * (marginal_features.h), from the sums that the posterior keeps: no pass over its rewards. */
#ifndef KB_COMPONENT_SCALES_H
#define KB_COMPONENT_SCALES_H

#include "posterior/nystrom.h"
#include "posterior/scale_search.h"

/* As kb_posterior_find_scales says. About 30 m^3 flops, and m^2 doubles twice. */
enum kb_err kb_component_scales_find(const struct kb_nystrom *n, const struct kb_scale_search *search,
                                     struct kb_scratch *s, struct kb_tuning *out);

#endif
