/* Nystrom features over a dictionary Z: K_ZZ = A A^T, z(s) = A^-1 k_Z(s), r(s) = k(s,s) - z.z.
 * The dictionary's points live in the posterior's support; this is the factor A and what is done with it. */
#ifndef KB_FEATURES_H
#define KB_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "linalg/chol.h"

/* Points of residual below this share of k(s,s) add no direction and are never admitted; see features.c. */
#define KB_RESIDUAL_MIN 1e-6

struct kb_features {
    struct kb_chol a;
};

/* The new row of A that a point would add, and what finds the new coordinate of every other point:
 *   l = z(new), pivot = sqrt(r(new)), q = A^-T l, so that  z_new,j = (k(new, s_j) - q.k_Z(s_j)) / pivot. */
struct kb_feature_border {
    double *l, *q; /* [m], the caller's memory */
    double pivot;
    bool is_clamped; /* the residual was below its floor */
};

void kb_features_init(struct kb_features *f);
void kb_features_close(struct kb_features *f);
/* Room for a dictionary of n points after the swap of m (moves.h), the factor kept. KB_ENOMEM. */
enum kb_err kb_features_grow(struct kb_features *f, size_t n, struct kb_moves *m);

/* In place: k_Z(s) becomes z(s); for n_c columns of leading dimension ld likewise. O(m^2) per column. */
void kb_features_map(const struct kb_features *f, double *k_z);
void kb_features_map_many(const struct kb_features *f, double *k_z, size_t ld, size_t n_c);

/* max(k(s,s) - z.z, 0) for n_c columns. */
void kb_features_residuals(const struct kb_features *f, const double *z, size_t ld, size_t n_c, const double *diag,
                           double *residual);

/* Border of A by a point with kernel column k_z and k(s,s) = diag. Fills l, q and the rest. O(m^2). */
void kb_features_border(const struct kb_features *f, const double *k_z, double diag, struct kb_feature_border *border);

/* New coordinates of n_c points from their kernel columns over Z and the new point: columns of length m + 1,
 * leading dimension ld, the new point's value last. O(m n_c). */
void kb_features_new_coordinates(const struct kb_features *f, const struct kb_feature_border *border, const double *k,
                                 size_t ld, size_t n_c, double *out);

void kb_features_append(struct kb_features *f, const struct kb_feature_border *border);

uint64_t kb_features_digest(const struct kb_features *f, uint64_t h);
void kb_features_save(const struct kb_features *f, struct kb_writer *w);
enum kb_err kb_features_load(struct kb_features *f, size_t m, struct kb_reader *r); /* room reserved */

#endif
