/* Deviations that know open decisions: a decision without a reward yet counts in variances as if a reward had come that
 * says what is believed already, and means stay what they are (GP-BUCB; [BKB]'s batches). Of a configuration with
 * `pending` hallucinate; elsewhere counts_open is false and nothing else here is to be called.
 *
 *   V_h = V + sum of z z^T over open decisions            mean(s) by V,  sd(s) by V_h
 *
 * A point is opened when it is shown, and then learned (learn_open: variances stay what they are) or taken back.
 * Staging and growth are those of a learning step (learning.h). */
#ifndef KB_OPEN_H
#define KB_OPEN_H

#include "posterior/learning.h"

bool kb_posterior_counts_open(const struct kb_posterior *p);
size_t kb_posterior_n_open(const struct kb_posterior *p); /* O(1) */

/* Memory for one more. [shared] May solve for a user column. */
enum kb_err kb_posterior_stage_open(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
/* Cannot fail after staging. False where all points are held and there is no room for one more: then it is not open.
 * O(n^2). [exclusive] */
bool kb_posterior_open(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
/* Of one that was opened: no reward will come. Nothing is staged. O(n^2). [exclusive] */
void kb_posterior_take_back(struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
/* kb_posterior_learn of one that was opened: its first reward has come. [exclusive] */
void kb_posterior_learn_open(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                             double d_square, struct kb_scratch *s);

/* Opens n points at once in a posterior that nobody reads and that knows of none; which of them are open then.
 * KB_ENOMEM. [building] */
enum kb_err kb_posterior_open_all(struct kb_posterior *p, const struct kb_point *pts, size_t n, bool *is_open,
                                  struct kb_scratch *s);

/* Before commit_atom: what the open decisions, which these are, add to the coordinate that enters. O(n m (dim + 1)).
 * [shared] */
void kb_posterior_sweep_open(struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s);

/* Whether most points of the second posterior are of decisions that were taken back, or many and it is full. O(1). */
bool kb_posterior_holds_dead(const struct kb_posterior *p);

#endif
