/* The tridiagonal form of what a posterior has seen: every ridge at once, in O(n) per ridge.
 *
 * Of an exact posterior, over its distinct points:
 *
 *   M = N^1/2 K_UU N^1/2 = Q T Q^T,   yt = Q^T N^-1/2 S,   w(s) = Q^T N^1/2 k_U(s)
 *   mean_a(s) = w^T (T + a I)^-1 yt,   sd_a^2(s) = k(s,s) - w^T (T + a I)^-1 w          [TC, eq. 2-3]
 *
 * n distinct points with counts n_i and reward sums S_i stand for all t observations: M has the non-zero eigenvalues
 * of the t x t matrix K_t, and what y has outside of the span of M's eigenvectors is the scatter of repeated
 * rewards around their means, y.y - sum S_i^2 / n_i, which no ridge changes.
 *
 * Of a dictionary posterior, over its m features z(s):
 *
 *   V0 = sum n_j z_j z_j^T = Q T Q^T,   yt = Q^T b,   w(s) = Q^T z(s),   r(s) = k(s,s) - |w|^2
 *   mean_a(s) = w^T (T + a I)^-1 yt,   sd_a^2(s) = r(s) + a w^T (T + a I)^-1 w           [EK, Prop. 4.2]
 *
 * with what the moment knows of rewards and of the projection beside it (kb_sketch_facts). T is tridiagonal and has the
 * eigenvalues of M; they themselves are not needed. Immutable once made, but for the memo. */
#ifndef KB_SPECTRUM_H
#define KB_SPECTRUM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "spec/evidence.h"
#include "spec/spec.h"

/* Of a dictionary posterior, at the spectrum's moment. */
struct kb_sketch_facts {
    struct kb_evidence evidence;
    size_t n_mixture; /* components of the evidence that were foretold on their own */
    double trace;     /* sum of residuals over all observations */
    double error;     /* e_t, see projection_error.h */
};

/* What a confidence rule finds in a spectrum before it looks at a candidate (confidence.h). */
struct kb_conf_finding {
    double norm_least; /* B_min: the data prove, at level delta, that |f| is at least this; 0 unknown */
    double radius_sq;  /* R^2 of TC eq. 8; on the exact posterior less the scatter of repeated rewards */
    double cross;      /* h of conf_sketch.c */
    double error;      /* e_t of the dictionary */
    bool is_void;      /* what the ball rests on was changed after it was told: no bound is to be had */
};

/* The finding of whoever looked first, for all who look by the same rule later: it changes with the spectrum alone.
 * Once it is there it stays as it is (confidence.c). */
struct kb_conf_memo {
    _Atomic int stage; /* of enum kb_memo_stage */
    struct kb_conf_spec conf;
    struct kb_conf_finding finding;
};
enum kb_memo_stage { KB_MEMO_EMPTY, KB_MEMO_WRITTEN, KB_MEMO_THERE };

struct kb_spectrum {
    size_t n;
    double n_observed;   /* t */
    double largest_diag; /* kappa^2: largest k(s,s) among the points */
    double *basis;       /* n x n, column-major, and factor: Q (tridiagonal.h); NULL where that is I */
    double *factor;
    double *diag, *off; /* of T: [n] T_ii, and [n + 1] T_i,i-1 at i, 0 at both ends */
    double *target;     /* [n] yt_i */
    double *root;       /* [n] N^1/2; of a sketch 1 */
    bool is_sketch, is_diagonal;
    struct kb_sketch_facts sketch; /* of a sketch */
    struct kb_conf_memo memo;      /* readers' */
};

/* n points, all zero; basis is for the caller to fill with the lower triangle of K_UU, unless that is the identity
 * (is_diagonal). KB_ENOMEM. */
enum kb_err kb_spectrum_new(struct kb_spectrum **out, size_t n, bool is_diagonal);
void kb_spectrum_free(struct kb_spectrum *sp);
size_t kb_spectrum_bytes(const struct kb_spectrum *sp); /* 0 for NULL */
size_t kb_spectrum_room(size_t n, bool is_diagonal);    /* of that, the arrays of n points */

/* Turns the Gram matrix in basis into the decomposition, given counts n_i > 0 and sums S_i. KB_ENOMEM, KB_ENOTPD
 * (an entry is not finite) leave it useless. About 4/3 n^3 flops. */
enum kb_err kb_spectrum_decompose(struct kb_spectrum *sp, const double *count, const double *sum);

/* The same where K_UU is the identity: T = N and Q = I, with nothing to fill and nothing to fail. O(n). */
void kb_spectrum_of_counts(struct kb_spectrum *sp, const double *count, const double *sum);

/* Likewise for V0 in basis (lower triangle) and b of a dictionary posterior; the basis becomes Q, is_sketch is set.
 * n_observed and largest_diag are the caller's. */
enum kb_err kb_spectrum_decompose_features(struct kb_spectrum *sp, const double *b);

/* w(s) from k_U(s), or z(s), for the n_c columns of a block, which is spoilt; ld >= n is that of both. 2 n^2 flops a
 * column. */
void kb_spectrum_project(const struct kb_spectrum *sp, double *block, size_t ld, size_t n_c, double *w);

/* At KB_RIDGE_LANES ridges, each with a w of its own: entry i of w k is w[i KB_RIDGE_LANES + k]. */
#define KB_RIDGE_LANES 8u
struct kb_ridge_sums {
    double mean[KB_RIDGE_LANES];   /* w^T (T + a I)^-1 yt */
    double known[KB_RIDGE_LANES];  /* w^T (T + a I)^-1 w */
    double energy[KB_RIDGE_LANES]; /* yt^T (T + a I)^-1 yt */
};
void kb_spectrum_sums(const struct kb_spectrum *sp, const double *w, const double *a, struct kb_ridge_sums *out);

double kb_spectrum_log_det(const struct kb_spectrum *sp, double a);             /* ln det(I + K_t / a) */
double kb_spectrum_effective_dimension(const struct kb_spectrum *sp, double a); /* tr K_t (K_t + a I)^-1 */
/* yt^T (T + a I)^-1 yt: y^T (K_t + a I)^-1 y less the scatter's own share, scatter / a. */
double kb_spectrum_energy(const struct kb_spectrum *sp, double a);

#endif
