/* Posterior variances of one Gaussian process by three formulas: what BKB's Figure 1 is about. */
#ifndef PB_STARVATION_H
#define PB_STARVATION_H

#include "paper/paper.h"

#define PB_STARVATION_GRID 401    /* 0, 1/400, ..., 1 */
#define PB_STARVATION_POINTS 215u /* largest t */

/* After t observations with a dictionary resampled at every step. Variances are sd^2, prior variance 1. */
struct pb_starvation {
    size_t t;
    double x[PB_STARVATION_POINTS], y[PB_STARVATION_POINTS]; /* [t] observed */
    size_t n_chosen, rank;                                   /* points drawn, and those that add a direction */
    size_t row[PB_STARVATION_POINTS];                        /* [rank] which of the observations they are */
    /* on the grid: exact; the dictionary's, as the engine has them; the subset of regressors' variance */
    double exact_mean[PB_STARVATION_GRID], exact[PB_STARVATION_GRID];
    double mean[PB_STARVATION_GRID], dtc[PB_STARVATION_GRID];
    double regressors[PB_STARVATION_GRID];
};

/* Plays t = 1 .. at[n-1] (ascending, <= PB_STARVATION_POINTS) with oversampling q and fills out[0..n-1]. KB_ENOMEM,
 * KB_ENOTPD. */
enum kb_err pb_starvation_play(uint64_t seed, double q, const size_t *at, size_t n, struct pb_starvation *out);

#endif
