/* What changes a posterior: learning, forgetting, and what readers get to see of it. The writer's calls, one thread at
 * a time; [shared] and [exclusive] as in posterior.h. */
#ifndef KB_LEARNING_H
#define KB_LEARNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/moves.h"
#include "kernel/kernel.h"
#include "spec/evidence.h"

struct kb_arms;
struct kb_atom;
struct kb_posterior;

/* Lets a learned user kernel (mmd) learn from the history, right after `new` and before choose or fill; nothing for
 * the others. KB_ENOMEM. [building] */
enum kb_err kb_posterior_learn_users(struct kb_posterior *p, const struct kb_history *h);

/* Teaches an empty posterior the whole history with the given dictionary (exact: atoms ignored, all rows).
 * Deterministic: the same history, atoms and spec give the same bits, after choose or not. KB_ENOMEM, KB_ENOTPD
 * leave it unusable (free it). [building] */
enum kb_err kb_posterior_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                              const struct kb_atom *atoms, size_t n, struct kb_scratch *s);

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

/* Room in *s for predictions once everything staged has come (kb_posterior_fit_scratch). */
enum kb_err kb_posterior_fit_staged(const struct kb_posterior *p, struct kb_scratch *s);

/* Where the spec's rule reads a spectrum, `settle` makes that of all that is learned so far, and `publish` shows it to
 * readers; until then they see the last one. Nothing to do otherwise, or when nothing was learned since; and not before
 * the observations have grown by a sixteenth where candidates are not ranked by the bounds (kb_conf_spec.score) and the
 * support is large. After new, fill and load the spectrum is current. KB_ENOMEM, KB_ENOTPD leave the last one in force.
 * [shared] O(n^3) */
enum kb_err kb_posterior_settle(struct kb_posterior *p, struct kb_scratch *s);
bool kb_posterior_has_settled(const struct kb_posterior *p); /* something waits for publish */
void kb_posterior_publish(struct kb_posterior *p);           /* [exclusive] O(1) */

/* Arm factors of the catalogue, kept for predictions in at most so many bytes (arm_columns.h); `arms` is the catalogue
 * that candidates' stamps come from, always the same one. Steps as those of settle and publish; what publish
 * returns is no longer in force, and to be freed by kb_free. keep: [shared] O(arms); publish: [exclusive] O(1) */
void kb_posterior_keep_arms(struct kb_posterior *p, const struct kb_arms *arms, size_t most);
bool kb_posterior_has_kept(const struct kb_posterior *p); /* something waits for publish */
void *kb_posterior_publish_arms(struct kb_posterior *p);

#endif
