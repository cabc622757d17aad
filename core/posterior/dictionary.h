/* The dictionary of a posterior: which points enter it, one by one or all anew. Representations that grow none answer
 * "no". The writer's calls, one thread at a time; [shared] and [exclusive] as in posterior.h. */
#ifndef KB_DICTIONARY_H
#define KB_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"

struct kb_posterior;

/* A dictionary point by the history row that holds it, with its inclusion probability (1 under `threshold`). */
struct kb_atom {
    size_t row;
    double probability;
};

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

#endif
