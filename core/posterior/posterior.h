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
 *
 *   mean(s) = z.V^-1 b,   sd^2(s) = r(s) + lambda z.V^-1 z,   r = k(s,s) - z.z     (GP scale, reward units)
 *
 * Writer calls come from one thread at a time. Those marked [shared] may run beside readers (predict),
 * those marked [exclusive] may not. */
#ifndef KB_POSTERIOR_H
#define KB_POSTERIOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/evidence.h"
#include "kernel/kernel.h"
#include "base/moves.h"

struct kb_arms;
struct kb_posterior; /* opaque; owns its kernel */
struct kb_spectrum;

/* A dictionary point by the history row that holds it, with its inclusion probability (1 under `threshold`). */
struct kb_atom {
    size_t row;
    double probability;
};

/* Empty posterior for spec over the graph (borrowed; may be NULL). Takes O(n^3) for dense graphs. [building] */
enum kb_err kb_posterior_new(struct kb_posterior **out, const struct kb_spec *spec, const struct kb_graph *graph,
                             struct kb_hash_key key);
/* The same for a spec and a graph whose user kernel is that of `other`: its values are shared, not computed. */
enum kb_err kb_posterior_new_like(struct kb_posterior **out, const struct kb_spec *spec,
                                  const struct kb_posterior *other);
void kb_posterior_free(struct kb_posterior *p);
/* Lets a learned user kernel (mmd) learn from the history, right after `new` and before choose or fill; nothing for
 * the others. KB_ENOMEM. [building] */
enum kb_err kb_posterior_learn_users(struct kb_posterior *p, const struct kb_history *h);

/* --- readers --------------------------------------------------------------------------------------- */

/* Room in *s for predictions (arena and solver). [shared] */
enum kb_err kb_posterior_fit_scratch(const struct kb_posterior *p, struct kb_scratch *s, size_t extra_bytes);
/* The same once everything staged has come. */
enum kb_err kb_posterior_fit_staged(const struct kb_posterior *p, struct kb_scratch *s);
void kb_scratch_init(struct kb_scratch *s);
void kb_scratch_close(struct kb_scratch *s);

/* mean[c], sd[c] >= 0 of the noiseless reward for every candidate. No allocation. Nystrom: O(C m (d + m)). [shared] */
void kb_posterior_predict(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                          double *mean, double *sd);

/* Arm factors of the catalogue, kept for predictions in at most so many bytes (arm_columns.h); `arms` is the catalogue
 * that candidates' stamps come from, always the same one. Steps as those of settle and publish below; what publish
 * returns is no longer in force, and to be freed by kb_free. keep: [shared] O(arms); publish: [exclusive] O(1) */
void kb_posterior_keep_arms(struct kb_posterior *p, const struct kb_arms *arms, size_t most);
bool kb_posterior_has_kept(const struct kb_posterior *p); /* something waits for publish */
void *kb_posterior_publish_arms(struct kb_posterior *p);
size_t kb_posterior_kept_bytes(const struct kb_posterior *p); /* part of kb_posterior_bytes. O(1) */

/* --- learning -------------------------------------------------------------------------------------- */

/* Memory, and user columns, for one more learning step at point pt; adds up over calls until they are used
 * or discarded. [shared] May solve for a user column. */
enum kb_err kb_posterior_stage_learn(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
/* Room in what readers see for all that is staged: what has to move is added to m, and the room is there after the
 * swap (moves.h); with memory in *s for work on that many points. Nothing is added when there is room. KB_ENOMEM.
 * [shared] O(n^2) once in so many points as there are. */
enum kb_err kb_posterior_grow(struct kb_posterior *p, struct kb_scratch *s, struct kb_moves *m);
void kb_posterior_discard(struct kb_posterior *p); /* forgets everything staged [shared] */

/* One more observation at pt, by its weight in the posterior's unit: d_count is the weight, d_sum the reward times it,
 * d_square the reward's square; a correction has a d_count of 0 and the difference in d_sum. Without forgetting a
 * weight is 1. Cannot fail after staging. [exclusive] */
void kb_posterior_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                        double d_square, struct kb_scratch *s);

