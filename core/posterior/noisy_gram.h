/* The Cholesky factor of an exact posterior over n distinct points: F F^T = K + lambda N^-1, with K their kernel
 * matrix and N = diag(n_i) the observations at each. How it grows and follows counts (noisy_gram.c); the kernel, the
 * points and the counts are the caller's. Changes need exclusion, or a factor that nobody reads. */
#ifndef KB_NOISY_GRAM_H
#define KB_NOISY_GRAM_H

#include "linalg/chol.h"
#include "linalg/tiled.h"
#include "posterior/posterior_impl.h"

struct kb_noisy_gram {
    const struct kb_posterior *p; /* its lambda; what is lifted is counted there */
    struct kb_chol *f;
    double *count; /* [n_points] observations, > 0 */
    size_t n_points;
    double left; /* share of the counts that the factor is for; 1: all */
    /* k(point i, points 0..n-1) into out. Draws a vector of n_points doubles from the arena at most. */
    void (*column)(const struct kb_noisy_gram *g, size_t i, size_t n, struct kb_scratch *s, double *out);
    const void *points; /* for column */
    /* Where the factor stands; f is then room for one of n_points and nothing else. NULL: in f. */
    struct kb_tiled *tiles;
};

/* A row that was appended: l = F^-1 k and its pivot, k the new point's kernel values with those before it. */
struct kb_appended {
    double square, pivot; /* |l|^2 */
    double along;         /* k.probe */
};
/* Appends the row of the point behind those that the factor has, whose count is there already. w (may be NULL): F^-1 y
 * as far as F goes, and y at the new point, which becomes the next entry of F^-1 y. probe: n_probe values, fewer than
 * there will be points. O(n^2). */
struct kb_appended kb_noisy_gram_append(const struct kb_noisy_gram *g, double *w, const double *probe, size_t n_probe,
                                        struct kb_scratch *s);
/* n_i grows by d. Draws three vectors of n_points (padded: tiled.h) at most. O(n^2). */
void kb_noisy_gram_raise(const struct kb_noisy_gram *g, size_t i, double d, struct kb_scratch *s);
/* n_i falls by d of what was raised before, KB_LEAST_COUNT where nothing is left. Draws a vector of n_points. O(n^2).
 */
void kb_noisy_gram_lower(const struct kb_noisy_gram *g, size_t i, double d, struct kb_scratch *s);
/* The factor anew over all points; cannot fail. O(n^3 / 3). */
void kb_noisy_gram_factor(const struct kb_noisy_gram *g, struct kb_scratch *s);
/* ln det(I + K_t / lambda) = ln det(F F^T) + sum ln n_i - n ln lambda. O(n). */
double kb_noisy_gram_log_det(const struct kb_noisy_gram *g);

/* What is left of a whole count that falls by d. */
double kb_count_lowered(double count, double d);
/* What forgetting leaves of a count. */
double kb_count_left(double count, double left);

#endif
