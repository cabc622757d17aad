/* Ridge regression on features: V = sum n_j z_j z_j^T + lambda I = R R^T, b = sum S_j z_j, w = R^-1 b, with
 * n_j observations and reward sum S_j at point j.
 *
 * The posterior over a dictionary (post_nystrom.c) is this on z = A^-1 k_Z (features.h). Changes need
 * exclusion, prediction is const and runs in any number of threads. */
#ifndef KB_RIDGE_H
#define KB_RIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "linalg/chol.h"
#include "spec/evidence.h"

struct kb_ridge {
    /* R, of order m */
    struct kb_chol r;
    /* [cap], m in use; w follows b and R at every change */
    double *b, *w;
    size_t cap; /* of b and w */
    double lambda;
    struct kb_chol spare; /* the writer's: what R will be when all has lost weight */
};

void kb_ridge_init(struct kb_ridge *v, double lambda);
void kb_ridge_close(struct kb_ridge *v);
/* Room for n coordinates after the swap of m (moves.h), what is there kept. KB_ENOMEM. */
enum kb_err kb_ridge_grow(struct kb_ridge *v, size_t n, struct kb_moves *m);

/* Adds d_count observations with rewards summing to d_sum at the feature z (destroyed). *out (NULL: nobody asks) is
 * what was foretold of it before, z.V^-1 b and z.V^-1 z; a correction, d_count 0, leaves it alone. O(m^2). */
void kb_ridge_learn(struct kb_ridge *v, double *z, double d_count, double d_sum, struct kb_foretold *out);

/* One more coordinate: `cross` = sum n_j z_new,j z_j (length m, destroyed), `square` = sum n_j z_new,j^2, `target` =
 * sum S_j z_new,j. Room reserved. True when the pivot had to be lifted. O(m^2). */
bool kb_ridge_append(struct kb_ridge *v, double *cross, double square, double target);

/* Replaces everything, over m coordinates (room reserved), in three steps: clear; accumulate any number of blocks
 * of n_c feature columns (destroyed) with their counts n_j and reward sums S_j; factor. KB_ENOTPD leaves the
 * regression empty: lambda has drowned in the rounding of V0. is_lifted: lambda is taken to be as large as that. O(m^2)
 * per column, O(m^3 / 3) at the end. */
void kb_ridge_clear(struct kb_ridge *v, size_t m);
void kb_ridge_accumulate(struct kb_ridge *v, size_t m, double *z, size_t ld, size_t n_c, const double *count,
                         const double *sum);
enum kb_err kb_ridge_factor(struct kb_ridge *v, size_t m, bool is_lifted);
/* Takes over what `from` has gathered since its clear, before it is factored: the same sums under another lambda. */
void kb_ridge_gather_from(struct kb_ridge *v, const struct kb_ridge *from, size_t m);

/* Forgetting: all observations so far count for `left` < 1 of what they did, in three steps. reserve_spare: room for n
 * coordinates (KB_ENOMEM). prepare_left: the factor of left V0 + lambda I to the side, beside readers; true when
 * rounding had the ridge left as it was, smaller by the same share. take_left shows it, b and w with it. work: m
 * KB_RIDGE_PANEL doubles. O(m^3 / 3) twice to prepare, O(m^2) to take. */
enum kb_err kb_ridge_reserve_spare(struct kb_ridge *v, size_t n);
bool kb_ridge_prepare_left(struct kb_ridge *v, double left, double *work);
void kb_ridge_take_left(struct kb_ridge *v, double left);

/* V0 = V - lambda I into a (m x m, leading dimension m, lower triangle). work: m KB_RIDGE_PANEL doubles. O(m^3 / 3). */
#define KB_RIDGE_PANEL 64u
void kb_ridge_gram(const struct kb_ridge *v, double *a, double *work);

/* mean[c] = z_c.V^-1 b and spread[c] = z_c.V^-1 z_c for n_c columns of z (destroyed). O(m^2) per column. */
void kb_ridge_predict(const struct kb_ridge *v, double *z, size_t ld, size_t n_c, double *mean, double *spread);

/* tr V0 V^-1 and 1/2 ln det(V / lambda), V0 = V - lambda I; scratch of m doubles. O(m^3 / 3). */
double kb_ridge_information_gain(const struct kb_ridge *v);

uint64_t kb_ridge_digest(const struct kb_ridge *v, uint64_t h);
void kb_ridge_save(const struct kb_ridge *v, struct kb_writer *w);
enum kb_err kb_ridge_load(struct kb_ridge *v, size_t m, struct kb_reader *r); /* room reserved */
size_t kb_ridge_bytes(const struct kb_ridge *v);

#endif