/* clang-format off */
/* Forgetting (decay.h). An observation of weight 1 counts as 2^(its halvings - unit); when the unit moves on, all that
 * is there loses weight by one factor, and the ridge, which in the meantime has been a little too small for what is
 * left (up to a tenth), is lambda again. In steps, none of which can fail but the first:
 *
 *     reserve_spare   memory for a second factor, for all that is staged    [shared]
 *     prepare_unit    that factor: O(n^3)                                   [shared]
 *     take_unit       shows it: O(n^2)                                      [exclusive] */
/* clang-format on */
double kb_posterior_unit(const struct kb_posterior *p);
enum kb_err kb_posterior_reserve_spare(struct kb_posterior *p);
void kb_posterior_prepare_unit(struct kb_posterior *p, double unit, struct kb_scratch *s);
void kb_posterior_take_unit(struct kb_posterior *p, struct kb_scratch *s);

/* What the rewards have proved so far (evidence.h), for a posterior that goes on from here: the running sums of a
 * dictionary; of an exact posterior, which needs none itself, what they amount to [TC, eq. 8], under a mixture at each
 * of its ridges. O(n); under a mixture an exact posterior that is not settled is decomposed for it. KB_ENOMEM. And
 * back. [writer] */
enum kb_err kb_posterior_evidence(const struct kb_posterior *p, struct kb_scratch *s, struct kb_evidence *out);
void kb_posterior_set_evidence(struct kb_posterior *p, const struct kb_evidence *e); /* then fill or settle */

/* --- what confidence rules read --------------------------------------------------------------------------- */

/* Where the spec's rule reads a spectrum, `settle` makes that of all that is learned so far, and `publish` shows it to
 * readers; until then they see the last one. Nothing to do otherwise, or when nothing was learned since; and not before
 * the observations have grown by a sixteenth where candidates are not ranked by the bounds (kb_conf_spec.score) and the
 * support is large. After new, fill and load the spectrum is current. KB_ENOMEM, KB_ENOTPD leave the last one in force.
 * [shared] O(n^3) */
enum kb_err kb_posterior_settle(struct kb_posterior *p, struct kb_scratch *s);
bool kb_posterior_has_settled(const struct kb_posterior *p); /* something waits for publish */
void kb_posterior_publish(struct kb_posterior *p);           /* [exclusive] O(1) */

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

/* --- dictionary (representations that grow one; the exact one answers "no") ---------------------------- */

/* Whether pt enters the dictionary: probability by the admission rule, compared with `uniform` in [0,1).
 * Points of residual < 1e-6 k(s,s) and a full dictionary never admit. [shared] O(m^2). */
bool kb_posterior_admits(struct kb_posterior *p, const struct kb_point *pt, double uniform, struct kb_scratch *s,
                         double *probability);

/* Admission in steps, so that nothing long runs under exclusion or keeps the model from learning (nystrom_admit.c):
 *   stage   memory and the user's column, as for a learning step                                     [shared]
 *   put     the point, with its probability, where readers do not look                               [shared]
 *   open    what is learned from here on counts for the point, too                                   [exclusive, O(1)]
 *   sweep   the new coordinate of every row of the history as it was at `open`; false: it was told to end through
 *           s->watch and is to be made again. Beside readers and beside learning, by any thread.     [O(n m)]
 *   close   the sweep and what was learned since make the borders of V and b; once                   [shared]
 *   commit  the point is in the dictionary                                                           [exclusive]
 * node_of: of every user in the history. sweep_work: multiply-adds that a sweep over n rows would take, roughly. */
