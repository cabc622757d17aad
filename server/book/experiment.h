/* The book of an experiment: sums over a tenant's decisions from which a verdict follows that survives peeking.
 *
 * A decision waits in a queue until its reward is final and everything before it has been counted (the watermark). Then
 * it is counted once: in the pair of its arm and the baseline, in what its arm earned, and in the check of traffic.
 *
 *     final     under `first` with its reward; under `sum` and `last`, and without a reward, when its window closes
 *     reward    what was told within the window; none: the default reward, or 0; then clipped to the range
 *     counted   decisions of the policy and of the holdout that tell their odds, once they were shown
 *     not       arms that stuck, a stopped tenant, observations, slots but the first, rewards after the window
 *
 * The holdout is one draw a user, so policy against holdout counts the first decision of each user alone.
 *
 * Sums begin at the line of the log that sets the experiment, and anew where one of these changes: the experiment, the
 * ids of the catalogue, the holdout's share, and the reach of a pair where the rule may show an arm more rarely than
 * before. Decisions that wait then are dropped.
 *
 * Verdicts that stay are taken at looks that are a function of the log: at each decision up to 100, then at every
 * hundredth part more. */
#ifndef LD_BOOK_EXPERIMENT_H
#define LD_BOOK_EXPERIMENT_H

#include "book/book.h"
#include "types/experiment.h"

extern const struct ld_book_kind ld_experiment_book;

/* What it says now. Some microseconds an arm. */
void ld_experiment_look(const void *book, struct ld_experiment_view *out);

/* Whether the traffic was found not to match, at a look that stays. */
bool ld_experiment_is_void(const void *book);

#endif
