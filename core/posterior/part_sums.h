/* What the variances of a kernel's components are learned from, beside the regression on their features
 * (marginal_features.h): sums over observations, each by its weight.
 *
 *   mass_i     of z_i                               missed_j     of k_j(s,s) - |z_j|^2, what the dictionary misses
 *   count      of 1                                 sum          of rewards
 *
 * A dictionary posterior whose kernel is a sum keeps them (post_nystrom.c). */
#ifndef KB_PART_SUMS_H
#define KB_PART_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/moves.h"
#include "kernel/support.h"

struct kb_part_sums {
    double *mass; /* [m] */
    size_t cap;
    double missed[KB_N_PARTS]; /* >= 0 but for rounding */
    double count, sum;
};

void kb_part_sums_close(struct kb_part_sums *p);
/* Room for m coordinates after the swap of moves (moves.h). KB_ENOMEM. */
enum kb_err kb_part_sums_grow(struct kb_part_sums *p, size_t m, struct kb_moves *moves);
void kb_part_sums_clear(struct kb_part_sums *p, size_t m); /* no observations any more */
/* Observations of weight `count` at one point, of which missed[j] is missed, with rewards of this sum. O(m). */
void kb_part_sums_add(struct kb_part_sums *p, size_t m, const double *z, const double *missed, double count,
                      double sum);
/* Coordinate m, of component `part`: over all observations, sums of its square and of itself. Room reserved. */
void kb_part_sums_append(struct kb_part_sums *p, uint32_t part, size_t m, double square, double mass);
void kb_part_sums_scale(struct kb_part_sums *p, size_t m, double left); /* all counts for `left` of what it did */

/* With the components of the m points. load: KB_ECORRUPT for one that there is not. */
uint64_t kb_part_sums_digest(const struct kb_part_sums *p, const uint32_t *part, size_t m, uint64_t h);
void kb_part_sums_save(const struct kb_part_sums *p, const uint32_t *part, size_t m, struct kb_writer *w);
enum kb_err kb_part_sums_load(struct kb_part_sums *p, uint32_t *part, size_t m, struct kb_reader *r);

#endif
