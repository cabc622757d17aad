/* Features of arms from who likes them together. */
#ifndef LC_ARM_FEATURES_H
#define LC_ARM_FEATURES_H

#include <stddef.h>

/* co: symmetric m x m counts, co[i * m + j] = users who like both i and j (the diagonal is not read). out: m x dim,
 * row-major; rows of arms with any association have length 1, others are zero. dim <= m. Deterministic. O(iterations
 * m^2 dim). */
void lc_arm_features(size_t m, const double *co, size_t dim, double *out);

#endif