enum kb_err kb_posterior_stage_atom(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
void kb_posterior_put_atom(struct kb_posterior *p, const struct kb_point *pt, double probability, struct kb_scratch *s);
void kb_posterior_open_atom(struct kb_posterior *p);
bool kb_posterior_sweep(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                        struct kb_scratch *s);
void kb_posterior_close_atom(struct kb_posterior *p);
void kb_posterior_abandon_atom(struct kb_posterior *p); /* instead of close and commit: nothing has entered */
void kb_posterior_commit_atom(struct kb_posterior *p, struct kb_scratch *s);
double kb_posterior_sweep_work(const struct kb_posterior *p, size_t n_rows);

/* Chooses a dictionary for the whole history under spec p: rows in order, one chance per observation
 * (1 - (1-prob)^count), uniform numbers keyed by (key, row). *atoms is allocated (kb_free), may be NULL when
 * *n is 0. p must be empty and is left with the dictionary's A factor only; follow with kb_posterior_fill. */
enum kb_err kb_posterior_choose(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                                uint64_t key, struct kb_scratch *s, struct kb_atom **atoms, size_t *n);

/* --- resampled dictionaries (bkb, bbkb)  [BKB, Alg. 1] --- */

/* Sum of sd^2 / lambda over the rewards learned since the dictionary was drawn, each as it was before its step; and
 * whether it is time to draw another: 1 + sum > C, where bkb's C is 1. Never for other representations. O(1). */
double kb_posterior_accumulated(const struct kb_posterior *p);
bool kb_posterior_is_outdated(const struct kb_posterior *p);

/* Like choose, with p_j = min(1, q sd^2(s_j) / lambda) per observation from the variances under `from`: another
 * posterior of the same kernel, or p itself (empty: the prior's). Independent of the order of rows, but for ties: a row
 * that adds no direction to those before it is left out. Never empty where some k(s,s) > 0. */
enum kb_err kb_posterior_resample(struct kb_posterior *p, const struct kb_posterior *from, const struct kb_history *h,
                                  const uint32_t *node_of, uint64_t key, struct kb_scratch *s, struct kb_atom **atoms,
                                  size_t *n);

/* Teaches an empty posterior the whole history with the given dictionary (exact: atoms ignored, all rows).
 * Deterministic: the same history, atoms and spec give the same bits, after choose or not. KB_ENOMEM, KB_ENOTPD
 * leave it unusable (free it). [building] */
enum kb_err kb_posterior_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                              const struct kb_atom *atoms, size_t n, struct kb_scratch *s);

/* --- facts ------------------------------------------------------------------------------------------ */

struct kb_posterior_facts {
    size_t n_support;           /* dictionary size m, or distinct points */
    double effective_dimension; /* tr V0 (V0 + lambda I)^-1 */
    double information_gain;    /* 1/2 ln det(I + K/lambda) of the representation */
    uint64_t n_empty;           /* decisions with an empty confidence set since the posterior was made */
    uint64_t n_clamped;         /* pivots or residuals lifted to their floor: degradation, not an error */
    size_t bytes;
};

/* For a served model in two steps, so that nobody waits for the long one: `look` copies what it takes [shared, O(m^2)],
 * `finish` works without the posterior, O(m^3 / 3), and frees the copy (NULL out: only that). */
struct kb_facts_work;
enum kb_err kb_posterior_look(const struct kb_posterior *p, struct kb_facts_work **work);
enum kb_err kb_facts_finish(struct kb_facts_work *work, struct kb_posterior_facts *out);

size_t kb_posterior_bytes(const struct kb_posterior *p); /* O(1) */
/* At most: of one like p with room for n support points; and of p with n_more than are staged. For the writer. O(1) */
size_t kb_posterior_bytes_for(const struct kb_posterior *p, size_t n);
size_t kb_posterior_bytes_with(const struct kb_posterior *p, size_t n_more);
/* Of one arm's n points in a posterior that holds arms apart. */
size_t kb_posterior_arm_bytes(const struct kb_spec *spec, size_t n);
size_t kb_posterior_scratch_with(const struct kb_posterior *p, size_t n_more); /* of the writer's scratch, then */
/* Distinct points held (exact) or dictionary size. O(1). */
size_t kb_posterior_n_support(const struct kb_posterior *p);
uint64_t kb_posterior_n_clamped(const struct kb_posterior *p); /* as in the facts. O(1) */
struct kb_point kb_posterior_support_point(const struct kb_posterior *p, size_t i);
/* Both steps below in one call. [shared] */
enum kb_err kb_posterior_facts(const struct kb_posterior *p, struct kb_posterior_facts *out);
const struct kb_kernel *kb_posterior_kernel(const struct kb_posterior *p);

uint64_t kb_posterior_digest(const struct kb_posterior *p, uint64_t h);
uint64_t kb_posterior_content_digest(const struct kb_posterior *p, uint64_t h); /* without the evidence */

/* Exact bits out and in; load wants a posterior fresh from kb_posterior_new with the same spec and graph. */
void kb_posterior_save(const struct kb_posterior *p, struct kb_writer *w);
enum kb_err kb_posterior_load(struct kb_posterior *p, struct kb_reader *r, struct kb_scratch *s);

#endif
