/* The triangular solve of chol.c for many right-hand sides, by vectors of the widest kind that the processor has. */
#ifndef KB_LOWER_SOLVE_H
#define KB_LOWER_SOLVE_H

#include <stddef.h>

#include "linalg/lanes.h"

/* X = L^-1 X. L: order n, column-major, leading dimension ld_l, lower triangle; X: n_rhs columns, ld >= n. `lanes` is
 * at most kb_widest_lanes(). O(n^2 n_rhs). */
void kb_lower_solve(enum kb_lanes lanes, size_t n, const double *l, size_t ld_l, double *x, size_t ld, size_t n_rhs);

#endif
