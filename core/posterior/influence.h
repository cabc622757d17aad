/* What each observation adds to a posterior's mean at a point: the mean is linear in the rewards, so it is a sum with a
 * term for every row of the history.
 *
 *   mean(s) = mu + sum_j h_j (S_j - n_j mu)       row j: n_j observations, rewards that sum to S_j; mu the prior mean
 *
 *   exact      h_j = alpha_i / n_i,  alpha = (K_UU + lambda N^-1)^-1 k_U(s),  i the point of row j       post_exact.c
 *   by arm     the same over the points of the arm alone; 0 for rows of other arms                    post_by_arm.c
 *   diagonal   h_j = 1 / (n_i + a) where i is s itself; 0 elsewhere                                 post_diagonal.c
 *   nystrom    h_j = k_Z(s_j).g,  g = A^-T V^-1 z(s): b = sum_j (S_j - n_j mu) z_j and z_j = A^-1 k_Z(s_j),
 *              so a row counts by its own features, not by the dictionary's points                   post_nystrom.c
 *
 * h_j (S_j - n_j mu) is what the mean would lose if the rewards of row j had all been mu, at the scales and the
 * dictionary as they are. n_j and S_j are weights under forgetting (kb_history_count, kb_history_sum). A row at a point
 * that is not held (exact_limit, or all its weight is lost) has h_j = 0. Of a point that has faded away an exact
 * posterior keeps KB_LEAST_COUNT, and its rows less: there the sum misses as little. */
#ifndef KB_INFLUENCE_H
#define KB_INFLUENCE_H

#include "posterior/posterior.h"

struct kb_influence {
    double prior;   /* mu */
    double *weight; /* [support] the caller's: alpha_i / n_i of the points held; a dictionary's g */
    uint32_t arm;   /* rows of other arms add nothing; KB_ID_NONE: those of any arm may */
};

/* Of the one candidate of `cand`; in->weight has room for kb_posterior_n_support doubles. With a scratch that fits. No
 * allocation. Exact O(n^2), by arm O(n^2) of the arm's n and O(support), diagonal O(support), nystrom O(m (dim + m)).
 * [shared] */
void kb_posterior_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                            struct kb_influence *in);
/* h_j of a row at this point. Expected O(dim); nystrom O(m (dim + 1)). [shared] */
double kb_posterior_row_influence(const struct kb_posterior *p, const struct kb_influence *in,
                                  const struct kb_point *row, struct kb_scratch *s);

/* Whether the kernel compares users at all: else a reward counts alike whoever gave it, and h_j does not hang on the
 * user of row j. O(1). */
bool kb_posterior_tells_users(const struct kb_posterior *p);
/* Multiply-adds of both for n_rows rows, in round numbers. O(1). */
double kb_posterior_influence_work(const struct kb_posterior *p, size_t n_rows);

#endif
