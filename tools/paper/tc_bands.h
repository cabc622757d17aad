/* TC's Figure 1: upper and lower bounds of a function on a line, by each rule, from the same fifty observations. */
#ifndef PB_TC_BANDS_H
#define PB_TC_BANDS_H

#include "paper/env_tc.h"

#define PB_BANDS_N_RULES 6u
#define PB_BANDS_OBSERVED 50u
#define PB_BANDS_POINTS 101u /* evenly from -1 to 1, both ends among them */

extern const struct pb_algorithm pb_bands_rules[PB_BANDS_N_RULES];

struct pb_bands {
    double x[PB_BANDS_OBSERVED], y[PB_BANDS_OBSERVED]; /* observations */
    double f[PB_BANDS_POINTS];
    double lower[PB_BANDS_N_RULES][PB_BANDS_POINTS], upper[PB_BANDS_N_RULES][PB_BANDS_POINTS];
};

/* The i-th of the points. */
double pb_bands_point(size_t i);

/* Of one seed. Errors are those of learners. */
enum kb_err pb_bands_measure(uint64_t seed, struct pb_bands *out);

#endif
