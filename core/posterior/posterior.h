/* Gaussian-process posterior over points, behind one interface with three kinds of representation:
 *
 *   exact    (post_exact.c)    Cholesky factor of K_UU + lambda diag(1/count) over all distinct points U, which
 *                              is the GP posterior of LK eq. 3 and TC eq. 2-3 on the full history; O(|U|^2) per event.
 *                              Where K_UU is the identity: no factor, O(1)                      (post_diagonal.c)
 *   by arm   (post_by_arm.c)   the same for each arm by itself, whose kernel is a sum of components; an arm of n points
 *                              costs O(n^2) where it is a candidate or is rewarded
 *   nystrom  (post_nystrom.c)  features z(s) = A^-1 k_Z(s) over a dictionary Z, V = sum z z^T + lambda I = R R^T
 *                              [EK, Prop. 4.2]; O(m^2) per event and C m^2 per decision. The dictionary grows by
 *                              an admission rule (admission.h): KORS [EK, eq. 41] or residual threshold; or it is
 *                              drawn anew from the variances now and then (nystrom_resample.c) [BKB, Alg. 1].
 *                              By component: of a kernel that is a sum, with points for each (component_kernel.h).
 *
 *   mean(s) = z.V^-1 b,   sd^2(s) = r(s) + lambda z.V^-1 z,   r = k(s,s) - z.z     (GP scale, reward units)
 *
 * Here are making, predictions and facts; learning.h has what changes a posterior, dictionary.h what chooses points.
 * Writer calls come from one thread at a time. Those marked [shared] may run beside readers (predict),
 * those marked [exclusive] may not. */
#ifndef KB_POSTERIOR_H
#define KB_POSTERIOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"

struct kb_posterior; /* opaque; owns its kernel */
struct kb_spectrum;

/* Empty posterior for spec over the graph (borrowed; may be NULL). Takes O(n^3) for dense graphs. [building] */
enum kb_err kb_posterior_new(struct kb_posterior **out, const struct kb_spec *spec, const struct kb_graph *graph,
                             struct kb_hash_key key);
/* The same for a spec and a graph whose user kernel is that of `other`: its values are shared, not computed. */
enum kb_err kb_posterior_new_like(struct kb_posterior **out, const struct kb_spec *spec,
                                  const struct kb_posterior *other);
void kb_posterior_free(struct kb_posterior *p);

/* --- readers --------------------------------------------------------------------------------------- */

/* Room in *s for predictions (arena and solver). [shared] */
enum kb_err kb_posterior_fit_scratch(const struct kb_posterior *p, struct kb_scratch *s, size_t extra_bytes);
void kb_scratch_init(struct kb_scratch *s);
void kb_scratch_close(struct kb_scratch *s);

/* mean[c], sd[c] >= 0 of the noiseless reward for every candidate. No allocation. Nystrom: O(C m (d + m)). [shared] */
void kb_posterior_predict(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                          double *mean, double *sd);

/* Whether the following is to be had, and worth while, for so many candidates. */
#define KB_MOST_TOP 16u
bool kb_posterior_can_narrow(const struct kb_posterior *p, size_t n_candidates, size_t n_top);
/* Where only the n_top highest mean + beta sd are wanted: mean and sd of all candidates that have one of them, or tie
 * with one that has, as predict computes them. Of others the mean may differ by rounding, and sd be NaN. Extra scratch:
 * top_bytes. O(C m (d + m_top)) of a dictionary, with m_top of the order m for few of them. [shared] */
void kb_posterior_predict_top(const struct kb_posterior *p, const struct kb_candidates *cand, double beta, size_t n_top,
                              struct kb_scratch *s, double *mean, double *sd);
size_t kb_posterior_top_bytes(const struct kb_posterior *p, size_t n_candidates);
/* Where only those lines mean + u beta sd are wanted that are on top of the others at some u from 0 to 40
 * (KB_MOST_U): mean and sd of all
 * candidates whose line is, or ties with one that is, as predict computes them. Of others the mean may be larger, but
 * below what is on top at u = 0, and sd be NaN. has_lines: whether it is to be had. [shared] */
bool kb_posterior_has_lines(const struct kb_posterior *p);
void kb_posterior_predict_lines(const struct kb_posterior *p, const struct kb_candidates *cand, double beta,
                                struct kb_scratch *s, double *mean, double *sd);
/* predict for n <= 64 of the candidates, at[i]; mean[at[i]] and sd[at[i]] are set. [shared] */
void kb_posterior_predict_at(const struct kb_posterior *p, const struct kb_candidates *cand, const size_t *at, size_t n,
                             struct kb_scratch *s, double *mean, double *sd);

/* Points that a decision has chosen and not been told of yet, of one user: predict_beside knows their variances, as if
 * each had been observed to be what it was expected (BBKB's hallucination, within one decision): means are those of
 * predict, and
 *
 *   cov' = cov - cov(s, s_j) cov(s_j, s') / (cov(s_j, s_j) + lambda / weight)        for each, one after the other.
 *
 * Over a dictionary, V + z z' (what z misses of a point is left as it is). Where arms are held apart points of other
 * arms know nothing of each other, and nothing changes. weight: of one more observation, in the posterior's unit. */
