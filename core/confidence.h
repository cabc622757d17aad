/* Confidence rules: per-arm bounds from the posterior. `fixed`: mean -+ beta sd; score = upper. */
#ifndef KB_CONFIDENCE_H
#define KB_CONFIDENCE_H

#include <stddef.h>

#include "spec.h"

/* lower[i], upper[i], score[i] for n arms. */
void kb_confidence_bounds(const struct kb_conf_spec *conf, size_t n, const double *mean, const double *sd, double *lower,
                          double *upper, double *score);

#endif