struct kb_beside {
    size_t n, cap;
    double noise;
    double *solved;          /* [cap][n_support] */
    double *factor;          /* [cap][cap] of their covariance and the noise, by rows */
    double *x;               /* [cap][dim] */
    struct kb_point *points; /* [cap] */
};
size_t kb_beside_bytes(const struct kb_posterior *p, size_t cap); /* of the arena, for work too */
void kb_beside_init(struct kb_beside *b, const struct kb_posterior *p, size_t cap, double weight, struct kb_scratch *s);
/* Candidate c joins them: fewer than cap are there. O(m (m + n)). [shared] */
void kb_beside_put(struct kb_beside *b, const struct kb_posterior *p, const struct kb_candidates *cand, size_t c,
                   struct kb_scratch *s);
/* O(C (m (d + m) + n (m + n))). [shared] */
void kb_posterior_predict_beside(const struct kb_posterior *p, const struct kb_candidates *cand,
                                 const struct kb_beside *beside, struct kb_scratch *s, double *mean, double *sd);

/* --- what confidence rules read --------------------------------------------------------------------------- */

double kb_posterior_lambda(const struct kb_posterior *p);
double kb_posterior_accuracy(const struct kb_posterior *p); /* epsilon of the spec's representation */
double kb_posterior_log_det(const struct kb_posterior *p);  /* exact: ln det(I + K / lambda); 0 otherwise. O(1) */
bool kb_posterior_is_sketch(const struct kb_posterior *p);  /* whether it holds a dictionary instead of all points */
const struct kb_spectrum *kb_posterior_spectrum(const struct kb_posterior *p); /* NULL when no rule reads it */

/* Candidates c0..c0+n_c-1 (n_c <= 64) on the spectrum: column c of the result (leading dimension *ld) is w(c) of
 * spectrum.h, (*prior)[c] = k(c, c). Both live in the scratch. O(n_c n (n + dim)). */
const double *kb_posterior_project(const struct kb_posterior *p, const struct kb_candidates *cand, size_t c0,
                                   size_t n_c, struct kb_scratch *s, size_t *ld, const double **prior);
void kb_posterior_count_empty(const struct kb_posterior *p); /* a decision whose confidence set was empty */

/* --- facts ------------------------------------------------------------------------------------------ */

#define KB_TOP_EIGENVALUES 32u
struct kb_posterior_facts {
    size_t n_support;           /* dictionary size m, or distinct points */
    double effective_dimension; /* tr V0 (V0 + lambda I)^-1 */
    double information_gain;    /* 1/2 ln det(I + K/lambda) of the representation */
    /* The largest eigenvalues of V0, largest first, as a confidence rule that reads them saw it last: of so many
     * observations. n_top 0: no rule reads it, or the model is empty. */
    double top[KB_TOP_EIGENVALUES], n_seen;
    size_t n_top;
    uint64_t n_empty;   /* decisions with an empty confidence set since the posterior was made */
    uint64_t n_clamped; /* pivots or residuals lifted to their floor: degradation, not an error */
    size_t bytes;
};

/* For a served model in two steps, so that nobody waits for the long one: `look` copies what it takes [shared, O(m^2)],
 * `finish` works without the posterior, O(m^3 / 3), and frees the copy (NULL out: only that). */
struct kb_facts_work;
enum kb_err kb_posterior_look(const struct kb_posterior *p, struct kb_facts_work **work);
enum kb_err kb_facts_finish(struct kb_facts_work *work, struct kb_posterior_facts *out);

size_t kb_posterior_bytes(const struct kb_posterior *p); /* O(1) */
/* Of these, what is kept of arms for predictions (learning.h). O(1) */
size_t kb_posterior_kept_bytes(const struct kb_posterior *p);
/* At most: of one like p with room for n support points; and of p with n_more than are staged. For the writer. O(1) */
size_t kb_posterior_bytes_for(const struct kb_posterior *p, size_t n);
size_t kb_posterior_bytes_with(const struct kb_posterior *p, size_t n_more);
/* Of one arm's n points in a posterior that holds arms apart. */
size_t kb_posterior_arm_bytes(const struct kb_spec *spec, size_t n);
size_t kb_posterior_scratch_with(const struct kb_posterior *p, size_t n_more); /* of the writer's scratch, then */
/* Distinct points held (exact) or dictionary size. O(1). */
size_t kb_posterior_n_support(const struct kb_posterior *p);
/* Points whose square one candidate or one reward goes with: all, or where arms are held apart the root of the mean
 * square of what arms hold, or 1 where there is no factor. O(1). */
double kb_posterior_width(const struct kb_posterior *p);
uint64_t kb_posterior_n_clamped(const struct kb_posterior *p); /* as in the facts. O(1) */
struct kb_point kb_posterior_support_point(const struct kb_posterior *p, size_t i);
/* Both steps below in one call. [shared] */
enum kb_err kb_posterior_facts(const struct kb_posterior *p, struct kb_posterior_facts *out);
const struct kb_kernel *kb_posterior_kernel(const struct kb_posterior *p);

uint64_t kb_posterior_digest(const struct kb_posterior *p, uint64_t h);
uint64_t kb_posterior_content_digest(const struct kb_posterior *p, uint64_t h);    /* without the evidence */
uint64_t kb_posterior_dictionary_digest(const struct kb_posterior *p, uint64_t h); /* points that lines have let in */

/* Exact bits out and in; load wants a posterior fresh from kb_posterior_new with the same spec and graph. */
void kb_posterior_save(const struct kb_posterior *p, struct kb_writer *w);
enum kb_err kb_posterior_load(struct kb_posterior *p, struct kb_reader *r, struct kb_scratch *s);

#endif
